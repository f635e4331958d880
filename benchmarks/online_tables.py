"""Learning from one row at a time: MANNClassifier beside scikit-learn's incremental learners.

Data are a folder of real tables, or scikit-learn's toy sets. Each row of a stream is predicted,
then learned; afterwards other rows of the table are predicted. The score is accuracy.
benchmarks/README.md explains the protocol and the results.

    python benchmarks/online_tables.py --split test
    python benchmarks/online_tables.py --toys
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from arguments import add_folder, check_tables, count
from few_shot_report import markdown_table, paired_tests
from few_shot_tables import Table, read_tables
from results_folder import RESULTS
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from table_seeds import generator_of

from sklearn_meta.evaluation import preparation

#: Parts of a stream whose accuracy is reported.
STAGES = {"rows 1-10": (0, 10), "rows 11-30": (10, 30), "rows 31-100": (30, 100)}
N_ROWS = 100
HELD_OUT = "held out"


class KeepsRows:
    """A learner that keeps every row and is fitted to all rows anew for each prediction."""

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y, classes):
        if hasattr(self, "X"):
            X, y = np.vstack([self.X, X]), np.append(self.y, y)
        self.X, self.y = X, y
        return self

    def predict(self, X):
        if len(np.unique(self.y)) == 1:  # most learners reject a single class
            return np.repeat(self.y[:1], len(X))
        return self.estimator.fit(self.X, self.y).predict(X)


PEERS = {
    "LogisticRegression, all rows": lambda: KeepsRows(LogisticRegression(max_iter=1000)),
    "1-NN": lambda: KeepsRows(KNeighborsClassifier(1)),
    "GaussianNB": GaussianNB,
    "SGDClassifier": lambda: SGDClassifier(loss="log_loss", random_state=0),
}


def toys():
    """Return scikit-learn's toy sets as tables."""
    loaders = {
        "iris": load_iris,
        "wine": load_wine,
        "breast_cancer": load_breast_cancer,
        "digits": load_digits,
    }
    return [
        Table(name, pd.DataFrame(X).set_axis([f"x{j}" for j in range(X.shape[1])], axis=1), y, "")
        for name, (X, y) in ((name, load(return_X_y=True)) for name, load in loaders.items())
    ]


def draw_stream(table, episode):
    """Draw rows of a stream and held-out rows; they depend only on the table's name and episode."""
    rows = generator_of(table, episode).permutation(len(table.y))
    n = min(N_ROWS, len(rows) // 2)
    return rows[:n], rows[n : n + 500]


def online(model, X, y, classes):
    """Predict each row by a scikit-learn learner before it is learned; the first is a guess."""
    found = [classes[0]]
    model.partial_fit(X[:1], y[:1], classes=classes)
    for i in range(1, len(y)):
        found.append(model.predict(X[i : i + 1])[0])
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=classes)
    return np.array(found)


def run_stream(table, episode, peers, ours):
    """Return the accuracies of every method on one stream, a list of dict.

    The peers get columns that are prepared with all rows, without labels: unlike ours, they know
    means, deviations and categories beforehand.
    """
    stream, held_out = draw_stream(table, episode)
    raw, y = table.X.iloc[stream], table.y[stream]
    raw_out, y_out = table.X.iloc[held_out], table.y[held_out]
    classes, found = np.unique(y), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with a single row
        for name in [*peers, *ours]:
            start = time.perf_counter()
            if name in peers:
                X = preparation().fit_transform(pd.concat([raw, raw_out]))
                model, X_out = peers[name](), X[len(y) :]
                predicted = online(model, X[: len(y)], y, classes)
            else:
                model, X_out = clone(ours[name]), raw_out
                predicted = model.predict_online(raw, y)
            right, right_out = predicted == y, model.predict(X_out) == y_out
            seconds = time.perf_counter() - start
            scores = {k: right[a:b].mean() for k, (a, b) in STAGES.items() if len(right) > a}
            found.append(
                {"method": name, "dataset": table.name, "episode": episode}
                | {**scores, HELD_OUT: right_out.mean(), "milliseconds": 1e3 * seconds}
            )
    return found


def summarise(results, reference):
    """Means over tables, their standard errors, and paired tests on the held-out rows.

    Parameters
    ----------
    results : DataFrame
        Rows of `run_stream`.
    reference : str
        The method to test against the others.

    Returns
    -------
    DataFrame
        One row per method, the best on held-out rows first.
    """
    means = results.groupby(["dataset", "method"]).mean(numeric_only=True)
    summary = pd.DataFrame({s: means[s].unstack().mean() for s in [*STAGES, HELD_OUT]})
    by_table = means[HELD_OUT].unstack()
    summary["se"] = by_table.std() / len(by_table) ** 0.5
    summary["milliseconds"] = means["milliseconds"].unstack().mean()
    summary = summary.join(paired_tests(by_table, reference))
    return summary.sort_values(HELD_OUT, ascending=False).reset_index(names="method")


def to_markdown(summary, title):
    """Format the summary as Markdown."""
    headers = {
        "method": "method",
        **{name: name for name in STAGES},
        HELD_OUT: HELD_OUT,
        "se": "s.e.",
        "difference": "ours - it",
        "p_t": "p (t-test)",
        "milliseconds": "ms a stream",
    }
    formats = {
        **dict.fromkeys([*STAGES, HELD_OUT, "se"], "{:.3f}"),
        **{"difference": "{:+.3f}", "p_t": "{:.2g}", "milliseconds": "{:.0f}"},
    }
    return "\n".join([f"### {title}", "", *markdown_table(summary, headers, formats), ""])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "tabular", "folder of index.csv and the tables")
    add("--split", choices=["test", "valid"], default="test")
    add("--toys", action="store_true", help="scikit-learn's toy sets in place of a folder")
    add("--episodes", type=count, default=5, help="streams of each table [%(default)s]")
    add("--weights", nargs="+", default=["default"], help="names or paths")
    add("--members", type=count, default=8, help="n_estimators [%(default)s]")
    add("--output", type=Path, default=RESULTS / "online_tables")
    options = parser.parse_args(arguments)
    if not options.toys:
        check_tables(parser, options.folder)
    from sklearn_meta import MANNClassifier

    ours = {name: MANNClassifier(name, n_estimators=options.members) for name in options.weights}
    tables = toys() if options.toys else read_tables(options.folder, options.split)
    results = pd.DataFrame(
        line
        for table in tables
        for episode in range(options.episodes)
        for line in run_stream(table, episode, PEERS, ours)
    )
    stem = "toys" if options.toys else options.split
    kind = "scikit-learn's toy sets" if options.toys else f"split {options.split}"
    summary = summarise(results, options.weights[0])
    text = to_markdown(summary, f"{kind}: {len(tables)} tables, {options.episodes} streams each")
    options.output.mkdir(parents=True, exist_ok=True)
    results.to_csv(options.output / f"{stem}.csv", index=False, float_format="%.4g")
    (options.output / f"{stem}.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
