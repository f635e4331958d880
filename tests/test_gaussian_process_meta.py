"""Meta-training of regressors, other heads of the classifier, and the command line on both."""

import json
import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from processes import ended, started
from sklearn.datasets import load_iris, make_friedman1
from skorch.callbacks import Callback
from test_gaussian_process import same_weights, small_learner

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier
from sklearn_meta.__main__ import main
from sklearn_meta.tasks import Dataset, TablePrior
from sklearn_meta.tasks.regression_prior import RegressionPrior
from sklearn_meta.weights import load_learner, save_learner

FEW = {"max_steps": 4, "eval_every": 2, "batch_size": 2, "n_shots": (3, 5), "n_unlabelled": 5}


def fitted(datasets, **settings):
    """A tiny regressor after a few steps."""
    regressor = MetaGPRegressor(small_learner(), random_state=0)
    return regressor.meta_fit(datasets, **(FEW | {"verbose": False} | settings))


def tables(n=3, digits=3):
    """Tables by name, with targets rounded to some digits."""
    found = {f"table {i}": make_friedman1(40, n_features=5, random_state=i) for i in range(n)}
    return {name: (X, y.round(digits)) for name, (X, y) in found.items()}


# -- meta_fit -------------------------------------------------------------------------------------


def test_history_has_the_error_by_labelled_rows():
    regressor = fitted(tables(), validation_datasets=tables(2))
    assert len(regressor.history_) == 2
    for epoch in regressor.history_:
        assert {"valid_mse", "valid_mse_3_shots", "valid_mse_5_shots"} <= epoch.keys()
        assert "valid_accuracy" not in epoch
        low, high = sorted(epoch[f"valid_mse_{k}_shots"] for k in (3, 5))
        assert 0 < low <= epoch["valid_mse"] <= high


def test_numbers_without_fraction_are_a_regression_target():
    X, y = load_iris(return_X_y=True)
    for datasets in ([(X, y)], {"iris": (X, y)}, [(X, y.astype(str))], [(X, y > 0)]):
        drawn = []
        regressor = fitted(datasets, callbacks=[Targets(drawn)])
        assert not same_weights(regressor, fitted([(X, y)], max_steps=1))
        values = np.unique(np.concatenate(drawn).round(4))
        assert len(values) > 3  # standardised targets, not classes
    same = fitted([(X, y)])
    assert same_weights(same, fitted({"0": (X, y)}))
    # Names of classes are no targets.
    with pytest.raises(ValueError, match="has text as its target.*could not convert.*'a'"):
        fitted([(X, np.array(["a", "b", "c"])[y])])


class Targets(Callback):
    """Collects the targets of the batches that the learner is trained on."""

    def __init__(self, drawn):
        self.drawn = drawn

    def on_batch_begin(self, net, batch, training=False, **kwargs):
        for _, target in batch:
            assert target.dtype == torch.float32 and target.ndim == 3
            self.drawn.append(target[~target.isnan()].numpy())


def test_lists_dicts_and_frames_of_the_same_tables_train_the_same():
    found = tables()
    whole = fitted(found)
    assert same_weights(fitted(list(found.values())), fitted(dict(enumerate(found.values()))))
    frames = {
        name: (pd.DataFrame(X).assign(kind=np.where(X[:, 0] > 0.5, "a", "b")), pd.Series(y))
        for name, (X, y) in found.items()
    }
    assert not same_weights(fitted(frames), whole)
    assert not same_weights(fitted(found, max_steps=2), whole)


class Votes:
    """A prior of classification whose columns all have two values."""

    def draw(self, rng):
        X = rng.integers(2, size=(40, 5)).astype(np.float32)
        return Dataset("votes", X, rng.permutation(np.arange(40) % 2))


def test_a_prior_of_classification_is_an_error_where_no_column_can_be_the_target():
    with pytest.raises(ValueError, match="'votes' has classes as its target and no column"):
        fitted(Votes(), max_steps=200)
    assert fitted(TablePrior(n_columns=(2, 4)), max_steps=20).history_  # some draws have none, too


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ([], "at least one dataset"),
        ([(np.eye(6), np.ones(6))], "constant target"),
        ([(np.eye(6), np.r_[np.inf, np.arange(5)])], "infinite or too large for float32"),
        ([(np.eye(6), 1e300 * np.arange(6))], "infinite or too large for float32"),
        ({"one": (np.eye(6), np.arange(4))}, "'one': X has 6 rows and y has 4"),
    ],
)
def test_bad_datasets(datasets, message):
    with pytest.raises(ValueError, match=message):
        fitted(datasets)


