"""Impossible requests to meta-training are clear errors, and no weights are lost."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.datasets import load_iris
from skorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LoadInitState,
    LRScheduler,
)
from skorch.history import History

from sklearn_meta import (
    AmortizedGMM,
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
    MetaGPRegressor,
    MetaLSTMClassifier,
    MetaSemiSupervisedClassifier,
)
from sklearn_meta.callbacks import Patience, best_epoch
from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.folders import CHECKPOINT
from sklearn_meta.learner import Learner
from sklearn_meta.settings import check_settings
from sklearn_meta.tasks import (
    EpisodeSampler,
    Mixture,
    RawTable,
    RegressionPrior,
    RegressionSampler,
    TablePrior,
    Tables,
    as_source,
)
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner

IRIS = load_iris(return_X_y=True)
TEXTS = (["a fine film", "a dull film", "so good", "so bad"] * 4, [1, 0, 1, 0] * 4)
QUICK = {"width": 8, "embedding_size": 8, "max_epochs": 1, "wide": False}


def small():
    return MetaSemiSupervisedClassifier("prior", random_state=0)


def tiny(head="prototypes", task="classification"):
    """A learner with random weights, for what holds with any: 32 tasks are read in no time."""
    torch.manual_seed(0)
    sizes = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4, "last_width": 2}
    return Learner("vsa", head, task=task, backbone_config=sizes)


@pytest.mark.parametrize("name", ["max_steps", "eval_every"])
@pytest.mark.parametrize("value", [0, -1])
def test_steps_are_one_or_more(name, value):
    settings = {"max_steps": 2, "verbose": False} | {name: value}
    with pytest.raises(ValueError, match=f"{name} == {value}, must be >= 1"):
        small().meta_fit({"iris": IRIS}, **settings)
    with pytest.raises(ValueError, match=f"{name} == {value}, must be >= 1"):
        MetaLSTMClassifier(**QUICK).meta_fit({"films": TEXTS}, **settings)


def test_epochs_of_fine_tuning_are_none_or_more():
    for n in (-1, 1.5):
        with pytest.raises(ValueError, match=f"fine_tune_epochs must be an integer .* got {n}"):
            MetaLSTMClassifier(**QUICK).meta_fit({"films": TEXTS}, fine_tune_epochs=n)


@pytest.mark.parametrize("tasks", [None, {}, [TEXTS], {"films": 5}, {"films": TEXTS[0]}])
def test_tasks_of_texts_are_pairs_by_name(tasks):
    with pytest.raises(ValueError, match="dict from name|pair"):
        MetaLSTMClassifier(**QUICK).meta_fit(tasks)


@pytest.mark.parametrize("n_shots", [0, -1, (), (1, 0), (1.5,), "ab"])
@pytest.mark.parametrize("sampler", [EpisodeSampler, RegressionSampler])
def test_shots_are_whole_numbers(sampler, n_shots):
    with pytest.raises(ValueError, match="n_shots must be a whole number of 1 or more"):
        sampler(n_shots)


@pytest.mark.parametrize("n_unlabelled", [0, -3, (10, 2), (0, 0), (1, 2, 3), 2.5])
def test_unlabelled_rows_are_a_number_or_a_range(n_unlabelled):
    with pytest.raises(ValueError, match="n_unlabelled must be"):
        EpisodeSampler(n_unlabelled=n_unlabelled)


@pytest.mark.parametrize("curriculum", [0, -1, 1.5, "a"])
def test_a_curriculum_grows_after_whole_numbers(curriculum):
    with pytest.raises(
        ValueError, match="every must be an integer of 1 or more, a number of sequences"
    ):
        MANNClassifier().meta_fit({"iris": IRIS}, curriculum=curriculum, max_steps=1)


def test_one_number_of_shots_needs_no_sequence():
    assert EpisodeSampler(np.int64(3)).n_shots == (3,)
    assert RegressionSampler(7, (4, 4)).n_unlabelled == (4, 4)


def test_samplers_of_other_backbones_check_their_numbers():
    with pytest.raises(ValueError, match="n_queries must be"):
        FewShotTransformerClassifier().meta_fit({"iris": IRIS}, n_queries=0, max_steps=1)
    with pytest.raises(ValueError, match=r"n_queries must be an integer of 1 or more, got \(1"):
        FewShotTransformerClassifier().meta_fit({"iris": IRIS}, n_queries=(1, 5), max_steps=1)
    with pytest.raises(ValueError, match="n_classes must be"):
        MANNClassifier().meta_fit({"iris": IRIS}, n_classes=(5, 2), max_steps=1)
    with pytest.raises(ValueError, match="n_classes must allow 2 or more classes, got 1"):
        MANNClassifier().meta_fit({"iris": IRIS}, n_classes=1, max_steps=1)


def test_a_single_table_is_asked_for_in_a_list():
    with pytest.raises(ValueError, match=r"must be a pair \(X, y\).*\[\(X, y\)\]"):
        small().meta_fit(IRIS, max_steps=1)
    with pytest.raises(ValueError, match=r"\(bunch.data, bunch.target\)"):
        small().meta_fit({"iris": load_iris()}, max_steps=1)
    with pytest.raises(ValueError, match="retarget must be a probability"):
        Tables(as_source({"iris": IRIS}), retarget=2)


@pytest.mark.filterwarnings("ignore:overflow")
def test_training_that_diverges_says_so_and_leaves_what_was_there(tmp_path):
    estimator = small()
    with pytest.raises(ValueError, match="diverged.*learning_rate"):
        estimator.meta_fit(
            {"iris": IRIS},
            **{"max_steps": 9, "learning_rate": 1e10, "batch_size": 2, "verbose": False},
            checkpoint_dir=tmp_path,
        )
    assert not (tmp_path / CHECKPOINT).exists()
    assert estimator.fit(IRIS[0][::10], IRIS[1][::10]).score(*IRIS) > 0.8
    with pytest.raises(ValueError, match="diverged.*learning_rate"):
        MetaLSTMClassifier(**QUICK | {"learning_rate": 1e30, "max_epochs": 3}).fit(*TEXTS)


def test_weights_that_the_last_step_lost_are_not_kept():
    """The losses were computed before the last step, so they do not show it."""

    class Spoil(Callback):
        def on_grad_computed(self, net, **kwargs):
            for parameter in net.module_.parameters():
                parameter.grad = torch.full_like(parameter, torch.nan)

    with pytest.raises(ValueError, match="diverged: weights are no longer finite"):
        small().meta_fit({"iris": IRIS}, max_steps=1, callbacks=[Spoil()], verbose=False)


def test_validation_that_tells_nothing_is_told():
    with pytest.warns(UserWarning, match="No validation loss was finite, so the last weights"):
        MetaSemiSupervisedClassifier("vsa", random_state=0).meta_fit(
            {"iris": IRIS},
            **{"validation_datasets": {"iris": IRIS}, "max_steps": 1, "verbose": False},
            **{"learning_rate": 1e30, "batch_size": 1},
        )


def test_a_loss_that_is_nan_at_first_is_not_the_lowest():
    epochs = [{"valid_loss": loss, "batches": []} for loss in (np.nan, 3.0, 2.0, 1.0)]
    assert best_epoch(History(epochs)) == 3 and not Patience(2).is_over(History(epochs))
    assert Patience(2).is_over(History(epochs[:1] * 3))


def test_a_checkpoint_of_other_word_vectors_is_refused(tmp_path):
    def train(seed):
        vectors = np.random.default_rng(seed).normal(size=(2, 8))
        estimator = MetaLSTMClassifier(**QUICK, word_vectors=(["film", "good"], vectors))
        return estimator.meta_fit(
            {"films": TEXTS}, max_steps=2, checkpoint_dir=tmp_path, verbose=False
        )

    first = train(0)
    assert weights_digest(train(0).learner_) == weights_digest(first.learner_)
    with pytest.raises(ValueError, match="other settings: start was .* and is"):
        train(1)


def test_a_checkpoint_of_other_weights_is_refused(tmp_path):
    settings = {"max_steps": 1, "batch_size": 1, "checkpoint_dir": tmp_path, "verbose": False}
    trained = small().meta_fit({"iris": IRIS}, **settings | {"checkpoint_dir": None})
    small().meta_fit({"iris": IRIS}, **settings)
    with pytest.raises(ValueError, match="other settings: start was"):
        trained.meta_fit({"iris": IRIS}, **settings)


def test_an_interrupted_run_goes_on_in_the_same_estimator(tmp_path):
    class Interrupt(Callback):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == 2:
                raise KeyboardInterrupt

    settings = {"max_steps": 4, "eval_every": 1, "batch_size": 1, "verbose": False}
    for backbone in ("prior", "deep_sets"):
        whole = MetaSemiSupervisedClassifier(backbone, random_state=0)
        whole.meta_fit({"iris": IRIS}, **settings)
        estimator = MetaSemiSupervisedClassifier(backbone, random_state=0)
        kept = settings | {"checkpoint_dir": tmp_path / backbone}
        with pytest.warns(UserWarning, match="An interrupt or a callback ended"):
            estimator.meta_fit({"iris": IRIS}, callbacks=[Interrupt()], **kept)
        for again in (clone(estimator), estimator, clone(estimator), estimator):
            again.meta_fit({"iris": IRIS}, **kept)  # the last time it is complete
            assert weights_digest(again.learner_) == weights_digest(whole.learner_)
        with pytest.raises(ValueError, match="other settings: rate was"):
            MetaSemiSupervisedClassifier(backbone, random_state=0).meta_fit(
                {"iris": IRIS}, learning_rate=1e-5, **kept
            )


@pytest.mark.parametrize("more", [IRIS[0][:3], ["a"], "regression"])
def test_beside_rows_and_labels_there_is_nothing_but_metadata(more):
    with pytest.raises(
        ValueError, match="'iris'.* metadata, a dict such as .* Put unlabelled rows"
    ):
        small().meta_fit({"iris": (*IRIS, more)}, max_steps=1, verbose=False)


def test_weights_without_a_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="empty name"):
        small().save_pretrained("")
    assert not any(tmp_path.iterdir())


def test_a_checkpoint_without_a_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="checkpoint_dir is empty: name a folder"):
        small().meta_fit({"iris": IRIS}, max_steps=1, checkpoint_dir="", verbose=False)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [3, True, 1.5, ["a"], b"/x"])
def test_a_checkpoint_wants_a_path(folder):
    with pytest.raises(ValueError, match="checkpoint_dir must be the path of a folder, or None"):
        small().meta_fit({"iris": IRIS}, max_steps=1, checkpoint_dir=folder, verbose=False)


def test_a_checkpoint_stays_where_its_run_began(tmp_path, monkeypatch):
    class Wander(Callback):
        def on_epoch_end(self, net, **kwargs):
            monkeypatch.chdir(tmp_path / "elsewhere")

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = {"max_steps": 3, "eval_every": 1, "batch_size": 1, "verbose": False}
    kept = settings | {"checkpoint_dir": "run"}
    whole = small().meta_fit({"iris": IRIS}, **kept, callbacks=[Wander()])
    assert not any(Path().iterdir())
    monkeypatch.chdir(tmp_path)
    again = small().meta_fit({"iris": IRIS}, **kept)
    assert len(again.history_) == 3
    assert weights_digest(again.learner_) == weights_digest(whole.learner_)


def test_a_run_whose_checkpoint_was_removed_is_a_new_one(tmp_path):
    """It starts from the learned weights, at their rates, and its checkpoint names that start."""
    settings = {"max_steps": 2, "eval_every": 1, "batch_size": 1, "verbose": False}
    kept = settings | {"checkpoint_dir": tmp_path / "run"}
    fresh = MetaSemiSupervisedClassifier("deep_sets", head="linear", random_state=0)
    estimator = copy.deepcopy(fresh).meta_fit({"iris": IRIS}, **kept)
    expected = copy.deepcopy(estimator).meta_fit({"iris": IRIS}, **settings)
    (tmp_path / "run" / CHECKPOINT).unlink()
    estimator.meta_fit({"iris": IRIS}, **kept)
    assert weights_digest(estimator.learner_) == weights_digest(expected.learner_)
    with pytest.raises(ValueError, match="other settings: .*start was"):
        fresh.meta_fit({"iris": IRIS}, **kept)


def test_a_run_does_not_take_the_place_of_what_was_learned_since(tmp_path):
    settings = {"max_steps": 2, "eval_every": 1, "batch_size": 1, "verbose": False}
    estimator = small().meta_fit({"iris": IRIS}, checkpoint_dir=tmp_path, **settings)
    estimator.meta_fit({"iris": IRIS}, **settings)
    with pytest.raises(ValueError, match="other settings: start was"):
        estimator.meta_fit({"iris": IRIS}, checkpoint_dir=tmp_path, **settings)


def test_training_that_diverges_late_keeps_the_best_weights():
    """One warning is enough: nobody has interrupted the run."""

    class Spoil(Callback):
        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 3:
                with torch.no_grad():
                    next(net.module_.parameters()).fill_(torch.nan)

    estimator = small()
    with pytest.warns(UserWarning, match="diverged.*lowest validation loss are kept") as told:
        estimator.meta_fit(
            {"iris": IRIS},
            validation_datasets={"iris": IRIS},
            **{"max_steps": 6, "eval_every": 1, "batch_size": 1, "verbose": False},
            callbacks=[Spoil()],
        )
    assert len(told) == 1
    assert all(parameter.isfinite().all() for parameter in estimator.learner_.parameters())
    assert np.isfinite(estimator.history_[:, "valid_accuracy"]).all()


def test_a_checkpoint_of_a_version_that_did_not_tell_its_start_goes_on(tmp_path):
    settings = {"max_steps": 2, "eval_every": 1, "batch_size": 1, "verbose": False}
    settings["checkpoint_dir"] = tmp_path
    first = weights_digest(small().meta_fit({"iris": IRIS}, **settings).learner_)
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    schedule = json.loads(header["schedule"])
    del schedule["start"], header["sha256"]
    save_file(tensors, tmp_path / CHECKPOINT, header | {"schedule": json.dumps(schedule)})
    assert weights_digest(small().meta_fit({"iris": IRIS}, **settings).learner_) == first


def test_weights_of_any_type_have_a_digest():
    learner = copy.deepcopy(load_learner("prior"))
    of_all = [
        weights_digest(learner),
        weights_digest(learner.bfloat16()),
        weights_digest(learner.double()),
    ]
    assert len(set(of_all)) == 3
    classifier = MetaSemiSupervisedClassifier(learner.bfloat16())
    assert classifier.fit(IRIS[0][::10], IRIS[1][::10]).score(*IRIS) > 0.8


def test_a_module_of_ones_own_may_begin_elsewhere(tmp_path):
    settings = {"max_steps": 2, "eval_every": 1, "checkpoint_dir": tmp_path, "verbose": False}
    settings |= {"batch_size": 1}
    learners = []
    for seed in range(2):  # as a script without a seed, run again after a kill
        torch.manual_seed(seed)
        learner = MetaGPRegressor("deep_sets")._new_learner("deep_sets")
        regressor = MetaGPRegressor(learner).meta_fit([IRIS], **settings)
        learners.append(weights_digest(regressor.learner_))
    assert learners[0] == learners[1]


def test_an_error_names_the_settings_that_differ_and_is_short(tmp_path):
    words = [f"word{i}" for i in range(3000)]
    texts = [" ".join(words[i::100]) for i in range(100)]
    tasks = {"films": (texts, [0, 1] * 50)}
    settings = {"max_steps": 1, "checkpoint_dir": tmp_path, "verbose": False}
    parameters = QUICK | {"min_df": 1, "batch_size": 2}
    MetaLSTMClassifier(**parameters, random_state=0).meta_fit(tasks, **settings)
    with pytest.raises(ValueError) as error:
        MetaLSTMClassifier(**parameters, random_state=1).meta_fit(tasks, **settings)
    assert "random_state was 0 and is 1" in str(error.value)
    assert len(str(error.value)) < 600
    del tasks["films"][0][0], tasks["films"][1][0]
    with pytest.raises(ValueError, match=r"learner \(.*words was \["):
        MetaLSTMClassifier(**parameters, random_state=0).meta_fit(tasks, **settings)


@pytest.mark.parametrize("name", ["keep", "precision", "schedule"])
def test_settings_that_are_chosen_are_one_of_those_there_are(name):
    with pytest.raises(ValueError, match=f"{name} must be one of .*, got 'lst'"):
        meta_train(Learner(), TablePrior(), EpisodeSampler(1), max_steps=1, **{name: "lst"})


NUMBERS = {
    "batch_size": (0, -4, 2.5, None),
    "learning_rate": ("a", -1.0, np.nan),
    "max_steps": (None, np.inf),
    "eval_every": (None, "a"),
    "n_workers": (1.5, -1),
    "patience": (0, -1),
    "ema_decay": ("a", 1.0, 2),
    "callbacks": (Callback(), "log.csv", ["log.csv"], [("log", print)], [None, 5]),
}


@pytest.mark.parametrize(
    "name, value", [(name, value) for name, values in NUMBERS.items() for value in values]
)
def test_settings_are_checked_before_training(name, value):
    settings = {"max_steps": 1, "batch_size": 1, "verbose": False} | {name: value}
    with pytest.raises(ValueError, match=f"^{name} (==|must be).*"):
        small().meta_fit({"iris": IRIS}, validation_datasets={"iris": IRIS}, **settings)


def test_callbacks_may_be_classes_and_have_names_as_in_skorch():
    seen = []

    class See(Callback):
        def on_epoch_end(self, net, **kwargs):
            seen.append(len(net.history))

    callbacks = [See, ("see", See()), ("again", See), None]
    small().meta_fit({"iris": IRIS}, max_steps=1, callbacks=callbacks, verbose=False)
    assert seen == [1, 1, 1]


@pytest.mark.parametrize(
    "datasets, told",
    [
        (TablePrior, r"TablePrior is a class.*TablePrior\(\)"),
        ("tables", r"give sklearn_meta\.tasks\.Folder\('tables'\)"),
        (Path("tables"), r"give sklearn_meta\.tasks\.Folder\('tables'\)"),
        (5, "5 is not a source: give datasets"),
    ],
)
def test_what_is_no_source_says_what_to_give(datasets, told):
    for estimator in (small(), AmortizedGMM()):
        with pytest.raises(ValueError, match=told):
            estimator.meta_fit(datasets, max_steps=1, verbose=False)


def test_what_is_no_part_of_a_mixture_is_told():
    with pytest.raises(ValueError, match="None is not a source: give datasets"):
        Mixture([None])


@pytest.mark.parametrize("load", [LoadInitState, LoadInitState(Checkpoint(dirname="elsewhere"))])
def test_weights_of_another_run_are_no_callback(load):
    """The callback would train the other run to its end, and put its history in place."""
    with pytest.raises(ValueError, match="LoadInitState: pass the initial weights as backbo"):
        small().meta_fit({"iris": IRIS}, max_steps=1, verbose=False, callbacks=[("begin", load)])


def test_the_best_weights_by_a_callback_are_nothing_to_go_on_with(tmp_path):
    """A checkpoint does not know those weights: the same call again would end with others."""
    best = [EarlyStopping(monitor="train_loss", load_best=True)]
    once, kept = {"max_steps": 1, "verbose": False}, {"checkpoint_dir": tmp_path}
    told = "EarlyStopping must have load_best=False with a checkpoint_dir"
    estimator = MetaSemiSupervisedClassifier(tiny(), random_state=0)
    with pytest.raises(ValueError, match=told):
        clone(estimator).meta_fit({"iris": IRIS}, callbacks=best, **once, **kept)
    validated = {"validation_datasets": {"iris": IRIS}}
    for more in (kept | validated, {}):
        assert clone(estimator).meta_fit({"iris": IRIS}, callbacks=best, **once, **more).history_
    tasks = {"a": TEXTS}
    with pytest.raises(ValueError, match=told):  # the last weights are kept without patience
        MetaLSTMClassifier(**QUICK).meta_fit(
            tasks, validation_tasks=tasks, callbacks=best, **once, **kept
        )


def test_a_score_that_keeps_targets_of_batches_says_what_to_do():
    def score(net, X, y):
        return 1.0

    def meta_fit(callback):
        once = {"validation_datasets": {"iris": IRIS}, "max_steps": 1, "verbose": False}
        estimator = MetaSemiSupervisedClassifier(tiny(), random_state=0)
        return estimator.meta_fit({"iris": IRIS}, callbacks=[callback], **once)

    for refused in (EpochScoring(score), EpochScoring("accuracy", use_caching=False)):
        with pytest.raises(ValueError, match="EpochScoring.* shapes differ.*use_caching=False"):
            meta_fit(refused)
    own = Callback()
    own.scoring = score  # the engine ignores it
    meta_fit(own)
    assert meta_fit(EpochScoring(score, name="own", use_caching=False)).history_[-1, "own"] == 1


@pytest.mark.parametrize("scheduler", [LRScheduler, ("rate", LRScheduler("StepLR", step_size=1))])
def test_a_second_schedule_is_refused(scheduler):
    """The engine sets the rate of each step itself, so a scheduler would change next to nothing."""
    with pytest.raises(ValueError, match="must not contain LRScheduler: .*learning_rate"):
        small().meta_fit({"iris": IRIS}, max_steps=1, verbose=False, callbacks=[scheduler])
    with pytest.raises(ValueError, match="already follows a cosine schedule"):
        check_settings({"callbacks": [scheduler]})
    with pytest.raises(ValueError, match="already follows a noam schedule"):
        check_settings({"callbacks": [scheduler], "schedule": "noam"})


def test_a_callback_of_validation_needs_some():
    settings = {"max_steps": 1, "verbose": False, "callbacks": [("stop", EarlyStopping())]}
    with pytest.raises(
        ValueError, match="EarlyStopping monitors 'valid_loss'.*validation_datasets"
    ):
        small().meta_fit({"iris": IRIS}, **settings)
    with pytest.raises(
        ValueError, match="EarlyStopping monitors 'valid_loss'.*validation_datasets"
    ):
        small().meta_fit({"iris": IRIS}, **settings | {"callbacks": [EarlyStopping]})
    settings["callbacks"] = [EarlyStopping("train_loss")]
    small().meta_fit({"iris": IRIS}, **settings)


def test_minus_one_beside_one_class_is_explained():
    X, y = IRIS
    signs = np.where(y > 0, 1, -1)
    with pytest.raises(ValueError, match="1 class.* label -1 belong to no class: if -1 is a class"):
        small().meta_fit([(X, signs)], max_steps=1, verbose=False)
    small().meta_fit([(X, signs, {"task": "classification"})], max_steps=1, verbose=False)


class Draws:
    """A user's own source, which draws with a function."""

    def __init__(self, function):
        self.function = function

    def draw(self, rng):
        return self.function(rng)


