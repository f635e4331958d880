"""MetaSemiSupervisedClassifier as a scikit-learn user meets it."""

import copy
import io
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from processes import CONTEXT
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import FewShotTransformerClassifier, MetaSemiSupervisedClassifier
from sklearn_meta.chunks import chunks_of
from sklearn_meta.learner import Learner
from sklearn_meta.model_selection import FewShotSplit, SemiSupervisedSplit

UNLABELLED = "-1 is a label in this check and means unlabelled here, as in scikit-learn's own"
EXPECTED_FAILURES = {
    False: {"check_classifiers_classes": UNLABELLED},
    True: {
        "check_classifiers_classes": UNLABELLED,
        "check_methods_subset_invariance": "the rows of one call are each other's unlabelled data",
    },
}


def small_learner(seed=0, **config):
    """A learner with random weights: the properties hold for any weights, and this one is quick."""
    torch.manual_seed(seed)
    return Learner(
        backbone_config={"width": 8, "head_width": 4, "n_heads": 2, "n_layers": 2, **config}
    ).requires_grad_(False)


def small_pair():
    """Like the default weights: two networks, and a head that takes the mean."""
    torch.manual_seed(0)
    sizes = {"width": 8, "head_width": 4, "n_heads": 2, "n_layers": 2}
    config = {"first": sizes, "second": {**sizes, "last_width": 3}}
    learner = Learner("vsa_pair", "prototypes_gp", backbone_config=config).requires_grad_(False)
    torch.nn.init.normal_(learner.backbone.second.gate[-1].weight)  # it is initialised with zeros
    return learner


#: The learners that properties are checked for.
both_kinds = pytest.mark.parametrize("learner", [small_learner(), small_pair()], ids=["one", "two"])


LEARNER = small_learner()  # nothing trains it


def double(transductive=True, learner=LEARNER, **parameters):
    return MetaSemiSupervisedClassifier(
        learner, transductive=transductive, dtype="float64", **parameters
    )


