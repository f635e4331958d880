"""Gaussian process of warped targets, whose errors may be more uniform than the targets' own."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ..label_columns import standardise_labels
from .gaussian_process import AttributeGaussianProcess, joined
from .warps import log_slope, unwarp, warp, warps

#: Yeo and Johnson's powers: 1 leaves targets unchanged, smaller ones draw high values together,
#: larger ones low values. With these powers, all predictions can be warped back.
POWERS = (0.0, 0.5, 1.0, 1.5, 2.0)

#: Initial log prior of unwarped targets, relative to each other power.
AS_THEY_ARE = 2.0

#: How far outside the range of the labelled targets a mean may be predicted, in units of that
#: range: far outside, warping back makes values extremely large.
BEYOND = 0.5

#: The same for the variance, which covers what the mean leaves out.
SPREAD_BEYOND = 1.0

#: Noise of the copies of a set of hyperparameters, relative to its own. A few dozen learned sets
#: leave gaps and nothing below the smallest noise, which made intervals too narrow or too wide.
LESS_NOISE = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)

#: Sets with more noise, in units of the labelled targets' variance, have no copies: there are many
#: such sets, and copies only made the error larger with few labels.
MOST_NOISE = 0.2

#: Change of a copy's log prior for each halving of the noise. With few labels most weight stays
#: with the learned sets; with many the evidence decides.
LOG_PRIOR_OF_HALF = -1.5

#: With more labelled rows there are no copies: with thousands, their factors would take gigabytes.
MOST_LABELLED = 1000

#: Minimum posterior of the learned sets together. If a target is almost always the same, sets with
#: hardly any noise explain all labels and would make a rare other value virtually impossible.
AS_LEARNED = 1e-3

#: Gauss-Hermite quadrature, which warps normal distributions back.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(8)


class WarpedProcess(NamedTuple):
    """Posterior given the labelled rows, for W warped copies of each of C targets.

    Parameters
    ----------
    z, factor, weights, log_posterior, known, origin, noise : tensors
        As in :class:`sklearn_meta.heads.gaussian_process.Process`; ``weights`` are of shape
        (B, K, L, C * W).
    share : tensor of shape (B, K, C, W)
        Posterior of the powers, under each set of hyperparameters.
    mean, scale : tensors of shape (B, 1, C, W)
        Mean and standard deviation of the labelled rows' warped targets.
    lowest, highest : tensors of shape (B, 1, C)
        Minimum and maximum of the labelled rows' targets.
    """

    z: torch.Tensor
    factor: torch.Tensor
    weights: torch.Tensor
    log_posterior: torch.Tensor
    known: torch.Tensor
    origin: torch.Tensor
    noise: torch.Tensor
    share: torch.Tensor
    mean: torch.Tensor
    scale: torch.Tensor
    lowest: torch.Tensor
    highest: torch.Tensor


class WarpedGaussianProcess(AttributeGaussianProcess):
    """Gaussian process on embeddings and attributes, of targets warped by several powers.

    A Gaussian process assumes errors that are equally large everywhere and symmetric. Those of
    prices, counts and concentrations are not, but those of a monotone function of them may be: this
    is a warped Gaussian process (Snelson et al. 2004). The functions are those of Yeo and Johnson
    (2000) with five powers from 0 to 2, of which 1 leaves the target unchanged. Each task weights
    the powers, like the sets of hyperparameters, by the marginal likelihood of its labelled rows
    times a learned prior. Predictions are transformed back, and mean and variance are those of the
    mixture. Kernel matrices are those of :class:`AttributeGaussianProcess`; they do not depend on
    targets and are computed once. Targets are assumed to be standardised. Not in paper 000.

    Sets with little noise get copies with even less, which compete with them: with many labels the
    noise is known more exactly than the spacing of the learned sets.

    For several rows jointly, correlations are those of their warped targets.

    Parameters
    ----------
    n_kernels, length_scale, noise, jitter
        As in :class:`AttributeGaussianProcess`.

    Attributes
    ----------
    log_power_prior : Parameter of shape (W,)
        Logarithm of the (unnormalised) prior of the powers.

    References
    ----------
    E. Snelson, C. E. Rasmussen, Z. Ghahramani. Warped Gaussian processes. 2004.

    I.-K. Yeo, R. A. Johnson. A new family of power transformations to improve normality or
    symmetry. 2000.
    """

    powers = POWERS

    def __init__(self, *, n_kernels=8, length_scale=8.0, noise=0.1, jitter=1e-4):
        super().__init__(n_kernels=n_kernels, length_scale=length_scale, noise=noise, jitter=jitter)
        start = [AS_THEY_ARE if power == 1 else 0.0 for power in POWERS]
        self.log_power_prior = nn.Parameter(torch.tensor(start))

    def adapt(self, z, labels, classes, readable):
        """Factorise the labelled rows' kernel matrices and compute the posterior.

        Returns
        -------
        WarpedProcess
        """
        labels = labels.to(self.log_noise.dtype)
        known = ~labels.isnan() & classes[:, None]
        targets = labels.masked_fill(~known, 0)
        warped = torch.stack(warps(targets, self.powers), -1)  # (B, N, C, W)
        warped = warped.masked_fill(~known[..., None], math.nan).flatten(2)
        every = classes.repeat_interleave(len(self.powers), dim=1)
        columns = standardise_labels(warped, every)
        labelled, rows, solve = self._solver(z, columns.labels, every)
        mean, scale = (
            c.unflatten(-1, (-1, len(self.powers))) for c in (columns.mean, columns.scale)
        )
        # The density of a target is that of its warped copy times the slope there.
        slopes = torch.stack([log_slope(targets, power) for power in self.powers], dim=-1).sum(1)
        slopes = slopes - known.sum(1)[..., None] * scale[:, 0].log()  # (B, C, W)
        # A target with a single value does not show how it should be warped.
        varied = columns.varied.unflatten(-1, slopes.shape[1:])
        varied[..., self.powers.index(1)] = True

        def weighed(evidence):
            """Evidence of targets warped by each power, (B, K, C, W), and of targets, (B, K, C)."""
            joint = evidence.unflatten(-1, slopes.shape[1:]) + slopes[:, None]
            joint = joint + self.log_power_prior.log_softmax(0)
            joint = joint.masked_fill(~varied[:, None], -math.inf)
            return joint, joint.logsumexp(-1).masked_fill(~classes[:, None], 0)

        solved = own = joined(solve(self._every_set(z), self.noise()))
        origin, noise, log_prior = self._copies()
        with torch.no_grad():  # select the copies to solve for
            most = self._most_evidence(own, origin, noise, rows).masked_fill(~every[:, None], 0)
            most = log_prior + weighed(most)[1].sum(-1)
            least = (self.log_prior + weighed(own[2])[1].sum(-1)).amax(-1, keepdim=True)
            some = (most - least > math.log(torch.finfo(most.dtype).eps)).any(0)
            some &= known.sum(1).max() <= MOST_LABELLED
        origin, noise, log_prior = origin[some], noise[some], log_prior[some]
        if len(origin):
            solved = joined([own, *solve(origin, noise)])
        factor, weights, evidence = solved
        joint, of_target = weighed(evidence)

        filled = targets.where(known, mean[..., self.powers.index(1)])
        return WarpedProcess(
            labelled,
            factor,
            weights,
            self._log_posterior(of_target, log_prior),
            rows,
            torch.cat([self._every_set(z), origin]),
            torch.cat([self.noise(), noise]),
            joint.softmax(-1),
            mean,
            scale,
            filled.amin(1, keepdim=True),
            filled.amax(1, keepdim=True),
        )

    def _copies(self):
        """Copies with less noise: indices of the sets copied, noise, and log prior."""
        origin = (self.noise().detach() < MOST_NOISE).nonzero()[:, 0]
        jitter = self.config["jitter"] * self.log_amplitude[origin].exp()
        noise = [self.log_noise[origin].exp() * part + jitter for part in LESS_NOISE]
        log_prior = [
            self.log_prior[origin] - math.log2(part) * LOG_PRIOR_OF_HALF for part in LESS_NOISE
        ]
        return origin.repeat(len(LESS_NOISE)), torch.cat(noise), torch.cat(log_prior)

    def _most_evidence(self, solved, origin, noise, known):
        """Upper bound of the evidence of copies, from the solutions of the learned sets.

        With many labels most copies have no chance, so their factors need not be computed.
        y' K^-1 y is convex in the noise, so the tangent is a lower bound of it. log det K falls by
        no more than the fall of the log noise for each row.
        """
        _, weights, evidence = solved
        learned = self.noise()[origin]
        rows = known.sum(1)[:, None, None]
        squares = weights.square().sum(-2)[:, origin]  # (B, copies, C * W)
        gain = rows * (learned / noise).log()[:, None] - (learned - noise)[:, None] * squares
        return evidence[:, origin] + 0.5 * gain

    def _log_posterior(self, evidence, log_prior):
        """Log posterior of the learned sets, then of the copies, whose log priors are given."""
        joint = torch.cat([self.log_prior, log_prior]) + evidence.sum(-1)
        whole, n = joint.log_softmax(-1) + math.log1p(-AS_LEARNED), len(self.log_prior)
        learned = joint[:, :n].log_softmax(-1) + math.log(AS_LEARNED)
        return torch.cat([torch.logaddexp(whole[:, :n], learned), whole[:, n:]], dim=1)

    def adapt_mean(self, z, labels, classes):
        """As ``adapt``: the mean of a target depends on the variances of its warped copies."""
        return self.adapt(z, labels, classes, None)

    def mean(self, z, state):
        """Mean of the mixture: (B, N, M, H) to (B, N, C)."""
        return self(z, state)[..., 0]

    def _normals_of(self, means, variances, state, sets):
        """Shares (B, K, W, 1, C), means and variances (B, K, W, N, C) of warped targets."""
        share = (state.log_posterior.exp()[:, sets, None, None] * state.share[:, sets]).mT
        scale, mean = (part[:, None].movedim(-1, 2) for part in (state.scale, state.mean))
        means = means.unflatten(-1, state.scale.shape[2:]).movedim(-1, 2)
        return share[..., None, :], means * scale + mean, variances[:, :, None] * scale.square()

    def _moments(self, share, means, variances, state):
        """Parts of ``_mixed``: normal distributions are warped back, one power at a time."""
        weigh = (share > torch.finfo(share.dtype).eps).any(0).flatten(2).any(-1)  # (K, W)
        told, centres, spreads = means.clone(), means.clone(), variances.clone()
        for i, power in enumerate(self.powers):
            if power != 1:
                some = weigh[:, i]  # more than rounding
                told[:, some, i], centres[:, some, i], spreads[:, some, i] = self._unwarped(
                    means[:, some, i], variances[:, some, i], power, state
                )
        share, _, centres, spreads = super()._moments(share, centres, spreads, state)
        return share, told.flatten(1, 2), centres, spreads

    def _drawn(self, means, away, uniform, state, sets):
        """Targets (S, N, C), each of one power; ``uniform`` (S, 1, C) draws it by its posterior."""
        bounds = state.share[0, sets[0]].double().cumsum(-1)[:, :-1]  # (C, W - 1)
        chosen = (uniform[..., None] > bounds).sum(-1)
        means, drawn = means.unflatten(-1, state.scale.shape[2:]), torch.empty_like(away)
        for i, power in enumerate(self.powers):
            warped = (means[..., i] + away) * state.scale[0, ..., i] + state.mean[0, ..., i]
            drawn = torch.where(chosen == i, unwarp(warped, power), drawn)
        return drawn

    def _unwarped(self, mean, variance, power, state):
        """Warp normal distributions back: the mean to predict, the mean, and the variance."""
        nodes, shares = map(mean.new_tensor, (NODES, NODE_WEIGHTS / NODE_WEIGHTS.sum()))
        drawn = mean[..., None] + variance.sqrt()[..., None] * nodes
        lowest, highest = (end[:, None, ..., None] for end in (state.lowest, state.highest))

        def ends(beyond):
            margin = beyond * (highest - lowest)
            return lowest - margin, highest + margin

        # Clamp before warping back: values far outside would become infinite.
        drawn = drawn.clamp(*(warp(end, power) for end in ends(SPREAD_BEYOND)))
        drawn = unwarp(drawn, power)
        told, mean = drawn.clamp(*ends(BEYOND)) @ shares, drawn @ shares
        variance = (drawn - mean[..., None]).square() @ shares
        return told, mean, variance.clamp(min=self.config["jitter"])

    def _held(self, z, state):
        """As in :class:`GaussianProcess`, counting the nodes of the quadrature, too."""
        n_drawn = state.weights.shape[-1] * len(NODES)
        return len(z) * z.shape[1] * max(state.z.shape[1], n_drawn)
