"""N-way K-shot episodes: labelled rows of some classes in some order, and queries (paper 003)."""

from typing import NamedTuple

import numpy as np
import torch

from ..sizes import check_integers, check_shares
from .batch import IGNORE
from .episodes import check_codes, counts_of, cut_into_classes, up_to
from .running import FAR, Moments, last, moments_as_they_are, projection, standardise


class Episode(NamedTuple):
    """One task.

    Parameters
    ----------
    support : ndarray of shape (n_ways * n_shots, n_inputs), float32
    labels : ndarray of shape (n_ways * n_shots,), int64
        Their classes. With fewer classes than ways, some classes have several places.
    query : ndarray of shape (n_queries, n_inputs), float32
    target : ndarray of shape (n_queries,), int64
        Classes to be predicted; ``IGNORE`` for queries that only fill up an episode.
    """

    support: np.ndarray
    labels: np.ndarray
    query: np.ndarray
    target: np.ndarray


def deal(n_classes, n_ways, n_shots, rng):
    """Assign a class to each place of an episode, and one of its rows.

    Parameters
    ----------
    n_classes : int
        At most ``n_ways``; if there are fewer, classes repeat.
    n_ways, n_shots : int
    rng : numpy.random.Generator
        For the order of the places.

    Returns
    -------
    labels : ndarray of shape (n_ways * n_shots,), int
        Class of each place.
    turns : ndarray of shape (n_ways * n_shots,), int
        Which row of its class each place takes, from 0.
    """
    ways = np.arange(n_ways * n_shots) % n_ways % n_classes
    labels = rng.permutation(ways)
    turns = (labels[:, None] == labels).cumsum(1).diagonal() - 1
    return labels, turns


