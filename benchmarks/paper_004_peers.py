"""Peers of benchmarks/paper_004.py that scikit-learn does not have as they are."""

import copy
import warnings

import numpy as np
import torch
from sklearn.semi_supervised import LabelSpreading

from sklearn_meta.tasks.texts import tokens_of
from sklearn_meta.wide import fit_shared
from sklearn_meta.wide_tagging import decoded


class SharedAlone:
    """The linear model that tasks share beside a network, used alone, for two labels."""

    def fit(self, X, y):
        self.classes, numbers = np.unique(y, return_inverse=True)
        self.linear, _ = fit_shared({"all": (tokens_of(X), numbers, self.classes)})
        return self

    def score(self, X, y):
        likelier = self.linear.scores(tokens_of(X))[:, 0] > 0
        return float(np.mean(self.classes[likelier.astype(int)] == y))


class SpreadLabels:
    """LabelSpreading among the texts of ``fit`` and those that are scored."""

    def __init__(self, words):
        self.words = words

    def fit(self, X, y):
        self.X, self.y = list(X), np.asarray(y)
        return self

    def score(self, X, y):
        Z = self.words.fit_transform([*self.X, *X])
        spreading = LabelSpreading("knn", n_neighbors=min(15, Z.shape[0] - 1), max_iter=100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that no label reaches, and of no convergence
            spreading.fit(Z, np.concatenate([self.y, np.full(len(X), -1)]))
        return float(np.mean(spreading.transduction_[len(self.X) :] == y))


def linear_alone(tagger):
    """Return a tagger without its network: its linear CRF, which reads whole sentences."""
    alone = copy.copy(tagger)

    def predict(X):
        scores = map(torch.from_numpy, tagger.linear_.scores(X))
        return [tagger.classes_[tags].tolist() for tags in decoded(tagger.linear_.crf, scores)]

    alone.predict = predict
    return alone
