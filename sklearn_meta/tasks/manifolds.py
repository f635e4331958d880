"""Classes that lie on curves and sheets: unlabelled rows show their shape, a few labels do not.

Each function takes ``(rng, y, n_classes)`` and returns the points of the rows, an array of shape
(n_rows, 2) or (n_rows, 3), without noise, of roughly unit extent.
"""

import numpy as np


def rings(rng, y, n_classes):
    """Concentric circles, one per class; the outer one has radius 1."""
    angle = rng.uniform(0, 2 * np.pi, len(y))
    radius = (y + 1) / n_classes
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def spirals(rng, y, n_classes, turn=4.0):
    """Spiral-shaped arms around the origin, one per class.

    ``turn`` is the angle in radians that an arm sweeps from radius 0.2 to radius 1.
    """
    t = rng.uniform(0, 1, len(y))
    angle = 2 * np.pi * y / n_classes + turn * t
    radius = 0.2 + 0.8 * t
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def wound_spirals(rng, y, n_classes):
    """Spirals wound loosely or tightly, either way around."""
    return spirals(rng, y, n_classes, turn=rng.choice([-1, 1]) * rng.uniform(2, 7))


def moons(rng, y, n_classes):
    """A chain of interleaved half circles, opening down and up in turn."""
    angle = rng.uniform(0, np.pi, len(y))
    side = 1 - 2 * (y % 2)
    return np.stack([np.cos(angle) + 1.2 * y, side * (np.sin(angle) - 0.25)], axis=1)


def swiss_roll(rng, y, n_classes):
    """A rolled-up sheet, cut into equal lengths, one per class, from the inside out."""
    t = 1.5 * np.pi * (1 + 2 * (y + rng.uniform(0.05, 0.95, len(y))) / n_classes)
    height = rng.uniform(-1, 1, len(y))
    return np.stack([t * np.cos(t) / 12, t * np.sin(t) / 12, height], axis=1)


def curves(rng, y, n_classes):
    """Random smooth curves, one per class: short Fourier series of falling amplitude in 3 axes."""
    waves = np.arange(1, 4)
    t = rng.uniform(0, np.pi, len(y))
    amplitude = rng.standard_normal((n_classes, 3, len(waves))) / waves
    phase = rng.uniform(0, 2 * np.pi, (n_classes, 3, len(waves)))
    offset = 0.7 * rng.standard_normal((n_classes, 3))
    wave = np.sin(t[:, None, None] * waves + phase[y])
    return offset[y] + (amplitude[y] * wave).sum(axis=2)


MANIFOLDS = (rings, wound_spirals, moons, swiss_roll, curves)
