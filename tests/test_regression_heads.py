"""Heads of regression, and classification heads that solve a system, agree with other code."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import label_matrix
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import RidgeClassifier

from sklearn_meta.backbones import VSA
from sklearn_meta.heads import (
    HEADS,
    AttributeGaussianProcess,
    GaussianProcess,
    LabelPropagation,
    LinearClassifier,
    LinearRegressor,
)
from sklearn_meta.heads.base import RegressionHead, factorise
from sklearn_meta.learner import Learner

# The head of outlier detection reads no labels and has its own tests.
ALL = [(task, name) for task in ("classification", "regression") for name in HEADS[task]]


@st.composite
def drawn_contexts(draw, task="regression"):
    """Embeddings of a batch of tasks, and labels for some of the rows."""
    n_tasks, n_rows = draw(st.integers(1, 3)), draw(st.integers(3, 20))
    n_columns, width, n_labels = (draw(st.integers(1, high)) for high in (5, 4, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = torch.from_numpy(rng.standard_normal((n_tasks, n_rows, n_columns, width)))
    classes = torch.ones(n_tasks, n_labels, dtype=torch.bool)
    readable = torch.from_numpy(rng.random((n_tasks, n_rows)) < 0.8)
    labelled = readable & torch.from_numpy(rng.random((n_tasks, n_rows)) < 0.5)
    readable[:, 0] = labelled[:, 0] = True
    if task == "regression":
        labels = torch.from_numpy(rng.standard_normal((n_tasks, n_rows, n_labels)))
    else:
        labels = label_matrix(rng.integers(0, n_labels, (n_tasks, n_rows)), n_labels)
    return z, labels.masked_fill(~labelled[..., None], math.nan), classes, readable


def shaken(head, seed=0):
    """A head in double precision with other parameters than at initialisation."""
    head = head.double().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in head.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=generator).double()
    return head


def by_scikit_learn(head, kernel, z, labels):
    """Mean and covariance of scikit-learn's process with the same kernel."""
    rows, known = z.flatten(1).numpy(), ~labels.isnan().any(1).numpy()
    # While fitting, the noise is in alpha; predictions need it added.
    noise = head.noise().item()
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    process.fit(rows[known], labels.numpy()[known, 0])
    mean, cov = process.predict(rows, return_cov=True)
    return mean, cov + noise * np.eye(len(rows))


def predicted(head, context):
    """Return a context's embeddings, its first target, and the head's output for every row."""
    z, labels, classes, readable = context
    labels, classes = labels[..., :1], classes[:, :1]
    state = head.adapt(z, labels, classes, readable)
    return z, labels, *head(z, state).unbind(-1), head.covariance(z, state)


@pytest.mark.parametrize("kind", [GaussianProcess, LinearRegressor])
@given(drawn_contexts(), st.integers(0, 99))
def test_one_kernel_is_scikit_learns_gaussian_process(kind, context, seed):
    head = shaken(kind(n_kernels=1, length_scale=2.0), seed)
    amplitude, scale = head.log_amplitude.exp().item(), head.log_length_scale.exp().item()
    z, labels, mean, variance, cov = predicted(head, context)
    for b in range(len(z)):
        if kind is GaussianProcess:
            kernel, rows = ConstantKernel(amplitude) * RBF(scale), z[b]
        else:
            kernel, rows = ConstantKernel(amplitude) * DotProduct(1.0), z[b] / scale
        expected, expected_cov = by_scikit_learn(head, kernel, rows, labels[b])
        np.testing.assert_allclose(mean[b, :, 0], expected, atol=1e-6)
        np.testing.assert_allclose(cov[b, 0], expected_cov, atol=1e-6)
        np.testing.assert_allclose(variance[b, :, 0], np.diag(expected_cov), atol=1e-6)


