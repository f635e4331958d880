"""The recipe of the default weights for regression: one command, resumable, from prior to card.

    python benchmarks/meta_train_regression.py --output default_regression.safetensors

Meta-trained on synthetic tables alone; or, with a share of them, on the `train` tables of a folder
as well. Run again after a kill, it goes on.
"""

import argparse

import torch
from meta_train_default import FOLDER, tables
from recipe import start_from

from sklearn_meta.learner import Learner
from sklearn_meta.tasks import Mixture, RegressionPrior, RegressionSampler, names_in
from sklearn_meta.training import meta_train
from sklearn_meta.weights import save_learner

#: Arguments that say where things are on one machine; they do not belong on a card.
PLACES = ("folder", "output", "checkpoint_dir", "start")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="default_regression.safetensors")
    parser.add_argument("--checkpoint-dir", default="checkpoints/default_regression")
    parser.add_argument("--start", help="weights to start from; none: random ones")
    parser.add_argument("--folder", default=FOLDER, help="of tables, with an index")
    parser.add_argument("--tables", type=float, default=0.0, help="share of tasks from real tables")
    parser.add_argument("--max-steps", type=int, default=8000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--n-layers", type=int, default=3)
    parser.add_argument("--n-kernels", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(arguments)

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner = Learner(
        head="gp",
        task="regression",
        backbone_config={
            "width": args.width,
            "n_layers": args.n_layers,
            "n_heads": 4,
            "head_width": args.width // 4,
            "last_width": 8,
        },
        head_config={"n_kernels": args.n_kernels},
    )
    begun = start_from(learner, args.start)
    source, data = RegressionPrior(), "RegressionPrior: synthetic tables alone"
    if args.tables:
        real = tables(args.folder, "train", "regression", retarget=0.5)
        source = Mixture([source, real], weights=[1 - args.tables, args.tables])
        data = (
            f"RegressionPrior; {100 * args.tables:.0f} % of tasks from regression tables of the "
            "split `train` of the data pack (in every other draw a numeric column in place of the "
            "target), without scikit-learn's own sets"
        )
    history = meta_train(
        learner,
        source,
        RegressionSampler(),
        validation_source=RegressionPrior(),
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        n_warmup=300,
        eval_every=250,
        n_validation=8,
        keep="last",
        checkpoint_dir=args.checkpoint_dir,
        device=args.device,
        random_state=args.seed,
    )
    last = history[-1]
    save_learner(
        learner.cpu(),
        args.output,
        data=data,
        datasets=names_in(source),
        recipe={
            "command": "python benchmarks/meta_train_regression.py",
            **{k: v for k, v in vars(args).items() if k not in PLACES},
            **begun,
        },
        seed=args.seed,
        validation={
            "tables": "RegressionPrior, tasks apart from those of training",
            "loss": float(last["valid_loss"]),
            "mse": float(last["valid_mse"]),
        },
    )


if __name__ == "__main__":
    main()
