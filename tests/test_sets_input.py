"""Estimators of sets: forms of input, bad input, and scikit-learn's tools around them."""

import copy
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from processes import joblib_forks
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor
from sklearn_meta.sets.validation import as_sets

SMALL = {"width": 8, "n_heads": 2, "n_layers": 1, "n_inducing": 2}
QUICK = {**SMALL, "max_epochs": 2, "random_state": 0}
RNG = np.random.default_rng(0)
SETS = [RNG.normal(size=(n, 2)) for n in RNG.integers(1, 6, size=24)]
PADDED = np.full((24, 6, 2), np.nan)
for row, elements in zip(PADDED, SETS):
    row[: len(elements)] = elements
Y = np.array([elements.sum() for elements in SETS])
CLASSES = np.where(Y > np.median(Y), "high", "low")
BOTH = pytest.mark.parametrize(
    ("model", "y"),
    [(SetTransformerRegressor(**QUICK), Y), (SetTransformerClassifier(**QUICK), CLASSES)],
    ids=["regressor", "classifier"],
)


@cache
def fitted(kind):
    """An estimator of either kind, fitted to the sets; for predictions only."""
    return kind(**QUICK).fit(SETS, Y if kind is SetTransformerRegressor else CLASSES)


def objects(sets):
    """A one-dimensional array that holds the sets."""
    array = np.empty(len(sets), dtype=object)
    array[:] = sets
    return array


# -- forms of input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        tuple(SETS),
        objects(SETS),
        pd.Series(objects(SETS), index=range(50, 74)),
        [elements.tolist() for elements in SETS],
        [pd.DataFrame(elements, columns=["a", "b"]) for elements in SETS],
        [torch.from_numpy(elements) for elements in SETS],
        PADDED,
        torch.from_numpy(PADDED),
        PADDED[:, ::-1],
    ],
    ids=lambda form: type(form).__name__,
)
def test_forms_of_the_same_sets(form):
    for found, elements in zip(as_sets(form), SETS, strict=True):
        same = found if not isinstance(form, np.ndarray) else np.sort(found, axis=0)
        assert_array_equal(same, elements if same is found else np.sort(elements, axis=0))


@pytest.mark.parametrize(
    "form",
    [
        np.array([[1.0, 2.0], [3.0, np.nan]]),
        pd.DataFrame({"first": [1, 3], "second": [2.0, np.nan]}),
        np.array([[1, 2], [3, None]], dtype=object),
        [[1, 2], [3]],
        [[[1], [2]], [[3]]],
        [np.array([1, 2]), np.array([[3.0]])],
    ],
)
def test_sets_of_numbers(form):
    first, second = as_sets(form)
    assert_array_equal(first, [[1], [2]])
    assert_array_equal(second, [[3]])


def test_sets_of_a_parquet_file():
    pa = pytest.importorskip("pyarrow")
    lists = pa.array([elements.tolist() for elements in SETS])
    arrow = pd.Series(lists, dtype=pd.ArrowDtype(lists.type))
    columns = [lists.to_pandas(), arrow]  # cells of the former are arrays of arrays
    columns += [lists, pa.chunked_array([lists[:3], lists[3:]])]
    for form in columns:
        for found, elements in zip(as_sets(form), SETS, strict=True):
            assert_array_equal(found, elements)


def test_whole_numbers_and_mixed_types():
    whole = [np.rint(9 * elements) for elements in SETS]
    positive = [np.abs(elements) for elements in whole]
    mixed = [elements.astype(np.int8) if i % 2 else elements for i, elements in enumerate(whole)]
    for embedding in (None, nn.Linear(2, 3)):
        model = SetTransformerRegressor(**QUICK, embedding=embedding)
        expected = model.fit(whole, Y).predict(whole)
        assert_array_equal(model.fit(mixed, Y.tolist()).predict(mixed), expected)
        for dtype in (np.longdouble, ">f8", np.uint16):  # torch does not have these
            others = [elements.astype(dtype) for elements in positive]
            assert_array_equal(model.predict(others), model.predict(positive))


def test_arguments_are_left_alone():
    X = PADDED.copy()
    X.setflags(write=False)
    model = SetTransformerRegressor(**QUICK).fit(X, Y)
    model.predict(X)
    assert_array_equal(X, PADDED)


