"""The wide part of MetaLSTMClassifier: linear models beside the network."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, hstack
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Normalizer
from toy_texts import SETS, TINY, WORDS, as_task, scored, texts

from sklearn_meta import MetaLSTMClassifier, wide
from sklearn_meta.tasks.texts import tokens_of
from sklearn_meta.wide import OwnLinear, SharedLinear, fit_shared


@pytest.mark.parametrize(("relevance", "C"), [(0, 30), (1, 10)])
def test_one_task_is_scikit_learns_pipeline(relevance, C, monkeypatch):
    """Each order of n-grams weighs half as much as the one before; scores are multiplied by 0.4."""
    monkeypatch.setattr("sklearn_meta.wide._relevance", lambda *given: relevance)
    (X, y), (held_out, new_y) = texts(40, "book"), texts(10, "book", 1)
    scores = scored(y, 2), scored(new_y, 2, seed=1)
    found = OwnLinear(tokens_of(X), y, scores[0]).predict_proba(tokens_of(held_out), scores[1])
    if not relevance:
        without = OwnLinear(tokens_of(X), y).predict_proba(tokens_of(held_out))
        assert_array_equal(found, without)
    orders = [
        TfidfVectorizer(ngram_range=(n, n), norm=None, sublinear_tf=True, token_pattern=r"\S+")
        for n in (1, 2, 3)
    ]
    names, halves = "word pair triple".split(), {"word": 1, "pair": 0.5, "triple": 0.25}
    union = FeatureUnion(list(zip(names, orders, strict=True)), transformer_weights=halves)
    read = make_pipeline(union, Normalizer()).fit(X)
    train, test = (
        hstack([rows, 0.4 * told]) if relevance else rows
        for rows, told in zip(map(read.transform, (X, held_out)), scores, strict=True)
    )
    peer = LogisticRegression(C=C).fit(train, y)
    assert_allclose(found, peer.predict_proba(test), atol=1e-6)


def test_of_many_words_and_pairs_the_most_frequent_are_read(monkeypatch):
    monkeypatch.setattr("sklearn_meta.wide.MAX_NGRAMS", 3)
    read = OwnLinear([["a", "b"], ["a", "b", "c"], ["a", "d"]], [0, 1, 1]).vectorizer
    assert sorted(read.vocabulary_) == ["a", "a b", "b"]


def nb_linear(X, y, new):
    """Wang and Manning, sections 2.1 and 2.2, with logistic regression in place of an SVM."""
    p, q = (1 + (X[y == label] > 0).sum(axis=0) for label in (1, 0))
    r = np.log((p / p.sum()) / (q / q.sum()))
    return LogisticRegression(C=10).fit(X.multiply(r), y).decision_function(new.multiply(r))


def test_scores_of_known_tasks_are_those_of_the_models_of_all_their_texts():
    words = WORDS | {2: ["odd", "new"]}
    two = {topic: as_task(*texts(40, topic)) for topic in ("book", "film")}
    three = as_task(*texts(45, "toy", words=words), labels="abc")
    shared, _ = fit_shared(two | {"toy": three})
    assert shared.labels == [[0, 1], ["a", "b", "c"]]
    X = [text for tokens, *_ in two.values() for text in tokens]
    new = tokens_of(texts(20, "book", 5)[0])
    scores = shared.scores(new)
    assert scores.shape == (20, 1 + 3)
    vectorizer = TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=True, token_pattern=r"\S+")
    everything = [" ".join(text) for text in X + three[0]]
    Z = vectorizer.fit_transform(everything)
    joined = [" ".join(text) for text in new]
    told = vectorizer.transform(joined)
    of_two = nb_linear(Z[:80], np.concatenate([two[t][1] for t in two]), told)
    of_three = [nb_linear(Z[80:], three[1] == label, told) for label in range(3)]
    assert_allclose(scores.T, [of_two, *of_three], atol=1e-3)


def test_texts_of_known_tasks_are_scored_by_models_of_four_fifths_of_them():
    (X, y), settings = texts(43, "book"), {"shuffle": True, "random_state": 3}
    scores = fit_shared({"book": as_task(X, y)}, random_state=3)[1]["book"][:, 0]
    words = TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=True, token_pattern=r"\S+")
    Z = words.fit_transform(X)
    for rows, others in StratifiedKFold(5, **settings).split(Z, y):
        assert_allclose(scores[others], nb_linear(Z[rows], y[rows], Z[others]), atol=1e-3)


def test_no_text_is_scored_by_a_model_that_has_seen_its_label():
    """Labels are random: a model knows those of its own texts, and no others."""
    rng = np.random.default_rng(0)
    X = [[f"w{i}", f"v{i}"] for i in rng.permutation(400)]
    y = rng.permutation(np.arange(400) % 2)
    shared, scores = fit_shared({"noise": (X, y, [0, 1])})
    assert ((shared.scores(X)[:, 0] > 0) == y).mean() > 0.99
    assert ((scores["noise"][:, 0] > 0) == y).mean() < 0.6


def test_of_probabilities_the_network_has_the_more_the_more_texts_it_has_read():
    (X, y), (held_out, _) = texts(40, "book"), texts(10, "book", 1)
    wide, plain = (MetaLSTMClassifier(**TINY, wide=w).fit(X, y) for w in (True, False))
    linear = OwnLinear(tokens_of(X), y).predict_proba(tokens_of(held_out))
    share = 40 / (40 + 1000) / 3
    both = share * plain.predict_proba(held_out) + (1 - share) * linear
    assert_allclose(wide.predict_proba(held_out), both)
    assert_allclose(wide.transform(held_out), plain.transform(held_out))
    assert wide.set_params(wide=False).fit(X, y).linear_ is None


def test_a_fit_that_is_interrupted_at_its_linear_part_is_none(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    X, y = texts(12, "film")
    classifier = MetaLSTMClassifier(**TINY).fit(X, y)
    monkeypatch.setattr("sklearn_meta.text.classifier.OwnLinear", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(X, y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


@pytest.fixture(scope="module")
def learned():
    tasks = {topic: texts(60, topic) for topic in ("book", "film")}
    return MetaLSTMClassifier(**TINY).meta_fit(tasks, max_steps=2, verbose=False)


@pytest.mark.parametrize("labels", [[0, 1], ["low", "high"], ["z", "a"]])
def test_few_texts_of_a_new_task_profit_whatever_its_labels_are_called(learned, labels):
    """Its four texts share no telling word with those to predict."""
    of = np.array(labels)
    X, y = ["toy dull", "toy fine", "toy cold", "toy warm"], of[[0, 1, 0, 1]]
    asked, truth = ["toy grey", "toy bright", "toy flat", "toy round"], of[[0, 1, 0, 1]]
    assert_array_equal(learned.fit(X, y).predict(asked), truth)
    without = MetaLSTMClassifier(**TINY).fit(X, y).linear_.predict_proba(tokens_of(asked))
    assert_allclose(without[0], without[1])


@pytest.mark.parametrize("lowercase", [True, False])
def test_linear_models_read_capitals_as_the_network_does(lowercase):
    """Weights remember how they read capitals, whatever another estimator says."""
    X, y = texts(40, "book")
    settings = TINY | {"random_state": 0}
    capitals = [text.upper() for text in X]
    mixed = [*X[::2], *capitals[1::2]]
    y = np.concatenate([y[::2], y[1::2]])
    estimator = MetaLSTMClassifier(**settings, lowercase=lowercase)
    estimator.meta_fit({"book": (mixed, y)}, max_steps=2, verbose=False)
    another = MetaLSTMClassifier(estimator.learner_, **settings, lowercase=not lowercase)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lowercase has no effect
        fitted = [another.fit(mixed, y), estimator.estimators_["book"]]
    for one in fitted:
        small, large = (
            one.linear_.predict_proba(*one._read_by_linear(given)) for given in (X, capitals)
        )
        assert np.allclose(small, large) == lowercase
    ngrams = estimator.learner_.wide.ngrams
    assert any(ngram.isupper() for ngram in ngrams) != lowercase


def test_tasks_that_contradict_each_other_have_their_own_part():
    X, y = texts(200, "book")
    other, z = texts(200, "film")
    tasks = {"as it is": (X, y), "turned": (other, 1 - z)}
    estimator = MetaLSTMClassifier(**TINY).meta_fit(tasks, max_steps=2, verbose=False)
    held_out, truth = texts(60, "film", 1)
    assert estimator.estimators_["turned"].score(held_out, 1 - truth) > 0.9


def test_weights_keep_what_tasks_share(learned, tmp_path):
    X, y = texts(12, "toy", 3)
    path = learned.save_pretrained(tmp_path / "weights")
    loaded = MetaLSTMClassifier(path, **TINY).fit(X, y)
    assert loaded.module_.wide.ngrams == learned.learner_.wide.ngrams
    found, again = (e.predict_proba(X) for e in (learned.fit(X, y), loaded))
    assert_allclose(found, again, atol=1e-5)
    assert learned._known.meanings == [(0, [0, 1])]  # exactly the same labels


def test_what_is_kept_between_predictions_is_not_pickled(learned):
    shared = SharedLinear(**learned.learner_.wide.config)  # it has read nothing yet
    shared.load_state_dict(learned.learner_.wide.state_dict())
    before = len(pickle.dumps(shared))
    expected = shared.scores([["good"], []])
    assert len(pickle.dumps(shared)) == before
    assert_array_equal(pickle.loads(pickle.dumps(shared)).scores([["good"], []]), expected)


def test_a_copy_has_weights_of_its_own_and_the_same_vocabulary(learned):
    """Every fit copies the learner, but not its 100,000 words and n-grams, which never change."""
    learner = learned.learner_
    card = learner.card = {"name": "card"}
    copied = copy.deepcopy(learner)
    assert copied.words is learner.words and copied.card is card
    assert copied.wide.ngrams is learner.wide.ngrams
    assert_array_equal(copied.wide.scores([["good"]]), learner.wide.scores([["good"]]))
    kept = [p.clone() for p in learner.state_dict().values()]
    for tensor in copied.state_dict().values():
        tensor.fill_(7.0)
    copied.add_task("another", ["a", "b"])
    learner.card = None
    assert copied.card is card and "another" not in learner.tasks
    assert len(learner.heads) == len(copied.heads) - 1
    for before, now in zip(kept, learner.state_dict().values(), strict=True):
        assert_array_equal(before, now)


@pytest.mark.parametrize("n", [2, 4])
def test_of_fewer_texts_than_parts_each_is_one(n):
    X, y = texts(2 * n, "book")
    shared, scores = fit_shared({"book": as_task(X, y)})
    assert shared is not None and scores["book"].shape == (2 * n, 1)


def test_a_label_of_one_text_is_shared_with_nobody():
    X, y = texts(12, "book")
    rare = np.array([2, *y[1:]])
    estimator = MetaLSTMClassifier(**TINY).meta_fit({"a": (X, rare)}, max_steps=2, verbose=False)
    assert estimator.learner_.wide is None
    assert estimator.estimators_["a"].predict_proba(X).shape == (12, 3)
    both = {"a": (X, rare), "b": (X, y)}
    estimator = MetaLSTMClassifier(**TINY).meta_fit(both, max_steps=2, verbose=False)
    assert estimator.learner_.wide.labels == [[0, 1]]
    assert estimator.fit(X, y).predict_proba(["", "unheard of", "the"]).shape == (3, 2)


def test_every_set_of_labels_has_probabilities_and_is_kept():
    again = SharedLinear(**SharedLinear(["a"], SETS).config)
    assert again.labels == SETS
    told = again.probabilities(scored([0, 1, 1], 2))
    assert [p.shape for p in told] == [(3, len(labels)) for labels in SETS]
    for p in told:
        assert_allclose(p.sum(1), 1)


def test_a_text_without_words_is_a_word_of_its_own():
    y = [0, 0, 0, 1, 1, 1]
    texts_of_none = OwnLinear([[]] * 6, y).predict_proba([[]])
    assert_allclose(texts_of_none, [[0.5, 0.5]], atol=1e-6)
    told = OwnLinear([[], [], [], ["a"], ["b"], ["c"]], y).predict_proba([[], ["unheard"]])
    assert told[0, 0] > told[1, 0] + 0.1


def test_texts_are_scored_by_the_models_of_other_labels_too():
    """Those models have not seen the texts; each set of labels has its own columns."""
    two = as_task(*texts(40, "book"))
    three = as_task(*texts(45, "toy", words=WORDS | {2: ["odd", "new"]}), labels="abc")
    shared, scores = fit_shared({"book": two, "toy": three})
    assert_allclose(scores["toy"][:, :1], shared.scores(three[0])[:, :1], atol=1e-4)
    assert_allclose(scores["book"][:, 1:], shared.scores(two[0])[:, 1:], atol=1e-4)


def test_no_single_text_decides_whether_scores_are_read(monkeypatch):
    """Even if a model was certain of the wrong label."""

    def told(model, X, y, **settings):
        proba = np.full((len(y), 2), 0.5)
        if model.C == wide.BESIDE:
            proba[0, y[0]] = 1e-12
        return proba

    monkeypatch.setattr(wide, "cross_val_predict", told)
    words = csr_array(np.eye(20))
    odds = wide.EXPECTED / (1 - wide.EXPECTED) * wide.FLOOR / 0.5
    assert wide._relevance(words, words, np.arange(20) % 2) == round(odds / (1 + odds), 3)
