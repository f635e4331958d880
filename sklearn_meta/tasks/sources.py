"""Sources: where the engine draws tables from.

A *source* is anything with ``draw(rng) -> Dataset``: tables, a synthetic prior, or a mixture.
"""

from collections.abc import Mapping
from functools import cached_property
from itertools import compress
from pathlib import PurePath

import numpy as np

from ..user_warnings import warn
from .dataset import Dataset, column_as_target
from .pairs import as_dataset, of_arrays, parts_of_pair

#: Maximum number of successive draws of a source from which a sampler can make no task.
MOST_DRAWS = 100


class Tables(Mapping):
    """Collection of named tables, drawn with equal probability.

    Parameters
    ----------
    datasets : mapping of str to Dataset
        The tables.

    retarget : float in [0, 1], default=0.0
        Probability that a numeric column replaces the target, which makes many more tasks from the
        same real tables.

    Raises
    ------
    ValueError
        If there is no table, or ``retarget`` is not a probability.
    """

    def __init__(self, datasets, *, retarget=0.0):
        self.datasets = dict(datasets)
        self.retarget = retarget
        if not 0 <= retarget <= 1:
            raise ValueError(f"retarget must be a probability from 0 to 1, got {retarget!r}.")
        if not self.datasets:
            raise ValueError(
                "A collection needs at least one dataset, to train on or to validate by; got none."
            )
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
    """Mixture of several sources, one of which is chosen for each draw.

    Parameters
    ----------
    sources : sequence of sources
    weights : sequence of float, default=None
        Relative probabilities of the sources; equal if None. A source of weight 0 is left out, and
        not read.

    Raises
    ------
    ValueError
        If there is no source, or the weights are not one non-negative number per source with a
        positive sum; when the sources are read, if one cannot be used (see :func:`as_source`).
    """

    def __init__(self, sources, weights=None):
        sources = list(sources)
        for part in sources:
            check_source(part)
        weights = np.ones(len(sources)) if weights is None else np.asarray(weights, float)
        if not sources:
            raise ValueError("A mixture needs at least one source; got none.")
        finite = weights.shape == (len(sources),) and np.isfinite(weights).all()
        if not finite or not weights.sum() > 0 or (weights < 0).any():
            raise ValueError("weights must be one non-negative number for each source.")
        weights = weights / weights.sum()
        self.sources, self.weights = [], weights[weights > 0]
        for part in compress(sources, weights):
            lasting = hasattr(part, "draw") or isinstance(part, Mapping | list | tuple)
            self.sources.append(part if lasting else list(part))  # an iterator is read only once

    @cached_property
    def _read(self):
        """Sources to draw from; the type of each target is inferred from its values."""
        return [as_source(part) for part in self.sources]

    def read_by(self, reader):
        """The same mixture, with ``reader`` applied to each of its sources."""
        return Mixture(map(reader, self.sources), self.weights)

    def draw(self, rng):
        """One dataset of a source chosen with the given weights."""
        return self._read[rng.choice(len(self.sources), p=self.weights)].draw(rng)


def parts_of(source):
    """Yield the sources that a mixture, however nested, draws from; or any other source itself."""
    if isinstance(source, Mixture):
        for part in source._read:
            yield from parts_of(part)
    else:
        yield source


def names_in(source):
    """Names of the tables that a source may draw, as far as they are known, a list of str."""
    if isinstance(source, Mixture):
        return [name for part in source._read for name in names_in(part)]
    if isinstance(source, Tables):
        return list(source)
    names = getattr(source, "names", None)
    known = isinstance(names, list | tuple)
    return [str(name) for name in names] if known else [type(source).__name__]


def names_given(datasets, source):
    """Names that the user gave to tables; ``source`` is made of ``datasets``. A list has none."""
    if isinstance(datasets, Mixture):
        parts = zip(datasets.sources, source._read, strict=True)
        return [name for part in parts for name in names_given(*part)]
    named = isinstance(datasets, Mapping) or hasattr(datasets, "draw")
    return names_in(source) if named else []