class NWayKShot:
    """Sampler of episodes with a fixed number of labelled rows, and some queries.

    Parameters
    ----------
    vectors : callable
        Function of rows, their class codes and a random generator that returns the vectors that the
        network reads, such as :class:`sklearn_meta.tasks.Drawings` and
        :class:`sklearn_meta.tasks.Vectors`.
    n_ways, n_shots : int, default=5 and 1
    n_queries : int, default=5
        Queries per episode, of any of its classes.
    fewer_classes : float in [0, 1], default=0.0
        Share of episodes that draw their number of classes from 2 to ``n_ways``, as an estimator
        meets them if it has fewer classes than ways, or not a multiple of them.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    #: Name in the history of what ``strata`` counts.
    stratum = "ways"

    check_dataset = staticmethod(check_codes)

    def __init__(self, vectors, *, n_ways=5, n_shots=1, n_queries=5, fewer_classes=0.0):
        check_integers(n_ways=n_ways, n_shots=n_shots, n_queries=n_queries)
        check_shares(fewer_classes=fewer_classes)
        self.vectors = vectors
        self.n_ways = n_ways
        self.n_shots = n_shots
        self.n_queries = n_queries
        self.fewer_classes = fewer_classes

    def draw(self, dataset, rng):
        """Draw one episode.

        Parameters
        ----------
        dataset : Dataset
            Dataset with classes; a regression target is cut into classes.
        rng : numpy.random.Generator

        Returns
        -------
        Episode

        Raises
        ------
        ValueError
            If the regression target is constant.
        """
        if dataset.y.dtype.kind == "f":
            dataset = cut_into_classes(dataset, rng)
        n_classes = up_to(min(self.n_ways, dataset.n_classes), self.fewer_classes, rng)
        classes = rng.choice(dataset.n_classes, n_classes, replace=False)
        members = [rng.permutation(np.flatnonzero(dataset.y == c)) for c in classes]
        n_known = self._n_known(rng)
        cuts = [min(n_known, max(len(m) - 1, 1)) for m in members]
        pool = np.concatenate([m[:cut] for m, cut in zip(members, cuts)])
        codes = np.repeat(np.arange(n_classes), cuts)
        rest = np.concatenate([m[cut:] for m, cut in zip(members, cuts)])
        codes_of_rest = np.repeat(np.arange(n_classes), [len(m) for m in members] - np.array(cuts))
        chosen = rng.permutation(len(rest))[: self.n_queries]
        n_missing = self.n_queries - len(chosen)  # too few rows: repeat the first, unpredicted
        asked = np.append(rest[chosen], pool[:1].repeat(n_missing))
        target = np.append(codes_of_rest[chosen], np.full(n_missing, IGNORE))
        X = dataset.X[np.concatenate([pool, asked])]
        x = self._read(X, np.concatenate([codes, target.clip(min=0)]), len(pool), rng)
        labels, turns = deal(n_classes, self.n_ways, self.n_shots, rng)
        starts, counts = np.cumsum([0, *cuts[:-1]]), np.array(cuts)
        rows = starts[labels] + turns % counts[labels]  # repeated if there are too few
        return Episode(x[rows], labels, x[len(pool) :], target)

    def _n_known(self, rng):
        return self.n_shots

    def _read(self, X, classes, n_known, rng):
        """Convert rows to vectors; the first ``n_known`` rows are labelled."""
        return np.asarray(self.vectors(X, classes, rng), dtype=np.float32)

    def size(self, episode):
        """Key to sort episodes by: all have the same size."""
        return 0

    @staticmethod
    def strata(inputs):
        """Classes of each episode, a list of int."""
        return (inputs["labels"].amax(1) + 1).tolist()

    @staticmethod
    def collate(episodes):
        """Stack episodes as the inputs and the target of a learner.

        Parameters
        ----------
        episodes : list of Episode

        Returns
        -------
        inputs : dict
            ``support`` (B, L, n_inputs), ``labels`` (B, L) and ``query`` (B, Q, n_inputs).
        target : tensor of shape (B, Q)
        """
        support, labels, query, target = (torch.from_numpy(np.stack(a)) for a in zip(*episodes))
        return {"support": support, "labels": labels, "query": query}, target


class TableEpisodes(NWayKShot):
    """Sampler of episodes from tables with any columns, built as an estimator builds them.

    Rows are standardised by all labelled rows of the task, only some of which are in the episode,
    and randomly rotated into the space that the network reads.

    Parameters
    ----------
    width : int, default=32
        Length of the vectors.
    n_ways, n_shots, n_queries : int, default=5, 1 and 5
    n_known : sequence of int, default=(1, 2, 3, 5, 10)
        Numbers of labelled rows per class in all; one is drawn, and the episode's rows are among
        these.
    fewer_classes : float in [0, 1], default=0.4
        As in :class:`NWayKShot`.
    column_subset : float in [0, 1], default=0.3
        Share of episodes with a random subset of the columns.
    """

    def __init__(
        self,
        width=32,
        *,
        n_ways=5,
        n_shots=1,
        n_queries=5,
        n_known=(1, 2, 3, 5, 10),
        fewer_classes=0.4,
        column_subset=0.3,
    ):
        shape = {"n_ways": n_ways, "n_shots": n_shots, "n_queries": n_queries}
        super().__init__(None, fewer_classes=fewer_classes, **shape)
        check_shares(column_subset=column_subset)
        check_integers(width=width)
        self.width = width
        self.n_known = counts_of(n_known, "n_known")
        self.column_subset = column_subset

    def _n_known(self, rng):
        return int(rng.choice(self.n_known))

    def _read(self, X, classes, n_known, rng):
        n_columns = up_to(X.shape[1], self.column_subset, rng)
        X = X[:, rng.permutation(X.shape[1])[:n_columns]].astype(np.float64)
        Z = in_units_of(moments_of(X[:n_known]), X)
        return (Z @ projection(Z.shape[1], self.width, rng)).astype(np.float32)


def moments_of(X):
    """Moments of the columns of a table, of shape (n_columns,).

    Columns with at least five values are clipped at ``FAR`` interquartile ranges from the median,
    unless that range is 0.
    """
    last_one = np.maximum((~np.isnan(X)).sum(0, keepdims=True) - 1, 0)
    places = np.concatenate([last_one // 4, last_one // 2, last_one - last_one // 4])
    low, median, high = np.take_along_axis(np.sort(X, 0), places, 0)  # NaN comes last
    with np.errstate(over="ignore"):
        reach = np.where((last_one[0] >= 4) & (high > low), FAR * (high - low), np.inf)
        X = X.clip(median - reach, median + reach)
    return last(moments_as_they_are(X, Moments.empty(X.shape[1])))


def in_units_of(moments, X):
    """Standardise rows by the mean and standard deviation of the labelled rows.

    Parameters
    ----------
    moments : Moments
        Moments of the labelled rows.
    X : ndarray of shape (n_rows, n_columns)

    Returns
    -------
    ndarray of shape (n_rows, n_varying)
        Without the columns that are constant in the labelled rows, from which nothing can be
        learned; if all are, the first one, as zeros.
    """
    varies = moments.scale > 0
    varies[0] |= not varies.any()
    return standardise(X, moments)[:, varies]
