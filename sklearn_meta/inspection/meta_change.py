"""How the weights that a Meta-LSTM generates change from word to word (paper 004)."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .drawing import axes_of, check_matplotlib_support

#: Gates of the basic LSTM, in the order of Eq. (13).
GATES = ("new input", "output gate", "input gate", "forget gate")


def relative_changes(matrices):
    """Mean relative change of each gate's matrix at each word, Eq. (23).

    Parameters
    ----------
    matrices : ndarray of shape (n_words, 4, width, embedding_size + width)
        The result of :meth:`sklearn_meta.MetaLSTMClassifier.generated_weights`.

    Returns
    -------
    ndarray of shape (4, n_words)
        NaN at the first word.
    """
    changes = np.full((4, len(matrices)), np.nan)
    for n, (before, now) in enumerate(zip(matrices, matrices[1:]), start=1):
        changes[:, n] = (np.abs(now - before) / np.abs(before).clip(1e-12)).mean((1, 2))
    return changes


class MetaChangeDisplay:
    """Plot of the prediction after every word of a text, and of how much the weights changed.

    One panel is a heat map with a line per gate: the mean relative change of the matrix W(z) that
    the Meta-LSTM generates, Eq. (23). The other shows the log-odds of a class if the text ended
    there, from the network alone.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    words : list of str
    changes : ndarray of shape (4, n_words)
        Changes of the matrices of the new input, output gate, input gate and forget gate; NaN at
        the first word, before which there is none.
    log_odds : ndarray of shape (n_words,)
    label : object
        The class of the log-odds.

    Attributes
    ----------
    image_ : matplotlib AxesImage
    line_ : matplotlib Line2D
    ax_ : ndarray of matplotlib Axes of shape (2,)
    figure_ : matplotlib Figure

    References
    ----------
    Meta Multi-Task Learning for Sequence Modeling (paper 004), Figure 4 and Eq. (23).

    Examples
    --------
    >>> from sklearn_meta import MetaLSTMClassifier
    >>> from sklearn_meta.inspection import MetaChangeDisplay
    >>> texts, y = ["a fine film", "a dull film", "fine and warm", "dull and cold"], [1, 0, 1, 0]
    >>> model = MetaLSTMClassifier(embedding_size=8, width=8, max_epochs=2).fit(texts, y)
    >>> MetaChangeDisplay.from_estimator(model, "not a fine film").changes.shape
    (4, 4)
    """

    def __init__(self, *, words, changes, log_odds, label):
        self.words = words
        self.changes = changes
        self.log_odds = log_odds
        self.label = label

    @classmethod
    def from_estimator(cls, estimator, text, *, label=None, ax=None, **kwargs):
        """Create and draw a display of one text.

        Parameters
        ----------
        estimator : MetaLSTMClassifier
            Fitted, with ``backbone="meta_lstm"``.
        text : str or list of str
        label : object, default=None
            Class whose log-odds are shown; the last of ``classes_`` if None.
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        **kwargs : dict
            As in :meth:`plot`.

        Returns
        -------
        display : MetaChangeDisplay

        Raises
        ------
        TypeError
            If the estimator is not a MetaLSTMClassifier.
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If the network generates no weights, the estimator has no such class, `text` is not a
            text or has no word, or there are not two axes.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        from ..text import MetaLSTMClassifier

        if not isinstance(estimator, MetaLSTMClassifier):
            raise TypeError(f"The estimator must be a MetaLSTMClassifier, got {estimator!r}.")
        check_is_fitted(estimator)
        if estimator.module_.names["backbone"] != "meta_lstm":
            raise ValueError("Only a network of backbone='meta_lstm' generates weights.")
        classes = estimator.classes_.tolist()  # Python's numbers, which print plainly
        label = label.item() if isinstance(label, np.generic) else label
        label = classes[-1] if label is None else label
        if np.ndim(label) or label not in classes:
            raise ValueError(f"label={label!r} is not one of {classes}.")
        words = estimator.words_of(text)
        if not words:
            raise ValueError("The text has no word: give another.")
        # The text as if it ended after each of its words.
        beginnings = [words[: n + 1] for n in range(len(words))]
        place = classes.index(label)
        # The network alone: the linear model beside it generates no weights.
        probability = estimator._network_proba(beginnings)[:, place].clip(1e-12, 1 - 1e-12)
        return cls(
            words=words,
            changes=relative_changes(estimator.generated_weights(words)),
            log_odds=np.log(probability / (1 - probability)),
            label=label,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the changes and the predictions.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        **kwargs : dict
            Keyword arguments of the changes, passed to :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        display : MetaChangeDisplay

        Raises
        ------
        ValueError
            If there are not two axes.
        """
        self.ax_, self.figure_ = axes_of(ax, 2, self)
        changes, odds = self.ax_
        # Log scale, since a weight near zero may change by any factor. Clip zeros, which have no
        # logarithm.
        least = self.changes[self.changes > 0].min(initial=1)
        shown = np.log(self.changes.clip(least))
        self.image_ = changes.imshow(shown, **{"aspect": "auto", "cmap": "Blues"} | kwargs)
        changes.set_yticks(range(len(GATES)), GATES)
        changes.set_title("log of the mean relative change of W(z)")
        (self.line_,) = odds.plot(self.log_odds, marker="o")
        odds.axhline(0, color="grey", linewidth=0.5)
        odds.set_ylabel(f"log-odds of {self.label!r}", parse_math=False)
        odds.set_xlim(-0.5, len(self.words) - 0.5)
        # A lone surrogate is a valid word, but cannot be drawn.
        shown_words = [word.encode("utf-8", "replace").decode() for word in self.words]
        for axes in self.ax_:
            axes.set_xticks(range(len(shown_words)), shown_words, rotation=90, parse_math=False)
        return self
