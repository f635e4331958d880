"""Fits of mixtures to many sets of points at once: units, padded batches, and results."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import entr
from scipy.stats.qmc import Halton
from sklearn.mixture import GaussianMixture

from .heads.gaussian_mixture import (
    Mixture,
    em,
    log_likelihood,
    precision_factors,
    within_bounds,
)
from .tasks.mixtures import COVARIANCE_TYPES

#: Values that differ by this share of their size, or less, differ only by rounding.
ROUNDING = 4 * np.finfo(float).eps

#: Minimum variance of a component, as a fraction of the variance of its column.
FLOOR = 1e-6

#: Bound on sets x points x columns x components of a padded batch. A CPU is fastest on what its
#: cache holds, a GPU on what fills it.
MAX_CELLS = {"cpu": 2e5, "cuda": 2e7}


class Units(NamedTuple):
    """The units of the columns of some points.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
        Mean and standard deviation of each column, or one common deviation; a constant column has
        deviation 1.
    constant : ndarray of shape (n_features,), bool
        Whether a column is constant.
    """

    centre: np.ndarray
    scale: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, X, common):
        """Compute the units of points, whose values may be anything within float64.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        common : bool
            Whether all columns share one scale, the root of their mean variance.

        Returns
        -------
        Units

        Raises
        ------
        ValueError
            If the square of a scale is close to the limits of float64, or beyond them.
        """
        # Sorted, so that the order of the points does not change sums; contiguous, so that the
        # memory order of X does not, either.
        columns = np.sort(np.ascontiguousarray(X.T), axis=1)
        low, high = columns[:, 0], columns[:, -1]
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        # Treat values that differ only by rounding as equal.
        constant = half <= ROUNDING * np.abs(middle)
        half = np.where(constant, 1, half)
        # Reduce values to [-1, 1], so that squares stay in range.
        reduced = (columns - middle[:, None]) / half[:, None]
        mean = np.where(constant, 0, _mirrored_mean(reduced))
        variance = _mirrored_mean((reduced - mean[:, None]) ** 2)
        scale = np.where(constant, 1, half * np.sqrt(variance))
        if common:
            largest = scale[~constant].max(initial=0) or 1
            scale = np.where(constant, 0, scale) / largest
            scale = np.full_like(scale, largest * (np.sqrt((scale**2).mean()) or 1))
        if scale.min() < 1e-150 or scale.max() > 1e150:
            raise ValueError(
                "The variances of X are too small or too large for float64: divide each column "
                "by its scale, as sklearn.preprocessing.StandardScaler does."
            )
        return cls(middle + mean * half, scale, constant)

    @property
    def log_volume(self):
        """Logarithm of the volume of a unit cube, by which a standardised density is divided."""
        return np.log(self.scale).sum()

    def standardise(self, X):
        """Convert points to these units: what a constant differs from by rounding alone is zero."""
        away = X - self.centre
        rounding = 2 * ROUNDING * np.abs(self.centre)  # twice, since the centre is rounded, too
        away[self.constant & (np.abs(away) <= rounding)] = 0
        return away / self.scale


def _mirrored_mean(columns):
    """Mean of each sorted column, with the same rounding if all signs change."""
    return (columns.mean(1) + columns[:, ::-1].mean(1)) / 2


class Job(NamedTuple):
    """One mixture to fit.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Standardised points.
    units : Units
        Units of these points.
    n_components : int
    """

    X: np.ndarray
    units: Units
    n_components: int


def first_ranks(n_init):
    """Position of the first component of each start, as a rank between middle and rim of a set.

    The ranks are halves, quarters, eighths and so on (van der Corput), so that a larger number
    repeats the starts of a smaller one.

    Parameters
    ----------
    n_init : int
        Number of starts.

    Returns
    -------
    list of float
    """
    return Halton(1, scramble=False).fast_forward(1).random(n_init)[:, 0].tolist()


def fit_jobs(jobs, learner, *, n_init, covariance_type, refine_steps):
    """Fit mixtures to many sets, and keep for each the likeliest of several starts.

    For full covariances, every start reads the columns twice: as they are, and decorrelated. The
    network draws components toward uncorrelated ones; after decorrelation it draws them toward the
    covariance of all points.

    Parameters
    ----------
    jobs : list of Job
    learner : MixtureLearner
        On the device and in the dtype to use.
    n_init : int
        Number of starts.
    covariance_type : {"diag", "full", "spherical"}
    refine_steps : int
        See :func:`fit_once`.

    Returns
    -------
    list of GaussianMixture
        scikit-learn's estimator with the parameters of each mixture, in standardised units.
    """
    everything, tries = range(len(jobs)), [[] for _ in jobs]
    full = covariance_type == "full"
    correlated = [i for i in everything if full and may_be_decorrelated(jobs[i])]
    for first in first_ranks(n_init):
        for chosen, decorrelated in ((everything, False), (correlated, True)):
            some = [jobs[i] for i in chosen]
            fitted = fit_once(some, learner, first, decorrelated, covariance_type, refine_steps)
            for i, mixture in zip(chosen, fitted, strict=True):
                tries[i].append(mixture)
    return [likeliest(of_job, len(job.X), full) for job, of_job in zip(jobs, tries, strict=True)]


def likeliest(fitted, n_points, full):
    """Choose the likeliest mixture of a set.

    Among mixtures that differ only by rounding the first wins, so that a set gets the same mixture
    alone and in a batch. With few points in many columns, one full covariance of nearly all points
    is likelier than several of fewer points, but worse for new points. So with full covariances
    each missing component costs what the parameters of one gain by chance (Akaike, 1974):
    D (D + 3) / 2n nats per point. The effective number of components is the exponential of the
    entropy of the weights; the others are missing.

    Parameters
    ----------
    fitted : list of GaussianMixture
    n_points : int
    full : bool
        Whether covariances are full.

    Returns
    -------
    GaussianMixture
    """

    def worth(mixture):
        if not full:
            return mixture.lower_bound_
        n_components, n_columns = mixture.means_.shape
        missing = n_components - np.exp(entr(mixture.weights_).sum())  # faster than scipy.stats
        return mixture.lower_bound_ - missing * n_columns * (n_columns + 3) / (2 * n_points)

    best, highest = fitted[0], worth(fitted[0])
    for mixture in fitted[1:]:
        if (value := worth(mixture)) > highest + 1e-6:
            best, highest = mixture, value
    return best


def fit_once(jobs, learner, first, decorrelated, covariance_type, refine_steps):
    """Fit mixtures to many sets, with one forward pass per group of sets of similar size.

    Parameters
    ----------
    jobs : list of Job
    learner : MixtureLearner
        On the device and in the dtype to use.
    first : float
        See :meth:`sklearn_meta.mixture_learner.MixtureLearner.forward`.
    decorrelated : bool
        Whether to decorrelate the columns before the network reads the points.
    covariance_type : {"diag", "full", "spherical"}
    refine_steps : int
        Number of EM steps that follow, in float64.

    Returns
    -------
    list of GaussianMixture
        scikit-learn's estimator with the parameters of each mixture, in standardised units.
    """
    fitted, like = [None] * len(jobs), next(learner.parameters())
    for group in groups_of_like_size(jobs, MAX_CELLS.get(like.device.type, MAX_CELLS["cuda"])):
        x, mask, varied, n_components = (
            array.to(like.device) for array in _padded([jobs[i] for i in group])
        )
        if covariance_type == "spherical":  # constant columns count in the common variance
            varied = torch.ones_like(varied)
        with torch.inference_mode():
            kind = torch.tensor(COVARIANCE_TYPES.index(covariance_type))
            points = x
            if decorrelated:
                into, back = decorrelation(x, mask, varied)
                points = x @ into
            mixture = learner(points.to(like.dtype), mask, varied, n_components, kind, first)[-2]
            log_weights, means, covariances = (value.double() for value in mixture)
            if decorrelated:
                means, covariances = means @ back, back[:, None] @ covariances @ back[:, None]
            log_weights = log_weights.log_softmax(-1)  # weights sum to one in float64, too
            mixture = Mixture(log_weights, means, covariances)
            floor = x.new_full(varied.shape, FLOOR)
            mixture = within_bounds(mixture, covariance_type, floor, varied)
            mixture = em(x, mask, mixture, refine_steps, covariance_type, floor, varied)
            mixture = _with_constant_columns(mixture, varied)
            values = *mixture, precision_factors(mixture), log_likelihood(x, mask, mixture)
        arrays = (value.cpu().numpy() for value in values)
        for i, parameters in zip(group, zip(*arrays, strict=True), strict=True):
            fitted[i] = _as_scikit_learns(covariance_type, *parameters)
    return fitted


def may_be_decorrelated(job):
    """Whether a set has several columns that vary, and none of these has a spike.

    A spike is a value that many points share: two neighbouring octiles are equal. Decorrelation
    would blur it by other columns until it looks like a component. With fewer than 17 points the
    octiles are neighbouring points, so spikes cannot be detected, and the answer is no.

    Parameters
    ----------
    job : Job

    Returns
    -------
    bool
    """
    X = job.X[:, ~job.units.constant]
    if X.shape[1] < 2 or len(X) < 17:
        return False
    octiles = np.sort(X, axis=0)[np.arange(9) * (len(X) - 1) // 8]
    return bool((np.diff(octiles, axis=0) > 0).all())


def decorrelation(x, mask, varied):
    """Matrices that make the covariance of points the identity, and their inverses.

    The covariance is first shrunk toward the identity as in Ledoit and Wolf, since few points have
    no variance at all in most directions. The share of the identity is the estimated mean square
    error of the sample covariance S divided by |S - I|^2, in squared Frobenius norms.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
        Each column has zero mean and unit variance over the points of its set. Zero at padding.
    mask : bool tensor of shape (B, N)
    varied : bool tensor of shape (B, D)
        Columns to decorrelate; the others stay as they are.

    Returns
    -------
    into, back : tensor of shape (B, D, D)
        Symmetric, so that the order and the signs of columns do not matter.

    References
    ----------
    Ledoit and Wolf (2004), A well-conditioned estimator for large-dimensional covariance matrices.
    """
    x = x.masked_fill(~varied[:, None], 0)
    count = mask.sum(1)[:, None, None]
    identity = torch.diag_embed(varied.to(x.dtype))
    covariance = x.mT @ x / count
    squares = x.square().sum(-1).square().sum(1)[:, None, None] / count  # mean of |x|^4
    error = (squares - covariance.square().sum((1, 2), keepdim=True)) / count
    distance = (covariance - identity).square().sum((1, 2), keepdim=True)
    share = (error / distance.clamp(min=torch.finfo(x.dtype).tiny)).clamp(0, 1)
    shrunk = torch.lerp(covariance, identity, share)
    values, vectors = torch.linalg.eigh(shrunk + torch.diag_embed((~varied).to(x.dtype)))
    root = values.clamp(min=FLOOR).sqrt()[:, None]
    return vectors / root @ vectors.mT, vectors * root @ vectors.mT


def own_order(X):
    """Positions that sort standardised points, whatever order they came in.

    A component starts from the point farthest from the others, and among several from the first of
    them. The first sort keys do not change if a column changes its sign or its position.
    """
    sizes = np.round(np.abs(X), 9)  # another order rounds sums differently
    largest = sizes.max(1)
    order = largest.argsort()
    if (np.diff(largest[order]) > 0).all():  # nearly always, and several times faster
        return order
    return np.lexsort((*X.T, *np.sort(sizes, axis=1).T))


def groups_of_like_size(jobs, max_cells):
    """Positions of jobs in groups that need little padding, with equal columns and components.

    Parameters
    ----------
    jobs : list of Job
    max_cells : int
        Bound on jobs x points x columns x components of a padded group.

    Yields
    ------
    list of int
    """
    sizes = [(job.X.shape[1], job.n_components, len(job.X)) for job in jobs]
    group = []
    for i in sorted(range(len(jobs)), key=sizes.__getitem__):
        first, size = sizes[group[0] if group else i], sizes[i]
        cells = (len(group) + 1) * np.prod(size)
        if group and (size[:2] != first[:2] or size[2] > 1.25 * first[2] or cells > max_cells):
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def _padded(jobs):
    """Points (B, N, D), their mask (B, N), columns to read (B, D), numbers of components (B,)."""
    x = np.zeros((len(jobs), max(len(job.X) for job in jobs), jobs[0].X.shape[1]))
    mask = np.zeros(x.shape[:2], dtype=bool)
    for b, job in enumerate(jobs):
        x[b, : len(job.X)], mask[b, : len(job.X)] = job.X, True
    # Skip constant columns, unless there are no others.
    varied = np.stack([~job.units.constant | job.units.constant.all() for job in jobs])
    n_components = np.array([job.n_components for job in jobs])
    return [torch.from_numpy(array) for array in (x, mask, varied, n_components)]


def _with_constant_columns(mixture, varied):
    """Set the variance of columns that were not read to the minimum; means are zero there."""
    left_out = ~varied[:, None]
    if mixture.covariances.ndim == 4:
        diagonal = torch.eye(varied.shape[1], dtype=torch.bool, device=varied.device)
        left_out = left_out[..., None] & diagonal
    return mixture._replace(covariances=mixture.covariances.masked_fill(left_out, FLOOR))


def _as_scikit_learns(covariance_type, log_weights, means, covariances, factors, likelihood):
    """Store the parameters in scikit-learn's estimator, which has all methods of a mixture."""
    if covariance_type == "spherical":
        covariances, factors = covariances[:, 0], factors[:, 0]
    mixture = GaussianMixture(len(means), covariance_type=covariance_type)
    # A component that EM left without points gets a tiny weight: zero has no logarithm.
    mixture.weights_ = np.exp(log_weights).clip(min=np.finfo(float).tiny)
    mixture.means_, mixture.covariances_ = means, covariances
    mixture.precisions_cholesky_ = factors
    mixture.lower_bound_ = float(likelihood)
    return mixture
