"""Commands of the benchmarks refuse bad arguments, and a short try does not spoil a longer run."""

import sys
from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import circle_spiral
import few_shot_cross_val
import few_shot_tables
import made_outliers
import meta_fit_tables
import online_tables
import outliers
import paper_000
import paper_001
import paper_001_mixtures
import paper_002
import paper_003
import speed
from threadpoolctl import threadpool_info, threadpool_limits


@pytest.mark.parametrize(
    ("script", "given", "told"),
    [
        (paper_000, "--splits 0", "--splits: 0 is not positive"),
        (paper_000, "--only 1a --methods HLM", "--methods: 'HLM' is none of 'GP', 'LP', 'MAML'"),
        (paper_000, "--only 4 --methods Proto", "'Proto' is none of 'GP', 'MAML', 'MetaGP'"),
        (paper_001, "--steps 0", "--steps: 0 is not positive"),
        (paper_001, "--only 2 --methods SAB", "'SAB' is none of 'rFF + Pooling (mean)'"),
        (paper_002, "--seeds 0", "--seeds: 0 is not positive"),
        (paper_002, "--only table_1 --methods NTM", "'NTM' is none of 'feed-forward', 'LSTM'"),
        (paper_002, "--only table_1 --tasks string_5", "'string_5' is none of 'onehot_5'"),
        (paper_002, "--only figure_6 --methods LSTM", "'LSTM' is none of what is asked for"),
        (paper_002, "--weights nowhere", "--weights: No weights 'nowhere'"),
        (paper_002, "--weights table_1=omniglot_mann", "'table_1' is none of 'onehot_5'"),
        (paper_002, "--weights default_mann_regression", "give the task of default_mann_regr"),
        (paper_003, "--search 0", "--search: 0 is not positive"),
        (paper_003, "--search 2 --ablations", "--search finds settings: leave out --ablations"),
        (paper_003, "--ablations --models snail", "--ablations stand in place of --models"),
        (paper_003, "--data symbolic mini_imagenet", "give its folder by --mini-imagenet"),
        (few_shot_cross_val, "--methods 2-NN", "'2-NN' is none of 'FewShotTransformerClassifier'"),
        (few_shot_cross_val, "--data tables --tables nowhere", "no index.csv in nowhere"),
        (few_shot_cross_val, "--split all", "--split: invalid choice: 'all'"),
        (online_tables, "--folder nowhere", "no index.csv in nowhere"),
        (meta_fit_tables, "--folder nowhere", "no index.csv in nowhere"),
        (outliers, "--episodes 0", "--episodes: 0 is not positive"),
        (made_outliers, "--draws 0", "--draws: 0 is not positive"),
    ],
)
def test_what_would_compute_nothing_is_refused_at_once(script, given, told, capsys, tmp_path):
    # In a folder of its own, in case the script runs nevertheless.
    with pytest.raises(SystemExit, match="2"):
        script.main([*given.split(), "--output", str(tmp_path)])
    assert told in capsys.readouterr().err


def test_weights_of_one_name_in_two_folders_are_two_methods():
    names = few_shot_tables.our_names(["default", "a/b.safetensors", "c/b.safetensors"])
    assert names == {
        "ours:default": "default",
        "ours:b": "a/b.safetensors",
        "ours:c/b.safetensors": "c/b.safetensors",
    }


def test_tables_have_rows_for_as_many_shots_as_are_asked_for(monkeypatch):
    """Tables too small for the shots are left out: such a table ended the command halfway."""
    X = pd.DataFrame({"x": range(60)})
    found = [few_shot_tables.Table(f"{n}", X[: 2 * n], X["x"][: 2 * n] % 2, "") for n in (16, 30)]
    monkeypatch.setattr(few_shot_cross_val, "read_tables", lambda *args: found)
    for shots, names in (([1, 5], ["16", "30"]), ([1, 20], ["30"])):
        options = Namespace(tables=None, split="test", n_shots=shots, n_unlabelled=10)
        assert [name for name, *_ in few_shot_cross_val.tables(options)] == names


def test_a_quick_run_is_no_beginning_of_another_one(tmp_path):
    only = ["--only", "rFF + Pooling", "--checkpoints", str(tmp_path), "--output", str(tmp_path)]
    paper_001_mixtures.main([*only, "--quick"])
    paper_001_mixtures.main([*only, "--steps", "2", "--n-sets", "2", "--width", "8"])
    assert "--steps 2" in (tmp_path / "mixtures.md").read_text("utf-8")


def test_a_try_is_no_beginning_of_a_longer_run(tmp_path):
    few = ["--seeds", "0", "--n-test", "1", "--checkpoints", str(tmp_path)]
    for n_steps in ("1", "2"):
        circle_spiral.main([*few, "--max-steps", n_steps, "--output", str(tmp_path / "found")])
    assert set(pd.read_csv(tmp_path / "found.csv")["max_steps"]) == {2}


def test_scikit_learn_is_timed_on_as_many_threads_as_torch(tmp_path, monkeypatch):
    seen = []

    def rows(*args):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        yield speed.row_of("estimator", "", {"ours": 1.0, "peer": 1.0})

    for name in ("backbone_rows", "attention_rows", "estimator_rows", "batch_rows"):
        monkeypatch.setattr(speed, name, rows)
    with threadpool_limits(2):
        speed.main(["--quick", "--output", str(tmp_path / "speed")])
    assert set(seen) == {1}


def test_outliers_within_are_found_by_the_default_weights(tmp_path, capsys):
    made_outliers.main(["--draws", "1", "--output", str(tmp_path)])
    table = pd.read_csv(tmp_path / "made.csv", index_col="set")
    assert (tmp_path / "made.md").read_text("utf-8") in capsys.readouterr().out
    assert len(table) == len(made_outliers.KINDS) and not table.isna().any(axis=None)
    assert (table["ours:default"].drop("ring amid noise") > 0.9).all()
    # Check the name of the set: the mean is in the middle of a ring.
    assert table.loc[["ring", "between"], "distance to the mean"].max() < 0.2
