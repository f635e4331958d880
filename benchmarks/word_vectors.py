"""Word vectors of 200 numbers for benchmarks/paper_004.py, which has no GloVe.

    pip install wordllama==0.4.0.post1
    python benchmarks/word_vectors.py --output word_vectors_200d.npz

The first half of each is the vector of the folder, of how words stand together in reviews; the
other half is that of WordLlama, of general text: its 256 numbers (the mean of a word's pieces) of
length one, and of these the first 100 principal components.
"""

import argparse
from pathlib import Path

import numpy as np
from arguments import add_folder
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add_folder(parser, "--folder", "text", "of word_vectors_100d.npz")
    add("--output", type=Path, default=Path("word_vectors_200d.npz"), help="[%(default)s]")
    args = parser.parse_args(arguments)
    with np.load(args.folder / "word_vectors_100d.npz") as file:
        words, own = file["words"], file["vectors"].astype(np.float32)
    np.savez(args.output, words=words, vectors=beside(own, general(words)).astype(np.float16))


def general(words):
    """WordLlama's vectors of some words, (n_words, 256)."""
    import wordllama

    # The package brings the files, and looks for one of them elsewhere.
    place = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=256, cache_dir=place, disable_download=True)
    return model.embed(list(words))


def beside(own, other):
    """Vectors and as many principal components of others, with the same deviation."""
    n = own.shape[1]
    components = PCA(n, svd_solver="covariance_eigh").fit_transform(normalize(other))
    return np.hstack([own, components * (own.std() / components.std())])


if __name__ == "__main__":
    main()
