"""Numbers that mark gaps, such as -9999, and are far from all other values."""

import numpy as np

#: Numbers that mark gaps: only sevens, eights or nines, as 99, -9999 or 999.9; -1, -7, -8, -9.
_REPEATED = [int(str(digit) * length) for digit in (7, 8, 9) for length in range(2, 8)]
_PLAIN = [*_REPEATED, *(number / 10 for number in _REPEATED if number > 99)]
_NUMBERS = np.array([*_PLAIN, *(-number for number in _PLAIN), -1, -7, -8, -9])
MARKS = np.unique([_NUMBERS, _NUMBERS.astype(np.float32)])

#: Minimum distance of a mark from all other values, in units of their range.
FAR = 5

#: Minimum number of cells, and of different values, that a column must hold besides marks.
LEAST_CELLS, LEAST_VALUES = 5, 3


def gap_marks(X):
    """Find the numbers that mark gaps in each column.

    A mark is one of ``MARKS``, is farther than five times the range of a column's other values from
    all of them, and occurs in several cells of such columns. It is then a mark of every column from
    whose values it is as far, even if no cell of that column holds it yet.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), float64
        NaN is a missing cell.

    Returns
    -------
    dict of int to list of float
        Marks by column index, in double precision and as rounded to single precision.
    """
    finite = np.where(np.isfinite(X), X, np.nan)
    extremes = [of.reduce(finite, initial=np.nan) for of in (np.fmin, np.fmax)]
    if not np.isin(extremes, MARKS).any():
        return {}  # a mark is the least or the greatest value of a column
    looks_like_one = np.isin(X, MARKS)
    others = np.where(looks_like_one, np.nan, finite)
    low, high = np.fmin.reduce(others), np.fmax.reduce(others)  # NaN if there is none
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
