"""MetaGPRegressor as a scikit-learn user meets it."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes, load_linnerud, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import MetaGPRegressor
from sklearn_meta.chunks import chunks_of
from sklearn_meta.learner import Learner

EXPECTED_FAILURES = {
    False: {},
    True: {"check_methods_subset_invariance": "rows of one call are each other's unlabelled data"},
}


def small_learner(seed=0, head="gp"):
    """A learner with random weights: the properties hold for any weights, and this one is quick."""
    torch.manual_seed(seed)
    small = {"width": 8, "head_width": 4, "n_heads": 2, "n_layers": 2}
    return Learner(
        "vsa",
        head,
        task="regression",
        backbone_config=small,
        head_config={"n_kernels": 2, "length_scale": 1.0},  # 1: so that rows are told apart
    ).requires_grad_(False)


LEARNER = small_learner()  # nothing trains it


def double(transductive=True, **parameters):
    return MetaGPRegressor(LEARNER, transductive=transductive, dtype="float64", **parameters)


@parametrize_with_checks(
    [
        MetaGPRegressor(transductive=False, dtype="float64"),
        MetaGPRegressor(transductive=True, dtype="float64"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[estimator.transductive],
    xfail_strict=True,
)
def test_sklearn_checks(estimator, check):
    check(estimator)


# -- properties -------------------------------------------------------------------------------


@st.composite
def few_shot(draw):
    """Draw a task with gaps: (X, y with NaN, X_new); y is a vector or has several targets."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labelled = draw(st.integers(1, 8))
    n_columns = draw(st.integers(1, 6))
    n_context = n_labelled + draw(st.integers(0, 5))
    n_targets = draw(st.sampled_from([(), (1,), (2,), (4,)]))
    X = rng.standard_normal((n_context + draw(st.integers(2, 9)), n_columns))
    X *= rng.lognormal(size=n_columns)
    X[rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    X[0] = 1.0  # at least one cell is observed
    y = rng.standard_normal((n_context, *n_targets))
    y[n_labelled:] = np.nan
    return X[:n_context], y, X[n_context:]


def answers(regressor, new):
    """All answers of ``predict`` and ``sample_y`` for some rows."""
    mean, std = regressor.predict(new, return_std=True)
    return {
        "mean": mean,
        "std": std,
        "cov": regressor.predict(new, return_cov=True)[1],
        "quantiles": regressor.predict(new, quantiles=[0.1, 0.5, 0.8]),
        "samples": regressor.sample_y(new, 4, random_state=0),
        "density": np.exp(regressor.log_predictive_density(new, mean + std / 2)),
    }


@given(task=few_shot(), transductive=st.booleans(), seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_permutations_of_rows_columns_and_targets(task, transductive, seed):
    X, y, new = task
    mean, cov = double(transductive).fit(X, y).predict(new, return_cov=True)
    rng = np.random.default_rng(seed)
    rows, new_rows = rng.permutation(len(X)), rng.permutation(len(new))
    columns = rng.permutation(X.shape[1])
    targets = rng.permutation(y.shape[1]) if y.ndim == 2 else slice(None)
    regressor = double(transductive).fit(X[np.ix_(rows, columns)], y[rows][..., targets])
    found, found_cov = regressor.predict(new[np.ix_(new_rows, columns)], return_cov=True)
    assert_allclose(found, mean[new_rows][..., targets], atol=1e-9)
    permuted = cov[np.ix_(new_rows, new_rows)]
    assert_allclose(found_cov, permuted[..., targets], atol=1e-9)


@settings(max_examples=10)
@given(
    task=few_shot(),
    transductive=st.booleans(),
    exponent=st.integers(-12, 12),
    shift=st.floats(-100, 100),
)
def test_unit_of_the_target(task, transductive, exponent, shift):
    X, y, new = task
    labelled = ~np.isnan(y.reshape(len(y), -1)[:, 0])
    assume(labelled.sum() > 1)  # a single row has no unit of its own
    scale = 10.0**exponent
    shift = shift * scale
    expected = answers(double(transductive).fit(X, y), new)
    found = answers(double(transductive).fit(X, scale * y + shift), new)
    for name, power, offset in (
        *(("mean", 1, shift), ("std", 1, 0), ("cov", 2, 0)),
        *(("quantiles", 1, shift), ("samples", 1, shift), ("density", -1, 0)),
    ):
        unit = scale**power
        assert_allclose((found[name] - offset) / unit, expected[name], atol=1e-7, err_msg=name)


@given(task=few_shot(), transductive=st.booleans())
@settings(max_examples=10)
def test_units_of_columns_do_not_matter(task, transductive):
    X, y, new = task
    expected = double(transductive).fit(X, y).predict(new, return_std=True)
    scale, shift = 10.0 ** np.arange(X.shape[1]), np.arange(X.shape[1])
    regressor = double(transductive).fit(X * scale + shift, y)
    found = regressor.predict(new * scale + shift, return_std=True)
    if not transductive and len(X) < 2:
        return
    varied = np.nanmin(X, 0) < np.nanmax(X, 0)
    if transductive or varied.all():  # a column constant in the context has no unit of its own
        assert_allclose(found, expected, atol=1e-7)


@settings(max_examples=10)
@given(task=few_shot(), chunk_size=st.integers(1, 4))
def test_inductive_answers_do_not_depend_on_their_batch(task, chunk_size):
    X, y, new = task
    whole = double(False).fit(X, y)
    chunked = double(False, chunk_size=np.uint8(chunk_size)).fit(X, y)  # as of a search
    expected, found = answers(whole, new), answers(chunked, new)
    for name in expected:
        assert_allclose(found[name], expected[name], atol=1e-9, err_msg=name)
    rows = [whole.predict(row[None], return_std=True) for row in new]
    assert_allclose(np.concatenate([mean for mean, _ in rows]), expected["mean"], atol=1e-9)
    assert_allclose(np.concatenate([std for _, std in rows]), expected["std"], atol=1e-9)
    assert_allclose(chunked.transform(new), whole.transform(new), atol=1e-9)


@settings(max_examples=10)
@given(task=few_shot(), chunk_size=st.integers(1, 4))
def test_transductive_chunks_are_separate_calls(task, chunk_size):
    X, y, new = task
    assume(len(np.unique(np.nan_to_num(new), axis=0)) == len(new))  # equal rows have one answer
    whole = double().fit(X, y)
    chunked = double(chunk_size=chunk_size).fit(X, y)
    asked = np.linspace(-1, 1, len(new)).reshape(-1, *[1] * (y.ndim - 1)) + np.zeros(y.shape[1:])
    found = chunked.predict(new), chunked.predict(new, quantiles=[0.2, 0.9])
    density = chunked.log_predictive_density(new, asked)
    for rows in chunks_of(new, chunk_size):
        assert_allclose(found[0][rows], whole.predict(new[rows]), atol=1e-9)
        quantiles = whole.predict(new[rows], quantiles=[0.2, 0.9])
        assert_allclose(found[1][:, rows], quantiles, atol=1e-7)
        expected = whole.log_predictive_density(new[rows], asked[rows])
        assert_allclose(density[rows], expected, atol=1e-7)


@settings(max_examples=10)
@given(
    tasks=st.lists(few_shot(), min_size=1, max_size=5),
    transductive=st.booleans(),
    chunk_size=st.sampled_from([1, 3, 1000]),
)
def test_batched_tasks_equal_one_by_one(tasks, transductive, chunk_size):
    """Inductive ``fit`` reads the context alone, ``predict_batch`` with the rows: both agree.

    Some rows have no target.
    """
    regressor = double(transductive, chunk_size=chunk_size)
    pairs = regressor.predict_batch(tasks, return_std=True)
    means = regressor.predict_batch(tasks)
    for (X, y, new), (mean, std), same in zip(tasks, pairs, means, strict=True):
        expected = regressor.fit(X, y).predict(new, return_std=True)
        assert_allclose(mean, expected[0], atol=1e-9)
        assert_allclose(std, expected[1], atol=1e-9)
        assert_array_equal(mean, same)


@given(task=few_shot(), transductive=st.booleans())
@settings(max_examples=10)
def test_what_predict_says_hangs_together(task, transductive):
    X, y, new = task
    regressor = double(transductive).fit(X, y)
    found = answers(regressor, new)
    shape = (len(new), *y.shape[1:])
    assert found["mean"].shape == found["std"].shape == shape
    assert found["cov"].shape == (len(new), *shape)
    assert found["quantiles"].shape == (3, *shape)
    assert found["samples"].shape == (*shape, 4)
    assert_allclose(regressor.predict(new), found["mean"], rtol=1e-12)
    variance = np.diagonal(found["cov"]).T
    assert_allclose(np.sqrt(variance), found["std"], rtol=1e-7)
    assert_allclose(found["cov"], found["cov"].swapaxes(0, 1), rtol=0, atol=0)
    assert (
        np.linalg.eigvalsh(np.moveaxis(found["cov"], -1, 0) if y.ndim == 2 else found["cov"]).min()
        > 0
    )
    assert (np.diff(found["quantiles"], axis=0) > 0).all()
    assert_density(regressor, new, found["quantiles"])
    assert_array_equal(regressor.sample_y(new, 4, random_state=0), found["samples"])
    assert (regressor.sample_y(new, 4, random_state=1) != found["samples"]).any()


def assert_density(regressor, new, quantiles, levels=(0.1, 0.5, 0.8)):
    """``log_predictive_density`` is the slope of the distribution function."""
    step = 1e-5
    levels = np.array(levels)
    near = regressor.predict(new, quantiles=np.concatenate([levels - step, levels + step]))
    width = near[len(levels) :] - near[: len(levels)]
    for values, wide in zip(quantiles, width, strict=True):
        density = np.exp(regressor.log_predictive_density(new, values))
        assert_allclose(density * wide, 2 * step, rtol=1e-3)


@pytest.mark.parametrize("weights", ["default", "plain"])
def test_quantiles_are_normal_only_where_one_process_of_plain_targets_is_all(weights):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.exp(2 * rng.standard_normal(30))
    plain = Learner(head="gp", task="regression", head_config={"n_kernels": 1})
    backbone = plain if weights == "plain" else weights
    regressor = MetaGPRegressor(backbone, dtype="float64").fit(X[:30], y)
    mean, std = regressor.predict(X[30:], return_std=True)
    quantiles = regressor.predict(X[30:], quantiles=[0.1, 0.5, 0.9])
    normal = mean + norm.ppf([[0.1], [0.5], [0.9]]) * std
    if weights == "plain":
        assert_allclose(quantiles, normal, rtol=1e-9)
        density = regressor.log_predictive_density(X[30:], normal[0])
        assert_allclose(density, norm.logpdf(normal[0], mean, std), rtol=1e-9)
    else:  # many small values, few large ones
        assert (quantiles[2] - quantiles[1] > 1.4 * (quantiles[1] - quantiles[0])).all()
        assert (quantiles[0] > normal[0]).all()


@pytest.mark.parametrize("n_targets", [(), (2,)])
def test_samples_have_the_moments_and_quantiles_that_are_said(n_targets):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal((20, *n_targets)) * 5 + 100
    regressor = double().fit(X[:20], y)
    mean, cov = regressor.predict(X[20:], return_cov=True)
    samples = regressor.sample_y(X[20:], 20_000, random_state=3)
    std = np.sqrt(np.diagonal(cov).T)
    assert np.abs((samples.mean(-1) - mean) / std).max() < 5 / 20_000**0.5
    for t in np.ndindex(n_targets):
        own = np.index_exp[:, :, *t]
        found = np.cov(samples[np.index_exp[:, *t]])
        assert np.abs(found - cov[own]).max() < 0.05 * cov[own].max()
    low, high = regressor.predict(X[20:], quantiles=[0.05, 0.95])
    inside = ((samples > low[..., None]) & (samples < high[..., None])).mean()
    assert inside == pytest.approx(0.9, abs=0.01)


def test_rows_of_a_transductive_call_see_each_other_and_inductive_ones_do_not():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(10)
    for transductive in (True, False):
        regressor = double(transductive).fit(X[:10], y)
        alone, beside = regressor.predict(X[10:20]), regressor.predict(X[10:])[:10]
        assert (np.abs(alone - beside).max() > 1e-3) == transductive


def test_unlabelled_rows_of_fit_matter():
    X, y = make_friedman1(60, random_state=0)
    few = np.where(np.arange(60) < 10, y, np.nan)
    for transductive in (True, False):
        with_unlabelled = double(transductive).fit(X, few).predict(X[40:])
        alone = double(transductive).fit(X[:10], few[:10]).predict(X[40:])
        assert np.abs(with_unlabelled - alone).max() > 1e-3
        assert np.isfinite(with_unlabelled).all()


# -- kinds of input -----------------------------------------------------------------------------


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    red = rng.random(40) < 0.5
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=40),
            "colour": pd.Categorical(np.where(red, "red", rng.choice(["blue", "green"], 40))),
            "text": np.where(rng.random(40) < 0.5, "a", "b"),
            "whole": pd.array(rng.integers(0, 9, 40), dtype="Int64"),
            "flag": red,
        }
    )
    y = pd.Series(20.0 * red + frame["size"], name="price")
    frame.loc[3, ["size", "colour", "text", "whole"]] = None
    return frame, y


