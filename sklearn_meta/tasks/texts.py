"""Encode texts as numbers of words, and draw mini-batches of several tasks."""

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

#: Elided words of French and Italian, which are words of their own: l'avion, c'est, dell'anno.
ELIDED = (
    r"(?i:(?:[djlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|all|anch|coll|com|cos|dall|dell|dov|nell|"
    r"quell|quest|senz|sull)'(?=\w\w|[aàèy]\b)|c'(?=[eéêè]))"
)

#: Words and single punctuation marks; text that is already tokenised hardly changes.
WORD = re.compile(rf"{ELIDED}|\w+(?:'\w+)?|[^\w\s]")


@cache
def _signed_word():
    """``WORD`` with combining signs: separate accents and vowel signs, which are not in \\w."""
    characters = map(chr, range(0x300, 0x20000))
    signs = "".join(c for c in characters if unicodedata.category(c).startswith("M"))
    return re.compile(rf"{ELIDED}|\w[\w{signs}]*(?:'\w[\w{signs}]*)?|[^\w\s][{signs}]*")


def words_of(text):
    """Split one text into words and punctuation marks, a list of str.

    Accents are composed with their letters, and typographic apostrophes become ASCII ones.
    """
    if text.isascii():  # no combining signs: five times as fast
        return WORD.findall(text)
    return _signed_word().findall(unicodedata.normalize("NFC", text).replace("’", "'"))


def tokens_of(texts, lowercase=True):
    """Split texts into lists of words.

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
        If a text is neither a str nor a list of str.
    """
    _check_column(texts)
    found = []
    for i, text in enumerate(texts):
        if isinstance(text, str):
            words = words_of(text)
        elif is_list(text) and all(isinstance(word, str) for word in text):
            # Compose accents, as in texts: a word would count as two otherwise.
            words = [w if w.isascii() else unicodedata.normalize("NFC", w) for w in text]
        else:
            raise ValueError(
                f"Text {i} is of type {type(text).__name__}: give a str, or a list of words, "
                "each a str."
            )
        found.append([word.lower() for word in words] if lowercase else words)
    return found


def check_texts(X, y, estimator):
    """Refuse a single text, or labels that are not one per text, in scikit-learn's words.

    Parameters
    ----------
    X, y : as given to ``fit``
    estimator : object
        Estimator to name in the error.

    Raises
    ------
    ValueError
        If there are no texts or no labels, or not as many, or ``X`` is a single text.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    # Let arrays of several dimensions pass: they may hold sentences of equal length.
    if isinstance(X, str | dict | set) or issparse(X) or not np.iterable(X):
        _check_column(X)
    check_consistent_length(X, y)
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _check_column(texts):
    """Refuse a single text, and tables such as the output of a vectorizer."""
    if isinstance(texts, str):
        raise ValueError("Iterable over raw text documents expected, string object received.")
    shape = getattr(texts, "shape", (0,))  # frames of some libraries have no ndim
    if len(shape) != 1 or isinstance(texts, dict | set) or not np.iterable(texts):
        raise ValueError(
            f"A sequence of texts is expected, got a {type(texts).__name__}: give one column, such "
            "as X['text']."
        )


def is_list(text):
    """Whether words are ordered and can be read more than once; bytes are not words."""
    others = dict | set | Iterator | bytes | bytearray | memoryview
    return np.iterable(text) and not isinstance(text, others)


def vocabulary(tokens, min_df=1, max_words=None):
    """Sorted words of some texts.

    Parameters
    ----------
    tokens : list of lists of str
    min_df : int, default=1
        Minimum number of texts that a word must occur in.
    max_words : int, default=None
        Maximum number of words; the most frequent are kept.

    Returns
    -------
    list of str
    """
    counter = CountVectorizer(analyzer=list, min_df=min_df, max_features=max_words)
    try:
        return counter.fit(tokens).get_feature_names_out().tolist()
    except ValueError:  # no word is left: all words count as unknown
        return []


def first_of_copies(tokens, scores, y):
    """Index of each different text with its scores: its first copy with the most frequent label.

    Parameters
    ----------
    tokens : list of lists of str
    scores : ndarray of shape (n_texts, n_scores)
    y : sequence of int
        Label codes; of equally frequent ones, the smallest counts.

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
    """Encode texts as arrays of numbers; 0 is a word not in ``words``, or stands for an empty text.

    Parameters
    ----------
    tokens : list of lists of str
    words : sequence of str
    max_length : int, default=None
        Words of a text beyond this number are left out.
    lowercase : bool, default=False
        Whether to look up tokens in lower case, as ``words`` are.
    spelled : bool, default=False
        Whether to add the numbers of each word's spelling.

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
        Index of the task in the learner.
    """

    name: str
    texts: list
    targets: list
    place: int


def used_words(*tasks):
    """Sorted numbers of the words in the texts of some tasks, and 0; an array of int64."""
    used = [_words(text) for task in tasks for text in task.texts]
    return np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *used]))


def _words(text):
    """Number of each word, as a view without the numbers of its spelling."""
    return text.reshape(len(text), -1)[:, 0]


def _numbered(text, words):
    text = text.copy()
    _words(text)[:] = np.searchsorted(words, _words(text))
    return text


def _digest(task):
    arrays = (np.ascontiguousarray(array) for array in (*task.texts, *task.targets))
    return hashlib.sha256(b"|".join(array.tobytes() for array in arrays)).hexdigest()[:16]


class TextTasks:
    """Source of tasks, drawn with equal probability.

    Parameters
    ----------
    tasks : list of TextTask
    words : ndarray of int64
        Result of :func:`used_words`: words are renumbered by their index in it.
    """

    def __init__(self, tasks, words):
        self.tasks = [
            task._replace(texts=[_numbered(text, words) for text in task.texts]) for task in tasks
        ]

    @property
    def names(self):
        """Names of the tasks, each with a digest of its contents, to tell sources apart."""
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
        Number of batches drawn together; texts are sorted by length, and one batch is taken.
    """

    #: Name in the history of what ``strata`` counts.
    stratum = "task"

    def __init__(self, size=16, n_pooled=8):
        self.batch_size = size
        self.n_pooled = n_pooled

    def draw(self, task, rng):
        """A mini-batch, a TextTask."""
        n = len(task.texts)
        pool = rng.permutation(n)[: self.batch_size * self.n_pooled]
        pool = sorted(pool, key=lambda i: len(task.texts[i]))
        # Batches have nearly equal size: texts of a small one would weigh more.
        batches = np.array_split(pool, -(-len(pool) // self.batch_size))
        rows = batches[rng.integers(len(batches))]
        return task._replace(
            texts=[task.texts[i] for i in rows], targets=[task.targets[i] for i in rows]
        )

    def size(self, task):
        """Key to sort mini-batches by: number of words of the longest text."""
        return max(map(len, task.texts))

    @staticmethod
    def strata(inputs):
        """Index of the task, for each text; a list of int."""
        return [int(inputs["task"])] * len(inputs["words"])

    @staticmethod
    def collate(batches):
        """Convert one mini-batch to the inputs and the target of a learner.

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
    """Pad texts to numbers of words (B, T) and lengths (B,), a dict of tensors."""
    return {
        "words": pad_sequence([torch.from_numpy(text) for text in texts], batch_first=True),
        "lengths": torch.tensor([len(text) for text in texts]),
    }
