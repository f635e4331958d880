"""If a task has more classes than a network has learned to read, it reads groups of them."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from test_semi_supervised import (
    assert_equivariant,
    both_kinds,
    double,
    few_shot,
    small_learner,
)

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.class_groups import N_GROUPINGS, group_classes
from sklearn_meta.learner import Learner
from sklearn_meta.model_selection import FewShotSplit
from sklearn_meta.tasks import collate, context_task


@st.composite
def many_classes(draw, least=11):
    """A task of 11 to 24 classes with gaps: (X, y with -1, X_new)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = np.repeat(np.arange(draw(st.integers(least, 24))), draw(st.integers(1, 2)))
    y = np.r_[y, np.full(draw(st.integers(0, 5)), -1)]
    X = rng.standard_normal((len(y) + draw(st.integers(2, 6)), draw(st.integers(1, 4))))
    X *= rng.lognormal(size=X.shape[1])
    gaps = rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))
    gaps[:, 0] = False  # a class without any observed cell has no place in the order
    X[gaps] = np.nan
    return X[: len(y)], y, X[len(y) :]


def tensors(X, y):
    inputs, _ = collate([context_task(X, y, y.max() + 1)], torch.float64)
    return inputs


@given(task=many_classes())
def test_groups_hold_each_class_once_and_as_many_classes_each(task):
    X, y, _ = task
    groupings = group_classes(**tensors(X, y), n_groups=10)
    assert len(groupings) == N_GROUPINGS
    for members in groupings:
        assert_array_equal(members.sum(2), 1)
        counts = members.sum(1)
        assert counts.max() - counts.min() <= 1 and counts.min() >= 1


def test_groups_are_along_the_first_principal_axes_of_the_means():
    first, second = np.random.default_rng(0).permuted(np.tile(np.arange(40.0), (2, 1)), axis=1)
    X = np.c_[first, first, second].repeat(2, axis=0)  # the axis of two columns is the longest
    y = np.r_[np.arange(40).repeat(2), np.full(200, -1)]
    elsewhere = np.random.default_rng(1).normal([20, 20, 60], 5, (200, 3))  # unlabelled rows
    groupings = group_classes(**tensors(np.r_[X, elsewhere], y), n_groups=10)
    for members, place in zip(groupings, (first, second), strict=True):
        group = members[0].argmax(1).numpy()
        assert abs(np.corrcoef(group, place)[0, 1]) > 0.9


@both_kinds
@settings(max_examples=12)
@given(task=many_classes(), transductive=st.booleans(), seed=st.integers(0, 1000))
def test_permutations_of_rows_columns_and_classes(learner, task, transductive, seed):
    assert_equivariant(task, transductive, learner, seed)


@pytest.mark.parametrize("n_classes", [12, 14, 16])
def test_the_direction_of_an_axis_does_not_matter(n_classes):
    """For symmetric means an axis has no direction: rounding would choose one."""
    X = np.arange(float(n_classes))[:, None]
    y = np.arange(n_classes)
    here, there = (group_classes(**tensors(x, y), n_groups=10)[0][0] for x in (X, X[::-1].copy()))
    there = there.flip(0)
    assert_array_equal(here @ here.T, there @ there.T)  # the same classes are together


@both_kinds
@settings(max_examples=12)
@given(
    tasks=st.lists(st.one_of(few_shot(), many_classes(least=8)), min_size=2, max_size=3),
    transductive=st.booleans(),
)
def test_tasks_of_few_and_of_many_classes_in_a_batch_equal_one_by_one(learner, tasks, transductive):
    classifier = double(transductive, learner)
    for (X, y, new), proba in zip(tasks, classifier.predict_proba_batch(tasks), strict=True):
        assert_allclose(proba, classifier.fit(X, y).predict_proba(new), atol=1e-10)


