"""Convert pairs (X, y) to Datasets: encode the columns of tables, or leave rows as they are."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from ..cells import are_unlabelled, in_numpy, in_pandas, is_missing, text_as_objects
from .column_types import refuse_codes
from .dataset import Dataset
from .encoding import TableEncoder


def as_dataset(X, y, name="dataset", metadata=None):
    """Encode a table and its target as a Dataset: categories one-hot, labels as codes.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
        An infinite cell counts as missing, so that one bad cell among many tables does not end
        training. So does a number that marks gaps
        (:func:`~sklearn_meta.tasks.gap_marks.gap_marks`).
    y : array-like of shape (n_rows,) or (n_rows, 1)
        Class labels or values of a regression target. Rows without one become the ``unlabelled``
        rows of the dataset. Several columns are only allowed with the task "regression". If float32
        would lose the variation of a target, such as dates in seconds, its mean is subtracted; a
        target below 1e-30 is multiplied by a power of two.
    name : str, default="dataset"
    metadata : dict, default=None
        ``"task"`` says what ``y`` is. Without it, fractional numbers are a regression target, and
        label -1 marks unlabelled rows unless ``"marked"`` is False, as it is for files.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If X is not a table, has no rows, or not as many as y, or y is None; a cell cannot be
        encoded (see :class:`TableEncoder`); or y has several columns of labels, fewer than two
        classes, or a target that is not a finite float32 number.
    TypeError
        If X is sparse.

    Warns
    -----
    UserWarning
        If a column has numbers that mark gaps, or text that mostly looks like numbers.
    """
    X, labelled, y = _labelled_rows(X, y, name, metadata)
    if y.dtype.kind == "f" and len(y):
        _, exponent = np.frexp(np.abs(y).max(0))
        y = np.ldexp(y, np.where(exponent < -100, -exponent, 0))
        rounding = np.abs(y.astype(np.float32) - y).max(0, initial=0)
        y = (y - np.where(rounding > 1e-4 * y.std(0), y.mean(0), 0)).astype(np.float32)
    encoder = TableEncoder(marks=True).fit(X, name=name)
    X = _single_precision(encoder.transform(X))
    return Dataset(name, X[labelled], y, None if labelled.all() else X[~labelled])


def rows_as_they_are(X, y, name="dataset", metadata=None):
    """Dataset of unencoded rows, for networks that read rows of one length; labels as codes.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
        Finite numbers, such as pixels. Bytes stay bytes, for functions that render images;
        everything else becomes float32.
    y, name, metadata
        As in :func:`as_dataset`, but targets stay as they are, and rows without one are left out.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        As in :func:`as_dataset`; or if a cell is not a finite float32 number.
    """
    X, labelled, y = _labelled_rows(X, y, name, metadata)
    X = np.asarray(X)[labelled]
    if X.dtype != np.uint8:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
        if not np.isfinite(X).all():
            raise ValueError(
                f"Dataset {name!r}: a cell is missing, infinite or too large for float32, but the "
                "network reads only finite numbers."
            )
    return Dataset(name, X, y.astype(np.float32) if y.dtype.kind == "f" else y)


def _labelled_rows(X, y, name, metadata):
    """Check a table; return it, the mask of its labelled rows, and their labels."""
    if issparse(X):
        check_array(X, input_name="X")  # raises
    X, y = in_pandas(X), in_numpy(y)
    if not np.iterable(y):
        raise ValueError(
            f"Dataset {name!r}: expected one label per row, got y={y!r}. Mark unlabelled rows by "
            "-1 (by NaN for regression)."
        )
    if len(np.shape(X)) != 2 or not len(X):
        raise ValueError(
            f"Dataset {name!r}: expected X with rows and columns, got shape {np.shape(X)}."
        )
    if len(X) != len(y):
        raise ValueError(f"Dataset {name!r}: X has {len(X)} rows and y has {len(y)}.")
    labelled, y = labels_of(y, name, metadata)
    if y.dtype.kind != "f" and (n_classes := len(np.bincount(y))) < 2:
        told = "" if labelled.all() else " Rows without a label belong to no class."
        if told and (metadata or {}).get("marked", True):
            told = " Rows without a label or with label -1 belong to no class: if -1 is a class,"
            told += " give (X, y, {'task': 'classification'})."
        raise ValueError(f"Dataset {name!r} has {n_classes} class; at least 2 are needed.{told}")
    return X, labelled, y


def labels_of(y, name="dataset", metadata=None):
    """Find the labelled rows of a table, and encode their labels as a Dataset holds them.

    Parameters
    ----------
    y, name, metadata
        As in :func:`as_dataset`.

    Returns
    -------
    labelled : ndarray of shape (n_rows,), bool
    labels : ndarray of shape (n_labelled,) or (n_labelled, n_targets)
        int64 codes of classes, or float64 values of a regression target, in the range of
        float32.

    Raises
    ------
    ValueError
        If y has no rows, several columns of labels, labels of another type, or a target that is not
        a finite float32 number; or if the metadata name another task.
    """
    y = one_column(np.asarray(text_as_objects(in_numpy(y))))
    if not y.size:
        raise ValueError(f"Dataset {name!r} has no rows.")
    task = (metadata or {}).get("task")
    if task not in (None, "classification", "regression"):
        raise ValueError(
            f"Dataset {name!r}: task must be 'classification' or 'regression', got {task!r}."
        )
    if y.ndim > 1 and task != "regression":
        raise ValueError(
            f"Dataset {name!r}: expected one label per row, got y of shape {y.shape}. Give one "
            "column of it or, for several targets, the metadata {'task': 'regression'}."
        )
    labelled = ~is_missing(y.ravel()).reshape(len(y), -1).any(1)
    known = y[labelled]
    if known.dtype == object:
        has_text = any(isinstance(value, str | bytes) for value in known)
        try:
            known = known.astype(str if has_text else float)
        except TypeError as error:
            raise ValueError(
                f"Dataset {name!r}: labels must be numbers or strings, got "
                f"{type(known.flat[0]).__name__}."
            ) from error
    if task == "regression" or (task is None and is_continuous(known)):
        try:
            refuse_codes(known)
            known = known.astype(np.float64)
        except ValueError as error:
            raise ValueError(
                f"Dataset {name!r} has text as its target, but regression needs numbers ({error}): "
                "leave it out, or meta-train a classifier on it."
            ) from error
        if not (np.abs(known) <= np.finfo(np.float32).max).all():
            raise ValueError(
                f"Dataset {name!r} has a target that is infinite or too large for float32."
            )
        return labelled, known
    if task is None and (metadata or {}).get("marked", True):
        marked = are_unlabelled(known)
        labelled[labelled] = ~marked
        known = known[~marked]
    return labelled, np.unique(known, return_inverse=True)[1].astype(np.int64)


def parts_of_pair(item, name):
    """Check a pair, or a triple with metadata; return X, y, and the metadata as a dict."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        is_bunch = isinstance(item, Mapping) and "target" in item
        of_bunch = " For a Bunch, give (bunch.data, bunch.target)." if is_bunch else ""
        raise ValueError(
            f"Dataset {name!r} must be a pair (X, y), got {type(item).__name__}. For a single "
            f"table, give a list: [(X, y)].{of_bunch}"
        )
    X, y, metadata = (*item, None)[:3]
    if not isinstance(metadata, Mapping | None):
        raise ValueError(
            f"Dataset {name!r}: the third item must be metadata, a dict such as "
            f"{{'task': 'regression'}}, got {type(metadata).__name__}. Put unlabelled rows "
            "into X, with -1 (NaN for regression) in y."
        )
    return X, y, metadata or {}


