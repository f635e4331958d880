"""Splits of Omniglot for training, validation and test, from omniglot.npz or the official files."""

from functools import cache

import numpy as np

from sklearn_meta.tasks import load_omniglot

#: Number of alphabets of the official background set that are used for validation.
N_VALID = 5


@cache
def characters(folder, split):
    """Return split "train", "valid" or "test".

    omniglot.npz has these splits. Of the official files, "evaluation" is the test split, and the
    last `N_VALID` alphabets of "background" are the validation split.
    """
    if (folder / "omniglot.npz").is_file():
        return load_omniglot(folder, split)
    if split == "test":
        return load_omniglot(folder, "evaluation")
    background = load_omniglot(folder, "background")
    alphabets = np.unique(background.alphabets)
    return background.select(alphabets[-N_VALID:] if split == "valid" else alphabets[:-N_VALID])
