"""The weights with a memory that the package ships perform as their cards say."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_blobs
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_meta import MANNClassifier, MANNRegressor
from sklearn_meta.tasks import ClassSequences, Drawings, GaussianProcessPrior, load_omniglot
from sklearn_meta.weights import load_learner
from sklearn_meta.weights.store import FOLDER

OMNIGLOT = Path(
    os.environ.get("SKLEARN_META_OMNIGLOT") or Path(__file__).parents[1] / "../shared/data/omniglot"
)
NAMES = [
    *("default_mann", "default_mann_string", "default_mann_regression"),
    *("omniglot_mann", "omniglot_mann_string"),
]
FEW = ShuffleSplit(3, train_size=60, test_size=80, random_state=0)


def test_together_they_are_small():
    sizes = [(FOLDER / f"{name}.safetensors").stat().st_size for name in NAMES]
    assert sum(sizes) <= 8e6


@pytest.mark.parametrize(("encoding", "flowers"), [("onehot", 0.7), ("string", 0.55)])
def test_tables_of_any_columns_are_learned_from_sixty_rows(encoding, flowers):
    classifier = MANNClassifier(label_encoding=encoding)
    pipeline = make_pipeline(StandardScaler(), classifier)
    assert cross_val_score(pipeline, *load_iris(return_X_y=True), cv=FEW).mean() > flowers
    X, y = make_blobs(140, n_features=20, centers=6, random_state=0)
    assert cross_val_score(classifier, X, y, cv=FEW).mean() > 0.8


def test_more_classes_than_one_hot_labels_are_learned_as_strings():
    X, y = make_blobs(180, n_features=8, centers=12, random_state=0)
    assert cross_val_score(MANNClassifier(label_encoding="string"), X, y, cv=FEW).mean() > 0.4


def test_regression_is_better_than_the_mean_and_knows_how_sure_it_is():
    scores = cross_val_score(MANNRegressor(), *load_diabetes(return_X_y=True), cv=FEW)
    assert scores.mean() > 0.15
    covered = []
    for seed in range(10):
        table = GaussianProcessPrior(2, n_rows=60).draw(np.random.default_rng(seed))
        regressor = MANNRegressor(n_estimators=2).fit(table.X[:40], table.y[:40])
        mean, std = regressor.predict(table.X[40:], return_std=True)
        covered.append(np.abs(table.y[40:] - mean) < 1.645 * std)
    assert 0.8 < np.mean(covered) < 0.98


@pytest.mark.skipif(not OMNIGLOT.is_dir(), reason="Omniglot is not here")
@pytest.mark.parametrize(
    ("name", "n_classes", "second", "tenth"),
    [("omniglot_mann", 5, 0.85, 0.94), ("omniglot_mann_string", 15, 0.55, 0.8)],
)
def test_drawings_are_recognised_once_they_were_seen(name, n_classes, second, tenth):
    learner = load_learner(name)
    source = load_omniglot(OMNIGLOT, "valid")
    sampler = ClassSequences(
        learner.head, Drawings(augment=False), n_classes=(n_classes, n_classes), max_rows=100
    )
    rng = np.random.default_rng(0)
    inputs, words = sampler.collate([sampler.draw(source.draw(rng), rng) for _ in range(40)])
    with torch.inference_mode():
        letters = learner(**inputs).unflatten(-1, (learner.head.n_letters, -1))
    right = (letters.argmax(-1) == words).all(-1).numpy()
    instance = np.array(
        [[(w[: t + 1] == w[t]).all(-1).sum() for t in range(len(w))] for w in words.numpy()]
    )
    assert right[instance == 2].mean() > second
    assert right[instance >= 8].mean() > tenth


def test_digits_are_tables_too():
    X, y = load_digits(return_X_y=True)
    assert cross_val_score(MANNClassifier(), X, y, cv=FEW).mean() > 0.5
