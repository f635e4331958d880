"""Fit-free semi-supervised classification of tables (paper 000)."""

from numbers import Integral

import numpy as np
import torch
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_array, check_X_y
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import MetaEstimator
from .tasks import TableEncoder, Task, collate, context_task, groups_of_like_size, stack_tables


class MetaSemiSupervisedClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, MetaEstimator
):
    """Classifier that already knows how to learn from few labelled and many unlabelled rows.

    A variable-feature self-attention network, meta-trained over many tables, embeds labelled and
    unlabelled rows of a new table together; classes are told apart by their prototypes in that
    space (Eq. 1-9 of paper 000). ``fit`` takes no gradient step: it stores the context.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of
        a file or folder, a hub id ``"owner/name@revision"`` (see
        :func:`sklearn_meta.weights.load_learner`), or a module. The name of an architecture
        (``"vsa"``) has no weights and needs ``meta_fit`` first.
    head : {"prototypes"}, default=None
        How embeddings become predictions; None is the head the weights were trained with.
    transductive : bool, default=True
        Whether the rows given to ``predict`` act as unlabelled data for each other. If False,
        every row is predicted from the context of ``fit`` alone, so its answer does not depend
        on the rows beside it, the context is encoded once, and time is linear in the rows.
    chunk_size : int, default=1000
        Rows of ``predict`` read at a time at most, which bounds memory. In transductive mode the
        rows of one chunk, and of the context, see each other.
    device : str, default="auto"
        Torch device; "auto" is the GPU if there is one.
    dtype : {"float32", "float64", "bfloat16", "auto"}, default="float32"
        Precision of the forward pass. "auto" is bfloat16 where the device gains from it.
    random_state : int, default=None
        Seed of ``meta_fit``. Prediction has no randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    learner_ : Learner
        The meta-trained backbone and head in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    X_ : ndarray or DataFrame of shape (n_context, n_features)
        The rows given to ``fit``.
    y_ : ndarray of shape (n_context,)
        Their class codes, -1 for unlabelled rows.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if they are strings.

    References
    ----------
    T. Iwata, A. Kumagai. Meta-learning of semi-supervised learning from tasks with heterogeneous
    attribute spaces. 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_meta import MetaSemiSupervisedClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> labelled = [0, 1, 2, 60, 61, 62, 140, 141, 142]
    >>> classifier = MetaSemiSupervisedClassifier().fit(X[labelled], y[labelled])
    >>> bool(classifier.score(X, y) > 0.8)
    True
    """

    _parameter_constraints = {
        "backbone": "no_validation",
        "head": [StrOptions({"prototypes"}), None],
        "transductive": ["boolean"],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "dtype": [StrOptions({"float32", "float64", "bfloat16", "auto"})],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        backbone="default",
        *,
        head=None,
        transductive=True,
        chunk_size=1000,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.head = head
        self.transductive = transductive
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Store labelled and unlabelled rows as the context of predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_context, n_features)
            Rows. NaN and None are missing cells; columns of strings or of dtype category are
            categorical.
        y : array-like of shape (n_context,)
            Class labels, numbers or strings; -1 (or "-1") marks an unlabelled row.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If no row is labelled, there is one class only, no cell is observed, or a cell is
            infinite.
        """
        X, y = self._labelled_table(X, y)
        unlabelled = np.array([label == -1 or label == "-1" for label in y], dtype=bool)
        if unlabelled.all():
            raise ValueError("No row is labelled: y holds nothing but -1. Label some rows.")
        check_classification_targets(y[~unlabelled])
        self.classes_, codes = np.unique(y[~unlabelled], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labelled rows of at least 2 classes; the data "
                f"contains only one class: {self.classes_[0]!r}."
            )
        self.learner_ = self._learner()
        self.X_ = X.copy()
        self.y_ = np.full(len(y), -1)
        self.y_[~unlabelled] = codes
        self.encoder_ = TableEncoder().fit(X)
        encoded = self._encode(self.encoder_, X)
        if np.isnan(encoded).all():
            raise ValueError("Every cell of X is missing: at least one must be observed.")
        self._n_features_out = encoded.shape[1] * self.learner_.backbone.config["last_width"]
        if not self.transductive:
            self._context = self._read_context(encoded)
        return self

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows to predict; in transductive mode they are each other's unlabelled data.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        most_probable = self.predict_proba(X).argmax(axis=1)  # says so if there was no fit
        return self.classes_[most_probable]

    def predict_proba(self, X):
        """Predict the probability of each class (Eq. 9).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            As in ``predict``.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._table(X)
        if not self.transductive:
            return self._probabilities(self._read_rows(X)[1])
        # Categories that only the new rows have are worth a column, too.
        encoder = self.encoder_
        if encoder.categorical_:
            encoder = TableEncoder().fit(stack_tables(self.X_, X))
        return self._probabilities(self._read_together(X, encoder)[1])

    def transform(self, X):
        """Embed rows: the z of section 3.3, in which Eq. (9) measures distances.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_embedding)
            ``n_embedding`` is the number of columns after one-hot encoding times the width of
            the backbone's last block.
        """
        check_is_fitted(self)
        X = self._table(X)
        if self.transductive:
            z, _ = self._read_together(X, self.encoder_)
        else:
            z, _ = self._read_rows(X)
        return z.flatten(1).double().cpu().numpy()

    @property
    def label_distributions_(self):
        """Class probabilities of the rows given to ``fit``, (n_context, n_classes).

        A labelled row has probability one for its label.
        """
        check_is_fitted(self)
        encoded = self._encode(self.encoder_, self.X_)
        proba = self._probabilities(self._forward([self._context_task(encoded)])[1][0])
        labelled = self.y_ >= 0
        proba[labelled] = np.eye(len(self.classes_))[self.y_[labelled]]
        return proba

    @property
    def transduction_(self):
        """Labels of the rows given to ``fit``, their own or predicted, (n_context,)."""
        return self.classes_[self.label_distributions_.argmax(axis=1)]

    def predict_proba_batch(self, tasks):
        """Class probabilities for many small tasks in a few forward passes.

        No ``fit`` is needed and nothing is stored. Tasks are grouped by size and padded, which
        changes no answer.

        Parameters
        ----------
        tasks : iterable of (X_labelled, y_labelled, X_unlabelled)
            One triple of array-likes a task; columns and classes may differ between tasks.

        Returns
        -------
        list of ndarray of shape (n_unlabelled, n_classes)
            Columns in the sorted order of the task's labels.

        Raises
        ------
        ValueError
            If a task is malformed: says which.
        """
        return [proba for _, proba in self._predict_tasks(tasks)]

    def predict_batch(self, tasks):
        """Labels for many small tasks in a few forward passes.

        Parameters
        ----------
        tasks : as in ``predict_proba_batch``

        Returns
        -------
        list of ndarray of shape (n_unlabelled,)
        """
        return [classes[proba.argmax(1)] for classes, proba in self._predict_tasks(tasks)]

    def __getstate__(self):
        """Without the encoded context: it is larger than the rows and made from them."""
        state = super().__getstate__()
        state.pop("_context", None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "X_") and not self.transductive:
            self._context = self._read_context(self._encode(self.encoder_, self.X_))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "classes_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _labelled_table(self, X, y):
        """Validate what ``fit`` is given in scikit-learn's words; DataFrames stay as they are."""
        if not hasattr(X, "iloc"):
            return validate_data(self, X, y, dtype=None, ensure_all_finite=False)
        validate_data(self, X, y, skip_check_array=True)
        return X, check_X_y(np.zeros(X.shape), y, estimator=self)[1]

    def _table(self, X):
        """Validate rows of the same columns as in ``fit``."""
        if not hasattr(X, "iloc"):
            return validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False)
        validate_data(self, X, reset=False, skip_check_array=True)
        check_array(np.zeros(X.shape), estimator=self)
        return X

    @staticmethod
    def _encode(encoder, X):
        encoded = encoder.transform(X)
        if np.isinf(encoded).any():
            raise ValueError("Input X contains infinity or a value too large for float64.")
        return encoded

    def _context_task(self, encoded):
        return context_task(encoded, self.y_, len(self.classes_))

    def _inputs(self, tasks):
        inputs, _ = collate(tasks, torch.float64)
        return {name: tensor.to(self._device()) for name, tensor in inputs.items()}

    @torch.inference_mode()
    def _forward(self, tasks):
        """Embeddings (B, N, M, H) and logits (B, N, C) of a padded batch of tasks."""
        with self._autocast():
            return self._module(self._learner()).embed_and_predict(**self._inputs(tasks))

    def _read_together(self, X, encoder):
        """Transductive mode: the rows of a chunk and the context read each other."""
        context = self._encode(encoder, self.X_)
        rows = self._encode(encoder, X)
        results = []
        for start in range(0, len(rows), self.chunk_size):
            chunk = rows[start : start + self.chunk_size]
            y = np.concatenate([self.y_, np.full(len(chunk), -1)])
            task = context_task(np.vstack([context, chunk]), y, len(self.classes_))
            results.append([result[0, len(context) :] for result in self._forward([task])])
        return [torch.cat(parts) for parts in zip(*results, strict=True)]

    @torch.inference_mode()
    def _read_context(self, encoded):
        """Inductive mode: what rows to come need of the context."""
        inputs = self._inputs([self._context_task(encoded)])
        masks = {name: inputs[name] for name in ("columns", "classes")}
        with self._autocast():
            state = self._module(self._learner()).encode(inputs["x"], inputs["y"], **masks)
        return state, masks

    @torch.inference_mode()
    def _read_rows(self, X):
        """Inductive mode: each row from the encoded context alone, in chunks."""
        learner = self._module(self._learner())
        state, masks = self._context
        rows = torch.from_numpy(self._encode(self.encoder_, X)).to(self._device())
        results = []
        for chunk in rows.split(self.chunk_size):
            with self._autocast():
                z, logits = learner.continue_from(state, chunk[None], **masks)
            results.append([z[0], logits[0]])
        return [torch.cat(parts) for parts in zip(*results, strict=True)]

    @staticmethod
    def _probabilities(logits):
        return logits.double().softmax(-1).cpu().numpy()

    def _predict_tasks(self, tasks):
        self._validate_params()
        classes, prepared = [], []
        for position, triple in enumerate(tasks):
            try:
                labels, task = self._small_task(*triple)
            except (TypeError, ValueError) as error:
                raise ValueError(f"Task {position}: {error}") from error
            classes.append(labels)
            prepared.append(task)
        answers = [None] * len(prepared)
        # A CPU is fastest on what its cache holds, a GPU on what fills it.
        for group in groups_of_like_size(prepared, 8e3 if self._device() == "cpu" else 2e5):
            _, logits = self._forward([prepared[i] for i in group])
            for i, one in zip(group, logits, strict=True):
                task = prepared[i]
                rows = one[task.labelled.sum() : len(task.y), : task.n_classes]
                answers[i] = classes[i], self._probabilities(rows)
        return answers

    def _small_task(self, X_labelled, y_labelled, X_unlabelled):
        X = stack_tables(X_labelled, X_unlabelled)
        X = self._encode(TableEncoder().fit(X), X)
        labels, codes = np.unique(np.asarray(y_labelled), return_inverse=True)
        if len(labels) < 2:
            raise ValueError(f"at least 2 classes are needed, got {len(labels)}.")
        if len(codes) != len(X_labelled):
            raise ValueError(f"{len(X_labelled)} labelled rows, but {len(codes)} labels.")
        y = np.full(len(X), -1)
        y[: len(codes)] = codes
        context = np.ones(len(X), dtype=bool) if self.transductive else y >= 0
        return labels, Task(X, y, y >= 0, context, len(labels))
