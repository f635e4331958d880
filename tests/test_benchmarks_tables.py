"""The protocol of benchmarks/few_shot_tables.py, on tiny synthetic tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch.nn.modules.transformer
from scipy.stats import ttest_rel, wilcoxon

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import few_shot_report
import few_shot_tables
import peers
import tabpfn_1
from few_shot_tables import draw_episode, draw_natural_episode, score


def make_table(name="toy", n_rows_a_class=12, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), n_rows_a_class))
    X = pd.DataFrame({"number": rng.normal(size=len(y)) + 2 * y, "other": rng.normal(size=len(y))})
    X["category"] = pd.Categorical(np.array(["red", "green", "blue"])[rng.integers(3, size=len(y))])
    X.loc[rng.random(len(y)) < 0.1, "number"] = np.nan
    X.loc[rng.random(len(y)) < 0.1, "category"] = np.nan
    return few_shot_tables.Table(name, X, y, sha256=f"sha of {name}")


def run(tables, cache, settings=((1, 4),), n_scored=4, ours=None, names=("LogisticRegression",)):
    return few_shot_tables.run(tables, 2, list(settings), n_scored, ours or {}, list(names), cache)


def test_episode_has_the_asked_rows_of_each_class_and_no_row_twice():
    table = make_table()
    labelled, unlabelled, scored = draw_episode(table, 0, 2, 5, 3)
    assert np.bincount(table.y[labelled]).tolist() == [2, 2, 2]
    assert np.bincount(table.y[unlabelled]).tolist() == [5, 5, 5]
    assert np.bincount(table.y[unlabelled[scored]]).tolist() == [3, 3, 3]
    assert len(set(labelled) | set(unlabelled)) == 21


def test_episodes_are_nested_and_score_the_same_rows():
    table = make_table()
    smallest = draw_episode(table, 3, 1, 2, 2)
    for n_shots, n_unlabelled in [(1, 6), (4, 2), (5, 7)]:
        larger = draw_episode(table, 3, n_shots, n_unlabelled, 2)
        assert set(smallest.labelled) <= set(larger.labelled)
        assert set(smallest.unlabelled) <= set(larger.unlabelled)
        assert set(larger.unlabelled[larger.scored]) == set(smallest.unlabelled)


def test_episode_depends_on_name_and_number_only():
    table = make_table()
    first, again = draw_episode(table, 0, 3, 5, 5), draw_episode(table, 0, 3, 5, 5)
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    for other in (draw_episode(table, 1, 3, 5, 5), draw_episode(make_table("b"), 0, 3, 5, 5)):
        assert set(other.labelled) != set(first.labelled)


def test_episode_order_does_not_tell_the_class():
    table = make_table()
    y = table.y[draw_episode(table, 0, 4, 8, 8).unlabelled]
    assert (np.diff(y) < 0).any()


def test_episode_of_too_small_a_table_is_an_error():
    with pytest.raises(ValueError, match="toy: a class has under 6 \\+ 7 rows"):
        draw_episode(make_table(), 0, 6, 7, 7)


def uneven(sizes=(150, 50)):
    table = make_table(n_rows_a_class=sizes[0], n_classes=len(sizes))
    left = np.concatenate([np.flatnonzero(table.y == c)[:n] for c, n in enumerate(sizes)])
    return table._replace(X=table.X.iloc[left], y=table.y[left])


def test_natural_episode_has_labelled_rows_of_each_class_and_others_as_they_come():
    table = uneven()
    rare = []
    for episode in range(50):
        labelled, unlabelled, scored = draw_natural_episode(table, episode, 3, 20, 20)
        assert np.bincount(table.y[labelled]).tolist() == [3, 3]
        assert not set(labelled) & set(unlabelled) and scored.all()
        assert 40 - 6 <= len(set(unlabelled)) == len(unlabelled) <= 40
        rare.append(table.y[unlabelled].mean())
    assert np.mean(rare) == pytest.approx(0.25, abs=0.03)
    assert np.std(rare) > 0.03
    again = draw_natural_episode(table, episode, 3, 20, 20)
    np.testing.assert_array_equal(again.unlabelled, unlabelled)
    np.testing.assert_array_equal(again.labelled, labelled)


def test_natural_episodes_are_nested():
    table = uneven()
    smallest = draw_natural_episode(table, 3, 1, 5, 5)
    larger = draw_natural_episode(table, 3, 4, 20, 5)
    assert set(smallest.labelled) <= set(larger.labelled)
    both = set(smallest.unlabelled) - set(larger.labelled)
    assert both <= set(larger.unlabelled)
    assert set(larger.unlabelled[larger.scored]) == both


def test_natural_episode_of_too_small_a_table_is_an_error():
    with pytest.raises(ValueError, match="toy: too few rows for 6 \\+ 7 a class"):
        draw_natural_episode(make_table(), 0, 6, 7, 7)


def test_scores_of_both_frequencies_share_a_cache(tmp_path):
    path = tmp_path / "cache.csv"
    arguments = ([uneven()], 2, [(1, 5)], 5, {}, ["LogisticRegression"])
    even = few_shot_tables.run(*arguments, peers.PeersCache(path))
    natural = few_shot_tables.run(*arguments, peers.PeersCache(path), frequencies="natural")
    assert even["accuracy"].tolist() != natural["accuracy"].tolist()
    cached = few_shot_tables.run(*arguments, peers.PeersCache(path), frequencies="natural")
    pd.testing.assert_frame_equal(cached, natural)


def test_all_methods_see_the_same_rows(monkeypatch):
    table = make_table()
    seen = {}

    class Ours:
        def __init__(self, name):
            self.name = name

        def fit(self, X, y):
            seen[self.name] = [X, y]
            return self

        def predict_proba(self, X):
            seen[self.name].append(X)
            return np.eye(3)[np.zeros(len(X), int)]

    def peer(name, X, y, X_unlabelled):
        seen.setdefault(name, [X, y, X_unlabelled])
        return np.eye(3)[np.zeros(len(X_unlabelled), int)]

    monkeypatch.setattr(few_shot_tables, "our_estimator", Ours)
    monkeypatch.setattr(peers, "predict_proba", peer)
    few_shot_tables.run_unit(
        table, 0, [(2, 4)], 4, {"ours:a": ("a",), "ours:b": ("b",)}, ["1-NN", "TabICL"], set()
    )
    for other in ("b", "TabICL"):  # raw rows, in the same order
        pd.testing.assert_frame_equal(seen["a"][0], seen[other][0])
        np.testing.assert_array_equal(seen["a"][1], seen[other][1])
        pd.testing.assert_frame_equal(seen["a"][2], seen[other][2])
    prepared = peers.prepare(pd.concat([seen["a"][0], seen["a"][2]]))
    np.testing.assert_array_equal(np.concatenate([seen["1-NN"][0], seen["1-NN"][2]]), prepared)
    np.testing.assert_array_equal(seen["1-NN"][1], seen["a"][1])
    assert seen["a"][0].isna().any().any() or seen["a"][2].isna().any().any()


def test_only_scored_rows_count(monkeypatch):
    # A method that knows every row but the scored ones has an accuracy of 0.
    table = make_table()
    labelled, unlabelled, scored = draw_episode(table, 0, 1, 6, 2)
    answer = np.where(scored, (table.y[unlabelled] + 1) % 3, table.y[unlabelled])
    monkeypatch.setattr(peers, "predict_proba", lambda *_: np.eye(3)[answer])
    (row,) = few_shot_tables.run_unit(table, 0, [(1, 6)], 2, {}, ["1-NN"], set())
    assert row["accuracy"] == 0
    assert (row["unlabelled"], row["scored"]) == (6, 2)


def test_score_mixes_one_percent_of_uniform():
    y = np.array([0, 1])
    wrong = score([[0.0, 1.0], [1.0, 0.0]], y)
    assert wrong["accuracy"] == 0
    assert wrong["log_loss"] == pytest.approx(-np.log(0.005))
    assert score(np.eye(2), y)["log_loss"] == pytest.approx(-np.log(0.995))


@pytest.mark.parametrize("nothing", [0.0, np.nan])
def test_score_takes_rows_without_probability_as_uniform(nothing):
    result = score([[nothing] * 4, [0.0, 1.0, 0.0, 0.0]], np.array([2, 1]))
    assert result["log_loss"] == pytest.approx((np.log(4) - np.log(0.9925)) / 2)
    assert result["accuracy"] == 0.5


def test_prepare_imputes_encodes_and_standardises():
    X = pd.DataFrame(
        {
            "number": [1.0, 3.0, np.nan, 5.0],
            "constant": [0.1, 0.1, 0.1, 0.1],
            "missing": [np.nan] * 4,
            "three": pd.Categorical(["a", "b", None, "b"], categories=["a", "b", "c", "d"]),
            "yes": [True, False, True, True],
            "empty": pd.Categorical([None] * 4, categories=["a"]),
        }
    )
    X = peers.prepare(X)
    assert np.isfinite(X).all()
    np.testing.assert_allclose(X[:, 0], np.array([-2, 0, 0, 2]) / 2**0.5)
    np.testing.assert_array_equal(X[:, 1:3], 0)
    assert X[:, 3].tolist() == [0, 1, 1, 1]  # "b" is the most frequent; c and d never occur
    assert X[:, 4].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("name", [name for name, peer in peers.PEERS.items() if not peer.package])
def test_peers_learn_an_easy_task(name):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = rng.normal(size=(100, 2)) + 6 * y[:, None]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    proba = peers.predict_proba(name, X[:60], y[:60], X[60:])
    assert proba.shape == (40, 2)
    assert score(proba, y[60:])["accuracy"] > 0.9


def test_semi_supervised_peers_use_the_unlabelled_rows():
    # Two parallel strips, labels at opposite ends: only the rows between lead to the far ends.
    steps = np.arange(0, 3, 0.1)
    strips = [np.column_stack([steps, np.full(30, height)]) for height in (0.0, 1.0)]
    X_labelled = np.array([[0.0, 0.0], [2.9, 1.0]])
    X_unlabelled, y_unlabelled = np.concatenate(strips), np.repeat([0, 1], 30)

    def accuracy(name):
        proba = peers.predict_proba(name, X_labelled, np.array([0, 1]), X_unlabelled)
        return score(proba, y_unlabelled)["accuracy"]

    assert accuracy("1-NN") < 0.8
    assert accuracy("LabelPropagation") == 1.0


def test_raw_peer_that_is_not_here_says_why(monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    assert peers.unavailable("TabPFN") == "the package tabpfn is not installed"
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: object())

    def no_weights(n, d):
        raise FileNotFoundError("no checkpoint")

    monkeypatch.setitem(peers.PEERS, "TabPFN", peers.Peer(no_weights, raw=True, package="tabpfn"))
    assert peers.unavailable("TabPFN") == "FileNotFoundError: no checkpoint"
    assert peers.unavailable("1-NN") is None


#: A package that imports what TabPFN 1 needs from PyTorch and scikit-learn; both renamed it since.
OLD_PACKAGE = """
from torch.nn.modules.transformer import Optional
from torch.utils.checkpoint import checkpoint
from sklearn.utils.validation import check_array, check_X_y

