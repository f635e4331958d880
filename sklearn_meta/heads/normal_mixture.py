"""Mixtures of normal distributions of warped targets: their quantiles and their density."""

import math
from typing import NamedTuple

import torch

from .warps import log_slope, unwarp, warp

#: Halvings that leave of any bracket less than a float64 tells apart.
HALVINGS = 64


class NormalMixture(NamedTuple):
    """What a Gaussian process says of single rows: a mixture for each row and target.

    Shapes have G sets of hyperparameters and W powers, under each of which the target, warped by
    that power, is normally distributed.

    Parameters
    ----------
    share : float64 tensor of shape (B, G, W, 1, C) or (B, G, W, N, C)
        Weights of the normal distributions, which add up to one.
    mean, std : float64 tensors that broadcast to (B, G, W, N, C)
    powers : tuple of W floats
        Of Yeo and Johnson's functions; 1 is the target as it is.
    """

    share: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor
    powers: tuple

    def quantiles(self, level):
        """Targets (B, N, C) below which the share ``level`` of the mixture lies."""
        normal = self.mean + self.std * torch.special.ndtri(self.mean.new_tensor(level))
        of_each = self._with_powers(unwarp, normal.unbind(2))
        # Between those of the parts; on this scale brackets of any size are halved alike.
        low, high = of_each.amin((1, 2)).asinh(), of_each.amax((1, 2)).asinh()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = self._distribution(middle.sinh()) < level
            low, high = middle.where(below, low), high.where(below, middle)
        return high.sinh()

    def log_density(self, targets):
        """Logarithm of the density of targets, both (B, N, C)."""
        copies = [targets[:, None]] * len(self.powers)
        away = (self._with_powers(warp, copies) - self.mean) / self.std
        slopes = self._with_powers(log_slope, copies)
        each = slopes - 0.5 * (away.square() + math.log(2 * math.pi)) - self.std.log()
        return (self.share.log() + each).logsumexp((1, 2))

    def _distribution(self, targets):
        """Share of the mixture that lies below targets, both (B, N, C)."""
        warped = self._with_powers(warp, [targets[:, None]] * len(self.powers))
        return (self.share * torch.special.ndtr((warped - self.mean) / self.std)).sum((1, 2))

    def _with_powers(self, function, parts):
        return torch.stack(list(map(function, parts, self.powers)), dim=2)
