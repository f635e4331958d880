"""Few-shot evaluation of scikit-learn estimators over a whole collection of tables.

:func:`evaluate` gives every estimator the same episodes; :func:`peers` returns scikit-learn
classifiers to compare with, made ready for tables with categories and missing cells.
"""

import threading
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from numbers import Integral
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.utils import (
    _safe_indexing,
    check_consistent_length,
    check_scalar,
    column_or_1d,
    get_tags,
)
from sklearn.utils.multiclass import type_of_target

from .cells import are_unlabelled, in_numpy, is_missing, text_as_objects, whole_labels
from .model_selection import FewShotSplit
from .peers import peers, preparation
from .progress import ProgressBar
from .user_warnings import warn

__all__ = ["Evaluation", "evaluate", "peers", "preparation"]

# Share of the uniform distribution mixed into all probabilities: without it, the log loss of one
# confident mistake of 1-NN is infinite.
UNIFORM = 0.01

# If a table with more than this many different numeric labels fails, the labels are probably
# quantities.
MANY = 20


class Evaluation(NamedTuple):
    """Result of :func:`evaluate`.

    Parameters
    ----------
    records : list of dict
        One dict per ``dataset``, ``n_shots``, ``episode`` and ``estimator``, with ``accuracy`` and
        ``log_loss`` (natural logarithm) on the unlabelled rows of the episode.
    failures : list of dict
        What could not be evaluated, by ``dataset``, ``n_shots``, ``episode`` and ``estimator``,
        with the ``reason``. None stands for all: a dataset that cannot be loaded fails for all
        estimators.
    """

    records: list
    failures: list

    def summary(self):
        """Mean scores per number of labelled rows and estimator.

        Means are over the datasets on which every estimator completed all episodes, so that all are
        compared on the same tasks. An estimator that failed on every dataset is left out.

        Returns
        -------
        list of dict
            ``n_shots``, ``estimator``, ``accuracy``, ``log_loss``, ``rank`` (rank by accuracy,
            averaged over datasets; 1 is best, ties share a rank) and ``n_datasets``, sorted by
            accuracy, best first. Means over no dataset are None.
        """
        scores = defaultdict(lambda: defaultdict(list))
        for record in self.records:
            key = record["dataset"], record["estimator"]
            scores[record["n_shots"]][key].append((record["accuracy"], record["log_loss"]))
        lines = []
        for n_shots, found in sorted(scores.items()):
            datasets, estimators = (list(dict.fromkeys(names)) for names in zip(*found))
            n_episodes = max(map(len, found.values()))
            datasets = [
                dataset
                for dataset in datasets
                if all(len(found.get((dataset, e), ())) == n_episodes for e in estimators)
            ]
            means = [[np.mean(found[d, e], axis=0) for e in estimators] for d in datasets]
            means = np.reshape(means, (len(datasets), len(estimators), 2))
            # Round, so that means that differ only by the order of addition are tied.
            ranks = rankdata(-means[:, :, 0].round(9), axis=1)
            block = [
                {
                    "n_shots": n_shots,
                    "estimator": estimator,
                    "accuracy": _mean(means[:, i, 0]),
                    "log_loss": _mean(means[:, i, 1]),
                    "rank": _mean(ranks[:, i]),
                    "n_datasets": len(datasets),
                }
                for i, estimator in enumerate(estimators)
            ]
            lines += sorted(block, key=lambda line: -(line["accuracy"] or 0))
        return lines

    def __repr__(self):
        """Format the summary as a table, one block per number of labelled rows."""
        summary, text = self.summary(), []
        titles = [f"labelled rows a class: {line['n_shots']}" for line in summary]
        names = [str(line["estimator"]) for line in summary]
        width = max(map(len, [*titles, *names]), default=0) + 2
        for before, title, name, line in zip([None, *titles], titles, names, summary, strict=False):
            if title != before:
                text += ["", f"{title:{width}}  accuracy  log loss mean rank  tables"]
            scores = [line[key] for key in ("accuracy", "log_loss", "rank")]
            cells = "".join(f"{'-' if s is None else f'{s:.3f}':>10}" for s in scores)
            text.append(f"{name:{width}}{cells}{line['n_datasets']:>8}")
        if self.failures or not summary:
            text += ["", f"{len(self.failures)} failures, see describe_failures()"]
        return "\n".join(text)

    def describe_failures(self):
        """Failures as lines of text, with each reason once per dataset and estimator.

        Returns
        -------
        list of str
        """
        counts = Counter((f["dataset"], f["estimator"], f["reason"]) for f in self.failures)
        return [
            f"{dataset}{f', {estimator}' if estimator else ''}: {reason}"
            + (f" ({count} times)" if count > 1 else "")
            for (dataset, estimator, reason), count in counts.items()
        ]


