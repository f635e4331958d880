"""Speed of regression: many synthetic tasks at once against a loop of Gaussian processes.

    python benchmarks/gp_speed.py
    python benchmarks/gp_speed.py --quick --output /tmp/gp_speed

Every row is a ratio of two things timed in turn in one run; above 1, ours is better. The head alone
is compared with scikit-learn's GaussianProcessRegressor with the same fixed kernel on the same
embeddings, and both are checked to give the same answers. ``predict_batch`` of MetaGPRegressor is
compared with ``fit`` and ``predict`` of each task in a loop, and with a GaussianProcessRegressor
that fits its kernel to each task.
"""

import argparse
import csv
import os
import warnings
from pathlib import Path

import numpy as np
import sklearn
import torch
from arguments import count
from results_folder import place_of
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from speed import FIELDS, as_text, interleaved, row_of
from threadpoolctl import threadpool_limits

from sklearn_meta import MetaGPRegressor
from sklearn_meta.heads import GaussianProcess

#: Numbers of labelled and unlabelled rows of the tasks.
SIZES = [(10, 40), (20, 80), (100, 100)]
N_COLUMNS = 8
EMBEDDING = (N_COLUMNS, 8)  # attributes, and width of each
FIXED = "GaussianProcessRegressor, same kernel, loop"
FITTED = "GaussianProcessRegressor, kernel fitted, loop"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few small tasks")
    parser.add_argument("--n-tasks", type=count, default=256)
    parser.add_argument("--n-repeats", type=count, default=5, help="minimum of timed calls of each")
    parser.add_argument("--output", help="no ending [benchmarks/results/gp_speed, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "gp_speed", args.quick)
    sizes = SIZES
    if args.quick:
        args.n_tasks, args.n_repeats, sizes = 4, 1, SIZES[:1]
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows = []
    with threadpool_limits(1):
        for measurement in (head_rows, batch_rows):
            for row in measurement(args.n_tasks, sizes, args.n_repeats):
                rows.append(row)
                print(as_text(row), flush=True)
    write(rows, Path(args.output), args, load)


def case_of(n_tasks, size, rest):
    return f"{n_tasks} tasks of {size[0]} labelled and {size[1]} unlabelled rows, {rest}"


# The head alone


def head_rows(n_tasks, sizes, n_repeats):
    """Compare fit and prediction by the batched head with scikit-learn on the same embeddings."""
    rng = np.random.default_rng(0)
    for size in sizes:
        z = rng.standard_normal((n_tasks, sum(size), *EMBEDDING))
        y = rng.standard_normal((n_tasks, size[0]))
        for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-3)):
            head = (
                GaussianProcess(n_kernels=1, length_scale=8.0, noise=0.1)
                .to(dtype)
                .requires_grad_(False)
            )
            ours = by_head(head, torch.from_numpy(z).to(dtype), torch.from_numpy(y).to(dtype))
            theirs = by_loop(head, z, y)
            for found, expected in zip(ours(), theirs()):  # means, then variances
                np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
            name = f"head gp, batched, {str(dtype)[6:]}"
            case = case_of(n_tasks, size, f"embeddings of width {np.prod(EMBEDDING)}")
            yield row_of("head", case, interleaved({name: ours, FIXED: theirs}, n_repeats))


def by_head(head, z, y):
    """Return a function that returns means and variances of all tasks' unlabelled rows."""
    n_labelled = y.shape[1]
    classes, readable = (torch.ones(shape, dtype=torch.bool) for shape in ((len(z), 1), y.shape))

    def call():
        state = head.adapt(z[:, :n_labelled], y[..., None], classes, readable)
        return head(z[:, n_labelled:], state)[:, :, 0].unbind(-1)

    return call


def by_loop(head, z, y):
    """Return a function that does the same by scikit-learn, one task at a time."""
    noise = head.noise().item()
    kernel = ConstantKernel(head.log_amplitude.exp().item(), "fixed")
    kernel *= RBF(head.log_length_scale.exp().item(), "fixed")
    rows = z.reshape(*z.shape[:2], -1)

    def call():
        found = []
        for task, targets in zip(rows, y):
            process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
            process.fit(task[: len(targets)], targets)
            mean, std = process.predict(task[len(targets) :], return_std=True)
            found.append((mean, std**2 + noise))
        return np.swapaxes(found, 0, 1)

    return call


# The estimator


def task_of(seed, n_labelled, n_unlabelled):
    """X_labelled, y_labelled, X_unlabelled of a smooth function of a few columns with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_labelled + n_unlabelled, N_COLUMNS))
    y = np.sin(X[:, 0] + rng.normal()) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    return X[:n_labelled], y[:n_labelled], X[n_labelled:]


def batch_rows(n_tasks, sizes, n_repeats):
    """Compare ``predict_batch`` with loops of ``fit`` and ``predict``, ours and scikit-learn's."""
    for size in sizes:
        tasks = [task_of(seed, *size) for seed in range(n_tasks)]
        for dtype, tolerance in (("float32", 1e-3), ("auto", 0.3)):
            meta = MetaGPRegressor(device="cpu", dtype=dtype)
            calls = {
                f"predict_batch, dtype={dtype}": lambda: meta.predict_batch(tasks, return_std=True),  # noqa: B023
                "fit and predict, loop": lambda: loop(meta, tasks),  # noqa: B023
            }
            batched, single = (call() for call in calls.values())
            # The error is in standard deviations of the labelled targets. "auto" may be bfloat16.
            scale = np.array([y.std() for _, y, _ in tasks])[:, None, None]
            error = np.abs(np.array(batched) - np.array(single)) / scale
            assert error.max() < tolerance, f"predict_batch and the loop differ by {error.max()}"
            case = case_of(n_tasks, size, f"{N_COLUMNS} columns")
            yield row_of("predict_batch", case, interleaved(calls, n_repeats))
            (name, batch), _ = calls.items()
            calls = {name: batch, FITTED: lambda: loop(fitted_process(), tasks)}  # noqa: B023
            yield row_of("predict_batch", case, interleaved(calls, min(n_repeats, 3)))


def fitted_process():
    kernel = ConstantKernel() * RBF(N_COLUMNS**0.5) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True)


def loop(regressor, tasks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kernels that end at a bound
        return [regressor.fit(X, y).predict(new, return_std=True) for X, y, new in tasks]


# The report


def write(rows, output, args, load):
    """Write all rows as CSV and as a Markdown table."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    options = f"--n-tasks {args.n_tasks} --n-repeats {args.n_repeats}"
    lines = [
        f"`python benchmarks/gp_speed.py {'--quick' if args.quick else options}`: "
        f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, one thread of "
        f"{os.cpu_count()} cores, load {load:.1f} before the run. Medians of calls in turn; "
        "ratios above 1: ours is better.",
        "",
        "| " + " | ".join(FIELDS) + " |",
        "|---" * len(FIELDS) + "|",
    ]
    for row in rows:
        cells = (f"{v:.2f}" if isinstance(v := row[f], float) else str(v) for f in FIELDS)
        lines.append("| " + " | ".join(cells) + " |")
    output.with_suffix(".md").write_text("\n".join([*lines, ""]), "utf-8")
    print(f"written to {output.with_suffix('.md')} and {output.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
