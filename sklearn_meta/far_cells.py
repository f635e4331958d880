"""How far the farthest cell of a row is from the middle of its column, beside the rows of a set."""

from typing import NamedTuple

import numpy as np


class FarCells(NamedTuple):
    """What the farthest cells of a set's rows say of those of any row.

    Parameters
    ----------
    median, width : ndarray of shape (n_columns,)
        Median and interquartile range of each column; of one of which half the cells are equal the
        median distance of the others to these, or zero, which tells nothing, where there is one.
    usual, most : float
        Median and 90 % quantile of how far the rows of the set are.
    """

    median: np.ndarray
    width: np.ndarray
    usual: float
    most: float

    @classmethod
    def of(cls, rows):
        """Those of a set: an array of shape (n_rows, n_columns), NaN where nothing is observed."""
        seen = np.where(np.isnan(rows).all(0), 0.0, rows)  # a column without a cell has no width
        low, median, high = np.nanquantile(seen, [0.25, 0.5, 0.75], axis=0)
        width = high - low
        for j in np.flatnonzero(width == 0):  # amounts that are mostly zero, say
            others = np.abs(seen[:, j] - median[j])
            others = others[others > 0]  # not NaN
            width[j] = np.median(others) if len(np.unique(others)) > 1 else 0.0
        found = cls(median, width, 0.0, 0.0)
        usual, most = np.quantile(found._farthest(rows), [0.5, 0.9])
        return found._replace(usual=usual, most=most)

    def _farthest(self, rows):
        """Logarithm of one and the widths at which a row's farthest cell is, (n_rows,)."""
        some = self.width > 0
        with np.errstate(over="ignore"):
            widths = np.abs(rows[:, some] - self.median[some]) / self.width[some]
        farthest = np.finfo(float).max
        return np.log1p(np.nan_to_num(widths, nan=0.0, posinf=farthest).max(1, initial=0.0))

    def excess(self, rows):
        """By how much rows are farther than those of the set are, (n_rows,).

        The unit is the distance between the median and the 90 % quantile of these, and a tenth more
        where they are all as far. Zero is up to one unit beyond that quantile: heavy tails, which
        make the distance large, are no sign of an odd row.
        """
        unit = self.most - self.usual + 0.1
        return np.maximum((self._farthest(rows) - self.most) / unit - 1, 0.0)
