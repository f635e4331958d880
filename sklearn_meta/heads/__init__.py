"""Heads, which turn a backbone's embeddings into predictions, in closed form."""

from .crf import LinearChainCRF
from .gaussian_process import AttributeGaussianProcess, GaussianProcess
from .label_propagation import LabelPropagation
from .label_words import GaussianTargets, OneHotLabels, StringLabels
from .learned_moments import LearnedMoments
from .linear import LinearClassifier, LinearRegressor
from .odd_at_scales import OddAtScales
from .odd_one_out import OddOneOut
from .prototypes import Prototypes
from .prototypes_gp import PrototypesGP
from .text import CRFLayer, SoftmaxLayer
from .warped_gaussian_process import WarpedGaussianProcess
from .ways import LabelAttention, LastPosition

#: Heads by task and by the name that ``head=`` and the weight cards use.
HEADS = {
    "classification": {
        "prototypes": Prototypes,
        "prototypes_gp": PrototypesGP,
        "label_propagation": LabelPropagation,
        "linear": LinearClassifier,
    },
    "regression": {
        "gp": GaussianProcess,
        "gp_attributes": AttributeGaussianProcess,
        "gp_warped": WarpedGaussianProcess,
        "linear": LinearRegressor,
    },
    "outlier_detection": {"odd_one_out": OddOneOut, "odd_at_scales": OddAtScales},
    "online_classification": {"onehot": OneHotLabels, "string": StringLabels},
    "online_regression": {"gaussian": GaussianTargets},
    "text_classification": {"softmax": SoftmaxLayer},
    "text_tagging": {"crf": CRFLayer},
    "few_shot": {"label_attention": LabelAttention, "last_position": LastPosition},
}

__all__ = [
    "HEADS",
    "AttributeGaussianProcess",
    "CRFLayer",
    "GaussianProcess",
    "GaussianTargets",
    "LabelAttention",
    "LabelPropagation",
    "LastPosition",
    "LearnedMoments",
    "LinearChainCRF",
    "LinearClassifier",
    "LinearRegressor",
    "OddAtScales",
    "OddOneOut",
    "OneHotLabels",
    "Prototypes",
    "PrototypesGP",
    "SoftmaxLayer",
    "StringLabels",
    "WarpedGaussianProcess",
]
