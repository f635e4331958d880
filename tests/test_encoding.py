"""The encoding of tables: what is a number, what is a category; missing cells stay missing."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OneHotEncoder

from sklearn_meta.evaluation import preparation
from sklearn_meta.tasks import TableEncoder, stack_tables

nan = np.nan
#: pandas' own dtype of text; before version 3 "str" means objects, and numbers may be objects.
TEXT = "string" if pd.Series(dtype="str").dtype == object else "str"


def encode(fitted, other=None):
    return TableEncoder().fit(fitted).transform(fitted if other is None else other)


def frame(values, dtype=None):
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


def objects(*values):
    return np.array(values, dtype=object)[:, None]


ONE_HOT = [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]  # of b, c, a, b


@pytest.mark.parametrize(
    "table",
    [
        frame(list("bcab"), "category"),
        frame(list("bcab"), object),
        frame(list("bcab"), "str"),
        frame(list("bcab"), "string"),
        frame([2, 3, 1, 2], "category"),  # numbers that the user calls categories
        frame(["2", "3", "1", "2"], "category"),
        frame(["2", "3", "1", "2"], pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        frame([2, "x", 1, 2], object),
        objects(*"bcab"),
        objects(2, "x", 1, 2),
        np.array(list("bcab"))[:, None],
        [["b"], ["c"], ["a"], ["b"]],
    ],
    ids=lambda table: f"{type(table).__name__}",
)
def test_categories_are_one_hot_in_sorted_order(table):
    encoder = TableEncoder().fit(table)
    np.testing.assert_array_equal(encoder.transform(table), ONE_HOT)
    assert encoder.categorical_ == [0] and encoder.n_columns_out_ == 3


@pytest.mark.parametrize(
    "table",
    [
        frame([2.5, nan, -1.0]),
        frame([2.5, None, -1], object),
        frame([2.5, None, -1], "Float64"),
        np.array([[2.5], [nan], [-1]]),
        np.array([[2.5], [nan], [-1]], dtype=np.float32),
        objects(2.5, None, -1),
        objects(2.5, pd.NA, -1),
        objects("2.5", nan, "-1"),
        *(frame(["2.5", None, "-1"], dtype) for dtype in (object, "str", "string[pyarrow]")),
    ],
    ids=lambda table: f"{type(table).__name__}",
)
def test_numbers_stay_numbers_and_gaps_stay_gaps(table):
    encoder = TableEncoder().fit(table)
    found = encoder.transform(table)
    np.testing.assert_array_equal(found, [[2.5], [nan], [-1]])
    assert found.dtype == np.float64
    assert encoder.categorical_ == [] and encoder.n_columns_out_ == 1


@pytest.mark.parametrize("dtype", [int, np.uint8, "Int64", "int32[pyarrow]"])
def test_integers_of_every_kind_are_numbers(dtype):
    np.testing.assert_array_equal(encode(frame([3, 1, 2], dtype)), [[3], [1], [2]])


def test_pandas_nullable_integers_with_a_gap():
    np.testing.assert_array_equal(encode(frame([3, pd.NA, 2], "Int64")), [[3], [nan], [2]])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_and_durations_are_numbers_of_seconds(unit, zone):
    days = pd.Series(pd.to_datetime(["1970-01-02", None, "1900-01-01"])).dt.as_unit(unit)
    expected = np.array([[86400.0], [nan], [-25567 * 86400.0]])
    dates = days.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else days
    np.testing.assert_array_equal(encode(pd.DataFrame({"day": dates})), expected)
    since = days - pd.Timestamp("1970-01-01")
    np.testing.assert_array_equal(encode(pd.DataFrame({"since": since})), expected)
    np.testing.assert_array_equal(encode(days.to_numpy()[:, None]), expected)
    encoder = TableEncoder().fit(pd.DataFrame({"day": dates.astype(object)}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"day": dates})), expected)
    np.testing.assert_array_equal(encode(pd.DataFrame({"since": since.astype(object)})), expected)
    called = TableEncoder().fit(pd.DataFrame({"day": dates.astype("category")}))
    assert called.categorical_ == [0]


def test_dates_as_objects_of_python_and_of_numpy():
    moments = [date(1970, 1, 2), datetime(1970, 1, 2), np.datetime64("1970-01-02"), pd.NaT]
    np.testing.assert_array_equal(encode(objects(*moments)), [[86400]] * 3 + [[nan]])
    spans = [timedelta(days=1), np.timedelta64(1, "D"), None]
    np.testing.assert_array_equal(encode(objects(*spans)), [[86400], [86400], [nan]])
    assert TableEncoder().fit(objects(date(1970, 1, 2), "now")).categorical_ == [0]
    with pytest.raises(ValueError, match="Column 'a' held categories in fit but holds dates now"):
        TableEncoder().fit(frame(["1970-01-02"])).transform(frame([datetime(1970, 1, 2)]))


def test_a_column_of_dates_and_spans_is_one_of_dates():
    encoder = TableEncoder().fit(objects(datetime(1970, 1, 2), timedelta(days=2)))
    assert (encoder.times_, encoder.durations_) == ([0], [])


@pytest.mark.parametrize("column", [[1.0, 2.0], ["1970-01-02", "1970-01-03"], [1.0, None]])
def test_dates_of_fit_are_no_numbers_later(column):
    days = pd.DataFrame({"day": pd.to_datetime(["1970-01-02", None])})
    later = pd.DataFrame({"day": column})
    for table, name in ((later, "'day'"), (later.to_numpy(), 0)):
        with pytest.raises(ValueError, match=f"Column {name} held dates in fit but holds none now"):
            TableEncoder().fit(days).transform(table)
    missing = pd.DataFrame({"day": [np.nan, None]})
    assert np.isnan(TableEncoder().fit(days).transform(missing)).all()


def test_a_mark_behind_a_column_of_text_is_that_of_its_own_column():
    numbers = np.where(np.arange(60) % 6 == 0, -9999.0, np.arange(60.0))
    table = pd.DataFrame({"kind": ["a", "b"] * 30, "size": numbers})
    with pytest.warns(UserWarning, match=r"-9999 in columns \['size'\]"):
        encoder = TableEncoder(marks=True).fit(table)
    expected = np.where(numbers < 0, nan, numbers)
    np.testing.assert_array_equal(encoder.transform(table)[:, 1], expected)


def test_no_date_and_no_duration_marks_a_gap():
    seconds = np.where(np.arange(60) % 6 == 0, -9999, np.arange(60))
    table = pd.DataFrame({"at": pd.to_datetime(seconds, unit="s")})
    table["for"] = pd.to_timedelta(seconds, unit="s")
    found = TableEncoder(marks=True).fit_transform(table)
    np.testing.assert_array_equal(found, np.column_stack([seconds, seconds]))


@pytest.mark.filterwarnings("error")
def test_columns_that_are_said_to_be_categorical_are_no_numbers_gone_wrong():
    prices = pd.DataFrame({"price": [f"${i}" for i in range(30)]})
    assert TableEncoder().fit(prices, categorical=[0]).categorical_ == [0]


def test_one_time_in_two_zones_is_one_number():
    two = timezone(timedelta(hours=2))
    noon = [datetime(2020, 5, 1, 12, tzinfo=UTC), datetime(2020, 5, 1, 14, tzinfo=two)]
    seconds = TableEncoder().fit_transform(pd.DataFrame({"at": pd.Series(noon, dtype=object)}))
    np.testing.assert_array_equal(seconds, noon[0].timestamp())


def test_gaps_in_a_list_of_text_and_numbers_in_text_are_told():
    rows = [["a", "1"], ["b", "2"], [np.nan, "3"]]
    np.testing.assert_array_equal(TableEncoder().fit_transform(rows), [[0, 1], [1, 2], [np.nan, 3]])
    mixed = np.array([["1"], [2], [None]], dtype=object)
    assert TableEncoder().fit(mixed).numerals_ == [0]


@pytest.mark.parametrize(
    "later",
    [
        pd.to_timedelta([1, 2], unit="D"),
        [time(3), time(4)],
        [timedelta(3), None],
        pd.Series([np.timedelta64(3, "D"), None], dtype=object),
    ],
)
def test_dates_of_fit_are_no_durations_later(later):
    dates = pd.DataFrame({"d": pd.date_range("2020", periods=4)})
    durations = pd.DataFrame({"d": later})
    with pytest.raises(ValueError, match="Column 'd' held dates in fit but holds durations now"):
        TableEncoder().fit(dates).transform(durations)
    with pytest.raises(ValueError, match="Column 'd' held durations in fit but holds dates now"):
        TableEncoder().fit(durations).transform(dates)
    encoder = TableEncoder().fit(dates)
    del encoder.durations_  # as pickled before there were durations
    assert encoder.transform(durations).shape == (2, 1)
    del encoder.times_, encoder.marks, encoder.marks_
    assert encoder.transform(durations).shape == (2, 1)
    del encoder.unseen_, encoder.numerals_, encoder.declared, encoder.n_features_in_
    assert encoder.transform(durations).shape == (2, 1)
    assert encoder.unseen_categories(durations) == [] and encoder.fit(dates).times_ == [0]


def test_numbers_of_fit_are_no_dates_later():
    days = pd.DataFrame({"day": pd.to_datetime(["1970-01-02", None])})
    for numbers in (pd.DataFrame({"day": [1, 2]}), np.array([[1.0], [2.0]])):
        with pytest.raises(ValueError, match="Column 'day' held numbers in fit but holds dates"):
            TableEncoder().fit(numbers).transform(days)
        assert np.isnan(TableEncoder().fit(numbers).transform(days[1:])).all()
    empty = TableEncoder().fit(pd.DataFrame({"day": [None, None]}))
    np.testing.assert_array_equal(empty.transform(days), [[86400], [np.nan]])


@pytest.mark.parametrize("dtype", ["arrow", object])
def test_decimals_are_numbers(dtype):
    if dtype == "arrow":
        dtype = pd.ArrowDtype(pa.decimal128(8, 2))
    column = pd.Series([Decimal("1.25"), None, Decimal("-3.50")], dtype=dtype)
    table = pd.DataFrame({"price": column})
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), [[1.25], [np.nan], [-3.5]])


def test_periods_and_times_of_day_are_numbers_of_seconds():
    months = pd.period_range("2020-01", periods=3, freq="M")
    table = pd.DataFrame({"month": months, "at": [time(0, 1), None, time(23, 0, 2, 500_000)]})
    starts = pd.DataFrame({"month": months.to_timestamp()})
    encoded = TableEncoder().fit_transform(table)
    np.testing.assert_array_equal(encoded[:, :1], TableEncoder().fit_transform(starts))
    np.testing.assert_array_equal(encoded[:, 1], [60, np.nan, 82_802.5])
    encoder = TableEncoder().fit(table[["month"]])
    np.testing.assert_array_equal(encoder.transform(table[["month"]].to_numpy()), encoded[:, :1])
    days = pd.DataFrame({"month": pd.period_range("2020-01-01", periods=1, freq="D")})
    stacked = stack_tables(table[["month"]], days)  # two frequencies give objects
    np.testing.assert_array_equal(encode(stacked)[:, 0], [*encoded[:, 0], encoded[0, 0]])


class Place:
    __geo_interface__ = {"type": "Point", "coordinates": (0.0, 0.0)}


@pytest.mark.parametrize(
    "cells",
    [
        [[1, 2], [3]],
        [{"a": 1}, {}],
        [{1}, {2}],
        [np.ones(2), np.ones(3)],
        [pd.Series([1, 2]), pd.Series([3])],
        [torch.ones(2), torch.ones(3)],
        [Image.new("L", (2, 2)), Image.new("L", (2, 3))],
        [Place(), None],
    ],
)
def test_a_cell_of_many_values_is_refused(cells):
    column = pd.Series(cells, dtype=object)
    with pytest.raises(ValueError, match="each cell must hold one number or one category"):
        TableEncoder().fit(pd.DataFrame({"many": column, "one": [0.0, 1.0]}))


def test_scalars_of_numpy_are_no_arrays():
    cells = [np.str_("a"), np.int64(1), np.str_("a"), np.float32(1)]
    table = pd.DataFrame({"odd": pd.Series(cells, dtype=object), "one": np.arange(4.0)})
    plain = table.assign(odd=["a", "1", "a", "1"])
    np.testing.assert_array_equal(encode(table), encode(plain))


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        TableEncoder().fit(pd.DataFrame({"z": [1 + 2j, 3.0], "one": [0.0, 1.0]}))


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_dates_of_two_tables_are_stacked_as_dates(unit):
    days = np.array(["1970-01-02", "1970-01-03"], dtype=f"M8[{unit}]")[:, None]
    expected = [[86400], [2 * 86400]]
    np.testing.assert_array_equal(encode(stack_tables(days[:1], days[1:])), expected)
    late = [pd.DataFrame({"day": part.ravel()}) for part in (days[:1], days[1:])]
    np.testing.assert_array_equal(encode(stack_tables(*late)), expected)


def test_what_frames_hold_beside_their_cells_is_ignored():
    """``pandas.concat`` compares ``attrs``, and arrays in them have no single truth value."""
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": pd.Categorical(list("xyxy"))})
    plain = stack_tables(table, table)
    table.attrs["weights"] = np.arange(3)
    found = stack_tables(table[:4], table.copy())
    pd.testing.assert_frame_equal(found, plain)
    assert found.attrs == {} and table.attrs["weights"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "table",
    [
        frame([True, False, True]),
        frame([True, False, True], "boolean"),
        frame([True, False, True], object),
        np.array([[True], [False], [True]]),
        frame(["yes", "no", "yes"]),
        objects("yes", "no", "yes"),
    ],
    ids=lambda table: f"{type(table).__name__}",
)
def test_two_values_become_one_column(table):
    np.testing.assert_array_equal(encode(table), [[1], [0], [1]])


@pytest.mark.parametrize("gap", [None, nan, pd.NA])
@pytest.mark.parametrize("dtype", ["category", object, "str", "string"])
def test_a_missing_category_is_missing_in_each_of_its_columns(dtype, gap):
    np.testing.assert_array_equal(
        encode(frame(["b", gap, "a", "c"], dtype)),
        [[0, 1, 0], [nan] * 3, [1, 0, 0], [0, 0, 1]],
    )


def test_a_missing_truth_value():
    found = encode(frame([True, None, False], "boolean"))
    np.testing.assert_array_equal(found, [[1], [nan], [0]])


@pytest.mark.parametrize("dtype", ["category", object, "str"])
def test_an_unseen_category_is_missing(dtype):
    found = encode(frame(list("abc"), dtype), frame(["d", "a", None], dtype))
    np.testing.assert_array_equal(found, [[nan] * 3, [1, 0, 0], [nan] * 3])
    found = encode(frame(["no", "yes"], dtype), frame(["yes", "perhaps", "no"], dtype))
    np.testing.assert_array_equal(found, [[1], [nan], [0]])  # one column has no place for others


@pytest.mark.parametrize("dtype", [float, "category", object, "str", "string", "Int64"])
def test_an_all_missing_column_is_one_column_and_stays_missing(dtype):
    encoder = TableEncoder().fit(frame([None] * 3, dtype))
    np.testing.assert_array_equal(encoder.transform(frame([None] * 2, dtype)), [[nan]] * 2)
    assert encoder.n_columns_out_ == 1


def test_a_category_without_a_value_is_missing_among_numbers():
    nothing = pd.DataFrame({"a": pd.Series([None, None], dtype="category")})
    assert np.isnan(TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0]})).transform(nothing)).all()


def test_text_that_arrives_in_a_numeric_column_is_an_error():
    table = pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]})
    encoder = TableEncoder().fit(table)
    with pytest.raises(ValueError, match="'b' was numeric in fit but holds text now: .*: 'many'"):
        encoder.transform(table.assign(b=["1", "many"]))
    numbers = pd.Series(["1", None, "3.5"], dtype=TEXT)
    for dtype in (object, TEXT, "category"):
        found = encoder.transform(pd.DataFrame({"a": list("xyx"), "b": numbers.astype(dtype)}))
        np.testing.assert_array_equal(found[:, 1], [1, nan, 3.5])
    with pytest.raises(ValueError, match="Column 0 was numeric in fit.*float: 'many'"):
        encode(np.zeros((2, 1)), objects(1.0, "many"))


@pytest.mark.parametrize("table", [np.eye(3), frame(list("abc")).assign(b=0.0, c=1.0)])
def test_other_columns_than_in_fit(table):
    few = table[:, :2] if isinstance(table, np.ndarray) else table[["a", "b"]]
    for first, later, n in ((few, table, 3), (table, few, 2)):
        with pytest.raises(ValueError, match=f"X has {n} features, but TableEncoder is expecting"):
            TableEncoder().fit(first).transform(later)


@pytest.mark.parametrize("later", [objects("1", "2"), objects(1, 2), np.array([[1], [2]])])
@pytest.mark.parametrize("fitted", [objects("1", "2", "x"), frame([1, 2, 3], "category")])
def test_categories_that_look_like_numbers_are_found_again(fitted, later):
    """Rows without any of the column's words would pass for numbers by themselves."""
    np.testing.assert_array_equal(encode(fitted, later), [[1, 0, 0], [0, 1, 0]])


