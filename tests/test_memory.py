"""MANNClassifier and MANNRegressor as a scikit-learn user meets them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import MANNClassifier, MANNRegressor
from sklearn_meta.memory_learner import MemoryLearner
from sklearn_meta.tasks import (
    ClassSequences,
    Dataset,
    GaussianProcessPrior,
    Tables,
    TargetSequences,
    Vectors,
    as_dataset,
)
from sklearn_meta.training import meta_train

#: Settings of ``meta_fit`` that draw and evaluate as little as possible.
LITTLE = {"n_pooled": 3, "n_validation": 2, "verbose": False}
#: Each example reads some streams row by row, so few examples.
few_streams = settings(max_examples=8)
SMALL = {"width": 16, "n_slots": 12, "slot_size": 6, "n_reads": 2}
#: In float32 the last digit depends on how many rows are predicted at a time. One or two orders of
#: the rows, not eight: these checks spend their time on reading rows.
CHECKED = [
    MANNClassifier(n_estimators=1, dtype="float64"),
    MANNRegressor(n_estimators=2, dtype="float64"),
]


def small_learner(head="onehot", inputs="tables", seed=0, **config):
    """A learner with random weights: the properties hold for any weights, and this one is quick."""
    torch.manual_seed(seed)
    task = "online_regression" if head == "gaussian" else "online_classification"
    learner = MemoryLearner(
        "mann", head, task=task, inputs=inputs, n_inputs=6, backbone_config=SMALL | config
    )
    with torch.no_grad():  # answers differ visibly
        learner.backbone.output.weight.mul_(8)
    return learner.requires_grad_(False)


def classifier(head="onehot", inputs="tables", **parameters):
    return MANNClassifier(small_learner(head, inputs), **{"n_estimators": 2} | parameters)


def regressor(inputs="tables", **parameters):
    return MANNRegressor(small_learner("gaussian", inputs), **{"n_estimators": 2} | parameters)


def blobs(n_rows=40, n_classes=3, n_columns=4, seed=0):
    return make_blobs(n_rows, n_columns, centers=n_classes, random_state=seed)


@parametrize_with_checks(CHECKED, xfail_strict=True)
def test_sklearn_checks(estimator, check):
    check(estimator)


# -- properties -------------------------------------------------------------------------------


@st.composite
def streams(draw):
    """Rows with gaps, labels and targets, and new rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n_rows, n_columns = draw(st.integers(3, 15)), draw(st.integers(1, 9))
    X = rng.normal(size=(n_rows + 4, n_columns)) * rng.lognormal(size=n_columns)
    X[rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    labels = rng.integers(0, draw(st.integers(1, 4)), n_rows)
    return X[:n_rows], labels, X[n_rows:]


def answers(estimator, X):
    if isinstance(estimator, MANNRegressor):
        return np.stack(estimator.predict(X, return_std=True))
    return estimator.predict_proba(X)


EVERY = [classifier, lambda **p: classifier("string", **p), regressor]


@pytest.mark.parametrize("make", EVERY, ids=["onehot", "string", "regression"])
@few_streams
@given(stream=streams(), data=st.data())
def test_presented_in_pieces_is_fitted_at_once_to_the_bit(make, stream, data):
    X, y, new = stream
    cuts = sorted(data.draw(st.sets(st.integers(1, len(X) - 1), max_size=3)))
    window = {"window_size": data.draw(st.sampled_from([None, 1, 2, 5, 125]))}
    whole = make(shuffle=False, **window).fit(X, y)
    pieces = make(**window)
    for part in np.split(np.arange(len(X)), cuts):
        pieces.partial_fit(X[part], y[part])
    assert_array_equal(answers(whole, new), answers(pieces, new))
    assert whole.n_samples_seen_ == pieces.n_samples_seen_ == len(X)
    row_by_row = make(**window)
    for i in range(len(X)):
        row_by_row.predict_online(X[i : i + 1], y[i : i + 1])
    assert_array_equal(answers(whole, new), answers(row_by_row, new))


@pytest.mark.parametrize("make", EVERY, ids=["onehot", "string", "regression"])
@few_streams
@given(stream=streams())
def test_predictions_change_nothing_and_do_not_depend_on_each_other(make, stream):
    X, y, new = stream
    estimator = make(dtype="float64").fit(X, y)
    found = answers(estimator, new)
    assert_array_equal(answers(estimator, new), found)
    axis = 1 if isinstance(estimator, MANNRegressor) else 0
    turned = np.flip(answers(estimator, new[::-1]), axis)
    assert_allclose(turned, found, rtol=1e-9, atol=1e-12)
    alone = [answers(estimator, new[i : i + 1]) for i in range(len(new))]
    assert_allclose(np.concatenate(alone, axis), found, rtol=1e-9, atol=1e-12)
    chunked = estimator.set_params(chunk_size=3)
    assert_allclose(answers(chunked, new), found, rtol=1e-9, atol=1e-12)


@few_streams
@given(stream=streams(), window=st.sampled_from([1, 3, 125]))
def test_online_predictions_are_those_before_each_row(stream, window):
    X, y, _ = stream
    online = classifier(dtype="float64", window_size=window)
    found = online.predict_online(X, y)
    stepwise = classifier(dtype="float64", window_size=window)
    stepwise.partial_fit(X[:1], y[:1], classes=np.unique(y))
    for i in range(1, len(X)):
        assert stepwise.predict(X[i : i + 1])[0] == found[i]
        stepwise.partial_fit(X[i : i + 1], y[i : i + 1])
    half = len(X) // 2
    begun = classifier(dtype="float64", window_size=window)
    begun.partial_fit(X[:half], y[:half], classes=np.unique(y))
    assert_array_equal(begun.predict_online(X[half:], y[half:]), found[half:])


@few_streams
@given(stream=streams(), window=st.sampled_from([1, 3, 125]))
def test_online_regression_is_that_before_each_row(stream, window):
    X, y, _ = stream
    of_window = {"dtype": "float64", "window_size": window}
    mean, std = regressor(**of_window).predict_online(X, y, return_std=True)
    # Nothing is known about the first row, whatever its target.
    other = np.r_[y[0] + 1e6, y[1:]]
    before = regressor(**of_window).predict_online(X, other, return_std=True)
    assert [mean[0], std[0]] == [part[0] for part in before]
    stepwise = regressor(**of_window).partial_fit(X[:1], y[:1])
    for i in range(1, len(X)):
        expected = stepwise.predict(X[i : i + 1], return_std=True)
        assert_allclose(np.ravel(expected), [mean[i], std[i]], rtol=1e-6, atol=1e-9)
        stepwise.partial_fit(X[i : i + 1], y[i : i + 1])


@few_streams
@given(stream=streams(), scale=st.sampled_from([1e-6, 3.0, 1e6]), offset=st.sampled_from([0, 1e3]))
def test_units_of_columns_and_targets_are_no_matter(stream, scale, offset):
    X, y, new = stream
    estimator = regressor(dtype="float64")
    mean, std = estimator.fit(X, y).predict(new, return_std=True)
    estimator.fit(X * scale + offset * scale, y * scale + offset)
    found_mean, found_std = estimator.predict(new * scale + offset * scale, return_std=True)
    if np.ptp(y) > 0:
        assert_allclose(found_mean, mean * scale + offset, rtol=1e-3, atol=1e-3 * scale)
        assert_allclose(found_std, std * scale, rtol=1e-3)


@pytest.mark.parametrize("make", EVERY, ids=["onehot", "string", "regression"])
@pytest.mark.parametrize("exponent", [-900, 900])
def test_values_may_be_as_far_apart_as_float64_has_them(make, exponent):
    """The squares of such values overflow; scaling by a power of two changes no bit."""
    X, y = blobs()
    found = answers(make(dtype="float64").fit(X[:30], y[:30]), X[30:])
    target = np.ldexp(y.astype(float), exponent) if make is regressor else y
    estimator = make(dtype="float64").fit(np.ldexp(X[:30], exponent), target[:30])
    scaled = answers(estimator, np.ldexp(X[30:], exponent))
    assert_array_equal(scaled, np.ldexp(found, exponent) if make is regressor else found)


def test_labels_may_be_anything_and_columns_of_probabilities_are_sorted():
    X, y = blobs()
    names = np.array(["b", "c", "a"])[y]
    first, second = classifier().fit(X, y), classifier().fit(X, names)
    assert_array_equal(second.classes_, ["a", "b", "c"])
    assert_allclose(first.predict_proba(X)[:, [2, 0, 1]], second.predict_proba(X))
    assert_allclose(first.predict_proba(X).sum(1), 1)


def test_each_member_binds_classes_to_other_labels():
    estimator = classifier(n_estimators=6).fit(*blobs())
    words = estimator._words_of(np.tile(np.arange(3), (6, 1)))[..., 0]
    assert len(np.unique(words.numpy(), axis=0)) > 1
    assert all(len(set(own)) == 3 for own in words.tolist())


def test_each_member_has_an_order_of_rows_and_a_rotation_of_its_own():
    estimator = classifier(n_estimators=3).fit(*blobs())
    orders = estimator._orders(40)
    assert_array_equal(np.sort(orders), np.tile(np.arange(40), (3, 1)))
    assert len(np.unique(orders, axis=0)) == len(np.unique(estimator._rotations, axis=0)) == 3
    assert (estimator.set_params(shuffle=False)._orders(40) == np.arange(40)).all()


def test_more_members_are_an_average_of_one_and_others():
    X, y = blobs()
    proba = [classifier(n_estimators=n, shuffle=False).fit(X, y).predict_proba(X) for n in (1, 3)]
    members = classifier(n_estimators=3, shuffle=False).fit(X, y)
    outputs = members._ask(X)
    alone = [
        members.learner_.head.log_probabilities(
            outputs[e], members._words_of(np.tile(np.arange(3), (3, 1)))[e].expand(40, -1, -1)
        ).exp()
        for e in range(3)
    ]
    order = [members._slots[label] for label in members.classes_.tolist()]
    assert_allclose(alone[0][:, order], proba[0], rtol=1e-4)
    assert_allclose(torch.stack(alone).mean(0)[:, order], proba[1], rtol=1e-6)


def test_a_target_is_shown_as_meta_training_shows_it():
    """Shown targets are in units of the targets up to them, asked ones in units of those before."""
    X, _ = blobs(n_columns=6)
    y = 7 + 50 * X[:, 0]
    sampler = TargetSequences(Vectors(6), n_rows=40)
    sequence = sampler.draw(Dataset("blobs", X, y), np.random.default_rng(0))
    order = [int(np.flatnonzero((X.astype(np.float32) == x).all(1))[0]) for x in sequence.x]
    stream, shown = regressor(), []
    for i in order:
        stream.partial_fit(X[[i]], y[[i]])
        shown.append(stream._reading.previous[:, 0])
    found = torch.stack(shown).numpy()
    sign = np.sign(found[1, 0] * sequence.shown[1])  # half of the sequences are flipped
    assert_allclose(found, sign * sequence.shown[:, None].repeat(2, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inputs", ["vectors", "tables"])
def test_a_deviation_is_that_of_the_mixture_of_members(inputs):
    """It is larger where members disagree; in tables each member has its own units of targets."""
    X, _ = blobs(n_columns=6)
    y = 7 + 50 * X[:, 0] if inputs == "tables" else X[:, 0]
    members = regressor(inputs, n_estimators=3).fit(X, y)
    means, deviations = members.learner_.head.moments(members._ask(X))
    if inputs == "tables":
        means, deviations = means * y.std() + y.mean(), deviations * y.std()
    mean, std = members.predict(X, return_std=True)
    assert_allclose(mean, means.mean(0), rtol=1e-6)
    of_mixture = (deviations**2 + means**2).mean(0) - means.mean(0) ** 2
    assert_allclose(std, of_mixture.sqrt(), rtol=1e-6)
    assert (std**2 > 1.01 * (deviations**2).mean(0).numpy()).any()


def test_a_target_is_shown_as_it_is_to_a_network_of_vectors():
    """For networks of vectors meta-training uses no running units."""
    X, _ = blobs(n_columns=6)
    y = 7 + 50 * X[:5, 0]
    stream, shown = regressor("vectors"), []
    for i in range(5):
        stream.partial_fit(X[[i]], y[[i]])
        shown.append(stream._reading.previous[:, 0, 0].numpy())
    assert_allclose(shown, np.stack([y, y], 1), rtol=1e-6)


@pytest.mark.parametrize("n_rows", [1, 4])
def test_targets_that_did_not_vary_are_in_their_own_unit(n_rows):
    """Equal targets do not tell how far the next one may be, so the deviation is not zero."""
    X, _ = blobs()
    members = regressor(n_estimators=2).fit(X[:n_rows], np.full(n_rows, 7.0))
    means, deviations = (part.numpy() for part in members.learner_.head.moments(members._ask(X)))
    mean, std = members.predict(X, return_std=True)
    assert_allclose(mean, 7 + means.mean(0), rtol=1e-6)
    assert_allclose(std, np.sqrt((deviations**2).mean(0) + means.var(0)), rtol=1e-6)
    assert (std > 0).all()


def test_random_state_decides():
    X, y = blobs()
    a, b, c = (classifier(random_state=s).fit(X, y).predict_proba(X) for s in (1, 1, 2))
    assert_array_equal(a, b)
    assert not np.allclose(a, c)


# -- classes ----------------------------------------------------------------------------------


def test_a_declared_class_that_never_comes_has_a_probability():
    X, y = blobs(n_classes=2)
    estimator = classifier(n_estimators=1).partial_fit(X, y, classes=[0, 1, 5])
    assert_array_equal(estimator.classes_, [0, 1, 5])
    proba = estimator.predict_proba(X)
    assert proba.shape == (len(X), 3) and (proba > 0).all()
    two = classifier(n_estimators=1).partial_fit(X, y).predict_proba(X)
    assert_allclose(proba[:, :2] / proba[:, :2].sum(1, keepdims=True), two, rtol=1e-5)


def test_new_classes_may_come_later():
    X, y = blobs(n_classes=4)
    order = np.argsort(y, kind="stable")
    estimator = classifier()
    for n in (10, 20, 40):
        estimator.partial_fit(X[order][n // 2 : n], y[order][n // 2 : n])
    assert_array_equal(estimator.classes_, np.unique(y[order][5:]))


@pytest.mark.parametrize(("head", "n_classes"), [("onehot", 11), ("string", 40)])
def test_more_classes_than_one_hot_labels(head, n_classes):
    X, y = np.random.default_rng(0).normal(size=(n_classes, 3)), np.arange(n_classes)
    if head == "string":
        assert classifier("string").fit(X, y).predict_proba(X).shape == (40, 40)
        declared = classifier("string").partial_fit(X[20:21], y[20:21], classes=y)
        words_of, asked = declared._words_of, []
        declared._words_of = lambda slots: asked.append(slots) or words_of(slots)
        declared.predict_proba(X[:1])
        # Classes that have not occurred are in sorted order.
        assert_array_equal(asked[0][0, 0], [*range(1, 21), 0, *range(21, 40)])
        return
    with pytest.raises(
        ValueError, match="11 classes.*labels for only 10: use label_encoding='string'"
    ):
        classifier().fit(X, y)
    estimator = classifier().partial_fit(X[:10], y[:10])
    before = estimator.predict_proba(X)
    with pytest.raises(ValueError, match="use label_encoding='string'"):
        estimator.partial_fit(X[10:], y[10:])
    assert_array_equal(estimator.predict_proba(X), before)  # nothing was learned
    nine, other = (classifier().partial_fit(X[:9], y[:9]) for _ in range(2))
    with pytest.raises(ValueError, match="There are 11 classes"):
        nine.partial_fit(X[9:], y[9:])
    found, expected = (each.partial_fit(X[10:], y[10:]) for each in (nine, other))
    assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_one_class_only():
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert (classifier().fit(X, ["a"] * 5).predict(X) == "a").all()


# -- memory -----------------------------------------------------------------------------------


def test_a_persistent_memory_is_not_wiped():
    X, y = blobs()
    for estimator in (classifier, regressor):
        wiped, kept = (estimator(memory=how).fit(X, y) for how in ("wipe", "persistent"))
        assert_array_equal(answers(wiped, X), answers(kept, X))  # there was no memory before
        assert_array_equal(answers(wiped.fit(X, y), X), answers(kept, X))
        assert not np.allclose(answers(kept.fit(X, y), X), answers(wiped, X))


def test_what_a_fit_that_wipes_wrote_does_not_persist():
    X, y = blobs()
    estimator = classifier(memory="persistent").fit(X, y)
    estimator.set_params(memory="wipe").fit(X, y)
    estimator.set_params(memory="persistent").fit(X, y)
    anew = classifier(memory="persistent").fit(X, y)
    assert_array_equal(answers(estimator, X), answers(anew, X))


def test_memory_does_not_grow_with_the_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    estimator = classifier(n_estimators=1).partial_fit(X[:130], y[:130])
    size = len(pickle.dumps(estimator))
    estimator.partial_fit(X[130:], y[130:])
    assert estimator.n_samples_seen_ == 400
    assert abs(len(pickle.dumps(estimator)) - size) < 50
    assert np.isfinite(estimator.predict_proba(X[:5])).all()


def test_meta_fit_forgets_what_another_network_remembered():
    X, y = blobs()
    estimator = classifier().fit(X, y)
    estimator.meta_fit([(X, y)], max_steps=1, **LITTLE)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    assert estimator.fit(X, y).predict(X).shape == y.shape
    estimator.set_params(backbone=small_learner(seed=1))
    with pytest.raises(NotFittedError):
        estimator.predict(X)


# -- input ------------------------------------------------------------------------------------


def test_tables_of_categories_and_gaps():
    X = pd.DataFrame(
        {
            "colour": pd.Categorical(["red", "blue", None, "red"] * 5),
            "size": [1.0, np.nan, 3.0, 2.0] * 5,
        }
    )
    y = ["a", "b", "b", "a"] * 5
    estimator = classifier().fit(X, y)
    assert estimator.predict_proba(X).shape == (20, 2)
    assert_array_equal(estimator.feature_names_in_, ["colour", "size"])
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(X.rename(columns={"size": "length"}))
    with pytest.raises(ValueError, match="feature names"):
        estimator.partial_fit(X.rename(columns={"size": "length"}), y)
    assert np.isfinite(regressor().fit(X, np.arange(20)).predict(X)).all()


def test_vectors_of_another_length():
    X, y = blobs(n_columns=5)
    message = r"5 features, but backbone=.* is expecting 6 features: bring rows to that length"
    with pytest.raises(ValueError, match=message):
        classifier(inputs="vectors").fit(X, y)
    X, y = blobs(n_columns=6)
    estimator = classifier(inputs="vectors").fit(X, y)
    assert not np.allclose(estimator.predict_proba(X), estimator.predict_proba(2 * X))
    with pytest.raises(ValueError, match="6 features"):
        estimator.predict(X[:, :5])
    with pytest.raises(ValueError, match="X has 5 features, but .*expecting 6 features as input"):
        estimator.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match="NaN"):
        estimator.predict(np.full_like(X, np.nan))


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.full((4, 2), np.inf), [0, 1, 0, 1], "infinity"),
        (np.zeros((4, 2)), [0, 1, np.nan, 1], "NaN"),
        (np.zeros((4, 2)), [0, 1], "inconsistent numbers of samples"),
        (np.zeros((0, 2)), [], "minimum of 1 is required"),
        (np.zeros(4), [0, 1, 0, 1], "Expected 2D array"),
    ],
)
def test_bad_input(make, X, y, message):
    for method in ("fit", "partial_fit", "predict_online"):
        with pytest.raises(ValueError, match=message):
            getattr(make(), method)(X, y)


def test_continuous_labels_and_other_tasks_are_refused():
    X, y = blobs()
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, y + 0.5)
    with pytest.raises(ValueError, match="online_regression, and MANNClassifier is for"):
        MANNClassifier(small_learner("gaussian")).fit(X, y)
    with pytest.raises(ValueError, match="label_encoding='string' does not fit backbone"):
        classifier(label_encoding="string").fit(X, y)
    with pytest.raises(NotFittedError, match="names an architecture without weights"):
        MANNClassifier("mann").fit(X, y)
    with pytest.raises(NotFittedError):
        classifier().predict(X)


