"""Rows of a stream are scaled by the rows before, none of which decides alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.utils import shuffle

from sklearn_meta import FewShotTransformerClassifier, MANNClassifier, MANNRegressor
from sklearn_meta.tasks import moments_of
from sklearn_meta.tasks.running import (
    BEHIND,
    FAR,
    Moments,
    last,
    running_moments,
    standardise,
    standardised_rows,
)

seeds = st.integers(0, 9999)


def heavy_tailed(seed, n_rows=60, n_columns=4):
    """Columns of all sorts: far cells, gaps, rare values and constants."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)) * 10.0 ** rng.integers(-3, 4, n_columns)
    X[rng.random(X.shape) < 0.05] *= 10.0 ** rng.integers(1, 6)
    X[:, 0] = np.where(rng.random(n_rows) < 0.2, X[:, 0], 0)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@given(seeds)
def test_what_is_far_off_the_rows_before_counts_as_no_further(seed):
    X = heavy_tailed(seed)
    found = last(running_moments(X, Moments.empty(X.shape[1])))
    for column, mean, scale in zip(X.T, found.mean, found.scale, strict=True):
        counted = []
        for value in column[~np.isnan(column)]:
            reach = max(FAR, np.sqrt(len(counted))) * np.std(counted) if counted else 0
            if len(counted) >= BEHIND and reach > 0:
                value = np.clip(value, np.mean(counted) - reach, np.mean(counted) + reach)
            counted.append(value)
        assert_allclose(mean, np.mean(counted), rtol=1e-6, atol=1e-6 * np.std(counted))
        assert_allclose(scale, np.std(counted), rtol=1e-6, atol=1e-12)


@given(seeds, st.integers(1, 59))
def test_in_pieces_it_counts_as_much(seed, cut):
    X, nothing = heavy_tailed(seed), Moments.empty(4)
    whole = running_moments(X, nothing)
    first = running_moments(X[:cut], nothing)
    second = running_moments(X[cut:], last(first))
    assert_array_equal(whole.scale, np.vstack([first.scale, second.scale]))
    assert_array_equal(whole.mean, np.vstack([first.mean, second.mean]))


def test_a_stream_that_moves_for_good_is_followed():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=30), 1000 + rng.normal(size=300)][:, None]
    found = last(running_moments(X, Moments.empty(1)))
    assert found.scale > 100 and 500 < found.mean < 1000


@pytest.mark.parametrize("share", [0.002, 0.01])
def test_rare_values_count_as_they_are_in_time(share):
    X = 100.0 * (np.random.default_rng(0).random((20_000, 1)) < share)
    found = last(running_moments(X, Moments.empty(1)))
    assert_allclose([*found.mean, *found.scale], [X.mean(), X.std()], rtol=0.2)


def test_the_ends_of_float64_are_no_matter():
    X = np.random.default_rng(0).normal(size=(40, 4))
    X[20], X[:, 3] = [1.7e308, -1.7e308, np.nan, 1e10], X[:, 3] * 1e-300
    with np.errstate(all="raise"):
        found = last(running_moments(X, Moments.empty(4)))
    assert_array_equal(found.count, [40, 40, 39, 40])
    assert np.isfinite(found.mean).all() and (found.scale > 0).all()


def test_targets_count_as_they_are():
    """Without rare large targets, predictions of a mostly zero target would be too low."""
    X, y = np.zeros((200, 1)), np.where(np.arange(200) % 50 == 49, 100.0, 0)
    regressor = MANNRegressor(random_state=0, window_size=None).fit(X, y)
    assert_allclose(regressor._reading.targets.mean, 2)


