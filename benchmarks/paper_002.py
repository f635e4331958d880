"""Tables 1 and 2 and Figures 3 to 6 of paper 002: memory-augmented networks against their rivals.

Meta-trains the memory-augmented network (MANN) and its rivals (LSTM, feed-forward, nearest
neighbours and others) and measures accuracy by instance of a class on sequences of Omniglot's
drawings. Figures 5 and 6 compare its regression of functions drawn from a Gaussian process with
that process.

    python benchmarks/paper_002.py --omniglot FOLDER
    python benchmarks/paper_002.py --only table_2 --methods "MANN (LRUA), LSTM" LSTM --seeds 3
    python benchmarks/paper_002.py --only table_1 table_2 --weights omniglot_mann
    python benchmarks/paper_002.py --quick

benchmarks/README.md explains the protocol and the results. All networks of a task train for the
same number of steps, 16 episodes each. Each cell (method x task x seed) and the state of its
training are kept under `--cache`, so a killed run resumes where it ended.
"""

import argparse
from pathlib import Path

import pandas as pd
import paper_002_report as report
import torch
from arguments import add_folder, add_only, check_names, count
from paper_002_evaluation import predict_after
from paper_002_grid import MANN, REGRESSIONS, TABLES
from paper_002_training import RECIPES, network_of, prior, run_cell
from results_folder import place_of
from sklearn.gaussian_process import GaussianProcessRegressor

from sklearn_meta.weights import load_learner

KEYS = [*TABLES, "figure_5", "figure_6"]

#: In figure 5: number of samples shown to the methods, and number of points to predict.
N_SAMPLES, N_POINTS = 20, 200

#: Options set by --quick: too little to learn anything.
QUICK = {"steps": 2, "encoder_steps": 2, "n_validation": 1, "n_test": 20}

#: Names of tasks.
TASKS = [task.name for table in TABLES.values() for task, _ in table.cells]
TASKS += [task.name for task in REGRESSIONS]