def test_padding_in_float32():
    """In float32, the user's precision; test_sets.py uses float64."""
    model = SetTransformerClassifier(**QUICK).fit(SETS, CLASSES)
    assert next(model.module_.parameters()).dtype == torch.float32
    one_by_one = np.concatenate([model.predict_proba([elements]) for elements in SETS])
    assert_allclose(model.predict_proba(PADDED), one_by_one, atol=1e-5)


def test_a_column_that_differs_by_rounding_is_constant():
    squares = [np.cos(x[:, :1]) ** 2 + np.sin(x[:, :1]) ** 2 for x in SETS]  # 1 up to rounding
    assert 0 < np.ptp(np.concatenate(squares)) < 1e-15
    near = [np.hstack(pair) for pair in zip(SETS, squares)]
    exact = [np.hstack([x, np.ones_like(one)]) for x, one in zip(SETS, squares)]
    model = SetTransformerRegressor(**QUICK).fit(near, Y)
    assert model.scale_[2] == np.inf
    assert_array_equal(model.predict(exact), model.predict(near))


@pytest.mark.parametrize(("first", "later"), [(2020, 2021), (2020, -1e9), (1.7e308, -1.7e308)])
def test_nothing_is_read_off_a_column_that_did_not_vary_in_fit(first, later):
    """Untrained weights would turn another year into noise."""
    year, next_year = ([np.c_[x, np.full(len(x), y)] for x in SETS] for y in (first, later))
    model = SetTransformerRegressor(**QUICK).fit(year, Y)
    assert_array_equal(model.predict(next_year), model.predict(year))


def test_training_minds_no_mode_of_torch_that_a_caller_is_in():
    expected = SetTransformerRegressor(**QUICK).fit(SETS, Y).predict(SETS)
    for mode in (torch.inference_mode(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16)):
        with mode:
            model = SetTransformerRegressor(**QUICK).fit(SETS, Y)
        assert_array_equal(model.predict(SETS), expected)


def test_a_batch_size_may_be_numpys():
    for kind, y in ((SetTransformerRegressor, Y), (SetTransformerClassifier, CLASSES)):
        for size in (np.int64(8), np.int8(100)):
            found = kind(**QUICK, batch_size=size).fit(SETS, y).predict(SETS * 6)
            expected = kind(**QUICK, batch_size=int(size)).fit(SETS, y).predict(SETS * 6)
            assert_array_equal(found, expected)


def test_one_set_and_sets_of_one_and_constant_elements():
    constant = [np.ones((n, 2)) for n in range(1, 6)]
    for X in (SETS[:1], [[[1.0, 2.0]]], constant):
        y = np.arange(len(X))
        assert np.isfinite(SetTransformerRegressor(**QUICK).fit(X, y).predict(X)).all()
    found = SetTransformerRegressor(**QUICK).fit(SETS, np.full(24, 7.5)).predict(SETS)
    assert_allclose(found, 7.5, atol=1.5)


def test_elements_far_from_those_of_fit():
    model = SetTransformerRegressor(**QUICK).fit(SETS, Y)
    for value in (1e30, -1.7e308):
        assert np.isfinite(model.predict([[[value, value]], [[0, value]]])).all()


# -- errors -------------------------------------------------------------------------------------


