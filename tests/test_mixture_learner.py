"""The learner of mixtures: order and padding change nothing, and it learns."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_meta.heads import LearnedMoments
from sklearn_meta.heads.gaussian_mixture import COVARIANCE_TYPES as KINDS
from sklearn_meta.heads.gaussian_mixture import log_joint
from sklearn_meta.heads.learned_moments import N_LOOKS, bend, held_out_nll, near_pairs_width
from sklearn_meta.learner import build_learner
from sklearn_meta.mixture_learner import MixtureLearner
from sklearn_meta.tasks import Dataset, MixturePrior, MixtureSampler, MixtureSets, batches
from sklearn_meta.tasks.mixtures import COVARIANCE_TYPES, as_point_sets
from sklearn_meta.training import meta_train


def a_learner(seed=0, n_rounds=3):
    """A network in float64 whose advice differs from that at initialisation."""
    torch.manual_seed(seed)
    learner = MixtureLearner(backbone_config={"width": 8, "n_heads": 2, "n_rounds": n_rounds})
    for step in learner.backbone.rounds:
        torch.nn.init.normal_(step.advise[1].weight, std=0.5)
    return learner.double().eval()


LEARNER = a_learner()


@st.composite
def drawn_tasks(draw, n_tasks=1):
    """Tasks with one kind of covariance."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    kind = draw(st.sampled_from(COVARIANCE_TYPES))
    prior = MixturePrior(max_components=6, max_columns=5, n_points=(20, 120))
    sampler = MixtureSampler((kind,))
    return [sampler.draw(prior.draw(rng), rng) for _ in range(n_tasks)], rng


def read(tasks, learner=LEARNER):
    inputs, _ = MixtureSampler.collate(tasks)
    inputs["x"] = inputs["x"].double()
    with torch.no_grad():
        *_, mixture, columns = learner(**inputs)
    return inputs["x"], mixture


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7)


def test_the_codes_of_kinds_are_those_of_the_head():
    assert COVARIANCE_TYPES == KINDS


@given(drawn_tasks())
def test_order_of_points_and_columns(drawn):
    (task,), rng = drawn
    points, columns = rng.permutation(len(task.X)), rng.permutation(task.X.shape[1])
    x, mixture = read([task])
    moved = task._replace(X=task.X[points][:, columns], held_out=task.held_out[:, columns])
    x_moved, mixture_moved = read([moved])
    # Order breaks ties between far points, but real numbers other than duplicates have none.
    close(
        log_joint(x_moved, mixture_moved).logsumexp(-1),
        log_joint(x, mixture).logsumexp(-1)[:, points],
    )
    close(mixture_moved.log_weights, mixture.log_weights)
    close(mixture_moved.means, mixture.means[..., columns])
    covariances = mixture.covariances[..., columns]
    if task.covariance_type == "full":
        covariances = covariances[..., columns, :]
    close(mixture_moved.covariances, covariances)


@given(drawn_tasks(n_tasks=2))
def test_padding_changes_nothing(drawn):
    tasks, _ = drawn
    _, together = read(tasks)
    for b, task in enumerate(tasks):
        K, D = task.n_components, task.X.shape[1]
        _, alone = read([task])
        close(together.log_weights[b, :K], alone.log_weights[0])
        assert (together.log_weights[b, K:] == -torch.inf).all()
        close(together.means[b, :K, :D], alone.means[0])
        covariances = together.covariances[b, :K, :D]
        close(
            covariances[..., :D] if task.covariance_type == "full" else covariances,
            alone.covariances[0],
        )


@settings(deadline=None, max_examples=40)
@given(drawn_tasks())
def test_a_mixture_is_one(drawn):
    """Weights sum to one and covariances are positive definite, whatever the advice."""
    (task,), _ = drawn
    _, mixture = read([task])
    close(mixture.log_weights.exp().sum(1), torch.ones(1).double())
    if task.covariance_type == "full":
        assert (torch.linalg.eigvalsh(mixture.covariances) > 0).all()
    else:
        assert (mixture.covariances > 0).all()
    if task.covariance_type == "spherical":
        assert (mixture.covariances == mixture.covariances[..., :1]).all()