def test_the_default_weights_find_the_columns_that_tell():
    """Two of sixty columns tell the target: a network that reads no labels cannot find them."""
    scores = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((130, 60))
        y = X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(130)
        models = MetaGPRegressor(), RidgeCV(np.logspace(-2, 3, 9))
        scores.append([model.fit(X[:30], y[:30]).score(X[30:], y[30:]) for model in models])
    ours, ridge = np.mean(scores, axis=0)
    assert ours > 0.6 > ridge


@pytest.mark.parametrize("transductive", [True, False])
def test_dataframe_of_mixed_columns(mixed, transductive):
    X, y = mixed
    few = np.arange(0, 40, 3)
    regressor = MetaGPRegressor(transductive=transductive)
    regressor.fit(X.iloc[few], y.iloc[few])
    assert regressor.score(X, y) > 0.6
    assert_array_equal(regressor.feature_names_in_, X.columns)
    objects = X.astype(object).to_numpy()
    found = clone(regressor).fit(objects[few], y[few]).predict(objects)
    assert_array_equal(found, regressor.predict(X))
    some = y.astype("Float64").where(np.isin(np.arange(40), few))  # NA, not NaN
    semi = clone(regressor).fit(X, some)
    assert np.isnan(semi.y_).sum() == 40 - len(few)
    assert np.isfinite(semi.predict(X)).all()


