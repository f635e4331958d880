"""The VSA backbone: its equations, its symmetries, its masks and its memory, in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import label_matrix

from sklearn_meta.backbones import BACKBONES, VSA
from sklearn_meta.backbones.standardisation import bend, moments_of, standardise
from sklearn_meta.backbones.vsa import MVSA, Block
from sklearn_meta.learner import Learner, build_learner
from sklearn_meta.tasks import Task, collate, context_task

CONFIG = {"width": 12, "n_layers": 2, "n_heads": 3, "head_width": 4, "last_width": 3}


def backbone(**config):
    torch.manual_seed(0)
    return VSA(**{**CONFIG, **config}).double().eval()


BACKBONE = backbone()
torch.manual_seed(0)
LEARNER = Learner(backbone_config=CONFIG).double().eval()

same = {"rtol": 0, "atol": 1e-10}


@st.composite
def drawn_tasks(draw, inductive=False):
    """A task with gaps, labelled rows first; Hypothesis draws its size, the rest is random."""
    n_classes = draw(st.integers(2, 5))
    n_labelled = draw(st.integers(n_classes, 3 * n_classes))
    n_unlabelled = draw(st.integers(2, 30))
    n_columns = draw(st.integers(1, 9))
    missing = draw(st.sampled_from([0, 0.1, 0.5]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = n_labelled + n_unlabelled
    X = rng.standard_normal((n_rows, n_columns)) * 10 ** rng.uniform(-2, 2, n_columns)
    X[rng.random(X.shape) < missing] = np.nan
    y = np.concatenate([np.arange(n_labelled) % n_classes, rng.integers(0, n_classes, n_rows)])
    labelled = np.arange(n_rows) < n_labelled
    context = np.ones(n_rows, dtype=bool)
    if inductive:
        context = labelled | (rng.random(n_rows) < 0.5)
        context[-1] = False
    return Task(X, y[:n_rows], labelled, context, n_classes)


def tensors(*tasks):
    return collate(tasks, dtype=torch.float64)[0]


@torch.no_grad()
def embed(inputs, model=BACKBONE):
    return model(**inputs)[0]


# The equations


def mvsa_by_einsum(attention, z):
    """Eq. (1)-(4) index by index, head by head, with nothing folded."""
    H = attention.head_width
    W_Q, W_K, W_V = attention.project.weight.view(3, attention.n_heads, H, -1)
    heads = []
    for W_q, W_k, W_v in zip(W_Q, W_K, W_V):
        q, k, v = (torch.einsum("ijd,hd->ijh", z, W) for W in (W_q, W_k, W_v))  # (1)
        logits = torch.einsum("imh,jmh->ij", q, k) / (z.shape[1] * H) ** 0.5
        a = torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)  # (2)
        heads.append(torch.einsum("ij,jmh->imh", a, v))  # (3)
    return torch.einsum("imh,oh->imo", torch.cat(heads, dim=2), attention.merge.weight)  # (4)


sizes = st.integers(1, 12)


def attend(attention, z, readable, voting):
    q, k, v = attention.queries_keys_values(z)
    return attention.aggregate(attention.weights(q, k, readable, voting), v)


@given(st.tuples(sizes, sizes, sizes), sizes, st.integers(1, 4), st.integers(1, 5))
def test_mvsa_is_equations_1_to_4(shape, width_out, n_heads, head_width):
    torch.manual_seed(0)
    attention = MVSA(shape[2], width_out, n_heads, head_width).double()
    z = 3 * torch.randn(2, *shape, dtype=torch.float64)
    every = [torch.ones(2, size, dtype=torch.bool) for size in shape[:2]]
    with torch.no_grad():
        expected = torch.stack([mvsa_by_einsum(attention, one) for one in z])
        torch.testing.assert_close(attend(attention, z, *every), expected, **same)


def test_mvsa_masks_are_equations_1_to_4_on_what_is_left():
    attention = MVSA(4, 5, 2, 3).double()
    z = torch.randn(1, 7, 6, 4, dtype=torch.float64)
    readable = torch.tensor([[True, False, True, True, False, True, True]])
    voting = torch.tensor([[True, True, False, True, False, True]])
    with torch.no_grad():
        found = attend(attention, z, readable, voting)[0][readable[0]][:, voting[0]]
        expected = mvsa_by_einsum(attention, z[0][readable[0]][:, voting[0]])
    torch.testing.assert_close(found, expected, **same)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("mode", ["examples", "attributes"])
def test_block_is_equations_6_to_8(mode, residual, layer_norm):
    """Also without the residual term and without the layer norm, as in Table 2."""
    torch.manual_seed(0)
    block = Block(mode, 5, 7, 6, 2, 3, residual, layer_norm).double()
    z = torch.randn(9, 4, 5, dtype=torch.float64)
    every = [torch.ones(1, size, dtype=torch.bool) for size in (9, 4)]
    with torch.no_grad():
        found, _ = block(z[None], *every)
        turned = z if mode == "examples" else z.transpose(0, 1)
        out = mvsa_by_einsum(block.attention, turned)
        if layer_norm:
            centred = out - out.mean(-1, keepdim=True)
            out = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        out = block.feed_forward(out)
        if residual:
            out = torch.einsum("ijd,od->ijo", turned, block.residual.weight) + out
        expected = out if mode == "examples" else out.transpose(0, 1)
    torch.testing.assert_close(found[0], expected, **same)
    assert [type(layer).__name__ for layer in block.feed_forward] == [
        *("Linear", "ReLU", "Linear", "ReLU", "Linear")
    ]


def test_input_tensor_is_equation_5():
    """The four matrices of the paper, for two labelled and three unlabelled rows."""
    X_L, X_U = np.random.default_rng(0).standard_normal((2, 3, 4))
    X_L = X_L[:2]
    Y_L = np.array([[0, 1], [1, 0]])
    one, zero = np.ones, np.zeros
    expected = [
        np.block([[X_L, Y_L], [X_U, zero((3, 2))]]),
        np.block([[one((2, 4)), one((2, 2))], [one((3, 4)), zero((3, 2))]]),
        np.block([[one((2, 4)), zero((2, 2))], [one((3, 4)), zero((3, 2))]]),
        np.block([[zero((2, 4)), one((2, 2))], [zero((3, 4)), one((3, 2))]]),
    ]
    x = torch.from_numpy(np.vstack([X_L, X_U]))[None]
    labels = label_matrix([[1, 0, -1, -1, -1]], 2)
    found = BACKBONE.input_tensor(x, labels)[0]
    np.testing.assert_array_equal(found.numpy(), np.stack(expected, axis=2))
    x[0, 1, 2] = x[0, 4, 0] = np.nan  # unobserved: value 0, observed? 0, still an attribute
    holes = BACKBONE.input_tensor(x, labels)[0]
    np.testing.assert_array_equal(holes[[1, 4], [2, 0]].numpy(), [[0, 0, 1, 0]] * 2)
    holes[[1, 4], [2, 0]] = found[[1, 4], [2, 0]]
    np.testing.assert_array_equal(holes.numpy(), found.numpy())


def test_blocks_alternate_and_the_last_is_narrow():
    z = embed(tensors(context_task(np.eye(6, 5), np.arange(6) % 2, 2)))
    assert z.shape == (1, 6, 5, 3)
    assert [block.mode for block in BACKBONE.blocks] == ["examples", "attributes"] * 2
    assert BACKBONE.blocks[0].attention.project.in_features == 4
    # Attention and layer norm are as wide as the rest: a norm of width 1 would erase everything.
    assert {block.norm.normalized_shape for block in BACKBONE.blocks} == {(12,)}


# Symmetries


@given(drawn_tasks(inductive=True), st.randoms(use_true_random=False))
def test_equivariance_over_classes(task, random):
    """Embeddings stay the same; the learner's logits are permuted."""
    inputs = tensors(task)
    code = np.array(random.sample(range(task.n_label_columns), task.n_label_columns))
    renamed = tensors(task._replace(y=code[task.y]))
    torch.testing.assert_close(embed(renamed), embed(inputs), **same)
    with torch.no_grad():
        torch.testing.assert_close(LEARNER(**renamed)[..., code], LEARNER(**inputs), **same)


