"""FewShotTransformerClassifier as a scikit-learn user meets it, its episodes and tournaments."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.backbones import FEW_SHOT_BACKBONES
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    Dataset,
    Drawings,
    NWayKShot,
    Pictures,
    TableEpisodes,
    Vectors,
    deal,
)
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.tasks.images import ImageClasses
from sklearn_meta.tournament import play
from sklearn_meta.training import meta_train


def small_learner(backbone="few_shot_transformer", inputs="tables", seed=0, **config):
    """A learner with random weights: the properties hold for any weights, and this one is quick."""
    torch.manual_seed(seed)
    config = {"n_inputs": 6, "n_ways": 3, "backbone_config": {"width": 8}} | config
    return FewShotLearner(backbone, inputs=inputs, **config).eval().requires_grad_(False)


#: In float32 the last digit depends on how many rows are predicted at a time.
CHECKED = [FewShotTransformerClassifier(n_estimators=2, dtype="float64")]


@parametrize_with_checks(CHECKED, xfail_strict=True)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "kind",
    [
        FewShotTransformerClassifier,
        MANNClassifier,
        MetaSemiSupervisedClassifier,
        MetaGPRegressor,
        AmortizedOutlierDetector,
    ],
)
def test_tags_tell_which_cells_are_read(kind):
    tags = get_tags(kind()).input_tags
    assert tags.two_d_array and tags.allow_nan and tags.categorical and tags.string


def classifier(backbone="few_shot_transformer", inputs="tables", n_shots=1, **parameters):
    learner = small_learner(backbone, inputs, n_shots=n_shots)
    return FewShotTransformerClassifier(learner, **{"n_estimators": 3} | parameters)


# Episodes


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_places_are_dealt_evenly(n_classes, n_ways, n_shots, seed):
    n_classes = min(n_classes, n_ways)
    labels, turns = deal(n_classes, n_ways, n_shots, np.random.default_rng(seed))
    counts = np.bincount(labels, minlength=n_classes)
    assert len(labels) == n_ways * n_shots and counts.max() - counts.min() <= n_shots
    for c in range(n_classes):  # as if each class dealt its rows one after another
        assert_array_equal(turns[labels == c], np.arange(counts[c]))


def table(rng, counts, n_columns):
    """Rows whose first cell is their number."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), n_columns)).astype(np.float32)
    X[:, 0] = np.arange(len(y))
    return Dataset("table", X, y.astype(np.int64))


@given(
    st.lists(st.integers(2, 9), min_size=2, max_size=7),
    st.integers(2, 5),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_episodes_hold_labelled_rows_and_other_queries(counts, n_ways, n_shots, seed):
    rng = np.random.default_rng(seed)
    dataset = table(rng, counts, 4)
    sampler = NWayKShot(Vectors(4), n_ways=n_ways, n_shots=n_shots, n_queries=6)
    episode = sampler.draw(dataset, rng)
    support, query = (x[:, 0].astype(int) for x in (episode.support, episode.query))
    n_classes = min(n_ways, len(counts))
    assert set(episode.labels) == set(range(n_classes))
    # Each code of the episode stands for one class.
    of = {code: set(dataset.y[support[episode.labels == code]]) for code in range(n_classes)}
    assert all(len(classes) == 1 for classes in of.values())
    assert len(set.union(*of.values())) == n_classes
    for code, (c,) in of.items():  # a row repeats only if its class has no other
        rows, known = support[episode.labels == code], min(n_shots, max(counts[c] - 1, 1))
        assert len(set(rows)) == min(len(rows), known)
        times = np.unique(rows, return_counts=True)[1]
        assert np.ptp(times) <= 1  # all equally often
    asked = episode.target != IGNORE
    assert asked.any()
    assert not set(query[asked]) & set(support)
    assert len(set(query[asked])) == asked.sum()
    for row, code in zip(query[asked], episode.target[asked]):
        assert {dataset.y[row]} == of[code]


def test_queries_are_of_any_class_and_row():
    rng = np.random.default_rng(0)
    dataset = table(rng, [3] * 5, 4)
    episodes = [NWayKShot(Vectors(4), n_ways=3, n_queries=2).draw(dataset, rng) for _ in range(600)]
    for places, n in (
        (np.concatenate([episode.target for episode in episodes]), 3),
        (np.concatenate([episode.query[:, 0] for episode in episodes]).astype(int), 15),
        (np.concatenate([episode.support[:, 0] for episode in episodes]).astype(int), 15),
    ):
        shares = np.bincount(places, minlength=n) / len(places)
        assert_allclose(shares, 1 / n, atol=0.06)  # four standard errors


def test_episodes_are_batched_and_told_apart_by_their_ways():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="n_known must be a whole number"):
        TableEpisodes(5, n_known=(0, 5))
    assert TableEpisodes(5, n_known=5).n_known == (5,)
    sampler = TableEpisodes(5, n_ways=4, n_shots=2, n_queries=3)
    episodes = [sampler.draw(table(rng, [6] * 4, 7), rng) for _ in range(40)]
    inputs, target = sampler.collate(episodes)
    assert inputs["support"].shape == (40, 8, 5) and inputs["query"].shape == (40, 3, 5)
    assert target.shape == (40, 3) and inputs["labels"].dtype == torch.int64
    strata = sampler.strata(inputs)
    assert strata == [len(set(e.labels)) for e in episodes] and set(strata) == {2, 3, 4}
    full = NWayKShot(Vectors(7), n_ways=4)
    few = NWayKShot(Vectors(7), n_ways=4, fewer_classes=1.0)
    for drawn, ways in ((full, {4}), (few, {2, 3, 4})):
        found = {len(set(drawn.draw(table(rng, [6] * 9, 7), rng).labels)) for _ in range(40)}
        assert found == ways


