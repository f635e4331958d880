"""Read parquet, CSV and ARFF files as DataFrames."""

import re

from ..user_warnings import warn


def _read_parquet(file):
    import pandas as pd
    from pyarrow.parquet import ParquetDataset

    frame = pd.read_parquet(file)
    # Drop the index of pandas, which other libraries read and write as the last column.
    frame = frame.loc[:, [not _INDEX.fullmatch(str(name)) for name in frame.columns]]
    # Categories that are numbers come back as numbers; pandas' metadata tell which they are.
    known = (ParquetDataset(file).schema.pandas_metadata or {}).get("columns", [])
    noted = {column["name"] for column in known if column["pandas_type"] == "categorical"}
    for j, name in enumerate(frame.columns[:-1]):
        if str(name) in noted and frame.dtypes.iloc[j].kind in "iuf":
            frame.isetitem(j, frame.iloc[:, j].astype("category"))
    return _without_row_numbers(frame)


#: Missing cells in a column of text. "None" and "null" are left out: they may name classes.
_GAPS = ["", "NA", "N/A", "n/a", "NaN", "nan", "<NA>", "#N/A"]

#: A column name that is a number. pandas calls a second 0.2 "0.2.1", an empty name "Unnamed: 3".
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?(\.\d+)?|Unnamed: \d+", re.IGNORECASE)

#: First line of spreadsheets' files, which says how the cells below are separated.
_SEPARATOR = re.compile(r'"?sep=.?"?[,\s]*')

_INDEX = re.compile(r"__index_level_\d+__")


def _read_csv(file):
    import pandas as pd

    # Not in chunks: codes such as 01 would be numbers in some chunks and text in others.
    options = {"low_memory": False}
    with open(file, encoding="utf-8-sig", errors="replace") as lines:
        if _SEPARATOR.fullmatch(lines.readline()):
            options["skiprows"] = 1
    frame = pd.read_csv(file, **options)
    # With one cell more than names, pandas takes the first for the row's name. If the last column
    # is empty, each line ends in a comma instead.
    if frame.iloc[:, -1].isna().all():
        options |= {"index_col": False}
        frame = pd.read_csv(file, **options)
    # Row names are unique. If these are not, a decimal comma as in 1,5 may have split a cell.
    names_no_rows = frame.index.nlevels > 1 or frame.index.hasnans or not frame.index.is_unique
    if names_no_rows and frame.shape[1] > 1:  # one column: semicolons may separate the cells
        raise ValueError(
            "lines have more cells than there are names of columns: give each column a name, and "
            "put cells that hold a comma, such as 1,5, in quotes"
        )
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    text = [j for j, c in enumerate(columns) if any(isinstance(v, str) for v in c.dropna()[:1000])]
    if any(columns[j].isna().any() for j in text):
        options |= {"keep_default_na": False, "na_values": _GAPS, "dtype": str}
        again = pd.read_csv(file, **options)
        for j in text:
            frame.isetitem(j, again.iloc[:, j].array)
    frame = _without_row_numbers(frame.dropna(how="all"))  # spreadsheets end in empty rows
    if frame.shape[1] > 1 and _begins_with_a_row(frame):
        names = ", ".join(map(str, frame.columns[:3]))
        warn(
            f"{file} begins with numbers, {names} ..., which were read as column "
            "names: if they are a row, add a line of column names before it.",
        )
    return frame


def _without_row_numbers(frame):
    """Drop the row numbers that pandas and R write; a table written twice has two such columns.

    If the rows were once sorted by class, their numbers give the class away, even after shuffling.
    """
    while frame.shape[1] and _numbers_rows(frame.iloc[:, 0]):
        frame = frame.iloc[:, 1:]
    return frame


def _numbers_rows(column):
    """Whether a first column has no name and holds distinct whole numbers."""
    is_unnamed = re.fullmatch(r"Unnamed: 0(\.\d+)?", str(column.name))
    if not is_unnamed or column.dtype.kind not in "if":
        return False
    return column.is_unique and bool((column % 1 == 0).all())  # floats if there is an empty row


def _begins_with_a_row(frame):
    """Whether the names look like a row of numbers, at least one of which has a decimal point.

    If the target is numeric, its name must be a number, too.
    """
    *names, last = map(str, frame.columns)
    if frame.iloc[:, -1].dtype.kind in "if" and not _NUMBER.fullmatch(last):
        return False
    return any("." in name for name in names) and all(map(_NUMBER.fullmatch, names))


def _read_arff(file):
    import arff
    import pandas as pd

    with open(file, encoding="utf-8-sig") as lines:
        content = arff.load(lines)
    frame = pd.DataFrame(content["data"], columns=[name for name, _ in content["attributes"]])
    for name, kind in content["attributes"]:
        if isinstance(kind, list):  # a nominal attribute and its values
            frame[name] = frame[name].astype("category")
    return frame


def to_install(file, error):
    """Make the error that says how to install the reader of a file.

    Parameters
    ----------
    file : path
    error : ImportError

    Returns
    -------
    ImportError
    """
    extra, usual = ("openml", "liac-arff") if file.suffix == ".arff" else ("tables", "pyarrow")
    return ImportError(
        f'Reading {file} requires {error.name or usual}. Run: pip install "sklearn_meta[{extra}]"'
    )


#: Reader for each file suffix: it returns a DataFrame, and raises the errors of its library.
READERS = {".parquet": _read_parquet, ".csv": _read_csv, ".arff": _read_arff}
