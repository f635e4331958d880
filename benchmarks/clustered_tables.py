"""Tables whose classes are clusters in many columns: vectors of drawings and of texts.

meta_train_default.py trains on them in its last stage: few targets of real tables and of the prior
are of this kind, but targets of users' pictures and texts are.
"""

import numpy as np
from omniglot_splits import characters
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from sklearn_meta.tasks import Drawings, as_dataset
from sklearn_meta.tasks.reviews import rows_by_domain

#: Components of a vector; minimum and maximum number of columns of a table.
N_COMPONENTS, N_COLUMNS = 60, (4, 60)

#: Side length of drawings in pixels; widths of the blur; range of the number of fields per side.
SIDE, BLURS, FIELDS = 28, (0.7, 1.5, 2.5), (5, 9)

#: Domains of nltk_sentiment.parquet that are left out: the film sentences contain texts of a test
#: set (the domain MR of FDU-MTL).
OTHERS = ("movie sentences",)

#: Maximum number of texts per domain; number of frequent words that may be columns.
N_TEXTS, N_WORDS = 3000, 400

#: Maximum number of rows per class, and minimum when a share of them is taken.
MOST, LEAST = 200, 12


class DrawingTables:
    """Source of tables of Omniglot's drawings; columns are components or fields of the pictures.

    A class is one, two or three characters, whose drawings are turned and shifted.

    Parameters
    ----------
    folder : Path
        Folder of Omniglot; its split "train" is read.
    """

    names = ("Omniglot",)

    def __init__(self, folder):
        self.drawings, y = characters(folder, "train").dataset[1:3]
        self.rows_of = [np.flatnonzero(y == c) for c in range(y.max() + 1)]
        plain = Drawings(SIDE, augment=False)(self.drawings[::4], y[::4], None)
        self.axes = {b: PCA(N_COMPONENTS, random_state=0).fit(blurred(plain, b)) for b in BLURS}

    def draw(self, rng):
        """One table; a Dataset."""
        n_classes = int(rng.choice([2, 3, 4, 5, 6, 8, 10, 10, 10]))
        n_characters = n_classes * int(rng.choice([1, 1, 1, 2, 3]))
        chosen = rng.choice(len(self.rows_of), n_characters, replace=False)
        n_copies = int(rng.choice([1, 1, 2, 3]))
        rows = [np.tile(self.rows_of[c], n_copies) for c in chosen]
        character = np.repeat(np.arange(n_characters), [len(r) for r in rows])
        kept = some_rows(character % n_classes, rng)
        rows, character = np.concatenate(rows)[kept], character[kept]
        pictures = Drawings(SIDE, stretch=0.1)(self.drawings[rows], character, rng)
        if rng.random() < 0.7:
            blur = float(rng.choice(BLURS))
            X = some_columns(self.axes[blur].transform(blurred(pictures, blur)), rng)
        else:
            side = int(rng.integers(*FIELDS, endpoint=True))
            X = fields(blurred(pictures, rng.uniform(0, 1.5)), side)
            if rng.random() < 0.5:
                X = np.round(16 * X / X.max())  # few shades
        return as_dataset(X, character % n_classes)


class TextTables:
    """Source of tables of English opinions; columns are components or weights of frequent words.

    Classes are the subjects of the texts (films or products), or whether a text is positive.

    Parameters
    ----------
    folder : Path
        Folder of ``nltk_sentiment.parquet``; its split "train" is read.
    """

    names = ("movie_reviews", "pros_cons", "product_reviews")

    def __init__(self, folder):
        read = rows_by_domain(folder / "nltk_sentiment.parquet", ["text", "label"], "train")
        texts, self.opinion, self.domain = [], [], []
        rng = np.random.default_rng(0)
        for domain, (of_domain, labels) in read.items():
            if domain not in OTHERS:
                chosen = rng.permutation(len(of_domain))[:N_TEXTS]
                texts += [of_domain[i] for i in chosen]
                self.opinion += [labels[i] for i in chosen]
                self.domain += [domain] * len(chosen)
        self.opinion, self.domain = (
            np.array(self.opinion),
            np.unique(self.domain, return_inverse=True)[1],
        )
        weights = TfidfVectorizer(min_df=4, sublinear_tf=True, stop_words="english")
        weights = weights.fit_transform(texts)
        self.components = TruncatedSVD(N_COMPONENTS, random_state=0).fit_transform(weights)
        frequent = np.argsort(-weights.getnnz(axis=0), kind="stable")[:N_WORDS]
        self.words = weights[:, frequent].toarray()

    def draw(self, rng):
        """One table; a Dataset."""
        n_domains = self.domain.max() + 1
        if rng.random() < 0.7:
            chosen = rng.choice(n_domains, int(rng.choice([2, 3, 4, 5, 6, 8, 10])), replace=False)
            rows, y = np.flatnonzero(np.isin(self.domain, chosen)), self.domain
        else:
            rows, y = np.flatnonzero(self.domain == rng.integers(n_domains)), self.opinion
        rows = rows[some_rows(y[rows], rng)]
        if rng.random() < 0.8:
            X = self.components[rows]
            X = some_columns(normalize(X) if rng.random() < 0.5 else X, rng)
        else:
            X = self.words[rows][:, rng.choice(self.words.shape[1], n_columns(rng), replace=False)]
        return as_dataset(X, y[rows])


def blurred(pictures, blur):
    """Blur pictures (n, SIDE * SIDE) by a number of pixels."""
    flat = pictures.shape
    return gaussian_filter(pictures.reshape(-1, SIDE, SIDE), (0, blur, blur)).reshape(flat)


def fields(pictures, side):
    """Sum the ink in side x side fields of nearly equal size; returns (n, side * side)."""
    starts = np.linspace(0, SIDE, side + 1).astype(int)[:-1]
    rows = np.add.reduceat(pictures.reshape(-1, SIDE, SIDE), starts, axis=1)
    return np.add.reduceat(rows, starts, axis=2).reshape(len(pictures), -1)


def n_columns(rng):
    """Draw a number of columns, log-uniformly."""
    low, high = np.log(N_COLUMNS)
    return int(np.exp(rng.uniform(low, high)))


def some_columns(components, rng):
    """Take the first components, or projections of all, half of them cut off below the mean."""
    n = n_columns(rng)
    if rng.random() < 2 / 3:
        return components[:, :n]
    X = components @ rng.normal(size=(components.shape[1], n))
    return np.maximum(X, X.mean(0)) if rng.random() < 0.5 else X


def some_rows(y, rng):
    """Positions of up to MOST rows per class; half of the time, only a random share per class."""
    rows_of = [rng.permutation(np.flatnonzero(y == c))[:MOST] for c in np.unique(y)]
    if rng.random() < 0.5:
        shares = np.exp(rng.uniform(np.log(0.1), 0, len(rows_of)))
        rows_of = [r[: max(LEAST, int(s * len(r)))] for r, s in zip(rows_of, shares)]
    return np.sort(np.concatenate(rows_of))
