"""Sources: what is made a source, how targets are cut, and the real tables."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.datasets import load_wine

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.fingerprint import described
from sklearn_meta.tasks import (
    CircleSpiral,
    ClassSequences,
    Curriculum,
    Dataset,
    EpisodeSampler,
    Folder,
    Mixture,
    RawTable,
    RegressionPrior,
    RegressionSampler,
    TablePrior,
    Tables,
    as_dataset,
    as_source,
    names_in,
    rows_as_they_are,
    select,
)
from sklearn_meta.tasks.episodes import cut_into_classes
from sklearn_meta.tasks.sources import names_given, parts_of, suited


def pair(sizes=(4, 5), n_columns=3):
    y = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(0).standard_normal((len(y), n_columns)), y


def test_a_dataset_is_checked_as_a_pair_is():
    X, y = pair((10, 10))
    gaps = np.where(y == 0, np.nan, np.arange(20)).astype(np.float32)
    (found,) = as_source([Dataset("a", X, gaps)]).values()
    np.testing.assert_array_equal(found.y, np.arange(10, 20))
    np.testing.assert_array_equal(found.X, X[10:])
    several = np.column_stack([gaps, np.arange(20)])  # of the first ten rows, one target is known
    (found,) = as_source([Dataset("a", X, several)]).values()
    np.testing.assert_array_equal(found.y, several[10:])
    (found,) = as_source([Dataset("a", X, y == 1)]).values()
    assert found.y.dtype == np.int64 and found.y.tolist() == y.tolist()
    with pytest.raises(ValueError, match="'0' has an infinite target"):
        as_source([Dataset("a", X, np.where(y == 0, np.inf, 0.0))])
    with pytest.raises(ValueError, match="'0' has a constant target"):
        as_source([Dataset("a", X, np.full(20, np.nan))])


def test_a_pair_without_labels_is_told_how_to_mark_them():
    for y in (None, 3):
        with pytest.raises(ValueError, match=f"Dataset 'a': expected one label per row, got y={y}"):
            as_source({"a": (np.zeros((4, 2)), y)})


def test_what_a_source_draws_has_targets():
    class Gaps:
        def draw(self, rng):
            return Dataset("a", np.ones((3, 1)), np.array([1, np.nan, 2]))

    source = suited(Gaps(), RegressionSampler(5))
    with pytest.raises(ValueError, match="draw of Gaps returned a target that is not finite"):
        source.draw(np.random.default_rng(0))


class SomeRows:
    """Draws a few rows of a large table, so that some of its classes may be missing."""

    def __init__(self, n):
        self.n, (self.X, self.y) = n, load_wine(return_X_y=True)

    def draw(self, rng):
        rows = rng.permutation(len(self.y))[: self.n]
        return Dataset("wine", self.X[rows].astype(np.float32), self.y[rows])


class OneClass(SomeRows):
    def __init__(self):
        super().__init__(178)
        self.y = np.zeros_like(self.y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AmortizedOutlierDetector("deep_sets"),
        lambda: FewShotTransformerClassifier("transformer"),
        lambda: MetaSemiSupervisedClassifier("deep_sets"),
        lambda: MANNClassifier("lstm"),
    ],
)
def test_where_a_class_is_missing_another_table_is_drawn(make):
    settings = {"max_steps": 12, "batch_size": 4, "verbose": False}
    assert make().set_params(random_state=0).meta_fit(SomeRows(6), **settings).history_
    with pytest.raises(ValueError, match="has rows of 1 of [123] classes"):
        make().meta_fit(OneClass(), **settings)


def test_a_curriculum_asks_for_another_table_as_its_sampler_does():
    source = suited(OneClass(), Curriculum(ClassSequences(None, None)))
    with pytest.raises(ValueError, match="has rows of 1 of [123] classes"):
        source.draw(np.random.default_rng(0))


def test_another_is_drawn_in_place_of_what_makes_no_task():
    """Some tables of the prior have no column that could be a target."""
    prior, sampler = TablePrior(), RegressionSampler()
    source, rng = suited(prior, sampler), np.random.default_rng(0)
    for _ in range(40):
        assert np.isfinite(sampler.draw(source.draw(rng), rng).y).all()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(40):
        try:
            sampler.check_dataset(prior.draw(rng))
        except ValueError:
            refused += 1
    assert refused > 0  # otherwise nothing was redrawn

    class Votes:
        def draw(self, rng):
            return Dataset("votes", np.ones((8, 3), np.float32), np.arange(8) % 2)

    with pytest.raises(ValueError, match="'votes' has classes as its target and no column"):
        suited(Votes(), sampler).draw(rng)

    class Rarely(Votes):
        n_drawn = 0

        def draw(self, rng):
            self.n_drawn += 1
            votes = super().draw(rng)
            return votes._replace(y=np.arange(8.0)) if self.n_drawn > 60 else votes

    assert suited(Rarely(), sampler).draw(rng).y.tolist() == list(range(8))


def test_lists_dicts_and_frames_become_sources():
    X, y = pair()
    words = np.array(["no", "yes"])[y]
    frame = pd.DataFrame(X, columns=list("abc")).assign(d=pd.Categorical(words))
    assert list(as_source({"a": (X, y), "b": (frame, words)})) == ["a", "b"]
    source = as_source([(X, y), (frame, words), (X.tolist(), y.tolist()), Dataset("own", X, y)])
    assert isinstance(source, Tables) and len(source) == 4
    names = {source.draw(np.random.default_rng(seed)).name for seed in range(40)}
    assert names == {"0", "1", "2", "own"}
    for dataset in source.values():
        np.testing.assert_array_equal(dataset.y, y)
        correlation = [np.corrcoef(dataset.X[:, j], X[:, j])[0, 1] for j in range(3)]
        np.testing.assert_allclose(correlation, 1)
    assert source["1"].X.shape == (9, 4) and source["1"].X.dtype == np.float32
    assert as_source(source) is source


def test_unlabelled_rows_of_a_dataset_are_left_out():
    X, y = pair()
    dataset = as_dataset(X, np.where(np.arange(9) % 3, y, -1))
    assert dataset.X.shape == (6, 3) and len(dataset.y) == 6


def test_rows_as_they_are_keep_their_values():
    X, y = pair()
    X = 2 + X / 20
    frame = pd.DataFrame(X, columns=list("abc"))
    source = as_source([(X, y), (frame, y.astype(str)), (X.tolist(), y)], make=rows_as_they_are)
    for dataset in source.values():
        np.testing.assert_array_equal(dataset.X, X.astype(np.float32))
        np.testing.assert_array_equal(dataset.y, y)
    mixed = as_source(Mixture([[(X, y)]]), make=rows_as_they_are)
    np.testing.assert_array_equal(mixed.sources[0]["0"].X, X.astype(np.float32))
    pixels = np.arange(27, dtype=np.uint8).reshape(9, 3)
    drawn = rows_as_they_are(pixels, np.where(np.arange(9) % 3, y, -1))
    assert drawn.X.dtype == np.uint8 and len(drawn.X) == 6  # without the rows that have no label
    for wrong in (np.nan, np.inf, 1e39):
        with pytest.raises(ValueError, match="missing, infinite or too large for float32"):
            rows_as_they_are(np.where(X == X[0, 0], wrong, X), y)
    with pytest.raises(ValueError, match="has 1 class"):
        rows_as_they_are(X, np.zeros(9))
    gap = np.where(np.arange(9)[:, None] == 0, np.nan, X)  # in a row without a label
    assert len(rows_as_they_are(gap, np.where(np.arange(9), y, -1)).X) == 8


@pytest.mark.parametrize(
    "datasets, message",
    [
        ([], "at least one dataset"),
        ([pair((3,))], "'0' has 1 class"),
        ([Dataset("a", *pair((3,)))], "'0' has 1 class"),
        ([Dataset("a", np.ones((4, 2)), np.ones(4, np.float32))], "'0' has a constant target"),
        ({"a": pair((3, 1))}, "'a' has a class with fewer than 2 rows"),
        ([Dataset("a", *pair((3, 0, 3)))], "'0' has a class with fewer than 2 rows"),
        ([(np.zeros((3, 2)), [0, 1])], "X has 3 rows and y has 2"),
        ([(np.zeros((3, 2)), [])], "X has 3 rows and y has 0"),
        ([Dataset("a", [[1.0]] * 4, pair((2, 2))[1])], "'0' is malformed: X must be .*as_dataset"),
        ([Dataset("a", np.ones((4, 2)), [[0], [0], [1], [1]])], "'0' is malformed"),
        ([Dataset("a", np.ones(4), pair((2, 2))[1])], "'0' is malformed"),
    ],
)
def test_bad_datasets_are_refused(datasets, message):
    with pytest.raises(ValueError, match=message):
        as_source(datasets)


def test_two_rows_of_each_class_are_enough():
    assert as_source([pair((2, 2))])["0"].y.tolist() == [0, 0, 1, 1]


def test_whole_numbers_that_are_no_classes_are_refused_with_the_way_out():
    X, y = pair((1,) * 6)
    with pytest.raises(ValueError, match=r"If the target is a number.*\{'task': 'regression'\}"):
        as_source({"prices": (X, y)})
    dataset = as_source({"prices": (X, y, {"task": "regression"})})["prices"]
    np.testing.assert_array_equal(dataset.y, y)
    assert dataset.y.dtype == np.float32


def test_a_dataset_that_cannot_be_used_is_named_and_left_out():
    class Torn(dict):
        def __getitem__(self, name):
            if name == "torn":
                raise OSError("Dataset 'torn': the connection was lost.")
            return super().__getitem__(name)

    datasets = Torn(good=pair(), torn=None, single=pair((3,)))
    told = "2 of 3 datasets are left out. Dataset 'torn': the connection .* Dataset 'single' has 1"
    with pytest.warns(UserWarning, match=told):
        assert list(as_source(datasets)) == ["good"]
    del datasets["good"]
    with pytest.raises(ValueError, match="None of the datasets.*connection was lost.*1 class"):
        as_source(datasets)


def test_a_sparse_table_is_left_out():
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out. Dataset '0': Sparse data"):
        assert list(as_source([(csr_array(np.eye(4)), [0, 1] * 2), pair()])) == ["1"]


def test_a_sampler_need_not_check_what_is_drawn():
    class Texts:
        def draw(self, rng):
            return {"a": "text"}

    tables, rng = as_source([pair()]), np.random.default_rng(0)
    assert suited(tables, object()) is tables
    assert suited(CircleSpiral(), object()).draw(rng).n_classes > 1
    assert suited(Texts(), object()).draw(rng) == {"a": "text"}
    with pytest.raises(ValueError, match="5 is not a source: give datasets"):
        suited(5, object())


def test_a_target_that_will_be_cut_into_classes_is_suited():
    targets = as_source([(np.eye(9), np.linspace(0, 1, 9)), (np.eye(9), np.linspace(-2, 3, 9))])
    assert list(suited(targets, EpisodeSampler())) == ["0", "1"]


def test_datasets_of_one_name_are_told():
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out. Dataset '1': another"):
        assert len(as_source({1: pair(), "1": pair()})) == 1
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out. Dataset '1': another"):
        assert len(as_source({"1": pair(), 1: pair()})) == 1


@pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e-44, 1e-30, 1, 1e30])
def test_the_unit_of_a_target_swallows_nothing(unit):
    y = unit * np.arange(40.0)
    found = as_dataset(np.eye(40), y, metadata={"task": "regression"}).y.astype(float)
    np.testing.assert_allclose(found / found[1], np.arange(40), rtol=1e-6)


def test_labels_that_are_neither_numbers_nor_strings():
    days = pd.Series(pd.to_datetime([0, 1] * 3, unit="D", utc=True))
    for y in (days, days.dt.date.to_numpy()):
        with pytest.raises(ValueError, match="'days': labels must be numbers or strings, got"):
            as_source({"days": (np.eye(6), y)})


def test_a_large_offset_of_a_target_swallows_nothing():
    X, y = np.eye(40), np.linspace(0, 1, 40) ** 2
    both = as_dataset(X, np.c_[1.7e9 + 100 * y, 3 + y], metadata={"task": "regression"}).y
    assert both.dtype == np.float32
    np.testing.assert_allclose(both[:, 0] - both[0, 0], 100 * y, atol=1e-4)
    np.testing.assert_array_equal(both[:, 1], np.float32(3 + y))  # unchanged


def test_what_a_target_is():
    X, y = pair((20, 20))
    shift = np.linspace(0, 1, 40)
    assert as_dataset(X, y + shift).y.dtype == np.float32
    np.testing.assert_array_equal(as_dataset(X, y.astype(float)).y, y)
    numbers = as_dataset(X, np.arange(40), metadata={"task": "regression"})
    np.testing.assert_array_equal(numbers.y, np.arange(40, dtype=np.float32))
    words = pd.Series(np.where(y, "b", "a").astype(object))
    words[3] = None  # a row without a target
    for target in (words, words.astype("category"), words.astype("string")):
        found = as_dataset(X, target)
        np.testing.assert_array_equal(found.y, np.delete(y, 3))
        assert found.X.shape == (39, 3)
    words[4] = "-1"
    np.testing.assert_array_equal(as_dataset(X, words).y, np.delete(y, [3, 4]))
    np.testing.assert_array_equal(as_dataset(X, y > 0).y, y)
    signs = np.where(y, 1, -1)
    for target in (signs, signs.astype(str)):
        kept = as_dataset(X, target, metadata={"task": "classification"})
        np.testing.assert_array_equal(kept.y, y)
        with pytest.raises(ValueError, match="1 class"):
            as_dataset(X, target)
    table = RawTable(X, y, {"task": "regression"})
    assert as_source({"a": table})["a"].y.dtype == np.float32


def test_a_large_offset_does_not_swallow_a_columns_variation():
    """1e9 + 0.001 is 1e9 in single precision; timestamps and account numbers are like that."""
    small = np.random.default_rng(0).standard_normal(200)
    X = np.column_stack([1e9 + 1e-3 * small, 1e-30 * small, np.full(200, 7e8)])
    found = as_dataset(X, np.arange(200) % 2).X
    assert np.corrcoef(found[:, 0], small)[0, 1] > 0.9999
    assert np.corrcoef(found[:, 1], small)[0, 1] > 0.9999
    assert np.ptp(found[:, 2]) == 0
    gaps = np.where(np.arange(600).reshape(200, 3) % 7, X, np.nan)
    found = as_dataset(gaps, np.arange(200) % 2).X
    np.testing.assert_array_equal(np.isnan(found), np.isnan(gaps))


@pytest.mark.parametrize("unit", [1e200, 1e-200, 1e-310])
def test_units_do_not_swallow_a_columns_variation(unit):
    X = np.random.default_rng(0).standard_normal((9, 2))
    plain, found = (as_dataset(X * one, np.arange(9) % 2).X for one in (1, unit))
    np.testing.assert_allclose(found, plain, rtol=1e-5)


def test_names_of_what_may_be_drawn():
    mixture = Mixture([{"a": pair(), "b": pair()}, CircleSpiral(), [pair()]])
    assert names_in(mixture) == ["a", "b", "CircleSpiral", "0"]
    for names, known in (([1, "x"], ["1", "x"]), (np.arange(2), ["Own"])):
        assert names_in(type("Own", (), {"names": names})()) == known


@pytest.mark.parametrize(
    "datasets, names",
    [
        ({"a": pair(), "b": pair()}, ["a", "b"]),
        ([pair(), pair()], []),
        (CircleSpiral(), ["CircleSpiral"]),
        (Mixture([[pair()], {"a": pair()}, Mixture([{"b": pair()}])]), ["a", "b"]),
    ],
)
def test_tables_of_a_list_were_given_no_names(datasets, names):
    """Their positions say nothing about which tables weights have seen."""
    assert names_given(datasets, as_source(datasets)) == names


def test_a_collection_that_can_is_fetched_first():
    class Remote(dict):
        def fetch(self):
            self.update(a=pair())

    assert list(as_source(Remote())) == ["a"]


def test_a_mixture_reads_its_collections_once():
    class Counted(dict):
        n_read = 0

        def __getitem__(self, name):
            self.n_read += 1
            return super().__getitem__(name)

    counted = Counted(a=pair())
    mixture = Mixture([counted])
    assert {mixture.draw(np.random.default_rng(0)).name for _ in range(3)} == {"a"}
    assert counted.n_read == 1


def test_a_mixture_reads_collections_as_it_is_asked_to():
    X, y = pair()
    mixture = Mixture([[(X, np.arange(9))], {"counts": (X, y)}, Mixture([[(X, y + 1)]])])
    before = described(mixture)
    targets = [
        dataset.y
        for source in as_source(mixture, task="regression").sources
        for dataset in (source.draw(np.random.default_rng(0)),)
    ]
    for found, expected in zip(targets, (np.arange(9), y, y + 1), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="a class with fewer than 2 rows"):
        as_source(mixture).draw(np.random.default_rng(0))
    assert described(mixture) == before  # a checkpoint recognises it
    tables = Mixture([{"counts": (X, y)}])
    before = described(tables)
    tables.draw(np.random.default_rng(0))
    assert described(tables) == before
    once = Mixture([iter([(X, y)])])
    assert len(as_source(once).sources[0]) == len(as_source(once).sources[0]) == 1


def test_gaps_in_a_list_of_text_are_gaps():
    cells = [["a", 1.0], [np.nan, 2.0], ["b", np.nan], ["a", 3.0], ["b", 4.0]]
    dataset = as_dataset(cells, ["u", "v", "u", np.nan, "v"])
    np.testing.assert_array_equal(dataset.y, [0, 1, 0, 1])
    assert dataset.X.shape == (4, 2) and np.isnan(dataset.X).sum() == 2
    assert as_dataset(np.eye(4), [b"a", b"b", b"a", b"b"]).y.tolist() == [0, 1, 0, 1]


def test_a_target_of_several_columns_is_cut_by_one_of_them():
    X = np.arange(40.0)[:, None]
    dataset = Dataset("two", X.astype("f4"), np.hstack([X, -X]).astype("f4"))
    for seed in range(20):
        cut = cut_into_classes(dataset, np.random.default_rng(seed))
        assert cut.y.shape == (40,) and (abs(np.diff(cut.y)) <= 1).all()  # monotone in X
        assert len(set(np.sign(np.diff(cut.y))) - {0}) == 1


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(2, 30), st.integers(1, 3)),
        elements=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    ),
    st.integers(0, 99),
)
@example(np.eye(10, 1, dtype=np.float32), 0)  # one row apart from all others
@example(np.eye(10, 2, dtype=np.float32) * [1, 0], 1)  # a target that says nothing
def test_every_class_of_a_target_that_is_cut_occurs(y, seed):
    assume((y != y[0]).any())
    for target in (y, y[:, (y != y[0]).any(0).argmax()]):
        dataset = Dataset("t", np.zeros((len(y), 1), np.float32), target)
        cut = cut_into_classes(dataset, np.random.default_rng(seed)).y
        assert set(cut) == set(range(max(cut) + 1)) and max(cut) >= 1


def test_no_class_of_a_target_that_is_cut_is_small():
    dataset = Dataset("t", np.zeros((500, 1), np.float32), np.arange(500, dtype=np.float32))
    for seed in range(50):
        counts = np.bincount(cut_into_classes(dataset, np.random.default_rng(seed)).y)
        assert counts.min() >= 0.4 / len(counts) * 500 - 1


def test_targets_that_are_all_constant_are_refused():
    dataset = Dataset("flat", np.zeros((4, 1), np.float32), np.ones(4, np.float32))
    with pytest.raises(ValueError, match="'flat' has a constant target: draw another"):
        cut_into_classes(dataset, np.random.default_rng(0))
    with pytest.raises(ValueError, match="'0' has a constant target"):
        as_source([(np.eye(6), np.ones((6, 2)) * [1, 2.5], {"task": "regression"})])


def test_a_mixture_keeps_its_weights():
    sources = [CircleSpiral(kinds=("circle",)), [pair()], CircleSpiral(kinds=("spiral",))]
    rng = np.random.default_rng(0)
    names = [Mixture(sources, [3, 1, 0]).draw(rng).name for _ in range(200)]
    assert names.count("circle") == pytest.approx(150, abs=20) and "spiral" not in names
    for made in (as_source, lambda mixture: suited(mixture, EpisodeSampler())):
        assert made(Mixture(sources, [3, 1, 0])).weights.tolist() == [0.75, 0.25]
    assert {Mixture(sources).draw(rng).name for _ in range(50)} == {"circle", "0", "spiral"}
    for weights in ([1, 1], [1, 1, -1], [0, 0, 0], [1, 1, np.inf], 0.5):
        with pytest.raises(ValueError, match="one non-negative number for each source"):
            Mixture(sources, weights)


def cut(source, seed):
    """Cut a regression table into classes, as the classification sampler does."""
    rng = np.random.default_rng(seed)
    return cut_into_classes(source.draw(rng), rng)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0, 9.0]), min_size=4, max_size=40),
    st.integers(0, 2**32 - 1),
)
def test_regression_targets_become_intervals_of_two_rows_or_more(values, seed):
    """Holds wherever such a cut exists; repeated values (zero-inflated targets) are the trap."""
    target = np.float32(values)
    assume(any(min((target < t).sum(), (target >= t).sum()) > 1 for t in values))
    source = Tables({"a": Dataset("a", target[:, None], target)})
    X, y = cut(source, seed)[1:3]
    assert y.dtype == np.int64 and 2 <= y.max() + 1 <= 5
    assert np.bincount(y).min() >= 2
    order = np.argsort(X[:, 0], kind="stable")
    assert (np.diff(y[order]) >= 0).all()  # classes are in the order of the target
    assert len(np.unique(np.c_[X, y], axis=0)) == len(np.unique(X))  # equal values stay together


def test_regression_targets_are_cut_anew_at_each_draw():
    target = np.linspace(0, 1, 100, dtype=np.float32)
    source = Tables({"a": Dataset("a", target[:, None], target)})
    drawn = [cut(source, seed).y for seed in range(60)]
    assert len({tuple(y) for y in drawn}) > 30
    assert {y.max() + 1 for y in drawn} == {2, 3, 4, 5}


def assert_retargeted(dataset, original):
    """Check that the new target is the one column that was removed."""
    X, y = dataset.X, dataset.y
    assert X.shape[1] == original.X.shape[1] - 1
    for j in range(original.X.shape[1]):
        known = np.isfinite(original.X[:, j])
        if np.array_equal(np.delete(original.X, j, axis=1)[known], X, equal_nan=True):
            if np.array_equal(original.X[known, j], y):
                return j
    raise AssertionError("the target is not the column left out")


def test_retarget_never_leaks_the_column_itself():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5)).astype(np.float32)
    X[:, 1] = X[:, 1] > 0  # too few values for a target
    X[rng.random(80) < 0.3, 2] = np.nan
    original = Dataset("a", X, np.arange(80) % 2)
    source = Tables({"a": original}, retarget=1)
    drawn = [source.draw(np.random.default_rng(seed)) for seed in range(40)]
    assert {assert_retargeted(dataset, original) for dataset in drawn} == {0, 2, 3, 4}
    assert Tables({"a": original}).draw(np.random.default_rng(0)) is original
    half = suited(as_source({"a": original}, retarget=0.5), EpisodeSampler())
    assert (
        15 < sum(half.draw(np.random.default_rng(seed)).y.dtype == "f" for seed in range(60)) < 45
    )
    for share in (np.nan, -0.5, 1.5):
        with pytest.raises(ValueError, match="retarget must be a probability from 0 to 1, got"):
            Tables({"a": original}, retarget=share)
    binary = Dataset("b", X[:, [1, 1, 1]], original.y)
    assert Tables({"b": binary}, retarget=1).draw(np.random.default_rng(0)) is binary


# Real tables


def test_real_tables_are_as_their_index_says(tables_dir):
    index = pd.read_csv(tables_dir / "index.csv").set_index("name")
    index = index[(index["split"] == "valid") & (index["task"] == "classification")]
    tables = as_source(Folder(tables_dir, split="valid", task="classification"))
    assert set(tables) == set(index.index)
    sampler = EpisodeSampler()
    for name, dataset in tables.items():
        row = index.loc[name]
        assert dataset.X.dtype == np.float32 and len(dataset.X) == len(dataset.y) == row["n"]
        assert dataset.X.shape[1] >= row["n_features"] - row["n_categorical"]
        assert dataset.n_classes == row["n_classes"]
        assert np.bincount(dataset.y).max() / row["n"] == pytest.approx(row["majority"], abs=2e-3)
        assert np.isnan(dataset.X).any() == (row["n_missing"] > 0)
        assert not np.isinf(dataset.X).any() and np.nanmax(np.abs(dataset.X)) < 1e3
        task = sampler.draw(dataset, np.random.default_rng(0))
        assert set(task.y[task.labelled]) == set(range(task.n_label_columns))


def test_real_regression_tables_are_cut_and_retargeted(tables_dir):
    folder = Folder(tables_dir, split="valid", task="regression")
    left_out = [list(folder)[0], folder.families[list(folder)[1]]]
    tables = as_source(select(folder, exclude=left_out))
    assert set(tables) == {
        name for name in folder if not {name, folder.families[name]} & set(left_out)
    }
    for seed, dataset in enumerate(tables.values()):
        assert dataset.y.dtype == np.float32
        assert np.bincount(cut(Tables({"a": dataset}), seed).y).min() >= 2
        turned = Tables({"a": dataset}, retarget=1).draw(np.random.default_rng(seed))
        if turned.X.shape != dataset.X.shape:
            assert_retargeted(turned, dataset)


@pytest.mark.parametrize("task", [None, "regression"])
def test_labels_in_one_column_are_labels(task):
    X, y = pair()
    y = y + 0.5 * X[:, 0] if task else y
    plain = as_source({"a": (X, y)}, task=task)["a"].y
    for column in (y[:, None], pd.DataFrame({"target": y}), y[:, None].tolist()):
        found = as_source({"a": (X, column)}, task=task)["a"].y
        np.testing.assert_array_equal(found, plain)
    given = Dataset("a", np.float32(X), y[:, None].astype(np.float32 if task else int))
    np.testing.assert_array_equal(as_source([given])["0"].y, given.y.ravel())


def test_labels_in_several_columns_leave_one_table_out_and_keep_the_others():
    X, y = pair()
    with pytest.warns(
        UserWarning,
        match=r"1 of 2 .*'b': expected one label .* y of shape \(9, 2\).*one column of it",
    ):
        assert list(as_source({"a": (X, y), "b": (X, np.column_stack([y, y]))})) == ["a"]
    targets = as_dataset(X, X[:, :2], metadata={"task": "regression"})
    assert targets.y.shape == (9, 2)


def test_a_task_is_one_of_two():
    X, y = pair()
    assert len(as_source([(X, y, None)])["0"].y) == len(y)  # its task is unknown
    with pytest.raises(ValueError, match="'a': task must be 'classification' or 'regression', got"):
        as_source({"a": (X, y, {"task": "Regression"})})


def test_tables_without_columns_or_of_two_lengths_are_told_so():
    X, y = pair()
    for empty in (
        (X[:, :0], y),
        (pd.DataFrame(X[:, :0]), y),
        Dataset("a", np.float32(X[:, :0]), y),
    ):
        with pytest.raises(ValueError, match="Dataset 'a' has no columns"):
            as_source({"a": empty})
    with pytest.raises(ValueError, match="'0': X has 5 rows and y has 9"):
        as_source([Dataset("a", np.float32(X[:5]), y)])


@pytest.mark.parametrize("make", [as_dataset, rows_as_they_are])
def test_sparse_rows_are_refused_as_scikit_learn_does(make):
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        make(csr_array(np.eye(4)), np.arange(4) % 2)


def test_frames_of_other_libraries_are_tables():
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["u", "v", None]})
    expected = as_dataset(frame, [0, 1, 0])
    found = as_dataset(pa.Table.from_pandas(frame), [0, 1, 0])
    np.testing.assert_array_equal(found.X, expected.X)


def test_a_part_that_is_never_drawn_need_not_suit():
    votes = {"votes": (pd.DataFrame({"a": list("xyz") * 10}), np.arange(30) % 2)}
    sampler = RegressionSampler()
    never, rarely = (Mixture([votes, RegressionPrior()], [p, 1 - p]) for p in (0, 0.1))
    assert suited(never, sampler).draw(np.random.default_rng(0)).y.dtype.kind == "f"
    with pytest.raises(ValueError, match="'votes' has classes as its target"):
        suited(rarely, sampler)


WINE = load_wine(return_X_y=True)


class Draws(NamedTuple):
    """A user's own source."""

    X: object
    y: object

    def draw(self, rng):
        return Dataset("mine", self.X, self.y)


