"""Weights of small networks, each fitted to a constant, a line or a parabola (paper 003, A.1).

A meta-learner reads the weights of a network as one vector and predicts the function or its
coefficients.
"""

import hashlib
import json
import os
from collections import deque
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import numpy as np
import torch

from ..folders import check_writable, expanded, locked
from ..sizes import check_integers, check_positive
from .dataset import Dataset

#: Number of networks fitted at a time: few enough that the data of a step fit in a CPU's cache.
BATCH = 256

#: Parameters of Adam, as in its paper.
BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class SymbolicNetworks:
    """Fitted networks, as a source of episodes whose classes are functions.

    Parameters
    ----------
    weights : ndarray of shape (n, n_weights), float32
        One network per row. Layer by layer, weights of shape (n_outputs, n_inputs) row by row, then
        biases: the order of :func:`torch.nn.utils.parameters_to_vector` for Linear layers.
    functions : ndarray of shape (n,), int64
        Index of the function that each network was fitted to.
    coefficients : ndarray of shape (n, 3), float32
        Coefficients of that function p0 + p1 x + p2 x^2; 0 above its degree.
    losses : ndarray of shape (n,), float32
        Mean squared error of each network on the grid.
    """

    weights: np.ndarray
    functions: np.ndarray
    coefficients: np.ndarray
    losses: np.ndarray

    def __repr__(self):
        n_functions = len(np.unique(self.functions))
        return f"SymbolicNetworks({len(self.weights)} networks of {n_functions} functions)"

    @property
    def dataset(self):
        """``X`` are the weights, ``y`` the functions; a Dataset."""
        return Dataset("symbolic regression", self.weights, self.functions)

    @property
    def regression(self):
        """``X`` are the weights, ``y`` of shape (n, 3) the coefficients; a Dataset."""
        return Dataset("symbolic regression", self.weights, self.coefficients)

    def draw(self, rng):
        """All networks, the same Dataset each time; ``rng`` is not used."""
        return self.dataset


def make_symbolic_regression(
    n_functions=200,
    n_networks=20,
    *,
    degrees=(0, 1, 2),
    hidden=(16,),
    threshold=1e-3,
    n_points=32,
    learning_rate=0.03,
    max_iter=1000,
    max_restarts=10,
    random_state=0,
    data_home=None,
):
    """Fit many networks of one architecture to random functions of one variable.

    Functions are constants p0, lines p0 + p1 x or parabolas p0 + p1 x + p2 x^2 with coefficients
    uniform in [-1, 1]. A network starts from random weights and is fitted by Adam on an even grid
    over [-1, 1], until its mean squared error is below the threshold for the first time. Use
    different ``random_state`` for the functions to train, validate and test on.

    Parameters
    ----------
    n_functions, n_networks : int, default=200 and 20
        Number of functions, and of networks fitted to each of them.
    degrees : sequence of {0, 1, 2}, default=(0, 1, 2)
        Degrees of the functions, used in turn.
    hidden : sequence of int, default=(16,)
        Width of each hidden layer; each is followed by tanh, the output by nothing.
    threshold : float, default=1e-3
        Mean squared error to fall below, in squared units of the function's values.
    n_points : int, default=32
        Number of grid points, at least 3.
    learning_rate : float, default=0.03
        Learning rate of Adam.
    max_iter, max_restarts : int, default=1000 and 10
        Steps after which a network is restarted with other weights, and maximum number of restarts.
    random_state : int, default=0
        Seed; equal seeds give bit-identical data. Global generators are left untouched.
    data_home : path, default=None
        Folder to keep the data in, and to read them from if they are there, in
        ``symbolic_regression``. If None, nothing is kept; :func:`sklearn.datasets.get_data_home`
        returns scikit-learn's folder.

    Returns
    -------
    SymbolicNetworks
        ``n_functions * n_networks`` networks; those of one function are adjacent.

    Raises
    ------
    ValueError
        If a parameter is out of range, a network does not get below the threshold, or a file in
        ``data_home`` is damaged.

    Notes
    -----
    The paper does not specify the architecture, grid, threshold and distribution of coefficients,
    and has 10,000 networks per function, which ``n_networks`` may ask for. It mentions four outputs
    of the meta-network, but only constant, linear and quadratic functions, which have three
    coefficients at most: here there are three.

    Weights are initialised as in :class:`torch.nn.Linear`. A network's weights do not depend on the
    others that are fitted with it: a call for more functions or networks returns the same ones and
    others.

    References
    ----------
    Paper 003, appendix A.1, "Symbolic Regression dataset".

    Examples
    --------
    >>> from sklearn_meta.tasks.symbolic import make_symbolic_regression
    >>> networks = make_symbolic_regression(n_functions=3, n_networks=2)
    >>> networks
    SymbolicNetworks(6 networks of 3 functions)
    >>> networks.weights.shape, networks.functions.tolist()
    ((6, 49), [0, 0, 1, 1, 2, 2])
    """
    settings = {
        "n_functions": _integer("n_functions", n_functions, 1),
        "n_networks": _integer("n_networks", n_networks, 1),
        "degrees": _integers("degrees", degrees, 0),
        "hidden": _integers("hidden", hidden, 1),
        "threshold": _positive("threshold", threshold),
        "n_points": _integer("n_points", n_points, 3),
        "learning_rate": _positive("learning_rate", learning_rate),
        "max_iter": _integer("max_iter", max_iter, 1),
        "max_restarts": _integer("max_restarts", max_restarts, 0),
        "random_state": _integer("random_state", random_state, 0),
    }
    if max(settings["degrees"]) > 2:
        raise ValueError(f"degrees must be chosen from 0, 1 and 2, got {degrees!r}.")
    if data_home is None:
        return _generate(**settings)
    # Raise the version whenever the generated data change.
    key = hashlib.sha256(json.dumps({"version": 1, **settings}).encode()).hexdigest()[:16]
    file = expanded(data_home) / "symbolic_regression" / f"{key}.npz"
    if not file.exists():
        check_writable(file, "data_home", make=True)  # before the work, which takes minutes
        _write(file, _generate(**settings))
    n = settings["n_functions"] * settings["n_networks"]
    return _read(file, n, len(_initial_bounds(settings["hidden"])))


