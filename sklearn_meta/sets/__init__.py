"""Estimators whose one sample is a set: the Set Transformer of paper 001, trained by ``fit``."""

from .classifier import SetTransformerClassifier
from .regressor import SetTransformerRegressor

__all__ = ["SetTransformerClassifier", "SetTransformerRegressor"]
