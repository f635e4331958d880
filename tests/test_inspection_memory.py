"""Displays of learning row after row: accuracy by instance, and what is written to the memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import LogNorm, to_rgba
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier

from sklearn_meta import MANNClassifier, MANNRegressor, MetaLSTMClassifier
from sklearn_meta.inspection import (
    InstanceAccuracyDisplay,
    MemoryDisplay,
    MetaChangeDisplay,
    instance_numbers,
)
from sklearn_meta.memory_learner import MemoryLearner

SMALL = {"width": 12, "n_slots": 9, "slot_size": 4, "n_reads": 3}
LABELS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30)
show = InstanceAccuracyDisplay.from_predictions


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def texts(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


# -- accuracy by instance -------------------------------------------------------------------------


@given(LABELS)
def test_instance_numbers_count_the_rows_of_a_class_so_far(y):
    expected = [y[: t + 1].count(label) for t, label in enumerate(y)]
    for labels in (y, np.array(y), pd.Series(y, index=range(len(y), 0, -1)), [ord(c) for c in y]):
        found = instance_numbers(labels)
        assert found.tolist() == expected and found.dtype.kind == "i"


def test_no_row_has_no_number():
    assert instance_numbers([]).tolist() == []


@given(st.lists(LABELS, min_size=1, max_size=4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_accuracies_are_the_shares_of_right_predictions(y_true, max_instance, seed):
    rng = np.random.default_rng(seed)
    y_pred = [rng.choice(list("abcd"), len(y)) for y in y_true]
    right = {}
    for true, predicted in zip(y_true, y_pred):
        seen = dict.fromkeys("abcd", 0)
        for label, guess in zip(true, predicted):
            seen[label] += 1
            if seen[label] <= max_instance:
                right.setdefault(seen[label], []).append(label == guess)
    display = show(y_true, y_pred, max_instance=max_instance)
    assert list(range(1, len(display.accuracy) + 1)) == sorted(right)
    assert_array_equal(display.counts, [len(right[k]) for k in sorted(right)])
    assert display.counts.dtype.kind == "i"
    assert_allclose(display.accuracy, [np.mean(right[k]) for k in sorted(right)])
    assert display.chance == pytest.approx(np.mean([1 / len(set(y)) for y in y_true]))
    plt.close(display.figure_)


def test_standard_errors_are_those_of_a_mean_over_episodes_of_as_many_rows():
    rng = np.random.default_rng(0)
    y_true = np.stack([rng.permutation(np.repeat(range(5), 4)) for _ in range(30)])
    y_pred = np.where(rng.random(y_true.shape) < rng.random((30, 1)), y_true, -1)
    display = show(y_true, y_pred)
    numbers = np.stack([instance_numbers(y) for y in y_true])
    for k in range(4):
        means = (y_true == y_pred)[numbers == k + 1].reshape(30, 5).mean(axis=1)
        assert display.standard_error[k] == pytest.approx(means.std(ddof=1) / 30**0.5)
    assert_array_equal(display.counts, [150] * 4)


def test_standard_errors_cover_the_accuracy_of_many_episodes_of_unlike_length():
    """The standard error equals the spread of accuracies over repetitions."""
    rng = np.random.default_rng(0)
    found, errors = [], []
    for _ in range(40):
        y_true = [np.zeros(1 + n) if n else np.arange(8) for n in rng.integers(0, 2, 40)]
        skill = rng.random(40)  # rows of an episode are correlated
        y_pred = [np.where(rng.random(len(y)) < s, y, -1) for y, s in zip(y_true, skill)]
        display = show(y_true, y_pred, ax=plt.gca())
        found.append(display.accuracy[0])
        errors.append(display.standard_error[0])
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.25)


def test_one_episode_has_no_standard_error():
    display = show(["a", "a", "b"], ["a", "b", "b"])
    assert_array_equal(display.accuracy, [1, 0])
    assert np.isnan(display.standard_error).all() and display.band_ is None
    display = show([[1, 1], [1]], [[1, 1], [2]])  # only one of two has a second instance
    assert_allclose(display.standard_error, [0.5, np.nan])


class Parrot(ClassifierMixin, BaseEstimator):
    """Predicts the label before, and refuses an episode if it has seen another."""

    def __init__(self, first=0):
        self.first = first

    def predict_online(self, X, y):
        assert not hasattr(self, "seen_"), "a fresh clone is due to every episode"
        self.seen_ = np.asarray(X)
        return np.r_[self.first, y[:-1]]


def test_each_episode_begins_with_a_fresh_clone():
    parrot = Parrot(first=7)
    episodes = [(np.zeros((3, 2)), np.array(y)) for y in ([7, 7, 5], [5, 5, 7])]
    display = InstanceAccuracyDisplay.from_estimator(parrot, iter(episodes))
    assert_array_equal(display.accuracy, [1 / 4, 1])
    assert_array_equal(display.counts, [4, 2])
    assert not hasattr(parrot, "seen_")
    assert texts(display.ax_) == ["Parrot"]


def test_accuracies_of_a_memory_are_those_of_its_online_predictions():
    rng = np.random.default_rng(0)
    episodes = [(rng.standard_normal((12, 3)), rng.integers(0, 3, 12)) for _ in range(2)]
    classifier = network(MANNClassifier)
    display = InstanceAccuracyDisplay.from_estimator(classifier, episodes, max_instance=2)
    predicted = [clone(classifier).predict_online(X, y) for X, y in episodes]
    expected = show([y for _, y in episodes], predicted, max_instance=2)
    assert_array_equal(display.accuracy, expected.accuracy)
    assert len(display.accuracy) == 2 and not hasattr(classifier, "n_samples_seen_")
    named = InstanceAccuracyDisplay.from_estimator(classifier, episodes, name="mine")
    assert (display.name, named.name) == ("MANNClassifier", "mine")


def test_accuracies_are_drawn_side_by_side_and_again():
    figure, ax = plt.subplots()
    y = [["a", "b", "a"], ["a", "b", "b"]]
    wrong = [["b", "b", "a"], ["a", "b", "b"]]
    one = show(y, y, ax=ax, name="one", plot_chance_level=True)
    two = show(y, wrong, ax=ax, name="two", plot_chance_level=True, color="red")
    assert one.figure_ is two.figure_ is figure and one.ax_ is two.ax_ is ax
    assert texts(ax) == ["one", "chance (0.5)", "two"]
    assert one.chance_level_.get_ydata()[0] == 0.5 and two.chance_level_ is None
    assert two.line_.get_color() == "red"
    assert_array_equal(two.band_.get_facecolor(), [to_rgba("red", 0.2)])
    assert_array_equal(two.line_.get_xydata(), np.c_[[1, 2], two.accuracy])
    heights = two.band_.get_paths()[0].vertices[:, 1]
    assert_allclose(heights.min(), (two.accuracy - two.standard_error).min())
    assert heights.max() == pytest.approx((two.accuracy + two.standard_error).max())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("instance of a class", "accuracy")
    assert two.plot(name="again") is two and two.figure_ is not figure
    assert texts(two.ax_) == ["again"] and two.chance_level_ is None


@pytest.mark.parametrize(
    ("y_true", "y_pred", "settings", "message"),
    [
        ([], [], {}, "At least one row"),
        ([[], []], [[], []], {}, "At least one row"),
        ([[1, 2]], [[1, 2], [1, 2]], {}, "y_true has 1 episodes, but y_pred has 2"),
        ([1, 2], [1], {}, "inconsistent numbers of samples"),
        (["1", "2"], [1, 2], {}, "Only one of y_true and y_pred holds strings"),
        ([1, 2], [1, 2], {"max_instance": 0}, "max_instance == 0, must be >= 1"),
    ],
)
def test_predictions_that_cannot_be_shown(y_true, y_pred, settings, message):
    with pytest.raises(ValueError, match=message):
        show(y_true, y_pred, **settings)


@pytest.mark.parametrize("estimator", [SGDClassifier(), MANNRegressor()])
def test_estimators_that_do_not_predict_labels_online(estimator):
    message = f"got {type(estimator).__name__}.*from_predictions"
    with pytest.raises(TypeError, match=message):
        InstanceAccuracyDisplay.from_estimator(estimator, [(np.zeros((2, 1)), [0, 1])])


def test_an_array_of_one_column_is_one_episode():
    y_true, y_pred = np.array([[0], [1], [0], [0]]), np.array([[1], [1], [0], [0]])
    display = InstanceAccuracyDisplay.from_predictions(y_true, y_pred)
    np.testing.assert_array_equal(display.counts, [2, 1, 1])
    np.testing.assert_array_equal(display.accuracy, [0.5, 1, 1])


def test_one_episode_is_a_list_of_one():
    X, y = np.zeros((3, 1)), [0, 1, 0]
    with pytest.raises(ValueError, match=r"pairs \(X, y\): give \[\(X, y\)\] for a single pair"):
        InstanceAccuracyDisplay.from_estimator(MANNClassifier(), (X, y))


# -- the memory -----------------------------------------------------------------------------------


def network(kind=MANNClassifier, seed=0, n_estimators=2, **config):
    """An untrained estimator with a small memory."""
    torch.manual_seed(seed)
    task = {"task": "online_regression"} if kind is MANNRegressor else {}
    head = "gaussian" if task else "onehot"
    learner = MemoryLearner("mann", head, backbone_config=SMALL | config, **task)
    return kind(learner, n_estimators=n_estimators)


@pytest.fixture
def stream():
    rng = np.random.default_rng(0)
    return rng.standard_normal((15, 3)), rng.integers(0, 3, 15)


@pytest.mark.parametrize("kind", [MANNClassifier, MANNRegressor])
@pytest.mark.parametrize("member", [0, 1])
def test_trace_is_the_memory_after_each_row(stream, kind, member):
    X, y = stream
    display = MemoryDisplay.from_estimator(network(kind), X, y, member=member)
    again = network(kind)
    for t in range(len(y)):
        memory = again.partial_fit(X[t : t + 1], y[t : t + 1])._reading.state.memory
        assert_array_equal(display.write_weights[t], memory.write_weights[member].sum(0))
        assert_array_equal(display.read_weights[t], memory.read_weights[member].mean(0))


def test_rows_of_other_threads_are_not_replayed(stream):
    X, y = stream
    other, over = MANNClassifier(n_estimators=2).fit(X, y), threading.Event()

    def predict():
        while not over.is_set():
            other.predict_proba(X)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(predict)
        display = MemoryDisplay.from_estimator(MANNClassifier(n_estimators=2), X, y)
        over.set()
    assert display.write_weights.shape == (15, 128)


@pytest.mark.parametrize(("access", "n_writers"), [("lrua", 3), ("ntm", 1)])
def test_heads_spread_their_weight_over_the_slots(stream, access, n_writers):
    display = MemoryDisplay.from_estimator(network(access=access), *stream)
    assert_allclose(display.read_weights.sum(axis=1), 1, rtol=1e-5)
    written = display.write_weights.sum(axis=1)
    assert_allclose(written[1:], n_writers, rtol=1e-5)
    # Before anything is read, LRUA can write only to the least used slots.
    assert 0 < written[0] < 3 if access == "lrua" else written[0] == pytest.approx(1)


def test_slots_are_in_the_order_in_which_they_were_first_written(stream):
    classifier = network(n_slots=40)
    for min_write in (0.1, 0.5, 1.0):
        display = MemoryDisplay.from_estimator(classifier, *stream, min_write=min_write)
        writes, order = display.write_weights, []
        for row in writes:
            for slot, weight in enumerate(row):
                if weight >= min_write * writes.max() and slot not in order:
                    order.append(slot)
        assert display.slots.tolist() == order
        assert min_write < 1 or len(order) == 1
    everything = MemoryDisplay.from_estimator(classifier, *stream, min_write=0.0)
    assert_array_equal(np.sort(everything.slots), np.arange(40))


def test_replay_leaves_the_estimator_as_it_was(stream):
    X, y = stream
    fitted, fresh = network().fit(X, y), network()
    before = fitted.predict_proba(X)
    found = []
    for estimator in (fitted, fresh):
        attributes = set(vars(estimator))
        found.append(MemoryDisplay.from_estimator(estimator, X[:4], y[:4]).write_weights)
        assert set(vars(estimator)) == attributes
    assert_array_equal(*found)  # it starts with an empty memory, whatever was read before
    assert fitted.n_samples_seen_ == 15
    assert_array_equal(fitted.predict_proba(X), before)


def test_nothing_watches_the_network_afterwards(stream):
    X, y = stream
    classifier = network().fit(X, y)  # its clones share its network
    access = classifier._module(classifier.learner_).backbone.access
    MemoryDisplay.from_estimator(classifier, X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        MemoryDisplay.from_estimator(classifier, X, y[:-1])
    assert not access._forward_hooks


def test_categories_that_come_late_are_read():
    """``partial_fit`` with all rows learns the categories from all of them; so does the display."""
    frame = pd.DataFrame({"c": pd.Categorical(list("aabbab")), "x": np.arange(6.0)})
    y = np.array([0, 0, 1, 1, 0, 1])
    display = MemoryDisplay.from_estimator(network(), frame, y)
    blind = MemoryDisplay.from_estimator(network(), frame.assign(c=frame["c"].mask(y == 1)), y)
    assert_array_equal(display.write_weights[:2], blind.write_weights[:2])
    assert not np.allclose(display.write_weights[2:], blind.write_weights[2:], atol=1e-5)


def test_panels_show_the_weights_and_the_labels_of_the_rows(stream):
    X, y = stream
    names = np.array(["one", "two", "three"])[y]
    figure, axes = plt.subplots(2, 1)
    display = MemoryDisplay.from_estimator(network(), X, names, min_write=0.9, ax=axes, cmap="gray")
    assert display.slots.tolist() != list(range(9))  # some are elsewhere, or hidden
    assert display.figure_ is figure and list(display.ax_) == list(axes)
    for image, weights in zip(
        display.images_, (display.write_weights, display.read_weights), strict=True
    ):
        assert_array_equal(image.get_array(), weights[:, display.slots])
        assert image.get_cmap().name == "gray" and image.get_clim()[0] == 0
    for ax in axes:
        assert [label.get_text() for label in ax.get_yticklabels()] == names.tolist()
        assert ax.get_ylabel() == "class of the row"
    assert len(figure.axes) == 4  # two panels with a scale each
    assert display.plot(colorbar=False) is display and display.figure_ is not figure
    assert len(display.figure_.axes) == 2
    with pytest.raises(ValueError, match="two matplotlib Axes, got 1"):
        display.plot(ax=axes[0])


def test_weights_may_be_shown_on_a_scale_of_ones_own(stream):
    scale = LogNorm(1e-3, 1)
    display = MemoryDisplay.from_estimator(network(), *stream, norm=scale)
    assert [image.norm for image in display.images_] == [scale, scale]
    display.write_weights = 1 + display.write_weights
    assert display.plot(norm=None).images_[0].get_clim()[0] == 0


def test_many_rows_and_targets_have_no_labels():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((41, 2)), rng.integers(0, 2, 41)
    many = MemoryDisplay.from_estimator(network(), X, y, colorbar=False)
    targets = MemoryDisplay.from_estimator(network(MANNRegressor), X[:9], X[:9, 0])
    assert targets.labels is None and len(many.labels) == 41
    fewer = MemoryDisplay.from_estimator(network(), X[:40], y[:40])
    assert len(fewer.ax_[0].get_yticks()) == 40
    for display in (many, targets):
        assert {ax.get_ylabel() for ax in display.ax_} == {"row"}
        assert len(display.ax_[0].get_yticks()) < 20


def test_memories_that_cannot_be_shown(stream):
    show = MemoryDisplay.from_estimator
    with pytest.raises(TypeError, match="MANNClassifier or a MANNRegressor, got SGDClassifier"):
        show(SGDClassifier(), *stream)
    having = r"no external memory.*\['mann', 'mann_ntm', 'mann_feedforward'\]"
    with pytest.raises(ValueError, match=having):
        show(network(access=None), *stream)
    for member in (-1, 2):
        with pytest.raises(ValueError, match="member == "):
            show(network(), *stream, member=member)
    with pytest.raises(ValueError, match="min_write == 2"):
        show(network(), *stream, min_write=2)


def test_labels_and_words_are_no_mathematics():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0:3, 50:53]
    names = np.array(["$a_{$", "b", "c"])[y[rows]]
    estimator = MANNClassifier(n_estimators=1).fit(X[rows], names)
    display = MemoryDisplay.from_estimator(estimator, X[rows], names)
    display.figure_.canvas.draw()
    texts, labels = ["a $x_{$ film", "a bad film"] * 4, [1, 0] * 4
    reader = MetaLSTMClassifier(width=8, embedding_size=8, max_epochs=1, wide=False)
    display = MetaChangeDisplay.from_estimator(reader.fit(texts, labels), ["$x_{$", "bad"])
    display.figure_.canvas.draw()


def test_short_names_of_a_line_are_names_of_it():
    labels = np.array([0, 1] * 4)
    display = InstanceAccuracyDisplay.from_predictions(labels, labels, ms=9, c="red")
    assert display.line_.get_markersize() == 9 and display.line_.get_color() == "red"
