"""The families of `RegressionPrior`: functions of the columns, and tables with hidden causes.

A *function* takes ``(rng, X, relevance)``, where `X` of shape (n_rows, n_columns) has standardised
columns and `relevance` of shape (n_columns,) has unit length. It returns a signal of shape
(n_rows,): a random function of the rows that depends more on columns of more relevance. A *family*
takes ``(rng, n_rows, n_columns)`` and returns columns and signal. Five families draw the columns
first and apply one function to them; in the other two, hidden causes drive columns and signal.
"""

import numpy as np

from .families import ACTIVATIONS, log_uniform, root_causes, standardise


def relevance(rng, n_columns):
    """Draw the relevance of each column: a power law in random order and with random signs."""
    weight = np.arange(1, n_columns + 1) ** -rng.uniform(0, 2.5)
    weight = rng.permutation(weight) * rng.choice([-1, 1], n_columns)
    return weight / np.sqrt(weight @ weight)


def standard(values):
    """A signal of zero mean and unit variance; a constant one becomes zero."""
    return standardise(values[:, None])[:, 0]


# Functions


def process(rng, X, relevance):
    """A Gaussian process whose kernel is a sum or product of one to three random ones."""
    X = X * relevance
    gram = X @ X.T
    square = np.diag(gram)
    distance = np.maximum(square[:, None] + square - 2 * gram, 0)
    kernel = _kernel(rng, X, gram, distance)
    for _ in range(rng.binomial(2, 0.35)):
        another = _kernel(rng, X, gram, distance)
        kernel = kernel * another if rng.random() < 0.4 else kernel + another
    kernel.flat[:: len(X) + 1] += 1e-6 * np.trace(kernel) / len(X)  # else singular
    return np.linalg.cholesky(kernel) @ rng.standard_normal(len(X))


def _kernel(rng, X, gram, distance):
    """Draw a kernel matrix of mean variance 1; squared distances are 2 on average."""
    kind = rng.integers(7)
    squared = distance / log_uniform(rng, 0.4, 4) ** 2
    if kind == 0:
        return np.exp(-squared / 2)
    if kind == 1:  # Matern 1/2 and 3/2
        root = np.sqrt(3 * squared)
        return np.exp(-root) * (1 + root) if rng.random() < 0.6 else np.exp(-root)
    if kind == 2:
        root = np.sqrt(5 * squared)
        return np.exp(-root) * (1 + root + root**2 / 3)
    if kind == 3:  # rational quadratic
        alpha = log_uniform(rng, 0.2, 5)
        return (1 + squared / (2 * alpha)) ** -alpha
    if kind == 4:  # periodic along one direction
        along = X @ rng.standard_normal(X.shape[1])
        wave = np.sin(np.pi * (along[:, None] - along) / log_uniform(rng, 1.5, 6))
        return np.exp(-2 * (wave / log_uniform(rng, 0.5, 2)) ** 2)
    kernel = gram if kind == 5 else (gram + rng.uniform(0, 2)) ** rng.integers(2, 4)
    return kernel / (np.trace(kernel) / len(kernel))


def _relevant_columns(rng, relevance, shape):
    """Draw columns at random, in proportion to their relevance."""
    chance = np.cumsum(np.abs(relevance))
    return np.searchsorted(chance, rng.random(shape) * chance[-1])


def network(rng, X, relevance):
    """A multilayer perceptron of random depth, width, activation and steepness."""
    layer, gain = X * relevance, log_uniform(rng, 0.5, 3)
    width = int(log_uniform(rng, 3, 50))
    first, second = (ACTIVATIONS[k] for k in rng.integers(len(ACTIVATIONS), size=2))
    for depth in range(rng.integers(1, 4)):
        fan_in = 1 if depth == 0 else layer.shape[1]  # relevance has unit length already
        weight = rng.standard_normal((layer.shape[1], width)) * gain / np.sqrt(fan_in)
        layer = layer @ weight + 0.5 * gain * rng.standard_normal(width)
        layer = standardise(first(layer) if depth % 2 == 0 else second(layer))
    return layer @ rng.standard_normal(width)


