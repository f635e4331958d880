"""benchmarks/set_attention.py compares equal answers, and its quick form writes ratios."""

import csv
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from processes import ended, started

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import set_attention as benchmark


@pytest.mark.parametrize("block", benchmark.BLOCKS)
@pytest.mark.parametrize("attention", list(benchmark.ATTENTIONS)[1:])
def test_all_attentions_have_one_answer(block, attention):
    x = benchmark.elements(block, 30)
    ours, other = (benchmark.build(block, name) for name in (benchmark.OURS, attention))
    torch.testing.assert_close(other(x), ours(x), rtol=1e-4, atol=1e-5)
    # The other attention computes it: ours is not called.
    for module in other.modules():
        if isinstance(module, benchmark.MAB):
            assert "attend" in vars(module) and module.other is not None


def test_another_answer_ends_the_run(monkeypatch):
    monkeypatch.setitem(benchmark.ATTENTIONS, "wrong", lambda block: lambda x, y: 2 * x)
    with pytest.raises(AssertionError, match="not close"):
        next(benchmark.rows_of(["SAB(64, 8)"], [10], 1, 1))


def print_to(file, arguments):
    with open(file, "w", encoding="utf-8") as out, redirect_stdout(out):
        benchmark.main(arguments)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is Linux's")
def test_peak_memory_sees_the_weights_that_plain_attention_keeps(monkeypatch, tmp_path):
    """Plain attention keeps several arrays of 8 x 1100 x 1100 float32 (37 MiB each), ours none.

    Forked processes measure it: one that holds much memory may free some and show no peak.
    """

    def forked(command, **settings):
        assert command[:2] == [sys.executable, benchmark.__file__]
        assert ended(started(print_to, tmp_path / "peak", command[2:])) == 0
        return SimpleNamespace(stdout=(tmp_path / "peak").read_text("utf-8"))

    monkeypatch.setattr(benchmark.subprocess, "run", forked)
    plain, ours = (
        benchmark.peak_memory("SAB(64, 8)", 1100, name, 1)
        for name in ("matmul and softmax", benchmark.OURS)
    )
    assert plain > 70 and ours < plain / 4


def test_quick_form_writes_every_ratio(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "peak_memory", lambda block, n, name, threads: float(n))
    benchmark.main(["--quick", "--output", str(tmp_path / "quick")])
    with open(tmp_path / "quick.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * len(benchmark.ATTENTIONS)
    for group in zip(*[iter(rows)] * len(benchmark.ATTENTIONS)):
        assert len({(row["block"], row["n"]) for row in group}) == 1
        for row in group:
            expected = float(row["ms"]) / float(group[0]["ms"])
            assert float(row["time_ratio"]) == pytest.approx(expected)
            assert float(row["memory_ratio"]) == 1
    text = (tmp_path / "quick.md").read_text("utf-8")
    assert "--quick" in text and "| SAB(64, 8) / ISAB_4(64, 8) | 50 |" in text
    assert (tmp_path / "quick.png").stat().st_size > 0
