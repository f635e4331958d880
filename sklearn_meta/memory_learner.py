"""The learner of sequences: a memory-augmented network, and a head that encodes labels."""

import torch
from torch import nn

from .backbones.mann import MANN
from .heads import HEADS
from .sizes import check_integers

TASKS = ("online_classification", "online_regression")


class MemoryLearner(nn.Module):
    """Backbone and head for rows that arrive one after another (paper 002, section 2).

    At each step the network reads a row and the label of the row before it, and predicts the label
    of this row: ``(x_1, null), (x_2, y_1), ..., (x_T, y_{T-1})``.

    Parameters
    ----------
    backbone : "mann", default="mann"
    head : {"onehot", "string"} or "gaussian", default="onehot"
        Form of the labels; "gaussian" is for the task "online_regression".
    task : {"online_classification", "online_regression"}, default="online_classification"
    inputs : {"tables", "vectors", "pixels"}, default="tables"
        Whether rows come from tables with any columns, which are projected to the length that the
        network reads, or are vectors of that length. Pixels are vectors in [0, 1], and others are
        refused.
    n_inputs : int, default=32
        Length of the vectors that the network reads.
    backbone_config, head_config : dict, optional
        Keyword arguments of :class:`sklearn_meta.backbones.MANN`, except its inputs and outputs,
        and of the head.

    Raises
    ------
    ValueError
        If an argument is unknown, or there are no inputs.
    """

    n_channels = 1  # number of channels, if it reads pixels

    def __init__(
        self,
        backbone="mann",
        head="onehot",
        *,
        task="online_classification",
        inputs="tables",
        n_inputs=32,
        backbone_config=None,
        head_config=None,
    ):
        super().__init__()
        if task not in TASKS:
            raise ValueError(f"Unknown task {task!r}: choose from {list(TASKS)}.")
        heads = HEADS[task]
        if backbone != "mann" or head not in heads:
            raise ValueError(
                f"A learner for {task!r} needs backbone='mann' and a head from {list(heads)}, got "
                f"{backbone!r} and {head!r}."
            )
        if inputs not in ("tables", "vectors", "pixels"):
            raise ValueError(f"inputs must be 'tables', 'vectors' or 'pixels', got {inputs!r}.")
        check_integers(n_inputs=n_inputs)
        self.names = {"backbone": backbone, "head": head}
        self.task = task
        self.inputs = inputs
        self.n_inputs = n_inputs
        self.head = heads[head](**(head_config or {}))
        self.backbone = MANN(
            n_inputs + self.head.n_inputs, self.head.n_outputs, **(backbone_config or {})
        )
        self.float()  # whatever torch's default dtype is

    @property
    def config(self):
        """Keyword arguments that build this learner again."""
        return {
            **self.names,
            "task": self.task,
            "inputs": self.inputs,
            "n_inputs": self.n_inputs,
            "backbone_config": dict(self.backbone.config),
            "head_config": dict(self.head.config),
        }

    def forward(self, x, labels):
        """Outputs for whole sequences; each step sees its row, and earlier rows and labels.

        Parameters
        ----------
        x : tensor of shape (B, T, n_inputs)
        labels : tensor of shape (B, T, L)
            Input of ``head.encode``; each label is shown to the network one step later.

        Returns
        -------
        tensor of shape (B, T, O)
        """
        nothing = torch.full_like(labels[:, :1], self.no_label)
        return self.present(x, torch.cat([nothing, labels[:, :-1]], 1))[0]

    @property
    def no_label(self):
        """Value that stands for a missing label."""
        return -1 if self.task == "online_classification" else torch.nan

    def present(self, x, previous, state=None):
        """Read some rows, continuing from a state.

        Parameters
        ----------
        x : tensor of shape (B, T, n_inputs)
        previous : tensor of shape (B, T, L)
            Label of the row before each row.
        state : State, default=None
            If None, start from the initial state.

        Returns
        -------
        outputs : tensor of shape (B, T, O)
        state : State
        """
        return self.backbone(torch.cat([x, self.head.encode(previous).to(x.dtype)], 2), state)