def test_columns_of_a_matrix_may_be_said_to_be_categorical():
    X = np.array([[1.0, 5.0], [2.0, 6.0], [nan, 7.0], [4.0, 8.0]])
    found = TableEncoder().fit(X, categorical=[0]).transform(X)
    expected = [[1, 0, 0, 5], [0, 1, 0, 6], [nan, nan, nan, 7], [0, 0, 1, 8]]
    np.testing.assert_array_equal(found, expected)


def test_a_category_of_a_float_of_single_precision_is_found_again():
    """The category is named by the number in double precision, whichever dtype it comes in."""
    shares = np.float32([0.1, 0.3, 0.7])
    found = encode(frame(shares, "category"), frame(shares, "float32"))
    np.testing.assert_array_equal(found, np.eye(3))


@pytest.mark.parametrize(
    "cell, but",
    [
        ("{:.1f}", "unlike '[?]'"),
        ("${:,.2f}", "unlike '[?]'"),
        ("{:.1f} %", "unlike '[?]'"),
        ("2024-01-05T{:05.2f}", "unlike '[?]'"),
    ],
)
def test_text_that_was_meant_for_numbers_is_told(cell, but):
    cells = [cell.format(i) for i in range(30)]
    with pytest.warns(UserWarning, match=f"Column 'a' holds text, most of .*{but}.*to_numeric"):
        TableEncoder().fit(frame([*cells, "?"], TEXT))
    with pytest.warns(UserWarning, match="Column 0 holds text, most of .*, such as"):
        TableEncoder().fit(objects(*(f"{c} $" for c in cells)))
    with pytest.warns(UserWarning, match="Column 0 holds text, most of"):
        TableEncoder(max_categories=5).fit(objects(*(f"{c} $" for c in cells[:9])))


