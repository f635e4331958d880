"""The weights store: what is saved is loaded bit by bit; anything else is refused unread."""

import functools
import hashlib
import itertools
import json
import os
import pickle
import re
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import CONTEXT, ended, started

from sklearn_meta.backbones import VSA
from sklearn_meta.folders import CHECKPOINT, locked
from sklearn_meta.learner import Learner
from sklearn_meta.weights import (
    available_weights,
    load_learner,
    save_learner,
    save_pretrained,
    store,
)

CONFIG = {"width": 8, "n_layers": 1, "n_heads": 2, "head_width": 4, "last_width": 2}


def small_learner(seed=0):
    torch.manual_seed(seed)
    learner = Learner(backbone_config=CONFIG, head_config={"temperature": "fixed"})
    learner.head.log_temperature.data.fill_(0.3)
    return learner


@pytest.fixture
def saved(tmp_path):
    return save_learner(small_learner(), tmp_path / "mine.safetensors", note="of a test")


def rewrite_card(path, **changes):
    card = path.with_suffix(".json")
    card.write_text(json.dumps({**json.loads(card.read_text()), **changes}))


def test_round_trip_is_equal_bitwise(saved):
    learner, again = small_learner(), load_learner(saved)
    assert again.config == learner.config
    state, state_again = learner.state_dict(), again.state_dict()
    assert state.keys() == state_again.keys()
    for name, tensor in state.items():
        assert tensor.dtype == state_again[name].dtype
        assert torch.equal(tensor, state_again[name])
    assert not again.training and not any(p.requires_grad for p in again.parameters())
    assert load_learner(str(saved)).card == again.card


