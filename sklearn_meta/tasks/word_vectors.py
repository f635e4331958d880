"""Vectors that words begin with: their files, and those of a vocabulary."""

from pathlib import Path

import numpy as np

#: Deviation that given word vectors are brought to: files differ in it by a factor of ten.
SCALE = 0.3


def read_word_vectors(path):
    """Vectors of words from a file.

    Parameters
    ----------
    path : path
        The text format of GloVe or word2vec, a word and its numbers a line, with or without a
        first line of counts; or npz with the arrays ``words`` and ``vectors``.

    Returns
    -------
    words : list of str
    vectors : ndarray of shape (n_words, size), float32

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There are no word vectors {path}: give the path of a file.")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            if not {"words", "vectors"} <= set(arrays):
                raise ValueError(f"{path} must hold the arrays words and vectors.")
            words, vectors = arrays["words"].tolist(), arrays["vectors"].astype(np.float32)
    else:
        words, rows = [], []
        with open(path, encoding="utf-8", errors="replace") as lines:
            for i, line in enumerate(lines, 1):
                word, *numbers = line.rstrip().split(" ")
                if i == 1 and len(numbers) == 1:
                    continue  # counts
                try:
                    row = np.array(numbers, dtype=np.float32)
                except ValueError:
                    raise ValueError(f"{path}, line {i}: a word and numbers expected.") from None
                if rows and len(row) != len(rows[0]):
                    raise ValueError(
                        f"{path}, line {i}: {len(row)} numbers, and {len(rows[0])} before."
                    )
                words.append(word)
                rows.append(row)
        vectors = np.stack(rows) if rows else np.zeros((0, 0), np.float32)
    if vectors.ndim != 2 or len(words) != len(vectors) or not len(words):
        raise ValueError(f"{path} has {len(words)} words and vectors of shape {vectors.shape}.")
    return words, vectors


def with_vectors(words, given, *, max_words=None, lowercase=True, random_state=0):
    """A vocabulary, larger by words that have a vector, and a vector of each.

    Words of the file that no text has come after those of the texts, in the order of the file:
    another task, or another text, may have them.

    Parameters
    ----------
    words : list of str
    given : path or (sequence of str, array of shape (n_words, size))
        Of :func:`read_word_vectors`, or what it returns.
    max_words : int, default=None
        Size of the larger vocabulary at most; None adds no words.
    lowercase : bool, default=True
        Whether only words in lower case are taken from the file.
    random_state : int, default=0
        Of the vectors of words that the file does not have.

    Returns
    -------
    words : list of str
    vectors : ndarray of shape (n_words, size), float32
        Of a deviation of 0.3.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or words and vectors do not fit together.
    """
    known, vectors = given if isinstance(given, tuple) else read_word_vectors(given)
    vectors = np.asarray(vectors, dtype=np.float32)
    if vectors.ndim != 2 or len(known) != len(vectors):
        raise ValueError(
            f"word_vectors has {len(known)} words and vectors of shape {vectors.shape}."
        )
    # What is no str is a gap: pandas reads the word "nan" as one.
    place = {str(word): i for i, word in enumerate(known) if isinstance(word, str)}
    more = [word for word in place if not lowercase or word == word.lower()]
    words = list(dict.fromkeys([*words, *more]))[: max(max_words or 0, len(words))]
    scale = vectors.std()
    found = np.random.default_rng(random_state).normal(0, scale, (len(words), vectors.shape[1]))
    for i, word in enumerate(words):
        if word in place:
            found[i] = vectors[place[word]]
    return words, found.astype(np.float32) * (SCALE / max(scale, 1e-8))
