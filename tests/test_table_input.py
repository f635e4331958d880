"""Tables as users have them: gaps, mixed rows, other names, any labels; nothing fails silently."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import RANSACRegressor
from sklearn.semi_supervised import LabelSpreading
from test_encoding import TEXT

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.model_selection import SemiSupervisedSplit, Transductive
from sklearn_meta.tasks import TableEncoder, stack_tables

X, Y = load_iris(return_X_y=True)
FEW = np.r_[0:5, 50:55, 100:105]
NUMBERS = pd.DataFrame(X, columns=list("abcd"))
MIXED = NUMBERS.assign(k=np.array(["u", "v", "w"])[Y])


def classify(table, more, **parameters):
    return MetaSemiSupervisedClassifier(**parameters).fit(table, Y[FEW]).predict_proba(more)


def classify_batch(table, more, y=Y[FEW], **parameters):
    classifier = MetaSemiSupervisedClassifier(**parameters)
    return classifier.predict_proba_batch([(table, y, more)])[0]


# Columns are matched by position, and their names are compared


def test_many_tasks_compare_the_names_of_columns():
    for more in (NUMBERS.rename(columns=str.upper), NUMBERS[list("dcba")]):
        with pytest.raises(ValueError, match="Task 0: .*column names"):
            classify_batch(NUMBERS.iloc[FEW], more)
        with pytest.raises(ValueError, match="Task 0: .*column names"):
            MetaGPRegressor().predict_batch([(NUMBERS.iloc[FEW], X[FEW, 0], more)])


def test_numbered_columns_are_read_by_position():
    table, other = MIXED.set_axis(range(5), axis=1), MIXED.set_axis(range(10, 15), axis=1)
    other = other.replace({14: {"w": "z"}})
    expected = classify(table.iloc[FEW], other.set_axis(range(5), axis=1))
    np.testing.assert_array_equal(classify(table.iloc[FEW], other), expected)
    np.testing.assert_allclose(classify_batch(table.iloc[FEW], other), expected, atol=1e-6)
    assert stack_tables(table, other).shape == (300, 5)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("form", [pd.DataFrame.to_numpy, lambda table: table.values.tolist()])
def test_a_table_in_fit_and_an_array_in_predict(form):
    expected = classify(MIXED.iloc[FEW], MIXED)
    np.testing.assert_array_equal(classify(MIXED.iloc[FEW], form(MIXED)), expected)
    np.testing.assert_allclose(classify_batch(MIXED.iloc[FEW], form(MIXED)), expected, atol=1e-6)
    np.testing.assert_allclose(
        classify_batch(form(MIXED.iloc[FEW]), MIXED), classify_batch(MIXED.iloc[FEW], MIXED)
    )


# What a column holds


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("transductive", [True, False])
def test_a_column_of_which_fit_sees_nothing_may_hold_anything_later(nothing, transductive):
    context = MIXED.iloc[FEW].assign(k=pd.Series([nothing] * 15, MIXED.index[FEW], dtype=object))
    exact = {"transductive": transductive, "dtype": "float64"}
    without = classify(NUMBERS.iloc[FEW], NUMBERS, **exact)
    with_it = classify(context, MIXED, **exact)
    assert with_it.shape == (150, 3)
    if transductive:  # the categories of the rows to be predicted are read
        assert not np.allclose(with_it, without)
        np.testing.assert_allclose(classify_batch(context, MIXED, **exact), with_it, atol=1e-6)
    else:
        np.testing.assert_allclose(with_it, without, atol=1e-6)
    numbers = MIXED.assign(k=Y * 1.0)  # numbers, whatever the dtype
    classifier = MetaSemiSupervisedClassifier(transductive=transductive)
    of_array = NUMBERS.assign(k=np.nan).to_numpy()[FEW]
    expected = classifier.fit(of_array, Y[FEW]).transform(numbers.to_numpy())
    np.testing.assert_allclose(
        classifier.fit(context, Y[FEW]).transform(numbers), expected, atol=1e-6
    )


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NaT])
def test_an_encoder_takes_numbers_of_a_column_of_which_it_has_seen_no_cell(nothing):
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0], "k": [nothing, nothing]}))
    assert encoder.unseen_ == [1] and encoder.n_columns_out_ == 2
    for later, expected in (
        (["x", "", "y"], [np.nan] * 3),
        ([1.5, None, 3], [1.5, np.nan, 3]),
        (pd.to_datetime(["1970-01-01", "1970-01-02", None]), [0, 86400, np.nan]),
    ):
        encoded = encoder.transform(pd.DataFrame({"a": [1.0, 2.0, 3.0], "k": later}))
        np.testing.assert_array_equal(encoded[:, 1], expected)


def test_a_stream_that_begins_with_a_gap_reads_the_numbers_that_follow():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    rows = pd.DataFrame({"a": 10.0 * y, "b": rng.normal(size=40)})
    rows.loc[:4, "a"] = np.nan
    streams = [MANNClassifier(n_estimators=2) for _ in range(2)]
    for start in range(0, 40, 5):
        piece = rows.iloc[start : start + 5]
        streams[0].partial_fit(piece, y[start : start + 5])
        streams[1].partial_fit(piece.to_numpy(), y[start : start + 5])
    of_frame, of_array = (
        stream.predict_proba(table) for stream, table in zip(streams, (rows, rows.to_numpy()))
    )
    np.testing.assert_array_equal(of_frame, of_array)


def test_a_gap_in_a_list_of_a_stream_is_no_category():
    rows = [["a", 1.0], ["b", np.nan], [np.nan, 2.0], ["b", 3.0]] * 2
    stream = MANNClassifier(n_estimators=1).fit(rows, [0, 1, 0, 1] * 2)
    assert stream.encoder_.encoders_[0].categories_[0].tolist() == ["a", "b"]


@pytest.mark.filterwarnings("ignore:Column 'a' holds text, most of which looks like numbers")
@pytest.mark.parametrize("table", [NUMBERS, MIXED], ids=["numbers", "mixed"])
@pytest.mark.parametrize("transductive", [True, False])
def test_text_in_a_column_of_numbers_is_an_error_whatever_the_others_are(table, transductive):
    with pytest.raises(ValueError, match="Column 'a' was numeric in fit but holds text now"):
        classify(table.iloc[FEW], table.assign(a="x"), transductive=transductive)
    with pytest.raises(ValueError, match="Column 'a' was numeric in fit but holds text now"):
        one = table.astype({"a": object})
        one.iloc[7, 0] = "?"
        classify(table.iloc[FEW], one, transductive=transductive)


def test_whole_numbers_with_and_without_gaps_are_the_same_categories():
    whole = NUMBERS.assign(k=pd.Categorical(Y))
    gaps = NUMBERS.assign(k=pd.Categorical(Y.astype(float)))
    encoder = TableEncoder().fit(whole)
    np.testing.assert_array_equal(encoder.transform(gaps), encoder.transform(whole))


def test_a_missing_cell_in_a_list_of_mixed_rows_is_no_category():
    rows = [["a", 1.0], ["b", np.nan], [np.nan, 2.0], ["b", 3.0]] * 2
    frame = pd.DataFrame(rows)
    labels = [0, 1, 0, 1] * 2
    for kind in (MetaSemiSupervisedClassifier, MetaGPRegressor):
        of_list, of_frame = kind().fit(rows, labels), kind().fit(frame, labels)
        assert of_list.encoder_.encoders_[0].categories_[0].tolist() == ["a", "b"]
        np.testing.assert_array_equal(of_list.predict(rows), of_frame.predict(frame))
        pair = of_list.predict_batch([(table, labels, table) for table in (rows, frame)])
        np.testing.assert_array_equal(*pair)
    of_list, of_frame = (AmortizedOutlierDetector().fit(table) for table in (rows, frame))
    np.testing.assert_array_equal(of_list.score_samples(rows), of_frame.score_samples(frame))


@pytest.mark.parametrize("n_rows", [1, 20])
def test_an_inductive_batch_does_not_see_the_categories_of_other_rows(n_rows):
    table = NUMBERS.assign(k=np.where(Y == 0, "u", "v"))
    more = table.iloc[10 : 10 + n_rows].copy()
    more.iloc[1:, 4] = "unseen"
    first = classify_batch(table.iloc[FEW], more, transductive=False)
    np.testing.assert_allclose(
        first, classify(table.iloc[FEW], more, transductive=False), atol=1e-6
    )


# Labels


@pytest.mark.parametrize("nothing", [np.nan, None, pd.NA])
def test_missing_labels_are_told_how_to_be_marked(nothing):
    y = pd.Series(list("abc"), dtype=object).loc[Y[FEW]].reset_index(drop=True)
    y.iloc[3] = nothing
    with pytest.raises(ValueError, match="Input y contains NaN or None: .* with -1"):
        MetaSemiSupervisedClassifier().fit(X[FEW], y)
    with pytest.raises(ValueError, match="Task 0: Input y contains NaN or None: .* with -1"):
        classify_batch(X[FEW], X, y=y)


@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object), pd.Series])
def test_names_beside_numbers_are_refused_but_for_the_mark(form):
    y = form(["a", 1, "b"] * 5)  # numpy would make a class "1" of it, or fail
    with pytest.raises(ValueError, match="all strings or all numbers, apart from -1, got both"):
        MetaSemiSupervisedClassifier().fit(X[FEW], y)
    with pytest.raises(ValueError, match="an integer beyond 64 bits: give labels as str"):
        MetaSemiSupervisedClassifier().fit(np.eye(4), np.array([1, 2, 10**30, -1], dtype=object))
    with pytest.raises(
        ValueError, match="Task 0: Labels must be all strings or all numbers, apart from -1"
    ):
        classify_batch(X[FEW], X, y=y)
    for mark in (-1, -1.0, np.float64(-1)):
        y = form(["a", mark, "b"] * 5)
        assert MetaSemiSupervisedClassifier().fit(X[FEW], y).classes_.tolist() == ["a", "b"]
        assert classify_batch(X[FEW], X, y=y).shape == (150, 2)
        spreading = Transductive(LabelSpreading(gamma=1)).fit(X[FEW], y)
        assert spreading.classes_.tolist() == ["a", "b"]
        for _, test in SemiSupervisedSplit(n_splits=2).split(X[FEW], y):
            assert not (test % 3 == 1).any()


def test_dates_beside_numbers_are_told_so_in_a_batch_too():
    days = pd.DataFrame({"day": pd.date_range("2020", periods=15)})
    with pytest.raises(ValueError, match="Task 0: Column 'day' held dates in fit but holds none"):
        classify_batch(days, days.astype("int64"))


def test_rows_of_classes_of_their_own_leave_no_filter_of_warnings():
    filters = list(warnings.filters)
    with warnings.catch_warnings(action="error"), ThreadPoolExecutor(8) as threads:
        classifiers = [MetaSemiSupervisedClassifier("prototypes") for _ in range(32)]
        list(threads.map(lambda one: one.fit(X[:24], np.arange(24)), classifiers))
    assert warnings.filters == filters


def test_a_gap_in_a_list_of_names_is_no_class():
    y = ["a", float("nan"), "b"] * 5
    with pytest.raises(ValueError, match="Input y contains NaN or None"):
        MetaSemiSupervisedClassifier().fit(X[FEW], y)
    with pytest.raises(ValueError, match="Task 0: Input y contains NaN or None"):
        classify_batch(X[FEW], X, y=y)
    labels = [True, False, True] * 5
    classifier = MetaSemiSupervisedClassifier().fit(X[FEW], labels)
    assert classifier.classes_.dtype == bool
    np.testing.assert_allclose(
        classifier.predict_proba(X), classify_batch(X[FEW], X, y=labels), atol=1e-6
    )


def test_labels_of_many_tasks_are_checked_as_those_of_fit():
    with pytest.raises(ValueError, match="Task 0: Unknown label type"):
        classify_batch(X[FEW], X, y=X[FEW, 0] + 0.123)
    with pytest.raises(ValueError, match="Task 0: 15 labelled rows, but 0 labels"):
        classify_batch(X[FEW], X, y=None)
    with pytest.raises(ValueError, match="Task 0: Every cell of X is missing"):
        classify_batch(X[FEW] * np.nan, X * np.nan)
    for strange in (sparse.csr_array(X), X + 1j):
        with pytest.raises(ValueError, match="Task 0: (Sparse|Complex) data"):
            classify_batch(strange[FEW], strange)
    with pytest.warns(match="A column-vector y was passed"):
        column = classify_batch(X[FEW], X, y=Y[FEW][:, None])
    np.testing.assert_array_equal(column, classify_batch(X[FEW], X))


@pytest.mark.parametrize("form", [torch.as_tensor, lambda y: pd.Series(y, dtype="Int64")])
def test_labels_of_many_tasks_may_have_a_dtype_of_their_own(form):
    found = classify_batch(X[FEW], X, y=form(Y[FEW]))
    np.testing.assert_array_equal(found, classify_batch(X[FEW], X))


@pytest.mark.filterwarnings("error")
def test_many_classes_of_few_rows_are_no_warning():
    y = np.arange(15).astype(str)
    assert classify_batch(X[FEW], X, y=y).shape == (150, 15)


def test_text_that_looks_like_a_gap_is_a_label():
    y = np.array(["<NA>", "None", "nan"])[Y[FEW]]
    assert MetaSemiSupervisedClassifier().fit(X[FEW], y).classes_.tolist() == sorted(set(y))


def test_integers_and_booleans_that_are_objects_are_labels():
    expected = classify(X[FEW], X)
    classifier = MetaSemiSupervisedClassifier().fit(X[FEW], Y[FEW].astype(object))
    np.testing.assert_array_equal(classifier.predict_proba(X), expected)
    marked = np.array([True, False, -1], dtype=object)[[0] * 5 + [1] * 5 + [2] * 5]
    classifier = MetaSemiSupervisedClassifier().fit(X[FEW], marked)
    assert classifier.classes_.tolist() == [0, 1] and (classifier.y_ == -1).sum() == 5


def test_durations_are_labels_of_which_minus_one_is_one():
    X, codes = np.arange(12.0)[:, None], np.arange(12) // 4
    y = np.array([-1, 1, 2], "m8[D]")[codes]
    model = MetaSemiSupervisedClassifier()
    found = model.fit(X, y).predict(X)
    assert found.dtype == y.dtype and model.classes_.tolist() == np.unique(y).tolist()
    np.testing.assert_array_equal(model.predict_batch([(X, y, X)])[0], found)
    np.testing.assert_array_equal(found, model.fit(X, codes).classes_[codes].choose(np.unique(y)))


def test_one_class_beside_minus_one_is_explained():
    with pytest.raises(ValueError, match="only one class: 1. Rows whose label is -1 count as unl"):
        MetaSemiSupervisedClassifier().fit(X[FEW], np.where(Y[FEW] > 0, 1, -1))
    with pytest.raises(ValueError, match="only one class: 1.$"):
        MetaSemiSupervisedClassifier().fit(X[FEW], np.ones(15, int))


def test_what_fit_told_is_asked_for_before_fit():
    for attribute in ("transduction_", "label_distributions_"):
        with pytest.raises(AttributeError, match="not fitted yet"):
            getattr(MetaSemiSupervisedClassifier(), attribute)


def test_a_random_state_may_be_an_instance():
    ransac = RANSACRegressor(MetaGPRegressor(), min_samples=10, max_trials=3, random_state=0)
    assert ransac.fit(X[:60, 1:], X[:60, 0]).estimator_.predict(X[:5, 1:]).shape == (5,)
    states = [np.random.RandomState(0) for _ in range(2)]
    first, second = (
        AmortizedOutlierDetector(max_samples=20, random_state=s).fit(X).score_samples(X)
        for s in states
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", [MANNClassifier, FewShotTransformerClassifier])
def test_a_seed_is_drawn_by_fit_alone(kind):
    first, second = (
        kind(n_estimators=2, random_state=np.random.RandomState(0)).fit(X[FEW], Y[FEW])
        for _ in range(2)
    )
    expected = first.predict_proba(X)
    np.testing.assert_array_equal(first.predict_proba(X), expected)
    np.testing.assert_array_equal(second.predict_proba(X), expected)
    assert not np.allclose(first.fit(X[FEW], Y[FEW]).predict_proba(X), expected)


@pytest.mark.parametrize("kind", [MetaSemiSupervisedClassifier, AmortizedOutlierDetector])
def test_frames_of_other_libraries_keep_their_dtypes(kind):
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["zip"] = pd.Series((Y * 7 + 1).astype(str), dtype="category")
    frame["day"] = pd.date_range("2020-01-01", periods=len(X))
    other = pa.Table.from_pandas(frame)
    expected = kind().fit(frame, Y)
    found = kind().fit(other, Y)
    assert found.encoder_.categorical_ == [4]
    ask = "score_samples" if hasattr(found, "score_samples") else "predict_proba"
    np.testing.assert_array_equal(getattr(found, ask)(other), getattr(expected, ask)(frame))


def test_many_tasks_may_be_frames_of_other_libraries():
    pa = pytest.importorskip("pyarrow")
    frame = NUMBERS.assign(zip=pd.Categorical(Y * 7 + 1), day=pd.date_range("2020", periods=150))
    other = pa.Table.from_pandas(frame)
    expected = classify(frame.iloc[FEW], frame)
    np.testing.assert_allclose(classify_batch(other.take(FEW), other), expected, atol=1e-5)
    with pytest.raises(ValueError, match="Task 0: .*column names"):
        classify_batch(other.take(FEW), other.select(other.column_names[::-1]))


def test_days_of_arrow_may_have_gaps_and_lists_are_no_cells():
    pa = pytest.importorskip("pyarrow")
    days = pd.Series(pd.date_range("2020", periods=150)).dt.date
    arrow = days.astype(pd.ArrowDtype(pa.date32()))
    days[3], arrow[3] = None, None
    expected = TableEncoder().fit_transform(NUMBERS.assign(day=days))
    found = TableEncoder().fit_transform(NUMBERS.assign(day=arrow))
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(found[3, 4]) and found[4, 4] - found[2, 4] == 2 * 86400
    nested = pa.table({"a": X[FEW, 0], "b": [[1, i] for i in range(len(FEW))]})
    with pytest.raises(ValueError, match="A cell holds a ndarray: each cell must hold one"):
        MetaSemiSupervisedClassifier().fit(nested, Y[FEW])


@pytest.mark.parametrize("dtype", [object, int, "category"])
@pytest.mark.parametrize("ask", [classify, classify_batch])
def test_a_column_of_text_in_fit_is_categorical_whatever_comes(ask, dtype):
    frame = NUMBERS.assign(zip=pd.Series((Y * 7 + 10).astype(str), dtype=TEXT))
    expected = ask(frame.iloc[FEW], frame)
    np.testing.assert_allclose(ask(frame.iloc[FEW], frame.astype({"zip": dtype})), expected)


def test_categories_that_only_one_of_both_frames_has():
    zips = np.array([7, 1, 4])[Y]
    known = NUMBERS.iloc[FEW].assign(zip=pd.Categorical(zips[FEW]))
    rows = NUMBERS.assign(zip=pd.Categorical(np.where(np.arange(150) % 9 == 0, 99, zips)))
    wrapped = Transductive(MetaSemiSupervisedClassifier()).fit(known, Y[FEW])
    np.testing.assert_allclose(wrapped.predict_proba(rows), classify(known, rows), atol=1e-6)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_series_is_no_table():
    for kind in (MetaSemiSupervisedClassifier, MetaGPRegressor):
        with pytest.raises(ValueError, match="(?s)Expected 2D array, got 1D array.*5.1"):
            kind().fit(NUMBERS["a"], Y)
        with pytest.raises(ValueError, match="(?s)Expected 2D array, got 1D array.*5.1"):
            kind().fit(NUMBERS.iloc[FEW], Y[FEW]).predict(NUMBERS.iloc[0])


def test_rows_that_memory_may_not_hold_are_told():
    rows = np.random.default_rng(0).normal(size=(6001, 1))
    few = np.where(np.arange(6001) < 4000, np.arange(6001) % 2, -1)
    many = np.where(np.arange(6001) < 4001, 1.0 * (np.arange(6001) % 2), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MetaSemiSupervisedClassifier().fit(rows, few)
        AmortizedOutlierDetector().fit(rows)
    told = "rows of fit are read together: .* Fit on a sample, such as sklearn.utils.resample"
    for kind, y, n in (
        (MetaGPRegressor, many, 5001),
        (MetaSemiSupervisedClassifier, few.clip(0), 6001),
    ):
        with pytest.warns(UserWarning, match=f"^{n} {told}") as warned:
            kind().fit(rows, y)
        assert warned[0].filename == __file__


@pytest.mark.parametrize("transductive", [True, False])
def test_rows_are_read_however_many_columns_there_are(monkeypatch, transductive):
    classifier = MetaSemiSupervisedClassifier("prototypes", transductive=transductive)
    classifier.fit(X[FEW], Y[FEW])
    expected = classifier.predict_proba(X)
    monkeypatch.setattr(classifier, "_cells_at_once", lambda: 1)
    np.testing.assert_allclose(classifier.predict_proba(X), expected, atol=1e-5)


def test_a_new_category_in_a_single_row_is_no_warning():
    """A single row may be odd; if several rows have no known category, a warning says so."""
    classifier = MetaSemiSupervisedClassifier("prototypes").fit(MIXED.iloc[FEW], Y[FEW])
    others = MIXED.assign(k="x")
    with pytest.warns(UserWarning, match="Column 'k' holds only categories that fit has not seen"):
        classifier.predict(others[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.predict(others[:1])


def test_messages_show_the_ends_of_long_text():
    """Cells come from requests, and messages go to a log."""
    long = "begin" + "x" * 100_000 + "end"
    digits = [f"{i}.5" for i in range(len(X))]
    table = MIXED.assign(a=[*digits[1:], long], b=digits)
    classifier = MetaSemiSupervisedClassifier("prototypes", transductive=False)
    with pytest.warns(UserWarning) as told:
        classifier.fit(table, Y).predict(table[:2].assign(b=long, k=long))
    with pytest.raises(ValueError, match="Column 'c' was numeric in fit") as refused:
        classifier.predict(table[:2].assign(c=long))
    starts = [
        "'a' holds text, most of which looks like",
        "'k' holds only categories",
        "'b' held only numbers",
    ]
    for start, message in zip(starts, [str(warning.message) for warning in told], strict=True):
        assert message.startswith(f"Column {start}")
        assert "'beginx" in message and "xend'" in message and len(message) < 400
    assert "'beginx" in str(refused.value) and len(str(refused.value)) < 400


def test_an_integer_beyond_any_float_is_infinite():
    """json may hold such a number, and text of it is infinite, too."""
    cells = [[10**400, 1.5, None, 2], [1, 2, 3, 4]]
    rows = pd.DataFrame(cells, columns=list(NUMBERS), dtype=object)
    classifier = MetaSemiSupervisedClassifier("prototypes").fit(NUMBERS, Y)
    for refuses in (classifier.predict, lambda X: classifier.fit(X, [0, 1])):
        with pytest.raises(ValueError, match="Input X contains infinity or a value too large"):
            refuses(rows)
