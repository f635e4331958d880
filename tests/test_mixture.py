"""AmortizedGMM as a scikit-learn user meets it."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import AmortizedGMM
from sklearn_meta.heads.gaussian_mixture import COVARIANCE_TYPES
from sklearn_meta.mixture_jobs import Job, first_ranks, groups_of_like_size, likeliest
from sklearn_meta.mixture_learner import MixtureLearner
from sklearn_meta.tasks import MixturePrior, MixtureSets
from sklearn_meta.weights import save_learner

ALL_TYPES = pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
KINDS = st.sampled_from(COVARIANCE_TYPES)


def random_learner(seed=0):
    """A network whose advice is random: what holds for it holds for any."""
    small = {"width": 8, "n_heads": 2, "n_layers": 1, "n_rounds": 2}
    learner = MixtureLearner(backbone_config=small).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.parameters():
        parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return learner.eval()


LEARNER = random_learner()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Save the random weights as a file."""
    return str(save_learner(LEARNER, tmp_path_factory.mktemp("weights") / "random.safetensors"))


def double(n_components, covariance_type="full", **parameters):
    return AmortizedGMM(
        n_components,
        covariance_type=covariance_type,
        backbone=LEARNER,
        dtype="float64",
        **parameters,
    )


@parametrize_with_checks(
    [
        AmortizedGMM(covariance_type="diag", backbone="random"),
        AmortizedGMM("auto", max_components=3, refine_steps=1, backbone="random"),
        AmortizedGMM(),
    ]
)
def test_sklearn_checks(estimator, check, path):
    check(estimator if estimator.backbone == "default" else estimator.set_params(backbone=path))


# -- properties -----------------------------------------------------------------------------------


