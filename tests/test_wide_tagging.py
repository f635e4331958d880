"""The wide part of MetaLSTMTagger: linear-chain CRFs beside the network."""

import copy
import pickle
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from seqeval.metrics import f1_score
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_meta import MetaLSTMTagger, linear_crf, wide_tagging
from sklearn_meta.heads.crf import LinearChainCRF
from sklearn_meta.linear_crf import PENALTY, expectations
from sklearn_meta.tasks import load_tagging
from sklearn_meta.text import tagger as tagger_module
from sklearn_meta.wide_tagging import decoded, features_of, fit_own, fit_shared_tags

TINY = {"embedding_size": 4, "width": 4, "meta_width": 2, "rank": 2, "max_epochs": 1, "min_df": 1}
NAMES = ["Ann", "Ben", "Cleo", "Dan"]
WORDS = ["sees", "a", "the", "often"]
seeds = st.integers(0, 9999)


def sentences(n, seed=0, names=NAMES):
    """Sentences of names and other words; labels are 1 for names, and 0."""
    rng = np.random.default_rng(seed)
    tags = [rng.integers(2, size=rng.integers(1, 7)) for _ in range(n)]
    return [[str(rng.choice(names if tag else WORDS)) for tag in row] for row in tags], tags


def random_sentences(lengths, n_tags, seed):
    rng = np.random.default_rng(seed)
    X = [rng.choice([*NAMES, *WORDS], size=n).tolist() for n in lengths]
    return X, [rng.integers(n_tags, size=n) for n in lengths]


def padded(arrays):
    mask = torch.arange(max(map(len, arrays))) < torch.tensor([len(a) for a in arrays])[:, None]
    tensors = [torch.as_tensor(array) for array in arrays]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), mask


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 4), seeds)
def test_expectations_are_those_of_the_field_and_its_gradient(lengths, n_tags, seed):
    lengths = np.sort(lengths)[::-1]
    rng = np.random.default_rng(seed)
    scores = 3 * rng.normal(size=(lengths.sum(), n_tags))
    if n_tags > 2:  # a tag that is no label of the task
        scores[:, 1] = -np.inf
    field = LinearChainCRF(n_tags).double()
    for parameter in field.parameters():
        parameter.data.copy_(torch.from_numpy(2 * rng.normal(size=parameter.shape)))
    leaf = torch.from_numpy(scores).requires_grad_()
    log_partition = field.log_partition(*padded(torch.split(leaf, lengths.tolist()))).sum()
    log_partition.backward()
    parts = [getattr(field, name) for name in ("start", "transitions", "end")]
    told = expectations(scores, lengths, *(part.detach().numpy() for part in parts))
    assert_allclose(told[0], log_partition.item(), atol=1e-10)
    for gradient, expected in zip(told[1:], [leaf, *parts]):
        assert_allclose(gradient, 0.0 if expected.grad is None else expected.grad, atol=1e-10)


def loss(linear, X, tags, begun=None):
    """The penalised negative log-likelihood, by the field of the network's last layer."""
    scores, mask = padded(linear.scores(X))
    total = -linear.crf.log_likelihood(scores, padded(tags)[0], mask).sum()
    first = [0 * p for p in linear.crf.parameters()] if begun is None else begun.crf.parameters()
    squares = sum(((a - b) ** 2).sum() for a, b in zip(linear.crf.parameters(), first))
    return (total + PENALTY * (squares + (linear.coef.data**2).sum())).item()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 3), st.booleans(), seeds)
def test_no_weights_near_by_have_a_lower_loss(lengths, n_tags, has_begun, seed):
    X, tags = random_sentences(lengths, n_tags, seed)
    begun = fit_own(*random_sentences([4, 3], n_tags, seed + 1), n_tags) if has_begun else None
    linear = fit_own(X, tags, n_tags, begun)
    least, rng = loss(linear, X, tags, begun), np.random.default_rng(seed)
    for _ in range(5):
        moved = copy.deepcopy(linear)
        moved.coef.data += 1e-2 * rng.normal(size=moved.coef.data.shape)
        for parameter in moved.crf.parameters():
            parameter += 1e-2 * torch.from_numpy(rng.normal(size=parameter.shape))
        assert loss(moved, X, tags, begun) > least - 1e-6


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), seeds)
@settings(max_examples=10)
def test_neither_order_nor_batches_nor_sentences_of_no_words_matter(lengths, seed):
    X, tags = random_sentences([3, *lengths], 2, seed)
    linear = fit_own(X, tags, 2)
    together = linear.scores(X)
    for words, scores in zip(X, together):
        assert_array_equal(linear.scores([words])[0], scores)
    order = np.random.default_rng(seed).permutation(len(X))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_crf, "BATCH", 2)
        other = fit_own([X[i] for i in order], [tags[i] for i in order], 2).scores(X)
    for a, b in zip(together, other):
        assert_allclose(a, b, atol=1e-3)


