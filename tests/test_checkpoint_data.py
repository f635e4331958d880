"""A checkpoint belongs to one run: its tables, its tasks, its folder, its callbacks."""

import copy
import errno
import json
import os
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import test_training as t
import torch
from processes import CONTEXT, ended, started
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.datasets import make_classification
from skorch.callbacks import Callback, EarlyStopping
from test_training import At, train

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier, checkpoint, training
from sklearn_meta.callbacks import CSVLog
from sklearn_meta.checkpoint import Checkpoint
from sklearn_meta.fingerprint import described, difference, weights_digest
from sklearn_meta.folders import CHECKPOINT, checkpoint_file, locked
from sklearn_meta.tasks import Dataset, EpisodeSampler, Mixture, RegressionPrior, TablePrior, Tables
from sklearn_meta.tasks.sequences import ClassSequences, Curriculum, Vectors
from sklearn_meta.weights import load_learner

SETTINGS = {"max_steps": 2, "eval_every": 1, "batch_size": 1, "verbose": False}


def tables(seed, names="abc"):
    """A few small tables, determined by their names and the seed."""
    return {name: make_classification(60, 5, random_state=100 * seed + ord(name)) for name in names}


def meta_fit(datasets, folder, **settings):
    estimator = MetaSemiSupervisedClassifier("prior", random_state=0)
    return estimator.meta_fit(datasets, checkpoint_dir=folder, **SETTINGS | settings)


# The run that a checkpoint belongs to


def changed(a_name):
    """The tables, with one cell of one table changed."""
    found = tables(0)
    X, y = found[a_name]
    found[a_name] = X + (np.arange(X.size).reshape(X.shape) == 7), y
    return found


@pytest.mark.filterwarnings("ignore:No validation loss was lower")
@pytest.mark.parametrize(
    "first, other, told",
    [
        ({}, {"datasets": tables(7)}, r"data \(train \(datasets \(a has other contents; b has"),
        ({}, {"datasets": changed("b")}, r"datasets \(b has other contents\)\)\)\."),
        ({}, {"datasets": tables(0, "abcd")}, r"datasets \(d is new\)"),
        ({}, {"datasets": tables(0, "ac")}, r"datasets \(b is missing\)"),
        ({}, {"datasets": list(tables(0).values())}, r"datasets \(0 is new"),
        ({}, {"n_shots": 2}, r"sampler \(n_shots was \[1, 3, 5, 10\] and is \[2\]\)"),
        ({}, {"n_unlabelled": (3, 9)}, r"n_unlabelled was \[20, 20\] and is \[3, 9\]"),
        (
            {"validation_datasets": tables(1)},
            {"validation_datasets": tables(2)},
            r"data \(validation \(datasets \(a has other contents",
        ),
        (
            {"datasets": Mixture([tables(0), TablePrior()], [1, 1])},
            {"datasets": Mixture([tables(0), TablePrior()], [1, 3])},
            r"weights was \[0.5, 0.5\] and is \[0.25, 0.75\]",
        ),
        (
            {"datasets": Mixture([tables(0), TablePrior()])},
            {"datasets": Mixture([tables(1), TablePrior()])},
            r"sources \(0 \(datasets \(a has other contents",
        ),
        (
            {"datasets": TablePrior()},
            {"datasets": TablePrior(n_columns=(2, 5))},
            r"train \(n_columns was \[2, 30\] and is \[2, 5\]\)",
        ),
    ],
)
def test_a_checkpoint_of_other_data_or_tasks_is_refused(tmp_path, first, other, told):
    first = {"datasets": tables(0), "max_steps": 1} | first
    meta_fit(folder=tmp_path, **first)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match=told) as error:
        meta_fit(folder=tmp_path, **first | other)
    assert (
        "belongs to a run with other settings" in str(error.value) and len(str(error.value)) < 600
    )
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_other_estimators_refuse_other_tables_too(tmp_path):
    def fit(source):
        estimator = MetaGPRegressor("default", random_state=0)
        estimator.meta_fit(source, checkpoint_dir=tmp_path, **SETTINGS)

    fit(RegressionPrior(n_rows=30))
    with pytest.raises(ValueError, match="n_rows was 30 and is 40"):
        fit(RegressionPrior(n_rows=40))


