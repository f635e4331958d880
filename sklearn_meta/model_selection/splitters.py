"""Splitters that keep rows without a label in every train set, and out of every test set."""

from numbers import Integral

import numpy as np
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from ..cells import (
    check_classes,
    dates_as_numbers,
    in_numpy,
    is_missing_value,
    text_as_objects,
    whole_labels,
)
from ..user_warnings import warn


def are_labelled(y, unlabelled):
    """Return a bool array, True for rows with a label other than ``unlabelled``."""
    y = whole_labels(y)
    y, cells = column_or_1d(y), column_or_1d(text_as_objects(y))
    if cells.dtype.kind not in "iubUS" and any(map(is_missing_value, cells)):
        advice = "leave rows without a label out"
        if unlabelled is not None:
            advice = f"mark rows without a label with {unlabelled!r}"
        raise ValueError(
            f"y contains NaN or None: {advice}, or, if y holds regression targets, split with "
            "SemiSupervisedKFold."
        )
    whole = unlabelled is None or cells.dtype.kind in "mM"  # a duration of -1 is a label
    labelled = np.full(len(y), True) if whole else np.asarray(cells != unlabelled)
    return labelled & (np.asarray(y != "-1") | (unlabelled != -1))  # -1 beside text is "-1"


def encode_labels(y, unlabelled=-1):
    """Return the sorted classes, and each row's code among them: -1 for a row without a label."""
    if y is None:
        raise ValueError(f"y is needed: labels, with {unlabelled!r} for rows without one.")
    labelled = are_labelled(y, unlabelled)
    if not labelled.any():
        raise ValueError(f"y has no labelled row: every one of its {len(y)} values is {unlabelled}")
    y = column_or_1d(whole_labels(y))
    labels = y[labelled]
    if labels.dtype == object and all(isinstance(label, Integral) for label in labels):
        try:
            labels = labels.astype(int)  # scikit-learn accepts objects only if they are strings
        except OverflowError as error:
            raise ValueError("A label is an integer beyond int64: give labels as str.") from error
    check_classes(labels)
    encoder = LabelEncoder()
    codes = np.full(len(y), -1)
    codes[labelled] = encoder.fit_transform(labels)
    return encoder.classes_, codes


class SemiSupervisedSplit(StratifiedKFold):
    """K folds of the labelled rows; unlabelled rows are in every train set, never in a test set.

    The labelled rows are stratified, as in :class:`~sklearn.model_selection.StratifiedKFold`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether to shuffle the labelled rows of each class before splitting them into folds.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle. An int gives the same folds at every call of ``split``.

    Raises
    ------
    ValueError
        If `n_splits` is not an int of 2 or more, or `random_state` is given without `shuffle`.
    TypeError
        If `shuffle` is not a bool.

    Notes
    -----
    For scores that need every class in every fold, such as ``scoring="roc_auc"``, each class needs
    at least `n_splits` labelled rows; scikit-learn warns if a class has fewer.

    Examples
    --------
    >>> from sklearn_meta.model_selection import SemiSupervisedSplit
    >>> y = [0, 1, -1, 0, 1, -1]
    >>> for train, test in SemiSupervisedSplit(n_splits=2, shuffle=False).split(y, y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 2 5] [3 4]
    """

    def __init__(self, n_splits=5, *, shuffle=True, random_state=None):
        super().__init__(n_splits=n_splits, shuffle=shuffle, random_state=random_state)

    def split(self, X, y, groups=None):
        """Generate the row indices of each train and test set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : array-like of shape (n_samples,)
            Class labels: numbers, strings or objects; -1 (or "-1") marks an unlabelled row.
        groups : None
            Ignored with a warning; exists for API compatibility.

        Yields
        ------
        train : ndarray of shape (n_train,)
            Sorted indices of the labelled rows of the other folds and of all unlabelled rows.
        test : ndarray of shape (n_test,)
            Sorted indices of the labelled rows of this fold.

        Raises
        ------
        ValueError
            If no row is labelled, no class has `n_splits` labelled rows, or labels are missing, are
            fractions, or are not one per row.
        TypeError
            If y is sparse.
        """
        check_consistent_length(X, y)
        _, codes = encode_labels(y)
        labelled = np.flatnonzero(codes != -1)
        if (most := np.bincount(codes[labelled]).max()) < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} folds need a class with as many labelled rows, but the "
                f"largest has {most}: lower n_splits of {type(self).__name__}, or label more rows."
            )
        groups = None if groups is None else labelled  # super warns that groups are ignored
        for _, fold in super().split(labelled, codes[labelled], groups):
            test = labelled[fold]
            yield np.setdiff1d(np.arange(len(codes)), test), test


