"""benchmarks/paper_001.py draws the sets that it names, and resumes a killed run."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import paper_001
import paper_001_mixtures as mixtures
import paper_001_omniglot as omniglot
import paper_001_report as report
import paper_001_solids as solids
import paper_001_training as training
from paper_001_grid import TABLES
from paper_001_tasks import MaxRegression, OddOneOut, PointClouds, Pointer, UniqueCharacters

from sklearn_meta.backbones.set_transformer import SetTransformer
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import MixtureSets
from sklearn_meta.weights import save_learner

#: An encoder with random weights: nothing is learned here, and the package's encoder takes longer.
ENCODER = "encoder.safetensors"


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Make runs even shorter than those of --quick."""
    monkeypatch.setattr(paper_001, "QUICK", paper_001.QUICK | {"n_valid": 5, "n_test": 5})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise instead of characters: 6 alphabets to train on, one to validate, one to test."""
    path = tmp_path_factory.mktemp("omniglot")
    rng = np.random.default_rng(0)
    split = np.repeat(["train"] * 6 + ["valid", "test"], 12)
    np.savez(
        path / "omniglot.npz",
        images=rng.integers(0, 256, (96, 20, 28, 28)).astype(np.uint8),
        split=split,
        alphabet=np.repeat([f"alphabet {i}" for i in range(8)], 12),
    )
    images = {"inputs": "images", "n_inputs": 28 * 28, "encoder_config": {"n_filters": 4}}
    save_learner(FewShotLearner(**images), path / ENCODER)
    return path


def options_of(folder, tmp_path, *arguments):
    places = ["--omniglot", str(folder), "--cache", str(tmp_path / "cache")]
    places += ["--encoder", str(folder / ENCODER)]
    output = ["--output", str(tmp_path / "results")]
    return ["--quick", *places, *output, *arguments]


def parsed(folder, tmp_path, *arguments):
    return paper_001.parse_arguments(options_of(folder, tmp_path, *arguments))


# The grid


@pytest.mark.parametrize("key", TABLES)
def test_every_method_of_the_papers_tables_is_in_the_grid(key):
    table = TABLES[key]
    names = [method.name for method in table.methods]
    assert len(set(names)) == len(names)
    assert set(table.paper) == (set() if key == "figure_6" else set(names))
    for method in table.methods:
        assert SetTransformer(3, 1, **method.config)(torch.randn(2, 5, 3)).shape[0] == 2


ENCODERS = {"rFF": "rff", "rFFp-mean": "rffp_mean", "rFFp-max": "rffp_max"}
ENCODERS |= {"SAB": "sab", "ISAB": "isab"}


@pytest.mark.parametrize("key", TABLES)
def test_a_method_is_what_its_name_says(key):
    of_solids = key in ("6", "17")
    encoders = ENCODERS | {"Set Transformer": "isab" if of_solids else "sab"}
    plain = {"Pooling": "max" if of_solids else "mean", "Dotprod": "dotprod", "PMA": "pma"}
    for name, config in TABLES[key].methods:
        parts = name.split(" + ")
        decoder = parts[1] if len(parts) > 1 else "PMA"
        word, _, detail = decoder.rstrip(")").partition(" (")
        assert config["encoder"] == encoders[parts[0].partition(" (")[0]]
        poolings = ("mean", "sum", "max")
        assert config["pooling"] == (detail if detail in poolings else plain[word])
        if key == "8" and detail.isdigit():
            assert config.get("n_seeds", 1) == int(detail)
        if key == "figure_6":
            assert f"ISAB ({config['n_inducing']})" == parts[0]


def test_tables_are_of_their_tasks():
    assert {key: table.task for key, table in TABLES.items()} == {
        **{"2": "max", "8": "unique", "figure_6": "unique", "5": "odd_1", "5_three": "odd_3"},
        **{"17": "solids_100", "6": "solids_1000"},
    }


# Omniglot


def test_splits_and_rotations(folder):
    images, characters, alphabets = omniglot.load(folder)
    with np.load(folder / "omniglot.npz") as data:
        for split in ("valid", "test"):
            of_file = data["images"][data["split"] == split]
            np.testing.assert_array_equal(images[characters[split]][:, :, 0], of_file)
        unturned = images[characters["train"][:72]][:, :, 0]
        np.testing.assert_array_equal(unturned, data["images"][data["split"] == "train"])
    assert {k: v.shape for k, v in characters.items()} == {
        "train": (4 * 72, 20),
        "valid": (12, 20),
        "test": (12, 20),
    }
    places = np.concatenate([v.ravel() for v in characters.values()])
    assert sorted(places) == list(range(len(images)))
    first, turned = (images[characters["train"][i, 3], 0].numpy() for i in (5, 5 + 72))
    np.testing.assert_array_equal(np.rot90(first), turned)
    assert len(np.unique(alphabets)) == 24 and alphabets[5] != alphabets[5 + 72]
    with pytest.raises(SystemExit, match="give --omniglot"):
        omniglot.load(folder / "nowhere")


def test_a_pool_is_of_few_alphabets(folder):
    _, characters, alphabets = omniglot.load(folder)
    pool = omniglot.training_pool(np.random.default_rng(0), characters["train"], alphabets)
    assert pool.shape == (25, 10) and len(np.unique(pool)) == 250
    assert len(np.unique(alphabets[pool // 20])) <= 5
    assert (pool // 20 == pool[:, :1] // 20).all()  # all drawings of a row show one character


def test_unique_sets_have_as_many_characters_as_they_say(folder):
    places = omniglot.load(folder)[1]["test"]
    x, mask, counts = omniglot.unique_sets(np.random.default_rng(0), 2000, places)
    assert np.isin(x, places).all()
    assert set(mask.sum(1)) == set(range(6, 11)) and set(counts) == set(range(1, 11))
    for places, there, count in zip(x, mask, counts, strict=True):
        assert len(set(places[there])) == there.sum()
        assert len(set(places[there] // 20)) == count
    # The number of characters is uniform from 1 to the size of the set.
    tens = counts[mask.sum(1) == 10]
    assert tens.mean() == pytest.approx(5.5, abs=0.5)


@pytest.mark.parametrize("n_normal", [1, 3])
def test_the_odd_one_is_of_a_character_of_its_own(folder, n_normal):
    places = omniglot.load(folder)[1]["test"]
    x, odd = omniglot.odd_one_out_sets(np.random.default_rng(0), 500, places, n_normal)
    assert x.shape == (500, 8) and set(odd) == set(range(8))
    for row, i in zip(x // 20, odd, strict=True):
        found, counts = np.unique(row, return_counts=True)
        assert found[counts == 1] == [row[i]] and len(found) == n_normal + 1


def test_each_image_is_encoded_once_and_as_if_alone(folder):
    images, characters, _ = omniglot.load(folder)
    network = omniglot.OfImages(images, torch.nn.Module())
    network.network.forward = lambda x, mask: x
    x = torch.from_numpy(characters["train"][:4, :5])
    x[1] = x[0]
    mask = torch.rand(4, 5) < 0.7
    n_read = []
    network.encoder.register_forward_pre_hook(lambda _, args: n_read.append(len(args[0])))
    with torch.no_grad():
        found = network.eval()(x, mask)
        assert n_read == [len(set(x[mask].tolist()))]
        for place, vector in zip(x[mask], found[mask], strict=True):
            # bfloat16, used where the processor has it, sums in another order.
            alone = network.encoder(images[place][None])[0]
            torch.testing.assert_close(vector, alone, atol=0.1, rtol=0)
    assert not found[~mask].any() and "images" not in network.state_dict()


def test_batch_norm_is_mended_by_images_as_they_are(folder):
    images, *_ = omniglot.load(folder)
    encoder = omniglot.ImageEncoder().train()
    encoder(images[:200])
    omniglot.mend_batch_norm(encoder, images[:200])
    norm = encoder.layers[1]
    with torch.no_grad():
        z = encoder.layers[0](images[:200].float() / 255)
    torch.testing.assert_close(norm.running_mean, z.mean((0, 2, 3)), atol=0.02, rtol=0)
    assert norm.momentum == 0.1 and not encoder.training


# Solids


def test_points_are_on_the_solids():
    rng = np.random.default_rng(0)
    assert len(solids.SOLIDS) >= 10
    cube = solids.on_polyhedron(rng, "cube", 5000)
    np.testing.assert_allclose(np.abs(cube).max(1), 1)
    share = (cube > 0.5).mean(0)  # a sixth, plus a quarter of four sixths
    np.testing.assert_allclose(share, 1 / 3, atol=0.03)
    sphere = solids.on_revolution(rng, "sphere", 5000)
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1, atol=3e-3)
    assert np.abs(sphere.var(0) - 1 / 3).max() < 0.02  # uniform on the sphere
    cylinder = solids.on_revolution(rng, "cylinder", 5000)
    caps = np.abs(cylinder[:, 2]) == 1
    assert caps.mean() == pytest.approx(1 / 3, abs=0.03)  # 2 pi of 2 pi + 4 pi
    np.testing.assert_allclose(np.linalg.norm(cylinder[~caps, :2], axis=1), 1)
    # On a disc the squared radius is uniform.
    assert (cylinder[caps, :2] ** 2).sum(1).mean() == pytest.approx(0.5, abs=0.03)
    ring = np.linalg.norm(solids.on_revolution(rng, "torus", 500)[:, :2], axis=1) - 1
    assert np.abs(ring).max() <= 0.4 + 1e-9


@pytest.mark.parametrize("kind", solids.SOLIDS)
def test_clouds(kind):
    rng = np.random.default_rng(0)
    clouds = [solids.draw_cloud(rng, kind, 60) for _ in range(20)]
    sizes = [(cloud**2).sum(1).mean() ** 0.5 for cloud in clouds]
    assert 0.7 < min(sizes) < 0.95 < 1.1 < max(sizes) < 1.4
    assert max(np.abs(cloud.mean(0)).max() for cloud in clouds) < 0.1


# The tasks


def test_max_regression_is_in_units_of_the_numbers():
    task = MaxRegression()
    inputs, target = task.sets(np.random.default_rng(0), 300, "test")
    x, mask = 50 * inputs["x"][..., 0] + 50, inputs["mask"]
    assert set(mask.sum(1).tolist()) == set(range(1, 11))
    for numbers, there, largest in zip(x, mask, target, strict=True):
        assert numbers[there].max().item() == pytest.approx(largest.item(), abs=1e-4)
    output = (target[:, None] - 50) / 50
    assert task.measures(output, target)["mae"] < 1e-4
    assert task.measures(output + 0.1, target)["mae"] == pytest.approx(5, rel=1e-4)


def test_counts_are_rates_rounded_to_the_nearest_and_down(folder, tmp_path):
    task = UniqueCharacters(parsed(folder, tmp_path, "--end-to-end"))
    rate = torch.tensor([2.6, 3.4, 7.0, 1.9])
    output = torch.log(torch.expm1(rate))[:, None]
    counts = torch.tensor([3.0, 3.0, 7.0, 1.0])
    found = task.measures(output, counts)
    assert found["accuracy"] == 0.75 and found["accuracy_mode"] == 0.5 + 0.25 * (rate[2] >= 7)
    assert found["mae"] == pytest.approx(0.425, abs=1e-5)
    nll = -torch.distributions.Poisson(rate).log_prob(counts).mean()
    torch.testing.assert_close(task.loss(output, counts), nll)
    many = output[:, None] + torch.tensor([-1.0, 0.5, 2.0, -1.5])[:, None]  # outputs of four seeds
    assert many.shape == (4, 4, 1)
    torch.testing.assert_close(task.rate(many), rate)


def test_odd_ones_are_scored_as_scikit_learn_would(folder, tmp_path):
    task = OddOneOut(parsed(folder, tmp_path, "--end-to-end"), 1)
    output, target = torch.randn(30, 8), torch.randint(8, (30,))
    truth = torch.nn.functional.one_hot(target, 8).numpy()
    found = task.measures(output, target)
    for name, score in (("auroc", roc_auc_score), ("aupr", average_precision_score)):
        expected = np.mean([score(t, o) for t, o in zip(truth, output.numpy(), strict=True)])
        assert found[name] == pytest.approx(expected, abs=1e-6)
    ties = output.round()  # a network that has diverged gives equal scores, or NaN
    for tied in (ties, torch.zeros(30, 8), torch.full((30, 8), torch.nan)):
        scores, found = tied.nan_to_num().numpy(), task.measures(tied, target)
        for name, score in (("auroc", roc_auc_score), ("aupr", average_precision_score)):
            expected = np.mean([score(t, o) for t, o in zip(truth, scores, strict=True)])
            assert found[name] == pytest.approx(expected, abs=1e-6)


def test_scores_of_elements_change_places_with_them():
    torch.manual_seed(0)
    pointer = Pointer(3, {"encoder": "rff", "pooling": "mean"}).double().eval()
    x, order = torch.randn(2, 6, 3, dtype=torch.float64), torch.randperm(6)
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    with torch.no_grad():
        found = pointer(x, mask)
        torch.testing.assert_close(pointer(x[:, order], mask[:, order]), found[:, order])
    assert found[1, 4:].isinf().all() and found[0].isfinite().all()
    assert found[0].std() > 0


def test_point_clouds_are_labelled():
    task, rng = PointClouds(50), np.random.default_rng(0)
    inputs, target = task.sets(np.random.default_rng(0), 200, "train")
    assert inputs["x"].shape == (200, 50, 3)
    kinds = rng.integers(0, 16, 200)
    assert len(solids.SOLIDS) == 16 == len(set(kinds))
    np.testing.assert_array_equal(target, kinds)
    for cloud, kind in zip(inputs["x"][:9], kinds):
        drawn = solids.draw_cloud(rng, solids.SOLIDS[kind], 50)
        np.testing.assert_array_equal(cloud, drawn.astype(np.float32))
    logits = torch.nn.functional.one_hot(target, 16).float()
    assert task.measures(logits, target) == {"accuracy": 1.0}
    assert task.measures(logits.roll(1, 0), target)["accuracy"] < 0.3


def test_a_cloud_is_turned_stretched_and_noisy():
    turned, sizes = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cloud = solids.draw_cloud(rng, solids.SOLIDS[0], 400)
        covariance = np.cov(cloud.T)
        turned.append(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
        sizes.append(np.sqrt(np.diag(covariance)))
    assert (
        np.std(turned) > 0.02 and np.std(np.array(sizes) / np.mean(sizes, 0), axis=0).min() > 0.05
    )
    assert solids.NOISE > 0


def test_targets_are_of_the_sets_beside_them(folder, tmp_path):
    options = parsed(folder, tmp_path, "--end-to-end")
    inputs, counts = UniqueCharacters(options).sets(np.random.default_rng(0), 100, "test")
    for places, there, count in zip(inputs["x"], inputs["mask"], counts, strict=True):
        assert len((places[there] // 20).unique()) == count
    inputs, odd = OddOneOut(options, 1).sets(np.random.default_rng(0), 100, "test")
    for places, i in zip(inputs["x"] // 20, odd, strict=True):
        assert (places == places[i]).sum() == 1


def test_sets_are_of_the_characters_of_their_split(folder, tmp_path):
    options = parsed(folder, tmp_path, "--end-to-end")
    _, characters, _ = omniglot.load(folder)
    for task in (UniqueCharacters(options), OddOneOut(options, 3)):
        for split in ("train", "valid", "test"):
            inputs, _ = task.sets(np.random.default_rng(0), 50, split)
            assert np.isin(inputs["x"][inputs["mask"]], characters[split]).all()


@pytest.mark.parametrize("kind", ["max", "unique", "odd", "solids"])
def test_a_network_is_that_of_its_method(folder, tmp_path, kind):
    options = parsed(folder, tmp_path)
    task = {
        "max": MaxRegression,
        "unique": lambda: UniqueCharacters(options),
        "odd": lambda: OddOneOut(options, 1),
        "solids": lambda: PointClouds(20),
    }[kind]()
    for config in ({"encoder": "rff", "pooling": "max"}, {"encoder": "isab", "pooling": "pma"}):
        module = task.module(TABLES["2"].methods[0]._replace(config=config))
        (network,) = (m for m in module.modules() if isinstance(m, SetTransformer))
        assert {name: network.config[name] for name in config} == config
        if kind in ("unique", "odd"):
            inputs, _ = task.sets(np.random.default_rng(0), 3, "test")
            expected = module.network(task.vectors[inputs["x"]], inputs["mask"])
            torch.testing.assert_close(module(**inputs), expected)


# The command


class Spy(MaxRegression):
    """Records the sets drawn from it and the modes of its modules."""

    def __init__(self):
        self.asked, self.modes, self.first = [], [], []

    def module(self, method):
        module = super().module(method)
        self.first.append(next(module.parameters()).sum().item())
        module.register_forward_hook(lambda m, *_: self.modes.append(m.training))
        return module

    def sets(self, rng, n_sets, split):
        inputs, target = super().sets(rng, n_sets, split)
        self.asked.append((split, n_sets, target.sum().item()))
        return inputs, target


def test_a_cell_is_watched_on_valid_and_scored_on_test(folder, tmp_path):
    options, method = parsed(folder, tmp_path), TABLES["2"].methods[0]
    options.n_valid, options.n_test, options.steps = 7, 600, 2
    spies = [Spy(), Spy()]
    cells = [training.run_cell(spy, method, i, options) for i, spy in enumerate(spies)]
    splits = [split for split, *_ in spies[0].asked]
    assert splits == ["train", "valid", "train", "valid", "test", "test"]
    assert [n for split, n, _ in spies[0].asked if split == "test"] == [500, 100]
    assert {n for split, n, _ in spies[0].asked if split == "valid"} == {7}
    assert spies[0].modes == [True, False, True, False, False, False]
    sums = [total for *_, total in spies[0].asked]
    assert sums[1] == sums[3] and len(set(sums)) == 5  # both looks see the same sets
    assert spies[0].first != spies[1].first and cells[0]["mae"] != cells[1]["mae"]
    alike = type("Alike", (Spy,), {"n_sets": 7})()
    options.n_test = 7
    training.run_cell(alike, method, 0, options)
    totals = {split: total for split, _, total in alike.asked[::-1]}  # first request of each split
    assert len(set(totals.values())) == 3  # equally many sets, but different ones
    others = [
        (Spy(), method._replace(config={"encoder": "rff", "pooling": "max"})),
        (type("Other", (Spy,), {"setting": {"name": "max", "n_sets": 5}})(), method),
    ]
    for spy, other in others:  # neither is taken for the stored cell
        training.run_cell(spy, other, 0, options)
        assert spy.asked


def test_the_encoder_of_images_tells_cells_apart(folder, tmp_path):
    options = parsed(folder, tmp_path)
    vectors, digest = training.encoded_images(options.omniglot, options.encoder)
    assert UniqueCharacters(options).setting["encoder"] == digest
    images = omniglot.load(folder)[0][:5]
    with torch.no_grad():
        encoder = training.load_learner(options.encoder).encoder.eval()
        torch.testing.assert_close(vectors[:5], encoder(images.flatten(1).float() / 255))


def test_errors_are_of_the_mean_and_the_best_is_bold():
    table = TABLES["2"]._replace(measures={"mae": "error"}, paper={}, lower_is_better=True)
    rows = pd.DataFrame(
        {"method": ["a", "a", "b", "b"], "mae": [1.0, 3.0, 4.0, 4.0]}
        | dict.fromkeys(("steps", "cpu_seconds", "n_parameters"), 1)
    )
    summary = report.summarise(rows, table)
    assert summary["mae"].tolist() == [2, 4] and summary["mae_se"].tolist() == [1, 0]
    assert "| a | **2.0000** ± 1.0000 |" in report.to_markdown(table, summary)
    table = table._replace(measures={"accuracy": "accuracy"}, lower_is_better=False)
    summary = report.summarise(rows.rename(columns={"mae": "accuracy"}), table)
    assert "| b | **4.0000** ± 0.0000 |" in report.to_markdown(table, summary)


def test_training_learns_and_reports():
    module, task = SetTransformer(1, 1, encoder="rff", pooling="max"), MaxRegression()
    looks = training.train(
        module, task.loss, task.batch, 100, 3e-3, 0, lambda m: {"mae": float(m.training)}
    )
    assert len(looks) == training.N_LOOKS
    assert looks[-1]["train_loss"] < looks[0]["train_loss"] / 2
    assert all(look["valid_mae"] in (0.0, 1.0) for look in looks)


def test_tables_and_figures_in_one_command(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(paper_001.QUICK, "steps", 1)
    keys = ["2", "17", "figure_6"]  # the others consist of the same parts
    paper_001.main(options_of(folder, tmp_path, "--only", *keys))
    results = tmp_path / "results"
    for key in keys:
        stem = results / (key if key == "figure_6" else f"table_{key}")
        rows = pd.read_csv(stem.with_suffix(".csv"))
        assert list(rows["method"]) == 2 * [m.name for m in TABLES[key].methods]
        assert rows[list(TABLES[key].measures)].notna().all(axis=None)
        assert stem.with_suffix(".png").stat().st_size > 0
        text = stem.with_suffix(".md").read_text("utf-8")
        for name, figures in TABLES[key].paper.items():
            assert f"| {name} |" in text and f"({figures[0]:.4g})" in text


def test_a_killed_run_goes_on(folder, tmp_path, monkeypatch):
    arguments = options_of(folder, tmp_path, "--only", "8", "--methods", "rFF + Pooling")
    paper_001.main(arguments)
    cells = sorted((tmp_path / "cache" / "unique").glob("*.json"))
    assert len(cells) == 2 and len(json.loads(cells[0].read_text("utf-8"))["curve"]) == 2
    table = (tmp_path / "results" / "table_8.csv").read_text("utf-8")
    # Stored cells are not trained anew; cells of another budget are.
    monkeypatch.setattr(training, "train", lambda *args, **kwargs: 1 / 0)
    paper_001.main(arguments)
    assert (tmp_path / "results" / "table_8.csv").read_text("utf-8") == table
    with pytest.raises(ZeroDivisionError):
        run = paper_001.parse_arguments(arguments)
        run.steps = 3
        task = UniqueCharacters(run)
        training.run_cell(task, TABLES["8"].methods[0], 0, run)


def test_end_to_end_is_another_table(folder, tmp_path, monkeypatch):
    for name in ("steps", "seeds"):
        monkeypatch.setitem(paper_001.QUICK, name, 1)
    for task in (OddOneOut, UniqueCharacters):
        monkeypatch.setattr(task, "n_sets", 8)
    options = ["--only", "8", "5_three", "--methods", "rFF + Pooling", "--end-to-end"]
    paper_001.main(options_of(folder, tmp_path, *options))
    assert (tmp_path / "results" / "table_5_three_end_to_end.md").is_file()
    rows = pd.read_csv(tmp_path / "results" / "table_8_end_to_end.csv")
    assert len(rows) == 1 and rows["n_parameters"].min() > 100_000


def test_figure_6_has_the_lines_of_its_own_table_8(tmp_path):
    for name, accuracy in (("table_8", 0.5), ("table_8_end_to_end", 0.7)):
        rows = pd.DataFrame({"method": ["rFF"], "accuracy": [accuracy]})
        rows.to_csv(tmp_path / f"{name}.csv")
        options = Namespace(output=tmp_path, end_to_end=name != "table_8")
        assert paper_001.others(options) == {"rFF": accuracy}


def test_without_the_images_the_other_tables_are_made(tmp_path, capsys):
    options = options_of(tmp_path / "nowhere", tmp_path, "--only", "2", "8")
    paper_001.main([*options, "--methods", "rFF + Pooling (max)"])
    assert "8 is left out: there is no folder" in capsys.readouterr().out
    assert (tmp_path / "results" / "table_2.csv").is_file()


# Tables 4 and 11


def test_networks_of_mixtures_are_what_their_names_say():
    pooling = {"Pooling": "mean", "Dotprod": "dotprod", "PMA": "pma"}
    for name, (config, *paper) in mixtures.METHODS.items():
        encoder, _, decoder = name.partition(" + ")
        inducing = encoder.rstrip(")").partition(" (")[2]
        kinds = ENCODERS | {"Set Transformer": "isab" if inducing else "sab"}
        assert config["encoder"] == kinds[encoder.partition(" (")[0]]
        assert config["pooling"] == pooling[decoder or "PMA"]
        network = mixtures.DirectMixture(4, 2, width=8, **config).network
        assert not inducing or network.config["n_inducing"] == int(inducing)
        assert all(-3 < likelihood < -1 for likelihood in paper)


@pytest.mark.parametrize("pooling", ["mean", "pma"])
def test_a_mixture_is_in_the_units_of_its_points_and_of_them_alone(pooling):
    torch.manual_seed(0)
    learner = mixtures.DirectMixture(4, 2, width=8, encoder="sab", pooling=pooling).eval()
    fit, rng = mixtures.method(learner, batch=2), np.random.default_rng(0)
    sets = [rng.normal(size=(n, 2)) * [1, 3] for n in (30, 12, 25)]
    found, moved = fit(sets, 4), fit([points * [2, 5] + [7, -1] for points in sets], 4)
    units = torch.tensor([2.0, 5.0], dtype=torch.float64)
    torch.testing.assert_close(moved.log_weights, found.log_weights, atol=1e-4, rtol=0)
    expected = found.means * units + torch.tensor([7.0, -1.0])
    torch.testing.assert_close(moved.means, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(
        moved.covariances, found.covariances * units**2, atol=1e-3, rtol=1e-3
    )
    assert found.covariances.std(1).max() > 0
    for i, points in enumerate(sets):  # alone, not beside longer sets
        alone = fit([points], 4)
        torch.testing.assert_close(alone.means[0], found.means[i], atol=1e-4, rtol=0)


def test_points_that_are_scored_are_those_that_are_read():
    rng = np.random.default_rng(0)
    task = mixtures.InSample(("diag",), other_k=0).draw(MixtureSets().draw(rng), rng)
    assert task.held_out is task.X
