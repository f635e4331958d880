"""Streams with invalid requests, and parameters that change during a stream."""

import copy
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.utils import shuffle

from sklearn_meta import (
    AmortizedGMM,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
)
from sklearn_meta.memory import base
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import Drawings, Mixture, TablePrior

X, Y = shuffle(*load_iris(return_X_y=True), random_state=0)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
X_NUMBERS, TARGET = load_diabetes(return_X_y=True)
PIXELS = np.random.default_rng(0).random((10, 400))


def classifier(**parameters):
    return MANNClassifier(**{"n_estimators": 2} | parameters)


@pytest.mark.parametrize("inputs", ["images", "table", None])
def test_a_learner_reads_what_it_knows(inputs):
    with pytest.raises(ValueError, match="inputs must be 'tables', 'vectors' or 'pixels'"):
        MemoryLearner(inputs=inputs)


@pytest.mark.parametrize("more", [{"y": NAMES[40:80]}, {"y": Y[40:80], "classes": ["0", "1"]}])
def test_labels_are_of_one_kind(more):
    estimator = classifier().partial_fit(X[:40], Y[:40])
    before = estimator.predict_proba(X)
    with pytest.raises(ValueError, match="strings and numbers.*one stream must be of one kind"):
        estimator.partial_fit(X[40:80], **more)
    assert_array_equal(estimator.predict_proba(X), before)
    with pytest.raises(ValueError, match="strings and numbers"):
        classifier().partial_fit(X[:40], Y[:40], classes=["0", "1", "2"])


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
@pytest.mark.parametrize("call", ["partial_fit", "predict_online"])
def test_what_another_network_was_shown_is_forgotten_where_rows_are_refused(kind, call):
    """``set_params`` forgets what the old network read, even if the rows after it are refused."""
    y = TARGET[:40] if kind is MANNRegressor else Y[:40]
    estimator = kind(n_estimators=2, random_state=0).fit(X[:40], y)
    other = copy.deepcopy(estimator.learner_)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    estimator.set_params(backbone=other)
    with pytest.raises(ValueError, match="infinity"):
        getattr(estimator, call)(np.full((2, 4), np.inf), y[:2])
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    estimator.partial_fit(X[:5], y[:5])
    assert estimator.n_samples_seen_ == 5
    anew = clone(estimator).partial_fit(X[:5], y[:5])
    assert_array_equal(estimator.predict(X), anew.predict(X))


@pytest.mark.parametrize("classes", ["abc", 5, [[0, 1]], [0, np.nan, 1], [None, 0], [pd.NA]])
def test_declared_classes_are_a_list_of_labels(classes):
    with pytest.raises(ValueError, match="classes must be a list of .*(1d array|NaN or None)"):
        classifier().partial_fit(X[:40], Y[:40], classes=classes)


def test_declared_classes_may_be_a_set_or_none_at_all():
    for classes in ({0, 1, 2}, frozenset({2, 0, 1}), []):
        found = classifier().partial_fit(X[:40], Y[:40], classes=classes).classes_
        assert found.tolist() == [0, 1, 2] and found.dtype.kind == "i"


def test_labels_of_two_types_that_have_none_in_common():
    estimator = classifier().partial_fit(X[:40], Y[:40])
    again = clone(estimator).partial_fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    estimator.partial_fit(X[40:], Y[40:].astype(np.uint64))
    assert estimator.classes_.dtype == again.classes_.dtype
    assert_array_equal(estimator.predict_proba(X), again.predict_proba(X))
    with pytest.raises(ValueError, match="int64 and uint64, which no integer type can hold"):
        estimator.partial_fit(X[:40], np.uint64(2**63) + Y[:40].astype(np.uint64))
    floats = classifier().partial_fit(X[:40], Y[:40].astype(float))
    floats.partial_fit(X[40:], np.where(Y[40:], 2**53, 0))
    assert floats.classes_.tolist() == [*np.unique(Y[:40]), 2**53]
    for far in (2**53 + 1, -(2**53) - 1):
        with pytest.raises(ValueError, match="floats and integers too large for floats"):
            floats.partial_fit(X[40:], np.where(Y[40:], far, 0))
    days = np.array(["2020-01-01", "2021-01-01"] * 20, dtype="datetime64[D]")
    estimator = classifier().partial_fit(X[:40], days).partial_fit(X[:40], days)
    assert estimator.classes_.tolist() == np.unique(days).tolist()
    again = clone(estimator).partial_fit(
        X[:40], days, classes=list(pd.to_datetime(np.unique(days)))
    )
    again.partial_fit(X[:40], days.astype("datetime64[ns]"))
    assert again.classes_.dtype == days.dtype
    assert_array_equal(estimator.predict_proba(X), again.predict_proba(X))
    with pytest.raises(ValueError, match="those of one stream must have one unit"):
        estimator.partial_fit(X[:40], days + np.timedelta64(3, "h"))


