"""Evaluation over a collection: all estimators get the same episodes, and failures are named."""

import errno
import pickle
import time
import warnings
from decimal import Decimal
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from processes import joblib_forks
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.evaluation import Evaluation, evaluate, peers, preparation
from sklearn_meta.tasks import Dataset, Folder, Mixture, RawTable, TablePrior

IRIS, WINE = load_iris(return_X_y=True), load_wine(return_X_y=True)
NEAREST = {"1-NN": KNeighborsClassifier(1)}
QUICK = {"n_shots": (1, 3), "n_unlabelled": 5, "n_episodes": 2}


class Recorder(ClassifierMixin, BaseEstimator):
    """Appends the data of each call to a list of its class."""

    seen = []

    def fit(self, X, y):
        self.X_, self.y_, self.classes_ = X, y, np.unique(y)
        return self

    def predict_proba(self, X):
        self.seen.append((self.X_, self.y_, X))
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


class Broken(Recorder):
    def __init__(self, how="raise"):
        self.how = how

    def predict_proba(self, X):
        if self.how == "raise":
            raise RuntimeError("no luck\ntoday")
        proba = super().predict_proba(X)
        return proba * np.nan if self.how == "nan" else proba[:, 1:]


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(Recorder, "seen", [])
    return Recorder.seen


def mixed_table(n=40):
    """Categories, numbers, booleans and text with gaps, and a column of nothing but gaps."""
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"] * (n // 2))
    colour = np.where(y == "no", "red", rng.choice(["blue", "green"], n)).astype(object)
    X = pd.DataFrame({"colour": pd.Categorical(colour), "size": rng.normal(size=n)})
    X["flag"] = rng.random(n) < 0.5
    X["count"] = pd.array([1, None] * (n // 2), dtype="Int64")
    X["gone"] = np.nan
    X.loc[3, "colour"] = None
    X.loc[5, "size"] = np.nan
    return X, pd.Series(y, dtype="category")


def test_episodes_are_few_shot_tasks_and_the_same_for_all(seen):
    found = evaluate({"a": Recorder(), "b": Recorder()}, {"iris": IRIS}, **QUICK)
    assert found.failures == [] and len(found.records) == len(seen) == 2 * 2 * 2
    assert [len(y) for _, y, _ in seen] == [3] * 4 + [9] * 4
    for (X, y, rest), (X_b, _, rest_b) in zip(seen[::2], seen[1::2]):
        np.testing.assert_array_equal(X, X_b)
        np.testing.assert_array_equal(rest, rest_b)
        assert len(set(np.bincount(y))) == 1 and len(rest) == 15
    assert not np.array_equal(seen[0][2], seen[2][2])  # another episode


def test_progress_is_shown_where_it_is_asked_for(capsys, monkeypatch):
    evaluate({"a": Recorder()}, {"iris": IRIS}, **QUICK)
    assert capsys.readouterr() == ("", "")
    evaluate({"a": Recorder()}, {"iris": IRIS}, **QUICK, verbose=True)
    out, err = capsys.readouterr()
    assert out == "" and "evaluate" in err and "1/1" in err
    monkeypatch.setattr("sys.stderr", None)  # as under pythonw
    assert evaluate({"a": Recorder()}, {"iris": IRIS}, **QUICK, verbose=True).records

    def write(text):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=write, flush=lambda: None))
    assert evaluate({"a": Recorder()}, {"iris": IRIS}, **QUICK, verbose=True).records


def test_records_hold_accuracy_and_log_loss():
    X = np.c_[100.0 * WINE[1]]
    estimators = {"knows": KNeighborsClassifier(1), "guesses": DummyClassifier(strategy="uniform")}
    found = evaluate(estimators, {"known": (X, WINE[1])}, n_shots=1, n_unlabelled=4, n_episodes=1)
    knows, guesses = found.records
    assert list(knows) == ["dataset", "n_shots", "episode", "estimator", "accuracy", "log_loss"]
    assert knows["accuracy"] == 1
    assert knows["log_loss"] == pytest.approx(-np.log(0.99 + 0.01 / 3))
    assert guesses["accuracy"] == pytest.approx(1 / 3)
    assert guesses["log_loss"] == pytest.approx(np.log(3))


