"""Cells of tables: what they hold, and conversions of other libraries' data, without torch."""

import re
import reprlib

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from .user_warnings import warn

#: Text that may be meant as a number, with a sign such as $ or %, or as a date.
_LIKE_NUMBERS = re.compile(r"(?=\D*\d)[\W\dTZeE]+")

_SHORT = reprlib.Repr()
_SHORT.maxstring = 60


def shown(cell):
    """Text of a cell for messages; long text, which requests may hold, is cut to its two ends."""
    return _SHORT.repr(cell)


def is_missing_value(value):
    """Whether a cell or a label is None, NaN, NaT or pandas' NA; text never is."""
    if isinstance(value, str | int):
        return False
    if isinstance(value, float):
        return bool(value != value)
    # Test the text first: pandas' NA raises where its comparison is used as a bool.
    if value is None or str(value) == "<NA>":
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError, RuntimeError):  # a Series, an array or a tensor in a cell
        return False


def is_missing(column):
    """Mask of the cells of an array that hold None, NaN or pandas' NA."""
    # Not a ufunc: under Python 3.13 NumPy warns when a NaN is compared with itself.
    missing = [type(value) is not str and is_missing_value(value) for value in column]
    return np.array(missing, dtype=bool)


def warn_of_numbers(name, different, most):
    """Warn if there are more than ``most`` different cells, and most of these look like numbers."""
    if len(different) <= most:
        return
    others = sorted(cell for cell in different if not _LIKE_NUMBERS.fullmatch(cell))
    if 2 * len(others) >= len(different):
        return
    example = f", unlike {shown(others[0])}" if others else f", such as {shown(min(different))}"
    warn(
        f"Column {name!r} holds text, most of which looks like numbers or dates{example}. Each "
        "value is a category of its own, from which hardly anything can be learned. If the "
        "values are not categories, convert them first with pandas.to_numeric(..., "
        "errors='coerce') or pandas.to_datetime; if they are, give the column dtype category.",
    )


def warn_of_marks(told, table):
    """Warn of numbers that mark gaps; ``told`` maps each number to the columns that hold it.

    ``table`` is the name of the table, if there are many tables.
    """
    listed = "; ".join(
        f"{mark:g} in columns {names[:5]}" + f" and {len(names) - 5} others" * (len(names) > 5)
        for mark, names in told.items()
    )
    told_of = "" if table is None else f"Dataset {table!r}: "
    warn(
        f"{told_of}These values lie far from all others and are read as missing cells: {listed}. "
        "Replace them with NaN. If such a value means a case of its own, add a column that marks "
        "it.",
    )


def text_as_objects(values):
    """Convert a list with text to an array of objects; return anything else unchanged.

    numpy would convert numbers and gaps beside text to text, too: NaN to "nan".
    """
    if isinstance(values, list | tuple) and np.asarray(values).dtype.kind in "US":
        return np.array(values, dtype=object)
    return values


def in_numpy(values):
    """Convert tensors and other libraries' arrays to NumPy: scikit-learn may leave them unchanged.

    In masked arrays, whose mask scikit-learn drops, masked cells become missing cells. Anything
    else is returned unchanged.
    """
    if isinstance(values, np.ma.MaskedArray):
        return _without_mask(values)
    if hasattr(type(values), "requires_grad"):  # a tensor, tested without importing torch
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        return values.numpy(force=True)
    is_array = hasattr(values, "__array_namespace__")
    return np.asarray(values) if is_array and not isinstance(values, np.ndarray) else values


def _without_mask(values):
    """Convert a masked array to a plain one; masked cells become NaN, NaT or, among text, None."""
    if not np.ma.is_masked(values):
        return values.data
    kind = values.dtype.kind
    dtype, gap = (float, np.nan) if kind in "fiub" else (object, None)
    plain = values.data.copy() if kind in "mM" else values.data.astype(dtype)
    plain[np.ma.getmaskarray(values)] = "NaT" if kind in "mM" else gap
    return plain


def in_pandas(X):
    """Convert frames of other libraries, such as polars and pyarrow, to pandas.

    Those of dask are computed, as its arrays are. Tensors and other libraries' arrays are converted
    to NumPy. Anything else is returned unchanged, and so is a frame if pyarrow or pandas is
    missing, or if pyarrow lacks a type, such as polars' integers of 128 bits. Lazy frames are
    refused: scikit-learn would take one for a single cell.
    """
    X = in_numpy(X)
    if hasattr(type(X), "collect_schema") and hasattr(type(X), "collect"):
        raise TypeError(f"A {type(X).__name__} has no rows yet: give what its collect() returns.")
    # Methods of the class: pandas would give a column of that name.
    if hasattr(X, "columns") and hasattr(type(X), "compute"):
        X = X.compute()
    if hasattr(X, "columns") and hasattr(type(X), "to_pandas"):
        try:
            return X.to_pandas()
        except (ImportError, ValueError):  # ArrowInvalid is one
            return X
    return X


