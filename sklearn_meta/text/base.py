"""Base class of the estimators of texts: vocabulary, joint training, and training of one task."""

import math
from numbers import Integral, Real

import torch
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..backbones import TEXT_BACKBONES
from ..base import MetaEstimator
from ..callbacks import Patience
from ..fingerprint import weights_digest
from ..learner import as_text
from ..seeding import seeded
from ..settings import check_settings
from ..sizes import check_integers
from ..tasks.spelling import N_NUMBERS
from ..tasks.texts import (
    MiniBatches,
    TextTask,
    TextTasks,
    as_inputs,
    tokens_of,
    used_words,
    vocabulary,
    word_numbers,
)
from ..tasks.word_vectors import with_vectors
from ..text_learner import TextLearner
from ..training import meta_train
from .transfer import begin_as_nearest, warn_of_kept_settings, with_a_task

#: Factors on the learning rate: to fine-tune a task of ``meta_fit``, and to start a new task from
#: the weights of another.
FINE_TUNING, TRANSFER = 0.1, 0.5

OWN = "fit"  # name of the task that fit trains


class TextEstimator(MetaEstimator):
    """Base class of the estimators of texts; subclasses define what labels are.

    ``learner_`` is the network that ``meta_fit`` trained, with a private part for each of its
    tasks. ``module_`` has the same shared part, and one private part, for the task of ``fit``.
    """

    _architectures = TEXT_BACKBONES
    _learned = (*MetaEstimator._learned, "estimators_")
    _fitted = ("module_", "classes_", "begun_as_", "fit_history_")  # attributes that fit sets
    _parameter_constraints = {
        "backbone": "no_validation",
        "word_vectors": "no_validation",
        "embedding_size": [Interval(Integral, 1, None, closed="left")],
        "width": [Interval(Integral, 1, None, closed="left")],
        "meta_width": [Interval(Integral, 1, None, closed="left")],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "wide": ["boolean"],
        "lowercase": ["boolean"],
        "min_df": [Interval(Integral, 1, None, closed="left")],
        "max_words": [Interval(Integral, 1, None, closed="left"), None],
        "max_length": [Interval(Integral, 1, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "optimizer": [StrOptions({"adagrad", "adamw", "rmsprop"})],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    dtype = "float32"  # not a parameter
    spelling_size = 0  # a parameter of the tagger alone

    @torch.inference_mode(False)  # the caller may be in inference mode
    def meta_fit(
        self,
        tasks,
        *,
        validation_tasks=None,
        max_steps=None,
        eval_every=200,
        patience=None,
        fine_tune_epochs=0,
        callbacks=None,
        checkpoint_dir=None,
        verbose=True,
    ):
        """Train several tasks jointly (Eq. 9 of paper 004); each step is on a random one.

        Training always starts from random weights, and an earlier ``fit`` is forgotten.

        Parameters
        ----------
        tasks : dict
            Mapping of name to (texts, labels), in the form that ``fit`` accepts.
        validation_tasks : dict, default=None
            Tasks of the same names, to monitor training in ``history_``.
        max_steps : int, default=None
            Number of mini-batches; above ``eval_every``, rounded up to a multiple of it. If None,
            as many as ``max_epochs`` epochs over the texts of all tasks.
        eval_every : int, default=200
            Steps between validations, and between checkpoints.
        patience : int, default=None
            Validations without a better loss before training stops; the weights with the lowest
            loss are then kept. If None, the last weights are kept: after the learning rate has
            decayed they classify more texts correctly, if more confidently.
        fine_tune_epochs : int, default=0
            Epochs that afterwards train each task's private part alone, on the task's own texts;
            none if an interrupt or one of your callbacks ended joint training.
        callbacks : list of skorch callbacks, default=None
        checkpoint_dir : path, default=None
            Folder of the checkpoint, from which a killed run resumes.
        verbose : bool, default=True
            Whether to show a progress bar.

        Returns
        -------
        self : object
            With attributes ``learner_``, ``history_`` and ``estimators_``, a dict with the fitted
            estimator of each task.

        Raises
        ------
        ValueError, TypeError
            If there is no task; texts, labels, word vectors or a setting cannot be used;
            ``backbone`` is weights; the checkpoint belongs to another run; or training diverged.
        OSError
            If the checkpoint cannot be written, or the file of word vectors does not exist.
        """
        self._validate_params()
        self._seed = self._seed_of_all()
        if not self._names_an_architecture():
            raise ValueError(
                f"meta_fit begins with random weights: backbone must be one of "
                f"{list(self._architectures)}, got {as_text(self.backbone)}."
            )
        check_integers(0, fine_tune_epochs=fine_tune_epochs)
        self._device()  # raises now, not after all texts are read
        settings = {"eval_every": eval_every, "patience": patience, "callbacks": callbacks}
        settings |= {"keep": "best" if patience else "last", "checkpoint_dir": checkpoint_dir}
        steps = {} if max_steps is None else {"max_steps": max_steps}
        check_settings(settings | steps | {"validation_source": validation_tasks})
        read = self._read_tasks("tasks", tasks)
        words, vectors = self._words([text for texts, _ in read.values() for text in texts])
        labels = {name: self._labels_of(y) for name, (_, y) in read.items()}
        learner = self._build(words, vectors, labels)
        prepared = self._prepared(learner, read)
        n_steps = self._n_steps(prepared, self.max_epochs) if max_steps is None else max_steps
        validation = None
        if validation_tasks is not None:
            held_out = self._read_tasks("validation_tasks", validation_tasks, n_classes=1)
            if unknown := [name for name in held_out if name not in read]:
                raise ValueError(f"validation_tasks has {unknown[0]!r}, which is not in tasks.")
            validation = self._prepared(learner, held_out, "Validation task")
        settings |= {"start": weights_digest(learner), "verbose": verbose}
        history = self._train(learner, prepared, n_steps, validation=validation, **settings)
        n_done = eval_every * sum("train_loss" in epoch for epoch in history)
        stopped = Patience(validation and patience).is_over(history)
        if fine_tune_epochs and (n_done >= n_steps or stopped):  # otherwise interrupted
            for parameter in learner.shared_parameters():
                parameter.requires_grad_(False)
            for task in prepared:
                own = self._n_steps([task], fine_tune_epochs)
                self._train(learner, [task], own, rate=FINE_TUNING * self.learning_rate)
        learner.requires_grad_(False).cpu().eval().card = None
        estimators = self._of_each_task(learner, read)
        self._forget()
        self.history_, self.learner_, self.estimators_ = history, learner, estimators
        return self

    @torch.inference_mode(False)  # the caller may be in inference mode
    def _fit(self, X, y):
        """Train the private part of one task, or everything if nothing was learned before."""
        self._forget()
        y = self._checked_labels(X, y)
        self._seed = self._seed_of_all()
        tokens, labels = self._tokens(X), self._labels_of(y)
        if hasattr(self, "learner_") or not self._names_an_architecture():
            self.learner_ = self._learner()
            warn_of_kept_settings(self, self.learner_)
            learner = with_a_task(self.learner_, OWN, labels, self._seed)
            learner.dropout.p = self.dropout
        else:
            learner = self._build(*self._words(tokens), {OWN: labels})
        prepared = self._prepared(learner, {OWN: (tokens, y)})
        begun_as = None
        if hasattr(self, "learner_"):
            begun_as = begin_as_nearest(learner, self.learner_, *prepared, self._seed)
        rate = self.learning_rate * (1.0 if begun_as is None else TRANSFER)
        n_steps, verbose = self._n_steps(prepared, self.max_epochs), bool(self.verbose)
        self.fit_history_ = self._train(learner, prepared, n_steps, rate=rate, verbose=verbose)
        self.module_ = learner.requires_grad_(False).cpu().eval()
        self._task_place, self.begun_as_ = 0, begun_as
        self._set_labels(labels)
        if self.wide:
            try:
                self._fit_linear(X, y)
            except BaseException:  # interrupted without a linear model, it would pass for fitted
                self._forget()
                raise
        return self

    def _build(self, words, vectors, labels):
        """Build a learner with random weights, and with ``vectors`` of its words unless None."""
        config = self._backbone_config()
        if self.backbone == "asp_mtl":
            config["most_tasks"] = max(64, len(labels))
        with seeded(self._seed):
            learner = TextLearner(
                self.backbone,
                self._default_head,
                task=self._task,
                words=words,
                tasks=labels,
                n_inputs=self.embedding_size if vectors is None else vectors.shape[1],
                lowercase=self.lowercase,
                spelling=(N_NUMBERS, self.spelling_size) if self.spelling_size else None,
                dropout=self.dropout,
                backbone_config=config,
            )
        if vectors is not None:
            with torch.no_grad():
                learner.embedding.weight.zero_()[1:] = torch.from_numpy(vectors)
        return learner

    def _backbone_config(self):
        sizes = {"width": self.width}
        if self.backbone in ("meta_lstm", "hyper_lstm"):
            sizes |= {"meta_width": self.meta_width, "rank": self.rank}
        return sizes

    def _words(self, tokens):
        """Return the vocabulary, and vectors of its words (None without ``word_vectors``)."""
        if self.lowercase:
            tokens = [[word.lower() for word in text] for text in tokens]
        words = vocabulary(tokens, min(self.min_df, len(tokens)), self.max_words)
        words = words or vocabulary(tokens, 1, self.max_words)  # few texts may share no word
        if not words:
            raise ValueError("No text contains a word: give texts with words.")
        if self.word_vectors is None:
            return words, None
        return with_vectors(
            words,
            self.word_vectors,
            max_words=self.max_words,
            lowercase=self.lowercase,
            random_state=self._seed,
        )

    def _prepared(self, learner, read, what="Task"):
        """Convert tasks (tokens, labels) to a list of TextTask; errors call each ``what``."""
        places = {name: i for i, name in enumerate(learner.tasks)}
        prepared = []
        for name, (tokens, y) in read.items():
            try:
                targets = self._targets(y, learner.tasks[name])
            except ValueError as error:
                raise ValueError(f"{what} {name!r}: {error}") from error
            prepared.append(TextTask(name, self._numbers(learner, tokens), targets, places[name]))
        return prepared

    def _n_steps(self, tasks, n_epochs):
        return n_epochs * math.ceil(sum(len(task.texts) for task in tasks) / self.batch_size)

    def _train(self, learner, tasks, n_steps, *, validation=None, rate=None, **settings):
        usual = {"eval_every": n_steps, "verbose": False, "alone": True, "keep": "last"}
        words = used_words(*tasks, *(validation or ()))
        with learner.knowing(words):
            return meta_train(
                learner,
                TextTasks(tasks, words),
                MiniBatches(int(self.batch_size)),
                validation_source=validation and TextTasks(validation, words),
                max_steps=n_steps,
                batch_size=1,
                n_groups=1,
                n_pooled=1,
                n_validation=max(16, 4 * len(tasks)),
                learning_rate=rate or self.learning_rate,
                rate_factors=learner.rate_factors,
                optimizer=self.optimizer,
                weight_decay=1e-5,
                device=self._device(),
                precision="float32",
                random_state=self._seed,
                **usual | settings,
            )

    def _of_each_task(self, learner, read):
        """Return a dict with a fitted estimator for each task (tokens, labels) of ``meta_fit``."""
        fitted = {name: type(self)(**self.get_params(deep=False)) for name in read}
        for place, (name, estimator) in enumerate(fitted.items()):
            estimator.learner_ = estimator.module_ = learner
            estimator._task_place = place
            estimator._set_labels(learner.tasks[name])
        if self.wide:
            self._fit_linear_of_each(fitted, learner, read)
        return fitted

    def _read_tasks(self, what, tasks, n_classes=2):
        """Check the tasks of ``meta_fit``; return a dict of name to (tokens, labels)."""
        named = isinstance(tasks, dict) and all(isinstance(name, str) for name in tasks)
        if not named or not tasks:
            raise ValueError(f"{what} must be a dict from name (str) to (texts, labels).")
        read, title = {}, "Task" if what == "tasks" else "Validation task"
        for name, pair in tasks.items():
            try:
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise ValueError("expected a pair (texts, labels).")
                y = self._checked_labels(*pair, n_classes)
                read[name] = self._tokens(pair[0]), y
            except ValueError as error:
                raise ValueError(f"{title} {name!r}: {error}") from error
        return read

    def _new_learner(self, backbone):
        if isinstance(backbone, TextLearner):
            return backbone
        raise ValueError(
            f"backbone must be weights, a TextLearner or one of {list(self._architectures)}, got "
            f"{as_text(backbone)}."
        )

    @torch.inference_mode()
    def _tell(self, X, what):
        """Call ``what(module, inputs)`` on batches of texts of similar length.

        Returns a list with one result per text, in the order of ``X``.
        """
        check_is_fitted(self)
        module = self._module(self.module_)  # a copy, on the device
        texts = self._numbers(module, self._tokens(X))
        if not texts:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        told = {}
        for batch in gen_batches(len(order), 4 * int(self.batch_size)):
            inputs = as_inputs([texts[i] for i in order[batch]])
            inputs = {name: tensor.to(self._device()) for name, tensor in inputs.items()}
            with self._autocast():
                told.update(zip(order[batch], what(module, inputs)))
        return [told[i] for i in range(len(texts))]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "module_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def _numbers(self, learner, tokens):
        spelled = learner.spelling is not None
        return word_numbers(tokens, learner.words, self.max_length, learner.lowercase, spelled)

    @staticmethod
    def _tokens(X):
        """Split texts into words without changing their case."""
        return tokens_of(X, lowercase=False)
