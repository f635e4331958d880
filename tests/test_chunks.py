"""A large table is read in chunks of rows, whatever the order of rows, columns and units."""

import weakref

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_blobs, make_moons

from sklearn_meta import MetaSemiSupervisedClassifier, tables
from sklearn_meta.chunks import (
    _kinds,
    asked_once,
    batches_of,
    chunks_of,
    in_chunks,
    in_order,
    rows_read,
    same_of_equals,
)
from sklearn_meta.tasks import context_task

sizes = st.integers(0, 60), st.integers(1, 20)


@given(*sizes)
def test_each_row_is_in_one_chunk_and_chunks_are_of_one_size(n_rows, chunk_size):
    chunks = chunks_of(np.zeros((n_rows, 2)), np.uint8(chunk_size))
    assert len(chunks) == max(1, -(-n_rows // chunk_size))
    lengths = [len(chunk) for chunk in chunks]
    assert max(lengths) <= chunk_size and max(lengths) - min(lengths) <= 1
    assert_array_equal(np.sort(np.concatenate(chunks)), np.arange(n_rows))


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**16))
def test_it_is_rows_that_decide_who_reads_whom(n_rows, n_columns, chunk_size, seed):
    """Chunks do not depend on the order of rows or columns, or on units."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_columns))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[:, 0] = rng.normal(size=n_rows)  # distinct rows: equal ones may change places

    def contents(rows, found):
        return {frozenset(rows[some, 0]) for some in found}

    expected = contents(rows, chunks_of(rows, chunk_size))
    assert all((np.diff(some) > 0).all() for some in chunks_of(rows, chunk_size))
    order, columns = rng.permutation(n_rows), rng.permutation(n_columns)
    assert contents(rows[order], chunks_of(rows[order], chunk_size)) == expected
    assert contents(rows, chunks_of(7 * rows**3 + 1, chunk_size)) == expected
    if len(np.unique(_kinds(rows)[-2:], axis=1).T) == n_rows:  # otherwise single cells decide
        assert contents(rows, chunks_of(rows[:, columns], chunk_size)) == expected


def test_rows_of_the_same_sums_are_dealt_out_in_an_order_of_their_own():
    rng = np.random.default_rng(0)
    flags = (rng.random((60, 6)) < 0.5) * 1.0
    flags[30:] = 1 - flags[:30]  # every column has as many ones as zeros
    order = rng.permutation(60)
    some, others = chunks_of(flags, 7), chunks_of(flags[order], 7)
    for mine, theirs in zip(some, others, strict=True):
        mine, theirs = (
            np.sort(rows @ 2.0 ** np.arange(6)) for rows in (flags[mine], flags[order][theirs])
        )
        assert_array_equal(mine, theirs)


def test_unlabelled_rows_of_fit_do_not_outvote_few_labels_either():
    X, y = make_blobs(300, 4, centers=2, random_state=0)
    marked = np.where(np.arange(300) < 6, y, -1)
    marked[:6] = y[:6] = [0, 1, 0, 1, 0, 1]
    for transductive in (True, False):
        classifier = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
        assert len(classifier.fit(X, marked)._rows) == 6 + 40
        few = classifier._rows
        alone = clone(classifier).fit(X[few], marked[few]).predict_proba(X[:9])
        assert_allclose(classifier.predict_proba(X[:9]), alone, atol=1e-6)


def test_of_many_classes_a_thousand_unlabelled_rows_are_read():
    rows, marked = np.arange(1200.0)[:, None], np.r_[np.arange(60), np.full(1140, -1)]
    assert len(MetaSemiSupervisedClassifier("prototypes").fit(rows, marked)._rows) == 60 + 1000


def test_the_unlabelled_rows_that_are_read_are_of_all_kinds():
    rows = np.arange(200.0)[:, None]
    read = rows_read(np.full(200, -1), 40, rows)
    assert np.histogram(rows[read], 5, (0, 200))[0].min() >= 4


@given(*sizes, st.integers(0, 9), st.integers(0, 2**16))
def test_which_unlabelled_rows_are_read_is_no_matter_of_their_order(n_rows, most, n_known, seed):
    """Which unlabelled rows are read depends on their values alone; equal rows may be exchanged."""
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 1.0, 2.5, np.nan], (n_known + n_rows, 3))
    labels = rng.permutation(np.r_[np.arange(n_known), np.full(n_rows, -1)])
    order = rng.permutation(len(rows))
    known = labels >= 0
    for given_labels in (labels, np.where(known, labels, np.nan)[:, None] * [1.0, 1.0]):
        read, moved = (
            rows_read(*args)
            for args in ((given_labels, most, rows), (given_labels[order], most, rows[order]))
        )
        assert len(read) == n_known + min(n_rows, most)
        assert set(np.flatnonzero(known)) <= set(read)
        mine, theirs = (np.nan_to_num(of, nan=-1) for of in (rows[read], rows[order][moved]))
        assert_array_equal(mine[np.lexsort(mine.T)], theirs[np.lexsort(theirs.T)])


@pytest.mark.parametrize("transductive", [True, False])
def test_the_order_of_the_rows_of_fit_is_no_matter_where_not_all_are_read(transductive):
    X, y = make_moons(200, noise=0.2, random_state=0)
    marked = np.where(np.arange(200) < 6, y, -1)
    classifier = MetaSemiSupervisedClassifier(
        "prototypes", transductive=transductive, dtype="float64"
    )
    order = np.random.default_rng(0).permutation(150)
    found, moved = (
        classifier.fit(X[rows], marked[rows]).predict_proba(X[150:])
        for rows in (np.arange(150), order)
    )
    assert len(classifier._rows) < 150
    assert_allclose(moved, found, atol=1e-10)


def test_each_chunk_has_some_rows_of_every_kind():
    X, y = load_wine(return_X_y=True)
    shares = [np.bincount(y[some], minlength=3) / len(some) for some in chunks_of(X, 20)]
    assert np.abs(shares - np.bincount(y) / len(y)).max() < 0.25


@given(*sizes, st.integers(1, 9))
def test_chunks_of_a_task_have_its_context_and_come_back_in_order(n_rows, chunk_size, n_context):
    y = np.r_[np.arange(n_context) % 2, np.full(n_rows, -1)]
    task = context_task(np.c_[np.arange(n_context + n_rows), y].astype(float), y, 2)
    chunks, places = in_chunks(task, n_context, chunk_size)
    chunks = list(chunks)
    for chunk in chunks:
        assert_array_equal(chunk.X[:n_context], task.X[:n_context])
        assert_array_equal(chunk.y, chunk.X[:, 1])
        assert chunk.n_label_columns == 2 and chunk.labelled.sum() == n_context
    parts = [torch.from_numpy(chunk.X[n_context:]) for chunk in chunks]
    assert_array_equal(in_order(parts, places), task.X[n_context:])
    assert_array_equal(in_order([part.T for part in parts], places, dim=1), task.X[n_context:].T)


def test_a_sorted_table_is_told_as_well_as_a_shuffled_one():
    """Chunks in the order of rows would hold wines of one class or two."""
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    classifier = MetaSemiSupervisedClassifier(chunk_size=50)
    scores = []
    for draw in range(3):
        rng = np.random.default_rng(draw)
        labelled = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, False) for c in range(3)])
        classifier.fit(X[labelled], y[labelled])
        scores.append([classifier.score(X, y), classifier.score(X[order], y[order])])
    in_classes, shuffled = np.mean(scores, axis=0)
    assert in_classes > shuffled - 0.03


@pytest.mark.parametrize("n_labelled, expected", [(6, 60), (150, 75)])
def test_a_classifier_reads_as_many_rows_at_a_time_as_meta_training_has(n_labelled, expected):
    """Chunks grow to half the number of labelled rows, since each chunk reads those again."""
    X, y = make_blobs(400, 4, centers=3, random_state=0)
    labelled = np.arange(n_labelled)
    classifier = MetaSemiSupervisedClassifier("prototypes", dtype="float64")
    few = np.where(np.arange(200) < n_labelled, y[:200], -1)
    for rows, labels in ((X[labelled], y[labelled]), (X[:200], few)):
        classifier.fit(rows, labels)
        found = classifier.predict_proba(X[200:])
        of_size = clone(classifier).set_params(chunk_size=expected).fit(rows, labels)
        assert_array_equal(found, of_size.predict_proba(X[200:]))
        whole = clone(classifier).set_params(chunk_size=1000).fit(rows, labels)
        assert np.abs(found - whole.predict_proba(X[200:])).max() > 1e-6
    task = X[labelled], y[labelled], X[200:]
    alone = classifier.fit(*task[:2]).predict_proba(X[200:])
    assert_allclose(classifier.predict_proba_batch([task])[0], alone, atol=1e-10)
    order = np.random.default_rng(0).permutation(200)
    assert_allclose(classifier.predict_proba(X[200:][order]), alone[order], atol=1e-10)
    inductive = clone(classifier).set_params(transductive=False).fit(*task[:2])
    some = clone(inductive).set_params(chunk_size=7).fit(*task[:2]).predict_proba(X[200:])
    assert_allclose(inductive.predict_proba(X[200:]), some, atol=1e-10)


def test_many_rows_do_not_outvote_few_labels():
    """When all rows were read at once, a class of five among a hundred was hardly predicted."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    others, threes = (rng.permutation(np.flatnonzero((y == 3) == told)) for told in (False, True))
    labelled, asked = np.r_[others[:95], threes[:5]], np.r_[others[95:380], threes[5:20]]
    classifier = MetaSemiSupervisedClassifier().fit(X[labelled], y[labelled] == 3)
    found = {
        size: classifier.set_params(chunk_size=size).predict(X[asked])[-15:].mean()
        for size in (None, 1000)
    }
    assert found[None] > 0.3 + found[1000]


