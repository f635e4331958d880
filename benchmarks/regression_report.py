"""Tables and plots of benchmarks/few_shot_regression.py, made from its scores."""

import pandas as pd
from few_shot_report import draw_lines, markdown_table, paired_tests
from matplotlib.figure import Figure

# In mse_clipped, larger errors count as this much: twice the error of the table's mean.
CLIP = 2.0

HEADERS = {
    "method": "method",
    "mse": "MSE",
    "mse_se": "s.e.",
    "mse_clipped": "clipped",
    "mse_median": "median",
    "rank": "mean rank",
    "nlpd": "NLPD",
    "nlpd_mixed": "NLPD, mixed",
    "coverage": "coverage",
    "width": "width",
    "milliseconds": "ms a task",
    "difference": "ours - it",
    "p_t": "p (t-test)",
    "p_wilcoxon": "p (Wilcoxon)",
}
FORMATS = dict.fromkeys(HEADERS, "{:.3f}") | {
    "method": "{}",
    "rank": "{:.2f}",
    "nlpd": "{:.3g}",
    "milliseconds": "{:.1f}",
    "difference": "{:+.3f}",
    "p_t": "{:.2g}",
    "p_wilcoxon": "{:.2g}",
}


def summarise(results, reference=None):
    """Means over tables, ranks, and tests of one method against every other.

    Parameters
    ----------
    results : DataFrame
        One row for each method, dataset, labelled and episode, with these columns and mse, nlpd,
        nlpd_mixed, coverage, width, milliseconds.
    reference : str, default=None
        The method to test against the others; None makes no tests.

    Returns
    -------
    DataFrame
        One row for each labelled and method, the smallest mean squared error first:

        - mse, nlpd, nlpd_mixed, coverage, width, milliseconds: mean over tables of the mean over
          episodes; compare methods by mse;
        - mse_se: standard error over tables of mse;
        - mse_clipped: the same mean of mse clipped at 2 per episode, which no single exploding
          episode can spoil; mse_median: median over tables of the median over episodes;
        - rank: mean over tables of the rank by mse, 1 the best, ties shared;
        - difference: mse of the reference less the method's;
        - p_t, p_wilcoxon: two-sided paired tests of that difference over tables.
    """
    results = results.assign(mse_clipped=results["mse"].clip(upper=CLIP))
    blocks = []
    for n_labelled, rows in results.groupby("labelled"):
        by_table = rows.pivot_table(index="dataset", columns="method", values="mse")
        block = by_table.mean().to_frame("mse")
        block["mse_se"] = by_table.std() / len(by_table) ** 0.5
        medians = rows.groupby(["method", "dataset"])["mse"].median()
        block["mse_median"] = medians.groupby("method").median()
        for value in ("mse_clipped", "nlpd", "nlpd_mixed", "coverage", "width", "milliseconds"):
            means = rows.groupby(["method", "dataset"])[value].mean()
            block[value] = means.groupby("method").mean()
        # Round: means that differ only by the order of addition are ties.
        block["rank"] = by_table.round(9).rank(axis=1).mean()
        if reference is not None:
            block = block.join(paired_tests(by_table, reference))
        block = block.sort_values("mse").reset_index(names="method")
        block.insert(0, "labelled", n_labelled)
        blocks.append(block)
    return pd.concat(blocks, ignore_index=True)


def to_markdown(summary):
    """Format the summary as Markdown: a table per setting, then the margin over the best peer."""
    lines = []
    for n_labelled, block in summary.groupby("labelled"):
        lines += [f"### {n_labelled} labelled rows", "", *markdown_table(block, HEADERS, FORMATS)]
        lines.append("")
        ours = block["method"].str.startswith("ours:")
        for row in block[ours].to_dict("records") if not ours.all() else ():
            best = block[~ours].iloc[0]
            margin = 1 - row["mse"] / best["mse"]
            lines.append(
                f"{row['method']}: MSE {margin:.1%} below the best peer's, {best['method']}"
            )
            lines.append("")
    return "\n".join(lines)


def plot_curves(summary, path):
    """Plot errors, densities and coverage by number of labelled rows."""
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    axes = figure.subplots(1, 3)
    methods = summary.groupby("method")["mse"].mean().sort_values().index
    labels = {
        "mse": "mean squared error, mean over tables",
        "nlpd_mixed": "negative log predictive density, mixed",
        "coverage": "coverage of nominal 90 % intervals",
    }
    for ax, (value, label) in zip(axes, labels.items(), strict=True):
        draw_lines(ax, summary.dropna(subset=value), "labelled", value, methods)
        ax.set(xlabel="labelled rows", ylabel=label)
    axes[-1].axhline(0.9, color="black", linestyle=":")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", fontsize="small")
    figure.savefig(path, dpi=120)
