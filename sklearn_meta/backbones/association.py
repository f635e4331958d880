"""Association of each attribute with the labels, computed for a network to read.

Eq. (2) of paper 000, along attributes, multiplies each attribute by the labels, row by row, so
attention could find the informative attributes. But networks for regression did not find them: they
learned to ignore the labels altogether. Therefore they are given these figures. Not in the paper.

Shape legend as in the backbones: B tasks, N rows, M attributes, C label columns.
"""

from typing import NamedTuple

import torch

from ..means import masked_mean

#: Largest square of a strength, and largest size of a guess; both are cut there.
MOST_SQUARE, MOST_GUESS = 16.0, 4.0


class Associations(NamedTuple):
    """Associations of attributes and labels over the labelled rows of each task.

    Parameters
    ----------
    strengths : tensor of shape (B, M, 3)
        How strongly an attribute correlates with the labels, how strongly its square does, and
        ``log(n) / 4`` for ``n`` labelled rows. The first two are square roots of
        ``r * sqrt(n - 1)``, which is about 1 by chance and cut at 16. ``r`` is the absolute
        correlation or, for several label columns, the root of the share of their variance that the
        attribute explains. Missing cells explain nothing.
    count : tensor of shape (B, 1, M)
        Number of labelled rows in which the attribute is observed.
    centre : tensor of shape (B, 1, M)
        Mean of the attribute over these rows; NaN where there is none.
    products : tensor of shape (B, M, C)
        Sum over these rows of the products of attribute and labels, both less their means.
    means : tensor of shape (B, M, C)
        Mean label of these rows, less that of all labelled rows.
    scale : tensor of shape (B, 1, C)
        Root mean square of the linear guess over the readable rows.
    """

    strengths: torch.Tensor
    count: torch.Tensor
    centre: torch.Tensor
    products: torch.Tensor
    means: torch.Tensor
    scale: torch.Tensor


def associations_of(x, labels, readable):
    """Associations of attributes and labels over the labelled rows.

    Parameters
    ----------
    x : tensor of shape (B, N, M)
        Standardised; NaN marks unobserved cells, and all cells of an attribute not to be used.
    labels : tensor of shape (B, N, C)
        NaN throughout rows without a label; zero throughout a label column that is padding.
    readable : bool tensor of shape (B, N)
        Rows that may be read, which include all labelled ones.

    Returns
    -------
    Associations
    """
    y, labelled = _centred(labels)
    n = labelled.sum(1)[:, None].clamp(min=1).to(x.dtype)  # (B, 1)
    observed = (~x.isnan() & labelled[..., None]).to(x.dtype)
    count = observed.sum(1, keepdim=True)
    centre, products, linear = _association(x, observed, count, y)
    *_, quadratic = _association(x.square(), observed, count, y)
    t = torch.stack([linear, quadratic], dim=-1) * (n[..., None] - 1).sqrt()
    known = (n.log() / 4).expand_as(linear)[..., None]
    strengths = torch.cat([t.clamp(max=MOST_SQUARE).sqrt(), known], dim=-1)
    means = observed.mT @ y / count.mT.clamp(min=1)
    found = Associations(strengths, count, centre, products, means, y.new_ones(len(y), 1, 1))
    scale = masked_mean(_guess(x, labels, found).square(), readable, 1, keepdim=True).sqrt()
    return found._replace(scale=scale.masked_fill(scale < 1e-12, 1.0))


def first_guess(x, labels, associations):
    """A linear guess of each label, (B, N, C), cut at four times its size over the readable rows.

    It is the sum of attributes weighted by their covariance with the labels, as in the first
    component of partial least squares. For a labelled row only the other labelled rows are used, so
    that a network can trust the guess there as much as elsewhere.
    """
    guess = _guess(x, labels, associations) / associations.scale
    return guess.clamp(-MOST_GUESS, MOST_GUESS)


def _centred(labels):
    """Labels less their mean, (B, N, C), zero in unlabelled rows; which are labelled, (B, N)."""
    labelled = ~labels.isnan().all(-1)
    y = labels.nan_to_num(0)
    rounding = 4 * torch.finfo(y.dtype).eps * y.abs().amax(1, keepdim=True)
    y = y - masked_mean(y, labelled, 1, keepdim=True)
    return y.masked_fill(~labelled[..., None] | (y.abs() <= rounding), 0), labelled


def _association(x, observed, count, y):
    """Mean (B, 1, M), sums of products (B, M, C), root of the explained share (B, M)."""
    centre = x.masked_fill(observed == 0, 0).sum(1, keepdim=True) / count
    deviation = (x - centre).masked_fill(observed == 0, 0)
    products = deviation.mT @ y
    most = deviation.square().sum(1) * y.square().sum((1, 2))[:, None]
    share = products.square().sum(2) / most.clamp(min=1e-8)
    return centre, products, share.clamp(max=1).sqrt()


def _guess(x, labels, found):
    y, labelled = _centred(labels)
    deviation = (x - found.centre).nan_to_num(0)
    # Leave the row out: the mean is then farther from it, and products lack its contribution.
    without = found.count / (found.count - 1).clamp(min=1)
    deviation = torch.where(labelled[..., None], without * deviation, deviation)
    squares = deviation.square()
    own = squares.sum(-1, keepdim=True) * y - squares @ found.means
    return deviation @ found.products - own.masked_fill(~labelled[..., None], 0)
