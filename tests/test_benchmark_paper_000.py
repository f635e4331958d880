"""benchmarks/paper_000.py follows the paper's protocol on tiny tables, and resumes a killed run."""

import json
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import paper_000
import paper_000_data as data
import paper_000_embeddings as embeddings
import paper_000_report as report
import paper_000_training as training
from paper_000_grid import ABLATIONS, CLASSIFICATION, OURS, PAPER, REGRESSION, TABLES, Cell

from sklearn_meta.backbones import BACKBONES
from sklearn_meta.heads import HEADS
from sklearn_meta.inspection import embedding

N_TABLES = 40


@pytest.fixture(autouse=True)
def few_steps_of_tsne(monkeypatch):
    """Run t-SNE for the fewest steps: what is drawn matters, not how well it is laid out."""
    monkeypatch.setattr(embedding, "TSNE", partial(embedding.TSNE, max_iter=250))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of each kind, two per family, and one per kind in the test split."""
    path = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    index = []
    for task in ("classification", "regression"):
        for i in range(N_TABLES + 1):
            name = f"{task}-{i}"
            frame = pd.DataFrame(rng.normal(size=(66, 3)), columns=["a", "b", "c"])
            signal = frame["a"] + 0.1 * rng.normal(size=66)
            frame["target"] = signal if task == "regression" else (signal.rank() > 33).astype(int)
            frame.to_parquet(path / f"{name}.parquet")
            part = "test" if i == N_TABLES else ("train", "valid")[i % 2]
            index.append({"name": name, "task": task, "split": part, "family": f"{task}-{i // 2}"})
    pd.DataFrame(index).to_csv(path / "index.csv", index=False)
    return path


def options_of(folder, **others):
    arguments = ["--quick", "--folder", str(folder)]
    options = paper_000.parse_arguments(arguments)
    return Namespace(**{**vars(options), **others})


def run(folder, tmp_path, *arguments):
    places = ["--folder", str(folder), "--cache", str(tmp_path / "cache")]
    paper_000.main(["--quick", *arguments, *places, "--output", str(tmp_path / "results")])
    return tmp_path / "results"


def test_every_method_of_the_papers_tables_is_in_the_grid():
    for key, paper in PAPER.items():
        assert [m.name for m in TABLES[key].methods] == list(paper)
        assert all(len(means) == len(TABLES[key].shots) for means in paper.values())
    meta_learned = [m for m in CLASSIFICATION + ABLATIONS if m.backbone]
    assert {m.backbone for m in meta_learned} == set(BACKBONES) - {"vsa_pair"}  # not the paper's
    assert {m.head for m in meta_learned} <= set(HEADS["classification"])
    assert {m.head for m in REGRESSION if m.backbone} <= set(HEADS["regression"])


def test_splits_keep_families_together_and_leave_the_folders_test_tables_alone(folder):
    options = options_of(folder, n_test=100)
    for split in range(3):
        found = data.data_of(Cell(OURS, "tables", split), options)
        parts = [set(found.train), set(found.valid), set(found.test)]
        assert len(set.union(*parts)) == sum(map(len, parts)) == N_TABLES
        families = [{int(name.split("-")[1]) // 2 for name in part} for part in parts]
        assert len(set.union(*families)) == sum(map(len, families)) == N_TABLES // 2
        assert f"classification-{N_TABLES}" not in set.union(*parts)
    few = data.data_of(Cell(OURS, "tables", 0, n_train=2), options)
    assert len(few.train) == 2 and not set(few.train) & set(few.test)


def test_tasks_of_circle_spiral():
    options = options_of("nowhere")
    fixed = data.data_of(Cell(OURS, "circle_spiral", 0), options)
    assert {len(table.y) for table in fixed.train.values()} == {100}
    for name in ("circle_spiral", "fresh"):
        cell = Cell(OURS, name, 0, n_unlabelled=10, n_rows=500)
        test = data.data_of(cell, options).test
        for found in data.test_tasks(cell, test, (1,), 1):
            assert 490 <= len(found.task.y) - found.task.labelled.sum() <= 510
    cell = Cell(OURS, "fresh", 0)
    found = list(data.test_tasks(cell, data.data_of(cell, options).test, (1, 5), 2))
    assert len(found) == 4 * 2 * 2
    for shots, task in ((f.shots, f.task) for f in found):
        assert task.labelled.sum() == shots * task.n_label_columns
        assert len(task.y) == (shots + 20) * task.n_label_columns
    again = list(data.test_tasks(cell, data.data_of(cell, options).test, (1, 5), 2))
    assert all(np.array_equal(a.task.X, b.task.X) for a, b in zip(found, again, strict=True))


def test_regression_is_scored_in_the_tables_units(folder):
    cell = Cell(REGRESSION[0], "regression", 0)
    test = data.data_of(cell, options_of(folder)).test
    for found in data.test_tasks(cell, test, (10,), 2):
        task = found.task
        assert task.labelled.sum() == 10 and len(task.y) == 66
        assert np.isclose(task.y[task.labelled].std(), 1, atol=1e-5)
        # All 66 rows are in the task, so its targets have the table's variance, which is one.
        assert np.isclose((task.y * found.unit).std(), 1, atol=1e-5)


def test_kernels_of_gp_and_lp_are_chosen_on_training_tasks():
    cell = Cell(CLASSIFICATION[0], "fresh", 0)
    sampler = data.training_sampler(cell, (5,), 3000)
    source = data.CircleSpiral(n_columns=(2, 2), kinds=("circle",))
    rng = np.random.default_rng(0)
    tasks = [sampler.draw(source.draw(rng), rng) for _ in range(12)]
    for method in CLASSIFICATION[:2]:
        predict = training.tuned(cell._replace(method=method), tasks[:6])
        accuracy = np.mean([training.score(t, predict(t), ~t.labelled) for t in tasks[6:]])
        assert accuracy > 0.7  # two circles without noise columns


def test_kernels_are_chosen_on_the_targets_they_are_scored_on(folder):
    """Meta-learned methods may be trained with other columns as targets; GP and LP may not."""
    options = options_of(folder, retarget=1.0)
    kinds = {}
    for method in (CLASSIFICATION[0], OURS):
        train = data.data_of(Cell(method, "tables", 0), options).train
        drawn = [train.draw(np.random.default_rng(i)) for i in range(8)]
        kinds[method.name] = {dataset.y.dtype.kind for dataset in drawn}
    assert kinds == {"GP": {"i"}, "Ours": {"f"}}


def test_figure_6b_is_scored_on_the_same_rows():
    """More unlabelled rows are added to the same task; the scored rows stay the same."""
    cells = [Cell(OURS, "fresh", 0, **point) for point in TABLES["6b"].cells]
    test = data.data_of(cells[-1], options_of("nowhere")).test
    few, *more = ([(f.task, f.scored) for f in data.test_tasks(c, test, (1,), 2)] for c in cells)
    for task, scored in few:
        assert (scored == ~task.labelled).all() and scored.sum() == 5 * task.n_label_columns
    for tasks in more:
        for (task, scored), (other, of_other) in zip(few, tasks, strict=True):
            assert len(other.y) > len(task.y)
            np.testing.assert_array_equal(task.X[scored], other.X[of_other])
            np.testing.assert_array_equal(task.y[scored], other.y[of_other])
    task, scored = few[0]
    right = np.where(scored, task.y, -1)
    assert training.score(task, right, scored) == 1
    assert training.score(task, right, ~scored) == 0


@pytest.mark.filterwarnings("ignore:Precision loss occurred")  # scores that differ by one
def test_bold_is_what_a_paired_test_does_not_tell_from_the_best():
    rng = np.random.default_rng(0)
    tables = [f"t{i}" for i in range(20)]
    base = rng.normal(size=20)
    scores = {
        "best": base,
        "close": base - 0.01 + rng.normal(size=20),
        "far": base - 1 - rng.random(20),
    }
    rows = pd.concat(
        pd.DataFrame({"method": m, "x": 0, "split": 0, "table": tables, "shots": 1, "score": s})
        for m, s in scores.items()
    )
    summary = report.summarise(rows).set_index("method")
    best = summary["score"].idxmax()
    assert summary.loc[best, "bold"] and not summary.loc["far", "bold"]
    assert (summary["n"] == 20).all()
    (other,) = {"best", "close"} - {best}
    assert summary.loc[other, "p"] == pytest.approx(ttest_rel(scores[other], scores[best]).pvalue)
    low = report.summarise(rows, lower_is_better=True).set_index("method")
    assert low.loc["far", "bold"] and not low.loc["best", "bold"]
    several = pd.concat([rows, rows.assign(split=1, score=rows["score"] + 1)])
    assert (report.summarise(several)["n"] == 2).all()


def test_tables_in_one_command(folder, tmp_path):
    results = run(
        folder, tmp_path, "--only", "1a", "1b", "4", "--methods", "LP", "SemiMetaGP", "Ours"
    )
    for key in ("1a", "1b", "4"):
        rows = pd.read_csv(results / f"table_{key}.csv")
        assert set(rows["method"]) == {"SemiMetaGP" if key == "4" else "LP", "Ours"}
        assert rows["score"].notna().all()
        assert set(rows["steps"].dropna()) == {3}
        assert (results / f"table_{key}.png").stat().st_size > 0
        text = (results / f"table_{key}.md").read_text("utf-8")
        assert "| Ours |" in text and f"({PAPER[key]['Ours'][0]:.3f})" in text


def test_figures_and_times(folder, tmp_path):
    results = run(folder, tmp_path, "--only", "3", "6a", "--methods", "GP", "LP", "Proto", "Ours")
    times = pd.read_csv(results / "table_3.csv").set_index("method")
    assert times.loc["Ours", "ratio"] == 1 and times.loc["Proto", "paper"] == pytest.approx(2 / 9.9)
    assert times.loc["LP", "paper"] == pytest.approx(2.3 / 9.9) and (times["lowest"] > 0).all()
    assert pd.read_csv(results / "figure_6a_summary.csv")["x"].nunique() == 3
    fresh = run(folder, tmp_path, "--only", "2a", "--fresh", "--methods", "w/oRes")
    assert (fresh / "table_2a_fresh.md").is_file()
    run(folder, tmp_path, "--only", "3", "--methods", "Proto")  # "Ours" is added for the ratios
    assert list(pd.read_csv(results / "table_3.csv")["method"]) == ["Proto", "Ours"]


def test_embeddings_are_drawn_and_scored(folder, tmp_path):
    results = run(folder, tmp_path, "--only", "5", "--fresh")
    rows = pd.read_csv(results / "figure_5_fresh.csv")
    assert set(rows["method"]) == {"attributes", "HML", "Proto", "Ours"}
    assert (rows.groupby(["method", "figure"]).size() == 4).all()  # --quick: four tasks, one split
    assert rows["silhouette"].between(-1, 1).all()
    assert (rows["accuracy"].isna() == (rows["method"] == "attributes")).all()
    text = (results / "figure_5_fresh.md").read_text("utf-8")
    mean = rows[(rows["method"] == "Ours") & (rows["figure"] == "spiral")].mean(numeric_only=True)
    (line,) = (line for line in text.splitlines() if line.startswith("| Ours |"))
    assert f"{mean['silhouette']:.3f}" in line and f"{mean['accuracy']:.3f}" in line
    for name in ("figure_4.png", "figure_5_fresh.png"):
        assert (results / name).stat().st_size > 0


@pytest.mark.parametrize("kind, n_columns, n_classes", [("circle", 4, 2), ("spiral", 6, 5)])
def test_tasks_of_embeddings_are_those_of_the_papers_figure(kind, n_columns, n_classes):
    task = embeddings.draw_task(kind, n_columns, 0)
    assert task.X.shape == (23 * n_classes, n_columns) and task.context.all()
    assert (np.bincount(task.y[task.labelled]) == 3).all()
    assert (np.bincount(task.y[~task.labelled]) == 20).all()
    assert not np.array_equal(task.X, embeddings.draw_task(kind, n_columns, 1).X)


def test_figure_5_without_its_methods_is_left(folder, tmp_path):
    results = run(folder, tmp_path, "--only", "5", "3", "--methods", "GP", "Ours")
    assert (results / "figure_5.png").is_file()  # with "Ours" alone
    other = run(folder, tmp_path / "other", "--only", "5", "3", "--methods", "GP")
    assert not (other / "figure_5.csv").exists() and (other / "table_3.csv").is_file()


def test_a_killed_run_goes_on(folder, tmp_path, monkeypatch):
    cell = Cell(CLASSIFICATION[3], "tables", 0)
    options = options_of(folder, cache=tmp_path, steps=None, minutes=0.001)
    monkeypatch.setattr(training, "seconds_per_step", lambda *arguments: 0.01)
    monkeypatch.setattr(training, "test_tasks", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        training.run_cell(cell, (1,), options)
    (plan,) = tmp_path.rglob("plan.json")
    assert json.loads(plan.read_text("utf-8"))["steps"] == 6
    monkeypatch.undo()
    # Nothing is measured or trained anew: the plan and the checkpoint are kept.
    monkeypatch.setattr(training, "seconds_per_step", lambda *arguments: 1 / 0)
    rows = training.run_cell(cell, (1,), options)
    assert (rows["steps"] == 6).all() and (rows["cpu_seconds"] < 1).all()
    monkeypatch.setattr(training, "data_of", lambda *arguments: 1 / 0)
    pd.testing.assert_frame_equal(training.run_cell(cell, (1,), options), rows, atol=1e-5)


def test_the_budget_is_the_same_for_all_and_names_the_cell(folder, tmp_path):
    options = options_of(folder)
    assert (options.steps, options.minutes) == (3, None)
    assert paper_000.parse_arguments([]).minutes == 4
    with pytest.raises(SystemExit):
        paper_000.parse_arguments(["--steps", "5", "--minutes", "1"])
    cell = Cell(OURS, "fresh", 0)
    name = training.name_of(cell, (1, 3, 5), options)
    assert name != training.name_of(cell, (1, 3, 5), options_of(folder, steps=4))
    assert name != training.name_of(cell, (1, 3, 5), options_of(folder, max_cells=9000))
    assert name == training.name_of(cell, (1, 3, 5), options_of(folder, turns=9))


def test_openml_in_place_of_the_folder(tmp_path, monkeypatch):
    pytest.importorskip("openml")
    from openml_server import SERVED, SUITES, OpenMLServer

    collection = data.OpenMLCollection
    with OpenMLServer(SERVED, SUITES) as server:
        places = {"server": server.url, "cache_directory": tmp_path, "progress": False}
        monkeypatch.setattr(data, "OpenMLCollection", lambda suite: collection(suite, **places))
        found = data.real_tables(None, (), ("99",), "classification")
        values = data.real_tables(None, (), ("99",), "regression")
    assert set(found) == set(found.families) == {"iris", "wine", "cancer"}
    assert not values  # the suite has no regression task


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan"])
def test_a_share_of_retargeted_tables_is_checked_before_anything_is_done(share, capsys):
    with pytest.raises(SystemExit):
        paper_000.parse_arguments(["--retarget", share])
    assert "from 0 to 1" in capsys.readouterr().err
