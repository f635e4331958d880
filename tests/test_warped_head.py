"""The head of warped targets equals scikit-learn's process of each warped target."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, yeojohnson
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from test_regression_heads import drawn_contexts, shaken

from sklearn_meta.heads import HEADS, AttributeGaussianProcess, WarpedGaussianProcess
from sklearn_meta.heads.normal_mixture import NormalMixture
from sklearn_meta.heads.warped_gaussian_process import (
    AS_LEARNED,
    BEYOND,
    LESS_NOISE,
    LOG_PRIOR_OF_HALF,
    MOST_NOISE,
    NODE_WEIGHTS,
    NODES,
    POWERS,
    SPREAD_BEYOND,
)
from sklearn_meta.heads.warps import log_slope, unwarp, warp


@pytest.mark.parametrize("power", POWERS)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=9))
def test_targets_are_warped_as_by_scipy_and_back(power, values):
    y = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    warped = warp(y, power)
    np.testing.assert_allclose(warped.detach(), yeojohnson(np.array(values), power), atol=1e-12)
    torch.testing.assert_close(unwarp(warped, power), y, rtol=1e-9, atol=1e-9)
    (slope,) = torch.autograd.grad(warped.sum(), y)
    some = y != 0  # where the two halves meet, torch adds both slopes
    torch.testing.assert_close(log_slope(y, power).exp()[some], slope[some])


def of_each_set(head, rows, known, y):
    """Yield every set of hyperparameters and power: its log weight, mean, centre and covariance.

    Copies with less noise come last. The mean is clipped as predictions are, and the covariance is
    about the centre. The last item is the power, with means and deviations of the warped target.
    """
    attributes, embeddings = rows[..., -1], rows[..., :-1].reshape(len(rows), -1)
    both = np.hstack([embeddings, attributes])

    class Direct(RBF):
        """A kernel of the attributes alone."""

        def __call__(self, X, Y=None, eval_gradient=False):
            Y = X if Y is None else Y
            return super().__call__(*(part[:, embeddings.shape[1] :] for part in (X, Y)))

    class Embedded(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            Y = X if Y is None else Y
            return super().__call__(*(part[:, : embeddings.shape[1]] for part in (X, Y)))

    class Linear(DotProduct):
        def __call__(self, X, Y=None, eval_gradient=False):
            Y = X if Y is None else Y
            return super().__call__(*(part[:, embeddings.shape[1] :] for part in (X, Y)))

        def diag(self, X):
            return super().diag(X[:, embeddings.shape[1] :])

    prior = head.log_power_prior.log_softmax(0).numpy()

    def cut(drawn, beyond):
        return np.clip(drawn, y.min() - beyond * np.ptp(y), y.max() + beyond * np.ptp(y))

    all_warped = np.column_stack([yeojohnson(y, power) for power in POWERS])
    centres, scales = all_warped.mean(0), all_warped.std(0)
    sets = [(k, 1.0) for k in range(len(head.log_prior))]
    few = [k for k, _ in sets if head.noise()[k] < MOST_NOISE]
    for k, part in sets + [(k, part) for part in LESS_NOISE for k in few]:
        value = {n: p[k].exp().item() for n, p in head.named_parameters() if len(p) != len(prior)}
        jitter = head.config["jitter"] * value["log_amplitude"]
        noise = part * value["log_noise"] + jitter
        kernel = ConstantKernel(value["log_amplitude"]) * Embedded(value["log_length_scale"])
        kernel += ConstantKernel(value["log_linear"]) * Linear(1e-9)
        kernel += ConstantKernel(value["log_direct"]) * Direct(value["log_direct_scale"])
        process = GaussianProcessRegressor(kernel + WhiteKernel(noise), optimizer=None, alpha=0)
        # One fit serves all powers, since the kernel does not depend on the targets.
        process.fit(both[known], (all_warped - centres) / scales)
        means, covs = process.predict(both, return_cov=True)
        likelihoods = -0.5 * (process.y_train_ * process.alpha_).sum(0)
        likelihoods -= np.log(np.diag(process.L_)).sum() + len(y) / 2 * np.log(2 * np.pi)
        np.testing.assert_allclose(likelihoods.sum(), process.log_marginal_likelihood_value_)
        for i, power in enumerate(POWERS):
            centre, scale, mean, cov = centres[i], scales[i], means[:, i], covs[..., i]
            log_weight = head.log_prior[k].item() - np.log2(part) * LOG_PRIOR_OF_HALF
            log_weight += prior[i] - len(y) * np.log(scale)
            log_weight += log_slope(torch.from_numpy(y), power).sum().item()
            log_weight += likelihoods[i]
            mean, std = mean * scale + centre, np.sqrt(np.diag(cov)) * scale
            as_warped = power, mean, std
            correlation = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
            told = mean
            if power != 1:
                ends = yeojohnson(cut(np.array([-np.inf, np.inf]), SPREAD_BEYOND), power)
                drawn = np.clip(mean[:, None] + std[:, None] * NODES, *ends)
                drawn = unwarp(torch.from_numpy(drawn), power).numpy()
                shares = NODE_WEIGHTS / NODE_WEIGHTS.sum()
                told, mean = cut(drawn, BEYOND) @ shares, drawn @ shares
                variance = (drawn - mean[:, None]) ** 2 @ shares
                std = np.sqrt(np.maximum(variance, head.config["jitter"]))
            yield log_weight, told, mean, correlation * np.outer(std, std), as_warped


def with_attributes(context):
    """Keep one target, and append the channel of the attributes to the embeddings."""
    z, labels, classes, readable = context
    z = torch.cat([z, z[..., :1] * 0.5], dim=-1)
    return z, labels[..., :1], classes[:, :1], readable


def mixed(head, z, labels):
    """Positions of tasks with at least two labelled rows, and their weighted parts."""
    for b in range(len(z)):
        known = ~labels[b].isnan().any(1).numpy()
        if known.sum() < 2:
            continue
        parts = list(of_each_set(head, z[b].numpy(), known, labels[b].numpy()[known, 0]))
        log_weights = np.array([part[0] for part in parts])
        weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        learned = weights[: len(head.log_prior) * len(POWERS)].copy()
        weights *= 1 - AS_LEARNED
        weights[: len(learned)] += AS_LEARNED * learned / learned.sum()
        yield b, weights, parts


@given(drawn_contexts(), st.integers(0, 99))
@settings(max_examples=10)
def test_it_mixes_processes_of_warped_targets(context, seed):
    """All sets of hyperparameters and powers, weighted by scikit-learn's marginal likelihood."""
    z, labels, classes, readable = with_attributes(context)
    head = shaken(WarpedGaussianProcess(n_kernels=2), seed)
    state = head.adapt(z, labels, classes, readable)
    found, cov = head(z, state), head.covariance(z, state)
    for b, weights, parts in mixed(head, z, labels):
        mean = sum(w * m for w, (_, m, *_) in zip(weights, parts, strict=True))
        total = sum(
            w * (c + np.outer(m - mean, m - mean))
            for w, (_, _, m, c, _) in zip(weights, parts, strict=True)
        )
        known = labels[b][~labels[b].isnan()]
        assert state.lowest[b] == known.min() and state.highest[b] == known.max()
        np.testing.assert_allclose(found[b, :, 0, 0], mean, atol=1e-6)
        np.testing.assert_allclose(found[b, :, 0, 1], np.diag(total), atol=1e-6)
        np.testing.assert_allclose(cov[b, 0], total, atol=1e-6)


