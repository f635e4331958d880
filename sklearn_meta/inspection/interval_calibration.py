"""Observed against nominal coverage of predictive intervals."""

import numpy as np
from scipy.stats import norm
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.utils.validation import _num_samples

from .drawing import axes_of, check_matplotlib_support, line_style

DIAGONAL = "perfectly calibrated"
WIDTH = "mean width (dashed)"


class IntervalCalibrationDisplay:
    """Plot of nominal against observed coverage of predictive intervals.

    The counterpart of :class:`sklearn.calibration.CalibrationDisplay` for regression. For each
    nominal coverage it shows the share of rows whose target lies in the central interval of their
    predictive distribution. Above the diagonal intervals are too wide, below it too narrow. The aim
    is narrow intervals on the diagonal; their mean width can be drawn as well.

    Create it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    nominal : ndarray of shape (n_levels,)
        Nominal coverage of the intervals, between 0 and 1.
    observed : ndarray of shape (n_levels,)
        Share of the targets within their intervals.
    width : ndarray of shape (n_levels,)
        Mean width of the intervals, in units of the target.
    name : str, default=None
        Name of the regressor, for the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The observed coverage.
    width_line_ : matplotlib Line2D or None
        The mean width, if it is drawn.
    ax_ : matplotlib Axes
        Axes of the coverage.
    width_ax_ : matplotlib Axes or None
        Axes of the width, to the right of ``ax_``.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : The same of a classifier's probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_meta import MetaGPRegressor
    >>> from sklearn_meta.inspection import IntervalCalibrationDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = MetaGPRegressor().fit(X[:30], y[:30])
    >>> display = IntervalCalibrationDisplay.from_estimator(regressor, X[30:], y[30:])
    >>> display.observed.shape
    (19,)
    """

    def __init__(self, *, nominal, observed, width, name=None):
        self.nominal = nominal
        self.observed = observed
        self.width = width
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, levels=None, name=None, ax=None, **kwargs):
        """Create and draw a display of a regressor's intervals for rows with known targets.

        Parameters
        ----------
        estimator : regressor
            Fitted regressor whose ``predict`` accepts ``quantiles=``, as MetaGPRegressor's does, or
            ``return_std=True``, as those of GaussianProcessRegressor and BayesianRidge do, whose
            intervals are then those of a normal distribution. Pipelines that end in such a
            regressor, and searches over its parameters, are accepted as well. With metadata routing
            enabled in scikit-learn, the last step of a pipeline must request the former,
            ``set_predict_request(quantiles=True)``, or the latter.
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows that ``fit`` has not seen.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Targets of these rows; several are pooled.
        levels : sequence of float in (0, 1), default=None
            Nominal coverages; they are sorted. If None, 0.05, 0.1, ..., 0.95.
        name : str, default=None
            Name in the legend; the name of the estimator's class if None.
        ax : matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        **kwargs : dict
            As in :meth:`plot`.

        Returns
        -------
        display : IntervalCalibrationDisplay

        Raises
        ------
        TypeError
            If ``predict`` returns neither, the estimator is a class, or `y` is not array-like.
        NotFittedError
            If the estimator is not fitted.
        ValueError
            As in :meth:`from_predictions`; or if ``predict`` refuses `X`, or a pipeline is not
            told whether to route quantiles.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        if isinstance(estimator, type):
            name = estimator.__name__
            raise TypeError(
                f"Expected an estimator instance ({name}()), got estimator class instead ({name}): "
                "fit an instance, and give that."
            )
        name = type(estimator).__name__ if name is None else name
        while hasattr(estimator, "best_estimator_"):  # of a search
            estimator = estimator.best_estimator_
        nominal = _sorted_levels(levels)
        # One more level if there are as many as rows, so that the shape shows which axis is which.
        between = [0.5] * (2 * len(nominal) == _num_samples(y))
        ends = _quantiles(estimator, X, y, np.r_[(1 - nominal) / 2, between, (1 + nominal) / 2])
        if ends is not None:
            ends = ends[: len(nominal)], ends[-len(nominal) :]
            # If the regressor transforms y by a decreasing function, the ends change places.
            low, high = np.minimum(*ends), np.maximum(*ends)
            return cls._of_intervals(y, low, high, nominal, name=name).plot(ax=ax, **kwargs)
        try:
            mean, std = estimator.predict(X, return_std=True)
        except TypeError as error:
            raise TypeError(
                "Intervals need quantiles, (n_quantiles, n_rows), or standard deviations, but "
                f"predict of {type(estimator).__name__} does not return quantiles for quantiles=, "
                f"and fails with return_std=True ({error}). Use from_predictions."
            ) from error
        return cls.from_predictions(y, mean, std, levels=levels, name=name, ax=ax, **kwargs)

    @classmethod
    def from_predictions(cls, y_true, mean, std, *, levels=None, name=None, ax=None, **kwargs):
        """Create and draw a display of predictive means and standard deviations.

        Parameters
        ----------
        y_true, mean, std : array-like of shape (n_rows,) or (n_rows, n_targets)
            Targets, and the mean and standard deviation (including noise) of their predictive
            normal distributions; several targets are pooled. A DataFrame with one column is treated
            as a Series.
        levels, name, ax, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        display : IntervalCalibrationDisplay

        Raises
        ------
        ValueError
            If shapes differ, there are no rows, a number is not finite, a standard deviation is
            negative, a level is not between 0 and 1, or `ax` is not one axes.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        mean, std = (np.asarray(values, dtype=float) for values in (mean, std))
        nominal = _sorted_levels(levels)
        if mean.shape != std.shape:
            raise ValueError(
                f"mean and std must have the same shape, got {mean.shape} and {std.shape}."
            )
        if (std < 0).any():
            raise ValueError("A standard deviation is negative.")
        reach = norm.ppf((1 + nominal) / 2).reshape(-1, *[1] * mean.ndim) * std
        display = cls._of_intervals(y_true, mean - reach, mean + reach, nominal, name=name)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def _of_intervals(cls, y_true, low, high, nominal, *, name):
        """Display by interval ends, (n_levels, n_rows) or (n_levels, n_rows, n_targets)."""
        from ..tasks.column_types import targets_as_numbers  # imports torch, which is slow

        if hasattr(y_true, "iloc") and low.ndim == 2 and y_true.shape[1:] == (1,):
            y_true = y_true.iloc[:, 0]
        y_true = np.asarray(targets_as_numbers(y_true), dtype=float)
        if y_true.shape != low.shape[1:]:
            raise ValueError(
                f"y_true and the predictions must have the same shape, got {y_true.shape} and "
                f"{low.shape[1:]}."
            )
        if not y_true.size:
            raise ValueError("At least one row is needed.")
        if not all(np.isfinite(values).all() for values in (y_true, low, high)):
            raise ValueError(
                "y_true and the predictions must be finite: leave unlabelled rows out."
            )
        inside, width = (low <= y_true) & (y_true <= high), high - low
        observed, width = (part.reshape(len(nominal), -1).mean(axis=1) for part in (inside, width))
        return cls(nominal=nominal, observed=observed, width=width, name=name)

    def plot(self, ax=None, *, name=None, ref_line=True, show_width=False, **kwargs):
        """Draw the coverage; several displays can share the same axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        name : str, default=None
            Name in the legend; that of the display if None.
        ref_line : bool, default=True
            Whether to draw the diagonal.
        show_width : bool, default=False
            Whether to draw the mean width, dashed, on an axis on the right.
        **kwargs : dict
            Keyword arguments of the line, passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : IntervalCalibrationDisplay

        Raises
        ------
        ValueError
            If `ax` is not one axes.
        """
        (ax,), self.figure_ = axes_of(ax, 1, self)
        self.ax_ = ax
        if ref_line and DIAGONAL not in ax.get_legend_handles_labels()[1]:
            ax.plot([0, 1], [0, 1], "k:", label=DIAGONAL)
        name = self.name if name is None else name
        style = line_style(kwargs, marker="o", markersize=4, label=name)
        (self.line_,) = ax.plot(self.nominal, self.observed, **style)
        ax.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1))
        self.width_ax_ = self.width_line_ = None
        if show_width:
            self.width_ax_ = _width_ax(ax) or ax.twinx()
            colour = self.line_.get_color()
            (self.width_line_,) = self.width_ax_.plot(self.nominal, self.width, "--", color=colour)
            self.width_ax_.set_ylabel(WIDTH)
            self.width_ax_.autoscale(axis="y")  # an earlier display's set_ylim turned it off
            self.width_ax_.set_ylim(bottom=0)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left")
        return self


