"""Weights, parameters or modules that change after ``fit`` leave nothing stale."""

import copy
import pickle
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sklearn_meta import (
    AmortizedGMM,
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaLSTMClassifier,
    MetaLSTMTagger,
    MetaSemiSupervisedClassifier,
    tables,
)
from sklearn_meta.backbones import VSA
from sklearn_meta.devices import usable_device
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.inspection import EmbeddingDisplay
from sklearn_meta.learner import Learner
from sklearn_meta.memory.base import _of_tensors
from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor
from sklearn_meta.weights import load_learner

X, Y = load_wine(return_X_y=True)
FEW = np.r_[0:4, 60:64, 140:144]
TARGET = load_diabetes(return_X_y=True)
QUICK = {"max_steps": 2, "batch_size": 2, "learning_rate": 5e-3, "verbose": False}


def answers(estimator):
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)
    return getattr(estimator, "score_samples", estimator.predict)(X)


def fitted(kind, **parameters):
    labels = X[FEW, 3] if kind is MetaGPRegressor else Y[FEW]
    return kind(**parameters).fit(X[FEW], labels)


KINDS = {
    MetaSemiSupervisedClassifier: {"transductive": False},
    MetaGPRegressor: {"transductive": False},
    AmortizedOutlierDetector: {},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_meta_fit_after_fit_is_what_predict_uses(kind):
    estimator = fitted(kind, **KINDS[kind], random_state=0)
    before = answers(estimator)
    data = [TARGET] if kind is MetaGPRegressor else [load_iris(return_X_y=True)]
    estimator.meta_fit(data, **QUICK)
    after = answers(estimator)
    assert not np.allclose(after, before)
    np.testing.assert_allclose(answers(pickle.loads(pickle.dumps(estimator))), after, atol=1e-12)
    labels = X[FEW, 3] if kind is MetaGPRegressor else Y[FEW]
    np.testing.assert_allclose(answers(estimator.fit(X[FEW], labels)), after, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_another_dtype_after_fit(kind, dtype):
    estimator = fitted(kind, **KINDS[kind])
    before = answers(estimator)
    after = answers(estimator.set_params(dtype=dtype))
    np.testing.assert_array_equal(after, answers(fitted(kind, **KINDS[kind], dtype=dtype)))
    assert estimator.transform(X[:2]).dtype == np.float64
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("kind", [MetaSemiSupervisedClassifier, MetaGPRegressor])
def test_another_mode_after_fit(kind):
    for first in (False, True):
        estimator = fitted(kind, transductive=first).set_params(transductive=not first)
        np.testing.assert_array_equal(
            answers(estimator), answers(fitted(kind, transductive=not first))
        )


def test_a_context_is_that_of_the_last_fit():
    estimator = fitted(MetaSemiSupervisedClassifier, transductive=False)
    estimator.set_params(transductive=True).fit(X, (Y + 1) % 3)
    estimator.set_params(transductive=False)
    assert estimator.score(X, (Y + 1) % 3) > 0.9


@pytest.mark.parametrize("transductive", [False, True])
def test_what_rows_of_fit_are_told_is_computed_once_for_each_reader(transductive, monkeypatch):
    marked = np.where(np.isin(np.arange(len(Y)), FEW), Y, -1)
    estimator = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    estimator.fit(X, marked)
    reads = Mock(side_effect=estimator._read_unlabelled)
    monkeypatch.setattr(estimator, "_read_unlabelled", reads)
    first = estimator.label_distributions_
    first[:] = 0  # the copy belongs to the caller
    assert (estimator.transduction_[FEW] == Y[FEW]).all()
    assert reads.call_count == 1
    as_float32 = estimator.label_distributions_
    estimator.dtype = "float64"
    assert 0 < np.abs(estimator.label_distributions_ - as_float32).max() < 1e-3
    estimator.dtype = "float32"
    np.testing.assert_array_equal(estimator.label_distributions_, as_float32)
    estimator.dtype = "bfloat16"  # uses the same module as float32
    assert not np.array_equal(estimator.label_distributions_, as_float32)
    estimator.backbone = "prior"
    assert np.abs(estimator.label_distributions_ - as_float32).max() > 1e-3
    assert reads.call_count == 5
    monkeypatch.undo()
    assert len(pickle.dumps(estimator)) < len(pickle.dumps((X, marked))) + 5_000
    assert len(estimator.fit(X[:150], marked[:150]).transduction_) == 150


def test_other_weights_after_fit():
    estimator = fitted(MetaSemiSupervisedClassifier, transductive=False)
    estimator.set_params(backbone="prior")
    other = fitted(MetaSemiSupervisedClassifier, backbone="prior", transductive=False)
    np.testing.assert_array_equal(answers(estimator), answers(other))


def scaled(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.data.mul_(1.5)


@pytest.mark.parametrize("transductive", [False, True])
def test_a_module_of_ones_own_may_be_trained_on(transductive):
    torch.manual_seed(0)
    learner = Learner(backbone_config={"width": 8, "n_layers": 1})
    parameters = {"backbone": learner, "transductive": transductive}
    estimator = fitted(MetaSemiSupervisedClassifier, **parameters)
    before = answers(estimator)
    np.testing.assert_array_equal(answers(estimator), before)
    scaled(learner)
    after = answers(fitted(MetaSemiSupervisedClassifier, **parameters))
    assert not np.allclose(after, before)
    np.testing.assert_array_equal(answers(estimator), after)


@pytest.mark.parametrize(
    "again",
    [
        copy.deepcopy,
        lambda e: pickle.loads(pickle.dumps(e)),
        lambda e: clone(e).fit(X[FEW], Y[FEW]),
    ],
    ids=["deepcopy", "pickle", "clone"],
)
@pytest.mark.parametrize("bare", [False, True], ids=["learner", "backbone"])
def test_a_copy_reads_its_own_module(again, bare):
    torch.manual_seed(0)
    given = Learner(backbone_config={"width": 8, "n_layers": 1})
    original = fitted(MetaSemiSupervisedClassifier, backbone=given.backbone if bare else given)
    estimator = again(original)
    before = answers(estimator)
    scaled(original.backbone)
    np.testing.assert_array_equal(answers(estimator), before)
    scaled(estimator.backbone)
    assert not np.allclose(answers(estimator), before)


def test_meta_fit_of_a_module_does_not_mind_that_fit_has_read_it():
    def trained(fit_first):
        torch.manual_seed(0)
        estimator = MetaGPRegressor(VSA(width=8, n_layers=1), random_state=0)
        if fit_first:
            estimator.fit(X[FEW], X[FEW, 3])
        estimator.meta_fit({"diabetes": TARGET}, **QUICK)
        return clone(estimator).fit(X[FEW], X[FEW, 3]).predict(X)  # what was learned stays

    np.testing.assert_array_equal(trained(True), trained(False))


@pytest.mark.parametrize("n", [np.int64(100), np.uint8(200)])
@pytest.mark.parametrize("transductive", [False, True])
def test_sizes_of_chunks_may_be_of_numpy(transductive, n):
    parameters = {"backbone": "prototypes", "transductive": transductive}
    tall = np.repeat(X, 2, axis=0)  # more rows than uint8 counts
    by_numpy, by_python = (
        MetaSemiSupervisedClassifier(**parameters, chunk_size=size).fit(X[FEW], Y[FEW])
        for size in (n, int(n))
    )
    np.testing.assert_array_equal(by_numpy.predict_proba(tall), by_python.predict_proba(tall))


@pytest.mark.parametrize("kind", [MANNClassifier, FewShotTransformerClassifier])
def test_sizes_of_chunks_of_others_may_be_of_numpy(kind):
    tall = np.repeat(X, 2, axis=0)
    estimator = kind(n_estimators=1, chunk_size=np.uint8(200)).fit(X[FEW], Y[FEW])
    found = estimator.predict_proba(tall)
    np.testing.assert_array_equal(estimator.set_params(chunk_size=200).predict_proba(tall), found)


@pytest.mark.parametrize("transductive", [False, True])
def test_an_encoder_of_before_is_read(transductive):
    table = pd.DataFrame({"a": X[:, 0], "k": np.where(Y == 0, "u", "v")})
    estimator = MetaSemiSupervisedClassifier(transductive=transductive)
    estimator.fit(table.iloc[FEW], Y[FEW])
    expected = estimator.predict_proba(table)
    del estimator.encoder_.unseen_
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_allclose(again.predict_proba(table), expected, atol=1e-6)


def test_weights_by_name_and_as_a_module_share_one_copy():
    """The learner is shared however it is given: otherwise two copies would evict each other."""
    learner = load_learner("prior")
    by_name = fitted(MetaSemiSupervisedClassifier, backbone="prior", transductive=False)
    given = fitted(MetaSemiSupervisedClassifier, backbone=learner, transductive=False)
    placed = [estimator._context_in_use()[0] for estimator in (by_name, given, by_name, given)]
    assert all(module is placed[0] for module in placed)


def test_a_few_shot_module_may_be_trained_on():
    torch.manual_seed(0)
    learner = FewShotLearner()
    before = fitted(FewShotTransformerClassifier, backbone=learner, n_estimators=1)
    before = answers(before)
    scaled(learner)
    after = fitted(FewShotTransformerClassifier, backbone=learner, n_estimators=1)
    assert not np.allclose(answers(after), before)


@pytest.mark.parametrize("device", ["nope", "cuda:77", "meta:x"])
def test_a_device_that_is_not_there(device):
    """An unknown device is refused by ``fit``, and by ``predict`` if it was set later."""
    refused = f"device='{device}' cannot be used here.*'auto'"
    kinds = (MetaSemiSupervisedClassifier, MetaGPRegressor, AmortizedOutlierDetector)
    for kind in (*kinds, FewShotTransformerClassifier):
        with pytest.raises(ValueError, match=refused):
            kind(device=device).fit(X[FEW], Y[FEW].astype(int))
        estimator = kind().fit(X[FEW], Y[FEW].astype(int)).set_params(device=device)
        with pytest.raises(ValueError, match=refused):
            estimator.predict(X)


def test_apples_gpu_is_refused_and_auto_is_the_cpu(monkeypatch):
    """It has no float64, so the message must not say that "auto" would use it."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert usable_device("auto") == "cpu"
    with pytest.raises(ValueError, match="'mps' cannot .*'auto', which is a CUDA GPU .*the CPU"):
        usable_device("mps")


def test_a_parameter_that_stays_as_it_is_keeps_what_was_learned():
    classifier = MetaSemiSupervisedClassifier(random_state=0)
    classifier.meta_fit([load_iris(return_X_y=True)], **QUICK)
    learned = classifier.learner_
    classifier.set_params(**classifier.get_params())
    assert classifier.learner_ is learned
    grid = {"head": [None], "transductive": [True, False]}
    search = GridSearchCV(classifier, grid, cv=2, error_score="raise").fit(X[::4], Y[::4])
    assert search.best_estimator_.learner_ is learned
    assert not hasattr(classifier.set_params(head="prototypes"), "learner_")


def test_a_stream_goes_on_where_parameters_stay_as_they_are():
    stream = MANNClassifier().partial_fit(X[:20], Y[:20])
    stream.set_params(**stream.get_params())
    assert stream.partial_fit(X[20:25], Y[20:25]).n_samples_seen_ == 25


def test_a_parameter_that_is_assigned_counts_as_one_that_is_set():
    classifier = fitted(MetaSemiSupervisedClassifier)
    classifier.backbone = "prior"
    classifier.fit(X[FEW], Y[FEW])
    expected = answers(fitted(MetaSemiSupervisedClassifier, backbone="prior"))
    np.testing.assert_array_equal(answers(classifier), expected)
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(classifier))), expected)


SETS = [np.random.default_rng(i).normal(size=(5, 2)) for i in range(12)]
INFINITE = np.where(np.arange(X.shape[1]) == 2, np.inf, X)
EMPTY = np.full_like(X, np.nan)
SMALL = {"width": 8, "n_heads": 2, "max_epochs": 1}
TEXTS, TEXT = [["good", "film"]] * 12, {"width": 4, "embedding_size": 4, "max_epochs": 1}


@pytest.mark.parametrize(
    "estimator, good, bad",
    [
        (MetaSemiSupervisedClassifier(), (X[FEW], Y[FEW]), (X[:9], ["one"] * 9)),
        (MetaSemiSupervisedClassifier(), (X[FEW], Y[FEW]), (EMPTY[FEW], Y[FEW])),
        (MetaGPRegressor(transductive=False), (X, X[:, 0]), (INFINITE, 1000 * X[:, 0])),
        (AmortizedOutlierDetector(), (X,), (EMPTY[:, :2],)),
        (AmortizedGMM(3), (X,), (X[:2, :1],)),
        (SetTransformerClassifier(**SMALL), (SETS, [0, 1] * 6), (SETS, ["one"] * 12)),
        (SetTransformerRegressor(**SMALL), (SETS, range(12)), (SETS, [np.nan] * 12)),
        (MetaLSTMClassifier(**TEXT), (TEXTS, [0, 1] * 6), (TEXTS, [1] * 12)),
        (MetaLSTMTagger(**TEXT), (TEXTS, [["a", "b"]] * 12), (TEXTS, [["a"]] * 12)),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_a_fit_that_fails_leaves_nothing_of_the_one_before(estimator, good, bad):
    estimator.fit(*good).predict(good[0])
    with pytest.raises(ValueError):
        estimator.fit(*bad)
    with pytest.raises(NotFittedError):
        estimator.predict(good[0])
    estimator.fit(*good).predict(good[0])


def test_a_threshold_is_of_the_weights_that_score():
    detector = AmortizedOutlierDetector(contamination=0.1, random_state=0).fit(X)
    detector.meta_fit([load_iris(return_X_y=True)], **QUICK)
    with pytest.raises(NotFittedError):
        detector.predict(X)
    assert (detector.fit(X).predict(X) < 0).sum() == round(0.1 * len(X))


def test_a_threshold_is_of_the_rows_that_were_fitted(monkeypatch):
    detector = AmortizedOutlierDetector(contamination=0.1).fit(X)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(np, "percentile", Mock(side_effect=KeyboardInterrupt))
        detector.fit(X[FEW])
    with pytest.raises(NotFittedError):
        detector.predict(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_was_fitted_on_a_gpu_is_read_without_one(kind):
    estimator = fitted(kind, **KINDS[kind])
    expected = answers(estimator)
    read = pickle.loads(pickle.dumps(estimator.set_params(device="cuda")))
    np.testing.assert_array_equal(answers(read.set_params(device="cpu")), expected)


def test_a_memory_is_pickled_on_the_cpu(monkeypatch):
    stream, moved = MANNClassifier().fit(X[:20], Y[:20]), []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: moved.append(tensor) or tensor)
    stream.__getstate__()
    tensors = []
    _of_tensors(stream._reading, tensors.append)
    assert len(tensors) > 3 and all(any(one is it for it in moved) for one in tensors)


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("kind", [MetaSemiSupervisedClassifier, MetaGPRegressor])
def test_of_many_unlabelled_rows_some_are_read(monkeypatch, kind, transductive):
    """Time and memory are quadratic in the rows read; yet all rows get an answer."""
    monkeypatch.setattr(tables, "MOST_UNLABELLED", 20)
    wine, kinds = X[::2], Y[::2]
    table, labelled = (
        pd.DataFrame(wine).add_prefix("c").assign(k="a"),
        np.arange(len(wine)) % 6 == 0,
    )
    if kind is MetaGPRegressor:
        labels = np.where(labelled, wine[:, 0], np.nan)
    else:
        labels = np.where(labelled, kinds, -1)
    parameters = {"transductive": transductive, "chunk_size": 20, "dtype": "float64"}
    estimator = kind(**parameters).fit(table, labels)
    kept = estimator._rows
    assert len(kept) == 20 + labelled.sum()
    assert set(np.flatnonzero(labelled)) <= set(kept)
    alone = kind(**parameters).fit(table.iloc[kept], labels[kept])
    np.testing.assert_allclose(estimator.predict(table), alone.predict(table), atol=1e-9)
    if kind is MetaGPRegressor:
        _, cov = estimator.predict(table[:9], return_cov=True)
        np.testing.assert_allclose(cov, alone.predict(table[:9], return_cov=True)[1], atol=1e-9)
        return
    proba = estimator.label_distributions_
    if transductive:  # the others are read as ``predict`` reads new rows
        alone = kind(**parameters).fit(table[labelled], labels[labelled])
        kept, others = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    else:
        others = np.setdiff1d(np.arange(len(wine)), kept)
    np.testing.assert_allclose(proba[kept], alone.label_distributions_, atol=1e-9)
    expected = alone.predict_proba(table.iloc[others])
    np.testing.assert_allclose(proba[others], expected, atol=1e-9)
    assert (estimator.transduction_ == kinds).mean() > 0.85
    EmbeddingDisplay.from_estimator(estimator, None, reduction="pca")


def test_a_table_may_be_changed_after_fit():
    """The estimator keeps a copy of the table."""
    for table in (X[FEW].copy(), pd.DataFrame(X[FEW])):
        estimator = MetaSemiSupervisedClassifier("prototypes").fit(table, Y[FEW])
        before = answers(estimator)
        table[:] = 0
        np.testing.assert_array_equal(answers(estimator), before)


def test_of_another_chunk_size_or_mode_rows_of_fit_are_read_anew():
    marked = np.where(np.isin(np.arange(len(Y)), FEW), Y, -1)
    estimator = MetaSemiSupervisedClassifier("prototypes").fit(X, marked)
    before = estimator.label_distributions_
    for later in ({"chunk_size": 10}, {"transductive": False}):
        after = estimator.set_params(**later).label_distributions_
        assert not np.allclose(after, before)
        anew = clone(estimator).fit(X, marked).label_distributions_
        np.testing.assert_array_equal(after, anew)
        before = after


def test_unlabelled_rows_that_are_read_are_some_of_all(monkeypatch):
    """The rows read are spread over all, not the first ones: tables are often sorted."""
    monkeypatch.setattr(tables, "MOST_UNLABELLED", 20)
    target = np.where(np.arange(len(X)) < 9, X[:, 0], np.nan)
    read = MetaGPRegressor().fit(X, target)._rows
    thirds = np.histogram(read[9:], np.linspace(9, len(X), 4))[0]
    assert len(read) == 29 and (thirds >= 2).all()
