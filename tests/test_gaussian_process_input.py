"""MetaGPRegressor on difficult targets and rows, and its errors."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from test_gaussian_process import answers, double, small_learner

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier
from sklearn_meta.learner import Learner
from sklearn_meta.weights import save_learner

RNG = np.random.default_rng(0)
X_GOOD = RNG.standard_normal((20, 3))
Y_GOOD = X_GOOD[:, 0] + 0.1 * RNG.standard_normal(20)
BOTH = pytest.mark.parametrize("transductive", [True, False])
HEADS = pytest.mark.parametrize("head", ["gp", "gp_attributes", "gp_warped", "linear"])


def regressor(transductive=True, head="gp", dtype="float32"):
    """A regressor in float32, the user's precision, in which singular matrices are dangerous."""
    return MetaGPRegressor(small_learner(head=head), transductive=transductive, dtype=dtype)


def finite(found):
    return all(np.isfinite(values).all() for values in found.values()) and (found["std"] > 0).all()


# -- targets and rows that make trouble ---------------------------------------------------------


@BOTH
@HEADS
@pytest.mark.parametrize("value", [0.0, 7.0, -1e12])
def test_constant_target(transductive, head, value):
    found = answers(regressor(transductive, head).fit(X_GOOD, np.full(20, value)), X_GOOD + 1)
    assert finite(found)
    assert_array_equal(found["mean"], value)


@BOTH
@HEADS
def test_one_target_constant_among_others(transductive, head):
    y = np.column_stack([Y_GOOD, np.full(20, 3.0)])
    found = answers(regressor(transductive, head).fit(X_GOOD, y), X_GOOD)
    assert finite(found)
    assert_array_equal(found["mean"][:, 1], 3)


@BOTH
@HEADS
@pytest.mark.parametrize("n_unlabelled", [0, 5])
def test_one_labelled_row(transductive, head, n_unlabelled):
    y = np.r_[5.0, np.full(n_unlabelled, np.nan)]
    model = regressor(transductive, head).fit(X_GOOD[: len(y)], y)
    found = answers(model, X_GOOD[10:])
    assert finite(found)
    assert_array_equal(found["mean"], 5)


@BOTH
@HEADS
@pytest.mark.parametrize("agreeing", [True, False])
def test_duplicated_rows_make_a_singular_kernel(transductive, head, agreeing):
    X = np.repeat(X_GOOD[:3], 100, axis=0)
    y = np.repeat(Y_GOOD[:3], 100) if agreeing else RNG.standard_normal(300)
    learner = small_learner(head=head)
    learner.head.log_noise.fill_(-20)  # otherwise the noise alone makes the matrix regular
    model = MetaGPRegressor(learner, transductive=transductive).fit(X, y)
    assert finite(answers(model, X_GOOD))


@BOTH
@HEADS
def test_all_rows_alike_predict_the_mean(transductive, head):
    X, y = np.ones((20, 3)), Y_GOOD
    found = answers(regressor(transductive, head).fit(X, y), X[:4])
    assert finite(found)
    assert np.ptp(found["mean"]) < 1e-6
    assert np.abs(found["mean"] - y.mean()).max() < y.std()


