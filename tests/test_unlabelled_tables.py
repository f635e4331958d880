"""Meta-training on tables with unlabelled rows (paper 000, sections 3.1 and 3.5)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier
from sklearn_meta.tasks import (
    Dataset,
    EpisodeSampler,
    Folder,
    RegressionSampler,
    Tables,
    as_dataset,
    as_source,
    collate,
    select,
)
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.tasks.dataset import column_as_target

seeds = st.integers(0, 2**32 - 1)
NONE = 1000  # cells of unlabelled rows lie above this


def table(sizes, n_unlabelled, kind="classes", n_columns=2):
    """Cells tell their row; those of unlabelled rows lie above 1,000."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    if kind == "targets":
        y = np.random.default_rng(0).normal(size=len(y)).astype(np.float32)
    X = np.arange(1, len(y) + 1)[:, None] + np.zeros(n_columns)
    more = NONE + np.arange(1, n_unlabelled + 1)[:, None] + np.zeros(n_columns)
    return Dataset("rows", X.astype(np.float32), y, more.astype(np.float32))


def without(dataset):
    return dataset._replace(unlabelled=None)


sizes = st.lists(st.integers(2, 30), min_size=2, max_size=4)


@given(sizes, st.integers(1, 200), st.integers(1, 5), st.integers(1, 20), seeds)
@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_rows_without_a_label_are_read_and_not_asked_for(kind, sizes, n, shots, n_unlabelled, seed):
    dataset, rng = table(sizes, n, kind), np.random.default_rng(seed)
    made = {"classes": EpisodeSampler, "targets": RegressionSampler}[kind]
    settings = {"inductive": 0, "missing": 0, "flip": False}
    if kind == "classes":
        settings |= {"class_subset": 0, "imbalanced": 0}
    task = made(shots, n_unlabelled, **settings).draw(dataset, rng)
    has_none = task.X[:, 0] > NONE
    np.testing.assert_array_equal(has_none, ~task.has_label)
    assert not task.labelled[has_none].any() and task.context.all()
    rows = task.X[:, 0].tolist()
    assert len(set(rows)) == len(rows)
    # At least half of the ``n_unlabelled`` rows are predicted, if enough rows have labels.
    groups = sizes if kind == "classes" else [sum(sizes)]
    share = sum(sizes) / (sum(sizes) + n)
    most = max(round(n_unlabelled * max(share, 0.5)), 1)
    predicted = sum(min(most, size - min(shots, size - 1)) for size in groups)
    assert (task.has_label & ~task.labelled).sum() == predicted
    assert has_none.sum() == min(n, n_unlabelled * len(groups) - predicted)
    inputs, target = collate([task])
    asked = (target[0] != IGNORE) if kind == "classes" else ~target[0].isnan().all(-1)
    np.testing.assert_array_equal(asked, task.has_label & ~task.labelled)
    assert inputs["readable"].all() and inputs["labels"][0, has_none].isnan().all()


@given(sizes, st.integers(1, 50), seeds)
@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_inductive_tasks_hold_no_row_that_is_neither_read_nor_predicted(kind, sizes, n, seed):
    dataset, rng = table(sizes, n, kind), np.random.default_rng(seed)
    made = {"classes": EpisodeSampler, "targets": RegressionSampler}[kind]
    task = made(2, 10, inductive=1).draw(dataset, rng)
    assert (task.context | task.has_label).all() and (~task.context & task.has_label).any()


@given(sizes, st.integers(1, 5), st.integers(1, 20), seeds)
@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_a_table_whose_rows_all_have_labels_is_drawn_from_as_ever(
    kind, sizes, shots, n_unlabelled, seed
):
    """An empty array of unlabelled rows means the same as none."""
    dataset = table(sizes, 0, kind)
    made = {"classes": EpisodeSampler, "targets": RegressionSampler}[kind]
    sampler = made(shots, n_unlabelled)
    pair = [sampler.draw(d, np.random.default_rng(seed)) for d in (dataset, without(dataset))]
    for one, other in zip(*pair):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n, expected", [(10, 2), (60, 6), (10_000, 6)])
def test_their_share_is_that_of_the_table_and_at_most_half(n, expected):
    sampler = EpisodeSampler(1, 6, imbalanced=0, class_subset=0, inductive=0)
    task = sampler.draw(table([25, 25], n), np.random.default_rng(0))
    assert (~task.has_label).sum() == expected and len(task.y) == 2 + 12


def test_they_fill_up_where_few_rows_have_a_label():
    """Two rows of each class, one of them labelled: 2 are predicted, and 38 more are read."""
    sampler = EpisodeSampler(1, 20, class_subset=0, inductive=0)
    for seed in range(10):
        task = sampler.draw(table([2, 2], 10_000), np.random.default_rng(seed))
        assert (task.labelled.sum(), (~task.has_label).sum(), len(task.y)) == (2, 38, 42)
    sampler = RegressionSampler(10, 50, inductive=0)
    task = sampler.draw(table([6, 6], 10_000, "targets"), np.random.default_rng(0))
    assert (task.labelled.sum(), (~task.has_label).sum(), len(task.y)) == (10, 48, 60)


def test_tasks_of_some_of_the_classes_read_none_that_may_be_of_another():
    sampler = EpisodeSampler(1, 6, max_classes=3, class_subset=0)
    for seed in range(10):
        assert sampler.draw(table([9] * 4, 99), np.random.default_rng(seed)).has_label.all()


