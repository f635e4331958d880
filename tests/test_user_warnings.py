"""Warnings point at the line of the user, whatever stands between."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaLSTMClassifier,
    MetaSemiSupervisedClassifier,
    SetTransformerClassifier,
)
from sklearn_meta.model_selection import SemiSupervisedSplit
from sklearn_meta.tasks import as_dataset

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 3)), np.arange(30) % 2
MARKED = X.copy()
MARKED[::5, 1] = -999.0
LIKE_NUMBERS = pd.DataFrame({"a": X[:, 0], "b": [f"{v:.3f}$" for v in X[:, 1]]})
COLOURS = pd.DataFrame({"a": X[:, 0], "b": np.where(Y, "red", "blue")})
OTHERS = COLOURS.assign(b="verde")


def transductive():
    return MetaSemiSupervisedClassifier()


def inductive():
    return MetaSemiSupervisedClassifier(transductive=False)


@pytest.mark.parametrize(
    ("make", "fitted", "asked"),
    [
        (transductive, MARKED, None),
        (inductive, MARKED, None),
        (FewShotTransformerClassifier, MARKED, None),
        (MANNClassifier, MARKED, None),
        (MetaGPRegressor, MARKED, None),
        (transductive, LIKE_NUMBERS, None),
        (AmortizedOutlierDetector, LIKE_NUMBERS, None),
        (transductive, COLOURS, OTHERS),
        (inductive, COLOURS, OTHERS),
        (FewShotTransformerClassifier, COLOURS, OTHERS),
        (MANNClassifier, COLOURS, OTHERS),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_the_place_of_a_warning_is_the_users_line(make, fitted, asked, piped):
    estimator = make_pipeline(FunctionTransformer(), make()) if piped else make()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        estimator.fit(fitted, Y)
        if asked is not None:
            estimator.predict(asked)
    assert warned
    assert {warning.filename for warning in warned} == {__file__}


def test_cross_validation_and_scores_and_datasets_have_it_too():
    partly = np.where(np.arange(30) % 3, Y, -1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cross_val_score(inductive(), MARKED, Y, cv=2)
        inductive().fit(X, Y).score(X, partly)
        as_dataset(MARKED, Y, name="a")
        [*SemiSupervisedSplit(2).split(X, Y, groups=Y)]
    ours = [warning for warning in warned if "sklearn_meta" in str(warning.filename)]
    assert len(warned) >= 4
    assert not [warning for warning in ours if warning.filename != __file__]


@pytest.mark.parametrize(
    "fit",
    [
        lambda y: MetaSemiSupervisedClassifier().fit(X, y),
        lambda y: SetTransformerClassifier(max_epochs=1, width=8).fit([X[:2]] * 30, y),
        lambda y: MetaLSTMClassifier(max_epochs=1, width=8, wide=False).fit(["a b"] * 30, y),
        lambda y: next(SemiSupervisedSplit(2).split(X, np.r_[y[:15], y[:15]])),
    ],
)
def test_few_rows_of_many_classes_are_nothing_to_warn_of(fit):
    """scikit-learn asks whether these are targets of a regression."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(np.arange(30) % 24)