TORN = PADDED.copy()
TORN[3, 0, 1] = np.nan
NOTHING = PADDED.copy()
NOTHING[3] = np.nan


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([*SETS[:3], np.empty((0, 2))], r"X\[3\] is an empty set: leave it out"),
        ([*SETS[:3], []], r"X\[3\] is an empty set: leave it out"),
        (NOTHING, r"X\[3\] is an empty set: leave it out"),
        (
            [*SETS[:3], np.ones((2, 3))],
            r"X\[0\] has elements of shape \(2,\), but X\[3\] .* \(3,\)",
        ),
        ([*SETS[:3], np.ones(3)], r"X\[0\] has elements of shape \(2,\), but X\[3\] .* \(1,\)"),
        (TORN, r"X\[3\] is not a set of numbers: Input contains NaN"),
        ([*SETS[:3], [[1.0, np.nan]]], r"X\[3\] is not a set of numbers: Input contains NaN"),
        ([*SETS[:3], [[np.nan, np.nan]]], r"X\[3\] is not a set of numbers: Input contains NaN"),
        ([*SETS[:3], [[1.0, -np.inf]]], r"X\[3\] is not a set of numbers: Input contains infinity"),
        ([*SETS[:3], [[1.0], [1.0, 2.0]]], r"X\[3\] is not a set of numbers: .*inhomogeneous"),
        (
            [*SETS[:3], [["a", "b"]]],
            r"X\[3\] is not a set of numbers: .*Convert your data to numeric",
        ),
        ([*SETS[:3], [[1j, 2]]], r"X\[3\] is not a set of numbers: Complex data not supported"),
        ([*SETS[:3], [[1, 10**400]]], r"X\[3\] is not a set of numbers: int too large"),
        ([*SETS[:3], np.array([["2020", "NaT"]], "M8[D]")], r"X\[3\] holds dates or durations"),
        ([*SETS[:3], None], r"X\[3\] is"),
        (np.where(PADDED > 1, np.inf, PADDED), "Input contains infinity|contains infinity"),
        ([1.0, 2.0], r"X\[0\] is a number, not a set"),
        (np.arange(24.0), r"Expected sets, got an array of shape \(24,\). Reshape your data"),
        ([], "0 sets"),
        (np.empty((0, 3, 2)), "0 sample"),
        (np.ones((24, 0, 2)), r"X\[0\] is an empty set"),
        (np.ones((24, 3, 0)), r"X\[0\] is an empty set"),
        (np.ones((24, 3, 2, 2)), r"Elements have shape \(2, 2\): give an embedding"),
        ([np.ones((3, 2, 2))] * 24, r"Elements have shape \(2, 2\): give an embedding"),
    ],
)
@BOTH
def test_bad_sets(model, y, X, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        model.fit(X, y[: len(X)])
    if "embedding" not in message:
        with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
            fitted(type(model)).predict(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([np.ones((2, 3))], "X has 3 features, but SetTransformer.* is expecting 2 features"),
        (np.ones((4, 5)), "X has 1 features, but SetTransformer.* is expecting 2 features"),
        (np.ones((4, 5, 2, 1)), r"elements have shape \(2, 1\), and \(2,\) in fit"),
    ],
)
@BOTH
def test_other_elements_than_in_fit(model, y, X, message):
    with pytest.raises(ValueError, match=message):
        fitted(type(model)).predict(X)


@BOTH
def test_bad_number_of_targets(model, y):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(SETS, y[:23])
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        model.fit(SETS, None)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(Y > 1, np.nan, Y), "contains NaN"),
        (np.where(Y > 1, np.inf, Y), "contains infinity"),
        (CLASSES, "could not convert string to float"),
        (np.ones((24, 2, 2)), "dim 3|too many|Found array"),
    ],
)
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        SetTransformerRegressor(**QUICK).fit(SETS, y)


@pytest.mark.parametrize(
    ("other", "message"),
    [(np.nan, "NaN or None"), (None, "NaN or None"), (1, "all strings or all numbers, got both")],
)
def test_what_is_no_name_beside_names_is_no_class(other, message):
    for y in (["a", other] * 12, np.array(["a", other] * 12, dtype=object)):
        with pytest.raises(ValueError, match=message):
            SetTransformerClassifier(**QUICK).fit(SETS, y)


@pytest.mark.parametrize("value", [-1.0, 0.5, -3.2])
def test_bad_counts(value):
    y = np.arange(24.0)
    y[5] = value
    with pytest.raises(ValueError, match="whole number from 0 on.*choose another loss"):
        SetTransformerRegressor(loss="poisson", **QUICK).fit(SETS, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(24, "one"), "at least two classes, but y holds one class only: 'one'"),
        (Y, "Unknown label type: continuous"),
        (np.column_stack([CLASSES, CLASSES]), "should be a 1d array"),
    ],
)
def test_bad_classes(y, message):
    with pytest.raises(ValueError, match=message):
        SetTransformerClassifier(**QUICK).fit(SETS, y)


@pytest.mark.parametrize("kind", [SetTransformerClassifier, SetTransformerRegressor])
def test_sparse_targets(kind):
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        kind(**QUICK).fit(SETS, csr_array(Y[:, None]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"encoder": "rnn"}, "'encoder' parameter of SetTransformerClassifier must be"),
        ({"pooling": "median"}, "'pooling' parameter"),
        ({"norm": "batch"}, "'norm' parameter"),
        ({"width": 0}, "'width' parameter"),
        ({"width": 9, "n_heads": 2}, "n_heads must divide width"),
        ({"dropout": 1.0}, "'dropout' parameter"),
        ({"embedding": "conv"}, "'embedding' parameter"),
        ({"embedding": nn.Identity(), "max_epochs": 0}, "'max_epochs' parameter"),
        (
            {"embedding": nn.Unflatten(1, (2, 1))},
            r"got \(1, 2, 1\) for one element of shape \(2,\)",
        ),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"random_state": "chance"}, "'random_state' parameter"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SetTransformerClassifier(**{**QUICK, **parameters}).fit(SETS, CLASSES)
    if "classifier" not in message.lower():
        with pytest.raises(ValueError, match=message):
            SetTransformerRegressor(**{**QUICK, **parameters}).fit(SETS, Y)