# -- company ----------------------------------------------------------------------------------


def test_pipelines_cross_validation_and_search():
    X, y = blobs()
    pipeline = make_pipeline(StandardScaler(), classifier())
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    search = GridSearchCV(classifier(), {"n_estimators": [1, 2]}, cv=2).fit(X, y)
    assert search.best_estimator_.predict(X).shape == y.shape
    assert cross_val_score(regressor(), X, y, cv=3).shape == (3,)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_pickle_and_clone(make):
    X, y = blobs()
    estimator = make().fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert_array_equal(answers(again, X), answers(estimator, X))
    assert_array_equal(answers(again.partial_fit(X, y), X), answers(estimator.partial_fit(X, y), X))
    with pytest.raises(NotFittedError):
        clone(estimator).predict(X)


# -- meta-training ----------------------------------------------------------------------------


def test_meta_fit_goes_on_to_the_same_weights(tmp_path):
    X, y = load_iris(return_X_y=True)
    ways = LITTLE | {"eval_every": 2, "batch_size": 4, "curriculum": 6, "n_shots": (4,)}
    ways |= {"n_classes": (2, 2), "validation_datasets": [(X, y)]}
    whole = classifier().meta_fit([(X, y)], max_steps=6, **ways)

    def kill(net, **kwargs):
        if len(net.history) == 3:
            raise RuntimeError("killed")

    class Killer:
        def __getattr__(self, name):
            return kill if name == "on_epoch_end" else lambda *a, **k: self

    partly = classifier()
    with pytest.raises(RuntimeError, match="killed"):
        partly.meta_fit(
            [(X, y)], max_steps=6, checkpoint_dir=tmp_path, callbacks=[("k", Killer())], **ways
        )
    resumed = classifier().meta_fit([(X, y)], max_steps=6, checkpoint_dir=tmp_path, **ways)
    for name, value in whole.learner_.state_dict().items():
        torch.testing.assert_close(resumed.learner_.state_dict()[name], value, rtol=0, atol=0)
    assert whole.history_[-1]["valid_loss"] == resumed.history_[-1]["valid_loss"]


