"""Tables 1 to 4 and Figures 4 to 7 of paper 000: its method, Ours, against its rivals.

Meta-trains every method of the paper (Ours, the rivals, the ablations) with the same engine and the
same budget, and reports scores beside the paper's: time in Table 3, mean squared error in Table 4,
accuracy elsewhere. Data are the paper's synthetic Circle-Spiral tables and a folder of real tables,
which stands in for the paper's tables from OpenML.

    python benchmarks/paper_000.py --only 1a --fresh --steps 5000
    python benchmarks/paper_000.py --minutes 4 --splits 10
    python benchmarks/paper_000.py --quick

benchmarks/README.md explains the protocol and the results. Each cell (method x data x split) is
kept under `--cache`, so a killed run resumes where it ended.
"""

import argparse
from pathlib import Path

import pandas as pd
import paper_000_report as report
import torch
from arguments import add_folder, add_only, check_names, count
from paper_000_data import data_of, training_sampler
from paper_000_embeddings import run_embeddings
from paper_000_grid import OURS, TABLES, Cell, axis_value
from paper_000_training import new_learner, run_cell, seconds_a_batch, seconds_per_step
from results_folder import place_of

#: Options set by --quick: too little to learn anything.
QUICK = {
    "minutes": None,
    "steps": 3,
    "splits": 1,
    "batch_size": 2,
    "n_validation": 1,
    "episodes": 1,
    "n_tuning": 2,
    "n_trial": 2,
    "n_tables": 20,
    "n_test": 4,
    "turns": 1,
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_only(parser, list(TABLES))
    add("--methods", nargs="+", help="only these methods, by the paper's names [all]")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=float, help="CPU minutes of each training [4]")
    budget.add_argument("--steps", type=count, help="steps of each training, in place of minutes")
    add("--splits", type=count, default=1, help="70/10/20 splits of data, or seeds [%(default)s]")
    add("--fresh", action="store_true", help="Circle-Spiral: train on endless new tables")
    add_folder(parser, "--folder", "tabular", "folder of real tables and index.csv")
    add("--pool", nargs="+", default=["train", "valid"], help="splits of the index to use [both]")
    add("--openml", nargs="+", metavar="SUITE", help="suites of OpenML in place of the folder")
    of_columns = "share of real training tables with one of their columns as the target"
    add("--retarget", type=float, default=0.0, help=f"{of_columns} [%(default)s]")
    of_cells = "maximum rows x (columns + classes) of a training task; 20,000 of a test task"
    add("--max-cells", type=count, default=3000, help=f"{of_cells} [%(default)s]")
    add("--batch-size", type=count, default=8, help="tasks per step [%(default)s, as the paper]")
    add("--learning-rate", type=float, help="for all methods, in place of the grid's")
    add("--keep", choices=["best", "last"], default="best", help="weights to keep, by validation")
    add("--n-validation", type=count, default=16, help="batches of validation tasks [%(default)s]")
    add("--episodes", type=count, default=5, help="test tasks per table and number of labels")
    add("--n-tuning", type=count, default=1000, help="tasks for choosing GP's and LP's kernels")
    add("--n-trial", type=count, default=32, help="steps for measuring a method's speed")
    add("--n-tables", type=count, default=100, help="Circle-Spiral tables [%(default)s]")
    add("--n-test", type=count, default=100, help="test tables, at most (--fresh: exactly) [100]")
    add("--turns", type=count, default=5, help="turns of timing for Table 3 [%(default)s]")
    add("--cache", type=Path, default=Path("checkpoints/paper_000"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_000, or _quick]")
    add("--quick", action="store_true", help="run everything in a minute, learning nothing")
    options = parser.parse_args(arguments)
    methods = [m.name for key in options.only for m in TABLES[key].methods]
    check_names(parser, "--methods", options.methods, methods)
    if not 0 <= options.retarget <= 1:
        parser.error(f"--retarget is a share, from 0 to 1, got {options.retarget:g}")
    options.output = place_of(options.output, "paper_000", options.quick)
    if options.quick:
        vars(options).update(QUICK)
    if options.minutes is None and options.steps is None:
        options.minutes = 4.0
    return options


def data_name(kind, options):
    """Name of the data that stands in for the paper's in this run."""
    if kind == "circle_spiral":
        return "fresh" if options.fresh else kind
    return kind


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # CPU time then equals elapsed time
    options.output.mkdir(parents=True, exist_ok=True)
    for key in options.only:
        table = TABLES[key]
        if table.kind != "circle_spiral" and not (options.openml or options.folder.is_dir()):
            print(f"{key} is left out: there is no folder {options.folder}; give --folder.")
            continue
        wanted = options.methods or [m.name for m in table.methods]
        # Table 3 reports times as ratios to that of Ours.
        methods = [m for m in table.methods if m.name in wanted or (key == "3" and m == OURS)]
        stem = options.output / f"table_{key}"
        if table.axis or key == "5":
            stem = options.output / f"figure_{key}"
        if table.kind == "circle_spiral" and options.fresh:
            stem = stem.with_name(f"{stem.name}_fresh")
        if key == "3":
            run_times(table, methods, stem, options)
        elif not methods:
            continue
        elif key == "5":
            run_embeddings(table, methods, data_name(table.kind, options), stem, options)
        else:
            run_table(key, table, methods, stem, options)


def run_table(key, table, methods, stem, options):
    """Compute the cells of a table and rewrite its files after each of them."""
    found = []
    for split in range(options.splits):
        for method in methods:
            for point in table.cells:
                cell = Cell(method, data_name(table.kind, options), split, **point)
                rows = run_cell(cell, table.shots, options)
                x = axis_value(cell) if table.axis else 0
                found.append(rows.assign(x=x, method="Ours" if table.axis else method.name))
                mean = rows.groupby("shots")["score"].mean().round(3).to_dict()
                print(f"{key} split {split} {method.name} {point or ''} {mean}", flush=True)
                rows = pd.concat(found, ignore_index=True)
                summary = report.summarise(rows, lower_is_better=key == "4")
                rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
                summary.to_csv(f"{stem}_summary.csv", index=False, float_format="%.6g")
                if table.axis:
                    text = report.figure_to_markdown(table, summary)
                else:
                    text = report.to_markdown(table, key, summary, rows)
                stem.with_suffix(".md").write_text(text, "utf-8")
    print(text)
    if table.axis:
        report.plot_figure(table, summary, stem.with_suffix(".png"))
    else:
        report.plot_table(table, key, summary, stem.with_suffix(".png"))


def run_times(table, methods, stem, options):
    """Time a few steps of each method in turn, on the same tasks."""
    cells = [Cell(m, data_name(table.kind, options), 0) for m in methods]
    data = data_of(cells[0], options)
    # The paper's times are for 3 shots.
    sampler = training_sampler(cells[0], (3,), options.max_cells)

    def seconds(cell):
        if cell.method.backbone is None:
            return seconds_a_batch(cell, data.train, sampler, options)
        return seconds_per_step(new_learner(cell), data.train, sampler, cell, options)

    turns = [{cell.method.name: seconds(cell) for cell in cells} for _ in range(options.turns)]
    rows = report.time_table(pd.DataFrame(turns))
    rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
    stem.with_suffix(".md").write_text(report.time_to_markdown(table, rows), "utf-8")
    print(stem.with_suffix(".md").read_text("utf-8"))


if __name__ == "__main__":
    main()
