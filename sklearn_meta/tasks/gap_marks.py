"""Numbers that mark gaps, such as -9999, and are far from all other values."""

import numpy as np

#: What marks gaps: sevens, eights or nines alone, as 99, -9999 or 999.9, and -1, -7, -8, -9.
_REPEATED = [int(str(digit) * length) for digit in (7, 8, 9) for length in range(2, 8)]
_PLAIN = [*_REPEATED, *(number / 10 for number in _REPEATED if number > 99)]
_NUMBERS = np.array([*_PLAIN, *(-number for number in _PLAIN), -1, -7, -8, -9])
MARKS = np.unique([_NUMBERS, _NUMBERS.astype(np.float32)])

#: How far a mark is from all other values, in units of the width of these.
FAR = 5

#: Cells, and different values among them, that a column must hold beside marks.
LEAST_CELLS, LEAST_VALUES = 5, 3


def gap_marks(X):
    """The numbers that mark gaps in each column.

    They look like marks, stand in several cells of the table, and are farther from all values of
    their column that do not than five times the width of these. Where one is a mark in a column, it
    is one in every other that it is as far from, whether or not a cell of that holds it yet.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), float64
        NaN are missing cells.

    Returns
    -------
    dict of int to list of float
        Marks by the positions of their columns, with what single precision makes of them.
    """
    finite = np.where(np.isfinite(X), X, np.nan)
    extremes = [of.reduce(finite, initial=np.nan) for of in (np.fmin, np.fmax)]
    if not np.isin(extremes, MARKS).any():
        return {}  # what is far from all others is the least or the greatest
    looks_like_one = np.isin(X, MARKS)
    others = np.where(looks_like_one, np.nan, finite)
    low, high = np.fmin.reduce(others), np.fmax.reduce(others)  # NaN where there is none
    far = FAR * (high - low)
    enough = far > 0
    for j in np.flatnonzero(enough):
        known = others[~np.isnan(others[:, j]), j]
        enough[j] = len(known) >= LEAST_CELLS and len(np.unique(known)) >= LEAST_VALUES
    found = {}
    for mark in np.unique(X[looks_like_one].astype(np.float32)):
        is_far = enough & ((low - mark > far) | (mark - high > far))
        both = MARKS[MARKS.astype(np.float32) == mark].tolist()  # in either precision
        if np.isin(X[:, is_far], both).sum() > 1:
            for j in np.flatnonzero(is_far).tolist():
                found.setdefault(j, []).extend(both)
    return found
