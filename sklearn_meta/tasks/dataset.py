"""Containers of data: a raw table, an encoded table to draw tasks from, and a few-shot task."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np


class RawTable(NamedTuple):
    """Table as a collection returns it.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_rows, n_columns)
        Numbers, categories or strings; NaN and None are missing cells.

    y : ndarray or Series of shape (n_rows,)
        Class labels, or values of a regression target.

    metadata : dict
        What is known about the table. ``"task"`` ("classification" or "regression") says what ``y``
        is; otherwise it is inferred from its values. ``"family"`` names the original of several
        versions. ``"marked"`` says whether class -1 marks unlabelled rows; it does unless this is
        False or a task is given.
    """

    X: Any
    y: Any
    metadata: dict


class Dataset(NamedTuple):
    """Encoded table from which few-shot tasks can be drawn.

    Parameters
    ----------
    name : str
        Name of the table in reports.

    X : ndarray of shape (n_rows, n_columns), float32
        Attributes. Categories are already one-hot encoded; NaN is a missing cell.

    y : ndarray of shape (n_rows,)
        int64 class codes 0 to ``n_classes - 1``, all of which occur; or float32 values of a
        regression target, which classification tasks cut into classes.

    unlabelled : ndarray of shape (n_unlabelled, n_columns), float32, default=None
        Attributes of rows without a label (paper 000, section 3.1). Tasks may read them, but never
        ask for their labels.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    unlabelled: np.ndarray | None = None

    @property
    def n_classes(self):
        """Number of classes, an int."""
        return int(self.y.max()) + 1


def column_as_target(dataset, rng):
    """Replace the target by a random column with at least ten different values.

    Parameters
    ----------
    dataset : Dataset
    rng : numpy.random.Generator

    Returns
    -------
    Dataset or None
        A regression table of all rows, labelled or not, that have a value in this column; None if
        there is no such column, or fewer than three columns.
    """
    X = dataset.X if dataset.unlabelled is None else np.vstack([dataset.X, dataset.unlabelled])
    order = rng.permutation(X.shape[1]) if X.shape[1] > 2 else ()
    # Measurements, unlike counts, have ten values in 200 rows. If no column has, look at all rows:
    # they may be sorted.
    for n_rows, j in product((200, None), order):
        column = X[:, j]
        known = np.isfinite(column)
        if len(np.unique(column[known][:n_rows])) >= 10:
            return Dataset(dataset.name, np.delete(X[known], j, axis=1), column[known])
    return None


class Task(NamedTuple):
    """One few-shot task: labelled rows, unlabelled rows, and which of them may be read.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), float
        Attributes; NaN is a missing cell.

    y : ndarray
        int64 class codes of shape (n_rows,), -1 where no class is known; or float targets of shape
        (n_rows,) or (n_rows, n_targets), NaN where none is known. Labels of rows that are not
        ``labelled`` are held out: they are used for the loss and never shown to the backbone.

    labelled : ndarray of shape (n_rows,), bool
        Rows whose label the learner may read (the support set).

    context : ndarray of shape (n_rows,), bool
        Rows that other rows may read: all of them in transductive mode; in inductive mode the
        labelled rows and the unlabelled rows known beforehand.

    n_label_columns : int
        Number of classes, or of targets.
    """

    X: np.ndarray
    y: np.ndarray
    labelled: np.ndarray
    context: np.ndarray
    n_label_columns: int

    @property
    def is_regression(self):
        """Whether ``y`` holds targets rather than classes."""
        return self.y.dtype.kind == "f"

    @property
    def has_label(self):
        """Rows whose label is known, shown or held out: bool ndarray of shape (n_rows,)."""
        if self.is_regression:
            return ~np.isnan(self.y.reshape(len(self.y), -1)).any(1)
        return self.y >= 0
