"""Sequences of rows and labels: running units, rotations, words, curricula."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta.heads import GaussianTargets, LabelAttention, OneHotLabels, StringLabels
from sklearn_meta.tasks import (
    ClassSequences,
    Curriculum,
    Dataset,
    EpisodeSampler,
    GaussianProcessPrior,
    MixtureSampler,
    ProjectedColumns,
    RegressionSampler,
    TableEpisodes,
    TablePrior,
    Tables,
    TargetSequences,
    Vectors,
    as_dataset,
    batches,
    draw_words,
)
from sklearn_meta.tasks.running import (
    BOUND,
    Moments,
    last,
    projection,
    running_moments,
    standardise,
)
from sklearn_meta.tasks.sequences import N_UNASKED
from sklearn_meta.tasks.sources import suited


def table(n_classes=4, n_rows=60, n_columns=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_columns)) + y[:, None]
    return as_dataset(X, y, metadata={"task": "classification"})


@st.composite
def streams(draw):
    shape = draw(st.tuples(st.integers(2, 20), st.integers(1, 4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape[1]) + rng.integers(-9, 9)
    X[rng.random(shape) < draw(st.sampled_from([0, 0.3]))] = np.nan
    return X


@given(streams(), st.data())
def test_a_stream_in_pieces_has_the_very_same_units(X, data):
    cut = data.draw(st.integers(1, len(X) - 1))
    start = Moments.empty(X.shape[1])
    whole = running_moments(X, start)
    first = running_moments(X[:cut], start)
    second = running_moments(X[cut:], last(first))
    pieces = [standardise(X[:cut], first), standardise(X[cut:], second)]
    np.testing.assert_array_equal(np.concatenate(pieces), standardise(X, whole))
    for a, b in zip(last(whole), last(second), strict=True):
        np.testing.assert_array_equal(a, b)


@given(streams())
def test_running_units_are_those_of_the_rows_so_far(X):
    moments = running_moments(X, Moments.empty(X.shape[1]))
    for t in range(len(X)):
        for j in range(X.shape[1]):
            seen = X[: t + 1, j][~np.isnan(X[: t + 1, j])]
            if len(seen):
                size = np.abs(seen).max()
                np.testing.assert_allclose(moments.mean[t, j], seen.mean(), atol=1e-9 * size)
                np.testing.assert_allclose(moments.scale[t, j], seen.std(), atol=1e-6 * size)


@given(streams(), st.integers(-900, 900))
def test_units_are_no_matter(X, exponent):
    """Scaling by a power of two changes no bit, even if squares overflow float64."""
    empty = Moments.empty(X.shape[1])
    moments, scaled = running_moments(X, empty), running_moments(np.ldexp(X, exponent), empty)
    for part in ("mean", "scale"):
        known = np.ldexp(getattr(moments, part), exponent)
        np.testing.assert_array_equal(getattr(scaled, part), known)
    Z = standardise(np.ldexp(X, exponent), scaled)
    np.testing.assert_array_equal(Z, standardise(X, moments))


def test_standardised_values_are_bounded_and_gaps_are_means():
    X = np.array([[1e9, 5.0, np.nan], [1e9 + 1, 5.0, np.nan], [1e9 + 2, 5.0, 1.0], [1e300, 5, 2.0]])
    Z = standardise(X, running_moments(X, Moments.empty(3)))
    assert np.isfinite(Z).all() and np.abs(Z).max() <= BOUND
    assert not Z[:, 1].any() and not Z[:2, 2].any()
    np.testing.assert_allclose(Z[2, 0], np.sqrt(1.5))  # a large offset does not matter


def test_columns_that_vary_by_rounding_alone_do_not_vary():
    same = np.array([0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2])
    assert len(set(same)) == 2
    X = np.column_stack([same, -1e6 * same, np.arange(4.0)])
    Z = standardise(X, running_moments(X, Moments.empty(3)))
    assert not Z[:, :2].any() and Z[1:, 2].all()


@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 99))
def test_projections_keep_lengths(n_columns, n_outputs, seed):
    P = projection(n_columns, n_outputs, np.random.default_rng(seed))
    assert P.shape == (n_columns, n_outputs)
    gram = P @ P.T if n_columns <= n_outputs else P.T @ P
    expected = max(n_outputs / n_columns, 1)
    np.testing.assert_allclose(gram, expected * np.eye(len(gram)), atol=1e-9)


@given(st.sampled_from([OneHotLabels(n_classes=7), StringLabels(), StringLabels(n_letters=2)]))
def test_words_are_different_and_within_the_alphabet(head):
    words = draw_words(head, 7, np.random.default_rng(0))
    assert words.shape == (7, head.n_letters)
    assert len(np.unique(words, axis=0)) == 7
    assert words.min() >= 0 and words.max() < head.n_symbols
    every = draw_words(head, head.n_words, np.random.default_rng(1))
    assert len(np.unique(every, axis=0)) == head.n_words
    few = draw_words(head, 4, np.random.default_rng(2), n_words=4)
    assert sorted(few[:, 0]) == [0, 1, 2, 3] and (few == few[:, :1]).all()


@pytest.mark.parametrize("amplitude", [1e-5, 1.0, 1e4])
def test_functions_of_any_amplitude_are_smooth(amplitude):
    prior = GaussianProcessPrior(n_rows=200, amplitude=amplitude, noise=0.0)
    dataset = prior.draw(np.random.default_rng(0))
    order = dataset.X[:, 0].argsort()
    steps = np.abs(np.diff(dataset.y[order])) / amplitude
    assert steps.max() < 0.5 and dataset.y.std() > 0.1 * amplitude


@pytest.mark.parametrize(("n_letters", "n_symbols"), [(5, 26), (10, 10), (62, 2)])
def test_words_of_a_large_alphabet_are_drawn_one_by_one(n_letters, n_symbols):
    """All words would not fit into memory; the first n do not depend on how many are drawn."""
    head = StringLabels(n_letters=n_letters, n_symbols=n_symbols)
    words = draw_words(head, 500, np.random.default_rng(0))
    assert len(np.unique(words, axis=0)) == 500
    assert words.min() == 0 and words.max() == n_symbols - 1
    np.testing.assert_array_equal(draw_words(head, 20, np.random.default_rng(0)), words[:20])


@pytest.mark.parametrize("seed", range(3))
def test_different_words_are_different_however_they_are_drawn(seed, monkeypatch):
    monkeypatch.setattr("sklearn_meta.tasks.sequences.MOST_SHUFFLED", 0)
    every = draw_words(StringLabels(n_letters=3), 125, np.random.default_rng(seed))
    assert len(np.unique(every, axis=0)) == 125


def test_an_alphabet_that_cannot_be_numbered_is_refused():
    with pytest.raises(ValueError, match="too many strings of .* to number them"):
        StringLabels(n_letters=30, n_symbols=5)


@given(st.integers(0, 99), st.integers(2, 6), st.integers(1, 12))
def test_sequences_of_classes(seed, n_classes, n_instances):
    head = OneHotLabels(n_classes=6)
    sampler = ClassSequences(
        head, ProjectedColumns(8), n_classes=(n_classes, n_classes), n_instances=(n_instances,)
    )
    sequence = sampler.draw(table(n_classes=6), np.random.default_rng(seed))
    assert sequence.x.shape == (min(n_classes * n_instances, 10 * n_classes), 8)
    assert sequence.x.dtype == np.float32 and sequence.shown is sequence.asked
    assert len(np.unique(sequence.shown)) <= n_classes


def test_labels_are_shuffled_from_episode_to_episode():
    """Each class has each label equally often, so that only memory helps."""
    head = OneHotLabels(n_classes=3)
    dataset = as_dataset(np.eye(3)[np.arange(60) % 3], np.arange(60) % 3)
    sampler = ClassSequences(head, Vectors(3), n_classes=(3, 3), n_instances=(2,))
    rng, counts = np.random.default_rng(0), np.zeros((3, 3))
    for _ in range(600):
        sequence = sampler.draw(dataset, rng)
        counts[sequence.x.argmax(1)[0], sequence.shown[0, 0]] += 1
    shares = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.12)  # four standard errors


def test_lengths_of_sequences():
    rng = np.random.default_rng(0)
    few = ClassSequences(OneHotLabels(), Vectors(3), n_instances=(10,), max_rows=7)
    assert {len(few.draw(table(), rng).x) for _ in range(20)} == {7}
    sampler = TargetSequences(Vectors(3), n_rows=(10, 40))  # half are up to 20
    lengths = [len(sampler.draw(table(), rng).x) for _ in range(400)]
    assert min(lengths) == 10 and max(lengths) == 40
    assert abs(np.mean(np.array(lengths) <= 20) - 0.5) < 0.1


def test_rows_of_a_class_share_a_word():
    head = StringLabels()
    dataset = as_dataset(np.eye(4)[np.arange(40) % 4], np.arange(40) % 4)
    sampler = ClassSequences(head, Vectors(4), n_classes=(4, 4), n_instances=(10,))
    sequence = sampler.draw(dataset, np.random.default_rng(0))
    seen = {(tuple(x), tuple(word)) for x, word in zip(sequence.x, sequence.shown)}
    assert len(seen) == 4


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_tasks_is_of_some_of_the_columns(share):
    """The rank of a task's rows tells how many columns it has."""
    X = np.random.default_rng(0).normal(size=(60, 6))
    vectors = ProjectedColumns(16, column_subset=share)
    episodes = TableEpisodes(16, n_queries=20, n_known=(10,), column_subset=share)
    dataset = as_dataset(X, np.arange(60) % 4)
    rngs = list(map(np.random.default_rng, range(99)))
    drawn = [episodes.draw(dataset, rng) for rng in rngs]
    for tables in (
        [vectors(X, None, rng) for rng in rngs],
        [np.vstack([episode.support, episode.query]) for episode in drawn],
    ):
        ranks = [int(np.linalg.matrix_rank(rows, 1e-4)) for rows in tables]
        assert set(ranks) == ({6} if share == 0 else {2, 3, 4, 5, 6})
        assert abs(np.mean(np.array(ranks) < 6) - 0.8 * share) < 0.15  # 2 to 6, equally often


