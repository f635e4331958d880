"""Where datasets come from: collections of named tables, and sources that draw one at random.

A *source* is anything with ``draw(rng) -> Dataset``: a collection of tables, a synthetic prior,
or a mixture of these.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .dataset import Dataset
from .encoding import TableEncoder


class Tables(Mapping):
    """A collection of named tables, drawn with equal probability.

    Parameters
    ----------
    datasets : mapping of str to Dataset
        The tables. A regression table (float ``y``) is cut into classes at random quantiles each
        time it is drawn.

    retarget : float in [0, 1], default=0
        Probability that a numeric column, cut into classes at random quantiles, takes the place
        of the target: many more tasks from the same real tables.
    """

    def __init__(self, datasets, *, retarget=0.0):
        self.datasets = dict(datasets)
        self.retarget = retarget
        if not self.datasets:
            raise ValueError("A collection needs at least one dataset; got none.")
        self._names = list(self.datasets)

    def __getitem__(self, name):
        return self.datasets[name]

    def __iter__(self):
        return iter(self.datasets)

    def __len__(self):
        return len(self.datasets)

    def draw(self, rng):
        """One table, chosen uniformly."""
        dataset = self.datasets[self._names[rng.integers(len(self._names))]]
        if rng.random() < self.retarget:
            dataset = _retarget(dataset, rng)
        return _cut(dataset, rng) if dataset.y.dtype.kind == "f" else dataset


class Mixture:
    """Several sources, one of which is chosen for each draw.

    Parameters
    ----------
    sources : sequence of sources
    weights : sequence of float, default=None
        Relative probabilities; equal when None.
    """

    def __init__(self, sources, weights=None):
        self.sources = [as_source(source) for source in sources]
        weights = np.ones(len(self.sources)) if weights is None else np.asarray(weights, float)
        if len(weights) != len(self.sources) or not weights.sum() > 0 or (weights < 0).any():
            raise ValueError("weights must be one non-negative number for each source.")
        self.weights = weights / weights.sum()

    def draw(self, rng):
        """One dataset of a source chosen with the given weights."""
        return self.sources[rng.choice(len(self.sources), p=self.weights)].draw(rng)


def as_source(datasets):
    """Whatever ``meta_fit`` was given, as a source.

    Parameters
    ----------
    datasets : source, mapping or iterable
        An object with ``draw(rng)`` is returned as it is. The values of a mapping, or the items
        of an iterable, are :class:`Dataset` or pairs ``(X, y)`` of arrays or DataFrames.

    Returns
    -------
    source

    Raises
    ------
    ValueError
        If there is no dataset, or one of them has fewer than two classes.
    """
    if hasattr(datasets, "draw"):
        return datasets
    named = datasets.items() if isinstance(datasets, Mapping) else enumerate(datasets)
    tables = {}
    for name, item in named:
        name = str(name)
        dataset = item if isinstance(item, Dataset) else as_dataset(*item, name=name)
        if dataset.y.dtype.kind == "f":
            if not np.nanmin(dataset.y) < np.nanmax(dataset.y):
                raise ValueError(f"Dataset {name!r} has a constant target: remove it.")
        else:
            counts = np.bincount(dataset.y)
            if len(counts) < 2:
                raise ValueError(
                    f"Dataset {name!r} has {len(counts)} class; at least 2 are needed."
                )
            if counts.min() < 2:
                raise ValueError(
                    f"Dataset {name!r} has a class with fewer than 2 rows: remove that class."
                )
        tables[name] = dataset
    return Tables(tables)


def as_dataset(X, y, name="dataset"):
    """A pair of table and labels as a Dataset: categories one-hot, labels coded.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,)
        Class labels; rows with label -1 (unlabelled) are left out.
    name : str

    Returns
    -------
    Dataset
    """
    y = np.asarray(y)
    if len(X) != len(y):
        raise ValueError(f"Dataset {name!r}: X has {len(X)} rows and y has {len(y)}.")
    known = y != -1
    X = TableEncoder().fit_transform(X)[known]
    classes, codes = np.unique(y[known], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Dataset {name!r} has {len(classes)} class; at least 2 are needed.")
    return Dataset(name, _single_precision(X), codes.astype(np.int64))


def read_tables(
    folder=None, *, split, task="classification", synthetic=True, exclude=(), retarget=0.0
):
    """Read a folder of parquet files that an ``index.csv`` describes.

    Parameters
    ----------
    folder : path, default=None
        The folder; when None, the environment variable SKLEARN_META_DATA, or else
        ``../shared/data/tabular``.
    split : {"train", "valid", "test"}
        Which datasets, by the index's column ``split``.
    task : {"classification", "regression"}, default="classification"
    synthetic : bool, default=True
        Whether simulated datasets (column ``synthetic``) are read, too.
    exclude : collection of str
        Names, or families of names, to leave out.
    retarget : float, default=0
        See :class:`Tables`.

    Returns
    -------
    Tables

    Raises
    ------
    FileNotFoundError
        If the folder has no ``index.csv``.
    """
    import pandas as pd

    folder = Path(folder or os.environ.get("SKLEARN_META_DATA", "../shared/data/tabular"))
    if not (folder / "index.csv").is_file():
        raise FileNotFoundError(
            f"No index.csv in {folder}: give the folder of tables, or set SKLEARN_META_DATA to it."
        )
    index = pd.read_csv(folder / "index.csv")
    index = index[(index["split"] == split) & (index["task"] == task)]
    index = index[~index["name"].isin(exclude) & ~index["family"].isin(exclude)]
    if not synthetic:
        index = index[index["synthetic"] == 0]
    tables = {}
    for name in index["name"]:
        frame = pd.read_parquet(folder / f"{name}.parquet")
        X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
        if task == "classification":
            tables[name] = as_dataset(X, y.astype(str), name)
        else:
            X = TableEncoder().fit_transform(X)
            tables[name] = Dataset(name, _single_precision(X), y.to_numpy(np.float32))
    return Tables(tables, retarget=retarget)


def _single_precision(X):
    """Centred and scaled before rounding: a large offset would swallow a column's variation."""
    X = np.asarray(X, dtype=np.float64)
    observed = np.isfinite(X)
    count = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, X, 0).sum(0) / count
    scale = np.sqrt((np.where(observed, X - mean, 0) ** 2).sum(0) / count)
    return np.where(observed, (X - mean) / np.where(scale > 0, scale, 1), np.nan).astype(np.float32)


def _retarget(dataset, rng):
    """A numeric column in place of the target, if a column with ten values or more is found."""
    for j in rng.permutation(dataset.X.shape[1])[:8]:
        column = dataset.X[:, j]
        known = np.isfinite(column)
        if len(np.unique(column[known][:200])) >= 10 and dataset.X.shape[1] > 2:
            X = np.delete(dataset.X[known], j, axis=1)
            return Dataset(dataset.name, X, column[known])
    return dataset


def _cut(dataset, rng):
    """Classes from a continuous target: intervals between random quantiles, none too small."""
    n_classes = 2 if rng.random() < 0.6 else int(rng.integers(3, 6))
    shares = rng.dirichlet(np.full(n_classes, 4.0)) * 0.6 + 0.4 / n_classes
    y = np.searchsorted(np.quantile(dataset.y, np.cumsum(shares)[:-1]), dataset.y)
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) > 1 and counts.min() > 1:  # repeated values can swallow a class
        return Dataset(dataset.name, dataset.X, codes.astype(np.int64))
    half = dataset.y > np.median(dataset.y)
    if half.sum() < 2:
        half = dataset.y >= np.median(dataset.y)
    return Dataset(dataset.name, dataset.X, half.astype(np.int64))
