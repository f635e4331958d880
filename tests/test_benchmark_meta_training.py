"""benchmarks/meta_training.py in its quick form compares the same work and writes figures."""

import csv
import sys
from pathlib import Path

import pytest
import torch

# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import meta_training as benchmark


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    monkeypatch.setattr(benchmark, "POOL", 6)


@pytest.fixture
def small():
    """A learner, and tasks drawn beforehand."""
    _, learner, source, sampler = next(benchmark.networks(quick=True))
    return learner, benchmark.Known(source, sampler)


def test_plain_loop_and_engine_do_the_same_work(small):
    learner, known = small
    weights = benchmark.check_same_work(learner, known)
    for name, start in learner.state_dict().items():
        assert not torch.equal(weights[name], start.double()), name


def spoilt(of_loss, of_weight):
    """The plain loop with changed losses or weights."""

    def loop(learner, *rest, loop=benchmark.plain_loop):
        losses = loop(learner, *rest)
        next(learner.parameters()).data[0, 0] += of_weight
        return [loss + of_loss for loss in losses]

    return loop


@pytest.mark.parametrize("loop", [spoilt(1e-4, 0), spoilt(0, 1e-4)])
def test_other_work_is_told(small, loop, monkeypatch):
    monkeypatch.setattr(benchmark, "plain_loop", loop)
    with pytest.raises(AssertionError, match="close|tolerance"):
        benchmark.check_same_work(*small)


def test_quick_form_writes_every_figure(tmp_path):
    benchmark.main(["--quick", "--output", str(tmp_path / "quick")])
    with open(tmp_path / "quick.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["ours"] for row in rows} == {
        *("meta_train", "plain loop again", "meta_train, n_workers=1"),
        *benchmark.PARTS,
    }
    for row in rows:
        speeds = [float(row[f"episodes_per_s_{who}"]) for who in ("ours", "against")]
        assert min(speeds) > 0
        value, lowest, highest = (float(row[f]) for f in ("value", "lowest", "highest"))
        assert lowest <= value <= highest
        assert value > (-1 if row["figure"] == "overhead" else 0)
    shares = {
        row["ours"]: float(row["value"]) for row in rows if row["figure"] == "share of a step"
    }
    assert sum(shares[part] for part in benchmark.PARTS[1:]) == pytest.approx(shares["preparation"])
    text = (tmp_path / "quick.md").read_text("utf-8")
    assert "--quick" in text and text.count("| overhead |") == 2 * 2  # benchmark and figure