# Padding and batches


@given(st.lists(drawn_tasks(inductive=True), min_size=2, max_size=4))
@settings(max_examples=10)
def test_batched_tasks_of_any_size_equal_one_by_one(tasks):
    z = embed(tensors(*tasks))
    with torch.no_grad():
        found = LEARNER(**tensors(*tasks)).softmax(-1)
    for b, task in enumerate(tasks):
        n_rows, n_columns = task.X.shape
        torch.testing.assert_close(z[b, :n_rows, :n_columns], embed(tensors(task))[0], **same)
        assert not z[b, :, n_columns:].any()
        with torch.no_grad():
            alone = LEARNER(**tensors(task))[0].softmax(-1)
        torch.testing.assert_close(found[b, :n_rows, : task.n_label_columns], alone, **same)
        assert not found[b, :, task.n_label_columns :].any()


# Memory


@given(drawn_tasks(inductive=True), st.integers(1, 7))
@settings(max_examples=10)
def test_memory_equals_the_full_pass(task, n_chunk):
    """All at once, in chunks or row by row: a memory of the context is enough."""
    context, new = task.context, ~task.context
    inputs = tensors(task)
    with torch.no_grad():
        z, logits = LEARNER.backbone(**inputs)[0][:, new], LEARNER(**inputs)[:, new]
        columns, classes = inputs["columns"], inputs["classes"]
        x, labels = inputs["x"][:, context], inputs["labels"][:, context]
        state = LEARNER.encode(x, labels, columns, classes)
        x = inputs["x"][:, new]
        for size in (x.shape[1], n_chunk, 1):
            parts = [LEARNER.continue_from(state, c, columns, classes) for c in x.split(size, 1)]
            for expected, chunks in zip((z, logits), zip(*parts, strict=True), strict=True):
                torch.testing.assert_close(torch.cat(chunks, dim=1), expected, **same)


