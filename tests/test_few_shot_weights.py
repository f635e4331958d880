"""The weights for FewShotTransformerClassifier that the package ships."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from sklearn_meta import FewShotTransformerClassifier
from sklearn_meta.tasks import Drawings, load_omniglot
from sklearn_meta.weights import load_learner

OMNIGLOT = Path(
    os.environ.get("SKLEARN_META_OMNIGLOT") or Path(__file__).parents[1] / "../shared/data/omniglot"
)


@pytest.mark.parametrize("name", ["default_few_shot", "omniglot_few_shot"])
def test_cards_tell_where_weights_come_from(name):
    card = load_learner(name).card
    assert card["config"]["task"] == "few_shot"
    assert card["recipe"]["command"].startswith("python benchmarks/meta_train_few_shot.py")
    assert card["validation"]["accuracy"] > 0.5
    assert "/" not in str(card["recipe"]).replace("benchmarks/", "")  # no path of a machine


def test_default_weights_read_tables():
    """Any columns and classes, few rows and many."""
    for n_classes, n_columns, n_known in ((2, 3, 6), (4, 20, 12), (9, 50, 27)):
        X, y = make_blobs(
            [n_known // n_classes + 15] * n_classes, n_columns, cluster_std=0.5, random_state=0
        )
        first = np.concatenate([np.flatnonzero(y == c)[: n_known // n_classes] for c in set(y)])
        rest = np.setdiff1d(np.arange(len(y)), first)
        estimator = FewShotTransformerClassifier().fit(X[first], y[first])
        assert estimator.score(X[rest], y[rest]) > 0.9


@pytest.mark.skipif(not OMNIGLOT.is_dir(), reason="Omniglot is not here")
def test_drawings_of_new_characters():
    """One drawing per character, of 5 and of 20 characters of alphabets not seen in training."""
    source = load_omniglot(OMNIGLOT, "valid")
    X = Drawings(28, augment=False)(source.dataset.X, source.dataset.y, None).astype(float)
    rng = np.random.default_rng(0)
    scores = {5: [], 20: []}
    for n, found in scores.items():
        for _ in range(4):
            rows = rng.choice(len(source), n, replace=False)[:, None] * 20 + rng.permutation(20)[:4]
            classes = np.arange(n)
            estimator = FewShotTransformerClassifier("omniglot_few_shot", n_estimators=4)
            estimator.fit(X[rows[:, 0]], classes)
            found.append(estimator.score(X[rows[:, 1:].ravel()], classes.repeat(3)))
    assert np.mean(scores[5]) > 0.9
    assert np.mean(scores[20]) > 0.75