def test_missing_cells_all_missing_and_constant_columns():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:60], y[:60]
    plain = MetaGPRegressor(dtype="float64").fit(X[:20], y[:20])
    padded = np.column_stack([X, np.full(len(X), np.nan), np.full(len(X), 7.0)])
    other = clone(plain).fit(padded[:20], y[:20])
    assert_allclose(other.predict(padded), plain.predict(X), rtol=1e-9)
    gaps = X.copy()
    gaps[::3, 0] = np.nan
    assert np.isfinite(clone(plain).fit(gaps[:20], y[:20]).predict(gaps, return_std=True)).all()


def test_one_target_as_a_column_and_as_a_vector():
    X, y = make_friedman1(30, random_state=0)
    vector = answers(double().fit(X[:20], y[:20]), X[20:])
    column = answers(double().fit(X[:20], y[:20, None]), X[20:])
    assert column["mean"].shape == (10, 1)
    axes = {"mean": 1, "std": 1, "cov": 2, "quantiles": 2, "samples": 1, "density": 1}
    for name, axis in axes.items():
        assert_array_equal(np.take(column[name], 0, axis=axis), vector[name])
    both = np.column_stack([y, -y])
    of_array, of_frame = (
        double().fit(rows[:20], both[:20]).predict(rows[20:]) for rows in (X, pd.DataFrame(X))
    )
    assert_array_equal(of_frame, of_array)


