"""Recipes build the networks that cards describe, and cards hold the whole recipe."""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import join_default
import meta_train_default
import meta_train_encoder
import meta_train_few_shot
import meta_train_memory
import meta_train_mixtures
import meta_train_regression
import meta_train_texts
import omniglot_splits
import recipe
from clustered_tables import DrawingTables, TextTables
from test_omniglot import official  # noqa: F401

from sklearn_meta.tasks import as_source
from sklearn_meta.weights import load_learner

OMNIGLOT = Path(
    os.environ.get("SKLEARN_META_OMNIGLOT") or Path(__file__).parents[1] / "../shared/data/omniglot"
)

TABLES = {
    "regression": as_source({"rain": (np.eye(12, 3), np.linspace(0.0, 1.0, 12))}),
    "classification": as_source(
        {
            "sun": (np.random.default_rng(0).random((12, 3)), np.arange(12) % 2),
            "flags": (np.eye(12, 3), np.arange(12) % 2),  # no column can be a target
        }
    ),
}


def small_tables(folder, split, task="classification", **settings):
    return TABLES[task]


SCRIPTS = {
    "default_mann": meta_train_memory,
    "default_mann_string": meta_train_memory,
    "default_mann_regression": meta_train_memory,
    "omniglot_mann": meta_train_memory,
    "omniglot_mann_string": meta_train_memory,
    "default_few_shot": meta_train_few_shot,
    "omniglot_few_shot": meta_train_few_shot,
}


def arguments_of(recipe, script, name):
    """Turn the recipe on a card into arguments of its command."""
    known = vars(script.parse_arguments([name, "--omniglot", "nowhere"]))
    settings = {k: v for k, v in recipe.items() if k in known and k not in ("begin", "encoder")}
    flags = [f"--{k}" for k, v in settings.items() if v is True]
    pairs = [(f"--{k.replace('_', '-')}", str(v)) for k, v in settings.items()]
    given = [word for pair in pairs if pair[1] not in ("None", "True", "False") for word in pair]
    return [name, *flags, *given]


@pytest.mark.parametrize("name", SCRIPTS)
def test_recipes_on_cards_build_the_shipped_network(name):
    if name.startswith("omniglot") and not OMNIGLOT.is_dir():
        pytest.skip("Omniglot is not here")
    shipped, script = load_learner(name), SCRIPTS[name]
    recipe = shipped.card["recipe"]
    recipe = recipe.get("FIRST", recipe)  # before the curriculum of figure 4
    assert recipe["command"] == f"python benchmarks/{script.__name__}.py {name}"
    arguments = arguments_of(recipe, script, name)
    if recipe.get("encoder"):
        arguments += ["--encoder", name]  # the learner holds the encoder it was given
    args = script.parse_arguments([*arguments, "--omniglot", str(OMNIGLOT)])
    assert script.RECIPES[name](args)[0].config == shipped.config


def test_a_training_goes_on_from_weights_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ["default_few_shot", "--max-steps", "2", "--batch-size", "2", "--log", "losses.csv"]
    meta_train_few_shot.main([*few, "--output", "first.safetensors"])
    meta_train_few_shot.main(
        [*few, "--begin", "first.safetensors", "--fast", "--output", "second.safetensors"]
    )
    first, second = (json.loads(Path(f"{n}.json").read_text()) for n in ("first", "second"))
    assert first["sha256"] != second["sha256"]
    assert second["recipe"]["begin"] == first["recipe"]
    command = "python benchmarks/meta_train_few_shot.py default_few_shot"
    assert first["recipe"]["command"] == second["recipe"]["command"] == command
    assert (first["recipe"]["fast"], second["recipe"]["fast"]) == (False, True)
    assert str(tmp_path) not in str(second)
    folders = list(Path("checkpoints").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("default_few_shot-") for folder in folders)


def test_a_checkpoint_of_other_beginnings_is_refused(tmp_path, monkeypatch):
    """Otherwise the card would name weights that the new ones do not come from."""
    monkeypatch.chdir(tmp_path)
    few = ["--width", "8", "--n-rounds", "1", "--max-steps", "1", "--batch-size", "2"]
    kept = ["--checkpoint-dir", "kept"]
    for seed in "12":
        meta_train_mixtures.main([*few, "--seed", seed, "--output", f"{seed}.safetensors"])
    meta_train_mixtures.main([*few, *kept, "--start", "1.safetensors", "--output", "a.safetensors"])
    with pytest.raises(ValueError, match="other settings: start "):
        meta_train_mixtures.main([*few, *kept, "--start", "2.safetensors"])


