"""What a memory-augmented network writes to its memory and reads from it (paper 002)."""

import copy
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils import check_scalar, column_or_1d

from ..cells import whole_labels
from .drawing import axes_of, check_matplotlib_support

#: Maximum number of rows whose labels are written beside the maps; more would be unreadable.
MAX_LABELS = 40


class MemoryDisplay:
    """Plot of where a memory-augmented network writes and reads, row by row of a stream.

    Two heat maps have one line per row of the stream, from top to bottom, and one column per slot
    of the external memory that was written to, in the order of the first write. A network that
    binds rows to labels writes what is new to it to a new slot, and when a class recurs it reads
    from the slots of that class's earlier rows. The label of a row reaches the network with the
    next row (Fig. 1 of paper 002).

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    write_weights : ndarray of shape (n_rows, n_slots)
        Write weights of all slots, summed over heads, Eq. (7).
    read_weights : ndarray of shape (n_rows, n_slots)
        Read weights of all slots, averaged over heads, Eq. (3).
    slots : ndarray of shape (n_shown,), int
        Slots to show, in this order.
    labels : ndarray of shape (n_rows,), default=None
        Class label of each row, if there are any.

    Attributes
    ----------
    images_ : list of two matplotlib AxesImage
        The images of writes and reads.
    ax_ : ndarray of matplotlib Axes of shape (2,)
        Their axes.
    figure_ : matplotlib Figure
        Figure that contains the axes.

    References
    ----------
    One-shot Learning with Memory-Augmented Neural Networks (paper 002), section 3.2 and Figure 1.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_meta import MANNClassifier
    >>> from sklearn_meta.inspection import MemoryDisplay
    >>> from sklearn_meta.memory_learner import MemoryLearner
    >>> small = {"width": 16, "n_slots": 8, "slot_size": 4, "n_reads": 2}
    >>> untrained = MANNClassifier(MemoryLearner(backbone_config=small))
    >>> X, y = load_iris(return_X_y=True)
    >>> display = MemoryDisplay.from_estimator(untrained, X[::10], y[::10])
    >>> display.write_weights.shape, display.read_weights.shape
    ((15, 8), (15, 8))
    """

    def __init__(self, *, write_weights, read_weights, slots, labels=None):
        self.write_weights = write_weights
        self.read_weights = read_weights
        self.slots = slots
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, X, y, *, member=0, min_write=0.1, ax=None, **kwargs):
        """Create and draw a display of the memory of a fresh clone that reads some rows.

        The estimator itself does not change. One memory reads all rows, whatever ``window_size``
        is.

        Parameters
        ----------
        estimator : MANNClassifier or MANNRegressor
            Estimator whose network has an external memory; it need not be fitted.
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows in the order in which they arrive, as for ``partial_fit``.
        y : array-like of shape (n_rows,)
            Labels or targets of these rows.
        member : int, default=0
            Member of the ensemble whose memory is shown.
        min_write : float, default=0.1
            A slot counts as written to from the row at which its write weight reaches this fraction
            of the largest weight of all: heads that write where they read write a little to every
            slot.
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        **kwargs : dict
            As in :meth:`plot`.

        Returns
        -------
        display : MemoryDisplay

        Raises
        ------
        TypeError
            If the estimator is neither of these, `member` is not an int or `min_write` not a
            number.
        ValueError
            If a parameter of the estimator is invalid, its network has no external memory, there
            is no such member, `min_write` is not between 0 and 1, or there are not two axes.
        ValueError, TypeError, NotFittedError, OSError
            If ``partial_fit`` refuses rows, or there are no weights for it.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        from ..memory.base import OnlineEstimator

        if not isinstance(estimator, OnlineEstimator):
            raise TypeError(
                f"The estimator must be a MANNClassifier or a MANNRegressor, got {estimator!r}. "
                "For a pipeline, pass its last step, and X transformed by the steps before it."
            )
        estimator._validate_params()  # n_estimators bounds the member below
        check_scalar(member, "member", Integral, min_val=0, max_val=estimator.n_estimators - 1)
        check_scalar(min_write, "min_write", Real, min_val=0, max_val=1)
        if np.isnan(min_write):
            raise ValueError("min_write is NaN: give a share, a number between 0 and 1.")
        writes, reads = _replay(estimator, X, y, member)
        written = writes >= min_write * writes.max()
        first = np.where(written.any(axis=0), written.argmax(axis=0), len(writes))
        return cls(
            write_weights=writes,
            read_weights=reads,
            slots=first.argsort(kind="stable")[: (first < len(writes)).sum()],
            labels=None if is_regressor(estimator) else column_or_1d(whole_labels(y)),
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, colorbar=True, **kwargs):
        """Draw the writes and the reads.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            Axes to plot on; a new figure if None.
        colorbar : bool, default=True
            Whether to draw a colorbar beside each image.
        **kwargs : dict
            Keyword arguments of both images, passed to :meth:`matplotlib.axes.Axes.imshow`.

        Returns
        -------
        display : MemoryDisplay

        Raises
        ------
        ValueError
            If there are not two axes.
        """
        self.ax_, self.figure_ = axes_of(ax, 2, self)
        from matplotlib.ticker import MaxNLocator

        style = {"aspect": "auto", "interpolation": "nearest"} | kwargs
        if style.get("norm") is None:  # a norm has its own bounds
            style.setdefault("vmin", 0)
        panels = {
            "write weights (sum over heads)": self.write_weights,
            "read weights (mean over heads)": self.read_weights,
        }
        self.images_ = []
        for axes, (title, weights) in zip(self.ax_, panels.items()):
            image = axes.imshow(weights[:, self.slots], **style)
            self.images_.append(image)
            if colorbar:
                self.figure_.colorbar(image, ax=axes)
            axes.set(title=title, xlabel="memory slot, by first write", ylabel="row")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))
            if self.labels is not None and len(self.labels) <= MAX_LABELS:
                axes.set_yticks(
                    range(len(self.labels)), self.labels, fontsize="x-small", parse_math=False
                )
                axes.set_ylabel("class of the row")
        return self


def _replay(estimator, X, y, member):
    """Return a member's write and read weights, (n_rows, n_slots) each, while it reads rows."""
    replay = clone(estimator).set_params(window_size=None)
    # A learner of its own, so that the hook sees no rows of other threads. The module below is the
    # one that partial_fit uses.
    replay.learner_ = copy.deepcopy(replay._learner())
    access = replay._module(replay.learner_).backbone.access
    if access is None:
        having = [name for name, c in replay._architectures.items() if c.get("access", "lrua")]
        raise ValueError(
            f"The network of this {type(estimator).__name__} has no external memory: choose "
            f"weights of one of the architectures {having}."
        )
    steps = []

    def note(module, given, memory):
        heads = memory.write_weights[member].sum(0), memory.read_weights[member].mean(0)
        steps.append([weights.cpu().numpy() for weights in heads])

    # All rows in one call: the first call determines how a table's columns are encoded.
    access.register_forward_hook(note)
    replay.partial_fit(X, y)
    return np.stack(steps, 1)
