"""Label propagation in the embedding space, as in transductive propagation networks."""

import math

import torch
from torch import nn

from ..sizes import check_positive
from .base import ClassificationHead, known_classes, squared_distances

LEAST = -1e30  #: Stands for log(0); finite, so that gradients are finite.


class LabelPropagation(ClassificationHead):
    """Labels propagated over a graph of labelled and unlabelled rows, in closed form.

    With the RBF graph W of the context's embeddings (no row is its own neighbour), its degrees D
    and S = D^-1/2 W D^-1/2, the scores are F = (I - alpha S)^-1 Y (Zhou et al. 2003; Liu et al.
    2019, "Learning to propagate labels", Eq. 3). A row outside the graph takes one step from it:
    its scores are the weighted sum of its neighbours', as are those of a row inside except for its
    own label. Scores divided by their sum are probabilities. Length scale and alpha are learned.
    Liu et al. give each row a length scale of its own, computed by a network, and keep only its
    nearest neighbours. Here all rows share one length scale and all are neighbours: paper 000 says
    "graphs based on RBF kernels" and no more.

    Parameters
    ----------
    length_scale : float, default=1.0
        Initial length scale of the RBF kernel.
    alpha : float, default=0.9
        Initial share of a row's scores that comes from its neighbours; in (0, 1).

    Raises
    ------
    ValueError
        If ``length_scale`` is not positive, or ``alpha`` not between 0 and 1.
    """

    rate_factor = 30.0  # for logarithms, as in kernels

    def __init__(self, *, length_scale=1.0, alpha=0.9):
        super().__init__()
        check_positive(length_scale=length_scale)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}.")
        self.config = {"length_scale": length_scale, "alpha": alpha}
        self.log_length_scale = nn.Parameter(torch.tensor(math.log(length_scale)))
        self.logit_alpha = nn.Parameter(torch.tensor(math.log(alpha / (1 - alpha))))

    def adapt(self, z, labels, classes, readable):
        """Spread the labels over the graph of the readable rows.

        Degrees are computed as logarithms: the degree of a row far from all others would underflow,
        or the gradient of its inverse root would overflow.

        Returns
        -------
        z : tensor of shape (B, N, D)
        scores : tensor of shape (B, N, C)
            F; zero at rows that are not readable.
        log_root : tensor of shape (B, N)
            Half the logarithm of each row's degree.
        known : bool tensor of shape (B, C)
        readable : bool tensor of shape (B, N)
        """
        dtype = self.logit_alpha.dtype
        with torch.autocast(z.device.type, enabled=False):
            z = z.flatten(2).to(dtype).masked_fill(~readable[..., None], 0)
            loops = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
            pairs = readable[..., None] & readable[:, None] & ~loops
            affinity = self._log_affinity(z, z, readable)
            log_degree = affinity.masked_fill(~pairs, LEAST).logsumexp(-1)
            log_root = 0.5 * log_degree.masked_fill(~pairs.any(-1), 0)
            smooth = affinity - log_root[..., None] - log_root[:, None]
            smooth = smooth.masked_fill(~pairs, -math.inf).exp()  # S
            system = loops.to(dtype) - self.logit_alpha.sigmoid() * smooth
            scores = torch.linalg.solve(system, labels.nan_to_num(0).to(dtype))
        return z, scores, log_root, known_classes(labels, classes), readable

    def forward(self, z, state):
        """Log probabilities of rows outside the graph: (B, N, M, H) to (B, N, C)."""
        return self._predict(z, state, neighbours=state[-1][:, None])

    def joint(self, z, labels, classes, readable):
        """Log probabilities of rows; the readable ones form the graph."""
        loops = torch.eye(z.shape[1], dtype=torch.bool, device=z.device)
        state = self.adapt(z, labels, classes, readable)
        return self._predict(z, state, neighbours=readable[:, None] & ~loops)

    def _predict(self, z, state, neighbours):
        """One step from the graph, which for an unlabelled row inside gives a multiple of its F."""
        context, scores, log_root, known, readable = state
        with torch.autocast(z.device.type, enabled=False):
            affinity = self._log_affinity(z.flatten(2).to(context.dtype), context, readable)
            affinity = affinity - log_root[:, None]
            # A row's nearest neighbour gets weight one: a common factor cancels in the end.
            affinity = affinity.masked_fill(~neighbours, -math.inf)
            nearest = affinity.amax(-1, keepdim=True).detach().clamp(min=LEAST)
            scores = (affinity - nearest).exp() @ scores
            floor = torch.finfo(scores.dtype).eps
            scores = scores / scores.sum(-1, keepdim=True).clamp(min=floor**2) + floor
            return scores.clamp(min=floor).log().masked_fill(~known[:, None], -math.inf)

    def _log_affinity(self, a, b, readable):
        return -0.5 * squared_distances(a, b, readable) * (-2 * self.log_length_scale).exp()
