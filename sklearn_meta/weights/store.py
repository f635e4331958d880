"""Safetensors plus a json card: saved atomically, verified when loaded, never unpickled."""

import hashlib
import json
import os
import reprlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from ..distributed import is_first_process
from ..folders import CHECKPOINT, check_writable, expanded, locked
from ..learner import build_learner
from ..locks import in_own_thread
from ..seeding import undrawn
from . import hub
from .validation import ROOM, check_numbers, check_sizes, no_json

FOLDER = Path(__file__).parent

# Shortens a config in error messages: it may contain a whole vocabulary.
_SHORT = reprlib.Repr()
_SHORT.maxdict, _SHORT.maxstring = 20, 60

#: Names of the two files of a folder or hub repository; the card is fetched first.
CARD, WEIGHTS = "model.json", "model.safetensors"


def available_weights(task=None):
    """Names of the weights that the package contains.

    Parameters
    ----------
    task : str, default=None
        Only weights for this task, such as "classification"; all if None.

    Returns
    -------
    list of str
        Sorted names.
    """
    cards = sorted(FOLDER.glob("*.json"))
    if task is not None:
        cards = [path for path in cards if json.loads(path.read_bytes())["config"]["task"] == task]
    return [path.stem for path in cards]


def save_learner(learner, path, /, **card):
    """Save a learner's weights and card to a file.

    If the process is killed at any moment, either the old pair or the new one can be loaded;
    without an old one, nothing or the new one. Of several processes started by torchrun only the
    first writes; the others do not wait for it.

    Parameters
    ----------
    learner : Learner
        Learner built from a named backbone and head.
    path : path
        Path ending in ``.safetensors``; the card is saved beside it, ending in ``.json``.
    **card : json values
        Entries of the card: data, recipe, seed, scores.

    Returns
    -------
    pathlib.Path
        Path of the weights.

    Raises
    ------
    ValueError
        If the learner has modules that cannot be rebuilt from name and config, or the card is not
        valid json.
    OSError
        If the folder cannot be written, or the file in the card's place is not a card.
    """
    path = expanded(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"The path must end in .safetensors, got {str(path)!r}.")
    weights, card = _dump(learner, card)
    if is_first_process():
        for place in (path, path.with_suffix(".json")):  # before either is written
            check_writable(place, "path", make=True)
        check_is_card(path.with_suffix(".json"))
        with locked(path.parent):  # all processes give unfinished files the same names
            _write_pair(path, weights, card)
    return path


def save_pretrained(learner, target, /, **card):
    """Save a learner's weights and card to a folder or a hub repository.

    Of several processes started by torchrun only the first saves, as in :func:`save_learner`.

    Parameters
    ----------
    learner : Learner
        Learner built from a named backbone and head.
    target : path or str
        Folder for ``model.safetensors`` and ``model.json``, created if need be; or
        ``"hub:owner/name"``, an existing repository, or ``"hub:owner/name@branch"``.
    **card : json values
        Entries that are added to the card that the weights were loaded with.

    Returns
    -------
    pathlib.Path or str
        Path of the weights, or their hub id with the commit, as :func:`load_learner` accepts it; in
        processes other than the first, the hub id without the commit.

    Raises
    ------
    ValueError
        As in :func:`save_learner`; or if the repository or branch does not exist, or the name of
        the folder is empty.
    ImportError
        If saving to the hub and ``huggingface_hub`` is not installed.
    OSError
        If the folder or the repository cannot be written.
    """
    if target == "":  # from an unset variable; it would mean the current folder
        raise ValueError("The folder to save to has an empty name: use '.' for the current folder.")
    card = {**(getattr(learner, "card", None) or {}), **card}
    hub_id = hub.as_hub_id(target)
    if hub_id is None or not target.startswith(hub.PREFIX):  # no prefix: a folder
        return save_learner(learner, Path(target) / WEIGHTS, **card)
    weights, card = _dump(learner, card)
    if not is_first_process():
        return str(hub_id)
    files = {CARD: card, WEIGHTS: weights}
    return str(hub.upload(hub_id, files, "Weights and card of sklearn_meta"))


