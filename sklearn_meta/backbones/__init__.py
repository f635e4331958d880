"""Backbones: torch modules that read a whole task at once, one file a paper or a rival."""

from .vsa import VSA

#: Architectures by the name that ``backbone=`` and the weight cards use.
BACKBONES = {"vsa": VSA}

__all__ = ["BACKBONES", "VSA"]