def trees(rng, X, relevance):
    """A sum of random trees with axis-parallel splits and constant, sometimes linear, leaves.

    Every node has a value, not only the leaves; deeper nodes may count less.
    """
    n_rows = len(X)
    n_trees, depth = int(log_uniform(rng, 1, 15)), int(rng.integers(1, 6))
    shape, tree = (n_trees, 2 ** (depth + 1)), np.arange(n_trees)
    split = _relevant_columns(rng, relevance, shape)
    threshold = X[rng.integers(n_rows, size=shape), split]  # within the data
    value = rng.standard_normal(shape)
    node, decay = np.ones((n_rows, n_trees), int), rng.uniform(0.5, 1.2)
    signal = np.zeros((n_rows, n_trees))
    column = np.arange(n_rows)[:, None]
    for level in range(depth):
        above = X[column, split[tree, node]] > threshold[tree, node]
        node = 2 * node + above
        signal += decay**level * value[tree, node]
    if rng.random() < 0.25:
        signal += 0.7 * value[tree, node // 2] * X[column, split[tree, node]]
    return signal @ rng.standard_normal(n_trees)


def linear(rng, X, relevance):
    """A weighted sum; in half the tables also products and squares of relevant columns."""
    signal = X @ relevance
    if rng.random() < 0.5:
        a, b = _relevant_columns(rng, relevance, (2, rng.integers(1, 4)))
        weight = log_uniform(rng, 0.1, 1) * rng.standard_normal(len(a))
        signal = signal + X[:, a] * X[:, b] @ weight
    return signal


def additive(rng, X, relevance):
    """A sum of one nonlinear function per column: smooth, monotone, hinged or stepped."""
    n_columns, n_terms = X.shape[1], 6
    kind = rng.integers(4)
    scale = log_uniform(rng, 0.4, 2) if kind == 0 else log_uniform(rng, 0.7, 6)
    slope = scale * rng.standard_normal((n_columns, n_terms))
    knot = 1.2 * rng.standard_normal((n_columns, n_terms))
    height = rng.standard_normal((n_columns, n_terms))
    t = (X[:, :, None] - knot) * slope
    if kind == 0:
        t = np.sin(t)
    elif kind == 1:  # all terms of a column have one direction
        t, height = np.tanh(t), np.abs(height) * np.sign(slope)
    elif kind == 2:
        t = np.maximum(t, 0)
    else:
        t = (t > 0) + 0.0
    return standardise((t * height).sum(axis=2)) @ relevance


FUNCTIONS = {
    function.__name__: function for function in (process, network, trees, linear, additive)
}


# Families


def _of_columns(function):
    """Make the family of tables whose signal is a function of one kind of the columns."""

    def family(rng, n_rows, n_columns):
        X = root_causes(rng, n_rows, n_columns)
        if rng.random() < 0.4:  # correlated columns, such as length and weight
            n_shared = rng.integers(1, 4)
            loading = log_uniform(rng, 0.3, 2) * rng.standard_normal((n_shared, n_columns))
            X = X + rng.standard_normal((n_rows, n_shared)) @ loading
        X = standardise(X)
        return X, _signal(rng, function, X)

    return family


def _signal(rng, function, X):
    """Draw a function of the columns; like most real ones, it usually has a linear trend."""
    weight = relevance(rng, X.shape[1])
    signal = standard(function(rng, X, weight))
    return signal + (rng.random() < 0.75) * log_uniform(rng, 0.3, 4) * (X @ weight)


def factors(rng, n_rows, n_columns):
    """Few hidden factors drive all columns; the signal is a function of the factors.

    Columns are correlated: each is a noisy view of the factors, as in most measured tables.
    """
    latent = standardise(root_causes(rng, n_rows, rng.integers(1, 7)))
    loading = rng.standard_normal((latent.shape[1], n_columns))
    loading *= rng.random(loading.shape) < rng.uniform(0.3, 1)
    own = log_uniform(rng, 0.1, 1.5) * np.exp(0.5 * rng.standard_normal(n_columns))
    X = standardise(latent @ loading + own * rng.standard_normal((n_rows, n_columns)))
    functions = list(FUNCTIONS.values())
    signal = standard(_signal(rng, functions[rng.integers(len(functions))], latent))
    if rng.random() < 0.3:  # some columns act directly as well
        signal = signal + log_uniform(rng, 0.2, 1) * (X @ relevance(rng, n_columns))
    return X, signal


def graph(rng, n_rows, n_columns):
    """A causal graph of noisy nodes: the signal is one of them, the columns are others.

    Columns may be causes, effects or siblings of the target; some nodes stay hidden.
    """
    n_nodes = n_columns + 2 + rng.integers(n_columns // 2 + 2)
    n_roots = int(rng.integers(1, max(n_nodes // 3, 2) + 1))
    nodes = np.empty((n_rows, n_nodes))
    nodes[:, :n_roots] = standardise(root_causes(rng, n_rows, n_roots))
    noise, some = log_uniform(rng, 0.1, 1), rng.integers(len(ACTIVATIONS), size=3)
    kind = np.where(rng.random(n_nodes) < rng.uniform(0, 1), some[rng.integers(3, size=n_nodes)], 3)
    n_parents = rng.integers(1, 4, n_nodes)
    weight, own = rng.standard_normal((n_nodes, 3)), rng.standard_normal((n_nodes, n_rows))
    back = rng.random((n_nodes, 3)) ** rng.uniform(1, 3)  # parents tend to be recent nodes
    for j in range(n_roots, n_nodes):
        parents = j - 1 - (back[j, : n_parents[j]] * j).astype(int)
        node = nodes[:, parents] @ weight[j, : n_parents[j]]
        nodes[:, j] = standard(ACTIVATIONS[kind[j]](node)) + noise * own[j]
    target = int(rng.integers(n_nodes // 2, n_nodes))
    others = np.delete(np.arange(n_nodes), target)
    return nodes[:, rng.permutation(others)[:n_columns]], nodes[:, target]


FAMILIES = {name: _of_columns(function) for name, function in FUNCTIONS.items()}
FAMILIES |= {family.__name__: family for family in (factors, graph)}
