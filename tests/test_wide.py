"""The wide part of MetaLSTMClassifier: linear models beside the network."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import hstack
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Normalizer

from sklearn_meta import MetaLSTMClassifier
from sklearn_meta.tasks.texts import tokens_of
from sklearn_meta.wide import AS_MANY, KnownTasks, OwnLinear, SharedLinear, fit_shared

TINY = {"embedding_size": 4, "width": 4, "meta_width": 2, "rank": 2, "max_epochs": 1, "min_df": 1}
WORDS = {0: ["dull", "cold", "grey", "flat"], 1: ["fine", "warm", "bright", "round"]}


def texts(n, topic, seed=0, words=WORDS):
    """Texts of which the label is told by single words, and their labels' numbers."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % len(words))
    return [
        " ".join([f"{topic}{rng.integers(9)}", *rng.choice(words[label], 2), "the"]) for label in y
    ], y


def as_task(X, y, labels=(0, 1)):
    return tokens_of(X), np.asarray(y), list(labels)


@pytest.mark.parametrize(("known", "C"), [(False, 30), (True, 10)])
def test_one_task_is_scikit_learns_pipeline(known, C):
    """Each order of n-grams has half of the idf, scores of known tasks are read as 0.4 of them."""
    (X, y), (held_out, new_y) = texts(40, "book"), texts(10, "book", 1)
    scores = (scored(y, 2), scored(new_y, 2, seed=1)) if known else (None, None)
    found = OwnLinear(tokens_of(X), y, scores[0]).predict_proba(tokens_of(held_out), scores[1])
    orders = [
        TfidfVectorizer(ngram_range=(n, n), norm=None, sublinear_tf=True, token_pattern=r"\S+")
        for n in (1, 2, 3)
    ]
    names, halves = "word pair triple".split(), {"word": 1, "pair": 0.5, "triple": 0.25}
    union = FeatureUnion(list(zip(names, orders, strict=True)), transformer_weights=halves)
    read = make_pipeline(union, Normalizer()).fit(X)
    train, test = (
        rows if told is None else hstack([rows, 0.4 * told])
        for rows, told in zip(map(read.transform, (X, held_out)), scores, strict=True)
    )
    peer = LogisticRegression(C=C).fit(train, y)
    assert_allclose(found, peer.predict_proba(test), atol=1e-6)


def test_of_many_words_and_pairs_the_most_frequent_are_read(monkeypatch):
    monkeypatch.setattr("sklearn_meta.wide.MAX_NGRAMS", 3)
    read = OwnLinear([["a", "b"], ["a", "b", "c"], ["a", "d"]], [0, 1, 1]).vectorizer
    assert sorted(read.vocabulary_) == ["a", "a b", "b"]


def nb_linear(X, y, new):
    """Wang and Manning, section 2.1 and 2.2, with logistic regression in place of an SVM."""
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
    """Labels that mean nothing: a model tells those of its own texts, and of no others."""
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
    """Its four texts name no word of those that are asked for."""
    of = np.array(labels)
    X, y = ["toy dull", "toy fine", "toy cold", "toy warm"], of[[0, 1, 0, 1]]
    asked, truth = ["toy grey", "toy bright", "toy flat", "toy round"], of[[0, 1, 0, 1]]
    assert_array_equal(learned.fit(X, y).predict(asked), truth)
    without = MetaLSTMClassifier(**TINY).fit(X, y).linear_.predict_proba(tokens_of(asked))
    assert_allclose(without[0], without[1])


@pytest.mark.parametrize("lowercase", [True, False])
def test_linear_models_read_capitals_as_the_network_does(lowercase):
    """Weights keep how they read, whatever the estimator says that is given them."""
    X, y = texts(40, "book")
    settings = TINY | {"random_state": 0}
    capitals = [text.upper() for text in X]
    mixed = [*X[::2], *capitals[1::2]]
    y = np.concatenate([y[::2], y[1::2]])
    estimator = MetaLSTMClassifier(**settings, lowercase=lowercase)
    estimator.meta_fit({"book": (mixed, y)}, max_steps=2, verbose=False)
    another = MetaLSTMClassifier(estimator.learner_, **settings, lowercase=not lowercase)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that lowercase has no effect
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
    assert learned._known.meanings == [(0, [0, 1])]  # of the very same labels


def test_what_is_kept_between_predictions_is_not_pickled(learned):
    shared = SharedLinear(**learned.learner_.wide.config)  # which has read nothing yet
    shared.load_state_dict(learned.learner_.wide.state_dict())
    before = len(pickle.dumps(shared))
    expected = shared.scores([["good"], []])
    assert len(pickle.dumps(shared)) == before
    assert_array_equal(pickle.loads(pickle.dumps(shared)).scores([["good"], []]), expected)


def test_a_copy_has_weights_of_its_own_and_the_same_vocabulary(learned):
    """Every fit copies the learner, whose 100,000 words and n-grams nothing changes."""
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


def test_a_linear_model_reads_what_known_tasks_say():
    """Of texts that are all the same nothing else can tell the label."""
    y = np.arange(40) % 2
    model = OwnLinear([["toy"]] * 40, y, scored(y, 2))
    told = model.predict_proba([["toy"]] * 2, scored([0, 1], 2, seed=1))
    assert told[[0, 1], [0, 1]].min() > 0.9


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


SETS = [[0, 1], ["a", "b", "c"], ["no", "yes"]]


def test_every_set_of_labels_has_probabilities_and_is_kept():
    again = SharedLinear(**SharedLinear(["a"], SETS).config)
    assert again.labels == SETS
    told = again.probabilities(scored([0, 1, 1], 2))
    assert [p.shape for p in told] == [(3, len(labels)) for labels in SETS]
    for p in told:
        assert_allclose(p.sum(1), 1)


