"""Learners: a backbone and a head, which are meta-trained, stored and loaded as one module."""

import math

import torch
from torch import nn

from . import class_groups
from .backbones import BACKBONES, VSAPair
from .few_shot_learner import FewShotLearner
from .heads import HEADS, AttributeGaussianProcess, PrototypesGP
from .memory_learner import MemoryLearner
from .mixture_learner import MixtureLearner
from .text_learner import TextLearner


class Learner(nn.Module):
    """Backbone, which embeds rows, and head, which predicts from the embeddings, in one module.

    Parameters
    ----------
    backbone : str or torch.nn.Module, default="vsa"
        Name of an architecture in ``sklearn_meta.backbones.BACKBONES``, or a module with its
        calling convention (see :class:`sklearn_meta.backbones.VSA`).
    head : str or torch.nn.Module, default="prototypes"
        Name of a head for the task in ``sklearn_meta.heads.HEADS``, or a module with its calling
        convention (see :class:`sklearn_meta.heads.Prototypes`).
    task : {"classification", "regression", "outlier_detection"}, default="classification"
        What the labels are.
    backbone_config, head_config : dict, optional
        Keyword arguments of the named backbone and head.

    Raises
    ------
    ValueError
        If a name is unknown, or the head cannot read the backbone's embeddings.
    """

    def __init__(
        self,
        backbone="vsa",
        head="prototypes",
        *,
        task="classification",
        backbone_config=None,
        head_config=None,
    ):
        super().__init__()
        if task not in HEADS:
            raise ValueError(f"Unknown task {task!r}: choose from {sorted(HEADS)}.")
        self.names = {"backbone": backbone, "head": head}
        self.task = task
        if backbone == "maml":  # its gradient steps need to know what labels are
            backbone_config = {"inner": task, **(backbone_config or {})}
        if backbone == "vsa" and head in ("gp_attributes", "gp_warped"):  # a last channel
            backbone_config = {"attributes": True, **(backbone_config or {})}
        self.backbone = _build("backbone", backbone, backbone_config, BACKBONES)
        self.head = _build(f"{task} head", head, head_config, HEADS[task])
        _check_head(self.head, task)
        if isinstance(self.head, AttributeGaussianProcess):
            config = getattr(self.backbone, "config", {"attributes": True})
            if not config.get("attributes"):
                raise ValueError(
                    f"The head {head!r} needs a backbone that passes the attributes on, such as "
                    "'vsa' with attributes=True ('vsa_pair' passes them to 'prototypes_gp'); "
                    "head='gp' works with every backbone."
                )
        if isinstance(self.head, PrototypesGP):
            if not isinstance(self.backbone, VSAPair):
                raise ValueError(
                    "The head 'prototypes_gp' needs backbone='vsa_pair', which reads rows twice; "
                    "head='prototypes' works with every backbone."
                )
            self.head.widths = self.backbone.widths

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
        }

    @property
    def rate_factors(self):
        """Factors on the rate of parameters that start at random, by pattern of their names."""
        parts = [(name, getattr(m, "rate_factor", None)) for name, m in self.named_modules()]
        # The first pattern that matches applies, so parts of a head come before the head.
        return {f"{name}.*": factor for name, factor in reversed(parts) if factor is not None}

    def forward(self, x, labels, readable, columns, classes):
        """Return the head's output for every row, such as logits (B, N, C).

        Parameters are those of the backbone's call.
        """
        return self.embed_and_predict(x, labels, readable, columns, classes)[1]

    def embed(self, x, labels, readable, columns, classes, memory=None):
        """Return embeddings (B, N, M, H), and the memory that later rows need.

        Parameters are those of the backbone's call.
        """
        if not isinstance(self.backbone, _KNOWN_BACKBONES):  # ours convert dtypes themselves
            dtype = next(self.backbone.parameters(), x).dtype
            x, labels = x.to(dtype), labels.to(dtype)
        task = x, labels, readable, columns, classes, memory
        if self._has_groups(classes.shape[1]):
            return class_groups.embed(self.backbone, *task)
        found = self.backbone(*task)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise ValueError(
                "A backbone must return a pair, the embeddings (B, N, M, H) and the memory for "
                f"later rows; {type(self.backbone).__name__} returned a {type(found).__name__}."
            )
        return found

    def adapt(self, z, labels, classes, readable):
        """State that the head computes from the embeddings and labels of a context."""
        return self.head.adapt(z, self._for_head(z, labels), classes, readable)

    def n_embedding(self, n_columns, n_label_columns):
        """Length of the embedding of a row, an int."""
        n_readings = class_groups.N_GROUPINGS if self._has_groups(n_label_columns) else 1
        return n_readings * self.backbone.n_embedding(n_columns)

    def n_slices(self, n_columns, n_label_columns):
        """Number of attributes and label columns of a row that the backbone reads, an int."""
        grouped = self._has_groups(n_label_columns)
        return n_columns + (self.backbone.most_classes if grouped else n_label_columns)

    def _has_groups(self, n_label_columns):
        """Whether this is a classifier and the classes are too many for the backbone."""
        most = getattr(self.backbone, "most_classes", n_label_columns)
        return self.task == "classification" and n_label_columns > most

    def embed_and_predict(self, x, labels, readable, columns, classes):
        """Embeddings (B, N, M, H) and the head's output for every row."""
        z, _ = self.embed(x, labels, readable, columns, classes)
        return z, self.head.joint(z, self._for_head(z, labels), classes, readable)

    def encode(self, x, labels, columns, classes):
        """Read a context once and return the state that ``continue_from`` needs.

        Rows of the context attend to each other; no row attends to the rows that come later.
        """
        readable = labels.new_ones(labels.shape[:2], dtype=bool)
        z, memory = self.embed(x, labels, readable, columns, classes)
        return memory, self.adapt(z, labels, classes, readable)

    def _for_head(self, z, labels):
        """Labels in the precision of the embeddings, except for heads that convert them."""
        if isinstance(self.head, _KNOWN_HEADS):
            return labels
        return labels.to(torch.promote_types(z.dtype, torch.float32))  # bfloat16 would round them

    def embed_from(self, state, x, columns, classes):
        """Embeddings (B, N, M, H) of new rows, each read from the encoded context alone."""
        memory, _ = state
        labels = x.new_full((*x.shape[:2], classes.shape[1]), math.nan)
        readable = x.new_zeros(x.shape[:2], dtype=bool)
        z, _ = self.embed(x, labels, readable, columns, classes, memory)
        return z

    def continue_from(self, state, x, columns, classes):
        """Embeddings and outputs of new rows, each read from the encoded context alone."""
        z = self.embed_from(state, x, columns, classes)
        return z, self.head(z, state[1])