@given(drawn_contexts(), st.integers(0, 99))
@settings(max_examples=10)
def test_quantiles_and_density_are_those_of_the_mixture(context, seed):
    """The same processes of scikit-learn, mixed with scipy's normal distribution."""
    z, labels, classes, readable = with_attributes(context)
    head = shaken(WarpedGaussianProcess(n_kernels=2), seed)
    found = head.distribution(z, head.adapt(z, labels, classes, readable))
    levels = (0.001, 0.3, 0.5, 0.95)
    quantiles = torch.cat([found.quantiles(level) for level in levels], dim=-1)
    told = [found.log_density(values).exp() for values in quantiles.split(1, dim=-1)]
    told, quantiles = torch.cat(told, dim=-1).numpy(), quantiles.numpy()
    for b, weights, parts in mixed(head, z, labels):
        values, below, density = quantiles[b], 0.0, 0.0
        for w, (*_, (power, mean, std)) in zip(weights, parts, strict=True):
            warped, of_rows = yeojohnson(values, power), (mean[:, None], std[:, None])
            below += w * norm.cdf(warped, *of_rows)
            slope = log_slope(torch.from_numpy(values), power).numpy()
            density += w * norm.pdf(warped, *of_rows) * np.exp(slope)
        np.testing.assert_allclose(below, np.broadcast_to(levels, below.shape), atol=1e-6)
        np.testing.assert_allclose(told[b], density, rtol=1e-4, atol=1e-9)


