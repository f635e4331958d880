"""OpenML collections: the real openml package against a server on 127.0.0.1, and its faults."""

import logging
import os
import pickle
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from processes import ended, started
from sklearn.datasets import load_iris

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.tasks import RawTable
from sklearn_meta.tasks import openml as module
from sklearn_meta.tasks.openml import OpenMLCollection

openml = pytest.importorskip("openml")
pytest.importorskip("pyarrow")

import openml_server  # noqa: E402
from openml_server import API, SERVED, SUITES, OpenMLServer, Served, frame, mixed  # noqa: E402

ARFF = "/data/download/dataset_{}.arff"
PARQUET = "/datasets/0000/dataset_{}.pq"


@pytest.fixture
def server():
    with OpenMLServer(SERVED, SUITES) as running:
        yield running


@pytest.fixture
def collect(server, tmp_path, monkeypatch):
    """OpenMLCollection on the server, with a cache in `tmp_path` and short waits."""
    monkeypatch.setattr(module, "_BACKOFF", 0.01)

    def make(suite=None, **options):
        options = {"server": server.url, "cache_directory": tmp_path, "progress": False} | options
        return OpenMLCollection(suite, **options)

    return make


@pytest.fixture
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def assert_is(table, number):
    """A table equals the one on the server."""
    served = SERVED[number - 1]
    assert isinstance(table, RawTable) and isinstance(table.X, pd.DataFrame)
    wanted = served.frame.drop(columns=served.target)
    assert_frame_equal(table.X, wanted, check_dtype=False)
    assert list(table.y) == list(served.frame[served.target])


def test_a_suite_is_a_collection(server, collect, tmp_path, no_warnings, monkeypatch):
    before = openml.config.get_config_as_dict(), vars(openml._api_calls).copy()
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    suite = collect(99)
    assert list(suite) == ["iris", "wine", "cancer"] and len(suite) == 3
    assert not [path for path in server.asked if not path.startswith(API)]  # no data so far
    assert suite.families == {name: name for name in suite}
    assert "iris" in suite and "nothing" not in suite
    with pytest.raises(KeyError, match="nothing"):
        suite["nothing"]
    for number, name in enumerate(suite, 1):
        assert_is(suite[name], number)
    numbers = {"id": 12, "task_id": 2, "version": 1}
    words = {"family": "wine", "target": "label", "task": "classification", "source": "openml"}
    assert suite["wine"].metadata == numbers | words
    assert {PARQUET.format(11), ARFF.format(12), PARQUET.format(13)} < set(server.asked)
    assert {ARFF.format(11), PARQUET.format(12), ARFF.format(13)}.isdisjoint(server.asked)

    # No request is repeated.
    asked = len(server.asked)
    assert asked == len(set(server.asked)) + 2  # parquet files: HEAD and GET
    again = pickle.loads(pickle.dumps(collect("99").fetch()))
    assert_is(again["iris"], 1)
    assert len(server.asked) == asked and again.skipped_ == {}
    assert len(files(tmp_path)) == 7

    # The settings of openml and logging are unchanged.
    assert (openml.config.get_config_as_dict(), vars(openml._api_calls)) == before
    assert not logging.getLogger().handlers
    assert repr(suite) == f"OpenMLCollection(suite=99, server={server.url!r})"


def test_tables_are_the_same_from_arff_and_parquet(server, collect):
    tables = collect(tasks=[4, 5, 6])
    assert list(tables) == ["mixed", "mixed-5", "diabetes"]
    assert tables.families["mixed-5"] == "mixed"
    wanted = mixed().drop(index=5).reset_index(drop=True).drop(columns=["row", "label"])
    for name in ("mixed", "mixed-5"):
        X, y, metadata = tables[name]
        columns = [c for c in wanted if c != "remark" or name == "mixed-5"]
        assert list(X) == columns and metadata["family"] == "mixed"
        assert list(y) == list(mixed()["label"].drop(index=5))
        for column in columns:
            left, right = X[column], wanted[column]
            assert list(left.isna()) == list(right.isna())
            assert (left.dtype == "category") == (right.dtype == "category")
            assert list(left.dropna()) == list(right.dropna())
    X, y, metadata = tables["diabetes"]
    assert metadata["task"] == "regression" and y.dtype == float and X.shape == (442, 10)
    np.testing.assert_allclose(y, SERVED[5].frame["target"])