@parametrize_with_checks(
    [
        MetaSemiSupervisedClassifier("prior", transductive=False, dtype="float64"),
        MetaSemiSupervisedClassifier(transductive=True, dtype="float64"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[estimator.transductive],
    xfail_strict=True,
)
def test_sklearn_checks(estimator, check):
    check(estimator)


# -- properties -------------------------------------------------------------------------------


@st.composite
def few_shot(draw):
    """A task with gaps: (X, y with -1, X_new)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.integers(2, 4))
    n_columns = draw(st.integers(1, 6))
    y = np.repeat(np.arange(n_classes), draw(st.integers(1, 3)))
    y = np.r_[y, np.full(draw(st.integers(0, 5)), -1)]
    X = rng.standard_normal((len(y) + draw(st.integers(2, 6)), n_columns))
    X *= rng.lognormal(size=n_columns)
    X[rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    X[0] = 1.0  # at least one cell is observed
    return X[: len(y)], y, X[len(y) :]


def assert_equivariant(task, transductive, learner, seed):
    """Check permutations of labelled rows, rows to predict, columns and classes."""
    X, y, new = task
    expected = double(transductive, learner).fit(X, y).predict_proba(new)
    rng = np.random.default_rng(seed)
    rows, new_rows = rng.permutation(len(X)), rng.permutation(len(new))
    columns = rng.permutation(X.shape[1])
    names = rng.permutation(y.max() + 1)
    renamed = np.where(y < 0, -1, names[y])
    found = (
        double(transductive, learner)
        .fit(X[np.ix_(rows, columns)], renamed[rows])
        .predict_proba(new[np.ix_(new_rows, columns)])
    )
    assert_allclose(found[:, names], expected[new_rows], atol=1e-10)


@both_kinds
@given(task=few_shot(), transductive=st.booleans(), seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_permutations_of_rows_columns_and_classes(learner, task, transductive, seed):
    assert_equivariant(task, transductive, learner, seed)


@both_kinds
@settings(max_examples=10)
@given(task=few_shot(), chunk_size=st.integers(1, 4))
def test_inductive_answers_do_not_depend_on_their_batch(learner, task, chunk_size):
    X, y, new = task
    whole = double(False, learner).fit(X, y)
    chunked = double(False, learner, chunk_size=chunk_size).fit(X, y)
    expected = whole.predict_proba(new)
    assert_allclose(chunked.predict_proba(new), expected, atol=1e-10)
    assert_allclose(
        np.vstack([whole.predict_proba(row[None]) for row in new]), expected, atol=1e-10
    )
    assert_allclose(chunked.transform(new), whole.transform(new), atol=1e-10)


@both_kinds
@settings(max_examples=10)
@given(task=few_shot(), chunk_size=st.integers(1, 4))
def test_transductive_chunks_are_separate_calls(learner, task, chunk_size):
    X, y, new = task
    whole = double(True, learner).fit(X, y)
    found = double(True, learner, chunk_size=chunk_size).fit(X, y).predict_proba(new)
    for rows in chunks_of(new, chunk_size):
        assert_allclose(found[rows], whole.predict_proba(new[rows]), atol=1e-10)


@both_kinds
@settings(max_examples=10)
@given(
    tasks=st.lists(few_shot(), min_size=1, max_size=4),
    transductive=st.booleans(),
    chunk_size=st.sampled_from([1, 3, 1000]),
)
def test_batched_tasks_equal_one_by_one(learner, tasks, transductive, chunk_size):
    classifier = double(transductive, learner, chunk_size=chunk_size)
    batched = classifier.predict_proba_batch(tasks)
    labels = classifier.predict_batch(tasks)
    for (X, y, new), proba, label in zip(tasks, batched, labels, strict=True):
        one = classifier.fit(X, y)  # it reads -1 as no label
        assert_allclose(proba, one.predict_proba(new), atol=1e-10)
        assert_array_equal(label, one.classes_[proba.argmax(1)])


def test_a_batch_reads_no_more_unlabelled_rows_of_a_context_than_fit_does():
    X = np.random.default_rng(0).normal(size=(1100, 2))
    y = np.r_[0, 1, np.full(len(X) - 2, -1)]
    (batched,) = double().predict_proba_batch([(X, y, X[:5])])
    assert_allclose(batched, double().fit(X, y).predict_proba(X[:5]), atol=1e-10)


@both_kinds
@settings(max_examples=12)
@given(task=few_shot(), transductive=st.booleans())
def test_units_of_columns_do_not_matter(learner, task, transductive):
    X, y, new = task
    expected = double(transductive, learner).fit(X, y).predict_proba(new)
    scale, shift = 10.0 ** np.arange(X.shape[1]), np.arange(X.shape[1])
    found = (
        double(transductive, learner).fit(X * scale + shift, y).predict_proba(new * scale + shift)
    )
    if not transductive and len(X) < 2:
        return
    varied = np.nanmin(X, 0) < np.nanmax(X, 0)
    if transductive or varied.all():  # a column constant in the context has no unit of its own
        assert_allclose(found, expected, atol=1e-7)


def test_unlabelled_rows_matter_and_transduction_agrees_with_fit_rows():
    X, y = load_wine(return_X_y=True)
    few = np.full(len(y), -1)
    few[::18] = y[::18]
    classifier = MetaSemiSupervisedClassifier(transductive=False).fit(X, few)
    alone = MetaSemiSupervisedClassifier(transductive=False).fit(X[few >= 0], few[few >= 0])
    assert np.abs(classifier.predict_proba(X) - alone.predict_proba(X)).max() > 1e-3
    assert_array_equal(classifier.transduction_[few >= 0], few[few >= 0])
    assert (classifier.transduction_ == y).mean() > 0.85
    assert_allclose(classifier.label_distributions_.sum(1), 1)


# -- kinds of input -----------------------------------------------------------------------------


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes"], 20)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=40) + (y == "yes") * 2,
            "colour": pd.Categorical(np.where(y == "yes", "red", rng.choice(["blue", "red"], 40))),
            "text": np.where(rng.random(40) < 0.5, "a", "b"),
            "whole": pd.array(rng.integers(0, 9, 40), dtype="Int64"),
            "flag": y == "yes",
        }
    )
    frame.loc[3, ["size", "colour", "text", "whole"]] = None
    return frame, y


@pytest.mark.parametrize("transductive", [True, False])
def test_dataframe_of_mixed_columns(mixed, transductive):
    X, y = mixed
    few = np.arange(0, 40, 4)
    classifier = MetaSemiSupervisedClassifier(transductive=transductive)
    classifier.fit(X.iloc[few], y[few])
    assert classifier.score(X, y) > 0.8
    assert list(classifier.classes_) == ["no", "yes"]
    assert_array_equal(classifier.feature_names_in_, X.columns)
    objects = X.astype(object).to_numpy()
    found = clone(classifier).fit(objects[few], y[few]).predict(objects)
    assert_array_equal(found, classifier.predict(X))


def test_that_text_may_be_numbers_is_told_by_fit_alone():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=60), "number": [*map(str, range(59)), "?"]})
    with pytest.warns(UserWarning, match="'number'"):
        classifier = double().fit(X[20:], np.arange(40) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.predict(X[:21])  # fit has seen the last of them


@pytest.mark.parametrize("transductive", [True, False])
def test_categories_that_are_all_new_are_told(transductive):
    """They may be spelled differently: then the column tells nothing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=40), "kind": ["yes", "no"] * 20})
    classifier = double(transductive=transductive).fit(X[:20], np.arange(20) % 2)
    other = X[20:].assign(kind=X["kind"].str.title())
    with pytest.warns(
        UserWarning, match="'kind' holds only categories that fit has not seen.*'Yes'"
    ):
        told = classifier.predict_proba(other)
    task = X[:20], np.arange(20) % 2, other
    for call in (lambda: classifier.transform(other), lambda: classifier.predict_batch([task])):
        with pytest.warns(UserWarning, match="'kind' holds only categories") as warned:
            call()
        assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not transductive:
            assert_array_equal(told, classifier.predict_proba(other.assign(kind=None)))
        classifier.predict(pd.concat([other[1:], X[20:21]]))  # one of them is known
        classifier.predict(other[:1])  # a single row may be odd


