"""Data of benchmarks/paper_003.py: its sources of episodes, and how learners read them."""

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from omniglot_splits import characters

from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import (
    Dataset,
    Drawings,
    NWayKShot,
    Pictures,
    Vectors,
    load_mini_imagenet,
    make_symbolic_regression,
)
from sklearn_meta.weights import load_learner

#: Side length of Omniglot's drawings in pixels.
SIDE = 28

#: Numbers of functions in the symbolic-regression data, each split with functions of its own, and
#: number of networks per function.
N_FUNCTIONS = {"train": 1000, "valid": 200, "test": 200}
N_NETWORKS = 20


class Data(NamedTuple):
    """One of the paper's data sets.

    Attributes
    ----------
    sources : dict
        Sources by split: "train", "valid" and "test".
    learner : dict
        Keyword arguments of FewShotLearner for these data.
    vectors : callable
        Turns rows into vectors in meta-training, with augmentation.
    plain : callable
        The same without augmentation, for validation and test.
    """

    sources: dict
    learner: dict
    vectors: object
    plain: object


class Fixed:
    """Source of a single dataset."""

    def __init__(self, dataset):
        self.dataset = dataset

    def draw(self, rng):
        return self.dataset


class Encoded:
    """Source of drawings as vectors of an encoder, computed on first use."""

    def __init__(self, source, encoder, turns):
        self.source, self.encoder, self.turns = source, encoder, turns

    @cached_property
    def dataset(self):
        return encoded(self.source.dataset, self.encoder, self.turns)

    def draw(self, rng):
        return self.dataset


def omniglot(options):
    """Drawings, or their vectors by a frozen encoder, with quarter turns as new characters."""
    sources = {split: characters(Path(options.omniglot), split) for split in N_FUNCTIONS}
    if options.encoder is None:
        images = {"inputs": "images", "n_inputs": SIDE * SIDE}
        images["encoder_config"] = {"n_filters": options.n_filters}
        return Data(sources, images, Drawings(SIDE), Drawings(SIDE, augment=False))
    encoder = load_learner(options.encoder).encoder.eval()
    sources = {
        split: Encoded(source, encoder, turns=4 if split == "train" else 1)
        for split, source in sources.items()
    }
    vectors = Vectors(encoder.n_outputs)
    learner = {"inputs": "vectors", "n_inputs": vectors.width}
    return Data(sources, learner, vectors, vectors)


@torch.inference_mode()
def encoded(dataset, encoder, turns):
    """Encode drawings in ``turns`` rotations by 90 degrees; each rotation has its own classes."""
    X, y = [], []
    render = Drawings(SIDE, augment=False)
    for start in range(0, len(dataset.X), 1000):
        part = slice(start, start + 1000)
        pixels = torch.from_numpy(render(dataset.X[part], dataset.y[part], None))
        for turn in range(turns):
            turned = pixels.unflatten(1, (SIDE, SIDE)).rot90(turn, (1, 2)).flatten(1)
            X.append(encoder(turned).numpy())
            y.append(dataset.y[part] + turn * dataset.n_classes)
    return Dataset(dataset.name, np.concatenate(X), np.concatenate(y))


def symbolic(options):
    """Weights of networks, standardised by the meta-training split; classes are functions."""
    networks = {
        split: make_symbolic_regression(
            max(int(n * options.n_functions), 5),
            N_NETWORKS,
            random_state=i,
            data_home=options.cache,
        )
        for i, (split, n) in enumerate(N_FUNCTIONS.items())
    }
    mean, scale = (f(networks["train"].weights, 0) for f in (np.mean, np.std))
    sources = {
        split: Fixed(
            Dataset("symbolic regression", (found.weights - mean) / scale, found.functions)
        )
        for split, found in networks.items()
    }
    vectors = Vectors(networks["train"].weights.shape[1])
    learner = {"inputs": "vectors", "n_inputs": vectors.width}
    return Data(sources, learner, vectors, vectors)


def mini_imagenet(options):
    """Colour pictures of 84 x 84 pixels."""
    folder = Path(options.mini_imagenet)
    sources = {split: load_mini_imagenet(folder, split) for split in N_FUNCTIONS}
    learner = {"inputs": "images", "n_inputs": 3 * 84 * 84}
    learner["encoder_config"] = {"n_channels": 3, "n_filters": options.n_filters}
    return Data(sources, learner, Pictures(84, augment=True), Pictures(84))


DATA = {"omniglot": omniglot, "symbolic": symbolic, "mini_imagenet": mini_imagenet}


def sampler(vectors, n_queries=10):
    """Sampler of 5-way 1-shot episodes."""
    return NWayKShot(vectors, n_ways=5, n_shots=1, n_queries=n_queries)


def make_learner(data, backbone, config, seed):
    """Return a learner with random weights."""
    torch.manual_seed(seed)
    return FewShotLearner(backbone, backbone_config=config, **data.learner)


@torch.inference_mode()
def accuracy(learner, data, split, n_episodes, seed=0, n_orders=1):
    """Mean accuracy over episodes of a split, and its standard error over them.

    With ``n_orders`` > 1, probabilities are averaged over this many orders of the labelled rows:
    the drawn order and random others. The transformer's predictions do not depend on the order.
    """
    orders = np.random.default_rng([seed, 4])
    scores = []
    for inputs, target in episodes(data, split, n_episodes, seed):
        told = learner(**inputs).softmax(-1)
        for _ in range(n_orders - 1):
            order = torch.from_numpy(orders.permutation(inputs["labels"].shape[1]))
            moved = {name: inputs[name][:, order] for name in ("support", "labels")}
            told = told + learner(**{**inputs, **moved}).softmax(-1)
        scores.append(learner.head.score(told, target))
    scores = torch.cat(scores).double().numpy()
    return scores.mean(), scores.std(ddof=1) / len(scores) ** 0.5


def episodes(data, split, n_episodes, seed=0):
    """Yield inputs and target of a split's scored episodes, 50 at a time."""
    draw, rng = sampler(data.plain), np.random.default_rng([seed, 3])
    for start in range(0, n_episodes, 50):
        n = min(50, n_episodes - start)
        yield draw.collate([draw.draw(data.sources[split].draw(rng), rng) for _ in range(n)])
