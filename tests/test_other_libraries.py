"""Tables, labels and sets of polars, pyarrow and other libraries are read."""

from collections import UserList
from datetime import date

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from sklearn_meta import (
    AmortizedGMM,
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
    SetTransformerClassifier,
)
from sklearn_meta.cells import are_unlabelled, in_numpy, in_seconds, whole_labels
from sklearn_meta.evaluation import evaluate
from sklearn_meta.model_selection import SemiSupervisedKFold, Transductive
from sklearn_meta.peers import peers, preparation
from sklearn_meta.sets.validation import as_sets
from sklearn_meta.tasks import TableEncoder
from sklearn_meta.tasks.mixtures import as_point_sets

KINDS = ["pyarrow", "polars"]
RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
NUMBERS = pd.DataFrame(RNG.normal(size=(40, 2)) + Y[:, None], columns=["a", "b"])
#: With codes and days, which an array would not recognise as such.
TABLE = NUMBERS.assign(
    code=pd.Categorical((7 * Y + 1).astype(str)), day=pd.date_range("2020", periods=40)
)


def other(kind, frame):
    """Convert a pandas DataFrame to one of another library."""
    library, _ = pytest.importorskip(kind), pytest.importorskip("pyarrow")
    if kind == "polars":
        return library.from_pandas(frame)
    return library.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("kind", KINDS)
def test_encoders_and_preparation_read_their_columns(kind):
    for make in (TableEncoder, preparation):
        expected = make().fit(TABLE)
        found = make().fit(other(kind, TABLE))
        for table in (TABLE, other(kind, TABLE)):
            assert_array_equal(found.transform(table), expected.transform(TABLE))