def test_loss_is_the_regressors():
    with pytest.raises(ValueError, match="'loss' parameter"):
        SetTransformerRegressor(loss="huber", **SMALL).fit(SETS, Y)
    with pytest.raises(TypeError, match="loss"):
        SetTransformerClassifier(loss="poisson")


@BOTH
def test_not_fitted(model, y):
    for method in {"predict", "predict_proba", "predict_log_proba"} & set(dir(model)):
        with pytest.raises(NotFittedError):
            getattr(clone(model), method)(SETS)


# -- scikit-learn's tools -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "X", [SETS, PADDED, objects(SETS), pd.Series(objects(SETS))], ids=lambda X: type(X).__name__
)
@BOTH
def test_tools_take_any_form(model, y, X):
    first, second, y_first, _ = train_test_split(X, y, random_state=0)
    of_some = clone(model).fit(first, y_first)
    assert of_some.predict(second).shape == (6,)
    scores = cross_val_score(model, X, y, cv=2)
    assert_array_equal(scores, cross_val_score(model, SETS, y, cv=2))
    pipeline = make_pipeline(FunctionTransformer(), model)
    assert_array_equal(
        cross_val_predict(pipeline, X, y, cv=2), cross_val_predict(model, SETS, y, cv=2)
    )


@BOTH
def test_two_processes(model, y):
    grid = {"embedding": [None, nn.Linear(2, 2)]}
    with joblib_forks():
        searches = [
            GridSearchCV(model, grid, cv=2, n_jobs=n_jobs).fit(X, y)
            for n_jobs, X in ((None, SETS), (2, SETS), (2, PADDED))
        ]
    for search in searches:
        expected = searches[0].cv_results_["mean_test_score"]
        assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-6)
        assert_allclose(search.score(SETS, y), searches[0].score(SETS, y), atol=1e-6)


@BOTH
def test_pickle_and_copies(model, y):
    fitted = clone(model).set_params(embedding=nn.Linear(2, 3)).fit(SETS, y)
    expected = fitted.predict(SETS)
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert_array_equal(copied.predict(SETS), expected)
        assert copied.history_[:, "train_loss"] == fitted.history_[:, "train_loss"]
    assert len(pickle.dumps(fitted)) < 60_000
    fresh = clone(fitted)
    assert fresh.embedding is not fitted.embedding
    assert not hasattr(fresh, "module_")
    assert_array_equal(fresh.fit(SETS, y).predict(SETS), expected)


@BOTH
def test_attributes(model, y):
    fitted = clone(model).fit(SETS, y)
    assert fitted.n_features_in_ == 2
    assert fitted.n_iter_ == len(fitted.history_) == 2
    assert_allclose(fitted.mean_, np.concatenate(SETS).mean(0))
    assert_allclose(fitted.scale_, np.concatenate(SETS).std(0))
    assert SetTransformerRegressor(**QUICK).fit(PADDED[..., 0], Y).n_features_in_ == 1


def test_fits_in_threads_are_those_of_one_after_the_other():
    model = SetTransformerRegressor(**QUICK | {"max_epochs": 3, "dropout": 0.1})
    expected = cross_val_score(model, SETS, Y, cv=4)
    for _ in range(2):
        with parallel_config("threading", n_jobs=4):
            assert_array_equal(cross_val_score(model, SETS, Y, cv=4), expected)