def test_rows_without_a_target_are_left_out():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    some = np.where(np.arange(60) % 3 == 0, np.nan, y)
    known = ~np.isnan(some)
    regressor = fitted([(X, some)], n_shots=(39,))
    assert np.isfinite([epoch["train_loss"] for epoch in regressor.history_]).all()
    assert np.isfinite(regressor.fit(X[known], y[known]).predict(X)).all()


def test_several_targets_train_together():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    Y = np.column_stack([y, X[:, 0]])
    Y[::10] = np.nan  # rows without targets are left out
    regressor = fitted([(X, Y)])
    assert np.isfinite(regressor.history_[-1]["train_loss"])
    assert regressor.fit(X[:20], Y[:20]).predict(X[20:]).shape == (40, 2)


@pytest.mark.parametrize("head", ["gp", "linear"])
@pytest.mark.parametrize("backbone", ["vsa", "deep_sets", "exchangeable"])
def test_an_architecture_by_name(backbone, head):
    regressor = MetaGPRegressor(backbone, head=head, random_state=0)
    regressor.meta_fit(tables(1), **FEW, verbose=False)
    assert regressor.learner_.config["task"] == "regression"
    assert regressor.learner_.names == {"backbone": backbone, "head": head}
    X, y = make_friedman1(40, n_features=5, random_state=9)
    for transductive in (True, False):
        regressor.set_params(transductive=transductive).fit(X[:15], y[:15])
        mean, std = regressor.predict(X[15:], return_std=True)
        assert np.isfinite(mean).all() and (std > 0).all()
        assert regressor.sample_y(X[15:], 2).shape == (25, 2)


class Crash(Exception):
    """Ends a run as a kill would."""


class CrashAfter(Callback):
    """Ends the run within the second epoch."""

    def on_batch_end(self, net, training=False, **kwargs):
        if training and len(net.history) == 2:
            raise Crash


def test_a_run_that_crashed_resumes_to_the_same_weights(tmp_path):
    run = {"validation_datasets": tables(1), "max_steps": 6, "ema_decay": 0.9}
    whole = fitted(RegressionPrior(n_rows=30), **run)
    with pytest.raises(Crash):
        fitted(RegressionPrior(n_rows=30), checkpoint_dir=tmp_path, callbacks=[CrashAfter()], **run)
    resumed = fitted(RegressionPrior(n_rows=30), checkpoint_dir=tmp_path, **run)
    assert same_weights(resumed, whole)
    names = ("train_loss", "valid_loss", "valid_mse", "valid_mse_3_shots")
    for name in names:
        assert_array_equal(*([epoch.get(name) for epoch in r.history_] for r in (resumed, whole)))


def test_meta_fit_learns():
    """On one family of lines the error falls well below that of an untrained network."""
    prior = RegressionPrior(n_rows=30, n_columns=(2, 3), families=("linear",))
    settings = {"n_shots": (10,), "n_unlabelled": 20, "validation_datasets": prior}
    regressor = fitted(prior, max_steps=60, eval_every=60, learning_rate=1e-2, **settings)
    untrained = fitted(prior, max_steps=1, learning_rate=1e-9, **settings)
    for name in ("valid_loss", "valid_mse"):
        assert regressor.history_[-1][name] < untrained.history_[-1][name] - 0.1


# -- other heads of the classifier ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("backbone", "head"),
    [("exchangeable", "label_propagation"), ("exchangeable", "linear"), ("deep_sets", "linear")],
)
def test_classifier_with_another_head(backbone, head):
    X, y = load_iris(return_X_y=True)
    classifier = MetaSemiSupervisedClassifier(backbone=backbone, head=head, random_state=0)
    classifier.meta_fit(
        [(X, y)], max_steps=15, learning_rate=1e-2, n_shots=(2,), n_unlabelled=5, verbose=False
    )
    assert classifier.learner_.names == {"backbone": backbone, "head": head}
    few = np.full(len(y), -1)
    few[::10] = y[::10]
    for transductive in (True, False):
        classifier.set_params(transductive=transductive, dtype="float64").fit(X, few)
        proba = classifier.predict_proba(X)
        assert_allclose(proba.sum(1), 1)
        assert (classifier.predict(X) == y).mean() > 0.6
        assert_array_equal(classifier.transduction_[few >= 0], few[few >= 0])
        backwards = classifier.predict_proba(X[::-1])[::-1]
        assert_allclose(backwards, proba, atol=1e-9)
    with pytest.raises(ValueError, match="(?s)head='prototypes' does not fit .* with head='"):
        MetaSemiSupervisedClassifier(classifier.learner_, head="prototypes").fit(X, few)


