"""The recipes of the weights with a memory: one command each, resumable, from data to card.

    python benchmarks/meta_train_memory.py default_mann
    python benchmarks/meta_train_memory.py omniglot_mann --omniglot FOLDER

The default weights are meta-trained on synthetic tables alone, the others on drawings of the
alphabets of Omniglot's split "train". Run again after a kill, it goes on.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import make_blobs

from sklearn_meta.callbacks import CSVLog
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    ClassSequences,
    Curriculum,
    Dataset,
    Drawings,
    GaussianProcessPrior,
    Mixture,
    ProjectedColumns,
    RegressionPrior,
    TablePrior,
    TargetSequences,
    load_omniglot,
)
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner, save_learner

#: Of the networks of tables: a third as many parameters as with the paper's 200.
WIDTH = 128

#: Rows of a synthetic table. A network that has never filled its memory of 128 slots may fail
#: once it is full, so that some sequences must be longer than that.
N_ROWS = 300

#: Arguments that say where things are on one machine; they do not belong on a card.
PLACES = ("output", "checkpoint_dir", "log", "omniglot")

DRAWINGS = 'drawings of the alphabets of the split "train" of Omniglot (Lake et al., 2015), MIT'


class Stage(NamedTuple):
    """A training: what is drawn from where, and for how many steps."""

    sampler: object
    source: object
    validation_source: object
    max_steps: int


def of_tables(head, task="online_classification"):
    return MemoryLearner("mann", head, task=task, backbone_config={"width": WIDTH})


def of_drawings(head, **head_config):
    return MemoryLearner("mann", head, inputs="vectors", n_inputs=400, head_config=head_config)


class Blobs:
    """Classes far apart: on easy tables a network discovers what its memory is for."""

    def draw(self, rng):
        n_columns = int(rng.integers(4, 31))
        X, y = make_blobs(
            n_samples=N_ROWS,
            n_features=n_columns,
            centers=rng.normal(size=(10, n_columns)),
            cluster_std=rng.uniform(0.1, 0.6),
            random_state=int(rng.integers(2**31)),
        )
        return Dataset("blobs", X.astype(np.float32), y)


def table_classes(head, args):
    learner = of_tables(head)
    vectors, easy = ProjectedColumns(learner.n_inputs), Blobs()
    prior = TablePrior(n_rows=N_ROWS)
    # Every output is in use from the start: of ten, five without a label held up all learning.
    of_all = {"onehot": {"n_classes": (10, 10)}, "string": {"n_classes": (5, 5), "few_words": True}}
    few = ClassSequences(learner.head, vectors, **of_all[head])
    many = ClassSequences(learner.head, vectors, n_instances=(5, 10, 10, 20, 40, 80), max_rows=250)
    first = Stage(few, easy, easy, args.first_steps)
    second = Stage(many, Mixture([prior, easy], weights=[0.7, 0.3]), prior, args.max_steps)
    return learner, (first, second), "TablePrior and blobs: synthetic tables alone"


def table_targets(args):
    learner = of_tables("gaussian", "online_regression")
    vectors = ProjectedColumns(learner.n_inputs)
    easy = Mixture([GaussianProcessPrior(d, n_rows=N_ROWS) for d in (1, 2, 3)])
    prior = Mixture([RegressionPrior(n_rows=N_ROWS), easy], weights=[0.7, 0.3])
    first = Stage(TargetSequences(vectors, n_rows=(50, 50)), easy, easy, args.first_steps)
    second = Stage(TargetSequences(vectors, n_rows=(15, 250)), prior, prior, args.max_steps)
    data = "RegressionPrior and GaussianProcessPrior: synthetic tables alone"
    return learner, (first, second), data


def drawings(head, args, most=None, **head_config):
    """Five classes; to grow to ``most``, by one every 8,000 sequences."""
    learner = of_drawings(head, **head_config)
    vectors = Drawings(stretch=args.stretch, warp=args.warp)
    sampler = ClassSequences(learner.head, vectors, n_classes=(5, 5), max_rows=100)
    if most:
        sampler = Curriculum(sampler, every=8_000, most=most, n_first=32_000)
    train, valid = (load_omniglot(args.omniglot, split) for split in ("train", "valid"))
    return learner, (Stage(sampler, train, valid, args.max_steps),), DRAWINGS


RECIPES = {
    "default_mann": lambda args: table_classes("onehot", args),
    "default_mann_string": lambda args: table_classes("string", args),
    "default_mann_regression": table_targets,
    "omniglot_mann": lambda args: drawings("onehot", args, n_classes=5),
    "omniglot_mann_string": lambda args: drawings("string", args, most=15),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("weights", choices=list(RECIPES))
    add("--output", type=Path, help="[WEIGHTS.safetensors]")
    add("--checkpoint-dir", help="[checkpoints/WEIGHTS]")
    add("--log", help="CSV file of the losses")
    add("--omniglot", default=os.environ.get("SKLEARN_META_OMNIGLOT"), help="folder of the data")
    add("--max-steps", type=int, default=10_000)
    add("--first-steps", type=int, default=1000, help="on easy tables before [%(default)s]")
    add("--batch-size", type=int, default=16)
    add("--learning-rate", type=float, default=2e-3)
    add("--n-groups", type=int, default=1, help="of sequences of like length in a batch")
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    add("--begin", help="weights, or their path, that training goes on from")
    add("--stretch", type=float, default=0.0, help="of drawings, beyond the paper's augmentation")
    add("--warp", type=float, default=0.0, help="of characters, likewise")
    add("--fast", action="store_true", help="compiled access (by a C++ compiler), bfloat16")
    args = parser.parse_args()
    if args.weights.startswith("omniglot") and not args.omniglot:
        parser.error("--omniglot is needed: a folder, such as that of tasks.fetch_omniglot()")

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner, stages, data = RECIPES[args.weights](args)
    if args.begin:
        learner.load_state_dict(load_learner(args.begin).state_dict())
    if args.fast:
        learner.backbone.access.compile(dynamic=False)
    folder = Path(args.checkpoint_dir or f"checkpoints/{args.weights}")
    for i, stage in enumerate(stages):
        history = meta_train(
            learner,
            stage.source,
            stage.sampler,
            validation_source=stage.validation_source,
            max_steps=stage.max_steps,
            batch_size=args.batch_size,
            learning_rate=args.learning_rate,
            weight_decay=1e-4,
            n_warmup=200,
            clip=10.0,
            eval_every=500,
            n_validation=12,
            n_pooled=4,
            n_groups=args.n_groups,
            keep="last",
            callbacks=[CSVLog(args.log)] if args.log else None,
            checkpoint_dir=folder / str(i),
            device=args.device,
            precision="bfloat16" if args.fast else "float32",
            random_state=args.seed,
            verbose=args.log is None,
        )
    last = history[-1]
    save_learner(
        learner.cpu(),
        args.output or f"{args.weights}.safetensors",
        data=data,
        recipe={
            "command": f"python benchmarks/meta_train_memory.py {args.weights}",
            **{k: v for k, v in vars(args).items() if k not in (*PLACES, "weights")},
        },
        seed=args.seed,
        validation={
            "sequences": "apart from those of training; of drawings, the split valid",
            "loss": float(last["valid_loss"]),
            learner.head.score_name: float(last[f"valid_{learner.head.score_name}"]),
        },
    )


if __name__ == "__main__":
    main()
