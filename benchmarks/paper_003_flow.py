"""Gradient flow (paper 003, section 4.1): does a few-shot transformer use all of its parts?"""

from contextlib import contextmanager

import pandas as pd
import torch
from matplotlib.figure import Figure
from paper_003_tasks import accuracy, episodes
from torch import nn

from sklearn_meta.backbones.few_shot_transformer import DeepAttention

#: Number of episodes over which gradients are averaged, 50 at a time.
N_EPISODES = 1000

#: Columns that identify a row of flow.csv.
RUN_AND_PART = ["data", "model", "seed", "steps", "config", "protocol", "part"]


def parts_of(backbone):
    """Return the networks of a FewShotTransformer's layers by name, from first to last."""
    parts = {}
    for i, layer in enumerate(backbone.layers, 1):
        attention = layer.attention
        if isinstance(attention, DeepAttention):
            own = {"values": attention.values, "attention weights": attention.weights}
        else:
            own = dict(zip(("queries", "keys", "values"), attention.projections))
        own["feed-forward"] = layer.feed_forward
        parts |= {f"layer {i}, {name}": part for name, part in own.items()}
    return parts


def gradients(learner, data):
    """Norm of each part's gradient / norm of its weights, mean over batches of "train"."""
    parts = parts_of(learner.backbone)
    found = dict.fromkeys(parts, 0.0)
    n_batches = 0
    learner.eval()  # without the noise of dropout
    for inputs, target in episodes(data, "train", N_EPISODES):
        learner.zero_grad()
        learner.head.loss(learner(**inputs), target).backward()
        for name, part in parts.items():
            found[name] += norm(p.grad for p in part.parameters()) / norm(part.parameters())
        n_batches += 1
    learner.zero_grad()
    return {name: total / n_batches for name, total in found.items()}


def norm(tensors):
    """Euclidean norm of all entries of some tensors, a float."""
    return sum(t.detach().square().sum().item() for t in tensors) ** 0.5


def weights_of(part):
    """Return copies of a part's parameters, a list of tensors."""
    return [p.detach().clone() for p in part.parameters()]


@torch.inference_mode()
def usual_outputs(learner, data, n_episodes):
    """Each part's mean output over the queries of "valid" episodes, and its share of idle units.

    A hidden unit is idle if no sequence activates it. The share is None for a part without hidden
    units.
    """
    parts = parts_of(learner.backbone)
    total, active, hooks = {}, {}, []

    def add(name, output):
        total[name] = total.get(name, 0) + output.mean(0) / n_batches

    def mark(name, output):
        active[name] = active.get(name, False) | (output.flatten(0, -2) > 0).any(0)

    drawn = list(episodes(data, "valid", n_episodes))
    n_batches = len(drawn)
    for name, part in parts.items():
        hooks.append(part.register_forward_hook(lambda m, _, out, name=name: add(name, out)))
        for unit in (m for m in part.modules() if isinstance(m, nn.ReLU)):
            # Read the activations at once: later modules may overwrite them.
            hooks.append(unit.register_forward_hook(lambda m, _, out, name=name: mark(name, out)))
    try:
        for inputs, _ in drawn:
            learner(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    idle = {name: 1 - flags.double().mean().item() for name, flags in active.items()}
    return total, {name: idle.get(name) for name in parts}


@contextmanager
def held(part, output):
    """Make a part return the same output for every input."""
    hook = part.register_forward_hook(lambda m, _, told: output.expand_as(told))
    try:
        yield
    finally:
        hook.remove()


def measure(learner, data, train, n_test, n_orders=1):
    """Measure each part's gradient before and after training, and the accuracy without it.

    Parameters
    ----------
    learner : FewShotLearner
        Untrained learner of one of the transformers.
    data : Data
    train : callable
        Trains a learner in place.
    n_test : int
        Number of scored episodes of "valid".
    n_orders : int, default=1
        Number of orders of the labelled rows to average over.

    Returns
    -------
    list of dict, a row for each part
    """
    parts = parts_of(learner.backbone)
    before, at_start = gradients(learner, data), {n: weights_of(p) for n, p in parts.items()}
    train(learner)
    after = gradients(learner, data)
    usual, idle = usual_outputs(learner, data, n_test)
    whole, _ = accuracy(learner, data, "valid", n_test, n_orders=n_orders)
    rows = []
    for name, part in parts.items():
        change = (new - old for new, old in zip(weights_of(part), at_start[name]))
        with held(part, usual[name]):
            without, _ = accuracy(learner, data, "valid", n_test, n_orders=n_orders)
        rows.append(
            {
                "part": name,
                "n_parameters": sum(p.numel() for p in part.parameters()),
                "gradient_before": before[name],
                "gradient_after": after[name],
                "moved": norm(change) / norm(at_start[name]),
                "idle_units": idle[name],
                "accuracy": whole,
                "accuracy_held": without,
            }
        )
    return rows


def write(rows, folder):
    """Write flow.csv, a row for each run and part, and their means over runs to flow.md and .png.

    Rows of other runs that are already in flow.csv are kept.
    """
    file = folder / "flow.csv"
    rows = pd.DataFrame(rows)
    if file.exists():
        rows = pd.concat([pd.read_csv(file), rows]).drop_duplicates(RUN_AND_PART, keep="last")
    rows.to_csv(file, index=False, float_format="%.4g")
    lines, groups = [], rows.groupby(["data", "model", "steps"], sort=False)
    figure = Figure(figsize=(8, 3.2 * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), 2, squeeze=False, sharex="col")
    for ((data, model, steps), runs), axes in zip(groups, panels):
        n_runs = runs["seed"].nunique()
        means = runs.groupby("part", sort=False).mean(numeric_only=True)
        title = f"{data}, {model}, {steps} steps, {n_runs} run{'s' if n_runs > 1 else ''}"
        lines += [f"## {title}", "", f"Accuracy on `valid`: {means['accuracy'].iloc[0]:.4f}", ""]
        lines += to_markdown(means) + [""]
        draw(means, axes, title)
    panels[0, 0].legend(loc="lower left", fontsize="small")
    (folder / "flow.md").write_text("\n".join(lines), "utf-8")
    figure.savefig(folder / "flow.png", dpi=100)
    print("\n".join(lines))


def to_markdown(means):
    """Format the means as a table, one line per part."""
    lines = [
        "| part | parameters | gradient / weights before | after | weights moved by | idle units | "
        "accuracy, output held |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for part, row in means.iterrows():
        idle = "" if pd.isna(row["idle_units"]) else f"{row['idle_units']:.3f}"
        lines.append(
            f"| {part} | {row['n_parameters']:,.0f} | {row['gradient_before']:.2g} | "
            f"{row['gradient_after']:.2g} | {row['moved']:.2f} | {idle} | "
            f"{row['accuracy_held']:.4f} |"
        )
    return lines


def draw(means, axes, title):
    """Plot gradients, and the accuracy lost if a part's output is held constant."""
    places = range(len(means))
    for name, label in (("gradient_before", "before training"), ("gradient_after", "after")):
        axes[0].plot(means[name], places, "o", label=label)
    axes[0].set(xscale="log", xlabel="norm of gradient / of weights", title=title)
    axes[0].set_yticks(places, means.index)
    axes[1].barh(places, means["accuracy"] - means["accuracy_held"])
    axes[1].set(xlabel="accuracy lost where the output is held")
    axes[1].set_yticks(places, [])
    for ax in axes:
        ax.invert_yaxis()
