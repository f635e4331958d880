"""Axes, colours, markers and legends of the displays."""

import math

import numpy as np

#: Maximum number of classes that a legend names, and of entries in one of its columns: a longer
#: column would be higher than the figure.
MOST_NAMED, MOST_IN_A_COLUMN = 30, 16


def check_matplotlib_support(caller):
    """Raise an ImportError with advice if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} needs matplotlib: pip install "sklearn_meta[plot]".'
        ) from error


def axes_of(ax, n, display):
    """Return an array of ``n`` axes, one or two, given or in a new figure, and their figure."""
    check_matplotlib_support(f"{type(display).__name__}.plot")
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is None:
        _, ax = plt.subplots(1, n, figsize=(9, 4) if n == 2 else None, layout="constrained")
    ax = np.ravel(ax)
    due = f"ax must be {'two' if n == 2 else 'one'} matplotlib Axes"
    if not all(isinstance(given, Axes) for given in ax):
        raise ValueError(f"{due}, as plt.subplots makes them, got {ax.tolist()}.")
    if len(ax) != n:
        raise ValueError(f"{due}, got {len(ax)}.")
    return ax, ax[0].figure


def line_style(given, **defaults):
    """Keywords of a line: ``given`` overrides ``defaults``, also by short names such as "ms"."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return defaults | normalize_kwargs(given, Line2D)


def colours(n_classes):
    """Return an array with one RGBA row per class."""
    from matplotlib import colormaps

    if n_classes <= 10:
        return colormaps["tab10"](np.arange(n_classes))
    return colormaps["turbo"](np.linspace(0.05, 0.95, n_classes))


def scatter(ax, points, target, labelled, colours):
    """Draw labelled rows as circles, unlabelled ones as crosses (grey if the class is unknown)."""
    colours = np.vstack([colours, [0.35, 0.35, 0.35, 1]])  # position -1
    unlabelled = ~labelled
    ax.scatter(*points[unlabelled].T, c=colours[target[unlabelled]], marker="x", s=25, lw=1)
    ax.scatter(
        *points[labelled].T, c=colours[target[labelled]], marker="o", s=60, edgecolors="black"
    )


def legend(ax, classes, unlabelled="unlabelled"):
    """Draw a legend of class colours and of the two markers, beside the axes.

    If there are many classes, it names only every second, third, ...: colours are in order.
    """
    from matplotlib.lines import Line2D

    step = math.ceil(len(classes) / MOST_NAMED)
    keys = [
        Line2D([], [], marker="s", linestyle="", color=colour, label=str(label))
        for label, colour in list(zip(classes, colours(len(classes))))[::step]
    ]
    for label, marker in (("labelled", "o"), (unlabelled, "x")):
        keys.append(Line2D([], [], marker=marker, linestyle="", color="0.35", label=label))
    n_columns = math.ceil(len(keys) / MOST_IN_A_COLUMN)
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "ncols": n_columns}
    if n_columns > 1:
        beside |= {"fontsize": "small", "columnspacing": 0.5, "handletextpad": 0}
    if step > 1:
        beside["title"] = f"some of {len(classes)} classes"
    for text in ax.legend(handles=keys, **beside, frameon=False).get_texts():
        text.set_parse_math(False)  # "$0 - $50" is not a formula