@given(seeds)
def test_the_moments_of_a_table_do_not_depend_on_its_order(seed):
    X = heavy_tailed(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    found, shuffled = moments_of(X), moments_of(X[order])
    assert_allclose(found.mean, shuffled.mean, rtol=1e-9, atol=1e-9 * found.scale.max())
    assert_allclose(found.scale, shuffled.scale, rtol=1e-9)


def test_moments_of_columns_with_few_cells():
    X = np.full((5, 3), np.nan)
    X[2, 1], X[[1, 4], 2] = 7, (1, 3)
    found = moments_of(X)
    assert_array_equal(found.mean, [0, 7, 2])
    assert_array_equal(found.scale, [0, 0, 1])
    assert_array_equal(moments_of(np.array([[0.0], [1], [1.01], [50]])).mean, [52.01 / 4])
    assert moments_of(np.array([[0.0], [1], [1.01], [3], [5000]])).mean < 10
    normal = np.random.default_rng(0).normal(size=(40, 3))
    assert_allclose(moments_of(normal).mean, normal.mean(0))
    assert_allclose(moments_of(normal).scale, normal.std(0))


X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)


@pytest.mark.filterwarnings("ignore:These values lie far from all others")
@pytest.mark.parametrize("sentinel", [-9999, 1e6])
@pytest.mark.parametrize("place", [12, 40])
@pytest.mark.parametrize("kind", [MANNClassifier, FewShotTransformerClassifier])
def test_one_row_of_sentinels_among_sixty_does_little(kind, place, sentinel):
    """One such row used to leave either estimator unable to tell any class from another."""
    spoiled = X[:60].copy()
    spoiled[place] = sentinel
    score = kind(random_state=0).fit(spoiled, Y[:60]).score(X[60:], Y[60:])
    assert score > 0.85


def test_a_stream_gets_over_a_row_of_sentinels():
    stream = MANNClassifier(random_state=0).partial_fit(X[:30], Y[:30])
    stream.partial_fit(np.full((1, X.shape[1]), -9999.0), Y[:1])
    assert stream.partial_fit(X[30:60], Y[30:60]).score(X[60:], Y[60:]) > 0.9


def test_nor_does_it_spoil_a_regression():
    table, target = shuffle(*load_diabetes(return_X_y=True), random_state=0)
    spoiled = table[:100].copy()
    spoiled[40] = table.mean(0) + 100 * table.std(0)
    regressor = MANNRegressor(random_state=0)
    before = regressor.fit(table[:100], target[:100]).score(table[100:], target[100:])
    found = regressor.fit(spoiled, target[:100]).score(table[100:], target[100:])
    assert before > 0.3 and found > before - 0.1


def test_columns_that_do_not_vary_do_not_shorten_rows():
    normal = np.random.default_rng(0).normal(size=(30, 4))
    constant = np.concatenate([normal, np.ones((30, 12))], 1)
    alone, beside = (
        standardised_rows(rows, running_moments(rows, Moments.empty(rows.shape[1])))
        for rows in (normal, constant)
    )
    assert not beside[:, 4:].any()
    assert_array_equal(beside[: BEHIND - 1, :4], alone[: BEHIND - 1])  # they may still vary
    assert_allclose(beside[BEHIND - 1 :, :4], 2 * alone[BEHIND - 1 :])  # the root of 16 / 4


def test_forty_constant_columns_change_little():
    iris, labels = shuffle(*load_iris(return_X_y=True), random_state=0)
    losses = []
    for n_constant in (0, 40):
        rows = np.concatenate([iris, np.ones((len(iris), n_constant))], 1)
        classifier = MANNClassifier(random_state=0).fit(rows[:60], labels[:60])
        losses.append(log_loss(labels[60:], classifier.predict_proba(rows[60:])))
    assert losses[1] < losses[0] + 0.1


def test_a_column_that_varies_by_rounding_does_not_vary():
    """Such as sums of shares, which are all one."""
    shares = np.random.default_rng(0).dirichlet(np.ones(7), 40)
    rows = np.c_[shares.sum(1), shares[:, 0]]
    assert np.ptp(rows[:, 0]) > 0
    units = last(running_moments(rows, Moments.empty(2)))
    found = standardise(rows, units)
    assert not found[:, 0].any() and np.ptp(found[:, 1]) > 2


def test_of_the_last_row_alone_is_kept():
    """A view would keep the moments after all rows before it in memory."""
    found = last(running_moments(heavy_tailed(0), Moments.empty(4)))
    assert all(part.base is None for part in found)