def test_regression_tables_are_cut_into_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    episode = TableEpisodes(5).draw(Dataset("table", X, X[:, 0].astype(float)), rng)
    assert set(episode.target) <= set(range(5)) | {IGNORE}


@pytest.mark.parametrize("seed", range(10))
def test_a_target_of_which_one_value_is_apart_is_two_classes(seed):
    X = np.arange(10, dtype=np.float32)[:, None]
    dataset = Dataset("t", X, np.where(X[:, 0] == 3, 1.7, 0.5).astype(np.float32))
    episode = NWayKShot(Vectors(1), n_ways=2, n_queries=3).draw(
        dataset, np.random.default_rng(seed)
    )
    of_one, of_rest = sorted(
        episode.labels, key=lambda c: 3 not in episode.support[episode.labels == c]
    )
    assert 3 in episode.support[episode.labels == of_one]
    assert (episode.target == of_rest).all()
    assert not set(episode.query.ravel()) & set(episode.support.ravel())


def test_episodes_of_tables_are_those_of_the_estimator(monkeypatch):
    """Meta-training sees rows as the estimator does: standardised, and here also rotated."""
    X, y = make_blobs([4, 4, 4], 5, random_state=0)
    X[:, 3] = 7.0  # constant
    Z = ((X - X.mean(0)) / np.where(X.std(0) > 1e-9, X.std(0), 1))[:, [0, 1, 2, 4]]

    def gram(vectors):  # rotations and orders keep distances
        return np.sort(np.square(vectors[:, None] - vectors[None]).sum(-1).ravel())

    expected = gram(Z) * 6 / 4  # four columns in six outputs
    sampler = TableEpisodes(6, n_ways=3, n_known=(4,), column_subset=0, n_shots=4, fewer_classes=0)
    dataset = Dataset("table", np.vstack([X, X + 100]).astype(np.float32), np.append(y, y))
    rng = np.random.default_rng(0)
    draws = (sampler._read(dataset.X, dataset.y, 12, rng)[:12] for _ in range(3))
    for vectors in draws:
        assert_allclose(gram(vectors), expected, rtol=1e-4, atol=1e-4)
    asked = []
    compare = FewShotLearner.compare

    def spy(self, support, labels, query):
        asked.append(support[0].numpy())
        return compare(self, support, labels, query)

    monkeypatch.setattr(FewShotLearner, "compare", spy)
    classifier(n_shots=4, dtype="float64").fit(X, y).predict_proba(X + 100)
    assert len(asked) == 3
    for vectors in asked:
        assert_allclose(gram(vectors), expected, rtol=1e-6, atol=1e-9)


# Tournaments


@given(st.integers(2, 40), st.integers(2, 6), st.integers(1, 5), st.integers(0, 99))
def test_a_tournament_under_luces_axiom_finds_the_odds(n_classes, n_ways, n_queries, seed):
    generator = torch.Generator().manual_seed(seed)
    odds = torch.randn(n_queries, n_classes, generator=generator, dtype=torch.float64)
    met = []

    def contest(classes):
        met.append(classes.expand(n_queries, -1))
        return odds.gather(1, met[-1]).log_softmax(1)

    order = torch.randperm(n_classes, generator=generator)[None]
    found = play(contest, order, n_ways)[:, order[0].argsort()]
    torch.testing.assert_close(found.softmax(1), odds.softmax(1))
    assert max(classes.shape[1] for classes in met) <= n_ways
    assert (met[-1] == odds.argmax(1, keepdim=True)).any(1).all()  # winners play on


