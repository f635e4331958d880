"""Accuracy of MANNClassifier by cross_val_score, beside 1-NN, GaussianNB and SGDClassifier.

    python benchmarks/online_cross_val.py
    python benchmarks/online_cross_val.py --quick

Data are scikit-learn's digits, iris, wine and breast cancer. Five times, the estimators learn from
a hundred rows and predict all others. The peers also see each row once: one pass of SGDClassifier
and of GaussianNB is what their ``partial_fit`` does with the same rows; 1-NN keeps them.
"""

import argparse
import time
import warnings

import pandas as pd
from arguments import count
from few_shot_report import markdown_table
from online_tables import toys
from results_folder import place_of
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_meta import MANNClassifier


def methods():
    return {
        "MANNClassifier": MANNClassifier(random_state=0),
        "1-NN": KNeighborsClassifier(1),
        "GaussianNB": GaussianNB(),
        "SGDClassifier, one pass": SGDClassifier(
            loss="log_loss", max_iter=1, tol=None, random_state=0
        ),
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--n-rows", type=count, default=100, help="rows to learn from [%(default)s]"
    )
    parser.add_argument("--n-splits", type=count, default=5)
    parser.add_argument("--quick", action="store_true", help="one split of 30 rows")
    name = "online_tables/cross_val.md"
    parser.add_argument("--output", help=f"file [benchmarks/results/{name}, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, name, args.quick)
    if args.quick:
        args.n_rows, args.n_splits = 30, 1
    cv = StratifiedShuffleSplit(args.n_splits, train_size=args.n_rows, random_state=0)
    rows = []
    for name, estimator in methods().items():
        row, start = {"method": name}, time.perf_counter()
        for table in toys():
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Maximum number of iteration")
                pipeline = make_pipeline(StandardScaler(), estimator)
                scores = cross_val_score(pipeline, table.X.to_numpy(), table.y, cv=cv)
            row[table.name] = f"{scores.mean():.3f} ± {scores.std():.3f}"
        rows.append(row | {"seconds": f"{time.perf_counter() - start:.1f}"})
    frame = pd.DataFrame(rows)
    lines = [
        f"`cross_val_score` with {args.n_splits} splits of {args.n_rows} rows to learn from: mean "
        "accuracy of all others, ± deviation between splits.",
        "",
        *markdown_table(frame, dict(zip(frame.columns, frame.columns)), {}),
    ]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("\n".join([*lines, ""]), "utf-8")
    print(args.output.read_text("utf-8"))


if __name__ == "__main__":
    main()