def test_targets_cut_into_classes_keep_them():
    found = [
        EpisodeSampler(1, 6, class_subset=0, inductive=0)
        .draw(table([20, 20], 40, "targets"), np.random.default_rng(seed))
        .has_label.all()
        for seed in range(20)
    ]
    assert not any(found)


def test_several_targets_are_all_unknown():
    dataset = table([20, 20], 40, "targets")
    dataset = dataset._replace(y=np.column_stack([dataset.y, dataset.X[:, 0]]))
    task = RegressionSampler(5, 20, inductive=0).draw(dataset, np.random.default_rng(0))
    assert np.isnan(task.y[~task.has_label]).all() and (~task.has_label).sum() == 10
    assert np.isfinite(task.y[task.has_label]).all()


# What becomes an unlabelled row


def test_pairs_keep_them_in_the_units_and_categories_of_the_others():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5, 2, 30), "b": rng.choice(list("uvw"), 30)})
    words = np.where(np.arange(30) % 2, "yes", "no").astype(object)
    whole = as_dataset(frame, words)
    assert whole.unlabelled is None
    for gap in (None, np.nan, pd.NA):
        dataset = as_dataset(frame, pd.Series(np.where(np.arange(30) < 20, words, gap)))
        assert dataset.y.tolist() == [0, 1] * 10 and len(dataset.unlabelled) == 10
        np.testing.assert_array_equal(np.vstack([dataset.X, dataset.unlabelled]), whole.X)
    marked = as_dataset(frame, np.where(np.arange(30) < 20, np.arange(30) % 2, -1))
    np.testing.assert_array_equal(marked.unlabelled, whole.X[20:])
    target = as_dataset(frame, np.where(np.arange(30) < 20, rng.normal(size=30), np.nan))
    np.testing.assert_array_equal(target.unlabelled, whole.X[20:])


def test_a_dataset_may_mark_them_in_y_or_hold_them_apart():
    apart = table([5, 5], 4)
    X, y = np.vstack([apart.X, apart.unlabelled]), np.append(apart.y, np.full(4, -1))
    listed = apart._replace(unlabelled=apart.unlabelled.tolist())
    for given_ in (apart, Dataset("rows", X, y), apart._replace(X=X[:12], y=y[:12]), listed):
        (found,) = as_source([given_]).values()
        np.testing.assert_array_equal(found.X, apart.X)
        np.testing.assert_array_equal(found.y, apart.y)
        assert set(found.unlabelled[:, 0]) == set(apart.unlabelled[:, 0])
    for given_ in (Dataset("rows", X, y), listed):
        (found,) = as_source(select({"rows": given_})).values()
        assert found.n_classes == 2 and len(found.y) == 10 and found.unlabelled.shape == (4, 2)
    targets = Dataset("rows", X, np.where(y < 0, np.nan, y).astype(np.float32))
    (found,) = as_source([targets]).values()
    np.testing.assert_array_equal(found.unlabelled, apart.unlabelled)
    with pytest.raises(ValueError, match=r"unlabelled has shape \(4, 1\) and X \(10, 2\)"):
        as_source([apart._replace(unlabelled=apart.unlabelled[:, :1])])


def test_a_duration_of_minus_one_is_a_class():
    """As in classifiers and ``evaluate``."""
    days = np.repeat(np.array([-1, 2], dtype="m8[D]"), 5)
    found = as_dataset(np.arange(10.0)[:, None], days)
    assert found.y.tolist() == [0] * 5 + [1] * 5 and found.unlabelled is None


def test_a_column_as_the_target_has_values_in_them_too():
    dataset = table([10, 10], 30, n_columns=3)
    turned = column_as_target(dataset, np.random.default_rng(0))
    assert len(turned.y) == 50 and turned.y.max() > NONE and turned.unlabelled is None
    source = Tables({"rows": dataset}, retarget=1.0)
    assert len(source.draw(np.random.default_rng(0)).y) == 50


def test_a_folder_and_a_selection_keep_them(tmp_path):
    (tmp_path / "gaps.csv").write_text(
        "a,t\n" + "".join(f"{i},{i % 2}\n" for i in range(8)) + "9,\n"
    )
    folder = Folder(tmp_path)
    for tables in (folder, select(folder, n_rows=(9, 9))):
        (found,) = as_source(tables).values()
        assert found.y.tolist() == [0, 1] * 4 and len(found.unlabelled) == 1
    for kind in ("classes", "targets"):
        dataset = table([5, 5], 4, kind)
        (found,) = as_source(select({"rows": dataset}, n_rows=(14, 14))).values()
        assert found.X.shape == (10, 2) and found.unlabelled.shape == (4, 2)
        assert found.y.dtype.kind == dataset.y.dtype.kind


# Meta-training


@pytest.mark.parametrize("estimator", [MetaSemiSupervisedClassifier, MetaGPRegressor])
def test_meta_fit_reads_them(estimator):
    """Unlabelled cells change the loss of labelled rows, and no loss is NaN."""
    is_classifier = estimator is MetaSemiSupervisedClassifier
    dataset = table([10, 10], 20, "classes" if is_classifier else "targets")
    rng = np.random.default_rng(0)
    dataset, other = (
        dataset._replace(unlabelled=rng.normal(20, 9, dataset.unlabelled.shape).astype(np.float32))
        for _ in range(2)
    )
    losses = []
    for given_ in (dataset, dataset, other):
        model = estimator("vsa", random_state=0)
        model.meta_fit([given_], max_steps=2, n_shots=2, n_unlabelled=4, verbose=False)
        losses.append([epoch["train_loss"] for epoch in model.history_])
    assert np.isfinite(losses).all() and losses[0] == losses[1]
    assert losses[0][0] != losses[2][0]
