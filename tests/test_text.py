"""MetaLSTMClassifier and MetaLSTMTagger as a scikit-learn user meets them."""

import copy
import gzip
import pickle
import re
import tracemalloc
import unicodedata
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from skorch.callbacks import Callback

from sklearn_meta import MetaLSTMClassifier, MetaLSTMTagger
from sklearn_meta.backbones.text_sharing import TEXT_BACKBONES
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.tasks.spelling import N_FEATURES, N_NUMBERS, spelling, spellings
from sklearn_meta.tasks.texts import (
    MiniBatches,
    TextTask,
    TextTasks,
    tokens_of,
    vocabulary,
    word_numbers,
)
from sklearn_meta.tasks.word_vectors import read_word_vectors, with_vectors
from sklearn_meta.text import base as text_base
from sklearn_meta.text import classifier as text_classifier
from sklearn_meta.text.transfer import odds
from sklearn_meta.text_learner import TextLearner
from sklearn_meta.training import meta_train

GOOD, BAD = ["good", "fine", "warm", "bright"], ["bad", "dull", "cold", "dark"]
SMALL = {"embedding_size": 12, "width": 12, "meta_width": 6, "rank": 6, "dropout": 0.0}
QUICK = SMALL | {"max_epochs": 3, "learning_rate": 0.02, "min_df": 1}


def reviews(n, topic, seed=0):
    """Texts whose feeling is that of one word, unless "not" reverses it."""
    rng = np.random.default_rng(seed)
    texts, y = [], rng.integers(2, size=n)
    for label in y:
        turned = rng.random() < 0.3
        word = rng.choice(GOOD if label != turned else BAD)
        words = [topic] * rng.integers(1, 4) + (["not"] if turned else []) + [word]
        texts.append(" ".join(words + ["the"] * rng.integers(0, 3)))
    return texts, np.where(y, "yes", "no")


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = rng.choice(["O", "B-PER"], size=rng.integers(1, 6))
        X.append([str(rng.choice(["Ann", "Ben"] if t != "O" else ["sees", "a"])) for t in tags])
        y.append(tags.tolist())
    return X, y


def learn_two_tasks(**settings):
    tasks = {topic: reviews(160, topic) for topic in ("book", "film")}
    held_out = {topic: reviews(60, topic, 1) for topic in tasks}
    estimator = MetaLSTMClassifier(**QUICK, **settings, random_state=0)
    return estimator.meta_fit(
        tasks, validation_tasks=held_out, max_steps=200, eval_every=100, verbose=False
    )


@pytest.fixture(scope="module")
def learned():
    """An estimator that has learned what two tasks share."""
    return learn_two_tasks()


def test_tasks_are_learned_jointly(learned):
    for topic in ("book", "film"):
        X, y = reviews(100, topic, 2)
        estimator = learned.estimators_[topic]
        assert estimator.score(X, y) > 0.9
        assert estimator.classes_.tolist() == ["no", "yes"]
        assert estimator.get_params() == learned.get_params()
    assert min(learned.history_[:, "valid_loss"]) < 0.3


def test_a_new_task_leaves_what_is_shared_as_it_is(learned):
    X, y = reviews(40, "toy")
    before = [p.clone() for p in learned.learner_.parameters()]
    more = {"max_epochs": 10, "wide": False}
    estimator = clone(learned).set_params(**more).fit(X, y)
    assert all((a == b).all() for a, b in zip(before, learned.learner_.parameters()))
    shared = zip(estimator.module_.shared_parameters(), learned.learner_.shared_parameters())
    assert all((a == b).all() for a, b in shared)
    held_out = reviews(100, "toy", 5)
    alone = MetaLSTMClassifier(**QUICK | more, random_state=0).fit(X, y)
    assert estimator.score(*held_out) > alone.score(*held_out) + 0.2


def test_a_new_task_begins_as_the_nearest_of_the_same_labels(learned):
    X, y = reviews(40, "toy")
    held_out = reviews(100, "toy", 5)
    one_step = {"max_epochs": 1, "batch_size": 40, "learning_rate": 1e-9, "wide": False}
    begun = clone(learned).set_params(**one_step).fit(X, y)
    assert begun.begun_as_ in ("book", "film")
    known = learned.estimators_[begun.begun_as_]
    assert_allclose(begun.predict_proba(X), known._network_proba(X), atol=1e-5)
    assert begun.score(*held_out) > 0.7
    turned = np.where(y == "yes", "no", "yes")  # none of the tasks predicts these labels
    assert clone(learned).set_params(**one_step).fit(X, turned).begun_as_ is None
    other, another = (
        clone(learned).set_params(**one_step, random_state=seed).fit(X, y == "yes")
        for seed in (0, 1)
    )
    assert other.begun_as_ is None  # it begins with weights of the seed
    assert not np.allclose(other.predict_proba(X), another.predict_proba(X))
    rare = np.where(np.arange(40) % 8, "no", "yes")  # the commonest label alone is right more often
    assert clone(learned).set_params(**one_step).fit(X, rare).begun_as_ is None
    assert MetaLSTMClassifier(**QUICK | one_step).fit(X, y).begun_as_ is None


@given(
    n_right=st.integers(0, 12),
    n_wrong=st.integers(0, 12),
    chance=st.floats(0.2, 0.95),
)
def test_odds_of_a_task_are_those_of_its_right_labels(n_right, n_wrong, chance):
    """The odds are the mean likelihood ratio over all shares above chance."""
    n = n_right + n_wrong
    found = odds(n_right / max(n, 1), n, chance)
    shares = chance + (1 - chance) * (np.arange(20_000) + 0.5) / 20_000
    likelihoods = (shares / chance) ** n_right * ((1 - shares) / (1 - chance)) ** n_wrong
    assert found == pytest.approx(likelihoods.mean(), rel=1e-3)


def test_odds_of_very_many_words_are_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1e100 < odds(0.97, 100_000, 0.9) < np.inf
        assert odds(0.9, 100_000, 0.97) < 1e-100


def test_a_new_task_begins_as_none_that_few_labels_do_not_speak_for(learned):
    """Labels with the same names but another meaning are right half of the time or more."""
    X, y = reviews(10, "toy")
    one_step = {"max_epochs": 1, "batch_size": 40, "learning_rate": 1e-9, "wide": False}
    told = learned.estimators_["film"]._network_proba(X).argmax(1)
    for n_right, begins in ((6, False), (10, True)):
        labels = np.array(["no", "yes"])[np.where(np.arange(10) < n_right, told, 1 - told)]
        own = copy.deepcopy(learned.learner_)
        own.tasks = {"book": ["a", "b"], "film": ["no", "yes"]}
        estimator = MetaLSTMClassifier(own, **one_step).fit(X, labels)
        assert (estimator.begun_as_ == "film") is begins


def test_a_new_task_does_not_begin_as_one_that_tells_the_contrary(learned):
    own = copy.deepcopy(learned.learner_)
    for parameter in own.heads[0].parameters():
        parameter.neg_()
    estimator = MetaLSTMClassifier(own, max_epochs=1, batch_size=40, wide=False)
    assert estimator.fit(*reviews(40, "toy")).begun_as_ == "film"


def test_a_learner_that_is_given_stays_in_training(learned):
    own = copy.deepcopy(learned.learner_).train()
    estimator = MetaLSTMClassifier(own, max_epochs=1, batch_size=40, wide=False)
    assert estimator.fit(*reviews(40, "toy")).begun_as_ is not None  # it was asked to find this
    assert all(module.training for module in own.modules())


def test_which_task_is_nearest_is_told_without_dropout(learned):
    given = copy.deepcopy(learned.learner_).train()
    given.dropout.p = 0.99
    X, y = reviews(30, "book", 2)
    estimator = MetaLSTMClassifier(given, **QUICK, random_state=0).fit(X, y)
    assert estimator.begun_as_ == clone(learned).fit(X, y).begun_as_ is not None


def test_a_new_task_is_learned_from_few_texts():
    """Its words reverse each other, so the state after the last word is what tells."""
    estimator = learn_two_tasks(pooling="last", wide=False).set_params(max_epochs=10)
    assert estimator.fit(*reviews(40, "toy")).score(*reviews(100, "toy", 5)) > 0.85


def test_an_epoch_has_as_many_steps_as_all_texts_make():
    tasks = {topic: reviews(n, topic) for topic, n in (("book", 9), ("film", 6))}
    small = MetaLSTMClassifier(**QUICK | {"batch_size": 4, "wide": False})
    small.meta_fit(tasks, verbose=False).fit(*tasks["book"])
    counts = [sum(h[:, "train_batch_count"]) for h in (small.history_, small.fit_history_)]
    assert counts == [3 * 4, 3 * 3]


def test_fine_tuning_leaves_what_is_shared_as_it_is():
    tasks = {topic: reviews(40, topic) for topic in ("book", "film")}
    first, tuned = (
        MetaLSTMClassifier(**QUICK).meta_fit(tasks, max_steps=10, fine_tune_epochs=n, verbose=False)
        for n in (0, 2)
    )
    pairs = zip(first.learner_.shared_parameters(), tuned.learner_.shared_parameters())
    assert all((a == b).all() for a, b in pairs)
    X, _ = tasks["book"]
    probabilities = (e.estimators_["book"].predict_proba(X) for e in (first, tuned))
    assert not np.allclose(*probabilities)


