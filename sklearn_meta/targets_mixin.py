"""R² for all targets that regressors accept in ``fit``, including NumPy dates."""

from sklearn.base import RegressorMixin

from .tasks.column_types import targets_as_numbers


class TargetsMixin(RegressorMixin):
    """scikit-learn's mixin of regressors, with dates as numbers and missing dates as NaN."""

    def score(self, X, y, sample_weight=None):
        """R² of the predictions, as in :meth:`sklearn.base.RegressorMixin.score`.

        Parameters
        ----------
        X : array-like, DataFrame or list of sets, n_samples of them
            As in ``predict``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
            The best score is 1; predicting the mean of y scores 0.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            If a target is missing (missing dates included); or as in ``predict``.
        """
        return super().score(X, targets_as_numbers(y), sample_weight)
