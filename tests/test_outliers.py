"""AmortizedOutlierDetector as a scikit-learn user meets it, its head and its tasks."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_meta import AmortizedOutlierDetector
from sklearn_meta.heads import HEADS, OddAtScales, OddOneOut
from sklearn_meta.heads.odd_one_out import RANKING
from sklearn_meta.learner import Learner
from sklearn_meta.tasks import Dataset, OutlierSampler, RegressionPrior, TablePrior, collate
from sklearn_meta.tasks.alterations import ALTERATIONS, alter
from sklearn_meta.tasks.batch import IGNORE

HEAD_NAMES = st.sampled_from(sorted(HEADS["outlier_detection"]))


def small_learner(seed=0, backbone="vsa", head="odd_one_out"):
    """A learner with random weights: the properties hold for any weights, and this one is quick."""
    torch.manual_seed(seed)
    config = {"width": 8, "head_width": 4, "n_heads": 2, "n_layers": 2}
    learner = Learner(
        backbone,
        head,
        task="outlier_detection",
        backbone_config=config if backbone == "vsa" else None,
    )
    if head == "odd_at_scales":  # its network returns zeros at first
        torch.nn.init.normal_(learner.head.network[-1].weight, std=0.3)
    return learner.requires_grad_(False)


LEARNERS = {head: small_learner(head=head) for head in HEADS["outlier_detection"]}


def double(head="odd_one_out", **parameters):
    return AmortizedOutlierDetector(LEARNERS[head], dtype="float64", **parameters)


# "auto" may find no outlier, and the checks need some.
CHECKED = AmortizedOutlierDetector(contamination=0.1, dtype="float64")


@parametrize_with_checks([CHECKED], xfail_strict=True)
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_no_method_adds_an_attribute():
    """Also holds for the default parameters, which scikit-learn's checks do not use."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    detector = AmortizedOutlierDetector().fit(X)
    before = set(vars(detector))
    for method in ("predict", "score_samples", "decision_function", "transform"):
        getattr(detector, method)(X)
        assert set(vars(detector)) == before


# -- properties -------------------------------------------------------------------------------


