"""Embeddings of labelled rows that do not read their own label, in float64."""

import math

import pytest
import torch
from hypothesis import given
from test_backbones import CONFIGS, drawn_tasks, fixed_task

from sklearn_meta.backbones import VSA
from sklearn_meta.backbones.held_out import copies_of, take_copies
from sklearn_meta.backbones.vsa import Block


def build(**config):
    torch.manual_seed(0)
    return VSA(**{**CONFIGS["vsa"], **config}).double().eval()


PAPER, HELD_OUT = build(), build(own_labels=False)


@given(inputs=drawn_tasks())
@torch.no_grad()
def test_a_labelled_row_is_read_as_a_new_one_from_which_it_is_hidden(inputs):
    found, _ = HELD_OUT(**inputs)
    known, *blocks = PAPER(**inputs)[1]
    labelled = ~inputs["labels"].isnan().all(-1)
    for row in range(labelled.shape[1]):
        others = [b if len(b) == 1 else (*b[:2], without(row, b[2])) for b in blocks]
        one = {name: inputs[name][:, row : row + 1] for name in ("x", "labels", "readable")}
        one["labels"] = torch.full_like(one["labels"], math.nan)
        rest = {name: inputs[name] for name in ("columns", "classes")}
        expected, _ = PAPER(**one, **rest, memory=[known, *others])
        here = labelled[:, row]
        torch.testing.assert_close(found[here, row], expected[here, 0], rtol=0, atol=1e-9)


def without(row, readable):
    readable = readable.clone()
    readable[:, row] = False
    return readable


@given(inputs=drawn_tasks())
@torch.no_grad()
def test_rows_without_a_label_and_what_is_remembered_are_the_papers(inputs):
    found, memory = HELD_OUT(**inputs)
    expected, remembered = PAPER(**inputs)
    new = inputs["labels"].isnan().all(-1)
    torch.testing.assert_close(found[new], expected[new], rtol=0, atol=1e-9)
    for block, other in zip(memory[1:], remembered[1:], strict=True):
        for part, wanted in zip(block, other, strict=True):
            torch.testing.assert_close(part, wanted, rtol=0, atol=1e-9)


def with_targets():
    """A task, and the same task with another target in row 1."""
    inputs = fixed_task()
    inputs["labels"], inputs["classes"] = inputs["labels"][..., :1], inputs["classes"][:, :1]
    changed = inputs["labels"].clone()
    changed[0, 1] += 0.7
    return inputs, {**inputs, "labels": changed}


@pytest.mark.parametrize("config", [{}, {"observed_indicator": False}])
@torch.no_grad()
def test_of_its_own_label_there_is_nothing_in_it(config):
    """Holds exactly in one layer; in more layers a row reads others that have read its label."""
    inputs, changed = with_targets()
    for own_labels, least, most in ((False, 0, 1e-12), (True, 1e-5, math.inf)):
        config = {**config, "n_layers": 1, "attribute_attention": False}
        model = build(**config, own_labels=own_labels)
        moved = (model(**inputs)[0] - model(**changed)[0]).abs().amax((2, 3))[0]
        assert least <= moved[1] <= most
        assert (moved[[0, 2, 3]] > 1e-5).all()  # the others read it


@pytest.mark.parametrize("indicators", [True, False])
@torch.no_grad()
def test_a_copy_has_the_guess_of_its_row_and_no_label(indicators):
    """The guess of a labelled row is made from the others, so its copy may have it."""
    inputs, _ = with_targets()
    config = dict.fromkeys(["observed_indicator", "kind_indicator"], indicators)
    model, seen = build(**config, associations=True, own_labels=False), []
    model.blocks[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(**inputs)
    n_rows, labelled = inputs["x"].shape[1], ~inputs["labels"][0, :, 0].isnan()
    rows, copies = seen[0][0, :n_rows][labelled], seen[0][0, n_rows:]
    torch.testing.assert_close(copies[:, :-1], rows[:, :-1])
    n_told = 1 + indicators
    torch.testing.assert_close(copies[:, -1, n_told:], rows[:, -1, n_told:])
    assert rows[:, -1, :n_told].any() and not copies[:, -1, :n_told].any()


@pytest.mark.parametrize("own_labels", [True, False])
@torch.no_grad()
def test_the_last_block_answers_for_what_is_asked_as_for_all(own_labels):
    """This holds for attributes alone, and for copies in place of their rows."""
    torch.manual_seed(0)
    block = Block("attributes", 5, 2, 6, 2, 3, True, True).double()
    labels = torch.full((2, 7, 1), torch.nan, dtype=torch.float64)
    labels[0, :3], labels[1, 4] = 1.0, 0.0  # the second task is padded with copies without a label
    copies = None if own_labels else copies_of(labels)
    n_copies = 0 if own_labels else copies.places.shape[1]
    z = torch.randn(2, 7 + n_copies, 4, 5, dtype=torch.float64)
    rows, columns = torch.ones(2, 7, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)
    rows[1, 6], columns[0, 1] = False, False
    for_all, _ = block(z, rows, columns, copies=copies)
    found, memory = block(z, rows, columns, copies=copies, n_asked=3)
    expected = for_all if own_labels else take_copies(for_all, copies)
    torch.testing.assert_close(found, expected[:, :, :3], rtol=0, atol=1e-12)
    later, _ = block(z[:, :2], rows, columns, memory=memory, n_asked=3)
    torch.testing.assert_close(later, for_all[:, :2, :3], rtol=0, atol=1e-12)
