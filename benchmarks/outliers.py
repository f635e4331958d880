"""Outliers of real tables: AmortizedOutlierDetector against scikit-learn's outlier detectors.

A set has rows of one class of a table and a few rows of its other classes, the outliers. Without
any labels, each method ranks the rows; scores are AUROC and average precision. Tables are those of
a folder. benchmarks/README.md explains the protocol and the results.

    python benchmarks/outliers.py --split test
    python benchmarks/outliers.py --split valid --weights default_outliers my_run.safetensors
"""

import argparse
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from arguments import add_folder, check_tables, count
from few_shot_report import markdown_table, paired_tests
from few_shot_tables import our_names, read_tables
from results_folder import RESULTS
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM
from table_seeds import generator_of
from tqdm.auto import tqdm

from sklearn_meta.evaluation import preparation


class Setting(NamedTuple):
    """Numbers of usual and odd rows to score, and of rows of the usual class to fit before.

    If ``n_clean`` is None, methods are fitted to the scored rows themselves.
    """

    n_usual: int
    n_odd: int
    n_clean: int | None = None

    def __str__(self):
        if self.n_clean is None:
            return f"{self.n_usual} + {self.n_odd}"
        return f"clean {self.n_clean}, then {self.n_usual} + {self.n_odd}"


#: The first is section 4.4 of paper 001: seven of a kind and one that is not.
SETTINGS = (
    Setting(7, 1),
    Setting(19, 1),
    Setting(27, 3),
    Setting(57, 3),
    Setting(90, 10),
    Setting(20, 20, n_clean=20),
)


class Control:
    """Control: distance to the mean, or mean distance to the nearest rows, of standardised rows."""

    def __init__(self, n_neighbors=None):
        self.n_neighbors = n_neighbors

    def fit(self, X):
        self.X_ = X
        return self

    def score_samples(self, X):
        if self.n_neighbors is None:
            return -((X - self.X_.mean(0)) ** 2).sum(1)
        search = NearestNeighbors(n_neighbors=min(self.n_neighbors, len(self.X_) - 1))
        # A row of the set is not its own neighbour.
        return -search.fit(self.X_).kneighbors(None if X is self.X_ else X)[0].mean(1)


def _local_outlier_factor(X_fit, X, n_neighbors=20):
    """Scores as scikit-learn recommends, with ``novelty`` for rows other than those of ``fit``."""
    model = LocalOutlierFactor(n_neighbors=min(n_neighbors, len(X_fit) - 1), novelty=X is not X_fit)
    model.fit(X_fit)
    return model.negative_outlier_factor_ if X is X_fit else model.score_samples(X)


def _scores_of(make):
    return lambda X_fit, X: make().fit(X_fit).score_samples(X)


#: Functions of X_fit and X (prepared, often the same) that score the rows of X; lower is odder.
PEERS = {
    "IsolationForest": _scores_of(lambda: IsolationForest(random_state=0)),
    "LocalOutlierFactor": _local_outlier_factor,
    "LocalOutlierFactor-5": lambda X_fit, X: _local_outlier_factor(X_fit, X, 5),
    "OneClassSVM": _scores_of(OneClassSVM),
    "EllipticEnvelope": _scores_of(lambda: EllipticEnvelope(random_state=0)),
    "distance to the mean": _scores_of(Control),
    "distance to 5 nearest": _scores_of(lambda: Control(5)),
}


def draw_episode(table, episode, setting):
    """Draw rows to fit and rows to score (the same array without clean rows), and mark the odd.

    They depend only on the table's name, the number and the setting.

    Returns
    -------
    (rows_fit, rows, is_odd), or None if no class has enough rows, or there are too few other rows.
    """
    rng = generator_of(table, episode, *(n or 0 for n in setting))
    n_clean = setting.n_clean or 0
    counts = np.bincount(table.y)
    enough = (counts >= setting.n_usual + n_clean) & (len(table.y) - counts >= setting.n_odd)
    if not enough.any():
        return None
    usual_class = rng.choice(np.flatnonzero(enough))
    usual = rng.permutation(np.flatnonzero(table.y == usual_class))[: setting.n_usual + n_clean]
    odd = rng.choice(np.flatnonzero(table.y != usual_class), setting.n_odd, replace=False)
    rows = rng.permutation(np.concatenate([usual[n_clean:], odd]))
    return usual[:n_clean] if n_clean else rows, rows, np.isin(rows, odd)


@cache
def our_estimator(weights, device):
    """Return our detector after a first call, so that times exclude imports and loading."""
    from sklearn_meta import AmortizedOutlierDetector

    estimator = AmortizedOutlierDetector(weights, device=device)
    estimator.fit([[0.0], [1.0]]).score_samples([[0.5]])
    return estimator


