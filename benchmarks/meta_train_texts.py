"""Recipe of the weights ``english_reviews``: meta-trains a classifier of opinions, writes its card.

    python benchmarks/meta_train_texts.py --texts FOLDER

Training data are English opinions of the corpora movie_reviews, pros_cons and product_reviews,
which NLTK distributes under CC BY 4.0. The tasks are whether a film's review, a product's pros or
cons, or a sentence on a product is positive. Word vectors are computed from the same texts. After a
kill, the same command resumes.
"""

import argparse

import numpy as np
from recipe import add_text_arguments, save
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD

from sklearn_meta import MetaLSTMClassifier
from sklearn_meta.callbacks import CSVLog
from sklearn_meta.tasks.reviews import rows_by_domain
from sklearn_meta.tasks.texts import tokens_of, vocabulary

#: Task of each domain, by the file's names; all other domains but OTHERS belong to "products".
TASKS = {"movies": "films", "products": "pros and cons"}

#: Domain that is left out. It has two sets: subjectivity, whose labels are not about good and bad,
#: and sentence_polarity, which has the texts of a test set (the domain MR of FDU-MTL).
OTHERS = ("movie sentences",)

DATA = (
    "movie_reviews (Pang & Lee 2004), pros_cons (Ganapathibhotla & Liu 2008) and "
    "product_reviews_1 and _2 (Hu & Liu 2004; Ding et al. 2008) of NLTK, split train, CC BY 4.0"
)

#: Number of words before and after a word that are its context, and the exponent that discounts
#: frequent contexts.
WINDOW, SMOOTHING = 5, 0.75


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--embedding-size", type=int, default=100, help="of word vectors [%(default)s]")
    add("--piece", type=int, default=100, help="maximum words of a piece of text [%(default)s]")
    settings = {"n_words": 12_000, "max_steps": 6000, "learning_rate": 2e-3}
    add_text_arguments(parser, "english_reviews", "nltk_sentiment.parquet", **settings)
    return parser.parse_args(arguments)


def read_tasks(folder, split, piece):
    """Return three tasks, a dict from names to (lists of words, labels); long texts are cut.

    Parameters
    ----------
    folder : Path
    split : {"train", "valid"}
    piece : int
        Maximum number of words of a piece.

    Returns
    -------
    dict
    """
    tasks = {name: ([], []) for name in (*TASKS.values(), "products")}
    rows = rows_by_domain(folder / "nltk_sentiment.parquet", ["text", "label"], split)
    for domain, (texts, labels) in rows.items():
        if domain in OTHERS:
            continue
        X, y = tasks[TASKS.get(domain, "products")]
        for words, label in zip(tokens_of(texts), labels):
            for start in range(0, len(words), piece):
                X.append(words[start : start + piece])
                y.append(label)
    return {name: (X, np.array(y)) for name, (X, y) in tasks.items()}


def word_vectors(texts, n_words, size, seed):
    """Compute word vectors of some texts by an SVD of positive pointwise mutual information.

    O. Levy, Y. Goldberg. Neural word embedding as implicit matrix factorization. NeurIPS 2014.

    Parameters
    ----------
    texts : list of lists of str
    n_words, size, seed : int

    Returns
    -------
    words : list of str
    vectors : ndarray of shape (n_words, size)
    """
    words = vocabulary(texts, min_df=2, max_words=n_words)
    number = {word: i for i, word in enumerate(words)}
    known = [np.array([number[w] for w in text if w in number], dtype=np.int64) for text in texts]
    pairs = [(t[:-k], t[k:]) for t in known for k in range(1, WINDOW + 1) if len(t) > k]
    one, other = (np.concatenate(side) for side in zip(*pairs))
    counts = csr_array((np.ones(len(one)), (one, other)), shape=(len(words),) * 2)
    counts = (counts + counts.T).tocoo()
    total = np.maximum(counts.sum(axis=1), 1.0)
    context = total**SMOOTHING / (total**SMOOTHING).sum()
    i, j = counts.coords
    information = np.log(counts.data / total[i] / context[j])
    positive = csr_array((information.clip(0), (i, j)), shape=counts.shape)
    svd = TruncatedSVD(size, random_state=seed)
    return words, svd.fit_transform(positive) / np.sqrt(svd.singular_values_)


def main(arguments=None):
    args = parse_arguments(arguments)
    tasks = {split: read_tasks(args.texts, split, args.piece) for split in ("train", "valid")}
    texts = [words for X, _ in tasks["train"].values() for words in X]
    estimator = MetaLSTMClassifier(
        word_vectors=word_vectors(texts, args.n_words, args.embedding_size, args.seed),
        max_words=args.n_words,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        random_state=args.seed,
    )
    estimator.meta_fit(
        tasks["train"],
        validation_tasks=tasks["valid"],
        max_steps=args.max_steps,
        eval_every=500,
        callbacks=[CSVLog(args.log)] if args.log else None,
        checkpoint_dir=args.checkpoint_dir,
        verbose=args.log is None,
    )
    validation = {
        name: float(estimator.estimators_[name].score(*pair))
        for name, pair in tasks["valid"].items()
    }
    scores = {"split": "valid", "accuracy": validation}
    save(estimator.learner_, args, __file__, data=DATA, validation=scores)


if __name__ == "__main__":
    main()
