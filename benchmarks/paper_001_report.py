"""Tables and plots of benchmarks/paper_001.py, made from the scores of its cells."""

import math
import re

from matplotlib import colormaps
from matplotlib.figure import Figure


def summarise(rows, table):
    """Compute the mean and standard error of each measure over the seeds.

    Parameters
    ----------
    rows : DataFrame
        One row for each method and seed.
    table : Table

    Returns
    -------
    DataFrame
        One row for each method, in the order of `rows`: n (number of seeds), each measure and its
        standard error (``_se``, NaN for a single seed), steps, cpu_seconds and n_parameters.
    """
    groups = rows.groupby("method", sort=False)
    summary = groups[["steps", "cpu_seconds", "n_parameters"]].mean()
    summary.insert(0, "n", groups.size())
    for measure in table.measures:
        summary[measure] = groups[measure].mean()
        summary[f"{measure}_se"] = groups[measure].std() / summary["n"] ** 0.5
    return summary.reset_index()


def to_markdown(table, summary):
    """Format a table as Markdown, with the paper's figures beside ours."""
    lines = [
        f"### {table.title}",
        "",
        f"Mean ± standard error over {summary['n'].max()} seeds, each with test sets of its own; "
        "the paper's mean in brackets. Bold: the best. " + table.note,
        "",
        "| method | " + " | ".join(table.measures.values()) + " | steps | CPU s | parameters |",
        "|---|" + "---:|" * (len(table.measures) + 3),
    ]
    for row in summary.to_dict("records"):
        cells = [row["method"]]
        paper = table.paper.get(row["method"], ())
        for i, measure in enumerate(table.measures):
            cells.append(number(row, measure, is_best(row, measure, summary, table)))
            if i < len(paper):
                cells[-1] += f" ({paper[i]:.4g})"
        cells += [f"{row['steps']:.0f}", f"{row['cpu_seconds']:.0f}", f"{row['n_parameters']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def is_best(row, measure, summary, table):
    lower = table.lower_is_better or measure == "mae"
    return row[measure] == (summary[measure].min() if lower else summary[measure].max())


def number(row, measure, best):
    mean = f"{row[measure]:.4f}"
    mean = f"**{mean}**" if best else mean
    error = row[f"{measure}_se"]
    return mean if math.isnan(error) else f"{mean} ± {error:.4f}"


def plot_table(table, summary, path):
    """Plot the first measure of each method, here and in the paper."""
    measure, heading = next(iter(table.measures.items()))
    names = list(summary["method"])[::-1]
    rows = summary.set_index("method").loc[names]
    figure = Figure(figsize=(7.2, 1.2 + 0.36 * len(names)), layout="constrained")
    ax = figure.subplots()
    ax.errorbar(rows[measure], range(len(names)), xerr=rows[f"{measure}_se"], fmt="o", capsize=2)
    known = [i for i, name in enumerate(names) if name in table.paper]
    ax.plot([table.paper[names[i]][0] for i in known], known, "x", color="grey")
    if table.lower_is_better:
        ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel=heading, title=table.title)
    ax.legend(["the paper", "here"], fontsize="small")
    ax.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def plot_figure(table, summary, others, path):
    """Plot the first measure by number of inducing points, and ``others`` as horizontal lines."""
    measure, heading = next(iter(table.measures.items()))
    points = [int(re.search(r"\d+", name)[0]) for name in summary["method"]]
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = figure.subplots()
    ax.errorbar(
        points, summary[measure], summary[f"{measure}_se"], fmt="o-", capsize=2, label="ISAB + PMA"
    )
    colours = colormaps["tab20"].colors[1:]  # the first colour is the curve's
    for colour, (name, value) in zip(colours, others.items()):
        ax.axhline(value, color=colour, linewidth=1, linestyle="--", label=name)
    ax.set_xscale("log", base=2)
    ax.set_xticks(points, points)
    ax.set(xlabel="inducing points", ylabel=heading)
    figure.suptitle(table.title, fontsize="medium")
    figure.legend(loc="outside right", fontsize="x-small")
    ax.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