def skewed_task():
    """Embeddings of twelve rows, and labels of the first nine."""
    z = torch.randn(1, 12, 3, 5, generator=torch.Generator().manual_seed(0)).double()
    labels = z[..., 0].sum(-1, keepdim=True).exp()
    labels = (labels - labels[:, :9].mean()) / labels[:, :9].std(correction=0)
    labels[:, 9:] = math.nan
    return z, labels, torch.ones(1, 1, dtype=torch.bool), None


def of_one_power(power):
    head = shaken(WarpedGaussianProcess(n_kernels=1), 1).double()
    head.log_power_prior.copy_(torch.tensor([0.0 if p == power else -1e9 for p in POWERS]))
    return head


def test_far_outside_the_mean_is_cut_and_the_deviation_tells_of_it():
    """A logarithm of the target is extrapolated to attributes ever further from labelled rows."""
    z, labels, *context = skewed_task()
    head = of_one_power(0.0)
    row = z[0, labels[0, :9, 0].argmax()]
    far = torch.linspace(1, 30, 30)[None, :, None, None] * row
    mean, variance = head(far, head.adapt(z, labels, *context))[0, :, 0].T
    least, most = labels[:, :9].min(), labels[:, :9].max()
    assert mean.max() <= most + BEYOND * (most - least)
    assert mean[-1] > most + 0.3 * (most - least)
    assert variance[-1].sqrt() > 0.3 * (most - least)


@pytest.mark.parametrize("apart", [False, True])
def test_samples_are_of_the_mixture(apart):
    z, *context = skewed_task()
    head = shaken(WarpedGaussianProcess(n_kernels=3), 1).double()
    state = head.adapt(z, *context)
    assert (state.share.flatten() * state.log_posterior.exp().max() > 0.1).sum() > 1
    if apart:  # each set of hyperparameters has another power
        own = torch.eye(len(POWERS))[[0, 2, 4]].to(state.share)
        own = own.repeat(len(state.origin), 1)[: len(state.origin)]
        state = state._replace(share=own[None, :, None])
    drawn = head.samples(z[:, 9:], state, 20_000, np.random.RandomState(0))
    distribution = head.distribution(z[:, 9:], state)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        shares = (drawn < distribution.quantiles(level)).double().mean(0)
        torch.testing.assert_close(shares, torch.full_like(shares, level), atol=0.012, rtol=0)


def test_embeddings_that_lie_far_apart_are_drawn_and_have_quantiles():
    """In float32 the rounding error of their kernels exceeds the variance that remains."""
    z = torch.randn(1, 220, 3, 4, generator=torch.Generator().manual_seed(0)) * 3000
    labels = torch.full((1, 220, 1), math.nan)
    labels[:, :20] = torch.randn(1, 20, 1, generator=torch.Generator().manual_seed(1)).exp()
    head = WarpedGaussianProcess().requires_grad_(False)
    state = head.adapt(z, labels, torch.ones(1, 1, dtype=torch.bool), None)
    head.samples(z, state, 50, np.random.RandomState(0))
    for level in (0.05, 0.5, 0.95):
        assert head.distribution(z, state).quantiles(level).isfinite().all()


@pytest.mark.parametrize("power", POWERS)
def test_rows_are_drawn_together(power):
    """With one set of hyperparameters and one power the correlation of warped targets is known."""
    z, *context = skewed_task()
    head = of_one_power(power)
    state = head.adapt(z, *context)
    drawn = head.samples(z[:, 9:], state, 20_000, np.random.RandomState(0))
    cov = head.covariance(z[:, 9:], state)[0, 0]
    expected = cov / torch.outer(cov.diagonal().sqrt(), cov.diagonal().sqrt())
    assert expected.abs().tril(-1).max() > 0.3
    found = torch.corrcoef(warp(drawn[..., 0], power).T)
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0)


@given(drawn_contexts(), st.integers(0, 99))
def test_what_is_jointly_predicted_agrees_with_row_by_row(context, seed):
    z, labels, classes, readable = context
    head = shaken(WarpedGaussianProcess(n_kernels=3), seed)
    state = head.adapt(z, labels, classes, readable)
    variance, cov = head(z, state)[..., 1], head.covariance(z, state)
    torch.testing.assert_close(cov.diagonal(dim1=-2, dim2=-1), variance.mT, rtol=1e-9, atol=1e-9)
    assert torch.linalg.eigvalsh((cov + cov.mT) / 2).min() > -1e-9