def test_sequences_have_no_unlabelled_rows():
    X, y = blobs()
    with pytest.raises(ValueError, match="sequences, which have no n_unlabelled"):
        classifier().meta_fit([(X, y)], n_unlabelled=5)
    with pytest.raises(ValueError, match="sequences, which have no n_shots"):
        regressor().meta_fit([(X, y)], n_shots=(5,))


def test_the_papers_optimiser_and_architectures():
    X, y = load_iris(return_X_y=True)
    for name in ("mann", "mann_ntm", "mann_feedforward", "lstm", "feedforward"):
        estimator = MANNClassifier(name, n_estimators=1)
        estimator.meta_fit(
            [(X, y)],
            max_steps=1,
            batch_size=2,
            n_shots=(3,),
            optimizer="rmsprop",
            schedule="constant",
            **LITTLE,
        )
        assert estimator.fit(X[::10], y[::10]).predict(X).shape == y.shape


class Bound(ClassSequences):
    """Sequences whose rows tell their label."""

    def draw(self, dataset, rng):
        sequence = super().draw(dataset, rng)
        words = sequence.x.argmax(1)[:, None]
        return sequence._replace(shown=words, asked=words)


@pytest.mark.parametrize("sampler", [ClassSequences, Bound])
def test_a_network_that_ignores_memory_stays_at_chance(sampler):
    """Sequences shuffle the labels; if labels were bound to rows, the network would learn them."""
    dataset = as_dataset(np.repeat(np.eye(2), 30, 0), np.repeat([0, 1], 30))
    torch.manual_seed(0)
    network = {"controller": "feedforward", "access": None, "width": 16}
    learner = MemoryLearner(
        inputs="vectors", n_inputs=2, backbone_config=network, head_config={"n_classes": 2}
    )
    sampler = sampler(learner.head, Vectors(2), n_classes=(2, 2))
    ways = LITTLE | {"max_steps": 60, "eval_every": 20, "learning_rate": 1e-2, "n_warmup": 10}
    ways |= {"batch_size": 16, "n_groups": 1}
    loss = meta_train(learner, Tables({"a": dataset}), sampler, **ways)[-1]["train_loss"]
    if isinstance(sampler, Bound):
        assert loss < 0.1
    else:
        assert abs(loss - np.log(2)) < 0.03