@st.composite
def rows_of_a_table(draw):
    """A set of rows with gaps, and new rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_columns = draw(st.integers(2, 15)), draw(st.integers(1, 6))
    X = rng.standard_normal((n_rows + draw(st.integers(1, 8)), n_columns))
    X *= rng.lognormal(size=n_columns)
    X[rng.random(X.shape) < draw(st.sampled_from([0, 0.2]))] = np.nan
    X[0] = 1.0  # at least one cell is observed
    return X[:n_rows], X[n_rows:]


#: The sixth and the eighth row are very close to each other, relative to this set.
CLOSE = np.array([[1.0, -6.2, 0.92, 1.7, -2.58, -1.2436, -3.45, -1.2356]]).T, np.array([[-0.8]])


@settings(max_examples=24)
@given(head=HEAD_NAMES, rows=rows_of_a_table(), seed=st.integers(0, 1000))
@example(head="odd_at_scales", rows=CLOSE, seed=3)
def test_permutations_of_rows_and_columns(head, rows, seed):
    X, new = rows
    expected = double(head).fit(X)
    rng = np.random.default_rng(seed)
    order, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    found = double(head).fit(X[np.ix_(order, columns)])
    assert_allclose(
        found.score_samples(X[np.ix_(order, columns)]), expected.score_samples(X)[order], atol=1e-9
    )
    assert_allclose(found.score_samples(new[:, columns]), expected.score_samples(new), atol=1e-9)


@settings(max_examples=24)
@given(head=HEAD_NAMES, rows=rows_of_a_table())
def test_units_of_columns_do_not_matter(head, rows):
    X, _ = rows
    scale, shift = 10.0 ** np.arange(X.shape[1]), np.arange(X.shape[1])
    expected = double(head).fit(X).score_samples(X)
    assert_allclose(double(head).fit(X * scale + shift).score_samples(X * scale + shift), expected)


@settings(max_examples=24)
@given(head=HEAD_NAMES, rows=rows_of_a_table(), chunk_size=st.integers(1, 4))
def test_answers_do_not_depend_on_their_batch(head, rows, chunk_size):
    X, new = rows
    expected = double(head).fit(X).score_samples(new)
    chunked = double(head, chunk_size=chunk_size).fit(X)
    assert_allclose(chunked.score_samples(new), expected, atol=1e-9)
    detector = double(head).fit(X)
    one_by_one = [detector.score_samples(row[None]) for row in new]
    assert_allclose(np.concatenate(one_by_one), expected, atol=1e-9)


@settings(max_examples=24)
@given(
    head=HEAD_NAMES,
    sets=st.lists(rows_of_a_table(), min_size=1, max_size=4),
    contamination=st.sampled_from(["auto", 0.1, 0.4]),
)
def test_many_sets_equal_one_by_one(head, sets, contamination):
    """Sets read together and padded, or from the encoded context in ``fit``: all agree."""
    detector = double(head, contamination=contamination)
    sets = [X for X, _ in sets]
    scores, outliers = detector.score_samples_batch(sets), detector.fit_predict_batch(sets)
    for X, score, outlier in zip(sets, scores, outliers, strict=True):
        detector.fit(X)
        assert_allclose(score, detector.score_samples(X), atol=1e-9)
        margin = np.abs(detector.decision_function(X)) > 1e-9  # leave out ties at the threshold
        assert_array_equal(outlier[margin], detector.fit_predict(X)[margin])


@settings(max_examples=24)
@given(head=HEAD_NAMES, rows=rows_of_a_table(), contamination=st.sampled_from(["auto", 0.1, 0.5]))
def test_conventions_of_outlier_detectors(head, rows, contamination):
    X, new = rows
    detector = double(head, contamination=contamination).fit(X)
    assert_array_equal(
        detector.decision_function(new), detector.score_samples(new) - detector.offset_
    )
    assert_array_equal(detector.predict(new), np.where(detector.decision_function(new) < 0, -1, 1))
    assert_array_equal(detector.fit_predict(X), detector.fit(X).predict(X))
    if contamination == "auto":
        assert detector.offset_ == 0
    elif len(np.unique(detector.score_samples(X))) == len(X):
        assert abs((detector.predict(X) == -1).sum() - contamination * len(X)) <= 1


@pytest.mark.parametrize("backbone", ["vsa", "deep_sets", "exchangeable", "hml", "att_hml"])
def test_every_architecture_reads_a_set_without_labels(backbone):
    X = np.random.default_rng(0).standard_normal((12, 3))
    X[4, 1] = np.nan
    detector = AmortizedOutlierDetector(small_learner(backbone=backbone), dtype="float64").fit(X)
    scores = detector.score_samples(X)
    assert np.isfinite(scores).all() and np.ptp(scores) > 1e-3
    assert_allclose(detector.score_samples_batch([X[:5], X])[1], scores, atol=1e-9)


@settings(max_examples=24)
@given(head=HEAD_NAMES, rows=rows_of_a_table())
def test_a_row_of_the_set_gets_its_answer_alone_and_among_others(head, rows):
    X, new = rows
    detector = double(head).fit(X)
    scores = detector.score_samples(X)
    assert_allclose(detector.score_samples(np.vstack([new, X]))[len(new) :], scores, atol=1e-9)
    assert_allclose(detector.score_samples(X[:1]), scores[:1], atol=1e-9)


# -- the estimator among scikit-learn's ---------------------------------------------------------


def test_default_weights_find_what_is_far_away():
    rng = np.random.default_rng(0)
    sets, truths = [], []
    for n_rows in (10, 30, 100, 300):
        X = rng.standard_normal((n_rows, 4)) @ rng.standard_normal((4, 4))
        X[::10] += 8 * X.std(0) * rng.choice([-1, 1], 4)
        sets.append(X)
        truths.append(np.arange(n_rows) % 10 == 0)
    detector = AmortizedOutlierDetector()
    for truth, scores in zip(truths, detector.score_samples_batch(sets)):
        assert roc_auc_score(truth, -scores) > 0.95
    novelty = detector.fit(sets[2][~truths[2]])  # a clean set
    assert roc_auc_score(truths[2], -novelty.score_samples(sets[2])) > 0.95


def test_rows_of_another_class():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[0:25, 60, 120]
    scores = AmortizedOutlierDetector().fit(X[rows]).score_samples(X[rows])
    assert (y[rows][scores.argsort()[:2]] > 0).all()


def test_frames_with_categories_gaps_and_names():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((25, 2)), columns=["a", "b"])
    frame["kind"] = pd.Categorical(rng.choice(["x", "y"], 25))
    frame.loc[3, "a"] = np.nan
    frame.loc[5, "kind"] = None
    detector = double(contamination=0.2).fit(frame)
    assert list(detector.feature_names_in_) == ["a", "b", "kind"]
    assert np.isfinite(detector.score_samples(frame)).all()
    assert (detector.predict(frame) == -1).sum() == 5
    assert_allclose(detector.score_samples_batch([frame])[0], detector.score_samples(frame))
    unseen = frame.assign(kind=["z"] * 25)  # a category that fit has not seen is a missing cell
    with pytest.warns(UserWarning, match="'kind' holds only categories that fit has not seen"):
        found = detector.score_samples(unseen)
    assert_allclose(found, detector.score_samples(frame.assign(kind=[None] * 25)))


def test_many_rows_are_judged_from_some_of_them():
    X = np.random.default_rng(0).standard_normal((60, 2))
    detector = double(max_samples=20, contamination=0.1, random_state=3).fit(X)
    assert detector.X_.shape == (20, 2)
    assert len(np.unique(detector.X_, axis=0)) == 20 and np.isin(detector.X_, X).all()
    assert detector.score_samples(X).shape == (60,)
    assert (detector.predict(X) == -1).sum() == 6  # the share is of all rows
    assert_array_equal(detector.score_samples(X), clone(detector).fit(X).score_samples(X))
    other = clone(detector).set_params(random_state=4).fit(X)
    assert not np.array_equal(other.X_, detector.X_)
    assert_array_equal(double(max_samples=60).fit(X).X_, X)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_column_is_does_not_hang_on_which_rows_are_drawn(seed):
    numbers = pd.Series(np.arange(40) % 5, dtype=object)
    numbers[7] = "?"
    frame = pd.DataFrame({"answer": numbers, "b": np.arange(40.0)})
    detector = double(max_samples=10, contamination=0.1, random_state=seed).fit(frame)
    assert detector.encoder_.categorical_ == [0]
    assert detector.predict(frame).shape == (40,)


def test_rows_that_are_drawn_have_a_cell():
    X = np.full((60, 2), np.nan)
    X[::20] = 1, 2
    X[20, 0] = np.nan
    detector = double(max_samples=5).fit(X)
    assert_array_equal(detector.X_, X[::20])
    with pytest.raises(ValueError, match="Every cell of X is missing"):
        detector.fit(X + np.nan)


def test_a_threshold_is_for_the_scores_of_the_weights_of_fit():
    X = np.random.default_rng(0).standard_normal((30, 3))
    detector, auto = double(contamination=0.1).fit(X), double().fit(X)
    again = pickle.loads(pickle.dumps(detector))
    assert_array_equal(again.predict(X), detector.predict(X))
    for model in (detector, again, auto):
        model.set_params(backbone=small_learner(1))
    for model in (detector, again):
        with pytest.raises(NotFittedError):
            model.predict(X)
        assert (model.fit(X).predict(X) == -1).sum() == 3
    assert_array_equal(auto.score_samples(X), detector.score_samples(X))


def test_pipeline_clone_and_pickle():
    X = np.random.default_rng(0).standard_normal((30, 3))
    model = make_pipeline(StandardScaler(), AmortizedOutlierDetector(contamination=0.1)).fit(X)
    assert (model.predict(X) == -1).sum() == 3
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert len(pickle.dumps(model)) < 20_000  # weights of the package are stored by name
    assert clone(model[-1]).get_params() == model[-1].get_params()


def test_same_parameters_and_meaning_as_isolation_forest():
    X = np.random.default_rng(0).standard_normal((40, 3))
    for model in (AmortizedOutlierDetector, IsolationForest):
        found = model(contamination=0.25, random_state=0).fit(X)
        assert (found.fit_predict(X) == -1).sum() == 10
        assert_allclose(found.offset_, np.percentile(found.score_samples(X), 25), rtol=1e-3)


@pytest.mark.parametrize("n_rows", [1, 5])
def test_equal_rows_at_the_threshold_get_one_answer(n_rows):
    for seed in (3, 4, 5):
        rng = np.random.default_rng(seed)
        X = rng.choice([0.0, 1.0, 2.0], size=(60, 3), p=[0.7, 0.2, 0.1])
        model = AmortizedOutlierDetector(contamination=0.2).fit(X)
        parts = [model.predict(X[i : i + n_rows]) for i in range(0, 60, n_rows)]
        assert_array_equal(np.concatenate(parts), model.predict(X))


@pytest.mark.parametrize("level", [-1000.0, -20.0, 0.0, 3.0, 500.0])
def test_a_threshold_is_below_scores_that_differ_by_rounding_alone(level):
    """Sums in single precision differ in their last digits."""
    scores = level + (1 + abs(level)) * 8 * np.finfo(np.float32).eps * np.array([-1.0, 0.0, 1.0])
    detector = AmortizedOutlierDetector(contamination=0.5)
    assert (scores >= detector._offset(scores)).all()
    assert (scores - 0.01 * (1 + abs(level)) < detector._offset(scores)).all()


# -- meta-training ------------------------------------------------------------------------------

FEW = {"max_steps": 4, "eval_every": 2, "batch_size": 2, "n_unlabelled": (8, 20), "verbose": False}


def weights(detector):
    return torch.cat([p.flatten() for p in detector.learner_.state_dict().values()])


def test_meta_fit_on_labelled_tables_resumes_to_the_same_weights(tmp_path):
    X, y = load_iris(return_X_y=True)
    tables = {"iris": (X, y), "target": (X[:, 1:], X[:, 0])}
    detector = AmortizedOutlierDetector(small_learner(), random_state=0)
    few = FEW | {"learning_rate": 1e-4}  # at this rate an epoch improves on the start
    whole = clone(detector).meta_fit(tables, validation_datasets=tables, **few)
    assert {"valid_auroc", "valid_auroc_8_rows"} <= whole.history_[-1].keys()
    free = clone(detector).meta_fit(tables, **few)
    assert not torch.equal(weights(free), weights(detector.fit(X)))

    def stop(net, **kwargs):
        raise InterruptedError

    from skorch.callbacks import Callback

    crash = Callback()
    crash.on_epoch_end = stop
    settings = few | {"validation_datasets": tables, "checkpoint_dir": tmp_path}
    with pytest.raises(InterruptedError):
        clone(detector).meta_fit(tables, callbacks=[crash], **settings)
    resumed = clone(detector).meta_fit(tables, **settings)
    assert len(resumed.history_) == 2
    assert torch.equal(weights(resumed), weights(whole))


def test_the_head_of_an_architecture_learns_faster():
    assert Learner(head="odd_at_scales", task="outlier_detection").rate_factors == {"head.*": 5.0}


def test_an_architecture_by_name_learns_from_a_prior():
    detector = AmortizedOutlierDetector("deep_sets", random_state=0)
    detector.meta_fit(TablePrior(n_rows=100), **FEW)
    assert detector.learner_.names == {"backbone": "deep_sets", "head": "odd_at_scales"}
    assert set(detector.fit_predict(load_iris().data)) <= {-1, 1}


# -- the head -----------------------------------------------------------------------------------


def test_head_by_hand():
    head = OddOneOut(share=0.2)
    z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [5.0, 1.0]])[None, :, :, None]
    readable = torch.tensor([[True, True, True, True, False]])  # centre (1, 1), distances 2
    logits = head.joint(z, None, None, readable)[0].detach()
    assert_allclose(logits[:4], np.log(0.2 / 0.8), rtol=1e-5)
    assert_allclose(logits[4], np.log(16 / 2) + np.log(0.2 / 0.8), rtol=1e-3)


def test_distances_at_scales_by_hand():
    """Checks distances row by row against their definition; the network is used as it is."""
    torch.manual_seed(0)
    head = OddAtScales(**OddAtScales(share=0.3, n_scales=3, n_hidden=4).config).double()
    z = torch.randn(1, 9, 2, 3, dtype=torch.float64)
    z[0, 8] *= 300  # so far that the network's input is bounded
    assert head.network[-1].in_features == 4
    readable = torch.arange(9)[None] < 7  # rows 7 and 8 are asked for and not in the set
    kept = head.adapt(z, None, None, readable)
    rows = z[0].flatten(1).numpy()
    square = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    unit = square[:7, :7].mean() + head.floor
    far = np.log(((rows - rows[:7].mean(0)) ** 2).sum(1) + head.floor)
    near, beside = np.empty((9, 3)), np.empty((9, 3))
    for k, h in enumerate(head.log_scales.detach().exp().numpy()):
        kernel = -square[:, :7] / unit / (2 * h)
        kernel[np.arange(7), np.arange(7)] = -np.inf
        count = 6  # without itself, or without any one
        total = np.logaddexp.reduce(kernel, axis=1)
        near[:, k] = np.log(-2 * h * (total - np.log(count)) + head.floor)
        beside[:, k] = near[:, k] - np.exp(kernel - total[:, None]) @ near[:7, k]
    features = np.column_stack([near, beside, far])
    features -= features[:7].mean(0)
    deviation = np.sqrt((features[:7] ** 2).mean(0) + 1e-4)
    assert features.max() > 10
    given = [features.clip(-10, 10), (features / deviation).clip(-10, 10)]
    given.append(np.tile(np.log(deviation), (9, 1)))
    given.append(np.full((9, 1), np.log(7) - 4))
    found = []
    head.network.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0]))
    logits = head(z, kept)
    assert_allclose(found[0][0].detach(), np.column_stack(given), atol=1e-10)
    first = OddOneOut(share=0.3).double()
    assert_allclose(logits.detach(), first(z, first.adapt(z, None, None, readable)).detach())


def test_distances_at_scales_are_in_full_precision_under_autocast():
    z, readable = torch.randn(1, 20, 4, 2).bfloat16(), torch.arange(20)[None] < 15
    head = LEARNERS["odd_at_scales"].head
    expected = head.joint(z.float(), None, None, readable)
    with torch.autocast("cpu", torch.bfloat16):
        assert_array_equal(head.joint(z, None, None, readable), expected)


@pytest.mark.parametrize(
    ("rows", "n_rows"), [([1.0, 2, 3], 0), ([1.0, 2, 3], 1), ([0.0, 0, 1, 0.01], 3)]
)
def test_distances_at_scales_are_finite_of_few_rows(rows, n_rows):
    """Without rows that have no cell, none or one may remain; a new row may be nearer than any."""
    z, readable = torch.tensor(rows)[None, :, None, None], torch.arange(len(rows))[None] < n_rows
    assert OddAtScales().joint(z, None, None, readable).isfinite().all()


def test_what_is_in_the_middle_and_alone_is_told_by_the_head():
    """The head learns it from one kind of sets, with embeddings that are the rows themselves."""
    torch.manual_seed(0)
    head = OddAtScales()
    steps = torch.optim.Adam(head.parameters(), 0.01)

    def rings(n):
        angle = 6.2832 * torch.rand(n, 40)
        z = torch.stack([angle.cos(), angle.sin()], -1) + 0.05 * torch.randn(n, 40, 2)
        z[:, 0] = 0.1 * torch.randn(n, 2)
        return z[:, :, None], (torch.arange(40) == 0).long().expand(n, 40)

    readable = torch.ones(16, 40, dtype=torch.bool)
    z, target = rings(16)
    middle = OddOneOut().joint(z, None, None, readable)
    assert OddOneOut.score(middle, target).mean() < 0.1  # this head takes the middle for usual
    for _ in range(60):
        z, target = rings(16)
        loss = head.loss(head.joint(z, None, None, readable), target)
        steps.zero_grad()
        loss.backward()
        steps.step()
    z, target = rings(16)
    assert head.score(head.joint(z, None, None, readable), target).mean() > 0.99


@pytest.mark.parametrize("kind", [OddOneOut, OddAtScales])
def test_of_rows_that_are_all_equal_none_is_odd(kind):
    z, readable = torch.ones(1, 5, 2, 3, requires_grad=True), torch.ones(1, 5, dtype=torch.bool)
    head = kind(share=0.2)
    logits = head.joint(z, None, None, readable)
    torch.testing.assert_close(logits.sigmoid(), torch.full((1, 5), 0.2))
    head.loss(logits, torch.tensor([[0, 0, 1, 0, 0]])).backward()
    assert z.grad.isfinite().all()


def test_loss_and_score_count_the_rows_asked_for():
    logits = torch.tensor([[2.0, -1.0, 0.0, 9.0], [0.5, 0.5, -3.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    target = torch.tensor([[1, 0, 0, IGNORE], [1, 0, 0, 1], [0, 0, IGNORE, IGNORE]])
    expected = [roc_auc_score([1, 0, 0], logits[0, :3]), roc_auc_score(target[1], logits[1]), 0.5]
    assert OddOneOut.score(logits, target).tolist() == expected
    proba = logits.sigmoid()
    binary = [
        -(proba[0, 0].log() + (1 - proba[0, 1]).log() + (1 - proba[0, 2]).log()) / 3,
        -(proba[1, [0, 3]].log().sum() + (1 - proba[1, [1, 2]]).log().sum()) / 4,
        -(1 - proba[2, :2]).log().mean(),
    ]
    ranking = [
        -logits[0, :3].log_softmax(0)[0] / np.log(3),
        -logits[1].log_softmax(0)[[0, 3]].mean() / np.log(4),
        0.0,
    ]
    by_hand = np.mean(binary) + RANKING * np.mean(ranking)
    assert_allclose(OddOneOut.loss(logits, target), by_hand, rtol=1e-5)
    idle = torch.cat([target, torch.full_like(target[:1], -1)])  # a task that asks for nothing
    loss = OddOneOut.loss(torch.cat([logits, logits[:1]]), idle)
    assert_allclose(loss, by_hand * len(target) / len(idle), rtol=1e-5)
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        OddOneOut(share=1)


def test_a_score_needs_no_matrix_of_all_pairs():
    torch.manual_seed(0)
    logits, target = torch.randn(2, 1000).round(decimals=1), torch.randint(-1, 2, (2, 1000))
    logits[0, :5] = torch.inf
    with torch.profiler.profile(profile_memory=True) as told:
        scores = OddOneOut.score(logits, target)
    assert max(event.cpu_memory_usage for event in told.events()) < 2 * 1000 * 100
    for score, z, y in zip(scores, logits.nan_to_num(posinf=99), target, strict=True):
        assert_allclose(score, roc_auc_score(y[y >= 0], z[y >= 0]), rtol=1e-6)


# -- the tasks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [TablePrior(n_rows=200), RegressionPrior()])
def test_draws_are_sound(source):
    rng, sampler = np.random.default_rng(0), OutlierSampler()
    tasks = [sampler.draw(source.draw(rng), rng) for _ in range(300)]
    shares, sizes = [], []
    for task in tasks:
        assert task.X.dtype == np.float32 and not np.isinf(task.X).any()
        assert not task.labelled.any() and task.n_label_columns == 1
        assert set(task.y) <= {0, 1} and (task.y == 0).sum() >= 2
        shares.append(task.y.mean())
        sizes.append(len(task.y))
        if not task.context.all() and task.y.any():  # an odd row is asked for
            assert task.context[task.y == 0].sum() >= 2 and task.y[~task.context].any()
    assert max(shares) <= 0.2 and 0.05 < np.mean(np.equal(shares, 0)) < 0.15
    assert min(sizes) == 8 and max(sizes) > 100
    whole = [task for task in tasks if task.context.all()]
    assert len(whole) / len(tasks) == pytest.approx(0.7, abs=0.1)
    inputs, target = collate(tasks[:7])
    assert inputs["labels"].isnan().all() and inputs["classes"].shape == (7, 1)
    assert all((t[: len(k.y)] >= 0).any() for t, k in zip(target, tasks))
    size = [2 ** int(np.log2(len(task.y))) for task in tasks[:7]]
    assert sampler.strata(inputs) == size


def test_classes_and_extreme_targets_are_what_is_odd():
    rng = np.random.default_rng(0)
    sampler = OutlierSampler(altered=0, clean=0, column_subset=0, missing=0, flip=False)
    y = np.repeat([0, 1, 2], 40)
    for _ in range(30):  # the column is the class
        task = sampler.draw(Dataset("classes", np.float32(y[:, None]), y), rng)
        odd, usual = set(task.X[task.y == 1, 0]), set(task.X[task.y == 0, 0])
        assert odd and usual and not odd & usual
    target = rng.standard_normal(200).astype(np.float32)
    for y in (target, target[:, None]):
        for _ in range(30):  # the column is the target
            task = sampler.draw(Dataset("target", target[:, None], y), rng)
            odd, usual = task.X[task.y == 1], task.X[task.y == 0]
            assert ((odd < usual.min()) | (odd > usual.max())).all()


@pytest.mark.parametrize("way", ALTERATIONS)
def test_altered_rows(way, monkeypatch):
    monkeypatch.setattr("sklearn_meta.tasks.alterations.ALTERATIONS", {way: ALTERATIONS[way]})
    rng = np.random.default_rng(0)
    usual = np.column_stack([rng.standard_normal((80, 3)), rng.integers(2, size=80)])
    usual[rng.random(usual.shape) < 0.1] = np.nan
    rows = usual[:20].copy()
    altered = alter(rows, usual, rng)
    assert_array_equal(np.isnan(altered), np.isnan(rows))
    assert set(altered[:, 3][~np.isnan(rows[:, 3])]) <= {0, 1}  # no values that do not occur
    assert len(np.unique(altered[:, 3][~np.isnan(rows[:, 3])])) == 2  # the nearest of those that do
    assert (np.nan_to_num(altered) != np.nan_to_num(rows)).any(1).mean() > 0.8
    assert_array_equal(rows, usual[:20])  # not in place


@pytest.mark.parametrize("way", ALTERATIONS)
def test_units_of_columns_are_those_of_altered_rows(way, monkeypatch):
    monkeypatch.setattr("sklearn_meta.tasks.alterations.ALTERATIONS", {way: ALTERATIONS[way]})
    usual = np.random.default_rng(0).lognormal(size=(60, 4))
    usual[::7, 0] = np.nan
    usual[:, 3] = np.nan  # nothing is known of it
    scale, shift = [0.01, 1, 300, 1], [5, -20, 0, 0]
    for seed in range(6):
        altered = alter(usual[:9], usual, np.random.default_rng(seed))
        other = usual * scale + shift
        other = alter(other[:9], other, np.random.default_rng(seed))
        assert_allclose(other, altered * scale + shift, rtol=1e-6)


def test_how_far_altered_rows_are():
    """Distances are in standard deviations of the columns."""
    rng = np.random.default_rng(0)
    usual = rng.standard_normal((200, 5))
    usual = (usual - usual.mean(0)) / usual.std(0)
    rows = usual[:50]
    given, whole = (rows, usual, np.zeros(5), np.ones(5)), []
    for _ in range(40):
        off = np.abs(ALTERATIONS["spikes"](rng, *given) - rows)
        whole.append((off > 0).all())
        assert (off > 0).any(1).all() and off.max() < 8 and off[off > 0].min() > 1.5
        exchanged = ALTERATIONS["exchange"](rng, *given)
        assert all(np.isin(found, cells).all() for found, cells in zip(exchanged.T, usual.T))
        assert (ALTERATIONS["scatter"](rng, *given) / np.abs(usual).max(0)).max() < 1.5
        cluster = ALTERATIONS["cluster"](rng, *given)
        assert 0.5 < np.sqrt((cluster.mean(0) ** 2).mean()) < 4.2 and cluster.std(0).max() < 1.2
        ratio = ALTERATIONS["inflate"](rng, *given) / rows
        assert_allclose(ratio, ratio[0, 0])
        assert 1.5 < ratio[0, 0] < 5
        assert 0.25 < (ALTERATIONS["blur"](rng, *given) - rows).std() < 3.5
    assert 0.1 < np.mean(whole) < 0.6  # often all cells


def test_columns_of_few_values_keep_them(monkeypatch):
    ways = {of: lambda rng, rows, *usual, of=of: rows + of for of in (0.6, 1.4)}
    monkeypatch.setattr("sklearn_meta.tasks.alterations.ALTERATIONS", ways)
    rng = np.random.default_rng(0)
    usual = np.column_stack([np.arange(110.0) % n for n in (10, 11)])
    found = [alter(usual[:2], usual, rng).tolist() for _ in range(20)]
    assert [[1, 0.6], [2, 1.6]] in found and [[1, 1.4], [2, 2.4]] in found  # both directions occur


@pytest.mark.parametrize("way", ["gaps", "gap"])
def test_rows_in_gaps_are_within_and_alone(way, monkeypatch):
    monkeypatch.setattr("sklearn_meta.tasks.alterations.ALTERATIONS", {way: ALTERATIONS[way]})
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 200)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.03 * rng.standard_normal((200, 2))
    sets = [alter(ring[:10], ring[10:], rng) for _ in range(50)]
    assert (np.std(sets, axis=1).mean() > 0.25) == (way == "gaps")  # or in one cluster
    altered = np.concatenate(sets)
    # In the hole or the corners of the box; hardly any on the ring.
    assert (np.abs(np.hypot(*altered.T) - 1) > 0.06).mean() > 0.95 and np.abs(altered).max() < 2
    one_cluster = np.repeat([[0.0, 1.0]], 9, axis=0)  # without a gap
    assert_array_equal(alter(one_cluster[:2], one_cluster, rng), one_cluster[:2])


@pytest.mark.parametrize("n_rows", [4, 6, 9])
def test_tiny_tables_will_do(n_rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 1)).astype(np.float32)
    for y in (np.arange(n_rows) % 2, X[:, 0]):
        for _ in range(100):
            task = OutlierSampler().draw(Dataset("tiny", X, y), rng)
            assert 2 <= len(task.y) <= n_rows and task.context.any()


@pytest.mark.parametrize("n_rows", [3, 5, 9])
def test_some_targets_are_extreme_in_tiny_tables_too(n_rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 1)).astype(np.float32)
    sampler = OutlierSampler(altered=0, clean=0, column_subset=0, missing=0)
    for _ in range(50):
        y = sampler.draw(Dataset("tiny", X, X[:, 0]), rng).y
        assert 1 <= y.sum() < len(y)


def test_equal_generators_draw_equal_tasks():
    for seed in range(20):
        one, other = (
            OutlierSampler().draw(TablePrior().draw(rng), rng)
            for rng in (np.random.default_rng(seed), np.random.default_rng(seed))
        )
        assert_array_equal(one.X, other.X)
        assert_array_equal(one.y, other.y)
        assert_array_equal(one.context, other.context)


def test_meta_fit_forgets_a_threshold_of_other_weights():
    X = np.random.default_rng(0).standard_normal((30, 3))
    share, auto = (
        AmortizedOutlierDetector(small_learner(), contamination=c, random_state=0).fit(X)
        for c in (0.1, "auto")
    )
    for detector in (share, auto):
        detector.meta_fit({"iris": load_iris(return_X_y=True)}, **FEW)
    with pytest.raises(NotFittedError):
        share.predict(X)
    assert (share.fit(X).predict(X) == -1).sum() == 3
    assert auto.predict(X).shape == (30,)  # its threshold holds for any weights


def test_more_than_a_thousand_rows_are_read_where_max_samples_says_so():
    X = np.random.default_rng(0).standard_normal((1100, 2))
    alone = double(max_samples=1100).fit(X).score_samples(X)
    (whole,) = double().score_samples_batch([X])  # reads all rows
    assert_allclose(alone, whole, rtol=1e-6)