class TabPFNClassifier:
    def __init__(self, N_ensemble_configurations, subsample_features):
        self.n = N_ensemble_configurations

    def fit(self, X, y):
        _, self.y = check_X_y(X, y, force_all_finite=False)
        return self

    def predict_proba(self, X):
        assert checkpoint.keywords == {"use_reentrant": False}  # without, newer ones are to raise
        return [[self.n, self.y.sum()]] * len(check_array(X, force_all_finite=False))
"""


def test_tabpfn_1_runs_beside_newer_packages_and_downloads_nothing(tmp_path, monkeypatch):
    package = tmp_path / "tabpfn"
    (package / "scripts").mkdir(parents=True)
    for folder in (package, package / "scripts"):
        (folder / "__init__.py").touch()
    (package / "scripts" / "transformer_prediction_interface.py").write_text(OLD_PACKAGE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    # Forget an installed tabpfn, and forget this one after the test.
    for name in ("tabpfn", "tabpfn.scripts", "tabpfn.scripts.transformer_prediction_interface"):
        monkeypatch.setitem(sys.modules, name, None)  # restored after the test
        del sys.modules[name]
    monkeypatch.setattr(tabpfn_1, "_interface", tabpfn_1._interface.__wrapped__)
    monkeypatch.setattr(peers, "_tabpfn_1", peers._tabpfn_1.__wrapped__)
    monkeypatch.setattr(torch.nn.modules.transformer, "Optional", None, raising=False)
    del torch.nn.modules.transformer.Optional  # restored, too
    assert peers.unavailable("TabPFN-1").startswith("FileNotFoundError: no models_diff/prior_diff")

    weights = package / tabpfn_1.WEIGHTS
    weights.parent.mkdir()
    weights.touch()
    X = np.array([[np.nan], [1.0]])
    proba = peers.predict_proba("TabPFN-1", X, np.array([0, 1]), X)
    np.testing.assert_array_equal(proba, [[32, 1]] * 2)


def test_cache_computes_only_what_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "new" / "cache.csv"
    tables = [make_table("a"), make_table("nan")]
    fresh = run(tables, peers.PeersCache(path))
    calls = []
    predict_proba = peers.predict_proba

    def counted(name, *args):
        calls.append(name)
        return predict_proba(name, *args)

    monkeypatch.setattr(peers, "predict_proba", counted)
    pd.testing.assert_frame_equal(run(tables, peers.PeersCache(path)), fresh)
    assert calls == []
    tables[1] = tables[1]._replace(sha256="another file")
    run(tables, peers.PeersCache(path), names=["LogisticRegression", "1-NN"])
    assert sorted(calls) == ["1-NN"] * 4 + ["LogisticRegression"] * 2


def test_cache_ignores_results_of_other_rules(tmp_path, monkeypatch):
    path = tmp_path / "cache.csv"
    run([make_table()], peers.PeersCache(path))
    monkeypatch.setattr(peers, "RULES", "another version")
    monkeypatch.setattr(peers, "predict_proba", lambda n, X, y, U: np.full((len(U), 3), 1 / 3))
    again = run([make_table()], peers.PeersCache(path))
    assert again["log_loss"].tolist() == pytest.approx([np.log(3)] * 2)


@pytest.mark.parametrize("damage", ["", "12" + ",x" * 20 + "\n"])
def test_cache_survives_a_line_cut_short_or_glued(tmp_path, damage):
    path = tmp_path / "cache.csv"
    fresh = run([make_table()], peers.PeersCache(path))
    text = path.read_text("utf-8")
    path.write_text(text[: text.rindex(",") - 3] + damage, "utf-8")
    cache = peers.PeersCache(path)
    assert len(cache.scores) == len(fresh) - 1
    again = run([make_table()], cache)
    pd.testing.assert_series_equal(again["log_loss"], fresh["log_loss"])
    assert peers.PeersCache(path).scores == cache.scores


def results_of(accuracies):
    """Rows of scores from {method: accuracies, tables x episodes}."""
    return pd.DataFrame(
        {
            "method": method, "dataset": f"t{t}", "shots": 1, "unlabelled": 20, "episode": e,
            "accuracy": value, "log_loss": 1 - value, "milliseconds": 2.0,
        }
        for method, table in accuracies.items()
        for t, row in enumerate(table)
        for e, value in enumerate(row)
    )  # fmt: skip


def test_summary_averages_ranks_and_tests_over_tables():
    ours = np.array([[0.9, 0.7], [0.6, 0.8], [0.9, 0.9], [0.5, 0.7]])
    peer = np.array([[0.8, 0.6], [0.7, 0.7], [0.6, 0.4], [0.4, 0.5]])
    summary = few_shot_report.summarise(
        results_of({"ours:a": ours, "peer": peer, "twin": peer}), "ours:a"
    ).set_index("method")
    assert summary.loc["peer", "accuracy"] == pytest.approx(peer.mean())
    by_episode = peer.mean(axis=0)
    assert summary.loc["peer", "accuracy_se"] == pytest.approx(by_episode.std(ddof=1) / 2**0.5)
    assert summary.loc["peer", "log_loss"] == pytest.approx(1 - peer.mean())
    # Ours is first on three tables; on the second all three methods tie.
    assert summary["rank"].to_dict() == {"ours:a": 1.25, "peer": 2.375, "twin": 2.375}
    pair = ours.mean(axis=1), peer.mean(axis=1)
    assert summary.loc["peer", "difference"] == pytest.approx(ours.mean() - peer.mean())
    assert summary.loc["peer", "p_t"] == pytest.approx(ttest_rel(*pair).pvalue)
    assert summary.loc["peer", "p_wilcoxon"] == pytest.approx(
        wilcoxon((pair[0] - pair[1]).round(9)).pvalue
    )
    assert np.isnan(summary.loc["ours:a", "p_t"])


def test_summary_of_equal_methods_has_no_difference():
    same = [[0.5, 0.7], [0.6, 0.8]]
    summary = few_shot_report.summarise(results_of({"ours:a": same, "b": same}), "ours:a")
    row = summary.set_index("method").loc["b"]
    assert (row["difference"], row["p_t"], row["p_wilcoxon"]) == (0, 1, 1)


def write_folder(folder, sizes):
    rows = []
    for name, n in sizes.items():
        table = make_table(name, n)
        table.X.assign(y=pd.Categorical(table.y)).to_parquet(folder / f"{name}.parquet")
        rows.append({"name": name, "task": "classification", "split": "valid"})
    rows.append({"name": "absent", "task": "regression", "split": "valid"})
    rows.append({"name": "absent", "task": "classification", "split": "test"})
    pd.DataFrame(rows).to_csv(folder / "index.csv", index=False)


def test_command_writes_tables_and_pictures(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    write_folder(tmp_path, {"007": 15, "b": 12, "small": 11})
    monkeypatch.setenv("SKLEARN_META_DATA", str(tmp_path))
    few_shot_tables.main(
        ["--split", "valid", "--episodes", "2", "--shots", "2", "1", "--unlabelled", "10", "3",
         "--weights", "--peers", "LogisticRegression", "1-NN", "--output", str(tmp_path / "out")]
    )  # fmt: skip
    assert "2 of 3 valid tables have 2 + 10 rows a class" in capsys.readouterr().out
    out = tmp_path / "out"
    results = pd.read_csv(out / "valid_unlabelled.csv", dtype={"dataset": str})
    # methods x tables x shots x unlabelled x episodes
    assert len(results) == len(results.iloc[:, :6].drop_duplicates()) == 2 * 2 * 2 * 2 * 2
    assert set(results["dataset"]) == {"007", "b"}
    assert set(results["scored"]) == {3}
    assert results["accuracy"].mean() > 0.4
    assert len(pd.read_csv(out / "valid_unlabelled_summary.csv")) == 8
    markdown = (out / "valid_unlabelled_summary.md").read_text("utf-8")
    assert markdown.count("| LogisticRegression | 0.") == 4
    for picture in ("valid_unlabelled.png", "valid_unlabelled_curve.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")


def test_command_without_data_says_what_is_missing(tmp_path, capsys):
    with pytest.raises(SystemExit):
        few_shot_tables.main(["--folder", str(tmp_path)])
    assert "no index.csv in" in capsys.readouterr().err


def test_command_without_methods_that_can_run_says_so(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    write_folder(tmp_path, {"a": 30})
    monkeypatch.setattr(few_shot_tables.peers, "unavailable", lambda name: "not installed")
    given = ["--folder", str(tmp_path), "--split", "valid", "--weights", "--peers", "TabPFN"]
    with pytest.raises(SystemExit, match="nothing to run"):
        few_shot_tables.main([*given, "--output", str(tmp_path)])
