"""Meta-training learns, stops, and reports how it went."""

import copy
import csv
import errno
import io
import math
import multiprocessing
import os
import resource
import signal
import sys
import termios
import threading
import time
import warnings
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from labels import label_matrix
from sklearn.datasets import load_diabetes, load_iris
from skorch.callbacks import Callback
from skorch.history import History
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
from tqdm import tqdm

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
    base,
)
from sklearn_meta.callbacks import CSVLog, MovingAverage, StratumScores
from sklearn_meta.checkpoint import Checkpoint
from sklearn_meta.heads.base import ClassificationHead
from sklearn_meta.learner import Learner
from sklearn_meta.optimizers import rate_at
from sklearn_meta.progress import ProgressBar
from sklearn_meta.settings import check_settings
from sklearn_meta.tasks import CircleSpiral, EpisodeSampler, TablePrior, batches
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.tasks.stream import Batches, EpisodeStream, killed_workers_told
from sklearn_meta.training import groups_for, meta_train
from sklearn_meta.weights import load_learner

SMALL = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4, "last_width": 2}


def new_learner(**config):
    torch.manual_seed(0)
    return Learner(backbone_config={**SMALL, **config})


def train(folder=None, learner=None, **settings):
    """Five epochs of two steps, some of which start within a pool of three; weights of a few kB."""
    learner = learner or new_learner()
    settings = {
        "validation_source": CircleSpiral(),
        "max_steps": 10,
        "eval_every": 2,
        "batch_size": 2,
        "n_pooled": 3,
        "n_warmup": 4,
        "n_validation": 2,
        "learning_rate": 1e-2,
        "verbose": False,
        "checkpoint_dir": folder,
        **settings,
    }
    sampler = EpisodeSampler((1, 2), 3)
    history = meta_train(
        learner, TablePrior(n_columns=(2, 5), n_classes=(2, 4)), sampler, **settings
    )
    return learner, history


@pytest.fixture(scope="module")
def whole():
    """An uninterrupted run without checkpoints."""
    return train()


def assert_same(run, other):
    """Compare weights to the bit, and the history without durations."""
    (learner, history), (other_learner, other_history) = run, other
    state, other_state = learner.state_dict(), other_learner.state_dict()
    assert all(torch.equal(state[name], other_state[name]) for name in state)
    assert len(history) == len(other_history)
    for column in other_history[0].keys() - {"batches", "dur"}:
        assert history[:, column] == other_history[:, column]


class At(Callback):
    """Calls a function at the end of a step or of an epoch."""

    def __init__(self, do, step=None, epoch=None):
        self.do, self.step, self.epoch = do, step, epoch
        self.steps = 0

    def on_batch_end(self, net, training=False, **kwargs):
        self.steps += training
        if training and self.steps == self.step:
            self.do()

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == self.epoch:
            self.do()


class Crash(Exception):
    """Raised by a user's callback, or standing for a crash of the machine."""


def crash(*args):
    raise Crash


def kill(*args):
    os.kill(os.getpid(), signal.SIGKILL)


# Learning


def test_loss_falls_on_circles():
    source = CircleSpiral(n_columns=(2, 2), kinds=("circle",))
    learner = new_learner(width=16, n_layers=2, head_width=8, last_width=4, example_attention=False)
    sampler = EpisodeSampler((8,), 20, imbalanced=0, inductive=0, column_subset=0, missing=0)
    history = meta_train(
        learner,
        source,
        sampler,
        validation_source=source,
        max_steps=60,
        batch_size=2,
        learning_rate=2e-2,
        n_warmup=10,
        eval_every=15,
        n_validation=4,
        precision="float32",
        verbose=False,
    )
    assert history[-1, "valid_loss"] < 0.35 < math.log(2)  # chance would give this loss
    assert history[-1, "train_loss"] < 0.5 * history[0, "train_loss"]
    assert history[-1, "valid_accuracy"] > 0.85


def test_loss_is_the_mean_over_rows_then_over_tasks():
    logits = torch.randn(2, 4, 3)
    target = torch.tensor([[IGNORE, 2, 0, 1], [IGNORE, IGNORE, IGNORE, 1]])
    log_p = logits.log_softmax(-1)
    first = -(log_p[0, 1, 2] + log_p[0, 2, 0] + log_p[0, 3, 1]) / 3
    expected = (first - log_p[1, 3, 1]) / 2
    torch.testing.assert_close(ClassificationHead.loss(logits, target), expected)
    nothing_asked = torch.full((1, 4), IGNORE)
    assert ClassificationHead.loss(logits[:1], nothing_asked) == 0


