"""Samples that are sets: SetTransformerClassifier and -Regressor beside scikit-learn's models.

    python examples/sets.py

The images are scikit-learn's handwritten digits. In the first task each sample is the set of an
image's inked pixels (row, column, ink), without order, and the target is the digit. In the second,
each sample is a set of 6 to 10 images, and the target is how many different digits they show
(section 4.2 of paper 001); test sets have no image of a training set. Peers read a row of
summaries: means and deviations over the set, and its size. Takes some minutes on a CPU, and writes
a CSV of all scores to examples/output/.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--quick", action="store_true", help="check that it runs, learning nothing")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)  # fails now rather than after all work
    settings = {"random_state": 0}
    settings |= {"max_epochs": 2, "width": 16} if args.quick else {"max_epochs": 20}

    if args.quick:
        print("Few sets, two epochs: these scores say nothing about the networks.")
    rows = []
    for task, data, methods in (
        ("digit of a cloud of pixels", clouds(args.quick), classifiers(settings)),
        ("number of different digits", piles(args.quick), counters(settings)),
    ):
        X_train, X_test, y_train, y_test = data
        print(f"\n{task}: {len(X_train)} sets to learn from, {len(X_test)} to test on")
        for name, model in methods.items():
            start = time.perf_counter()
            predicted = np.rint(model.fit(X_train, y_train).predict(X_test))
            seconds = time.perf_counter() - start
            accuracy = accuracy_score(y_test, predicted)
            print(f"  {name:30} accuracy {accuracy:.3f}   {seconds:5.0f} s")
            rows.append([task, name, accuracy, seconds])

    path = args.output / "sets.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["task", "method", "accuracy", "seconds"], *rows])
    print(f"\nWritten: {path}")


def clouds(quick):
    """Return each image as an array (n_pixels, 3) of its inked pixels, 16 to 42 of 64."""
    digits = load_digits()
    X = [np.column_stack([*np.nonzero(image), image[image > 0]]) for image in digits.images]
    n_sets = 300 if quick else len(X)
    return train_test_split(X[:n_sets], digits.target[:n_sets], test_size=0.25, random_state=0)


def piles(quick):
    """Return arrays (n_images, 8, 8), and the number of different digits in each."""
    digits = load_digits()
    halves = train_test_split(digits.images, digits.target, test_size=0.25, random_state=0)
    rng = np.random.default_rng(0)
    data = []
    for images, target, n_sets in (
        (halves[0], halves[2], 200 if quick else 3000),
        (halves[1], halves[3], 50 if quick else 1000),
    ):
        y = np.empty(n_sets, dtype=int)
        X = []
        for i in range(n_sets):
            n_images = rng.integers(6, 11)
            y[i] = rng.integers(1, n_images + 1)
            shown = rng.choice(10, y[i], replace=False)
            shown = np.r_[shown, rng.choice(shown, n_images - y[i])]
            X.append(images[[rng.choice(np.flatnonzero(target == digit)) for digit in shown]])
        data.append((X, y))
    (X_train, y_train), (X_test, y_test) = data
    return X_train, X_test, y_train, y_test


def classifiers(settings):
    return {
        "SetTransformerClassifier": SetTransformerClassifier(**settings),
        "LogisticRegression, summaries": of_summaries(LogisticRegression(max_iter=1000)),
        "RandomForest, summaries": of_summaries(RandomForestClassifier(random_state=0)),
    }


def counters(settings):
    torch.manual_seed(0)  # for the embedding's weights
    embedding = nn.Sequential(  # images (n, 8, 8) to vectors (n, 64)
        nn.Flatten(),
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
    )
    settings = {"encoder": "sab", "embedding": embedding, **settings}
    return {
        "SetTransformerRegressor": SetTransformerRegressor(**settings),
        "the same, Poisson likelihood": SetTransformerRegressor(loss="poisson", **settings),
        "PoissonRegressor, summaries": of_summaries(PoissonRegressor(alpha=0.01, max_iter=1000)),
        "RandomForest, summaries": of_summaries(RandomForestRegressor(random_state=0)),
    }


def of_summaries(estimator):
    """Return an estimator that reads means and deviations over each set, and its size."""
    return make_pipeline(FunctionTransformer(summaries), StandardScaler(), estimator)


def summaries(X):
    flat = [elements.reshape(len(elements), -1) for elements in X]
    return np.array([np.r_[cells.mean(0), cells.std(0), len(cells)] for cells in flat])


if __name__ == "__main__":
    main()
