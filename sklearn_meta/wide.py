"""The wide part of text classifiers: linear models of words, pairs and triples of words.

A network shares between tasks how words are composed. What single words, pairs and triples mean, a
linear model of TF-IDF learns better from few texts. Both together are the "wide and deep" of H.-T.
Cheng et al. (2016). The linear models share between tasks as in stacking (D. Wolpert, 1992), and
the shared ones weight words as naive Bayes does (S. Wang and C. Manning, 2012).
"""

import copy
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import diags_array, hstack
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from torch import nn

from .rotated_rows import fit_linear, rotated
from .tasks.texts import first_of_copies

#: Maximum number of words, pairs and triples; the most frequent ones are kept.
MAX_NGRAMS = 100_000

#: Factor on the inverse document frequency of an n-gram for each word beyond the first. With few
#: texts most pairs and triples occur in a single text, and without the factor they make up four
#: fifths of a text's weight.
LESS_TOGETHER = 0.5

#: Factor on the scores of known tasks beside a text's words, which have length one: without it, a
#: penalty on the coefficients hardly affects the scores.
LESS_KNOWN = 0.4

#: C of the logistic regression on a task's own words alone, and of models that read scores, or
#: texts of many tasks.
ALONE, BESIDE = 30, 10  # chosen on a validation split

#: Maximum number of labelled texts on which a model that reads scores is compared with one that
#: does not, and prior probability of the former: whoever uses weights expects them to be of use.
N_COMPARED, EXPECTED = 400, 0.8

#: Number of folds of the texts, each scored by a model of the others.
N_FOLDS = 5

#: Number of labelled texts at which a task's own model and known tasks weigh the same.
AS_MANY = 20

#: Minimum probability of a label when models are compared, so that no single text decides.
FLOOR = 0.02

#: The network's share of the probabilities, and number of texts at which it has half of that.
NETWORK, FOR_HALF = 1 / 3, 1000


def network_share(n_texts, known=0.0):
    """The network's share of the probabilities: from few texts it learns less than a linear model.

    Parameters
    ----------
    n_texts : int
        Number of texts that it was trained on.
    known : float in [0, 1], default=0.0
        Probability that what it learned from other tasks predicts the labels of these texts; at 1
        it has its full share.

    Returns
    -------
    float
    """
    return NETWORK * (known + (1 - known) * n_texts / (n_texts + FOR_HALF))


def words_and_few_together(text):
    """Words, pairs and triples of a text (a list of words), which a linear model reads."""
    text = text or [""]
    pairs, triples = zip(text, text[1:]), zip(text, text[1:], text[2:])
    return [*text, *map(" ".join, pairs), *map(" ".join, triples)]


def _vectorizer():
    return TfidfVectorizer(
        analyzer=words_and_few_together, sublinear_tf=True, max_features=MAX_NGRAMS
    )


def _linear(C=BESIDE):
    return LogisticRegression(C=C, max_iter=1000)


class _NaiveBayesWeights(TransformerMixin, BaseEstimator):
    """Scale features by how well they separate two classes, the log ratio r of naive Bayes.

    From few texts r is too inaccurate to help, so the models of a single task do without it.

    References
    ----------
    S. Wang and C. Manning. Baselines and Bigrams: Simple, Good Sentiment and Topic Classification.
    ACL 2012, section 2.1.
    """

    def fit(self, X, y):
        # The paper's p and q: one plus the number of texts of a class with the feature.
        self.ratio_ = np.diff(MultinomialNB().fit(X.sign(), y).feature_log_prob_, axis=0)[0]
        return self

    def transform(self, X):
        return X @ diags_array(self.ratio_)


def _shared_linear():
    """One model for two labels; otherwise one per label, against the others."""
    return OneVsRestClassifier(make_pipeline(_NaiveBayesWeights(), _linear()))


class SharedModel(nn.Module):
    """Weights that tasks share, of the words or features that ``_counts`` looks up."""

    #: Names of lists that never change; copies share them.
    constants = ()

    def __getstate__(self):
        """Leave out the cached ``_counts``, which is made from the constants."""
        return {k: v for k, v in super().__getstate__().items() if k != "_counts"}

    def __deepcopy__(self, memo):
        """Copy the weights, but share the constants and ``_counts``."""
        for name in self.constants:
            memo[id(getattr(self, name))] = getattr(self, name)
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._counts = self._counts
        return copied