def test_loading_draws_nothing_from_torchs_generator(saved):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    load_learner(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_card_tells_of_the_weights(saved):
    card = json.loads(saved.with_suffix(".json").read_text())
    assert card == load_learner(saved).card
    assert card["note"] == "of a test" and card["config"] == small_learner().config
    assert card["sha256"] == hashlib.sha256(saved.read_bytes()).hexdigest()
    assert card["n_parameters"] == sum(p.numel() for p in small_learner().parameters())


def test_float64_and_strided_weights_are_kept(tmp_path):
    learner = small_learner().double()
    weight = learner.backbone.blocks[0].attention.merge.weight
    weight.data = weight.data.T.contiguous().T  # same values, another layout
    path = save_learner(learner, tmp_path / "double.safetensors")
    assert path.is_file()
    found = load_learner(path).backbone.blocks[0].attention.merge.weight
    np.testing.assert_allclose(found, weight.detach(), rtol=1e-6)


@pytest.mark.parametrize("place", [0, 9, 200, -1])
def test_a_damaged_byte_is_refused(saved, place):
    raw = bytearray(saved.read_bytes())
    raw[place] ^= 1
    saved.write_bytes(raw)
    with pytest.raises(ValueError, match="mine.safetensors is damaged.*sha256"):
        load_learner(saved)


@pytest.mark.parametrize("kept", [0, 7, 1000, -1])
def test_a_truncated_file_is_refused(saved, kept):
    raw = saved.read_bytes()[:kept]
    saved.write_bytes(raw)
    with pytest.raises(ValueError, match="mine.safetensors is damaged"):
        load_learner(saved)
    rewrite_card(saved, sha256=hashlib.sha256(raw).hexdigest())
    with pytest.raises(ValueError, match="is not a safetensors file"):
        load_learner(saved)


@pytest.mark.parametrize(
    "card",
    [
        None,
        b"",
        b"{",
        b"[1]",
        b"null",
        b"{}",
        b'{"config": {}}',
        b'{"sha256": ""}',
        b"\xff",
        b"[" * 10**5,
    ],
)
def test_a_card_that_is_missing_or_no_card_is_refused(saved, card):
    if card is None:
        saved.with_suffix(".json").unlink()
    else:
        saved.with_suffix(".json").write_bytes(card)
    with pytest.raises(ValueError, match="no readable card mine.json"):
        load_learner(saved)


class Bomb:
    """Makes a file if it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_a_pickle_in_disguise_is_never_unpickled(saved, tmp_path, dump):
    trace = tmp_path / "exploded"
    with open(saved, "wb") as file:
        dump(Bomb(trace), file)
    with pytest.raises(ValueError, match="is damaged"):
        load_learner(saved)
    rewrite_card(saved, sha256=hashlib.sha256(saved.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="not a safetensors file.*pickles above all, are not read"):
        load_learner(saved)
    assert not trace.exists()
    with open(saved, "rb") as file:  # the bomb does work
        pickle.load(file) if dump is pickle.dump else torch.load(file, weights_only=False)
    assert trace.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"backbone": "transformer"},
        {"head": "gp"},
        {"backbone_config": {**CONFIG, "width": 16}},  # other shapes
        {"backbone_config": {**CONFIG, "n_layers": 2}},  # weights left out
        {"backbone_config": {**CONFIG, "residual": False}},  # weights left over
        {"backbone_config": {**CONFIG, "depth": 3}},  # unknown argument
        {"backbone_config": {**CONFIG, "n_layers": 10**30}},  # more than an index can count
        {"colour": "red"},
        {"colour": "red" * 10**4},
    ],
)
def test_weights_of_another_architecture_are_refused(saved, change):
    rewrite_card(saved, config={**small_learner().config, **change})
    with pytest.raises(ValueError, match="does not fit the architecture its card names") as told:
        load_learner(saved)
    assert all(name in str(told.value) for name in small_learner().config)
    assert len(str(told.value)) < 4000  # a config may hold a whole vocabulary


def test_own_modules_and_other_suffixes_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="must end in .safetensors, got .*mine.pt"):
        save_learner(small_learner(), tmp_path / "mine.pt")
    with pytest.raises(ValueError, match="Only a learner built from names"):
        save_learner(Learner(VSA(**CONFIG)), tmp_path / "mine.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_made_and_one_that_cannot_be_is_an_os_error(tmp_path):
    path = save_learner(small_learner(), tmp_path / "a" / "b" / "mine.safetensors")
    assert sorted(p.name for p in path.parent.iterdir()) == ["mine.json", "mine.safetensors"]
    with pytest.raises(OSError):
        save_learner(small_learner(), path / "below_a_file.safetensors")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_os_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        save_learner(small_learner(), tmp_path / "mine.safetensors")


def test_a_failing_save_leaves_the_old_files_and_no_others(saved, monkeypatch):
    before = {path: path.read_bytes() for path in saved.parent.iterdir()}

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_learner(small_learner(seed=1), saved)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in saved.parent.iterdir()} == before
    save_learner(small_learner(seed=1), saved)
    assert saved.read_bytes() != before[saved]
    load_learner(saved)


def kill_while_saving(learner, path, step):
    """Save in a child that gets SIGKILL before it changes a file for the ``step``-th time.

    Return whether it was killed; False if saving was complete before.
    """
    child = os.fork()
    if child == 0:
        steps = itertools.count()

        def hook(event, arguments):
            changes = event == "os.rename" or (event == "open" and arguments[1] in ("w", "wb"))
            if changes and path.parent.name in str(arguments[0]) and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        save_learner(learner, path, note=f"seed {learner.seed}")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def weights_and_note(path):
    """Return which learner a path loads as; weights and card must agree."""
    learner = load_learner(path)
    seed = int(learner.card["note"].removeprefix("seed "))
    expected = seeded(seed).state_dict()
    assert all(torch.equal(t, expected[name]) for name, t in learner.state_dict().items())
    return seed


@functools.cache
def seeded(seed):
    """A learner that nothing changes, made once per seed."""
    learner = small_learner(seed)
    learner.seed = seed
    return learner


def test_a_save_killed_at_any_moment_leaves_the_old_pair_or_the_new_one(tmp_path):
    """The next save may be killed, too: every pair of moments is tried."""
    path, found, killed = tmp_path / "mine.safetensors", set(), True
    for first in itertools.count():
        save_learner(seeded(0), path, note="seed 0")
        killed = kill_while_saving(seeded(1), path, first)
        left = {file: file.read_bytes() for file in tmp_path.iterdir()}
        after_one = weights_and_note(path)
        assert after_one in ((0, 1) if killed else (1,))
        for second in itertools.count():
            for file in tmp_path.iterdir():
                file.unlink()
            for file, content in left.items():
                file.write_bytes(content)
            killed_again = kill_while_saving(seeded(2), path, second)
            after_two = weights_and_note(path)
            assert after_two in ((after_one, 2) if killed_again else (2,))
            found.add((after_one, after_two))
            if not killed_again:
                break
        if not killed:
            break
    assert first >= 4 and second >= 4  # the kills did happen
    assert found == {(0, 0), (0, 2), (1, 1), (1, 2)}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.json", "mine.safetensors"]


def test_a_first_save_killed_at_any_moment_is_refused_or_whole(tmp_path):
    found = set()
    for step in itertools.count():
        path = tmp_path / str(step) / "mine.safetensors"
        killed = kill_while_saving(seeded(1), path, step)
        try:
            found.add(weights_and_note(path))
        except ValueError as error:
            assert killed and re.search("No weights|no readable card.*save them again", str(error))
            found.add(None)
        if not killed:
            break
    assert found == {None, 1}


def test_half_written_weights_beside_the_old_ones_do_no_harm(saved):
    half = saved.with_name("mine.safetensors.new")
    half.write_bytes(saved.read_bytes()[:500])
    assert load_learner(saved).card["note"] == "of a test"
    save_learner(seeded(1), saved, note="seed 1")
    assert weights_and_note(saved) == 1 and not half.exists()


def test_a_save_between_reading_card_and_weights_is_noticed(saved, monkeypatch):
    read_card = store.read_card

    def read_then_save(path):
        card = read_card(path)
        monkeypatch.undo()
        save_learner(seeded(1), saved, note="seed 1")
        return card

    monkeypatch.setattr(store, "read_card", read_then_save)
    assert weights_and_note(saved) == 1


def test_saves_one_after_the_other_do_not_make_weights_look_damaged(saved, monkeypatch):
    read_card, savers = store.read_card, []

    def read_while_saved(path):
        card = read_card(path)
        if threading.current_thread() is threading.main_thread():  # a save reads the card, too
            seed = len(savers) + 1  # drawn in this thread only: threads share torch's generator
            arguments, note = (seeded(seed), saved), {"note": f"seed {seed}"}
            savers.append(threading.Thread(target=save_learner, args=arguments, kwargs=note))
            savers[-1].start()
            savers[-1].join(timeout=1)  # done, or it waits until the files have been read
        return card

    monkeypatch.setattr(store, "read_card", read_while_saved)
    assert weights_and_note(saved) == 1
    monkeypatch.undo()
    savers[-1].join()
    assert len(savers) == 2 and weights_and_note(saved) == 2


def test_what_the_card_says_of_the_weights_is_the_stores_own(tmp_path):
    path = save_learner(small_learner(), tmp_path / "a.safetensors", sha256="no", hub="hub:a/b")
    card = json.loads(path.with_suffix(".json").read_text())
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "hub" not in card
    rewrite_card(path, hub="hub:a/b@main")  # the card says so, but nobody fetched it
    assert "hub" not in load_learner(path).card


def test_a_card_that_json_cannot_hold_writes_nothing(saved):
    before = {path: path.read_bytes() for path in saved.parent.iterdir()}
    with pytest.raises(ValueError, match="json values only.*set"):
        save_learner(small_learner(1), saved, seed={1})
    assert {path: path.read_bytes() for path in saved.parent.iterdir()} == before


def test_numbers_of_numpy_are_numbers_in_a_card(tmp_path):
    """A search over settings produces such numbers."""
    learner = Learner(backbone_config={**CONFIG, "width": np.int64(8)})
    path = save_learner(learner, tmp_path / "a.safetensors", scores=[np.float32(0.5)])
    assert load_learner(path).config["backbone_config"]["width"] == 8
    assert load_learner(path).card["scores"] == [0.5]


def test_names_are_those_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    assert available_weights() == []
    for name in ("small", "big"):
        save_learner(small_learner(), tmp_path / f"{name}.safetensors", note=name)
    assert available_weights() == ["big", "small"]
    learner = load_learner("big")
    assert learner.card["note"] == "big"
    assert load_learner("big") is learner  # once per process
    assert load_learner(tmp_path / "big.safetensors") is not learner


@pytest.mark.parametrize("wrong", ["small", "nowhere/small.safetensors", Path("."), ""])
def test_an_unknown_name_lists_those_there_are(wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    save_learner(small_learner(), tmp_path / "big.safetensors")
    with pytest.raises(ValueError, match=r"expected a name in \['big'\], the path"):
        load_learner(wrong)


def test_names_of_weights_by_task():
    assert available_weights("regression") == ["default_regression"]
    assert available_weights("text_tagging") == ["english_names"]
    assert available_weights("text") == []  # the beginning of a task is none
    tasks = {load_learner(name).task for name in available_weights()}
    assert sorted(n for task in tasks for n in available_weights(task)) == available_weights()


@pytest.mark.parametrize("name", available_weights())
def test_the_weights_of_the_package_can_be_loaded_and_their_cards_tell_of_them(name):
    learner = load_learner(name)
    assert all(learner.card[key] for key in ("data", "recipe", "sha256", "validation"))
    assert isinstance(learner.card["seed"], int)
    assert learner.card["n_parameters"] == sum(p.numel() for p in learner.parameters())
    assert all(p.isfinite().all() for p in learner.parameters())
    assert (store.FOLDER / f"{name}.safetensors").stat().st_size < 8e6


def test_a_path_is_never_the_name_of_weights_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_pretrained(small_learner(1), "prior", note="mine")
    for path in (Path("prior"), Path("./prior"), "./prior"):
        assert load_learner(path).card["note"] == "mine"
    assert load_learner("prior").card.get("note") != "mine"
    with pytest.raises(ValueError, match="No weights 'default'"):
        load_learner(Path("default"))


def save_often(path, seed, all_here):
    learner = seeded(seed)
    all_here.wait()
    for _ in range(60):
        save_learner(learner, path, note=f"seed {seed}")


def test_three_processes_save_to_one_path(tmp_path):
    path, all_here = tmp_path / "mine.safetensors", CONTEXT.Barrier(3, timeout=120)
    three = [started(save_often, path, seed, all_here) for seed in range(3)]
    assert [ended(process) for process in three] == [0, 0, 0]
    assert weights_and_note(path) in range(3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.json", "mine.safetensors"]


def test_of_several_processes_the_first_saves(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    path = save_pretrained(small_learner(), tmp_path / "mine")
    assert save_pretrained(small_learner(), "hub:someone/new") == "hub:someone/new"  # unasked
    with pytest.raises(ValueError, match="json values only"):
        save_pretrained(small_learner(), tmp_path / "mine", note=object())
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("RANK", "0")
    assert save_pretrained(small_learner(), tmp_path / "mine") == path and path.is_file()


@pytest.mark.parametrize("config", [None, [], "vsa", {"task": "x"}, {"task": "mixture", "a": 1}])
def test_a_card_of_no_architecture_is_refused(saved, config):
    rewrite_card(saved, config=config)
    with pytest.raises(ValueError, match="does not fit the architecture its card names"):
        load_learner(saved)


def test_what_a_save_tells_wins_over_what_the_weights_came_with(saved, tmp_path):
    again = save_pretrained(load_learner(saved), tmp_path / "again", data="mine")
    assert load_learner(again).card.items() >= {"note": "of a test", "data": "mine"}.items()
    other = save_pretrained(load_learner(saved), tmp_path / "other", note="of another")
    assert load_learner(other).card["note"] == "of another"


def test_a_save_waits_for_whoever_writes_to_the_folder(saved):
    before = saved.read_bytes()
    arguments, note = (seeded(1), saved), {"note": "seed 1"}
    saver = threading.Thread(target=save_learner, args=arguments, kwargs=note)
    with locked(saved.parent):
        saver.start()
        saver.join(timeout=0.5)
        assert saver.is_alive() and saved.read_bytes() == before
    saver.join()
    assert weights_and_note(saved) == 1


def test_a_card_may_tell_of_anything(tmp_path):
    told = {"path": 1, "target": 2, "learner": 3, "folder": 4, "weights": 5}
    assert load_learner(save_pretrained(small_learner(), tmp_path, **told)).card.items() >= (
        told.items()
    )


def test_a_tilde_is_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    path = save_pretrained(small_learner(), "~/w")
    assert path.parent == tmp_path / "home" / "w"
    assert load_learner("~/w").card["sha256"] == load_learner(path).card["sha256"]


def test_a_card_in_the_place_of_its_weights_is_told_so(saved):
    with pytest.raises(ValueError, match="mine.json is a card: give the .*mine.safetensors"):
        load_learner(saved.with_suffix(".json"))


@pytest.mark.parametrize("name", ["", CHECKPOINT])
def test_a_checkpoint_in_the_place_of_weights_is_told_so(tmp_path, name):
    (tmp_path / CHECKPOINT).touch()
    with pytest.raises(ValueError, match=f"{CHECKPOINT} is a checkpoint of meta_fit, not weights"):
        load_learner(tmp_path / name)
    save_learner(small_learner(), tmp_path / CHECKPOINT)
    assert load_learner(tmp_path / CHECKPOINT).card
    save_pretrained(small_learner(), tmp_path)
    assert load_learner(tmp_path).card


def test_weights_beside_a_checkpoint_that_lost_their_card_are_told_so(tmp_path):
    save_pretrained(small_learner(), tmp_path)
    (tmp_path / CHECKPOINT).touch()
    (tmp_path / "model.json").unlink()
    with pytest.raises(ValueError, match="no readable card"):
        load_learner(tmp_path)


def test_weights_beside_a_checkpoint_whose_save_was_killed_are_read(tmp_path):
    save_pretrained(small_learner(), tmp_path)
    (tmp_path / CHECKPOINT).touch()
    weights = tmp_path / "model.safetensors"
    weights.rename(store._unfinished(weights))  # as if killed before the last of two moves
    assert load_learner(tmp_path).card


def test_a_card_is_json_as_everybody_reads_it(tmp_path):
    with pytest.raises(ValueError, match="The card takes json values only"):
        save_learner(small_learner(), tmp_path / "nan.safetensors", valid_loss=float("nan"))
    assert not list(tmp_path.iterdir())


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(OSError, match="model.safetensors is not a file"):
        save_pretrained(small_learner(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    (tmp_path / "model.safetensors").rename(tmp_path / "model.json")
    with pytest.raises(OSError, match="model.json is not a file"):
        save_pretrained(small_learner(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_a_card_that_may_not_be_read_is_told_of(tmp_path, monkeypatch):
    def forbidden(self, **options):
        raise PermissionError(13, "Permission denied", str(self))

    save_pretrained(small_learner(), tmp_path)
    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(PermissionError, match="Permission denied: .*model.json"):
        save_pretrained(small_learner(), tmp_path)


def test_an_empty_file_in_the_place_of_a_card_is_replaced(tmp_path):
    (tmp_path / "model.json").touch()
    assert load_learner(save_pretrained(small_learner(), tmp_path)).card


def test_weights_that_may_not_be_replaced_are_no_full_disk(saved, monkeypatch):
    def forbidden(source, target):
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(os, "replace", forbidden)
    with pytest.raises(PermissionError, match="Permission denied: .*mine.json.new"):
        save_learner(small_learner(1), saved)
    monkeypatch.undo()
    assert load_learner(saved).card["note"] == "of a test"


def test_what_is_no_card_is_not_overwritten_by_one(tmp_path):
    recipe, theirs = tmp_path / "mine.json", tmp_path / "theirs"
    recipe.write_text('{"max_steps": 3}')
    theirs.mkdir()
    (theirs / "model.json").write_text('{"layers": 12}')
    (theirs / "model.safetensors").write_bytes(b"weights of another library")
    learner = Learner(backbone_config={"width": 8, "n_layers": 1})
    for save, place in ((save_learner, "mine.safetensors"), (save_pretrained, "theirs")):
        with pytest.raises(OSError, match=r"model.json|mine.json is not a card of weights"):
            save(learner, tmp_path / place)
    assert recipe.read_text() == '{"max_steps": 3}'
    assert (theirs / "model.safetensors").read_bytes() == b"weights of another library"


def load_and_fork():
    torch.set_num_threads(2)
    for name in available_weights():
        load_learner(name)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        torch.ones(10**6).sum()  # by both threads
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def load_when_the_main_thread_has_ended():
    found = []
    thread = threading.Thread(target=lambda: time.sleep(0.2) or found.append(load_learner("prior")))
    thread.start()
    threading._shutdown()  # Python does this at exit, and waits for other threads
    assert found


def test_a_thread_may_load_weights_when_the_main_one_has_ended():
    assert ended(started(load_when_the_main_thread_has_ended)) == 0


def test_weights_are_loaded_where_no_thread_can_begin(monkeypatch):
    """As at exit of Python 3.12, or at a limit of the system."""

    def none_left(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with torch.device("meta"):
        learner = load_learner(store.FOLDER / "prior.safetensors")
    assert learner.card
    assert {tensor.device.type for tensor in learner.state_dict().values()} == {"cpu"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_process_that_has_loaded_weights_may_fork():
    """Servers load weights, then fork; the child lacks torch's other threads."""
    assert ended(started(load_and_fork)) == 0
