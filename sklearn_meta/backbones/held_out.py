"""Embeddings of labelled rows that do not use the row's own label.

A head compares labelled rows with others as if all were embedded alike. But a row that reads all
labels also reads its own: the embedding of a labelled row then reveals its label, which that of
another row cannot. A Gaussian process finds such targets easy to explain and infers that there is
no noise. Therefore each labelled row is embedded once more, as a copy that no row reads and that
does not read its original. Not in the paper.

Shape legend as in the backbones: B tasks, N rows, M attributes, C label columns, S = M + C, L
labelled rows.
"""

from typing import NamedTuple

import torch
from torch.nn.functional import pad

from ..labelled import labelled_places


class Copies(NamedTuple):
    """Copies of the labelled rows, which follow all N rows.

    Parameters
    ----------
    places : int tensor of shape (B, L)
        Indices of the rows copied. A task with fewer labelled rows fills up with rows without a
        label, whose copies get the same embedding as the rows.
    hidden : bool tensor of shape (B, N + L, N)
        True where a row may not read another: a copy may not read its original.
    """

    places: torch.Tensor
    hidden: torch.Tensor


def copies_of(labels):
    """Copies for labels (B, N, C), which are NaN throughout rows without a label."""
    n_rows = labels.shape[1]
    places, known = labelled_places(~labels.isnan().all(-1))
    itself = places[..., None] == torch.arange(n_rows, device=places.device)
    return Copies(places, pad(itself & known[..., None], (0, 0, n_rows, 0)))


def add_copies(z, copies, label_channels):
    """Input rows (B, N, S, D) followed by copies, (B, N + L, S, D).

    ``label_channels`` (S, D) marks channels that hold labels, or whether they are known; these are
    zero in copies.
    """
    copied = z.gather(1, _expanded(copies.places, z)).masked_fill(label_channels, 0)
    return torch.cat([z, copied], dim=1)


def take_copies(z, copies):
    """Replace labelled rows by their copies: (B, N + L, S, D) to (B, N, S, D)."""
    n_rows = copies.hidden.shape[2]
    return z[:, :n_rows].scatter(1, _expanded(copies.places, z), z[:, n_rows:])


def _expanded(places, z):
    return places[..., None, None].expand(-1, -1, *z.shape[2:])
