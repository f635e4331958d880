"""Tables of files: parquet, CSV and ARFF, as DataFrames."""

import re

from ..user_warnings import warn


def _read_parquet(file):
    import pandas as pd
    from pyarrow.parquet import ParquetDataset

    frame = pd.read_parquet(file)
    # What pandas calls its index in a file, and other libraries write again as a column, the last.
    frame = frame.loc[:, [not _INDEX.fullmatch(str(name)) for name in frame.columns]]
    # Categories that are numbers come back as numbers, and what pandas noted tells them apart.
    known = (ParquetDataset(file).schema.pandas_metadata or {}).get("columns", [])
    noted = {column["name"] for column in known if column["pandas_type"] == "categorical"}
    for j, name in enumerate(frame.columns[:-1]):
        if str(name) in noted and frame.dtypes.iloc[j].kind in "iuf":
            frame.isetitem(j, frame.iloc[:, j].astype("category"))
    return _without_row_numbers(frame)


#: What is a gap in a column of text: "None" and "null" are names of classes, too.
_GAPS = ["", "NA", "N/A", "n/a", "NaN", "nan", "<NA>", "#N/A"]

#: Of equal names pandas numbers the second, 0.2.1, and it names a gap by its place.
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?(\.\d+)?|Unnamed: \d+", re.IGNORECASE)

_INDEX = re.compile(r"__index_level_\d+__")


def _read_csv(file):
    import pandas as pd

    # Whole, not in parts: codes such as 01 would be numbers in some of them, and text in others.
    options = {"low_memory": False}
    frame = pd.read_csv(file, **options)
    # A cell more than there are names: rows have names, unless each line ends in a comma.
    if frame.iloc[:, -1].isna().all():
        options |= {"index_col": False}
        frame = pd.read_csv(file, **options)
    # Names of rows are all different. Where they are not, a comma may have parted 1,5 in two cells.
    names_no_rows = frame.index.nlevels > 1 or frame.index.hasnans or not frame.index.is_unique
    if names_no_rows and frame.shape[1] > 1:  # of one column, semicolons may part the cells
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
    frame = _without_row_numbers(frame.dropna(how="all"))  # a spreadsheet ends in such rows
    if frame.shape[1] > 1 and _begins_with_a_row(frame):
        names = ", ".join(map(str, frame.columns[:3]))
        warn(
            f"{file} begins with numbers, {names} ..., which were taken for names "
            "of its columns: if they are a row, put a line of names before it.",
        )
    return frame


def _without_row_numbers(frame):
    """A table without the numbers of rows that pandas and R write, twice if written again.

    Of sorted rows they tell the class, however the rows were chosen or shuffled since.
    """
    while frame.shape[1] and _numbers_rows(frame.iloc[:, 0]):
        frame = frame.iloc[:, 1:]
    return frame


def _numbers_rows(column):
    """Whether a first column has no name and whole numbers that are all different."""
    is_unnamed = re.fullmatch(r"Unnamed: 0(\.\d+)?", str(column.name))
    if not is_unnamed or column.dtype.kind not in "if":
        return False
    return column.is_unique and bool((column % 1 == 0).all())  # floats beside an empty row


def _begins_with_a_row(frame):
    """Whether names are numbers, and not all of them whole; that of a target of numbers, too."""
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
    """The error of a reader that is not installed, with what to do.

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
        f"To read {file} takes {error.name or usual}. Run: pip install 'sklearn_meta[{extra}]'"
    )


#: By the ends of files' names: each gives a DataFrame of a file, and raises errors of its own.
READERS = {".parquet": _read_parquet, ".csv": _read_csv, ".arff": _read_arff}