#: Default task of weights that are given without one, by their head.
HOME = {"onehot": "onehot_5", "string": "string_15"}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_only(parser, KEYS)
    add("--methods", nargs="+", help="only these methods in tables, figures 3 and 4 [all]")
    add("--tasks", nargs="+", help="only these tasks there, such as string_5 [all]")
    add("--seeds", type=count, default=1, help="trainings of each method [%(default)s]")
    add("--factor", type=float, default=1.0, help="factor on the training steps [%(default)s]")
    add("--steps", type=count, help="steps of each training, in place of the task's own")
    add("--encoder-steps", type=count, default=20_000, help="autoencoder's steps [%(default)s]")
    add(
        "--recipe",
        choices=RECIPES,
        default="adamw",
        help="adamw: a rate of 2e-3 (regression 1e-3) that falls to zero; averaged: a constant "
        "rate and a moving average of the weights; paper: RMSprop at 1e-4",
    )
    add(
        "--weights",
        nargs="+",
        default=[],
        metavar="[TASK=]NAME_OR_PATH",
        help="trained weights of MANN (LRUA), LSTM, to test. If no task (such as string_5) is "
        f"given, weights of one-hot labels are tested on {HOME['onehot']}, of strings on "
        f"{HOME['string']}",
    )
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    add("--n-validation", type=count, default=8, help="validation batches [%(default)s]")
    add("--n-test", type=count, default=1000, help="test episodes per seed [%(default)s]")
    add("--cache", type=Path, default=Path("checkpoints/paper_002"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_002, or _quick]")
    add("--fast", action="store_true", help="compile memory access (needs C++), use bfloat16")
    add("--quick", action="store_true", help="run everything in two minutes, learning nothing")
    options = parser.parse_args(arguments)
    options.output = place_of(options.output, "paper_002", options.quick)
    cells = [cell for key in options.only if key in TABLES for cell in TABLES[key].cells]
    check_names(parser, "--methods", options.methods, [method.name for _, method in cells])
    check_names(parser, "--tasks", options.tasks, [task.name for task, _ in cells])
    try:
        options.weights = dict(map(as_weights, options.weights))
    except ValueError as error:
        parser.error(f"--weights: {error}")
    check_names(parser, "--weights", options.weights, TASKS)
    if options.quick:
        vars(options).update(QUICK)
    return options


def as_weights(given):
    """Split TASK=NAME into task and name; the task may be left out."""
    task, _, name = given.rpartition("=")
    head = load_learner(name).names["head"]  # fails now rather than after other trainings
    if not task and head not in HOME:
        raise ValueError(f"give the task of {name}, as in TASK={name}")
    return task or HOME[head], name


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # several trainings at once would wait for each other's threads
    options.output.mkdir(parents=True, exist_ok=True)
    for key in options.only:
        if key == "figure_5":
            run_figure_5(options)
        elif key == "figure_6":
            run_figure_6(options)
        elif options.omniglot.is_dir():
            run_table(key, TABLES[key], options)
        else:
            print(f"{key} is left out: there is no folder {options.omniglot}; give --omniglot.")


def run_table(key, table, options):
    """Compute the cells of a table and rewrite its files after each of them."""
    stem, cells = options.output / key, []
    wanted = [
        (task, method)
        for task, method in table.cells
        if task.name in (options.tasks or [task.name])
        and method.name in (options.methods or [method.name])
    ]
    for seed in range(options.seeds):
        for task, method in wanted:
            cells.append(run_cell(task, method, seed, options))
            rows = report.to_rows(cells)
            tell(key, cells[-1], rows, "exact")
            rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
            stem.with_suffix(".md").write_text(report.to_markdown(table, rows), "utf-8")
    if cells:
        print(stem.with_suffix(".md").read_text("utf-8"))
        plot = report.plot_curriculum if key == "figure_4" else report.plot_tasks
        plot(table, rows, cells, stem.with_suffix(".png"))


def tell(key, cell, rows, measure):
    last = rows[rows["method"] == cell["method"]].iloc[-1]
    print(f"{key} {cell['task']}, {cell['method']}, seed {cell['seed']}: ", end="")
    print(f"{measure} {last[measure]:.3f} in the end, {cell['seconds']:.0f} s", flush=True)


def run_figure_5(options):
    """Predict one function after some samples, by MANN and by the true Gaussian process."""
    task, path = REGRESSIONS[0], options.output / "figure_5.csv"
    cell = run_cell(task, MANN, 0, options)
    x, y, grid, truth = report.function_of(prior(task), N_SAMPLES, N_POINTS, seed=0)
    process = GaussianProcessRegressor(prior(task).kernel, optimizer=None).fit(x, y)
    predictions = {
        "MANN": predict_after(network_of(cell, options), x, y, grid),
        "Gaussian process": process.predict(grid, return_std=True),
    }
    columns = {"x": grid[:, 0], "function": truth}
    for name, (mean, deviation) in predictions.items():
        columns |= {f"{name}, mean": mean, f"{name}, deviation": deviation}
    pd.DataFrame(columns).to_csv(path, index=False, float_format="%.6g")
    report.plot_functions(x, y, grid, truth, predictions, path.with_suffix(".png"))


def run_figure_6(options):
    """Compute likelihoods along the episode for functions of one to three variables."""
    stem, cells = options.output / "figure_6", []
    for seed in range(options.seeds):
        for task in REGRESSIONS:
            cells.append(run_cell(task, MANN, seed, options))
            rows = report.to_rows(cells)
            tell("figure_6", cells[-1], rows, "mann")
            rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
            stem.with_suffix(".md").write_text(report.likelihoods_to_markdown(rows), "utf-8")
    print(stem.with_suffix(".md").read_text("utf-8"))
    report.plot_likelihoods(rows, stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
