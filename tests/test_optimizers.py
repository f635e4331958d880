"""Optimisers of meta-training: their steps, rates and settings."""

import copy
import os
import pickle
import re
import signal
import threading
import time
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from skorch.callbacks import Callback
from torch import nn

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier, optimizers, training
from sklearn_meta.backbones import VSA
from sklearn_meta.learner import Learner
from sklearn_meta.optimizers import OPTIMIZERS, MuonAdamW, rates
from sklearn_meta.settings import check_settings
from sklearn_meta.tasks import RegressionPrior, RegressionSampler
from sklearn_meta.training import meta_train


def network():
    """A network with matrices of 16 x 8 and 2 x 16, and two biases."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def take_steps(optimizer, model, n_steps):
    x = torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - x[:, :2] * x[:, 2:4]).square().mean()
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(n_steps):
        optimizer.step(closure)
    return calls


def test_matrices_are_muons_and_the_rest_adamws():
    ours, muon, adamw = network(), network(), network()
    optimizer = MuonAdamW(ours.parameters(), lr=1e-2, weight_decay=0.1)
    (loss,) = take_steps(optimizer, ours, 1)
    take_steps(torch.optim.AdamW(adamw.parameters(), lr=1e-2, weight_decay=0.1), adamw, 1)
    part = torch.optim.Muon([muon[0].weight], lr=1e-2, weight_decay=0.1)
    assert take_steps(part, muon, 1) == [loss]
    torch.testing.assert_close(ours[0].weight, muon[0].weight, rtol=0, atol=0)
    rest = ["0.bias", "2.weight", "2.bias"]
    for name in rest:
        theirs = adamw.get_parameter(name)
        torch.testing.assert_close(ours.get_parameter(name), theirs, rtol=0, atol=0)
    assert not torch.equal(ours[0].weight, adamw[0].weight)


def test_all_directions_of_a_matrix_move_alike():
    model, rate = network(), 1e-2
    before = model[0].weight.detach().clone()
    take_steps(MuonAdamW(model.parameters(), lr=rate, weight_decay=0), model, 1)
    moved = torch.linalg.svdvals(model[0].weight.detach() - before) / rate
    assert (moved > 0.5).all() and (moved < 2).all()


def test_schedules_reach_both():
    model = network()
    optimizer = MuonAdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: float(step == 0))
    take_steps(optimizer, model, 1)
    schedule.step()
    before = [p.detach().clone() for p in model.parameters()]
    take_steps(optimizer, model, 1)  # at rate zero
    for p, was in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), was, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["muon and adamw", "adamw alone", "muon alone"])
def test_saved_state_goes_on_as_if_it_had_not_been_interrupted(kind):
    def begin():
        model = network()
        chosen = {"adamw alone": [model[0].bias], "muon alone": [model[0].weight]}
        return model, MuonAdamW(chosen.get(kind, model.parameters()), lr=1e-2)

    model, optimizer = begin()
    losses = take_steps(optimizer, model, 8)
    assert losses[-1] < losses[0]
    other, first = begin()
    assert take_steps(first, other, 4) == losses[:4]
    second = MuonAdamW([p for g in first.param_groups for p in g["params"]], lr=0.5)
    second.load_state_dict(first.state_dict())
    assert take_steps(second, other, 4) == losses[4:]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_go_on_alike(copied):
    model = network()
    optimizer = MuonAdamW(model.parameters(), lr=1e-2)
    take_steps(optimizer, model, 2)
    again, copy_ = copied((model, optimizer))
    copy_.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] = 0.1  # both parts follow
    assert take_steps(copy_, again, 3) == take_steps(optimizer, model, 3)


def test_no_parameters_come_later():
    optimizer = MuonAdamW(network().parameters())
    with pytest.raises(
        ValueError, match="cannot add parameters later: create one with all of them"
    ):
        optimizer.add_param_group({"params": network().parameters()})


@pytest.mark.parametrize("head_rate", [1.0, 30.0])
def test_the_head_learns_at_its_own_rate(head_rate):
    torch.manual_seed(0)
    config = {"width": 8, "n_layers": 1, "n_heads": 1, "head_width": 8}
    learner = Learner(head="gp", task="regression", backbone_config=config)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    meta_train(
        learner,
        RegressionPrior(),
        RegressionSampler((5,), 5),
        **{"learning_rate": 1e-4, "rate_factors": {"head.*": head_rate}, "weight_decay": 0.0},
        **{"max_steps": 1, "batch_size": 2, "n_warmup": 0, "verbose": False},
    )
    # The first step of AdamW has the size of the rate, whatever the gradient.
    moved = {n: (p.detach() - before[n]).abs().max() / 1e-4 for n, p in learner.named_parameters()}
    for name in ("head.log_noise", "head.log_length_scale", "head.log_amplitude"):
        assert moved[name] == pytest.approx(head_rate, rel=0.01)
    others = [distance for name, distance in moved.items() if not name.startswith("head.")]
    assert max(others) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_parameter_has_its_rate_where_processes_wrap_the_network_too(wrapped):
    learner = Learner(head="gp", task="regression")
    module = nn.ModuleDict({"module": learner}) if wrapped else learner
    patterns = rates(1e-3, {"head.*": 30.0})
    for name, _ in module.named_parameters():
        own = [group["lr"] for pattern, group in patterns if fnmatch(name, pattern)]
        (found,) = own or [0.001]  # other parameters have the optimiser's rate
        assert found == pytest.approx(0.03 if "head." in name else 0.001)


def small_backbone():
    return VSA(width=8, n_layers=1, n_heads=1, head_width=8)


@pytest.mark.parametrize(
    ("estimator", "settings", "expected"),
    [
        (MetaGPRegressor(small_backbone()), {}, 30),
        (MetaGPRegressor("deep_sets"), {}, 30),
        (MetaGPRegressor("deep_sets", head="linear"), {}, 30),
        (MetaGPRegressor("deep_sets"), {"optimizer": "muon"}, 1),
        (MetaGPRegressor(), {}, 1),  # its kernels are learned already
        (MetaSemiSupervisedClassifier("deep_sets"), {}, 1),
        (MetaSemiSupervisedClassifier("deep_sets", head="linear"), {}, 30),
        (MetaSemiSupervisedClassifier("deep_sets", head="label_propagation"), {}, 30),
    ],
)
def test_kernels_and_penalties_that_begin_at_random_learn_faster(estimator, settings, expected):
    seen = []

    class Rates(Callback):
        def on_train_begin(self, net, **kwargs):
            groups = net.optimizer_.param_groups
            seen.append(max(group["initial_lr"] for group in groups) / 1e-3)

    X, y = load_iris(return_X_y=True)
    few = {"max_steps": 1, "batch_size": 1, "verbose": False, "callbacks": [Rates()]}
    estimator = clone(estimator).meta_fit([(X, y)], **few, **settings)
    assert seen == [pytest.approx(expected)]
    estimator.meta_fit([(X, y)], **few, **settings)  # trains on
    assert seen[1] == pytest.approx(1)


def test_rmsprop_is_as_paper_002_has_it():
    kind, settings = OPTIMIZERS["rmsprop"]
    assert kind is torch.optim.RMSprop and settings == {"alpha": 0.95, "momentum": 0.9}


@pytest.mark.parametrize("in_thread", [False, True])
def test_ctrl_c_leaves_no_module_of_torch_half_imported(monkeypatch, in_thread):
    """The first optimiser imports many modules; half imported, they would fail all later ones."""
    imported = []

    def slow(name):
        if not in_thread:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # the signal would arrive here
        imported.append(name)

    monkeypatch.setattr(optimizers, "importlib", SimpleNamespace(import_module=slow))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if in_thread:  # threads get no signals
            thread = threading.Thread(target=optimizers.import_compiler)
            thread.start()
            thread.join()
        else:
            with pytest.raises(KeyboardInterrupt):
                optimizers.import_compiler()
        assert imported == ["torch._dynamo"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_meta_fit_imports_them_before_it_makes_an_optimizer(monkeypatch):
    def told():
        raise InterruptedError

    monkeypatch.setattr(training, "import_compiler", told)
    monkeypatch.setattr(training.MetaNet, "initialize", None)
    with pytest.raises(InterruptedError):
        MetaSemiSupervisedClassifier("vsa").meta_fit([load_iris(return_X_y=True)], verbose=False)


def test_each_optimizer_that_may_be_asked_for_is_there():
    """Names are listed with the other settings, which are checked without torch."""
    for name in OPTIMIZERS:
        check_settings({"optimizer": name})
    with pytest.raises(ValueError, match=re.escape(f"must be one of {list(OPTIMIZERS)}")):
        check_settings({"optimizer": "none of them"})
