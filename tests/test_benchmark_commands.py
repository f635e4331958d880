"""Commands of the benchmarks: what they refuse, and that a try spoils no longer run."""

import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import circle_spiral
import paper_001_mixtures


def test_a_quick_run_is_no_beginning_of_another_one(tmp_path):
    only = ["--only", "rFF + Pooling", "--checkpoints", str(tmp_path), "--output", str(tmp_path)]
    paper_001_mixtures.main([*only, "--quick"])
    paper_001_mixtures.main([*only, "--steps", "2", "--n-sets", "2", "--width", "8"])
    assert "--steps 2" in (tmp_path / "mixtures.md").read_text()


def test_a_try_is_no_beginning_of_a_longer_run(tmp_path):
    few = ["--seeds", "0", "--n-test", "1", "--checkpoints", str(tmp_path)]
    for n_steps in ("1", "2"):
        circle_spiral.main([*few, "--max-steps", n_steps, "--output", str(tmp_path / "found")])
    assert set(pd.read_csv(tmp_path / "found.csv")["max_steps"]) == {2}