@pytest.mark.parametrize("target", [np.full(60, -1.5), np.linspace(-9, -1, 60), np.arange(60.0)])
def test_a_target_is_no_component(target):
    dataset = Dataset("numbers", np.eye(60, 2, dtype=np.float32), target.astype(np.float32))
    of_one_class = dataset._replace(y=np.zeros(60, int))
    for seed in range(20):
        found, expected = (
            MixtureSampler().draw(one, np.random.default_rng(seed))
            for one in (dataset, of_one_class)
        )
        assert found.n_components == expected.n_components
        np.testing.assert_array_equal(found.X, expected.X)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.repeat(np.eye(2), 20, axis=0),
        np.c_[np.zeros(30), np.random.default_rng(0).normal(size=30)],
    ],
    ids=["one point", "duplicates", "constant column"],
)
def test_gradients_are_finite_on_poor_sets(X, kind):
    learner = a_learner().requires_grad_(True)
    sampler = MixtureSampler((kind,))
    task = sampler.draw(MixtureSets().draw(np.random.default_rng(0)), np.random.default_rng(0))
    task = task._replace(X=X.astype(np.float32), held_out=X.astype(np.float32) + 1, n_components=4)
    inputs, target = sampler.collate([task])
    inputs["x"] = inputs["x"].double()
    loss = learner.head.loss(learner(**inputs), target.double())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in learner.parameters() if p.grad is not None)


def test_no_advice_is_em_with_a_penalty():
    """With zero advice the penalty is that of the docstring, computed here by hand."""
    x = torch.tensor([[[0.0, 0], [2, 0], [5, 5], [5, 9]]]).double()
    r = torch.tensor([[[1.0, 0], [1, 0], [0, 1], [0, 1]]]).double()
    moments = LearnedMoments.moments(x, r, full=False)
    present, columns = torch.ones(1, 2, dtype=bool), torch.ones(1, 2, dtype=bool)
    advice = torch.zeros(1, 2, LearnedMoments.N_ADVICE).double()
    mixture, _ = LearnedMoments.mixture(moments, advice, present, columns, "diag")
    pooled = np.array([2 / 4, 8 / 4])
    expected = (np.array([[2, 0], [0, 8]]) + 4 * pooled) / (2 + 4) + 1e-4 + 1e-6
    np.testing.assert_allclose(mixture.covariances[0], expected, rtol=1e-5)
    np.testing.assert_allclose(mixture.means[0], np.array([[1, 0], [5, 7]]) * 2 / 2.02, rtol=1e-5)
    np.testing.assert_allclose(mixture.log_weights.exp(), [[0.5, 0.5]])


