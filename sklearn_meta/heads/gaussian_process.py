"""Gaussian process in the embedding space: the head of paper 000 for regression (section 3.6)."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ..sizes import check_integers, check_positive
from .base import RegressionHead, factorise, labelled_rows, squared_distances
from .normal_mixture import NormalMixture

#: Maximum number of kernel entries computed at once. A kernel matrix takes several times its size
#: to compute: with thousands of rows, too much for all sets of hyperparameters together.
AT_ONCE = 2**24


class Process(NamedTuple):
    """Posterior given the labelled rows, under each of K sets of hyperparameters.

    Parameters
    ----------
    z : tensor of shape (B, L, M, H)
        Embeddings of the labelled rows.
    factor : tensor of shape (B, K, L, L) or None
        Cholesky factors of their kernel matrices.
    weights : tensor of shape (B, K, L, C)
        K^-1 y of Eq. (11).
    log_posterior : tensor of shape (B, K)
        Log posterior of the sets of hyperparameters.
    known : bool tensor of shape (B, L)
        Rows that are not padding.
    origin : int tensor of shape (K,)
        Index of the head's set of hyperparameters whose kernel each set uses.
    noise : tensor of shape (K,)
        Noise variance of each set.
    """

    z: torch.Tensor
    factor: torch.Tensor | None
    weights: torch.Tensor
    log_posterior: torch.Tensor
    known: torch.Tensor
    origin: torch.Tensor
    noise: torch.Tensor


class GaussianProcess(RegressionHead):
    """Gaussian process regression with an RBF kernel on embeddings, Eq. (11) of paper 000.

    Amplitude, length scale and noise are learned while meta-training. A single set of them would
    give clean and noisy tasks the same variance. Therefore several sets are learned, and each task
    weights their predictions by the marginal likelihood of its labelled rows times a learned prior;
    mean and variance are those of the mixture. With ``n_kernels=1`` this is Eq. (11) with a noise
    term in kernel and variance; after short meta-training on real tables, that predicted little but
    the mean.

    Parameters
    ----------
    n_kernels : int, default=8
        Number of sets of amplitude, length scale and noise.
    length_scale, noise : float, default=8.0 and 0.1
        Initial values; the noise is a variance, relative to that of the labelled targets.
    jitter : float, default=1e-4
        Minimum variance of the noise, relative to the amplitude; makes equal rows harmless.

    Raises
    ------
    ValueError
        If there is no kernel, or the length scale or noise is not positive.

    Attributes
    ----------
    log_amplitude, log_length_scale, log_noise, log_prior : Parameter of shape (n_kernels,)
        Logarithms of the kernel's variance, of its length scale, of the noise's variance, and of
        the (unnormalised) prior.
    """

    #: At the network's learning rate, kernels take twenty times as many steps to become useful.
    rate_factor = 30.0
    #: Powers of the functions of the target that are normally distributed; 1 is the target itself.
    powers = (1.0,)

    def __init__(self, *, n_kernels=8, length_scale=8.0, noise=0.1, jitter=1e-4):
        super().__init__()
        check_integers(n_kernels=n_kernels)
        check_positive(length_scale=length_scale, noise=noise)
        self.config = {
            "n_kernels": n_kernels,
            "length_scale": length_scale,
            "noise": noise,
            "jitter": jitter,
        }
        self.log_amplitude = nn.Parameter(torch.zeros(n_kernels))
        self.log_length_scale = nn.Parameter(torch.full((n_kernels,), math.log(length_scale)))
        # From the given noise up to 1, that of a target which attributes cannot predict.
        steps = torch.arange(n_kernels) / max(n_kernels - 1, 1) * -math.log(noise)
        self.log_noise = nn.Parameter(math.log(noise) + steps)
        self.log_prior = nn.Parameter(torch.zeros(n_kernels))

    def compare(self, a, b, known=None):
        """Tensors (B, I, J) that ``kernel_of`` needs of rows (B, I, M, H) and (B, J, M, H).

        ``known`` (B, J) is False at rows of ``b`` that are padding; None is all of them.
        """
        return (squared_distances(a.flatten(2), b.flatten(2), known),)

    def kernel_of(self, compared, sets=slice(None)):
        """RBF kernels of compared rows under K ``sets`` of hyperparameters: (B, K, I, J)."""
        (distances,) = compared
        return _rbf(distances, self.log_length_scale[sets], self.log_amplitude[sets])

    def prior_variance(self, z):
        """Kernels of rows (B, I, M, H) with themselves: (B, K, I)."""
        return self.log_amplitude.exp()[:, None].expand(len(z), -1, z.shape[1])

    def noise(self):
        """Variance of the noise, (K,)."""
        return self.log_noise.exp() + self.config["jitter"] * self.log_amplitude.exp()

    def adapt(self, z, labels, classes, readable):
        """Factorise the labelled rows' kernel matrices and compute the posterior.

        Returns
        -------
        Process
        """
        own = self._every_set(z), self.noise()
        labelled, known, solve = self._solver(z, labels, classes)
        factor, weights, evidence = joined(solve(*own))
        return Process(labelled, factor, weights, self._log_posterior(evidence), known, *own)

    def adapt_mean(self, z, labels, classes):
        """Posterior for ``mean``: as ``adapt``, but the factors are None.

        With thousands of labelled rows they would take gigabytes.
        """
        own = self._every_set(z), self.noise()
        labelled, known, solve = self._solver(z, labels, classes)
        weights, evidence = joined(one[1:] for one in solve(*own))
        return Process(labelled, None, weights, self._log_posterior(evidence), known, *own)

    def _every_set(self, z):
        return torch.arange(len(self.log_noise), device=z.device)

    def _solver(self, z, labels, classes):
        """Embeddings of the labelled rows, which of them are not padding, and a generator function.

        The function takes the sets' ``origin`` and ``noise``, as in :class:`Process`. For a few
        sets at a time, it yields the factors, K^-1 y, and log p(y) of each target up to a constant,
        (B, K, C).
        """
        dtype = self.log_noise.dtype
        rows = labelled_rows(z.to(dtype), labels.to(dtype), classes)
        labelled = rows.z.unflatten(-1, z.shape[2:])
        step = self._step(len(z) * labelled.shape[1] ** 2)
        with torch.autocast(z.device.type, enabled=False):
            compared = self.compare(labelled, labelled, rows.known)

        def solutions(origin, noise):
            for sets in zip(origin.split(step), noise.split(step), strict=True):
                with torch.autocast(z.device.type, enabled=False):
                    factor = self._factor(compared, rows.known, *sets)
                    targets = rows.labels[:, None].expand(-1, factor.shape[1], -1, -1)
                    weights = torch.cholesky_solve(targets, factor)
                    # The term in 2 pi is the same for every set of hyperparameters.
                    fit = (targets * weights).sum(-2)
                    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
                    evidence = (-0.5 * (fit + log_det)).masked_fill(~classes[:, None], 0)
                yield factor, weights, evidence

        return labelled, rows.known, solutions

    def _log_posterior(self, evidence):
        """Log posterior of the sets, (B, K), from log p(y) of each target under each, (B, K, C)."""
        return (self.log_prior + evidence.sum(-1)).log_softmax(-1)

    def _factor(self, compared, known, origin, noise):
        """Cholesky factors of the labelled rows' kernel matrices, (B, K, L, L)."""
        pairs = (known[:, :, None] & known[:, None])[:, None]
        kernels, place = origin.unique(return_inverse=True)
        covariance = self.kernel_of(compared, kernels).masked_fill(~pairs, 0)
        if len(kernels) < len(origin):  # some sets share a kernel
            covariance = covariance[:, place]
        # A padded row has variance one and no covariance: it adds zero to the log determinant.
        diagonal = torch.where(known[:, None], noise[:, None], 1.0)
        # Rounding errors of large entries, as in linear kernels, may exceed the jitter.
        largest = covariance.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True).detach()
        diagonal = diagonal + torch.finfo(diagonal.dtype).eps * diagonal.shape[-1] * largest
        covariance.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        return factorise(covariance)

    def forward(self, z, state):
        """Mean and variance of Eq. (11), noise included: (B, N, M, H) to (B, N, C, 2)."""
        with torch.autocast(z.device.type, enabled=False):
            share, told, means, variances = self._mixed(z, state)
            mean = (share * told).sum(1)
            variance = (share * (variances + (means - mean[:, None]).square())).sum(1)
        return torch.stack([mean, variance], dim=-1)

    def mean(self, z, state):
        """Mean of Eq. (11) alone, for a fraction of the time: (B, N, M, H) to (B, N, C)."""
        share, weights = self._shares(state), state.weights
        with torch.autocast(z.device.type, enabled=False):
            compared = self._compared(z, state)
            return sum(
                (share[:, sets] * (self._cross(compared, state, sets) @ weights[:, sets])).sum(1)
                for sets in self._sets_in_use(state).split(self._step(self._held(z, state)))
            )

    def covariance(self, z, state):
        """Covariance of the rows' targets, noise included: (B, N, M, H) to (B, C, N, N)."""
        with torch.autocast(z.device.type, enabled=False):
            share, told, means, variances = self._mixed(z, state)
            deviation = (means - (share * told).sum(1, keepdim=True)) * share.sqrt()
            total = torch.einsum("bgnc,bgmc->bcnm", deviation, deviation)
            compared, sets_in_use = self._compared(z, state), self._sets_in_use(state)
            rows = z.to(means.dtype)
            of_rows = self.compare(rows, rows)
            # Standard deviations under each set, times roots of shares: (B, sets, W, N, C).
            std = (share * variances).sqrt().unflatten(1, (len(sets_in_use), -1))
            for sets, own_std in zip(sets_in_use.split(1), std.unbind(1), strict=True):
                _, left = self._predict_jointly(compared, of_rows, state, sets)
                scale = left.diagonal(dim1=-2, dim2=-1).rsqrt()
                correlation = left * scale[:, :, None] * scale[:, None]
                outer = torch.einsum("bwnc,bwmc->bcnm", own_std, own_std)
                total = total + correlation[:, None] * outer
        return total

    def samples(self, z, state, n_samples, rng):
        """Draw targets of one task's rows jointly: (1, N, M, H) to float64 (n_samples, N, C).

        Each sample is under one set of hyperparameters, drawn from their posterior.
        """
        in_use = self._sets_in_use(state)
        posterior = state.log_posterior[0, in_use].double().softmax(0).cpu().numpy()
        of_sample = rng.choice(len(in_use), n_samples, p=posterior)
        size = (n_samples, z.shape[1], state.weights.shape[-1] // len(self.powers))
        normal = z.new_tensor(rng.standard_normal(size), dtype=torch.float64)
        uniform = z.new_tensor(rng.uniform(size=(n_samples, 1, size[2])), dtype=torch.float64)
        drawn = torch.empty_like(normal)
        with torch.autocast(z.device.type, enabled=False):
            rows = z.to(state.z.dtype)
            compared, of_rows = self._compared(z, state), self.compare(rows, rows)
            for i in np.unique(of_sample):
                sets, own = in_use[i : i + 1], torch.from_numpy(of_sample == i).to(z.device)
                means, left = self._predict_jointly(compared, of_rows, state, sets)
                away = factorise(left[0]).double() @ normal[own]
                drawn[own] = self._drawn(means[0, 0], away, uniform[own], state, sets)
        return drawn

    def _drawn(self, means, away, uniform, state, sets):
        """Targets (S, N, C) that lie ``away`` from their means (N, C)."""
        return means + away

    def distribution(self, z, state):
        """Predictive distribution of single rows, noise included: (B, N, M, H) to a NormalMixture.

        Sets of hyperparameters that weigh no more than rounding are left out.
        """
        with torch.autocast(z.device.type, enabled=False):
            parts = zip(*self._normals(z, state), strict=True)
            share, mean, variance = (torch.cat(part, dim=1).double() for part in parts)
        share = share / share.sum((1, 2), keepdim=True)
        return NormalMixture(share, mean, variance.sqrt(), self.powers)

    def _mixed(self, z, state):
        """Parts of the mixture under each set in use, each (B, G, N, C) or broadcast to it.

        They are the shares; the means that give the predicted mean; and the means and variances
        that give the predicted variance.
        """
        parts = [self._moments(*normals, state) for normals in self._normals(z, state)]
        return tuple(torch.cat(part, dim=1) for part in zip(*parts, strict=True))

    def _normals(self, z, state):
        """Yield normal distributions of rows under a few sets of hyperparameters at a time."""
        compared, prior = self._compared(z, state), self.prior_variance(z.to(state.z.dtype))
        for sets in self._sets_in_use(state).split(self._step(self._held(z, state))):
            means, explained = self._predict(compared, state, sets)
            left = (prior[:, state.origin[sets]] - explained.square().sum(-2)).clamp(min=0)
            variances = (left + state.noise[sets, None])[..., None]
            yield self._normals_of(means, variances, state, sets)

    def _normals_of(self, means, variances, state, sets):
        """Shares, means and variances for each power, broadcast to (B, K, W, N, C)."""
        return self._shares(state)[:, sets, None], means[:, :, None], variances[:, :, None]

    def _moments(self, share, means, variances, state):
        """Parts of ``_mixed`` for these normal distributions, (B, K * W, N, C)."""
        share, means, variances = (part.flatten(1, 2) for part in (share, means, variances))
        return share, means, means, variances

    def _predict(self, compared, state, sets):
        """Means (B, K, N, C), and factor^-1 k_n (B, K, L, N)."""
        cross = self._cross(compared, state, sets)
        explained = torch.linalg.solve_triangular(state.factor[:, sets], cross.mT, upper=False)
        return cross @ state.weights[:, sets], explained

    def _predict_jointly(self, compared, of_rows, state, sets):
        """Means (B, 1, N, C) under one set, and the rows' covariance (B, N, N), noise included."""
        means, explained = self._predict(compared, state, sets)
        left = (self.kernel_of(of_rows, state.origin[sets]) - explained.mT @ explained)[:, 0]
        left = left + state.noise[sets] * torch.eye(left.shape[-1]).to(left)
        # For rows far apart, rounding may leave less than the noise.
        left.diagonal(dim1=-2, dim2=-1).clamp_(min=state.noise[sets])
        return means, left

    def _compared(self, z, state):
        """Compare rows with the labelled ones."""
        return self.compare(z.to(state.z.dtype), state.z, state.known)

    def _cross(self, compared, state, sets):
        """Kernels of rows with the labelled ones, (B, K, N, L)."""
        kernels = self.kernel_of(compared, state.origin[sets])
        return kernels.masked_fill(~state.known[:, None, None], 0)

    @staticmethod
    def _shares(state):
        """Posterior of the sets of hyperparameters, (B, K, 1, 1)."""
        return state.log_posterior.exp()[..., None, None]

    @staticmethod
    def _sets_in_use(state):
        """Sets of hyperparameters that weigh more than rounding in some task of the batch.

        With hundreds of labelled rows there are one or two.
        """
        share = state.log_posterior.exp()
        return (share > torch.finfo(share.dtype).eps).any(0).nonzero()[:, 0]

    def _held(self, z, state):
        """Entries of the largest tensor per set of hyperparameters when predicting rows."""
        return len(z) * z.shape[1] * state.z.shape[1]

    @staticmethod
    def _step(n_entries):
        """Number of sets computed at once, if each needs several tensors of ``n_entries``."""
        return max(AT_ONCE // max(n_entries, 1), 1)


def joined(solved):
    """Concatenate solutions for a few sets at a time to those of all sets."""
    return [torch.cat(part, dim=1) for part in zip(*solved, strict=True)]


def _rbf(distances, log_scale, log_variance):
    """RBF kernels of squared distances (B, I, J) by K length scales and variances: (B, K, I, J).

    In place after the first product: with thousands of rows, memory costs more than arithmetic.
    """
    factor = -0.5 * (-2 * log_scale).exp()[:, None, None]
    return (distances[:, None] * factor).add_(log_variance[:, None, None]).exp_()


class AttributeGaussianProcess(GaussianProcess):
    """Gaussian process on embeddings and on the attributes themselves.

    To the RBF kernel of Eq. (11) this adds a linear and an RBF kernel on the last channel of the
    embedding, in which a backbone with ``attributes=True`` passes on the standardised attributes,
    so the network need not find a simple function of them itself. Amplitudes and the second length
    scale are learned while meta-training. Not in the paper.

    Parameters
    ----------
    n_kernels, length_scale, noise, jitter
        As in :class:`GaussianProcess`.

    Attributes
    ----------
    log_linear, log_direct, log_direct_scale : Parameter of shape (n_kernels,)
        Logarithms of the linear kernel's variance, and of the variance and the length scale of the
        RBF kernel of attributes.
    """

    def __init__(self, *, n_kernels=8, length_scale=8.0, noise=0.1, jitter=1e-4):
        super().__init__(n_kernels=n_kernels, length_scale=length_scale, noise=noise, jitter=jitter)
        self.log_linear = nn.Parameter(torch.linspace(math.log(0.1), math.log(0.5), n_kernels))
        self.log_direct = nn.Parameter(torch.full((n_kernels,), math.log(0.1)))
        self.log_direct_scale = nn.Parameter(torch.zeros(n_kernels))

    def compare(self, a, b, known=None):
        """As in :class:`GaussianProcess`, and products and distances of the attributes."""
        u, v = a[..., -1], b[..., -1]
        of_embeddings = super().compare(a[..., :-1], b[..., :-1], known)
        return *of_embeddings, u @ v.transpose(1, 2), squared_distances(u, v, known)

    def kernel_of(self, compared, sets=slice(None)):
        """Sum of three kernels of rows that were compared: (B, K, I, J)."""
        *of_embeddings, products, distances = compared
        linear = products[:, None] * self.log_linear[sets].exp()[:, None, None]
        direct = _rbf(distances, self.log_direct_scale[sets], self.log_direct[sets])
        return linear.add_(direct).add_(super().kernel_of(of_embeddings, sets))

    def prior_variance(self, z):
        """Kernels of rows (B, I, M, H) with themselves: (B, K, I)."""
        linear = z[..., -1].square().sum(-1)[:, None] * self.log_linear.exp()[:, None]
        return super().prior_variance(z) + linear + self.log_direct.exp()[:, None]
