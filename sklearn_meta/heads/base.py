"""Base classes of heads, with loss and score, and functions that heads share.

Shape legend of all heads: B tasks, N rows, M attributes, C label columns (classes or targets),
H embedding width of an attribute, L labelled rows.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from ..labelled import labelled_places
from ..means import masked_mean


class Head(nn.Module):
    """Base class: ``adapt`` reads the context, a call predicts rows."""

    #: Factor of the learning rate for the head's own parameters, if they start at random.
    rate_factor = 1.0

    def adapt(self, z, labels, classes, readable):
        """State of a context, which predictions need.

        Parameters
        ----------
        z : tensor of shape (B, N, M, H)
            Embeddings.
        labels : tensor of shape (B, N, C)
            One-hot classes or standardised targets; NaN throughout rows without a label.
        classes : bool tensor of shape (B, C)
            Label columns that are not padding.
        readable : bool tensor of shape (B, N)
            Rows of the context, labelled or not; never padding.

        Returns
        -------
        state : tuple of tensors
        """
        raise NotImplementedError

    def joint(self, z, labels, classes, readable):
        """Predictions for the rows of the context itself."""
        return self(z, self.adapt(z, labels, classes, readable))


class ClassificationHead(Head):
    """A head whose outputs are logits (B, N, C), -inf for classes without a labelled row."""

    task = "classification"
    score_name = "accuracy"

    @staticmethod
    def loss(logits, target):
        """Cross-entropy, Eq. (10) of paper 000: mean over the rows to predict, then over tasks.

        Parameters
        ----------
        logits : tensor of shape (B, N, C)
        target : int tensor of shape (B, N)
            -100 for rows not to predict.
        """
        loss = F.cross_entropy(logits.float().transpose(1, 2), target, reduction="none")
        return (loss.sum(1) / (target >= 0).sum(1).clamp(min=1)).mean()

    @staticmethod
    def score(logits, target):
        """Accuracy of each task, (B,)."""
        asked = target >= 0
        hit = (logits.argmax(-1) == target) & asked
        return hit.sum(1) / asked.sum(1).clamp(min=1)


class RegressionHead(Head):
    """A head whose outputs are mean and variance of each target, stacked: (B, N, C, 2)."""

    task = "regression"
    score_name = "mse"

    @staticmethod
    def loss(output, target):
        """Mean negative log density over the rows to predict, then over tasks.

        The density is normal with the predicted mean and variance, as in Eq. (11), even if these
        are the moments of a mixture.

        Parameters
        ----------
        output : tensor of shape (B, N, C, 2)
        target : tensor of shape (B, N, C)
            NaN for rows not to predict.
        """
        mean, variance = output.unbind(-1)
        asked = ~target.isnan()
        error = (target.nan_to_num() - mean).square()
        loss = 0.5 * (error / variance + variance.log() + math.log(2 * math.pi))
        count = asked.sum((1, 2)).clamp(min=1)
        return (loss.masked_fill(~asked, 0).sum((1, 2)) / count).mean()

    @staticmethod
    def score(output, target):
        """Mean squared error of each task, (B,)."""
        asked = ~target.isnan()
        error = (target - output[..., 0]).square().masked_fill(~asked, 0)
        return error.sum((1, 2)) / asked.sum((1, 2)).clamp(min=1)


class Labelled(NamedTuple):
    """The labelled rows of each task, gathered and padded.

    Parameters
    ----------
    z : tensor of shape (B, L, M * H)
    labels : tensor of shape (B, L, C)
        Zero in padded rows and label columns.
    known : bool tensor of shape (B, L)
        Rows that are not padding.
    """

    z: torch.Tensor
    labels: torch.Tensor
    known: torch.Tensor


def labelled_rows(z, labels, classes):
    """Gather the labelled rows, since the algebra of closed-form heads is cubic in their number."""
    order, known = labelled_places(~labels.isnan().all(-1))
    z = z.flatten(2)
    z = z.gather(1, order[..., None].expand(-1, -1, z.shape[2]))
    labels = labels.gather(1, order[..., None].expand(-1, -1, labels.shape[2]))
    return Labelled(
        z.masked_fill(~known[..., None], 0),
        labels.nan_to_num(0).masked_fill(~(known[..., None] & classes[:, None]), 0),
        known,
    )


def known_classes(labels, classes):
    """Classes with at least one labelled row, (B, C)."""
    return (labels == 1).any(1) & classes


def squared_distances(a, b, known):
    """Squared distances between rows, (B, I, D) and (B, J, D) to (B, I, J).

    Both are centred at the mean of ``b`` first, since a large common offset would drown the
    differences. Padding of ``b`` is zero wherever the other rows lie, so the mean leaves it out:
    ``known`` (B, J) is False there, and None means no padding.
    """
    origin = b.mean(1, keepdim=True) if known is None else masked_mean(b, known, 1, keepdim=True)
    a, b = a - origin, b - origin
    squares = a.square().sum(-1)[..., None] + b.square().sum(-1)[:, None]
    return (squares - 2 * a @ b.transpose(1, 2)).clamp(min=0)


def factorise(matrices):
    """Lower Cholesky factors; a matrix that rounding made indefinite gets a small ridge.

    Six ridges are tried in turn. The first is ten times the rounding error, each other ten times
    the one before: distances between embeddings far apart have larger rounding errors than a ridge
    that suits other matrices.

    Parameters
    ----------
    matrices : tensor of shape (..., L, L)

    Returns
    -------
    tensor of shape (..., L, L)

    Raises
    ------
    ValueError
        If a matrix is still indefinite, or has NaN.
    """
    factor, failed = torch.linalg.cholesky_ex(matrices)
    if not failed.any():
        return factor
    diagonal = matrices.diagonal(dim1=-2, dim2=-1)
    rounding = torch.finfo(factor.dtype).eps * factor.shape[-1]
    ridge = torch.zeros_like(failed, dtype=factor.dtype)
    for power in range(1, 7):
        ridge = torch.where(failed > 0, 10.0**power * rounding, ridge)
        factor, failed = torch.linalg.cholesky_ex(
            matrices + torch.diag_embed(ridge[..., None] * diagonal)
        )
        if not failed.any():
            return factor
    raise ValueError(
        "A covariance matrix is not positive definite: its inputs are too large or not finite. "
        "In meta-training, lower the learning rate."
    )
