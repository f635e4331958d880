"""Training loop of benchmarks/paper_001.py for every method and task, and the cache of cells."""

import hashlib
import json
import time
from functools import cache

import numpy as np
import torch
from paper_001_omniglot import load
from skorch import NeuralNet
from skorch.callbacks import Callback, GradientNormClipping, LRScheduler
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import IterableDataset

from sklearn_meta.meta_net import Loss
from sklearn_meta.optimizers import rate_at
from sklearn_meta.weights import load_learner

#: Number of evaluations on validation sets during a training.
N_LOOKS = 5


class Stream(IterableDataset):
    """Endless batches, cut into epochs of ``n_steps``."""

    def __init__(self, draw, n_steps, seed):
        self.draw = draw
        self.n_steps = n_steps
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        for _ in range(self.n_steps):
            yield self.draw(self.rng)


class Looks(Callback):
    """Records ``look(module)``, a dict, after every epoch."""

    def __init__(self, look):
        self.look = look

    def on_epoch_end(self, net, **kwargs):
        for name, value in self.look(net.module_).items():
            net.history.record(f"valid_{name}", value)


def train(module, loss, draw, steps, learning_rate, seed, look=None):
    """Train a module on a stream of batches with AdamW, a warm-up and a cosine schedule.

    The warm-up takes a tenth of the steps; then the learning rate falls to zero along a cosine.

    Parameters
    ----------
    module : Module
    loss : callable
        Maps the module's output and a target to a loss.
    draw : callable
        Maps a numpy generator to inputs (dict of tensors of equal length) and a target.
    steps : int
        Number of steps, rounded up to a multiple of the number of evaluations.
    learning_rate : float
        Highest learning rate.
    seed : int
        Seed of the batches.
    look : callable, optional
        Maps the module to a dict to record.

    Returns
    -------
    list of dict
        train_loss and the recorded values of each epoch.
    """
    n_epochs = min(N_LOOKS, steps)
    n_steps = -(-steps // n_epochs)
    steps = n_epochs * n_steps
    callbacks = [
        ("clip", GradientNormClipping(1.0)),
        (
            "schedule",
            LRScheduler(
                LambdaLR, lr_lambda=lambda i: rate_at(i, steps, steps // 10), step_every="batch"
            ),
        ),
    ]
    net = NeuralNet(
        module,
        criterion=Loss,
        criterion__function=loss,
        optimizer=torch.optim.AdamW,
        optimizer__weight_decay=0.01,
        optimizer__fused=True,
        lr=learning_rate,
        batch_size=None,  # the stream's items are batches
        max_epochs=n_epochs,
        train_split=None,
        callbacks=callbacks + ([("looks", Looks(look))] if look else []),
        callbacks__print_log=None,
        verbose=0,
    )
    net.fit(Stream(draw, n_steps, seed), None)
    return [
        {name: epoch[name] for name in epoch if name.startswith(("train_l", "valid_"))}
        for epoch in net.history.to_list()
    ]


def run_cell(task, method, seed, options):
    """Return the scores of one method on one task, computed or from the cache.

    Parameters
    ----------
    task : Task
    method : Method
    seed : int
        Seed of the initial weights, the training batches and the test sets.
    options : Namespace
        The command's arguments.

    Returns
    -------
    dict
        method, seed, the measures on test sets, steps, cpu_seconds, n_parameters, setting, curve.
    """
    steps = options.steps or max(round(task.steps * options.factor), 1)
    setting = {
        "method": method._asdict(),
        "seed": seed,
        "steps": steps,
        "learning_rate": task.learning_rate,
        "task": task.setting,
        "n_test": options.n_test,
    }
    digest = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:8]
    name = "".join(c if c.isalnum() else "_" for c in method.name)
    path = options.cache / task.name / f"{name}-{seed}-{digest}.json"
    if path.is_file():
        return json.loads(path.read_text("utf-8"))

    torch.manual_seed(seed)
    module = task.module(method)
    start = time.process_time()
    curve = train(
        module,
        task.loss,
        task.batch,
        steps,
        task.learning_rate,
        seed,
        lambda module: evaluate(task, module, "valid", options.n_valid, seed),
    )
    seconds = time.process_time() - start
    cell = {
        "method": method.name,
        "seed": seed,
        **evaluate(task, module, "test", options.n_test, seed),
        "steps": steps,
        "cpu_seconds": seconds,
        "n_parameters": sum(p.numel() for p in module.parameters()),
        "setting": setting,
        "curve": curve,
    }
    write_json(path, cell)
    return cell


@torch.inference_mode()
def evaluate(task, module, split, n_sets, seed):
    """Measures of a module on sets that are not used in training."""
    training = module.training
    task.prepare(module)
    module.eval()
    rng = np.random.default_rng([seed, {"valid": 1, "test": 2}[split]])
    outputs, targets = [], []
    for i in range(0, n_sets, 500):
        inputs, target = task.sets(rng, min(500, n_sets - i), split)
        outputs.append(module(**inputs))
        targets.append(target)
    module.train(training)
    return task.measures(torch.cat(outputs), torch.cat(targets))


def write_json(path, content):
    """Write a file whole or not at all, so that a killed run leaves no partial cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1), "utf-8")
    partial.replace(path)


@cache
@torch.inference_mode()
def encoded_images(folder, weights):
    """Encode all images by the image encoder of some weights; shared by all tasks on images.

    Returns
    -------
    vectors : tensor of shape (n_images, W)
    sha256 : str
        Digest of the weights.
    """
    learner = load_learner(weights)
    encoder, (images, *_) = learner.encoder.eval(), load(folder)
    parts = [encoder(some.flatten(1).float() / 255) for some in images.split(1000)]
    return torch.cat(parts), learner.card["sha256"]
