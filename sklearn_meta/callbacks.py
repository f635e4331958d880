"""Callbacks of meta-training: one small skorch callback for each job."""

import csv
import os
from collections import defaultdict
from contextlib import suppress
from numbers import Real

import numpy as np
from skorch.callbacks import Callback
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .distributed import is_first_process
from .folders import check_writable, expanded
from .progress import ProgressBar
from .user_warnings import warn


class MovingAverage(Callback):
    """Exponential moving average of the weights; without a decay, the weights themselves.

    Parameters
    ----------
    learner : Learner
    decay : float or None
        Weight of the previous average in each update.

    Attributes
    ----------
    learner : Learner
        The learner that is validated and kept.
    """

    def __init__(self, learner, decay):
        self.trained = self.learner = learner
        self.average = None
        if decay is not None:
            self.average = AveragedModel(learner, multi_avg_fn=get_ema_multi_avg_fn(decay))
            self.learner = self.average.module

    def on_batch_end(self, net, training=False, **kwargs):
        if training and self.average is not None:
            self.average.update_parameters(self.trained)


def best_epoch(history):
    """Position of the lowest validation loss in a history; NaN is higher than any."""
    losses = history[:, "valid_loss"]
    return min(range(len(losses)), key=lambda i: (np.isnan(losses[i]), losses[i]))


class Divergence(Callback):
    """End training if the loss or a weight is no longer finite.

    Parameters
    ----------
    has_best : callable
        Returns whether there are earlier weights to keep. Then a warning is given, otherwise an
        error is raised, since the weights are lost.
    """

    def __init__(self, has_best):
        self.has_best = has_best
        self.has_come = False

    def on_epoch_end(self, net, **kwargs):
        loss = net.history[-1, "train_loss"]
        what = f"the loss became {loss}"
        if np.isfinite(loss):  # the last step may have broken the weights all the same
            if all(weights.isfinite().all() for weights in net.module_.parameters()):
                return
            what = "weights are no longer finite"
        told = (
            f"Training diverged: {what}. Lower learning_rate, or look for values in the data that "
            "are far too large."
        )
        if not self.has_best():
            raise ValueError(told)
        warn(f"{told} The weights of the lowest validation loss are kept.")
        self.has_come = True
        net.history.pop()  # scores of lost weights
        raise KeyboardInterrupt  # skorch then ends the run


class StratumScores(Callback):
    """Record the mean score of the validation tasks, of all and by stratum, such as shots.

    Parameters
    ----------
    name : str
        Name of the score, such as "accuracy".
    stratum : str
        What the numbers that come with the scores count, such as "shots".
    gather : callable
        Concatenates the lists of all processes.
    """

    def __init__(self, name, stratum, gather):
        self.name = f"valid_{name}"
        self.stratum = stratum
        self.gather = gather
        self.scores = []

    def on_batch_end(self, net, training=False, scores=(), **kwargs):
        self.scores += scores

    def on_epoch_end(self, net, **kwargs):
        scores, self.scores = sorted(self.gather(self.scores)), []  # a sum depends on its order
        by_number = defaultdict(list)
        for number, score in scores:
            by_number[number].append(score)
        if scores:
            net.history.record(self.name, float(np.mean([score for _, score in scores])))
        for number, found in by_number.items():
            net.history.record(f"{self.name}_{number}_{self.stratum}", float(np.mean(found)))


class CSVLog(Callback):
    """Callback that writes the losses, scores and duration of each epoch to a CSV file.

    Parameters
    ----------
    path : path
        File, rewritten after each epoch and at the end, including the earlier epochs of a resumed
        run. If the disk is full, the callback warns and the run continues.
    """

    def __init__(self, path):
        self.path = path

    def on_train_begin(self, net, **kwargs):
        if is_first_process():
            check_writable(expanded(self.path), "CSVLog")

    def on_epoch_end(self, net, **kwargs):
        epochs = [epoch for epoch in net.history if "train_loss" in epoch]  # whole ones
        if not epochs or not is_first_process():
            return
        rows = [{k: v for k, v in e.items() if isinstance(v, Real)} for e in epochs]
        path = expanded(self.path)
        partial = path.with_name(f"{path.name}.partial")
        try:
            with open(partial, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, sorted(set().union(*rows)))
                writer.writeheader()
                writer.writerows(rows)
            os.replace(partial, path)
        except OSError as error:  # names no file if the disk is full
            with suppress(OSError):  # the disk may have become read-only
                partial.unlink(missing_ok=True)
            warn(  # hours of training are worth more than a log
                f"CSVLog: {path} cannot be written ({error}): make room on the disk. Training goes "
                "on, and the log is written anew after the next epoch.",
            )

    def on_train_end(self, net, **kwargs):
        """Write once more: a kill may have come between the last checkpoint and its line here."""
        self.on_epoch_end(net)


class Patience(Callback):
    """End training after ``n_epochs`` without a lower validation loss; None never does.

    It uses the history alone, so a resumed run ends where the uninterrupted one would. ``n_seen``
    is the number of the last epoch whose end it has seen.
    """

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs
        self.n_seen = 0

    def is_over(self, history):
        if self.n_epochs is None or not history:
            return False
        return len(history[:, "valid_loss"]) - best_epoch(history) > self.n_epochs

    def on_epoch_end(self, net, **kwargs):
        self.n_seen = len(net.history)
        if self.is_over(net.history):
            raise KeyboardInterrupt  # skorch then ends the run


class Progress(Callback):
    """Show one progress bar over all steps, with the last validation scores beside it."""

    #: tqdm cuts a line at the width of the terminal, so what matters most comes first.
    LINE = (
        "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} "
        "[{elapsed}<{remaining}{postfix}, {rate_fmt}]"
    )

    def __init__(self, n_steps, score_name):
        self.n_steps = n_steps
        self.score_name = score_name

    def on_train_begin(self, net, **kwargs):
        done = sum(epoch.get("train_batch_count", 0) for epoch in net.history)
        shown = {"total": self.n_steps, "initial": done, "desc": "meta_fit", "unit": "step"}
        self.bar_ = ProgressBar(**shown, bar_format=self.LINE)

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.bar_.update()

    def on_epoch_end(self, net, **kwargs):
        names = (f"valid_{self.score_name}", "valid_loss", "train_loss")
        shown = {k: f"{net.history[-1][k]:.4f}" for k in names if k in net.history[-1]}
        self.bar_.set_postfix(shown)

    def on_train_end(self, net, **kwargs):
        self.bar_.close()
