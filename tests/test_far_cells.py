"""Rows with one cell that is far from all others of its column count as outliers."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_meta import AmortizedOutlierDetector
from sklearn_meta.far_cells import FarCells

CELLS = st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0, 40.0, np.nan])
TABLES = st.tuples(st.integers(2, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=CELLS)
)


@given(TABLES, st.integers(0, 2**16))
def test_neither_order_nor_units_matter(rows, seed):
    rng = np.random.default_rng(seed)
    columns, order = rng.permutation(rows.shape[1]), rng.permutation(len(rows))
    excess = FarCells.of(rows).excess(rows)
    assert (excess >= 0).all()
    other = rows[order][:, columns] * rng.choice([-4.0, 0.25, 8.0]) + 16
    assert_allclose(FarCells.of(other).excess(other), excess[order], atol=1e-9)


def test_a_far_cell_is_far_by_the_spread_of_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 20))
    far = FarCells.of(X)
    assert far.excess(X).max() < 0.5
    rows = np.repeat(X[:1], 4, axis=0)
    rows[:, 3] = [0, 6, 10, 1e300]
    found = far.excess(rows)
    assert found[0] == far.excess(X[:1])[0] and (np.diff(found) > 0).all() and found[2] > 2
    rows[:, 3] = np.nan  # a gap is not far
    assert_array_equal(far.excess(rows), far.excess(rows[:1])[0])
    heavy = rng.standard_t(2, (100, 20))
    rows[:, 3] = np.median(heavy[:, 3]) + 10 * np.arange(4)
    assert FarCells.of(heavy).excess(rows)[2] < found[2] / 2


def test_flags_and_columns_without_a_spread_tell_nothing():
    flags = np.c_[np.arange(20) == 3, np.full(20, np.nan), np.ones(20)].astype(float)
    assert_array_equal(FarCells.of(flags).excess(flags), 0)
    assert_array_equal(FarCells.of(flags).excess(flags * 1e9), 0)


def test_a_far_amount_in_a_column_that_is_mostly_zero_is_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 20))
    X[:, 0] = np.where(rng.random(100) < 0.1, rng.lognormal(3, 1, 100), 0)
    new = np.r_[X[:20]]
    new[:, 0] = 1e6
    detector = AmortizedOutlierDetector().fit(X)
    assert np.mean(detector.predict(X) == -1) < 0.05
    assert (detector.predict(new) == -1).all()


@pytest.mark.parametrize("n_columns", [5, 20, 50])
def test_a_row_with_one_far_cell_is_an_outlier(n_columns):
    """Among twenty columns a cell of a million deviations used to be called normal."""
    rng = np.random.default_rng(1)
    X, new = rng.standard_normal((100, n_columns)), rng.standard_normal((20, n_columns))
    detector = AmortizedOutlierDetector().fit(X)
    usual = detector.predict(X), detector.predict(new)
    assert np.mean(np.concatenate(usual) == -1) < 0.05
    for cell in (12, 1e6):
        new[:, 0] = cell
        assert (detector.predict(new) == -1).all()
    X[7, 0] = 12
    found = AmortizedOutlierDetector().fit(X).score_samples(X)
    assert found.argmin() == 7
    assert_allclose(
        AmortizedOutlierDetector().score_samples_batch([X, X[:50]])[0], found, atol=1e-4
    )


def test_the_unit_is_the_distance_from_the_median_to_the_90_percent_quantile_and_a_tenth():
    X = np.random.default_rng(0).standard_t(3, (101, 4))
    low, median, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)

    def farthest(rows):
        return np.log1p((np.abs(rows - median) / (high - low)).max(1))

    usual, most = np.quantile(farthest(X), [0.5, 0.9])
    expected = ((farthest(3 * X) - most) / (most - usual + 0.1) - 1).clip(0)
    assert (expected > 0).any() and (expected == 0).any()
    assert_allclose(FarCells.of(X).excess(3 * X), expected, atol=1e-12)
    signs = np.tile([-1.0, 1.0], 20)[:, None]  # all rows are equally far: half a width
    excess = FarCells.of(signs).excess(np.array([[1.0], [1.2], [2.0]]))
    assert_allclose(excess, [0, 0, np.log(2 / 1.5) / 0.1 - 1])


def test_a_cell_that_is_more_widths_off_than_float64_holds_is_as_far_as_any():
    X = 1e-9 * np.random.default_rng(0).standard_normal((100, 3))
    new = np.array([[1.0, 0, 0], [1e290, 0, 0], [1e300, 0, 0]])
    excess = FarCells.of(X).excess(new)
    assert np.isfinite(excess).all() and (np.diff(excess) > 0).all()


def test_a_column_without_a_cell_is_no_warning():
    rows = np.c_[np.arange(9.0), np.full(9, np.nan)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(
            FarCells.of(rows).excess(rows), FarCells.of(rows[:, :1]).excess(rows[:, :1])
        )