def test_more_targets_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal((4, 9))
    for transductive in (True, False):
        found = answers(double(transductive).fit(X[:4], y), X)
        assert found["cov"].shape == (12, 12, 9)
        assert all(np.isfinite(values).all() for values in found.values())


@pytest.mark.parametrize("transductive", [True, False])
def test_same_answer_twice_and_bfloat16_is_close(transductive):
    X, y = load_diabetes(return_X_y=True)
    regressor = MetaGPRegressor(transductive=transductive).fit(X[:20], y[:20])
    first = answers(regressor, X[20:60])
    again = answers(regressor, X[20:60])
    for name in first:
        assert_array_equal(first[name], again[name])
    assert_allclose(np.sqrt(np.diag(first["cov"])), first["std"], rtol=1e-4)
    rough = clone(regressor).set_params(dtype="bfloat16").fit(X[:20], y[:20])
    assert np.abs(rough.predict(X[20:60]) - first["mean"]).mean() < 0.1 * y.std()


# -- scikit-learn's tools -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(60, n_features=5, noise=0.5, random_state=0)


@pytest.fixture
def meta_fitted(friedman):
    return MetaGPRegressor(small_learner(), random_state=0).meta_fit(
        [friedman], max_steps=4, eval_every=2, n_shots=(5,), n_unlabelled=5, verbose=False
    )


