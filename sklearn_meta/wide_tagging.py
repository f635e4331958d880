"""The wide part of taggers: linear-chain CRFs of words, their spelling and their neighbours.

A network needs many sentences to learn word vectors and their composition. What single words, their
endings and neighbouring words say about a label, a linear model learns from few. Its scores are
added to the network's, as in the "wide and deep" of H.-T. Cheng et al. (2016). A linear CRF was the
usual tagger before networks (J. Lafferty et al., 2001). Tasks share one CRF of all their sentences,
and a penalty keeps each task's own weights close to the shared ones (H. Daume III, 2007; C. Chelba
and A. Acero, 2004).
"""

from functools import cached_property
from itertools import chain

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import gen_batches
from torch.nn.utils.rnn import pad_sequence

from .heads.crf import LinearChainCRF
from .linear_crf import learn
from .tasks.spelling import spelling_features
from .wide import SharedModel

#: Number of words read on either side, and of those whose spelling is read, too.
WINDOW, SPELLED = 2, 1

#: Features that every word has.
ALWAYS = ["always"]

#: Maximum number of features; the most frequent ones are kept.
MAX_FEATURES = 200_000

#: Weight of the linear scores for many sentences, where the network's weight is one; and number of
#: sentences that counts as few.
LINEAR, FEW = 0.5, 400

#: Parameters of a CRF other than the scores of words.
OF_CRF = ("start", "transitions", "end")


def features_of(sentence):
    """Features of each word for a linear model.

    Parameters
    ----------
    sentence : list of str

    Returns
    -------
    list of lists of str
        For each word, the words up to ``WINDOW`` away and the spelling of those up to ``SPELLED``
        away, each with its relative position.
    """
    found = []
    for i in range(len(sentence)):
        near = range(max(i - WINDOW, 0), min(i + WINDOW + 1, len(sentence)))
        found.append(sum((_features_at(sentence[j], j - i) for j in near), ALWAYS))
    return found


def _features_at(word, away):
    """Features of a word that stands ``away`` words after the one that is tagged."""
    read = [f"{away}={word.lower()}"]
    if abs(away) <= SPELLED:
        read += [f"{away} {feature}" for feature in spelling_features(word)]
    return read


def linear_weight(n_sentences):
    """Weight of the linear scores; higher for few sentences, from which a network learns less.

    Parameters
    ----------
    n_sentences : int
        Number of sentences that both were trained on.

    Returns
    -------
    float
    """
    return LINEAR * (1 + FEW / (n_sentences + FEW))