@pytest.mark.parametrize(
    "more, message", [(np.nan, "NaN or None"), (3, "all strings or all numbers, got both")]
)
def test_declared_text_beside_others_is_not_made_text(more, message):
    with pytest.raises(ValueError, match=message):
        classifier().partial_fit(X[:40], NAMES[:40], classes=[*np.unique(NAMES), more])


def test_a_label_that_is_missing():
    labels = NAMES[:40].astype(object)
    labels[3] = None
    for learn in ("fit", "partial_fit", "predict_online"):
        with pytest.raises(ValueError, match="Input y contains NaN or None"):
            getattr(classifier(), learn)(X[:40], labels)


@pytest.mark.parametrize("make", [MANNClassifier, FewShotTransformerClassifier])
@pytest.mark.parametrize(
    "labels, message",
    [
        (["a", np.nan] * 3, "Input y contains NaN or None"),
        (["a", None] * 3, "Input y contains NaN or None"),
        (pd.Series(["a", pd.NA] * 3, dtype="string"), "Input y contains NaN or None"),
        (["a", 1] * 3, "all strings or all numbers, got both"),
        (np.array(["a", 1] * 3, dtype=object), "all strings or all numbers, got both"),
    ],
)
def test_a_list_of_text_and_others_is_not_made_text(make, labels, message):
    """numpy would turn NaN into "nan", one more class."""
    for rows in (X[:6], pd.DataFrame(X[:6])):
        with pytest.raises(ValueError, match=message):
            make(n_estimators=1).fit(rows, labels)


def test_a_fit_that_fails_leaves_nothing_of_the_one_before():
    regressor = MANNRegressor(n_estimators=2)
    for estimator, bad in ((regressor, ["a"] * 20), (classifier(), np.linspace(0, 1, 20))):
        for _ in range(2):
            with pytest.raises(ValueError, match="Targets must be numbers|Unknown label type"):
                estimator.fit(X_NUMBERS[:20], bad)
            with pytest.raises(NotFittedError):
                estimator.predict(X_NUMBERS)
            estimator.fit(X_NUMBERS[:20], TARGET[:20] if estimator is regressor else Y[:20])


def test_a_piece_that_fails_changes_nothing():
    regressor = MANNRegressor(n_estimators=2).fit(X_NUMBERS[:20], TARGET[:20])
    before = regressor.predict(X_NUMBERS)
    with pytest.raises(ValueError, match="Targets must be numbers"):
        regressor.partial_fit(X_NUMBERS[:20], ["a"] * 20)
    assert_array_equal(regressor.predict(X_NUMBERS), before)


