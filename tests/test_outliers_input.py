"""AmortizedOutlierDetector on difficult rows, and its errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from test_outliers import double, small_learner

from sklearn_meta import AmortizedOutlierDetector, MetaSemiSupervisedClassifier

RNG = np.random.default_rng(0)
X_GOOD = RNG.standard_normal((20, 3))


def detector(**parameters):
    """A detector in float32, the user's precision."""
    return AmortizedOutlierDetector(small_learner(), **parameters)


# -- rows that make trouble -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -1e12])
@pytest.mark.parametrize("n_rows", [2, 30])
@pytest.mark.parametrize("backbone", ["small", "default"])
def test_no_row_is_odd_where_all_are_equal(value, n_rows, backbone):
    X = np.full((n_rows, 3), value)
    for contamination in ("auto", 0.1):
        model = AmortizedOutlierDetector(
            small_learner() if backbone == "small" else backbone, contamination=contamination
        )
        assert (model.fit_predict(X) == 1).all()
        assert (model.fit_predict_batch([X])[0] == 1).all()
        assert np.ptp(model.score_samples(X)) == 0
    assert np.isfinite(model.score_samples(X + 1)).all()


def test_constant_and_empty_columns_change_nothing():
    expected = double().fit(X_GOOD).score_samples(X_GOOD)
    X = np.column_stack([np.full(20, 7.0), X_GOOD, np.full(20, np.nan)])
    assert_allclose(double().fit(X).score_samples(X), expected, atol=1e-9)
    shares = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    total = shares.sum(axis=1)  # one, up to rounding
    assert len(np.unique(total)) > 2
    expected = double().fit(shares).score_samples(shares)
    X = np.column_stack([shares, total])
    assert_allclose(double().fit(X).score_samples(X), expected, atol=1e-9)


def test_duplicated_rows():
    X = np.repeat(X_GOOD[:4], 20, axis=0)
    scores = detector().fit(X).score_samples(X)
    assert np.isfinite(scores).all()
    assert_allclose(scores, np.repeat(scores[::20], 20), atol=1e-5)


def test_rows_without_any_cell():
    X = np.where(np.arange(20)[:, None] < 3, np.nan, X_GOOD)
    model = detector().fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.score_samples(np.full((2, 3), np.nan))).all()


@pytest.mark.parametrize("scale", [1e-150, 1e12, 1e150])
def test_huge_and_tiny_units(scale):
    expected = detector().fit(X_GOOD).score_samples(X_GOOD)
    found = detector().fit(scale * X_GOOD).score_samples(scale * X_GOOD)
    assert_allclose(found, expected, atol=1e-4)


def test_new_rows_far_beyond_the_set():
    model = AmortizedOutlierDetector().fit(X_GOOD)
    scores = [model.score_samples(np.full((1, 3), far))[0] for far in (0.0, 5.0, 1e3, 1e300)]
    assert np.isfinite(scores).all()
    assert scores[0] > 0 > scores[1] and (np.diff(scores) < -1).all()


def test_one_column_and_two_rows():
    assert np.isfinite(detector().fit(X_GOOD[:2, :1]).score_samples(X_GOOD[:, :1])).all()


def test_lists_text_and_objects():
    mixed = [["1.5", "a"], ["2.5", "b"], ["-1", "a"], ["0", "a"]]
    assert detector().fit(np.array(mixed, dtype=object)).predict(mixed).shape == (4,)
    frame = pd.DataFrame({"a": [1, None, 3, 4], "b": pd.array([1, 2, None, 4], dtype="Int64")})
    assert np.isfinite(detector().fit(frame).score_samples(frame)).all()
    found = detector().fit(X_GOOD.tolist()).score_samples(X_GOOD.tolist())
    assert_allclose(found, detector().fit(X_GOOD).score_samples(X_GOOD))
    gap = [[1.5, "a"], [2.5, "b"], [-1.0, np.nan], [0.0, "a"]]  # not a category "nan"
    (found,) = double().score_samples_batch([gap])
    assert_allclose(found, double().fit(gap).score_samples(gap))


