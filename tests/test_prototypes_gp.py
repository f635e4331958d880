"""Prototypes and a Gaussian process side by side: their outputs, and the weights of each."""

import math
from fnmatch import fnmatch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from labels import label_matrix
from sklearn.preprocessing import StandardScaler
from test_regression_heads import drawn_contexts, shaken

from sklearn_meta.backbones import VSA, VSAPair
from sklearn_meta.heads import PrototypesGP
from sklearn_meta.heads.prototypes_gp import LEAST_SHARE, SHARPNESS
from sklearn_meta.label_columns import standardise_labels
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import collate, context_task


@given(drawn_contexts("classification"), st.integers(0, 99))
def test_it_is_the_mean_of_the_log_probabilities_of_both(context, seed):
    """The process reads scikit-learn's standardised indicators; labels per class set the weight."""
    head = shaken(PrototypesGP(n_kernels=1, even_at=3.0), seed)
    z, labels, classes, readable = context
    found = head.joint(*context)
    of_prototypes = head.prototypes.joint(*context)
    state = head.process.adapt(z, labels, classes, readable)
    kernel = head.process.kernel_of(head.process.compare(z, z))[:, 0].numpy()
    assert state[0].shape[2:] == z.shape[2:]
    for b in range(len(z)):
        known = ~labels[b].isnan().any(1).numpy()
        indicators = labels[b].numpy()[known]
        present = indicators.any(0)
        scaler = StandardScaler().fit(indicators)  # leaves constants at zero
        noisy = kernel[b][np.ix_(known, known)] + head.process.noise().item() * np.eye(known.sum())
        mean = kernel[b][:, known] @ np.linalg.solve(noisy, scaler.transform(indicators))
        shares = np.where(scaler.var_ > 0, scaler.inverse_transform(mean), scaler.mean_)
        sharpness = SHARPNESS * present.sum()
        shares = np.logaddexp(0, sharpness * shares) / sharpness + LEAST_SHARE / present.sum()
        shares = shares[:, present] / shares[:, present].sum(1, keepdims=True)
        n = indicators.sum(0)[present]
        weight = (n / (n + head.log_even_at.exp().item())).mean()
        ours = of_prototypes[b][:, present].log_softmax(-1).numpy()
        expected = (1 - weight) * ours + weight * np.log(shares)
        np.testing.assert_allclose(found[b][:, present], expected, rtol=0, atol=1e-6)
        assert torch.isneginf(found[b][:, ~present]).all()


@given(drawn_contexts("classification"), st.integers(1, 3))
def test_classes_without_a_row_change_nothing(context, n_more):
    head = shaken(PrototypesGP(n_kernels=3))
    z, labels, classes, readable = context
    more = torch.nn.functional.pad(labels, (0, n_more))  # padded as batches are: 0, or NaN
    more[labels.isnan().all(-1)] = math.nan
    found = head.joint(z, more, torch.nn.functional.pad(classes, (0, n_more), value=True), readable)
    expected = head.joint(*context)
    torch.testing.assert_close(found[..., : labels.shape[2]], expected, rtol=0, atol=1e-9)
    assert torch.isneginf(found[..., labels.shape[2] :]).all()


@given(st.integers(1, 4), st.integers(1, 12), st.floats(0.1, 50))
def test_the_process_weighs_more_the_more_labels_a_class_has(n_classes, n_shots, even_at):
    head = PrototypesGP(even_at=even_at).double()
    y = torch.arange(n_classes).repeat(n_shots + 1)[None]
    y[:, -n_classes:] = -1
    z = torch.randn(1, y.shape[1], 3, 2, dtype=torch.float64)
    readable, classes = torch.ones_like(y, dtype=torch.bool), torch.ones(1, n_classes + 2) > 0
    weight = head.adapt(z, label_matrix(y, n_classes + 2), classes, readable)[-1]
    assert weight.item() == pytest.approx(n_shots / (n_shots + even_at))


def test_a_class_of_many_labels_is_not_taken_for_all():
    head = PrototypesGP().double()
    y = torch.tensor([[0] * 40 + [1]])
    z = torch.randn(1, 41, 3, 2, dtype=torch.float64)
    inputs = label_matrix(y, 2), torch.ones(1, 2) > 0, torch.ones_like(y) > 0
    assert head.adapt(z, *inputs)[-1].item() == pytest.approx((40 / 50 + 1 / 11) / 2)


@given(drawn_contexts("regression"))
def test_labels_are_standardised_by_those_there_are(context):
    _, labels, classes, _ = context
    labels = labels * 7 + 3
    labels[:, :, -1] = torch.where(labels[:, :, -1].isnan(), math.nan, 0.3)  # a single value
    found = standardise_labels(labels, classes)
    for b, rows in enumerate(labels):
        known = ~rows.isnan().any(1)
        scaler = StandardScaler().fit(rows[known])
        np.testing.assert_allclose(found.mean[b, 0], scaler.mean_)
        varied = scaler.var_ > 1e-20
        np.testing.assert_array_equal(found.varied[b], varied)
        np.testing.assert_allclose(found.scale[b, 0], np.where(varied, scaler.var_**0.5, 1))
        expected = np.where(varied, scaler.transform(rows[known]), 0)
        np.testing.assert_allclose(found.labels[b, known], expected, atol=1e-9)
        assert found.labels[b, ~known].isnan().all()


