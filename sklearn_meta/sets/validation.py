"""Validation of sets: lists of arrays, or one array with padding."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils import check_array

from ..cells import holds_objects, in_pandas


def as_sets(X):
    """Validate sets.

    Parameters
    ----------
    X : list, tuple, Series or object array of array-likes, or array-like
        Sets of shape (n_points, ...), or (n_points,) for sets of numbers. An array of shape
        (n_sets, n_points, ...) or (n_sets, n_points) holds a set in each row; elements whose
        cells are all NaN are padding there.

    Returns
    -------
    list of ndarray of shape (n_points, ...)
        Sets without padding; an element that is a number has shape (1,).

    Raises
    ------
    ValueError
        If there is no set, a set is empty or unlike the others, or a cell is missing or infinite.
    """
    X = in_pandas(X)
    if isinstance(X, Sequence) or (hasattr(X, "to_list") and not hasattr(X, "dtype")):
        X = list(X)  # of datasets or awkward, from which numpy makes no ragged array
    elif not hasattr(X, "iloc") and (hasattr(X, "to_list") or hasattr(X, "to_pylist")):
        X = np.asarray(X)  # makes objects of a column of lists in polars or pyarrow
    if isinstance(X, list) or holds_objects(X):
        sets = [_as_set(elements, i) for i, elements in enumerate(X)]
    else:
        X = check_array(X, ensure_2d=False, allow_nd=True, ensure_all_finite="allow-nan")
        if X.ndim < 2:
            raise ValueError(
                f"Expected sets, got an array of shape {X.shape}. Reshape your data to "
                "(n_sets, n_points, n_features), or give a list of arrays, one for each set."
            )
        padding = np.isnan(X).all(axis=tuple(range(2, X.ndim)))
        sets = [_as_set(row[~gap], i) for i, (row, gap) in enumerate(zip(X, padding))]
    if not sets:
        raise ValueError("Found 0 sets (0 sample(s)) while a minimum of 1 is required.")
    for i, elements in enumerate(sets):
        if elements.shape[1:] != sets[0].shape[1:]:
            raise ValueError(
                f"X[0] has elements of shape {sets[0].shape[1:]}, but X[{i}] has elements of shape "
                f"{elements.shape[1:]}: all sets must have elements of the same shape."
            )
    return sets


def _as_set(elements, i):
    """Return the i-th set as an array of shape (n_points, ...)."""
    try:
        if holds_objects(elements):  # one array per element, as read from parquet
            elements = list(elements)
        elements = in_pandas(elements)
        # check_array leaves None in a list as it is, and makes NaN of it in an array.
        elements = elements if hasattr(elements, "dtype") else np.asarray(elements)
        floats = type(elements) is np.ndarray and elements.dtype.kind == "f"
        if not (floats and np.isfinite(elements).all()):  # finite floats need no check
            elements = check_array(
                elements,
                ensure_2d=False,
                allow_nd=True,
                ensure_min_samples=0,
                ensure_min_features=0,
            )
    except (ValueError, TypeError, OverflowError) as error:  # large Python integers overflow
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"X[{i}] is not a set of numbers: {error}") from None
    if elements.dtype.kind in "mM":
        raise ValueError(
            f"X[{i}] holds dates or durations: convert them to numbers, such as seconds."
        )
    if elements.ndim == 0:
        raise ValueError(f"X[{i}] is a number, not a set: give an array of the set's elements.")
    if elements.size == 0:
        raise ValueError(f"X[{i}] is an empty set: leave it out.")
    return elements[:, None] if elements.ndim == 1 else elements
