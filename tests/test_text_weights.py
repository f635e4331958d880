"""The weights for MetaLSTMClassifier that the package ships."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_meta import MetaLSTMClassifier
from sklearn_meta.tasks import load_reviews
from sklearn_meta.weights import load_learner
from sklearn_meta.weights.store import FOLDER

REVIEWS = Path(
    os.environ.get("SKLEARN_META_TEXT") or Path(__file__).parents[1] / "../shared/data/text"
)
NAME = "english_reviews"

GOOD = [
    "works perfectly and the battery lasts for days, i love it",
    "great little phone, easy to use and very well made",
    "a wonderful, moving story with excellent acting",
    "beautiful screen, excellent sound, highly recommended",
    "one of the best books i have read this year",
    "sturdy, comfortable and cheap: a great buy",
    "arrived quickly and it does everything that i wanted",
    "funny and warm from start to finish, simply great",
]
BAD = [
    "stopped working after a week and nobody answers, a waste of money",
    "terrible sound, poor screen, i returned it",
    "boring, badly written, and much too long",
    "the worst film of the year, dull and stupid",
    "cheap plastic that broke at once, very disappointed",
    "the software crashes all the time, useless",
    "uncomfortable and overpriced, do not buy this",
    "i wanted to like it but it is awful and slow",
]


def test_they_are_small_and_their_card_tells_where_they_come_from():
    assert (FOLDER / f"{NAME}.safetensors").stat().st_size < 8e6
    card = load_learner(NAME).card
    assert card["recipe"]["command"] == "python benchmarks/meta_train_texts.py"
    assert "CC BY 4.0" in card["data"] and "sentence_polarity" not in card["data"]
    assert min(card["validation"]["accuracy"].values()) > 0.7
    assert "/" not in str(card["recipe"]).replace("benchmarks/", "")  # no path of a machine


def test_a_few_labelled_texts_tell_which_label_is_praise():
    """Four texts with each label, in a user's own words, and four of each to predict."""
    X, y = GOOD[:4] + BAD[:4], ["praise"] * 4 + ["complaint"] * 4
    classifier = MetaLSTMClassifier(NAME, random_state=0).fit(X, y)
    told = classifier.predict(GOOD[4:] + BAD[4:])
    assert np.mean(told == ["praise"] * 4 + ["complaint"] * 4) >= 0.75


@pytest.mark.skipif(not (REVIEWS / "fdu_mtl.parquet").is_file(), reason="no reviews here")
def test_few_reviews_of_a_domain_are_worth_more_than_to_a_linear_model():
    domains = ["books", "health_personal_care"]
    train, valid = (load_reviews(REVIEWS, split, domains) for split in ("train", "valid"))
    ours, peers = [], []
    for name in domains:
        X, y = (part[:20] for part in train[name])
        classifier = MetaLSTMClassifier(NAME, max_length=50, random_state=0)
        ours.append(classifier.fit(X, y).score(*valid[name]))
        peer = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10))
        peers.append(peer.fit(X, y).score(*valid[name]))
    assert np.mean(ours) > np.mean(peers) + 0.03
