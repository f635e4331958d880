"""How the estimators of sets are trained, and their example."""

import csv
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from test_sets import QUICK, random_sets
from torch import nn

from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor, training


def test_random_state_decides_and_nothing_else():
    X = random_sets(40)
    y = [elements.sum() for elements in X]
    settings = {**QUICK, "dropout": 0.3, "early_stopping": True}

    def predictions(seed):
        return SetTransformerRegressor(**{**settings, "random_state": seed}).fit(X, y).predict(X)

    torch.manual_seed(0)
    expected = predictions(0)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert_array_equal(predictions(0), expected)
    assert_array_equal(torch.get_rng_state(), state)
    assert np.abs(predictions(1) - expected).max() > 1e-3
    assert_array_equal(predictions(np.random.RandomState(0)), expected)


def test_learning_rate_warms_up_and_falls(monkeypatch):
    asked = []

    def rate_at(step, *schedule):
        asked.append((step, *schedule))
        return rate(step, *schedule)

    rate = training.rate_at
    monkeypatch.setattr(training, "rate_at", rate_at)
    SetTransformerRegressor(**QUICK, batch_size=4).fit(random_sets(21), np.arange(21))
    steps = [step for step, *_ in asked]
    assert steps[:-1] == list(range(12)) and asked[-1] == (12, 12, 2)  # 6 batches, 2 epochs
    assert rate(12, 12, 2) == 0


@pytest.fixture
def held_out(monkeypatch):
    """Collect the pairs (set, target) that each training holds out in a list."""
    seen, split = [], training.predefined_split
    monkeypatch.setattr(training, "predefined_split", lambda data: seen.append(data) or split(data))
    return seen


def test_early_stopping_keeps_the_best_epoch(held_out):
    """Noise cannot be learned: the validation loss rises."""
    X, y = random_sets(60), np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 20))
    settings = {**QUICK, "max_epochs": 30, "learning_rate": 0.02}
    stopping = {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 3}
    model = SetTransformerClassifier(**settings, **stopping).fit(X, y)
    losses = model.history_[:, "valid_loss"]
    assert model.n_iter_ == len(losses) == np.argmin(losses) + 4 < 30
    with torch.no_grad():
        inputs, target = training.collate(held_out[0])
        kept = nn.functional.cross_entropy(model.module_(**inputs), target)
    assert kept.item() == pytest.approx(min(losses)) != losses[-1]
    whole = SetTransformerClassifier(**settings).fit(X, y)
    assert whole.n_iter_ == 30 and "valid_loss" not in whole.history_[0]
    assert len(held_out) == 1


def test_validation_sets_are_stratified(held_out):
    stopping = {"early_stopping": True, "validation_fraction": 0.2}
    y = np.repeat(["a", "b"], [40, 10])
    SetTransformerClassifier(**QUICK, **stopping).fit(random_sets(50), y)
    assert sorted(int(target) for _, target in held_out[0]) == [0] * 8 + [1] * 2


def test_verbose_prints_a_line_an_epoch(capsys):
    X, y = random_sets(10), np.arange(10)
    SetTransformerRegressor(**QUICK).fit(X, y)
    assert not capsys.readouterr().out
    SetTransformerRegressor(**QUICK, verbose=True).fit(X, y)
    assert "train_loss" in capsys.readouterr().out


def test_a_diverged_training_is_an_error():
    embedding = nn.Linear(2, 3)
    X = [1e200 * elements for elements in random_sets(10)]
    with pytest.raises(ValueError, match="Training diverged.*Lower learning_rate"):
        SetTransformerRegressor(**QUICK, embedding=embedding).fit(X, np.arange(10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SetTransformerRegressor(**QUICK).fit(X, np.arange(10))  # standardised, it is harmless


def test_gradients_are_clipped(monkeypatch):
    """A single odd set does not throw the weights off."""
    norms, step = [], torch.optim.AdamW.step

    def spy(self, closure):
        loss = step(self, closure)
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        norms.append(float(torch.cat([g.flatten() for g in gradients if g is not None]).norm()))
        return loss

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    X, y = random_sets(32), np.zeros(32)
    y[5] = 1e3  # in units of the deviation the other targets are near zero
    SetTransformerRegressor(**{**QUICK, "max_epochs": 1, "batch_size": 1}).fit(X, y)
    assert max(norms) == pytest.approx(1, abs=1e-3)


class Interrupt(nn.Module):
    """Returns its input, and is interrupted at a given call."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, elements):
        self.call -= 1
        if self.call == 0:
            raise KeyboardInterrupt
        return elements


@pytest.mark.parametrize(("early_stopping", "call"), [(False, 4), (True, 6)])
def test_an_interrupt_ends_training_with_a_warning(early_stopping, call):
    # The first call finds the shape. Modules are copied, so calls are counted in the copy.
    ways = {**QUICK, "max_epochs": 9, "early_stopping": early_stopping}
    model = SetTransformerRegressor(**ways, embedding=Interrupt(call))
    with pytest.warns(UserWarning, match="interrupted after 2 of 9 epochs"):
        model.fit(random_sets(10), np.arange(10))
    assert np.isfinite(model.predict(random_sets(10))).all()


def test_an_interrupt_before_anything_was_learned_is_one():
    model = SetTransformerRegressor(**QUICK, embedding=Interrupt(2))
    with pytest.raises(KeyboardInterrupt, match="before its first epoch was complete"):
        model.fit(random_sets(10), np.arange(10))
    with pytest.raises(NotFittedError):
        model.predict(random_sets(10))


def test_the_example(tmp_path, monkeypatch, capsys):
    example = Path(__file__).parents[1] / "examples" / "sets.py"
    monkeypatch.setattr(sys, "argv", [str(example), "--quick", "--output", str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    with open(tmp_path / "sets.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    for row in rows:
        assert 0 <= float(row["accuracy"]) <= 1
        assert f"{row['method']:30} accuracy {float(row['accuracy']):.3f}" in printed