def test_history_holds_the_rates_and_every_epoch(whole):
    learner, history = whole
    assert len(history) == 5 and history[:, "train_batch_count"] == [2] * 5
    assert all(0 < accuracy < 1 for accuracy in history[:, "valid_accuracy"])
    rates = [
        batch["event_lr"]
        for epoch in history[:, "batches"]
        for batch in epoch
        if "event_lr" in batch
    ]
    np.testing.assert_allclose(rates, [1e-2 * rate_at(step, 10, 4) for step in range(10)])
    assert not learner.training


def test_bfloat16_trains_float32_weights():
    learner, history = train(precision="bfloat16", max_steps=2)
    assert all(p.dtype == torch.float32 for p in learner.parameters())
    assert np.isfinite(history[:, "train_loss"]).all()
    exact = train(precision="float32", max_steps=2)[1]
    assert history[:, "train_loss"] != exact[:, "train_loss"]
    np.testing.assert_allclose(history[:, "train_loss"], exact[:, "train_loss"], rtol=0.1)


def test_without_validation_the_last_weights_stand():
    learner = new_learner()
    snapshots = []
    keep = At(lambda: snapshots.append(parameters(learner)), epoch=5)
    _, history = train(learner=learner, validation_source=None, patience=1, callbacks=[keep])
    assert len(history) == 5 and "valid_loss" not in history[-1]
    torch.testing.assert_close(parameters(learner), snapshots[0], rtol=0, atol=0)
    assert not learner.training


def test_a_seed_is_a_run_and_another_seed_another(whole):
    assert_same(train(), whole)
    assert train(random_state=1)[1][:, "train_loss"] != whole[1][:, "train_loss"]


def test_tasks_of_every_seed_and_those_of_validation_are_others():
    class Noting(CircleSpiral):
        def __init__(self):
            super().__init__()
            self.states = []

        def draw(self, rng):
            self.states.append(rng.bit_generator.state["state"]["state"])
            return super().draw(rng)

    seen = []
    for seed in (0, 1):
        train(validation_source=(source := Noting()), max_steps=1, random_state=seed)
        seen.append(source.states[0])
        sampler, few = EpisodeSampler((1, 2), 3), {"max_steps": 1, "verbose": False}
        meta_train(new_learner(), source := Noting(), sampler, random_state=seed, **few)
        seen.append(source.states[0])
    assert len(set(seen)) == 4


def test_validation_is_of_what_a_curriculum_ends_with():
    class Growing(EpisodeSampler):
        def at(self, n_drawn):
            return EpisodeSampler((1,) if n_drawn < 6 else (2,), 3)

    settings = {"max_steps": 3, "batch_size": 2, "n_validation": 2, "verbose": False}
    source = CircleSpiral()
    history = meta_train(
        new_learner(), source, Growing((1, 2), 3), validation_source=source, **settings
    )
    assert [name for name in history[-1] if name.endswith("_shots")] == ["valid_accuracy_2_shots"]


def test_what_dropout_draws_is_new_in_every_step_and_of_every_seed():
    drawn = []
    for seed in (0, 1):
        learner = new_learner()
        learner.register_forward_pre_hook(
            lambda module, args: drawn.append(torch.rand(()).item()) if module.training else None
        )
        train(learner=learner, random_state=seed, n_groups=1)
    assert len(drawn) == len(set(drawn)) == 20


def test_the_schedule_that_is_asked_for_is_followed():
    for schedule in ("constant", "noam"):
        _, history = train(schedule=schedule, max_steps=6, validation_source=None)
        rates = [batch["event_lr"] for epoch in history[:, "batches"] for batch in epoch]
        expected = [1e-2 * rate_at(step, 6, 4, schedule) for step in range(6)]
        np.testing.assert_allclose(rates, expected)


@pytest.fixture(scope="module")
def plain():
    """A short run without validation."""
    return train(validation_source=None, max_steps=4)


