"""Refined prototypes: their steps written out, and what rows and attributes may change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from labels import label_matrix
from test_heads import context, drawn_batches, predict, probabilities

from sklearn_meta.heads import HEADS, Prototypes, RefinedPrototypes


def written_out(z, y, n_classes, temperature, weight, shrinkage):
    """Probabilities for one task: (N, M, H), (N,) to (N, C), a sum for every formula."""
    shares = probabilities(z.reshape(len(z), -1), y, n_classes, temperature)
    counts = np.where(y[:, None] >= 0, y[:, None] == np.arange(n_classes), weight * shares)
    known = np.unique(y[y >= 0])
    means = {c: np.tensordot(counts[:, c], z, 1) / counts[:, c].sum() for c in known}  # (M, H)
    within = sum(counts[n, c] * (z[n] - means[c]) ** 2 for n in range(len(z)) for c in known)
    within = within.sum(axis=-1)  # (M,)
    n_free = max(counts.sum() - len(known), 0)
    ratio = within / within.mean() if n_free else 0
    factor = (n_free + shrinkage) / (n_free * ratio + shrinkage) * np.ones(z.shape[1])
    logits = np.full((len(z), n_classes), -np.inf)
    for c in known:
        logits[:, c] = -temperature * (((z - means[c]) ** 2).sum(-1) * factor).sum(-1)
    result = np.exp(logits - logits.max(axis=1, keepdims=True))
    return result / result.sum(axis=1, keepdims=True)


def head_of(log_temperature=0.0, **settings):
    head = RefinedPrototypes(**settings).double()
    head.log_temperature.data.fill_(log_temperature)
    return head


factors = {"weight": st.floats(0.05, 2), "shrinkage": st.floats(0.5, 10)}


@given(drawn_batches(), st.floats(-2, 1), st.fixed_dictionaries(factors))
def test_probabilities_are_those_of_the_formulas(batch, log_temperature, settings):
    z, y, classes = batch
    found = predict(head_of(log_temperature, **settings), z, y, classes)
    for b in range(2):
        expected = written_out(
            z[b].numpy(), y[b].numpy(), classes.shape[1], np.exp(log_temperature), **settings
        )
        np.testing.assert_allclose(found[b], expected, rtol=0, atol=1e-10)


@given(drawn_batches())
def test_where_nothing_is_to_be_read_they_are_those_of_equation_9(batch):
    """No unlabelled row refines a mean, and one labelled row a class leaves no variance."""
    z, _, classes = batch
    y = torch.arange(z.shape[1]).expand(2, -1)
    y = torch.where(y < classes.shape[1], y, -1)
    state = (label_matrix(y, classes.shape[1]), classes, y >= 0)
    found, plain = (h.joint(z, *state).softmax(-1) for h in (head_of(), Prototypes().double()))
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-10)


@given(drawn_batches())
def test_many_rows_of_shrinkage_and_no_unlabelled_ones_are_equation_9(batch):
    z, y, classes = batch
    y = y.clamp(min=0)
    found = predict(head_of(shrinkage=1e12), z, y, classes)
    plain = predict(Prototypes().double(), z, y, classes)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-8)


@given(drawn_batches())
def test_rows_that_may_not_be_read_refine_nothing(batch):
    """Rows outside the context, such as padding, get an answer and leave the others alone."""
    z, y, classes = batch
    head, outside = head_of(), torch.randn(2, 3, *z.shape[2:], dtype=torch.float64)
    labels, _, readable = context(y, classes)
    more = label_matrix(torch.full((2, 3), -1), classes.shape[1])
    longer = head.joint(
        torch.cat([z, outside], dim=1),
        torch.cat([labels, more], dim=1),
        classes,
        torch.cat([readable, torch.zeros(2, 3, dtype=torch.bool)], dim=1),
    )
    state = head.adapt(z, labels, classes, readable)
    at_once = torch.cat([head(z, state), head(outside, state)], dim=1)
    torch.testing.assert_close(longer, at_once, rtol=0, atol=1e-10)


@given(drawn_batches())
def test_padded_attributes_and_classes_change_nothing(batch):
    z, y, classes = batch
    padded = torch.cat([z, z.new_zeros(*z.shape[:2], 2, z.shape[3])], dim=2)
    more = torch.cat([classes, torch.zeros(2, 1, dtype=torch.bool)], dim=1)
    found = predict(head_of(), padded, y, more)
    np.testing.assert_array_equal(found[..., -1], 0)
    np.testing.assert_allclose(
        found[..., :-1], predict(head_of(), z, y, classes), rtol=0, atol=1e-10
    )


@given(drawn_batches(), st.randoms())
def test_rows_attributes_and_classes_may_be_shuffled(batch, random):
    z, y, classes = batch
    rows, columns, names = (list(range(n)) for n in (*z.shape[1:3], classes.shape[1]))
    for order in (rows, columns, names):
        random.shuffle(order)
    renamed = torch.where(y < 0, y, torch.tensor(names)[y.clamp(min=0)])
    found = predict(head_of(), z, y, classes)
    shuffled = predict(head_of(), z[:, rows][:, :, columns], renamed[:, rows], classes)
    np.testing.assert_allclose(shuffled[..., names], found[:, rows], rtol=0, atol=1e-10)


def test_a_cluster_without_labels_moves_the_border():
    """Labels at 0 and 10, unlabelled rows around 0 and around 6: 4.5 is of the second class."""
    z = torch.tensor([0.0, 10.0, *[0.0] * 10, *[6.0] * 10, 4.5], dtype=torch.float64)
    y = torch.tensor([[0, 1, *[-1] * 21]])
    classes = torch.ones(1, 2, dtype=torch.bool)
    labelled_only = predict(Prototypes().double(), z.view(1, -1, 1, 1), y, classes)
    refined = predict(head_of(weight=1.0), z.view(1, -1, 1, 1), y, classes)
    assert labelled_only[0, -1].argmax() == 0 and refined[0, -1].argmax() == 1


def test_an_attribute_that_scatters_within_the_classes_counts_less():
    """The first says 0 or 1 of a class, the second anything from -2 to 2; they disagree."""
    scattered = np.tile([-2.0, 2.0], 10)
    z = np.column_stack([np.repeat([0.0, 1.0], 10), np.where(np.arange(20) < 10, 0.6, -0.6)])
    z = torch.from_numpy(np.vstack([z + np.column_stack([0 * scattered, scattered]), [[0.0, -1.0]]]))
    y = torch.tensor([[*[0] * 10, *[1] * 10, -1]])
    classes = torch.ones(1, 2, dtype=torch.bool)
    plain = predict(Prototypes().double(), z.view(1, 21, 2, 1), y, classes)
    weighed = predict(head_of(), z.view(1, 21, 2, 1), y, classes)
    assert plain[0, -1].argmax() == 1 and weighed[0, -1].argmax() == 0


@pytest.mark.parametrize("n_labelled", [2, 3, 12])
def test_gradients_are_finite(n_labelled):
    z = torch.randn(1, 12, 2, 3, requires_grad=True)
    # Class 1 has no row, class 3 is padding; with two labelled rows nothing scatters.
    y = torch.tensor([[0, 2, 2, *[-1] * 9]])
    classes = torch.tensor([[True, True, True, False]])
    head = RefinedPrototypes()
    labels, _, _ = context(y, classes)
    readable = torch.arange(12)[None] < n_labelled
    labels = labels.masked_fill(~readable[..., None], np.nan)
    logits = head.joint(z, labels, classes, readable)
    torch.nn.functional.cross_entropy(logits[0, 3:], torch.tensor([0, 2] * 4 + [0])).backward()
    assert z.grad.isfinite().all() and z.grad.any()
    assert head.log_temperature.grad.isfinite() and head.log_temperature.grad != 0


def test_only_the_temperature_is_learned():
    head = RefinedPrototypes()
    assert [name for name, _ in head.named_parameters()] == ["log_temperature"]
    assert head.config == {"temperature": "learned", "weight": 0.05, "shrinkage": 6.0}
    assert HEADS["classification"]["refined_prototypes"] is RefinedPrototypes


@pytest.mark.parametrize("name", ["weight", "shrinkage"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_factors_are_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive, got {value}"):
        RefinedPrototypes(**{name: value})
