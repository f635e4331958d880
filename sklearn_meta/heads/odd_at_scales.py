"""The odd ones out of a set, by distances at several scales: a head for outlier detection."""

import math
from typing import NamedTuple

import torch
from torch import nn

from ..means import masked_mean
from ..sizes import check_integers
from .base import squared_distances
from .odd_one_out import OddOneOut

#: Replaces an infinite distance, which would have no gradient.
_FAR = 1e6
#: Distances below this are rounding errors between a row and itself, or an equal row.
_ITSELF = 1e-5


class Neighbourhood(NamedTuple):
    """State of a set of L rows.

    Parameters
    ----------
    z : tensor of shape (B, L, M * H)
    readable : bool tensor of shape (B, L)
        Rows that are not padding.
    unit : tensor of shape (B, 1, 1)
        Mean squared distance between two rows.
    centre : tensor of shape (B, 1, M * H)
        Mean of the readable rows.
    near : tensor of shape (B, L, K)
        Logarithms of each row's distances at K scales.
    mean, deviation : tensors of shape (B, 1, 2 * K + 1)
        Mean and standard deviation of the features over the set.
    """

    z: torch.Tensor
    readable: torch.Tensor
    unit: torch.Tensor
    centre: torch.Tensor
    near: torch.Tensor
    mean: torch.Tensor
    deviation: torch.Tensor


class OddAtScales(OddOneOut):
    """Log-odds of being an outlier, from distances to the rows of the set at several scales.

    A row near the centre may be odd all the same: between two clusters, in the middle of a ring, or
    where a correlation is broken. So a network with two hidden layers reads distances to all rows,
    and its output is added to the logit of :class:`OddOneOut`. With d_nm the squared distance
    between rows n and m, in units of its mean over the set,

        s_n(h) = -2 h log(mean_m exp(-d_nm / 2 h))

    is the distance to the nearest of the other rows if h is small, and to all of them if h is
    large: -2 h times the logarithm of a kernel density estimate. The features are, at K learned
    scales h,

    - log s_n(h) less its mean over the set,
    - log s_n(h) less its mean over rows near n, weighted by the kernel: it is large for a row far
      from others that are near to each other, as in a local outlier factor,
    - the logarithm of the distance to the centre, less its mean over the set.

    The network reads them as they are and divided by their standard deviations over the set, the
    logarithms of these deviations, and that of the number of rows.

    Parameters
    ----------
    share : float in (0, 1), default=0.08
        Share of outliers in the initial logits.
    n_scales : int, default=5
    n_hidden : int, default=32
        Width of the network.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    M. M. Breunig, H.-P. Kriegel, R. T. Ng, J. Sander. LOF: Identifying Density-Based Local
    Outliers. SIGMOD 2000.
    """

    rate_factor = 5.0

    def __init__(self, *, share=0.08, n_scales=5, n_hidden=32):
        super().__init__(share=share)
        check_integers(n_scales=n_scales, n_hidden=n_hidden)
        self.config |= {"n_scales": n_scales, "n_hidden": n_hidden}
        self.log_scales = nn.Parameter(torch.linspace(math.log(0.003), math.log(0.3), n_scales))
        n_given = 3 * (2 * n_scales + 1) + 1
        self.network = nn.Sequential(
            nn.Linear(n_given, n_hidden),
            nn.SiLU(),
            nn.Linear(n_hidden, n_hidden),
            nn.SiLU(),
            nn.Linear(n_hidden, 1),
        )
        # Start as OddOneOut.
        nn.init.zeros_(self.network[-1].weight)
        nn.init.zeros_(self.network[-1].bias)

    def adapt(self, z, labels, classes, readable):
        """State of the readable rows, a `Neighbourhood`. Labels are not used."""
        with torch.autocast(z.device.type, enabled=False):  # differences of large numbers
            z = z.flatten(2).to(self.offset.dtype)
            centre = masked_mean(z, readable, 1, keepdim=True)
            squares = (z - centre).square().sum(-1, keepdim=True)
            # The mean squared distance between two rows is twice that to the centre.
            unit = 2 * masked_mean(squares, readable, 1, keepdim=True) + self.floor
            near, shares = self._near(z, z, readable, unit)
            features = self._features(z, near, shares, near, centre)
            mean = masked_mean(features, readable, 1, keepdim=True)
            variance = masked_mean((features - mean).square(), readable, 1, keepdim=True)
            deviation = (variance + 1e-4).sqrt()
            return Neighbourhood(z, readable, unit, centre, near, mean, deviation)

    def forward(self, z, state):
        """Logits: (B, N, M, H) and the result of ``adapt`` to (B, N)."""
        with torch.autocast(z.device.type, enabled=False):
            z = z.flatten(2).to(self.offset.dtype)
            near, shares = self._near(z, state.z, state.readable, state.unit)
            features = self._features(z, near, shares, state.near, state.centre) - state.mean
            count = state.readable.sum(1).clamp(min=1).to(features.dtype).log()[:, None, None]
            given = [
                features.clamp(-10, 10),
                (features / state.deviation).clamp(-10, 10),
                state.deviation.log().expand_as(features),
                (count - 4).expand(*features.shape[:2], 1),
            ]
            # The last feature is what OddOneOut reads.
            from_centre = self.log_temperature.exp() * features[..., -1] + self.offset
            return from_centre + self.network(torch.cat(given, -1))[..., 0]

    def _features(self, z, near, shares, near_of_set, centre):
        """Features before their mean over the set is subtracted: (B, N, 2K + 1)."""
        of_neighbours = (shares @ near_of_set.transpose(1, 2)[..., None])[..., 0].transpose(1, 2)
        far = self._log_distances(z, centre)[..., None]
        return torch.cat([near, near - of_neighbours, far], -1)

    def _near(self, z, rows, readable, unit):
        """Log of s_n(h), (B, N, K), and the kernel weights of the set's rows, (B, K, N, L)."""
        scales = self.log_scales.exp()[:, None]
        logits = -_distances(z, rows, readable, unit)[:, None] / (2 * scales[..., None])
        total = logits.logsumexp(-1)
        count = (readable.sum(1) - 1).clamp(min=1).to(total.dtype)
        found = -2 * scales * (total - count.log()[:, None, None])
        near = (found.clamp(min=0) + self.floor).log().transpose(1, 2)
        return near, (logits - total[..., None]).exp()


def _distances(z, rows, readable, unit):
    """Squared distances to the rows of the set, (B, N, L), in units of ``unit``.

    A row is not near itself: one zero distance is replaced. A row gets the same distances whether
    it is read as part of the set or again as a new row.
    """
    # In double precision: otherwise distances between close rows would be rounding errors.
    distances = squared_distances(z.double(), rows.double(), readable) / unit
    distances = distances.masked_fill(~readable[:, None], _FAR)
    # Find a row itself before close rows become equal to it: else their order would matter.
    itself = distances.argmin(2, keepdim=True)
    distances = distances.masked_fill(distances < _ITSELF, 0).to(z.dtype)
    nearest = distances.gather(2, itself)
    return distances.scatter(2, itself, torch.where(nearest > 0, nearest, _FAR))
