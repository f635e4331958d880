"""Estimators that learn from one row at a time and remember (paper 002)."""

from .classifier import MANNClassifier
from .regressor import MANNRegressor

__all__ = ["MANNClassifier", "MANNRegressor"]
