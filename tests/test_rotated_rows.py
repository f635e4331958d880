"""Linear models may be fitted in the space that few rows span."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from sklearn_meta import rotated_rows
from sklearn_meta.rotated_rows import fit_linear, rotated

ROWS = arrays(float, (7, 12), elements=st.floats(-2, 2, width=16))


@given(ROWS)
def test_they_have_the_products_they_had(X):
    rows, axes = rotated(csr_array(X))
    assert rows.shape[1] <= 7
    assert_allclose(rows @ rows.T, X @ X.T, atol=1e-10)
    assert_allclose(rows @ (axes @ X), X, atol=1e-5)  # up to rounding


@pytest.mark.parametrize("sparse", [csr_array, csr_matrix])
@given(ROWS, st.integers(3, 5), st.sampled_from([0.1, 10.0]))
@settings(max_examples=10)
def test_a_model_is_what_it_is_of_all_columns(sparse, X, n_labels, C):
    assume(np.abs(X).max() > 0.1)
    y = np.arange(7) % n_labels
    precise = {"C": C, "tol": 1e-8, "max_iter": 5000}
    found = fit_linear(LogisticRegression(**precise), sparse(X), y)
    expected = LogisticRegression(**precise).fit(sparse(X), y)
    assert found.coef_.shape == expected.coef_.shape
    # Both stop by rounding: for equal rows coefficients hardly matter, so compare the loss.
    assert_allclose(loss(found, X, y), loss(expected, X, y), rtol=1e-7)


def loss(model, X, y):
    """The loss that LogisticRegression minimises."""
    told = model.predict_log_proba(X)[np.arange(len(y)), y]
    return (model.coef_**2).sum() / 2 - model.C * told.sum()


def test_equal_rows_and_texts_of_many_words():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(3000)])
    topics = np.arange(60) % 4
    texts = [" ".join(rng.choice(words[topic * 500 :], 30)) for topic in topics] * 2
    y = np.tile(topics, 2)
    X = TfidfVectorizer().fit_transform(texts)
    found, expected = fit_linear(LogisticRegression(C=30), X, y), LogisticRegression(C=30).fit(X, y)
    assert_allclose(found.coef_, expected.coef_, atol=1e-8)
    assert_array_equal(found.n_features_in_, expected.n_features_in_)


def test_rows_of_no_words():
    found = fit_linear(LogisticRegression(), csr_array((6, 4)), [0, 0, 0, 1, 1, 2])
    expected = LogisticRegression().fit(csr_array((6, 4)), [0, 0, 0, 1, 1, 2])
    assert_allclose(found.predict_proba(np.eye(4)), expected.predict_proba(np.eye(4)), atol=1e-6)


@pytest.mark.parametrize("reason", ["two labels", "many rows", "many rows of a label"])
def test_else_it_is_fitted_as_it_is(reason, monkeypatch):
    def refuse(X):
        raise AssertionError("rows were turned")

    monkeypatch.setattr(rotated_rows, "rotated", refuse)
    if reason != "two labels":
        limit = {"many rows": ("MOST_ROWS", 11), "many rows of a label": ("A_LABEL", 3)}[reason]
        monkeypatch.setattr(rotated_rows, *limit)
    y = np.arange(12) % (2 if reason == "two labels" else 3)
    X = csr_array(np.random.default_rng(0).standard_normal((12, 30)))
    expected = LogisticRegression().fit(X, y)
    assert_array_equal(fit_linear(LogisticRegression(), X, y).coef_, expected.coef_)
