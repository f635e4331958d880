"""Tables, tests and plots of benchmarks/paper_003.py, made from its runs."""

from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import levene, ttest_ind

from sklearn_meta.backbones.few_shot_transformer import VARIANTS

#: The paper's accuracies on its validation sets (sections 5.2 to 5.4).
PAPER = {
    ("omniglot", "few_shot_transformer"): 0.9864,
    ("omniglot", "transformer"): 0.9844,
    ("omniglot", "snail"): 0.9814,
    ("mini_imagenet", "few_shot_transformer"): 0.4312,
    ("mini_imagenet", "transformer"): 0.4166,
    ("mini_imagenet", "snail"): 0.3563,
    ("symbolic", "few_shot_transformer"): 0.7906,
    ("omniglot", "A1"): 0.9553,
    ("omniglot", "A3"): 0.9443,
}

#: Level below which variances count as unequal. Section 4.3 names only this level, for the t-test.
ALPHA = 0.01


def write(folder):
    """Write runs.md and the box plots beside runs.csv."""
    runs = pd.read_csv(folder / "runs.csv")
    runs["kind"] = np.where(runs["model"].isin(list(VARIANTS)), "ablations", "models")
    lines = []
    # If a model ran with several settings, report the latest; the others are only in the csv.
    latest = runs.groupby(["data", "steps", "kind", "model"])[["config", "protocol"]].transform(
        "last"
    )
    runs = runs[(runs[["config", "protocol"]] == latest).all(axis=1)]
    for (data, steps, kind), group in runs.groupby(["data", "steps", "kind"], sort=False):
        title = f"{data}, {kind}, {steps} steps"
        lines += [f"## {title}", "", *summary(data, group), "", *tests(group), ""]
        name = "_".join(f"{data} {kind} {steps}".replace(",", "").split())
        box_plot(group, title, folder / f"{name}.png")
    (folder / "runs.md").write_text("\n".join(lines), "utf-8")


def summary(data, group):
    """Format mean and deviation over the runs of each model as a Markdown table."""
    lines = [
        "| model | runs | valid | test | paper (valid) | parameters | CPU seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model, runs in group.groupby("model", sort=False):
        scores = [f"{runs[s].mean():.4f} ± {runs[s].std():.4f}" for s in ("valid", "test")]
        paper = PAPER.get((data.split(",")[0], model), "")
        size, seconds = int(runs["n_parameters"].iloc[0]), runs["seconds"].mean()
        lines.append(
            f"| {model} | {len(runs)} | {scores[0]} | {scores[1]} | {paper} | {size:,} | "
            f"{seconds:.0f} |"
        )
    return lines


def tests(group, split="test"):
    """Format Levene's test and a t-test of each pair (section 4.3) as a Markdown table.

    Pairs of equal variance have Student's test; others, which the paper does not test, Welch's.
    """
    scores = {model: runs[split].to_numpy() for model, runs in group.groupby("model", sort=False)}
    lines = [
        "| pair | difference on test | Levene p | t-test p |",
        "| --- | --- | --- | --- |",
    ]
    for a, b in combinations(scores, 2):
        if min(len(scores[a]), len(scores[b])) < 3:
            continue
        # Levene: Eq. (4.1) to (4.4) with the median; t-test: Eq. (4.5) and (4.6).
        equal = levene(scores[a], scores[b], center="median").pvalue
        same = ttest_ind(scores[a], scores[b], equal_var=equal >= ALPHA).pvalue
        difference = scores[a].mean() - scores[b].mean()
        whose = "" if equal >= ALPHA else " (Welch)"
        lines.append(f"| {a} - {b} | {difference:+.4f} | {equal:.2g} | {same:.2g}{whose} |")
    return lines


def box_plot(group, title, file):
    """Draw figures 5.2 to 5.5: accuracies of each model's runs."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    scores = {model: runs["test"].to_numpy() for model, runs in group.groupby("model", sort=False)}
    axes.boxplot(list(scores.values()), tick_labels=list(scores))
    axes.set(ylabel="accuracy on test episodes", title=title)
    figure.savefig(file, dpi=100)


def curves(frame, file):
    """Draw figure 5.5 by steps: accuracy of each variant on `valid`, for each rate and width."""
    groups = frame.groupby(["rate", "n_latent"])
    figure = Figure(figsize=(5 * len(groups), 3.5), layout="constrained")
    for axes, ((rate, n_latent), own) in zip(
        figure.subplots(1, len(groups), squeeze=False)[0], groups
    ):
        for model, runs in own.groupby("model"):
            scores = runs.groupby("step")["valid"].mean()
            axes.plot(scores.index / 1000, scores, label=model, linewidth=1)
        axes.set(
            xlabel="thousand steps",
            ylabel="accuracy on valid",
            title=f"rate {rate:g} at its highest, {n_latent} hidden units",
        )
        axes.legend()
    figure.savefig(file, dpi=100)


def parallel_coordinates(frame, file):
    """Draw a figure like 5.1: a line for each trial, through its settings to its accuracy."""
    names = [name for name in ("width", "n_layers", "dropout", "rate") if name in frame]
    frame = frame.dropna(subset=["value"])
    columns = {name: frame[name].astype(float) for name in names} | {"accuracy": frame["value"]}
    if "rate" in columns:
        columns["rate"] = np.log10(columns["rate"])
    places = []
    for values in columns.values():
        low, high = values.min(), values.max()
        places.append((values - low) / (high - low if high > low else 1))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    accuracy = frame["value"].to_numpy()
    spread = np.ptp(accuracy) or 1
    colours = matplotlib.colormaps["viridis"]((accuracy - accuracy.min()) / spread)
    for line, colour in zip(np.array(places).T, colours):
        axes.plot(line, color=colour, alpha=0.8)
    labels = [
        f"{'log10 rate' if name == 'rate' else name}\n{values.min():.3g} to {values.max():.3g}"
        for name, values in columns.items()
    ]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks([])
    figure.savefig(file, dpi=100)