def test_fine_tuning_reads_each_tasks_own_texts(monkeypatch):
    """Batches have the given size, and are drawn with the given seed."""
    seen = []

    def note(learner, source, batches, *, max_steps, random_state, **settings):
        seen.append((len(source.tasks), batches.batch_size, max_steps, random_state))
        settings |= {"max_steps": max_steps, "random_state": random_state}
        return meta_train(learner, source, batches, **settings)

    monkeypatch.setattr(text_base, "meta_train", note)
    tasks = {topic: reviews(n, topic) for topic, n in (("book", 9), ("film", 6))}
    small = MetaLSTMClassifier(**QUICK | {"batch_size": 4, "wide": False, "random_state": 7})
    # Without validation, patience has nothing to count.
    small.meta_fit(tasks, max_steps=2, fine_tune_epochs=2, patience=1, verbose=False)
    assert seen == [(2, 4, 2, 7), (1, 4, 6, 7), (1, 4, 4, 7)]


def test_what_has_been_learned_before_is_trained_at_a_lower_rate(learned, monkeypatch):
    """As documented: half of the rate if fit begins as another task, a tenth in fine-tuning."""
    rates = []

    def note(*args, learning_rate, **settings):
        rates.append(learning_rate)
        return meta_train(*args, learning_rate=learning_rate, **settings)

    monkeypatch.setattr(text_base, "meta_train", note)
    X, y = reviews(40, "toy")
    once = clone(learned).set_params(max_epochs=1, learning_rate=0.01, wide=False)
    assert once.fit(X, y).begun_as_ is not None
    assert once.fit(X, y == "yes").begun_as_ is None
    once.set_params(backbone="lstm").fit(X, y)
    once.meta_fit({"toy": (X, y)}, fine_tune_epochs=1, verbose=False)
    assert_allclose(rates, [0.005, 0.01, 0.01, 0.01, 0.001])


def test_predictions_do_not_depend_on_each_other(learned):
    X, _ = reviews(20, "book", 3)
    estimator = learned.estimators_["book"]
    found = estimator.predict_proba(X)
    assert_allclose(found.sum(1), 1)
    assert_allclose(estimator.predict_proba(X[::-1])[::-1], found, atol=1e-6)
    alone = [estimator.predict_proba([text]) for text in X]
    assert_allclose(np.concatenate(alone), found, atol=1e-6)
    assert_allclose(estimator.predict_proba([text.split() for text in X]), found, atol=1e-6)
    assert estimator.transform(X).shape == (20, 12)
    vectors = np.concatenate([estimator.transform([text]) for text in X])
    assert_allclose(vectors, estimator.transform(X), atol=1e-6)


@pytest.mark.parametrize("method", ["_network_proba", "transform", "generated_weights"])
def test_each_task_has_answers_of_its_own(learned, method):
    book, film = (getattr(learned.estimators_[name], method) for name in ("book", "film"))
    assert not np.allclose(book(["good"]), film(["good"]))


def test_taggers_begin_to_forget_sooner():
    tagger, classifier = MetaLSTMTagger(**QUICK), MetaLSTMClassifier(**QUICK)
    kept = [
        e.fit(*data).module_.config["backbone_config"]["forget_bias"]
        for e, data in ((tagger, sentences(20)), (classifier, reviews(20, "book")))
    ]
    assert kept == [0.0, 2.0]
    MetaLSTMTagger("lstm", **QUICK).fit(*sentences(20))  # has no such bias


@pytest.mark.parametrize("backbone", ["meta_lstm", "ssp_mtl"])
def test_what_generates_a_tagger_learns_at_a_lower_rate(backbone):
    class Begin(Callback):
        def on_train_begin(self, net, **kwargs):
            self.weights = {n: p.detach().clone() for n, p in net.module_.named_parameters()}

    begin, moved = Begin(), {}
    tagger = MetaLSTMTagger(backbone, **QUICK)
    # Tasks are drawn; two of the twelve have numbers of two digits.
    tasks = {f"task {i}": sentences(4, i) for i in range(12)}
    for seed in range(3):
        tagger.set_params(random_state=seed)
        tagger.meta_fit(tasks, max_steps=1, callbacks=[begin], verbose=False)
        for name, parameter in tagger.learner_.named_parameters():
            # The first step of AdamW has the size of the rate, whatever the gradient.
            distance = (parameter - begin.weights[name]).abs().max() / tagger.learning_rate
            moved[name] = max(moved.get(name, 0.0), float(distance))
    factors = {r"backbones\.\d\.shared\..*": 0.3, r"backbones\.\d\.private\.\d+\.weight": 0.1}
    moved = {name: distance for name, distance in moved.items() if distance > 0.01}
    assert any("private.1" in name for name in moved)
    for name, distance in moved.items():
        found = [factor for pattern, factor in factors.items() if re.fullmatch(pattern, name)]
        expected = (*found, 1.0)[0] if backbone == "meta_lstm" else 1.0
        assert distance == pytest.approx(expected, rel=0.02), name


def test_texts_of_nothing_known_and_of_nothing(learned):
    estimator = learned.estimators_["book"]
    odd = ["", "   ", "zebra quagga", [], ["zebra"]]
    found = estimator.predict_proba(odd)
    assert np.isfinite(found).all()
    assert_allclose(found[[0, 1, 3, 4]], found[[0] * 4], atol=1e-6)  # they hold one unknown word


def test_a_long_text_is_cut(learned):
    estimator = learned.estimators_["book"]
    start = "zebra " * 100_000  # a word that no task knows
    longer = [start + end for end in ("book good", "book bad")]
    good, bad, cut = estimator._network_proba([*longer, "zebra " * estimator.max_length])
    assert_allclose([good, bad], [cut, cut], atol=1e-6)
    good, bad = estimator.predict_proba(longer)[:, 1]  # the linear models read all of it
    assert good > bad + 0.3


def test_clones_pickles_and_saved_weights(learned, tmp_path):
    X, y = reviews(30, "toy")
    estimator = clone(learned).fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))
    path = learned.save_pretrained(tmp_path / "weights", data="made up")
    loaded = MetaLSTMClassifier(path, **QUICK, random_state=0).fit(X, y)
    assert_allclose(loaded.predict_proba(X), estimator.predict_proba(X), atol=1e-5)


def test_same_seed_same_network():
    X, y = reviews(30, "toy")
    first, second, other = (
        MetaLSTMClassifier(**QUICK | {"dropout": 0.5}, random_state=seed).fit(X, y).predict_proba(X)
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, second)
    assert not np.allclose(first, other)


def test_a_seed_may_be_drawn_from_an_instance():
    X, y = reviews(30, "toy")
    first, second = (
        MetaLSTMClassifier(**QUICK, random_state=np.random.RandomState(0)).fit(X, y)
        for _ in range(2)
    )
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert not np.allclose(first.predict_proba(X), second.fit(X, y).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("backbone, n", [("lstm", 8), ("asp_mtl", 16)])
def test_document_vectors_have_names(backbone, n):
    X, y = reviews(30, "toy")
    table = pd.DataFrame({"text": X, "length": [len(text) for text in X]})
    columns = ColumnTransformer(
        [("read", MetaLSTMClassifier(backbone, **QUICK | {"width": 8}), "text")],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    vectors = columns.fit(table, y).transform(table)
    assert [*vectors] == [f"metalstmclassifier{i}" for i in range(n)] + ["length"]
    assert [*columns.get_feature_names_out()] == [*vectors]


def test_pipelines_and_searches(learned):
    X, y = reviews(60, "toy")
    assert cross_val_score(learned, X, y, cv=3, error_score="raise").mean() > 0.7
    pipeline = make_pipeline(learned.estimators_["book"], LogisticRegression())
    assert pipeline.fit(X, y).score(X, y) > 0.7  # document vectors
    search = GridSearchCV(clone(learned), {"max_epochs": [1, 2]}, cv=2).fit(np.array(X), y)
    assert search.best_params_["max_epochs"] in (1, 2)


@pytest.mark.parametrize("backbone", TEXT_BACKBONES)
def test_rivals_learn_too(backbone):
    tasks = {topic: reviews(160, topic) for topic in ("book", "film")}
    quick = QUICK | {"learning_rate": 0.04, "wide": False}
    estimator = MetaLSTMClassifier(backbone, **quick, random_state=0)
    estimator.meta_fit(tasks, max_steps=100, verbose=False)
    assert estimator.estimators_["film"].score(*reviews(60, "film", 1)) > 0.75


def test_a_killed_run_goes_on(tmp_path):
    tasks = {topic: reviews(40, topic) for topic in ("book", "film")}
    settings = {"eval_every": 10, "verbose": False}
    parameters = QUICK | {"dropout": 0.5, "random_state": 0}
    whole = MetaLSTMClassifier(**parameters).meta_fit(tasks, max_steps=20, **settings)

    class Killed(KeyboardInterrupt):
        pass

    from skorch.callbacks import Callback

    class Kill(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 2:
                raise Killed

    with pytest.warns(UserWarning, match="An interrupt or a callback ended"):
        MetaLSTMClassifier(**parameters).meta_fit(
            tasks, max_steps=20, checkpoint_dir=tmp_path, callbacks=[Kill()], **settings
        )
    resumed = MetaLSTMClassifier(**parameters).meta_fit(
        tasks, max_steps=20, checkpoint_dir=tmp_path, **settings
    )
    pairs = zip(whole.learner_.parameters(), resumed.learner_.parameters())
    assert all((a == b).all() for a, b in pairs)


def test_a_checkpoint_of_other_tasks_is_refused(tmp_path):
    X, y = reviews(40, "book")
    settings = {"max_steps": 10, "checkpoint_dir": tmp_path, "verbose": False}
    MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y)}, **settings)
    for other in ({"tasks": {"a": (X, y[::-1])}}, {"rate": 0.5}):
        estimator = MetaLSTMClassifier(**QUICK | {"learning_rate": other.get("rate", 0.02)})
        with pytest.raises(ValueError, match="belongs to a run with other settings"):
            estimator.meta_fit(other.get("tasks", {"a": (X, y)}), **settings)


