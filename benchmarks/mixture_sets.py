"""Sets of points of benchmarks/mixtures.py: those of paper 001, more varied ones, and real ones."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA


class PointSet(NamedTuple):
    """Points to fit a mixture to, and points of the same distribution to score it on.

    Parameters
    ----------
    X, fresh : ndarray of shape (n_points, n_columns) and (n_fresh, n_columns)
    labels : ndarray of shape (n_points,), int
        The component, or class, that each point of `X` comes from.
    truth : tuple of ndarrays, or None
        Weights (k,), means (k, d) and covariances (k, d, d), if the points were drawn from them.
    """

    X: np.ndarray
    fresh: np.ndarray
    labels: np.ndarray
    truth: tuple | None


def paper_set(rng, k, d, n_points):
    """Draw a set of paper 001 (B.3.1): spherical components of standard deviation 0.3 in a box."""
    centres = rng.uniform(-4, 4, (k, d))  # Eq. (19)
    weights = rng.dirichlet(np.ones(k))  # Eq. (20)
    return _drawn(rng, n_points, weights, centres, np.tile(0.3 * np.eye(d), (k, 1, 1)))  # Eq. (21)


def varied_set(rng, k, d, n_points):
    """Draw a set of elongated, correlated components of different sizes, columns in own units."""
    centres, weights = rng.uniform(-4, 4, (k, d)), rng.dirichlet(np.ones(k))
    sizes = np.exp(rng.uniform(np.log(0.1), 0) + rng.normal(0, 0.4, k))
    freedom = d + 2 + rng.integers(0, 3 * d + 1)  # the fewer, the more elongated
    scatter = rng.normal(size=(k, d, freedom))
    roots = np.linalg.cholesky(scatter @ scatter.mT / freedom) * sizes[:, None, None]
    units, origin = np.exp(rng.normal(0, 1, d)), rng.normal(0, 3, d)
    return _drawn(rng, n_points, weights, centres * units + origin, roots * units[:, None])


def _drawn(rng, n_points, weights, means, roots):
    """Draw a set from a mixture whose covariances are ``root @ root.T``."""
    n = int(rng.integers(n_points[0], n_points[1] + 1))
    labels = rng.choice(len(weights), 2 * n, p=weights)
    noise = rng.normal(size=(2 * n, means.shape[1], 1))
    X = means[labels] + (roots[labels] @ noise)[..., 0]
    return PointSet(X[:n], X[n:], labels[:n], (weights, means, roots @ roots.mT))


class Digits:
    """Sets of scikit-learn's digits, some random classes, in 16 principal components.

    They stand in for the CIFAR-100 embeddings of appendix B.3.3 of paper 001.
    """

    def __init__(self, n_columns=16):
        images, self.y = load_digits(return_X_y=True)
        self.X = PCA(n_columns, random_state=0).fit_transform(images)

    def __call__(self, rng, k, d, n_points):
        """Draw a set of ``k`` classes, with equally many fresh points, or those left."""
        classes = rng.choice(10, k, replace=False)
        rows = rng.permutation(np.flatnonzero(np.isin(self.y, classes)))
        n = int(rng.integers(n_points[0], n_points[1] + 1))
        labels = np.searchsorted(np.sort(classes), self.y[rows])
        return PointSet(self.X[rows[:n], :d], self.X[rows[n : 2 * n], :d], labels[:n], None)


#: Families of sets by name.
FAMILIES = {"paper": paper_set, "varied": varied_set, "digits": Digits()}


def draw_sets(family, k, d, n_points, n_sets, seed=0):
    """Draw sets of a family; they do not depend on any other draws.

    Parameters
    ----------
    family : {"paper", "varied", "digits"}
    k, d : int
        Numbers of components and columns.
    n_points : (int, int)
        Range of the number of points, uniform.
    n_sets : int
    seed : int

    Returns
    -------
    list of PointSet
    """
    draw = FAMILIES[family]
    key = [seed, list(FAMILIES).index(family), k, d, *n_points]
    return [draw(np.random.default_rng([*key, i]), k, d, n_points) for i in range(n_sets)]
