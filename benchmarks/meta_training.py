"""Speed of meta-training: meta_fit's engine against a plain torch loop, on synthetic tables.

It also measures the share of a step that preparing tasks takes (on real tables, too, if there are
any), and the efficiency of two processes that share each batch.

    python benchmarks/meta_training.py
    python benchmarks/meta_training.py --quick --output /tmp/meta_training

Every figure is the median ratio of runs that took turns, with the lowest and the highest ratio.
"""

import argparse
import copy
import csv
import math
import os
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import torch
from arguments import data_folder
from results_folder import place_of
from skorch.callbacks import Callback
from torch.nn.functional import cross_entropy

from sklearn_meta.devices import autocast, gains_from_bfloat16
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import EpisodeSampler, Folder, TablePrior, as_source, batches
from sklearn_meta.tasks.batch import IGNORE
from sklearn_meta.training import meta_train
from sklearn_meta.weights import available_weights, load_learner

FOLDER = data_folder("tabular")
BATCH_SIZE = 8  # default of meta_fit, like the learning rate
LEARNING_RATE = 1e-3
N_WARMUP = 4  # few, so that a short run also covers the cosine
POOL = 16  # batches that are prepared together; runs consist of whole pools
FIELDS = ["benchmark", "case", "ours", "against", "episodes_per_s_ours", "episodes_per_s_against"]
FIELDS += ["figure", "value", "lowest", "highest"]
PARTS = ("preparation", "source.draw", "sampler.draw", "sort and collate")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny network and tasks, one process")
    parser.add_argument("--folder", default=FOLDER, help="folder of real tables, if any")
    parser.add_argument("--output", help="no ending [benchmarks/results/meta_training, or _quick]")
    parser.add_argument("--process", choices=["together", "apart"], help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "meta_training", args.quick)
    torch.set_num_threads(1)
    if args.process:
        return one_of_several(args.process)
    load = os.getloadavg()[0]
    rows = []
    for measurement in (overhead_rows, preparation_rows, process_rows):
        for row in measurement(args):
            rows.append(row)
            print(" | ".join(cells(row)), flush=True)
    write(rows, Path(args.output), args, load)


def in_turn(functions, n_repeats, n_unused=0):
    """Call functions in turn; return the list of each one's results by name."""
    turns = [[f() for f in functions.values()] for _ in range(n_unused + n_repeats)]
    return dict(zip(functions, map(list, zip(*turns[n_unused:]))))


def row_of(benchmark, case, ours, against, figure, formula):
    """Return a row of the result, from names with paired times and a formula of two times."""
    (mine, our_times), (other, their_times) = ours, against
    values = [formula(a, b) for a, b in zip(our_times, their_times, strict=True)]
    speeds = [POOL * BATCH_SIZE / median(times) for times in (our_times, their_times)]
    cells = [benchmark, case, mine, other, *speeds, figure]
    return dict(zip(FIELDS, [*cells, median(values), min(values), max(values)], strict=True))


# The engine, and the same work in a plain loop


class Clock(Callback):
    """Records when training began and when each step ended."""

    def on_train_begin(self, net, **kwargs):
        self.times = [time.perf_counter()]

    def on_batch_end(self, net, **kwargs):
        self.times.append(time.perf_counter())


def engine(learner, source, sampler, n_steps, **settings):
    """Train by ``meta_train``, as ``meta_fit`` and the command line do; return losses by step."""
    settings |= {"batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE, "n_warmup": N_WARMUP}
    settings |= {"max_steps": n_steps, "patience": 10, "verbose": False}
    history = meta_train(learner, source, sampler, **settings)
    return history[-1, "batches", :, "train_loss"]


def plain_loop(learner, source, sampler, n_steps):
    """Train by a loop as one would write it by hand for this run; return losses by step."""
    learner.train()
    weights = list(learner.parameters())
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.01)
    losses = []
    stream = batches(source, sampler, batch_size=BATCH_SIZE, seed=[0, 0])
    for step, batch in enumerate(islice(stream, n_steps)):
        rate = (step + 1) / N_WARMUP
        if step >= N_WARMUP:
            rate = 0.5 + 0.5 * math.cos(math.pi * (step - N_WARMUP) / (n_steps - N_WARMUP))
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * rate
        optimizer.zero_grad()
        losses.append(0.0)
        for inputs, target in batch:
            with autocast("cpu", "auto"):
                logits = learner(**inputs).float().transpose(1, 2)
            loss = cross_entropy(logits, target, ignore_index=IGNORE, reduction="none").sum(1)
            loss = (loss / (target != IGNORE).sum(1).clamp(min=1)).mean() / len(batch)
            loss.backward()
            losses[-1] += loss.item()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    learner.eval()
    return losses


