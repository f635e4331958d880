"""Tables 4, 11, 12 and 14 of paper 001 on Gaussian mixtures: AmortizedGMM against scikit-learn.

It measures likelihood, adjusted Rand index and time on synthetic sets and on scikit-learn's digits,
also against seeding and EM without a network; and held-out likelihood by the numbers of components
(k) and columns (d).

    python benchmarks/mixtures.py                     # Tables 4 and 11: k=4, d=2, n 100 to 500
    python benchmarks/mixtures.py --large             # Table 12: k=6, n 1000 to 5000
    python benchmarks/mixtures.py --digits            # Table 14, of digits in place of CIFAR-100
    python benchmarks/mixtures.py --cells             # held-out likelihood, k and d from 2 on
    python benchmarks/mixtures.py --quick --output /tmp/mixtures

All methods get the same sets, up to a thousand in one call. Times are processor time of one thread,
which depends little on other programs; compare only ratios within a run. The CSV has the means,
``*_sets.csv.gz`` a row for each set and method. ``--reuse`` takes the peers' rows from an earlier
run, so that new weights can be tried in a minute.
"""

import argparse
import os
import time
from pathlib import Path

import pandas as pd
import sklearn
import torch
from arguments import count
from mixture_methods import CONTROLS, PEERS, oracle, ours, scores_of
from mixture_report import cells_report, draw_cells, summarise, summarise_cells, table_report
from mixture_sets import draw_sets
from results_folder import place_of
from threadpoolctl import threadpool_limits

#: Maximum number of sets that a method gets in one call; it limits memory.
CHUNK = 1000

