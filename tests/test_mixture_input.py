"""AmortizedGMM on difficult points, and its errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from test_mixture import ALL_TYPES, LEARNER, double

from sklearn_meta import AmortizedGMM, learner
from sklearn_meta.mixture_jobs import Units, own_order
from sklearn_meta.tasks import Dataset, Folder, Mixture
from sklearn_meta.tasks.mixtures import MixtureSampler, as_point_sets

RNG = np.random.default_rng(0)
X_GOOD = RNG.standard_normal((30, 3)) + 4 * RNG.integers(0, 2, (30, 1))


def single(n_components, covariance_type="full", **parameters):
    """A mixture in float32, the user's precision, in which singular matrices are dangerous."""
    return AmortizedGMM(
        n_components, covariance_type=covariance_type, backbone=LEARNER, **parameters
    )


def assert_sound(mixture, X):
    """All attributes and answers of a mixture are finite."""
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert np.isfinite(getattr(mixture, name)).all(), name
    assert_allclose(mixture.weights_.sum(), 1)
    assert (mixture.weights_ > 0).all()
    proba = mixture.predict_proba(X)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(1), 1)
    assert np.isfinite(mixture.score_samples(X)).all()
    assert np.isfinite([mixture.bic(X), mixture.aic(X), mixture.lower_bound_]).all()
    assert np.isfinite(mixture.sample(10)[0]).all()


# -- points that make trouble ---------------------------------------------------------------------


@ALL_TYPES
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("refine_steps", "most"), [(0, 4), (3, 2), (3, 4)])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 2)),
        np.full((5, 1), 7.0),
        np.full((40, 3), 1e12),
        np.repeat(X_GOOD[:2], 20, axis=0),
        np.repeat(X_GOOD[:4], [1, 1, 1, 50], axis=0),
        X_GOOD[:2],
        X_GOOD[:, :1],
        np.column_stack([X_GOOD, X_GOOD]),
        np.column_stack([X_GOOD, X_GOOD[:, 0] + 1e-9 * X_GOOD[:, 1]]),
        X_GOOD.round(),
        np.r_[X_GOOD, [[1e6, 0, 0]]],
    ],
    ids=[
        *("zeros", "sevens", "large constants", "two places", "one place and outliers"),
        *("two points", "one column", "columns twice", "nearly dependent columns"),
        *("ties", "outlier"),
    ],
)
def test_degenerate_points(X, covariance_type, refine_steps, most):
    mixture = single(min(len(X), most), covariance_type, refine_steps=refine_steps).fit(X)
    assert_sound(mixture, X)
    assert_sound(mixture, X + 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, int])
def test_points_of_other_types(dtype):
    X = (10 * X_GOOD).astype(dtype)
    mixture = single(4, refine_steps=3).fit(X)
    assert_sound(mixture, X)
    assert_sound(mixture, X + 1)
    assert_allclose(mixture.means_, single(4, refine_steps=3).fit(X.astype(float)).means_)


@ALL_TYPES
def test_constant_columns(covariance_type):
    """Constant columns do not matter, and have the variance that scikit-learn gives them."""
    constant = np.insert(X_GOOD, [0, 3], [7.0, 1e5], axis=1)
    plain = double(3, covariance_type, refine_steps=1).fit(X_GOOD)
    mixture = double(3, covariance_type, refine_steps=1).fit(constant)
    assert_array_equal(mixture.means_[:, [0, 4]], [[7, 1e5]] * 3)
    if covariance_type == "spherical":
        return  # the variance of all columns together is another one
    assert_allclose(mixture.means_[:, 1:4], plain.means_, atol=1e-9)
    assert_allclose(mixture.predict_proba(constant), plain.predict_proba(X_GOOD), atol=1e-9)
    for column in (0, 4):
        own = (
            np.index_exp[:, column]
            if covariance_type == "diag"
            else np.index_exp[:, column, column]
        )
        assert_allclose(mixture.covariances_[own], 1e-6)
        if column == 0:  # at 1e5 scikit-learn's diagonal mixtures fail
            theirs = GaussianMixture(3, covariance_type=covariance_type, random_state=0)
            assert_allclose(theirs.fit(constant[:, :4]).covariances_[own], 1e-6, rtol=1e-4)
    assert_allclose(
        mixture.score(constant), plain.score(X_GOOD) - np.log(2 * np.pi * 1e-6), rtol=1e-9
    )


