"""Rows of a large table that are read together."""

import weakref

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import load_wine

from sklearn_meta import MetaSemiSupervisedClassifier, tables
from sklearn_meta.chunks import chunks_of, in_chunks, in_order
from sklearn_meta.tasks import context_task

sizes = st.integers(0, 60), st.integers(1, 20)


@given(*sizes)
def test_each_row_is_in_one_chunk_and_chunks_are_of_one_size(n_rows, chunk_size):
    chunks = chunks_of(n_rows, np.uint8(chunk_size))
    assert len(chunks) == max(1, -(-n_rows // chunk_size))
    lengths = [len(chunk) for chunk in chunks]
    assert max(lengths) <= chunk_size and max(lengths) - min(lengths) <= 1
    assert_array_equal(np.sort(np.concatenate(chunks)), np.arange(n_rows))
    for chunk, again in zip(chunks, chunks_of(n_rows, chunk_size), strict=True):
        assert_array_equal(chunk, again)


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
    """Read fifty at a time in their order, each chunk would have the wines of one class or two."""
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


def test_chunks_are_made_when_they_are_asked_for():
    y = np.r_[np.arange(10) % 2, np.full(90, -1)]
    chunks, places = in_chunks(context_task(np.ones((100, 3)), y, 2), 10, 5)
    assert len(places) == 18
    alive = [weakref.ref(chunk.X) for chunk in chunks]
    assert sum(X() is not None for X in alive) <= 1  # the loop's own, of the last


def test_of_each_chunk_nothing_is_held_but_what_was_asked_for(monkeypatch):
    """A view would hold the context's share, too, as often as there are chunks."""
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
