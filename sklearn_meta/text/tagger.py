"""Labels of words: MetaLSTMTagger (paper 004, experiment II)."""

import copy
from numbers import Integral

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..tasks.texts import check_texts, is_list
from ..wide_tagging import decoded, fit_own, fit_shared_tags, linear_weight
from .base import TextEstimator
from .transfer import odds

#: ``max_epochs="auto"``: so many epochs, but at least so many mini-batches.
N_EPOCHS, LEAST_STEPS = 20, 200


class MetaLSTMTagger(TextEstimator):
    """Sentence tagger that can learn from other tasks how words are composed.

    A Meta-LSTM reads each sentence in both directions, and a conditional random field models which
    labels follow each other. Tasks share the Meta-LSTM and the word vectors, as in
    :class:`MetaLSTMClassifier`, whose parameters it has: ``meta_fit`` trains several tasks jointly,
    and ``fit`` then trains only the new task's own part.

    Parameters
    ----------
    backbone : str, path or Module, default="meta_lstm"
        As in :class:`MetaLSTMClassifier`. The meta-trained weights are ``"english_names"``, for
        names in English sentences, labelled such as "B-person" and "I-person".
    word_vectors, embedding_size, width, meta_width, rank, lowercase, min_df, max_words
        As in :class:`MetaLSTMClassifier`.
    spelling_size : int, default=50
        Length of a vector that is read beside each word's own and encodes its spelling: where it
        has capitals, digits and other characters, and its first and last letters, as in Huang, Xu
        and Yu (2015). 0 turns it off.
    wide : bool, default=True
        Whether linear-chain CRFs of words, their spelling and their neighbours stand beside the
        network (:mod:`sklearn_meta.wide_tagging`). Half of their scores is added to the network's,
        and up to all of them if sentences are few. ``meta_fit`` trains one CRF on the sentences of
        all tasks, in which a label means the same in every task. The CRF of each task starts from
        it if there are several, and so does that of a new task in ``fit``, if its words support
        this. Their time grows with the number of labels. If False, the network is used alone, as in
        the paper.
    max_length : int, default=500
        Maximum number of words read per sentence; the others are labelled "O", or the first label.
    learning_rate : float, default=4e-3
        The Meta-LSTM uses 0.3 of it; P and B of Eq. (13)-(14) use a tenth.
    max_epochs : int or "auto", default="auto"
        Epochs of ``fit``, and of ``meta_fit`` unless ``max_steps`` is given. "auto" is 20 epochs,
        but at least 200 mini-batches.
    dropout, batch_size, optimizer, device, random_state, verbose
        As in :class:`MetaLSTMClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels, sorted.
    learner_, estimators_, module_
        As in :class:`MetaLSTMClassifier`; the first two are absent after ``fit`` from scratch.
    history_ : skorch.history.History
        Losses of ``meta_fit``; absent if it was not called.
    fit_history_ : skorch.history.History
        Losses of ``fit``; absent if it was not called.
    begun_as_ : str or None
        As in :class:`MetaLSTMClassifier`; absent before ``fit``.
    linear_ : sklearn_meta.wide_tagging.LinearTags or None
        The linear model for the task of ``fit``; None without ``wide``.

    Notes
    -----
    On the data sets that we have, the Meta-LSTM labels as many spans correctly as a separate LSTM
    per task (``backbone="lstm"``): slightly more on one of four and slightly fewer on another. When
    several tasks are learned jointly, ``"ssp_mtl"`` is ahead of both. The linear models add 1 to 8
    points of F1 to each of them, but cost one point if new sentences differ in kind from the
    labelled ones; in that case set ``wide=False``.

    References
    ----------
    J. Chen, X. Qiu, P. Liu, X. Huang. Meta Multi-Task Learning for Sequence Modeling. AAAI 2018
    (paper 004). Z. Huang, W. Xu, K. Yu. Bidirectional LSTM-CRF Models for Sequence Tagging. 2015.

    Examples
    --------
    >>> from sklearn_meta import MetaLSTMTagger
    >>> sentences = [["Anna", "sleeps"], ["dogs", "see", "Anna"], ["Ben", "runs"]] * 8
    >>> tags = [["B-PER", "O"], ["O", "O", "B-PER"], ["B-PER", "O"]] * 8
    >>> tagger = MetaLSTMTagger(width=16, dropout=0.0, learning_rate=0.02)
    >>> tagger.fit(sentences, tags).predict([["Ben", "sleeps"]])
    [['B-PER', 'O']]
    """

    _task = "text_tagging"
    _default_head = "crf"
    _parameter_constraints = TextEstimator._parameter_constraints | {
        "max_epochs": [*TextEstimator._parameter_constraints["max_epochs"], StrOptions({"auto"})],
        "spelling_size": [Interval(Integral, 0, None, closed="left")],
    }
    _fitted = (*TextEstimator._fitted, "linear_", "_weight")
    linear_ = None  # with wide=False

    def __init__(
        self,
        backbone="meta_lstm",
        *,
        word_vectors=None,
        embedding_size=100,
        width=100,
        meta_width=40,
        rank=40,
        spelling_size=50,
        wide=True,
        lowercase=True,
        min_df=2,
        max_words=25_000,
        max_length=500,
        dropout=0.5,
        max_epochs="auto",
        batch_size=16,
        learning_rate=4e-3,
        optimizer="adamw",
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.backbone = backbone
        self.word_vectors = word_vectors
        self.embedding_size = embedding_size
        self.width = width
        self.meta_width = meta_width
        self.rank = rank
        self.spelling_size = spelling_size
        self.wide = wide
        self.lowercase = lowercase
        self.min_df = min_df
        self.max_words = max_words
        self.max_length = max_length
        self.dropout = dropout
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Learn one task.

        For sentences that ``meta_fit`` was given, use ``estimators_`` instead: the shared part of
        ``wide`` has seen their labels, and a new ``fit`` on them would trust it too much.

        Parameters
        ----------
        X : sequence of sequences of str
            Sentences, split into words.
        y : sequence of sequences of str, or of int
            Label of each word.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, OSError
            If a sentence has more or fewer labels than words; something is not a sentence, or none
            has a word; labels are neither all strings nor all integers; a parameter, word vectors
            or weights cannot be used or found; or training diverged.
        """
        return self._fit(X, y)

    def predict(self, X):
        """Predict the labels of the words of each sentence: the most probable sequence (Viterbi).

        ``cross_val_predict`` fails, since it makes an array of the predictions, which are lists of
        different lengths: predict each fold yourself. ``cross_val_score`` works as usual.

        Parameters
        ----------
        X : sequence of sequences of str

        Returns
        -------
        list of lists of str, or of int
            Of the type of the labels given to ``fit``.

        Raises
        ------
        NotFittedError, ValueError
            If ``fit`` was not called, or X is not a sequence of sentences that are sequences of
            words.
        """

        def what(module, inputs):
            told = module(**inputs, task=self._task_place)
            return [row[known] for row, known in zip(told.scores.double().cpu(), told.mask.cpu())]

        X = X if isinstance(X, str) or not np.iterable(X) else list(X)
        self._check_sentences(X)
        scores, crf = self._tell(X, what), self.module_.heads[self._task_place].crf
        if self.linear_ is not None:
            crf = _added(crf, self.linear_.crf, self._weight)
            linear = map(torch.from_numpy, self.linear_.scores(self._read_by_linear(X)))
            # In a sentence without words the network reads one word, the linear model none.
            scores = [a + self._weight * b if len(b) else a for a, b in zip(scores, linear)]
        told = decoded(crf, scores)
        labels = self.classes_.tolist()
        usual = "O" if "O" in labels else labels[0]
        found = []
        for sentence, tags in zip(X, told):
            known = self.classes_[tags].tolist()[: len(sentence)]  # [] if it has no words
            found.append(known + [usual] * (len(sentence) - len(known)))
        return found

    def score(self, X, y):
        """F1 of spans, as seqeval computes it, if labels are spans; otherwise the share correct.

        Parameters
        ----------
        X : sequence of sequences of str
        y : sequence of sequences of str, or of int
            Labels of the words. They are spans if ``classes_`` has only "O", "B-..." and "I-...".

        Returns
        -------
        float

        Raises
        ------
        NotFittedError, ValueError
            If ``fit`` was not called, sentences or labels are refused as in ``fit``, or labels are
            numbers where those of ``fit`` are strings, or the other way round.
        ImportError
            If labels are spans and seqeval is not installed.
        """
        y = self._checked_labels(X, y)
        told, one = self.predict(X), self.classes_.tolist()[0]
        if any(isinstance(label, str) != isinstance(one, str) for row in y for label in row):
            raise ValueError(
                f"Labels must be all strings or all numbers, as in fit, such as {one!r}."
            )
        if {str(label)[:2] for label in self.classes_.tolist()} <= {"O", "B-", "I-"}:
            if y == told:
                return 1.0  # even if there are no spans
            try:
                from seqeval.metrics import f1_score
            except ImportError as error:
                raise ImportError(
                    'Scoring spans requires seqeval. Run: pip install "sklearn_meta[text]"'
                ) from error
            return float(f1_score(y, told, zero_division=0))
        pairs = [pair for a, b in zip(y, told) for pair in zip(a, b)]
        return float(np.mean([a == b for a, b in pairs]))

    def _fit_linear_of_each(self, fitted, learner, read):
        tasks = {}
        for name, (tokens, y) in read.items():
            labels = learner.tasks[name]
            tasks[name] = self._read_by_linear(tokens), self._targets(y, labels), labels
        learner.wide = fit_shared_tags(tasks)
        n_sentences = sum(len(sentences) for sentences, *_ in tasks.values())
        for name, (sentences, tags, labels) in tasks.items():
            linear = learner.wide.of_labels(labels)
            if len(tasks) > 1:
                linear = fit_own(sentences, tags, len(labels), linear)
            fitted[name].linear_, fitted[name]._weight = linear, linear_weight(n_sentences)

    def _fit_linear(self, X, y):
        """Fit the linear model beside the network."""
        labels, read = self.classes_.tolist(), self._read_by_linear(X)
        tags = self._targets(y, labels)
        known = _known_tags(self.module_.wide, labels, read, tags)
        self.linear_ = fit_own(read, tags, len(labels), known)
        self._weight = linear_weight(len(X))

    def _read_by_linear(self, X):
        """Return the sentences cut to ``max_length`` words."""
        return [sentence[: self.max_length] for sentence in self._tokens(X)]

    def _n_steps(self, tasks, n_epochs):
        if n_epochs == "auto":
            return max(super()._n_steps(tasks, N_EPOCHS), LEAST_STEPS)
        return super()._n_steps(tasks, n_epochs)

    def _backbone_config(self):
        config = super()._backbone_config()
        if self.backbone == "meta_lstm":
            config["forget_bias"] = 0.0  # a word's label depends on its neighbours
        return config

    def _prepared(self, learner, read, what="Task"):
        """Leave out sentences without words, which have no label to learn from."""
        kept = {
            name: tuple(zip(*((words, tags) for words, tags in zip(*pair) if words)))
            for name, pair in read.items()
        }
        return super()._prepared(learner, kept, what)

    @staticmethod
    def _tokens(X):
        # Sentences of equal length may come as one array of words.
        return TextEstimator._tokens(X.tolist() if isinstance(X, np.ndarray) else X)

    @staticmethod
    def _check_sentences(X):
        single = isinstance(X, str) or not np.iterable(X)
        if single or any(isinstance(words, str) or not is_list(words) for words in X):
            raise ValueError("Sentences must be cut into words: give a list of lists of str.")
        for i, sentence in enumerate(X):
            for j, word in enumerate(sentence):
                if not isinstance(word, str):
                    raise ValueError(
                        f"Sentence {i}, word {j} is of type {type(word).__name__}: give str."
                    )

    def _checked_labels(self, X, y, n_classes=2):
        self._check_sentences(X)
        check_texts(X, y, self)
        for i, (words, labels) in enumerate(zip(X, y)):
            if isinstance(labels, str) or not is_list(labels) or len(words) != len(labels):
                raise ValueError(
                    f"Sentence {i} has {len(words)} words, but its labels are {labels!r}: give a "
                    "list with one label per word."
                )
        if not any(len(words) for words in X):
            raise ValueError("No sentence has a word: give one with words.")
        # A card is JSON, which has no NumPy scalars.
        y = [[tag.item() if hasattr(tag, "item") else tag for tag in labels] for labels in y]
        kinds = {type(label) for labels in y for label in labels}
        if kinds != {str} and kinds != {int}:
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(f"Labels must be all str or all int, got {' and '.join(names)}.")
        return y

    @staticmethod
    def _labels_of(y):
        return sorted({label for tags in y for label in tags})

    def _set_labels(self, labels):
        classes = np.asarray(labels)  # floats, if some integers are at least 2 ** 63
        self.classes_ = classes if classes.dtype.kind != "f" else np.array(labels, dtype=object)

    def _targets(self, y, labels):
        number = {label: i for i, label in enumerate(labels)}
        if unknown := sorted({label for tags in y for label in tags} - number.keys()):
            raise ValueError(f"Label {unknown[0]!r} is not one of {labels}.")
        # A sentence without words is read as one unknown word; its label does not matter.
        return [np.array([number[label] for label in tags[: self.max_length]] or [0]) for tags in y]


def _known_tags(shared, labels, sentences, tags):
    """Return the shared LinearTags of a new task's labels if its words support them, or None."""
    # Labels of the same name, such as 0 and 1, may mean something else in each task.
    known = None if shared is None else shared.of_labels(labels)
    if known is None:
        return None
    told = decoded(known.crf, map(torch.from_numpy, known.scores(sentences)))
    told, tags = np.concatenate(told), np.concatenate([t for t, s in zip(tags, sentences) if s])
    chance = np.bincount(tags).max() / len(tags)
    share = (told == tags).mean()
    return known if share > chance and odds(share, len(tags), chance) > 1 else None


def _added(crf, other, weight):
    """Return a CRF in float64 whose parameters are ``crf``'s plus ``weight`` times ``other``'s."""
    both = copy.deepcopy(crf).double()
    with torch.no_grad():
        for parameter, more in zip(both.parameters(), other.parameters()):
            parameter += weight * more
    return both
