"""Sentences with a tag for each token: parts of speech, chunks and names.

:func:`read_conll` and :func:`read_conllu` read a file, :func:`load_conll_folder` the shared tasks
of CoNLL 2000 and 2003 by their public names, and :func:`load_tagging` parquet files of several
domains. Each gives sentences and tags as two lists of lists of str, of equal lengths.
:func:`to_iob2` brings tags of chunks and names into one scheme, which the loaders return.
"""

import re
from numbers import Integral

from ..folders import expanded
from .reviews import rows_by_domain

#: Kinds of tags.
TASKS = ("pos", "chunk", "ner")

#: Files of the splits of each shared task, and the column of each kind of tags.
CONLL = {
    "conll2000": (
        {"train": "train.txt", "test": "test.txt"},
        {"pos": 1, "chunk": 2},
    ),
    "conll2003": (
        {"train": "eng.train", "valid": "eng.testa", "test": "eng.testb"},
        {"pos": 1, "chunk": 2, "ner": 3},
    ),
}


def read_conll(path, column, *, token_column=0, separator=None, encoding="utf-8", comment=None):
    """Read a column file: one token per line, and an empty line after each sentence.

    Parameters
    ----------
    path : path
        File in the format of CoNLL 2000 (word, pos, chunk), 2002 (word, ner or word, pos, ner) or
        2003 (word, pos, chunk, ner). Lines that start with ``-DOCSTART-`` are skipped.
    column : int
        Index of the tags' column, from 0.
    token_column : int, default=0
        Index of the tokens' column.
    separator : str, default=None
        Separator of columns; any run of blanks and tabs if None.
    encoding : str, default="utf-8"
        "latin-1" for the official Spanish and Dutch files of CoNLL 2002.
    comment : str, default=None
        Lines that start with this are skipped, even if it is a token. None skips none.

    Returns
    -------
    sentences, tags : list of lists of str
        Of equal lengths; tags as in the file.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If a line has too few columns, the file has no sentence or another encoding, or a column is
        not a number, or is negative.

    See Also
    --------
    to_iob2 : Chunks and names in the scheme that tools expect.
    """
    return _read_columns(path, [token_column, column], separator, encoding, comment)


def read_conllu(path, field="upos"):
    """Read a CoNLL-U file, the format of Universal Dependencies.

    Parameters
    ----------
    path : path
        The file, in UTF-8. Multiword tokens and empty nodes are skipped; their words are kept.
    field : str, default="upos"
        "upos", "xpos", or the name of a feature in FEATS or MISC, such as "Number".

    Returns
    -------
    sentences, tags : list of lists of str
        Of equal lengths; the tag is ``_`` if a word does not have the field.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If a line does not have ten columns, the file is otherwise malformed, has no sentence or
        another encoding, or no word has the field.
    ImportError
        If conllu is not installed.
    """
    try:
        import conllu
    except ImportError as error:
        raise ImportError(
            f'Reading {path} requires conllu. Run: pip install "sklearn_meta[text]"'
        ) from error
    text = _read_text(path, "utf-8")
    for number, line in enumerate(text.split("\n"), 1):
        # conllu itself accepts lines with too few columns.
        if line.strip() and not line.startswith("#") and line.count("\t") != 9:
            raise ValueError(
                f"{path}, line {number}: expected 10 columns separated by tabs, got {line!r}. "
                "Correct the line."
            )
    try:
        parsed = conllu.parse(text)
    except conllu.exceptions.ParseException as error:
        raise ValueError(f"{path} is not CoNLL-U ({error}): correct it.") from error
    sentences, tags = [], []
    for sentence in parsed:
        # Ids of multiword tokens (1-2) and of empty nodes (1.1) are tuples.
        if words := [token for token in sentence if isinstance(token.get("id"), int)]:
            sentences.append([word["form"] for word in words])
            tags.append([_field(word, field) for word in words])
    if not sentences:
        raise ValueError(f"{path} has no sentence: put the whole file there.")
    if all(tag == "_" for row in tags for tag in row):
        raise ValueError(
            f"No word of {path} has {field!r}: choose upos, xpos or a feature that is there."
        )
    return sentences, tags