@pytest.mark.parametrize("dtype", [object, TEXT, "category"])
def test_text_of_numbers_in_a_column_that_fit_has_not_seen_is_numbers(dtype):
    encoder = TableEncoder().fit(frame([None, None], object))
    found = encoder.transform(frame(["1", "2.5"]).astype(dtype))
    np.testing.assert_array_equal(found, [[1], [2.5]])
    assert np.isnan(encoder.transform(frame(["1", "many"]).astype(dtype))).all()


def test_long_text_is_looked_at_once():
    """A cell with a vector as text takes a second to look at; here there are thirty."""
    cells = [str([i / 7] * 4000)[:-1] + ", nan]" for i in range(30)]
    assert TableEncoder().fit(frame(cells, TEXT)).categorical_ == [0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "column",
    [
        [f"item {i}" for i in range(40)],
        [f"A{i}" for i in range(40)],
        ["1", "2", "?"] * 20,  # few enough to be learned one by one
        pd.Categorical([f"{i:05}" for i in range(40)]),
        [*map(str, range(15)), *(f"unknown {i}" for i in range(15))],
    ],
)
def test_of_categories_nothing_is_told(column):
    table = pd.DataFrame({"a": column})
    encoder = TableEncoder().fit(table)
    assert encoder.categorical_ == [0] and encoder.unseen_categories(table) == []


