"""Cells of benchmarks/paper_002.py: each is trained, tested and cached."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import torch
from omniglot_splits import characters
from paper_001_training import train, write_json
from paper_002_evaluation import (
    BATCH_SIZE,
    by_neighbour,
    by_network,
    episodes,
    score_classes,
    score_rows,
)
from paper_002_grid import MANN, Regression
from torch import nn

from sklearn_meta.backbones.memory_access import Memory
from sklearn_meta.folders import CHECKPOINT
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    ClassSequences,
    Curriculum,
    Drawings,
    GaussianProcessPrior,
    TargetSequences,
    Vectors,
)
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner, save_learner

#: Number of evaluations on validation episodes during a training.
N_LOOKS = 10

#: Rows of a regression episode.
N_ROWS = 50

RECIPES = {
    "adamw": {
        "optimizer": "adamw",
        "learning_rate": 2e-3,
        "weight_decay": 1e-4,
        "schedule": "cosine",
    },
    "averaged": {
        "optimizer": "adamw",
        "learning_rate": 2e-3,
        "weight_decay": 1e-4,
        "schedule": "constant",
        "ema_decay": 0.998,
    },
    "paper": {
        "optimizer": "rmsprop",
        "learning_rate": 1e-4,
        "weight_decay": 0.0,
        "schedule": "constant",
    },
}


class PersistentMemory(MemoryLearner):
    """A learner whose memory is not wiped between batches.

    Checkpoints do not contain the memory: a killed training resumes with an empty one.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.forget()

    def forget(self):
        self.kept = {}  # one memory for training, one for validation and tests

    def present(self, x, previous, state=None):
        state = self.backbone.empty(len(x))
        state = state._replace(memory=self.kept.get(self.training, state.memory))
        output, state = super().present(x, previous, state)
        self.kept[self.training] = Memory(*(part.detach() for part in state.memory))
        return output, state


# One cell


def run_cell(task, method, seed, options):
    """Return the scores of one method on one task, computed or from the cache.

    Parameters
    ----------
    task : Task or Regression
    method : Method
    seed : int
        Seed of the initial weights, the training episodes and the test episodes.
    options : Namespace
        The command's arguments.

    Returns
    -------
    dict
        task, method, seed, steps, seconds of training, n_parameters, folder, setting, scores (a
        list of dict) and curve (validation scores, a list of dict).
    """
    weights = options.weights.get(task.name) if method == MANN else None
    begun = getattr(task, "after", None) and options.weights.get(task.after.name)
    setting = {
        "task": task._asdict(),
        "method": method._asdict(),
        "seed": seed,
        "steps": 0 if weights or not method.network else steps_of(task, options),
        "recipe": options.recipe,
        "encoder_steps": options.encoder_steps if method.features == "autoencoder" else 0,
        "weights": weights and load_learner(weights).card["sha256"],
        "begun": begun and load_learner(begun).card["sha256"],
    }
    if options.fast and setting["steps"]:
        setting["fast"] = True
    digest = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:8]
    name = "".join(c if c.isalnum() else "_" for c in method.name)
    folder = options.cache / task.name / f"{name}-{seed}-{digest}"
    path = folder / f"cell-{options.n_test}.json"  # another n_test needs no new training
    if path.is_file():
        return json.loads(path.read_text("utf-8"))

    trained, curve = None, []
    if weights:
        trained = load_learner(weights)
    elif method.network:
        trained, curve = train_learner(task, method, seed, folder, options)
    if isinstance(task, Regression):
        scores = judge_rows(task, trained, seed, options)
    else:
        scores = judge_classes(task, method, trained, seed, options)
    cell = {
        "task": task.name,
        "method": method.name,
        "seed": seed,
        "steps": setting["steps"],
        "seconds": sum(look["seconds"] for look in curve),
        "n_parameters": sum(p.numel() for p in trained.parameters()) if trained else 0,
        "folder": str(folder),
        "setting": setting,
        "scores": scores,
        "curve": curve,
    }
    write_json(path, cell)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return cell


def steps_of(task, options):
    return options.steps or max(round(task.steps * options.factor), 1)


