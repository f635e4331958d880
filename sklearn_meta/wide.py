"""The wide part of text classifiers: linear models of words, pairs and triples of words.

What a network shares between tasks is how words are composed; what single words and a few together
say, a linear model of TF-IDF learns better from few texts. Both together are the "wide and deep"
of H.-T. Cheng et al. (2016); the linear models share as in stacking (D. Wolpert, 1992), and what
is shared weighs words as naive Bayes does (S. Wang and C. Manning, 2012).
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

#: Words, pairs and triples that are read, the most frequent ones.
MAX_NGRAMS = 100_000

#: What each further word of an n-gram multiplies its inverse document frequency by. Of few texts
#: most pairs and triples are in one alone, and as they are they make up four fifths of a text.
LESS_TOGETHER = 0.5

#: What scores of known tasks are multiplied by beside a text's words, whose length is one: as they
#: are, a penalty hardly holds them.
LESS_KNOWN = 0.4

#: C of logistic regression of a task's own words, and where it reads scores or texts of many tasks.
ALONE, BESIDE = 30, 10  # chosen on a validation split

#: Labelled texts by which a model that reads scores is compared with one that does not, at most,
#: and how likely the former is beforehand: who takes weights expects that they tell something.
N_COMPARED, EXPECTED = 400, 0.8

#: Parts of the texts, each of which is scored by a model of the others.
N_FOLDS = 5

#: Labelled texts of a task at which its own model and those of known tasks weigh the same.
AS_MANY = 20

#: Least probability of a label, where models are compared: no single text shall decide.
FLOOR = 0.02

#: The network's part in probabilities, and the texts of which it has half of that.
NETWORK, FOR_HALF = 1 / 3, 1000


def network_share(n_texts, known=0.0):
    """The network's part in probabilities: from few texts it learns less than a linear model.

    Parameters
    ----------
    n_texts : int
        That it has learned from.
    known : float in [0, 1], default=0.0
        Probability that what it learned of other tasks before tells something of these texts'
        labels: then it has its whole part.

    Returns
    -------
    float
    """
    return NETWORK * (known + (1 - known) * n_texts / (n_texts + FOR_HALF))


def words_and_few_together(text):
    """What a linear model reads of a text, a list of words."""
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
    """Features times how much they tell of two classes, the ratio r of naive Bayes.

    Of few texts r is too rough to gain by it: what one task learns alone goes without.

    References
    ----------
    S. Wang and C. Manning. Baselines and Bigrams: Simple, Good Sentiment and Topic Classification.
    ACL 2012, section 2.1.
    """

    def fit(self, X, y):
        # Their p and q: in how many texts of the class a feature is, and one more.
        self.ratio_ = np.diff(MultinomialNB().fit(X.sign(), y).feature_log_prob_, axis=0)[0]
        return self

    def transform(self, X):
        return X @ diags_array(self.ratio_)


def _shared_linear():
    """One of two labels, or one of each label against the others."""
    return OneVsRestClassifier(make_pipeline(_NaiveBayesWeights(), _linear()))


class SharedModel(nn.Module):
    """Weights that tasks share, of words or features that a ``_counts`` looks up."""

    #: Names of the lists that nothing changes, which copies share.
    constants = ()

    def __getstate__(self):
        """Without what was kept: it is made of the constants."""
        return {k: v for k, v in super().__getstate__().items() if k != "_counts"}

    def __deepcopy__(self, memo):
        """A copy of the weights; what nothing changes is not copied."""
        for name in self.constants:
            memo[id(getattr(self, name))] = getattr(self, name)
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._counts = self._counts
        return copied


class SharedLinear(SharedModel):
    """Logistic regression for each set of labels that tasks have, of all texts with them.

    Parameters
    ----------
    ngrams : sequence of str
        Words, and pairs and triples of words with a space between them.
    labels : sequence of sequences
        The sets, of which each has one score, or of three labels and more one a label.
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
        """Of each set of labels."""
        return [len(of_set) if len(of_set) > 2 else 1 for of_set in self.labels]

    @property
    def config(self):
        """Keyword arguments that build this module again."""
        return {"ngrams": self.ngrams, "labels": self.labels}

    @cached_property
    def _counts(self):
        """Of n-grams in texts: kept, since to look 100,000 of them up takes longer than to read."""
        return CountVectorizer(analyzer=words_and_few_together, vocabulary=self.ngrams)

    def scores(self, tokens):
        """What the linear models say of texts.

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
        """What the scores of some texts mean.

        Parameters
        ----------
        scores : ndarray of shape (n_texts, n_scores)

        Returns
        -------
        list of ndarray of shape (n_texts, n_labels)
            One for each set of labels.
        """
        each = np.split(expit(scores), np.cumsum(self._n_scores)[:-1], axis=1)
        return [
            np.hstack([1 - p, p]) if p.shape[1] == 1 else p / p.sum(1, keepdims=True) for p in each
        ]


def fit_shared(tasks, random_state=0):
    """What linear models learn of several tasks, and what models that have not seen them say.

    Parameters
    ----------
    tasks : dict
        Name -> (tokens, y, labels): lists of words, numbers of labels, and the labels.
    random_state : int, default=0
        Of the parts that are scored by models of the others.

    Returns
    -------
    shared : SharedLinear or None
        None if no set of labels has two texts of each.
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
    """How far models of known tasks tell the labels of a new one, and are heard beside its own.

    Its labels may be those of known tasks: where there are such with the very same labels, these,
    else any two for two labels, in either order. That is one half likely before a text is seen,
    and that they have nothing to do with each other as likely. The labelled texts, of which the
    known models tell the labels well or badly, make the posterior. Of n labelled texts, what known
    tasks say then has AS_MANY / (n + AS_MANY) of the say, if they are relevant for certain.

    Parameters
    ----------
    shared : SharedLinear
        Of the known tasks.
    labels : list
        Of the new task.
    y : sequence of int
        Numbers of the labels of its texts.
    scores : ndarray of shape (n_texts, n_scores)
        What ``shared`` says of these.
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
        """The mean of the own model's probabilities and those of known tasks.

        Parameters
        ----------
        own : ndarray of shape (n_texts, n_labels)
        told : list of ndarray of shape (n_texts, n_known_labels)
            Of :meth:`SharedLinear.probabilities`.

        Returns
        -------
        ndarray of shape (n_texts, n_labels)
        """
        known = [s * told[i][:, order] for s, (i, order) in zip(self.shares, self.meanings)]
        return (1 - self.shares.sum()) * own + sum(known)


class OwnLinear:
    """Logistic regressions of one task: one of its own words, one of these and shared scores.

    A pair of words has half of its inverse document frequency, a triple a quarter, and scores are
    multiplied by LESS_KNOWN. Where scores tell nothing of the labels they are noise, so the model
    that reads them has as much of the say as cross-validation speaks for it.

    Parameters
    ----------
    tokens : list of lists of str
    y : sequence of int
        Numbers of the labels, all of them from 0 on.
    scores : ndarray of shape (n_texts, n_scores), default=None
        Of models that have not seen these texts.

    Attributes
    ----------
    relevance : float in [0, 1]
        Posterior probability that scores tell something, to three digits; 0 without scores. Each
        text speaks once: of a copy words alone tell the label, whether it is theirs or not.
    """

    def __init__(self, tokens, y, scores=None):
        self.vectorizer = _vectorizer()
        weighed = self.vectorizer.fit_transform(tokens)
        further = [ngram.count(" ") for ngram in self.vectorizer.get_feature_names_out()]
        less = LESS_TOGETHER ** np.array(further)
        self.vectorizer.idf_ *= less
        words = normalize(weighed @ diags_array(less))  # as it reads texts from now on
        beside = None if scores is None else _beside(words, scores)
        self.relevance = 0.0
        if beside is not None:
            first = first_of_copies(tokens, scores, y)
            self.relevance = _relevance(words[first], beside[first], np.asarray(y)[first])
        # A model that has no say is not fitted: of many labels both take time and memory.
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
    """How likely the labels are told by a model that reads scores, not by one of words alone.

    It is EXPECTED beforehand; the evidence is what both say of texts they have not seen.
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
