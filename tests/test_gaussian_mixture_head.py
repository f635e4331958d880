"""Densities and EM of batched mixtures agree with scikit-learn, and have its properties."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from sklearn_meta.heads.gaussian_mixture import (
    COVARIANCE_TYPES,
    Mixture,
    em,
    farthest_points,
    log_joint,
    log_likelihood,
    m_step,
)
from sklearn_meta.heads.learned_moments import nearest_centre

ALL_TYPES = pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
KINDS = st.sampled_from(COVARIANCE_TYPES)
FLOOR = 1e-6
same = {"rtol": 1e-9, "atol": 1e-9}


@st.composite
def drawn_sets(draw, n_sets=1):
    """Clouds of points, often with duplicates, constant columns or fewer points than components."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_columns, sets = draw(st.integers(1, 5)), []
    for _ in range(n_sets):
        n, k = draw(st.integers(1, 40)), draw(st.integers(1, 6))
        x = rng.uniform(-3, 3, (k, n_columns))[rng.integers(0, k, n)]
        x += draw(st.sampled_from([0, 1e-4, 0.3])) * rng.standard_normal((n, n_columns))
        x[:, rng.random(n_columns) < draw(st.sampled_from([0, 0.3]))] = 0.5
        sets.append((x, k))
    return sets


def batched(sets, extra_rows=0, extra_columns=0):
    """Points, mask, columns, floor and numbers of components of a batch; padding is NaN."""
    n_rows = max(len(x) for x, _ in sets) + extra_rows
    n_columns = max(x.shape[1] for x, _ in sets) + extra_columns
    points = torch.full((len(sets), n_rows, n_columns), math.nan, dtype=torch.float64)
    mask = torch.zeros(len(sets), n_rows, dtype=torch.bool)
    columns = torch.zeros(len(sets), n_columns, dtype=torch.bool)
    for b, (x, _) in enumerate(sets):
        points[b, : x.shape[0], : x.shape[1]] = torch.from_numpy(x)
        mask[b, : x.shape[0]] = columns[b, : x.shape[1]] = True
    floor = torch.full((len(sets), n_columns), math.nan, dtype=torch.float64)
    floor[columns] = FLOOR
    return points, mask, columns, floor, torch.tensor([k for _, k in sets])


def seeded(points, mask, k, covariance_type, floor, columns=None):
    """A first mixture: points join the nearest of k points that are far from each other."""
    real = mask[..., None] if columns is None else mask[..., None] & columns[:, None]
    x, chosen = points.masked_fill(~real, 0), farthest_points(points, mask, k, columns)
    seeds = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[2]))
    wanted = torch.arange(chosen.shape[1]) < torch.as_tensor(k).expand(len(x))[:, None]
    return m_step(x, mask, nearest_centre(x, mask, seeds, wanted), covariance_type, floor, columns)


def seed_of(batch, covariance_type):
    points, mask, columns, floor, k = batch
    return seeded(points, mask, k, covariance_type, floor, columns)


def cut(mixture, b, n_components, n_columns):
    """One set's mixture without its padding."""
    log_weights, means, covariances = (value[b, :n_components] for value in mixture)
    covariances = covariances[..., :n_columns]
    if covariances.ndim == 3:
        covariances = covariances[:, :n_columns]
    return log_weights, means[:, :n_columns], covariances


def scikit_learns(mixture, covariance_type):
    """scikit-learn's estimator with the parameters of the first set of the batch."""
    log_weights, means, covariances = (value[0].numpy() for value in mixture)
    model = GaussianMixture(len(means), covariance_type=covariance_type)
    if covariance_type == "spherical":
        covariances = covariances[:, 0]
    model.weights_, model.means_, model.covariances_ = np.exp(log_weights), means, covariances
    if covariance_type == "full":
        model.precisions_cholesky_ = np.linalg.inv(np.linalg.cholesky(covariances)).mT
    else:
        model.precisions_cholesky_ = covariances**-0.5
    return model


