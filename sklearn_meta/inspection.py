"""Pictures of what a meta-trained estimator made of a few-shot task.

As in :mod:`sklearn.inspection`, a display computes in ``from_estimator``, keeps what it computed
as attributes, and draws in ``plot``, which can be called again. matplotlib is imported when
something is drawn.
"""

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .model_selection import _encode, _stack

__all__ = ["EmbeddingDisplay", "UnlabelledEffectDisplay"]


class EmbeddingDisplay:
    """Original attributes and learned embeddings of a task, each in two dimensions.

    The picture of Fig. 5 (a) and (d) of paper 000: if meta-learning worked, classes that overlap
    on the left are apart on the right. Labelled rows are circles, unlabelled ones crosses,
    colours are classes.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    original : ndarray of shape (n_rows, 2)
        The rows in two dimensions, from their attributes.
    embedding : ndarray of shape (n_rows, 2)
        The same rows in two dimensions, from their embeddings.
    target : ndarray of shape (n_rows,), int
        Position in `classes` of the class of each row, which is its colour.
    labelled : ndarray of shape (n_rows,), bool
        Whether the estimator knew the label.
    classes : ndarray of shape (n_classes,)
        Class labels, for the legend.

    Attributes
    ----------
    ax_ : ndarray of shape (2,) of matplotlib Axes
        Axes of the original attributes and of the embeddings.
    figure_ : matplotlib Figure
        The figure that holds them.

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

    def __init__(self, *, original, embedding, target, labelled, classes):
        self.original = original
        self.embedding = embedding
        self.target = target
        self.labelled = labelled
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, reduction="tsne", ax=None, random_state=None):
        """Make and draw a display of the rows of ``fit`` and of further unlabelled rows.

        Parameters
        ----------
        estimator : MetaSemiSupervisedClassifier
            Fitted. All rows it was fitted on are shown.
        X : array-like or DataFrame of shape (n_rows, n_features), or None
            Unlabelled rows to show beside them, as they would be given to ``predict``: in
            transductive mode they are embedded together with the rows of ``fit``. None shows the
            rows of ``fit`` alone.
        y : array-like of shape (n_rows,), default=None
            True labels of the rows of `X`, for their colours only. If None, and for unlabelled
            rows of ``fit``, colours are predictions.
        reduction : {"tsne", "pca"} or transformer, default="tsne"
            From many dimensions to two: t-SNE as in the paper, principal components, or any
            transformer with two output columns, a clone of which is fitted on the attributes and
            another on the embeddings.
        ax : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        random_state : int, RandomState instance or None, default=None
            Seed of t-SNE.

        Returns
        -------
        display : EmbeddingDisplay

        Raises
        ------
        TypeError
            If `estimator` is not a MetaSemiSupervisedClassifier.
        ValueError
            If `y` holds labels that ``fit`` has not seen, or the reduction is unknown or has not
            two columns.

        Notes
        -----
        Before their reduction the attributes are prepared as usual: one column a category,
        missing cells filled with the mean, zero mean and unit variance.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        from .semi_supervised import MetaSemiSupervisedClassifier

        if not isinstance(estimator, MetaSemiSupervisedClassifier):
            raise TypeError(
                f"The estimator must be a MetaSemiSupervisedClassifier, got {estimator!r}. Of a "
                "pipeline, give the last step, and X as the steps before it transform it."
            )
        check_is_fitted(estimator)
        n_context = len(estimator.y_)
        rows, z, target = _embed(estimator, X)
        if y is not None:
            check_consistent_length(X, y)
            unseen = np.setdiff1d(y, estimator.classes_)
            if len(unseen):
                raise ValueError(f"y holds labels that fit has not seen: {unseen.tolist()}.")
            target[n_context:] = np.searchsorted(estimator.classes_, y)
        labelled = np.arange(len(rows)) < n_context
        labelled[:n_context] = estimator.y_ >= 0
        prepare = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        display = cls(
            original=_to_two(prepare.fit_transform(rows), reduction, random_state),
            embedding=_to_two(z, reduction, random_state),
            target=target,
            labelled=labelled,
            classes=estimator.classes_,
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the two panels, on two given axes or in a new figure; returns the display."""
        self.ax_, self.figure_ = _two_axes(ax, f"{type(self).__name__}.plot")
        panels = {"original attributes": self.original, "learned embeddings": self.embedding}
        for panel, (title, points) in zip(self.ax_, panels.items()):
            _scatter(panel, points, self.target, self.labelled, _colours(len(self.classes)))
            panel.set(title=title, xticks=[], yticks=[])
        _legend(self.ax_[1], self.classes)
        return self


class UnlabelledEffectDisplay:
    """Decision regions without and with the unlabelled rows of a task of two columns.

    Both panels show what the estimator predicts over a grid of points: on the left it was fitted
    on the labelled rows alone, on the right on the unlabelled rows, too. Labelled rows are
    circles, unlabelled ones crosses.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution)
        The grid, as :func:`numpy.meshgrid` makes it.
    without_unlabelled, with_unlabelled : ndarray of shape (grid_resolution, grid_resolution), int
        Position in `classes` of the prediction at each grid point.
    points : ndarray of shape (n_rows, 2)
        The rows of the task.
    target : ndarray of shape (n_rows,), int
        Position in `classes` of the label of each row, -1 for unlabelled rows.
    classes : ndarray of shape (n_classes,)
        Class labels, for the legend.
    names : sequence of two str, default=("", "")
        Names of the columns, for the axes.

    Attributes
    ----------
    ax_ : ndarray of shape (2,) of matplotlib Axes
        Axes without and with unlabelled rows.
    figure_ : matplotlib Figure
        The figure that holds them.

    See Also
    --------
    EmbeddingDisplay : Attributes and embeddings of a task of any number of columns.
    sklearn.inspection.DecisionBoundaryDisplay : Decision regions of one fitted estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from sklearn_meta import MetaSemiSupervisedClassifier
    >>> from sklearn_meta.inspection import UnlabelledEffectDisplay
    >>> X, y = make_moons(100, noise=0.05, random_state=0)
    >>> few_labels = np.where(np.arange(100) < 10, y, -1)
    >>> display = UnlabelledEffectDisplay.from_estimator(
    ...     MetaSemiSupervisedClassifier(), X, few_labels, grid_resolution=20
    ... )
    >>> display.with_unlabelled.shape
    (20, 20)
    """

    def __init__(
        self,
        *,
        xx0,
        xx1,
        without_unlabelled,
        with_unlabelled,
        points,
        target,
        classes,
        names=("", ""),
    ):
        self.xx0 = xx0
        self.xx1 = xx1
        self.without_unlabelled = without_unlabelled
        self.with_unlabelled = with_unlabelled
        self.points = points
        self.target = target
        self.classes = classes
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, X, y, *, grid_resolution=100, ax=None):
        """Fit two clones of an estimator, one without the unlabelled rows, and draw both.

        Parameters
        ----------
        estimator : classifier
            Fitted or not: its clones are fitted here. A parameter ``transductive``, its own or
            that of a pipeline's step, is set to False in the clones, or the grid points would be
            unlabelled rows themselves. Semi-supervised estimators of scikit-learn do as well.
        X : array-like or DataFrame of shape (n_rows, 2)
            Rows of the task, two numeric columns.
        y : array-like of shape (n_rows,)
            Labels; -1 marks unlabelled rows.
        grid_resolution : int, default=100
            Grid points along each column.
        ax : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        display : UnlabelledEffectDisplay

        Raises
        ------
        ValueError
            If `X` has not two columns, or there is no labelled or no unlabelled row.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_consistent_length(X, y)
        points = np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X must have 2 columns to be drawn, got shape {points.shape}.")
        classes, target = _encode(y)
        labelled = target != -1
        if labelled.all():
            raise ValueError("Every row is labelled: mark unlabelled rows with -1 in y.")
        # A twentieth of the range beside the outermost rows.
        low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
        margin = 0.05 * (high - low)
        ticks = np.linspace(low - margin, high + margin, grid_resolution)
        xx0, xx1 = np.meshgrid(*ticks.T)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = ("", "")
        if hasattr(X, "iloc"):
            names = tuple(map(str, X.columns))
            grid = type(X)(grid, columns=X.columns)
        regions = []
        for seen in (labelled, np.full(len(target), True)):
            inductive = clone(estimator)
            modes = [name for name in inductive.get_params() if name.endswith("transductive")]
            inductive.set_params(**dict.fromkeys(modes, False))
            inductive.fit(X[seen], target[seen])
            regions.append(inductive.predict(grid).reshape(xx0.shape))
        display = cls(
            xx0=xx0,
            xx1=xx1,
            without_unlabelled=regions[0],
            with_unlabelled=regions[1],
            points=points,
            target=target,
            classes=classes,
            names=names,
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the two panels, on two given axes or in a new figure; returns the display."""
        self.ax_, self.figure_ = _two_axes(ax, f"{type(self).__name__}.plot")
        labelled = self.target != -1
        colours = _colours(len(self.classes))
        n_labelled = labelled.sum()
        titles = [
            f"from {n_labelled} labelled rows",
            f"from {n_labelled} labelled and {(~labelled).sum()} unlabelled rows",
        ]
        regions = [self.without_unlabelled, self.with_unlabelled]
        for panel, title, region in zip(self.ax_, titles, regions):
            # Not contourf, which draws class 1 along every border of classes 0 and 2.
            pale = 1 - 0.35 * (1 - colours[region, :3])
            panel.pcolormesh(self.xx0, self.xx1, pale, rasterized=True)
            _scatter(panel, self.points, self.target, labelled, colours)
            panel.set(title=title, xlabel=self.names[0], ylabel=self.names[1])
        _legend(self.ax_[1], self.classes)
        return self


def _embed(estimator, X):
    """Encoded attributes, embeddings and predicted codes: of the rows of fit, then of X."""
    if X is None:
        rows = estimator._encode(estimator.encoder_, estimator.X_)
        z, _ = estimator._forward([estimator._context_task(rows)])
        predicted = estimator.label_distributions_.argmax(axis=1)
        return rows, z[0].flatten(1).double().cpu().numpy(), predicted
    if estimator.transductive:
        # One pass over all rows, as predict makes it: embeddings of two passes do not compare.
        codes = np.concatenate([estimator.y_, np.full(len(X), -1)])
        return _embed(clone(estimator).fit(_stack(estimator.X_, X), codes), None)
    rows, z, predicted = _embed(estimator, None)
    rows = np.vstack([rows, estimator._encode(estimator.encoder_, X)])
    predicted = np.concatenate([predicted, estimator.predict_proba(X).argmax(axis=1)])
    return rows, np.vstack([z, estimator.transform(X)]), predicted


def _to_two(matrix, reduction, random_state):
    """A matrix of any number of columns in two dimensions."""
    if matrix.shape[1] == 1:  # t-SNE starts from two principal components
        matrix = np.column_stack([matrix, np.zeros(len(matrix))])
    if reduction == "tsne":
        # Its usual perplexity is too large for few rows: it must be less than their number.
        perplexity = min(30, (len(matrix) - 1) / 3)
        reduction = TSNE(perplexity=perplexity, random_state=random_state)
    elif reduction == "pca":
        reduction = PCA(2)
    elif not hasattr(reduction, "fit_transform"):
        raise ValueError(f"reduction must be 'tsne', 'pca' or a transformer, got {reduction!r}.")
    points = clone(reduction).fit_transform(matrix)
    if points.shape[1:] != (2,):
        raise ValueError(f"{reduction!r} must make 2 columns, but made shape {points.shape}.")
    return points


def _two_axes(ax, caller):
    """Two axes, given or in a new figure, and their figure."""
    check_matplotlib_support(caller)
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    ax = np.ravel(ax)
    if len(ax) != 2:
        raise ValueError(f"ax must be two matplotlib Axes, got {len(ax)}.")
    return ax, ax[0].figure


def _colours(n_classes):
    """An RGBA row a class."""
    from matplotlib import colormaps

    if n_classes <= 10:
        return colormaps["tab10"](np.arange(n_classes))
    return colormaps["turbo"](np.linspace(0.05, 0.95, n_classes))


def _scatter(ax, points, target, labelled, colours):
    """Unlabelled rows as crosses (grey where the class is not known), labelled ones as circles."""
    colours = np.vstack([colours, [0.35, 0.35, 0.35, 1]])  # position -1
    unlabelled = ~labelled
    ax.scatter(*points[unlabelled].T, c=colours[target[unlabelled]], marker="x", s=25, lw=1)
    ax.scatter(
        *points[labelled].T, c=colours[target[labelled]], marker="o", s=60, edgecolors="black"
    )


def _legend(ax, classes):
    """Colours of the classes and the two markers, beside the axes."""
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], marker="s", linestyle="", color=colour, label=str(label))
        for label, colour in zip(classes, _colours(len(classes)))
    ]
    for label, marker in (("labelled", "o"), ("unlabelled", "x")):
        keys.append(Line2D([], [], marker=marker, linestyle="", color="0.35", label=label))
    ax.legend(handles=keys, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
