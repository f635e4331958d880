"""Parts that the recipes of weights share: arguments, training and the card."""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

import torch
from arguments import add_folder, count
from omniglot_splits import characters

from sklearn_meta.callbacks import CSVLog
from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.tasks import Drawings, batches
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner, save_learner

#: Arguments that name places on one machine; they do not belong on a card.
PLACES = ("weights", "output", "checkpoint_dir", "log", "folder", "omniglot", "texts")
PLACES += ("start", "begun")  # the card has the recipe of these weights instead

#: Arguments that name weights; the card has the recipe of these weights.
BEGUN = ("begin", "encoder")

#: Descriptions of data and validation on the cards of several recipes.
DRAWINGS = 'drawings of the alphabets of the split "train" of Omniglot (Lake et al., 2015), MIT'
APART = "apart from those of training; of drawings, the split valid"


class Stage(NamedTuple):
    """A training stage: sampler, sources and number of steps."""

    sampler: object
    source: object
    validation_source: object
    max_steps: int


def add_arguments(parser, names, *, max_steps, learning_rate, stretch=0.0):
    """Add the arguments that all recipes of drawings and vectors share."""
    add = parser.add_argument
    add("weights", choices=names)
    add("--output", type=Path, help="[WEIGHTS.safetensors]")
    add("--checkpoint-dir", type=Path, help="[checkpoints/WEIGHTS and a digest]")
    add("--log", help="CSV file of the losses")
    add("--omniglot", default=os.environ.get("SKLEARN_META_OMNIGLOT"), help="folder of the data")
    add("--begin", help="weights, or their path, to start from")
    add(
        "--stretch",
        type=float,
        default=stretch,
        help="of drawings: see tasks.Drawings [%(default)s]",
    )
    add("--warp", type=float, default=0.0, help="of characters: see tasks.Drawings [%(default)s]")
    add("--max-steps", type=int, default=max_steps)
    add("--batch-size", type=int, default=16)
    add("--learning-rate", type=float, default=learning_rate)
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    add("--fast", action="store_true", help="use bfloat16; compile memory access (needs C++)")


def add_text_arguments(parser, name, files, *, n_words, max_steps, learning_rate):
    """Add the arguments of the recipes of texts, for weights called ``name``."""
    add = parser.add_argument
    add_folder(parser, "--texts", "text", f"folder of {files}")
    add("--output", type=Path, default=f"{name}.safetensors", help="[%(default)s]")
    add("--checkpoint-dir", type=Path, default=f"checkpoints/{name}", help="[%(default)s]")
    add("--log", help="CSV file of the losses")
    add("--n-words", type=count, default=n_words, help="size of the vocabulary [%(default)s]")
    add("--max-steps", type=count, default=max_steps, help="[%(default)s]")
    add("--batch-size", type=count, default=16, help="[%(default)s]")
    add("--learning-rate", type=float, default=learning_rate, help="[%(default)s]")
    add("--seed", type=int, default=0)


def parse(parser, arguments=None):
    """Parse and check the arguments; set torch to one thread and to the seed.

    ``args.begun`` has the recipes of weights among the arguments. The folder of checkpoints is
    named by a digest of the settings, since a checkpoint does not contain all of them.
    """
    args = parser.parse_args(arguments)
    if args.weights.startswith("omniglot"):
        if not args.omniglot:
            parser.error("--omniglot is needed: a folder, such as that of tasks.fetch_omniglot()")
    else:
        for name in ("stretch", "warp"):
            if getattr(args, name) != parser.get_default(name):
                parser.error(f"--{name} changes drawings, and {args.weights} is not trained on any")
            delattr(args, name)  # keep it off the card
    given = {k: v for k, v in vars(args).items() if k not in PLACES}
    cards = {k: load_learner(given[k]).card for k in BEGUN if given.get(k)}
    args.begun = {k: told_of(card) for k, card in cards.items()}
    if args.checkpoint_dir is None:
        settings = json.dumps(given | {k: card["sha256"] for k, card in cards.items()})
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        args.checkpoint_dir = Path("checkpoints") / f"{args.weights}-{digest}"
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    return args


