"""Displays of predictive intervals and of meta-training show the right numbers."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris, load_wine, make_friedman1
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_meta import MANNClassifier, MetaGPRegressor, MetaSemiSupervisedClassifier, tasks
from sklearn_meta.callbacks import CSVLog
from sklearn_meta.inspection import (
    InstanceAccuracyDisplay,
    IntervalCalibrationDisplay,
    MetaLearningCurveDisplay,
    MixtureDisplay,
    learning_curve,
)
from sklearn_meta.learner import Learner
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import texts


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def labels(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


# -- predictive intervals -------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.sampled_from([(5,), (7, 2)]))
def test_coverage_is_the_share_of_targets_within_their_interval(seed, shape):
    rng = np.random.default_rng(seed)
    y, mean, std = rng.standard_normal(shape), rng.standard_normal(shape), rng.random(shape)
    show = IntervalCalibrationDisplay.from_predictions
    display = show(y, mean, std, levels=[0.3, 0.8])
    for level, observed, width in zip(display.nominal, display.observed, display.width):
        low, high = norm.interval(level, mean, std)
        assert observed == np.mean((low <= y) & (y <= high))
        assert width == pytest.approx(np.mean(high - low))
    assert_array_equal(display.line_.get_xydata(), np.c_[[0.3, 0.8], display.observed])
    plt.close(display.figure_)


def test_a_certain_prediction_that_is_right_is_within_its_interval():
    certain = IntervalCalibrationDisplay.from_predictions([1, 2], [1, 3], [0, 0])
    assert set(certain.observed) == {0.5} and set(certain.width) == {0}


def test_true_intervals_lie_on_the_diagonal_and_wide_ones_above():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(20_000), rng.lognormal(size=20_000)
    y = mean + std * rng.standard_normal(20_000)
    show = IntervalCalibrationDisplay.from_predictions
    true = show(y, mean, std)
    assert_allclose(true.nominal, np.arange(1, 20) / 20)
    assert_allclose(true.observed, true.nominal, atol=0.015)
    assert (show(y, mean, 2 * std).observed > true.observed).all()
    assert (show(y, mean, std / 2).observed < true.observed).all()
    assert_allclose(show(1e3 * y, 1e3 * mean, 1e3 * std).width, 1e3 * true.width)


@pytest.mark.parametrize(
    "make",
    [
        BayesianRidge,
        lambda: make_pipeline(StandardScaler(), GaussianProcessRegressor(alpha=0.5)),
    ],
)
def test_any_regressor_with_standard_deviations(make):
    X, y = load_diabetes(return_X_y=True)
    regressor = make().fit(X[:40], y[:40])
    display = IntervalCalibrationDisplay.from_estimator(regressor, X[40:140], y[40:140])
    mean, std = regressor.predict(X[40:140], return_std=True)
    expected = IntervalCalibrationDisplay.from_predictions(y[40:140], mean, std)
    assert_array_equal(display.observed, expected.observed)
    assert_array_equal(display.width, expected.width)
    assert labels(display.ax_) == ["perfectly calibrated", type(regressor).__name__]
    assert labels(expected.ax_) == ["perfectly calibrated"]


def test_a_search_shows_the_intervals_of_what_it_chose():
    """The search's own ``predict`` takes neither ``return_std`` nor ``quantiles``."""
    X, y = load_diabetes(return_X_y=True)
    search = GridSearchCV(MetaGPRegressor(), {"transductive": [False]}, cv=2).fit(X[:30], y[:30])
    found, expected = (
        IntervalCalibrationDisplay.from_estimator(each, X[30:80], y[30:80])
        for each in (search, search.best_estimator_)
    )
    assert_array_equal(found.width, expected.width)
    assert labels(found.ax_) == ["perfectly calibrated", "GridSearchCV"]


