"""Properties of the linear-chain conditional random field (paper 004)."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from sklearn_meta.heads.crf import LinearChainCRF
from sklearn_meta.heads.text import CRFLayer, SoftmaxLayer

# Ignore warnings that older versions of Hypothesis raise about themselves.
pytestmark = pytest.mark.filterwarnings("error", "ignore::hypothesis.errors.HypothesisWarning")
METHODS = ("log_partition", "marginals", "decode")
seeds = st.integers(0, 9999)


@st.composite
def problems(draw, least=0, max_words=5, max_tags=4, scale=None):
    """Draw a field, scores, tags and mask in double precision; integers give ties."""
    C = draw(st.integers(1, max_tags))
    lengths = draw(st.lists(st.integers(least, max_words), min_size=1, max_size=4))
    whole = draw(st.booleans())
    scale = scale or draw(st.sampled_from([0.5, 3.0]))
    field, scores, tags, mask = problem(C, lengths, draw(seeds), scale)
    if whole:
        scores = scores.round()
        for parameter in field.parameters():
            parameter.data.round_()
    return field, scores, tags, mask


def problem(C, lengths, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    field = LinearChainCRF(C).double()
    for parameter in field.parameters():
        parameter.data.normal_(generator=generator).mul_(scale)
    B, T = len(lengths), max(*lengths, 1)
    scores = scale * torch.randn(B, T, C, generator=generator, dtype=torch.float64)
    tags = torch.randint(C, (B, T), generator=generator)
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    return field, scores, tags, mask


def taggings(field, scores):
    """Return the score of every tagging of a sentence (T, C), in lexicographic order."""
    start, end = field.start.tolist(), field.end.tolist()
    transitions, scores = field.transitions.tolist(), scores.tolist()
    found = {}
    for tags in itertools.product(range(len(start)), repeat=len(scores)):
        pairs = sum(transitions[i][j] for i, j in itertools.pairwise(tags))
        words = sum(row[tag] for row, tag in zip(scores, tags))
        found[tags] = start[tags[0]] + words + pairs + end[tags[-1]] if tags else 0.0
    return found


def probabilities(found, total, T, C):
    """Return the probability of each tag of each word, (T, C), summed over taggings."""
    sums = [[0.0] * C for _ in range(T)]
    for tagging, score in found.items():
        for t, tag in enumerate(tagging):
            sums[t][tag] += math.exp(score - total)
    return torch.tensor(sums, dtype=torch.float64).reshape(T, C)


def close(got, expected, tolerance=1e-10):
    torch.testing.assert_close(
        got, torch.as_tensor(expected, dtype=got.dtype), rtol=tolerance, atol=tolerance
    )


# All taggings, one by one


@given(problems())
def test_against_every_tagging(drawn):
    field, scores, tags, mask = drawn
    with torch.no_grad():
        partition = field.log_partition(scores, mask)
        likelihood = field.log_likelihood(scores, tags, mask)
        marginals = field.marginals(scores, mask)
    decoded = field.decode(scores, mask)
    assert partition.shape == likelihood.shape == (len(scores),)
    assert marginals.shape == scores.shape and decoded.shape == mask.shape
    assert decoded.dtype == torch.int64 and not partition.requires_grad
    for b, T in enumerate(mask.sum(1).tolist()):
        found = taggings(field, scores[b, :T])
        total = torch.tensor(list(found.values()), dtype=torch.float64).logsumexp(0).item()
        close(partition[b], total)
        close(likelihood[b], found[tuple(tags[b, :T].tolist())] - total)
        close(marginals[b, :T], probabilities(found, total, T, field.n_tags))
        assert not marginals[b, T:].any()
        best = tuple(decoded[b, :T].tolist())
        assert found[best] >= max(found.values()) - 1e-9
        assert (decoded[b, T:] == -1).all()


@settings(max_examples=60)
@given(st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=3), seeds)
def test_of_equal_taggings_the_first(C, lengths, seed):
    field, scores, _, mask = problem(C, lengths, seed, 0.6)
    scores = scores.round()  # sums of small integers are exact, and ties are common
    for parameter in field.parameters():
        parameter.data.round_()
    decoded = field.decode(scores, mask)
    for b, T in enumerate(lengths):
        found = taggings(field, scores[b, :T])
        assert tuple(decoded[b, :T].tolist()) == max(found, key=found.get)  # the first of equals


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_all_equal_gives_the_lowest_tags(dtype):
    decoded = LinearChainCRF(40).decode(torch.zeros(2, 70, 40, dtype=dtype), torch.ones(2, 70) > 0)
    assert (decoded == 0).all()


@given(problems(least=1))
def test_likelihoods_of_all_taggings_sum_to_one(drawn):
    field, scores, _, mask = drawn
    T = int(mask[0].sum())
    every = torch.tensor(list(itertools.product(range(field.n_tags), repeat=T)))
    likelihood = field.log_likelihood(
        scores[:1, :T].expand(len(every), -1, -1), every, torch.ones_like(every).bool()
    )
    close(likelihood.exp().sum(), 1)
    assert (likelihood <= 1e-9).all()


# Batches and padding


@given(problems(), st.integers(0, 3))
def test_padding_and_company_change_nothing(drawn, more):
    field, scores, tags, mask = drawn
    B, T, C = scores.shape
    filth = torch.tensor([math.nan, math.inf, -math.inf, 1e300], dtype=torch.float64)
    padded = filth[
        torch.randint(4, (B, T + more, C), generator=torch.Generator().manual_seed(more))
    ]
    padded_tags = torch.full((B, T + more), -100)
    padded_tags[:, ::2] = 10**6
    padded_mask = torch.zeros(B, T + more, dtype=torch.bool)
    padded_mask[:, :T] = mask
    padded[padded_mask], padded_tags[padded_mask] = scores[mask], tags[mask]
    padded.requires_grad_()
    together = {name: getattr(field, name)(padded, padded_mask) for name in METHODS}
    likelihood = field.log_likelihood(padded, padded_tags, padded_mask)
    (gradient,) = torch.autograd.grad(likelihood.sum(), padded)
    assert (gradient[~padded_mask] == 0).all()
    for b, length in enumerate(mask.sum(1).tolist()):
        n = max(length, 1)
        alone = scores[b : b + 1, :n].clone().requires_grad_()
        here = mask[b : b + 1, :n]
        for name in METHODS:
            expected = getattr(field, name)(alone, here)[0]
            got = together[name][b]
            close(got[:n] if got.ndim else got, expected, 1e-12)
        expected = field.log_likelihood(alone, tags[b : b + 1, :n], here)
        close(likelihood[b], expected[0], 1e-12)
        close(gradient[b : b + 1, :n], torch.autograd.grad(expected.sum(), alone)[0], 1e-12)
    assert (together["marginals"][~padded_mask] == 0).all()
    assert (together["decode"][~padded_mask] == -1).all()


def test_a_sentence_without_words_has_one_tagging():
    field, scores, tags, mask = problem(3, [0, 2, 0], 0)
    assert field.log_partition(scores, mask)[::2].tolist() == [0, 0]
    likelihood = field.log_likelihood(scores, tags, mask)
    assert likelihood[::2].tolist() == [0, 0] and likelihood[1] < 0
    gradients = torch.autograd.grad(likelihood[::2].sum(), list(field.parameters()))
    assert not any(g.any() for g in gradients)
    assert (field.decode(scores, mask)[::2] == -1).all()


def test_no_sentences():
    field = LinearChainCRF(3)
    scores, mask = torch.zeros(0, 4, 3), torch.zeros(0, 4, dtype=torch.bool)
    assert field.log_partition(scores, mask).shape == (0,)
    assert field.log_likelihood(scores, mask.long(), mask).shape == (0,)
    assert field.marginals(scores, mask).shape == (0, 4, 3)
    assert field.decode(scores, mask).shape == (0, 4)


# Special cases


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), seeds)
def test_of_one_tag_all_is_certain(lengths, seed):
    field, scores, tags, mask = problem(1, lengths, seed)
    close(field.log_likelihood(scores, tags, mask), [0.0] * len(lengths))
    close(field.marginals(scores, mask), mask[..., None].double())
    assert torch.equal(field.decode(scores, mask), mask.long() - 1)


@given(st.integers(1, 6), seeds)
def test_of_one_word_a_softmax(C, seed):
    field, scores, tags, mask = problem(C, [1, 1, 1], seed)
    logits = scores[:, 0] + field.start + field.end
    close(field.log_partition(scores, mask), logits.logsumexp(1))
    close(field.marginals(scores, mask)[:, 0], logits.softmax(1))
    close(field.log_likelihood(scores, tags, mask), logits.log_softmax(1).gather(1, tags)[:, 0])
    assert torch.equal(field.decode(scores, mask), logits.argmax(1, keepdim=True))


def test_a_new_field_takes_words_as_independent():
    _, scores, tags, mask = problem(4, [5, 3], 1)
    field = LinearChainCRF(4)
    assert {n: tuple(p.shape) for n, p in field.named_parameters()} == {
        "transitions": (4, 4),
        "start": (4,),
        "end": (4,),
    }
    expected = scores.log_softmax(2).gather(2, tags[..., None])[..., 0].masked_fill(~mask, 0)
    close(field.log_likelihood(scores, tags, mask), expected.sum(1))


# Gradients


@settings(max_examples=5)
@given(problems(max_words=4, max_tags=3))
def test_gradients(drawn):
    field, scores, tags, mask = drawn
    names, parameters = zip(*field.named_parameters())
    call = Call(field)

    def of(scores, *parameters):
        named = {f"field.{name}": p for name, p in zip(names, parameters)}
        return functional_call(call, named, (scores, tags, mask))

    inputs = [x.detach().clone().requires_grad_() for x in (scores, *parameters)]
    assert torch.autograd.gradcheck(of, inputs)


class Call(torch.nn.Module):
    """Wraps all results that have gradients in a module, for ``functional_call``."""

    def __init__(self, field):
        super().__init__()
        self.field = field

    def forward(self, scores, tags, mask):
        likelihood = self.field.log_likelihood(scores, tags, mask)
        return (
            likelihood,
            self.field.log_partition(scores, mask),
            self.field.marginals(scores, mask),
        )


@given(problems())
def test_marginals_are_the_gradient_of_the_partition(drawn):
    field, scores, _, mask = drawn
    scores.requires_grad_()
    (gradient,) = torch.autograd.grad(field.log_partition(scores, mask).sum(), scores)
    with torch.inference_mode():
        close(field.marginals(scores, mask), gradient)
    with torch.inference_mode():
        close(field.marginals(scores * 1, mask), gradient)  # an inference tensor
    with torch.no_grad():
        close(field.marginals(scores, mask), gradient)
    assert not field.decode(scores, mask).requires_grad


# Numbers


@settings(max_examples=30)
@given(problems(least=1, scale=1e4), st.sampled_from([0.0, 1e4, -1e4]))
def test_extreme_scores_in_single_precision(drawn, offset):
    field, scores, tags, mask = drawn
    scores = (scores + offset).clamp(-1e4, 1e4)
    for parameter in field.parameters():
        parameter.data.clamp_(-5, 5)
    field, scores = field.float(), scores.float().requires_grad_()
    partition = field.log_partition(scores, mask)
    likelihood = field.log_likelihood(scores, tags, mask)
    marginals = field.marginals(scores, mask)
    decoded = field.decode(scores, mask)
    assert {x.dtype for x in (partition, likelihood, marginals)} == {torch.float32}
    for x in (partition.sum(), likelihood.sum(), marginals.square().sum()):
        gradients = torch.autograd.grad(x, [scores, *field.parameters()], materialize_grads=True)
        assert all(g.isfinite().all() for g in gradients)
    close(marginals.sum(2), mask.float(), 1e-5)
    for b, T in enumerate(mask.sum(1).tolist()):
        found = taggings(field, scores[b, :T])
        total = torch.tensor(list(found.values()), dtype=torch.float64).logsumexp(0).item()
        largest = scores[b, :T].abs().sum().item()  # terms that add up, and may cancel
        torch.testing.assert_close(partition[b].item(), total, rtol=1e-6, atol=1e-7 * largest)
        close(likelihood[b], found[tuple(tags[b, :T].tolist())] - total, 1e-2)
        assert found[tuple(decoded[b, :T].tolist())] >= max(found.values()) - 1e-2


@pytest.mark.parametrize("level", [0.0, 1e4, -1e4])
def test_small_differences_at_a_high_level(level):
    field, scores, tags, mask = problem(4, [300, 200], 2)
    scores = (scores * 64).round() / 64  # exact in single precision, whatever the level
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.copy_((parameter * 64).round() / 64 + 100)  # shift parameters, too
        expected = field.log_likelihood(scores, tags, mask), field.marginals(scores, mask)
        decoded = field.decode(scores, mask)
        field, scores = field.float(), (scores + level).float()
        # Single precision holds 1e-7 of 100, the level of a word, but not of 30,000, that of 300.
        close(field.marginals(scores, mask), expected[1].float(), 1e-4)
        close(field.log_likelihood(scores, tags, mask), expected[0].float(), 1e-4)
    assert torch.equal(field.decode(scores, mask), decoded)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_promoted(dtype):
    field, scores, tags, mask = problem(3, [4, 2], 3)
    half, scores = field.to(dtype), scores.to(dtype)
    got = [half.log_likelihood(scores, tags, mask), half.marginals(scores, mask)]
    got += [half.log_partition(scores, mask), half.decode(scores, mask)]
    whole, scores = half.float(), scores.float()
    expected = [whole.log_likelihood(scores, tags, mask), whole.marginals(scores, mask)]
    expected += [whole.log_partition(scores, mask), whole.decode(scores, mask)]
    assert [x.dtype for x in got] == [torch.float32] * 3 + [torch.int64]
    assert all(torch.equal(a, b) for a, b in zip(got, expected))


def test_double_precision_where_either_is_double():
    field, scores, _, mask = problem(3, [4, 2], 3)
    assert field.log_partition(scores.float(), mask).dtype == torch.float64
    assert field.float().log_partition(scores, mask).dtype == torch.float64


def test_what_is_forbidden():
    field, scores, tags, mask = problem(3, [4, 2, 1], 4)
    with torch.no_grad():
        field.transitions[0, 2] = field.start[2] = field.end[1] = -math.inf
        field.transitions[2, :] = -math.inf  # a tag for last words only
    scores[0, 1, 0] = -math.inf
    scores[0, 2, 1] = -math.inf
    scores.requires_grad_()
    partition, marginals = field.log_partition(scores, mask), field.marginals(scores, mask)
    decoded = field.decode(scores, mask)
    tags = decoded.clone()
    tags[0, 1] = 0
    likelihood = field.log_likelihood(scores, tags, mask)
    assert likelihood[0] == -math.inf and likelihood[1:].isfinite().all()
    for b, T in enumerate(mask.sum(1).tolist()):
        found = taggings(field, scores[b, :T].detach())
        values = torch.tensor(list(found.values()), dtype=torch.float64)
        assert values.isinf().any()
        close(partition[b].detach(), values.logsumexp(0))
        assert tuple(decoded[b, :T].tolist()) == max(found, key=found.get)
        close(marginals[b, :T].detach(), probabilities(found, partition[b].item(), T, 3))
    for x in (partition.sum(), marginals.square().sum(), likelihood[1:].sum()):
        gradients = torch.autograd.grad(x, [scores, *field.parameters()], retain_graph=True)
        assert all(g.isfinite().all() for g in gradients)


def test_the_loop_is_over_words_only():
    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    def calls(B, T, C):
        field, scores, tags, mask = problem(C, [T] * B, 0)
        with Count() as count:
            field.log_likelihood(scores, tags, mask)
            field.marginals(scores, mask)
            field.decode(scores, mask)
        return count.calls

    assert calls(9, 6, 7) == calls(1, 6, 1)
    assert calls(1, 9, 1) - calls(1, 8, 1) == calls(1, 8, 1) - calls(1, 7, 1) > 0


# Refusals


def call_all(field, scores, tags, mask):
    for name in METHODS:
        with pytest.raises(ValueError):
            getattr(field, name)(scores, mask)
    with pytest.raises(ValueError):
        field.log_likelihood(scores, tags, mask)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda scores, mask: (scores[0], mask),
        lambda scores, mask: (scores[..., :2], mask),
        lambda scores, mask: (scores[:, :0], mask[:, :0]),
        lambda scores, mask: (scores.long(), mask),
        lambda scores, mask: (scores, mask[:, :2]),
        lambda scores, mask: (scores, mask[:1]),
        lambda scores, mask: (scores, mask[0]),
        lambda scores, mask: (scores, mask.long()),
        lambda scores, mask: (scores, mask.flip(1)),
        lambda scores, mask: (scores, torch.tensor([[True, False, True], [True, True, True]])),
    ],
)
def test_bad_scores_and_masks_are_refused(spoil):
    field, scores, tags, mask = problem(3, [3, 2], 0)
    field.log_likelihood(scores, tags, mask)
    scores, mask = spoil(scores, mask)
    call_all(field, scores, torch.zeros_like(mask, dtype=torch.int64), mask)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda tags: tags[:, :2], "shape"),
        (lambda tags: tags[0], "shape"),
        (lambda tags: tags.double(), "integers"),
        (lambda tags: tags > 0, "integers"),
        (lambda tags: tags.fill_(-100), "0 to 2"),
        (
            lambda tags: tags.index_put((torch.tensor(1), torch.tensor(1)), torch.tensor(3)),
            "0 to 2",
        ),
    ],
)
def test_bad_tags_are_refused(spoil, words):
    field, scores, tags, mask = problem(3, [3, 2], 0)
    with pytest.raises(ValueError, match=words):
        field.log_likelihood(scores, spoil(tags), mask)


def test_a_field_has_tags():
    with pytest.raises(ValueError, match="n_tags"):
        LinearChainCRF(0)


@given(problems(least=1))
def test_a_taggers_score_is_the_share_of_words_that_are_right(drawn):
    """Padding does not count, neither as right nor as a word."""
    field, scores, tags, mask = drawn
    told = SimpleNamespace(head=SimpleNamespace(crf=field), scores=scores, mask=mask)
    found = CRFLayer.score(told, tags)
    right = field.decode(scores, mask) == tags
    for i, n in enumerate(mask.sum(1)):
        torch.testing.assert_close(found[i], right[i, :n].float().mean())


def test_losses_of_texts_are_of_the_mean_text_and_a_penalty_of_the_backbone():
    field, scores, tags, mask = problem(3, [4, 1, 2], seed=0)
    told = SimpleNamespace(scores=scores, head=SimpleNamespace(crf=field), mask=mask, penalty=0.7)
    expected = 0.7 - field.log_likelihood(scores, tags, mask).mean()
    torch.testing.assert_close(CRFLayer.loss(told, tags), expected)
    told.scores = scores[:, 0].float()
    expected = 0.7 - told.scores.log_softmax(1)[range(3), tags[:, 0]].mean()
    torch.testing.assert_close(SoftmaxLayer.loss(told, tags[:, 0]), expected)
