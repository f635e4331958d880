"""The recipes of the few-shot weights: one command each, resumable, from data to card.

    python benchmarks/meta_train_few_shot.py default_few_shot
    python benchmarks/meta_train_few_shot.py omniglot_few_shot --omniglot FOLDER \\
        --n-layers 0 --n-ways 20 --n-queries 30 --batch-size 5 --output encoder.safetensors
    python benchmarks/meta_train_few_shot.py omniglot_few_shot --omniglot FOLDER \\
        --encoder encoder.safetensors --learning-rate 3e-4 --dropout 0.2 --max-steps 4500

The default weights are meta-trained on synthetic tables alone, the others on drawings of the
alphabets of Omniglot's split "train": first the image encoder alone, without a layer of attention
behind it, on harder episodes of 20 ways. Run again after a kill, it goes on.
"""

import argparse
import os
from pathlib import Path

import torch

from sklearn_meta.callbacks import CSVLog
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import Drawings, NWayKShot, TableEpisodes, TablePrior, load_omniglot
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner, save_learner

#: Pixels of a side of the drawings.
SIDE = 28

#: Arguments that say where things are on one machine; they do not belong on a card.
PLACES = ("output", "checkpoint_dir", "log", "omniglot", "encoder")


def backbone(args, width):
    """Keyword arguments of FewShotTransformer."""
    names = ("attention", "n_layers", "n_heads", "n_latent", "dropout")
    return {"width": args.width or width, **{name: getattr(args, name) for name in names}}


def tables(args):
    learner = FewShotLearner(
        n_ways=args.n_ways,
        n_shots=args.n_shots or 5,
        backbone_config={**backbone(args, width=32), "reads_labels": True},
    )
    shape = {"n_ways": learner.n_ways, "n_shots": learner.n_shots, "n_queries": args.n_queries}
    sampler = TableEpisodes(learner.n_inputs, **shape)
    return learner, sampler, TablePrior(), TablePrior(), "TablePrior: synthetic tables alone"


def drawings(args):
    learner = FewShotLearner(
        inputs="images",
        n_inputs=SIDE * SIDE,
        n_ways=args.n_ways,
        n_shots=args.n_shots or 1,
        encoder_config={"n_filters": args.n_filters},
        backbone_config=backbone(args, width=64),
    )
    shape = {"n_ways": learner.n_ways, "n_shots": learner.n_shots, "n_queries": args.n_queries}
    drawn = Drawings(SIDE, stretch=args.stretch)
    if args.encoder:
        learner.encoder.load_state_dict(load_learner(args.encoder).encoder.state_dict())
    sampler = NWayKShot(drawn, fewer_classes=args.fewer_classes, **shape)
    train, valid = (load_omniglot(args.omniglot, split) for split in ("train", "valid"))
    data = 'drawings of the alphabets of the split "train" of Omniglot (Lake et al., 2015), MIT'
    return learner, sampler, train, valid, data


RECIPES = {"default_few_shot": tables, "omniglot_few_shot": drawings}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("weights", choices=list(RECIPES))
    add("--output", type=Path, help="[WEIGHTS.safetensors]")
    add("--checkpoint-dir", help="[checkpoints/WEIGHTS]")
    add("--log", help="CSV file of the losses")
    add("--omniglot", default=os.environ.get("SKLEARN_META_OMNIGLOT"), help="folder of the data")
    add("--n-ways", type=int, default=5)
    add("--n-queries", type=int, default=10, help="of an episode")
    add("--n-shots", type=int, help="[5 of tables, 1 of drawings]")
    add("--fewer-classes", type=float, default=0.3, help="share of such episodes of drawings")
    add("--stretch", type=float, default=0.2, help="of the drawings")
    add("--encoder", help="weights of drawings whose image encoder training begins with")
    add("--n-layers", type=int, default=1)
    add("--n-latent", type=int, default=256)
    add("--n-filters", type=int, default=64)
    add("--attention", default="A8")
    add("--n-heads", type=int, default=1)
    add("--width", type=int, help="[32 of tables, 64 of drawings]")
    add("--dropout", type=float, default=0.0)
    add("--max-steps", type=int, default=20_000)
    add("--batch-size", type=int, default=16)
    add("--learning-rate", type=float, default=1e-3)
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    args = parser.parse_args()
    if args.weights.startswith("omniglot") and not args.omniglot:
        parser.error("--omniglot is needed: a folder, such as that of tasks.fetch_omniglot()")

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    learner, sampler, source, validation_source, data = RECIPES[args.weights](args)
    history = meta_train(
        learner,
        source,
        sampler,
        validation_source=validation_source,
        max_steps=args.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        weight_decay=1e-4,
        n_warmup=200,
        clip=10.0,
        eval_every=500,
        n_validation=20,
        n_pooled=4,
        n_groups=1,
        keep="last",
        callbacks=[CSVLog(args.log)] if args.log else None,
        checkpoint_dir=args.checkpoint_dir or f"checkpoints/{args.weights}",
        device=args.device,
        random_state=args.seed,
        verbose=args.log is None,
    )
    last = history[-1]
    save_learner(
        learner.cpu(),
        args.output or f"{args.weights}.safetensors",
        data=data,
        recipe={
            "command": f"python benchmarks/meta_train_few_shot.py {args.weights}",
            **{k: v for k, v in vars(args).items() if k not in (*PLACES, "weights")},
            "encoder": load_learner(args.encoder).card["recipe"] if args.encoder else None,
        },
        seed=args.seed,
        validation={
            "episodes": "apart from those of training; of drawings, the split valid",
            "loss": float(last["valid_loss"]),
            learner.head.score_name: float(last[f"valid_{learner.head.score_name}"]),
        },
    )


if __name__ == "__main__":
    main()