class SharedLinear(SharedModel):
    """One logistic regression per set of labels, trained on all texts of tasks with that set.

    Parameters
    ----------
    ngrams : sequence of str
        Words, and pairs and triples of words joined by spaces.
    labels : sequence of sequences
        The sets of labels. A set of two labels has one score, a larger one has one per label.
    """

    constants = ("ngrams",)

    def __init__(self, ngrams, labels):
        super().__init__()
        self.ngrams, self.labels = list(ngrams), [list(of_set) for of_set in labels]
        n_scores = sum(self._n_scores)
        self.register_buffer("idf", torch.ones(len(self.ngrams)))
        self.register_buffer("coef", torch.zeros(n_scores, len(self.ngrams)))
        self.register_buffer("intercept", torch.zeros(n_scores))

    @property
    def _n_scores(self):
        """Number of scores of each set of labels."""
        return [len(of_set) if len(of_set) > 2 else 1 for of_set in self.labels]

    @property
    def config(self):
        """Keyword arguments that build this module again."""
        return {"ngrams": self.ngrams, "labels": self.labels}

    @cached_property
    def _counts(self):
        """Counter of n-grams. Cached: building its vocabulary takes longer than reading texts."""
        return CountVectorizer(analyzer=words_and_few_together, vocabulary=self.ngrams)

    def scores(self, tokens):
        """Scores of texts by the linear models.

        Parameters
        ----------
        tokens : list of lists of str

        Returns
        -------
        ndarray of shape (n_texts, n_scores)
        """
        weighed = TfidfTransformer(sublinear_tf=True)
        weighed.idf_ = self.idf.double().numpy()
        coef, intercept = self.coef.double().numpy(), self.intercept.double().numpy()
        return weighed.transform(self._counts.transform(tokens)) @ coef.T + intercept

    def probabilities(self, scores):
        """Convert scores of texts to probabilities of labels.

        Parameters
        ----------
        scores : ndarray of shape (n_texts, n_scores)

        Returns
        -------
        list of ndarray of shape (n_texts, n_labels)
            One array per set of labels.
        """
        each = np.split(expit(scores), np.cumsum(self._n_scores)[:-1], axis=1)
        return [
            np.hstack([1 - p, p]) if p.shape[1] == 1 else p / p.sum(1, keepdims=True) for p in each
        ]


def fit_shared(tasks, random_state=0):
    """Fit linear models to several tasks, and score each text by models that have not seen it.

    Parameters
    ----------
    tasks : dict
        Name -> (tokens, y, labels): lists of words, label numbers, and the labels.
    random_state : int, default=0
        Seed of the folds of cross-validation.

    Returns
    -------
    shared : SharedLinear or None
        None if no set of labels has two texts of each label.
    scores : dict
        Name -> ndarray of shape (n_texts, n_scores), or None.
    """
    vectorizer = _vectorizer()
    X = vectorizer.fit_transform([text for tokens, *_ in tasks.values() for text in tokens])
    y = np.concatenate([numbers for _, numbers, _ in tasks.values()])
    of_task = np.repeat(np.arange(len(tasks)), [len(tokens) for tokens, *_ in tasks.values()])
    sets = {}
    for i, (*_, labels) in enumerate(tasks.values()):
        sets.setdefault(tuple(labels), []).append(i)
    learned, columns = {}, []
    for labels, members in sets.items():
        rows = np.flatnonzero(np.isin(of_task, members))
        least = np.bincount(y[rows], minlength=len(labels)).min()
        if least < 2:
            continue
        learned[labels] = _shared_linear().fit(X[rows], y[rows])
        told = learned[labels].decision_function(X)
        folds = StratifiedKFold(min(N_FOLDS, least), shuffle=True, random_state=random_state)
        told[rows] = cross_val_predict(
            _shared_linear(), X[rows], y[rows], cv=folds, method="decision_function"
        )
        columns.append(told.reshape(len(y), -1))
    if not learned:
        return None, dict.fromkeys(tasks)
    shared = SharedLinear(vectorizer.get_feature_names_out().tolist(), learned)
    models = [model for of_set in learned.values() for model in of_set.estimators_]
    coef = np.concatenate([linear.coef_ * weights.ratio_ for weights, linear in models])
    shared.idf.copy_(torch.from_numpy(vectorizer.idf_))
    shared.coef.copy_(torch.from_numpy(coef))
    shared.intercept.copy_(torch.from_numpy(np.concatenate([m[-1].intercept_ for m in models])))
    told = np.concatenate(columns, axis=1)
    return shared, {name: told[of_task == i] for i, name in enumerate(tasks)}