def test_meta_fit_forgets_an_earlier_fit():
    X, y = reviews(20, "toy")
    estimator = MetaLSTMClassifier(**QUICK | {"max_epochs": 1}).fit(X, y)
    estimator.meta_fit({"a": (X, np.where(y == "yes", 1, 0))}, max_steps=2, verbose=False)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    assert estimator.estimators_["a"].classes_.tolist() == [0, 1]


def test_weights_know_whether_words_are_in_lower_case(tmp_path):
    X, y = reviews(40, "Book")
    X = [text.upper() for text in X]
    estimator = MetaLSTMClassifier(**QUICK, lowercase=False)
    estimator.meta_fit({"a": (X, y)}, max_steps=5, verbose=False)
    path = estimator.save_pretrained(tmp_path / "weights")
    loaded = MetaLSTMClassifier(path, **QUICK).fit(X, y)
    for tell in (loaded.predict_proba, loaded._network_proba):
        assert not np.allclose(tell(["GOOD"]), tell(["good"]))
    assert loaded.words_of("GOOD") == ["GOOD"]
    assert loaded.set_params(dropout=0.3).fit(X, y).module_.dropout.p == 0.3


def test_changes_of_the_generated_weights(learned):
    pytest.importorskip("matplotlib").use("Agg")
    from sklearn_meta.inspection import MetaChangeDisplay

    estimator = learned.estimators_["book"]
    display = MetaChangeDisplay.from_estimator(estimator, "book not good", label="yes")
    assert display.words == ["book", "not", "good"]
    W = estimator.generated_weights("book not good")
    assert W.shape == (3, 4, 12, 24)
    expected = np.mean(np.abs(W[2, 1] - W[1, 1]) / np.abs(W[1, 1]))  # Eq. (23), output gate
    assert_allclose(display.changes[1, 2], expected, rtol=1e-6)
    assert np.isnan(display.changes[:, 0]).all()
    assert_allclose(display.image_.get_array()[:, 1:], np.log(display.changes[:, 1:]))
    odds = np.exp(display.log_odds)
    beginnings = ["book", "book not", "book not good"]
    assert_allclose(odds / (1 + odds), estimator._network_proba(beginnings)[:, 1], atol=1e-5)
    above, below = display.ax_
    assert below.get_ylabel() == "log-odds of 'yes'"
    assert [text.get_text() for text in below.get_xticklabels()] == ["book", "not", "good"]
    assert above.get_xlim() == below.get_xlim()  # each gate is above its word
    gates = [text.get_text() for text in above.get_yticklabels()]
    assert gates == ["new input", "output gate", "input gate", "forget gate"]  # as in Eq. (13)
    with pytest.raises(ValueError, match="label='maybe' is not one of"):
        MetaChangeDisplay.from_estimator(estimator, "book", label="maybe")
    with np.errstate(divide="raise"):  # a settled text ends without changes
        settled = MetaChangeDisplay.from_estimator(estimator, "book " * 400)
    assert np.isfinite(settled.image_.get_array()[:, 1:]).all()
    with pytest.raises(TypeError, match="must be a MetaLSTMClassifier"):
        MetaChangeDisplay.from_estimator(LogisticRegression(), "book")
    plain = MetaLSTMClassifier("lstm", **QUICK).fit(*reviews(10, "toy"))
    with pytest.raises(ValueError, match="Only a network of backbone='meta_lstm'"):
        MetaChangeDisplay.from_estimator(plain, "book")


# Word vectors and vocabulary


def test_word_vectors_of_both_formats(tmp_path):
    words, vectors = ["bad", "good"], np.array([[1.0, 2, 3], [4, 5, 6]], dtype=np.float32)
    (tmp_path / "glove.txt").write_text("bad 1 2 3\ngood 4 5 6\n")
    (tmp_path / "word2vec.txt").write_text("2 3\nbad 1 2 3\ngood 4 5 6\n")
    (tmp_path / "nameless.txt").write_text("3 3\nbad 1 2 3\n 7 8 9\ngood 4 5 6\n")
    np.savez(tmp_path / "vectors.npz", words=words, vectors=vectors)
    for name in ("glove.txt", "word2vec.txt", "nameless.txt", "vectors.npz"):
        found = read_word_vectors(tmp_path / name)
        assert found[0] == words
        assert_array_equal(found[1], vectors)
    (tmp_path / "raised.txt").write_text(
        "² 1\nbad 2\n", "utf-8"
    )  # a word, though str.isdigit is true
    assert read_word_vectors(tmp_path / "raised.txt")[0] == ["²", "bad"]
    X, y = reviews(30, "toy")
    estimator = MetaLSTMClassifier(
        word_vectors=tmp_path / "glove.txt", **QUICK | {"max_epochs": 1, "learning_rate": 1e-9}
    ).fit(X, y)
    learned = estimator.module_.embedding.weight.numpy()
    place = {word: i for i, word in enumerate(estimator.module_.words, 1)}
    assert learned.shape[1] == 3
    assert_allclose(learned[0], 0, atol=1e-6)  # nothing is known of other words
    ratio = learned[[place["bad"], place["good"]]] / vectors
    assert_allclose(ratio, ratio[0, 0], rtol=1e-4)  # a common scale


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bad 1 2\ngood 1\n", "line 2: expected 2 numbers as before, got 1"),
        ("bad 1 2\ngood 1 2 3\n", "line 2: expected a word and 2 numbers"),
        ("bad x 1\n", "line 1: expected a word and 2 numbers"),
        ("bad\t1\t2\ngood\t1\t2\n", "line 1: expected a word and its numbers, separated by blanks"),
        ("bad\ngood\n", "line 1: expected a word and its numbers"),
        ("bad 1 2\ngood 1 nan\n", "vector of 'good' holds NaN, or a number too large"),
        ("bad 1 2\ngood 1 1e39\n", "vector of 'good' .* too large for float32"),
        ("3 2\nbad 1 2\ngood 1 2\n", "announces 3 words with 2 numbers each but holds 2 with 2"),
        ("2 9\nbad 1 2\ngood 1 2\n", "announces 2 words with 9 numbers"),
        ("", "got 0 words and vectors of"),
    ],
)
def test_bad_word_vectors(tmp_path, text, message):
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_word_vectors(file)
    file.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ValueError, match="is compressed: unpack it"):
        read_word_vectors(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("vectors.txt", text)
    with pytest.raises(ValueError, match="is compressed: unpack it"):
        read_word_vectors(file)
    numbers = np.linspace(-1, 1, 600, dtype="<f4").reshape(3, 200)  # word2vec's .bin
    words = [
        b"%s %s\n" % (word, row.tobytes())
        for word, row in zip((b"a", b"b", b"c"), numbers, strict=True)
    ]
    file.write_bytes(b"3 200\n" + b"".join(words))
    with pytest.raises(ValueError, match="not a text in UTF-8: save binary vectors as text"):
        read_word_vectors(file)
    with pytest.raises(
        FileNotFoundError, match="There is no file .*: give the path of word vectors"
    ):
        read_word_vectors(tmp_path / "nothing")


def test_words_with_blanks_and_lines_with_none(tmp_path):
    file = tmp_path / "glove.txt"
    file.write_text("good 1 2 3\n. . . 3 2 1\nat name@domain.com 1 1 1\n\ntwo  4 5 6\n\n")
    words, vectors = read_word_vectors(file)
    assert words == ["good", ". . .", "at name@domain.com", "two"]
    assert_array_equal(vectors, [[1, 2, 3], [3, 2, 1], [1, 1, 1], [4, 5, 6]])
    file.write_bytes(b"\xef\xbb\xbf2 3\r\ngood 1 2 3 \r\n 4 4 4\r\nbad 3 2 1 \r\n")
    assert read_word_vectors(file)[0] == ["good", "bad"]  # fastText, a mark, and no word
    file.write_text("good 1\nbad 2\n")  # the first line is not a count
    assert read_word_vectors(file)[0] == ["good", "bad"]


def test_arrays_of_word_vectors(tmp_path):
    file = tmp_path / "vectors.npz"
    np.savez(file, words=np.array(["bad", "schön"]).astype("U"), vectors=np.eye(2))
    assert read_word_vectors(file)[0] == ["bad", "schön"]
    np.savez(file, words=np.array([b"bad", "schön".encode()]), vectors=np.eye(2))
    assert read_word_vectors(file)[0] == ["bad", "schön"]
    np.savez(file, words=np.array([b"bad", "schön".encode("latin-1")]), vectors=np.eye(2))
    assert read_word_vectors(file)[0] == ["bad", "sch\ufffdn"]  # as in a text
    for numbers in (np.eye(2) * 1j, np.eye(2).astype("S")):
        np.savez(file, words=["bad", "good"], vectors=numbers)
        with pytest.raises(ValueError, match="vectors.npz must have vectors of real numbers, got"):
            read_word_vectors(file)
    for arrays in (
        {"words": ["bad"]},
        {"words": [["bad"]], "vectors": np.eye(1)},
        {"words": np.array(["bad"], dtype=object), "vectors": np.eye(1)},
        {"words": [1], "vectors": np.eye(1)},
    ):
        np.savez(file, **arrays)
        with pytest.raises(ValueError, match="vectors.npz(: words must be| must hold the arrays)"):
            read_word_vectors(file)
    np.save(tmp_path / "one.npy", np.eye(2))
    for content in (b"", b"no archive", (tmp_path / "one.npy").read_bytes()):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="must hold the arrays words, of strings"):
            read_word_vectors(file)


