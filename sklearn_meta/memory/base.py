"""Base class of the estimators that read rows one after another (paper 002)."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..fingerprint import weights_digest
from ..memory_learner import MemoryLearner
from ..rows import RowEstimator
from ..tasks.encoding import TableEncoder
from ..tasks.running import Moments, last, projection, running_moments, standardised_rows

#: Architectures that ``backbone`` names, and the keyword arguments of MANN they stand for.
ARCHITECTURES = {
    "mann": {},
    "mann_ntm": {"access": "ntm"},
    "mann_feedforward": {"controller": "feedforward"},
    "lstm": {"access": None},
    "feedforward": {"controller": "feedforward", "access": None},
}

#: Number of rows whose running moments are computed at once; bounds memory.
MOMENTS_AT_ONCE = 256


class Settings(NamedTuple):
    """Settings of a state; parameters that are set later take effect from the next ``fit``."""

    n_members: int
    seed: int
    dtype: str
    window_size: int | None


class Reading(NamedTuple):
    """State of a stream after some rows.

    Entries 0 to E - 1 are the memories of the E members, which answer. After the first window of
    rows, E younger memories follow, which replace the older ones a window later.

    Parameters
    ----------
    state : State
        State of the network, for each memory.
    moments, targets : Moments
        Moments of the columns and of the targets that each memory has read.
    previous : tensor of shape (E or 2 E, 1, L)
        The label that was shown last.
    n_rows : int
        Number of rows that the answering memories have read.
    """

    state: tuple
    moments: Moments
    targets: Moments
    previous: torch.Tensor
    n_rows: int


class OnlineEstimator(RowEstimator):
    """Base class of the estimators whose task is a sequence of rows.

    Every member of an ensemble reads the rows in an order of its own and sees its own rotation of
    the columns; E below is the number of members. Subclasses define how the network sees labels.
    """

    _architectures = ARCHITECTURES
    _learner_class = MemoryLearner
    _fitted = ("n_samples_seen_",)  # a persistent memory stays
    _draws_none_of = "sequences, which have no {}: see the parameters of its meta_fit."
    _parameter_constraints = {
        **RowEstimator._parameter_constraints,
        "shuffle": ["boolean"],
        "window_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory": [StrOptions({"wipe", "persistent"})],
    }

    def __init__(
        self,
        backbone="default",
        *,
        n_estimators=8,
        shuffle=True,
        window_size=125,
        memory="wipe",
        chunk_size=256,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.n_estimators = n_estimators
        self.shuffle = shuffle
        self.window_size = window_size
        self.memory = memory
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def _of_architecture(self, name):
        return MemoryLearner(
            "mann",
            self._head() or self._default_head,
            task=self._task,
            backbone_config=self._architectures[name],
        )

    def _new_encoder(self):
        # The first rows may show few categories, so take all that a dtype declares.
        return TableEncoder(declared=True, marks=True)

    def _begin(self, n_columns):
        """Start with an empty state; keep a persistent memory if network and settings are equal."""
        learner, n = self.learner_, self.n_estimators
        vars(self).pop("_begun_with", None)
        self._begun_with = self._settings
        self._rotations = None  # vectors are read as they are
        if learner.inputs == "tables":
            self._rotations = np.stack(
                [projection(n_columns, learner.n_inputs, self._generator(0, e)) for e in range(n)]
            )
        reading = self._unread()
        if self.memory == "persistent":
            owner, kept = (weights_digest(learner), self._settings), vars(self).get("_kept")
            if kept == owner and reading.state.memory is not None:
                state = reading.state._replace(memory=self._reading.state.memory)
                reading = reading._replace(state=state)
            self._kept = owner
        else:
            vars(self).pop("_kept", None)
        self._reading = reading

    def _unread(self):
        """Return the Reading of members with empty memories."""
        n = self._settings.n_members
        columns = (0,) if self._rotations is None else self._rotations.shape[1:2]
        size = getattr(self.learner_.head, "n_letters", 1)  # of a label
        return Reading(
            self._module(self.learner_).backbone.empty(n),
            Moments.empty((n, *columns)),
            Moments.empty((n, 1)),
            torch.full((n, 1, size), self.learner_.no_label),
            0,
        )

    def _renewed(self, reading):
        """At the end of a window, append empty memories; from the second on, drop the oldest."""
        n, _, _, window = self._settings
        if window is None or reading.n_rows % window:
            return reading
        if reading.n_rows > window:
            reading = _each(reading, lambda part: part[n:])
        both = _each(reading, _joined, self._on_device(self._unread()))
        return both._replace(n_rows=window)

    @property
    def _settings(self):
        """Settings of the current state; before there is one, those that it would get."""
        begun = vars(self).get("_begun_with")
        is_endless = self.window_size is None or self.memory == "persistent"
        window = None if is_endless else int(self.window_size)  # NumPy's int8 would overflow
        return begun or Settings(self.n_estimators, self._seed_of_fit, self.dtype, window)

    def _orders(self, n_rows):
        """Indices of the rows that each member reads in ``fit``; if shuffled, a window of them."""
        n, window = self._settings.n_members, self._settings.window_size
        if not self.shuffle:
            return np.tile(np.arange(n_rows), (n, 1))
        return np.stack([self._generator(1, e).permutation(n_rows)[:window] for e in range(n)])

    def _torch_dtype(self):
        return getattr(torch, self._settings.dtype)

    @torch.inference_mode()
    def _present(self, X, y, **learned):
        """Show rows, each followed by its label; store the new state once all rows are read.

        Parameters
        ----------
        X : ndarray of shape (E, n_rows, n_columns)
        y : ndarray of shape (E, n_rows, L)
            Labels in the form that ``_shown`` takes.
        **learned
            Other attributes, stored with the new state: an interrupt leaves all of them or none.

        Returns
        -------
        tensor of shape (E, n_rows, O)
            What ``_answered`` returns for each row before its label is shown.
        """
        reading, window = self._on_device(self._reading), self._settings.window_size
        answers, start = [], 0
        while start < X.shape[1]:
            n_rows = window - reading.n_rows % window if window else X.shape[1]
            part = slice(start, start + n_rows)
            answer, reading = self._read_on(reading, X[:, part], y[:, part])
            answers.append(answer)
            reading, start = self._renewed(reading), part.stop
        learned.setdefault("n_samples_seen_", vars(self).get("n_samples_seen_", 0) + X.shape[1])
        vars(self).update(learned, _reading=reading)
        return torch.cat(answers, 1)

    def _read_on(self, reading, X, y):
        """Read rows of one window; return the answers for them, and the new Reading.

        The network reads one row at a time, however many are given: sums over arrays of another
        shape are rounded differently, and a stream in pieces must give exactly the same answers.
        """
        module, n = self._module(self.learner_), len(X)
        X, y = (np.tile(part, (len(reading.previous) // n, 1, 1)) for part in (X, y))
        labels, targets = self._shown(y, reading.targets)
        _, known, before, previous, _ = reading
        state, outputs = reading.state, []
        with self._autocast():
            for t in range(X.shape[1]):
                now = t % MOMENTS_AT_ONCE
                if now == 0:
                    rows = X[:, t : t + MOMENTS_AT_ONCE]
                    if self._rotations is not None:
                        moments = running_moments(rows, known)
                        rows, known = standardised_rows(rows, moments), last(moments)
                x = self._vectors(rows[:, now : now + 1])
                output, state = module.present(x, self._label(previous), state)
                outputs.append(output[:n])
                previous = labels[:, t : t + 1].clone()  # a view would keep all in memory
        answers = self._answered(torch.cat(outputs, 1).double().cpu(), before, targets)
        after = before if targets is None else last(targets)
        return answers, Reading(state, known, after, previous, reading.n_rows + X.shape[1])

    def _shown(self, y, targets):
        """Return labels as the network sees them, and the moments of targets after each row."""
        return torch.from_numpy(y), None

    def _answered(self, outputs, before, after):
        """Convert outputs to answers.

        ``before`` holds the moments of targets before the first row, ``after`` those after each.
        """
        return outputs

    @torch.inference_mode()
    def _ask(self, X):
        """Return answers (E, n_rows, O) for rows, each as if it came next; store nothing."""
        check_is_fitted(self)
        module, n = self._module(self.learner_), self._settings.n_members
        here = self._on_device(_each(self._reading, lambda part: part[:n]))
        previous = self._label(here.previous)
        answers = []
        for chunk in self._chunks(len(X)):
            rows = np.repeat(X[None, chunk, None], n, 0)  # (E, Q, 1, D)
            n_rows = rows.shape[1]
            if self._rotations is not None:
                before = Moments(*(np.repeat(a[:, None], n_rows, 1) for a in here.moments))
                rows = standardised_rows(rows, running_moments(rows, before))
            x = self._vectors(rows[:, :, 0])  # (E, Q, I)
            outputs = []
            # With one member at a time, rows share a view of its state: copies would be large.
            for some in gen_batches(n, 1 if n_rows > n else n):
                parts = previous, here.state
                label, state = (_for_each_row(part, some, n_rows) for part in parts)
                with self._autocast():
                    output, _ = module.present(x[some].flatten(0, 1)[:, None], label, state)
                outputs.append(output.view(-1, n_rows, output.shape[2]))
            answers.append(torch.cat(outputs).double().cpu())
        return torch.cat(answers, 1)

    def _on_device(self, reading):
        """Move a Reading to the network's device; it may have been saved on another."""
        return _of_tensors(reading, lambda tensor: tensor.to(self._device()))

    def _vectors(self, rows):
        """Convert rows (E, n_rows, n_columns) to a tensor of the vectors that the network reads."""
        if self._rotations is not None:
            rows = rows @ np.tile(self._rotations, (len(rows) // len(self._rotations), 1, 1))
        return torch.from_numpy(rows).to(self._device(), self._torch_dtype())

    def _label(self, labels):
        """Move labels to the device, floats also to the network's dtype; words stay integers."""
        dtype = self._torch_dtype() if labels.is_floating_point() else None
        return labels.to(self._device(), dtype)

    def _meta_train(self, *args, **settings):
        super()._meta_train(*args, **settings)
        self._forget()  # one network's state means nothing to another
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_samples_seen_") and hasattr(self, "learner_")

    def __getstate__(self):
        """Move the memory to the CPU, so that it can be loaded without a GPU."""
        state = super().__getstate__()
        if "_reading" in state:
            state["_reading"] = _of_tensors(state["_reading"], torch.Tensor.cpu)
        return state


def _each(reading, function, *others):
    """Apply a function to each array of a Reading and, as further arguments, of ``others``."""
    if isinstance(reading, tuple):
        parts = zip(reading, *others, strict=True)
        return type(reading)(*(_each(part, function, *more) for part, *more in parts))
    return reading if reading is None or isinstance(reading, int) else function(reading, *others)


def _of_tensors(reading, function):
    return _each(reading, lambda part: function(part) if torch.is_tensor(part) else part)


def _joined(first, second):
    """Concatenate arrays or tensors of two groups of members."""
    return (torch.cat if torch.is_tensor(first) else np.concatenate)([first, second])


def _for_each_row(state, members, n_rows):
    """Repeat the state of some members ``n_rows`` times, once for each row that they read."""

    def repeat(tensor):
        repeated = tensor[members, None].expand(-1, n_rows, *tensor.shape[1:])
        return repeated.flatten(0, 1)  # a view, if there is one member

    return _each(state, repeat)
