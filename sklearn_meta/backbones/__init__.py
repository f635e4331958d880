"""Backbones: torch modules that read a whole task at once, one file per method."""

from .att_hml import AttHML
from .deep_sets import DeepSets
from .exchangeable import Exchangeable
from .few_shot_transformer import FewShotTransformer
from .hml import HML
from .maml import MAML
from .mann import MANN
from .mixture_transformer import MixtureTransformer
from .set_transformer import SetTransformer
from .snail import SNAIL
from .text_sharing import TEXT_BACKBONES
from .vsa import VSA
from .vsa_pair import VSAPair

#: Architectures by the name that ``backbone=`` and the weight cards use.
BACKBONES = {
    "vsa": VSA,
    "vsa_pair": VSAPair,
    "deep_sets": DeepSets,
    "exchangeable": Exchangeable,
    "hml": HML,
    "att_hml": AttHML,
    "maml": MAML,
}

#: Architectures for episodes of a fixed shape: the class of each, and its keyword arguments.
FEW_SHOT_BACKBONES = {
    "few_shot_transformer": (FewShotTransformer, {}),
    "transformer": (FewShotTransformer, {"attention": "A1", "n_heads": 4}),
    "snail": (SNAIL, {}),
}

__all__ = [
    "BACKBONES",
    "FEW_SHOT_BACKBONES",
    "MAML",
    "MANN",
    "SNAIL",
    "TEXT_BACKBONES",
    "VSA",
    "AttHML",
    "DeepSets",
    "Exchangeable",
    "FewShotTransformer",
    "HML",
    "MixtureTransformer",
    "SetTransformer",
    "VSAPair",
]
