"""The weights store: what is saved comes back bit by bit, anything else is refused, unread."""

import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from sklearn_meta.backbones import VSA
from sklearn_meta.learner import Learner
from sklearn_meta.weights import available_weights, load_learner, save_learner, store

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
    "card", [None, b"", b"{", b"[1]", b"null", b"{}", b'{"config": {}}', b'{"sha256": ""}', b"\xff"]
)
def test_a_card_that_is_missing_or_no_card_is_refused(saved, card):
    if card is None:
        saved.with_suffix(".json").unlink()
    else:
        saved.with_suffix(".json").write_bytes(card)
    with pytest.raises(ValueError, match="no readable card mine.json"):
        load_learner(saved)


class Bomb:
    """Unpickling it makes a file."""

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
    with open(saved, "rb") as file:  # the bomb is a live one
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
        {"colour": "red"},
    ],
)
def test_weights_of_another_architecture_are_refused(saved, change):
    rewrite_card(saved, config={**small_learner().config, **change})
    with pytest.raises(ValueError, match="does not fit the architecture its card names"):
        load_learner(saved)


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


def test_a_save_that_is_killed_between_its_two_files_is_noticed(saved, monkeypatch):
    """New weights beside an old card are refused, not loaded under a false name."""
    replace = os.replace

    def fail_at_the_card(source, target):
        if str(target).endswith(".json"):
            raise OSError("killed")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_the_card)
    with pytest.raises(OSError, match="killed"):
        save_learner(small_learner(seed=1), saved)
    with pytest.raises(ValueError, match="damaged or not the file its card describes"):
        load_learner(saved)


def test_names_are_those_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    assert available_weights() == []
    for name in ("small", "big"):
        save_learner(small_learner(), tmp_path / f"{name}.safetensors", note=name)
    assert available_weights() == ["big", "small"]
    learner = load_learner("big")
    assert learner.card["note"] == "big"
    assert load_learner("big") is learner  # once a process
    assert load_learner(tmp_path / "big.safetensors") is not learner


@pytest.mark.parametrize("wrong", ["small", "nowhere/small.safetensors", Path("."), ""])
def test_an_unknown_name_lists_those_there_are(wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    save_learner(small_learner(), tmp_path / "big.safetensors")
    with pytest.raises(ValueError, match=r"neither a name in \['big'\] nor the path"):
        load_learner(wrong)


@pytest.mark.parametrize("name", available_weights())
def test_the_weights_of_the_package_can_be_loaded(name):
    learner = load_learner(name)
    assert learner.card["n_parameters"] == sum(p.numel() for p in learner.parameters())
    assert all(p.isfinite().all() for p in learner.parameters())
    assert (store.FOLDER / f"{name}.safetensors").stat().st_size < 8e6
