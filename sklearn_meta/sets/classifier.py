"""Classification of sets (paper 001)."""

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, _fit_context
from torch import nn

from ..cells import check_classes, whole_labels
from ..table_validation import check_labels
from .base import SetEstimator


class SetTransformerClassifier(ClassifierMixin, SetEstimator):
    """Classifier of sets: each sample is a set of vectors, whose order does not matter.

    A network of attention blocks reads a set of any size and pools it to class logits. Unlike the
    meta-trained estimators of this package, it starts from random weights and is **trained by**
    ``fit`` on the sets given: it needs hundreds of sets, and minutes. Elements are standardised
    internally.

    Parameters
    ----------
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
    classes_ : ndarray of shape (n_classes,)
        The classes seen in ``fit``.
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
    Set Transformer (paper 001), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.sets import SetTransformerClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(scale=1 + 9 * (i % 2), size=(i % 5 + 5, 2)) for i in range(200)]
    >>> y = ["narrow", "wide"] * 100
    >>> classifier = SetTransformerClassifier(max_epochs=5, random_state=0).fit(X[:150], y[:150])
    >>> classifier.score(X[150:], y[150:])
    1.0
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Train a new network on sets and their classes.

        Parameters
        ----------
        X : list of array-likes, or array-like
            One array-like per set: (n_points, n_features), or (n_points, ...) with an
            ``embedding``, or (n_points,) for sets of numbers. Or one array: (n_sets, n_points,
            n_features), or (n_sets, n_points) for sets of numbers, where points that are all NaN
            are padding. Columns of DataFrames are matched by position, not by name.
        y : array-like of shape (n_sets,)
            Class labels, numbers or strings.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter cannot be used; a set is empty, or there is none; elements differ in
            shape, or are not vectors and there is no ``embedding`` that makes them so; a cell is
            missing, infinite, complex or a date; labels are missing, are fractions, mix text and
            numbers, are of one class, or are not one per set; ``early_stopping`` has too few sets
            to hold some out; or training diverged.
        TypeError
            If sets or labels are sparse, or a cell is not a number.

        Warns
        -----
        UserWarning
            If Ctrl-C ended training after a complete epoch; the network is then kept as it is.
        """
        vars(self).pop("module_", None)  # a fit that fails leaves nothing of the one before
        if y is not None:
            check_labels(y)
        sets, y = self._validate(X, whole_labels(y))
        check_classes(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y holds one class only: "
                f"{self.classes_.tolist()[0]!r}."
            )
        target = torch.from_numpy(codes)
        return self._fit(sets, target, len(self.classes_), nn.CrossEntropyLoss(), stratify=codes)

    def predict(self, X):
        """Predict the class of each set.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``, with any number of points.

        Returns
        -------
        ndarray of shape (n_sets,)

        Raises
        ------
        NotFittedError
            If ``fit`` was not called.
        ValueError, TypeError
            If sets are refused as in ``fit``, or their elements differ from those in ``fit``.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_sets, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_sets, n_classes)

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        return log_softmax(self._outputs(X).numpy(), axis=1)
