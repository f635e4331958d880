"""Labels of pandas' own dtypes, and tensors under scikit-learn's array API dispatch."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import torch
from safetensors.torch import load_file
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.semi_supervised import LabelSpreading

from sklearn_meta import (
    AmortizedGMM,
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MANNRegressor,
    MetaGPRegressor,
    MetaLSTMClassifier,
    MetaSemiSupervisedClassifier,
    weights,
)
from sklearn_meta.evaluation import evaluate, peers
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.heads import HEADS
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.model_selection import FewShotSplit, SemiSupervisedSplit, Transductive
from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor
from sklearn_meta.tasks import Drawings, RegressionPrior, TableEncoder, TablePrior, as_dataset
from sklearn_meta.tasks.mixtures import as_point_sets

X, Y = load_iris(return_X_y=True)
FEW = np.r_[0:5, 50:55, 100:105]
WHOLE = pd.Series(Y[FEW], dtype="Int64")

wants_new_scipy = pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 14), reason="scikit-learn wants 1.14"
)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "int64[pyarrow]"])
def test_whole_labels_of_pandas_stay_whole(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    y = pd.Series(Y[FEW] > 0).astype(dtype)
    expected = bool if dtype == "boolean" else np.int64
    few = MetaSemiSupervisedClassifier().fit(X[FEW], y)
    (batch,) = few.predict_batch([(X[FEW], y, X)])
    assert few.classes_.dtype == few.predict(X).dtype == batch.dtype == expected
    as_frame = MetaSemiSupervisedClassifier().fit(pd.DataFrame(X[FEW]), y)
    assert as_frame.classes_.dtype == expected
    for kind in (FewShotTransformerClassifier, MANNClassifier):
        assert kind().fit(X[FEW], y).classes_.dtype == expected


def test_whole_labels_of_streams_texts_and_sets_stay_whole():
    stream = MANNClassifier().partial_fit(X[FEW], WHOLE, classes=pd.array([0, 1, 2, 7]))
    assert stream.classes_.tolist() == [0, 1, 2, 7] and stream.classes_.dtype == np.int64
    assert MANNClassifier().predict_online(X[FEW], WHOLE).dtype == np.int64
    texts, y = ["a good film", "a bad film"] * 5, pd.array([1, 0] * 5)
    assert MetaLSTMClassifier(width=4, max_epochs=1).fit(texts, y).classes_.dtype == np.int64
    sets = np.random.default_rng(0).normal(size=(10, 4, 2))
    assert SetTransformerClassifier(width=4, max_epochs=1).fit(sets, y).classes_.dtype == np.int64


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("kind", [FewShotTransformerClassifier, MANNClassifier])
def test_whole_labels_in_a_column_of_a_frame_stay_whole(kind):
    assert kind(n_estimators=1).fit(X[FEW], WHOLE.to_frame()).classes_.dtype == np.int64


@pytest.mark.parametrize("marked", [[2**53, 2**53 + 1, -1], [0, 1, -1], [False, True]])
def test_whole_labels_of_pandas_are_split_evaluated_and_handed_on_as_they_are(marked):
    labels, rows = np.resize(marked, 12), np.arange(12.0)[:, None]
    own = pd.Series(labels).convert_dtypes()
    assert own.dtype in ("Int64", "boolean")
    for kind, settings in ((SemiSupervisedSplit, {}), (FewShotSplit, {"n_shots": 2})):
        splitter = kind(2, random_state=0, **settings)
        expected, found = splitter.split(rows, labels), splitter.split(rows, own)
        for one, other in zip(chain(*expected), chain(*found), strict=True):
            np.testing.assert_array_equal(one, other)
    nearest = Transductive(LabelSpreading(gamma=100)).fit(rows, own)
    assert nearest.classes_.dtype == labels.dtype
    known = labels != -1
    np.testing.assert_array_equal(nearest.predict(rows[known]), labels[known])
    settings = {"n_shots": 1, "n_unlabelled": 2, "n_episodes": 1}
    one, other = (
        evaluate({"peer": nearest}, {"rows": (rows, y)}, **settings) for y in (labels, own)
    )
    assert one.records == other.records and not other.failures
    with pytest.raises(ValueError, match="NaN"):
        list(FewShotSplit().split(rows, own.where(rows[:, 0] > 3)))


SETS = np.random.default_rng(0).normal(size=(10, 4, 2))
ENDED = np.where(np.arange(4)[:, None] < 3, SETS[0], np.nan)
PADDED = np.concatenate([ENDED[None], SETS[1:]])


def answers_of_tensors():
    rows, labels = torch.as_tensor(X[::10]), torch.as_tensor(Y[::10])
    for kind in (MetaSemiSupervisedClassifier, FewShotTransformerClassifier, MANNClassifier):
        yield kind().fit(rows, labels).predict_proba(rows)
    yield MetaSemiSupervisedClassifier().fit(rows, labels.to(float)).predict(rows)
    yield MetaSemiSupervisedClassifier().predict_proba_batch([(rows, labels, rows)])[0]
    yield MetaGPRegressor().fit(rows, labels).predict(rows)
    yield MANNRegressor().fit(rows, labels.to(float)).predict(rows)
    yield AmortizedGMM(2).fit(rows).predict_proba(rows)
    yield AmortizedOutlierDetector().fit(rows).score_samples(rows)
    regressor = SetTransformerRegressor(width=4, max_epochs=1, random_state=0)
    regressor.fit(torch.as_tensor(PADDED), np.arange(10.0))
    yield regressor.predict([torch.as_tensor(elements) for elements in SETS])


@wants_new_scipy
def test_tensors_are_read_as_arrays_though_scikit_learn_would_leave_them(monkeypatch):
    expected = list(answers_of_tensors())
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # scikit-learn refuses to dispatch without it
    with config_context(array_api_dispatch=True):
        for one, other in zip(expected, answers_of_tensors(), strict=True):
            assert isinstance(other, np.ndarray)
            np.testing.assert_array_equal(other, one)


def scores(rows, targets):
    for kind in (MetaGPRegressor, MANNRegressor):
        yield kind().fit(rows, targets).score(rows, targets)
    network = SetTransformerRegressor(width=4, max_epochs=1, random_state=0)
    yield network.fit(rows, targets).score(rows, targets)
    yield MetaGPRegressor().predict_batch([(rows, targets, rows)])[0]
    yield AmortizedGMM(2).fit(rows).score(rows)


def test_tensors_may_have_gradients_and_be_of_bfloat16():
    half = torch.as_tensor(X[::10]).bfloat16()
    rows = half.double()
    expected = list(scores(rows.numpy(), rows[:, 0].numpy()))
    for tensor in (rows.clone().requires_grad_(), half):
        for one, other in zip(expected, scores(tensor, tensor[:, 0]), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        FewShotTransformerClassifier(FewShotLearner(inputs="vectors", n_inputs=4, n_ways=3)),
        MANNClassifier(MemoryLearner("mann", inputs="vectors", n_inputs=4)),
    ],
)
def test_networks_of_vectors_read_such_tensors_too(estimator):
    half = torch.as_tensor(X[::10]).bfloat16()
    rows = half.double()
    expected = estimator.fit(rows.numpy(), Y[::10]).predict_proba(rows.numpy())
    for tensor in (rows.clone().requires_grad_(), half):
        found = estimator.fit(tensor, Y[::10]).predict_proba(tensor)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        estimator.predict(pd.Series(X[0]))


def of_other_libraries():
    """Rows and labels that NumPy cannot read by itself, or not as a table."""
    rows = torch.as_tensor(X[::5]).bfloat16()
    labels = torch.as_tensor(Y[::5])
    yield rows, labels
    yield rows.double().requires_grad_(), labels.double().requires_grad_()
    strict = pytest.importorskip("array_api_strict")
    yield strict.asarray(rows.double().numpy()), strict.asarray(labels.numpy())


@wants_new_scipy
@pytest.mark.parametrize("dispatch", [False, True])
def test_they_are_read_by_whatever_reads_tables(dispatch, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    few = {"n_shots": 1, "n_unlabelled": 2}
    plain = torch.as_tensor(X[::5]).bfloat16().double().numpy(), Y[::5]

    def answers(rows, labels):
        with config_context(array_api_dispatch=dispatch):
            yield TableEncoder().fit(rows).transform(rows)
            yield as_dataset(rows, labels).X
            yield as_point_sets([rows])["0"].X
            yield as_point_sets([(rows, labels)])["0"].y
            yield peers()["1-NN"].fit(rows, labels).predict_proba(rows)
            estimators = {"1-NN": peers()["1-NN"]}
            found = evaluate(estimators, {"a": (rows, labels)}, **few, n_episodes=1)
            yield found.records[0]["log_loss"]

    expected = list(answers(*plain))
    for given in of_other_libraries():
        for found, one in zip(answers(*given), expected, strict=True):
            np.testing.assert_array_equal(found, one)


@wants_new_scipy
@pytest.mark.parametrize("dispatch", [False, True])
def test_arrays_of_other_libraries_are_read_as_numpys(dispatch, monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    rows, labels, own = X[::10], Y[::10], strict.asarray
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=dispatch):
        for one, other in zip(
            scores(rows, rows[:, 0]), scores(own(rows), own(rows[:, 0])), strict=True
        ):
            np.testing.assert_array_equal(other, one)
        for kind in (MetaSemiSupervisedClassifier, FewShotTransformerClassifier, MANNClassifier):
            expected = kind().fit(rows, labels).predict_proba(rows)
            found = kind().fit(own(rows), own(labels)).predict_proba(own(rows))
            np.testing.assert_array_equal(found, expected)
        MANNClassifier().predict_online(own(rows), own(labels))


@pytest.fixture
def double():
    """Set torch's default dtype first, as a script may."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


