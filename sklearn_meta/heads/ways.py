"""Decoders of paper 003, which predict the class of a query among those of its episode.

Shape legend: B episodes, Q queries of each, L labelled positions, S = L + 1 positions of a
sequence (the query is the last), N classes, D features.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .base import ClassificationHead


class WaysHead(nn.Module):
    """Base class: a head whose outputs are the log-probabilities (B, Q, N) of the queries."""

    task = "few_shot"
    score_name = "accuracy"
    config = {}

    @staticmethod
    def loss(output, target):
        """Cross-entropy.

        Parameters
        ----------
        output : tensor of shape (B, Q, N)
        target : int tensor of shape (B, Q)
            -100 for queries not to predict.
        """
        loss = F.nll_loss(output.float().flatten(0, 1), target.flatten(), reduction="sum")
        return loss / (target >= 0).sum().clamp(min=1)

    score = staticmethod(ClassificationHead.score)


class LabelAttention(WaysHead):
    """Head whose query attends to the labelled rows and receives their labels (section 3.2).

    Scaled dot products are standardised over the labelled rows and multiplied by a learned number.
    This stands for the paper's layer norm of the scores, which is over the whole sequence and has a
    bias.
    """

    #: Minimum probability: a class without a labelled row must not make the loss infinite.
    FLOOR = 1e-6

    def __init__(self):
        super().__init__()
        self.log_gain = nn.Parameter(torch.tensor(math.log(2.0)))

    def forward(self, features, labels, n_ways):
        """Log-probabilities of the queries' classes.

        Parameters
        ----------
        features : tensor of shape (B, Q, S, D)
        labels : int tensor of shape (B, L)
        n_ways : int

        Returns
        -------
        tensor of shape (B, Q, n_ways)
        """
        features = features.to(torch.promote_types(features.dtype, torch.float32))
        with torch.autocast(features.device.type, enabled=False):  # probabilities near 1
            known, query = features[:, :, :-1], features[:, :, -1:]
            scores = (known * query).sum(-1) / math.sqrt(features.shape[-1])  # (B, Q, L)
            scores = F.layer_norm(scores, scores.shape[-1:]) * self.log_gain.exp()
            carried = scores.softmax(-1) @ F.one_hot(labels, n_ways).to(scores.dtype)
            return (carried + self.FLOOR).log().log_softmax(-1)


class LastPosition(WaysHead):
    """Head of SNAIL: the features of the last position are class logits."""

    def forward(self, features, labels, n_ways):
        """As in :class:`LabelAttention`, with D = ``n_ways``."""
        return features[:, :, -1].log_softmax(-1)
