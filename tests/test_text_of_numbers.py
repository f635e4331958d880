"""Columns of text, a few rows of which hold numbers alone, such as rooms: 1, 2, 3, 4, "5+"."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from test_encoding import TEXT

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.inspection import EmbeddingDisplay
from sklearn_meta.model_selection import FewShotSplit
from sklearn_meta.tasks import TableEncoder, as_dataset

nan = np.nan
WARNING = "Column 'rooms' held only numbers as text in fit .* such as '5\\+', which is read as miss"


def rooms(seed=0, n_rows=60, dtype=object):
    """Return rows in random order with their classes; the first twelve rows hold numbers alone."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    shown = rng.choice(["1", "2", "3", "4", "5+"], n_rows)
    shown[:12] = np.tile(["1", "2", "3", "4"], 3)
    shown[12:14] = "5+"
    shown = pd.Series(shown).astype(dtype)
    return pd.DataFrame({"rooms": shown, "a": rng.standard_normal(n_rows) + 2 * y}), y


@pytest.mark.parametrize("dtype", [object, TEXT])
def test_other_text_is_missing(dtype):
    table, _ = rooms(dtype=dtype)
    encoder = TableEncoder().fit(table[:12])
    assert encoder.numerals_ == [0] and encoder.categorical_ == []
    found = encoder.transform(table[10:16].assign(rooms=["3", "5+", None, " 2.5 ", "?", "1"]))
    np.testing.assert_array_equal(found[:, 0], [3, nan, nan, 2.5, nan, 1])
    assert encoder.unseen_categories(table) == ["rooms"]
    assert encoder.unseen_categories(table[:12]) == []
    assert list(encoder.text_among_numbers(table)) == [("rooms", "5+")]


def test_what_fit_has_seen_beside_numbers_makes_categories():
    table, _ = rooms()
    encoder = TableEncoder().fit(table)
    assert encoder.numerals_ == [] and encoder.categorical_ == [0]


def test_numbers_of_a_column_of_numbers_were_no_text():
    assert TableEncoder().fit(pd.DataFrame({"rooms": [1, 2.5]}, dtype=object)).numerals_ == []


@pytest.mark.filterwarnings("ignore:Column 'rooms' held only numbers as text")
@pytest.mark.parametrize("transductive", [True, False])
def test_cross_validation_has_no_fold_without_a_score(transductive):
    table, y = rooms()
    cv = FewShotSplit(4, n_shots=3, random_state=0)
    estimator = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    scores = cross_val_score(estimator, table, y, cv=cv, error_score="raise")
    assert scores.mean() > 0.7
    search = GridSearchCV(estimator, {"dtype": ["float32", "float64"]}, cv=cv, error_score="raise")
    assert np.isfinite(search.fit(table, y).best_score_)


@pytest.mark.parametrize("transductive", [True, False])
def test_the_answer_is_that_of_a_gap(transductive):
    table, y = rooms()
    estimator = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    estimator.fit(table[:12], y[:12])
    with pytest.warns(UserWarning, match=WARNING):
        found = estimator.predict_proba(table[12:30])
    gaps = table[12:30].replace("5+", np.nan)
    np.testing.assert_allclose(found, estimator.predict_proba(gaps), atol=1e-6)
    numbers = table.assign(rooms=pd.to_numeric(table["rooms"], errors="coerce"))
    estimator.fit(numbers[:12], y[:12])
    np.testing.assert_allclose(found, estimator.predict_proba(numbers[12:30]), atol=1e-6)