def same_weights(a, b):
    pairs = zip(a.learner_.parameters(), b.learner_.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("transductive", [True, False])
def test_clone_pickle_and_joblib_keep_meta_trained_weights(
    meta_fitted, friedman, transductive, tmp_path
):
    X, y = friedman
    meta_fitted.set_params(transductive=transductive).fit(X[:20], y[:20])
    copy = clone(meta_fitted)
    assert same_weights(copy, meta_fitted)
    assert not all(
        torch.equal(x, y)
        for x, y in zip(copy.learner_.parameters(), small_learner().parameters(), strict=True)
    )
    with pytest.raises(NotFittedError):
        copy.predict(X)
    joblib.dump(meta_fitted, tmp_path / "regressor.joblib")
    for loaded in (
        pickle.loads(pickle.dumps(meta_fitted)),
        joblib.load(tmp_path / "regressor.joblib"),
    ):
        assert same_weights(loaded, meta_fitted)
        expected = answers(meta_fitted, X[20:])
        assert_array_equal(loaded.predict(X[20:], return_cov=True)[1], expected["cov"])
        assert_array_equal(loaded.sample_y(X[20:], 4), expected["samples"])


@pytest.mark.parametrize("transductive", [True, False])
def test_pickle_does_not_copy_default_weights(friedman, transductive):
    X, y = friedman
    regressor = MetaGPRegressor(transductive=transductive).fit(X[:20], y[:20])
    pickled = pickle.dumps(regressor)
    assert len(pickled) < 2 * sum(p.numel() for p in regressor.learner_.parameters())
    assert_array_equal(pickle.loads(pickled).predict(X), regressor.predict(X))


def test_cross_validation_in_two_processes_keeps_meta_fitted_weights(meta_fitted, friedman):
    in_process = cross_val_predict(meta_fitted, *friedman, cv=3)
    assert_array_equal(cross_val_predict(meta_fitted, *friedman, cv=3, n_jobs=2), in_process)
    untrained = cross_val_predict(MetaGPRegressor(small_learner()), *friedman, cv=3)
    assert np.abs(in_process - untrained).max() > 0


def test_searches_pipelines_and_composite_regressors():
    X, y = load_diabetes(as_frame=True, return_X_y=True)
    X, y = X[:200].assign(kind=np.where(X["bmi"] > 0, "high", "low")[:200]), y[:200]
    search = GridSearchCV(
        MetaGPRegressor(), {"transductive": [True, False]}, scoring="neg_mean_squared_error"
    ).fit(X, y)
    assert -search.best_score_ < 0.8 * y.var()
    scaled = make_column_transformer(
        (StandardScaler(), list(X.columns[:-1])), (OneHotEncoder(), ["kind"])
    )
    assert cross_val_score(make_pipeline(scaled, MetaGPRegressor()), X, y).mean() > 0.25
    pipeline = make_pipeline(scaled, MetaGPRegressor()).fit(X[:50], y[:50])
    mean, std = pipeline.predict(X[50:], return_std=True)
    assert ((np.abs(mean - y[50:]) < 1.645 * std).mean() > 0.7) and (std > 0).all()
    logarithm = TransformedTargetRegressor(MetaGPRegressor(), func=np.log, inverse_func=np.exp)
    assert cross_val_score(logarithm, X, y).mean() > 0.25


def test_multi_output_is_one_process_a_target():
    X, y = load_linnerud(return_X_y=True)
    found = MultiOutputRegressor(double()).fit(X, y).predict(X)
    each = [double().fit(X, column).predict(X) for column in y.T]
    assert_array_equal(found, np.column_stack(each))
    together = double().fit(X, y)
    assert together.predict(X).shape == y.shape
    assert np.isfinite(together.score(X, y))


def test_set_output_and_feature_names():
    X, y = load_diabetes(as_frame=True, return_X_y=True)
    regressor = MetaGPRegressor(transductive=False).fit(X[:30], y[:30])
    names = regressor.get_feature_names_out()
    embedded = regressor.set_output(transform="pandas").transform(X[:50])
    assert embedded.shape == (50, len(names))
    assert_array_equal(embedded.columns, names)


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 21])
def test_rows_that_are_the_same_have_one_distribution_whichever_chunk_reads_them(chunk_size):
    X, y = load_diabetes(return_X_y=True)
    rows = X[30:40].repeat([1, 4, 2, 1, 3, 1, 1, 6, 1, 1], axis=0)
    rows[1:3, 0] = np.nan
    targets = y[30:51]
    regressor = MetaGPRegressor(chunk_size=chunk_size, dtype="float64").fit(X[:30], y[:30])
    quantiles = regressor.predict(rows, quantiles=(0.1, 0.5, 0.9))
    known = regressor.log_predictive_density(rows, np.full(21, 150.0))
    for i, row in enumerate(rows):
        same = ((rows == row) | np.isnan(rows) & np.isnan(row)).all(axis=1)
        assert_array_equal(quantiles[:, same], quantiles[:, [i]] * np.ones(same.sum()))
        assert_array_equal(known[same], known[i] * np.ones(same.sum()))
    order = np.random.default_rng(0).permutation(21)
    again = regressor.predict(rows[order], quantiles=(0.1, 0.5, 0.9))
    assert_allclose(again, quantiles[:, order], rtol=1e-9)
    told = regressor.log_predictive_density(rows[order], targets[order])
    assert_allclose(told, regressor.log_predictive_density(rows, targets)[order], rtol=1e-9)
