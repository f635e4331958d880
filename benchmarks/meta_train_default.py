"""Recipe of the weights `prototypes`: meta-trains a classifier of tables and writes its card.

    python benchmarks/meta_train_default.py --output sklearn_meta/weights/prototypes.safetensors

These weights are the first of the two networks of the default weights (join_default.py).

Training data are a synthetic prior and the `train` tables of a folder, without scikit-learn's own
sets; validation is on the folder's `valid` tables. There are three stages: tasks of few labelled
rows, most with equally many rows of each class, as in paper 000; tasks with classes as frequent as
in the tables and up to 40 labelled rows per class; and the same with tables of drawings and texts
among them. After a kill, the same command resumes.
"""

import argparse
import json
from pathlib import Path

import torch
from arguments import add_folder, data_folder
from clustered_tables import DrawingTables, TextTables
from recipe import last_look, save, start_from

from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import (
    EpisodeSampler,
    Folder,
    Mixture,
    TablePrior,
    as_source,
    names_in,
    select,
)
from sklearn_meta.training import meta_train

#: Families of scikit-learn's own datasets. winequality is not the dataset wine.
SCIKIT_LEARN = ("iris", "wine", "breast.w", "diabetes_sklearn", "boston", "pendigits")

FOLDER = data_folder("tabular")


def tables(folder, split, task="classification", *, retarget=0.0):
    """Return a source of the tables of one split, without scikit-learn's own sets."""
    chosen = select(Folder(folder, split=split, task=task), exclude=SCIKIT_LEARN)
    return as_source(chosen, retarget=retarget)


def add_arguments(parser, name, *, max_steps, batch_size, learning_rate, optimizer):
    """Add the arguments of both recipes of tables, for weights called ``name``."""
    add = parser.add_argument
    add("--folder", default=FOLDER, help="folder of tables and index.csv")
    add("--output", default=f"{name}.safetensors")
    add("--checkpoint-dir", default=f"checkpoints/{name}")
    add("--max-steps", type=int, default=max_steps)
    add("--batch-size", type=int, default=batch_size)
    add("--learning-rate", type=float, default=learning_rate)
    add("--optimizer", default=optimizer)
    add("--width", type=int, default=64)
    add("--n-layers", type=int, default=3)
    add("--seed", type=int, default=0)
    add("--device", default="cpu")


def backbone_config(args):
    """Keyword arguments of the backbone "vsa" in the recipes of tables."""
    return {
        "width": args.width,
        "n_layers": args.n_layers,
        "n_heads": 4,
        "head_width": args.width // 4,
        "last_width": 8,
    }


#: Settings of each training stage. The first is paper 000's, with a share of tasks whose classes
#: are as frequent as in the table. In the last, drawings and texts are a share of the tables.
STAGES = {
    "first": {
        "max_steps": 18_000,
        "learning_rate": 1e-3,
        "shots": (1, 3, 5, 10),
        "imbalanced": 0.2,
        "max_cells": 3000,
    },
    "second": {
        "max_steps": 6500,
        "learning_rate": 5e-4,
        "shots": (1, 1, 3, 3, 5, 5, 10, 10, 20, 40),
        "imbalanced": 0.6,
        "max_cells": 3000,
    },
    "third": {
        "max_steps": 6000,
        "learning_rate": 7e-4,
        "shots": (1, 1, 3, 3, 5, 5, 10, 10, 20, 40),
        "imbalanced": 0.6,
        "max_cells": 4000,
        "drawings": 0.2,
        "texts": 0.1,
    },
}