def test_a_constant_column_may_be_as_large_as_float64_is():
    X = np.insert(X_GOOD, 0, 1.5e308, axis=1)
    mixture = double(2).fit(X)
    assert_array_equal(mixture.means_[:, 0], [1.5e308] * 2)
    assert_sound(mixture, X)


def test_a_constant_column_has_its_share_in_a_spherical_variance():
    X = np.insert(X_GOOD, 0, 7.0, axis=1)
    theirs = GaussianMixture(1, covariance_type="spherical").fit(X)
    ours = double(1, "spherical", refine_steps=1).fit(X)
    assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-5)
    assert_allclose(ours.score(X), theirs.score(X), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e5, 1e12, 1e15])
def test_a_column_that_differs_by_rounding_is_constant(scale):
    rounding = scale * (1 + 2.0**-52 * (np.arange(30) % 3))
    assert len(np.unique(rounding)) == 3
    X = np.c_[X_GOOD, rounding]
    plain, mixture = double(3).fit(X_GOOD), double(3).fit(X)
    assert_allclose(mixture.covariances_[:, 3, 3], 1e-6)
    expected = plain.lower_bound_ - 0.5 * np.log(2 * np.pi * 1e-6)
    assert_allclose(mixture.lower_bound_, expected, rtol=1e-9)
    assert_allclose(mixture.score(X), mixture.lower_bound_, rtol=1e-9)
    assert_allclose(mixture.predict_proba(X), plain.predict_proba(X_GOOD), atol=1e-9)


@ALL_TYPES
@pytest.mark.parametrize("scale", [1e12, 1e-12, 1e100, 1e-100])
def test_huge_and_tiny_scales(covariance_type, scale):
    expected = single(2, covariance_type, refine_steps=2).fit(X_GOOD)
    mixture = single(2, covariance_type, refine_steps=2).fit(scale * X_GOOD)
    assert_allclose(mixture.means_ / scale, expected.means_, rtol=1e-4, atol=1e-4)
    assert_allclose(mixture.covariances_ / scale**2, expected.covariances_, rtol=1e-3, atol=1e-5)
    assert_allclose(
        mixture.score(scale * X_GOOD) + 3 * np.log(scale), expected.score(X_GOOD), rtol=1e-4
    )


@ALL_TYPES
def test_columns_of_very_different_scales(covariance_type):
    scale = np.array([1e12, 1, 1e-12])
    mixture = single(2, covariance_type, refine_steps=2).fit(X_GOOD * scale)
    assert_sound(mixture, X_GOOD * scale)
    if covariance_type != "spherical":
        expected = single(2, covariance_type, refine_steps=2).fit(X_GOOD)
        assert_allclose(mixture.means_ / scale, expected.means_, rtol=1e-4, atol=1e-4)


@ALL_TYPES
def test_small_spread_on_a_large_offset(covariance_type):
    """Such as seconds since 1970, of which scikit-learn's expanded squares lose all digits."""
    expected = double(2, covariance_type, refine_steps=1).fit(X_GOOD)
    mixture = double(2, covariance_type, refine_steps=1).fit(X_GOOD + 1.7e9)
    assert_allclose(mixture.score(X_GOOD + 1.7e9), expected.score(X_GOOD), rtol=1e-5)
    assert_allclose(mixture.covariances_, expected.covariances_, rtol=1e-4, atol=1e-6)
    far = X_GOOD + 1e13  # some digits are left, so it is not constant
    found = double(2, covariance_type, refine_steps=1).fit(far).predict(far)
    assert_array_equal(found, expected.predict(X_GOOD))


@ALL_TYPES
@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.filterwarnings("error")
def test_variances_beyond_float64(covariance_type, scale):
    with pytest.raises(ValueError, match="too small or too large for float64: divide each column"):
        single(2, covariance_type).fit(scale * X_GOOD)
    with pytest.raises(
        ValueError, match="Set 1: The variances of X are too small or too large for float64"
    ):
        single(2, covariance_type).fit_batch([X_GOOD, scale * X_GOOD])


