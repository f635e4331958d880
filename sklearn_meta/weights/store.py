"""Safetensors plus a json card: saved atomically, verified when loaded, never unpickled."""

import hashlib
import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from ..learner import Learner

FOLDER = Path(__file__).parent


def available_weights():
    """Names of the weights inside the package, a sorted list."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def save_learner(learner, path, **card):
    """Write a learner's weights and its card.

    Both files are written beside their target and then renamed, so a kill leaves either the old
    file or the new one.

    Parameters
    ----------
    learner : Learner
        Built from named backbone and head.
    path : path
        Ends in ``.safetensors``; the card goes beside it, ending in ``.json``.
    **card : json values
        What is to be told of the weights: data, recipe, seed, scores.

    Returns
    -------
    pathlib.Path
        Where the weights are.

    Raises
    ------
    ValueError
        If the learner holds modules that no name and config can build again.
    OSError
        If the folder cannot be written.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"The path must end in .safetensors, got {str(path)!r}.")
    if learner.config is None:
        raise ValueError(
            "Only a learner built from names (Learner('vsa', 'prototypes')) has a config that "
            "can be written to a card; this one holds a module of your own. Save its state_dict."
        )
    state = {name: tensor.contiguous().cpu() for name, tensor in learner.state_dict().items()}
    weights = dump_tensors(state)
    card = {
        "config": learner.config,
        "n_parameters": sum(parameter.numel() for parameter in learner.parameters()),
        "sha256": hashlib.sha256(weights).hexdigest(),
        **card,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, weights)
    _replace(path.with_suffix(".json"), (json.dumps(card, indent=1) + "\n").encode())
    return path


def load_learner(name_or_path):
    """Load weights by card name ("default") or path.

    Parameters
    ----------
    name_or_path : str or path
        Name of weights inside the package (see :func:`available_weights`), or the path of a
        ``.safetensors`` file with its card beside it.

    Returns
    -------
    Learner
        In eval mode. Its attribute ``card`` is the card, a dict. Weights of the package are
        loaded once a process and shared: do not change them in place.

    Raises
    ------
    ValueError
        If there are no such weights, or they are damaged, foreign or of another architecture.
    """
    if str(name_or_path) in available_weights():
        return _load_once(FOLDER / f"{name_or_path}.safetensors")
    path = Path(name_or_path)
    if not path.is_file():
        raise ValueError(
            f"No weights {str(name_or_path)!r}: neither a name in {available_weights()} nor the "
            "path of a .safetensors file."
        )
    return _load(path)


def _load(path):
    card_path = path.with_suffix(".json")
    try:
        card = json.loads(card_path.read_text())
        config, sha256 = card["config"], card["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has no readable card {card_path.name} beside it ({error}): copy both files, "
            "the weights and their card."
        ) from error
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise ValueError(
            f"{path} is damaged or not the file its card describes: its sha256 differs. Fetch "
            "both files again, or reinstall the package."
        )
    try:
        state = load_tensors(raw)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a safetensors file ({error}). Other formats, pickles above all, are "
            "not read."
        ) from error
    try:
        learner = Learner(**config)
        learner.load_state_dict(state)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} does not fit the architecture its card names ({config}): {error}"
        ) from error
    learner.card = card
    return learner.eval().requires_grad_(False)


_load_once = lru_cache(maxsize=None)(_load)


def _replace(path, content):
    """Write a file whole or not at all."""
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