def test_the_same_data_made_anew_is_the_same_run(tmp_path):
    def source():
        frames = {
            name: (pd.DataFrame(X).assign(kind=pd.Categorical(np.array(["no", "yes"])[y])), y)
            for name, (X, y) in tables(0).items()
        }
        return Mixture([frames, TablePrior(n_rows=120), tables(3)], [2, 1, 1])

    class Killed(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 2:
                raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        meta_fit(source(), tmp_path, callbacks=[Killed()])
    again, whole = meta_fit(source(), tmp_path), meta_fit(source(), None)
    assert weights_digest(again.learner_) == weights_digest(whole.learner_)


def test_the_order_of_tables_is_of_the_run(tmp_path):
    """Tasks are drawn by the positions of tables."""
    meta_fit(tables(0, "abc"), tmp_path)
    with pytest.raises(ValueError, match="other settings: tables are the same in another order"):
        meta_fit(tables(0, "cba"), tmp_path)
    runs = ({"data": {}, "validation_tables": names} for names in (["a", "b"], ["b", "a"]))
    assert checkpoint._difference(*runs) == "validation_tables are the same in another order"


def test_a_checkpoint_of_a_version_that_knew_names_alone_goes_on(tmp_path):
    first = meta_fit(tables(0), tmp_path)
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    run = json.loads(header["schedule"])
    for name in ("data", "sampler", "weight_decay", "warmup", "clip", "n_validation"):
        del run[name]
    del header["sha256"]
    save_file(tensors, tmp_path / CHECKPOINT, header | {"schedule": json.dumps(run)})
    assert weights_digest(meta_fit(tables(0), tmp_path).learner_) == weights_digest(first.learner_)
    with pytest.raises(ValueError, match="other settings: tables was"):
        meta_fit(tables(0, "ab"), tmp_path)


def test_other_settings_of_the_engine_are_refused(tmp_path):
    t.train(tmp_path, max_steps=2)
    for other in ({"weight_decay": 0.5}, {"clip": 9.0}, {"n_warmup": 1}, {"n_validation": 1}):
        with pytest.raises(ValueError, match="belongs to a run with other settings"):
            t.train(tmp_path, **{"max_steps": 2} | other)


# Fingerprints


class OwnSource:
    """A user's source: its description has one parameter, and not what changes with each draw."""

    def __init__(self, n_rows, seed=None):
        self.n_rows = n_rows
        self.n_drawn = 0
        self.rng = np.random.default_rng(seed)

    def draw(self, rng):
        self.n_drawn += 1
        return Dataset("own", rng.normal(size=(self.n_rows, 3)), np.arange(self.n_rows) % 2)


def test_a_source_of_ones_own_is_known_by_its_parameters():
    source = OwnSource(30)
    before = described(source)
    source.draw(np.random.default_rng(0))
    assert before == described(source) == {"class": "OwnSource", "n_rows": 30}


def many():
    """Descriptions of things of every kind."""
    words = np.array(["one", None, 3.0, ("a", 1)], dtype=object)
    things = [
        *[OwnSource(5), EpisodeSampler(), len, c_function, OwnSource, Path("/x/log.csv")],
        *[EarlyStopping(patience=3), set("abcdefgh"), np.float32(0.5), np.inf, words],
        *[torch.ones(20), np.arange(99), pd.DataFrame({"a": [1, 2], "b": ["x", None]})],
        *[Curriculum(ClassSequences(torch.nn.Linear(2, 2), Vectors(3))), object(), range(3)],
        *[Tables({"a": Dataset("a", np.ones((5, 2)), np.arange(5) % 2)}), pd.Series([1.5, 2])],
    ]
    return [described(thing) for thing in things]


def c_function():
    """Its description is its name."""


def tell_many(pipe):
    pipe.send((json.dumps(many()), hash("a")))


@pytest.mark.skipif("PYTHONHASHSEED" in os.environ, reason="sets have the same order everywhere")
def test_fingerprints_are_the_same_in_every_process():
    here, there = CONTEXT.Pipe()
    process = started(tell_many, there)
    there.close()  # so that a process that dies at once does not leave recv waiting
    told, hash_there = here.recv()
    assert ended(process) == 0
    assert hash_there != hash("a")
    assert json.loads(told) == json.loads(json.dumps(many()))
    assert "0x" not in told


@pytest.mark.parametrize(
    "one, other",
    [
        (pd.Series([Decimal("1.1")]), pd.Series([Decimal("1.2")])),
        [pd.Series(pd.period_range(y, periods=2, freq="M")) for y in ("2020", "2021")],
        (b"one", b"other"),
        (date(2020, 1, 1), date(2020, 1, 2)),
        (np.array(["a"], np.dtypes.StringDType()), np.array(["b"], np.dtypes.StringDType())),
        (np.zeros(12), np.zeros((3, 4))),
        (np.zeros(12), np.zeros(12, int)),
        (np.arange(40.0)[::2], np.arange(20.0)),
        (np.array([1, None, 3]), np.array([1, None, 4])),
        (torch.arange(99).bfloat16(), torch.arange(99).bfloat16() + (torch.arange(99) == 98)),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
        (pd.DataFrame(np.zeros(99)), pd.DataFrame(1.0 * (np.arange(99) == 50))),
        (pd.Series(np.arange(9)), pd.Series(np.arange(9)[::-1])),
        (list(range(400)), list(range(399, -1, -1))),
        (slice(None, 5), slice(None, 6)),
        (Decimal("1" * 1001), Decimal("1" * 1000 + "2")),
    ],
)
def test_contents_are_told_apart(one, other):
    # numpy 2.0 crashes on a deep copy of strings.
    again = one.copy() if isinstance(one, np.ndarray) else copy.deepcopy(one)
    assert described(one) == described(again) != described(other)


@pytest.mark.parametrize(
    ("thing", "told"),
    [
        *[(np.nan, "nan"), (np.float32(-np.inf), "-inf"), (np.int8(3), 3), (np.True_, True)],
        *[
            (torch.tensor([0.5, 2.0]), [0.5, 2.0]),
            (torch.tensor(3), 3),
            (np.eye(2), [[1, 0], [0, 1]]),
        ],
        *[(range(2), [0, 1]), ((1, (None, "a")), [1, [None, "a"]]), ({1: b"b"}, {"1": "b'b'"})],
        *[(torch.nn.Linear(2, 2), "Linear"), (np.random.default_rng(0), "Generator")],
        *[(EarlyStopping.on_epoch_end, "EarlyStopping.on_epoch_end"), (Path("/x/log"), "log")],
        (type("Named", (), {"names": ("a", 1)})(), {"class": "Named", "names": ["a", "1"]}),
        (type("Any", (), {"__getattr__": lambda self, name: 5})(), {"class": "Any"}),
        (SimpleNamespace(a=1), "namespace(a=1)"),
        (Decimal, "Decimal"),
    ],
)
def test_settings_are_told_as_they_are(thing, told):
    assert described(thing) == told
    assert difference({"a": described(thing)}, {"a": json.loads(json.dumps(told))}) == ""


def test_objects_within_objects_are_told_down_to_some_depth():
    nested = inner = []
    for _ in range(20):
        inner.append([])
        inner = inner[0]
    assert str(described(nested)) == "[" * 12 + "'list'" + "]" * 12


def test_what_has_no_contents_is_known_by_its_class():
    sparse = torch.eye(2).to_sparse()
    assert described({"sparse": sparse, "nowhere": torch.ones(2, device="meta")}).keys()


def test_tables_of_a_class_of_ones_own_are_told_apart():
    class Mine(Tables):
        def __init__(self, seed):
            super().__init__(tables(seed))

    assert described(Mine(0)) == described(Mine(0)) != described(Mine(1))


def test_a_collection_is_not_read_for_its_fingerprint():
    class Remote(Mapping):
        def __getitem__(self, name):
            raise AssertionError("read")

        def __iter__(self):
            return iter("ab")

        def __len__(self):
            return 2

    assert described(Remote()) == {"class": Remote.__qualname__, "names": ["a", "b"]}


def test_a_long_difference_names_a_few_and_counts_the_others():
    theirs = {str(i): i for i in range(50)}
    assert difference(theirs, {}).endswith("12 was 12 and is None; and 45 more")
    assert difference(theirs, dict(list(theirs.items())[:44])).endswith("; and 1 more")
    long, short = described(list(range(400))), [1, 2]
    for pair, told in (
        ((long, None), "is missing"),
        ((None, long), "is new"),
        ((short, long), "has other contents"),
        (("a" * 99, "b"), f"was '{'a' * 59}... and is 'b'"),
        (([], short), "was [] and is [1, 2]"),
        (([{"b": 1}, {"b": 2}], [{"b": 1}, {"b": 3}]), "(1 (b was 2 and is 3))"),
    ):
        assert difference({"a": pair[0]}, {"a": pair[1]}) == f"a {told}"


def test_a_run_goes_on_from_its_own_weights_in_its_own_folder(tmp_path):
    for name in ("own", "other"):
        checkpoint_file(tmp_path / name).parent.mkdir()
        checkpoint_file(tmp_path / name).touch()
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    begun = checkpoint.Begun(own, "weights", {})
    assert begun.goes_on(own, "weights")
    assert not begun.goes_on(own, "others") and not begun.goes_on(other, "weights")
    assert not begun.goes_on(None, "weights")
    checkpoint_file(own).unlink()
    assert not begun.goes_on(own, "weights")  # there is no checkpoint left to resume


# Several processes


class TwoRanks:
    """The first of two processes; ``other`` is what the second process differs in."""

    rank, count, device = 0, 2, "cpu"

    def __init__(self, other):
        self.other = other

    def prepare(self, module):
        return module

    def mean(self, tensor):
        return tensor

    def gather(self, items):
        return [*items, *({**item, **self.other} for item in items)]


@pytest.mark.parametrize(
    "other, told",
    [
        ({"random_state": 5}, "random_state was 0 and is 5"),
        ({"epochs done": 3}, "epochs done was 0 and is 3"),
        ({"data": {"train": None}}, r"data \(train was .* and is None"),
        ({"tables": "other"}, "tables are the same in another order"),
    ],
)
def test_processes_that_differ_are_told_so(monkeypatch, other, told):
    monkeypatch.setattr(training, "processes", lambda device: TwoRanks(other))
    with pytest.raises(ValueError, match=f"do not share one run: {told}.*that all of them see"):
        t.train()


# Ended by a callback


def test_a_run_that_a_callback_ended_stays_ended(tmp_path):
    stop = {"monitor": "train_loss", "patience": 1, "threshold": 1e9, "threshold_mode": "abs"}

    def train(**other):
        steps = t.At(t.crash)
        callback = EarlyStopping(**stop | other)
        learner, history = t.train(tmp_path, callbacks=[callback, steps])
        return weights_digest(learner), len(history), steps.steps

    with pytest.warns(
        UserWarning, match="interrupt or a callback ended meta-training after 2 of 5"
    ):
        first = train()
    assert first[1:] == (2, 4)
    with pytest.warns(
        UserWarning, match="interrupt or a callback ended meta-training after 2 of 5"
    ):
        assert train() == (*first[:2], 0)
    assert train(patience=5)[1:] == (5, 6)  # other callbacks: the run continues
    assert train(patience=5)[1:] == (5, 0)


def test_a_callback_that_counts_down_is_the_same_when_it_is_made_anew(tmp_path):
    class After(Callback):
        def __init__(self, n_epochs):
            self.n_epochs = n_epochs
            self.other = object()

        def on_epoch_end(self, net, **kwargs):
            self.n_epochs -= 1
            if not self.n_epochs:
                raise KeyboardInterrupt

    for _ in range(2):
        with pytest.warns(UserWarning, match="after 2 of 5"):
            assert len(t.train(tmp_path, callbacks=[After(2)])[1]) == 2


def test_an_interrupt_while_a_checkpoint_is_written_does_not_end_the_run(tmp_path, monkeypatch):
    write = checkpoint.Checkpoint._write

    def interrupted(self, net, **notes):
        write(self, net, **notes)
        if len(net.history) == 2:
            raise KeyboardInterrupt

    for callbacks in (None, [CSVLog(tmp_path / "log.csv")]):
        folder = tmp_path / str(callbacks is None)
        monkeypatch.setattr(checkpoint.Checkpoint, "_write", interrupted)
        with pytest.warns(UserWarning, match="after 2 of 5"):
            t.train(folder, callbacks=callbacks)
        monkeypatch.undo()
        assert len(t.train(folder, callbacks=callbacks)[1]) == 5


# The folder


def test_a_run_does_not_replace_the_checkpoint_of_another(tmp_path):
    class Other(Callback):
        """Starts another run in the same folder."""

        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 2:
                (tmp_path / CHECKPOINT).unlink()
                t.train(tmp_path, random_state=1)

    with pytest.raises(ValueError, match="Another run is writing to .*random_state was 1 and is 0"):
        t.train(tmp_path, callbacks=[Other()])
    assert len(t.train(tmp_path, random_state=1)[1]) == 5
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def train_often_saving(folder):
    return t.train(folder, max_steps=12, eval_every=1)


def test_the_same_run_twice_at_once_does_no_harm(tmp_path):
    both = [started(train_often_saving, tmp_path) for _ in range(2)]
    assert [ended(process) for process in both] == [0, 0]
    assert len(train_often_saving(tmp_path)[1]) == 12


def save_without_end(folder, contents):
    """Put one file after the other in a checkpoint's place, as other runs do."""
    while True:
        for content in contents:
            with locked(folder):
                (folder / "next").write_bytes(content)
                os.replace(folder / "next", folder / CHECKPOINT)


def test_a_checkpoint_is_read_whole_while_another_process_replaces_it(tmp_path):
    t.train(tmp_path)
    path = tmp_path / CHECKPOINT
    with safe_open(path, "pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) + 1 for name in file.keys()}
    contents = [path.read_bytes()]
    del header["sha256"]
    save_file(tensors, path, header | {"sha256": checkpoint._digest(tensors, header)})
    contents.append(path.read_bytes())
    reader = checkpoint.Checkpoint(tmp_path, {}, None)
    other = started(save_without_end, tmp_path, contents)
    try:
        for _ in range(150):
            assert reader._read("cpu")[1].keys() == tensors.keys()
    finally:
        other.kill()
        other.join()


def test_a_full_disk_is_an_os_error_and_leaves_nothing_half_done(tmp_path, monkeypatch):
    def full(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match=f"{CHECKPOINT} cannot be written .*No space.*make room"):
        t.train(tmp_path)
    assert not list(tmp_path.iterdir())


def test_weights_on_a_full_disk_are_an_os_error_that_names_them(tmp_path, monkeypatch):
    from sklearn_meta.weights import save_learner

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="mine.safetensors cannot be written .*No space.*make room"):
        save_learner(load_learner("prior"), tmp_path / "mine.safetensors")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("file", "file is not a folder"),
        ("file/below", "cannot be written"),
        ("folder", "is not a file"),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_before_training(tmp_path, place, told):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / CHECKPOINT).mkdir(parents=True)
    steps = t.At(t.crash)
    with pytest.raises(OSError, match=f"checkpoint_dir: .*{told}"):
        t.train(tmp_path / place, callbacks=[steps])
    assert steps.steps == 0


