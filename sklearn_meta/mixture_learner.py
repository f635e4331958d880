"""The learner of mixtures: rounds of EM, in which a network advises and a head computes."""

import torch
from torch import nn

from .backbones import MixtureTransformer
from .heads import LearnedMoments
from .tasks.mixtures import COVARIANCE_TYPES


class MixtureLearner(nn.Module):
    """Network that estimates a Gaussian mixture from a set of points in a fixed number of rounds.

    Components start from points far apart. In each round the head computes statistics of the points
    of each component, the backbone reads those of all components together and advises how far to
    trust them, the head makes a mixture of both, and the points are divided anew among its
    components. Points and columns enter through sums alone, so there may be any number of either,
    in any order.

    Parameters
    ----------
    backbone : "mixture_transformer", default="mixture_transformer"
    head : "moments", default="moments"
    task : "mixture", default="mixture"
    backbone_config, head_config : dict, optional
        Keyword arguments of :class:`sklearn_meta.backbones.MixtureTransformer` and
        :class:`sklearn_meta.heads.LearnedMoments`.

    Raises
    ------
    ValueError
        If the backbone, head or task has another name.

    References
    ----------
    Set Transformer (paper 001), section 4.3: components are the seeds of Eq. (13), drawn from the
    data; responsibilities are their attention to the points; Eq. (7) is how they read each other.
    """

    task = "mixture"
    names = {"backbone": "mixture_transformer", "head": "moments"}

    def __init__(
        self,
        backbone=names["backbone"],
        head=names["head"],
        *,
        task=task,
        backbone_config=None,
        head_config=None,
    ):
        super().__init__()
        if {"backbone": backbone, "head": head} != self.names or task != self.task:
            raise ValueError(
                f"A learner for {self.task!r} needs {self.names}, got {backbone!r}, {head!r}, "
                f"{task!r}."
            )
        self.head = LearnedMoments(**(head_config or {}))
        self.backbone = MixtureTransformer(
            self.head.N_FEATURES, self.head.N_ADVICE, **(backbone_config or {})
        )
        self.float()  # whatever torch's default dtype is

    @property
    def config(self):
        """Keyword arguments that build this learner again."""
        return {
            **self.names,
            "task": self.task,
            "backbone_config": dict(self.backbone.config),
            "head_config": dict(self.head.config),
        }

    def forward(self, x, mask, columns, n_components, covariance_type, first=0.5):
        """Compute the mixtures of a batch of sets, after each round.

        Parameters
        ----------
        x : tensor of shape (B, N, D)
            Points; each column has zero mean and unit variance over the points of its set, or all
            columns together have unit variance if spherical. Zero at padding.
        mask : bool tensor of shape (B, N)
            True at points, False at padding.
        columns : bool tensor of shape (B, D)
            True at columns that are not padding.
        n_components : int tensor of shape (B,)
        covariance_type : int, or int tensor of shape ()
            Position in ``sklearn_meta.tasks.mixtures.COVARIANCE_TYPES``.
        first : float in [0, 1], default=0.5
            Position of the first component at the start, as a rank between middle and rim of the
            set.

        Returns
        -------
        list of Mixture, and ``columns``
            The last mixture is the answer; the others serve the loss.
        """
        kind = COVARIANCE_TYPES[int(covariance_type)]
        full = kind == "full"
        mixtures, memory, division = [], None, None
        with torch.autocast(x.device.type, enabled=False):  # sums of many points
            spherical = kind == "spherical"
            r, present = self.head.start(x, mask, columns, n_components, spherical, first)
            for i, advise in enumerate(self.backbone.rounds):
                if i:
                    r = self.head.responsibilities(x, mask, mixtures[-1], division, columns)
                moments = self.head.moments(x, r, full)
                features = self.head.features(moments, present, columns, full)
                advice, memory = advise(features, present, memory)
                mixture, division = self.head.mixture(moments, advice, present, columns, kind)
                mixtures.append(mixture)
        return [*mixtures, columns]