@BOTH
def test_too_few_sets_to_hold_some_out(model, y):
    early = clone(model).set_params(early_stopping=True)
    n = 4 if isinstance(model, SetTransformerClassifier) else 1
    some = [*np.flatnonzero(CLASSES == "high")[: n // 2], *np.flatnonzero(CLASSES == "low")[:n]][:n]
    with pytest.raises(ValueError, match=f"validation_fraction=0.1 of the {n} sets"):
        early.fit([SETS[i] for i in some], y[some])


def test_parameters_that_are_set_later_count_from_the_next_fit():
    rng = np.random.default_rng(0)
    sets, y = [rng.normal(size=(4, 2)) for _ in range(12)], np.arange(12.0)
    quick = {"max_epochs": 1, "width": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}
    for first, later in (("poisson", "squared_error"), ("squared_error", "poisson")):
        regressor = SetTransformerRegressor(loss=first, **quick).fit(sets, y)
        expected = regressor.predict(sets)
        np.testing.assert_array_equal(regressor.set_params(loss=later).predict(sets), expected)
        assert hasattr(regressor, "predict_mode") == (first == "poisson")
    network = torch.nn.Linear(2, 3)
    classifier = SetTransformerClassifier(embedding=network, **quick).fit(sets, y > 5)
    expected = classifier.predict_proba(sets)
    classifier.set_params(embedding=None)
    np.testing.assert_array_equal(classifier.predict_proba(sets), expected)
    assert hasattr(classifier.fit(sets, y > 5), "scale_")
    classifier.set_params(embedding=network).fit(sets, y > 5)  # reads elements as they are
    np.testing.assert_array_equal(classifier.predict_proba(sets), expected)


def test_epochs_that_were_complete_are_counted():
    class Ended(torch.nn.Identity):
        calls = 0

        def forward(self, x):
            Ended.calls += 1
            if Ended.calls == 8:  # one for the width, then three batches per epoch
                raise KeyboardInterrupt
            return super().forward(x)

    model = SetTransformerRegressor(**QUICK | {"max_epochs": 6, "batch_size": 8}, embedding=Ended())
    with pytest.warns(UserWarning, match="after 2 of 6 epochs"):
        assert model.fit(SETS, Y).n_iter_ == 2


def test_none_is_a_gap_in_targets_and_in_elements():
    sets = [np.ones((3, 2)) * i for i in range(6)]
    for loss in ("squared_error", "poisson"):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            SetTransformerRegressor(max_epochs=1, loss=loss).fit(sets, [1.0, None] * 3)
    with pytest.raises(ValueError, match=r"X\[0\] is not a set of numbers: Input contains NaN"):
        SetTransformerRegressor(max_epochs=1).fit([[[1, None]]] * 6, range(6))


def test_weights_that_the_last_step_spoiled_are_no_fit():
    sets = [np.ones((n, 2)) for n in (1, 2, 3, 4)] * 5
    diverging = SetTransformerRegressor(max_epochs=1, batch_size=20, learning_rate=1e30)
    with pytest.raises(ValueError, match="Training diverged: the loss became"):
        diverging.fit(sets, [float(len(s)) for s in sets])


def test_a_fit_to_counts_leaves_nothing_to_a_later_one_of_another_loss():
    rng = np.random.default_rng(0)
    sets, y = [rng.normal(size=(4, 2)) for _ in range(12)], np.arange(12.0)
    quick = {"max_epochs": 1, "width": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}
    again = SetTransformerRegressor(loss="poisson", **quick).fit(sets, y)
    again.set_params(loss="squared_error").fit(sets, y)
    anew = SetTransformerRegressor(**quick).fit(sets, y)
    np.testing.assert_array_equal(again.predict(sets), anew.predict(sets))
    assert not hasattr(again, "predict_mode")


@pytest.mark.parametrize("kind", [SetTransformerClassifier, SetTransformerRegressor])
def test_a_fit_that_fails_leaves_nothing_of_the_one_before(kind):
    rng = np.random.default_rng(0)
    sets, y = [rng.normal(size=(4, 2)) for _ in range(12)], np.arange(12.0) % 2
    quick = {"max_epochs": 1, "width": 8, "n_heads": 2, "n_layers": 1}
    model = kind(**quick).fit(sets, y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(sets, np.where(y == 1, np.nan, y))
    with pytest.raises(NotFittedError):
        model.predict(sets)


def test_a_fitted_network_reads_sets_in_its_own_precision():
    rng = np.random.default_rng(0)
    sets, y = [rng.normal(size=(4, 2)) for _ in range(12)], np.arange(12.0) % 2
    quick = {"max_epochs": 1, "width": 8, "n_heads": 2, "n_layers": 1, "random_state": 0}
    models = [
        kind(**quick).fit(sets, y) for kind in (SetTransformerClassifier, SetTransformerRegressor)
    ]
    ask = (models[0].predict_proba, models[1].predict)
    before = [one(sets) for one in ask]
    torch.set_default_dtype(torch.bfloat16)
    try:
        after = [one(sets) for one in ask]
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(before, after):
        np.testing.assert_array_equal(one, other)
