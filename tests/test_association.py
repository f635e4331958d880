"""Associations of attributes with labels equal scikit-learn's and numpy's figures, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cross_decomposition import PLSRegression
from sklearn.feature_selection import f_classif, r_regression

from sklearn_meta.backbones import VSA
from sklearn_meta.backbones.association import associations_of, first_guess
from sklearn_meta.learner import Learner

sizes = {"n_rows": st.integers(4, 30), "n_columns": st.integers(1, 6), "seed": st.integers(0, 999)}


def drawn(n_rows, n_columns, seed, n_classes=0):
    """One task of readable rows, of which the first half (at least three) have labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns))
    y = rng.standard_normal((n_rows, 1)) + X[:, :1]
    if n_classes:
        y = np.eye(n_classes)[np.arange(n_rows) % n_classes]
    n_labelled = max(n_rows // 2, 3)
    y[n_labelled:] = np.nan
    task = [torch.from_numpy(a)[None] for a in (X, y, np.ones(n_rows, bool))]
    return *task, n_labelled


@given(**sizes)
def test_the_strength_is_the_correlation(n_rows, n_columns, seed):
    x, y, readable, n = drawn(n_rows, n_columns, seed)
    linear, quadratic, known = associations_of(x, y, readable).strengths[0].T
    X, target = x[0, :n].numpy(), y[0, :n, 0].numpy()
    for found, values in ((linear, X), (quadratic, X**2)):
        t = np.abs(r_regression(values, target)) * np.sqrt(n - 1)
        np.testing.assert_allclose(found.numpy(), np.sqrt(np.minimum(t, 16)), atol=1e-6)
    np.testing.assert_allclose(known.numpy(), np.log(n) / 4)


@given(**sizes)
def test_a_missing_cell_says_as_much_as_the_mean(n_rows, n_columns, seed):
    x, y, readable, n = drawn(n_rows + 4, n_columns, seed)
    x[0, :2] = torch.nan
    t = associations_of(x, y, readable).strengths[0, :, :2].numpy() ** 2 / np.sqrt(n - 1)
    X, target = x[0, :n].numpy(), y[0, :n, 0].numpy()
    for found, values in zip(t.T, (X, X**2), strict=True):
        filled = np.where(np.isnan(values), np.nanmean(values, axis=0), values)
        np.testing.assert_allclose(found, np.abs(r_regression(filled, target)), atol=1e-6)


@given(**sizes)
def test_of_two_classes_it_ranks_attributes_as_an_analysis_of_variance(n_rows, n_columns, seed):
    x, y, readable, n = drawn(n_rows, n_columns, seed, n_classes=2)
    t = associations_of(x, y, readable).strengths[0, :, 0].numpy() ** 2
    F, _ = f_classif(x[0, :n].numpy(), y[0, :n, 1].numpy())
    share = F / (F + n - 2)  # the share of the variance
    np.testing.assert_allclose(t, np.sqrt(share * (n - 1)), atol=1e-6)


def test_a_strength_knows_no_unit_and_is_cut():
    x, y, readable, n = drawn(20, 3, 0)
    whole = associations_of(x, y, readable).strengths
    for of_x, of_y in ((0.03, 1), (1, 0.03), (30, 1e3)):
        torch.testing.assert_close(associations_of(of_x * x, of_y * y, readable).strengths, whole)
    x, y, readable, n = drawn(600, 3, 0)
    y[:, :n] = x[:, :n, :1]
    assert associations_of(x, y, readable).strengths[0, 0, 0].item() == pytest.approx(16**0.5)


def test_labels_that_differ_by_rounding_say_nothing():
    x, y, readable, n = drawn(20, 3, 0)
    x, y = x.float(), y.float()
    y[:, :n] = 0.1
    y[:, 0] = float(np.nextafter(np.float32(0.1), np.float32(1)))
    found = associations_of(x, y, readable)
    assert (found.strengths[..., :2] == 0).all() and (first_guess(x, y, found) == 0).all()


def test_what_cannot_be_seen_says_nothing():
    """Without evidence strengths are 0: a column of gaps, a constant column, one labelled row."""
    x, y, readable, n = drawn(20, 3, 0)
    x[:, :n, 0], x[:, :n, 1] = torch.nan, 0.7
    found = associations_of(x, y, readable)
    assert (found.strengths[0, :2, :2] == 0).all() and (found.strengths[0, 2, :2] > 0).all()
    without = first_guess(x[..., 1:], y, associations_of(x[..., 1:], y, readable))
    torch.testing.assert_close(first_guess(x, y, found), without)
    y[:, 1:] = torch.nan
    found = associations_of(x, y, readable)
    assert (found.strengths == 0).all() and (first_guess(x, y, found) == 0).all()


@given(**sizes)
def test_the_first_guess_is_partial_least_squares(n_rows, n_columns, seed):
    x, y, readable, n = drawn(n_rows, n_columns, seed)
    pls = PLSRegression(n_components=1, scale=False).fit(x[0, :n].numpy(), y[0, :n, 0].numpy())
    guess = first_guess(x, y, associations_of(x, y, readable))[0, n:, 0].numpy()
    expected = pls.transform(x[0, n:].numpy())[:, 0]
    if len(guess) > 1 and np.abs(guess).max() < 4:
        ratio = guess / expected
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


def test_a_guess_is_cut():
    x, y, readable, n = drawn(200, 1, 0)
    x[0, -1], readable[0, -1] = 100, False
    guess = first_guess(x, y, associations_of(x, y, readable))
    assert guess[0, -1].abs().item() == 4 and guess[0, :-1].square().mean().item() < 1.1


def test_guesses_are_of_the_size_one_over_all_rows_that_may_be_read():
    x, y, readable, n = drawn(40, 2, 0)
    x[0, n:] *= 0.5  # the rows without a label
    readable[0, -4:] = False
    guess = first_guess(x, y, associations_of(x, y, readable))
    assert guess.abs().max() < 4  # no guess is clipped
    assert guess[readable].square().mean().item() == pytest.approx(1)


@given(**sizes, missing=st.sampled_from([0, 0.3]), of=st.integers(0, 2))
def test_the_guess_of_a_labelled_row_is_that_of_all_others(n_rows, n_columns, seed, missing, of):
    """A labelled row's guess does not use its own label."""
    x, y, readable, n = drawn(n_rows, n_columns, seed)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) < missing] = torch.nan
    found = associations_of(x, y, readable)
    hidden = y.clone()
    hidden[:, of] = torch.nan
    others = associations_of(x, hidden, readable)
    of_others = first_guess(x, hidden, others._replace(scale=found.scale))
    torch.testing.assert_close(first_guess(x, y, found)[0, of], of_others[0, of])


