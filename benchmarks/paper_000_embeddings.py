"""Figures 4 and 5 of benchmarks/paper_000.py: Circle and Spiral, and embeddings of their rows."""

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from paper_000_data import BALANCED, PLAIN
from paper_000_grid import Cell
from paper_000_training import attributes, learner_of
from sklearn.metrics import silhouette_score

from sklearn_meta.inspection.drawing import colours, scatter
from sklearn_meta.inspection.embedding import to_two
from sklearn_meta.tasks import CircleSpiral, EpisodeSampler, collate

#: Labelled and unlabelled rows per class in both figures.
SHOTS, N_UNLABELLED = 3, 20
#: Number of columns of each of Figure 5's tasks.
N_COLUMNS = {"circle": 4, "spiral": 6}
ATTRIBUTES = "attributes"


def draw_task(kind, n_columns, seed):
    """Draw a task from a table that no training stream has drawn."""
    rng = np.random.default_rng([2026, 5, seed])
    table = CircleSpiral((n_columns, n_columns), SHOTS + N_UNLABELLED, kinds=(kind,)).draw(rng)
    return EpisodeSampler((SHOTS,), N_UNLABELLED, **PLAIN, **BALANCED).draw(table, rng)


@torch.inference_mode()
def embedded(learner, task):
    """Return flat embeddings of a task's rows, and the predicted classes."""
    z, logits = learner.embed_and_predict(**collate([task])[0])
    return z[0].flatten(1).double().numpy(), logits[0].argmax(-1).numpy()


def run_embeddings(table, methods, data, stem, options):
    """Train the methods as for Table 1 (a), score their embeddings and draw those of one task each.

    Writes ``stem`` as .csv, .md and .png, and figure_4.png beside them.
    """
    learners = {
        (m.name, split): learner_of(Cell(m, data, split), table.shots, options)
        for split in range(options.splits)
        for m in methods
    }
    rows = []
    for kind, n_columns in N_COLUMNS.items():
        for seed in range(options.n_test):
            task = draw_task(kind, n_columns, seed)
            where = {"figure": kind, "task": seed}
            silhouette = silhouette_score(attributes(task), task.y)
            rows.append(where | {"method": ATTRIBUTES, "split": 0, "silhouette": silhouette})
            for (name, split), learner in learners.items():
                z, predicted = embedded(learner, task)
                hit = (predicted == task.y)[~task.labelled]
                told = {"silhouette": silhouette_score(z, task.y), "accuracy": hit.mean()}
                rows.append(where | {"method": name, "split": split} | told)
    rows = pd.DataFrame(rows)
    rows.to_csv(stem.with_suffix(".csv"), index=False, float_format="%.6g")
    text = to_markdown(table, rows)
    stem.with_suffix(".md").write_text(text, "utf-8")
    print(text)
    plot_original(stem.with_name("figure_4.png"))
    plot_embeddings(learners, options.splits, stem.with_suffix(".png"))


def to_markdown(table, rows):
    """Silhouette and accuracy on each figure, mean and standard error over tasks, as Markdown."""
    n_tasks = rows["task"].nunique()
    lines = [
        f"### {table.title}",
        "",
        f"Mean ± standard error over {n_tasks} tasks with {SHOTS} labelled and {N_UNLABELLED} "
        "unlabelled rows a class: silhouette of the true classes, from -1 to 1, and accuracy. A "
        "split is another training.",
        "",
        "| | split | " + " | ".join(f"{k}, {n} columns" for k, n in N_COLUMNS.items()) + " |",
        "|---|---:|" + "---:|" * len(N_COLUMNS),
    ]
    for (method, split), group in rows.groupby(["method", "split"], sort=False):
        cells = [method, "" if method == ATTRIBUTES else f"{split}"]
        for kind in N_COLUMNS:
            found = group[group["figure"] == kind]
            told = [_number(found[score]) for score in ("silhouette", "accuracy")]
            cells.append(", ".join(filter(None, told)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _number(scores):
    scores = scores.dropna()
    return f"{scores.mean():.3f} ± {scores.sem():.3f}" if len(scores) else ""


def plot_original(path):
    """Draw Figure 4: the two coordinates, without columns of noise."""
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    for ax, kind in zip(figure.subplots(1, 2), N_COLUMNS, strict=True):
        task = draw_task(kind, 2, 0)
        scatter(ax, task.X, task.y, task.labelled, colours(task.n_label_columns))
        ax.set(title=kind, xticks=[], yticks=[])
    figure.savefig(path, dpi=120)


def plot_embeddings(learners, n_splits, path):
    """Draw Figure 5: t-SNE of the attributes and of embeddings, one line per split and task."""
    lines = [(split, kind) for split in range(n_splits) for kind in N_COLUMNS]
    names = list(dict.fromkeys(name for name, _ in learners))
    size = (2.6 * (1 + len(names)), 2.7 * len(lines))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(lines), 1 + len(names))
    for line, (split, kind) in zip(axes, lines, strict=True):
        task = draw_task(kind, N_COLUMNS[kind], 0)
        panels = {ATTRIBUTES: attributes(task)}
        panels |= {name: embedded(learners[name, split], task)[0] for name in names}
        for ax, (title, points) in zip(line, panels.items(), strict=True):
            flat = to_two(points, "tsne", random_state=0)
            scatter(ax, flat, task.y, task.labelled, colours(task.n_label_columns))
            ax.set(title=title, xticks=[], yticks=[])
        of_split = f", split {split}" if n_splits > 1 else ""
        line[0].set_ylabel(f"{kind}, {N_COLUMNS[kind]} columns{of_split}")
    figure.savefig(path, dpi=120)