def test_string_labels_with_unlabelled_rows(mixed):
    X, y = mixed
    few = y.astype(object)
    few[5:15] = few[25:35] = -1
    classifier = MetaSemiSupervisedClassifier().fit(X, few)
    assert set(classifier.transduction_) == {"no", "yes"}
    text = np.where(few == -1, "-1", few).astype(str)
    assert_array_equal(clone(classifier).fit(X, text).transduction_, classifier.transduction_)


def test_missing_cells_all_missing_and_constant_columns():
    X, y = load_iris(return_X_y=True)
    few = np.r_[0:3, 50:53, 100:103]
    plain = MetaSemiSupervisedClassifier(dtype="float64").fit(X[few], y[few])
    padded = np.column_stack([X, np.full(len(X), np.nan), np.full(len(X), 7.0)])
    other = clone(plain).fit(padded[few], y[few])
    assert_allclose(other.predict_proba(padded), plain.predict_proba(X), atol=1e-10)
    gaps = X.copy()
    gaps[::3, 0] = np.nan
    assert np.isfinite(clone(plain).fit(gaps[few], y[few]).predict_proba(gaps)).all()


def test_more_classes_than_meta_training_saw():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(25), 4)
    X = np.eye(25)[y] @ rng.normal(size=(25, 6)) + 0.05 * rng.normal(size=(100, 6))
    classifier = MetaSemiSupervisedClassifier().fit(X[::2], y[::2])
    assert classifier.predict_proba(X[1::2]).shape == (50, 25)
    assert classifier.score(X[1::2], y[1::2]) > 0.5


def test_same_answer_twice_and_bfloat16_is_close():
    X, y = load_iris(return_X_y=True)
    few = np.r_[0:3, 50:53, 100:103]
    classifier = MetaSemiSupervisedClassifier().fit(X[few], y[few])
    first = classifier.predict_proba(X)
    assert_array_equal(first, classifier.predict_proba(X))
    rough = clone(classifier).set_params(dtype="bfloat16").fit(X[few], y[few])
    assert np.abs(rough.predict_proba(X) - first).mean() < 0.05