@pytest.mark.parametrize(
    ("option", "given"),
    [("--stretch", "0.7"), ("--warp", "0.7"), ("--encoder", "omniglot_few_shot")],
)
def test_recipes_of_tables_refuse_what_is_of_drawings(option, given, capsys):
    with pytest.raises(SystemExit):
        meta_train_few_shot.parse_arguments(["default_few_shot", option, given])
    assert f"{option} " in capsys.readouterr().err
    kept = vars(meta_train_few_shot.parse_arguments(["default_few_shot"]))
    assert kept.get(option[2:]) is None  # nor does the card name it


def test_a_training_that_goes_on_may_leave_out_the_easy_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = []

    def train(learner, stage, args, name, **settings):
        run.append((name, stage.max_steps))
        return [{"valid_loss": 1.5, "valid_accuracy": 0.6}]

    monkeypatch.setattr(meta_train_memory.recipe, "train", train)
    given = ["default_mann", "--begin", "default_mann", "--first-steps", "0", "--max-steps", "7"]
    meta_train_memory.main(given)
    assert run == [("1", 7)]
    with pytest.raises(SystemExit, match="omniglot_mann are of another network"):
        meta_train_memory.main(["default_mann", "--begin", "omniglot_mann"])


def test_recipes_of_drawings_refuse_what_is_of_tables(capsys):
    of_drawings = ["omniglot_mann", "--omniglot", "nowhere"]
    with pytest.raises(SystemExit):
        meta_train_memory.parse_arguments([*of_drawings, "--first-steps", "5"])
    assert "--first-steps are on easy tables" in capsys.readouterr().err
    assert "first_steps" not in meta_train_memory.parse_arguments(of_drawings)


def test_recipes_read_the_official_files_of_omniglot(official, monkeypatch):  # noqa: F811
    """The files of ``fetch_omniglot`` do not know our split."""
    monkeypatch.setattr(omniglot_splits, "N_VALID", 1)
    folder, _ = official
    args = meta_train_memory.parse_arguments(["omniglot_mann", "--omniglot", str(folder)])
    _, ((_, train, valid, _),), _ = meta_train_memory.RECIPES["omniglot_mann"](args)
    assert [*train.alphabets] == ["background_A"] * 2
    assert [*valid.alphabets] == ["background_B"]


@pytest.mark.parametrize(
    ("name", "priors", "n_least"),
    [
        ("prototypes", {"TablePrior"}, 200),
        ("default_regression", {"RegressionPrior"}, 190),
        ("default", {"TablePrior", "RegressionPrior"}, 200),
    ],
)
def test_a_card_lists_the_tables_of_training_and_no_others(name, priors, n_least):
    listed = load_learner(name).card["datasets"]
    assert not set(meta_train_default.SCIKIT_LEARN) & set(listed)
    folder = Path(meta_train_default.FOLDER)
    if not (folder / "index.csv").is_file():
        pytest.skip("the real tables are not here")
    index = pd.read_csv(folder / "index.csv", dtype=str, keep_default_na=False)
    clustered = {*DrawingTables.names, *TextTables.names}
    assert set(listed) - priors - clustered <= set(index["name"][index["split"] == "train"])
    assert not set(listed) & set(index["name"][index["split"] != "train"])
    assert len(listed) > n_least


