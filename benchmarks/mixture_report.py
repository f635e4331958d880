"""Tables and plots of benchmarks/mixtures.py, made from its scores by set and method."""

import numpy as np
import pandas as pd
from few_shot_report import markdown_table
from matplotlib.figure import Figure

HEADERS = {
    "method": "method",
    "ll0": "LL0",
    "ll1": "LL1",
    "held_out": "held out",
    "held_out_se": "s.e.",
    "ari": "ARI",
    "ari_se": "s.e. ",
    "ari1": "ARI1",
    "ms": "ms a set",
    "times": "times ours",
    "ahead": "held out, ours - it",
    "ahead_se": "s.e.  ",
    "ahead_ari": "ARI, ours - it",
    "ahead_ari_se": "s.e.   ",
}
FORMATS = dict.fromkeys(HEADERS, "{:.3f}") | {
    "method": "{}",
    "ms": "{:.2f}",
    "times": "{:.1f}",
    "ahead": "{:+.4f}",
    "ahead_se": "{:.4f}",
    "ahead_ari": "{:+.4f}",
    "ahead_ari_se": "{:.4f}",
}
CELL = ["family", "k", "d"]
#: Peers that ours is compared with, cell by cell.
PEERS = (
    "GaussianMixture {kind} n_init=10",
    "seeding + EM 20 {kind}",
    "seeding + MAP-EM 20 {kind}",
)
SCORES = ("ll0", "ll1", "held_out", "ari", "ari1")


def standard_error(values):
    return values.std(ddof=1) / len(values) ** 0.5


def summarise(rows, reference):
    """Compute means over sets, and paired differences to one method.

    Parameters
    ----------
    rows : DataFrame
        Result of ``mixtures.measure``.
    reference : str or None
        The method that the others are compared with.

    Returns
    -------
    DataFrame
        One row per method, the oracle first, the others in the order in which they were run: means
        of the scores with standard errors over sets; times, its time divided by the reference's;
        ahead and ahead_ari, the mean over sets of the reference's score less its own, with standard
        errors.
    """
    tables = {
        score: rows.pivot(index="position", columns="method", values=score) for score in SCORES
    }
    names = sorted(rows["method"].drop_duplicates(), key=lambda name: name != "oracle")
    summary = pd.DataFrame({score: tables[score].mean() for score in SCORES})
    for score in ("held_out", "ari"):
        summary[f"{score}_se"] = tables[score].apply(standard_error)
    summary["ms"] = rows.groupby("method")["ms"].mean().replace(0, np.nan)
    if reference is not None:
        summary["times"] = summary["ms"] / summary["ms"][reference]
        for score, column in (("held_out", "ahead"), ("ari", "ahead_ari")):
            ahead = -tables[score].sub(tables[score][reference], axis=0)
            summary[column], summary[f"{column}_se"] = ahead.mean(), ahead.apply(standard_error)
            summary.loc[reference, [column, f"{column}_se"]] = np.nan
    return summary.loc[names].rename_axis("method").reset_index()


def table_report(rows, ours):
    """Format a table of the paper as Markdown, with our margins over the oracle and the best peer.

    Parameters
    ----------
    rows : DataFrame
    ours : list of str
        Our methods; the first is compared with all others.
    """
    summary = summarise(rows, ours[0] if ours else None)
    lines = markdown_table(summary, HEADERS, FORMATS)
    means = summary.set_index("method")
    peers = means.drop(index=["oracle", *ours])
    best = {score: peers[score].idxmax() for score in ("held_out", "ari")}
    lines += ["", f"{rows['position'].nunique()} sets. Best peer held out: {best['held_out']}; "]
    lines[-1] += f"by ARI: {best['ari']}."
    for name in ours:
        mine, truth = means.loc[name], means.loc["oracle"]
        parts = [f"{s} {mine[s] - truth['ll0']:+.3f}" for s in ("ll0", "ll1")]
        parts.append(f"held_out {mine['held_out'] - truth['held_out']:+.3f}")
        line = f"- {name}: {', '.join(parts)} of the oracle's"
        for score, peer in best.items():
            pairs = rows.pivot(index="position", columns="method", values=score)
            ahead = pairs[name] - pairs[peer]
            line += (
                f"; {score} {ahead.mean():+.4f} ± {standard_error(ahead):.4f} of the best peer's"
            )
        lines.append(line + ".")
    return "\n".join(lines)


