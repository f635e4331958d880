"""Small convolutional networks that turn pictures into vectors (section 3.1 of paper 003)."""

import math

import torch
from torch import nn
from torch.nn.functional import linear, normalize, pad

from ..sizes import check_integers


class ImageEncoder(nn.Module):
    """Blocks of convolution, batch normalisation, rectifier and pooling.

    Parameters
    ----------
    n_inputs : int
        Values of a picture: ``n_channels`` square planes, one after another.
    n_channels : int, default=1
        1 for grey pictures, 3 for colours.
    n_filters : int, default=48
        Filters of each block.
    n_blocks : int, default=4
        Each halves the sides; without blocks, vectors are the pictures themselves.

    Raises
    ------
    ValueError
        If a size is out of range, the planes are not square, or too small for so many blocks.
    """

    def __init__(self, n_inputs, *, n_channels=1, n_filters=48, n_blocks=4):
        super().__init__()
        check_integers(n_channels=n_channels, n_filters=n_filters)
        check_integers(0, n_blocks=n_blocks)
        side = _side(n_inputs, n_channels)
        if side < 2**n_blocks:
            raise ValueError(
                f"Pictures of {side} x {side} are too small for n_blocks={n_blocks}: use at most "
                f"{int(math.log2(side))}."
            )
        self.config = {"n_channels": n_channels, "n_filters": n_filters, "n_blocks": n_blocks}
        self.shape = (n_channels, side, side)
        sizes = [n_channels, *[n_filters] * n_blocks]
        self.blocks = nn.Sequential(*(_block(a, b) for a, b in zip(sizes[:-1], sizes[1:])))
        self.blocks.to(memory_format=torch.channels_last)  # twice as fast on a CPU
        self.n_outputs = sizes[-1] * (side // 2**n_blocks) ** 2

    def forward(self, x):
        """Vectors (..., n_outputs) of pictures (..., n_inputs)."""
        pictures = x.reshape(-1, *self.shape).contiguous(memory_format=torch.channels_last)
        return self.blocks(pictures).flatten(1).unflatten(0, x.shape[:-1])


def _block(n_inputs, n_filters):
    # No bias, since batch normalisation would remove it.
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_filters, 3, padding=1, bias=False),
        nn.BatchNorm2d(n_filters),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class ResidualImageEncoder(nn.Module):
    """A small residual network whose vectors all have the same norm.

    It has a convolution and three residual blocks, each of which halves the sides, and a linear
    layer. The cosine of two vectors says how similar their pictures are.

    Parameters
    ----------
    n_inputs : int
        Values of a picture: ``n_channels`` square planes, one after another.
    n_channels : int, default=1
        1 for grey pictures, 3 for colours.
    n_filters : int, default=64
        Filters of the first residual block, 2 or more. The convolution before it has half as many,
        the blocks after it twice as many.
    n_outputs : int, default=64
        Length of a vector; its norm is the square root of that.
    shift : int, default=0
        Outside of training, average the vectors of the picture moved by up to this many pixels
        along both axes, which takes (2 shift + 1)^2 times as long: with strides of two, the place
        of a line matters.

    Raises
    ------
    ValueError
        If a size is out of range, or the planes are not square.

    References
    ----------
    K. He et al. Deep residual learning for image recognition. CVPR 2016.
    """

    def __init__(self, n_inputs, *, n_channels=1, n_filters=64, n_outputs=64, shift=0):
        super().__init__()
        check_integers(n_channels=n_channels, n_outputs=n_outputs)
        check_integers(2, n_filters=n_filters)
        check_integers(0, shift=shift)
        side = _side(n_inputs, n_channels)
        self.config = {"n_channels": n_channels, "n_filters": n_filters, "n_outputs": n_outputs}
        self.config["shift"] = self.shift = shift
        self.shape = (n_channels, side, side)
        self.blocks = nn.Sequential(
            nn.Conv2d(n_channels, n_filters // 2, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(n_filters // 2),
            nn.ReLU(),
            _Residual(n_filters // 2, n_filters),
            _Residual(n_filters, 2 * n_filters),
            _Residual(2 * n_filters, 2 * n_filters),
        )
        self.blocks.to(memory_format=torch.channels_last)
        self.output = nn.Linear(2 * n_filters * math.ceil(side / 16) ** 2, n_outputs)
        self.n_outputs = n_outputs

    def forward(self, x):
        """Vectors (..., n_outputs) of pictures (..., n_inputs)."""
        pictures = x.reshape(-1, *self.shape)
        if self.training or not self.shift:
            z = self._encode(pictures)
        else:
            n, side = self.shift, self.shape[1]
            padded = pad(pictures, (n, n, n, n))
            places = [slice(i, i + side) for i in range(2 * n + 1)]
            z = sum(self._encode(padded[:, :, i, j]) for i in places for j in places)
            z = self._scaled(z)
        return z.unflatten(0, x.shape[:-1])

    def _encode(self, pictures):
        pictures = pictures.contiguous(memory_format=torch.channels_last)
        return self._scaled(self.output(self.blocks(pictures).flatten(1)))

    def _scaled(self, z):
        return normalize(z, dim=1) * self.n_outputs**0.5


class _Residual(nn.Module):
    """Residual block: two convolutions, the first of stride 2, and a shortcut of single pixels."""

    def __init__(self, n_inputs, n_filters):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(n_inputs, n_filters, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(n_filters),
            nn.ReLU(),
            nn.Conv2d(n_filters, n_filters, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_filters),
        )
        self.shortcut = nn.Sequential(
            _EverySecondPixel(n_inputs, n_filters),
            nn.BatchNorm2d(n_filters),
        )

    def forward(self, x):
        return torch.relu(self.shortcut(x) + self.branch(x))


class _EverySecondPixel(nn.Conv2d):
    """Convolution of single pixels with a stride of 2, computed as a matrix product.

    With fewer than 8 channels, oneDNN's gradient of such a convolution overwrites memory on CPUs
    that have AVX2 and no more (torch 2.13, AMD EPYC).
    """

    def __init__(self, n_inputs, n_filters):
        super().__init__(n_inputs, n_filters, 1, stride=2, bias=False)

    def forward(self, x):
        pixels = x[..., ::2, ::2].movedim(1, -1)
        return linear(pixels, self.weight.flatten(1)).movedim(-1, 1)


def _side(n_inputs, n_channels):
    side = math.isqrt(n_inputs // n_channels)
    if side * side * n_channels != n_inputs:
        raise ValueError(f"{n_inputs} values do not make {n_channels} square planes.")
    return side


#: Encoders of pictures, by name.
IMAGE_ENCODERS = {"convolutional": ImageEncoder, "residual": ResidualImageEncoder}
