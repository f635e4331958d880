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

from recipe import DRAWINGS, Stage, add_arguments, begin, drawn, parse, save, sources, train

from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import NWayKShot, TableEpisodes, TablePrior
from sklearn_meta.weights import load_learner

#: Pixels of a side of the drawings.
SIDE = 28


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
    stage = Stage(sampler, TablePrior(), TablePrior(), args.max_steps)
    return learner, stage, "TablePrior: synthetic tables alone"


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
    if args.encoder:
        learner.encoder.load_state_dict(load_learner(args.encoder).encoder.state_dict())
    sampler = NWayKShot(drawn(args, size=SIDE), fewer_classes=args.fewer_classes, **shape)
    return learner, Stage(sampler, *sources(args), args.max_steps), DRAWINGS


RECIPES = {"default_few_shot": tables, "omniglot_few_shot": drawings}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, list(RECIPES), max_steps=20_000, learning_rate=1e-3, stretch=0.2)
    add = parser.add_argument
    add("--n-ways", type=int, default=5)
    add("--n-queries", type=int, default=10, help="of an episode")
    add("--n-shots", type=int, help="[5 of tables, 1 of drawings]")
    add("--fewer-classes", type=float, default=0.3, help="share of such episodes of drawings")
    add("--encoder", help="weights of drawings whose image encoder training begins with")
    add("--n-layers", type=int, default=1)
    add("--n-latent", type=int, default=256)
    add("--n-filters", type=int, default=64)
    add("--attention", default="A8")
    add("--n-heads", type=int, default=1)
    add("--width", type=int, help="[32 of tables, 64 of drawings]")
    add("--dropout", type=float, default=0.0)
    return parse(parser, arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    learner, stage, data = RECIPES[args.weights](args)
    begin(learner, args)
    save(learner, train(learner, stage, args, n_validation=20), args, data)


if __name__ == "__main__":
    main()
