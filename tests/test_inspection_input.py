"""The displays read their input as the estimator does, or say what is wrong with it."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from sklearn_meta import MANNClassifier, MetaLSTMClassifier, MetaSemiSupervisedClassifier
from sklearn_meta.inspection import (
    EmbeddingDisplay,
    InstanceAccuracyDisplay,
    IntervalCalibrationDisplay,
    MemoryDisplay,
    MetaChangeDisplay,
    MixtureDisplay,
    UnlabelledEffectDisplay,
)
from sklearn_meta.model_selection import Transductive

show_effect = UnlabelledEffectDisplay.from_estimator
show_instances = InstanceAccuracyDisplay.from_predictions
show_intervals = IntervalCalibrationDisplay.from_predictions


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# -- embeddings -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X[::3], np.where(np.arange(50) % 5 == 0, y[::3], -1)


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.add_prefix("new "),
        lambda X: X.iloc[:, :2],
        lambda X: X.iloc[:, 0],
        lambda X: X.assign(z=1),
        lambda X: X.assign(**{X.columns[0]: "text"}),
        lambda X: X.assign(**{X.columns[0]: np.inf}),
        lambda X: X.to_numpy()[:, :2].tolist(),
    ],
    ids=["names", "fewer", "series", "more", "text", "infinite", "list"],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_that_predict_refuses_are_not_embedded(flowers, transductive, change):
    X, y = flowers
    classifier = MetaSemiSupervisedClassifier("prior", transductive=transductive).fit(X, y)
    with pytest.raises(ValueError) as refusal:
        classifier.predict(change(X))
    with pytest.raises(ValueError) as found:
        EmbeddingDisplay.from_estimator(classifier, change(X), reduction="pca")
    assert str(found.value) == str(refusal.value)


# -- decision regions -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.05, random_state=0)
    return X, np.where(np.arange(60) < 8, y, -1)


def semi_supervised():
    return MetaSemiSupervisedClassifier("prior")


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        (Transductive(LabelSpreading()), LabelSpreading()),
        (Transductive(semi_supervised()), semi_supervised()),
        (
            make_pipeline(StandardScaler(), Transductive(semi_supervised())),
            make_pipeline(StandardScaler(), semi_supervised()),
        ),
        (
            Transductive(make_pipeline(StandardScaler(), Transductive(LabelSpreading()))),
            make_pipeline(StandardScaler(), LabelSpreading()),
        ),
        (
            GridSearchCV(Transductive(LabelSpreading()), {}, cv=[([0, 1, 2, 3], [4, 5])]),
            LabelSpreading(),
        ),
    ],
    ids=["itself", "of this package", "step", "twice", "search"],
)
def test_grid_points_are_no_rows_of_a_transductive_fit(moons, wrapped, plain):
    found, expected = (show_effect(e, *moons, grid_resolution=7) for e in (wrapped, plain))
    for region in ("without_unlabelled", "with_unlabelled"):
        assert_array_equal(getattr(found, region), getattr(expected, region))


@pytest.mark.parametrize("step", ["", "metasemisupervisedclassifier__"])
def test_grid_points_are_no_rows_whichever_mode_a_search_chooses(moons, step):
    plain, steps = semi_supervised(), [semi_supervised()]
    model = make_pipeline(*steps) if step else steps[0]
    modes = {f"{step}transductive": [True]}
    search = GridSearchCV(model, modes, cv=[([0, 1, 2, 3], [4, 5])])
    found, expected = (show_effect(e, *moons, grid_resolution=7) for e in (search, plain))
    for region in ("without_unlabelled", "with_unlabelled"):
        assert_array_equal(getattr(found, region), getattr(expected, region))


@pytest.mark.parametrize("wrap", [lambda frozen: frozen, Transductive, make_pipeline])
def test_what_is_frozen_cannot_be_fitted_to_show_an_effect(moons, wrap):
    frozen = wrap(FrozenEstimator(semi_supervised().fit(*moons)))
    with pytest.raises(TypeError, match="FrozenEstimator cannot be fitted: pass the estimator"):
        show_effect(frozen, *moons)


def test_of_a_search_that_is_frozen_no_clone_is_fitted_either(moons):
    search = GridSearchCV(semi_supervised(), {}, cv=[([0, 1, 2, 3], [4, 5])]).fit(*moons)
    with pytest.raises(TypeError, match="FrozenEstimator cannot be fitted: pass the estimator"):
        show_effect(FrozenEstimator(search), *moons)


def test_effect_refuses_sparse_rows(moons):
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        show_effect(semi_supervised(), csr_array(moons[0]), moons[1])


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_effect_needs_numeric_columns(moons, dtype):
    X, y = moons
    frame = pd.DataFrame({"digits": (X[:, 0] > 0).astype(int), "x": X[:, 1]})
    frame["digits"] = frame["digits"].astype(str).astype(dtype)
    with pytest.raises(ValueError, match=r"numeric columns to be drawn, but \['digits'\] are not"):
        show_effect(semi_supervised(), frame, y)
    whole = frame.assign(digits=frame["digits"].astype(int))
    assert show_effect(semi_supervised(), whole, y, grid_resolution=3).names == ("digits", "x")


def test_effect_reads_frames_of_other_libraries(moons):
    import pyarrow as pa

    X, y = moons
    frame = pd.DataFrame(X, columns=["a", "b"])
    by_name = make_pipeline(
        ColumnTransformer([("scaled", StandardScaler(), ["b", "a"])]), semi_supervised()
    )
    expected, found = (
        show_effect(by_name, table, y, grid_resolution=5)
        for table in (frame, pa.Table.from_pandas(frame))
    )
    assert found.names == ("a", "b")
    assert_array_equal(found.with_unlabelled, expected.with_unlabelled)
    text = frame.assign(b=frame["b"].astype(str))
    with pytest.raises(ValueError, match=r"numeric columns to be drawn, but \['b'\] are not"):
        show_effect(semi_supervised(), pa.Table.from_pandas(text), y)


def test_effect_needs_a_classifier(moons):
    with pytest.raises(TypeError, match=r"must be a classifier, got Ridge\(\)"):
        show_effect(Ridge(), *moons)


@pytest.mark.parametrize(
    "supervised",
    [
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        Transductive(KNeighborsClassifier()),
        MANNClassifier(),
    ],
    ids=["itself", "step", "transductive", "of this package"],
)
def test_effect_needs_an_estimator_that_knows_the_mark(moons, supervised):
    with pytest.raises(ValueError, match="took -1 for a class, not for 'no label'"):
        show_effect(supervised, *moons, grid_resolution=3)


def test_effect_is_refused_before_the_grid_is_predicted(moons, monkeypatch):
    """Predicting the grid takes some estimators a minute."""
    monkeypatch.setattr(KNeighborsClassifier, "predict", None)
    with pytest.raises(ValueError, match="took -1 for a class"):
        show_effect(KNeighborsClassifier(), *moons)


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_effect_needs_a_finite_cell_in_each_column(moons, cell):
    X, y = moons
    with pytest.raises(ValueError, match="Column 1 of X has no finite cell"):
        show_effect(semi_supervised(), np.c_[X[:, 0], np.full(60, cell)], y)


def test_effect_of_a_missing_or_an_infinite_cell(moons):
    X, y = moons[0].copy(), moons[1]
    X[20, 1] = np.nan
    display = show_effect(semi_supervised(), X, y, grid_resolution=3)
    assert np.isfinite(display.xx1).all()
    nullable = pd.DataFrame(X, columns=["a", "b"]).astype("Float64")
    found = show_effect(semi_supervised(), nullable, y, grid_resolution=3)
    assert_array_equal(found.xx1, display.xx1)
    X[20, 1] = np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):  # raised by the estimator
        show_effect(semi_supervised(), X, y, grid_resolution=3)


@pytest.mark.parametrize(
    ("grid_resolution", "error", "message"),
    [
        (0, ValueError, "grid_resolution == 0, must be >= 2"),
        (1, ValueError, "grid_resolution == 1, must be >= 2"),
        (10.0, TypeError, "grid_resolution must be an instance of int"),
    ],
)
def test_grids_that_cannot_be_shown(moons, grid_resolution, error, message):
    with pytest.raises(error, match=message):
        show_effect(LabelSpreading(), *moons, grid_resolution=grid_resolution)


# -- accuracy by instance -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_texts_of_pandas_are_strings(dtype):
    texts, numbers = pd.Series(["a", "b"] * 6, dtype=dtype), np.arange(12) % 2
    for pair in ((texts, numbers), (numbers, texts), (texts, numbers.astype(object))):
        with pytest.raises(ValueError, match="Only one of y_true and y_pred holds strings"):
            show_instances(*pair)
    assert_array_equal(show_instances(texts, np.array(["a", "b"] * 6)).accuracy, np.ones(6))


def test_a_column_of_labels_is_one_episode():
    y = np.array([0, 1, 0, 0])
    display = show_instances(y[:, None], y[:, None])
    assert_array_equal(display.counts, [2, 1, 1])
    assert_array_equal(show_instances(y[:, None], y).counts, [2, 1, 1])
    assert_array_equal(show_instances([[label] for label in y], y[:, None, None]).counts, [4])


def test_labels_of_arrow_are_labels():
    pyarrow = pytest.importorskip("pyarrow")
    y = pyarrow.array([0, 1, 0, 0])
    assert_array_equal(show_instances(y, np.array([0, 1, 1, 0])).accuracy, [1, 0, 1])
    with pytest.raises(ValueError, match="^y_true contains NaN"):
        show_instances(pyarrow.array([0, None]), [0, 1])


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
@pytest.mark.parametrize("labels", [["a", "b"], [0, 1]])
def test_missing_labels_are_refused(missing, labels):
    whole, holes = np.array([*labels, labels[0]]), [*labels, missing]
    for y in (holes, np.array(holes, dtype=object), pd.Series(holes)):
        with pytest.raises(ValueError, match="^y_true contains NaN"):
            show_instances(y, whole)
        with pytest.raises(ValueError, match="^y_pred contains NaN"):
            show_instances([whole, whole], [whole, y])


# -- predictive intervals -------------------------------------------------------------------------


def test_a_frame_of_one_target_is_a_target():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    regressor = BayesianRidge().fit(X, y)
    show = IntervalCalibrationDisplay.from_estimator
    assert_array_equal(show(regressor, X, y.to_frame()).observed, show(regressor, X, y).observed)
    with pytest.raises(ValueError, match=r"the same shape, got \(442, 2\) and \(442,\)"):
        show(regressor, X, pd.concat([y, y], axis=1))


def test_levels_are_sorted():
    y = np.linspace(-1, 1, 20)
    display = show_intervals(y, 0 * y, 0 * y + 1, levels=[0.9, 0.1, 0.5])
    assert display.nominal.tolist() == [0.1, 0.5, 0.9]
    expected = show_intervals(y, 0 * y, 0 * y + 1, levels=[0.1, 0.5, 0.9])
    assert_array_equal(display.observed, expected.observed)
    assert_array_equal(display.width, expected.width)


def test_a_class_is_no_regressor():
    with pytest.raises(TypeError, match=r"instance \(BayesianRidge\(\)\), got estimator class"):
        IntervalCalibrationDisplay.from_estimator(BayesianRidge, np.zeros((2, 1)), [0, 1])


@pytest.mark.parametrize("y", [None, 1.0])
def test_intervals_of_no_targets_are_refused_in_scikit_learns_words(y):
    regressor = BayesianRidge().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(TypeError, match="sequence or array-like|valid collection"):
        IntervalCalibrationDisplay.from_estimator(regressor, [[0.0], [1.0]], y)


# -- the memory, and texts ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    return X[::15], y[::15]


def test_parameters_of_a_memory_are_validated_first(rows):
    with pytest.raises(ValueError, match="'n_estimators' parameter of MANNClassifier must be"):
        MemoryDisplay.from_estimator(MANNClassifier(n_estimators=0), *rows)


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_labels_in_a_column_are_labels(rows):
    X, y = rows
    display = MemoryDisplay.from_estimator(MANNClassifier(n_estimators=1), X, y[:, None])
    assert_array_equal(display.labels, y)


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_labels_of_pandas_are_those_of_the_classifier(rows, dtype):
    X, y = rows[0], pd.Series(rows[1] > 0).astype(dtype)
    model = MANNClassifier(n_estimators=1)
    labels = MemoryDisplay.from_estimator(model, X, y).labels
    assert labels.dtype == model.fit(X, y).classes_.dtype


def test_shares_of_a_write(rows):
    classifier = MANNClassifier(n_estimators=1)
    slots = [
        MemoryDisplay.from_estimator(classifier, *rows, min_write=kind(0.5)).slots
        for kind in (np.float32, float)
    ]
    assert_array_equal(*slots)
    for nan in (np.nan, np.float32("nan")):
        with pytest.raises(ValueError, match="min_write is NaN: give a share"):
            MemoryDisplay.from_estimator(classifier, *rows, min_write=nan)
    with pytest.raises(TypeError, match="min_write must be an instance of"):
        MemoryDisplay.from_estimator(classifier, *rows, min_write="half")


def reader(labels):
    texts = ["a fine film", "a dull film"] * 4
    model = MetaLSTMClassifier(width=8, embedding_size=8, max_epochs=1, wide=False)
    return model.fit(texts, labels * 4)


def test_labels_of_a_text_are_shown_as_in_python():
    model = reader([1, 0])
    for label in (None, 1, np.int64(1)):
        display = MetaChangeDisplay.from_estimator(model, "a fine film", label=label)
        assert display.ax_[1].get_ylabel() == "log-odds of 1"
    other = MetaChangeDisplay.from_estimator(model, "a fine film", label=0)
    np.testing.assert_allclose(other.log_odds, -display.log_odds, atol=1e-9)
    with pytest.raises(ValueError, match=r"^label=2 is not one of \[0, 1\]\.$"):
        MetaChangeDisplay.from_estimator(model, "a fine film", label=np.int64(2))


def test_a_class_that_is_certain_and_weights_of_zero_are_drawn(monkeypatch):
    model = reader([1, 0])
    certain = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    monkeypatch.setattr(model, "_network_proba", lambda texts: certain)
    monkeypatch.setattr(model, "generated_weights", lambda text: np.eye(3)[:, None, None, :])
    with np.errstate(all="raise"):
        display = MetaChangeDisplay.from_estimator(model, "a fine film", cmap="gray")
    assert np.isfinite(display.log_odds).all() and np.isfinite(display.changes[:, 1:]).all()
    assert display.image_.get_cmap().name == "gray"


# -- all of them ----------------------------------------------------------------------------------


def test_dollars_are_no_mathematics(moons):
    X, y = moons
    names = np.array(["$0 - $50", "$x_{$", -1], dtype=object)
    frame = pd.DataFrame(X, columns=["$x_{$", "$1 - $2"])
    effect = show_effect(LabelSpreading(), frame, names[y], grid_resolution=3)
    mixture = MixtureDisplay.from_estimator(GaussianMixture(2).fit(frame), frame)
    change = MetaChangeDisplay.from_estimator(
        reader(["$x_{$", "b"]), "a film \ud800", label="$x_{$"
    )
    for display in (effect, mixture, change):
        display.figure_.canvas.draw()
    shown = [*effect.ax_[1].get_legend().get_texts()]
    for ax in (effect.ax_[0], mixture.ax_):
        shown += [ax.xaxis.label, ax.yaxis.label]
    assert not any(text.get_parse_math() for text in shown if "$" in text.get_text())
    assert sum("$" in text.get_text() for text in shown) == 6


@pytest.mark.parametrize("ax", [[1, 2], "ax", 3, [None, None]])
def test_what_is_no_axes_is_refused(moons, ax):
    with pytest.raises(ValueError, match="must be two matplotlib Axes, as plt.subplots makes them"):
        show_effect(LabelSpreading(), *moons, grid_resolution=3, ax=ax)
    with pytest.raises(ValueError, match="must be one matplotlib Axes, as plt.subplots makes them"):
        show_instances([0, 1], [0, 1], ax=ax)
    figure, axes = plt.subplots(1, 2)
    with pytest.raises(ValueError, match=r"one matplotlib Axes, .* got \[<Figure"):
        show_instances([0, 1], [0, 1], ax=figure)
    with pytest.raises(ValueError, match=r"two matplotlib Axes, .* got \[<Axes: >, 1\]"):
        show_effect(LabelSpreading(), *moons, grid_resolution=3, ax=[axes[0], 1])