_KNOWN_BACKBONES = tuple(BACKBONES.values())
_KNOWN_HEADS = tuple(head for task in HEADS.values() for head in task.values())


def _check_head(head, task):
    """Refuse a user's module that is not a head, or is a head for another task."""
    needed = ("adapt", "joint", "loss", "score", "score_name")
    if missing := [name for name in needed if not hasattr(head, name)]:
        raise ValueError(
            f"{type(head).__name__} is not a head: it lacks {', '.join(missing)}. Derive it from "
            "ClassificationHead or RegressionHead of sklearn_meta.heads.base."
        )
    if (own := getattr(head, "task", task)) != task:
        raise ValueError(
            f"{type(head).__name__} is a head for {own}, but the learner is for {task}."
        )


def build_learner(config):
    """Build the learner that ``learner.config`` describes, with random weights.

    Parameters
    ----------
    config : dict

    Returns
    -------
    Learner, FewShotLearner, MemoryLearner, MixtureLearner or TextLearner

    Raises
    ------
    ValueError, TypeError
        If ``config`` names an unknown part or argument.
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
    # Float32 whatever torch's default dtype is: loaded weights are cached for all later loads.
    return registry[module](**(config or {})).float()


def as_text(backbone):
    """Text of a backbone for error messages: a module's repr has a line for every layer."""
    return f"{type(backbone).__name__}(...)" if isinstance(backbone, nn.Module) else repr(backbone)
