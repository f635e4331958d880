"""The synthetic prior: every draw is a sound table, and the distribution is wide enough."""

from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from sklearn_meta.tasks import prior
from sklearn_meta.tasks.families import FAMILIES, standardise
from sklearn_meta.tasks.manifolds import rings, spirals
from sklearn_meta.tasks.prior import TablePrior


def draws(n_draws, seed=0, **parameters):
    rng, source = np.random.default_rng(seed), TablePrior(**parameters)
    return [source.draw(rng) for _ in range(n_draws)]


def few_shot(X, y, rng, n_shots=5, n_unlabelled=20):
    """Labelled rows, then unlabelled ones, mean-imputed and standardised."""
    rows = [rng.permutation(np.flatnonzero(y == c)) for c in range(y.max() + 1)]
    labelled = np.concatenate([r[:n_shots] for r in rows])
    unlabelled = np.concatenate([r[n_shots : n_shots + n_unlabelled] for r in rows])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)[np.r_[labelled, unlabelled]]
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    n = len(labelled)
    return X[:n], y[labelled], X[n:], y[unlabelled]


def supervised(X, y, X_new, y_new):
    return LogisticRegression().fit(X, y).score(X_new, y_new)


def semi_supervised(X, y, X_new, y_new):
    model = LabelSpreading(kernel="knn", n_neighbors=4, alpha=0.5, max_iter=200)
    model.fit(np.vstack([X, X_new]), np.r_[y, np.full(len(X_new), -1)])
    return (model.transduction_[len(X) :] == y_new).mean()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_draw_is_a_sound_table(family):
    for name, X, y, _ in draws(150, families=(family,)):
        assert name == f"prior-{family}"
        assert X.dtype == np.float32 and y.dtype == np.int64
        assert X.ndim == 2 and len(X) == len(y)
        assert 2 <= X.shape[1] <= 30
        n_classes = y.max() + 1
        assert 2 <= n_classes <= 10
        assert len(y) == max(120, 40 * n_classes)
        assert np.bincount(y).min() >= len(y) // (3 * n_classes)
        assert not np.isinf(X).any()
        assert np.abs(np.nan_to_num(X)).max() < np.sqrt(len(X))


@pytest.mark.parametrize("family", FAMILIES)
def test_smallest_and_widest_tables(family):
    for low, high in [(2, 2), (3, 3), (100, 100)]:
        for _, X, y, _ in draws(
            20, n_columns=(low, high), n_classes=(10, 10), n_rows=60, families=(family,)
        ):
            assert X.shape == (60, low)
            assert np.bincount(y).min() >= 2


def test_equal_generators_draw_equal_tables():
    for a, b, c in zip(draws(60, seed=1), draws(60, seed=1), draws(60, seed=2), strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.y, b.y)
        assert not np.array_equal(a.X, c.X)


def test_distribution_over_classes_columns_and_gaps():
    tables = draws(800)
    n_classes = np.array([table.n_classes for table in tables])
    assert np.mean(n_classes == 2) == pytest.approx(0.6, abs=0.05)
    assert np.mean((n_classes == 3) | (n_classes == 4)) == pytest.approx(0.25, abs=0.05)
    assert set(n_classes) == set(range(2, 11))
    assert {table.name for table in tables} == {f"prior-{family}" for family in FAMILIES}
    n_columns = np.array([table.X.shape[1] for table in tables])
    assert set(n_columns) == set(range(2, 31))
    assert 6 <= np.median(n_columns) <= 10  # log-uniform; uniform would be 16
    gaps = np.array([np.isnan(table.X).mean() for table in tables])
    assert np.mean(gaps > 0) == pytest.approx(0.3, abs=0.05)
    assert gaps.max() < 0.35
    columns = [column[~np.isnan(column)] for table in tables for column in table.X.T]
    assert np.mean([column.min() == column.max() for column in columns]) < 0.03
    zero_one = np.mean([np.isin(column, (0, 1)).all() for column in columns])
    assert 0.1 < zero_one < 0.7


