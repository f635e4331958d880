"""A mixture from responsibilities, regularised as a network advises."""

import math
from typing import NamedTuple

import torch
from torch import nn

from .gaussian_mixture import Mixture, farthest_points, log_joint, log_likelihood

#: Minimum variance of a component, in standardised units.
FLOOR = 1e-6

#: Steps of k-means from the seeds. Real points need them: the farthest of them are atypical.
N_LLOYD = 5

#: Points whose pairs are compared to find near ones, and iterations of that.
N_WITNESSES, N_LOOKS = 40, 5


class Moments(NamedTuple):
    """Moments of the points of each component.

    Parameters
    ----------
    counts : tensor of shape (B, K)
        Sums of responsibilities.
    means : tensor of shape (B, K, D)
    scatters : tensor of shape (B, K, D) or (B, K, D, D)
        Sums of squares, or of products, of deviations from the means.
    pooled : tensor of shape (B, D) or (B, D, D)
        Covariance within components, pooled over all of them.
    fourth : tensor of shape (B, K, D)
        Means of the fourth power of standardised deviations.
    confidence : tensor of shape (B, K)
        Mean responsibility of a component for its own points.
    """

    counts: torch.Tensor
    means: torch.Tensor
    scatters: torch.Tensor
    pooled: torch.Tensor
    fourth: torch.Tensor
    confidence: torch.Tensor


class Division(NamedTuple):
    """Adjustments to the responsibilities of a mixture.

    Parameters
    ----------
    bias : tensor of shape (B, K)
        Added to the logarithm of each component.
    sharpness : tensor of shape (B,)
        Factor of these logarithms.
    """

    bias: torch.Tensor
    sharpness: torch.Tensor