def test_categories_that_fit_has_not_seen_have_a_name():
    table = pd.DataFrame({"a": ["x", "y", None], "b": [1.0, 2.0, 3.0], "c": ["1", "u", "u"]})
    encoder = TableEncoder().fit(table)
    assert encoder.unseen_categories(table.assign(c=[1, None, "u"])) == []
    assert encoder.unseen_categories(table.assign(a=["z", "x", "x"], c=["u", 2.0, "u"])) == [
        "a",
        "c",
    ]
    assert encoder.unseen_categories(table.assign(a="z").to_numpy()) == [0]
    assert TableEncoder().fit(np.zeros((2, 2))).unseen_categories(np.ones((2, 2))) == []
    encoder.fit(table.assign(b=["1", "2", "3"]))
    later = pa.Table.from_pandas(table.assign(a="z", b="5+"))
    assert encoder.unseen_categories(later) == ["a", "b"]


def test_rare_categories_share_a_column():
    values = ["a"] * 5 + ["b"] * 4 + ["c", "d", "e", None]
    encoder = TableEncoder(max_categories=3).fit(frame(values))
    found = encoder.transform(frame(values))
    np.testing.assert_array_equal(found.sum(0), [nan] * 3)
    np.testing.assert_array_equal(found[:-1].sum(0), [5, 4, 3])
    np.testing.assert_array_equal(found[9:12], [[0, 0, 1]] * 3)
    assert np.isnan(encoder.transform(frame(["f"]))).all()
    many = frame([f"{i:03}" for i in range(200)], "category")
    assert TableEncoder().fit_transform(many).shape == (200, 20)


