"""Methods of benchmarks/mixtures.py: scikit-learn's, seeding and EM without a network, and ours.

A method is a function of a list of sets of points (n, d) and the number of components. It returns
one batched Mixture in the units of the points.
"""

import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from sklearn_meta.heads.gaussian_mixture import (
    Mixture,
    em,
    farthest_points,
    log_joint,
    log_likelihood,
    m_step,
)
from sklearn_meta.mixture import AmortizedGMM

#: Smallest variance, in units of the variance of the column.
FLOOR = 1e-6

#: Number of sets of similar size that seeding and EM take at once; they fit into a cache.
BATCH = 50

#: Pseudo-observations per component: of the pooled covariance, and of the weight.
PENALTY = 6.0, 1.0


def padded(sets):
    """Return points (B, N, D), zero at padding, and their mask (B, N)."""
    x = np.zeros((len(sets), max(map(len, sets)), sets[0].shape[1]))
    mask = np.zeros(x.shape[:2], dtype=bool)
    for b, X in enumerate(sets):
        x[b, : len(X)], mask[b, : len(X)] = X, True
    return torch.from_numpy(x), torch.from_numpy(mask)


def moments(x, mask):
    """Return means and variances of the columns of each set, (B, 1, D)."""
    share = mask[..., None] / mask.sum(1)[:, None, None]
    mean = (x * share).sum(1, keepdim=True)
    return mean, ((x - mean).square() * share).sum(1, keepdim=True)


def stacked(weights, means, covariances):
    """Stack parameters, lists of one array per set, to a Mixture."""
    weights, means, covariances = map(np.stack, (weights, means, covariances))
    if covariances.ndim < 3:  # spherical
        covariances = np.broadcast_to(covariances[..., None], means.shape).copy()
    return Mixture(*map(torch.from_numpy, (np.log(weights), means, covariances)))


# scikit-learn


def scikit_learns(make, **parameters):
    """Return a method that fits an estimator of scikit-learn to one set after the other."""

    def fit(sets, k):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = [make(n_components=k, random_state=0, **parameters).fit(X) for X in sets]
        return _of_estimators(fitted)

    return fit


def _of_estimators(fitted):
    return stacked(
        [m.weights_ for m in fitted], [m.means_ for m in fitted], [m.covariances_ for m in fitted]
    )


# Seeding and batched EM: the controls


def seeding(n_steps, covariance_type, penalised=False):
    """Return a method without a network: farthest-point seeds, then steps of EM, by batches.

    Parameters
    ----------
    n_steps : int
    covariance_type : {"diag", "full"}
    penalised : bool
        Whether each component's covariance is shrunk towards the pooled one, and the weights
        towards equal ones: a maximum a posteriori estimate, as in Fraley and Raftery.
    """

    def fit(sets, k):
        order = sorted(range(len(sets)), key=lambda i: len(sets[i]))
        parts = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
        found = [_seeded_batch([sets[i] for i in part], k) for part in parts]
        position = torch.tensor(np.argsort(order))
        return Mixture(*(torch.cat(values)[position] for values in zip(*found)))

    def _seeded_batch(sets, k):
        x, mask = padded(sets)
        mean, variance = moments(x, mask)
        scale = variance.sqrt().masked_fill(variance == 0, 1)
        x = ((x - mean) / scale).masked_fill(~mask[..., None], 0)
        floor = x.new_full((len(sets), x.shape[2]), FLOOR)
        if penalised:
            mixture = _penalised(x, mask, _hard(x, mask, k), covariance_type, floor)
            for _ in range(n_steps):
                r = log_joint(x, mixture).softmax(-1)
                mixture = _penalised(x, mask, r, covariance_type, floor)
        else:
            mixture = m_step(x, mask, _hard(x, mask, k), covariance_type, floor)
            mixture = em(x, mask, mixture, n_steps, covariance_type, floor)
        squares = scale.mT * scale if covariance_type == "full" else scale.square()[:, 0]
        return Mixture(
            mixture.log_weights,
            mixture.means * scale + mean,
            mixture.covariances * squares[:, None],
        )

    return fit


def _hard(x, mask, k):
    """Hard responsibilities: each point belongs to the nearest seed."""
    seeds = farthest_points(x, mask, k)
    seeds = x.gather(1, seeds[..., None].expand(-1, -1, x.shape[2]))
    distances = (x[:, :, None] - seeds[:, None]).square().sum(-1)
    return torch.nn.functional.one_hot(distances.argmin(-1), k).to(x.dtype)