@pytest.mark.parametrize(
    ("X", "y", "told"),
    [
        (WINE[0].tolist(), WINE[1], "draw of Draws returned a malformed Dataset"),
        (pd.DataFrame(WINE[0]), pd.Series(WINE[1]), "malformed Dataset: .* as_dataset"),
        (WINE[0], np.array(["a", "b"] * 89), "malformed Dataset: .* class codes"),
        (
            WINE[0][:, 0],
            WINE[1],
            "malformed Dataset: X must be a numeric array with rows and columns",
        ),
        (WINE[0].astype(object), WINE[1], "malformed Dataset"),
        (WINE[0], WINE[1] * 2**40, "'mine' has rows of 3 of 2199023255553 classes"),
        (WINE[0], WINE[1][:-3], "'mine': X has 178 rows and y has 175"),
        (
            WINE[0],
            WINE[1] * 7,
            "'mine' has rows of 3 of 15 classes: at least two are needed, numbered from 0",
        ),
        (WINE[0], 0 * WINE[1], "'mine' has rows of 1 of 1 classes"),
    ],
)
def test_what_a_source_of_ones_own_draws_is_looked_at(X, y, told):
    with pytest.raises(ValueError, match=told):
        suited(Draws(X, y), EpisodeSampler()).draw(np.random.default_rng(0))


def test_rows_without_a_label_that_a_source_draws_are_unlabelled():
    X, y = WINE
    marked = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    drawn = suited(Draws(X, marked), EpisodeSampler()).draw(np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.unlabelled, X[::3])
    np.testing.assert_array_equal(drawn.y, y[marked >= 0])
    for truth in (y > 0, (y > 0)[:, None].astype(int)):
        drawn = suited(Draws(X, truth), EpisodeSampler()).draw(np.random.default_rng(0))
        np.testing.assert_array_equal(drawn.y, y > 0)


def test_what_is_never_drawn_is_no_part_of_a_mixture():
    first, second = TablePrior(), TablePrior(n_rows=100)
    assert list(parts_of(Mixture([first, second], [1, 0]))) == [first]
    unread = Mixture([[], [(np.eye(3), [0, 0, 0])], first], [0, 0, 0.5])
    assert as_source(unread).draw(np.random.default_rng(0)).name.startswith("prior-")
    assert names_in(unread) == ["TablePrior"]
    nested = Mixture([Mixture([first, second], [0, 2]), first], [1, 1])
    assert list(parts_of(nested)) == [second, first]
