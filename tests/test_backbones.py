"""Properties of every backbone, and the equations of the backbones other than VSA, in float64."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import pad

from sklearn_meta.backbones import BACKBONES
from sklearn_meta.backbones.att_hml import EncoderLayer, SetEncoder
from sklearn_meta.backbones.deep_sets import DeepSet, labelled_rows, observed_cells
from sklearn_meta.backbones.exchangeable import ExchangeableLayer
from sklearn_meta.backbones.maml import INNER_LOSSES, prototype_loss, ridge_loss
from sklearn_meta.backbones.standardisation import moments_of, standardise

#: Small sizes, none of them a default.
CONFIGS = {
    "vsa": {"width": 8, "n_layers": 2, "n_heads": 2, "head_width": 4, "last_width": 3},
    "vsa_pair": {
        "first": {"width": 8, "n_layers": 2, "n_heads": 2, "head_width": 4, "last_width": 3},
        "second": {"width": 6, "n_layers": 1, "n_heads": 1, "head_width": 4, "last_width": 2},
    },
    "deep_sets": {"width": 8},
    "exchangeable": {"width": 8, "n_layers": 4, "last_width": 3},
    "hml": {"width": 8, "n_iterations": 2},
    "att_hml": {"width": 8, "n_iterations": 2, "n_layers": 2, "n_heads": 2},
    "maml": {"width": 8, "n_steps": 2, "inner_rate": 0.01},
}
READ_ROWS = {"vsa", "vsa_pair", "exchangeable"}  # these read unlabelled rows, not only their scales
POOLED = {"deep_sets", "hml", "att_hml", "maml"}  # one embedding per row, whatever its attributes

same = {"rtol": 0, "atol": 1e-9}


def build(name, **config):
    torch.manual_seed(0)
    return BACKBONES[name](**{**CONFIGS[name], **config}).double().eval()


MODELS = {name: build(name) for name in BACKBONES}
MODELS["maml of regression"] = build("maml", inner="regression")
MODELS["vsa with attributes"] = build("vsa", attributes=True)
MODELS["vsa with associations"] = build("vsa", attributes=True, associations=True)
MODELS["vsa without own labels"] = build("vsa", associations=True, own_labels=False)
for vsa in (MODELS["vsa with associations"], MODELS["vsa_pair"].second):
    torch.nn.init.normal_(vsa.gate[-1].weight)  # it is initialised with zeros

every = pytest.mark.parametrize("name", MODELS)


@st.composite
def drawn_tasks(draw, n_tasks=None, inductive=None):
    """Inputs of a backbone's call: sizes and kinds are drawn by Hypothesis, numbers are random.

    All tasks have the same size. Some of the readable rows have labels.
    """
    B = n_tasks or draw(st.integers(1, 3))
    N, M, C = draw(st.integers(3, 12)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    one_hot = draw(st.booleans())
    missing = draw(st.sampled_from([0, 0.1, 0.5]))
    inductive = draw(st.booleans()) if inductive is None else inductive
    most = draw(st.integers(1, N - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.standard_normal((B, N, M)) * 10 ** rng.uniform(-2, 2, M)
    x[rng.random(x.shape) < missing] = np.nan
    y = np.eye(C)[rng.integers(0, C, (B, N))] if one_hot else rng.standard_normal((B, N, C))
    rows = rng.permuted(np.tile(np.arange(N), (B, 1)), axis=1)
    n_labelled = rng.integers(1, most + 1, (B, 1))
    y[rows >= n_labelled] = np.nan
    readable = (rows < n_labelled) | (not inductive) | (rng.random((B, N)) < 0.4)
    if inductive:
        readable &= rows < N - 1  # at least one row is embedded from the others
    inputs = {"x": x, "labels": y, "readable": readable}
    inputs |= {"columns": np.ones((B, M), bool), "classes": np.ones((B, C), bool)}
    return {key: torch.from_numpy(array) for key, array in inputs.items()}


def suited(name, inputs):
    """The same inputs, but with indicators for labels for "maml", whose inner loss needs them."""
    if name != "maml":
        return inputs
    y = inputs["labels"]
    return {**inputs, "labels": (y > 0).to(y).masked_fill(y.isnan(), math.nan)}


@torch.no_grad()
def embed(name, inputs):
    return MODELS[name](**suited(name, inputs))[0]


def fixed_task(n_rows=14, n_columns=4):
    """A task of two classes; a third of the rows have no label, all rows are readable."""
    rng = np.random.default_rng(0)
    labels = torch.eye(2, dtype=torch.float64)[torch.arange(n_rows) % 2][None].clone()
    labels[:, ::3] = math.nan
    return {
        "x": torch.from_numpy(rng.standard_normal((1, n_rows, n_columns))),
        "labels": labels,
        "readable": torch.ones(1, n_rows, dtype=torch.bool),
        "columns": torch.ones(1, n_columns, dtype=torch.bool),
        "classes": torch.ones(1, 2, dtype=torch.bool),
    }


# Symmetries


@every
@given(inputs=drawn_tasks(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_equivariance_over_rows_and_attributes_and_invariance_over_label_columns(
    name, inputs, seed
):
    _, N, M = inputs["x"].shape
    rng = np.random.default_rng(seed)
    rows, columns, classes = map(rng.permutation, (N, M, inputs["labels"].shape[2]))
    moved = {
        "x": inputs["x"][:, rows][:, :, columns],
        "labels": inputs["labels"][:, rows][:, :, classes],
        "readable": inputs["readable"][:, rows],
    }
    z = embed(name, inputs)[:, rows]
    found = embed(name, {**inputs, **moved})
    torch.testing.assert_close(found, z if z.shape[2] == 1 else z[:, :, columns], **same)


@every
def test_what_is_read(name):
    """All but deep sets read labels; VSA and exchangeable read unlabelled rows beyond their scales.

    Without this test the symmetries above would hold for a constant, too.
    """
    inputs = fixed_task()
    z = embed(name, inputs)
    assert (z[:, 1:] - z[:, :-1]).abs().max() > 1e-4
    swapped = inputs["labels"].clone()
    swapped[:, [1, 2]] = inputs["labels"][:, [2, 1]]
    moved = (embed(name, {**inputs, "labels": swapped}) - z).abs().max()
    assert moved == 0 if name == "deep_sets" else moved > 1e-6
    # Two unlabelled rows exchange a cell, which leaves the moments of the attribute as they are.
    inputs["x"][0, [0, 3], 0] = inputs["x"][0, [3, 0], 0]
    moved = (embed(name, inputs) - z)[0, 1:3].abs().max()
    assert moved > 1e-6 if name.split()[0] in READ_ROWS else moved < 1e-9


# Padding and batches


@every
@settings(max_examples=10)
@given(
    inputs=drawn_tasks(),
    rows=st.integers(0, 4),
    columns=st.integers(0, 3),
    classes=st.integers(0, 3),
)
def test_padding_changes_nothing(name, inputs, rows, columns, classes):
    z, (_, N, M) = embed(name, inputs), inputs["x"].shape
    labels = pad(inputs["labels"], (0, classes))  # as batches pad: 0 in labelled rows
    labels[inputs["labels"].isnan().all(2)] = math.nan
    padded = {
        "x": pad(inputs["x"], (0, columns, 0, rows), value=math.nan),
        "labels": pad(labels, (0, 0, 0, rows), value=math.nan),
        "readable": pad(inputs["readable"], (0, rows)),
        "columns": pad(inputs["columns"], (0, columns)),
        "classes": pad(inputs["classes"], (0, classes)),
    }
    found = embed(name, padded)
    torch.testing.assert_close(found[:, :N, : z.shape[2]], z, **same)
    assert found.isfinite().all() and not found[:, :, M:].any()


@every
@settings(max_examples=10)
@given(inputs=st.integers(2, 3).flatmap(drawn_tasks))
def test_batched_tasks_equal_one_by_one(name, inputs):
    singles = [
        {key: tensor[b : b + 1] for key, tensor in inputs.items()} for b in range(len(inputs["x"]))
    ]
    found = torch.cat([embed(name, single) for single in singles])
    torch.testing.assert_close(found, embed(name, inputs), **same)


@every
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_length_of_the_embedding(name, n_columns):
    z = embed(name, fixed_task(6, n_columns))
    assert z.shape[:3] == (1, 6, 1 if name.split()[0] in POOLED else n_columns)
    assert MODELS[name].n_embedding(n_columns) == z.flatten(2).shape[2]


# Memory


@every
@settings(max_examples=12)
@given(inputs=drawn_tasks(n_tasks=1, inductive=True), n_chunk=st.integers(1, 3))
def test_memory_equals_the_full_pass(name, inputs, n_chunk):
    """A memory gives new rows the same embeddings: all at once, in chunks, without each other."""
    context = inputs["readable"][0]
    inputs = suited(name, inputs)
    known = {key: inputs[key][:, context] for key in ("x", "labels", "readable")}
    rest = {key: inputs[key] for key in ("columns", "classes")}
    x, nobody = inputs["x"][:, ~context], inputs["readable"][:, ~context]
    labels = torch.full_like(inputs["labels"][:, ~context], math.nan)
    with torch.no_grad():
        z, memory = MODELS[name](**known, **rest)
        whole = embed(name, inputs)
        torch.testing.assert_close(z, whole[:, context], **same)
        for size in (x.shape[1], n_chunk):
            chunks = zip(x.split(size, 1), labels.split(size, 1), nobody.split(size, 1))
            found = [MODELS[name](*chunk, **rest, memory=memory)[0] for chunk in chunks]
            torch.testing.assert_close(torch.cat(found, dim=1), whole[:, ~context], **same)


@every
@settings(max_examples=10)
@given(inputs=drawn_tasks(inductive=True))
def test_rows_outside_the_context_are_read_by_nobody(name, inputs):
    context = inputs["readable"]
    changed = {**inputs, "x": torch.where(context[..., None], inputs["x"], 1e3)}
    torch.testing.assert_close(embed(name, changed)[context], embed(name, inputs)[context], **same)


# Missing cells


@every
@settings(max_examples=10)
@given(
    inputs=drawn_tasks(),
    value=st.sampled_from([0.0, 1e9 + 0.1, math.nan]),
    rounding=st.integers(0, 3),
)
def test_a_constant_or_unseen_column_is_no_column(name, inputs, value, rounding):
    B, N, M = inputs["x"].shape
    extra = torch.full((B, N, 1), value, dtype=torch.float64)
    # Sums of shares equal 1 up to rounding: each row may be off by a few units in the last place.
    extra *= 1 + 2.0**-52 * (torch.arange(N)[:, None] % (rounding + 1)).double()
    extra[~inputs["readable"]] += 1  # the column is constant over readable rows only
    wider = {
        **inputs,
        "x": torch.cat([inputs["x"], extra], dim=2),
        "columns": pad(inputs["columns"], (0, 1), value=True),
    }
    z, found = embed(name, inputs), embed(name, wider)
    torch.testing.assert_close(found[:, :, : z.shape[2]], z, **same)
    assert not found[:, :, M:].any()


@every
def test_missing_cells(name):
    """Embeddings with missing cells are finite, and a gap is not read as the column's mean."""
    inputs = fixed_task()
    full = embed(name, inputs)
    x = inputs["x"].clone()
    for cells in ((4, slice(None)), (5, slice(None)), (slice(None), 1), (slice(7, 9), 2)):
        x[(0, *cells)] = math.nan
    z = embed(name, {**inputs, "x": x})
    assert z.isfinite().all() and (z - full).abs().max() > 1e-4
    x = inputs["x"].clone()
    x[0, 6, 0] = math.nan
    z = embed(name, {**inputs, "x": x})
    x[0, 6, 0] = x[0, :, 0].nanmean()
    assert (embed(name, {**inputs, "x": x}) - z)[0, 6].abs().max() > 1e-4