# Properties


@st.composite
def tasks(draw):
    """Labelled rows with gaps, and new rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n_classes, n_columns = draw(st.integers(2, 8)), draw(st.integers(1, 9))
    y = np.concatenate(
        [np.arange(n_classes), rng.integers(n_classes, size=draw(st.integers(0, 6)))]
    )
    X = rng.normal(size=(len(y) + 3, n_columns)) * rng.lognormal(size=n_columns)
    X[rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    X[0] = 1.0  # something is observed
    return X[:-3], y, X[-3:]


@pytest.mark.parametrize("backbone", FEW_SHOT_BACKBONES)
@settings(max_examples=8, deadline=None)
@given(task=tasks(), n_shots=st.integers(1, 2))
def test_predictions_do_not_depend_on_each_other(backbone, task, n_shots):
    X, y, new = task
    parameters = {"n_shots": n_shots, "n_estimators": 2, "dtype": "float64"}
    estimator = classifier(backbone, **parameters).fit(X, y)
    found = estimator.predict_proba(new)
    assert found.shape == (3, y.max() + 1)
    assert_allclose(found.sum(1), 1)
    assert_array_equal(estimator.predict_proba(new), found)
    close = {"rtol": 1e-8, "atol": 1e-10}
    assert_allclose(estimator.predict_proba(new[::-1])[::-1], found, **close)
    alone = [estimator.predict_proba(new[i : i + 1]) for i in range(3)]
    assert_allclose(np.concatenate(alone), found, **close)
    assert_allclose(estimator.set_params(chunk_size=2).predict_proba(new), found, **close)
    one_by_one = clone(estimator).set_params(chunk_size=1).fit(X, y)
    assert_allclose(one_by_one.predict_proba(new), found, **close)


@settings(max_examples=10, deadline=None)
@given(task=tasks(), a=st.floats(0.1, 100), b=st.floats(-100, 100))
def test_units_do_not_matter(task, a, b):
    X, y, new = task
    found = classifier(dtype="float64").fit(X, y).predict_proba(new)
    other = classifier(dtype="float64").fit(a * X + b, y).predict_proba(a * new + b)
    assert_allclose(other, found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("exponent", [-900, 900])
def test_values_may_be_as_far_apart_as_float64_has_them(exponent):
    """The squares of such values overflow; scaling by a power of two changes no bit."""
    X, y = make_blobs(12, 4, random_state=0)
    found = classifier(dtype="float64").fit(X, y).predict_proba(X[:5] + 1)
    scaled = classifier(dtype="float64").fit(np.ldexp(X, exponent), y)
    assert_array_equal(scaled.predict_proba(np.ldexp(X[:5] + 1, exponent)), found)


@pytest.mark.parametrize("counts", [[2, 8, 3], [5, 6], [3, 2, 5, 1]])
@pytest.mark.parametrize("n_shots", [1, 2])
def test_every_labelled_row_is_used(counts, n_shots):
    """There are more members than asked for if it takes more to read all rows."""
    X, y = make_blobs(counts, 6, random_state=0)
    settings = {"n_estimators": 1, "dtype": "float64", "inputs": "vectors", "n_shots": n_shots}
    estimator = classifier(**settings).fit(X, y)
    found = estimator.predict_proba(X[:2])
    for i in range(len(X)):
        estimator.X_ = X.copy()
        estimator.X_[i] += 0.5 * X.std(0) * [1, -1, 1, -1, 1, -1]
        assert not np.allclose(estimator.predict_proba(X[:2]), found, rtol=1e-9, atol=0), i


def test_of_columns_that_do_not_vary_nothing_is_learned():
    X, y, new = np.ones((4, 3)), np.arange(4) % 2, np.random.default_rng(0).normal(size=(5, 3))
    found = classifier(dtype="float64").fit(X, y).predict_proba(new)
    assert_allclose(found, found[:1].repeat(5, 0))
    assert_allclose(found.sum(1), 1)


def test_no_more_members_than_it_takes_to_read_all_rows():
    """Each of two classes takes at least two of five places; the next member continues there."""
    X, y = make_blobs([8, 8], 6, random_state=0)
    learner = small_learner(inputs="vectors", n_ways=5)
    estimator = FewShotTransformerClassifier(learner, n_estimators=1).fit(X, y)
    members = estimator._members(estimator._module(estimator.learner_))
    assert len(members) == 4
    taken = torch.cat([rows[:, :2] for rows in members], 1)
    assert_array_equal(taken.sort(1).values, [np.flatnonzero(y == c) for c in (0, 1)])


def test_no_class_is_preferred():
    """If all rows are equal, classes get equal votes, even if places are left over."""
    X, y = np.ones((4, 6)), np.arange(4) % 2
    learner = small_learner("transformer", "vectors", n_ways=5)
    for m in (2, 16):
        estimator = FewShotTransformerClassifier(learner, n_estimators=m).fit(X, y)
        assert_allclose(estimator.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-4)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_classes_with_more_labelled_rows_are_likelier(counts):
    """Votes grow with a class's number of rows, plus one; equal numbers prefer no class."""
    y = np.repeat(np.arange(len(counts)), counts)
    learner = small_learner("transformer", "vectors", n_ways=len(counts))
    estimator = FewShotTransformerClassifier(learner, n_estimators=2)
    found = estimator.fit(np.ones((len(y), 6)), y).predict_proba(np.ones((1, 6)))[0]
    expected = (np.array(counts) + 1) ** (min(np.sqrt(np.mean(counts)), 3) / 4)
    assert_allclose(found, expected / expected.sum(), atol=1e-4)