@pytest.mark.parametrize("drawn", [IRIS, list(IRIS), None])
def test_a_source_that_draws_no_dataset_is_told_so(drawn):
    with pytest.raises(ValueError, match=r"draw of Draws must return a Dataset, got .*as_dataset"):
        small().meta_fit(Draws(lambda rng: drawn), max_steps=1, verbose=False)


SETTINGS = {"max_steps": 1, "batch_size": 1, "verbose": False}
CATEGORIES = RawTable(
    np.random.default_rng(0).choice(["no", "yes"], (40, 4)),
    np.arange(40) % 2,
    {"task": "classification"},
)


@pytest.mark.parametrize("mixed", [False, True])
def test_tables_without_a_numeric_column_are_left_out_of_regression(mixed):
    tables = {"iris": RawTable(*IRIS, {"task": "classification"}), "votes": CATEGORIES}
    source = Mixture([tables, RegressionPrior()]) if mixed else tables
    regressor = MetaGPRegressor(tiny("gp", "regression"), random_state=0)
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out. Dataset 'votes' has class"):
        regressor.meta_fit(source, validation_datasets={"iris": tables["iris"]}, **SETTINGS)
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out. Dataset 'votes' has class"):
        regressor.meta_fit({"iris": tables["iris"]}, validation_datasets=source, **SETTINGS)
    with pytest.raises(ValueError, match="None of the datasets can be used. Dataset 'votes'"):
        regressor.meta_fit({"votes": CATEGORIES}, **SETTINGS)


