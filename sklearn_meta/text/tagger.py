"""Labels of words: MetaLSTMTagger (paper 004, experiment II)."""

from numbers import Integral

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from ..tasks.texts import check_texts, is_list
from .base import TextEstimator


class MetaLSTMTagger(TextEstimator):
    """Tagger of sentences that can learn how to compose words from other tasks.

    A Meta-LSTM reads each sentence both ways, and a conditional random field says which labels
    follow each other. Tasks share the Meta-LSTM and the word vectors, as in
    :class:`MetaLSTMClassifier`, of which it has the parameters: ``meta_fit`` trains several tasks
    jointly, and ``fit`` afterwards trains only what is the new task's own.

    Parameters
    ----------
    backbone, word_vectors, embedding_size, width, meta_width, rank, lowercase, min_df, max_words
        As of :class:`MetaLSTMClassifier`.
    spelling_size : int, default=50
        Length of a vector that is read beside each word's own and tells how it is spelled: where
        it has capitals, digits and other signs, and its first and last letters, as in Huang, Xu
        and Yu (2015). 0 leaves it out.
    max_length : int, default=500
        Words of a sentence that are read; the rest gets "O", or the first of the labels.
    learning_rate : float, default=4e-3
        The Meta-LSTM learns at 0.3 of it, P and B of Eq. (13)-(14) at a tenth.
    dropout, max_epochs, batch_size, optimizer, device, random_state, verbose
        As of :class:`MetaLSTMClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels, sorted.
    learner_, estimators_, module_
        As of :class:`MetaLSTMClassifier`; the first two are absent after a ``fit`` from nothing.
    history_ : skorch.history.History
        Losses of ``meta_fit``; absent if that was not called.
    fit_history_ : skorch.history.History
        Losses of ``fit``; absent before it.
    begun_as_ : str or None
        As of :class:`MetaLSTMClassifier`; absent before ``fit``.

    Notes
    -----
    On the sets at hand the Meta-LSTM labels as many spans right as an LSTM for each task
    (``backbone="lstm"``), a little more on one of four and a little less on another. Where several
    tasks are learned jointly, ``"ssp_mtl"`` is ahead of both. With a few hundred sentences 20
    epochs are too short for any of them: raise ``max_epochs`` until it is 800 mini-batches or more.

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
        "spelling_size": [Interval(Integral, 0, None, closed="left")]
    }

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
        lowercase=True,
        min_df=2,
        max_words=25_000,
        max_length=500,
        dropout=0.5,
        max_epochs=20,
        batch_size=16,
        learning_rate=4e-3,
        optimizer="adamw",
        device="auto",
        random_state=None,
        verbose=False,
    ):
        super().__init__(
            backbone,
            word_vectors=word_vectors,
            embedding_size=embedding_size,
            width=width,
            meta_width=meta_width,
            rank=rank,
            lowercase=lowercase,
            min_df=min_df,
            max_words=max_words,
            max_length=max_length,
            dropout=dropout,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.spelling_size = spelling_size

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Learn one task.

        Parameters
        ----------
        X : sequence of sequences of str
            Sentences, cut into words.
        y : sequence of sequences of str, or of int
            The label of each word.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a sentence has more or fewer labels than words, something is no sentence, or labels
            are neither all strings nor all integers.
        """
        self._forget()  # a fit that fails leaves nothing of the one before
        y = self._checked_labels(X, y)
        return self._fit(X, y, self._labels_of(y))

    def predict(self, X):
        """Labels of the words of each sentence: the most probable sequence (Viterbi).

        Lists of different length are no array, which ``cross_val_predict`` would make of them:
        predict the sentences of each fold by themselves. ``cross_val_score`` is as everywhere.

        Parameters
        ----------
        X : sequence of sequences of str

        Returns
        -------
        list of lists of str, or of int
            As the labels are that it learned from.
        """

        def what(module, inputs):
            told = module(**inputs, task=self._task_place)
            tags = told.head.crf.decode(told.scores, told.mask).cpu().numpy()
            return [row[row >= 0] for row in tags]

        X = X if isinstance(X, str) else list(X)
        self._check_sentences(X)
        told = self._tell(X, what)
        labels = self.classes_.tolist()
        usual = "O" if "O" in labels else labels[0]
        found = []
        for sentence, tags in zip(X, told):
            known = self.classes_[tags].tolist()[: len(sentence)]  # none of no words
            found.append(known + [usual] * (len(sentence) - len(known)))
        return found

    def score(self, X, y):
        """F1 of the spans, as seqeval counts them, if labels are spans; or share of right labels.

        Parameters
        ----------
        X : sequence of sequences of str
        y : sequence of sequences of str, or of int
            Labels are spans if ``classes_`` are "O", "B-..." and "I-..." and nothing else.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If labels are numbers where those of ``fit`` are strings, or the other way round.
        ImportError
            If labels are spans and seqeval is not installed.
        """
        y = self._checked_labels(X, y)
        told = self.predict(X)
        one = self.classes_.tolist()[0]
        if any(isinstance(label, str) != isinstance(one, str) for row in y for label in row):
            raise ValueError(
                f"Labels are strings and numbers: fit was given such as {one!r}, so give the same."
            )
        if {str(label)[:2] for label in self.classes_.tolist()} <= {"O", "B-", "I-"}:
            if y == told:
                return 1.0  # of no spans at all, too
            try:
                from seqeval.metrics import f1_score
            except ImportError as error:
                raise ImportError(
                    "Spans are scored by seqeval. Run: pip install 'sklearn_meta[text]'"
                ) from error
            return float(f1_score(y, told, zero_division=0))
        pairs = [pair for a, b in zip(y, told) for pair in zip(a, b)]
        return float(np.mean([a == b for a, b in pairs]))

    def _backbone_config(self):
        config = super()._backbone_config()
        if self.backbone == "meta_lstm":
            config["forget_bias"] = 0.0  # a word's label is told by its neighbours
        return config

    def _prepared(self, learner, read, what="Task"):
        """Without sentences of no words, which have no label to learn from."""
        kept = {
            name: tuple(zip(*((words, tags) for words, tags in zip(*pair) if words)))
            for name, pair in read.items()
        }
        return super()._prepared(learner, kept, what)

    @staticmethod
    def _tokens(X):
        # Sentences of one length may be an array of words.
        return TextEstimator._tokens(X.tolist() if isinstance(X, np.ndarray) else X)

    @staticmethod
    def _check_sentences(X):
        if isinstance(X, str) or any(
            isinstance(sentence, str) or not is_list(sentence) for sentence in X
        ):
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
                    f"Sentence {i} has {len(words)} words, and its labels are {labels!r}: give a "
                    "list of one label for each word."
                )
        if not any(len(words) for words in X):
            raise ValueError("No sentence has a word: give one that has.")
        # Numpy's scalars are no JSON, which a card is.
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
        classes = np.asarray(labels)  # of numbers below and above 2 ** 63 numpy makes floats
        self.classes_ = classes if classes.dtype.kind != "f" else np.array(labels, dtype=object)

    def _targets(self, y, labels):
        number = {label: i for i, label in enumerate(labels)}
        if unknown := sorted({label for tags in y for label in tags} - number.keys()):
            raise ValueError(f"Label {unknown[0]!r} is not one of those that were trained.")
        # A sentence of no words is read as one unknown word, whose label is any.
        return [np.array([number[label] for label in tags[: self.max_length]] or [0]) for tags in y]