def as_source(datasets, *, task=None, retarget=0.0, make=None):
    """Convert whatever ``meta_fit`` accepts to a source.

    A dataset that cannot be loaded or used is left out, and a warning says which and why.

    Parameters
    ----------
    datasets : source, collection, mapping or iterable
        An object with ``draw(rng)`` is returned unchanged; the collections in a :class:`Mixture`
        are read with ``task`` and ``make``. The values of a mapping, including the collections
        of :mod:`sklearn_meta.tasks.collections`, or the items of an iterable must be
        :class:`Dataset`, :class:`RawTable` or pairs ``(X, y)`` of arrays or DataFrames.
    task : {"classification", "regression"}, default=None
        Type of the targets if no metadata says so; if None, inferred from their values.
    retarget : float in [0, 1], default=0.0
        See :class:`Tables`.
    make : callable, default=None
        Function that makes a :class:`Dataset` of a pair. If None, :func:`as_dataset`, for tables;
        :func:`rows_as_they_are` is for networks that read rows of one length, such as images.

    Returns
    -------
    source

    Raises
    ------
    ValueError
        If no dataset is left.
    """
    make = make or as_dataset
    check_source(datasets)
    if isinstance(datasets, Mixture):
        return datasets.read_by(lambda part: as_source(part, task=task, make=make))
    if hasattr(datasets, "draw"):
        return datasets
    if not isinstance(datasets, Mapping):
        datasets = {str(position): item for position, item in enumerate(datasets)}
    if hasattr(datasets, "fetch"):
        datasets.fetch()  # all at once, with a progress bar, and before any process forks
    tables = usable(datasets, lambda name: _dataset(str(name), datasets[name], task, make))
    return Tables(tables, retarget=retarget)


def check_source(datasets):
    """Refuse what cannot be a source: a class, the path of a folder, or a number."""
    if isinstance(datasets, type):
        raise ValueError(
            f"{datasets.__name__} is a class, not a source: give an object, {datasets.__name__}()."
        )
    if isinstance(datasets, str | PurePath):
        raise ValueError(
            f"Expected datasets, got {str(datasets)!r}. For the tables of a folder, give "
            f"sklearn_meta.tasks.Folder({str(datasets)!r})."
        )
    if not np.iterable(datasets):
        check_draws(datasets)


def check_draws(source):
    """Refuse an object without ``draw``."""
    if not hasattr(source, "draw"):
        raise ValueError(f"{source!r} is not a source: give datasets, or an object with draw(rng).")


def usable(names, load):
    """Load each name; leave out those that fail, with a warning that says which and why.

    Parameters
    ----------
    names : collection
    load : callable
        Function of a name. Its OSError, ValueError or TypeError says why a name is left out.

    Returns
    -------
    dict of str to object

    Raises
    ------
    ValueError
        If there are names and all are left out.
    """
    tables, reasons = {}, []
    for name in names:
        try:
            if str(name) in tables:
                raise ValueError("another dataset has this name; names are compared as text.")
            tables[str(name)] = load(name)
        except (OSError, ValueError, TypeError) as error:
            told = str(error)
            reasons.append(told if repr(str(name)) in told else f"Dataset {str(name)!r}: {told}")
    if reasons and not tables:
        raise ValueError("None of the datasets can be used. " + " ".join(reasons))
    if reasons:
        warn(
            f"{len(reasons)} of {len(names)} datasets are left out. " + " ".join(reasons),
        )
    return tables


