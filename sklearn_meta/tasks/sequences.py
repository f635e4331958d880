"""Sequences: rows one after another, each followed by its label (paper 002, sections 2 and 7)."""

from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch

from ..sizes import check_integers, check_shares
from .episodes import check_codes, counts_of, cut_into_classes, range_of, up_to
from .running import (
    Moments,
    moments_as_they_are,
    projection,
    running_moments,
    standardise,
    standardised_rows,
)

#: Bound of targets in training: without it, one extreme row would outweigh a whole batch.
TARGET_BOUND = 6.0

#: Number of rows before the first predicted target: the scale of fewer targets is arbitrary.
N_UNASKED = 5

#: Maximum number of words to permute; from more words, draw one by one.
MOST_SHUFFLED = 100_000


class Sequence(NamedTuple):
    """One episode.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_inputs), float32
        Vector of each row, which the network reads.
    shown : ndarray of shape (n_rows, n_letters) int64, or (n_rows, 1) float32
        Label of each row, shown to the network one step later: a word, or a target.
    asked : ndarray like ``shown``
        Label to predict for each row; -1 or NaN if there is none.
    """

    x: np.ndarray
    shown: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class Vectors:
    """Rows as they are, for networks that read vectors of their length.

    Parameters
    ----------
    width : int
    """

    width: int

    def __call__(self, X, classes, rng):
        """The rows, float32; ``classes`` and ``rng`` are not needed."""
        if X.shape[1] != self.width:
            raise ValueError(
                f"Rows have {X.shape[1]} values, but the backbone expects {self.width}."
            )
        return X.astype(np.float32)


