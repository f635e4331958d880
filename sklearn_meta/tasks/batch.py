"""Tasks of different size as one padded batch of tensors."""

import numpy as np
import torch

from .dataset import Task

#: Held-out label of rows that do not count in the loss (padding, labelled and context rows).
IGNORE = -100


def collate(tasks, dtype=torch.float32):
    """Pad tasks to a common size.

    Parameters
    ----------
    tasks : sequence of Task
    dtype : torch.dtype, default=torch.float32
        Type of the attributes.

    Returns
    -------
    inputs : dict of tensors
        The arguments of a backbone's call: ``x`` (B, N, M) with NaN for missing cells and
        padding, ``y`` (B, N) with -1 for rows without a label, ``readable`` (B, N),
        ``columns`` (B, M) and ``classes`` (B, C).
    target : int tensor of shape (B, N)
        Held-out labels of the rows to be predicted, ``IGNORE`` elsewhere.
    """
    B = len(tasks)
    N = max(len(task.y) for task in tasks)
    M = max(task.X.shape[1] for task in tasks)
    C = max(task.n_classes for task in tasks)
    x = np.full((B, N, M), np.nan, dtype=np.float64 if dtype == torch.float64 else np.float32)
    y = np.full((B, N), -1)
    target = np.full((B, N), IGNORE)
    readable = np.zeros((B, N), dtype=bool)
    columns = np.zeros((B, M), dtype=bool)
    classes = np.zeros((B, C), dtype=bool)
    for b, task in enumerate(tasks):
        n, m = task.X.shape
        x[b, :n, :m] = task.X
        y[b, :n] = np.where(task.labelled, task.y, -1)
        readable[b, :n] = task.context
        columns[b, :m] = True
        classes[b, : task.n_classes] = True
        held_out = ~task.labelled & (task.y >= 0)
        if not task.context.all():  # inductive: the context's own rows are not asked for
            held_out &= ~task.context
        target[b, :n][held_out] = task.y[held_out]
    inputs = {"x": x, "y": y, "readable": readable, "columns": columns, "classes": classes}
    inputs = {name: torch.from_numpy(array) for name, array in inputs.items()}
    inputs["x"] = inputs["x"].to(dtype)
    return inputs, torch.from_numpy(target)


def context_task(X, y, n_classes):
    """The task of an estimator's context: every row readable, labels where ``y >= 0``."""
    return Task(X, y, y >= 0, np.ones(len(y), dtype=bool), n_classes)


def groups_of_like_size(tasks, max_cells):
    """Positions of tasks in groups that pad little.

    Parameters
    ----------
    tasks : sequence of Task
    max_cells : int
        Bound on tasks x rows x (columns + classes) of a padded group.

    Returns
    -------
    list of lists of int
    """
    sizes = [(len(task.y), task.X.shape[1] + task.n_classes) for task in tasks]
    groups, group, rows, slices = [], [], 0, 0
    for i in sorted(range(len(tasks)), key=lambda i: (sizes[i][1], sizes[i][0])):
        n, s = sizes[i]
        fits = (len(group) + 1) * max(rows, n) * max(slices, s) <= max_cells
        if group and (not fits or s > 1.25 * sizes[group[0]][1]):
            groups.append(group)
            group, rows, slices = [], 0, 0
        group.append(i)
        rows, slices = max(rows, n), max(slices, s)
    return [*groups, group] if group else groups