def test_chunks_are_made_when_they_are_asked_for():
    y = np.r_[np.arange(10) % 2, np.full(90, -1)]
    chunks, places = in_chunks(context_task(np.ones((100, 3)), y, 2), 10, 5)
    assert len(places) == 18
    alive = [weakref.ref(chunk.X) for chunk in chunks]
    assert sum(X() is not None for X in alive) <= 1  # the loop's own variable: the last chunk


@given(*sizes, st.integers(1, 9), st.integers(1, 2000))
def test_chunks_are_read_in_batches_of_bounded_size(n_rows, chunk_size, n_context, max_cells):
    y = np.r_[np.arange(n_context) % 2, np.full(n_rows, -1)]
    task = context_task(np.arange(len(y) * 3.0).reshape(-1, 3), y, 2)
    alone = list(in_chunks(task, n_context, chunk_size)[0])
    batches = list(batches_of(in_chunks(task, n_context, chunk_size)[0], max_cells))
    cells = len(alone[0].y) * (3 + 2 + len(alone[0].y) // 8)
    assert all(1 <= len(batch) <= max(1, max_cells // cells) for batch in batches)
    assert len(batches) == -(-len(alone) // max(1, max_cells // cells))
    last = [[chunk.X[-1, 0] for chunk in chunks] for chunks in (sum(batches, []), alone)]
    assert_array_equal(*last)


@pytest.mark.parametrize("backbone", ["prototypes", "default"])
def test_chunks_read_in_a_batch_have_the_answers_of_each_alone(backbone, monkeypatch):
    """43 rows make chunks of 9 or 8, which are padded and read in one forward pass."""
    X, y = make_blobs(57, 4, centers=2, cluster_std=6, random_state=0)
    classifier = MetaSemiSupervisedClassifier(backbone, dtype="float64", chunk_size=9)
    classifier.fit(X[:14], y[:14])
    forward, sizes = classifier._forward, []
    monkeypatch.setattr(classifier, "_forward", lambda t: sizes.append(len(t)) or forward(t))
    together = classifier.predict_proba(X[14:]), classifier.transform(X[14:])
    assert sizes == [5, 5]
    monkeypatch.setattr(classifier, "_cells_at_once", lambda: 1)
    alone = classifier.predict_proba(X[14:]), classifier.transform(X[14:])
    assert sizes == [5, 5] + 10 * [1]
    for found, expected in zip(together, alone, strict=True):
        assert_allclose(found, expected, atol=1e-10)


def test_of_each_chunk_nothing_is_held_but_what_was_asked_for(monkeypatch):
    """A view would keep the context's share of every chunk in memory."""
    parts = []

    def kept(some, places):
        parts.extend(some)
        return in_order(some, places)

    monkeypatch.setattr(tables, "in_order", kept)
    X, y = load_wine(return_X_y=True)
    classifier = MetaSemiSupervisedClassifier("prototypes", chunk_size=20).fit(X[::2], y[::2])
    assert classifier.predict_proba(X[1::2]).shape == (89, 3)
    assert {part.shape[1:] for part in parts} == {(3,)} and len(parts) == 5
    classifier.transform(X[1::2])
    assert len(parts) == 10
    assert all(part.untyped_storage().nbytes() == part.nbytes for part in parts)


def test_rows_that_are_the_same_have_the_same_answer():
    """Equal rows have equal answers in whichever chunks they are, so order does not matter."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (90, 2)).astype(float)
    X[rng.random(90) < 0.2, 1] = np.nan
    y = (X[:, 0] > 0) * 1
    classifier = MetaSemiSupervisedClassifier("prototypes", dtype="float64", chunk_size=12)
    found = classifier.fit(X[:20], y[:20]).predict_proba(X[20:])
    _, kinds = np.unique(np.nan_to_num(X[20:], nan=-1), axis=0, return_inverse=True)
    kinds = kinds.reshape(-1)  # numpy 2.0 returns a column
    for kind in range(kinds.max() + 1):
        assert np.ptp(found[kinds == kind], axis=0).max() < 1e-12
    order = rng.permutation(70)
    assert_allclose(classifier.predict_proba(X[20:][order]), found[order], atol=1e-10)
    batched = classifier.predict_proba_batch([(X[:20], y[:20], X[20:])])[0]
    assert_allclose(batched, found, atol=1e-10)
    marked = np.r_[y[:20], np.full(70, -1)]
    told = clone(classifier).fit(X, marked).label_distributions_
    assert_allclose(told, np.vstack([np.eye(2)[y[:20]], found]), atol=1e-10)


@given(st.integers(0, 8), st.integers(1, 3), st.integers(0, 2**16))
def test_what_is_found_of_equal_rows_is_their_mean(n_rows, n_columns, seed):
    """Equal rows, two or many, get the mean of their answers; a gap is not equal to zero."""
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 1.0, np.nan], (n_rows, n_columns))
    found = rng.normal(size=(n_rows, 2))
    equal = ((rows[:, None] == rows) | (np.isnan(rows[:, None]) & np.isnan(rows))).all(2)
    expected = equal @ found / equal.sum(1, keepdims=True)
    assert_allclose(same_of_equals(torch.from_numpy(found), rows), expected, atol=1e-12)
    embedded = torch.from_numpy(found)[:, :, None] * torch.tensor([1.0, 2, 3])
    expected = expected[:, :, None] * [1, 2, 3]
    assert_allclose(same_of_equals(embedded, rows), expected, atol=1e-12)


@given(st.integers(1, 12), st.integers(0, 2**16))
def test_rows_are_asked_about_once_and_all_have_the_answer(n_rows, seed):
    rng = np.random.default_rng(seed)
    embedded = torch.from_numpy(rng.choice([0.1, 0.7, 3], (n_rows, 2, 1))).float()
    targets = torch.from_numpy(rng.choice([0.1, 0.3], (n_rows, 1)))
    (once, theirs), which = asked_once(embedded, targets)
    assert once.dtype == torch.float32 and theirs.dtype == torch.float64
    assert torch.equal(once[which], embedded) and torch.equal(theirs[which], targets)
    kinds = {(*row.flatten().tolist(), *t.tolist()) for row, t in zip(embedded, targets)}
    assert len(once) == len(theirs) == len(kinds)


def test_rows_are_sorted_by_sums_of_ranks_and_then_of_their_squares():
    rows = np.array([[3, 5], [1, 5], [1, np.nan], [2, 7]])
    *_, squares, sums = _kinds(rows)  # of (3, -1), (-2, -1), (-2, 0) and (1, 2)
    assert (squares.tolist(), sums.tolist()) == ([10, 5, 4, 5], [2, -3, -2, 3])


def test_a_gap_counts_as_a_cell_in_the_middle():
    column = np.r_[np.random.default_rng(0).permutation(np.arange(9.0)), np.nan]
    ranks = _kinds(column[:, None])[-1]
    assert ranks[9] == ranks[column == 4] == 0


def test_of_a_task_in_a_batch_the_same_unlabelled_rows_are_read_as_by_fit():
    X, y = make_blobs(300, 4, centers=2, cluster_std=4, random_state=0)
    marked = np.where(np.arange(300) % 50 < 2, y, -1)
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["u", "v"])[y])
    new = table[:9].assign(kind=[*"wuvwuvwuv"])  # a category more, which has no say in it
    classifier = MetaSemiSupervisedClassifier("prototypes", dtype="float64")
    for rows, asked in ((X, X[:9]), (table, new)):
        (found,) = classifier.predict_proba_batch([[rows, marked, asked]])
        assert_allclose(found, classifier.fit(rows, marked).predict_proba(asked), atol=1e-10)
