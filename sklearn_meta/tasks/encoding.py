"""From any table to a matrix of floats in which NaN is an unobserved cell."""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from ..cells import (
    concat_frames,
    in_seconds,
    is_missing,
    is_missing_value,
    text_as_objects,
    warn_of_numbers,
)

#: Dates, times of day and durations as objects; datetime and pandas' Timestamp are dates.
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)

#: What may be in a cell of a table of objects, and is neither a number nor a category.
_NESTED = (list, dict, set, np.ndarray)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Numeric columns as they are, the others one-hot; a missing cell stays missing.

    A missing category is NaN in each of its one-hot columns, so the backbone sees an unobserved
    cell (Eq. 5 of paper 000) and not one more category. A category that ``fit`` has not seen is
    missing, too. A two-valued column becomes one column, whose sign the order of the two names
    decides. Dates, times of day and durations are numbers, of seconds, and a period is when it
    begins. A column of which ``fit`` has seen no cell is one column: numbers that it holds later
    are taken as they are, and other text is missing.

    Parameters
    ----------
    max_categories : int, default=20
        Columns at most that one categorical column becomes; rarer categories share one.
    declared : bool, default=False
        Whether categories that a dtype category declares count as seen, though no row has them:
        for streams, which may show them later.

    Attributes
    ----------
    categorical_ : list of int
        Positions of the columns that are one-hot encoded.
    unseen_ : list of int
        Positions of the columns of which ``fit`` has seen no cell; of a matrix, none.
    times_, durations_ : list of int
        Positions of the columns of dates, times of day or durations, and of these those that are
        not of dates.
    n_features_in_, n_columns_out_ : int
        Number of columns of the table, and of the result.
    """

    # Of encoders that were pickled before there were such; None: not known.
    unseen_, times_, durations_, declared = (), None, None, False

    def __init__(self, max_categories=20, *, declared=False):
        self.max_categories = max_categories
        self.declared = declared

    def fit(self, X, y=None, *, categorical=()):
        """Find the categorical columns and their categories.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_columns)
            Categorical are columns of dtype category, and others that are not all numbers, dates,
            times or durations. Text of numbers is numbers, whatever its dtype.
        y : None
            Ignored.
        categorical : sequence of int, default=()
            Positions of columns that are categorical whatever they hold.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a column is of complex numbers, or a cell is a list, dict, set or array.

        Warns
        -----
        UserWarning
            If a column of text, not of dtype category, has more than ``max_categories`` of them,
            and most look like numbers or dates: a single "?" makes text of a column of numbers.
        """
        cells = list(columns_of(X)) if categorical or not _is_matrix(X) else []
        for j, (column, dtype) in enumerate(cells):
            if self.declared and str(dtype) == "category":
                cells[j] = np.append(column, dtype.categories.astype(object)), dtype
        columns = [
            _as_text(column) if j in categorical else read_column(column, dtype)
            for j, (column, dtype) in enumerate(cells)
        ]
        self.times_ = [j for j, (_, dtype) in enumerate(cells) if _is_of_times(dtype)]
        self.durations_ = [j for j in self.times_ if cells[j][1].kind == "m"]
        self.unseen_ = [j for j, column in enumerate(columns) if _is_empty(column)]
        self.categorical_ = [
            j for j, c in enumerate(columns) if c.dtype == object and j not in self.unseen_
        ]
        self.encoders_ = {}
        self.n_features_in_ = np.shape(X)[1]
        names = _names(X)
        for j in self.categorical_:
            known = columns[j][np.not_equal(columns[j], None)]
            different = set(known)
            if j not in categorical and not _is_categorical(cells[j][1]):
                warn_of_numbers(names[j], different, self.max_categories)
            encoder = OneHotEncoder(
                drop="if_binary",
                max_categories=self.max_categories,
                handle_unknown="ignore",
                sparse_output=False,
            )
            if len(different) < self.max_categories:  # of too many it counts which are rare
                known = np.array([*different], dtype=object)
            self.encoders_[j] = encoder.fit(known[:, None])
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
        ValueError
            As in ``fit``; or if there are more or fewer columns, or one of numbers holds other text
            or dates now, one of categories dates, one of dates numbers or durations.
        NotFittedError
            If there was no ``fit``.
        """
        check_is_fitted(self)
        n_columns = np.shape(X)[1]
        if n_columns != vars(self).get("n_features_in_", n_columns):  # an old pickle has none
            raise ValueError(
                f"X has {n_columns} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if not self.encoders_ and not self.times_ and _is_matrix(X):
            return X.astype(np.float64)
        blocks, names = [], _names(X)
        for j, (values, dtype) in enumerate(columns_of(X)):
            if j in self.encoders_:  # text even where these rows hold nothing but numbers
                if _is_of_times(dtype):
                    raise _changed(names[j], "categories", "dates")
                blocks.append(self._one_hot(self.encoders_[j], _as_text(values)))
            else:
                column = read_column(values, dtype)
                if column.dtype == object and _is_numeric(column):  # text of numbers, or no cell
                    column = to_float(column)
                if column.dtype == object and j in self.unseen_:
                    column = np.full(len(column), np.nan)
                elif j not in self.unseen_:
                    self._check_unit(j, names[j], column, dtype)
                _refuse_text(column, names[j])
                blocks.append(column[:, None])
        return np.hstack([np.empty((len(X), 0)), *blocks])

    def unseen_categories(self, X):
        """Of a table, names of the columns with a category that ``fit`` has not seen.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_features_in_)

        Returns
        -------
        list
            Of names, or of positions where columns have none.
        """
        return [name for name, seen, cells in self.categories_of(X) if set(cells) - seen]

    def categories_of(self, X):
        """What each column of categories holds, beside what ``fit`` has seen of it.

        Parameters
        ----------
        X : ndarray or DataFrame of shape (n_rows, n_features_in_)

        Yields
        ------
        (name or position, set of str that ``fit`` has seen, list of str in X without missing cells)
        """
        names = _names(X)
        for j, (values, _) in enumerate(columns_of(X)) if self.encoders_ else ():
            if j in self.encoders_:
                cells = [cell for cell in _as_text(values) if cell is not None]
                yield names[j], {*_places(self.encoders_[j])}, cells

    def _check_unit(self, j, name, column, dtype):
        """Refuse numbers where ``fit`` has seen seconds of dates, or the other way round."""
        if self.times_ is None or _is_empty(column):
            return
        was_times, is_times = j in self.times_, _is_of_times(dtype)
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
        rows = np.vstack([rows, np.full_like(rows[:1], np.nan)])  # the last for what is unknown
        places = _places(encoder)
        return rows[[places.get(value, -1) for value in column]]


def _places(encoder):
    """Places of the categories that a OneHotEncoder has seen, by their names."""
    return {str(category): i for i, category in enumerate(encoder.categories_[0])}


def stack_tables(X, more):
    """Rows of two tables of the same kind, one below the other.

    Parameters
    ----------
    X, more : array-like or DataFrame of shape (n_rows, n_columns)
        Columns belong together by their position.

    Returns
    -------
    ndarray or DataFrame
        As ``X`` is.
    """
    if hasattr(X, "iloc"):
        return concat_frames(X, more)
    X, more = np.asarray(X), np.asarray(more)
    if not (_is_matrix(X) and _is_matrix(more) or X.dtype.kind == more.dtype.kind in "mM"):
        X, more = X.astype(object), more.astype(object)
    return np.vstack([X, more])


def _is_matrix(X):
    return isinstance(X, np.ndarray) and X.dtype.kind in "fiub"


def columns_of(X):
    """The columns of a table, each an array of its values and its dtype."""
    if hasattr(X, "columns"):
        return [_values(column, column.dtype) for _, column in X.items()]
    X = np.asarray(text_as_objects(X))
    if X.dtype.kind in "US":  # an array of which numpy has made text
        X = X.astype(object)
    return [_values(X[:, j], X.dtype) for j in range(X.shape[1])]


def _values(column, dtype):
    """Values of a column as an array, dates and durations in seconds, and what dtype they had."""
    if str(dtype).startswith("period["):
        column = column.dt.to_timestamp()
        dtype = column.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in "mM":  # with a time zone, too
        return in_seconds(column, kind), np.dtype(f"{kind}8[us]")
    if not isinstance(column, np.ndarray):  # numbers of numpy's stay, objects are slow
        is_plain = isinstance(dtype, np.dtype) and kind in "fiub"
        column = column.to_numpy(dtype=dtype if is_plain else object)
    plain = column.dtype == object and not _is_categorical(dtype)  # which may be called dates
    return (_seconds(column) if plain else None) or (column, dtype)


def _seconds(column):
    """Dates, times or durations that are objects as numbers, and the dtype that says which.

    None if there is anything else.
    """
    # Which of most columns the first cell tells.
    if not all(_is_time(value) or is_missing_value(value) for value in column):
        return None
    if not any(map(_is_time, column)):
        return None
    known = ~is_missing(column)
    times = column[known]
    seconds = np.full(len(column), np.nan)
    seconds[known] = [_in_seconds(value) for value in times]
    durations = all(isinstance(value, time | timedelta | np.timedelta64) for value in times)
    return seconds, np.dtype("m8[us]" if durations else "M8[us]")


def _is_time(value):
    return isinstance(value, _TIMES) or hasattr(value, "to_timestamp")


def _in_seconds(value):
    if hasattr(value, "to_timestamp"):  # a period of pandas'
        value = value.to_timestamp()
    if isinstance(value, np.generic):
        return float(_values(np.array([value]), value.dtype)[0][0])
    if isinstance(value, time):
        value = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo and UTC)).total_seconds()


