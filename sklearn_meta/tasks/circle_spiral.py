"""Circle-Spiral: synthetic tasks about which a few labels alone say little (paper 000)."""

from dataclasses import dataclass

import numpy as np

from ..sizes import check_integers, check_ranges
from .dataset import Dataset
from .manifolds import rings, spirals

# name -> (figure, number of classes, jitter): thin lines, well apart in the two dimensions.
_FIGURES = {"circle": (rings, 2, 0.05), "spiral": (spirals, 5, 0.025)}


@dataclass(frozen=True)
class CircleSpiral:
    """Circles and spirals hidden among columns of noise.

    A Circle table has two concentric circles of radius 0.5 and 1, a Spiral table five spiral arms.
    Rows are spread at random along the figure with a little jitter, and the two coordinates are
    scaled to unit variance. Columns of standard Gaussian noise are added, and the columns are
    shuffled, so the two columns that carry the figure differ from table to table.

    Parameters
    ----------
    n_columns : tuple of (int, int), default=(2, 10)
        Smallest and largest total number of columns, both inclusive, each equally likely.

    n_rows_per_class : int, default=25
        Rows per class. Paper 000 gives every table 100 rows, which is not enough for five classes
        with 5 labelled and 20 unlabelled rows each. 25 per class are just enough, and make 50 rows
        for Circle and 125 for Spiral. Tasks with more shots or unlabelled rows need as many more.

    kinds : tuple of str, default=("circle", "spiral")
        Figures to draw from, each equally likely.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    Section 4.1, "Circle-Spiral data", of paper 000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks.circle_spiral import CircleSpiral
    >>> CircleSpiral(n_columns=(4, 4), kinds=("spiral",)).draw(np.random.default_rng(0)).X.shape
    (125, 4)
    """

    n_columns: tuple = (2, 10)
    n_rows_per_class: int = 25
    kinds: tuple = ("circle", "spiral")

    def __post_init__(self):
        check_ranges(2, n_columns=self.n_columns)
        check_integers(n_rows_per_class=self.n_rows_per_class)
        if not self.kinds or not set(self.kinds) <= set(_FIGURES):
            raise ValueError(f"kinds must be chosen from {sorted(_FIGURES)}, got {self.kinds!r}.")

    def draw(self, rng):
        """Draw one table.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness: equal generators draw equal tables.

        Returns
        -------
        dataset : Dataset
            Has balanced classes and is named "circle" or "spiral".
        """
        kind = self.kinds[rng.integers(len(self.kinds))]
        figure, n_classes, jitter = _FIGURES[kind]
        y = rng.permutation(np.repeat(np.arange(n_classes), self.n_rows_per_class))
        points = figure(rng, y, n_classes)
        points += jitter * rng.standard_normal(points.shape)
        points = (points - points.mean(axis=0)) / points.std(axis=0)
        n_noise = rng.integers(self.n_columns[0], self.n_columns[1] + 1) - 2
        X = np.hstack([points, rng.standard_normal((len(y), n_noise))])
        return Dataset(kind, X[:, rng.permutation(X.shape[1])].astype(np.float32), y)


def circle_spiral_tasks(n_tasks=100, random_state=0, **parameters):
    """Fixed Circle-Spiral tables, like the 100 tasks of paper 000.

    Parameters
    ----------
    n_tasks : int, default=100
        Number of tables, alternately Circle and Spiral.

    random_state : int, default=0
        Seed of the tables.

    **parameters
        Parameters of `CircleSpiral`, except `kinds`.

    Returns
    -------
    tasks : dict of str to Dataset
        Keys are "circle-0", "spiral-1", "circle-2" and so on, which are the tables' names, too.
    """
    rng = np.random.default_rng(random_state)
    sources = [CircleSpiral(kinds=(kind,), **parameters) for kind in _FIGURES]
    drawn = (sources[i % len(sources)].draw(rng) for i in range(n_tasks))
    named = (dataset._replace(name=f"{dataset.name}-{i}") for i, dataset in enumerate(drawn))
    return {dataset.name: dataset for dataset in named}
