"""Figure 4 of benchmarks/paper_004.py: weights generated at each word of a review of toys."""

from collections import Counter

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from sklearn_meta.inspection import MetaChangeDisplay
from sklearn_meta.inspection.meta_change import relative_changes

DOMAIN = "toys_games"
#: Minimum and maximum number of words of the text that is drawn.
FEWEST, MOST = 6, 25
#: Bounds of the bins of words by absolute log-odds. Log-odds are computed only for words that at
#: least ``LEAST_TEXTS`` training texts hold.
BOUNDS, LEAST_TEXTS = (0, 0.25, 0.5, 1, np.inf), 20


def figure_4(readers, train, valid, folder):
    """Draw one text, and test on all whether weights change more at words that indicate a label.

    Parameters
    ----------
    readers : dict of str to MetaLSTMClassifier
        Classifiers fitted to the domain: "meta_lstm", whose weights are examined, and others, whose
        predictions are drawn.
    train : dict of str to (list of str, ndarray)
        Texts and labels by domain; the log-odds of words are computed from them.
    valid : (list of str, ndarray)
        Texts and labels of the domain, which are examined.
    folder : Path
        Folder of figure_4.csv, .md and .png.
    """
    odds = log_odds(train)
    rows = [
        (place, *row)
        for place, text in enumerate(valid[0])
        for row in changes_of(readers["meta_lstm"], text, odds)
    ]
    rows = pd.DataFrame(rows, columns=["text", "word", "log_odds", "change"])
    rows.to_csv(folder / "figure_4.csv", index=False, float_format="%.4g")
    told = to_markdown(rows)
    (folder / "figure_4.md").write_text(told, "utf-8")
    print(told)
    draw(readers, valid, folder / "figure_4.png")


def log_odds(train):
    """Log-odds for label 1 of each word that enough texts hold, from the texts that hold it."""
    held = {label: Counter() for label in (0, 1)}
    for X, y in train.values():
        for text, label in zip(X, y, strict=True):
            held[int(label)].update(set(text.split()))
    n_texts = {label: sum((y == label).sum() for _, y in train.values()) for label in held}
    shares = {
        word: [(held[label][word] + 1) / (n_texts[label] + 2) for label in (0, 1)]
        for word in held[0] | held[1]
        if held[0][word] + held[1][word] >= LEAST_TEXTS
    }
    return {word: np.log(b / (1 - b)) - np.log(a / (1 - a)) for word, (a, b) in shares.items()}


def changes_of(reader, text, odds):
    """Yield word, log-odds and change for the known words of a text but the first.

    The change is the log of Eq. (23), averaged over the four gates.
    """
    words = reader.words_of(text)
    if len(words) < 2:
        return
    changes = relative_changes(reader.generated_weights(words))
    for word, change in zip(words[1:], changes[:, 1:].T, strict=True):
        if word in odds:
            yield word, odds[word], float(np.log(change).mean())


def to_markdown(rows):
    """Format changes by the words' log-odds, and the rank correlation of both, as Markdown."""
    strength = rows["log_odds"].abs()
    bins = pd.cut(strength, BOUNDS, right=False)
    by_text = [
        spearmanr(group["log_odds"].abs(), group["change"])[0]
        for _, group in rows.groupby("text")
        if len(group) > 2
    ]
    by_text = pd.Series(by_text, dtype=float).dropna()
    lines = [
        "| log-odds of a word, without sign | words | log of its mean relative change |",
        "|---|---:|---:|",
    ]
    for interval, group in rows.groupby(bins, observed=True):
        mean, error = group["change"].mean(), group["change"].sem()
        lines.append(
            f"| {interval.left:g} to {interval.right:g} | {len(group)} | {mean:.3f} ± {error:.3f} |"
        )
    lines += [
        "",
        f"Spearman's correlation of both within a text: {by_text.mean():.3f} ± {by_text.sem():.3f} "
        f"over {len(by_text)} texts, positive in {(by_text > 0).mean():.2f} of them.",
    ]
    return "\n".join(lines) + "\n"


def draw(readers, valid, path):
    """Draw the first text in random order of suitable length: changes above, predictions below."""
    X, y = valid
    order = np.random.default_rng(0).permutation(len(X))
    fits = [i for i in order if FEWEST <= len(readers["meta_lstm"].words_of(X[i])) <= MOST]
    i = fits[0] if fits else min(order, key=lambda i: len(X[i]))
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(2, 1)
    display = MetaChangeDisplay.from_estimator(readers["meta_lstm"], X[i], label=1, ax=axes)
    figure.colorbar(display.image_, ax=axes[0])
    display.line_.set_label("meta_lstm")
    beginnings = [display.words[: n + 1] for n in range(len(display.words))]
    for name, reader in readers.items():
        if name != "meta_lstm":
            proba = reader.predict_proba(beginnings).clip(1e-12, 1)
            axes[1].plot(np.log(proba[:, 1] / proba[:, 0]), marker="x", label=name)
    axes[1].legend(title=f"true label {y[i]}")
    figure.savefig(path, dpi=100)