def interrupt_after(n_rows, monkeypatch):
    """Interrupt the network, as Ctrl-C would, after some rows."""
    present, left = MemoryLearner.present, iter(range(n_rows))

    def interrupted(self, *args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return present(self, *args)

    monkeypatch.setattr(MemoryLearner, "present", interrupted)


@pytest.mark.parametrize("make", [MANNClassifier, MANNRegressor])
def test_an_interrupt_among_the_rows_leaves_a_stream_as_it_was(make, monkeypatch):
    estimator, untouched = (make(n_estimators=2).fit(X[:40], Y[:40] > 0) for _ in range(2))
    with monkeypatch.context() as patch:
        interrupt_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            estimator.partial_fit(X[40:80], Y[40:80] + 7)
    assert estimator.n_samples_seen_ == 40
    assert_array_equal(estimator.predict(X), untouched.predict(X))
    for one in (estimator, untouched):
        one.partial_fit(X[40:80], Y[40:80] > 0)
    assert_array_equal(estimator.predict(X), untouched.predict(X))


@pytest.mark.parametrize("make", [MANNClassifier, MANNRegressor])
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_stream_of_which_a_part_was_read_is_not_fitted(make, learn, monkeypatch):
    estimator = make(n_estimators=2)
    with monkeypatch.context() as patch:
        interrupt_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            getattr(estimator, learn)(X[:40], Y[:40])
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@pytest.mark.parametrize(
    "later", [{"random_state": 5}, {"n_estimators": 3}, {"dtype": "float64"}], ids=str
)
@pytest.mark.parametrize(
    "kind, memory",
    [(MANNClassifier, "wipe"), (MANNClassifier, "persistent"), (MANNRegressor, "wipe")],
)
def test_parameters_that_are_set_later_count_from_the_next_fit(later, kind, memory):
    def fitted(**parameters):
        return kind(**{"n_estimators": 2, "memory": memory} | parameters).fit(X[:60], Y[:60])

    def answers(estimator, rows):
        return getattr(estimator, "predict_proba", estimator.predict)(rows)

    estimator = fitted()
    before = answers(estimator, X[60:])
    estimator.set_params(**later)
    assert_array_equal(answers(estimator, X[60:]), before)
    whole = fitted().partial_fit(X[60:80], Y[60:80])
    estimator.partial_fit(X[60:80], Y[60:80])
    assert_array_equal(answers(estimator, X[80:]), answers(whole, X[80:]))
    estimator.fit(X[:60], Y[:60])
    assert_array_equal(answers(estimator, X[60:]), answers(fitted(**later), X[60:]))


def test_a_persistent_memory_is_not_that_of_another_network():
    estimator = classifier(memory="persistent").fit(X[:60], Y[:60])
    estimator.set_params(backbone="default_mann_string").fit(X[:60], Y[:60])
    anew = classifier(memory="persistent", backbone="default_mann_string").fit(X[:60], Y[:60])
    assert_array_equal(estimator.predict_proba(X), anew.predict_proba(X))
    twice = anew.fit(X[:60], Y[:60]).predict_proba(X)
    assert np.abs(twice - estimator.predict_proba(X)).max() > 0  # otherwise it does persist


def test_numbers_that_float32_does_not_hold():
    huge = np.vstack([PIXELS, PIXELS[:1] * 1e39])
    estimator = classifier(backbone="omniglot_mann").partial_fit(PIXELS, np.arange(10) % 5)
    with pytest.raises(ValueError, match="too large for float32"):
        estimator.partial_fit(huge, np.zeros(11, dtype=int))
    assert np.isfinite(estimator.predict_proba(PIXELS)).all()


def test_pixels_are_no_bytes():
    estimator = classifier(backbone="omniglot_mann").fit(PIXELS, np.arange(10) % 5)
    for method in ("predict", "fit"):
        labels = [np.arange(10) % 5][: method == "fit"]
        with pytest.raises(ValueError, match=r"Pixels must be in \[0, 1\], got .*divide by 255"):
            getattr(estimator, method)(np.uint8(255 * PIXELS), *labels)
        with pytest.raises(ValueError, match="divided by 255 twice"):
            getattr(estimator, method)(PIXELS / 255, *labels)
    estimator.fit(PIXELS, np.arange(10) % 5)
    assert np.isfinite(estimator.predict_proba(np.zeros_like(PIXELS))).all()  # blank pictures


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
@pytest.mark.parametrize("name", ["max_step", "random_state", "device", "sampler"])
def test_a_setting_that_meta_fit_does_not_have_is_told_by_name(kind, name):
    message = rf"{kind.__name__}.meta_fit\(\) got an unexpected keyword argument '{name}'"
    with pytest.raises(TypeError, match=message):
        kind().meta_fit([(X, Y)], max_steps=1, verbose=False, **{name: 1})


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
def test_pixels_are_no_bytes_in_meta_training_either(kind):
    regression = {"head": "gaussian", "task": "online_regression"} if kind is MANNRegressor else {}
    network = kind(MemoryLearner("mann", inputs="pixels", n_inputs=400, **regression))
    good, bad = ([(scale * PIXELS, np.arange(10) % 5.0)] for scale in (1, 255))
    settings = {"max_steps": 1, "batch_size": 1, "verbose": False}
    mixed = Mixture([good, Mixture([good, bad])]), Mixture([bad, good])
    pairs = [(bad, None), (good, bad), (good + bad, None), (bad + good, None)]
    for datasets in (*pairs, *((mixture, None) for mixture in mixed)):
        with pytest.raises(ValueError, match="reads rows of 400 pixels in .* vectors=Pictures"):
            network.meta_fit(datasets[0], validation_datasets=datasets[1], **settings)
    with pytest.raises(
        ValueError, match="reads rows of 400 pixels in .* 0.0039"
    ):  # divided by 255 twice
        network.meta_fit([(PIXELS / 255, np.arange(10) % 5.0)], **settings)
    assert network.meta_fit(good, **settings).history_
    assert network.meta_fit(Mixture([good, bad], [1, 0]), **settings).history_  # none of it is read


def test_too_many_classes_are_told_which_weights_know_more():
    with pytest.raises(
        ValueError, match="10 classes.*labels for only 5: .*'omniglot_mann_string'"
    ) as told:
        classifier(backbone="omniglot_mann").fit(PIXELS, np.arange(10))
    # These weights were trained with one-hot labels, and refuse the parameter.
    assert "use label_encoding" not in str(told.value)
    classifier(backbone="omniglot_mann_string", n_estimators=1).fit(PIXELS, np.arange(10))
    rows, labels = X[:11], np.arange(11)
    with pytest.raises(ValueError, match="use label_encoding='string' with backbone='default', "):
        classifier(backbone="default_mann").fit(rows, labels)
    with pytest.raises(
        ValueError, match="labels for only 10: use label_encoding='string', .* 3125.$"
    ):
        classifier().fit(rows, labels)
    strings = classifier(label_encoding="string", n_estimators=1)
    assert len(strings.fit(rows, labels).classes_) == 11
    with pytest.raises(ValueError, match="has labels for only 3125.$"):
        many = np.arange(3200)
        classifier(label_encoding="string", n_estimators=1).partial_fit(X[many % 150], many)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "bool", "U3", "O"])
