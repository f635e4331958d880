"""Recipe of the weights `default_outliers`: meta-trains the outlier detector and writes its card.

    python benchmarks/meta_train_outliers.py --output default_outliers.safetensors

Training and validation data are synthetic tables. After a kill, the same command resumes.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from meta_train_default import backbone_config, chosen_stages
from recipe import last_look, save, start_from

from sklearn_meta.callbacks import CSVLog
from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import Dataset, Mixture, OutlierSampler, RegressionPrior, TablePrior
from sklearn_meta.tasks.columns import warp
from sklearn_meta.tasks.families import log_uniform, root_causes, standardise
from sklearn_meta.training import meta_train

#: Families whose classes differ in the location of their rows, not only in the dependence of their
#: columns.
APART = ("linear", "clusters", "manifold", "factors")

#: Steps and learning rate of each stage, and the shares of the tables of `prior`. The second stage
#: has fewer tables with outliers in the middle, so that far outliers are found as reliably.
STAGES = {
    "first": {
        "max_steps": 4000,
        "learning_rate": 2e-3,
        "shares": (0.52, 0.1, 0.1, 0.16, 0.12),
    },
    "second": {
        "max_steps": 1875,
        "learning_rate": 1e-3,
        "shares": (0.64, 0.1, 0.1, 0.09, 0.07),
    },
}


class HangingTogether:
    """Tables of closely dependent columns: few causes, little noise, 1 to 3 classes.

    In such tables a row may be an outlier without being far from the middle in any column.
    """

    def draw(self, rng):
        n_rows, n_classes = 400, int(rng.integers(1, 4))
        n_columns = round(log_uniform(rng, 2, 20))
        n_causes = int(rng.integers(1, min(4, n_columns)))
        y = rng.permutation(np.arange(n_rows) % n_classes)
        extent = np.exp(rng.uniform(0, 1) * rng.standard_normal((n_classes, 1)))[y]
        loadings = rng.standard_normal((n_classes, n_causes, n_columns))
        if rng.random() < 0.5:
            loadings[:] = loadings[0]
        X = np.einsum("nf,nfc->nc", extent * root_causes(rng, n_rows, n_causes), loadings[y])
        if rng.random() < 0.3:
            X = np.where(rng.random(n_columns) < 0.5, np.tanh(X), X)
        if rng.random() < 0.5:
            X += log_uniform(rng, 0.3, 5) * rng.standard_normal((n_classes, n_columns))[y]
        noise = log_uniform(rng, 0.01, 0.5) * extent
        X = standardise(X) + noise * rng.standard_normal(X.shape)
        if rng.random() < 0.3:
            X = warp(rng, X)
        return Dataset("hanging together", standardise(X).astype(np.float32), y)


def prior(shares):
    """Return the synthetic tables, those of classes large enough for sets of a single class."""
    shapes = TablePrior(n_rows=400, families=("clusters", "manifold"), n_columns=(2, 12))
    tables = [TablePrior(n_rows=400, families=APART), TablePrior(n_rows=400), RegressionPrior()]
    return Mixture([*tables, shapes, HangingTogether()], weights=shares)


def start_as_a_density(learner):
    """Reduce the blocks of a new backbone to their linear residual.

    The learner then starts as a kernel density estimate over standardised rows rather than noise.
    """
    for block in learner.backbone.blocks:
        torch.nn.init.zeros_(block.feed_forward[-1].weight)
        torch.nn.init.zeros_(block.feed_forward[-1].bias)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="default_outliers.safetensors")
    parser.add_argument("--checkpoint-dir", type=Path, default="checkpoints/default_outliers")
    parser.add_argument(
        "--log", help="prefix of the names of CSV files of the losses, one per stage"
    )
    parser.add_argument("--max-steps", type=int, help="[those of each stage]")
    parser.add_argument("--learning-rate", type=float, help="[that of each stage]")
    parser.add_argument(
        "--stages", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run [all]"
    )
    parser.add_argument("--start", help="weights to start from")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--n-layers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(arguments)
    args.stages = chosen_stages(args, STAGES, ("max_steps", "learning_rate"))

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner = Learner(
        head="odd_at_scales",
        task="outlier_detection",
        backbone_config=backbone_config(args),
    )
    start_as_a_density(learner)
    begun = start_from(learner, args.start)
    for stage, settings in args.stages.items():
        source = prior(settings["shares"])
        history = meta_train(
            learner,
            source,
            OutlierSampler(max_cells=3000),
            validation_source=source,
            max_steps=settings["max_steps"],
            batch_size=args.batch_size,
            learning_rate=settings["learning_rate"],
            rate_factors=learner.rate_factors,
            n_warmup=100,
            eval_every=125,
            n_validation=16,
            keep="last",
            callbacks=[CSVLog(f"{args.log}.{stage}.csv")] if args.log else None,
            checkpoint_dir=args.checkpoint_dir / stage,
            start=weights_digest(learner),
            device=args.device,
            precision="float32",  # matrices are too small to gain from bfloat16
            random_state=args.seed + list(STAGES).index(stage),
        )
    watched = "the same priors, tasks apart from those of training"
    validation = last_look(learner, history, tables=watched)
    data = "TablePrior, RegressionPrior and HangingTogether of the recipe: synthetic tables alone"
    save(learner, args, __file__, data=data, validation=validation, **begun)


if __name__ == "__main__":
    main()
