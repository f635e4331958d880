"""benchmarks/paper_002.py and mann_speed.py: scores are right, and a killed run is resumed."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import mann_speed
import online_cross_val
import paper_002
import paper_002_evaluation as evaluation
import paper_002_report as report
import paper_002_training as training
from paper_002_grid import (
    FEEDFORWARD,
    INSTANCES,
    KNN_FEATURES,
    KNN_PIXELS,
    MANN,
    NOT_WIPED,
    ONEHOT_5,
    REGRESSIONS,
    RIVALS,
    STRING_5,
    STRING_15,
    TABLES,
)

from sklearn_meta.heads import StringLabels
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import GaussianProcessPrior


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Make tests even shorter than those of --quick: one batch."""
    monkeypatch.setitem(paper_002.QUICK, "n_test", 16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise instead of characters: as many classes as the largest of our episodes needs."""
    path = tmp_path_factory.mktemp("omniglot")
    split = np.repeat(["train", "valid", "test"], [30, 20, 20])
    np.savez(
        path / "omniglot.npz",
        images=np.random.default_rng(0).integers(0, 256, (70, 20, 8, 8)).astype(np.uint8),
        alphabet=np.repeat([f"alphabet {i}" for i in range(7)], 10),
        character=np.arange(70).astype(str),
        official_set=np.repeat(["background", "evaluation"], [50, 20]),
        split=split,
    )
    return path


def options_of(folder, tmp_path, *arguments):
    places = ["--omniglot", str(folder), "--cache", str(tmp_path / "cache")]
    output = ["--output", str(tmp_path / "results")]
    return ["--quick", *places, *output, *arguments]


def parsed(folder, tmp_path, *arguments):
    return paper_002.parse_arguments(options_of(folder, tmp_path, *arguments))


# The grid


@pytest.mark.parametrize("key", TABLES)
def test_each_cell_is_there_once_and_what_the_paper_says_of_it(key):
    table = TABLES[key]
    names = [(task.name, method.name) for task, method in table.cells]
    assert len(set(names)) == len(names) and set(table.paper) <= set(names)
    for figures in table.paper.values():
        assert len(figures) == len(INSTANCES)
    for task, method in table.cells:
        learner = training.build(task, method)
        assert learner.head.n_words >= task.n_classes
        assert isinstance(learner, training.PersistentMemory) == method.persistent


def test_table_2_has_all_rivals_of_five_and_of_fifteen_classes():
    cells = set((task.name, method.name) for task, method in TABLES["table_2"].cells)
    tasks = (STRING_5.name, STRING_15.name)
    assert cells == {(task, method.name) for task in tasks for method in RIVALS}


# The scores


class Answers(torch.nn.Module):
    """Returns the given labels, whatever the rows."""

    def __init__(self, head, words):
        super().__init__()
        self.head, self.words = head, words

    def forward(self, x, labels):
        return self.head.encode(self.words).float()


def test_accuracies_by_instance():
    head = StringLabels()
    a, b = [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]
    words = torch.tensor([[a, b, a, a]])
    # Wrong; wrong; all but two letters right, so that a is nearest; right.
    said = torch.tensor([[b, a, [0, 0, 0, 2, 2], a]])
    inputs = {"x": torch.zeros(1, 4, 3), "labels": words}
    predict = evaluation.by_network(Answers(head, said))
    scores = evaluation.score_classes(predict, head, [(inputs, words)])
    found = pd.DataFrame(scores).set_index("instance")
    assert list(found["n_instances"]) == [2, 1, 1, 0, 0, 0]
    np.testing.assert_array_equal(found["exact"][:3], [0, 0, 1])
    np.testing.assert_array_equal(found["among"][:3], [0, 1, 1])
    assert found["exact"][3:].isna().all()


def test_the_error_of_a_share_is_that_of_episodes():
    rng = np.random.default_rng(0)
    rate = rng.beta(2, 2, 4000)  # rows of one episode are correlated
    hits = rng.binomial(10, rate)
    share, error = evaluation.ratio(hits, np.full(4000, 10))
    assert share == pytest.approx((hits / 10).mean())
    assert error == pytest.approx((hits / 10).std() / 4000**0.5)
    shares = [evaluation.ratio(hits[i::40], np.full(100, 10))[0] for i in range(40)]
    assert error == pytest.approx(np.std(shares) / 40**0.5, rel=0.3)


def test_the_neighbour_is_that_of_scikit_learn():
    x, codes = torch.randn(2, 20, 3), torch.randint(4, (2, 20))
    right, among = evaluation.by_neighbour(lambda x: x)({"x": x}, codes)
    assert torch.equal(right, among) and right[0, 0] == 1 / len(codes[0].unique())
    for t in range(1, 20):
        neighbour = KNeighborsClassifier(1).fit(x[1, :t], codes[1, :t])
        assert right[1, t] == (neighbour.predict(x[1, t : t + 1])[0] == codes[1, t])


def test_likelihoods_of_the_process_are_those_of_scikit_learn():
    prior = GaussianProcessPrior(2, 8, bounds=(-1, 1))
    dataset = prior.draw(np.random.default_rng(0))
    found = evaluation.process_nll(prior.kernel, dataset.X, dataset.y)
    for t in range(1, 8):
        process = GaussianProcessRegressor(prior.kernel, optimizer=None)
        process.fit(dataset.X[:t], dataset.y[:t])
        mean, std = (torch.tensor(a[0]) for a in process.predict(dataset.X[[t]], return_std=True))
        expected = -torch.distributions.Normal(mean, std).log_prob(torch.tensor(dataset.y[t]))
        assert found[t] == pytest.approx(expected.item(), abs=1e-4)


def test_points_of_a_grid_are_asked_as_if_each_came_next():
    learner = training.build(REGRESSIONS[0], MANN).eval()
    x, y, grid, truth = report.function_of(training.prior(REGRESSIONS[0]), 4, 3, seed=0)
    assert x.shape == (4, 1) and y.shape == (4,) and truth.shape == (3,)
    mean, deviation = evaluation.predict_after(learner, x, y, grid)
    rows = torch.tensor(np.append(x[:, 0], grid[2, 0]), dtype=torch.float32)[None, :, None]
    previous = torch.tensor(np.append(np.nan, y), dtype=torch.float32)[None, :, None]
    with torch.no_grad():
        expected = learner.head.moments(learner.present(rows, previous)[0][0, -1])
    np.testing.assert_allclose([mean[2], deviation[2]], expected, atol=1e-5)


# Memory that is not wiped


def test_persistent_memory_goes_on_where_it_was():
    config = {"n_slots": 8, "slot_size": 4, "n_reads": 2, "width": 6}
    names = {"inputs": "vectors", "n_inputs": 3, "backbone_config": config}
    torch.manual_seed(0)
    learner = training.PersistentMemory(**names)
    wiped = MemoryLearner(**names)
    wiped.load_state_dict(learner.state_dict())
    x, labels = torch.randn(2, 5, 3), torch.randint(10, (2, 5, 1))
    first = learner(x, labels)
    torch.testing.assert_close(first, wiped(x, labels))
    first.sum().backward()
    again = learner(x, labels)
    assert (again - wiped(x, labels)).abs().max() > 1e-4
    again.sum().backward()  # gradients stop at the batch before, whose graph is freed
    learner.eval()  # evaluation starts from an empty memory
    torch.testing.assert_close(learner(x, labels), wiped(x, labels))
    learner.train().forget()
    torch.testing.assert_close(learner(x, labels), wiped(x, labels))


def test_all_but_the_memory_begins_anew(monkeypatch):
    """Section 4.2.1 keeps the external memory; the controller's state ends with the episode."""
    config = {"n_slots": 8, "slot_size": 4, "n_reads": 2, "width": 6}
    learner = training.PersistentMemory(inputs="vectors", n_inputs=3, backbone_config=config)
    begun, present = [], MemoryLearner.present

    def spy(self, x, previous, state=None):
        begun.append(state)
        return present(self, x, previous, state)

    monkeypatch.setattr(MemoryLearner, "present", spy)
    for _ in range(2):
        learner(torch.randn(2, 5, 3), torch.randint(10, (2, 5, 1)))
    empty = learner.backbone.empty(2)
    for state in begun:
        for part, of_empty in zip(state[:2], empty[:2], strict=True):
            torch.testing.assert_close(part, of_empty)
    memories = [torch.cat([part.flatten() for part in state.memory]) for state in begun]
    assert not torch.equal(*memories)


def test_tests_begin_with_an_empty_memory(folder, tmp_path):
    options = parsed(folder, tmp_path)
    learner = training.build(ONEHOT_5, NOT_WIPED).eval()
    scores = [training.judge_classes(ONEHOT_5, NOT_WIPED, learner, 0, options) for _ in range(2)]
    assert scores[0] == scores[1] and set(learner.kept) == {False}


# The command


@pytest.fixture
def split_of(monkeypatch):
    """Return a function that names the split of a source, which it knows by its identity."""
    splits, characters = {}, training.characters

    def known(folder, split):
        splits[id(characters(folder, split))] = split
        return characters(folder, split)

    monkeypatch.setattr(training, "characters", known)
    return lambda source: splits[id(source)]


@pytest.mark.parametrize("recipe, rate", [("adamw", 2e-3), ("averaged", 2e-3), ("paper", 1e-4)])
def test_networks_train_and_are_looked_at_on_characters_of_their_own(
    folder, tmp_path, monkeypatch, split_of, recipe, rate
):
    options, called = parsed(folder, tmp_path, "--recipe", recipe), {}

    def stop(learner, source, sampler, *, validation_source, **settings):
        called.update(settings, splits=[split_of(source), split_of(validation_source)])
        raise InterruptedError

    monkeypatch.setattr(training, "meta_train", stop)
    with pytest.raises(InterruptedError):
        training.run_cell(ONEHOT_5, MANN, 0, options)
    assert called["splits"] == ["train", "valid"] and called["learning_rate"] == rate
    assert called["optimizer"] == ("rmsprop" if recipe == "paper" else "adamw")


def test_scores_are_of_test_characters_each_kind_by_its_name(
    folder, tmp_path, monkeypatch, split_of
):
    (curriculum, _), drawn = TABLES["figure_4"].cells[0], []

    def spy(source, sampler, n, seed):
        drawn.append((split_of(source), sampler.n_classes, sampler.vectors.augment, n))
        return []

    monkeypatch.setattr(training, "episodes", spy)
    monkeypatch.setattr(training, "score_classes", lambda *args: [{"exact": 0.0}])
    options = parsed(folder, tmp_path)
    learner = training.build(curriculum, MANN)
    scores = training.judge_classes(curriculum, MANN, learner, 0, options)
    assert len(scores) == len(drawn) == 2 * len(curriculum.tests)
    assert {n for _, (n, _), _, _ in drawn} == {n for n, _ in curriculum.tests}
    assert max(n for n, _ in curriculum.tests) == 100  # as in the paper
    for score, (split, n_classes, augment, n) in zip(scores, drawn, strict=True):
        assert split == "test" and n_classes == (score["n_classes"],) * 2
        assert score["drawings"] == ("augmented" if augment else "as they are")
        assert n == -(-options.n_test // 4)


def test_features_are_of_train_characters_and_no_pixels(folder, tmp_path, monkeypatch, split_of):
    options, seen = parsed(folder, tmp_path), []
    monkeypatch.setattr(training, "train", lambda module, loss, draw, *_: seen.append(draw) or [])
    features = training.features_of(KNN_FEATURES, 0, options)
    x = torch.rand(2, 3, training.Drawings().width)
    assert features(x).shape == (2, 3, 32)
    assert torch.equal(training.features_of(KNN_PIXELS, 0, options)(x), x)
    cells = seen[0].__closure__
    (data,) = (cell.cell_contents for cell in cells if hasattr(cell.cell_contents, "y"))
    np.testing.assert_array_equal(data.X, training.characters(folder, "train").dataset.X)


def test_episodes_grow_as_the_task_says():
    for task, few, figures in (
        (TABLES["figure_4"].cells[0][0], 0, {0: 15, 159: 15, 160: 16, 1599: 24, 1600: 25}),
        (STRING_15, 640, {0: 5, 639: 5, 640: 5, 687: 5, 688: 6, 1120: 15, 1600: 15}),
        (STRING_5, 640, {0: 5, 640: 5, 1600: 5}),
    ):
        sampler = training.training_sampler(task, StringLabels(), 1600)
        for n_drawn, n_classes in figures.items():
            here = sampler.at(n_drawn)
            assert here.n_classes == (n_classes, n_classes) and here.max_rows == task.n_rows
            assert here.few_words == (n_drawn < few) and here.vectors.augment


def test_the_curriculum_goes_on_from_the_network_of_table_2(folder, tmp_path, monkeypatch):
    options = parsed(folder, tmp_path)
    torch.manual_seed(1)
    learner = training.build(STRING_15, MANN)
    path = training.save_learner(learner, tmp_path / "given.safetensors")
    options.weights = {STRING_15.name: str(path)}
    begun = {}

    def stop(learner, *args, **kwargs):
        begun.update({name: tensor.clone() for name, tensor in learner.state_dict().items()})
        raise InterruptedError

    monkeypatch.setattr(training, "meta_train", stop)
    with pytest.raises(InterruptedError):
        training.run_cell(*TABLES["figure_4"].cells[0], 0, options)
    for name, tensor in learner.state_dict().items():
        torch.testing.assert_close(begun[name], tensor)


def test_tables_and_figures_in_one_command(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(paper_002.QUICK, "steps", 1)
    monkeypatch.setattr(training, "N_ROWS", 20)
    for keys, methods in (
        (["table_1", "figure_5", "figure_6"], [FEEDFORWARD]),
        (["table_2"], [KNN_PIXELS, KNN_FEATURES]),  # the others consist of the same parts
    ):
        chosen = ["--methods", *(method.name for method in methods)]
        paper_002.main(options_of(folder, tmp_path, "--only", *keys, *chosen))
    results = tmp_path / "results"
    for key in ("table_1", "table_2", "figure_5", "figure_6"):
        assert (results / f"{key}.csv").is_file()
        assert (results / f"{key}.png").stat().st_size > 0
    rows = pd.read_csv(results / "table_2.csv")
    assert set(rows["drawings"]) == {"as they are", "augmented"}
    neighbours = rows[rows["instance"] == 1]
    np.testing.assert_allclose(neighbours["exact"], 1 / neighbours["n_classes"] ** 2, atol=0.01)
    text = (results / "table_1.md").read_text("utf-8")
    assert "| feed-forward |" in text and "(22.8)" in text
    rows = pd.read_csv(results / "figure_6.csv")
    assert len(rows) == 3 * training.N_ROWS
    last = rows[rows["row"] == training.N_ROWS]
    assert (last["gp"] < last["mann"]).all()
    text = (results / "figure_6.md").read_text("utf-8")
    assert text.count("| GP |") == 3 and "row 20" in text


def test_a_killed_run_goes_on_and_given_weights_are_tested(folder, tmp_path, monkeypatch):
    options = parsed(folder, tmp_path)
    cell = json.loads(json.dumps(training.run_cell(ONEHOT_5, MANN, 0, options)))
    assert len(cell["curve"]) == 2 and cell["steps"] == 2
    home = Path(cell["folder"])
    assert json.loads((home / f"cell-{options.n_test}.json").read_text("utf-8")) == cell
    assert not (home / training.CHECKPOINT).exists()
    # Stored cells and those with given weights are not trained; a cell of another budget is.
    monkeypatch.setattr(training, "meta_train", lambda *args, **kwargs: 1 / 0)
    assert training.run_cell(ONEHOT_5, MANN, 0, options) == cell
    given = parsed(folder, tmp_path, "--weights", str(home / "learner.safetensors"))
    assert list(given.weights) == [ONEHOT_5.name]
    again = training.run_cell(ONEHOT_5, MANN, 0, given)
    assert again["steps"] == 0 and again["scores"] == cell["scores"]
    options.n_test = 17
    more = training.run_cell(ONEHOT_5, MANN, 0, options)
    assert more["scores"][0]["n_episodes"] == 32 and more["curve"] == cell["curve"]
    options.steps = 3
    with pytest.raises(ZeroDivisionError):
        training.run_cell(ONEHOT_5, MANN, 0, options)


def test_a_figure_is_made_of_the_scores_of_its_cells(tmp_path):
    cell = {"task": "curriculum", "method": MANN.name, "seed": 0, "steps": 1, "seconds": 1.0}
    cell |= {"n_parameters": 1, "curve": [{"episodes": 16, "valid_accuracy": 0.5}]}
    score = {"exact": 0.5, "exact_se": 0.1, "among": 0.6, "among_se": 0.1}
    cell["scores"] = [
        {"n_classes": n, "drawings": "as they are", "instance": k, **score}
        for n in (25, 50)
        for k in INSTANCES
    ]
    rows = report.to_rows([cell])
    text = report.to_markdown(TABLES["figure_4"], rows)
    assert "| 25 | 50.0 ± 10.0 |" in text and "| 50 | 50.0 ± 10.0 |" in text
    for plot in (report.plot_curriculum, report.plot_tasks):  # the second draws figure 3
        path = tmp_path / f"{plot.__name__}.png"
        plot(TABLES["figure_4"], rows, [cell], path)
        assert path.stat().st_size > 0
    # With two trainings the standard error is that between trainings.
    other = {**cell, "seed": 1, "scores": [{**s, "exact": 0.7} for s in cell["scores"]]}
    both = report.by_instance(report.to_rows([cell, other]))
    np.testing.assert_allclose(both["exact"], 0.6)
    np.testing.assert_allclose(both["exact_se"], 0.1)


def test_without_the_drawings_regression_is_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(paper_002, "run_figure_6", lambda options: print("regression"))
    options = options_of(tmp_path / "nowhere", tmp_path, "--only", "table_1", "figure_6")
    paper_002.main(options)
    said = capsys.readouterr().out
    assert "table_1 is left out: there is no folder" in said and "regression" in said


# Speed


@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
def test_the_loop_over_heads_says_the_same(controller):
    x, words = mann_speed.random_episodes(3, 12)
    learner = mann_speed.build(controller)
    outputs, gradients = [], []
    for forward in (MemoryLearner.__call__, mann_speed.loop):
        outputs.append(forward(learner, x, words))
        loss = learner.head.loss(outputs[-1], words)
        gradients.append(torch.autograd.grad(loss, list(learner.parameters())))
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=0)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)


def test_speed_is_told_of_both(tmp_path):
    mann_speed.main(["--quick", "--output", str(tmp_path / "speed.md")])
    text = (tmp_path / "speed.md").read_text("utf-8")
    assert text.count("| sklearn_meta |") == 2 and text.count("| 1.00 |") == 2


def test_cross_validation_has_every_method(tmp_path):
    online_cross_val.main(["--quick", "--output", str(tmp_path / "cv.md")])
    lines = (tmp_path / "cv.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(online_cross_val.methods())
    assert all(float(cell[:5]) > 0.4 for row in rows for cell in row.split(" | ")[1:5])
