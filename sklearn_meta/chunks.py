"""Tables of many rows, read a part of them at a time: attention is quadratic in rows."""

import numpy as np
import torch

from .tasks.dataset import Task


def chunks_of(n_rows, chunk_size):
    """Rows that are read together, drawn at random, the same for each call.

    Of a table that is sorted by class or by day a chunk would else have rows of one alone.

    Parameters
    ----------
    n_rows : int
    chunk_size : int
        Rows of a chunk at most: all have as many, or one less.

    Returns
    -------
    list of int arrays
        One at least: places of the rows of each chunk, in their order.
    """
    n_chunks = max(-(-n_rows // int(chunk_size)), 1)  # numpy's small integers would overflow
    drawn = np.random.default_rng(0).permutation(n_rows)
    return [np.sort(some) for some in np.array_split(drawn, n_chunks)]


def in_chunks(task, n_context, chunk_size):
    """A task as several, each of the context and a chunk of the other rows.

    Parameters
    ----------
    task : Task
        Its first ``n_context`` rows are the context.
    n_context, chunk_size : int

    Returns
    -------
    chunks : iterator of Task
        Each is made when it is asked for: all of them hold the context as many times.
    places : list of int arrays
        Those of their rows behind the context, of :func:`chunks_of`.
    """
    places = chunks_of(len(task.y) - n_context, chunk_size)

    def chunk(some):
        rows = np.r_[:n_context, n_context + some]
        parts = (part[rows] for part in (task.X, task.y, task.labelled, task.context))
        return Task(*parts, task.n_label_columns)

    return map(chunk, places), places


def in_order(parts, places, dim=0):
    """What was found of the rows of each chunk, in the order in which they came.

    Parameters
    ----------
    parts : sequence of tensors
        Of each chunk, with its rows along ``dim``.
    places : sequence of int arrays
        Of the rows of each chunk.
    dim : int, default=0

    Returns
    -------
    tensor
    """
    order = torch.from_numpy(np.concatenate(places).argsort())
    return torch.cat(parts, dim).index_select(dim, order.to(parts[0].device))