def evaluate(
    estimators,
    collection,
    *,
    n_shots=(1, 3, 5),
    n_unlabelled=20,
    n_episodes=10,
    n_jobs=None,
    random_state=0,
    verbose=False,
):
    """Few-shot accuracy and log loss of estimators on every dataset of a collection.

    All estimators get the same episodes, drawn by
    :class:`~sklearn_meta.model_selection.FewShotSplit`: a clone is fitted on the labelled rows and
    predicts the probabilities of all unlabelled rows in a single call, so that transductive
    estimators can use them. An episode depends on the dataset's name and `random_state`, not on
    what else is in the collection. Whatever cannot be evaluated is listed in the failures, with a
    warning. Another warning says if weights were meta-trained on tables with these names.

    Parameters
    ----------
    estimators : dict of str to classifier
        Classifiers with ``predict_proba``; wrap scikit-learn's semi-supervised ones in
        :class:`~sklearn_meta.model_selection.Transductive`. See :func:`peers`.
    collection : mapping of str to (X, y), RawTable or Dataset
        The tables, such as a :class:`sklearn_meta.tasks.Folder`. They are loaded one by one in this
        process; workers receive only the rows of their episodes. Rows whose label is missing are
        left out. So are rows with label -1, unless the metadata's "task" is "classification" or
        "marked" is False, as for files.
    n_shots : int or sequence of int, default=(1, 3, 5)
        Labelled rows per class; each number is evaluated separately.
    n_unlabelled : int, default=20
        Unlabelled rows per class.
    n_episodes : int, default=10
        Episodes per dataset and number of labelled rows.
    n_jobs : int, default=None
        Number of joblib jobs, each running one episode at a time; None means 1, and -1 all cores.
        Within ``joblib.parallel_config(backend=...)``, a Dask or Ray cluster does the work.
    random_state : int, default=0
        Seed of the episodes.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Evaluation
        With ``records``, ``failures`` and ``summary()``.

    Raises
    ------
    ValueError
        If estimators or tables have no names, an estimator is not a classifier or has no
        ``predict_proba``, or a number is out of range.
    TypeError
        If ``n_episodes`` is not an int.

    Notes
    -----
    Probabilities are mixed with 1 % of the uniform distribution before the log loss is computed.
    Otherwise a single confident mistake would outweigh everything else.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_meta.evaluation import evaluate, peers
    >>> one_nn = {"1-NN": peers()["1-NN"]}
    >>> found = evaluate(one_nn, {"iris": load_iris(return_X_y=True)}, n_shots=5)
    >>> bool(found.summary()[0]["accuracy"] > 0.8)
    True
    """
    if not isinstance(collection, Mapping):
        raise ValueError(
            f"collection must be a mapping of names to (X, y), got {type(collection).__name__}: "
            f"name each table, as in {{'iris': (X, y)}}."
        )
    if not isinstance(estimators, Mapping):
        raise ValueError(
            "estimators must be a mapping of names to estimators, got "
            f"{type(estimators).__name__}: name each of them."
        )
    for name, estimator in estimators.items():
        kind = get_tags(estimator).estimator_type
        if kind not in ("classifier", None):  # a mixture's components would be scored as classes
            raise ValueError(f"Estimator {name!r} is a {kind}: only classifiers can be compared.")
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"Estimator {name!r} has no predict_proba, which the log loss needs: wrap it in "
                "sklearn.calibration.CalibratedClassifierCV, or leave it out."
            )
    check_scalar(n_episodes, "n_episodes", Integral, min_val=1)
    n_shots = dict.fromkeys(n_shots) if np.iterable(n_shots) else (n_shots,)
    if not n_shots:
        raise ValueError("n_shots is empty: give one number of labelled rows a class, or several.")
    tables = set(map(str, collection))
    for name, estimator in estimators.items():
        if seen := _tables_seen(estimator) & tables:
            warn(
                f"{name} was meta-trained on {len(seen)} of these tables, or others of the same "
                f"names, such as {min(seen)!r}: its scores on them say nothing about new tables."
            )
    splits = [FewShotSplit(n_episodes, n_shots=k, n_unlabelled=n_unlabelled) for k in n_shots]
    records, failures = [], []
    shown = {"total": len(collection), "desc": "evaluate", "unit": "table"}
    with ProgressBar(**shown, disable=not verbose) as bar:
        episodes = _episodes(collection, splits, random_state, failures, bar)
        jobs = (delayed(_score)(estimators, *episode) for episode in episodes)
        with _without_convergence_warnings():
            for scored, failed in Parallel(n_jobs=n_jobs)(jobs):
                records += scored
                failures += failed
    found = Evaluation(records, failures)
    if failures:
        lines = found.describe_failures()
        warn(f"{len(lines)} failures. " + " | ".join(lines))
    return found


def _tables_seen(estimator):
    """Names of the tables on which an estimator's weights were meta-trained, as far as known."""
    parts, seen = [estimator], set()
    with suppress(Exception):  # errors of a third-party estimator are reported when it is fitted
        parts += estimator.get_params().values()  # steps of a pipeline, estimator of a search
    for part in parts:
        with suppress(Exception):  # most parts lack the method; fit reports missing weights
            seen |= part._tables_seen()
    return seen