def to_iob2(tags):
    """Convert IOB1 to IOB2, in which each chunk begins with B-.

    In IOB1, used by CoNLL 2003, a chunk begins with I-, and with B- only if it follows another
    chunk of the same type. CoNLL 2000 and 2002 are already IOB2.

    Parameters
    ----------
    tags : sequence of sequences of str
        Tags of each sentence, in one scheme for all: IOB1 or IOB2.

    Returns
    -------
    list of lists of str
        IOB2 tags, of the same lengths; IOB2 input is returned unchanged.

    Raises
    ------
    ValueError
        If a tag is not ``O``, ``B-<type>`` or ``I-<type>``, or some chunks begin as only IOB1
        allows and others as only IOB2 does.

    Examples
    --------
    >>> from sklearn_meta.tasks.tagging import to_iob2
    >>> to_iob2([["I-PER", "I-PER", "B-PER", "O", "I-LOC"]])
    [['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']]
    >>> to_iob2([["B-PER", "I-PER", "B-PER", "O", "B-LOC"]])
    [['B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC']]
    """
    starts = {}  # first chunk that begins with each prefix where the schemes differ
    converted = []
    for position, sentence in enumerate(tags):
        row, previous = [], ""
        for tag in sentence:
            prefix, _, kind = str(tag).partition("-")
            if tag != "O" and not (prefix in ("B", "I") and kind):
                raise ValueError(
                    f"Sentence {position} has the tag {tag!r}: give one list of tags per "
                    "sentence, each O, B-<type> or I-<type>."
                )
            # After a tag of the same type both schemes agree: I- continues, B- begins a chunk.
            if kind and kind != previous:
                starts.setdefault(prefix, f"{tag} in sentence {position}")
                tag = f"B-{kind}"
            row.append(tag)
            previous = kind
        converted.append(row)
    if len(starts) == 2:
        raise ValueError(
            f"Tags are neither IOB1 nor IOB2: one chunk begins with {starts['I']}, another with "
            f"{starts['B']}. Begin all in the same way."
        )
    return converted


def load_conll_folder(folder, dataset, split="train"):
    """Read a CoNLL shared task, with each kind of tags as a task (Table 4 of paper 004).

    Parameters
    ----------
    folder : path
        Folder with the official files: ``train.txt`` and ``test.txt`` of CoNLL 2000 (Tjong Kim Sang
        & Buchholz 2000), or ``eng.train``, ``eng.testa`` and ``eng.testb`` of CoNLL 2003 (Tjong Kim
        Sang & De Meulder 2003).
    dataset : {"conll2000", "conll2003"}
        Which of the two to read.
    split : {"train", "valid", "test"}, default="train"
        File to read; CoNLL 2000 has none for validation.

    Returns
    -------
    dict of {str: (list of lists of str, list of lists of str)}
        Sentences, shared by all tasks, and tags: "pos" and "chunk", and "ner" for CoNLL 2003.
        Chunks and names are IOB2.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the dataset or split is unknown; or as in :func:`read_conll` and :func:`to_iob2`.
    """
    if dataset not in tuple(CONLL):  # a dict would raise a TypeError for a list
        raise ValueError(f"There is no dataset {dataset!r}: choose from {', '.join(CONLL)}.")
    files, columns = CONLL[dataset]
    if split not in tuple(files):
        raise ValueError(f"{dataset} has no split {split!r}: choose from {', '.join(files)}.")
    path = expanded(folder) / files[split]
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}: give a folder that holds {', '.join(files.values())}."
        )
    # Both are ASCII as published; latin-1 also reads copies with other bytes.
    sentences, *tags = _read_columns(path, [0, *columns.values()], None, "latin-1", None)
    return {task: (sentences, _in_iob2(task, row, path)) for task, row in zip(columns, tags)}