@st.composite
def drawn_sets(draw, n_sets=1):
    """Clouds of points without duplicates, and the number of components to look for."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sets = []
    for _ in range(n_sets):
        n_columns, k = draw(st.integers(1, 5)), draw(st.integers(1, 5))
        n = draw(st.integers(max(k, 3), 60))
        x = rng.uniform(-4, 4, (k, n_columns))[rng.integers(0, k, n)]
        sets.append((x + rng.lognormal(-1, 1) * rng.standard_normal(x.shape), k))
    return sets if n_sets > 1 else sets[0]


def rescaled(mixture, slope):
    """Return the covariances after every column was multiplied by its slope."""
    if mixture.covariance_type == "spherical":
        return mixture.covariances_ * slope[0] ** 2
    if mixture.covariance_type == "diag":
        return mixture.covariances_ * slope**2
    return mixture.covariances_ * np.outer(slope, slope)


@given(drawn_sets(), KINDS, st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_order_of_points_and_columns_does_not_matter(drawn, covariance_type, steps, seed):
    X, k = drawn
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    before = double(k, covariance_type, refine_steps=steps).fit(X)
    after = double(k, covariance_type, refine_steps=steps).fit(X[rows][:, columns])
    # Components are ordered as their seeds, which does not depend on the order of points.
    proba = before.predict_proba(X)
    assert_allclose(after.predict_proba(X[:, columns]), proba, atol=1e-6)
    assert_allclose(after.weights_, before.weights_, atol=1e-8)
    assert_allclose(after.means_, before.means_[:, columns], atol=1e-7)
    expected = before.covariances_
    if covariance_type != "spherical":
        expected = expected[..., columns]
    if covariance_type == "full":
        expected = expected[:, columns]
    assert_allclose(after.covariances_, expected, rtol=1e-6, atol=1e-7)


@given(drawn_sets(), KINDS, st.integers(0, 2), st.integers(0, 2**32 - 1), st.sampled_from([1, 8]))
def test_units_do_not_matter(drawn, covariance_type, steps, seed, exponent):
    """Shifted, scaled and mirrored points give the same mixture in the new units."""
    X, k = drawn
    rng = np.random.default_rng(seed)
    slope = 10.0 ** rng.uniform(-exponent, exponent, X.shape[1])
    if covariance_type == "spherical":
        slope[:] = slope[0]
    sign = rng.choice([-1, 1], X.shape[1])
    shift = 3 * slope * rng.standard_normal(X.shape[1])
    Z = sign * slope * X + shift
    before = double(k, covariance_type, refine_steps=steps).fit(X)
    after = double(k, covariance_type, refine_steps=steps).fit(Z)
    assert_allclose(after.predict_proba(Z), before.predict_proba(X), atol=1e-5)
    assert_allclose(after.weights_, before.weights_, atol=1e-7)
    assert_allclose((after.means_ - shift) / (sign * slope), before.means_, atol=1e-6)
    log_volume = np.log(slope).sum()
    assert_allclose(after.score_samples(Z) + log_volume, before.score_samples(X), atol=1e-5)
    assert_allclose(after.lower_bound_ + log_volume, before.lower_bound_, atol=1e-6)
    signed = sign * slope if covariance_type == "full" else slope
    found, expected, rounding = after.covariances_, rescaled(before, signed), 0.0
    if covariance_type == "full":  # uncorrelated columns: nothing but rounding
        std = np.sqrt(np.diagonal(expected, axis1=1, axis2=2))
        unit = std[:, :, None] * std[:, None]
        found, expected, rounding = found / unit, expected / unit, 1e-12
    assert_allclose(found, expected, rtol=1e-5, atol=rounding)
    number = before._mixture.bic(X) - 2 * len(X) * -before._mixture.score(X)
    fit = -2 * len(X) * after.score(Z)
    rounding = 3e-10 * max(abs(fit), abs(number))  # the terms may cancel
    assert_allclose(after.bic(Z), fit + number, rtol=1e-9, atol=rounding)


@settings(max_examples=12)
@given(drawn_sets(n_sets=3), KINDS, st.integers(0, 2))
def test_batches_equal_one_by_one(drawn, covariance_type, steps):
    """Sets of any size and width are padded if read together."""
    sets = [X for X, _ in drawn] + [drawn[0][0][:-1]]
    k = min(len(sets[-1]), *(k for _, k in drawn))
    mixture = double(k, covariance_type, refine_steps=steps)
    fitted = mixture.fit_batch(sets)
    assert not hasattr(mixture, "weights_")
    for X, one in zip(sets, fitted, strict=True):
        alone = double(k, covariance_type, refine_steps=steps).fit(X)
        for name in ("weights_", "means_", "covariances_", "precisions_cholesky_", "lower_bound_"):
            assert_allclose(getattr(one, name), getattr(alone, name), rtol=1e-6, atol=1e-7)
        assert_allclose(one.predict_proba(X), alone.predict_proba(X), atol=1e-6)
        assert one.get_params() == mixture.get_params()
        assert one.n_features_in_ == X.shape[1]


@given(
    st.lists(st.tuples(st.integers(2, 40), st.integers(1, 2), st.integers(1, 2)), max_size=12),
    st.integers(1, 400),
)
def test_groups_of_sets_pad_little_and_are_bounded(sizes, max_cells):
    jobs = [Job(np.zeros((n, d)), None, k) for n, d, k in sizes]
    groups = list(groups_of_like_size(jobs, max_cells))
    assert sorted(sum(groups, [])) == list(range(len(jobs)))  # each once
    for group in groups:
        own = [sizes[i] for i in group]
        points = [n for n, _, _ in own]
        assert len({(d, k) for _, d, k in own}) == 1 and max(points) <= 1.25 * min(points)
        assert len(group) == 1 or len(group) * np.prod(max(own)) <= max_cells


@given(drawn_sets(), KINDS)
def test_steps_of_em_never_lower_the_likelihood(drawn, covariance_type):
    X, k = drawn
    scores = [double(k, covariance_type, refine_steps=s).fit(X).score(X) for s in range(4)]
    assert (np.diff(scores) >= -1e-7 * (1 + np.abs(scores[1:]))).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(drawn_sets(), KINDS, st.integers(0, 2))
def test_attributes_are_scikit_learns(drawn, covariance_type, steps):
    """Shapes agree, and scikit-learn's estimator with these attributes gives the same answers."""
    X, k = drawn
    ours = double(k, covariance_type, refine_steps=steps, random_state=0).fit(X)
    theirs = GaussianMixture(k, covariance_type=covariance_type, max_iter=1, random_state=0)
    theirs.fit(X + 1e-3 * np.random.default_rng(0).standard_normal(X.shape))
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        assert getattr(ours, name).dtype == np.float64
        setattr(theirs, name, getattr(ours, name))
    assert_allclose(ours.weights_.sum(), 1)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-6, atol=1e-6)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert_array_equal(ours.predict(X), ours.predict_proba(X).argmax(1))
    assert_allclose(ours.bic(X), theirs.bic(X), rtol=1e-6)
    assert_allclose(ours.aic(X), theirs.aic(X), rtol=1e-6)
    assert_allclose(ours.lower_bound_, ours.score(X), rtol=1e-9, atol=1e-9)
    assert ours.n_components_ == k and ours.n_iter_ == steps and ours.converged_
    assert_array_equal(ours.fit_predict(X), ours.predict(X))
    factors, covariances = ours.precisions_cholesky_, ours.covariances_
    if covariance_type == "full":
        assert_array_equal(factors, np.triu(factors))
        assert_allclose(factors @ factors.mT, ours.precisions_, rtol=1e-9)
        identity = np.broadcast_to(np.eye(X.shape[1]), covariances.shape)
        assert_allclose(factors.mT @ covariances @ factors, identity, atol=1e-5)
    else:
        assert_allclose(factors**2, ours.precisions_)
        assert_allclose(ours.precisions_ * covariances, 1)