def start_from(learner, weights, fit=lambda state, learner: state):
    """Load the weights that training starts from, if any.

    Parameters
    ----------
    learner : Module
    weights : str
        Their name or path; None or "" for no weights.
    fit : callable, default=identity
        Maps their state and the learner to the state that the learner loads.

    Returns
    -------
    dict
        Entry of the card: their recipe, not their path.
    """
    if not weights:
        return {}
    known = load_learner(weights)
    try:
        learner.load_state_dict(fit(known.state_dict(), learner))
    except RuntimeError as error:
        raise SystemExit(f"{weights} are of another network than these settings make.") from error
    return {"start": told_of(known.card)}


def told_of(card):
    """Return what a new card says about the weights that training started from."""
    return card.get("recipe", card["sha256"])


def drawn(args, **settings):
    """Return the Drawings of episodes, with the augmentation of the arguments."""
    return Drawings(stretch=args.stretch, warp=args.warp, **settings)


def sources(args):
    """Return the characters for training and for validation."""
    return (characters(Path(args.omniglot), split) for split in ("train", "valid"))


def train(learner, stage, args, name="", **settings):
    """Run or resume a training stage; return its history.

    Parameters
    ----------
    learner : Module
    stage : Stage
    args : Namespace
    name : str, default=""
        Name of the stage, if there are several.
    **settings
        Keyword arguments of ``meta_train``.
    """
    return meta_train(
        learner,
        stage.source,
        stage.sampler,
        validation_source=stage.validation_source,
        max_steps=stage.max_steps,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        weight_decay=1e-4,
        n_warmup=200,
        clip=10.0,
        eval_every=500,
        n_pooled=4,
        n_groups=1,
        keep="last",
        callbacks=[CSVLog(args.log)] if args.log else None,
        checkpoint_dir=args.checkpoint_dir / name,
        start=weights_digest(learner),
        device=args.device,
        precision="bfloat16" if args.fast else "float32",
        random_state=args.seed,
        verbose=args.log is None,
        **settings,
    )


def save(learner, args, script, *, data, validation, datasets=None, **begun):
    """Write weights and their card.

    Parameters
    ----------
    learner : Module
    args : Namespace
        Arguments of the command; the card leaves out places on this machine.
    script : path
        Path of the command.
    data : str
        Description of the training data.
    validation : dict
        Scores, see :func:`last_look`.
    datasets : list of str, default=None
        Names of the tables among ``data``.
    **begun : dict
        Entries about weights that training started from.
    """
    weights = vars(args).get("weights", "")
    told = {"data": data, "seed": args.seed, "validation": validation}
    told["recipe"] = {
        "command": f"python benchmarks/{Path(script).name} {weights}".strip(),
        **{k: v for k, v in vars(args).items() if k not in PLACES},
        **begun,
    }
    if datasets is not None:
        told["datasets"] = datasets
    save_learner(learner.cpu(), args.output or f"{weights}.safetensors", **told)


@torch.no_grad()
def scores(learner, source, sampler, *, seed, batch_size, n_batches):
    """Mean loss and score of a learner on drawn tasks, in the form of a card."""
    drawn = batches(source, sampler, batch_size=batch_size, seed=seed)
    losses, found = [], []
    for _ in range(n_batches):
        for inputs, target in next(drawn):
            output = learner(**inputs)
            losses.append(learner.head.loss(output, target))
            found.append(learner.head.score(output, target))
    score = torch.cat(found).mean().item()
    return {"loss": torch.stack(losses).mean().item(), learner.head.score_name: score}


def last_look(learner, history, **of):
    """Loss and score of the last validation for a card, with a description ``of`` its data."""
    last, score = history[-1], learner.head.score_name
    return {**of, "loss": float(last["valid_loss"]), score: float(last[f"valid_{score}"])}
