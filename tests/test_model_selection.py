"""Splitters that know -1 as no label, and Transductive, on scikit-learn's own real data."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from processes import joblib_forks
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier
from sklearn_meta.model_selection import (
    FewShotSplit,
    SemiSupervisedKFold,
    SemiSupervisedSplit,
    Transductive,
)


def hide(y, share, seed=0, dtype=None):
    """y with a share of its labels replaced by -1."""
    y = np.array(y, dtype=dtype)
    y[np.random.default_rng(seed).random(len(y)) < share] = -1
    return y


def knn_spreading():
    return make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", n_neighbors=5))


@pytest.fixture(scope="module")
def wine():
    """Three labelled rows per class, and all others to predict."""
    X, y = load_wine(return_X_y=True)
    train, test = next(FewShotSplit(n_shots=3, random_state=0).split(X, y))
    return X[train], y[train], X[test], y[test]


def test_columns_whose_names_are_numbers_go_by_position(wine):
    X, y, X_test, _ = wine
    estimator = Transductive(LabelSpreading(kernel="knn", n_neighbors=3)).fit(pd.DataFrame(X), y)
    expected = estimator.predict(pd.DataFrame(X_test))
    turned = pd.DataFrame(X_test, columns=range(X.shape[1])[::-1])
    assert_array_equal(estimator.predict(turned), expected)


def test_a_regressor_has_no_labels_to_give():
    with pytest.raises(TypeError, match="estimator must be a classifier, got Ridge"):
        Transductive(Ridge()).fit(np.zeros((4, 1)), [0, 1, 0, 1])


# ---------------------------------------------------------------------------------- splitters


@st.composite
def partly_labelled(draw):
    """Labels from 0, each class at least 5 times and in random order, with any number of -1."""
    counts = draw(st.lists(st.integers(5, 12), min_size=2, max_size=4))
    y = np.repeat([*range(len(counts)), -1], [*counts, draw(st.integers(0, 30))])
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(y)


@given(
    y=partly_labelled(),
    n_splits=st.integers(2, 5),
    shuffle=st.booleans(),
    kind=st.sampled_from(["int", "object", "float"]),
)
def test_semi_supervised_folds_partition_the_labelled_rows(y, n_splits, shuffle, kind):
    cv = SemiSupervisedSplit(n_splits, shuffle=shuffle, random_state=0 if shuffle else None)
    names = np.array(["a", "b", "c", "d", -1], dtype=object)[y] if kind == "object" else y
    names = names.astype(float) if kind == "float" else names
    folds = list(cv.split(np.empty((len(y), 1)), names))
    assert len(folds) == cv.get_n_splits() == n_splits
    for train, test in folds:
        assert (y[test] != -1).all()
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
    every_test = np.concatenate([test for _, test in folds])
    assert_array_equal(np.sort(every_test), np.flatnonzero(y != -1))
    for k in range(y.max() + 1):
        per_fold = [np.sum(y[test] == k) for _, test in folds]
        assert max(per_fold) - min(per_fold) <= 1


def test_semi_supervised_split_is_stratified_k_fold_when_every_row_is_labelled():
    X, y = load_iris(return_X_y=True)
    ours = SemiSupervisedSplit(4, random_state=3).split(X, y)
    theirs = StratifiedKFold(4, shuffle=True, random_state=3).split(X, y)
    for (train, test), (train_, test_) in zip(ours, theirs, strict=True):
        assert_array_equal(train, train_)
        assert_array_equal(test, test_)


@pytest.mark.parametrize(
    ("split", "gap"), [(SemiSupervisedSplit, -1), (SemiSupervisedKFold, np.nan)]
)
def test_labelled_rows_alone_are_cut_in_the_same_way(split, gap):
    X, y = load_iris(return_X_y=True)
    labelled = np.random.default_rng(0).permutation(len(y))[:40]
    labelled.sort()
    few = np.full(len(y), gap)
    few[labelled] = y[labelled]
    all_rows = split(4, random_state=3).split(X, few)
    alone = split(4, random_state=3).split(X[labelled], y[labelled])
    for (train, test), (train_, test_) in zip(all_rows, alone, strict=True):
        assert_array_equal(test, labelled[test_])
        assert_array_equal(np.intersect1d(train, labelled), labelled[train_])


def test_semi_supervised_split_scores_what_stratified_k_fold_spoils():
    X, y = load_digits(return_X_y=True)
    y = hide(y, 0.7)
    model = LabelSpreading(kernel="knn")
    assert cross_val_score(model, X, y, cv=SemiSupervisedSplit(random_state=0)).min() > 0.9
    assert cross_val_score(model, X, y, cv=StratifiedKFold()).max() < 0.5


@given(
    has_target=st.lists(st.booleans(), min_size=5, max_size=40).filter(lambda has: sum(has) >= 5),
    n_splits=st.integers(2, 5),
    n_targets=st.sampled_from([None, 1, 2]),
    shuffle=st.booleans(),
)
def test_folds_of_a_regression_partition_the_rows_with_a_target(
    has_target, n_splits, n_targets, shuffle
):
    has_target = np.array(has_target)
    y = np.where(has_target, np.arange(len(has_target)) / 2, np.nan)
    if n_targets:
        y = np.column_stack([y] * n_targets)
    cv = SemiSupervisedKFold(n_splits, shuffle=shuffle, random_state=0 if shuffle else None)
    folds = list(cv.split(y, y))
    assert len(folds) == cv.get_n_splits() == n_splits
    for train, test in folds:
        assert set(np.flatnonzero(~has_target)) <= set(train)
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
    sizes = [len(test) for _, test in folds]
    assert max(sizes) - min(sizes) <= 1
    every_test = np.concatenate([test for _, test in folds])
    assert_array_equal(np.sort(every_test), np.flatnonzero(has_target))


def test_folds_of_a_regression_are_k_fold_when_every_row_has_a_target():
    X, y = load_diabetes(return_X_y=True)
    ours = SemiSupervisedKFold(4, random_state=3).split(X, y)
    theirs = KFold(4, shuffle=True, random_state=3).split(X, y)
    for (train, test), (train_, test_) in zip(ours, theirs, strict=True):
        assert_array_equal(train, train_)
        assert_array_equal(test, test_)


def test_a_regressor_is_cross_validated_on_the_rows_that_have_a_target():
    X, y = load_diabetes(return_X_y=True)
    y = np.where(np.arange(len(y)) % 3, np.nan, y)
    scores = cross_val_score(
        MetaGPRegressor(), X, y, cv=SemiSupervisedKFold(random_state=0), error_score="raise"
    )
    assert scores.mean() > 0.2


def test_gaps_of_any_kind_are_rows_without_a_target():
    targets = [None if i % 4 == 0 else float(i) for i in range(20)]
    folds = [
        list(SemiSupervisedKFold(3, random_state=0).split(np.zeros((20, 1)), y))
        for y in (np.array(targets, float), targets, pd.Series(targets, dtype="Float64"))
    ]
    for others in folds[1:]:
        for (train, test), (train_, test_) in zip(folds[0], others, strict=True):
            assert_array_equal(train, train_)
            assert_array_equal(test, test_)
    with pytest.raises(ValueError, match="y contains NaN or None"):
        next(FewShotSplit(1, n_shots=1).split(np.zeros((6, 1)), ["a", np.nan, "b"] * 2))
    train, _ = next(FewShotSplit(1, n_shots=1).split(np.zeros((6, 1)), ["a", 1] * 3))
    assert len(train) == 2  # numpy makes text of text and numbers


@pytest.mark.parametrize("y", [[0.0, 1.0, np.nan] * 4, ["a", "b", None] * 4])
def test_labels_that_are_missing_get_advice(y):
    X = np.random.default_rng(0).normal(size=(12, 2))
    spreading = Transductive(LabelSpreading())
    for mark, advice in (
        (-1, "mark rows .* with -1"),
        ("?", "mark .* '[?]'"),
        ("{?}", "mark .* '{[?]}'"),
        (None, "leave .*out"),
    ):
        with pytest.raises(ValueError, match=f"^y contains NaN or None: {advice}, or"):
            spreading.set_params(unlabelled=mark).fit(X, y)


def test_of_several_targets_that_are_objects_gaps_stay_in_their_row():
    y = np.array([[i / 2, None if i in (1, 4) else 1.5] for i in range(8)], dtype=object)
    every_test = [test for _, test in SemiSupervisedKFold(3, random_state=0).split(y, y)]
    assert_array_equal(np.sort(np.concatenate(every_test)), [0, 2, 3, 5, 6, 7])


def test_a_row_with_one_of_two_targets_is_in_no_test_set():
    y = np.arange(24.0).reshape(12, 2)
    y[3, 0] = y[7, 1] = np.nan
    folds = list(SemiSupervisedKFold(5, random_state=0).split(y, y))
    tested = np.sort(np.concatenate([test for _, test in folds]))
    assert_array_equal(tested, np.setdiff1d(np.arange(12), [3, 7]))
    assert all({3, 7} < set(train) for train, _ in folds)


@pytest.mark.parametrize(
    "y, message",
    [
        ([np.nan] * 6, "no row with a target"),
        ([1.0, 2.0, np.nan, np.nan, np.nan, np.nan], "n_splits=5 greater than"),
        ([1.0, 2.0, 3.0, np.inf, 4.0, 5.0], "y contains infinity"),
        (list("abcdef"), "could not convert|dtype='numeric'"),
    ],
)
def test_folds_of_a_regression_refuse(y, message):
    with pytest.raises(ValueError, match=message):
        list(SemiSupervisedKFold().split(np.zeros((6, 1)), y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        list(SemiSupervisedKFold().split(np.zeros((7, 1)), y))


@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[s]"])
def test_dates_are_split_as_the_numbers_they_are(kind):
    y = np.arange(9)
    dates = y.astype(kind)
    dates[2] = "NaT"
    cv = SemiSupervisedKFold(3, random_state=0)
    expected = cv.split(y, np.where(y == 2, np.nan, y))
    for found, told in zip(cv.split(y, dates), expected, strict=True):
        for rows, others in zip(found, told, strict=True):
            np.testing.assert_array_equal(rows, others)


def test_folds_of_a_regression_need_targets():
    with pytest.raises(ValueError, match="needs y: targets, with NaN for rows without one"):
        list(SemiSupervisedKFold().split(np.zeros((6, 1)), None))


@pytest.mark.parametrize(
    "y",
    [[0, 1, -1] * 3, [2.0, 7.0, -1.0] * 3, [[3], [-1]] * 3, pd.Series([0, -1] * 3, dtype="Int64")],
    ids=["numbers", "floats", "column", "nullable"],
)
def test_folds_of_a_regression_warn_of_classes_without_a_label(y):
    with pytest.warns(UserWarning, match="if y holds classes and -1 means no label, use SemiSup"):
        folds = list(SemiSupervisedKFold(3).split(np.zeros((len(y), 1)), y))
    assert sum(len(test) for _, test in folds) == len(y)  # they are not refused


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 2] * 3,
        [-2, -1, 0] * 3,
        [-1.0, 0.5, 1.0] * 3,
        [np.nan, -1, 0] * 3,
        [-1, 0, 1, 2, 3, 4, 5],
    ],
    ids=["none is -1", "less than -1", "fractions", "NaN", "mostly different"],
)
def test_folds_of_a_regression_have_nothing_to_warn_of(y, recwarn):
    list(SemiSupervisedKFold(2).split(np.zeros((len(y), 1)), y))
    assert not recwarn.list


@pytest.mark.parametrize(
    "splitter", [SemiSupervisedSplit(2), SemiSupervisedKFold(2), FewShotSplit(1, n_shots=1)]
)
def test_groups_are_ignored_with_a_warning(splitter):
    ignored = f"The groups parameter is ignored by {type(splitter).__name__}"
    mark = np.nan if isinstance(splitter, SemiSupervisedKFold) else -1
    with pytest.warns(UserWarning, match=ignored):
        next(splitter.split(np.zeros((7, 1)), [0, 1] * 3 + [mark], groups=[0, 0, 1, 1, 2, 2, 3]))


def test_labels_beyond_64_bits_are_refused():
    y = np.array([2**70, 1, 2**70, 1], dtype=object)
    with pytest.raises(ValueError, match="an integer beyond int64: give labels as str"):
        next(SemiSupervisedSplit(2).split(np.zeros((4, 1)), y))


def test_minus_one_day_is_a_class_as_others_are():
    y = np.resize(np.array([-1, 2], "m8[D]"), 8)
    for _, test in SemiSupervisedSplit(2).split(y, y):
        assert set(y[test]) == set(y)


@pytest.mark.parametrize(
    "load, scoring", [(load_wine, "roc_auc_ovr"), (load_breast_cancer, "roc_auc")]
)
def test_grid_search_with_roc_auc(load, scoring):
    X, y = load(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LabelSpreading(kernel="knn")),
        {"labelspreading__n_neighbors": [9, 15]},
        cv=SemiSupervisedSplit(3, random_state=0),
        scoring=scoring,
        error_score="raise",
    )
    search.fit(X, hide(y, 0.6))
    assert search.best_score_ > 0.95


def test_numbers_of_a_splitter_that_are_changed_are_checked():
    splitter = FewShotSplit()
    splitter.n_shots = 0
    with pytest.raises(ValueError, match="'n_shots' parameter of FewShotSplit must be an int"):
        next(splitter.split(np.zeros((4, 1)), [0, 1, 0, 1]))


@given(y=partly_labelled(), n_shots=st.integers(1, 3), n_unlabelled=st.none() | st.integers(1, 2))
def test_few_shot_counts(y, n_shots, n_unlabelled):
    cv = FewShotSplit(4, n_shots=n_shots, n_unlabelled=n_unlabelled, random_state=0)
    splits = list(cv.split(y, y))
    assert len(splits) == cv.get_n_splits() == 4
    for train, test in splits:
        assert not set(train) & set(test)
        assert len(set(train)) == len(train) and len(set(test)) == len(test)
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert (y[test] != -1).all()
        for k in range(y.max() + 1):
            assert np.sum(y[train] == k) == n_shots
            rest = np.sum(y == k) - n_shots
            assert np.sum(y[test] == k) == (rest if n_unlabelled is None else n_unlabelled)


@pytest.mark.parametrize(
    "cv", [FewShotSplit(3, random_state=0), SemiSupervisedSplit(random_state=0)]
)
def test_an_int_seed_repeats_the_splits_and_another_changes_them(cv):
    X, y = load_iris(return_X_y=True)
    first = [test.tolist() for _, test in cv.split(X, y)]
    assert first == [test.tolist() for _, test in cv.split(X, y)]
    other = type(cv)(cv.n_splits, random_state=1)
    assert first != [test.tolist() for _, test in other.split(X, y)]


def test_few_shot_splits_differ_from_each_other_and_are_not_sorted_by_class():
    X, y = load_iris(return_X_y=True)
    splits = list(FewShotSplit(5, random_state=0).split(X, y))
    assert len({tuple(sorted(train)) for train, _ in splits}) == 5
    assert np.any(np.diff(y[splits[0][0]]) < 0) and np.any(np.diff(y[splits[0][1]]) < 0)


def test_few_shot_splits_of_labelled_rows_do_not_depend_on_others():
    y = np.repeat([0, 1, 2], 12)
    marked = np.insert(y, np.arange(0, 36, 3), -1)
    labelled = np.flatnonzero(marked >= 0)
    cv = FewShotSplit(4, n_shots=2, random_state=0)
    for alone, beside in zip(cv.split(y, y), cv.split(marked, marked), strict=True):
        train = [i for i in beside[0] if marked[i] >= 0]
        assert_array_equal(np.sort(train), np.sort(labelled[alone[0]]))
        assert_array_equal(beside[1], labelled[alone[1]])
        assert (np.diff(marked[beside[0]] < 0) != 0).sum() > 2  # shuffled with them


def test_few_shot_names_the_class_that_is_too_small():
    y = np.array(["few"] * 4 + ["many"] * 30)
    with pytest.raises(ValueError, match=r"needs 5 .* class 'few' has 4: lower n_shots"):
        next(FewShotSplit(n_shots=3, n_unlabelled=2).split(y, y))
    with pytest.raises(ValueError, match=r"needs 5 .* 4 to train on .* 1 to test on"):
        next(FewShotSplit(n_shots=4).split(y, y))
    train, test = next(FewShotSplit(n_shots=3).split(y, y))
    assert len(train) == 6 and len(test) == 28
    numbers = pd.Series(np.arange(300) // 3, dtype="Int64")  # a regression's, taken for classes
    with pytest.raises(ValueError, match=r"class 0 has 3, 1 has 3, .* 4 has 3, \.\.\.: lower"):
        next(FewShotSplit(n_shots=3).split(numbers, numbers))


@pytest.mark.parametrize(
    "params", [{"n_splits": 0}, {"n_shots": 0}, {"n_shots": 1.5}, {"n_unlabelled": 0}]
)
def test_few_shot_refuses_bad_parameters(params):
    with pytest.raises(ValueError, match=f"The '{next(iter(params))}' parameter of FewShotSplit"):
        FewShotSplit(**params)


@pytest.mark.parametrize("cv", [FewShotSplit(n_shots=1), SemiSupervisedSplit(2)])
class TestBadLabels:
    def test_no_labelled_row(self, cv):
        with pytest.raises(ValueError, match="no labelled row"):
            next(cv.split(np.empty((4, 1)), [-1] * 4))

    @pytest.mark.parametrize("dtype", [str, object, "str", "string"])
    def test_mark_turned_into_text(self, cv, dtype):
        y = np.array(["a", "a", "b", "b", -1])
        y = y.astype(dtype) if dtype in (str, object) else pd.Series(y).astype(dtype)
        for train, test in cv.split(y, y):
            assert 4 in train and 4 not in test

    @pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
    def test_missing_labels(self, cv, nothing):
        y = np.array(["a", "a", "b", "b", nothing], dtype=object)
        with pytest.raises(ValueError, match="NaN or None: mark rows without a label with -1"):
            next(cv.split(y, y))

    def test_masked_labels(self, cv):
        with pytest.raises(ValueError, match="NaN or None: mark rows without a label with -1"):
            next(cv.split(np.empty((5, 1)), np.ma.masked_equal([0, 0, 1, 1, 7], 7)))

    def test_lengths_differ(self, cv):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            next(cv.split(np.empty((4, 1)), [0, 0, 1]))

    def test_targets_of_regression(self, cv):
        with pytest.raises(ValueError, match="continuous"):
            next(cv.split(np.empty((4, 1)), [0.5, 1.5, 2.5, 3.5]))
        with pytest.raises(ValueError, match="a regression target"):
            next(cv.split(np.empty((5, 1)), np.array([0, 0, 1, 1, 1.5], dtype=object)))

    def test_integers_held_as_objects_are_classes(self, cv):
        y = np.array([0, 0, 1, 1, -1], dtype=object)
        train, test = next(cv.split(y, y))
        assert 4 in train and set(y[test]) == {0, 1}


@pytest.mark.parametrize("split", [SemiSupervisedSplit(2), FewShotSplit(), SemiSupervisedKFold(2)])
def test_splitters_say_that_y_is_missing(split):
    with pytest.raises(ValueError, match="needs y: targets|y is needed: labels"):
        next(split.split(np.zeros((4, 1)), None))


def test_semi_supervised_split_refuses_more_folds_than_labels():
    y = [0, 0, 1, 1, -1, -1, -1]
    with pytest.raises(ValueError, match="n_splits=3"):
        next(SemiSupervisedSplit(3).split(y, y))


# -------------------------------------------------------------------------------- Transductive


@parametrize_with_checks(
    [Transductive(LabelSpreading()), Transductive(LabelSpreading(), unlabelled=None)],
    expected_failed_checks=lambda estimator: {
        "check_methods_subset_invariance": "a transduced label depends on the rows beside it",
        **(
            {"check_classifiers_classes": "its labels are -1 and 1, and -1 means unlabelled"}
            if estimator.unlabelled == -1
            else {}
        ),
    },
    xfail_strict=True,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [LabelSpreading(), LabelSpreading(kernel="knn"), LabelPropagation(kernel="knn", max_iter=5000)],
    ids=str,
)
def test_equals_the_model_fitted_by_hand(model, wine):
    X, y, X_query, _ = wine
    X, X_query = X / [*X.max(axis=0)], X_query / [*X.max(axis=0)]
    ours = Transductive(model).fit(X, y)
    by_hand = clone(model).fit(np.vstack([X, X_query]), np.r_[y, [-1] * len(X_query)])
    assert_array_equal(ours.predict(X_query), by_hand.transduction_[len(X) :])
    assert_allclose(ours.predict_proba(X_query), by_hand.label_distributions_[len(X) :], rtol=1e-12)


@pytest.mark.parametrize("threshold", [0.3, 0.5])  # without and with rows that are never labelled
def test_self_training_labels_every_row(threshold, wine):
    X, y, X_query, _ = wine
    X, X_query = X[:, :2], X_query[:, :2]  # too few columns to be sure
    model = SelfTrainingClassifier(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1)), threshold=threshold
    )
    ours = Transductive(model).fit(X, y)
    by_hand = clone(model).fit(np.vstack([X, X_query]), np.r_[y, [-1] * len(X_query)])
    transduced = by_hand.transduction_[len(X) :]
    final = by_hand.predict(X_query)
    assert (transduced == -1).any() == (threshold == 0.5)
    assert ((transduced != final) & (transduced != -1)).any()  # the classifier changed its mind
    expected = np.where(transduced == -1, final, transduced)
    assert_array_equal(ours.predict(X_query), expected)
    assert_allclose(ours.predict_proba(X_query), by_hand.predict_proba(X_query), rtol=1e-12)


class PredictsColumn(LogisticRegression):
    def predict(self, X):
        return super().predict(X)[:, None]


def test_a_classifier_may_predict_a_column(wine):
    X, y, X_query, _ = wine
    X, X_query = X[:, :2], X_query[:, :2]
    found, expected = (
        Transductive(
            SelfTrainingClassifier(make_pipeline(StandardScaler(), classifier(C=0.1)), 0.5)
        )
        .fit(X, y)
        .predict(X_query)
        for classifier in (PredictsColumn, LogisticRegression)
    )
    assert_array_equal(found, expected, strict=True)


class InSinglePrecision(LogisticRegression):
    def predict_proba(self, X):
        return super().predict_proba(X).astype(np.float32)


def test_probabilities_in_single_precision_sum_to_one(wine):
    X, y, X_query, _ = wine
    model = SelfTrainingClassifier(make_pipeline(StandardScaler(), InSinglePrecision()))
    proba = Transductive(model).fit(X, y).predict_proba(X_query)
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)


def test_unlabelled_rows_help_in_cross_validation():
    X, y = load_digits(return_X_y=True)
    cv = FewShotSplit(n_shots=1, n_unlabelled=100, random_state=0)
    alone = cross_val_score(LabelSpreading(kernel="knn", n_neighbors=5), X, y, cv=cv)
    wrapped = cross_val_score(
        Transductive(LabelSpreading(kernel="knn", n_neighbors=5)), X, y, cv=cv
    )
    assert wrapped.mean() > alone.mean() + 0.2


def test_labels_may_be_strings_and_rows_of_fit_unlabelled(wine):
    X, y, X_query, _ = wine
    names = np.array(["Barolo", "Grignolino", "Barbera"])
    codes = Transductive(knn_spreading()).fit(X, y)
    named = Transductive(knn_spreading()).fit(X, names[y])
    assert_array_equal(named.classes_, np.sort(names))
    assert_array_equal(named.predict(X_query), names[codes.predict(X_query)])
    # Give fit the rest of the table, marked with -1, instead of giving it to predict.
    n = len(X_query) - 10
    marked = np.concatenate([names[y].astype(object), [-1] * n])
    both = Transductive(knn_spreading()).fit(np.vstack([X, X_query[:n]]), marked)
    assert_array_equal(both.predict(X_query[n:]), named.predict(X_query)[n:])
    assert_allclose(both.predict_proba(X_query[n:]), named.predict_proba(X_query)[n:], rtol=1e-9)


def test_another_mark(wine):
    X, y, X_query, _ = wine
    signs = np.where(y == 0, -1, 1)
    two = Transductive(knn_spreading(), unlabelled=None).fit(X, signs)
    assert_array_equal(two.classes_, [-1, 1])
    assert set(two.predict(X_query)) == {-1, 1}
    asked = Transductive(knn_spreading(), unlabelled="?").fit(
        np.vstack([X, X_query]), [*np.array(["no", "yes"])[(y == 0) + 0], *"?" * len(X_query)]
    )
    assert_array_equal(asked.classes_, ["no", "yes"])
    assert_array_equal(asked.y_[len(y) :], -1)


def test_unlabelled_rows_have_no_say_in_the_class_prior(wine):
    X, y, X_query, _ = wine
    of_labelled = [2 / 3, 1 / 3]
    ours = Transductive(knn_spreading()).fit(
        np.vstack([X, X_query]), [*np.where(y == 1, "b", "a"), *["-1"] * len(X_query)]
    )
    assert_allclose(ours.class_prior_, of_labelled)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")
def test_rows_that_no_label_reaches_get_the_class_prior(wine):
    X, y, X_query, _ = wine
    X, y = X[y > 0][:5], y[y > 0][:5]
    prior = np.bincount(y)[1:] / 5
    assert prior[0] != prior[1]
    far = X_query + 1e6 * np.arange(1, len(X_query) + 1)[:, None]
    theirs = LabelPropagation().fit(X, y)
    assert np.isnan(theirs.predict_proba(far)).all()  # scikit-learn issue 18029
    ours = Transductive(LabelPropagation()).fit(X, y)
    assert_allclose(ours.predict_proba(far), np.tile(prior, (len(far), 1)))
    assert_array_equal(ours.predict(far), np.full(len(far), ours.classes_[prior.argmax()]))


@pytest.mark.parametrize("other", [KMeans(2), GaussianMixture(2), IsolationForest()], ids=str)
@pytest.mark.parametrize("wrap", [lambda other: other, make_pipeline], ids=["alone", "pipeline"])
def test_clusters_and_outliers_are_no_classes(other, wrap):
    with pytest.raises(TypeError, match="estimator must be a classifier, got"):
        Transductive(wrap(other)).fit(np.arange(4.0)[:, None], [0, 1, 0, 1])


@pytest.mark.parametrize(
    "wrap",
    [
        FrozenEstimator,
        lambda fitted: make_pipeline(StandardScaler(), FrozenEstimator(fitted)),
        lambda fitted: FrozenEstimator(
            GridSearchCV(fitted, {}, cv=2).fit(*load_wine(return_X_y=True))
        ),
    ],
    ids=["alone", "pipeline", "search"],
)
def test_what_is_frozen_has_answers_for_rows_of_another_fit(wrap, wine):
    X, y, X_query, _ = wine
    fitted = LabelSpreading("knn").fit(np.vstack([X_query, X]), np.r_[[-1] * len(X_query), y])
    with pytest.raises(TypeError, match="FrozenEstimator cannot be fitted: pass the estimator"):
        Transductive(wrap(fitted)).fit(X, y)


class OnlyPredicts(ClassifierMixin, BaseEstimator):
    """Predicts the nearest row's label, without transduction_ and predict_proba."""

    def fit(self, X, y):
        self.nearest_ = KNeighborsClassifier(1).fit(X[y != -1], y[y != -1])
        return self

    def predict(self, X):
        return self.nearest_.predict(X)


