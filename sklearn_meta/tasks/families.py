"""The families of `TablePrior`: how the columns and the label of a table depend on each other.

Each family takes ``(rng, counts, n_columns)``, where `counts` are the numbers of rows per class,
and returns ``X`` of shape (n_rows, n_columns), float64, and ``y`` of shape (n_rows,), int64. It
either draws the rows class by class, or draws them first and labels them by a score afterwards.
"""

import numpy as np

from .manifolds import MANIFOLDS


def log_uniform(rng, low, high):
    """Draw a positive number whose logarithm is uniform."""
    return low * (high / low) ** rng.random()


def standardise(X):
    """Columns of zero mean and unit variance; constant ones become zero."""
    X = X - X.mean(axis=0)
    scale = np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
    return X / np.where(scale > 1e-9, scale, 1)


def class_counts(rng, n_rows, n_classes):
    """Number of rows of each class: equal in half the tables, else at least a third of that."""
    if rng.random() < 0.5:
        floor = n_rows // n_classes
        share = np.full(n_classes, 1 / n_classes)
    else:
        floor = max(1, n_rows // (3 * n_classes))
        share = rng.dirichlet(np.full(n_classes, 2.0))
    return floor + rng.multinomial(n_rows - n_classes * floor, share)


def _labels(counts):
    return np.repeat(np.arange(len(counts)), counts)


def _by_rank(rng, score, counts):
    """Cut one score at quantiles into classes; sometimes each class has two intervals, not one."""
    y = np.empty(len(score), np.int64)
    order = score.argsort()
    labels = _labels(counts)
    if rng.random() < 0.2:
        first = rng.random(len(counts)) * counts  # this many rows of a class come first
        place = np.arange(len(score)) - np.repeat(np.cumsum(counts) - counts, counts)
        labels = labels[(place >= first[labels]).argsort(kind="stable")]
    y[order] = labels
    return y


def _by_class_score(scores, counts):
    """Give each class its number of rows: those where its score is farthest above the others."""
    y = np.full(len(scores), len(counts) - 1, np.int64)
    lead = scores - scores.mean(axis=1, keepdims=True)
    free = np.arange(len(scores))
    for c, count in enumerate(counts[:-1]):
        rest = lead[free, c + 1 :].max(axis=1)
        order = (rest - lead[free, c]).argsort()
        y[free[order[:count]]] = c
        free = free[order[count:]]
    return y


def _label(rng, scores, counts):
    """Label rows by scores of shape (n_rows, 1) or (n_rows, n_classes)."""
    if scores.shape[1] == 1:
        return _by_rank(rng, scores[:, 0], counts)
    return _by_class_score(scores, counts)


def _n_scores(rng, counts):
    """Number of scores: one to be cut into classes, or one per class."""
    return 1 if len(counts) == 2 or rng.random() < 0.25 else len(counts)


def _noisy(rng, scores, counts):
    """Standardise scores and add noise, less with many classes, which lie closer together."""
    noise = log_uniform(rng, 0.04, 1.4) / len(counts) ** 0.75
    return standardise(scores) + noise * rng.standard_normal(scores.shape)


def root_causes(rng, n_rows, n_columns):
    """Draw columns without causes: Gaussian, uniform, skewed, clustered or correlated."""
    X = rng.standard_normal((n_rows, n_columns))
    kind = rng.integers(5)
    if kind == 1:
        X = rng.uniform(-1.7, 1.7, X.shape)
    elif kind == 2:
        X = np.exp(0.7 * X) - 1.28
    elif kind == 3:
        n_clumps = rng.integers(2, 7)
        centres = 1.5 * rng.standard_normal((n_clumps, n_columns))
        X = log_uniform(rng, 0.2, 1) * X + centres[rng.integers(n_clumps, size=n_rows)]
    elif kind == 4:
        n_factors = rng.integers(1, 5)
        loading = rng.standard_normal((n_factors, n_columns))
        X = log_uniform(rng, 0.2, 1) * X + rng.standard_normal((n_rows, n_factors)) @ loading
    return X


ACTIVATIONS = (
    np.tanh,
    lambda h: np.maximum(h, 0),
    np.sin,
    lambda h: h,
    np.abs,
    lambda h: (h > 0) + 0.0,
    np.square,
    lambda h: np.exp(-h * h),
)


def structural(rng, counts, n_columns):
    """Structural causal model: columns and label are nodes of one random noisy network.

    After Hollmann et al., TabPFN (ICLR 2023): a multilayer perceptron with dropped edges, whose
    hidden nodes are observed, so that columns may be causes or effects of the label.
    """
    n_rows, n_layers = counts.sum(), rng.integers(2, 5)
    width = max(int(log_uniform(rng, 4, 20)), -(-(n_columns + 4) // n_layers))
    noise = log_uniform(rng, 0.03, 0.7) / len(counts) ** 0.75
    gain, keep = log_uniform(rng, 0.5, 2), log_uniform(rng, 0.25, 1)
    layer = root_causes(rng, n_rows, int(log_uniform(rng, 2, 9)))
    nodes = []
    for _ in range(n_layers):
        weight = rng.standard_normal((layer.shape[1], width))
        dropped = rng.random(weight.shape) > keep
        dropped[rng.integers(len(weight), size=width), np.arange(width)] = False
        weight[dropped] = 0
        weight *= gain / np.sqrt((weight**2).sum(axis=0))
        layer = layer @ weight + 0.5 * rng.standard_normal(width)
        half = width // 2
        first, second = rng.integers(len(ACTIVATIONS), size=2)
        for part, k in ((slice(half), first), (slice(half, None), second)):
            layer[:, part] = ACTIVATIONS[k](layer[:, part])
        layer = standardise(layer)
        layer += noise * rng.standard_normal(layer.shape)
        nodes.append(layer)
    nodes = np.hstack(nodes)
    # The label is in the second half; columns come from anywhere or from around it.
    n_nodes = nodes.shape[1]
    first = rng.integers(n_nodes // 2, n_nodes - 2)
    n_label = 1 if _n_scores(rng, counts) == 1 else 3
    others = np.delete(np.arange(n_nodes), slice(first, first + n_label))
    if rng.random() < 0.6:
        others = others[np.abs(others - first).argsort()[: max(2 * n_columns, 6)]]
    X = nodes[:, rng.permutation(others)[:n_columns]]
    target = nodes[:, first : first + n_label]
    if n_label == 1:  # a jitter breaks the ties of nodes that take few values
        return X, _by_rank(rng, target[:, 0] + 1e-6 * rng.standard_normal(n_rows), counts)
    anchors = target[rng.integers(n_rows, size=len(counts))]
    return X, _by_class_score(target @ anchors.T - 0.5 * (anchors**2).sum(axis=1), counts)


def trees(rng, counts, n_columns):
    """A sum of few shallow oblivious trees: one split per level, on few of the columns."""
    n_rows, n_scores = counts.sum(), _n_scores(rng, counts)
    X = standardise(root_causes(rng, n_rows, n_columns))
    n_trees, depth = int(log_uniform(rng, 1, 12)), rng.integers(1, 5)
    relevant = rng.permutation(n_columns)[: int(log_uniform(rng, 1, n_columns + 1))]
    split = relevant[rng.integers(len(relevant), size=(n_trees, depth))]
    threshold = 0.8 * rng.standard_normal((n_trees, depth))
    leaf = (X[:, split] > threshold) @ (1 << np.arange(depth))
    value = rng.standard_normal((n_trees, 1 << depth, n_scores))
    scores = value[np.arange(n_trees), leaf].sum(axis=1)
    return X, _label(rng, _noisy(rng, scores, counts), counts)


def linear(rng, counts, n_columns):
    """Noisy linear scores of few columns; in half the tables also of products of columns."""
    n_rows, n_scores = counts.sum(), _n_scores(rng, counts)
    X = standardise(root_causes(rng, n_rows, n_columns))
    weight = rng.standard_normal((n_columns, n_scores))
    weight *= (np.arange(1, n_columns + 1) ** -rng.uniform(0, 2))[:, None]
    scores = X @ weight
    if rng.random() < 0.5:
        n_products = rng.integers(1, 4)
        a, b = rng.integers(min(n_columns, 4), size=(2, n_products))
        product = X[:, a] * X[:, b]
        scores += log_uniform(rng, 0.2, 2) * product @ rng.standard_normal((n_products, n_scores))
    return X, _label(rng, _noisy(rng, scores, counts), counts)


def clusters(rng, counts, n_columns):
    """Gaussian mixture of several clusters per class, each stretched along its own axes."""
    y = _labels(counts)
    n_each, rank = rng.integers(1, 5), rng.integers(0, 3)
    cluster = y * n_each + rng.integers(n_each, size=len(y))
    n_clusters = n_each * len(counts)
    # Distances grow with the root of the number of columns, unless few directions matter.
    apart = log_uniform(rng, 1, 6) / n_columns ** rng.uniform(0, 0.5)
    centre = apart * rng.standard_normal((n_clusters, n_columns))
    axes = rng.standard_normal((n_clusters, n_columns, rank)) * rng.uniform(0, 1)
    spread = np.exp(rng.uniform(0, 0.6) * rng.standard_normal((n_clusters, n_columns)))
    X = centre[cluster] + spread[cluster] * rng.standard_normal((len(y), n_columns))
    X += (axes[cluster] @ rng.standard_normal((len(y), rank, 1)))[:, :, 0]
    return X, y


def manifold(rng, counts, n_columns):
    """Moons, rings, spirals, rolls and curves, as they are or projected into all columns."""
    y = _labels(counts)
    figure = MANIFOLDS[rng.integers(len(MANIFOLDS))]
    points = figure(rng, y, len(counts))
    points = standardise(points + log_uniform(rng, 0.01, 0.15) * rng.standard_normal(points.shape))
    n_points = points.shape[1]
    if n_columns <= n_points:
        # Rotate the figure in its own plane, then keep as many of its axes as there are columns.
        angle = rng.uniform(0, 2 * np.pi) * (rng.random() < 0.5)
        c, s = np.cos(angle), np.sin(angle)
        points[:, :2] = points[:, :2] @ np.array([[c, -s], [s, c]])
        return points[:, :n_columns], y
    if rng.random() < 0.7:  # every column is a projection of the figure
        X = points @ rng.standard_normal((n_points, n_columns))
        return X + log_uniform(rng, 0.01, 0.5) * rng.standard_normal(X.shape), y
    return np.hstack([points, rng.standard_normal((len(y), n_columns - n_points))]), y


def factors(rng, counts, n_columns):
    """Few latent factors drive all columns; classes shift factors and single columns.

    Factor analysis with class-conditional means and scales. In half the tables of two classes, and
    in fewer tables of more classes, the label is a noisy score of the factors instead, like an
    outcome that is not measured directly.
    """
    n_rows, n_classes = counts.sum(), len(counts)
    n_factors = rng.integers(1, 5)
    latent = rng.standard_normal((n_rows, n_factors))
    loading = rng.standard_normal((n_factors, n_columns))
    loading *= rng.random(loading.shape) < rng.uniform(0.3, 1)
    own = log_uniform(rng, 0.2, 2) * np.exp(0.5 * rng.standard_normal(n_columns))
    X = own * rng.standard_normal((n_rows, n_columns))
    if rng.random() < 1 / n_classes:
        scores = latent @ rng.standard_normal((n_factors, _n_scores(rng, counts)))
        return X + latent @ loading, _label(rng, _noisy(rng, scores, counts), counts)

    y = _labels(counts)
    if rng.random() < 0.4:  # classes in order along one direction
        shift = np.outer(np.arange(n_classes) - n_classes / 2, rng.standard_normal(n_factors))
    else:
        shift = rng.standard_normal((n_classes, n_factors))
    apart = (n_classes / 2) ** 0.5  # else many classes would have little room
    latent += apart * log_uniform(rng, 0.4, 4) * shift[y]
    direct = apart * log_uniform(rng, 0.2, 2) * own * rng.standard_normal((n_classes, n_columns))
    direct *= rng.random(n_columns) < rng.uniform(0, 0.6)
    scale = np.exp(rng.uniform(0, 0.5) * rng.standard_normal((n_classes, n_columns)))
    return latent @ loading + scale[y] * X + direct[y], y


FAMILIES = {
    family.__name__: family for family in (structural, linear, trees, clusters, manifold, factors)
}
