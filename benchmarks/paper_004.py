"""Tables 3 and 5 and Figures 4 and 5 of paper 004: Meta-LSTMs against their rivals.

Table 3 measures accuracy on reviews of 16 domains: each domain alone, all jointly, and transfer to
a domain left out. Table 5 measures tagging on four data sets. "curve" measures accuracy by the
number of labelled texts of a new domain, beside linear models. "change" draws Figure 4, the changes
of the generated weights along a text. Figure 5, the losses of joint training, comes with Table 3.

    python benchmarks/paper_004.py --table 3 --parts single multi transfer
    python benchmarks/paper_004.py --table 5 --tagging crossner
    python benchmarks/paper_004.py --table curve --domains books music
    python benchmarks/paper_004.py --table change
    python benchmarks/paper_004.py --quick

benchmarks/README.md explains the protocol and the results. Each score (data x part x model x seed x
domain) is a row of a csv, written as soon as it is computed, so a killed command resumes.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import paper_004_report as report
import torch
from arguments import add_folder, count
from paper_004_change import DOMAIN, figure_4
from paper_004_peers import SharedAlone, SpreadLabels, linear_alone
from results_folder import place_of
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_meta import MetaLSTMClassifier, MetaLSTMTagger
from sklearn_meta.tasks import load_reviews, load_tagging

#: The model that a user would try first.
TF_IDF = "TF-IDF, LogisticRegression"

#: Suffix of networks with linear models beside them, which the paper does not have.
WIDE = ", wide"

#: The linear models alone, without a network: the one that tasks share, and that of taggers.
SHARED, LINEAR_TAGGER = "shared linear model", "linear CRF"

#: Models by part of table 3.
PARTS = {
    "single": ["lstm", "hyper_lstm", "meta_lstm", "lstm" + WIDE, "meta_lstm" + WIDE],
    "multi": ["ssp_mtl_shared_only"]
    + [w + e for e in ("", WIDE) for w in ("asp_mtl", "psp_mtl", "ssp_mtl", "meta_lstm")],
    "transfer": ["meta_lstm", "meta_lstm" + WIDE],
    "pooled": [TF_IDF, SHARED],  # one model for the texts of all domains
}

#: Numbers of labelled texts of a new domain in the learning curve.
SIZES = (50, 100, 200, 1400)

#: The package's weights in the learning curve, and the maximum number of texts they are given.
ENGLISH, MOST_ENGLISH = "english_reviews", 200
TRANSFER, POOLED = ("transfer", "transfer" + WIDE), f"{TF_IDF}, other domains too"
LINEAR = (TF_IDF, "TF-IDF, LabelSpreading", POOLED)
METHODS = (*TRANSFER, ENGLISH, "LSTM", *LINEAR)

#: Tagging sets and the kind of their tags.
TAGGING = {"brown_pos": "pos", "conll2002": "ner", "crossner": "ner", "wnut17": "ner"}

#: Taggers by part of table 5. The linear models of the wide taggers are also scored alone.
TAGGERS = {
    "single": ["lstm", "meta_lstm", "lstm" + WIDE, "meta_lstm" + WIDE],
    "multi": ["ssp_mtl_shared_only"]
    + [w + e for e in ("", WIDE) for w in ("ssp_mtl", "meta_lstm")],
}

#: Learning rates of classifiers and of taggers, by optimiser. Adagrad's is the paper's.
RATES = {"adamw": (2e-3, 4e-3), "adagrad": (0.1, 0.1)}

#: Options that change only some tables, and these tables.
OF_TABLES = {
    **dict.fromkeys(("parts", "models"), ("3",)),
    **dict.fromkeys(("domains", "left_out", "pooling"), ("3", "curve")),
    **dict.fromkeys(("tagging", "spelling_size", "max_words"), ("5",)),
    "seeds": ("3", "5"),
}


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--table", choices=list(COMMANDS), default="3", help="table or figure to compute [3]")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="parts of table 3 [all]")
    models = list(dict.fromkeys(model for part in PARTS.values() for model in part))
    add("--models", nargs="+", choices=models, metavar="MODEL", help="only these models of table 3")
    add("--domains", nargs="+", help="only these domains; not for table 5 [all]")
    add("--tagging", nargs="+", choices=TAGGING, default=list(TAGGING), help="data sets [all]")
    add_folder(parser, "--folder", "text", "folder of the texts")
    add("--word-vectors", type=Path, help="[word_vectors_100d.npz of the folder, if it is there]")
    add("--seeds", type=count, default=1, help="trainings of each model [%(default)s]")
    add("--epochs", type=count, default=5, help="epochs of joint training [%(default)s]")
    add("--fine-tune", type=int, default=1, help="epochs of each task afterwards [%(default)s]")
    add("--own-epochs", type=count, default=10, help="epochs of a single domain [%(default)s]")
    add("--least-steps", type=count, default=200, help="minimum steps per domain [%(default)s]")
    add("--left-out", type=count, default=1, help="domains a transfer leaves out [%(default)s]")
    add("--pooling", choices=["max", "last"], default="max", help="of words [%(default)s]")
    add("--spelling-size", type=int, default=50, help="of taggers [%(default)s]")
    add("--max-words", type=count, default=25_000, help="vocabulary of taggers [%(default)s]")
    add("--optimizer", choices=list(RATES), default="adamw", help="[%(default)s]")
    add("--learning-rate", type=float, help="[0.002; taggers: 0.004; with adagrad: 0.1]")
    add("--n-texts", type=count, help="maximum of texts per domain, to save time [all]")
    add("--max-length", type=count, default=300, help="maximum words per text [%(default)s]")
    add("--cache", type=Path, default=Path("checkpoints/paper_004"), help="[%(default)s]")
    add("--output", type=Path, help="folder [benchmarks/results/paper_004, or _quick]")
    add("--quick", action="store_true", help="run in a minute, learning nothing")
    options = parser.parse_args(arguments)
    for name, tables in OF_TABLES.items():
        given = getattr(options, name) != parser.get_default(name)
        if given and options.table not in tables:
            parser.error(f"--{name.replace('_', '-')} is of table {' and '.join(tables)} alone")
    if options.models and not set(options.models) & {m for p in options.parts for m in PARTS[p]}:
        parser.error(f"none of these models is of part {' or '.join(options.parts)}")
    if options.quick:
        options.epochs, options.n_texts, options.max_length = 1, 20, 20
        options.own_epochs = options.least_steps = 1
        options.domains = options.domains or ["books", "music", "toys_games"]
    options.output = place_of(options.output, "paper_004", options.quick)
    rate, of_taggers = RATES[options.optimizer]
    options.learning_rate = options.learning_rate or (of_taggers if options.table == "5" else rate)
    vectors = options.folder / "word_vectors_100d.npz"
    if options.word_vectors is None and vectors.is_file():
        options.word_vectors = vectors
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    torch.set_num_threads(1)  # several trainings at once would wait for each other's threads
    options.output.mkdir(parents=True, exist_ok=True)
    COMMANDS[options.table](options)


def protocol(options, domains, *names):
    """Settings that change a score, other than its model, as JSON."""
    vectors = options.word_vectors and options.word_vectors.name
    always = ["epochs", "own_epochs", "least_steps", "n_texts", "max_length", "learning_rate"]
    always += ["optimizer"] * (options.optimizer != "adamw")  # older rows do not name it
    found = {name: getattr(options, name) for name in (*always, *names)} | {"vectors": vectors}
    return json.dumps(found | {"domains": "all" if domains is None else sorted(domains)})


class Scores:
    """Rows of a csv, each computed only once.

    Parameters
    ----------
    file : Path
    """

    def __init__(self, file):
        self.file = file
        self.rows = pd.read_csv(file).to_dict("records") if file.exists() else []

    def missing(self, key, names):
        """Return the names that have no score under a key (a dict)."""
        known = {
            row["name"] for row in self.rows if all(str(row[k]) == str(v) for k, v in key.items())
        }
        return [name for name in names if name not in known]

    def add(self, key, scores, **more):
        """Add scores, a dict by name, and write the csv."""
        self.rows += [{**key, "name": n, "score": s, **more} for n, s in scores.items()]
        frame = pd.DataFrame(self.rows)
        frame.to_csv(self.file, index=False, float_format="%.8g")
        print(key, f"{np.mean(list(scores.values())):.4f}", flush=True)


def reviews(options, split):
    """Return a dict from domains to (texts, labels)."""
    return first_of(load_reviews(options.folder, split, options.domains), options.n_texts)


def first_of(tasks, n):
    """Return the first ``n`` texts of each task, or all if ``n`` is None."""
    return {name: (X[:n], y[:n]) for name, (X, y) in tasks.items()}


def classifier(model, seed, options):
    return MetaLSTMClassifier(
        model.removesuffix(WIDE),
        word_vectors=options.word_vectors,
        pooling=options.pooling,
        wide=model.endswith(WIDE),
        max_epochs=options.own_epochs,
        max_length=options.max_length,
        learning_rate=options.learning_rate,
        optimizer=options.optimizer,
        random_state=seed,
    )


def long_enough(estimator, X, options):
    """Clone an estimator; with few texts, raise its epochs so that it takes ``least_steps``."""
    n_epochs = -(-options.least_steps // -(-len(X) // estimator.batch_size))
    return clone(estimator).set_params(max_epochs=max(estimator.max_epochs, n_epochs))


def table_3(options):
    """Compute accuracies on 16 domains: each alone, all jointly, and transfer to one left out."""
    train, valid, test = (reviews(options, split) for split in ("train", "valid", "test"))
    scores = Scores(options.output / "table_3.csv")
    for seed in range(options.seeds):
        for part in options.parts:
            for model in PARTS[part]:
                if options.models and model not in options.models:
                    continue
                key = {"part": part, "model": model, "seed": seed}
                settings = ("fine_tune", "pooling", "left_out")
                key["protocol"] = protocol(options, options.domains, *settings)
                left = scores.missing(key, train)
                if part == "single":
                    groups = [({n: train[n]}, {n: valid[n]}, [n]) for n in left]
                elif part == "transfer":
                    groups = leaving_out(options, train, valid, left)
                else:
                    groups = [(train, valid, left)] * bool(left)
                for of_train, of_valid, names in groups:
                    start = time.process_time()
                    sizes = {}
                    if part == "pooled":
                        readers = pooled(model, of_train, options)
                    else:
                        estimator = classifier(model, seed, options)
                        jointly(estimator, of_train, of_valid, options)
                        sizes["n_parameters"] = n_parameters(estimator.learner_)
                        readers = estimator.estimators_
                    if part == "multi" and not model.endswith(WIDE):
                        name = model + (options.optimizer != "adamw") * f", {options.optimizer}"
                        report.add_losses(estimator.history_, name, seed, options.output)
                    told = {}
                    for name in names:
                        own = readers.get(name)
                        if own is None:  # transfer
                            own = clone(estimator).fit(*train[name])
                        told[name] = own.score(*test[name])
                    scores.add(key, told, **sizes, seconds=time.process_time() - start)
    report.write_table_3(pd.DataFrame(scores.rows), options.output / "table_3.md")


def pooled(model, train, options):
    """Fit one linear model to the texts of all domains; return it for each domain."""
    texts = [text for X, _ in train.values() for text in X]
    linear = SharedAlone() if model == SHARED else peer(model, texts, options)
    linear.fit(texts, np.concatenate([y for _, y in train.values()]))
    return dict.fromkeys(train, linear)


def leaving_out(options, train, valid, wanted):
    """Yield train and valid without ``options.left_out`` domains, and those of them wanted."""
    names = list(train)
    for start in range(0, len(names), options.left_out):
        out = names[start : start + options.left_out]
        if some := [name for name in out if name in wanted]:
            yield *({n: d[n] for n in d if n not in out} for d in (train, valid)), some


def jointly(estimator, train, valid, options):
    """Meta-fit an estimator on several tasks or on one; its training state is cached."""
    alone = len(train) == 1
    epochs = options.own_epochs if alone else options.epochs
    # The network's training does not depend on the linear models beside it.
    parameters = {k: v for k, v in estimator.get_params().items() if k != "wide"}
    settings = protocol(options, list(train), "fine_tune") + repr(parameters)
    n_texts = sum(len(X) for X, _ in train.values())
    steps = max(epochs * n_texts // estimator.batch_size, options.least_steps * len(train))
    return estimator.meta_fit(
        train,
        validation_tasks=valid,
        max_steps=steps,
        eval_every=max(steps // (2 * epochs), 1),
        fine_tune_epochs=0 if alone else options.fine_tune,
        checkpoint_dir=options.cache / hashlib.sha256(settings.encode()).hexdigest()[:12],
        verbose=False,
    )


def n_parameters(learner):
    """Number of parameters without word vectors and output layers; torch's LSTM has two biases."""
    return sum(p.numel() for p in learner.backbones.parameters())


