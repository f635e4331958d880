"""benchmarks/clustered_tables.py on made data: what the last stage of the default weights draws."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

# Benchmarks are scripts, not part of the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import clustered_tables as benchmark

SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    """Tables of 64 characters of a few strokes each; the other splits hold nothing but noise."""
    folder = tmp_path_factory.mktemp("omniglot")
    rng = np.random.default_rng(0)
    strokes = np.kron(rng.random((64, 1, 4, 4)) < 0.4, np.ones((7, 7)))
    moved = np.stack([np.roll(strokes[:, 0], shift, axis=(1, 2)) for shift in range(-2, 3)], axis=1)
    noise = rng.random((4, 5, 28, 28)) < 0.5
    images = np.concatenate([moved, noise]).astype(np.uint8) * 255
    np.savez_compressed(
        folder / "omniglot.npz",
        images=images,
        alphabet=["A"] * 64 + ["B"] * 2 + ["C"] * 2,
        character=[f"{i}" for i in range(68)],
        official_set=["background"] * 66 + ["evaluation"] * 2,
        split=["train"] * 64 + ["valid"] * 2 + ["test"] * 2,
    )
    return benchmark.DrawingTables(folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Tables of film reviews and of product reviews, each domain with words of its own."""
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    columns = {"domain": [], "split": [], "label": [], "text": []}
    for domain in ("movies", "movie sentences", *(f"product {i}" for i in range(11))):
        own = [f"{domain.replace(' ', '')}{i}" for i in range(30)]
        for row in range(120):
            label = row % 2
            words = [*rng.choice(own, 6), *(f"{'bad good'.split()[label]}{i}" for i in range(3))]
            columns["domain"].append(domain)
            columns["split"].append(SPLITS[row % 5 - 2] if row % 5 > 2 else "train")
            columns["label"].append(label)
            columns["text"].append(" ".join([*words, f"of{columns['split'][-1]}"]))
    parquet.write_table(pyarrow.table(columns), folder / "nltk_sentiment.parquet")
    return benchmark.TextTables(folder)


def leave_one_out(table):
    """Return the leave-one-out accuracy of 1-NN and the share of the commonest class."""
    nearest = KNeighborsClassifier(2).fit(table.X, table.y).kneighbors(return_distance=False)[:, 0]
    return (table.y[nearest] == table.y).mean(), np.bincount(table.y).max() / len(table.y)


@pytest.mark.parametrize("source", ["drawings", "texts"])
def test_tables_are_of_many_columns_in_which_classes_are_clusters(source, request):
    source = request.getfixturevalue(source)
    rng = np.random.default_rng(1)
    tables = [source.draw(rng) for _ in range(40)]
    for table in tables:
        assert table.X.dtype == np.float32 and np.isfinite(table.X).all()
        assert 4 <= table.X.shape[1] <= 81 and 2 <= table.n_classes <= 10
        assert np.bincount(table.y).min() >= min(benchmark.LEAST, 5)
        assert np.bincount(table.y).max() <= benchmark.MOST
    assert len({table.X.shape[1] for table in tables}) > 8
    assert {2, 10} <= {table.n_classes for table in tables}
    told, guessed = np.mean([leave_one_out(table) for table in tables], axis=0)
    assert told > guessed + 0.2
    # Some tables have classes of equal size, others do not.
    uneven = [np.bincount(table.y).std() > 0 for table in tables]
    assert 0.1 < np.mean(uneven) < 1  # of few drawings each class keeps all


@pytest.mark.parametrize("source", ["drawings", "texts"])
def test_a_table_is_a_function_of_the_generator(source, request):
    source = request.getfixturevalue(source)
    one, same, other = (source.draw(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.X, same.X) and np.array_equal(one.y, same.y)
    assert one.X.shape != other.X.shape or not np.array_equal(one.X, other.X)


def test_nothing_of_other_splits_is_read_and_nothing_that_is_left_out(drawings, texts):
    assert len(drawings.rows_of) == 64
    still = drawings.drawings.reshape(64, 5, 28, 28)[:, 2]  # unmoved ones have blocks ...
    assert np.array_equal(still, np.kron(still[:, ::7, ::7], np.ones((7, 7))))
    assert len(texts.words) == len(texts.opinion) == 12 * 72  # ... and noise has none
    assert texts.domain.max() == 11


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 28), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_fields_hold_all_the_ink(side, n, seed):
    pictures = np.random.default_rng(seed).random((n, 28 * 28))
    found = benchmark.fields(pictures, side)
    assert found.shape == (n, side * side)
    assert np.allclose(found.sum(1), pictures.sum(1))
    if side == 28:
        assert np.allclose(found, pictures)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=2, max_size=6),
    st.integers(0, 2**32 - 1),
)
def test_rows_are_of_every_class_and_neither_too_many_nor_too_few(sizes, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    kept = benchmark.some_rows(y, np.random.default_rng(seed))
    assert len(set(kept)) == len(kept)
    counts = np.bincount(y[kept], minlength=len(sizes))
    assert (counts <= np.minimum(sizes, benchmark.MOST)).all()
    assert (counts >= np.minimum(sizes, benchmark.LEAST)).all()


def test_columns_are_the_first_components_or_mixtures_of_all_of_them():
    components = np.random.default_rng(0).normal(size=(50, 60))
    kinds = set()
    for seed in range(60):
        X = benchmark.some_columns(components, np.random.default_rng(seed))
        assert 4 <= X.shape[1] <= 60
        first = np.array_equal(X, components[:, : X.shape[1]])
        kinds.add((first, not first and (X == X.min(0)).mean() > 0.3))
    assert kinds == {(True, False), (False, False), (False, True)}
