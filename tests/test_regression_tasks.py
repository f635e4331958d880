"""Regression tasks: draws of the synthetic prior are sound, and the sampler keeps its promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import RidgeCV

from sklearn_meta.tasks import Dataset, batches, collate
from sklearn_meta.tasks.dataset import column_as_target
from sklearn_meta.tasks.regression_episodes import RegressionSampler, target_scale
from sklearn_meta.tasks.regression_families import FAMILIES, FUNCTIONS, relevance
from sklearn_meta.tasks.regression_prior import RegressionPrior

# The prior


def draws(n_draws, seed=0, **parameters):
    rng, source = np.random.default_rng(seed), RegressionPrior(**parameters)
    return [source.draw(rng) for _ in range(n_draws)]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_draw_is_a_sound_table(family):
    for name, X, y, _ in draws(80, families=(family,)):
        assert name == f"prior-{family}"
        assert X.dtype == y.dtype == np.float32
        assert len(X) == 150 and y.shape == (150,) and 2 <= X.shape[1] <= 30
        assert np.isfinite(y).all() and not np.isinf(X).any()
        assert abs(y.mean()) < 1e-4 and y.std() == pytest.approx(1, abs=1e-3)
        assert np.abs(np.nan_to_num(X)).max() < np.sqrt(len(X))


@pytest.mark.parametrize("family", FAMILIES)
def test_smallest_and_widest_tables(family):
    for n_columns in (2, 3, 100):
        for n_rows in (10, 40):
            parameters = {"n_rows": n_rows, "n_columns": (n_columns,) * 2, "families": (family,)}
            for _, X, y, _ in draws(10, **parameters):
                assert X.shape == (n_rows, n_columns)
                assert len(np.unique(y)) > 1 and np.isfinite(y).all()


def test_equal_generators_draw_equal_tables():
    for a, b, c in zip(draws(80, seed=1), draws(80, seed=1), draws(80, seed=2), strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.y, b.y)
        assert not np.array_equal(a.X, c.X) and not np.array_equal(a.y, c.y)


def test_distribution_over_families_columns_gaps_and_targets():
    tables = draws(800)
    assert {table.name for table in tables} == {f"prior-{family}" for family in FAMILIES}
    n_columns = np.array([table.X.shape[1] for table in tables])
    assert set(n_columns) == set(range(2, 31))
    gaps = np.array([np.isnan(table.X).mean() for table in tables])
    assert np.mean(gaps > 0) == pytest.approx(0.23, abs=0.05) and gaps.max() < 0.35
    columns = [column[~np.isnan(column)] for table in tables for column in table.X.T]
    assert 0.2 < np.mean([np.isin(column, (0, 1)).all() for column in columns]) < 0.7
    y = np.array([table.y for table in tables])
    skewness = (y**3).mean(axis=1)
    assert np.median(skewness) > 0.3 and np.quantile(skewness, 0.1) < -0.2  # as in real tables
    n_values = np.array([len(np.unique(row)) for row in y])
    assert (n_values < 10).mean() > 0.03 and (n_values > 140).mean() > 0.3
    commonest = np.array([(row == row.min()).mean() for row in y])
    assert 0.02 < (commonest > 0.3).mean() < 0.2  # censored, or many zeros


def r_squared(X, y, rng, n_labelled=100):
    """R² of a linear model that is fitted to most rows of a table."""
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    rows = rng.permutation(len(y))
    labelled, others = rows[:n_labelled], rows[n_labelled:]
    model = RidgeCV(np.logspace(-2, 4, 7)).fit(X[labelled], y[labelled])
    return 1 - np.mean((model.predict(X[others]) - y[others]) ** 2) / y[others].var()


@pytest.mark.parametrize("family", FAMILIES)
def test_columns_tell_the_target(family):
    """Targets are learnable in each family, from hopeless to easy."""
    rng = np.random.default_rng(0)
    found = [r_squared(X, y, rng) for _, X, y, _ in draws(40, families=(family,))]
    assert np.median(found) > 0.1
    assert np.quantile(found, 0.1) < 0.15 and np.quantile(found, 0.9) > 0.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_depend_on_relevant_columns_alone(name):
    """Two tables that differ in an irrelevant column have the same signal."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    other = X + [0, 0, 5]
    weight = np.array([0.8, 0.6, 0])
    for seed in range(20):
        one, two = (
            FUNCTIONS[name](np.random.default_rng(seed), table, weight) for table in (X, other)
        )
        np.testing.assert_allclose(one, two, atol=1e-6)
        assert one.shape == (40,) and one.std() > 0


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_relevance_has_unit_length(n_columns, seed):
    weight = relevance(np.random.default_rng(seed), n_columns)
    assert weight.shape == (n_columns,) and weight @ weight == pytest.approx(1)
    assert (weight != 0).all()


