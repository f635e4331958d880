"""The command line: what commands write and where, their exit codes, and runs that resume."""

import hashlib
import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from processes import ended, started
from sklearn.datasets import load_iris, load_wine

import sklearn_meta
from sklearn_meta.__main__ import main
from sklearn_meta.commands import COMMANDS, meta_fit
from sklearn_meta.evaluation import peers
from sklearn_meta.learner import Learner
from sklearn_meta.weights import load_learner, save_learner

ROOT = Path(__file__).parents[1]
CONFIG = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4, "last_width": 2}
QUICK = ["--n-shots", "1,3", "--n-unlabelled", "5", "--n-episodes", "1"]


def call(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(autouse=True, scope="module")
def here(tmp_path_factory):
    """Make a folder with iris and wine in `tables` and small weights `tiny` the current one."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("here")
    (folder / "tables").mkdir()
    load_wine(as_frame=True).frame.to_parquet(folder / "tables" / "wine.parquet")
    iris = load_iris(as_frame=True)
    flowers = np.array(iris.target_names)[iris.target]
    iris.data.assign(flower=flowers).to_csv(folder / "tables" / "iris.csv", index=False)
    torch.manual_seed(0)
    save_learner(Learner(backbone_config=CONFIG), folder / "tiny.safetensors")
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def meta_fit_prior(output, *more, collections=()):
    few = ("--max-steps", 4, "--batch-size", 2, "--n-unlabelled", 5, "--backbone")
    return [
        "meta-fit",
        "prior",
        *collections,
        "--quiet",
        "--output",
        output,
        *few,
        "tiny.safetensors",
        *more,
    ]


# Real processes


def test_help_comes_without_torch():
    code = "import sys, runpy; sys.argv[1:] = ['meta-fit', '--help']\ntry: runpy.run_module("
    code += "'sklearn_meta', run_name='__main__')\nfinally: print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "examples:" in run.stdout and run.stdout.endswith("False\n")


def test_evaluate_pipes_json(here):
    """Run it as a user does, but on one thread, as the tests are run."""
    command = [sys.executable, "-m", "sklearn_meta", "evaluate", "tables", *QUICK]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [*command, "--json", "--peers", "1-NN"],
        **{"cwd": here, "env": environment, "capture_output": True, "text": True},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["collection"] == "tables" and found["failures"] == []
    assert len(found["records"]) == 2 * 2 * 2
    assert {line["estimator"] for line in found["summary"]} == {"default", "1-NN"}
    assert "evaluate: 100%" in run.stderr


def test_an_error_is_one_line(capsys):
    assert call("evaluate", "tables", "--weights", "none such") == 1
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert stderr.startswith("sklearn-meta evaluate: error: ") and "none such" in stderr


def call_that_may_be_interrupted(folder, arguments):
    # Processes started in a shell's background inherit that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    with open("stdout", "w") as sys.stdout, open("stderr", "w") as sys.stderr:
        sys.exit(call(*arguments))


def test_interrupted_meta_fit_goes_on(here):
    settings = ("--max-steps", 10, "--eval-every", 1, "--seed", 3)
    again = meta_fit_prior("half.safetensors", *settings, "--checkpoint-dir", "half")
    process = started(call_that_may_be_interrupted, here, again)
    checkpoint = here / "half" / "checkpoint.safetensors"
    while not checkpoint.exists():
        assert process.is_alive(), (here / "stderr").read_text()
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    assert ended(process) == 130
    stdout, stderr = ((here / name).read_text() for name in ("stdout", "stderr"))
    assert stdout == "" and "run the same command again" in stderr
    assert "Traceback" not in stderr and not (here / "half.safetensors").exists()
    before = checkpoint.stat().st_mtime_ns
    assert call(*again) == 0
    assert checkpoint.stat().st_mtime_ns > before
    assert call(*meta_fit_prior("whole.safetensors", *settings)) == 0
    half, whole = ((here / f"{name}.safetensors").read_bytes() for name in ("half", "whole"))
    assert half == whole


@pytest.mark.parametrize(
    ("folder", "expected"),
    [(None, "nothing is saved yet"), ("new", "nothing is saved yet"), ("begun", "to go on")],
)
def test_an_interrupted_meta_fit_says_whether_it_can_go_on(tmp_path, capsys, folder, expected):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.safetensors").touch()
    chosen = folder and tmp_path / folder
    args = Namespace(checkpoint_dir=chosen, parser=Namespace(prog="sklearn-meta meta-fit"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit, match="130"), meta_fit._interruptible(args):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert expected in capsys.readouterr().err


def test_a_meta_fit_in_the_background_of_a_script_is_not_interrupted():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does
    try:
        with meta_fit._interruptible(None):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# meta-fit


def test_a_name_that_excludes_nothing_is_told(here, capsys):
    command = ("evaluate", "./tables", "--exclude", "irsi,wine,61", "--peers", "none")
    assert call(*command, "--n-episodes", "1", "--n-shots", "1") == 0
    assert "--exclude irsi: tables has nothing of that name\n" in capsys.readouterr().err


def test_names_may_have_spaces_between_them(here, capsys):
    command = ("evaluate", "tables", "--exclude", "nothing, wine", "--peers", "1-NN, RandomForest")
    assert call(*command, "--n-episodes", "1", "--n-shots", "1", "--json") == 0
    captured = capsys.readouterr()
    assert "left out: wine: excluded" in captured.err
    assert {"1-NN", "RandomForest"} < {r["estimator"] for r in json.loads(captured.out)["records"]}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("meta-fit", "tables", "--estimator", "MetaLSTMTagger", "--output", "x.safetensors"),
            "MetaLSTMTagger learns from texts, but collections hold tables",
        ),
        (("evaluate", "tables", "--n-shots", "0"), "--n-shots must be 1 or more, got 0"),
        (
            ("meta-fit", "tables", "--estimator", "AmortizedGMM", "--output", "x.safetensors")
            + ("--retarget", "0.5"),
            "AmortizedGMM reads no targets: leave out --retarget",
        ),
        (
            ("meta-fit", "tables", "--estimator", "AmortizedGMM", "--output", "x.safetensors")
            + ("--n-shots", "3"),
            "AmortizedGMM has no --n-shots",
        ),
        (("meta-fit", "tables", "--output", "folder.safetensors"), "is a folder"),
    ],
)
def test_what_cannot_be_is_a_wrong_argument(here, capsys, command, message):
    (here / "folder.safetensors").mkdir(exist_ok=True)
    with pytest.raises(SystemExit) as end:
        call(*command)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_meta_fit_saves_weights_with_a_card(here, capsys):
    more = ("--validation", "./tables", "--exclude", "iris", "--n-shots", "1,2", "--json")
    more += ("--optimizer", "muon")
    assert call(*meta_fit_prior("mine.safetensors", *more, collections=["tables@0.7"])) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert "left out: iris: excluded" in captured.err
    assert "--exclude" not in captured.err
    card = json.loads((here / "mine.json").read_text())
    sha256 = hashlib.sha256((here / "mine.safetensors").read_bytes()).hexdigest()
    assert result["sha256"] == card["sha256"] == sha256
    assert result["steps"] == 4 and card["seed"] == 0
    assert card["data"] == [
        {"collection": "prior", "share": 1.0},
        {"collection": "tables", "share": 0.7, "datasets": ["wine"]},
    ]
    assert card["datasets"] == ["TablePrior", "wine"]
    assert card["recipe"]["n_shots"] == [1, 2] and card["recipe"]["learning_rate"] == 1e-3
    assert card["recipe"]["optimizer"] == "muon"
    assert card["validation"]["tables"] == "tables"
    assert 0 < card["validation"]["loss"] and 0 <= card["validation"]["accuracy"] <= 1
    changed = load_learner(here / "mine.safetensors").state_dict()
    started = load_learner(here / "tiny.safetensors").state_dict()
    assert any(not torch.equal(changed[name], started[name]) for name in started)
    assert call("evaluate", "tables", *QUICK, "--weights", "mine.safetensors", "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "warning: mine.safetensors was meta-trained on 1 of these tables"
    )
    assert captured.err.count("\n") == 1 and "'wine'" in captured.err
    assert captured.out.count("mine.safetensors ") == 2 == captured.out.count("GaussianProcess ")


@pytest.mark.parametrize("form", ["json", "toml"])
def test_a_recipe_holds_arguments_and_flags_win(here, capsys, form):
    text = {
        "json": '{"collection": "prior", "max_steps": 4, "batch-size": 9, "n_unlabelled": [5], '
        '"backbone": "tiny.safetensors", "quiet": true, "offline": false}',
        "toml": 'collection = ["prior"]\nmax_steps = 4\nbatch-size = 9\nn_unlabelled = 5\n'
        'backbone = "tiny.safetensors"\nquiet = true\noffline = false',
    }[form]
    Path(f"recipe.{form}").write_text(text)
    call(*meta_fit_prior("plain.safetensors"))
    output = f"{form}.safetensors"
    recipe = ("meta-fit", "--recipe", f"recipe.{form}", "--output", output, "--batch-size", 2)
    assert call(*recipe) == 0
    assert Path(output).read_bytes() == Path("plain.safetensors").read_bytes()
    assert "100%" not in capsys.readouterr().err


def test_what_weights_have_seen_is_told_of_those_that_begin_from_them(here):
    first = meta_fit_prior("first.safetensors", "--exclude", "iris", collections=["tables"])
    assert call(*first) == 0
    begun = ("--backbone", "first.safetensors")
    assert call(*meta_fit_prior("second.safetensors", *begun)) == 0
    assert json.loads(Path("second.json").read_text())["datasets"] == ["TablePrior", "wine"]


def test_the_recipe_of_a_card_trains_the_same_weights():
    more = ("--exclude", "iris", "--n-shots", "1,2", "--seed", 5)
    assert call(*meta_fit_prior("first.safetensors", *more, collections=["tables@0.7"])) == 0
    recipe = json.loads(Path("first.json").read_text())["recipe"]
    Path("of_card.json").write_text(json.dumps(recipe))
    assert call("meta-fit", "--recipe", "of_card.json", "--output", "second.safetensors") == 0
    assert Path("first.safetensors").read_bytes() == Path("second.safetensors").read_bytes()
    assert json.loads(Path("second.json").read_text())["recipe"] == recipe


@pytest.mark.parametrize(
    "estimator, collection",
    [("AmortizedGMM", "prior"), ("MANNRegressor", "prior"), ("AmortizedOutlierDetector", "tables")],
)
def test_the_card_tells_what_other_estimators_were_trained_with(here, estimator, collection):
    output = f"{estimator}.safetensors"
    few = ("--max-steps", 1, "--output", output, "--estimator", estimator, "--quiet")
    assert call("meta-fit", collection, *few) == 0
    recipe = json.loads(Path(f"{estimator}.json").read_text())["recipe"]
    own = inspect.signature(getattr(sklearn_meta, estimator).meta_fit).parameters
    for name in {"batch_size", "learning_rate", "eval_every"} & own.keys():
        assert recipe[name] == own[name].default
    Path("of_other.json").write_text(json.dumps(recipe))
    again = ("meta-fit", "--recipe", "of_other.json", "--output", "again.safetensors", "--quiet")
    assert call(*again) == 0
    assert Path(output).read_bytes() == Path("again.safetensors").read_bytes()


def test_an_output_that_cannot_be_written_is_told_before_training(capsys):
    assert call(*meta_fit_prior("/proc/w.safetensors", "--max-steps", 10**9)) == 1
    assert call(*meta_fit_prior("x.safetensors", "--checkpoint-dir", "tiny.safetensors")) == 1
    assert capsys.readouterr().err.count("error: ") == 2


@pytest.mark.parametrize(
    "text, code, message",
    [
        ("{", 1, "is not valid JSON, or TOML"),
        ("[1]", 1, "settings by name, got a list"),
        ('{"max_stepz": 3}', 2, "has unknown settings: --max-stepz=3"),
        ('{"learning rate": 0.5}', 2, "has unknown settings: --learning rate=0.5"),
        ('{"collection": "prior", "note": "my run"}', 2, "has unknown settings: --note=my run"),
        ('{"training": {"max_steps": 3}}', 2, "has unknown settings: --training={'max_steps': 3}"),
        ('{"recipe": "other.json"}', 2, "has unknown settings: --recipe=other.json"),
        (
            '{"collection": ["tables", "prior"], "checkpoint_dir": true}',
            2,
            "--checkpoint-dir: expected one argument",
        ),
        ('{"help": true}', 2, "has unknown settings: --help=True"),
        ('{"max_steps": 0.5}', 2, "--max-steps"),
        ('{"exclude": ["a,b"]}', 2, "an item of exclude holds a comma"),
        ("[" * 100_000, 1, "is not valid JSON, or TOML"),
        (None, 1, "No such file"),
    ],
)
def test_a_recipe_that_is_wrong(tmp_path, capsys, text, code, message):
    file = tmp_path / "recipe.json"
    if text is not None:
        file.write_text(text)
    try:
        found = call("meta-fit", "--recipe", file)
    except SystemExit as end:
        found = end.code
    assert found == code
    assert message in capsys.readouterr().err


def test_outliers_have_no_shots(capsys):
    with pytest.raises(SystemExit):
        call(
            "meta-fit",
            "tables",
            "--output",
            "no.safetensors",
            "--n-shots=3",
            "--estimator=AmortizedOutlierDetector",
        )
    assert "AmortizedOutlierDetector has no --n-shots" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting, message",
    [
        ("--optimizer=foo", "optimizer must be one of"),
        ("--learning-rate=nan", "learning_rate == nan, must be finite"),
        ("--ema-decay=2", "ema_decay == 2.0, must be < 1"),
        ("--n-shots=0", "n_shots must be a whole number of 1 or more"),
        ("--seed=-1", "random_state"),
        ("--device=foo", "foo"),
    ],
)
def test_a_wrong_setting_is_told_before_tables_are_loaded(monkeypatch, capsys, setting, message):
    def load(*args):
        raise AssertionError("loaded")

    monkeypatch.setattr("sklearn_meta.commands.meta_fit.open_collection", load)
    assert call("meta-fit", "tables", "--output", "no.safetensors", setting) == 1
    assert message in capsys.readouterr().err
    assert not Path("no.safetensors").exists()


def test_a_recipe_may_begin_with_the_mark_of_some_editors(capsys):
    Path("marked.json").write_text(json.dumps({"collection": "prior"}), encoding="utf-8-sig")
    with pytest.raises(SystemExit, match="2"):
        call("meta-fit", "--recipe", "marked.json")
    assert "output is needed" in capsys.readouterr().err


def test_a_recipe_is_not_overwritten_by_the_card(capsys):
    text = '{"collection": "prior", "max_steps": 1, "eval_every": 1}'
    Path("mine.json").write_text(text)
    with pytest.raises(SystemExit):
        call("meta-fit", "--recipe", "mine.json", "--output", "mine.safetensors")
    assert (
        "mine.json is not a card of weights, and would be replaced by one"
        in capsys.readouterr().err
    )
    assert Path("mine.json").read_text() == text


def test_a_recipe_that_is_no_text_is_named(tmp_path, capsys):
    (tmp_path / "recipe.json").write_bytes(b"\xff")
    assert call("meta-fit", "--recipe", tmp_path / "recipe.json") == 1
    assert "recipe.json is not valid JSON, or TOML" in capsys.readouterr().err


def test_whole_numbers_and_empty_lists_of_a_recipe(capsys):
    text = (
        '{"collection": "prior", "max_steps": 1.0, "exclude": [], "backbone": "tiny.safetensors"}'
    )
    Path("whole.json").write_text(text)
    assert call("meta-fit", "--recipe", "whole.json", "--output", "w.safetensors", "--quiet") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "more, message",
    [
        (("--retarget", 2), "--retarget must be a probability from 0 to 1, got 2"),
        (("--retarget", 0.5), "--retarget applies to named tables"),
        (("--exclude", "iris"), "--exclude applies to named tables"),
        (("--n-rows", "5,10"), "--n-rows applies to named tables"),
    ],
)
def test_what_would_do_nothing_is_refused(capsys, more, message):
    with pytest.raises(SystemExit):
        call(*meta_fit_prior("nothing.safetensors", *more))
    assert message in capsys.readouterr().err


def test_a_folder_may_be_at_home(monkeypatch):
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert call("evaluate", "~/tables", *QUICK, "--peers", "none", "--quiet") == 0


def test_cards_are_told_whatever_they_lack(capsys):
    text = json.loads(Path("tiny.json").read_text())
    del text["n_parameters"]
    Path("bare.json").write_text(json.dumps(text))
    Path("bare.safetensors").write_bytes(Path("tiny.safetensors").read_bytes())
    assert call("info", "bare.safetensors") == 0
    assert "parameters" in capsys.readouterr().out


def test_settings_of_meta_fit_are_all_there():
    parameters = inspect.signature(sklearn_meta.MetaSemiSupervisedClassifier.meta_fit).parameters
    given = {"self", "datasets", "validation_datasets", "callbacks", "verbose"}
    defaults = {name: p.default for name, p in parameters.items() if name not in given}
    assert {name: default for name, (_, default, _) in meta_fit.SETTINGS.items()} == defaults


# evaluate and info


def test_evaluate_refuses_a_device_before_it_begins(here, capsys):
    assert call("evaluate", "tables", *QUICK, "--device", "gpu") == 1
    assert "device='gpu' cannot be used here" in capsys.readouterr().err


def test_evaluate_tells_what_failed(here, capsys):
    (here / "spoilt").mkdir()
    (here / "spoilt" / "bad.parquet").write_bytes(b"PAR1")
    assert call("evaluate", "spoilt", "--quiet") == 1
    bad, error = capsys.readouterr().err.splitlines()
    assert bad.startswith("failed: bad: ") and "error: Nothing in spoilt could be" in error
    wine = (here / "tables" / "wine.parquet").read_bytes()
    (here / "spoilt" / "wine.parquet").write_bytes(wine)
    weights = ("--weights", "default", "--weights", "tiny.safetensors", "--peers", "none")
    assert call("evaluate", "spoilt", *QUICK, *weights) == 0
    captured = capsys.readouterr()
    assert "failed: bad: " in captured.err and "bad" not in captured.out
    assert captured.out.count("tiny.safetensors ") == 2 and "1-NN" not in captured.out
    assert captured.out.endswith("\n1 failures, listed on stderr\n")


def test_evaluate_tells_of_tables_that_weights_were_trained_on(here, capsys):
    learner = load_learner("tiny.safetensors")
    save_learner(learner, "seen.safetensors", datasets=["wine", "other"])
    few = (*QUICK, "--quiet", "--peers", "none", "--weights", "tiny.safetensors")
    assert call("evaluate", "tables", *few) == 0
    assert capsys.readouterr().err == ""
    assert call("evaluate", "tables", *few, "--weights", "seen.safetensors") == 0
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("warning: seen.safetensors was meta-trained on 1 of these tables")
    assert "'wine'" in told


@pytest.mark.parametrize("datasets", [5, None, "wine", [["wine"], {}, 3]])
def test_a_card_whose_datasets_are_no_names_tells_of_none(here, capsys, datasets):
    save_learner(load_learner("tiny.safetensors"), "odd.safetensors", datasets=datasets)
    few = (*QUICK, "--quiet", "--peers", "none", "--weights", "odd.safetensors")
    assert call("evaluate", "tables", *few) == 0
    assert capsys.readouterr().err == ""


def test_what_strangers_write_moves_no_terminal(here, capsys):
    """Cards and names of files come from strangers."""
    strange = "a\x1b[2J\x1b]0;b\x07\u202ec\rd"
    shown = r"a\x1b[2J\x1b]0;b\x07\u202ec d"
    learner = load_learner("tiny.safetensors")
    save_learner(learner, "odd.safetensors", data=strange, **{strange: [1, {strange: 2}]})
    assert call("info", "odd.safetensors") == 0
    told = capsys.readouterr().out
    assert f"  data: {shown}\n" in told and f"  {shown}: 1; {shown} 2\n" in told
    (here / "odd").mkdir()
    (here / "odd" / "a\x1b[2J.csv").write_text("x,y\n1,2\n")
    assert call("evaluate", "odd", "--quiet") == 1
    told += capsys.readouterr().err
    assert r"a\x1b[2J" in told and all(c.isprintable() or c == "\n" for c in told)


def test_evaluate_takes_splits_and_filters(here, capsys):
    index = pd.DataFrame({"name": ["iris", "wine"], "split": ["train", "test"]})
    (here / "indexed").mkdir()
    index.to_csv(here / "indexed" / "index.csv", index=False)
    for file in (here / "tables").iterdir():
        (here / "indexed" / file.name).write_bytes(file.read_bytes())
    options = (*QUICK, "--peers", "none", "--json", "--weights", "tiny.safetensors")
    assert call("evaluate", "indexed#split=test", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {record["dataset"] for record in found["records"]} == {"wine"}
    assert found["collection"] == "indexed#split=test"
    assert call("evaluate", "indexed", *options, "--n-columns", "2,4") == 0
    captured = capsys.readouterr()
    assert {r["dataset"] for r in json.loads(captured.out)["records"]} == {"iris"}
    assert "left out: wine: 13 columns" in captured.err
    assert call("evaluate", "indexed", *options, "--n-rows", "2,4") == 1
    assert "None of the 2 tables of indexed fits" in capsys.readouterr().err


def test_info_tells_of_weights_versions_and_device(capsys):
    assert call("info") == 0
    text = capsys.readouterr().out
    card, version = load_learner("default").card, torch.__version__.split("+")[0]
    assert card["sha256"] in text and f"torch {version}" in text and "device" in text
    assert f"datasets: ({len(card['datasets'])})" in text  # for many names, their number
    assert call("info", "tiny.safetensors", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == {"tiny.safetensors": load_learner("tiny.safetensors").card}
    assert found["versions"]["sklearn_meta"] == sklearn_meta.__version__
    assert found["device"]["device"] in ("cpu", "cuda")


def test_nobody_need_read_what_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python sets it if it is closed
    assert call("info", "tiny.safetensors") == 0
    monkeypatch.setattr(sys, "stderr", None)
    assert call(*meta_fit_prior("unseen.safetensors")) == 0
    assert load_learner("unseen.safetensors").card


def call_with_stderr_closed(folder, arguments):
    """stderr is closed from the start, so the next file that is opened takes its number."""
    os.chdir(folder)
    os.close(2)
    sys.stderr = None
    with open("stdout", "w") as sys.stdout:
        sys.exit(call(*arguments))


def test_stdout_has_the_result_alone_whoever_reads_stderr(here):
    """stderr is closed, as under some daemons, or a pipe whose reader has gone."""
    arguments = ["evaluate", "tables", *QUICK]
    arguments += ["--json", "--peers", "1-NN", "--exclude", "no such"]
    assert ended(started(call_with_stderr_closed, here, arguments)) == 0
    closed = (here / "stdout").read_bytes()
    reader, writer = os.pipe()
    os.close(reader)
    unread = subprocess.run(
        [sys.executable, "-m", "sklearn_meta", *arguments],
        cwd=here,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        **{"stdout": subprocess.PIPE, "stderr": writer},
    )
    os.close(writer)
    assert unread.returncode == 0
    for stdout in (closed, unread.stdout):
        assert len(json.loads(stdout)["records"]) == 2 * 2 * 2


def test_names_that_stdout_has_no_signs_for_are_told(monkeypatch):
    shutil.copy("tiny.safetensors", "tiny_\u2126.safetensors")
    shutil.copy("tiny.json", "tiny_\u2126.json")
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert call("info", "tiny_\u2126.safetensors") == 0
    assert b"tiny_\\u2126.safetensors: " in stdout.buffer.getvalue()


def test_info_refuses_damaged_weights(here, capsys):
    (here / "bad.safetensors").write_bytes((here / "tiny.safetensors").read_bytes() + b" ")
    (here / "bad.json").write_bytes((here / "tiny.json").read_bytes())
    assert call("info", "bad.safetensors") == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "bad.safetensors is damaged" in captured.err


# OpenML


@pytest.fixture
def openml_options(tmp_path):
    pytest.importorskip("openml")
    from openml_server import SERVED, OpenMLServer

    with OpenMLServer(SERVED, {"99": [1, 2], "50": [1, 7], "51": [7]}) as server:
        yield server, ("--server", server.url, "--cache-directory", tmp_path, "--n-retries", 0)


def test_fetch_warms_the_cache_for_the_other_commands(openml_options, capsys):
    server, options = openml_options
    assert call("fetch", "openml:99", *options, "--quiet") == 0
    assert capsys.readouterr().out.startswith("openml:99: 2 tables in ")
    server.stop()
    assert call("fetch", "99", *options, "--offline", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["openml:99"]["datasets"] == ["iris", "wine"]
    more = ("--exclude", "12", *options)
    assert call(*meta_fit_prior("suite.safetensors", *more, collections=["openml:99@0.5"])) == 0
    data = json.loads(Path("suite.json").read_text())["data"]
    assert data[1] == {"collection": "openml:99", "share": 0.5, "datasets": ["iris"]}
    weights = ("--weights", "suite.safetensors", "--peers", "1-NN")
    assert call("evaluate", "openml:99", *QUICK, *weights, *options, "--offline") == 0
    assert "suite.safetensors " in capsys.readouterr().out


def test_fetch_tells_what_is_skipped(openml_options, capsys):
    _, options = openml_options
    assert call("fetch", "50", "--json", *options) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)["openml:50"]
    assert found["datasets"] == ["iris"] and len(found["skipped"]) == 1
    assert "warning: Skipped: " in captured.err
    assert call("fetch", "51", *options) == 1
    assert "error: No table of openml:51" in capsys.readouterr().err
    assert call("fetch", "--tasks", "1", *options, "--quiet") == 0
    assert capsys.readouterr().out.startswith("tasks: 1 tables in ")


@pytest.mark.parametrize("suites", [("nosuch", "99"), ("99", "nosuch")])
def test_a_suite_that_cannot_be_had_does_not_stop_the_others(openml_options, capsys, suites):
    _, options = openml_options
    assert call("fetch", *suites, *options, "--quiet", "--json") == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["openml:99"]["datasets"] == ["iris", "wine"]
    assert "failed: openml:nosuch: OpenML suite" in captured.err
    assert captured.err.endswith("error: No table of openml:nosuch could be fetched.\n")


def test_what_cannot_be_fetched_is_tried_once(openml_options, capsys):
    server, options = openml_options
    server.fail("/data/download/dataset_12", "error")
    assert call(*meta_fit_prior("some.safetensors", *options, collections=["openml:99"])) == 0
    assert "Skipped: Dataset 'wine'" in capsys.readouterr().err
    assert server.asked.count("/data/download/dataset_12.arff") == 1


# Wrong arguments and errors


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "COMMAND"),
        (["train"], "invalid choice: 'train'"),
        (["meta-fit", "prior"], "output is needed"),
        (["meta-fit", "--output", "a.safetensors"], "collection is needed"),
        (["meta-fit", "prior", "--output", "a.pt"], "must end in .safetensors"),
        (["meta-fit", "prior", "--output", ".safetensors"], "must end in .safetensors"),
        (["meta-fit", "prior", "--estimator", "Tree"], "invalid choice: 'Tree'"),
        (
            [
                "meta-fit",
                "prior",
                "--estimator",
                "SetTransformerRegressor",
                "--output",
                "a.safetensors",
            ],
            "SetTransformerRegressor is trained by fit",
        ),
        (["meta-fit", "prior@0", "--output", "a.safetensors"], "share must be a positive"),
        (["meta-fit", "tables#part=1"], "split=NAME or task=NAME"),
        (["meta-fit", "prior", "--max-steps", "0"], "a positive number is needed"),
        (["meta-fit", "prior", "--max", "5"], "unrecognized arguments: --max 5\n"),
        (["meta-fit", "prior", "--seed", "1", "tables"], "tables; put names together"),
        (meta_fit_prior("a.safetensors", "--n-unlabelled", "1,2,3"), "--n-unlabelled takes"),
        (["evaluate"], "collection"),
        (["evaluate", "prior"], "prior is endless and its tables have no names"),
        (["evaluate", "tables", "--n-shots", "1,x"], "such as 1,3,5 are needed, got '1,x'"),
        (["evaluate", "tables", "--n-rows", "9,2"], "smallest and largest"),
        (["evaluate", "tables", "--peers", "2-NN"], "unknown peers ['2-NN']: choose from Label"),
        (["fetch"], "a suite or --tasks is needed"),
        # An unset variable in a shell would leave these, which would name the current folder.
        (["meta-fit", "", "--output", "a.safetensors"], "collection: a name is needed, got ''"),
        (["meta-fit", "@0.5", "--output", "a.safetensors"], "a name is needed, got ''"),
        (["meta-fit", "prior", "--validation", ""], "--validation: a name is needed, got ''"),
        (["meta-fit", "prior", "--checkpoint-dir", ""], "--checkpoint-dir: a name is needed"),
        (["meta-fit", "prior", "--cache-directory="], "--cache-directory: a name is needed"),
        (["evaluate", ""], "collection: a name is needed, got ''"),
        (["evaluate", "#split=test"], "collection: a name is needed, got ''"),
        (["evaluate", "openml:"], "collection: a name is needed, got ''"),
        (["fetch", "openml:"], "suite: a name is needed, got ''"),
        (["fetch", "99", "--server", ""], "--server: a name is needed, got ''"),
    ],
)
def test_wrong_arguments_end_with_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        call(*arguments)
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err


def test_weights_are_not_called_as_a_peer_is(here, capsys):
    sklearn_meta.MetaSemiSupervisedClassifier("tiny.safetensors").save_pretrained("1-NN")
    with pytest.raises(SystemExit):
        call("evaluate", "tables", "--weights", "1-NN", "--peers", "1-NN")
    assert (
        "weights and peers have the same names, ['1-NN']: rename the weights"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["evaluate", "nowhere"], "There is no folder nowhere"),
        (["evaluate", "tables", "--weights", "none"], "'none'"),
        (["evaluate", "tables#split=test"], "No index.csv"),
        (["info", "none"], "'none'"),
        (["meta-fit", "nowhere", "--output", "a.safetensors"], "There is no folder nowhere"),
        (meta_fit_prior("a.safetensors", "--backbone", "none"), "'none'"),
        (meta_fit_prior("tiny.json/a.safetensors"), "tiny.json"),
    ],
)
def test_errors_end_with_1_and_one_line(capsys, arguments, message):
    assert call(*arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith(f"sklearn-meta {arguments[0]}: error: ")
    assert message in captured.err


def test_the_console_script_is_declared():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"sklearn-meta": "sklearn_meta.__main__:main"}


def test_help_names_every_command_and_peers(capsys):
    for arguments in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit) as end:
            call(*arguments, "--help")
        assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(f"usage: sklearn-meta {name} " in text for name in COMMANDS)
    assert text.count("examples:") == len(COMMANDS)
    assert set(peers()) >= {"LabelSpreading", "RandomForest"}  # the examples name them


def call_on_a_small_disk(folder, arguments):
    """Call the command in a folder where no file may be larger than 4 kB."""
    import resource

    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with open("stderr", "w") as sys.stderr:
        sys.exit(call(*arguments))


def test_a_disk_that_is_full_is_told_in_one_line(here):
    pytest.importorskip("resource")
    arguments = meta_fit_prior("full.safetensors", "--checkpoint-dir", "full", "--eval-every", 2)
    assert ended(started(call_on_a_small_disk, here, arguments)) == 1
    stderr = (here / "stderr").read_text()
    assert f"error: {here / 'full' / 'checkpoint.safetensors'} cannot be written" in stderr
    assert "make room on the disk" in stderr and "Traceback" not in stderr
    assert not list((here / "full").iterdir())


def test_info_of_a_card_names_the_weights(capsys):
    assert call("info", "tiny.json") == 1
    assert "tiny.json is a card: give the weights" in capsys.readouterr().err


def test_places_below_the_users_folder(here, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert call(*meta_fit_prior("~/w.safetensors", "--checkpoint-dir", "~/c")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "w.json", "w.safetensors"]
    assert not (here / "~").exists()
