"""Data of benchmarks/paper_000.py: tables split for meta-training, validation and test."""

import zlib
from functools import cache
from typing import NamedTuple

import numpy as np

from sklearn_meta.tasks import (
    CircleSpiral,
    EpisodeSampler,
    Folder,
    Mixture,
    OpenMLCollection,
    RegressionSampler,
    as_source,
    select,
    split,
    target_scale,
)
from sklearn_meta.tasks.collections import Selection, Subset

SHARES = (0.7, 0.1, 0.2)
N_CLASSES = {"circle": 2, "spiral": 5}

#: Settings of the paper's tasks: transductive, all columns, no missing cells.
PLAIN = {"inductive": 0, "column_subset": 0, "missing": 0, "flip": False}
#: There are few real tables: training tasks of all methods vary their columns and the signs.
VARIED = {**PLAIN, "column_subset": 0.5, "flip": True}
BALANCED = {"imbalanced": 0, "class_subset": 0}

#: Maximum of rows x (columns + classes) of a test task; beyond it, random columns are left out.
MAX_TEST_CELLS = 20_000
#: Settings of regression tasks: 100 rows in all; those without a label are predicted.
REGRESSION = {"n_unlabelled": 100, "max_rows": 100, "max_cells": MAX_TEST_CELLS, **PLAIN}


class Data(NamedTuple):
    """Sources of training and validation tasks, and the test tables by name."""

    train: object
    valid: object
    test: dict


def data_of(cell, options):
    """Return the tables of one split.

    Parameters
    ----------
    cell : Cell
    options : Namespace
        ``n_tables`` for Circle-Spiral; ``folder``, ``pool``, ``openml`` and ``retarget`` for real
        tables; ``n_test``, the maximum number of test tables.

    Returns
    -------
    Data
    """
    if cell.data == "fresh":
        rng = np.random.default_rng([2026, cell.split])  # no training stream starts from this seed
        enough = dict.fromkeys(N_CLASSES, 5 + cell.n_unlabelled)
        source = Mixture([figure(kind, enough) for kind in N_CLASSES])
        rows = rows_of_figure(cell.n_rows) if cell.n_rows else enough
        return Data(source, source, drawn(options.n_test, rows, rng))
    if cell.data == "circle_spiral":
        rows = rows_of_figure(cell.n_rows or 100)
        pool = drawn(options.n_tables, rows, np.random.default_rng(0))
        retarget = 0.0  # only the classes of these tables are worth predicting
    else:
        suites = options.openml and tuple(options.openml)
        pool = real_tables(options.folder, tuple(options.pool), suites, cell.task)
        # GP and LP learn only two numbers: choose them on targets like those that are scored.
        retarget = options.retarget if cell.method.backbone else 0.0
    train, valid, test = split(pool, SHARES, cell.split)
    if not (train and valid and test):
        raise ValueError(f"{len(pool)} tables of {cell.data!r} are too few to be split in three.")
    if cell.n_train is not None:
        names = np.random.default_rng(cell.split).permutation(sorted(train))
        train = Subset(pool, names[: cell.n_train])
    valid, test = (as_source(part, task=cell.task) for part in (valid, test))
    train = as_source(train, task=cell.task, retarget=retarget)
    return Data(train, valid, dict(list(test.items())[: options.n_test]))


