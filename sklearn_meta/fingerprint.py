"""Fingerprints of the tables, tasks and weights of a run, the same in every process.

The repr of an object may contain its address, and ``hash`` differs between processes. So contents
are hashed here, and settings become plain values, which an error can name.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import PurePath

import numpy as np
import torch

#: Prefix of the hash that stands for contents, which shows only whether they differ.
MARK = "sha256:"
_LONGEST = 1000  # maximum length of settings that are written out
_SHOWN = 60  # maximum length of a value in an error message
_NAMED = 5  # maximum number of settings that an error names; the others are counted


def described(thing, depth=12):
    """Describe the settings and contents of a source, sampler or callback as JSON values.

    An object of this package is described by its public attributes, any other object by the
    parameters of its constructor, if attributes of the same names keep them. If an object has
    ``names``, these alone describe it. Nothing is loaded into memory. Modules and generators, which
    change in training, are described by their class.

    Parameters
    ----------
    thing : object
    depth : int, default=12
        How deep objects within objects are followed.

    Returns
    -------
    bool, int, float, str, None, list or dict
        Contents and long settings become a str that begins with ``MARK``.
    """
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, Integral):
        return int(thing)
    if isinstance(thing, Real):
        return float(thing) if math.isfinite(thing) else str(float(thing))
    if isinstance(thing, PurePath):  # parent folders differ between machines
        return thing.name
    if isinstance(thing, torch.Tensor) and thing.layout == torch.strided and not thing.is_meta:
        thing = thing.detach().cpu().double().numpy()
    if isinstance(thing, np.ndarray | np.generic):
        return _array(np.asarray(thing))
    if hasattr(type(thing), "iloc"):  # ask the class: an instance may answer to any name
        return _frame(thing)
    if isinstance(thing, type) or inspect.isroutine(thing):
        return thing.__qualname__
    if depth == 0 or isinstance(thing, torch.nn.Module | np.random.Generator):
        return type(thing).__qualname__
    if isinstance(thing, dict):
        return {str(key): described(value, depth - 1) for key, value in thing.items()}
    if isinstance(thing, set | frozenset):
        thing = sorted(thing, key=str)
    if isinstance(thing, list | tuple | range):
        values = [described(value, depth - 1) for value in thing]
        text = json.dumps(values)
        is_table = hasattr(thing, "_fields")
        return _digest(text.encode()) if is_table or len(text) > _LONGEST else values
    told, text = _settings(thing, depth - 1), repr(thing)
    if told or " at 0x" in text:
        return {"class": type(thing).__qualname__} | told
    return text if len(text) <= _LONGEST else _digest(text.encode())  # such as dates, decimals


def _settings(thing, depth):
    """Describe any other object by a dict of its settings."""
    state, names = getattr(thing, "__dict__", {}), getattr(thing, "names", None)
    if isinstance(names, list | tuple):
        return {"names": [str(name) for name in names]}
    if isinstance(thing, Mapping) and "datasets" not in state:  # may load a table on access
        return {"names": [str(name) for name in thing]}
    if any(kind.__module__.partition(".")[0] == __package__ for kind in type(thing).__mro__):
        names = [name for name in state if not name.startswith("_")]
    else:
        try:
            names = [name for name in inspect.signature(type(thing)).parameters if name in state]
        except (TypeError, ValueError):  # a class written in C
            names = []
    return {name: described(state[name], depth) for name in names}


def _array(array):
    if array.dtype.hasobject or array.dtype.kind == "T":  # the array holds pointers, not contents
        return _digest(json.dumps([described(value) for value in array.flat]).encode())
    if array.size <= 8 and array.dtype.kind in "biuf":
        return described(array.tolist())
    return _digest(f"{array.dtype} {array.shape}".encode(), np.ascontiguousarray(array))


def _frame(frame):
    """Describe a DataFrame or a Series."""
    if not hasattr(frame, "columns"):
        return _array(frame.to_numpy())
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    told = [[str(column.name), _array(column.to_numpy())] for column in columns]
    return _digest(json.dumps(told).encode())


def _digest(*parts):
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part if isinstance(part, bytes) else part.reshape(-1).view(np.uint8))
    return MARK + hashed.hexdigest()[:16]


def difference(theirs, ours):
    """Describe in words the settings in which two runs differ.

    Parameters
    ----------
    theirs, ours : dict
        JSON values.

    Returns
    -------
    str
    """
    told = []
    for name in sorted(theirs.keys() | ours.keys()):
        pair = theirs.get(name), ours.get(name)
        if pair[0] == pair[1]:
            continue
        inner = [_by_name(value) for value in pair]
        if None not in inner:
            told.append(f"{name} ({difference(*inner)})")
        elif any(isinstance(value, str) and value.startswith(MARK) for value in pair):
            how = "is missing" if pair[1] is None else "has other contents"
            told.append(f"{name} {'is new' if pair[0] is None else how}")
        else:
            texts = [repr(value) for value in pair]
            shown = [text[:_SHOWN] + "..." * (len(text) > _SHOWN) for text in texts]
            told.append(f"{name} was {shown[0]} and is {shown[1]}")
    more = len(told) - _NAMED
    return "; ".join([*told[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _by_name(value):
    """A dict as it is, or a list of dicts as a dict by position; None for anything else."""
    if isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        return {str(place): inner for place, inner in enumerate(value)}
    return value if isinstance(value, dict) else None


def weights_digest(learner):
    """Digest that identifies the weights of a learner.

    Parameters
    ----------
    learner : torch.nn.Module

    Returns
    -------
    str
        The sha256 of the names and bytes of its parameters and buffers.
    """
    return tensors_digest(learner.state_dict())


def tensors_digest(tensors):
    """The sha256 of the names and bytes of tensors in a dict, in its order, a str."""
    hashed = hashlib.sha256()
    for name, tensor in tensors.items():
        hashed.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        hashed.update(flat.view(torch.uint8).numpy())  # numpy has no bfloat16
    return hashed.hexdigest()