@every
@pytest.mark.parametrize(
    "emptied", ["x", "labels", "x classes", "x labels readable columns classes"]
)
def test_nothing_to_read(name, emptied):
    """Without cells, labels or both, or with padding alone, embeddings and gradients are finite."""
    inputs = fixed_task()
    for part in emptied.split():
        nothing = False if inputs[part].dtype == torch.bool else math.nan
        inputs[part] = torch.full_like(inputs[part], nothing)
    model = copy.deepcopy(MODELS[name])
    z, _ = model(**inputs)
    z.square().sum().backward()
    assert z.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# Weights, modes, configuration


@every
def test_gradient_reaches_every_parameter(name):
    model = copy.deepcopy(MODELS[name])
    inputs = fixed_task()
    inputs["x"][0, 2, 1] = math.nan
    z, _ = model(**inputs)
    (z * torch.linspace(-1, 1, z.numel()).view(z.shape)).sum().backward()
    reached = {key: p.grad is not None and p.grad.any() for key, p in model.named_parameters()}
    assert all(reached.values()), [key for key, there in reached.items() if not there]
    assert all(p.grad.isfinite().all() for p in model.parameters())


@every
def test_without_gradients(name):
    """MAML takes its gradient steps without gradient mode, and a memory kept there can be read."""
    inputs = fixed_task()
    new = inputs["labels"].isnan().all(-1)
    expected = MODELS[name](**inputs)[0].detach()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            z, memory = MODELS[name](**inputs)
            again, _ = MODELS[name](**inputs, memory=memory)
        assert not z.requires_grad
        torch.testing.assert_close(z, expected, **same)
        torch.testing.assert_close(again[new], expected[new], **same)


