"""A distribution over classification tables: meta-training data without limit.

A draw picks one of six families, which defines how columns and label depend on each other
(families.py). It then spoils the table the way real ones are spoilt: warped units, categories,
useless and redundant columns, wrong labels, missing cells.
"""

from dataclasses import dataclass

import numpy as np

from ..sizes import check_integers, check_ranges
from .columns import add_columns, encode, hide, pick, plan_levels, warp
from .dataset import Dataset
from .families import FAMILIES, class_counts, log_uniform, standardise

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
        Rows per table. If None, 40 per class, but at least 120.

    n_columns : tuple of (int, int), default=(2, 30)
        Smallest and largest number of columns after one-hot encoding, both inclusive; the number
        drawn is log-uniform.

    n_classes : tuple of (int, int), default=(2, 10)
        Smallest and largest number of classes, both inclusive. Two classes are most frequent.

    families : tuple of str, default=all six
        Families to draw from: "structural" (random causal networks), "linear", "trees", "clusters"
        (Gaussian mixtures), "manifold" (rings, spirals, curves) and "factors" (columns correlated
        through a few latent factors).

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Every class has about ``n_rows / (3 * n_classes)`` rows or more. Numerical columns have zero
    mean and unit variance over observed and unobserved cells together; one-hot columns are 0 or 1.
    Most tables are difficult on purpose, as real few-shot tables are.

    References
    ----------
    N. Hollmann, S. Mueller, K. Eggensperger, F. Hutter. TabPFN: A Transformer That Solves Small
    Tabular Classification Problems in a Second. ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks import TablePrior
    >>> TablePrior(n_columns=(5, 5), n_classes=(3, 3)).draw(np.random.default_rng(0)).X.shape
    (120, 5)
    """

    n_rows: int | None = None
    n_columns: tuple = (2, 30)
    n_classes: tuple = (2, 10)
    families: tuple = tuple(_WEIGHTS)

    def __post_init__(self):
        check_ranges(2, n_columns=self.n_columns, n_classes=self.n_classes)
        if self.n_rows is not None:
            check_integers(n_rows=self.n_rows)
            if self.n_rows < 2 * self.n_classes[1]:
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
        family = pick(rng, self.families, [_WEIGHTS[name] for name in self.families])
        n_classes = self._draw_n_classes(rng)
        n_rows = self.n_rows or max(120, 40 * n_classes)
        n_columns = round(log_uniform(rng, *self.n_columns))
        # Spoiling would destroy thin manifolds: most of them stay clean.
        clean = rng.random() < (0.7 if family == "manifold" else 0.15)

        levels = np.ones(n_columns, int) if clean else plan_levels(rng, n_columns)
        n_informative = max(2, round(log_uniform(rng, 2, len(levels))))
        if family in ("structural", "manifold", "factors") and rng.random() < 0.7:
            n_informative = len(levels)  # all columns share one origin and say a little
        counts = class_counts(rng, n_rows, n_classes)
        X, y = FAMILIES[family](rng, counts, n_informative)
        X = add_columns(rng, X, len(levels))
        if not clean:
            X = warp(rng, X)
            y = _mislabel(rng, y)
        rows, columns = rng.permutation(n_rows), rng.permutation(len(levels))
        X, y = standardise(X[rows][:, columns]), y[rows]
        missing = hide(rng, X) if rng.random() < 1 / 3 else None
        X = encode(rng, X, levels, missing)
        return Dataset(f"prior-{family}", X, y)

    def _draw_n_classes(self, rng):
        choices = range(self.n_classes[0], self.n_classes[1] + 1)
        n_many = max(1, sum(c > 4 for c in choices))
        return pick(rng, choices, [_CLASS_WEIGHTS.get(c, 0.15 / n_many) for c in choices])


def _mislabel(rng, y):
    """In half the tables, permute the labels of up to a fifth of the rows; class sizes stay."""
    if rng.random() < 0.5:
        swapped = np.flatnonzero(rng.random(len(y)) < rng.uniform(0, 0.2))
        y[swapped] = rng.permutation(y[swapped])
    return y