def test_vectors_of_another_length_are_refused():
    with pytest.raises(ValueError, match="Rows have 3 values, but the backbone expects 4"):
        Vectors(4)(np.zeros((2, 3)), None, None)


@given(st.integers(0, 99))
def test_targets_are_asked_for_in_the_units_of_those_before(seed):
    dataset = GaussianProcessPrior(n_rows=30).draw(np.random.default_rng(seed))
    dataset = dataset._replace(y=50 * dataset.y + 7)
    sampler = TargetSequences(Vectors(1), n_rows=(10, 30))
    sequence = sampler.draw(dataset, np.random.default_rng(seed))
    # Points tell which rows these are.
    rows = [int(np.flatnonzero(dataset.X[:, 0] == x)[0]) for x in sequence.x[:, 0]]
    y = dataset.y[rows].astype(float)
    assert np.isnan(sequence.asked[:N_UNASKED]).all()
    for t in range(N_UNASKED, len(y)):
        z = (y[t] - y[:t].mean()) / y[:t].std()
        shown = (y[t] - y[: t + 1].mean()) / y[: t + 1].std()
        assert np.isclose(abs(sequence.asked[t, 0]), min(abs(z), 6), rtol=1e-3, atol=1e-3)
        assert np.isclose(abs(sequence.shown[t, 0]), min(abs(shown), 5), rtol=1e-3, atol=1e-3)
        assert z * sequence.asked[t, 0] * shown * sequence.shown[t, 0] >= 0  # one sign for all


