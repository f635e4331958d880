"""Sets of Omniglot characters: the images, the network that reads one, and the sets drawn."""

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample, normalize

from sklearn_meta.devices import autocast

N_DRAWERS = 20
#: From which the sets of one training batch are drawn: 250 images of 5 alphabets.
N_ALPHABETS, N_CHARACTERS, N_INSTANCES = 5, 25, 10
#: Largest set to count in.
N_POSITIONS = 10


@cache
def load(folder):
    """Images of all splits, and the characters of each.

    Returns
    -------
    images : uint8 tensor of shape (n_images, 1, 28, 28)
    characters : dict of str to int array of shape (n_characters, 20)
        Places among `images` of "train" (with rotations by quarter turns as characters of their
        own), "valid" and "test".
    alphabets : int array of shape (n_train_characters,)
        Alphabet of each character of "train"; a turned alphabet is another.
    """
    path = folder / "omniglot.npz"
    if not path.is_file():
        raise SystemExit(f"There is no {path}: give --omniglot, a folder with omniglot.npz.")
    with np.load(path) as data:
        images, split, alphabet = data["images"], data["split"], data["alphabet"]
    train = images[split == "train"]
    _, alphabet = np.unique(alphabet[split == "train"], return_inverse=True)
    alphabets = np.concatenate([alphabet + k * (alphabet.max() + 1) for k in range(4)])
    parts = {
        "train": np.concatenate([np.rot90(train, k, axes=(2, 3)) for k in range(4)]),
        "valid": images[split == "valid"],
        "test": images[split == "test"],
    }
    characters, n = {}, 0
    for name, part in parts.items():
        characters[name] = n + np.arange(part.shape[0] * N_DRAWERS).reshape(-1, N_DRAWERS)
        n += characters[name].size
    images = np.concatenate([part.reshape(-1, 1, 28, 28) for part in parts.values()])
    return torch.from_numpy(images), characters, alphabets


# The network that reads an image


class ImageEncoder(nn.Module):
    """The convolutions of Table 9 and one FC layer: (n, 1, 28, 28) to (n, 64), of length 8.

    Four times Conv(64, 3, 2, BN, ReLU). In training each image is turned, scaled and shifted a
    little.
    """

    n_outputs = 64

    def __init__(self):
        super().__init__()
        layers = []
        for n_channels in (1, 64, 64, 64):
            layers += [nn.Conv2d(n_channels, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, self.n_outputs))
        self.layers.to(memory_format=torch.channels_last)

    def forward(self, images):
        x = images.float() / 255
        if self.training:
            x = shaken(x)
        with autocast(x.device, "auto"):
            z = self.layers(x.to(memory_format=torch.channels_last))
        return normalize(z.float(), dim=1) * self.n_outputs**0.5


def shaken(images):
    """Each image turned by up to 15 degrees, scaled by up to 15 % and shifted by two pixels."""
    bounds = torch.tensor([[0.26], [0.15], [0.14], [0.14]])
    angle, scale, dx, dy = (2 * torch.rand(4, len(images)) - 1) * bounds
    cos, sin = (1 + scale) * angle.cos(), (1 + scale) * angle.sin()
    theta = torch.stack([cos, -sin, dx, sin, cos, dy], dim=1).view(-1, 2, 3)
    grid = affine_grid(theta, images.shape, align_corners=False)
    return grid_sample(images, grid, align_corners=False)


class OfImages(nn.Module):
    """A network for sets of images, given as places in a collection of them.

    Each image is encoded once a batch, however many of its sets hold it.

    Parameters
    ----------
    images : uint8 tensor of shape (n_images, 1, 28, 28)
    network : Module
        Of the encoded elements (B, N, W) and their mask (B, N).
    """

    def __init__(self, images, network):
        super().__init__()
        self.images = images  # no buffer: it is no part of the state
        self.encoder = ImageEncoder()
        self.network = network

    def forward(self, x, mask):
        """Outputs of sets given as places (B, N); those that ``mask`` leaves out are not read."""
        places, inverse = x[mask].unique(return_inverse=True)
        z = self.encoder(self.images[places])[inverse]
        elements = z.new_zeros(*mask.shape, z.shape[1])
        elements[mask] = z
        return self.network(elements, mask)