@pytest.mark.parametrize("n_targets", [(), (2,)])
def test_intervals_lie_between_quantiles_where_there_are_some(n_targets):
    """For skewed targets the intervals of a normal distribution would be others."""
    X, y = load_diabetes(return_X_y=True)
    y = np.exp(y / 40)[(..., *[None] * len(n_targets))] * np.ones(n_targets)
    regressor = make_pipeline(StandardScaler(), MetaGPRegressor()).fit(X[:40], y[:40])
    new, target = X[40:90], y[40:90]
    show = IntervalCalibrationDisplay
    display = show.from_estimator(regressor, new, target, levels=[0.9, 0.5])
    assert_array_equal(display.nominal, [0.5, 0.9])
    for level, observed, width in zip([0.5, 0.9], display.observed, display.width, strict=True):
        ends = regressor.predict(new, quantiles=[(1 - level) / 2, (1 + level) / 2])
        assert observed == np.mean((ends[0] <= target) & (target <= ends[1]))
        assert width == pytest.approx(np.mean(ends[1] - ends[0]))
    normal = show.from_predictions(target, *regressor.predict(new, return_std=True), levels=[0.9])
    assert normal.width[0] > display.width[1]


def test_quantiles_that_are_not_routed_are_asked_for():
    """Routing ``return_std`` alone, as scikit-learn suggested, gave a normal distribution's."""
    X, y = load_diabetes(return_X_y=True)
    rows = X[40:90], np.exp(y[40:90] / 40)
    regressor = make_pipeline(StandardScaler(), MetaGPRegressor())
    regressor.fit(X[:40], np.exp(y[:40] / 40))
    show = IntervalCalibrationDisplay.from_estimator
    expected = show(regressor, *rows)
    with sklearn.config_context(enable_metadata_routing=True):
        regressor[-1].set_predict_request(return_std=True)
        with pytest.raises(UnsetMetadataPassedError, match=r"\[quantiles\] are passed but"):
            show(regressor, *rows)
        regressor[-1].set_predict_request(quantiles=True)
        assert_array_equal(show(regressor, *rows).width, expected.width)
        regressor[-1].set_predict_request(quantiles=False)
        normal = IntervalCalibrationDisplay.from_predictions(
            rows[1], *regressor[-1].predict(regressor[0].transform(rows[0]), return_std=True)
        )
        assert_array_equal(show(regressor, *rows).width, normal.width)


class OtherQuantiles(BayesianRidge):
    """Stands for other regressors: quantiles in another shape, with another meaning, or ignored."""

    def __init__(self, answer="rows first"):
        super().__init__()
        self.answer = answer

    def predict(self, X, return_std=False, **others):
        if return_std or not others:
            return super().predict(X, return_std=return_std)
        if self.answer == "rows first":
            return np.tile(others["quantiles"], (len(X), 1))
        if self.answer == "ignored":
            return super().predict(X)
        raise NotImplementedError(self.answer)


@pytest.mark.parametrize("answer", ["rows first", "ignored", "not yet"])
def test_other_quantiles_are_no_intervals(answer):
    X, y = load_diabetes(return_X_y=True)
    X, y, new, target = X[:40], y[:40], X[40:78], y[40:78]
    show = IntervalCalibrationDisplay.from_estimator
    for rows in (slice(38), slice(37), slice(5), slice(4)):
        display = show(OtherQuantiles(answer).fit(X, y), new[rows], target[rows], levels=[0.5, 0.9])
        expected = show(BayesianRidge().fit(X, y), new[rows], target[rows], levels=[0.5, 0.9])
        assert_array_equal(display.observed, expected.observed)
        assert_array_equal(display.width, expected.width)


def test_intervals_of_a_decreasing_function_of_the_target():
    X, y = load_diabetes(return_X_y=True)
    plain = MetaGPRegressor(transductive=False, dtype="float64").fit(X[:40], -np.log(y[:40]))
    functions = {"func": lambda v: -np.log(v), "inverse_func": lambda v: np.exp(-v)}
    turned = TransformedTargetRegressor(clone(plain), **functions, check_inverse=False)
    show = IntervalCalibrationDisplay.from_estimator
    display = show(turned.fit(X[:40], y[:40]), X[40:90], y[40:90])
    assert_array_equal(display.observed, show(plain, X[40:90], -np.log(y[40:90])).observed)
    assert (display.width > 0).all() and display.observed.max() > 0.8


