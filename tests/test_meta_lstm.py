"""Meta-LSTM and its rivals follow the equations of paper 004, and texts are packed."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

from sklearn_meta.backbones import text_sharing
from sklearn_meta.backbones.meta_lstm import BasicLSTM, MetaLSTM, compose, generated
from sklearn_meta.backbones.packed import last_words, reversal, words_before
from sklearn_meta.backbones.text_sharing import POOLINGS, TEXT_BACKBONES, HyperLSTM, run_lstm
from sklearn_meta.learner import build_learner
from sklearn_meta.text_learner import TextLearner

lengths_of = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def packed(lengths, size=3, seed=0):
    """Packed texts of random vectors, and the texts in the order of packing."""
    generator = torch.Generator().manual_seed(seed)
    texts = [torch.randn(n, size, generator=generator, dtype=torch.float64) for n in lengths]
    texts = sorted(texts, key=len, reverse=True)
    return pack_sequence(texts), texts


def networks(d=3, h=4, m=2, z=3, seed=0):
    torch.manual_seed(seed)
    return MetaLSTM(d, h, m, z).double(), BasicLSTM(d, h, z).double()


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def transcription(meta, basic, text):
    """Eq. (10)-(20) for one text (T, d), number by number: z and h of every word."""
    h, m = basic.weight.shape[2], meta.to_z.in_features
    meta, basic = (copy.deepcopy(net).requires_grad_(False) for net in (meta, basic))
    W_m = torch.cat([meta.from_input.weight, meta.from_state.weight], 1)  # for [x; h^; h]
    P, B = basic.weight[:, : basic.rank], basic.weight[:, basic.rank :]
    Q = torch.cat([basic.from_input.weight, basic.from_state.weight], 1)
    hidden, cell, meta_hidden, meta_cell = [0.0] * h, [0.0] * h, [0.0] * m, [0.0] * m
    zs, hs = [], []

    def lstm_of(sums, cell):  # Eq. (10)-(12), (15)-(17)
        n = len(cell)
        g = [math.tanh(s) for s in sums[:n]]
        o, i, f = ([sigmoid(s) for s in sums[k * n : (k + 1) * n]] for k in (1, 2, 3))
        cell = [g[j] * i[j] + cell[j] * f[j] for j in range(n)]
        return [o[j] * math.tanh(cell[j]) for j in range(n)], cell

    for x in text.tolist():
        given = x + meta_hidden + hidden
        sums = [
            sum(float(w) * v for w, v in zip(row, given)) + float(b)
            for row, b in zip(W_m, meta.from_input.bias)
        ]
        meta_hidden, meta_cell = lstm_of(sums, meta_cell)
        z = [sum(float(w) * v for w, v in zip(row, meta_hidden)) for row in meta.to_z.weight]
        sums = []
        for gate in range(4):
            inner = [
                z[r] * sum(float(Q[gate * len(z) + r, k]) * v for k, v in enumerate(x + hidden))
                for r in range(len(z))
            ]
            for j in range(h):
                weighted = sum(float(P[gate, r, j]) * inner[r] for r in range(len(z)))  # Eq. (13)
                sums.append(weighted + sum(float(B[gate, r, j]) * z[r] for r in range(len(z))))
        hidden, cell = lstm_of(sums, cell)
        zs.append(z)
        hs.append(hidden)
    return np.array(zs), np.array(hs)


@settings(deadline=None, max_examples=15)
@given(lengths_of, st.integers(0, 99))
def test_cell_is_equations_10_to_20(lengths, seed):
    meta, basic = networks(seed=seed)
    x, texts = packed(lengths, seed=seed)
    with torch.no_grad():
        outputs = compose(meta, basic, x)
        z = generated(meta, basic, x)
    for i, text in enumerate(texts):
        zs, hs = transcription(meta, basic, text)
        rows = [sum(x.batch_sizes[:t].tolist()) + i for t in range(len(text))]
        np.testing.assert_allclose(outputs[rows], hs, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(z[rows], zs, rtol=1e-6, atol=1e-9)


def test_generated_matrices_are_equation_13():
    """W(z) [x; h] + B z is what the cell computes, word after word."""
    meta, basic = networks()
    x, (text,) = packed([6])
    with torch.no_grad():
        outputs = compose(meta, basic, x)
        z = generated(meta, basic, x)
        W = basic.matrices(z)
        assert W.shape == (6, 4, 4, 7)
        hidden = cell = torch.zeros(4, dtype=torch.float64)
        for word, matrix, z_of, output in zip(text, W, z, outputs):
            bias = torch.einsum("grh,r->gh", basic.weight[:, 3:], z_of)
            g, o, i, f = matrix @ torch.cat([word, hidden]) + bias
            cell = g.tanh() * i.sigmoid() + cell * f.sigmoid()
            hidden = o.sigmoid() * cell.tanh()
            torch.testing.assert_close(output, hidden)


@pytest.mark.parametrize(("d", "h", "m", "z"), [(100, 100, 40, 40), (200, 50, 7, 30)])
def test_generated_weights_begin_as_those_of_an_lstm_that_remembers(d, h, m, z):
    torch.manual_seed(0)
    meta, basic = MetaLSTM(d, h, m, z), BasicLSTM(d, h, z)
    texts = pack_sequence([0.3 * torch.randn(30, d) for _ in range(4)])
    with torch.no_grad():
        late = generated(meta, basic, texts)[4 * 10 :]
        assert abs(late.mean() - 1) < 0.1
        assert 0.01 < late.std(0).mean() < 0.3  # and they change with the words
        bias = late @ basic.weight[3, z:]
        assert abs(bias.mean() - 2) < 0.3
        spread = basic.matrices(late[0]).std() * h**0.5
        assert 0.3 < spread < 1  # that of torch's LSTM is 0.58


class Both(nn.Module):
    def __init__(self, meta, basic):
        super().__init__()
        self.meta, self.basic = meta, basic

    def forward(self, x):
        return compose(self.meta, self.basic, x)


@settings(deadline=None, max_examples=4)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_gradients_are_right(lengths):
    """The hand-written gradient equals finite differences for every output, input and parameter."""
    x, _ = packed(lengths, 2)
    both = Both(*networks(2, 3, 2, 2))
    names, values = zip(*both.named_parameters())
    assert len(names) == 7

    def run(data, *values):
        given = dict(zip(names, values))
        return torch.func.functional_call(both, given, (x._replace(data=data),))

    inputs = [x.data, *(value.detach() for value in values)]
    assert torch.autograd.gradcheck(run, [each.requires_grad_() for each in inputs])


def test_autocast_leaves_the_recurrence_as_it_is():
    meta, basic = networks()
    meta, basic = meta.float(), basic.float()
    x, _ = packed([4, 2, 1])
    x = x._replace(data=x.data.float())
    expected = compose(meta, basic, x)
    with torch.autocast("cpu", torch.bfloat16):
        found = compose(meta, basic, x)
        assert compose(meta, basic, x._replace(data=x.data.bfloat16())).dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    found.sum().backward()
    assert all(p.grad is not None for p in (*meta.parameters(), *basic.parameters()))


def test_second_derivatives_are_refused():
    meta, basic = networks()
    x, _ = packed([3, 1])
    parameters = list(basic.parameters())
    loss = compose(meta, basic, x).square().sum()
    (first, *_) = torch.autograd.grad(loss, parameters, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_torchs_lstm_is_the_same_packed_and_padded(monkeypatch):
    torch.manual_seed(0)
    network, (x, _) = nn.LSTM(3, 4).double(), packed([6, 5, 1])
    padded = run_lstm(network, x)
    monkeypatch.setattr(text_sharing, "MOST_PADDING", 0)
    network.forward = lambda given, forward=network.forward: (
        forward(given) if isinstance(given, PackedSequence) else pytest.fail("padded")
    )
    torch.testing.assert_close(run_lstm(network, x), padded)


@given(lengths_of)
def test_places_of_words_in_packed_data(lengths):
    x, texts = packed(lengths)
    assert torch.equal(x.data[last_words(x.batch_sizes)], torch.stack([t[-1] for t in texts]))
    assert torch.equal(
        POOLINGS["max"](x.data, x.batch_sizes), torch.stack([t.amax(0) for t in texts])
    )
    shifted = [torch.cat([t.new_zeros(1, t.shape[1]), t[:-1]]) for t in texts]
    after_nothing = torch.cat([x.data.new_zeros(1, x.data.shape[1]), x.data])
    before = words_before(x.batch_sizes)
    assert torch.equal(after_nothing[before + 1], pack_sequence(shifted).data)


@pytest.mark.parametrize(("d", "h", "m", "z"), [(100, 100, 20, 20), (200, 100, 40, 40)])
def test_as_many_parameters_as_the_papers_formulas(d, h, m, z):
    meta, basic = MetaLSTM(d, h, m, z), BasicLSTM(d, h, z)
    n_meta, n_basic = (sum(p.numel() for p in net.parameters()) for net in (meta, basic))
    assert n_meta == 4 * m * (d + h + m + 1) + m * z
    assert n_basic == 8 * h * z + 4 * d * z + 4 * h * z  # the last is for Q's part of the state
    if d == 100:
        assert (n_meta, n_basic) == (18_080, 32_000)  # the paper has 18,080 and 24,000


@pytest.mark.parametrize("forget_bias", [2.0, 0.0])
def test_the_forget_gate_begins_with_its_bias(forget_bias):
    """Eq. (14) at z = 1: the mean bias of the gates c, o, i and f."""
    torch.manual_seed(0)
    biases = BasicLSTM(6, 200, 40, forget_bias).weight[:, 40:].sum(1).mean(1)
    torch.testing.assert_close(biases, torch.tensor([0, 0, 0, forget_bias]), atol=0.05, rtol=0)


# Packed texts


@given(lengths_of)
def test_reversal_turns_each_text_round(lengths):
    x, texts = packed(lengths)
    turned = x.data[reversal(x.batch_sizes)]
    expected = pack_sequence([text.flip(0) for text in texts]).data
    assert torch.equal(turned, expected)
    assert torch.equal(turned[reversal(x.batch_sizes)], x.data)


def of_two_tasks(name, **config):
    backbone = TEXT_BACKBONES[name](3, width=4, **config)
    backbone.add_task()
    backbone.add_task()
    return backbone.double()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", TEXT_BACKBONES)
@settings(deadline=None, max_examples=6)
@given(lengths=lengths_of, seed=st.integers(0, 99))
def test_together_is_one_by_one(name, pooling, lengths, seed):
    torch.manual_seed(seed)
    backbone = of_two_tasks(name, pooling=pooling).eval()
    x, texts = packed(lengths, seed=seed)
    with torch.no_grad():
        outputs, pooled, penalty = backbone(x, 1)
        assert outputs.shape[1] == pooled.shape[1] == backbone.n_outputs
        for i, text in enumerate(texts):
            alone = backbone(pack_sequence([text]), 1)
            torch.testing.assert_close(pooled[i], alone[1][0])
            of_text = alone[0][-1] if pooling == "last" else alone[0].amax(0)
            torch.testing.assert_close(pooled[i], of_text)
            rows = [sum(x.batch_sizes[:t].tolist()) + i for t in range(len(text))]
            torch.testing.assert_close(outputs[rows], alone[0])
    assert penalty == 0


@pytest.mark.parametrize("name", TEXT_BACKBONES)
def test_tasks_have_parts_of_their_own(name):
    torch.manual_seed(0)
    backbone = of_two_tasks(name).eval()
    x, _ = packed([4, 2])
    backbone(x, 0)[1].sum().backward()
    touched = {n.split(".")[1] for n, p in backbone.named_parameters() if p.grad is not None}
    assert "1" not in touched and "0" in touched
    shared = backbone.shared and all(p.grad is not None for p in backbone.shared.parameters())
    assert bool(shared) is (backbone.shared is not None)


@torch.no_grad()
@pytest.mark.parametrize("name", ["ssp_mtl", "ssp_mtl_shared_only"])
def test_what_the_private_lstm_of_a_stack_reads(name):
    """It reads both of Eq. (7), or the output of the shared LSTM alone."""
    torch.manual_seed(0)
    backbone, (x, (text,)) = of_two_tasks(name), packed([5])
    said, _ = backbone.shared(text)
    both = torch.cat([text, said], 1) if name == "ssp_mtl" else said
    torch.testing.assert_close(backbone(x, 1)[0], backbone.private[1](both)[0])


def test_as_many_parameters_of_a_stack_as_table_3_counts():
    """1,411K: one bias per gate, where torch has two, and 16 output layers of two classes."""
    backbone = TEXT_BACKBONES["ssp_mtl_shared_only"](200, width=100)
    for _ in range(16):
        backbone.add_task()
    n = sum(p.numel() for name, p in backbone.named_parameters() if "bias_hh" not in name)
    assert n + 16 * 202 == 1_410_032


def test_hyper_lstm_without_scaling_is_torchs_lstm():
    hyper = HyperLSTM(3, 4, 2, 3).double()
    lstm = nn.LSTM(3, 4).double()
    with torch.no_grad():
        for scale in hyper.scales:
            scale.weight.zero_()
        order = torch.arange(16).view(4, 4)[[2, 3, 0, 1]].flatten()  # torch's order: i, f, g, o
        lstm.weight_ih_l0.copy_(hyper.from_input.weight[order])
        lstm.weight_hh_l0.copy_(hyper.from_state.weight[order])
        lstm.bias_ih_l0.zero_(), lstm.bias_hh_l0.zero_()
        x, _ = packed([5, 3, 1])
        torch.testing.assert_close(hyper(x), lstm(x)[0].data)


@torch.no_grad()
def test_hyper_lstm_is_its_equations():
    """The equations of Ha et al., word by word: a smaller LSTM scales the sums."""
    torch.manual_seed(0)
    net, (x, (text,)) = HyperLSTM(3, 4, 2, 3).double(), packed([5])
    hidden, cell, meta_hidden, meta_cell = (torch.zeros(n).double() for n in (4, 4, 2, 2))

    def lstm_of(sums, cell):
        g, o, i, f = sums.chunk(4)
        cell = g.tanh() * i.sigmoid() + cell * f.sigmoid()
        return o.sigmoid() * cell.tanh(), cell

    for word, found in zip(text, net(x), strict=True):
        sums = net.meta_from_input(word) + net.meta_from_state(torch.cat([meta_hidden, hidden]))
        meta_hidden, meta_cell = lstm_of(sums, meta_cell)
        d_x, d_h, b = (f(z) for f, z in zip(net.scales, net.says(meta_hidden).chunk(3)))
        hidden, cell = lstm_of(d_x * net.from_input(word) + d_h * net.from_state(hidden) + b, cell)
        torch.testing.assert_close(found, hidden)
    begun = [float(scale.bias.mean()) for scale in net.scales]
    assert begun == [1.0, 1.0, 0.0]  # without scaling, a plain LSTM's


@torch.no_grad()
def test_the_penalty_of_the_adversary():
    """The penalty: telling the tasks apart, and shared features orthogonal to private ones."""
    torch.manual_seed(0)
    backbone = of_two_tasks("asp_mtl", adversarial=0.3, orthogonal=0.7).train()
    _, texts, penalty = backbone(packed([4, 2, 1])[0], 1)
    shared, private = texts.chunk(2, 1)
    adversarial = -backbone.discriminator(shared)[:, :2].log_softmax(1)[:, 1].mean()
    orthogonal = sum((shared[:, i] * private[:, j]).mean() ** 2 for i in range(4) for j in range(4))
    torch.testing.assert_close(penalty, 0.3 * adversarial + 0.7 * orthogonal)


def test_adversary_pushes_shared_features_away_from_the_task():
    torch.manual_seed(0)
    backbone = of_two_tasks("asp_mtl", orthogonal=0.0).train()
    x, _ = packed([4, 2])
    backbone(x, 0)[2].backward()
    guess = {
        n: p.grad.clone()
        for n, p in backbone.named_parameters()
        if p.grad is not None and p.grad.any()
    }
    assert {n.split(".")[0] for n in guess} == {"shared", "discriminator"}
    step = 0.05
    with torch.no_grad():
        before = backbone(x, 0)[2]
        for n, p in backbone.shared.named_parameters():
            p -= step * guess[f"shared.{n}"]
        worse = backbone(x, 0)[2]  # the discriminator is misled
    assert worse > before


# The learner


def learner_of(task, backbone="meta_lstm", dropout=0.0):
    torch.manual_seed(0)
    head = "crf" if task == "text_tagging" else "softmax"
    return TextLearner(
        *(backbone, head),
        task=task,
        words=list("abcdefgh"),
        tasks={"one": ["x", "y", "z"], "two": ["p", "q"]},
        n_inputs=3,
        dropout=dropout,
        backbone_config={"width": 4},
    )


@pytest.mark.parametrize("task", ["text_classification", "text_tagging"])
@pytest.mark.parametrize("backbone", TEXT_BACKBONES)
def test_padding_changes_nothing(task, backbone):
    learner = learner_of(task, backbone).double().eval()
    lengths = torch.tensor([2, 5, 1, 5])
    words = torch.randint(0, 9, (4, 5), generator=torch.Generator().manual_seed(0))
    other = torch.where(torch.arange(9) < lengths[:, None], words.new_zeros(4, 9), 7)
    other[:, :5] = torch.where(torch.arange(5) < lengths[:, None], words, 8)
    with torch.no_grad():
        first, second = learner(words, lengths, 1), learner(other, lengths, 1)
        torch.testing.assert_close(first.scores, second.scores)
        for i, n in enumerate(lengths.tolist()):
            alone = learner(words[i : i + 1, :n], lengths[i : i + 1], 1).scores[0]
            scores = first.scores[i] if task == "text_classification" else first.scores[i, :n]
            torch.testing.assert_close(scores, alone)


def test_taggers_read_both_ways():
    learner = learner_of("text_tagging").eval()
    words, lengths = torch.tensor([[1, 2, 3, 4]]), torch.tensor([4])
    with torch.no_grad():
        first = learner(words, lengths, 0).scores
        for changed in (0, 3):
            other = words.clone()
            other[0, changed] = 5
            assert not torch.isclose(learner(other, lengths, 0).scores, first).all(-1).any()


@pytest.mark.parametrize("task", ["text_classification", "text_tagging"])
@pytest.mark.parametrize("share", [0.0, 0.7])
def test_training_drops_a_share_of_word_vectors_and_of_what_heads_read(task, share):
    learner = learner_of(task, "lstm", dropout=share)
    read = {}
    learner.backbones[0].register_forward_pre_hook(lambda _, args: read.update(words=args[0].data))
    learner.heads[0].register_forward_pre_hook(lambda _, args: read.update(outputs=args[0]))
    words = torch.randint(1, 9, (400, 5), generator=torch.Generator().manual_seed(0))
    for training in (True, False):
        learner.train(training)(words, torch.full((400,), 5), 0)
        for part in read.values():
            assert abs(float((part == 0).float().mean()) - share * training) < 0.05


@pytest.mark.parametrize("backbone", TEXT_BACKBONES)
def test_what_is_said_of_a_word_is_what_comes_before_and_after_it(backbone):
    learner = learner_of("text_tagging", backbone).double()  # in training mode: with penalties
    words, lengths = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [2, 0, 0, 0, 0]]), [3, 5, 1]
    outputs, texts, order, penalty = learner.read(words, torch.tensor(lengths), 1)
    outputs = pad_packed_sequence(outputs, batch_first=True)[0][order]
    vectors = [learner.embedding(text[:n]) for text, n in zip(words, lengths)]
    expected = []
    for reader, axes in zip(learner.backbones, ([], [0])):
        x = pack_sequence([text.flip(axes) for text in vectors], enforce_sorted=False)
        said, of_texts, of_reader = reader(PackedSequence(x.data, x.batch_sizes), 1)
        said = pad_packed_sequence(x._replace(data=said), batch_first=True)[0]
        said = [text[:n].flip(axes) for text, n in zip(said, lengths)]
        expected.append((said, of_texts[x.unsorted_indices], of_reader))
    ahead, back = expected
    for of_text, *halves, n in zip(outputs, ahead[0], back[0], lengths):
        torch.testing.assert_close(of_text[:n], torch.cat(halves, 1))
    torch.testing.assert_close(texts, torch.cat([ahead[1], back[1]], 1))
    torch.testing.assert_close(penalty, ahead[2] + back[2])


@pytest.mark.parametrize("task", ["text_classification", "text_tagging"])
def test_a_config_builds_the_learner_again(task):
    learner = learner_of(task)
    again = build_learner(learner.config)
    again.load_state_dict(learner.state_dict())
    words, lengths = torch.tensor([[1, 2, 0], [3, 0, 0]]), torch.tensor([3, 1])
    told = [model.eval()(words, lengths, 0).scores for model in (learner, again)]
    assert torch.equal(*told)


def test_bad_learners():
    with pytest.raises(ValueError, match="meta_lstm.*'crf'"):
        TextLearner(head="crf")
    with pytest.raises(ValueError, match="'last', 'max'.*'mean'"):
        TextLearner(backbone_config={"pooling": "mean"})
    learner = learner_of("text_classification")
    with pytest.raises(ValueError, match="is a task 'one' already"):
        learner.add_task("one", [0, 1])


@pytest.mark.parametrize(
    ("labels", "message"), [([0, 1], "handles at most 1 tasks"), ([], "has no labels")]
)
def test_a_task_that_is_refused_leaves_nothing_behind(labels, message):
    learner = TextLearner("asp_mtl", backbone_config={"width": 4, "most_tasks": 1})
    if labels:
        learner.add_task("one", [0, 1])
    n = len(learner.tasks)
    with pytest.raises(ValueError, match=message):
        learner.add_task("two", labels)
    assert len(learner.tasks) == len(learner.heads) == len(learner.backbones[0].private) == n
    build_learner(learner.config)  # as saved weights do


@pytest.mark.parametrize("task", ["text_classification", "text_tagging"])
def test_the_loss_is_told_the_penalty_of_the_backbone(task):
    learner = learner_of(task, "asp_mtl").train()
    words, lengths = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1])
    penalty = learner(words, lengths, 1).penalty
    torch.testing.assert_close(penalty, learner.read(words, lengths, 1)[3])
    assert penalty > 0