class SemiSupervisedKFold(KFold):
    """K folds of rows with a target; rows without are in every train set, never in a test set.

    The counterpart of :class:`SemiSupervisedSplit` for regression, where NaN marks rows without a
    target. Nothing is stratified.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether to shuffle the rows with a target before splitting them into folds.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle. An int gives the same folds at every call of ``split``.

    Raises
    ------
    ValueError
        If `n_splits` is not an int of 2 or more, or `random_state` is given without `shuffle`.
    TypeError
        If `shuffle` is not a bool.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.model_selection import SemiSupervisedKFold
    >>> y = [0.5, 1.0, np.nan, 2.0, 3.5, np.nan]
    >>> for train, test in SemiSupervisedKFold(n_splits=2, shuffle=False).split(y, y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 2 5] [3 4]
    """

    def __init__(self, n_splits=5, *, shuffle=True, random_state=None):
        super().__init__(n_splits=n_splits, shuffle=shuffle, random_state=random_state)

    def split(self, X, y, groups=None):
        """Generate the row indices of each train and test set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. NaN or None marks a row without a target; with several targets, one of them is
            enough to mark it.
        groups : None
            Ignored with a warning; exists for API compatibility.

        Yields
        ------
        train : ndarray of shape (n_train,)
            Sorted indices of the rows of the other folds and of all rows without a target.
        test : ndarray of shape (n_test,)
            Sorted indices of the rows of this fold.

        Raises
        ------
        ValueError
            If fewer than `n_splits` rows have a target, a target is infinite or not a number, or
            there is not one per row.

        Warns
        -----
        UserWarning
            If `y` looks like class labels in which -1 marks unlabelled rows: it holds a few whole
            numbers from -1 up, and no NaN.
        """
        if y is None:
            raise ValueError(
                "SemiSupervisedKFold.split needs y: targets, with NaN for rows without one."
            )
        check_consistent_length(X, y)
        y = np.asarray(dates_as_numbers(in_numpy(y)))
        if y.dtype == object:  # scikit-learn refuses None and pandas.NA
            cells = [np.nan if is_missing_value(value) else value for value in y.ravel()]
            y = np.array(cells, dtype=object).reshape(y.shape)
        try:
            y = check_array(
                y, ensure_2d=False, dtype="numeric", ensure_all_finite="allow-nan", input_name="y"
            )
        except ValueError as error:
            classes = " For classes, use SemiSupervisedSplit." if y.dtype.kind in "OU" else ""
            raise ValueError(f"{error}{classes}") from error
        except TypeError as error:  # pandas' periods, and dates with a time zone
            raise ValueError(f"y must be numbers, such as seconds of dates: {error}.") from error
        without = np.isnan(y.reshape(len(y), -1)).any(axis=1)
        if without.all():
            raise ValueError(f"y has no row with a target: every one of its {len(y)} rows is NaN")
        if _may_be_classes(y):
            warn(
                "Every row has a target, and -1 is one of them: mark rows without a target with "
                "NaN, or, if y holds classes and -1 means no label, use SemiSupervisedSplit.",
            )
        labelled = np.flatnonzero(~without)
        groups = None if groups is None else labelled  # super warns that groups are ignored
        for _, fold in super().split(labelled, groups=groups):
            test = labelled[fold]
            yield np.setdiff1d(np.arange(len(y)), test), test