def _penalised(x, mask, responsibilities, covariance_type, floor):
    """M-step of the penalised likelihood; the floor applies before shrinkage."""
    shrinkage, share = PENALTY
    mixture = m_step(x, mask, responsibilities, covariance_type, floor)
    counts = (responsibilities * mask[..., None]).sum(1)  # (B, K)
    covariances = mixture.covariances
    pooled = torch.einsum("bk,bk...->b...", mixture.log_weights.exp(), covariances)
    own = counts.view(*counts.shape, *[1] * (covariances.ndim - 2))
    covariances = (own * covariances + shrinkage * pooled[:, None]) / (own + shrinkage)
    return Mixture((counts + share).log().log_softmax(-1), mixture.means, covariances)


# Ours, and the oracle


def amortised(weights, **parameters):
    """Return AmortizedGMM with these weights as a method; all sets are fitted in one call."""
    name = "default_mixture" if weights == "default" else weights
    model = AmortizedGMM.from_pretrained(name, device="cpu", **parameters)
    return lambda sets, k: _of_estimators(model.set_params(n_components=k).fit_batch(sets))


def oracle(sets):
    """Return the mixtures that the points come from; for real points, those of the true labels."""
    if sets[0].truth is not None:
        return stacked(*zip(*(s.truth for s in sets)))
    x, mask = padded([s.X for s in sets])
    k = max(s.labels.max() for s in sets) + 1
    labels = torch.zeros(mask.shape, dtype=torch.int64)
    for b, s in enumerate(sets):
        labels[b, : len(s.X)] = torch.from_numpy(s.labels)
    one_hot = torch.nn.functional.one_hot(labels, k).double()
    return m_step(x, mask, one_hot, "diag", FLOOR * moments(x, mask)[1][:, 0].clamp(min=FLOOR))


# Scores, which are the rows of the tables


def scores_of(mixture, sets):
    """Score the mixtures of some sets.

    Parameters
    ----------
    mixture : Mixture
    sets : list of PointSet

    Returns
    -------
    dict of str to ndarray of shape (n_sets,)
        ll0, ll1: mean log-likelihood of the points, before and after one more step of EM (LL0/data
        and LL1/data in paper 001); held_out: mean log-likelihood of the fresh points before that
        step; ari, ari1: adjusted Rand index of the points' likeliest components, before and after.
    """
    (x, mask), (fresh, fresh_mask) = padded([s.X for s in sets]), padded([s.fresh for s in sets])
    kind = "full" if mixture.covariances.ndim == 4 else "diag"
    floor = FLOOR * moments(x, mask)[1][:, 0].clamp(min=FLOOR)
    refined = em(x, mask, mixture, 1, kind, floor)
    return {
        "ll0": log_likelihood(x, mask, mixture).numpy(),
        "ll1": log_likelihood(x, mask, refined).numpy(),
        "held_out": log_likelihood(fresh, fresh_mask, mixture).numpy(),
        "ari": _agreement(x, mixture, sets),
        "ari1": _agreement(x, refined, sets),
    }


def _agreement(x, mixture, sets):
    labels = log_joint(x, mixture).argmax(-1).numpy()
    return np.array(
        [adjusted_rand_score(s.labels, own[: len(s.X)]) for s, own in zip(sets, labels)]
    )


#: scikit-learn's methods by name.
PEERS = {
    "GaussianMixture diag": scikit_learns(GaussianMixture, covariance_type="diag"),
    "GaussianMixture diag n_init=10": scikit_learns(
        GaussianMixture, covariance_type="diag", n_init=10
    ),
    "GaussianMixture full": scikit_learns(GaussianMixture),
    "GaussianMixture full n_init=10": scikit_learns(GaussianMixture, n_init=10),
    "BayesianGaussianMixture diag": scikit_learns(BayesianGaussianMixture, covariance_type="diag"),
    "BayesianGaussianMixture full": scikit_learns(BayesianGaussianMixture),
}
CONTROLS = {
    **{f"seeding + EM {n} diag": seeding(n, "diag") for n in (1, 5, 20)},
    **{f"seeding + MAP-EM {n} diag": seeding(n, "diag", penalised=True) for n in (5, 20)},
    "seeding + EM 20 full": seeding(20, "full"),
    "seeding + MAP-EM 20 full": seeding(20, "full", penalised=True),
}


def ours(weights, steps=(1,), n_init=8):
    """Return the methods of AmortizedGMM by name.

    Parameters
    ----------
    weights : list of str
        "default", or names and paths for ``from_pretrained``.
    steps : sequence of int
        Numbers of subsequent EM steps; there is always a method without such steps.
    n_init : int
        Number of starts of a further method.
    """
    methods = {}
    for name in weights:
        label = "AmortizedGMM" if name == "default" else f"AmortizedGMM {Path(name).stem}"
        for kind in ("diag", "full"):
            methods[f"{label} {kind}"] = amortised(name, covariance_type=kind)
            for n in steps:
                method = amortised(name, covariance_type=kind, refine_steps=n)
                methods[f"{label} {kind} + EM {n}"] = method
            method = amortised(name, covariance_type=kind, n_init=n_init)
            methods[f"{label} {kind} n_init={n_init}"] = method
    return methods
