"""Recipe of the weights `default_regression`: meta-trains a regressor of tables, writes its card.

    python benchmarks/meta_train_regression.py --output default_regression.safetensors

Training data are synthetic tables and the `train` tables of a folder (``--tables 0``: only
synthetic tables); validation is on synthetic tables. After a kill, the same command resumes.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from meta_train_default import add_arguments, backbone_config, chosen_stages, tables
from recipe import save, scores, start_from

from sklearn_meta.fingerprint import weights_digest
from sklearn_meta.learner import Learner, build_learner
from sklearn_meta.tasks import Mixture, RegressionPrior, RegressionSampler, as_source, names_in
from sklearn_meta.tasks.dataset import column_as_target
from sklearn_meta.training import meta_train


def real_tables(folder):
    """Return a source of `train` tables; targets are those of regression, or numeric columns."""
    classes = tables(folder, "train")
    usable = {n: t for n, t in classes.items() if column_as_target(t, np.random.default_rng(0))}
    return Mixture(
        [tables(folder, "train", "regression", retarget=0.5), as_source(usable)], weights=[0.7, 0.3]
    )


SHOTS = (5, 10, 10, 15, 15, 20, 20, 40, 80)

#: Settings of each training stage. The second trains only the head, with more kernels and more
#: labels, and labelled rows are embedded without their own label, like all other rows. The saved
#: weights also read warped targets, which needs no training.
STAGES = {
    "first": {
        "max_steps": 4500,
        "batch_size": 32,
        "learning_rate": 5e-3,
        "optimizer": "muon",
        "shots": SHOTS,
        "max_rows": 200,
        "n_kernels": 16,
        "own_labels": True,
        "head_alone": False,
    },
    "second": {
        "max_steps": 500,
        "batch_size": 16,
        "learning_rate": 1e-2,
        "optimizer": "adamw",
        "shots": (*SHOTS, 160, 320),
        "max_rows": 420,
        "n_kernels": 24,
        "own_labels": False,
        "head_alone": True,
    },
}

#: Factors on the hyperparameters of each additional kernel, which starts as a copy of another: with
#: many labels, targets with little noise that change over small distances can be recognised.
FURTHER = {
    "log_length_scale": 0.5,
    "log_direct_scale": 0.3,
    "log_noise": 0.3,
    "log_prior": math.exp(-1.5),
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    settings = ("max_steps", "batch_size", "learning_rate", "optimizer")
    add_arguments(parser, "default_regression", **dict.fromkeys(settings))
    add = parser.add_argument
    add("--start", help="weights to start from [random ones]")
    add("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run [all]")
    add("--tables", type=float, default=0.5, help="share of tasks from real tables")
    args = parser.parse_args(arguments)
    args.stages = chosen_stages(args, STAGES, settings)
    return args


def main(arguments=None):
    args = parse_arguments(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    source, data = RegressionPrior(), "RegressionPrior: synthetic tables alone"
    if args.tables:
        real = real_tables(args.folder)
        source = Mixture([source, real], weights=[1 - args.tables, args.tables])
        data = (
            f"RegressionPrior; {100 * args.tables:.0f} % of tasks from tables of the split `train` "
            "of the data pack (of regression tables the target or, in every other draw, a numeric "
            "column; of classification tables a numeric column), without scikit-learn's own sets"
        )
    before, begun = None, {}
    for stage, settings in args.stages.items():
        learner = build(args, settings)
        if before:
            learner.load_state_dict(with_kernels(before.state_dict(), learner))
        else:
            begun = start_from(learner, args.start, with_kernels)
        train(learner, source, args, stage, settings)
        before = learner
    learner = warped(learner.cpu()).eval()
    validation = {
        "tables": "RegressionPrior, tasks apart from those of training",
        **scores(
            learner,
            RegressionPrior(),
            RegressionSampler(settings["shots"], max_rows=settings["max_rows"]),
            seed=[args.seed, 1],
            batch_size=settings["batch_size"],
            n_batches=8,
        ),
    }
    datasets = names_in(source)
    save(learner, args, __file__, data=data, validation=validation, datasets=datasets, **begun)


def build(args, settings):
    """Return the learner of a stage with random weights."""
    return Learner(
        head="gp_attributes",
        task="regression",
        backbone_config={
            **backbone_config(args),
            "layer_norm": False,
            "attributes": True,
            "associations": True,
            "own_labels": settings["own_labels"],
        },
        head_config={"n_kernels": settings["n_kernels"], "noise": 0.02},
    )


def warped(learner):
    """Return the same learner with a head that also reads warped targets."""
    config = {**learner.config, "head": "gp_warped"}
    again = build_learner(config)
    again.load_state_dict(again.state_dict() | learner.state_dict())
    return again


def with_kernels(state, learner):
    """Extend the state of a learner with fewer kernels to the number of ``learner``."""
    state.pop("head.log_power_prior", None)  # only in saved weights, whose head is warped
    for name, wanted in learner.head.named_parameters():
        sets = state.get(f"head.{name}")
        if sets is not None and len(sets) < len(wanted):
            copied = torch.linspace(0, len(sets) - 1, len(wanted) - len(sets)).round().long()
            further = sets[copied] + math.log(FURTHER.get(name, 1))
            state[f"head.{name}"] = torch.cat([sets, further])
    return state


def train(learner, source, args, stage, settings):
    """Run or resume a training stage; return its history."""
    learner.backbone.requires_grad_(not settings["head_alone"])
    return meta_train(
        learner,
        source,
        RegressionSampler(settings["shots"], max_rows=settings["max_rows"]),
        validation_source=RegressionPrior(),
        max_steps=settings["max_steps"],
        batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        optimizer=settings["optimizer"],
        n_warmup=min(300, settings["max_steps"] // 10),
        eval_every=250,
        n_validation=8,
        n_groups=settings["batch_size"],  # a core is fastest on what its cache holds
        keep="last",
        checkpoint_dir=Path(args.checkpoint_dir) / stage,
        start=weights_digest(learner),
        device=args.device,
        random_state=args.seed,
    )


if __name__ == "__main__":
    main()
