"""Circle-Spiral tables have the properties that section 4.1 of paper 000 states."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sklearn_meta.tasks.circle_spiral import CircleSpiral, circle_spiral_tasks


@pytest.mark.parametrize("kind, n_classes", [("circle", 2), ("spiral", 5)])
def test_table_has_the_papers_shape(kind, n_classes):
    widths = set()
    for seed in range(60):
        name, X, y, _ = dataset = CircleSpiral(kinds=(kind,)).draw(np.random.default_rng(seed))
        widths.add(X.shape[1])
        assert name == kind and dataset.n_classes == n_classes
        assert X.dtype == np.float32 and y.dtype == np.int64
        assert np.bincount(y).tolist() == [25] * n_classes
        assert np.isfinite(X).all()
    assert widths == set(range(2, 11))


@pytest.mark.parametrize("kind", ["circle", "spiral"])
def test_figure_separates_the_classes(kind):
    """In the informative columns neighbours share a class, yet a few labels are not enough."""
    source = CircleSpiral(n_columns=(2, 2), n_rows_per_class=100, kinds=(kind,))
    _, X, y, _ = source.draw(np.random.default_rng(0))
    near = KNeighborsClassifier(1).fit(X[::2], y[::2])
    assert near.score(X[1::2], y[1::2]) > 0.95
    few = np.concatenate([np.flatnonzero(y == c)[:3] for c in np.unique(y)])
    assert KNeighborsClassifier(1).fit(X[few], y[few]).score(X, y) < 0.85


def test_circles_are_concentric_rings_of_radius_one_to_two():
    source = CircleSpiral(n_columns=(2, 2), n_rows_per_class=2000, kinds=("circle",))
    _, X, y, _ = source.draw(np.random.default_rng(0))
    radius = np.linalg.norm(X, axis=1)
    inner, outer = radius[y == 0], radius[y == 1]
    assert inner.mean() / outer.mean() == pytest.approx(0.5, abs=0.02)
    assert max(inner.std(), outer.std()) < 0.15 * outer.mean()


def test_all_columns_but_two_are_standard_noise_in_random_places():
    places = set()
    source = CircleSpiral(n_columns=(4, 4), n_rows_per_class=500, kinds=("circle",))
    for seed in range(30):
        _, X, y, _ = source.draw(np.random.default_rng(seed))
        np.testing.assert_allclose(X.std(axis=0), 1, atol=0.1)
        # The outer ring varies more than the inner one; noise varies alike in both classes.
        spread = X[y == 1].std(axis=0) / X[y == 0].std(axis=0)
        assert (spread > 1.5).sum() == 2
        np.testing.assert_allclose(spread[spread < 1.5], 1, atol=0.2)
        places.add(tuple(np.flatnonzero(spread > 1.5)))
    assert len(places) == 6


def test_n_rows_per_class_is_settable():
    dataset = CircleSpiral(n_rows_per_class=40, kinds=("spiral",)).draw(np.random.default_rng(0))
    assert np.bincount(dataset.y).tolist() == [40] * 5


def test_tasks_are_half_circles_half_spirals_and_reproducible():
    tasks = circle_spiral_tasks(20, random_state=3)
    assert [task.n_classes for task in tasks.values()] == [2, 5] * 10
    assert list(tasks) == [task.name for task in tasks.values()]
    again, other = circle_spiral_tasks(20, random_state=3), circle_spiral_tasks(20, random_state=4)
    assert all(np.array_equal(task.X, again[name].X) for name, task in tasks.items())
    assert not any(np.array_equal(task.X, other[name].X) for name, task in tasks.items())


@pytest.mark.parametrize(
    "bad",
    [{"n_columns": (1, 5)}, {"n_columns": (6, 5)}, {"n_rows_per_class": 0}, {"kinds": ("x",)}],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        CircleSpiral(**bad)