@pytest.mark.parametrize("transductive", [True, False])
def test_in_a_batch_of_tasks(transductive):
    table, y = rooms()
    estimator = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    with pytest.warns(UserWarning, match=WARNING):
        found = estimator.predict_batch([(table[:12], y[:12], table[12:30])])[0]
        expected = estimator.fit(table[:12], y[:12]).predict(table[12:30])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "estimator",
    [
        FewShotTransformerClassifier(random_state=0),
        MetaGPRegressor(),
        MANNClassifier(n_estimators=1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_other_estimators_read_a_gap_too(estimator):
    table, y = rooms()
    estimator.fit(table[:12], y[:12])
    with pytest.warns(UserWarning, match=WARNING):
        found = estimator.predict(table[12:30])
    np.testing.assert_allclose(found, estimator.predict(table[12:30].replace("5+", None)))


@pytest.mark.filterwarnings("ignore:Column 'rooms' held only numbers as text")
def test_a_display_of_embeddings_reads_them_as_predict_does():
    table, y = rooms()
    classifier = MetaSemiSupervisedClassifier("prototypes").fit(table[:12], y[:12])
    display = EmbeddingDisplay.from_estimator(classifier, table[12:30], y[12:30])
    gaps = EmbeddingDisplay.from_estimator(classifier, table[12:30].replace("5+", None), y[12:30])
    compared = 0
    for name, value in vars(display).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.testing.assert_array_equal(value, getattr(gaps, name))
            compared += 1
    assert compared > 1


def test_an_outlier_detector_reads_a_gap_too():
    table, _ = rooms()
    detector = AmortizedOutlierDetector().fit(table[:12])
    with pytest.warns(UserWarning, match="'rooms' held only numbers as text"):
        found = detector.score_samples(table[12:30])
    expected = detector.score_samples(table[12:30].replace("5+", None))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("dtype", [object, "str"])
def test_codes_of_digits_with_underscores_are_names(dtype):
    """Python reads both 1_10 and 11_0 as 110."""
    wards = pd.DataFrame({"ward": pd.Series(["11_0", "1_10", "2_5", None] * 3, dtype=dtype)})
    encoder = TableEncoder().fit(wards)
    rows = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [nan] * 3]
    np.testing.assert_array_equal(encoder.transform(wards), rows * 3)
    numbers = TableEncoder().fit(pd.DataFrame({"ward": ["1", "2"]}))
    assert numbers.unseen_categories(pd.DataFrame({"ward": ["1_2", "2"]})) == ["ward"]


def test_such_a_code_is_no_number_as_a_target_either():
    X, codes = np.arange(8.0).reshape(4, 2), ["11_0", "1", "2", "3"]
    for y in (codes, np.array(codes, dtype=object), np.array([codes] * 2).T):
        with pytest.raises(ValueError, match="could not convert string to float: '11_0'"):
            MetaGPRegressor().fit(X, y)
    regressor = MetaGPRegressor().fit(X, ["1", "2", "3", "4"])
    with pytest.raises(ValueError, match="could not convert string to float: '11_0'"):
        regressor.score(X, codes)
    with pytest.raises(ValueError, match="regression needs numbers .*: '11_0'"):
        as_dataset(X, codes, metadata={"task": "regression"})
    assert as_dataset(X, codes).n_classes == 4


def test_a_stream_goes_on():
    table, y = rooms()
    stream = MANNClassifier(n_estimators=1).partial_fit(table[:12], y[:12])
    with pytest.warns(UserWarning, match=r"Columns \['rooms'\] hold categories that were not in"):
        stream.partial_fit(table[12:20], y[12:20])
    gaps = table.replace("5+", None)
    other = MANNClassifier(n_estimators=1).partial_fit(gaps[:12], y[:12])
    other.partial_fit(gaps[12:20], y[12:20])
    np.testing.assert_allclose(stream.predict_proba(gaps[20:]), other.predict_proba(gaps[20:]))


@pytest.mark.filterwarnings("ignore:Column 'rooms' held only numbers as text")
def test_beside_categories_the_answer_is_that_of_a_gap():
    """New rows may bring other categories, so that fitted and new rows are encoded together."""
    table, y = rooms()
    table["kind"] = np.random.default_rng(1).choice(["a", "b", "c"], len(table))
    estimator = MetaSemiSupervisedClassifier("prototypes").fit(table[:12], y[:12])
    gaps = table.replace("5+", None)
    found, expected = (estimator.predict_proba(asked[12:30]) for asked in (table, gaps))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_batch_of_tasks_alone_warns():
    table, y = rooms()
    with pytest.warns(UserWarning, match=WARNING):
        MetaSemiSupervisedClassifier("prototypes").predict_batch([(table[:12], y[:12], table[12:])])
