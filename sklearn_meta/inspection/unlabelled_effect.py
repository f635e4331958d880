"""Decision regions of a task with two columns, without and with its unlabelled rows."""

from numbers import Integral

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.utils import check_array, check_scalar
from sklearn.utils.validation import check_consistent_length

from ..cells import in_pandas
from ..model_selection.splitters import encode_labels
from ..model_selection.transductive import (
    Transductive,
    innermost,
    refuse_frozen,
    refuse_mark_as_class,
)
from .drawing import axes_of, check_matplotlib_support, colours, legend, scatter


class UnlabelledEffectDisplay:
    """Plot of decision regions without and with the unlabelled rows, for two columns.

    Both panels show what the estimator predicts over a grid of points: on the left after fitting on
    the labelled rows alone, on the right after fitting on the unlabelled rows as well. Labelled
    rows are circles, unlabelled rows crosses.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution)
        The grid, as :func:`numpy.meshgrid` returns it.
    without_unlabelled, with_unlabelled : ndarray of shape (grid_resolution, grid_resolution), int
        Index in `classes` of the prediction at each grid point.
    points : ndarray of shape (n_rows, 2)
        The rows of the task.
    target : ndarray of shape (n_rows,), int
        Index in `classes` of the label of each row; -1 for unlabelled rows.
    classes : ndarray of shape (n_classes,)
        Class labels, for the legend.
    names : sequence of two str, default=("", "")
        Names of the columns, for the axes.

    Attributes
    ----------
    ax_ : ndarray of shape (2,) of matplotlib Axes
        Axes without and with unlabelled rows.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    EmbeddingDisplay : Attributes and embeddings of a task of any number of columns.
    sklearn.inspection.DecisionBoundaryDisplay : Decision regions of one fitted estimator.
        For those of this package, set ``transductive=False`` first: by default the grid points act
        as unlabelled rows.

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
            Fitted or not: clones are fitted here. In the clones, a parameter ``transductive``, also
            one of a pipeline step, is set to False, whatever a search chose, and
            :class:`~sklearn_meta.model_selection.Transductive` is replaced by its estimator;
            otherwise the grid points would act as unlabelled rows themselves. scikit-learn's
            semi-supervised estimators are accepted as well. The clones are fitted on indices into
            the sorted classes, so a setting such as ``class_weight`` must use 0, 1, ... for the
            labels.
        X : array-like or DataFrame of shape (n_rows, 2)
            Rows of the task: two numeric columns.
        y : array-like of shape (n_rows,)
            Class labels; -1 marks unlabelled rows.
        grid_resolution : int, default=100
            Number of grid points along each column, at least two.
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.

        Returns
        -------
        display : UnlabelledEffectDisplay

        Raises
        ------
        TypeError
            If the estimator is not a classifier or is frozen, `X` is sparse, or `grid_resolution`
            is not an int.
        ValueError
            If `X` does not have two columns, one of them is not numeric or has no finite cell,
            there is no labelled or no unlabelled row, there is not one label per row, the estimator
            treats -1 as a class, `grid_resolution` is less than 2, or there are not two axes.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        if not is_classifier(estimator):
            raise TypeError(f"The estimator must be a classifier, got {estimator!r}.")
        check_scalar(grid_resolution, "grid_resolution", Integral, min_val=2)
        X = in_pandas(X)
        check_consistent_length(X, y)
        if issparse(X):
            check_array(X, input_name="X")  # raises
        _check_dtypes(X)
        is_frame = hasattr(X, "iloc")  # its missing cells may be pandas.NA
        points = X.to_numpy(float, na_value=np.nan) if is_frame else np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X must have 2 columns to be drawn, got shape {points.shape}.")
        X = X if is_frame else points
        classes, target = encode_labels(y)
        labelled = target != -1
        if labelled.all():
            raise ValueError("Every row is labelled: mark unlabelled rows with -1 in y.")
        finite = np.isfinite(points)
        if not finite.any(axis=0).all():
            position = finite.any(axis=0).argmin()
            raise ValueError(
                f"Column {position} of X has no finite cell: there is nothing to draw."
            )
        # Margins of a twentieth of the range.
        bounded = np.where(finite, points, np.nan)
        low, high = np.nanmin(bounded, axis=0), np.nanmax(bounded, axis=0)
        margin = 0.05 * (high - low)
        ticks = np.linspace(low - margin, high + margin, grid_resolution)
        xx0, xx1 = np.meshgrid(*ticks.T)
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = ("", "")
        if is_frame:
            names = tuple(map(str, X.columns))
            grid = type(X)(grid, columns=X.columns)
        fitted = []
        for seen in (labelled, np.full(len(target), True)):
            inductive = _inductive(estimator).fit(X[seen], target[seen])
            _set_inductive(innermost(inductive))  # a search may have chosen the other mode
            refuse_mark_as_class(inductive)  # it would get the colour of the last class
            fitted.append(inductive)
        regions = [inductive.predict(grid).reshape(xx0.shape) for inductive in fitted]
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
        """Draw the two panels.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.

        Returns
        -------
        display : UnlabelledEffectDisplay

        Raises
        ------
        ValueError
            If there are not two axes.
        """
        self.ax_, self.figure_ = axes_of(ax, 2, self)
        labelled = self.target != -1
        palette = colours(len(self.classes))
        n_labelled = labelled.sum()
        titles = [
            f"from {n_labelled} labelled rows",
            f"from {n_labelled} labelled and {(~labelled).sum()} unlabelled rows",
        ]
        regions = [self.without_unlabelled, self.with_unlabelled]
        for panel, title, region in zip(self.ax_, titles, regions):
            # Not contourf: it draws class 1 along every border between classes 0 and 2.
            pale = 1 - 0.35 * (1 - palette[region, :3])
            panel.pcolormesh(self.xx0, self.xx1, pale, rasterized=True)
            scatter(panel, self.points, self.target, labelled, palette)
            panel.set_title(title)
            panel.set_xlabel(self.names[0], parse_math=False)
            panel.set_ylabel(self.names[1], parse_math=False)
        legend(self.ax_[1], self.classes)
        return self


def _check_dtypes(X):
    """Refuse columns of text or categories in a DataFrame: grid points are numbers."""
    if not hasattr(X, "iloc") or X.ndim != 2:
        return
    from pandas.api.types import is_numeric_dtype  # installed, since `X` is pandas'

    others = [name for name, dtype in X.dtypes.items() if not is_numeric_dtype(dtype)]
    if others:
        raise ValueError(f"X must have numeric columns to be drawn, but {others} are not.")


def _inductive(estimator):
    """Clone an estimator so that it does not use the rows of ``predict`` as unlabelled rows."""
    if isinstance(estimator, Transductive):
        return _inductive(estimator.estimator)
    refuse_frozen(estimator)
    inductive = clone(estimator)
    for name, value in inductive.get_params().items():
        if isinstance(value, Transductive):  # start again: nested parameters have changed
            return _inductive(inductive.set_params(**{name: value.estimator}))
    return _set_inductive(inductive)


def _set_inductive(estimator):
    modes = [
        name
        for name, value in estimator.get_params().items()
        if name.endswith("transductive") and not hasattr(value, "fit")  # a step may have that name
    ]
    return estimator.set_params(**dict.fromkeys(modes, False))