def random_mixture(rng, n_components, n_columns, covariance_type):
    """A well-conditioned mixture for one set."""
    root = rng.standard_normal((n_components, n_columns, n_columns))
    covariances = {
        "full": root @ root.mT + 0.1 * np.eye(n_columns),
        "diag": rng.lognormal(size=(n_components, n_columns)),
        "spherical": rng.lognormal(size=(n_components, 1)).repeat(n_columns, 1),
    }[covariance_type]
    weights = np.log(rng.dirichlet(np.ones(n_components)))
    means = 2 * rng.standard_normal((n_components, n_columns))
    return Mixture(*(torch.from_numpy(value[None]) for value in (weights, means, covariances)))


# -- against scikit-learn -------------------------------------------------------------------------


@ALL_TYPES
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5))
def test_densities_are_scikit_learns(covariance_type, seed, n_components, n_columns):
    rng = np.random.default_rng(seed)
    mixture = random_mixture(rng, n_components, n_columns, covariance_type)
    x = 3 * rng.standard_normal((20, n_columns))
    model = scikit_learns(mixture, covariance_type)
    points, mask = torch.from_numpy(x[None]), torch.ones(1, 20, dtype=torch.bool)
    found = log_joint(points, mixture)[0]
    expected = model._estimate_weighted_log_prob(x)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(log_likelihood(points, mask, mixture)[0], model.score(x), rtol=1e-10)


