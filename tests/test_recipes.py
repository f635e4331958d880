"""The recipes of shipped weights: what they build is what cards say, and cards tell them whole."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import meta_train_few_shot
import meta_train_memory
import omniglot_splits
from test_omniglot import official  # noqa: F401

from sklearn_meta.weights import load_learner

OMNIGLOT = Path(
    os.environ.get("SKLEARN_META_OMNIGLOT") or Path(__file__).parents[1] / "../shared/data/omniglot"
)

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
    """The recipe on a card as arguments of its command."""
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
    card, script = load_learner(name).card, SCRIPTS[name]
    recipe = card["recipe"].get("FIRST", card["recipe"])  # before the curriculum of figure 4
    assert recipe["command"] == f"python benchmarks/{script.__name__}.py {name}"
    arguments = arguments_of(recipe, script, name)
    args = script.parse_arguments([*arguments, "--omniglot", str(OMNIGLOT)])
    built, expected = script.RECIPES[name](args)[0].config, card["config"]
    assert built == expected


def test_the_stretch_of_drawings_is_that_of_the_card():
    args = meta_train_few_shot.parse_arguments(["omniglot_few_shot", "--omniglot", "nowhere"])
    assert args.stretch == load_learner("omniglot_few_shot").card["recipe"]["stretch"]


def test_a_training_goes_on_from_weights_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks/meta_train_few_shot.py"])
    few = ["default_few_shot", "--max-steps", "2", "--batch-size", "2", "--log", "losses.csv"]
    meta_train_few_shot.main([*few, "--output", "first.safetensors"])
    meta_train_few_shot.main(
        [*few, "--begin", "first.safetensors", "--fast", "--output", "second.safetensors"]
    )
    first, second = (json.loads(Path(f"{n}.json").read_text()) for n in ("first", "second"))
    assert first["sha256"] != second["sha256"]
    assert second["recipe"]["begin"] == first["recipe"]
    assert (first["recipe"]["fast"], second["recipe"]["fast"]) == (False, True)
    assert str(tmp_path) not in str(second)
    folders = list(Path("checkpoints").iterdir())
    assert len(folders) == 2
    assert all(folder.name.startswith("default_few_shot-") for folder in folders)


def test_recipes_read_the_official_files_of_omniglot(official, monkeypatch):  # noqa: F811
    """As fetch_omniglot leaves them, which knows no split of ours."""
    monkeypatch.setattr(omniglot_splits, "N_VALID", 1)
    folder, _ = official
    args = meta_train_memory.parse_arguments(["omniglot_mann", "--omniglot", str(folder)])
    _, ((_, train, valid, _),), _ = meta_train_memory.RECIPES["omniglot_mann"](args)
    assert [*train.alphabets] == ["background_A"] * 2
    assert [*valid.alphabets] == ["background_B"]