@pytest.mark.parametrize(
    "given",
    [
        {"a": [1.0]},
        5,
        (["a"],),
        (None, None),
        (["a"], None),
        (["a"], [[np.nan]]),
        (["a"], [["b"]]),
        ({"a"}, [[1.0]]),
    ],
)
def test_word_vectors_that_are_none(given):
    X, y = reviews(30, "toy")
    with pytest.raises(ValueError, match="Word vectors|word_vectors|could not convert"):
        MetaLSTMClassifier(word_vectors=given, **QUICK).fit(X, y)


def test_word_vectors_of_bytes_and_of_other_words():
    as_text = with_vectors(["a", "b"], (["b"], [[1.0, 2.0]]))
    as_bytes = with_vectors(["a", "b"], (np.array(["b"], "S"), [[1.0, 2.0]]))
    assert_array_equal(as_bytes[1], as_text[1])
    with pytest.warns(UserWarning, match="No word of the texts has a vector"):
        with_vectors(["a", "b"], (["B", "C"], np.eye(2)))


@pytest.mark.parametrize("words", [map(str.lower, ["Good"]), iter(["good"]), (w for w in "ab")])
def test_words_that_can_be_read_only_once_are_refused(learned, words):
    with pytest.raises(ValueError, match="Text 1 is of type .*give a str, or a list of words"):
        learned.estimators_["book"].predict([["good"], words])


@pytest.mark.parametrize("name", [1, None, ("book",), np.int64(1)])
def test_names_of_tasks_are_text(name):
    with pytest.raises(ValueError, match=r"tasks must be a dict from name \(str\)"):
        MetaLSTMClassifier(**QUICK).meta_fit({"film": reviews(9, "film"), name: reviews(9, "toy")})


@pytest.mark.filterwarnings("ignore:No word of the texts has a vector")
@pytest.mark.parametrize("scale", [1e-3, 50.0])
def test_words_without_a_vector_are_of_the_others_size(scale):
    vectors = scale * np.random.default_rng(0).normal(size=(40, 50))
    known = [f"known{i}" for i in range(40)]
    words, found = with_vectors([f"new{i}" for i in range(40)] + known[:1], (known, vectors))
    assert_allclose([found[:40].std(), found[40].std()], 0.3, rtol=0.3)


def test_vectors_are_found_of_words_with_accents_of_their_own():
    """Also letters without another form, as in Hindi: both match texts."""
    words = [unicodedata.normalize("NFD", "schön"), "\u0958लम"]
    (texts,) = tokens_of([words])
    assert texts != words
    found = with_vectors(texts, (words, np.eye(2)), max_words=9)
    assert found[0] == texts
    assert_allclose(found[1], 0.6 * np.eye(2))


def test_words_that_have_a_vector_are_known():
    """They follow the words of the texts in the order of the file, as many as there is room for."""
    vectors = np.arange(8.0).reshape(4, 2)
    given = (["The", "b", "c", "a"], vectors)
    words, found = with_vectors(["a", "z"], given, max_words=9)
    assert words == ["a", "z", "b", "c"]
    assert_allclose(found[[0, 2, 3]], vectors[[3, 1, 2]] * 0.3 / vectors.std(), rtol=1e-6)
    assert np.abs(found[1]).max() > 0
    assert with_vectors(["a", "z"], given, max_words=9, lowercase=False)[0] == [
        "a",
        "z",
        "The",
        "b",
        "c",
    ]
    assert with_vectors(["a", "z"], given, max_words=3)[0] == ["a", "z", "b"]
    assert with_vectors(["a", "z"], given)[0] == ["a", "z"]
    gap = np.array(["a", np.nan], dtype=object)
    assert with_vectors(["a"], (gap, np.eye(2)), max_words=9)[0] == ["a"]
    X, y = reviews(30, "toy")
    others = (["splendid", "awful"], [[1.0, 2], [3, 4]])
    estimator = MetaLSTMClassifier(word_vectors=others, **QUICK | {"max_epochs": 1})
    with pytest.warns(UserWarning, match="No word of the texts has a vector"):
        estimator.fit(X, y)
    assert estimator.module_.words[-2:] == ["splendid", "awful"]
    others = (["Splendid", "toy"], [[1.0, 2], [3, 4]])
    estimator.set_params(word_vectors=others, lowercase=False)
    assert estimator.fit(X, y).module_.words[-1] == "Splendid"
    same = with_vectors(["a", "c"], (["a", "b"], np.ones((2, 2))))[1]
    assert_array_equal(same, [[1, 1], [0, 0]])
    large = with_vectors(["a", "c"], (["a", "b"], np.eye(2) * 1e30))[1]
    assert_allclose(large, with_vectors(["a", "c"], (["a", "b"], np.eye(2)))[1], rtol=1e-5)
    with pytest.raises(ValueError, match="got 2 words and vectors of shape"):
        with_vectors(["a"], (["a", "b"], [[1.0, 2]]))