@torch.no_grad()
def test_moments_are_sums_over_points():
    """Component by component; ``fourth`` has one pseudo-observation of the pooled variance."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 9, 2, generator=generator, dtype=torch.float64)
    r = torch.rand(1, 9, 3, generator=generator, dtype=torch.float64).softmax(2)
    found = {full: LearnedMoments.moments(x, r, full) for full in (False, True)}
    pooled = 0
    for k in range(3):
        w, n = r[0, :, k], r[0, :, k].sum()
        mean = (w[:, None] * x[0]).sum(0) / n
        apart = x[0] - mean
        scatter = (w[:, None, None] * apart[:, :, None] * apart[:, None]).sum(0)
        pooled = pooled + scatter / 9
        for full, moments in found.items():
            close(moments.counts[0, k], n)
            close(moments.means[0, k], mean)
            close(moments.scatters[0, k], scatter if full else scatter.diagonal())
            close(moments.confidence[0, k], (w**2).sum() / n)
    for full, moments in found.items():
        close(moments.pooled[0], pooled if full else pooled.diagonal())
        for k in range(3):
            apart = x[0] - moments.means[0, k]
            n, w = moments.counts[0, k], r[0, :, k, None]
            variance = ((w * apart**2).sum(0) + pooled.diagonal()) / (n + 1)
            close(moments.fourth[0, k], (w * apart**4).sum(0) / variance**2 / (n + 1))


@torch.no_grad()
def test_advice_divides_the_points_and_rounds_remember():
    torch.manual_seed(0)
    x, mask = torch.randn(1, 9, 2).double(), torch.ones(1, 9, dtype=torch.bool)
    columns, present = mask[:, :2], mask[:, :3]
    r = torch.rand(1, 9, 3).double().softmax(2)
    moments = LearnedMoments.moments(x, r, False)
    advice = torch.randn(1, 3, LearnedMoments.N_ADVICE).double()
    mixture, division = LearnedMoments.mixture(moments, advice, present, columns, "diag")
    bounded = 8 * torch.tanh(advice / 8)
    logits = (log_joint(x, mixture) + bounded[..., -2][:, None]) * bounded[..., -1].mean().exp()
    close(LearnedMoments.responsibilities(x, mask, mixture, division, columns), logits.softmax(2))
    step = LEARNER.backbone.rounds[0]
    features, memory = (torch.randn(1, 3, n).double() for n in (LearnedMoments.N_FEATURES, 8))
    h = step.embed(features) + memory
    for block in step.blocks:
        h = block(h)
    told, kept = step(features, present, memory)
    close(told, step.advise(h))
    close(kept, h)


def test_a_far_point_does_not_outweigh_other_sets():
    loss = torch.tensor([1.0, 5.0, 5.0 + np.e - 1, 1e6], requires_grad=True)
    bent = bend(loss)
    torch.testing.assert_close(bent[:3], torch.tensor([1.0, 5.0, 6.0]))
    bent.sum().backward()
    assert loss.grad[0] == 1 and 0 < loss.grad[3] < 1e-5


@torch.no_grad()
def test_the_loss_is_a_mean_over_rounds_of_which_the_last_weighs_most():
    sampler = MixtureSampler(("diag",))
    tasks = [
        sampler.draw(MixtureSets().draw(rng), rng) for rng in map(np.random.default_rng, (1, 2))
    ]
    inputs, target = sampler.collate(tasks)
    inputs["x"], target = inputs["x"].double(), target.double()
    *_, first, last, columns = LEARNER(**inputs)
    of_first, of_last = (bend(held_out_nll(m, target, columns)).mean() for m in (first, last))
    assert (of_first - of_last).abs() > 1e-3
    loss = LearnedMoments.loss
    close(loss((last, last, last, columns), target), of_last)
    close(loss((first, last, columns), target), (of_first / 16 + of_last) / (1 + 1 / 16))


def test_it_learns_from_held_out_points():
    torch.manual_seed(0)
    learner = MixtureLearner(backbone_config={"width": 8, "n_heads": 2, "n_rounds": 2})
    source, sampler = MixtureSets(n_points=(40, 60)), MixtureSampler(("diag",), other_k=0)
    (validation,) = next(batches(source, sampler, batch_size=64, seed=9, n_groups=1))

    def nll(learner):
        with torch.no_grad():
            return float(learner.head.score(learner(**validation[0]), validation[1]).mean())

    before = nll(learner)
    history = meta_train(
        learner, source, sampler, validation_source=source, max_steps=30, batch_size=8,
        n_warmup=5, n_groups=1, eval_every=15, n_validation=1, learning_rate=1e-2, verbose=False,
    )  # fmt: skip
    assert nll(learner) < before - 0.1
    assert "valid_nll_4_components" in history[-1]


def test_config_builds_it_again():
    learner = build_learner(a_learner().config)
    learner.double().load_state_dict(LEARNER.state_dict())
    assert isinstance(learner, MixtureLearner)
    assert copy.deepcopy(learner).config == LEARNER.config
    with pytest.raises(ValueError, match="A learner for 'mixture' needs .*, got .*'gp', 'mixture'"):
        build_learner({**LEARNER.config, "head": "gp"})


def test_sets_of_the_protocol_are_equations_19_to_21():
    rng = np.random.default_rng(0)
    sets = [MixtureSets(scale=0.0, n_points=(100, 1000)).draw(rng) for _ in range(400)]
    sizes = np.array([len(one.X) for one in sets])
    assert sizes.min() < 120 and sizes.max() > 980  # uniform
    centres = np.concatenate([np.unique(one.X, axis=0) for one in sets])
    assert np.abs(centres).max() <= 4
    np.testing.assert_allclose((np.abs(centres) > 3).mean(), 0.25, atol=0.03)  # (19)
    shares = np.array([np.bincount(one.y, minlength=4) / len(one.y) for one in sets])
    np.testing.assert_allclose(shares.var(), 3 / 80, atol=0.005)  # (20), a flat Dirichlet
    one = MixtureSets(n_components=(1, 1), n_points=(5000, 5000)).draw(rng)
    np.testing.assert_allclose(one.X.std(0), 0.3, rtol=0.05)  # (21)


def test_a_column_that_is_constant_where_it_is_read_stays_finite():
    dataset = as_point_sets([np.c_[np.arange(40.0), np.ones(40)]])["0"]
    for kind in COVARIANCE_TYPES:
        task = MixtureSampler((kind,)).draw(dataset, np.random.default_rng(0))
        assert np.isfinite(task.X).all() and np.isfinite(task.held_out).all()


def test_sets_of_points_with_and_without_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 1e6
    source = as_point_sets({"plain": X, "classes": (X, np.repeat(["a", "b"], 20))})
    assert source["plain"].n_classes == 1 and source["classes"].n_classes == 2
    assert np.ptp(source["plain"].X) < 20  # not lost in float32
    sampler = MixtureSampler(other_k=0)
    numbers = {sampler.draw(source["plain"], rng).n_components for _ in range(30)}
    assert len(numbers) > 3
    assert {sampler.draw(source["classes"], rng).n_components for _ in range(30)} == {2}
    with pytest.raises(ValueError, match="NaN"):
        as_point_sets([np.full((3, 2), np.nan)])
    with pytest.raises(ValueError, match="at least one dataset"):
        as_point_sets([])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        as_point_sets([(X, np.zeros(39))])


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_what_is_read_has_unit_variance_by_columns_or_if_spherical_together(kind):
    X = np.random.default_rng(0).normal(size=(60, 2)) * [1, 100]
    sampler, source = MixtureSampler((kind,)), as_point_sets([X])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        task = sampler.draw(source.draw(rng), rng)
        variances = task.X.astype(float).var(0)
        np.testing.assert_allclose(variances.mean(), 1, rtol=1e-5)
        assert (variances.min() < 0.01) == (kind == "spherical")
        np.testing.assert_allclose(task.X.mean(0), 0, atol=1e-5)


def test_a_column_of_two_values_is_not_all_that_tells_what_is_near():
    """Near points share its value, which must not make its width zero."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.c_[rng.standard_normal(40), np.tile([-1.0, 1.0], 20)])[None]
    mask, columns = torch.ones(1, 40) > 0, torch.ones(1, 2) > 0
    (width,) = near_pairs_width(x, mask, columns, torch.tensor([2]))
    assert 0 < width[0] < width[1] < 100 * width[0]


