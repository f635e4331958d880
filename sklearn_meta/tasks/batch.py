"""Collate tasks of different size into one padded batch of tensors."""

import numpy as np
import torch

from .dataset import Task

#: Target of rows that do not count in the loss (padding, labelled and context rows).
IGNORE = -100


def collate(tasks, dtype=torch.float32):
    """Pad tasks to a common size and stack them.

    Parameters
    ----------
    tasks : sequence of Task
        All for classification, or all for regression.
    dtype : {torch.float32, torch.float64}, default=torch.float32
        Dtype of attributes and labels.

    Returns
    -------
    inputs : dict of tensors
        The arguments of a backbone's call: ``x`` (B, N, M) with NaN for missing cells and padding,
        ``labels`` (B, N, C) with NaN for unlabelled rows, ``readable`` (B, N), ``columns`` (B, M)
        and ``classes`` (B, C).
    target : tensor
        Held-out labels of the rows to be predicted: int of shape (B, N), ``IGNORE`` elsewhere; for
        regression of shape (B, N, C), NaN elsewhere.
    """
    B = len(tasks)
    N = max(len(task.y) for task in tasks)
    M = max(task.X.shape[1] for task in tasks)
    C = max(task.n_label_columns for task in tasks)
    precision = np.float64 if dtype == torch.float64 else np.float32
    x = np.full((B, N, M), np.nan, dtype=precision)
    labels = np.full((B, N, C), np.nan, dtype=precision)
    target = np.full((B, N), IGNORE)
    if tasks[0].is_regression:
        target = np.full((B, N, C), np.nan, dtype=precision)
    readable = np.zeros((B, N), dtype=bool)
    columns = np.zeros((B, M), dtype=bool)
    classes = np.zeros((B, C), dtype=bool)
    for b, task in enumerate(tasks):
        n, m = task.X.shape
        x[b, :n, :m] = task.X
        width = task.n_label_columns
        Y = _label_matrix(task)
        labels[b, :n][task.labelled] = 0
        labels[b, :n, :width][task.labelled] = Y[task.labelled]
        readable[b, :n] = task.context
        columns[b, :m] = True
        classes[b, :width] = True
        held_out = ~task.labelled & task.has_label
        if not task.context.all():  # inductive: rows of the context are not predicted
            held_out &= ~task.context
        if task.is_regression:
            target[b, :n, :width][held_out] = Y[held_out]
        else:
            target[b, :n][held_out] = task.y[held_out]
    parts = {"x": x, "labels": labels, "readable": readable, "columns": columns, "classes": classes}
    inputs = {name: torch.from_numpy(array) for name, array in parts.items()}
    return inputs, torch.from_numpy(target)


def _label_matrix(task):
    """Y of Eq. (5) of paper 000, rows by label columns: one-hot classes, or targets."""
    if task.is_regression:
        return task.y.reshape(len(task.y), -1)
    return task.y[:, None] == np.arange(task.n_label_columns)


def context_task(X, y, n_label_columns):
    """Task of an estimator's context: all rows are readable, labelled where ``y`` is known."""
    task = Task(X, y, None, np.ones(len(y), dtype=bool), n_label_columns)
    return task._replace(labelled=task.has_label)


def cells_of(n_rows, n_slices):
    """Cost of a task in a forward pass, in cells, an int; slices are columns and label columns.

    Eight rows count as one more column, since each row may read every other.
    """
    return n_rows * (n_slices + n_rows // 8)


def groups_of_like_size(tasks, max_cells):
    """Indices of tasks in groups of similar size, which need little padding.

    Parameters
    ----------
    tasks : sequence of Task
    max_cells : int
        Bound on the cost (:func:`cells_of`) of a padded group. A single task may exceed it.

    Returns
    -------
    list of lists of int
    """
    sizes = [(len(task.y), task.X.shape[1] + task.n_label_columns) for task in tasks]
    groups, group, rows, slices = [], [], 0, 0
    for i in sorted(range(len(tasks)), key=lambda i: (sizes[i][1], sizes[i][0])):
        n, s = sizes[i]
        fits = (len(group) + 1) * cells_of(max(rows, n), max(slices, s)) <= max_cells
        if group and (not fits or s > 1.25 * sizes[group[0]][1]):
            groups.append(group)
            group, rows, slices = [], 0, 0
        group.append(i)
        rows, slices = max(rows, n), max(slices, s)
    return [*groups, group] if group else groups