def test_neither_long_sentences_nor_great_scores_are_too_much():
    rng = np.random.default_rng(0)
    for length, scale in ((5000, 1.0), (20, 300.0)):
        scores, field = scale * rng.normal(size=(length, 3)), LinearChainCRF(3).double()
        parts = [rng.normal(size=shape) for shape in ((3,), (3, 3), (3,))]
        for name, part in zip(("start", "transitions", "end"), parts):
            getattr(field, name).data.copy_(torch.from_numpy(part))
        log_partition, marginals, *_ = expectations(scores, np.array([length]), *parts)
        expected = field.log_partition(*padded([scores])).item()
        assert_allclose(log_partition, expected, rtol=1e-10)
        expected = field.marginals(*padded([scores]))[0].detach()
        assert_allclose(marginals, expected, atol=1e-8)


def masked_loss(shared, tasks):
    """The loss of the shared part, by a field of all labels; each task allows only its own."""
    linear, total = shared.of_labels(shared.labels), 0.0
    for X, tags, labels in tasks.values():
        places = [shared.labels.index(label) for label in labels]
        forbidden = np.full(len(shared.labels), -np.inf)
        forbidden[places] = 0.0
        scores, mask = padded([row + forbidden for row in linear.scores(X)])
        true = padded([np.array(places)[row] for row in tags])[0]
        total -= linear.crf.log_likelihood(scores, true, mask).sum().item()
    squares = sum((p**2).sum().item() for p in linear.crf.parameters())
    return total + PENALTY * (squares + (linear.coef.data**2).sum())


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), seeds)
@settings(max_examples=10)
def test_no_weights_near_by_are_better_for_all_tasks(lengths, seed):
    tasks = {
        "a": (*random_sentences(lengths, 2, seed), ["O", "PER"]),
        "b": (*random_sentences(lengths, 3, seed + 1), ["x", "PER", "O"]),
        "c": (*random_sentences([2], 1, seed + 2), ["alone"]),
    }
    shared = fit_shared_tags(tasks)
    least, rng = masked_loss(shared, tasks), np.random.default_rng(seed)
    for _ in range(4):
        moved = copy.deepcopy(shared)
        for name in ("weights", "start", "transitions", "end"):
            buffer = getattr(moved, name)
            buffer += 1e-2 * torch.from_numpy(rng.normal(size=buffer.shape)).float()
        assert masked_loss(moved, tasks) > least - 1e-4


def test_what_is_read_of_a_word():
    first, second, third = features_of(["Ann", "sees", "Ben"])
    assert first[0] == second[0] == "always"
    assert {"0=ann", "1=sees", "2=ben", "0 Aa", "1 a"} <= set(first) and "2 Aa" not in first
    assert {"-1=ann", "0=sees", "1=ben", "-1 Aa", "0 a", "1 Aa"} <= set(second)
    assert {"-2=ann", "-1=sees", "0=ben"} <= set(third) and "-2 Aa" not in third
    assert features_of([]) == []


words = st.sampled_from([*NAMES, *WORDS, "ann", "1=a", "always"]) | st.text(max_size=3)


@cache
def learned(has_begun):
    """A linear model, and another one that it begins with, or None."""
    begun = fit_own(*sentences(30, seed=1), 2) if has_begun else None
    return fit_own(*sentences(20), 2, begun), begun


@given(st.lists(st.lists(words, max_size=7), max_size=6), st.booleans())
def test_scores_are_sums_over_what_is_read_of_a_word(read, has_begun):
    linear, begun = learned(has_begun)
    found = linear.scores(read)
    for sentence, of_words in zip(read, found, strict=bool(read)):
        assert of_words.shape == (len(sentence), 2)
        for features, scores in zip(features_of(sentence), of_words, strict=True):
            expected = np.zeros(2)
            for one in (linear, begun) if has_begun else (linear,):
                known = one.vectorizer.vocabulary_
                expected += sum(one.coef[[known[f]]].sum(0) for f in features if f in known)
            assert_allclose(scores, expected, atol=1e-12)