@given(drawn_contexts(), st.integers(0, 99))
def test_targets_of_the_other_sign_are_warped_the_other_way(context, seed):
    z, labels, classes, readable = context
    head = shaken(WarpedGaussianProcess(n_kernels=3), seed)
    found = head.joint(z, labels, classes, readable)
    head.log_power_prior.copy_(head.log_power_prior.flip(0))
    mirrored = head.joint(z, -labels, classes, readable)
    torch.testing.assert_close(mirrored[..., 0], -found[..., 0], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(mirrored[..., 1], found[..., 1], rtol=1e-7, atol=1e-7)


def test_a_target_of_one_value_is_not_warped():
    z = torch.randn(2, 9, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.full((2, 9, 1), math.nan).double()
    labels[0, :5] = labels[1, :1] = 0
    context = z, labels, torch.ones(2, 1, dtype=torch.bool), None
    warped, plain = (
        kind(n_kernels=3, noise=MOST_NOISE).double().joint(*context)
        for kind in (WarpedGaussianProcess, AttributeGaussianProcess)
    )
    torch.testing.assert_close(warped, plain)


@given(drawn_contexts(), st.integers(0, 99))
def test_a_padded_batch_equals_one_by_one(context, seed):
    """Tasks have fewer targets than the batch, and the first target of one does not vary."""
    z, labels, _, readable = context
    labels[0, :, 0] = labels[0, :, 0] * 0 + 1.0
    head = shaken(WarpedGaussianProcess(n_kernels=3), seed)
    n_targets = [max(labels.shape[2] - b, 1) for b in range(len(z))]
    classes = torch.arange(labels.shape[2]) < torch.tensor(n_targets)[:, None]
    together = head.joint(z, labels, classes, readable)
    for b, n in enumerate(n_targets):
        one = slice(b, b + 1)
        alone = head.joint(z[one], labels[one, :, :n], classes[one, :n], readable[one])
        torch.testing.assert_close(together[one, :, :n], alone, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["gp", "gp_attributes", "gp_warped"])
def test_a_covariance_of_rows_that_lie_far_apart_is_finite(name):
    head = HEADS["regression"][name](n_kernels=3, noise=1e-4).requires_grad_(False)
    z = torch.randn(1, 40, 3, 4, generator=torch.Generator().manual_seed(0))
    z[:, 20:30] *= 1e5
    labels = z[..., :1, 0].clone()
    labels[:, 10:] = math.nan
    state = head.adapt(z, labels, torch.ones(1, 1, dtype=torch.bool), None)
    assert head.covariance(z, state).isfinite().all()


def test_it_begins_as_the_process_it_warps_and_mostly_with_targets_as_they_are():
    given = {"n_kernels": 3, "length_scale": 2.0, "noise": 0.01, "jitter": 0.5}
    head, plain = WarpedGaussianProcess(**given), AttributeGaussianProcess(**given)
    assert head.config == plain.config
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(head.get_parameter(name), parameter)
    prior = head.log_power_prior.exp()
    torch.testing.assert_close(prior / prior[0], torch.tensor([1, 1, math.exp(2.0), 1, 1]))


def test_what_is_warped_back_is_never_certain():
    """Where the function is flat, hardly anything of a small deviation remains."""
    x = torch.linspace(-1, 1, 30).double()[None, :, None, None].expand(-1, -1, 1, 2)
    labels = 2 * x[..., 0, :1]
    labels[:, 0] = math.nan
    head = of_one_power(0.0)
    for name, more in {"direct": -20, "amplitude": -20, "noise": -9, "linear": 3}.items():
        head.get_parameter(f"log_{name}").add_(more)
    variance = head.joint(x, labels, torch.ones(1, 1, dtype=torch.bool), None)[..., 1]
    assert variance[0, 0, 0] == head.config["jitter"]


def even_task(noise, n_labelled):
    """Rows of three attributes, and labels that are linear in them up to noise."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(1, n_labelled + 100, 3, 2, generator=generator).double()
    labels = z[..., -1].sum(-1, keepdim=True) / 3**0.5
    labels = labels + noise * torch.randn(labels.shape, generator=generator).double()
    y = labels[:, n_labelled:].clone()
    labels[:, n_labelled:] = math.nan
    return (z, labels, torch.ones(1, 1, dtype=torch.bool), None), y


@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_noise_below_that_of_all_sets_is_found_with_many_labels(noise, monkeypatch):
    head = WarpedGaussianProcess(n_kernels=3, noise=0.1).double().requires_grad_(False)
    head.log_linear.fill_(0.0)
    context, y = even_task(noise, 200)

    def told():
        found = head.joint(*context)[:, 200:]
        mean, std = found[..., 0], found[..., 1].sqrt()
        return std.median().item() / noise, -torch.distributions.Normal(mean, std).log_prob(
            y
        ).mean()

    wide, loss = told()
    monkeypatch.setattr("sklearn_meta.heads.warped_gaussian_process.MOST_NOISE", 0.0)
    as_learned, loss_as_learned = told()
    assert wide < 2.1
    assert as_learned > 2.5
    assert loss < loss_as_learned - 0.5


def test_copies_without_hope_are_not_solved_for_and_would_change_nothing(monkeypatch):
    """With nothing but noise and many labels."""
    head = shaken(WarpedGaussianProcess(n_kernels=3, noise=0.01))
    context, _ = even_task(1.0, 300)
    found, state = head.joint(*context), head.adapt(*context)
    n_copies = len(LESS_NOISE) * (head.noise() < MOST_NOISE).sum()
    assert len(state.origin) < 3 + n_copies / 2
    hope = torch.full((1, n_copies, len(POWERS)), math.inf).double()
    monkeypatch.setattr(head, "_most_evidence", lambda *_: hope)
    whole = head.adapt(*context)
    assert len(whole.origin) == 3 + n_copies
    torch.testing.assert_close(head(context[0], whole), found, rtol=0, atol=1e-9)


def test_skewed_targets_are_told_better_than_by_the_process_as_it_is():
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.standard_normal((40, 60, 2, 2)))
    y = torch.exp(z[..., 0, -1] + 0.4 * torch.from_numpy(rng.standard_normal((40, 60))))[..., None]
    shown = y[:, :30]
    y = (y - shown.mean(1, keepdim=True)) / shown.std(1, keepdim=True, correction=0)
    labels = y.clone()
    labels[:, 30:] = math.nan
    context = z, labels, torch.ones(40, 1, dtype=torch.bool), None
    losses = {}
    for kind in (AttributeGaussianProcess, WarpedGaussianProcess):
        head = kind().double().requires_grad_(False)
        found = head.joint(*context)[:, 30:]
        mean, std = found[..., 0].numpy(), found[..., 1].sqrt().numpy()
        losses[kind] = -norm.logpdf(y[:, 30:].numpy(), mean, std).mean()
        if kind is WarpedGaussianProcess:
            state = head.adapt(*context)
            share = (state.log_posterior.exp()[..., None] * state.share[:, :, 0]).sum(1).mean(0)
            assert share[: POWERS.index(1)].sum() > 0.95
    assert losses[WarpedGaussianProcess] < losses[AttributeGaussianProcess] - 0.1


def test_what_lies_far_outside_is_finite_and_so_are_gradients():
    head = WarpedGaussianProcess()
    z = torch.linspace(-1, 1, 30)[None, :, None, None] * torch.ones(1, 1, 1, 2)
    labels = (4 * z[..., 0, :1]).exp()
    labels = (labels - labels.mean()) / labels.std()
    z = torch.cat([z, 1e6 * z[:, -2:]], dim=1)
    labels = torch.cat([labels, torch.full((1, 2, 1), math.nan)], dim=1)
    found = head.joint(z, labels, torch.ones(1, 1, dtype=torch.bool), None)
    found.sum().backward()
    assert found.isfinite().all() and (found[..., 1] > 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def test_quantiles_are_found_where_a_part_of_the_mixture_lies_beyond_float64():
    """It hardly counts, but its targets are exponentials of far values."""
    share, mean = (torch.tensor(p, dtype=torch.float64) for p in ([1 - 1e-9, 1e-9], [0.5, 800]))
    share, mean = share.view(1, 1, 2, 1, 1), mean.view(1, 1, 2, 1, 1)
    found = NormalMixture(share, mean, torch.ones_like(mean), (1.0, 0.0)).quantiles(0.5)
    np.testing.assert_allclose(found, 0.5, atol=1e-6)


def test_of_thousands_of_labelled_rows_there_are_no_copies(monkeypatch):
    """Their factors would take gigabytes."""
    head = WarpedGaussianProcess(n_kernels=3, noise=0.1).double().requires_grad_(False)
    context, _ = even_task(0.03, 40)
    monkeypatch.setattr("sklearn_meta.heads.warped_gaussian_process.MOST_LABELLED", 40)
    assert len(head.adapt(*context).origin) > 3
    monkeypatch.setattr("sklearn_meta.heads.warped_gaussian_process.MOST_LABELLED", 39)
    assert len(head.adapt(*context).origin) == 3