class LearnedMoments(nn.Module):
    """Mixture from responsibilities: the M-step of EM, with a penalty that the network advises.

    A component's covariance is a compromise between its own scatter and that of all components
    together. Its weight and mean are pulled towards those common to all components. It may be wider
    than its points are, since a mean of few points is uncertain, or cover whatever no component
    explains. ``N_ADVICE`` numbers per component set the amount of each; zeros stand for a modest
    penalty.

    References
    ----------
    The M-step of Eq. (14) of paper 001; C. Fraley, A. Raftery. Bayesian regularization for normal
    mixture estimation and model-based clustering. 2007, for penalties of this kind.
    """

    N_ADVICE = 8
    N_FEATURES = 16
    score_name = "nll"
    config = {}

    @staticmethod
    def start(x, mask, columns, n_components, spherical, first):
        """Initial responsibilities: those of a few steps of k-means from points far apart.

        ``first`` is the rank of the first point by distance from the mean: 0 is the nearest and 1
        the farthest. One half, a typical point, is better than either.

        Distances are in units of each column's width within components. In units of its standard
        deviation, a column in which components overlap would count as much as one that separates
        them.

        Returns
        -------
        responsibilities : tensor of shape (B, N, K)
        present : bool tensor of shape (B, K)
            Components that are not padding.
        """
        if not spherical:
            x = x * near_pairs_width(x, mask, columns, n_components).rsqrt()[:, None]
        # Distances from zero, since the mean is zero.
        rank = (first * (mask.sum(1, keepdim=True) - 1).float()).round().long()
        first = from_middle_to_rim(x, mask).gather(1, rank)[:, 0]
        seeds = farthest_points(x, mask, n_components, columns, first)  # (B, K)
        present = torch.arange(seeds.shape[1], device=x.device) < n_components[:, None]
        centres = x.gather(1, seeds[..., None].expand(-1, -1, x.shape[2]))
        for _ in range(N_LLOYD):
            r = nearest_centre(x, mask, centres, present)
            counts = r.sum(1)[..., None]
            # A centre without points (a duplicate) stays where it is.
            centres = torch.where(counts > 0, r.mT @ x / counts.clamp(min=1), centres)
        return nearest_centre(x, mask, centres, present), present

    @staticmethod
    def moments(x, responsibilities, full):
        """Moments of the points; ``full`` says whether columns have covariances.

        Parameters
        ----------
        x : tensor of shape (B, N, D)
            Zero at padding.
        responsibilities : tensor of shape (B, N, K)
            Zero at padding.
        full : bool

        Returns
        -------
        Moments
        """
        r = responsibilities.transpose(1, 2)  # (B, K, N)
        counts = r.sum(-1)
        means = (r @ x) / (counts[..., None] + FLOOR)
        deviations = x.transpose(1, 2)[:, None] - means[..., None]  # (B, K, D, N)
        squares = deviations.square()
        total = counts.sum(1).clamp(min=1)
        weighted = squares * r[:, :, None]  # sums of products: faster here than thin matrices
        diagonal = weighted.sum(-1)
        if full:
            scatters = (deviations * r[:, :, None]) @ deviations.transpose(-1, -2)
            pooled = scatters.sum(1) / total[:, None, None]
        else:
            scatters = diagonal
            pooled = diagonal.sum(1) / total[:, None]
        variance = (diagonal.sum(1) / total[:, None])[:, None].clamp(min=FLOOR)
        # One pseudo-observation of the pooled variance: a single point's own would be zero.
        variance = (diagonal + variance) / (counts[..., None] + 1)
        fourth = (weighted * squares).sum(-1)
        fourth = fourth / variance.square() / (counts[..., None] + 1)
        confidence = r.square().sum(-1) / (counts + FLOOR)
        return Moments(counts, means, scatters, pooled, fourth, confidence)

    @staticmethod
    def features(moments, present, columns, full):
        """Features of each component, which the network reads: (B, K, N_FEATURES).

        They depend neither on the order of points, columns or components nor on units.
        """
        counts, means, scatters, pooled, fourth, confidence = moments
        if full:
            scatters = scatters.diagonal(dim1=-2, dim2=-1)
            scale = pooled.diagonal(dim1=-2, dim2=-1).clamp(min=FLOOR)
            correlations = pooled / (scale[:, :, None] * scale[:, None]).sqrt()
            coupling = (correlations.square().sum((1, 2)) - columns.sum(1)).clamp(min=0)
            coupling = (coupling / columns.sum(1)).log1p()[:, None].expand_as(counts)
        else:
            scale = pooled.clamp(min=FLOOR)
            coupling = torch.zeros_like(counts)
        real = columns[:, None].expand_as(means)
        n_columns = columns.sum(1)[:, None].to(counts.dtype)

        def average(values):
            return values.masked_fill(~real, 0).sum(-1) / n_columns

        variance = (scatters + scale[:, None]) / (counts[..., None] + 1)
        width = (variance / scale[:, None]).log()
        mean_width = average(width)
        spread = (average((width - mean_width[..., None]).square()) + FLOOR).sqrt()
        gaps = average_gaps(means, scale, columns)
        others = present[:, None] & ~torch.eye(len(present[0]), dtype=bool, device=counts.device)
        nearest = gaps.masked_fill(~others, 1e4).amin(-1)
        n_points = counts.sum(1, keepdim=True)
        values = [
            (counts + 0.1).log(),
            (counts / n_points.clamp(min=1) + 1e-3).log(),
            mean_width,
            spread,
            average(scale[:, None].expand_as(means).log()),
            confidence,
            average(fourth).log1p(),
            fourth.masked_fill(~real, math.inf).amin(-1).log1p(),
            fourth.masked_fill(~real, 0).amax(-1).log1p(),
            nearest.log1p(),
            average(means.square()).log1p(),
            n_columns.log().expand_as(counts),
            present.sum(1, keepdim=True).to(counts.dtype).log().expand_as(counts),
            n_points.clamp(min=1).log().expand_as(counts),
            coupling,
            torch.full_like(counts, float(full)),
        ]
        return torch.stack(values, -1).masked_fill(~present[..., None], 0)

    @staticmethod
    def mixture(moments, advice, present, columns, covariance_type):
        """Mixture from moments and advice, and how to divide the points next.

        Parameters
        ----------
        moments : Moments
        advice : tensor of shape (B, K, N_ADVICE)
        present, columns : bool tensors of shape (B, K) and (B, D)
        covariance_type : {"full", "diag", "spherical"}

        Returns
        -------
        Mixture, and Division for :meth:`responsibilities`
        """
        counts, means, scatters, pooled, *_ = moments
        advice = 8 * torch.tanh(advice / 8)
        shrinkage, widen, ground, pull, share, mix, bias, sharpen = advice.unbind(-1)
        shrinkage, pull, share = 4 * shrinkage.exp(), 0.02 * pull.exp(), 0.5 * share.exp()
        means = means * (counts / (counts + pull))[..., None]
        denominator = (counts + shrinkage)[..., None]
        if covariance_type == "full":
            diagonal = torch.diag_embed(pooled.diagonal(dim1=-2, dim2=-1))[:, None]
            mix = mix.sigmoid()[..., None, None]
            common = (1 - mix) * pooled[:, None] + mix * diagonal
            covariances = (scatters + shrinkage[..., None, None] * common) / denominator[..., None]
            covariances = covariances * widen.exp()[..., None, None]
            extra = 1e-4 * ground.exp() + FLOOR
            eye = torch.eye(pooled.shape[-1], device=pooled.device, dtype=pooled.dtype)
            covariances = covariances + extra[..., None, None] * eye
            padded = ~(present[:, :, None] & columns[:, None])
            covariances = covariances.masked_fill(padded[..., None] | padded[..., None, :], 0)
            covariances = covariances + torch.diag_embed(padded.to(means.dtype))
        else:
            covariances = (scatters + shrinkage[..., None] * pooled[:, None]) / denominator
            covariances = covariances * widen.exp()[..., None]
            covariances = covariances + (1e-4 * ground.exp() + FLOOR)[..., None]
            if covariance_type == "spherical":
                covariances = covariances.masked_fill(~columns[:, None], 0).sum(-1, keepdim=True)
                covariances = (covariances / columns.sum(1)[:, None, None]).expand_as(means)
            covariances = covariances.masked_fill(~(present[..., None] & columns[:, None]), 1)
        means = means.masked_fill(~present[..., None], 0)
        log_weights = (counts + share).log().masked_fill(~present, -math.inf)
        sharpen = sharpen.masked_fill(~present, 0).sum(1) / present.sum(1)
        division = Division(bias, sharpen.exp())
        return Mixture(log_weights.log_softmax(-1), means, covariances), division

    @staticmethod
    def responsibilities(x, mask, mixture, division, columns):
        """Responsibilities of the E-step, adjusted as advised, (B, N, K); zero at padding."""
        absent = mixture.log_weights.isinf()[..., None]
        logits = log_joint(x, mixture, columns).transpose(1, 2)  # (B, K, N), in memory order
        logits = logits.masked_fill(absent, 0) + division.bias[..., None]
        logits = (logits * division.sharpness[:, None, None]).masked_fill(absent, -math.inf)
        return (logits.softmax(1) * mask[:, None]).transpose(1, 2)

    @staticmethod
    def loss(output, target):
        """Mean negative log-likelihood per column of held-out points; the last rounds weigh most.

        Parameters
        ----------
        output : list of Mixture, and columns
        target : tensor of shape (B, N, D)
            NaN at padding.
        """
        *mixtures, columns = output
        weights = torch.linspace(0, 1, len(mixtures) + 1)[1:].pow(4).tolist()
        loss = sum(
            weight * bend(held_out_nll(mixture, target, columns))
            for weight, mixture in zip(weights, mixtures)
        )
        return (loss / sum(weights)).mean()

    @staticmethod
    def score(output, target):
        """Negative log-likelihood per column of the last round, (B,)."""
        return bend(held_out_nll(output[-2], target, output[-1]))