#: Runs: family, (components, columns), range of the number of points, number of sets.
RUNS = {
    "paper": ("paper", [(4, 2)], (100, 500), 1000),
    "large": ("paper", [(6, 2)], (1000, 5000), 200),
    "digits": ("digits", [(4, 16)], (100, 500), 300),
}
KS, DS = (2, 4, 6, 8, 10), (2, 4, 8, 16)
CELL_METHODS = (
    *("GaussianMixture diag n_init=10", "GaussianMixture full n_init=10"),
    *("seeding + EM 5 diag", "seeding + EM 20 diag", "seeding + EM 20 full"),
    *("seeding + MAP-EM 20 diag", "seeding + MAP-EM 20 full"),
)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--large", action="store_true", help="Table 12: k=6, n 1000 to 5000")
    what.add_argument("--digits", action="store_true", help="classes of digits as components")
    what.add_argument("--cells", action="store_true", help="held-out likelihood over k and d")
    parser.add_argument("--quick", action="store_true", help="few sets, few methods")
    parser.add_argument("--weights", nargs="*", default=["default"], help="names or paths")
    parser.add_argument("--n-sets", type=count, help="number of sets, of each cell with --cells")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reuse", help="*_sets.csv.gz of an earlier run, for the peers' rows")
    parser.add_argument("--output", help="folder [benchmarks/results/mixtures, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "mixtures", args.quick)
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        if args.cells:
            run_cells(args, folder, load)
        else:
            name = "large" if args.large else "digits" if args.digits else "paper"
            run_table(name, args, folder, load)


def run_table(name, args, folder, load):
    """Compute one table of the paper: every method on one kind of sets."""
    family, ((k, d),), n_points, n_sets = RUNS[name]
    methods = {**PEERS, **CONTROLS, **ours(args.weights)}
    if args.quick:
        n_sets = 12
        methods = {name: f for name, f in methods.items() if "n_init=10" not in name}
        n_points = (100, 200)
    sets = draw_sets(family, k, d, n_points, args.n_sets or n_sets, args.seed)
    rows = measure(sets, k, methods, reused(args.reuse))
    names = [name for name in methods if name.startswith("AmortizedGMM")]
    keep(rows, folder / name)
    summarise(rows, names[0] if names else None).to_csv(folder / f"{name}.csv", index=False)
    finish(folder / f"{name}.md", table_report(rows, names), args, load)


def run_cells(args, folder, load):
    """Compute held-out likelihoods by numbers of components and columns, in two families."""
    names = CELL_METHODS[:1] + CELL_METHODS[-4:] if args.quick else CELL_METHODS
    all_methods = {**PEERS, **CONTROLS}
    methods = {name: all_methods[name] for name in names} | ours(args.weights, steps=(1, 5))
    n_sets = args.n_sets or (3 if args.quick else 60)
    parts = []
    for family in ("paper", "varied"):
        for k in (2, 4) if args.quick else KS:
            for d in (2,) if args.quick else DS:
                sets = draw_sets(family, k, d, (100, 500), n_sets, args.seed)
                rows = measure(sets, k, methods, reused(args.reuse, family=family, k=k, d=d))
                parts.append(rows.assign(family=family, k=k, d=d))
                print(f"{family}, k={k}, d={d}", flush=True)
                keep(pd.concat(parts), folder / "cells")
    rows = pd.concat(parts, ignore_index=True)
    summarise_cells(rows).to_csv(folder / "cells.csv", index=False)
    finish(folder / "cells.md", cells_report(rows), args, load)
    if args.weights:
        draw_cells(rows, folder / "cells.png")


def measure(sets, k, methods, reused=None):
    """Score the methods on the sets.

    Parameters
    ----------
    sets : list of PointSet
    k : int
    methods : dict of str to callable
    reused : DataFrame or None
        Rows of an earlier call with the same sets, or with more. Its methods are not run again,
        except ours.

    Returns
    -------
    DataFrame
        One row for each set and method: method, position, n, the scores of ``scores_of``, and ms.

    Raises
    ------
    SystemExit
        If the rows to reuse are of other sets.
    """
    if reused is not None:
        reused = reused[~reused["method"].str.startswith("AmortizedGMM")]
        reused = reused[(reused["position"] < len(sets)) & (reused["method"] != "oracle")]
        sizes = [len(s.X) for s in sets]  # they differ for sets of another seed or kind
        for name, rows in reused.groupby("method"):
            if rows.sort_values("position")["n"].tolist() != sizes:
                raise SystemExit(f"--reuse: the rows of {name} are not those of these sets.")
        methods = {name: f for name, f in methods.items() if name not in set(reused["method"])}
    parts = [] if reused is None else [reused]
    for method in methods.values():
        method([sets[0].X], k)  # warm-up: do not time what is done only once
    for start in range(0, len(sets), CHUNK):
        chunk = sets[start : start + CHUNK]
        parts.append(_rows("oracle", oracle(chunk), chunk, start, 0.0))
        for name, method in methods.items():
            begin = time.process_time()
            mixture = method([s.X for s in chunk], k)
            milliseconds = 1e3 * (time.process_time() - begin) / len(chunk)
            parts.append(_rows(name, mixture, chunk, start, milliseconds))
    return pd.concat(parts, ignore_index=True)


def _rows(name, mixture, chunk, start, milliseconds):
    columns = {"method": name, "position": range(start, start + len(chunk))}
    columns |= {"n": [len(s.X) for s in chunk], **scores_of(mixture, chunk), "ms": milliseconds}
    return pd.DataFrame(columns)


def reused(path, **cell):
    """Read the rows of an earlier run, or return None."""
    if path is None:
        return None
    rows = pd.read_csv(path)
    for name, value in cell.items():
        rows = rows[rows[name] == value]
    return rows


def keep(rows, path):
    """Write the rows by set and method."""
    rows.to_csv(
        f"{path}_sets.csv.gz",
        index=False,
        float_format="%.5f",
        compression={"method": "gzip", "mtime": 0},  # equal rows give equal files
    )


def finish(path, report, args, load):
    """Write a report with its command and conditions, and print it."""
    options = [f"--{o}" for o in ("large", "digits", "cells", "quick") if getattr(args, o)]
    options += ["--weights", *args.weights, "--seed", str(args.seed)]
    options += ["--n-sets", str(args.n_sets)] if args.n_sets else []
    text = (
        f"`python benchmarks/mixtures.py {' '.join(options)}`: torch {torch.__version__}, "
        f"scikit-learn {sklearn.__version__}, one thread of {os.cpu_count()} cores, load "
        f"{load:.1f} before the run"
        + (", rows of the peers from an earlier run with its times." if args.reuse else ".")
    )
    path.write_text(f"{text}\n\n{report}\n", "utf-8")
    print(f"{report}\nwritten to {path} and {path.with_suffix('.csv')}")


if __name__ == "__main__":
    main()