def test_sparse_tables_are_dense(server, collect):
    assert_is(collect(tasks=[12])["sparse"], 12)
    assert server.asked.count(ARFF.format(22)) == 1


def test_no_name_hides_another(collect):
    for tasks in ([13, 4, 5], [4, 5, 13]):
        named = {name: t.metadata["task_id"] for name, t in collect(tasks=tasks).items()}
        assert list(named.values()) == tasks and set(named) > {"mixed", "mixed-5"}


def test_tables_of_the_shared_folder(tables_dir, collect, server):
    index = pd.read_csv(tables_dir / "index.csv").set_index("name")
    index = index.query("task == 'classification' and n < 400 and n_categorical and n_missing")
    for number, name in enumerate(index.index[:2], 31):
        table = pd.read_parquet(tables_dir / f"{name}.parquet")
        table = table.rename(columns={table.columns[-1]: "target"})
        for column in {*table.select_dtypes(["object", "string", "bool"]), "target"}:
            text = table[column].astype(str).where(table[column].notna())
            table[column] = text.astype("category")
        server.tasks[number] = server.data[number] = Served(number, number, name, table, "target")
    tables = collect(tasks=[31, 32]).fetch()
    assert not tables.skipped_
    for name, (X, y, _) in tables.items():
        assert X.shape == (index["n"][name], index["n_features"][name])
        assert y.nunique() == index["n_classes"][name]
        assert X.isna().sum().sum() == index["n_missing"][name]


def test_meta_training_on_a_suite(collect):
    model = MetaSemiSupervisedClassifier(backbone="vsa", random_state=0)
    model.meta_fit(collect(99), max_steps=2, batch_size=2, eval_every=2)
    X, y = frame(load_iris).iloc[:, :-1], load_iris().target
    assert model.fit(X[::30], y[::30]).predict(X[::7]).shape == (22,)


# Faults


@pytest.mark.parametrize(
    "path, how",
    [
        *[(f"{API}/study/99", how) for how in ("error", "cut")],
        *[(f"{API}/task/1", how) for how in ("busy", "other")],
        *[(f"{API}/data/11", how) for how in ("cut", "other")],
        (f"{API}/data/features/11", "error"),
        *[(PARQUET.format(11), how) for how in ("error", "silence")],
        *[(ARFF.format(12), how) for how in ("error", "cut", "garble", "silence")],
    ],
)
def test_a_fault_that_passes_is_not_noticed(path, how, server, collect, no_warnings):
    server.fail(path, how, times=1)
    suite = collect(99, n_retries=1, timeout=1 if how == "silence" else 30).fetch()
    assert list(suite) == ["iris", "wine", "cancer"] and not suite.skipped_
    assert_is(suite["iris"], 1)
    assert_is(suite["wine"], 2)


def test_tries_are_further_and_further_apart(server, collect, monkeypatch):
    monkeypatch.setattr(module, "_BACKOFF", 1.0)
    waits = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    server.fail(f"{API}/study/99", "error")
    with pytest.raises(OSError, match="4 tries failed, the last with HTTPError: status 500"):
        list(collect(99))
    assert waits == [1, 2, 4] and len(server.asked) == 4


