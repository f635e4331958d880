"""Speed of make_symbolic_regression, which fits thousands of small networks, against a loop.

    OMP_NUM_THREADS=1 python benchmarks/symbolic_speed.py
    python benchmarks/symbolic_speed.py --quick

make_symbolic_regression makes the data of symbolic regression (paper 003, appendix A.1): networks
fitted side by side. A loop over torch's Sequential and Adam fits some of these networks, spread
evenly over all functions, one after the other from the same initial weights. Both are first checked
to end with the same weights, and take turns in one run. The ratio is of times per network, above 1
if ours is faster.
"""

import argparse

import numpy as np
import torch
from arguments import count
from results_folder import place_of
from speed import conditions, interleaved, publish
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sklearn_meta.tasks.symbolic import _initial_bounds, _initial_weights, make_symbolic_regression

#: Settings of make_symbolic_regression; this benchmark chooses only threads and sizes.
HIDDEN, THRESHOLD, N_POINTS, LEARNING_RATE, MAX_ITER, SEED = 16, 1e-3, 32, 0.03, 1000, 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few networks")
    parser.add_argument("--n-repeats", type=count, default=5, help="minimum of timed runs of each")
    parser.add_argument("--output", help="file [benchmarks/results/symbolic_speed.md, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "symbolic_speed.md", args.quick)
    n_functions, n_networks, n_single = (6, 5, 3) if args.quick else (100, 20, 100)
    n_repeats = 1 if args.quick else args.n_repeats
    torch.set_num_threads(1)
    before = conditions()
    networks = make_symbolic_regression(n_functions, n_networks, random_state=SEED)
    n = len(networks.weights)
    chosen = np.linspace(0, n - 1, n_single).astype(int)
    np.testing.assert_allclose(
        [fit_single(networks, i, n_networks) for i in chosen],
        networks.weights[chosen],
        rtol=0,
        atol=2 * LEARNING_RATE,  # rounding may end a fit a step earlier or later
    )
    counts = {"make_symbolic_regression": n, "loop over Sequential and Adam": n_single}
    fits = [
        lambda: make_symbolic_regression(n_functions, n_networks, random_state=SEED),
        lambda: [fit_single(networks, i, n_networks) for i in chosen],
    ]
    times = interleaved(dict(zip(counts, fits)), n_repeats)
    each = {name: times[name] / counts[name] for name in counts}
    lines = [
        f"{before} Median of {n_repeats} or more runs in turn; networks of {HIDDEN} hidden units, "
        f"fitted to a mean squared error below {THRESHOLD}.",
        "",
        "| implementation | networks | ms a network | networks / s | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, ms in each.items():
        ratio = each["loop over Sequential and Adam"] / ms
        lines.append(f"| {name} | {counts[name]} | {ms:.2f} | {1000 / ms:.0f} | {ratio:.1f} |")
    publish(lines, args.output)


def fit_single(networks, i, n_networks):
    """Fit network i alone, from the initial weights that ours starts with; return its weights."""
    model = nn.Sequential(nn.Linear(1, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    x = torch.linspace(-1, 1, N_POINTS)[:, None]
    p0, p1, p2 = networks.coefficients[i].tolist()
    y = p0 + p1 * x + p2 * x**2
    n_restarts = 0
    while True:
        seed = (SEED, 1 + i // n_networks, i % n_networks, n_restarts)
        start = _initial_weights([seed], _initial_bounds([HIDDEN]))[0]
        vector_to_parameters(torch.from_numpy(start), model.parameters())
        optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
        for _ in range(MAX_ITER + 1):
            loss = nn.functional.mse_loss(model(x), y)
            if loss.item() < THRESHOLD:
                return parameters_to_vector(model.parameters()).detach().numpy()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        n_restarts += 1


if __name__ == "__main__":
    main()
