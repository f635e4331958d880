"""Regression on rows that come one after another: MANNRegressor (paper 002)."""

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..targets_mixin import TargetsMixin
from ..tasks import ProjectedColumns, TargetSequences, Vectors
from ..tasks.running import Moments, moments_as_they_are, power_of_two, standardise
from .base import OnlineEstimator


class MANNRegressor(TargetsMixin, OnlineEstimator):
    """Regressor that learns from rows that arrive one at a time, without a gradient step.

    The counterpart of :class:`MANNClassifier`. The network predicts a normal distribution, so every
    prediction has a standard deviation.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights, as in :class:`MANNClassifier`. "default" reads tables with any
        columns.
    n_estimators : int, default=8
        Number of ensemble members, whose predictions are averaged. Each rotates the columns
        differently, and in ``fit`` reads the rows in another order.
    shuffle : bool, default=True
        Whether ``fit`` presents the rows in random orders. If False, and always in ``partial_fit``,
        they are presented in the given order.
    window_size : int, default=125
        Number of rows that predictions use, as in :class:`MANNClassifier`; all rows if None.
    memory : {"wipe", "persistent"}, default="wipe"
        If "wipe", ``fit`` empties the external memory. If "persistent", it keeps what an earlier
        persistent ``fit`` with the same network, dtype, members and ``random_state`` (int or None)
        wrote.
    chunk_size : int, default=256
        Maximum number of rows predicted at a time; bounds memory and changes no prediction.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the forward pass.
    random_state : int, RandomState instance or None, default=None
        Seed of orders, rotations and ``meta_fit``; None means 0.

    Attributes
    ----------
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

    Notes
    -----
    The columns and targets of tables are standardised by what has been seen of them so far, so they
    may have any units. A network of vectors reads both as they are. If all rows are at hand and a
    linear model fits them, it is far better.

    References
    ----------
    A. Santoro, S. Bartunov, M. Botvinick, D. Wierstra, T. Lillicrap. One-shot Learning with
    Memory-Augmented Neural Networks. ICML 2016 (paper 002), section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta import MANNRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> y = 100 * X[:, 0] + 20 * X[:, 1]
    >>> regressor = MANNRegressor().partial_fit(X[:40], y[:40])
    >>> bool(regressor.score(X[40:], y[40:]) > 0.5)
    True
    """

    _task = "online_regression"
    _default_head = "gaussian"
    _default_weights = "default_mann_regression"
    _expected_targets = "regression"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Start afresh and present the rows; with ``shuffle``, a random window to each member.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            NaN and None are missing cells. Columns of dtype category are categorical, and so are
            columns of text, unless all of it is numbers. Categories are those that the dtype
            declares or these rows contain. Weights for vectors read numbers only.
        y : array-like of shape (n_rows,)
            Targets.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If rows do not have the length that the network reads, a cell is infinite or cannot be
            encoded, a target is not a finite number, there is not one target per row, or a
            parameter or the weights cannot be used.
        TypeError
            If X or y is sparse, or only some column names are strings.
        NotFittedError
            If ``backbone`` names an architecture and ``meta_fit`` was not called.
        OSError
            If weights cannot be fetched from the hub.
        """
        X, y = self._rows_and_labels(X, y, reset=True)
        self._begin(X.shape[1])
        orders = self._orders(len(y))
        self._present(X[orders], y[orders][..., None], n_samples_seen_=len(y))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y):
        """Present more rows, in the given order.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            As in ``fit``. Categories are those of the first call: later ones are read as missing
            cells, with a warning.
        y : array-like of shape (n_rows,)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            As in ``fit``; or if the columns differ from those before.
        """
        self._go_on(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def predict_online(self, X, y, return_std=False):
        """Predict each row, then learn from it as ``partial_fit`` does.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Targets of the rows, each shown after its row is predicted.
        return_std : bool, default=False
            Whether to return the standard deviation of each row's target.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        std : ndarray of shape (n_rows,)
            Only if ``return_std``.

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            As in ``partial_fit``.
        """
        mean, std = self._go_on(X, y)
        return (mean, std) if return_std else mean

    def predict(self, X, return_std=False):
        """Predict each row as if it came next; nothing is learned from it.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Whether to return the standard deviation of each row's target.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        std : ndarray of shape (n_rows,)
            Only if ``return_std``.

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError, TypeError
            If X has no rows, other columns than in ``fit`` or an infinite cell, or is sparse.
        """
        check_is_fitted(self)
        outputs = self._ask(self._asked_rows(X))
        units = Moments(*(part[: len(outputs), None] for part in self._reading.targets))
        mean, std = _together(self._in_units(outputs, units))
        return (mean, std) if return_std else mean

    def meta_fit(
        self,
        datasets,
        *,
        n_rows=(20, 150),
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
            :class:`sklearn_meta.tasks.RegressionPrior`, or, for a network of vectors,
            :class:`sklearn_meta.tasks.GaussianProcessPrior`. Networks of vectors read pairs
            ``(X, y)`` as rows of finite numbers, used as they are.
        n_rows : (int, int), default=(20, 150)
            Range of the length of a sequence.
        optimizer : {"adagrad", "adamw", "muon", "rmsprop"}, default="adamw"
        batch_size : int, default=16
            Sequences per step.
        validation_datasets, max_steps, learning_rate, **settings
            As there, with the same defaults, except for ``n_shots`` and ``n_unlabelled``, which are
            not accepted. ``schedule`` is accepted: "cosine" (default), "noam" or "constant".

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, OSError
            As there; or if ``n_shots`` or ``n_unlabelled`` is given, or the network cannot read the
            datasets.
        TypeError
            If a setting is unknown.
        """
        self._validate_params()
        learner = self._starting_learner(0)  # same shape as the one to train
        tables = learner.inputs == "tables"
        sampler = TargetSequences(
            (ProjectedColumns if tables else Vectors)(learner.n_inputs),
            n_rows=n_rows,
            standardised=tables,
        )
        return self._meta_train(
            datasets,
            sampler,
            validation_datasets,
            self._reader(learner, None),
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            **settings,
        )

    def _go_on(self, X, y):
        reset = not self.__sklearn_is_fitted__()
        X, y = self._rows_and_labels(X, y, reset=reset)
        if reset:
            self._begin(X.shape[1])
        n = self._settings.n_members
        return _together(self._present(*(np.repeat(a[None], n, 0) for a in (X, y[:, None]))))

    def _shown(self, y, targets):
        moments = moments_as_they_are(y, targets)
        return torch.from_numpy(standardise(y, moments) if self._has_units else y), moments

    def _answered(self, outputs, before, after):
        sums = zip(before[1:], after[1:], strict=True)
        sums = (np.concatenate([old[:, None], new[:, :-1]], 1) for old, new in sums)
        return self._in_units(outputs, Moments(*(p[: len(outputs)] for p in (after.origin, *sums))))

    @property
    def _has_units(self):
        """Whether targets are standardised; a network of vectors reads them as they are."""
        return self.learner_.inputs == "tables"

    @torch.inference_mode()
    def _in_units(self, outputs, moments):
        """Convert outputs (E, n_rows, 2) to means and standard deviations in the units of y.

        ``moments`` are those of the targets before each row: arrays (E, n_rows or 1, 1).
        """
        means, deviations = self.learner_.head.moments(outputs)
        if self._has_units:
            mean, scale = (torch.from_numpy(p[..., 0]) for p in (moments.mean, moments.scale))
            scale = scale.where(scale > 0, 1)
            means, deviations = means * scale + mean, deviations * scale
        return torch.stack([means, deviations], 2)


def _together(answers):
    """Mean and standard deviation of the mixture of the members' Gaussians (E, n_rows, 2)."""
    means, deviations = np.moveaxis(answers.numpy(), 2, 0)
    mean = means.mean(0)
    parts = np.stack([deviations, means - mean])
    unit = power_of_two(np.abs(parts).max((0, 1)))  # squares of targets may overflow
    return mean, np.sqrt(((parts / unit) ** 2).sum(0).mean(0)) * unit