def load_tagging(folder, dataset, task, split="train", domains=None):
    """Read tagged sentences of several domains from a parquet file.

    Parameters
    ----------
    folder : path
        Folder with ``<dataset>.parquet``, or with ``seqtag`` that has it: columns ``domain``,
        ``split``, ``tokens`` and one or more of ``pos``, ``chunk`` and ``ner``; one sentence per
        row.
    dataset : str
        Name of the file, such as "crossner".
    task : {"pos", "chunk", "ner"}
        Tags to read.
    split : str, default="train"
        Rows to read, such as "train", "valid" or "test".
    domains : str or sequence of str, default=None
        Domains to read; if None, all that have the split.

    Returns
    -------
    dict of {str: (list of lists of str, list of lists of str)}
        Sentences and tags of each domain, in order of the domains' names. Chunks and names are
        IOB2.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the task, split or a domain is unknown, the file cannot be read, or a sentence is not a
        list of str or does not have one tag per token; or as in :func:`to_iob2`.
    ImportError
        If pyarrow is not installed.
    """
    if task not in TASKS:
        raise ValueError(f"There is no task {task!r}: choose from {', '.join(TASKS)}.")
    folder = expanded(folder)
    folder = folder / "seqtag" if (folder / "seqtag").is_dir() else folder
    path = folder / f"{dataset}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("[!.]*.parquet"))) or "nothing"
        raise FileNotFoundError(
            f"There is no {path}: choose from what is there ({known}), or add the file."
        )
    tagged = {}
    for domain, (sentences, tags) in rows_by_domain(path, ["tokens", task], split, domains).items():
        for position, (sentence, row) in enumerate(zip(sentences, tags)):
            if not (_are_texts(sentence) and _are_texts(row)):
                raise ValueError(
                    f"{path}: tokens and tags must each be a list of str, but are not in sentence "
                    f"{position} of {domain}, split {split!r}. Correct or remove it."
                )
            if len(sentence) != len(row):
                raise ValueError(
                    f"{path}: sentence {position} of {domain}, split {split!r}, has "
                    f"{len(sentence)} tokens and {len(row)} tags. Correct or remove it."
                )
        tagged[domain] = sentences, _in_iob2(task, tags, f"{path}, {domain}")
    return tagged


def _read_columns(path, columns, separator, encoding, comment):
    """Read sentences, as lists of str, from each of some columns of a file."""
    if wrong := [i for i in columns if not isinstance(i, Integral) or i < 0]:
        raise ValueError(f"Columns must be integers, counted from 0, got {wrong[0]!r}.")
    sentences = [[]]
    for number, line in enumerate(_read_text(path, encoding).split("\n"), 1):
        if comment is not None and line.startswith(comment):
            continue
        if not line.strip() or line.startswith("-DOCSTART-"):
            sentences.append([])
            continue
        if separator is None:  # not str.split(): tokens may contain other kinds of space
            cells = re.split("[ \t]+", line.strip(" \t"))
        else:
            cells = line.split(separator)
        if len(cells) <= max(columns):
            raise ValueError(
                f"{path}, line {number}: expected {max(columns) + 1} columns or more, got "
                f"{len(cells)} in {line!r}. Correct the line, the column or the separator."
            )
        sentences[-1].append(cells)
    sentences = list(filter(None, sentences))
    if not sentences:
        raise ValueError(f"{path} has no sentence: put the whole file there.")
    return tuple([[cells[i] for cells in rows] for rows in sentences] for i in columns)


def _read_text(path, encoding):
    path = expanded(path)
    try:
        # Drop the byte order mark that some editors write, as UTF-8 or latin-1 reads it.
        return path.read_text(encoding).removeprefix("\ufeff").removeprefix("ï»¿")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {encoding} ({error}): save it as UTF-8, or give its encoding to "
            "read_conll."
        ) from error


def _are_texts(cell):
    return isinstance(cell, list) and all(isinstance(value, str) for value in cell)


def _field(word, field):
    """Tag of a word that conllu parsed; ``_`` if there is none."""
    if field in ("upos", "xpos"):
        return word[field] or "_"
    features = {**(word["misc"] or {}), **(word["feats"] or {})}
    return features.get(field) or "_"


def _in_iob2(task, tags, origin):
    """Convert tags of chunks and names to IOB2; leave parts of speech as they are."""
    if task == "pos":
        return tags
    try:
        return to_iob2(tags)
    except ValueError as error:
        raise ValueError(f"{origin}, column {task!r}: {error}") from error
