"""Short texts whose labels single words tell, and scores that known tasks might give them."""

import numpy as np

from sklearn_meta.tasks.texts import tokens_of

TINY = {"embedding_size": 4, "width": 4, "meta_width": 2, "rank": 2, "max_epochs": 1, "min_df": 1}

WORDS = {0: ["dull", "cold", "grey", "flat"], 1: ["fine", "warm", "bright", "round"]}

SETS = [[0, 1], ["a", "b", "c"], ["no", "yes"]]


def texts(n, topic, seed=0, words=WORDS):
    """Texts, each labelled by its words, and the numbers of their labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % len(words))
    return [
        " ".join([f"{topic}{rng.integers(9)}", *rng.choice(words[label], 2), "the"]) for label in y
    ], y


def as_task(X, y, labels=(0, 1)):
    return tokens_of(X), np.asarray(y), list(labels)


def scored(y, strength, seed=0):
    """Scores of three known sets of two, three and two labels; the first tells ``y``."""
    scores = np.random.default_rng(seed).standard_normal((len(y), 5))
    scores[:, 0] = strength * (2 * np.asarray(y) - 1)
    return scores