def pair(**second):
    config = {"first": {"width": 8, "last_width": 3}, "second": {"width": 8, **second}}
    learner = Learner("vsa_pair", "prototypes_gp", backbone_config=config).requires_grad_(False)
    torch.nn.init.normal_(learner.backbone.second.gate[-1].weight)  # it is initialised with zeros
    return learner


def task(n_classes=3, n_rows=30):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n_rows) < 15, np.arange(n_rows) % n_classes, -1)
    X = rng.standard_normal((n_rows, 4))
    return collate([context_task(X, y, n_classes)])[0]


def test_each_reads_what_it_is_made_for():
    """Prototypes read the first network alone, the process reads the second alone."""
    learner, inputs = pair(), task()
    labelled = [inputs[name] for name in ("labels", "classes", "readable")]
    z = learner.backbone(**inputs)[0]
    first, second = z[..., :3], z[..., 3:]
    assert learner.head.widths == (3, 9) and z.shape[-1] == 12
    alone = learner.backbone.first(**inputs)[0]
    assert torch.equal(first, alone)
    standard = standardise_labels(inputs["labels"], inputs["classes"])
    as_targets = {**inputs, "labels": standard.labels}
    assert torch.equal(second, learner.backbone.second(**as_targets)[0])
    of_prototypes, of_process, *_ = learner.head.adapt(z, *labelled)
    assert torch.equal(of_prototypes[0], learner.head.prototypes.adapt(first, *labelled)[0])
    expected = learner.head.process.adapt(second, standard.labels, *labelled[1:])
    assert of_process[1] is None  # the factors
    for part in (0, 2, 3, 4):
        assert torch.equal(of_process[part], expected[part])


def test_of_classes_in_groups_each_reads_all_groupings():
    """Attributes are read once, with the weights of the first grouping."""
    learner, inputs = pair(), task(n_classes=12)
    z, _ = learner.embed(**inputs)
    assert z.shape[-1] == 24
    first, second = learner.head._readings(z)
    assert torch.equal(first, torch.cat([z[..., :3], z[..., 12:15]], -1))
    assert not torch.equal(z[..., 11], z[..., 23])
    assert torch.equal(second, torch.cat([z[..., 3:11], z[..., 15:23], z[..., 11:12]], -1))


def test_there_must_be_two_readings():
    for backbone in ("vsa", "deep_sets", VSA(attributes=True)):
        with pytest.raises(
            ValueError, match="needs backbone='vsa_pair', which reads rows twice; head='prot"
        ):
            Learner(backbone, "prototypes_gp")
    again = pair()
    assert Learner(**again.config).config == again.config
    assert Learner(VSAPair(), "prototypes_gp").head.widths == (8, 9)


def test_kernels_learn_at_their_own_rate_and_the_temperature_does_not():
    factors = pair().rate_factors
    rate = {}
    for name, _ in pair().named_parameters():
        matching = [factor for pattern, factor in factors.items() if fnmatch(name, pattern)]
        rate[name] = matching[0] if matching else 1.0
    assert {n for n, r in rate.items() if r == 30} == {n for n in rate if ".process." in n}
    assert {r for n, r in rate.items() if ".process." not in n} == {1.0}
    assert Learner().rate_factors == {"head.*": 1.0}
    assert Learner(head="gp", task="regression").rate_factors == {"head.*": 30.0}


def test_where_both_weigh_the_same_is_a_positive_number_and_learned():
    assert PrototypesGP(even_at=4.0).log_even_at.exp().item() == pytest.approx(4.0)
    assert PrototypesGP().log_even_at.requires_grad
    with pytest.raises(ValueError, match="even_at must be a positive number, got 0"):
        PrototypesGP(even_at=0)


@pytest.mark.parametrize("n_rows", [3, 10, 13])
def test_labels_that_differ_from_their_mean_by_rounding_do_not_vary(n_rows):
    found = standardise_labels(torch.full((1, n_rows, 1), 0.1), torch.ones(1, 1) > 0)
    assert not found.varied.any() and not found.labels.any() and found.scale.item() == 1


def test_gradients_are_finite_where_a_class_has_no_label():
    """Most tasks of a batch have fewer classes than the largest."""
    head = PrototypesGP()
    z = torch.randn(2, 6, 2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = label_matrix([[0, 0, 2, -1, -1, -1], [0, 1, 0, 1, -1, -1]], 3, torch.float32)
    classes = torch.tensor([[True, True, True], [True, True, False]])
    logits = head.joint(z, labels, classes, torch.ones(2, 6) > 0)
    head.loss(logits, torch.tensor([[-100] * 3 + [0, 2, 0], [-100] * 4 + [1, 0]])).backward()
    learned = [z, *head.parameters()]
    assert all(p.grad.isfinite().all() for p in learned) and head.log_even_at.grad != 0