def test_labels_keep_their_dtype(dtype):
    y = (NAMES if dtype == "O" else Y == 0).astype(dtype)
    estimator = classifier().fit(X[:40], y[:40])
    assert estimator.classes_.dtype == estimator.predict(X[:9]).dtype == y.dtype
    estimator.partial_fit(X[:9], y[:9], classes=np.unique(y))
    assert estimator.classes_.dtype == estimator.predict(X[:9]).dtype == y.dtype


@pytest.mark.parametrize("n_rows", [(0, 20), (50, 20), (20.5, 30), "20"])
def test_the_length_of_sequences_is_a_range(n_rows):
    with pytest.raises(ValueError, match="n_rows must be"):
        MANNRegressor("mann").meta_fit([(X_NUMBERS, TARGET)], n_rows=n_rows, max_steps=1)


def test_sequences_of_one_length():
    quick = {"max_steps": 1, "batch_size": 1, "verbose": False}
    assert MANNRegressor("mann").meta_fit([(X_NUMBERS, TARGET)], n_rows=30, **quick).history_


def test_vectors_are_of_the_length_that_the_network_reads():
    with pytest.raises(ValueError, match="rows of 400 values, but the network is expecting 32"):
        MANNClassifier("mann").meta_fit(TablePrior(), vectors=Drawings(), max_steps=1)


@pytest.mark.parametrize("gaps", [list, pd.Series, lambda y: pd.Series(y, dtype=object)])
def test_targets_that_are_none_are_refused(gaps):
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = [None if i % 2 else x for i, x in enumerate(X[:, 0])]
    for table in (X, pd.DataFrame(X)):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            MANNRegressor(n_estimators=2).fit(table, gaps(y))


def test_modules_of_another_kind_are_named():
    with pytest.raises(
        ValueError, match="backbone must be a MemoryLearner, which holds the network, got a GRU"
    ):
        MANNClassifier(torch.nn.GRU(2, 2)).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="backbone must be a MixtureLearner, got a GRU"):
        AmortizedGMM(2, backbone=torch.nn.GRU(2, 2)).fit(np.eye(4))


def test_no_datasets_are_no_source():
    with pytest.raises(ValueError, match="None is not a source: give datasets"):
        MANNClassifier().meta_fit(None, max_steps=1)


