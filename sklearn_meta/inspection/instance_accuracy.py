"""Accuracy at the first, second, ... instance of a class within an episode (paper 002)."""

from numbers import Integral

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils import check_consistent_length, check_scalar, column_or_1d

from ..cells import is_missing_value
from .drawing import axes_of, check_matplotlib_support, line_style


def instance_numbers(y):
    """Number of each row within its class: 1 where a label first occurs, then 2, 3, ...

    Before row number k of a class, a learner has seen k - 1 rows of that class.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Class labels in the order in which the rows arrive.

    Returns
    -------
    ndarray of shape (n_rows,), int

    Raises
    ------
    ValueError
        If labels are not a single column.
    TypeError
        If labels cannot be sorted, such as text beside numbers.

    References
    ----------
    One-shot Learning with Memory-Augmented Neural Networks (paper 002), Figure 2.

    Examples
    --------
    >>> from sklearn_meta.inspection import instance_numbers
    >>> instance_numbers(["b", "a", "b", "b", "a"])
    array([1, 1, 2, 3, 2])
    """
    _, codes = np.unique(column_or_1d(y), return_inverse=True)
    order = codes.argsort(kind="stable")  # class by class, each in the order of its rows
    by_class = codes[order]
    numbers = np.empty(len(codes), dtype=int)
    numbers[order] = np.arange(len(codes)) - np.searchsorted(by_class, by_class) + 1
    return numbers


class InstanceAccuracyDisplay:
    """Plot of accuracy at the first, second, ... instance of a class within an episode.

    These are the numbers of Tables 1 and 2 of paper 002; its Figure 2 plots them over training. An
    episode is a stream of rows, each predicted before its label is shown. At the first instance of
    a class one can only guess; the second shows one-shot learning. The band is one standard error
    on either side.

    Create it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    accuracy : ndarray of shape (n_instances,)
        Share of correct predictions at each instance, over all classes and episodes.
    standard_error : ndarray of shape (n_instances,)
        Standard error of the accuracy, over episodes, since rows of an episode are not independent;
        NaN for instances that only one episode has.
    counts : ndarray of shape (n_instances,), int
        Number of rows at each instance, over all classes and episodes.
    chance : float, default=None
        Accuracy of guessing among the classes of the episode.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The accuracy.
    band_ : matplotlib PolyCollection or None
        The standard errors, if they are known.
    chance_level_ : matplotlib Line2D or None
        The chance level, if this display drew it.
    ax_, figure_ : matplotlib Axes and Figure

    References
    ----------
    One-shot Learning with Memory-Augmented Neural Networks (paper 002), Figure 2.

    Examples
    --------
    >>> from sklearn_meta.inspection import InstanceAccuracyDisplay
    >>> y_true = [["a", "b", "a", "b"], ["a", "a", "b", "a"]]
    >>> y_pred = [["b", "b", "a", "b"], ["a", "a", "a", "b"]]
    >>> display = InstanceAccuracyDisplay.from_predictions(y_true, y_pred)
    >>> display.accuracy, display.counts
    (array([0.5, 1. , 0. ]), array([4, 3, 1]))
    """

    def __init__(self, *, accuracy, standard_error, counts, chance=None, name=None):
        self.accuracy = accuracy
        self.standard_error = standard_error
        self.counts = counts
        self.chance = chance
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, episodes, *, max_instance=10, name=None, ax=None, **kwargs):
        """Create and draw a display of an estimator's predictions in some episodes.

        Parameters
        ----------
        estimator : classifier with ``predict_online``
            Such as MANNClassifier; each episode is given to a fresh clone.
        episodes : iterable of (X, y)
            Rows and their labels, in the order in which they arrive.
        max_instance : int, default=10
            Later instances of a class are left out.
        name : str, default=None
            Name in the legend; the name of the estimator's class if None.
        ax, **kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : InstanceAccuracyDisplay

        Raises
        ------
        TypeError
            If the estimator is not a classifier with ``predict_online``; or as in
            :meth:`from_predictions`.
        ValueError
            If an episode is not a pair; or as in :meth:`from_predictions` and ``predict_online``.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        kind = type(estimator).__name__
        if is_regressor(estimator) or not hasattr(estimator, "predict_online"):
            raise TypeError(
                "The estimator must be a classifier with predict_online, such as MANNClassifier, "
                f"got {kind}: predict row after row yourself, and use from_predictions."
            )
        episodes = list(episodes)
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in episodes):
            raise ValueError("episodes must hold pairs (X, y): give [(X, y)] for a single pair.")
        y_true, y_pred = [], []
        for X, y in episodes:
            y_true.append(y)
            y_pred.append(clone(estimator).predict_online(X, y))
        name = kind if name is None else name
        return cls.from_predictions(
            y_true, y_pred, max_instance=max_instance, name=name, ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(cls, y_true, y_pred, *, max_instance=10, name=None, ax=None, **kwargs):
        """Create and draw a display of the predictions of one or several episodes.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_rows,), or a sequence of such
            True and predicted labels, in the order in which the rows arrived. A sequence has one
            array per episode, of any length. An ndarray with one column is one episode.
        max_instance, name, ax, **kwargs
            As in :meth:`from_estimator`; if `name` is None, the legend has no name.

        Returns
        -------
        display : InstanceAccuracyDisplay

        Raises
        ------
        ValueError
            If there are no rows, a label is missing, numbers of rows or of episodes differ, only
            one of the two has string labels, `max_instance` is less than 1, or `ax` is not one
            axes.
        TypeError
            If `max_instance` is not an int.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        check_scalar(max_instance, "max_instance", Integral, min_val=1)
        y_true, y_pred = _episodes(y_true, "y_true"), _episodes(y_pred, "y_pred")
        if len(y_true) != len(y_pred):
            raise ValueError(f"y_true has {len(y_true)} episodes, but y_pred has {len(y_pred)}.")
        tallies = [_tally(*pair, max_instance) for pair in zip(y_true, y_pred)]
        rows, right = np.array(tallies).reshape(-1, 2, max_instance).swapaxes(0, 1)
        counts = rows.sum(axis=0)
        reached = counts > 0  # True, ..., True, False, ...: earlier instances are reached, too
        if not reached.any():
            raise ValueError("At least one row is needed.")
        rows, right, counts = rows[:, reached], right[:, reached], counts[reached]
        accuracy = right.sum(axis=0) / counts
        # Linearised standard error of a ratio of sums. If all episodes have the same number of
        # rows, it is the standard error of a mean.
        n_episodes = (rows > 0).sum(axis=0)
        freedom = np.where(n_episodes > 1, n_episodes - 1, np.nan)
        variance = ((right - rows * accuracy) ** 2).sum(axis=0) * n_episodes / freedom
        return cls(
            accuracy=accuracy,
            standard_error=np.sqrt(variance) / counts,
            counts=counts.astype(int),
            chance=float(np.mean([1 / len(np.unique(y)) for y in y_true if len(y)])),
            name=name,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, name=None, plot_chance_level=False, **kwargs):
        """Draw the accuracy; several displays can share the same axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        name : str, default=None
            Name in the legend; that of the display if None.
        plot_chance_level : bool, default=False
            Whether to draw the accuracy of guessing among the classes of the episode.
        **kwargs : dict
            Keyword arguments of the line, passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : InstanceAccuracyDisplay

        Raises
        ------
        ValueError
            If `ax` is not one axes.
        """
        (ax,), self.figure_ = axes_of(ax, 1, self)
        self.ax_ = ax
        from matplotlib.ticker import MaxNLocator

        instances = np.arange(1, len(self.accuracy) + 1)
        label = self.name if name is None else name
        style = line_style(kwargs, marker="o", markersize=4, label=label)
        (self.line_,) = ax.plot(instances, self.accuracy, **style)
        self.band_ = self.chance_level_ = None
        if np.isfinite(self.standard_error).any():
            low, high = (self.accuracy + sign * self.standard_error for sign in (-1, 1))
            colour = self.line_.get_color()
            self.band_ = ax.fill_between(instances, low, high, color=colour, alpha=0.2, lw=0)
        if plot_chance_level and self.chance is not None:
            label = f"chance ({self.chance:.2g})"
            if label not in ax.get_legend_handles_labels()[1]:  # once for all displays
                self.chance_level_ = ax.axhline(self.chance, color="k", ls=":", label=label)
        ax.set(xlabel="instance of a class", ylabel="accuracy", ylim=(-0.02, 1.02))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="lower right")
        return self