@pytest.mark.parametrize("n_shots", [1, 4, 100])
def test_with_more_labelled_rows_of_each_class_it_is_surer(n_shots, monkeypatch):
    X, y = make_blobs(n_shots * 3, 6, centers=3, random_state=0)
    y = np.arange(len(y)) % 3
    estimator = FewShotTransformerClassifier(small_learner(), n_estimators=2).fit(X, y)
    found = estimator.predict_proba(X[:5])
    monkeypatch.setattr(estimator, "_beyond_episodes", lambda told: told)
    told = estimator.predict_proba(X[:5]) ** {1: 1, 4: 2, 100: 3}[n_shots]
    assert_allclose(found, told / told.sum(1, keepdims=True), atol=1e-12)


def test_rare_classes_are_not_taken_for_frequent_ones():
    """One real row in nine is rare; when both classes counted alike, the score was 0.77."""
    X, y = load_breast_cancer(return_X_y=True)
    scores, rare, constant = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        kept = rng.permutation(np.r_[rng.permutation(np.flatnonzero(y == 0))[:45], y.nonzero()[0]])
        train, test = kept[:100], kept[100:]
        few = FewShotTransformerClassifier().fit(X[train], y[train])
        scores.append(few.score(X[test], y[test]))
        rare.append(recall_score(y[test], few.predict(X[test]), pos_label=0))
        constant.append(y[test].mean())
    assert np.mean(scores) > np.mean(constant) and np.mean(rare) > 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backbone", FEW_SHOT_BACKBONES)
def test_a_gpu_says_the_same(backbone):
    X, y = make_blobs(30, 4, centers=4, random_state=0)
    cpu, gpu = (
        classifier(backbone, dtype="float64", device=device).fit(X, y).predict_proba(X)
        for device in ("cpu", "cuda")
    )
    assert_allclose(cpu, gpu, rtol=1e-6, atol=1e-9)


def test_variance_over_orders_falls_with_the_members():
    X, y = make_blobs([1] * 5, 6, random_state=0)
    new = np.random.default_rng(0).normal(size=(20, 6)) * X.std(0) + X.mean(0)

    def variance(m):
        found = [
            classifier(inputs="vectors", n_estimators=m, random_state=seed)
            .fit(X, y)
            .predict_proba(new)
            for seed in range(30)
        ]
        return np.var(found, 0).mean()

    one = variance(1)
    assert one > 1e-4
    assert variance(8) == pytest.approx(one / 8, rel=0.35)


def test_classes_in_any_order_and_of_any_type():
    X, y = make_blobs(30, 4, centers=4, random_state=0)
    first = classifier().fit(X, y)
    named = classifier().fit(X, np.array(["delta", "alpha", "beta", "gamma"])[y])
    assert named.classes_.tolist() == ["alpha", "beta", "delta", "gamma"]
    assert set(named.predict(X)) <= set(named.classes_)
    assert_array_equal(first.classes_[first.predict_proba(X).argmax(1)], first.predict(X))
    assert -1 in classifier().fit(X, y - 1).classes_