def test_of_many_features_the_most_frequent_are_read(monkeypatch):
    monkeypatch.setattr(wide_tagging, "MAX_FEATURES", 3)
    linear = fit_own(*sentences(20), 2)
    assert len(linear.vectorizer.vocabulary_) == 3 and "always" in linear.vectorizer.vocabulary_


def two_tasks():
    """Tasks that share one label, and have different names for the other."""
    a, b = sentences(30, 0, NAMES[:2]), sentences(30, 1, NAMES[2:])
    return {"a": (*a, ["O", "PER"]), "b": (*b, ["O", "NAME"])}


def test_tasks_share_what_a_label_of_one_name_is():
    tasks = two_tasks()
    shared = fit_shared_tags(tasks)
    assert shared.labels == ["O", "PER", "NAME"]
    both = shared.of_labels(["PER", "NAME", "O"])
    score = {word: both.scores([[word]])[0][0] for word in [*NAMES, *WORDS]}
    assert all(score[word].argmax() == 2 for word in WORDS)  # a label of both tasks
    assert all(score[word].argmax() == 0 for word in NAMES[:2])
    assert all(score[word].argmax() == 1 for word in NAMES[2:])
    turned = shared.of_labels(["O", "PER", "NAME"])
    assert_allclose(turned.scores([NAMES])[0], both.scores([NAMES])[0][:, [2, 0, 1]])
    assert_allclose(turned.crf.transitions, both.crf.transitions[[2, 0, 1]][:, [2, 0, 1]])
    some = shared.of_labels(["PER", "unknown"])
    assert_array_equal(some.scores([NAMES])[0][:, 1], 0)
    assert some.crf.start[1] == 0 and some.crf.transitions[1].abs().sum() == 0
    assert shared.of_labels(["unknown"]) is None


def test_a_label_that_a_task_has_not_is_none_of_its_words():
    X, tags = sentences(40)
    shared = fit_shared_tags({"a": (X, tags, ["O", "PER"]), "b": (*sentences(5, 1), ["x", "y"])})
    of_both, of_one = shared.of_labels(["O", "PER"]), fit_own(X, tags, 2)
    # Without common labels, tasks learn independently of each other.
    for a, b in zip(of_both.scores(X), of_one.scores(X)):
        assert_allclose(a, b, atol=1e-2)


def test_one_task_begins_with_what_others_know_and_differs_as_little_as_may_be():
    tasks = two_tasks()
    shared = fit_shared_tags(tasks)
    few = [["sees", "Ann"]], [np.array([0, 1])]
    begun = shared.of_labels(["O", "PER"])
    own, alone = fit_own(*few, 2, begun), fit_own(*few, 2)
    assert own.scores([["Ben"]])[0].argmax() == 1  # a name that it has not seen
    assert np.abs(own.coef.toarray()).sum() < np.abs(alone.coef.toarray()).sum()


def test_shared_tags_survive_copies_pickles_and_their_config():
    shared = fit_shared_tags(two_tasks())
    again = wide_tagging.SharedTags(**shared.config)
    again.load_state_dict(shared.state_dict())
    for other in (again, copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
        found = other.of_labels(["O", "PER"])
        expected = shared.of_labels(["O", "PER"])
        assert_array_equal(found.scores([NAMES])[0], expected.scores([NAMES])[0])
        assert_array_equal(found.crf.transitions, expected.crf.transitions)
    assert copy.deepcopy(shared).features is shared.features
    assert not list(shared.parameters())  # training cannot change it


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("places", 0, 2**30), ("places", 0, -1), ("starts", 5, 2**30), ("starts", 0, 1)],
)
def test_weights_beyond_the_features_are_refused_before_they_are_read(tmp_path, name, place, value):
    """Such weights would read beyond the array, and the process would die."""
    meta = MetaLSTMTagger(**TINY, random_state=0)
    tasks = {"a": labelled(20), "b": labelled(20, 1)}
    meta.meta_fit(tasks, max_steps=1, verbose=False)
    getattr(meta.learner_.wide, name)[place] = value
    path = meta.save_pretrained(tmp_path / "damaged")
    with pytest.raises(ValueError, match="to features or labels that it lacks"):
        MetaLSTMTagger(path, **TINY).fit(*labelled(5))


