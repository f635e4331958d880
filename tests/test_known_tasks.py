"""How known tasks inform a new one, beside its own linear model and its network."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import hstack
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from toy_texts import SETS, TINY, as_task, scored, texts

from sklearn_meta import MetaLSTMClassifier
from sklearn_meta.tasks.texts import first_of_copies, tokens_of
from sklearn_meta.wide import AS_MANY, KnownTasks, OwnLinear, SharedLinear, fit_shared


@pytest.fixture(scope="module")
def learned():
    tasks = {topic: texts(60, topic) for topic in ("book", "film")}
    return MetaLSTMClassifier(**TINY).meta_fit(tasks, max_steps=2, verbose=False)


def test_a_linear_model_reads_what_known_tasks_say():
    """If all texts are the same, nothing but the scores can tell the label."""
    y = np.arange(40) % 2
    model = OwnLinear([["toy"]] * 40, y, scored(y, 2))
    told = model.predict_proba([["toy"]] * 2, scored([0, 1], 2, seed=1))
    assert told[[0, 1], [0, 1]].min() > 0.9


@pytest.mark.parametrize(
    ("strength", "noise", "least", "most"), [(0, 10, 0, 0.01), (0.5, 1, 0.1, 0.9), (3, 1, 0.95, 1)]
)
def test_scores_are_read_as_far_as_cross_validation_speaks_for_it(strength, noise, least, most):
    """The prior odds that scores tell something are 4 : 1; cross-validation is the evidence."""
    X, y = texts(24, "book")
    scores, tokens = scored(y, strength) * noise, tokens_of(X)
    model = OwnLinear(tokens, y, scores)
    words, order = model.vectorizer.transform(tokens), np.random.default_rng(0).permutation(24)

    def evidence(C, Z):
        folds, peer = StratifiedKFold(5, shuffle=True, random_state=0), LogisticRegression(C=C)
        told = cross_val_predict(peer, Z[order], y[order], cv=folds, method="predict_proba")
        return np.log(told[np.arange(24), y[order]].clip(0.02)).sum()

    reading = evidence(10, hstack([words, 0.4 * scores], format="csr"))
    posterior = expit(np.log(4) + reading - evidence(30, words))
    assert_allclose(model.relevance, posterior, atol=1e-2)
    assert least <= model.relevance <= most


def test_of_new_texts_both_models_are_heard():
    (X, y), (new, _) = texts(24, "book"), texts(9, "book", 1)
    model = OwnLinear(tokens_of(X), y, scored(y, 0.5))
    words, told = model.vectorizer.transform(tokens_of(new)), scored(np.zeros(9), 0.5, 1)
    both = hstack([words, 0.4 * told], format="csr")
    assert 0.1 < model.relevance < 0.9
    expected = model.relevance * model.reading_scores.predict_proba(both)
    expected += (1 - model.relevance) * model.alone.predict_proba(words)
    assert_allclose(model.predict_proba(tokens_of(new), told), expected)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2, 3], [0] * 5 + [1]])
def test_where_no_two_labels_have_two_texts_scores_are_read_as_expected(labels):
    X, y = [[f"w{i}"] for i in range(len(labels))], np.array(labels)
    assert OwnLinear(X, y, scored(y, 3)).relevance == 0.8


def test_labels_of_one_text_are_left_out_of_the_comparison():
    """With that label left out, the scores are seen to tell the others apart."""
    y = np.arange(40) % 2
    scores = scored(y, 3)
    y[0] = 2
    assert OwnLinear([["toy"]] * 40, y, scores).relevance > 0.99


def test_texts_that_are_there_several_times_are_compared_once():
    """Copies, as of oversampling, would be in all folds: words alone would tell any label."""
    X, y = texts(24, "book")
    tokens, scores = tokens_of(X), scored(y, 0.5)
    once = OwnLinear(tokens, y, scores).relevance
    copies = np.tile(np.arange(24), 4)
    several = OwnLinear([tokens[i] for i in copies], y[copies], scores[copies]).relevance
    assert 0.1 < once < 0.9
    assert_allclose(several, once, atol=1e-2)
    rare = np.r_[np.arange(24), np.tile(np.flatnonzero(y == 1), 5)]
    over = OwnLinear([tokens[i] for i in rare], y[rare], scores[rare]).relevance
    assert_allclose(over, once, atol=1e-2)


def test_of_copies_with_other_labels_most_are_heard_in_any_order():
    """Several people may have labelled a text; the first label alone must not decide."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    tokens, copies = [[f"word{i}", "x"] for i in range(30)], np.repeat(np.arange(30), 5)
    labels, scores = y[copies], 2.0 * (2 * y - 1)[copies, None]
    labels[::5] = rng.integers(0, 2, 30)
    for order in (slice(None), slice(None, None, -1)):
        told = [tokens[i] for i in copies[order]]
        assert OwnLinear(told, labels[order], scores[order]).relevance == 1
    tie = first_of_copies([["a"], ["a"], ["b"]], np.zeros((3, 1)), [1, 0, 1])
    assert_array_equal(tie, [1, 2])


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"]])
def test_known_tasks_are_heard_of_copies_as_of_one(learned, labels):
    X, y = texts(12, "toy", 5)
    once, rare = copy.copy(learned).fit(X, np.array(labels)[y]), np.flatnonzero(y == 1)
    X, y = X + [X[i] for i in rare] * 9, np.r_[y, y[np.tile(rare, 9)]]
    several = copy.copy(learned).fit(X, np.array(labels)[y])
    assert_allclose(several._known.shares, once._known.shares)


