"""Mixtures of Gaussians in closed form: densities, EM, seeds (paper 001, section 4.3).

All functions work on a batch of sets of different size, and gradients flow through them: a network
that assigns points to components is trained through :func:`m_step` and :func:`log_likelihood`.

Shape legend: B sets, N points, D columns (dimensions), K components. ``mask`` (B, N) is True at
points and False at padding, ``columns`` (B, D) is True at columns that are not padding; None
means all of them. Values at padding, NaN included, have no effect.
"""

import math
from typing import NamedTuple

import torch

from .base import factorise

#: Kinds of covariance, named as in :class:`sklearn.mixture.GaussianMixture`.
COVARIANCE_TYPES = ("diag", "full", "spherical")


class Mixture(NamedTuple):
    """The parameters of a mixture of Gaussians for each set of a batch.

    Parameters
    ----------
    log_weights : tensor of shape (B, K)
        Logarithms of the components' weights, -inf at absent components.
    means : tensor of shape (B, K, D)
        Zero at padded columns and absent components.
    covariances : tensor of shape (B, K, D) or (B, K, D, D)
        Variances of diagonal and spherical components, or covariance matrices of full ones; one,
        or the identity, at padded columns and absent components.
    """

    log_weights: torch.Tensor
    means: torch.Tensor
    covariances: torch.Tensor


def log_joint(x, mixture, columns=None):
    """Logarithm of weight times density of every point under every component.

    These are the logarithms of the summands of Eq. (14) of paper 001; their softmax over the
    components are the responsibilities of EM.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
    mixture : Mixture
    columns : bool tensor of shape (B, D), default=None

    Returns
    -------
    tensor of shape (B, N, K)
        -inf at absent components.
    """
    columns = _all_columns(x) if columns is None else columns
    with torch.autocast(x.device.type, enabled=False):
        deviations = _deviations(x, mixture.means, columns)  # (B, K, D, N)
        if mixture.covariances.ndim == 4:
            factor = factorise(_identity_at_padding(mixture.covariances, columns))
            whitened = torch.linalg.solve_triangular(factor, deviations, upper=False)
            log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        else:
            variances = mixture.covariances.masked_fill(~columns[:, None], 1)
            whitened = deviations * variances.rsqrt()[..., None]
            log_det = variances.log().sum(-1)
        count = columns.sum(1, keepdim=True).to(log_det.dtype)
        constants = log_det + count * math.log(2 * math.pi)  # (B, K)
        log_density = -0.5 * (whitened.square().sum(2) + constants[..., None])
        return (log_density + mixture.log_weights[..., None]).transpose(1, 2)


def log_likelihood(x, mask, mixture, columns=None):
    """Mean log-likelihood of the points of each set: Eq. (14) of paper 001, divided by n.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
    mask : bool tensor of shape (B, N)
    mixture : Mixture
    columns : bool tensor of shape (B, D), default=None

    Returns
    -------
    tensor of shape (B,)
        Zero for a set without points.
    """
    logits = log_joint(x.masked_fill(~mask[..., None], 0), mixture, columns)
    log_density = logits.transpose(1, 2).logsumexp(1)  # in memory order
    return log_density.masked_fill(~mask, 0).sum(1) / mask.sum(1).clamp(min=1)