def chosen_stages(args, stages, settings):
    """Return the stages that the arguments name, with the settings given there."""
    chosen = {stage: told for stage, told in stages.items() if stage in args.stages}
    for name in settings:
        if (given := getattr(args, name)) is not None:
            chosen = {stage: told | {name: given} for stage, told in chosen.items()}
        delattr(args, name)  # the card lists it in the stages
    return chosen


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(
        parser, "prototypes", max_steps=None, batch_size=16, learning_rate=None, optimizer="adamw"
    )
    add = parser.add_argument
    add("--backbone", default="vsa", help="or another of BACKBONES, for comparison")
    add("--backbone-config", type=json.loads, default={}, help="config of another one, as JSON")
    add("--head", default="prototypes")
    add("--start", help="weights to start from")
    add("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run [all]")
    add_folder(parser, "--omniglot", "omniglot", "folder of the last stage's drawings")
    add_folder(parser, "--texts", "text", "folder of the last stage's texts")
    add("--threads", type=int, default=1)
    add("--workers", type=int, default=0)
    args = parser.parse_args(arguments)
    args.stages = chosen_stages(args, STAGES, ("max_steps", "learning_rate"))
    if args.backbone == "vsa":
        if args.backbone_config:
            parser.error("--backbone-config is of another --backbone: give --width and --n-layers")
        return args
    for name in ("width", "n_layers"):
        if getattr(args, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is of vsa: give it by --backbone-config")
        delattr(args, name)  # keep it off the card
    return args


def source_of(args, settings):
    """Return the tables of a stage: shares of drawings and texts, and the rest from all others."""
    drawings, texts = (settings.get(name, 0) for name in ("drawings", "texts"))
    sources = [
        tables(args.folder, "train", retarget=0.3),
        tables(args.folder, "train", "regression", retarget=0.3),
        TablePrior(n_columns=(2, 40)),
    ]
    shares = [share * (1 - drawings - texts) for share in (0.5, 0.2, 0.3)]
    if drawings:
        sources.append(DrawingTables(args.omniglot))
        shares.append(drawings)
    if texts:
        sources.append(TextTables(args.texts))
        shares.append(texts)
    return Mixture(sources, shares)


def main(arguments=None):
    args = parse_arguments(arguments)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    config = backbone_config(args) if args.backbone == "vsa" else args.backbone_config
    learner = Learner(args.backbone, args.head, backbone_config=config)
    begun = start_from(learner, args.start)
    datasets = {}
    for stage, settings in args.stages.items():
        source = source_of(args, settings)
        datasets |= dict.fromkeys(names_in(source))
        history = train(learner, source, args, stage, settings)
    data = (
        "TablePrior; classification and regression tables of the split `train` of the data pack "
        "(targets of regression tables and, for 30 % of draws, a numeric column in place of the "
        "target cut into classes); without scikit-learn's own sets"
    )
    if "third" in args.stages:
        data += (
            "; vectors of drawings (Omniglot) and of texts (movie_reviews, pros_cons and "
            "product_reviews of NLTK) of the splits `train`"
        )
    validation = last_look(learner, history, tables="split `valid`")
    told = {"data": data, "validation": validation, "datasets": list(datasets)}
    save(learner, args, __file__, **told, **begun)


def sampler_of(settings):
    """Return the sampler that draws a stage's tasks from tables."""
    return EpisodeSampler(
        settings["shots"],
        n_unlabelled=(5, 60),
        max_rows=250,
        max_cells=settings["max_cells"],
        inductive=0.2,
        imbalanced=settings["imbalanced"],
        column_subset=0.4,
        missing=0.1,
    )


def train(learner, source, args, stage, settings):
    """Run or resume a training stage; return its history."""
    return meta_train(
        learner,
        source,
        sampler_of(settings),
        validation_source=tables(args.folder, "valid"),
        max_steps=settings["max_steps"],
        batch_size=args.batch_size,
        learning_rate=settings["learning_rate"],
        optimizer=args.optimizer,
        n_warmup=500,
        eval_every=500,
        n_validation=32,
        n_pooled=32,
        keep="last",
        checkpoint_dir=Path(args.checkpoint_dir) / stage,
        start=weights_digest(learner),
        device=args.device,
        n_workers=args.workers,
        random_state=args.seed,
    )


if __name__ == "__main__":
    main()