def test_regression_learns_from_functions():
    torch.manual_seed(0)
    learner = MemoryLearner(
        "mann",
        "gaussian",
        task="online_regression",
        inputs="vectors",
        n_inputs=1,
        backbone_config=SMALL,
    )
    estimator, functions = MANNRegressor(learner, n_estimators=1), GaussianProcessPrior(n_rows=20)
    estimator.meta_fit(
        functions,
        validation_datasets=functions,
        n_rows=(20, 20),
        max_steps=20,
        eval_every=20,
        learning_rate=2e-2,
        n_warmup=10,
        n_groups=1,
        **LITTLE,
    )
    # Predicting the prior, whatever was read, costs log(2 pi) / 2 + 1 / 2 = 1.42.
    assert estimator.history_[-1]["valid_loss"] < 1.35


@pytest.mark.parametrize("make", [classifier, regressor])
def test_vectors_are_meta_trained_on_as_fit_reads_them(make):
    """A network of vectors reads rows unchanged, so it is not trained on standardised ones."""
    X, y = blobs(n_columns=6)
    X = 2 + X / 20
    y = y if make is classifier else X[:, 0].astype(np.float32)

    as_it_is = Dataset("0", X.astype(np.float32), y)
    found = trained(make, (X, y))
    torch.testing.assert_close(found, trained(make, as_it_is))
    assert differ(found, trained(make, (X + 1, y)))


