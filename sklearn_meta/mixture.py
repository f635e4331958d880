"""Mixtures of Gaussians fitted by a network instead of by iterations (paper 001, section 4.3)."""

from numbers import Integral

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from .base import MetaEstimator
from .fitted_mixture import FittedMixture
from .mixture_jobs import Job, Units, fit_jobs, own_order
from .mixture_learner import MixtureLearner
from .tasks import MixtureSampler
from .tasks.mixtures import COVARIANCE_TYPES, as_point_sets, refuse_one_set


class AmortizedGMM(FittedMixture, MetaEstimator):
    """Gaussian mixture that a meta-trained network estimates in a few forward passes.

    A drop-in for :class:`sklearn.mixture.GaussianMixture` whose ``fit`` takes a few forward passes
    instead of iterations from several starts. The network was trained on the likelihood of points
    that it had not read, so it is cautious with few points: its likelihood of the points of ``fit``
    is often lower than that of EM, and its likelihood of new points higher.

    Columns are standardised internally, so shifting or rescaling a column, or reversing its sign,
    changes nothing but the units. With spherical components this holds for all columns together.

    Parameters
    ----------
    n_components : int or "auto", default=1
        Number of components. "auto" selects the number with the lowest BIC from 1 to
        `max_components`, as far as there are n_features + 1 points per component: with fewer, BIC
        is of no use. The weights in the package were meta-trained for 1 to 16 components and 1 to
        32 columns; more are possible.
    covariance_type : {"full", "diag", "spherical"}, default="full"
        As in :class:`sklearn.mixture.GaussianMixture`, which has "tied" as well. "full" takes twice
        as long: points are read both with the correlations of their columns and without.
    n_init : int, default=1
        Number of starts, of which the likeliest is kept; each takes as long as the first. (With
        full covariances and few points, starts that put nearly all points into one component are
        penalised.) Starts begin at points of different distance from the middle; a larger number
        repeats the starts of a smaller one and adds others. One start may merge two clusters and
        split a third; four starts are still fast.
    refine_steps : int, default=0
        EM steps that start from the network's answer. None of them lowers the likelihood of the
        points of ``fit``, but with few points they overfit.
    max_components : int, default=10
        Largest number of components that "auto" tries.
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of a
        file or folder, a hub id ``"owner/name@revision"`` (see
        :func:`sklearn_meta.weights.load_learner`), or a module. The architecture,
        ``"mixture_transformer"``, comes without weights and requires ``meta_fit`` first.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the forward pass; EM steps use float64.
    random_state : int, RandomState instance or None, default=None
        Seed of ``sample`` and of ``meta_fit``, where None means 0. ``fit`` involves no randomness.

    Attributes
    ----------
    n_components_ : int
        Number of components; the selected one if "auto".
    weights_ : ndarray of shape (n_components_,)
        Weights of the components.
    means_ : ndarray of shape (n_components_, n_features)
    covariances_ : ndarray
        Of shape (n_components_,) if spherical, (n_components_, n_features) if diagonal,
        (n_components_, n_features, n_features) if full. Variances are at least 1e-6 times the
        variance of their column, and 1e-6 in a constant column.
    precisions_, precisions_cholesky_ : ndarray of the same shape
        Inverses of ``covariances_``, and their factors: for "full", the upper triangular matrices
        with ``precisions_cholesky_ @ precisions_cholesky_.T == precisions_``.
    lower_bound_ : float
        Mean log-likelihood of the points of ``fit``.
    n_iter_ : int
        Number of EM steps made: `refine_steps`.
    converged_ : bool
        Always True: ``fit`` does not iterate to convergence.
    learner_ : MixtureLearner
        The meta-trained network in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these columns, if all are strings.

    See Also
    --------
    sklearn.mixture.GaussianMixture : EM from several starts.

    Notes
    -----
    ``weights_``, ``means_`` and the other parameters are for reading only: setting them does not
    change predictions.

    Columns are standardised over all points. If one point is thousands of times farther away than
    the others are from each other, the others look like a single component. Leave such points out.

    References
    ----------
    Set Transformer (paper 001), section 4.3, Eq. (14) and (15).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn_meta import AmortizedGMM
    >>> X, y = make_blobs(300, centers=3, random_state=1)
    >>> mixture = AmortizedGMM(3, random_state=0).fit(X)
    >>> mixture.means_.shape
    (3, 2)
    >>> sets = [make_blobs(200, centers=3, random_state=seed)[0] for seed in range(100)]
    >>> fitted = AmortizedGMM(3).fit_batch(sets)
    >>> len(fitted)
    100
    """

    _architectures = ("mixture_transformer",)
    _task = "mixture"
    _default_weights = "default_mixture"
    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "refine_steps": [Interval(Integral, 0, None, closed="left")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "backbone": "no_validation",
        "device": [str],
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        n_init=1,
        refine_steps=0,
        max_components=10,
        backbone="default",
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_init = n_init
        self.refine_steps = refine_steps
        self.max_components = max_components
        self.backbone = backbone
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit a mixture to the points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points: at least two, and at least as many as components.
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there are fewer points than two or than components, a value is not a finite real
            number, the variances of a column are outside the range of float64 in its units, or a
            parameter or the weights cannot be used.
        TypeError
            If X is sparse, a cell is not a number, or only some column names are strings.
        NotFittedError
            If ``backbone`` names the architecture and ``meta_fit`` was not called.
        OSError
            If weights cannot be fetched from the hub.
        """
        self._forget()
        self.learner_ = self._learner()
        self._fit_sets(self.learner_, [self], [self._points(X)])
        return self

    def fit_predict(self, X, y=None):
        """Fit a mixture to the points and return the component of each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError, TypeError, NotFittedError, OSError
            As in ``fit``.
        """
        return self.fit(X).predict(X)

    def fit_batch(self, sets):
        """Fit a mixture to each of many sets of points, in a few forward passes.

        The estimator itself does not change. Sets of similar size are padded and run together,
        which changes no result.

        Parameters
        ----------
        sets : iterable of array-likes of shape (n_samples, n_features)
            n_samples and n_features may differ between sets.

        Returns
        -------
        list of AmortizedGMM
            Fitted copies of the estimator, one per set; an empty list if there are no sets.

        Raises
        ------
        ValueError
            If ``sets`` is a single set, or ``fit`` refuses a set (the error says which).
        NotFittedError, OSError
            As in ``fit``.
        """
        self._validate_params()
        refuse_one_set(sets, "sets")
        learner, parameters = self._learner(), self.get_params(deep=False)
        estimators, points = [], []
        for position, X in enumerate(sets):
            estimator = type(self)(**parameters)
            estimator.learner_ = learner
            try:
                points.append(estimator._points(X))
            except (TypeError, ValueError) as error:
                raise ValueError(f"Set {position}: {error}") from error
            estimators.append(estimator)
        self._fit_sets(learner, estimators, points)
        return estimators

    def meta_fit(
        self,
        datasets,
        *,
        validation_datasets=None,
        max_steps=6000,
        batch_size=32,
        learning_rate=2e-3,
        optimizer="adamw",
        eval_every=250,
        patience=10,
        ema_decay=None,
        n_workers=0,
        callbacks=None,
        checkpoint_dir=None,
        verbose=True,
    ):
        """Meta-train the network on the held-out likelihood of many sets of points.

        In each task the network reads half the points of a set and is scored on the other half. It
        is told the number of components, or a random number in a fifth of the tasks and wherever it
        is unknown, and this estimator's ``covariance_type``. Eq. (15) of paper 001 instead scores
        the points that were read, and so rewards overfitting.

        Parameters
        ----------
        datasets : mapping, iterable or source
            Arrays ``X`` of points; pairs ``(X, y)`` of points and the component, or class, of each;
            or anything with a method ``draw(rng) -> Dataset``, such as
            :class:`sklearn_meta.tasks.MixturePrior`, on which the default weights were trained.
        validation_datasets : as ``datasets``, default=None
            As in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`.
        max_steps : int, default=6000
            Number of steps of ``batch_size`` tasks; above ``eval_every``, rounded up to a multiple
            of it.
        batch_size : int, default=32
            Tasks per step.
        learning_rate : float, default=2e-3
            Peak learning rate.
        eval_every : int, default=250
            Steps between validations, and between checkpoints.
        optimizer, patience, ema_decay, n_workers, callbacks, checkpoint_dir, verbose
            As in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`, with the same defaults.

        Returns
        -------
        self : object
            With attributes ``learner_`` and ``history_`` (a skorch history).

        Raises
        ------
        ValueError
            If datasets, a setting or the weights cannot be used, the checkpoint belongs to another
            run, or training diverged.
        OSError
            If the checkpoint cannot be written, a worker is killed, or weights cannot be fetched
            from the hub.
        """
        self._validate_params()
        return self._meta_train(
            datasets,
            MixtureSampler((self.covariance_type,)),
            validation_datasets,
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            eval_every=eval_every,
            patience=patience,
            ema_decay=ema_decay,
            n_workers=n_workers,
            callbacks=callbacks,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
        )

    def _source(self, datasets):
        return as_point_sets(datasets)

    def _points(self, X):
        """Validate the points of ``fit``; return them standardised and sorted, and their units."""
        X = self._validated(X, ensure_min_samples=2)
        if self.n_components != "auto" and len(X) < self.n_components:
            raise ValueError(
                "Expected n_samples >= n_components but got "
                f"n_components = {self.n_components}, n_samples = {len(X)}"
            )
        units = Units.of(X, common=self.covariance_type == "spherical")
        X = units.standardise(X)
        return X[own_order(X)], units

    def _fit_sets(self, learner, estimators, sets):
        """Fit a mixture to each set, and store it in the estimator of the set."""
        jobs, candidates = [], []
        for X, units in sets:
            numbers = [self.n_components]
            if self.n_components == "auto":
                supported = max(len(X) // (X.shape[1] + 1), 1)
                numbers = range(1, min(self.max_components, supported) + 1)
            candidates.append(range(len(jobs), len(jobs) + len(numbers)))
            jobs += [Job(X, units, k) for k in numbers]
        fitted = fit_jobs(
            jobs,
            self._module(learner),
            n_init=self.n_init,
            covariance_type=self.covariance_type,
            refine_steps=self.refine_steps,
        )
        for estimator, own in zip(estimators, candidates, strict=True):
            best = own[0]
            if len(own) > 1:
                best = min(own, key=lambda i: fitted[i].bic(jobs[i].X))
            estimator._store(fitted[best], jobs[best].units)

    def _new_learner(self, backbone):
        # A MixtureLearner is one module: a backbone cannot get another head.
        if not isinstance(backbone, nn.Module):
            return MixtureLearner()
        if not isinstance(backbone, MixtureLearner):
            raise ValueError(f"backbone must be a MixtureLearner, got a {type(backbone).__name__}.")
        return backbone
