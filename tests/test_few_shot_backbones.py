"""Properties of the backbones and heads of few-shot episodes (paper 003)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from sklearn_meta.backbones import FEW_SHOT_BACKBONES, SNAIL, FewShotTransformer
from sklearn_meta.backbones.few_shot_transformer import VARIANTS, Layer, sequences
from sklearn_meta.backbones.image_encoder import IMAGE_ENCODERS, ImageEncoder, ResidualImageEncoder
from sklearn_meta.few_shot_learner import FewShotLearner
from sklearn_meta.heads import LabelAttention, LastPosition
from sklearn_meta.learner import build_learner

shapes = st.tuples(*(st.integers(a, b) for a, b in ((1, 4), (1, 3), (2, 5), (1, 3), (1, 6))))


def episodes(shape, seed=0):
    """Support, labels and queries of B episodes with Q queries, N ways, K shots and I inputs."""
    B, Q, N, K, size = shape
    generator = torch.Generator().manual_seed(seed)
    support = torch.randn(B, N * K, size, generator=generator, dtype=torch.float64)
    query = torch.randn(B, Q, size, generator=generator, dtype=torch.float64)
    labels = torch.stack([torch.randperm(N * K, generator=generator) % N for _ in range(B)])
    return support, labels, query


def learner_of(name, shape, **config):
    torch.manual_seed(0)
    _, _, N, K, size = shape
    learner = FewShotLearner(
        name, inputs="vectors", n_inputs=size, n_ways=N, n_shots=K, backbone_config=config
    )
    return learner.double().eval()


def count(module):
    return sum(p.numel() for p in module.parameters())


# The equations


def g(network, x):
    """Eq. (3.1), entry by entry."""
    first, _, second = network
    hidden = [max(0.0, float(w @ x + b)) for w, b in zip(first.weight, first.bias)]
    return torch.tensor(
        [float(w @ torch.tensor(hidden).to(x) + b) for w, b in zip(second.weight, second.bias)]
    ).to(x)


@settings(deadline=None, max_examples=10)
@given(shapes, st.integers(0, 99))
def test_deep_attention_is_equation_3_4(shape, seed):
    B, Q, N, K, size = shape
    torch.manual_seed(seed)
    backbone = FewShotTransformer(size, N, K, width=4, n_latent=6).double()
    attention, S = backbone.layers[0].attention, N * K + 1
    x = torch.randn(2, S, 4, dtype=torch.float64)
    with torch.no_grad():
        read = attention(x)
        for b in range(2):
            stacked = x[b].reshape(-1)
            weights = g(attention.weights, stacked).reshape(S, S)  # Eq. (3.3)
            values = g(attention.values.project, stacked).reshape(S, 4)  # Eq. (3.2)
            for i in range(S):
                share = (weights[i] - weights[i].max()).exp()
                expected = sum(share[j] / share.sum() * values[j] for j in range(S))
                torch.testing.assert_close(read[b, i], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("N", "K", "width", "n_latent"), [(5, 1, 64, 256), (3, 2, 8, 10)])
def test_as_many_parameters_as_the_papers_formulas(N, K, width, n_latent):
    layer = FewShotTransformer(7, N, K, width=width, n_latent=n_latent).layers[0]
    S, d, h = N * K + 1, width, n_latent
    weights = h * (S * d + 1) + S**2 * (h + 1)  # first of Eq. (3.5), which calls it G^1
    values = h * (S * d + 1) + S * d * (h + 1)  # second of Eq. (3.5)
    assert count(layer.attention.weights) == weights
    assert count(layer.attention.values) == values
    assert count(layer.feed_forward) == 2 * d * h + h + d  # Eq. (3.6)


def test_variants_have_the_projections_of_their_names():
    S, d, h = 6, 8, 10
    linear, stacked = d * (d + 1), S * d * (S * d + 1)
    deep, deep_stacked = h * (d + 1) + d * (h + 1), h * (S * d + 1) + S * d * (h + 1)
    by_network = h * (S * d + 1) + S**2 * (h + 1)
    expected = {
        "A1": 3 * linear,
        "A3": 3 * deep,
        "A5": 3 * stacked,
        "A6": stacked + by_network,
        "A7": 3 * deep_stacked,
        "A8": deep_stacked + by_network,
    }
    for name in VARIANTS:
        backbone = FewShotTransformer(3, 5, 1, attention=name, width=d, n_latent=h)
        assert count(backbone.layers[0].attention) == expected[name], name


def test_the_transformer_is_torchs_own():
    torch.manual_seed(0)
    ours = FewShotTransformer(3, 5, 1, attention="A1", width=8, n_latent=16, n_heads=2).eval()
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True).eval()
    layer = ours.layers[0]
    own = layer.attention.projections
    attention = theirs.self_attn
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([p.project.weight for p in own]))
        attention.in_proj_bias.copy_(torch.cat([p.project.bias for p in own]))
        attention.out_proj.weight.copy_(torch.eye(8))  # ours has no output projection
        for mine, its in (
            (layer.feed_forward[0], theirs.linear1),
            (layer.feed_forward[2], theirs.linear2),
        ):
            its.load_state_dict(mine.state_dict())
        x = torch.randn(4, 6, 8)
        torch.testing.assert_close(layer(x), theirs(x), rtol=1e-5, atol=1e-5)


def test_labels_are_carried_to_the_query():
    head = LabelAttention().double()
    features = torch.randn(2, 3, 6, 4, dtype=torch.float64)
    labels = torch.tensor([[0, 1, 2, 0, 1], [2, 1, 0, 2, 0]])
    told = head(features, labels, 4).exp()
    for b in range(2):
        for q in range(3):
            scores = (features[b, q, :5] @ features[b, q, 5] / 2).detach()
            scores = (scores - scores.mean()) / (scores.var(unbiased=False) + 1e-5).sqrt()
            weights = (2 * scores).softmax(0)
            expected = [weights[labels[b] == c].sum().item() for c in range(4)]
            np.testing.assert_allclose(told[b, q].detach(), expected, atol=1e-5)
    assert (told[..., 3] < 1e-5).all() and (told[..., 3] > 0).all()  # a class that nobody has
    np.testing.assert_allclose(told.sum(-1).detach(), 1, atol=1e-12)
    half = features.bfloat16()  # in bfloat16 probabilities near 1 would be 1
    torch.testing.assert_close(head(half, labels, 4), head(half.float(), labels, 4))


def test_the_last_position_has_the_classes():
    features = torch.randn(2, 3, 6, 4)
    told = LastPosition()(features, torch.zeros(2, 5, dtype=torch.long), 4)
    torch.testing.assert_close(told, features[:, :, 5].log_softmax(-1))


# Properties


@settings(deadline=None, max_examples=20)
@given(shapes, st.sampled_from(list(FEW_SHOT_BACKBONES)), st.integers(0, 99))
def test_queries_and_episodes_one_by_one(shape, name, seed):
    learner = learner_of(name, shape, width=8)
    support, labels, query = episodes(shape, seed)
    with torch.no_grad():
        together = learner(support, labels, query)
        for b in range(shape[0]):
            for q in range(shape[1]):
                alone = learner(support[b : b + 1], labels[b : b + 1], query[b : b + 1, q : q + 1])
                torch.testing.assert_close(together[b, q], alone[0, 0], rtol=1e-9, atol=1e-9)
    assert torch.allclose(together.exp().sum(-1), torch.ones(1, dtype=torch.float64))


@settings(deadline=None, max_examples=30)
@given(shapes, st.sampled_from(["A1", "A3"]), st.integers(0, 99))
def test_feature_wise_attention_does_not_mind_the_order(shape, attention, seed):
    learner = learner_of("few_shot_transformer", shape, attention=attention, width=8)
    support, labels, query = episodes(shape, seed)
    order = torch.randperm(support.shape[1], generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        first, second = (
            learner(support, labels, query),
            learner(support[:, order], labels[:, order], query),
        )
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention", ["A5", "A6", "A7", "A8"])
def test_sequence_wise_attention_minds_the_order(attention):
    shape = (1, 1, 5, 1, 3)
    learner = learner_of("few_shot_transformer", shape, attention=attention, width=8)
    support, labels, query = episodes(shape)
    order = torch.tensor([1, 0, 2, 3, 4])
    with torch.no_grad():
        first, second = (
            learner(support, labels, query),
            learner(support[:, order], labels[:, order], query),
        )
    assert not torch.allclose(first, second, rtol=1e-4)


@settings(deadline=None, max_examples=20)
@given(shapes, st.permutations(range(5)), st.integers(0, 99))
def test_transformers_do_not_mind_which_class_is_which(shape, names, seed):
    names = torch.tensor([n for n in names if n < shape[2]])
    learner = learner_of("few_shot_transformer", shape, width=8)
    support, labels, query = episodes(shape, seed)
    with torch.no_grad():
        first, renamed = learner(support, labels, query), learner(support, names[labels], query)
    torch.testing.assert_close(renamed[..., names], first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reads_labels", [False, True])
def test_whether_features_depend_on_labels(reads_labels):
    torch.manual_seed(0)
    backbone = FewShotTransformer(3, 4, 2, attention="A1", width=8, reads_labels=reads_labels)
    support, labels, query = episodes((2, 3, 4, 2, 3))
    support, query = support.float(), query.float()
    with torch.no_grad():
        first, renamed = (backbone(support, code, query) for code in (labels, (labels + 1) % 4))
    assert torch.equal(first, renamed) is not reads_labels


@settings(deadline=None, max_examples=20)
@given(shapes, st.integers(0, 99))
def test_snail_reads_only_what_came_before(shape, seed):
    B, Q, N, K, size = shape
    torch.manual_seed(seed)
    backbone = SNAIL(size, N, K, width=8).double()
    support, labels, query = episodes(shape, seed)
    with torch.no_grad():
        whole = backbone(support, labels, query)
        other = support.clone()
        other[:, -1] += 1
        changed = backbone(other, labels, query)
    torch.testing.assert_close(whole[:, :, : N * K - 1], changed[:, :, : N * K - 1])
    assert not torch.allclose(whole[:, :, N * K - 1 :], changed[:, :, N * K - 1 :])


def snail_of_whole_sequences(backbone, support, labels, query):
    """Put each query behind its labelled rows, as the original does."""
    known = torch.cat([backbone.embedding(support), F.one_hot(labels, backbone.n_ways)], 2)
    x = sequences(known, F.pad(backbone.embedding(query), (0, backbone.n_ways)))
    for block in backbone.blocks:
        if hasattr(block, "sizes"):
            parts = block.project(x).split(block.sizes, 2)
            x = torch.cat([x, F.scaled_dot_product_attention(*parts, is_causal=True)], 2)
            continue
        for layer in block.layers:
            values, gates = layer(F.pad(x.mT, (layer.dilation[0], 0))).mT.chunk(2, 2)
            x = torch.cat([x, values.tanh() * gates.sigmoid()], 2)
    return backbone.output(x).unflatten(0, query.shape[:2])


@settings(deadline=None, max_examples=20)
@given(shapes, st.integers(0, 9), st.integers(0, 99))
def test_snail_reads_labelled_rows_once_as_if_for_each_query(shape, n_fewer, seed):
    _, Q, N, K, size = shape
    torch.manual_seed(seed)
    backbone = SNAIL(size, N, K, width=4).double()
    support, labels, query = episodes(shape, seed)
    n_rows = max(N * K - n_fewer, 1)  # an episode with too few rows
    episode = support[:, :n_rows].requires_grad_(), labels[:, :n_rows], query.requires_grad_()
    positions = []
    backbone.output.register_forward_pre_hook(lambda _, given: positions.append(given[0].shape[1]))
    outputs = backbone(*episode), snail_of_whole_sequences(backbone, *episode)
    assert positions[0] == n_rows + Q
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    leaves = [episode[0], query, *backbone.parameters()]
    torch.testing.assert_close(
        *(torch.autograd.grad(said.square().sum(), leaves) for said in outputs), rtol=0, atol=1e-10
    )


def test_snail_reaches_the_first_row_by_convolutions_alone():
    convolutions = SNAIL(3, 5, 1, width=8).blocks[1]
    x = torch.zeros(1, 6, 8 + 5 + 4, requires_grad=True)
    convolutions(x, torch.arange(6), 5)[0, -1, 17:].sum().backward()
    assert (x.grad[0] != 0).any(1).all()


def test_dropout_is_of_attention_and_of_the_network_behind_it():
    layer = Layer(torch.nn.Identity(), 8, 8, dropout=1.0)
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    for norm in layer.norms:
        norm.register_forward_pre_hook(lambda _, args: sums.append(args[0]))
    sums = []
    dropped = layer(x)
    torch.testing.assert_close(sums[0], x)  # nothing is added
    torch.testing.assert_close(sums[1], layer.norms[0](x))
    assert not torch.allclose(dropped, layer.eval()(x))


def test_snail_has_the_sizes_of_the_original():
    blocks = SNAIL(64, 5, 1).blocks
    assert [b.sizes[1:] for b in blocks[::2]] == [(64, 32), (256, 128), (512, 256)]
    assert [len(b.layers) for b in blocks[1::2]] == [3, 3]  # for 6 positions
    assert blocks[1].layers[0].out_channels == 2 * 128  # values and gates


# The encoder, and the learner as a whole


@settings(deadline=None, max_examples=10)
@given(st.integers(16, 30), st.integers(1, 3), st.integers(1, 4))
def test_pictures_are_encoded_one_by_one(side, n_channels, n):
    torch.manual_seed(0)
    encoder = ImageEncoder(n_channels * side * side, n_channels=n_channels, n_filters=4).eval()
    x = torch.rand(2, n, n_channels * side * side)
    with torch.no_grad():
        vectors = encoder(x)
        assert vectors.shape == (2, n, encoder.n_outputs)
        torch.testing.assert_close(vectors[1, -1], encoder(x[1, -1:])[0], rtol=1e-4, atol=1e-5)
        planes = F.conv2d(
            x[0, :1].view(1, n_channels, side, side), encoder.blocks[0][0].weight, padding=1
        )
        torch.testing.assert_close(
            encoder.blocks[0][0](x[0, 0].view(1, n_channels, side, side)), planes
        )


@settings(deadline=None, max_examples=10)
@given(st.integers(4, 30), st.integers(1, 3), st.integers(2, 4))
def test_residual_vectors_are_of_one_length_and_of_one_picture_each(side, n_channels, n):
    torch.manual_seed(0)
    n_inputs = n_channels * side * side
    encoder = ResidualImageEncoder(n_inputs, n_channels=n_channels, n_filters=4, n_outputs=9)
    encoder.double().eval()
    x = torch.rand(2, n, n_inputs, dtype=torch.float64)
    with torch.no_grad():
        vectors = encoder(x)
        torch.testing.assert_close(vectors.norm(dim=2), torch.full((2, n), 3.0).double())
        torch.testing.assert_close(vectors[1, -1], encoder(x[1, -1:])[0], rtol=1e-4, atol=1e-5)
        first, *_, last = encoder.blocks.children()
        block = last.shortcut(torch.ones(1, 8, 5, 5).double())
        assert first.out_channels == 2 and block.shape == (1, 8, 3, 3)
        convolution = last.shortcut[0]
        picture = torch.randn(2, 8, side, n + 2, dtype=torch.float64)
        torch.testing.assert_close(
            convolution(picture), F.conv2d(picture, convolution.weight, stride=2)
        )
        # A block whose branch gives zeros returns its shortcut, rectified.
        last.branch[-1].weight.zero_()
        last.branch[-1].bias.zero_()
        picture = torch.randn(1, 8, 5, 5, dtype=torch.float64)
        torch.testing.assert_close(last(picture), last.shortcut(picture).clamp(min=0))


def test_vectors_of_no_blocks_are_the_pictures():
    config = {"n_channels": 3, "n_blocks": 0}
    learner = FewShotLearner(inputs="images", n_inputs=27, encoder_config=config)
    x, labels = torch.rand(1, 7, 27), torch.arange(5)[None]
    torch.testing.assert_close(learner.encode(x), x)
    assert learner(x[:, :5], labels, x[:, 5:]).shape == (1, 2, 5)


def test_a_shift_averages_over_moved_pictures():
    torch.manual_seed(0)
    encoder = ResidualImageEncoder(12 * 12, n_filters=4, n_outputs=9, shift=1).eval()
    picture = torch.zeros(12, 12)
    picture[4:8, 3:9] = torch.rand(4, 6)
    with torch.no_grad():
        found = encoder(picture.flatten()[None])
        encoder.shift = 0
        moved = [picture.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        mean = encoder(torch.stack(moved).flatten(1)).mean(0, keepdim=True)
    torch.testing.assert_close(found, 3 * mean / mean.norm())


@pytest.mark.parametrize("image_encoder", IMAGE_ENCODERS)
def test_a_learner_has_the_image_encoder_of_its_config(image_encoder):
    learner = FewShotLearner(inputs="images", n_inputs=256, image_encoder=image_encoder)
    assert type(learner.encoder) is IMAGE_ENCODERS[image_encoder]
    assert type(build_learner(learner.config).encoder) is IMAGE_ENCODERS[image_encoder]


@pytest.mark.parametrize("name", FEW_SHOT_BACKBONES)
@pytest.mark.parametrize("inputs", ["tables", "vectors", "images"])
def test_a_config_builds_the_learner_again(name, inputs):
    learner = FewShotLearner(name, inputs=inputs, n_inputs=256, n_ways=3, n_shots=2)
    again = build_learner(learner.config)
    assert again.config == learner.config
    again.load_state_dict(learner.state_dict())
    x, labels = torch.rand(2, 7, 256), torch.tensor([[0, 1, 2, 2, 1, 0]] * 2)
    learner.eval(), again.eval()
    with torch.no_grad():
        outputs = [model(x[:, :6], labels, x[:, 6:]) for model in (learner, again)]
    assert torch.equal(*outputs)


@pytest.mark.parametrize("name", FEW_SHOT_BACKBONES)
def test_gradients_reach_every_parameter(name):
    learner = FewShotLearner(name, inputs="images", n_inputs=256, encoder_config={"n_filters": 4})
    x, labels = torch.rand(2, 8, 256), torch.tensor([[0, 1, 2, 3, 4]] * 2)
    target = torch.tensor([[0, 3, -100], [4, 2, 1]])
    learner.head.loss(learner(x[:, :5], labels, x[:, 5:]), target).backward()
    without = [n for n, p in learner.named_parameters() if p.grad is None or not p.grad.any()]
    assert not without


def test_scores_and_losses_leave_out_queries_that_are_none():
    output = torch.tensor([[[0.7, 0.3], [0.4, 0.6]], [[0.9, 0.1], [0.2, 0.8]]]).log()
    target = torch.tensor([[0, -100], [1, 1]])
    head = LabelAttention()
    assert head.score(output, target).tolist() == [1.0, 0.5]
    expected = -np.log([0.7, 0.1, 0.8]).mean()
    assert head.loss(output, target).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"backbone": "vsa"}, "few_shot_transformer"),
        ({"head": "last_position"}, "backbone='few_shot_transformer' needs head='label_attention'"),
        ({"n_ways": 1}, "n_ways must be an integer of 2 or more, got 1"),
        ({"inputs": "sounds"}, "'tables', 'vectors' or 'images'"),
        ({"image_encoder": "vit"}, "convolutional.*residual.*'vit'"),
        ({"backbone_config": {"attention": "A2"}}, "A1.*A8.*'A2'"),
        ({"backbone_config": {"n_heads": 3}}, "n_heads must divide width"),
        ({"inputs": "images", "n_inputs": 50}, "50 values do not make 1 square planes"),
        ({"inputs": "images", "n_inputs": 64}, "8 x 8 are too small for n_blocks=4.*at most 3"),
    ],
)
def test_bad_configurations(config, message):
    with pytest.raises(ValueError, match=message):
        FewShotLearner(**config)


def test_shifted_pictures_are_read_for_predictions_and_not_while_training():
    encoder, sizes = ResidualImageEncoder(64, n_filters=4, n_outputs=4, shift=1), []
    encoder.blocks.register_forward_hook(lambda module, given, _: sizes.append(len(given[0])))
    x = torch.rand(3, 64, generator=torch.Generator().manual_seed(0))
    encoder.train()(x)
    assert sizes == [3]
    encoder.eval()(x)
    assert sizes == [3] + [3] * 9
