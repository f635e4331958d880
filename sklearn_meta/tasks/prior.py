"""A distribution over classification tables: meta-training data without limit.

A draw picks one of six families, which says how columns and label hang together (families.py),
then spoils the table the way real ones are spoilt: warped units, categories, useless and
redundant columns, wrong labels, missing cells.
"""

from dataclasses import dataclass

import numpy as np

from sklearn_meta.tasks.dataset import Dataset
from sklearn_meta.tasks.families import FAMILIES, class_counts, log_uniform, standardise

# How often each family is drawn: most real tables look like the first two and the last.
_WEIGHTS = {
    "structural": 0.28,
    "linear": 0.20,
    "trees": 0.10,
    "clusters": 0.10,
    "manifold": 0.07,
    "factors": 0.25,
}
_CLASS_WEIGHTS = {2: 0.6, 3: 0.125, 4: 0.125}  # and 0.15 in all for more classes


@dataclass(frozen=True)
class TablePrior:
    """Random classification tables that resemble small real ones.

    Parameters
    ----------
    n_rows : int or None, default=None
        Rows of a table; None is 40 a class, but 120 at least.

    n_columns : tuple of (int, int), default=(2, 30)
        Smallest and largest number of columns after one-hot encoding, both inclusive; the number
        drawn is log-uniform.

    n_classes : tuple of (int, int), default=(2, 10)
        Smallest and largest number of classes, both inclusive. Two classes are the most frequent.

    families : tuple of str, default=all six
        Which families to draw from: "structural" (random causal networks), "linear", "trees",
        "clusters" (Gaussian mixtures), "manifold" (rings, spirals, curves) and "factors" (columns
        correlated through few latent factors).

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Every class holds about ``n_rows / (3 * n_classes)`` rows or more. The numerical columns have
    zero mean and unit variance over the observed and unobserved cells together; one-hot columns
    are 0 or 1. Most tables are hard on purpose, as real few-shot tables are.

    References
    ----------
    N. Hollmann, S. Mueller, K. Eggensperger, F. Hutter. TabPFN: A Transformer That Solves Small
    Tabular Classification Problems in a Second. ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks.prior import TablePrior
    >>> TablePrior(n_columns=(5, 5), n_classes=(3, 3)).draw(np.random.default_rng(0)).X.shape
    (120, 5)
    """

    n_rows: int | None = None
    n_columns: tuple = (2, 30)
    n_classes: tuple = (2, 10)
    families: tuple = tuple(_WEIGHTS)

    def __post_init__(self):
        for name in ("n_columns", "n_classes"):
            low, high = getattr(self, name)
            if not 2 <= low <= high:
                raise ValueError(f"{name} must be (low, high) with 2 <= low <= high.")
        if self.n_rows is not None and self.n_rows < 2 * self.n_classes[1]:
            raise ValueError(f"n_rows={self.n_rows} is less than 2 rows for each class.")
        if not self.families or not set(self.families) <= set(_WEIGHTS):
            raise ValueError(f"families must be chosen from {sorted(_WEIGHTS)}.")

    def draw(self, rng):
        """Draw one table.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness: equal generators draw equal tables.

        Returns
        -------
        dataset : Dataset
            Named after its family, as "prior-linear".
        """
        family = _pick(rng, self.families, [_WEIGHTS[name] for name in self.families])
        n_classes = self._draw_n_classes(rng)
        n_rows = self.n_rows or max(120, 40 * n_classes)
        n_columns = round(log_uniform(rng, *self.n_columns))
        # Thin manifolds do not survive rough treatment: most of them are spared.
        clean = rng.random() < (0.7 if family == "manifold" else 0.15)

        levels = np.ones(n_columns, int) if clean else _plan_levels(rng, n_columns)
        n_informative = max(2, round(log_uniform(rng, 2, len(levels))))
        if family in ("structural", "manifold", "factors") and rng.random() < 0.7:
            n_informative = len(levels)  # all columns of one origin, each telling a little
        counts = class_counts(rng, n_rows, n_classes)
        X, y = FAMILIES[family](rng, counts, n_informative)
        X = _add_columns(rng, X, len(levels))
        if not clean:
            X = _warp(rng, X)
            y = _mislabel(rng, y)
        rows, columns = rng.permutation(n_rows), rng.permutation(len(levels))
        X, y = standardise(X[rows][:, columns]), y[rows]
        missing = _missing(rng, X) if rng.random() < 1 / 3 else None
        X = _encode(rng, X, levels, missing)
        return Dataset(f"prior-{family}", X, y)

    def _draw_n_classes(self, rng):
        choices = range(self.n_classes[0], self.n_classes[1] + 1)
        n_many = max(1, sum(c > 4 for c in choices))
        return _pick(rng, choices, [_CLASS_WEIGHTS.get(c, 0.15 / n_many) for c in choices])


def _pick(rng, choices, weights):
    """Weighted choice, several times faster than Generator.choice on short lists."""
    total = np.cumsum(weights)
    return choices[int(np.searchsorted(total, rng.random() * total[-1], side="right"))]


def _plan_levels(rng, n_columns):
    """Levels of each raw column (1: numerical, 2: binary, more: one-hot).

    Between them they fill `n_columns` encoded columns, of which a binary one takes one.
    """
    share = rng.uniform(0.1, 1) if rng.random() < 0.7 else 0.0
    levels, room = [], n_columns
    wanted = rng.integers(2, 9, n_columns) * (rng.random(n_columns) < share)
    for n_levels in wanted.tolist():
        if room == 0:
            break
        if n_levels == 0 or 2 < n_levels > room:  # numerical, or too many levels
            n_levels = 1
        levels.append(n_levels)
        room -= n_levels if n_levels > 2 else 1
    return np.array(levels) if len(levels) > 1 else np.ones(n_columns, int)