def _episodes(collection, splits, random_state, failures, bar):
    """Yield the rows of one episode after another; datasets are loaded one by one."""
    for name in collection:
        # Joblib consumes this generator in its own threads, which must not see an exception.
        try:
            X, y = _labelled_rows(collection[name])
        except Exception as error:
            failures.append(_failure(_where(name), error))
            bar.update()
            continue
        for split in splits:
            # Seed by the name: a table's episodes must not depend on what else is evaluated.
            split.random_state = zlib.crc32(
                f"{random_state}/{name}".encode(errors="surrogateescape")
            )
            try:
                for episode, (train, test) in enumerate(split.split(X, y)):
                    where = _where(name, split.n_shots, episode)
                    rows, asked = (_safe_indexing(X, part) for part in (train, test))
                    yield where, rows, y[train], asked, y[test]
            except Exception as error:  # such as MemoryError or OverflowError
                failures.append(_failure(_where(name, split.n_shots), error, _if_quantity(y)))
        bar.update()


def _labelled_rows(table):
    """Return the rows with a label, and the labels as an array of numbers or strings."""
    if isinstance(table, tuple) and hasattr(table, "name"):  # a Dataset, whose module needs torch
        table = table[1:3]
    if not isinstance(table, tuple | list) or len(table) not in (2, 3):
        raise ValueError(f"it must be a pair (X, y), got {type(table).__name__}.")
    X, y, metadata = (*table, None)[:3]
    column = column_or_1d(whole_labels(text_as_objects(y)), warn=True)
    check_consistent_length(X, column)
    metadata = metadata or {}
    task = metadata.get("task")
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task must be 'classification' or 'regression', got {task!r}.")
    marks = task != "classification" and bool(metadata.get("marked", True))
    rows = np.flatnonzero(~is_missing(column))
    marked = are_unlabelled(column[rows]) & marks
    rows = rows[~marked]
    y = column[rows]
    if y.dtype == object:
        y = y.astype(str) if any(isinstance(v, str) for v in y) else np.array(y.tolist())
    fractions = type_of_target(y) == "continuous"
    if task == "regression" or (fractions and task != "classification"):
        raise ValueError("its target is continuous, and classes are needed.")
    if len(np.unique(y)) < 2:
        hint = ""
        if marked.any():
            hint = (
                " Rows with label -1 are left out: if -1 is a class, give (X, y, "
                "{'task': 'classification'})."
            )
        raise ValueError(f"it has {len(np.unique(y))} class, and at least 2 are needed.{hint}")
    # Estimators would treat -1 as unlabelled and fractions as targets: pass codes instead.
    if fractions or are_unlabelled(y).any():
        y = np.unique(y, return_inverse=True)[1]
    X = in_numpy(X) if hasattr(X, "shape") else np.asarray(text_as_objects(X))
    return _safe_indexing(X, rows), y


@contextmanager
def _without_convergence_warnings():
    """Silence ConvergenceWarning, since the scores show its effect.

    Only in the main thread: filters belong to the process, and threads would mix them up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _score(estimators, where, X, y, X_unlabelled, y_unlabelled):
    """Records and failures of one episode."""
    classes = np.unique(y)
    codes = np.searchsorted(classes, y_unlabelled)
    records, failures = [], []
    for name, estimator in estimators.items():
        try:
            with _without_convergence_warnings():
                proba = clone(estimator).fit(X, y).predict_proba(X_unlabelled)
            if np.shape(proba) != (len(codes), len(classes)) or not np.isfinite(proba).all():
                raise ValueError(
                    "predict_proba gave NaN, or a shape other than (n_rows, n_classes)."
                )
        except Exception as error:  # whatever a third-party estimator raises is its failure
            failures.append(_failure(where | {"estimator": name}, error))
            continue
        # In their own precision, by which scikit-learn tells whether probabilities sum to one.
        proba = np.asarray(proba)
        mixed = (1 - UNIFORM) * proba + UNIFORM / len(classes)
        scores = {
            "accuracy": float(np.mean(proba.argmax(axis=1) == codes)),
            "log_loss": float(log_loss(codes, mixed, labels=np.arange(len(classes)))),
        }
        records.append(where | {"estimator": name} | scores)
    return records, failures


def _where(dataset, n_shots=None, episode=None):
    return {"dataset": dataset, "n_shots": n_shots, "episode": episode, "estimator": None}


def _failure(where, error, hint=""):
    return where | {"reason": f"{type(error).__name__}: {' '.join(str(error).split())}{hint}"}


def _if_quantity(y):
    """Hint for the case that a table's labels, many different numbers, are quantities."""
    n_values = len(np.unique(y))
    if y.dtype.kind not in "iuf" or n_values <= MANY:
        return ""
    return f" Its labels are {n_values} numbers: if they are quantities, leave the table out."


def _mean(values):
    return float(values.mean()) if len(values) else None
