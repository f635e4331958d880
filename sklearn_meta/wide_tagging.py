"""The wide part of taggers: linear-chain CRFs of words, their spelling and their neighbours.

Vectors and what composes them are learned from few sentences slowly; what single words, their ends
and the words beside them say of a label, a linear model learns at once. The scores of both are
added, the "wide and deep" of H.-T. Cheng et al. (2016). A linear CRF was the usual tagger before
networks (J. Lafferty et al., 2001). Tasks share one of all their sentences, from whose weights each
task's own differ as little as may be (H. Daume III, 2007; C. Chelba and A. Acero, 2004).
"""

import copy
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import gen_batches
from torch import nn

from .heads.crf import LinearChainCRF
from .tasks.spelling import spelling_features

#: Words before and behind that are read, and of these those whose spelling is read, too.
WINDOW, SPELLED = 2, 1

#: Features that are read, the most frequent ones.
MAX_FEATURES = 200_000

#: Of the sum of squares of all weights, in the loss; chosen on a validation split.
PENALTY = 0.1

#: Steps of L-BFGS at most.
MAX_STEPS = 100

#: Sentences of like length that are read at a time.
BATCH = 256

#: What a CRF has beside the scores of words.
OF_CRF = ("start", "transitions", "end")


def features_of(sentence):
    """What a linear model reads of each word.

    Parameters
    ----------
    sentence : list of str

    Returns
    -------
    list of lists of str
        For each word, those up to ``WINDOW`` words away and the spelling of those up to
        ``SPELLED`` away, and where they stand.
    """
    words = [f"={word.lower()}" for word in sentence]
    spelled = [spelling_features(word) for word in sentence]
    found = []
    for i in range(len(sentence)):
        features = ["always"]
        for j in range(max(i - WINDOW, 0), min(i + WINDOW + 1, len(sentence))):
            features.append(f"{j - i}{words[j]}")
            if abs(j - i) <= SPELLED:
                features += [f"{j - i} {feature}" for feature in spelled[j]]
        found.append(features)
    return found


class SharedTags(nn.Module):
    """A linear CRF for the labels of several tasks, of all their sentences.

    Parameters
    ----------
    features : sequence of str
    labels : sequence of str or int
        Of all tasks; those of the same name are one.
    n_weights : int
        How many pairs of a feature and a label have a weight that is not zero.
    """

    def __init__(self, features, labels, n_weights):
        super().__init__()
        self.features, self.labels = list(features), list(labels)
        self.register_buffer("starts", torch.zeros(len(self.features) + 1, dtype=torch.int32))
        self.register_buffer("places", torch.zeros(n_weights, dtype=torch.int32))
        self.register_buffer("weights", torch.zeros(n_weights))
        n = len(self.labels)
        for name, shape in zip(OF_CRF, [(n,), (n, n), (n,)]):
            self.register_buffer(name, torch.zeros(shape))

    @cached_property
    def _vectorizer(self):
        """Of the features: kept, since to look all of them up takes longer than to read."""
        return _vectorizer(vocabulary=self.features)

    def __getstate__(self):
        """Without what was kept: it is made of the features."""
        return {k: v for k, v in super().__getstate__().items() if k != "_vectorizer"}

    def __deepcopy__(self, memo):
        """A copy of the weights; features and labels, which nothing changes, are not copied."""
        for part in (self.features, self.labels):
            memo[id(part)] = part
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._vectorizer = self._vectorizer
        return copied

    @property
    def config(self):
        """Keyword arguments that build this module again."""
        n_weights = len(self.weights)
        return {"features": self.features, "labels": self.labels, "n_weights": n_weights}

    def of_labels(self, labels):
        """The model of the labels of one task, of which at least one is known.

        Parameters
        ----------
        labels : list

        Returns
        -------
        LinearTags or None
            None if no label is known. Those that are not have scores of zero.
        """
        places = {label: i for i, label in enumerate(self.labels)}
        known = [i for i, label in enumerate(labels) if label in places]
        if not known:
            return None
        there = [places[labels[i]] for i in known]
        own = {name: buffer.cpu().double().numpy() for name, buffer in self.named_buffers()}
        shape = len(self.features), len(self.labels)
        weights = csr_array((own["weights"], self.places.cpu(), self.starts.cpu()), shape=shape)
        # Row i of it has a one where label i of these is.
        pick = np.zeros((shape[1], len(labels)))
        pick[there, known] = 1.0
        of_crf = own["start"] @ pick, pick.T @ own["transitions"] @ pick, own["end"] @ pick
        return LinearTags(self._vectorizer, weights @ csr_array(pick), _crf(*of_crf))


