"""What a cell of a table holds, where no torch is needed to ask."""

import re
import reprlib

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from .user_warnings import warn

#: Text that may have been meant for a number, with a sign such as $ or %, or for a date.
_LIKE_NUMBERS = re.compile(r"(?=\D*\d)[\W\dTZeE]+")

_SHORT = reprlib.Repr()
_SHORT.maxstring = 60


def shown(cell):
    """How messages show the text of a cell: of long text, as requests may hold, its two ends."""
    return _SHORT.repr(cell)


def is_missing_value(value):
    """Whether a cell or a label is None, NaN, NaT or pandas' NA; text never is."""
    if isinstance(value, str | int):
        return False
    if isinstance(value, float):
        return bool(value != value)
    # Text first: pandas' NA refuses to say whether it equals itself.
    if value is None or str(value) == "<NA>":
        return True
    try:
        return bool(value != value)
    except ValueError:  # an array in a cell
        return False


def is_missing(column):
    """Mask of the cells of an array that hold None, NaN or pandas' NA."""
    # No ufunc: under Python 3.13 NumPy warns of a NaN that compares itself.
    missing = [type(value) is not str and is_missing_value(value) for value in column]
    return np.array(missing, dtype=bool)


def warn_of_numbers(name, different, most):
    """Warn of different cells, a set of more than ``most``, of which most look like numbers."""
    if len(different) <= most:
        return
    others = sorted(cell for cell in different if not _LIKE_NUMBERS.fullmatch(cell))
    if 2 * len(others) >= len(different):
        return
    example = f", but for {shown(others[0])}" if others else f", such as {shown(min(different))}"
    warn(
        f"Column {name!r} holds text, most of which looks like numbers or dates{example}. Each is "
        "a category of its own, of which hardly anything can be learned: if it is none, convert it "
        "before, as pandas.to_numeric(..., errors='coerce') and pandas.to_datetime do; if it is, "
        "give it the dtype category.",
    )


def warn_of_marks(told, table=None):
    """Warn of numbers that mark gaps: a dict of each to the names of the columns that hold it.

    ``table`` is the name of the table, where there are many.
    """
    listed = "; ".join(
        f"{mark:g} in columns {names[:5]}" + f" and {len(names) - 5} others" * (len(names) > 5)
        for mark, names in told.items()
    )
    told_of = "" if table is None else f"Dataset {table!r}: "
    warn(
        f"{told_of}Far from all other values, these are read as missing cells: {listed}. Make them "
        "NaN; what is no gap, but a case of its own, may have a column that says so.",
    )


def text_as_objects(values):
    """A list that holds text as an array of objects; anything else as it is.

    Of text beside numbers and gaps numpy would make nothing but text: "nan" of NaN.
    """
    if isinstance(values, list | tuple) and np.asarray(values).dtype.kind in "US":
        return np.array(values, dtype=object)
    return values


def in_numpy(values):
    """Tensors, and arrays of other libraries, as NumPy's: scikit-learn may leave them as they are.

    Of masked arrays, whose mask it drops, masked cells become missing ones. Anything else is
    returned as it is.
    """
    if isinstance(values, np.ma.MaskedArray):
        return _without_mask(values)
    if hasattr(type(values), "requires_grad"):  # torch's, which need not be there to ask
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        return values.numpy(force=True)
    is_array = hasattr(values, "__array_namespace__")
    return np.asarray(values) if is_array and not isinstance(values, np.ndarray) else values


def _without_mask(values):
    """A masked array as a plain one: its masked cells are NaN, NaT or, among text, None."""
    if not np.ma.is_masked(values):
        return values.data
    kind = values.dtype.kind
    dtype, gap = (float, np.nan) if kind in "fiub" else (object, None)
    plain = values.data.copy() if kind in "mM" else values.data.astype(dtype)
    plain[np.ma.getmaskarray(values)] = "NaT" if kind in "mM" else gap
    return plain


