"""Estimators of sets: symmetries, likelihoods, and what they learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import poisson
from sklearn.datasets import load_digits, load_wine
from sklearn.metrics import mean_absolute_error
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from sklearn_meta.backbones.set_transformer import SetTransformer
from sklearn_meta.seeding import seeded
from sklearn_meta.sets import SetTransformerClassifier, SetTransformerRegressor, training
from sklearn_meta.sets.training import PoissonLoss, SetNetwork, groups_of_like_size, pad

SMALL = {"width": 8, "n_heads": 2, "n_layers": 1, "n_inducing": 2}
QUICK = {**SMALL, "max_epochs": 2, "random_state": 0}
ONE_FEATURE = "rows of a matrix are sets of numbers: one feature, and as many points as columns"
EXPECTED_FAILURES = {
    "check_n_features_in": ONE_FEATURE,
    "check_n_features_in_after_fitting": ONE_FEATURE,
    "check_classifiers_train": "wants it learned, in one epoch, and then more columns refused",
    "check_regressors_train": "its target is a column; a set does not say which number was in it",
}


@pytest.fixture(autouse=True, scope="module")
def double():
    """Networks in float64: rounding is so small that errors show."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@parametrize_with_checks(
    [
        SetTransformerRegressor(**QUICK | {"max_epochs": 1}),
        SetTransformerClassifier(**QUICK | {"max_epochs": 1}),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_sklearn_checks(estimator, check):
    check(estimator)


# -- symmetries -------------------------------------------------------------------------------


def random_sets(n_sets, n_features=2, seed=0, sizes=(1, 9)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, n_features)) for n in rng.integers(*sizes, size=n_sets)]


@pytest.fixture(scope="module")
def models(double):
    """Fitted estimators with all kinds of output and several networks."""
    X = random_sets(20)
    y = np.array([elements.max() for elements in X])
    with seeded(0):  # with some seeds all units that depend on the set are off
        embedding = nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.ReLU())
    networks = [
        {},
        {"encoder": "sab", "pooling": "mean", "norm": "post"},
        {"encoder": "rffp_max", "pooling": "dotprod"},
        {"embedding": embedding},
    ]
    fitted = [SetTransformerRegressor(**QUICK, **network).fit(X, y) for network in networks]
    fitted.append(SetTransformerRegressor(**QUICK).fit(X, np.column_stack([y, -y])))
    fitted.append(SetTransformerRegressor(loss="poisson", **QUICK).fit(X, np.round(np.exp(y))))
    return [*fitted, SetTransformerClassifier(**QUICK).fit(X, y > y.mean())]


