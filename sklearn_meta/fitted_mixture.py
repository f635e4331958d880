"""A fitted Gaussian mixture, stored in standardised units and used in the user's units."""

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .cells import rows_of
from .table_validation import as_cells
from .tasks.column_types import refuse_dates

#: Standardised points are clipped here: squares of larger distances overflow float64.
FARTHEST = 1e140


class FittedMixture(DensityMixin):
    """Methods of a fitted mixture, as in :class:`sklearn.mixture.GaussianMixture`.

    scikit-learn's own estimator does the work, on points with zero mean and unit variance: its
    densities are sums of squares, in which a large offset would cancel all digits.
    """

    #: Attributes that hold a mixture.
    _fitted = (
        "_mixture",
        "_units",
        "n_components_",
        "weights_",
        "means_",
        "covariances_",
        "precisions_",
        "precisions_cholesky_",
        "lower_bound_",
        "n_iter_",
        "converged_",
    )

    def predict(self, X):
        """Predict the most likely component of each point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError, TypeError
            If X has no rows, other columns than in ``fit`` or a cell that is not finite, or is
            sparse.
        """
        X = self._standardised(X)
        return self._mixture.predict(X)

    def predict_proba(self, X):
        """Predict the probability of each component for each point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        X = self._standardised(X)
        return self._mixture.predict_proba(X)

    def score_samples(self, X):
        """Log-likelihood of each point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        X = self._standardised(X)
        return self._mixture.score_samples(X) - self._units.log_volume

    def score(self, X, y=None):
        """Mean log-likelihood of the points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        return float(self.score_samples(X).mean())

    def bic(self, X):
        """Bayesian information criterion of the mixture on the points; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        X = self._standardised(X)
        return self._mixture.bic(X) + 2 * len(X) * self._units.log_volume

    def aic(self, X):
        """Akaike information criterion of the mixture on the points; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        X = self._standardised(X)
        return self._mixture.aic(X) + 2 * len(X) * self._units.log_volume

    def sample(self, n_samples=1):
        """Draw points from the mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            Component of each point.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If `n_samples` is less than 1.
        """
        check_is_fitted(self)
        X, y = self._mixture.set_params(random_state=self.random_state).sample(n_samples)
        return X * self._units.scale + self._units.centre, y

    def __sklearn_is_fitted__(self):
        return hasattr(self, "weights_")

    def _standardised(self, X):
        """Validate points and convert them to the units of the stored mixture."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        with np.errstate(over="ignore"):
            return self._units.standardise(X).clip(-FARTHEST, FARTHEST)

    def _validated(self, X, **checks):
        """Validate points; ``checks`` are further arguments of scikit-learn's ``validate_data``."""
        X = rows_of(as_cells(X))
        refuse_dates(X, "X")
        try:
            return validate_data(self, X, dtype=np.float64, **checks)
        except OverflowError as error:  # Python's integers have no bound
            raise ValueError("Input X contains a value too large for float64.") from error

    def _store(self, mixture, units):
        """Store a mixture in standardised units, and its parameters in those of the points."""
        scale = units.scale if self.covariance_type != "spherical" else units.scale[0]
        if self.covariance_type == "full":
            covariances = mixture.covariances_ * np.outer(scale, scale)
            factors = mixture.precisions_cholesky_ / scale[:, None]
            precisions = factors @ factors.mT
        else:
            covariances = mixture.covariances_ * scale**2
            factors = mixture.precisions_cholesky_ / scale
            precisions = factors**2
        self._mixture, self._units = mixture, units
        self.n_components_ = mixture.n_components
        self.weights_ = mixture.weights_
        self.means_ = mixture.means_ * units.scale + units.centre
        self.covariances_, self.precisions_ = covariances, precisions
        self.precisions_cholesky_ = factors
        self.lower_bound_ = mixture.lower_bound_ - units.log_volume
        self.n_iter_, self.converged_ = self.refine_steps, True
