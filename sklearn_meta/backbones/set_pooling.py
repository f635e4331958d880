"""Baselines of the Set Transformer in paper 001: encoders and poolings without its attention.

Shape legend as in :mod:`sklearn_meta.backbones.set_transformer`: B sets, N elements, W width. A
``mask`` (B, N) is True at elements and False at padding; None means no padding.
"""

import torch
from torch import nn

from ..means import masked_mean

# Encoder layers. Each begins with the activation of the layer before it, so a stack of them after
# a linear embedding is the FC(ReLU), ..., FC(ReLU), FC(-) of the paper's architecture tables.


class RowWise(nn.Module):
    """A row-wise layer (rFF): every element by itself.

    Parameters
    ----------
    width : int
    """

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, mask=None):
        """(B, N, W) to the same shape; ``mask`` is not used."""
        return self.linear(x.relu())


class PoolAndRow(nn.Module):
    """A permutation equivariant layer (rFFp): every element, plus a pooling of all.

    Eq. (4) of Zaheer et al. for several channels: ``x L + pool(x) G + b``.

    Parameters
    ----------
    width : int
    pool : callable
        One of the functions of this module: (B, N, W) and a mask to (B, W).

    References
    ----------
    M. Zaheer et al. Deep sets. NeurIPS 2017; rFFp-mean and rFFp-max of paper 001.
    """

    def __init__(self, width, pool):
        super().__init__()
        self.pool = pool
        self.row = nn.Linear(width, width)
        self.pooled = nn.Linear(width, width, bias=False)

    def forward(self, x, mask=None):
        """(B, N, W) to the same shape."""
        x = x.relu()
        return self.row(x) + self.pooled(self.pool(x, mask))[:, None]


# Poolings: z (B, N, W) to (B, W), zeros for an empty set


def mean_pool(z, mask=None):
    """Mean over the elements."""
    return z.mean(1) if mask is None else masked_mean(z, mask, 1)


def sum_pool(z, mask=None):
    """Sum over the elements."""
    return z.sum(1) if mask is None else (z * mask[..., None]).sum(1)


def max_pool(z, mask=None):
    """Maximum over the elements, of each dimension by itself."""
    if mask is None:
        return z.amax(1)
    z = z.masked_fill(~mask[..., None], -torch.inf).amax(1)
    return z.masked_fill(~mask.any(1, keepdim=True), 0.0)


class DotProductPool(nn.Module):
    """Mean weighted by a softmax of dot products with a learned vector.

    It is Eq. (2) of paper 001 with one learned query, Z as keys and values, and no projections.

    Parameters
    ----------
    width : int

    References
    ----------
    B. Yang et al. Attentional aggregation of deep feature sets for multi-view 3D reconstruction.
    2018. M. Ilse, J. Tomczak, M. Welling. Attention-based deep multiple instance learning. ICML
    2018. Both as "Dotprod" of paper 001.
    """

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, z, mask=None):
        """(B, N, W) to (B, W)."""
        scores = self.score(z) / z.shape[2] ** 0.5  # (B, N, 1)
        if mask is None:
            return (scores.softmax(1) * z).sum(1)
        # The lowest number, not -inf: for an empty set, a softmax over -inf is NaN.
        scores = scores.masked_fill(~mask[..., None], torch.finfo(scores.dtype).min)
        return sum_pool(scores.softmax(1) * z, mask)
