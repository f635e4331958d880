"""Numbers that mark a gap, such as -9999: several cells hold one, far from all other values."""

import numpy as np

#: How far a mark is from all other values, in units of the width of these.
FAR = 5

#: Cells, and different values among them, that a column must hold beside a mark.
LEAST_CELLS, LEAST_VALUES = 5, 3


def gap_marks(X):
    """The number that marks gaps in each column, if there is one.

    It is the least or the largest value of the column, stands in several cells, and is farther from
    the next value than five times the width of all others. Of what such a number says, that a cell
    holds it, a missing cell says the same.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), float64
        NaN are missing cells.

    Returns
    -------
    dict of int to float
        Marks by the positions of their columns.
    """
    if len(X) < LEAST_CELLS + 2 or not X.shape[1]:
        return {}
    found = {}
    for sign in (1, -1):  # the largest is the least of the negative values
        values = np.where(np.isfinite(X), sign * X, np.inf)
        least = values.min(axis=0)
        others = np.where(values == least, np.inf, values)
        low = others.min(axis=0)
        high = np.where(others < np.inf, others, -np.inf).max(axis=0)
        with np.errstate(invalid="ignore", over="ignore"):  # of columns without others
            is_far = (low - least > FAR * (high - low)) & (high > low)
        for j in np.flatnonzero(is_far & ((values == least).sum(axis=0) > 1)):
            rest = others[others[:, j] < np.inf, j]
            if len(rest) >= LEAST_CELLS and len(np.unique(rest)) >= LEAST_VALUES:
                found[int(j)] = float(sign * least[j])
    return found