class Known(EpisodeSampler):
    """Tasks drawn beforehand; it is source and sampler, since nothing is left to draw."""

    def __init__(self, source, sampler):
        rng = np.random.default_rng(0)
        self.tasks = [sampler.draw(source.draw(rng), rng) for _ in range(POOL * BATCH_SIZE)]

    def draw(self, *args):
        return self.tasks[args[-1].integers(len(self.tasks))]


def networks(quick):
    """Yield the name of a learner, the learner, and the source and sampler of its tasks."""
    torch.manual_seed(0)
    config = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4}
    small = TablePrior(n_columns=(2, 5)), EpisodeSampler((1, 3), 5)
    usual = TablePrior(), EpisodeSampler()
    yield "vsa of one pair of blocks, width 8; small tasks", Learner(backbone_config=config), *small
    if not quick:
        yield "vsa", Learner(), *usual
        if "default" in available_weights():
            yield "default weights", load_learner("default").requires_grad_(True), *usual


def check_same_work(learner, known):
    """Check that the engine has the plain loop's loss in each step and its weights in the end.

    The check is in float64. In float32, the gradient of a bias that changes no distance is only
    rounding, which depends on the processor, and Adam turns it into full steps.

    Returns
    -------
    dict of str to tensor
        The weights.
    """
    losses, weights = [], []
    for loop in (engine, plain_loop):
        trained = copy.deepcopy(learner).double()
        losses.append(loop(trained, known, known, POOL))
        weights.append(trained.state_dict())
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert len(set(losses[0])) == POOL
    for name in weights[0]:
        torch.testing.assert_close(*(of[name] for of in weights))
    return weights[0]


def overhead_rows(args):
    """Compare the engine with the plain loop, and the loop with itself, which shows the noise."""
    for name, learner, source, sampler in networks(args.quick):
        known = Known(source, sampler)
        check_same_work(learner, known)

        def run(loop):
            trained = copy.deepcopy(learner)  # noqa: B023
            start = time.perf_counter()
            loop(trained, known, known, POOL)  # noqa: B023
            return time.perf_counter() - start

        loops = {"meta_train": engine, "plain loop": plain_loop, "plain loop again": plain_loop}
        functions = {name: partial(run, loop) for name, loop in loops.items()}
        seconds = in_turn(functions, 1 if args.quick else 5, n_unused=0 if args.quick else 1)
        plain = ("plain loop", seconds["plain loop"])
        case = f"{name}; {1000 * median(plain[1]) / POOL:.0f} ms a step"
        for ours in ("meta_train", "plain loop again"):
            pair = (ours, seconds[ours]), plain
            yield row_of("overhead", case, *pair, "overhead", lambda a, b: a / b - 1)


class Timed:
    """A source or sampler that counts the seconds of its draws."""

    def __init__(self, drawn_from):
        self.drawn_from = drawn_from
        self.seconds = 0.0

    def draw(self, *args):
        start = time.perf_counter()
        drawn = self.drawn_from.draw(*args)
        self.seconds += time.perf_counter() - start
        return drawn

    def __getattr__(self, name):  # other attributes of a sampler
        return getattr(self.drawn_from, name)


def prepare(source, sampler):
    """Seconds for preparing a pool: in all, source.draw, sampler.draw, sort and collate."""
    timed = Timed(source), Timed(sampler)
    stream = batches(*timed, batch_size=BATCH_SIZE, seed=[0, 1])
    start = time.perf_counter()
    list(islice(stream, POOL))
    total = time.perf_counter() - start
    draws = [part.seconds for part in timed]
    return total, *draws, total - sum(draws)


