"""Spoil the columns of synthetic tables the way real ones are.

Both priors call these functions once the target of a table is known: they add useless and redundant
columns, warp units, make categories and hide cells. Matrices have shape (n_rows, n_columns) and
dtype float64; some warps also take targets of shape (n_rows,).
"""

import numpy as np

from .families import log_uniform, standardise


def pick(rng, choices, weights):
    """Weighted choice, several times faster than Generator.choice on short lists."""
    total = np.cumsum(weights)
    return choices[int(np.searchsorted(total, rng.random() * total[-1], side="right"))]


def plan_levels(rng, n_columns):
    """Draw the number of levels of each raw column (1: numerical, 2: binary, more: one-hot).

    Together the raw columns fill `n_columns` encoded columns; a binary one takes one of them.
    """
    share = rng.uniform(0.1, 1) if rng.random() < 0.7 else 0.0
    levels, room = [], n_columns
    wanted = rng.integers(2, 9, n_columns) * (rng.random(n_columns) < share)
    for n_levels in wanted.tolist():
        if room == 0:
            break
        if n_levels == 0 or 2 < n_levels > room:  # numerical, or too many levels
            n_levels = 1
        levels.append(n_levels)
        room -= n_levels if n_levels > 2 else 1
    return np.array(levels) if len(levels) > 1 else np.ones(n_columns, int)


def add_columns(rng, X, n_columns):
    """Add redundant columns and columns of noise, up to `n_columns` in all."""
    n_rows, n_informative = X.shape
    n_added = n_columns - n_informative
    if n_added <= 0:
        return X
    X = standardise(X)
    n_redundant = rng.binomial(n_added, rng.uniform(0, 0.8))
    mix = rng.standard_normal((n_informative, n_redundant))
    copies = rng.random(n_redundant) < 0.5  # copies of one column; the rest mix all columns
    source = rng.integers(n_informative, size=n_redundant)
    mix *= ~copies | (np.arange(n_informative)[:, None] == source)
    redundant = standardise(X @ mix)
    redundant += log_uniform(rng, 0.1, 2) * rng.standard_normal(redundant.shape)

    noise = rng.standard_normal((n_rows, n_added - n_redundant))
    if rng.random() < 0.3 and noise.shape[1]:  # useless columns can be correlated as well
        noise += rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, noise.shape[1]))
    return np.hstack([X, redundant, noise])


def warp(rng, X):
    """Change the columns' units: mostly monotone warps, some with loss of information."""
    X = standardise(X)
    # Columns of one table tend to be alike, so a table uses few of the warps.
    kinds = rng.integers(len(_WARPS), size=1 + rng.integers(3))
    kind = kinds[rng.integers(len(kinds), size=X.shape[1])]
    kind[rng.random(X.shape[1]) >= rng.uniform(0, 1)] = -1
    for k in set(kind.tolist()) - {-1}:
        X[:, kind == k] = _WARPS[k](rng, X[:, kind == k])
    return X


def exponential(rng, x, slopes=(0.3, 1.5)):
    """Skewed, such as incomes."""
    return np.exp(rng.uniform(*slopes) * np.clip(x, -4, 4))


def logarithm(rng, x, offsets=(0.01, 1)):
    """Skewed the other way."""
    return np.log(x - x.min(axis=0) + log_uniform(rng, *offsets))


def power(rng, x, exponents=(0.3, 3)):
    """Signed powers, which draw values together around zero or apart."""
    return np.sign(x) * np.abs(x) ** log_uniform(rng, *exponents)


def whole_numbers(rng, x, scales=(0.7, 4)):
    """Integers, more of them with a larger scale: ratings, counts, years, prices."""
    return np.round(x * log_uniform(rng, *scales))


def cut_off(rng, x, lowest=-1):
    """Clipped at one end: amounts that are often zero, sensors and tests that saturate."""
    cut = rng.uniform(lowest, 0.7)
    return np.maximum(x, cut) if rng.random() < 0.7 else np.minimum(x, -cut)


def _heavy_tails(rng, x):
    return x + rng.uniform(0.1, 1) * np.clip(rng.standard_t(2, x.shape), -20, 20)


def _outliers(rng, x):
    return np.where(rng.random(x.shape) < rng.uniform(0, 0.05), 10 * rng.normal(size=x.shape), x)


def _ranks(rng, x):
    return x.argsort(axis=0).argsort(axis=0) / len(x)


def _scale(rng, x):
    """Noise that grows with the value."""
    return x * np.exp(0.5 * rng.standard_normal(x.shape))


_WARPS = (
    exponential,
    logarithm,
    power,
    whole_numbers,
    cut_off,
    _heavy_tails,
    _outliers,
    _ranks,
    _scale,
)


def hide(rng, X):
    """Mask of missing cells: up to 20 % per column, at random or more often for large values."""
    rate = rng.uniform(0, 0.2) * (rng.random(X.shape[1]) < rng.uniform(0.2, 1))
    if rng.random() < 0.5:
        rate = 2 * rate / (1 + np.exp(-2 * np.clip(X, -10, 10)))
    return rng.random(X.shape) < rate


def encode(rng, X, levels, missing):
    """Bin and one-hot encode the categorical columns; put NaN where cells are missing."""
    n_rows = len(X)
    if missing is None:
        missing = np.zeros((n_rows, len(levels)), bool)
    blocks = []
    for j, n_levels in enumerate(levels):
        if n_levels == 1:
            continue
        # Several bins may share a level, so that levels need not follow the order of values.
        n_bins = n_levels * (1 + int(rng.random() < 0.3 and n_levels > 2))
        edges = np.sort(rng.uniform(0.03, 0.97, n_bins - 1))
        level = rng.permutation(np.arange(n_bins) % n_levels)
        # Equal values share a rank, hence a bin.
        rank = np.searchsorted(np.sort(X[:, j]), X[:, j]) / n_rows
        code = level[np.searchsorted(edges, rank)]
        block = (code[:, None] == np.arange(1 if n_levels == 2 else n_levels)).astype(np.float32)
        block[missing[:, j]] = np.nan
        blocks.append(block)
    numerical = levels == 1
    plain = X[:, numerical].astype(np.float32)
    plain[missing[:, numerical]] = np.nan
    encoded = np.hstack([plain, *blocks])
    return encoded[:, rng.permutation(encoded.shape[1])]
