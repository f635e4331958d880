"""Standardisation of a task's attributes, the first step of every backbone in ``BACKBONES``.

Shape legend as in the backbones: B tasks, N rows, M attributes.
"""

import math
from typing import NamedTuple

import torch


class Moments(NamedTuple):
    """Statistics of the readable rows for standardisation; tensors of shape (B, 1, M).

    Parameters
    ----------
    median, spread : tensors
        Median and interquartile range of each attribute.
    mean, scale : tensors
        Mean and standard deviation of its bent values (see :func:`bend`). For a two-valued
        attribute scale is the distance between the two values (a rare category would otherwise
        outweigh all others); for a constant one it is 1.
    varied : bool tensor of shape (B, M)
        Attributes whose values in readable rows differ by more than rounding. (Sums of shares,
        for example, are all one up to rounding.)
    """

    median: torch.Tensor
    spread: torch.Tensor
    mean: torch.Tensor
    scale: torch.Tensor
    varied: torch.Tensor


def moments_of(x, readable):
    """Moments over the observed cells of readable rows.

    Parameters
    ----------
    x : tensor of shape (B, N, M)
        NaN marks unobserved cells.
    readable : bool tensor of shape (B, N)

    Returns
    -------
    Moments
    """
    observed = ~x.isnan() & readable[..., None]
    levels = torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=x.dtype, device=x.device)
    cells = x.masked_fill(~observed, math.nan)
    least, low, median, high, most = torch.nanquantile(cells, levels, dim=1, keepdim=True)
    spread = high - low
    rounding = 4 * torch.finfo(x.dtype).eps * torch.maximum(least.abs(), most.abs())
    x = bend(x, median, spread)
    count = observed.sum(1, keepdim=True).clamp(min=1)
    mean = x.masked_fill(~observed, 0.0).sum(1, keepdim=True) / count
    deviation = (x - mean).masked_fill(~observed, 0.0)
    scale = (deviation.square().sum(1, keepdim=True) / count).sqrt()
    low = x.masked_fill(~observed, math.inf).amin(1, keepdim=True)
    high = x.masked_fill(~observed, -math.inf).amax(1, keepdim=True)
    two_valued = (~observed | (x == low) | (x == high)).all(1, keepdim=True)
    scale = torch.where(two_valued, high - low, scale)
    # Values of a constant attribute may differ by rounding, and bent values may coincide.
    varied = (high > low) & (most - least > rounding)
    return Moments(median, spread, mean, scale.masked_fill(~varied, 1.0), varied[:, 0])


def bend(x, median, spread):
    """Bend heavy tails: linear within one interquartile range of the median, logarithmic beyond.

    The core stays linear to keep shapes in several attributes, such as circles. An attribute
    whose spread is zero, because half the cells are equal, is not changed.
    """
    farthest = torch.finfo(x.dtype).max  # a spread may be too small to divide by
    u = ((x - median) / spread.masked_fill(spread == 0, 1.0)).clamp(-farthest, farthest)
    beyond = (u.abs() - 1).clamp(min=0)
    return torch.where(spread > 0, u.sign() * (u.abs() - beyond + beyond.log1p()), x)


def standardise(x, moments, bound=4.0):
    """Z-scores of bent values, squeezed so that none is beyond ``bound``.

    With few context rows the scale may be far too small, and one table in three has heavy tails.
    Unbounded values would make distances in Eq. (9) of paper 000 unbounded and training unstable.
    """
    z = (bend(x, moments.median, moments.spread) - moments.mean) / moments.scale
    z = z.clamp(-1e6, 1e6)  # squares of huge values would overflow
    return z * torch.rsqrt(1 + (z / bound).square())