def test_a_log_that_cannot_be_written_is_told_before_training(tmp_path):
    for path in (tmp_path / "nowhere" / "log.csv", tmp_path):
        steps = t.At(t.crash)
        with pytest.raises(OSError, match="CSVLog: .*(cannot be written|is not a file)"):
            t.train(callbacks=[CSVLog(path), steps])
        assert steps.steps == 0


def test_a_log_on_a_full_disk_costs_no_training(tmp_path, monkeypatch):
    replace, tries = os.replace, []

    def full_at_first(source, target):
        tries.append(target)
        if len(tries) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full_at_first)
    log = tmp_path / "log.csv"
    with pytest.warns(UserWarning, match="CSVLog: .*log.csv cannot be .*No space.*make room"):
        net = t.train(callbacks=[CSVLog(log)])
    assert len(log.read_text().splitlines()) > 2  # all epochs, and the header
    assert list(tmp_path.iterdir()) == [log] and net


@pytest.mark.parametrize(
    ("metadata", "missing"),
    [
        (None, "schedule"),
        ({"format": "pt"}, "schedule"),
        ({"schedule": "{}", "history": "[]"}, "best_loss"),
    ],
)
def test_weights_in_the_place_of_a_checkpoint_are_damaged(tmp_path, metadata, missing):
    save_file({"a": torch.ones(2)}, tmp_path / CHECKPOINT, metadata)
    with pytest.raises(ValueError, match=f"is damaged .*it lacks .*{missing}.*remove it"):
        t.train(tmp_path)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        *(
            ({key: text}, None)
            for key in ("schedule", "history")
            for text in ("5", "{", "[" * 9**5)
        ),
        *((change, None) for change in ({"schedule": "[]"}, {"history": "{}"})),
        *(({"best_loss": text}, None) for text in ("[]", "{")),
        ({}, "scaler.x"),  # as from a newer version
    ],
)
def test_a_checkpoint_that_tells_other_things_is_damaged(tmp_path, change, name):
    """Checkpoints without a sha256 were written by an earlier version."""
    t.train(tmp_path, max_steps=2)
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    del header["sha256"]
    assert all("batches" not in epoch for epoch in json.loads(header["history"]))  # thousands
    more = {} if name is None else {name: torch.ones(1)}
    save_file(tensors | more, tmp_path / CHECKPOINT, header | change)
    with pytest.raises(ValueError, match="is damaged .*remove it"):
        t.train(tmp_path, max_steps=2)