@pytest.mark.parametrize("kind", [MetaLSTMClassifier, MetaLSTMTagger])
def test_vectors_of_words_that_no_text_has_are_not_trained(kind, monkeypatch):
    """They keep their vectors, and the others learn the same as if all were trained."""
    X, y = reviews(40, "toy") if kind is MetaLSTMClassifier else sentences(40)
    held_out = (["a fine toy, truly"], ["yes"]) if kind is MetaLSTMClassifier else sentences(5, 1)
    known = ["splendid", "toy", "not", "good", "ann", "sees", "truly", "awful"]
    vectors = (known, np.random.default_rng(0).normal(size=(8, 12)))
    steps = {"max_steps": 20, "eval_every": 10, "verbose": False}

    def learn():
        estimator = kind(word_vectors=vectors, random_state=0, **QUICK)
        return estimator.meta_fit({"a": (X, y)}, validation_tasks={"a": held_out}, **steps)

    learner = learn().learner_
    words = vocabulary(tokens_of(X))
    words, begun = with_vectors(words, vectors, max_words=25_000)
    assert learner.words == words
    moved = dict(zip(words, (learner.embedding.weight[1:].numpy() != begun).any(1)))
    read = {word for text in tokens_of(X) for word in text}
    assert all(moved[word] for word in read)
    assert not any(moved[word] for word in words if word not in {*read, "truly"})
    everything = np.arange(1 + len(words))
    monkeypatch.setattr(text_base, "used_words", lambda *tasks: everything)
    for (name, one), other in zip(learner.named_parameters(), learn().learner_.parameters()):
        assert_allclose(one, other, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("backbone", ["meta_lstm", "hyper_lstm"])
def test_sizes_reach_the_network(backbone):
    sizes = {"width": 5, "meta_width": 3, "rank": 2, "pooling": "last"}
    settings = QUICK | sizes | {"max_epochs": 1, "max_words": 4, "max_length": 9}
    estimator = MetaLSTMClassifier(backbone, **settings)
    assert settings.items() <= estimator.get_params().items()
    learner = estimator.fit(*reviews(30, "toy")).module_
    assert sizes.items() <= learner.config["backbone_config"].items()
    assert len(learner.words) == 4 and learner.n_inputs == 12


def test_words_and_their_numbers():
    assert tokens_of(["It's NOT good, at all."]) == [["it's", "not", "good", ",", "at", "all", "."]]
    assert tokens_of([["It", "'s"]], lowercase=False) == [["It", "'s"]]
    typed, printed = tokens_of(["don't 'go' é", "don’t ‘go’ é"])
    assert typed == ["don't", "'", "go", "'", "é"]
    assert printed == ["don't", "‘", "go", "'", "é"]
    # Vowel signs and combining accents do not separate words.
    hindi, french = "हिन्दी भाषा", "café à la"
    assert tokens_of([hindi]) == [hindi.split()]
    assert tokens_of([unicodedata.normalize("NFD", french)]) == [french.split()]
    cut = unicodedata.normalize("NFD", french).split()
    assert tokens_of([cut], lowercase=False) == [french.split()]
    assert tokens_of(["\u2764\ufe0fgood"]) == [["\u2764\ufe0f", "good"]]  # a heart, in red
    tokens = [["a", "b"], ["a", "c", "c"], ["a", "c"]]
    assert vocabulary(tokens) == ["a", "b", "c"]
    assert vocabulary(tokens, min_df=2) == ["a", "c"]
    assert vocabulary(tokens, max_words=1) == ["a"] or vocabulary(tokens, max_words=1) == ["c"]
    assert vocabulary([[]]) == []
    numbers = word_numbers([["c", "z", "a"], []], ["a", "c"], max_length=2)
    assert [n.tolist() for n in numbers] == [[2, 0], [0]]


def test_mini_batches_are_of_texts_of_like_length():
    rng = np.random.default_rng(0)
    texts = [np.ones(n, dtype=np.int64) for n in rng.integers(1, 200, size=300)]
    task = TextTask("a", texts, [np.int64(0)] * 300, 0)
    batches = [MiniBatches(16).draw(task, rng) for _ in range(30)]
    lengths = [np.array([len(t) for t in batch.texts]) for batch in batches]
    assert np.mean([n.sum() / (n.max() * len(n)) for n in lengths]) > 0.8  # are words
    assert max(n.max() for n in lengths) > 180 and min(n.min() for n in lengths) < 20
    odd = task._replace(texts=texts[:17], targets=[np.int64(0)] * 17)
    weight = dict.fromkeys(map(len, odd.texts), 0.0)
    for _ in range(300):
        drawn = MiniBatches(16).draw(odd, rng).texts
        for text in drawn:
            weight[len(text)] += 1 / len(drawn)
    assert max(weight.values()) < 3 * min(weight.values())
    few = MiniBatches(16).draw(task._replace(texts=texts[:5], targets=[np.int64(0)] * 5), rng)
    assert len(few.texts) == 5


# The tagger


def test_tagger_learns_scores_and_transfers():
    X, y = sentences(80)
    tagger = MetaLSTMTagger(**QUICK, random_state=0).meta_fit(
        {"names": (X, y), "copies": (X, [["X" if t == "O" else "Y" for t in tags] for tags in y])},
        max_steps=50,
        verbose=False,
    )
    new = sentences(30, 1)
    assert tagger.estimators_["names"].score(*new) > 0.99  # F1 of spans
    found = tagger.estimators_["copies"].predict(new[0])
    assert [len(tags) for tags in found] == [len(words) for words in new[0]]
    own = clone(tagger).set_params(max_epochs=8)
    assert own.fit(X[:40], y[:40]).score(*new) > 0.9
    assert own.begun_as_ == "names"


def test_tagger_scores_are_seqevals_or_of_words():
    X, y = [["Ann", "Lee", "sees"], ["Ben"]], [["B-PER", "I-PER", "O"], ["B-PER"]]
    tagger = MetaLSTMTagger(**QUICK).fit(X * 4, y * 4)
    tagger.predict = lambda X: [["B-PER", "O", "O"], ["B-PER"]]
    assert tagger.score(X, y) == 0.5  # one of two spans, and one wrong
    none = [["O", "O", "O"], ["O"]]
    tagger.predict = lambda X: none
    assert tagger.score(X, none) == 1.0
    tagger.classes_ = np.array(["NN", "VB"])
    tagger.predict = lambda X: [["NN", "NN", "VB"], ["NN"]]
    assert tagger.score(X, [["NN", "VB", "VB"], ["NN"]]) == 0.75
    with pytest.raises(ValueError, match="all numbers, as in fit, such as 'NN'"):
        tagger.score(X, [[0, 1, 1], [0]])


def test_sentences_of_no_words_teach_nothing():
    X, y = sentences(30)
    plain, more = (
        MetaLSTMTagger(**QUICK).fit(X + [[]] * n, y + [[]] * n).module_.parameters()
        for n in (0, 16)
    )
    assert all(map(torch.equal, plain, more))


def test_a_batch_size_may_be_numpys(recwarn):
    of_numpy, plain = (
        MetaLSTMClassifier(
            width=4, embedding_size=4, max_epochs=1, min_df=1, batch_size=size, random_state=0
        )
        .fit(["good", "bad"] * 80, [0, 1] * 80)
        .predict_proba(["good", "bad"] * 150)
        for size in (np.int8(100), 100)
    )
    np.testing.assert_array_equal(of_numpy, plain)
    assert not [warning for warning in recwarn if "overflow" in str(warning.message)]


def test_classes_may_be_hashes():
    y = np.array([3, 2**63 + 5, 2**63 + 6] * 2, dtype=np.uint64)
    model = MetaLSTMClassifier(width=4, embedding_size=4, max_epochs=1, min_df=1)
    found = model.fit(list("abcabc"), y)
    assert found.classes_.tolist() == sorted(set(y.tolist()))
    assert found.predict(["a"])[0] in y


@pytest.mark.parametrize("kind", [int, np.int64])
def test_tagger_answers_in_integers_if_it_is_given_some(kind):
    sentences = [["Anna", "sleeps"], ["dogs", "see", "Anna"]] * 8
    labels = [[kind(7), kind(0)], [kind(0), kind(0), kind(7)]] * 8
    tagger = MetaLSTMTagger(width=8, dropout=0.0, learning_rate=0.02, max_epochs=10, max_length=2)
    told = tagger.fit(sentences, labels).predict([["Anna", "sleeps"], ["see", "Anna", "run"]])
    assert told == [[7, 0], [0, 7, 0]] and type(told[0][0]) is int
    assert tagger.classes_.tolist() == [0, 7]
    assert tagger.score(sentences[:1], labels[:1]) == 1.0
    if kind is int:  # beyond either end of numpy's integer types
        large = [[2**63 + 1, -5]] * 4
        told = tagger.set_params(max_epochs=1).fit([["a", "b"]] * 4, large).predict([["a", "b"]])
        assert {type(label) for label in told[0]} == {int} and set(told[0]) <= set(large[0])
    with pytest.raises(ValueError, match="Labels must be all str or all int, got int and str"):
        tagger.fit(sentences[:2], [["O", 1], ["O", "O", "O"]])


def test_interrupted_joint_training_is_not_fine_tuned():
    class Interrupt(Callback):
        def on_epoch_end(self, net, **kwargs):
            raise KeyboardInterrupt

    X, y = sentences(30)
    ways = {"max_steps": 20, "eval_every": 10, "fine_tune_epochs": 1, "verbose": False}
    whole, not_tuned, ended = (MetaLSTMTagger(**QUICK, random_state=0) for _ in range(3))
    with pytest.warns(
        UserWarning, match="interrupt or a callback ended meta-training after 1 of 2"
    ):
        ended.meta_fit({"names": (X, y)}, **ways, callbacks=[Interrupt()])
    with pytest.warns(UserWarning, match="after 1 of 2"):
        not_tuned.meta_fit(
            {"names": (X, y)}, **ways | {"fine_tune_epochs": 0}, callbacks=[Interrupt()]
        )
    whole.meta_fit({"names": (X, y)}, **ways)

    def head(tagger):
        return tagger.learner_.heads[0].output.weight

    assert torch.equal(head(ended), head(not_tuned)) and not torch.equal(head(ended), head(whole))


def test_the_last_weights_are_kept_unless_there_is_patience():
    X, y = reviews(20, "toy")
    worse = {"toy": (X, np.where(y == "yes", "no", "yes"))}  # training makes it worse
    ways = {"max_steps": 15, "eval_every": 5, "verbose": False}
    plain, last, best = (
        MetaLSTMClassifier(**QUICK, wide=False).meta_fit({"toy": (X, y)}, **ways | more)
        for more in ({}, {"validation_tasks": worse}, {"validation_tasks": worse, "patience": 9})
    )
    weights = [e.learner_.heads[0].output.weight for e in (plain, last, best)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    impatient = ways | {"max_steps": 25, "validation_tasks": worse, "patience": 1}
    ended, tuned = (
        MetaLSTMClassifier(**QUICK, wide=False).meta_fit(
            {"toy": (X, y)}, fine_tune_epochs=n, **impatient
        )
        for n in (0, 1)
    )
    assert len(ended.history_) == len(tuned.history_) < 5
    weights = [e.learner_.heads[0].output.weight for e in (ended, tuned)]
    assert not torch.equal(*weights)  # patience ended the run, then came fine-tuning


def test_a_meta_fit_that_is_interrupted_leaves_the_one_before(monkeypatch):
    estimator = MetaLSTMClassifier(**QUICK)
    tasks = {topic: reviews(20, topic) for topic in ("book", "film")}
    estimator.meta_fit(tasks, max_steps=2, verbose=False)
    before = dict(vars(estimator))

    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    def interrupted_fine_tuning(learner, source, *args, **settings):
        return (interrupted if len(source.tasks) == 1 else meta_train)(
            learner, source, *args, **settings
        )

    for module, name, part in (
        (text_base, "meta_train", interrupted_fine_tuning),
        (text_classifier, "fit_shared", interrupted),
    ):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, part)
            estimator.meta_fit(tasks, max_steps=4, fine_tune_epochs=1, verbose=False)
    assert all(vars(estimator)[name] is before[name] for name in estimator._learned)


def test_spelling_tells_words_apart_that_are_not_known():
    assert spellings([]).shape == (0, N_FEATURES)
    words = ["Anna", "ANNA", "anna", "McDonald", "2026-11-22", "o'clock", "", "a", "été", "\ud800"]
    found = spellings(words)
    assert found.shape == (len(words), N_FEATURES) and found.min() >= 0 and found.max() < N_NUMBERS
    assert len({tuple(row) for row in found.tolist()}) == len(words)
    assert spelling("Anna")[0] == spelling("Ben")[0] != spelling("anna")[0]  # one shape
    assert spelling("Anna")[1:] == spelling("anna")[1:]  # the same letters
    assert spelling("walking")[-1] == spelling("Talking")[-1]
    assert spelling("x" * 99 + "king")[-1] == spelling("talking")[-1]  # length does not matter
    _, *ends = spelling("anna")
    assert len(set(ends)) == len(ends)  # letters in front differ from letters at the end


def test_a_word_is_its_vector_and_the_mean_of_those_of_its_spelling():
    learner = TextLearner(words=["a"], n_inputs=3, spelling=(5, 2))
    numbers = torch.tensor([[1, 0, 4], [0, 2, 2]])  # the word's number and those of its features
    spelled = learner.spelling.weight[numbers[:, 1:]].mean(1)
    expected = torch.cat([learner.embedding.weight[[1, 0]], spelled], 1)
    torch.testing.assert_close(learner.vectors(numbers), expected)


def test_a_configuration_builds_the_same_learner():
    settings = {"words": ["A"], "tasks": {"a": ["O", "B"]}, "lowercase": False, "n_inputs": 3}
    learner = TextLearner(
        *("lstm", "crf"), task="text_tagging", spelling=(5, 2), dropout=0.3, **settings
    )
    again = TextLearner(**learner.config)
    assert str(again) == str(learner) and again.head is learner.head
    assert {name: getattr(again, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("task", "head"), [("text_classification", "softmax"), ("text_tagging", "crf")]
)
def test_dropout_is_of_word_vectors_and_of_what_the_head_reads(task, head):
    learner = TextLearner("lstm", head, task=task, words=["a", "b"], tasks={"a": [0, 1]})
    learner.dropout.register_forward_hook(lambda module, given, kept: 0 * kept)
    words, lengths = torch.tensor([[1, 2], [2, 0]]), torch.tensor([2, 2])
    first, second = learner.read(words, lengths, 0)[1]
    torch.testing.assert_close(first, second)
    scores = learner(words, lengths, 0).scores
    torch.testing.assert_close(scores, learner.heads[0].output.bias.expand_as(scores))


def test_a_learner_is_of_float32_and_a_task_that_is_added_of_its_numbers():
    torch.set_default_dtype(torch.float64)
    try:
        learner = TextLearner(words=["a"], tasks={"first": [0, 1]})
    finally:
        torch.set_default_dtype(torch.float32)
    assert {p.dtype for p in learner.parameters()} == {torch.float32}
    learner.double()
    learner.add_task("more", [0, 1])
    assert {p.dtype for p in learner.parameters()} == {torch.float64}


def test_tagger_knows_names_by_their_capitals():
    rng = np.random.default_rng(0)
    small = ["runs", "and", "sees", "the", "dog", "with", "often", "before", "quickly", "house"]
    names = ["Anna", "Ben", "Luis", "Maria", "Oscar", "Petra", "Quin", "Tom", "Vera", "Xenia"]
    drawn = [rng.integers(2, size=6) for _ in range(40)]
    X = [[str(rng.choice(names if named else small)) for named in row] for row in drawn]
    y = [["B-PER" if named else "O" for named in row] for row in drawn]
    new = [["Carl", "walks"], ["Dora", "of", "Emil", "swims"]]
    tags = [["B-PER", "O"], ["B-PER", "O", "B-PER", "O"]]
    spelled = MetaLSTMTagger(**QUICK | {"max_epochs": 10}, wide=False, random_state=0)
    assert spelled.fit(X, y).predict(new) == tags
    assert clone(spelled).set_params(spelling_size=0).fit(X, y).predict(new) != tags


def test_tagger_with_spelling_saves_transfers_and_reads_one_by_one(tmp_path):
    X, y = sentences(60)
    tagger = MetaLSTMTagger(**QUICK, spelling_size=8, random_state=0)
    tagger.meta_fit({"names": (X, y)}, max_steps=40, verbose=False)
    path = tagger.save_pretrained(tmp_path / "names")
    again = MetaLSTMTagger(path, **QUICK, spelling_size=0, random_state=0)
    own = clone(tagger).fit(X[:20], y[:20])
    with pytest.warns(UserWarning, match="spelling_size=0 has no effect"):
        again.fit(X[:20], y[:20])
    assert_array_equal(own.module_.spelling.weight, tagger.learner_.spelling.weight)
    new = [["Carl", "sees", "Ann"], ["a"], [], ["Ben"] * 7]
    assert again.predict(new) == own.predict(new) == [own.predict([words])[0] for words in new]
    assert own.predict(iter(new)) == own.predict(new)


def test_parameters_that_weights_do_not_follow_are_told():
    X, y = reviews(30, "toy")
    meta = MetaLSTMClassifier(**QUICK).meta_fit({"toy": (X, y)}, max_steps=2, verbose=False)
    vectors = (["toy"], [[1.0, 2, 3]])
    other = MetaLSTMClassifier(word_vectors=vectors, **QUICK)  # its embedding_size is 12
    other = other.meta_fit({"toy": (X, y)}, max_steps=2, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(meta).fit(X, y)
        clone(other).fit(X, y)
    english = MetaLSTMClassifier("english_reviews", max_epochs=1, word_vectors=vectors)
    with pytest.warns(UserWarning, match="^word_vectors has no effect: .* their own words"):
        english.fit(X, y)
    for name, value in {"width": 20, "pooling": "last", "lowercase": False}.items():
        with pytest.warns(
            UserWarning, match=f"^{name}={value!r} has no effect: meta-trained weights keep"
        ):
            clone(meta).set_params(**{name: value}).fit(X, y)


def test_what_is_learned_anew_leaves_nothing_of_before():
    X, y = reviews(20, "toy")
    told = {"tasks": {"toy": (X, y)}, "max_steps": 2, "verbose": False}
    fitted = MetaLSTMClassifier(**QUICK).fit(X, y)
    of_fit = {"module_", "classes_", "linear_", "begun_as_", "fit_history_"}
    assert of_fit <= set(vars(fitted))
    meta = fitted.meta_fit(**told)
    assert not of_fit & set(vars(meta)) and set(meta.estimators_) == {"toy"}
    of_meta = {"learner_", "history_", "estimators_"}
    assert of_meta <= set(vars(meta))
    assert not of_meta & set(vars(meta.set_params(backbone="lstm")))


@pytest.mark.parametrize("estimator", [MetaLSTMClassifier, MetaLSTMTagger])
def test_labels_are_required(estimator):
    estimator = estimator(**QUICK)
    assert estimator.__sklearn_tags__().target_tags.required
    for call in (estimator.fit, lambda X, y: estimator.meta_fit({"a": (X, y)})):
        with pytest.raises(ValueError, match=f"{type(estimator).__name__} requires y to be passed"):
            call([["a", "b"]] * 4, None)


@pytest.mark.parametrize(
    "labels, message",
    [
        (["a", None], "NaN or None: every text"),
        (["a", np.nan], "NaN or None: every text"),  # numpy would make "nan" of it
        (["a", 1], "all strings or all numbers.*int and str"),
        (np.array(["a", np.nan], dtype=object), "NaN or None: every text"),
        (pd.Series(["a", pd.NA], dtype="string"), "NaN or None: every text"),
        ([0.0, np.nan], "NaN or None: every text"),
        (np.array(["2020-01-01", "2021-01-01"], "M8[ns]"), "all strings or all numbers.*datetime"),
        (pd.to_timedelta([1, 2], unit="D"), "all strings or all numbers.*timedelta"),
        (np.array([1, 2], "m8[ns]"), "all strings or all numbers.*timedelta"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "all strings or all numbers.*pass y.astype"),
        (np.array(["a", 1], dtype=object), "all strings or all numbers.*int and str"),
    ],
)
def test_labels_that_are_none_are_refused(labels, message):
    X = ["a fine toy", "a dull toy"]
    with pytest.raises(ValueError, match=message):
        MetaLSTMClassifier(**QUICK).fit(X, labels)
    with pytest.raises(ValueError, match=f"Task 'toys': .*{message}"):
        MetaLSTMClassifier(**QUICK).meta_fit({"toys": (X, labels)})


def test_what_meta_fit_refuses_is_named():
    X, y = reviews(20, "toy")
    meta = MetaLSTMClassifier(**QUICK)
    with pytest.raises(ValueError, match="max_steps must be an instance of"):
        meta.meta_fit({"toy": (X, y)}, max_steps="100")
    with pytest.raises(ValueError, match="Validation task 'toy': Label 7 is not one of"):
        meta.meta_fit({"toy": (X, y)}, validation_tasks={"toy": (X, [7] * len(X))})
    with pytest.raises(ValueError, match="Validation task 'toy': .*NaN or None"):
        meta.meta_fit({"toy": (X, y)}, validation_tasks={"toy": (X, [None] * len(X))})


def test_a_discriminator_tells_as_many_tasks_as_there_are():
    X, y = reviews(4, "toy", seed=1)
    tasks = {str(i): (X, [0, 1, 0, 1]) for i in range(66)}
    meta = MetaLSTMClassifier("asp_mtl", **QUICK | {"wide": False})
    meta.meta_fit(tasks, max_steps=1, eval_every=1, verbose=False)
    assert len(meta.estimators_) == 66 and len(meta.estimators_["65"].predict(X)) == 4


def test_a_word_that_is_none_is_named():
    with pytest.raises(ValueError, match="Sentence 1, word 1 is of type NoneType: give str"):
        MetaLSTMTagger(**QUICK).fit([["a", "b"], ["c", None]], [["O", "O"]] * 2)
    with pytest.raises(ValueError, match="Task 'x': Sentence 0, word 1 is of type int: give str"):
        MetaLSTMTagger(**QUICK).meta_fit({"x": ([["a", 1]], [["O", "O"]])})


def test_sentences_of_one_length_may_be_an_array():
    X, y = sentences(60)
    rows = [i for i, words in enumerate(X) if len(words) == 2]
    X, y = [X[i] for i in rows] * 3, [y[i] for i in rows] * 3
    tagger = MetaLSTMTagger(**QUICK, random_state=0).fit(X, y)
    arrays = MetaLSTMTagger(**QUICK, random_state=0).fit(np.array(X), np.array(y))
    assert arrays.predict(np.array(X)) == tagger.predict(X)
    assert arrays.score(np.array(X), np.array(y)) == tagger.score(X, y)
    with pytest.raises(ValueError, match="got a ndarray: give one column"):
        MetaLSTMClassifier(**QUICK).fit(np.array(X), [0, 1] * (len(X) // 2))


def test_texts_that_share_no_word_are_learned_from():
    texts, y = ["refund please", "app crashes", "cannot login", "double charge"], [0, 1, 1, 0]
    found = MetaLSTMClassifier(width=4, max_epochs=1).fit(texts, y)
    assert found.predict(texts).tolist() == y
    tagger = MetaLSTMTagger(width=4, max_epochs=1)
    assert tagger.fit([["I", "came"], ["we", "saw"]], [["P", "V"], ["P", "V"]]).classes_.size == 2
    with pytest.raises(ValueError, match="No text contains a word"):
        MetaLSTMClassifier().fit(["", " "], [0, 1])


@pytest.mark.parametrize(
    "table", [csr_array(np.eye(4)), np.full((4, 2), "a"), {"a": 1}, None, 5, True]
)
def test_tables_are_no_texts(table):
    """Vectorizers make such tables; null from json is refused, too."""
    for ask in (lambda: MetaLSTMClassifier().fit(table, [0, 1, 0, 1]), lambda: tokens_of(table)):
        with pytest.raises(ValueError, match="A sequence of texts is expected, got a"):
            ask()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("l'abonnement qu'il n'aime", ["l'", "abonnement", "qu'", "il", "n'", "aime"]),
        ("L’élève d’Alès, c’était", ["L'", "élève", "d'", "Alès", ",", "c'", "était"]),
        ("dell'anno un'altra dov'è", ["dell'", "anno", "un'", "altra", "dov'", "è"]),
        ("n'y a qu'à l'y c'è", ["n'", "y", "a", "qu'", "à", "l'", "y", "c'", "è"]),
        ("don't we'll it's o'clock", ["don't", "we'll", "it's", "o'clock"]),
        ("aujourd'hui O'Brien c'mon n't", ["aujourd'hui", "O'Brien", "c'mon", "n't"]),
    ],
)
def test_elided_words_are_words_of_their_own(text, words):
    """French and Italian elide words; English contractions stay whole."""
    assert tokens_of([text], lowercase=False) == [words]


def test_one_text_is_enough_for_its_words_to_be_known():
    tagger = MetaLSTMTagger(**QUICK | {"min_df": 2}).fit([["Ann", "sees"]], [["B-PER", "O"]])
    assert tagger.module_.words == ["ann", "sees"]


def test_tagger_reads_accents_of_their_own_as_those_of_letters():
    """Programs write an accented letter as one character or as two."""
    sentences = [["Zoë", "lives", "in", "Köln"], ["Renée", "left", "Zürich"]] * 8
    tags = [["PER", "O", "O", "LOC"], ["PER", "O", "LOC"]] * 8
    tagger = MetaLSTMTagger(**QUICK).fit(sentences, tags)
    new = [["Köln", "Zoë"], ["in", "Zürich"], ["Renée"]]
    apart = [[unicodedata.normalize("NFD", word) for word in words] for words in new]
    assert apart != new
    told, told_apart = (tagger._read_by_linear(words) for words in (new, apart))
    assert told == told_apart
    assert tagger.predict(apart) == tagger.predict(new)


def test_tagger_of_empty_and_of_long_sentences():
    X, y = sentences(20)
    tagger = MetaLSTMTagger(**QUICK | {"max_epochs": 1}, max_length=4).fit(X, y)
    found = tagger.predict([[], ["Ann"] * 9])
    assert found[0] == [] and len(found[1]) == 9
    assert found[1][4:] == ["O"] * 5


class FrameOfNoDimensions(dict):
    """Iterates over its columns and has no ``ndim``, like polars' frame."""

    shape = (2, 1)

    def __iter__(self):
        return iter(self.values())


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (["a b", "c"], [1, 1], "only one class"),
        (["a b", 3], [0, 1], "Text 1 is of type int"),
        (["a b", b""], [0, 1], "Text 1 is of type bytes"),
        ("a b", [0], "string object received"),
        (["a"], [0, 1], "inconsistent numbers of samples"),
        ([], [], "0 sample"),
        (["a", "b"], [0.5, 0.1], "continuous"),
        (pd.DataFrame({"t": ["a", "b"]}), [0, 1], "give one column"),
        (FrameOfNoDimensions({"t": ["a", "b"]}), [0, 1], "give one column"),
        (np.array([["a"], ["b"]]), [0, 1], "give one column"),
    ],
)
def test_bad_texts(X, y, message):
    with pytest.raises(ValueError, match=message):
        MetaLSTMClassifier(**QUICK).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([["a", "b"]], [["O"]], r"Sentence 0 has 2 words, but its labels are \['O'\]"),
        (["a b"], [["O", "O"]], "must be cut into words"),
        ([["a"]], ["O"], "Sentence 0 has 1 words, but its labels are 'O'"),
        ([["a", "b"]], [{"O", "B-P"}], "Sentence 0 has 2 words, but its labels are {"),
        ([["a", "b"]], [iter("OO")], "Sentence 0 has 2 words, but its labels are <"),
        ([iter("ab")], [["O", "O"]], "must be cut into words"),
        ([[]], [[]], "No sentence has a word: give one with words"),
    ],
)
def test_bad_sentences(X, y, message):
    with pytest.raises(ValueError, match=message):
        MetaLSTMTagger(**QUICK).fit(X, y)


