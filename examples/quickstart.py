"""Cross-validation with few labels on five real tables: this package beside scikit-learn's models.

    make quickstart

The tables come with scikit-learn; the default weights were meta-trained on other tables. Each split
of FewShotSplit has 1, 3 or 5 labelled rows per class to train on, and 20 other rows per class to
test on. Writes a CSV of all accuracies and a plot to examples/output/.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from tqdm import tqdm

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.model_selection import FewShotSplit, Transductive
from sklearn_meta.weights import load_learner

SHOTS = (1, 3, 5)
OURS = "sklearn_meta"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--n-splits", type=int, default=30, help="tasks per table and number of shots"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--quick", action="store_true", help="two tables, one split")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)  # fails now rather than after all work
    start = time.perf_counter()

    card = load_learner("default").card
    print(f"Weights: default, {card['n_parameters']:,} parameters, sha256 {card['sha256'][:12]}.")
    print(f"Meta-trained on: {card.get('data', 'see sklearn_meta/weights/default.json')}.")

    tables = load_tables()
    if args.quick:
        tables, args.n_splits = {name: tables[name] for name in ("iris", "wine")}, 1
    scores = cross_validate(tables, args.n_splits)

    write_csv(scores, args.output / "quickstart.csv")
    plot(scores, args.output / "quickstart.png")
    print(as_text(scores))
    print(f"{args.n_splits} split(s) each, {time.perf_counter() - start:.0f} seconds.")
    for name in ("quickstart.csv", "quickstart.png"):
        print(f"Written: {args.output / name}")


def load_tables():
    """Load five classification tables of scikit-learn, with standardised columns, offline.

    Columns are standardised over all rows, without labels. With two labelled rows, a scaler fitted
    only to these would harm the peers.
    """
    tables = {
        "iris": datasets.load_iris(return_X_y=True),
        "wine": datasets.load_wine(return_X_y=True),
        "breast cancer": datasets.load_breast_cancer(return_X_y=True),
        "digits": datasets.load_digits(return_X_y=True),
    }
    X, progression = datasets.load_diabetes(return_X_y=True)
    tables["diabetes (progression above median)"] = X, progression > np.median(progression)
    return {name: (StandardScaler().fit_transform(X), y) for name, (X, y) in tables.items()}


def make_methods(n_columns):
    """Return ours and peers by name; kernel widths grow with the columns, as distances do."""
    return {
        OURS: MetaSemiSupervisedClassifier(),
        # Transductive gives it the test rows as unlabelled rows; ours reads them so by default.
        "LabelSpreading": Transductive(LabelSpreading(gamma=1 / n_columns)),
        "GaussianProcess": GaussianProcessClassifier(1.0 * RBF(n_columns**0.5), optimizer=None),
        "LogisticRegression": LogisticRegression(),
        "RandomForest": RandomForestClassifier(random_state=0),
    }


def cross_validate(tables, n_splits):
    """Return a dict from (table, shots, method) to an array of accuracies, one per split."""
    scores = {}
    for (name, (X, y)), shots in tqdm([(t, k) for t in tables.items() for k in SHOTS]):
        cv = FewShotSplit(n_splits, n_shots=shots, n_unlabelled=20, random_state=0)
        for method, estimator in make_methods(X.shape[1]).items():
            scores[name, shots, method] = cross_val_score(estimator, X, y, cv=cv)
    return scores


def means(scores):
    """Mean accuracy by table, shots and method; the table "mean" is the mean over tables."""
    result = {key: values.mean() for key, values in scores.items()}
    tables, _, methods = axes_of(scores)
    for shots in SHOTS:
        for method in methods:
            of_tables = [result[table, shots, method] for table in tables]
            result["mean", shots, method] = np.mean(of_tables)
    return result


def axes_of(scores):
    """Return tables, shots and methods, each in order of appearance."""
    return [list(dict.fromkeys(values)) for values in zip(*scores)]


def as_text(scores):
    """Format mean accuracies as lines of text."""
    tables, _, methods = axes_of(scores)
    mean = means(scores)
    titles = {shots: f"labelled rows a class: {shots}" for shots in SHOTS}
    width = max(map(len, [*tables, *titles.values()])) + 2
    lines = []
    for shots in SHOTS:
        lines += ["", titles[shots].ljust(width) + "  ".join(methods)]
        for table in [*tables, "mean"]:
            cells = (f"{mean[table, shots, m]:.3f}".rjust(len(m)) for m in methods)
            lines.append(table.ljust(width) + "  ".join(cells))
    return "\n".join([*lines, ""])


def write_csv(scores, path):
    """Write one line for each table, number of shots, method and split."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "shots", "method", "split", "accuracy"])
        for (table, shots, method), values in scores.items():
            writer.writerows([table, shots, method, i, v] for i, v in enumerate(values))


def plot(scores, path):
    """Plot accuracy by number of labelled rows, one panel per table and one for their mean."""
    from matplotlib.figure import Figure

    tables, _, methods = axes_of(scores)
    mean = means(scores)
    panels = [*tables, "mean"]
    n_columns = min(3, len(panels))
    figure = Figure(figsize=(3.6 * n_columns, 3.1 * -(-len(panels) // n_columns)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(-(-len(panels) // n_columns), n_columns, squeeze=False)
    for ax, table in zip(axes.flat, panels):
        for i, method in enumerate(methods):
            style = {"color": f"C{i}", "lw": 1.3, "ms": 4}
            if method == OURS:
                style = {"color": "black", "lw": 2.5, "ms": 6, "zorder": 3}
            accuracy = [mean[table, shots, method] for shots in SHOTS]
            ax.plot(SHOTS, accuracy, marker="o", label=method, **style)
        ax.set_title("mean of the tables" if table == "mean" else table, fontsize=10)
        ax.set_xticks(SHOTS)
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy")
    for ax in axes[-1]:
        ax.set_xlabel("labelled rows a class")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(methods), frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