@BOTH
@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e150, 1e-150])
def test_huge_and_tiny_targets(transductive, scale):
    expected = answers(regressor(transductive).fit(X_GOOD, Y_GOOD), X_GOOD)
    found = answers(regressor(transductive).fit(X_GOOD, scale * Y_GOOD), X_GOOD)
    for name in found:
        unit = {"cov": scale**2, "density": 1 / scale}.get(name, scale)
        assert_allclose(found[name] / unit, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


@BOTH
@pytest.mark.parametrize("n_targets", [(), (2,)])
def test_targets_whose_square_is_beyond_float64(transductive, n_targets):
    y = np.broadcast_to(Y_GOOD.reshape(20, *[1] * len(n_targets)), (20, *n_targets))
    model = regressor(transductive).fit(X_GOOD, 1e300 * y)
    expected = regressor(transductive).fit(X_GOOD, y)
    found = model.predict(X_GOOD, return_std=True), model.sample_y(X_GOOD, 3)
    wanted = expected.predict(X_GOOD, return_std=True), expected.sample_y(X_GOOD, 3)
    for ours, theirs in zip((*found[0], found[1]), (*wanted[0], wanted[1])):
        assert_allclose(ours / 1e300, theirs, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="covariance is too large for float64 .* return_std"):
        model.predict(X_GOOD, return_cov=True)


@BOTH
def test_small_variation_on_a_large_offset(transductive):
    expected = regressor(transductive).fit(X_GOOD, Y_GOOD).predict(X_GOOD)
    found = regressor(transductive).fit(X_GOOD, Y_GOOD + 1e9).predict(X_GOOD)
    assert_allclose(found - 1e9, expected, atol=1e-4)


def test_targets_as_lists_integers_booleans_none_and_na():
    expected = double().fit(X_GOOD, np.arange(20.0)).predict(X_GOOD)
    for y in (list(range(20)), np.arange(20, dtype=np.int8), pd.Series(range(20), dtype="Int64")):
        assert_array_equal(double().fit(X_GOOD, y).predict(X_GOOD), expected)
    few = np.where(np.arange(20) < 12, np.arange(20.0), np.nan)
    expected = double().fit(X_GOOD, few).predict(X_GOOD)
    none = [None if np.isnan(value) else value for value in few]
    na = pd.Series(none, dtype="Int64")
    text = [value if np.isnan(value) else str(value) for value in few]  # not "nan", as of numpy
    for y in (none, na, list(na), pd.DataFrame({"y": few})["y"], text):
        assert_array_equal(double().fit(X_GOOD, y).predict(X_GOOD), expected)
        (found,) = double().predict_batch([(X_GOOD, y, X_GOOD)])
        assert_allclose(found, expected)
    assert np.isfinite(double().fit(X_GOOD, Y_GOOD > 0).predict(X_GOOD)).all()
    tensor = torch.from_numpy(Y_GOOD).requires_grad_()
    expected = double().fit(X_GOOD, Y_GOOD).predict(X_GOOD)
    assert_array_equal(double().fit(X_GOOD, tensor).predict(X_GOOD), expected)


# -- errors ---------------------------------------------------------------------------------------


TORN = np.column_stack([Y_GOOD, Y_GOOD])
TORN[4, 1] = np.nan


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X_GOOD, np.full(20, np.nan), "No row is labelled"),
        (X_GOOD, np.full((20, 2), np.nan), "No row is labelled"),
        (X_GOOD, TORN, "Row 4 of y has only some of its targets"),
        (X_GOOD, np.where(Y_GOOD > 1, np.inf, Y_GOOD), "y contains infinity"),
        (X_GOOD, [None, np.inf, *Y_GOOD[2:]], "y contains infinity"),
        (X_GOOD, pd.DataFrame({"a": Y_GOOD, "b": ["inf", *Y_GOOD[1:]]}), "y contains infinity"),
        (X_GOOD, np.full((20, 2, 2), 1.0), "dim 3"),
        (X_GOOD, np.full((20, 0), 1.0), "0 feature"),
        (X_GOOD, np.array(["a"] * 20), "could not convert string to float"),
        (X_GOOD, Y_GOOD[:4], "inconsistent numbers of samples"),
        (X_GOOD, None, "requires y to be passed"),
        (X_GOOD[:0], Y_GOOD[:0], "0 sample"),
        (X_GOOD[:, :0], Y_GOOD, "0 feature"),
        (X_GOOD[0], Y_GOOD, "Expected 2D array"),
        (np.full((20, 3), np.nan), Y_GOOD, "Every cell of X is missing"),
        (np.where(X_GOOD > 1, np.inf, X_GOOD), Y_GOOD, "contains infinity"),
        (pd.DataFrame(np.where(X_GOOD > 1, np.inf, X_GOOD)), Y_GOOD, "contains infinity"),
    ],
)
def test_bad_context(X, y, message):
    with pytest.raises(ValueError, match=message):
        double().fit(X, y)


@BOTH
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X_GOOD[:, :1], "X has 1 features"),
        (X_GOOD[:0], "0 sample"),
        (np.where(X_GOOD > 1, np.inf, X_GOOD), "contains infinity"),
        (X_GOOD.astype(object).astype(str) + "x", "numeric in fit"),
    ],
)
@pytest.mark.parametrize("ask", ["predict", "sample_y", "transform"])
def test_bad_rows(X, message, transductive, ask):
    with pytest.raises(ValueError, match=message):
        getattr(double(transductive).fit(X_GOOD, Y_GOOD), ask)(X)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"return_std": True, "return_cov": True}, "one of return_std, return_cov and quantiles"),
        ({"return_std": np.True_, "return_cov": np.True_}, "one of return_std, return_cov"),
        ({"return_std": True, "quantiles": [0.5]}, "one of return_std, return_cov and quantiles"),
        ({"quantiles": [0.5, 1]}, "between 0 and 1"),
        ({"quantiles": [0, 0.5]}, "between 0 and 1"),
        ({"quantiles": [np.nan]}, "between 0 and 1"),
        ({"quantiles": 0.5}, "a list of numbers between 0 and 1"),
        ({"quantiles": []}, "between 0 and 1"),
    ],
)
def test_bad_wishes(wish, message):
    with pytest.raises(ValueError, match=message):
        double().fit(X_GOOD, Y_GOOD).predict(X_GOOD, **wish)