@pytest.mark.parametrize("n_points", [2, 7, 12])
def test_of_few_points_each_pair_counts_once(n_points):
    """With fewer points than are compared, some places are the same point."""
    rng = np.random.default_rng(n_points)
    points = rng.standard_normal((n_points, 3)) * [1, 2, 3]
    i, j = np.triu_indices(n_points, 1)
    squares, width = (points[i] - points[j]) ** 2, np.ones(3)
    n_near = min(len(i), max(len(i) // 4, 12))
    for _ in range(N_LOOKS):
        near = np.argsort((squares / width).sum(1))[:n_near]
        width = squares[near].mean(0)
        width /= np.exp(np.log(width).mean())
    x = torch.zeros(1, n_points + 4, 3, dtype=torch.float64)  # some padding
    x[0, :n_points] = torch.from_numpy(points)
    mask, columns = torch.arange(n_points + 4)[None] < n_points, torch.ones(1, 3) > 0
    (found,) = near_pairs_width(x, mask, columns, torch.tensor([2]))
    np.testing.assert_allclose(found, width, rtol=1e-6)


@pytest.mark.parametrize("max_cells", ["x", (0, 5), (9, 3), 0, (1, 2, 3)])
def test_numbers_of_cells_are_checked_as_others_are(max_cells):
    with pytest.raises(ValueError, match="max_cells"):
        MixtureSampler(max_cells=max_cells)