def read_column(column, dtype):
    """A float array, or an object array of strings in which None is a missing cell."""
    if getattr(dtype, "kind", "O") == "c":
        raise ValueError("Complex data not supported: make two columns of real numbers of it.")
    if not _is_categorical(dtype):
        with suppress(TypeError, ValueError):
            return to_float(column)
    return _as_text(column)


def _is_empty(column):
    """Whether a column that :func:`read_column` made holds no cell at all."""
    if column.dtype == object:
        return all(value is None for value in column)
    return bool(np.isnan(column).all())


def _is_categorical(dtype):
    """Whether a column was declared as categories, as pandas or Arrow do."""
    return str(dtype) == "category" or str(dtype).startswith("dictionary<")


def _is_numeric(column):
    try:
        to_float(column)
    except (TypeError, ValueError):
        return False
    return True


def to_float(column):
    """Numbers of a column, float64; NaN where a cell is missing."""
    column = np.asarray(column)
    if column.dtype == object:
        column = np.where(is_missing(column), np.nan, column)
    return column.astype(np.float64)


def _as_text(column):
    column = np.asarray(column, dtype=object)  # of a float32, Python's number
    # Most are text, which is told here in less time than a call takes.
    text = np.array([v if type(v) is str else _name_of(v) for v in column], dtype=object)
    text[is_missing(column)] = None
    return text


def _name_of(value):
    """Name of a category; 1.0 is called 1, as a gap makes floats of a column of integers."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _NESTED):
        raise ValueError(
            f"A cell holds a {type(value).__name__}: give each column one number or one category a "
            "row."
        )
    whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _is_of_times(dtype):
    return getattr(dtype, "kind", "O") in "mM"


def _names(X):
    """Names of the columns of a table, or their positions."""
    return list(X.columns) if hasattr(X, "columns") else range(np.shape(X)[1])


def _changed(name, before, now):
    return ValueError(
        f"Column {name!r} held {before} in fit and holds {now} now: convert it before both, as "
        "pandas.to_datetime does."
    )


def _refuse_text(column, name):
    if column.dtype == object:
        cell = next(cell for cell in column if not _is_numeric(np.array([cell], dtype=object)))
        raise ValueError(
            f"Column {name!r} was numeric in fit and holds text now: could not convert string to "
            f"float: {cell!r}. Convert it before both, by pandas.to_numeric or astype('category')."
        )