class SharedTags(SharedModel):
    """A linear CRF for the labels of several tasks, trained on all their sentences.

    Parameters
    ----------
    features : sequence of str
    labels : sequence of str or int
        Labels of all tasks; labels with the same name are one.
    n_weights : int
        Number of pairs of a feature and a label that have a weight.

    Raises
    ------
    ValueError
        If there are no features or labels, one occurs twice, or loaded weights are for pairs that
        do not exist.
    """

    constants = ("features", "labels")

    def __init__(self, features, labels, n_weights):
        super().__init__()
        self.features, self.labels = list(features), list(labels)
        for what, names in (("features", self.features), ("labels", self.labels)):
            if not names or len({(type(name), str(name)) for name in names}) < len(names):
                raise ValueError(f"A shared linear CRF needs {what}, without duplicates.")
        self.register_buffer("starts", torch.zeros(len(self.features) + 1, dtype=torch.int32))
        self.register_buffer("places", torch.zeros(n_weights, dtype=torch.int32))
        self.register_buffer("weights", torch.zeros(n_weights))
        n = len(self.labels)
        for name, shape in zip(OF_CRF, [(n,), (n, n), (n,)]):
            self.register_buffer(name, torch.zeros(shape))
        self.register_load_state_dict_post_hook(_check_places)

    @cached_property
    def _counts(self):
        """Counter of features. Cached: building its vocabulary takes longer than reading."""
        return _vectorizer(vocabulary=self.features)

    @classmethod
    def of_weights(cls, features, labels, coef, crf):
        """Create it from given weights.

        Parameters
        ----------
        features, labels : sequence
        coef : csr_array of shape (n_features, n_labels)
        crf : LinearChainCRF or SharedTags
            Provides ``start``, ``transitions`` and ``end``.

        Returns
        -------
        SharedTags
        """
        shared = cls(features, labels, coef.nnz)
        shared.starts.copy_(torch.from_numpy(coef.indptr))
        shared.places.copy_(torch.from_numpy(coef.indices))
        shared.weights.copy_(torch.from_numpy(coef.data))
        for name in OF_CRF:
            getattr(shared, name).copy_(getattr(crf, name))
        return shared

    @property
    def coef(self):
        """Copy of the weights as a csr_array of shape (n_features, n_labels)."""
        parts = (self.weights.double(), self.places, self.starts)
        shape = len(self.features), len(self.labels)
        return csr_array(tuple(part.cpu().numpy() for part in parts), shape=shape, copy=True)

    @property
    def config(self):
        """Keyword arguments that build this module again."""
        n_weights = len(self.weights)
        return {"features": self.features, "labels": self.labels, "n_weights": n_weights}

    def of_labels(self, labels):
        """CRF for the labels of one task.

        Parameters
        ----------
        labels : list

        Returns
        -------
        LinearTags or None
            None if no label is known. Unknown labels have scores of zero.
        """
        places = {label: i for i, label in enumerate(self.labels)}
        known = [i for i, label in enumerate(labels) if label in places]
        if not known:
            return None
        there = [places[labels[i]] for i in known]
        start, transitions, end = (getattr(self, name).cpu().double().numpy() for name in OF_CRF)
        # Row i has a one at the task's label that is label i of the shared ones.
        pick = np.zeros((len(self.labels), len(labels)))
        pick[there, known] = 1.0
        of_crf = start @ pick, pick.T @ transitions @ pick, end @ pick
        return LinearTags(self._counts, self.coef @ csr_array(pick), _crf(*of_crf))