@dataclass(frozen=True)
class ProjectedColumns:
    """Rows of any table as vectors of one length: running z-scores, randomly rotated.

    Each row is standardised by itself and the rows before it, so that a stream can be read row by
    row, and rotated into the space that the network reads. A network that has seen many random
    rotations does not mind which one it is. A missing cell has the mean value.

    Parameters
    ----------
    width : int, default=32
    column_subset : float in [0, 1], default=0.3
        Share of sequences with a random subset of the columns.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    width: int = 32
    column_subset: float = 0.3

    def __post_init__(self):
        check_integers(width=self.width)
        check_shares(column_subset=self.column_subset)

    def __call__(self, X, classes, rng):
        """Vectors (n_rows, width), float32, of rows (n_rows, n_columns)."""
        n_columns = up_to(X.shape[1], self.column_subset, rng)
        X = X[:, rng.permutation(X.shape[1])[:n_columns]].astype(np.float64)
        Z = standardised_rows(X, running_moments(X, Moments.empty(n_columns)))
        return (Z @ projection(n_columns, self.width, rng)).astype(np.float32)


class SequenceSampler:
    """Base class of samplers of sequences: how sequences are batched."""

    def size(self, sequence):
        """Key to sort sequences by: their length."""
        return len(sequence.x)

    @staticmethod
    def strata(inputs):
        """Rows of each sequence, rounded down to a power of two; a list of int."""
        labels = inputs["labels"]
        known = ~labels.isnan() if labels.is_floating_point() else labels >= 0
        return [2 ** (int(n).bit_length() - 1) for n in known.all(-1).sum(1)]

    #: Name in the history of what ``strata`` counts.
    stratum = "rows"

    @staticmethod
    def collate(sequences):
        """Pad sequences at their ends; stack them as the inputs and the target of a learner.

        Parameters
        ----------
        sequences : list of Sequence

        Returns
        -------
        inputs : dict
            ``x`` (B, T, n_inputs) and ``labels`` (B, T, L).
        target : tensor of shape (B, T, L)
        """
        length = max(len(sequence.x) for sequence in sequences)
        nothing = np.nan if sequences[0].shown.dtype.kind == "f" else -1
        x, shown, asked = (
            torch.from_numpy(np.stack([_padded(rows, length, fill) for rows in parts]))
            for parts, fill in zip(zip(*sequences), (0, nothing, nothing))
        )
        return {"x": x, "labels": shown}, asked


def _padded(rows, length, fill):
    return np.concatenate([rows, np.full((length - len(rows), *rows.shape[1:]), fill, rows.dtype)])


class ClassSequences(SequenceSampler):
    """Sampler of sequences of labelled rows; classes, their words, rows and order are random.

    Parameters
    ----------
    head : LabelWords
        Determines the words that stand for classes: see :class:`sklearn_meta.heads.OneHotLabels`.
    vectors : callable
        Function of rows, their class codes and a random generator that returns the vectors that the
        network reads, such as :class:`ProjectedColumns`, :class:`Vectors` and
        :class:`sklearn_meta.tasks.Drawings`.
    n_classes : int or (int, int), default=(2, 10)
        Range of the number of classes; at most the number of words.
    n_instances : int or sequence of int, default=(10,)
        Rows per class, on average, drawn from these for each sequence. That many rows in all are
        drawn from all rows of its classes, so classes differ in number (section 7).
    max_rows : int, default=200
        Bound on the length of a sequence.
    few_words : bool, default=False
        Whether to use only as many words as a sequence has classes: the first ones, which for
        strings are one letter repeated. Then the network need not learn which words are in use.

    Raises
    ------
    ValueError
        If ``n_classes`` is not a range of integers that reaches 2, or ``n_instances`` has anything
        but integers of 1 or more.
    """

    def __init__(
        self,
        head,
        vectors,
        *,
        n_classes=(2, 10),
        n_instances=(10,),
        max_rows=200,
        few_words=False,
    ):
        self.head = head
        self.vectors = vectors
        self.n_classes = range_of(n_classes, "n_classes")
        if self.n_classes[1] < 2:
            raise ValueError(f"n_classes must allow 2 or more classes, got {n_classes!r}.")
        self.n_instances = counts_of(n_instances, "n_instances")
        self.max_rows = max_rows
        self.few_words = few_words

    check_dataset = staticmethod(check_codes)

    def draw(self, dataset, rng):
        """Draw one sequence.

        Parameters
        ----------
        dataset : Dataset
            Dataset with classes; a regression target is cut into classes.
        rng : numpy.random.Generator

        Returns
        -------
        Sequence

        Raises
        ------
        ValueError
            If the regression target is constant.
        """
        if dataset.y.dtype.kind == "f":
            dataset = cut_into_classes(dataset, rng)
        low, high = self.n_classes
        most = min(high, dataset.n_classes, self.head.n_words)
        n_classes = int(rng.integers(min(low, most), most + 1))
        classes = rng.choice(dataset.n_classes, n_classes, replace=False)
        rows = np.concatenate([np.flatnonzero(dataset.y == c) for c in classes])
        length = min(int(rng.choice(self.n_instances)) * n_classes, self.max_rows, len(rows))
        rows = rng.permutation(rows)[:length]
        codes = np.zeros(dataset.n_classes, dtype=np.int64)
        codes[classes] = np.arange(n_classes)
        codes = codes[dataset.y[rows]]
        n_words = n_classes if self.few_words else self.head.n_words
        words = draw_words(self.head, n_classes, rng, n_words)[codes]
        x = np.asarray(self.vectors(dataset.X[rows], codes, rng), dtype=np.float32)
        return Sequence(x, words, words)


def draw_words(head, n, rng, n_words=None):
    """Draw distinct words, one per class.

    Parameters
    ----------
    head : LabelWords
    n : int
    rng : numpy.random.Generator
    n_words : int, default=None
        Number of words to draw from; the first ones repeat one letter. If None, all.

    Returns
    -------
    ndarray of shape (n, n_letters), int64
    """
    numbers = _different(n, n_words or head.n_words, rng)[:, None]
    first, rest = numbers % head.n_symbols, numbers // head.n_symbols
    others = rest // head.n_symbols ** np.arange(head.n_letters - 1)
    return np.hstack([first, (first + others) % head.n_symbols])


def _different(n, most, rng):
    """Draw ``n`` different integers below ``most``; a smaller ``n`` gives the first of these."""
    if most <= MOST_SHUFFLED:
        return rng.permutation(most)[:n]
    found = {}
    while len(found) < n:
        found[int(rng.integers(most))] = None
    return np.array(list(found))


class TargetSequences(SequenceSampler):
    """Sampler of sequences of rows with a target.

    Parameters
    ----------
    vectors : callable
        As in :class:`ClassSequences`.
    n_rows : int or (int, int), default=(20, 150)
        Range of the length, drawn log-uniformly.
    standardised : bool, default=True
        Whether targets are in running units: a target is shown as its z-score among the targets up
        to it, and predicted as its z-score among the targets before it. The first ``N_UNASKED``
        targets are not predicted. If False, targets are used as they are.

    Raises
    ------
    ValueError
        If ``n_rows`` is not a range of integers, or is so low that no target is predicted.
    """

    def __init__(self, vectors, *, n_rows=(20, 150), standardised=True):
        self.vectors = vectors
        self.n_rows = range_of(n_rows, "n_rows")
        self.standardised = standardised
        if self.n_rows[0] < self._fewest:
            raise ValueError(
                f"n_rows must be {self._fewest} or more, got {n_rows!r}: the first {N_UNASKED} "
                "targets of a sequence are not predicted."
            )

    @property
    def _fewest(self):
        return N_UNASKED + 1 if self.standardised else 1

    def check_dataset(self, dataset):
        """Raise a ValueError if a table has too few rows for any target to be predicted."""
        if len(dataset.y) < self._fewest:
            raise ValueError(
                f"Dataset {dataset.name!r} has {len(dataset.y)} rows: at least {self._fewest} are "
                "needed."
            )

    def draw(self, dataset, rng):
        """Draw one sequence.

        Parameters
        ----------
        dataset : Dataset
            Regression dataset; class codes are used as numbers, and one of several targets is
            drawn.
        rng : numpy.random.Generator

        Returns
        -------
        Sequence
        """
        low, high = np.log(self.n_rows)
        length = min(round(np.exp(rng.uniform(low, high))), len(dataset.y))
        rows = rng.permutation(len(dataset.y))[:length]
        y = dataset.y[rows].reshape(length, -1)
        chosen = rng.integers(y.shape[1]) if y.shape[1] > 1 else 0
        y = y[:, [chosen]].astype(np.float64)
        x = self.vectors(dataset.X[rows], None, rng)
        if not self.standardised:
            return Sequence(x, y.astype(np.float32), y.astype(np.float32))
        y = y * rng.choice([-1, 1])
        moments = moments_as_they_are(y, Moments.empty(1))
        asked = np.full_like(y, np.nan)
        before = Moments(moments.origin, *(array[:-1] for array in moments[1:]))
        scale = np.where(before.scale > 0, before.scale, np.nan)
        asked[1:] = ((y[1:] - before.mean) / scale).clip(-TARGET_BOUND, TARGET_BOUND)
        asked[:N_UNASKED] = np.nan
        return Sequence(x, standardise(y, moments).astype(np.float32), asked.astype(np.float32))


class Curriculum:
    """Sampler of sequences that get harder: more classes (section 4.2.2), more words.

    Parameters
    ----------
    sampler : ClassSequences
        ``n_classes`` is the range at the start of training.
    every : int, default=10_000
        Sequences after which the number of classes grows by one.
    most : int, default=None
        Number of classes at which growth ends, not below the range at the start; if None, it never
        ends.
    n_first : int, default=0
        Number of sequences before growth begins, all with the largest number of classes of
        ``n_classes`` and ``few_words``: with these a network discovers the use of its memory
        several times sooner.

    Raises
    ------
    ValueError
        If ``every`` is not an integer of 1 or more, ``most`` is not an integer or is less than the
        fewest classes of ``sampler``, or ``n_first`` is negative.
    """

    def __init__(self, sampler, every=10_000, most=None, n_first=0):
        if not isinstance(every, Integral) or every < 1:
            raise ValueError(
                f"every must be an integer of 1 or more, a number of sequences, got {every!r}."
            )
        check_integers(0, n_first=n_first)
        if most is not None:
            check_integers(sampler.n_classes[0], most=most)
        self.sampler = sampler
        self.every = every
        self.most = most
        self.n_first = n_first
        self.stratum = sampler.stratum
        self.strata = sampler.strata
        self.check_dataset = sampler.check_dataset

    def at(self, n_drawn):
        """Sampler to use after ``n_drawn`` sequences, a ClassSequences."""
        low, high = self.sampler.n_classes
        settings = vars(self.sampler)
        if n_drawn < self.n_first:
            return ClassSequences(**settings | {"n_classes": (high, high), "few_words": True})
        high += (n_drawn - self.n_first) // self.every
        high = high if self.most is None else min(high, self.most)
        return ClassSequences(**settings | {"n_classes": (low, high)})
