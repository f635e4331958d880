"""Labels of sequences as words of letters: one-hot labels and strings (paper 002, section 6.2)."""

import torch
from torch import nn
from torch.nn import functional as F

from ..sizes import check_integers


class LabelWords(nn.Module):
    """Labels are words: letters from one alphabet, each with a softmax of its own.

    With one letter these are the one-hot labels of Eq. (24) and (25), with five letters of five
    the strings of Eq. (26). Which class has which word is drawn anew for each sequence.

    Shape legend: B sequences, T rows, L letters, S symbols of the alphabet, K classes.

    Parameters
    ----------
    n_letters, n_symbols : int
    """

    task = "online_classification"
    score_name = "accuracy"

    def __init__(self, n_letters, n_symbols):
        super().__init__()
        self.n_letters = n_letters
        self.n_symbols = n_symbols
        self.n_inputs = self.n_outputs = n_letters * n_symbols

    @property
    def n_words(self):
        """Number of distinct words, the most classes there can be; an int."""
        return self.n_symbols**self.n_letters

    def encode(self, words):
        """One-hot vectors (..., L * S) of words (..., L); zeros where a word is -1."""
        vectors = F.one_hot(words.clamp(min=0), self.n_symbols) * (words >= 0)[..., None]
        return vectors.flatten(-2)

    def loss(self, output, words):
        """Eq. (25) and (26): mean over the rows that have a label, summed over their letters.

        Parameters
        ----------
        output : tensor of shape (B, T, L * S)
        words : int tensor of shape (B, T, L)
            -1 throughout rows not to predict.
        """
        known = (words >= 0).all(-1)
        logits = output.float().unflatten(-1, (self.n_letters, self.n_symbols))
        logits, asked = logits[known].flatten(0, 1), words[known].flatten()
        loss = F.cross_entropy(logits, asked, reduction="sum")
        return loss / known.sum().clamp(min=1)  # there may be no row to predict

    def score(self, output, words):
        """Share of each sequence's rows with every letter right, (B,)."""
        logits = output.unflatten(-1, (self.n_letters, self.n_symbols))
        known = (words >= 0).all(-1)
        right = (logits.argmax(-1) == words).all(-1) & known
        return right.sum(1) / known.sum(1).clamp(min=1)

    def log_probabilities(self, output, words):
        """Log-probabilities of K classes, given by their words.

        Parameters
        ----------
        output : tensor of shape (..., L * S)
        words : int tensor of shape (..., K, L)

        Returns
        -------
        tensor of shape (..., K)
        """
        letters = output.unflatten(-1, (self.n_letters, self.n_symbols)).log_softmax(-1)
        letters = letters.unsqueeze(-3).expand(*words.shape, -1)  # (..., K, L, S)
        return letters.gather(-1, words[..., None]).squeeze(-1).sum(-1).log_softmax(-1)


class OneHotLabels(LabelWords):
    """One-hot labels, Eq. (24) and (25); there are as many classes as outputs.

    Parameters
    ----------
    n_classes : int, default=10

    Raises
    ------
    ValueError
        If there is no class.
    """

    def __init__(self, *, n_classes=10):
        check_integers(n_classes=n_classes)
        super().__init__(1, n_classes)
        self.config = {"n_classes": n_classes}


class StringLabels(LabelWords):
    """Labels as strings of letters, so that the number of classes is open, Eq. (26).

    Parameters
    ----------
    n_letters, n_symbols : int, default=5
        3,125 different strings.

    Raises
    ------
    ValueError
        If there is no letter, no symbol, or more strings than int64 can count.
    """

    def __init__(self, *, n_letters=5, n_symbols=5):
        check_integers(n_letters=n_letters, n_symbols=n_symbols)
        if n_symbols**n_letters >= 2**63:
            raise ValueError(
                f"There are too many strings of {n_letters} letters of {n_symbols} symbols to "
                "number them: use fewer letters or symbols."
            )
        super().__init__(n_letters, n_symbols)
        self.config = {"n_letters": n_letters, "n_symbols": n_symbols}


class GaussianTargets(nn.Module):
    """Head of online regression: mean and standard deviation of a target (section 6.2).

    A target is shown to the network as its value and a one, and as two zeros where there is none.
    """

    task = "online_regression"
    score_name = "mse"
    config = {}
    n_inputs = n_outputs = 2

    #: Minimum standard deviation, since a density has no upper bound.
    FLOOR = 1e-2

    def encode(self, targets):
        """Targets (..., 1), NaN where there is none, as vectors (..., 2)."""
        known = ~targets.isnan()
        return torch.cat([targets.nan_to_num(), known.to(targets.dtype)], -1)

    def moments(self, output):
        """Mean and standard deviation, each of shape (...,), of output (..., 2)."""
        mean, scale = output.unbind(-1)
        return mean, self.FLOOR + F.softplus(scale)

    def loss(self, output, targets):
        """Mean negative log density over the rows that have a target.

        Parameters
        ----------
        output : tensor of shape (B, T, 2)
        targets : tensor of shape (B, T, 1)
            NaN at rows not to predict.
        """
        known = ~targets[..., 0].isnan()
        mean, scale = self.moments(output.float()[known])
        log_density = torch.distributions.Normal(mean, scale).log_prob(targets[known][:, 0])
        return -log_density.sum() / known.sum().clamp(min=1)

    def score(self, output, targets):
        """Mean squared error of each sequence, (B,)."""
        known = ~targets[..., 0].isnan()
        error = (targets - output[..., :1]).square()[..., 0].masked_fill(~known, 0)
        return error.sum(1) / known.sum(1).clamp(min=1)