def _may_be_classes(y):
    """Whether targets are a few whole numbers from -1 up, like classes with unlabelled rows.

    False if there is a NaN.
    """
    values = np.unique(y)
    whole = (values == np.floor(values)).all()
    return values[0] == -1 and whole and 2 * len(values) <= len(y)


class FewShotSplit(BaseCrossValidator):
    """Random few-shot tasks: train on `n_shots` rows of every class, test on other rows.

    Splits are drawn independently, so the test sets of different splits overlap. Rows with
    ``y == -1`` are in every train set and never in a test set.

    Parameters
    ----------
    n_splits : int, default=10
        Number of tasks.
    n_shots : int, default=5
        Labelled rows per class in a train set.
    n_unlabelled : int or None, default=None
        Rows per class in a test set; the estimator does not see their labels. None takes all
        remaining rows of the class.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits. An int gives the same splits at every call of ``split``.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_meta.model_selection import FewShotSplit
    >>> X, y = load_iris(return_X_y=True)
    >>> cv = FewShotSplit(n_splits=3, n_shots=2, n_unlabelled=20, random_state=0)
    >>> [(len(train), len(test)) for train, test in cv.split(X, y)]
    [(6, 60), (6, 60), (6, 60)]
    """

    _parameter_constraints: dict = {
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "n_shots": [Interval(Integral, 1, None, closed="left")],
        "n_unlabelled": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(self, n_splits=10, *, n_shots=5, n_unlabelled=None, random_state=None):
        self.n_splits = n_splits
        self.n_shots = n_shots
        self.n_unlabelled = n_unlabelled
        self.random_state = random_state
        self._check()  # here, as in scikit-learn's splitters, since there is no fit

    def _check(self):
        validate_parameter_constraints(
            self._parameter_constraints, vars(self), caller_name=type(self).__name__
        )

    def split(self, X, y, groups=None):
        """Generate the row indices of each train and test set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : array-like of shape (n_samples,)
            Class labels: numbers, strings or objects; -1 (or "-1") marks an unlabelled row.
        groups : None
            Ignored with a warning; exists for API compatibility.

        Yields
        ------
        train : ndarray of shape (n_shots * n_classes + n_marked,)
            `n_shots` rows of each class and all rows marked -1, shuffled.
        test : ndarray of shape (n_unlabelled * n_classes,)
            Other rows of each class, shuffled.

        Raises
        ------
        ValueError
            If no row is labelled, a class has too few rows, labels are missing, are fractions, or
            are not one per row, or a parameter was set out of range.
        TypeError
            If y is sparse.
        """
        self._check()
        if groups is not None:  # warn as scikit-learn does
            name = type(self).__name__
            warn(f"The groups parameter is ignored by {name}")
        check_consistent_length(X, y)
        classes, codes = encode_labels(y)
        n_test = 1 if self.n_unlabelled is None else self.n_unlabelled
        needed = self.n_shots + n_test
        counts = zip(classes.tolist(), np.bincount(codes[codes != -1]))
        short = [f"{c!r} has {n}" for c, n in counts if n < needed]
        if short:
            told = ", ".join(short[:5] + ["..."] * (len(short) > 5))
            raise ValueError(
                f"every class needs {needed} labelled rows, {self.n_shots} to train on (n_shots) "
                f"and {n_test} to test on (n_unlabelled), but class {told}: lower n_shots or "
                "n_unlabelled, or leave the class out"
            )
        rng = check_random_state(self.random_state)
        marked = np.flatnonzero(codes == -1)
        for _ in range(self.n_splits):
            rows = [rng.permutation(np.flatnonzero(codes == k)) for k in range(len(classes))]
            train = rng.permutation(np.concatenate([r[: self.n_shots] for r in rows]))
            test = np.concatenate([r[self.n_shots :][: self.n_unlabelled] for r in rows])
            if len(marked):  # not shuffled by `rng`: the next split depends on labelled rows alone
                own = np.random.RandomState(train)
                train = own.permutation(np.concatenate([train, marked]))
            yield train, rng.permutation(test)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Number of tasks.

        Parameters
        ----------
        X, y, groups : object, default=None
            Ignored.

        Returns
        -------
        int
        """
        return self.n_splits
