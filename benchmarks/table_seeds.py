"""Random numbers that depend only on a table's name and on given numbers."""

import hashlib

import numpy as np


def generator_of(table, *numbers):
    """Return the generator of a table's episode: all methods see the same rows in every run.

    Parameters
    ----------
    table : Table
        Only its name matters, not its contents.
    *numbers : int
        Number of the episode, and others that distinguish draws.

    Returns
    -------
    numpy.random.Generator
    """
    seed = int.from_bytes(hashlib.sha256(table.name.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, *numbers])
