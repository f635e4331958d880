"""Tables and plots of benchmarks/few_shot_tables.py, and parts that other benchmarks use."""

import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp, wilcoxon

SETTING = ["shots", "unlabelled"]


def summarise(results, reference=None):
    """Means over tables, ranks, and tests of one method against every other.

    Parameters
    ----------
    results : DataFrame
        One row for each method, dataset, shots, unlabelled and episode, with these columns and
        accuracy, log_loss, milliseconds.
    reference : str, default=None
        The method to test against the others; None makes no tests.

    Returns
    -------
    DataFrame
        One row for each shots, unlabelled and method, the most accurate first:

        - accuracy, log_loss, milliseconds: mean over tables of the mean over episodes;
        - accuracy_se: standard error over episodes of the mean over tables;
        - rank: mean over tables of the rank by accuracy, 1 the best, ties shared;
        - difference: accuracy of the reference less the method's;
        - p_t, p_wilcoxon: two-sided paired tests of that difference over tables.
    """
    blocks = []
    for setting, rows in results.groupby(SETTING):
        by_table = rows.pivot_table(index="dataset", columns="method", values="accuracy")
        by_episode = rows.pivot_table(index="episode", columns="method", values="accuracy")
        block = by_table.mean().to_frame("accuracy")
        block["accuracy_se"] = by_episode.std() / len(by_episode) ** 0.5
        for value in ("log_loss", "milliseconds"):
            means = rows.groupby(["method", "dataset"])[value].mean()
            block[value] = means.groupby("method").mean()
        # Rounded: means equal but for the order of addition are a tie.
        block["rank"] = by_table.round(9).rank(axis=1, ascending=False).mean()
        if reference is not None:
            block = block.join(paired_tests(by_table, reference))
        block = block.sort_values("accuracy", ascending=False).reset_index(names="method")
        block.insert(0, "shots", setting[0])
        block.insert(1, "unlabelled", setting[1])
        blocks.append(block)
    return pd.concat(blocks, ignore_index=True)


def paired_tests(by_table, reference):
    """Two-sided paired tests over tables of one method against every other.

    Parameters
    ----------
    by_table : DataFrame
        One row per table, one column per method.
    reference : str
        One of the columns.

    Returns
    -------
    DataFrame
        One row for each other method: difference (the reference's mean less the method's), p_t and
        p_wilcoxon, not corrected for the number of methods.
    """
    tests = {}
    for method in by_table.columns.drop(reference):
        difference = (by_table[reference] - by_table[method]).round(9)
        # If no table differs, neither test is defined.
        differs = difference.any()
        tests[method] = {
            "difference": difference.mean(),
            "p_t": ttest_1samp(difference, 0.0).pvalue if differs else 1.0,
            "p_wilcoxon": wilcoxon(difference).pvalue if differs else 1.0,
        }
    columns = ["difference", "p_t", "p_wilcoxon"]
    return pd.DataFrame.from_dict(tests, orient="index", columns=columns, dtype=float)


def markdown_table(block, headers, formats):
    """Lines of a Markdown table with the columns of `headers` that `block` has; NaN is empty."""
    columns = [column for column in headers if column in block]
    lines = [
        "| " + " | ".join(headers[c] for c in columns) + " |",
        "|---|" + "---:|" * (len(columns) - 1),
    ]
    for row in block.to_dict("records"):
        cells = ["" if pd.isna(row[c]) else formats.get(c, "{}").format(row[c]) for c in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def to_markdown(summary):
    """Format the summary as Markdown: a table per setting, then the margin over the best peer."""
    headers = {
        "method": "method",
        "accuracy": "accuracy",
        "accuracy_se": "s.e.",
        "log_loss": "log loss",
        "rank": "mean rank",
        "milliseconds": "ms a task",
        "difference": "ours - it",
        "p_t": "p (t-test)",
        "p_wilcoxon": "p (Wilcoxon)",
    }
    formats = {
        "accuracy": "{:.3f}",
        "accuracy_se": "{:.3f}",
        "log_loss": "{:.3f}",
        "rank": "{:.1f}",
        "milliseconds": "{:.1f}",
        "difference": "{:+.3f}",
        "p_t": "{:.2g}",
        "p_wilcoxon": "{:.2g}",
    }
    lines = []
    for (n_shots, n_unlabelled), block in summary.groupby(SETTING):
        lines += [f"### {n_shots} labelled, {n_unlabelled} unlabelled rows a class", ""]
        lines += markdown_table(block, headers, formats)
        lines.append("")
        ours = block["method"].str.startswith("ours:")
        for row in block[ours].to_dict("records") if not ours.all() else ():
            best = block[~ours].iloc[0]
            margin = row["accuracy"] - best["accuracy"]
            lines += [f"{row['method']} less the best peer, {best['method']}: {margin:+.3f}", ""]
    return "\n".join(lines)


def draw_lines(ax, rows, x, y, methods):
    """Draw a line of column `y` against `x` per method, with errors if there is a column `y`_se."""
    for i, method in enumerate(methods):
        line = rows[rows["method"] == method].sort_values(x)
        ours = method.startswith("ours:")
        ax.errorbar(
            line[x],
            line[y],
            line.get(f"{y}_se"),
            label=method,
            capsize=2,
            color=colormaps["tab20"](i % 20),
            marker="os^Dv"[i % 5],
            markersize=4,
            linewidth=2.5 if ours else 1.0,
            zorder=3 if ours else 2,
        )
    ax.set_xticks(sorted(rows[x].unique()))
    ax.grid(alpha=0.3)


def plot_curves(summary, x, panels, path):
    """Plot accuracy with standard errors against `x`, one panel for each value of `panels`."""
    groups = list(summary.groupby(panels))
    figure = Figure(figsize=(4.6 * len(groups) + 2.6, 4.6), layout="constrained")
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    methods = summary.groupby("method")["accuracy"].mean().sort_values(ascending=False).index
    for ax, (value, group) in zip(axes, groups, strict=True):
        draw_lines(ax, group, x, "accuracy", methods)
        words = {"shots": "labelled rows a class", "unlabelled": "unlabelled rows a class"}
        ax.set(xlabel=words[x], title=f"{value} {words[panels]}")
    axes[0].set_ylabel("accuracy, mean over tables")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="small")
    figure.savefig(path, dpi=120)
