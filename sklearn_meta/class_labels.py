"""Class labels as users give them, for rows and texts, and their codes."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import column_or_1d

from .cells import check_classes, is_missing, text_as_objects, whole_labels
from .table_validation import as_cells, check_dense


def as_labels(y):
    """Convert labels to what scikit-learn accepts; raise if labels are missing or of mixed kinds.

    Integers and booleans in arrays of objects become integers, those of pandas and torch numpy's.
    """
    check_dense(y)
    values = np.asarray(as_cells(y))
    if y is None or values.dtype.kind in "US":
        return y
    if values.dtype.kind in "iub":
        return values
    if is_missing(values.ravel()).any():
        raise ValueError("Input y contains NaN or None: mark rows without a label with -1.")
    if values.dtype.kind in "mM":
        return values
    kinds = {isinstance(value, str) for value in values.flat if value != -1}
    if len(kinds) > 1:
        raise ValueError("Labels must be all strings or all numbers, apart from -1, got both.")
    if True in kinds:  # numpy might convert the mark -1 to the text "-1.0"
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
    """Sorted classes, and the class code of each row: -1 if the row is unlabelled."""
    codes = np.full(len(y), -1)
    classes, codes[~unlabelled] = np.unique(y[~unlabelled], return_inverse=True)
    return classes, codes


def check_two_classes(estimator, classes, what="labelled rows", hint=""):
    """Refuse a single class; ``what`` has the labels."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs {what} of at least 2 classes; the data contains "
            f"only one class: {classes.tolist()[0]!r}.{hint}"
        )


def labels_to_save(y):
    """Array of labels that a card of weights can store; raise if one is missing."""
    y = column_or_1d(whole_labels(text_as_objects(y)), warn=True)
    if is_missing(y).any():
        raise ValueError("Input y contains NaN or None: every text needs a label.")
    of_times = any(isinstance(label, np.timedelta64) for label in y)  # they are Integral, too
    kinds = (str, Real, np.bool_)
    if of_times or not any(all(isinstance(label, kind) for label in y) for kind in kinds):
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            "Labels must be all strings or all numbers, so that weights can store them, got "
            f"{' and '.join(kinds)}: pass y.astype(str)."
        )
    check_classes(y)
    return y


def array_of(labels):
    """Convert a list of sorted labels to an array.

    numpy would convert integers below and above 2 ** 63 to floats, which rounds them.
    """
    large = isinstance(labels[-1], int) and labels[-1] >= 2**63
    return np.asarray(labels, dtype=np.uint64 if large else None)


def places_among(labels, y):
    """Position of each label in a list of all labels."""
    number = {label: i for i, label in enumerate(labels)}
    y = np.asarray(y).tolist()
    if unknown := [label for label in y if label not in number]:
        raise ValueError(f"Label {unknown[0]!r} is not one of {labels}.")
    return [number[label] for label in y]