@pytest.mark.parametrize("attributes", [True, False])
def test_a_backbone_weighs_attributes_by_their_strength(attributes):
    torch.manual_seed(0)
    backbone = VSA(width=8, n_heads=2, attributes=attributes, associations=True).double()
    assert hasattr(backbone, "gate") == attributes
    x, y, readable, n = drawn(30, 4, 0)
    every = [torch.ones(1, size, dtype=torch.bool) for size in (4, 1)]
    z = backbone(x, y, readable, *every)[0]
    assert z.shape[-1] == 8 + attributes
    if attributes:
        even = z[0, :, :, -1]
        torch.nn.init.ones_(backbone.gate[-1].weight)
        torch.nn.init.ones_(backbone.gate[0].weight)
        weighed = backbone(x, y, readable, *every)[0][0, :, :, -1]
        ratio = (weighed / even).median(0).values
        assert ratio.argmax() == 0  # the attribute that the target is made of
        assert ratio.square().mean().item() == pytest.approx(1)
        backbone.gate[-1].weight.data *= 1e4  # even if the gate is saturated
        assert backbone(x, y, readable, *every)[0].isfinite().all()


@pytest.mark.parametrize("n_classes", [3, 12])
def test_what_a_network_is_given(n_classes):
    """The input has three channels of strengths and guesses; gradients are finite."""
    x, y, readable, n = drawn(60, 4, 0, n_classes)
    torch.manual_seed(0)
    learner = Learner("vsa", backbone_config={"width": 8, "n_heads": 2, "associations": True})
    found = associations_of(x, y, readable)
    z = learner.backbone.double().input_tensor(x, y, found)[0, :, :, 4:]
    strengths = found.strengths[0]
    torch.testing.assert_close(z[:, :4], strengths[None].expand(60, -1, -1))
    torch.testing.assert_close(z[:, 4:, 0], first_guess(x, y, found)[0])
    assert (z[:, 4:, 1] == 0).all() and (z[:, 4:, 2] == strengths[0, 2]).all()
    every = [torch.ones(1, size, dtype=torch.bool) for size in (4, n_classes)]
    learner.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = learner(x.float(), y, readable, *every)  # labels may have another dtype
    logits.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in learner.parameters())
    assert learner.backbone.blocks[0].attention.project.weight.grad[:, 4:].any()
