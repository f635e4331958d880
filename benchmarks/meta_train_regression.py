"""The recipe of the default weights for regression: one command, resumable, from prior to card.

    python benchmarks/meta_train_regression.py --output default_regression.safetensors

Meta-trained on synthetic tables and on the `train` tables of a folder (``--tables 0``: on synthetic
ones alone). Run again after a kill, it goes on.
"""

import argparse

import numpy as np
import torch
from meta_train_default import add_arguments, backbone_config, tables
from recipe import last_look, save, start_from

from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import Mixture, RegressionPrior, RegressionSampler, as_source, names_in
from sklearn_meta.tasks.dataset import column_as_target
from sklearn_meta.training import meta_train


def real_tables(folder):
    """The `train` tables: targets of regression, and numeric columns of all of them."""
    classes = tables(folder, "train")
    usable = {n: t for n, t in classes.items() if column_as_target(t, np.random.default_rng(0))}
    return Mixture(
        [tables(folder, "train", "regression", retarget=0.5), as_source(usable)], weights=[0.7, 0.3]
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(
        parser,
        "default_regression",
        max_steps=4500,
        batch_size=32,
        learning_rate=5e-3,
        optimizer="muon",
    )
    parser.add_argument("--start", help="weights to start from; none: random ones")
    parser.add_argument("--tables", type=float, default=0.5, help="share of tasks from real tables")
    parser.add_argument("--n-kernels", type=int, default=16)
    args = parser.parse_args(arguments)

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner = Learner(
        head="gp_attributes",
        task="regression",
        backbone_config={
            **backbone_config(args),
            "layer_norm": False,
            "attributes": True,
            "associations": True,
        },
        head_config={"n_kernels": args.n_kernels, "noise": 0.02},
    )
    begun = start_from(learner, args.start)
    source, data = RegressionPrior(), "RegressionPrior: synthetic tables alone"
    if args.tables:
        real = real_tables(args.folder)
        source = Mixture([source, real], weights=[1 - args.tables, args.tables])
        data = (
            f"RegressionPrior; {100 * args.tables:.0f} % of tasks from tables of the split `train` "
            "of the data pack (of regression tables the target or, in every other draw, a numeric "
            "column; of classification tables a numeric column), without scikit-learn's own sets"
        )
    history = meta_train(
        learner,
        source,
        RegressionSampler((5, 10, 10, 15, 15, 20, 20, 40, 80), max_rows=200),
        validation_source=RegressionPrior(),
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        optimizer=args.optimizer,
        n_warmup=300,
        eval_every=250,
        n_validation=8,
        keep="last",
        checkpoint_dir=args.checkpoint_dir,
        start=weights_digest(learner),
        device=args.device,
        random_state=args.seed,
    )
    watched = "RegressionPrior, tasks apart from those of training"
    validation = last_look(learner, history, tables=watched)
    datasets = names_in(source)
    save(learner, args, __file__, data=data, validation=validation, datasets=datasets, **begun)


if __name__ == "__main__":
    main()
