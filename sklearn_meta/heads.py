"""Heads: what turns a backbone's embeddings into predictions, in closed form.

Shape legend as in the backbones: B tasks, N rows, M attributes, C classes, H embedding width of
an attribute.
"""

import math

import torch
from torch import nn


class Prototypes(nn.Module):
    """Prototypical classifier in the embedding space, Eq. (9) of paper 000.

    Parameters
    ----------
    temperature : {"learned", "fixed"}, default="learned"
        Whether the squared distances of Eq. (9) are multiplied by a learned positive number,
        which calibrates the probabilities, or taken as they are.
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

    def adapt(self, z, y, classes):
        """Class means over the labelled rows.

        Parameters
        ----------
        z : tensor of shape (B, N, M, H)
            Embeddings.
        y : int tensor of shape (B, N)
            Class of each labelled row, -1 for every other row.
        classes : bool tensor of shape (B, C)
            Classes that are not padding.

        Returns
        -------
        prototypes : tensor of shape (B, C, M * H)
        known : bool tensor of shape (B, C)
            Classes with at least one labelled row.
        """
        z = z.flatten(2).to(self.log_temperature.dtype)
        member = y[..., None] == torch.arange(classes.shape[1], device=y.device)  # (B, N, C)
        count = member.sum(1)
        weights = member.to(z.dtype) / count.clamp(min=1)[:, None].to(z.dtype)
        with torch.autocast(z.device.type, enabled=False):
            return weights.transpose(1, 2) @ z, (count > 0) & classes

    def forward(self, z, state):
        """Logits of Eq. (9): (B, N, M, H) and the result of ``adapt`` to (B, N, C).

        Distances are taken in full precision also under autocast, around the mean prototype: a
        large common offset would drown the difference of two distances. The squared norm of z is
        the same for every class and is left out, as softmax removes it.
        """
        prototypes, known = state
        counted = known[..., None].to(prototypes.dtype)
        origin = (prototypes * counted).sum(1, keepdim=True) / counted.sum(1, keepdim=True)
        prototypes = prototypes - origin
        z = z.flatten(2).to(prototypes.dtype) - origin
        with torch.autocast(z.device.type, enabled=False):
            logits = 2 * z @ prototypes.transpose(1, 2) - prototypes.square().sum(-1)[:, None]
        return (logits * self.log_temperature.exp()).masked_fill(~known[:, None], -math.inf)


#: Heads by the name that ``head=`` and the weight cards use.
HEADS = {"prototypes": Prototypes}
