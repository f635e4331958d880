"""Fair cross-validation when some labels are missing: ``y == -1`` means "no label".

scikit-learn's splitters stratify ``-1`` as if it were a class and put such rows into test folds,
where no prediction can be right. :class:`SemiSupervisedSplit` and :class:`FewShotSplit` do not.
:class:`Transductive` gives a semi-supervised estimator the rows of ``predict`` as its unlabelled
data, so that inductive and transductive methods stand side by side in one ``cross_val_score``.
"""

from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, validate_parameter_constraints
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .cells import is_missing_value

__all__ = ["FewShotSplit", "SemiSupervisedSplit", "Transductive"]


def _encode(y, unlabelled=-1):
    """Sorted classes, and every row's code among them: -1 where the row has no label."""
    y = column_or_1d(y)
    if y.dtype.kind not in "iubUS" and any(map(is_missing_value, y)):
        raise ValueError(f"y contains NaN or None: mark rows without a label by {unlabelled!r}.")
    labelled = np.full(len(y), True) if unlabelled is None else np.asarray(y != unlabelled)
    labelled &= np.asarray(y != "-1") | (unlabelled != -1)  # what text makes of -1
    if not labelled.any():
        raise ValueError(f"y has no labelled row: every one of its {len(y)} values is {unlabelled}")
    labels = y[labelled]
    if labels.dtype == object and all(isinstance(label, Integral) for label in labels):
        labels = labels.astype(int)  # scikit-learn takes objects for classes only if strings
    check_classification_targets(labels)
    encoder = LabelEncoder()
    codes = np.full(len(y), -1)
    codes[labelled] = encoder.fit_transform(labels)
    return encoder.classes_, codes


