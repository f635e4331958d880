"""Fits in threads and in forked children share one generator per process."""

import os
import signal
import threading

import numpy as np
import pytest
import torch
from joblib import parallel_config
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
from skorch.callbacks import Callback

from sklearn_meta import (
    AmortizedGMM,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaLSTMClassifier,
    MetaLSTMTagger,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.backbones import BACKBONES, FEW_SHOT_BACKBONES
from sklearn_meta.learner import build_learner
from sklearn_meta.memory.base import ARCHITECTURES
from sklearn_meta.seeding import seeded, undrawn
from sklearn_meta.sets import SetTransformerClassifier
from sklearn_meta.tasks import TablePrior
from sklearn_meta.weights import available_weights, load_learner, store


def test_draws_are_the_seeds_and_those_outside_stay_as_they_were():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeded(0):
        first = torch.rand(2)
        with seeded(1):
            torch.rand(5)
        second = torch.rand(2)
    assert torch.equal(torch.rand(2), expected)
    with seeded(0):
        assert torch.equal(torch.rand(4), torch.cat([first, second]))


def test_the_generator_of_apples_gpu_stays_as_it_is(monkeypatch):
    """No estimator runs there, but the caller's own networks may."""
    seeds = []
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "manual_seed", seeds.append)
    with seeded(0):
        assert torch.initial_seed() == 0
    assert not seeds


def test_a_seed_may_be_of_few_bits():
    losses = [
        MetaSemiSupervisedClassifier("deep_sets", random_state=seed)
        .meta_fit(TablePrior(), max_steps=1, batch_size=1, verbose=False)
        .history_[0, "train_loss"]
        for seed in (np.uint8(99), 99)
    ]
    assert losses[0] == losses[1]


def test_a_callback_may_wait_for_fits_in_threads():
    sets = [np.random.default_rng(i).normal(size=(4, 2)) + i % 2 for i in range(12)]
    scores = []

    class Compare(Callback):
        def on_epoch_end(self, net, **kwargs):
            rival = SetTransformerClassifier(width=4, n_heads=1, n_layers=1, max_epochs=1)
            with parallel_config("threading", n_jobs=2):
                scores.append(cross_val_score(rival, sets, np.arange(12) % 2, cv=2))

    learner = MetaSemiSupervisedClassifier("prior")
    fit = threading.Thread(
        target=learner.meta_fit,
        args=([make_classification(60, 5, random_state=0)],),
        kwargs={"max_steps": 2, "eval_every": 1, "batch_size": 2, "verbose": False}
        | {"callbacks": [Compare()]},
        daemon=True,
    )
    fit.start()
    fit.join(60)
    assert not fit.is_alive() and len(scores) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks in a process with threads
def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not():
    held, done = threading.Event(), threading.Event()

    def hold():
        with seeded(0):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with seeded(1):
            os._exit(0)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert status == 0


@pytest.mark.parametrize("name", available_weights())
def test_loading_weights_draws_nothing(name, monkeypatch):
    """Restoring the state afterwards would repeat draws of a training in another thread."""
    states, build = [], store.build_learner

    def watched(config):
        states.append(torch.get_rng_state())
        learner = build(config)
        states.append(torch.get_rng_state())
        return learner

    monkeypatch.setattr(store, "build_learner", watched)
    learner = load_learner(store.FOLDER / f"{name}.safetensors")
    assert torch.equal(*states)
    assert all(tensor.isfinite().all() for tensor in learner.state_dict().values())


NAMED = [
    *((MetaSemiSupervisedClassifier, name) for name in BACKBONES),
    *((FewShotTransformerClassifier, name) for name in FEW_SHOT_BACKBONES),
    *((MANNClassifier, name) for name in ARCHITECTURES),
    (AmortizedGMM, "mixture_transformer"),
]


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_no_architecture_draws_where_its_weights_are_to_be_replaced(kind, name):
    config = kind(name)._new_learner(name).config
    before = torch.get_rng_state()
    with undrawn():
        build_learner(config)
    assert torch.equal(torch.get_rng_state(), before)
    build_learner(config)
    assert not torch.equal(torch.get_rng_state(), before)


def test_weights_do_not_depend_on_threads_that_leave_an_autocast():
    """torch caches casts for the whole process, and clears them when any thread leaves autocast."""

    def trained():
        classifier = MANNClassifier("mann", n_estimators=1, random_state=0)
        settings = {"max_steps": 2, "batch_size": 2, "precision": "bfloat16", "verbose": False}
        return classifier.meta_fit(TablePrior(), **settings).learner_.state_dict()

    alone, is_over = trained(), threading.Event()

    def come_and_go():
        while not is_over.is_set():
            with torch.autocast("cpu", torch.bfloat16, enabled=False):
                pass

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        beside = trained()
    finally:
        is_over.set()
        other.join()
    assert all(torch.equal(alone[name], beside[name]) for name in alone)


SENTENCES = [["Ada", "lives", "in", "Paris"], ["Bob", "left", "Rome"]] * 4
TAGS = [["P", "O", "O", "L"], ["P", "O", "L"]] * 4
OF_TEXTS = {"width": 4, "embedding_size": 4, "max_epochs": 1, "wide": False, "random_state": 0}
TRAINED = {
    "rows": lambda: (
        MANNClassifier("mann", random_state=0)
        .meta_fit(TablePrior(), max_steps=1, batch_size=1, verbose=False)
        .learner_
    ),
    "texts": lambda: (
        MetaLSTMClassifier(**OF_TEXTS)
        .meta_fit({"a": (["a b", "c d"] * 4, [0, 1] * 4)}, verbose=False)
        .fit(["a b", "c d"] * 4, [0, 1] * 4)
        .module_
    ),
    "sentences": lambda: MetaLSTMTagger(**OF_TEXTS).fit(SENTENCES, TAGS).module_,
}


@pytest.mark.parametrize("train", TRAINED.values(), ids=TRAINED)
def test_training_minds_no_gradient_mode_of_a_caller(train):
    """``inference_mode`` used to end in torch's own error."""
    expected = train().state_dict()
    for mode in (torch.inference_mode(), torch.no_grad()):
        with mode:
            found = train().state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
