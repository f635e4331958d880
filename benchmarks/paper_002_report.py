"""Tables and plots of benchmarks/paper_002.py, made from the scores of its cells."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from paper_002_grid import INSTANCES, REGRESSION_NOTE
from sklearn.gaussian_process import GaussianProcessRegressor

#: Columns that identify a line of a table.
LINE = ["task", "method", "n_classes"]

#: Rows of a regression episode that are columns of the table.
ROWS = (1, 2, 3, 5, 10, 20, 50)

ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def to_rows(cells):
    """Return all scores of some cells, a DataFrame with one score per row."""
    told = ("task", "method", "seed", "steps", "seconds", "n_parameters")
    return pd.DataFrame(
        [{name: cell[name] for name in told} | score for cell in cells for score in cell["scores"]]
    )


def summarise(rows, by, measures):
    """Compute the mean of each measure over the seeds and its standard error.

    Parameters
    ----------
    rows : DataFrame
        Result of ``to_rows``.
    by : list of str
        Columns to group by; the rows of a group differ only in the seed.
    measures : tuple of str

    Returns
    -------
    DataFrame
        One row per group. An error (``_se``) is over trainings, or over the test episodes if there
        is a single training.
    """
    groups = rows.groupby(by, sort=False)
    kept = ["steps", "seconds", "n_parameters", *measures, *(f"{name}_se" for name in measures)]
    summary = groups[kept].mean()
    for name in measures:
        between = groups[name].std() / groups.size() ** 0.5
        summary[f"{name}_se"] = between.fillna(summary[f"{name}_se"])
    return summary.reset_index()


def trainings(rows):
    """Describe the errors of a table in words."""
    n = rows["seed"].nunique()
    return f"± standard error over {f'{n} trainings' if n > 1 else 'the test episodes'}"


def by_instance(rows, drawings="as they are"):
    rows = rows[rows["drawings"] == drawings]
    return summarise(rows, [*LINE, "instance"], ("exact", "among"))


def to_markdown(table, rows):
    """Format a table of accuracies in % as Markdown, with the paper's figures beside ours."""
    headings = [ORDINALS.get(k, f"{k}th") for k in INSTANCES]
    paper = " The paper's figure in brackets, of augmented drawings." if table.paper else ""
    lines = [
        f"### {table.title}",
        "",
        "Accuracy in % by instance of a class within an episode, drawings as they are; "
        f"{trainings(rows)}. Augmented drawings: see the csv.{paper} No steps: given weights, or "
        f"nothing to train. {table.note}".strip(),
        "",
        "| method | classes | "
        + " | ".join([*headings, "2nd, among", "10th, among", "steps", "s", "parameters"])
        + " |",
        "|---|" + "---:|" * (len(INSTANCES) + 6),
    ]
    for (task, method, n_classes), found in by_instance(rows).groupby(LINE, sort=False):
        found = found.set_index("instance")
        exact = [percent(found, k, "exact") for k in INSTANCES]
        if paper := table.paper.get((task, method)):
            exact = [f"{ours} ({theirs})" for ours, theirs in zip(exact, paper)]
        among = [percent(found, k, "among") for k in (2, 10)]
        cost = [f"{found[c].iloc[0]:.0f}" for c in ("steps", "seconds", "n_parameters")]
        lines.append("| " + " | ".join([method, str(n_classes), *exact, *among, *cost]) + " |")
    return "\n".join([*lines, ""])


def percent(found, k, measure):
    return f"{100 * found[measure][k]:.1f} ± {100 * found[f'{measure}_se'][k]:.1f}"


def plot_tasks(table, rows, cells, path):
    """Plot accuracy by instance, one panel per task; for figures, validation accuracy below it."""
    summary = by_instance(rows)
    tasks = list(summary["task"].unique())
    with_curves = not table.paper
    figure = Figure(figsize=(2.8 + 4 * len(tasks), 7 if with_curves else 4), layout="constrained")
    axes = figure.subplots(1 + with_curves, len(tasks), squeeze=False)
    for column, task in zip(axes.T, tasks):
        here = summary[summary["task"] == task]
        for i, (method, found) in enumerate(here.groupby("method", sort=False)):
            points = found["instance"], found["exact"], found["exact_se"]
            style = {"fmt": "o-", "color": f"C{i}", "markersize": 3}
            column[0].errorbar(*points, **style, label=method)
            if paper := table.paper.get((task, method)):
                column[0].plot(INSTANCES, np.divide(paper, 100), "x:", color=f"C{i}", alpha=0.6)
            if with_curves:
                plot_curves(column[1], cells, task, method, f"C{i}")
        column[0].set(title=task, xlabel="instance", ylabel="accuracy", ylim=(-0.03, 1.03))
        column[0].set_xticks(INSTANCES)
    figure.legend(
        *column[0].get_legend_handles_labels(), loc="outside right upper", fontsize="x-small"
    )
    finish(figure, axes, table.title + ("" if with_curves else " (crosses: the paper)"), path)


