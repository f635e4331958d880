"""The package's weights give the answers to fixed rows that shipped_answers.json keeps.

Weights keep their meaning only while the code around them computes the same. A change that moves
an answer fails here, even if every property still holds. If the change is intended, run:

    python tests/test_shipped_answers.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine

import sklearn_meta as meta

FILE = Path(__file__).with_name("shipped_answers.json")


def table():
    """Rows of wine with a gap and a column of words: 12 labelled rows, their labels, other rows."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X["strength"] = pd.cut(X["alcohol"], 3, labels=["low", "middle", "high"]).astype(object)
    X.loc[X.index % 7 == 3, "ash"] = np.nan
    X, y = X[::5].reset_index(drop=True), y[::5].to_numpy()
    return X[::3], y[::3], X[1::3]


def classes(estimator):
    """Probabilities of rows of wine, and their embeddings if the estimator has any."""
    X, y, query = table()
    estimator.fit(X, y)
    told = {"proba": estimator.predict_proba(query)}
    if hasattr(estimator, "transform"):
        told["embeddings"] = estimator.transform(query)[:3, :4]
    return told


def regression():
    X, y = load_diabetes(return_X_y=True)
    known, query = slice(0, 400, 20), slice(5, 400, 40)
    estimator = meta.MetaGPRegressor(dtype="float64").fit(X[known], np.exp(y[known] / 100))
    mean, deviation = estimator.predict(X[query], return_std=True)
    return {
        "mean": mean,
        "deviation": deviation,
        "quantiles": estimator.predict(X[query][:3], quantiles=[0.1, 0.9]),
    }


def outliers():
    X, _, query = table()
    estimator = meta.AmortizedOutlierDetector(dtype="float64").fit(X)
    return {"scores": estimator.score_samples(query), "offset": [estimator.offset_]}


def mixture(backbone, covariance_type="full"):
    X = load_iris().data[::2, 1:3]
    estimator = meta.AmortizedGMM(
        3, backbone=backbone, covariance_type=covariance_type, dtype="float64", random_state=0
    ).fit(X)
    return {"means": estimator.means_, "weights": estimator.weights_, "score": [estimator.score(X)]}


def pictures(side):
    """Digits of 8 x 8 pixels, enlarged: one of each of five classes, and others."""
    images, y = load_digits(n_class=5, return_X_y=True)
    X = np.kron(images.reshape(-1, 8, 8) / 16, np.ones((3, 3)))
    X = np.pad(X, ((0, 0), (2, 2), (2, 2)))[:, :side, :side].reshape(len(X), -1)
    first = np.array([np.flatnonzero(y == c)[0] for c in range(5)])
    return X[first], y[first], X[100:106]


def drawings(estimator, side):
    X, y, query = pictures(side)
    return {"proba": estimator.fit(X, y).predict_proba(query)}


def remembered(**settings):
    """Probabilities of a network with memory, for columns of numbers without gaps."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    estimator = meta.MANNClassifier(dtype="float64", random_state=0, **settings)
    return {"proba": estimator.fit(X[::9], y[::9]).predict_proba(X[4::30])}


def remembered_regression():
    X, y = load_diabetes(return_X_y=True)
    estimator = meta.MANNRegressor(dtype="float64", random_state=0).fit(X[:400:10], y[:400:10])
    return {"mean": estimator.predict(X[5:400:40])}


def texts():
    known = ["a great film", "dull and far too long", "I loved it, wonderful", "a waste of money"]
    query = ["what a wonderful story", "boring, it broke after a day", "fine", ""]
    estimator = meta.MetaLSTMClassifier("english_reviews", random_state=0)
    estimator.fit(known, ["pos", "neg", "pos", "neg"])
    return {"proba": estimator.predict_proba(query)}


def names():
    known = [["Ann", "Lee", "lives", "in", "Rome"], ["The", "dog", "sees", "Ben", "."]] * 2
    labels = [["B-person", "I-person", "O", "O", "B-city"], ["O", "O", "O", "B-person", "O"]] * 2
    tagger = meta.MetaLSTMTagger("english_names", random_state=0).fit(known, labels)
    linear = tagger.linear_.scores([["Mary", "Poe", "went", "to", "Oslo"]])[0]
    told = tagger._tell([["Mary", "Poe", "went", "to", "Oslo"]], lambda m, i: m(**i, task=0).scores)
    return {"linear": linear, "network": told[0]}


def tables(backbone, **settings):
    return classes(meta.MetaSemiSupervisedClassifier(backbone, dtype="float64", **settings))


CASES = {
    "default": lambda: tables("default"),
    "default, inductive": lambda: tables("default", transductive=False),
    "prior": lambda: tables("prior"),
    "prototypes": lambda: tables("prototypes"),
    "meta_lp": lambda: tables("meta_lp"),
    "default_regression": regression,
    "default_outliers": outliers,
    "default_mixture": lambda: mixture("default"),
    "default_mixture, spherical": lambda: mixture("default", "spherical"),
    "paper_001_mixture": lambda: mixture("paper_001_mixture"),
    "default_mann": remembered,
    "default_mann_string": lambda: remembered(label_encoding="string"),
    "default_mann_regression": remembered_regression,
    "omniglot_mann": lambda: drawings(
        meta.MANNClassifier("omniglot_mann", dtype="float64", random_state=0), 20
    ),
    "omniglot_mann_string": lambda: drawings(
        meta.MANNClassifier("omniglot_mann_string", dtype="float64", random_state=0), 20
    ),
    "default_few_shot": lambda: classes(
        meta.FewShotTransformerClassifier(dtype="float64", random_state=0)
    ),
    "omniglot_few_shot": lambda: drawings(
        meta.FewShotTransformerClassifier("omniglot_few_shot", dtype="float64", random_state=0), 28
    ),
    "english_reviews": texts,
    "english_names": names,
}


def rounded(answer):
    return {
        name: np.vectorize(lambda v: float(f"{v:.6g}"))(np.asarray(values, float)).tolist()
        for name, values in answer.items()
    }


def test_each_of_the_packages_weights_is_asked():
    shipped = {path.stem for path in (Path(meta.__file__).parent / "weights").glob("*.safetensors")}
    assert {name.split(",")[0] for name in CASES} == shipped


@pytest.mark.parametrize("name", CASES)
def test_weights_answer_what_they_answered(name):
    told, known = CASES[name](), json.loads(FILE.read_text())[name]
    assert told.keys() == known.keys()
    # Texts are read in float32, all else in float64; the file keeps six digits.
    tolerance = 1e-3 if name.startswith("english") else 2e-5
    for key, values in known.items():
        np.testing.assert_allclose(told[key], values, rtol=tolerance, atol=tolerance, err_msg=key)


if __name__ == "__main__":
    answers = {name: rounded(case()) for name, case in CASES.items()}
    lines = (f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