@both_kinds
@settings(max_examples=10)
@given(few=few_shot(), many=many_classes(), n_without=st.integers(0, 4))
def test_padding_changes_nothing(learner, few, many, n_without):
    """This also holds if some classes have no labelled row."""
    tasks = [context_task(X, y, y.max() + 1 + n_without) for X, y, _ in (few, many)]
    learner = copy.deepcopy(learner).double()
    padded = learner(**collate(tasks, torch.float64)[0])
    for task, found in zip(tasks, padded, strict=True):
        (expected,) = learner(**collate([task], torch.float64)[0])
        found = found[: len(task.y), : task.n_label_columns]
        assert_allclose(found, expected, atol=1e-10)


@both_kinds
@settings(max_examples=8)
@given(task=many_classes(), chunk_size=st.integers(1, 4))
def test_inductive_answers_do_not_depend_on_their_batch(learner, task, chunk_size):
    X, y, new = task
    sizes = (1000, chunk_size)
    whole, chunked = (double(False, learner, chunk_size=size).fit(X, y) for size in sizes)
    assert_allclose(chunked.predict_proba(new), whole.predict_proba(new), atol=1e-10)
    assert_allclose(chunked.transform(new), whole.transform(new), atol=1e-10)
    assert whole.transform(new).shape[1] == len(whole.get_feature_names_out())
    vars(whole)["_n_features_out"] = 1  # pickles from before there were groups store another number
    whole.set_params(backbone=small_learner(last_width=3))
    assert whole.transform(new).shape[1] == len(whole.get_feature_names_out())


@pytest.mark.parametrize("weights", ["default", "meta_lp"])
def test_pictures_are_told_better_than_by_the_nearest(weights):
    X, y = load_digits(return_X_y=True)
    cv = FewShotSplit(2, n_shots=3, n_unlabelled=20, random_state=0)
    ours, nearest = (
        cross_val_score(estimator, X, y, cv=cv).mean()
        for estimator in (MetaSemiSupervisedClassifier(weights), KNeighborsClassifier(1))
    )
    assert ours > nearest + 0.01


def test_targets_of_a_regression_are_no_classes():
    learner = Learner(task="regression", head="gp").requires_grad_(False)
    assert learner.n_embedding(3, 12) == learner.n_embedding(3, 1)
    assert learner.n_slices(3, 12) == 15
    y = np.random.default_rng(0).normal(size=(20, 12))
    inputs, _ = collate([context_task(y[:, :3], y, 12)])
    expected, _ = learner.backbone(**inputs)
    assert learner.embed(**inputs)[0].equal(expected)


def test_many_classes_are_told_with_confidence():
    """With a label column per class, forty classes had a log loss of 1.90 here."""
    X, y = make_blobs(40 * 12, 10, centers=40, cluster_std=3.5, random_state=0)
    labelled = np.concatenate([np.flatnonzero(y == c)[:3] for c in range(40)])
    others = np.setdiff1d(np.arange(len(y)), labelled)
    proba = MetaSemiSupervisedClassifier().fit(X[labelled], y[labelled]).predict_proba(X[others])
    assert (proba.argmax(1) == y[others]).mean() > 0.78
    assert log_loss(y[others], proba) < 0.8


def test_where_there_is_but_one_axis_both_groupings_are_along_it():
    """For proportional columns the second axis would be made of rounding alone."""
    place = np.random.default_rng(0).permutation(np.arange(40.0))
    groupings = group_classes(**tensors(np.c_[place, 3 * place + 0.1], np.arange(40)), n_groups=10)
    assert_array_equal(*groupings)


def test_classes_without_a_row_do_not_turn_the_axes():
    """Padded classes would lie at the origin, far from the others; they must not count."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.r_[np.arange(40), np.full(200, -1)]
    X = np.r_[X, rng.normal(6, 1, (200, 3))]
    alone, padded = (
        group_classes(**collate([context_task(X, y, n)], torch.float64)[0], n_groups=10)
        for n in (40, 70)
    )
    for expected, found in zip(alone, padded, strict=True):
        assert_array_equal(found[:, :40], expected)
