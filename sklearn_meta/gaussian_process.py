"""Fit-free regression of tables with uncertainty (paper 000, section 3.6)."""

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from .chunks import asked_once, in_chunks, in_order, read_first
from .heads import HEADS
from .sizes import check_integers
from .table_validation import as_cells, labelled_targets, table_with_targets, without_gaps
from .tables import EMBEDDINGS, TableEstimator
from .tasks import RegressionSampler, n_targets, target_scale
from .tasks.column_types import targets_as_numbers

#: Bound on standardised targets: the square of a larger one may exceed float64.
FURTHEST_TARGET = 1e150


class MetaGPRegressor(MultiOutputMixin, RegressorMixin, TableEstimator):
    """Meta-trained regressor of tables with few labelled and many unlabelled rows.

    A variable-feature self-attention network, meta-trained over many tables, embeds labelled and
    unlabelled rows of a new table together. A Gaussian process on the embeddings predicts mean and
    variance (Eq. 1-8 and 11 of paper 000). ``fit`` takes no gradient step: it stores the context.
    Targets are standardised internally, by the labelled rows.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of a
        file or folder, a hub id ``"owner/name@revision"`` (see
        :func:`sklearn_meta.weights.load_learner`), or a module. The name of an architecture in
        ``sklearn_meta.backbones.BACKBONES`` comes without weights and requires ``meta_fit`` first.
    head : {"gp", "gp_attributes", "gp_warped", "linear"}, default=None
        Method that turns embeddings into predictions. If None, the head that the weights were
        trained with, or ``"gp"``, the paper's, for an architecture without weights. Any other head
        requires an architecture as ``backbone``, and ``meta_fit``.
    transductive : bool, default=True
        Whether the rows given to ``predict`` act as unlabelled data for each other. If False, each
        row is predicted from the context of ``fit`` alone: its prediction does not depend on the
        rows beside it, the context is encoded only once, and time is linear in the number of rows.
    chunk_size : int, default=1000
        Maximum number of rows of ``predict`` read at a time; bounds memory. In transductive mode
        they see each other and the context, read again with every chunk: all labelled rows of
        ``fit`` and at most 1,000 unlabelled ones, drawn at random but independently of their order.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64", "bfloat16", "auto"}, default="float32"
        Precision of the forward pass. "auto" is bfloat16 on devices that benefit from it.
    random_state : int, RandomState instance or None, default=None
        Seed of ``meta_fit``. Prediction involves no randomness; ``sample_y`` has its own seed.

    Attributes
    ----------
    learner_ : Learner
        The meta-trained backbone and head in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    X_ : ndarray or DataFrame of shape (n_context, n_features)
        The rows given to ``fit``.
    y_ : ndarray of shape (n_context,) or (n_context, n_targets)
        Targets of these rows; NaN for unlabelled rows.
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

    The default weights were trained without the layer norm of Eq. (6), and their backbone reads
    more than Eq. (5) does: see :class:`sklearn_meta.backbones.VSA`.

    The default weights' head, ``"gp_warped"``, also models transformed targets, and lower noise
    than was learned. Transformed back, values lie outside the labelled targets by at most half
    their range for the mean, and by their range for standard deviation and covariance, which are
    about that mean; for quantiles, samples and densities there is no limit.

    All labelled rows of ``fit`` are read at once, whatever ``chunk_size`` is: memory is quadratic
    in them and time cubic, 3.7 GiB and 80 s for 4,000 rows of ten columns. With more, use a sample.

    To cross-validate with NaN in y, use :class:`sklearn_meta.model_selection.SemiSupervisedKFold`.
    Other splitters also put unlabelled rows into test sets, where they cannot be scored.

    References
    ----------
    T. Iwata, A. Kumagai. Meta-learning of semi-supervised learning from tasks with heterogeneous
    attribute spaces. 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_meta import MetaGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = MetaGPRegressor().fit(X[:30], y[:30])
    >>> mean, std = regressor.predict(X[30:], return_std=True)
    >>> bool(regressor.score(X[30:], y[30:]) > 0.2)
    True
    """

    _task = "regression"
    _default_head = "gp"
    _default_weights = "default_regression"
    _sampler = RegressionSampler
    _expected_targets = "regression"
    _parameter_constraints = {
        **TableEstimator._parameter_constraints,
        "head": [StrOptions(set(HEADS["regression"])), None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Store labelled and unlabelled rows as the context of predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_context, n_features)
            Rows. NaN and None are missing cells. Columns of dtype category are categorical, and so
            are columns of text, unless all of it is numbers.
        y : array-like of shape (n_context,) or (n_context, n_targets)
            Targets; NaN in all targets of a row marks it as unlabelled. Several targets are read
            together, so each prediction depends a little on the others. For independent ones use
            :class:`sklearn.multioutput.MultiOutputRegressor`, which rejects NaN.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            If no row is labelled, a row has only some of its targets, a target or a cell is
            infinite, no cell is observed, the input is malformed or sparse, a parameter or the
            weights cannot be used, or an architecture needs ``meta_fit`` first.

        Warns
        -----
        UserWarning
            If more than 5,000 rows are to be read together, of which at most 1,000 unlabelled.
        """
        self._forget()
        X, self.y_ = table_with_targets(self, X, y)
        self._scale = target_scale(labelled_targets(self.y_))
        self._warn_of_many_rows()
        self._store_context(X)
        return self

    def predict(self, X, return_std=False, return_cov=False, *, quantiles=None):
        """Predict the target of each row.

        The predictive distribution of a row is a mixture of normals, of the target or, with the
        default weights, of transformations of it; it may be skewed.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows to predict. In transductive mode they act as unlabelled data for each other.
        return_std : bool, default=False
            Whether to return the standard deviation of each row's target, including noise.
        return_cov : bool, default=False
            Whether to return the covariance of the rows' targets, including noise. All rows are
            then read at once, whatever ``chunk_size`` is, and memory is quadratic in their number:
            1.2 GiB for 4,000 rows.
        quantiles : sequence of float in (0, 1), default=None
            Quantiles of the predictive distribution to return instead of its mean. They are found
            by bisection: ten quantiles of 1,000 rows take about a second.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_targets)
        std : ndarray of the same shape
            If ``return_std``.
        cov : ndarray of shape (n_rows, n_rows) or (n_rows, n_rows, n_targets)
            If ``return_cov``.
        quantiles : ndarray of shape (n_quantiles, n_rows) or (n_quantiles, n_rows, n_targets)
            If ``quantiles`` are given; returned alone.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            If more than one of the three is requested; a quantile is not between 0 and 1, or there
            is none; the covariance, in squared units of the target, exceeds float64; ``fit`` was
            not called; or X has other columns than in ``fit``, an infinite cell, or is sparse.
        """
        if bool(return_std) + bool(return_cov) + (quantiles is not None) > 1:
            raise ValueError("Use at most one of return_std, return_cov and quantiles.")
        if return_cov:
            return self._mean_and_covariance(X)
        if quantiles is not None:
            levels = np.asarray(quantiles, dtype=float)
            if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
                raise ValueError(
                    "quantiles must be a list of numbers between 0 and 1, such as (0.05, 0.95), "
                    f"got {quantiles!r}."
                )
            return self._quantiles(X, levels)
        mean, std = self._in_units(self._read(X), self._scale, self.y_.ndim)
        return (mean, std) if return_std else mean

    def score(self, X, y, sample_weight=None):
        """R² of the predictions, as in :meth:`sklearn.base.RegressorMixin.score`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array-like of shape (n_rows,), default=None

        Returns
        -------
        float
            The mean over targets. The best score is 1; predicting the mean of y scores 0.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            If a target is missing; or as in ``predict``.
        """
        if n_unlabelled := without_gaps(y := as_cells(y))[1].sum():
            raise ValueError(
                f"{n_unlabelled} targets to be scored are missing (NaN): leave them out, or "
                "cross-validate with cv=SemiSupervisedKFold() of sklearn_meta.model_selection. "
                "Train scores, as in learning_curve, include such rows with any splitter."
            )
        return super().score(X, y, sample_weight)

    def log_predictive_density(self, X, y):
        """Log density of known targets under the predictive distribution.

        Each target of a row is taken by itself; its density is per unit of y. The mean over rows
        that ``fit`` has not seen tells how well the regressor knows its errors. Higher is better.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_targets)

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets), like the targets of ``fit``

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``; or if targets are missing, infinite, or not of the number in ``fit``.
        """
        check_is_fitted(self)
        y = check_array(targets_as_numbers(y), ensure_2d=False, dtype=np.float64, input_name="y")
        if self.y_.ndim == 1 and y.shape[1:] == (1,):  # a frame with one column
            y = y[:, 0]
        shape = (_num_samples(X), *self.y_.shape[1:])
        if y.shape != shape:
            raise ValueError(
                f"y must have a row per row of X, and targets as in fit: {shape}, got {y.shape}."
            )
        mean, scale = self._scale
        with np.errstate(over="ignore"):  # targets may be in quite another unit
            targets = np.clip((y - mean) / scale, -FURTHEST_TARGET, FURTHEST_TARGET)
        targets = torch.from_numpy(targets.reshape(len(y), -1)).to(self._device())

        def of_rows(places, head, z, state):
            (z, known), which = asked_once(z[0], targets[places])
            return head.distribution(z[None], state).log_density(known[None])[0, which]

        found = in_order(*self._ask_head(X, self.chunk_size, of_rows)).cpu().numpy()
        return found.reshape(shape) - np.log(scale)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw joint samples of the rows' targets; all rows are read at once.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0
            As in :class:`sklearn.gaussian_process.GaussianProcessRegressor`.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``; or if ``n_samples`` is not an integer of 0 or more.
        """
        check_integers(0, n_samples=n_samples)
        rng = check_random_state(random_state)
        (samples,), _ = self._ask_head(
            X, None, lambda _, head, *rows: head.samples(*rows, n_samples, rng)
        )
        return np.moveaxis(self._unstandardised(samples), 0, -1)

    def predict_batch(self, tasks, return_std=False):
        """Predict targets for many small tasks, in a few forward passes.

        No ``fit`` is needed and nothing is stored. Tasks of like size are padded and read together,
        which changes no prediction; one with many rows is read in chunks, as in ``predict``.

        Parameters
        ----------
        tasks : iterable of (X_labelled, y_labelled, X_unlabelled)
            One triple of array-likes per task. Columns may differ between tasks. NaN in y_labelled
            marks an unlabelled row, as in ``fit``.
        return_std : bool, default=False
            Whether to return the standard deviations, too.

        Returns
        -------
        list of ndarray of shape (n_unlabelled,), or of pairs (mean, std) of them
            Of shape (n_unlabelled, n_targets) where the task's y_labelled has two dimensions.

        Raises
        ------
        ValueError, NotFittedError, OSError
            If a task is malformed (the error says which), or parameters or weights cannot be used.
        """
        answers = [self._in_units(output, *of) for of, output in self._read_tasks(tasks)]
        return answers if return_std else [mean for mean, _ in answers]

    def _context_labels(self):
        return (self.y_ - self._scale[0]) / self._scale[1], n_targets(self.y_)

    def _small_labels(self, y):
        y, unlabelled = without_gaps(y)
        if y.dtype.kind == "c":
            raise ValueError("Complex data not supported: targets must be real numbers.")
        y = np.where(unlabelled, np.nan, y.astype(np.float64))
        if y.ndim not in (1, 2) or not len(y) or np.isinf(y).any():
            raise ValueError(
                "targets must be finite numbers, or NaN for a row without a target, in a "
                "non-empty vector or matrix."
            )
        mean, scale = target_scale(labelled_targets(y))
        return ((mean, scale), y.ndim), (y - mean) / scale, n_targets(y)

    @staticmethod
    def _in_units(output, scale, n_dims):
        """Mean and standard deviation in the units of the target."""
        output = output[:, 0] if n_dims == 1 else output
        mean, variance = (part.cpu().numpy() for part in output.double().unbind(-1))
        return mean * scale[1] + scale[0], np.sqrt(variance) * scale[1]

    def _unstandardised(self, values):
        """Convert standardised targets (..., n_rows, n_targets) to unit and shape of ``y_``."""
        values = values.cpu().numpy() * self._scale[1] + self._scale[0]
        return values if self.y_.ndim == 2 else values[..., 0]

    def _mean_and_covariance(self, X):
        ((output, cov),), _ = self._ask_head(
            X, None, lambda _, head, *rows: (head(*rows)[0], head.covariance(*rows)[0])
        )
        cov = cov.double().cpu().numpy().transpose(1, 2, 0)
        cov = (cov + cov.swapaxes(0, 1)) / 2  # symmetric up to rounding
        with np.errstate(over="ignore"):
            cov = cov * self._scale[1] * self._scale[1]
        if not np.isfinite(cov).all():
            raise ValueError(
                "The covariance is too large for float64 in the unit of y: divide y by its "
                "scale, or use return_std."
            )
        mean, _ = self._in_units(output, self._scale, self.y_.ndim)
        return mean, cov if self.y_.ndim == 2 else cov[..., 0]

    def _quantiles(self, X, levels):
        def of_rows(_, head, z, state):
            (z,), which = asked_once(z[0])
            distribution = head.distribution(z[None], state)
            return torch.stack([distribution.quantiles(level)[0, which] for level in levels])

        return self._unstandardised(in_order(*self._ask_head(X, self.chunk_size, of_rows), dim=1))

    @torch.inference_mode()
    def _ask_head(self, X, chunk_size, question):
        """Call ``question(places, head, z, state)`` per chunk; return the answers and places."""
        check_is_fitted(self)
        X = self._table(X)
        chunk_size = len(X) if chunk_size is None else int(chunk_size)
        if not self.transductive:
            learner, _, (_, state), _ = self._context_in_use()
            z, places = self._read_as_encoded(X, EMBEDDINGS), torch.arange(len(X)).split(chunk_size)
            return [question(some, learner.head, z[None, some], state) for some in places], places
        learner, n_context, answers = self._module(self._learner()), len(self._rows), []
        task = self._task_with(X, self._encoder_with(X))
        chunks, places = in_chunks(task, n_context, chunk_size)
        asked = read_first(task.X[n_context:], places)
        for chunk, (some, among) in zip(chunks, asked, strict=True):
            inputs = self._inputs([chunk])
            with self._autocast():
                z, _ = learner.embed(**inputs)
            state = learner.adapt(z, *(inputs[k] for k in ("labels", "classes", "readable")))
            answers.append(question(some, learner.head, z[:, n_context + among], state))
        return answers, [some for some, _ in asked]