@given(drawn_contexts(), st.integers(0, 99))
def test_kernel_of_embeddings_and_attributes_is_the_sum_of_three_of_scikit_learns(context, seed):
    head = shaken(AttributeGaussianProcess(n_kernels=1, length_scale=2.0), seed)
    amplitude, linear, direct = (
        getattr(head, f"log_{name}").exp().item() for name in ("amplitude", "linear", "direct")
    )
    z, labels, mean, variance, cov = predicted(head, context)
    for b in range(len(z)):
        embeddings, attributes = z[b, ..., :-1].flatten(1).numpy(), z[b, ..., -1].numpy()
        expected = linear * DotProduct(0.0)(attributes)
        expected += direct * RBF(head.log_direct_scale.exp().item())(attributes)
        # For embeddings of width one, the attributes are all there is.
        alike = RBF(head.log_length_scale.exp().item())
        expected += amplitude * (alike(embeddings) if embeddings.shape[1] else 1.0)
        noise, known = head.noise().item() * np.eye(len(expected)), ~labels[b, :, 0].isnan().numpy()
        weights = np.linalg.solve((expected + noise)[known][:, known], expected[known])
        own = expected - expected[:, known] @ weights + noise
        np.testing.assert_allclose(
            mean[b, :, 0], weights.T @ labels[b, :, 0].numpy()[known], atol=1e-6
        )
        np.testing.assert_allclose(cov[b, 0], own, atol=1e-6)
        np.testing.assert_allclose(variance[b, :, 0], np.diag(own), atol=1e-6)


@given(drawn_contexts(), st.integers(0, 99))
def test_several_kernels_are_weighed_by_their_evidence(context, seed):
    """The mixture equals processes with one kernel each, weighed by scikit-learn's likelihood."""
    head = shaken(GaussianProcess(n_kernels=3), seed)
    z, labels, classes, readable = context
    labels, classes = labels[..., :1], classes[:, :1]
    state = head.adapt(z, labels, classes, readable)
    found, cov = head(z, state), head.covariance(z, state)
    for b in range(len(z)):
        known = ~labels[b].isnan().any(1).numpy()
        rows = z[b].flatten(1).numpy()
        parts, log_weights = [], head.log_prior.numpy().copy()
        for k in range(3):
            kernel = ConstantKernel(head.log_amplitude[k].exp().item())
            kernel = kernel * RBF(head.log_length_scale[k].exp().item())
            noise = head.noise()[k].item()
            process = GaussianProcessRegressor(kernel + WhiteKernel(noise), optimizer=None, alpha=0)
            process.fit(rows[known], labels[b].numpy()[known, 0])
            log_weights[k] += process.log_marginal_likelihood_value_
            mean, own = process.predict(rows, return_cov=True)
            parts.append((mean, own))  # the white kernel's noise is included
        weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        mean = sum(w * m for w, (m, _) in zip(weights, parts))
        total = sum(w * (c + np.outer(m - mean, m - mean)) for w, (m, c) in zip(weights, parts))
        np.testing.assert_allclose(found[b, :, 0, 0], mean, atol=1e-6)
        np.testing.assert_allclose(found[b, :, 0, 1], np.diag(total), atol=1e-6)
        np.testing.assert_allclose(cov[b, 0], total, atol=1e-6)


@pytest.mark.parametrize("name", HEADS["regression"])
def test_sets_of_hyperparameters_are_read_a_few_at_a_time(name, monkeypatch):
    """For thousands of labelled rows the kernels of all sets would not fit into memory."""
    head = shaken(HEADS["regression"][name](n_kernels=5, noise=0.8))  # too noisy for copies
    sizes = []
    kernel = type(head).kernel_of
    monkeypatch.setattr(
        type(head), "kernel_of", lambda *args: sizes.append(len((k := kernel(*args))[0])) or k
    )
    z = torch.randn(2, 9, 3, 2, generator=torch.Generator().manual_seed(0)).double()
    labels, classes = z[..., :1, 0].clone(), torch.ones(2, 1, dtype=torch.bool)
    labels[:, 6:] = math.nan
    whole = head.joint(z, labels, classes, None)
    assert sizes == [5, 5]
    monkeypatch.setattr("sklearn_meta.heads.gaussian_process.AT_ONCE", 3 * (2 * 6 * 6))
    torch.testing.assert_close(head.joint(z, labels, classes, None), whole)
    # The predicted rows are nine; what is warped back has eight nodes for each of five powers.
    assert sizes[2:] == [3, 2] + ([1] * 5 if name == "gp_warped" else [2, 2, 1])


