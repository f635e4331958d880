"""Accuracy on paper 000's synthetic Circle-Spiral tasks (Table 1a), after meta-training on them.

    python benchmarks/circle_spiral.py --seeds 0 1 2

The network is the paper's, and its accuracies on held-out tasks stand beside the paper's. The paper
meta-trains on 70 fixed tasks with Adam at 1e-4. Here every step draws fresh tasks of the same
distribution, and AdamW's rate falls from 1e-3 along a cosine; test tasks come from another seed.
Writes a CSV (one row per seed and shot) and a Markdown table.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
from arguments import count

from sklearn_meta.learner import Learner
from sklearn_meta.tasks import CircleSpiral, EpisodeSampler, collate
from sklearn_meta.training import meta_train
from sklearn_meta.weights import save_learner

PAPER = {1: 0.974, 3: 0.991, 5: 0.992}
#: Settings of the paper's tasks: balanced, transductive, all columns and classes, no sign flips.
PLAIN = {
    "inductive": 0,
    "imbalanced": 0,
    "column_subset": 0,
    "class_subset": 0,
    "missing": 0,
    "flip": False,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--max-steps", type=count, default=20_000)
    parser.add_argument("--n-test", type=count, default=360, help="held-out tasks for each shot")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=count, default=1)
    parser.add_argument("--checkpoints", default="checkpoints", help="folder; runs resume there")
    parser.add_argument("--output", default="benchmarks/results/circle_spiral")
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in args.seeds:
        start = time.process_time()
        learner = trained(seed, args)
        seconds = time.process_time() - start
        for shots in PAPER:
            accuracy = test_accuracies(learner, shots, args.n_test, args.device)
            rows.append(
                {
                    "seed": seed,
                    "shots": shots,
                    "accuracy": round(float(accuracy.mean()), 4),
                    "standard_error": round(float(accuracy.std()) / len(accuracy) ** 0.5, 4),
                    "n_tasks": len(accuracy),
                    "max_steps": args.max_steps,
                    "cpu_seconds": round(seconds),
                }
            )
            print(rows[-1], flush=True)
    with open(output.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    output.with_suffix(".md").write_text(table(rows), "utf-8")
    print(table(rows))


def trained(seed, args):
    """Meta-train a learner on fresh Circle-Spiral tasks."""
    torch.manual_seed(seed)
    learner = Learner(backbone_config={"last_width": 1})
    name = f"circle_spiral_{seed}_{args.max_steps}"  # a longer run does not resume a short one
    sampler = EpisodeSampler((1, 3, 5), 20, **PLAIN)
    meta_train(
        learner,
        CircleSpiral(),
        sampler,
        max_steps=args.max_steps,
        learning_rate=1e-3,
        n_warmup=500,
        n_pooled=1,  # circles and spirals in every batch
        n_groups=1,
        checkpoint_dir=f"{args.checkpoints}/{name}",
        device=args.device,
        random_state=seed,
    )
    save_learner(
        learner.cpu(),
        f"{args.checkpoints}/{name}.safetensors",
        data="CircleSpiral, fresh tasks",
        recipe={"max_steps": args.max_steps},
        seed=seed,
    )
    return learner.to(args.device)


@torch.no_grad()
def test_accuracies(learner, shots, n_tasks, device):
    """Accuracy on the unlabelled rows of each of ``n_tasks`` held-out tasks."""
    rng = np.random.default_rng([2026, shots])  # no training stream starts from this seed
    sampler = EpisodeSampler((shots,), 20, **PLAIN)
    source = CircleSpiral()
    accuracies = []
    for _ in range(n_tasks):
        inputs, target = collate([sampler.draw(source.draw(rng), rng)])
        logits = learner(**{name: tensor.to(device) for name, tensor in inputs.items()}).cpu()
        asked = target >= 0
        accuracies.append((logits.argmax(-1) == target)[asked].float().mean().item())
    return np.array(accuracies)


def table(rows):
    """Format our accuracies over the seeds beside the paper's as Markdown."""
    lines = ["| shots | ours, mean over seeds | by seed | paper |", "|---|---|---|---|"]
    for shots, paper in PAPER.items():
        ours = [row["accuracy"] for row in rows if row["shots"] == shots]
        seeds = " ".join(f"{value:.4f}" for value in ours)
        lines.append(f"| {shots} | {np.mean(ours):.4f} | {seeds} | {paper} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
