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
    """Classifier of sets: one sample is a set of vectors, and the order of these is no matter.

    A network of attention blocks reads a set of any size and pools it to the logits of its class.
    Unlike the meta-trained estimators of this package, it starts from nothing and is **trained
    by** ``fit``, on the sets given there: it wants hundreds of them, and minutes. Elements are
    standardised inside.

    Parameters
    ----------
    encoder : {"isab", "sab", "rff", "rffp_mean", "rffp_max"}, default="isab"
        How elements read each other. "isab": through ``n_inducing`` learned points, in time linear
        in the size of a set; "sab": directly; "rff": not at all; "rffp_mean" and "rffp_max":
        through the mean or maximum of all.
    pooling : {"pma", "mean", "sum", "max", "dotprod"}, default="pma"
        How they become one vector; "pma" is attention. Copies of an element are told from one, and
        so how many there are, by "sum" alone, beside ``encoder="rff"`` and ``norm="none"``; or
        give the number as a column of every element.
    width, n_heads, n_layers, n_inducing : int, default=64, 4, 2 and 16
        Length of an element's vector, attention heads, of which each has a part of it, blocks of
        the encoder, and learned points of "isab". Change ``max_epochs`` and ``width`` first.
    norm : {"pre", "post", "none"}, default="pre"
        Where a block normalises; "post" is the paper's. "none" is for targets that are to be told
        to several digits, such as the largest number of a set.
    dropout : float, default=0.0
        Share of the hidden units that are left out of each step of training.
    embedding : torch.nn.Module, default=None
        Applied to each element first, and trained with the rest: makes (n, n_numbers) of elements
        (n, ...), such as a convolutional network of images. Elements may then have any shape, and
        are not standardised. A copy is trained, from the weights that the module has.
    max_epochs : int, default=100
        Times that each set is seen.
    batch_size : int, default=32
        Sets a step, and sets that prediction reads at a time, which bounds memory.
    learning_rate : float, default=0.001
        Peak rate of AdamW: it rises over the first steps, then falls to zero along a cosine.
    weight_decay : float, default=0.01
        Of AdamW.
    early_stopping : bool, default=False
        Whether to hold out ``validation_fraction`` of the sets, to stop when ``n_iter_no_change``
        epochs have not lowered their loss, and to keep the weights of the lowest.
    validation_fraction : float, default=0.1
        Share of the sets that are held out.
    n_iter_no_change : int, default=10
        Epochs.
    device : str, default="auto"
        Torch device; "auto" is the GPU if there is one.
    random_state : int, RandomState instance or None, default=None
        Of the weights, of the order of the sets, of dropout and of what is held out.
    verbose : bool or int, default=False
        Whether to print a line an epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes seen in ``fit``.
    module_ : torch.nn.Module
        The trained network.
    history_ : skorch.history.History
        Losses by epoch: ``history_[:, "train_loss"]``, and "valid_loss" if sets were held out.
    n_iter_ : int
        Number of epochs.
    mean_, scale_ : ndarray of shape (n_features_in_,)
        By which elements are standardised, unless there is an embedding; the scale of what does
        not vary is infinite.
    n_features_in_ : int
        Number of cells of an element: d of sets (n_points, d).

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
            One set each: (n_points, n_features), or (n_points, ...) with an ``embedding``, or
            (n_points,) for sets of numbers. Or an array (n_sets, n_points, n_features), or
            (n_sets, n_points) for sets of numbers, where points that are all NaN are padding.
            Columns of DataFrames are told apart by their place, not by their names.
        y : array-like of shape (n_sets,)
            Classes: numbers or strings.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter cannot be used; a set is empty, or there is none; elements differ in
            shape, or are no vectors and there is no ``embedding`` that makes such of them; a cell
            is missing, infinite, complex or a date; labels are gaps, fractions or text beside
            numbers, of one class, or not one for each set; ``early_stopping`` has too few sets to
            hold some out; or training diverged.
        TypeError
            If sets or labels are sparse, or a cell is of another type than a number.

        Warns
        -----
        UserWarning
            If a Ctrl-C ended training after a complete epoch: the network is kept as it is then.
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
            Sets, as in ``fit``; of any number of points.

        Returns
        -------
        ndarray of shape (n_sets,)

        Raises
        ------
        NotFittedError
            If there was no ``fit``.
        ValueError, TypeError
            If sets are refused, as in ``fit``, or have other elements than there.
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X):
        """Probability of each class.

        Parameters
        ----------
        X : list of array-likes, or array-like
            Sets, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_sets, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in ``predict``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Logarithm of the probability of each class.

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
