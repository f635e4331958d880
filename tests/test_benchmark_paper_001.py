"""benchmarks/paper_001.py: its sets are what they say, and a killed run goes on."""

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
import paper_001_omniglot as omniglot
import paper_001_solids as solids
import paper_001_training as training
from paper_001_grid import TABLES
from paper_001_tasks import MaxRegression, OddOneOut, PointClouds, Pointer, UniqueCharacters

from sklearn_meta.backbones.set_transformer import SetTransformer
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.weights import save_learner

#: Of random weights: nothing is learned here, and that of the package takes longer.
ENCODER = "encoder.safetensors"


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Runs that are even briefer than those of --quick."""
    monkeypatch.setattr(paper_001, "QUICK", paper_001.QUICK | {"n_valid": 5, "n_test": 5})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Noise in the place of characters: 6 alphabets to train on, one to watch, one to test."""
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


# Omniglot


def test_splits_and_rotations(folder):
    images, characters, alphabets = omniglot.load(folder)
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
    assert (pool // 20 == pool[:, :1] // 20).all()  # a row is of one character


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
            # bfloat16, where the processor has it, sums in another order.
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
    share = (cube > 0.5).mean(0)  # a sixth, and a quarter of four sixths
    np.testing.assert_allclose(share, 1 / 3, atol=0.03)
    sphere = solids.on_revolution(rng, "sphere", 5000)
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1, atol=3e-3)
    assert np.abs(sphere.var(0) - 1 / 3).max() < 0.02  # uniform
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
    many = torch.log(torch.expm1(rate))[:, None, None].expand(-1, 4, -1)  # four seeds
    torch.testing.assert_close(task.rate(many), rate)


def test_odd_ones_are_scored_as_scikit_learn_would(folder, tmp_path):
    task = OddOneOut(parsed(folder, tmp_path, "--end-to-end"), 1)
    output, target = torch.randn(30, 8), torch.randint(8, (30,))
    truth = torch.nn.functional.one_hot(target, 8).numpy()
    found = task.measures(output, target)
    for name, score in (("auroc", roc_auc_score), ("aupr", average_precision_score)):
        expected = np.mean([score(t, o) for t, o in zip(truth, output.numpy(), strict=True)])
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


def test_point_clouds_are_labelled(folder, tmp_path):
    inputs, target = PointClouds(50).sets(np.random.default_rng(0), 40, "train")
    assert inputs["x"].shape == (40, 50, 3) and len(target.unique()) > 8


# The command


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
    keys = ["2", "17", "figure_6"]  # the others have the same parts
    paper_001.main(options_of(folder, tmp_path, "--only", *keys))
    results = tmp_path / "results"
    for key in keys:
        stem = results / (key if key == "figure_6" else f"table_{key}")
        rows = pd.read_csv(stem.with_suffix(".csv"))
        assert list(rows["method"]) == 2 * [m.name for m in TABLES[key].methods]
        assert rows[list(TABLES[key].measures)].notna().all(axis=None)
        assert stem.with_suffix(".png").stat().st_size > 0
        text = stem.with_suffix(".md").read_text()
        for name, figures in TABLES[key].paper.items():
            assert f"| {name} |" in text and f"({figures[0]:.4g})" in text


def test_a_killed_run_goes_on(folder, tmp_path, monkeypatch):
    arguments = options_of(folder, tmp_path, "--only", "8", "--methods", "rFF + Pooling")
    paper_001.main(arguments)
    cells = sorted((tmp_path / "cache" / "unique").glob("*.json"))
    assert len(cells) == 2 and len(json.loads(cells[0].read_text())["curve"]) == 2
    table = (tmp_path / "results" / "table_8.csv").read_text()
    # No cell is trained anew, but those of another budget are.
    monkeypatch.setattr(training, "train", lambda *args, **kwargs: 1 / 0)
    paper_001.main(arguments)
    assert (tmp_path / "results" / "table_8.csv").read_text() == table
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
