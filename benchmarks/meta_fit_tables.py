"""What ``meta_fit`` on real tables adds to weights that have seen only synthetic tables.

    python benchmarks/meta_fit_tables.py --checkpoint-dir checkpoints/tables

It starts from the weights `prior`, meta-fits them on the `train` tables of a folder, chooses the
best step on its `valid` tables, and compares both weights on its `test` tables by the protocol of
few_shot_tables.
"""

import argparse
from pathlib import Path

import few_shot_tables
import numpy as np
import pandas as pd
import torch
from arguments import add_folder, check_tables, count
from meta_train_default import tables
from results_folder import RESULTS
from scipy.stats import ttest_1samp

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.inspection import MetaLearningCurveDisplay
from sklearn_meta.weights import save_learner


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_folder(parser, "--folder", "tabular", "folder of index.csv and the tables")
    parser.add_argument("--start", default="prior", help="name or path of weights")
    parser.add_argument("--max-steps", type=count, default=2500)
    parser.add_argument("--eval-every", type=count, default=250)
    parser.add_argument("--batch-size", type=count, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--checkpoint-dir", help="a killed run resumes from there")
    parser.add_argument("--episodes", type=count, default=100, help="test tasks from each table")
    parser.add_argument("--output", type=Path, default=RESULTS / "meta_fit_tables")
    args = parser.parse_args(arguments)
    check_tables(parser, args.folder)
    torch.set_num_threads(1)

    classifier = MetaSemiSupervisedClassifier(args.start, random_state=0)
    classifier.meta_fit(
        tables(args.folder, "train", retarget=0.3),
        validation_datasets=tables(args.folder, "valid"),
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        eval_every=args.eval_every,
        learning_rate=args.learning_rate,
        ema_decay=0.999,
        patience=None,
        checkpoint_dir=args.checkpoint_dir,
    )
    args.output.mkdir(parents=True, exist_ok=True)
    display = MetaLearningCurveDisplay.from_estimator(classifier)
    display.figure_.savefig(args.output / "learning_curve.png", dpi=150)
    fitted = save_learner(classifier.learner_, args.output / "meta_fitted.safetensors")
    few_shot_tables.main(
        ["--weights", args.start, str(fitted), "--peers"]
        + ["--folder", str(args.folder), "--episodes", str(args.episodes)]
        + ["--output", str(args.output)]
    )
    text = change(pd.read_csv(args.output / "test.csv"), f"ours:{Path(args.start).stem}")
    (args.output / "change.md").write_text(text, "utf-8")
    print(text)


def change(scores, start):
    """Format the changes by meta-training as Markdown.

    There are two standard errors of the mean: over other tasks of the same tables, and over other
    tables. The test uses the second.

    Parameters
    ----------
    scores : DataFrame
        Scores of few_shot_tables for two methods.
    start : str
        The method before meta-training.

    Returns
    -------
    str
    """
    lines = [
        "| labels a class | measure | change | s.e., these tables | s.e., others | p (t-test) |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    (fitted,) = set(scores["method"]) - {start}
    for shots, rows in scores.groupby("shots"):
        for measure in ("accuracy", "log_loss"):
            pairs = rows.pivot(index=["dataset", "episode"], columns="method", values=measure)
            tables = (pairs[fitted] - pairs[start]).groupby("dataset")
            means = tables.mean()
            own = np.sqrt((tables.var() / tables.size()).sum()) / len(means)
            p = ttest_1samp(means, 0).pvalue
            lines.append(
                f"| {shots} | {measure.replace('_', ' ')} | {means.mean():+.4f} | {own:.4f} "
                f"| {means.sem():.4f} | {p:.2g} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
