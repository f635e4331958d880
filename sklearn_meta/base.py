"""Base of all estimators: meta-trained weights, device, meta_fit, clone and pickling."""

import copy
import weakref
from numbers import Integral
from pathlib import Path

import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from .backbones import BACKBONES
from .checkpoint import Begun
from .devices import autocast, placed, usable_device
from .fingerprint import weights_digest
from .folders import checkpoint_file
from .learner import Learner, as_text
from .seeding import seeded
from .settings import check_settings
from .tasks import as_source
from .tasks.sources import names_given
from .training import meta_train
from .user_warnings import warn
from .versions import VersionedEstimator
from .weights import available_weights, load_learner, save_pretrained
from .weights.validation import tables_seen

#: Learners passed in by a user, who may train them further.
_GIVEN = weakref.WeakSet()


class MetaEstimator(VersionedEstimator):
    """Base class of the estimators: holds a meta-trained learner beside the task's state.

    All subclasses have the parameters ``backbone``, ``device`` and ``random_state``; all but text
    estimators have ``dtype``; estimators of tables have ``head``, and ``MANNClassifier`` has
    ``label_encoding`` instead. ``meta_fit`` stores what it learned as ``learner_``: ``clone`` keeps
    it, and a new ``backbone`` or head drops it. Subclasses define their ``_task``, the
    ``_default_head`` of an architecture without weights, the weights that ``"default"`` means and,
    unless they have a ``meta_fit`` of their own, the class ``_sampler`` that draws its tasks. What
    ``fit`` must not leave behind if it fails, they name in ``_fitted``.
    """

    _default_weights = "default"
    _architectures = BACKBONES
    #: Name of the parameter that selects the head.
    _head_parameter = "head"
    #: Kind of targets expected in datasets. None decides by their values, since a classifier can
    #: cut the targets of a regression into classes.
    _expected_targets = None
    _learned = ("learner_", "history_")  # attributes that meta_fit sets

    def meta_fit(
        self,
        datasets,
        *,
        validation_datasets=None,
        max_steps=20_000,
        n_shots=None,
        n_unlabelled=None,
        batch_size=8,
        learning_rate=1e-3,
        optimizer="adamw",
        eval_every=500,
        patience=10,
        ema_decay=None,
        n_workers=0,
        callbacks=None,
        checkpoint_dir=None,
        verbose=True,
    ):
        """Meta-train the backbone over many datasets (Algorithm 1 of paper 000).

        Training starts from the weights that ``backbone`` names, or from random ones if it names an
        architecture; another call continues from what was learned. It is independent of ``fit``:
        the context of an earlier ``fit`` stays as it is, and later calls of ``fit`` and ``predict``
        use the new weights. Processes started by ``torchrun`` share each step.

        Parameters
        ----------
        datasets : mapping, iterable or source
            Pairs ``(X, y)`` of arrays or DataFrames, in a list or in a dict by name, where -1 (NaN
            in regression) marks unlabelled rows, for estimators that use them;
            :class:`sklearn_meta.tasks.Dataset` items; or anything with ``draw(rng) -> Dataset``,
            such as :class:`sklearn_meta.tasks.TablePrior`,
            :class:`~sklearn_meta.tasks.RegressionPrior` or a :class:`~sklearn_meta.tasks.Mixture`.
        validation_datasets : as ``datasets``, default=None
            Tasks drawn from these decide which weights are kept and when to stop. Trained weights
            whose loss is never improved on are kept. Without validation, the last weights are.
        max_steps : int, default=20000
            Steps of ``batch_size`` tasks; above ``eval_every``, rounded up to a multiple of it.
        n_shots : int or sequence of int, default=None
            Labelled rows (per class, for a classifier), drawn from these for each task; at most all
            rows but one. If None, (1, 3, 5, 10), or (5, 10, 15, 20, 40) for a regressor.
        n_unlabelled : int or (int, int), default=None
            Number of unlabelled rows (per class, for a classifier), or the range to draw it from.
            If None, 20, or (20, 100) for a regressor.
        batch_size : int, default=8
            Tasks per step.
        learning_rate : float, default=1e-3
            Peak learning rate, after a warm-up and before a cosine decay. For weights already
            trained, a lower rate such as 1e-4 may be better. Randomly initialised kernels and
            penalties of heads use thirty times this rate, except with "muon".
        optimizer : {"adagrad", "adamw", "muon", "rmsprop"}, default="adamw"
            "muon", with ``learning_rate=5e-3``, trained the default weights for regression; see
            :class:`sklearn_meta.optimizers.MuonAdamW`.
        eval_every : int, default=500
            Steps between validations, and between checkpoints.
        patience : int, default=10
            Validations (1 or more) without a better loss before training stops; None never does.
        ema_decay : float, default=None
            Decay, such as 0.999, of a moving average; it is validated and kept as the weights.
        n_workers : int, default=0
            Processes that prepare batches. The tasks drawn do not depend on their number.
        callbacks : list of skorch callbacks, default=None
            Used as they are, not copied. If a killed run is resumed, they start afresh.
        checkpoint_dir : path, default=None
            Folder of the checkpoint. If a killed run is called again with the same settings, it
            resumes from the checkpoint and ends with the same weights.
        verbose : bool, default=True
            Whether to show a progress bar.

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
            If the checkpoint cannot be written, a worker is killed, or the hub cannot be reached.
        """
        self._validate_params()
        episodes = {"n_shots": n_shots, "n_unlabelled": n_unlabelled}
        return self._meta_train(
            datasets,
            self._sampler(**{k: v for k, v in episodes.items() if v is not None}),
            validation_datasets,
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            eval_every=eval_every,
            patience=patience,
            ema_decay=ema_decay,
            n_workers=n_workers,
            n_groups=None,
            callbacks=callbacks,
            checkpoint_dir=checkpoint_dir,
            verbose=verbose,
        )

    def _source(self, datasets, **options):
        """Convert ``datasets`` of ``meta_fit`` to a source, with ``options``."""
        return as_source(datasets, task=self._expected_targets, **options)

    @torch.inference_mode(False)  # the caller may have switched it on
    def _meta_train(self, datasets, sampler, validation_datasets, read=None, /, **settings):
        """Train a copy of the current learner and store it as ``learner_``.

        ``read`` converts datasets to sources, which may be slow: everything else is checked first.
        """
        check_settings(settings | {"validation_source": validation_datasets})
        device, seed = self._device(), self._seed_of_all()
        learner = copy.deepcopy(self._starting_learner(seed)).requires_grad_(True)
        settings = {"patience": 10, "validate_start": hasattr(learner, "card")} | settings
        if self._begins_at_random() and settings.get("optimizer") != "muon":  # its rate is high
            settings["rate_factors"] = getattr(learner, "rate_factors", {})
        read = read or self._source
        source = read(datasets)
        validation_source = None if validation_datasets is None else read(validation_datasets)
        start, folder = weights_digest(learner), settings.get("checkpoint_dir")
        run = None if folder is None else str(checkpoint_file(folder).parent.resolve())
        # A user's own module may start from other weights each time the script runs.
        settings["start"] = None if isinstance(self.backbone, nn.Module) else start
        # If these weights are what this run left, resume it with the settings it began with.
        begun = vars(self).get("_begun")
        if begun and Begun(*begun).goes_on(run, start):
            settings |= begun[2]
        settings |= {"validation_source": validation_source, "device": device, "random_state": seed}
        self.history_ = meta_train(learner, source, sampler, **settings)
        # The card no longer describes the weights, but the tables seen before still count.
        seen = tables_seen(learner).union(names_given(datasets, source))
        learner.card = {"datasets": sorted(seen)}
        self.learner_ = learner.cpu().requires_grad_(False)
        if run is not None:
            as_begun = {name: settings.get(name) for name in ("start", "rate_factors")}
            self._begun = Begun(run, weights_digest(learner), as_begun)
        return self

    def save_pretrained(self, folder, /, **card):
        """Save the meta-trained weights, and nothing of ``fit``, to share them.

        Parameters
        ----------
        folder : path or str
            Folder for ``model.safetensors`` and its card ``model.json``, created if need be; or
            ``"hub:owner/name"``, an existing repository on the Hugging Face hub.
        **card : json values
            Entries of the card: data, recipe, seed, scores. Names of the tables seen, by which
            ``evaluate`` warns, are added; ``datasets=[]`` omits them.

        Returns
        -------
        pathlib.Path or str
            For ``backbone`` and ``from_pretrained``: the path, or the hub id with the commit.

        Raises
        ------
        NotFittedError
            If there are no meta-trained weights to save.
        ValueError
            If ``backbone`` is your own module, ``card`` is not json, or the repository is missing.
        ImportError
            If saving to the hub and ``huggingface_hub`` is not installed.
        OSError
            If the folder or the repository cannot be written.
        """
        self._validate_params()
        if self._names_an_architecture() and not hasattr(self, "learner_"):
            raise NotFittedError(
                "There are no meta-trained weights to save: call meta_fit first. To save what "
                "fit alone has learned, use pickle or joblib.dump."
            )
        return save_pretrained(self._learner(), folder, **card)

    @classmethod
    def from_pretrained(
        cls, name, *, revision=None, cache_dir=None, local_files_only=False, **params
    ):
        """Create an estimator with meta-trained weights from a folder or hub repository.

        Unlike ``backbone=name``, this loads the weights at once. ``backbone`` becomes their pinned
        name: that in the package, the path, or ``hub:owner/name@commit``.

        Parameters
        ----------
        name : str or path
            "default", or as in :func:`sklearn_meta.weights.load_learner`: an existing path wins
            over a hub id, ``owner/name`` or ``owner/name@revision``; with ``hub:`` before it, a
            name is always a hub id.
        revision, cache_dir, local_files_only
            As in :func:`sklearn_meta.weights.load_learner`.
        **params : dict
            Other parameters of the estimator.

        Returns
        -------
        estimator : object
            Its attribute ``learner_`` holds the weights, ``learner_.card`` their card.

        Raises
        ------
        ValueError, ImportError, OSError
            As in :func:`sklearn_meta.weights.load_learner`.
        """
        name = cls(backbone=name, **params)._weights_name()
        learner = load_learner(
            name, revision=revision, cache_dir=cache_dir, local_files_only=local_files_only
        )
        if learner.task != cls._task:
            raise ValueError(
                f"{name!r} was meta-trained for {learner.task}, and {cls.__name__} is for "
                f"{cls._task}. Choose other weights."
            )
        estimator = cls(backbone=learner, **params)
        estimator._learner()  # raises if another head is asked for
        _GIVEN.discard(learner)  # it was given for that check alone
        estimator.backbone = learner.card.get("hub", name)
        estimator.learner_ = learner
        return estimator

    def __setattr__(self, name, value):
        """Drop what was learned when ``backbone`` or the head changes, by ``set_params`` or not."""
        if name in ("backbone", self._head_parameter):
            now = vars(self).get(name, value)
            if value is not now and not (isinstance(value, str | Path) and value == now):
                for learned in self._learned:
                    vars(self).pop(learned, None)
        super().__setattr__(name, value)

    def _seed_of_all(self):
        """Seed as an int: a resumed run must have the seed of the interrupted one."""
        seed = self.random_state or 0
        return int(seed if isinstance(seed, Integral) else seed.randint(2**31))

    def _starting_learner(self, seed):
        if self._names_an_architecture() and not hasattr(self, "learner_"):
            with seeded(seed):
                return self._new_learner(self.backbone)
        return self._learner()

    def _begins_at_random(self):
        """Whether the head, and perhaps the backbone, is untrained."""
        given = isinstance(self.backbone, nn.Module) and not isinstance(self.backbone, Learner)
        return (self._names_an_architecture() or given) and not self._has_learned()

    def _has_learned(self):
        """Whether ``learner_`` exists and is more than what ``fit`` makes of a given module."""
        learner = vars(self).get("learner_")
        given = (learner, getattr(learner, "backbone", None))
        return learner is not None and self.backbone not in given

    def _new_learner(self, backbone):
        return Learner(backbone, self._head() or self._default_head, task=self._task)

    def _names_an_architecture(self):
        return isinstance(self.backbone, str) and self.backbone in self._architectures

    def _learner(self):
        """Return the current learner: meta-fitted, given by the user, or loaded."""
        if hasattr(self, "learner_"):
            return self.learner_
        backbone = self.backbone
        if isinstance(backbone, nn.Module):
            learner = backbone if isinstance(backbone, Learner) else self._new_learner(backbone)
            _GIVEN.add(learner)
        elif self._names_an_architecture():
            names = available_weights(self._task)
            raise NotFittedError(
                f"backbone={backbone!r} names an architecture without weights: call meta_fit first"
                + (f", or choose weights from {names}." if names else ".")
            )
        else:
            learner = load_learner(self._weights_name())
        if learner.task != self._task:
            raise ValueError(
                f"backbone={as_text(backbone)} was meta-trained for {learner.task}, and "
                f"{type(self).__name__} is for {self._task}. Choose other weights."
            )
        if self._head() is not None and self._head() != learner.names["head"]:
            name = self._head_parameter
            raise ValueError(
                f"{name}={self._head()!r} does not fit backbone={as_text(backbone)}, meta-trained "
                f"with {name}={learner.names['head']!r}. Leave {name}=None, or call meta_fit on an "
                f"architecture, such as backbone={next(iter(self._architectures))!r}."
            )
        return learner

    def _tables_seen(self):
        """Set of the names of the tables that the weights were trained on, as far as known."""
        return tables_seen(self._learner())

    def _head(self):
        return getattr(self, self._head_parameter, None)

    def _weights_name(self):
        return self._default_weights if self.backbone == "default" else self.backbone

    def _module(self, learner):
        """Copy of the learner on this estimator's device and in its dtype."""
        is_given = learner in _GIVEN or isinstance(self.backbone, nn.Module)
        return placed(learner, self._device(), self._torch_dtype(), may_change=is_given)

    def _device(self):
        return usable_device(self.device)

    def _torch_dtype(self):
        """Dtype of weights and inputs; autocast handles bfloat16."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    def _autocast(self):
        """Context manager for the forward pass."""
        return autocast(self._device(), self.dtype)

    def _forget(self):
        """Return to the unfitted state: a ``fit`` that fails leaves nothing of an earlier one."""
        for name in self._fitted:
            vars(self).pop(name, None)

    def __sklearn_clone__(self):
        clone = super().__sklearn_clone__()
        if self._has_learned():  # copy the weights, which fit never changes, and their run
            vars(clone).update({k: v for k, v in vars(self).items() if k in ("learner_", "_begun")})
        return clone

    def __getstate__(self):
        """Name the package's own weights instead of copying them; loading looks them up."""
        state = super().__getstate__()
        card = getattr(state.get("learner_"), "card", None) or {}
        shipped = isinstance(self.backbone, str) and self._weights_name() in available_weights()
        if "sha256" in card and shipped:
            del state["learner_"]
            state["_sha256"] = card["sha256"]
        return state

    def __setstate__(self, state):
        state = dict(state)
        sha256 = state.pop("_sha256", None)
        super().__setstate__(state)
        if sha256 is not None:
            self.learner_ = load_learner(self._weights_name())
            if self.learner_.card["sha256"] != sha256:
                warn(
                    f"The weights {self.backbone!r} installed here are not those the estimator "
                    "was pickled with: its predictions may differ.",
                )