def load_learner(name_or_path, *, revision=None, cache_dir=None, local_files_only=False):
    """Load weights by name ("default"), path or hub id.

    A name is resolved in this order:

    1. a name in :func:`available_weights`: weights of the package;
    2. a path that exists: that file, or ``model.safetensors`` of that folder;
    3. a string ``owner/name`` or ``owner/name@revision``: that repository of the Hugging Face
       hub, at that branch, tag or commit.

    ``hub:owner/name`` and ``hub:owner/name@revision`` always mean the hub, whatever paths exist,
    and are retried if it cannot be reached; what may be a mistyped path is tried once. A
    ``pathlib.Path``, and a string ending in ``.safetensors`` without that prefix, never mean the
    hub. A ``Path`` is never a name of weights in the package either.

    Parameters
    ----------
    name_or_path : str or path
        Name of weights, path of a ``.safetensors`` file with its card beside it, folder saved by
        :func:`save_pretrained`, or hub id.
    revision : str, default=None
        Branch, tag or commit of a hub repository, instead of ``@revision``. If None, the newest
        commit of the branch ``main``.
    cache_dir : path, default=None
        Folder where ``huggingface_hub`` caches files; its usual one if None.
    local_files_only : bool, default=False
        Whether to load hub repositories from that cache only. The environment variable
        ``HF_HUB_OFFLINE=1`` has the same effect for a whole process.

    Returns
    -------
    Learner, FewShotLearner, MemoryLearner, MixtureLearner or TextLearner
        The learner that the card describes, in eval mode. Its attribute ``card`` is the card, a
        dict; for weights from the hub its entry "hub" is ``hub:owner/name@commit``, the id of
        exactly these weights. Weights in the package are loaded once per process and shared: do not
        modify them in place.

    Raises
    ------
    ValueError
        If the weights do not exist, or are damaged, foreign or of another architecture.
    ImportError
        If the weights are on the hub and ``huggingface_hub`` is not installed.
    OSError
        If the hub cannot be reached, or must not be, and the weights are not cached.
    """
    name = str(name_or_path)
    shipped = isinstance(name_or_path, str) and name in available_weights()
    path, hub_id = expanded(name), hub.as_hub_id(name_or_path)
    if shipped or (path.exists() and not name.startswith(hub.PREFIX)):
        hub_id = None
    if revision is not None:
        if hub_id is None or hub_id.revision is not None:
            raise ValueError(
                f"revision={revision!r} needs a hub repository named without a revision, got "
                f"{name!r}."
            )
        hub_id = hub_id._replace(revision=revision)
    if shipped:
        return _load_once(FOLDER / f"{name}.safetensors")
    if hub_id is not None:
        options = {"cache_dir": cache_dir, "local_files_only": local_files_only}
        return _load_from_hub(hub_id, guessed=not name.startswith(hub.PREFIX), **options)
    is_folder = path.is_dir()
    if is_folder:
        path = path / WEIGHTS
    is_there = path.is_file() or _unfinished(path).is_file()
    state = path.with_name(CHECKPOINT) if is_folder and not is_there else path
    if state.name == CHECKPOINT and state.is_file() and not state.with_suffix(".json").is_file():
        raise ValueError(
            f"{state} is a checkpoint of meta_fit, not weights to load: call meta_fit as before, "
            "which resumes from it, and then save_pretrained."
        )
    if path.suffix == ".json" and path.is_file():
        raise ValueError(
            f"{path} is a card: give the weights that it describes, "
            f"{path.with_suffix('.safetensors')}."
        )
    if not is_there:
        raise ValueError(
            f"No weights {name!r}: expected a name in {available_weights()}, the path of a "
            f".safetensors file or of a folder with a {WEIGHTS}, or a hub id, "
            "'hub:owner/name@revision'."
        )
    return _load(path)


def _load_from_hub(hub_id, **options):
    folder = hub.fetch(hub_id, (CARD, WEIGHTS), **options)
    at_commit = hub_id._replace(revision=folder.name)
    try:
        learner = _load(folder / WEIGHTS)
    except ValueError as error:
        files = " and ".join(str((folder / name).resolve()) for name in (CARD, WEIGHTS))
        raise ValueError(
            f"Weights of {at_commit} are refused: {error} They stay refused as long as they are in "
            f"the cache; if the repository is sound, remove {files}."
        ) from error
    hub.note(hub_id, folder)
    learner.card["hub"] = str(at_commit)
    return learner


def _load(path):
    try:
        _, raw, card = _read_pair(path)
    except ValueError:  # another process may be saving: look again when it is done
        with locked(path.parent):
            _, raw, card = _read_pair(path)
    return in_own_thread(_built, path, raw, card)