def test_several_targets_are_pooled():
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, -y])
    regressor = MetaGPRegressor(dtype="float64").fit(X[:30], Y[:30])
    display = IntervalCalibrationDisplay.from_estimator(regressor, X[30:80], Y[30:80])
    assert ((display.observed * 100).round(6) % 1 == 0).all()  # 50 rows x 2 targets


def test_intervals_are_drawn_side_by_side_and_again():
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal((3, 50))
    std = np.abs(std)
    figure, ax = plt.subplots()
    show = IntervalCalibrationDisplay.from_predictions
    one = show(y, mean, std, name="one", ax=ax, show_width=True)
    two = show(y, mean, 2 * std, name="two", ax=ax, show_width=True, color="red", linewidth=3)
    assert one.figure_ is two.figure_ is figure and one.ax_ is two.ax_ is ax
    assert labels(ax) == ["perfectly calibrated", "one", "two"]
    assert one.width_ax_ is two.width_ax_ is not ax  # one axis for the widths of both
    assert len(figure.axes) == 2
    assert two.line_.get_color() == two.width_line_.get_color() == "red"
    assert two.line_.get_linewidth() == 3
    assert_array_equal(two.width_line_.get_xydata(), np.c_[two.nominal, two.width])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("nominal coverage", "observed coverage")
    again = one.plot(name="another", ref_line=False)
    assert again is one and one.figure_ is not figure and one.width_ax_ is one.width_line_ is None
    assert labels(one.ax_) == ["another"]


def test_widths_are_drawn_whole_and_over_their_own_coverage():
    y, mean, std = np.random.default_rng(0).standard_normal((3, 50))
    std = np.abs(std)
    show = IntervalCalibrationDisplay.from_predictions
    figure, (left, right) = plt.subplots(1, 2, sharex=True)
    narrow = show(y, mean, std, ax=left, show_width=True)
    wide = show(y, mean, 5 * std, ax=left, show_width=True)
    low, high = wide.width_ax_.get_ylim()
    assert low == 0 and high > wide.width.max()
    other = show(y, mean, std, ax=right, show_width=True)  # its x axis is the left one's
    assert len(figure.axes) == 4
    for display in (narrow, wide, other):
        place = display.width_ax_.get_position().bounds
        assert place == display.ax_.get_position().bounds


@pytest.mark.parametrize(
    ("y", "mean", "std", "levels", "message"),
    [
        ([1, 2], [1, 2], [1], None, r"the same shape, got \(2,\) and \(1,\)"),
        ([1, 2], [[1], [2]], [1, 2], None, "the same shape"),
        ([], [], [], None, "At least one row"),
        ([np.nan, 1], [1, 2], [1, 1], None, "must be finite"),
        ([0, 1], [1, 2], [1, np.inf], None, "must be finite"),
        ([0, 1], [1, 2], [1, -1], None, "negative"),
        ([0, 1], [1, 2], [1, 1], [0.5, 1.0], "between 0 and 1"),
        ([0, 1], [1, 2], [1, 1], 0.9, "between 0 and 1"),
        ([0, 1], [1, 2], [1, 1], [], "between 0 and 1"),
    ],
)
def test_intervals_that_cannot_be_shown(y, mean, std, levels, message):
    with pytest.raises(ValueError, match=message):
        IntervalCalibrationDisplay.from_predictions(y, mean, std, levels=levels)


