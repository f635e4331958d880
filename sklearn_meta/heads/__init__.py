"""Heads: what turns a backbone's embeddings into predictions, in closed form."""

from .gaussian_process import GaussianProcess
from .label_propagation import LabelPropagation
from .label_words import GaussianTargets, OneHotLabels, StringLabels
from .learned_moments import LearnedMoments
from .linear import LinearClassifier, LinearRegressor
from .odd_one_out import OddOneOut
from .prototypes import Prototypes
from .ways import LabelAttention, LastPosition

#: Heads by task and by the name that ``head=`` and the weight cards use.
HEADS = {
    "classification": {
        "prototypes": Prototypes,
        "label_propagation": LabelPropagation,
        "linear": LinearClassifier,
    },
    "regression": {"gp": GaussianProcess, "linear": LinearRegressor},
    "outlier_detection": {"odd_one_out": OddOneOut},
    "online_classification": {"onehot": OneHotLabels, "string": StringLabels},
    "online_regression": {"gaussian": GaussianTargets},
    "few_shot": {"label_attention": LabelAttention, "last_position": LastPosition},
}

__all__ = [
    "HEADS",
    "GaussianProcess",
    "GaussianTargets",
    "LabelAttention",
    "LabelPropagation",
    "LastPosition",
    "LearnedMoments",
    "LinearClassifier",
    "LinearRegressor",
    "OddOneOut",
    "OneHotLabels",
    "Prototypes",
    "StringLabels",
]