def test_the_recipe_of_prototypes_is_three_stages_or_goes_on_from_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(meta_train_default, "tables", small_tables)
    for name in ("DrawingTables", "TextTables"):
        monkeypatch.setattr(meta_train_default, name, lambda folder: TABLES["classification"])
    run = []

    def meta_train(learner, source, sampler, **settings):
        shares = [round(float(share), 2) for share in source.weights]
        run.append((settings["max_steps"], sampler.imbalanced, max(sampler.n_shots), *shares))
        return [{"valid_loss": 1.5, "valid_accuracy": 0.6}]

    monkeypatch.setattr(meta_train_default, "meta_train", meta_train)
    few = ["--width", "8", "--n-layers", "1"]
    meta_train_default.main([*few, "--stages", "second", "first", "--output", "two.safetensors"])
    assert run == [(18_000, 0.2, 10, 0.5, 0.2, 0.3), (6500, 0.6, 40, 0.5, 0.2, 0.3)]
    more = ["--start", "two.safetensors", "--output", "third.safetensors", "--stages", "third"]
    meta_train_default.main([*few, *more, "--max-steps", "500"])
    assert run[2:] == [(500, 0.6, 40, 0.35, 0.14, 0.21, 0.2, 0.1)]
    two, third = (load_learner(f"{name}.safetensors") for name in ("two", "third"))
    assert all(map(torch.equal, two.state_dict().values(), third.state_dict().values()))
    assert [*two.card["recipe"]["stages"]] == ["first", "second"]
    assert third.card["recipe"]["start"] == two.card["recipe"]
    assert third.card["recipe"]["stages"]["third"]["max_steps"] == 500
    assert {"TablePrior", "rain", "sun"} <= set(two.card["datasets"])
    assert "drawings" in third.card["data"] and "drawings" not in two.card["data"]
    meta_train_default.main(few)
    assert [told[0] for told in run[3:]] == [18_000, 6500, 6000]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--backbone-config", '{"width": 8}'], "--backbone-config is of another --backbone"),
        (["--backbone", "exchangeable", "--n-layers", "2"], "--n-layers is of vsa"),
    ],
)
def test_the_recipe_of_prototypes_refuses_what_another_backbone_has(given, told, capsys):
    with pytest.raises(SystemExit):
        meta_train_default.parse_arguments(given)
    assert told in capsys.readouterr().err
    other = meta_train_default.parse_arguments(["--backbone", "exchangeable"])
    assert not {"width", "n_layers"} & set(vars(other))  # nor does the card name them


def test_the_recipe_of_prototypes_is_that_of_the_card():
    """The card holds the first two stages as its start: the earlier recipe of two stages."""
    stages = json.loads(json.dumps(meta_train_default.STAGES))
    told = load_learner("prototypes").card["recipe"]
    assert told["stages"] == {"third": stages["third"]}
    second, first = told["start"], told["start"]["start"]
    for name, settings in (("first", first), ("second", second)):
        known = stages[name].keys() - ({"max_cells"} if name == "first" else set())
        assert {key: settings[key] for key in known} == {key: stages[name][key] for key in known}
    args = vars(meta_train_default.parse_arguments([]))
    settings = told.keys() - {"command", "start", "stages"}
    assert {"batch_size", "optimizer", "width"} <= settings
    assert {key: args[key] for key in settings} == {key: told[key] for key in settings}


def test_the_default_weights_are_two_networks_side_by_side(tmp_path, monkeypatch):
    """The card's recipe makes them again to the last bit, and scores them on a few tables."""
    monkeypatch.setattr(join_default, "tables", small_tables)
    monkeypatch.setattr(join_default, "N_BATCHES", 2)
    join_default.main(["--output", str(tmp_path / "again.safetensors")])
    again, shipped = load_learner(tmp_path / "again.safetensors"), load_learner("default")
    told = ("config", "n_parameters", "sha256", "data", "seed", "recipe", "datasets")
    assert {key: again.card[key] for key in told} == {key: shipped.card[key] for key in told}
    validation = again.card["validation"]
    assert 0 < validation["loss"] < 3 and 0 < validation["accuracy"] < 1
    for part in ("prototypes", "default_regression"):
        recipes = again.card["recipe"]["first"], again.card["recipe"]["second"]
        assert load_learner(part).card["recipe"] in recipes


def test_the_regression_recipe_is_two_stages_or_goes_on_from_weights(tmp_path, monkeypatch):
    """Runs everything but the training itself, which takes minutes per epoch."""
    monkeypatch.chdir(tmp_path)
    run, states = [], []

    def meta_train(learner, source, sampler, **settings):
        trained = {name.split(".")[0] for name, p in learner.named_parameters() if p.requires_grad}
        told = settings["checkpoint_dir"].name, settings["batch_size"], max(sampler.n_shots)
        run.append((*told, learner.backbone.config["own_labels"], trained))
        states.append({name: p.clone() for name, p in learner.state_dict().items()})
        return [{"valid_loss": 1.5, "valid_mse": 1.6}]

    def scores(*args, **settings):
        return recipe.scores(*args, **settings | {"n_batches": 1})

    monkeypatch.setattr(meta_train_regression, "meta_train", meta_train)
    monkeypatch.setattr(meta_train_regression, "scores", scores)
    monkeypatch.setattr(meta_train_regression, "tables", small_tables)
    few = ["--width", "8", "--n-layers", "1"]
    meta_train_regression.main([*few, "--tables", "0", "--output", "first.safetensors"])
    assert run == [
        ("first", 32, 80, True, {"backbone", "head"}),
        ("second", 16, 320, False, {"head"}),
    ]
    for name, before in states[0].items():  # the first stage's weights, and more kernels
        assert torch.equal(states[1][name][: len(before)], before)
    noise = states[1]["head.log_noise"]
    assert len(noise) == 24 and torch.allclose(noise[16], noise[0] + math.log(0.3))
    more = ["--start", "first.safetensors", "--output", "second.safetensors"]
    meta_train_regression.main([*few, *more, "--stages", "second", "--batch-size", "4"])
    assert run[2] == ("second", 4, *run[1][2:])
    first, second = (load_learner(f"{name}.safetensors") for name in ("first", "second"))
    assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))
    assert not first.backbone.config["own_labels"]
    assert [*first.card["recipe"]["stages"]] == ["first", "second"]
    assert second.card["recipe"]["stages"]["second"]["batch_size"] == 4
    assert first.card["data"] == "RegressionPrior: synthetic tables alone"
    assert second.card["data"].startswith("RegressionPrior; 50 % of tasks")
    assert second.card["datasets"] == ["RegressionPrior", "rain", "sun"]
    assert second.card["recipe"]["start"] == first.card["recipe"]
    for other in (["--width", "16"], ["--stages", "first"]):  # as many kernels, or fewer
        with pytest.raises(SystemExit, match="first.safetensors are of another network"):
            meta_train_regression.main([*few, *more, *other])
    with pytest.raises(SystemExit, match="default are of another network"):
        meta_train_regression.main([*few, "--start", "default"])


