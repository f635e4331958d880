"""Initial vectors of words: read them from files, and give them to a vocabulary."""

from unicodedata import normalize
from zipfile import BadZipFile

import numpy as np

from ..folders import expanded
from ..user_warnings import warn

#: Standard deviation to which given word vectors are scaled: files differ by a factor of ten.
SCALE = 0.3


def read_word_vectors(path):
    """Read word vectors from a file.

    Parameters
    ----------
    path : path
        File in the text format of GloVe or word2vec, with a word and its numbers per line, with or
        without a first line of counts; or npz with the arrays ``words`` and ``vectors``.

    Returns
    -------
    words : list of str
    vectors : ndarray of shape (n_words, size), float32

    Raises
    ------
    FileNotFoundError, ValueError
        If the file does not exist, or has other contents.
    """
    try:
        path = expanded(path)
    except TypeError:
        raise ValueError(
            f"Word vectors must be a file or a pair (words, vectors), got {type(path).__name__}."
        ) from None
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: give the path of word vectors.")
    words, vectors = (_of_arrays if path.suffix == ".npz" else _of_lines)(path)
    return words, _checked(words, vectors, path)


def _of_arrays(path):
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except (KeyError, ValueError, TypeError, EOFError, OSError, BadZipFile) as error:
        raise ValueError(
            f"{path} must hold the arrays words, of strings, and vectors, of numbers: {error}"
        ) from error
    if words.ndim != 1 or words.dtype.kind not in "US":
        raise ValueError(
            f"{path}: words must be a 1D array of strings, got {words.dtype} of {words.shape}."
        )
    words = words if words.dtype.kind == "U" else np.char.decode(words, "utf-8", "replace")
    return words.tolist(), vectors


def _of_lines(path):
    """Read words and vectors from a text file.

    Some words of GloVe contain blanks. The parts of a word after the first blank must not all be
    numbers: these would belong to a longer vector.
    """
    with open(path, "rb") as file:
        start = file.read(2**16)
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04")):  # GloVe's files come as a zip
        raise ValueError(f"{path} is compressed: unpack it, as gunzip and unzip do.")
    if b"\0" in start:  # binary float32, as in word2vec's .bin, or UTF-16
        raise ValueError(
            f"{path} is not a text in UTF-8: save binary vectors as text, as gensim's "
            "KeyedVectors.save_word2vec_format(path, binary=False) does."
        )
    words, rows, size, counts, n_nameless = [], [], None, None, 0
    with open(path, encoding="utf-8-sig", errors="replace") as lines:
        for i, line in enumerate(lines, 1):
            fields = line.rstrip().split(" ")
            if fields == [""]:
                continue
            if i == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                counts = tuple(map(int, fields))
                continue
            size = size or len(fields) - 1
            if len(fields) <= size:
                raise ValueError(
                    f"{path}, line {i}: expected {size} numbers as before, got {len(fields) - 1}."
                )
            word, row = fields[:-size], _as_row(fields[-size:])
            if size and row is not None and word == [""]:
                n_nameless += 1
                continue
            if not size or row is None or _as_row(word[1:]) is not None:
                raise ValueError(
                    f"{path}, line {i}: expected a word and {size or 'its'} numbers, separated by "
                    "blanks."
                )
            words.append(" ".join(word).rstrip(" "))
            rows.append(row)
    vectors = np.stack(rows) if rows else np.zeros((0, 0), np.float32)
    held = [(n, vectors.shape[1]) for n in (len(words), len(words) + n_nameless)]
    if counts is not None and counts not in held:
        raise ValueError(
            f"{path} announces {counts[0]} words with {counts[1]} numbers each but holds "
            f"{len(words)} with {vectors.shape[1]}: download it again, or remove its first line."
        )
    return words, vectors


def _as_row(fields):
    """Convert fields to numbers; None if there are no fields, or one is no number."""
    try:
        with np.errstate(over="ignore"):
            return np.array(fields, dtype=np.float32) if fields else None
    except ValueError:
        return None


def _checked(words, vectors, where):
    """Check that there is one vector per word, and convert them to float32."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        raise ValueError(
            f"{where} must have a vector for each word, got {len(words)} words and vectors of "
            f"shape {vectors.shape}."
        )
    if vectors.dtype.kind not in "fiubO":
        raise ValueError(f"{where} must have vectors of real numbers, got {vectors.dtype}.")
    with np.errstate(over="ignore"):
        vectors = vectors.astype(np.float32)
    if not np.isfinite(vectors).all():
        word = words[int(np.isfinite(vectors).all(1).argmin())]
        raise ValueError(
            f"{where}: the vector of {word!r} holds NaN, or a number too large for float32."
        )
    return vectors


def with_vectors(words, given, *, max_words=None, lowercase=True, random_state=0):
    """Extend a vocabulary by words that have a vector, and give each word a vector.

    Words of the file that no text has come after those of the texts, in the order of the file:
    another task, or another text, may have them.

    Parameters
    ----------
    words : list of str
    given : path or (sequence of str, array of shape (n_words, size))
        File for :func:`read_word_vectors`, or what it returns.
    max_words : int, default=None
        Maximum size of the extended vocabulary; None adds no words.
    lowercase : bool, default=True
        Whether only words in lower case are taken from the file.
    random_state : int, default=0
        Seed of the vectors of words that the file does not have.

    Returns
    -------
    words : list of str
    vectors : ndarray of shape (n_words, size), float32
        Scaled so that the given vectors have standard deviation 0.3.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or words and vectors do not fit together.
    """
    if isinstance(given, tuple | list):
        if len(given) != 2:
            raise ValueError(
                f"word_vectors must be a pair (words, vectors), got {len(given)} items."
            )
        known, vectors = given
        if not np.iterable(known) or isinstance(known, set | frozenset | dict | str):
            raise ValueError(
                "word_vectors must be a pair (words, vectors), with words in the order of their "
                f"vectors, got {type(known).__name__} for words."
            )
        known = [word.decode() if isinstance(word, bytes) else word for word in known]
        vectors = _checked(known, vectors, "word_vectors")
    else:
        known, vectors = read_word_vectors(given)
    # Skip missing words: pandas reads the word "nan" as one. Compose accents as in texts.
    place = {normalize("NFC", word): i for i, word in enumerate(known) if isinstance(word, str)}
    if not place.keys() & set(words):
        warn(
            "No word of the texts has a vector in word_vectors: are they of another language, or "
            "in capitals?",
        )
    more = [word for word in place if not lowercase or word == word.lower()]
    words = list(dict.fromkeys([*words, *more]))[: max(max_words or 0, len(words))]
    scale = vectors.astype(np.float64).std()
    found = np.random.default_rng(random_state).normal(0, scale, (len(words), vectors.shape[1]))
    for i, word in enumerate(words):
        if word in place:
            found[i] = vectors[place[word]]
    if scale > 0:  # vectors of equal numbers stay as they are
        found *= SCALE / scale
    return words, found.astype(np.float32)
