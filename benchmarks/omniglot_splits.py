"""Omniglot's characters to train, validate and test on, from either kind of files."""

from functools import cache

import numpy as np

from sklearn_meta.tasks import load_omniglot

#: Alphabets of the official background set to validate on, where there is no split of ours.
N_VALID = 5


@cache
def characters(folder, split):
    """Omniglot's "train", "valid" or "test", from omniglot.npz or the official files."""
    if (folder / "omniglot.npz").is_file():
        return load_omniglot(folder, split)
    if split == "test":
        return load_omniglot(folder, "evaluation")
    background = load_omniglot(folder, "background")
    alphabets = np.unique(background.alphabets)
    return background.select(alphabets[-N_VALID:] if split == "valid" else alphabets[:-N_VALID])