# Missing cells and scales


def test_moments_are_those_of_observed_readable_cells():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) + [0, 5, -1e6]
    X[rng.random(X.shape) < 0.3] = np.nan
    readable = rng.random(20) < 0.7
    found = moments_of(torch.from_numpy(X)[None], torch.from_numpy(readable)[None])
    low, median, high = np.nanquantile(X[readable], [0.25, 0.5, 0.75], axis=0)
    u = (X[readable] - median) / (high - low)
    bent = np.where(np.abs(u) <= 1, u, np.sign(u) * (1 + np.log(np.maximum(np.abs(u), 1))))
    assert found.varied.tolist() == [[True] * 3]
    np.testing.assert_allclose(found.median[0, 0], median)
    np.testing.assert_allclose(found.spread[0, 0], high - low)
    np.testing.assert_allclose(found.mean[0, 0], np.nanmean(bent, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.scale[0, 0], np.nanstd(bent, axis=0), rtol=1e-6)


@pytest.mark.parametrize("hole", [-np.nan, np.uint64(0x7FF8DEADBEEF0000).view(np.float64)])
@pytest.mark.parametrize("cells", [(slice(2, 9), 1), (slice(None), 2), (4, slice(None))])
def test_missing_cells(cells, hole):
    """With gaps, or a column or row missing, embeddings are finite; any NaN is the same."""
    X = np.random.default_rng(0).standard_normal((14, 4))
    y = np.arange(14) % 3 - 1
    full = embed(tensors(context_task(X.copy(), y, 2)))
    X[cells] = np.nan
    z = embed(tensors(context_task(X.copy(), y, 2)))
    assert z.isfinite().all() and (z - full).abs().max() > 1e-4
    X[cells] = hole
    torch.testing.assert_close(embed(tensors(context_task(X, y, 2))), z, rtol=0, atol=0)


@given(drawn_tasks(), st.integers(0, 2**32 - 1))
def test_units_do_not_matter(task, seed):
    """Columns in other units, and shifted, have the same embeddings."""
    rng = np.random.default_rng(seed)
    slope = 10 ** rng.uniform(-1, 2, task.X.shape[1])
    other = task._replace(X=task.X * slope + 10 * slope * rng.standard_normal(slope.shape))
    torch.testing.assert_close(embed(tensors(other)), embed(tensors(task)), **same)


@pytest.mark.parametrize("share", [1, 10, 50])
def test_two_valued_columns_keep_distance_one(share):
    """Otherwise a rare category would lie ten standard deviations from the common one."""
    x = torch.tensor([4.0] * share + [-1.0] * (100 - share))[None, :, None]
    moments = moments_of(x, torch.ones(1, 100, dtype=torch.bool))
    z = standardise(x, moments, bound=1e9)
    assert (z.max() - z.min()).item() == pytest.approx(1) and z.mean().abs().item() < 1e-6
    # The context has two values: a third one in a new row does not change the scale.
    readable = torch.ones(1, 101, dtype=torch.bool)
    readable[0, -1] = False
    more = torch.cat([x, torch.full((1, 1, 1), 9.0)], dim=1)
    z = standardise(more, moments_of(more, readable), bound=1e9)[0, :-1]
    assert (z.max() - z.min()).item() == pytest.approx(1)


def test_outliers_stay_in_reach():
    """The function is monotone and odd around the median, steepest there, and bounded."""
    x = 3 * torch.linspace(-9, 9, 1001, dtype=torch.float64) - 7
    moments = moments_of(x[None, :, None], torch.ones(1, 1001, dtype=torch.bool))
    z = standardise(x[None, :, None], moments)[0, :, 0]
    torch.testing.assert_close(z, -z.flip(0), **same)
    steps = z.diff()
    assert (steps > 0).all() and steps.argmax() in (499, 500)
    assert (steps.diff().abs() < 0.02 * steps.max()).all()
    far = torch.tensor([1e2, 1e4, 1e6, 1e9, 1e300], dtype=torch.float64)[None, :, None]
    far = standardise(far, moments)[0, :, 0]
    assert (far.diff() >= 0).all() and z[-1] < far[-1] <= 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_spread_too_small_to_divide_by_is_no_gap(dtype):
    x = torch.arange(6, dtype=dtype) * torch.finfo(dtype).tiny
    x[-1] = 1e3
    moments = moments_of(x[None, :, None], torch.ones(1, 6, dtype=torch.bool))
    z = standardise(x[None, :, None], moments)[0, :, 0]
    assert (z.diff() >= 0).all() and z[-1] > z[0] + 1


def test_bend_is_linear_near_the_median_and_logarithmic_far_from_it():
    median, spread = torch.tensor(5.0).double(), torch.tensor(2.0).double()
    near = torch.linspace(3, 7, 9).double()  # within one interquartile range of the median
    torch.testing.assert_close(bend(near, median, spread), (near - 5) / 2, rtol=1e-12, atol=1e-12)
    wide = torch.linspace(-20, 30, 501).double()
    slopes = bend(wide, median, spread).diff() / wide.diff()
    assert (slopes > 0).all() and (slopes.diff().abs() < 0.03).all()  # no step, and no kink
    far = bend(torch.tensor([1e5, 1e6, 1e7]).double(), median, spread)
    torch.testing.assert_close(
        far.diff(), torch.full((2,), math.log(10)).double(), rtol=1e-3, atol=0
    )
    torch.testing.assert_close(bend(near, median, torch.zeros(()).double()), near)


# Configuration


ABLATIONS = {
    "example_attention": lambda model: {b.mode for b in model.blocks} == {"attributes"},
    "attribute_attention": lambda model: {b.mode for b in model.blocks} == {"examples"},
    "observed_indicator": lambda model: model.blocks[0].attention.project.in_features == 3,
    "kind_indicator": lambda model: model.blocks[0].attention.project.in_features == 2,
    "residual": lambda model: not any("residual" in name for name, _ in model.named_parameters()),
    "layer_norm": lambda model: not any("norm" in name for name, _ in model.named_parameters()),
}


@pytest.mark.parametrize("switch", [None, *ABLATIONS])
def test_every_ablation_is_what_it_says_and_trains(switch):
    config = {switch: False} if switch else {}
    model = backbone(**config)
    assert model.config == {**BACKBONE.config, **config}
    assert {name: holds(model) for name, holds in ABLATIONS.items() if name != switch} == {
        name: False for name in ABLATIONS if name != switch
    }
    assert switch is None or ABLATIONS[switch](model)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    inputs = tensors(context_task(X, np.arange(12) % 3 - 1, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = model(**inputs)[0].square().sum()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    optimiser.step()
    assert model(**inputs)[0].square().sum() < loss


@pytest.mark.parametrize("switch", ["observed_indicator", "kind_indicator"])
def test_indicator_channels_are_the_ones_named(switch):
    """The other channels of Eq. (5) remain, in order."""
    x, labels = torch.randn(1, 4, 3, dtype=torch.float64), label_matrix([[0, 1, -1, -1]], 2)
    kept = {"observed_indicator": [0, 2, 3], "kind_indicator": [0, 1]}[switch]
    found = backbone(**{switch: False}).input_tensor(x, labels)
    torch.testing.assert_close(found, BACKBONE.input_tensor(x, labels)[..., kept], rtol=0, atol=0)


def test_without_example_attention_rows_are_linked_by_nothing_but_the_vote():
    """AttributeAttn of Table 2: given the memory, a row's embedding depends on no other row."""
    model = backbone(example_attention=False)
    x = torch.randn(1, 6, 3, dtype=torch.float64)
    labels, readable = label_matrix([[0, 1, 0, 1, -1, -1]], 2), torch.ones(1, 6, dtype=torch.bool)
    columns, classes = torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 2, dtype=torch.bool)
    with torch.no_grad():
        z, memory = model(x, labels, readable, columns, classes)
        alone, _ = model(x[:, 4:5], labels[:, 4:5], readable[:, 4:5], columns, classes, memory)
    torch.testing.assert_close(alone, z[:, 4:5], **same)


def test_bad_configurations_are_refused():
    with pytest.raises(ValueError, match="cannot both be False"):
        VSA(example_attention=False, attribute_attention=False)
    with pytest.raises(TypeError, match="n_blocks"):
        VSA(n_blocks=3)
    with pytest.raises(
        ValueError, match=r"Unknown backbone 'vas': choose from \[.*'vsa', 'vsa_pair'\]"
    ):
        Learner("vas")
    with pytest.raises(ValueError, match=r"Unknown classification head 'gp': choose from \["):
        Learner(head="gp")
    with pytest.raises(ValueError, match=r"Unknown task 'sorting': choose from \['classification'"):
        Learner(task="sorting")
    for task in ("online_sorting", "text_sorting"):
        with pytest.raises(ValueError, match=rf"Unknown task '{task}': choose from \['{task[:-7]}"):
            build_learner({"task": task})


def test_config_builds_the_same_learner_again():
    learner = Learner(
        backbone_config={**CONFIG, "residual": False}, head_config={"temperature": "fixed"}
    )
    again = Learner(**learner.config)
    again.load_state_dict(learner.state_dict())  # strict
    assert again.config == learner.config
    assert learner.config["backbone_config"]["residual"] is False
    assert BACKBONES["vsa"] is VSA
    own = Learner(VSA(**CONFIG))
    assert own.config is None and own.head.config == {"temperature": "learned"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_far_beyond_a_column_of_two_values_is_at_the_bound(dtype):
    """Its square would overflow, and it would lie in the middle."""
    x = torch.tensor([0, 0, 0, 0, 1], dtype=dtype).view(1, 5, 1)
    moments = moments_of(x, torch.ones(1, 5, dtype=torch.bool))
    far = torch.tensor([-1, 1], dtype=dtype).view(1, 2, 1) * torch.finfo(dtype).max / 4
    z = standardise(far, moments).flatten()
    torch.testing.assert_close(z, torch.tensor([-4, 4], dtype=dtype))
