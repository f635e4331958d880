"""Evaluate weights on a collection of tables, and compare them with scikit-learn's classifiers.

All get the same few-shot tasks. Whatever cannot be evaluated is reported on stderr.
"""

import json
import sys
import warnings

from .arguments import (
    COLLECTIONS,
    add_collection_arguments,
    integers,
    named_collection,
    names,
    open_collection,
    positive,
)
from .printing import in_one_line

SUMMARY = "compare the accuracy of weights with scikit-learn's classifiers"

EXAMPLES = f"""\
{COLLECTIONS}
examples:
  sklearn-meta evaluate tables
  sklearn-meta evaluate openml:99 --n-rows 50,5000 --n-jobs -1 --json > scores.json
  sklearn-meta evaluate "tables#split=test,task=classification" --weights default \\
      --weights mine.safetensors --peers LabelSpreading,RandomForest
"""


def add_arguments(parser):
    """Add the arguments of the command."""
    add = parser.add_argument
    add("collection", type=named_collection, help="tables to evaluate on")
    add("--weights", action="append", metavar="NAME", help="name or file; repeatable [default]")
    add("--peers", type=names, metavar="NAME,...", help="of scikit-learn, or 'none' [all]")
    add(
        "--n-shots",
        type=integers,
        default=[1, 3, 5],
        metavar="K,...",
        help="labelled rows per class [1,3,5]",
    )
    add(
        "--n-unlabelled",
        type=positive,
        default=20,
        metavar="N",
        help="unlabelled rows per class [%(default)s]",
    )
    add(
        "--n-episodes", type=positive, default=10, metavar="N", help="tasks per table [%(default)s]"
    )
    add("--n-jobs", type=int, metavar="N", help="processes; -1 for all cores [1]")
    add("--seed", type=int, default=0, help="seed of the tasks [%(default)s]")
    add("--device", default="auto", help="torch device of the weights [%(default)s]")
    add_collection_arguments(parser)


def run(args):
    """Evaluate and print a table, or JSON."""
    from .. import evaluation

    if min(args.n_shots) < 1:
        args.parser.error(f"--n-shots must be 1 or more, got {min(args.n_shots)}")
    known = evaluation.peers()
    chosen = [] if args.peers == ["none"] else list(known) if args.peers is None else args.peers
    if unknown := set(chosen) - set(known):
        args.parser.error(f"unknown peers {sorted(unknown)}: choose from {','.join(known)} or none")
    from .. import MetaSemiSupervisedClassifier
    from ..devices import usable_device
    from ..weights import available_weights, load_learner

    usable_device(args.device)
    collection, estimators = open_collection(args.collection, args), {}
    for weights in args.weights or ["default"]:
        # Load now, to raise one error rather than one per task.
        task = load_learner(weights).task
        if task != "classification":
            raise ValueError(
                f"Weights {weights!r} are for {task}, but this command needs weights for "
                f"classification, such as {available_weights('classification')}."
            )
        estimators[weights] = MetaSemiSupervisedClassifier(weights, device=args.device)
    if twice := estimators.keys() & set(chosen):
        args.parser.error(
            f"weights and peers have the same names, {sorted(twice)}: rename the weights"
        )
    estimators |= {name: known[name] for name in chosen}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ failures")  # reported below, line by line
        found = evaluation.evaluate(
            estimators,
            collection,
            n_shots=args.n_shots,
            n_unlabelled=args.n_unlabelled,
            n_episodes=args.n_episodes,
            n_jobs=args.n_jobs,
            random_state=args.seed,
            verbose=not args.quiet,
        )
    for line in found.describe_failures():
        print(f"failed: {in_one_line(line)}", file=sys.stderr)
    if not found.records:
        raise ValueError(f"Nothing in {args.collection.label} could be evaluated.")
    settings = {
        name: getattr(args, name) for name in ("n_shots", "n_unlabelled", "n_episodes", "seed")
    }
    if args.json:
        result = {"collection": args.collection.label, **settings, "summary": found.summary()}
        result |= found._asdict()
        print(json.dumps(result, indent=1))
    else:
        print(f"{args.n_episodes} tasks a table, {args.n_unlabelled} unlabelled rows a class")
        print(found._replace(failures=[]))
        if found.failures:
            print(f"\n{len(found.failures)} failures, listed on stderr")
    return 0