def test_two_classes_and_one_row_each():
    X, y = make_blobs([1, 1], 4, random_state=0)
    found = classifier(n_shots=4).fit(X, y).predict_proba(X)  # three ways with four shots
    assert found.shape == (2, 2) and np.isfinite(found).all()


# As scikit-learn's


def test_pipelines_searches_and_scores():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), classifier())
    assert cross_val_score(pipeline, X, y, cv=3, error_score="raise").shape == (3,)
    search = GridSearchCV(pipeline, {"fewshottransformerclassifier__n_estimators": [1, 2]}, cv=2)
    assert search.fit(X, y).best_score_ > 0


def test_frames_with_categories_and_gaps():
    frame = pd.DataFrame({"a": [1.0, 2, None, 4], "b": pd.Categorical(["x", "y", "x", None])})
    estimator = classifier().fit(frame, ["p", "q", "p", "q"])
    assert estimator.predict(frame).shape == (4,)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]


def test_clones_and_pickles_keep_what_was_meta_learned():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    estimator = FewShotTransformerClassifier("few_shot_transformer", n_estimators=2)
    with pytest.raises(NotFittedError, match="call meta_fit"):
        estimator.fit(X, y)
    estimator.meta_fit([(X, y)], max_steps=2, batch_size=2, verbose=False).fit(X, y)
    assert clone(estimator).learner_ is estimator.learner_
    again = pickle.loads(pickle.dumps(estimator))
    assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))
    assert hasattr(estimator.set_params(backbone="snail"), "learner_") is False


@pytest.mark.parametrize("begin", ["vectors", "tables"])
def test_labelled_rows_are_for_networks_of_the_same_inputs(begin):
    """``meta_fit`` of another network may leave rows behind which that network cannot read."""
    X, y = hidden_classes(0)
    vectors = small_learner("transformer", "vectors", n_inputs=8, n_ways=5)
    first, second = (vectors, "transformer") if begin == "vectors" else ("transformer", vectors)
    settings = {"max_steps": 1, "batch_size": 2, "verbose": False}
    estimator = FewShotTransformerClassifier(first, n_estimators=2)
    estimator.meta_fit([(X, y)], **settings).fit(X, y)
    before = estimator.predict_proba(X)
    estimator.meta_fit([(X, y)], **settings)  # the same network: the rows stay
    assert not np.array_equal(estimator.predict_proba(X), before)
    estimator.set_params(backbone=second).meta_fit([(X, y)], **settings)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    assert estimator.fit(X, y).predict(X).shape == y.shape


def hidden_classes(seed):
    """Two of eight columns tell the classes; the others are larger."""
    X, y = make_blobs(60, 2, centers=5, cluster_std=0.5, random_state=seed)
    noise = np.random.default_rng(seed).uniform(-1, 1, (60, 6)) ** 3
    return np.hstack([X / 10, noise]), y


def test_meta_fit_learns_and_is_saved(tmp_path):
    learner = small_learner("transformer", "vectors", n_inputs=8, n_ways=5)
    settings = {"validation_datasets": list(map(hidden_classes, range(90, 95))), "verbose": False}
    estimator = FewShotTransformerClassifier(learner, random_state=0)
    X, y = hidden_classes(99)
    before = estimator.fit(X[:20], y[:20]).score(X[20:], y[20:])
    estimator.meta_fit(
        list(map(hidden_classes, range(30))),
        max_steps=60,
        eval_every=30,
        schedule="noam",
        learning_rate=5e-3,
        **settings,
    )
    after = estimator.fit(X[:20], y[:20]).score(X[20:], y[20:])
    assert before < 0.7 and after > before + 0.15
    assert estimator.history_[-1, "valid_loss"] < estimator.history_[0, "valid_loss"]
    loaded = FewShotTransformerClassifier(
        estimator.save_pretrained(tmp_path, data="made up"), random_state=0
    )
    assert_array_equal(loaded.fit(X[:20], y[:20]).predict_proba(X), estimator.predict_proba(X))


def test_rows_that_are_vectors_have_no_encoder():
    X, y = hidden_classes(0)
    estimator = FewShotTransformerClassifier(n_estimators=1).fit(X, y)
    assert estimator.encoder_.transform(X).shape[0] == len(X)
    vectors = small_learner("transformer", "vectors", n_inputs=8, n_ways=5)
    estimator.set_params(backbone=vectors).fit(X, y)
    assert not hasattr(estimator, "encoder_")


