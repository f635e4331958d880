"""What the estimators that read rows one after another share (paper 002)."""

from typing import NamedTuple

import numpy as np
import torch
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions
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


class OnlineEstimator(RowEstimator):
    """Base class of the estimators whose task is a sequence of rows.

    Every member of an ensemble reads the rows in an order of its own and sees its own rotation of
    the columns; E below counts them. Subclasses say what labels are to the network.
    """

    _architectures = ARCHITECTURES
    _learner_class = MemoryLearner
    _parameter_constraints = {
        **RowEstimator._parameter_constraints,
        "shuffle": ["boolean"],
        "memory": [StrOptions({"wipe", "persistent"})],
    }

    def __init__(
        self,
        backbone="default",
        *,
        n_estimators=8,
        shuffle=True,
        memory="wipe",
        chunk_size=256,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.n_estimators = n_estimators
        self.shuffle = shuffle
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
        state = self._module(learner).backbone.empty(n)
        if self.memory == "persistent":
            owner, kept = (weights_digest(learner), self._settings), vars(self).get("_kept")
            if kept == owner and state.memory is not None:
                state = state._replace(memory=self._state.memory)
            self._kept = owner
        else:
            vars(self).pop("_kept", None)
        self._state = state
        self._rotations = self._moments = None  # vectors are read as they are
        if learner.inputs == "tables":
            self._moments = Moments.empty((n, n_columns))
            self._rotations = np.stack(
                [projection(n_columns, learner.n_inputs, self._seed(0, e)) for e in range(n)]
            )
        self._previous = torch.full((n, 1, self._label_size), learner.no_label)

    @property
    def _settings(self):
        """Of the state there is, or of the one to come."""
        begun = vars(self).get("_begun_with")
        return begun or Settings(self.n_estimators, self._seed_of_fit, self.dtype)

    @property
    def _label_size(self):
        return getattr(self.learner_.head, "n_letters", 1)

    def _orders(self, n_rows):
        """Order in which each member reads the rows given to ``fit``, (E, n_rows)."""
        n = self._settings.n_members
        if not self.shuffle:
            return np.tile(np.arange(n_rows), (n, 1))
        return np.stack([self._seed(1, e).permutation(n_rows) for e in range(n)])

    def _torch_dtype(self):
        return getattr(torch, self._settings.dtype)

    @torch.inference_mode()
    def _present(self, X, labels, **learned):
        """Read rows and, after each, its label; the state goes on, once all of them are read.

        Rows go through the network one by one, whatever comes at a time: sums of another shape
        are rounded in another way, and a stream in pieces is to give the very same answers.

        Parameters
        ----------
        X : ndarray of shape (E, n_rows, n_columns)
        labels : tensor of shape (E, n_rows, L)
        **learned
            Other attributes, stored with the state: an interrupt leaves all of it or nothing.

        Returns
        -------
        tensor of shape (E, n_rows, O)
            What was answered for each row before its label was shown.
        """
        module = self._module(self.learner_)
        state, known, previous = self._state_here(), self._moments, self._previous
        outputs = []
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
                outputs.append(output)
                previous = labels[:, t : t + 1].clone()  # a view would keep all labels
        n_seen = vars(self).get("n_samples_seen_", 0) + X.shape[1]
        learned |= {"_state": state, "_moments": known, "_previous": previous}
        vars(self).update(learned, n_samples_seen_=n_seen)
        return torch.cat(outputs, 1).double().cpu()

    @torch.inference_mode()
    def _ask(self, X):
        """Answers for rows, each as if it came next, (E, n_rows, O); the state stays as it is."""
        check_is_fitted(self)
        module, n = self._module(self.learner_), self._settings.n_members
        here, previous = self._state_here(), self._label(self._previous)
        answers = []
        for chunk in self._chunks(len(X)):
            rows = np.repeat(X[None, chunk, None], n, 0)  # (E, Q, 1, D)
            n_rows = rows.shape[1]
            if self._rotations is not None:
                before = Moments(*(np.repeat(a[:, None], n_rows, 1) for a in self._moments))
                rows = standardised_rows(rows, running_moments(rows, before))
            x = self._vectors(rows[:, :, 0])  # (E, Q, I)
            outputs = []
            # Of one member its rows read views of the state, and memories are large.
            for some in gen_batches(n, 1 if n_rows > n else n):
                label, state = (_for_each_row(part, some, n_rows) for part in (previous, here))
                with self._autocast():
                    output, _ = module.present(x[some].flatten(0, 1)[:, None], label, state)
                outputs.append(output.view(-1, n_rows, output.shape[2]))
            answers.append(torch.cat(outputs).double().cpu())
        return torch.cat(answers, 1)

    def _state_here(self):
        """The state on the device of the network: it may have been saved on another."""
        return _each(self._state, lambda tensor: tensor.to(self._device()))

    def _vectors(self, rows):
        """What the network reads of rows (E, n_rows, n_columns), a tensor."""
        if self._rotations is not None:
            rows = rows @ self._rotations
        return torch.from_numpy(rows).to(self._device(), self._torch_dtype())

    def _label(self, labels):
        """Labels as the network is shown them: words stay whole numbers."""
        dtype = self._torch_dtype() if labels.is_floating_point() else None
        return labels.to(self._device(), dtype)

    def _meta_train(self, *args, **settings):
        unknown = {"n_shots", "n_unlabelled"} & settings.keys()
        if unknown:
            raise ValueError(
                f"{type(self).__name__} is meta-trained on sequences, which have no "
                f"{' and '.join(sorted(unknown))}: see the parameters of its meta_fit."
            )
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
        if "_state" in state:
            state["_state"] = _each(state["_state"], torch.Tensor.cpu)
        return state


def _each(state, function):
    """A state with a function of each of its tensors in their places."""
    if state is None or isinstance(state, torch.Tensor):
        return state if state is None else function(state)
    return type(state)(*(_each(part, function) for part in state))


def _for_each_row(state, members, n_rows):
    """The state of some members, once for each of the rows that each of them reads."""

    def repeat(tensor):
        repeated = tensor[members, None].expand(-1, n_rows, *tensor.shape[1:])
        return repeated.flatten(0, 1)  # of one member a view

    return _each(state, repeat)
