"""Attributes and learned embeddings of a task, side by side (Fig. 5 of paper 000)."""

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from .drawing import axes_of, check_matplotlib_support, colours, legend, scatter


class EmbeddingDisplay:
    """Plot of the original attributes and the learned embeddings of a task, in two dimensions.

    As in Fig. 5 (a) and (d) of paper 000: if meta-learning worked, classes that overlap on the left
    are separate on the right. Labelled rows are circles, unlabelled rows crosses, and colours are
    classes.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    original : ndarray of shape (n_rows, 2)
        Rows in two dimensions, reduced from their attributes.
    embedding : ndarray of shape (n_rows, 2)
        The same rows, reduced from their embeddings.
    target : ndarray of shape (n_rows,), int
        Index in `classes` of the class of each row, which determines its colour.
    labelled : ndarray of shape (n_rows,), bool
        Whether the estimator knew the label of the row.
    classes : ndarray of shape (n_classes,)
        Class labels, for the legend.
    predicted : bool, default=False
        Whether the classes of unlabelled rows are predictions; the legend says so.

    Attributes
    ----------
    ax_ : ndarray of shape (2,) of matplotlib Axes
        Axes of the original attributes and of the embeddings.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    UnlabelledEffectDisplay : What unlabelled rows change, for two columns.

    References
    ----------
    T. Iwata, A. Kumagai. Meta-learning of semi-supervised learning from tasks with heterogeneous
    attribute spaces. 2023. Figure 5.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_meta import MetaSemiSupervisedClassifier
    >>> from sklearn_meta.inspection import EmbeddingDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> labelled = [0, 1, 2, 60, 61, 62, 140, 141, 142]
    >>> classifier = MetaSemiSupervisedClassifier().fit(X[labelled], y[labelled])
    >>> display = EmbeddingDisplay.from_estimator(classifier, X[::3], y[::3], reduction="pca")
    >>> display.embedding.shape
    (69, 2)
    """

    def __init__(self, *, original, embedding, target, labelled, classes, predicted=False):
        self.original = original
        self.embedding = embedding
        self.target = target
        self.labelled = labelled
        self.classes = classes
        self.predicted = predicted

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, reduction="tsne", ax=None, random_state=None):
        """Create and draw a display of the rows of ``fit`` and of further unlabelled rows.

        Parameters
        ----------
        estimator : MetaSemiSupervisedClassifier
            Fitted classifier. All rows it was fitted on are shown.
        X : array-like or DataFrame of shape (n_rows, n_features), or None
            Unlabelled rows to show as well, in the form that ``predict`` accepts: in transductive
            mode they are embedded together with the rows of ``fit``. If None, only the rows of
            ``fit`` are shown.
        y : array-like of shape (n_rows,), default=None
            True labels of the rows of `X`, used only for their colours. If None, and for unlabelled
            rows of ``fit``, colours are predictions. In transductive mode all unlabelled rows, of
            ``fit`` and of `X`, are read together, in chunks; if ``fit`` was given some,
            ``predict(X)`` may therefore give other classes.
        reduction : {"tsne", "pca"} or transformer, default="tsne"
            Reduction to two dimensions: t-SNE as in the paper, principal components, or any
            transformer with two output columns. One clone of it is fitted on the attributes and
            another on the embeddings.
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        random_state : int, RandomState instance or None, default=None
            Seed of t-SNE, and of PCA if there are many rows and columns.

        Returns
        -------
        display : EmbeddingDisplay

        Raises
        ------
        TypeError
            If `estimator` is not a MetaSemiSupervisedClassifier, or `X` is sparse.
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If ``predict`` would refuse `X`; `y` is not one label per row of it, or has missing
            labels or labels that ``fit`` has not seen; the reduction is unknown or does not have
            two columns; or there are not two axes.

        Notes
        -----
        Before reduction, the attributes are one-hot encoded, missing cells are filled with the
        mean, and columns are scaled to zero mean and unit variance.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        from ..semi_supervised import MetaSemiSupervisedClassifier
        from ..table_validation import check_labels

        if not isinstance(estimator, MetaSemiSupervisedClassifier):
            raise TypeError(
                f"The estimator must be a MetaSemiSupervisedClassifier, got {estimator!r}. For a "
                "pipeline, pass its last step, and X transformed by the steps before it."
            )
        check_is_fitted(estimator)
        if X is None and y is not None:
            raise ValueError("y holds labels of the rows of X: pass X, too.")
        n_context = len(estimator.y_)
        rows, z, target = _embed(estimator, X)
        if y is not None:
            check_consistent_length(X, y)
            check_labels(y)
            y = column_or_1d(y, warn=True)
            unseen = np.setdiff1d(y, estimator.classes_)
            if len(unseen):
                raise ValueError(f"y holds labels that fit has not seen: {unseen.tolist()}.")
            target[n_context:] = np.searchsorted(estimator.classes_, y)
        labelled = np.arange(len(rows)) < n_context
        labelled[:n_context] = estimator.y_ >= 0
        prepare = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        display = cls(
            original=to_two(prepare.fit_transform(rows), reduction, random_state),
            embedding=to_two(z, reduction, random_state),
            target=target,
            labelled=labelled,
            classes=estimator.classes_,
            predicted=y is None,
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the two panels.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.

        Returns
        -------
        display : EmbeddingDisplay

        Raises
        ------
        ValueError
            If there are not two axes.
        """
        self.ax_, self.figure_ = axes_of(ax, 2, self)
        panels = {"original attributes": self.original, "learned embeddings": self.embedding}
        for panel, (title, points) in zip(self.ax_, panels.items()):
            scatter(panel, points, self.target, self.labelled, colours(len(self.classes)))
            panel.set(title=title, xticks=[], yticks=[])
        unlabelled = "unlabelled, as predicted" if self.predicted else "unlabelled"
        legend(self.ax_[1], self.classes, unlabelled)
        return self


