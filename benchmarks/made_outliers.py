"""Outliers of synthetic sets: AmortizedOutlierDetector against scikit-learn's detectors.

The outliers lie inside the other points: between clusters, in the middle of a ring, where a
correlation is broken, or beside a dense cluster; for comparison, some lie far out. The score is
AUROC. benchmarks/README.md explains the results.

    python benchmarks/made_outliers.py
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from arguments import count
from few_shot_report import markdown_table
from few_shot_tables import our_names
from outliers import PEERS, our_estimator
from results_folder import RESULTS
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler


def ring(rng):
    """200 points on a ring, five close to each other in its middle."""
    angle = rng.uniform(0, 2 * np.pi, 200)
    usual = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((200, 2))
    return usual, 0.1 * rng.standard_normal((5, 2))


def ring_amid_noise(rng):
    """The same beside 18 columns of noise."""
    usual, odd = ring(rng)
    return tuple(np.hstack([X, rng.standard_normal((len(X), 18))]) for X in (usual, odd))


def between(rng):
    """Two clusters of 50 rows and three columns, and three rows between them."""
    usual = np.vstack([rng.normal(centre, 1, (50, 3)) for centre in (-3, 3)])
    return usual, rng.normal(0, 0.7, (3, 3))


def beside_dense(rng):
    """A cluster of 50 points ten times as dense as another, and three points outside of it."""
    usual = np.vstack([rng.normal(0, 0.1, (50, 2)), rng.normal(3, 1, (50, 2))])
    return usual, rng.normal([0.8, -0.8], 0.1, (3, 2))


def broken_correlation(rng):
    """Four columns with a correlation of 0.99, 292 rows; eight rows without."""
    common = rng.standard_normal((292, 1))
    usual = np.sqrt(0.99) * common + np.sqrt(0.01) * rng.standard_normal((292, 4))
    return usual, rng.standard_normal((8, 4))


def broken_pairs(rng):
    """Five pairs of columns with a correlation of 0.99, 295 rows; five rows without."""
    usual = np.repeat(rng.standard_normal((295, 5)), 2, axis=1)
    return usual + 0.15 * rng.standard_normal(usual.shape), rng.standard_normal((5, 10))


def far_out(rng):
    """95 normal rows of four columns, and five of three times their deviation."""
    return rng.standard_normal((95, 4)), 3 * rng.standard_normal((5, 4))


def far_together(rng):
    """95 normal rows of four columns, and eight close to each other, three deviations off."""
    return rng.standard_normal((95, 4)), rng.normal(3, 0.3, (8, 4))


def far_cell(rng):
    """99 normal rows of 20 columns, and one with a single cell ten deviations off."""
    odd = rng.standard_normal((1, 20))
    odd[0, 0] = 10
    return rng.standard_normal((99, 20)), odd


KINDS = (ring, ring_amid_noise, between, beside_dense, broken_correlation, broken_pairs)
KINDS += (far_out, far_together, far_cell)


def run(kind, n_draws, weights):
    """Return the AUROC of every method, the mean over draws, a dict."""
    found = {}
    for seed in range(n_draws):
        usual, odd = kind(np.random.default_rng(seed))
        X = np.vstack([usual, odd])
        is_odd = np.arange(len(X)) >= len(usual)
        scores = {
            name: our_estimator(path, "cpu").fit(X).score_samples(X)
            for name, path in weights.items()
        }
        prepared = StandardScaler().fit_transform(X)
        scores |= {name: peer(prepared, prepared) for name, peer in PEERS.items()}
        for name, score in scores.items():
            found.setdefault(name, []).append(roc_auc_score(is_odd, -score))
    return {name: np.mean(scores) for name, scores in found.items()}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=count, default=20, help="sets of each kind")
    parser.add_argument("--weights", nargs="+", default=["default"], help="names or paths")
    parser.add_argument("--output", type=Path, default=RESULTS / "outliers")
    options = parser.parse_args(arguments)
    weights = our_names(options.weights)
    table = pd.DataFrame({kind.__name__: run(kind, options.draws, weights) for kind in KINDS}).T
    table = table.rename_axis("set").reset_index()
    table["set"] = table["set"].str.replace("_", " ")
    names = {name: name for name in table}
    formats = dict.fromkeys([*weights, *PEERS], "{:.2f}")
    kinds = [f"- {kind.__name__.replace('_', ' ')}: {kind.__doc__}" for kind in KINDS]
    lines = [f"AUROC, the mean of {options.draws} draws.", "", *kinds, ""]
    text = "\n".join([*lines, *markdown_table(table, names, formats), ""])
    print(text)
    options.output.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.output / "made.csv", index=False, float_format="%.5g")
    (options.output / "made.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
