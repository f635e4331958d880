"""What the labelled rows of a task say of each attribute, before a network has read them.

Attention can find it, too: Eq. (2) of paper 000, along attributes, multiplies an attribute with
the labels, row by row. But what of it passes is small beside what rows say of each other, and
networks of regression learned to do without the labels altogether. Not in the paper.

Shape legend as in the backbones: B tasks, N rows, M attributes, C label columns.
"""

from typing import NamedTuple

import torch


class Associations(NamedTuple):
    """What the labelled rows of each task say of its attributes.

    Parameters
    ----------
    strengths : tensor of shape (B, M, 3)
        How much an attribute and its square tell of the labels: the root of ``t``, where ``t`` is
        the absolute correlation times the root of the labelled rows less one, about 1 by chance
        (of several labels, the root of the share of their variance); and the logarithm of the
        number of labelled rows over 4.
    centre : tensor of shape (B, 1, M)
        Mean of each attribute over the labelled rows; NaN where they do not hold it.
    covariance : tensor of shape (B, M, C)
        Of attributes and labels, summed over the labelled rows.
    scale : tensor of shape (B, 1, C)
        Of the first guess, over the readable rows.
    """

    strengths: torch.Tensor
    centre: torch.Tensor
    covariance: torch.Tensor
    scale: torch.Tensor


def associations_of(x, labels, readable):
    """Associations of attributes and labels over the labelled rows.

    Parameters
    ----------
    x : tensor of shape (B, N, M)
        Standardised; NaN marks unobserved cells.
    labels : tensor of shape (B, N, C)
        NaN throughout every row without; zero throughout a label column that is padding.
    readable : bool tensor of shape (B, N)
        Among them all labelled rows.

    Returns
    -------
    Associations
    """
    y, labelled = _centred(labels)
    count = labelled.sum(1)[:, None].clamp(min=1).to(x.dtype)  # (B, 1)
    observed = ~x.isnan() & labelled[..., None]
    centre, covariance, linear = _association(x, observed, y)
    *_, quadratic = _association(x.square(), observed, y)
    t = torch.stack([linear, quadratic], dim=-1) * (count[..., None] - 1).sqrt()
    known = (count.log() / 4).expand_as(linear)[..., None]
    strengths = torch.cat([t.clamp(max=8).sqrt(), known], dim=-1)
    guess = _guess(x, labels, centre, covariance).masked_fill(~readable[..., None], 0)
    rows = readable.sum(1).clamp(min=1)[:, None, None]
    scale = (guess.square().sum(1, keepdim=True) / rows).sqrt()
    return Associations(strengths, centre, covariance, scale.masked_fill(scale < 1e-12, 1.0))


def first_guess(x, labels, associations):
    """A linear guess of each label, (B, N, C), of about unit size.

    Attributes, weighed by their covariance with the labels, as in the first component of partial
    least squares. A labelled row's own label has no part in the weights of its guess: a network
    must be able to believe it as much there as in other rows.
    """
    guess = _guess(x, labels, associations.centre, associations.covariance)
    return (guess / associations.scale).clamp(-4, 4)


def _centred(labels):
    """Labels less their mean, zero in other rows, (B, N, C); and which rows have some, (B, N)."""
    labelled = ~labels.isnan().all(-1)
    count = labelled.sum(1).clamp(min=1)[:, None, None]
    y = labels.nan_to_num(0)
    return (y - y.sum(1, keepdim=True) / count).masked_fill(~labelled[..., None], 0), labelled


def _association(x, observed, y):
    """Mean (B, 1, M), covariance (B, M, C), and root of the share of variance told (B, M)."""
    centre = x.masked_fill(~observed, 0).sum(1, keepdim=True) / observed.sum(1, keepdim=True)
    deviation = (x - centre).masked_fill(~observed, 0)
    covariance = deviation.mT @ y
    most = deviation.square().sum(1) * y.square().sum((1, 2))[:, None]
    share = covariance.square().sum(2) / most.clamp(min=1e-8)
    return centre, covariance, share.clamp(max=1).sqrt()


def _guess(x, labels, centre, covariance):
    deviation = (x - centre).nan_to_num(0)
    own = deviation.square().sum(-1, keepdim=True) * _centred(labels)[0]
    return deviation @ covariance - own
