"""Sources: where the engine draws tables from.

A *source* is anything with ``draw(rng) -> Dataset``: tables, a synthetic prior, or a mixture.
"""

import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.utils.multiclass import type_of_target

from .dataset import Dataset, column_as_target
from .encoding import TableEncoder, is_missing


class Tables(Mapping):
    """A collection of named tables, drawn with equal probability.

    Parameters
    ----------
    datasets : mapping of str to Dataset
        The tables.

    retarget : float in [0, 1], default=0
        Probability that a numeric column takes the place of the target: many more tasks from the
        same real tables.
    """

    def __init__(self, datasets, *, retarget=0.0):
        self.datasets = dict(datasets)
        self.retarget = retarget
        if not 0 <= retarget <= 1:
            raise ValueError(f"retarget is a probability, from 0 to 1; got {retarget!r}.")
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
            return column_as_target(dataset, rng) or dataset
        return dataset


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
        if not self.sources:
            raise ValueError("A mixture needs at least one source; got none.")
        finite = len(weights) == len(self.sources) and np.isfinite(weights).all()
        if not finite or not weights.sum() > 0 or (weights < 0).any():
            raise ValueError("weights must be one non-negative number for each source.")
        self.weights = weights / weights.sum()

    def draw(self, rng):
        """One dataset of a source chosen with the given weights."""
        return self.sources[rng.choice(len(self.sources), p=self.weights)].draw(rng)


def names_in(source):
    """Names of the tables that a source may draw, as far as they are known; a list of str."""
    if isinstance(source, Mixture):
        return [name for part in source.sources for name in names_in(part)]
    if isinstance(source, Tables):
        return list(source)
    return list(getattr(source, "names", [type(source).__name__]))


def as_source(datasets, *, task=None, retarget=0.0):
    """Whatever ``meta_fit`` was given, as a source.

    A dataset that cannot be loaded or used is left out, and a warning says which and why.

    Parameters
    ----------
    datasets : source, collection, mapping or iterable
        An object with ``draw(rng)`` is returned as it is. The values of a mapping, among them
        the collections of :mod:`sklearn_meta.tasks.collections`, or the items of an iterable are
        :class:`Dataset`, :class:`RawTable` or pairs ``(X, y)`` of arrays or DataFrames.
    task : {"classification", "regression"}, default=None
        What targets are where no metadata say so; None goes by their values.
    retarget : float in [0, 1], default=0
        See :class:`Tables`.

    Returns
    -------
    source

    Raises
    ------
    ValueError
        If no dataset is left.
    """
    if hasattr(datasets, "draw"):
        return datasets
    if not isinstance(datasets, Mapping):
        datasets = {str(position): item for position, item in enumerate(datasets)}
    if hasattr(datasets, "fetch"):
        datasets.fetch()  # all at once, with a progress bar, and before any process forks
    tables, reasons = {}, []
    for name in datasets:
        try:
            tables[str(name)] = _dataset(str(name), datasets[name], task)
        except (OSError, ValueError, TypeError) as error:
            told = str(error)
            reasons.append(told if repr(str(name)) in told else f"Dataset {str(name)!r}: {told}")
    if reasons and not tables:
        raise ValueError("None of the datasets can be used. " + " ".join(reasons))
    if reasons:
        warnings.warn(
            f"{len(reasons)} of {len(datasets)} datasets are left out. " + " ".join(reasons),
            stacklevel=2,
        )
    return Tables(tables, retarget=retarget)


def _dataset(name, item, task):
    """One item of a collection, encoded and checked."""
    if isinstance(item, Dataset):
        dataset = item
    else:
        if not isinstance(item, tuple | list) or len(item) not in (2, 3):
            raise ValueError(
                f"Dataset {name!r} must be a pair (X, y), got {type(item).__name__}. Of a single "
                "table give a list: [(X, y)]."
            )
        X, y, *metadata = item
        dataset = as_dataset(X, y, name, {"task": task, **(metadata[0] if metadata else {})})
    if dataset.y.dtype.kind == "f":
        if not np.nanmin(dataset.y) < np.nanmax(dataset.y):
            raise ValueError(f"Dataset {name!r} has a constant target: remove it.")
        return dataset
    counts = np.bincount(dataset.y)
    if len(counts) < 2:
        raise ValueError(f"Dataset {name!r} has {len(counts)} class; at least 2 are needed.")
    if counts.min() < 2:
        raise ValueError(f"Dataset {name!r} has a class with fewer than 2 rows: remove that class.")
    return dataset


def as_dataset(X, y, name="dataset", metadata=None):
    """Table and target as a Dataset: categories one-hot, labels coded.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,)
        Class labels or values of a regression target. Rows without one are left out.
    name : str
    metadata : dict, default=None
        ``"task"`` says what ``y`` is. Without it, fractional numbers are a regression target,
        and label -1 marks unlabelled rows, which are left out.

    Returns
    -------
    Dataset
    """
    y = np.asarray(y)
    if len(np.shape(X)) != 2 or not len(y):
        raise ValueError(
            f"Dataset {name!r}: X has shape {np.shape(X)}, and a table has rows and columns."
        )
    if len(X) != len(y):
        raise ValueError(f"Dataset {name!r}: X has {len(X)} rows and y has {len(y)}.")
    known = ~is_missing(y.ravel()).reshape(len(y), -1).any(1)
    X, y = TableEncoder().fit_transform(X)[known], y[known]
    if y.dtype == object:
        y = y.astype(str) if any(isinstance(value, str) for value in y) else y.astype(float)
    task = (metadata or {}).get("task")
    if task == "regression" or (task is None and _is_continuous(y)):
        with np.errstate(over="ignore"):
            y = y.astype(np.float32)
        if not np.isfinite(y).all():
            raise ValueError(f"Dataset {name!r} has a target that is infinite or beyond float32.")
        return Dataset(name, _single_precision(X), y)
    labelled = np.ones(len(y), dtype=bool)
    if task is None:
        labelled = y != ("-1" if y.dtype.kind == "U" else -1)
    classes, codes = np.unique(y[labelled], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Dataset {name!r} has {len(classes)} class; at least 2 are needed.")
    return Dataset(name, _single_precision(X[labelled]), codes.astype(np.int64))


def _is_continuous(y):
    return y.dtype.kind == "f" and len(y) > 0 and type_of_target(y) == "continuous"


def _single_precision(X):
    """Centred and scaled before rounding: a large offset would swallow a column's variation."""
    X = np.asarray(X, dtype=np.float64)
    observed = np.isfinite(X)
    count = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, X, 0).sum(0) / count
    scale = np.sqrt((np.where(observed, X - mean, 0) ** 2).sum(0) / count)
    return np.where(observed, (X - mean) / np.where(scale > 0, scale, 1), np.nan).astype(np.float32)
