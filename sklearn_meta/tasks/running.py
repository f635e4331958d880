"""Standardise the rows of a stream by the rows so far, never by later ones."""

from typing import NamedTuple

import numpy as np

#: Bound of standardised values: the deviation of a few rows may be far too small.
BOUND = 5.0

#: After ``BEHIND`` observed values, one more than ``FAR`` deviations from the mean counts as one at
#: that distance: otherwise a cell of -9999 would dominate its column from then on. After n > 64
#: values the distance is sqrt(n) deviations, at which one value may double the variance: in time,
#: rare values count as they are.
FAR, BEHIND = 8.0, 10


class Moments(NamedTuple):
    """Running moments of the columns of a stream; arrays of shape (..., n_columns).

    Parameters
    ----------
    origin : ndarray
        First observed value of each column, NaN before it. Sums are of distances to it: the squares
        of large values would lose their variation to rounding.
    unit : ndarray
        Largest power of two not above the first nonzero distance, NaN before it. Sums are in this
        unit: the squares of distances such as 1e200 are beyond float64. It loses no bit.
    count, total, squares : ndarray
        Number of observed cells, sum of their distances, and sum of the squares.
    """

    origin: np.ndarray
    unit: np.ndarray
    count: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    @classmethod
    def empty(cls, shape):
        """Moments of a stream that has not begun.

        Parameters
        ----------
        shape : tuple of int
            Shape of the arrays, which ends in the number of columns.
        """
        zeros = np.zeros(shape)
        unknown = np.full(shape, np.nan)
        return cls(unknown, unknown, zeros, zeros, zeros)

    @property
    def mean(self):
        """Mean of each column; 0 if none of its cells was observed."""
        unit = np.nan_to_num(self.unit, nan=1)
        mean = np.nan_to_num(self.origin) + self.total / np.maximum(self.count, 1) * unit
        # Before the first observed value, the origin may be that value, which is still to come.
        return np.where(self.count > 0, mean, 0)

    @property
    def scale(self):
        """Standard deviation of each column; 0 if it did not vary, or is beyond float64."""
        count = np.maximum(self.count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self.squares / count - (self.total / count) ** 2
        scale = np.sqrt(np.where(np.isfinite(variance), np.maximum(variance, 0), 0))
        return scale * np.nan_to_num(self.unit, nan=1)


def running_moments(X, before):
    """Moments of a stream after each of some more rows.

    Rows are added one by one, in order, so a stream read in pieces gives exactly the same numbers.
    A value more than ``FAR`` off the rows before it is clipped to that distance, so that no single
    one dominates. This is for columns; for targets use :func:`moments_as_they_are`.

    Parameters
    ----------
    X : ndarray of shape (..., n_rows, n_columns)
        NaN where nothing was observed.
    before : Moments
        Moments of the rows before these; arrays of shape (..., n_columns).

    Returns
    -------
    Moments
        Arrays of shape (..., n_rows, n_columns), but (..., 1, n_columns) for the origin.
    """
    moments = moments_as_they_are(X, before)
    while True:
        # Clip the earliest far value of each column first: it decides where later ones are clipped.
        nearest = _within_reach(X, moments, before)
        beyond = (nearest != X) & ~np.isnan(X)
        beyond &= beyond.cumsum(-2) == 1
        if not beyond.any():
            return moments
        X = np.where(beyond, nearest, X)
        moments = moments_as_they_are(X, before)


def _within_reach(X, moments, before):
    """Clip each value to within ``FAR`` of the rows before it."""
    known = [np.broadcast_to(part[..., None, :], X[..., :1, :].shape) for part in before]
    known = [
        np.concatenate([part, np.broadcast_to(more, X.shape)[..., :-1, :]], -2)
        for part, more in zip(known, moments, strict=True)
    ]
    known = Moments(*known)
    mean, scale = known.mean, known.scale
    with np.errstate(over="ignore", invalid="ignore"):  # no clipping beyond float64
        reach = np.maximum(FAR, np.sqrt(known.count)) * scale
        least, most = mean - reach, mean + reach
    told = (known.count >= BEHIND) & (scale > 0) & np.isfinite(least) & np.isfinite(most)
    return np.where(told, X.clip(least, most), X)


def moments_as_they_are(X, before):
    """Moments as in :func:`running_moments`, but without clipping.

    Parameters
    ----------
    X, before
        As in :func:`running_moments`.

    Returns
    -------
    Moments
        As in :func:`running_moments`.
    """
    observed = ~np.isnan(X)
    first = np.take_along_axis(X, observed.argmax(-2)[..., None, :], -2)
    origin = np.where(np.isnan(before.origin)[..., None, :], first, before.origin[..., None, :])
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.where(observed, X - np.nan_to_num(origin), 0.0)
        unit = before.unit[..., None, :]
        unit = np.where(np.isnan(unit), unit_of(distance), unit)
        distance = distance / np.nan_to_num(unit, nan=1)
        increments = observed, distance, distance**2
        sums = [
            np.concatenate([known[..., None, :], more], -2).cumsum(-2)[..., 1:, :]
            for known, more in zip(before[2:], increments, strict=True)
        ]
    return Moments(origin, np.broadcast_to(unit, X.shape), *sums)


def unit_of(distance):
    """Power of two of each column's first nonzero distance, (..., 1, n_columns); NaN if none."""
    first = np.take_along_axis(distance, (distance != 0).argmax(-2)[..., None, :], -2)
    return np.where(first != 0, power_of_two(first), np.nan)


def power_of_two(x):
    """Largest power of two that is not above the magnitude of each number."""
    return np.ldexp(1.0, np.frexp(x)[1] - 1)


def standardise(X, moments):
    """Standardise values and clip them at ``BOUND``; 0 for missing cells and constant columns.

    Parameters
    ----------
    X : ndarray of shape (..., n_rows, n_columns)
    moments : Moments
        Moments whose arrays broadcast with ``X``.

    Returns
    -------
    ndarray of shape (..., n_rows, n_columns)
    """
    mean, scale = moments.mean, moments.scale
    varies = _varies(mean, scale)
    with np.errstate(invalid="ignore", over="ignore"):
        Z = (X - mean) / np.where(varies, scale, 1)
    return np.where(varies & ~np.isnan(Z), Z, 0).clip(-BOUND, BOUND)


def _varies(mean, scale):
    """Mask of the columns that vary by more than rounding."""
    return scale > 4 * np.finfo(float).eps * np.abs(mean)


def standardised_rows(X, moments):
    """Standardise rows for a :func:`projection`.

    Outputs of a projection have variance one if all columns vary. Constant columns are zeros; after
    ``BEHIND`` rows the others are scaled up to make up for these.

    Parameters
    ----------
    X, moments
        As in :func:`standardise`.

    Returns
    -------
    ndarray of shape (..., n_rows, n_columns)
    """
    n_columns = X.shape[-1]
    n_varied = _varies(moments.mean, moments.scale).sum(-1, keepdims=True)
    n_rows = moments.count.max(-1, keepdims=True)
    longer = np.sqrt(n_columns / np.maximum(n_varied, 1))
    return standardise(X, moments) * np.where(n_rows >= BEHIND, longer, 1)


def last(moments):
    """Moments after the last row, (..., n_columns), from a result of ``running_moments``."""
    return Moments(*(array[..., -1, :].copy() for array in moments))  # a view would keep all rows


def projection(n_columns, n_outputs, rng):
    """Draw a random rotation of any number of columns into a space of fixed dimension.

    Up to ``n_outputs`` columns, nothing is lost. With more columns, distances are kept up to some
    noise (Johnson and Lindenstrauss). Independent standardised columns give outputs of variance
    one.

    Parameters
    ----------
    n_columns, n_outputs : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_columns, n_outputs)
    """
    few, many = sorted((n_columns, n_outputs))
    orthonormal, _ = np.linalg.qr(rng.standard_normal((many, few)))
    if n_columns <= n_outputs:
        return orthonormal.T * np.sqrt(n_outputs / n_columns)
    return orthonormal
