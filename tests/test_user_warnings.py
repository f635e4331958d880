"""Warnings point at the user's line, whatever calls are in between."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch.callbacks import Callback

import sklearn_meta
from sklearn_meta import (
    AmortizedOutlierDetector,
    FewShotTransformerClassifier,
    MANNClassifier,
    MetaGPRegressor,
    MetaLSTMClassifier,
    MetaSemiSupervisedClassifier,
    SetTransformerClassifier,
)
from sklearn_meta.model_selection import FewShotSplit, SemiSupervisedSplit
from sklearn_meta.tasks import Folder, as_dataset

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


class Ends(Callback):
    def on_epoch_end(self, net, **kwargs):
        raise KeyboardInterrupt


class Renewed(MetaSemiSupervisedClassifier):
    """Pickles as if made with other weights than the installed ones."""

    def __getstate__(self):
        return super().__getstate__() | {"_sha256": "another"}


def test_cross_validation_and_scores_and_datasets_have_it_too(tmp_path):
    partly = np.where(np.arange(30) % 3, Y, -1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cross_val_score(inductive(), MARKED, Y, cv=2)
        inductive().fit(X, Y).score(X, partly)
        as_dataset(MARKED, Y, name="a")
        [*FewShotSplit(2).split(X, Y, groups=Y)]
        small = MetaSemiSupervisedClassifier("deep_sets", random_state=0)
        small.meta_fit([(X, Y), (X, np.zeros(30))], max_steps=2, batch_size=1, verbose=False)
        small.meta_fit([(X, Y)], max_steps=4, eval_every=2, callbacks=[Ends()], verbose=False)
        pd.DataFrame({"0.5": X[:, 0], "0.25": X[:, 1], "0.75": Y}).to_csv(tmp_path / "a.csv")
        dict(Folder(tmp_path).items())
        copy.deepcopy(Renewed())
    told = [str(warning.message) for warning in warned]
    for part in (
        "missing cells",
        "no label",
        "groups",
        "1 of 2 datasets",
        "ended meta-training",
        "begins with numbers",
        "pickled with",
    ):
        assert any(part in message for message in told), part
    assert {warning.filename for warning in warned} == {__file__}


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
    """scikit-learn would warn that these may be targets of a regression."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(np.arange(30) % 24)


@pytest.mark.parametrize("name", sklearn_meta.__all__)
def test_a_pickle_of_another_version_is_told_of(name, monkeypatch):
    kind = getattr(sklearn_meta, name)
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_meta.versions.__version__", "0.0.9")
        made = pickle.dumps(kind())
    told = f"{name} was pickled with sklearn_meta 0.0.9 and is loaded with "
    with pytest.warns(UserWarning, match=told) as warned:
        read = pickle.loads(made)
    assert [warning.filename for warning in warned] == [__file__]
    assert vars(read).keys() == vars(kind()).keys()
    with warnings.catch_warnings(action="error"):
        pickle.loads(pickle.dumps(read))


@pytest.mark.parametrize("name", [{"__name__": 3}, {}])
def test_where_there_is_no_name_of_a_module_it_is_still_a_warning(name):
    with pytest.warns(UserWarning, match="missing cells"):
        exec("fit(X, Y)", {**name, "fit": transductive().fit, "X": MARKED, "Y": Y})