def test_points_far_from_everything_have_a_component():
    mixture = double(3).fit(X_GOOD)
    assert_allclose(mixture.predict_proba([[1e9, -1e9, 1e9]]).sum(), 1)
    assert mixture.score_samples([[1e9, -1e9, 1e9]]) < -1e9


# -- errors ---------------------------------------------------------------------------------------


BAD_POINTS = [
    (X_GOOD[:2], "Expected n_samples >= n_components but got n_components = 3, n_samples = 2"),
    (X_GOOD[:1], r"1 sample\(s\) .* minimum of 2 is required"),
    (X_GOOD[:0], r"0 sample\(s\)"),
    (X_GOOD[:, :0], r"0 feature\(s\)"),
    (X_GOOD[0], "Expected 2D array, got 1D array"),
    (X_GOOD[None], "dim 3"),
    (np.where(X_GOOD > 1, np.nan, X_GOOD), "contains NaN"),
    (np.where(X_GOOD > 1, np.inf, X_GOOD), "contains infinity"),
    ([["a", "b"]] * 4, "could not convert string"),
    (X_GOOD * 1j, "Complex data not supported"),
    ([[10**400, 1, 1]] * 4, "a value too large for float64"),
]


@pytest.mark.parametrize(("X", "message"), BAD_POINTS)
def test_bad_points(X, message):
    with pytest.raises(ValueError, match=message):
        double(3).fit(X)
    with pytest.raises(ValueError, match=f"Set 1: (.|\n)*{message}"):
        double(3).fit_batch([X_GOOD, X])


def test_errors_are_those_of_scikit_learn():
    for X in (X_GOOD[:2], X_GOOD[:1], X_GOOD[0], np.full((5, 2), np.nan)):
        with pytest.raises(ValueError) as ours:
            double(3).fit(X)
        with pytest.raises(ValueError) as theirs:
            GaussianMixture(3).fit(X)
        expected = str(theirs.value).replace("GaussianMixture", "AmortizedGMM")
        assert str(ours.value).splitlines()[0] == expected.splitlines()[0]


def test_a_batch_of_nothing_and_a_set_where_sets_are_meant():
    assert double(3).fit_batch([]) == []
    with pytest.raises(ValueError, match="give a single set as a list"):
        double(3).fit_batch(X_GOOD)
    with pytest.raises(ValueError, match="Set 0: Expected 2D array, got 1D array"):
        double(3).fit_batch(list(X_GOOD))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X_GOOD[:, :2], "X has 2 features, but AmortizedGMM is expecting 3 features"),
        (X_GOOD[0], "Expected 2D array"),
        (np.full((2, 3), np.nan), "contains NaN"),
        ([[10**400, 1, 1]], "a value too large for float64"),
    ],
)
@pytest.mark.parametrize(
    "ask", ["predict", "predict_proba", "score_samples", "score", "bic", "aic"]
)
def test_bad_rows(X, message, ask):
    with pytest.raises(ValueError, match=message):
        getattr(double(2).fit(X_GOOD), ask)(X)


def test_not_fitted():
    for ask in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        with pytest.raises(NotFittedError):
            getattr(double(2), ask)(X_GOOD)
    with pytest.raises(NotFittedError):
        double(2).sample()
    with pytest.raises(ValueError, match="at least one sample"):
        double(2).fit(X_GOOD).sample(0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter of AmortizedGMM must be"),
        ({"n_components": "many"}, "'n_components' parameter of AmortizedGMM must be"),
        ({"covariance_type": "tied"}, "'covariance_type' parameter of AmortizedGMM must be"),
        ({"refine_steps": -1}, "refine_steps"),
        ({"max_components": 0}, "max_components"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"backbone": "nowhere"}, "No weights 'nowhere'"),
        ({"backbone": "prior"}, "'prior' was meta-trained for classification, and AmortizedGMM"),
        ({"backbone": learner.Learner()}, "meta-trained for classification"),
    ],
)
def test_bad_parameters(parameters, message):
    mixture = AmortizedGMM(**parameters)
    for call in (mixture.fit, lambda X: mixture.fit_batch([X])):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            call(X_GOOD)


def test_an_architecture_has_no_weights():
    with pytest.raises(NotFittedError, match="call meta_fit first"):
        AmortizedGMM(backbone="mixture_transformer").fit(X_GOOD)


