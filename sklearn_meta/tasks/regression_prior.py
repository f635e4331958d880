"""A distribution over regression tables: meta-training data without limit.

A draw picks one of seven families, which defines how columns and signal depend on each other
(regression_families.py). It adds noise to the signal, changes the target's units, and spoils the
columns as the classification prior does (columns.py).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..sizes import check_integers, check_ranges
from . import columns
from .dataset import Dataset
from .families import log_uniform, standardise
from .regression_families import FAMILIES, standard

_WEIGHTS = {
    "process": 0.14,
    "network": 0.11,
    "trees": 0.12,
    "linear": 0.16,
    "additive": 0.12,
    "factors": 0.18,
    "graph": 0.17,
}


@dataclass(frozen=True)
class RegressionPrior:
    """Random regression tables that resemble small real ones.

    Parameters
    ----------
    n_rows : int, default=150
        Rows per table, at least 10. Time is cubic in their number for the family "process"; 150
        rows take about 1 ms, 300 rows 2 ms.

    n_columns : tuple of (int, int), default=(2, 30)
        Smallest and largest number of columns after one-hot encoding, both inclusive; the number
        drawn is log-uniform.

    families : tuple of str, default=all seven
        Families to draw from: "process" (Gaussian processes with many kernels), "network"
        (multilayer perceptrons), "trees" (small forests), "linear" (with products), "additive" (a
        nonlinear function per column), "factors" (columns and target share a few hidden causes) and
        "graph" (columns and target are nodes of a causal graph).

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Numerical columns and the target have zero mean and unit variance over the table, including
    missing cells; one-hot columns are 0 or 1. The signal-to-noise ratio ranges from almost none to
    almost noise-free, and is low in most tables, as in real ones. The noise may depend on the
    signal or on a column and have heavy or uneven tails; the target may be skewed, counted,
    rounded, or cut off at one end. It always takes at least two values.

    References
    ----------
    N. Hollmann, S. Mueller, K. Eggensperger, F. Hutter. TabPFN: A Transformer That Solves Small
    Tabular Classification Problems in a Second. ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks import RegressionPrior
    >>> RegressionPrior(n_columns=(5, 5)).draw(np.random.default_rng(0)).X.shape
    (150, 5)
    """

    n_rows: int = 150
    n_columns: tuple = (2, 30)
    families: tuple = tuple(_WEIGHTS)

    def __post_init__(self):
        check_ranges(2, n_columns=self.n_columns)
        check_integers(10, n_rows=self.n_rows)
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
            Of float32 ``y``, named after its family, as "prior-linear".
        """
        family = columns.pick(rng, self.families, [_WEIGHTS[name] for name in self.families])
        n_columns = round(log_uniform(rng, *self.n_columns))
        levels = columns.plan_levels(rng, n_columns)
        n_informative = max(2, round(log_uniform(rng, 2, len(levels))))
        if family in ("factors", "graph") and rng.random() < 0.7:
            n_informative = len(levels)  # all columns share one origin and say a little
        X, signal = FAMILIES[family](rng, self.n_rows, n_informative)
        y = _observe(rng, X, signal)
        X = columns.add_columns(rng, X, len(levels))
        if rng.random() < 0.65:
            X = columns.warp(rng, X)
        if rng.random() < 0.85:
            y = _measure(rng, y)
        X = standardise(X[:, rng.permutation(len(levels))])
        missing = columns.hide(rng, X) if rng.random() < 0.25 else None
        X = columns.encode(rng, X, levels, missing)
        return Dataset(f"prior-{family}", X, standard(y).astype(np.float32))


def _observe(rng, X, signal):
    """Add noise to the signal, of any strength and shape; in half the tables it varies by row."""
    signal = standard(signal)
    n_rows, n_columns = X.shape
    kind = rng.random()
    if kind < 0.6:
        noise = rng.standard_normal(n_rows)
    elif kind < 0.85:
        noise = np.clip(rng.standard_t(rng.uniform(2, 6), n_rows), -20, 20)
    else:
        noise = rng.choice([-1, 1]) * (rng.exponential(size=n_rows) - 1)
    if rng.random() < 0.5:
        cause = rng.random()
        driver = signal if cause < 0.4 else X[:, rng.integers(n_columns)]
        if cause > 0.8:
            driver = np.abs(driver)
        noise = noise * np.exp(np.clip(rng.uniform(0.2, 1) * driver, -3, 3))
    strength = log_uniform(rng, 0.05, 1.6)
    return signal + strength * standard(noise)


def _measure(rng, y):
    """Change the target's units: most become skewed, and some lose information."""
    y = standard(y)
    measured = columns.pick(rng, list(_UNITS), list(_UNITS.values()))(rng, y)
    if rng.random() < 0.4:
        measured = columns.whole_numbers(rng, standard(measured), scales=(0.7, 30))
    return measured if measured.min() < measured.max() else y  # a constant says nothing


def _as_it_is(rng, y):
    return y


def _count(rng, y):
    rate = np.exp(rng.uniform(-0.5, 4) + rng.uniform(0.2, 1) * np.clip(y, -4, 3))
    return rng.poisson(rate).astype(float)


def _zeros(rng, y):
    """Zero in some rows, more often in those of small values; skewed amounts in the others."""
    zero = y + rng.standard_normal(len(y)) < rng.uniform(-2, 0.5)
    return np.where(zero, 0, np.exp(rng.uniform(0.2, 1) * np.clip(y, -4, 4)))


def _outliers(rng, y):
    return y + (rng.random(len(y)) < rng.uniform(0, 0.05)) * 6 * rng.standard_normal(len(y))


_UNITS = {
    _as_it_is: 0.28,
    partial(columns.exponential, slopes=(0.2, 1.3)): 0.40,
    partial(columns.logarithm, offsets=(0.03, 3)): 0.03,
    partial(columns.power, exponents=(0.5, 2.5)): 0.08,
    _count: 0.08,
    partial(columns.cut_off, lowest=-1.5): 0.06,
    _zeros: 0.05,
    _outliers: 0.04,
}