def test_a_head_of_the_other_task_is_unknown():
    for estimator, head in ((MetaSemiSupervisedClassifier, "gp"), (MetaGPRegressor, "prototypes")):
        with pytest.raises(ValueError, match=f"'head' parameter of {estimator.__name__} must"):
            estimator("vsa", head=head).meta_fit([load_iris(return_X_y=True)], verbose=False)


# -- the command line -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Make a folder with two regression tables and small weights `tiny` the current one."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "tables").mkdir()
    for name, (X, y) in tables(2).items():
        frame = pd.DataFrame(X, columns=list("abcde")).assign(target=y)
        frame.to_csv(folder / "tables" / f"{name}.csv", index=False)
    save_learner(small_learner(), folder / "tiny.safetensors")
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def meta_fit_command(output, *more):
    command = ["meta-fit", "tables", "--estimator", "MetaGPRegressor", "--quiet"]
    command += ["--backbone", "tiny.safetensors", "--n-shots", "3,5", "--n-unlabelled", "5"]
    return [*command, "--batch-size", "2", "--eval-every", "2", "--output", output, *more]


def main_in(folder, command):
    os.chdir(folder)
    sys.exit(main(command))


def test_a_killed_meta_fit_of_the_command_line_goes_on(here, capsys):
    command = meta_fit_command("half.safetensors", "--max-steps", "30", "--checkpoint-dir", "half")
    process = started(main_in, here, command)
    while not (here / "half" / "checkpoint.safetensors").exists():
        assert process.is_alive()
        time.sleep(0.005)
    process.kill()
    assert ended(process) == -signal.SIGKILL
    assert not (here / "half.safetensors").exists()
    assert main([*command, "--seed", "1"]) == 1  # another run than the checkpoint's
    assert "checkpoint" in capsys.readouterr().err
    assert main(command) == 0
    assert main(meta_fit_command("whole.safetensors", "--max-steps", "30")) == 0
    half, whole = ((here / f"{name}.safetensors").read_bytes() for name in ("half", "whole"))
    assert half == whole


def test_meta_fit_saves_weights_that_the_regressor_takes(here, capsys):
    more = ("--max-steps", "4", "--validation", "tables", "--json")
    assert main(meta_fit_command("mine.safetensors", *more)) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"loss", "mse", "mse_3_shots", "mse_5_shots"} <= found["validation"].keys()
    card = json.loads((here / "mine.json").read_text())
    assert card["config"]["task"] == "regression" and card["config"]["head"] == "gp"
    assert card["recipe"]["estimator"] == "MetaGPRegressor"
    X, y = make_friedman1(30, n_features=5, random_state=5)
    assert MetaGPRegressor("mine.safetensors").fit(X[:15], y[:15]).predict(X[15:]).shape == (15,)
    assert main(["info", "mine.safetensors"]) == 0
    text = capsys.readouterr().out
    assert "architecture: vsa, gp" in text and "mse_3_shots" in text
    assert main(["info", "default_regression", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["weights"]
    assert told == {"default_regression": load_learner("default_regression").card}


def test_numbers_of_a_folder_are_targets_and_the_prior_is_one_of_regression(here, capsys):
    (here / "counts").mkdir()
    X, y = tables(1, digits=0)["table 0"]
    pd.DataFrame(X).assign(y=y.astype(int)).to_csv(here / "counts" / "counts.csv", index=False)
    command = meta_fit_command("counts.safetensors", "--max-steps", "4", "--validation", "counts")
    command[1:2] = ["counts", "prior"]
    assert main(command) == 0
    assert capsys.readouterr().err == ""  # no warning of anything left out


def test_weights_of_the_other_task_are_refused(here, capsys):
    command = meta_fit_command("no.safetensors", "--max-steps", "2", "--backbone", "prior")
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "'prior' was meta-trained for classification, and MetaGPRegressor" in error
    command[command.index("MetaGPRegressor")] = "MetaSemiSupervisedClassifier"
    command[command.index("prior")] = "tiny.safetensors"
    assert main(command) == 1
    assert not (here / "no.safetensors").exists()


def test_evaluate_says_what_to_do_with_weights_of_regression(here, capsys):
    for weights in ("default_regression", "tiny.safetensors"):
        assert main(["evaluate", "tables", "--weights", weights, "--peers", "none"]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        assert f"'{weights}' are for regression, but this command needs weights" in captured.err
        assert (
            "for classification, such as ['default', 'meta_lp', 'prior', 'prototypes']"
            in captured.err
        )
