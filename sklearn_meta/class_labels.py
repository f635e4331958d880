"""Labels of classes as users give them: -1, or what text makes of it, where a row has none."""

from numbers import Integral

import numpy as np

from .cells import is_missing
from .table_validation import as_cells, check_dense


def as_labels(y):
    """Labels as scikit-learn takes them; of what is no label, say how to mark a row without one.

    Integers and booleans that are objects become integers, those of pandas and torch numpy's.
    """
    check_dense(y)
    values = np.asarray(as_cells(y))
    if y is None or values.dtype.kind in "US":
        return y
    if values.dtype.kind in "iub":
        return values
    if is_missing(values.ravel()).any():
        raise ValueError("Input y contains NaN or None: mark rows without a label by -1.")
    if values.dtype.kind in "mM":
        return values
    kinds = {isinstance(value, str) for value in values.flat if value != -1}
    if len(kinds) > 1:
        raise ValueError("Labels are strings and numbers: they must be of one kind, but for -1.")
    if True in kinds:  # of a list of both numpy would make "-1.0" of the mark
        text = np.where(values == -1, "-1", values)
        return text if hasattr(y, "dtype") else text.astype(str)
    if not hasattr(y, "dtype"):
        return y
    whole = all(isinstance(value, Integral | np.bool_) for value in values.flat)
    try:
        return values.astype(int) if whole else values
    except OverflowError as error:
        raise ValueError("A label is an integer beyond 64 bits: give labels as str.") from error


def are_unlabelled(y):
    """Rows that scikit-learn's convention marks as unlabelled, a bool array."""
    if y.dtype.kind in "iuf":
        return y == -1
    if y.dtype.kind in "mM":  # of which -1 is one, and no mark
        return np.zeros(len(y), dtype=bool)
    return np.array([label == -1 or label == "-1" for label in y], dtype=bool)


def class_codes(y, unlabelled):
    """Sorted classes, and of each row the number of its class, -1 if it is unlabelled."""
    codes = np.full(len(y), -1)
    classes, codes[~unlabelled] = np.unique(y[~unlabelled], return_inverse=True)
    return classes, codes
