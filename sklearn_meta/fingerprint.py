"""What tells the tables, tasks and weights of one run from another's, the same in each process.

Text that Python makes of an object may hold its address, and ``hash`` differs between processes:
here contents are hashed, and settings become plain values, so that an error can name them.
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

#: What is written in place of contents: it says no more than that they are others.
MARK = "sha256:"
_LONGEST = 1000  # characters of settings that are written out
_SHOWN = 60  # and of a value that an error shows
_NAMED = 5  # settings that an error names; of the others it tells the number


def described(thing, depth=12):
    """Settings and contents of a source, a sampler or a callback, as values that json holds.

    Of this package's objects these are the public attributes, of others the parameters that they
    were made with, as far as an attribute of that name keeps them; ``names``, if there are any,
    stand for the rest. Nothing is read that is not in memory. Modules and generators, which change
    in training, are known by their class.

    Parameters
    ----------
    thing : object
    depth : int, default=12
        How far objects within objects are followed.

    Returns
    -------
    bool, int, float, str, None, list or dict
        Of contents, and of settings that are long, a text that begins with ``MARK``.
    """
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, Integral):
        return int(thing)
    if isinstance(thing, Real):
        return float(thing) if math.isfinite(thing) else str(float(thing))
    if isinstance(thing, PurePath):  # the folders above are one machine's own
        return thing.name
    if isinstance(thing, torch.Tensor) and thing.layout == torch.strided and not thing.is_meta:
        thing = thing.detach().cpu().double().numpy()
    if isinstance(thing, np.ndarray | np.generic):
        return _array(np.asarray(thing))
    if hasattr(type(thing), "iloc"):  # of its class: an object may answer to any name
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
    return text if len(text) <= _LONGEST else _digest(text.encode())  # as of dates and decimals


def _settings(thing, depth):
    """What is known of any other object, by name."""
    state, names = getattr(thing, "__dict__", {}), getattr(thing, "names", None)
    if isinstance(names, list | tuple):
        return {"names": [str(name) for name in names]}
    if isinstance(thing, Mapping) and "datasets" not in state:  # it may load what is asked for
        return {"names": [str(name) for name in thing]}
    if any(kind.__module__.partition(".")[0] == __package__ for kind in type(thing).__mro__):
        names = [name for name in state if not name.startswith("_")]
    else:
        try:
            names = [name for name in inspect.signature(type(thing)).parameters if name in state]
        except (TypeError, ValueError):  # of a class that is not Python's
            names = []
    return {name: described(state[name], depth) for name in names}


def _array(array):
    if array.dtype.hasobject or array.dtype.kind == "T":  # which have no bytes of their own
        return _digest(json.dumps([described(value) for value in array.flat]).encode())
    if array.size <= 8 and array.dtype.kind in "biuf":
        return described(array.tolist())
    return _digest(f"{array.dtype} {array.shape}".encode(), np.ascontiguousarray(array))


def _frame(frame):
    """Of a DataFrame or a Series."""
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
    """In words, the settings of two runs that are not the same.

    Parameters
    ----------
    theirs, ours : dict
        Values that json holds.

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
        elif all(isinstance(value, str) and value.startswith(MARK) for value in pair):
            told.append(f"{name} has other contents")
        elif any(isinstance(value, str) and value.startswith(MARK) for value in pair):
            told.append(f"{name} is {'missing' if name in theirs else 'new'}")
        else:
            texts = [repr(value) for value in pair]
            shown = [text[:_SHOWN] + "..." * (len(text) > _SHOWN) for text in texts]
            told.append(f"{name} was {shown[0]} and is {shown[1]}")
    more = len(told) - _NAMED
    return "; ".join([*told[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _by_name(value):
    """Settings in a dict, or in a list with their places for names; None for anything else."""
    if isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        return {str(place): inner for place, inner in enumerate(value)}
    return value if isinstance(value, dict) else None


def weights_digest(learner):
    """What tells the weights of a learner from others.

    Parameters
    ----------
    learner : torch.nn.Module

    Returns
    -------
    str
        The sha256 of names and bytes of its parameters and buffers.
    """
    return tensors_digest(learner.state_dict())


def tensors_digest(tensors):
    """The sha256 of names and bytes of tensors in a dict, in its order, as text."""
    hashed = hashlib.sha256()
    for name, tensor in tensors.items():
        hashed.update(name.encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        hashed.update(flat.view(torch.uint8).numpy())  # numpy knows no bfloat16
    return hashed.hexdigest()
