"""The protocol of benchmarks/few_shot_regression.py, on tiny synthetic tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import expon, norm, ttest_rel

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import few_shot_regression
import few_shot_tables
import regression_peers
import regression_report
from few_shot_regression import Predicted, draw_episode, score
from regression_peers import RegressionCache

from sklearn_meta.learner import Learner
from sklearn_meta.weights import save_learner


def make_table(name="toy", n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"number": rng.normal(size=n_rows), "other": rng.normal(size=n_rows)})
    y = 1e4 + 1e3 * (X["number"] + 0.1 * rng.normal(size=n_rows)).to_numpy()
    X["category"] = pd.Categorical(np.array(["red", "green"])[rng.integers(2, size=n_rows)])
    X.loc[rng.random(n_rows) < 0.1, "other"] = np.nan
    return few_shot_tables.Table(name, X, y, sha256=f"sha of {name}")


def run(tables, cache, settings=(5, 10), n_rows=40, ours=None, names=("Ridge", "BayesianRidge")):
    return few_shot_regression.run(
        tables, 2, list(settings), n_rows, ours or {}, list(names), cache
    )


def test_episodes_are_nested_and_depend_on_name_and_number_only():
    table = make_table()
    few, rest = draw_episode(table, 3, 5, 40)
    more, rest_of_more = draw_episode(table, 3, 20, 40)
    assert (len(few), len(rest), len(more), len(rest_of_more)) == (5, 35, 20, 20)
    assert more[:5].tolist() == few.tolist()
    assert sorted([*few, *rest]) == sorted([*more, *rest_of_more]) == sorted({*few, *rest})
    assert draw_episode(table, 3, 5, 40)[0].tolist() == few.tolist()
    for other in (draw_episode(table, 4, 5, 40), draw_episode(make_table("b"), 3, 5, 40)):
        assert set(other[0]) != set(few)


def test_small_tables_give_all_their_rows_and_smaller_ones_are_refused():
    labelled, unlabelled = draw_episode(make_table(n_rows=30), 0, 20, 100)
    assert len(labelled) == 20 and len(unlabelled) == 10
    with pytest.raises(ValueError, match="toy has no more than 20 rows"):
        draw_episode(make_table(n_rows=20), 0, 20, 100)


def test_score():
    mean, std, y = np.array([0.0, 1, 2]), np.array([1.0, 1, 2]), np.array([0.0, 3, 2])
    found = score(Predicted(mean, std), y)
    assert found["mse"] == pytest.approx(4 / 3)
    assert found["nlpd"] == pytest.approx(-norm.logpdf(y, mean, std).mean())
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["width"] == pytest.approx(2 * 1.6448536 * 4 / 3)
    assert found["nlpd_mixed"] == pytest.approx(found["nlpd"], abs=0.1)
    # One certain but wrong row dominates the plain score, and hardly changes the mixed one.
    wrong = score(Predicted(np.zeros(100), np.full(100, 1e-6)), np.full(100, 1e-3))
    assert wrong["nlpd"] > 1e5 and wrong["nlpd_mixed"] < 6
    missing = score(Predicted(mean, None), y)
    assert missing["mse"] == pytest.approx(4 / 3)
    assert all(np.isnan(missing[k]) for k in ("nlpd", "nlpd_mixed", "coverage", "width"))


def test_score_of_a_distribution_that_is_not_normal():
    """Exponential targets whose unit changes between prediction and score."""
    rng = np.random.default_rng(0)
    y, scales = rng.exponential(np.full(500, 3.0)), np.full(500, 3.0)
    ends = expon.ppf(np.array(few_shot_regression.ENDS)[:, None], scale=scales)
    told = Predicted(scales, scales, expon.logpdf(y, scale=scales), ends)
    found = score(told.moved(-1.0, 0.5), 0.5 * y - 1)
    low, high = expon.interval(0.9, scale=1.5)
    assert found["coverage"] == np.mean((ends[0] <= y) & (y <= ends[1]))
    assert found["coverage"] == pytest.approx(0.9, abs=0.04)
    assert found["width"] == pytest.approx(high - low)
    assert found["nlpd"] == pytest.approx(1 + np.log(1.5), abs=0.1)
    normal = score(Predicted(scales, scales).moved(-1.0, 0.5), 0.5 * y - 1)
    assert normal["mse"] == found["mse"]
    assert normal["nlpd"] > found["nlpd"] + 0.2 and normal["width"] > found["width"] + 0.2


@pytest.mark.parametrize("name", regression_peers.PEERS)
def test_peers_see_standardised_targets_and_are_scored_in_the_tables_unit(name, monkeypatch):
    table, seen = make_table(), []
    predict = regression_peers.predict

    def watched(name, X, y, X_new):
        seen.append(y)
        return predict(name, X, y, X_new)

    monkeypatch.setattr(regression_peers, "predict", watched)
    rows = few_shot_regression.run_unit(table, 0, [30], 60, {}, [name], set())
    assert abs(seen[0].mean()) < 1e-9 and seen[0].std() == pytest.approx(1)
    hopeless = name in ("mean", "HistGradientBoosting")
    assert (rows[0]["mse"] < 0.7) != hopeless and rows[0]["mse"] < 2
    has_std = regression_peers.PEERS[name].has_std
    assert np.isfinite(rows[0]["nlpd"]) == has_std
    if has_std and not hopeless:
        assert rows[0]["coverage"] > 0.6 and rows[0]["width"] < 2


@pytest.mark.parametrize("n_labelled", [1, 2, 4])
def test_peers_learn_from_few_rows(n_labelled):
    X, rng = np.eye(6, 3), np.random.default_rng(0)
    for name in regression_peers.PEERS:
        y = rng.normal(size=n_labelled)
        mean, _ = regression_peers.predict(name, X[:n_labelled], y, X[n_labelled:])
        assert mean.shape == (6 - n_labelled,) and np.isfinite(mean).all(), name


def test_control_predicts_mean_and_spread_of_the_labelled_rows():
    X, y = np.zeros((3, 1)), np.array([1.0, 2, 3])
    mean, std = regression_peers.predict("mean", X, y, np.zeros((2, 1)))
    assert mean.tolist() == [2, 2] and std == pytest.approx([(4 / 3) ** 0.5] * 2)
    assert regression_peers.predict("mean", X, y * 0, X)[1] == pytest.approx([(4 / 3) ** 0.5] * 3)


def test_cache_keeps_scores_that_have_no_density(tmp_path, monkeypatch):
    path, tables = tmp_path / "cache.csv", [make_table("a"), make_table("nan", seed=1)]
    fresh = run(tables, RegressionCache(path))
    assert len(fresh) == 2 * 2 * 2 * 2 and fresh["nlpd"].isna().sum() == 8
    monkeypatch.setattr(regression_peers, "predict", None)  # not called again
    again = run(tables, RegressionCache(path))
    pd.testing.assert_frame_equal(again, fresh)
    text = path.read_text("utf-8")
    path.write_text(text[: text.rindex(",")], "utf-8")  # a truncated line
    assert len(RegressionCache(path).scores) == len(fresh) - 1


def results_of(errors):
    """Rows of scores from {method: mse, tables x episodes}."""
    return pd.DataFrame(
        {
            "method": method, "dataset": f"t{t}", "labelled": 10, "rows": 100, "episode": e,
            "mse": value, "nlpd": value, "nlpd_mixed": value, "coverage": 0.9, "width": 1.0,
            "milliseconds": 2.0,
        }
        for method, table in errors.items()
        for t, row in enumerate(table)
        for e, value in enumerate(row)
    )  # fmt: skip


def test_summary_averages_ranks_and_tests_over_tables():
    ours = np.array([[0.5, 0.7], [0.6, 0.8], [0.3, 0.3], [0.5, 0.7]])
    peer = np.array([[0.8, 9.0], [0.5, 0.7], [0.6, 0.4], [0.7, 0.8]])
    summary = regression_report.summarise(results_of({"peer": peer, "ours:a": ours}), "ours:a")
    assert summary["method"].tolist() == ["ours:a", "peer"]  # the best first
    row = summary.iloc[1]
    tables = peer.mean(axis=1)
    assert row["mse"] == pytest.approx(tables.mean())
    assert row["mse_se"] == pytest.approx(tables.std(ddof=1) / 2)
    assert row["mse_clipped"] == pytest.approx(peer.clip(max=2).mean())
    assert row["mse_median"] == pytest.approx(np.median(np.median(peer, axis=1)))
    assert row["rank"] == 1.75
    assert row["difference"] == pytest.approx(ours.mean() - peer.mean())
    assert row["p_t"] == pytest.approx(ttest_rel(ours.mean(axis=1), tables).pvalue)
    text = regression_report.to_markdown(summary)
    assert "### 10 labelled rows" in text
    assert f"ours:a: MSE {1 - ours.mean() / peer.mean():.1%} below the best peer's, peer" in text


def test_command_runs_ours_beside_peers(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    rows = []
    for name, n in {"007": 60, "b": 30, "small": 20}.items():
        table = make_table(name, n)
        table.X.assign(y=table.y).to_parquet(tmp_path / f"{name}.parquet")
        rows.append({"name": name, "task": "regression", "split": "train"})
    rows.append({"name": "absent", "task": "classification", "split": "train"})
    pd.DataFrame(rows).to_csv(tmp_path / "index.csv", index=False)
    torch.manual_seed(0)
    small = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4, "last_width": 2}
    learner = Learner("vsa", "gp", task="regression", backbone_config=small)
    weights = save_learner(learner, tmp_path / "untrained.safetensors")
    few_shot_regression.main(
        ["--folder", str(tmp_path), "--split", "train", "--episodes", "2", "--labelled", "20", "5",
         "--rows", "40", "--weights", str(weights), "--inductive", "--peers", "Ridge", "mean",
         "--output", str(tmp_path / "out")]
    )  # fmt: skip
    assert "2 of 3 train tables have over 20 rows" in capsys.readouterr().out
    results = pd.read_csv(tmp_path / "out" / "train.csv", dtype={"dataset": str})
    # methods x tables x numbers of labelled rows x episodes
    assert len(results) == 4 * 2 * 2 * 2
    assert set(results["dataset"]) == {"007", "b"}
    ours = results[results["method"].str.startswith("ours:")]
    assert set(ours["method"]) == {"ours:untrained", "ours:untrained:inductive"}
    assert ours.notna().all().all() and ours["mse"].max() < 3  # although it is untrained
    assert ours["coverage"].mean() > 0.3
    assert len(pd.read_csv(tmp_path / "out" / "train_summary.csv")) == 8
    assert (tmp_path / "out" / "train_summary.md").read_text("utf-8").count("| Ridge | 0.") == 2
    assert (tmp_path / "out" / "train.png").read_bytes().startswith(b"\x89PNG")


def test_command_refuses_a_budget_without_unlabelled_rows(tmp_path, capsys):
    (tmp_path / "index.csv").write_text("name,task,split\n", "utf-8")
    with pytest.raises(SystemExit):
        few_shot_regression.main(["--folder", str(tmp_path), "--rows", "20"])
    assert "--rows more than any --labelled" in capsys.readouterr().err