def test_nothing_is_asked_for_where_the_targets_before_did_not_vary():
    """Equal targets have no unit in which to measure an error."""
    x = np.float32(np.arange(30)[:, None])
    sampler = TargetSequences(Vectors(1), n_rows=(30, 30))
    y = np.float32(x[:, 0] == 7)
    for seed in range(10):
        sequence = sampler.draw(Dataset("one other", x, y), np.random.default_rng(seed))
        other = int(np.flatnonzero(sequence.x[:, 0] == 7)[0])
        told = ~np.isnan(sequence.asked[:, 0])
        assert not told[: other + 1].any() and told[max(other + 1, N_UNASKED) :].all()


def test_of_several_targets_one_is_drawn():
    x = np.float32(np.arange(30)[:, None])
    dataset = Dataset("two", x, np.float32(np.hstack([x, 1000 + x**2])))
    sampler = TargetSequences(Vectors(1), n_rows=(30, 30), standardised=False)
    drawn = [sampler.draw(dataset, np.random.default_rng(seed)).shown for seed in range(20)]
    assert {one.shape for one in drawn} == {(30, 1)}
    assert 0 < sum(one.max() > 1000 for one in drawn) < 20


def test_targets_are_negated_in_half_of_the_sequences():
    dataset = GaussianProcessPrior(n_rows=30).draw(np.random.default_rng(0))
    dataset = dataset._replace(y=np.exp(2 * dataset.y))
    sampler, rng = TargetSequences(Vectors(1), n_rows=30), np.random.default_rng(0)
    skewed = [(sampler.draw(dataset, rng).shown[N_UNASKED:] ** 3).mean() > 0 for _ in range(100)]
    assert 35 < sum(skewed) < 65


