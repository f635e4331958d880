"""Tasks: padded batches, the sampler's promises, and streams that can be resumed."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from labels import label_matrix

from sklearn_meta.tasks import (
    Dataset,
    EpisodeSampler,
    TablePrior,
    Task,
    batches,
    collate,
    context_task,
    groups_of_like_size,
)
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.tasks.episodes import RowSampler, log_uniform_int

# Batches


def test_collate_pads_with_what_no_one_reads():
    X = np.arange(6.0).reshape(3, 2)
    small = Task(X, np.array([0, 1, 1]), np.array([True, True, False]), np.ones(3, bool), 2)
    X, labelled = np.full((5, 1), np.nan), np.arange(5) < 3
    inductive = Task(X, np.array([2, 0, 1, 0, 1]), labelled, np.arange(5) < 4, 3)
    inputs, target = collate([small, inductive])
    np.testing.assert_array_equal(inputs["x"][0, :3], small.X)
    assert inputs["x"].shape == (2, 5, 2) and inputs["x"].dtype == torch.float32
    assert inputs["x"][0, 3:].isnan().all() and inputs["x"][1].isnan().all()
    codes = [[0, 1, -1, -1, -1], [2, 0, 1, -1, -1]]
    np.testing.assert_array_equal(inputs["labels"], label_matrix(codes, 3))
    assert inputs["readable"].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert inputs["columns"].int().tolist() == [[1, 1], [1, 0]]
    assert inputs["classes"].int().tolist() == [[1, 1, 0], [1, 1, 1]]
    # In the inductive task the unlabelled row of the context is not asked for.
    no = IGNORE
    assert target.tolist() == [[no, no, 1, no, no], [no, no, no, no, 1]]


def test_collate_keeps_double_precision_and_asks_for_no_row_of_unknown_class():
    every, none = np.ones(3, bool), np.zeros(3, bool)
    task = Task(np.full((3, 1), 1e9 + 0.1), np.array([0, -1, 1]), none, every, 2)
    inputs, target = collate([task], dtype=torch.float64)
    assert target.tolist() == [[0, IGNORE, 1]]
    assert inputs["x"][0, 0, 0].item() == 1e9 + 0.1


def test_context_task_is_readable_and_has_labels_where_a_class_is_known():
    y = np.array([1, -1, 0, -1])
    task = context_task(np.zeros((4, 2)), y, 2)
    assert task.labelled.tolist() == [True, False, True, False] and task.context.all()
    inputs, target = collate([task])
    np.testing.assert_array_equal(inputs["labels"][0], label_matrix(y, 2))
    assert (target == IGNORE).all()


@given(st.lists(st.tuples(st.integers(2, 90), st.integers(1, 60)), max_size=30))
def test_groups_are_small_and_of_like_width_and_hold_each_task_once(shapes):
    tasks = [context_task(np.zeros(shape), np.arange(shape[0]) % 2, 2) for shape in shapes]
    groups = groups_of_like_size(tasks, max_cells=5000)
    assert sorted(itertools.chain(*groups)) == list(range(len(tasks)))
    for group in groups:
        n_rows, widths = max(shapes[i][0] for i in group), [shapes[i][1] + 2 for i in group]
        assert max(widths) <= 1.25 * min(widths)
        assert len(group) == 1 or len(group) * n_rows * max(widths) <= 5000
    alike = [context_task(np.zeros((5, 3)), np.arange(5) % 2, 2)] * 9
    assert [len(group) for group in groups_of_like_size(alike, 10_000)] == [9]


# The sampler

PLAIN = {"column_subset": 0, "class_subset": 0, "missing": 0, "flip": False, "inductive": 0}
WIDE = {"max_classes": 99, "max_rows": 10**6, "max_cells": 10**9}
seeds = st.integers(0, 2**32 - 1)


def numbered(sizes, n_columns):
    """Classes of the given sizes; cells tell their column and row."""
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = 1000 * (np.arange(n_columns) + 1) + np.arange(len(y))[:, None]
    return Dataset("numbered", X.astype(np.float32), y)


def origin(task):
    """Rows and columns of the dataset that a task has; checks that no cell is mixed up."""
    columns, rows = np.divmod(np.abs(task.X).astype(int), 1000)
    assert (columns == columns[0]).all() and (rows == rows[:, :1]).all()
    return rows[:, 0], columns[0] - 1


drawn_sizes = st.lists(st.integers(2, 40), min_size=2, max_size=12)
drawn_datasets = st.builds(numbered, drawn_sizes, st.integers(1, 12))
drawn_shots = st.lists(st.integers(1, 6), min_size=1, max_size=3)


@given(drawn_datasets, st.integers(1, 6), st.integers(1, 30), seeds)
def test_balanced_tasks_hold_the_promised_rows_of_each_class(dataset, shots, n_unlabelled, seed):
    sampler = EpisodeSampler((shots,), n_unlabelled, imbalanced=0, **PLAIN, **WIDE)
    task = sampler.draw(dataset, np.random.default_rng(seed))
    assert task.n_label_columns == dataset.n_classes
    rows, _ = origin(task)
    of_class = [(dataset.y[rows[task.y == c]]) for c in range(task.n_label_columns)]
    assert sorted(set(c).pop() for c in of_class) == list(range(task.n_label_columns))
    for c, members in enumerate(of_class):
        size = (dataset.y == members[0]).sum()
        n_labelled = min(shots, size - 1)  # at least one is left to predict
        assert (task.labelled & (task.y == c)).sum() == n_labelled
        assert len(members) == min(n_labelled + n_unlabelled, size)


@given(drawn_datasets, drawn_shots, st.integers(1, 30), seeds)
def test_imbalanced_tasks_have_a_labelled_row_of_each_class_and_any_others(
    dataset, shots, n_unlabelled, seed
):
    sampler = EpisodeSampler(shots, n_unlabelled, imbalanced=1, **PLAIN, **WIDE)
    task = sampler.draw(dataset, np.random.default_rng(seed))
    C = task.n_label_columns
    assert set(task.y[task.labelled]) == set(range(C))
    sizes = np.bincount(dataset.y)
    at_random = {C + min((k - 1) * C, max(len(dataset.y) - 2 * C, 0)) for k in shots}
    of_each = {np.minimum(k, sizes - 1).sum() for k in shots}  # at least one is left to predict
    assert task.labelled.sum() in at_random | of_each
    assert (~task.labelled).sum() == min(n_unlabelled * C, len(dataset.y) - task.labelled.sum())


def test_imbalanced_tasks_are_as_imbalanced_as_their_table():
    sampler = EpisodeSampler((10,), 20, imbalanced=1, **PLAIN, **WIDE)
    dataset = numbered([180, 20], 1)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(50)]
    rare = [dataset.y[origin(task)[0]] == 1 for task in tasks]
    assert np.mean([r[~t.labelled].mean() for r, t in zip(rare, tasks)]) < 0.15
    assert len({r[t.labelled].sum() for r, t in zip(rare, tasks)}) > 1


def test_a_bound_on_rows_and_a_class_of_one_row_leave_one_to_learn_and_one_to_predict():
    sampler = EpisodeSampler((5,), 20, max_rows=10, imbalanced=0, **PLAIN)
    task = sampler.draw(numbered([9, 9], 1), np.random.default_rng(0))
    assert np.bincount(task.y[~task.labelled]).tolist() == [1, 1]
    task = sampler.draw(numbered([1, 9], 1), np.random.default_rng(0))
    assert set(task.y[task.labelled]) == {0, 1}


def test_strata_are_shots_whatever_the_padding():
    datasets = numbered([9, 9], 2), numbered([9, 9, 9], 2)
    sampler = EpisodeSampler((4,), 2, imbalanced=0, **PLAIN)
    tasks = [sampler.draw(dataset, np.random.default_rng(0)) for dataset in datasets]
    inputs, _ = sampler.collate(tasks)
    assert (sampler.strata(inputs), RowSampler.strata(inputs)) == ([4, 4], [8, 12])


def test_a_range_has_both_of_its_ends():
    rng = np.random.default_rng(0)
    assert {log_uniform_int(2, 5, rng) for _ in range(99)} == {2, 3, 4, 5}


def test_half_of_imbalanced_tasks_have_as_many_labelled_rows_of_each_class():
    """Users label a few rows of each class, and then predict the table as it is."""
    sampler = EpisodeSampler((10,), 20, imbalanced=1, **PLAIN, **WIDE)
    dataset = numbered([180, 20], 1)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(100)]
    rare = [dataset.y[origin(task)[0]] == 1 for task in tasks]
    of_each = [r[~t.labelled].mean() for r, t in zip(rare, tasks) if r[t.labelled].sum() == 10]
    assert 30 < len(of_each) < 70
    assert np.mean(of_each) == pytest.approx(10 / 180, abs=0.02)  # the rest of the table's share


@pytest.mark.parametrize("imbalanced", [0, 1])
def test_tasks_of_a_table_with_few_rows_leave_one_of_each_class_to_predict(imbalanced):
    sampler = EpisodeSampler((10,), 20, imbalanced=imbalanced, **PLAIN, **WIDE)
    for seed in range(20):
        task = sampler.draw(numbered([5, 3], 1), np.random.default_rng(seed))
        assert (task.labelled.sum(), len(task.y)) == (6, 8)


@given(drawn_datasets, seeds)
def test_what_holds_of_every_task(dataset, seed):
    """With all switches at their defaults."""
    sampler = EpisodeSampler(n_unlabelled=(3, 40))
    task = sampler.draw(dataset, np.random.default_rng(seed))
    n_rows, n_columns = task.X.shape
    assert len(task.y) == len(task.labelled) == len(task.context) == n_rows <= 300
    assert 2 <= task.n_label_columns <= min(dataset.n_classes, 10)
    assert set(task.y[task.labelled]) == set(range(task.n_label_columns)) == set(task.y)
    assert 1 <= n_columns <= dataset.X.shape[1] and task.X.dtype == np.float32
    assert (task.context | ~task.labelled).all() and not task.labelled.all()
    # All cells of a row name the same row, and those of a column the same column and sign.
    columns, rows = np.divmod(np.abs(task.X), 1000)
    assert not any(np.ptp(r[~np.isnan(r)]) for r in rows if not np.isnan(r).all())
    assert not any(np.ptp(c[~np.isnan(c)]) for c in columns.T if not np.isnan(c).all())
    signs = np.sign(task.X)
    assert not any(np.ptp(c[~np.isnan(c)]) for c in signs.T if not np.isnan(c).all())
    found = [int(r[~np.isnan(r)][0]) for r in rows if not np.isnan(r).all()]
    assert len(set(found)) == len(found)  # no row is twice in the task
    known = ~np.isnan(rows).all(axis=1)
    code = dict(zip(dataset.y[found], task.y[known]))
    assert [code[c] for c in dataset.y[found]] == task.y[known].tolist()
    again = sampler.draw(dataset, np.random.default_rng(seed))
    for one, other in zip(task, again):
        np.testing.assert_array_equal(one, other)


@given(drawn_datasets, drawn_shots, st.integers(1, 50), st.integers(10, 300), seeds)
def test_bounds_on_rows_columns_and_classes(dataset, shots, n_unlabelled, max_rows, seed):
    sampler = EpisodeSampler(
        shots, n_unlabelled, max_classes=5, max_rows=max_rows, max_cells=2 * max_rows
    )
    task = sampler.draw(dataset, np.random.default_rng(seed))
    n_rows, n_columns = task.X.shape
    # Labelled rows and one more per class always stay, and so do two columns.
    assert n_rows <= max(max_rows, (max(shots) + 1) * task.n_label_columns)
    assert (
        n_columns == 2
        or n_rows * (n_columns + task.n_label_columns) <= 2 * max_rows
        or (n_columns == dataset.X.shape[1] == 1)
    )
    assert task.n_label_columns <= 5


@given(drawn_datasets, seeds)
def test_inductive_tasks_hide_rows_to_be_predicted_and_no_labelled_one(dataset, seed):
    tasks = [
        EpisodeSampler(inductive=share).draw(dataset, np.random.default_rng(seed))
        for share in (0, 1)
    ]
    assert tasks[0].context.all()
    assert tasks[1].context[tasks[1].labelled].all()
    assert (~tasks[1].context).any()
    _, target = collate([tasks[1]])
    np.testing.assert_array_equal((target[0] != IGNORE).numpy(), ~tasks[1].context)


def test_inductive_tasks_leave_a_row_to_predict_however_few_there_are():
    dataset, sampler = numbered([2, 2], 1), EpisodeSampler((1,), 1, inductive=1)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(50)]
    assert all((~task.context).any() for task in tasks)
    assert any(task.context[~task.labelled].any() for task in tasks)


def test_inductive_contexts_hold_no_few_or_many_unlabelled_rows():
    dataset, sampler = numbered([60, 60], 2), EpisodeSampler(inductive=1)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(100)]
    share = np.array([task.context[~task.labelled].mean() for task in tasks])
    assert (share == 0).sum() > 25 and (share > 0.6).sum() > 5 and (share < 0.3).sum() > 5


def share_of(holds, dataset, **switches):
    sampler = EpisodeSampler(**{**PLAIN, **switches})
    draws = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(60)]
    return np.mean([holds(task) for task in draws])


@pytest.mark.parametrize(
    "switch, holds",
    [
        ("column_subset", lambda task: task.X.shape[1] < 12),
        ("class_subset", lambda task: task.n_label_columns < 9),
        ("missing", lambda task: 0 < np.isnan(task.X).mean() < 0.3),
        ("inductive", lambda task: not task.context.all()),
        ("flip", lambda task: (task.X < 0).any()),
    ],
)
def test_each_switch_does_what_its_name_says(switch, holds):
    dataset = numbered([30] * 9, 12)
    assert share_of(holds, dataset) == 0
    assert share_of(holds, dataset, **{switch: 1}) > 0.8
    if switch != "flip":
        assert 0.2 < share_of(holds, dataset, **{switch: 0.5}) < 0.8


@pytest.mark.parametrize(
    "bound",
    [{"max_classes": 2, "max_cells": 400}, {"class_subset": 1, "column_subset": 1}],
    ids=["bounds", "subsets"],
)
def test_any_class_and_column_may_be_left_out_and_any_come_first(bound):
    dataset = numbered([30] * 4, 6)
    sampler = EpisodeSampler(**PLAIN | WIDE | bound)
    first, kept = set(), []
    for seed in range(60):
        task = sampler.draw(dataset, np.random.default_rng(seed))
        rows, columns = origin(task)
        classes = dataset.y[rows]
        first |= {f"class {classes[task.y == 0][0]}", f"column {columns[0]}"}
        kept.append({*(f"class {c}" for c in classes), *(f"column {c}" for c in columns)})
    assert first == set.union(*kept) and len(first) == 4 + 6
    assert not set.intersection(*kept)


def test_shots_and_unlabelled_rows_take_all_their_values():
    dataset, sampler = numbered([100, 100], 1), EpisodeSampler(n_unlabelled=(5, 50), imbalanced=0)
    tasks = [sampler.draw(dataset, np.random.default_rng(seed)) for seed in range(200)]
    assert {t.labelled.sum() // 2 for t in tasks} == {1, 3, 5, 10}
    n_unlabelled = np.array([(~t.labelled).sum() / 2 for t in tasks])
    assert n_unlabelled.min() < 7 and n_unlabelled.max() > 40
    assert np.median(n_unlabelled) == pytest.approx(np.sqrt(5 * 50), rel=0.25)  # log-uniform


# Streams


def equal(batch, other):
    """Whether batches are equal to the bit, including gaps."""
    ours, theirs = ([t for x, y in groups for t in (*x.values(), y)] for groups in (batch, other))
    arrays = zip(ours, theirs, strict=True)
    return all(np.array_equal(a, b, equal_nan=a.is_floating_point()) for a, b in arrays)


@pytest.mark.parametrize("n_pooled, n_groups", [(1, 1), (1, 4), (4, 2), (8, 2)])
def test_a_stream_can_be_taken_up_at_any_batch(n_pooled, n_groups):
    def stream(**more):
        return batches(
            TablePrior(n_columns=(2, 6)),
            EpisodeSampler(),
            batch_size=2,
            n_pooled=n_pooled,
            n_groups=n_groups,
            **more,
        )

    whole = list(itertools.islice(stream(seed=[3, 0]), 10))
    assert not any(equal(a, b) for a, b in itertools.combinations(whole, 2))
    for start in (0, 1, 4, 7):
        tail = itertools.islice(stream(seed=[3, 0], start=start), 10 - start)
        assert all(equal(a, b) for a, b in zip(tail, whole[start:], strict=True))
    assert not equal(next(stream(seed=[3, 1])), whole[0])
    assert not equal(next(stream(seed=[4, 0])), whole[0])


def test_tasks_of_a_group_are_of_like_size():
    def padding(n_pooled):
        settings = {"batch_size": 8, "n_pooled": n_pooled, "n_groups": 2}
        streams = [batches(TablePrior(), EpisodeSampler(), seed=s, **settings) for s in range(8)]
        steps = [step for stream in streams for step in itertools.islice(stream, 8)]
        groups = [group for step in steps for group in step]
        cells = [(x["x"].numel(), (x["columns"].sum(1) * x["x"].shape[1]).sum()) for x, _ in groups]
        return np.sum(cells, axis=0)

    (mixed, used_mixed), (pooled, used_pooled) = padding(1), padding(8)
    assert 1 - used_pooled / pooled < 0.7 * (1 - used_mixed / mixed)


def test_processes_share_the_groups_of_each_batch():
    settings = {"batch_size": 6, "seed": 3, "n_pooled": 2, "n_groups": 6}
    source, sampler = TablePrior(n_columns=(2, 6)), EpisodeSampler()
    shares = [batches(source, sampler, **settings, share=(rank, 3)) for rank in range(3)]
    for whole, *parts in itertools.islice(
        zip(batches(source, sampler, **settings), *shares, strict=True), 5
    ):
        assert [len(part) for part in parts] == [2, 2, 2]
        dealt = [group for groups in zip(*parts) for group in groups]
        assert equal(whole, dealt)


@pytest.mark.parametrize("batch_size, n_groups, expected", [(8, 4, 4), (6, 4, 2), (5, 4, 1)])
def test_groups_of_a_batch_are_equal_and_hold_different_sizes(batch_size, n_groups, expected):
    stream = batches(
        TablePrior(), EpisodeSampler(), batch_size=batch_size, seed=0, n_groups=n_groups
    )
    widths = []
    for groups in itertools.islice(stream, 16):
        assert [len(target) for _, target in groups] == [batch_size // expected] * expected
        widths.append({x["x"].shape[2] for x, _ in groups})
    assert expected == 1 or sum(len(w) > 1 for w in widths) > 8