@ALL_TYPES
def test_samples_have_the_moments_of_the_mixture(covariance_type):
    X, _ = make_blobs(200, centers=3, n_features=3, random_state=0)
    X = X * [1, 100, 0.01] + [0, 1e4, 5] if covariance_type != "spherical" else X
    mixture = double(3, covariance_type, random_state=0).fit(X)
    samples, labels = mixture.sample(30_000)
    assert samples.shape == (30_000, 3)
    assert_allclose(np.bincount(labels, minlength=3) / 30_000, mixture.weights_, atol=0.02)
    for k in np.flatnonzero(mixture.weights_ > 0.1):
        own = samples[labels == k]
        covariance = mixture.covariances_[k]
        if covariance_type != "full":
            covariance = np.diag(np.broadcast_to(covariance, 3))
        deviation = np.sqrt(np.diag(covariance))
        assert_allclose((own.mean(0) - mixture.means_[k]) / deviation, 0, atol=0.05)
        found = np.cov(own.T) / np.outer(deviation, deviation)
        assert_allclose(found, covariance / np.outer(deviation, deviation), atol=0.07)
    assert_array_equal(mixture.sample(5)[0], mixture.sample(5)[0])
    again = mixture.set_params(random_state=1).sample(5)[0]
    assert (again != samples[:5]).any()
    mixture.set_params(random_state=np.random.RandomState(0))
    assert (mixture.sample(5)[0] != mixture.sample(5)[0]).any()


def test_auto_is_the_least_bic():
    rng = np.random.default_rng(0)
    for k in (1, 4):
        X = 10 * np.eye(4)[rng.integers(0, k, 120)] + rng.standard_normal((120, 4))
        for covariance_type in COVARIANCE_TYPES:
            chosen = double("auto", covariance_type, max_components=5, refine_steps=3).fit(X)
            each = [double(n, covariance_type, refine_steps=3).fit(X).bic(X) for n in range(1, 6)]
            assert chosen.n_components_ == len(chosen.weights_) == 1 + np.argmin(each)
            assert_allclose(chosen.bic(X), min(each), rtol=1e-9)
    for n, most in ((3, 1), (9, 1), (10, 2)):  # four columns, and one more point for each component
        assert 1 <= double("auto", "diag").fit(X[:n]).n_components_ <= most
    batch = double("auto", "diag", max_components=5, refine_steps=3).fit_batch([X, X[:20]])
    alone = [double("auto", "diag", max_components=5, refine_steps=3).fit(Z) for Z in (X, X[:20])]
    assert [m.n_components_ for m in batch] == [m.n_components_ for m in alone]