def test_a_fit_that_fails_leaves_nothing_of_the_one_before():
    X, y = load_iris(return_X_y=True)
    estimator = classifier().fit(X, y)
    with pytest.raises(ValueError, match="only one class"):
        estimator.fit(X, np.zeros(len(X)))
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    with pytest.raises(NotFittedError):
        classifier().fit(X, y).set_params(backbone="snail").predict(X)
    with pytest.raises(NotFittedError):
        classifier("transformer").meta_fit([(X, y)], max_steps=1, verbose=False).predict(X)


def test_the_callers_rows_are_not_kept():
    X, y = make_blobs(20, 6, random_state=0)
    estimator = classifier(inputs="vectors").fit(X, y)
    new = X + 0.1
    found = estimator.predict_proba(new)
    X[:] = 0
    assert_array_equal(estimator.predict_proba(new), found)


def test_pictures_by_their_pixels():
    learner = small_learner(inputs="images", n_inputs=256, encoder_config={"n_filters": 4})
    rng = np.random.default_rng(0)
    X, y = rng.random((12, 256)), np.arange(12) % 4
    estimator = FewShotTransformerClassifier(learner, n_estimators=2, chunk_size=5).fit(X, y)
    assert estimator.predict_proba(X).shape == (12, 4)
    source = Dataset("pictures", X.astype(np.float32), y)
    sampler = NWayKShot(Vectors(256), n_ways=3)

    class Source:
        def draw(self, rng):
            return source

    learner.requires_grad_(True)
    before = learner.encoder.blocks[0][0].weight.clone()
    meta_train(learner, Source(), sampler, max_steps=2, batch_size=2, verbose=False)
    assert not torch.equal(learner.encoder.blocks[0][0].weight, before)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 2)), [1, 1, 1], "only one class"),
        (np.zeros((0, 2)), [], "0 sample"),
        ([[1.0, np.inf], [0.0, 1.0]], [0, 1], "infinity"),
        (np.zeros((3, 2)), [0, 1], "inconsistent numbers of samples"),
        (np.zeros((3, 2)), [0.5, 0.25, 0.1], "continuous"),
    ],
)
def test_bad_tasks(X, y, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, y)


def test_bad_queries_and_settings():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(NotFittedError, match="not fitted yet"):  # a query without support
        classifier().predict(X)
    with pytest.raises(ValueError, match="expecting 4 features"):
        classifier().fit(X, y).predict(X[:, :3])
    with pytest.raises(ValueError, match="4 features.*is expecting 784"):  # wrong image size
        learner = small_learner(inputs="images", n_inputs=784)
        FewShotTransformerClassifier(learner).fit(X, y)
    with pytest.raises(ValueError, match=r"Pixels must be in \[0, 1\].*divide by 255"):
        learner = small_learner(inputs="images", n_inputs=256)
        FewShotTransformerClassifier(learner).fit(np.full((2, 256), 255.0), [0, 1])
    for large in (1e39, -1e39):
        with pytest.raises(ValueError, match="too large for float32"):
            classifier(inputs="vectors").fit(np.full((2, 6), large), [0, 1])
    with pytest.raises(ValueError, match="Every cell of X is missing"):
        classifier().fit(np.full((2, 6), np.nan), [0, 1])
    with pytest.raises(ValueError, match="leave n_shots out"):
        classifier().meta_fit([(X, y)], n_shots=(1,))
    with pytest.raises(ValueError, match="rows of 784 values, but the network is expecting 6"):
        classifier(inputs="vectors").meta_fit([(X, y)], vectors=Vectors(784))
    with pytest.raises(ValueError, match="backbone must be a FewShotLearner"):
        FewShotTransformerClassifier(torch.nn.Linear(4, 4)).fit(X, y)
    with pytest.raises(ValueError, match="n_estimators"):
        classifier(n_estimators=0).fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        classifier().fit(X, None)
    with pytest.raises(ValueError, match="'dtype' parameter.*'float(32|64)'.*Got 'bfloat16'"):
        classifier(dtype="bfloat16").fit(X, y)
    with pytest.raises(ValueError, match="meta-trained for online_classification"):
        FewShotTransformerClassifier("default_mann").fit(X, y)
    with pytest.raises(ValueError, match="schedule must be one of"):
        classifier().meta_fit([(X, y)], schedule="step", max_steps=1, verbose=False)


