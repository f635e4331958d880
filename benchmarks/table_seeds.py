"""Random numbers that depend on a table's name and on numbers, and on nothing else."""

import hashlib

import numpy as np


def generator_of(table, *numbers):
    """The generator of a table's episode: all methods, in every run, see the same rows.

    Parameters
    ----------
    table : Table
        Its name counts, its contents do not.
    *numbers : int
        Of the episode, and what else tells draws apart.

    Returns
    -------
    numpy.random.Generator
    """
    seed = int.from_bytes(hashlib.sha256(table.name.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, *numbers])