@pytest.mark.parametrize(
    "setting",
    [
        {"learning_rate": 2e-2},
        {"weight_decay": 0.5},
        {"clip": 0.1},
        {"n_warmup": 1},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_every_setting_of_the_optimiser_reaches_it(plain, setting):
    learner, history = train(validation_source=None, max_steps=4, **setting)
    assert history[0, "train_loss"] == pytest.approx(plain[1][0, "train_loss"], rel=0.2)
    assert not torch.equal(parameters(learner), parameters(plain[0]))


def test_workers_change_nothing(whole):
    """An epoch may start within a pool, and may read one pool or two."""
    assert_same(train(n_workers=2), whole)


def test_the_tasks_of_a_step_are_the_same_however_long_epochs_are():
    settings = {"validation_source": None, "max_steps": 6}
    short, long = (train(eval_every=n, **settings)[0] for n in (2, 6))
    assert torch.equal(parameters(short), parameters(long))


def test_an_interrupt_is_not_for_workers():
    """A terminal sends Ctrl-C to all processes: if it ended a worker, training would fail."""

    others = set(multiprocessing.active_children())  # joblib's, left by earlier tests

    class Interrupts(Callback):
        def on_batch_end(self, net, **kwargs):
            for worker in set(multiprocessing.active_children()) - others:
                os.kill(worker.pid, signal.SIGINT)

    settings = {"n_workers": 1, "max_steps": 12, "eval_every": 12, "n_pooled": 1}
    _, history = train(callbacks=[Interrupts()], **settings)
    assert history[-1, "train_batch_count"] == 12


def test_ctrl_c_waits_until_workers_have_begun(monkeypatch):
    """During a fork Python would lose the signal, or it would end the worker."""
    begun = []

    def begin(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # the signal would arrive here
        begun.append(self)
        return iter(())

    monkeypatch.setattr(DataLoader, "__iter__", begin)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(iter(Batches([])))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) == 1


@pytest.mark.parametrize("within_a_step", [False, True])
def test_a_worker_that_was_killed_is_told_of(tmp_path, within_a_step, monkeypatch):
    """As if the system ran out of memory; the run resumes from its checkpoint."""
    look = _MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(look, "__defaults__", (0.2,))  # torch checks every five seconds

    others = set(multiprocessing.active_children())  # joblib's, left by earlier tests

    class Kill(Callback):
        def on_batch_end(self, net, **kwargs):
            if len(net.history) == 3:
                for worker in set(multiprocessing.active_children()) - others:
                    worker.kill()
                    worker.join()
                    if within_a_step:  # torch raises in a signal handler, wherever the parent is
                        time.sleep(0.5)

    message = "was killed .*lower n_workers. With a checkpoint_dir the same call"
    with pytest.raises(OSError, match=message):
        train(tmp_path, n_workers=1, n_pooled=1, callbacks=[Kill()])
    again = train(tmp_path, n_workers=1, n_pooled=1)
    assert_same(again, train(n_pooled=1))


@pytest.mark.parametrize("method, is_told", [("fork", False), ("spawn", True)])
def test_a_worker_that_is_not_forked_may_want_a_guard(method, is_told, monkeypatch):
    """A script without one starts training again in each worker, where Python refuses it."""
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: method)
    with pytest.raises(ChildProcessError, match="lower n_workers") as told, killed_workers_told():
        raise RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
    guard = 'If your script lacks `if __name__ == "__main__":`, make the call below one'
    assert (guard in str(told.value)) == is_told


@pytest.mark.parametrize("ema_decay", [None, 0.5])
def test_without_validation_an_interrupt_leaves_the_weights_of_a_whole_epoch(ema_decay):
    settings = {"validation_source": None, "ema_decay": ema_decay}
    learner, after = new_learner(), []
    note = At(lambda: after.append(1), epoch=2)
    with pytest.warns(UserWarning, match="after 2 of 5"):
        _, history = train(learner=learner, callbacks=[note, At(interrupt, step=5)], **settings)
    with pytest.warns(UserWarning, match="after 2 of 5"):  # between the two epochs
        expected, _ = train(callbacks=[At(interrupt, epoch=2)], **settings)
    assert torch.equal(parameters(learner), parameters(expected))
    assert after == [1] and len(history) == 2


def test_seeds_of_tasks_are_plain_numbers(monkeypatch):
    """From 2.5 on numpy refuses nested lists."""
    given, default_rng = [], np.random.default_rng
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed: given.append(seed) or default_rng(seed)
    )
    next(batches(TablePrior(), EpisodeSampler(), batch_size=1, seed=[7, 1]))
    assert np.shape(given) == (1, 3)


