"""Tables and plots of benchmarks/paper_004.py, made from its scores."""

import pandas as pd
from few_shot_report import markdown_table
from matplotlib.figure import Figure

#: The paper's results, means over its 16 domains.
PAPER = {
    ("single", "lstm"): 0.818,
    ("single", "hyper_lstm"): 0.824,
    ("single", "meta_lstm"): 0.840,
    ("multi", "asp_mtl"): 0.872,
    ("multi", "psp_mtl"): 0.837,
    ("multi", "ssp_mtl"): 0.857,
    ("multi", "ssp_mtl_shared_only"): 0.857,  # the paper's number of parameters fits this variant
    ("multi", "meta_lstm"): 0.879,
    ("transfer", "meta_lstm"): 0.859,
}


def write_table_3(rows, file):
    """Write means over the domains beside the paper's, and the scores of each domain."""
    lines = []
    rows = rows.reindex(columns=[*rows.columns.union(["n_parameters"], sort=False)])
    for settings, group in rows.groupby("protocol", sort=False):
        means = group.groupby(["part", "model"], sort=False).agg(
            accuracy=("score", "mean"), n=("score", "size"), n_parameters=("n_parameters", "max")
        )
        means = means.reset_index()
        means["paper"] = [PAPER.get(pair) for pair in zip(means["part"], means["model"])]
        headers = {"part": "part", "model": "model", "accuracy": "mean accuracy", "n": "scores"}
        headers |= {"paper": "paper", "n_parameters": "parameters"}
        formats = {"accuracy": "{:.4f}", "paper": "{:.3f}", "n_parameters": "{:,.0f}"}
        lines += [f"## {settings}", ""]
        lines += [*markdown_table(means, headers, formats), ""]
        domains = group.pivot_table("score", "name", ["part", "model"], sort=False)
        domains.columns = [" ".join(column) for column in domains.columns]
        headers = {"name": "domain", **{c: c for c in domains.columns}}
        formats = dict.fromkeys(domains.columns, "{:.3f}")
        lines += [*markdown_table(domains.reset_index(), headers, formats), ""]
    file.write_text("\n".join(lines), "utf-8")


def write_table_5(rows, file):
    """Write means over the domains of each data set."""
    lines = []
    for settings, group in rows.groupby("protocol", sort=False):
        means = group.pivot_table("score", "data", ["part", "model"], sort=False)
        means.columns = [" ".join(column) for column in means.columns]
        headers = {"data": "data", **{c: c for c in means.columns}}
        formats = dict.fromkeys(means.columns, "{:.4f}")
        lines += [f"## {settings}", ""]
        lines += [*markdown_table(means.reset_index(), headers, formats), ""]
    file.write_text("\n".join(lines), "utf-8")


def draw_curve(rows, folder):
    """Draw and write means by number of labelled texts, over domains that have all sizes."""
    table = rows.pivot_table("score", "name", ["method", "size"], sort=False).dropna()
    means = table.mean().rename("accuracy").reset_index()
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for method, group in means.groupby("method", sort=False):
        axes.plot(group["size"], group["accuracy"], marker="o", label=method)
    axes.set(xscale="log", xlabel="labelled texts of the new domain", ylabel="accuracy on test")
    ticks = means["size"].unique()
    axes.set_xticks(ticks, ticks)
    axes.minorticks_off()
    axes.set_title(f"mean of {len(table)} domains", fontsize="medium")
    figure.legend(loc="outside right upper")
    figure.savefig(folder / "curve.png", dpi=100)
    wide = means.pivot_table("accuracy", "method", "size", sort=False).reset_index()
    wide.columns = wide.columns.map(str)
    sizes = [column for column in wide.columns if column != "method"]
    headers = {"method": f"mean of {len(table)} domains", **{size: size for size in sizes}}
    lines = markdown_table(wide, headers, dict.fromkeys(sizes, "{:.4f}"))
    (folder / "curve.md").write_text("\n".join(lines) + "\n", "utf-8")


def add_losses(history, model, seed, folder):
    """Add the losses of a joint training to figure_5.csv and draw them in figure_5.png."""
    file = folder / "figure_5.csv"
    epochs = [epoch for epoch in history if "train_loss" in epoch]
    rows = pd.DataFrame(
        {
            "model": model,
            "seed": seed,
            "epoch": [epoch["epoch"] / 2 for epoch in epochs],  # two validations per epoch
            "train": [epoch["train_loss"] for epoch in epochs],
            "valid": [epoch["valid_loss"] for epoch in epochs],
        }
    )
    if file.exists():
        known = pd.read_csv(file)
        rows = pd.concat([known[(known["model"] != model) | (known["seed"] != seed)], rows])
    rows.to_csv(file, index=False, float_format="%.6g")
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, losses in zip(figure.subplots(1, 2, sharey=True), ("train", "valid")):
        for name, group in rows.groupby("model", sort=False):
            means = group.groupby("epoch")[losses].mean()
            axes.plot(means.index, means, marker=".", label=name)
        axes.set(xlabel="epochs", ylabel=f"{losses} loss")
    axes.legend()
    figure.savefig(folder / "figure_5.png", dpi=100)
