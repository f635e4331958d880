"""The recipe of the default weights for outlier detection: one command, resumable, prior to card.

    python benchmarks/meta_train_outliers.py --output default_outliers.safetensors

Meta-trained on synthetic tables alone. Run again after a kill, it goes on.
"""

import argparse

import torch
from meta_train_default import backbone_config
from recipe import last_look, save

from sklearn_meta.callbacks import CSVLog
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import Mixture, OutlierSampler, RegressionPrior, TablePrior
from sklearn_meta.training import meta_train

#: Families of which classes differ in where their rows are, not only in how columns hang together.
APART = ("linear", "clusters", "manifold", "factors")


def prior():
    """The synthetic tables: of classes, large enough for sets of one class, and of targets."""
    tables = [TablePrior(n_rows=400, families=APART), TablePrior(n_rows=400), RegressionPrior()]
    return Mixture(tables, weights=[0.75, 0.1, 0.15])


def start_as_a_density(learner):
    """Let the blocks of a new backbone do nothing but their linear residual.

    The learner then begins as a kernel density estimate over standardised rows, and not as one
    over noise.
    """
    for block in learner.backbone.blocks:
        torch.nn.init.zeros_(block.feed_forward[-1].weight)
        torch.nn.init.zeros_(block.feed_forward[-1].bias)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="default_outliers.safetensors")
    parser.add_argument("--checkpoint-dir", default="checkpoints/default_outliers")
    parser.add_argument("--log", help="CSV file of the losses")
    parser.add_argument("--max-steps", type=int, default=5000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--n-layers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(arguments)

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner = Learner(
        head="odd_one_out",
        task="outlier_detection",
        backbone_config=backbone_config(args),
    )
    start_as_a_density(learner)
    history = meta_train(
        learner,
        prior(),
        OutlierSampler(max_cells=3000),
        validation_source=prior(),
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        n_warmup=300,
        eval_every=250,
        n_validation=16,
        keep="last",
        callbacks=[CSVLog(args.log)] if args.log else None,
        checkpoint_dir=args.checkpoint_dir,
        device=args.device,
        precision="float32",  # matrices are too small for bfloat16 to gain
        random_state=args.seed,
    )
    watched = "the same priors, tasks apart from those of training"
    validation = last_look(learner, history, tables=watched)
    data = "TablePrior and RegressionPrior: synthetic tables alone"
    save(learner, args, __file__, data=data, validation=validation)


if __name__ == "__main__":
    main()
