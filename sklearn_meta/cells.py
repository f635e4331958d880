"""What a cell of a table holds, where no torch is needed to ask."""

import numpy as np


def is_missing_value(value):
    """Whether a cell or a label is None, NaN, NaT or pandas' NA; text never is."""
    if isinstance(value, str):
        return False
    # Text first: pandas' NA refuses to say whether it equals itself.
    if value is None or str(value) == "<NA>":
        return True
    try:
        return bool(value != value)
    except ValueError:  # an array in a cell
        return False


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
    column = np.asarray(column, dtype=f"{kind}8[us]")
    start = np.datetime64(0, "us") if kind == "M" else np.timedelta64(0, "us")
    return (column - start) / np.timedelta64(1, "s")
