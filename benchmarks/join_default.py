"""Make the default weights: two networks, trained separately, side by side.

    python benchmarks/join_default.py --output sklearn_meta/weights/default.safetensors

The first network has the weights `prototypes` (meta_train_default.py). The second has the weights
`default_regression` (meta_train_regression.py) and reads the indicators of the classes. Nothing is
trained here; TRIED.md says why. The card's scores are on the `valid` tables of a folder.
"""

import argparse

import torch
from meta_train_default import FOLDER, STAGES, sampler_of, tables
from recipe import save, scores, told_of

from sklearn_meta.learner import Learner
from sklearn_meta.weights import load_learner

#: Number of batches of tasks for the scores on the card.
N_BATCHES = 64


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--first", default="prototypes", help="weights of prototypes [%(default)s]")
    add("--second", default="default_regression", help="weights of a regression [%(default)s]")
    add(
        "--even-at",
        type=float,
        default=10.0,
        help="labels per class that weigh both equally [%(default)s]",
    )
    add("--seed", type=int, default=0, help="seed of the scored tasks [%(default)s]")
    add("--folder", default=FOLDER, help="folder of tables and index.csv")
    add("--output", default="default.safetensors")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    first, second = load_learner(args.first), load_learner(args.second)
    learner = joined(first, second, args.even_at).eval()
    cards = first.card, second.card
    # Score it on the tasks on which the first network was validated.
    sampler, source = sampler_of(STAGES["third"]), tables(args.folder, "valid")
    found = scores(
        learner, source, sampler, seed=[args.seed, 1], batch_size=16, n_batches=N_BATCHES
    )
    save(
        learner,
        args,
        __file__,
        data="; and beside it, on ".join(card["data"] for card in cards),
        validation={"tables": "split `valid`", **found},
        datasets=list(dict.fromkeys(name for card in cards for name in card["datasets"])),
        first=told_of(cards[0]),
        second=told_of(cards[1]),
    )


def joined(first, second, even_at):
    """Join two learners into one that embeds the rows twice.

    Parameters
    ----------
    first : Learner
        Learner with backbone "vsa" and head "prototypes".
    second : Learner
        Learner for regression with head "gp_attributes" or "gp_warped". Classes are not warped.
    even_at : float
        See :class:`sklearn_meta.heads.PrototypesGP`.

    Returns
    -------
    Learner
    """
    learner = Learner(
        "vsa_pair",
        "prototypes_gp",
        backbone_config={"first": first.backbone.config, "second": second.backbone.config},
        head_config={**first.head.config, **second.head.config, "even_at": even_at},
    )
    learner.backbone.first.load_state_dict(first.backbone.state_dict())
    learner.backbone.second.load_state_dict(second.backbone.state_dict())
    learner.head.prototypes.load_state_dict(first.head.state_dict())
    known, process = second.head.state_dict(), learner.head.process
    process.load_state_dict({name: known[name] for name in process.state_dict()})
    return learner


if __name__ == "__main__":
    main()