def _quantiles(estimator, X, y, levels):
    """Return ``predict(X, quantiles=levels)``, or None if the result is not quantiles of rows.

    Other packages' regressors may have a parameter of the same name, or ignore unknown ones.
    """
    try:
        found = np.asarray(estimator.predict(X, quantiles=levels), dtype=float)
    except (NotFittedError, UnsetMetadataPassedError):  # ValueErrors that say what to do
        raise
    except (TypeError, ValueError, NotImplementedError):
        return None
    shape = np.shape(y) if np.shape(y)[1:] != (1,) else found.shape[1:]
    return found if found.shape == (len(levels), *shape) else None


def _sorted_levels(levels):
    """Return the nominal coverages, sorted so that a line can join them."""
    nominal = np.linspace(0.05, 0.95, 19) if levels is None else np.asarray(levels, float)
    if nominal.ndim != 1 or not nominal.size or not ((nominal > 0) & (nominal < 1)).all():
        raise ValueError(f"levels must be numbers between 0 and 1, got {levels!r}.")
    return np.sort(nominal)


def _width_ax(ax):
    """Return the axes of the width that an earlier display put over these, or None."""
    place = ax.figure, *ax.get_position(original=True).bounds
    for other in ax.get_shared_x_axes().get_siblings(ax):  # also panels of sharex=True
        same = (other.figure, *other.get_position(original=True).bounds) == place
        if same and other.get_ylabel() == WIDTH:
            return other
    return None