def _episodes(y, name):
    """Return labels as a list of arrays, one per episode."""
    column = isinstance(y, np.ndarray) and y.shape[1:] == (1,)
    # A Series or an Arrow array is one episode; NumPy cannot compare a list of Arrow values.
    y = y if column or hasattr(y, "to_numpy") else list(y)
    one = not isinstance(y, list) or (y and np.ndim(y[0]) == 0)
    episodes = [y] if one else y
    for episode in episodes:
        # Check the objects: NumPy would turn a NaN among text into text.
        if any(map(is_missing_value, np.asarray(episode, dtype=object).ravel())):
            raise ValueError(f"{name} contains NaN or None: leave rows without a label out.")
    return [column_or_1d(episode) for episode in episodes]


def _tally(y_true, y_pred, max_instance):
    """Count rows and correct predictions at each instance of an episode; return two arrays."""
    check_consistent_length(y_true, y_pred)
    # Check the values, not the dtype: pandas stores strings as objects.
    texts = [[isinstance(label, str) for label in y] for y in (y_true, y_pred)]
    if any(all(one) and one and not any(other) for one, other in (texts, texts[::-1])):
        raise ValueError(
            "Only one of y_true and y_pred holds strings, so no prediction would be right."
        )
    numbers = instance_numbers(y_true) - 1
    kept = numbers < max_instance
    right = (y_true == y_pred)[kept]
    return [np.bincount(numbers[kept], w, minlength=max_instance) for w in (None, right)]
