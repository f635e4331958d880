"""Episodes: few-shot tasks drawn at random from datasets."""

from numbers import Integral

import numpy as np

from ..sizes import check_integers, check_limits, check_shares
from .batch import collate
from .dataset import Task


def counts_of(given, name):
    """Check the positive integers that a sampler draws from, or a single one; return a tuple.

    Raises
    ------
    ValueError
        If there is none, or anything else.
    """
    counts = tuple(given) if np.iterable(given) else (given,)
    if not counts or not all(isinstance(count, Integral) and count >= 1 for count in counts):
        raise ValueError(
            f"{name} must be a whole number of 1 or more, or a sequence of them, got {counts}."
        )
    return counts


def range_of(given, name):
    """Check the range of positive integers that a sampler draws from; return its two ends.

    A single number is both ends.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    counts = counts_of(given, name)
    if len(counts) > 2 or counts[0] > counts[-1]:
        raise ValueError(f"{name} must be one number or a pair (minimum, maximum), got {given!r}.")
    return counts[0], counts[-1]


def up_to(n, share, rng):
    """Return ``n`` or, in a share of the draws, a random integer from 2 to ``n``."""
    return int(rng.integers(2, n + 1)) if n > 2 and rng.random() < share else n


def log_uniform_int(low, high, rng):
    """Draw an integer from low to high, both inclusive, about uniformly in its logarithm."""
    return min(int(np.exp(rng.uniform(np.log(low), np.log(high + 1)))), high)


def check_codes(dataset):
    """Raise a ValueError if a table has only one class, or a class has no row."""
    if dataset.y.dtype.kind == "f":
        return
    n_classes = int(dataset.y.max(initial=-1)) + 1
    # With more classes than rows, one has no row; and codes may be too large for bincount.
    if 2 <= n_classes <= len(dataset.y) and np.bincount(dataset.y.astype(np.int64)).all():
        return
    raise ValueError(
        f"Dataset {dataset.name!r} has rows of {len(np.unique(dataset.y))} of {n_classes} classes: "
        "at least two are needed, numbered from 0, each with a row."
    )


class RowSampler:
    """Base class of samplers of few-shot tasks: numbers of rows and columns, gaps, context.

    The samplers themselves document the parameters.
    """

    def __init__(
        self,
        n_shots,
        n_unlabelled,
        *,
        max_rows,
        max_cells,
        inductive,
        column_subset,
        missing,
        flip,
    ):
        check_shares(inductive=inductive, column_subset=column_subset, missing=missing)
        check_limits(max_rows=max_rows, max_cells=max_cells)
        self.n_shots = n_shots
        self.n_unlabelled = range_of(n_unlabelled, "n_unlabelled")
        self.max_rows = max_rows
        self.max_cells = max_cells
        self.inductive = inductive
        self.column_subset = column_subset
        self.missing = missing
        self.flip = flip

    #: Name in the history of what ``strata`` counts.
    stratum = "shots"

    collate = staticmethod(collate)

    @staticmethod
    def size(task):
        """Key to sort tasks by, for little padding: columns in coarse steps, then rows."""
        n_rows, n_columns = task.X.shape
        return int(2 * np.log2(n_columns + task.n_label_columns)), n_rows

    @staticmethod
    def strata(inputs):
        """Number of labelled rows of each task, a list of int."""
        return _n_labelled(inputs).tolist()

    def _n_unlabelled(self, rng):
        low, high = self.n_unlabelled
        if low == high:
            return low
        return round(np.exp(rng.uniform(np.log(low), np.log(high))))

    @staticmethod
    def _n_held_out(n, dataset):
        """How many of n unlabelled rows have a held-out label: the table's share, at least half."""
        if dataset.unlabelled is None:
            return n
        share = len(dataset.y) / (len(dataset.y) + len(dataset.unlabelled))
        return max(round(n * max(share, 0.5)), 1)

    def _task(self, dataset, rows, y, n_labelled, n_unlabelled, n_label_columns, rng):
        """Make a task of these rows and labels, filled up with rows whose label is unknown.

        The latter may be read; the loss leaves them out (paper 000, section 3.5).
        """
        X = dataset.X[rows]
        n_there = 0 if dataset.unlabelled is None else len(dataset.unlabelled)
        n_more = min(n_unlabelled - (len(rows) - n_labelled), n_there)
        if n_more > 0:
            chosen = rng.choice(len(dataset.unlabelled), n_more, replace=False)
            places = np.full(n_more, n_labelled)
            X = np.insert(X, places, dataset.unlabelled[chosen], axis=0)
            y = np.insert(y, places, np.nan if y.dtype.kind == "f" else -1, axis=0)
        X = self._attributes(X, n_label_columns, rng)
        labelled = np.arange(len(y)) < n_labelled
        task = Task(X, y, labelled, self._context(labelled, rng), n_label_columns)
        if n_more > 0:  # drop rows that are neither read nor predicted
            of_use = task.context | task.has_label
            X, y, labelled, context = (part[of_use] for part in task[:4])
            task = Task(X, y, labelled, context, n_label_columns)
        return task

    def _attributes(self, X, n_label_columns, rng):
        """Draw the attributes of a task: random columns and signs, and hidden cells."""
        n_rows, n_columns = X.shape
        most = min(n_columns, max(self.max_cells // n_rows - n_label_columns, 2))
        most = up_to(most, self.column_subset, rng)
        X = X.take(rng.permutation(n_columns)[:most], axis=1)
        if self.flip:
            X = X * rng.choice(np.float32([-1, 1]), size=X.shape[1])
        if rng.random() < self.missing:
            X = np.where(rng.random(X.shape) < rng.uniform(0, 0.25), np.float32(np.nan), X)
        return X

    def _context(self, labelled, rng):
        """Mask of the rows that may be read: all, or in inductive tasks not all unlabelled ones."""
        context = np.ones(len(labelled), dtype=bool)
        if rng.random() < self.inductive:
            context[rng.random(len(labelled)) > rng.choice([0, rng.random()])] = False
            context[-1] = False  # something must be left to predict
            context |= labelled
        return context


class EpisodeSampler(RowSampler):
    """Sampler of few-shot tasks; classes, shots, unlabelled rows, columns and gaps are random.

    Parameters
    ----------
    n_shots : int or sequence of int, default=(1, 3, 5, 10)
        Labelled rows per class, drawn from these for each task. A class with fewer rows keeps one
        of them to be predicted.

    n_unlabelled : int or (int, int), default=20
        Unlabelled rows per class, or a range from which their number is drawn log-uniformly. If a
        table has rows without a label, some are drawn from these, in proportion to their number but
        at most half, and more if a class has too few labelled rows. They are not used in tasks with
        a subset of the classes, since they may belong to another class.

    max_classes : int, default=10
        Classes above this number are left out at random. With more than ten, the backbone ``vsa``
        reads them in groups.

    max_rows : int, default=300
        Bound on the rows of a task; unlabelled rows above it are left out.

    max_cells : int, default=6000
        Bound on rows x (columns + classes) of a task; columns above it are left out at random.

    inductive : float in [0, 1], default=0.3
        Share of tasks in which rows to be predicted may not be read by other rows.

    imbalanced : float in [0, 1], default=0.25
        Share of tasks whose unlabelled rows are drawn regardless of class; in half of these the
        labelled rows are, too (except one of each class). All other tasks have equally many rows of
        each class, as in paper 000.

    column_subset, class_subset : float in [0, 1], default=0.5 and 0.2
        Share of tasks with a random subset of the columns, or of the classes.

    missing : float in [0, 1], default=0.15
        Share of tasks in which up to a quarter of the cells are hidden.

    flip : bool, default=True
        Whether to flip the sign of each column with probability one half.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    def __init__(
        self,
        n_shots=(1, 3, 5, 10),
        n_unlabelled=20,
        *,
        max_classes=10,
        max_rows=300,
        max_cells=6000,
        inductive=0.3,
        imbalanced=0.25,
        column_subset=0.5,
        class_subset=0.2,
        missing=0.15,
        flip=True,
    ):
        super().__init__(
            counts_of(n_shots, "n_shots"),
            n_unlabelled,
            max_rows=max_rows,
            max_cells=max_cells,
            inductive=inductive,
            column_subset=column_subset,
            missing=missing,
            flip=flip,
        )
        check_integers(2, max_classes=max_classes)
        check_shares(imbalanced=imbalanced, class_subset=class_subset)
        self.max_classes = max_classes
        self.imbalanced = imbalanced
        self.class_subset = class_subset

    check_dataset = staticmethod(check_codes)

    @staticmethod
    def strata(inputs):
        """Number of labelled rows per class of each task, rounded; a list of int."""
        return (_n_labelled(inputs) / inputs["classes"].sum(1)).round().int().tolist()

    def draw(self, dataset, rng):
        """Draw one task from one dataset.

        Parameters
        ----------
        dataset : Dataset
            Classification table with at least two rows of two classes, or regression table, whose
            target is cut into classes at random quantiles.
        rng : numpy.random.Generator

        Returns
        -------
        Task

        Raises
        ------
        ValueError
            If the target of a regression is constant.
        """
        if dataset.y.dtype.kind == "f":
            dataset = cut_into_classes(dataset, rng)
        n_classes = up_to(min(dataset.n_classes, self.max_classes), self.class_subset, rng)
        classes = rng.choice(dataset.n_classes, n_classes, replace=False)
        shots = int(rng.choice(self.n_shots))
        n_unlabelled = self._n_unlabelled(rng)
        n_unlabelled = max(min(n_unlabelled, self.max_rows // len(classes) - shots), 1)
        if len(classes) < dataset.n_classes:
            dataset = dataset._replace(unlabelled=None)
        n_held_out = self._n_held_out(n_unlabelled, dataset)
        labelled, held_out = self._rows(dataset.y, classes, shots, n_held_out, rng)
        rows = np.concatenate([labelled, held_out])
        code = np.full(dataset.n_classes, -1)
        code[classes] = np.arange(len(classes))
        y, n = code[dataset.y[rows]], n_unlabelled * len(classes)
        return self._task(dataset, rows, y, len(labelled), n, len(classes), rng)

    def _rows(self, y, classes, shots, n_unlabelled, rng):
        members = [rng.permutation(np.flatnonzero(y == c)) for c in classes]
        # A class with few rows keeps at least one of them to be predicted.
        cuts = [min(shots, max(len(m) - 1, 1)) for m in members]
        imbalanced = rng.random() < self.imbalanced
        n_more = 0  # further labelled rows, of any class
        if imbalanced and rng.random() < 0.5:
            cuts = [1 for _ in members]
            n_rest = sum(map(len, members)) - len(members)
            n_more = min((shots - 1) * len(classes), max(n_rest - len(classes), 0))
        labelled = np.concatenate([m[:cut] for m, cut in zip(members, cuts, strict=True)])
        rest = [m[cut:] for m, cut in zip(members, cuts, strict=True)]
        if not imbalanced:
            return labelled, np.concatenate([m[:n_unlabelled] for m in rest])
        rest = rng.permutation(np.concatenate(rest))[: n_more + n_unlabelled * len(classes)]
        return np.concatenate([labelled, rest[:n_more]]), rest[n_more:]


def cut_into_classes(dataset, rng):
    """Cut a continuous target into classes at random quantiles, none too small.

    Of several targets, cut one that varies; raise a ValueError if none does.
    """
    targets = dataset.y.reshape(len(dataset.y), -1)
    varying = np.flatnonzero(targets.min(axis=0) < targets.max(axis=0))
    if not len(varying):  # only from a custom source: tables are checked beforehand
        raise ValueError(f"Dataset {dataset.name!r} has a constant target: draw another.")
    target = targets[:, varying[rng.integers(len(varying)) if dataset.y.ndim > 1 else 0]]
    n_classes = 2 if rng.random() < 0.6 else int(rng.integers(3, 6))
    shares = rng.dirichlet(np.full(n_classes, 4.0)) * 0.6 + 0.4 / n_classes
    y = np.searchsorted(np.quantile(target, np.cumsum(shares)[:-1]), target)
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) > 1 and counts.min() > 1:  # repeated values can swallow a class
        return dataset._replace(y=codes.astype(np.int64))
    half = target > np.median(target)
    if half.sum() < 2:
        half = target >= np.median(target)
    if half.all():  # all rows but one have the least value
        half = target > target.min()
    return dataset._replace(y=half.astype(np.int64))


def _n_labelled(inputs):
    """Number of labelled rows of each task of a batch, (B,)."""
    return (~inputs["labels"].isnan().all(-1)).sum(1)