META_FITTED = [
    (MetaSemiSupervisedClassifier(), TablePrior()),
    (MetaGPRegressor(), RegressionPrior()),
    (MetaGPRegressor("vsa"), RegressionPrior()),
    (AmortizedGMM(), [X]),
    (AmortizedGMM(backbone="mixture_transformer"), [X]),
    (MANNClassifier(), {"iris": (X, Y)}),
    (FewShotTransformerClassifier(), {"iris": (X, Y)}),
    (FewShotTransformerClassifier("few_shot_transformer"), {"iris": (X, Y)}),
]


@pytest.mark.parametrize("estimator, datasets", META_FITTED)
def test_networks_are_of_single_precision_whatever_torchs_default_is(double, estimator, datasets):
    model = clone(estimator).set_params(random_state=0)
    model.meta_fit(datasets, max_steps=1, batch_size=2, verbose=False)
    state = model.learner_.state_dict().values()
    assert {w.dtype for w in state if w.is_floating_point()} == {torch.float32}


@pytest.mark.parametrize("name", HEADS["regression"])
def test_heads_of_their_own_are_of_torchs_default(double, name):
    head = HEADS["regression"][name]()
    assert {p.dtype for p in head.parameters()} == {torch.float64}
    z, y = torch.randn(1, 9, 2, 3), torch.randn(1, 9, 1)
    state = head.adapt(z, y, torch.ones(1, 1, dtype=torch.bool), torch.ones(1, 9, dtype=torch.bool))
    assert head(z, state).dtype == torch.float64


