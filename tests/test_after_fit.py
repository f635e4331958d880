"""After ``fit``: other weights, other parameters, a module that is trained on; nothing stale."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes, load_iris, load_wine

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.learner import Learner
from sklearn_meta.weights import load_learner

X, Y = load_wine(return_X_y=True)
FEW = np.r_[0:4, 60:64, 140:144]
TARGET = load_diabetes(return_X_y=True)
QUICK = {"max_steps": 4, "batch_size": 2, "learning_rate": 5e-3, "verbose": False}


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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_another_dtype_after_fit(kind):
    estimator = fitted(kind, **KINDS[kind]).set_params(dtype="float64")
    np.testing.assert_array_equal(
        answers(estimator), answers(fitted(kind, **KINDS[kind], dtype="float64"))
    )


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


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_reads_its_own_module(again):
    torch.manual_seed(0)
    learner = Learner(backbone_config={"width": 8, "n_layers": 1})
    estimator = again(fitted(MetaSemiSupervisedClassifier, backbone=learner))
    before = answers(estimator)
    scaled(estimator.backbone)
    assert not np.allclose(answers(estimator), before)


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
    """One learner, however it is given: copies that replace each other would be made each time."""
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
    for kind in (MetaSemiSupervisedClassifier, MetaGPRegressor):
        estimator = kind(device=device).fit(X[FEW], Y[FEW].astype(int))
        with pytest.raises(ValueError, match=f"device='{device}' cannot be used here.*'auto'"):
            estimator.predict(X)