@ALL_TYPES
def test_far_apart_components_are_found(covariance_type):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    X = rng.standard_normal((90, 2)) + 50 * np.array([[0, 0], [1, 0], [0, 1]])[labels]
    mixture = AmortizedGMM(3, covariance_type=covariance_type, backbone=LEARNER).fit(X)
    assert adjusted_rand_score(mixture.predict(X), labels) == 1
    for k in range(3):
        own = mixture.predict(50 * np.array([[0, 0], [1, 0], [0, 1]]))[k]
        assert np.abs(mixture.means_[own] - X[labels == k].mean(0)).max() < 5


def test_many_columns_and_components():
    """More than the weights were trained for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 40))
    for covariance_type in COVARIANCE_TYPES:
        mixture = AmortizedGMM(20, covariance_type=covariance_type, backbone=LEARNER).fit(X)
        assert mixture.means_.shape == (20, 40)
        assert np.isfinite(mixture.score_samples(rng.standard_normal((5, 40)))).all()


# -- scikit-learn's tools -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, centers=3, random_state=1)[0]


def test_clone_and_pickle(blobs):
    mixture = double(3, refine_steps=1, random_state=0).fit(blobs)
    copy = pickle.loads(pickle.dumps(mixture))
    for name in ("weights_", "means_", "covariances_"):
        assert_array_equal(getattr(copy, name), getattr(mixture, name))
    assert_array_equal(copy.score_samples(blobs), mixture.score_samples(blobs))
    assert_array_equal(copy.sample(4)[0], mixture.sample(4)[0])
    assert_array_equal(copy.fit(blobs).means_, mixture.means_)
    fresh = clone(mixture)
    assert not hasattr(fresh, "weights_")
    assert_array_equal(fresh.fit(blobs).means_, mixture.means_)
    one = pickle.dumps(mixture.fit_batch([blobs]))
    many = pickle.dumps(mixture.fit_batch([blobs] * 10))
    assert len(many) < 2 * len(one)  # the network is pickled once


def test_same_answer_twice_and_in_single_precision(blobs):
    mixture = AmortizedGMM(3, backbone=LEARNER)
    first, again = mixture.fit(blobs).means_, mixture.fit(blobs).means_
    assert_array_equal(first, again)
    assert_allclose(double(3).fit(blobs).means_, first, atol=1e-4)


def test_pipeline_and_model_selection(blobs):
    pipeline = make_pipeline(StandardScaler(), double(3)).fit(blobs)
    direct = double(3).fit(blobs)
    assert_allclose(pipeline.score(blobs), direct.score(blobs) + np.log(blobs.std(0)).sum())
    assert_array_equal(pipeline.predict(blobs), direct.predict(blobs))
    search = GridSearchCV(
        double(1, refine_steps=2), {"n_components": [1, 3], "covariance_type": ["full", "diag"]}
    )
    search.fit(blobs)
    assert search.best_params_["n_components"] == 3
    scores = cross_val_score(search.best_estimator_, blobs)  # mean held-out log-likelihood
    assert_allclose(scores.mean(), search.best_score_)


def test_dataframes(blobs):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(blobs, columns=["a", "b"])
    mixture = double(3).fit(frame)
    assert_array_equal(mixture.feature_names_in_, ["a", "b"])
    assert_array_equal(mixture.predict(frame), double(3).fit(blobs).predict(blobs))
    (fitted,) = mixture.fit_batch([frame])
    assert_array_equal(fitted.feature_names_in_, ["a", "b"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["b", "a"]])


def test_batches_of_an_array_and_of_a_generator(blobs):
    stacked = np.stack([blobs[:50], blobs[50:100]])
    for sets in (stacked, (X for X in stacked)):
        fitted = double(2).fit_batch(sets)
        assert [m.means_.shape for m in fitted] == [(2, 2), (2, 2)]


def test_meta_fit(tmp_path):
    """``clone`` keeps what ``meta_fit`` learned on classes of points; other weights replace it."""
    X, y = make_blobs(200, centers=4, n_features=3, random_state=0)
    mixture = AmortizedGMM(4, covariance_type="diag", backbone=random_learner(1))
    start = mixture.fit(X).means_
    few = {"max_steps": 2, "eval_every": 1, "batch_size": 2, "verbose": False}
    mixture.meta_fit([(X, y)], validation_datasets=[(X, y)], **few)
    assert len(mixture.history_) == 2
    means = mixture.fit(X).means_
    assert (means != start).any()
    assert_array_equal(clone(mixture).fit(X).means_, means)
    mixture.save_pretrained(tmp_path)
    loaded = AmortizedGMM.from_pretrained(tmp_path, n_components=4, covariance_type="diag")
    assert_array_equal(loaded.fit(X).means_, means)
    assert_array_equal(pickle.loads(pickle.dumps(loaded)).means_, means)
    before = double(4, "diag").fit(X).means_
    mixture.set_params(backbone=LEARNER, dtype="float64")
    assert_array_equal(mixture.fit(X).means_, before)
    prior = MixturePrior(max_components=3, max_columns=3, n_points=(40, 60))
    few["max_steps"] = 1
    AmortizedGMM(backbone="mixture_transformer").meta_fit(prior, optimizer="muon", **few)


def test_more_starts_are_never_less_likely():
    X, _ = make_blobs(150, centers=8, random_state=2)
    bounds = [double(8, n_init=n_init).fit(X).lower_bound_ for n_init in (1, 2, 4, 8)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > bounds[0]
    together = double(8, n_init=4).fit_batch([X, X[:80]])
    assert together[0].lower_bound_ == pytest.approx(bounds[2])


@pytest.mark.parametrize(
    ("bounds", "best"), [((1, 2), 1), ((3, 2, 1), 0), ((1, 3, 2), 1), ((2, 2 + 1e-9, 1), 0)]
)
def test_of_several_starts_the_likeliest_is_kept(bounds, best):
    several = {"means_": np.zeros((2, 3)), "weights_": np.full(2, 0.5)}
    fitted = [SimpleNamespace(lower_bound_=bound, **several) for bound in bounds]
    assert all(likeliest(fitted, 20, full) is fitted[best] for full in (False, True))


@pytest.mark.parametrize(("ahead", "best"), [(0.89, 0), (0.91, 1)])
def test_what_leaves_components_empty_must_be_likelier(ahead, best):
    """It must be ahead by 9 / 20 nats for each empty component, since one has nine parameters."""
    weights = np.full(3, 1 / 3), np.array([1.0, 0, 0])
    fitted = [
        SimpleNamespace(lower_bound_=-4 + i * ahead, means_=np.zeros((3, 3)), weights_=some)
        for i, some in enumerate(weights)
    ]
    assert likeliest(fitted, 20, True) is fitted[best]
    assert likeliest(fitted, 40, True) is fitted[1]
    assert likeliest(fitted, 20, False) is fitted[1]


def test_starts_of_few_are_among_those_of_more():
    assert first_ranks(7) == [1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8]
    assert first_ranks(3) == first_ranks(7)[:3]


def test_default_weights_generalise_better_than_em():
    """On small sets, which they were meta-trained for, they score better on held-out points."""
    rng = np.random.default_rng(0)
    source = MixtureSets(n_components=(3, 5), n_columns=(2, 4), n_points=(160, 240))
    sets = [np.array_split(source.draw(rng).X, 2) for _ in range(30)]
    fitted = AmortizedGMM(4).fit_batch([X for X, _ in sets])
    ours = [mixture.score(Z) for mixture, (_, Z) in zip(fitted, sets)]
    theirs = [GaussianMixture(4, n_init=3, random_state=0).fit(X).score(Z) for X, Z in sets]
    assert np.mean(ours) > np.mean(theirs) + 0.05
    assert np.median(np.subtract(ours, theirs)) > 0
