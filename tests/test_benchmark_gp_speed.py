"""benchmarks/gp_speed.py compares equal answers, and its quick form writes ratios of times."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import gp_speed as benchmark

from sklearn_meta.heads import GaussianProcess


def test_head_and_loop_give_the_same_answers():
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((3, 12, 2, 2)), rng.standard_normal((3, 5))
    head = GaussianProcess(n_kernels=1, length_scale=2.0).double().requires_grad_(False)
    ours = benchmark.by_head(head, torch.from_numpy(z), torch.from_numpy(y))()
    theirs = benchmark.by_loop(head, z, y)()
    for found, expected in zip(ours, theirs, strict=True):
        assert found.shape == expected.shape == (3, 7)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.ptp(theirs[0]) > 0.1


def test_other_answers_end_the_run(monkeypatch):
    monkeypatch.setattr(benchmark, "by_loop", lambda *args: lambda: np.zeros((2, 8, 40)))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        next(benchmark.head_rows(8, [(10, 40)], 1))


def test_quick_form_writes_every_ratio(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "SIZES", [(6, 10)])
    benchmark.main(["--quick", "--output", str(tmp_path / "quick")])
    with open(tmp_path / "quick.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["benchmark"] for row in rows] == ["head"] * 2 + ["predict_batch"] * 4
    assert {row["against"] for row in rows} == {
        *(benchmark.FIXED, benchmark.FITTED, "fit and predict, loop")
    }
    for row in rows:
        ours, against, ratio = (float(row[f]) for f in ("ms_ours", "ms_against", "time_ratio"))
        assert ours > 0 and ratio == pytest.approx(against / ours)
    text = (tmp_path / "quick.md").read_text("utf-8")
    assert "gp_speed.py --quick`" in text and text.count("| predict_batch |") == 4
