"""Labels of classes as users give them, of rows and of texts, and their places among them."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import column_or_1d

from .cells import check_classes, is_missing, text_as_objects, whole_labels
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


def class_codes(y, unlabelled):
    """Sorted classes, and of each row the number of its class, -1 if it is unlabelled."""
    codes = np.full(len(y), -1)
    classes, codes[~unlabelled] = np.unique(y[~unlabelled], return_inverse=True)
    return classes, codes


def labels_to_save(y):
    """Labels, none of them missing, of a kind that the card of weights can hold; an array."""
    y = column_or_1d(whole_labels(text_as_objects(y)), warn=True)
    if is_missing(y).any():
        raise ValueError("Input y contains NaN or None: every text has a label.")
    of_times = any(isinstance(label, np.timedelta64) for label in y)  # numpy's are integers, too
    kinds = (str, Real, np.bool_)
    if of_times or not any(all(isinstance(label, kind) for label in y) for kind in kinds):
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            "Labels must be all strings or all numbers, which weights can be saved with, got "
            f"{' and '.join(kinds)}: give y.astype(str)."
        )
    check_classes(y)
    return y


def array_of(labels):
    """Sorted labels of a list as an array.

    Of numbers below and above 2 ** 63 numpy would make floats, which round them.
    """
    large = isinstance(labels[-1], int) and labels[-1] >= 2**63
    return np.asarray(labels, dtype=np.uint64 if large else None)


def places_among(labels, y):
    """The place of each of some labels in a list of them all."""
    number = {label: i for i, label in enumerate(labels)}
    y = np.asarray(y).tolist()
    if unknown := [label for label in y if label not in number]:
        raise ValueError(f"Label {unknown[0]!r} is not one of {labels}.")
    return [number[label] for label in y]
