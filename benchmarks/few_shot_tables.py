"""Few-shot classification of real tables: MetaSemiSupervisedClassifier against its peers.

Peers are scikit-learn's classifiers, TabPFN and TabICL. Scores are accuracy and log loss on a
folder of real tables. The protocol is paper 000's (section 4.1): from each table, k labelled and u
unlabelled rows per class are drawn ten times, and the unlabelled rows are scored.
benchmarks/README.md explains the protocol and the results.

    python benchmarks/few_shot_tables.py --split test --peers-cache peers_cache.csv
    python benchmarks/few_shot_tables.py --split test --unlabelled 5 20 100
    python benchmarks/few_shot_tables.py --split test --frequencies natural
    python benchmarks/few_shot_tables.py --split valid --targets further
    python benchmarks/few_shot_tables.py --quick --weights default my_run.safetensors
"""

import argparse
import hashlib
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import peers
from arguments import add_folder, check_tables, count
from few_shot_report import SETTING, plot_curves, summarise, to_markdown
from further_targets import further_targets
from results_folder import place_of
from sklearn.metrics import accuracy_score, log_loss
from table_seeds import generator_of

# Share of the uniform distribution mixed into all probabilities: otherwise the log loss of one
# confident mistake of 1-NN is infinite.
UNIFORM = 0.01


