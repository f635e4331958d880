"""Speed of meta-training a memory-augmented network, against its equations in a plain loop.

    OMP_NUM_THREADS=1 python benchmarks/mann_speed.py
    python benchmarks/mann_speed.py --quick

A training step is forward, backward and an AdamW step for 16 random episodes of 50 rows: 400 pixels
and one-hot labels of five classes. Ours handles all read heads at once; the loop computes the same
equations by rows and heads. They take turns in one run, with the same weights, and their outputs
are first checked to be equal. The ratio is above 1 if ours is faster. "--fast" is ours as the
recipes of weights run it: memory access compiled by torch.compile, the controller in bfloat16. It
is left out of --quick, and if there is no C++ compiler.
"""

import argparse
import shutil

import torch
from arguments import count
from results_folder import place_of
from speed import conditions, interleaved, publish
from torch.nn import functional as F

from sklearn_meta.backbones.memory_access import EPSILON
from sklearn_meta.memory_learner import MemoryLearner

N_CLASSES, N_PIXELS = 5, 400
LOOP, FAST = "loop over heads", "sklearn_meta, --fast"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few short episodes")
    parser.add_argument(
        "--n-repeats", type=count, default=15, help="minimum of timed steps of each"
    )
    parser.add_argument("--output", help="file [benchmarks/results/mann_speed.md, or _quick]")
    args = parser.parse_args(arguments)
    args.output = place_of(args.output, "mann_speed.md", args.quick)
    batch_size, n_rows = (4, 10) if args.quick else (16, 50)
    n_repeats = 1 if args.quick else args.n_repeats
    torch.set_num_threads(1)
    x, words = random_episodes(batch_size, n_rows)
    lines = [
        f"{conditions()} Median of training steps in turn, {batch_size} episodes of {n_rows} rows "
        "each.",
        "",
        "| controller | implementation | ms a step | episodes / s | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    for controller in ("lstm", "feedforward"):
        steps = training_steps(controller, x, words)
        if shutil.which("c++") and not args.quick:
            steps[FAST] = fast_step(controller, x, words)
        times = interleaved(steps, n_repeats)
        for name, ms in times.items():
            cells = f"{ms:.1f} | {1000 * batch_size / ms:.1f} | {times[LOOP] / ms:.2f}"
            lines.append(f"| {controller} | {name} | {cells} |")
    publish(lines, args.output)


def random_episodes(batch_size, n_rows):
    torch.manual_seed(0)
    x = torch.rand(batch_size, n_rows, N_PIXELS)
    return x, torch.randint(N_CLASSES, (batch_size, n_rows, 1))


def training_steps(controller, x, words):
    """Check that the implementations agree; return a training step of each by name."""
    steps = {}
    with torch.no_grad():
        torch.testing.assert_close(
            *(forward(build(controller), x, words) for forward in (MemoryLearner.__call__, loop)),
            rtol=0,
            atol=1e-4,
        )
    for name, forward in (("sklearn_meta", MemoryLearner.__call__), (LOOP, loop)):
        steps[name] = as_step(build(controller), forward, x, words)
    return steps


def fast_step(controller, x, words):
    """Return a step as the recipes of weights run it, already compiled."""

    def in_bfloat16(learner, x, words):
        with torch.autocast("cpu", torch.bfloat16):
            return learner(x, words)

    learner = build(controller)
    learner.backbone.access.compile(dynamic=False)
    step = as_step(learner, in_bfloat16, x, words)
    step()
    return step


def build(controller):
    """Build a learner, with the same weights each time."""
    torch.manual_seed(0)
    return MemoryLearner(
        inputs="vectors",
        n_inputs=N_PIXELS,
        backbone_config={"controller": controller},
        head_config={"n_classes": N_CLASSES},
    )


def as_step(learner, forward, x, words):
    optimizer = torch.optim.AdamW(learner.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        learner.head.loss(forward(learner, x, words), words).backward()
        optimizer.step()

    return step


def loop(learner, x, words):
    """Outputs of a learner's network, by rows and heads, by Eq. (2)-(16) of paper 002."""
    network = learner.backbone
    n_slots, slot_size, n_reads = network.access.shape
    B = len(x)
    shown = F.one_hot(words[..., 0], N_CLASSES).to(x.dtype)
    hidden = cell = x.new_zeros(B, network.width)
    slots = x.new_zeros(B, n_slots, slot_size)
    usage = x.new_zeros(B, n_slots)
    read_weights = [x.new_zeros(B, n_slots) for _ in range(n_reads)]
    reads = [x.new_zeros(B, slot_size) for _ in range(n_reads)]
    outputs = []
    for t in range(x.shape[1]):
        label = shown[:, t - 1] if t else torch.zeros_like(shown[:, 0])
        hidden, cell = control(network, torch.cat([x[:, t], label], 1), hidden, cell, reads)
        keys = network.access.keys(cell).tanh().split(slot_size, 1)
        gates = network.access.gates(hidden).split(2, 1)
        least = usage.argsort(dim=1, stable=True)[:, 0]
        least_used = F.one_hot(least, n_slots).to(x.dtype)  # (6)
        slots = slots * (1 - least_used)[:, :, None]
        write_weights = []
        for head in range(n_reads):
            gate = gates[head][:, :1].sigmoid()
            write_weights.append(gate * read_weights[head] + (1 - gate) * least_used)  # (7)
            slots = slots + write_weights[head][:, :, None] * keys[head][:, None]  # (8)
        usage = 0.99 * usage
        for head in range(n_reads):
            strength = 1 + 5 * F.softplus(gates[head][:, 1:])
            alike = F.cosine_similarity(keys[head][:, None], slots, dim=2, eps=EPSILON)  # (2)
            read_weights[head] = (strength * alike).softmax(1)  # (3)
            reads[head] = (read_weights[head][:, :, None] * slots).sum(1)  # (4)
            usage = usage + (read_weights[head] + write_weights[head]).detach()  # (5)
        outputs.append(network.output(torch.cat([hidden, *reads], 1)))  # (16)
    return torch.stack(outputs, 1)


def control(network, inputs, hidden, cell, reads):
    """Hidden and cell state of the controller after a row."""
    if not network.is_recurrent:
        hidden = (network.from_input(inputs) + network.from_before(torch.cat(reads, 1))).tanh()
        return hidden, hidden
    before = network.from_before(torch.cat([hidden, *reads], 1))
    forget, write, show, new = (network.from_input(inputs) + before).chunk(4, 1)  # (9)
    cell = forget.sigmoid() * cell + write.sigmoid() * new.tanh()  # (14)
    return show.sigmoid() * cell.tanh(), cell  # (15)


if __name__ == "__main__":
    main()