def test_texts_are_learned_whatever_torchs_default_is(double):
    texts, labels = ["good", "bad"] * 2, [1, 0] * 2
    for backbone in ("english_reviews", "meta_lstm"):
        model = MetaLSTMClassifier(backbone, max_epochs=1, random_state=0).fit(texts, labels)
        assert model.predict_proba(texts).shape == (4, 2)


def test_weights_that_are_loaded_are_as_they_are_saved(double):
    torch.set_default_dtype(torch.bfloat16)
    path = Path(weights.__file__).parent / "default_mann_regression.safetensors"
    kept = load_file(path)
    loaded = weights.load_learner(path).state_dict()
    assert all(torch.equal(loaded[name], kept[name]) for name in kept)


def opinions():
    texts = ["a good film", "a bad film", "good stuff", "bad stuff"] * 2
    model = MetaLSTMClassifier(width=4, max_epochs=1, random_state=0).fit(texts, [1, 0] * 4)
    return lambda: model.predict_proba(texts)


def points():
    sets = np.random.default_rng(0).normal(size=(10, 4, 2))
    model = SetTransformerClassifier(width=4, max_epochs=1, random_state=0).fit(sets, [0, 1] * 5)
    return lambda: model.predict_proba(sets)


INK = np.random.default_rng(0).integers(256, size=(4, 784), dtype=np.uint8)
ANSWERS = {
    "classifier": lambda: (
        lambda: MetaSemiSupervisedClassifier().fit(X[FEW], Y[FEW]).predict_proba(X)
    ),
    "regressor": lambda: lambda: MetaGPRegressor().fit(X[FEW], Y[FEW]).predict(X),
    "mixture": lambda: lambda: AmortizedGMM(3).fit(X).means_,
    "outliers": lambda: lambda: AmortizedOutlierDetector().fit(X).score_samples(X),
    "memory": lambda: lambda: MANNClassifier().fit(X[FEW], Y[FEW]).predict_proba(X),
    "few": lambda: lambda: FewShotTransformerClassifier().fit(X[FEW], Y[FEW]).predict_proba(X),
    "drawings": lambda: lambda: Drawings(12)(INK, np.arange(4), np.random.default_rng(0)),
    "texts": opinions,
    "sets": points,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_torch_is_set_to_changes_no_answer(name):
    answers = ANSWERS[name]()
    expected = answers()
    with torch.autocast("cpu", torch.bfloat16):
        np.testing.assert_array_equal(answers(), expected)
    if name == "sets":  # `fit` gives the network torch's default dtype
        return
    before = torch.get_default_dtype()
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            found = answers()
        finally:
            torch.set_default_dtype(before)
        np.testing.assert_array_equal(found, expected)