def test_bad_tasks(learned):
    X, y = reviews(10, "toy")
    with pytest.raises(ValueError, match="tasks must be a dict"):
        MetaLSTMClassifier(**QUICK).meta_fit([(X, y)])
    with pytest.raises(ValueError, match="Task 'a': expected a pair"):
        MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y, y)})
    with pytest.raises(ValueError, match="validation_tasks must be a dict"):
        MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y)}, validation_tasks={})
    with pytest.raises(ValueError, match="begins with random weights"):
        MetaLSTMClassifier(learned.learner_).meta_fit({"a": (X, y)})
    with pytest.raises(ValueError, match="backbone must be weights, a TextLearner or one of"):
        MetaLSTMClassifier(torch.nn.Linear(2, 2)).fit(X, y)
    with pytest.raises(ValueError, match="Task 'toys':.*only one class"):
        MetaLSTMClassifier(**QUICK).meta_fit({"toys": (X, ["yes"] * 10)})
    with pytest.raises(ValueError, match="'b', which is not in tasks"):
        MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y)}, validation_tasks={"b": (X, y)})
    with pytest.raises(ValueError, match="Label 'maybe' is not one of"):
        other = np.where(y == "yes", "maybe", "no")
        MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y)}, validation_tasks={"a": (X, other)})
    with pytest.raises(NotFittedError):
        MetaLSTMClassifier(**QUICK).predict(X)
    with pytest.raises(NotFittedError):
        clone(learned).predict(X)
    tagged, tags = sentences(8)
    tagger = MetaLSTMTagger(**QUICK)
    with pytest.raises(ValueError, match=r"Label 'B-LOC' is not one of \['"):
        bad = [["B-LOC"] * len(t) for t in tags]
        tagger.meta_fit({"a": (tagged, tags)}, validation_tasks={"a": (tagged, bad)})