def trained(make, table, inputs="vectors", batch_size=4):
    """Weights after two steps."""
    estimator = make(inputs=inputs, random_state=0)
    ways = LITTLE | {"max_steps": 2, "eval_every": 2, "validation_datasets": [table]}
    short = {"n_shots": (3,)} if make is classifier else {"n_rows": (6, 10)}
    estimator.meta_fit([table], batch_size=batch_size, **short, **ways)
    return dict(estimator.learner_.named_parameters())


def differ(found, others):
    return any((found[name] - others[name]).abs().max() > 1e-6 for name in found)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_a_step_has_as_many_sequences_as_are_asked_for(make):
    X, y = blobs(n_columns=6)
    y = y if make is classifier else X[:, 0]
    assert differ(*(trained(make, (X, y), "tables", size) for size in (1, 2)))


def test_the_unit_of_a_target_is_no_matter_in_meta_training_on_tables():
    """But for networks of vectors, to which it is shown as it is."""
    X, _ = blobs(n_columns=6)
    X = X.astype(np.float32)
    tables = [Dataset("0", X, scale * X[:, 0]) for scale in (1, 64)]
    for inputs, told in (("tables", False), ("vectors", True)):
        assert differ(*(trained(regressor, table, inputs) for table in tables)) == told


@pytest.mark.parametrize("n_rows", [20, 60])
def test_targets_count_as_they_are_however_far_off_the_rows_before(n_rows):
    """No single cell decides what is usual in a column, but all targets count as they are."""
    X, y = np.random.default_rng(0).normal(size=(2, n_rows))
    y[-5:] += 1e4
    read = regressor().partial_fit(X[:, None], y)._reading.targets
    assert_allclose(read.mean, np.full((2, 1), y.mean()))
    assert_allclose(read.scale, np.full((2, 1), y.std()))
