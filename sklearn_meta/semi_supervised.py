"""Fit-free semi-supervised classification of tables (paper 000)."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .cells import are_unlabelled, check_classes, warn_of_unlabelled
from .class_labels import as_labels, check_two_classes, class_codes
from .heads import HEADS
from .table_validation import encode, table_with_labels
from .tables import OUTPUTS, TableEstimator
from .tasks import EpisodeSampler, context_task

#: Maximum number of rows of ``predict`` read together, and number per class, as in meta-training.
MOST_TOGETHER, OF_EACH_CLASS = 1000, 20


class MetaSemiSupervisedClassifier(ClassifierMixin, TableEstimator):
    """Meta-trained classifier of tables with few labelled and many unlabelled rows.

    A variable-feature self-attention network, meta-trained over many tables, embeds labelled and
    unlabelled rows of a new table together. Classes are told apart by their prototypes in the
    embedding space (Eq. 1-9 of paper 000). The default weights embed the rows twice: beside the
    prototypes there is a Gaussian process, which gets more weight the more labelled rows a class
    has. ``fit`` takes no gradient step: it stores the rows as the context of predictions.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, such as
        "prototypes", which takes half the time, or "meta_lp", for 20 classes or more; the path of a
        file or folder; a hub id ``"owner/name@revision"`` (see
        :func:`sklearn_meta.weights.load_learner`); or a module. A path or hub id is read only once
        per estimator, by its first ``fit``. The name of an architecture in
        ``sklearn_meta.backbones.BACKBONES`` (``"vsa"``, ``"vsa_pair"``, ``"deep_sets"``,
        ``"exchangeable"``, ``"hml"``, ``"att_hml"``, ``"maml"``) comes without weights and requires
        ``meta_fit`` first.
    head : {"prototypes", "prototypes_gp", "label_propagation", "linear"}, default=None
        Method that turns embeddings into predictions. If None, the head that the weights were
        trained with, or ``"prototypes"`` for an architecture without weights. Any other head
        requires an architecture as ``backbone``, and ``meta_fit``.
    transductive : bool, default=True
        Whether the rows given to ``predict`` act as unlabelled data for each other. If False, each
        row is predicted from the context of ``fit`` alone: its prediction does not depend on the
        rows beside it, the context is encoded only once, and time is linear in the number of rows.
    chunk_size : int, default=None
        Maximum number of rows of ``predict`` read at a time. In transductive mode the rows of a
        chunk see each other and the context, which is read again with every chunk. If None, the
        maximum is 20 rows per class, as in meta-training, or half the number of labelled rows if
        that is more, but never more than 1,000: with more unlabelled rows, predictions get worse.
        With ``transductive=False``, None means 1,000. Of the unlabelled rows of ``fit``, no more
        are read than None gives in transductive mode, whatever the mode and ``chunk_size``; they
        are drawn at random, and which are drawn does not depend on their order.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64", "bfloat16", "auto"}, default="float32"
        Precision of the forward pass. "auto" is bfloat16 on devices that benefit from it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``meta_fit``. Prediction involves no randomness.

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
        Class codes of these rows; -1 for unlabelled rows.
    label_distributions_ : ndarray of shape (n_context, n_classes)
        Class probabilities of these rows. They are computed when this attribute or
        ``transduction_`` is first accessed, which takes seconds for thousands of rows; unlabelled
        rows are read like rows of ``predict``.
    transduction_ : ndarray of shape (n_context,)
        Labels of these rows: given for labelled rows, predicted for the others.
    encoder_ : TableEncoder
        Converts the columns of tables to numbers, with the types found in ``fit``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these columns, if all are strings.

    Notes
    -----
    For partial dependence, decision boundaries or any other artificial rows, set
    ``transductive=False``; otherwise they are read as unlabelled data and change the predictions.

    All labelled rows of ``fit`` are read at once, whatever ``chunk_size`` is. Memory is quadratic
    in their number and time cubic: 1.7 GiB and 34 s for 4,000 rows of ten columns. If you have
    more, fit on a sample.

    To cross-validate when some labels are -1, use
    :class:`sklearn_meta.model_selection.SemiSupervisedSplit`. Other splitters also put unlabelled
    rows into test sets, where every prediction for them counts as wrong. Give scikit-learn's
    voting, stacking, bagging, one-vs-rest and calibration the labelled rows alone: they count the
    labels before an estimator sees them, and treat -1 as a class.

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

    _task = "classification"
    _default_head = "prototypes"
    _sampler = EpisodeSampler
    _made_of_context = (*TableEstimator._made_of_context, "_distributions")
    _fitted = ("X_", *_made_of_context)
    _parameter_constraints = {
        **TableEstimator._parameter_constraints,
        "head": [StrOptions(set(HEADS["classification"])), None],
        "chunk_size": [*TableEstimator._parameter_constraints["chunk_size"], None],
    }

    def __init__(
        self,
        backbone="default",
        *,
        head=None,
        transductive=True,
        chunk_size=None,
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
            Rows. NaN and None are missing cells. Columns of dtype category are categorical, and so
            are columns of text, unless all of it is numbers.
        y : array-like of shape (n_context,)
            Class labels, numbers or strings; -1 (or "-1") marks an unlabelled row.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If no row is labelled; there is only one class; labels are missing, are fractions, or
            mix text and numbers; no cell is observed; a cell is infinite; the input is malformed or
            sparse; or a parameter or the weights cannot be used.
        NotFittedError, OSError
            If ``backbone`` names an architecture without weights, or the weights cannot be fetched.

        Warns
        -----
        UserWarning
            If more than 5,000 rows are to be read together, of which at most 1,000 unlabelled.
        """
        self._forget()
        X, y = table_with_labels(self, X, as_labels(y))
        unlabelled = are_unlabelled(y)
        if unlabelled.all():
            raise ValueError("No row is labelled: y holds nothing but -1. Label some rows.")
        check_classes(y[~unlabelled])
        self.classes_, self.y_ = class_codes(y, unlabelled)
        marked = " Rows whose label is -1 count as unlabelled: if it is a class, rename it."
        check_two_classes(self, self.classes_, hint=marked if unlabelled.any() else "")
        self._warn_of_many_rows()
        self._store_context(X)
        return self

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows to predict. In transductive mode they act as unlabelled data for each other.

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict_proba``.
        """
        most_probable = self.predict_proba(X).argmax(axis=1)  # raises NotFittedError before fit
        return self.classes_[most_probable]

    def predict_proba(self, X):
        """Predict class probabilities, by Eq. (9) or by what another head has in its place.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            As in ``predict``.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError, TypeError
            If X has no rows, other columns than in ``fit`` or an infinite cell, or is sparse.
        """
        return self._probabilities(self._read(X))

    def score(self, X, y, sample_weight=None):
        """Accuracy on rows with known labels.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            As in ``predict``.
        y : array-like of shape (n_rows,)
            True classes of these rows. A row marked as unlabelled counts as a mistake, with a
            warning.
        sample_weight : array-like of shape (n_rows,), default=None

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``; or if labels are missing, or there is not one label per row.
        """
        y = as_labels(y)
        warn_of_unlabelled(are_unlabelled(np.ravel(y)).sum())
        return super().score(X, y, sample_weight)

    @property
    def label_distributions_(self):
        """Class probabilities of the rows given to ``fit``, (n_context, n_classes).

        The given label of a labelled row has probability one.
        """
        check_is_fitted(self)
        module = self._module(self._learner())
        reader = module, self.dtype, self.transductive, self.chunk_size
        kept = vars(self).get("_distributions")
        if kept is None or kept[0] != reader:
            labelled = self.y_ >= 0
            proba = np.eye(len(self.classes_))[self.y_]
            if not labelled.all():
                proba[~labelled] = self._probabilities(self._read_unlabelled(labelled))
            kept = self._distributions = reader, proba
        return kept[1].copy()

    @property
    def transduction_(self):
        """Labels of the rows given to ``fit``, given or predicted, (n_context,)."""
        most_probable = self.label_distributions_.argmax(axis=1)  # raises NotFittedError before fit
        return self.classes_[most_probable]

    def predict_proba_batch(self, tasks):
        """Predict class probabilities for many small tasks, in a few forward passes.

        No ``fit`` is needed and nothing is stored. Tasks of like size are padded and read together,
        which changes no prediction; one with many rows is read in chunks, as in ``predict``.

        Parameters
        ----------
        tasks : iterable of (X_labelled, y_labelled, X_unlabelled)
            One triple of array-likes per task. Columns and classes may differ between tasks. A
            label of -1 (or "-1") marks an unlabelled row, as in ``fit``.

        Returns
        -------
        list of ndarray of shape (n_unlabelled, n_classes)
            Columns are in the sorted order of the task's labels.

        Raises
        ------
        ValueError, NotFittedError, OSError
            If a task is malformed (the error says which), or parameters or weights cannot be used.
        """
        return [self._probabilities(logits) for _, logits in self._read_tasks(tasks)]

    def predict_batch(self, tasks):
        """Predict class labels for many small tasks, in a few forward passes.

        Parameters
        ----------
        tasks : as in ``predict_proba_batch``

        Returns
        -------
        list of ndarray of shape (n_unlabelled,)

        Raises
        ------
        ValueError, NotFittedError, OSError
            As in ``predict_proba_batch``.
        """
        return [
            classes[logits.argmax(1).cpu().numpy()] for classes, logits in self._read_tasks(tasks)
        ]

    def _get_fitted_attr_html(self, doc_link=""):
        """List only stored attributes in a notebook: two properties would read all rows of fit."""
        stored = BaseEstimator()  # without those properties
        vars(stored).update(vars(self))
        html = stored._get_fitted_attr_html(doc_link)
        html.estimator_class = type(self)
        return html

    def _context_labels(self):
        return self.y_, len(self.classes_)

    def _read_unlabelled(self, labelled):
        """Outputs of the unlabelled rows of ``fit``, read like rows of ``predict``."""
        if not self.transductive:
            return self._read_context_rows(OUTPUTS)[~labelled]
        encoded = encode(self.encoder_, self.X_)
        order = np.r_[np.flatnonzero(labelled), np.flatnonzero(~labelled)]
        task = context_task(encoded[order], self.y_[order], len(self.classes_))
        return self._read_behind(task, labelled.sum(), OUTPUTS)

    def _rows_together(self, y, n_classes):
        own = self._most_unlabelled(y, n_classes) if self.transductive else MOST_TOGETHER
        return own if self.chunk_size is None else self.chunk_size

    def _most_unlabelled(self, y, n_classes):
        few = max(OF_EACH_CLASS * n_classes, (y >= 0).sum() // 2)  # every chunk reads them
        return min(few, super()._most_unlabelled(y, n_classes))

    def _small_labels(self, y):
        is_vector = getattr(y, "ndim", 0) == 1
        y = np.asarray(y) if is_vector else y  # a Series may have a pandas dtype
        if not is_vector or y.dtype.kind not in "iub":
            y = column_or_1d(as_labels(y), warn=True)
            labelled = y[~are_unlabelled(y)]
            if len(labelled):
                check_classes(labelled)
        classes, codes = class_codes(y, are_unlabelled(y))
        if len(classes) < 2:
            raise ValueError(f"at least 2 classes are needed, got {len(classes)}.")
        return classes, codes, len(classes)

    @staticmethod
    def _probabilities(logits):
        return logits.double().softmax(-1).cpu().numpy()
