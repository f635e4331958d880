"""Drawings of an episode as vectors: rendered smaller, and moved as in paper 002."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch.nn.functional import affine_grid, grid_sample

from ..sizes import check_integers

#: Largest turn (radians) and shift (sides) of a drawing: section 7 of paper 002's supplement.
TILT, SHIFT = math.pi / 16, 10 / 105


@dataclass(frozen=True)
class Drawings:
    """Renderer of an episode's drawings as vectors, with the augmentation of paper 002.

    Parameters
    ----------
    size : int, default=20
        Side length of the rendered drawings in pixels.
    augment : bool, default=True
        Whether to shift each drawing by up to 10/105 of the side along both axes and rotate it by
        up to pi/16, and all drawings of a class by the same random multiple of 90 degrees.
    stretch : float, default=0.0
        Largest amount added to each entry of each drawing's linear map; not in the paper.
    warp : float, default=0.0
        Like ``stretch``, but the same for all drawings of a class; half of the classes are mirrored
        as well. Like rotation, this makes new characters of the existing ones. Not in the paper.

    Raises
    ------
    ValueError
        If `size` is not an integer of 1 or more.

    Notes
    -----
    All of this is one bilinear interpolation, for drawings of up to about twice the size. Ink moved
    out of the picture is lost; paper comes in.
    """

    size: int = 20
    augment: bool = True
    stretch: float = 0.0
    warp: float = 0.0

    def __post_init__(self):
        check_integers(size=self.size)

    @property
    def width(self):
        """Length of a vector, an int."""
        return self.size * self.size

    def __call__(self, X, classes=None, rng=None):
        """Render the drawings of an episode, or drawings for ``fit`` and ``predict``.

        Parameters
        ----------
        X : ndarray of shape (n, side * side), uint8
            Square drawings, row by row; ink is 255.
        classes : ndarray of shape (n,), int, optional
            Class of each drawing within the episode, counted from 0; not used without
            augmentation.
        rng : numpy.random.Generator, optional
            Not used without augmentation.

        Returns
        -------
        ndarray of shape (n, width), float32
            Square drawings, row by row, in [0, 1]; ink is 1.

        Raises
        ------
        ValueError
            If rows of ``X`` are not square drawings or not uint8, or ``classes`` or ``rng`` is
            missing with augmentation.
        """
        X = np.asarray(X)
        if X.dtype != np.uint8:  # hardly anything is left of ink that is 1
            raise ValueError(
                f"X must be uint8, with 255 for ink, got {X.dtype}: if ink is 1, give "
                "np.uint8(255 * X)."
            )
        if X.ndim != 2 or (side := math.isqrt(X.shape[1])) ** 2 != X.shape[1]:
            raise ValueError(
                f"Rows of X must be square pictures, (n, side * side), got shape {X.shape}."
            )
        pixels = np.divide(X, 255, dtype=np.float32).reshape(-1, 1, side, side)
        if self.augment and (classes is None or rng is None):
            raise ValueError("augment=True requires classes and rng: give both, or augment=False.")
        classes = np.zeros(len(X), dtype=int) if classes is None else np.asarray(classes)
        angle, shift = self._moves(classes, rng)
        # Affine maps from the rendered drawing to the original, which spans [-1, 1] both ways.
        cos, sin = np.cos(angle), np.sin(angle)
        maps = np.stack([cos, -sin, shift[0], sin, cos, shift[1]], axis=1).astype(np.float32)
        if self.stretch and self.augment:
            maps[:, [0, 1, 3, 4]] += rng.uniform(-self.stretch, self.stretch, (len(X), 4))
        if self.warp and self.augment:
            n_classes = classes.max() + 1
            maps[:, [0, 1, 3, 4]] += rng.uniform(-self.warp, self.warp, (n_classes, 4))[classes]
            maps[:, [0, 3]] *= rng.choice([-1, 1], (n_classes, 1))[classes]
        shape = (len(X), self.size, self.size, 2)
        with torch.autocast("cpu", enabled=False):  # a caller's would change pixels
            places = (_pixels(self.size) @ torch.from_numpy(maps.reshape(-1, 2, 3)).mT).view(shape)
            drawn = grid_sample(torch.from_numpy(pixels), places, align_corners=False)
        return drawn.clamp_(0, 1).numpy().reshape(len(X), self.width)  # weights sum to 1 +- 1e-7

    def _moves(self, classes, rng):
        """Angle (n,) and shift (2, n) of each drawing, in radians and half sides."""
        n = len(classes)
        if not self.augment:
            return np.zeros(n), np.zeros((2, n))
        quarters = rng.integers(4, size=classes.max() + 1)
        angle = rng.uniform(-TILT, TILT, n) + math.pi / 2 * quarters[classes]
        return angle, 2 * rng.uniform(-SHIFT, SHIFT, (2, n))


@cache
def _pixels(size):
    """Homogeneous coordinates of a picture's pixels, to multiply by a map; (size * size, 3)."""
    unmoved = torch.from_numpy(np.eye(2, 3, dtype=np.float32))[None]
    places = affine_grid(unmoved, (1, 1, size, size), align_corners=False)
    return torch.cat([places, torch.ones_like(places[..., :1])], -1).view(-1, 3)
