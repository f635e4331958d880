"""Optimisers of meta-training."""

from fnmatch import fnmatch
from itertools import product

import pytest
import torch
from torch import nn

from sklearn_meta.learner import Learner
from sklearn_meta.optimizers import MuonAdamW, _is_matrix, rates
from sklearn_meta.tasks import EpisodeSampler, RegressionPrior, RegressionSampler, TablePrior
from sklearn_meta.training import meta_train


def network():
    """A matrix of 16 x 8, one of 2 x 16, and two biases."""
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


def test_a_heads_parameters_learn_at_their_own_rate():
    draws = {
        "regression": (RegressionPrior(), RegressionSampler((5,), 5)),
        "classification": (TablePrior(), EpisodeSampler((1,), 3)),
    }
    factors = {
        ("regression", "gp"): 30,
        ("regression", "linear"): 30,
        ("classification", "linear"): 30,
    }
    factors |= {("classification", "label_propagation"): 30, ("classification", "prototypes"): 1}
    for ((task, head), factor), optimizer in product(factors.items(), ("adamw", "muon")):
        torch.manual_seed(0)
        config = {"width": 8, "n_layers": 1, "n_heads": 1, "head_width": 8}
        learner = Learner(head=head, task=task, backbone_config=config)
        before = {name: p.detach().clone() for name, p in learner.named_parameters()}
        settings = {"optimizer": optimizer, "learning_rate": 1e-4, "weight_decay": 0.0}
        settings |= {"max_steps": 1, "batch_size": 2, "n_warmup": 0, "verbose": False}
        meta_train(learner, *draws[task], **settings)
        moved = {
            name: (p.detach() - before[name]).abs().max().item() / 1e-4
            for name, p in learner.named_parameters()
            if optimizer == "adamw" or not _is_matrix(p)  # AdamW's first step is the rate
        }
        heads, others = (
            [m for n, m in moved.items() if n.startswith("head.") == own] for own in (True, False)
        )
        assert max(heads) == pytest.approx(factor if optimizer == "adamw" else 1, rel=0.01)
        assert max(others) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("wrapped", [False, True])
def test_every_parameter_has_its_rate_where_processes_wrap_the_network_too(wrapped):
    learner = Learner(head="gp", task="regression")
    module = nn.ModuleDict({"module": learner}) if wrapped else learner
    patterns = rates(learner, "adamw", 1e-3)
    for name, _ in module.named_parameters():
        (found,) = (group["lr"] for pattern, group in patterns if fnmatch(name, pattern))
        assert found == pytest.approx(0.03 if "head." in name else 0.001)
