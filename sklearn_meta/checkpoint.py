"""The state of a meta-training run on disk, from which a killed run goes on."""

import hashlib
import json
import math
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from skorch.callbacks import Callback
from skorch.history import History

CHECKPOINT = "checkpoint.safetensors"


class Checkpoint(Callback):
    """Keeps the best weights, and writes the whole state of training after each epoch.

    One safetensors file holds the weights, their average, the best weights and the optimiser's
    state; its header holds the history. It is replaced atomically, so a kill leaves the last one
    whole.

    Parameters
    ----------
    folder : path or None
        None keeps everything in memory.
    schedule : dict
        Settings that a run which goes on must share.
    average : MovingAverage
        Its ``trained`` weights are trained, those of its ``learner`` are judged and kept.
    is_writer : bool, default=True
        Of several processes one writes; all of them read.
    """

    def __init__(self, folder, schedule, average, is_writer=True):
        self.path = Path(folder) / CHECKPOINT if folder is not None else None
        self.schedule = schedule
        self.average = average
        self.is_writer = is_writer
        self.n_epochs = 0
        self.best = None
        self.best_loss = math.inf

    def on_epoch_begin(self, net, dataset_train=None, **kwargs):
        """Tell the stream which epoch's batches come next, and seed what is random in a step.

        By the epoch, so that a run that goes on draws the same dropout as one that was not ended.
        """
        dataset_train.epoch = len(net.history) - 1
        torch.manual_seed(1_000_003 * self.schedule["random_state"] + dataset_train.epoch)

    def on_epoch_end(self, net, **kwargs):
        """Keep the weights if they are the best, and write the checkpoint."""
        record = net.history[-1]
        if record.get("valid_loss", math.inf) < self.best_loss:
            self.best_loss = record["valid_loss"]
            weights = self.average.learner.state_dict()
            self.best = {k: v.detach().clone() for k, v in weights.items()}
        if self.path is not None and self.is_writer:
            self._write(net)

    def _write(self, net):
        groups = {"weights": self.average.trained.state_dict(), "best": self.best or {}}
        if self.average.average is not None:
            groups["average"] = self.average.average.state_dict()
        tensors = {f"{g}.{k}": v.contiguous() for g, d in groups.items() for k, v in d.items()}
        for i, slots in net.optimizer_.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{slot}": v.contiguous() for slot, v in slots.items()}
        history = [{k: v for k, v in e.items() if k != "batches"} for e in net.history]
        header = {
            "schedule": json.dumps(self.schedule),
            "history": json.dumps(history),
            "best_loss": json.dumps(self.best_loss),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        save_file(tensors, partial, metadata=header)
        os.replace(partial, self.path)

    def restore(self, net):
        """Take up the state of an earlier run with the same schedule, if there is one."""
        if self.path is None or not self.path.is_file():
            return
        try:
            with safe_open(self.path, "pt", device=str(net.device)) as file:
                header = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except SafetensorError as error:
            raise ValueError(
                f"{self.path} is damaged ({error}): remove it, or give another checkpoint_dir."
            ) from error
        theirs, ours = json.loads(header["schedule"]), json.loads(json.dumps(self.schedule))
        theirs.setdefault("start", ours.get("start"))  # of a version that did not tell
        if theirs != ours:
            raise ValueError(
                f"{self.path} belongs to a run with other settings: {_difference(theirs, ours)}. "
                "Give the same settings to go on with it, or another checkpoint_dir to start anew."
            )
        group = {"weights": {}, "average": {}, "best": {}, "optimizer": {}}
        for name, tensor in tensors.items():
            kind, key = name.split(".", 1)
            group[kind][key] = tensor
        try:
            self.average.trained.load_state_dict(group["weights"])
            if self.average.average is not None:
                self.average.average.load_state_dict(group["average"])
        except RuntimeError as error:  # a module of the user's own has no config to compare
            raise ValueError(f"{self.path} holds weights of another module: {error}") from error
        self.best = group["best"] or None
        self.best_loss = json.loads(header["best_loss"])
        state = net.optimizer_.state_dict()
        for name, tensor in group["optimizer"].items():
            i, slot = name.split(".", 1)
            state["state"].setdefault(int(i), {})[slot] = tensor
        net.optimizer_.load_state_dict(state)
        epochs = json.loads(header["history"])
        net.history = History([{**epoch, "batches": []} for epoch in epochs])
        self.n_epochs = len(epochs)


def digest(learner):
    """What tells the weights of a learner from others.

    Parameters
    ----------
    learner : torch.nn.Module

    Returns
    -------
    str
        The sha256 of names and bytes of its parameters and buffers.
    """
    hashed = hashlib.sha256()
    for name, tensor in learner.state_dict().items():
        hashed.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        hashed.update(flat.view(torch.uint8).numpy())  # numpy knows no bfloat16
    return hashed.hexdigest()


def _difference(theirs, ours, longest=60):
    """In words, the settings of two runs that are not the same."""
    told = []
    for name in sorted(theirs.keys() | ours.keys()):
        pair = theirs.get(name), ours.get(name)
        if isinstance(pair[0], dict) and isinstance(pair[1], dict) and pair[0] != pair[1]:
            told.append(f"{name} ({_difference(*pair, longest)})")
        elif pair[0] != pair[1]:
            texts = [repr(value) for value in pair]
            shown = [text[:longest] + "..." * (len(text) > longest) for text in texts]
            told.append(f"{name} was {shown[0]} and is {shown[1]}")
    return "; ".join(told)
