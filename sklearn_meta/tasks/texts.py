"""Texts as numbers of words, and the stream of mini-batches of several tasks."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import check_consistent_length
from torch.nn.utils.rnn import pad_sequence

from .batch import IGNORE
from .spelling import spellings

#: What French and Italian put before a vowel, a word of its own: l'avion, c'est, dell'anno.
ELIDED = (
    r"(?i:(?:[djlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|all|anch|coll|com|cos|dall|dell|dov|nell|"
    r"quell|quest|senz|sull)'(?=\w\w|[aàèy]\b)|c'(?=[eéêè]))"
)

#: Words and single marks; text that is tokenised already comes out as it went in, nearly.
WORD = re.compile(rf"{ELIDED}|\w+(?:'\w+)?|[^\w\s]")


@cache
def _signed_word():
    """The same, each with its signs: accents and vowel signs of their own, which are not in \\w."""
    characters = map(chr, range(0x300, 0x20000))
    signs = "".join(c for c in characters if unicodedata.category(c).startswith("M"))
    return re.compile(rf"{ELIDED}|\w[\w{signs}]*(?:'\w[\w{signs}]*)?|[^\w\s][{signs}]*")


def words_of(text):
    """The words and marks of one text, a list of str.

    Accents are put together with letters, and the apostrophe of typography is that of ASCII.
    """
    if text.isascii():  # it has no signs, and is read five times as fast
        return WORD.findall(text)
    return _signed_word().findall(unicodedata.normalize("NFC", text).replace("’", "'"))


def tokens_of(texts, lowercase=True):
    """Texts as lists of words.

    Parameters
    ----------
    texts : sequence of str, or of sequences of str
    lowercase : bool, default=True

    Returns
    -------
    list of lists of str

    Raises
    ------
    ValueError
        If one is neither.
    """
    _check_column(texts)
    found = []
    for i, text in enumerate(texts):
        if isinstance(text, str):
            words = words_of(text)
        elif is_list(text) and all(isinstance(word, str) for word in text):
            # An accent is one with its letter, as in texts, or a word would be two.
            words = [w if w.isascii() else unicodedata.normalize("NFC", w) for w in text]
        else:
            raise ValueError(
                f"Text {i} is of type {type(text).__name__}: give a str, or a list of words, "
                "each a str."
            )
        found.append([word.lower() for word in words] if lowercase else words)
    return found


def check_texts(X, y, estimator):
    """Refuse texts that are one, or labels that are not one for each; in scikit-learn's words.

    Parameters
    ----------
    X, y : as given to ``fit``
    estimator : object
        Whose ``fit`` it is.

    Raises
    ------
    ValueError
        If there are no texts or no labels, or not as many, or ``X`` is a single text.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    # An array may be of sentences of one length.
    if isinstance(X, str | dict | set) or issparse(X) or not np.iterable(X):
        _check_column(X)
    check_consistent_length(X, y)
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _check_column(texts):
    """Refuse a single text, and tables, such as those that a vectorizer makes of texts."""
    if isinstance(texts, str):
        raise ValueError("Iterable over raw text documents expected, string object received.")
    shape = getattr(texts, "shape", (0,))  # frames of some libraries have no ndim
    if len(shape) != 1 or isinstance(texts, dict | set) or not np.iterable(texts):
        raise ValueError(
            f"A sequence of texts is expected, got a {type(texts).__name__}: give one column, such "
            "as X['text']."
        )


def is_list(text):
    """Whether words are in an order, and can be read more than once; bytes are no words."""
    others = dict | set | Iterator | bytes | bytearray | memoryview
    return np.iterable(text) and not isinstance(text, others)


def vocabulary(tokens, min_df=1, max_words=None):
    """Words of some texts, sorted.

    Parameters
    ----------
    tokens : list of lists of str
    min_df : int, default=1
        Texts that a word must be in.
    max_words : int, default=None
        The most frequent ones at most.

    Returns
    -------
    list of str
    """
    counter = CountVectorizer(analyzer=list, min_df=min_df, max_features=max_words)
    try:
        return counter.fit(tokens).get_feature_names_out().tolist()
    except ValueError:  # no word is left: every text is of other words then
        return []


def first_of_copies(tokens, scores, y):
    """One place of each text, of the same scores: the first with the label that most copies have.

    Parameters
    ----------
    tokens : list of lists of str
    scores : ndarray of shape (n_texts, n_scores)
    y : sequence of int
        Numbers of the labels; of those that are as frequent the least counts.

    Returns
    -------
    ndarray of int
    """
    copies = {}
    for i, (text, told, label) in enumerate(zip(tokens, scores, y)):
        copies.setdefault((*text, told.tobytes()), {}).setdefault(label, []).append(i)
    usual = (max(sorted(of.items()), key=lambda pair: len(pair[1])) for of in copies.values())
    return np.array([places[0] for _, places in usual], dtype=int)


