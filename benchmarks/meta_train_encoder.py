"""Recipe of the image encoder in the weights ``omniglot_few_shot``: trains it on Omniglot.

    python benchmarks/meta_train_encoder.py --omniglot FOLDER --output encoder.safetensors

The encoder learns to distinguish the characters of Omniglot's split "train", whose quarter turns
are characters of their own, by a contrastive loss on batches of up to five alphabets. To keep it
from memorising these characters, half of the batches overlay two characters as if they were one,
and each batch is mirrored and distorted as a whole, in addition to each drawing by itself. The
weights that it writes hold the encoder in front of a Few-Shot Transformer without layers.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from arguments import add_folder
from paper_001_omniglot import (
    N_CHARACTERS,
    N_INSTANCES,
    load,
    mend_batch_norm,
    training_pool,
)
from paper_001_training import train
from recipe import DRAWINGS, save
from torch import nn
from torch.nn.functional import affine_grid, cross_entropy, grid_sample, interpolate, normalize

from sklearn_meta.devices import autocast
from sklearn_meta.few_shot_learner import FewShotLearner

SIDE = 28

#: Maximum turn (radians), scaling and shift (half sides) of each drawing.
TURN, SCALE, SHIFT = 0.26, 0.15, 0.14

#: Maximum of the entries added to the linear map of a whole batch, and maximum displacement (half
#: sides) of each point of a 4 x 4 grid over a drawing.
WARP, BEND = 0.3, 0.05

#: Share of batches that overlay two characters.
PAIRS = 0.5

TEMPERATURE = 0.07


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add_folder(parser, "--omniglot", "omniglot", "folder of omniglot.npz")
    add("--output", type=Path, default="encoder.safetensors", help="[%(default)s]")
    add("--n-filters", type=int, default=64, help="[%(default)s]")
    add("--shift", type=int, default=1, help="pixels, outside training [%(default)s]")
    add("--max-steps", type=int, default=15_000, help="[%(default)s]")
    add("--learning-rate", type=float, default=3e-3, help="[%(default)s]")
    add("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def distorted(images):
    """Move each picture (n, 1, S, S) by itself and distort all together; new areas are empty."""

    def uniform(*shape):
        return 2 * torch.rand(shape) - 1

    n = len(images)
    angle, scale = TURN * uniform(n), 1 + SCALE * uniform(n)
    cos, sin = scale * angle.cos(), scale * angle.sin()
    maps = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
    shared = torch.eye(2) + WARP * uniform(2, 2)
    if torch.rand(()) < 0.5:
        shared[:, 0] *= -1  # mirrored
    theta = torch.cat([shared @ maps, SHIFT * uniform(n, 2, 1)], dim=2)
    grid = affine_grid(theta, images.shape, align_corners=False)
    bend = interpolate(
        BEND * uniform(n, 2, 4, 4), images.shape[2:], mode="bicubic", align_corners=True
    )
    return grid_sample(images, grid + bend.permute(0, 2, 3, 1), align_corners=False)


def paired(images):
    """Overlay each drawing (n, 1, S, S), grouped by character, with one of the next character."""
    of_characters = images.unflatten(0, (N_CHARACTERS, N_INSTANCES))
    return torch.maximum(of_characters, of_characters.roll(1, 0)).flatten(0, 1)


def contrastive_loss(z, n_characters, temperature=TEMPERATURE):
    """Contrastive loss of images (n, W) grouped by character: each is to find those of its own.

    P. Khosla et al. Supervised contrastive learning. NeurIPS 2020.
    """
    z = normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool)
    character = torch.arange(n_characters).repeat_interleave(len(z) // n_characters)
    like = (character[:, None] == character) & ~itself
    logits = (z @ z.T / temperature).masked_fill(itself, -1e4)  # -inf times 0 is NaN
    return cross_entropy(logits, like / like.sum(1, keepdim=True))


class ByPlace(nn.Module):
    """Encoder of drawings given as positions in a collection; in training it distorts them."""

    def __init__(self, images, encoder):
        super().__init__()
        self.images = images
        self.encoder = encoder

    def forward(self, x):
        """Encode positions (n,) as vectors (n, W)."""
        images = self.images[x].float() / 255
        if self.training:
            if torch.rand(()) < PAIRS:
                images = paired(images)
            images = distorted(images)
        with autocast(images.device, "auto"):
            return self.encoder(images.flatten(1))


@torch.inference_mode()
def nearest(network, characters, n_ways, n_episodes=2000):
    """Accuracy of the nearest neighbour in episodes with one labelled drawing per character.

    Parameters
    ----------
    network : ByPlace
        Network in evaluation mode.
    characters : int array of shape (n_characters, 20)
        Positions of drawings.
    n_ways, n_episodes : int
        Number of characters per episode, with two random drawings of each, and of episodes.

    Returns
    -------
    float
    """
    places = torch.from_numpy(characters)
    z = torch.cat([network(part) for part in places.ravel().split(1000)])
    z = normalize(z, dim=1).unflatten(0, places.shape)
    rng, n_right = np.random.default_rng(0), 0
    for _ in range(n_episodes):
        ways = rng.choice(len(z), n_ways, replace=False)
        known, asked = rng.random((n_ways, z.shape[1])).argsort(1)[:, :2].T
        n_right += int(
            ((z[ways, asked] @ z[ways, known].T).argmax(1) == torch.arange(n_ways)).sum()
        )
    return n_right / (n_ways * n_episodes)


def main(arguments=None):
    args = parse_arguments(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    images, characters, alphabets = load(args.omniglot)
    learner = FewShotLearner(
        inputs="images",
        n_inputs=SIDE * SIDE,
        image_encoder="residual",
        encoder_config={"n_filters": args.n_filters, "shift": args.shift},
        backbone_config={"n_layers": 0},
    )
    network = ByPlace(images, learner.encoder)
    some = torch.from_numpy(characters["train"][::10].ravel())

    def draw(rng):
        places = torch.from_numpy(training_pool(rng, characters["train"], alphabets)).ravel()
        return {"x": places}, places

    def look(network):
        mend_batch_norm(network, some)
        found = {f"{n}_ways": nearest(network, characters["valid"], n) for n in (5, 20)}
        network.train()
        print(found, flush=True)
        return found

    curve = train(
        network,
        lambda z, _: contrastive_loss(z, N_CHARACTERS),
        draw,
        args.max_steps,
        args.learning_rate,
        args.seed,
        look,
    )
    mend_batch_norm(network, some)
    validation = {"nearest of one drawing": curve[-1], "split": "valid"}
    save(learner, args, __file__, data=DRAWINGS, validation=validation)


if __name__ == "__main__":
    main()