def test_columns_keep_their_order_and_the_table_its_values():
    table = pd.DataFrame(
        {"size": [1.0, nan, 3.0], "colour": ["red", None, "blue"], "n": [7, 8, 9], "ok": [1, 0, 1]}
    )
    table["kind"] = pd.Categorical(["p", "q", "r"])
    before = table.copy(deep=True)
    encoder = TableEncoder().fit(table)
    assert encoder.categorical_ == [1, 4] and encoder.n_columns_out_ == 7
    np.testing.assert_array_equal(
        encoder.transform(table),
        [[1, 1, 7, 1, 1, 0, 0], [nan, nan, 8, 0, 0, 1, 0], [3, 0, 9, 1, 0, 0, 1]],
    )
    pd.testing.assert_frame_equal(table, before)
    mixed = table.to_numpy(dtype=object)
    np.testing.assert_array_equal(encode(mixed), encoder.transform(table))


@pytest.mark.parametrize("dtype", ["category", object, "str", "string"])
def test_stacked_tables_are_encoded_as_one(dtype):
    """Two frames rarely name the same categories, and numbers may be categories."""
    values = [["b", "a"], ["c"]] if dtype != "category" else [[2, 1], [3]]
    tables = [frame(rows, dtype) for rows in values]
    stacked = stack_tables(*tables)
    encoder = TableEncoder().fit(stacked)
    np.testing.assert_array_equal(encoder.transform(stacked), np.eye(3)[[1, 0, 2]])
    parts = [encoder.transform(table) for table in tables]
    np.testing.assert_array_equal(np.vstack(parts), encoder.transform(stacked))


