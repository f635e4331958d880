"""Collections: named tables, loaded one by one, filtered and split.

A *collection* is a mapping from names to :class:`RawTable`. Its names are cheap to list;
``collection[name]`` loads one table, or raises an OSError or ValueError that names it. If several
tables come from one original, ``collection.families`` maps their names to the name of that
original.
"""

import hashlib
from collections.abc import Mapping
from numbers import Integral
from pathlib import PurePath

import numpy as np
from sklearn.utils import check_consistent_length

from ..folders import expanded
from .dataset import Dataset, RawTable
from .pairs import labels_of, of_arrays, parts_of_pair
from .table_files import READERS, to_install


class Folder(Mapping):
    """Tables in the files of a folder: parquet, CSV or ARFF; the last column is the target.

    A row whose target is missing is unlabelled, as in :func:`as_dataset`; -1 is a class like any
    other.

    The first line of a CSV file names the columns, and cells are separated by commas. In columns of
    text, "None" and "null" are text, while empty cells and "NA", "N/A" or "NaN" are missing. A
    first column without a name ("Unnamed: 0" if pandas wrote it) that holds distinct integers is a
    row number and is left out. Requires pandas, and pyarrow for parquet:
    ``pip install "sklearn_meta[tables]"``; ARFF requires liac-arff, which comes with
    ``"sklearn_meta[openml]"``.

    Parameters
    ----------
    path : path
        The folder. If it has an ``index.csv`` (capitals do not matter), the tables are those in its
        column ``name``, in that order. Other columns become metadata; ``split``, ``task`` and
        ``family`` have a special meaning. Without an index all tables in the folder are used, by
        name, except hidden files.
    split, task : str, default=None
        Only use tables for which the index has this value, such as "train" or "classification".

    Attributes
    ----------
    families : dict of str to str
        Column ``family`` of the index.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or has no table.
    ValueError
        If ``split`` or ``task`` is given and the index does not have it, or two files, or two rows
        of the index, have the same name.
    ImportError
        If the package that reads a file is not installed.
    """

    def __init__(self, path, *, split=None, task=None):
        self.path = expanded(path).absolute()  # tables are read later, maybe from elsewhere
        if not self.path.is_dir():
            raise FileNotFoundError(
                f"There is no folder {expanded(path)}: give a folder of tables."
            )
        self._files, index = {}, self.path / "index.csv"
        # By name: paths of Windows are sorted without regard to capitals.
        for file in sorted(self.path.glob("[!.]*"), key=lambda file: file.name):
            if file.name.lower() == "index.csv":  # of several, the one in small letters is last
                index = file
            elif file.suffix.lower() in READERS:
                if file.stem in self._files:
                    raise ValueError(f"{self.path} has two tables {file.stem!r}: rename one.")
                self._files[file.stem] = file
        wanted = {"split": split, "task": task}
        wanted = {key: str(value) for key, value in wanted.items() if value is not None}
        self._metadata = self._read_index(index, wanted)
        if not self._metadata:
            needed = "a row in its index.csv" if self._files else ".parquet, .csv or .arff files"
            raise FileNotFoundError(f"No tables in {self.path}: it needs {needed}.")
        self.families = {
            name: row["family"] for name, row in self._metadata.items() if "family" in row
        }

    def _read_index(self, file, wanted):
        if not file.is_file():
            if wanted:
                raise ValueError(
                    f"No index.csv in {self.path}, which is needed to select by "
                    f"{' and '.join(wanted)}."
                )
            return {name: {} for name in self._files}
        try:
            import pandas as pd
        except ImportError as error:
            raise to_install(file, error) from error
        like = {"index_col": False, "skipinitialspace": True}  # accepts "name, task"
        try:
            index = pd.read_csv(file, **like)
        except ValueError as error:  # empty, not text, or rows of unequal length
            raise ValueError(f"{file} is not a CSV with one row per table: {error}.") from error
        for key in ("name", *wanted):
            if key not in index:
                raise ValueError(f"{file} has no column {key!r}.")
        as_text = pd.read_csv(file, **like, dtype=str, keep_default_na=False)
        for key in {"name", "id", "split", "task", "family"} & set(index):  # "NA" is text
            index[key] = as_text[key]
        index = index[as_text.ne("").any(axis=1)]  # a spreadsheet ends in rows of empty cells
        if (twice := index["name"].duplicated()).any():  # as in a train and a test split
            name = index["name"][twice].iloc[0]
            raise ValueError(f"{file} has two rows for {name!r}: remove one.")
        for key, value in wanted.items():
            there = sorted(set(index[key].astype(str)))
            index = index[index[key] == value]
            if index.empty:
                raise FileNotFoundError(
                    f"No tables in {self.path} with {key} {value!r}: {file.name} has {there}."
                )
        rows = index.to_dict("records")
        # Leave out the empty cells of the index.
        return {
            row["name"]: {k: v for k, v in row.items() if pd.notna(v) and v != ""} for row in rows
        }

    def __getitem__(self, name):
        metadata = self._metadata[name]
        if name not in self._files:
            stem = PurePath(name).stem
            hint = f": call it {stem!r} in index.csv" if stem in self._files else ""
            raise FileNotFoundError(f"Dataset {name!r}: no file of that name in {self.path}{hint}.")
        file = self._files[name]
        try:
            frame = READERS[file.suffix.lower()](file)
        except ImportError as error:
            raise to_install(file, error) from error
        except Exception as error:  # each reader raises other errors
            hint = ": save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
            raise ValueError(f"Dataset {name!r}: cannot read {file} ({error}){hint}.") from error
        if frame.shape[1] < 2:
            raise ValueError(
                f"Dataset {name!r}: {file} has no column besides the target. In a CSV file, "
                "separate the cells by commas."
            )
        if frame.iloc[:, -1].isna().all():
            raise ValueError(
                f"Dataset {name!r}: the last column of {file}, the target, has no value: fill it "
                "in, or move the target to the last column."
            )
        return RawTable(frame.iloc[:, :-1], frame.iloc[:, -1], metadata | {"marked": False})

    def __iter__(self):
        return iter(self._metadata)

    def __len__(self):
        return len(self._metadata)