@pytest.mark.parametrize("covariance_type", ["diag", "full", "spherical"])
def test_points_that_are_out_of_all_reach_have_probabilities(covariance_type):
    X = np.random.default_rng(0).normal(size=(100, 3))
    mixture = AmortizedGMM(n_components=2, covariance_type=covariance_type).fit(X)
    far = np.array([[1e300, 0, 0], [-1e308, 1e308, 1e10]])
    assert np.isfinite(mixture.predict_proba(far)).all()
    assert np.isfinite(mixture.score_samples(far)).all()


#: Slices of forty points with a gap in the fourth: with the gap, and without.
GAP_AND_WHOLE = (("gap", slice(30)), ("whole", slice(10, 40)))


def test_sets_of_a_collection_and_gaps(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(40, 2))).assign(t=0).to_csv(tmp_path / "a.csv", index=False)
    quick = {"max_steps": 1, "batch_size": 1, "verbose": False}
    assert AmortizedGMM().meta_fit(Folder(tmp_path), **quick).history_
    X = rng.normal(size=(40, 2)).astype(np.float32)
    X[3, 0] = np.nan
    gap, whole = (Dataset(name, X[part], np.zeros(30, int)) for name, part in GAP_AND_WHOLE)
    with pytest.raises(
        ValueError, match="'gap' has missing values, but mixtures need complete points"
    ):
        AmortizedGMM().meta_fit([gap], **quick)
    with pytest.warns(UserWarning, match="1 of 2 datasets are left out.* 'gap' has missing values"):
        AmortizedGMM().meta_fit([gap, whole], **quick)


def test_a_folder_without_the_sets_that_are_none(tmp_path):
    rng = np.random.default_rng(0)
    points = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    points.assign(t=["u", "v"] * 20).to_csv(tmp_path / "sound.csv", index=False)
    points.assign(t=["u", None] * 20).to_csv(tmp_path / "gaps.csv", index=False)
    points.assign(b="text", t="u").to_csv(tmp_path / "text.csv", index=False)
    points.assign(t=[0, 1, 2, np.nan] * 10).to_csv(tmp_path / "whole.csv", index=False)
    points.assign(t=[5] + [np.nan] * 39).to_csv(tmp_path / "one.csv", index=False)
    quick = {"max_steps": 1, "batch_size": 1, "verbose": False}
    with pytest.warns(UserWarning, match="2 of 5 .* 1 points with a label.*text. is not a set"):
        assert AmortizedGMM().meta_fit(Folder(tmp_path), **quick).history_
    with pytest.warns(UserWarning, match="2 of 5 datasets"):
        sets = as_point_sets(Folder(tmp_path))
    found = {name: (len(dataset.y), dataset.n_classes) for name, dataset in sets.items()}
    assert found == {"gaps": (20, 1), "sound": (40, 2), "whole": (30, 3)}


def test_a_set_of_thousands_of_columns_takes_no_more_memory_than_a_wide_one():
    dataset = as_point_sets([np.random.default_rng(0).normal(size=(60, 3000))])["0"]
    task = MixtureSampler(max_columns=5).draw(dataset, np.random.default_rng(0))
    assert task.X.shape[1] == task.held_out.shape[1] == 5
    others = [MixtureSampler(max_columns=5).draw(dataset, np.random.default_rng(i)) for i in (1, 2)]
    assert not np.array_equal(others[0].X[0], others[1].X[0])
    wide = {"max_steps": 1, "batch_size": 2, "verbose": False}
    assert np.isfinite(AmortizedGMM().meta_fit([dataset], **wide).history_[-1]["train_loss"])


def test_a_mixture_of_sources_is_read_as_its_parts_are():
    X = np.random.default_rng(0).normal(size=(20, 2)) * [1, 100]
    parts = [[X, X], [(X, np.repeat([-1, 1], 10))]]
    for part, source in zip(parts, as_point_sets(Mixture(parts)).sources, strict=True):
        for name, dataset in as_point_sets(part).items():
            assert_array_equal(dataset.X, source[name].X)
            assert_array_equal(dataset.y, source[name].y)
    assert source["0"].X.std(0)[1] > 50 * source["0"].X.std(0)[0]  # columns keep their proportions


