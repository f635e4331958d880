"""Losses and scores of meta-training against its steps."""

import re

import numpy as np
from sklearn.exceptions import NotFittedError

from ..cells import in_pandas
from .drawing import axes_of, check_matplotlib_support, line_style

#: Label of a line, by what the strata of the sampler count (its ``stratum``).
STRATA = {
    "shots": "{0} labelled rows",  # "a class" is added for classification
    "ways": "{0} classes an episode",
    "components": "{0} components",
    "rows": "{0} to {1} rows",  # counted in powers of two
    "task": "task {0}",
}
# Names of an epoch's scores, as sklearn_meta.callbacks.StratumScores writes them.
SCORE = re.compile(rf"valid_(\w+)_(\d+)_({'|'.join(STRATA)})")


class MetaLearningCurveDisplay:
    """Plot of losses, and of scores by kind of task, against the steps of ``meta_fit``.

    The left panel shows the losses on training and validation tasks, the right one the score on
    validation tasks, such as accuracy or mean squared error, with one line per number of labelled
    rows. For estimators other than those of tables there is one line per number of classes in an
    episode, of components or of rows, and for texts one per task. Without validation tasks there is
    only the left panel, with the training loss alone.

    Create it with :meth:`from_estimator` or :meth:`from_history`.

    Parameters
    ----------
    steps : ndarray of shape (n_epochs,)
        Steps made by the end of each epoch.
    train_loss : ndarray of shape (n_epochs,)
        Mean loss over the steps of each epoch.
    valid_loss : ndarray of shape (n_epochs,) or None
        Loss on the validation tasks, if there were any.
    scores : dict of int to ndarray of shape (n_epochs,)
        Score on the validation tasks by `stratum`; NaN where an epoch has none.
    score_name : str or None
        Name of the score: "accuracy", "mse" (of targets standardised by the labelled rows), "nll"
        or "auroc".
    stratum : {"shots", "ways", "components", "rows", "task"}, default="shots"
        What the keys of `scores` count: labelled rows (per class in classification); classes of an
        episode; components of a mixture; rows of a set or sequence, where 16 stands for 16 to 31;
        or the tasks of ``meta_fit`` for texts, from 0.

    Attributes
    ----------
    loss_lines_ : list of matplotlib Line2D
        Training loss and, if there is one, validation loss.
    score_lines_ : list of matplotlib Line2D
        Scores, in the order of ``scores``.
    ax_ : ndarray of matplotlib Axes of shape (2,), or (1,) without scores
        Axes of losses and of scores.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    See Also
    --------
    sklearn.model_selection.LearningCurveDisplay : Scores against the number of training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris, load_wine
    >>> from sklearn_meta import MetaSemiSupervisedClassifier
    >>> from sklearn_meta.inspection import MetaLearningCurveDisplay
    >>> classifier = MetaSemiSupervisedClassifier("prior").meta_fit(
    ...     [load_iris(return_X_y=True)], validation_datasets=[load_wine(return_X_y=True)],
    ...     max_steps=4, eval_every=2, batch_size=2, n_shots=(1, 3), n_unlabelled=5, verbose=False
    ... )
    >>> display = MetaLearningCurveDisplay.from_estimator(classifier)
    >>> display.steps, list(display.scores)
    (array([2, 4]), [1, 3])
    """

    def __init__(self, *, steps, train_loss, valid_loss, scores, score_name, stratum="shots"):
        self.steps = steps
        self.train_loss = train_loss
        self.valid_loss = valid_loss
        self.scores = scores
        self.score_name = score_name
        self.stratum = stratum

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **kwargs):
        """Create and draw a display of an estimator's ``meta_fit``.

        Parameters
        ----------
        estimator : estimator of this package
            With the attribute ``history_``, which ``meta_fit`` sets and ``clone`` drops.
        ax : (sequence of) matplotlib Axes, default=None
            Axes to plot on, one per panel; a new figure if None.
        **kwargs : dict
            As in :meth:`plot`.

        Returns
        -------
        display : MetaLearningCurveDisplay

        Raises
        ------
        NotFittedError
            If the estimator was not meta-trained.
        ValueError
            If the number of axes is not the number of panels.
        """
        if not hasattr(estimator, "history_"):
            raise NotFittedError(
                f"This {type(estimator).__name__} has no history of meta-training: call meta_fit."
            )
        return cls.from_history(estimator.history_, ax=ax, **kwargs)

    @classmethod
    def from_history(cls, history, *, ax=None, **kwargs):
        """Create and draw a display of a history.

        Parameters
        ----------
        history : skorch.history.History, DataFrame or sequence of dict
            One dict per epoch with ``train_loss`` and, optionally, ``train_batch_count`` (steps of
            the epoch; without it epochs are counted), ``valid_loss`` and scores such as
            ``valid_accuracy_5_shots``, the same score in all epochs; or a DataFrame of these, such
            as :func:`pandas.read_csv` reads from a :class:`sklearn_meta.callbacks.CSVLog`.
        ax, **kwargs
            As in :meth:`from_estimator`.

        Returns
        -------
        display : MetaLearningCurveDisplay

        Raises
        ------
        ValueError
            If there is no epoch, an epoch is not a dict, none has a ``train_loss``, a loss is not a
            number, or the number of axes is not the number of panels.
        """
        check_matplotlib_support(f"{cls.__name__}.from_history")
        frame = in_pandas(history)
        epochs = frame.to_dict("records") if hasattr(frame, "iloc") else list(history)
        if not epochs:
            raise ValueError("The history holds no epoch: nothing was trained.")
        if not all(hasattr(epoch, "get") for epoch in epochs):
            raise ValueError(
                "The history must hold a dict per epoch, or be a frame with a row per epoch, got "
                f"{type(history).__name__}."
            )
        if not any("train_loss" in epoch for epoch in epochs):
            raise ValueError(
                "No epoch of the history has a train_loss: give history_ of an estimator, or what "
                "CSVLog wrote, with its header line."
            )

        def column(name):
            return np.array([epoch.get(name, np.nan) for epoch in epochs], dtype=float)

        found = [match for name in set().union(*epochs) if (match := SCORE.fullmatch(str(name)))]
        valid_loss = column("valid_loss")
        display = cls(
            # An interrupted epoch has no count (NaN in a log's rows): it counts as one step.
            steps=np.cumsum(np.nan_to_num(column("train_batch_count"), nan=1)).astype(int),
            train_loss=column("train_loss"),
            valid_loss=None if np.isnan(valid_loss).all() else valid_loss,
            scores={int(m[2]): column(m[0]) for m in sorted(found, key=lambda m: int(m[2]))},
            score_name=found[0][1] if found else None,
            stratum=found[0][3] if found else "shots",
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the panels.

        Parameters
        ----------
        ax : (sequence of) matplotlib Axes, default=None
            Axes to plot on, one per panel; a new figure if None.
        **kwargs : dict
            Keyword arguments of all lines, passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : MetaLearningCurveDisplay

        Raises
        ------
        ValueError
            If the number of axes is not the number of panels.
        """
        self.ax_, self.figure_ = axes_of(ax, 2 if self.scores else 1, self)
        losses = {"training tasks": self.train_loss, "validation tasks": self.valid_loss}
        label = STRATA[self.stratum]
        if (self.stratum, self.score_name) == ("shots", "accuracy"):
            label += " a class"
        scores = {label.format(k, 2 * k - 1): values for k, values in self.scores.items()}
        self.loss_lines_, self.score_lines_ = (
            [
                axes.plot(self.steps, values, **line_style(kwargs, marker=".", label=label))[0]
                for label, values in lines.items()
                if values is not None
            ]
            for axes, lines in zip((self.ax_[0], self.ax_[-1]), (losses, scores))
        )
        ylabels = ["loss", f"{self.score_name} on validation tasks"]
        for axes, ylabel in zip(self.ax_, ylabels):
            axes.set(xlabel="steps", ylabel=ylabel)
            axes.legend()
        return self