def test_an_estimator_of_a_task_learns_another(learned):
    """It learns as any other with the same weights would; which task it was for does not matter."""
    X, y = reviews(30, "toy")
    film = copy.copy(learned.estimators_["film"])
    assert_array_equal(film.fit(X, y).predict_proba(X), clone(learned).fit(X, y).predict_proba(X))


def test_history_has_the_accuracy_of_each_validation_task():
    """Each task is scored by its own head, in whatever order the tasks are given."""
    X, y, new = ["good", "bad"] * 8, np.array(["yes", "no"] * 8), ["good", "bad", "good"]
    tasks = {"book": (X, y), "turned": (X, y[::-1])}
    held_out = {"turned": (new, ["no", "yes", "no"]), "book": (new, ["yes", "no", "yes"])}
    meta = MetaLSTMClassifier(**QUICK, wide=False, random_state=0)
    meta.meta_fit(tasks, validation_tasks=held_out, max_steps=60, verbose=False)
    assert [meta.history_[-1][f"valid_accuracy_{place}_task"] for place in (0, 1)] == [1.0, 1.0]
    assert [meta.estimators_[name].score(*held_out[name]) for name in tasks] == [1.0, 1.0]


def test_the_nearest_task_is_told_by_texts_of_all_labels(learned):
    X, y = reviews(160, "toy")
    order = np.argsort(y, kind="stable")  # more rows of the first label than are compared
    once = clone(learned).set_params(max_epochs=1, wide=False)
    assert once.fit([X[i] for i in order], y[order]).begun_as_ is not None