@pytest.mark.filterwarnings("error")
def test_rows_may_be_views_and_read_only():
    pixels = np.random.default_rng(0).random((10, 784))
    few = FewShotTransformerClassifier("omniglot_few_shot", n_estimators=1)
    few.fit(pixels, np.arange(10) % 5)
    expected = few.predict_proba(pixels[::-1].copy())
    assert_allclose(few.predict_proba(pixels[::-1]), expected, atol=1e-6)
    pixels.flags.writeable = False
    assert_allclose(few.predict_proba(pixels)[::-1], expected, atol=1e-6)


def test_a_fit_on_no_device_leaves_nothing_of_the_one_before():
    X, y = np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) % 2
    fitted = FewShotTransformerClassifier().fit(X, y).set_params(device="fpga")
    with pytest.raises(ValueError, match="device='fpga' cannot be used"):
        fitted.fit(X, y)
    with pytest.raises(NotFittedError):
        fitted.set_params(device="cpu").predict(X)


def test_images_are_meta_trained_on_what_renders_them():
    images = np.zeros((6, 28, 28, 3), dtype=np.uint8)
    source = ImageClasses(images, [0, 0, 1, 1, 2, 2], ["a", "b", "c"])
    settings = {"n_inputs": 3 * 28 * 28, "encoder_config": {"n_channels": 3}}
    learner = FewShotLearner(inputs="images", **settings)
    with pytest.raises(
        ValueError, match=r"reads rows of 2352 pixels.*uint8.*vectors=Pictures\(side"
    ):
        FewShotTransformerClassifier(learner).meta_fit(source, max_steps=1)


@pytest.mark.parametrize(
    "made, message",
    [
        (
            lambda X, classes, rng: X[:, :100] / 255,
            r"shape \(12, 784\).*float64 of shape \(12, 100\)",
        ),
        (lambda X, classes, rng: np.full(X.shape, "a"), "but returned <U1 of"),
        (
            lambda X, classes, rng: X,
            "in .0, 1., but vectors returned 0 to 255 for 'mine': bytes must be 0 to 255",
        ),
        (
            lambda X, classes, rng: X / 255 / 255,
            "returned 0 to 0.00392157 for 'mine': bytes must",
        ),
        ("drawings", "vectors must be a callable, such as Drawings.28., or None, got 'drawings'"),
        (Drawings, "vectors must be a callable"),
        (Drawings(27), "makes rows of 729 values, but the network is expecting 784"),
    ],
)
@pytest.mark.parametrize(
    "estimator",
    [
        FewShotTransformerClassifier("omniglot_few_shot"),
        MANNClassifier(MemoryLearner("mann", inputs="pixels", n_inputs=784)),
    ],
)
def test_vectors_that_the_network_does_not_read(estimator, made, message):
    images = np.random.default_rng(0).integers(2, size=(12, 784)).astype(np.uint8) * 255
    source = Dataset("mine", images, np.arange(12) % 3)
    with pytest.raises(ValueError, match=message):
        estimator.meta_fit([source], vectors=made, max_steps=1, verbose=False)


@pytest.mark.parametrize("shape", [Drawings, Pictures])
def test_ink_of_one_is_told(shape):
    """Bytes of 0 and 1 would be rendered as pictures with hardly any ink."""
    images = np.random.default_rng(0).integers(2, size=(12, 784), dtype=np.uint8)
    vectors = shape(28) if shape is Drawings else shape(28, 1)
    few = FewShotTransformerClassifier("omniglot_few_shot")
    with pytest.raises(ValueError, match="vectors returned 0 to 0.00.*bytes must be 0 to 255"):
        few.meta_fit([Dataset("mine", images, np.arange(12) % 3)], vectors=vectors, max_steps=1)


def test_vectors_may_be_any_function():
    """They may return any floats, for both kinds of networks."""
    images = np.random.default_rng(0).integers(256, size=(12, 784)).astype(np.uint8)
    source, quick = Dataset("mine", images, np.arange(12) % 3), {"max_steps": 1, "batch_size": 2}
    learner = small_learner(inputs="images", n_inputs=784)
    mann = MemoryLearner("mann", inputs="pixels", n_inputs=784, backbone_config={"width": 8})
    for made in (FewShotTransformerClassifier(learner), MANNClassifier(mann)):
        made.meta_fit([source], vectors=lambda X, classes, rng: X / 255, verbose=False, **quick)
        assert np.isfinite(made.history_[-1]["train_loss"])
    few = FewShotTransformerClassifier(small_learner("transformer", "vectors", n_inputs=784))
    few.meta_fit([source], vectors=lambda X, classes, rng: X / 50 - 2, verbose=False, **quick)
    assert np.isfinite(few.history_[-1]["train_loss"])