@ALL_TYPES
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_a_step_of_em_is_scikit_learns(covariance_type, seed, n_components, n_columns):
    rng = np.random.default_rng(seed)
    mixture = random_mixture(rng, n_components, n_columns, covariance_type)
    x = 2 * rng.standard_normal((60, n_columns))
    model = scikit_learns(mixture, covariance_type).set_params(reg_covar=0)
    log_responsibilities = model._estimate_log_prob_resp(x)[1]
    model._m_step(x, log_responsibilities)
    points, mask = torch.from_numpy(x[None]), torch.ones(1, 60, dtype=torch.bool)
    floor = torch.full((1, n_columns), 1e-12, dtype=torch.float64)
    found = em(points, mask, mixture, 1, covariance_type, floor)
    covariances = found.covariances[0]
    if covariance_type == "spherical":
        assert (covariances == covariances[:, :1]).all()
        covariances = covariances[:, 0]
    # A component of next to no points has a singular covariance, which cancellation spoils.
    heavy = model.weights_ * 60 > 2 * n_columns
    np.testing.assert_allclose(found.log_weights[0].exp(), model.weights_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.means[0, heavy], model.means_[heavy], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(covariances[heavy], model.covariances_[heavy], rtol=1e-7, atol=1e-9)


# -- EM -------------------------------------------------------------------------------------------


@ALL_TYPES
@given(drawn_sets(n_sets=3))
def test_em_never_lowers_the_likelihood(covariance_type, sets):
    batch = points, mask, columns, floor, _ = batched(sets)
    mixture = seed_of(batch, covariance_type)
    before = log_likelihood(points, mask, mixture, columns)
    for _ in range(4):
        mixture = em(points, mask, mixture, 1, covariance_type, floor, columns)
        after = log_likelihood(points, mask, mixture, columns)
        assert (after >= before - 1e-8 * (1 + before.abs())).all()
        before = after


@given(drawn_sets(), KINDS)
def test_a_wider_kind_of_covariance_is_at_least_as_likely(sets, covariance_type):
    """EM may continue from a narrower kind: spherical within diagonal within full."""
    points, mask, columns, floor, k = batched(sets)
    kinds = ("spherical", "diag", "full")
    for narrow, wide in zip(kinds, kinds[1:]):
        mixture = seeded(points, mask, k, narrow, floor, columns)
        before = log_likelihood(points, mask, mixture, columns)
        if narrow != "full" and wide == "full":
            mixture = mixture._replace(covariances=torch.diag_embed(mixture.covariances))
        mixture = em(points, mask, mixture, 1, wide, floor, columns)
        assert log_likelihood(points, mask, mixture, columns) >= before - 1e-8 * (1 + before.abs())


@ALL_TYPES
def test_the_m_step_is_the_maximum_within_the_bound(covariance_type):
    """No other mean, and no covariance within the bound, makes the weighted points likelier."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((1, 30, 3)) * [1, 0.1, 0.4])
    mask, responsibilities = torch.ones(1, 30, dtype=torch.bool), torch.ones(1, 30, 1).double()
    floor = torch.tensor([[0.5, 0.2, 0.05]], dtype=torch.float64)
    best = m_step(x, mask, responsibilities, covariance_type, floor)
    top = log_likelihood(x, mask, best)
    diagonal = best.covariances
    if covariance_type == "full":
        excess = best.covariances[0, 0] - torch.diag(floor[0])
        assert torch.linalg.eigvalsh(excess).min() > -1e-12
        assert torch.linalg.eigvalsh(best.covariances).max() > 0.9
    else:
        assert (diagonal >= floor[:, None]).all()
    for _ in range(200):
        shift = torch.from_numpy(rng.standard_normal((1, 1, 3))) * 10 ** rng.uniform(-4, 0)
        if covariance_type == "full":
            root = torch.from_numpy(rng.standard_normal((3, 3))) * 10 ** rng.uniform(-2, 0)
            share = rng.random()
            covariances = (
                (1 - share) * best.covariances + share * torch.diag(floor[0]) + root.mT @ root
            )
        else:
            factor = torch.from_numpy(rng.lognormal(size=3 if covariance_type == "diag" else 1))
            covariances = torch.maximum(
                diagonal * factor, floor.max() if len(factor) == 1 else floor
            )
        other = best._replace(means=best.means + shift, covariances=covariances)
        assert log_likelihood(x, mask, other) <= top + 1e-12


@ALL_TYPES
def test_bounds_hold_for_duplicated_points_and_constant_columns(covariance_type):
    points = torch.tensor([[[0.0, 1, 7], [0, 1, 7], [5, 2, 7], [5, 2, 7]]], dtype=torch.float64)
    mask = torch.ones(1, 4, dtype=torch.bool)
    floor = torch.full((1, 3), 1e-4, dtype=torch.float64)
    mixture = seeded(points, mask, 2, covariance_type, floor)
    mixture = em(points, mask, mixture, 3, covariance_type, floor)
    expected = 1e-4 * (torch.eye(3) if covariance_type == "full" else torch.ones(3)).double()
    torch.testing.assert_close(mixture.covariances, expected.expand_as(mixture.covariances), **same)
    assert {tuple(m) for m in mixture.means[0].tolist()} == {(0, 1, 7), (5, 2, 7)}


@ALL_TYPES
def test_more_components_than_points_are_absent(covariance_type):
    points = torch.randn(1, 3, 2, dtype=torch.float64)
    mask, floor = torch.ones(1, 3, dtype=torch.bool), torch.full((1, 2), 1e-6).double()
    mixture = seeded(points, mask, 5, covariance_type, floor)
    mixture = em(points, mask, mixture, 4, covariance_type, floor)
    assert mixture.log_weights.exp().count_nonzero() == 3
    assert (mixture.log_weights[0, 3:] == -math.inf).all()
    assert all(not value.isnan().any() for value in mixture)
    assert (log_joint(points, mixture)[..., 3:] == -math.inf).all()
    assert log_likelihood(points, mask, mixture).isfinite().all()


@ALL_TYPES
def test_weights_are_shares_of_all_responsibilities(covariance_type):
    """Responsibilities of a point need not add up to 1; a sum below rounding counts as zero."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 8, 2, dtype=torch.float64, generator=generator)
    r = torch.rand(1, 8, 3, dtype=torch.float64, generator=generator)
    r[..., 2] = 1e-18
    mask, floor = torch.ones(1, 8, dtype=torch.bool), torch.full((1, 2), 1e-6).double()
    mixture = m_step(x, mask, r, covariance_type, floor)
    torch.testing.assert_close(mixture.log_weights.exp()[0, :2], r.sum(1)[0, :2] / r[..., :2].sum())
    assert mixture.log_weights[0, 2] == -math.inf and not mixture.means[0, 2].any()
    for part, expected in zip(m_step(x, mask, 3 * r, covariance_type, floor), mixture, strict=True):
        torch.testing.assert_close(part, expected)


def test_unknown_kinds_are_refused():
    x, mask = torch.zeros(1, 2, 1), torch.ones(1, 2, dtype=torch.bool)
    with pytest.raises(ValueError, match="covariance_type must be one of .*'diag'.*, got 'tied'"):
        m_step(x, mask, torch.ones(1, 2, 1), "tied", torch.ones(1, 1))


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
@pytest.mark.parametrize("floor", [0.0, -1.0, math.nan])
def test_a_floor_that_is_none_is_refused(covariance_type, floor):
    x, mask = torch.randn(1, 9, 2), torch.ones(1, 9, dtype=torch.bool)
    floor = torch.tensor([[1e-3, floor]])
    with pytest.raises(ValueError, match="floor must be above 0 in every column"):
        m_step(x, mask, torch.ones(1, 9, 1), covariance_type, floor)


# -- seeds ----------------------------------------------------------------------------------------


@given(drawn_sets())
def test_farthest_points_one_at_a_time(sets):
    ((x, k),) = sets
    points, mask, columns, _, _ = batched(sets, extra_rows=2, extra_columns=1)
    found = farthest_points(points, mask, k, columns)[0].tolist()
    far, nearest = ((x - x.mean(0)) ** 2).sum(1), np.full(len(x), np.inf)
    for index in found:
        assert far[index] >= far.max() - 1e-12
        far = nearest = np.minimum(nearest, ((x - x[index]) ** 2).sum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_points_equally_far_the_first_is_taken_however_many_are_padded(dtype):
    """The mean of two points is half-way between them up to rounding, so both are equally far."""
    ends = torch.tensor([[-0.33316604, 0.14018038, 1.4953466], [-1.92461845, 0.474186, -0.1430364]])
    for n in range(1, 30):
        x = ends.to(dtype).repeat(n, 1)
        for padding in range(8):
            points = torch.cat([x, x.new_zeros(padding, 3)])[None]
            mask = (torch.arange(2 * n + padding) < 2 * n)[None]
            assert farthest_points(points, mask, 2).tolist() == [[0, 1]]


@given(drawn_sets(n_sets=2))
def test_seeds_take_the_points_nearest_to_them(sets):
    points, mask, columns, floor, k = batched(sets)
    mixture = seeded(points, mask, k, "diag", floor, columns)
    chosen = farthest_points(points, mask, k, columns)
    for b, (x, n) in enumerate(sets):
        seeds = x[chosen[b, :n]]
        labels = ((x[:, None] - seeds) ** 2).sum(-1).argmin(1)
        weights = np.bincount(labels, minlength=n) / len(x)
        found = mixture.log_weights[b].exp()
        np.testing.assert_allclose(found[:n], weights, rtol=1e-12)
        assert not found[n:].any()
        for j in np.flatnonzero(weights):
            mean = x[labels == j].mean(0)
            np.testing.assert_allclose(mixture.means[b, j, : x.shape[1]], mean, atol=1e-12)


# -- padding, batches, order ----------------------------------------------------------------------


@given(drawn_sets(n_sets=3), KINDS, st.integers(0, 3), st.integers(0, 2))
def test_batches_and_padding_change_nothing(sets, covariance_type, extra_rows, extra_columns):
    sets = [(x[:, : b + 1], k) for b, (x, k) in enumerate(sets)]  # of different widths, too
    batch = points, mask, columns, floor, _ = batched(sets, extra_rows, extra_columns)
    mixture = em(points, mask, seed_of(batch, covariance_type), 2, covariance_type, floor, columns)
    found = log_likelihood(points, mask, mixture, columns)
    densities = log_joint(points, mixture, columns)
    for b, (x, k) in enumerate(sets):
        alone = own, every, _, bound, _ = batched([(x, k)])
        expected = em(own, every, seed_of(alone, covariance_type), 2, covariance_type, bound)
        d = x.shape[1]
        for ours, theirs in zip(cut(mixture, b, k, d), cut(expected, 0, k, d)):
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)
        assert (mixture.log_weights[b, k:] == -math.inf).all()
        torch.testing.assert_close(found[b], log_likelihood(own, every, expected)[0], **same)
        torch.testing.assert_close(
            densities[b, : len(x), :k], log_joint(own, expected)[0], rtol=1e-6, atol=1e-6
        )


@given(drawn_sets(), KINDS, st.integers(0, 2**32 - 1))
def test_order_of_points_and_columns_does_not_matter(sets, covariance_type, seed):
    ((x, k),) = sets
    # Among equally far points (duplicates, pairs) the order decides.
    assume(len(x) > 2 and len(np.unique(x, axis=0)) == len(x))
    rng = np.random.default_rng(seed)
    rows, order = rng.permutation(len(x)), rng.permutation(x.shape[1])
    results = []
    for points in (x, x[rows][:, order]):
        batch = points, mask, _, floor, _ = batched([(points, k)])
        start = seed_of(batch, covariance_type)
        results.append(em(points, mask, start, 1, covariance_type, floor))
    _, means, covariances = cut(results[0], 0, k, len(order))
    _, other_means, other_covariances = cut(results[1], 0, k, len(order))
    covariances = covariances[..., order]
    covariances = covariances[:, order] if covariance_type == "full" else covariances
    torch.testing.assert_close(results[0].log_weights, results[1].log_weights, **same)
    torch.testing.assert_close(means[:, order], other_means, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(covariances, other_covariances, rtol=1e-7, atol=1e-9)


# -- gradients ------------------------------------------------------------------------------------


def loss_of(logits, points, mask, columns, floor, covariance_type):
    """The training loss: responsibilities, M-step, and the likelihood after one more step."""
    mixture = m_step(points, mask, logits.softmax(-1), covariance_type, floor, columns)
    mixture = em(points, mask, mixture, 1, covariance_type, floor, columns)
    return -log_likelihood(points, mask, mixture, columns).sum()


@ALL_TYPES
def test_gradients_are_those_of_finite_differences(covariance_type):
    """The bounds are such that some components reach them and others do not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 3)) * [1, 0.2, 1]
    points, mask, columns, _, _ = batched([(x, 3), (x[:6] + 1, 2)])
    floor = torch.tensor([[0.3, 0.1, 0.02]] * 2, dtype=torch.float64)
    logits = torch.from_numpy(rng.standard_normal((2, 8, 3))).requires_grad_(True)
    for tie in (False, True):
        if tie:  # equal eigenvalues, whose vectors have no derivative
            points = points.clone()
            points[0, :, 2] = points[0, :, 1] = 0
        torch.autograd.gradcheck(
            lambda logits: loss_of(logits, points, mask, columns, floor, covariance_type),  # noqa: B023
            logits,
        )


@given(drawn_sets(n_sets=2), KINDS, st.sampled_from([1.0, 30.0, 3000.0]))
def test_gradients_stay_finite(sets, covariance_type, sharpness):
    """In float32, for duplicates, constant columns, single points and absent components."""
    points, mask, columns, floor, k = batched(sets, extra_rows=1, extra_columns=1)
    points, floor = points.float(), floor.float()
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((*mask.shape, int(k.max()) + 1))
    logits = torch.from_numpy(sharpness * logits).float().requires_grad_(True)
    loss = loss_of(logits, points, mask, columns, floor, covariance_type)
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()
    assert not logits.grad[~mask].any()


@ALL_TYPES
def test_under_autocast_it_is_as_precise(covariance_type):
    points, mask, columns, floor, _ = batched([(np.random.default_rng(0).normal(size=(30, 4)), 3)])
    points, floor, logits = points.float(), torch.full((1, 4), 0.5), torch.randn(1, 30, 3)
    expected = loss_of(logits, points, mask, columns, floor, covariance_type)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss_of(logits, points, mask, columns, floor, covariance_type)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
