"""Tasks of benchmarks/paper_001.py: their sets, targets, losses and scores."""

import numpy as np
import torch
from paper_001_omniglot import (
    ImageEncoder,
    OfImages,
    OfVectors,
    load,
    mend_batch_norm,
    odd_one_out_sets,
    training_pool,
    unique_sets,
)
from paper_001_solids import SOLIDS, draw_cloud
from paper_001_training import encoded_images
from torch import nn
from torch.nn.functional import cross_entropy, softplus

from sklearn_meta.backbones.set_transformer import SetTransformer


class Task:
    """Interface of a task to the training loop.

    Attributes
    ----------
    name : str
        Name of the folder of its cells in the cache.
    steps, n_sets, learning_rate : int, int, float
        Training steps at a budget factor of 1, sets per step, and highest learning rate.
    setting : dict
        Settings that distinguish its cells from those of another run.
    """

    steps = 1000
    n_sets = 128
    learning_rate = 1e-3

    @property
    def setting(self):
        return {"name": self.name, "n_sets": self.n_sets}

    def module(self, method):
        """Return a network with random weights and inputs ``x`` and ``mask``."""
        raise NotImplementedError

    def prepare(self, module):
        """Prepare a module for scoring; by default, do nothing."""

    def sets(self, rng, n_sets, split):
        """Draw inputs (dict of tensors) and a target of split "train", "valid" or "test"."""
        raise NotImplementedError

    def batch(self, rng):
        return self.sets(rng, self.n_sets, "train")

    def loss(self, output, target):
        raise NotImplementedError

    def measures(self, output, target):
        """Scores over all test sets, a dict of floats."""
        raise NotImplementedError


class MaxRegression(Task):
    """Table 2: the largest of 1 to 10 numbers in [0, 100] (appendix B.1)."""

    name = "max"
    steps = 10_000

    def module(self, method):
        return SetTransformer(1, 1, **method.config)

    def sets(self, rng, n_sets, split):
        sizes = rng.integers(1, 11, n_sets)
        mask = torch.from_numpy(np.arange(10) < sizes[:, None])
        x = torch.from_numpy(rng.uniform(0, 100, (n_sets, 10)).astype(np.float32))
        target = x.masked_fill(~mask, 0.0).amax(1)
        return {"x": (x[..., None] - 50) / 50, "mask": mask}, target

    def loss(self, output, target):
        return ((50 * output[:, 0] + 50) - target).abs().mean()

    def measures(self, output, target):
        return {"mae": self.loss(output, target).item()}


class OfOmniglot(Task):
    """Base of the two tasks on Omniglot.

    The elements of a set are vectors from an image encoder of the package's weights, which all
    methods share. With ``end_to_end`` they are images, and an encoder is trained with each method.
    """

    learning_rate = 2e-3

    def __init__(self, options):
        self.images, self.characters, self.alphabets = load(options.omniglot)
        self.end_to_end = options.end_to_end
        self.vectors, self.encoder = None, "end to end"
        if not self.end_to_end:
            self.vectors, self.encoder = encoded_images(options.omniglot, options.encoder)

    @property
    def setting(self):
        return {**super().setting, "encoder": self.encoder}

    @property
    def n_inputs(self):
        """Length of an element's vector."""
        return ImageEncoder.n_outputs if self.end_to_end else self.vectors.shape[1]

    def of_elements(self, network):
        if self.end_to_end:
            return OfImages(self.images, network)
        return OfVectors(self.vectors, network)

    def prepare(self, module):
        if self.end_to_end:
            mend_batch_norm(module.encoder, self.images[self.characters["train"][::8].ravel()])

    def pool(self, rng, split):
        characters = self.characters[split]
        return training_pool(rng, characters, self.alphabets) if split == "train" else characters