def table_5(options):
    """Score taggers: networks and linear models with a CRF, each domain alone and all jointly."""
    scores = Scores(options.output / "table_5.csv")
    settings = ["spelling_size"]
    # Older rows do not name these.
    settings += ["fine_tune"] * (options.fine_tune != 1)
    settings += ["max_words"] * (options.max_words != 25_000)
    settings = protocol(options, None, *settings)
    for dataset in options.tagging:
        train, valid, test = (
            first_of(
                load_tagging(options.folder, dataset, TAGGING[dataset], split), options.n_texts
            )
            for split in ("train", "valid", "test")
        )
        valid = {name: of_known_labels(*valid[name], train[name][1]) for name in train}
        for seed in range(options.seeds):
            for part, model in ((part, m) for part, models in TAGGERS.items() for m in models):
                key = {"data": dataset, "part": part, "model": model, "seed": seed}
                key["protocol"] = settings
                left = scores.missing(key, [n for n in train if n in test])
                groups = [[n] for n in left]
                if part == "multi":
                    groups = [list(train)] * bool(left and len(train) > 1)
                for names in groups:
                    of_train, of_valid = ({n: d[n] for n in names} for d in (train, valid))
                    estimator = tagger(model, seed, options)
                    jointly(estimator, of_train, of_valid, options)
                    found = {n: estimator.estimators_[n] for n in names if n in left}
                    alone = key | {"model": LINEAR_TAGGER}
                    if model.endswith(WIDE) and (names := scores.missing(alone, found)):
                        told = {n: linear_alone(found[n]).score(*test[n]) for n in names}
                        scores.add(alone, told)
                    # Added last, since a killed command resumes where these are missing.
                    scores.add(key, {n: one.score(*test[n]) for n, one in found.items()})
    report.write_table_5(pd.DataFrame(scores.rows), options.output / "table_5.md")