def test_workers_do_with_few_files():
    """A pool has more tensors than the number of files that most systems let a process open."""
    settings = {"n_batches": 16, "batch_size": 8, "seed": 0, "n_pooled": 16, "n_groups": 8}
    stream = EpisodeStream(TablePrior(n_columns=(2, 5)), EpisodeSampler(1, 3), **settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    try:
        found = list(Batches(stream, batch_size=None, num_workers=1))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [len(groups) for groups in found] == [8] * 16


def test_every_epoch_has_new_tasks():
    source, sampler = TablePrior(n_columns=(2, 5)), EpisodeSampler(1, 3)
    settings = {"batch_size": 2, "seed": [5, 0], "n_pooled": 2, "n_groups": 2}
    stream = EpisodeStream(source, sampler, n_batches=3, **settings)
    expected = batches(source, sampler, **settings)
    for stream.epoch in range(3):
        epoch = list(Batches(stream, batch_size=None))
        assert len(epoch) == 3
        for groups in epoch:
            for (_, target), (_, other) in zip(groups, next(expected), strict=True):
                assert torch.equal(target, other)
    losses = train(learning_rate=0.0, validation_source=None)[1][:, "train_loss"]
    assert len(set(losses)) == 5


def test_a_pool_is_drawn_once_though_epochs_end_within_it():
    class Counting(TablePrior):
        n_drawn = 0

        def draw(self, rng):
            self.n_drawn += 1
            return super().draw(rng)

    source, settings = Counting(n_columns=(2, 5)), {"batch_size": 2, "n_pooled": 2, "n_groups": 2}
    stream = EpisodeStream(source, EpisodeSampler(1, 3), n_batches=3, seed=0, **settings)
    for stream.epoch in range(3):
        assert len(list(Batches(stream, batch_size=None))) == 3
    assert source.n_drawn == 5 * 4  # nine batches come from five pools


def test_groups_change_the_padding_and_not_the_gradient():
    settings = {"n_pooled": 1, "batch_size": 4, "precision": "float32", "learning_rate": 1e-3}
    settings |= {"validation_source": None}
    (one, whole), (two, grouped) = (train(n_groups=n, **settings) for n in (1, 2))
    assert grouped[:, "train_loss"] == pytest.approx(whole[:, "train_loss"], rel=1e-4)
    # AdamW makes full steps even for gradients of mere rounding, so compare the mean.
    moved = (parameters(one) - parameters(new_learner())).abs().mean()
    assert (parameters(two) - parameters(one)).abs().mean() < 0.01 * moved


def test_the_loss_of_validation_is_the_mean_over_groups():
    settings = {"n_pooled": 1, "batch_size": 4, "precision": "float32", "learning_rate": 1e-3}
    settings |= {"keep": "last", "max_steps": 4, "n_validation": 16}  # all tasks of a pool
    whole, grouped = (train(n_groups=n, **settings)[1] for n in (1, 2))
    assert grouped[:, "valid_loss"] == pytest.approx(whole[:, "valid_loss"], rel=1e-4)


@pytest.mark.parametrize("batch_size, n_tasks", [(6, 2), (3, 1)])
def test_meta_fit_reads_two_tasks_at_a_time_on_a_cpu(batch_size, n_tasks):
    """It reads one at a time if the number is odd; with more at a time there is more padding."""
    learner, seen = new_learner(), []

    def count(module, args, inputs):
        seen.append(len(inputs["x"]))

    learner.register_forward_pre_hook(count, with_kwargs=True)
    MetaSemiSupervisedClassifier(learner, device="cpu").meta_fit(
        TablePrior(n_columns=(2, 5)), max_steps=1, batch_size=batch_size, verbose=False
    )
    assert seen == [n_tasks] * (batch_size // n_tasks)


@pytest.mark.parametrize(
    "batch_size, n_groups", [(1, 1), (8, 1), (12, 1), (16, 2), (25, 1), (28, 2), (32, 4), (256, 4)]
)
def test_a_gpu_reads_eight_tasks_at_a_time_or_more(batch_size, n_groups):
    assert groups_for("cuda", batch_size) == n_groups


def test_the_loss_of_the_beginning_is_that_of_an_epoch_which_changes_nothing(whole):
    begun = copy.deepcopy(whole[0])
    same = {"learning_rate": 0.0, "validate_start": True}
    with pytest.warns(UserWarning, match="No validation loss was lower than .*initial weights"):
        history = train(learner=copy.deepcopy(begun), **same)[1]
    assert history[0]["start_loss"] == history[0]["valid_loss"] == history[-1]["valid_loss"]
    for seed in range(1, 5):
        with pytest.warns(UserWarning, match="No validation loss was lower"):
            train(learner=copy.deepcopy(begun), random_state=seed, max_steps=2, **same)


@pytest.mark.parametrize("ema_decay", [None, 0.5])
def test_weights_that_had_learned_are_kept_where_none_is_better(tmp_path, whole, ema_decay):
    """The same holds if the run is interrupted."""
    begun = copy.deepcopy(whole[0])
    worse = {"learning_rate": 1.0, "n_warmup": 0, "validate_start": True, "ema_decay": ema_decay}
    with pytest.warns(UserWarning, match="No validation loss was lower"):
        learner, history = train(learner=copy.deepcopy(begun), **worse)
    assert torch.equal(parameters(learner), parameters(begun))
    assert min(history[:, "valid_loss"]) > history[0]["start_loss"]
    with pytest.raises(Crash):
        train(tmp_path, copy.deepcopy(begun), **worse, callbacks=[At(crash, epoch=2)])
    with pytest.warns(UserWarning, match="No validation loss was lower"):
        assert_same(train(tmp_path, copy.deepcopy(begun), **worse), (learner, history))
    # If an epoch is better, the option changes nothing.
    tables = TablePrior(n_columns=(2, 5), n_classes=(2, 4))
    settings = {"validation_source": tables, "n_validation": 8, "max_steps": 20}
    settings |= {"learning_rate": 2e-2, "ema_decay": ema_decay and 0.1}
    plain, other = (train(validate_start=told, **settings) for told in (False, True))
    assert_same(other, plain)
    assert min(plain[1][:, "valid_loss"]) < other[1][0]["start_loss"]


@pytest.mark.parametrize("step", [1, 5])
def test_a_run_that_diverges_leaves_weights_that_had_learned(whole, step):
    """In the first epoch that is an error, later a warning, as no epoch before was better."""
    learner = copy.deepcopy(whole[0])

    def spoil():
        with torch.no_grad():
            next(learner.parameters()).fill_(math.nan)

    settings = {"learning_rate": 1.0, "n_warmup": 0, "validate_start": True}
    settings |= {"learner": learner, "callbacks": [At(spoil, step=step)]}
    if step == 1:
        with pytest.raises(ValueError, match="Training diverged"):
            train(**settings)
        return
    with (
        pytest.warns(UserWarning, match="Training diverged.*lowest validation loss are kept"),
        pytest.warns(UserWarning, match="No validation loss was lower .* initial weights"),
    ):
        history = train(**settings)[1]
    assert len(history) == 2 and min(history[:, "valid_loss"]) > history[0]["start_loss"]
    assert torch.equal(parameters(learner), parameters(whole[0]))


def test_weights_that_had_learned_are_those_of_a_card_or_of_meta_fit(monkeypatch):
    told = []

    def noting(*args, validate_start, **settings):
        told.append(validate_start)
        return History()

    monkeypatch.setattr(base, "meta_train", noting)
    tables = {"iris": load_iris(return_X_y=True)}
    for backbone in ("vsa", Learner("vsa")):
        classifier = MetaSemiSupervisedClassifier(backbone).meta_fit(tables).meta_fit(tables)
        MetaSemiSupervisedClassifier(classifier.learner_).meta_fit(tables)
    assert told == 2 * [False, True, True]
    for kind, name in (
        (MetaSemiSupervisedClassifier, "prior"),
        (MANNClassifier, "default_mann"),
        (FewShotTransformerClassifier, "default_few_shot"),
        (AmortizedOutlierDetector, "default_outliers"),
    ):
        for backbone in (name, load_learner(name)):
            kind(backbone).meta_fit(tables)
    assert told[6:] == 8 * [True]


def test_max_steps_need_not_be_a_multiple_of_an_epoch():
    assert len(train(max_steps=3)[1]) == 2  # a whole number of epochs
    assert train(max_steps=2, eval_every=500)[1][:, "train_batch_count"] == [2]


# The schedule


def test_rate_rises_linearly_and_falls_along_a_cosine():
    rates = [rate_at(step, 60, 10) for step in range(60)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[10] == 1 and rates[35] == pytest.approx(0.5)
    np.testing.assert_allclose(rates[22], (1 + math.cos(math.pi * 0.24)) / 2)
    assert (np.diff(rates[10:]) < 0).all() and 0 < rates[59] < 0.01
    assert rate_at(60, 60, 10) == rate_at(500, 60, 10) == 0
    assert rate_at(0, 10, 0) == 1
    assert {rate_at(step, 10, 4, schedule="constant") for step in (3, 4, 99)} == {1}
    assert rate_at(0, 5, 5) == 0.2 and rate_at(5, 5, 5) == 1  # nothing but warm-up


def test_noam_rises_linearly_and_falls_with_the_root_of_the_steps():
    rates = [rate_at(step, 100, 10, schedule="noam") for step in range(100)]
    expected = [min((step + 1) / 10, (10 / (step + 1)) ** 0.5) for step in range(100)]
    np.testing.assert_allclose(rates, expected)
    assert rates[39] == 0.5
    with pytest.raises(ValueError, match="schedule must be one of.*'step'"):
        check_settings({"schedule": "step"})


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer must be one of.*'muon'.*got 'sgd'"):
        train(optimizer="sgd")


# Callbacks, stopping and the best state


def parameters(learner):
    return torch.cat([p.detach().clone().flatten() for p in learner.parameters()])


def test_callbacks_of_the_user_are_called():
    calls = []

    class Notes(Callback):
        def on_train_begin(self, net, **kwargs):
            calls.append("begin")

        def on_train_end(self, net, **kwargs):
            calls.append("end")

        def on_batch_end(self, net, training=False, **kwargs):
            calls.append("step" if training else "look")

        def on_epoch_end(self, net, **kwargs):
            calls.append(round(net.history[-1, "valid_loss"], 6))

    _, history = train(max_steps=4, callbacks=[Notes()])
    epochs = [[*["step"] * 2, *["look"] * 2, round(v, 6)] for v in history[:, "valid_loss"]]
    assert calls == ["begin", *epochs[0], *epochs[1], "end"]


def test_patience_stops_a_run_that_gets_no_better():
    last = []
    see = At(lambda: last.append("seen"), epoch=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an interrupted run would warn
        _, history = train(learning_rate=0.0, patience=2, callbacks=[see])
    assert len(history) == 3 and last == ["seen"]
    assert len(train(learning_rate=0.0, patience=None)[1]) == 5


def test_where_the_last_weights_are_asked_for_no_loss_of_validation_need_be_finite():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, history = train(keep="last", max_steps=1, learning_rate=1e30)
    assert not np.isfinite(history[-1, "valid_loss"])


def test_where_the_last_weights_are_asked_for_those_of_before_do_not_replace_lost_ones():
    learner = new_learner()

    def spoil():
        for p in learner.parameters():
            p.data.fill_(math.nan)

    with pytest.raises(ValueError, match="weights are no longer finite"):
        train(learner=learner, keep="last", callbacks=[At(spoil, step=4)])


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", [{"step": 5}, {"epoch": 2}], ids=["within", "after"])
def test_an_interrupted_run_says_so_and_can_be_taken_up(tmp_path, whole, moment):
    with pytest.warns(
        UserWarning, match="interrupt or a callback ended meta-training after 2 of 5"
    ):
        train(tmp_path, callbacks=[At(interrupt, **moment)])
    assert_same(train(tmp_path), whole)


def test_patience_counts_over_a_resumed_run(tmp_path):
    """A run that has stopped stays stopped."""
    still = {"learning_rate": 0.0, "patience": 3}
    with pytest.raises(Crash):
        train(tmp_path, **still, callbacks=[At(crash, epoch=2)])
    steps = At(crash)
    assert len(train(tmp_path, **still, callbacks=[steps])[1]) == 4 and steps.steps == 4
    steps = At(crash)
    assert len(train(tmp_path, **still, callbacks=[steps])[1]) == 4 and steps.steps == 0


@pytest.mark.parametrize("resumed", [False, True])
def test_the_state_of_the_lowest_validation_loss_remains(tmp_path, resumed):
    learner, states = new_learner(), []

    def spoil():
        states.append(parameters(learner))
        for p in learner.parameters():
            p.data += 3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))

    class Note(Callback):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) <= 2:
                states.append(parameters(learner))

    callbacks = [Note(), At(spoil, epoch=2)]
    if resumed:
        callbacks.append(At(crash, epoch=3))
        with pytest.raises(Crash):
            train(tmp_path, learner, callbacks=callbacks)
        learner = new_learner()
        _, history = train(tmp_path, learner)
    else:
        _, history = train(tmp_path, learner, callbacks=callbacks)
    best = int(np.argmin(history[:, "valid_loss"]))
    assert best < 2 and len(history) == 5
    torch.testing.assert_close(parameters(learner), states[best], rtol=0, atol=0)


# What is reported


def test_the_average_is_that_of_the_weights_after_each_step():
    learner, states = new_learner(), []
    note = At(lambda: states.append(parameters(learner)))

    class EachStep(Callback):
        def on_batch_end(self, net, training=False, **kwargs):
            if training:
                note.do()

    settings = {"max_steps": 4, "keep": "last", "ema_decay": 0.7}
    _, history = train(learner=learner, callbacks=[EachStep()], **settings)
    average = states[0]
    for state in states[1:]:
        average = 0.7 * average + 0.3 * state
    torch.testing.assert_close(parameters(learner), average)
    assert not torch.allclose(average, states[-1])
    # The average is validated, too.
    plain = train(max_steps=4, keep="last")[1]
    assert history[:, "train_loss"] == plain[:, "train_loss"]
    assert history[-1, "valid_loss"] != plain[-1, "valid_loss"]


def test_of_averaged_weights_the_best_are_kept_and_not_those_they_are_averages_of():
    best, last = (train(max_steps=2, ema_decay=0.7, keep=keep)[0] for keep in ("best", "last"))
    torch.testing.assert_close(parameters(best), parameters(last), rtol=0, atol=0)  # one epoch


def test_scores_by_shots_average_to_the_score_of_all(whole):
    labels = label_matrix([[0, 1, -1, -1], [0, 0, 1, 1]], 2)
    target = torch.tensor([[IGNORE, IGNORE, 1, 0], [IGNORE, 1, IGNORE, IGNORE]])
    logits = torch.tensor([[[0.0, 1.0]] * 4, [[1.0, 0.0]] * 4])
    assert EpisodeSampler.strata({"labels": labels, "classes": torch.ones(2, 2)}) == [1, 2]
    assert ClassificationHead.score(logits, target).tolist() == [0.5, 0.0]
    epoch = whole[1][-1]
    assert {"valid_accuracy_1_shots", "valid_accuracy_2_shots"} <= epoch.keys()
    one, two = epoch["valid_accuracy_1_shots"], epoch["valid_accuracy_2_shots"]
    assert min(one, two) <= epoch["valid_accuracy"] <= max(one, two)


def test_each_task_counts_once_in_the_score_of_all_whatever_their_order():
    values = [(1, 0.1), (1, 0.2), (1, 0.3), (5, 0.9)]
    found = []
    for scores in (values, values[::-1]):
        callback = StratumScores("accuracy", "shots", gather=list)
        net = SimpleNamespace(history=History([{}]))
        callback.on_batch_end(net, scores=scores)
        callback.on_epoch_end(net)
        found.append(net.history[-1])
    assert found[0]["valid_accuracy"] == pytest.approx(1.5 / 4)
    assert found[0]["valid_accuracy_1_shots"] == pytest.approx(0.2)
    assert found[0] == found[1]  # to the bit


def test_a_log_has_a_line_an_epoch_over_a_resumed_run(tmp_path):
    log = CSVLog(tmp_path / "log.csv")
    with pytest.raises(Crash):
        train(tmp_path, callbacks=[log, At(crash, epoch=2)])
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    with pytest.raises(Crash):  # after the last checkpoint
        train(tmp_path, callbacks=[At(crash, epoch=5), log])
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 5
    _, history = train(tmp_path, callbacks=[log])
    assert len(history) == 5
    ended = "before its first 2 steps were complete: nothing is kept"
    with pytest.raises(KeyboardInterrupt, match=ended):  # the log of the run before is kept
        train(callbacks=[log, At(interrupt, step=1)])
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["valid_loss"]) for row in rows] == history[:, "valid_loss"]
    assert all(float(row["valid_accuracy_1_shots"]) >= 0 and row["epoch"] for row in rows)