class InSinglePrecision(KNeighborsClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X).astype(np.float32)


def test_probabilities_in_single_precision_are_scored_without_a_warning(recwarn):
    settings = {"n_neighbors": 3, "weights": "distance"}
    estimators = {"a": InSinglePrecision(**settings), "b": KNeighborsClassifier(**settings)}
    found = evaluate(estimators, {"iris": IRIS}, **QUICK)
    single, double = (
        [record["log_loss"] for record in found.records if record["estimator"] == name]
        for name in estimators
    )
    assert single == pytest.approx(double, rel=1e-5)
    assert not recwarn.list


def test_items_are_those_of_every_collection_or_told():
    settings = {"n_shots": 1, "n_unlabelled": 4, "n_episodes": 2}
    estimators = {"knows": KNeighborsClassifier(1)}
    X, y = np.float32(WINE[0]), WINE[1]
    expected = evaluate(estimators, {"wine": (X, y)}, **settings).records
    for item in (Dataset("wine", X, y), RawTable(X, y, {}), [X, y]):
        assert evaluate(estimators, {"wine": item}, **settings).records == expected
    for item in (5, X, (X,)):
        with pytest.warns(UserWarning, match=r"wine: ValueError: it must be a pair \(X, y\), got"):
            assert not evaluate(estimators, {"wine": item}, **settings).records