def test_regressors_without_standard_deviations_are_refused():
    X, y = load_diabetes(return_X_y=True)
    show = IntervalCalibrationDisplay.from_estimator
    with pytest.raises(
        TypeError,
        match="predict of LinearRegression does not return quantiles .* fails with return_std",
    ):
        show(LinearRegression().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        show(MetaGPRegressor(), X, y)
    with pytest.raises(ValueError, match="the same shape"):
        show(BayesianRidge().fit(X, y), X, y[:, None])


# -- meta-training --------------------------------------------------------------------------------


SETTINGS = {"max_steps": 6, "eval_every": 2, "batch_size": 2, "n_unlabelled": 5, "verbose": False}
CONFIG = {"width": 8, "head_width": 4, "n_heads": 2, "n_layers": 1}


@pytest.fixture(scope="module")
def classifier():
    return MetaSemiSupervisedClassifier(Learner(backbone_config=CONFIG)).meta_fit(
        [load_iris(return_X_y=True)],
        validation_datasets=[load_wine(return_X_y=True)],
        n_shots=(3, 1),
        **SETTINGS,
    )


@pytest.fixture(scope="module")
def regressor(tmp_path_factory):
    """A regressor with a log of its training and averaged weights."""
    learner = Learner("vsa", "gp", task="regression", backbone_config=CONFIG)
    log = tmp_path_factory.mktemp("log") / "log.csv"
    table = make_friedman1(40, n_features=5, random_state=0)
    found = MetaGPRegressor(learner).meta_fit(
        [table],
        validation_datasets=[table],
        n_shots=(5, 10),
        ema_decay=0.9,
        callbacks=[CSVLog(log)],
        **SETTINGS,
    )
    found.log = log
    return found


@pytest.mark.parametrize(
    ("name", "score", "shots", "rows"),
    [
        ("classifier", "accuracy", [1, 3], "labelled rows a class"),
        ("regressor", "mse", [5, 10], "labelled rows"),
    ],
)
def test_lines_are_those_of_the_history(request, name, score, shots, rows):
    estimator = request.getfixturevalue(name)
    display = MetaLearningCurveDisplay.from_estimator(estimator)
    history = estimator.history_
    assert display.steps.tolist() == [2, 4, 6]
    assert display.score_name == score and list(display.scores) == shots
    expected = [[epoch[f"{kind}_loss"] for epoch in history] for kind in ("train", "valid")]
    for line, values in zip(display.loss_lines_, expected, strict=True):
        assert_array_equal(line.get_xydata(), np.c_[[2, 4, 6], values])
    for line, k in zip(display.score_lines_, shots, strict=True):
        values = [epoch.get(f"valid_{score}_{k}_shots", np.nan) for epoch in history]
        assert_array_equal(line.get_xydata(), np.c_[[2, 4, 6], values])
    losses, scores = display.ax_
    assert losses.figure is scores.figure is display.figure_
    assert labels(losses) == ["training tasks", "validation tasks"]
    assert labels(scores) == [f"{k} {rows}" for k in shots]
    assert scores.get_ylabel() == f"{score} on validation tasks"
    assert losses.get_xlabel() == scores.get_xlabel() == "steps"


def test_a_log_may_stay_a_frame(regressor):
    import pandas as pd
    import pyarrow as pa

    frame = pd.read_csv(regressor.log)
    expected = MetaLearningCurveDisplay.from_history(frame.to_dict("records"))
    for log in (frame, pa.Table.from_pandas(frame)):
        display = MetaLearningCurveDisplay.from_history(log)
        assert_array_equal(display.train_loss, expected.train_loss)
        assert_array_equal(display.scores[5], expected.scores[5])
    for history in ({"train_loss": 1.0}, [1.0, 2.0]):
        with pytest.raises(ValueError, match="must hold a dict per epoch, or be a frame"):
            MetaLearningCurveDisplay.from_history(history)


def test_a_log_shows_what_the_history_shows(regressor):
    pd = pytest.importorskip("pandas")
    rows = pd.read_csv(regressor.log).to_dict("records")
    found = MetaLearningCurveDisplay.from_history(rows)
    expected = MetaLearningCurveDisplay.from_estimator(regressor)
    assert_array_equal(found.steps, expected.steps)
    for name in ("train_loss", "valid_loss"):
        assert_allclose(getattr(found, name), getattr(expected, name))
    assert list(found.scores) == list(expected.scores) == [5, 10]
    ended = MetaLearningCurveDisplay.from_history(
        [*rows, {"epoch": 4, "train_batch_count": np.nan}]
    )
    assert ended.steps.tolist() == [2, 4, 6, 7]  # in the fourth epoch


def test_without_validation_there_is_one_panel():
    history = [{"train_loss": 3.0}, {"train_loss": 2.0}]
    display = MetaLearningCurveDisplay.from_history(history)
    assert display.valid_loss is None and display.scores == {} and display.score_lines_ == []
    assert len(display.ax_) == len(display.figure_.axes) == len(display.loss_lines_) == 1
    assert display.loss_lines_[0].get_marker() == "."  # so that a lone epoch is visible
    assert display.steps.tolist() == [1, 2]  # epochs, since steps are unknown
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_[0] is ax


def test_an_epoch_without_validation_leaves_a_gap():
    history = [{"train_loss": 3.0}, {"train_loss": 2.0, "valid_loss": 2.5}]
    display = MetaLearningCurveDisplay.from_history(history)
    assert_array_equal(display.loss_lines_[1].get_ydata(), [np.nan, 2.5])


def test_a_number_of_rows_that_some_epochs_lack_leaves_a_gap():
    history = [{"train_loss": 1.0, f"valid_mse_{k}_shots": 0.5} for k in (20, 5, 20)]
    display = MetaLearningCurveDisplay.from_history(history)
    assert list(display.scores) == [5, 20]
    assert_array_equal(display.scores[20], [0.5, np.nan, 0.5])


def test_curves_are_drawn_on_given_axes_and_again(classifier):
    figure, axes = plt.subplots(2, 1)
    display = MetaLearningCurveDisplay.from_estimator(classifier, ax=axes, linestyle="--")
    assert display.figure_ is figure and list(display.ax_) == list(axes)
    assert {line.get_linestyle() for line in display.loss_lines_ + display.score_lines_} == {"--"}
    assert display.plot() is display and display.figure_ is not figure
    row = plt.subplots(1, 2, squeeze=False)[1]
    assert list(display.plot(ax=row).ax_) == [*row[0]]
    with pytest.raises(ValueError, match="must be two matplotlib Axes, got 1"):
        display.plot(ax=axes[0])


def test_histories_that_cannot_be_shown(classifier):
    for estimator in (MetaGPRegressor(), clone(classifier)):
        with pytest.raises(NotFittedError, match="no history of meta-training: call meta_fit"):
            MetaLearningCurveDisplay.from_estimator(estimator)
    with pytest.raises(ValueError, match="holds no epoch"):
        MetaLearningCurveDisplay.from_history([])
    nameless = pytest.importorskip("pandas").DataFrame([[1, 0.5], [2, 0.4]])  # header=None
    for history in (nameless, [{"valid_loss": 0.5}]):
        with pytest.raises(ValueError, match="No epoch of the history has a train_loss"):
            MetaLearningCurveDisplay.from_history(history)


def test_short_names_of_a_line_are_names_of_it():
    y = np.linspace(-1, 1, 20)
    display = IntervalCalibrationDisplay.from_predictions(y, y * 0, y * 0 + 1, ms=9, c="red")
    assert display.line_.get_markersize() == 9 and display.line_.get_color() == "red"


Y = np.linspace(-1, 1, 20)
BLOBS = np.random.default_rng(0).normal(size=(30, 2))
ONE_PANEL = {
    "intervals": lambda ax: IntervalCalibrationDisplay.from_predictions(Y, Y * 0, Y * 0 + 1, ax=ax),
    "instances": lambda ax: InstanceAccuracyDisplay.from_predictions([0, 1, 0], [0, 1, 1], ax=ax),
    "mixture": lambda ax: MixtureDisplay.from_estimator(
        GaussianMixture(2).fit(BLOBS), BLOBS, ax=ax
    ),
}


@pytest.mark.parametrize("show", ONE_PANEL.values(), ids=ONE_PANEL)
def test_displays_of_one_panel_take_one_axes(show):
    figure, axes = plt.subplots(2, 2)
    with pytest.raises(ValueError, match="^ax must be one matplotlib Axes, got 4.$"):
        show(axes)
    for ax in (axes[0, 0], axes[:1, 0], [axes[0, 0]]):  # as displays of two panels take
        display = show(ax)
        assert display.ax_ is axes[0, 0] and display.figure_ is figure
    assert show(None).figure_ is not figure


@pytest.mark.parametrize(
    ("score", "stratum", "expected"),
    [
        ("accuracy", "shots", ["2 labelled rows a class", "16 labelled rows a class"]),
        ("mse", "shots", ["2 labelled rows", "16 labelled rows"]),
        ("accuracy", "ways", ["2 classes an episode", "16 classes an episode"]),
        ("nll", "components", ["2 components", "16 components"]),
        ("auroc", "rows", ["2 to 3 rows", "16 to 31 rows"]),
        ("accuracy", "task", ["task 2", "task 16"]),
    ],
)
def test_scores_of_every_estimator_are_drawn(score, stratum, expected):
    epochs = [{f"valid_{score}_{k}_{stratum}": k + i for k in (16, 2)} for i in range(2)]
    others = {"train_loss": 1.0, f"valid_{score}": 0.5, "valid_top_5_accuracy": 0.1}
    display = MetaLearningCurveDisplay.from_history([others | epoch for epoch in epochs])
    assert (display.score_name, display.stratum) == (score, stratum)
    assert {k: v.tolist() for k, v in display.scores.items()} == {2: [2, 3], 16: [16, 17]}
    assert labels(display.ax_[1]) == expected
    assert [line.get_ydata().tolist() for line in display.score_lines_] == [[2, 3], [16, 17]]
    assert display.ax_[1].get_ylabel() == f"{score} on validation tasks"


def test_what_samplers_count_can_be_drawn():
    found = {getattr(value, "stratum", None) for value in vars(tasks).values()}
    found |= {texts.MiniBatches.stratum}
    assert found - {None} == set(learning_curve.STRATA)


def test_scores_of_a_network_with_a_memory_are_drawn():
    small = {"width": 8, "n_slots": 8, "slot_size": 4, "n_reads": 1}
    table = load_iris(return_X_y=True)
    stream = MANNClassifier(MemoryLearner(backbone_config=small)).meta_fit(
        [table],
        validation_datasets=[table],
        **{k: v for k, v in SETTINGS.items() if k != "n_unlabelled"},
    )
    display = MetaLearningCurveDisplay.from_estimator(stream)
    names = {name for epoch in stream.history_ for name in epoch if name.endswith("_rows")}
    assert {f"valid_accuracy_{k}_rows" for k in display.scores} == names
    assert len(display.ax_) == 2 and len(display.score_lines_) == len(names) > 0


def test_each_episode_begins_anew_and_the_estimator_stays_as_it_is():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    X, y = X[rows[:60]], y[rows[:60]]
    episodes = [(X[:30], y[:30]), (X[30:], y[30:]), (X[:30], y[:30])]
    estimator = MANNClassifier(n_estimators=1, random_state=0)
    display = InstanceAccuracyDisplay.from_estimator(estimator, episodes)
    told = [clone(estimator).predict_online(*episode) for episode in episodes]
    expected = InstanceAccuracyDisplay.from_predictions([y for _, y in episodes], told)
    assert_array_equal(display.accuracy, expected.accuracy)
    assert not hasattr(estimator, "classes_")