def test_targets_as_they_are():
    dataset = GaussianProcessPrior(n_rows=30).draw(np.random.default_rng(0))
    sampler = TargetSequences(Vectors(1), n_rows=(30, 30), standardised=False)
    sequence = sampler.draw(dataset, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(sequence.asked[:, 0]), np.sort(dataset.y))


def test_a_target_must_be_asked_for():
    with pytest.raises(ValueError, match="n_rows must be 6 or more, got 5: .* first 5 targets"):
        TargetSequences(Vectors(1), n_rows=5)
    tables = {n: as_dataset(np.arange(n)[:, None], np.arange(n) + 0.5, str(n)) for n in (5, 9)}
    with pytest.warns(UserWarning, match="left out. Dataset '5' has 5 rows: at least 6"):
        assert list(suited(Tables(tables), TargetSequences(Vectors(1)))) == ["9"]


@pytest.mark.parametrize(
    ("head", "target"),
    [
        (GaussianTargets(), torch.full((2, 4, 1), torch.nan)),
        (OneHotLabels(n_classes=2), torch.full((2, 4, 1), -1)),
        (LabelAttention(), torch.full((2, 4), -100)),
    ],
)
def test_loss_and_score_are_zero_where_no_row_is_asked_for(head, target):
    output = torch.randn(2, 4, 2, requires_grad=True)
    loss = head.loss(output, target)
    loss.backward()
    assert loss == 0 and not output.grad.any()
    assert not head.score(output, target).any()


def test_a_gaussian_process_has_its_moments():
    prior = GaussianProcessPrior(n_columns=2, n_rows=8, amplitude=3, noise=0.5)
    rng = np.random.default_rng(0)
    y = np.array([prior.draw(rng).y for _ in range(800)])
    np.testing.assert_allclose(y.std(), np.sqrt(9 + 0.25), rtol=0.05)
    np.testing.assert_allclose(y.mean(), 0, atol=0.2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GaussianProcessPrior(noise=-1.0), "noise must be a positive number"),
        (lambda: GaussianProcessPrior(bounds=(3, -3)), "bounds must be two numbers"),
        (lambda: ProjectedColumns(column_subset=7), "column_subset must be a number from 0 to 1"),
        (lambda: ProjectedColumns(0), "width must be an integer of 1 or more"),
        (lambda: ClassSequences(None, None, n_instances=0), "n_instances must be a whole number"),
        (
            lambda: Curriculum(ClassSequences(None, None), most=1),
            "most must be an integer of 2 or more, got 1",
        ),
        (
            lambda: Curriculum(ClassSequences(None, None), most=7.5),
            "most must be an integer of 2 or more, got 7.5",
        ),
        (
            lambda: Curriculum(ClassSequences(None, None), n_first=-5),
            "n_first must be an integer of 0 or more",
        ),
        (lambda: EpisodeSampler(max_rows=0), "max_rows must be a number of 1 or more"),
        (lambda: RegressionSampler(max_cells="x"), "max_cells must be a number of 1 or more"),
        (lambda: MixtureSampler(("foo",)), "covariance_types must be some of"),
        (lambda: MixtureSampler([["full"]]), "covariance_types must be some of"),
        (lambda: MixtureSampler(()), "covariance_types must be some of"),
        (lambda: MixtureSampler(max_components=0), "max_components must be an integer of 1"),
    ],
)
def test_numbers_out_of_their_range_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_padding_is_at_the_end_and_without_a_label():
    sampler = ClassSequences(OneHotLabels(n_classes=4), ProjectedColumns(5), n_instances=(2, 9))
    rng = np.random.default_rng(0)
    sequences = [sampler.draw(table(), rng) for _ in range(6)]
    inputs, asked = sampler.collate(sequences)
    lengths = [len(s.x) for s in sequences]
    assert inputs["x"].shape == (6, max(lengths), 5)
    assert (asked[..., 0] >= 0).sum(1).tolist() == lengths
    assert sampler.strata(inputs) == [2 ** int(np.log2(n)) for n in lengths]


