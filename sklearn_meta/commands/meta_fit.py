"""Meta-train an estimator on collections of tables, and save its weights.

The weights come with a card that records data, settings, seed and validation. If the command is
killed or interrupted, run it again: with a --checkpoint-dir it resumes from the last checkpoint.
"""

import json
import math
import signal
import sys
import threading
from argparse import ArgumentTypeError
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

import sklearn_meta

from ..distributed import is_first_process
from ..folders import check_writable, checkpoint_file, expanded
from .arguments import (
    COLLECTIONS,
    FILTERS,
    add_collection_arguments,
    given,
    integers,
    mixed_collection,
    open_collection,
    positive,
)

SUMMARY = "meta-train an estimator and save its weights"

EXAMPLES = f"""\
{COLLECTIONS}\
  prior                  an endless supply of synthetic tables
  COLLECTION@0.3         relative share of the tasks in a mixture; 1 if not given

examples:
  sklearn-meta meta-fit openml:99 --exclude iris,wine --output mine.safetensors
  sklearn-meta meta-fit "tables#split=train@0.7" prior@0.3 --backbone vsa \\
      --validation "tables#split=valid" --checkpoint-dir checkpoints --output mine.safetensors
  sklearn-meta meta-fit --recipe recipe.toml --seed 1 --output mine-1.safetensors
  torchrun --nproc-per-node 4 -m sklearn_meta meta-fit --recipe recipe.toml --output w.safetensors

A recipe holds the same arguments by name; the command line takes precedence:
  collection = ["tables#split=train@0.7", "prior@0.3"]
  n_shots = [1, 3, 5]
  max_steps = 5000
"""

# Parameter of meta_fit -> type, default (that of MetaSemiSupervisedClassifier) and help.
SETTINGS = {
    "max_steps": (positive, 20_000, "steps of --batch-size tasks"),
    "n_shots": (integers, None, "labelled rows (per class) of a task, drawn from: 1,3,5,10"),
    "n_unlabelled": (integers, None, "unlabelled rows (per class), default 20, or a range: 5,60"),
    "batch_size": (positive, 8, "tasks per step"),
    "learning_rate": (float, 1e-3, "peak learning rate"),
    "optimizer": (str, "adamw", "adamw, adagrad, rmsprop, or muon (with a rate such as 5e-3)"),
    "eval_every": (positive, 500, "steps between validations, and between checkpoints"),
    "patience": (positive, 10, "validations without a better loss before training stops"),
    "ema_decay": (float, None, "decay, such as 0.999, of a moving average to keep as the weights"),
    "n_workers": (int, 0, "processes that prepare tasks"),
    "checkpoint_dir": (given, None, "folder of the checkpoint, from which the command resumes"),
}

# Other arguments that decide what is learned, and so belong on the card.
_DECISIVE = ("estimator", "backbone", "seed", "device", "retarget", *FILTERS)

#: Estimators that learn from collections; ``run`` says of each other one why it does not.
OF_TABLES = [
    name for name in sklearn_meta.__all__ if not name.startswith(("MetaLSTM", "SetTransformer"))
]


def add_arguments(parser):
    """Add the arguments of the command."""
    add = parser.add_argument
    add("collection", nargs="*", type=mixed_collection, help="to train on; several are mixed")
    add(
        "--estimator",
        choices=sklearn_meta.__all__,
        default=sklearn_meta.__all__[0],
        metavar="NAME",
        help=f"estimator to train: {', '.join(OF_TABLES)} [%(default)s]",
    )
    add(
        "--validation", type=mixed_collection, metavar="COLLECTION", help="to select the weights on"
    )
    add("--recipe", metavar="FILE", help="arguments by name, in JSON or TOML")
    add("--output", type=_weights_file, metavar="FILE", help="to save in, ending in .safetensors")
    add("--backbone", default="default", help="weights or architecture to start from [%(default)s]")
    add("--device", default="auto", help="torch device [%(default)s]")
    add("--seed", type=int, default=0, help="random seed [%(default)s]")
    add(
        "--retarget",
        type=float,
        default=0.0,
        metavar="P",
        help="probability that a numeric column replaces the target [%(default)s]",
    )
    about = "defaults are those of MetaSemiSupervisedClassifier; other estimators have their own"
    training = parser.add_argument_group("training", about).add_argument
    for name, (kind, default, text) in SETTINGS.items():
        text += "" if default is None else f" [{default}]"
        training(f"--{name.replace('_', '-')}", type=kind, metavar="X", help=text)
    add_collection_arguments(parser)


def _weights_file(text):
    if Path(text).suffix != ".safetensors":  # ".safetensors" alone has none
        raise ArgumentTypeError(f"must end in .safetensors, got {text!r}")
    return Path(text)