def train(learner, source, sampler, **settings):
    """Seconds of the first pool of steps, when worker processes start, and of the next."""
    clock = Clock()
    engine(copy.deepcopy(learner), source, sampler, 2 * POOL, callbacks=[clock], **settings)
    return clock.times[POOL] - clock.times[0], clock.times[-1] - clock.times[POOL]


def preparation_rows(args):
    """Share of a step spent on its tasks, by part, and the speed-up by a worker process."""
    _, learner, tables, sampler = list(networks(args.quick))[not args.quick]
    sources = {"TablePrior": tables}
    if not args.quick and (Path(args.folder) / "index.csv").is_file():
        tables = Folder(args.folder, split="train", task="classification")
        sources["real tables"] = as_source(tables)
    for name, source in sources.items():
        functions = {
            "prepare": partial(prepare, source, sampler),
            "alone": partial(train, learner, source, sampler),
            "worker": partial(train, learner, source, sampler, n_workers=1),
        }
        found = in_turn(functions, 1 if args.quick else 4)
        seconds = {name: list(zip(*turns)) for name, turns in found.items()}
        for part, times in zip(PARTS, seconds["prepare"]):
            pair = (part, times), ("meta_train", seconds["alone"][1])
            yield row_of("preparation", name, *pair, "share of a step", lambda a, b: a / b)
        for what, mine, others in zip(("first", "next"), seconds["worker"], seconds["alone"]):
            pair = ("meta_train, n_workers=1", mine), ("meta_train", others)
            case = f"{name}, {what} {POOL} steps"
            yield row_of("preparation", case, *pair, "speed-up", lambda a, b: b / a)


def one_of_several(how):
    """Train in a process that torchrun has started, and print the seconds."""
    if how == "apart":  # each process trains by itself, at the same time
        torch.distributed.init_process_group("gloo")
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
        os.environ["WORLD_SIZE"] = "1"
    torch.manual_seed(0)
    sys.stdout.write(f"{train(Learner(), TablePrior(), EpisodeSampler())[1]} seconds\n")


def torchrun(n_processes, how):
    """Mean training seconds of several processes with one thread each."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
    command = [sys.executable, *launch, __file__, "--process", how]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = [float(line.split()[0]) for line in run.stdout.splitlines() if "seconds" in line]
    assert len(found) == n_processes, run.stdout
    return sum(found) / n_processes


def process_rows(args):
    """Compare two processes that share each batch, and two independent ones, with one process."""
    if args.quick or find_spec("accelerate") is None:
        return print("processes: left out; they need accelerate, and are no part of --quick")
    functions = {
        "one process": partial(torchrun, 1, "together"),
        "two processes": partial(torchrun, 2, "together"),
        "two runs apart": partial(torchrun, 2, "apart"),
    }
    seconds = in_turn(functions, 5)
    seconds["two runs apart"] = [
        s / 2 for s in seconds["two runs apart"]
    ]  # two runs train on twice the episodes
    one = ("one process", seconds.pop("one process"))
    for pair in seconds.items():
        pair = "vsa, TablePrior", pair, one
        yield row_of("processes", *pair, "efficiency", lambda a, b: b / (2 * a))


# The report


def cells(row):
    return [f"{row[f]:.3g}" if isinstance(row[f], float) else row[f] for f in FIELDS]


def write(rows, output, args, load):
    """Write all rows as CSV and as Markdown."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    dtype = "bfloat16" if gains_from_bfloat16("cpu") else "float32"
    lines = [
        f"`python benchmarks/meta_training.py{' --quick' if args.quick else ''}`",
        "",
        f"torch {torch.__version__}, {dtype}, 1 thread a process of {os.cpu_count()} cores. Load "
        f"{load:.2f} before, {os.getloadavg()[0]:.2f} after, ours included. Medians over pairs.",
        "",
        *(f"| {' | '.join(line)} |" for line in [FIELDS, ["---"] * len(FIELDS), *map(cells, rows)]),
    ]
    output.with_suffix(".md").write_text("\n".join([*lines, ""]), "utf-8")


if __name__ == "__main__":
    main()