def in_pandas(X):
    """Frames of other libraries, as polars and pyarrow have them, as pandas'.

    Tensors, and arrays of other libraries, become NumPy's. Anything else is returned as it is, and
    so is a frame for which pyarrow or pandas is missing, or of a type that pyarrow does not have,
    as polars' integers of 128 bits. One that is not computed yet is refused: scikit-learn would
    take it for a single cell.
    """
    X = in_numpy(X)
    if hasattr(type(X), "collect_schema") and hasattr(type(X), "collect"):
        raise TypeError(f"A {type(X).__name__} has no rows yet: give what its collect() returns.")
    if hasattr(X, "columns") and hasattr(X, "to_pandas"):
        try:
            return X.to_pandas()
        except (ImportError, ValueError):  # ArrowInvalid is one
            return X
    return X


def whole_labels(y):
    """Integers and booleans of pandas' own dtypes as numpy's: scikit-learn makes floats of them.

    Anything else is returned as it is.
    """
    y = in_numpy(y)
    values = np.asarray(y) if hasattr(y, "__array__") else np.empty(0)
    return values if values.dtype.kind in "iub" else y


def concat_frames(first, second):
    """Rows of two DataFrames of the same kind, one below the other.

    Parameters
    ----------
    first : DataFrame of shape (n_rows, n_columns)
    second : DataFrame or array-like of shape (n_more_rows, n_columns)
        Columns belong together by their position: by name, other names would make other columns.

    Returns
    -------
    DataFrame
        With the names of the first, whose columns of categories stay such.
    """
    import pandas as pd  # there, as `first` is pandas'

    second = second if hasattr(second, "iloc") else pd.DataFrame(np.asarray(second))
    parts = [part.set_axis(first.columns, axis=1) for part in (first, second)]  # not the user's own
    for part in parts:
        part.attrs = {}  # pandas compares them by ==, which arrays refuse
    stacked = pd.concat(parts, ignore_index=True)
    for j, dtype in enumerate(first.dtypes):
        if dtype == "category":  # lost where the two hold other categories
            stacked.isetitem(j, stacked.iloc[:, j].astype("category"))
    return stacked


def dates_as_numbers(y):
    """Targets of NumPy's dates or durations as numbers in their own unit, NaN for NaT.

    Anything else is returned as it is.
    """
    values = np.asarray(y)
    if values.dtype.kind not in "mM":
        return y
    return np.where(np.isnat(values), np.nan, values.astype(np.int64))


def in_seconds(column, kind):
    """Dates as seconds since 1970, or durations, with a time zone or without; NaN for NaT.

    Parameters
    ----------
    column : array-like of shape (n_rows,)
    kind : {"M", "m"}
        Of its dtype: dates, or durations.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    if hasattr(column, "to_numpy"):  # whose gaps may be pandas' NA
        nothing = np.array("NaT", dtype=f"{kind}8[us]")[()]
        try:
            column = column.to_numpy(dtype=f"{kind}8[us]", na_value=nothing)
        except ValueError:  # days of Arrow
            column = column.to_numpy(dtype=object, na_value=None)
    column = np.asarray(column, dtype=f"{kind}8[us]")
    start = np.datetime64(0, "us") if kind == "M" else np.timedelta64(0, "us")
    return (column - start) / np.timedelta64(1, "s")


def are_unlabelled(y):
    """Rows that scikit-learn's convention marks as unlabelled, a bool array."""
    if y.dtype.kind in "iuf":
        return y == -1
    if y.dtype.kind in "mM":  # of which -1 is one, and no mark
        return np.zeros(len(y), dtype=bool)
    return np.array([label == -1 or label == "-1" for label in y], dtype=bool)


def warn_of_unlabelled(n_rows, mark=-1):
    """Warn of rows to be scored, if there are any, that ``mark`` says to have no label."""
    if n_rows:
        first = "" if mark == -1 else "mark them by -1 and "
        warn(
            f"{n_rows} of the rows to be scored have no label ({mark}), and each counts as a "
            f"mistake: leave them out, or {first}cross-validate with cv=SemiSupervisedSplit() of "
            "sklearn_meta.model_selection. Scores of train sets, as learning_curve takes them, "
            "are of such rows by any splitter.",
        )


def check_classes(y):
    """Refuse targets that are no classes.

    They are given twice: scikit-learn warns where each of a few rows has a class of its own, and
    to filter warnings is no way, as filters are those of all threads.
    """
    check_classification_targets(np.tile(y, 2))