class OfVectors(nn.Module):
    """The same for elements that are vectors already, (n_images, W)."""

    def __init__(self, vectors, network):
        super().__init__()
        self.vectors = vectors
        self.network = network

    def forward(self, x, mask):
        """Outputs of sets given as places (B, N)."""
        return self.network(self.vectors[x], mask)


@torch.no_grad()
def mend_batch_norm(encoder, images):
    """Statistics of batch norm from images as they are, not as training has turned and scaled."""
    norms = [module for module in encoder.modules() if isinstance(module, nn.BatchNorm2d)]
    encoder.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
        norm.momentum, momentum = None, norm.momentum  # None: the mean over all batches
    for batch in images.split(500):
        encoder(batch)
    for norm in norms:
        norm.momentum = momentum
    encoder.eval()


# The sets


def training_pool(rng, characters, alphabets):
    """Some characters, some instances of each: what the sets of one batch are drawn from.

    The characters are of a few alphabets, as those of "valid" and "test" are: two characters of
    one alphabet are harder to tell apart than any two.
    """
    some = rng.choice(alphabets.max() + 1, N_ALPHABETS, replace=False)
    chosen = rng.choice(np.flatnonzero(np.isin(alphabets, some)), N_CHARACTERS, replace=False)
    instances = rng.random((N_CHARACTERS, N_DRAWERS)).argsort(1)[:, :N_INSTANCES]
    return np.take_along_axis(characters[chosen], instances, axis=1)


def images_of(rng, slots, characters):
    """Images of sets whose elements are characters by number.

    Parameters
    ----------
    rng : numpy.random.Generator
    slots : int array of shape (n_sets, N)
        Which of the set's characters an element is: 0 .. N - 1.
    characters : array of shape (n_characters, n_instances)
        Places of the images of each character; no fewer of either than N.

    Returns
    -------
    array of shape (n_sets, N)
        Places of images, none of them twice in a set.
    """
    n_sets, N = slots.shape
    n_characters, n_instances = characters.shape
    which = rng.random((n_sets, n_characters)).argsort(1)[:, :N]
    orders = rng.random((n_sets, N, n_instances)).argsort(2)
    ranks = np.stack([(slots[:, :j] == slots[:, [j]]).sum(1) for j in range(N)], axis=1)
    rows = np.arange(n_sets)[:, None]
    return characters[which[rows, slots], orders[rows, slots, ranks]]


def unique_sets(rng, n_sets, characters):
    """Sets of 6 to 10 images and how many different characters are in each (appendix B.2).

    Returns
    -------
    places, mask : arrays of shape (n_sets, 10)
    counts : array of shape (n_sets,)
    """
    sizes = rng.integers(6, N_POSITIONS + 1, n_sets)
    counts = rng.integers(1, sizes + 1)
    position = np.arange(N_POSITIONS)
    slots = np.where(
        position < counts[:, None],
        position,  # at least one of each
        rng.integers(0, counts[:, None], (n_sets, N_POSITIONS)),
    )
    return images_of(rng, slots, characters), position < sizes[:, None], counts


def odd_one_out_sets(rng, n_sets, characters, n_normal):
    """Sets of eight images, one of which is of a character that no other is of.

    The other seven are of ``n_normal`` characters, at least two of each.

    Returns
    -------
    places : array of shape (n_sets, 8)
    odd : array of shape (n_sets,)
        Position of the one.
    """
    slots = np.concatenate(
        [
            np.tile(np.repeat(np.arange(n_normal), 2), (n_sets, 1)),
            rng.integers(0, n_normal, (n_sets, 7 - 2 * n_normal)),
            np.full((n_sets, 1), n_normal),
        ],
        axis=1,
    )
    order = rng.random((n_sets, 8)).argsort(1)
    places = images_of(rng, np.take_along_axis(slots, order, axis=1), characters)
    return places, (order == 7).argmax(1)
