"""Functions drawn from a Gaussian process with known hyperparameters (paper 002, section 4.3)."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from ..sizes import check_integers, check_positive
from .dataset import Dataset


@dataclass(frozen=True)
class GaussianProcessPrior:
    """Random functions of one or more variables, drawn from a Gaussian process.

    Parameters
    ----------
    n_columns : int, default=1
        Dimension of the points, which are uniform in a cube.
    n_rows : int, default=50
        Number of points at which a function is known.
    length_scale : float, default=1.0
    amplitude : float, default=1.0
        Standard deviation of the functions.
    noise : float, default=0.05
        Standard deviation of the noise added to the function values.
    bounds : (float, float), default=(-3.0, 3.0)
        Bounds of the cube along each dimension.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks import GaussianProcessPrior
    >>> GaussianProcessPrior(n_columns=2).draw(np.random.default_rng(0)).X.shape
    (50, 2)
    """

    n_columns: int = 1
    n_rows: int = 50
    length_scale: float = 1.0
    amplitude: float = 1.0
    noise: float = 0.05
    bounds: tuple = (-3.0, 3.0)

    def __post_init__(self):
        check_integers(n_columns=self.n_columns, n_rows=self.n_rows)
        check_positive(length_scale=self.length_scale, amplitude=self.amplitude)
        if self.noise != 0:
            check_positive(noise=self.noise)
        if np.shape(self.bounds)[:1] != (2,) or not (0 < np.diff(self.bounds, axis=0)).all():
            raise ValueError(f"bounds must be two numbers, the lower first, got {self.bounds!r}.")

    @property
    def kernel(self):
        """The kernel of a GaussianProcessRegressor that knows everything but the function."""
        smooth = ConstantKernel(self.amplitude**2) * RBF(self.length_scale)
        return smooth + WhiteKernel(self.noise**2)

    def draw(self, rng):
        """Draw one function at ``n_rows`` points, a Dataset for regression."""
        X = rng.uniform(*self.bounds, (self.n_rows, self.n_columns))
        factor = np.linalg.cholesky(self.kernel(X) + 1e-9 * self.amplitude**2 * np.eye(self.n_rows))
        y = factor @ rng.standard_normal(self.n_rows)
        return Dataset("gaussian process", X.astype(np.float32), y.astype(np.float32))
