"""Classification of texts: MetaLSTMClassifier (paper 004)."""

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted
from torch.nn.utils.rnn import pack_sequence

from ..backbones.meta_lstm import generated
from ..backbones.text_sharing import POOLINGS, SharedMeta
from ..class_labels import array_of, check_two_classes, labels_to_save, places_among
from ..tasks.texts import check_texts, first_of_copies, tokens_of
from ..wide import KnownTasks, OwnLinear, fit_shared, network_share
from .base import TextEstimator


class MetaLSTMClassifier(
    ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, TextEstimator
):
    """Text classifier that can learn from other tasks how words are composed.

    An LSTM reads a text, and a second one generates its weights at every word. The second LSTM and
    the word vectors can be learned from many tasks by ``meta_fit``; ``fit`` on a new task then
    leaves them unchanged and trains only the task's own part, by gradient steps. Without
    ``meta_fit``, ``fit`` trains everything from scratch. A linear model of words, pairs and triples
    stands beside the network, unless ``wide`` is False.

    Parameters
    ----------
    backbone : str, path or Module, default="meta_lstm"
        What tasks share: "meta_lstm", "lstm", "hyper_lstm", "ssp_mtl", "ssp_mtl_shared_only",
        "psp_mtl" or "asp_mtl"; or meta-trained weights: ``"english_reviews"``, which tell good from
        bad opinions in English, a path, a hub id (see :func:`sklearn_meta.weights.load_learner`),
        or a :class:`sklearn_meta.text_learner.TextLearner`.
    word_vectors : path or (list of str, ndarray), default=None
        Initial word vectors: a file in the format of GloVe or word2vec, or npz (see
        :func:`sklearn_meta.tasks.word_vectors.read_word_vectors`), or words and their vectors. They
        are scaled to a standard deviation of 0.3, and their words are known even if no text has
        them. If None, random.
    embedding_size : int, default=100
        Length of word vectors if ``word_vectors`` is None.
    width, meta_width, rank : int, default=100, 40 and 40
        Hidden units h of each LSTM, hidden units m of the generating LSTM, and its outputs z.
        Meta-trained weights keep their own, and so do their vocabulary and ``pooling``.
    pooling : {"max", "last"}, default="max"
        How hidden states become one vector per text: the maximum of every hidden unit over the
        words or, as in the paper, the hidden state after the last word.
    wide : bool, default=True
        Whether logistic regression on TF-IDF of words, pairs (counting half) and triples (a
        quarter) reads the texts, too. The network's share of a probability is a third if what was
        learned from other tasks predicts the labels; if it learned from n texts alone,
        n / (n + 1000) of a third. The rest is the logistic regression's. It also reads the
        predictions of linear models of known tasks, one per set of labels, as far as
        cross-validation supports this; if these predict the labelled texts well, and there are few,
        they get a share of their own (see :class:`sklearn_meta.wide.KnownTasks`). If False, the
        network is used alone, as in the paper.
    lowercase : bool, default=True
        Whether to convert texts to lower case; words with capitals of ``word_vectors`` are then
        left out. Meta-trained weights keep their own setting.
    min_df : int, default=2
        Number of texts that a word must occur in to be known to the network; 1 if no word is in so
        many. Meta-trained weights keep their words, whatever this and ``max_words`` are.
    max_words : int, default=25_000
        Size of the vocabulary. It is filled up with words of ``word_vectors``, which take memory
        but no training time. If None, all words of the texts and no others.
    max_length : int, default=500
        Maximum number of words read per text, which bounds time and memory; the rest is ignored.
    dropout : float, default=0.5
        Fraction of word vectors' values and of the output layer's inputs that training sets to 0.
    max_epochs : int, default=20
        Epochs of ``fit``, and of ``meta_fit`` unless ``max_steps`` is given.
    batch_size : int, default=16
        Texts per training step; prediction reads four times as many at once.
    learning_rate : float, default=2e-3
        Peak learning rate, after a warm-up and before a cosine decay. ``fit`` uses half of it if it
        starts from the weights of another task, ``begun_as_``.
    optimizer : {"adamw", "adagrad", "rmsprop"}, default="adamw"
        "adagrad" is the paper's, with ``learning_rate=0.1``. On the reviews that we have it is two
        percentage points less accurate in joint training, and four on one domain alone.
    device : str, default="auto"
        Torch device; "auto" uses a CUDA GPU if there is one, otherwise the CPU.
    random_state : int, RandomState instance or None, default=None
        Seed of weights and batches; None means 0.
    verbose : bool, default=False
        Whether ``fit`` shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    learner_ : TextLearner
        What ``meta_fit`` learned, or the weights in use; absent after ``fit`` from scratch.
    estimators_ : dict
        Fitted classifier of each task of ``meta_fit``; absent if it was not called.
    module_ : TextLearner
        The network for the task of ``fit``.
    linear_ : sklearn_meta.wide.OwnLinear or None
        The linear model for this task; None without ``wide``.
    begun_as_ : str or None
        Task of ``meta_fit`` whose weights ``fit`` started from: of those with exactly the same
        labels, the one that predicts most of them correctly, if too many for labels with another
        meaning. None if there is no such task. Absent before ``fit``.
    history_, fit_history_ : skorch.history.History
        Losses of ``meta_fit`` and of ``fit``; absent if these were not called.

    References
    ----------
    J. Chen, X. Qiu, P. Liu, X. Huang. Meta Multi-Task Learning for Sequence Modeling. AAAI 2018
    (paper 004).

    H.-T. Cheng et al. Wide & Deep Learning for Recommender Systems. DLRS 2016. S. Wang, C. Manning.
    Baselines and Bigrams: Simple, Good Sentiment and Topic Classification. ACL 2012 (``wide``).

    Examples
    --------
    >>> from sklearn_meta import MetaLSTMClassifier
    >>> films = ["a fine film", "a dull film", "fine and warm", "dull and cold"] * 8
    >>> books = ["a fine book", "a dull book", "warm and fine", "cold and dull"] * 8
    >>> small = MetaLSTMClassifier(embedding_size=8, width=8, max_epochs=10, learning_rate=0.02)
    >>> small = small.meta_fit({"films": (films, [1, 0, 1, 0] * 8)}, verbose=False)
    >>> small.fit(books, ["good", "bad", "good", "bad"] * 8).predict(["a warm book"]).tolist()
    ['good']
    """

    _task = "text_classification"
    _default_head = "softmax"
    _parameter_constraints = TextEstimator._parameter_constraints | {
        "pooling": [StrOptions(set(POOLINGS))],
    }
    _fitted = (*TextEstimator._fitted, "linear_", "_known", "_share")
    linear_ = _known = None  # with wide=False

    def __init__(
        self,
        backbone="meta_lstm",
        *,
        word_vectors=None,
        embedding_size=100,
        width=100,
        meta_width=40,
        rank=40,
        pooling="max",
        wide=True,
        lowercase=True,
        min_df=2,
        max_words=25_000,
        max_length=500,
        dropout=0.5,
        max_epochs=20,
        batch_size=16,
        learning_rate=2e-3,
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
        self.pooling = pooling
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

        For texts that ``meta_fit`` was given, use ``estimators_`` instead: the shared part of
        ``wide`` has seen their labels, and a new ``fit`` on them would trust it too much.

        Parameters
        ----------
        X : sequence of str, or of sequences of str
            Texts, or texts split into words, as languages without spaces require.
        y : array-like of shape (n_texts,)
            Class labels, numbers or strings.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError, OSError
            If there is only one class; something is not a text, or no text has a word; labels are
            missing, neither numbers nor strings, sparse, or not one per text; a parameter, word
            vectors or weights cannot be used or found; or training diverged.
        """
        return self._fit(X, y)

    def predict(self, X):
        """Predict the class of each text.

        Parameters
        ----------
        X : sequence of str, or of sequences of str

        Returns
        -------
        ndarray of shape (n_texts,)

        Raises
        ------
        NotFittedError, ValueError
            As in ``predict_proba``.
        """
        most_probable = self.predict_proba(X).argmax(1)  # raises if there was no fit
        return self.classes_[most_probable]

    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : sequence of str, or of sequences of str

        Returns
        -------
        ndarray of shape (n_texts, n_classes)

        Raises
        ------
        NotFittedError, ValueError
            If ``fit`` was not called, or X is a single text or holds something that is not a text.
        """
        check_is_fitted(self)
        tokens = self._tokens(X)
        told = self._network_proba(tokens)
        if self.linear_ is None:
            return told
        tokens, scores = self._read_by_linear(tokens)
        own = self._share * told + (1 - self._share) * self.linear_.predict_proba(tokens, scores)
        if self._known is None:
            return own
        return self._known.beside(own, self.module_.wide.probabilities(scores))

    def _network_proba(self, X):
        """Class probabilities of the network alone."""

        def what(module, inputs):
            scores = module(**inputs, task=self._task_place).scores
            return scores.double().softmax(1).cpu().numpy()

        return np.stack(self._tell(X, what))

    def transform(self, X):
        """Vector of each text: the network's hidden states, pooled.

        Parameters
        ----------
        X : sequence of str, or of sequences of str

        Returns
        -------
        ndarray of shape (n_texts, width)
            Twice the width for "psp_mtl" and "asp_mtl", which have two LSTMs.

        Raises
        ------
        NotFittedError, ValueError
            As in ``predict_proba``.
        """

        def what(module, inputs):
            return module.read(**inputs, task=self._task_place)[1].cpu().numpy()

        return np.stack(self._tell(X, what))

    @property
    def _n_features_out(self):
        return sum(backbone.n_outputs for backbone in self.module_.backbones)

    def words_of(self, text):
        """Words of a text as the network reads them.

        Parameters
        ----------
        text : str or sequence of str

        Returns
        -------
        list of str

        Raises
        ------
        NotFittedError, ValueError
            If ``fit`` was not called, or ``text`` is not a text.
        """
        check_is_fitted(self)
        return tokens_of([text], self.module_.lowercase)[0][: self.max_length]

    def generated_weights(self, text):
        """The weights that the Meta-LSTM generates at each word, W(z) of Eq. (13).

        Parameters
        ----------
        text : str or sequence of str

        Returns
        -------
        ndarray of shape (n_words, 4, width, embedding_size + width)
            For the new input, output gate, input gate and forget gate; applied to words and to
            states. A text without words is read as one unknown word.

        Raises
        ------
        NotFittedError, ValueError
            If ``fit`` was not called, the network is not a Meta-LSTM, or ``text`` is not a text.
        """

        def what(module, inputs):
            backbone = module.backbones[0]
            if not isinstance(backbone, SharedMeta):
                raise ValueError("Only a network of backbone='meta_lstm' generates weights.")
            basic = backbone.private[self._task_place]
            x = pack_sequence([module.vectors(inputs["words"][0])])
            return [basic.matrices(generated(backbone.shared, basic, x)).double().cpu().numpy()]

        return self._tell([text], what)[0]

    def _checked_labels(self, X, y, n_classes=2):
        check_texts(X, y, self)
        y = labels_to_save(y)
        if n_classes > 1:
            check_two_classes(self, np.unique(y), "texts")
        return y

    def _fit_linear_of_each(self, fitted, learner, read):
        tasks = {}
        for name, (tokens, y) in read.items():
            labels, tokens = learner.tasks[name], tokens_of(tokens, self.lowercase)
            tasks[name] = tokens, np.array(places_among(labels, y)), labels
        learner.wide, scores = fit_shared(tasks, self._seed)
        share = network_share(sum(len(tokens) for tokens, *_ in tasks.values()))
        for name, (tokens, y, _) in tasks.items():
            fitted[name].linear_, fitted[name]._share = OwnLinear(tokens, y, scores[name]), share

    def _fit_linear(self, X, y):
        """Fit the linear models beside the network."""
        tokens, scores = self._read_by_linear(X)
        labels = self.classes_.tolist()
        numbers = np.array(self._targets(y, labels))
        self.linear_ = OwnLinear(tokens, numbers, scores)
        known = self.linear_.relevance if scores is not None else hasattr(self, "learner_")
        self._share = network_share(len(X), known)
        if scores is not None:
            first, shared = first_of_copies(tokens, scores, numbers), self.module_.wide
            self._known = KnownTasks(shared, labels, numbers[first], scores[first])

    def _read_by_linear(self, X):
        """Return the words of texts, and the scores of known tasks' linear models, or None."""
        tokens, shared = tokens_of(X, self.module_.lowercase), self.module_.wide
        return tokens, None if shared is None else shared.scores(tokens)

    def _backbone_config(self):
        return super()._backbone_config() | {"pooling": self.pooling}

    @staticmethod
    def _labels_of(y):
        return np.unique(y).tolist()

    def _set_labels(self, labels):
        self.classes_ = array_of(labels)

    @staticmethod
    def _targets(y, labels):
        return [np.int64(place) for place in places_among(labels, y)]