class SemiSupervisedSplit(StratifiedKFold):
    """K folds of the labelled rows; unlabelled rows are in every train set, never in a test set.

    Labelled rows are stratified as :class:`~sklearn.model_selection.StratifiedKFold` does.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether to shuffle the labelled rows of each class before they are cut into folds.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle. An int gives the same folds at every call of ``split``.

    Notes
    -----
    For scores that need every class in every fold, such as ``scoring="roc_auc"``, each class
    needs at least `n_splits` labelled rows; scikit-learn warns where one has fewer.

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
        """Generate the row numbers of each train and test set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or objects; -1 (or "-1") marks an unlabelled row.
        groups : None
            Ignored, exists for API compatibility.

        Yields
        ------
        train : ndarray of shape (n_train,)
            Sorted rows of the other folds, and all unlabelled rows.
        test : ndarray of shape (n_test,)
            Sorted labelled rows of this fold.

        Raises
        ------
        ValueError
            If no row is labelled, or no class has `n_splits` labelled rows.
        """
        check_consistent_length(X, y)
        _, codes = _encode(y)
        labelled = np.flatnonzero(codes != -1)
        for _, fold in super().split(labelled, codes[labelled]):
            test = labelled[fold]
            yield np.setdiff1d(np.arange(len(codes)), test), test


class FewShotSplit(BaseCrossValidator):
    """Random few-shot tasks: `n_shots` labelled rows of every class to train on, others to test on.

    Splits are drawn independently, so the test sets of different splits overlap. Rows with
    ``y == -1`` are in every train set and in no test set.

    Parameters
    ----------
    n_splits : int, default=10
        Number of tasks.
    n_shots : int, default=5
        Labelled rows of each class in a train set.
    n_unlabelled : int or None, default=None
        Rows of each class in a test set, whose labels the estimator does not see. None takes all
        the rest of the class.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws. An int gives the same splits at every call of ``split``.

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
        # Like scikit-learn's splitters, which have no fit to wait for.
        validate_parameter_constraints(
            self._parameter_constraints, vars(self), caller_name=type(self).__name__
        )

    def split(self, X, y, groups=None):
        """Generate the row numbers of each train and test set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is used.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or objects; -1 (or "-1") marks an unlabelled row.
        groups : None
            Ignored, exists for API compatibility.

        Yields
        ------
        train : ndarray of shape (n_shots * n_classes + n_marked,)
            `n_shots` rows of each class and the rows marked -1, shuffled.
        test : ndarray of shape (n_unlabelled * n_classes,)
            Other rows of each class, shuffled.

        Raises
        ------
        ValueError
            If no row is labelled, or a class has too few rows.
        """
        check_consistent_length(X, y)
        classes, codes = _encode(y)
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
            train = np.concatenate([r[: self.n_shots] for r in rows] + [marked])
            test = np.concatenate([r[self.n_shots :][: self.n_unlabelled] for r in rows])
            yield rng.permutation(train), rng.permutation(test)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return `n_splits`; the arguments are ignored."""
        return self.n_splits


class Transductive(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Give a semi-supervised estimator the rows of ``predict`` as its unlabelled rows.

    Each call of ``predict`` or ``predict_proba`` fits a clone of the wrapped estimator on the rows
    of ``fit`` and the rows asked for, these marked as unlabelled, and returns what the clone made
    of them. Without it, a semi-supervised estimator cross-validates without unlabelled rows.

    Parameters
    ----------
    estimator : estimator object
        A classifier whose ``fit`` takes -1 for "no label", as those of
        :mod:`sklearn.semi_supervised` do, or a pipeline or search around one. Inside a pipeline
        given here, scalers too see the unlabelled rows.
    unlabelled : int, str or None, default=-1
        The value of `y` that marks unlabelled rows in ``fit``. None: every row of ``fit`` is
        labelled, which allows -1 as a class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class among the labelled rows.
    X_ : {ndarray, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Rows of ``fit``.
    y_ : ndarray of shape (n_samples,)
        Positions in `classes_` of the labels of ``fit``; -1 for unlabelled rows.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during ``fit``, where all of them are strings.

    Notes
    -----
    The answer for a row depends on the rows asked for with it: that is the meaning of
    transduction. Every call costs one fit of the wrapped estimator, whose errors come at
    ``predict``: among them a ValueError if it took -1 for a class.

    A row that no label reaches in label propagation gets NaN from scikit-learn's ``predict_proba``
    (scikit-learn issue 18029); here it gets `class_prior_`, and the most frequent label.
    ``predict`` returns the clone's ``transduction_`` where it has one. For self-training these
    are the labels at the time each row was taken in, and ``predict`` of the final classifier for
    rows that never were, while ``predict_proba`` is always the final classifier's.
    No metadata is routed: sample weights, say, are not known for the rows of ``predict``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> from sklearn_meta.model_selection import FewShotSplit, Transductive
    >>> X, y = load_iris(return_X_y=True)
    >>> cv = FewShotSplit(n_shots=1, n_unlabelled=20, random_state=0)
    >>> spreading = LabelSpreading(kernel="knn", n_neighbors=5)
    >>> bool(cross_val_score(Transductive(spreading), X, y, cv=cv).mean() > 0.7)
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "unlabelled": [Integral, str, None],
    }

    def __init__(self, estimator, *, unlabelled=-1):
        self.estimator = estimator
        self.unlabelled = unlabelled

    @_fit_context(prefer_skip_nested_validation=False)  # the wrapped estimator is not validated yet
    def fit(self, X, y):
        """Check and store the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Labelled rows, and unlabelled ones if there are any. A DataFrame is handed on as it
            is, for pipelines that select columns by name.
        y : array-like of shape (n_samples,)
            Labels; `unlabelled` marks rows without one, which not all rows may be.

        Returns
        -------
        self : Transductive
            The estimator itself.
        """
        X, y = self._validate(X, y, reset=True)
        check_consistent_length(X, y)
        self.classes_, self.y_ = _encode(y, self.unlabelled)
        labels = self.y_[self.y_ != -1]
        self.class_prior_ = np.bincount(labels) / len(labels)
        self.X_ = X.copy()
        return self

    def predict(self, X):
        """Return the transduced labels of the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            The rows, unlabelled data of the fit made here.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
        """
        model, rows = self._refit(X)
        final = _innermost(model)
        if hasattr(final, "label_distributions_"):
            return self.classes_[self._probabilities(final.label_distributions_).argmax(axis=1)]
        codes = getattr(final, "transduction_", -1)
        if np.any(codes == -1):  # rows that self-training never took in, or all of them
            codes = np.where(codes == -1, model.predict(rows), codes)
        return self.classes_[codes[len(self.y_) :]]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X):
        """Return the class probabilities of the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            The rows, unlabelled data of the fit that this call makes.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row sums to 1 and holds no NaN.
        """
        model, rows = self._refit(X)
        weights = getattr(_innermost(model), "label_distributions_", None)
        return self._probabilities(model.predict_proba(rows) if weights is None else weights)

    def _refit(self, X):
        """Fit a clone on the rows of fit and, as unlabelled ones, X; return it and all rows."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        rows = _stack(self.X_, X)
        codes = np.concatenate([self.y_, np.full(rows.shape[0] - len(self.y_), -1)])
        model = clone(self.estimator).fit(rows, codes)
        if -1 in getattr(model, "classes_", ()):
            raise ValueError(
                f"{type(model).__name__} took -1 for a class, not for 'no label': wrap a "
                "semi-supervised classifier, such as SelfTrainingClassifier around this one"
            )
        return model, rows

    def _probabilities(self, weights):
        """Normalise the weights of predict's rows; zeros or NaN become the class prior."""
        weights = weights[len(self.y_) :]
        mass = weights.sum(axis=1, keepdims=True)
        reached = mass > 0  # false for NaN too
        return np.where(reached, weights / np.where(reached, mass, 1), self.class_prior_)

    def _validate(self, *X_y, reset):
        """Check X (and y) as far as the wrapped estimator asks; of a DataFrame only the columns."""
        tags = get_tags(self).input_tags
        # The tags of a pipeline or search do not tell what its first step takes.
        composite = hasattr(self.estimator, "steps") or hasattr(self.estimator, "estimator")
        return validate_data(
            self,
            *X_y,
            reset=reset,
            skip_check_array=hasattr(X_y[0] if reset else self.X_, "iloc"),
            accept_sparse=["csr", "csc"] if tags.sparse else False,
            dtype=None if composite or tags.string or tags.categorical else "numeric",
            ensure_all_finite=not composite and ("allow-nan" if tags.allow_nan else True),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self.estimator)
        tags.input_tags = wrapped.input_tags
        if wrapped.classifier_tags is not None:
            tags.classifier_tags = wrapped.classifier_tags
        return tags


def _innermost(model):
    """The estimator that was fitted last: a pipeline's last step, a search's best estimator."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def _stack(first, second):
    """The rows of both, in the form of the first."""
    if hasattr(first, "iloc"):
        import pandas as pd  # there, as `first` is pandas'

        if not hasattr(second, "iloc"):
            second = pd.DataFrame(second, columns=first.columns)
        return pd.concat([first, second], ignore_index=True)
    if sp.issparse(first) or sp.issparse(second):
        return sp.vstack([first, second], format="csr")
    return np.vstack([first, second])