def word_numbers(tokens, words, max_length=None, lowercase=False, spelled=False):
    """Texts as arrays of numbers: 0 is a word that is not in ``words``; a text has one at least.

    Parameters
    ----------
    tokens : list of lists of str
    words : sequence of str
    max_length : int, default=None
        Words of a text beyond this number are left out.
    lowercase : bool, default=False
        Whether ``words`` are in lower case, and tokens may not be.
    spelled : bool, default=False
        Whether each word's number has those of its spelling beside it.

    Returns
    -------
    list of ndarray of shape (n_words,) or (n_words, 1 + N_FEATURES), int64
    """
    number = {word: i for i, word in enumerate(words, 1)}
    texts = []
    for text in tokens:
        text = text[:max_length] or [""]
        known = [word.lower() for word in text] if lowercase else text
        numbers = np.array([number.get(word, 0) for word in known], dtype=np.int64)
        texts.append(np.column_stack([numbers, spellings(text)]) if spelled else numbers)
    return texts


class TextTask(NamedTuple):
    """The texts of one task.

    Parameters
    ----------
    name : str
    texts : list of ndarray of int64
        Numbers of words.
    targets : list of ndarray of int64
        Class of each text, of shape (), or label of each of its words.
    place : int
        Of the task in the learner.
    """

    name: str
    texts: list
    targets: list
    place: int


def used_words(*tasks):
    """Numbers of the words that the texts of some tasks have, and 0, sorted; an array of int64."""
    used = [_words(text) for task in tasks for text in task.texts]
    return np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *used]))


def _words(text):
    """The number of each word; there may be those of its spelling beside it."""
    return text.reshape(len(text), -1)[:, 0]


def _numbered(text, words):
    text = text.copy()
    _words(text)[:] = np.searchsorted(words, _words(text))
    return text


def _digest(task):
    arrays = (np.ascontiguousarray(array) for array in (*task.texts, *task.targets))
    return hashlib.sha256(b"|".join(array.tobytes() for array in arrays)).hexdigest()[:16]


class TextTasks:
    """A source of tasks, each of which is drawn as often.

    Parameters
    ----------
    tasks : list of TextTask
    words : ndarray of int64
        Of :func:`used_words`: each word is numbered by its place among these.
    """

    def __init__(self, tasks, words):
        self.tasks = [
            task._replace(texts=[_numbered(text, words) for text in task.texts]) for task in tasks
        ]

    @property
    def names(self):
        """Of the tasks, with a digest of what they hold: one source is told from another."""
        return [f"{task.name}: {_digest(task)}" for task in self.tasks]

    def draw(self, rng):
        """One of the tasks, a TextTask."""
        return self.tasks[rng.integers(len(self.tasks))]


class MiniBatches:
    """Draws mini-batches of texts of like length from one task (step 2 of paper 004's training).

    Parameters
    ----------
    size : int, default=16
        Texts of a batch.
    n_pooled : int, default=8
        Batches that are drawn, sorted by length, and of which one is taken.
    """

    #: What ``strata`` counts, as the history names it.
    stratum = "task"

    def __init__(self, size=16, n_pooled=8):
        self.batch_size = size
        self.n_pooled = n_pooled

    def draw(self, task, rng):
        """A mini-batch, a TextTask."""
        n = len(task.texts)
        pool = rng.permutation(n)[: self.batch_size * self.n_pooled]
        pool = sorted(pool, key=lambda i: len(task.texts[i]))
        # Of nearly the same size, so that a text of a small batch has no greater weight.
        batches = np.array_split(pool, -(-len(pool) // self.batch_size))
        rows = batches[rng.integers(len(batches))]
        return task._replace(
            texts=[task.texts[i] for i in rows], targets=[task.targets[i] for i in rows]
        )

    def size(self, task):
        """What mini-batches are sorted by: words of the longest text."""
        return max(map(len, task.texts))

    @staticmethod
    def strata(inputs):
        """The task's place, for each text; a list of int."""
        return [int(inputs["task"])] * len(inputs["words"])

    @staticmethod
    def collate(batches):
        """One mini-batch as the inputs and the target of a learner.

        Parameters
        ----------
        batches : list of one TextTask

        Returns
        -------
        inputs : dict
            ``words`` (B, T), ``lengths`` (B,) and ``task`` ().
        target : tensor of shape (B,) or (B, T)
            ``IGNORE`` at padding.
        """
        (batch,) = batches
        targets = [torch.as_tensor(target) for target in batch.targets]
        if targets[0].ndim:
            target = pad_sequence(targets, batch_first=True, padding_value=IGNORE)
        else:
            target = torch.stack(targets)
        return {**as_inputs(batch.texts), "task": torch.tensor(batch.place)}, target


def as_inputs(texts):
    """Texts as padded numbers of words (B, T) and their lengths (B,), a dict of tensors."""
    return {
        "words": pad_sequence([torch.from_numpy(text) for text in texts], batch_first=True),
        "lengths": torch.tensor([len(text) for text in texts]),
    }
