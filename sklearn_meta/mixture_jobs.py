"""Mixtures of many sets of points at once: units, padded batches, and the way back."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import entropy
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

#: Least variance of a component, in units of the variance of its column.
FLOOR = 1e-6

#: Bound on sets x points x columns x components of a padded batch. A CPU is fastest on what its
#: cache holds, a GPU on what fills it.
MAX_CELLS = {"cpu": 2e5, "cuda": 2e7}


class Units(NamedTuple):
    """The units of the columns of some points.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
        Mean and standard deviation, or a common one; of a constant column, 1.
    constant : ndarray of shape (n_features,), bool
    """

    centre: np.ndarray
    scale: np.ndarray
    constant: np.ndarray

    @classmethod
    def of(cls, X, common):
        """Units of points, whose spread may be anything that float64 holds.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        common : bool
            Whether all columns have one scale, the root of their mean variance.

        Returns
        -------
        Units

        Raises
        ------
        ValueError
            If the square of a scale is not far within float64.
        """
        columns = np.ascontiguousarray(X.T)  # sums along memory are several times faster
        low, high = columns.min(1), columns.max(1)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        # What differs by rounding only is equal.
        constant = half <= 4 * np.finfo(float).eps * np.abs(middle)
        half = np.where(constant, 1, half)
        # Within -1 and 1, so that squares stay in range.
        reduced = (columns - middle[:, None]) / half[:, None]
        mean = np.where(constant, 0, reduced.mean(1))
        scale = np.where(constant, 1, half * reduced.std(1))
        if common:
            largest = scale[~constant].max(initial=0) or 1
            scale = np.where(constant, 0, scale) / largest
            scale = np.full_like(scale, largest * (np.sqrt((scale**2).mean()) or 1))
        if scale.min() < 1e-150 or scale.max() > 1e150:
            raise ValueError(
                "The variances of X are beyond float64 in its units: divide each column by its "
                "scale, as sklearn.preprocessing.StandardScaler does."
            )
        return cls(middle + mean * half, scale, constant)

    @property
    def log_volume(self):
        """Logarithm of the volume of a unit cube, which a density is to be divided by."""
        return np.log(self.scale).sum()

    def standardise(self, X, exactly=False):
        """Points in these units; ``exactly`` sets constant columns to zero, without rounding."""
        X = (X - self.centre) / self.scale
        if exactly:
            X[:, self.constant] = 0
        return X


class Job(NamedTuple):
    """A mixture to be fitted.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Standardised points.
    units : Units
        Of these points.
    n_components : int
    """

    X: np.ndarray
    units: Units
    n_components: int


def first_ranks(n_init):
    """Where the first component of each start is, as a rank between middle and rim of a set.

    Halves, quarters, eighths (van der Corput): a larger number repeats the starts of a smaller one.

    Parameters
    ----------
    n_init : int

    Returns
    -------
    list of float
    """
    return Halton(1, scramble=False).fast_forward(1).random(n_init)[:, 0].tolist()


def fit_jobs(jobs, learner, *, n_init, covariance_type, refine_steps):
    """Mixtures of many sets, of each the likeliest of some starts.

    Full covariances are read off the columns as they are, and off what is left of them without
    their correlations: the network, which draws components toward uncorrelated ones, is then wary
    of what differs from the covariance of all.

    Parameters
    ----------
    jobs : list of Job
    learner : MixtureLearner
        On the device and in the dtype.
    n_init : int
        Starts.
    covariance_type : {"diag", "full", "spherical"}
    refine_steps : int
        See :func:`fit_once`.

    Returns
    -------
    list of GaussianMixture
        scikit-learn's estimator with the parameters of each, in standardised units.
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
    """The first of those that only rounding tells apart, so that one set is fitted as many are.

    Of few points in many columns one full covariance of nearly all of them is likelier than several
    of some, and worse for other points. So each component that is missing of those the weights
    stand for, the exponential of their entropy, costs what the parameters of one gain by chance
    (Akaike, 1974): D (D + 3) / 2n nats a point.

    Parameters
    ----------
    fitted : list of GaussianMixture
    n_points : int
    full : bool
        Whether covariances are.

    Returns
    -------
    GaussianMixture
    """

    def worth(mixture):
        if not full:
            return mixture.lower_bound_
        n_components, n_columns = mixture.means_.shape
        missing = n_components - np.exp(entropy(mixture.weights_))
        return mixture.lower_bound_ - missing * n_columns * (n_columns + 3) / (2 * n_points)

    best = fitted[0]
    for mixture in fitted[1:]:
        if worth(mixture) > worth(best) + 1e-6:
            best = mixture
    return best


