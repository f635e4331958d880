"""A user's own backbones and heads work if they follow the calling convention of the package's."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_iris
from torch import nn

from sklearn_meta import MetaGPRegressor, MetaSemiSupervisedClassifier
from sklearn_meta.heads import HEADS
from sklearn_meta.heads.base import ClassificationHead, RegressionHead
from sklearn_meta.learner import Learner

CLASSES, TARGETS = load_iris(return_X_y=True), load_diabetes(return_X_y=True)
QUICK = {"max_steps": 4, "eval_every": 2, "batch_size": 2, "verbose": False}


class Columns(nn.Module):
    """Embeds each column by itself, in the units of the readable rows."""

    def __init__(self):
        super().__init__()
        self.read = nn.Linear(1, 8)

    def n_embedding(self, n_columns):
        return 8 * n_columns

    def forward(self, x, labels, readable, columns, classes, memory=None):
        if memory is None:
            known = torch.where(readable[..., None] & columns[:, None], x, torch.nan)
            mean = known.nanmean(1, keepdim=True).nan_to_num()
            width = (known - mean).square().nanmean(1, keepdim=True).sqrt().nan_to_num()
            memory = mean, width.clamp(min=1e-3)
        mean, width = memory
        return self.read(((x - mean) / width).nan_to_num()[..., None]), memory


class Nearest(ClassificationHead):
    """Scores classes by the squared distance to their means."""

    def __init__(self):
        super().__init__()
        self.sharpness = nn.Parameter(torch.zeros(()))

    def adapt(self, z, labels, classes, readable):
        shares = labels.nan_to_num() / labels.nan_to_num().sum(1, keepdim=True).clamp(min=1)
        return shares.transpose(1, 2) @ z.flatten(2), classes

    def forward(self, z, state):
        distances = torch.cdist(z.flatten(2), state[0]).square()
        logits = -distances * self.sharpness.exp()
        return logits.masked_fill(~state[1][:, None], -torch.inf)


class Mean(RegressionHead):
    """Predicts the mean of the labelled rows for every row."""

    def __init__(self):
        super().__init__()
        self.log_variance = nn.Parameter(torch.zeros(()))

    def adapt(self, z, labels, classes, readable):
        return (labels.nanmean(1, keepdim=True),)

    def forward(self, z, state):
        mean = state[0].expand(-1, z.shape[1], -1)
        return torch.stack([mean, self.log_variance.exp().expand_as(mean)], -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("head", ["prototypes", Nearest])
def test_a_classifier_of_ones_own_modules_learns_and_predicts(dtype, transductive, head):
    backbone = Columns() if head == "prototypes" else Learner(Columns(), head())
    classifier = MetaSemiSupervisedClassifier(backbone, dtype=dtype, transductive=transductive)
    X, y = CLASSES
    classifier.meta_fit([CLASSES], **QUICK).fit(X[::10], y[::10])
    assert classifier.score(X, y) > 0.8
    batched = classifier.predict_proba_batch([(X[::10], y[::10], X[:40])])[0]
    np.testing.assert_allclose(batched, classifier.predict_proba(X[:40]), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", ["gp", Mean])
def test_a_regressor_of_ones_own_modules_learns_and_predicts(dtype, head):
    backbone = Columns() if head == "gp" else Learner(Columns(), Mean(), task="regression")
    X, y = TARGETS
    regressor = MetaGPRegressor(backbone, dtype=dtype).meta_fit([TARGETS], **QUICK)
    mean, std = regressor.fit(X[:60], y[:60]).predict(X[60:90], return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    if head == "gp":
        assert regressor.predict(X[60:90], quantiles=[0.1, 0.9]).shape == (2, 30)
    else:
        np.testing.assert_allclose(mean, y[:60].mean(), rtol=1e-5)


class ZAlone(Columns):
    def forward(self, *task):
        return super().forward(*task)[0]


def test_a_backbone_that_returns_something_else_is_told_what_it_should():
    with pytest.raises(ValueError, match="must return a pair, .*ZAlone returned a Tensor"):
        MetaSemiSupervisedClassifier(ZAlone()).meta_fit([CLASSES], **QUICK)


def test_what_is_no_head_of_the_task_is_refused():
    with pytest.raises(
        ValueError, match="Linear is not a head: it lacks adapt, joint, loss, score"
    ):
        Learner(Columns(), nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match="Mean is a head for regression, but the learner is for cla"
    ):
        Learner(Columns(), Mean())


class Noting(HEADS["regression"]["gp"]):
    seen = []

    def adapt(self, z, labels, classes, readable):
        self.seen.append((z.dtype, labels.dtype))
        return super().adapt(z, labels, classes, readable)


def test_a_head_of_ones_own_is_given_targets_that_bfloat16_has_not_rounded(monkeypatch):
    from sklearn_meta import learner as module

    known = tuple(kind for kind in module._KNOWN_HEADS if kind is not HEADS["regression"]["gp"])
    monkeypatch.setattr(module, "_KNOWN_HEADS", known)
    X = np.random.default_rng(0).standard_normal((20, 2))
    learner = Learner("vsa", Noting(), task="regression")
    Noting.seen.clear()
    MetaGPRegressor(learner, dtype="bfloat16").fit(X, X[:, 0]).predict(X)
    assert (torch.bfloat16, torch.float32) in Noting.seen
    assert all(labels != torch.bfloat16 for _, labels in Noting.seen)
