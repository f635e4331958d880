"""Mixtures of normal distributions of warped targets: quantiles and density."""

import math
from typing import NamedTuple

import torch

from .warps import log_slope, unwarp, warps

#: Bisection steps for a quantile; they leave some 1e-12 of its bracket.
HALVINGS = 40

#: Largest argument of sinh in a bisection; sinh of much more overflows float64.
FURTHEST = 700.0


class NormalMixture(NamedTuple):
    """Predictive distribution of a Gaussian process: a mixture for each row and target.

    There are G sets of hyperparameters and W powers. Under each set and power, the target warped
    by that power is normally distributed.

    Parameters
    ----------
    share, mean, std : float64 tensors that broadcast to (B, G, W, N, C)
        Parameters of the normal distributions; shares add up to one.
    powers : tuple of W floats
        Powers of Yeo and Johnson's functions; 1 leaves the target unchanged.
    """

    share: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor
    powers: tuple

    def quantiles(self, level):
        """Targets (B, N, C) below which the share ``level`` of the mixture lies."""
        normal = self.mean + self.std * torch.special.ndtri(self.mean.new_tensor(level))
        of_each = torch.stack(list(map(unwarp, normal.unbind(2), self.powers)), dim=2)
        # The quantile lies between those of the parts. Bisection is on the scale of asinh, which
        # treats brackets of any size alike.
        ends = of_each.amin((1, 2)), of_each.amax((1, 2))
        low, high = (end.asinh().clamp(-FURTHEST, FURTHEST) for end in ends)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._share_below(middle.sinh()) < level
            low, high = middle.where(below, low), high.where(below, middle)
        return high.sinh()

    def log_density(self, targets):
        """Logarithm of the density of targets, both (B, N, C)."""
        slopes = torch.stack([log_slope(targets[:, None], power) for power in self.powers], dim=2)
        squares = self._away(targets).square()
        each = slopes - 0.5 * (squares + math.log(2 * math.pi)) - self.std.log()
        return (self.share.log() + each).logsumexp((1, 2))

    def _share_below(self, targets):
        """Share of the mixture that lies below targets, both (B, N, C)."""
        return (self.share * torch.special.ndtr(self._away(targets))).sum((1, 2))

    def _away(self, targets):
        """Distances of targets (B, N, C) from each normal distribution's mean, in deviations."""
        warped = torch.stack(warps(targets[:, None], self.powers), dim=2)  # (B, 1, W, N, C)
        return (warped - self.mean) / self.std