@pytest.mark.parametrize(
    "bad",
    [{"n_columns": (1, 5)}, {"n_columns": (9, 5)}, {"n_rows": 9}, {"families": ("none",)},
     {"families": ()}],
)  # fmt: skip
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        RegressionPrior(**bad)


# The scale of targets

magnitudes = st.floats(-1e300, 1e300)


@given(arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=magnitudes))
def test_labelled_targets_are_standardised_whatever_their_magnitude(y):
    mean, scale = target_scale(y)
    assert mean.shape == scale.shape == (y.shape[1],)
    z = y / scale - mean / scale
    shares = y / np.abs(y).max(axis=0).clip(min=np.finfo(float).tiny)
    equal = shares.std(axis=0) <= 4 * np.finfo(float).eps * np.abs(shares.mean(axis=0))
    for j in range(y.shape[1]):
        if equal[j]:  # up to rounding
            assert mean[j] == y[0, j] and scale[j] == 1
        else:
            assert 0 < scale[j] < np.inf
            assert target_scale(y[:, j]) == pytest.approx((mean[j], scale[j]))
    large = scale > 1e-12 * np.abs(y).max(axis=0)  # otherwise there is nothing but rounding
    np.testing.assert_allclose(z.mean(axis=0)[large], 0, atol=1e-3)
    np.testing.assert_allclose(z.std(axis=0)[large & ~equal], 1, atol=1e-3)


def test_scale_of_constant_and_large_targets():
    assert target_scale([0.1] * 15) == (0.1, 1.0)  # the computed mean is not 0.1
    assert target_scale([3.0]) == (3.0, 1.0)
    assert target_scale([0.3, 0.1 + 0.2, 0.3]) == (0.3, 1.0)  # they differ by rounding
    assert target_scale([1e12, 1e12 + 2]) == pytest.approx((1e12 + 1, 1), rel=1e-3)
    assert target_scale(np.float32([1, 3]))[1].dtype == np.float64
    assert target_scale([0.0, 5e-324]) == (0.0, 1.0)  # no float holds the deviation


# The sampler

PLAIN = {"column_subset": 0, "missing": 0, "flip": False, "inductive": 0}
seeds = st.integers(0, 2**32 - 1)


def numbered(n_rows, n_columns, n_targets=None):
    """Cells tell their column and row; targets tell their row."""
    rows = np.arange(n_rows)
    X = 1000 * (np.arange(n_columns) + 1) + rows[:, None]
    y = np.exp(rows / 20)
    y = y if n_targets is None else y[:, None] + np.arange(n_targets)
    return Dataset("numbered", X.astype(np.float32), y.astype(np.float32))


drawn_datasets = st.builds(
    numbered, st.integers(2, 200), st.integers(1, 12), st.sampled_from([None, 1, 3])
)


