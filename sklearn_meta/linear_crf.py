"""Training of linear-chain CRFs on sparse features by L-BFGS."""

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.utils import gen_batches

#: Factor on the sum of squares of all weights in the loss; chosen on a validation split.
PENALTY = 0.1

#: Maximum number of L-BFGS steps.
MAX_STEPS = 100

#: Number of sentences of similar length that are read at a time.
BATCH = 256


def learn(parts, n_tags, begun=None):
    """Find the weights with the least loss, in at most ``MAX_STEPS`` steps.

    The loss is convex: the negative log-likelihood of the sentences' tags, plus ``PENALTY`` times
    the sum of the squares of all weights.

    Parameters
    ----------
    parts : list of (X, tags, places, offsets)
        X is a sparse array (n_words, n_features) with the features of the words of some sentences,
        the longest sentence first. ``tags`` has an int array per sentence, of numbers among the
        part's own tags; ``places`` are the positions of these among all tags. ``offsets`` are
        scores (n_words, n_own_tags) to add, or None.
    n_tags : int
    begun : list of ndarrays, default=None
        Start, transitions and end, to which the learned ones are added.

    Returns
    -------
    coef : csr_array of shape (n_features, n_tags)
    start, transitions, end : ndarrays of shape (n_tags,), (n_tags, n_tags) and (n_tags,)
    """
    # The score of the true tags is linear in the weights: count how often it contains each weight.
    of_coef = csr_array((parts[0][0].shape[1], n_tags))
    start, transitions, end = np.zeros(n_tags), np.zeros((n_tags, n_tags)), np.zeros(n_tags)
    for X, tags, places, _ in parts:
        told = places[np.concatenate(tags)]
        true = csr_array((np.ones(len(told)), (np.arange(len(told)), told)), (len(told), n_tags))
        of_coef += X.T @ true
        for row in tags:
            start[places[row[0]]] += 1
            np.add.at(transitions, (places[row[:-1]], places[row[1:]]), 1)
            end[places[row[-1]]] += 1
    # Only pairs of a feature and a tag that occur together get a weight: 2 to 15 % of all pairs.
    of_coef = csr_array(of_coef)
    of_coef.sort_indices()
    ends = np.cumsum([of_coef.nnz, n_tags, n_tags**2])
    counts = np.concatenate([of_coef.data, start, transitions.ravel(), end])
    read = [_Part(of_coef, *part) for part in parts]

    def of_fields(weights):
        of_seen, *of_crf = np.split(weights, ends)
        of_crf[1] = of_crf[1].reshape(n_tags, n_tags)
        return of_seen, of_crf

    def with_begun(of_crf):
        return of_crf if begun is None else [a + b for a, b in zip(of_crf, begun)]

    def loss_and_gradient(weights):
        of_seen, of_crf = of_fields(weights)
        of_crf, loss, expected = with_begun(of_crf), 0.0, np.zeros_like(weights)
        views = of_fields(expected)
        for part in read:
            loss += part.add_expected(of_seen, of_crf, *views)
        penalty, of_penalty = PENALTY * weights @ weights, 2 * PENALTY * weights
        return loss - counts @ weights + penalty, expected - counts + of_penalty

    found = minimize(
        loss_and_gradient,
        np.zeros(len(counts)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS},
    )
    of_seen, of_crf = of_fields(found.x)
    coef = csr_array((of_seen, of_coef.indices, of_coef.indptr), shape=of_coef.shape)
    return coef, *with_begun(of_crf)


class _Part:
    """Sentences of one part; only its own features and tags are computed with, to save time."""

    def __init__(self, of_coef, X, tags, places, offsets):
        used, self.places = np.unique(X.indices), places
        self.X = csr_array(X[:, used])
        self.lengths = np.array([len(told) for told in tags])
        self.offsets = offsets
        # Positions, among all weights, of those for the part's features and tags (``which``), and
        # their positions in the part's own matrix (``where``).
        row = np.full(of_coef.shape[0], -1)
        row[used] = np.arange(len(used))
        column = np.full(of_coef.shape[1], -1)
        column[places] = np.arange(len(places))
        rows, columns = row[of_coef.tocoo().row], column[of_coef.indices]
        self.which = np.flatnonzero((rows >= 0) & (columns >= 0))
        self.where = rows[self.which] * len(places) + columns[self.which]

    def add_expected(self, of_seen, of_crf, to_seen, to_crf):
        """Return the log partition; add the expected counts to ``to_seen`` and ``to_crf``."""
        shape = self.X.shape[1], len(self.places)
        coef, expected, loss = np.zeros(shape), np.zeros(shape), 0.0
        coef.ravel()[self.where] = of_seen[self.which]
        pairs = np.ix_(self.places, self.places)
        some = [self.places, pairs, self.places]
        own = [part[place] for part, place in zip(of_crf, some)]
        for batch in gen_batches(len(self.lengths), BATCH):
            first = self.lengths[: batch.start].sum()
            rows = slice(first, first + self.lengths[batch].sum())
            scores = self.X[rows] @ coef
            if self.offsets is not None:
                scores += self.offsets[rows]
            log_partition, marginals, *others = expectations(scores, self.lengths[batch], *own)
            loss += log_partition
            expected += self.X[rows].T @ marginals
            for to, place, more in zip(to_crf, some, others):
                to[place] += more
        to_seen[self.which] += expected.ravel()[self.where]
        return loss


def expectations(scores, lengths, start, transitions, end):
    """Compute the log partition of sentences under a CRF, and its gradient.

    The result is that of :class:`sklearn_meta.heads.crf.LinearChainCRF`, but computed by products
    of matrices in place of sums of logarithms, which is many times faster. The weights must be
    small, as a penalty keeps them: ``exp`` overflows if start, transitions or end exceed some
    hundreds.

    Parameters
    ----------
    scores : ndarray of shape (n_words, n_tags)
        Scores of the words of all sentences, one after the other; ``-inf`` forbids a tag.
    lengths : int array of shape (n_sentences,)
        Number of words of each sentence, 1 or more, in descending order.
    start, transitions, end : ndarray of shape (n_tags,), (n_tags, n_tags) and (n_tags,)

    Returns
    -------
    log_partition : float
        Sum over the sentences.
    marginals : ndarray of shape (n_words, n_tags)
        Gradient with respect to the scores: the probability of each tag for each word.
    of_start, of_transitions, of_end : ndarrays
        Gradients with respect to the others: their expected counts.
    """
    first = np.cumsum(lengths) - lengths
    last = first + lengths - 1
    peaks = scores.max(1, keepdims=True)
    likely, follow = np.exp(scores - peaks), np.exp(transitions)
    n_words = [int((lengths > t).sum()) for t in range(lengths[0])]  # sentences with word t
    behind, scales = np.empty_like(likely), np.empty(len(likely))
    message = np.broadcast_to(np.exp(start), (len(lengths), len(start)))
    for t, n in enumerate(n_words):
        rows = first[:n] + t
        message = message[:n] * likely[rows]
        scales[rows] = message.sum(1)
        message = message / scales[rows, None]  # otherwise it would underflow
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