# -- scikit-learn's tools -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    X, y = load_iris(return_X_y=True)
    datasets = {"iris": (X, y), "wine": load_wine(return_X_y=True)}
    return MetaSemiSupervisedClassifier(small_learner(), random_state=0).meta_fit(
        datasets, max_steps=4, eval_every=2, n_shots=(2,), n_unlabelled=5, verbose=False
    )


@pytest.fixture
def meta_fitted(trained):
    """A copy that a test may fit and change."""
    return copy.deepcopy(trained)


def same_weights(a, b):
    pairs = zip(a.learner_.parameters(), b.learner_.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_meta_fit_changes_the_weights_and_not_the_given_module(trained):
    given = trained.backbone
    fresh = small_learner()
    assert all(
        torch.equal(a, b) for a, b in zip(given.parameters(), fresh.parameters(), strict=True)
    )
    assert not all(
        torch.equal(a, b)
        for a, b in zip(trained.learner_.parameters(), fresh.parameters(), strict=True)
    )
    assert len(trained.history_) == 2


def test_clone_pickle_and_joblib_keep_meta_trained_weights(meta_fitted, tmp_path):
    X, y = load_iris(return_X_y=True)
    meta_fitted.fit(X[::5], y[::5])
    copy = clone(meta_fitted)
    assert same_weights(copy, meta_fitted)
    with pytest.raises(NotFittedError):
        copy.predict(X)
    joblib.dump(meta_fitted, tmp_path / "classifier.joblib")
    for loaded in (
        pickle.loads(pickle.dumps(meta_fitted)),
        joblib.load(tmp_path / "classifier.joblib"),
    ):
        assert same_weights(loaded, meta_fitted)
        assert_array_equal(loaded.predict_proba(X), meta_fitted.predict_proba(X))


def test_a_new_backbone_forgets_meta_fit(meta_fitted):
    meta_fitted.set_params(chunk_size=7)
    assert hasattr(meta_fitted, "learner_")
    meta_fitted.set_params(backbone=small_learner(seed=1))
    X, y = load_iris(return_X_y=True)
    expected = MetaSemiSupervisedClassifier(small_learner(seed=1), chunk_size=7)
    expected.fit(X[::5], y[::5])
    found = meta_fitted.fit(X[::5], y[::5]).predict_proba(X)
    assert_array_equal(found, expected.predict_proba(X))


@pytest.mark.parametrize("transductive", [True, False])
def test_pickle_does_not_copy_default_weights(transductive):
    X, y = load_iris(return_X_y=True)
    classifier = MetaSemiSupervisedClassifier(transductive=transductive).fit(X[::10], y[::10])
    buffer = io.BytesIO()
    pickle.dump(classifier, buffer)
    n_bytes = 4 * sum(p.numel() for p in classifier.learner_.parameters())
    assert len(buffer.getvalue()) < n_bytes / 2
    loaded = pickle.loads(buffer.getvalue())
    assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


def test_cross_validation_in_another_process_keeps_meta_fitted_weights(meta_fitted):
    X, y = load_iris(return_X_y=True)
    cv = FewShotSplit(3, n_shots=3, random_state=0)
    score = partial(cross_val_score, X=X, y=y, cv=cv, scoring="neg_log_loss")
    in_process = score(meta_fitted)
    with ProcessPoolExecutor(1, CONTEXT) as pool:
        assert_allclose(pool.submit(score, meta_fitted).result(), in_process, rtol=1e-5)
    untrained = score(MetaSemiSupervisedClassifier(meta_fitted.backbone))
    assert np.abs(untrained - in_process).min() > 1e-3


def test_showing_it_in_a_notebook_predicts_nothing(monkeypatch):
    X, y = load_iris(return_X_y=True)
    classifier = MetaSemiSupervisedClassifier().fit(X, np.where(np.arange(150) % 15, -1, y))
    monkeypatch.setattr(classifier, "_forward", None)
    assert "MetaSemiSupervisedClassifier" in classifier._repr_html_()
    assert "StandardScaler" in make_pipeline(StandardScaler(), classifier)._repr_html_()


def test_grid_search_with_unlabelled_rows():
    X, y = load_breast_cancer(return_X_y=True)
    few = np.full(len(y), -1)
    few[::10] = y[::10]
    search = GridSearchCV(
        MetaSemiSupervisedClassifier(),
        {"transductive": [True, False]},
        cv=SemiSupervisedSplit(2, random_state=0),
        scoring="roc_auc",
    ).fit(X[:120], few[:120])
    assert search.best_score_ > 0.8


def test_pipelines():
    X, y = load_wine(as_frame=True, return_X_y=True)
    X = X.assign(kind=np.where(X["alcohol"] > 13, "strong", "weak"))
    scaled = make_column_transformer(
        (StandardScaler(), list(X.columns[:-1])), (OneHotEncoder(), ["kind"])
    )
    cv = FewShotSplit(2, n_shots=5, random_state=0)
    score = cross_val_score(make_pipeline(scaled, MetaSemiSupervisedClassifier()), X, y, cv=cv)
    assert score.mean() > 0.8
    plain = make_pipeline(StandardScaler(), MetaSemiSupervisedClassifier())
    assert cross_val_score(plain, X.iloc[:, :-1], y, cv=cv).mean() > 0.8


def test_set_output_and_feature_names():
    X, y = load_iris(as_frame=True, return_X_y=True)
    classifier = MetaSemiSupervisedClassifier(transductive=False).fit(X[::5], y[::5])
    names = classifier.get_feature_names_out()
    embedded = classifier.set_output(transform="pandas").transform(X)
    assert embedded.shape == (150, len(names))
    assert_array_equal(embedded.columns, names)


@pytest.mark.parametrize("transductive", [True, False])
def test_embeddings_are_as_wide_for_rows_of_new_categories(transductive):
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "y"]})
    classifier = MetaSemiSupervisedClassifier(transductive=transductive).fit(table, [0, 1, 0, 1])
    new = pd.DataFrame({"a": [1.0, 2.0], "b": ["z", "w"]})
    with pytest.warns(UserWarning, match="'b' holds only categories that fit has not seen"):
        assert classifier.transform(new).shape == (2, len(classifier.get_feature_names_out()))
    with pytest.warns(UserWarning, match="'b' holds only categories that fit has not seen"):
        assert classifier.predict(new).shape == (2,)


