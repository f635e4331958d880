"""benchmarks/many_classes.py on made data: which rows are labelled, and what is written."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_blobs

# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import many_classes as benchmark

from sklearn_meta.backbones import VSA

X, Y = make_blobs(12 * 9, 4, centers=12, random_state=0)


def test_rows_of_a_task_are_as_many_of_each_class_and_none_is_both():
    labelled, unlabelled = benchmark.draw(Y, 5, 3, 6, np.random.default_rng(0))
    assert len(set(labelled) | set(unlabelled)) == 5 * 9
    assert set(np.unique(Y[labelled], return_counts=True)[1]) == {3}
    assert set(np.unique(Y[unlabelled], return_counts=True)[1]) == {6}


def test_the_default_weights_stand_twice_where_there_are_more_than_ten_classes(
    monkeypatch, tmp_path
):
    monkeypatch.setitem(benchmark.DATA, "omniglot", lambda options: (X, Y))
    monkeypatch.setitem(benchmark.CLASSES, "omniglot", (3, 12))
    monkeypatch.setitem(benchmark.N_UNLABELLED, "omniglot", 6)
    stem = tmp_path / "found"
    benchmark.main(
        ["--data", "omniglot", "--repeats", "1", "--n-shots", "3", "--output", f"{stem}"]
    )
    rows = pd.read_csv(stem.with_suffix(".csv")).set_index(["classes", "method"])
    assert set(rows.loc[3].index) == {"ours", benchmark.META_LP, *benchmark.PEERS}
    assert set(rows.loc[12].index) == {*rows.loc[3].index, benchmark.EACH_A_COLUMN}
    assert rows.loc[12].loc[["ours", benchmark.EACH_A_COLUMN], "log_loss"].nunique() == 2
    assert VSA.most_classes == 10  # restored after the run
    assert rows["accuracy"].between(0.5, 1).all()
    assert "### log loss" in stem.with_suffix(".md").read_text("utf-8")
