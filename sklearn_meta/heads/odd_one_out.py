"""The odd ones out of a set: the head for outlier detection (section 4.4 of paper 001)."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .base import Head

#: Weight of the softmax over the rows in the loss.
RANKING = 0.3


class OddOneOut(Head):
    """Log-odds of being an outlier, from the distance to the centre of the set.

    With c the mean embedding of the readable rows and d_n = ||z_n - c||^2 their distances,

        logit_n = t (log d_n - mean_m log d_m) + b,

    where the mean is over readable rows m, and t > 0 and b are learned. Only the distance
    *relative to the rest* counts, so the number of columns, over which distances add up, does not
    matter. The backbone learns what is near and what is far.

    In paper 001 exactly one row is odd, for which a softmax over the rows would do; the paper does
    not say what it uses. Here any number of rows may be odd, so each row has a logit of its own,
    which also expresses how sure it is; the softmax is a part of the loss.

    Parameters
    ----------
    share : float in (0, 1), default=0.08
        Share of outliers that sets the initial b.

    Raises
    ------
    ValueError
        If ``share`` is not between 0 and 1.

    References
    ----------
    J. Lee, Y. Lee, J. Kim, A. R. Kosiorek, S. Choi, Y. W. Teh. Set Transformer: A Framework for
    Attention-based Permutation-Invariant Neural Networks. ICML 2019.
    """

    task = "outlier_detection"
    score_name = "auroc"

    #: Added to squared distances, since those of equal rows are zero and have no logarithm.
    floor = 1e-3

    def __init__(self, *, share=0.08):
        super().__init__()
        if not 0 < share < 1:
            raise ValueError(f"share must be between 0 and 1, got {share!r}.")
        self.config = {"share": share}
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.offset = nn.Parameter(torch.tensor(math.log(share / (1 - share))))

    def adapt(self, z, labels, classes, readable):
        """Centre (B, 1, M * H) of the readable rows, and the mean (B, 1) of their log distances.

        Labels are not used: there are none.
        """
        z = z.flatten(2).to(self.offset.dtype)
        share = readable.to(z.dtype)
        share = share / share.sum(1, keepdim=True).clamp(min=1)  # 1 / count at readable rows
        centre = (z * share[..., None]).sum(1, keepdim=True)
        return centre, (self._log_distances(z, centre) * share).sum(1, keepdim=True)

    def forward(self, z, state):
        """Logits: (B, N, M, H) and the result of ``adapt`` to (B, N)."""
        centre, usual = state
        distances = self._log_distances(z.flatten(2).to(self.offset.dtype), centre)
        return self.log_temperature.exp() * (distances - usual) + self.offset

    def _log_distances(self, z, centre):
        return ((z - centre).square().sum(-1) + self.floor).log()

    @staticmethod
    def loss(logits, target):
        """Mean over tasks of the sum of two cross-entropies over the rows to predict.

        The first is binary: its logits are log-odds. The second is that of the softmax over the
        rows, divided by that of a uniform guess and averaged over the outliers, with weight
        ``RANKING``: a single outlier among many rows hardly counts in the first.

        Parameters
        ----------
        logits : tensor of shape (B, N)
        target : int tensor of shape (B, N)
            1 for outliers, 0 for the others, negative for rows not to predict.
        """
        logits, odd, asked = logits.float(), (target == 1).float(), target >= 0
        count = asked.sum(1).clamp(min=1)
        binary = F.binary_cross_entropy_with_logits(logits, odd, reduction="none")
        binary = binary.masked_fill(~asked, 0).sum(1) / count
        share = logits.masked_fill(~asked, -1e30).log_softmax(1)
        ranking = -(share * odd).sum(1) / odd.sum(1).clamp(min=1) / count.clamp(min=2).log()
        return (binary + RANKING * ranking).mean()

    @staticmethod
    def score(logits, target):
        """Area under the ROC curve of each task, (B,): the share of pairs in the right order.

        Ties count one half, and so does a task without any pair of an outlier and another row.
        """
        odd, usual = target == 1, target == 0
        others = logits.masked_fill(~usual, math.inf).sort(1).values
        n_others = usual.sum(1, keepdim=True)
        # Twice the number of others below each row (ties count one), without a matrix of all pairs.
        above = torch.searchsorted(others, logits)
        above = above + torch.searchsorted(others, logits, right=True).clamp(max=n_others)
        count = 2 * odd.sum(1) * n_others[:, 0]
        return torch.where(count > 0, (above * odd).sum(1) / count.clamp(min=1), 0.5)