class LinearTags:
    """A linear-chain CRF whose scores of a word are sums of the weights of what is read of it.

    Parameters
    ----------
    vectorizer : CountVectorizer
        Of the features of a word.
    coef : sparse array of shape (n_features, n_tags)
    crf : LinearChainCRF
        In double precision.
    begun : LinearTags, default=None
        To whose scores and CRF these weights are added.
    """

    def __init__(self, vectorizer, coef, crf, begun=None):
        self.vectorizer, self.coef, self.crf, self.begun = vectorizer, coef, crf, begun

    def scores(self, sentences):
        """Scores of the tags of each word.

        Parameters
        ----------
        sentences : list of lists of str

        Returns
        -------
        list of ndarray of shape (n_words, n_tags)
        """
        scores = (self.vectorizer.transform(_read(sentences)) @ self.coef).toarray()
        ends = np.cumsum([len(words) for words in sentences])
        scores = np.split(scores, ends[:-1])
        if self.begun is None:
            return scores
        return [own + more for own, more in zip(scores, self.begun.scores(sentences))]


def fit_own(sentences, tags, n_tags, begun=None):
    """The linear CRF of one task: the least loss, which is convex.

    The loss is the negative log-likelihood of the sentences' tags and ``PENALTY`` times the sum of
    the squares of all weights, or of what they differ by from those that it begins with.

    Parameters
    ----------
    sentences : list of lists of str
    tags : list of int arrays
        Of each word.
    n_tags : int
    begun : LinearTags, default=None

    Returns
    -------
    LinearTags
    """
    offsets = crf = None
    if begun is not None:
        offsets, crf = begun.scores(sentences), begun.crf
    return LinearTags(*_fitted(sentences, tags, n_tags, offsets, crf), begun)


def fit_shared_tags(tasks):
    """The linear CRF of all sentences of several tasks, each of its own labels.

    Parameters
    ----------
    tasks : dict
        Name -> (sentences, tags, labels): lists of words, numbers of labels, and the labels.

    Returns
    -------
    SharedTags
    """
    union = list(dict.fromkeys(label for *_, labels in tasks.values() for label in labels))
    sentences, tags, offsets = [], [], []
    for of_task, told, labels in tasks.values():
        places = np.array([union.index(label) for label in labels])
        possible = np.full(len(union), -np.inf)
        possible[places] = 0.0
        sentences += of_task
        tags += [places[numbers] for numbers in told]
        offsets += [np.broadcast_to(possible, (len(words), len(union))) for words in of_task]
    vectorizer, coef, crf = _fitted(sentences, tags, len(union), offsets)
    shared = SharedTags(vectorizer.get_feature_names_out().tolist(), union, coef.nnz)
    shared.starts.copy_(torch.from_numpy(coef.indptr))
    shared.places.copy_(torch.from_numpy(coef.indices))
    shared.weights.copy_(torch.from_numpy(coef.data))
    for name in OF_CRF:
        getattr(shared, name).copy_(getattr(crf, name))
    return shared


def _vectorizer(**settings):
    return CountVectorizer(analyzer=list, binary=True, dtype=np.float64, **settings)


def _read(sentences):
    return (features for sentence in sentences for features in features_of(sentence))


def _fitted(sentences, tags, n_tags, offsets=None, begun=None):
    """A vectorizer of features, their weights (n_features, n_tags), and a CRF beside them."""
    order = [i for i in np.argsort([-len(words) for words in sentences]) if sentences[i]]
    vectorizer = _vectorizer(max_features=MAX_FEATURES)
    X = vectorizer.fit_transform(_read(sentences[i] for i in order))
    if offsets is not None:
        offsets = np.concatenate([offsets[i] for i in order])
    begun = None if begun is None else [getattr(begun, name).numpy() for name in OF_CRF]
    coef, *of_crf = _learn(X, [np.asarray(tags[i]) for i in order], n_tags, offsets, begun)
    return vectorizer, csr_array(coef), _crf(*of_crf)


def _crf(*parameters):
    crf = LinearChainCRF(len(parameters[0])).double().requires_grad_(False)
    for name, values in zip(OF_CRF, parameters):
        getattr(crf, name).copy_(torch.from_numpy(values))
    return crf


