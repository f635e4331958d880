"""Prototypes that unlabelled rows refine: the head of the default weights of classification."""

import torch

from .base import known_classes
from .prototypes import Prototypes


class RefinedPrototypes(Prototypes):
    """Prototypical classifier that also reads the unlabelled rows, and weighs the attributes.

    The prototypes of Eq. (9) of paper 000, the means of the labelled rows, say how likely each
    unlabelled row of the context is of each class. With these shares unlabelled rows count in the
    means as well, far less than labelled ones: one step of the soft k-means of Ren et al. (2018).
    Then the distance of Eq. (9) is a sum over attributes, each divided by the variance of its
    embedding within the classes, which is shrunk towards the mean of these variances, as scales
    are in nearest shrunken centroids (Tibshirani et al. 2002): an attribute whose embedding
    scatters within the classes tells little.

    Its two factors are not learned. The network knows the tables of meta-training so well that
    they need neither step: there, a learned weight becomes smaller and smaller. Tables that are
    new gain a little.

    Parameters
    ----------
    temperature : {"learned", "fixed"}, default="learned"
        As of :class:`Prototypes`.
    weight : float, default=0.05
        What an unlabelled row counts in the means beside a labelled one.
    shrinkage : float, default=6.0
        How many rows the mean of the variances counts for beside an attribute's own: with many all
        attributes weigh the same, as in Eq. (9).

    Raises
    ------
    ValueError
        If a factor is not positive, or there is no such ``temperature``.

    References
    ----------
    M. Ren et al. Meta-learning for semi-supervised few-shot classification. ICLR 2018, Eq. (3)
    and (4).
    R. Tibshirani et al. Diagnosis of multiple cancer types by shrunken centroids of gene
    expression. PNAS 2002.
    """

    def __init__(self, *, temperature="learned", weight=0.05, shrinkage=6.0):
        super().__init__(temperature=temperature)
        factors = {"weight": weight, "shrinkage": shrinkage}
        for name, value in factors.items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value!r}.")
        self.config = {**self.config, **factors}

    def adapt(self, z, labels, classes, readable):
        """What Eq. (9) needs of the context.

        Returns
        -------
        prototypes : tensor of shape (B, C, M * H)
            Of embeddings that are multiplied by ``scale``.
        known : bool tensor of shape (B, C)
        scale : tensor of shape (B, 1, M, 1)
        """
        known = known_classes(labels, classes)
        unlabelled = readable & labels.isnan().all(-1)
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(self.log_temperature.dtype)
            member = labels.nan_to_num(0).to(z.dtype)
            shares = super().forward(z, (_means(z, member).flatten(2), known)).softmax(-1)
            # A bool times a float would be of float32.
            member = member + self.config["weight"] * unlabelled[..., None].to(z.dtype) * shares
            means = _means(z, member)
            scale = self._scale(z, member, means)
        return (means * scale).flatten(2), known, scale

    def forward(self, z, state):
        """Logits of Eq. (9): (B, N, M, H) and the result of ``adapt`` to (B, N, C)."""
        prototypes, known, scale = state
        return super().forward(z * scale, (prototypes, known))

    def _scale(self, z, member, means):
        """Root of what the squared distance of an attribute is multiplied by, (B, 1, M, 1)."""
        rows, sizes = member.sum(2), member.sum(1)  # (B, N), (B, C)
        # Around the mean of all, or a large common offset would drown the variances.
        origin = (sizes[..., None, None] * means).sum(1, keepdim=True)
        origin = origin / sizes.sum(1)[:, None, None, None]
        total = (rows[..., None] * (z - origin).square().sum(-1)).sum(1)  # (B, M)
        between = (sizes[..., None] * (means - origin).square().sum(-1)).sum(1)
        within = (total - between).clamp(min=0)
        # The embedding of a constant attribute, or of padding, is zero.
        n_active = (total > 0).sum(1, keepdim=True).clamp(min=1)
        mean = within.sum(1, keepdim=True) / n_active
        ratio = within / mean.clamp(min=torch.finfo(within.dtype).tiny)
        # One row a class leaves none: nothing is known of how embeddings scatter.
        n_free = (sizes.sum(1) - (sizes > 0).sum(1)).clamp(min=0)[:, None]
        shrinkage = self.config["shrinkage"]
        scale = ((n_free + shrinkage) / (n_free * ratio + shrinkage)).sqrt()
        return scale[:, None, :, None]


def _means(z, member):
    """Weighted means of each class: (B, N, M, H) and (B, N, C) to (B, C, M, H)."""
    weights = member / member.sum(1, keepdim=True).clamp(min=1)
    return (weights.transpose(1, 2) @ z.flatten(2)).unflatten(2, z.shape[2:])