def compared(rows, peer):
    """Held-out likelihood of ours less that of a peer with the same covariances.

    Parameters
    ----------
    rows : DataFrame
    peer : str
        Its name, with ``{kind}`` in place of the kind of covariance.

    Returns
    -------
    DataFrame
        Indexed by our method, family, k and d: ahead, the mean over sets, and se, its standard
        error.
    """
    pairs = rows.pivot(index=[*CELL, "position"], columns="method", values="held_out")
    found = {}
    for kind in ("diag", "full"):
        mine = [name for name in pairs if name.startswith("AmortizedGMM") and f" {kind}" in name]
        for name in mine if peer.format(kind=kind) in pairs else ():
            ahead = (pairs[name] - pairs[peer.format(kind=kind)]).groupby(CELL)
            found[name] = pd.DataFrame({"ahead": ahead.mean(), "se": ahead.sem()})
    return pd.concat(found, names=["method"]) if found else pd.DataFrame()


def summarise_cells(rows):
    """Compute means over the sets of each cell and method, and the standard error of held_out."""
    groups = rows.groupby([*CELL, "method"], sort=False)
    summary = groups[["ll0", "held_out", "ari", "ms"]].mean()
    summary.insert(2, "held_out_se", groups["held_out"].sem())
    return summary.reset_index()


def cells_report(rows):
    """Format held-out likelihoods by cell, and our margins over the peers, as Markdown."""
    lines = ["Mean held-out log-likelihood of each cell.", ""]
    order = sorted(rows["method"].drop_duplicates(), key=lambda name: name != "oracle")
    means = rows.pivot_table(index=CELL, columns="method", values="held_out")[order].reset_index()
    headers = {name: name for name in means.columns[1:]}
    formats = dict.fromkeys(order, "{:.3f}")
    for family, cells in means.groupby("family"):
        lines += [f"### {family}", "", *markdown_table(cells, headers, formats), ""]
    for peer in PEERS:  # skip those that were not run
        ahead = compared(rows, peer)
        if not len(ahead):
            continue
        title = peer.format(kind="of the same kind of covariance")
        lines += [f"### Ours less {title}", "", *_margins(ahead), ""]
    return "\n".join(lines)


def _margins(ahead):
    """Format the mean and the worst cell of our methods in each family as a Markdown table."""
    rows = []
    for (name, family), cells in ahead.groupby(["method", "family"], sort=False):
        worst, bad = cells["ahead"].idxmin(), cells["ahead"] < -0.02
        rows.append(
            {
                "method": name,
                "family": family,
                "mean": cells["ahead"].mean(),
                "least": "{:+.3f} ± {:.3f}".format(*cells.loc[worst]),
                "where": "k={}, d={}".format(*worst[2:]),
                "cells worse by more than 0.02": f"{bad.sum()} of {len(cells)}",
                "and by two s.e.": ((cells["ahead"] + 2 * cells["se"]) < -0.02).sum(),
            }
        )
    headers = {name: name for name in rows[0]}
    return markdown_table(pd.DataFrame(rows), headers, {"mean": "{:+.3f}"})


def draw_cells(rows, path):
    """Draw our lead over GaussianMixture(n_init=10), one panel per family and method."""
    ahead = compared(rows, PEERS[0])["ahead"]
    names, families = ahead.index.unique("method"), ahead.index.unique("family")
    size = 3.2 * len(names), 3 * len(families)
    figure = Figure(figsize=size, layout="constrained")
    for row, family in zip(figure.subplots(len(families), len(names), squeeze=False), families):
        for ax, name in zip(row, names):
            grid = ahead.loc[name, family].unstack("d")
            ax.imshow(grid, cmap="RdBu", vmin=-0.5, vmax=0.5, aspect="auto")
            for (i, j), value in np.ndenumerate(grid.to_numpy()):
                text = f"{value:+.2f}" if abs(value) < 10 else f"{value:+.0f}"
                colour = "white" if abs(value) > 0.3 else "black"
                ax.text(j, i, text, ha="center", va="center", fontsize="small", color=colour)
            ax.set_xticks(range(grid.shape[1]), grid.columns)
            ax.set_yticks(range(grid.shape[0]), grid.index)
            ax.set(xlabel="columns", ylabel="components")
            ax.set_title(f"{family}\n{name}", fontsize="small")
    figure.suptitle(
        "Held-out log-likelihood: ours less GaussianMixture(n_init=10) of the same covariances"
    )
    figure.savefig(path, dpi=100)
