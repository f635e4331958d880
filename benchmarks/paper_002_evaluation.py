"""Scores of benchmarks/paper_002.py: by instance for Omniglot, by row for regression.

Shape legend: B episodes, T rows, L letters of a label.
"""

import math
from itertools import islice

import numpy as np
import torch
from paper_002_grid import INSTANCES
from scipy.linalg import solve_triangular

from sklearn_meta.tasks import batches

#: Episodes per batch, in training and in tests.
BATCH_SIZE = 16


def episodes(source, sampler, n, seed):
    """Batches of inputs and targets of at least n test episodes, the same for every method."""
    stream = batches(source, sampler, batch_size=BATCH_SIZE, seed=[seed, 2], n_pooled=1, n_groups=1)
    return (group for (group,) in islice(stream, math.ceil(n / BATCH_SIZE)))


# Classification


@torch.inference_mode()
def score_classes(predict, head, drawn):
    """Accuracy by instance number.

    Parameters
    ----------
    predict : callable
        Maps inputs and the codes of the rows' classes (B, T) to two arrays (B, T): whether each row
        is right exactly, and whether it is right among the classes of the episode.
    head : LabelWords
    drawn : iterable of (dict, tensor)
        Inputs and words (B, T, L) of test episodes.

    Returns
    -------
    list of dict
        instance, n_episodes, n_instances, exact, exact_se, among and among_se for each of
        INSTANCES. ``_se`` are standard errors over episodes.
    """
    found = []
    for inputs, words in drawn:
        codes = (words * head.n_symbols ** torch.arange(head.n_letters)).sum(2)
        instance = (codes[:, :, None] == codes[:, None]).tril().sum(2)
        found.append((instance, *predict(inputs, codes)))
    instance, exact, among = (torch.cat(part).double().numpy() for part in zip(*found))
    scores = []
    for k in INSTANCES:
        here = instance == k
        score = {"instance": k, "n_episodes": len(here), "n_instances": int(here.sum())}
        for name, right in (("exact", exact), ("among", among)):
            score[name], score[f"{name}_se"] = ratio((right * here).sum(1), here.sum(1))
        scores.append(score)
    return scores


def ratio(hits, counts):
    """Share of hits over all episodes and its standard error.

    The error is over episodes, since the rows of an episode are not independent.
    """
    n = counts.sum()
    if not n:
        return math.nan, math.nan
    share = hits.sum() / n
    return float(share), float(np.sqrt(((hits - share * counts) ** 2).sum()) / n)


def by_network(learner):
    """Return the ``predict`` of ``score_classes`` for a network."""
    head = learner.head

    def predict(inputs, codes):
        output = learner(**inputs)
        letters = output.unflatten(2, (head.n_letters, head.n_symbols)).argmax(3)
        exact = (letters == inputs["labels"]).all(2)
        # A word's logit is the sum of its letters' logits. The candidates are the episode's words.
        logits = output @ head.encode(inputs["labels"]).to(output.dtype).mT
        return exact, codes.gather(1, logits.argmax(2)) == codes

    return predict


def by_neighbour(features):
    """Return the ``predict`` of ``score_classes`` for the nearest earlier row.

    ``features`` maps drawings to vectors (B, T, D). The first row has no earlier row: its guess
    counts as 1 / number of classes (section 9.1.2).
    """

    def predict(inputs, codes):
        z = features(inputs["x"])
        later = torch.ones(z.shape[1], z.shape[1], dtype=torch.bool).triu()
        distances = torch.cdist(z, z).masked_fill(later, math.inf)
        right = (codes.gather(1, distances.argmin(2)) == codes).float()
        n_classes = [len(episode.unique()) for episode in codes]
        right[:, 0] = 1 / torch.tensor(n_classes)
        return right, right

    return predict


# Regression


@torch.inference_mode()
def score_rows(learner, kernel, drawn):
    """Negative log likelihood of each row, given the rows before it.

    Parameters
    ----------
    learner : MemoryLearner
    kernel : kernel of scikit-learn
        Kernel of the functions, with their noise.
    drawn : iterable of (dict, tensor)
        Inputs and targets of test episodes.

    Returns
    -------
    list of dict
        row, n_episodes, mann, mann_se, gp and gp_se for each row.
    """
    ours, true = [], []
    for inputs, targets in drawn:
        mean, scale = learner.head.moments(learner(**inputs))
        ours.append(-torch.distributions.Normal(mean, scale).log_prob(targets[..., 0]).numpy())
        x, y = inputs["x"].double().numpy(), targets[..., 0].double().numpy()
        true.append([process_nll(kernel, *episode) for episode in zip(x, y)])
    ours, true = np.concatenate(ours).astype(float), np.concatenate(true)
    return [
        {"row": t + 1, "n_episodes": len(ours)}
        | {"mann": ours[:, t].mean(), "mann_se": error(ours[:, t])}
        | {"gp": true[:, t].mean(), "gp_se": error(true[:, t])}
        for t in range(ours.shape[1])
    ]


def error(values):
    return values.std(ddof=1) / len(values) ** 0.5


def process_nll(kernel, x, y):
    """Negative log likelihood of each row under a Gaussian process, given the rows before it.

    Row t of a Cholesky factor depends only on rows up to t.

    Parameters
    ----------
    kernel : kernel of scikit-learn
    x : ndarray of shape (T, D)
    y : ndarray of shape (T,)

    Returns
    -------
    ndarray of shape (T,)
    """
    factor = np.linalg.cholesky(kernel(x))
    z = solve_triangular(factor, y, lower=True)
    return z**2 / 2 + np.log(factor.diagonal()) + math.log(2 * math.pi) / 2


@torch.inference_mode()
def predict_after(learner, x, y, grid):
    """Predictive mean and standard deviation at each point of a grid, as the next row after some.

    Parameters
    ----------
    learner : MemoryLearner
    x : ndarray of shape (T, D)
    y : ndarray of shape (T,)
    grid : ndarray of shape (Q, D)

    Returns
    -------
    mean, deviation : ndarrays of shape (Q,)
    """
    rows = np.concatenate([np.tile(x, (len(grid), 1, 1)), grid[:, None]], 1)
    labels = np.tile(np.append(y, np.nan)[:, None], (len(grid), 1, 1))  # the last label is hidden
    output = learner(*(torch.from_numpy(a.astype(np.float32)) for a in (rows, labels)))
    return tuple(part.numpy() for part in learner.head.moments(output[:, -1]))
