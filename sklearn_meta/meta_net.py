"""skorch's training loop, for batches that are groups of tasks."""

import numpy as np
import torch
from skorch import NeuralNet
from skorch.dataset import get_len
from torch import nn

from .devices import autocast
from .seeding import seeded


class MetaNet(NeuralNet):
    """skorch's training loop over batches of groups of tasks.

    Parameters
    ----------
    precision : {"auto", "float32", "bfloat16"}
        See :func:`meta_train`.
    average : MovingAverage
        Holds the learner that is validated.
    processes : OneProcess or ManyProcesses
        The processes that share each batch.
    strata : callable
        Returns a list with the stratum of each task of a group, a number, from the group's inputs.
    seed : int
        Seed of dropout.
    """

    def __init__(self, *args, precision, average, processes, strata, seed, **kwargs):
        super().__init__(*args, **kwargs)
        self.precision = precision
        self.average = average
        self.processes = processes
        self.strata = strata
        self.seed = seed

    def initialize_module(self):
        super().initialize_module()
        self.module_ = self.processes.prepare(self.module_.to(self.device))
        return self

    def run_single_epoch(self, iterator, training, *args, **kwargs):
        """Seed by the epoch's number: a resumed run draws the same dropout as a whole one."""
        with seeded(1_000_003 * self.seed + len(self.history) - 1 if training else None):
            super().run_single_epoch(iterator, training, *args, **kwargs)
        if training:
            for learner in (self.average.trained, self.average.learner):
                self.processes.share_buffers(learner)

    def _loss(self, module, group):
        """Output and loss of one group of tasks."""
        inputs, target = group
        with autocast(self.device, self.precision):
            output = module(**{name: tensor.to(self.device) for name, tensor in inputs.items()})
        return output, self.criterion_(output, target.to(self.device))

    def train_step_single(self, batch, **fit_params):
        """Compute the gradient of a batch group by group: only one group is in memory at a time."""
        self._set_training(True)
        losses = []
        for i, group in enumerate(batch):
            with self.processes.gradients(self.module_, complete=i + 1 == len(batch)):
                output, loss = self._loss(self.module_, group)
                losses.append(loss / len(batch))
                losses[-1].backward()
        loss = self.processes.mean(torch.stack(losses).detach().sum())
        return {"loss": loss, "y_pred": output}

    def validation_step(self, batch, **fit_params):
        """Return the loss of a batch, and as ``scores`` the stratum and score of each task."""
        self.average.learner.eval()
        losses, scores = [], []
        with torch.no_grad():
            for group in batch:
                output, loss = self._loss(self.average.learner, group)
                losses.append(loss)
                score = self.average.learner.head.score(output, group[1].to(self.device)).tolist()
                scores += zip(self.strata(group[0]), score, strict=True)
        loss = self.processes.mean(torch.stack(losses).mean())
        return {"loss": loss, "y_pred": output, "scores": scores}

    def validation_loss(self, batches):
        """Mean loss of validation batches, computed as for an epoch's history, a float."""
        losses = [self.validation_step(batch)["loss"].item() for batch in batches]
        return float(np.average(losses, weights=[get_len(batch[0]) for batch in batches]))


class Loss(nn.Module):
    """Loss function wrapped as a module, which skorch requires and its callbacks may store.

    Parameters
    ----------
    function : callable
        Function of output and target, without parameters to learn.
    """

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, output, target):
        return self.function(output, target)