@every
def test_config_builds_it_again(name):
    model = MODELS[name]
    again = type(model)(**model.config).double()
    again.load_state_dict(model.state_dict())
    assert again.config == model.config
    torch.testing.assert_close(again(**fixed_task()), model(**fixed_task()), rtol=0, atol=0)
    default = type(model)()
    assert type(model)(**default.config).config == default.config


@every
def test_single_precision_and_autocast(name):
    model = copy.deepcopy(MODELS[name]).float()
    inputs = fixed_task()
    inputs |= {"x": inputs["x"].float(), "labels": inputs["labels"].float()}
    expected = embed(name, fixed_task())
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs)[0].double(), expected, rtol=0, atol=1e-3)
    with torch.autocast("cpu", torch.bfloat16):
        z, _ = model(**inputs)
        z.float().square().sum().backward()
    assert z.isfinite().all()
    assert (z.double() - expected).abs().max() < 0.1 * expected.abs().max() + 0.1


# The equations of the rivals


def test_attributes_are_handed_on_beside_the_embedding():
    task = fixed_task()
    plain, both = embed("vsa", task), embed("vsa with attributes", task)
    torch.testing.assert_close(both[..., :-1], plain, **same)
    x = standardise(task["x"], moments_of(task["x"], task["readable"]))
    expected = x.nan_to_num(0) / math.sqrt(x.shape[2])
    torch.testing.assert_close(both[..., -1], expected, **same)


