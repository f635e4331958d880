"""Read the columns of a table as numbers, as seconds of dates and durations, or as text."""

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

#: Types of dates, times of day and durations; datetime and pandas' Timestamp derive from date.
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)

#: Types that an object cell may have and that are refused: neither numbers nor categories.
_NESTED = (list, dict, set)

#: What arrays, Series and tensors, pictures, and geometries have, which are refused as well.
_PROTOCOLS = ("__array__", "__array_interface__", "__geo_interface__")


def as_table(X):
    """Convert any DataFrame to pandas; refuse what is no dense table, in scikit-learn's words."""
    X = in_pandas(X)
    if issparse(X) or np.ndim(X) != 2:
        check_array(X, dtype=None, input_name="X")  # raises
    return X


def columns_of(X):
    """Columns of a table, a list of pairs: the array of values, and their dtype."""
    X = as_table(X)
    if hasattr(X, "iloc"):
        return [_values(column, column.dtype) for _, column in X.items()]
    X = np.asarray(text_as_objects(X))
    if X.dtype.kind in "UST":  # fixed-width text, or StringDType
        X = X.astype(object)
    return [_values(X[:, j], X.dtype) for j in range(X.shape[1])]


def _values(column, dtype):
    """Values of a column as an array, with dates and durations in seconds, and their dtype."""
    if str(dtype).startswith("period["):
        column = column.dt.to_timestamp()
        dtype = column.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":  # with or without a time zone
        return in_seconds(column, kind), np.dtype(f"{kind}8[us]")
    if not isinstance(column, np.ndarray):  # numbers keep their dtype: objects are slow
        is_plain = isinstance(dtype, np.dtype) and kind in "fiub"
        column = column.to_numpy(dtype=dtype if is_plain else object)
    plain = column.dtype == object and not is_categorical(dtype)  # categories may be dates
    return (_seconds(column) if plain else None) or (column, dtype)


def _seconds(column):
    """Convert a column of date, time or duration objects to seconds; return also their dtype.

    Returns None if any cell is something else, or all are missing.
    """
    # Fast: in most columns `all` stops at the first cell.
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
    return isinstance(value, _TIMES) or (hasattr(value, "to_timestamp") and not _is_nested(value))


def _in_seconds(value):
    if hasattr(value, "to_timestamp"):  # a pandas Period
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
    """Convert a column to a float array or, failing that, an array of str and None (missing)."""
    if getattr(dtype, "kind", "O") == "c":
        raise ValueError("Complex data not supported: split it into two columns of real numbers.")
    if not is_categorical(dtype):
        with suppress(TypeError, ValueError):
            return to_float(column)
    return as_text(column)


def is_empty(column):
    """Whether all cells of a column from :func:`read_column` are missing."""
    if column.dtype == object:
        return all(value is None for value in column)
    return bool(np.isnan(column).all())


def is_categorical(dtype):
    """Whether a dtype declares categories, in pandas or in Arrow."""
    return str(dtype) == "category" or str(dtype).startswith("dictionary<")


def is_numeric(column):
    """Whether all cells of an array are numbers, numbers written as text, or missing."""
    try:
        to_float(column)
    except (TypeError, ValueError):
        return False
    return True


def first_text(column):
    """First cell that is not a number in a column from :func:`read_column`, or None."""
    if column.dtype != object:
        return None
    return next((cell for cell in column if not is_numeric([cell])), None)


def has_text(column):
    """Whether any cell of an array is text, even if the text is a number."""
    return column.dtype == object and any(isinstance(cell, str) for cell in column)


def numbers_or_gaps(column):
    """Convert a column to float64, with NaN where a cell is missing or is not a number."""
    return np.array([to_float([cell])[0] if is_numeric([cell]) else np.nan for cell in column])


def to_float(column):
    """Convert a column to float64, with NaN where a cell is missing; raise if one is no number."""
    column = np.asarray(column)
    if column.dtype == object:
        column = np.where(is_missing(column), np.nan, column)
    refuse_codes(column)
    try:
        return column.astype(np.float64)
    except OverflowError:  # Python's integers, and those of JSON, have no bound
        return np.array([_as_float(cell) for cell in column])


def refuse_codes(values):
    """Refuse text with an underscore in an array: Python reads "11_0" as the number 110.

    In tables, and for pandas, it is a name.
    """
    if values.dtype.kind in "OUT":
        code = next((v for v in values.flat if isinstance(v, str) and "_" in v), None)
        if code is not None:
            raise ValueError(f"could not convert string to float: {str(code)!r}")


def _as_float(cell):
    """Convert to float; infinity if the number is too large, as float() does with text."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def as_text(column):
    """Convert cells of any type to names of categories, with None where a cell is missing."""
    column = np.asarray(column, dtype=object)  # float32 becomes a Python float
    # Most cells are text: checking the type here saves a call.
    text = np.array([v if type(v) is str else _name_of(v) for v in column], dtype=object)
    text[is_missing(column)] = None
    return text


def _name_of(value):
    """Name of a category. 1.0 is named "1": a missing cell turns integers into floats."""
    if _is_nested(value):
        raise ValueError(
            f"A cell holds a {type(value).__name__}: each cell must hold one number or one "
            "category."
        )
    whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _is_nested(value):
    if isinstance(value, np.generic):  # a number or text, though it has these
        return False
    return isinstance(value, _NESTED) or any(hasattr(value, name) for name in _PROTOCOLS)


def is_of_times(dtype):
    """Whether a dtype, as :func:`columns_of` gives it, is one of dates or durations."""
    return getattr(dtype, "kind", "O") in "mM"


def refuse_dates(values, name):
    """Refuse dates, times and durations where numbers are wanted.

    Parameters
    ----------
    values : array-like or DataFrame
        Anything else is let through.
    name : str
        Name of the values in the error message.

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
        raise ValueError(
            f"{name} holds dates or durations: convert them to numbers, such as seconds."
        )


def targets_as_numbers(y):
    """Convert targets that are NumPy dates to numbers in the unit of their dtype, NaN for NaT.

    Parameters
    ----------
    y : array-like or DataFrame

    Returns
    -------
    array-like or DataFrame
        Values without dates are unchanged; tensors become NumPy arrays.

    Raises
    ------
    ValueError
        If there are other dates, such as objects, or text such as "11_0".
    """
    y = in_numpy(y)
    values = np.asarray(y)
    if values.dtype.kind == "O":
        refuse_dates(values, "y")
    refuse_codes(values)
    return dates_as_numbers(y)
