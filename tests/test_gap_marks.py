"""Numbers that mark gaps, such as -9999, are read as missing cells."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_wine

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.tasks import TableEncoder, as_dataset
from sklearn_meta.tasks.gap_marks import gap_marks

X, Y = load_wine(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))
X, Y = X[ORDER], Y[ORDER]


def marked(mark, share=0.1, seed=0):
    """Wines with gaps that a number marks, and the same with NaN."""
    gaps = np.random.default_rng(seed).random(X.shape) < share
    return np.where(gaps, mark, X), np.where(gaps, np.nan, X)


@pytest.mark.parametrize("mark", [-9999.0, 99999.0])
def test_a_far_number_of_several_cells_is_found(mark):
    assert gap_marks(marked(mark)[0]) == dict.fromkeys(range(13), [mark])


@pytest.mark.parametrize(
    "column, marks",
    [
        ([-9999, -9999, 3, 1, 4, 1, 5, 9], [-9999]),
        ([999.9, 999.9, 3, 1, 4, 1, 5, 9], [999.9, float(np.float32(999.9))]),
        ([-1, -1, 1980, 1985, 1990, 1995, 1999], [-1]),
        ([-9999, -9999, -8888, -8888, 3, 1, 4, 1, 5], [-9999, -8888]),
        ([-9999, -9999, -8888, 3, 1, 4, 1, 5], [-9999]),
        ([np.nan, np.inf, 99999, 99999, 3, 1, 4, 1, 5], [99999]),
        ([0, 0, 0, 0, 100, 101, 102, 103, 104], []),
        ([0, 0, 1, 1, 0, 1, 0, 1, 1], []),
        ([999, 999, 999, 5, 5, 5, 5, 5, 6], []),
        ([-9999, 3, 1, 4, 1, 5, 9, 2, 6], []),
        ([-9999, -9999, 3, 1, 4, 1], []),
        ([99, 99, 20, 35, 50, 65, 80], []),
        ([88, 99, 77, 88, 99, 77, 88, 99], []),
        ([-1, -1, 3, 1, 4, 1, 5, 9, 2], []),
        ([np.nan] * 9, []),
        ([-9999] * 9, []),
    ],
)
def test_marks_are_numbers_of_a_kind_far_from_all_others(column, marks):
    found = gap_marks(np.array(column, dtype=float)[:, None])
    assert found == ({0: marks} if marks else {})


def test_the_mark_of_one_column_is_that_of_others_it_is_far_from():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.standard_normal((30, 3)), 1e4 * rng.standard_normal(30)])
    table[:3, 1] = table[5, 2] = -9999
    assert gap_marks(table) == {0: [-9999], 1: [-9999], 2: [-9999]}
    assert gap_marks(table[:, [0, 2, 3]]) == {}
    table[9, 0] = -9999
    assert gap_marks(table[:, [0, 2, 3]]) == {0: [-9999], 1: [-9999]}


@given(st.integers(0, 2**32 - 1), st.integers(9, 40), st.sampled_from([-999.0, 77.0, 9999.9]))
def test_the_order_of_rows_and_columns_does_not_matter(seed, n_rows, mark):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_rows, 4)) * 10.0 ** rng.integers(-2, 3, 4)
    table[rng.random(table.shape) < 0.1] = mark
    table[rng.random(table.shape) < 0.1] = np.nan
    columns = rng.permutation(4)
    found = gap_marks(table[rng.permutation(n_rows)][:, columns])
    assert {int(columns[j]): marks for j, marks in found.items()} == gap_marks(table)
    negative = gap_marks(-table)
    assert negative.keys() == gap_marks(table).keys()


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_where_no_number_is_repeated_there_is_none(seed, n_rows):
    table = np.random.default_rng(seed).standard_cauchy((n_rows, 4))
    assume(len(np.unique(table)) == table.size)
    assert gap_marks(table) == {}


def test_frames_and_matrices_agree():
    table, gaps = marked(-9999.0)
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        encoder = TableEncoder(marks=True).fit(table[:100])
    np.testing.assert_array_equal(encoder.transform(table), gaps)
    frame = pd.DataFrame(table).assign(kind="ab" * 89)
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        found = TableEncoder(marks=True).fit(frame[:100]).transform(frame)
    np.testing.assert_array_equal(found[:, :13], gaps)
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), table)


def test_single_precision_has_the_same_marks():
    table, gaps = marked(-9999.9)
    with pytest.warns(UserWarning, match="read as missing cells: -9999.9 in columns \\[0, 1"):
        encoder = TableEncoder(marks=True).fit(table.astype(np.float32))
    for found in (encoder.transform(table), encoder.transform(table.astype(np.float32))):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(gaps))


def test_the_warning_names_the_columns_that_hold_them():
    table = pd.DataFrame(X[:40].copy(), columns=[f"c{i}" for i in range(13)])
    table.loc[[3, 5], "c4"] = -9999
    with pytest.warns(UserWarning, match=r"missing cells: -9999 in columns \['c4'\]\. Replace"):
        MetaSemiSupervisedClassifier("prototypes").fit(table, Y[:40])
    with pytest.warns(UserWarning, match=r"missing cells: -9999 in columns \['c4'\]\. Replace"):
        MetaSemiSupervisedClassifier("prototypes").predict_batch([(table, Y[:40], X[40:])])


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.filterwarnings("ignore:These values lie far from all others")
def test_other_rows_do_not_change_what_marks_gaps(transductive):
    table, gaps = marked(-9999.0)
    classifier = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    classifier.fit(table[:60], Y[:60])
    for number in (-8888, 1e6):
        asked, expected = table[60:].copy(), gaps[60:].copy()
        asked[0] = expected[0] = number
        found = classifier.predict_proba(asked)
        reference = clone(classifier).fit(gaps[:60], Y[:60]).predict_proba(expected)
        np.testing.assert_allclose(found, reference, atol=1e-5)


def test_a_number_that_is_no_mark_tells_the_class():
    """Zeros far from all else may be what matters: read as gaps they would tell less."""
    rng = np.random.default_rng(0)
    y = (rng.random(120) < 0.7).astype(int)
    told = np.where(y, 100 + rng.normal(0, 3, 120), 0)
    table = np.column_stack([told, rng.normal(size=(120, 5))])
    for estimator in (MetaSemiSupervisedClassifier(), MANNClassifier()):
        assert estimator.fit(table[:40], y[:40]).score(table[40:], y[40:]) > 0.95


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
    assert np.mean(np.round(found) == Y[40:]) > 0.6  # read as numbers, 0.4


def test_a_stream_that_has_begun_reads_them_as_gaps():
    table, gaps = marked(-9999.0, share=0.2)
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        stream = MANNClassifier(n_estimators=1).fit(table[:40], Y[:40])
    other = MANNClassifier(n_estimators=1).fit(gaps[:40], Y[:40])
    stream.partial_fit(table[40:80], Y[40:80])
    other.partial_fit(gaps[40:80], Y[40:80])
    np.testing.assert_allclose(stream.predict_proba(table[80:]), other.predict_proba(gaps[80:]))


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("estimator", [MetaSemiSupervisedClassifier(), MetaGPRegressor()])
def test_the_answer_is_that_of_gaps(estimator, transductive):
    estimator.set_params(transductive=transductive)
    table, gaps = marked(-9999.0, share=0.2)  # each column of fit shows at least two gaps
    with pytest.warns(UserWarning, match="read as missing cells: -9999 in columns \\[0, 1"):
        found = estimator.fit(table[:40], Y[:40]).predict(table[40:])
    np.testing.assert_allclose(found, estimator.fit(gaps[:40], Y[:40]).predict(gaps[40:]))
    assert np.mean(np.round(found) == Y[40:]) > 0.8  # read as numbers, 0.4


@pytest.mark.filterwarnings("ignore:These values lie far from all others")
@pytest.mark.parametrize("transductive", [True, False])
def test_in_a_batch_of_tasks(transductive):
    table, gaps = marked(-9999.0)
    classifier = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    (found,) = classifier.predict_batch([(table[:40], Y[:40], table[40:])])
    np.testing.assert_array_equal(found, classifier.fit(gaps[:40], Y[:40]).predict(gaps[40:]))
    np.testing.assert_array_equal(found, classifier.fit(table[:40], Y[:40]).predict(table[40:]))


def test_an_outlier_detector_takes_them_for_outliers():
    table = X.copy()
    table[:3, 2] = -9999
    detector = AmortizedOutlierDetector().fit(table)
    assert detector.encoder_.marks_ == {}
    assert (detector.predict(table[:3]) == -1).all()


def test_tables_of_meta_training_have_gaps_where_numbers_mark_them():
    """Standardised with the marks, a column would seem to have two values only."""
    told, gaps = marked(-9999.0)
    with pytest.warns(
        UserWarning, match="Dataset 'wine': These values lie far from .* -9999 in columns"
    ):
        dataset = as_dataset(told, Y, "wine")
    np.testing.assert_array_equal(dataset.X, as_dataset(gaps, Y).X)


@pytest.mark.filterwarnings("ignore:These values lie far from all others")
@pytest.mark.parametrize("in_a_batch", [False, True])
def test_beside_categories_the_answer_is_that_of_gaps(in_a_batch):
    """New rows may bring other categories, so that fitted and new rows are encoded together."""
    kinds = np.random.default_rng(0).choice(["a", "b", "c"], len(Y))
    told, gaps = (
        pd.DataFrame(table).add_prefix("c").assign(kind=kinds) for table in marked(-9999.0)
    )
    classifier = MetaSemiSupervisedClassifier("prototypes")
    if in_a_batch:
        tasks = [(table[:60], Y[:60], table[60:]) for table in (told, gaps)]
        found, expected = classifier.predict_proba_batch(tasks)
    else:
        found, expected = (
            classifier.fit(table[:60], Y[:60]).predict_proba(table[60:]) for table in (told, gaps)
        )
    np.testing.assert_allclose(found, expected, atol=1e-5)
