"""Numbers that mark gaps, such as -9999."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.tasks import TableEncoder
from sklearn_meta.tasks.gap_marks import gap_marks

X, Y = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))
X, Y = X[ORDER], Y[ORDER]


def marked(mark, share=0.1, seed=0):
    """Wines with gaps that a number marks, and with NaN in its place."""
    gaps = np.random.default_rng(seed).random(X.shape) < share
    return np.where(gaps, mark, X), np.where(gaps, np.nan, X)


@pytest.mark.parametrize("mark", [-9999.0, 99999.0])
def test_a_far_number_of_several_cells_is_found(mark):
    assert gap_marks(marked(mark)[0]) == dict.fromkeys(range(13), mark)


@pytest.mark.parametrize(
    "column",
    [
        [0, 0, 1, 1, 0, 1, 0, 1, 1],
        [0, 0, 0, 1000, 1000, 1000, 1000, 1000, 1001],
        [-9999, 3, 1, 4, 1, 5, 9, 2, 6],
        [-9999, -9999, 3, 1, 4, 1],
        [-1, -1, 3, 1, 4, 1, 5, 9, 2],
        [-9999, -9999, -8888, 3, 1, 4, 1, 5, 9],
        [1, 1, 2, 4, 8, 16, 32, 64, 128],
        [np.nan] * 9,
        [7] * 9,
    ],
    ids=["flag", "two", "once", "few", "near", "several", "tail", "empty", "constant"],
)
def test_other_numbers_are_none(column):
    assert gap_marks(np.array(column, dtype=float)[:, None]) == {}


def test_the_mark_of_one_column_is_that_of_others_it_is_far_from():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal((30, 3)), 1e4 * rng.standard_normal(30)])
    table[:3, 1] = table[5, 2] = -9999
    assert gap_marks(table) == {0: -9999, 1: -9999, 2: -9999}
    assert gap_marks(table[:, [0, 2, 3]]) == {}
    table[9, 0] = -9999
    assert gap_marks(table[:, [0, 2, 3]]) == {0: -9999, 1: -9999}


@given(st.integers(0, 2**32 - 1), st.integers(9, 40), st.floats(-3, 3), st.sampled_from([-1, 1]))
def test_order_and_units_do_not_matter(seed, n_rows, exponent, sign):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_rows, 3))
    table[rng.permutation(n_rows)[: n_rows // 4], 1] = rng.choice([-1, 1]) * rng.uniform(10, 100)
    table[rng.random(table.shape) < 0.1] = np.nan
    found = gap_marks(table)
    slope, shift = sign * 10**exponent, rng.standard_normal()
    moved = table[rng.permutation(n_rows)] * slope + shift
    assert gap_marks(moved).keys() == found.keys()
    for j, mark in gap_marks(moved).items():
        np.testing.assert_allclose(mark, found[j] * slope + shift)


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_where_no_number_is_repeated_there_is_none(seed, n_rows):
    table = np.random.default_rng(seed).standard_cauchy((n_rows, 4))
    assume(len(np.unique(table)) == table.size)
    assert gap_marks(table) == {}


def test_frames_and_matrices_agree():
    table, gaps = marked(-9999.0)
    encoder = TableEncoder(marks=True).fit(table[:100])
    np.testing.assert_array_equal(encoder.transform(table), gaps)
    frame = pd.DataFrame(table).assign(kind="ab" * 89)
    found = TableEncoder(marks=True).fit(frame[:100]).transform(frame)
    np.testing.assert_array_equal(found[:, :13], gaps)
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), table)


def test_a_day_that_marks_gaps():
    days = pd.Series(pd.date_range("2020", periods=20))
    days[[3, 7]] = pd.Timestamp("1900-01-01")
    found = TableEncoder(marks=True).fit_transform(days.to_frame("day"))
    assert np.flatnonzero(np.isnan(found)).tolist() == [3, 7]


@pytest.mark.parametrize(
    "estimator",
    [FewShotTransformerClassifier(random_state=0), MANNClassifier(), MANNRegressor()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_of_rows_read_gaps_too(estimator):
    table, gaps = marked(-9999.0, share=0.2)
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        found = estimator.fit(table[:40], Y[:40]).predict(table[40:])
    np.testing.assert_allclose(found, estimator.fit(gaps[:40], Y[:40]).predict(gaps[40:]))
    assert np.mean(np.round(found) == Y[40:]) > 0.6  # taken for numbers, 0.4


def test_a_stream_that_has_begun_reads_them_as_gaps():
    table, gaps = marked(-9999.0, share=0.2)
    stream, other = (MANNClassifier(n_estimators=1).fit(t[:40], Y[:40]) for t in (table, gaps))
    stream.partial_fit(table[40:80], Y[40:80])
    other.partial_fit(gaps[40:80], Y[40:80])
    np.testing.assert_allclose(stream.predict_proba(table[80:]), other.predict_proba(gaps[80:]))


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("estimator", [MetaSemiSupervisedClassifier(), MetaGPRegressor()])
def test_the_answer_is_that_of_gaps(estimator, transductive):
    estimator.set_params(transductive=transductive)
    table, gaps = marked(-9999.0, share=0.2)  # of which each column of fit shows two
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        found = estimator.fit(table[:40], Y[:40]).predict(table[40:])
    np.testing.assert_allclose(found, estimator.fit(gaps[:40], Y[:40]).predict(gaps[40:]))
    assert np.mean(np.round(found) == Y[40:]) > 0.8  # taken for numbers, 0.4


def test_in_a_batch_and_of_rows_to_be_predicted():
    table, gaps = marked(-9999.0)
    classifier = MetaSemiSupervisedClassifier("prototypes")
    (found,) = classifier.predict_batch([(gaps[:20], Y[:20], table[20:])])
    np.testing.assert_array_equal(found, classifier.fit(gaps[:20], Y[:20]).predict(gaps[20:]))
    np.testing.assert_array_equal(found, classifier.predict(table[20:]))


def test_an_outlier_detector_takes_them_for_outliers():
    table = X.copy()
    table[:3, 2] = -9999
    detector = AmortizedOutlierDetector().fit(table)
    assert detector.encoder_.marks_ == {}
    assert (detector.predict(table[:3]) == -1).all()
