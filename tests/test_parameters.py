"""Parameters are checked before anything else, by whichever method an estimator is first used."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.utils._param_validation import InvalidParameterError

import sklearn_meta as meta
from sklearn_meta import AmortizedOutlierDetector, MetaGPRegressor, MetaSemiSupervisedClassifier

X, Y = load_iris(return_X_y=True)
ROWS = X[::10], Y[::10]
TARGETS = X[::10, 1:], X[::10, 0]
DATA = {
    "MetaSemiSupervisedClassifier": ROWS,
    "MetaGPRegressor": TARGETS,
    "AmortizedGMM": ROWS,
    "AmortizedOutlierDetector": ROWS,
    "FewShotTransformerClassifier": ROWS,
    "MANNClassifier": ROWS,
    "MANNRegressor": TARGETS,
    "MetaLSTMClassifier": (["a fine film", "a dull film"] * 4, [1, 0] * 4),
    "MetaLSTMTagger": ([["in", "Rome"]] * 4, [["O", "B-LOC"]] * 4),
    "SetTransformerClassifier": (np.random.default_rng(0).random((10, 5, 3)), np.arange(10) % 2),
    "SetTransformerRegressor": (np.random.default_rng(0).random((10, 5, 3)), np.arange(10.0)),
}
CALLS = {
    "fit": lambda estimator, X, y: estimator.fit(X, y),
    "fit_predict": lambda estimator, X, y: estimator.fit_predict(X),
    "partial_fit": lambda estimator, X, y: estimator.partial_fit(X, y),
    "predict_online": lambda estimator, X, y: estimator.predict_online(X, y),
    "predict_batch": lambda estimator, X, y: estimator.predict_batch([(X, y, X)]),
    "fit_batch": lambda estimator, X, y: estimator.fit_batch([X, X]),
    "score_samples_batch": lambda estimator, X, y: estimator.score_samples_batch([X, X]),
    "meta_fit": lambda estimator, X, y: estimator.meta_fit({"a": (X, y)}, max_steps=1),
}


def test_all_estimators_are_here():
    assert set(DATA) == set(meta.__all__)


@pytest.mark.parametrize(
    ("kind", "call"),
    [(kind, call) for kind in DATA for call in CALLS if hasattr(getattr(meta, kind), call)],
)
@pytest.mark.parametrize("wrong", [{"random_state": "x"}, {"random_state": -1}, {"device": 3}])
def test_parameters_are_checked_first(kind, call, wrong):
    estimator = getattr(meta, kind)(**wrong)
    with pytest.raises(InvalidParameterError, match=f"The '{next(iter(wrong))}' parameter of"):
        CALLS[call](estimator, *DATA[kind])


@pytest.mark.parametrize(
    "kind", [MetaSemiSupervisedClassifier, MetaGPRegressor, AmortizedOutlierDetector]
)
def test_a_device_that_is_none_is_refused_by_fit_and_not_by_the_first_prediction(kind):
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ValueError, match="device='none such' cannot be used here"):
        kind(device="none such").fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("kind", [MetaSemiSupervisedClassifier, MetaGPRegressor])
def test_a_mode_is_true_or_false(kind):
    with pytest.raises(InvalidParameterError, match="The 'transductive' parameter of"):
        kind(transductive="no").fit(X, Y)
