"""The displays show the right rows, in the right colours and shapes."""

import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.markers import MarkerStyle
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris, load_wine, make_moons
from sklearn.decomposition import PCA
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_meta import MetaSemiSupervisedClassifier, inspection
from sklearn_meta.inspection import EmbeddingDisplay, UnlabelledEffectDisplay, embedding
from sklearn_meta.inspection.embedding import to_two


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def wine():
    """Nine labelled rows, three unlabelled rows known to fit, and thirty more."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    rows = np.concatenate([[r for r in rows if y[r] == k][:14] for k in range(3)])
    X, y = X[rows], y[rows]
    labelled = np.arange(42) % 14 < 3
    context = np.arange(42) % 14 < 4
    marked = np.where(labelled, y, -1)
    return X[context], marked[context], X[~context], y[~context]


@pytest.fixture
def moons():
    X, y = make_moons(60, noise=0.05, random_state=0)
    return X, np.where(np.arange(60) < 8, y, -1)


class FirstTwo(TransformerMixin, BaseEstimator):
    """Keeps two columns, and records its inputs."""

    seen = []

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.seen.append(X)
        return X[:, :2]


def scatters(ax):
    """Collections of the crosses and of the circles on an axes."""
    shapes = {}
    for collection in ax.collections:
        if not isinstance(collection, QuadMesh):
            (path,) = collection.get_paths()
            shape = "x" if len(path) == len(MarkerStyle("x").get_path()) else "o"
            shapes[shape] = collection
    return shapes["x"], shapes["o"]


def test_embedding_panels_show_labelled_circles_and_unlabelled_crosses(wine):
    X, y, X_new, y_new = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    display = EmbeddingDisplay.from_estimator(classifier, X_new, y_new, random_state=0)
    assert display.figure_ is display.ax_[0].figure is display.ax_[1].figure
    assert display.labelled.tolist() == [*(y >= 0), *[False] * 30]
    for ax, points in zip(display.ax_, (display.original, display.embedding)):
        crosses, circles = scatters(ax)
        np.testing.assert_array_equal(circles.get_offsets(), points[display.labelled])
        np.testing.assert_array_equal(crosses.get_offsets(), points[~display.labelled])
        assert (len(circles.get_offsets()), len(crosses.get_offsets())) == (9, 33)
        for marks, rows in ((circles, display.labelled), (crosses, ~display.labelled)):
            due = [to_rgba(f"C{k}") for k in display.target[rows]]
            np.testing.assert_allclose(marks.get_facecolors(), due)
    assert display.target[display.labelled].tolist() == y[y >= 0].tolist()
    assert not np.allclose(display.original, display.embedding)
    texts = [text.get_text() for text in display.ax_[1].get_legend().get_texts()]
    assert texts == ["0", "1", "2", "labelled", "unlabelled"]
    keys = display.ax_[1].get_legend().legend_handles[-2:]
    assert [key.get_marker() for key in keys] == ["o", "x"]


@pytest.mark.parametrize("transductive", [True, False])
def test_embeddings_are_those_of_transform_and_prediction_colours_them(wine, transductive):
    X, y, X_new, _ = wine
    classifier = MetaSemiSupervisedClassifier(transductive=transductive).fit(X, y)
    FirstTwo.seen.clear()
    display = EmbeddingDisplay.from_estimator(classifier, X_new, reduction=FirstTwo())
    original, embedding = FirstTwo.seen
    np.testing.assert_allclose(original.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(original.std(axis=0), 1)
    np.testing.assert_allclose(embedding[len(y) :], classifier.transform(X_new), rtol=1e-4)
    assert display.target[len(y) :].tolist() == classifier.predict(X_new).tolist()
    texts = [text.get_text() for text in display.ax_[1].get_legend().get_texts()]
    assert texts[-1] == "unlabelled, as predicted"
    assert display.target[: len(y)][y >= 0].tolist() == y[y >= 0].tolist()
    # A labelled row is embedded with its label, which ``transform`` does not know.
    assert not np.allclose(embedding[: len(y)], classifier.transform(X), rtol=1e-2)
    # Rows of fit read the new ones in transductive mode only.
    EmbeddingDisplay.from_estimator(classifier, None, reduction=FirstTwo())
    alone = FirstTwo.seen[-1]
    assert np.allclose(alone, embedding[: len(y)], rtol=1e-4, atol=1e-4) != transductive


def test_true_labels_give_the_colours(wine):
    X, y, X_new, y_new = wine
    names = np.array(["one", "two", "three"])
    marked = np.where(y >= 0, names[y], "-1").astype(object)
    marked[y < 0] = -1
    classifier = MetaSemiSupervisedClassifier().fit(X, marked)
    wrong = names[(y_new + 1) % 3]
    display = EmbeddingDisplay.from_estimator(classifier, X_new, wrong, reduction="pca")
    assert display.classes[display.target[len(y) :]].tolist() == wrong.tolist()
    with pytest.raises(ValueError, match="not seen: .*four"):
        EmbeddingDisplay.from_estimator(classifier, X_new, ["four"] * 30, reduction="pca")
    with pytest.raises(ValueError, match="inconsistent"):
        EmbeddingDisplay.from_estimator(classifier, X_new, wrong[:-1], reduction="pca")


def test_rows_of_fit_alone(wine):
    X, y, _, _ = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    display = EmbeddingDisplay.from_estimator(classifier, None, reduction="pca")
    assert len(display.embedding) == len(y)
    assert display.target.tolist() == classifier.transduction_.tolist()


def test_reductions_repeat_with_their_seed(wine):
    X, y, X_new, _ = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    first, again = (
        EmbeddingDisplay.from_estimator(classifier, X_new, random_state=3) for _ in range(2)
    )
    np.testing.assert_array_equal(first.embedding, again.embedding)
    own = PCA(2)
    EmbeddingDisplay.from_estimator(classifier, X_new, reduction=own)
    assert not hasattr(own, "components_")  # clones were fitted
    many = np.random.default_rng(0).standard_normal((510, 60))  # PCA is randomised at this size
    np.testing.assert_array_equal(*(to_two(many, "pca", 3) for _ in range(2)))


def test_reductions_are_given_the_seed_and_of_few_rows_few_neighbours(wine, monkeypatch):
    X, y, X_new, _ = wine
    given = []

    def fake(perplexity, random_state):
        given.append((perplexity, random_state))
        return FirstTwo()

    monkeypatch.setattr(embedding, "TSNE", fake)
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    EmbeddingDisplay.from_estimator(classifier, X_new, random_state=3)
    to_two(np.zeros((100, 3)), "tsne", 4)
    assert given == [(41 / 3, 3), (41 / 3, 3), (30, 4)]


@pytest.mark.parametrize("n_classes", [4, 10, 12])
def test_every_class_has_a_colour_of_its_own(n_classes):
    points, classes = np.random.default_rng(0).normal(size=(n_classes, 2)), np.arange(n_classes)
    display = EmbeddingDisplay(
        original=points, embedding=points, target=classes, labelled=classes >= 0, classes=classes
    ).plot()
    _, circles = scatters(display.ax_[1])
    keys = display.ax_[1].get_legend().legend_handles[:n_classes]
    np.testing.assert_allclose(circles.get_facecolors(), [to_rgba(k.get_color()) for k in keys])
    assert len({to_rgba(key.get_color()) for key in keys}) == n_classes


@pytest.mark.parametrize("n_classes", [14, 30, 31, 80])
def test_many_classes_leave_room_for_the_panels(n_classes, recwarn):
    points, classes = np.random.default_rng(0).normal(size=(n_classes, 2)), np.arange(n_classes)
    names = np.array([f"class {i}" for i in classes])
    shown = {"original": points, "embedding": points, "target": classes}
    display = EmbeddingDisplay(**shown, labelled=classes > 3, classes=names, predicted=True).plot()
    display.figure_.canvas.draw()
    assert not recwarn.list  # no warning that axes have no room left
    key = display.ax_[1].get_legend()
    inside, whole = key.get_window_extent(), display.figure_.bbox
    assert inside.y0 >= 0 and inside.y1 <= whole.y1 and inside.x1 <= whole.x1
    assert all(ax.get_window_extent().width > whole.width / 4 for ax in display.ax_)
    named = key.legend_handles[:-2]
    _, circles = scatters(display.ax_[1])
    colour = dict(zip(names[4:], circles.get_facecolors(), strict=True))
    for handle in named:
        if (label := handle.get_label()) in colour:
            np.testing.assert_allclose(colour[label], to_rgba(handle.get_color()))
    title = key.get_title().get_text()
    if n_classes <= 30:
        assert [handle.get_label() for handle in named] == names.tolist() and not title
    else:
        assert 10 <= len(named) <= 30 and title == f"some of {n_classes} classes"


def test_embedding_of_a_frame_with_categories_gaps_and_one_column():
    rng = np.random.default_rng(0)
    y = np.arange(20) % 2
    frame = pd.DataFrame({"number": rng.normal(size=20) + y})
    classifier = MetaSemiSupervisedClassifier().fit(frame[:6], y[:6])
    display = EmbeddingDisplay.from_estimator(classifier, frame[6:], reduction="pca")
    assert np.isfinite(display.original).all()
    frame["category"] = pd.Categorical(np.array(["a", "b", "c"])[rng.integers(3, size=20)])
    frame.loc[::5] = np.nan
    classifier.fit(frame[:6], y[:6])
    display = EmbeddingDisplay.from_estimator(classifier, frame[6:], reduction="pca")
    assert display.original.shape == (20, 2)
    assert np.isfinite(display.original).all()


def test_embedding_draws_on_given_axes_and_again(wine):
    X, y, X_new, _ = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    figure, axes = plt.subplots(2, 1)
    display = EmbeddingDisplay.from_estimator(classifier, X_new, reduction="pca", ax=axes)
    assert display.figure_ is figure
    assert list(display.ax_) == list(axes)
    assert display.plot().figure_ is not figure
    with pytest.raises(ValueError, match="two matplotlib Axes, got 1"):
        display.plot(ax=axes[0])


def test_embedding_refuses_what_it_cannot_show(wine):
    X, y, X_new, _ = wine
    show = EmbeddingDisplay.from_estimator
    with pytest.raises(NotFittedError):
        show(MetaSemiSupervisedClassifier(), X_new)
    with pytest.raises(TypeError, match="must be a MetaSemiSupervisedClassifier, got KNeighbors"):
        show(KNeighborsClassifier().fit(X, y), X_new)
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    with pytest.raises(ValueError, match="reduction must be .* got 'umap'"):
        show(classifier, X_new, reduction="umap")
    with pytest.raises(ValueError, match=r"must make 2 columns, but made shape \(42, 3\)"):
        show(classifier, X_new, reduction=PCA(3))
    y_new = pd.Series(["1"] * len(X_new), dtype="string").where(np.arange(len(X_new)) > 0)
    with pytest.raises(ValueError, match="y contains NaN or None"):
        show(classifier, X_new, y_new, reduction="pca")


def test_embedding_takes_a_reduction_that_makes_frames(wine):
    X, y, X_new, _ = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    reduction = PCA(2).set_output(transform="pandas")
    display = EmbeddingDisplay.from_estimator(classifier, X_new, reduction=reduction)
    assert type(display.original) is np.ndarray and len(display.plot().ax_) == 2


def test_effect_panels_are_the_fits_without_and_with_unlabelled_rows(moons):
    X, y = moons
    display = UnlabelledEffectDisplay.from_estimator(LabelSpreading(), X, y, grid_resolution=30)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    few = LabelSpreading().fit(X[y >= 0], y[y >= 0]).predict(grid)
    np.testing.assert_array_equal(display.without_unlabelled.ravel(), few)
    full = LabelSpreading().fit(X, y).predict(grid)
    np.testing.assert_array_equal(display.with_unlabelled.ravel(), full)
    assert (few != full).mean() > 0.05
    assert (grid.min(axis=0) < X.min(axis=0)).all()
    assert (grid.max(axis=0) > X.max(axis=0)).all()
    for ax, region in zip(display.ax_, (few, full)):
        crosses, circles = scatters(ax)
        np.testing.assert_array_equal(circles.get_offsets(), X[y >= 0])
        np.testing.assert_array_equal(crosses.get_offsets(), X[y < 0])
        assert (crosses.get_facecolors() == to_rgba("0.35")).all()  # they have no class
        (mesh,) = [c for c in ax.collections if isinstance(c, QuadMesh)]
        corners = mesh.get_coordinates()
        centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        np.testing.assert_allclose(centres.reshape(-1, 2), grid, atol=1e-9)
        pale = np.array([to_rgba("C0", 0.35), to_rgba("C1", 0.35)])[region]
        over_white = 1 - pale[:, 3:] * (1 - pale[:, :3])
        np.testing.assert_allclose(mesh.get_array().reshape(-1, 3), over_white)
    assert "8 labelled and 52 unlabelled" in display.ax_[1].get_title()


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_effect_grid_points_are_no_unlabelled_rows(moons, in_pipeline):
    X, y = moons
    estimator = MetaSemiSupervisedClassifier()
    if in_pipeline:
        estimator = make_pipeline(StandardScaler(), estimator)
    fine, coarse = (
        UnlabelledEffectDisplay.from_estimator(estimator, X, y, grid_resolution=n) for n in (9, 3)
    )
    np.testing.assert_allclose(fine.xx0[::4, ::4], coarse.xx0)
    for region in ("without_unlabelled", "with_unlabelled"):
        np.testing.assert_array_equal(getattr(fine, region)[::4, ::4], getattr(coarse, region))
    inner = estimator[-1] if in_pipeline else estimator
    assert inner.transductive  # the caller's estimator is unchanged
    assert not hasattr(inner, "classes_")


@pytest.mark.filterwarnings("ignore:y contains no unlabeled samples")  # on the left
def test_effect_of_a_frame_with_text_labels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12, 2)), columns=["length", "width"])
    y = np.array(["b", "a", "c"] * 2 + [-1] * 6, dtype=object)
    X.iloc[:6] += 10 * np.array([[0, 0], [1, 0], [0, 1]] * 2)
    neighbour = SelfTrainingClassifier(KNeighborsClassifier(1))
    display = UnlabelledEffectDisplay.from_estimator(neighbour, X, y, grid_resolution=5)
    assert display.classes.tolist() == ["a", "b", "c"]
    assert display.target.tolist() == [1, 0, 2, 1, 0, 2, *[-1] * 6]
    # Corners: neither column, the first, the second.
    corners = display.without_unlabelled[[0, 0, -1], [0, -1, 0]]
    assert display.classes[corners].tolist() == ["b", "a", "c"]
    assert (display.ax_[0].get_xlabel(), display.ax_[0].get_ylabel()) == ("length", "width")


def test_effect_refuses_what_it_cannot_show(moons):
    X, y = moons
    show = UnlabelledEffectDisplay.from_estimator
    with pytest.raises(ValueError, match=r"2 columns to be drawn, got shape \(60, 3\)"):
        show(LabelSpreading(), np.c_[X, X[:, 0]], y)
    with pytest.raises(ValueError, match="Every row is labelled"):
        show(LabelSpreading(), X, np.abs(y))
    with pytest.raises(ValueError, match="no labelled row"):
        show(LabelSpreading(), X, np.full(60, -1))
    with pytest.raises(ValueError, match="inconsistent"):
        show(LabelSpreading(), X, y[:-1])


def test_lists_are_arrays_of_points():
    X, y = load_iris(return_X_y=True)
    few = np.where(np.arange(150) % 10 == 0, y, -1)
    classifier = MetaSemiSupervisedClassifier("prior")
    settings = {"grid_resolution": 5}
    of_list, of_array = (
        UnlabelledEffectDisplay.from_estimator(classifier, *data, **settings)
        for data in ((X[:, :2].tolist(), few.tolist()), (X[:, :2], few))
    )
    for name, value in vars(of_array).items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            np.testing.assert_array_equal(getattr(of_list, name), value)


def test_labels_without_rows_are_no_picture():
    X, y = load_iris(return_X_y=True)
    classifier = MetaSemiSupervisedClassifier("prior").fit(X[::10], y[::10])
    with pytest.raises(ValueError, match="pass X, too"):
        EmbeddingDisplay.from_estimator(classifier, None, y)


def test_a_column_of_labels_is_labels(wine):
    X, y, X_new, y_new = wine
    classifier = MetaSemiSupervisedClassifier().fit(X, y)
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        display = EmbeddingDisplay.from_estimator(
            classifier, X_new, y_new[:, None], reduction="pca"
        )
    assert display.target[len(y) :].tolist() == y_new.tolist()


DISPLAYS = [name for name in inspection.__all__ if name.endswith("Display")]


@pytest.mark.parametrize("name", DISPLAYS)
def test_without_matplotlib_it_is_said_how_to_install_it(name, monkeypatch):
    display = object.__new__(getattr(inspection, name))
    display.scores = {}  # a learning curve derives its panels from these
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = rf'^{name}.plot needs matplotlib: pip install "sklearn_meta\[plot\]"'
    with pytest.raises(ImportError, match=message):
        display.plot()


@pytest.mark.filterwarnings("ignore:These values lie far from all others")
def test_a_mark_of_gaps_among_new_rows_is_a_number_as_it_is_to_predict():
    X, y = load_iris(return_X_y=True)
    new = X[1::10].copy()
    new[:2, 0] = -9999.0
    classifier = MetaSemiSupervisedClassifier().fit(X[::10], y[::10])
    FirstTwo.seen.clear()
    EmbeddingDisplay.from_estimator(classifier, new, reduction=FirstTwo())
    original = FirstTwo.seen[0]
    assert (original[15:17, 0] < -3).all()  # not gaps, which would be in the middle