def _add_columns(rng, X, n_columns):
    """Fill up to `n_columns` with redundant columns and with columns that say nothing."""
    n_rows, n_informative = X.shape
    n_added = n_columns - n_informative
    if n_added <= 0:
        return X
    X = standardise(X)
    n_redundant = rng.binomial(n_added, rng.uniform(0, 0.8))
    mix = rng.standard_normal((n_informative, n_redundant))
    copies = rng.random(n_redundant) < 0.5  # of one column, the others of all together
    source = rng.integers(n_informative, size=n_redundant)
    mix *= ~copies | (np.arange(n_informative)[:, None] == source)
    redundant = standardise(X @ mix)
    redundant += log_uniform(rng, 0.1, 2) * rng.standard_normal(redundant.shape)

    noise = rng.standard_normal((n_rows, n_added - n_redundant))
    if rng.random() < 0.3 and noise.shape[1]:  # useless columns can be correlated as well
        noise += rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, noise.shape[1]))
    return np.hstack([X, redundant, noise])


def _warp(rng, X):
    """Change the columns' units: mostly monotone warps, some with loss of information."""
    n_rows, n_columns = X.shape
    X = standardise(X)
    # Columns of one table tend to be alike, so a table uses few of the warps.
    kinds = rng.integers(len(_WARPS), size=1 + rng.integers(3))
    kind = kinds[rng.integers(len(kinds), size=n_columns)]
    kind[rng.random(n_columns) >= rng.uniform(0, 1)] = -1
    for k in set(kind.tolist()) - {-1}:
        X[:, kind == k] = _WARPS[k](rng, X[:, kind == k])
    return X


def _exponential(rng, x):
    return np.exp(rng.uniform(0.3, 1.5) * np.clip(x, -4, 4))


def _logarithm(rng, x):
    return np.log(x - x.min(axis=0) + log_uniform(rng, 0.01, 1))


def _power(rng, x):
    return np.sign(x) * np.abs(x) ** log_uniform(rng, 0.3, 3)


def _round(rng, x):
    """A few integer levels: ratings, counts."""
    return np.round(x * log_uniform(rng, 0.7, 4))


def _inflate(rng, x):
    """Cut at one end: amounts of which many are zero, sensors that saturate."""
    cut = rng.uniform(-1, 0.7)
    return np.maximum(x, cut) if rng.random() < 0.7 else np.minimum(x, -cut)


def _heavy_tails(rng, x):
    return x + rng.uniform(0.1, 1) * np.clip(rng.standard_t(2, x.shape), -20, 20)


def _outliers(rng, x):
    return np.where(rng.random(x.shape) < rng.uniform(0, 0.05), 10 * rng.normal(size=x.shape), x)


def _ranks(rng, x):
    return x.argsort(axis=0).argsort(axis=0) / len(x)


def _scale(rng, x):
    """Noise that grows with the value."""
    return x * np.exp(0.5 * rng.standard_normal(x.shape))


_WARPS = (
    _exponential,
    _logarithm,
    _power,
    _round,
    _inflate,
    _heavy_tails,
    _outliers,
    _ranks,
    _scale,
)


def _mislabel(rng, y):
    """Exchange labels among up to a fifth of the rows of half the tables; class sizes stay."""
    if rng.random() < 0.5:
        swapped = np.flatnonzero(rng.random(len(y)) < rng.uniform(0, 0.2))
        y[swapped] = rng.permutation(y[swapped])
    return y


def _missing(rng, X):
    """Mask of the missing cells: up to 20 %, at random or the likelier the larger the value."""
    rate = rng.uniform(0, 0.2) * (rng.random(X.shape[1]) < rng.uniform(0.2, 1))
    if rng.random() < 0.5:
        rate = 2 * rate / (1 + np.exp(-2 * np.clip(X, -10, 10)))
    return rng.random(X.shape) < rate


def _encode(rng, X, levels, missing):
    """Bin and one-hot encode the categorical columns; put NaN where cells are missing."""
    n_rows = len(X)
    if missing is None:
        missing = np.zeros((n_rows, 1), bool)[:, [0] * len(levels)]
    blocks = []
    for j, n_levels in enumerate(levels):
        if n_levels == 1:
            continue
        # Several bins may share a level, so that its meaning need not be ordered.
        n_bins = n_levels * (1 + int(rng.random() < 0.3 and n_levels > 2))
        edges = np.sort(rng.uniform(0.03, 0.97, n_bins - 1))
        level = rng.permutation(np.arange(n_bins) % n_levels)
        # Equal values share a rank, hence a bin.
        rank = np.searchsorted(np.sort(X[:, j]), X[:, j]) / n_rows
        code = level[np.searchsorted(edges, rank)]
        block = (code[:, None] == np.arange(1 if n_levels == 2 else n_levels)).astype(np.float32)
        block[missing[:, j]] = np.nan
        blocks.append(block)
    numerical = levels == 1
    plain = X[:, numerical].astype(np.float32)
    plain[missing[:, numerical]] = np.nan
    encoded = np.hstack([plain, *blocks])
    return encoded[:, rng.permutation(encoded.shape[1])]