@pytest.mark.parametrize("name", HEADS["regression"])
@given(drawn_contexts(), st.integers(0, 99))
def test_the_mean_alone_is_that_of_mean_and_variance(name, context, seed):
    head = shaken(HEADS["regression"][name](n_kernels=5), seed)
    z, labels, classes, readable = context
    expected = head.joint(*context)[..., 0]
    for state in (head.adapt(*context), head.adapt_mean(z, labels, classes)):
        torch.testing.assert_close(head.mean(z, state), expected, rtol=0, atol=1e-9)


def test_sets_that_weigh_less_than_rounding_are_not_read(monkeypatch):
    """They change nothing: one of five has e^-60 of the posterior weight of the others."""
    head = shaken(GaussianProcess(n_kernels=5))
    z = torch.randn(1, 12, 3, 2, generator=torch.Generator().manual_seed(0)).double()
    labels, classes = z[..., :1, 0].clone(), torch.ones(1, 1, dtype=torch.bool)
    labels[:, 8:] = math.nan
    head.log_prior[2] -= 60
    read, kernel = [], GaussianProcess.kernel_of
    monkeypatch.setattr(
        GaussianProcess, "kernel_of", lambda *args: read.append(len((k := kernel(*args))[0])) or k
    )
    whole = head.joint(z, labels, classes, None)
    assert read == [5, 4]
    monkeypatch.setattr(head, "_sets_in_use", lambda state: torch.arange(5))
    torch.testing.assert_close(head.joint(z, labels, classes, None), whole, rtol=0, atol=1e-12)


@given(drawn_contexts("classification"), st.integers(0, 99))
def test_label_propagation_is_its_closed_form(context, seed):
    head = shaken(LabelPropagation(length_scale=2.0), seed)
    scale, alpha = head.log_length_scale.exp().item(), head.logit_alpha.sigmoid().item()
    found = head.joint(*context).exp()
    for b, (z, labels, _, readable) in enumerate(zip(*context)):
        rows, Y = z.flatten(1).numpy()[readable], labels.numpy()[readable]
        W = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / (2 * scale**2))
        np.fill_diagonal(W, 0)
        if len(rows) < 2:
            continue
        S = W / np.sqrt(np.outer(W.sum(0), W.sum(0)))
        F = np.linalg.inv(np.eye(len(rows)) - alpha * S) @ np.nan_to_num(Y)
        unlabelled = np.isnan(Y).all(1)
        expected = (F / F.sum(1, keepdims=True))[unlabelled]
        np.testing.assert_allclose(found[b][readable][unlabelled], expected, atol=1e-6)


def test_labels_spread_along_a_chain_of_rows_that_lie_far_apart():
    """Kernels between rows underflow to zero, and yet each row has a nearest one."""
    z = torch.tensor([0.0, 1.0, 100.0, 160.0, 220.0])[None, :, None, None]
    labels = label_matrix(torch.tensor([[0, 0, 1, -1, -1]]), 2, torch.float32)
    whole = torch.ones(1, 5, dtype=torch.bool)
    head, far = LabelPropagation(), torch.full((1, 1, 1, 1), 400.0)
    found = head.joint(z, labels, whole[:, :2], whole).softmax(-1)
    assert found[0, 3:, 1].min() > 0.9
    later = head(far, head.adapt(z, labels, whole[:, :2], whole)).softmax(-1)
    assert later[0, 0, 1] > 0.9


