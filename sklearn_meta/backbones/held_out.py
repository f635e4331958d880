"""Labelled rows embedded as if their own label were not known.

A head compares labelled rows with others, as if they were embedded alike. But a row that reads all
labels reads its own: the embedding of a labelled row then tells the label, which no other's can. A
Gaussian process finds such targets easy to explain, and believes that there is no noise. Hence
each labelled row is embedded once more, by a copy that nobody reads and that does not read the row
it is of. Not in the paper.

Shape legend as in the backbones: B tasks, N rows, M attributes, C label columns, S = M + C, L
labelled rows.
"""

from typing import NamedTuple

import torch
from torch.nn.functional import pad

from ..labelled import labelled_places


class Copies(NamedTuple):
    """Copies of the labelled rows, which stand behind all N rows.

    Parameters
    ----------
    places : int tensor of shape (B, L)
        Of the rows that they are copies of. Where a task has fewer labelled rows, they are some
        without a label, whose copies are embedded as they are themselves.
    hidden : bool tensor of shape (B, N + L, N)
        Whether a row may not read another: a copy, the row that it is of.
    """

    places: torch.Tensor
    hidden: torch.Tensor


def copies_of(labels):
    """Where copies belong, by labels (B, N, C) that are NaN throughout every other row."""
    n_rows = labels.shape[1]
    places, known = labelled_places(~labels.isnan().all(-1))
    itself = places[..., None] == torch.arange(n_rows, device=places.device)
    return Copies(places, pad(itself & known[..., None], (0, 0, n_rows, 0)))


def add_copies(z, copies, label_channels):
    """Rows (B, N, S, D) of the input and behind them the copies, (B, N + L, S, D).

    ``label_channels`` (S, D) are those that hold labels, or that they are known: zero in copies.
    """
    copied = z.gather(1, _expanded(copies.places, z)).masked_fill(label_channels, 0)
    return torch.cat([z, copied], dim=1)


def take_copies(z, copies):
    """Embeddings (B, N + L, S, D) of rows and copies to (B, N, S, D), copies for labelled rows."""
    n_rows = copies.hidden.shape[2]
    return z[:, :n_rows].scatter(1, _expanded(copies.places, z), z[:, n_rows:])


def _expanded(places, z):
    return places[..., None, None].expand(-1, -1, *z.shape[2:])
