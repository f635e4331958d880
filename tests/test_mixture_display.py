"""The display of a mixture shows the right points, centres and ellipses."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from test_mixture import double

from sklearn_meta import AmortizedGMM
from sklearn_meta.inspection import MixtureDisplay

KINDS = pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    X, _ = make_blobs(120, centers=3, n_features=4, random_state=0)
    return X @ rng.standard_normal((4, 4))


def outline(ellipse):
    """Return points on an ellipse, in the units of the data."""
    return ellipse.axes.transData.inverted().transform(ellipse.get_verts())


@KINDS
@pytest.mark.parametrize("features", [(0, 1), (3, 1), (-1, 0)])
def test_ellipses_are_at_one_and_two_standard_deviations(points, covariance_type, features):
    mixture = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(points)
    display = MixtureDisplay.from_estimator(mixture, points, features=features)
    samples, labels = mixture.sample(40_000)
    assert len(display.ellipses_) == 3
    for k, own in enumerate(display.ellipses_):
        mean = mixture.means_[k, list(features)]
        # The marginal covariance, estimated from points drawn from the component.
        precision = np.linalg.inv(np.cov(samples[labels == k][:, list(features)].T))
        for radius, ellipse in zip((1, 2), own, strict=True):
            deviations = outline(ellipse) - mean
            distances = np.einsum("ni,ij,nj->n", deviations, precision, deviations) ** 0.5
            assert_allclose(distances, radius, rtol=0.05)


@pytest.mark.parametrize("make", [GaussianMixture, BayesianGaussianMixture, double])
def test_every_mixture_can_be_shown(points, make):
    mixture = make(n_components=3, covariance_type="full", random_state=0).fit(points)
    _, ax = plt.subplots()
    display = MixtureDisplay.from_estimator(mixture, points, features=(2, 0), ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert_array_equal(display.labels, mixture.predict(points))
    assert_array_equal(display.points, points[:, [2, 0]])
    assert_array_equal(display.weights, mixture.weights_)
    (scattered,) = ax.collections
    assert_array_equal(scattered.get_offsets(), points[:, [2, 0]])
    colours = scattered.get_facecolors()
    for k in range(3):
        assert len(np.unique(colours[display.labels == k], axis=0)) == 1
        same = display.ellipses_[k][0].get_edgecolor()
        assert_allclose(same[:3], colours[display.labels == k][0, :3])
    centres = [line.get_xydata()[0] for line in ax.lines]
    assert_array_equal(centres, mixture.means_[:, [2, 0]])
    # The picture holds every ellipse completely.
    ends = np.vstack([outline(e) for own in display.ellipses_ for e in own])
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    assert (ends > low).all() and (ends < high).all()


def test_plot_again_elsewhere(points):
    display = MixtureDisplay.from_estimator(double(2).fit(points), points)
    first = display.ax_
    assert display.plot() is display and display.ax_ is not first
    assert len(display.ax_.patches) == len(first.patches) == 4


def test_a_component_without_points_has_no_ellipse():
    X = np.repeat([[0.0, 1], [5, 2]], 10, axis=0)
    mixture = double(4, refine_steps=3).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    assert sorted(map(len, display.ellipses_)) == [0, 0, 2, 2]


def test_a_component_of_few_points_has_ellipses():
    X = np.r_[np.random.default_rng(0).normal(size=(999, 2)), [[40, 40]]]
    display = MixtureDisplay.from_estimator(GaussianMixture(2, random_state=0).fit(X), X)
    assert min(display.weights) < 0.01 and list(map(len, display.ellipses_)) == [2, 2]


def test_many_components_have_colours(points):
    display = MixtureDisplay.from_estimator(double(12).fit(points), points)
    edges = {ellipse.get_edgecolor() for own in display.ellipses_ for ellipse in own}
    assert len(edges) == 12


def test_names_of_columns(points):
    frame = pd.DataFrame(points, columns=list("abcd"))
    mixture = double(2).fit(frame)
    for features in (("c", "a"), (2, 0), ("c", 0)):
        display = MixtureDisplay.from_estimator(mixture, frame, features=features)
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("c", "a")
        assert_array_equal(display.points, points[:, [2, 0]])


@pytest.mark.parametrize(
    "features", [(0,), (0, 0), (-1, 3), (0, 4), (0, 1, 2), ("a", "b"), 1, None]
)
def test_bad_features(points, features):
    with pytest.raises(ValueError, match="features must be two different columns of the 4"):
        MixtureDisplay.from_estimator(double(2).fit(points), points, features=features)


def test_bad_estimators_and_points(points):
    with pytest.raises(NotFittedError):
        MixtureDisplay.from_estimator(double(2), points)
    with pytest.raises(TypeError, match="must be a Gaussian mixture, got KMeans"):
        MixtureDisplay.from_estimator(KMeans(2).fit(points), points)
    with pytest.raises(ValueError, match="X has 2 features"):
        MixtureDisplay.from_estimator(double(2).fit(points), points[:, :2])
    with pytest.raises(ValueError, match="two different columns of the 1"):
        MixtureDisplay.from_estimator(double(2).fit(points[:, :1]), points[:, :1])


def test_a_display_goes_by_what_was_fitted():
    X = np.random.default_rng(0).normal(size=(60, 2))
    for fitted, later in (("full", "diag"), ("diag", "spherical"), ("spherical", "full")):
        mixture = AmortizedGMM(2, covariance_type=fitted).fit(X)
        drawn = MixtureDisplay.from_estimator(mixture, X)
        mixture.set_params(covariance_type=later)
        again = MixtureDisplay.from_estimator(mixture, X)
        np.testing.assert_array_equal(again.covariances, drawn.covariances)