def plot_curriculum(table, rows, cells, path):
    """Plot accuracy by number of classes, and validation accuracy during training."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2, squeeze=False)
    for k, found in by_instance(rows).groupby("instance"):
        axes[0, 0].errorbar(
            found["n_classes"],
            found["exact"],
            found["exact_se"],
            fmt="o-",
            label=f"instance {k}",
            markersize=3,
        )
    axes[0, 0].set(xlabel="classes", ylabel="accuracy", ylim=(-0.03, 1.03))
    axes[0, 0].legend(fontsize="x-small")
    plot_curves(axes[0, 1], cells, cells[0]["task"], cells[0]["method"], "C0")
    finish(figure, axes, table.title, path)


def plot_curves(ax, cells, task, method, colour):
    for cell in cells:
        if (cell["task"], cell["method"]) == (task, method):
            curve = pd.DataFrame(cell["curve"], columns=["episodes", "valid_accuracy"])
            ax.plot(curve["episodes"], curve["valid_accuracy"], color=colour)
    ax.set(xlabel="training episodes", ylabel="validation accuracy, all rows", ylim=(-0.03, 1.03))


def finish(figure, axes, title, path):
    for ax in axes.flat:
        ax.grid(alpha=0.3)
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=120)


# Regression


def likelihoods_to_markdown(rows):
    """Format the negative log likelihoods of figure 6 as Markdown."""
    shown = [t for t in ROWS if t <= rows["row"].max()]
    lines = [
        "### Figure 6: negative log likelihood of each row, given those before it",
        "",
        f"Means over {rows['n_episodes'].iloc[0]} test episodes; {trainings(rows)}. GP: a Gaussian "
        "process that knows the kernel, the best there can "
        f"be. {REGRESSION_NOTE} The paper has curves and no figures.",
        "",
        "| dimensions | | " + " | ".join(f"row {t}" for t in shown) + " | all rows |",
        "|---|---|" + "---:|" * (len(shown) + 1),
    ]
    for task, found in likelihoods(rows).groupby("task", sort=False):
        found = found.set_index("row")
        for name, heading in (("mann", "MANN"), ("gp", "GP")):
            figures = [f"{found[name][t]:.2f} ± {found[f'{name}_se'][t]:.2f}" for t in shown]
            cells = [task.split("_")[1], heading, *figures, f"{found[name].mean():.3f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def likelihoods(rows):
    return summarise(rows, ["task", "row"], ("mann", "gp"))


def plot_likelihoods(rows, path):
    """Plot the negative log likelihood along the episode, one panel per dimension."""
    summary = likelihoods(rows)
    tasks = list(summary["task"].unique())
    figure = Figure(figsize=(4 * len(tasks), 3.6), layout="constrained")
    axes = figure.subplots(1, len(tasks), squeeze=False)
    for ax, (task, found) in zip(axes[0], summary.groupby("task", sort=False)):
        for name, heading in (("mann", "MANN"), ("gp", "Gaussian process")):
            mean, error = found[name], found[f"{name}_se"]
            ax.plot(found["row"], mean, label=heading)
            ax.fill_between(found["row"], mean - error, mean + error, alpha=0.3)
        ax.set(title=f"{task.split('_')[1]}-d", xlabel="row", ylabel="negative log likelihood")
        ax.legend(fontsize="x-small")
    finish(figure, axes, "Figure 6: likelihood within an episode", path)


def function_of(prior, n_samples, n_points, seed):
    """Draw a function of one variable; return noisy samples x, y, a grid and its values there."""
    rng = np.random.default_rng(seed)
    low, high = prior.bounds
    grid = np.linspace(low, high, n_points)[:, None]
    x = rng.uniform(low, high, (n_samples, 1))
    smooth = GaussianProcessRegressor(prior.kernel.k1)  # without the noise
    values = smooth.sample_y(np.concatenate([x, grid]), random_state=seed)[:, 0]
    y = values[:n_samples] + prior.noise * rng.standard_normal(n_samples)
    return x, y, grid, values[n_samples:]


def plot_functions(x, y, grid, truth, predictions, path):
    """Plot predictive means and bands of two deviations along the axis, one panel per method.

    Parameters
    ----------
    x, y, grid, truth : ndarrays
        Results of ``function_of``.
    predictions : dict of str to (ndarray, ndarray)
        Mean and standard deviation at the grid, by method.
    path : path
    """
    figure = Figure(figsize=(4.5 * len(predictions), 3.6), layout="constrained")
    axes = figure.subplots(1, len(predictions), squeeze=False, sharey=True)
    for ax, (name, (mean, deviation)) in zip(axes[0], predictions.items()):
        ax.plot(grid[:, 0], truth, "k:", label="the function")
        ax.plot(grid[:, 0], mean, label="mean")
        ax.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.3)
        ax.plot(x[:, 0], y, "r+", label="samples")
        ax.set(title=name, xlabel="x")
        ax.legend(fontsize="x-small")
    finish(figure, axes, f"Figure 5: predictions after {len(x)} samples", path)
