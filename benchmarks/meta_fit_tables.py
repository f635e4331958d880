"""What ``meta_fit`` on real tables adds to weights that have seen synthetic ones alone.

    python benchmarks/meta_fit_tables.py --checkpoint-dir checkpoints/tables

Starts from the card `prior`, meta-fits on the `train` tables of a folder, chooses by its `valid`
tables, and scores both weights on its `test` tables as few_shot_tables does.
"""

import argparse
import os
import re
from pathlib import Path

import few_shot_tables
import torch
from matplotlib.figure import Figure
from meta_train_default import tables

from sklearn_meta import MetaSemiSupervisedClassifier
from sklearn_meta.weights import save_learner

ROOT = Path(__file__).parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("SKLEARN_META_DATA") or ROOT / "../shared/data/tabular"
    parser.add_argument("--folder", type=Path, default=folder, help="index.csv and the tables")
    parser.add_argument("--start", default="prior", help="name or path of weights")
    parser.add_argument("--max-steps", type=int, default=2500)
    parser.add_argument("--eval-every", type=int, default=250)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--checkpoint-dir", help="a killed run goes on from there")
    parser.add_argument("--episodes", type=int, default=10, help="test tasks from each table")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/meta_fit_tables")
    args = parser.parse_args()
    torch.set_num_threads(1)

    classifier = MetaSemiSupervisedClassifier(args.start, random_state=0)
    classifier.meta_fit(
        tables(args.folder, "train", retarget=0.3),
        validation_datasets=tables(args.folder, "valid"),
        max_steps=args.max_steps,
        eval_every=args.eval_every,
        learning_rate=args.learning_rate,
        ema_decay=0.999,
        patience=None,
        checkpoint_dir=args.checkpoint_dir,
    )
    args.output.mkdir(parents=True, exist_ok=True)
    draw_learning_curve(classifier.history_, args.eval_every, args.output / "learning_curve.png")
    fitted = save_learner(classifier.learner_, args.output / "meta_fitted.safetensors")
    few_shot_tables.main(
        ["--weights", args.start, str(fitted), "--peers"]
        + ["--folder", str(args.folder), "--episodes", str(args.episodes)]
        + ["--output", str(args.output)]
    )


def draw_learning_curve(history, eval_every, path):
    """Accuracy on validation tasks against steps, a line for each number of labelled rows."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    steps = [eval_every * (1 + i) for i in range(len(history))]
    pattern = re.compile(r"valid_accuracy_(\d+)_shots")
    shots = sorted({int(m[1]) for name in history[-1] if (m := pattern.fullmatch(name))})
    for k in shots:
        accuracy = [epoch.get(f"valid_accuracy_{k}_shots") for epoch in history]
        axes.plot(steps, accuracy, marker=".", label=f"{k} labelled rows a class")
    axes.set(xlabel="steps", ylabel="accuracy on validation tasks")
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