def test_a_failure_of_many_numbers_says_that_they_may_be_quantities():
    X, settings = WINE[0][:60], {"n_shots": 1, "n_unlabelled": 4, "n_episodes": 1}
    hours = {"hours": (X, np.arange(60) // 2), "few": (X, np.arange(60) // 3)}  # 30 and 20 numbers
    with pytest.warns(UserWarning, match="2 failures") as told:
        evaluate({"knows": KNeighborsClassifier(1)}, hours, **settings)
    quantity = "Its labels are 30 numbers: if they are quantities, leave the table out."
    assert str(told[0].message).count("if they are quantities") == 1
    assert quantity in str(told[0].message)


def test_labels_may_be_a_column_or_a_list_with_gaps():
    X, y = WINE
    estimators = {"knows": KNeighborsClassifier(1)}
    settings = {"n_shots": 3, "n_unlabelled": 5, "n_episodes": 2}
    expected = evaluate(estimators, {"wine": (X, y)}, **settings).records
    for labels in (y[:, None], pd.DataFrame({"y": y})):
        with pytest.warns(DataConversionWarning):
            found = evaluate(estimators, {"wine": (X, labels)}, **settings)
        assert found.records == expected and not found.failures
    named = [np.nan if i % 7 == 0 else f"class {label}" for i, label in enumerate(y)]
    of_list, of_series = (
        evaluate(estimators, {"wine": (X, labels)}, **settings).records
        for labels in (named, pd.Series(named))
    )
    assert of_list == of_series


def test_an_episode_depends_on_name_and_seed_alone():
    def records(collection, **changes):
        found = evaluate(NEAREST, collection, **{**QUICK, **changes}).records
        return [record for record in found if record["dataset"] == "wine"]

    alone = records({"wine": WINE})
    assert records({"iris": IRIS, "wine": WINE}) == alone
    assert records({"wine": WINE}, n_shots={1, 3}) == alone
    assert records({"wine": WINE}, random_state=1) != alone
    other = evaluate(NEAREST, {"other": WINE}, **QUICK).records
    assert [{**record, "dataset": "wine"} for record in other] != alone


class Counting(joblib.parallel.ThreadingBackend):
    calls = 0

    def submit(self, func, callback=None):
        type(self).calls += 1
        return super().submit(func, callback)

    def apply_async(self, func, callback=None):  # joblib 1.4 calls this one
        type(self).calls += 1
        return super().apply_async(func, callback)


def test_any_backend_of_joblib_does_the_work(monkeypatch):
    monkeypatch.setattr(Counting, "calls", 0)
    joblib.register_parallel_backend("counting", Counting)
    collection = {"iris": IRIS, "wine": WINE}
    with joblib.parallel_config("counting", n_jobs=2):
        there = evaluate(NEAREST, collection, **QUICK)
    assert Counting.calls > 0
    assert there == evaluate(NEAREST, collection, **QUICK)


class Slow(KNeighborsClassifier):
    """Takes a while, each fit a different one."""

    n_fits = 0

    def fit(self, X, y):
        type(self).n_fits += 1
        time.sleep((0.08, 0.02, 0.05)[self.n_fits % 3])
        warnings.warn("not converged", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


def test_threads_leave_the_filters_of_warnings_as_they_were(recwarn):
    before = list(warnings.filters)
    with joblib.parallel_config("threading", n_jobs=4):
        evaluate({"slow": Slow(1)}, {"iris": IRIS}, n_shots=1, n_episodes=12, verbose=False)
    assert warnings.filters == before
    evaluate({"slow": Slow(1)}, {"iris": IRIS}, n_shots=1, n_episodes=1, verbose=False)
    assert warnings.filters == before and not recwarn.list


def test_processes_find_the_same():
    collection = {"iris": IRIS, "mixed": mixed_table()}
    few = {name: peers()[name] for name in ("1-NN", "LabelSpreading")}
    with joblib_forks():
        there = evaluate(few, collection, **QUICK, n_jobs=2)
    assert there == evaluate(few, collection, **QUICK)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_datasets_that_cannot_be_evaluated_are_failures_with_names(tmp_path, n_jobs):
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    pd.DataFrame({"a": np.arange(9.0), "y": np.linspace(0, 1, 9)}).to_csv(tmp_path / "cont.csv")
    pd.DataFrame({"a": np.arange(9.0), "y": ["x"] * 9}).to_csv(tmp_path / "one.csv", index=False)
    rows = np.r_[0:7, 50:70]
    pd.DataFrame(IRIS[0][rows]).assign(y=IRIS[1][rows]).to_csv(tmp_path / "small.csv", index=False)
    with joblib.parallel_config("threading"):
        with pytest.warns(UserWarning, match="^4 failures. cont: .*damaged: .*small: "):
            found = evaluate(NEAREST, Folder(tmp_path), **QUICK, n_jobs=n_jobs)
    assert {(r["dataset"], r["n_shots"]) for r in found.records} == {("small", 1)}
    reasons = {f["dataset"]: f for f in found.failures}
    assert "cannot read" in reasons["damaged"]["reason"]
    assert "continuous" in reasons["cont"]["reason"]
    assert "it has 1 class" in reasons["one"]["reason"]
    assert "class 0 has 7" in reasons["small"]["reason"]
    assert reasons["small"]["n_shots"] == 3 and reasons["one"]["n_shots"] is None
    assert all(failure["estimator"] is None for failure in found.failures)


def test_labels_that_no_array_of_numbers_holds_are_a_failure():
    y = IRIS[1].astype(object) + 10**25
    with pytest.warns(UserWarning, match="huge: ValueError: A label is an integer beyond int64"):
        found = evaluate(NEAREST, {"huge": (IRIS[0], y), "iris": IRIS}, **QUICK)
    assert {record["dataset"] for record in found.records} == {"iris"}


@pytest.mark.parametrize(
    "how, reason",
    [
        ("raise", "RuntimeError: no luck today"),
        ("nan", "ValueError: predict_proba gave NaN"),
        ("short", "ValueError: predict_proba gave NaN, or a shape other"),
    ],
)
def test_a_peer_that_raises_does_not_stop_the_others(how, reason):
    with pytest.warns(UserWarning, match="^1 failures. iris, broken: .*4 times"):
        found = evaluate({"broken": Broken(how), **NEAREST}, {"iris": IRIS}, **QUICK)
    assert [record["estimator"] for record in found.records] == ["1-NN"] * 4
    assert {failure["estimator"] for failure in found.failures} == {"broken"}
    assert all(failure["reason"].startswith(reason) for failure in found.failures)
    assert [line["estimator"] for line in found.summary()] == ["1-NN", "1-NN"]


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="'svc' has no predict_proba"):
        evaluate({"svc": LinearSVC()}, {"iris": IRIS})
    with pytest.raises(ValueError, match="'ridge' is a regressor"):
        evaluate({"ridge": Ridge()}, {"iris": IRIS})
    with pytest.raises(ValueError, match="'mixture' is a density_estimator"):
        evaluate({"mixture": make_pipeline(GaussianMixture(3))}, {"iris": IRIS})
    with pytest.raises(ValueError, match="n_shots"):
        evaluate(NEAREST, {"iris": IRIS}, n_shots=(1, 0))
    with pytest.raises(ValueError, match="n_unlabelled"):
        evaluate(NEAREST, {"iris": IRIS}, n_unlabelled=0)
    with pytest.raises(ValueError, match="collection must be a mapping of names to"):
        evaluate(NEAREST, [IRIS])
    with pytest.raises(ValueError, match="estimators must be a mapping of names to"):
        evaluate([*NEAREST.values()], {"iris": IRIS})
    with pytest.raises(ValueError, match="n_shots.*Got 1.5"):
        evaluate(NEAREST, {"iris": IRIS}, n_shots=1.5)
    with pytest.warns(UserWarning, match="inconsistent numbers of samples"):
        found = evaluate(NEAREST, {"short": (IRIS[0], IRIS[1][:-1])})
    assert not found.records


def test_dates_are_numbers_for_peers_as_for_us():
    start = pd.Timestamp("2020-01-01")
    days = pd.DataFrame({"day": [start + pd.Timedelta(days=i) for i in range(150)]})
    days["took"] = pd.to_timedelta(np.arange(150), unit="h")
    days["zone"] = days["day"].dt.tz_localize("Europe/Berlin")
    days.iloc[3] = pd.NaT
    made = preparation().fit_transform(days)
    assert made.shape == (150, 3)
    assert np.abs(np.corrcoef(np.delete(made, 3, 0).T) - 1).max() < 1e-3
    y = np.repeat([0, 1, 2], 50)
    found = evaluate(peers(), {"days": (days, y)}, n_shots=5, n_episodes=3)
    accuracy = {line["estimator"]: line["accuracy"] for line in found.summary()}
    assert accuracy["1-NN"] > 0.8 and accuracy["LogisticRegression"] > 0.6


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, -1, "-1"])
def test_rows_without_label_are_left_out(seen, missing):
    y = np.array(["a", "b"] * 10, dtype=object)
    y[:10] = missing
    X = np.arange(20.0)[:, None]
    evaluate({"a": Recorder()}, {"toy": (X, y)}, n_shots=2, n_unlabelled=3, n_episodes=1)
    (labelled, labels, rest), *_ = seen
    assert sorted(np.concatenate([labelled, rest]).ravel()) == list(range(10, 20))
    assert sorted(labels) == ["a", "a", "b", "b"]