@pytest.mark.parametrize(
    "path, how, why",
    [
        (f"{API}/data/12", "error", "status 500"),
        (f"{API}/data/12", "missing", "HTTPError: status 404"),
        (f"{API}/task/2", "page", "an answer that is not XML"),
        (ARFF.format(12), "error", "status 500"),
        (ARFF.format(12), "busy", "code 107"),
        (ARFF.format(12), "cut", "IncompleteRead"),
        (ARFF.format(12), "garble", "Checksum"),
        (ARFF.format(12), "silence", "timed out"),
        (ARFF.format(12), "stall", "timed out"),
        (ARFF.format(12), "trickle", "too slowly"),
    ],
)
def test_a_dataset_that_fails_is_skipped_by_name(
    path, how, why, server, collect, tmp_path, monkeypatch
):
    monkeypatch.setattr(module.openml_client, "_PATIENCE", 2)
    server.fail(path, how)
    slow = how in ("silence", "stall", "trickle")
    suite = collect(99, n_retries=1, timeout=0.5 if slow else 30)
    start = time.monotonic()
    name = "task-2" if path.startswith(API) else "wine"
    with pytest.warns(UserWarning, match=f"Skipped: Dataset '{name}' .*2 tries failed.*{why}"):
        suite.fetch()
    assert time.monotonic() - start < 30
    assert list(suite) == ["iris", "cancer"] and list(suite.skipped_) == [name]
    assert why in suite.skipped_[name]
    assert "task-2.parquet" not in files(tmp_path)
    assert not list(tmp_path.rglob("scratch-*"))
    server.mend()
    if name == "wine":  # even without fetch()
        assert_is(suite["wine"], 2)
        assert list(suite) == ["iris", "wine", "cancer"] and not suite.skipped_
    assert list(suite.fetch()) == ["iris", "wine", "cancer"] and not suite.skipped_


@pytest.mark.parametrize("how", ["cut", "garble", "stall"])
def test_a_bad_parquet_file_gives_way_to_arff(how, server, collect, no_warnings):
    server.fail(PARQUET.format(11), how)
    assert_is(collect(tasks=[1], timeout=0.5 if how == "stall" else 30)["iris"], 1)
    assert ARFF.format(11) in server.asked


def test_a_dead_server_is_given_up(server, collect):
    """However many datasets there are, only three of them are waited for."""
    server.fail("/", "silence")
    with pytest.raises(OSError, match="OpenML suite 99 cannot be fetched.*timed out"):
        list(collect(99, n_retries=0, timeout=0.2))
    server.asked.clear()
    tasks = collect(tasks=range(1, 10), n_retries=0, timeout=0.2)
    with (
        pytest.warns(UserWarning, match="'task-[123]' .* 1 try failed.*timed out"),
        pytest.warns(UserWarning, match="did not answer for the last 3 datasets"),
    ):
        assert len(tasks) == 0
    assert len(server.asked) == 3
    assert list(tasks.skipped_) == [f"task-{number}" for number in range(1, 10)]
    server.mend()
    with pytest.warns(UserWarning, match="no target"):
        assert "iris" in tasks.fetch() and "task-1" not in tasks.skipped_


def test_a_cache_that_cannot_be_written_is_told_at_once(server, collect, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"cache_directory: {tmp_path}/file/.* cannot be written"):
        collect(99, cache_directory=tmp_path / "file").fetch()
    assert not server.asked


def test_unknown_suites_are_errors(server, collect):
    for suite, why in [(7, "code 601"), ("1", "entity type 'run'"), (2, "no tasks")]:
        server.asked.clear()
        with pytest.raises(ValueError, match=f"OpenML suite .{{1,3}} cannot be used: .*{why}"):
            collect(suite).fetch()
        assert len(server.asked) == 1  # what is refused is not tried again
    assert list(collect("three-tables")) == ["iris", "wine", "cancer"]


@pytest.mark.parametrize(
    "task, name, why",
    [
        (7, "task-7", "dataset 'untargeted' has no target"),
        (8, "task-8", "dataset 'groups' has no target"),
        (9, "misnamed", "no column 'class'"),
        (10, "unlabelled", "missing in every row"),
        (11, "alone", "no column besides the target"),
        (404, "task-404", "code 151"),
    ],
)
def test_unusable_datasets_are_skipped_by_name(task, name, why, server, collect):
    tables = collect(tasks=[task, 1])
    with pytest.warns(UserWarning, match=f"Skipped: Dataset '{name}' .* cannot be used: .*{why}"):
        tables.fetch()
    assert list(tables) == ["iris"] and why in tables.skipped_[name]
    assert len(server.asked) == len(set(server.asked)) + 1  # HEAD and GET of iris
    if name in tables.families:
        with pytest.raises(ValueError, match=f"'{name}' .*{why}"):
            tables[name]


ODD = """@RELATION x
@ATTRIBUTE a REAL
@ATTRIBUTE label INTEGER
@ATTRIBUTE d {}
@DATA
1,0,'2001-01-01'
2,1,'2001-01-02'
3,?,'2001-01-03'
"""


