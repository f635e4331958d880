"""Probabilities of many classes from contests of a few."""

import math

import torch


def play(contest, classes, n_ways):
    """Log-odds of classes that meet in groups; the winners of the groups play on.

    A loser's odds are those of its group's winner times the odds between both within the group:
    Luce's choice axiom, which says that the odds of two do not depend on who else is there.

    Parameters
    ----------
    contest : callable
        Of classes (1, c), or (Q, c) others for each query: their log-probabilities (Q, c). c is
        at most ``n_ways``.
    classes : int tensor of shape (1, C) or (Q, C)
        In the order in which they are put into groups.
    n_ways : int
        At least 2.

    Returns
    -------
    tensor of shape (Q, C)
        Up to a constant of each query; the same order.
    """
    if classes.shape[1] <= n_ways:
        return contest(classes)
    groups = classes.tensor_split(math.ceil(classes.shape[1] / n_ways), 1)
    odds = [contest(group) for group in groups]
    best = [o.argmax(1, keepdim=True) for o in odds]
    winners = [group.expand(len(b), -1).gather(1, b) for group, b in zip(groups, best)]
    final = play(contest, torch.cat(winners, 1), n_ways).split(1, 1)
    return torch.cat([o - o.gather(1, b) + f for o, b, f in zip(odds, best, final)], 1)
