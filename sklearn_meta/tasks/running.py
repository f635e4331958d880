"""Rows of a stream in units that only the rows before them decide."""

from typing import NamedTuple

import numpy as np

#: Standardised values are cut off here: of a few rows the deviation may be far too small.
BOUND = 5.0

#: A value so many deviations off counts as one that is no further, behind so many others: one cell
#: of -9999 would otherwise be all that a column tells of from then on. Behind n of them, n > 64, it
#: is the root of n: it may double the variance, and values that are rare count as they are in time.
FAR, BEHIND = 8.0, 10


class Moments(NamedTuple):
    """What is known of the columns of a stream so far; arrays of shape (..., n_columns).

    Parameters
    ----------
    origin : ndarray
        First observed value of each column, NaN before: sums are of distances to it, since the
        squares of large values would drown what they vary by.
    unit : ndarray
        Power of two of the first distance that is not 0, NaN before: sums are in units of it,
        since squares of distances such as 1e200 are beyond float64, and no bit is lost by it.
    count, total, squares : ndarray
        Observed cells, and sums over them.
    """

    origin: np.ndarray
    unit: np.ndarray
    count: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    @classmethod
    def empty(cls, shape):
        """Of a stream that has not begun.

        Parameters
        ----------
        shape : tuple of int
            Ends in the number of columns.
        """
        zeros = np.zeros(shape)
        unknown = np.full(shape, np.nan)
        return cls(unknown, unknown, zeros, zeros, zeros)

    @property
    def mean(self):
        """Of each column; 0 of one that was not observed."""
        unit = np.nan_to_num(self.unit, nan=1)
        mean = np.nan_to_num(self.origin) + self.total / np.maximum(self.count, 1) * unit
        # Where nothing was observed yet, the origin may be a value that is still to come.
        return np.where(self.count > 0, mean, 0)

    @property
    def scale(self):
        """Standard deviation of each column; 0 of one that did not vary, or beyond float64."""
        count = np.maximum(self.count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self.squares / count - (self.total / count) ** 2
        scale = np.sqrt(np.where(np.isfinite(variance), np.maximum(variance, 0), 0))
        return scale * np.nan_to_num(self.unit, nan=1)


def running_moments(X, before):
    """Moments of a stream after each of some more rows.

    Rows are added one by one, in their order, so a stream in pieces gives the very same numbers.
    What is ``FAR`` off the rows before it counts as no further, so that no single one decides: of
    columns, that is; of targets take :func:`moments_as_they_are`.

    Parameters
    ----------
    X : ndarray of shape (..., n_rows, n_columns)
        NaN where nothing was observed.
    before : Moments
        Arrays of shape (..., n_columns): of the rows before these.

    Returns
    -------
    Moments
        Arrays of shape (..., n_rows, n_columns), but for the origin (..., 1, n_columns).
    """
    moments = moments_as_they_are(X, before)
    while True:
        # The earliest one of each column first: where the others are cut is a matter of it.
        nearest = _within_reach(X, moments, before)
        beyond = (nearest != X) & ~np.isnan(X)
        beyond &= beyond.cumsum(-2) == 1
        if not beyond.any():
            return moments
        X = np.where(beyond, nearest, X)
        moments = moments_as_they_are(X, before)


def _within_reach(X, moments, before):
    """Each value, or the nearest that is no more than ``FAR`` off the rows before it."""
    known = [np.broadcast_to(part[..., None, :], X[..., :1, :].shape) for part in before]
    known = [
        np.concatenate([part, np.broadcast_to(more, X.shape)[..., :-1, :]], -2)
        for part, more in zip(known, moments, strict=True)
    ]
    known = Moments(*known)
    mean, scale = known.mean, known.scale
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float64 nothing is cut
        reach = np.maximum(FAR, np.sqrt(known.count)) * scale
        least, most = mean - reach, mean + reach
    told = (known.count >= BEHIND) & (scale > 0) & np.isfinite(least) & np.isfinite(most)
    return np.where(told, X.clip(least, most), X)


def moments_as_they_are(X, before):
    """Moments as of :func:`running_moments`, where each value counts as it is.

    Parameters
    ----------
    X, before
        As there.

    Returns
    -------
    Moments
        As there.
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
    """Power of two of each column's first distance that is not 0, (..., 1, n_columns), or NaN."""
    first = np.take_along_axis(distance, (distance != 0).argmax(-2)[..., None, :], -2)
    return np.where(first != 0, power_of_two(first), np.nan)


def power_of_two(x):
    """The greatest one that is no larger than each number, whatever its sign."""
    return np.ldexp(1.0, np.frexp(x)[1] - 1)


def standardise(X, moments):
    """Values less mean, by deviation, within ``BOUND``; 0 where nothing is known or varies.

    Parameters
    ----------
    X : ndarray of shape (..., n_rows, n_columns)
    moments : Moments
        Arrays that broadcast with it.

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
    """Columns that vary by more than rounding."""
    return scale > 4 * np.finfo(float).eps * np.abs(mean)


def standardised_rows(X, moments):
    """What :func:`standardise` gives, for a :func:`projection`.

    Its outputs have variance one where all columns vary. Those that have not in ``BEHIND`` rows are
    zeros, and the others longer in their place.

    Parameters
    ----------
    X, moments
        As there.

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
    """Moments after the last row, (..., n_columns), of what ``running_moments`` gives."""
    return Moments(*(array[..., -1, :].copy() for array in moments))  # a view would keep all rows


def projection(n_columns, n_outputs, rng):
    """A random rotation of any columns into a space of fixed dimension.

    Up to ``n_outputs`` columns nothing is lost; of more, distances are kept but for some noise
    (Johnson and Lindenstrauss). Standardised columns that are independent give outputs of
    variance one.

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
