"""Point clouds of benchmarks/paper_001.py: parametric solids in place of ModelNet40's objects."""

from itertools import product

import numpy as np
from scipy.spatial import ConvexHull

#: Random factors of each cloud: on each axis before the cloud is turned, and on the turned cloud.
STRETCH = (0.7, 1.3)
SCALE = (0.8, 1.25)
NOISE = 0.03  # standard deviation, for clouds of mean square distance 1 from their mean

GOLDEN = (1 + 5**0.5) / 2


def polygon(n_corners):
    """Corners of a regular polygon in the plane z = 0, (n, 3)."""
    angle = 2 * np.pi * np.arange(n_corners) / n_corners
    return np.column_stack([np.cos(angle), np.sin(angle), np.zeros(n_corners)])


def prism(n_corners):
    return np.concatenate([polygon(n_corners) - [0, 0, 0.8], polygon(n_corners) + [0, 0, 0.8]])


def arc(start, end, radius=1.0, centre=(0.0, 0.0), n_segments=24):
    """Profile (n + 1, 2) of an arc of a circle: radii and heights. Angles are from the equator."""
    angle = np.linspace(start, end, n_segments + 1)
    return np.column_stack([np.cos(angle), np.sin(angle)]) * radius + centre


QUARTER = np.pi / 2

#: Convex polyhedra by their corners.
POLYHEDRA = {
    "cube": np.array(list(product((-1.0, 1.0), repeat=3))),
    "tetrahedron": np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1.0)]),
    "octahedron": np.concatenate([np.eye(3), -np.eye(3)]),
    "icosahedron": np.array(
        [np.roll((0, a, b * GOLDEN), k) for a in (-1, 1) for b in (-1, 1) for k in range(3)]
    ),
    "pyramid": np.concatenate([polygon(4), [[0, 0, 1.4]]]),
    "triangular prism": prism(3),
    "hexagonal prism": prism(6),
}

#: Solids of revolution by their profile: a line through points (radius, height).
PROFILES = {
    "sphere": arc(-QUARTER, QUARTER, n_segments=48),
    "hemisphere": np.concatenate([[[0, 0]], arc(0, QUARTER)]),
    "capsule": np.concatenate(
        [arc(-QUARTER, 0, centre=(0, -0.7)), arc(0, QUARTER, centre=(0, 0.7))]
    ),
    "torus": arc(0, 2 * np.pi, radius=0.4, centre=(1.0, 0.0), n_segments=48),
    "cylinder": np.array([(0, -1), (1, -1), (1, 1), (0, 1.0)]),
    "tube": np.array([(1, -1), (1, 1.0)]),
    "cone": np.array([(0, 0), (1, 0), (0, 2.0)]),
    "frustum": np.array([(0, 0), (1, 0), (0.5, 1.2), (0, 1.2)]),
    "bicone": np.array([(0, -1.2), (1, 0), (0, 1.2)]),
}

SOLIDS = (*POLYHEDRA, *PROFILES)


def draw_cloud(rng, kind, n_points):
    """Draw points uniformly on a solid's surface; stretch, turn and scale them and add noise.

    The solid is turned around the vertical axis, as Zaheer et al. turn ModelNet40's objects.

    Parameters
    ----------
    rng : numpy.random.Generator
    kind : str
        One of `SOLIDS`.
    n_points : int

    Returns
    -------
    array of shape (n_points, 3)
        Centred before noise is added; its size varies by `SCALE` around a mean square distance of
        1.
    """
    on_surface = on_polyhedron if kind in POLYHEDRA else on_revolution
    x = on_surface(rng, kind, n_points) * rng.uniform(*STRETCH, 3)
    x = turn(x - x.mean(0), rng.uniform(0, 2 * np.pi))
    x /= np.sqrt((x**2).sum(1).mean())
    return (x + NOISE * rng.standard_normal(x.shape)) * rng.uniform(*SCALE)


def turn(x, angle):
    """Turn points around the vertical axis."""
    cos, sin = np.cos(angle), np.sin(angle)
    return x @ np.array([(cos, sin, 0), (-sin, cos, 0), (0, 0, 1)])


def on_polyhedron(rng, kind, n_points):
    """Draw points uniformly on the triangles of the convex hull of a polyhedron's corners."""
    corners, area = TRIANGLES[kind]
    a, b, c = corners[rng.choice(len(area), n_points, p=area / area.sum())].transpose(1, 0, 2)
    u, v = np.sort(rng.random((2, n_points, 1)), axis=0)
    return u * a + (v - u) * b + (1 - v) * c


def triangles(corners):
    """Return the triangles (T, 3, 3) of a convex hull and their areas (T,)."""
    faces = corners[ConvexHull(corners).simplices]
    normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
    return faces, np.linalg.norm(normals, axis=1) / 2


TRIANGLES = {kind: triangles(corners) for kind, corners in POLYHEDRA.items()}


def on_revolution(rng, kind, n_points):
    """Draw points uniformly on the surface that a profile sweeps around the axis."""
    start, end = PROFILES[kind][:-1], PROFILES[kind][1:]
    area = (start[:, 0] + end[:, 0]) * np.linalg.norm(end - start, axis=1)  # divided by pi
    i = rng.choice(len(area), n_points, p=area / area.sum())
    r0, r1 = start[i, 0], end[i, 0]
    # Along a segment the density grows with the radius, linearly from r0 to r1.
    radius = np.sqrt(r0**2 + rng.random(n_points) * (r1**2 - r0**2))
    flat = np.abs(r1 - r0) < 1e-9
    share = np.where(flat, rng.random(n_points), (radius - r0) / np.where(flat, 1, r1 - r0))
    radius = np.where(flat, r0, radius)
    height = start[i, 1] + share * (end[i, 1] - start[i, 1])
    angle = rng.uniform(0, 2 * np.pi, n_points)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), height])