def fit_once(jobs, learner, first, decorrelated, covariance_type, refine_steps):
    """Mixtures of many sets by one forward pass for each group of sets of like size.

    Parameters
    ----------
    jobs : list of Job
    learner : MixtureLearner
        On the device and in the dtype.
    first : float
        See :meth:`sklearn_meta.mixture_learner.MixtureLearner.forward`.
    decorrelated : bool
        Whether the network reads points without the correlations of their columns.
    covariance_type : {"diag", "full", "spherical"}
    refine_steps : int
        Steps of EM, in float64, that follow.

    Returns
    -------
    list of GaussianMixture
        scikit-learn's estimator with the parameters of each, in standardised units.
    """
    fitted, like = [None] * len(jobs), next(learner.parameters())
    for group in groups_of_like_size(jobs, MAX_CELLS.get(like.device.type, MAX_CELLS["cuda"])):
        x, mask, varied, n_components = (
            array.to(like.device) for array in _padded([jobs[i] for i in group])
        )
        if covariance_type == "spherical":  # what is constant has its share in the variance
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
            log_weights = log_weights.log_softmax(-1)  # sum to one in float64, too
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
    """Whether the columns of a set that vary are several, and have no spike.

    A spike, a value that many points share, would be blurred by other columns until it looks like a
    component: two neighbouring octiles are equal. Of fewer than 17 points, whose octiles are
    neighbours themselves, that is not known.

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
    """Matrices that make the covariance of points the identity, and those that lead back.

    It is shrunk toward the identity as Ledoit and Wolf do, since few points have no variance at all
    in most directions: the share of the identity is the estimated mean square error of the sample
    covariance S over |S - I|^2, in squared Frobenius norms.

    Parameters
    ----------
    x : tensor of shape (B, N, D)
        Each column has zero mean and unit variance over the points of its set. Zero at padding.
    mask : bool tensor of shape (B, N)
    varied : bool tensor of shape (B, D)
        Columns to be read; the others stay as they are.

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
    """Places of standardised points in an order that is theirs, however they came.

    Where several are the farthest from the others the first of them begins a component. They are
    told apart first by what is the same if a column changes its sign or its place.
    """
    sizes = np.sort(np.round(np.abs(X), 9), axis=1)  # sums are rounded otherwise in another order
    return np.lexsort((*X.T, *sizes.T))


def groups_of_like_size(jobs, max_cells):
    """Positions of jobs in groups of equally many columns and components that pad little.

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
        group = [*group, i]
    if group:
        yield group


def _padded(jobs):
    """Points (B, N, D), their mask (B, N), columns to be read (B, D), components wanted (B,)."""
    x = np.zeros((len(jobs), max(len(job.X) for job in jobs), jobs[0].X.shape[1]))
    mask = np.zeros(x.shape[:2], dtype=bool)
    for b, job in enumerate(jobs):
        x[b, : len(job.X)], mask[b, : len(job.X)] = job.X, True
    # Nothing can be read off a constant column, unless there is no other.
    varied = np.stack([~job.units.constant | job.units.constant.all() for job in jobs])
    n_components = np.array([job.n_components for job in jobs])
    return [torch.from_numpy(array) for array in (x, mask, varied, n_components)]


def _with_constant_columns(mixture, varied):
    """The mixture with the least variance in columns that were not read; means are zero there."""
    left_out = ~varied[:, None]
    if mixture.covariances.ndim == 4:
        diagonal = torch.eye(varied.shape[1], dtype=torch.bool, device=varied.device)
        left_out = left_out[..., None] & diagonal
    return mixture._replace(covariances=mixture.covariances.masked_fill(left_out, FLOOR))


def _as_scikit_learns(covariance_type, log_weights, means, covariances, factors, likelihood):
    """Parameters as scikit-learn's estimator, which knows what can be asked of a mixture."""
    if covariance_type == "spherical":
        covariances, factors = covariances[:, 0], factors[:, 0]
    mixture = GaussianMixture(len(means), covariance_type=covariance_type)
    # A component that EM left without points is next to impossible: zero has no logarithm.
    mixture.weights_ = np.exp(log_weights).clip(min=np.finfo(float).tiny)
    mixture.means_, mixture.covariances_ = means, covariances
    mixture.precisions_cholesky_ = factors
    mixture.lower_bound_ = float(likelihood)
    return mixture
