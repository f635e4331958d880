"""Meta-training that died resumes as if it had not; a checkpoint of another run is refused."""

import json
import multiprocessing
import os
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from processes import CONTEXT, ended, started
from safetensors import safe_open
from skorch.callbacks import Callback, TrainEndCheckpoint
from skorch.callbacks import Checkpoint as SkorchCheckpoint
from test_training import At, Crash, assert_same, crash, interrupt, kill, new_learner, train

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.folders import CHECKPOINT
from sklearn_meta.tasks import CircleSpiral, TablePrior

MAPS = Path("/proc/self/maps")

SETTINGS = {
    "best": {},
    "last": {"validation_source": None},
    "best average": {"ema_decay": 0.8},
    "last average": {"ema_decay": 0.8, "keep": "last"},
    "muon": {"optimizer": "muon"},
    "rate of the head": {"rate_factors": {"head.*": 30.0}},
}


@cache
def uninterrupted(name="best"):
    """An uninterrupted run without checkpoints."""
    return train(**SETTINGS[name])


@pytest.mark.parametrize(
    "name, moment",
    [
        ("best", {"epoch": 2}),
        *[(name, {"step": 5}) for name in SETTINGS],
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_resumed_equals_uninterrupted(tmp_path, name, moment):
    """The run dies after an epoch, or within the next one."""
    settings = SETTINGS[name]
    with pytest.raises(Crash):
        train(tmp_path, **settings, callbacks=[At(crash, **moment)])
    steps = At(crash)
    resumed = train(tmp_path, **settings, callbacks=[steps])
    assert_same(resumed, uninterrupted(name))
    assert steps.steps == 6  # four were done
    again = At(crash)  # a finished run does nothing more
    assert_same(train(tmp_path, **settings, callbacks=[again]), uninterrupted(name))
    assert again.steps == 0
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_run_that_is_interrupted_as_it_goes_on_is_where_it_was(tmp_path):
    with pytest.raises(Crash):
        train(tmp_path, callbacks=[At(crash, epoch=2)])
    with pytest.warns(UserWarning, match="ended meta-training after 2 of 5"):
        assert len(train(tmp_path, callbacks=[At(interrupt, step=1)])[1]) == 2


def test_a_module_that_names_a_weight_twice_goes_on(tmp_path):
    def tied():
        learner = new_learner()
        learner.again = learner.backbone
        return learner

    with pytest.raises(Crash):
        train(tmp_path, tied(), callbacks=[At(crash, epoch=2)])
    assert_same(train(tmp_path, tied()), train(learner=tied()))


def kill_at_third_replace(source, target, replace=os.replace, calls=[]):  # noqa: B006
    calls.append(target)
    if len(calls) == 3:
        kill()
    replace(source, target)


def train_and_die(folder, moment):
    if moment == "within an epoch":
        train(folder, callbacks=[At(kill, step=5)])
    else:
        os.replace = kill_at_third_replace
        train(folder)


@pytest.mark.parametrize("moment", ["within an epoch", "while writing"])
def test_a_killed_process_resumes_to_the_same_weights(tmp_path, moment):
    assert ended(started(train_and_die, tmp_path, moment)) == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["checkpoint.partial"] * (moment == "while writing") + [CHECKPOINT]
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        assert len(json.loads(file.metadata()["history"])) == 2
    assert_same(train(tmp_path), uninterrupted())
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


class Begun(Callback):
    """Tells through a pipe that training has begun."""

    def __init__(self, pipe):
        self.pipe = pipe

    def on_train_begin(self, net, **kwargs):
        self.pipe.send("begun")


def train_for_long(folder, pipe):
    train(folder, max_steps=20, callbacks=[Begun(pipe)])


def test_a_process_killed_at_three_random_moments_ends_with_the_same_weights(tmp_path):
    start = time.monotonic()
    expected = train(max_steps=20)
    seconds = time.monotonic() - start
    moments = np.random.default_rng().uniform(0, seconds / 2, 3)
    for moment in moments:
        here, there = CONTEXT.Pipe()
        process = started(train_for_long, tmp_path, there)
        there.close()  # so that a process that dies at once does not leave recv waiting
        assert here.recv() == "begun"
        time.sleep(moment)
        process.kill()
        assert ended(process) in (-signal.SIGKILL, 0)  # it may have finished by then
    _, history = resumed = train(tmp_path, max_steps=20)
    assert len(history) == 10, moments
    assert_same(resumed, expected)


def test_a_failing_write_leaves_the_last_checkpoint_whole(tmp_path, monkeypatch):
    with pytest.raises(Crash):
        train(tmp_path, callbacks=[At(crash, epoch=2)])
    before = (tmp_path / CHECKPOINT).read_bytes()
    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(Crash):
        train(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert_same(train(tmp_path), uninterrupted())


@pytest.mark.skipif(not MAPS.exists(), reason="what is mapped is read from Linux's /proc")
def test_a_resumed_run_maps_no_checkpoint_that_it_replaces(tmp_path, monkeypatch):
    """Windows refuses to replace a file that is mapped into memory."""
    with pytest.raises(Crash):
        train(tmp_path, callbacks=[At(crash, epoch=2)])

    def replace(source, target, replace=os.replace):
        assert str(target) not in MAPS.read_text(encoding="utf-8")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert_same(train(tmp_path), uninterrupted())


@pytest.mark.parametrize(
    "other",
    [
        {"max_steps": 12},
        {"eval_every": 5},
        {"batch_size": 1},
        {"random_state": 1},
        {"n_pooled": 4},
        {"n_groups": 1},
        {"ema_decay": 0.9},
        {"learning_rate": 2e-2},
        {"rate_factors": {"head.*": 2.0}},
        {"optimizer": "muon"},
        {"schedule": "noam"},
        {"weight_decay": 0.1},
        {"n_warmup": 1},
        {"clip": 0.5},
        {"n_validation": 3},
        {"learner": new_learner(width=12)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path_factory, other):
    folder = tmp_path_factory.getbasetemp() / "one checkpoint for all"
    if not folder.exists():
        train(folder)
    before = (folder / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match="belongs to a run with other settings.*checkpoint_dir"):
        train(folder, **other)
    assert (folder / CHECKPOINT).read_bytes() == before


def test_a_checkpoint_of_other_tables_is_refused(tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 3))
    tables = {name: (X, np.arange(60) % 2) for name in "abc"}
    settings = {"max_steps": 1, "checkpoint_dir": tmp_path, "verbose": False, "batch_size": 1}
    MetaSemiSupervisedClassifier("vsa").meta_fit(tables, **settings)
    with pytest.raises(ValueError, match="belongs to a run with other settings"):
        MetaSemiSupervisedClassifier("vsa").meta_fit(tables, validation_datasets=tables, **settings)
    del tables["b"]
    with pytest.raises(ValueError, match="belongs to a run with other settings"):
        MetaSemiSupervisedClassifier("vsa").meta_fit(tables, **settings)


def test_a_damaged_checkpoint_is_a_clear_error(tmp_path):
    (tmp_path / "checkpoint.safetensors").write_bytes(b"not what it says")
    with pytest.raises(ValueError, match="is damaged"):
        MetaSemiSupervisedClassifier("vsa").meta_fit(
            CircleSpiral(), max_steps=1, checkpoint_dir=tmp_path, verbose=False
        )


def test_a_damaged_byte_of_a_checkpoint_is_noticed(tmp_path):
    train(tmp_path, max_steps=2)
    path = tmp_path / CHECKPOINT
    whole = path.read_bytes()
    places = [whole.index(name) for name in (b"optimizer.3", b"best.head", b"[{")]  # in the header
    for place in [*places, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="is damaged .*remove it"):
            train(tmp_path, max_steps=2)
    path.write_bytes(whole)
    assert len(train(tmp_path, max_steps=2)[1]) == 1


def test_skorchs_checkpoints_are_taken(tmp_path):
    """They save the loss as if it were a module, and load the best epoch's history."""
    expected = uninterrupted()
    best = SkorchCheckpoint(dirname=tmp_path / "best", load_best=True)
    assert_same(train(callbacks=[best]), expected)
    ends = [TrainEndCheckpoint(dirname=tmp_path / "end")]
    assert_same(train(tmp_path, callbacks=ends), expected)
    assert_same(train(tmp_path, callbacks=ends), expected)  # again, with no step left to do


class EndsWithOthers(Callback):
    """Ends the run after two epochs, and replaces the weights and the history."""

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 2:
            raise KeyboardInterrupt

    def on_train_end(self, net, **kwargs):
        net.history = net.history[:1]
        for weights in net.module_.parameters():
            weights.data.zero_()


@pytest.mark.parametrize("name", ["best", "best average"])
def test_a_run_that_a_callback_has_ended_goes_on_from_its_last_epoch(tmp_path, name):
    """skorch's EarlyStopping(load_best=True) ends a run like this."""
    with pytest.warns(
        UserWarning, match="interrupt or a callback ended meta-training after 2 of 5"
    ):
        train(tmp_path, **SETTINGS[name], callbacks=[EndsWithOthers()])
    assert_same(train(tmp_path, **SETTINGS[name]), uninterrupted(name))


def train_without_end():
    """Train with a worker whose next pool of tasks nobody reads."""
    multiprocessing.set_start_method("fork", force=True)  # as in a program of its own
    stop = At(signal.pause, step=1)
    settings = {"max_steps": 10**6, "eval_every": 10**5, "n_workers": 1, "verbose": False}
    settings |= {"batch_size": 2}  # its pools are larger than a pipe
    MetaSemiSupervisedClassifier("vsa").meta_fit(TablePrior(), **settings, callbacks=[stop])


def is_running(pid):
    """Whether there is a process that is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_workers_end_when_the_process_that_began_them_is_killed():
    process = started(train_without_end, daemon=False)  # it has a child of its own
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        worker = int(wait_for(lambda: children.read_text().split(), 90)[0])
        time.sleep(3)  # by then its pipe is full
    finally:
        process.kill()
        assert ended(process) == -signal.SIGKILL
    has_ended = wait_for(lambda: not is_running(worker), 20)
    if not has_ended:
        os.kill(worker, signal.SIGKILL)
    assert has_ended
