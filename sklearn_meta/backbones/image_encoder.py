"""A small convolutional network that makes vectors of pictures (section 3.1 of paper 003)."""

import math

import torch
from torch import nn


class ImageEncoder(nn.Module):
    """Blocks of convolution, batch normalisation, rectifier and pooling.

    Parameters
    ----------
    n_inputs : int
        Values of a picture: ``n_channels`` square planes, one after another.
    n_channels : int, default=1
        1 for grey pictures, 3 for colours.
    n_filters : int, default=48
        Of each block.
    n_blocks : int, default=4
        Each halves the sides.

    Raises
    ------
    ValueError
        If the planes are not square, or too small for so many blocks.
    """

    def __init__(self, n_inputs, *, n_channels=1, n_filters=48, n_blocks=4):
        super().__init__()
        side = math.isqrt(n_inputs // n_channels)
        if side * side * n_channels != n_inputs:
            raise ValueError(f"{n_inputs} values are no {n_channels} square planes.")
        if side < 2**n_blocks:
            raise ValueError(
                f"Pictures of {side} x {side} are too small for n_blocks={n_blocks}: take at most "
                f"{int(math.log2(side))}."
            )
        self.config = {"n_channels": n_channels, "n_filters": n_filters, "n_blocks": n_blocks}
        self.shape = (n_channels, side, side)
        sizes = [n_channels, *[n_filters] * n_blocks]
        self.blocks = nn.Sequential(*(_block(a, b) for a, b in zip(sizes[:-1], sizes[1:])))
        self.blocks.to(memory_format=torch.channels_last)  # twice as fast on a processor
        self.n_outputs = n_filters * (side // 2**n_blocks) ** 2

    def forward(self, x):
        """Vectors (..., n_outputs) of pictures (..., n_inputs)."""
        pictures = x.reshape(-1, *self.shape).contiguous(memory_format=torch.channels_last)
        return self.blocks(pictures).flatten(1).unflatten(0, x.shape[:-1])


def _block(n_inputs, n_filters):
    # A bias would be taken out again by the normalisation.
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_filters, 3, padding=1, bias=False),
        nn.BatchNorm2d(n_filters),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