def of_known_labels(X, y, trained):
    """Keep sentences whose labels all occur in training: other labels have no validation loss."""
    known = {label for labels in trained for label in labels}
    kept = [i for i, labels in enumerate(y) if known.issuperset(labels)]
    return [X[i] for i in kept], [y[i] for i in kept]


def tagger(model, seed, options):
    return MetaLSTMTagger(
        model.removesuffix(WIDE),
        wide=model.endswith(WIDE),
        word_vectors=options.word_vectors,
        meta_width=30,
        spelling_size=options.spelling_size,
        max_words=options.max_words,
        learning_rate=options.learning_rate,
        optimizer=options.optimizer,
        random_state=seed,
    )


def curve(options):
    """Compute accuracies by labelled texts of a domain not seen in meta-training, beside peers."""
    everything = options.domains
    options.domains = None
    splits = {split: reviews(options, split) for split in ("train", "valid", "test")}
    scores = Scores(options.output / "curve.csv")
    train, valid, test = (splits[split] for split in ("train", "valid", "test"))
    settings = protocol(options, None, "fine_tune", "pooling", "left_out")
    wanted = everything or list(train)
    if unknown := [name for name in wanted if name not in train]:
        raise SystemExit(f"--domains: {unknown[0]!r} is none of {', '.join(train)}")
    for of_train, of_valid, names in leaving_out(options, train, valid, wanted):
        meta = {}
        for name in names:
            most = len(train[name][0])
            for n in [n for n in SIZES if n == SIZES[0] or n // 2 < most]:
                X, y = (part[:n] for part in train[name])
                for method in METHODS:
                    if method == ENGLISH and n > MOST_ENGLISH:
                        continue
                    key = {"method": method, "size": n, "protocol": settings}
                    if not scores.missing(key, [name]):
                        continue
                    if method in TRANSFER:
                        if method not in meta:
                            model = "meta_lstm" + method.removeprefix(TRANSFER[0])
                            begun = classifier(model, 0, options)
                            meta[method] = jointly(begun, of_train, of_valid, options)
                        estimator = clone(meta[method])
                    else:
                        estimator = peer(method, X, options)
                    known = [(X, y), *(of_train.values() if method == POOLED else ())]
                    texts = [text for domain, _ in known for text in domain]
                    estimator.fit(texts, np.concatenate([labels for _, labels in known]))
                    scores.add(key, {name: estimator.score(*test[name])})
    rows = pd.DataFrame(scores.rows)
    rows = rows[rows["protocol"] == settings]
    report.draw_curve(rows, options.output)


def change(options):
    """Draw Figure 4: weights that a Meta-LSTM trained on all domains generates, word by word."""
    train, valid = (reviews(options, split) for split in ("train", "valid"))
    readers = {}
    for model in ("meta_lstm", "ssp_mtl"):
        trained = jointly(classifier(model, 0, options), train, valid, options)
        readers[model] = trained.estimators_[DOMAIN]
    figure_4(readers, train, valid[DOMAIN], options.output)


def peer(method, X, options):
    if method == ENGLISH:
        return MetaLSTMClassifier(ENGLISH, max_length=options.max_length)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    if method == "LSTM":
        return long_enough(classifier("lstm", 0, options), X, options)
    if "Label" in method:
        return SpreadLabels(words)
    return make_pipeline(words, LogisticRegression(C=10))


COMMANDS = {"3": table_3, "5": table_5, "curve": curve, "change": change}

if __name__ == "__main__":
    main()