class Unread(dict):
    """Datasets that must not be read."""

    def __getitem__(self, name):
        raise AssertionError("a table was read")

    items = values = __getitem__


ESTIMATORS = [
    AmortizedGMM,
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
    MetaGPRegressor,
    MetaSemiSupervisedClassifier,
]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"max_steps": 0}, "max_steps == 0"),
        ({"learning_rate": -1}, "learning_rate == -1"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
        ({"callbacks": 3}, "callbacks must be a list"),
        ({"callbacks": [EarlyStopping()]}, "nothing is validated"),
        ({"maximum": 3}, "unexpected keyword argument 'maximum'"),
        ({"n_unlabelled": 0}, "n_unlabelled"),
    ],
)
def test_what_cannot_be_is_refused_before_any_table_is_read(kind, setting, said):
    with pytest.raises((ValueError, TypeError), match=said):
        kind().meta_fit(Unread(a=None), **setting)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_devices_and_folders_are_refused_before_any_table_is_read(kind, tmp_path):
    with pytest.raises(ValueError, match="device='fpga' cannot be used"):
        kind(device="fpga").meta_fit(Unread(a=None))
    (tmp_path / "file").touch()
    for folder, error in ((tmp_path / "file", OSError), ("", ValueError), (3, ValueError)):
        with pytest.raises(error, match="checkpoint_dir"):
            kind().meta_fit(Unread(a=None), checkpoint_dir=folder)
    with pytest.raises(AssertionError, match="a table was read"):
        kind().meta_fit(Unread(a=None))


@pytest.mark.parametrize(
    ("setting", "said"),
    [({"max_steps": 0}, "max_steps == 0"), ({"eval_every": 0}, "eval_every == 0")],
)
def test_settings_are_refused_before_any_text_is_read(setting, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        MetaLSTMClassifier().meta_fit(Unread(a=None), **setting)
    with pytest.raises(ValueError, match="device='fpga' cannot be used"):
        MetaLSTMClassifier(device="fpga").meta_fit(Unread(a=None))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="checkpoint_dir"):
        MetaLSTMClassifier().meta_fit(Unread(a=None), checkpoint_dir=tmp_path / "file")


def test_the_first_of_several_wrong_settings_is_told():
    """Settings are checked in the order of their list; that of a set differs between processes."""
    names = ["max_steps", "eval_every", "batch_size", "learning_rate", "weight_decay", "clip"]
    names += ["n_validation", "n_workers", "n_pooled"]
    for i, name in enumerate(names):
        with pytest.raises(ValueError, match=f"^{name} == -1"):
            check_settings(dict.fromkeys(reversed(names[i:]), -1))