def test_a_category_that_the_set_does_not_have_is_a_missing_cell():
    table = pd.DataFrame({"a": X_GOOD[:, 0], "b": ["x", "y"] * 10})
    rows = pd.DataFrame({"a": [0.5, 0.5], "b": ["z", None]})
    unseen, missing = detector().fit(table).score_samples(rows)
    assert unseen == missing


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X_GOOD[:1], "1 sample.* while a minimum of 2 is required"),
        (pd.DataFrame(X_GOOD[:1]), "1 sample.* while a minimum of 2 is required"),
        (np.empty((0, 3)), "0 sample"),
        (X_GOOD[:, 0], "Expected 2D array"),
        (np.where(X_GOOD > 1, np.inf, X_GOOD), "contains infinity"),
        (np.full((4, 2), np.nan), "Every cell of X is missing"),
        (X_GOOD + 1j, "Complex data not supported"),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(ValueError, match=message):
        detector().fit(X)
    with pytest.raises(ValueError, match=f"Set 1: .*{message}"):
        detector().fit_predict_batch([X_GOOD, X])


def test_a_sparse_set_is_told_by_its_place():
    with pytest.raises(ValueError, match="Set 1: Sparse data was passed"):
        detector().fit_predict_batch([X_GOOD, csr_array(X_GOOD)])


def test_other_columns_than_in_fit():
    model = detector().fit(X_GOOD)
    with pytest.raises(ValueError, match="X has 2 features, but AmortizedOutlierDetector"):
        model.predict(X_GOOD[:, :2])
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(np.full((1, 3), np.inf))
    frame = pd.DataFrame(X_GOOD, columns=list("abc"))
    with pytest.raises(ValueError, match="feature names should match"):
        detector().fit(frame).predict(frame[["c", "b", "a"]])


@pytest.mark.parametrize(
    "parameters",
    [
        {"contamination": 0.0},
        {"contamination": 0.6},
        {"contamination": "few"},
        {"max_samples": 1},
        {"chunk_size": 0},
        {"head": "prototypes"},
        {"dtype": "float16"},
        {"random_state": -1},
    ],
)
def test_bad_parameters(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"The '{name}' parameter of AmortizedOutlierDetector"):
        detector(**parameters).fit(X_GOOD)
    with pytest.raises(ValueError, match=f"The '{name}' parameter of AmortizedOutlierDetector"):
        detector(**parameters).fit_predict_batch([X_GOOD])


def test_before_fit():
    for method in ("predict", "score_samples", "decision_function", "transform"):
        with pytest.raises(NotFittedError):
            getattr(detector(), method)(X_GOOD)


def test_an_empty_list_of_sets():
    assert detector().fit_predict_batch([]) == []


def test_weights_of_another_task():
    with pytest.raises(ValueError, match="meta-trained for classification, and Amortized"):
        AmortizedOutlierDetector("prior").fit(X_GOOD)
    with pytest.raises(ValueError, match="meta-trained for outlier_detection, and MetaSemi"):
        MetaSemiSupervisedClassifier("default_outliers").fit(X_GOOD, np.arange(20) % 2)


def test_what_meta_fit_cannot_use():
    with pytest.raises(NotFittedError, match="call meta_fit first"):
        AmortizedOutlierDetector("vsa").fit(X_GOOD)
    with pytest.raises(ValueError, match="learns from labelled rows, and outlier detection"):
        AmortizedOutlierDetector("maml").meta_fit([(X_GOOD, np.arange(20) % 2)])
    with pytest.raises(ValueError, match="n_shots counts labelled rows.*set n_unlabelled"):
        detector().meta_fit([(X_GOOD, np.arange(20) % 2)], n_shots=(1,))
    with pytest.raises(ValueError, match="n_unlabelled must be 2 or more, got 1: a single row"):
        detector().meta_fit([(X_GOOD, np.arange(20) % 2)], n_unlabelled=1)
    with pytest.raises(ValueError, match="'0' has 2 rows: at least 3 are needed"):
        detector().meta_fit([(X_GOOD[:2], [0.1, 0.2])], max_steps=1)
