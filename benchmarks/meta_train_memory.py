"""Recipes of the weights of memory-augmented networks, `default_mann` and others: a command each.

    python benchmarks/meta_train_memory.py default_mann
    python benchmarks/meta_train_memory.py omniglot_mann --omniglot FOLDER

They meta-train a MemoryLearner and write its card. The default weights see only synthetic tables,
the others drawings of the alphabets of Omniglot's split "train". After a kill, the same command
resumes.
"""

import argparse

import numpy as np
import recipe
from recipe import DRAWINGS, Stage, drawn, sources
from sklearn.datasets import make_blobs

from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    ClassSequences,
    Curriculum,
    Dataset,
    GaussianProcessPrior,
    Mixture,
    ProjectedColumns,
    RegressionPrior,
    TablePrior,
    TargetSequences,
)

#: Width of the networks of tables: half as many parameters as with the paper's 200.
WIDTH = 128

#: Rows of a synthetic table. A network that has never filled its memory of 128 slots may fail when
#: it is full, so some sequences must be longer than that.
N_ROWS = 300


def of_tables(head, task="online_classification"):
    return MemoryLearner("mann", head, task=task, backbone_config={"width": WIDTH})


def of_drawings(head, **head_config):
    return MemoryLearner("mann", head, inputs="pixels", n_inputs=400, head_config=head_config)


class Blobs:
    """Tables of classes far apart: on easy tables a network learns to use its memory."""

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
    # All outputs are used from the start: five unused ones of ten held up all learning.
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
    """Train on drawings of five classes; with ``most``, one more class every 8,000 sequences."""
    learner = of_drawings(head, **head_config)
    sampler = ClassSequences(learner.head, drawn(args), n_classes=(5, 5), max_rows=100)
    if most:
        sampler = Curriculum(sampler, every=8_000, most=most, n_first=32_000)
    return learner, (Stage(sampler, *sources(args), args.max_steps),), DRAWINGS


RECIPES = {
    "default_mann": lambda args: table_classes("onehot", args),
    "default_mann_string": lambda args: table_classes("string", args),
    "default_mann_regression": table_targets,
    "omniglot_mann": lambda args: drawings("onehot", args, n_classes=5),
    "omniglot_mann_string": lambda args: drawings("string", args, most=15),
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recipe.add_arguments(parser, list(RECIPES), max_steps=10_000, learning_rate=2e-3)
    first = {"type": int, "default": 1000, "help": "on easy tables before; 0: none [%(default)s]"}
    parser.add_argument("--first-steps", **first)
    args = recipe.parse(parser, arguments)
    if args.weights.startswith("omniglot"):
        if args.first_steps != parser.get_default("first_steps"):
            parser.error(f"--first-steps are on easy tables, and {args.weights} is trained on none")
        del args.first_steps  # keep it off the card
    return args


def main(arguments=None):
    args = parse_arguments(arguments)
    learner, stages, data = RECIPES[args.weights](args)
    recipe.start_from(learner, args.begin)
    if args.fast:
        learner.backbone.access.compile(dynamic=False)
    for i, stage in enumerate(stages):
        if stage.max_steps:  # weights of --begin may need no easy tables
            history = recipe.train(learner, stage, args, str(i), n_validation=12)
    validation = recipe.last_look(learner, history, episodes=recipe.APART)
    recipe.save(learner, args, __file__, data=data, validation=validation, **args.begun)


if __name__ == "__main__":
    main()
