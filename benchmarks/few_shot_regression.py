"""Few-shot regression of real tables: MetaGPRegressor against scikit-learn's regressors.

Scores are mean squared error, predictive density and coverage of intervals on a folder of real
tables. The protocol is that of paper 000's Table 4: from each table, k labelled rows are drawn ten
times, with unlabelled rows up to a total number of rows, and the unlabelled rows are scored.
benchmarks/README.md explains the protocol and the results.

    python benchmarks/few_shot_regression.py --split test --peers-cache regression_peers.csv
    python benchmarks/few_shot_regression.py --split valid --weights my_run.safetensors
    python benchmarks/few_shot_regression.py --quick
"""

import argparse
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import regression_peers
from arguments import add_folder, check_tables, count
from few_shot_tables import our_methods, read_tables
from peers import prepare, run_cached
from regression_peers import RegressionCache
from regression_report import plot_curves, summarise, to_markdown
from results_folder import place_of
from scipy.stats import cauchy, norm
from table_seeds import generator_of

from sklearn_meta.tasks import target_scale

# Share of a Cauchy distribution, in the table's own units, mixed into all predictive densities:
# otherwise one overconfident row decides the mean over all.
CAUCHY = 0.01
NOMINAL = 0.9
ENDS = (1 - NOMINAL) / 2, (1 + NOMINAL) / 2


def draw_episode(table, episode, n_labelled, n_rows):
    """Draw the rows of one task; they depend only on the table's name and the numbers.

    Rows are shuffled once per table and episode. The episode has the first `n_rows` of them, or all
    if there are fewer, and the first `n_labelled` of these are labelled. So a task with fewer
    labelled rows has the same rows, and its labelled rows are among those of any larger task.

    Returns
    -------
    labelled, unlabelled : ndarray of int
        Row numbers.

    Raises
    ------
    ValueError
        If no row would be left to predict.
    """
    if len(table.y) <= n_labelled:
        raise ValueError(f"{table.name} has no more than {n_labelled} rows")
    rows = generator_of(table, episode).permutation(len(table.y))[:n_rows]
    return rows[:n_labelled], rows[n_labelled:]


class Predicted(NamedTuple):
    """Predictions of a method; all fields but the mean may be None.

    Parameters
    ----------
    mean, std : ndarray of shape (n_rows,)
        Mean and standard deviation of the predictive distributions.
    log_density : ndarray of shape (n_rows,)
        Logarithm of their densities at the targets; if None, that of normal distributions.
    interval : ndarray of shape (2, n_rows)
        Ends of their central intervals of probability `NOMINAL`; if None, those of normal
        distributions.
    """

    mean: np.ndarray
    std: np.ndarray | None
    log_density: np.ndarray | None = None
    interval: np.ndarray | None = None

    def moved(self, location, scale):
        """Return the predictions of targets that are multiplied by a scale and then shifted."""
        mean, std, log_density, interval = self
        return Predicted(
            location + scale * mean,
            None if std is None else scale * std,
            None if log_density is None else log_density - np.log(scale),
            None if interval is None else location + scale * interval,
        )


def score(predicted, y):
    """Scores of one task, all in units of the table's standard deviation.

    Parameters
    ----------
    predicted : Predicted
    y : ndarray of shape (n_rows,)
        Targets. Like the predictions, they are standardised by the table's mean and deviation.

    Returns
    -------
    dict
        mse: mean squared error, 1 for the table's own mean.
        nlpd: mean negative logarithm of the predictive density.
        nlpd_mixed: nlpd after mixing the density with 1 % of the standard Cauchy density.
        coverage: share of targets in the central interval of nominally 90 %.
        width: mean width of that interval.
        Without `std`, all but mse are NaN.
    """
    mean, std, log_density, interval = predicted
    scores = {"mse": np.mean((mean - y) ** 2)}
    if std is None:
        return scores | dict.fromkeys(RegressionCache.OPTIONAL, np.nan)
    std = np.maximum(std, 1e-9)  # it is 0 if a peer interpolates without noise
    if log_density is None:
        log_density = norm.logpdf(y, mean, std)
    low, high = norm.interval(NOMINAL, mean, std) if interval is None else interval
    mixed = np.logaddexp(np.log(1 - CAUCHY) + log_density, np.log(CAUCHY) + cauchy.logpdf(y))
    return scores | {
        "nlpd": -log_density.mean(),
        "nlpd_mixed": -mixed.mean(),
        "coverage": np.mean((low <= y) & (y <= high)),
        "width": np.mean(high - low),
    }


@cache
def our_estimator(weights, transductive, device):
    """Return our regressor after a first call, so that times exclude imports and loading."""
    from sklearn_meta import MetaGPRegressor

    estimator = MetaGPRegressor(weights, transductive=transductive, device=device)
    estimator.fit([[0.0], [1.0]], [0.0, 1.0]).predict([[0.5]])
    return estimator