# -- bad input -------------------------------------------------------------------------------


X_GOOD = np.arange(12.0).reshape(6, 2)
Y_GOOD = np.array([0, 0, 1, 1, -1, -1])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X_GOOD, np.full(6, -1), "No row is labelled"),
        (X_GOOD, np.zeros(6, int), "only one class"),
        (X_GOOD[:1], [1], "only one class"),
        (np.full((6, 2), np.nan), Y_GOOD, "Every cell of X is missing"),
        (np.where(X_GOOD == 3, np.inf, X_GOOD), Y_GOOD, "contains infinity"),
        (pd.DataFrame(np.where(X_GOOD == 3, np.inf, X_GOOD)), Y_GOOD, "contains infinity"),
        (X_GOOD, Y_GOOD + 0.5, "Unknown label type"),
        (X_GOOD, Y_GOOD[:4], "inconsistent numbers of samples"),
        (X_GOOD[:0], Y_GOOD[:0], "0 sample"),
        (X_GOOD[:, :0], Y_GOOD, "0 feature"),
        (X_GOOD[0], Y_GOOD, "Expected 2D array"),
    ],
)
def test_bad_context(X, y, message):
    with pytest.raises(ValueError, match=message):
        double().fit(X, y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X_GOOD[:, :1], "X has 1 features"),
        (X_GOOD[:0], "0 sample"),
        (np.where(X_GOOD == 3, np.inf, X_GOOD), "contains infinity"),
        (X_GOOD.astype(object).astype(str) + "x", "numeric in fit"),
    ],
)
@pytest.mark.parametrize("transductive", [True, False])
def test_bad_rows(X, message, transductive):
    with pytest.raises(ValueError, match=message):
        double(transductive).fit(X_GOOD, Y_GOOD).predict(X)


