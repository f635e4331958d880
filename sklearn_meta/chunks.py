"""Reading of many rows in chunks: attention is quadratic in the number of rows."""

from itertools import islice

import numpy as np
import torch
from scipy.stats import rankdata

from .tasks.batch import cells_of
from .tasks.dataset import Task


def are_without_label(labels):
    """Mask of the rows without a label, from labels (n_rows, ...) as a Task holds them."""
    missing = np.isnan(labels) if labels.dtype.kind == "f" else labels < 0
    return missing.all(axis=tuple(range(1, missing.ndim)))


def rows_read(labels, most, rows):
    """Select the rows of a context that are read: all labelled and at most ``most`` unlabelled.

    Attention is quadratic in the number of rows. The unlabelled rows are drawn at random, the same
    ones in every call, since predictions belong to one context. They are sorted by their cells
    before the draw, so it does not depend on their order.

    Parameters
    ----------
    labels : ndarray of shape (n_rows, ...)
        As a Task holds them.
    most : int
    rows : ndarray of shape (n_rows, n_columns)
        NaN where a cell is not observed.

    Returns
    -------
    int array
        Positions, in ascending order.
    """
    unlabelled = np.flatnonzero(are_without_label(labels))
    if len(unlabelled) <= most:
        return np.arange(len(labels))
    order = unlabelled[np.lexsort(_kinds(rows[unlabelled]))]
    shuffled = np.random.default_rng(0).permutation(order)
    return np.setdiff1d(np.arange(len(labels)), shuffled[most:])


def chunks_of(rows, chunk_size):
    """Divide rows into chunks that are read together, each with rows of many kinds.

    Rows are sorted by the sum of the ranks of their cells within their columns, and dealt out like
    cards. So the chunks do not depend on the order of the rows, nor on the order of the columns,
    except for rows with equal sums.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        NaN where a cell is not observed.
    chunk_size : int
        Maximum number of rows per chunk; the sizes of chunks differ by one at most.

    Returns
    -------
    list of int arrays
        Positions of the rows of each chunk, in ascending order; at least one array.
    """
    n_chunks = max(-(-len(rows) // int(chunk_size)), 1)  # numpy's small integers would overflow
    if n_chunks == 1:
        return [np.arange(len(rows))]
    order = np.lexsort(_kinds(rows))
    return [np.sort(order[start::n_chunks]) for start in range(n_chunks)]


def _kinds(rows):
    """Keys to sort rows by, the last first; the last two do not depend on the columns' order."""
    ranks = np.zeros(rows.shape)
    for column, of_column in zip(rows.T, ranks.T):
        observed = ~np.isnan(column)
        seen = rankdata(column[observed])
        # Whole numbers, so that sums are exact; unobserved cells rank in the middle.
        of_column[observed] = 2 * seen - (len(seen) + 1)
    return *rows.T, (ranks**2).sum(1), ranks.sum(1)


def in_chunks(task, n_context, chunk_size):
    """Divide a task into several, each with the context and a chunk of the other rows.

    Parameters
    ----------
    task : Task
        Its first ``n_context`` rows are the context.
    n_context, chunk_size : int

    Returns
    -------
    chunks : iterator of Task
        Each is made on demand: all of them together would hold as many copies of the context.
    places : list of int arrays
        Positions of each chunk's rows among the rows after the context, from :func:`chunks_of`.
    """
    places = chunks_of(task.X[n_context:], chunk_size)

    def chunk(some):
        rows = np.r_[:n_context, n_context + some]
        parts = (part[rows] for part in (task.X, task.y, task.labelled, task.context))
        return Task(*parts, task.n_label_columns)

    return map(chunk, places), places


def batches_of(chunks, max_cells):
    """Group the chunks of a task into lists, each for one forward pass.

    Parameters
    ----------
    chunks : iterator of Task
        From :func:`in_chunks`, whose first chunk is no smaller than the others.
    max_cells : int
        Bound on the cells of a list, by :func:`~sklearn_meta.tasks.batch.cells_of`; a list has at
        least one chunk.

    Yields
    ------
    list of Task
    """
    for first in chunks:
        cells = cells_of(len(first.y), first.X.shape[1] + first.n_label_columns)
        yield [first, *islice(chunks, max(int(max_cells // max(cells, 1)) - 1, 0))]


def read_first(rows, places):
    """Assign equal rows to one chunk, so that all of them get the same answer.

    :func:`same_of_equals` averages the answers of equal rows, but distributions have no mean. It
    does not matter which of several equal rows a chunk reads.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        NaN where a cell is not observed.
    places : sequence of int arrays
        Positions of the rows that each chunk reads.

    Returns
    -------
    list of pairs of int arrays (places, among)
        For each chunk, the positions of the rows that it answers for, and the positions within the
        chunk of the rows that they are equal to.
    """
    order, starts = np.concatenate(places), np.cumsum([0, *map(len, places[:-1])])
    first, kinds, _ = _distinct(rows[order])
    read = first[kinds]
    chunk = np.searchsorted(starts, read, side="right") - 1
    of_each = [np.flatnonzero(chunk == i) for i in range(len(places))]
    return [(order[of], read[of] - start) for of, start in zip(of_each, starts, strict=True)]


def _distinct(rows):
    """Position of the first row of each distinct kind, the kind of each row, and their counts."""
    observed = ~np.isnan(rows)  # NaN is not equal to itself
    cells = rows if observed.all() else np.hstack([np.where(observed, rows, 0), observed])
    told = {"return_index": True, "return_inverse": True, "return_counts": True}
    _, first, kinds, counts = np.unique(cells, axis=0, **told)
    return first, kinds.reshape(-1), counts  # numpy 2.0.0 returns kinds as a column


def same_of_equals(found, rows):
    """Replace the results of equal rows by their mean.

    Equal rows may have been in different chunks, and their order should not matter.

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
    """Find the distinct rows of tensors, and which of them each row is.

    Results computed separately for equal rows may differ by rounding.

    Parameters
    ----------
    *parts : finite tensors with equally many rows
        A row consists of what all of them have at one position.

    Returns
    -------
    distinct : list of tensors
        Like ``parts``, but each distinct row once.
    which : int tensor of shape (n_rows,)
        Position of each row among the distinct ones.
    """
    flat = [part.flatten(1).double() for part in parts]
    distinct, which = torch.cat(flat, 1).unique(dim=0, return_inverse=True)
    pieces = distinct.split([piece.shape[1] for piece in flat], 1)
    return [
        piece.to(part.dtype).view(-1, *part.shape[1:])
        for piece, part in zip(pieces, parts, strict=True)
    ], which


def in_order(parts, places, dim=0):
    """Put the results of all chunks together, in the original order of the rows.

    Parameters
    ----------
    parts : sequence of tensors
        Results of each chunk, with its rows along ``dim``.
    places : sequence of int arrays
        Positions of the rows of each chunk.
    dim : int, default=0

    Returns
    -------
    tensor
    """
    order = torch.from_numpy(np.concatenate(places).argsort())
    return torch.cat(parts, dim).index_select(dim, order.to(parts[0].device))