def _built(path, raw, card):
    """Build the learner from the bytes of a file and its card."""
    config = card["config"]
    try:
        state = load_tensors(raw)
    except (SafetensorError, RuntimeError) as error:  # torch's: too large a shape
        raise ValueError(
            f"{path} is not a safetensors file ({error}). Other formats, pickles above all, are "
            "not read."
        ) from error
    try:
        check_sizes(config, len(raw))
        # On the CPU, whatever the caller's default device: weights of the package are shared.
        with torch.device("cpu"), undrawn(ROOM + 10 * len(raw)):
            learner = build_learner(config)
        check_numbers(learner, state)
        learner.load_state_dict(state)
    except Exception as error:  # an edited card may hold any configuration
        raise ValueError(
            f"{path} does not fit the architecture its card names ({_SHORT.repr(config)}): {error}"
        ) from error
    learner.card = card
    return learner.eval().requires_grad_(False)


_load_once = lru_cache(maxsize=None)(_load)


def _dump(learner, card):
    """Return the bytes of weights and card; the store's own entries come first and win."""
    if learner.config is None:
        raise ValueError(
            "Only a learner built from names (Learner('vsa', 'prototypes')) has a config that "
            "can be written to a card; this one holds a module of your own. Save its state_dict."
        )
    state = {name: tensor.contiguous().cpu() for name, tensor in learner.state_dict().items()}
    weights = dump_tensors(state)
    own = {
        "config": learner.config,
        "n_parameters": sum(parameter.numel() for parameter in learner.parameters()),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    card = own | card | own
    card.pop("hub", None)  # where the loaded copy came from; wrong for this one
    try:
        text = json.dumps(card, indent=1, allow_nan=False, default=_plain)
        return weights, (text + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"The card takes json values only: {error}.") from error


def _plain(value):
    """Convert a NumPy number to a JSON value: searches over settings produce such numbers."""
    if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


# Two files cannot be replaced in one step, so one of them decides: the card. New weights are
# written completely beside the old ones, then the card is replaced, then the weights are moved to
# their place. A reader takes the file whose sha256 the card names. Before the card is replaced,
# that is the old one, still in its place; afterwards it is the new one, moved or not.


def _unfinished(path):
    """Path of a new file until it is moved to its place."""
    return path.with_name(path.name + ".new")


def _write_pair(path, weights, card):
    card_path = path.with_suffix(".json")
    with suppress(ValueError):  # no complete pair to keep
        place, *_ = _read_pair(path)
        if place != path:  # an earlier save was killed before its last step
            os.replace(place, path)
    try:
        _unfinished(path).write_bytes(weights)
        _unfinished(card_path).write_bytes(card)
        os.replace(_unfinished(card_path), card_path)
    except OSError as error:
        for each in (path, card_path):
            _unfinished(each).unlink(missing_ok=True)
        if error.filename is None:  # such as a full disk
            raise OSError(
                f"{path} cannot be written ({error}): make room on the disk, or give another path."
            ) from error
        raise
    os.replace(_unfinished(path), path)


def _read_pair(path):
    """Return the path of the weights that the card describes, their bytes, and the card."""
    card = read_card(path)
    for place in (path, _unfinished(path)):
        with suppress(FileNotFoundError):
            raw = place.read_bytes()
            if hashlib.sha256(raw).hexdigest() == card["sha256"]:
                return place, raw, card
    raise ValueError(
        f"{path} is damaged or not the file its card describes: its sha256 differs. Fetch both "
        "files again, or reinstall the package."
    )


def check_is_card(path):
    """Refuse to overwrite a file that is not a card, such as a recipe.

    Raises
    ------
    OSError
        If there is such a file.
    """
    if path.is_file() and path.stat().st_size:
        try:
            read_card(path)
        except ValueError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise OSError(
                f"{path} is not a card of weights, and would be replaced by one: move it, or "
                "choose another name."
            ) from error


def read_card(path):
    """Return the card beside weights, a dict; raise a ValueError if it cannot be read."""
    path = path.with_suffix(".json")
    try:
        card = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_json)
        card["config"], card["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path.with_suffix('.safetensors')} has no readable card {path.name} beside it "
            f"({error}): copy both files, the weights and their card, or save them again."
        ) from error
    card.pop("hub", None)  # set by whoever fetched it, never by the file
    return card
