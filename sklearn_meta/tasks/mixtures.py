"""Point sets drawn from mixtures, and tasks of fitting a mixture to such a set (paper 001)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils import check_array, check_consistent_length

from ..cells import in_numpy, in_pandas, is_missing, rows_of, text_as_objects
from ..sizes import check_integers, check_ranges, check_shares
from .column_types import refuse_dates
from .dataset import Dataset
from .episodes import log_uniform_int, range_of
from .pairs import is_continuous
from .sources import Mixture, Tables, check_source, usable

#: Covariance types, in the order of their codes in a batch.
COVARIANCE_TYPES = ("diag", "full", "spherical")


@dataclass(frozen=True)
class MixtureSets:
    """Point sets as in paper 001: spherical components of equal size in a box.

    Centres are uniform in (-4, 4) along each column, Eq. (19); weights have a flat Dirichlet
    distribution, Eq. (20); every component has standard deviation ``scale``, Eq. (21). A set is
    returned as a :class:`Dataset` whose classes are the components.

    Parameters
    ----------
    n_components, n_columns : (int, int), default=(4, 4) and (2, 2)
        Smallest and largest number, each equally likely.
    n_points : (int, int), default=(200, 1000)
        Range of the number of points of a set, read and held out together.
    scale : float, default=0.3

    Raises
    ------
    ValueError
        If a range is out of order, or is not a range.

    References
    ----------
    Set Transformer (paper 001), appendix B.3.1.
    """

    n_components: tuple = (4, 4)
    n_columns: tuple = (2, 2)
    n_points: tuple = (200, 1000)
    scale: float = 0.3

    def __post_init__(self):
        ranges = ("n_components", "n_columns", "n_points")
        check_ranges(**{name: getattr(self, name) for name in ranges})

    def draw(self, rng):
        """One set, a Dataset."""
        n_components, n_columns, n_points = (
            int(rng.integers(low, high + 1))
            for low, high in (self.n_components, self.n_columns, self.n_points)
        )
        centres = rng.uniform(-4, 4, (n_components, n_columns))
        labels = rng.choice(n_components, n_points, p=rng.dirichlet(np.ones(n_components)))
        X = centres[labels] + self.scale * rng.normal(size=(n_points, n_columns))
        return Dataset("mixture", X.astype(np.float32), labels)


@dataclass(frozen=True)
class MixturePrior:
    """Point sets from mixtures of all kinds; the default mixture weights were trained on them.

    The number of components and columns, and the weights, sizes, shapes and tails of the
    components, are all random: spherical, axis-parallel or correlated, of equal or different sizes,
    Gaussian or with heavier tails, well separated or overlapping.

    Parameters
    ----------
    max_components, max_columns : int, default=16 and 32
    n_points : int or (int, int), default=(40, 1000)
        Range of the number of points, including held-out ones, drawn log-uniformly.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    max_components: int = 16
    max_columns: int = 32
    n_points: tuple = (40, 1000)

    def __post_init__(self):
        check_integers(max_components=self.max_components, max_columns=self.max_columns)
        range_of(self.n_points, "n_points")

    def draw(self, rng):
        """One set, a Dataset whose classes are the components."""
        K = log_uniform_int(1, self.max_components, rng)
        D = log_uniform_int(1, self.max_columns, rng)
        n_points = log_uniform_int(*range_of(self.n_points, "n_points"), rng)
        centres = rng.normal(0, 2.3, (K, D)) if rng.random() < 0.3 else rng.uniform(-4, 4, (K, D))
        concentration = rng.choice([1.0, 1.0, 1.0, 3.0, 30.0])
        labels = rng.choice(K, n_points, p=rng.dirichlet(np.full(K, concentration)))
        deviations = self._shapes(K, D, rng)[labels] @ self._noise(n_points, D, rng)[..., None]
        X = centres[labels] + deviations[..., 0]
        if rng.random() < 0.2:
            X = X @ np.linalg.qr(rng.normal(size=(D, D)))[0]
        return Dataset("mixture", X.astype(np.float32), labels)

    @staticmethod
    def _shapes(K, D, rng):
        """A square root of each component's covariance, (K, D, D)."""
        scale = 0.3 if rng.random() < 0.4 else np.exp(rng.uniform(np.log(0.08), np.log(1.5)))
        sizes = np.exp(rng.normal(0, rng.choice([0.0, 0.0, 0.3, 0.6]), K))
        axes = np.exp(rng.normal(0, rng.choice([0.0, 0.3, 0.7]), (K, D)))
        shapes = (scale * sizes)[:, None, None] * axes[:, None] * np.eye(D)
        if rng.random() < 0.4:  # correlated: a random rotation of long and short axes
            n_rows = int(rng.integers(D + 1, 4 * D + 3))
            shapes = rng.normal(size=(K, D, n_rows)) / np.sqrt(n_rows)
            shapes = np.linalg.cholesky(shapes @ shapes.swapaxes(1, 2) + 1e-3 * np.eye(D))
            shapes *= (scale * sizes)[:, None, None]
        if rng.random() < 0.2:  # all components have one shape
            shapes = shapes[[0] * K]
        return shapes

    @staticmethod
    def _noise(n_points, D, rng):
        """Deviations of unit variance, some of them from heavier or lighter tails."""
        noise = rng.normal(size=(n_points, D))
        kind = rng.random()
        if kind < 0.1:
            freedom = rng.uniform(4, 12)
            noise *= np.sqrt((freedom - 2) / rng.chisquare(freedom, n_points))[:, None]
        elif kind < 0.2:
            noise = rng.uniform(-np.sqrt(3), np.sqrt(3), (n_points, D))
        return noise