def rows_of_figure(n_rows):
    """Rows per class of a table of ``n_rows``, by figure."""
    return {kind: n_rows // n for kind, n in N_CLASSES.items()}


def figure(kind, rows):
    return CircleSpiral(kinds=(kind,), n_rows_per_class=rows[kind])


def drawn(n_tables, rows, rng):
    """Draw Circle and Spiral tables in turn; return them by name."""
    kinds = [list(N_CLASSES)[i % 2] for i in range(n_tables)]
    tables = [figure(kind, rows).draw(rng) for kind in kinds]
    return {f"{table.name}-{i}": table for i, table in enumerate(tables)}


@cache
def real_tables(folder, pool, openml, task):
    """Select tables of a folder, or of OpenML suites, by the paper's criteria.

    Parameters
    ----------
    folder : Path
    pool : tuple of str
        Splits of the folder's index to use. No choice is made on its other tables.
    openml : tuple of str or None
        Numbers or aliases of suites, in place of the folder.
    task : {"classification", "regression"}

    Returns
    -------
    Selection of Dataset
    """
    n_rows, collections = (60, np.inf), []
    if openml is None:
        collections = [Folder(folder, split=part, task=task) for part in pool]
    else:
        n_rows = (60, 1000)  # no upper bound for the folder: its tables were cut to 2,000 rows
        for suite in openml:
            tables = OpenMLCollection(int(suite) if suite.isdigit() else suite).fetch()
            names = [n for n in tables if tables[n].metadata["task"] == task]
            collections.append(Subset(tables, names))
    tables, families = {}, {}
    for collection in collections:
        tables |= collection
        families |= collection.families
    chosen = select(
        Selection(tables, {}, families),
        n_columns=(2, 1000),
        n_rows=n_rows,
        n_classes=(2, 10),
        min_class_size=30,
        one_a_family=openml is not None,  # the paper left out tasks of the same name
    )
    # Encoded once for all cells: a table's encoding does not depend on the others.
    datasets = as_source(chosen, task=task).datasets if chosen else {}
    return Selection(datasets, chosen.rejected, chosen.families)


def training_sampler(cell, shots, max_cells):
    """Sampler of tasks with any of the numbers of labelled rows and at most ``max_cells`` cells."""
    settings = PLAIN if cell.data in ("circle_spiral", "fresh") else VARIED
    if cell.task == "regression":
        return RegressionSampler(shots, **REGRESSION | settings | {"max_cells": max_cells})
    bounds = {"max_rows": 250, "max_cells": max_cells}
    return EpisodeSampler(shots, cell.n_unlabelled, **bounds, **settings, **BALANCED)


class InTableUnits(RegressionSampler):
    """Sampler of regression tasks with targets standardised over the table, as the paper's are."""

    def _targets(self, y, rows, n_labelled, rng):
        y = y.astype(np.float64)
        return ((y - y.mean(axis=0)) / y.std(axis=0))[rows]


class TestTask(NamedTuple):
    """A task and how it is scored.

    Parameters
    ----------
    table : str
    shots, episode : int
    task : Task
    unit : float
        Factor that converts its targets to the table's units (regression).
    scored : ndarray of bool
        Rows whose predictions count.
    """

    table: str
    shots: int
    episode: int
    task: object
    unit: float
    scored: np.ndarray


def test_tasks(cell, test, shots, n_episodes):
    """Draw tasks of the test tables, the same for every method.

    Parameters
    ----------
    cell : Cell
    test : dict of str to Dataset
    shots : sequence of int
    n_episodes : int
        Tasks per table and number of labelled rows.

    Yields
    ------
    TestTask
    """
    for name, dataset in test.items():
        for n_shots in shots:
            for episode in range(n_episodes):
                rng = np.random.default_rng([2026, zlib.crc32(name.encode()), n_shots, episode])
                if cell.task == "classification":
                    task, unit = test_sampler(cell, n_shots).draw(dataset, rng), 1.0
                else:
                    task, unit = scaled(InTableUnits((n_shots,), **REGRESSION).draw(dataset, rng))
                scored = scored_rows(task, cell.n_scored)
                yield TestTask(name, n_shots, episode, task, unit, scored)


def scored_rows(task, n_scored):
    """Mask of the rows without a label, or of the first ``n_scored`` of them in each class.

    A task with more unlabelled rows has the others behind these, so tasks with different numbers of
    unlabelled rows are scored on the same rows.
    """
    scored = ~task.labelled
    if n_scored is not None:
        for c in range(task.n_label_columns):
            scored[np.flatnonzero(scored & (task.y == c))[n_scored:]] = False
    return scored


def test_sampler(cell, n_shots):
    """Sampler of tasks with ``n_shots`` labelled rows; figure 7 also takes all unlabelled rows."""
    bounds = {"max_rows": 300} if cell.n_rows is None else {"max_rows": cell.n_rows + 5}
    n_unlabelled = cell.n_rows or cell.n_unlabelled
    return EpisodeSampler(
        (n_shots,), n_unlabelled, max_cells=MAX_TEST_CELLS, **bounds, **PLAIN, **BALANCED
    )


def scaled(task):
    """Standardise a regression task by its labelled rows; return it and the divisor of targets."""
    location, scale = target_scale(task.y[task.labelled])
    return task._replace(y=((task.y - location) / scale).astype(np.float32)), float(scale)


def tuning_tasks(cell, train, shots, n_tasks, max_cells):
    """Draw the meta-training tasks on which the kernels of GP and LP are chosen."""
    rng = np.random.default_rng([cell.split, 2])
    sampler = training_sampler(cell, shots, max_cells)
    return [sampler.draw(train.draw(rng), rng) for _ in range(n_tasks)]
