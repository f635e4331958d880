"""The Set Transformer and the paper's rivals: equations, symmetries and masks, in float64."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta.backbones.set_pooling import (
    DotProductPool,
    PoolAndRow,
    max_pool,
    mean_pool,
    sum_pool,
)
from sklearn_meta.backbones.set_transformer import (
    ENCODERS,
    ISAB,
    MAB,
    NORMS,
    PMA,
    POOLINGS,
    SAB,
    SetTransformer,
)

same = {"rtol": 0, "atol": 1e-10}
SIZE = {"width": 12, "n_heads": 3}


def model(encoder="isab", pooling="pma", **config):
    torch.manual_seed(0)
    small = {**SIZE, "n_layers": 2, "n_inducing": 4, "encoder": encoder, "pooling": pooling}
    return SetTransformer(3, 2, **{**small, **config}).double().eval()


# The rivals, decoders of several seeds, and every norm.
MODELS = [model(e, p) for e, p in product(ENCODERS, POOLINGS)]
MODELS += [model("sab", n_seeds=3), model("sab", norm="pre"), model(n_seeds=2, norm="pre")]
MODELS += [model("sab", n_seeds=2, norm="none"), model(norm="none")]
models = st.sampled_from(MODELS)


@st.composite
def drawn_sets(draw, min_size=1):
    """A set (N, 3)."""
    n_elements = draw(st.integers(min_size, 20))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return 3 * torch.randn(n_elements, 3, generator=generator, dtype=torch.float64)


def padded(sets, fill=0.0, n_more=0):
    """x (B, N, 3) and mask (B, N) of sets of any size, padded with ``fill``."""
    n_elements = max(map(len, sets)) + n_more
    x = torch.full((len(sets), n_elements, 3), fill, dtype=torch.float64)
    mask = torch.zeros(len(sets), n_elements, dtype=torch.bool)
    for b, elements in enumerate(sets):
        x[b, : len(elements)] = elements
        mask[b, : len(elements)] = True
    return x, mask


# The equations


def layer_norm(x, norm):
    if isinstance(norm, torch.nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return scaled * norm.weight + norm.bias


def multihead(block, x, y):
    """Eq. (2)-(4) for one set, head by head."""
    W = x.shape[1]
    H = W // block.n_heads
    W_Q, (W_K, W_V) = block.query.weight, block.key_value.weight.chunk(2)
    heads = []
    for j in range(block.n_heads):
        rows = slice(j * H, (j + 1) * H)
        q, k, v = x @ W_Q[rows].T, y @ W_K[rows].T, y @ W_V[rows].T
        weights = torch.exp(q @ k.T / math.sqrt(W))  # the paper's scale: d, not d / h
        heads.append(weights / weights.sum(1, keepdim=True) @ v)  # Eq. (2)
    return torch.cat(heads, dim=1) @ block.merge.weight.T  # Eq. (3)


def mab(block, x, y):
    """Eq. (5) and (6), also with the norms in front and without norms."""
    first, second = block.norm_attention, block.norm_feed_forward
    if block.norm == "none":
        assert not list(first.parameters()) and not list(second.parameters())
    linear = [layer for layer in block.feed_forward if isinstance(layer, torch.nn.Linear)]
    if block.norm == "post":
        h = layer_norm(x + multihead(block, x, y), first)
        (fc,) = linear
        return layer_norm(h + (h @ fc.weight.T + fc.bias).clamp(min=0), second)
    h = x + multihead(block, layer_norm(x, first), layer_norm(y, first))
    fc, last = linear
    hidden = (layer_norm(h, second) @ fc.weight.T + fc.bias).clamp(min=0)
    return h + hidden @ last.weight.T + last.bias


def shaken(block):
    """The block in float64, with random parameters in its layer norms, too."""
    torch.manual_seed(1)
    for parameter in block.double().requires_grad_(False).parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    return block


def elements(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("norm", NORMS)
def test_mab_is_equations_2_to_6(norm):
    block = shaken(MAB(12, 3, norm=norm))
    x, y = elements(2, 5, 12), elements(2, 7, 12)
    mask = torch.tensor([[True] * 7, [True, False, True, True, False, False, True]])
    expected = [mab(block, x[0], y[0]), mab(block, x[1], y[1][mask[1]])]
    torch.testing.assert_close(block(x, y, mask), torch.stack(expected), **same)
    torch.testing.assert_close(block(x, y)[0], expected[0], **same)
    assert {name for name, _ in block.named_parameters() if "query" in name} == {"query.weight"}


@pytest.mark.parametrize("norm", NORMS)
def test_sab_isab_and_pma_are_equations_7_to_9_and_13(norm):
    x = elements(1, 6, 12)
    sab = shaken(SAB(12, 3, norm=norm))
    torch.testing.assert_close(sab(x)[0], mab(sab, x[0], x[0]), **same)
    isab = shaken(ISAB(12, 3, 4, norm=norm))
    h = mab(isab.read, isab.inducing, x[0])
    torch.testing.assert_close(isab(x)[0], mab(isab.answer, x[0], h), **same)
    pma = shaken(PMA(12, 3, 2, norm=norm))
    fc = pma.feed_forward[0]
    z = (x[0] @ fc.weight.T + fc.bias).clamp(min=0)
    torch.testing.assert_close(pma(x)[0], mab(pma.read, pma.seeds, z), **same)
    plain = shaken(PMA(12, 3, 2, norm=norm, feed_forward=False))
    torch.testing.assert_close(plain(x)[0], mab(plain.read, plain.seeds, x[0]), **same)


def test_set_transformer_is_equations_10_to_12():
    """Two SABs, then seeds, an SAB over them and a linear layer; one seed needs no SAB."""
    net = model("sab", n_seeds=3)
    x = elements(2, 5, 3)
    with torch.no_grad():
        z = net.layers[1](net.layers[0](net.embed(x)))
        torch.testing.assert_close(net.encode(x), z, **same)
        expected = net.output(net.decoder[0](net.pool(z)))
        torch.testing.assert_close(net(x), expected, **same)
    assert net(x).shape == (2, 3, 2)
    assert [type(layer) for layer in net.decoder] == [SAB, torch.nn.Identity]
    assert [type(layer) for layer in model().layers] == [ISAB, ISAB]
    assert not any(isinstance(layer, SAB) for layer in model().decoder)
    assert not any("pool.feed_forward" in name for name in net.state_dict())  # appendix B


@torch.no_grad()
def test_with_the_norm_in_front_encoder_and_decoder_end_with_one():
    net, x = shaken(model("sab", norm="pre")), elements(2, 5, 3)
    z = net.embed(x)
    for layer in net.layers:
        z = layer(z)
    z = net.norm_encoder(z)
    torch.testing.assert_close(net.encode(x), z, **same)
    norms = net.norm_encoder, net.decoder[-1]
    assert {type(norm) for norm in norms} == {torch.nn.LayerNorm}
    torch.testing.assert_close(net(x), net.output(norms[1](net.pool(z)))[:, 0], **same)
    for norm in ("post", "none"):
        ends = model("sab", norm=norm)
        assert {type(end) for end in (ends.norm_encoder, ends.decoder[-1])} == {torch.nn.Identity}


def test_lemma_1_the_mean_is_attention_of_a_zero_seed():
    """Built as Lemma 2 is: identity projections, and as many heads as dimensions."""
    block = MAB(6, 6).double().requires_grad_(False)
    eye = torch.eye(6, dtype=torch.float64)
    block.key_value.weight.copy_(torch.cat([eye, eye]))
    block.merge.weight.copy_(eye)
    x, seed = elements(3, 8, 6), torch.zeros(3, 1, 6, dtype=torch.float64)
    torch.testing.assert_close(block.attend(seed, x)[:, 0], x.mean(1), **same)
    mask = torch.rand(3, 8) < 0.6
    torch.testing.assert_close(block.attend(seed, x, mask)[:, 0], mean_pool(x, mask), **same)


# The rivals


def test_poolings_over_elements_that_are_there():
    sets = [elements(n, 3) for n in (1, 4, 6)]
    x, mask = padded(sets, fill=7.0)
    dotprod = DotProductPool(3).double().requires_grad_(False)
    w = dotprod.score.weight[0]
    for pool, by_hand in [
        (mean_pool, lambda z: z.mean(0)),
        (sum_pool, lambda z: z.sum(0)),
        (max_pool, lambda z: z.max(0).values),
        (dotprod, lambda z: (z @ w / 3**0.5).softmax(0) @ z),
    ]:
        expected = torch.stack([by_hand(z) for z in sets])
        torch.testing.assert_close(pool(x, mask), expected, **same)
        torch.testing.assert_close(pool(sets[2][None])[0], expected[2], **same)
        nothing = torch.zeros(3, 6, dtype=torch.bool)
        assert not pool(x, nothing).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_dot_product_may_be_shorter_than_what_it_is_of(dtype):
    """Autocast on a GPU leaves the output of layer norms in single precision."""
    pool, (x, mask) = DotProductPool(3), padded([elements(4, 3), elements(2, 3)], fill=7.0)
    with torch.autocast("cpu", dtype), torch.no_grad():
        found = pool(x.float(), mask)
    expected = pool(x.float(), mask)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("name", ["mean", "max"])
def test_rffp_is_equation_4_of_zaheer(name):
    """For the mean, ``x L + pool(x) G`` is L + G / n on the diagonal and G / n off it."""
    layer = PoolAndRow(3, {"mean": mean_pool, "max": max_pool}[name]).double()
    x = elements(5, 3).abs()  # so that the ReLU before it does nothing
    pooled = x.mean(0) if name == "mean" else x.max(0).values
    expected = x @ layer.row.weight.T + pooled @ layer.pooled.weight.T + layer.row.bias
    torch.testing.assert_close(layer(x[None])[0], expected, **same)
    torch.testing.assert_close(layer(-x[None])[0], layer.row.bias.expand(5, 3), **same)


def test_rivals_are_what_their_names_say():
    x = elements(1, 5, 3)
    moved = torch.cat([x[:, :4], x[:, 4:] + 9], dim=1)
    for encoder in ENCODERS:
        net = model(encoder)
        with torch.no_grad():
            change = (net.encode(moved) - net.encode(x))[0, :4].abs().max()
        assert (change == 0) == (encoder == "rff")
    # Table 7: an embedding and three layers are four FC layers, the last of them linear.
    net = model("rff", "mean", n_layers=3)
    with torch.no_grad():
        z = net.embed(x)
        for layer in net.layers:
            z = layer.linear(z.clamp(min=0))
        torch.testing.assert_close(net.encode(x), z, **same)
        hidden = net.decoder[1](z.mean(1)).clamp(min=0)
        torch.testing.assert_close(net(x), net.output(hidden), **same)


# Symmetries


@given(models, drawn_sets(), st.randoms(use_true_random=False))
def test_permutations(net, x, random):
    """Proposition 1: the output is invariant; property 1: the encoding is equivariant."""
    order = random.sample(range(len(x)), len(x))
    with torch.no_grad():
        torch.testing.assert_close(net(x[order][None]), net(x[None]), **same)
        found, expected = net.encode(x[order][None]), net.encode(x[None])[:, order]
        torch.testing.assert_close(found, expected, **same)


@given(models, drawn_sets(), st.integers(0, 9), st.sampled_from([0.0, 1e6, math.nan, math.inf]))
def test_padding_changes_nothing(net, x, n_more, fill):
    more, mask = padded([x], fill=fill, n_more=n_more)
    with torch.no_grad():
        torch.testing.assert_close(net(more, mask), net(x[None]), **same)
        z = net.encode(more, mask)
        torch.testing.assert_close(z[:, : len(x)], net.encode(x[None]), **same)
        assert not z[:, len(x) :].any()
        # Padding may be anywhere.
        order = torch.randperm(more.shape[1])
        torch.testing.assert_close(net(more[:, order], mask[:, order]), net(x[None]), **same)


@given(models, st.lists(drawn_sets(min_size=0), min_size=1, max_size=5))
def test_a_batch_is_its_sets_one_by_one(net, sets):
    x, mask = padded(sets, fill=5.0, n_more=1)  # a batch needs one element at least
    with torch.no_grad():
        found = net(x, mask)
        for b, one in enumerate(sets):
            alone = net(*padded([one], n_more=int(len(one) == 0)))
            torch.testing.assert_close(found[b : b + 1], alone, **same)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_empty_set_is_no_nan(dtype):
    """Gradients are finite, too, so that an empty set does not spoil those of others."""
    x, mask = padded([elements(4, 3), elements(0, 3)], fill=math.nan)
    for net in MODELS:
        net = SetTransformer(**net.config).to(dtype)
        output = net(x.to(dtype), mask)
        assert output.isfinite().all()
        output.square().sum().backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def test_attention_over_nothing_is_zero():
    block = MAB(12, 3).double().requires_grad_(False)
    x, y = elements(2, 5, 12), elements(2, 4, 12)
    mask = torch.tensor([[False] * 4, [True] * 4])
    found = block.attend(x, y, mask)
    assert not found[0].any()
    torch.testing.assert_close(found[1], block.attend(x, y)[1], **same)


# Configuration


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("encoder, pooling", [("isab", "pma"), ("sab", "dotprod"), ("rff", "max")])
def test_every_parameter_learns(encoder, pooling, norm):
    net = model(encoder, pooling, norm=norm, n_seeds=2).train()
    x, mask = padded([elements(n, 3) for n in (6, 2)])
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-4)
    loss = net(x, mask).square().sum()
    loss.backward()
    gradients = {name: p.grad for name, p in net.named_parameters()}
    assert all(g is not None and g.isfinite().all() for g in gradients.values())
    assert [name for name, g in gradients.items() if not g.any()] == []
    optimiser.step()
    assert net(x, mask).square().sum() < loss


def test_config_builds_the_same_architecture():
    net = model("sab", n_seeds=3, norm="pre", dropout=0.5)
    again = SetTransformer(**net.config).double().eval()
    again.load_state_dict(net.state_dict())  # strict
    x = elements(2, 4, 3)
    torch.testing.assert_close(again(x), net(x), rtol=0, atol=0)
    assert again.config == net.config
    assert not torch.equal(net.train()(x), net(x))  # dropout


@pytest.mark.parametrize(("pooling", "first"), [("pma", (2, 5, 12)), ("max", (2, 12))])
def test_dropout_is_that_of_table_16(pooling, first):
    """Dropout is before and after "pma", around the hidden layer of others, and nowhere else."""
    net, dropped = model("isab", pooling, n_seeds=2, dropout=0.5).train(), []
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda _, given, told: dropped.append((given[0], told)))
    net.output.register_forward_hook(lambda _, given, told: dropped.append(given[0]))
    net(elements(2, 5, 3))
    (before, _), (after, told), read = dropped
    assert before.shape == first and after.shape == ((2, 2, 12) if pooling == "pma" else first)
    assert torch.equal(read, told) and not torch.equal(told, after)


def test_bad_configurations_are_refused():
    with pytest.raises(ValueError, match="n_heads must divide width, got width=10 and n_heads=4"):
        MAB(10, 4)
    with pytest.raises(
        ValueError, match=r"Unknown norm 'batch': choose from \['post', 'pre', 'none'\]"
    ):
        model(norm="batch")
    with pytest.raises(ValueError, match=r"Unknown encoder 'lstm': choose from \['sab', "):
        model("lstm")
    with pytest.raises(ValueError, match=r"Unknown pooling 'median': choose from \['pma', "):
        model(pooling="median")
