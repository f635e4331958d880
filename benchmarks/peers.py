"""Peers of benchmarks/few_shot_tables.py, the preparation of their data, and their score cache.

Every peer but TabPFN 2 and TabICL gets the same matrix, made by `prepare`. Peers whose scikit-learn
defaults do not suit standardised data appear twice: with the defaults, and with the best simple
setting we know ("scaled", "tuned", "15", "small"). These settings were chosen on the tables of
split "valid", never on "test".
"""

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import sklearn
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from tqdm import tqdm

from sklearn_meta.evaluation import preparation

# A cached score is reused only under the rules and the scikit-learn version it was computed with.
# Raise the number whenever episodes, the preparation, a peer's settings or the scoring change.
RULES = f"1/scikit-learn-{sklearn.__version__}"


class Peer(NamedTuple):
    """How a peer is made, and the data that it gets.

    Attributes
    ----------
    make : callable
        Maps `(n_rows, n_features)` of the prepared task, labelled and unlabelled, to an estimator.
    semi_supervised : bool
        Whether `fit` also gets the unlabelled rows, as `y == -1`.
    raw : bool
        Whether it gets the table's own columns (categories, missing cells) instead of the
        prepared matrix.
    package : str or None
        Its package, if that is not scikit-learn.
    """

    make: Callable[[int, int], BaseEstimator]
    semi_supervised: bool = False
    raw: bool = False
    package: str | None = None


PEERS = {
    "LabelSpreading-rbf": Peer(lambda n, d: LabelSpreading(), semi_supervised=True),
    # gamma = 1 / n_features is what SVC's gamma="scale" amounts to on standardised columns.
    "LabelSpreading-rbf-scaled": Peer(lambda n, d: LabelSpreading(gamma=1 / d), True),
    "LabelSpreading-knn": Peer(lambda n, d: LabelSpreading("knn", n_neighbors=min(7, n - 1)), True),
    "LabelSpreading-knn15": Peer(
        lambda n, d: LabelSpreading("knn", n_neighbors=min(15, n - 1)), True
    ),
    "LabelPropagation": Peer(lambda n, d: LabelPropagation(), True),
    # With hard clamping, one class floods a graph of wide kernels: it needs much narrower ones.
    "LabelPropagation-scaled": Peer(lambda n, d: LabelPropagation(gamma=32 / d), True),
    "SelfTraining": Peer(lambda n, d: SelfTrainingClassifier(LogisticRegression()), True),
    # The default kernel, 1.0 * RBF(1.0), is fixed and far too narrow for many columns.
    "GaussianProcess": Peer(lambda n, d: GaussianProcessClassifier()),
    "GaussianProcess-scaled": Peer(
        lambda n, d: GaussianProcessClassifier(1.0 * RBF(d**0.5), optimizer=None)
    ),
    "GaussianProcess-tuned": Peer(lambda n, d: GaussianProcessClassifier(1.0 * RBF(d**0.5))),
    "LogisticRegression": Peer(lambda n, d: LogisticRegression()),
    "RandomForest": Peer(lambda n, d: RandomForestClassifier(random_state=0)),
    # The default of 20 rows per leaf allows no split with fewer than 40 labelled rows.
    "HistGradientBoosting": Peer(lambda n, d: HistGradientBoostingClassifier(random_state=0)),
    "HistGradientBoosting-small": Peer(
        lambda n, d: HistGradientBoostingClassifier(min_samples_leaf=1, random_state=0)
    ),
    "1-NN": Peer(lambda n, d: KNeighborsClassifier(1)),
    # It gets the matrix: with categories as codes, accuracy on split "valid" is .01 and .02 lower
    # with 3 and 5 labels.
    "TabPFN-1": Peer(lambda n, d: _tabpfn_1(), package="tabpfn"),
    "TabPFN": Peer(lambda n, d: _tabpfn(), raw=True, package="tabpfn"),
    "TabICL": Peer(lambda n, d: _tabicl(), raw=True, package="tabicl"),
}


def prepare(X):
    """Turn the rows of one episode into the matrix for the peers.

    Numeric columns: missing cells get the column's mean; then columns are standardised. Other
    columns: missing cells get the most frequent category; then categories are one-hot encoded as 0
    and 1 (peers did better on split "valid" without scaling them; two categories take one column).
    Only the episode's own rows are used, labelled and unlabelled.

    Parameters
    ----------
    X : DataFrame of shape (n_rows, n_columns)
        Labelled and unlabelled rows together.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Finite; n_features is at least 1.
    """
    return preparation().fit_transform(X)


def predict_proba(name, X_labelled, y_labelled, X_unlabelled):
    """Class probabilities of the unlabelled rows by one peer.

    Parameters
    ----------
    name : str
        A key of `PEERS`.
    X_labelled, X_unlabelled : ndarray or DataFrame of shape (n_rows, n_features)
        Prepared rows, or the table's own rows for a raw peer.
    y_labelled : ndarray of shape (n_labelled,)
        Codes 0..n_classes-1, each present.

    Returns
    -------
    ndarray of shape (n_unlabelled, n_classes)
        As the peer returns them; rows of zeros or NaN are possible.
    """
    peer = PEERS[name]
    n_labelled, n_unlabelled = len(X_labelled), len(X_unlabelled)
    estimator = peer.make(n_labelled + n_unlabelled, X_labelled.shape[1])
    with warnings.catch_warnings():
        # There are thousands of warnings of convergence and kernel bounds; the score shows it.
        warnings.simplefilter("ignore")
        if not peer.semi_supervised:
            return estimator.fit(X_labelled, y_labelled).predict_proba(X_unlabelled)
        X = np.concatenate([X_labelled, X_unlabelled])
        y = np.concatenate([y_labelled, np.full(n_unlabelled, -1)])
        estimator.fit(X, y)
    if hasattr(estimator, "label_distributions_"):
        # The labels propagated to these rows; predict would smooth them once more.
        return estimator.label_distributions_[n_labelled:]
    return estimator.predict_proba(X_unlabelled)