@given(drawn_datasets, st.integers(1, 30), st.integers(1, 100), seeds)
def test_tasks_hold_the_promised_rows(dataset, shots, n_unlabelled, seed):
    sampler = RegressionSampler((shots,), n_unlabelled, **PLAIN, max_rows=10**6, max_cells=10**9)
    task = sampler.draw(dataset, np.random.default_rng(seed))
    n_rows = len(dataset.y)
    n_labelled = min(shots, n_rows - 1)  # at least one is left to predict
    assert task.labelled.sum() == n_labelled
    assert (~task.labelled).sum() == min(n_unlabelled, n_rows - n_labelled)
    assert task.context.all() and task.n_label_columns == dataset.y[0].size
    rows = task.X[:, 0].astype(int) % 1000
    assert len(set(rows)) == len(rows)
    mean, scale = target_scale(dataset.y[rows][task.labelled])
    unit = dataset.y.std(axis=0)
    scale = np.where((task.labelled.sum() == 1), unit, scale)  # one label has no unit of its own
    expected = (dataset.y[rows] - mean) / scale
    expected[~task.labelled] = np.clip(expected[~task.labelled], -6, 6)
    np.testing.assert_allclose(task.y, expected, atol=1e-3)


@given(drawn_datasets, seeds)
def test_what_holds_of_every_task(dataset, seed):
    """With all switches at their defaults."""
    sampler = RegressionSampler()
    task = sampler.draw(dataset, np.random.default_rng(seed))
    n_rows, n_columns = task.X.shape
    assert task.X.dtype == task.y.dtype == np.float32
    assert task.y.shape == (n_rows, *dataset.y.shape[1:])
    assert len(task.labelled) == len(task.context) == n_rows <= 150
    assert 1 <= n_columns <= dataset.X.shape[1]
    assert task.labelled.sum() in {min(k, len(dataset.y) - 1) for k in sampler.n_shots}
    assert (task.context | ~task.labelled).all() and not task.labelled.all()
    assert np.isfinite(task.y).all() and np.abs(task.y[~task.labelled]).max() <= 6
    labelled = task.y[task.labelled]
    np.testing.assert_allclose(labelled.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(labelled.std(axis=0), len(labelled) > 1, atol=1e-3)
    again = sampler.draw(dataset, np.random.default_rng(seed))
    for one, other in zip(task, again):
        np.testing.assert_array_equal(one, other)


@given(drawn_datasets, st.integers(1, 20), st.integers(10, 200), seeds)
def test_bounds_on_rows_and_cells(dataset, shots, max_rows, seed):
    sampler = RegressionSampler((shots,), 500, max_rows=max_rows, max_cells=2 * max_rows)
    task = sampler.draw(dataset, np.random.default_rng(seed))
    n_rows, n_columns = task.X.shape
    assert n_rows <= max(max_rows, shots + 1)  # labelled rows and one more always stay
    assert n_columns <= 2 or n_rows * (n_columns + task.n_label_columns) <= 2 * max_rows


@given(drawn_datasets, seeds)
def test_inductive_tasks_hide_rows_to_be_predicted_and_no_labelled_one(dataset, seed):
    task = RegressionSampler(inductive=1).draw(dataset, np.random.default_rng(seed))
    assert task.context[task.labelled].all() and (~task.context).any()


@pytest.mark.parametrize(
    "switch, holds",
    [
        ("column_subset", lambda task: task.X.shape[1] < 12),
        ("missing", lambda task: 0 < np.isnan(task.X).mean() < 0.3),
        ("inductive", lambda task: not task.context.all()),
        ("flip", lambda task: (task.X < 0).any()),
    ],
)
def test_each_switch_does_what_its_name_says(switch, holds):
    def share(**switches):
        sampler = RegressionSampler(**{**PLAIN, **switches})
        tasks = [sampler.draw(numbered(90, 12), np.random.default_rng(seed)) for seed in range(60)]
        return np.mean([holds(task) for task in tasks])

    assert share() == 0 and share(**{switch: 1}) > 0.8


def test_columns_make_room_for_several_targets():
    sampler = RegressionSampler((5,), 15, max_cells=20 * 10, **PLAIN)
    task = sampler.draw(numbered(60, 12, n_targets=4), np.random.default_rng(0))
    assert task.X.shape == (20, 10 - 4)
    assert sampler.strata(sampler.collate([task])[0]) == [5]  # rows, whatever the number of targets


def test_each_target_is_negated_for_itself_and_a_constant_one_is_zero():
    dataset = numbered(60, 2, n_targets=3)
    dataset.y[:, 2] = 7.0
    signs = set()
    for seed in range(40):
        y = RegressionSampler().draw(dataset, np.random.default_rng(seed)).y
        assert not y[:, 2].any()
        sign = np.sign((y[:, 0] * y[:, 1]).sum())
        np.testing.assert_allclose(y[:, 0], sign * y[:, 1], atol=1e-4)
        signs.add(sign)
    assert signs == {-1, 1}


def test_targets_are_negated_in_half_of_the_tasks():
    sampler = RegressionSampler((20,), 50, flip=True)
    tasks = [sampler.draw(numbered(90, 2), np.random.default_rng(seed)) for seed in range(200)]
    skewness = np.array([(task.y[task.labelled] ** 3).mean() for task in tasks])
    assert 0.4 < (skewness < 0).mean() < 0.6


def test_labelled_rows_that_are_all_alike_leave_others_in_the_tables_unit():
    y = np.zeros(50, np.float32)
    y[7] = 1e6
    sampler = RegressionSampler((10,), 40, **PLAIN)
    dataset = numbered(50, 2)._replace(y=y)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(20)]
    alike = [task.y for task in tasks if not task.y[task.labelled].any()]
    assert alike and all(y.max() == 6 and (y == 0).sum() == 49 for y in alike)


