"""Fit-free outlier detection: the odd rows of a set (section 4.4 of paper 001)."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import OutlierMixin, _fit_context
from sklearn.utils import _safe_indexing, check_array, resample
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .far_cells import FarCells
from .heads import HEADS
from .table_validation import as_cells, encode, encode_observed, validated_table
from .tables import OUTPUTS, TableEstimator
from .tasks import OutlierSampler, TableEncoder, context_task

#: Bound on the relative difference between scores of rows read together and one by one.
ROUNDING = 1e-4
#: Log-odds per unit by which a row's farthest cell exceeds those of the set. With this value a
#: single cell twelve deviations off among fifty columns is found, and heavy tails without outliers
#: are hardly ever flagged.
PER_UNIT = 2.0


class AmortizedOutlierDetector(OutlierMixin, TableEstimator):
    """Meta-trained detector of outliers among the rows of a small table.

    A network that was meta-trained over many tables with known outliers reads all rows of a new
    table at once, without labels, and gives each the log-odds of being an outlier. Few rows are
    enough, no distance and no number of neighbours has to be chosen, and columns may be numeric or
    categorical and have missing cells. ``fit`` takes no gradient step.

    The rows given to ``fit`` are the set, which may hold outliers or not. Other rows are judged
    from that set alone, so their scores do not depend on each other. Rows of the set get the scores
    that they have within it.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of a
        file or folder, a hub id ``"owner/name@revision"`` (see
        :func:`sklearn_meta.weights.load_learner`), or a module. The name of an architecture in
        ``sklearn_meta.backbones.BACKBONES`` comes without weights and requires ``meta_fit`` first.
    head : {"odd_at_scales", "odd_one_out"}, default=None
        Method that turns embeddings into log-odds. If None, the head that the weights were trained
        with, or ``"odd_at_scales"`` for an architecture without weights.
    contamination : "auto" or float in (0, 0.5], default="auto"
        Share of outliers among the rows of ``fit``, which sets the threshold of the scores. If
        ``fit`` has fewer than 100 rows, a larger share of new rows may be beyond it. "auto" is the
        threshold at which being an outlier becomes more probable than not; there may be none.
    max_samples : int, default=1000
        Maximum number of rows of ``fit`` in the set. If there are more, this many are drawn at
        random, since time and memory are quadratic in them.
    chunk_size : int, default=1000
        Maximum number of rows scored at a time; bounds memory and changes no score.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64", "bfloat16", "auto"}, default="float32"
        Precision of the forward pass. "auto" is bfloat16 on devices that benefit from it; scores of
        the default weights are rough in it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``meta_fit``, and of drawing ``max_samples`` rows; None is 0.

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` less this: 0 for ``contamination="auto"``,
        otherwise the score below which that share of the rows of ``fit`` lies, less a little more
        than rounding, so that equal rows get one answer.
    learner_ : Learner
        The meta-trained backbone and head in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    X_ : ndarray or DataFrame of shape (n_context, n_features)
        The rows of the set.
    encoder_ : TableEncoder
        Converts the columns of tables to numbers, with the types found in ``fit``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these columns, if all are strings.

    Notes
    -----
    The network reads cells squeezed to a bounded range, so a single far cell among many columns
    would hardly count. Therefore the further a row's farthest cell lies beyond those of nine in ten
    rows of the set, the lower its score (:class:`sklearn_meta.far_cells.FarCells`).

    A column that is constant in the set says nothing about other rows, as in
    :class:`sklearn.ensemble.IsolationForest`. A category that the set does not have is read as a
    missing cell, which is no sign of an outlier.

    References
    ----------
    J. Lee, Y. Lee, J. Kim, A. R. Kosiorek, S. Choi, Y. W. Teh. Set Transformer: A Framework for
    Attention-based Permutation-Invariant Neural Networks. ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta import AmortizedOutlierDetector
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> X[7] += 6
    >>> AmortizedOutlierDetector().fit_predict(X)[5:10]
    array([ 1,  1, -1,  1,  1])
    """

    _task = "outlier_detection"
    _default_head = "odd_at_scales"
    _default_weights = "default_outliers"
    _sampler = OutlierSampler
    _fitted = (*TableEstimator._fitted, "offset_")
    transductive = False  # not a parameter: new rows are judged from the set alone
    _parameter_constraints = {
        **{k: v for k, v in TableEstimator._parameter_constraints.items() if k != "transductive"},
        "head": [StrOptions(set(HEADS["outlier_detection"])), None],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        backbone="default",
        *,
        head=None,
        contamination="auto",
        max_samples=1000,
        chunk_size=1000,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.head = head
        self.contamination = contamination
        self.max_samples = max_samples
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def meta_fit(self, datasets, **settings):
        """Meta-train the backbone over many tables with outliers.

        The outliers are rows of other classes or of extreme targets, or altered rows: see
        :class:`sklearn_meta.tasks.OutlierSampler`.

        Parameters
        ----------
        datasets : mapping, iterable or source
            Labelled tables, as of :meth:`MetaSemiSupervisedClassifier.meta_fit`.
        **settings : dict
            As there. But no row is labelled, so there is no ``n_shots``, and ``n_unlabelled`` are
            the rows of a set, by default 8 to 200. A head "odd_at_scales" that begins at random
            learns at five times ``learning_rate``, except with "muon".

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, OSError
            As there, or if there are ``n_shots``, or ``backbone`` is "maml".

        Notes
        -----
        Unless ``contamination="auto"``, an earlier ``fit`` is forgotten: its threshold was for the
        scores of other weights.
        """
        if settings.get("n_shots") is not None:
            raise ValueError(
                "n_shots counts labelled rows, and outlier detection has none: set n_unlabelled, "
                "the number of rows of a set."
            )
        super().meta_fit(datasets, **settings)
        if self.contamination != "auto":
            self._forget()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Read the rows as one set.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Two rows or more. NaN and None are missing cells. Columns of text, if it is not all
            numbers, and of dtype category are categorical.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is one row only, no cell is observed, a cell is infinite or cannot be encoded,
            or a parameter or the weights cannot be used.
        TypeError
            If X is sparse, or only some names of columns are strings.
        NotFittedError
            If ``backbone`` names an architecture, and ``meta_fit`` was not called.
        OSError
            If weights of the hub cannot be fetched.
        """
        self._forget()
        X = validated_table(self, X, ensure_min_samples=2)
        context, categorical = X, ()
        if len(X) > self.max_samples:
            # Find categorical columns from all rows: of a text column, only numbers may be drawn.
            encoder = self._new_encoder().fit(X)
            categorical = encoder.categorical_
            observed = np.flatnonzero(~np.isnan(encode_observed(encoder, X)).all(axis=1))
            n, seed = min(len(observed), self.max_samples), self._seed_of_all()
            drawn = resample(observed, replace=False, n_samples=n, random_state=seed)
            context = _safe_indexing(X, drawn)
        self._far_cells = FarCells.of(self._store_context(context, categorical=categorical))
        auto = self.contamination == "auto"
        self.offset_ = self._offset(None if auto else self._scores(X))
        return self

    def score_samples(self, X):
        """Log-odds of each row to be normal.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            The lower, the more abnormal; below 0 a row is more probably an outlier than not.

        Raises
        ------
        NotFittedError
            If there was no ``fit``.
        ValueError, TypeError
            If X has no row, other columns than in ``fit``, or an infinite cell, or is sparse.
        """
        check_is_fitted(self)
        return self._scores(self._table(X))

    def decision_function(self, X):
        """Scores less ``offset_``: negative for outliers.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``score_samples``.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """Tell outliers from the others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            -1 for outliers, +1 for the others.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``score_samples``.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score_samples_batch(self, sets):
        """Log-odds to be normal of the rows of many small sets, each within its own set.

        No ``fit`` is needed and nothing is stored. Sets are grouped by size and padded, which
        changes no answer, and read whole, whatever ``max_samples`` is.

        Parameters
        ----------
        sets : iterable of array-like or DataFrame of shape (n_rows, n_features)
            Rows and columns may differ between sets.

        Returns
        -------
        list of ndarray of shape (n_rows,)

        Raises
        ------
        ValueError
            If a set is malformed (the error says which), or a parameter or the weights cannot be
            used.
        NotFittedError, OSError
            As in ``fit``.
        """
        self._validate_params()
        tasks = []
        for position, X in enumerate(sets):
            try:
                tasks.append(self._task_of(X))
            except (TypeError, ValueError) as error:
                raise ValueError(f"Set {position}: {error}") from error
        return [
            _normality(logits, FarCells.of(task.X), task.X)
            for logits, task in zip(self._forward_each(tasks), tasks, strict=True)
        ]

    def fit_predict_batch(self, sets):
        """Outliers of many small sets, in a few forward passes.

        Parameters
        ----------
        sets : as in ``score_samples_batch``

        Returns
        -------
        list of ndarray of shape (n_rows,)
            What ``fit_predict`` says of each set: -1 for outliers, +1 for the others.

        Raises
        ------
        ValueError, NotFittedError, OSError
            As in ``score_samples_batch``.
        """
        return [
            np.where(scores < self._offset(scores), -1, 1)
            for scores in self.score_samples_batch(sets)
        ]

    def _new_encoder(self):
        return TableEncoder()  # without ``marks``: cells far from all others are what it looks for

    def _scores(self, X):
        """Scores of validated rows."""
        encoded = encode(self.encoder_, X)
        return _normality(self._read_rows(encoded, OUTPUTS), self._far_cells, encoded)

    def _offset(self, scores):
        if self.contamination == "auto":
            return 0.0
        # The score of a row varies by rounding with the number of rows read together. Without this
        # margin, some of several equal rows at the threshold would be outliers and others not.
        offset = np.percentile(scores, 100 * self.contamination)
        return offset - ROUNDING * (1 + abs(offset))

    def _task_of(self, X):
        X = as_cells(X)
        if not hasattr(X, "iloc"):
            X = check_array(X, dtype=None, ensure_all_finite=False)
        check_array(np.zeros(X.shape), ensure_min_samples=2)
        encoded = encode_observed(self._new_encoder().fit(X), X)
        return context_task(encoded, np.full(len(X), -1), 1)

    def __sklearn_is_fitted__(self):
        # ``fit`` sets the offset last, so an interrupted fit leaves none. Unless it is 0, an offset
        # is for scores of the weights of ``fit``: if these are gone, the estimator is not fitted.
        offset = vars(self).get("offset_")
        return offset == 0 or (offset is not None and hasattr(self, "learner_"))

    def _most_unlabelled(self, y, n_label_columns):
        return len(y)  # already bounded by max_samples

    def _context_labels(self):
        return np.full(len(self.X_), -1), 1

    def _new_learner(self, backbone):
        if backbone == "maml":
            raise ValueError(
                "backbone='maml' learns from labelled rows, and outlier detection has none: choose "
                "another architecture."
            )
        return super()._new_learner(backbone)


def _normality(logits, far_cells, rows):
    """Log-odds of encoded rows to be normal, from the network's log-odds of being outliers."""
    return -logits.double().cpu().numpy() - PER_UNIT * far_cells.excess(rows)
