"""One cell of benchmarks/paper_000.py: train a method within the budget and score its tests."""

import copy
import hashlib
import json
import time
import warnings
from itertools import product

import numpy as np
import pandas as pd
import torch
from paper_000_data import data_of, test_tasks, training_sampler, tuning_tasks
from paper_000_grid import CONFIG_BY_DATA, HEAD_CONFIG
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.semi_supervised import LabelSpreading
from skorch.callbacks import Callback

from sklearn_meta.backbones.standardisation import moments_of, standardise
from sklearn_meta.callbacks import CSVLog
from sklearn_meta.heads import HEADS
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import collate
from sklearn_meta.training import meta_train
from sklearn_meta.weights import load_learner, save_learner

#: Number of evaluations on the validation tasks during a training.
N_LOOKS = 10


class Stopwatch(Callback):
    """Records the CPU seconds of this process after each training step."""

    def __init__(self):
        self.times = []

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.times.append(time.process_time())

    @property
    def seconds_per_step(self):
        """Mean over all steps but the first."""
        return (self.times[-1] - self.times[0]) / max(len(self.times) - 1, 1)


def run_cell(cell, shots, options):
    """Return the scores of one cell, computed or from the cache.

    Parameters
    ----------
    cell : Cell
    shots : sequence of int
    options : Namespace
        The command's arguments.

    Returns
    -------
    DataFrame
        One row for each test table and number of labelled rows: method, data, split, x, table,
        shots and score (mean over episodes), and facts of the training: steps, seconds_per_step,
        cpu_seconds, valid_loss and parameters.
    """
    folder = options.cache / name_of(cell, shots, options)
    done = folder / "scores.csv"
    if done.is_file():
        return pd.read_csv(done, dtype={"table": str})
    folder.mkdir(parents=True, exist_ok=True)
    data = data_of(cell, options)
    if cell.method.backbone is None:
        start = time.process_time()
        tasks = tuning_tasks(cell, data.train, shots, options.n_tuning, options.max_cells)
        predict = tuned(cell, tasks)
        facts = {"cpu_seconds": time.process_time() - start}
    else:
        learner, facts = trained(cell, shots, data, options, folder)
        predict = predictions_of(learner)
    rows = pd.DataFrame(
        {
            "table": test.table,
            "shots": test.shots,
            "score": score(test.task, predict(test.task), test.scored) * test.unit**2,
        }
        for test in test_tasks(cell, data.test, shots, options.episodes)
    )
    rows = rows.groupby(["table", "shots"], as_index=False).mean()
    setting = {
        "method": cell.method.name,
        "data": cell.data,
        "split": cell.split,
        "x": np.nan if cell.x is None else cell.x,
    }
    rows = rows.assign(**{**setting, **facts})[[*setting, *rows.columns, *facts]]
    partial = done.with_suffix(".partial")
    rows.to_csv(partial, index=False, float_format="%.6g")
    partial.replace(done)
    return rows


def learner_of(cell, shots, options):
    """Return the meta-trained learner of a cell; computes the cell first if it is not cached."""
    run_cell(cell, shots, options)
    return load_learner(options.cache / name_of(cell, shots, options) / "learner.safetensors")


def name_of(cell, shots, options):
    """Folder of a cell. Every setting that changes its scores is part of the name."""
    setting = {
        "cell": [str(part) for part in cell],
        "shots": shots,
        "options": {
            key: str(getattr(options, key))
            for key in ("minutes", "steps", "batch_size", "n_validation", "keep", "episodes")
            + ("n_tuning", "n_tables", "n_test", "folder", "pool", "openml", "max_cells")
        },
    }
    if cell.method.backbone is None:
        setting["grid"] = KERNELS[cell.method.name][1]
    if cell.method.head in HEAD_CONFIG:
        setting["head"] = HEAD_CONFIG[cell.method.head]
    if cell.method.head and head_rate(cell) != 1:
        setting["head_rate"] = head_rate(cell)
    if options.learning_rate is not None:
        setting["learning_rate"] = options.learning_rate
    if options.retarget and cell.method.backbone:
        setting["retarget"] = options.retarget
    digest = hashlib.sha256(json.dumps(setting).encode()).hexdigest()[:8]
    name = cell.method.name.replace("/", "").replace(", ", "_").replace(" ", "_")
    return f"{cell.data}/{name}-{cell.split}-{digest}"


def head_rate(cell):
    """Factor on the learning rate of the head's parameters, as in `meta_fit`."""
    return HEADS[cell.task][cell.method.head].rate_factor


def new_learner(cell):
    method = cell.method
    config = CONFIG_BY_DATA.get(cell.data, {}).get(method.backbone, {})
    torch.manual_seed(cell.split)
    return Learner(
        method.backbone,
        method.head,
        task=cell.task,
        backbone_config={**config, **method.backbone_config},
        head_config=HEAD_CONFIG.get(method.head),
    )


def engine(cell, options):
    """Settings of meta_train. Of these, learning rates and precision depend on the method."""
    of_figures = cell.data in ("circle_spiral", "fresh")
    return {
        "batch_size": options.batch_size,
        "learning_rate": options.learning_rate or cell.method.learning_rate(cell.data),
        "rate_factors": {"head.*": head_rate(cell)},
        "precision": cell.method.precision,
        # Every batch mixes circles and spirals. Real tables differ in size, and padding costs time:
        # they are grouped by size.
        "n_groups": 1 if of_figures else 2,
        "n_pooled": 1 if of_figures else 16,
        "random_state": cell.split,
        "verbose": False,
    }


