"""A learner that reads values and ranks, and averages what it predicts of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_vsa import CONFIG, drawn_tasks, tensors

from sklearn_meta import MetaGPRegressor
from sklearn_meta.backbones.standardisation import normal_scores, order_of
from sklearn_meta.learner import Learner, build_learner
from sklearn_meta.tasks import context_task

BOTH = ["values", "ranks"]
same = {"rtol": 0, "atol": 1e-10}


def learner_of(task, views, **config):
    torch.manual_seed(0)
    learner = Learner(
        head={"classification": "prototypes", "regression": "gp"}[task],
        task=task,
        backbone_config=CONFIG,
        views=views,
        **config,
    )
    return learner.double().eval()


def ranks_of(x, readable):
    return normal_scores(x, order_of(x, readable)).masked_fill(x.isnan(), torch.nan)


def regression(task, n_targets=2):
    """The task with targets in the place of classes."""
    y = np.random.default_rng(0).standard_normal((len(task.y), n_targets))
    return task._replace(y=y, n_label_columns=n_targets)


@given(drawn_tasks(inductive=True))
@torch.no_grad()
def test_probabilities_are_the_mean_of_both_views(task):
    inputs = tensors(task)
    ranked = inputs | {"x": ranks_of(inputs["x"], inputs["readable"])}
    alone = learner_of("classification", ["values"])
    expected = torch.stack([alone(**one).softmax(-1) for one in (inputs, ranked)]).mean(0)
    found = learner_of("classification", BOTH)(**inputs)
    torch.testing.assert_close(found.exp(), expected, **same)
    second = learner_of("classification", ["ranks"])(**inputs)
    torch.testing.assert_close(second, alone(**ranked), **same)


@given(drawn_tasks(inductive=True))
@torch.no_grad()
def test_moments_are_those_of_the_mixture_of_both_views(task):
    inputs = tensors(regression(task))
    ranked = inputs | {"x": ranks_of(inputs["x"], inputs["readable"])}
    alone = learner_of("regression", ["values"])
    mean, variance = torch.stack([alone(**one) for one in (inputs, ranked)]).unbind(-1)
    second_moment = (variance + mean.square()).mean(0)
    found = learner_of("regression", BOTH)(**inputs)
    torch.testing.assert_close(found[..., 0], mean.mean(0), **same)
    expected = second_moment - mean.mean(0).square()
    torch.testing.assert_close(found[..., 1], expected, rtol=0, atol=1e-8)


@given(drawn_tasks(), st.booleans())
@torch.no_grad()
def test_covariance_is_that_of_the_mixture(task, encoded):
    """Its diagonal are the variances; joint predictions are those made one by one."""
    task = regression(task)
    inputs, n_context = tensors(task), int(task.labelled.sum())
    learner = learner_of("regression", BOTH)
    if encoded:
        columns, classes = inputs["columns"], inputs["classes"]
        x, labels = inputs["x"], inputs["labels"]
        masks = (columns, classes)
        state = learner.encode(x[:, :n_context], labels[:, :n_context], *masks)
        found, covariance = learner.continue_jointly(state, x[:, n_context:], *masks)
        expected = learner.continue_from(state, x[:, n_context:], *masks)[1]
    else:
        found, covariance = learner.predict_jointly(**inputs, n_context=n_context)
        expected = learner(**inputs)[:, n_context:]
    torch.testing.assert_close(found, expected, **same)
    variances = covariance.diagonal(dim1=-2, dim2=-1).mT
    torch.testing.assert_close(variances, found[..., 1], rtol=0, atol=1e-8)
    assert torch.linalg.eigvalsh(covariance).min() > 0


@given(drawn_tasks())
@torch.no_grad()
def test_ranks_alone_know_nothing_but_the_order(task):
    learner = learner_of("classification", ["ranks"])
    bent = task._replace(X=np.arcsinh(task.X))
    torch.testing.assert_close(learner(**tensors(bent)), learner(**tensors(task)), **same)


def test_while_training_the_values_alone_are_read():
    X = np.random.default_rng(0).standard_normal((20, 4))
    task = tensors(context_task(X, np.arange(20) % 4 - 1, 3))
    learner = learner_of("classification", BOTH).train()
    torch.testing.assert_close(learner(**task), learner_of("classification", ["values"])(**task))


def test_the_configuration_knows_the_views():
    learner = learner_of("regression", BOTH)
    assert learner.config["views"] == BOTH
    assert build_learner(learner.config).views == BOTH
    without = {k: v for k, v in learner.config.items() if k != "views"}
    assert build_learner(without).views == ["values"]  # cards from before


@pytest.mark.parametrize("views", [[], ["value"], ["values", "order"]])
def test_unknown_views_are_refused(views):
    with pytest.raises(ValueError, match="views must be chosen from 'values' and 'ranks'"):
        Learner(views=views)


def test_a_head_that_cannot_average_is_refused():
    with pytest.raises(ValueError, match="no average of views"):
        Learner(head="odd_one_out", task="outlier_detection", views=BOTH)


@pytest.mark.parametrize("transductive", [True, False])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_regressor_of_two_views(transductive, seed):
    """Batches equal tasks one by one, and covariances have the variances for diagonal."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 3)) ** 3, rng.standard_normal(15)
    learner = learner_of("regression", BOTH)
    regressor = MetaGPRegressor(learner, transductive=transductive, dtype="float64")
    mean, std = regressor.fit(X[:15], y).predict(X[15:], return_std=True)
    again, covariance = regressor.predict(X[15:], return_cov=True)
    np.testing.assert_allclose(again, mean, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, atol=1e-8)
    (batched,) = regressor.predict_batch([(X[:15], y, X[15:])])
    np.testing.assert_allclose(batched, mean, atol=1e-10)