@pytest.mark.parametrize(("relevance", "fitted"), [(0.0, {"alone"}), (1.0, {"reading_scores"})])
def test_a_model_that_has_no_say_is_not_fitted(relevance, fitted, monkeypatch):
    monkeypatch.setattr("sklearn_meta.wide._relevance", lambda *given: relevance)
    X, y = texts(24, "book")
    model = OwnLinear(tokens_of(X), y, scored(y, 1))
    assert {"alone", "reading_scores"} & set(vars(model)) == fitted
    assert_allclose(model.predict_proba(tokens_of(X), scored(y, 1)).sum(1), 1)


def test_a_task_that_known_ones_say_nothing_of_is_told_as_from_nothing(learned, monkeypatch):
    """The network gets little more weight than it would have without known tasks."""
    (X, _), (new, _) = texts(120, "toy", 3), texts(60, "toy", 4)
    y, truth = (np.array([number(text) % 3 for text in of]) for of in (X, new))
    estimator = copy.copy(learned).fit(X, y)
    assert estimator.linear_.relevance < 0.01
    assert_allclose(estimator._share, 120 / 1120 / 3, atol=0.01)
    assert estimator.score(new, truth) == 1
    before = log_loss(truth, estimator.predict_proba(new))
    # With full weight on them, known tasks confuse.
    monkeypatch.setattr("sklearn_meta.wide._relevance", lambda *given: 1.0)
    assert_allclose(estimator.fit(X, y)._share, 1 / 3)
    assert log_loss(truth, estimator.predict_proba(new)) > 1.5 * before


def number(text):
    """The number that a text begins with, after its topic's name."""
    return int(text.split()[0][-1])


@pytest.mark.parametrize("n", [4, 20, 200])
def test_known_tasks_are_heard_as_far_as_they_tell_the_labels(n):
    shared, y = SharedLinear(["a"], SETS), np.arange(n) % 2
    most = AS_MANY / (n + AS_MANY)
    right, guess, wrong = (
        KnownTasks(shared, [0, 1], y, scored(y, strength)).shares for strength in (9, 0, -9)
    )
    assert_allclose(right, most, atol=0.07 * most)  # nearly all, even with four texts
    assert_allclose(guess, most / 2)  # no evidence for the task
    assert wrong < 1e-4
    # Labels with other names may mean any two known ones, in either order.
    known = KnownTasks(shared, ["x", "y"], y, scored(y, -9))
    assert known.meanings == [(0, [0, 1]), (0, [1, 0]), (2, [0, 1]), (2, [1, 0])]
    assert known.shares.argmax() == 1 and known.shares.sum() <= most
    own = np.full((1, 2), 0.5)
    assert known.beside(own, shared.probabilities(scored([1], -9)))[0, 1] > 0.5 + 0.3 * most
    # For three labels with other names no order is sought.
    assert not KnownTasks(shared, list("xyz"), y, scored(y, 9)).meanings
    for labels, place in ((list("abc"), 1), (["no", "yes"], 2)):
        assert KnownTasks(shared, labels, y, scored(y, 9)).meanings[0][0] == place


def test_one_text_alone_does_not_decide_that_a_task_is_another():
    shared, y = SharedLinear(["a"], SETS), np.arange(20) % 2
    scores = scored(y, 9)
    scores[3, 0] *= -1e3  # as sure of the wrong label as can be
    heard = KnownTasks(shared, [0, 1], y, scores).shares
    assert_allclose(heard, AS_MANY / (20 + AS_MANY), rtol=1e-3)


def test_before_a_text_tells_it_is_one_half_likely_that_some_known_task_is_meant():
    """Its prior of one half is shared by the possible meanings."""
    shared, y = SharedLinear(["a"], SETS), np.arange(20) % 2
    known = KnownTasks(shared, ["x", "y"], y, np.zeros((20, 5)))
    assert_allclose(known.shares, np.full(4, AS_MANY / (20 + AS_MANY) / 8))