def test_a_log_has_a_column_of_what_only_some_epochs_have(tmp_path):
    epochs = [{"train_loss": 2.0}, {"train_loss": 1.0, "valid_accuracy_5_shots": 0.5}]
    CSVLog(tmp_path / "log.csv").on_epoch_end(SimpleNamespace(history=epochs))
    with open(tmp_path / "log.csv", newline="") as file:
        found = [line["valid_accuracy_5_shots"] for line in csv.DictReader(file)]
    assert found == ["", "0.5"]


@pytest.mark.parametrize("number", [np.float32(0.5), np.int64(3)])
def test_a_log_has_what_a_callback_recorded_in_a_type_of_numpy(tmp_path, number):
    epochs = [{"train_loss": 2.0, "mine": number, "name": "not a number"}]
    CSVLog(tmp_path / "log.csv").on_epoch_end(SimpleNamespace(history=epochs))
    with open(tmp_path / "log.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{"mine": str(number), "train_loss": "2.0"}]


def test_progress_is_shown_when_asked_for(capsys):
    train(verbose=True, max_steps=4)
    shown = capsys.readouterr().err
    assert "meta_fit" in shown and "4/4" in shown and "valid_accuracy" in shown
    train(max_steps=2)
    assert capsys.readouterr() == ("", "")
    tables = [load_diabetes(return_X_y=True)]
    MetaGPRegressor("vsa").meta_fit(tables, validation_datasets=tables, max_steps=1, batch_size=1)
    assert "valid_mse" in capsys.readouterr().err


def test_scores_on_validation_are_seen_in_a_terminal_of_eighty_columns(monkeypatch):
    terminal, end = os.openpty()
    termios.tcsetwinsize(end, (24, 80))
    with os.fdopen(end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        train(verbose=True, max_steps=4)
        monkeypatch.undo()
    shown = b""
    with suppress(OSError):  # at the end; a single read may return a part
        while part := os.read(terminal, 10_000):
            shown += part
    os.close(terminal)
    lines = shown.decode().replace("\n", "\r").split("\r")
    assert max(map(len, lines)) <= 80
    assert sum("valid_accuracy=0." in line for line in lines) >= 2


class Broken(io.StringIO):
    """A pipe whose reader is gone, or a file on a full disk; without an error it works."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        if self.error is not None:
            raise self.error
        return super().write(text)


BROKEN = [None, Broken(BrokenPipeError()), Broken(OSError(errno.ENOSPC, "no space"))]


@pytest.mark.parametrize("stderr", BROKEN, ids=["closed", "broken", "full"])
def test_a_run_goes_on_where_nobody_reads_its_progress(monkeypatch, whole, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    assert_same(train(verbose=True), whole)
    assert not tqdm_is_locked()


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "no space")])
def test_a_bar_stops_where_stderr_breaks(monkeypatch, error):
    stderr = Broken(None)
    monkeypatch.setattr(sys, "stderr", stderr)
    for breaks in (None, "begun", "updated"):
        stderr.error = None
        seen = []
        for i in ProgressBar(range(4), desc=str(breaks), mininterval=0):
            if breaks == ("begun" if i == 0 else "updated"):
                stderr.error = error
            seen.append(i)
        assert seen == [0, 1, 2, 3]
    shown = stderr.getvalue()
    assert "None: 100%" in shown and "begun:   0%" in shown and "updated:  25%" in shown
    assert "begun:  25%" not in shown and "updated:  75%" not in shown
    assert not tqdm_is_locked()


def tqdm_is_locked():
    """Whether another thread would wait for the lock of tqdm's bars."""

    def take():
        with tqdm.get_lock():
            pass

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(timeout=20)
    return thread.is_alive()


def test_a_schedule_without_warm_up_begins_at_the_full_rate_and_one_that_is_over_stays_so():
    """Short runs have a warm-up of no steps; the rate must not be zero then."""
    assert [rate_at(0, 10, 0, schedule) for schedule in ("cosine", "noam", "constant")] == [1] * 3
    assert rate_at(3, 10, 0, "noam") == 0.5
    assert rate_at(25, 10, 2) == rate_at(10, 10, 2) == 0


def test_weights_of_an_equal_loss_are_not_better():
    """The initial weights are kept until others are better."""
    learner = new_learner()
    checkpoint = Checkpoint(None, {}, MovingAverage(learner, None))
    checkpoint.begin(0.5)
    first = copy.deepcopy(learner.state_dict())
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter += 1
    checkpoint._keep_if_best(0.5)
    assert checkpoint.best_is_start
    assert all(torch.equal(checkpoint.best[name], first[name]) for name in first)
