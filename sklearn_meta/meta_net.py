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
        Holds the learner that the validation tasks are given to.
    processes : OneProcess or ManyProcesses
        Those that share each batch.
    strata : callable
        By which number the scores of a group's tasks are kept apart, a list, from its inputs.
    seed : int, of dropout
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
        """Seeded by the epoch's number: a run that goes on draws the dropout of a whole one."""
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
        """Gradient of a batch: the groups' gradients add up, so only one group is in memory."""
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
        """Loss of a batch, and its ``scores``: stratum and score of each task."""
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
        """Mean loss of validation batches, as an epoch's history has it, a float."""
        losses = [self.validation_step(batch)["loss"].item() for batch in batches]
        return float(np.average(losses, weights=[get_len(batch[0]) for batch in batches]))


class Loss(nn.Module):
    """A loss function as the class that skorch asks for, and that its callbacks may store.

    Parameters
    ----------
    function : callable
        Of output and target; it has no parameters.
    """

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, output, target):
        return self.function(output, target)