def _integer(name, value, low):
    check_integers(low, **{name: value})
    return int(value)


def _integers(name, values, low):
    if not np.iterable(values) or not len(values):
        raise ValueError(f"{name} must be a sequence of one or more integers, got {values!r}.")
    return [_integer(f"Each of {name}", value, low) for value in values]


def _positive(name, value):
    check_positive(**{name: value})
    return float(value)


def _generate(n_functions, n_networks, degrees, n_points, random_state, **settings):
    coefficients = np.random.default_rng(random_state).uniform(-1, 1, (n_functions, 3))
    is_used = np.arange(3) <= np.resize(degrees, (n_functions, 1))
    coefficients = np.where(is_used, coefficients, 0).astype(np.float32)
    x = np.linspace(-1, 1, n_points, dtype=np.float32)
    p0, p1, p2 = coefficients.T[:, :, None]
    weights, losses = _fit(x, p0 + p1 * x + p2 * x**2, n_networks, random_state, **settings)
    functions = np.repeat(np.arange(n_functions), n_networks)
    return SymbolicNetworks(weights, functions, coefficients[functions], losses)


def _fit(x, targets, n_networks, seed, hidden, threshold, learning_rate, max_iter, max_restarts):
    """Weights (n, n_weights) and losses (n,) of ``n_networks`` for each row of targets."""
    x, targets = torch.from_numpy(x)[:, None], torch.from_numpy(targets)
    bounds = _initial_bounds(hidden)
    n = len(targets) * n_networks
    weights, losses = np.empty((n, len(bounds)), np.float32), np.empty(n, np.float32)
    waiting, n_restarts = deque(range(n)), np.zeros(n, dtype=int)
    # This many are fitted side by side; when one is done, the next takes its place.
    free = np.arange(max(2, min(n, BATCH)))
    network, places = np.empty_like(free), len(free)
    state = torch.empty(3, places, len(bounds), dtype=torch.float32)  # weights and Adam's moments
    step = torch.empty(places, 1, dtype=torch.float64)
    y = torch.empty(places, len(x), dtype=torch.float32)
    while True:
        filled = free[: len(waiting)]
        if len(filled):
            new = network[filled] = [waiting.popleft() for _ in filled]
            state[:, filled] = step[filled] = 0
            # Count from 1: trailing zeros leave a seed unchanged, and `seed` drew the coefficients.
            seeds = [(seed, 1 + i // n_networks, i % n_networks, n_restarts[i]) for i in new]
            state[0, filled] = torch.from_numpy(_initial_weights(seeds, bounds))
            y[filled] = targets[np.array(new) // n_networks]
        if len(filled) < len(free):
            kept = np.delete(np.arange(len(network)), free[len(filled) :])
            if not len(kept):
                return weights, losses
            # PyTorch rounds one product unlike a batch of several: run the last network twice.
            kept = np.resize(kept, max(2, len(kept)))
            network, state, step, y = network[kept], state[:, kept], step[kept], y[kept]
        loss, gradient = _loss_and_gradient(state[0], x, y, hidden)
        reached = loss < threshold
        spent = ~reached & (step[:, 0].numpy() >= max_iter)
        weights[network[reached]], losses[network[reached]] = state[0, reached], loss[reached]
        n_restarts[network[spent]] += 1
        waiting.extend(network[spent].tolist())
        if n_restarts.max() > max_restarts:
            raise ValueError(
                f"A network does not get below {threshold=} in {n_restarts.max()} times {max_iter} "
                f"steps: increase threshold or max_iter, or use more units than {hidden=}."
            )
        _adam(state, gradient, step, learning_rate)  # of finished ones, too: it costs less
        free = np.flatnonzero(reached | spent)


def _initial_bounds(hidden):
    """Largest initial magnitude of each weight; (n_weights,)."""
    layers = pairwise([1, *hidden, 1])
    return np.concatenate([np.full(o * (i + 1), i**-0.5, np.float32) for i, o in layers])


def _initial_weights(seeds, bounds):
    """Initial weights (n, n_weights) of networks, each from its own seed."""
    draws = [np.random.default_rng(s).random(len(bounds), dtype=np.float32) for s in seeds]
    return (2 * np.stack(draws) - 1) * bounds


def _loss_and_gradient(weights, x, y, hidden):
    """Loss (n,) of each network, an array, and its gradient (n, n_weights); y is (n, n_points)."""
    layers = list(pairwise([1, *hidden, 1]))
    with torch.enable_grad():
        weights = weights.detach().requires_grad_()
        parts = iter(weights.split([size for i, o in layers for size in (o * i, o)], dim=1))
        out = x.expand(len(y), -1, -1)
        for depth, (n_in, n_out) in enumerate(layers):
            weight, bias = next(parts).unflatten(1, (n_out, n_in)), next(parts)[:, None]
            out = torch.baddbmm(bias, out.tanh() if depth else out, weight.mT)
        loss = (out[..., 0] - y).square().mean(1)
        # Each loss depends on its own weights alone, so the sum's gradient holds that of each.
        (gradient,) = torch.autograd.grad(loss.sum(), weights)
    return loss.detach().numpy(), gradient


def _adam(state, gradient, step, learning_rate):
    """One step of Adam, in place; networks may be at different steps."""
    weights, mean, square = state
    step += 1
    mean.lerp_(gradient, 1 - BETAS[0])
    square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    rate, share = learning_rate / (1 - BETAS[0] ** step), 1 - BETAS[1] ** step
    weights.sub_(rate.float() * mean / ((square / share.float()).sqrt_() + EPSILON))


def _write(file, networks):
    """Write a partial file, and move it into place when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    with locked(file.parent):
        try:
            with partial.open("wb") as content:  # overwrites that of a killed call
                np.savez(content, **vars(networks))
            os.replace(partial, file)
        except OSError as error:
            raise OSError(
                f"{file} cannot be written ({error}): make room on the disk and call again, or "
                "leave data_home None to keep the networks in memory alone."
            ) from error
        finally:
            partial.unlink(missing_ok=True)


def _read(file, n, n_weights):
    content = BytesIO(file.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            networks = SymbolicNetworks(**arrays)
        shapes = [array.shape for array in vars(networks).values()]
        if shapes != [(n, n_weights), (n,), (n, 3), (n,)]:
            raise ValueError(f"it has arrays of shapes {shapes}")
        return networks
    except Exception as error:  # damage can raise nearly any error
        raise ValueError(
            f"{file} cannot be read as fitted networks ({error}): remove it and call again."
        ) from error
