"""Meta-estimator that gives a classifier the rows of ``predict`` as unlabelled rows."""

from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    _fit_context,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..cells import (
    concat_frames,
    in_pandas,
    text_as_objects,
    warn_of_unlabelled,
    whole_labels,
)
from .splitters import are_labelled, encode_labels


class Transductive(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Meta-estimator that passes the rows of ``predict`` to ``fit`` as unlabelled rows.

    Each call of ``predict`` or ``predict_proba`` fits a clone of the wrapped semi-supervised
    estimator on the rows of ``fit`` and the rows to predict, marked as unlabelled, and returns the
    clone's results for the latter. Without this, a semi-supervised estimator is cross-validated
    without unlabelled rows.

    Parameters
    ----------
    estimator : estimator object
        Classifier whose ``fit`` accepts -1 for unlabelled rows, as those of
        :mod:`sklearn.semi_supervised` do, or a pipeline or search around one. In a pipeline given
        here, scalers see the unlabelled rows, too.
    unlabelled : int, str or None, default=-1
        Value of `y` that marks unlabelled rows in ``fit``. If None, every row of ``fit`` is
        labelled, which allows -1 as a class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class among the labelled rows.
    X_ : {ndarray, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Rows given to ``fit``.
    y_ : ndarray of shape (n_samples,)
        Index in `classes_` of the label of each row of ``fit``; -1 for unlabelled rows.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during ``fit``, if all are strings.

    Notes
    -----
    The prediction for a row depends on the other rows predicted with it: that is what transduction
    means. Every call fits the wrapped estimator once, so its errors are raised by ``predict``:
    among them a ValueError if it treated -1 as a class.

    For a row that no label reaches in label propagation, scikit-learn's ``predict_proba`` returns
    NaN (scikit-learn issue 18029); here such a row gets `class_prior_`, and the most frequent
    label. ``predict`` returns the clone's ``transduction_`` if it has one. For self-training these
    are the labels given when each row was added, and predictions of the final classifier for rows
    that never were, while ``predict_proba`` is always the final classifier's. Metadata such as
    sample weights are not routed: they are not known for the rows of ``predict``.

    Clones are fitted on indices into `classes_`: nested settings that name classes, such as
    ``class_weight`` or a scorer's ``pos_label``, must use 0, 1, ... for the labels.

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
        """Validate and store the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Labelled rows and, if there are any, unlabelled ones. A DataFrame is passed on
            unchanged, for pipelines that select columns by name.
        y : array-like of shape (n_samples,)
            Class labels; `unlabelled` marks unlabelled rows. At least one row must be labelled.

        Returns
        -------
        self : Transductive
            The estimator itself.

        Raises
        ------
        ValueError
            If no row is labelled, rows or labels are malformed, or a parameter is of the wrong
            type.
        TypeError
            If the wrapped estimator is not a classifier or is frozen, or X is sparse and the
            estimator does not accept sparse rows.
        """
        vars(self).pop("X_", None)  # a fit that fails leaves nothing of the one before
        if get_tags(self.estimator).estimator_type not in ("classifier", None):
            # Otherwise the codes of clusters, for example, would pass for codes of classes.
            raise TypeError(f"estimator must be a classifier, got {self.estimator}.")
        refuse_frozen(self.estimator)
        labels = whole_labels(text_as_objects(y))  # otherwise -1.0 becomes "-1.0", 1 becomes 1.0
        if y is not None:
            are_labelled(labels, self.unlabelled)  # of NaN scikit-learn would not say what to do
        X, y = self._validate(X, labels, reset=True)
        check_consistent_length(X, y)
        self.classes_, self.y_ = encode_labels(y, self.unlabelled)
        labels = self.y_[self.y_ != -1]
        self.class_prior_ = np.bincount(labels) / len(labels)
        self.X_ = X.copy()
        return self

    def predict(self, X):
        """Predict the class of each row by transduction.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Rows to predict; they are the unlabelled rows of the fit that this call makes.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError
            If the rows are malformed or have other columns than in ``fit``, or the wrapped
            estimator treated -1 as a class. Anything else that its ``fit`` raises is raised here,
            too.
        TypeError
            If X is sparse and the wrapped estimator does not accept sparse rows.
        """
        model, rows = self._refit(X)
        final = innermost(model)
        if hasattr(final, "label_distributions_"):
            return self.classes_[self._probabilities(final.label_distributions_).argmax(axis=1)]
        codes = getattr(final, "transduction_", -1)
        if np.any(codes == -1):  # rows that self-training left unlabelled, or no transduction_
            # CatBoostClassifier predicts a column.
            codes = np.where(codes == -1, np.ravel(model.predict(rows)), codes)
        return self.classes_[codes[len(self.y_) :]]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X):
        """Predict class probabilities by transduction.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Rows to predict; they are the unlabelled rows of the fit that this call makes.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`; each row sums to 1 and has no NaN.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        model, rows = self._refit(X)
        weights = getattr(innermost(model), "label_distributions_", None)
        return self._probabilities(model.predict_proba(rows) if weights is None else weights)

    def score(self, X, y, sample_weight=None):
        """Accuracy on rows with known labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            As in ``predict``.
        y : array-like of shape (n_samples,)
            True labels. A row marked by `unlabelled` counts as a mistake, with a warning.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``; or if labels are missing, or there is not one per row.
        """
        warn_of_unlabelled((~are_labelled(y, self.unlabelled)).sum(), self.unlabelled)
        return super().score(X, y, sample_weight)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "X_")  # set last

    def _refit(self, X):
        """Fit a clone on the rows of fit and, unlabelled, X; return the clone and all rows."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        rows = stack(self.X_, X)
        codes = np.concatenate([self.y_, np.full(rows.shape[0] - len(self.y_), -1)])
        model = clone(self.estimator).fit(rows, codes)
        refuse_mark_as_class(model)
        return model, rows

    def _probabilities(self, weights):
        """Normalise the weights of predict's rows; zeros or NaN become the class prior."""
        weights = np.asarray(weights[len(self.y_) :], dtype=np.float64)  # XGBoost's are float32
        mass = weights.sum(axis=1, keepdims=True)
        reached = mass > 0  # false for NaN too
        return np.where(reached, weights / np.where(reached, mass, 1), self.class_prior_)

    def _validate(self, *X_y, reset):
        """Check X (and y) as strictly as the estimator does; of a DataFrame only the columns."""
        X, *y = in_pandas(X_y[0]), *X_y[1:]  # an array of another frame would have one dtype
        in_frames = hasattr(X if reset else self.X_, "iloc")
        if in_frames and (sp.issparse(X) or hasattr(X, "iloc") and X.ndim != 2):
            check_array(X, dtype=None, estimator=self, input_name="X")  # raises
        tags = get_tags(self).input_tags
        # The tags of a pipeline or search do not say what its first step accepts.
        composite = hasattr(self.estimator, "steps") or hasattr(self.estimator, "estimator")
        validated = validate_data(
            self,
            X,
            *y,
            reset=reset,
            skip_check_array=in_frames,
            accept_sparse=["csr", "csc"] if tags.sparse else False,
            dtype=None if composite or tags.string or tags.categorical else "numeric",
            ensure_all_finite=not composite and ("allow-nan" if tags.allow_nan else True),
        )
        if in_frames:
            check_array(np.zeros(np.shape(X)), estimator=self)  # raises if no row or column
        return validated

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self.estimator)
        tags.input_tags = wrapped.input_tags
        if wrapped.classifier_tags is not None:
            tags.classifier_tags = wrapped.classifier_tags
        return tags


def refuse_mark_as_class(model):
    """Raise if a classifier that was fitted on codes took -1 for one of them."""
    if -1 in getattr(model, "classes_", ()):
        raise ValueError(
            f"{type(model).__name__} took -1 for a class, not for 'no label': wrap a "
            "semi-supervised classifier, such as SelfTrainingClassifier around this one"
        )


def refuse_frozen(model):
    """Raise if a classifier is frozen: its clones are not fitted, but predict by another fit."""
    if isinstance(innermost(model), FrozenEstimator):
        raise TypeError("A FrozenEstimator cannot be fitted: pass the estimator that it holds.")


def innermost(model):
    """Return the innermost estimator: a pipeline's last step, a search's best estimator."""
    while not isinstance(model, FrozenEstimator) and (  # has all attributes of its estimator
        isinstance(model, Pipeline) or hasattr(model, "best_estimator_")
    ):
        model = model[-1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def stack(first, second):
    """Stack the rows of two tables, in the form of the first."""
    if hasattr(first, "iloc"):
        # By position. Names that are all strings have been compared before; others do not count.
        return concat_frames(first, second)
    if sp.issparse(first) or sp.issparse(second):
        return sp.vstack([first, second], format="csr")
    return np.vstack([first, second])