def test_a_curriculum_grows_with_the_stream_and_can_be_taken_up():
    sampler = ClassSequences(OneHotLabels(n_classes=9), ProjectedColumns(4), n_classes=(2, 2))
    curriculum = Curriculum(sampler, every=8)
    assert [curriculum.at(n).n_classes for n in (0, 7, 8, 24)] == [(2, 2), (2, 2), (2, 3), (2, 5)]
    late = Curriculum(sampler, every=8, n_first=10)
    assert [late.at(n).few_words for n in (0, 9, 10)] == [True, True, False]
    assert [late.at(n).n_classes for n in (9, 17, 18)] == [(2, 2), (2, 2), (2, 3)]
    assert Curriculum(sampler, every=8, most=3).at(80).n_classes == (2, 3)
    source = Tables({"a": table(n_classes=9, n_rows=180)})
    setting = {"batch_size": 4, "seed": 0, "n_pooled": 2, "n_groups": 1}
    stream = batches(source, curriculum, **setting)
    whole = [next(stream) for _ in range(8)]
    taken_up = batches(source, curriculum, start=5, **setting)
    for expected in whole[5:]:
        torch.testing.assert_close(next(taken_up), expected)
    labels = [batch[0][1].amax() for batch in whole]
    assert len({int(label) for label in labels}) > 1
    sizes = [max(len(s[s >= 0].unique()) for s in batch[0][1]) for batch in whole]
    assert max(sizes[:2]) <= 2 < max(sizes)


@given(st.integers(0, 50))
def test_losses_of_words_and_what_they_ask(seed):
    torch.manual_seed(seed)
    head = StringLabels(n_letters=3, n_symbols=4)
    output = torch.randn(2, 5, 12, dtype=torch.float64)
    words = torch.randint(0, 4, (2, 5, 3))
    words[1, 3:] = -1
    total, n = 0.0, 0
    for b in range(2):
        for t in range(5):
            if words[b, t, 0] >= 0:
                n += 1
                for c in range(3):  # (26)
                    total -= output[b, t, 4 * c : 4 * c + 4].log_softmax(0)[words[b, t, c]].item()
    assert np.isclose(head.loss(output, words).item(), total / n, rtol=1e-5)
    every = torch.from_numpy(draw_words(head, 64, np.random.default_rng(0)))
    chances = head.log_probabilities(output[0, 0], every).exp()
    assert np.isclose(chances.sum().item(), 1)
    best = output[0, 0].view(3, 4).argmax(1)
    assert every[chances.argmax()].tolist() == best.tolist()
    right = (output.view(2, 5, 3, 4).argmax(-1) == words).all(-1)
    shares = [right[0].double().mean().item(), right[1, :3].double().mean().item()]
    np.testing.assert_allclose(head.score(output, words).tolist(), shares, atol=1e-6)


def test_no_label_is_a_vector_of_zeros():
    assert not OneHotLabels(n_classes=3).encode(torch.tensor([[-1]])).any()
    assert (
        StringLabels().encode(torch.tensor([[0, 1, 2, 3, 4]])).view(5, 5).equal(torch.eye(5).long())
    )
    nothing = GaussianTargets().encode(torch.tensor([[torch.nan], [2.0]]))
    assert nothing.tolist() == [[0, 0], [2, 1]]


def test_a_density_has_a_bound():
    head, output = GaussianTargets(), torch.tensor([[[0.3, -200.0], [0.3, 0.0]]])
    mean, std = head.moments(output)
    torch.testing.assert_close(mean, torch.full((1, 2), 0.3))
    torch.testing.assert_close(std, torch.tensor([[0.01, 0.01 + np.log(2)]]).float())
    assert head.loss(output, output[..., :1]) > -4


def test_gaussian_loss_leaves_out_what_is_not_asked():
    head = GaussianTargets()
    output = torch.randn(2, 4, 2)
    targets = torch.randn(2, 4, 1)
    targets[0, 2:] = torch.nan
    changed = output.clone()
    changed[0, 2:] += 5
    assert head.loss(output, targets) == head.loss(changed, targets)
    mean, std = head.moments(output)
    known = ~targets[..., 0].isnan()
    log_density = torch.distributions.Normal(mean[known], std[known]).log_prob(targets[known][:, 0])
    torch.testing.assert_close(head.loss(output, targets), -log_density.mean())


def test_tables_of_the_prior_can_be_drawn_from():
    sampler = ClassSequences(OneHotLabels(), ProjectedColumns(16))
    rng = np.random.default_rng(0)
    for _ in range(20):
        sequence = sampler.draw(TablePrior().draw(rng), rng)
        assert np.isfinite(sequence.x).all() and len(sequence.x) >= 2