def test_an_estimator_that_only_predicts(wine):
    X, y, X_query, _ = wine
    ours = Transductive(OnlyPredicts()).fit(X, y + 5)
    assert_array_equal(
        ours.predict(X_query), 5 + KNeighborsClassifier(1).fit(X, y).predict(X_query)
    )
    assert not hasattr(ours, "predict_proba")
    assert hasattr(Transductive(knn_spreading()), "predict_proba")


def test_pipelines_and_searches_give_what_their_last_step_transduced(wine):
    X, y, X_query, _ = wine
    scaled = StandardScaler().fit_transform(np.vstack([X, X_query]))
    model = LabelSpreading(kernel="knn", n_neighbors=5)
    by_hand = clone(model).fit(scaled, np.r_[y, [-1] * len(X_query)])
    search = GridSearchCV(
        knn_spreading(), {"labelspreading__n_neighbors": [5]}, cv=SemiSupervisedSplit(3)
    )
    for wrapped in (knn_spreading(), search):
        ours = Transductive(wrapped).fit(X, y)
        assert_array_equal(ours.predict(X_query), by_hand.transduction_[len(X) :])


def test_a_data_frame_reaches_column_transformers(wine):
    X, y, X_query, _ = wine
    columns = [f"x{i}" for i in range(X.shape[1] - 1)] + ["strength"]
    frame, query = (pd.DataFrame(rows, columns=columns) for rows in (X, X_query))
    for table in (frame, query):
        table["strength"] = np.where(table["strength"] > 750, "strong", "light")
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), ["strength"]), remainder=StandardScaler(), sparse_threshold=0
        ),
        LabelSpreading(kernel="knn"),
    )
    ours = Transductive(model).fit(frame, pd.Series(y))
    assert_array_equal(ours.feature_names_in_, columns)
    by_hand = clone(model).fit(pd.concat([frame, query]), np.r_[y, [-1] * len(query)])
    assert_array_equal(ours.predict(query), by_hand[-1].transduction_[len(frame) :])
    with pytest.raises(ValueError, match="feature names should match"):
        ours.predict(query.rename(columns={"strength": "colour"}))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Transductive(model).fit(frame, y[:-1])


