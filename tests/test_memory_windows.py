"""What MANNClassifier and MANNRegressor remember of long streams, and what they forget."""

import copy
import pickle
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_memory import EVERY, answers, blobs, classifier, regressor

from sklearn_meta import MANNClassifier, MANNRegressor

#: Classes take turns, so that a stream that starts later knows them in the same order.
X = np.random.default_rng(0).normal(size=(30, 4))
Y = np.arange(30) % 3
EACH = pytest.mark.parametrize("make", EVERY, ids=["onehot", "string", "regression"])


@EACH
@pytest.mark.parametrize("n_rows, begin", [(5, 0), (6, 0), (11, 0), (12, 6), (17, 6), (18, 12)])
def test_a_memory_knows_one_window_or_two(make, n_rows, begin):
    """After row 12 the answers come from the memory that began after row 6."""
    parameters = {"window_size": 6, "dtype": "float64"}
    stream = make(**parameters).partial_fit(X[:n_rows], Y[:n_rows])
    late = make(**parameters | {"window_size": None}).partial_fit(X[begin:n_rows], Y[begin:n_rows])
    assert_allclose(answers(stream, X), answers(late, X), rtol=1e-10)
    other = make(**parameters | {"window_size": None}).partial_fit(
        X[begin + 1 : n_rows], Y[begin + 1 : n_rows]
    )
    assert not np.allclose(answers(stream, X), answers(other, X))


@EACH
@pytest.mark.parametrize("parameters", [{"window_size": None}, {"memory": "persistent"}])
def test_without_a_window_a_memory_knows_all_rows(make, parameters):
    parameters |= {"window_size": None} if "memory" not in parameters else {"window_size": 6}
    stream = make(**parameters).partial_fit(X, Y)
    assert_array_equal(answers(stream, X), answers(make(window_size=100).partial_fit(X, Y), X))
    assert stream._reading.n_rows == len(X)


@EACH
def test_fit_shows_each_member_a_window_of_rows(make):
    estimator = make(window_size=12, n_estimators=3).fit(X, Y)
    assert estimator.n_samples_seen_ == 30
    orders = estimator._orders(30)
    assert orders.shape == (3, 12) and all(len(set(order)) == 12 for order in orders.tolist())
    assert len({frozenset(order) for order in orders.tolist()}) == 3
    assert estimator.set_params(shuffle=False)._orders(30).shape == (3, 30)
    before = answers(estimator, X)
    estimator.partial_fit(X[:11], Y[:11])
    assert estimator.n_samples_seen_ == 41 and estimator._reading.n_rows == 23
    assert not np.allclose(answers(estimator, X), before)
    late = make(window_size=12, n_estimators=3).partial_fit(X[:13], Y[:13])
    assert_allclose(
        answers(estimator.partial_fit(X[11:13], Y[11:13]), X), answers(late, X), rtol=1e-4
    )


@EACH
@pytest.mark.parametrize("n_rows", [5, 8, 13])
def test_what_was_pickled_goes_on(make, n_rows):
    stream = make(window_size=6).partial_fit(X[:n_rows], Y[:n_rows])
    for copied in (pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)):
        copied.partial_fit(X[n_rows:], Y[n_rows:])
        whole = make(window_size=6).partial_fit(X, Y)
        assert_array_equal(answers(copied, X), answers(whole, X))


def test_a_window_that_is_set_later_counts_from_the_next_fit_on():
    stream = classifier(window_size=6).partial_fit(X[:8], Y[:8]).set_params(window_size=None)
    stream.partial_fit(X[8:], Y[8:])
    whole = classifier(window_size=6).partial_fit(X, Y)
    assert_array_equal(answers(stream, X), answers(whole, X))


def test_a_window_may_be_a_small_number_of_numpy():
    many, labels = np.tile(X, (10, 1)), np.tile(Y, 10)
    streams = [
        classifier(window_size=size).partial_fit(many, labels) for size in (200, np.uint8(200))
    ]
    assert_array_equal(answers(streams[0], X), answers(streams[1], X))


def test_a_persistent_memory_outlives_an_interrupt(monkeypatch):
    estimator = classifier(memory="persistent", random_state=0).fit(X, Y)
    expected = answers(copy.deepcopy(estimator).fit(X, Y), X)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(estimator), "_unread", Mock(side_effect=KeyboardInterrupt))
        estimator.fit(X, Y)
    assert_array_equal(answers(estimator.fit(X, Y), X), expected)


def test_vectors_have_windows_too():
    vectors, targets = blobs(30, n_columns=6)[0], X[:, 0]
    stream = regressor("vectors", window_size=6, dtype="float64").partial_fit(vectors, targets)
    late = regressor("vectors", dtype="float64").partial_fit(vectors[24:], targets[24:])
    assert_allclose(answers(stream, vectors), answers(late, vectors), rtol=1e-10)


@pytest.mark.parametrize("window_size", [0, -1, 2.5, "all"])
def test_a_window_is_a_number_of_rows(window_size):
    for estimator in (MANNClassifier(), MANNRegressor()):
        with pytest.raises(ValueError, match="'window_size' parameter"):
            estimator.set_params(window_size=window_size).fit(X, Y)


def test_units_that_change_are_learned_anew():
    rng = np.random.default_rng(0)
    drifted = rng.normal(size=(800, 5))
    y = (drifted @ rng.normal(size=(5, 2))).argmax(1)
    drifted[300:] = 100 * drifted[300:] + 1000
    right = {
        window: (MANNClassifier(window_size=window).predict_online(drifted, y) == y)[600:].mean()
        for window in (125, None)
    }
    assert right[125] > right[None] + 0.2


def test_a_wild_target_is_forgotten():
    wild = X.repeat(20, 0) + np.random.default_rng(1).normal(size=(600, 4))
    y = wild @ [1, 2, -1, 0.5]
    shown = y.copy()
    shown[100] = 1e6
    error = {
        window: ((MANNRegressor(window_size=window).predict_online(wild, shown) - y)[400:] ** 2)
        for window in (125, None)
    }
    assert error[125].mean() < y.var() < error[None].mean()