def suited(source, sampler):
    """Restrict a source to datasets that a sampler can make tasks of.

    Parameters
    ----------
    source : source
    sampler : object
        May have ``check_dataset(dataset)``, which raises a ValueError if it cannot use a dataset.

    Returns
    -------
    source
        Named tables, also those in mixtures, without the tables that the sampler refuses; a warning
        says which and why. Any other source is checked when it draws: it draws again if the sampler
        refuses a dataset, and raises a ValueError if it draws None, a pair or a malformed Dataset.

    Raises
    ------
    ValueError
        If no table is left, or it is no source.
    """
    check = getattr(sampler, "check_dataset", None)
    if type(source) is Tables:
        if check is None:
            return source

        def checked(name):
            check(source[name])
            return source[name]

        return Tables(usable(source, checked), retarget=source.retarget)
    if type(source) is Mixture:
        return Mixture([suited(part, sampler) for part in source._read], source.weights)
    check_draws(source)
    return _Checked(source, check)


class _Checked:
    """Source that checks datasets when it draws them, as they are not known beforehand."""

    def __init__(self, source, check):
        self.source, self.check = source, check

    def draw(self, rng):
        for n_left in reversed(range(MOST_DRAWS)):
            dataset = self._drawn(rng)
            try:
                if self.check is not None:
                    self.check(dataset)
                return dataset
            except ValueError:
                if not n_left:
                    raise

    def _drawn(self, rng):
        dataset = self.source.draw(rng)
        if dataset is None or type(dataset) in (tuple, list):  # such as (X, y)
            raise ValueError(
                f"draw of {type(self.source).__name__} must return a Dataset, got "
                f"{type(dataset).__name__}: return Dataset(name, X, y) or as_dataset(X, y)."
            )
        if not isinstance(dataset, Dataset):  # sets or texts
            return dataset
        malformed = f"draw of {type(self.source).__name__} returned a malformed Dataset"
        dataset = of_arrays(dataset, malformed)
        if dataset.y.dtype.kind == "f" and not np.isfinite(dataset.y).all():
            raise ValueError(
                f"draw of {type(self.source).__name__} returned a target that is not finite: "
                "leave out rows without a target."
            )
        return _known_apart(dataset.name, dataset)


def _known_apart(name, dataset):
    """Move the rows of a Dataset that have no label to its unlabelled ones; check its shapes."""
    X, y, unlabelled = dataset[1:]
    unlabelled = None if unlabelled is None else np.asarray(unlabelled)
    if len(X) != len(y):
        raise ValueError(f"Dataset {name!r}: X has {len(X)} rows and y has {len(y)}.")
    if unlabelled is not None and unlabelled.shape[1:] != X.shape[1:]:
        raise ValueError(
            f"Dataset {name!r}: unlabelled has shape {unlabelled.shape} and X {X.shape}: they "
            "need the same columns."
        )
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    known = ~np.isnan(y.reshape(len(y), -1)).any(1) if y.dtype.kind == "f" else y >= 0
    if not known.all():
        more = X[~known] if unlabelled is None else np.concatenate([X[~known], unlabelled])
        X, y, unlabelled = X[known], y[known], more
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"Dataset {name!r} has an infinite target: remove its rows.")
    return Dataset(dataset.name, X, y, unlabelled)


def _dataset(name, item, task, make):
    """Encode and check one item of a collection."""
    if isinstance(item, Dataset):
        dataset = _known_apart(name, of_arrays(item, f"Dataset {name!r} is malformed"))
    else:
        X, y, metadata = parts_of_pair(item, name)
        dataset = make(X, y, name, {"task": task, **metadata})
    if dataset.X.shape[1] == 0:
        raise ValueError(f"Dataset {name!r} has no columns: give it one or more.")
    if dataset.y.dtype.kind == "f":
        if not len(dataset.y) or (dataset.y.min(axis=0) == dataset.y.max(axis=0)).all():
            raise ValueError(f"Dataset {name!r} has a constant target: remove it.")
        return dataset
    counts = np.bincount(dataset.y)
    if len(counts) < 2:
        raise ValueError(f"Dataset {name!r} has {len(counts)} class; at least 2 are needed.")
    if counts.min() < 2:
        raise ValueError(
            f"Dataset {name!r} has a class with fewer than 2 rows: remove that class. If the "
            "target is a number, give (X, y, {'task': 'regression'}) or, for a folder, a column "
            "task in its index.csv."
        )
    return dataset