def test_label_propagation_begins_as_it_is_told():
    for head, scale, alpha in (
        (LabelPropagation(), 1.0, 0.9),
        (LabelPropagation(**LabelPropagation(length_scale=2.0, alpha=0.7).config), 2.0, 0.7),
    ):
        assert head.log_length_scale.exp().item() == pytest.approx(scale)
        assert head.logit_alpha.sigmoid().item() == pytest.approx(alpha)


@given(drawn_contexts("classification"), st.integers(0, 99))
def test_linear_classifier_is_ridge_regression(context, seed):
    head = shaken(LinearClassifier(), seed)
    logits = head.joint(*context) / head.log_scale.exp()
    for b, (z, labels, _, readable) in enumerate(zip(*context)):
        known = ~labels.isnan().any(1).numpy()
        rows = z.flatten(1).numpy()
        code = labels.numpy()[known].argmax(1)
        present = np.unique(code)
        if len(present) < 2:
            continue
        power = ((rows[readable] - rows[known].mean(0)) ** 2).sum(1).mean()
        ridge = RidgeClassifier(alpha=head.log_penalty.exp().item() * power)
        score = ridge.fit(rows[known], code).decision_function(rows)  # for labels of -1 and 1
        if len(present) == 2:
            score = np.column_stack([-score, score])
        np.testing.assert_allclose(logits[b][:, present], (score + 1) / 2, atol=1e-6)
        assert torch.isneginf(logits[b][:, np.setdiff1d(np.arange(labels.shape[1]), present)]).all()


def test_labelled_rows_that_lie_close_together_do_not_make_linear_logits_large():
    z = torch.randn(1, 20, 3, 2)
    z[0, :4] = z[0, :1] + 1e-6 * z[0, :4]
    labels = torch.full((1, 20, 2), math.nan)
    labels[0, :4] = torch.eye(2).repeat(2, 1)
    whole = torch.ones(1, 20, dtype=torch.bool)
    assert LinearClassifier().joint(z, labels, whole[:, :2], whole).abs().max() < 10


def test_noise_begins_between_what_is_given_and_all_of_a_targets_variance():
    head = GaussianProcess(n_kernels=5, noise=0.01, jitter=0.0).double()
    np.testing.assert_allclose(head.noise().detach(), 10 ** np.linspace(-2, 0, 5), rtol=1e-6)
    jittered = GaussianProcess(n_kernels=5, noise=0.01, jitter=0.5).double()
    jittered.log_amplitude.data += math.log(3)  # the unit of the jitter
    torch.testing.assert_close(jittered.noise(), head.noise() + 1.5)


@pytest.mark.parametrize("name", ["length_scale", "noise"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, "1"])
def test_kernels_begin_with_positive_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive number, got {value!r}"):
        GaussianProcess(**{name: value})


