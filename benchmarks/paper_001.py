"""Tables 2, 3, 5, 6, 8 and 17 and Figure 6 of paper 001: Set Transformer against its rivals.

Trains every method for the same number of steps and reports its scores beside the paper's. Data are
sets of random numbers (Table 2), sets of Omniglot's drawings (Tables 3, 5 and 8, Figure 6) and
clouds of points on parametric solids, which stand in for ModelNet40 (Tables 6 and 17).

    python benchmarks/paper_001.py --omniglot FOLDER
    python benchmarks/paper_001.py --only 2 8 --seeds 3 --factor 4
    python benchmarks/paper_001.py --quick

benchmarks/README.md explains the protocol and the results. Each cell (method x task x seed) is
kept under `--cache`, so a killed run resumes where it ended. benchmarks/mixtures.py has the paper's
tables on mixtures and clusters.
"""

import argparse
from functools import cache
from pathlib import Path

import pandas as pd
import paper_001_report as report
import torch
from arguments import add_folder, add_only, check_names, count
from paper_001_grid import TABLES
from paper_001_tasks import MaxRegression, OddOneOut, PointClouds, UniqueCharacters
from paper_001_training import run_cell
from results_folder import place_of

#: Options set by --quick: too little to learn anything.
QUICK = {"steps": 2, "seeds": 2, "n_valid": 20, "n_test": 20}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_only(parser, list(TABLES))
    add("--methods", nargs="+", help="only these methods, by the paper's names [all]")
    add("--seeds", type=count, default=3, help="trainings of each method [%(default)s]")
    add("--factor", type=float, default=1.0, help="factor on the training steps [%(default)s]")
    add("--steps", type=count, help="steps of each training, in place of the task's own")
    add("--encoder", default="omniglot_few_shot", help="weights that encode images [%(default)s]")
    add("--end-to-end", action="store_true", help="train an image encoder with each method")
    add_folder(parser, "--omniglot", "omniglot", "folder of omniglot.npz")
    add("--n-valid", type=count, default=1000, help="validation sets [%(default)s]")
    add("--n-test", type=count, default=4000, help="test sets per seed [%(default)s]")
    add("--cache", type=Path, default=Path("checkpoints/paper_001"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_001, or _quick]")
    add("--quick", action="store_true", help="run everything in a minute, learning nothing")
    options = parser.parse_args(arguments)
    methods = [m.name for key in options.only for m in TABLES[key].methods]
    check_names(parser, "--methods", options.methods, methods)
    options.output = place_of(options.output, "paper_001", options.quick)
    if options.quick:
        vars(options).update(QUICK)
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # CPU time then equals elapsed time
    options.output.mkdir(parents=True, exist_ok=True)

    @cache
    def task(name):
        kind, _, number = name.partition("_")
        return {
            "max": lambda: MaxRegression(),
            "unique": lambda: UniqueCharacters(options),
            "odd": lambda: OddOneOut(options, int(number)),
            "solids": lambda: PointClouds(int(number)),
        }[kind]()

    for key in options.only:
        table = TABLES[key]
        if table.task.startswith(("unique", "odd")) and not options.omniglot.is_dir():
            print(f"{key} is left out: there is no folder {options.omniglot}; give --omniglot.")
            continue
        methods = [m for m in table.methods if not options.methods or m.name in options.methods]
        if methods:
            run_table(key, table, methods, task(table.task), options)


def run_table(key, table, methods, task, options):
    """Compute the cells of a table and rewrite its files after each of them."""
    stem = options.output / (key if key.startswith("figure") else f"table_{key}")
    if options.end_to_end and table.task.startswith(("unique", "odd")):
        stem = stem.with_name(f"{stem.name}_end_to_end")
    cells = []
    for seed in range(options.seeds):
        for method in methods:
            cell = run_cell(task, method, seed, options)
            found = {measure: round(cell[measure], 4) for measure in table.measures}
            print(f"{key} {method.name}, seed {seed}: {found}", flush=True)
            cells.append({k: v for k, v in cell.items() if k not in ("setting", "curve")})
            rows = pd.DataFrame(cells)
            rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
            summary = report.summarise(rows, table)
            stem.with_suffix(".md").write_text(report.to_markdown(table, summary), "utf-8")
    print(stem.with_suffix(".md").read_text("utf-8"))
    if key.startswith("figure"):
        report.plot_figure(table, summary, others(options), stem.with_suffix(".png"))
    else:
        report.plot_table(table, summary, stem.with_suffix(".png"))


def others(options):
    """Means of Table 8, if it has been written, for the horizontal lines of figure 6."""
    path = options.output / f"table_8{'_end_to_end' * options.end_to_end}.csv"
    if not path.is_file():
        return {}
    return pd.read_csv(path).groupby("method", sort=False)["accuracy"].mean().to_dict()


if __name__ == "__main__":
    main()
