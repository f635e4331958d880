"""Few-shot classification by cross_val_score: FewShotTransformerClassifier beside its peers.

    python benchmarks/few_shot_cross_val.py --data digits
    python benchmarks/few_shot_cross_val.py --data omniglot
    python benchmarks/few_shot_cross_val.py --data tables --split valid

It measures accuracy on scikit-learn's digits, on Omniglot's drawings (each alphabet is a problem)
or on a folder of real tables. Tasks are those of FewShotSplit: some labelled rows of every class,
and other rows to predict. benchmarks/README.md explains the results.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from arguments import add_folder, check_names, check_tables, count
from few_shot_report import markdown_table
from few_shot_tables import read_tables
from omniglot_splits import characters
from results_folder import RESULTS
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading

from sklearn_meta import FewShotTransformerClassifier, MetaSemiSupervisedClassifier
from sklearn_meta.evaluation import peers, preparation
from sklearn_meta.model_selection import FewShotSplit, Transductive
from sklearn_meta.tasks import Drawings

#: Side length of Omniglot's drawings in pixels.
SIDE = 28


def digits(options):
    """Yield scikit-learn's digits as one problem."""
    X, y = load_digits(return_X_y=True)
    yield "digits", X / 16, y


def omniglot(options):
    """Yield each alphabet of a split as a problem, with drawings that are not augmented."""
    source = characters(Path(options.omniglot), options.split)
    render = Drawings(SIDE, augment=False)
    for alphabet in np.unique(source.alphabets):
        chosen = source.select(alphabet)
        X, y = chosen.dataset.X, chosen.dataset.y
        yield alphabet, render(X, y, None).astype(float), y


def tables(options):
    """Yield tables of a split with at most ten classes and enough rows for all numbers of shots."""
    n_rows = max(options.n_shots) + options.n_unlabelled
    for table in read_tables(options.tables, options.split):
        counts = np.bincount(table.y)
        if len(counts) <= 10 and counts.min() >= n_rows:
            yield table.name, table.X, table.y


DATA = {"digits": digits, "omniglot": omniglot, "tables": tables}


#: gamma of LabelSpreading's kernel. For Omniglot about the best on three alphabets of "valid"; for
#: digits chosen in the peer's favour, on such tasks; for tables scikit-learn's default.
GAMMA = {"digits": 3, "omniglot": 0.1, "tables": 20}


METHODS = (
    *("FewShotTransformerClassifier", "MetaSemiSupervisedClassifier"),
    *("LabelSpreading", "LabelSpreading, knn", "1-NN"),
)


def methods(data, options):
    """Return a dict from names to estimators; on tables, peers get prepared columns."""
    weights = options.weights or ("omniglot_few_shot" if data == "omniglot" else "default")
    prepare = [preparation()] if data == "tables" else []
    estimators = (
        FewShotTransformerClassifier(weights),
        MetaSemiSupervisedClassifier(),
        Transductive(make_pipeline(*prepare, LabelSpreading(gamma=GAMMA[data]))),
        Transductive(make_pipeline(*prepare, LabelSpreading("knn", n_neighbors=7))),
        # On tables, preparation also sees the rows to predict, whose categories may be new.
        peers()["1-NN"] if prepare else KNeighborsClassifier(1),
    )
    wanted = options.methods or METHODS
    return {name: e for name, e in zip(METHODS, estimators, strict=True) if name in wanted}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", choices=DATA, default="digits", help="[digits]")
    splits = ("train", "valid", "test")
    add("--split", choices=splits, default="test", help="of Omniglot and the tables [%(default)s]")
    add("--n-shots", type=count, nargs="+", default=[1, 3, 5], help="labelled per class [1 3 5]")
    add("--n-unlabelled", type=count, default=10, help="rows per class to predict [%(default)s]")
    add("--n-splits", type=count, default=10, help="tasks of each problem [%(default)s]")
    add("--methods", nargs="+", help="only these methods [all]")
    add("--weights", help="weights of FewShotTransformerClassifier [the package's]")
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    add_folder(parser, "--tables", "tabular", "folder of the tables")
    add("--output", type=Path, default=RESULTS / "few_shot_cross_val")
    options = parser.parse_args(arguments)
    check_names(parser, "--methods", options.methods, METHODS)
    if options.data == "tables":
        check_tables(parser, options.tables)
    options.output.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # of rows that no label reaches
    warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)

    rows = []
    for name, X, y in DATA[options.data](options):
        for k in options.n_shots:
            cv = FewShotSplit(
                options.n_splits,
                n_shots=k,
                n_unlabelled=options.n_unlabelled,
                random_state=0,
            )
            for method, estimator in methods(options.data, options).items():
                scores = cross_val_score(estimator, X, y, cv=cv, error_score="raise")
                rows.append(
                    {"problem": name, "shots": k, "method": method, "accuracy": scores.mean()}
                )
        print(f"{name}: {len(set(y))} classes", flush=True)
    if not rows:
        sys.exit("no table to run on")
    frame = pd.DataFrame(rows)
    table = frame.pivot_table("accuracy", "method", "shots", sort=False)
    table.columns = [f"{k} shots" for k in table.columns]
    headers = {"method": "method", **{c: c for c in table.columns}}
    formats = dict.fromkeys(table.columns, "{:.4f}")
    text = "\n".join(markdown_table(table.reset_index(), headers, formats))
    print(text)
    stem = options.output / f"{options.data}_{options.split}"
    frame.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.5g")
    stem.with_suffix(".md").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
