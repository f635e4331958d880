"""Plots of what a meta-trained estimator made of a task, and of its meta-training.

As in :mod:`sklearn.inspection`, a display computes in ``from_estimator``, stores the results as
attributes, and draws in ``plot``, which can be called again. matplotlib is imported when something
is drawn.
"""

from .embedding import EmbeddingDisplay
from .instance_accuracy import InstanceAccuracyDisplay, instance_numbers
from .interval_calibration import IntervalCalibrationDisplay
from .learning_curve import MetaLearningCurveDisplay
from .memory import MemoryDisplay
from .meta_change import MetaChangeDisplay
from .mixture import MixtureDisplay
from .unlabelled_effect import UnlabelledEffectDisplay

__all__ = [
    "EmbeddingDisplay",
    "InstanceAccuracyDisplay",
    "IntervalCalibrationDisplay",
    "MemoryDisplay",
    "MetaChangeDisplay",
    "MetaLearningCurveDisplay",
    "MixtureDisplay",
    "UnlabelledEffectDisplay",
    "instance_numbers",
]
