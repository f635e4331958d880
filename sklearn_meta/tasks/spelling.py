"""Encode the spelling of words as numbers, for words that a tagger has never seen."""

import zlib
from functools import lru_cache, wraps
from itertools import groupby

import numpy as np

#: Lengths, in letters, of the prefixes and suffixes that are read.
PREFIXES, SUFFIXES = (1, 2, 3, 4), (1, 2, 3, 4)

#: Features of a word: its shape, its prefixes and its suffixes.
N_FEATURES = 1 + len(PREFIXES) + len(SUFFIXES)

#: Number of hash values of features. A word's other features tell collisions apart.
N_NUMBERS = 2**13


#: Maximum length of words whose spelling is cached: longer words hardly occur again.
LONGEST = 64


def _remembered(function):
    """Cache a function of a word, in bounded memory."""
    known = lru_cache(2**16)(function)

    @wraps(function)
    def of(word):
        return known(word) if len(word) <= LONGEST else function(word)

    return of


@_remembered
def spelling_features(word):
    """Features of a word's spelling, mostly those of Huang, Xu and Yu (2015).

    The shape is the sequence of capitals, small letters, digits and other signs, with repetitions
    merged. Prefixes and suffixes are in lower case; the same letters differ as prefix and suffix.

    Parameters
    ----------
    word : str

    Returns
    -------
    tuple of str
        ``N_FEATURES`` of them.
    """
    kinds = (
        "A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word
    )
    small = word.lower()
    shape = "".join(kind for kind, _ in groupby(kinds))
    prefixes = [f"{n}<{small[:n]}" for n in PREFIXES]
    return (shape, *prefixes, *(f"{n}>{small[-n:]}" for n in SUFFIXES))


@_remembered
def spelling(word):
    """Encode the features of a word's spelling as numbers.

    Parameters
    ----------
    word : str

    Returns
    -------
    tuple of int
        ``N_FEATURES`` numbers below ``N_NUMBERS``, the same on every machine.
    """
    features = spelling_features(word)
    return tuple(zlib.crc32(feature.encode("utf-8", "replace")) % N_NUMBERS for feature in features)


def spellings(words):
    """Encode the spelling of several words.

    Parameters
    ----------
    words : list of str

    Returns
    -------
    ndarray of shape (n_words, N_FEATURES), int64
    """
    return np.array([spelling(word) for word in words], dtype=np.int64).reshape(-1, N_FEATURES)