def test_sets_of_any_scale_keep_their_shape_and_classes_are_known():
    X = np.random.default_rng(0).normal(size=(20, 2))
    huge, tiny, expected = (as_point_sets([scale * X])["0"].X for scale in (1e200, 1e-200, 1))
    assert_allclose(huge, expected, rtol=1e-5)
    assert_allclose(tiny, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="Set '0' is not a set of points"):
        as_point_sets([[[10**400, 1]] * 4])
    with pytest.raises(ValueError, match="'0' has points without a class"):
        as_point_sets([(X, ["a", None] * 10)])
    whole = [0.0, 1.0, 2.0, 3.0] * 5
    for y, n_classes in ((whole, 4), (X[:, 0], 1), ([1.0, np.nan] * 10, 1), (None, 1)):
        assert as_point_sets([(X, y)])["0"].n_classes == n_classes
    assert as_point_sets([(X, whole, {"task": "regression"})])["0"].n_classes == 1
    assert as_point_sets([(X,)])["0"].n_classes == 1


def test_a_fit_that_fails_leaves_no_mixture():
    X = np.random.default_rng(0).normal(size=(20, 2))
    mixture = AmortizedGMM(2).fit(X)
    with pytest.raises(ValueError, match="contains infinity"):
        mixture.fit(np.full_like(X, np.inf))
    assert set(vars(mixture)) <= set(vars(AmortizedGMM())) | {"learner_", "n_features_in_"}


def test_one_set_or_many_have_their_components_in_one_order():
    sets = [make_blobs(60 + s, centers=3, random_state=s)[0] for s in range(12)]
    many = AmortizedGMM(3, n_init=3).fit_batch(sets)
    for points, mixture in zip(sets, many, strict=True):
        alone = AmortizedGMM(3, n_init=3).fit(points)
        assert_array_equal(alone.predict(points), mixture.predict(points))


#: Points with many pairs of equal distance.
FLAGS = (load_digits().data[:150, [12, 20, 27, 28, 35, 36, 43, 51]] > 8).astype(float)
GRID = np.stack(np.meshgrid(*[np.arange(8.0)] * 2), -1).reshape(-1, 2)


@ALL_TYPES
@pytest.mark.parametrize("X", [FLAGS[:, [1, 3, 4, 6]], FLAGS, GRID], ids=["four", "eight", "grid"])
def test_the_order_of_points_that_are_equally_far_does_not_matter(covariance_type, X):
    """Many flags are equally far, and the first of them used to begin a component."""
    of = AmortizedGMM(3, covariance_type=covariance_type, dtype="float64")
    expected = of.fit(X).score_samples(X)
    for seed in range(6):
        found = of.fit(np.random.default_rng(seed).permutation(X)).score_samples(X)
        assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_nor_that_of_columns_nor_their_signs():
    X = FLAGS[:, [1, 3, 4, 6]]
    expected = AmortizedGMM(3, dtype="float64").fit(X).score_samples(X)
    for places, signs in (((3, 1, 0, 2), (1, 1, 1, 1)), ((0, 1, 2, 3), (-1, 1, -1, 1))):
        Z = X[:, places] * signs
        found = AmortizedGMM(3, dtype="float64").fit(Z).score_samples(Z)
        assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("common", [False, True])
def test_units_are_the_same_to_the_last_bit_in_any_order_and_memory_and_mirrored(common):
    """In tables of flags another rounding makes another point the farthest."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=(301, 3)), FLAGS[:, 0].repeat(3)[:301]])
    expected = Units.of(X, common)
    for same in (X[::-1], rng.permutation(X), np.asfortranarray(X)):
        for found, right in zip(Units.of(same, common), expected, strict=True):
            assert_array_equal(found, right)
    mirrored = Units.of(-X, common)
    assert_array_equal(mirrored.centre, -expected.centre)
    assert_array_equal(mirrored.scale, expected.scale)


@pytest.mark.parametrize("decimals", [0, 8])
def test_points_are_sorted_by_sizes_and_then_by_values(decimals):
    """Without ties one key is enough, and gives the same order."""
    X = np.round(np.random.default_rng(0).normal(size=(200, 3)), decimals)
    sizes = np.sort(np.abs(X), axis=1)
    assert_array_equal(own_order(X), np.lexsort((*X.T, *sizes.T)))
    assert (len(np.unique(sizes[:, -1])) == len(X)) == (decimals == 8)