def test_equal_bytes_of_another_shape_or_dtype_have_another_digest():
    alike = torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.int32)
    assert len({checkpoint._digest({"a": tensor}, {}) for tensor in alike}) == 3


def test_a_tilde_is_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    t.train("~/x", max_steps=2, callbacks=[CSVLog("~/log.csv")])
    assert (tmp_path / "home" / "x" / CHECKPOINT).is_file() and not Path("~").exists()
    assert (tmp_path / "home" / "log.csv").is_file()


def test_who_may_read_a_new_file_may_read_a_checkpoint(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.partial").touch(mode=0o600)  # left by a killed save
    t.train(tmp_path / "run", max_steps=2)
    (tmp_path / "new").touch()
    expected = (tmp_path / "new").stat().st_mode
    assert (tmp_path / "run" / CHECKPOINT).stat().st_mode == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_lock_does_not_outlive_its_block_in_a_child(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    told, tell = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.read(told, 1)
            os._exit(0)
    place = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if another process holds the lock
    os.write(tell, b"!")
    os.waitpid(child, 0)
    for number in (place, told, tell):
        os.close(number)


def test_where_there_are_no_locks_nothing_is_locked(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def refused(*args):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "flock", refused)
    with locked(tmp_path):
        (tmp_path / "file").touch()


# Numbers of NumPy and torch


def test_numbers_of_numpy_and_torch_are_settings_and_history(tmp_path):
    class Note(Callback):
        def on_epoch_end(self, net, **kwargs):
            net.history.record("numpy", np.float32(len(net.history)))
            net.history.record("torch", torch.tensor(1.5))
            net.history.record("array", np.arange(3))

    numbers = {
        **{"random_state": np.int64(1), "batch_size": np.int64(2), "max_steps": np.int64(4)},
        **{"learning_rate": np.float32(2**-7), "eval_every": np.int32(2)},
    }
    plain = {name: value.item() for name, value in numbers.items()}
    (learner, history), whole = t.train(tmp_path, callbacks=[Note()], **numbers), t.train(**plain)
    t.assert_same((learner, history), whole)
    _, again = t.train(tmp_path, **plain)  # the same settings
    # The last checkpoint was written before the callback saw the last epoch.
    assert again[0, ("numpy", "torch", "array")] == (1, 1.5, [0, 1, 2]) and len(again) == 2


def test_a_checkpoint_stays_where_training_began_whatever_a_callback_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    train("run", max_steps=4, callbacks=[At(lambda: os.chdir(tmp_path / "elsewhere"), epoch=1)])
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in (tmp_path / "run").iterdir()] == [CHECKPOINT]


def test_of_equal_losses_the_first_is_the_best():
    learner = t.new_learner()
    checkpoint = Checkpoint(None, {}, SimpleNamespace(learner=learner))
    checkpoint.begin(1.0)
    first = checkpoint.best
    checkpoint.complete = {}
    checkpoint._keep_if_best(1.0)
    assert checkpoint.best is first and checkpoint.best_is_start
    checkpoint._keep_if_best(0.5)
    assert checkpoint.best == {} and not checkpoint.best_is_start


def test_a_run_that_ended_before_its_first_checkpoint_leaves_none(tmp_path):
    Checkpoint(tmp_path, {}, None).end({"stopped": 1})
    assert not list(tmp_path.iterdir())


def test_only_weights_that_were_trained_before_have_a_first_loss():
    _, history = t.train()
    assert "start_loss" not in history[0]