def test_stacked_arrays_keep_their_kind():
    assert stack_tables([[1, 2]], np.ones((2, 2))).dtype == np.float64
    mixed = stack_tables(np.ones((1, 1)), objects("a"))
    assert mixed.tolist() == [[1.0], ["a"]]
    assert stack_tables(np.array([["a"]]), np.array([["long"]])).tolist() == [["a"], ["long"]]
    days, spans = (np.array([[1]], dtype=f"{kind}8[D]") for kind in "Mm")
    assert stack_tables(spans, spans).dtype.kind == "m"
    assert all(stack_tables(days, other).dtype == object for other in (spans, np.ones((1, 1))))


cells = {
    "numbers": st.one_of(st.floats(-9, 9), st.sampled_from([nan, None])),
    "words": st.sampled_from(["a", "b", "1", "2", None]),
    "mixed": st.sampled_from([1, 2, "x", 2.5, nan, None]),
}


@given(st.lists(st.tuples(*cells.values()), min_size=1, max_size=12), st.booleans())
def test_each_row_is_encoded_for_itself(rows, as_frame):
    """Encoding row by row or all at once gives the same, whatever the rows hold."""
    table = np.array(rows, dtype=object)
    table = pd.DataFrame(table) if as_frame else table
    encoder = TableEncoder().fit(table)
    found = encoder.transform(table)
    assert found.shape == (len(rows), encoder.n_columns_out_)
    one_by_one = [encoder.transform(table[i : i + 1]) for i in range(len(rows))]
    np.testing.assert_array_equal(np.vstack(one_by_one), found)
    gaps = np.array([[v is None or v != v for v in row] for row in rows])
    assert np.isnan(found).any(axis=1).tolist() == gaps.any(axis=1).tolist()


