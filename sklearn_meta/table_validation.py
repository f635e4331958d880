"""Validation of users' tables, with scikit-learn's messages; missing cells stay as they are."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_array, check_X_y, column_or_1d
from sklearn.utils.validation import validate_data

from .cells import in_numpy, in_pandas, is_missing, shown, text_as_objects
from .tasks.column_types import targets_as_numbers
from .user_warnings import warn


def check_labels(y):
    """Refuse labels if one is missing, or if they mix text and numbers.

    numpy would silently convert a mixed list to text, and NaN to a class "nan".
    """
    labels = column_or_1d(in_numpy(text_as_objects(y)))
    if is_missing(labels).any():
        raise ValueError(
            "Input y contains NaN or None, but each row needs a label: leave unlabelled rows "
            "out, or mark them with -1 and use MetaSemiSupervisedClassifier, which reads them, "
            "too."
        )
    if len({isinstance(label, str) for label in labels.tolist()}) > 1:
        raise ValueError("Labels must be all strings or all numbers, got both.")


def check_dense(y):
    """Refuse sparse targets with scikit-learn's message, before anything else reads them."""
    if issparse(y):
        raise TypeError(
            "Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert "
            "to a dense numpy array."
        )


def without_gaps(y):
    """Copy targets with zeros in place of missing ones; also return the mask of these."""
    y = np.asarray(targets_as_numbers(y)).copy()  # the original may be read-only
    if y.dtype.kind == "f":
        unlabelled = np.isnan(y)
    else:
        unlabelled = is_missing(y.ravel()).reshape(y.shape)
    y[unlabelled] = 0
    return y, unlabelled


def labelled_targets(y):
    """Targets of the labelled rows; raise if a row has only some targets, or no row has any."""
    unlabelled = np.isnan(y.reshape(len(y), -1))
    torn = unlabelled.any(1) & ~unlabelled.all(1)
    if torn.any():
        raise ValueError(
            f"Row {torn.argmax()} of y has only some of its targets: give all of them, or NaN for "
            "all to leave the row unlabelled."
        )
    if unlabelled.all():
        raise ValueError("No row is labelled: y holds nothing but NaN. Label some rows.")
    return y[~unlabelled[:, 0]]


def validated_table(estimator, X, *, reset=True, **checks):
    """Validate a table as scikit-learn does, but allow missing cells; DataFrames stay as they are.

    Parameters
    ----------
    estimator : estimator object
        Stores the column names, or checks that they are the same as in ``fit``.
    X : array-like or DataFrame of shape (n_rows, n_columns)
    reset : bool, default=True
        Whether this is the table of ``fit``.
    **checks
        Further arguments of :func:`sklearn.utils.check_array`.

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
    """Validate a table and its labels likewise, by :func:`sklearn.utils.check_X_y`."""
    X = as_cells(X)
    if not hasattr(X, "iloc"):
        return validate_data(
            estimator, X, y, reset=reset, dtype=None, ensure_all_finite=False, **checks
        )
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    return X, check_X_y(np.zeros(X.shape), y, estimator=estimator, **checks)[1]


def table_with_targets(estimator, X, y):
    """Validate a table and its targets, one or several per row: float64, NaN where missing."""
    if y is not None:
        y = as_cells(y)
        check_dense(y)
        y, unlabelled = without_gaps(y)
    X, y = table_with_labels(estimator, X, y, multi_output=True)
    y = y.astype(np.float64)
    assert_all_finite(y, input_name="y")  # the check above skips arrays of objects
    return X, np.where(unlabelled, np.nan, y)


def as_cells(X):
    """Convert what a user passes as a table to something that scikit-learn validates rightly.

    A list of rows of text and numbers becomes an array of objects: numpy would make all of it text.
    Frames of other libraries, such as polars and pyarrow, become pandas DataFrames, since an array
    has only one dtype. Tensors become arrays, since scikit-learn leaves them as they are under
    array API dispatch. A Series becomes an array, which scikit-learn then refuses with its own
    message. Anything else is returned unchanged.
    """
    X = in_pandas(X)
    if hasattr(X, "iloc") and X.ndim != 2:
        return np.asarray(X)
    return text_as_objects(X)


def checked_cells(X):
    """Check a table of one of many tasks.

    Frames and numeric arrays skip scikit-learn's checks, which would double the time of encoding.
    """
    if hasattr(X, "iloc") or (isinstance(X, np.ndarray) and X.dtype.kind in "fiub"):
        return X
    return check_array(as_cells(X), dtype=None, ensure_all_finite=False, ensure_min_samples=0)


def encode(encoder, X):
    """Encode a table as numbers; raise, with scikit-learn's message, if one is infinite.

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
    """Warn of columns in which no row has a category that ``fit`` has seen.

    A single row may be odd and gets no warning. Also warn of text in a column whose text in
    ``fit`` was all numbers.

    Parameters
    ----------
    encoder : TableEncoder
        Fitted.
    X : ndarray or DataFrame of shape (n_rows, n_columns)
    """
    for name, seen, cells in encoder.categories_of(X):
        if len(cells) > 1 and seen.isdisjoint(cells):
            warn(
                f"Column {name!r} holds only categories that fit has not seen (such as "
                f"{shown(cells[0])}): the whole column is read as missing. Spell categories as in "
                "fit, or fit on rows with more of them.",
            )
    for name, cell in encoder.text_among_numbers(X):
        warn(
            f"Column {name!r} held only numbers as text in fit and now holds other text, such as "
            f"{shown(cell)}, which is read as missing. If its values are categories, convert it "
            "to dtype category before splitting the rows.",
        )


def encode_observed(encoder, X):
    """Encode a table; also raise if every cell is missing."""
    return check_observed(encode(encoder, X))


def check_observed(encoded):
    """Return an encoded table; raise if every cell is missing."""
    if np.isnan(encoded).all():
        raise ValueError("Every cell of X is missing: at least one must be observed.")
    return encoded
