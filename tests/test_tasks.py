"""Tasks: batches of them, the sampler's promises, collections, the encoding of tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta.tasks import (
    CircleSpiral,
    Dataset,
    EpisodeSampler,
    Mixture,
    TableEncoder,
    Tables,
    Task,
    as_dataset,
    as_source,
    batches,
    collate,
    context_task,
    read_tables,
)
from sklearn_meta.tasks.batch import IGNORE

# Batches


def test_collate_pads_with_what_no_one_reads():
    X = np.arange(6.0).reshape(3, 2)
    small = Task(X, np.array([0, 1, 1]), np.array([True, True, False]), np.ones(3, bool), 2)
    X = np.full((5, 1), np.nan)
    labelled, context = np.arange(5) < 3, np.array([True, True, True, True, False])
    inductive = Task(X, np.array([2, 0, 1, 0, 1]), labelled, context, 3)
    inputs, target = collate([small, inductive])
    np.testing.assert_array_equal(inputs["x"][0, :3], small.X)
    assert inputs["x"].shape == (2, 5, 2) and inputs["x"].dtype == torch.float32
    assert inputs["x"][0, 3:].isnan().all() and inputs["x"][1].isnan().all()
    assert inputs["y"].tolist() == [[0, 1, -1, -1, -1], [2, 0, 1, -1, -1]]
    assert inputs["readable"].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert inputs["columns"].int().tolist() == [[1, 1], [1, 0]]
    assert inputs["classes"].int().tolist() == [[1, 1, 0], [1, 1, 1]]
    # In the inductive task the unlabelled row of the context is not asked for.
    no = IGNORE
    assert target.tolist() == [[no, no, 1, no, no], [no, no, no, no, 1]]


def test_collate_does_not_ask_for_rows_of_unknown_class_and_keeps_double_precision():
    y = np.array([0, -1, 1])
    task = Task(np.array([[1e9 + 0.1]] * 3), y, y < 0, np.ones(3, bool), 2)
    inputs, target = collate([task._replace(labelled=np.zeros(3, bool))], dtype=torch.float64)
    assert target.tolist() == [[0, IGNORE, 1]]
    assert inputs["x"][0, 0, 0].item() == 1e9 + 0.1


def test_context_task_is_all_readable_and_labelled_where_a_class_is_known():
    X, y = np.zeros((4, 2)), np.array([1, -1, 0, -1])
    task = context_task(X, y, 2)
    assert task.labelled.tolist() == [True, False, True, False] and task.context.all()
    inputs, target = collate([task])
    assert inputs["y"].tolist() == [y.tolist()] and (target == IGNORE).all()


# The sampler


@st.composite
def drawn_datasets(draw):
    """Columns of a dataset hold the row's number times 1, 2, 3 ..., so that rows can be told."""
    sizes = draw(st.lists(st.integers(2, 40), min_size=2, max_size=12))
    n_columns = draw(st.integers(1, 12))
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = np.outer(np.arange(len(y)) + 1, np.arange(n_columns) + 1)
    return Dataset("numbered", X.astype(np.float32), y)


PLAIN = {"column_subset": 0, "class_subset": 0, "missing": 0, "flip": False, "inductive": 0}
seeds = st.integers(0, 2**32 - 1)


def rows_and_columns(task):
    """Numbers of a plain task's rows, and of its columns, which begin at 1."""
    ratio = task.X[0] / task.X[0].min()
    column = np.round(task.X[1] - task.X[0]) if len(task.X) > 1 else ratio
    first = np.gcd.reduce(task.X.astype(int), axis=0)
    return task.X, column, first


@given(drawn_datasets(), st.integers(1, 6), st.integers(1, 30), seeds)
def test_balanced_tasks_hold_the_promised_rows_of_each_class(dataset, shots, n_unlabelled, seed):
    sampler = EpisodeSampler(
        (shots,), n_unlabelled, **PLAIN, imbalanced=0, max_classes=12, max_rows=1000
    )
    task = sampler.draw(dataset, np.random.default_rng(seed))
    assert task.X.dtype == np.float32 and task.n_classes == dataset.n_classes
    column = np.flatnonzero([len(set(c)) for c in task.X.T])[0]
    rows = np.unique(dataset.X[:, 0], return_inverse=True)[1]
    scale = task.X[:, column] / np.round(task.X[:, column] / task.X[:, column])
    assert scale is not None and rows is not None
