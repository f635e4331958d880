"""The tables and figures of paper 002 on memory-augmented networks, in one command.

    python benchmarks/paper_002.py --omniglot FOLDER
    python benchmarks/paper_002.py --only table_2 --methods "MANN (LRUA), LSTM" LSTM --seeds 3
    python benchmarks/paper_002.py --only table_1 table_2 --weights omniglot_mann
    python benchmarks/paper_002.py --quick

benchmarks/README.md says what is measured and how to read it. Each cell (method x task x seed) is
kept under `--cache`, and so is the state of its training, so a killed run goes on. Networks of a
task all train for the same number of steps, 16 episodes each.
"""

import argparse
from pathlib import Path

import pandas as pd
import paper_002_report as report
import torch
from arguments import add_folder, check_names, count
from paper_002_evaluation import predict_after
from paper_002_grid import MANN, REGRESSIONS, TABLES
from paper_002_training import RECIPES, network_of, prior, run_cell
from results_folder import place_of
from sklearn.gaussian_process import GaussianProcessRegressor

from sklearn_meta.weights import load_learner

KEYS = [*TABLES, "figure_5", "figure_6"]

#: Samples that figure 5 shows the methods, and points at which it asks them.
N_SAMPLES, N_POINTS = 20, 200

#: What --quick sets: too little to learn anything.
QUICK = {"steps": 2, "encoder_steps": 2, "n_validation": 1, "n_test": 20}

#: Names of tasks.
TASKS = [task.name for table in TABLES.values() for task, _ in table.cells]
TASKS += [task.name for task in REGRESSIONS]

#: Tasks of weights that are given without one, by what labels are to them.
HOME = {"onehot": "onehot_5", "string": "string_15"}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--only", nargs="+", choices=KEYS, default=KEYS, help="[all]")
    add("--methods", nargs="+", help="of the tables and figures 3 and 4, these only [all]")
    add("--tasks", nargs="+", help="likewise, such as string_5 [all]")
    add("--seeds", type=count, default=1, help="trainings of each method [%(default)s]")
    add("--factor", type=float, default=1.0, help="on the steps of each training [%(default)s]")
    add("--steps", type=count, help="of each training, in place of the task's own")
    add("--encoder-steps", type=count, default=20_000, help="of the autoencoder [%(default)s]")
    add(
        "--recipe",
        choices=RECIPES,
        default="adamw",
        help="adamw: a rate of 2e-3 (regression 1e-3) that falls to zero; averaged: that stays, "
        "and a moving average of the weights; paper: RMSprop at 1e-4",
    )
    add(
        "--weights",
        nargs="+",
        default=[],
        metavar="[TASK=]NAME_OR_PATH",
        help="weights of MANN (LRUA), LSTM, to be tested and not trained. Without a task (such as "
        f"string_5) those of one-hot labels are for {HOME['onehot']}, of strings for "
        f"{HOME['string']}",
    )
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    add("--n-validation", type=count, default=8, help="batches of a look [%(default)s]")
    add("--n-test", type=count, default=1000, help="test episodes of each seed [%(default)s]")
    add("--cache", type=Path, default=Path("checkpoints/paper_002"), help="[%(default)s]")
    add("--output", type=Path, help="a folder [benchmarks/results/paper_002, or _quick]")
    add("--fast", action="store_true", help="compiled access (by a C++ compiler), bfloat16")
    add("--quick", action="store_true", help="all of it in two minutes, and nothing learned")
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
    """Task and name of weights, of which the task may be left out."""
    task, _, name = given.rpartition("=")
    head = load_learner(name).names["head"]  # an error now, not after other trainings
    if not task and head not in HOME:
        raise ValueError(f"give the task of {name}, as in TASK={name}")
    return task or HOME[head], name


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # so that no training waits for another's threads
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
    """Compute the cells of a table, and write it anew after each of them."""
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
            stem.with_suffix(".md").write_text(report.to_markdown(table, rows))
    if cells:
        print(stem.with_suffix(".md").read_text())
        plot = report.plot_curriculum if key == "figure_4" else report.plot_tasks
        plot(table, rows, cells, stem.with_suffix(".png"))


def tell(key, cell, rows, measure):
    last = rows[rows["method"] == cell["method"]].iloc[-1]
    print(f"{key} {cell['task']}, {cell['method']}, seed {cell['seed']}: ", end="")
    print(f"{measure} {last[measure]:.3f} in the end, {cell['seconds']:.0f} s", flush=True)


def run_figure_5(options):
    """Predictions after some samples of one function, beside those of the true process."""
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
    """Likelihoods along the episode, of functions of one to three variables."""
    stem, cells = options.output / "figure_6", []
    for seed in range(options.seeds):
        for task in REGRESSIONS:
            cells.append(run_cell(task, MANN, seed, options))
            rows = report.to_rows(cells)
            tell("figure_6", cells[-1], rows, "mann")
            rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
            stem.with_suffix(".md").write_text(report.likelihoods_to_markdown(rows))
    print(stem.with_suffix(".md").read_text())
    report.plot_likelihoods(rows, stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