class UniqueCharacters(OfOmniglot):
    """Tables 3 and 8, figure 6: how many different characters are there? (appendix B.2)."""

    name = "unique"
    steps = 8000

    def module(self, method):
        network = SetTransformer(self.n_inputs, 1, **method.config)
        nn.init.constant_(network.output.bias, 4.0)  # close to the mean count
        return self.of_elements(network)

    def sets(self, rng, n_sets, split):
        places, mask, counts = unique_sets(rng, n_sets, self.pool(rng, split))
        inputs = {"x": torch.from_numpy(places), "mask": torch.from_numpy(mask)}
        return inputs, torch.from_numpy(counts).float()

    @staticmethod
    def rate(output):
        """Poisson rate of each set, from the mean output over seeds."""
        return softplus(output.flatten(1).mean(1))

    def loss(self, output, target):
        rate = self.rate(output) + 1e-6  # float32 has no log of 0
        return (rate - target * rate.log() + torch.lgamma(target + 1)).mean()

    def measures(self, output, target):
        rate = self.rate(output)
        return {
            "accuracy": (rate.round() == target).float().mean().item(),
            "accuracy_mode": (rate.floor() == target).float().mean().item(),
            "mae": (rate - target).abs().mean().item(),
            "bias": (rate - target).mean().item(),
        }


class OddOneOut(OfOmniglot):
    """Table 5 with characters in place of attributes: which of eight images is the odd one?

    Parameters
    ----------
    options : Namespace
    n_normal : int
        Number of characters of the other seven images.
    """

    def __init__(self, options, n_normal):
        super().__init__(options)
        self.n_normal = n_normal
        self.name = f"odd_{n_normal}"

    steps = 1000

    def module(self, method):
        return self.of_elements(Pointer(self.n_inputs, method.config))

    def sets(self, rng, n_sets, split):
        places, odd = odd_one_out_sets(rng, n_sets, self.pool(rng, split), self.n_normal)
        mask = torch.ones(places.shape, dtype=torch.bool)
        return {"x": torch.from_numpy(places), "mask": mask}, torch.from_numpy(odd)

    def loss(self, output, target):
        return cross_entropy(output, target)

    def measures(self, output, target):
        """AUROC and AUPR, means over sets; both follow from the odd image's rank, with ties."""
        output = output.nan_to_num(nan=-torch.inf)  # all scores of a diverged network are tied
        found = output.gather(1, target[:, None])
        above = (output > found).sum(1).float()
        level = (output == found).sum(1) - 1
        auroc, aupr = (7 - above - level / 2) / 7, 1 / (1 + above + level)
        return {"auroc": auroc.mean().item(), "aupr": aupr.mean().item()}


class Pointer(nn.Module):
    """Scores each element of a set by its similarity to a query made from the whole set.

    As in Table 15, the decoder ends in vectors of the same length as the features of an element,
    which depend on no other element. The paper does not say how the vectors select an element;
    here, dot products do.

    Parameters
    ----------
    n_inputs : int
    config : dict
        Keyword arguments of :class:`SetTransformer`.
    """

    def __init__(self, n_inputs, config):
        super().__init__()
        self.transformer = SetTransformer(n_inputs, n_inputs, **config)
        self.features = nn.Linear(n_inputs, n_inputs)

    def forward(self, x, mask):
        """Scores (B, N), -inf at padding."""
        asked = self.transformer(x, mask).reshape(len(x), -1, x.shape[2]).mean(1)  # over seeds
        scores = torch.einsum("bnd,bd->bn", self.features(x), asked) / x.shape[2] ** 0.5
        return scores.masked_fill(~mask, -torch.inf)


class PointClouds(Task):
    """Tables 6 and 17 with parametric solids: which one are these points on?

    Parameters
    ----------
    n_points : int
    """

    n_sets = 32

    def __init__(self, n_points):
        self.n_points = n_points
        self.name = f"solids_{n_points}"
        self.steps = {100: 3000, 1000: 500}.get(n_points, 500)

    def module(self, method):
        return SetTransformer(3, len(SOLIDS), **method.config)

    def sets(self, rng, n_sets, split):
        kinds = rng.integers(0, len(SOLIDS), n_sets)
        x = np.stack([draw_cloud(rng, SOLIDS[kind], self.n_points) for kind in kinds])
        x = torch.from_numpy(x.astype(np.float32))
        return {"x": x, "mask": torch.ones(x.shape[:2], dtype=torch.bool)}, torch.from_numpy(kinds)

    def loss(self, output, target):
        return cross_entropy(output, target)

    def measures(self, output, target):
        return {"accuracy": (output.argmax(1) == target).float().mean().item()}
