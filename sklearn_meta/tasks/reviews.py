"""FDU-MTL: reviews of sixteen domains; telling good from bad is one task per domain.

:func:`load_reviews` reads them from a folder, to which the user downloads them.
:func:`rows_by_domain` reads parquet files of several domains, of these or other texts.
"""

import codecs
from collections.abc import Iterable

import numpy as np

from ..folders import expanded

#: Splits, and the suffix of the public files that hold their rows.
SUFFIXES = {
    "train": ".task.train",
    "valid": ".task.train",
    "test": ".task.test",
    "unlabelled": ".task.unlabel",
}

#: Number of rows at the end of a public training file that are for validation, as in paper 004.
N_VALID = 200


def load_reviews(folder, split="train", domains=None):
    """Read FDU-MTL (Liu, Qiu & Huang 2017; Table 1 of paper 004) from a folder.

    Parameters
    ----------
    folder : path
        Folder with ``fdu_mtl.parquet``, which is preferred: columns ``domain``, ``split``,
        ``label`` and ``text``. Or with the public files ``<domain>.task.train``,
        ``<domain>.task.test`` and ``<domain>.task.unlabel``: one review per line, preceded in the
        first two by a label and a tab.
    split : {"train", "valid", "test", "unlabelled"}, default="train"
        Rows to read. The public files have none for validation: the last 200 rows of a training
        file are "valid", the rows before them "train", in the file's order.
    domains : str or sequence of str, default=None
        Domains to read; if None, all that have the split.

    Returns
    -------
    dict of {str: (list of str, ndarray of shape (n_reviews,), int64)}
        Texts and labels of each domain, in order of the domains' names. Words of a text are
        separated by blanks; a text may be empty. Labels are 1 for good, 0 for bad, and -1 for
        unlabelled reviews.

    Raises
    ------
    FileNotFoundError
        If the folder has neither.
    ValueError
        If the split or a domain is unknown, a file has no rows, or a row is malformed; a public
        training file must have more than 200 rows.
    ImportError
        If there is a parquet file and pyarrow is not installed.

    Notes
    -----
    A line of the public files that is not UTF-8 is read as latin-1, in which each byte is a
    character. Unlabelled reviews are mostly as their authors wrote them, while labelled ones are
    lower-cased and split into words.
    """
    if split not in tuple(SUFFIXES):  # a dict would raise a TypeError for a list
        raise ValueError(f"There is no split {split!r}: choose from {', '.join(SUFFIXES)}.")
    folder = expanded(folder)
    packed = folder / "fdu_mtl.parquet"
    if packed.is_file():
        return _read_parquet(packed, split, domains)
    suffix = SUFFIXES[split]
    known = [path.name.removesuffix(suffix) for path in folder.glob(f"[!.]*{suffix}")]
    if not known:
        raise FileNotFoundError(
            f"No split {split!r} of FDU-MTL in {folder}: give a folder that holds {packed.name}, "
            f"or <domain>{suffix} for each domain."
        )
    chosen = _choose(domains, known, folder)
    return {domain: _read_lines(folder / (domain + suffix), split) for domain in chosen}


def rows_by_domain(path, columns, split, domains=None):
    """Read one split of a parquet file that has columns ``domain`` and ``split``.

    Parameters
    ----------
    path : path
        The file.
    columns : sequence of str
        Further columns, which are returned.
    split : str
        Value of the column ``split`` in the rows to read.
    domains : str or sequence of str, default=None
        Domains to read; if None, all that have the split.

    Returns
    -------
    dict of {str: tuple of lists}
        For each domain, in order of names, the values of each column in the file's order.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no parquet file, a column, the split or a domain is not in it, or a value is
        missing.
    ImportError
        If pyarrow is not installed.
    """
    try:
        from pyarrow import ArrowException, compute, parquet
    except ImportError as error:
        raise ImportError(
            f'Reading {path} requires pyarrow. Run: pip install "sklearn_meta[tables]"'
        ) from error
    path = expanded(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no {path}: put it there or give another path.")
    wanted = ["domain", "split", *columns]
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}): put the right file there.") from error
    if missing := [name for name in wanted if name not in table.column_names]:
        raise ValueError(
            f"{path} has no column {missing[0]!r}, only {', '.join(table.column_names)}: "
            "choose from these or give another file."
        )
    if absent := [name for name in wanted if table[name].null_count]:
        raise ValueError(f"{path} has rows without {absent[0]!r}: fill them in or remove them.")
    splits = sorted(table["split"].unique().to_pylist())
    if split not in splits:
        raise ValueError(
            f"{path} has no split {split!r}: choose from {', '.join(map(str, splits))}."
        )
    table = table.filter(compute.field("split") == split)
    rows = {}
    for domain in _choose(domains, table["domain"].unique().to_pylist(), path):
        part = table.filter(compute.field("domain") == domain)
        rows[domain] = tuple(part[name].to_pylist() for name in columns)
    return rows


def _choose(domains, known, origin):
    """The domains asked for, in order of their names."""
    if domains is None:
        return sorted(known)
    one = isinstance(domains, str) or not isinstance(domains, Iterable)
    chosen = {domains} if one else set(domains)
    if unknown := chosen - set(known):
        raise ValueError(
            f"{origin} has no domain {min(unknown, key=str)!r} in this split: choose "
            f"from {', '.join(map(str, sorted(known)))}."
        )
    return sorted(chosen)


def _read_parquet(path, split, domains):
    """Texts and labels of each domain from a parquet file."""
    allowed = {-1} if split == "unlabelled" else {0, 1}
    reviews = {}
    for domain, (texts, labels) in rows_by_domain(path, ["text", "label"], split, domains).items():
        if wrong := set(labels) - allowed:
            raise ValueError(
                f"{path} has the label {min(wrong)!r} in split {split!r} of {domain}, where "
                f"{' or '.join(map(str, sorted(allowed)))} is expected: correct it."
            )
        if other := [text for text in texts if not isinstance(text, str)]:
            raise ValueError(
                f"{path} has {other[0]!r} instead of a text in split {split!r} of {domain}: "
                "correct it."
            )
        reviews[domain] = [text.strip() for text in texts], np.array(labels, dtype=np.int64)
    return reviews


def _read_lines(path, split):
    """Texts and labels of one domain from a public file."""
    texts, labels = [], []
    # Not splitlines: it also splits at characters that some reviews contain.
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        line = _decode(line)
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        labelled = tab and label in ("0", "1")
        if split == "unlabelled":
            texts.append(text if labelled else line)
            labels.append(-1)
        elif labelled:
            texts.append(text)
            labels.append(int(label))
        else:
            raise ValueError(
                f"{path}, line {number}: expected 0 or 1, a tab and a text, got {line[:40]!r}. "
                "Correct or remove the line."
            )
    if SUFFIXES[split] == SUFFIXES["valid"]:
        if len(texts) <= N_VALID:
            raise ValueError(
                f"{path} has {len(texts)} rows, but its last {N_VALID} are for validation: put "
                "the whole file there."
            )
        rows = slice(-N_VALID, None) if split == "valid" else slice(-N_VALID)
        texts, labels = texts[rows], labels[rows]
    if not texts:
        raise ValueError(f"{path} has no review: put the whole file there.")
    return [text.strip() for text in texts], np.array(labels, dtype=np.int64)


def _decode(line):
    """Decode a line as UTF-8, or as latin-1 if it is not UTF-8, whatever the other lines are."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return line.removeprefix(codecs.BOM_UTF8).decode("latin-1")
