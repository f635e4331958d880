"""Ways to turn usual rows of a table into outliers."""

import numpy as np
from scipy.spatial.distance import cdist

from .families import log_uniform

#: Columns with at most this many values keep to them: others would give an outlier away.
_FEW_VALUES = 10
#: Number of places to try in search of empty ones, and of usual rows to compare them with.
_N_PLACES, _N_NEAR = 300, 200


def alter(rows, usual, rng):
    """Turn usual rows into outliers, all of them in the same way.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Rows to alter; NaN is a missing cell, and remains one.
    usual : ndarray of shape (n_usual, n_columns)
        The rows among which they will be outliers.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Columns of few values, such as one-hot ones, hold only values of ``usual``.
    """
    way = ALTERATIONS[list(ALTERATIONS)[rng.integers(len(ALTERATIONS))]]
    observed = ~np.isnan(usual)
    count = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, usual, 0).sum(0) / count
    spread = np.sqrt((np.where(observed, usual - mean, 0) ** 2).sum(0) / count)
    altered = way(rng, rows, usual, mean, spread)
    for j in range(usual.shape[1]):
        values = np.unique(usual[observed[:, j], j])
        if 0 < len(values) <= _FEW_VALUES:
            nearest = np.abs(altered[:, j, None] - values).argmin(1)
            altered[:, j] = values[nearest]
    return np.where(np.isnan(rows), np.nan, altered)


def _exchange(rng, rows, usual, mean, spread):
    """Take some cells from other rows: each cell is common, their combination is not."""
    donors = usual[rng.integers(len(usual), size=rows.shape), np.arange(rows.shape[1])]
    return np.where(_some_cells(rng, rows) & ~np.isnan(donors), donors, rows)


def _spikes(rng, rows, usual, mean, spread):
    """Shift some cells far off, like wrong entries."""
    shift = rng.choice([-1, 1], rows.shape) * rng.uniform(1.5, 8) * spread
    return np.where(_some_cells(rng, rows), rows + shift, rows)


def _scatter(rng, rows, usual, mean, spread):
    """Place rows in the box of the usual rows, or somewhat beyond: ADBench's global outliers."""
    filled = np.where(np.isnan(usual), mean, usual)
    low, high = filled.min(0), filled.max(0)
    stretch = rng.uniform(0.7, 1.5)
    return mean + stretch * (rng.uniform(low, high, rows.shape) - mean)


def _cluster(rng, rows, usual, mean, spread):
    """Move rows together, away from the usual ones: ADBench's clustered outliers."""
    direction = rng.standard_normal(rows.shape[1])
    direction /= np.sqrt(np.mean(direction**2))
    return mean + rng.uniform(0.1, 1) * (rows - mean) + rng.uniform(0.7, 4) * direction * spread


def _inflate(rng, rows, usual, mean, spread):
    """Move each row farther from the centre, in the same direction."""
    return mean + rng.uniform(1.5, 5) * (rows - mean)


def _blur(rng, rows, usual, mean, spread):
    """Add noise to every cell: ADBench's local outliers."""
    return rows + rng.uniform(0.3, 3) * spread * rng.standard_normal(rows.shape)


def _empty_places(rng, usual, mean, spread):
    """Find places farther from the usual rows than nearly all of these are from each other.

    Candidates lie between two rows, combine cells of different rows, or lie anywhere in the middle
    of the box: in the hole of a ring, between clusters, or where correlated columns disagree. The
    result may be empty.
    """
    if len(usual) < 8:
        return usual[:0]
    filled = np.where(np.isnan(usual), mean, usual)
    shape = _N_PLACES, usual.shape[1]
    kind = rng.integers(3)
    if kind == 0:
        first, second = filled[rng.integers(len(filled), size=(2, _N_PLACES))]
        places = second + rng.uniform(0.3, 0.7, (_N_PLACES, 1)) * (first - second)
    elif kind == 1:
        places = filled[rng.integers(len(filled), size=shape), np.arange(shape[1])]
    else:
        low, high = np.quantile(filled, [0.02, 0.98], axis=0)
        places = low + rng.random(shape) * (high - low)
    scale = np.where(spread > 0, spread, 1)
    near = filled[rng.permutation(len(filled))[:_N_NEAR]] / scale
    among = np.partition(cdist(near, near), 5, axis=1)[:, 5]  # the first is the row itself
    away = np.partition(cdist(places / scale, near), 4, axis=1)[:, 4]
    return places[away > np.quantile(among, 0.97)]


def _gaps(rng, rows, usual, mean, spread):
    """Place each row somewhere in a gap, or anywhere in the box if there is no gap."""
    places = _empty_places(rng, usual, mean, spread)
    if not len(places):
        return _scatter(rng, rows, usual, mean, spread)
    return places[rng.integers(len(places), size=len(rows))]


def _gap(rng, rows, usual, mean, spread):
    """Place all rows in one gap, or anywhere in the box if there is no gap."""
    places = _empty_places(rng, usual, mean, spread)
    if not len(places):
        return _scatter(rng, rows, usual, mean, spread)
    width = log_uniform(rng, 0.01, 0.3) * spread
    return places[rng.integers(len(places))] + width * rng.standard_normal(rows.shape)


#: Ways to make an outlier, each equally likely.
ALTERATIONS = {
    "exchange": _exchange,
    "spikes": _spikes,
    "scatter": _scatter,
    "cluster": _cluster,
    "inflate": _inflate,
    "blur": _blur,
    "gaps": _gaps,
    "gap": _gap,
}


def _some_cells(rng, rows):
    """Mask of the cells to alter: at least one per row, often all of them."""
    n_columns = rows.shape[1]
    share = 1.0 if rng.random() < 0.3 else n_columns ** -rng.random()
    chosen = rng.random(rows.shape) < share
    chosen[np.arange(len(rows)), rng.integers(n_columns, size=len(rows))] = True
    return chosen
