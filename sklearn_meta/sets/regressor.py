"""Regression of sets (paper 001)."""

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, _fit_context
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from torch import nn

from ..table_validation import check_dense
from ..targets_mixin import TargetsMixin
from ..tasks import target_scale
from ..tasks.column_types import targets_as_numbers
from .base import SetEstimator
from .training import PoissonLoss, poisson_rate


class SetTransformerRegressor(MultiOutputMixin, TargetsMixin, SetEstimator):
    """Regressor of sets: each sample is a set of vectors, whose order does not matter.

    A network of attention blocks reads a set of any size and pools it to a prediction. Unlike the
    meta-trained estimators of this package, it starts from random weights and is **trained by**
    ``fit`` on the sets given: it needs hundreds of sets, and minutes. Elements are standardised
    internally, and so are targets unless they are counts.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "poisson"}, default="squared_error"
        "poisson" is for counts: it predicts the rate of a Poisson distribution.
    encoder : {"isab", "sab", "rff", "rffp_mean", "rffp_max"}, default="isab"
        How the elements of a set interact. "isab": through ``n_inducing`` learned points, in time
        linear in the size of the set; "sab": directly; "rff": not at all; "rffp_mean" and
        "rffp_max": through the mean or maximum over all elements.
    pooling : {"pma", "mean", "sum", "max", "dotprod"}, default="pma"
        How the elements become one vector; "pma" is attention. Only "sum", together with
        ``encoder="rff"`` and ``norm="none"``, distinguishes copies of an element from a single one,
        and so knows their number; otherwise, give the number as a column of every element.
    width, n_heads, n_layers, n_inducing : int, default=64, 4, 2 and 16
        Length of an element's vector; attention heads, which share that length among them; blocks
        of the encoder; and learned points of "isab". Tune ``max_epochs`` and ``width`` first.
    norm : {"pre", "post", "none"}, default="pre"
        Where a block normalises; "post" is the paper's. Use "none" for targets that must be
        predicted to several digits, such as the largest number of a set.
    dropout : float, default=0.0
        Fraction of the hidden units that are dropped in each training step.
    embedding : torch.nn.Module, default=None
        Module applied to each element first, and trained with the rest. It maps elements (n, ...)
        to (n, n_numbers), as a convolutional network does for images. Elements may then have any
        shape, and are not standardised. A copy of the module is trained, starting from its weights.
    max_epochs : int, default=100
        Number of passes over the sets.
    batch_size : int, default=32
        Sets per training step, and sets that prediction reads at a time; bounds memory.
    learning_rate : float, default=0.001
        Peak learning rate of AdamW, after a warm-up and before a cosine decay to zero.
    weight_decay : float, default=0.01
        Weight decay of AdamW.
    early_stopping : bool, default=False
        Whether to hold out ``validation_fraction`` of the sets, to stop when their loss has not
        improved for ``n_iter_no_change`` epochs, and to keep the weights with the lowest loss.
    validation_fraction : float, default=0.1
        Fraction of the sets to hold out.
    n_iter_no_change : int, default=10
        Epochs without improvement before stopping.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    random_state : int, RandomState instance or None, default=None
        Seed of the weights, of the order of the sets, of dropout and of the sets held out.
    verbose : bool or int, default=False
        Whether to print a line per epoch.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    history_ : skorch.history.History
        Losses per epoch: ``history_[:, "train_loss"]``, and "valid_loss" if sets were held out.
    n_iter_ : int
        Number of epochs run.
    mean_, scale_ : ndarray of shape (n_features_in_,)
        Mean and scale by which elements are standardised, unless there is an ``embedding``; the
        scale of a constant column is infinite.
    n_features_in_ : int
        Number of values of an element: d for sets of shape (n_points, d).

    References
    ----------
    Set Transformer (paper 001), section 3; the counting loss is appendix B.2's.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.sets import SetTransformerRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.uniform(size=(n, 1)) for n in rng.integers(1, 9, size=200)]
    >>> y = [len(elements) for elements in X]
    >>> regressor = SetTransformerRegressor(loss="poisson", max_epochs=10, random_state=0)
    >>> regressor.fit(X, y).predict_mode([[[0.5]], [[0.1], [0.2], [0.3]]]).shape
    (2,)
    """

    _parameter_constraints = {
        "loss": [StrOptions({"squared_error", "absolute_error", "poisson"})],
        **SetEstimator._parameter_constraints,
    }

    def __init__(
        self,
        *,
        loss="squared_error",
        encoder="isab",
        pooling="pma",
        width=64,
        n_heads=4,
        n_layers=2,
        n_inducing=16,
        norm="pre",
        dropout=0.0,
        embedding=None,
        max_epochs=100,
        batch_size=32,
        learning_rate=1e-3,
        weight_decay=0.01,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        super().__init__(
            encoder=encoder,
            pooling=pooling,
            width=width,
            n_heads=n_heads,
            n_layers=n_layers,
            n_inducing=n_inducing,
            norm=norm,
            dropout=dropout,
            embedding=embedding,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Train a new network on sets and their targets.

        Parameters
        ----------
        X : list of array-likes, or array-like
            One array-like per set: (n_points, n_features), or (n_points, ...) with an
            ``embedding``, or (n_points,) for sets of numbers. Or one array: (n_sets, n_points,
            n_features), or (n_sets, n_points) for sets of numbers, where points that are all NaN
            are padding. Columns of DataFrames are matched by position, not by name.
        y : array-like of shape (n_sets,) or (n_sets, n_targets)
            Targets; non-negative integers if ``loss="poisson"``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter cannot be used; a set is empty, or there is none; elements differ in
            shape, or are not vectors and there is no ``embedding`` that makes them so; a cell is
            missing, infinite, complex or a date; targets are not finite numbers or not one per set,
            or counts are negative or not whole; ``early_stopping`` has too few sets to hold some
            out; or training diverged.
        TypeError
            If sets or targets are sparse, or a cell is not a number.

        Warns
        -----
        UserWarning
            If Ctrl-C ended training after a complete epoch; the network is then kept as it is.
        """
        vars(self).pop("module_", None)  # a fit that fails leaves nothing of the one before
        check_dense(y)
        y = targets_as_numbers(y)
        sets, y = self._validate(X, y, multi_output=True, y_numeric=True)
        y = y.astype(np.float64)
        assert_all_finite(y, input_name="y")  # astype made NaN of None
        target = y.reshape(len(y), -1)
        vars(self).pop("_unit", None)  # of an earlier fit to counts
        if self.loss == "poisson":
            if (target < 0).any() or (target != np.floor(target)).any():
                raise ValueError(
                    "loss='poisson' is for counts: every target must be a whole number from 0 on. "
                    "Round them, or choose another loss."
                )
            mean = target.mean(axis=0)
            self._unit = torch.as_tensor(np.where(mean > 0, mean, 1.0))
            criterion = PoissonLoss(self._unit)
        else:
            self._target_scale = target_scale(target)
            target = (target - self._target_scale[0]) / self._target_scale[1]
            criterion = nn.MSELoss() if self.loss == "squared_error" else nn.L1Loss()
        self._target_shape = y.shape[1:]
        target = torch.from_numpy(target).to(torch.get_default_dtype())
        return self._fit(sets, target, target.shape[1], criterion)

    def predict(self, X):
        """Predict the target of each set; for counts the rate, which is their mean.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``, with any number of points.

        Returns
        -------
        ndarray of shape (n_sets,) or (n_sets, n_targets)

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError, TypeError
            If sets are refused as in ``fit``, or their elements differ from those in ``fit``.
        """
        output = self._outputs(X)
        if hasattr(self, "_unit"):  # fit was given counts
            prediction = poisson_rate(output, self._unit).numpy()
        else:
            mean, scale = self._target_scale
            prediction = output.numpy() * scale + mean
        return prediction.reshape(-1, *self._target_shape)

    @available_if(
        lambda self: hasattr(self, "_unit") if hasattr(self, "module_") else self.loss == "poisson"
    )
    def predict_mode(self, X):
        """Most likely count of each set, with ``loss="poisson"``: the rate rounded down.

        Paper 001 compares this with the true count (section 4.2). It penalises a rate that is just
        below the count; as a best guess, round ``predict`` to the nearest integer.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``.

        Returns
        -------
        ndarray of int of shape (n_sets,) or (n_sets, n_targets)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        return np.floor(self.predict(X)).astype(np.int64)