@pytest.mark.parametrize("chunk_size", [2, 1000])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y_GOOD[:-1], "y must have a row per row of X"),
        (np.c_[Y_GOOD, Y_GOOD], "targets as in fit"),
        (np.where(Y_GOOD > 0, np.nan, Y_GOOD), "Input y contains NaN"),
        (np.where(Y_GOOD > 0, np.inf, Y_GOOD), "Input y contains infinity"),
        (["high"] * len(Y_GOOD), "could not convert string to float"),
    ],
)
def test_bad_targets_to_be_told_the_density_of(y, message, chunk_size):
    with pytest.raises(ValueError, match=message):
        double(chunk_size=chunk_size).fit(X_GOOD, Y_GOOD).log_predictive_density(X_GOOD, y)


def test_targets_of_another_unit_or_form_have_a_density():
    fitted = double().fit(X_GOOD, Y_GOOD * 1e-300)
    far = fitted.log_predictive_density(X_GOOD, Y_GOOD * 1e10)
    assert (far < -1e200).all() and np.isfinite(far).all()
    as_frame = pd.DataFrame({"y": Y_GOOD * 1e-300})
    expected = fitted.log_predictive_density(X_GOOD, Y_GOOD * 1e-300)
    assert_array_equal(fitted.log_predictive_density(X_GOOD, as_frame), expected)


@pytest.mark.parametrize("ask", ["predict", "sample_y", "transform"])
def test_not_fitted(ask):
    with pytest.raises(NotFittedError):
        getattr(double(), ask)(X_GOOD)
    with pytest.raises(NotFittedError):
        double().log_predictive_density(X_GOOD, y=np.zeros(len(X_GOOD)))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ((X_GOOD[:3], [0, 1], X_GOOD), "Task 1: 3 labelled rows, but 2 labels"),
        ((X_GOOD[:2], [np.nan, np.nan], X_GOOD), "Task 1: No row is labelled"),
        ((X_GOOD[:2], [0, np.inf], X_GOOD), "Task 1: targets must be finite"),
        ((X_GOOD[:0], [], X_GOOD), "Task 1: targets must be .* non-empty"),
        ((X_GOOD[:2], np.ones((2, 1, 1)), X_GOOD), "Task 1: targets must be .* vector or matrix"),
        ((X_GOOD[:2], ["a", "b"], X_GOOD), "Task 1: could not convert"),
        ((X_GOOD[:2], [1j, 2], X_GOOD), "Task 1: Complex data not supported"),
        ((X_GOOD[:2], [1, 2]), "Task 1: give a list of triples"),
        (X_GOOD, "Task 1: give a list of triples"),
        ((X_GOOD[:2], [1, 2], X_GOOD[:, :1]), r"Task 1: X_labelled and X_unlabelled .* \(20, 1\)"),
        ((X_GOOD[:2], [1, 2], None), r"Task 1: X_labelled and X_unlabelled .* and \(\)"),
    ],
)
def test_bad_task_in_a_batch_is_named(task, message):
    with pytest.raises(ValueError, match=message):
        double().predict_batch([(X_GOOD[:4], Y_GOOD[:4], X_GOOD[4:]), task])