class KnownTasks:
    """Weights of the models of known tasks beside a new task's own model.

    The labels of the new task may mean the same as those of known tasks: of those with the very
    same labels, or else, for two labels, of any with two labels, in either order. The prior
    probability that they do is one half. How well the known models predict the labelled texts gives
    the posterior. With n labelled texts, known tasks that are certainly relevant get the weight
    AS_MANY / (n + AS_MANY).

    Parameters
    ----------
    shared : SharedLinear
        Models of the known tasks.
    labels : list
        Labels of the new task.
    y : sequence of int
        Label numbers of its texts.
    scores : ndarray of shape (n_texts, n_scores)
        Scores of these texts by ``shared``.
    """

    def __init__(self, shared, labels, y, scores):
        straight, n = list(range(len(labels))), len(y)
        self.meanings = [(i, straight) for i, known in enumerate(shared.labels) if known == labels]
        if not self.meanings and len(labels) == 2:
            pairs = [i for i, known in enumerate(shared.labels) if len(known) == 2]
            self.meanings = [(i, order) for i in pairs for order in ([0, 1], [1, 0])]
        told = shared.probabilities(scores)
        right = [told[i][np.arange(n), np.array(order)[y]] for i, order in self.meanings]
        evidence = [np.log(p.clip(FLOOR, 1 - FLOOR) * len(labels)).sum() for p in right]
        likely = softmax([np.log(max(len(right), 1)), *evidence])[1:]
        self.shares = AS_MANY / (n + AS_MANY) * likely

    def beside(self, own, told):
        """Weighted mean of the own model's probabilities and those of known tasks.

        Parameters
        ----------
        own : ndarray of shape (n_texts, n_labels)
        told : list of ndarray of shape (n_texts, n_known_labels)
            From :meth:`SharedLinear.probabilities`.

        Returns
        -------
        ndarray of shape (n_texts, n_labels)
        """
        known = [s * told[i][:, order] for s, (i, order) in zip(self.shares, self.meanings)]
        return (1 - self.shares.sum()) * own + sum(known)


class OwnLinear:
    """Logistic regressions of one task: one on its words, one on its words and shared scores.

    A pair of words gets half its inverse document frequency, a triple a quarter, and scores are
    multiplied by LESS_KNOWN. Scores that do not predict the labels are noise, so cross-validation
    decides how much weight the model that reads them has.

    Parameters
    ----------
    tokens : list of lists of str
    y : sequence of int
        Label numbers; every number from 0 on occurs.
    scores : ndarray of shape (n_texts, n_scores), default=None
        Scores by models that have not seen these texts.

    Attributes
    ----------
    relevance : float in [0, 1]
        Posterior probability that scores are of use, to three digits; 0 without scores. Copies of a
        text count once: the words of a copy would reveal its label in cross-validation.
    """

    def __init__(self, tokens, y, scores=None):
        self.vectorizer = _vectorizer()
        weighed = self.vectorizer.fit_transform(tokens)
        further = [ngram.count(" ") for ngram in self.vectorizer.get_feature_names_out()]
        less = LESS_TOGETHER ** np.array(further)
        self.vectorizer.idf_ *= less
        words = normalize(weighed @ diags_array(less))  # as ``transform`` does from now on
        beside = None if scores is None else _beside(words, scores)
        self.relevance = 0.0
        if beside is not None:
            first = first_of_copies(tokens, scores, y)
            self.relevance = _relevance(words[first], beside[first], np.asarray(y)[first])
        # Do not fit a model with weight zero: with many labels, each takes time and memory.
        if self.relevance < 1:
            self.alone = fit_linear(_linear(ALONE), words, y)
        if self.relevance > 0:
            self.reading_scores = fit_linear(_linear(BESIDE), beside, y)

    def predict_proba(self, tokens, scores=None):
        """Probability of each label.

        Parameters
        ----------
        tokens : list of lists of str
        scores : ndarray of shape (n_texts, n_scores), default=None

        Returns
        -------
        ndarray of shape (n_texts, n_labels)
        """
        words, told = self.vectorizer.transform(tokens), 0.0
        if self.relevance < 1:
            told += (1 - self.relevance) * self.alone.predict_proba(words)
        if self.relevance > 0:
            beside = _beside(words, scores)
            told += self.relevance * self.reading_scores.predict_proba(beside)
        return told


def _beside(words, scores):
    return hstack([words, LESS_KNOWN * scores], format="csr")


def _relevance(words, beside, y):
    """Posterior probability that a model with scores is right, rather than one of words alone.

    The prior is EXPECTED; the evidence is the likelihood of held-out texts under both models.
    """
    rows = np.random.default_rng(0).permutation(len(y))[:N_COMPARED]
    rows = rows[np.bincount(y[rows])[y[rows]] > 1]
    labels, y = np.unique(y[rows], return_inverse=True)
    if len(labels) < 2:
        return EXPECTED
    folds = StratifiedKFold(min(N_FOLDS, np.bincount(y).min()), shuffle=True, random_state=0)

    def evidence(model, X):
        told = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        return np.log(told[np.arange(len(y)), y].clip(FLOOR)).sum()

    reading = evidence(_linear(BESIDE), rotated(beside[rows])[0])
    alone = evidence(_linear(ALONE), rotated(words[rows])[0])
    return round(float(expit(logit(EXPECTED) + reading - alone)), 3)