class Subset(Mapping):
    """Some of the tables of a collection.

    Parameters
    ----------
    collection : mapping
    names : sequence of str
    """

    def __init__(self, collection, names):
        self.collection = collection
        self.names = list(names)
        self.families = getattr(collection, "families", {})

    def __getitem__(self, name):
        if name not in self.names:
            raise KeyError(name)
        return self.collection[name]

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


class Selection(dict):
    """Tables that passed the filters of :func:`select`, in memory: a dict of str to RawTable.

    Attributes
    ----------
    rejected : dict of str to str
        Why each of the others was not taken.
    families : dict of str to str
        As in a collection.
    """

    def __init__(self, tables, rejected, families):
        super().__init__(tables)
        self.rejected = rejected
        self.families = families


def select(
    collection,
    *,
    n_columns=None,
    n_rows=None,
    n_classes=None,
    min_class_size=None,
    exclude=(),
    one_a_family=False,
):
    """Tables of a collection that meet conditions, as paper 000 selected its own from OpenML.

    Parameters
    ----------
    collection : mapping of str to RawTable, Dataset or (X, y)
    n_columns, n_rows, n_classes : (int, int), default=None
        Smallest and largest number allowed, both inclusive. Unlabelled rows count as rows, but
        belong to no class. Regression tables have no classes and pass: to select a folder's tables
        of one task, use ``Folder(..., task="classification")``.
    min_class_size : int, default=None
        Minimum number of rows per class.
    exclude : str, int or collection of these, default=()
        Names, families or dataset ids (metadata ``"id"``) to leave out, such as the datasets of a
        benchmark.
    one_a_family : bool, default=False
        Whether to keep only the first table of each family: OpenML has many versions of one
        dataset.

    Returns
    -------
    Selection
        ``rejected`` says why each of the other tables, including those that could not be loaded,
        was not taken.

    Raises
    ------
    ValueError
        If the collection is not a mapping, or bounds are not a pair.
    """
    _check_mapping(collection)
    pairs = {"n_columns": n_columns, "n_rows": n_rows, "n_classes": n_classes}
    for key, bounds in pairs.items():
        if bounds is not None and (np.shape(bounds) != (2,) or None in bounds):
            raise ValueError(
                f"{key} must be a pair (minimum, maximum), such as (2, np.inf), got {bounds!r}."
            )
    single = isinstance(exclude, str | Integral)
    exclude = {str(item) for item in ([exclude] if single else exclude)}
    tables, rejected, families = {}, {}, {}
    for name in collection:
        family = family_of(collection, name)
        if exclude & {str(name), str(family)}:
            rejected[name] = "excluded"
            continue
        if one_a_family and family in families.values():
            rejected[name] = f"another of family {family!r}"
            continue
        try:
            X, y, metadata = _as_raw(collection[name], name)
            if str(metadata.get("id")) in exclude:
                rejected[name] = "excluded"
                continue
            labels = labels_of(y, name, metadata)[1]
            if len(np.shape(X)) != 2:
                raise ValueError(f"expected X with rows and columns, got shape {np.shape(X)}.")
            check_consistent_length(X, y)
        except (OSError, ValueError, TypeError) as error:  # meta_fit leaves these out, too
            rejected[name] = str(error)
            continue
        found = {"rows": (len(y), n_rows), "columns": (np.shape(X)[1], n_columns)}
        if labels.dtype.kind != "f":
            counts = np.bincount(labels)
            found["classes"] = (len(counts), n_classes)
            found["rows in the smallest class"] = (
                counts.min(initial=len(y)),
                min_class_size and (min_class_size, np.inf),
            )
        wrong = [
            f"{value} {what}"
            for what, (value, bounds) in found.items()
            if bounds and not bounds[0] <= value <= bounds[1]
        ]
        if wrong:
            rejected[name] = ", ".join(wrong)
        else:
            tables[name] = RawTable(X, y, metadata)
            families[name] = family
    return Selection(tables, rejected, families)


