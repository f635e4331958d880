"""How far a row's farthest cell is from the middle of its column, compared with a set of rows."""

from typing import NamedTuple

import numpy as np


class FarCells(NamedTuple):
    """Statistics of a set by which the farthest cell of any row is judged.

    Parameters
    ----------
    median, width : ndarray of shape (n_columns,)
        Median and interquartile range of each column. If the range is zero, the width is the median
        distance of the cells that differ from the median. Without two different distances it is
        zero, and the column is ignored.
    usual, most : float
        Median and 90 % quantile of the distance of a row's farthest cell, over the set.
    """

    median: np.ndarray
    width: np.ndarray
    usual: float
    most: float

    @classmethod
    def of(cls, rows):
        """Compute them from rows of shape (n_rows, n_columns), NaN where a cell is not observed."""
        seen = np.where(np.isnan(rows).all(0), 0.0, rows)  # an unobserved column gets width zero
        low, median, high = np.nanquantile(seen, [0.25, 0.5, 0.75], axis=0)
        width = high - low
        for j in np.flatnonzero(width == 0):  # for example, amounts that are mostly zero
            others = np.abs(seen[:, j] - median[j])
            others = others[others > 0]  # drops NaN, too
            width[j] = np.median(others) if len(np.unique(others)) > 1 else 0.0
        found = cls(median, width, 0.0, 0.0)
        usual, most = np.quantile(found._farthest(rows), [0.5, 0.9])
        return found._replace(usual=usual, most=most)

    def _farthest(self, rows):
        """Distance of each row's farthest cell: log(1 + its distance in widths), (n_rows,)."""
        some = self.width > 0
        with np.errstate(over="ignore"):
            widths = np.abs(rows[:, some] - self.median[some]) / self.width[some]
        farthest = np.finfo(float).max
        return np.log1p(np.nan_to_num(widths, nan=0.0, posinf=farthest).max(1, initial=0.0))

    def excess(self, rows):
        """By how much rows are farther out than those of the set, (n_rows,).

        The unit is the difference between the 90 % quantile and the median of the set, plus 0.1 in
        case they are equal. The result is zero up to one unit beyond that quantile: heavy tails,
        which make the unit large, are no sign of an odd row.
        """
        unit = self.most - self.usual + 0.1
        return np.maximum((self._farthest(rows) - self.most) / unit - 1, 0.0)
