"""Fit-free few-shot classification in episodes of a fixed shape (paper 003)."""

import math

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from .backbones import FEW_SHOT_BACKBONES
from .cells import check_classes
from .class_labels import check_two_classes
from .few_shot_learner import FewShotLearner
from .rows import RowEstimator
from .table_validation import check_observed
from .tasks import NWayKShot, TableEpisodes, Vectors, deal, in_units_of, moments_of
from .tasks.running import projection
from .tournament import play

#: Maximum power that probabilities are raised to when there are many labelled rows.
SHARPEST = 3.0


class FewShotTransformerClassifier(ClassifierMixin, RowEstimator):
    """Classifier that reads a few labelled rows and a query together, as one sequence.

    The network was meta-trained on episodes of N classes with K labelled rows each. It reads an
    episode at once, as a sequence, and attention carries the labels to the query. The default
    weights use the labels to compare rows, too, which is not in the paper. Other numbers of classes
    and rows are handled by many such episodes: every member of an ensemble takes other rows in
    another order, classes beyond N meet in a tournament, and if there are fewer classes or rows
    than an episode has places, some are taken several times. ``fit`` takes no gradient step: it
    stores the labelled rows.

    Predictions do not depend on each other. They do depend somewhat on the order of the labelled
    rows, of the columns and of the class names, which determine the rows that a member takes, and
    their order.

    Parameters
    ----------
    backbone : str, path or torch.nn.Module, default="default"
        Meta-trained weights: a name in ``sklearn_meta.weights.available_weights()``, the path of a
        file or folder, a hub id (see :func:`sklearn_meta.weights.load_learner`), or a
        :class:`sklearn_meta.few_shot_learner.FewShotLearner`. "default" reads tables with any
        columns; ``"omniglot_few_shot"`` reads drawings of 28 x 28 pixels in [0, 1], where ink is 1.
        The architectures ``"few_shot_transformer"``, ``"transformer"`` and ``"snail"`` come without
        weights and require ``meta_fit`` first.
    n_estimators : int, default=16
        Number of ensemble members, whose probabilities are averaged. Each takes other rows of every
        class in another order and, for tables, sees another rotation of the columns. More members
        are added if it takes more to use every labelled row once, so time grows with the number of
        labelled rows.
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
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    X_ : ndarray of shape (n_rows, n_columns)
        The labelled rows, encoded as numbers.
    y_ : ndarray of shape (n_rows,)
        Class codes of these rows.
    encoder_ : TableEncoder
        Converts the columns of tables to numbers; absent if the weights read rows as they are.
    learner_ : FewShotLearner
        The meta-trained network in use.
    history_ : skorch.history.History
        Losses of ``meta_fit``, if it was called.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of these columns, if all are strings.

    Notes
    -----
    Episodes have equally many rows of every class, all classes are equally likely in them, and with
    many labelled rows their probabilities are too cautious. Therefore the probability of a class is
    multiplied by the fourth root of one more than its number of labelled rows. The results are then
    raised to a power: the square root of the mean number of labelled rows per class, at most 3.
    With one labelled row per class nothing changes. This is not in the paper; it was chosen on
    validation tables. If labelled rows were not drawn as they occur, label equally many of each
    class.

    In a tournament, C classes play in groups of at most N. The winners of the groups play on, and a
    loser's odds are its winner's times the odds between the two within the group (Luce's choice
    axiom). A tournament takes about C / (N - 1) episodes per query and member.

    References
    ----------
    O. König. Few-Shot Transformers. Master's thesis, Leiden University, 2021 (paper 003).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_meta import FewShotTransformerClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> labelled = [0, 1, 2, 60, 61, 62, 140, 141, 142]
    >>> classifier = FewShotTransformerClassifier().fit(X[labelled], y[labelled])
    >>> bool(classifier.score(X, y) > 0.8)
    True
    """

    _task = "few_shot"
    _default_weights = "default_few_shot"
    _architectures = FEW_SHOT_BACKBONES
    _learner_class = FewShotLearner
    _fitted = ("X_",)
    _draws_none_of = (
        "episodes of the shape that its network reads: leave {} out, or pass a FewShotLearner of "
        "another shape as backbone."
    )

    def __init__(
        self,
        backbone="default",
        *,
        n_estimators=16,
        chunk_size=256,
        device="auto",
        dtype="float32",
        random_state=None,
    ):
        self.backbone = backbone
        self.n_estimators = n_estimators
        self.chunk_size = chunk_size
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Store the labelled rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            NaN and None are missing cells. Columns of dtype category are categorical, and so are
            columns of text, unless all of it is numbers. Weights for vectors and images read
            numbers only. Images are pixels in [0, 1]; of colour images all pixels of one channel
            come first, then those of the next, as :class:`sklearn_meta.tasks.Pictures` arranges
            bytes.
        y : array-like of shape (n_rows,)
            Class labels, numbers or strings; -1 is a class like any other.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is only one class; labels are missing, are fractions, mix text and numbers, or
            are not one per row; rows do not have the length that the weights read, or pixels are
            not in [0, 1]; a cell is infinite or cannot be encoded, or no cell is observed; or a
            parameter or the weights cannot be used.
        TypeError
            If X or y is sparse, or only some column names are strings.
        NotFittedError
            If ``backbone`` names an architecture and ``meta_fit`` was not called.
        OSError
            If weights cannot be fetched from the hub.
        """
        X, y = self._rows_and_labels(X, y, reset=True)
        self._device()  # raises now rather than at the first prediction
        check_classes(y)
        self.classes_, self.y_ = np.unique(y, return_inverse=True)
        check_two_classes(self, self.classes_)
        if self.learner_.inputs == "tables":
            self._moments = moments_of(check_observed(X))
        self.X_, self._fitted_for = X.copy(), _rows_of(self.learner_)
        return self

    def predict(self, X):
        """Predict the class of each row.

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
        most_probable = self.predict_proba(X).argmax(1)  # raises NotFittedError before fit
        return self.classes_[most_probable]

    @torch.inference_mode()
    def predict_proba(self, X):
        """Predict class probabilities.

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
            If ``fit`` was not called, or ``meta_fit`` has since produced a network for other rows.
        ValueError, TypeError
            If X has no rows, other columns than in ``fit`` or an infinite cell, or is sparse.
        """
        check_is_fitted(self)
        module, rows = self._module(self.learner_), self._asked_rows(X)
        with self._autocast():
            known, members = self._encoded(module, self.X_), self._members(module)
            probabilities = [
                self._probabilities(module, members, known, self._encoded(module, rows[chunk]))
                for chunk in self._chunks(len(rows))
            ]
        return self._beyond_episodes(torch.cat(probabilities).cpu().numpy())

    def meta_fit(
        self,
        datasets,
        *,
        vectors=None,
        n_queries=5,
        validation_datasets=None,
        max_steps=20_000,
        batch_size=16,
        learning_rate=1e-3,
        schedule="cosine",
        **settings,
    ):
        """Meta-train the network over many episodes of its shape.

        Parameters
        ----------
        datasets : mapping, iterable or source
            As in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`; for example
            :class:`sklearn_meta.tasks.TablePrior`, or :class:`sklearn_meta.tasks.Omniglot` with
            ``vectors=Drawings(28)``. A network of tables reads pairs ``(X, y)`` as tables, others
            as rows of finite numbers, used as they are.
        vectors : callable, default=None
            Function that turns rows into the vectors that the network reads:
            :class:`sklearn_meta.tasks.Drawings`, which also augments them, or a callable that takes
            some rows, their class codes and a random generator. If None,
            :class:`sklearn_meta.tasks.TableEpisodes` for a network of tables; other networks read
            the rows as they are.
        n_queries : int, default=5
            Queries per episode.
        batch_size : int, default=16
            Episodes per step.
        validation_datasets, max_steps, learning_rate, **settings
            As in :meth:`sklearn_meta.base.MetaEstimator.meta_fit`, with the same defaults.
            ``n_shots`` and ``n_unlabelled`` are not accepted: episodes have the learner's shape.
        schedule : {"cosine", "noam", "constant"}, default="cosine"
            Course of the learning rate; "noam" and "constant" are the paper's (section 3.5).

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, OSError
            As there; or if ``n_shots`` or ``n_unlabelled`` is given, or the network cannot read the
            datasets or ``vectors``.
        TypeError
            If a setting is unknown.
        """
        self._validate_params()
        learner = self._starting_learner(0)  # has the shape of the learner to be trained
        read = self._reader(learner, vectors)
        shape = {"n_ways": learner.n_ways, "n_shots": learner.n_shots, "n_queries": n_queries}
        if learner.inputs == "tables" and vectors is None:
            sampler = TableEpisodes(learner.n_inputs, **shape)
        else:
            vectors = vectors or Vectors(learner.n_inputs)
            sampler = NWayKShot(vectors, fewer_classes=0.3, **shape)
        return self._meta_train(
            datasets,
            sampler,
            validation_datasets,
            read,
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            n_groups=1,
            **settings,
        )

    def _beyond_episodes(self, probabilities):
        """Adjust probabilities of episodes to the numbers of labelled rows, as the Notes describe.

        Episodes are too cautious, the more so the more labelled rows there are, and treat all
        classes as equally likely.
        """
        counts = np.bincount(self.y_)
        sharpness = min(np.sqrt(counts.mean()), SHARPEST)
        logits = np.log(probabilities.clip(np.finfo(float).tiny)) + np.log(counts + 1) / 4
        return softmax(sharpness * logits, axis=1)

    def _encoded(self, module, X):
        """Rows as all members read them, standardised or embedded by the image encoder: (n, I)."""
        if module.inputs == "tables":
            X = in_units_of(self._moments, X)
        X = np.array(X, order="C")  # torch refuses negative strides and warns of read-only memory
        x = torch.from_numpy(X).to(self._device(), self._torch_dtype())
        return torch.cat([module.encode(x[chunk]) for chunk in self._chunks(len(x))])

    def _members(self, module):
        """Rows that each member may take, a list of int tensors (n_classes, n_places)."""
        n_classes, n_ways = len(self.classes_), module.n_ways
        shuffled = [
            self._generator(0, c).permutation(np.flatnonzero(self.y_ == c))
            for c in range(n_classes)
        ]
        # Number of rows that a member takes of a class at least; the next member starts after them.
        n_taken = module.n_shots * (n_ways // min(n_classes, n_ways))
        n_rounds = math.ceil(max(map(len, shuffled)) / n_taken)
        # The last round of a tournament may have fewer classes, which then take more rows.
        turns = np.arange(n_ways * module.n_shots)
        return [
            torch.from_numpy(np.stack([c[(e * n_taken + turns) % len(c)] for c in shuffled]))
            for e in range(max(self.n_estimators, n_rounds))
        ]

    def _probabilities(self, module, members, known, asked):
        """Mean over members, (n_rows, n_classes), float64."""
        each = (self._member(module, e, rows, known, asked) for e, rows in enumerate(members))
        return sum(each) / len(members)

    def _member(self, module, e, rows, known, asked):
        """Probabilities from one member, which may take the labelled ``rows``."""
        rng, n_ways = self._generator(1, e), module.n_ways
        if module.inputs == "tables":
            rotation = torch.from_numpy(projection(known.shape[1], module.n_inputs, rng))
            known, asked = (x @ rotation.to(x) for x in (known, asked))

        def contest(classes):
            labels, turns = map(
                torch.from_numpy, deal(classes.shape[1], n_ways, module.n_shots, rng)
            )
            places = rows[classes[:, labels], turns].to(known.device)  # (1 or Q, L)
            labels = labels.to(known.device).expand(len(places), -1)
            query = asked.unflatten(0, (len(places), -1))
            told = module.compare(known[places], labels, query)
            return told.flatten(0, 1)[:, : classes.shape[1]].double().log_softmax(1).cpu()

        # If there are fewer classes than ways, the first classes fill the remaining places: roll
        # the order, so that members take turns.
        order = torch.from_numpy(np.roll(self._generator(2).permutation(len(rows)), e))
        return play(contest, order[None], n_ways).softmax(1)[:, order.argsort()]

    def __sklearn_is_fitted__(self):
        fitted = hasattr(self, "X_") and hasattr(self, "learner_")
        return fitted and self._fitted_for == _rows_of(self.learner_)  # meta_fit may change it


def _rows_of(learner):
    """Kind and length of the rows that a learner reads; rows of tables may have any length."""
    return learner.inputs, None if learner.inputs == "tables" else learner.n_inputs