def test_vectors_may_know_few_classes_and_pictures_may_be_blank():
    """The check before training renders with two classes only, and blank pictures are no fault."""
    images = np.random.default_rng(0).integers(256, size=(40, 784)).astype(np.uint8)
    images[::3] = 0
    fade, learner = np.linspace(0.5, 1, 5), small_learner(inputs="images", n_inputs=784)
    quick = {"max_steps": 1, "batch_size": 2, "verbose": False}
    few = FewShotTransformerClassifier(learner)
    made = few.meta_fit(
        [
            Dataset("mine", images, np.arange(40) % 4),
            Dataset("blank", 0 * images, np.arange(40) % 4),
        ],
        vectors=lambda X, classes, rng: X / 255 * fade[classes][:, None],
        **quick,
    )
    assert np.isfinite(made.history_[-1]["train_loss"])


def test_only_pixels_that_were_divided_twice_are_too_dark():
    dark = np.random.default_rng(0).integers(2, size=(6, 784)) * 2 / 255
    learner = small_learner(inputs="images", n_inputs=784)
    few = FewShotTransformerClassifier(learner).fit(dark, np.arange(6) % 2)
    assert np.isfinite(few.predict_proba(dark)).all()
    with pytest.raises(ValueError, match="only 0.00392157: have they been divided by 255 twice"):
        few.predict(dark / 2)


@pytest.mark.parametrize(("least", "most"), [(-5e-7, 1), (0, 1 + 5e-7)])
def test_interpolation_may_leave_pixels_a_rounding_error_outside(least, most):
    pixels = np.random.default_rng(0).random((6, 784))
    pixels[0, :2] = least, most
    few = FewShotTransformerClassifier(small_learner(inputs="images", n_inputs=784))
    assert np.isfinite(few.fit(pixels, np.arange(6) % 2).predict_proba(pixels)).all()
    with pytest.raises(ValueError, match="Pixels must be in"):
        few.predict(pixels - 0.01)
    with pytest.raises(ValueError, match="Pixels must be in"):
        few.predict(pixels + 0.01)


def test_colours_are_read_channel_after_channel():
    """Bytes that come pixel by pixel would, divided by 255 alone, be another picture."""
    images = np.random.default_rng(0).integers(256, size=(4, 16, 16, 3)).astype(np.uint8)
    learner = small_learner(inputs="images", n_inputs=768, encoder_config={"n_channels": 3})
    few, X, y = FewShotTransformerClassifier(learner), images.reshape(4, -1), [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"0 to 255: .*pixel by pixel.*Pictures\(side, 3\)\(X\)"):
        few.fit(X, y)
    expected = few.fit(images.transpose(0, 3, 1, 2).reshape(4, -1) / 255, y).predict_proba(
        images[:2].transpose(0, 3, 1, 2).reshape(2, -1) / 255
    )
    render = Pictures(16)
    assert_allclose(few.fit(render(X), y).predict_proba(render(X[:2])), expected, atol=1e-6)


def test_pairs_are_meta_trained_on_as_fit_reads_them():
    """Networks of vectors read the rows as they are; rendering reads bytes."""

    def weights(source, vectors):
        learner = small_learner("transformer", "vectors", n_inputs=8, n_ways=5)
        estimator = FewShotTransformerClassifier(learner, random_state=0)
        settings = {"max_steps": 2, "eval_every": 2, "batch_size": 4, "verbose": False}
        estimator.meta_fit(source, vectors=vectors, validation_datasets=source, **settings)
        return dict(estimator.learner_.named_parameters())

    tables = [(X / 20 + 2, y) for X, y in map(hidden_classes, range(3))]
    drawings = [(np.uint8(255 * (abs(X) > 1)), y) for X, y in tables]
    for pairs, dtype, vectors in ((tables, "f4", None), (drawings, "u1", Pictures(2, 2))):
        datasets = [Dataset(str(i), X.astype(dtype), y) for i, (X, y) in enumerate(pairs)]
        torch.testing.assert_close(weights(pairs, vectors), weights(datasets, vectors))


def test_validation_images_are_checked_too():
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 784)), np.arange(20) % 5
    X[0, 0] = 1 + 1e-7  # as interpolation rounds
    few = FewShotTransformerClassifier("omniglot_few_shot", n_estimators=1)
    few.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="reads rows of .* pixels.*0.0.* to 255"):
        few.meta_fit([(X, y)], validation_datasets=[(X * 255, y)], max_steps=1, verbose=False)