def scored(y, strength, seed=0):
    """Scores of two, three and two labels, of which the first set's tell ``y`` so strongly."""
    scores = np.random.default_rng(seed).standard_normal((len(y), 5))
    scores[:, 0] = strength * (2 * np.asarray(y) - 1)
    return scores


@pytest.mark.parametrize("n", [4, 20, 200])
def test_known_tasks_are_heard_as_far_as_they_tell_the_labels(n):
    shared, y = SharedLinear(["a"], SETS), np.arange(n) % 2
    most = AS_MANY / (n + AS_MANY)
    right, guess, wrong = (
        KnownTasks(shared, [0, 1], y, scored(y, strength)).shares for strength in (9, 0, -9)
    )
    assert_allclose(right, most, atol=0.07 * most)  # nearly all, of four texts, too
    assert_allclose(guess, most / 2)  # nothing is told of it
    assert wrong < 1e-4
    # Of labels of other names any two known ones may be meant, in either order.
    known = KnownTasks(shared, ["x", "y"], y, scored(y, -9))
    assert known.meanings == [(0, [0, 1]), (0, [1, 0]), (2, [0, 1]), (2, [1, 0])]
    assert known.shares.argmax() == 1 and known.shares.sum() <= most
    own = np.full((1, 2), 0.5)
    assert known.beside(own, shared.probabilities(scored([1], -9)))[0, 1] > 0.5 + 0.3 * most
    # Of three labels the order of others is not looked for.
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
    """Of several meanings each has its part of that half."""
    shared, y = SharedLinear(["a"], SETS), np.arange(20) % 2
    known = KnownTasks(shared, ["x", "y"], y, np.zeros((20, 5)))
    assert_allclose(known.shares, np.full(4, AS_MANY / (20 + AS_MANY) / 8))


def test_a_text_without_words_is_a_word_of_its_own():
    y = [0, 0, 0, 1, 1, 1]
    texts_of_none = OwnLinear([[]] * 6, y).predict_proba([[]])
    assert_allclose(texts_of_none, [[0.5, 0.5]], atol=1e-6)
    told = OwnLinear([[], [], [], ["a"], ["b"], ["c"]], y).predict_proba([[], ["unheard"]])
    assert told[0, 0] > told[1, 0] + 0.1


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
    assert learned.estimators_["book"]._known is None  # it has texts enough


def test_of_probabilities_the_network_has_a_third_where_tasks_were_learned_before():
    """In tasks of ``meta_fit`` themselves it has read all of their texts, and no others."""

    def share(estimator):
        tokens, scores = estimator._read_by_linear(X)
        network, linear = estimator._network_proba(X), estimator.linear_
        linear = linear.predict_proba(tokens, scores)
        known = estimator._known
        found = estimator.predict_proba(X)
        if known is not None:
            told = known.beside(np.zeros_like(found), estimator.module_.wide.probabilities(scores))
            found = (found - told) / (1 - known.shares.sum())
        return np.linalg.lstsq((network - linear).reshape(-1, 1), (found - linear).ravel())[0]

    X, y = texts(40, "toy", 3)
    learned = MetaLSTMClassifier(**TINY | {"learning_rate": 0.05})
    tasks = {topic: texts(60, topic) for topic in ("book", "film")}
    learned.meta_fit(tasks, max_steps=60, verbose=False)
    assert_allclose(share(learned.estimators_["book"]), 120 / 1120 / 3)
    begun = copy.copy(learned).fit(X, y)
    assert begun.begun_as_ is not None
    assert_allclose(share(begun), 1 / 3)
    other = copy.copy(learned).fit(X, np.where(y, "b", "a"))
    assert other.begun_as_ is None
    assert_allclose(share(other), 1 / 3)
    nothing = MetaLSTMClassifier(**learned.get_params()).fit(X, y)
    assert not hasattr(nothing, "learner_")
    assert_allclose(share(nothing), 40 / 1040 / 3)


def test_the_own_model_of_a_task_of_meta_fit_reads_scores_of_models_that_have_not_seen_its_texts():
    """Of parts that are drawn with the seed that is given."""
    X, y = texts(43, "book")
    estimator = MetaLSTMClassifier(**TINY, random_state=3)
    estimator.meta_fit({"book": (X, y)}, max_steps=1, verbose=False)
    scores = fit_shared({"book": as_task(X, y)}, random_state=3)[1]["book"]
    expected = OwnLinear(tokens_of(X), y, scores).model.coef_
    assert_allclose(estimator.estimators_["book"].linear_.model.coef_, expected)


def test_what_known_tasks_say_is_forgotten_where_there_are_none(learned):
    X, y = texts(8, "toy", 3)
    estimator = copy.copy(learned).fit(X, y)
    assert estimator._known is not None
    estimator.set_params(backbone="lstm").fit(X, y)
    plain = MetaLSTMClassifier(**estimator.get_params()).fit(X, y)
    assert_array_equal(estimator.predict_proba(X), plain.predict_proba(X))


def test_texts_are_scored_by_the_models_of_other_labels_too():
    """Which have not seen them; of each set of labels in its own columns."""
    two = as_task(*texts(40, "book"))
    three = as_task(*texts(45, "toy", words=WORDS | {2: ["odd", "new"]}), labels="abc")
    shared, scores = fit_shared({"book": two, "toy": three})
    assert_allclose(scores["toy"][:, :1], shared.scores(three[0])[:, :1], atol=1e-4)
    assert_allclose(scores["book"][:, 1:], shared.scores(two[0])[:, 1:], atol=1e-4)
