"""What the columns of a table hold: numbers, seconds of dates and durations, or text."""

import math
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from ..cells import (
    dates_as_numbers,
    in_numpy,
    in_pandas,
    in_seconds,
    is_missing,
    is_missing_value,
    text_as_objects,
)

#: Dates, times of day and durations as objects; datetime and pandas' Timestamp are dates.
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)

#: What may be in a cell of a table of objects, and is neither a number nor a category.
_NESTED = (list, dict, set, np.ndarray)


def as_table(X):
    """A table, in pandas if it is a frame; scikit-learn says what is none."""
    X = in_pandas(X)
    if issparse(X) or np.ndim(X) != 2:
        check_array(X, dtype=None, input_name="X")  # which refuses it
    return X


def columns_of(X):
    """The columns of a table, each an array of its values and its dtype."""
    X = as_table(X)
    if hasattr(X, "iloc"):
        return [_values(column, column.dtype) for _, column in X.items()]
    X = np.asarray(text_as_objects(X))
    if X.dtype.kind in "UST":  # an array of which numpy has made text, or of StringDType
        X = X.astype(object)
    return [_values(X[:, j], X.dtype) for j in range(X.shape[1])]


def _values(column, dtype):
    """Values of a column as an array, dates and durations in seconds, and what dtype they had."""
    if str(dtype).startswith("period["):
        column = column.dt.to_timestamp()
        dtype = column.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":  # with a time zone, too
        return in_seconds(column, kind), np.dtype(f"{kind}8[us]")
    if not isinstance(column, np.ndarray):  # numbers of numpy's stay, objects are slow
        is_plain = isinstance(dtype, np.dtype) and kind in "fiub"
        column = column.to_numpy(dtype=dtype if is_plain else object)
    plain = column.dtype == object and not is_categorical(dtype)  # which may be called dates
    return (_seconds(column) if plain else None) or (column, dtype)


def _seconds(column):
    """Dates, times or durations that are objects as numbers, and the dtype that says which.

    None if there is anything else.
    """
    # Of most columns the first cell says no, and `all` stops there.
    if not all(_is_time(value) or is_missing_value(value) for value in column):
        return None
    if not any(map(_is_time, column)):
        return None
    known = ~is_missing(column)
    times = column[known]
    seconds = np.full(len(column), np.nan)
    seconds[known] = [_in_seconds(value) for value in times]
    durations = all(isinstance(value, time | timedelta | np.timedelta64) for value in times)
    return seconds, np.dtype("m8[us]" if durations else "M8[us]")


def _is_time(value):
    return isinstance(value, _TIMES) or hasattr(value, "to_timestamp")


def _in_seconds(value):
    if hasattr(value, "to_timestamp"):  # a period of pandas'
        value = value.to_timestamp()
    if isinstance(value, np.generic):
        return float(_values(np.array([value]), value.dtype)[0][0])
    if isinstance(value, time):
        value = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo and UTC)).total_seconds()


def read_column(column, dtype):
    """A float array, or an object array of strings in which None is a missing cell."""
    if getattr(dtype, "kind", "O") == "c":
        raise ValueError("Complex data not supported: make two columns of real numbers of it.")
    if not is_categorical(dtype):
        with suppress(TypeError, ValueError):
            return to_float(column)
    return as_text(column)


def is_empty(column):
    """Whether a column that :func:`read_column` made holds no cell at all."""
    if column.dtype == object:
        return all(value is None for value in column)
    return bool(np.isnan(column).all())


def is_categorical(dtype):
    """Whether a column was declared as categories, as pandas or Arrow do."""
    return str(dtype) == "category" or str(dtype).startswith("dictionary<")


def is_numeric(column):
    """Whether all cells of an array are numbers, text of numbers or missing."""
    try:
        to_float(column)
    except (TypeError, ValueError):
        return False
    return True


def first_text(column):
    """The first cell of a column of :func:`read_column` that is text of no number, or None."""
    if column.dtype != object:
        return None
    return next((cell for cell in column if not is_numeric([cell])), None)


def has_text(column):
    """Whether any cell of an array is text, be it of a number."""
    return column.dtype == object and any(isinstance(cell, str) for cell in column)


def numbers_or_gaps(column):
    """Numbers of a column, float64; NaN where a cell is missing, or is text of no number."""
    return np.array([to_float([cell])[0] if is_numeric([cell]) else np.nan for cell in column])


def to_float(column):
    """Numbers of a column, float64; NaN where a cell is missing."""
    column = np.asarray(column)
    if column.dtype == object:
        column = np.where(is_missing(column), np.nan, column)
    if column.dtype.kind in "OUT":
        # To Python "11_0" is 110, as is "1_10"; in tables, and to pandas, it is a name.
        code = next((v for v in column.flat if isinstance(v, str) and "_" in v), None)
        if code is not None:
            raise ValueError(f"could not convert string to float: {code!r}")
    try:
        return column.astype(np.float64)
    except OverflowError:  # integers of Python's have no bound, and json's may be as large
        return np.array([_as_float(cell) for cell in column])


def _as_float(cell):
    """Infinity where a float holds no number so large, as of the text of one."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def as_text(column):
    """Names of categories, whatever they are; None where a cell is missing."""
    column = np.asarray(column, dtype=object)  # of a float32, Python's number
    # Most are text, which is told here in less time than a call takes.
    text = np.array([v if type(v) is str else _name_of(v) for v in column], dtype=object)
    text[is_missing(column)] = None
    return text


def _name_of(value):
    """Name of a category; 1.0 is called 1, as a gap makes floats of a column of integers."""
    if isinstance(value, _NESTED):
        raise ValueError(
            f"A cell holds a {type(value).__name__}: give each column one number or one category a "
            "row."
        )
    whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if whole else str(value)


def is_of_times(dtype):
    """Whether a column is of dates or durations."""
    return getattr(dtype, "kind", "O") in "mM"


def refuse_dates(values, name):
    """Refuse dates, times and durations where numbers are wanted.

    Parameters
    ----------
    values : array-like or DataFrame
        Anything else is let through.
    name : str
        What they are called in the error.

    Raises
    ------
    ValueError
    """
    if not hasattr(values, "columns"):
        values = np.asarray(values)
        if values.ndim == 0 or values.dtype.kind in "fiub" or not len(values):
            return
        values = values.reshape(len(values), -1)
    if any(is_of_times(dtype) for _, dtype in columns_of(values)):
        raise ValueError(f"{name} holds dates or durations: make numbers of them, such as seconds.")


def targets_as_numbers(y):
    """Targets of which those that are NumPy's dates are numbers in their own unit, NaN for NaT.

    Parameters
    ----------
    y : array-like or DataFrame

    Returns
    -------
    array-like or DataFrame
        As it came, if it holds no dates.

    Raises
    ------
    ValueError
        If it holds other dates.
    """
    y = in_numpy(y)
    if np.asarray(y).dtype.kind == "O":
        refuse_dates(y, "y")
    return dates_as_numbers(y)