def run(args):
    """Meta-train and save."""
    for name in ("collection", "output"):
        if not getattr(args, name):
            args.parser.error(f"{name} is needed, here or in the recipe")
    if len(args.n_unlabelled or []) > 2:
        args.parser.error("--n-unlabelled takes one number, or a range such as 5,60")
    if not 0 <= args.retarget <= 1:
        args.parser.error(f"--retarget must be a probability from 0 to 1, got {args.retarget:g}")
    if all(spec.kind == "prior" for spec in args.collection):
        for name in ("retarget", *FILTERS):
            if getattr(args, name):
                flag = name.replace("_", "-")
                args.parser.error(f"--{flag} applies to named tables, and prior has none")
    from ..tasks import Mixture, Tables
    from ..weights import load_learner, save_learner
    from ..weights.store import check_is_card, read_card

    kind = getattr(sklearn_meta, args.estimator)
    if not hasattr(kind, "meta_fit"):
        args.parser.error(f"{args.estimator} is trained by fit and has nothing to meta-train")
    if "datasets" not in signature(kind.meta_fit).parameters:
        args.parser.error(f"{args.estimator} learns from texts, but collections hold tables")
    if args.backbone not in kind._architectures:  # an error now, not after all tables are loaded
        load_learner(args.backbone)
    defaults = _defaults(kind)
    for name in SETTINGS:
        if getattr(args, name) is not None and name not in defaults:
            args.parser.error(f"{args.estimator} has no --{name.replace('_', '-')}")
    if args.retarget and kind._task == "mixture":
        args.parser.error(f"{args.estimator} reads no targets: leave out --retarget")
    args.output = expanded(args.output)
    if args.output.is_dir():
        args.parser.error(f"--output {args.output} is a folder")
    try:
        check_is_card(args.output.with_suffix(".json"))
    except OSError as error:
        args.parser.error(f"--output: {error}")
    for place in (args.output, args.output.with_suffix(".json")):
        check_writable(place, "--output", make=True)  # an error now, not after all training
    estimator = kind(backbone=args.backbone, device=args.device, random_state=args.seed)
    settings = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    _check(estimator, settings)

    def open_source(spec, **options):
        return estimator._source(open_collection(spec, args, estimator._task), **options)

    options = {"retarget": args.retarget} if args.retarget else {}  # a mixture's source takes none
    sources = [open_source(spec, **options) for spec in args.collection]
    validation = None if args.validation is None else open_source(args.validation)
    if len(args.n_unlabelled or []) == 1:
        settings["n_unlabelled"] = args.n_unlabelled[0]
    shares = [spec.share for spec in args.collection]
    with _interruptible(args):
        estimator.meta_fit(
            sources[0] if len(sources) == 1 else Mixture(sources, shares),
            validation_datasets=validation,
            verbose=not args.quiet,
            **settings,
        )
    if not is_first_process():
        return 0
    card = {
        "data": [
            {"collection": spec.label, "share": spec.share}
            | ({"datasets": list(source)} if isinstance(source, Tables) else {})
            for spec, source in zip(args.collection, sources)
        ],
        "datasets": estimator.learner_.card["datasets"],
        "recipe": _recipe(args, defaults | settings),
        "seed": args.seed,
        "validation": _validation(args, estimator.history_),
    }
    save_learner(estimator.learner_, args.output, **card)
    result = {
        "weights": str(args.output),
        "sha256": read_card(args.output)["sha256"],
        "steps": sum(epoch.get("train_batch_count", 0) for epoch in estimator.history_),
        "validation": card["validation"],
    }
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    print(f"{result['weights']}: saved after {result['steps']} steps, sha256 {result['sha256']}")
    for name, value in (card["validation"] or {}).items():
        print(f"  validation {name}: {f'{value:.4f}' if isinstance(value, float) else value}")
    return 0


def _check(estimator, settings):
    """Raise the ValueErrors of ``meta_fit`` for its settings before all tables are loaded."""
    from ..devices import usable_device
    from ..settings import check_settings
    from ..tasks.episodes import counts_of

    estimator._validate_params()
    usable_device(estimator.device)
    check_settings(settings)
    for name in settings.keys() & {"n_shots", "n_unlabelled"}:
        counts_of(settings[name], name)


def _defaults(kind):
    """Return the settings of an estimator's ``meta_fit``, and their defaults."""
    from ..base import MetaEstimator
    from ..rows import RowEstimator

    own = signature(kind.meta_fit).parameters
    passed_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
    known = signature(MetaEstimator.meta_fit).parameters if passed_on else {}
    if issubclass(kind, RowEstimator):  # their tasks have neither
        known = {k: v for k, v in known.items() if k not in ("n_shots", "n_unlabelled")}
    if kind._task == "outlier_detection":  # its rows have no labels
        known = {k: v for k, v in known.items() if k != "n_shots"}
    return {name: p.default for name, p in (*known.items(), *own.items()) if name in SETTINGS}


def _recipe(args, settings):
    """Return a recipe: the arguments that train the same weights on another machine."""
    given = {name: getattr(args, name) for name in _DECISIVE if getattr(args, name)}
    if Path(args.backbone).is_file():
        given["backbone"] = Path(args.backbone).name
    if args.validation is not None:
        given["validation"] = args.validation.label
    collection = [
        spec.label + (f"@{spec.share:g}" if spec.share != 1 else "") for spec in args.collection
    ]
    of_one_machine = ("checkpoint_dir", "n_workers")
    training = {k: v for k, v in settings.items() if k not in of_one_machine and v is not None}
    return {"collection": collection, **given, **training}


def _validation(args, history):
    """Return the scores of the weights that are kept: those with the lowest validation loss."""
    from ..callbacks import best_epoch

    if args.validation is None:
        return None
    best = history[best_epoch(history)]
    if history[0].get("start_loss", math.inf) <= best["valid_loss"]:  # the initial weights are kept
        best = {"valid_loss": history[0]["start_loss"]}
    return {"tables": args.validation.label} | {
        name.removeprefix("valid_"): float(value)
        if math.isfinite(value)
        else None  # JSON has no NaN
        for name, value in best.items()
        if name.startswith("valid_") and type(value) is not int and not isinstance(value, bool)
    }


@contextmanager
def _interruptible(args):
    """Let Ctrl-C end the command; skorch would take a KeyboardInterrupt as the end of training."""

    def end(signum, frame):
        folder = args.checkpoint_dir
        saved = folder is not None and checkpoint_file(folder).is_file()
        again = "run the same command again to go on" if saved else "nothing is saved yet"
        print(f"\n{args.parser.prog}: interrupted; {again}", file=sys.stderr)
        raise SystemExit(130)

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a background job of a shell (&)
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
