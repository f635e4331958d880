"""Tables as users give them: validated in scikit-learn's words, missing cells left as they are."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_X_y, column_or_1d
from sklearn.utils.validation import validate_data

from .cells import in_numpy, in_pandas, is_missing, shown, text_as_objects
from .tasks.column_types import targets_as_numbers
from .user_warnings import warn


def check_labels(y):
    """Refuse labels of which one is missing, or some are text and others are not.

    Of a list of both numpy makes text, "nan" of NaN: a class of its own, without a word.
    """
    labels = column_or_1d(in_numpy(text_as_objects(y)))
    if is_missing(labels).any():
        raise ValueError(
            "Input y contains NaN or None, and each row wants a label: leave rows without one out, "
            "or mark them by -1 for MetaSemiSupervisedClassifier, which reads them, too."
        )
    if len({isinstance(label, str) for label in labels.tolist()}) > 1:
        raise ValueError("Labels are strings and numbers: they must be all of one kind.")


def check_dense(y):
    """Refuse sparse targets in scikit-learn's words, before anything else reads them."""
    if issparse(y):
        raise TypeError(
            "Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert "
            "to a dense numpy array."
        )


def without_gaps(y):
    """A copy of targets, with zeros in place of those that are missing, and where these are."""
    y = np.asarray(targets_as_numbers(y)).copy()  # as it is it may be read-only
    if y.dtype.kind in "fc":
        unlabelled = np.isnan(y)
    else:
        unlabelled = is_missing(y.ravel()).reshape(y.shape)
    y[unlabelled] = 0
    return y, unlabelled


def labelled_targets(y):
    """Those of the rows that have all of their targets; refuse rows that have some, or no other."""
    unlabelled = np.isnan(y.reshape(len(y), -1))
    torn = unlabelled.any(1) & ~unlabelled.all(1)
    if torn.any():
        raise ValueError(
            f"Row {torn.argmax()} of y has some of its targets only: give all of them, or NaN "
            "for all to leave the row unlabelled."
        )
    if unlabelled.all():
        raise ValueError("No row is labelled: y holds nothing but NaN. Label some rows.")
    return y[~unlabelled[:, 0]]


def validated_table(estimator, X, *, reset=True, **checks):
    """A table in scikit-learn's words, but that cells may be missing; DataFrames stay as they are.

    Parameters
    ----------
    estimator : estimator object
        Learns the names of columns, or compares them.
    X : array-like or DataFrame of shape (n_rows, n_columns)
    reset : bool, default=True
        Whether this is the table of ``fit``.
    **checks
        Further ones of :func:`sklearn.utils.check_array`.

    Returns
    -------
    ndarray or DataFrame
    """
    X = as_cells(X)
    if not hasattr(X, "iloc"):
        return validate_data(
            estimator, X, reset=reset, dtype=None, ensure_all_finite=False, **checks
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    check_array(np.zeros(X.shape), estimator=estimator, **checks)
    return X


def table_with_labels(estimator, X, y, *, reset=True, **checks):
    """The same of a table and its labels, by :func:`sklearn.utils.check_X_y`."""
    X = as_cells(X)
    if not hasattr(X, "iloc"):
        return validate_data(
            estimator, X, y, reset=reset, dtype=None, ensure_all_finite=False, **checks
        )
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    return X, check_X_y(np.zeros(X.shape), y, estimator=estimator, **checks)[1]


def table_with_targets(estimator, X, y):
    """The same of targets, one or several a row, float64; those that are missing are NaN."""
    if y is not None:
        y = as_cells(y)
        check_dense(y)
        y, unlabelled = without_gaps(y)
    X, y = table_with_labels(estimator, X, y, multi_output=True, y_numeric=True)
    y = y.astype(np.float64)
    assert_all_finite(y, input_name="y")  # objects were not looked into
    return X, np.where(unlabelled, np.nan, y)


def as_cells(X):
    """A list of rows of text and numbers as an array of objects: numpy would make all of it text.

    Frames of other libraries, as polars and pyarrow have them, become pandas', since an array has
    one dtype, and tensors arrays, since scikit-learn leaves them as they are where it is set to
    array API dispatch. Anything else is returned as it is, a Series as an array: scikit-learn says
    what is wrong.
    """
    X = in_pandas(X)
    if hasattr(X, "iloc") and X.ndim != 2:
        return np.asarray(X)
    return text_as_objects(X)


def checked_cells(X):
    """A table of one of many tasks: scikit-learn's checks cost as much as the rest of its way."""
    if hasattr(X, "iloc") or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub"):
        return X
    return check_array(as_cells(X), dtype=None, ensure_all_finite=False, ensure_min_samples=0)


def encode(encoder, X):
    """Numbers of a table, of which none may be infinite; in scikit-learn's words.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted.
    X : ndarray or DataFrame of shape (n_rows, n_columns)

    Returns
    -------
    ndarray of shape (n_rows, n_columns_out), float64

    Raises
    ------
    ValueError
        If a cell is infinite.
    """
    encoded = encoder.transform(X)
    if np.isinf(encoded).any():
        raise ValueError("Input X contains infinity or a value too large for float64.")
    return encoded


def warn_of_strangers(encoder, X):
    """Warn of columns of which no row has a category that ``fit`` has seen; one row may be odd.

    And of text in columns of which ``fit`` has seen text of numbers alone.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted.
    X : ndarray or DataFrame of shape (n_rows, n_columns)
    """
    for name, seen, cells in encoder.categories_of(X):
        if len(cells) > 1 and seen.isdisjoint(cells):
            warn(
                f"Column {name!r} holds no category that fit has seen (such as {shown(cells[0])}): "
                "all of it is read as missing. Spell categories as in fit, or show fit more of "
                "them.",
            )
    for name, cell in encoder.text_among_numbers(X):
        warn(
            f"Column {name!r} was text of numbers alone in fit and holds other text now, such as "
            f"{shown(cell)}, which is read as missing. If it is of categories, give it dtype "
            "category, before rows are divided.",
        )


def encode_observed(encoder, X):
    """The same, of a table of which at least one cell is not missing."""
    return check_observed(encode(encoder, X))


def check_observed(encoded):
    """Refuse a table of which every cell is missing; else return it."""
    if np.isnan(encoded).all():
        raise ValueError("Every cell of X is missing: at least one must be observed.")
    return encoded