def train_learner(task, method, seed, folder, options):
    """Meta-train a network; return it and its validation scores after each tenth of the steps."""
    torch.manual_seed(seed)
    learner = build(task, method)
    path = folder / "learner.safetensors"
    if path.is_file():
        done = load_learner(path)
        learner.load_state_dict(done.state_dict())
        return learner.eval(), done.card["curve"]
    steps = steps_of(task, options)
    recipe = dict(RECIPES[options.recipe])
    if isinstance(task, Regression):
        sources = [prior(task)] * 2
        sampler = rows_sampler(task)
        if options.recipe != "paper":
            recipe["learning_rate"] = 1e-3
    else:
        sources = [characters(options.omniglot, split) for split in ("train", "valid")]
        sampler = training_sampler(task, learner.head, steps * BATCH_SIZE)
        if task.after:
            before = network_of(run_cell(task.after, method, seed, options), options)
            learner.load_state_dict(before.state_dict())
    if options.fast and learner.backbone.access:
        learner.backbone.access.compile(dynamic=False)
    look_every = math.ceil(steps / N_LOOKS)
    history = meta_train(
        learner,
        sources[0],
        sampler,
        validation_source=sources[1],
        max_steps=steps,
        batch_size=BATCH_SIZE,
        **recipe,
        n_warmup=min(200, steps // 5),
        clip=10.0,
        eval_every=look_every,
        n_validation=options.n_validation,
        keep="last",
        checkpoint_dir=folder,
        precision="bfloat16" if options.fast else "float32",
        n_pooled=4,
        n_groups=1,
        random_state=seed,
        verbose=False,
    )
    if len(history) < math.ceil(steps / look_every):
        raise SystemExit("Interrupted: the same command goes on from here.")
    score = f"valid_{learner.head.score_name}"
    names = ("train_loss", "valid_loss", score)
    curve = [
        {"episodes": (i + 1) * look_every * BATCH_SIZE, "seconds": epoch["dur"]}
        | {name: epoch[name] for name in names}
        for i, epoch in enumerate(history)
    ]
    save_learner(learner, path, steps=steps, seed=seed, curve=curve)
    return learner, curve


def network_of(cell, options):
    """Return the network of a cell: the given weights, or those trained."""
    given = options.weights.get(cell["task"])
    return load_learner(given or Path(cell["folder"]) / "learner.safetensors")


def build(task, method):
    """Return an untrained learner for a task."""
    if isinstance(task, Regression):
        return MemoryLearner(
            "mann",
            "gaussian",
            task="online_regression",
            inputs="vectors",
            n_inputs=task.n_columns,
            backbone_config=method.network,
        )
    return (PersistentMemory if method.persistent else MemoryLearner)(
        "mann",
        task.head,
        inputs="vectors",
        n_inputs=Drawings().width,
        backbone_config=method.network,
        head_config={"n_classes": task.n_classes} if task.head == "onehot" else {},
    )


def classes_sampler(head, n_classes, n_rows, augment):
    drawings = Drawings(augment=augment)
    return ClassSequences(head, drawings, n_classes=(n_classes, n_classes), max_rows=n_rows)


def training_sampler(task, head, n_episodes):
    """Sampler of augmented training episodes; they become harder if the task says so."""
    if task.start is None:
        return classes_sampler(head, task.n_classes, task.n_rows, augment=True)
    first = classes_sampler(head, task.start, task.n_rows, augment=True)
    n_few = math.ceil(task.few_until * n_episodes)
    n_growing = task.grown_at * n_episodes - n_few
    every = math.ceil(n_growing / max(task.n_classes - task.start, 1))
    return Growing(first, every, most=task.n_classes, n_first=n_few)


class Growing(Curriculum):
    """Curriculum in which every episode has the maximum number of classes of its time."""

    def at(self, n_drawn):
        sampler = super().at(n_drawn)
        sampler.n_classes = 2 * sampler.n_classes[1:]
        return sampler


def rows_sampler(task):
    return TargetSequences(Vectors(task.n_columns), n_rows=(N_ROWS, N_ROWS), standardised=False)


def prior(task):
    """Return the Gaussian process from which a task's functions are drawn."""
    return GaussianProcessPrior(task.n_columns, N_ROWS, bounds=(-task.bound, task.bound))


# Its tests


def judge_classes(task, method, learner, seed, options):
    """Accuracies on the characters of split "test", as they are and augmented."""
    if learner is None:
        learner = build(task, MANN)  # needed for its head, which encodes the labels
        predict = by_neighbour(features_of(method, seed, options))
    else:
        predict = by_network(learner)
    n_test = math.ceil(options.n_test / 4) if task.tests else options.n_test
    scores = []
    for n_classes, n_rows in task.tests or [(task.n_classes, task.n_rows)]:
        for augment in (False, True):
            if method.persistent:
                learner.forget()
            sampler = classes_sampler(learner.head, n_classes, n_rows, augment)
            drawn = episodes(characters(options.omniglot, "test"), sampler, n_test, seed)
            scores += [
                {"n_classes": n_classes, "drawings": "augmented" if augment else "as they are"}
                | score
                for score in score_classes(predict, learner.head, drawn)
            ]
    return scores


def judge_rows(task, learner, seed, options):
    """Negative log likelihoods by row, under the network and under the true Gaussian process."""
    drawn = episodes(prior(task), rows_sampler(task), options.n_test, seed)
    return score_rows(learner, prior(task).kernel, drawn)


# Features of the nearest neighbour


def features_of(method, seed, options):
    if method.features == "pixels":
        return lambda x: x
    return trained_autoencoder(seed, options).encode


class Autoencoder(nn.Module):
    """Autoencoder of section 4.2: two layers of 200 leaky ReLU each way, 32 units in between."""

    def __init__(self, width):
        super().__init__()
        self.encode, self.decode = (
            nn.Sequential(
                *(nn.Linear(n_in, 200), nn.LeakyReLU()),
                *(nn.Linear(200, 200), nn.LeakyReLU()),
                nn.Linear(200, n_out),
            )
            for n_in, n_out in ((width, 32), (32, width))
        )

    def forward(self, x):
        return self.decode(self.encode(x))


def trained_autoencoder(seed, options):
    """Return the autoencoder of augmented train drawings, trained once per seed and cached."""
    drawings, data = Drawings(), characters(options.omniglot, "train").dataset
    torch.manual_seed(seed)
    module = Autoencoder(drawings.width)
    path = options.cache / f"autoencoder-{options.encoder_steps}-{seed}.pt"
    if path.is_file():
        module.load_state_dict(torch.load(path, weights_only=True))
        return module.eval()

    def draw(rng):
        rows = rng.integers(len(data.X), size=256)
        x = torch.from_numpy(drawings(data.X[rows], np.arange(len(rows)), rng))
        return {"x": x}, x

    loss = nn.functional.binary_cross_entropy_with_logits
    curve = train(module, loss, draw, options.encoder_steps, 1e-3, seed)
    write_json(path.with_suffix(".json"), {"curve": curve})
    torch.save(module.state_dict(), path.with_suffix(".partial"))
    path.with_suffix(".partial").replace(path)
    return module.eval()