def test_arrays_after_a_data_frame_and_the_other_way_round(wine):
    X, y, X_query, _ = wine
    columns = [f"x{i}" for i in range(X.shape[1])]
    expected = Transductive(knn_spreading()).fit(X, y).predict(X_query)
    framed = Transductive(knn_spreading()).fit(pd.DataFrame(X, columns=columns), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert_array_equal(framed.predict(X_query), expected)
    plain = Transductive(knn_spreading()).fit(X, y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert_array_equal(plain.predict(pd.DataFrame(X_query, columns=columns)), expected)


@pytest.mark.parametrize(
    "mark, advice",
    [(-1, "or cross-validate with cv=Semi"), ("?", "or mark them with -1 and cross-")],
)
def test_rows_without_a_label_are_scored_with_a_warning(mark, advice, wine):
    X, y, X_query, y_query = wine
    ours = Transductive(knn_spreading(), unlabelled=mark)
    names = np.array(["a", "b", "c"]) if mark == "?" else np.arange(3)
    ours.fit(X, names[y])
    hidden = names[y_query]
    hidden[:10] = mark
    with pytest.warns(UserWarning, match=f"10 of the rows.*no label .*: leave them out, {advice}"):
        found = ours.score(X_query, hidden)
    assert found == pytest.approx(np.mean(ours.predict(X_query) == hidden))
    with warnings.catch_warnings(action="error"):
        ours.score(X_query, names[y_query])
        ours.set_params(unlabelled=None).score(X_query, hidden)
    weight = np.arange(len(y_query)) % 2
    right = ours.predict(X_query) == names[y_query]
    assert not right.all()
    found = ours.score(X_query, names[y_query], weight)
    assert found == pytest.approx(np.average(right, weights=weight))


def test_labels_keep_their_kind():
    X, ours = np.arange(6.0)[:, None], Transductive(knn_spreading())
    whole = pd.Series([0, 0, 1, 1, -1, -1], dtype="Int64")
    assert ours.fit(X, whole).classes_.dtype.kind == "i"
    with pytest.raises(ValueError, match="y contains NaN or None: mark"):
        ours.fit(X, ["a", "a", "b", "b", np.nan, -1])  # numpy would make text of them


class Guess(BaseEstimator):
    """Has no estimator type, as a class without scikit-learn's mixins."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.ones(len(X), dtype=int)


def test_an_estimator_of_no_type_may_be_wrapped():
    X = np.arange(4.0)[:, None]
    found = Transductive(Guess()).fit(X, ["a", "b", "b", -1]).predict(X)
    assert_array_equal(found, ["b"] * 4)


def test_what_is_no_table_is_refused_by_name(wine):
    X, y, X_query, _ = wine
    column, framed = pd.Series(X[:, 0]), Transductive(knn_spreading()).fit(pd.DataFrame(X), y)
    with pytest.raises(ValueError, match="Expected a 2-dimensional container"):
        Transductive(knn_spreading()).fit(column, y)
    with pytest.raises(ValueError, match="Expected a 2-dimensional container"):
        framed.predict(column)
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        framed.predict(sp.csr_array(X_query))


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
def test_tables_without_rows_or_columns_are_refused(form, wine):
    X, y, _, _ = wine
    ours = Transductive(knn_spreading())
    with pytest.raises(ValueError, match="0 feature.* required by Transductive"):
        ours.fit(form(X[:, :0]), y)
    with pytest.raises(ValueError, match="0 sample.* required by Transductive"):
        ours.fit(form(X), y).predict(form(X[:0]))


def test_sparse_rows(wine):
    X, y, X_query, _ = wine
    dense = Transductive(LabelSpreading(kernel="knn")).fit(X, y)
    sparse = Transductive(LabelSpreading(kernel="knn")).fit(sp.csr_array(X), y)
    assert_array_equal(sparse.predict(sp.csr_array(X_query)), dense.predict(X_query))
    assert_array_equal(sparse.predict(X_query), dense.predict(X_query))
    assert_array_equal(dense.predict(sp.csr_array(X_query)), dense.predict(X_query))


def test_rows_are_refused_at_fit_where_the_wrapped_estimator_would(wine):
    X, y, X_query, _ = wine
    dense = Transductive(MetaSemiSupervisedClassifier())
    with pytest.raises(TypeError, match="Sparse data was passed"):
        dense.fit(sp.csr_array(X), y)
    assert dense.fit(np.array([["a"], ["b"]], dtype=object), [0, 1]).X_[1, 0] == "b"
    X, X_query = (np.where(rows > rows.mean(0), rows, np.nan) for rows in (X, X_query))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Transductive(LabelSpreading()).fit(X, y)
    of_this_package = MetaSemiSupervisedClassifier().fit(X, y)
    assert_array_equal(dense.fit(X, y).predict(X_query), of_this_package.predict(X_query))


def test_text_in_an_array_reaches_the_first_step(wine):
    X, y, X_query, _ = wine
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0]))
    of_fit, query = (np.where(rows[:, [0]] > 13, "strong", "light") for rows in (X, X_query))
    model = make_pipeline(encode, LabelSpreading(kernel="knn", n_neighbors=5))
    by_hand = clone(model).fit(np.vstack([of_fit, query]), np.r_[y, [-1] * len(query)])
    found = Transductive(model).fit(of_fit.astype(object), y).predict(query.astype(object))
    assert_array_equal(found, by_hand[-1].transduction_[len(y) :])


@pytest.mark.filterwarnings("ignore::RuntimeWarning:sklearn")
def test_tags_follow_the_wrapped_estimator(wine):
    X, y, X_query, _ = wine
    X_query = np.where(X_query > X_query.mean(axis=0) * 2, np.nan, X_query)
    assert np.isnan(X_query).any()
    for rows in (X_query, pd.DataFrame(X_query)):
        with pytest.raises(ValueError, match="(?s)contains NaN.*Transductive does not accept"):
            Transductive(LabelSpreading()).fit(X, y).predict(rows)
    imputing = make_pipeline(SimpleImputer(), *[step for _, step in knn_spreading().steps])
    found = Transductive(imputing).fit(X, y).predict(X_query)
    assert len(found) == len(X_query)
    search = GridSearchCV(imputing, {"labelspreading__n_neighbors": [5]}, cv=SemiSupervisedSplit(3))
    assert_array_equal(Transductive(search).fit(X, y).predict(X_query), found)


def test_an_estimator_that_takes_the_mark_for_a_class_is_refused(wine):
    X, y, X_query, _ = wine
    ours = Transductive(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
    with pytest.raises(ValueError, match="Pipeline took -1 for a class"):
        ours.predict(X_query)


def test_no_labelled_row_not_fitted_and_bad_parameters(wine):
    X, y, X_query, _ = wine
    with pytest.raises(ValueError, match="no labelled row"):
        Transductive(LabelSpreading()).fit(X, np.full(len(X), -1))
    with pytest.raises(NotFittedError):
        Transductive(LabelSpreading()).predict(X_query)
    with pytest.raises(ValueError, match="'estimator' parameter of Transductive"):
        Transductive(StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="'unlabelled' parameter of Transductive"):
        Transductive(LabelSpreading(), unlabelled=0.5).fit(X, y)


def test_a_fit_that_fails_leaves_nothing_behind(wine):
    X, y, X_query, _ = wine
    first, others = (
        pd.DataFrame(X[:, columns], columns=[f"x{j}" for j in columns])
        for columns in ([0, 1], [2, 3])
    )
    for ours in (Transductive(knn_spreading()), Transductive(knn_spreading()).fit(first, y)):
        with pytest.raises(ValueError, match="no labelled row"):
            ours.fit(others, np.full(len(y), -1))
        with pytest.raises(NotFittedError):  # the columns' names are those of this fit
            ours.predict(others)


def test_clone_pickle_and_two_jobs(wine):
    X, y, X_query, _ = wine
    ours = Transductive(knn_spreading(), unlabelled=-1).fit(X, y)
    assert not hasattr(clone(ours), "classes_")
    assert_array_equal(pickle.loads(pickle.dumps(ours)).predict(X_query), ours.predict(X_query))
    everything, labels = load_wine(return_X_y=True)
    cv = FewShotSplit(4, n_unlabelled=20, random_state=0)
    with joblib_forks():
        one, two = (
            cross_val_score(Transductive(knn_spreading()), everything, labels, cv=cv, n_jobs=n)
            for n in (1, 2)
        )
    assert_array_equal(one, two)


def test_searches_and_scores_with_metadata_routing_on():
    X, y = load_wine(return_X_y=True)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            Transductive(knn_spreading()),
            {"estimator__labelspreading__alpha": [0.1, 0.5]},
            cv=SemiSupervisedSplit(3, random_state=0),
            scoring=["accuracy", "roc_auc_ovr", "neg_log_loss"],
            refit="roc_auc_ovr",
            error_score="raise",
        ).fit(X, hide(y, 0.8))
        assert search.best_score_ > 0.95
        scores = cross_validate(
            Transductive(knn_spreading()), X, y, cv=FewShotSplit(3, random_state=0)
        )
        assert scores["test_score"].min() > 0.8


@pytest.mark.parametrize("dtype", [object, "str"])
def test_transductive_takes_text_for_the_mark(dtype):
    X, y = load_iris(return_X_y=True)
    names = pd.Series(np.array(["a", "b", "c"])[y]).astype(dtype)
    names[::2] = "-1"
    spreading = Transductive(LabelSpreading(gamma=1)).fit(X, names)
    assert spreading.classes_.tolist() == ["a", "b", "c"]


def test_transductive_keeps_a_copy_of_the_rows():
    X, y = load_iris(return_X_y=True)
    estimator = Transductive(LabelSpreading(gamma=1)).fit(X[::2], y[::2])
    expected = estimator.predict(X[1::2])
    X[::2] = 0
    np.testing.assert_array_equal(estimator.predict(X[1::2]), expected)


def test_more_folds_than_a_class_has_labels_are_refused():
    y = np.array([0, 0, 0, 1, -1, -1])
    with pytest.raises(
        ValueError, match="the largest has 3: lower n_splits of SemiSupervisedSplit"
    ):
        next(SemiSupervisedSplit(4).split(y, y))
    with pytest.warns(UserWarning, match="least populated class"):  # as in scikit-learn
        assert len(list(SemiSupervisedSplit(3).split(y, y))) == 3


@pytest.mark.parametrize(
    ("dtype", "fault"), [(object, "string to float"), (str, "not compatible with arrays of")]
)
def test_classes_that_are_text_are_told_how_they_are_split(dtype, fault):
    y = np.array(["good", "bad", "-1"] * 4, dtype=dtype)
    with pytest.raises(ValueError, match=f"(?s){fault}.* For classes, use SemiSupervisedSpl"):
        next(SemiSupervisedKFold(2).split(y, y))


@pytest.mark.parametrize("mark", [None, "?"])
def test_text_of_minus_one_is_a_class_where_the_mark_is_another(mark, wine):
    X, y, X_query, _ = wine
    signs = np.where(y == 0, "-1", "1")
    two = Transductive(knn_spreading(), unlabelled=mark).fit(X, signs)
    assert_array_equal(two.classes_, ["-1", "1"])
    assert set(two.predict(X_query)) == {"-1", "1"}


class OfTwoClasses(LabelSpreading):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def test_tags_of_the_classifier_are_those_of_the_wrapped_one():
    assert not get_tags(Transductive(OfTwoClasses())).classifier_tags.multi_class
    assert get_tags(Transductive(LabelSpreading())).classifier_tags.multi_class