def test_masked_cells_are_missing_ones(seen):
    X = np.ma.masked_equal(np.arange(20.0)[:, None], 3)
    table = X, ["a", "b"] * 10
    evaluate({"a": Recorder()}, {"toy": table}, n_shots=4, n_unlabelled=6, n_episodes=1)
    (labelled, _, rest), *_ = seen
    assert np.isnan(np.concatenate([labelled, rest])).sum() == 1


@pytest.mark.parametrize("labels", [(-1, 0, 1), ("-1", "0", "1"), (-1.0, 1.0), (0.25, 0.75, 1.5)])
def test_minus_one_and_fractions_are_classes_where_the_metadata_say_so(labels):
    """Estimators get codes in place of such labels: some would take -1 for an unlabelled row."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < len(labels)], y[y < len(labels)]
    estimators = {"1-NN": peers()["1-NN"]}
    settings = {"n_shots": 3, "n_unlabelled": 5, "n_episodes": 3}
    expected = evaluate(estimators, {"iris": (X, y)}, **settings).records
    unmarked = [{"marked": False}] * (labels[0] in (-1, "-1"))
    for told in [{"task": "classification"}, *unmarked]:
        found = evaluate(estimators, {"iris": (X, np.array(labels)[y], told)}, **settings)
        assert found.records == expected


def test_a_task_that_is_none_is_no_classification(tmp_path):
    """Quantities of few values were scored as classes, where ``meta_fit`` leaves the table out."""
    frame = pd.DataFrame({"a": range(60), "stars": np.arange(60) % 5})
    frame.to_csv(tmp_path / "one.csv", index=False)
    (tmp_path / "index.csv").write_text("name,task\none,Regression\n")
    with pytest.warns(UserWarning, match="task must be .* got 'Regression'"):
        found = evaluate(NEAREST, Folder(tmp_path), **QUICK)
    assert not found.records


def test_gaps_of_pandas_among_labels_are_left_out():
    y = pd.Series(["a"] * 20 + [None] * 10, dtype="string")
    tables = {"a": (np.zeros((30, 1)), y), "iris": load_iris(return_X_y=True)}
    with pytest.warns(UserWarning, match="it has 1 class, and at least 2 are needed"):
        evaluate({"1-NN": peers()["1-NN"]}, tables, n_shots=1, n_unlabelled=1, n_episodes=1)


def test_text_of_a_number_is_a_class_unless_it_is_the_mark():
    X, y = load_iris(return_X_y=True)
    settings = {"n_shots": 3, "n_unlabelled": 5, "n_episodes": 3}
    told, others = (
        evaluate({"1-NN": peers()["1-NN"]}, {"iris": (X, np.array(names)[y])}, **settings)
        for names in (["-1.0", "a", "b"], ["0", "a", "b"])
    )
    assert told.records == others.records


def test_rows_that_are_left_out_are_told_where_a_class_is_missing():
    X, y = load_iris(return_X_y=True)
    signs = np.where(y > 0, 1, -1)
    with pytest.warns(UserWarning, match="1 class, and.* -1 are left out: if -1 is a class, give"):
        evaluate({"1-NN": peers()["1-NN"]}, {"iris": (X, signs)}, n_shots=1)
    with pytest.warns(UserWarning, match=r"1 class, and at least 2 are needed\.$"):
        evaluate({"1-NN": peers()["1-NN"]}, {"iris": (X, signs * 0)}, n_shots=1)


def test_preparation_imputes_encodes_and_standardises():
    X, _ = mixed_table()
    prepared = preparation().fit_transform(X)
    assert prepared.shape == (40, 3 + 3 + 1)  # numbers, three colours, and one column for the flag
    assert np.isfinite(prepared).all()
    np.testing.assert_allclose(prepared[:, :3].mean(axis=0), 0, atol=1e-12)
    assert prepared[:, 0].std() == pytest.approx(1) and prepared[5, 0] == pytest.approx(0)
    assert set(np.unique(prepared[:, 3:])) == {0, 1}
    array = X.astype(object).where(X.notna(), None).to_numpy()
    assert preparation().fit_transform(array).shape == prepared.shape


def test_preparation_takes_categories_that_it_has_not_seen_for_missing_cells(recwarn):
    seen = pd.DataFrame({"a": list("xyxz"), "b": list("uvvu"), "none": [None] * 4})
    prepared = preparation().fit(seen)
    names = {"a": ["w", None, "x"], "b": ["?", None, "u"], "none": ["some", None, None]}
    unseen, missing, frequent = prepared.transform(pd.DataFrame(names))
    np.testing.assert_array_equal([unseen, missing], [frequent, frequent])
    assert unseen.tolist() == [1, 0, 0, 0, 1] and not recwarn.list


def test_peers_read_numbers_as_we_do_whatever_holds_them():
    X, y = IRIS
    plain = preparation().fit_transform(X)
    decimals = pd.DataFrame(X).map(lambda value: Decimal(str(value)))
    for same in (pd.DataFrame(X).astype(object), X.astype(object), decimals):
        np.testing.assert_allclose(preparation().fit_transform(same), plain)
    flags = pd.DataFrame({"flag": pd.Series([True, False, None] * 3, dtype=object)})
    assert set(preparation().fit_transform(flags).ravel()) == {0, 1}
    days = pd.date_range("2020-01-01", periods=9)
    dates = np.array([[day.date()] for day in days], dtype=object)
    for column in (
        dates,
        pd.DataFrame(dates),
        days.to_numpy()[:, None],
        days.to_period().to_frame(),
    ):
        made = preparation().fit_transform(column)
        np.testing.assert_allclose(made[:, 0] * np.std(range(9)), np.arange(9) - 4)
    rows = [[*row, "text"] for row in X.tolist()]
    found, expected = (
        evaluate({"1-NN": peers()["1-NN"]}, {"t": (table, y)}, n_shots=3, n_episodes=2).summary()
        for table in (rows, np.array(rows, dtype=object))
    )
    assert found[0]["accuracy"] == expected[0]["accuracy"]


def test_preparation_makes_an_array_whatever_others_are_asked_for():
    X, y = IRIS
    with config_context(transform_output="pandas"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(preparation().fit_transform(X)) is np.ndarray
        peers()["LabelSpreading"].fit(X, y).predict(X)


def test_peers_take_tables_as_they_come():
    found = evaluate(peers(), {"mixed": mixed_table()}, n_shots=5, n_unlabelled=10, n_episodes=1)
    assert found.failures == [] and len(peers()) == 5
    assert min(line["accuracy"] for line in found.summary()) > 0.6


def test_supervised_peers_learn_from_labelled_rows_prepared_with_all():
    X, y = IRIS
    train, test = np.r_[0:3, 50:53, 100:103], np.r_[10:20, 60:70, 110:120]
    found = peers()["GaussianProcess"].fit(X[train], y[train]).predict_proba(X[test])
    prepared = preparation().fit_transform(X[np.r_[train, test]]) / 2  # the scale for four columns
    plain = GaussianProcessClassifier(optimizer=None).fit(prepared[:9], y[train])
    np.testing.assert_allclose(found, plain.predict_proba(prepared[9:]))


def records_of(scores):
    """Records from {(dataset, estimator): accuracies}; log loss is 1 - accuracy."""
    return [
        {
            "dataset": dataset, "n_shots": 1, "episode": episode, "estimator": estimator,
            "accuracy": value, "log_loss": 1 - value,
        }
        for (dataset, estimator), values in scores.items()
        for episode, value in enumerate(values)
    ]  # fmt: skip


def test_summary_has_means_and_ranks_over_datasets_that_all_did():
    records = records_of(
        {
            ("p", "a"): [0.9, 0.7], ("p", "b"): [0.7, 0.9], ("p", "c"): [0.1, 0.3],
            ("q", "a"): [0.5, 0.5], ("q", "b"): [0.6, 0.6], ("q", "c"): [0.9, 0.9],
            ("r", "a"): [0.0, 0.0], ("r", "b"): [1.0], ("r", "c"): [1.0, 1.0],
        }
    )  # fmt: skip
    summary = Evaluation(records, []).summary()
    assert [line["estimator"] for line in summary] == ["b", "a", "c"]
    assert {line["n_datasets"] for line in summary} == {2}  # "b" failed once on "r"
    lines = {line["estimator"]: line for line in summary}
    assert lines["a"]["accuracy"] == pytest.approx(0.65)
    assert lines["a"]["log_loss"] == pytest.approx(0.35)
    assert [lines[name]["rank"] for name in "abc"] == [2.25, 1.75, 2.0]
    more = [record | {"n_shots": 9} for record in records]
    lines = Evaluation(more + records, []).summary()
    assert [line["n_shots"] for line in lines] == [1] * 3 + [9] * 3
    shown = repr(Evaluation(records, [{}])).splitlines()  # all records would be a wall of text
    assert len(shown) == 7 and shown[-1].startswith("1 failures")
    assert shown[3].split() == ["a", "0.650", "0.350", "2.250", "2"]


def test_means_that_rounding_alone_tells_apart_share_their_rank():
    scores = {("p", "a"): [0.1, 0.2, 0.3], ("p", "b"): [0.3, 0.2, 0.1], ("p", "c"): [0.5] * 3}
    lines = Evaluation(records_of(scores), []).summary()
    assert lines[1]["accuracy"] != lines[2]["accuracy"]
    assert {line["estimator"]: line["rank"] for line in lines} == {"c": 1, "a": 2.5, "b": 2.5}


def test_summary_without_a_dataset_in_common_says_so():
    found = Evaluation(records_of({("p", "a"): [0.5], ("q", "b"): [0.5]}), [])
    assert [(line["accuracy"], line["n_datasets"]) for line in found.summary()] == [(None, 0)] * 2
    assert repr(found).splitlines()[2].split() == ["a", "-", "-", "-", "0"]
    assert Evaluation([], []).summary() == []
    assert repr(Evaluation([], [])).startswith("\n0 failures")


def test_names_may_be_numbers_and_numbers_are_checked_by_their_names():
    found = evaluate({1: KNeighborsClassifier(1)}, {0: IRIS}, **QUICK)
    assert "\n1 " in repr(found) and len(found.records) == 4
    of_a_file = "caf\udce9"  # as Python decodes what is not UTF-8
    assert len(evaluate(NEAREST, {of_a_file: IRIS}, **QUICK).records) == 4
    with pytest.raises(ValueError, match="n_episodes == 0, must be >= 1"):
        evaluate(NEAREST, {"iris": IRIS}, n_episodes=0)
    with pytest.raises(TypeError, match="n_episodes must be an instance of int"):
        evaluate(NEAREST, {"iris": IRIS}, n_episodes=1.5)
    with pytest.raises(ValueError, match="n_shots is empty"):
        evaluate(NEAREST, {"iris": IRIS}, n_shots=())


def test_weights_know_what_they_have_seen(tmp_path, recwarn):
    """Scores on tables seen in training say nothing about new ones, so a warning tells."""
    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    ours = MetaSemiSupervisedClassifier("deep_sets", random_state=0)
    few = {"max_steps": 1, "batch_size": 1, "n_shots": 1, "n_unlabelled": 2, "verbose": False}
    unnamed = (
        [iris],
        (pair for pair in [iris]),
        Mixture([[iris]]),
        Mixture([[iris], {"a": wine}], [1, 0]),
    )
    for datasets in unnamed:
        ours.meta_fit(datasets, **few)  # a list has no names, and an undrawn table is not seen
        assert ours.learner_.card == {"datasets": []}
    ours.meta_fit({"wine": wine}, **few).meta_fit(Mixture([{"iris": iris}, TablePrior()]), **few)
    assert ours.learner_.card == {"datasets": ["TablePrior", "iris", "wine"]}
    path = ours.save_pretrained(tmp_path, note="of a test")
    saved = MetaSemiSupervisedClassifier(path).meta_fit({"again": iris}, **few)
    assert saved.learner_.card == {"datasets": ["TablePrior", "again", "iris", "wine"]}

    quick = {"n_shots": 1, "n_unlabelled": 2, "n_episodes": 1}
    known = {
        "itself": ours,
        "copied": pickle.loads(pickle.dumps(clone(ours))),
        "saved": MetaSemiSupervisedClassifier(path),
        "in a pipeline": make_pipeline(StandardScaler(), ours),
        "not trained": MetaSemiSupervisedClassifier("deep_sets"),
        "1-NN": peers()["1-NN"],
    }
    recwarn.clear()
    evaluate({"1-NN": known["1-NN"]}, {"iris": iris}, **quick)
    evaluate({"ours": ours}, {"another": iris}, **quick)
    assert not recwarn
    found = evaluate(known, {"iris": iris, "another": iris}, **quick)
    told = [str(w.message) for w in recwarn]
    assert len(told) == 5 and "2 failures. iris, not trained" in told[-1]
    for message, name in zip(told[:-1], known, strict=False):
        assert (
            message.startswith(f"{name} was meta-trained on 1 of these tables")
            and "'iris'" in message
        )
    assert len(found.records) == 10


class Torn(Recorder):
    """Like an estimator whose __init__ does not keep its parameters."""

    def get_params(self, deep=True):
        raise AttributeError("'Torn' object has no attribute 'width'")


def test_what_has_no_parameters_fails_alone():
    with pytest.warns(UserWarning, match="1 failures. iris, torn: AttributeError"):
        found = evaluate({"torn": Torn()} | NEAREST, {"iris": IRIS}, **QUICK)
    assert {record["estimator"] for record in found.records} == {"1-NN"}


def test_estimators_that_are_compared_stay_as_they_are():
    estimator = KNeighborsClassifier(1)
    evaluate({"1-NN": estimator}, {"iris": load_iris(return_X_y=True)}, n_shots=1, n_episodes=1)
    assert not hasattr(estimator, "classes_")