def test_the_regression_recipe_is_that_of_the_card():
    """The card holds the first stage as its start: the earlier recipe of one stage."""
    stages = json.loads(json.dumps(meta_train_regression.STAGES))
    told = load_learner("default_regression").card["recipe"]
    assert told["stages"] == {"second": stages["second"]}
    known = ("max_steps", "batch_size", "learning_rate", "optimizer", "n_kernels")
    assert {key: told["start"][key] for key in known} == {
        key: stages["first"][key] for key in known
    }
    args = vars(meta_train_regression.parse_arguments([]))
    settings = told.keys() - {"command", "start", "stages"}
    assert {"tables", "seed", "width"} <= settings
    assert {key: args[key] for key in settings} == {key: told[key] for key in settings}


def test_the_mixture_recipe_tells_the_recipe_it_goes_on_from_and_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = []

    def meta_train(*args, **settings):
        run.append((str(settings["checkpoint_dir"]), settings["start"]))
        return [{"valid_loss": 1.5, "valid_nll": 1.6}]

    monkeypatch.setattr(meta_train_mixtures, "meta_train", meta_train)
    few = ["--width", "8", "--n-rounds", "1"]
    meta_train_mixtures.main([*few, "--output", "first.safetensors"])
    more = ["--start", str(tmp_path / "first.safetensors"), "--output", "second.safetensors"]
    meta_train_mixtures.main([*few, *more])
    first, second = (load_learner(f"{name}.safetensors") for name in ("first", "second"))
    assert all(map(torch.equal, first.state_dict().values(), second.state_dict().values()))
    assert second.card["recipe"]["start"] == first.card["recipe"]
    assert str(tmp_path) not in str(second.card)
    assert [folder for folder, _ in run] == ["checkpoints/first", "checkpoints/second"]


# The image encoder


