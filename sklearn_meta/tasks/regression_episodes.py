"""Few-shot regression tasks drawn at random from tables, and the scale of their targets."""

import numpy as np

from .dataset import column_as_target
from .episodes import RowSampler, counts_of

# Bound of held-out targets in training, in standard deviations of the labelled targets: if these
# happen to lie close together, all others would be enormous.
CLIP = 6.0


def target_scale(y_labelled):
    """Mean and standard deviation by which the targets of a task are standardised.

    Parameters
    ----------
    y_labelled : array-like of shape (n_labelled,) or (n_labelled, n_targets)
        Targets of the labelled rows alone; see :func:`mean_and_deviation`.

    Returns
    -------
    mean, scale : float64 or ndarray of shape (n_targets,)
        ``(y - mean) / scale`` has zero mean and unit variance over the labelled rows. The scale of
        a target that is constant in them, up to rounding, is 1.
    """
    mean, deviation = mean_and_deviation(y_labelled)
    return mean, np.where(deviation > 0, deviation, 1.0)[()]


def mean_and_deviation(values):
    """Mean and standard deviation of each column.

    Parameters
    ----------
    values : array-like of shape (n_rows,) or (n_rows, n_columns)
        Finite values, at least one row. Nothing overflows, whatever their magnitude.

    Returns
    -------
    mean, deviation : float64 or ndarray of shape (n_columns,)
        The deviation of a column that is constant up to rounding is 0.
    """
    y = np.asarray(values, dtype=np.float64)
    largest = np.abs(y).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    mean = (y / unit).mean(axis=0)
    deviation = np.sqrt(((y / unit - mean) ** 2).mean(axis=0))
    # Values that differ by rounding only count as equal.
    constant = (deviation <= 4 * np.finfo(float).eps * np.abs(mean)) | (deviation * unit == 0)
    return np.where(constant, y[0], mean * unit)[()], np.where(constant, 0.0, deviation * unit)[()]


def n_targets(y):
    """Number of targets of an array of shape (n_rows,) or (n_rows, n_targets), an int."""
    return 1 if y.ndim == 1 else y.shape[1]


class RegressionSampler(RowSampler):
    """Sampler of few-shot regression tasks; rows, shots, columns, signs and gaps are random.

    Targets are standardised by the labelled rows (see :func:`target_scale`) and negated in half of
    the tasks; held-out targets are clipped at 6 standard deviations of the labelled ones.

    Parameters
    ----------
    n_shots : int or sequence of int, default=(5, 10, 15, 20, 40)
        Labelled rows of a task, in all, drawn from these for each task. A table with too few rows
        keeps one to be predicted.

    n_unlabelled : int or (int, int), default=(20, 100)
        Unlabelled rows of a task, in all, or a range from which their number is drawn
        log-uniformly. If a table has rows without a target, some are drawn from these, in
        proportion to their number but at most half, and more if too few rows have a target.

    max_rows : int, default=150
        Bound on the rows of a task; unlabelled rows above it are left out.

    max_cells : int, default=6000
        Bound on rows x (columns + targets) of a task; columns above it are left out at random.

    inductive : float in [0, 1], default=0.3
        Share of tasks in which rows to be predicted may not be read by other rows.

    column_subset : float in [0, 1], default=0.5
        Share of tasks with a random subset of the columns.

    missing : float in [0, 1], default=0.15
        Share of tasks in which up to a quarter of the cells are hidden.

    flip : bool, default=True
        Whether to flip the sign of each column, and of each target, with probability one half.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks import RegressionPrior, RegressionSampler
    >>> rng = np.random.default_rng(0)
    >>> sampler = RegressionSampler(n_shots=(10,), n_unlabelled=50)
    >>> task = sampler.draw(RegressionPrior().draw(rng), rng)
    >>> task.y.shape, int(task.labelled.sum())
    ((60,), 10)
    """

    def __init__(
        self,
        n_shots=(5, 10, 15, 20, 40),
        n_unlabelled=(20, 100),
        *,
        max_rows=150,
        max_cells=6000,
        inductive=0.3,
        column_subset=0.5,
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

    def draw(self, dataset, rng):
        """Draw one task from one dataset.

        Parameters
        ----------
        dataset : Dataset
            Regression table with at least two rows, ``y`` finite and of shape (n_rows,) or (n_rows,
            n_targets). From a classification table (integer ``y``), a random numeric column with at
            least ten values is the target, and the classes are not used.
        rng : numpy.random.Generator

        Returns
        -------
        Task
            ``y`` is float32 and standardised, with as many dimensions as in the dataset.

        Raises
        ------
        ValueError
            If a classification table has no column that can be the target.
        """
        if dataset.y.dtype.kind != "f":
            dataset = self._turned(dataset, rng)
        n_labelled = max(min(int(rng.choice(self.n_shots)), len(dataset.y) - 1), 1)
        n_unlabelled = max(min(self._n_unlabelled(rng), self.max_rows - n_labelled), 1)
        n_held_out = self._n_held_out(n_unlabelled, dataset)
        rows = rng.permutation(len(dataset.y))[: n_labelled + n_held_out]
        y = np.zeros((len(rows), *dataset.y.shape[1:]), dtype=np.float32)
        task = self._task(dataset, rows, y, n_labelled, n_unlabelled, n_targets(y), rng)
        task.y[task.has_label] = self._targets(dataset.y, rows, n_labelled, rng)
        return task

    def check_dataset(self, dataset):
        """Refuse a table that ``draw`` can make no task of.

        Parameters
        ----------
        dataset : Dataset

        Raises
        ------
        ValueError
            If a classification table has no column to take as the target.
        """
        if dataset.y.dtype.kind != "f":
            self._turned(dataset, np.random.default_rng(0))

    @staticmethod
    def _turned(dataset, rng):
        """Replace the classes by one of the columns, as a regression target."""
        turned = column_as_target(dataset, rng)
        if turned is None:
            raise ValueError(
                f"Dataset {dataset.name!r} has classes as its target and no column of 10 "
                "or more values to use as a regression target instead: leave it out."
            )
        return turned

    def _targets(self, y, rows, n_labelled, rng):
        y = y.astype(np.float64)
        # First scale by the whole table: this is the unit if all labelled targets are equal.
        spread = y.std(axis=0)
        y = (y / np.where(spread > 0, spread, 1))[rows]
        mean, scale = target_scale(y[:n_labelled])
        y = (y - mean) / scale
        y[n_labelled:] = np.clip(y[n_labelled:], -CLIP, CLIP)
        if self.flip:
            y = y * rng.choice([-1.0, 1.0], size=y.shape[1:])
        return y.astype(np.float32)
