"""Estimators of texts whose tasks share how words are composed (paper 004)."""

from .classifier import MetaLSTMClassifier
from .tagger import MetaLSTMTagger

__all__ = ["MetaLSTMClassifier", "MetaLSTMTagger"]