@given(st.lists(st.integers(0, 1), min_size=2, max_size=40), st.integers(0, 99))
def test_names_of_labels_do_not_matter_nor_their_order(y, seed):
    shared, y = SharedLinear(["a"], SETS), np.array(y)
    scores, new = scored(y, 2, seed), scored([0, 1, 1], 2, seed + 1)
    own = np.random.default_rng(seed).dirichlet([1, 1], 3)
    found = KnownTasks(shared, ["x", "y"], y, scores).beside(own, shared.probabilities(new))
    turned = KnownTasks(shared, ["v", "w"], 1 - y, scores)
    assert_allclose(turned.beside(own[:, ::-1], shared.probabilities(new))[:, ::-1], found)
    assert_allclose(found.sum(1), 1)
    assert (found >= 0).all()


@pytest.mark.parametrize("labels", [[0, 1], ["bad", "good"], ["z bad", "a good"]])
def test_four_texts_of_a_new_task_are_enough_where_known_tasks_tell_them(learned, labels):
    (X, y), (new, truth) = texts(4, "toy", 3), texts(200, "toy", 4)
    labels = np.array(labels)
    estimator = MetaLSTMClassifier(learned.learner_, max_epochs=1).fit(X, labels[y])
    classes = estimator.classes_.tolist()
    column = [classes.index(label) for label in labels[truth]]

    def of_truth():
        return estimator.predict_proba(new)[np.arange(200), column]

    heard = of_truth()
    known, estimator._known = estimator._known, None
    assert heard.min() > 0.5 and heard.mean() > of_truth().mean() + 0.1
    again = pickle.loads(pickle.dumps(estimator.fit(X, labels[y])))
    assert_allclose(again._known.shares, known.shares)
    assert learned.estimators_["book"]._known is None  # it has enough texts


def test_of_probabilities_the_network_has_a_third_where_known_tasks_tell_the_labels():
    """For tasks of ``meta_fit`` the network has read all of their texts, and no others."""

    def share(estimator):
        tokens, scores = estimator._read_by_linear(X)
        network, linear = estimator._network_proba(X), estimator.linear_
        linear = linear.predict_proba(tokens, scores)
        known = estimator._known
        found = estimator.predict_proba(X)
        if known is not None:
            told = known.beside(np.zeros_like(found), estimator.module_.wide.probabilities(scores))
            found = (found - told) / (1 - known.shares.sum())
        share = np.linalg.lstsq((network - linear).reshape(-1, 1), (found - linear).ravel())[0]
        return share, estimator.linear_.relevance

    X, y = texts(40, "toy", 3)
    learned = MetaLSTMClassifier(**TINY | {"learning_rate": 0.05})
    tasks = {topic: texts(60, topic) for topic in ("book", "film")}
    learned.meta_fit(tasks, max_steps=60, verbose=False)
    assert_allclose(share(learned.estimators_["book"])[0], 120 / 1120 / 3)
    begun = copy.copy(learned).fit(X, y)
    assert begun.begun_as_ is not None
    other = copy.copy(learned).fit(X, np.where(y, "b", "a"))
    assert other.begun_as_ is None
    noise = copy.copy(learned).fit(X, [number(text) % 2 for text in X])
    for fitted, least, most in ((begun, 0.9, 1), (other, 0.9, 1), (noise, 0, 0.1)):
        found, relevance = share(fitted)
        assert least <= relevance <= most
        assert_allclose(found, (relevance + (1 - relevance) * 40 / 1040) / 3)
    nothing = MetaLSTMClassifier(**learned.get_params()).fit(X, y)
    assert not hasattr(nothing, "learner_")
    assert_allclose(share(nothing)[0], 40 / 1040 / 3)


def test_the_own_model_of_a_task_of_meta_fit_reads_scores_of_models_that_have_not_seen_its_texts():
    """The parts are drawn with the given seed."""
    X, y = texts(43, "book")
    estimator = MetaLSTMClassifier(**TINY, random_state=3)
    estimator.meta_fit({"book": (X, y)}, max_steps=1, verbose=False)
    scores = fit_shared({"book": as_task(X, y)}, random_state=3)[1]["book"]
    expected = OwnLinear(tokens_of(X), y, scores).reading_scores.coef_
    assert_allclose(estimator.estimators_["book"].linear_.reading_scores.coef_, expected)


def test_what_known_tasks_say_is_forgotten_where_there_are_none(learned):
    X, y = texts(8, "toy", 3)
    estimator = copy.copy(learned).fit(X, y)
    assert estimator._known is not None
    estimator.set_params(backbone="lstm").fit(X, y)
    plain = MetaLSTMClassifier(**estimator.get_params()).fit(X, y)
    assert_array_equal(estimator.predict_proba(X), plain.predict_proba(X))
