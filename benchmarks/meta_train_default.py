"""The recipe of the default weights: one command, resumable, from tables and priors to a card.

    python benchmarks/meta_train_default.py --output sklearn_meta/weights/default.safetensors

Meta-trained on a synthetic prior mixed with the `train` tables of a folder (less scikit-learn's
own sets), watched on its `valid` tables. Run again after a kill, it goes on.
"""

import argparse
import os

import torch
from recipe import last_look, save, start_from

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

#: Families of scikit-learn's own datasets; winequality is another dataset than wine.
SCIKIT_LEARN = ("iris", "wine", "breast.w", "diabetes_sklearn", "boston", "pendigits")

#: Labelled rows a class: few in most tasks, and many in some.
SHOTS = (1, 1, 3, 3, 5, 5, 10, 10, 20, 40)

FOLDER = os.environ.get("SKLEARN_META_DATA", "../shared/data/tabular")


def tables(folder, split, task="classification", *, retarget=0.0):
    """Source of the tables of one split, without scikit-learn's own sets."""
    chosen = select(Folder(folder, split=split, task=task), exclude=SCIKIT_LEARN)
    return as_source(chosen, retarget=retarget)


def add_arguments(parser, name, *, max_steps, batch_size, learning_rate, optimizer):
    """The arguments of both recipes of tables; ``name`` is that of the weights."""
    add = parser.add_argument
    add("--folder", default=FOLDER, help="of tables, with an index")
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
    """Of the backbone "vsa" that both recipes train."""
    return {
        "width": args.width,
        "n_layers": args.n_layers,
        "n_heads": 4,
        "head_width": args.width // 4,
        "last_width": 8,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(
        parser,
        "default",
        max_steps=18_000,
        batch_size=16,
        learning_rate=1e-3,
        optimizer="adamw",
    )
    parser.add_argument("--max-cells", type=int, default=3000, help="rows x columns of a task")
    parser.add_argument("--imbalanced", type=float, default=0.6, help="of EpisodeSampler")
    parser.add_argument("--shots", type=int, nargs="+", default=SHOTS, help="likewise")
    parser.add_argument("--begin", help="weights, or their path, that training goes on from")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    source = Mixture(
        [
            tables(args.folder, "train", retarget=0.3),
            tables(args.folder, "train", "regression", retarget=0.3),
            TablePrior(n_columns=(2, 40)),
        ],
        weights=[0.5, 0.2, 0.3],
    )
    sampler = EpisodeSampler(
        args.shots,
        n_unlabelled=(5, 60),
        max_rows=250,
        max_cells=args.max_cells,
        inductive=0.2,
        imbalanced=args.imbalanced,
        column_subset=0.4,
        missing=0.1,
    )
    learner = Learner(backbone_config=backbone_config(args))
    begun = start_from(learner, args.begin)
    history = meta_train(
        learner,
        source,
        sampler,
        validation_source=tables(args.folder, "valid"),
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        optimizer=args.optimizer,
        n_warmup=500,
        eval_every=500,
        n_validation=32,
        n_pooled=32,
        keep="last",
        checkpoint_dir=args.checkpoint_dir,
        device=args.device,
        n_workers=args.workers,
        random_state=args.seed,
    )
    data = (
        "TablePrior; classification and regression tables of the split `train` of the data pack "
        "(targets of regression tables and, for 30 % of draws, a numeric column in place of the "
        "target cut into classes); without scikit-learn's own sets"
    )
    validation = last_look(learner, history, tables="split `valid`")
    datasets = names_in(source)
    save(learner, args, __file__, data=data, validation=validation, datasets=datasets, **begun)


if __name__ == "__main__":
    main()
