"""Classification of rows that come one after another: MANNClassifier (paper 002)."""

import numpy as np
import torch
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..cells import check_classes
from ..heads import HEADS
from ..learner import as_text
from ..tasks import ClassSequences, Curriculum, ProjectedColumns, Vectors, draw_words
from ..tasks.episodes import counts_of
from .base import OnlineEstimator
from .labels import check_one_kind, declared_classes, in_type_of, more_labels


class MANNClassifier(ClassifierMixin, OnlineEstimator):
    """Classifier that learns from rows that arrive one at a time, without a gradient step.

    The network has an external memory. It was meta-trained to read rows one after another, each
    with the label of the row before, and to store them in its memory. ``partial_fit`` shows it more
    rows. Only the state of the memory is kept, so time and memory do not grow with the number of
    rows seen. ``fit`` starts afresh.

    What is learned depends on the order of the rows, as in any learner that reads them only once,
    and a little on the order of the columns. Predictions do not depend on each other.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of a
        file or folder, a hub id (see :func:`sklearn_meta.weights.load_learner`), or a
        :class:`sklearn_meta.memory_learner.MemoryLearner`. "default" reads tables with any columns;
        ``"omniglot_mann"`` and ``"omniglot_mann_string"`` read drawings of 20 x 20 pixels, where
        ink is 1. The architectures ``"mann"``, ``"mann_ntm"``, ``"mann_feedforward"``, ``"lstm"``
        and ``"feedforward"`` come without weights and require ``meta_fit`` first.
    label_encoding : {"onehot", "string"}, default=None
        How labels are shown to the network: as one output per class, 10 in the default weights, or
        as strings of five letters out of five, of which there are 3,125, so that the number of
        classes is open. If None, what the weights were trained with; "onehot" for "default".
    n_estimators : int, default=8
        Number of ensemble members, whose probabilities are averaged. Each binds classes to labels
        and rotates the columns in its own way, and in ``fit`` reads the rows in another order.
    shuffle : bool, default=True
        Whether ``fit`` presents the rows in random orders. If False, and always in ``partial_fit``,
        they are presented in the given order.
    window_size : int, default=125
        Predictions use the last ``window_size`` rows of a stream, or up to twice as many: an empty
        memory starts every ``window_size`` rows, and replaces the old one that many rows later. If
        shuffling, ``fit`` shows each member that many rows at random. None, or a persistent memory:
        all rows.
    memory : {"wipe", "persistent"}, default="wipe"
        If "wipe", ``fit`` empties the external memory. If "persistent", it keeps what an earlier
        persistent ``fit`` with the same network, dtype, members and ``random_state`` (int or None)
        wrote, which interferes (section 4.2.1 of paper 002).
    chunk_size : int, default=256
        Maximum number of rows predicted at a time; bounds memory and changes no prediction.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the forward pass.
    random_state : int, RandomState instance or None, default=None
        Seed of orders, bindings, rotations and ``meta_fit``; None means 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels that were shown or declared, sorted.
    n_samples_seen_ : int
        Number of rows given to ``fit`` and ``partial_fit``.
    encoder_ : TableEncoder
        Converts the columns of tables to numbers, with the types found in the first rows; absent if
        the weights read rows as they are.
    learner_ : MemoryLearner
        The meta-trained network in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these columns, if all are strings.

    References
    ----------
    A. Santoro, S. Bartunov, M. Botvinick, D. Wierstra, T. Lillicrap. One-shot Learning with
    Memory-Augmented Neural Networks. ICML 2016 (paper 002).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.utils import shuffle
    >>> from sklearn_meta import MANNClassifier
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> classifier = MANNClassifier().partial_fit(X[:20], y[:20])
    >>> bool(classifier.partial_fit(X[20:40], y[20:40]).score(X[40:], y[40:]) > 0.5)
    True
    """

    _task = "online_classification"
    _default_head = "onehot"
    _head_parameter = "label_encoding"
    _parameter_constraints = {
        **OnlineEstimator._parameter_constraints,
        "label_encoding": [StrOptions(set(HEADS["online_classification"])), None],
    }

    def __init__(
        self,
        backbone="default",
        *,
        label_encoding=None,
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
        self.label_encoding = label_encoding
        self.n_estimators = n_estimators
        self.shuffle = shuffle
        self.window_size = window_size
        self.memory = memory
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @property
    def _default_weights(self):
        return "default_mann_string" if self.label_encoding == "string" else "default_mann"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Start afresh and present the rows; with ``shuffle``, a random window to each member.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            NaN and None are missing cells. Columns of dtype category are categorical, and so are
            columns of text, unless all of it is numbers. Categories are those that the dtype
            declares or these rows have. Weights for vectors read numbers only.
        y : array-like of shape (n_rows,)
            Class labels, numbers or strings; -1 is a class like any other.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If there are more classes than the network has labels for; labels are missing, are
            fractions or of several kinds; rows do not have the length it reads; a cell is infinite;
            the input is malformed or sparse; or a parameter or the weights cannot be used.
        NotFittedError, OSError
            If ``backbone`` names an architecture without weights, or the weights cannot be fetched.
        """
        X, y = self._rows_and_labels(X, y, reset=True)
        slots, labels = self._with_labels(y, {}, ())
        self._begin(X.shape[1])
        orders = self._orders(len(y))
        words = self._words_of(slots[orders]).numpy()
        self._present(X[orders], words, n_samples_seen_=len(y), **labels)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None):
        """Present more rows, in the given order.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            As in ``fit``. Categories not seen in the first call are missing cells, with a warning.
        y : array-like of shape (n_rows,)
        classes : array-like of shape (n_classes,), default=None
            Labels that may occur. They need not be declared: others may occur as well.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            As in ``fit``; or if the columns, or the kind of labels, differ from those before.
        """
        self._go_on(X, y, classes)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def predict_online(self, X, y):
        """Predict each row, then learn from it as ``partial_fit`` does.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels of the rows, each shown after its row is predicted. Which labels occur is known
            from the start.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions; their accuracy is the prequential accuracy of stream learning.

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            As in ``partial_fit``.
        """
        n_known = len(self._slots) if self.__sklearn_is_fitted__() else 0
        outputs, slots = self._go_on(X, y, y)
        n_come = np.maximum.accumulate([n_known, *slots[:-1] + 1])  # labels seen before each row
        return self.classes_[self._probabilities(outputs, n_come).argmax(1)]

    def predict_proba(self, X):
        """Predict class probabilities, for each row as if it came next.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        NotFittedError
            If neither ``fit`` nor ``partial_fit`` was called.
        ValueError, TypeError
            If X has other columns than in ``fit`` or an infinite cell, or is sparse.
        """
        check_is_fitted(self)
        outputs = self._ask(self._asked_rows(X))
        return self._probabilities(outputs, np.full(outputs.shape[1], len(self._slots)))

    def predict(self, X):
        """Predict the class of each row; nothing is learned from it.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict_proba``.
        """
        most_probable = self.predict_proba(X).argmax(1)  # raises if there was no fit
        return self.classes_[most_probable]

    def meta_fit(
        self,
        datasets,
        *,
        vectors=None,
        n_classes=(2, 10),
        n_shots=(10,),
        curriculum=None,
        optimizer="adamw",
        validation_datasets=None,
        max_steps=20_000,
        batch_size=16,
        learning_rate=1e-3,
        **settings,
    ):
        """Meta-train the network over many sequences (section 2 of paper 002).

        What an earlier ``fit`` or ``partial_fit`` learned is forgotten: the state of one network
        means nothing to another.

        Parameters
        ----------
        datasets : mapping, iterable or source
            As in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`; for example
            :class:`sklearn_meta.tasks.TablePrior`, or :class:`sklearn_meta.tasks.Omniglot` with
            ``vectors=Drawings()`` and a ``MemoryLearner(inputs="pixels", n_inputs=400)``. A network
            of tables reads pairs ``(X, y)`` as tables, others as rows of finite numbers, used as
            they are.
        vectors : callable, default=None
            Function that turns rows into the vectors that the network reads:
            :class:`sklearn_meta.tasks.Drawings`, which also augments them, or a callable that takes
            some rows, their class codes and a random generator. If None,
            :class:`sklearn_meta.tasks.ProjectedColumns` for a network of tables; other networks
            read the rows as they are.
        n_classes : int or (int, int), default=(2, 10)
            Range of the number of classes in a sequence; at most that of the labels.
        n_shots : int or sequence of int, default=(10,)
            Rows per class, on average; drawn from these for each sequence.
        curriculum : int, default=None
            Number of sequences after which the largest number of classes grows by one (10,000 in
            the paper). If None, it stays the same.
        optimizer : {"adagrad", "adamw", "muon", "rmsprop"}, default="adamw"
            "rmsprop" is the paper's, with ``learning_rate=1e-4``.
        batch_size : int, default=16
            Sequences per step.
        validation_datasets, max_steps, learning_rate, **settings
            As there, with the same defaults, except for ``n_unlabelled``, which is not accepted.
            ``schedule`` is accepted: "cosine" (default), "noam" or "constant".

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, OSError
            As there; or if ``n_unlabelled`` is given, a setting unknown, or ``vectors`` unfit.
        """
        self._validate_params()
        learner = self._starting_learner(0)  # same shape as the one to train
        read = self._reader(learner, vectors)
        own = ProjectedColumns if learner.inputs == "tables" else Vectors
        vectors = vectors or own(learner.n_inputs)
        shots = counts_of(n_shots, "n_shots")
        sampler = ClassSequences(learner.head, vectors, n_classes=n_classes, n_instances=shots)
        return self._meta_train(
            datasets,
            sampler if curriculum is None else Curriculum(sampler, curriculum),
            validation_datasets,
            read,
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            n_groups=1,
            **settings,
        )

    def _go_on(self, X, y, classes):
        """Present rows in the given order; return answers (E, n_rows, O) and slots of labels."""
        reset = not self.__sklearn_is_fitted__()
        X, y = self._rows_and_labels(X, y, reset=reset)
        known, declared = {}, []
        if not reset:
            known, declared, y = self._slots, [self.classes_], in_type_of(y, self.classes_)
        if classes is not None:
            declared.append(in_type_of(declared_classes(classes), y))
        slots, labels = self._with_labels(y, known, declared)
        if reset:
            self._begin(X.shape[1])
        n = self._settings.n_members
        words = self._words_of(np.tile(slots, (n, 1))).numpy()
        return self._present(np.repeat(X[None], n, 0), words, **labels), slots

    def _with_labels(self, y, known, declared):
        """Give new labels the next slots; return each row's slot, and a dict of new attributes."""
        named = [label for labels in (*declared, y) for label in labels.tolist()]
        if len({isinstance(label, str) for label in named}) > 1:
            raise ValueError(
                "Labels are strings and numbers: those of one stream must be of one kind."
            )
        check_classes(y)
        check_one_kind(*declared, y)
        labels, first, codes = np.unique(y, return_index=True, return_inverse=True)
        slots = dict(known)
        for label in labels[first.argsort()].tolist():
            slots.setdefault(label, len(slots))
        classes = np.unique(np.concatenate([part for part in (*declared, y) if len(part)]))
        if len(classes) > self.learner_.head.n_words:
            raise ValueError(
                f"There are {len(classes)} classes, but backbone={as_text(self.backbone)} has "
                f"labels for only {self.learner_.head.n_words}{more_labels(self)}."
            )
        of_rows = np.array([slots[label] for label in labels.tolist()])[codes]
        return of_rows, {"_slots": slots, "classes_": classes}

    def _words_of(self, slots):
        """Words (E, ..., L) of the classes in slots (E, ...); each member has its own binding."""
        head = self.learner_.head
        n = int(slots.max()) + 1
        words = [draw_words(head, n, self._generator(2, e))[of] for e, of in enumerate(slots)]
        return torch.from_numpy(np.stack(words))

    @torch.inference_mode()
    def _probabilities(self, outputs, n_come):
        """Class probabilities (n_rows, n_classes) of outputs (E, n_rows, O), members averaged."""
        # ``n_come`` labels came before each row; the others get the next slots, in sorted order.
        come = np.array([self._slots.get(label, np.inf) for label in self.classes_.tolist()])
        come = np.where(come < n_come[:, None], come, np.inf)
        slots = come.argsort(1, kind="stable").argsort(1)
        parts = []
        for rows in self._chunks(len(slots)):  # bounds memory: many classes have many words
            words = self._words_of(np.tile(slots[rows], (len(outputs), 1, 1)))
            told = self.learner_.head.log_probabilities(outputs[:, rows], words)
            parts.append(told.exp().mean(0).numpy())
        return np.concatenate(parts)
