"""Encode any table as a matrix of floats in which NaN is an unobserved cell."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..cells import concat_frames, in_pandas, shown, warn_of_marks, warn_of_numbers
from .column_types import (
    as_table,
    as_text,
    columns_of,
    first_text,
    has_text,
    is_categorical,
    is_empty,
    is_numeric,
    is_of_times,
    numbers_or_gaps,
    read_column,
    to_float,
)
from .gap_marks import gap_marks


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encoder that keeps numeric columns and one-hot encodes others; missing cells stay missing.

    A missing category is NaN in each of its one-hot columns, so the backbone sees an unobserved
    cell (Eq. 5 of paper 000) and not one more category. A category that ``fit`` has not seen is
    missing, too. A column with two values becomes one column, whose sign is decided by the order of
    the two names. Dates, times of day and durations are numbers, in seconds; a period is its
    beginning. A column without any observed cell in ``fit`` becomes one column: later numbers in it
    are used as they are, and text is missing. If the text of a column was all numbers in ``fit``,
    other text in it, such as a later "5+", is missing, too.

    Parameters
    ----------
    max_categories : int, default=20
        Maximum number of columns for one categorical column; the rarest categories share one.
    declared : bool, default=False
        Whether categories declared by a categorical dtype count as seen even if no row has them:
        for streams, which may show them later.
    marks : bool, default=False
        Whether to treat numbers that mark gaps, such as -9999, as missing cells
        (:func:`~sklearn_meta.tasks.gap_marks.gap_marks`).

    Attributes
    ----------
    categorical_ : list of int
        Indices of the one-hot encoded columns.
    unseen_ : list of int
        Indices of the columns without any observed cell in ``fit``; empty for a matrix.
    numerals_ : list of int
        Indices of the columns whose text was all numbers in ``fit``.
    marks_ : dict of int to list of float
        Numbers that mark gaps, by column index.
    times_, durations_ : list of int
        Indices of the columns of dates, times of day or durations, and of those among them that are
        not dates.
    n_features_in_, n_columns_out_ : int
        Number of columns of the table and of the result.
    """

    # Defaults for encoders pickled before these attributes existed; None means unknown.
    unseen_, numerals_, times_, durations_, declared = (), (), None, None, False
    marks, marks_ = False, {}

    def __init__(self, max_categories=20, *, declared=False, marks=False):
        self.max_categories = max_categories
        self.declared = declared
        self.marks = marks

    def fit(self, X, y=None, *, categorical=(), numerals=(), name=None):
        """Find the categorical columns and their categories.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_columns)
            Columns of dtype category are categorical, and so are others that are not all numbers,
            dates, times or durations. Text that is all numbers is numeric, unless its dtype is
            category.
        y : None
            Ignored.
        categorical : sequence of int, default=()
            Indices of columns to treat as categorical whatever they hold.
        numerals : sequence of int, default=()
            Indices of columns of numbers, in which other text is missing.
        name : str, default=None
            Name of the table in warnings about marks, if there are many tables.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a column has complex numbers, a cell is a list, dict, set, array, Series, tensor,
            picture or geometry, or X does not have two dimensions.
        TypeError
            If X is sparse.

        Warns
        -----
        UserWarning
            If a column of text, not of dtype category, has more than ``max_categories`` categories,
            and most look like numbers or dates: a single "?" turns a column of numbers into text.
            Also if ``marks`` is True and there are any.
        """
        X = as_table(X)
        cells = columns_of(X) if categorical or not _is_matrix(X) else []
        for j, (column, dtype) in enumerate(cells):
            if self.declared and str(dtype) == "category":
                cells[j] = np.append(column, dtype.categories.astype(object)), dtype
        columns = [
            as_text(column) if j in categorical else read_column(column, dtype)
            for j, (column, dtype) in enumerate(cells)
        ]
        for j in numerals:
            if columns[j].dtype == object:
                columns[j] = numbers_or_gaps(columns[j])
        self.numerals_ = [
            j
            for j, (column, _) in enumerate(cells)
            if has_text(column) and columns[j].dtype != object
        ]
        self.times_ = [j for j, (_, dtype) in enumerate(cells) if is_of_times(dtype)]
        self.durations_ = [j for j in self.times_ if cells[j][1].kind == "m"]
        self.unseen_ = [j for j, column in enumerate(columns) if is_empty(column)]
        self.categorical_ = [
            j for j, c in enumerate(columns) if c.dtype == object and j not in self.unseen_
        ]
        self.encoders_ = {}
        self.n_features_in_ = np.shape(X)[1]
        names = _names(X)
        for j in self.categorical_:
            known = columns[j][np.not_equal(columns[j], None)]
            different = set(known)
            if j not in categorical and not is_categorical(cells[j][1]):
                warn_of_numbers(names[j], different, self.max_categories)
            encoder = OneHotEncoder(
                drop="if_binary",
                max_categories=self.max_categories,
                handle_unknown="ignore",
                sparse_output=False,
            )
            if len(different) < self.max_categories:  # none is rare: frequencies do not matter
                known = np.array([*different], dtype=object)
            self.encoders_[j] = encoder.fit(known[:, None])
        numbers = columns if cells else np.asarray(X).T
        self.marks_ = self._find_marks(numbers, names, name) if self.marks else {}
        widths = [len(encoder.get_feature_names_out()) for encoder in self.encoders_.values()]
        self.n_columns_out_ = self.n_features_in_ - len(widths) + sum(widths)
        return self

    def transform(self, X):
        """Encode a table.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_columns)

        Returns
        -------
        ndarray of shape (n_rows, n_columns_out_), float64

        Raises
        ------
        ValueError, TypeError
            As in ``fit``; or if the number of columns differs, or a column of numbers now holds
            text or dates, a column of categories holds dates, or a column of dates or durations
            holds anything else.
        NotFittedError
            If ``fit`` was not called.
        """
        check_is_fitted(self)
        X = as_table(X)
        n_columns = np.shape(X)[1]
        if n_columns != vars(self).get("n_features_in_", n_columns):  # an old pickle has none
            raise ValueError(
                f"X has {n_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if not self.encoders_ and not self.times_ and _is_matrix(X):
            encoded = X.astype(np.float64)
            for j in self.marks_:
                encoded[:, j] = self._without_marks(j, encoded[:, j])
            return encoded
        blocks, names = [], _names(X)
        for j, (values, dtype) in enumerate(columns_of(X)):
            if j in self.encoders_:  # always text, even if these rows hold only numbers
                if is_of_times(dtype):
                    raise _changed(names[j], "categories", "dates")
                blocks.append(self._one_hot(self.encoders_[j], as_text(values)))
            else:
                column = read_column(values, dtype)
                if column.dtype == object and is_numeric(column):  # categories that are numbers
                    column = to_float(column)
                elif column.dtype == object and j in self.numerals_:
                    column = numbers_or_gaps(column)
                if column.dtype == object and j in self.unseen_:
                    column = np.full(len(column), np.nan)
                elif j not in self.unseen_:
                    self._check_unit(j, names[j], column, dtype)
                _refuse_text(column, names[j])
                blocks.append(self._without_marks(j, column)[:, None])
        return np.hstack([np.empty((len(X), 0)), *blocks])

    def _find_marks(self, columns, names, name):
        """Find the marks of gaps in the numeric columns except dates; warn of those that occur."""
        numbers = [j for j, c in enumerate(columns) if c.dtype != object and j not in self.times_]
        if not numbers:
            return {}
        table = np.column_stack([columns[j] for j in numbers]).astype(np.float64)
        found, told = gap_marks(table), {}
        for i, marks in found.items():
            for mark in marks:
                if (table[:, i] == mark).any():
                    told.setdefault(mark, []).append(names[numbers[i]])
        if told:
            warn_of_marks(told, name)
        return {numbers[i]: marks for i, marks in found.items()}

    def _without_marks(self, j, column):
        """Replace the marks of gaps in the j-th column by NaN."""
        if j not in self.marks_:
            return column
        return np.where(np.isin(column, self.marks_[j]), np.nan, column)

    def unseen_categories(self, X):
        """Names of the columns of a table with categories or text that ``fit`` has not seen.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_features_in_)

        Returns
        -------
        list
            Names of the columns, or their positions if they have no names.
        """
        unseen = [name for name, seen, cells in self.categories_of(X) if set(cells) - seen]
        return unseen + [name for name, _ in self.text_among_numbers(X)]

    def text_among_numbers(self, X):
        """Find the first cell of other text in each column whose text was all numbers in ``fit``.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_features_in_)

        Yields
        ------
        (name or position, str)
        """
        X = in_pandas(X)
        names = _names(X)
        for j, (values, dtype) in enumerate(columns_of(X)) if self.numerals_ else ():
            if j in self.numerals_:
                text = first_text(read_column(values, dtype))
                if text is not None:
                    yield names[j], text

    def categories_of(self, X):
        """Categories of each categorical column: those that ``fit`` has seen, and those in a table.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_features_in_)

        Yields
        ------
        (name or position, set of str that ``fit`` has seen, list of str in X without missing cells)
        """
        X = in_pandas(X)
        names = _names(X)
        for j, (values, _) in enumerate(columns_of(X)) if self.encoders_ else ():
            if j in self.encoders_:
                cells = [cell for cell in as_text(values) if cell is not None]
                yield names[j], {*_places(self.encoders_[j])}, cells

    def _check_unit(self, j, name, column, dtype):
        """Raise if a column changes between numbers, dates and durations after ``fit``."""
        if self.times_ is None or is_empty(column):
            return
        was_times, is_times = j in self.times_, is_of_times(dtype)
        if was_times != is_times:
            raise _changed(name, *(("dates", "none") if was_times else ("numbers", "dates")))
        if is_times and self.durations_ is not None:
            was, now = (
                "durations" if d else "dates" for d in (j in self.durations_, dtype.kind == "m")
            )
            if was != now:
                raise _changed(name, was, now)

    @staticmethod
    def _one_hot(encoder, column):
        rows = encoder.transform(encoder.categories_[0][:, None])
        rows = np.vstack([rows, np.full_like(rows[:1], np.nan)])  # last row: unknown categories
        places = _places(encoder)
        return rows[[places.get(value, -1) for value in column]]


def _places(encoder):
    """Map the name of each category that a OneHotEncoder has seen to its index."""
    return {str(category): i for i, category in enumerate(encoder.categories_[0])}


def stack_tables(X, more):
    """Stack the rows of two tables with the same columns.

    Parameters
    ----------
    X, more : array-like or DataFrame of shape (n_rows, n_columns)
        Tables whose columns are matched by position.

    Returns
    -------
    ndarray or DataFrame
        Of the same type as ``X``.
    """
    if hasattr(X, "iloc"):
        return concat_frames(X, more)
    X, more = np.asarray(X), np.asarray(more)
    if not (_is_matrix(X) and _is_matrix(more) or X.dtype.kind == more.dtype.kind in "mM"):
        X, more = X.astype(object), more.astype(object)
    return np.vstack([X, more])


def _is_matrix(X):
    return isinstance(X, np.ndarray) and X.dtype.kind in "fiub"


def _names(X):
    """Names of the columns of a table, or their positions."""
    return list(X.columns) if hasattr(X, "columns") else range(np.shape(X)[1])


def _changed(name, before, now):
    return ValueError(
        f"Column {name!r} held {before} in fit but holds {now} now: convert it before both "
        "calls, such as by pandas.to_datetime or pandas.to_timedelta."
    )


def _refuse_text(column, name):
    if column.dtype == object:
        raise ValueError(
            f"Column {name!r} was numeric in fit but holds text now: could not convert string to "
            f"float: {shown(first_text(column))}. Convert it before both calls, by "
            "pandas.to_numeric or astype('category')."
        )