def test_deep_set_is_phi_mean_rho():
    torch.manual_seed(0)
    network = DeepSet(3, 5).double()
    elements = torch.randn(4, 6, 3, dtype=torch.float64)
    observed = torch.rand(4, 6) < 0.6
    observed[0] = False
    for found, row, there in zip(network(elements, observed), elements, observed):
        mean = network.phi(row[there]).sum(0) / max(int(there.sum()), 1)
        torch.testing.assert_close(found, network.rho(mean), **same)


@torch.no_grad()
def test_hml_is_its_course():
    """HML describes columns and rows in turn, set by set, from labelled rows alone."""
    model, inputs = MODELS["hml"], fixed_task(5, 2)
    H = CONFIGS["hml"]["width"]
    inputs["x"][0, 1, 0] = math.nan
    moments = moments_of(inputs["x"], inputs["readable"])
    x, y = standardise(inputs["x"], moments)[0], inputs["labels"][0]
    labelled = [n for n in range(5) if not y[n].isnan().any()]
    cells = [(n, m) for n in range(5) for m in range(2) if not x[n, m].isnan()]
    read = [(n, m) for n, m in cells if n in labelled]

    def normal(z):
        return torch.nn.functional.layer_norm(z, (H,))

    def of(network, values, descriptions=None):
        values = torch.stack(values)[:, None]
        if descriptions is not None:  # a value weighs as much as the description beside it
            values = torch.cat([H**0.5 * values, torch.stack(descriptions)], 1)
        return network.rho(network.phi(values).mean(0))

    v = [normal(of(model.first_attributes, [x[i] for i in read if i[1] == m])) for m in range(2)]
    u = [normal(of(model.first_labels, [y[n, c] for n in labelled])) for c in range(2)]
    for networks in model.iterations:
        r = {}
        for n in labelled:
            mine = [i for i in read if i[0] == n]
            said = of(networks["row_attributes"], [x[i] for i in mine], [v[m] for _, m in mine])
            r[n] = normal(said + of(networks["row_labels"], list(y[n]), u))
        columns = [[i for i in read if i[1] == m] for m in range(2)]
        v = [
            normal(of(networks["attributes"], [x[i] for i in mine], [r[n] for n, _ in mine]))
            for mine in columns
        ]
        if "labels" in networks:
            u = [
                normal(of(networks["labels"], [y[n, c] for n in labelled], list(r.values())))
                for c in range(2)
            ]
    for n, found in enumerate(model(**inputs)[0][0, :, 0]):
        mine = [i for i in cells if i[0] == n]
        expected = of(model.rows, [x[i] for i in mine], [v[m] for _, m in mine])
        torch.testing.assert_close(found, expected, **same)


