"""A learner is a backbone and a head: the thing that is meta-trained, stored and loaded."""

import math

import torch
from torch import nn

from .backbones import BACKBONES
from .backbones.standardisation import normal_scores, order_of
from .few_shot_learner import FewShotLearner
from .heads import HEADS
from .memory_learner import MemoryLearner
from .mixture_learner import MixtureLearner
from .text_learner import TextLearner


class Learner(nn.Module):
    """Backbone x head.

    Parameters
    ----------
    backbone : str or torch.nn.Module, default="vsa"
        Name of an architecture in ``sklearn_meta.backbones.BACKBONES``, or a module with its
        calling convention (see :class:`sklearn_meta.backbones.VSA`).
    head : str or torch.nn.Module, default="prototypes"
        Name of a head of the task in ``sklearn_meta.heads.HEADS``, or a module with its calling
        convention (see :class:`sklearn_meta.heads.Prototypes`).
    task : {"classification", "regression"}, default="classification"
        What labels are.
    backbone_config, head_config : dict, optional
        Keyword arguments of the named backbone and head.
    views : sequence of {"values", "ranks"}, default=("values",)
        What is read in the place of attributes: their values, or the normal scores of their ranks
        in the column. Each view is read by itself, and predictions are averaged; embeddings are
        those of the first. While training the first alone is read. Not in the paper.

    Raises
    ------
    ValueError
        If a name is unknown, or the head cannot average.
    """

    def __init__(
        self,
        backbone="vsa",
        head="prototypes",
        *,
        task="classification",
        backbone_config=None,
        head_config=None,
        views=("values",),
    ):
        super().__init__()
        if not views or not set(views) <= {"values", "ranks"}:
            raise ValueError(f"views must be chosen from 'values' and 'ranks', got {views!r}.")
        self.views = list(views)
        self.names = {"backbone": backbone, "head": head}
        self.task = task
        if backbone == "maml":  # its gradient steps need to know what labels are
            backbone_config = {"inner": task, **(backbone_config or {})}
        self.backbone = _build("backbone", backbone, backbone_config, BACKBONES)
        self.head = _build(f"{task} head", head, head_config, HEADS[task])
        if len(views) > 1 and not hasattr(self.head, "average"):
            raise ValueError(f"Head {head!r} has no average of views: give one view.")

    @property
    def config(self):
        """Keyword arguments that build this learner again, or None for a user's own modules."""
        if not all(isinstance(name, str) for name in self.names.values()):
            return None
        return {
            **self.names,
            "task": self.task,
            "backbone_config": dict(self.backbone.config),
            "head_config": dict(self.head.config),
            "views": list(self.views),
        }

    def forward(self, x, labels, readable, columns, classes):
        """The head's output for every row, such as logits (B, N, C).

        Parameters are those of the backbone's call.
        """
        return self.embed_and_predict(x, labels, readable, columns, classes)[1]

    def embed_and_predict(self, x, labels, readable, columns, classes):
        """Embeddings (B, N, M, H) and the head's output of every row."""
        z, labels, classes, readable = self._embed(x, labels, readable, columns, classes)
        return z[: len(x)], self._averaged(self.head.joint(z, labels, classes, readable))

    def predict_jointly(self, x, labels, readable, columns, classes, n_context):
        """Output of the rows after the context, and their covariance (B, C, N, N)."""
        z, *given = self._embed(x, labels, readable, columns, classes)
        return self._jointly(z[:, n_context:], self.head.adapt(z, *given))

    def encode(self, x, labels, columns, classes):
        """Read a context once: the state that ``continue_from`` needs of it.

        Every row of the context may read every other; rows seen later are read by nobody.
        """
        readable = labels.new_ones(labels.shape[:2], dtype=bool)
        order = self._order(x, readable)
        labels, readable, columns, classes = self._repeated(labels, readable, columns, classes)
        z, memory = self.backbone(self._seen(x, order), labels, readable, columns, classes)
        return order, memory, self.head.adapt(z, labels, classes, readable)

    def continue_from(self, state, x, columns, classes):
        """Embeddings and outputs of new rows, each read from the encoded context alone."""
        z = self._embed_more(state, x, columns, classes)
        return z[: len(x)], self._averaged(self.head(z, state[-1]))

    def continue_jointly(self, state, x, columns, classes):
        """Outputs of new rows, and their covariance (B, C, N, N)."""
        return self._jointly(self._embed_more(state, x, columns, classes), state[-1])

    # Views lie one after the other along the batch, so that all of them are one forward pass.

    def _views(self):
        return self.views[:1] if self.training else self.views

    def _order(self, x, readable):
        return order_of(x, readable) if "ranks" in self._views() else None

    def _seen(self, x, order):
        """Attributes in each view: (B, N, M) to (V * B, N, M)."""
        if order is None:
            return x
        seen = {"values": x, "ranks": normal_scores(x, order).masked_fill(x.isnan(), math.nan)}
        return torch.cat([seen[view] for view in self._views()])

    def _repeated(self, *tensors):
        n = len(self._views())
        return [tensor.repeat(n, *[1] * (tensor.dim() - 1)) for tensor in tensors]

    def _embed(self, x, labels, readable, columns, classes):
        """Embeddings (V * B, N, M, H) of every row, and what heads read besides."""
        seen = self._seen(x, self._order(x, readable))
        labels, readable, columns, classes = self._repeated(labels, readable, columns, classes)
        z, _ = self.backbone(seen, labels, readable, columns, classes)
        return z, labels, classes, readable

    def _embed_more(self, state, x, columns, classes):
        order, memory, _ = state
        labels = x.new_full((*x.shape[:2], classes.shape[1]), math.nan)
        readable = x.new_zeros(x.shape[:2], dtype=bool)
        given = self._repeated(labels, readable, columns, classes)
        return self.backbone(self._seen(x, order), *given, memory)[0]

    def _averaged(self, output):
        n = len(self._views())
        return output if n == 1 else self.head.average(output.unflatten(0, (n, -1)))

    def _jointly(self, z, state):
        output, covariance = self.head(z, state), self.head.covariance(z, state)
        n = len(self._views())
        if n == 1:
            return output, covariance
        output, covariance = (part.unflatten(0, (n, -1)) for part in (output, covariance))
        return self.head.average(output), self.head.average_covariance(covariance, output)


def build_learner(config):
    """The learner that ``learner.config`` describes, with random weights.

    Parameters
    ----------
    config : dict

    Returns
    -------
    Learner, FewShotLearner, MemoryLearner, MixtureLearner or TextLearner

    Raises
    ------
    ValueError, TypeError
        If it names what there is not.
    """
    if config.get("task") == MixtureLearner.task:
        return MixtureLearner(**config)
    if config.get("task") == FewShotLearner.task:
        return FewShotLearner(**config)
    if str(config.get("task")).startswith("online_"):
        return MemoryLearner(**config)
    if str(config.get("task")).startswith("text_"):
        return TextLearner(**config)
    return Learner(**config)


def _build(kind, module, config, registry):
    if isinstance(module, nn.Module):
        return module
    if module not in registry:
        raise ValueError(f"Unknown {kind} {module!r}: choose from {sorted(registry)}.")
    return registry[module](**(config or {}))