class LinearTags:
    """A linear-chain CRF in which the scores of a word are sums of the weights of its features.

    Parameters
    ----------
    vectorizer : CountVectorizer
        Counter of the features of a word.
    coef : sparse array of shape (n_features, n_tags)
    crf : LinearChainCRF
        In double precision.
    begun : LinearTags, default=None
        CRF whose scores are added to these; ``crf`` already includes its parameters.
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
        lengths = np.array([len(words) for words in sentences], dtype=int)
        ends = np.cumsum(lengths)
        place = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        length = np.repeat(lengths, lengths)
        numbers, near = {}, range(-WINDOW, WINDOW + 1)
        number = [numbers.setdefault(w, len(numbers)) for words in sentences for w in words]
        number = np.array(number, dtype=int)
        # Texts have far fewer distinct words than words: look each up once per relative position.
        read = [ALWAYS, *(_features_at(word, away) for away in near for word in numbers)]
        always, *at_place = np.split(self._sums(read), 1 + len(numbers) * np.arange(len(near)))
        scores = np.repeat(always, len(number), axis=0)
        for away, of_word in zip(near, at_place):
            there = np.flatnonzero((place + away >= 0) & (place + away < length))
            scores[there] += of_word[number[there + away]]
        return np.split(scores, ends[:-1])

    def _sums(self, read):
        """Sum of the weights of each list of features, (n_lists, n_tags)."""
        sums = (self.vectorizer.transform(read) @ self.coef).toarray()
        return sums if self.begun is None else sums + self.begun._sums(read)


def fit_own(sentences, tags, n_tags, begun=None):
    """Fit the linear CRF of one task by :func:`sklearn_meta.linear_crf.learn`.

    The penalty is on all weights, or on their differences from those of ``begun``.

    Parameters
    ----------
    sentences : list of lists of str
    tags : list of int arrays
        Tag of each word.
    n_tags : int
    begun : LinearTags, default=None

    Returns
    -------
    LinearTags
    """
    offsets = None if begun is None else begun.scores(sentences)
    part = sentences, tags, np.arange(n_tags), offsets
    return LinearTags(*_fitted([part], n_tags, begun), begun)


def fit_shared_tags(tasks):
    """Fit one linear CRF to all sentences of several tasks, each with its own labels.

    Parameters
    ----------
    tasks : dict
        Name -> (sentences, tags, labels): lists of words, label numbers, and the labels.

    Returns
    -------
    SharedTags
    """
    union = list(dict.fromkeys(label for *_, labels in tasks.values() for label in labels))
    number = {label: i for i, label in enumerate(union)}
    parts = [
        (sentences, tags, np.array([number[label] for label in labels]), None)
        for sentences, tags, labels in tasks.values()
    ]
    vectorizer, coef, crf = _fitted(parts, len(union))
    return SharedTags.of_weights(vectorizer.get_feature_names_out().tolist(), union, coef, crf)


def _vectorizer(**settings):
    return CountVectorizer(analyzer=list, binary=True, dtype=np.float64, **settings)


def _fitted(parts, n_tags, begun=None):
    """Fit a vectorizer of features, their weights (n_features, n_tags), and a CRF.

    Each part holds sentences, one of which has a word, their tags as numbers among the part's own
    tags, the positions of these among all tags, and scores to add, or None.
    """
    ordered = []
    for sentences, tags, places, offsets in parts:
        order = [i for i in np.argsort([-len(words) for words in sentences]) if sentences[i]]
        rows = [[part[i] for i in order] for part in (sentences, tags)]
        ordered.append((*rows, places, offsets and np.concatenate([offsets[i] for i in order])))
    vectorizer = _vectorizer(max_features=MAX_FEATURES)
    every = (words for sentences, *_ in ordered for words in sentences)
    X = vectorizer.fit_transform(chain.from_iterable(map(features_of, every)))
    ends = np.cumsum([sum(map(len, sentences)) for sentences, *_ in ordered])
    read = [
        (X[end - sum(map(len, sentences)) : end], [np.asarray(told) for told in tags], *rest)
        for end, (sentences, tags, *rest) in zip(ends, ordered)
    ]
    first = None if begun is None else [getattr(begun.crf, name).numpy() for name in OF_CRF]
    coef, *of_crf = learn(read, n_tags, first)
    return vectorizer, coef, _crf(*of_crf)


def _crf(*parameters):
    crf = LinearChainCRF(len(parameters[0])).double().requires_grad_(False)
    for name, values in zip(OF_CRF, parameters):
        getattr(crf, name).copy_(torch.from_numpy(values))
    return crf


def _check_places(shared, _):
    """Refuse weights for pairs that do not exist: using them would read out of bounds."""
    starts, places = shared.starts, shared.places
    whole = starts[0] == 0 and starts[-1] == len(places) and bool((starts.diff() >= 0).all())
    if not whole or ((places < 0) | (places >= len(shared.labels))).any():
        raise ValueError(
            "The weights of the shared linear CRF refer to features or labels that it lacks."
        )


def decoded(crf, scores):
    """Best tags of each sentence from the scores (T, C) of its words, a list of int arrays."""
    scores = list(scores)
    order = sorted(range(len(scores)), key=lambda i: len(scores[i]))
    told = {}
    for batch in gen_batches(len(order), 256):
        of_batch = [scores[i] for i in order[batch]]
        lengths = torch.tensor([len(row) for row in of_batch])
        mask = torch.arange(max(lengths.max(), 1)) < lengths[:, None]
        padded = pad_sequence(of_batch, batch_first=True)
        if not padded.shape[1]:  # no words at all
            padded = padded.new_zeros(len(lengths), 1, crf.n_tags)
        tags = crf.decode(padded, mask).numpy()
        told.update((i, row[row >= 0]) for i, row in zip(order[batch], tags))
    return [told[i] for i in range(len(scores))]