def test_long_streams_are_read_in_blocks_with_the_same_answers(monkeypatch):
    X = np.random.default_rng(0).normal(size=(23, 3))
    y = (X[:, 0] > 0).astype(int)
    expected = MANNClassifier(n_estimators=2).fit(X, y).predict_proba(X)
    monkeypatch.setattr(base, "MOMENTS_AT_ONCE", 7)
    assert_array_equal(MANNClassifier(n_estimators=2).fit(X, y).predict_proba(X), expected)


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
def test_categories_that_come_late_in_a_stream_are_told(kind):
    table = pd.DataFrame({"shop": list("abab"), "x": [1.0, 2.0, 3.0, 4.0]})
    stream = kind(n_estimators=1).partial_fit(table, [0, 1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(table[::-1], [1, 0, 1, 0]).predict(table.assign(shop=list("zazz")))
        with pytest.raises(ValueError, match="'shop' held categories in fit but holds dates now"):
            stream.partial_fit(table.assign(shop=pd.Timestamp("2020")), [0, 1, 0, 1])
    told = r"Columns \['shop'\] hold categories that .* first call"
    with pytest.warns(UserWarning, match=told) as warned:
        stream.partial_fit(table.assign(shop="z"), [0, 1, 0, 1])
    assert warned[0].filename == __file__
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="every category in the first call"):
        stream.predict_online(table.assign(shop="z"), [0, 1, 0, 1])
    with pytest.warns(UserWarning, match="'shop' holds only categories that fit has not seen"):
        stream.predict(table.assign(shop="z"))


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
def test_declared_categories_are_known_before_a_row_shows_them(kind):
    shops = pd.CategoricalDtype(["a", "b", "c"])
    table = pd.DataFrame({"x": np.arange(6.0), "shop": pd.Series(list("abcabc"), dtype=shops)})
    y = [0, 1, 2, 0, 1, 2]
    classes = {"classes": [0, 1, 2]} if kind is MANNClassifier else {}
    at_once = kind(n_estimators=1).partial_fit(table, y, **classes)
    stream = kind(n_estimators=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(6):
            stream.partial_fit(table[i : i + 1], y[i : i + 1], **classes)
    assert stream.encoder_.n_columns_out_ == 4
    assert_array_equal(stream.predict(table), at_once.predict(table))
    plain = kind(n_estimators=1).partial_fit(table[:1].astype({"shop": object}), y[:1], **classes)
    with pytest.warns(UserWarning, match="a dtype category that declares them"):
        plain.partial_fit(table[1:], y[1:])


def leave_autocast():
    """Reset autocast, which an exception from a trace may leave open, with stale casts."""
    for _ in range(torch.autocast_increment_nesting()):
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()
    torch.set_autocast_enabled("cpu", False)


@pytest.mark.parametrize("kind", [lambda: MANNClassifier(label_encoding="string"), MANNRegressor])
def test_an_interrupt_leaves_a_stream_as_it_was_or_as_it_will_be(kind):
    stream = kind().set_params(n_estimators=1).partial_fit(X[:3], Y[:3])
    at_last, lines = copy.deepcopy(stream).partial_fit(X[60:61], Y[60:61]), []

    def interrupted(frame, event, _):
        if frame.f_code.co_name not in ("_go_on", "_learn", "_present"):
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == stop:
                raise KeyboardInterrupt
        return interrupted

    stop = 0
    while True:
        stop += 1
        lines.clear()
        tried = copy.deepcopy(stream)
        before = sys.gettrace()  # coverage, for instance
        sys.settrace(interrupted)
        try:
            tried.partial_fit(X[60:61], Y[60:61])
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            leave_autocast()
        left = tried.predict(X[::9]).tolist(), tried.n_samples_seen_
        ends = [(s.predict(X[::9]).tolist(), s.n_samples_seen_) for s in (stream, at_last)]
        assert left in ends
        again = tried.partial_fit(X[60:61], Y[60:61]) if left == ends[0] else tried
        assert_array_equal(again.predict(X), at_last.predict(X))
    assert stop > 10


def test_of_targets_that_are_all_equal_the_next_is_not_certain():
    X = np.random.default_rng(0).standard_normal((20, 2))
    regressor = MANNRegressor(n_estimators=1, random_state=0).fit(X, np.full(20, 7.0))
    mean, std = regressor.predict(X, return_std=True)
    assert (std > 0).all() and np.isfinite(mean).all()
    _, std = MANNRegressor(n_estimators=1, random_state=0).predict_online(
        X, np.arange(20.0), return_std=True
    )
    assert (std > 0).all()  # for the first rows, too