def test_declared_categories_are_columns_though_no_row_has_them():
    shops = pd.CategoricalDtype(["b", "a", "c"])
    table = pd.DataFrame({"shop": pd.Series([None, "a"], dtype=shops), "x": [1.0, 2.0]})
    encoder = TableEncoder(declared=True).fit(table)
    assert encoder.categorical_ == [0] and encoder.n_columns_out_ == 4
    np.testing.assert_array_equal(encoder.transform(table), [[nan] * 3 + [1], [1, 0, 0, 2]])
    assert TableEncoder(declared=True).fit(table[:1]).categorical_ == [0]
    assert TableEncoder().fit(table[:1]).unseen_ == [0]


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2020", periods=3).as_unit("ns"),
        pd.timedelta_range("1D", periods=3),
        pd.interval_range(0, 3),
        pd.period_range("2020", periods=3, freq="M"),
        pd.Index([1.0, 2.0, 3.0]),
        pd.Index([b"a", b"b", b"c"]),
    ],
    ids=lambda values: str(values.dtype),
)
def test_declared_categories_are_called_as_they_are_when_they_are_shown(values):
    table = pd.DataFrame({"a": pd.Categorical(values[:1], categories=values)})
    encoder = TableEncoder(declared=True).fit(table)
    assert encoder.n_columns_out_ == 3
    shown = pd.DataFrame({"a": pd.Categorical(values)})
    np.testing.assert_array_equal(encoder.transform(shown), np.eye(3))
    assert encoder.unseen_categories(shown) == []


@pytest.mark.parametrize("n", [4, 5, 6])
def test_the_rarest_of_many_categories_share_the_last_column(n):
    cells = [name for i, name in enumerate("fedcba"[:n]) for _ in range(i + 1)]  # f is rarest
    encoder = TableEncoder(max_categories=5).fit(objects(*cells))
    expected = OneHotEncoder(max_categories=5, sparse_output=False).fit(objects(*cells))
    names = objects(*sorted(set(cells)))
    np.testing.assert_array_equal(encoder.transform(names), expected.transform(names))
    assert encoder.n_columns_out_ == min(n, 5)


@pytest.mark.parametrize("gap", [nan, None, pd.NA], ids=str)
def test_gaps_among_numbers_of_numpys_own_text(gap):
    text = np.dtypes.StringDType(na_object=gap)
    table = np.array([["1.5", "u"], [gap, "v"], ["3", gap]], dtype=text)
    found = encode(table)
    np.testing.assert_array_equal(found, [[1.5, 0], [nan, 1], [3, nan]])


@pytest.mark.parametrize(
    "other, words",
    [
        (csr_array(np.eye(3)), "Sparse data was passed for X"),
        (np.arange(3.0), "Expected 2D array, got 1D array"),
        (pd.Series([1.0, 2, 3]), "Expected a 2-dimensional container"),
        (np.zeros((2, 3, 1)), "Found array with dim 3"),
        (None, "Expected 2D array, got scalar array"),
    ],
    ids=["sparse", "1d", "series", "3d", "None"],
)
def test_what_is_no_table_is_refused_in_the_words_of_scikit_learn(other, words):
    with pytest.raises((TypeError, ValueError), match=words):
        TableEncoder().fit(other)
    with pytest.raises((TypeError, ValueError), match=words):
        TableEncoder().fit(np.eye(3)).transform(other)


def test_an_encoder_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        TableEncoder().transform(np.eye(3))


def test_preparation_refuses_sparse_tables_in_the_words_of_scikit_learn():
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        preparation().fit(csr_array(np.eye(3)))


def test_integers_beyond_any_float_are_infinite_with_their_sign():
    found = TableEncoder().fit_transform([[10**400, 1], [-(10**400), 2], [3, 4]])
    np.testing.assert_array_equal(found[:, 0], [np.inf, -np.inf, 3])