def _as_raw(item, name):
    """Convert an item of a collection to a RawTable."""
    if isinstance(item, Dataset):
        item = of_arrays(item, f"Dataset {name!r} is malformed")
        task = "regression" if item.y.dtype.kind == "f" else "classification"
        X, y = item.X, item.y
        if y.dtype.kind == "i" and (y < 0).any():
            y = np.where(y < 0, np.nan, y)
        if item.unlabelled is not None:
            gaps = np.full((len(item.unlabelled), *y.shape[1:]), np.nan)
            X, y = np.vstack([X, item.unlabelled]), np.concatenate([y, gaps])
        return RawTable(X, y, {"task": task})
    return RawTable(*parts_of_pair(item, name))


def _check_mapping(collection):
    if not isinstance(collection, Mapping):
        raise ValueError(
            f"collection must be a mapping of names to tables, got {type(collection).__name__}."
        )


def split(collection, shares=(0.6, 0.1, 0.3), seed=0):
    """Split tables into meta-training, validation and test, by a hash of each table's family.

    A table falls into the same part whatever else the collection holds, and tables of one family
    stay together.

    Parameters
    ----------
    collection : mapping of str to RawTable or (X, y)
    shares : sequence of float, default=(0.6, 0.1, 0.3)
        Expected shares of the parts; they sum to 1.
    seed : int, default=0
        Seed of the hash.

    Returns
    -------
    list of Subset
        One per share.

    Raises
    ------
    ValueError
        If the collection is not a mapping, or the shares are negative or do not sum to 1.
    """
    _check_mapping(collection)
    bounds = np.cumsum(shares)
    if not (min(shares, default=-1) >= 0 and abs(bounds[-1] - 1) <= 1e-9):  # fails for NaN, too
        raise ValueError(f"shares must be non-negative and sum to 1, got {tuple(shares)}.")
    parts = [[] for _ in shares]
    for name in collection:
        told = f"{seed}/{family_of(collection, name)}"
        # A file's name may not be valid in the locale's encoding.
        digest = hashlib.sha256(told.encode(errors="surrogateescape")).digest()
        place = int.from_bytes(digest[:8]) / 2**64
        parts[int(np.searchsorted(bounds[:-1], place, side="right"))].append(name)
    return [Subset(collection, names) for names in parts]


def family_of(collection, name):
    """Name of the original that a table is a version of; its own name if none is known."""
    return getattr(collection, "families", {}).get(name, name)
