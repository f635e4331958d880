"""Probabilities of many classes from contests between a few."""

import math

import torch


def play(contest, classes, n_ways):
    """Log-odds of classes that meet in groups; the winners of the groups play on.

    A loser's odds are its winner's odds times the odds between the two within the group. This is
    Luce's choice axiom: the odds between two do not depend on who else is there.

    Parameters
    ----------
    contest : callable
        Takes classes, (1, c) or different ones for each query (Q, c), with c at most ``n_ways``,
        and returns their log-probabilities (Q, c).
    classes : int tensor of shape (1, C) or (Q, C)
        Classes, in the order in which they are put into groups.
    n_ways : int
        At least 2.

    Returns
    -------
    tensor of shape (Q, C)
        Log-odds in the order of ``classes``, up to a constant for each query.
    """
    if classes.shape[1] <= n_ways:
        return contest(classes)
    groups = classes.tensor_split(math.ceil(classes.shape[1] / n_ways), 1)
    odds = [contest(group) for group in groups]
    best = [o.argmax(1, keepdim=True) for o in odds]
    winners = [group.expand(len(b), -1).gather(1, b) for group, b in zip(groups, best)]
    final = play(contest, torch.cat(winners, 1), n_ways).split(1, 1)
    return torch.cat([o - o.gather(1, b) + f for o, b, f in zip(odds, best, final)], 1)
