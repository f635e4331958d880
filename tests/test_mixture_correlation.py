"""Mixtures whose columns are correlated, or in which many points share a value."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from sklearn_meta import AmortizedGMM
from sklearn_meta.mixture_jobs import Job, Units, decorrelation, may_be_decorrelated


def standardised(rng, n_samples, n_columns):
    mixing = rng.standard_normal((n_columns, n_columns))
    X = rng.standard_normal((n_samples, n_columns)) @ mixing
    return StandardScaler().fit_transform(X)


def decorrelated(X, n_padded=0, varied=True):
    """The two matrices with which one set is read a second time, as part of a padded batch.

    They are identities for a set that is not read again. Some columns may be constant.
    """
    n, d = X.shape
    varied = np.broadcast_to(varied, (1, d)).copy()
    if not may_be_decorrelated(Job(X, Units(np.zeros(d), np.ones(d), ~varied[0]), 1)):
        return np.eye(d), np.eye(d)
    x = torch.from_numpy(np.vstack([X, np.zeros((n_padded, d))]))[None]
    mask = torch.arange(n + n_padded)[None] < n
    return [matrix[0].numpy() for matrix in decorrelation(x, mask, torch.from_numpy(varied))]


@given(st.integers(17, 40), st.integers(1, 12), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_the_covariance_is_that_of_ledoit_and_wolf(n_samples, n_columns, n_padded, seed):
    X = standardised(np.random.default_rng(seed), n_samples, n_columns)
    into, back = decorrelated(X, n_padded)
    assert_allclose(back @ back, ledoit_wolf(X)[0], rtol=1e-6, atol=2e-6)
    assert_allclose(into @ back, np.eye(n_columns), atol=1e-9)


def test_columns_that_are_not_read_stay_as_they_are(seed=0):
    X = standardised(np.random.default_rng(seed), 30, 4)
    varied = np.array([True, False, True, True])
    for matrix, alone in zip(decorrelated(X, varied=varied), decorrelated(X[:, varied])):
        assert_allclose(matrix[np.ix_(varied, varied)], alone, atol=1e-12)
        assert_allclose(matrix[1], [0, 1, 0, 0], atol=1e-12)
        assert_allclose(matrix[:, 1], [0, 1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("n_points", [2, 16])
def test_of_few_points_no_correlation_is_learned(n_points):
    X = standardised(np.random.default_rng(0), n_points, 2)
    for matrix in decorrelated(X, n_padded=3):
        assert_allclose(matrix, np.eye(2), atol=1e-12)


def test_columns_are_decorrelated_where_no_eighth_of_the_points_shares_a_value():
    ranks = np.arange(17.0)
    for highest, may in ((16, True), (15, True), (14, False)):
        X = np.column_stack([ranks, np.minimum(ranks, highest)])
        for points in (X, -X):
            assert may_be_decorrelated(Job(points, Units.of(points, False), 1)) == may
    few = np.column_stack([ranks, ranks])[:16]
    assert not may_be_decorrelated(Job(few, Units.of(few, False), 1))
    alone = X[:, :1]
    assert not may_be_decorrelated(Job(alone, Units.of(alone, False), 1))


@given(st.integers(17, 60), st.floats(0.3, 0.95), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_beside_a_value_that_many_points_share_none_is_learned(n_points, share, n_padded, seed):
    rng = np.random.default_rng(seed)
    X = standardised(rng, n_points, 3)
    X[rng.permutation(n_points)[: int(share * n_points) + 1], 1] = rng.standard_normal()
    for matrix in decorrelated(X, n_padded):
        assert_allclose(matrix, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("n_init", [1, 4])
@pytest.mark.parametrize(("n_points", "n_columns"), [(32, 16), (50, 30)])
def test_components_of_few_points_in_many_columns_are_told(n_points, n_columns, n_init):
    """One covariance for all points is likelier than two here, but worse for new points."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(2, n_columns))
    labels = rng.integers(0, 2, n_points)
    X = centres[labels] + rng.normal(size=(n_points, n_columns))
    mixture = AmortizedGMM(2, n_init=n_init).fit(X)
    assert adjusted_rand_score(labels, mixture.predict(X)) > 0.8


def test_one_component_has_the_correlations_of_all_points():
    X = load_breast_cancer().data[:, :6]
    covariance = AmortizedGMM(1).fit(X).covariances_[0]
    std = np.sqrt(np.diagonal(covariance))
    correlations = np.corrcoef(X, rowvar=False)
    assert_allclose(covariance / np.outer(std, std), correlations, atol=0.02)
    assert correlations[0, 2] > 0.99  # a radius and a perimeter


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_new_rows_are_about_as_likely_as_by_em(n_components):
    X = StandardScaler().fit_transform(load_breast_cancer().data[:, :6])
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        X_fit, X_new = X[order[:400]], X[order[400:]]
        found.append([
            AmortizedGMM(n_components, covariance_type="full").fit(X_fit).score(X_new),
            AmortizedGMM(n_components, covariance_type="diag").fit(X_fit).score(X_new),
            GaussianMixture(n_components, n_init=3, random_state=0).fit(X_fit).score(X_new),
        ])  # fmt: skip
    full, diag, peer = np.mean(found, axis=0)
    assert full > peer - 0.4  # without decorrelation it is a nat behind
    assert full > diag + 2


def test_repeated_columns_give_finite_answers():
    X = standardised(np.random.default_rng(0), 60, 2)
    X = np.column_stack([X, X[:, :1], -2 * X[:, 1:]])
    mixture = AmortizedGMM(2).fit(X)
    assert np.isfinite(mixture.score_samples(X)).all()
    std = np.sqrt(np.diagonal(mixture.covariances_, axis1=1, axis2=2))
    assert_allclose(mixture.covariances_[:, 0, 2], std[:, 0] * std[:, 2], rtol=0.01)
    assert_allclose(mixture.covariances_[:, 1, 3], -std[:, 1] * std[:, 3], rtol=0.01)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize(
    "column, least", [("flags", 0.9), ("half", 0.9), ("rare", 0.9), ("amounts", 0.6)]
)
def test_a_column_of_few_values_does_not_hide_the_clusters(covariance_type, column, least):
    scores = []
    for seed in range(4):
        X, y = make_blobs(300, 4, centers=3, random_state=seed)
        rng = np.random.default_rng(seed)
        u = rng.uniform(size=300)
        shown = {
            "flags": u < 0.2,
            "half": u < 0.5,
            "rare": u < 0.05,
            "amounts": (u < 0.1) * rng.exponential(size=300),
        }[column]
        mixture = AmortizedGMM(3, covariance_type=covariance_type)
        scores.append(adjusted_rand_score(y, mixture.fit_predict(np.column_stack([X, shown]))))
    assert np.mean(scores) > least  # when equal values stretched the column, this was 0.0 to 0.5
