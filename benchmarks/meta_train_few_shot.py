"""Recipes of the weights `default_few_shot` and `omniglot_few_shot`: one command each.

    python benchmarks/meta_train_few_shot.py default_few_shot
    python benchmarks/meta_train_encoder.py --omniglot FOLDER --output encoder.safetensors
    python benchmarks/meta_train_few_shot.py omniglot_few_shot --omniglot FOLDER \\
        --encoder encoder.safetensors --dropout 0.5 --max-steps 3000 --batch-size 32

They meta-train a FewShotLearner and write its card. The default weights see only synthetic tables.
The others see drawings of the alphabets of Omniglot's split "train", through an image encoder that
was trained before and stays fixed. After a kill, the same command resumes.
"""

import argparse

import recipe
from paper_003_tasks import Encoded
from recipe import DRAWINGS, Stage, drawn, sources

from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.tasks import NWayKShot, TableEpisodes, TablePrior, Vectors
from sklearn_meta.weights import load_learner

#: Side length of the drawings in pixels.
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
    return learner, learner, stage, "TablePrior: synthetic tables alone"


def drawings(args):
    """Train end to end, or only the network behind a given image encoder."""
    given = load_learner(args.encoder) if args.encoder else None
    if given:
        image_encoder = {name: given.config[name] for name in ("image_encoder", "encoder_config")}
    else:
        image_encoder = {"encoder_config": {"n_filters": args.n_filters}}
    shape = {"n_ways": args.n_ways, "n_shots": args.n_shots or 1}
    config = {**shape, "backbone_config": backbone(args, width=64)}
    learner = FewShotLearner(inputs="images", n_inputs=SIDE * SIDE, **image_encoder, **config)
    few = {**shape, "n_queries": args.n_queries, "fewer_classes": args.fewer_classes}
    if not given:
        stage = Stage(NWayKShot(drawn(args, size=SIDE), **few), *sources(args), args.max_steps)
        return learner, learner, stage, DRAWINGS
    learner.encoder.load_state_dict(given.encoder.state_dict())
    vectors = Vectors(learner.encoder.n_outputs)
    trained = FewShotLearner(inputs="vectors", n_inputs=vectors.width, **config)
    trained.backbone, trained.head = learner.backbone, learner.head
    encoder = learner.encoder.eval().requires_grad_(False)
    # In training, quarter turns of a character are characters of their own.
    read = [Encoded(part, encoder, turns) for part, turns in zip(sources(args), (4, 1))]
    return learner, trained, Stage(NWayKShot(vectors, **few), *read, args.max_steps), DRAWINGS


RECIPES = {"default_few_shot": tables, "omniglot_few_shot": drawings}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    recipe.add_arguments(parser, list(RECIPES), max_steps=20_000, learning_rate=1e-3, stretch=0.2)
    add = parser.add_argument
    add("--n-ways", type=int, default=5)
    add("--n-queries", type=int, default=10, help="queries per episode")
    add("--n-shots", type=int, help="[5 for tables, 1 for drawings]")
    add("--fewer-classes", type=float, default=0.3, help="share of such episodes of drawings")
    add("--encoder", help="weights whose image encoder is used without training it")
    add("--n-layers", type=int, default=1)
    add("--n-latent", type=int, default=256)
    add("--n-filters", type=int, default=64)
    add("--attention", default="A8")
    add("--n-heads", type=int, default=1)
    add("--width", type=int, help="[32 for tables, 64 for drawings]")
    add("--dropout", type=float, default=0.0)
    args = recipe.parse(parser, arguments)
    if args.encoder and not args.weights.startswith("omniglot"):
        parser.error(f"--encoder is of images, and {args.weights} reads none")
    if args.encoder and args.begin:
        parser.error("--begin has an image encoder of its own: give it, or --encoder.")
    if args.encoder:
        for name in ("stretch", "warp", "n_filters"):
            delattr(args, name)  # settings of a trained encoder: keep them off the card
    return args


def main(arguments=None):
    args = parse_arguments(arguments)
    learner, trained, stage, data = RECIPES[args.weights](args)
    recipe.start_from(learner, args.begin)
    history = recipe.train(trained, stage, args, n_validation=20)
    validation = recipe.last_look(learner, history, episodes=recipe.APART)
    recipe.save(learner, args, __file__, data=data, validation=validation, **args.begun)


if __name__ == "__main__":
    main()