class Table(NamedTuple):
    """A table: name, X (DataFrame), y (codes 0..n_classes-1, or floats) and its file's sha256."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    sha256: str


class Episode(NamedTuple):
    """Row numbers of one few-shot task, and which of the unlabelled rows are scored (a mask)."""

    labelled: np.ndarray
    unlabelled: np.ndarray
    scored: np.ndarray


def read_tables(folder, split, task="classification"):
    """Read the tables of one split and one kind of target.

    Parameters
    ----------
    folder : Path
        Folder of index.csv (columns name, task, split) and NAME.parquet for each name. The last
        column of a table is its target; columns that are not numbers are categorical.
    split : str
        "train", "valid" or "test".
    task : {"classification", "regression"}, default="classification"

    Returns
    -------
    list of Table
        Tables in order of their names, without rows that have no target.
    """
    index = pd.read_csv(folder / "index.csv", dtype={"name": str}, keep_default_na=False)
    index = index[(index["task"] == task) & (index["split"] == split)]
    tables = []
    for name in sorted(index["name"]):
        path = folder / f"{name}.parquet"
        frame = pd.read_parquet(path)
        frame = frame[frame.iloc[:, -1].notna()].reset_index(drop=True)
        y = frame.iloc[:, -1]
        y = y.to_numpy(float) if task == "regression" else pd.factorize(y, sort=True)[0]
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        tables.append(Table(name, frame.iloc[:, :-1], y, sha256))
    return tables


def draw_episode(table, episode, n_shots, n_unlabelled, n_scored):
    """Draw the rows of one task; they depend only on the table's name and the numbers.

    Each class is shuffled once per table and episode. Labelled rows are taken from the front,
    unlabelled rows from the back. So a task with fewer of either is part of every larger task, and
    the `n_scored` rows per class at the very back do not depend on the other counts.

    Returns
    -------
    Episode

    Raises
    ------
    ValueError
        If a class has fewer than `n_shots + n_unlabelled` rows.
    """
    rng = generator_of(table, episode)
    shuffled = [rng.permutation(np.flatnonzero(table.y == c)) for c in range(table.y.max() + 1)]
    if min(map(len, shuffled)) < n_shots + n_unlabelled:
        raise ValueError(f"{table.name}: a class has under {n_shots} + {n_unlabelled} rows")
    # Shuffle again: the order of classes would inform a learner that reads rows in order.
    labelled = rng.permutation(np.concatenate([rows[:n_shots] for rows in shuffled]))
    unlabelled = rng.permutation(np.concatenate([rows[-n_unlabelled:] for rows in shuffled]))
    scored = np.concatenate([rows[-n_scored:] for rows in shuffled])
    return Episode(labelled, unlabelled, np.isin(unlabelled, scored))


def draw_natural_episode(table, episode, n_shots, n_unlabelled, n_scored):
    """Draw a task whose unlabelled rows have the classes as often as the table has them.

    The table is shuffled once per episode. The first `n_shots` rows of each class are labelled. The
    last `n_unlabelled` x classes rows of the table are unlabelled, except those already labelled
    (of rare classes). Otherwise it is like `draw_episode`.
    """
    rng = generator_of(table, episode)
    shuffled = rng.permutation(len(table.y))
    n_classes = table.y.max() + 1
    first = [shuffled[table.y[shuffled] == c][:n_shots] for c in range(n_classes)]
    if min(map(len, first)) < n_shots or len(shuffled) < n_classes * (n_shots + n_unlabelled):
        raise ValueError(f"{table.name}: too few rows for {n_shots} + {n_unlabelled} a class")
    labelled = rng.permutation(np.concatenate(first))
    unlabelled, scored = (
        np.setdiff1d(shuffled[-n * n_classes :], labelled) for n in (n_unlabelled, n_scored)
    )
    unlabelled = rng.permutation(unlabelled)
    return Episode(labelled, unlabelled, np.isin(unlabelled, scored))


#: By the frequencies of classes among unlabelled rows: the function that draws an episode, and the
#: mark of its scores in a peers cache.
FREQUENCIES = {"even": (draw_episode, ""), "natural": (draw_natural_episode, "/natural")}


def score(proba, y):
    """Accuracy, and log loss after mixing the probabilities with 1 % of the uniform distribution.

    Rows of zeros or NaN, which label propagation returns for rows that no label reaches, count as
    uniform. Ties go to the first class, which is chance level if classes are equally frequent.

    Parameters
    ----------
    proba : array-like of shape (n_rows, n_classes)
    y : ndarray of shape (n_rows,)
        Codes 0..n_classes-1.

    Returns
    -------
    dict with "accuracy" and "log_loss" (natural logarithm)
    """
    proba = np.nan_to_num(np.asarray(proba, dtype=float), posinf=0.0)
    n_classes = proba.shape[1]
    total = proba.sum(axis=1, keepdims=True)
    proba = np.where(total > 0, proba / np.where(total > 0, total, 1.0), 1 / n_classes)
    proba = (1 - UNIFORM) * proba + UNIFORM / n_classes
    return {
        "accuracy": accuracy_score(y, proba.argmax(axis=1)),
        "log_loss": log_loss(y, proba, labels=np.arange(n_classes)),
    }


@cache
def our_estimator(weights, transductive, device):
    """Return our classifier after a first call, so that times exclude imports and loading."""
    from sklearn_meta import MetaSemiSupervisedClassifier

    estimator = MetaSemiSupervisedClassifier(weights, transductive=transductive, device=device)
    estimator.fit([[0.0], [1.0]], [0, 1]).predict_proba([[0.5]])
    return estimator


def our_names(weights):
    """Return a dict from the names of our methods in the tables to weights."""
    names = {}
    for w in weights:
        name = f"ours:{Path(w).stem}"
        names[f"ours:{w}" if name in names else name] = w  # files of the same name in two folders
    return names


def our_methods(weights, inductive, device):
    """Return a dict from the names of our methods in the tables to arguments of `our_estimator`."""
    methods = {}
    for name, w in our_names(weights).items():
        methods[name] = (w, True, device)
        if inductive:
            methods[f"{name}:inductive"] = (w, False, device)
    return methods


def run_unit(table, episode, settings, n_scored, ours, peer_names, done, frequencies="even"):
    """Run every method on one table and episode.

    Parameters
    ----------
    settings : list of (n_shots, n_unlabelled)
    frequencies : a key of FREQUENCIES
    ours : dict of our methods, peer_names : list of str
    done : set of cache keys that are already computed

    Returns
    -------
    list of dict
        One row per method and setting, with the fields of a peers cache.
    """
    results = []
    draw, mark = FREQUENCIES[frequencies]
    for n_shots, n_unlabelled in settings:
        setting = {
            "rules": peers.RULES + mark,
            "dataset": table.name,
            "sha256": table.sha256,
            "shots": n_shots,
            "unlabelled": n_unlabelled,
            "scored": n_scored,
            "episode": episode,
        }
        rows = [setting | {"method": name} for name in [*ours, *peer_names]]
        rows = [row for row in rows if tuple(row[k] for k in peers.PeersCache.KEY) not in done]
        if not rows:
            continue
        labelled, unlabelled, scored = draw(table, episode, n_shots, n_unlabelled, n_scored)
        X_labelled, X_unlabelled = table.X.iloc[labelled], table.X.iloc[unlabelled]
        y_labelled, y_unlabelled = table.y[labelled], table.y[unlabelled]
        prepared = None
        for row in rows:
            name = row["method"]
            if name in ours:
                estimator = our_estimator(*ours[name])
                start = time.perf_counter()
                proba = estimator.fit(X_labelled, y_labelled).predict_proba(X_unlabelled)
            else:
                if prepared is None:
                    prepared = peers.prepare(pd.concat([X_labelled, X_unlabelled]))
                inputs = np.split(prepared, [len(labelled)])
                if peers.PEERS[name].raw:
                    inputs = [X_labelled, X_unlabelled]
                start = time.perf_counter()
                proba = peers.predict_proba(name, inputs[0], y_labelled, inputs[1])
            row["milliseconds"] = 1e3 * (time.perf_counter() - start)
            results.append(row | score(proba[scored], y_unlabelled[scored]))
    return results


def run(
    tables,
    episodes,
    settings,
    n_scored,
    ours,
    peer_names,
    scores_cache,
    n_jobs=1,
    frequencies="even",
):
    """Run all methods on all tables and episodes; peers only if the cache has no score.

    Returns
    -------
    DataFrame
        One row for each combination, with columns method, dataset, shots, unlabelled, scored,
        episode, accuracy, log_loss and milliseconds.
    """
    rules = peers.RULES + FREQUENCIES[frequencies][1]
    wanted = {
        (rules, name, t.name, t.sha256, *setting, n_scored, episode)
        for name in peer_names
        for t in tables
        for setting in settings
        for episode in range(episodes)
    }
    units = [(table, episode) for table in tables for episode in range(episodes)]
    compute = partial(
        run_unit,
        settings=settings,
        n_scored=n_scored,
        ours=ours,
        peer_names=peer_names,
        frequencies=frequencies,
    )
    rows = peers.run_cached(compute, units, wanted, scores_cache, n_jobs)
    frame = pd.DataFrame(rows).drop(columns=["rules", "sha256"])
    columns = ["method", "dataset", *SETTING, "scored", "episode", *peers.PeersCache.VALUE]
    return frame[columns].sort_values(columns[:6], ignore_index=True)


def parse_arguments(arguments=None):
    names = list(peers.PEERS)
    several = "unlabelled rows per class; of several numbers, the rows of the smallest are scored"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "tabular", "folder of index.csv and the tables")
    add("--split", choices=["test", "valid"], default="test")
    add("--episodes", type=count, default=10, help="tasks drawn from each table")
    add("--shots", type=count, nargs="+", default=[1, 3, 5], help="labelled rows per class")
    add("--unlabelled", type=count, nargs="+", default=[20], help=several)
    of_classes = "of classes among unlabelled rows: equal, or as in the table"
    add("--frequencies", choices=list(FREQUENCIES), default="even", help=f"{of_classes} [even]")
    add("--targets", choices=["own", "further"], default="own", help="targets of the tables [own]")
    add("--weights", nargs="*", default=["default"], help="names or paths; none: peers only")
    add("--inductive", action="store_true", help="also run ours with transductive=False")
    add("--device", default="auto", help="device of ours")
    add(
        "--peers",
        nargs="*",
        default=names,
        choices=names,
        metavar="NAME",
        help="peers to run; none: ours only [%(default)s]",
    )
    add("--peers-cache", type=Path, help="CSV of peers' scores, to read and extend")
    add("--output", type=Path, help="folder [benchmarks/results/few_shot_tables, or _quick]")
    add("--n-jobs", type=int, default=1, help="processes; more than 1 distorts the times")
    add("--quick", action="store_true", help="3 episodes of 6 tables")
    options = parser.parse_args(arguments)
    options.output = place_of(options.output, "few_shot_tables", options.quick)
    check_tables(parser, options.folder)
    if not options.weights and not options.peers:
        parser.error("nothing to run: --weights and --peers are both empty")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    shots, unlabelled = sorted(set(options.shots)), sorted(set(options.unlabelled))
    tables = read_tables(options.folder, options.split)
    if options.targets == "further":
        of_regression = read_tables(options.folder, options.split, "regression")
        tables = further_targets(tables, of_regression)
    # All settings use the same tables.
    enough = [t for t in tables if np.bincount(t.y).min() >= shots[-1] + unlabelled[-1]]
    needed = f"{shots[-1]} + {unlabelled[-1]} rows a class"
    print(f"{len(enough)} of {len(tables)} {options.split} tables have {needed}")
    if not enough:
        sys.exit("no table to run on")
    if options.quick:
        options.episodes = 3
        enough = [enough[i] for i in np.unique(np.linspace(0, len(enough) - 1, 6).astype(int))]
    peer_names = []
    for name in dict.fromkeys(options.peers):
        reason = peers.unavailable(name)
        if reason is None:
            peer_names.append(name)
        else:
            print(f"skipping {name}: {reason}")
    ours = our_methods(options.weights, options.inductive, options.device)
    if not (ours or peer_names):
        sys.exit("nothing to run")
    results = run(
        enough,
        options.episodes,
        [(k, u) for k in shots for u in unlabelled],
        unlabelled[0],
        ours,
        peer_names,
        peers.PeersCache(options.peers_cache),
        options.n_jobs,
        options.frequencies,
    )
    summary = summarise(results, next(iter(ours), None))
    text = to_markdown(summary)
    if options.frequencies == "natural":
        text = "Unlabelled rows are of the table's classes as it has them.\n\n" + text
    print(text)

    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.split + ("_further" if options.targets == "further" else "")
    stem += "_natural" if options.frequencies == "natural" else ""
    stem = options.output / (stem + ("_unlabelled" if len(unlabelled) > 1 else ""))
    results.to_csv(f"{stem}.csv", index=False, float_format="%.6g")
    summary.to_csv(f"{stem}_summary.csv", index=False, float_format="%.6g")
    Path(f"{stem}_summary.md").write_text(text, "utf-8")
    plot_curves(summary, "shots", "unlabelled", f"{stem}.png")
    if len(unlabelled) > 1:
        plot_curves(summary, "unlabelled", "shots", f"{stem}_curve.png")
    print(f"wrote {stem}.csv, _summary.csv, _summary.md and .png")


if __name__ == "__main__":
    # Import it by name, so that joblib's worker processes find its functions.
    import few_shot_tables

    few_shot_tables.main()