def test_a_new_task_begins_as_none_that_only_tells_the_commonest_label(learned):
    X = ["zebra"] * 20  # a word that no task knows
    said = learned.estimators_["book"]._network_proba(X[:1]).argmax()
    labels = np.array(["no", "yes"])[[said, 1 - said]]
    estimator = clone(learned).set_params(max_epochs=1, wide=False)
    assert estimator.fit(X, np.repeat(labels, [12, 8])).begun_as_ is None


def test_a_tagger_begins_as_none_that_only_tells_the_commonest_label():
    """The commonest label is counted by sentences, as accuracy is; most words have another."""
    tagger = MetaLSTMTagger(**QUICK, random_state=0)
    tagger.meta_fit({"names": sentences(40)}, max_steps=30, verbose=False)
    X = [["zebra"]] * 5 + [["zebra"] * 8]
    said = {tag for tags in tagger.estimators_["names"].predict(X) for tag in tags}
    assert said == {"O"}
    y = [["O"]] * 5 + [["B-PER"] * 8]
    assert clone(tagger).set_params(max_epochs=1).fit(X, y).begun_as_ is None


def test_a_tagger_begins_as_the_nearest_in_both_directions():
    X, y = sentences(40)
    tagger = MetaLSTMTagger(**QUICK, random_state=0)
    tagger.meta_fit({"names": (X, y)}, max_steps=30, verbose=False)
    begun = clone(tagger).set_params(max_epochs=1, learning_rate=1e-9).fit(X, y)
    assert begun.begun_as_ == "names"
    for (name, known), own in zip(
        tagger.learner_.named_parameters(), begun.module_.parameters(), strict=True
    ):
        assert_allclose(own, known, atol=1e-6, err_msg=name)


def test_a_tagger_says_the_most_probable_sequence():
    tagger = MetaLSTMTagger(**QUICK, random_state=0).fit(*sentences(40))
    with torch.no_grad():  # no label follows itself, whatever the words
        tagger.module_.heads[0].crf.transitions.fill_diagonal_(-1e4)
    (tags,) = tagger.predict([["Ann"] * 5])
    assert tags in (["O", "B-PER"] * 2 + ["O"], ["B-PER", "O"] * 2 + ["B-PER"])


def test_mini_batches_are_of_all_texts():
    texts = [np.full(1, i) for i in range(40)]
    task = TextTask("a", texts, [np.int64(0)] * 40, 0)
    rng = np.random.default_rng(0)
    batches = [MiniBatches(4, n_pooled=2).draw(task, rng) for _ in range(300)]
    drawn = {int(text[0]) for batch in batches for text in batch.texts}
    assert drawn == set(range(40))


def test_a_source_of_texts_leaves_what_it_is_given():
    text = np.array([7, 5, 7])
    task = TextTask("a", [text], [np.int64(0)], 0)
    source = TextTasks([task], np.array([0, 5, 7]))
    assert source.tasks[0].texts[0].tolist() == [2, 1, 2] and text.tolist() == [7, 5, 7]


@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_a_checkpoint_of_other_texts_or_vectors_is_refused(tmp_path, kind):
    X, y = reviews(40, "book")
    settings = {"max_steps": 10, "checkpoint_dir": tmp_path, "verbose": False}
    MetaLSTMClassifier(**QUICK).meta_fit({"a": (X, y)}, **settings)
    vectors = (["book"], np.arange(12.0)[None]) if kind == "vectors" else None
    other = MetaLSTMClassifier(word_vectors=vectors, **QUICK)
    with pytest.raises(ValueError, match="belongs to a run with other settings"):
        other.meta_fit({"a": (X[::-1] if kind == "texts" else X, y)}, **settings)


def test_random_weights_and_vectors_are_of_the_seed():
    X, y = reviews(20, "toy")
    still = QUICK | {"max_epochs": 1, "learning_rate": 1e-9, "wide": False}
    vectors = (["toy"], np.arange(12.0)[None])
    first, second, other = (
        MetaLSTMClassifier(word_vectors=vectors, **still, random_state=seed).fit(X, y).module_
        for seed in (0, 0, 1)
    )
    for name in ("embedding.weight", "heads.0.output.weight"):
        a, b, c = (module.get_parameter(name) for module in (first, second, other))
        assert torch.equal(a, b) and not torch.allclose(a, c, atol=0.01), name


def test_each_optimizer_learns_in_its_own_way():
    X, y = reviews(20, "toy")
    told = [
        MetaLSTMClassifier(**QUICK, optimizer=name, wide=False).fit(X, y).predict_proba(X)
        for name in ("adamw", "adagrad", "rmsprop")
    ]
    assert not any(np.allclose(told[i], told[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_spelling_is_the_same_on_every_machine():
    assert spelling("Anna") == (7541, 7812, 1403, 6451, 4148, 7174, 4171, 2836, 852)


@pytest.mark.parametrize("kind", [MetaLSTMClassifier, MetaLSTMTagger])
def test_inputs_are_texts(kind):
    tags = kind().__sklearn_tags__().input_tags
    assert tags.string and not tags.two_d_array


@pytest.mark.parametrize("epochs", [-1, 1.5])
def test_epochs_of_fine_tuning_are_counted(epochs):
    with pytest.raises(ValueError, match="fine_tune_epochs must be an integer of 0 or more"):
        MetaLSTMClassifier(**QUICK).meta_fit(
            {"a": reviews(9, "toy")}, max_steps=1, fine_tune_epochs=epochs, verbose=False
        )


def test_words_of_a_text_are_those_that_are_read(learned):
    estimator = copy.copy(learned.estimators_["book"]).set_params(max_length=3)
    assert estimator.words_of("A good book, truly") == ["a", "good", "book"]


def test_a_byte_that_is_no_utf_8_is_one_letter(tmp_path):
    file = tmp_path / "glove.txt"
    file.write_bytes(b"good 1 2\nsch\xf6n 3 4\n")
    assert read_word_vectors(file)[0] == ["good", "sch\ufffdn"]


def test_padding_of_labels_is_none():
    texts = [np.array([1, 2]), np.array([3])]
    task = TextTask("a", texts, [np.array([1, 1]), np.array([0])], 5)
    inputs, target = MiniBatches.collate([task])
    assert target.tolist() == [[1, 1], [0, IGNORE]]
    assert inputs["lengths"].tolist() == [2, 1] and inputs["task"] == 5


def test_all_dropped_is_refused():
    with pytest.raises(ValueError, match="'dropout' parameter"):
        MetaLSTMClassifier(**QUICK | {"dropout": 1.0}).fit(*reviews(9, "toy"))


def test_the_vector_of_words_that_are_not_known_is_learned():
    X, y = reviews(30, "toy")
    rare = [f"{text} rare{i}" for i, text in enumerate(X)]
    vectors = (["toy"], np.arange(12.0)[None])  # with these, vectors of other words start at zero
    estimator = MetaLSTMClassifier(word_vectors=vectors, **QUICK | {"min_df": 2}).fit(rare, y)
    assert not any(word.startswith("rare") for word in estimator.module_.words)
    assert estimator.module_.embedding.weight[0].abs().max() > 0.01


def test_a_new_task_of_one_more_label_begins_as_none(learned):
    X, y = reviews(40, "toy")
    y[0] = "zzz"  # the other labels are those that known tasks predict
    assert clone(learned).set_params(max_epochs=1, wide=False).fit(X, y).begun_as_ is None


def test_predict_wants_words_as_fit_does():
    tagger = MetaLSTMTagger(**QUICK | {"max_epochs": 1}).fit(*sentences(20))
    for X in ("Ann sees", ["Ann sees"], None, 5):
        with pytest.raises(ValueError, match="must be cut into words"):
            tagger.predict(X)


def test_one_unit_generates_weights():
    X, y = reviews(20, "toy")
    estimator = MetaLSTMClassifier(**QUICK | {"meta_width": 1}).fit(X, y)
    assert estimator.predict_proba(X).shape == (20, 2)


def test_spelling_is_of_words_as_they_are_written():
    (numbers,) = word_numbers([["Ann", "ann"]], ["ann"], lowercase=True, spelled=True)
    assert numbers.tolist() == [[1, *spelling("Ann")], [1, *spelling("ann")]]


def test_interrupted_before_its_linear_model_it_is_not_fitted(monkeypatch):
    X, y = reviews(20, "book")
    classifier = MetaLSTMClassifier(**QUICK).fit(X, y)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(text_classifier, "OwnLinear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(X, y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


def test_interrupted_in_its_training_it_began_as_nothing(monkeypatch):
    X, y = reviews(20, "book")
    classifier = MetaLSTMClassifier(**QUICK).meta_fit({"books": (X, y)}, verbose=False)
    monkeypatch.setattr(classifier, "_train", lambda *args, **settings: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        classifier.fit(X, y)
    assert not hasattr(classifier, "begun_as_")


def test_words_that_are_long_are_not_remembered():
    """A stream of distinct long words used to fill memory without end."""
    tracemalloc.start()
    try:  # words are made here, since they were what was held
        told = spellings([f"{n}{'x' * 10_000}" for n in range(1000)])
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert told.shape[0] == 1000 and held < 2.5e6