def test_contrastive_loss_is_the_mean_over_images_of_one_character():
    torch.manual_seed(0)
    z = torch.randn(12, 5, dtype=torch.float64)
    unit = z / z.norm(dim=1, keepdim=True)
    losses = []
    for i in range(12):
        others = [j for j in range(12) if j != i]
        exponents = torch.stack([unit[i] @ unit[j] / 0.07 for j in others])
        like = torch.tensor([j // 4 == i // 4 for j in others])
        losses.append(-exponents.log_softmax(0)[like].mean())
    expected = torch.stack(losses).mean()
    found = meta_train_encoder.contrastive_loss(z, 3)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    alike = torch.eye(3, 5).repeat_interleave(4, 0)
    assert meta_train_encoder.contrastive_loss(alike, 3) == pytest.approx(np.log(3), abs=1e-3)


def test_drawings_are_distorted_alike_in_part_and_paired_with_the_next_character(monkeypatch):
    torch.manual_seed(0)
    n = meta_train_encoder.N_CHARACTERS * meta_train_encoder.N_INSTANCES
    images = torch.zeros(n, 1, 28, 28)
    images[:, :, 8:20, 10:18] = 1.0
    with monkeypatch.context() as alone:
        for bound in ("TURN", "SCALE", "SHIFT", "BEND"):
            alone.setattr(meta_train_encoder, bound, 0.0)
        alike = meta_train_encoder.distorted(images)
    assert torch.equal(alike, alike[:1].expand_as(alike)) and not torch.equal(alike, images)
    moved = meta_train_encoder.distorted(images)
    assert moved.shape == images.shape and 0 <= moved.min() and moved.max() <= 1 + 1e-6
    assert moved.mean() == pytest.approx(float(images.mean()), rel=0.6)
    assert (moved[0] - moved[1]).abs().max() > 0.5  # each in its own way
    marks = torch.zeros(n, 1, 28, 28)
    character = torch.arange(n) // meta_train_encoder.N_INSTANCES
    marks[torch.arange(n), 0, 0, character] = 1.0
    pairs = meta_train_encoder.paired(marks)[:, 0, 0]
    for i in (0, 10, n - 1):
        c = int(character[i])
        there = {c, (c - 1) % meta_train_encoder.N_CHARACTERS}
        assert set(pairs[i].nonzero().ravel().tolist()) == there


@pytest.mark.skipif(not (OMNIGLOT / "omniglot.npz").is_file(), reason="Omniglot is not here")
def test_an_image_encoder_is_trained_and_taken_by_the_few_shot_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.load(OMNIGLOT / "omniglot.npz") as file:
        split = file["split"]
        kept = (split == "valid") | (np.cumsum(split == "train") <= 150)  # all would take seconds
        np.savez("omniglot.npz", **{name: file[name][kept] for name in file})
    folder = str(tmp_path)
    small = ["--n-filters", "4", "--max-steps", "1", "--output", "encoder.safetensors"]
    meta_train_encoder.main(["--omniglot", folder, *small])
    found = load_learner("encoder.safetensors")
    assert 0.2 < found.card["validation"]["nearest of one drawing"]["valid_5_ways"] < 1
    few = ["omniglot_few_shot", "--omniglot", folder, "--encoder", "encoder.safetensors"]
    args = meta_train_few_shot.parse_arguments(few)
    learner, trained, stage, _ = meta_train_few_shot.drawings(args)
    assert learner.image_encoder == "residual"
    kept, given = learner.encoder.state_dict(), found.encoder.state_dict()
    assert all(torch.equal(kept[name], given[name]) for name in given)
    # The part behind the encoder is trained, on vectors.
    assert trained.backbone is learner.backbone and trained.inputs == "vectors"
    assert not any(p.requires_grad for p in learner.encoder.parameters())
    seen = stage.validation_source.draw(None)
    pixels = torch.from_numpy(stage.validation_source.source.dataset.X[:3]).float() / 255
    with torch.no_grad():
        expected = learner.encode(pixels)
    assert len(seen.X) == 145 * 20
    torch.testing.assert_close(torch.from_numpy(seen.X[:3]), expected, rtol=1e-3, atol=1e-3)


# Texts


def test_the_recipe_of_texts_leaves_out_what_it_must_not_read(tmp_path):
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    domains = ["movies", "products", "ipod", "norton", "movie sentences", "movies"]
    columns = {
        "domain": domains,
        "split": ["train"] * 5 + ["valid"],
        "label": [1, 0, 1, 0, 1, 0],
        "text": ["a b c d e", "too big", "so small", "no good", "never read", "not yet"],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "nltk_sentiment.parquet")
    tasks = meta_train_texts.read_tasks(tmp_path, "train", piece=2)
    found = {name: (X, y.tolist()) for name, (X, y) in tasks.items()}
    assert found == {
        "films": ([["a", "b"], ["c", "d"], ["e"]], [1, 1, 1]),
        "pros and cons": ([["too", "big"]], [0]),
        "products": ([["so", "small"], ["no", "good"]], [1, 0]),
    }


def test_words_of_like_context_have_like_vectors():
    rng = np.random.default_rng(0)
    groups = [["cat", "dog"], ["red", "blue"]]
    context = [["barks", "fur", "tail", "paw"], ["paint", "sky", "hue", "ink"]]
    texts = []
    for _ in range(400):
        g = rng.integers(2)
        texts.append([rng.choice(groups[g]), *rng.permutation(context[g])[:2]])
    words, vectors = meta_train_texts.word_vectors(texts, n_words=12, size=3, seed=0)
    assert len(words) == 12 and vectors.shape == (12, 3) and np.isfinite(vectors).all()
    unit = dict(zip(words, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), strict=True))
    assert unit["cat"] @ unit["dog"] > 0.8 > 0.3 > abs(unit["cat"] @ unit["red"])