def m_step(x, mask, responsibilities, covariance_type, floor, columns=None):
    """Maximum likelihood for given responsibilities, with covariances bounded from below.

    Variances are at least ``floor``; covariance matrices exceed its diagonal matrix by a positive
    semidefinite one. That bound is part of the maximisation, not added to its result (as
    ``reg_covar`` of scikit-learn is), so no step of EM from a mixture within it lowers the
    likelihood.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
    mask : bool tensor of shape (B, N)
    responsibilities : tensor of shape (B, N, K)
        Not negative. A component is absent from the result if its responsibilities sum to zero,
        or to no more than the rounding of a single one.
    covariance_type : {"full", "diag", "spherical"}
    floor : tensor of shape (B, D)
        Minimum variance of each column, above 0; spherical components obey the largest one.
    columns : bool tensor of shape (B, D), default=None

    Returns
    -------
    Mixture

    Raises
    ------
    ValueError
        If there is no such ``covariance_type``, or a floor is not above 0.
    """
    if covariance_type not in COVARIANCE_TYPES:
        raise ValueError(
            f"covariance_type must be one of {COVARIANCE_TYPES}, got {covariance_type!r}."
        )
    columns = _all_columns(x) if columns is None else columns
    x = _points(x, mask, columns)
    r = responsibilities.to(x.dtype).masked_fill(~mask[..., None], 0).transpose(1, 2)  # (B, K, N)
    counts = r.sum(-1)
    present = counts > torch.finfo(x.dtype).eps
    # Dividing by the count first keeps all numbers, and their gradients, in range.
    shares = r / counts.masked_fill(~present, math.inf)[..., None]
    with torch.autocast(x.device.type, enabled=False):
        means = shares @ x
        deviations = _deviations(x, means, columns)  # (B, K, D, N)
        if covariance_type == "full":
            covariances = (deviations * shares[:, :, None]) @ deviations.transpose(-1, -2)
        else:
            covariances = (deviations.square() @ shares[..., None]).squeeze(-1)  # (B, K, D)
    log_weights = counts.masked_fill(~present, 1).log().masked_fill(~present, -math.inf)
    total = counts.masked_fill(~present, 0).sum(1, keepdim=True)
    log_weights = log_weights - total.masked_fill(total == 0, 1).log()
    mixture = Mixture(log_weights, means, covariances)
    return within_bounds(mixture, covariance_type, floor, columns)


def within_bounds(mixture, covariance_type, floor, columns):
    """Maximum likelihood covariances within the bounds of :func:`m_step`, from unbounded ones.

    Parameters
    ----------
    mixture : Mixture
        Covariances are matrices for "full", variances of each column otherwise.
    covariance_type, floor, columns
        As in :func:`m_step`.

    Returns
    -------
    Mixture
        Spherical components have the mean of their variances in every column.

    Raises
    ------
    ValueError
        If a floor is not above 0.
    """
    covariances = mixture.covariances
    present = (mixture.log_weights > -math.inf)[..., None]
    floor = floor.to(covariances.dtype).masked_fill(~columns, 1)
    if not (floor > 0).all():
        raise ValueError(
            "floor must be above 0 in every column: without it, equal points have no density."
        )
    if covariance_type == "full":
        # In units of the floor, the bound is the identity.
        unit = (floor[:, :, None] * floor[:, None]).sqrt()[:, None]
        covariances = _identity_at_padding(_symmetric(covariances), columns)
        covariances = _eigenvalues_at_least_one(covariances / unit) * unit
        covariances = torch.where(present[..., None], covariances, _identity(covariances))
    else:
        if covariance_type == "spherical":
            count = columns.sum(1).clamp(min=1)[:, None, None]
            covariances = covariances.masked_fill(~columns[:, None], 0).sum(-1, keepdim=True)
            covariances = covariances / count
            floor = floor.masked_fill(~columns, 0).amax(1, keepdim=True)
        covariances = torch.maximum(covariances, floor[:, None]).expand_as(mixture.means)
        covariances = covariances.masked_fill(~(columns[:, None] & present), 1)
    return mixture._replace(covariances=covariances)


def em(x, mask, mixture, n_steps, covariance_type, floor, columns=None):
    """Steps of expectation-maximisation.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
    mask : bool tensor of shape (B, N)
    mixture : Mixture
        Where to start. If its covariances are within the bounds of :func:`m_step` and of the given
        type, or of a narrower one, no step lowers the likelihood.
    n_steps : int
        Zero returns the mixture as it is.
    covariance_type, floor, columns
        As in :func:`m_step`.

    Returns
    -------
    Mixture
    """
    x = x.masked_fill(~mask[..., None], 0)
    for _ in range(n_steps):
        logits = log_joint(x, mixture, columns).transpose(1, 2)  # in memory order: faster
        r = logits.softmax(1).transpose(1, 2)
        mixture = m_step(x, mask, r, covariance_type, floor, columns)
    return mixture


def precision_factors(mixture):
    """Factors F of the precisions, F F' = covariance^-1, scikit-learn's ``precisions_cholesky_``.

    Parameters
    ----------
    mixture : Mixture

    Returns
    -------
    tensor of shape (B, K, D) or (B, K, D, D)
        Inverses of standard deviations, or upper triangular matrices.
    """
    covariances = mixture.covariances
    if covariances.ndim == 3:
        return covariances.rsqrt()
    identity = _identity(covariances).expand_as(covariances)
    return torch.linalg.solve_triangular(factorise(covariances), identity, upper=False).mT