@pytest.mark.parametrize("kind", KINDS)
def test_encoders_name_columns_of_what_they_have_not_seen(kind):
    encoder = TableEncoder().fit(TABLE.assign(digits="1"))
    new = TABLE.assign(code="new", digits="one")
    assert encoder.unseen_categories(other(kind, new)) == ["code", "digits"]


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_points_to_meta_train_on(kind):
    expected = as_point_sets([NUMBERS])["0"].X
    assert_array_equal(as_point_sets([other(kind, NUMBERS)])["0"].X, expected)
    with pytest.raises(ValueError, match="'0' is not a set of points.*holds dates"):
        as_point_sets([other(kind, TABLE[["day"]])])
    with pytest.raises(ValueError, match="must be sets of points: give a single set"):
        AmortizedGMM().fit_batch(other(kind, NUMBERS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_transductive_estimator_is_given_their_columns(kind):
    estimator = Transductive(MetaSemiSupervisedClassifier("prototypes"))
    rows, more = TABLE[:20], TABLE[20:]
    expected = estimator.fit(rows, Y[:20]).predict_proba(more)
    assert_array_equal(estimator.predict_proba(other(kind, more)), expected)
    estimator.fit(other(kind, rows), Y[:20])
    for asked in (more, other(kind, more), more.astype({"code": object})):
        assert_array_equal(estimator.predict_proba(asked), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_their_tables_are_evaluated(kind):
    estimators = {
        "ours": MetaSemiSupervisedClassifier("prototypes"),
        "1-NN": peers()["1-NN"],
    }
    few = {"n_shots": 2, "n_unlabelled": 5, "n_episodes": 1}
    expected = evaluate(estimators, {"table": (TABLE, Y)}, **few)
    found = evaluate(estimators, {"table": (other(kind, TABLE), Y)}, **few)
    assert found.records == expected.records and not found.failures


def test_what_is_not_computed_yet_is_refused():
    lazy = other("polars", NUMBERS).lazy()
    for estimator in (AmortizedGMM(), AmortizedOutlierDetector(), MetaGPRegressor()):
        with pytest.raises(TypeError, match=r"LazyFrame has no rows yet.* collect\(\)"):
            estimator.fit(lazy, Y)
        fitted = estimator.fit(NUMBERS, Y)
        with pytest.raises(TypeError, match=r"LazyFrame has no rows yet.* collect\(\)"):
            fitted.predict(lazy)


class InParts:
    """A frame of dask: its shape is not known, and ``compute`` makes it one of pandas."""

    def __init__(self, frame):
        self.frame, self.columns, self.shape = frame, frame.columns, (object(), 4)

    def compute(self):
        return self.frame


@pytest.mark.parametrize(
    "estimator", [AmortizedOutlierDetector(), MANNClassifier(), MetaSemiSupervisedClassifier()]
)
def test_what_is_in_parts_is_computed(estimator):
    expected = estimator.fit(TABLE, Y).predict(TABLE)
    assert_array_equal(estimator.fit(InParts(TABLE), Y).predict(InParts(TABLE)), expected)
    points = AmortizedGMM(2).fit(InParts(NUMBERS))
    assert_array_equal(
        points.predict(InParts(NUMBERS)), AmortizedGMM(2).fit(NUMBERS).predict(NUMBERS)
    )


@pytest.mark.parametrize(
    "estimator", [AmortizedGMM(2), AmortizedOutlierDetector(), MetaSemiSupervisedClassifier()]
)
def test_columns_may_be_called_as_methods_of_other_frames_are(estimator):
    """pandas answers to them with the columns."""
    named = NUMBERS.set_axis(["compute", "to_pandas"], axis=1)
    expected = estimator.fit(NUMBERS, Y).predict(NUMBERS)
    assert_array_equal(estimator.fit(named, Y).predict(named), expected)


def test_integers_of_128_bits_are_numbers():
    polars = pytest.importorskip("polars")
    table = other("polars", NUMBERS).with_columns(c=polars.Series(Y).cast(polars.Int128))
    expected = MetaGPRegressor().fit(NUMBERS.assign(c=Y), Y).predict(NUMBERS.assign(c=Y))
    assert_array_equal(MetaGPRegressor().fit(table, Y).predict(table), expected)


SETS = np.split(RNG.normal(size=(20, 2)), [3, 4, 9])


def test_a_column_of_lists_holds_sets():
    polars = pytest.importorskip("polars")
    column = polars.Series([elements.tolist() for elements in SETS])
    pairs = column.cast(polars.List(polars.Array(polars.Float64, 2)))
    for form in (
        column,
        pairs,
        [other("polars", pd.DataFrame(e, columns=["a", "b"])) for e in SETS],
    ):
        for found, elements in zip(as_sets(form), SETS, strict=True):
            assert_array_equal(found, elements)
    first, second = as_sets(polars.Series([[1, 2], [3]]))
    assert_array_equal(first, [[1], [2]])
    with pytest.raises(ValueError, match=r"X\[1\] is a number, not a set|X\[1\] is not a set"):
        as_sets(polars.Series([[1, 2], None]))


@pytest.mark.parametrize("kind", KINDS)
def test_sets_of_points_may_be_a_column_of_a_file(kind):
    table = other(kind, pd.DataFrame({"points": [NUMBERS.to_numpy().tolist()] * 2}))
    column = table["points"] if kind == "polars" else table.to_pandas()["points"]
    fitted, expected = (
        AmortizedGMM(2).fit_batch(sets)[1] for sets in (column, [NUMBERS.to_numpy()] * 2)
    )
    assert_array_equal(fitted.means_, expected.means_)
    assert_array_equal(fitted.predict(column[0]), expected.predict(NUMBERS.to_numpy()))
    alone = pd.Series(NUMBERS.to_numpy().tolist())
    for sets in (column, [alone] * 2):
        assert_array_equal(as_point_sets(sets)["1"].X, as_point_sets([NUMBERS])["0"].X)
    alone = AmortizedGMM(2).fit(alone)
    assert_array_equal(alone.means_, AmortizedGMM(2).fit(NUMBERS.to_numpy()).means_)


def test_a_series_in_a_cell_is_refused_as_lists_are():
    polars = pytest.importorskip("polars")
    cells = pd.Series([polars.Series([1, 2]), polars.Series([3])], dtype=object)
    with pytest.raises(ValueError, match="A cell holds a Series: each cell must hold one number"):
        TableEncoder().fit(pd.DataFrame({"many": cells, "one": [0.0, 1.0]}))


class Ragged:
    """An array of awkward: it has no dtype, and numpy converts it only if sizes are equal."""

    ndim = 1

    def __init__(self, parts):
        self.parts, self.to_list = parts, lambda: parts

    def __getitem__(self, place):
        return self.parts[place]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.parts)


@pytest.mark.parametrize("kind", [Ragged, UserList])
def test_sets_of_unequal_sizes_need_not_be_in_a_list(kind):
    for found, elements in zip(as_sets(kind(SETS)), SETS, strict=True):
        assert_array_equal(found, elements)
    first, second = as_sets(kind([Ragged([1, 2]), Ragged([3])]))
    assert_array_equal(first, [[1], [2]])
    assert_array_equal(second, [[3]])


@pytest.mark.parametrize("kind", KINDS)
def test_dates_beside_numbers_are_no_elements(kind):
    dated = TABLE[["a", "day"]]
    with pytest.raises((TypeError, ValueError), match=r"X\[0\]"):
        as_sets([dated])
    with pytest.raises((TypeError, ValueError), match=r"X\[0\]"):
        as_sets([other(kind, dated)])


HIDDEN = np.random.default_rng(1).random((40, 2)) < 0.2  # masked values must not matter


def masked(values, mask):
    return np.ma.array(np.where(mask, 1234.5, values), mask=mask)


@pytest.mark.parametrize(
    "estimator",
    [
        MetaSemiSupervisedClassifier("prototypes"),
        MetaGPRegressor(),
        FewShotTransformerClassifier(n_estimators=2),
        MANNClassifier(n_estimators=2),
        AmortizedOutlierDetector(contamination=0.1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_masked_cells_are_missing(estimator):
    X = NUMBERS.to_numpy()
    asked = "score_samples" if hasattr(estimator, "score_samples") else "predict"
    with_gaps, hidden = np.where(HIDDEN, np.nan, X), masked(X, HIDDEN)
    expected = getattr(estimator.fit(with_gaps, Y), asked)(with_gaps)
    assert_array_equal(getattr(estimator.fit(hidden, Y), asked)(hidden), expected)


def test_masked_targets_are_missing_and_masked_labels_refused():
    X, mask = NUMBERS.to_numpy(), np.arange(40) % 4 == 1
    assert_array_equal(
        MetaGPRegressor().fit(X, masked(X[:, 0], mask)).y_, np.where(mask, np.nan, X[:, 0])
    )
    for _, test in SemiSupervisedKFold(3).split(X, masked(X[:, 0], mask)):
        assert not mask[test].any()
    for estimator in (MetaSemiSupervisedClassifier("prototypes"), MANNClassifier(n_estimators=2)):
        with pytest.raises(ValueError, match="y contains NaN or None.*mark"):
            estimator.fit(X, np.ma.array(Y, mask=mask))
    with pytest.raises(ValueError, match="y contains NaN or None"):
        SetTransformerClassifier().fit([X] * 40, np.ma.array(Y, mask=mask))
    with pytest.raises(ValueError, match="classes must be .* NaN or None"):
        MANNClassifier().partial_fit(X, Y, classes=np.ma.array([0, 1, 2], mask=[0, 0, 1]))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        AmortizedGMM().fit(masked(X, HIDDEN))


@pytest.mark.parametrize(
    "values, dtype",
    [
        (np.array(["a", "b", "c"]), object),
        (np.array(["2020", "2021", "2022"], dtype="M8[Y]"), "M8[Y]"),
        (np.array([1, 2, 3]), float),
        (np.array([True, False, True]), float),
    ],
    ids=["text", "dates", "integers", "booleans"],
)
def test_what_takes_the_place_of_a_masked_cell(values, dtype):
    plain = in_numpy(np.ma.array(values, mask=[False, True, False]))
    assert type(plain) is np.ndarray and plain.dtype == dtype
    assert_array_equal(pd.isna(plain), [False, True, False])
    assert_array_equal(plain[::2], values[::2])
    unmasked = in_numpy(np.ma.array(values))
    assert type(unmasked) is np.ndarray and unmasked.dtype == values.dtype


def test_arrays_of_the_standard_become_numpys_and_lists_stay():
    class Array:
        """An array of the array API standard."""

        def __array_namespace__(self, api_version=None):
            return np

        def __array__(self, dtype=None, copy=None):
            return NUMBERS.to_numpy()

    found = in_numpy(Array())
    assert type(found) is np.ndarray
    assert_array_equal(found, NUMBERS)
    for labels in ([1, 2], [[1], [2, 3]]):  # numpy makes no array of the latter
        assert whole_labels(labels) is labels


@pytest.mark.parametrize("kind", ["M", "m"])
def test_dates_have_parts_of_seconds_and_gaps(kind):
    arrow = pytest.importorskip("pyarrow")
    values = np.array([1_250_000, -500_000, np.iinfo(np.int64).min]).astype(f"{kind}8[us]")
    of_arrow = arrow.timestamp("us") if kind == "M" else arrow.duration("us")
    column = pd.Series(values)
    for same in (values, column, column.astype(object), column.astype(pd.ArrowDtype(of_arrow))):
        assert_array_equal(in_seconds(same, kind), [1.25, -0.5, np.nan])
    gap = column.astype(object).where(~column.isna(), pd.NA)
    assert_array_equal(in_seconds(gap, kind), [1.25, -0.5, np.nan])
    days = pd.Series([date(1970, 1, 2), None], dtype=pd.ArrowDtype(arrow.date32()))
    assert_array_equal(in_seconds(days, "M"), [86400, np.nan])
    assert not are_unlabelled(np.array([-1, 1], dtype=f"{kind}8[D]")).any()