def of_arrays(dataset, told):
    """Check that a Dataset, which a user made, has numeric arrays; flatten labels in one column.

    ``told`` begins the error.
    """
    parts = dataset.X, dataset.y
    arrays = [isinstance(part, np.ndarray) and part.dtype.kind in "iufb" for part in parts]
    if not all(arrays) or dataset.X.ndim < 2:
        raise ValueError(
            f"{told}: X must be a numeric array with rows and columns, y an array of class codes "
            "or target values. as_dataset(X, y) makes both from a table."
        )
    return dataset._replace(y=one_column(dataset.y))


def one_column(y):
    """Flatten labels that come as a single column."""
    return y.ravel() if np.ndim(y) == 2 and y.shape[1] == 1 else y


def is_continuous(y):
    """Whether labels are a regression target, not classes: floats that are not all integers."""
    if y.dtype.kind != "f" or not len(y):
        return False
    return not np.isfinite(y).all() or type_of_target(y) == "continuous"


def _single_precision(X):
    """Centre and scale columns before rounding: a large offset would swallow their variation."""
    X = np.asarray(X, dtype=np.float64)
    observed = np.isfinite(X)
    # Divide by a power of two, which rounds nothing: 1e200 and 1e-200 have no square in float64.
    _, exponent = np.frexp(np.where(observed, np.abs(X), 0).max(0, initial=0))
    X = np.ldexp(X, -exponent)
    count = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, X, 0).sum(0) / count
    scale = np.sqrt((np.where(observed, X - mean, 0) ** 2).sum(0) / count)
    return np.where(observed, (X - mean) / np.where(scale > 0, scale, 1), np.nan).astype(np.float32)
