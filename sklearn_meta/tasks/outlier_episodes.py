"""Sets of rows with a few outliers, drawn at random from tables."""

import numpy as np

from ..sizes import check_shares
from .alterations import alter
from .dataset import Task
from .episodes import RowSampler, check_codes, log_uniform_int


class OutlierSampler(RowSampler):
    """Sampler of unlabelled sets of rows in which a few rows, or none, are outliers.

    In some tasks the outliers are rows of other classes than the rest (in a regression table, rows
    with extreme targets), as in section 4.4 of paper 001. In the others they are synthetic: rows of
    the table are altered, see :mod:`sklearn_meta.tasks.alterations`.

    Parameters
    ----------
    n_unlabelled : int or (int, int), default=(8, 200)
        Number of rows of a set, 2 or more, or a range from which it is drawn log-uniformly. A set
        is smaller if the table has too few rows.

    max_share : float in (0, 0.5], default=0.2
        Largest share of outliers. Their number is drawn log-uniformly between one and this share
        of the rows.

    clean : float in [0, 1], default=0.1
        Share of tasks without any outlier, from which the network learns how certain to be.

    altered : float in [0, 1], default=0.5
        Share of tasks whose outliers are synthetic.

    novelty : float in [0, 1], default=0.3
        Share of tasks in which only some rows are read, and the others are scored. In half of
        these, the rows that are read hold no outlier.

    max_cells : int, default=6000
        Maximum of rows x (columns + 1) of a set: above it, columns are dropped at random.

    column_subset : float in [0, 1], default=0.5
        Share of tasks with a random subset of the columns.

    missing : float in [0, 1], default=0.15
        Share of tasks in which up to a quarter of the cells are hidden.

    flip : bool, default=True
        Whether each column's sign is flipped with probability one half.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    S. Han, X. Hu, H. Huang, M. Jiang, Y. Zhao. ADBench: Anomaly Detection Benchmark. NeurIPS 2022
    (the kinds of made outliers).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks import OutlierSampler, TablePrior
    >>> rng = np.random.default_rng(0)
    >>> task = OutlierSampler(n_unlabelled=30, clean=0).draw(TablePrior().draw(rng), rng)
    >>> len(task.y), bool(1 <= task.y.sum() <= 6), bool(task.labelled.any())
    (30, True, False)
    """

    def __init__(
        self,
        n_unlabelled=(8, 200),
        *,
        max_share=0.2,
        clean=0.1,
        altered=0.5,
        novelty=0.3,
        max_cells=6000,
        column_subset=0.5,
        missing=0.15,
        flip=True,
    ):
        check_shares(clean=clean, altered=altered, novelty=novelty)
        super().__init__(
            (0,),  # no row is labelled
            n_unlabelled,
            max_rows=np.inf,
            max_cells=max_cells,
            inductive=novelty,
            column_subset=column_subset,
            missing=missing,
            flip=flip,
        )
        if self.n_unlabelled[0] < 2:
            raise ValueError(
                f"n_unlabelled must be 2 or more, got {n_unlabelled!r}: a single row is no outlier."
            )
        if not 0 < max_share <= 0.5:
            raise ValueError(f"max_share must be above 0 and at most 0.5, got {max_share!r}.")
        self.max_share = max_share
        self.clean = clean
        self.altered = altered

    def check_dataset(self, dataset):
        """Raise a ValueError if a table has too few rows, or classes, to have outliers."""
        if len(dataset.y) < 3:
            raise ValueError(
                f"Dataset {dataset.name!r} has {len(dataset.y)} rows: at least 3 are needed."
            )
        if self.altered < 1:  # some outliers are rows of other classes
            check_codes(dataset)

    #: Name in the history of what ``strata`` counts.
    stratum = "rows"

    @staticmethod
    def strata(inputs):
        """Rows of each set, rounded down to a power of two; a list of int."""
        columns = inputs["columns"][:, None]
        n_rows = (inputs["readable"] | (~inputs["x"].isnan() & columns).any(-1)).sum(1)
        return [2 ** (int(n).bit_length() - 1) for n in n_rows]

    def draw(self, dataset, rng):
        """One set from one table.

        Parameters
        ----------
        dataset : Dataset
            A table of classes, each of two rows or more, or of a regression target.
        rng : numpy.random.Generator

        Returns
        -------
        Task
            ``y`` is 1 for outliers and 0 for the others; no row is labelled, and there is one
            label column.
        """
        is_altered = rng.random() < self.altered
        usual, odd = (_two_parts if is_altered else _two_kinds)(dataset.y, rng)
        most = int(len(usual) / (1 - self.max_share))  # limited by the usual rows
        n_rows = min(self._n_unlabelled(rng), most, len(usual) + len(odd))
        n_odd = min(self._n_odd(n_rows, rng), len(odd))
        usual, odd = usual[: n_rows - n_odd], odd[:n_odd]
        X = self._attributes(dataset.X[np.concatenate([usual, odd])], 1, rng)
        y = np.repeat([0, 1], [len(usual), n_odd])
        if is_altered and n_odd:
            X[len(usual) :] = alter(X[len(usual) :], X[: len(usual)], rng)
        order = rng.permutation(len(y))
        y = y[order]
        return Task(X[order], y, np.zeros(len(y), dtype=bool), self._context(y, rng), 1)

    def _n_odd(self, n_rows, rng):
        if rng.random() < self.clean:
            return 0
        return log_uniform_int(1, max(int(self.max_share * n_rows), 1), rng)

    def _context(self, y, rng):
        """Mask of the rows that are read: all of them, or some, and the others are scored."""
        if rng.random() >= self.inductive:
            return np.ones(len(y), dtype=bool)
        asked = rng.random(len(y)) < rng.uniform(0.2, 0.7)
        if rng.random() < 0.5:
            asked |= y == 1
        asked[y.argmax()] = True
        asked[np.flatnonzero(y == 0)[-2:]] = False
        return ~asked


def _two_kinds(y, rng):
    """Draw rows of some classes and rows of others, or of common and extreme targets; shuffled."""
    if y.dtype.kind == "f":
        odd = _extreme(y.reshape(len(y), -1), rng)
        usual = ~odd
    else:
        classes = rng.permutation(y.max() + 1)
        n_usual = 1 if rng.random() < 0.7 else int(rng.integers(1, len(classes)))
        others = classes[n_usual:]
        if rng.random() < 0.5:
            others = others[:1]
        usual, odd = np.isin(y, classes[:n_usual]), np.isin(y, others)
    return rng.permutation(np.flatnonzero(usual)), rng.permutation(np.flatnonzero(odd))


def _extreme(y, rng):
    """Mask of rows with the lowest targets, the highest, or both; never all, never none."""
    y = y[:, rng.integers(y.shape[1])]
    rank = (y.argsort().argsort() + 0.5) / len(y)
    height = (rank, 1 - rank, np.minimum(rank, 1 - rank))[rng.integers(3)]
    return height <= max(rng.uniform(0.03, 0.3) * height.max(), height.min())


def _two_parts(y, rng):
    """Split rows of one class, or of the whole table, at random; the smaller part is altered."""
    rows = np.arange(len(y))
    if y.dtype.kind != "f" and rng.random() < 0.5:
        members = np.flatnonzero(y == rng.integers(y.max() + 1))
        rows = members if len(members) >= 10 else rows
    rows = rng.permutation(rows)
    n_odd = max(len(rows) // 5, 1)
    return rows[n_odd:], rows[:n_odd]
