"""Peers of benchmarks/few_shot_regression.py, and the cache of their scores.

All peers get the matrix that peers.prepare makes of the episode's rows, and targets of zero mean
and unit variance over the labelled rows. Settings other than scikit-learn's defaults were chosen on
the tables of split "valid", never on "test".
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import sklearn
from peers import PeersCache
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, RidgeCV
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.neighbors import KNeighborsRegressor

# See peers.RULES.
RULES = f"1/scikit-learn-{sklearn.__version__}"


class Peer(NamedTuple):
    """How a peer is made, given the numbers of labelled rows and columns; whether it has a std."""

    make: Callable[[int, int], BaseEstimator]
    has_std: bool = False


def _gaussian_process(length_scale, length_scale_bounds=(1e-5, 1e5), noise_bounds=(1e-5, 1e5)):
    kernel = ConstantKernel() * RBF(length_scale, length_scale_bounds)
    kernel += WhiteKernel(noise_level_bounds=noise_bounds)
    return GaussianProcessRegressor(
        kernel, n_restarts_optimizer=1, normalize_y=True, random_state=0
    )


def _nearest_neighbours(n_labelled):
    if n_labelled == 1:
        return KNeighborsRegressor(1)
    search = {"n_neighbors": [k for k in (1, 3, 5) if k < n_labelled]}
    model = KNeighborsRegressor(weights="distance")
    return GridSearchCV(model, search, scoring="neg_mean_squared_error", cv=LeaveOneOut())


class LabelledMean(DummyRegressor):
    """Control: the mean of the labelled rows, and the standard deviation of a new row around it.

    If all labelled targets are equal, or there is only one, their deviation is taken as 1.
    """

    def fit(self, X, y):
        spread = np.std(y, ddof=1) if len(y) > 1 else 0.0
        self.std_ = (spread or 1.0) * (1 + 1 / len(y)) ** 0.5
        return super().fit(X, y)

    def predict(self, X, return_std=False):
        mean = super().predict(X)
        return (mean, np.full(len(mean), self.std_)) if return_std else mean


PEERS = {
    "GaussianProcess": Peer(lambda n, d: _gaussian_process(1.0), True),
    # With few rows, the likelihood may diverge to zero noise or to an extreme length scale.
    "GaussianProcess-bounded": Peer(
        lambda n, d: _gaussian_process(d**0.5, (0.3 * d**0.5, 30 * d**0.5), (0.05, 2)), True
    ),
    "Ridge": Peer(lambda n, d: RidgeCV(np.logspace(-1, 4, 11))),
    "BayesianRidge": Peer(lambda n, d: BayesianRidge(), True),
    "RandomForest": Peer(lambda n, d: RandomForestRegressor(random_state=0)),
    # The default of 20 rows per leaf allows no split with fewer than 40 labelled rows: it predicts
    # the mean.
    "HistGradientBoosting": Peer(lambda n, d: HistGradientBoostingRegressor(random_state=0)),
    "HistGradientBoosting-small": Peer(
        lambda n, d: HistGradientBoostingRegressor(
            min_samples_leaf=4, learning_rate=0.05, max_iter=30, random_state=0
        )
    ),
    "k-NN": Peer(lambda n, d: _nearest_neighbours(n)),
    "5-NN": Peer(lambda n, d: KNeighborsRegressor(min(5, n), weights="distance")),
    "mean": Peer(lambda n, d: LabelledMean(), True),
}


def predict(name, X_labelled, y_labelled, X_unlabelled):
    """Predict the targets of the unlabelled rows by one peer.

    Parameters
    ----------
    name : str
        A key of `PEERS`.
    X_labelled, X_unlabelled : ndarray of shape (n_rows, n_features)
        Prepared rows.
    y_labelled : ndarray of shape (n_labelled,)
        Standardised targets.

    Returns
    -------
    mean, std : ndarray of shape (n_unlabelled,)
        `std` is None if the peer has none.
    """
    peer = PEERS[name]
    estimator = peer.make(*X_labelled.shape)
    with warnings.catch_warnings():
        # There are thousands of warnings of convergence and kernel bounds; the score shows it.
        warnings.simplefilter("ignore")
        estimator.fit(X_labelled, y_labelled)
        if peer.has_std:
            return estimator.predict(X_unlabelled, return_std=True)
        return estimator.predict(X_unlabelled), None


class RegressionCache(PeersCache):
    """Scores of regression peers in a CSV file that survives a killed run."""

    KEY = ("rules", "method", "dataset", "sha256", "labelled", "rows", "episode")
    OPTIONAL = ("nlpd", "nlpd_mixed", "coverage", "width")
    VALUE = ("mse", *OPTIONAL, "milliseconds")
