"""Accuracy of the Meta-LSTM by its rank, the size of z (paper 004, below Table 3).

Trains on the reviews of all domains jointly, as ``paper_004.py --table 3 --parts multi --models
meta_lstm`` does, and takes the options of that command.

    python benchmarks/paper_004_rank.py
    python benchmarks/paper_004_rank.py --ranks 20 60 --seeds 3
    python benchmarks/paper_004_rank.py --quick

Each score is a row of rank.csv, written as soon as it is computed.
"""

import argparse
import time

import pandas as pd
from arguments import count
from few_shot_report import markdown_table
from paper_004 import Scores, classifier, jointly, n_parameters, parse_arguments, protocol, reviews

#: The paper's sizes: "z in [20, 30, ..., 60]".
RANKS = (20, 30, 40, 50, 60)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=count, nargs="+", default=RANKS, help="[20 30 40 50 60]")
    own, others = parser.parse_known_args(arguments)
    options = parse_arguments(others)
    train, valid, test = (reviews(options, split) for split in ("train", "valid", "test"))
    options.output.mkdir(parents=True, exist_ok=True)
    scores = Scores(options.output / "rank.csv")
    for seed in range(options.seeds):
        for rank in own.ranks:
            key = {"rank": rank, "seed": seed}
            key["protocol"] = protocol(options, options.domains, "fine_tune", "pooling")
            if not scores.missing(key, train):
                continue
            start = time.process_time()
            estimator = classifier("meta_lstm", seed, options).set_params(rank=rank)
            jointly(estimator, train, valid, options)
            told = {name: one.score(*test[name]) for name, one in estimator.estimators_.items()}
            size = n_parameters(estimator.learner_)
            scores.add(key, told, n_parameters=size, seconds=time.process_time() - start)
            write_table(pd.DataFrame(scores.rows), options.output / "rank.md")


def write_table(rows, file):
    """Write the mean accuracy over domains of each rank, by seed."""
    lines = []
    for settings, group in rows.groupby("protocol", sort=False):
        means = group.pivot_table("score", "rank", "seed")
        means.columns = [f"seed {seed}" for seed in means.columns]
        formats = dict.fromkeys(("mean", *means.columns), "{:.4f}") | {"n_parameters": "{:,.0f}"}
        means["mean"] = group.groupby("rank")["score"].mean()
        means["n_parameters"] = group.groupby("rank")["n_parameters"].max()
        headers = {"rank": "z", **{c: c for c in means.columns}, "n_parameters": "parameters"}
        lines += [f"## {settings}", ""]
        lines += [*markdown_table(means.reset_index(), headers, formats), ""]
    file.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