def farthest_points(x, mask, n_components, columns=None, first=None):
    """Indices of points far apart: the farthest from the mean, then the farthest from those chosen.

    Among points equally far up to rounding, such as duplicates, the first is taken. Once every
    point coincides with a chosen one, further choices are repetitions.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
    mask : bool tensor of shape (B, N)
    n_components : int, or int tensor of shape (B,)
        Number of points to choose in each set; K is the largest. If a set needs fewer, they are the
        first ones.
    columns : bool tensor of shape (B, D), default=None
    first : int64 tensor of shape (B,), default=None
        Where to start, in place of the point farthest from the mean.

    Returns
    -------
    int64 tensor of shape (B, K)
    """
    x = _points(x, mask, columns).detach()
    if first is None:
        mean = x.sum(1, keepdim=True) / mask.sum(1).clamp(min=1)[:, None, None]
        first = _first_farthest((x - mean).square().sum(-1).masked_fill(~mask, -1))
    chosen = [first]
    nearest = x.new_full(mask.shape, math.inf).masked_fill(~mask, -1)
    for _ in range(int(torch.as_tensor(n_components).max()) - 1):
        last = x.gather(1, chosen[-1][:, None, None].expand(-1, 1, x.shape[2]))
        nearest = torch.minimum(nearest, (x - last).square().sum(-1))  # -1 stays at padding
        chosen.append(_first_farthest(nearest))
    return torch.stack(chosen, dim=1)


def _first_farthest(distances):
    """Index of the first of the largest entries, up to rounding, in each row (B, N).

    Which of equal entries is largest after rounding depends on how many points are padded.
    """
    rounding = 64 * torch.finfo(distances.dtype).eps
    largest = distances.amax(1, keepdim=True)
    return (distances >= largest * (1 - rounding)).int().argmax(1)


def _all_columns(x):
    return torch.ones(x.shape[0], x.shape[2], dtype=torch.bool, device=x.device)


def _points(x, mask, columns):
    """The points, with zeros at padded points and columns."""
    real = mask[..., None] if columns is None else mask[..., None] & columns[:, None]
    return x.masked_fill(~real, 0)


def _deviations(x, means, columns):
    """Points less means, (B, K, D, N): computed directly, since x^2 - 2 x m + m^2 cancels.

    The last axis is that of points, in memory too, which is fast for any number of columns.
    """
    x, means = (values.masked_fill(~columns[:, None], 0) for values in (x, means))
    return x.transpose(1, 2).contiguous()[:, None] - means[..., None]


def _identity_at_padding(covariances, columns):
    """Covariance matrices (B, K, D, D) with rows and columns of the identity at padding."""
    real = (columns[:, :, None] & columns[:, None])[:, None]
    return torch.where(real, covariances, _identity(covariances))


def _identity(matrices):
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def _eigenvalues_at_least_one(matrices):
    """Symmetric matrices (B, K, D, D) with eigenvalues below one raised to one."""
    # Most matrices need no change; a Cholesky factorisation shows that faster than eigenvalues.
    low = torch.linalg.cholesky_ex((matrices - _identity(matrices)).detach()).info > 0
    if not low.any():
        return matrices
    with torch.autocast(matrices.device.type, enabled=False):
        raised = _ClampEigenvalues.apply(matrices[low])
    return matrices.masked_scatter(low[..., None, None], raised)


class _ClampEigenvalues(torch.autograd.Function):
    """V L V' to V max(L, 1) V'; unlike eigh's, its gradient is finite for equal eigenvalues."""

    @staticmethod
    def forward(ctx, matrices):
        values, vectors = torch.linalg.eigh(matrices)
        ctx.save_for_backward(values, vectors)
        return _symmetric((vectors * values.clamp(min=1)[..., None, :]) @ vectors.mT)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        values, vectors = ctx.saved_tensors
        # Differences of clamped eigenvalues over differences of eigenvalues (Daleckii and Krein);
        # for equal eigenvalues, the derivative of the clamp.
        gap = values[..., :, None] - values[..., None, :]
        clamped = values.clamp(min=1)
        quotient = (clamped[..., :, None] - clamped[..., None, :]) / gap.masked_fill(gap == 0, 1)
        slope = (values > 1).to(values.dtype)[..., None].expand_as(gap)
        quotient = torch.where(gap == 0, slope, quotient)
        inner = vectors.mT @ _symmetric(gradient) @ vectors
        return _symmetric(vectors @ (quotient * inner) @ vectors.mT)


def _symmetric(matrices):
    return (matrices + matrices.mT) / 2
