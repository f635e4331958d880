"""The state of a meta-training run on disk, from which a killed run resumes."""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from skorch.callbacks import Callback, PassthroughScoring
from skorch.history import History

from .distributed import is_first_process
from .fingerprint import difference, tensors_digest
from .folders import CHECKPOINT, checkpoint_file, locked

#: Kinds of tensors that a checkpoint holds.
_GROUPS = {"weights", "average", "best", "optimizer"}


class Begun(NamedTuple):
    """A run in a folder that has returned its weights, interrupted or not."""

    folder: str
    weights: str  # digest
    settings: dict  # of meta_train, with which the checkpoint began

    def goes_on(self, folder, weights):
        """Whether a run in this folder that starts from these weights continues this one."""
        return self[:2] == (folder, weights) and Path(folder, CHECKPOINT).is_file()


class Checkpoint(Callback):
    """Keeps the best weights, and writes the whole state of training after each epoch.

    One safetensors file holds the weights, their average, the best weights and the optimiser's
    state; its header holds the history, and the sha256 of everything. It is replaced atomically, so
    a kill leaves the previous file intact. The first of several processes writes it; all read it.

    Parameters
    ----------
    folder : path or None
        If None, everything stays in memory.
    run : dict
        Settings that a resumed run must share.
    average : MovingAverage
        Its ``trained`` is the learner that is trained, its ``learner`` the one that is validated
        and kept.

    Raises
    ------
    ValueError
        If the name of the folder is empty.
    """

    def __init__(self, folder, run, average):
        # Absolute, since a callback may change the current folder.
        self.path = None if folder is None else checkpoint_file(folder).absolute()
        # Convert now, so that settings that json cannot hold fail before the first epoch.
        self.run = json.loads(json.dumps(run, default=_plain))
        self.average = average
        self.is_writer = self.path is not None and is_first_process()
        self.n_epochs = 0  # done by an earlier run
        self.n_seen = 0
        self.complete = None  # weights after the last whole epoch, or the validated initial ones
        self.best = None
        self.best_loss = math.inf
        self.start_loss = math.nan  # of initial weights that were trained before the run
        self.ended_by = None

    def on_epoch_begin(self, net, dataset_train=None, **kwargs):
        """Tell the stream which epoch's batches come next."""
        dataset_train.epoch = len(net.history) - 1

    def on_epoch_end(self, net, **kwargs):
        """Keep the weights if they are the best, and write the checkpoint."""
        if len(net.history) == 1 and not math.isnan(self.start_loss):
            net.history.record("start_loss", self.start_loss)
        self.complete = self._weights()
        self._keep_if_best(net.history[-1].get("valid_loss", math.inf))
        if self.is_writer:
            self._write(net)
        self.n_seen = len(net.history)

    def on_train_end(self, net, **kwargs):
        """Undo the steps of an interrupted epoch, before the user's callbacks run."""
        if net.history and "train_loss" not in net.history[-1] and self.complete is not None:
            del net.history[-1]
            self.average.learner.load_state_dict(self.complete)

    def begin(self, loss):
        """Keep the initial weights, with this validation loss, until others are better."""
        self.start_loss = loss
        self.complete = self._weights()
        self._keep_if_best(loss)

    @property
    def best_is_start(self):
        """Whether the best weights are the initial ones, not those of an epoch."""
        return self.best is not None and self.best_loss == self.start_loss

    def _keep_if_best(self, loss):
        if loss < self.best_loss:
            self.best_loss = loss
            self.best = self.complete

    def _weights(self):
        """Copy the weights that would be kept now."""
        weights = self.average.learner.state_dict()
        return {k: v.detach().clone() for k, v in weights.items()}

    def end(self, stops):
        """Record that these callbacks of the user ended the run: with the same ones it stays ended.

        The rest of the file is kept, since callbacks may have replaced the last epoch in memory.
        """
        if self.is_writer and self.path.is_file():
            header, tensors = self._read("cpu")
            self._save(tensors, header | {"ended_by": json.dumps(stops)})

    def is_ended(self, stops):
        """Whether callbacks with this description had ended the run that was resumed."""
        return self.ended_by is not None and json.loads(self.ended_by) == stops

    def _write(self, net):
        groups = {"weights": self.average.trained.state_dict(), "best": self.best or {}}
        if self.average.average is not None:
            groups["average"] = self.average.average.state_dict()
        # Clone: a module may have two names for one tensor, which a file may not.
        tensors = {
            f"{g}.{k}": v.clone().contiguous() for g, d in groups.items() for k, v in d.items()
        }
        for i, slots in net.optimizer_.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{slot}": v.contiguous() for slot, v in slots.items()}
        history = [{k: v for k, v in e.items() if k != "batches"} for e in net.history]
        header = {
            "schedule": json.dumps(self.run),
            "history": json.dumps(history, default=_plain),
            "best_loss": json.dumps(self.best_loss, default=_plain),
        }
        self._save(tensors, header)

    def _save(self, tensors, header):
        """Replace the file on disk."""
        header["sha256"] = _digest(tensors, header)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        with locked(self.path.parent):
            if self.path.is_file() and (told := self._of_another_run(self._read_header())):
                raise ValueError(
                    f"Another run is writing to {self.path.parent}, with other settings: {told}. "
                    "Give each run a checkpoint_dir of its own."
                )
            try:
                partial.unlink(missing_ok=True)  # left by a save that was killed
                partial.touch()
                mode = partial.stat().st_mode
                save_file(tensors, partial, metadata=header)
                partial.chmod(mode)  # safetensors makes its files readable by the owner only
                os.replace(partial, self.path)
            except SafetensorError as error:
                raise OSError(
                    f"{self.path} cannot be written ({error}): make room on the disk, and run the "
                    "same again to resume from the last checkpoint."
                ) from error
            finally:
                partial.unlink(missing_ok=True)

    def _read(self, device):
        """Read the header of the file on disk, and its tensors by name."""
        tensors = {}
        with locked(self.path.parent):  # safetensors opens it twice: it might be replaced meanwhile
            return self._read_header(tensors, device), tensors

    def _read_header(self, tensors=None, device="cpu"):
        """Read the header of the file on disk; also its tensors, if a dict is given for them."""
        try:
            with safe_open(self.path, "pt", device=device) as file:
                header = file.metadata() or {}
                if missing := {"schedule", "history", "best_loss"} - header.keys():
                    raise SafetensorError(f"it lacks {', '.join(sorted(missing))}")
                if tensors is not None:
                    # Copies: Windows does not replace a file that a tensor still maps.
                    tensors |= {name: file.get_tensor(name).clone() for name in file.keys()}
                    told = header.pop("sha256", None)  # None if an earlier version wrote the file
                    if told not in (None, _digest(tensors, header)):
                        raise SafetensorError("its sha256 differs")
                    if strange := {name.split(".")[0] for name in tensors} - _GROUPS:
                        raise SafetensorError(f"it holds {min(strange)!r}, which is unknown")
            if type(json.loads(header["schedule"])) is not dict:
                raise SafetensorError("it holds no settings")
            if type(json.loads(header["history"])) is not list:
                raise SafetensorError("it holds no history")
            if type(json.loads(header["best_loss"])) not in (int, float):
                raise SafetensorError("it holds no loss")
        except (SafetensorError, ValueError, RecursionError) as error:
            raise ValueError(
                f"{self.path} is damaged ({error}): remove it, or give another checkpoint_dir."
            ) from error
        return header

    def _of_another_run(self, header):
        """Describe the settings in a file's header that differ from those of this run."""
        theirs = json.loads(header["schedule"])
        # Skip settings that an earlier version did not record.
        ours = {k: v for k, v in self.run.items() if k in theirs}
        return _difference(theirs, ours)

    def restore(self, net):
        """Resume from the checkpoint of an earlier run with the same settings, if there is one."""
        if self.path is None or not self.path.is_file():
            return
        header, tensors = self._read(str(net.device))
        if told := self._of_another_run(header):
            raise ValueError(
                f"{self.path} belongs to a run with other settings: {told}. "
                "Give the same settings to go on with it, or another checkpoint_dir to start anew."
            )
        group = {kind: {} for kind in _GROUPS}
        for name, tensor in tensors.items():
            kind, key = name.split(".", 1)
            group[kind][key] = tensor
        try:
            self.average.trained.load_state_dict(group["weights"])
            if self.average.average is not None:
                self.average.average.load_state_dict(group["average"])
        except RuntimeError as error:  # a user's own module has no config to compare
            raise ValueError(f"{self.path} holds weights of another module: {error}") from error
        self.complete = self._weights()
        self.best = group["best"] or None
        self.best_loss = json.loads(header["best_loss"])
        state = net.optimizer_.state_dict()
        for name, tensor in group["optimizer"].items():
            i, slot = name.split(".", 1)
            state["state"].setdefault(int(i), {})[slot] = tensor
        net.optimizer_.load_state_dict(state)
        epochs = json.loads(header["history"])
        # Some callbacks ask for the last batch of the last epoch.
        net.history = History([{**epoch, "batches": [{}]} for epoch in epochs])
        self.n_epochs = len(epochs)
        self.start_loss = epochs[0].get("start_loss", math.nan) if epochs else math.nan
        self.ended_by = header.get("ended_by")
        for _, callback in net.callbacks_:
            if isinstance(callback, PassthroughScoring):  # records in the history which is the best
                for epoch in epochs:
                    if epoch.get(f"{callback.name}_best"):
                        callback.best_score_ = epoch[callback.name]

    def compare(self, gather):
        """Raise if another process has other settings, or resumes from another epoch.

        Parameters
        ----------
        gather : callable
            Concatenates the lists of all processes.

        Raises
        ------
        ValueError
            In every process, if two of them differ.
        """
        first, *others = gather([{**self.run, "epochs done": self.n_epochs}])
        for other in others:
            if told := _difference(first, other):
                raise ValueError(
                    f"The processes do not share one run: {told}. Give all of them the same "
                    "tables, settings and random_state, and a checkpoint_dir that all of them see."
                )


def _digest(tensors, header):
    """The sha256 of everything in a file: safetensors would not notice a damaged byte."""
    tensors = dict(sorted(tensors.items()))
    kinds = [f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in tensors.values()]
    told = json.dumps([header, kinds, tensors_digest(tensors)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _difference(theirs, ours):
    """Describe how two runs' settings differ, for tables by contents rather than by order."""
    if "data" not in theirs:  # an earlier version recorded only the names of tables
        return difference(theirs, ours)
    orders = ("tables", "validation_tables")
    pair = ({k: v for k, v in run.items() if k not in orders} for run in (theirs, ours))
    moved = [name for name in orders if theirs.get(name) != ours.get(name)]
    told = f"{' and '.join(moved)} are the same in another order" if moved else ""
    return difference(*pair) or told


def _plain(value):
    """Convert numbers of NumPy and torch for json; anything else becomes text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