def bend(loss, start=5.0):
    """Make a loss logarithmic above ``start``: a set with a few far points would dominate."""
    excess = (loss - start).clamp(min=0)
    return loss.clamp(max=start) + excess.log1p()


def held_out_nll(mixture, target, columns):
    """Mean negative log-likelihood per column of points, (B,); NaN marks padding."""
    mask = ~target[..., 0].isnan()
    return -log_likelihood(target, mask, mixture, columns) / columns.sum(1)


def average_gaps(means, scale, columns):
    """Squared distances between means in units of ``scale``, averaged over columns; (B, K, K)."""
    unit = (means / scale[:, None].sqrt()).masked_fill(~columns[:, None], 0)
    gaps = (unit[:, :, None] - unit[:, None]).square().sum(-1)
    return gaps / columns.sum(1)[:, None, None]


def nearest_centre(x, mask, centres, present):
    """Responsibilities (B, N, K): one at each point's nearest present centre of (B, K, D)."""
    # The points' own squares are left out: they are the same for all centres.
    distances = centres.square().sum(-1)[..., None] - 2 * centres @ x.mT  # (B, K, N)
    distances = distances.masked_fill(~present[..., None], math.inf)
    nearest = distances.min(1, keepdim=True).indices  # the first of equal ones; faster than argmin
    components = torch.arange(centres.shape[1], device=x.device)[:, None]
    return ((nearest == components) & mask[:, None]).to(x.dtype).mT