def rows_of(X):
    """Convert a column of lists, such as a set of points read from parquet, to a list of rows.

    Anything else is returned unchanged.
    """
    if hasattr(type(X), "to_list"):  # of pandas, polars or awkward
        return X.to_list()
    return list(X) if holds_objects(X) else X


def holds_objects(X):
    """Whether X is one column of objects, such as lists, arrays or text."""
    dtype = getattr(X, "dtype", None)  # Arrow's has no kind
    return getattr(X, "ndim", None) == 1 and getattr(dtype, "kind", None) == "O"


def whole_labels(y):
    """Convert integers and booleans of pandas' dtypes to numpy: scikit-learn makes floats of them.

    Anything else is returned unchanged.
    """
    y = in_numpy(y)
    values = np.asarray(y) if hasattr(y, "__array__") else np.empty(0)
    return values if values.dtype.kind in "iub" else y


def concat_frames(first, second):
    """Stack the rows of two DataFrames with the same columns.

    Parameters
    ----------
    first : DataFrame of shape (n_rows, n_columns)
    second : DataFrame or array-like of shape (n_more_rows, n_columns)
        Columns are matched by position: matched by name, other names would add columns.

    Returns
    -------
    DataFrame
        With the column names of ``first``; its columns of dtype category keep that dtype.
    """
    import pandas as pd  # installed, since `first` is a pandas DataFrame

    second = second if hasattr(second, "iloc") else pd.DataFrame(np.asarray(second))
    parts = [part.set_axis(first.columns, axis=1) for part in (first, second)]  # copies
    for part in parts:
        part.attrs = {}  # pandas compares attrs by ==, which fails for arrays
    stacked = pd.concat(parts, ignore_index=True)
    for j, dtype in enumerate(first.dtypes):
        if dtype == "category":  # concat drops it if the categories differ
            stacked.isetitem(j, stacked.iloc[:, j].astype("category"))
    return stacked


def dates_as_numbers(y):
    """Convert targets that are NumPy dates or durations to numbers in their unit, NaT to NaN.

    Anything else is returned unchanged.
    """
    values = np.asarray(y)
    if values.dtype.kind not in "mM":
        return y
    return np.where(np.isnat(values), np.nan, values.astype(np.int64))


def in_seconds(column, kind):
    """Convert dates to seconds since 1970, and durations to seconds; NaT becomes NaN.

    Parameters
    ----------
    column : array-like of shape (n_rows,)
        With a time zone or without.
    kind : {"M", "m"}
        Kind of its dtype: dates, or durations.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    if hasattr(column, "to_numpy"):  # gaps may be pandas' NA
        nothing = np.array("NaT", dtype=f"{kind}8[us]")[()]
        try:
            column = column.to_numpy(dtype=f"{kind}8[us]", na_value=nothing)
        except ValueError:  # Arrow's days
            column = column.to_numpy(dtype=object, na_value=None)
    column = np.asarray(column, dtype=f"{kind}8[us]")
    start = np.datetime64(0, "us") if kind == "M" else np.timedelta64(0, "us")
    return (column - start) / np.timedelta64(1, "s")


def are_unlabelled(y):
    """Mask of the labels that are -1 (or "-1"), scikit-learn's mark of an unlabelled row."""
    if y.dtype.kind in "iuf":
        return y == -1
    if y.dtype.kind in "mM":  # dates and durations, of which -1 is one like any other
        return np.zeros(len(y), dtype=bool)
    return np.array([label == -1 or label == "-1" for label in y], dtype=bool)


def warn_of_unlabelled(n_rows, mark=-1):
    """Warn if ``n_rows`` of the rows to be scored have no label, only ``mark``."""
    if n_rows:
        first = "" if mark == -1 else "mark them with -1 and "
        warn(
            f"{n_rows} of the rows to be scored have no label ({mark}), and each counts as a "
            f"mistake: leave them out, or {first}cross-validate with cv=SemiSupervisedSplit() "
            "from sklearn_meta.model_selection. Train scores, such as those of learning_curve, "
            "include such rows with any splitter.",
        )


def check_classes(y):
    """Refuse targets that are not classes.

    The targets are passed twice: scikit-learn warns if each of a few rows has a class of its own,
    and filtering that warning would change the filters of all threads.
    """
    check_classification_targets(np.tile(y, 2))
