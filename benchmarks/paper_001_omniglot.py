"""Omniglot for benchmarks/paper_001.py: the images, a network that encodes one, and the sets."""

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample, normalize

from sklearn_meta.devices import autocast

N_DRAWERS = 20
#: Pool of images from which the sets of one training batch are drawn: 250 of 5 alphabets.
N_ALPHABETS, N_CHARACTERS, N_INSTANCES = 5, 25, 10
#: Size of the largest set when counting characters.
N_POSITIONS = 10


@cache
def load(folder):
    """Read the images of all splits and the characters of each.

    Returns
    -------
    images : uint8 tensor of shape (n_images, 1, 28, 28)
    characters : dict of str to int array of shape (n_characters, 20)
        Positions in `images` of each character of "train", "valid" and "test". In "train",
        rotations by quarter turns are characters of their own.
    alphabets : int array of shape (n_train_characters,)
        Alphabet of each character of "train"; a rotated alphabet is another alphabet.
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
    """Encodes images (n, 1, 28, 28) as vectors (n, 64) of norm 8.

    It has the convolutions of Table 9, four times Conv(64, 3, 2, BN, ReLU), and one FC layer. In
    training each image is turned, scaled and shifted a little.
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
    """Turn each image by up to 15 degrees, scale it by up to 15 % and shift it by two pixels."""
    bounds = torch.tensor([[0.26], [0.15], [0.14], [0.14]])
    angle, scale, dx, dy = (2 * torch.rand(4, len(images)) - 1) * bounds
    cos, sin = (1 + scale) * angle.cos(), (1 + scale) * angle.sin()
    theta = torch.stack([cos, -sin, dx, sin, cos, dy], dim=1).view(-1, 2, 3)
    grid = affine_grid(theta, images.shape, align_corners=False)
    return grid_sample(images, grid, align_corners=False)


class OfImages(nn.Module):
    """Network for sets of images, which are given as positions in a collection.

    Each image is encoded once per batch, however many sets of the batch hold it.

    Parameters
    ----------
    images : uint8 tensor of shape (n_images, 1, 28, 28)
    network : Module
        Reads the encoded elements (B, N, W) and their mask (B, N).
    """

    def __init__(self, images, network):
        super().__init__()
        self.images = images  # not a buffer: the images are not part of the state
        self.encoder = ImageEncoder()
        self.network = network

    def forward(self, x, mask):
        """Outputs for sets of positions (B, N); positions that ``mask`` leaves out are not read."""
        places, inverse = x[mask].unique(return_inverse=True)
        z = self.encoder(self.images[places])[inverse]
        elements = z.new_zeros(*mask.shape, z.shape[1])
        elements[mask] = z
        return self.network(elements, mask)


class OfVectors(nn.Module):
    """Network for sets whose elements are already encoded as vectors, (n_images, W)."""

    def __init__(self, vectors, network):
        super().__init__()
        self.vectors = vectors
        self.network = network

    def forward(self, x, mask):
        """Outputs for sets of positions (B, N)."""
        return self.network(self.vectors[x], mask)


@torch.no_grad()
def mend_batch_norm(encoder, images):
    """Compute the statistics of batch norm anew, from images without augmentation."""
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
    """Draw the characters, and instances of each, from which one batch of sets is drawn.

    The characters are from a few alphabets, as in "valid" and "test": two characters of one
    alphabet are harder to tell apart than any two.
    """
    some = rng.choice(alphabets.max() + 1, N_ALPHABETS, replace=False)
    chosen = rng.choice(np.flatnonzero(np.isin(alphabets, some)), N_CHARACTERS, replace=False)
    instances = rng.random((N_CHARACTERS, N_DRAWERS)).argsort(1)[:, :N_INSTANCES]
    return np.take_along_axis(characters[chosen], instances, axis=1)


def images_of(rng, slots, characters):
    """Draw characters and images for sets whose elements are numbers of characters.

    Parameters
    ----------
    rng : numpy.random.Generator
    slots : int array of shape (n_sets, N)
        The set's character, 0 .. N - 1, that each element shows.
    characters : array of shape (n_characters, n_instances)
        Positions of the images of each character; at least N characters and N instances.

    Returns
    -------
    array of shape (n_sets, N)
        Positions of images; no image is twice in a set.
    """
    n_sets, N = slots.shape
    n_characters, n_instances = characters.shape
    which = rng.random((n_sets, n_characters)).argsort(1)[:, :N]
    orders = rng.random((n_sets, N, n_instances)).argsort(2)
    ranks = np.stack([(slots[:, :j] == slots[:, [j]]).sum(1) for j in range(N)], axis=1)
    rows = np.arange(n_sets)[:, None]
    return characters[which[rows, slots], orders[rows, slots, ranks]]


def unique_sets(rng, n_sets, characters):
    """Draw sets of 6 to 10 images, and count the different characters in each (appendix B.2).

    Returns
    -------
    places, mask : arrays of shape (n_sets, 10)
        Positions of images, and which of them are in the set.
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
    """Draw sets of eight images, one of which shows a character that no other image shows.

    The other seven show ``n_normal`` characters, each at least twice.

    Returns
    -------
    places : array of shape (n_sets, 8)
        Positions of images.
    odd : array of shape (n_sets,)
        Index of the odd image within its set.
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