def test_fit_again_without_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        double().fit(X_GOOD, Y_GOOD).fit(X_GOOD, None)


def test_columns_of_another_name_or_order():
    frame = pd.DataFrame(X_GOOD, columns=["a", "b"])
    classifier = double().fit(frame, Y_GOOD)
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame[["b", "a"]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"backbone": "nowhere"}, "No weights 'nowhere'"),
        ({"head": "oracle"}, "head"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"dtype": "int8"}, "dtype"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        MetaSemiSupervisedClassifier(**parameters).fit(X_GOOD, Y_GOOD)


def test_an_architecture_has_no_weights():
    with pytest.raises(NotFittedError, match="call meta_fit first"):
        MetaSemiSupervisedClassifier("vsa").fit(X_GOOD, Y_GOOD)


def test_meta_fit_of_an_architecture():
    classifier = MetaSemiSupervisedClassifier("vsa", random_state=0)
    classifier.meta_fit([load_iris(return_X_y=True)], max_steps=2, verbose=False)
    assert classifier.fit(X_GOOD, Y_GOOD).predict(X_GOOD).shape == (6,)


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ([], "at least one dataset"),
        ([(X_GOOD, np.zeros(6, int))], "1 class"),
        ({"one": (X_GOOD, Y_GOOD[:3])}, "'one': X has 6 rows and y has 3"),
        ({"lonely": (X_GOOD[:3], [0, 0, 1])}, "fewer than 2 rows"),
    ],
)
def test_bad_datasets(datasets, message):
    with pytest.raises(ValueError, match=message):
        MetaSemiSupervisedClassifier("vsa").meta_fit(datasets, max_steps=1, verbose=False)


def test_bad_task_in_a_batch_is_named():
    good = (X_GOOD[:4], Y_GOOD[:4], X_GOOD[4:])
    with pytest.raises(ValueError, match="Task 1: at least 2 classes"):
        double().predict_batch([good, (X_GOOD[:2], [0, 0], X_GOOD[4:])])
    with pytest.raises(ValueError, match="Task 0: 3 labelled rows, but 2 labels"):
        double().predict_batch([(X_GOOD[:3], [0, 1], X_GOOD[4:])])


@pytest.mark.parametrize("kind", [MetaSemiSupervisedClassifier, FewShotTransformerClassifier])
def test_one_row_of_each_of_many_classes_is_no_reason_to_warn(kind):
    X = np.random.default_rng(0).normal(size=(21, 3))
    y = np.r_[:11, :10]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(kind().fit(X, y).classes_) == 11


def test_scores_take_names_beside_the_mark():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"], dtype=object)[y]
    names[::2] = -1
    classifier = MetaSemiSupervisedClassifier("prototypes").fit(X, names)
    for form in (names, list(names), pd.Series(names)):
        with pytest.warns(UserWarning, match="75 of the rows to be scored"):
            assert 0.4 < classifier.score(X, form) <= 0.5
    as_floats = y.astype(float).tolist()
    assert classifier.fit(X, as_floats).score(X, as_floats) > 0.8


@pytest.mark.parametrize("mark", [-1, "-1"])
def test_scores_of_rows_without_a_label_come_with_a_warning(mark):
    X, y = load_iris(return_X_y=True)
    y = y if mark == -1 else y.astype(str)
    marked = np.where(np.arange(150) % 5 == 0, y, mark)
    classifier = MetaSemiSupervisedClassifier("prototypes")
    with pytest.warns(UserWarning, match="rows to be scored have no label.*SemiSupervisedSplit"):
        cross_val_score(classifier, X, marked, cv=2)
    with pytest.warns(UserWarning, match="120 of the rows to be scored"):
        assert classifier.fit(X, marked).score(pd.DataFrame(X), pd.Series(marked)) <= 0.2
    with warnings.catch_warnings(action="error"):
        assert classifier.score(X, y, sample_weight=np.ones(150)) > 0.8
        assert classifier.score(X, y, sample_weight=classifier.predict(X) == y) == 1
        cross_val_score(classifier, X, marked, cv=SemiSupervisedSplit(2))