def _learn(X, tags, n_tags, offsets=None, begun=None):
    """Weights of features (F, C), and of a CRF: start (C,), transitions (C, C), end (C,).

    ``X`` and ``offsets`` have a row for each word of sentences that are sorted by length, the
    longest first.
    """
    lengths = np.array([len(told) for told in tags])
    batches = []
    for batch in gen_batches(len(tags), BATCH):
        first = lengths[: batch.start].sum()
        rows = slice(first, first + lengths[batch].sum())
        beside = 0.0 if offsets is None else offsets[rows]
        batches.append((X[rows], X[rows].T.tocsr(), lengths[batch], beside))
    # The score of the true tags is linear: the counts of all that it is the sum of.
    places = np.concatenate(tags)
    true = csr_array((np.ones(len(places)), (np.arange(len(places)), places)), (X.shape[0], n_tags))
    of_coef = (X.T @ true).toarray()
    start, transitions, end = np.zeros(n_tags), np.zeros((n_tags, n_tags)), np.zeros(n_tags)
    for told in tags:
        start[told[0]] += 1
        np.add.at(transitions, (told[:-1], told[1:]), 1)
        end[told[-1]] += 1
    # A feature has a weight for the tags it was seen with alone: 2 to 15 pairs of a hundred.
    seen = of_coef > 0
    ends = np.cumsum([seen.sum(), n_tags, n_tags**2])
    counts = np.concatenate([of_coef[seen], start, transitions.ravel(), end])

    def parts(weights):
        of_seen, *of_crf = np.split(weights, ends)
        coef = np.zeros(seen.shape)
        coef[seen] = of_seen
        of_crf[1] = of_crf[1].reshape(n_tags, n_tags)
        if begun is not None:
            of_crf = [more + first for more, first in zip(of_crf, begun)]
        return coef, *of_crf

    def loss_and_gradient(weights):
        coef, *of_crf = parts(weights)
        loss, of_coef, of_others = 0.0, np.zeros(seen.shape), 0.0
        for X, transposed, lengths, beside in batches:
            log_partition, marginals, *others = expectations(X @ coef + beside, lengths, *of_crf)
            loss += log_partition
            of_coef += transposed @ marginals
            of_others += np.concatenate([part.ravel() for part in others])
        expected = np.concatenate([of_coef[seen], of_others])
        penalty, of_penalty = PENALTY * weights @ weights, 2 * PENALTY * weights
        return loss - counts @ weights + penalty, expected - counts + of_penalty

    found = minimize(
        loss_and_gradient,
        np.zeros(len(counts)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS},
    )
    return parts(found.x)


def expectations(scores, lengths, start, transitions, end):
    """What a CRF expects of sentences: their log partition, and its gradient.

    As :class:`sklearn_meta.heads.crf.LinearChainCRF` has it, by products of matrices in place of
    sums of logarithms, which is many times faster: for weights that a penalty keeps small.

    Parameters
    ----------
    scores : ndarray of shape (n_words, n_tags)
        Of the words of all sentences, one after the other; ``-inf`` forbids a tag.
    lengths : int array of shape (n_sentences,)
        Words of each, 1 or more, the greatest first.
    start, transitions, end : ndarray of shape (n_tags,), (n_tags, n_tags) and (n_tags,)

    Returns
    -------
    log_partition : float
        The sum over the sentences.
    marginals : ndarray of shape (n_words, n_tags)
        Its gradient by the scores: the probability of each tag of each word.
    of_start, of_transitions, of_end : ndarrays
        Its gradients by the others: how often each is expected.
    """
    first = np.cumsum(lengths) - lengths
    last = first + lengths - 1
    peaks = scores.max(1, keepdims=True)
    likely, follow = np.exp(scores - peaks), np.exp(transitions)
    n_words = [int((lengths > t).sum()) for t in range(lengths[0])]  # t words on, of so many
    behind, scales = np.empty_like(likely), np.empty(len(likely))
    message = np.broadcast_to(np.exp(start), (len(lengths), len(start)))
    for t, n in enumerate(n_words):
        rows = first[:n] + t
        message = message[:n] * likely[rows]
        scales[rows] = message.sum(1)
        message = message / scales[rows, None]  # else it would vanish
        behind[rows] = message
        message = message @ follow
    ending = behind[last] @ np.exp(end)
    log_partition = peaks.sum() + np.log(scales).sum() + np.log(ending).sum()

    ahead, of_transitions = np.empty_like(likely), np.zeros_like(transitions)
    ahead[last] = np.exp(end) / ending[:, None]
    for t in range(len(n_words) - 1, 0, -1):
        rows = first[: n_words[t]] + t
        coming = likely[rows] * ahead[rows] / scales[rows, None]
        of_transitions += behind[rows - 1].T @ coming
        ahead[rows - 1] = coming @ follow.T
    marginals = behind * ahead
    return (
        log_partition,
        marginals,
        marginals[first].sum(0),
        of_transitions * follow,
        marginals[last].sum(0),
    )