def run_set(table, episode, setting, methods, device):
    """Score every method on one set; return a list of dict, empty if the table is too small."""
    drawn = draw_episode(table, episode, setting)
    if drawn is None:
        return []
    rows_fit, rows, is_odd = drawn
    own = setting.n_clean is None
    raw = table.X.iloc[rows]
    raw_fit = raw if own else table.X.iloc[rows_fit]
    with warnings.catch_warnings():
        # Singular covariances and other warnings; the score shows them.
        warnings.simplefilter("ignore")
        prepare = preparation().fit(raw_fit)
        X_fit = prepare.transform(raw_fit)
        X = X_fit if own else prepare.transform(raw)
        found = []
        for name, method in methods.items():
            start = time.perf_counter()
            failed = False
            if name in PEERS:
                try:
                    scores = method(X_fit, X)
                except ValueError:  # the covariance cannot be estimated: chance level
                    scores, failed = np.zeros(len(X)), True
            else:
                scores = our_estimator(method, device).fit(raw_fit).score_samples(raw)
            seconds = time.perf_counter() - start
            scores = -np.nan_to_num(scores, nan=0.0, posinf=1e300, neginf=-1e300)
            found.append(
                {
                    "method": name,
                    "dataset": table.name,
                    "setting": str(setting),
                    "episode": episode,
                    "auroc": roc_auc_score(is_odd, scores),
                    "average_precision": average_precision_score(is_odd, scores),
                    "milliseconds": 1e3 * seconds,
                    "failed": failed,
                }
            )
    return found


def summarise(results, reference=None):
    """Means over tables, their standard errors, ranks, and paired tests against one method.

    Parameters
    ----------
    results : DataFrame
        Rows of `run_set`.
    reference : str, default=None
        The method to test against the others; None makes no tests.

    Returns
    -------
    DataFrame
        One row for each setting ("all" is over all settings) and method, the best first. The
        standard errors are over tables; the rank is by AUROC, 1 the best, ties shared.
    """
    blocks = []
    whole = results.assign(setting="all")
    for setting, rows in [*results.groupby("setting", sort=False), ("all", whole)]:
        means = rows.groupby(["dataset", "method"]).mean(numeric_only=True)
        by_table = means["auroc"].unstack()
        block = by_table.mean().to_frame("auroc")
        block["auroc_se"] = by_table.std() / len(by_table) ** 0.5
        precision = means["average_precision"].unstack()
        block["average_precision"] = precision.mean()
        block["average_precision_se"] = precision.std() / len(precision) ** 0.5
        block["rank"] = by_table.round(9).rank(axis=1, ascending=False).mean()
        block["milliseconds"] = means["milliseconds"].unstack().mean()
        block["failed"] = rows.groupby("method")["failed"].mean()
        if reference is not None:
            block = block.join(paired_tests(by_table, reference))
        block = block.sort_values("auroc", ascending=False).reset_index(names="method")
        block.insert(0, "setting", setting)
        block.insert(1, "n_tables", len(by_table))
        blocks.append(block)
    return pd.concat(blocks, ignore_index=True)


def to_markdown(summary):
    """Format the summary as Markdown, one table per setting."""
    headers = {
        "method": "method",
        "auroc": "AUROC",
        "auroc_se": "s.e.",
        "average_precision": "AP",
        "average_precision_se": "s.e. of AP",
        "rank": "mean rank",
        "milliseconds": "ms a set",
        "failed": "failed",
        "difference": "ours - it",
        "p_wilcoxon": "p (Wilcoxon)",
    }
    formats = {
        **dict.fromkeys(["auroc", "auroc_se", "average_precision"], "{:.3f}"),
        **{"average_precision_se": "{:.3f}", "rank": "{:.1f}", "milliseconds": "{:.1f}"},
        **{"failed": "{:.1%}", "difference": "{:+.3f}", "p_wilcoxon": "{:.2g}"},
    }
    lines = []
    for setting, block in summary.groupby("setting", sort=False):
        title = "All settings" if setting == "all" else f"{setting} rows"
        lines += [f"### {title}, {block['n_tables'].iloc[0]} tables", ""]
        lines += [*markdown_table(block, headers, formats), ""]
    return "\n".join(lines)


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "tabular", "folder of index.csv and the tables")
    add("--split", choices=["test", "valid"], default="test")
    add("--episodes", type=count, default=10, help="sets drawn from each table and setting")
    add("--weights", nargs="*", default=["default"], help="names or paths; none: peers only")
    add("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), metavar="NAME")
    add("--device", default="auto", help="device of ours")
    add("--output", type=Path, default=RESULTS / "outliers")
    options = parser.parse_args(arguments)
    check_tables(parser, options.folder)
    if not options.weights and not options.peers:
        parser.error("nothing to run: --weights and --peers are both empty")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    ours = our_names(options.weights)
    methods = ours | {name: PEERS[name] for name in options.peers}
    tables = read_tables(options.folder, options.split)
    results = [
        row
        for table in tqdm(tables, unit="table")
        for setting in SETTINGS
        for episode in range(options.episodes)
        for row in run_set(table, episode, setting, methods, options.device)
    ]
    if not results:
        sys.exit("no table to run on")
    results = pd.DataFrame(results)
    summary = summarise(results, next(iter(ours), None))
    text = to_markdown(summary)
    print(text)
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / options.split
    by_table = results.drop(columns="episode").groupby(["setting", "dataset", "method"], sort=False)
    by_table.mean().reset_index().to_csv(f"{stem}.csv", index=False, float_format="%.5g")
    summary.to_csv(f"{stem}_summary.csv", index=False, float_format="%.6g")
    Path(f"{stem}_summary.md").write_text(text, "utf-8")
    print(f"wrote {stem}.csv, _summary.csv and _summary.md")


if __name__ == "__main__":
    main()