def run_unit(table, episode, settings, n_rows, ours, peer_names, done):
    """Run every method on one table and episode.

    Parameters
    ----------
    settings : list of int
        Numbers of labelled rows.
    n_rows : int
        Number of labelled and unlabelled rows of a task.
    ours : dict of our methods, peer_names : list of str
    done : set of cache keys that are already computed

    Returns
    -------
    list of dict
        One row per method and setting, with the fields of a `RegressionCache`.
    """
    results = []
    centre, unit = table.y.mean(), table.y.std()
    for n_labelled in settings:
        setting = {
            "rules": regression_peers.RULES,
            "dataset": table.name,
            "sha256": table.sha256,
            "labelled": n_labelled,
            "rows": n_rows,
            "episode": episode,
        }
        rows = [setting | {"method": name} for name in [*ours, *peer_names]]
        rows = [row for row in rows if tuple(row[k] for k in RegressionCache.KEY) not in done]
        labelled, unlabelled = draw_episode(table, episode, n_labelled, n_rows)
        X, X_new = table.X.iloc[labelled], table.X.iloc[unlabelled]
        y, y_new = table.y[labelled], table.y[unlabelled]
        location, scale = target_scale(y)
        prepared = None
        for row in rows:
            name = row["method"]
            if name in ours:  # raw rows and targets
                estimator = our_estimator(*ours[name])
                start = time.perf_counter()
                predicted = Predicted(*estimator.fit(X, y).predict(X_new, return_std=True))
                row["milliseconds"] = 1e3 * (time.perf_counter() - start)
                predicted = predicted._replace(
                    log_density=estimator.log_predictive_density(X_new, y_new),
                    interval=estimator.predict(X_new, quantiles=ENDS),
                )
            else:
                if prepared is None:
                    prepared = np.split(prepare(pd.concat([X, X_new])), [n_labelled])
                start = time.perf_counter()
                predicted = Predicted(
                    *regression_peers.predict(
                        name, prepared[0], (y - location) / scale, prepared[1]
                    )
                )
                row["milliseconds"] = 1e3 * (time.perf_counter() - start)
                predicted = predicted.moved(location, scale)
            predicted = predicted.moved(-centre / unit, 1 / unit)
            results.append(row | score(predicted, (y_new - centre) / unit))
    return results


def run(tables, episodes, settings, n_rows, ours, peer_names, scores_cache, n_jobs=1):
    """Run all methods on all tables and episodes; peers only if the cache has no score.

    Returns
    -------
    DataFrame
        One row for each combination, with columns method, dataset, labelled, rows, episode, mse,
        nlpd, nlpd_mixed, coverage, width and milliseconds.
    """
    units = [(table, episode) for table in tables for episode in range(episodes)]
    wanted = {
        (regression_peers.RULES, name, table.name, table.sha256, n_labelled, n_rows, episode)
        for table, episode in units
        for name in peer_names
        for n_labelled in settings
    }
    compute = partial(run_unit, settings=settings, n_rows=n_rows, ours=ours, peer_names=peer_names)
    rows = run_cached(compute, units, wanted, scores_cache, n_jobs)
    frame = pd.DataFrame(rows).drop(columns=["rules", "sha256"])
    columns = ["method", "dataset", "labelled", "rows", "episode", *RegressionCache.VALUE]
    frame["rows"] = n_rows
    return frame[columns].sort_values(columns[:5], ignore_index=True)


def parse_arguments(arguments=None):
    names = list(regression_peers.PEERS)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "tabular", "folder of index.csv and the tables")
    add("--split", choices=["test", "valid", "train"], default="test")
    add("--episodes", type=count, default=10, help="tasks drawn from each table")
    add("--labelled", type=count, nargs="+", default=[10, 15, 20], help="labelled rows of a task")
    add("--rows", type=count, default=100, help="labelled and unlabelled rows of a task")
    add("--weights", nargs="*", default=["default"], help="names or paths; none: peers only")
    add("--inductive", action="store_true", help="also run ours with transductive=False")
    add("--device", default="auto", help="device of ours")
    add("--peers", nargs="*", default=names, choices=names, metavar="NAME", help="[%(default)s]")
    add("--peers-cache", type=Path, help="CSV of peers' scores, to read and extend")
    add("--output", type=Path, help="folder [benchmarks/results/few_shot_regression, or _quick]")
    add("--n-jobs", type=int, default=1, help="processes; more than 1 distorts the times")
    add("--quick", action="store_true", help="3 episodes of 6 tables")
    options = parser.parse_args(arguments)
    options.output = place_of(options.output, "few_shot_regression", options.quick)
    check_tables(parser, options.folder)
    if not options.weights and not options.peers:
        parser.error("nothing to run: --weights and --peers are both empty")
    if options.rows <= max(options.labelled):
        parser.error("give --rows more than any --labelled")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    settings = sorted(set(options.labelled))
    tables = read_tables(options.folder, options.split, "regression")
    # All settings use the same tables.
    enough = [table for table in tables if len(table.y) > settings[-1]]
    print(f"{len(enough)} of {len(tables)} {options.split} tables have over {settings[-1]} rows")
    if not enough:
        sys.exit("no table to run on")
    if options.quick:
        options.episodes = 3
        enough = [enough[i] for i in np.unique(np.linspace(0, len(enough) - 1, 6).astype(int))]
    ours = our_methods(options.weights, options.inductive, options.device)
    results = run(
        enough,
        options.episodes,
        settings,
        options.rows,
        ours,
        list(dict.fromkeys(options.peers)),
        RegressionCache(options.peers_cache),
        options.n_jobs,
    )
    summary = summarise(results, next(iter(ours), None))
    text = to_markdown(summary)
    print(text)

    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / options.split
    results.to_csv(f"{stem}.csv", index=False, float_format="%.6g")
    summary.to_csv(f"{stem}_summary.csv", index=False, float_format="%.6g")
    Path(f"{stem}_summary.md").write_text(text, "utf-8")
    plot_curves(summary, f"{stem}.png")
    print(f"wrote {stem}.csv, _summary.csv, _summary.md and .png")


if __name__ == "__main__":
    # Import it by name, so that joblib's worker processes find its functions.
    import few_shot_regression

    few_shot_regression.main()