@given(drawn_contexts(), st.integers(0, 99))
def test_every_target_counts_in_the_evidence(context, seed):
    """Likelihoods of independent targets are multiplied; the prior counts once."""
    head = shaken(GaussianProcess(n_kernels=3), seed)
    z, labels, classes, readable = context
    expected = head.log_prior.log_softmax(0)
    for c in range(labels.shape[2]):
        one = head.adapt(z, labels[..., c : c + 1], classes[:, :1], readable)[3]
        expected = expected + one - head.log_prior
    found = head.adapt(z, labels, classes, readable)[3]
    torch.testing.assert_close(found, expected.log_softmax(-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("task", "name"), ALL)
def test_a_task_without_labelled_rows_leaves_the_gradient_of_its_batch_finite(task, name):
    torch.manual_seed(0)
    head = HEADS[task][name]()
    z = torch.randn(2, 9, 3, 2, requires_grad=True)
    labels = torch.full((2, 9, 2), math.nan)
    labels[0, :4] = torch.eye(2).repeat(2, 1)
    whole = torch.ones(2, 9, dtype=torch.bool)
    target = torch.zeros(2, 9, 2) if task == "regression" else whole.long()
    target[1] = math.nan if task == "regression" else -100
    head.loss(head.joint(z, labels, whole[:, :2], whole), target).backward()
    assert all(t.grad.isfinite().all() for t in (z, *head.parameters()))
    assert z.grad[0].any()


def test_the_head_that_reads_attributes_is_given_them():
    learner = partial(Learner, head="gp_attributes", task="regression")
    assert learner("vsa").backbone.config["attributes"]
    assert not learner("vsa", head="gp").backbone.config["attributes"]
    for backbone, config in [("vsa", {"attributes": False}), ("deep_sets", {}), (VSA(), {})]:
        with pytest.raises(ValueError, match="needs a backbone that passes the attributes on"):
            learner(backbone, backbone_config=config)
    assert learner(VSA(attributes=True)).head


@pytest.mark.parametrize(("task", "name"), ALL)
@given(st.data())
@settings(max_examples=10)
def test_padding_and_batch_change_nothing_and_state_serves_later_rows(task, name, data):
    head = shaken(HEADS[task][name]())
    z, labels, classes, readable = data.draw(drawn_contexts(task))
    readable |= True  # all of the context is readable; later rows are read by none
    state = head.adapt(z, labels, classes, readable)
    new = torch.randn(len(z), 4, *z.shape[2:], generator=torch.Generator().manual_seed(0)).double()
    later = head(new, state)
    pad = torch.nn.functional.pad
    both = pad(torch.cat([z, new], 1), (0, 0, 0, 2))
    grown = pad(labels, (0, 1, 0, 4), value=math.nan)
    joint = head.joint(both, grown, pad(classes, (0, 1)), pad(readable, (0, 4)))
    kept = joint[:, -4:, : classes.shape[1]]
    torch.testing.assert_close(kept, later, rtol=0, atol=1e-8)
    for b in range(len(z)):
        one = [tensor[b : b + 1] for tensor in (z, labels, classes, readable)]
        alone = head(new[b : b + 1], head.adapt(*one))[0]
        torch.testing.assert_close(alone, later[b], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("task", "name"), ALL)
def test_heads_are_exact_under_autocast(task, name):
    torch.manual_seed(0)
    head = HEADS[task][name]().requires_grad_(False)
    z, labels = 10 + torch.randn(1, 12, 3, 2), torch.eye(2).repeat(1, 6, 1)
    labels[:, 6:] = math.nan
    whole = torch.ones(1, 12, dtype=torch.bool)
    plain = head.joint(z, labels, whole[:, :2], whole)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.joint(z, labels, whole[:, :2], whole)
    torch.testing.assert_close(found, plain)
    of_doubles = head.joint(z, labels.double(), whole[:, :2], whole)
    torch.testing.assert_close(of_doubles, plain)  # in the head's precision


@pytest.mark.parametrize("name", ["gp", "label_propagation"])
def test_padding_costs_no_digits_where_embeddings_lie_far_out(name):
    """Distances are taken around the real rows, while padding is at zero, however far that is."""
    torch.manual_seed(0)
    task = "regression" if name == "gp" else "classification"
    head = HEADS[task][name]().requires_grad_(False)
    far, labels = 1e3 + torch.randn(2, 8, 2, 3), torch.eye(2).repeat(2, 4, 1)
    labels[:, 5:] = labels[1, 1:] = math.nan
    classes, readable = torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 8, dtype=torch.bool)
    grown = torch.nn.functional.pad(far, (0, 0, 0, 0, 0, 40))
    with_gaps = torch.nn.functional.pad(labels, (0, 0, 0, 40), value=math.nan)
    told = head.joint(grown, with_gaps, classes, torch.nn.functional.pad(readable, (0, 40)))
    for b in range(2):  # the second has fewer labels, hence padding among the labelled rows
        one = [tensor[b : b + 1] for tensor in (far, labels, classes, readable)]
        torch.testing.assert_close(told[b : b + 1, :8], head.joint(*one), rtol=0, atol=1e-3)