def test_features_and_labels_are_there_once():
    # A number and its text are two labels.
    assert wide_tagging.SharedTags(["a"], [1, "1"], 0).of_labels(["1"]).coef.shape == (1, 1)
    for features, labels in ((["a", "a"], ["O"]), (["a"], ["O", "O"]), ([], ["O"])):
        with pytest.raises(ValueError, match="without duplicates"):
            wide_tagging.SharedTags(features, labels, 0)


# In the tagger


def labelled(n, seed=0, labels=("O", "B-PER"), names=NAMES):
    X, tags = sentences(n, seed, names)
    return X, [[labels[tag] for tag in row] for row in tags]


def total(tags, scores, fields):
    """The score of a sentence's tags by several fields with weights."""
    of_words = sum(row[tag] for row, tag in zip(scores, tags))
    for weight, field in fields:
        pairs = sum(field.transitions[a, b] for a, b in pairwise(tags))
        of_words += weight * (field.start[tags[0]] + pairs + field.end[tags[-1]]).item()
    return of_words


def test_the_linear_scores_are_added_to_the_networks_by_their_weight():
    X, y = labelled(40)
    tagger = MetaLSTMTagger(**TINY, random_state=0).fit(X, y)
    new, _ = labelled(60, 1, names=["Eve", "Ann", "the"])
    alone = copy.copy(tagger)
    alone.linear_ = None
    network = clone(tagger).set_params(wide=False).fit(X, y)
    assert alone.predict(new) == network.predict(new) and network.linear_ is None

    module, linear = copy.deepcopy(tagger.module_).double().eval(), tagger.linear_
    weight = 0.5 + 0.5 * 400 / (40 + 400)
    fields = [(1.0, module.heads[0].crf), (weight, linear.crf)]
    found = []
    for words, of_linear in zip(tagger._numbers(module, new), linear.scores(new)):
        with torch.no_grad():
            told = module(torch.from_numpy(words)[None], torch.tensor([len(words)]), 0).scores[0]
        scores = told.numpy() + weight * of_linear
        ranked = {tags: total(tags, scores, fields) for tags in np.ndindex(*[2] * len(scores))}
        found.append(tagger.classes_[list(max(ranked, key=ranked.get))].tolist())
    assert tagger.predict(new) == found
    assert found != alone.predict(new)


def test_sentences_may_be_of_no_words_or_longer_than_what_is_read():
    X, y = labelled(30)
    tagger = MetaLSTMTagger(**TINY, max_length=3, random_state=0).fit([*X, []], [*y, []])
    assert tagger.predict([[], ["Ann"] * 5, []])[::2] == [[], []]
    assert tagger.predict([["Ann"] * 5])[0][3:] == ["O", "O"]
    assert tagger.predict([[]]) == [[]]
    assert tagger.linear_.scores([["Ann"] * 5])[0].shape == (5, 2)
    crf, nothing = tagger.linear_.crf, torch.zeros(0, 2).double()
    assert [tags.tolist() for tags in decoded(crf, [nothing] * 2)] == [[], []]