class MixtureTask(NamedTuple):
    """Points to fit a mixture to, and points of the same mixture to score it on.

    Parameters
    ----------
    X, held_out : ndarray of shape (n_points, n_columns) and (n_held_out, n_columns)
        In units in which each column of ``X``, or all of it if ``covariance_type`` is
        "spherical", has unit variance.
    n_components : int
        Of the mixture to be fitted.
    covariance_type : {"diag", "full", "spherical"}
    """

    X: np.ndarray
    held_out: np.ndarray
    n_components: int
    covariance_type: str


class MixtureSampler:
    """Sampler of mixture-fitting tasks: half of a set's points are read, the others held out.

    Parameters
    ----------
    covariance_types : sequence of str, default=("diag", "diag", "full", "spherical")
        One of them is drawn for each task.
    other_k : float in [0, 1], default=0.2
        Share of tasks that ask for another number of components than the set has. All tasks of sets
        with one class do, since one class may mean that nothing is known about their components.
    max_components : int, default=16
    max_cells : (int, int), default=(4000, 60000)
        Range of the bound on points x components x columns of a task, drawn log-uniformly; points
        above it are left out.
    max_columns : int, default=64
        Columns above this number are left out at random: memory is quadratic in them.
    """

    #: Name in the history of what ``strata`` counts.
    stratum = "components"

    def __init__(
        self,
        covariance_types=("diag", "diag", "full", "spherical"),
        *,
        other_k=0.2,
        max_components=16,
        max_cells=(4000, 60_000),
        max_columns=64,
    ):
        check_shares(other_k=other_k)
        check_integers(max_components=max_components, max_columns=max_columns)
        covariance_types = tuple(covariance_types)
        if not covariance_types or any(kind not in COVARIANCE_TYPES for kind in covariance_types):
            raise ValueError(
                f"covariance_types must be some of {list(COVARIANCE_TYPES)}, got "
                f"{covariance_types!r}."
            )
        self.covariance_types = covariance_types
        self.other_k = other_k
        self.max_components = max_components
        self.max_cells = range_of(max_cells, "max_cells")
        self.max_columns = max_columns

    @staticmethod
    def check_dataset(dataset):
        """Raise a ValueError if a set has gaps."""
        if np.isnan(dataset.X).any():
            raise ValueError(
                f"Dataset {dataset.name!r} has missing values, but mixtures need complete points."
            )

    def draw(self, dataset, rng):
        """One task of a set.

        Parameters
        ----------
        dataset : Dataset
            Its classes are the components, or stand for them.
        rng : numpy.random.Generator

        Returns
        -------
        MixtureTask

        Raises
        ------
        ValueError
            As in ``check_dataset``.
        """
        self.check_dataset(dataset)
        X = dataset.X[rng.permutation(len(dataset.X))]
        if X.shape[1] > self.max_columns:
            X = X[:, rng.choice(X.shape[1], self.max_columns, replace=False)]
        is_target = dataset.y.dtype.kind == "f"  # a target, not components
        n_components = 1 if is_target else min(dataset.n_classes, self.max_components)
        if n_components == 1 or rng.random() < self.other_k:
            n_components = log_uniform_int(1, self.max_components, rng)
        most = log_uniform_int(*self.max_cells, rng) // (n_components * X.shape[1])
        most = max(most, 3 * n_components, 20)
        n_read = max(min(len(X) // 2, most), 1)
        covariance_type = self.covariance_types[rng.integers(len(self.covariance_types))]
        read, held_out = X[:n_read], X[n_read : 2 * n_read]
        mean, scale = read.mean(0), read.std(0)
        if covariance_type == "spherical":
            scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
        scale[scale == 0] = 1
        return MixtureTask(
            (read - mean) / scale, (held_out - mean) / scale, n_components, covariance_type
        )

    @staticmethod
    def size(task):
        """Key to sort tasks by: covariance type, columns and components in coarse steps, points."""
        n_points, n_columns = task.X.shape
        coarse = int(np.log2(n_columns)), int(2 * np.log2(task.n_components))
        return task.covariance_type, *coarse, n_points

    @staticmethod
    def strata(inputs):
        """Components of each task of a batch, a list of int."""
        return inputs["n_components"].tolist()

    @staticmethod
    def collate(tasks):
        """Pad tasks to a common size.

        If the covariance types of tasks differ, that of the first task is used for all.

        Returns
        -------
        inputs : dict
            Arguments of a call of :class:`sklearn_meta.mixture_learner.MixtureLearner`.
        target : tensor of shape (B, N, D)
            Held-out points, NaN at padding.
        """
        B, D = len(tasks), max(task.X.shape[1] for task in tasks)
        x = np.zeros((B, max(len(task.X) for task in tasks), D), dtype=np.float32)
        target = np.full((B, max(len(task.held_out) for task in tasks), D), np.nan, np.float32)
        mask = np.zeros(x.shape[:2], dtype=bool)
        columns = np.zeros((B, D), dtype=bool)
        for b, task in enumerate(tasks):
            n, d = task.X.shape
            x[b, :n, :d], mask[b, :n], columns[b, :d] = task.X, True, True
            target[b, : len(task.held_out), :d] = task.held_out
            target[b, : len(task.held_out), d:] = 0
        arrays = {"x": x, "mask": mask, "columns": columns}
        inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        inputs["n_components"] = torch.tensor([task.n_components for task in tasks])
        kind = COVARIANCE_TYPES.index(tasks[0].covariance_type)
        inputs["covariance_type"] = torch.tensor(kind)
        return inputs, torch.from_numpy(target)


def as_point_sets(datasets):
    """Convert whatever ``AmortizedGMM.meta_fit`` accepts to a source.

    Parameters
    ----------
    datasets : source, mapping or iterable
        Arrays (n_points, n_columns), pairs of such an array and the classes of its points, in a
        list or in a dict by name; :class:`Dataset` items; anything with ``draw(rng)``; or a
        :class:`Mixture` of these.

    Returns
    -------
    source

    Raises
    ------
    ValueError
        If no set is a finite two-dimensional array of at least two points. If only some are not, a
        warning says which are left out.
    """
    check_source(datasets)
    refuse_one_set(datasets, "datasets")
    if isinstance(datasets, Mixture):
        return datasets.read_by(as_point_sets)
    if hasattr(datasets, "draw"):
        return datasets
    if not isinstance(datasets, Mapping):
        datasets = {str(position): item for position, item in enumerate(datasets)}
    return Tables(usable(datasets, lambda name: _point_set(str(name), datasets[name])))


def refuse_one_set(sets, name):
    """Refuse a single array, DataFrame or pair (X, y) where many sets are expected."""
    # Frames of some libraries have no ndim.
    pair = isinstance(sets, tuple) and [len(getattr(s, "shape", ())) for s in sets] == [2, 1]
    if pair or len(getattr(sets, "shape", ())) == 2:
        one = "[(X, y)]" if pair else "[X]"
        raise ValueError(f"{name} must be sets of points: give a single set as a list, {one}.")


def _point_set(name, item):
    """Convert a set to a Dataset, with its classes, or with one class if it has none."""
    if isinstance(item, Dataset):
        return item
    X, y, metadata = (*item, None, None)[:3] if isinstance(item, tuple) else (item, None, None)
    try:
        X = rows_of(in_pandas(X))
        refuse_dates(X, "it")
        X = check_array(X, dtype=np.float64, input_name=f"Set {name}", ensure_min_samples=2)
    except (OverflowError, ValueError) as error:  # Python's integers have no bound
        raise ValueError(
            f"Set {name!r} is not a set of points, with a number in every column: {error}"
        ) from error
    y = np.zeros(len(X)) if y is None else np.asarray(text_as_objects(in_numpy(y)))
    check_consistent_length(X, y)
    if metadata is not None:  # from a file: keep the rows with a label
        X, y = X[~is_missing(y)], y[~is_missing(y)]
        if len(X) < 2:
            raise ValueError(f"Set {name!r} has {len(X)} points with a label: 2 are needed.")
    if (metadata or {}).get("task") == "regression" or is_continuous(y):
        y = np.zeros(len(y))  # a target says nothing about components
    elif is_missing(y).any():
        raise ValueError(
            f"Set {name!r} has points without a class: give classes to all points, or to none."
        )
    largest = np.abs(X).max()
    X = X if 1e-100 < largest < 1e100 or largest == 0 else X / largest  # squares must fit float64
    X = X - X.mean(0)
    scale = X.std()
    X = X / (scale if scale > 0 else 1)  # float32 holds it; columns keep their proportions
    return Dataset(name, X.astype(np.float32), np.unique(y, return_inverse=True)[1])
