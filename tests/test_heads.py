"""Prototypes follow Eq. (9) of paper 000, written out, and leave classes without labels out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from labels import label_matrix

from sklearn_meta.heads import HEADS, LabelPropagation, LinearClassifier, Prototypes
from sklearn_meta.means import class_means


def probabilities(z, y, n_classes, temperature=1.0):
    """Eq. (9) with squared distances for one task: (N, H), (N,) to (N, C)."""
    result = np.zeros((len(z), n_classes))
    for c in np.unique(y[y >= 0]):
        mean = z[y == c].mean(axis=0)
        for n in range(len(z)):
            result[n, c] = np.exp(-temperature * ((z[n] - mean) ** 2).sum())
    return result / result.sum(axis=1, keepdims=True)


def predict(head, z, y, classes):
    with torch.no_grad():
        return head.joint(z, *context(y, classes)).softmax(-1).numpy()


def context(y, classes):
    """The labels, classes and readable rows that ``adapt`` takes; all rows are readable."""
    return label_matrix(y, classes.shape[1]), classes, torch.ones(y.shape, dtype=torch.bool)


@st.composite
def drawn_batches(draw):
    """Embeddings of two tasks, and labels that need not name every class."""
    n_rows, n_columns = draw(st.integers(2, 25)), draw(st.integers(1, 6))
    width, n_classes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = torch.from_numpy(rng.standard_normal((2, n_rows, n_columns, width)))
    y = rng.integers(-1, n_classes, (2, n_rows))
    y[:, 0] = rng.integers(0, n_classes, 2)  # at least one label
    return z, torch.from_numpy(y), torch.ones(2, n_classes, dtype=torch.bool)


@given(drawn_batches(), st.floats(-2, 2))
def test_probabilities_are_equation_9(batch, log_temperature):
    z, y, classes = batch
    head = Prototypes().double()
    head.log_temperature.data.fill_(log_temperature)
    found = predict(head, z, y, classes)
    for b in range(2):
        flat, temperature = z[b].flatten(1).numpy(), np.exp(log_temperature)
        expected = probabilities(flat, y[b].numpy(), classes.shape[1], temperature)
        np.testing.assert_allclose(found[b], expected, rtol=0, atol=1e-10)


@given(drawn_batches())
def test_state_of_the_context_serves_rows_seen_later(batch):
    z, y, classes = batch
    head = Prototypes().double()
    new = torch.randn(2, 4, *z.shape[2:], dtype=torch.float64)
    both, unlabelled = torch.cat([z, new], dim=1), torch.full((2, 4), -1)
    later = head(new, head.adapt(z, *context(y, classes)))
    at_once = head(both, head.adapt(both, *context(torch.cat([y, unlabelled], dim=1), classes)))
    torch.testing.assert_close(later, at_once[:, -4:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", [Prototypes, LabelPropagation, LinearClassifier])
def test_a_class_without_label_and_a_padded_class_have_probability_zero(kind):
    z = torch.randn(1, 5, 2, 3, dtype=torch.float64)
    y = torch.tensor([[0, 2, 3, -1, -1]])
    classes = torch.tensor([[True, True, True, False]])  # class 1 has no row, class 3 is padding
    found = predict(kind().double(), z, y, classes)
    np.testing.assert_array_equal(found[..., [1, 3]], 0)
    assert (found[..., [0, 2]] > 0).all()
    np.testing.assert_allclose(found.sum(-1), 1)


def test_gradients_are_finite_with_a_class_without_label():
    z = torch.randn(1, 6, 2, 3, requires_grad=True)
    y = torch.tensor([[0, 0, 2, -1, -1, -1]])
    head = Prototypes()
    logits = head.joint(z, *context(y, torch.tensor([[True, True, True, False]])))
    target = torch.tensor([0, 2, 0])
    torch.nn.functional.cross_entropy(logits[0, 3:], target).backward()
    assert z.grad.isfinite().all() and z.grad.any()
    assert head.log_temperature.grad.isfinite() and head.log_temperature.grad != 0


def test_temperature_is_learned_or_fixed():
    learned, fixed = Prototypes(), Prototypes(temperature="fixed")
    assert learned.log_temperature.requires_grad and not fixed.log_temperature.requires_grad
    assert learned.log_temperature == fixed.log_temperature == 0  # both start at Eq. (9) itself
    assert (learned.config, fixed.config) == (
        {"temperature": "learned"},
        {"temperature": "fixed"},
    )
    assert HEADS["classification"]["prototypes"] is Prototypes
    with pytest.raises(ValueError, match="'learned' or 'fixed', got 'warm'"):
        Prototypes(temperature="warm")


def test_near_prototypes_are_told_apart_far_from_the_origin():
    """Differences of large squared distances lose small ones: no NaN, and the right class."""
    z = 1e4 + torch.tensor([0.0, 1.0, 0.2, 0.9], dtype=torch.float64).view(1, 4, 1, 1)
    y = torch.tensor([[0, 1, -1, -1]])
    found = predict(Prototypes().double(), z, y, torch.ones(1, 2, dtype=torch.bool))[0]
    expected = probabilities(z[0, :, 0].numpy(), y[0].numpy(), 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_distances_are_exact_in_single_precision_and_under_autocast(precision):
    z = 1000 + torch.rand(1, 4, 1, 3, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[0, 1, -1, -1]])
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
        found = predict(Prototypes(), z, y, torch.ones(1, 2, dtype=torch.bool))[0]
    expected = probabilities(z[0, :, 0].double().numpy(), y[0].numpy(), 2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_means_of_classes_are_in_full_precision_under_autocast():
    rows = 100 + torch.rand(1, 50, 4, generator=torch.Generator().manual_seed(0))
    labels = label_matrix(torch.arange(50)[None] % 3 - 1, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        means = class_means(rows, labels)
    expected = [rows[0, k + 1 :: 3].mean(0) for k in range(2)]
    torch.testing.assert_close(means[0, :2], torch.stack(expected))
    assert not means[0, 2].any()  # it has no row


def test_padded_classes_cost_no_digits_where_embeddings_lie_far_out():
    z = 1000 + torch.rand(1, 4, 1, 3, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[0, 1, -1, -1]])
    found = predict(Prototypes(), z, y, torch.arange(60)[None] < 2)[0]
    expected = probabilities(z[0, :, 0].double().numpy(), y[0].numpy(), 60)
    np.testing.assert_allclose(found, expected, atol=1e-5)