def test_a_new_task_hears_known_ones_where_its_words_speak_for_them(tmp_path):
    tasks = {name: labelled(40, i, names=NAMES[: i + 2]) for i, name in enumerate(["a", "b"])}
    meta = MetaLSTMTagger(**TINY, random_state=0)
    meta.meta_fit(tasks, max_steps=2, verbose=False)
    few = [["sees", "Ann", "often", "a"]] * 2, [["O", "B-PER", "O", "O"]] * 2
    swapped = few[0], [["B-PER", "O", "B-PER", "B-PER"]] * 2
    assert meta.fit(*few).linear_.begun is not None
    assert meta.linear_.scores([["Ben"]])[0].argmax() == meta.classes_.tolist().index("B-PER")
    assert clone(meta).fit(*swapped).linear_.begun is None
    # Four words of six are right, where the commonest label has three: that may be chance.
    barely = (
        [["Ann", "Ben", "sees", "a", "the", "Ann"]],
        [["B-PER", "O", "O", "B-PER", "O", "B-PER"]],
    )
    known = meta.learner_.wide.of_labels(["B-PER", "O"])
    (told,) = decoded(known.crf, map(torch.from_numpy, known.scores(barely[0])))
    assert told.tolist() == [0, 0, 1, 1, 1, 0]
    assert clone(meta).fit(*barely).linear_.begun is None
    # A sentence without words counts neither for it nor against it.
    assert clone(meta).fit([*few[0], []], [*few[1], []]).linear_.begun is not None
    assert clone(meta).set_params(wide=False).fit(*few).linear_ is None
    # From weights on disk, too.
    path = meta.save_pretrained(tmp_path / "known")
    loaded = MetaLSTMTagger(path, **TINY, random_state=0).fit(*few)
    assert_allclose(loaded.linear_.scores([NAMES])[0], meta.linear_.scores([NAMES])[0])
    assert loaded.predict(tasks["b"][0]) == meta.predict(tasks["b"][0])
    again = pickle.loads(pickle.dumps(loaded))
    assert again.predict(tasks["b"][0]) == meta.predict(tasks["b"][0])


def test_known_tasks_have_linear_models_that_begin_with_the_shared_one():
    tasks = {name: labelled(40, i) for i, name in enumerate(["a", "b"])}
    meta = MetaLSTMTagger(**TINY, random_state=0)
    meta.meta_fit(tasks, max_steps=2, verbose=False)
    assert all(one.linear_.begun is not None for one in meta.estimators_.values())
    assert meta.estimators_["a"].score(*labelled(30, 5)) > 0.9  # the network has seen 32 sentences
    alone = clone(meta).meta_fit({"a": tasks["a"]}, max_steps=2, verbose=False)
    assert alone.estimators_["a"].linear_.begun is None
    weights = [e._weight for e in (alone.estimators_["a"], *meta.estimators_.values())]
    assert weights == [0.5 + 200 / (n + 400) for n in (40, 80, 80)]
    plain = clone(meta).set_params(wide=False).meta_fit(tasks, max_steps=2, verbose=False)
    assert plain.learner_.wide is None and plain.estimators_["a"].linear_ is None


def test_of_a_few_sentences_alone_it_tells_no_less_than_its_linear_model():
    """By default few sentences get more epochs: twenty epochs of five would be twenty steps."""
    few, (X, y) = labelled(5), labelled(60, 1)
    tagger = MetaLSTMTagger(**{**TINY, "max_epochs": "auto"}, random_state=0).fit(*few)
    assert len(tagger.fit_history_[0]["batches"]) == 200
    linear = tagger.linear_
    told = decoded(linear.crf, map(torch.from_numpy, linear.scores(X)))
    alone = [tagger.classes_[tags].tolist() for tags in told]
    assert tagger.score(X, y) >= f1_score(y, alone) > 0.5
    more = clone(tagger).set_params(batch_size=1).fit(*labelled(11))
    assert len(more.fit_history_[0]["batches"]) == 220
    with pytest.raises(ValueError, match="'max_epochs' parameter"):
        clone(tagger).set_params(max_epochs="all").fit(*few)


def test_interrupted_before_its_linear_model_it_is_not_fitted(monkeypatch):
    X, y = labelled(20)
    tagger = MetaLSTMTagger(**TINY).fit(X, y)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(tagger_module, "fit_own", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tagger.fit(X, y)
    with pytest.raises(NotFittedError):
        tagger.predict(X)


@pytest.mark.skipif(
    not (folder := Path(__file__).parents[2] / "shared" / "data" / "text").is_dir(),
    reason=f"no texts at {folder}",
)
def test_a_hundred_real_sentences_teach_it_names():
    from seqeval.metrics import f1_score

    train, valid = (
        load_tagging(folder, "crossner", "ner", split)["ai"] for split in ("train", "valid")
    )
    labels = sorted({label for row in train[1] for label in row})
    place = {label: i for i, label in enumerate(labels)}
    X, tags = train[0], [np.array([place[label] for label in row]) for row in train[1]]
    linear = fit_own(X, tags, len(labels))
    told = decoded(linear.crf, map(torch.from_numpy, linear.scores(valid[0])))
    found = [[labels[tag] for tag in row] for row in told]
    assert f1_score(valid[1], found) > 0.35  # 0.42; an LSTM has 0.3 after thirty epochs