@pytest.mark.parametrize("kind, readable", [("STRING", True), ("DATE 'yyyy-MM-dd'", False)])
def test_labels_with_a_gap_and_what_cannot_be_read(tmp_path, monkeypatch, kind, readable):
    monkeypatch.setattr(openml_server, "arff", lambda item: ODD.format(kind).encode())
    served = Served(1, 30, "odd", SERVED[0].frame, "label")
    with OpenMLServer([served], {}) as server:
        options = {"server": server.url, "cache_directory": tmp_path, "progress": False}
        tables = OpenMLCollection(tasks=[1], **options)
        if readable:
            assert tables["odd"].y.tolist() == ["0", "1"]
        else:
            with pytest.raises(ValueError, match="cannot be used: BadAttributeType"):
                tables["odd"]
        assert server.asked.count(ARFF.format(30)) == 1


# Without a network


def test_a_warm_cache_needs_no_server(server, collect, no_warnings):
    collect(99).fetch()
    server.stop()
    for offline in (False, True):
        suite = collect(99, offline=offline, n_retries=0).fetch()
        assert list(suite) == ["iris", "wine", "cancer"]
        assert_is(suite["wine"], 2)


def test_a_cache_stays_where_it_was_begun(server, collect, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    collect(99, cache_directory="cache").fetch()
    suite = collect(99, cache_directory="cache", offline=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert_is(suite["iris"], 1)
    assert not os.listdir()


def test_offline_says_what_is_missing(server, collect):
    with pytest.raises(OSError, match=r"suite 99 is not in the cache .*call fetch\(\) where"):
        list(collect(99, offline=True))
    collect(99)["iris"]
    asked = len(server.asked)
    suite = collect(99, offline=True)
    assert list(suite) == ["iris", "wine", "cancer"]
    assert_is(suite["iris"], 1)
    with pytest.raises(OSError, match="'wine' .* is not in the cache"):
        suite["wine"]
    with (
        pytest.warns(UserWarning, match="Dataset 'wine' .* is not in the cache"),
        pytest.warns(UserWarning, match="Dataset 'cancer' .* is not in the cache"),
    ):
        suite.fetch()
    assert list(suite) == ["iris"] and len(server.asked) == asked
    server.stop()
    with (
        pytest.warns(UserWarning, match="Dataset 'wine' .* tries failed.*ConnectionError"),
        pytest.warns(UserWarning, match="Dataset 'cancer' .* tries failed.*ConnectionError"),
    ):
        assert list(collect(99, n_retries=1).fetch()) == ["iris"]


def test_a_suite_is_listed_anew_when_asked(server, collect):
    assert len(collect(99).fetch()) == 3
    server.suites = SUITES | {"99": [1, 2, 3, 6]}
    assert "diabetes" not in collect(99).fetch()
    assert "diabetes" in collect(99).fetch(refresh=True)
    server.stop()
    with pytest.warns(UserWarning, match="The cached list of tasks is used. OpenML suite 99"):
        assert "diabetes" in collect(99, n_retries=0).fetch(refresh=True)


def fetch_alone(server, folder):
    OpenMLCollection(99, server=server, cache_directory=folder, progress=False).fetch()


def test_a_killed_download_leaves_nothing_that_looks_good(server, collect, tmp_path):
    server.fail(ARFF.format(12), "stall")
    process = started(fetch_alone, server.url, tmp_path)
    try:
        deadline = time.monotonic() + 300
        while ARFF.format(12) not in server.asked and time.monotonic() < deadline:
            assert process.is_alive()
            time.sleep(0.02)
    finally:
        process.kill()  # SIGKILL
        ended(process)
    (left,) = tmp_path.rglob("scratch-*")
    assert "task-1.parquet" in files(tmp_path) and "task-2.parquet" not in files(tmp_path)
    server.mend()
    server.asked.clear()
    suite = collect(99).fetch()
    assert not suite.skipped_ and PARQUET.format(11) not in server.asked
    assert_is(suite["iris"], 1)
    assert_is(suite["wine"], 2)

    # What the killed process left may be removed after a day.
    assert left.exists()
    os.utime(left, (0, 0))
    collect(tasks=[6])["diabetes"]
    assert not left.exists()


@pytest.mark.parametrize("harm", ["cut", "empty", "flip", "other"])
def test_damaged_files_of_the_cache_are_fetched_anew(harm, server, collect, tmp_path):
    collect(99).fetch()
    for file in tmp_path.rglob("*-*.*"):
        content = bytearray(file.read_bytes())
        content[len(content) // 8] ^= 255 if harm == "flip" else 0
        if harm == "other":  # valid json, but something else
            content = b'{"tables": []}'
        file.write_bytes(content[: {"cut": len(content) // 2, "empty": 0}.get(harm)])
    with pytest.raises(OSError, match="suite 99 is not in the cache .* damaged"):
        list(collect(99, offline=True))
    server.asked.clear()
    suite = collect(99).fetch()
    assert {PARQUET.format(11), ARFF.format(12)} < set(server.asked)
    for number, name in enumerate(suite, 1):
        assert_is(suite[name], number)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({}, ValueError, "Give an OpenML suite"),
        ({"suite": 99, "timeout": 0}, ValueError, "timeout must be a positive number"),
        ({"suite": 99, "n_retries": -1}, ValueError, "n_retries must not be negative"),
        ({"suite": 99, "server": "openml.org"}, ValueError, "server must be an address"),
        ({"tasks": ["iris"]}, TypeError, "integer"),
    ],
)
def test_bad_arguments_are_refused(options, error, message, collect):
    with pytest.raises(error, match=message):
        collect(**options)


def test_the_configuration_of_openml_is_the_default(server, tmp_path, monkeypatch):
    monkeypatch.setattr(openml.config, "server", server.url)
    monkeypatch.setattr(openml.config, "_root_cache_directory", tmp_path)
    monkeypatch.setattr(openml.config, "apikey", "secret")
    suite = OpenMLCollection(tasks=np.array([1]), progress=False)
    assert_is(suite["iris"], 1)
    assert files(tmp_path / "sklearn_meta") == ["task-1.json", "task-1.parquet"]
    assert server.keys == {"api_key=secret"}
    monkeypatch.setenv("HOME", str(tmp_path))
    assert OpenMLCollection(99, cache_directory="~/c").folder.parent == tmp_path / "c"

    # The key is sent to its own server only.
    server.keys.clear()
    monkeypatch.setattr(openml.config, "server", "https://www.openml.org/api/v1/xml")
    assert_is(OpenMLCollection(tasks=[2], server=server.url, progress=False)["wine"], 2)
    assert not server.keys


def test_progress_is_shown_if_wanted(collect, capsys):
    collect(99, progress=True).fetch()
    assert "OpenML tables: 100%" in capsys.readouterr().err
    collect(99).fetch()
    assert not capsys.readouterr().err


def test_without_openml_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(openml, "__version__", "0.16.0")
    with pytest.raises(ImportError, match=r"0.16.0 is installed: pip install .sklearn_meta\[open"):
        OpenMLCollection(99)
    monkeypatch.setitem(sys.modules, "openml", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn_meta\[openml\]"'):
        OpenMLCollection(99)


def test_where_openml_finds_no_place_for_its_settings_the_error_says_what_to_set(
    monkeypatch, tmp_path
):
    """On a cluster whose homes are read-only, openml fails on import, when it makes its folder."""
    (tmp_path / "openml.py").write_text("raise OSError(30, 'Read-only file system', '.config')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openml")
    with pytest.raises(OSError, match=r"settings \(.*Read-only.*\): set XDG_CONFIG_HOME and XDG_C"):
        OpenMLCollection(99)


def test_a_server_that_answers_with_errors_is_asked_for_every_dataset(server, collect):
    server.fail("/data", "error")  # files of tables, but not their descriptions
    tasks = collect(tasks=range(1, 7), n_retries=0)
    with pytest.warns(UserWarning, match="1 try failed"):
        tasks.fetch()
    assert len(tasks.skipped_) == 6
    assert not [why for why in tasks.skipped_.values() if "was not requested" in why]


def test_offline_a_list_is_not_asked_for_anew(server, collect, no_warnings):
    collect(99).fetch()
    server.stop()
    suite = collect(99, offline=True).fetch(refresh=True)
    assert list(suite) == ["iris", "wine", "cancer"] and not suite.skipped_
