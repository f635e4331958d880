"""How a word is spelled, as numbers: what a tagger knows of words that it has never seen."""

import zlib
from functools import lru_cache, wraps
from itertools import groupby

import numpy as np

#: Ends of a word that are read, in letters.
PREFIXES, SUFFIXES = (1, 2, 3, 4), (1, 2, 3, 4)

#: Features of a word: its shape, its prefixes and its suffixes.
N_FEATURES = 1 + len(PREFIXES) + len(SUFFIXES)

#: Numbers of features. Two that fall on the same one are told apart by a word's others.
N_NUMBERS = 2**13


#: Letters of a word whose spelling is remembered: what is longer is hardly met again.
LONGEST = 64


def _remembered(function):
    """A function of a word that is asked for again and again, in bounded memory."""
    known = lru_cache(2**16)(function)

    @wraps(function)
    def of(word):
        return known(word) if len(word) <= LONGEST else function(word)

    return of


@_remembered
def spelling_features(word):
    """Features of a word's spelling, those of Huang, Xu and Yu (2015) in the main.

    Its shape says where it has capitals, small letters, digits and other signs; repeated kinds are
    one. Prefixes and suffixes are in lower case, and the same letters in front and behind differ.

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
    """The features of a word's spelling as numbers.

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
    """Features of several words.

    Parameters
    ----------
    words : list of str

    Returns
    -------
    ndarray of shape (n_words, N_FEATURES), int64
    """
    return np.array([spelling(word) for word in words], dtype=np.int64).reshape(-1, N_FEATURES)