def from_middle_to_rim(x, mask):
    """Indices of the points by their distance from zero, padding last; (B, N)."""
    return x.square().sum(-1).masked_fill(~mask, math.inf).argsort(dim=1, stable=True)


@torch.no_grad()
def near_pairs_width(x, mask, columns, n_components):
    """Mean squared differences of near points in each column, (B, D): widths within components.

    Near pairs are found in units of the widths so far, so the widths of columns in which components
    lie apart shrink, step by step, to those within a component. The pairs are those of a few
    points, taken at even steps from the middle of the set to its rim.

    References
    ----------
    D. Art, R. Gnanadesikan, J. R. Kettenring. Data-based metrics for cluster analysis. 1982.
    """
    B, N, D = x.shape
    n_points = mask.sum(1, keepdim=True)
    order = from_middle_to_rim(x, mask)
    steps = (torch.arange(N_WITNESSES, device=x.device).float() + 0.5) / N_WITNESSES
    places = (steps * n_points).long().clamp(max=N - 1)
    known = places.diff(dim=1, prepend=places.new_full((B, 1), -1)) != 0  # each point once
    witnesses = x.gather(1, order.gather(1, places)[..., None].expand(-1, -1, D)).mT.contiguous()
    i, j = torch.triu_indices(N_WITNESSES, N_WITNESSES, 1, device=x.device)
    squares = (witnesses[..., i] - witnesses[..., j]).square()  # (B, D, P)
    known = known[:, i] & known[:, j]
    apart = squares.masked_fill(~known[:, None], math.inf)  # an unknown pair is never near
    # Pairs of equal values say nothing about width.
    informative = (squares > 0).to(x.dtype)
    # If components are equal, one pair in K is within a component; take the nearer half of these.
    n_columns = columns.sum(1)
    n_near = (known.sum(1).float() / (2 * n_components)).long().clamp(min=12).maximum(n_columns + 2)
    n_near = n_near.minimum(known.sum(1)).clamp(min=1)
    largest = int(n_near.max())
    width = torch.ones_like(x[:, 0])
    for _ in range(N_LOOKS):
        distances = (apart / width[..., None]).sum(1)
        nearest = distances.topk(largest, dim=1, largest=False).values
        farthest = nearest.gather(1, n_near[:, None] - 1)
        near = (distances <= farthest).to(x.dtype)[..., None]
        sums, differ = (squares @ near)[..., 0], (informative @ near)[..., 0]
        # A column without such pairs gets 1.
        width = torch.where(differ > 0, sums / differ.clamp(min=1), 1).clamp(min=1e-4)
        level = width.log().masked_fill(~columns, 0).sum(1) / n_columns
        width = (width / level.exp()[:, None]).masked_fill(~columns, 1)
    return width