def test_missing_categories_are_missing_in_all_their_columns():
    """In a one-hot group every row has one 1, or NaN throughout."""
    found = 0
    for _, X, *_ in draws(300):
        zero_one = np.array([np.isin(c[~np.isnan(c)], (0, 1)).all() for c in X.T])
        gap = np.isnan(X)
        for j in np.flatnonzero(zero_one & gap.any(axis=0)):
            group = zero_one & (gap == gap[:, [j]]).all(axis=0)
            if group.sum() > 2:
                found += 1
                total = X[~gap[:, j]][:, group].sum(axis=1)
                assert (total == 1).all()
    assert found > 10


def test_tables_range_from_hopeless_to_easy():
    rng = np.random.default_rng(0)
    accuracy = [supervised(*few_shot(*table[1:3], rng)) for table in draws(150, n_classes=(2, 2))]
    assert 0.58 < np.mean(accuracy) < 0.8
    assert np.quantile(accuracy, 0.1) < 0.58 and np.quantile(accuracy, 0.9) > 0.8


@pytest.mark.parametrize("family", FAMILIES)
def test_columns_tell_the_label(family):
    """Labels are learnable in each family, and not once they are shuffled."""
    rng = np.random.default_rng(0)
    tables = draws(40, n_classes=(2, 2), families=(family,))
    tasks = [few_shot(X, y, rng) for _, X, y, _ in tables]
    accuracy = np.mean([supervised(*task) for task in tasks])
    chance = np.mean(
        [supervised(X, rng.permutation(y), X_new, y_new) for X, y, X_new, y_new in tasks]
    )
    assert accuracy > 0.56 and abs(chance - 0.5) < 0.05


def gain(tasks):
    return np.mean([semi_supervised(*task) - supervised(*task) for task in tasks])


def test_unlabelled_rows_help_on_manifolds():
    """Label spreading, which reads the unlabelled rows, beats a linear model, which does not."""
    rng = np.random.default_rng(0)
    for figure, n_classes in [(rings, 2), (spirals, 3), (spirals, 5)]:
        y = np.repeat(np.arange(n_classes), 25)
        assert gain(few_shot(figure(rng, y, n_classes), y, rng) for _ in range(20)) > 0.1, figure

    def drawn(family):
        tables = draws(100, families=(family,), n_classes=(2, 4))
        return [few_shot(X, y, rng) for _, X, y, _ in tables]

    assert gain(drawn("manifold")) > 0 > gain(drawn("linear"))


@pytest.mark.parametrize(
    "bad",
    [{"n_columns": (1, 5)}, {"n_columns": (9, 5)}, {"n_classes": (1, 2)}, {"n_rows": 10},
     {"families": ("none",)}, {"families": ()}],
)  # fmt: skip
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        TablePrior(**bad)


def test_a_constant_column_becomes_zero():
    """Its computed mean is off by rounding."""
    for n_rows in range(2, 20):
        assert np.abs(standardise(np.full((n_rows, 1), 0.1))).max() < 1e-15


def test_most_tables_may_have_wrong_labels_of_which_there_are_as_many_of_each_class(monkeypatch):
    """In half of them up to a fifth of the rows are drawn and exchange their labels."""
    y, rng = np.arange(1000) % 4, np.random.default_rng(0)
    found = [prior._mislabel(rng, y.copy()) for _ in range(100)]
    assert all((np.bincount(labels) == 250).all() for labels in found)
    wrong = np.array([np.mean(labels != y) for labels in found])
    assert 30 < (wrong == 0).sum() < 70 and 0.1 < wrong.max() < 0.2
    mislabel = Mock(side_effect=prior._mislabel)
    monkeypatch.setattr(prior, "_mislabel", mislabel)
    for seed in range(200):
        TablePrior(families=("linear",)).draw(np.random.default_rng(seed))
    assert 150 < mislabel.call_count < 190
