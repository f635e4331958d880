"""The optimisers of meta-training, by name, and their learning-rate schedules."""

import importlib
import math

import torch

from .interrupts import deferred_interrupts

#: Minimum number of rows and of columns for Muon: the gradient of a smaller matrix has too few
#: directions to be worth making equal.
LEAST_SIDE = 8


class MuonAdamW(torch.optim.Optimizer):
    """Muon for the matrices of a network and AdamW for everything else, at one learning rate.

    Muon's step for a matrix has the directions of the gradient, all of equal length. A square
    matrix of 64 x 64 moves an eighth as far as with AdamW at the same rate, so the rate can be
    high, as kernels and temperatures of heads need it to be.

    Parameters
    ----------
    params : iterable of Parameter, or of dict
        Parameters with two dimensions, each of 8 or more, are optimised by Muon.
    lr, weight_decay : float, default=5e-3 and 0.01

    References
    ----------
    K. Jordan et al. Muon: an optimizer for hidden layers in neural networks. 2024.
    J. Liu et al. Muon is scalable for LLM training. 2025.
    """

    def __init__(self, params, lr=5e-3, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        of_muon = [_part(group, matrices=True) for group in self.param_groups]
        of_adamw = [_part(group, matrices=False) for group in self.param_groups]
        self._parts = [torch.optim.Muon(of_muon), torch.optim.AdamW(of_adamw)]
        self.param_groups = [group for part in self._parts for group in part.param_groups]
        self._share()

    def _share(self):
        """Make both parts use this object's state and groups, as schedules and checkpoints do."""
        begin = 0
        for part in self._parts:
            end = begin + len(part.param_groups)
            part.state, part.param_groups = self.state, self.param_groups[begin:end]
            begin = end

    def step(self, closure=None):
        """Take one step with both parts; return the loss if ``closure`` computes it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self._parts:
            part.step()
        return loss

    def add_param_group(self, param_group):
        """Add a group while the optimiser is being made; refuse one later.

        Which parameters Muon gets, and which AdamW, is then settled.

        Raises
        ------
        ValueError
            If the optimiser is complete.
        """
        if hasattr(self, "_parts"):
            raise ValueError("MuonAdamW cannot add parameters later: create one with all of them.")
        super().add_param_group(param_group)

    def __getstate__(self):
        # Copy the parts together with state and groups, so that they still share them.
        return {**super().__getstate__(), "_parts": self._parts}

    def load_state_dict(self, state_dict):
        """Load the state of an earlier run."""
        super().load_state_dict(state_dict)
        self._share()


def _part(group, *, matrices):
    """Copy a group's settings, with only its matrices or only its other parameters."""
    chosen = [p for p in group["params"] if matrices == _is_matrix(p)]
    return {**group, "params": chosen}


def _is_matrix(parameter):
    return parameter.ndim == 2 and min(parameter.shape) >= LEAST_SIDE


#: Class and settings of each name. Fused AdamW reads its numbers once rather than ten times, which
#: speeds up word vectors and many small matrices.
OPTIMIZERS = {
    "adagrad": (torch.optim.Adagrad, {}),
    "adamw": (torch.optim.AdamW, {"fused": True}),
    "muon": (MuonAdamW, {}),
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.95, "momentum": 0.9}),
}


def import_compiler():
    """Import what torch imports for the first optimizer of a process, deferring Ctrl-C until then.

    The import takes seconds. If Ctrl-C interrupted it, half-imported modules would be broken until
    the end of the process.
    """
    with deferred_interrupts():
        importlib.import_module("torch._dynamo")


def rates(learning_rate, factors):
    """Parameter groups with their own rates, in skorch's form: pattern of names, settings.

    Parameters
    ----------
    learning_rate : float
    factors : dict
        Pattern of parameter names -> factor on their rate; the first pattern that matches applies.

    Returns
    -------
    list of (str, dict)
    """
    return [
        (prefix + pattern, {"lr": factor * learning_rate})
        for prefix in ("", "module.")  # prefix of names if several processes wrap the network
        for pattern, factor in factors.items()
    ]


def rate_at(step, n_steps, n_warmup, schedule="cosine"):
    """Factor on the learning rate: linear warm-up, then as ``schedule`` says.

    Parameters
    ----------
    step : int
        Number of the step, from 0.
    n_steps, n_warmup : int
        Number of steps of the whole run, and of its warm-up.
    schedule : {"cosine", "noam", "constant"}, default="cosine"

    Returns
    -------
    float
    """
    if step < n_warmup:
        return (step + 1) / n_warmup
    if schedule == "noam":
        return math.sqrt(max(n_warmup, 1) / (step + 1))
    if schedule == "constant":
        return 1.0
    position = min((step - n_warmup) / max(n_steps - n_warmup, 1), 1.0)
    return 0.5 * (1 + math.cos(math.pi * position))
