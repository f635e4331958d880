"""Classification of 5 to 80 classes: the weights `default` and `meta_lp` against four peers.

    python benchmarks/many_classes.py
    python benchmarks/many_classes.py --split valid --repeats 3

Most of these tasks have more classes than meta-training. Tables are of data that no weights saw:
Omniglot's characters as 30 principal components of their blurred drawings, and reviews as 40
components of their words, with their domains as classes. benchmarks/README.md explains the results.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from arguments import add_folder, count
from few_shot_report import markdown_table
from few_shot_tables import score
from omniglot_splits import characters
from peers import predict_proba, prepare
from results_folder import place_of
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from tqdm import tqdm

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.backbones import VSA
from sklearn_meta.tasks import Drawings, load_reviews

#: Numbers of classes, and unlabelled rows per class, by data set.
CLASSES = {"omniglot": (5, 10, 12, 20, 40, 80), "domains": (5, 10, 16)}
N_UNLABELLED = {"omniglot": 15, "domains": 20}

PEERS = ["LabelSpreading-rbf-scaled", "LogisticRegression", "RandomForest", "1-NN"]

#: The weights as they were used before classes were put into groups: one label column per class.
EACH_A_COLUMN = "ours, each class a column"

#: Other weights of the package: exchangeable layers and label propagation.
META_LP = "ours, meta_lp"


def omniglot(options):
    """Vectors and characters of a split; the principal axes are those of the training drawings."""
    rows = {}
    for split in ("train", options.split):
        dataset = characters(options.omniglot, split).dataset
        pixels = Drawings(28, augment=False)(dataset.X, dataset.y, None).reshape(-1, 28, 28)
        rows[split] = gaussian_filter(pixels, (0, 1.5, 1.5)).reshape(len(pixels), -1), dataset.y
    axes = PCA(30, random_state=0).fit(rows["train"][0])
    X, y = rows[options.split]
    return axes.transform(X), y


def domains(options):
    """Vectors and domains of a split's reviews; words and axes are those of the training texts."""
    texts = {s: load_reviews(options.reviews, s) for s in ("train", options.split)}
    words = make_pipeline(
        TfidfVectorizer(min_df=5, sublinear_tf=True, stop_words="english"),
        TruncatedSVD(40, random_state=0),
    ).fit([text for domain in texts["train"].values() for text in domain[0]])
    sizes = [len(domain[0]) for domain in texts[options.split].values()]
    chosen = [text for domain in texts[options.split].values() for text in domain[0]]
    return words.transform(chosen), np.repeat(np.arange(len(sizes)), sizes)


DATA = {"omniglot": omniglot, "domains": domains}


def draw(y, n_classes, n_shots, n_unlabelled, rng):
    """Draw classes; return positions of their labelled and unlabelled rows in random order."""
    labelled, unlabelled = [], []
    for c in rng.choice(np.unique(y), n_classes, replace=False):
        rows = rng.permutation(np.flatnonzero(y == c))[: n_shots + n_unlabelled]
        labelled.append(rows[:n_shots])
        unlabelled.append(rows[n_shots:])
    return rng.permutation(np.concatenate(labelled)), rng.permutation(np.concatenate(unlabelled))


def ours(X, y, X_unlabelled, weights="default", most_classes=VSA.most_classes):
    """Probabilities by weights of the package, with ``most_classes`` label columns at most."""
    known, VSA.most_classes = VSA.most_classes, most_classes
    try:
        return MetaSemiSupervisedClassifier(weights).fit(X, y).predict_proba(X_unlabelled)
    finally:
        VSA.most_classes = known


def scores(X, y, labelled, unlabelled):
    """Yield accuracy, log loss and milliseconds of each method on one task."""
    classes, codes = np.unique(y[labelled], return_inverse=True)
    asked = np.searchsorted(classes, y[unlabelled])
    given = X[labelled], codes, X[unlabelled]
    prepared = prepare(pd.DataFrame(X[np.r_[labelled, unlabelled]]))
    methods = {"ours": lambda: ours(*given), META_LP: lambda: ours(*given, weights="meta_lp")}
    if len(classes) > VSA.most_classes:
        methods[EACH_A_COLUMN] = lambda: ours(*given, most_classes=len(classes))
    for name in PEERS:
        rows = prepared[: len(labelled)], codes, prepared[len(labelled) :]
        methods[name] = lambda name=name, rows=rows: predict_proba(name, *rows)
    for name, predict in methods.items():
        start = time.perf_counter()
        proba = predict()
        milliseconds = 1000 * (time.perf_counter() - start)
        yield {"method": name, **score(proba, asked), "milliseconds": milliseconds}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", nargs="+", choices=DATA, default=list(DATA), help="[both]")
    add("--split", choices=["valid", "test"], default="test", help="[%(default)s]")
    add("--n-shots", type=count, nargs="+", default=[1, 3, 5], help="labelled per class [1 3 5]")
    add("--repeats", type=count, default=10, help="tasks of each size [%(default)s]")
    add_folder(parser, "--omniglot", "omniglot", "folder of the drawings")
    add_folder(parser, "--reviews", "text", "folder of the reviews")
    add("--output", type=Path, help="stem of the results [benchmarks/results/many_classes]")
    options = parser.parse_args(arguments)
    if max(options.n_shots) > 5:
        parser.error("--n-shots: Omniglot has 20 drawings of a character, of which 15 are asked")
    torch.set_num_threads(1)  # so that all methods are timed on one core
    stem = place_of(options.output, "many_classes")
    rows = []
    for data in options.data:
        X, y = DATA[data](options)
        sizes = [(c, k) for c in CLASSES[data] for k in options.n_shots]
        for n_classes, n_shots in tqdm(sizes, desc=data):
            for repeat in range(options.repeats):
                rng = np.random.default_rng([n_classes, n_shots, repeat])
                task = draw(y, n_classes, n_shots, N_UNLABELLED[data], rng)
                told = {"data": data, "classes": n_classes, "shots": n_shots, "task": repeat}
                rows += [told | found for found in scores(X, y, *task)]
    frame = pd.DataFrame(rows)
    frame.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.5g")
    stem.with_suffix(".md").write_text(to_markdown(frame), "utf-8")
    print(to_markdown(frame))


def to_markdown(frame):
    """Format tables of accuracies, log losses and milliseconds as Markdown."""
    lines = []
    for value, decimals in (("accuracy", 3), ("log_loss", 2), ("milliseconds", 0)):
        table = frame.pivot_table(value, ["data", "classes", "shots"], "method", sort=False)
        headers = {c: c for c in [*table.index.names, *table.columns]}
        formats = dict.fromkeys(table.columns, f"{{:.{decimals}f}}")
        lines += [f"### {value.replace('_', ' ')}", ""]
        lines += [*markdown_table(table.reset_index(), headers, formats), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
