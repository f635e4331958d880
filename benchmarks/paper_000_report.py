"""Tables and plots of benchmarks/paper_000.py, made from the scores of its cells."""

import math

import numpy as np
import pandas as pd
from few_shot_report import draw_lines
from matplotlib.figure import Figure
from paper_000_grid import PAPER, PAPER_HOURS
from scipy.stats import ttest_rel

LEVEL = 0.05


def summarise(rows, lower_is_better=False):
    """Compute means and standard errors, and test each method against the best.

    Parameters
    ----------
    rows : DataFrame
        One row for each method, x, split, table and shots, with a score.
    lower_is_better : bool, default=False

    Returns
    -------
    DataFrame
        One row for each shots, method and x. score and its standard error score_se: of the means
        over tables, over splits; with a single split, over tables. n: number of these splits or
        tables. p: of a two-sided paired t-test against the best method, NaN for the best itself.
        bold: whether p is not below 5 %.
    """
    unit = "split" if rows["split"].nunique() > 1 else "table"
    sign = -1 if lower_is_better else 1
    blocks = []
    for shots, block in rows.groupby("shots"):
        by_unit = block.pivot_table(index=unit, columns=["method", "x"], values="score")
        by_unit = by_unit.dropna()  # keep splits or tables on which every method has a score
        best = (sign * by_unit.mean()).idxmax()
        for column in by_unit:
            values = by_unit[column]
            p = _p_value(values, by_unit[best]) if column != best else math.nan
            blocks.append(
                {
                    "shots": shots,
                    "method": column[0],
                    "x": column[1],
                    "score": values.mean(),
                    "score_se": values.std() / len(values) ** 0.5,
                    "n": len(values),
                    "p": p,
                    "bold": not p < LEVEL,
                }
            )
    return pd.DataFrame(blocks)


def _p_value(a, b):
    """Two-sided paired t-test; 1 if there is no difference, NaN for a single pair."""
    difference = (a - b).round(9)
    if not difference.any():
        return 1.0
    return ttest_rel(a, b).pvalue if len(a) > 1 else math.nan


def to_markdown(table, key, summary, rows):
    """Format a table as Markdown, with the paper's figures beside ours."""
    splits = rows["split"].nunique()
    over = "splits" if splits > 1 else "test tables (of one split)"
    lines = [
        f"### {table.title}",
        "",
        f"Mean ± standard error over {summary['n'].max()} {over}; the paper's mean in brackets. "
        "Bold: not different from the best at 5 % by a paired t-test.",
        "",
        "| method | " + " | ".join(str(s) for s in table.shots) + " | steps | CPU minutes |",
        "|---|" + "---:|" * (len(table.shots) + 2),
    ]
    facts = rows.reindex(columns=["method", "steps", "cpu_seconds"]).groupby("method").mean()
    for method in dict.fromkeys(m.name for m in table.methods if m.name in facts.index):
        cells = [method]
        for i, shots in enumerate(table.shots):
            found = summary[(summary["method"] == method) & (summary["shots"] == shots)]
            paper = PAPER.get(key, {}).get(method)
            paper = f" ({paper[i]:.3f})" if paper else ""
            cells.append((_number(found.iloc[0]) if len(found) else "") + paper)
        steps, seconds = facts.loc[method]
        cells += ["" if math.isnan(steps) else f"{steps:.0f}", f"{seconds / 60:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *order(key, summary), ""])


def _number(row):
    mean = f"{row['score']:.3f}"
    mean = f"**{mean}**" if row["bold"] else mean
    return mean + ("" if math.isnan(row["score_se"]) else f" ± {row['score_se']:.3f}")


def order(key, summary):
    """Line with the methods in order of their mean over all shots, here and in the paper."""
    paper = PAPER.get(key, {})
    ours = summary.groupby("method")["score"].mean().sort_values(ascending=key == "4")
    theirs = pd.Series({m: np.mean(paper[m]) for m in ours.index if m in paper}, dtype=float)
    if len(theirs) < 2:
        return []
    theirs = theirs.sort_values(ascending=key == "4")
    agreement = ours[theirs.index].rank().corr(theirs.rank())
    return [
        f"Order here: {', '.join(ours.index)}. The paper's: {', '.join(theirs.index)}. "
        f"Rank correlation {agreement:.2f}."
    ]


def figure_to_markdown(table, summary):
    """Format a figure's means as Markdown."""
    lines = [f"### {table.title}", "", f"| {table.axis} | labelled rows a class | score |"]
    lines.append("|---:|---:|---:|")
    for row in summary.sort_values(["shots", "x"]).to_dict("records"):
        lines.append(f"| {row['x']:g} | {row['shots']} | {_number(row)} |")
    return "\n".join([*lines, ""])


def plot_table(table, key, summary, path):
    """Plot scores by number of labelled rows, here and in the paper."""
    name = "mean squared error" if key == "4" else "accuracy"
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    methods = [m.name for m in table.methods if m.name in set(summary["method"])]
    paper = pd.DataFrame(
        [
            {"method": method, "shots": shots, "score": value}
            for method in methods
            for shots, value in zip(table.shots, PAPER[key][method], strict=True)
        ]
    )
    for ax, rows, title in zip(axes, (summary, paper), ("here", "the paper"), strict=True):
        rows = rows.replace({"method": {"Ours": "ours: vsa"}})
        names = [m.replace("Ours", "ours: vsa") for m in methods]
        draw_lines(ax, rows, "shots", "score", names)
        ax.set(xlabel="labelled rows", title=f"{table.title.split(':')[0]}, {title}")
    axes[0].set_ylabel(name)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", fontsize="small")
    figure.savefig(path, dpi=120)


def plot_figure(table, summary, path):
    """Plot scores along the axis of a figure."""
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    ax = figure.subplots()
    lines = summary.assign(method=summary["shots"].astype(str) + " labelled rows a class")
    draw_lines(ax, lines, "x", "score", lines["method"].unique())
    ax.set(xlabel=table.axis, ylabel="accuracy", title=table.title)
    ax.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def time_table(times):
    """Rows of Table 3: each method's time divided by that of Ours.

    Parameters
    ----------
    times : DataFrame
        One row per turn, one column of seconds per method.

    Returns
    -------
    DataFrame
        One row per method: seconds_per_step (median over turns), the ratio to Ours in the same turn
        (median ratio, lowest, highest) and paper, the ratio of the paper's hours.
    """
    ratios = times.div(times["Ours"], axis=0)
    return pd.DataFrame(
        {
            "seconds_per_step": times.median(),
            "ratio": ratios.median(),
            "lowest": ratios.min(),
            "highest": ratios.max(),
            "paper": pd.Series(PAPER_HOURS)[times.columns] / PAPER_HOURS["Ours"],
        }
    ).reset_index(names="method")


def time_to_markdown(table, rows):
    lines = [
        f"### {table.title}",
        "",
        "CPU time over that of Ours in the same turn: median (lowest to highest), and the ratio "
        "of the paper's hours on a GPU. Of GP and LP, which have no steps, a batch of training "
        "tasks with one of the kernels to choose from.",
        "",
        "| method | ms a step | ratio | paper |",
        "|---|---:|---:|---:|",
    ]
    for row in rows.to_dict("records"):
        span = f"{row['ratio']:.2f} ({row['lowest']:.2f} to {row['highest']:.2f})"
        milliseconds = 1e3 * row["seconds_per_step"]
        lines.append(f"| {row['method']} | {milliseconds:.0f} | {span} | {row['paper']:.2f} |")
    return "\n".join([*lines, ""])
