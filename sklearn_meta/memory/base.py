"""What the estimators that read rows one after another share (paper 002)."""

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

#: Rows whose running moments are made at once, which bounds memory.
MOMENTS_AT_ONCE = 256


class Settings(NamedTuple):
    """What a state was begun with: parameters that are set later count from the next ``fit`` on."""

    n_members: int
    seed: int
    dtype: str
    window_size: int | None


class Reading(NamedTuple):
    """What has been read of a stream.

    Of E members come first the memories that answer, and behind a window of rows as many younger
    ones, which will take their place.

    Parameters
    ----------
    state : State
        Of the network, for each of them.
    moments, targets : Moments
        Of columns and of targets.
    previous : tensor of shape (E or 2 E, 1, L)
        The label that was shown last.
    n_rows : int
        That those which answer have read.
    """

    state: tuple
    moments: Moments
    targets: Moments
    previous: torch.Tensor
    n_rows: int


class OnlineEstimator(RowEstimator):
    """Base class of the estimators whose task is a sequence of rows.

    Every member of an ensemble reads the rows in an order of its own and sees its own rotation of
    the columns; E below counts them. Subclasses say what labels are to the network.
    """

    _architectures = ARCHITECTURES
    _learner_class = MemoryLearner
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
        # Of a stream the first rows may show few categories.
        return TableEncoder(declared=True, marks=True)

    def _begin(self, n_columns):
        """An empty state, but for a persistent memory that is of the same network and members."""
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
        """Of members whose memories are empty."""
        n = self._settings.n_members
        columns = (0,) if self._rotations is None else self._rotations.shape[1:2]
        return Reading(
            self._module(self.learner_).backbone.empty(n),
            Moments.empty((n, *columns)),
            Moments.empty((n, 1)),
            torch.full((n, 1, self._label_size), self.learner_.no_label),
            0,
        )

    def _renewed(self, reading):
        """With empty memories behind those that answer, which have read one window, or two."""
        n, _, _, window = self._settings
        if window is None or reading.n_rows % window:
            return reading
        if reading.n_rows > window:
            reading = _each(reading, lambda part: part[n:])
        both = _each(reading, _joined, self._on_device(self._unread()))
        return both._replace(n_rows=window)

    @property
    def _settings(self):
        """Of the state there is, or of the one to come."""
        begun = vars(self).get("_begun_with")
        is_endless = self.window_size is None or self.memory == "persistent"
        window = None if is_endless else int(self.window_size)  # numpy's may be of eight bits
        return begun or Settings(self.n_estimators, self._seed_of_fit, self.dtype, window)

    @property
    def _label_size(self):
        return getattr(self.learner_.head, "n_letters", 1)

    def _orders(self, n_rows):
        """Which rows of ``fit`` each member reads, in its order: if shuffled, a window of them."""
        n, window = self._settings.n_members, self._settings.window_size
        if not self.shuffle:
            return np.tile(np.arange(n_rows), (n, 1))
        return np.stack([self._generator(1, e).permutation(n_rows)[:window] for e in range(n)])

    def _torch_dtype(self):
        return getattr(torch, self._settings.dtype)

    @torch.inference_mode()
    def _present(self, X, y, **learned):
        """Read rows and, after each, its label; what was read goes on, once all of them are.

        Parameters
        ----------
        X : ndarray of shape (E, n_rows, n_columns)
        y : ndarray of shape (E, n_rows, L)
            Labels, as ``_shown`` takes them.
        **learned
            Other attributes, stored with what was read: an interrupt leaves all of it or nothing.

        Returns
        -------
        tensor of shape (E, n_rows, O)
            What was answered for each row before its label was shown, as ``_answered`` gives it.
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
        """Read rows among which no window ends: answers for them, and what was read by then.

        Rows go through the network one by one, whatever comes at a time: sums of another shape
        are rounded in another way, and a stream in pieces is to give the very same answers.
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
                previous = labels[:, t : t + 1].clone()  # a view would keep all labels
        answers = self._answered(torch.cat(outputs, 1).double().cpu(), before, targets)
        after = before if targets is None else last(targets)
        return answers, Reading(state, known, after, previous, reading.n_rows + X.shape[1])

    def _shown(self, y, targets):
        """Labels as the network is shown them, a tensor, and the moments of targets after each."""
        return torch.from_numpy(y), None

    def _answered(self, outputs, before, after):
        """Answers for some rows: outputs, and the moments of targets before and after each."""
        return outputs

    @torch.inference_mode()
    def _ask(self, X):
        """Answers for rows, each as if it came next, (E, n_rows, O); nothing is kept of them."""
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
            # Of one member its rows read views of the state, and memories are large.
            for some in gen_batches(n, 1 if n_rows > n else n):
                parts = previous, here.state
                label, state = (_for_each_row(part, some, n_rows) for part in parts)
                with self._autocast():
                    output, _ = module.present(x[some].flatten(0, 1)[:, None], label, state)
                outputs.append(output.view(-1, n_rows, output.shape[2]))
            answers.append(torch.cat(outputs).double().cpu())
        return torch.cat(answers, 1)

    def _on_device(self, reading):
        """On that of the network: it may have been saved on another."""
        return _of_tensors(reading, lambda tensor: tensor.to(self._device()))

    def _vectors(self, rows):
        """What the network reads of rows (E, n_rows, n_columns), a tensor."""
        if self._rotations is not None:
            rows = rows @ np.tile(self._rotations, (len(rows) // len(self._rotations), 1, 1))
        return torch.from_numpy(rows).to(self._device(), self._torch_dtype())

    def _label(self, labels):
        """Labels as the network is shown them: words stay whole numbers."""
        dtype = self._torch_dtype() if labels.is_floating_point() else None
        return labels.to(self._device(), dtype)

    def _meta_train(self, *args, **settings):
        super()._meta_train(*args, **settings)
        self._forget()  # the state of a network is nothing to another
        return self

    def _forget(self):
        """Be as before ``fit``; a persistent memory stays."""
        vars(self).pop("n_samples_seen_", None)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_samples_seen_") and hasattr(self, "learner_")

    def __getstate__(self):
        """With the memory on the CPU, so that it can be loaded where there is no GPU."""
        state = super().__getstate__()
        if "_reading" in state:
            state["_reading"] = _of_tensors(state["_reading"], torch.Tensor.cpu)
        return state


def _each(reading, function, *others):
    """What was read, or others beside it, with a function of each of its arrays in their places."""
    if isinstance(reading, tuple):
        parts = zip(reading, *others, strict=True)
        return type(reading)(*(_each(part, function, *more) for part, *more in parts))
    return reading if reading is None or isinstance(reading, int) else function(reading, *others)


def _of_tensors(reading, function):
    return _each(reading, lambda part: function(part) if torch.is_tensor(part) else part)


def _joined(first, second):
    """Arrays, or tensors, of some members and of others."""
    return (torch.cat if torch.is_tensor(first) else np.concatenate)([first, second])


def _for_each_row(state, members, n_rows):
    """The state of some members, once for each of the rows that each of them reads."""

    def repeat(tensor):
        repeated = tensor[members, None].expand(-1, n_rows, *tensor.shape[1:])
        return repeated.flatten(0, 1)  # of one member a view

    return _each(state, repeat)
