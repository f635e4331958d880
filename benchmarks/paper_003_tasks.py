"""The data of paper 003: how its learners read them, and where episodes come from."""

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

#: Pixels of a side of Omniglot's drawings.
SIDE = 28

#: Functions of the symbolic-regression data for meta-training, validation and test; each split
#: has its own, and as many networks of each of them.
N_FUNCTIONS = {"train": 1000, "valid": 200, "test": 200}
N_NETWORKS = 20


class Data(NamedTuple):
    """One of the paper's data sets.

    Attributes
    ----------
    sources : dict
        Of "train", "valid" and "test".
    learner : dict
        How learners read them: keyword arguments of FewShotLearner.
    vectors : callable
        Of meta-training, with augmentation.
    plain : callable
        Of validation and test, without.
    """

    sources: dict
    learner: dict
    vectors: object
    plain: object


class Fixed:
    """A source of one dataset."""

    def __init__(self, dataset):
        self.dataset = dataset

    def draw(self, rng):
        return self.dataset


class Encoded:
    """A source of what an encoder says of drawings, which are read when first asked for."""

    def __init__(self, source, encoder, turns):
        self.source, self.encoder, self.turns = source, encoder, turns

    @cached_property
    def dataset(self):
        return encoded(self.source.dataset, self.encoder, self.turns)

    def draw(self, rng):
        return self.dataset


def omniglot(options):
    """Drawings; or what a frozen encoder says of them, with quarter turns as new characters."""
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
    """Drawings as vectors, turned ``turns`` times by 90 degrees, each turn a class of its own."""
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
    """Weights of networks, standardised by those of meta-training; classes are functions."""
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
    """5-way 1-shot episodes."""
    return NWayKShot(vectors, n_ways=5, n_shots=1, n_queries=n_queries)


def make_learner(data, backbone, config, seed):
    """A learner with random weights of its seed."""
    torch.manual_seed(seed)
    return FewShotLearner(backbone, backbone_config=config, **data.learner)


@torch.inference_mode()
def accuracy(learner, data, split, n_episodes, seed=0, n_orders=1):
    """Mean accuracy over episodes of a split, and its standard error over them.

    With ``n_orders`` probabilities are the mean over as many orders of the labelled rows, the
    drawn one and random others: what the transformer says does not depend on it.
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
    """The episodes of a split that are scored, 50 at a time: inputs and target."""
    draw, rng = sampler(data.plain), np.random.default_rng([seed, 3])
    for start in range(0, n_episodes, 50):
        n = min(50, n_episodes - start)
        yield draw.collate([draw.draw(data.sources[split].draw(rng), rng) for _ in range(n)])