def _embed(estimator, X):
    """Return encoded attributes, embeddings and predicted codes of the rows of fit, then of X."""
    from ..table_validation import encode
    from ..tables import EMBEDDINGS
    from ..tasks import stack_tables

    if X is None:
        rows = estimator.encoder_.transform(estimator.X_)
        z = estimator._read_context_rows(EMBEDDINGS)
        predicted = estimator.label_distributions_.argmax(axis=1)
        return rows, z.flatten(1).double().cpu().numpy(), predicted
    X = estimator._table(X)
    if estimator.transductive:
        encoder = estimator._encoder_with(X)
        encode(encoder, X)  # refuses what predict refuses; fit would accept it
        # Both as one context, so that the rows of fit are embedded together with those of X.
        codes = np.concatenate([estimator.y_, np.full(len(X), -1)])
        both = clone(estimator).fit(stack_tables(estimator.X_, X), codes)
        both.encoder_ = encoder  # the one that predict uses
        return _embed(both, None)
    rows, z, predicted = _embed(estimator, None)
    rows = np.vstack([rows, estimator.encoder_.transform(X)])
    predicted = np.concatenate([predicted, estimator.predict_proba(X).argmax(axis=1)])
    return rows, np.vstack([z, estimator.transform(X)]), predicted


def to_two(matrix, reduction, random_state):
    """Reduce a matrix to two columns.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_columns)
    reduction, random_state
        As in :meth:`EmbeddingDisplay.from_estimator`.

    Returns
    -------
    ndarray of shape (n_rows, 2)

    Raises
    ------
    ValueError
        If the reduction is unknown, or does not make two columns.
    """
    if matrix.shape[1] == 1:  # t-SNE starts from two principal components, so add a column
        matrix = np.column_stack([matrix, np.zeros(len(matrix))])
    if reduction == "tsne":
        # The usual perplexity, 30, is too large for few rows: it must be less than their number.
        perplexity = min(30, (len(matrix) - 1) / 3)
        reduction = TSNE(perplexity=perplexity, random_state=random_state)
    elif reduction == "pca":
        reduction = PCA(2, random_state=random_state)
    elif not hasattr(reduction, "fit_transform"):
        raise ValueError(f"reduction must be 'tsne', 'pca' or a transformer, got {reduction!r}.")
    points = np.asarray(clone(reduction).fit_transform(matrix))  # may be a frame
    if points.shape[1:] != (2,):
        raise ValueError(f"{reduction!r} must make 2 columns, but made shape {points.shape}.")
    return points
