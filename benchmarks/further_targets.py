"""Further tasks for benchmarks/few_shot_tables.py: other columns as targets of the same tables.

Twenty tables are few to make choices by: a gain of two standard errors on them may be none on other
tables. Their other columns, and targets of regression cut into classes, give five times as many.
"""

import numpy as np
import pandas as pd
from table_seeds import generator_of

#: Maximum number of classes of a target, and minimum number of rows per class.
MOST_CLASSES, LEAST_ROWS = 10, 30


def further_targets(tables, regression_tables, n_columns=2):
    """Return classification tables with other targets than their own.

    Parameters
    ----------
    tables : list of Table
        Up to ``n_columns`` columns of each become targets; its own target is dropped. The table's
        name determines which columns, and into how many classes numbers are cut.
    regression_tables : list of Table
        The target of each is cut into 2, 3 and 5 classes of equal size.
    n_columns : int, default=2

    Returns
    -------
    list of Table
        Named "table/column" or "table/number of classes".
    """
    found = []
    for table in regression_tables:
        for n_classes in (2, 3, 5):
            y = intervals(table.y, n_classes)
            found.append(table._replace(name=f"{table.name}/{n_classes}", y=y))
    for table in tables:
        rng, made = generator_of(table, 1), []
        for column in rng.permutation(table.X.columns):
            if len(made) == n_columns or table.X.shape[1] < 3:  # at least two must be left
                break
            y = as_classes(table.X[column], int(rng.integers(2, 5)))
            if y is not None:
                made.append(column_as_target(table, column, y))
        found += made
    counts = [np.bincount(table.y) for table in found]
    return [t for t, n in zip(found, counts, strict=True) if len(n) > 1 and n.min() >= LEAST_ROWS]


def column_as_target(table, column, y):
    """Return the table without a column, and without rows that have no class (y < 0)."""
    rows = y >= 0
    X = table.X.drop(columns=column)[rows].reset_index(drop=True)
    return table._replace(name=f"{table.name}/{column}", X=X, y=y[rows])


def as_classes(values, n_classes):
    """Class codes of a column, -1 for rows without a class; None if there are not two classes.

    Parameters
    ----------
    values : Series
        Numbers with more than ten distinct values are cut into intervals of equal size. Otherwise
        each value that enough rows have is a class, at most the ten most frequent.
    n_classes : int
        Number of intervals.

    Returns
    -------
    ndarray of shape (n_rows,), int, or None
    """
    y = np.full(len(values), -1)
    known = values.notna().to_numpy()
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > MOST_CLASSES:
        y[known] = intervals(values[known].to_numpy(float), n_classes)
    else:
        counts = values.value_counts()
        common = counts[counts >= LEAST_ROWS].index[:MOST_CLASSES]
        rows = values.isin(common).to_numpy()
        y[rows] = pd.factorize(values[rows].astype(str), sort=True)[0]
    return y if y.max(initial=-1) > 0 else None


def intervals(values, n_classes):
    """Codes of intervals with equally many values each; fewer intervals if values are repeated."""
    cuts = np.quantile(values, np.arange(1, n_classes) / n_classes)
    return np.unique(np.searchsorted(cuts, values), return_inverse=True)[1]
