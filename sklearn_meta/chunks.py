"""Tables of many rows, read a part of them at a time: attention is quadratic in rows."""

from itertools import islice

import numpy as np
import torch
from scipy.stats import rankdata

from .tasks.batch import cells_of
from .tasks.dataset import Task


def are_without_label(labels):
    """Which rows have none, a bool array, by labels (n_rows, ...) as a Task holds them."""
    missing = np.isnan(labels) if labels.dtype.kind == "f" else labels < 0
    return missing.all(axis=tuple(range(1, missing.ndim)))


def rows_read(labels, most, rows):
    """Which rows of a context are read: of those without a label so many at most.

    Attention is quadratic in them. They are the same for every call, since each answer is of a
    context, and drawn from the rows in an order of their cells: it is no matter how they come.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, ...)
        As a Task holds them.
    most : int
    rows : ndarray of shape (n_rows, n_columns)
        NaN where nothing is observed.

    Returns
    -------
    int array
        Places, in their order.
    """
    unlabelled = np.flatnonzero(are_without_label(labels))
    if len(unlabelled) <= most:
        return np.arange(len(labels))
    order = unlabelled[np.lexsort(_kinds(rows[unlabelled]))]
    shuffled = np.random.default_rng(0).permutation(order)
    return np.setdiff1d(np.arange(len(labels)), shuffled[most:])


def chunks_of(rows, chunk_size):
    """Rows that are read together: each chunk has some of many kinds, whatever their order.

    Rows are sorted by the sum of the ranks of their cells, each among those of its column, and
    dealt out like cards. So it is the rows that decide who reads whom, and no matter how they come;
    nor how their columns do, but for rows of the same sums.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        NaN where nothing is observed.
    chunk_size : int
        Rows of a chunk at most: all have as many, or one less.

    Returns
    -------
    list of int arrays
        One at least: places of the rows of each chunk, in their order.
    """
    n_chunks = max(-(-len(rows) // int(chunk_size)), 1)  # numpy's small integers would overflow
    if n_chunks == 1:
        return [np.arange(len(rows))]
    order = np.lexsort(_kinds(rows))
    return [np.sort(order[start::n_chunks]) for start in range(n_chunks)]


def _kinds(rows):
    """By what to sort rows: the last two are exact whatever the order of the columns."""
    ranks = np.zeros(rows.shape)
    for column, of_column in zip(rows.T, ranks.T):
        observed = ~np.isnan(column)
        seen = rankdata(column[observed])
        of_column[observed] = 2 * seen - (len(seen) + 1)  # whole numbers, and gaps in the middle
    return *rows.T, (ranks**2).sum(1), ranks.sum(1)


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
    places = chunks_of(task.X[n_context:], chunk_size)

    def chunk(some):
        rows = np.r_[:n_context, n_context + some]
        parts = (part[rows] for part in (task.X, task.y, task.labelled, task.context))
        return Task(*parts, task.n_label_columns)

    return map(chunk, places), places


def batches_of(chunks, max_cells):
    """Chunks of a task in lists that one forward pass reads.

    Parameters
    ----------
    chunks : iterator of Task
        Of :func:`in_chunks`: the first is as large as any.
    max_cells : int
        Bound on :func:`~sklearn_meta.tasks.batch.cells_of` the chunks of a list of several.

    Yields
    ------
    list of Task
    """
    for first in chunks:
        cells = cells_of(len(first.y), first.X.shape[1] + first.n_label_columns)
        yield [first, *islice(chunks, max(int(max_cells // max(cells, 1)) - 1, 0))]


def read_first(rows, places):
    """Which rows each chunk answers for: all that are the same have the answer of the first.

    Of a distribution there is no mean, as of what :func:`same_of_equals` is for, and of which row
    a chunk reads of those that are the same nothing depends.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        NaN where nothing is observed.
    places : sequence of int arrays
        Of the rows that each chunk reads.

    Returns
    -------
    list of pairs of int arrays (places, among)
        Places of the rows that are answered for, and where the chunk reads such a row.
    """
    order, starts = np.concatenate(places), np.cumsum([0, *map(len, places[:-1])])
    first, kinds, _ = _distinct(rows[order])
    read = first[kinds]
    chunk = np.searchsorted(starts, read, side="right") - 1
    of_each = [np.flatnonzero(chunk == i) for i in range(len(places))]
    return [(order[of], read[of] - start) for of, start in zip(of_each, starts, strict=True)]


def _distinct(rows):
    """Places of the first of each kind of rows, the kind of each row, and how many there are."""
    observed = ~np.isnan(rows)  # NaN is like no other
    cells = rows if observed.all() else np.hstack([np.where(observed, rows, 0), observed])
    told = {"return_index": True, "return_inverse": True, "return_counts": True}
    _, first, kinds, counts = np.unique(cells, axis=0, **told)
    return first, kinds.reshape(-1), counts  # numpy 2.0.0 has kinds in a column


def same_of_equals(found, rows):
    """What was found of rows, where those that are the same have the mean of theirs.

    They may have been in different chunks, and their order should not matter.

    Parameters
    ----------
    found : tensor of shape (n_rows, ...)
    rows : ndarray of shape (n_rows, n_columns)

    Returns
    -------
    tensor of shape (n_rows, ...)
    """
    _, kinds, counts = _distinct(rows)
    if counts.max(initial=0) < 2:
        return found
    kinds = torch.from_numpy(kinds).to(found.device)
    shape = len(counts), *found.shape[1:]
    sums = torch.zeros(shape, dtype=found.dtype, device=found.device).index_add_(0, kinds, found)
    counts = torch.from_numpy(counts).to(sums).view(-1, *[1] * (found.ndim - 1))
    return (sums / counts)[kinds]


def asked_once(*parts):
    """Rows of tensors, each once however often it is there, and which of these each row is.

    What is computed of rows that are the same may differ by rounding from place to place.

    Parameters
    ----------
    *parts : finite tensors of as many rows each
        A row is what all of them have at one place.

    Returns
    -------
    distinct : list of tensors
        As ``parts``, of fewer rows.
    which : int tensor of shape (n_rows,)
    """
    flat = [part.flatten(1).double() for part in parts]
    distinct, which = torch.cat(flat, 1).unique(dim=0, return_inverse=True)
    pieces = distinct.split([piece.shape[1] for piece in flat], 1)
    return [
        piece.to(part.dtype).view(-1, *part.shape[1:])
        for piece, part in zip(pieces, parts, strict=True)
    ], which


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
