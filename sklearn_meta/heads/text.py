"""Output layers for texts (paper 004): softmax, Eq. (8), and a CRF.

Shape legend: B texts, T words of the longest, n_inputs features, C labels.
"""

from torch import nn
from torch.nn import functional as F

from .crf import LinearChainCRF


class SoftmaxLayer(nn.Module):
    """Output layer for one label per text, Eq. (8).

    Parameters
    ----------
    n_inputs, n_labels : int
    """

    task = "text_classification"
    score_name = "accuracy"

    def __init__(self, n_inputs, n_labels):
        super().__init__()
        self.output = nn.Linear(n_inputs, n_labels)

    def forward(self, features):
        """Logits (B, C) of features (B, n_inputs)."""
        return self.output(features)

    @staticmethod
    def loss(told, target):
        """Eq. (9): cross-entropy of the classes (B,), plus the penalty of the backbone."""
        return F.cross_entropy(told.scores.float(), target) + told.penalty

    @staticmethod
    def score(told, target):
        """Whether each text's class is right, (B,)."""
        return (told.scores.argmax(1) == target).float()


class CRFLayer(nn.Module):
    """Output layer for one label per word, with a linear-chain CRF over the labels.

    Parameters
    ----------
    n_inputs, n_labels : int
    """

    task = "text_tagging"
    score_name = "accuracy"

    def __init__(self, n_inputs, n_labels):
        super().__init__()
        self.output = nn.Linear(n_inputs, n_labels)
        self.crf = LinearChainCRF(n_labels)

    def forward(self, features):
        """Scores (..., C) of the labels of words (..., n_inputs)."""
        return self.output(features)

    @staticmethod
    def loss(told, target):
        """Mean negative log-likelihood of the sentences' labels (B, T), plus the penalty."""
        likelihood = told.head.crf.log_likelihood(told.scores, target, told.mask)
        return told.penalty - likelihood.mean()

    @staticmethod
    def score(told, target):
        """Share of each sentence's words whose label is right, (B,)."""
        hit = (told.head.crf.decode(told.scores, told.mask) == target) & told.mask
        return hit.sum(1) / told.mask.sum(1).clamp(min=1)
