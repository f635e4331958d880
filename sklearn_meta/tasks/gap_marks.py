"""Numbers that mark gaps, such as -9999: several cells hold one, far from all other values."""

import numpy as np

#: How far a mark is from all other values, in units of the width of these.
FAR = 5

#: Cells, and different values among them, that a column must hold beside a mark.
LEAST_CELLS, LEAST_VALUES = 5, 3


def gap_marks(X):
    """The number that marks gaps in each column, if there is one.

    It is farther from all other values of its column than five times the width of these, and stands
    in several cells of the table, of this column or of others that it is as far from. Of what such
    a number says, that a cell holds it, a missing cell says the same.

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
    finite = np.isfinite(X)
    farthest = set()
    for sign in (1, -1):  # the largest is the least of the negative values
        values = np.where(finite, sign * X, np.inf)
        least = values.min(axis=0)
        farthest |= {sign * value for value in least[_far_from(least, values)].tolist()}
    marks, values = {}, np.where(finite, X, np.inf)
    for mark in sorted(farthest):
        is_far = _far_from(mark, values)
        if (X[:, is_far] == mark).sum() > 1:
            marks |= dict.fromkeys(np.flatnonzero(is_far).tolist(), mark)
    return marks


def _far_from(mark, values):
    """Columns of which all other values, if they are enough, lie far from a number."""
    others = np.where(values == mark, np.inf, values)
    low = others.min(axis=0)
    high = np.where(others < np.inf, others, -np.inf).max(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):  # of columns without others
        width = high - low
        is_far = (width > 0) & ((low - mark > FAR * width) | (mark - high > FAR * width))
    for j in np.flatnonzero(is_far):
        rest = others[others[:, j] < np.inf, j]
        is_far[j] = len(rest) >= LEAST_CELLS and len(np.unique(rest)) >= LEAST_VALUES
    return is_far