def answer(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


sets = st.builds(random_sets, st.integers(1, 6), seed=st.integers(0, 2**32 - 1))


@settings(max_examples=8)
@given(X=sets, seed=st.integers(0, 2**32 - 1))
def test_order_of_elements_and_of_sets(models, X, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    shuffled = [rng.permutation(X[i]) for i in order]
    for model in models:
        assert_allclose(answer(model, shuffled), answer(model, X)[order], atol=1e-10)


@settings(max_examples=10)
@given(X=sets, n_more=st.integers(0, 3), seed=st.integers(0, 2**32 - 1))
def test_padding_anywhere_changes_nothing(models, X, n_more, seed):
    rng = np.random.default_rng(seed)
    n_points = max(map(len, X)) + n_more
    padded = np.full((len(X), n_points, 2), np.nan)
    for row, elements in zip(padded, X):
        row[np.sort(rng.choice(n_points, len(elements), replace=False))] = elements
    for model in models:
        assert_allclose(answer(model, padded), answer(model, X), atol=1e-10)


@settings(max_examples=5)
@given(X=sets, batch_size=st.integers(1, 5))
def test_batches_do_not_matter(models, X, batch_size):
    for model in models:
        whole = answer(model, X)
        assert_allclose(np.concatenate([answer(model, [x]) for x in X]), whole, atol=1e-10)
        model.set_params(batch_size=batch_size)
        assert_allclose(answer(model, X), whole, atol=1e-10)
        model.set_params(batch_size=32)


def test_an_element_more_does_matter(models):
    X = random_sets(5, seed=3)
    more = [np.vstack([elements, [[3.0, 3.0]]]) for elements in X]
    for model in models:
        assert np.abs(answer(model, more) - answer(model, X)).min() > 1e-6


def test_training_reads_padded_arrays_and_lists_alike():
    X = random_sets(12)
    y = [len(elements) for elements in X]
    padded = np.full((12, 10, 2), np.nan)
    for row, elements in zip(padded, X):
        row[: len(elements)] = elements
    first, second = (SetTransformerRegressor(**QUICK).fit(form, y) for form in (X, padded))
    assert_array_equal(first.predict(X), second.predict(X))


@given(sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=40))
def test_groups_of_like_size(sizes):
    groups = groups_of_like_size(sizes)
    assert sorted(sum(groups, [])) == list(range(len(sizes)))
    for group in groups:
        found = [sizes[i] for i in group]
        assert max(found) <= max(2 * min(found), training.FEW_ELEMENTS)


@given(X=sets)
def test_cutting_a_batch_into_groups_changes_nothing(X):
    network = SetNetwork(None, SetTransformer(2, 3, **SMALL))
    batch = pad([torch.from_numpy(elements) for elements in X])
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        expected = network(**batch)
        patch.setattr(training, "FEW_ELEMENTS", 1)
        assert len(groups_of_like_size([1, 2, 3, 4])) == 2
        found = network(**batch)
    assert_allclose(found, expected, atol=1e-10)
    assert_allclose(expected, network.transformer(**batch).detach(), atol=1e-10)


def test_the_embedding_sees_no_padding():
    seen = []

    class Spy(nn.Module):
        def forward(self, elements):
            seen.append(elements)
            return elements

    X = [torch.full((n, 2), float(n)) for n in (1, 3, 2)]
    SetNetwork(Spy(), SetTransformer(2, 1, **SMALL))(**pad(X))
    assert_array_equal(seen[0], torch.cat(X))


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_units_of_elements_and_targets(loss):
    X = random_sets(20)
    y = np.array([elements.max() for elements in X])
    expected = SetTransformerRegressor(loss=loss, **QUICK).fit(X, y).predict(X)
    other = [elements * [1e-9, 1e6] + [3.0, -5e6] for elements in X]
    found = SetTransformerRegressor(loss=loss, **QUICK).fit(other, 1e12 * y - 3e12).predict(other)
    assert_allclose(found / 1e12 + 3, expected, atol=1e-4)


# -- counts -------------------------------------------------------------------------------------


@given(
    output=st.lists(st.floats(-30, 1e4), min_size=1, max_size=9),
    unit=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_poisson_loss_is_scipys_likelihood(output, unit, seed):
    output = torch.tensor(output)[:, None]
    rate = training.poisson_rate(output, unit)
    count = np.random.default_rng(seed).poisson(rate)
    found = PoissonLoss(unit)(output, torch.from_numpy(count).double())
    # Counts of millions have terms of 1e8, which cancel.
    rounding = 4 * np.finfo(float).eps * np.abs(count * np.log(np.asarray(rate))).max()
    assert_allclose(found, -poisson.logpmf(count, rate).mean(), rtol=1e-9, atol=rounding)
    softplus = np.logaddexp(0, output.numpy())
    assert_allclose(rate, unit * softplus, rtol=1e-5, atol=2e-6 * unit)


@pytest.mark.parametrize("count", [3.0, 4.6e6, 2.0**24])
def test_poisson_loss_of_large_counts_in_float32(count):
    # Early stopping reads it: in float32 its terms of 1e8 would be precise to half a unit at best.
    output = torch.tensor([[count * (1 + 1e-4)]], dtype=torch.float32)
    found = PoissonLoss(1.0)(output, torch.tensor([[count]], dtype=torch.float32))
    rate = training.poisson_rate(output, 1.0).double().item()
    assert_allclose(found.item(), -poisson.logpmf(count, rate), atol=1e-6)


@pytest.mark.parametrize("output", [-1e4, -200.0, 0.0, 1e4])
@pytest.mark.parametrize("count", [0.0, 3.0])
def test_poisson_loss_has_gradients_in_float32(output, count):
    output = torch.tensor([[output]], dtype=torch.float32, requires_grad=True)
    loss = PoissonLoss(1.0)(output, torch.tensor([[count]]))
    loss.backward()
    assert loss.isfinite() and output.grad.isfinite()


def test_mode_is_the_most_likely_count():
    X = random_sets(40)
    y = [len(elements) for elements in X]
    regressor = SetTransformerRegressor(loss="poisson", **QUICK).fit(X, y)
    rates, modes = regressor.predict(X), regressor.predict_mode(X)
    likelihood = poisson.pmf(np.arange(30)[:, None], rates)
    assert_array_equal(modes, likelihood.argmax(0))
    assert modes.dtype.kind == "i"
    assert not hasattr(SetTransformerRegressor(), "predict_mode")


def test_counts_that_are_all_zero_or_huge():
    X = random_sets(20)
    for y in (np.zeros(20), np.full(20, 10.0**9)):
        rates = SetTransformerRegressor(loss="poisson", **QUICK).fit(X, y).predict(X)
        assert np.isfinite(rates).all() and (rates > 0).all()
    assert_allclose(rates, 1e9, rtol=0.7)  # the network starts at the mean


# -- what they learn ----------------------------------------------------------------------------


def test_maximum_of_sets_of_numbers():
    """The paper's section 4.1 with matrices: a row is a set, NaN is no element."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 100, (178, 10))
    X[:, 1:][rng.random((178, 9)) < 0.4] = np.nan
    y = np.nanmax(X, axis=1)
    model = SetTransformerRegressor(
        width=16, n_layers=1, max_epochs=16, learning_rate=0.01, random_state=0
    )
    model.fit(X[:128], y[:128])
    error = mean_absolute_error(y[128:], model.predict(X[128:]))
    of_the_mean = mean_absolute_error(y[128:], np.full(50, y[:128].mean()))
    assert error < of_the_mean / 4
    numbers = [row[~np.isnan(row)].tolist() for row in X[128:]]
    assert_allclose(model.predict(numbers), model.predict(X[128:]), rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "expected"), [("squared_error", 3.0), ("absolute_error", 0.0), ("poisson", 3.0)]
)
def test_a_loss_predicts_its_functional(loss, expected):
    """For equal sets these are the mean, the median and the mean."""
    X, y = np.ones((50, 3)), np.tile([0, 10, 0, 0, 10, 0, 0, 10, 0, 0], 5)
    parameters = {**QUICK, "max_epochs": 40, "batch_size": 50}
    model = SetTransformerRegressor(loss=loss, **parameters, learning_rate=0.03)
    assert model.fit(X, y).predict(X[:2]) == pytest.approx([expected] * 2, abs=0.4)


def test_several_targets():
    X = random_sets(178, seed=1, sizes=(2, 9))
    y = np.array([[x[:, 0].mean(), x[:, 1].max(), 7.0] for x in X]) * [1, 1e5, 1]
    model = SetTransformerRegressor(
        width=16, n_layers=1, max_epochs=10, learning_rate=0.01, random_state=0
    )
    model.fit(X[:128], y[:128])
    found = model.predict(X[128:])
    assert found.shape == (50, 3)
    error = ((found - y[128:]) ** 2).mean(0)
    assert (error[:2] < 0.4 * y[128:, :2].var(0)).all()
    assert error[2] < 0.1
    flat = SetTransformerRegressor(**QUICK, batch_size=100).fit(X, y[:, 0]).predict(X)
    column = SetTransformerRegressor(**QUICK, batch_size=100).fit(X, y[:, :1]).predict(X)
    assert flat.shape == (178,) and column.shape == (178, 1)
    assert_array_equal(column[:, 0], flat)


def test_bottles_of_one_cultivar():
    """Sets of rows of the wine table, with string labels."""
    table, cultivar = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    names = np.array(["barolo", "grignolino", "barbera"])

    def draw(n_sets, half):
        classes = rng.integers(3, size=n_sets)
        rows = [np.flatnonzero(cultivar == c)[half::2] for c in range(3)]
        return [table[rng.choice(rows[c], rng.integers(3, 7))] for c in classes], names[classes]

    X, y = draw(120, 0)
    model = SetTransformerClassifier(width=16, n_layers=1, max_epochs=8, random_state=0).fit(X, y)
    X, y = draw(60, 1)
    assert model.score(X, y) > 0.9
    assert_array_equal(model.classes_, sorted(names))
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(1), 1)
    assert_allclose(np.log(probabilities), model.predict_log_proba(X))
    assert_array_equal(model.classes_[probabilities.argmax(1)], model.predict(X))


def test_images_through_a_convolution():
    """Two digits are told apart. A copy of the user's embedding is trained."""
    images = load_digits().images.astype(np.uint8)[:, None]  # (1797, 1, 8, 8), bytes stay bytes
    digits = load_digits().target
    rng = np.random.default_rng(0)
    zeros, ones = np.flatnonzero(digits == 0), np.flatnonzero(digits == 1)
    X = [images[rng.choice(zeros if i % 2 else ones, 3)] for i in range(160)]
    torch.manual_seed(0)
    embedding = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
    )
    before = {name: value.clone() for name, value in embedding.state_dict().items()}
    model = SetTransformerClassifier(embedding=embedding, **{**QUICK, "max_epochs": 6})
    model.fit(X[:120], np.arange(120) % 2)
    assert model.score(X[120:], np.arange(120, 160) % 2) > 0.95
    for name, value in embedding.state_dict().items():
        assert_array_equal(value, before[name])
        assert not torch.equal(model.module_.embedding.state_dict()[name], before[name])
    floats = [elements.astype(float) for elements in X]
    assert_allclose(model.predict_proba(floats), model.predict_proba(X), atol=1e-10)