def test_a_matrix_that_rounding_made_indefinite_is_mended_and_the_others_are_left():
    # Of rank three up to rounding: eigenvalues a little below zero.
    z = 1e3 * torch.randn(2, 9, 3)
    singular = z @ z.transpose(1, 2) - 0.5 * torch.eye(9)
    definite = torch.eye(9)[None] + 0.1
    assert (torch.linalg.cholesky_ex(singular).info > 0).all()
    factor = factorise(torch.cat([singular, definite]))
    torch.testing.assert_close(factor[2:], torch.linalg.cholesky(definite), rtol=0, atol=0)
    again = factor[:2] @ factor[:2].transpose(1, 2)
    largest = singular.diagonal(dim1=1, dim2=2).amax()
    torch.testing.assert_close(again, singular, rtol=0, atol=2e-4 * largest.item())
    for bad in (torch.full((3, 3), torch.nan), -torch.eye(3)):
        with pytest.raises(ValueError, match="not positive definite.*lower the learning rate"):
            factorise(bad)


@pytest.mark.parametrize(("task", "name"), ALL)
def test_gradients_reach_everything_and_are_finite_with_equal_rows(task, name):
    head = HEADS[task][name]()
    z = torch.randn(2, 8, 3, 2).repeat_interleave(2, dim=1).requires_grad_()
    y = torch.arange(16) // 2 % 2
    labels = label_matrix(torch.where(torch.arange(16) < 6, y, -1).expand(2, -1), 2, torch.float32)
    classes, readable = torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 16, dtype=torch.bool)
    target = torch.where(torch.arange(16) < 6, -100, y).expand(2, -1)
    if task == "regression":
        target = torch.where(target < 0, math.nan, target.float())[..., None].expand(-1, -1, 2)
    loss = head.loss(head.joint(z, labels, classes, readable), target)
    loss.backward()
    gradients = [z.grad, *(parameter.grad for parameter in head.parameters())]
    assert all(g is not None and g.isfinite().all() for g in gradients)
    assert z.grad.any()


def test_loss_and_score_of_regression():
    """Mean over a task's asked rows, then over tasks."""
    mean, variance = torch.randn(2, 4, 1), torch.rand(2, 4, 1) + 0.1
    target = torch.tensor([[math.nan, 1.0, 2.0, math.nan], [0.5] + [math.nan] * 3])[..., None]
    density = -torch.distributions.Normal(mean, variance.sqrt()).log_prob(target.nan_to_num())
    expected = ((density[0, 1] + density[0, 2]) / 2 + density[1, 0]) / 2
    output = torch.stack([mean, variance], -1)
    torch.testing.assert_close(RegressionHead.loss(output, target), expected[0])
    error = (mean - target).square()[..., 0]
    score = torch.stack([(error[0, 1] + error[0, 2]) / 2, error[1, 0]])
    torch.testing.assert_close(RegressionHead.score(output, target), score)


@pytest.mark.parametrize(("task", "name"), ALL)
@pytest.mark.parametrize("labelled", [False, True])
def test_a_row_far_from_all_others_leaves_the_gradient_finite(task, name, labelled):
    """At every distance: those where a kernel is just not zero are as dangerous as larger ones."""
    torch.manual_seed(0)
    distances = torch.logspace(0, 5, 150)
    labels = torch.full((150, 20, 2), math.nan)
    labels[:, :4] = torch.eye(2).repeat(2, 1)
    whole = torch.ones(150, 20, dtype=torch.bool)
    z = torch.randn(20, 2, 2).repeat(150, 1, 1, 1)  # a task for each distance
    z[:, 0 if labelled else -1] = distances[:, None, None]
    z.requires_grad_()
    head = HEADS[task][name]()
    told = head.joint(z, labels, whole[:, :2], whole)
    target = torch.zeros(150, 20, 2) if task == "regression" else whole.long()
    head.loss(told, target).backward()
    assert z.grad.isfinite().all(), distances[~z.grad.isfinite().all((1, 2, 3))]
    assert all(p.grad is None or p.grad.isfinite().all() for p in head.parameters())
