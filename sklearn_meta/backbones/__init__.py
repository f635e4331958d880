"""Backbones: torch modules that read a whole task at once, one file a paper or a rival."""

from .att_hml import AttHML
from .deep_sets import DeepSets
from .exchangeable import Exchangeable
from .hml import HML
from .maml import MAML
from .mann import MANN
from .mixture_transformer import MixtureTransformer
from .set_transformer import SetTransformer
from .vsa import VSA

#: Architectures by the name that ``backbone=`` and the weight cards use.
BACKBONES = {
    "vsa": VSA,
    "deep_sets": DeepSets,
    "exchangeable": Exchangeable,
    "hml": HML,
    "att_hml": AttHML,
    "maml": MAML,
}

__all__ = [
    "BACKBONES",
    "MAML",
    "MANN",
    "VSA",
    "AttHML",
    "DeepSets",
    "Exchangeable",
    "HML",
    "MixtureTransformer",
    "SetTransformer",
]