def test_exchangeable_layer_is_four_linear_maps():
    """The maps read a cell and the means of its row, its column and the matrix, index by index."""
    torch.manual_seed(0)
    layer = ExchangeableLayer(3, 5).double()
    z = torch.randn(1, 6, 4, 3, dtype=torch.float64)
    observed = torch.rand(1, 6, 4) < 0.7
    readable = observed & torch.tensor([True, True, False, True, True, False])[:, None]
    found, _ = layer(z, observed, readable)
    matrix = z[readable].mean(0)
    for n in range(6):
        for s in range(4):
            row, column = z[0, n][observed[0, n]].mean(0), z[0, :, s][readable[0, :, s]].mean(0)
            expected = layer.linear(torch.cat([z[0, n, s], row, column, matrix]))
            torch.testing.assert_close(found[0, n, s], expected, **same)


def test_encoder_layer_is_torchs():
    torch.manual_seed(0)
    ours = EncoderLayer(8, 2).double()
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 8, dropout=0, batch_first=True, norm_first=True, dtype=torch.float64
    )
    norm, up, _, down = ours.feed_forward
    pairs = {
        theirs.self_attn.in_proj_weight: ours.project.weight,
        theirs.self_attn.in_proj_bias: ours.project.bias,
        theirs.self_attn.out_proj.weight: ours.merge.weight,
        theirs.self_attn.out_proj.bias: ours.merge.bias,
        **{getattr(theirs.linear1, key): getattr(up, key) for key in ("weight", "bias")},
        **{getattr(theirs.linear2, key): getattr(down, key) for key in ("weight", "bias")},
        **{getattr(theirs.norm2, key): getattr(norm, key) for key in ("weight", "bias")},
    }
    z = torch.randn(3, 7, 8, dtype=torch.float64)
    readable = torch.rand(3, 7) < 0.7
    with torch.no_grad():
        for there, here in pairs.items():
            there.copy_(here)
        expected = theirs(z, src_key_padding_mask=~readable)
    torch.testing.assert_close(ours(z, readable), expected, **same)


def test_a_set_transformer_does_not_see_what_is_not_there():
    torch.manual_seed(0)
    network = SetEncoder(3, 8, 2, 2).double()
    elements = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    observed = torch.rand(2, 4, 6) < 0.6
    observed[0, 0] = False
    found = network(elements, observed)
    elements = torch.where(observed[..., None], elements, 100.0)
    torch.testing.assert_close(network(elements, observed), found, **same)