def trained(cell, shots, data, options, folder):
    """Meta-train a learner within the budget; return it and facts of its training (a dict).

    A killed training resumes from its checkpoint, with the number of steps planned at its start.
    """
    learner, sampler = new_learner(cell), training_sampler(cell, shots, options.max_cells)
    plan_file = folder / "plan.json"
    if not plan_file.is_file():
        seconds = seconds_per_step(learner, data.train, sampler, cell, options)
        steps = options.steps or max(int(60 * options.minutes / seconds), 1)
        plan_file.write_text(json.dumps({"steps": steps, "seconds_per_step": seconds}), "utf-8")
    plan = json.loads(plan_file.read_text("utf-8"))
    start = time.process_time()
    history = meta_train(
        learner,
        data.train,
        sampler,
        validation_source=data.valid,
        max_steps=plan["steps"],
        n_warmup=min(200, plan["steps"] // 10),
        eval_every=-(-plan["steps"] // N_LOOKS),
        n_validation=options.n_validation,
        keep=options.keep,
        callbacks=[CSVLog(folder / "curve.csv")],
        checkpoint_dir=folder,
        **engine(cell, options),
    )
    losses = history[:, "valid_loss"]
    kept = min(losses) if options.keep == "best" else losses[-1]
    facts = {
        **plan,
        "cpu_seconds": time.process_time() - start,
        "valid_loss": kept,
        "parameters": sum(p.numel() for p in learner.parameters()),
    }
    save_learner(
        learner,
        folder / "learner.safetensors",
        data=f"{cell.data}, split {cell.split}",
        recipe={"command": "python benchmarks/paper_000.py", **facts},
        seed=cell.split,
    )
    return learner, facts


def seconds_a_batch(cell, source, sampler, options):
    """CPU seconds of GP or LP for a batch of training tasks, with one of the candidate kernels.

    GP and LP have no training steps. They choose a kernel by predicting such tasks with each.
    """
    rng = np.random.default_rng(cell.split)
    tasks = [sampler.draw(source.draw(rng), rng) for _ in range(options.batch_size)]
    method, grid = KERNELS[cell.method.name]
    start = time.process_time()
    for task in tasks:
        method(task, *grid[len(grid) // 2])
    return time.process_time() - start


def seconds_per_step(learner, source, sampler, cell, options):
    """CPU seconds of a training step, measured by training a copy of the learner."""
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        meta_train(
            copy.deepcopy(learner),
            source,
            sampler,
            max_steps=options.n_trial,
            callbacks=[watch],
            **engine(cell, options),
        )
    return watch.seconds_per_step


def predictions_of(learner):
    """Return a function from tasks to a learner's predictions: classes or standardised targets."""

    @torch.inference_mode()
    def predict(task):
        inputs, _ = collate([task])
        output = learner(**inputs)[0]
        return (output.argmax(-1) if task.y.dtype.kind == "i" else output[:, 0, 0]).numpy()

    return predict


def score(task, predicted, rows):
    """Accuracy, or mean squared error, over the rows of a mask."""
    y, predicted = task.y[rows], predicted[rows]
    return float(np.mean((y - predicted) ** 2 if task.is_regression else y == predicted))


def tuned(cell, tasks):
    """Return GP or LP with the kernel that is best on meta-training tasks.

    Like the backbones, GP and LP see attributes that are standardised over all rows of the task.
    """
    method, grid = KERNELS[cell.method.name]
    sign = 1 if cell.task == "classification" else -1

    def mean_score(kernel):
        return np.mean([score(task, method(task, *kernel), ~task.labelled) for task in tasks])

    best = max(grid, key=lambda kernel: sign * mean_score(kernel))
    return lambda task: method(task, *best)


def gaussian_process(task, length_scale, noise):
    """Predict by Gaussian process regression of targets, or of one-hot classes."""
    X = attributes(task)
    y = task.y if task.is_regression else np.eye(task.n_label_columns)[task.y]
    kernel = RBF(length_scale * X.shape[1] ** 0.5)
    model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    output = model.fit(X[task.labelled], y[task.labelled]).predict(X)
    return output if task.is_regression else output.argmax(1)


def label_propagation(task, gamma, alpha):
    """Predict by label propagation (Zhou et al.) over the graph of all rows."""
    X = attributes(task)
    model = LabelSpreading(gamma=gamma / X.shape[1], alpha=alpha, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that no label reaches, and of no convergence
        model.fit(X, np.where(task.labelled, task.y, -1))
    return np.nan_to_num(model.label_distributions_).argmax(1)


#: GP and LP: the function that predicts, and the kernels to choose from. A kernel of GP is (length
#: scale / sqrt(columns), noise), one of LP is (gamma x columns, alpha).
KERNELS = {
    "GP": (
        gaussian_process,
        tuple(product((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (0.001, 0.01, 0.1, 0.5))),
    ),
    "LP": (label_propagation, tuple(product((0.3, 1.0, 3.0, 10.0, 30.0), (0.2, 0.5, 0.9)))),
}


def attributes(task):
    """Attributes as the backbones read them; missing cells are set to the mean, zero."""
    x = torch.from_numpy(task.X)[None]
    z = standardise(x, moments_of(x, torch.ones(x.shape[:2], dtype=bool)))
    return z.nan_to_num(0.0)[0].double().numpy()