def test_batch_of_one_and_several_targets_and_of_nothing():
    assert double().predict_batch([]) == []
    for rows in (X_GOOD, X_GOOD.astype(object)):
        assert double().predict_batch([(rows[:4], Y_GOOD[:4], rows[:0])])[0].shape == (0,)
    many = np.column_stack([Y_GOOD[:4]] * 3)
    tasks = [(X_GOOD[:4], y, X_GOOD[4:]) for y in (Y_GOOD[:4], many[:, :1], many)]
    assert [mean.shape for mean in double().predict_batch(tasks)] == [(16,), (16, 1), (16, 3)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"backbone": "nowhere"}, "No weights 'nowhere'"),
        ({"backbone": "prior"}, "'prior' was meta-trained for classification, and MetaGPRegressor"),
        ({"backbone": Learner()}, "meta-trained for classification"),
        ({"head": "oracle"}, "head"),
        ({"head": "prototypes"}, "'head' parameter of MetaGPRegressor must be"),
        (
            {"head": "linear"},
            "head='linear' does not fit .* with head='gp_warped'.* such as backbone='vsa'",
        ),
        ({"chunk_size": 0}, "chunk_size"),
        ({"dtype": "int8"}, "dtype"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        MetaGPRegressor(**parameters).fit(X_GOOD, Y_GOOD)


def test_weights_of_regression_are_none_for_the_classifier(tmp_path):
    classes = np.arange(20) % 2
    path = save_learner(small_learner(), tmp_path / "regression.safetensors")
    for backbone in ("default_regression", str(path), small_learner()):
        with pytest.raises(ValueError, match="(?s)meta-trained for regression, and MetaSemi"):
            MetaSemiSupervisedClassifier(backbone).fit(X_GOOD, classes)
    with pytest.raises(ValueError, match="(?s)meta-trained for regression"):
        MetaSemiSupervisedClassifier.from_pretrained(path)
    with pytest.raises(ValueError, match="(?s)meta-trained for classification"):
        MetaGPRegressor.from_pretrained("prior")
    loaded = MetaGPRegressor.from_pretrained(path).fit(X_GOOD, Y_GOOD)
    expected = MetaGPRegressor(small_learner()).fit(X_GOOD, Y_GOOD)
    assert_array_equal(loaded.predict(X_GOOD), expected.predict(X_GOOD))
    with pytest.raises(ValueError, match="head='linear' does not fit backbone"):
        MetaGPRegressor.from_pretrained(path, head="linear")


def test_an_architecture_has_no_weights():
    for backbone in ("vsa", "exchangeable"):
        with pytest.raises(NotFittedError, match="call meta_fit first"):
            MetaGPRegressor(backbone).fit(X_GOOD, Y_GOOD)


def test_a_date_that_is_missing_is_an_unlabelled_row():
    y = np.arange("2020-01-01", "2020-01-21", dtype="M8[D]")
    y[:4] = "NaT"
    expected = regressor().fit(X_GOOD, y).predict(X_GOOD)
    (found,) = regressor().predict_batch([(X_GOOD, y, X_GOOD)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert abs(found - 18270).max() < 30


def test_targets_may_be_read_only_and_not_sparse():
    y = np.arange(20.0)
    expected = regressor().fit(X_GOOD, y).predict(X_GOOD)
    y.flags.writeable = False
    np.testing.assert_array_equal(regressor().fit(X_GOOD, Readable(y)).predict(X_GOOD), expected)
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        regressor().fit(X_GOOD, csr_array(y[:, None]))
    for model in (regressor(), MetaSemiSupervisedClassifier()):
        with pytest.raises(ValueError, match="Task 0: Sparse data was passed for y"):
            model.predict_batch([(X_GOOD, csr_array(y[:, None]), X_GOOD)])


class Readable:
    """Hands out its own read-only array, as a column of Arrow does."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


def test_default_weights_learn_a_line_from_ten_rows():
    X = RNG.standard_normal((110, 2))
    y = 1e4 * (X @ [1, -2] + 7)
    few = MetaGPRegressor().fit(X[:10], y[:10])
    assert few.score(X[10:], y[10:]) > 0.7
    assert LinearRegression().fit(X[:10], y[:10]).score(X[10:], y[10:]) > 0.99


def test_missing_targets_are_no_errors_to_be_scored():
    X, y = load_diabetes(return_X_y=True)
    regressor = MetaGPRegressor().fit(X[:20], y[:20])
    few = np.where(np.arange(30) < 28, y[20:50], np.nan)
    with pytest.raises(ValueError, match="2 targets to be scored .*SemiSupervisedKFold"):
        regressor.score(X[20:50], few)
    assert regressor.score(X[20:48], few[:28]) == r2_score(few[:28], regressor.predict(X[20:48]))
    weighted = regressor.score(X[20:48], few[:28], np.arange(28))
    assert weighted == r2_score(few[:28], regressor.predict(X[20:48]), sample_weight=np.arange(28))


@pytest.mark.parametrize("n_samples", [-1, 1.5])
def test_a_number_of_samples_is_a_whole_number(n_samples):
    regressor = MetaGPRegressor().fit(X_GOOD, Y_GOOD)
    assert regressor.sample_y(X_GOOD[:3], 0).shape == (3, 0)
    with pytest.raises(ValueError, match="n_samples must be an integer of 0 or more"):
        regressor.sample_y(X_GOOD[:3], n_samples)