@pytest.mark.parametrize("name", ["maml", "maml of regression"])
def test_maml_is_gradient_descent_by_hand(name):
    """Embeddings and their gradients equal those of the steps written out for one task."""
    model = MODELS[name]
    loss_of = {"maml": prototype_loss, "maml of regression": ridge_loss}[name]
    inputs = fixed_task()
    moments = moments_of(inputs["x"], inputs["readable"])
    values, observed = observed_cells(inputs["x"], moments, inputs["columns"])
    labels, classes = inputs["labels"], inputs["classes"]
    x, there, y, known = (t[0] for t in labelled_rows(values, observed, labels, classes))
    initial = dict(model.network.named_parameters())
    weights, network = dict(initial), model.network
    for _ in range(model.config["n_steps"]):
        z = torch.func.functional_call(network, weights, (x[..., None], there))
        slopes = torch.autograd.grad(
            loss_of(z, y, known), list(weights.values()), create_graph=True
        )
        steps = zip(weights.items(), slopes)
        weights = {key: w - model.config["inner_rate"] * slope for (key, w), slope in steps}
    expected = torch.func.functional_call(network, weights, (values[0, ..., None], observed[0]))
    found = model(**inputs)[0][0, :, 0]
    torch.testing.assert_close(found, expected, **same)
    assert (found - network(values[0, ..., None], observed[0])).abs().max() > 1e-4
    slopes = [torch.autograd.grad(z.square().sum(), initial.values()) for z in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)


def test_prototype_loss_is_equation_9():
    rng = np.random.default_rng(0)
    z, classes = rng.standard_normal((7, 3)), np.array([0, 1, 1, 0, 3, 3, 3])  # no point of class 2
    losses = []
    for row, c in zip(z, classes):
        p = np.zeros(4)
        for k in (0, 1, 3):
            p[k] = np.exp(-np.square(row - z[classes == k].mean(0)).sum())
        losses.append(-np.log(p[c] / p.sum()))
    # A row without a label does not count, nor does a padded label column.
    padded = np.vstack([z, np.full((1, 3), 9.0)])
    y = np.vstack([np.pad(np.eye(4)[classes], ((0, 0), (0, 1))), np.zeros((1, 5))])
    found = prototype_loss(torch.from_numpy(padded), torch.from_numpy(y), torch.from_numpy(y) == 1)
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-9)


def test_ridge_loss_leaves_each_row_out():
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    features = np.hstack([z, np.ones((7, 1))])
    errors = []
    for n in range(7):
        rest, target = np.delete(features, n, 0), np.delete(y, n, 0)
        w = np.linalg.solve(rest.T @ rest + 0.5 * np.eye(4), rest.T @ target)
        errors.append(y[n] - features[n] @ w)
    padded = torch.from_numpy(np.vstack([z, np.full((1, 3), 9.0)]))
    targets = torch.from_numpy(np.vstack([y, np.zeros((1, 2))]))
    known = torch.arange(8)[:, None].expand(8, 2) < 7
    found = ridge_loss(padded, targets, known, penalty=0.5)
    assert found.item() == pytest.approx(np.square(errors).mean(), rel=1e-9)


@pytest.mark.parametrize("inner", INNER_LOSSES)
def test_inner_losses_are_in_full_precision(inner, monkeypatch):
    """Matrix inverses have no bfloat16, and autocast on a GPU does not convert their inputs."""
    seen = []

    def loss(z, y, known):
        seen.append((z.dtype, torch.is_autocast_enabled("cpu")))
        return INNER[inner](z, y, known)

    INNER = dict(INNER_LOSSES)
    monkeypatch.setitem(INNER_LOSSES, inner, loss)
    model = build("maml", inner=inner).float()
    with torch.autocast("cpu", torch.bfloat16):
        model(**suited("maml", fixed_task()))
    assert set(seen) == {(torch.float32, False)}


def test_an_unknown_inner_loss_is_an_error():
    with pytest.raises(ValueError, match="inner must be one of"):
        BACKBONES["maml"](inner="both")