def test_a_numeric_column_stands_in_for_classes():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2, size=(80, 3)), rng.standard_normal(80)])
    X[::5, 3] = np.nan
    dataset = Dataset("classes", X.astype(np.float32), rng.integers(3, size=80))
    for seed in range(10):
        task = RegressionSampler().draw(dataset, np.random.default_rng(seed))
        assert task.X.shape[1] <= 3 and np.isfinite(task.y).all()
        assert len(np.unique(task.y)) > 10 and len(task.y) <= 64
    for columns in ([0, 1, 2], [3]):  # no numeric column, and no other column
        with pytest.raises(ValueError, match="'classes'.*no column of 10 or more values"):
            RegressionSampler().draw(dataset._replace(X=dataset.X[:, columns]), rng)


def test_rows_that_are_sorted_by_the_only_numeric_column_have_a_target():
    X = np.column_stack([np.tile([0, 1], 300), np.tile([0, 1, 2], 200), np.arange(600) // 50])
    dataset = Dataset("sorted", X.astype(np.float32), np.tile([0, 1], 300))
    task = RegressionSampler().draw(dataset, np.random.default_rng(0))
    assert task.X.shape[1] <= 2 and len(np.unique(task.y)) > 6


def test_batches_of_regression_tasks():
    source, sampler = RegressionPrior(n_columns=(2, 6)), RegressionSampler(n_unlabelled=20)
    (inputs, target), *_ = next(batches(source, sampler, batch_size=4, seed=0, n_groups=1))
    assert target.shape == (*inputs["x"].shape[:2], 1)
    labelled = ~inputs["labels"].isnan().any(2)
    assert (labelled & ~target.isnan().any(2)).sum() == 0 and not target.isnan().all()
    task = sampler.draw(source.draw(np.random.default_rng(0)), np.random.default_rng(0))
    inputs, target = collate([task])
    np.testing.assert_array_equal(inputs["labels"][0, task.labelled, 0], task.y[task.labelled])


def test_rows_that_tell_counts_from_measurements_are_those_with_a_cell():
    X = np.ones((500, 3), dtype=np.float32)
    X[:, 0] = np.arange(500)  # a measurement, whose first 300 cells are gaps
    X[:300, 0] = np.nan
    X[:, 1] = np.arange(500) // 45  # sorted counts: 5 among the first 200, 12 in all
    dataset = Dataset("table", X, np.zeros(500, dtype=np.int64))
    for seed in range(8):
        turned = column_as_target(dataset, np.random.default_rng(seed))
        assert len(turned.y) == 200 and turned.y[0] == 300
