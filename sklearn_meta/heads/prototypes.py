"""Prototypical classifier: the head of paper 000 for classification (section 3.4)."""

import math

import torch
from torch import nn

from ..means import class_means, masked_mean
from .base import ClassificationHead, known_classes


class Prototypes(ClassificationHead):
    """Prototypical classifier in the embedding space, Eq. (9) of paper 000.

    Parameters
    ----------
    temperature : {"learned", "fixed"}, default="learned"
        Whether the squared distances of Eq. (9) are multiplied by a learned positive number, which
        calibrates the probabilities, or used unchanged.

    Raises
    ------
    ValueError
        If ``temperature`` is unknown.
    """

    def __init__(self, *, temperature="learned"):
        super().__init__()
        if temperature not in ("learned", "fixed"):
            raise ValueError(f"temperature must be 'learned' or 'fixed', got {temperature!r}.")
        self.config = {"temperature": temperature}
        if temperature == "learned":
            self.log_temperature = nn.Parameter(torch.zeros(()))
        else:
            self.register_buffer("log_temperature", torch.zeros(()))

    def adapt(self, z, labels, classes, readable):
        """Class means over the labelled rows, (B, C, M * H), and which classes have one, (B, C)."""
        z = z.flatten(2).to(self.log_temperature.dtype)
        return class_means(z, labels), known_classes(labels, classes)

    def forward(self, z, state):
        """Logits of Eq. (9): (B, N, M, H) and the result of ``adapt`` to (B, N, C).

        Distances are computed in full precision, also under autocast, and around the mean
        prototype: a large common offset would drown the difference between two distances. The
        squared norm of z is the same for every class and cancels in the softmax, so it is left out.
        """
        prototypes, known = state
        origin = masked_mean(prototypes, known, 1, keepdim=True)
        prototypes = prototypes - origin
        z = z.flatten(2).to(prototypes.dtype) - origin
        with torch.autocast(z.device.type, enabled=False):
            logits = 2 * z @ prototypes.transpose(1, 2) - prototypes.square().sum(-1)[:, None]
        return (logits * self.log_temperature.exp()).masked_fill(~known[:, None], -math.inf)