@lru_cache(maxsize=1)
def _tabpfn_1():
    import tabpfn_1

    return tabpfn_1.classifier()


@lru_cache(maxsize=1)
def _tabpfn():
    from tabpfn import TabPFNClassifier

    # Give the checkpoint by path: otherwise the library would try to download it.
    cache = Path.home() / ".cache" / "tabpfn"
    folder = Path(os.environ.get("TABPFN_MODEL_CACHE_DIR") or cache)
    checkpoints = sorted(folder.glob("*classifier*default*.ckpt"))
    if not checkpoints:
        raise FileNotFoundError(f"no *classifier*default*.ckpt in {folder}")
    return TabPFNClassifier(model_path=checkpoints[-1])


@lru_cache(maxsize=1)
def _tabicl():
    from tabicl import TabICLClassifier

    return TabICLClassifier(allow_auto_download=False)


def unavailable(name):
    """Return why a peer cannot run here, or None if it can.

    TabPFN and TabICL need their package and weights on this machine, since nothing is downloaded.
    They are tried on a tiny task. The other peers are part of scikit-learn.
    """
    package = PEERS[name].package
    if package is None:
        return None
    if importlib.util.find_spec(package) is None:
        return f"the package {package} is not installed"
    X = pd.DataFrame({"a": np.arange(8.0), "b": np.arange(8.0) % 3})
    try:
        predict_proba(name, X, np.arange(8) % 2, X)
    except Exception as error:  # any error of a foreign package means that it cannot run here
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None


class PeersCache:
    """Scores of peers in a CSV file that survives a killed run.

    Parameters
    ----------
    path : str, Path or None
        The file, which is created if missing. If None, nothing is kept.

    Attributes
    ----------
    scores : dict
        Maps a key (a tuple of `KEY`) to a dict of `VALUE`.
    """

    # The key has the sha256 of the table's file: a changed table is computed anew.
    KEY = ("rules", "method", "dataset", "sha256", "shots", "unlabelled", "scored", "episode")
    VALUE = ("accuracy", "log_loss", "milliseconds")
    # Values that a method may lack. Never the last: it distinguishes a whole line from a torn one.
    OPTIONAL = ()

    def __init__(self, path):
        self.path = None if path is None else Path(path)
        self.scores = {}
        if self.path is None or not self.path.exists():
            return
        columns = [*self.KEY, *self.VALUE]
        # Names are text even where they read "nan" or "007". Headers, and lines cut short by a
        # crash, lack a field or have text where a number belongs.
        rows = pd.read_csv(
            self.path,
            header=None,
            names=columns,
            dtype=str,
            keep_default_na=False,
            on_bad_lines="skip",
        )
        numbers = [*self.KEY[4:], *self.VALUE]
        rows[numbers] = rows[numbers].apply(pd.to_numeric, errors="coerce")
        needed = [c for c in columns if c not in self.OPTIONAL]
        rows = rows.dropna(subset=needed).astype(dict.fromkeys(self.KEY[4:], int))
        for row in rows.itertuples(index=False):
            self.scores[tuple(row[: len(self.KEY)])] = dict(
                zip(self.VALUE, row[len(self.KEY) :], strict=True)
            )

    def append(self, rows: Iterable[dict]):
        """Remember rows (dicts with at least `KEY` and `VALUE`) and add them to the file.

        The rows are written at once to a file opened for appending, after a line break. So runs
        that share the file do not mix lines, and a torn last line spoils only itself.
        """
        lines = []
        for row in rows:
            self.scores[tuple(row[k] for k in self.KEY)] = {k: row[k] for k in self.VALUE}
            lines.append(pd.DataFrame([row])[[*self.KEY, *self.VALUE]])
        if self.path is None or not lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            is_new = os.fstat(descriptor).st_size == 0
            block = ("" if is_new else "\n") + pd.concat(lines).to_csv(index=False, header=is_new)
            os.write(descriptor, block.encode())
        finally:
            os.close(descriptor)


def run_cached(compute, units, wanted, scores_cache, n_jobs=1):
    """Compute the scores of all methods on all units; peers' scores come from the cache if there.

    Parameters
    ----------
    compute : callable
        Maps `(table, episode, done=)` to the rows of one unit (dicts with the cache's fields): of
        every method, except rows whose keys are in the set `done`.
    units : list of (table, episode)
    wanted : set of tuple
        Keys of all peers' scores; only rows of these methods are added to the cache.
    scores_cache : PeersCache
        Cache whose keys have the table's name third and the episode last.
    n_jobs : int, default=1

    Returns
    -------
    list of dict
        In no particular order.
    """
    done = wanted & scores_cache.scores.keys()
    peer_names = {key[1] for key in wanted}
    rows = [dict(zip(scores_cache.KEY, k, strict=True)) | scores_cache.scores[k] for k in done]
    done_of = {}
    for key in done:
        done_of.setdefault((key[2], key[-1]), set()).add(key)
    jobs = (
        delayed(compute)(table, episode, done=done_of.get((table.name, episode), set()))
        for table, episode in units
    )
    results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
    for new in tqdm(results, total=len(units), desc="tables x episodes", mininterval=1):
        scores_cache.append(row for row in new if row["method"] in peer_names)
        rows += new
    return rows
