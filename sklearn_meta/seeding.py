"""Randomness that an int decides, whichever of this package's estimators are trained at a time."""

import contextlib
import os
import threading

import torch

#: Torch's generator belongs to the process: two threads that seeded it at once would draw by turns.
_GENERATOR, _UNDRAWN = threading.RLock(), threading.RLock()


def _begin_anew():
    """A forked child has no thread that would give the locks back."""
    global _GENERATOR, _UNDRAWN
    _GENERATOR, _UNDRAWN = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_begin_anew)


@contextlib.contextmanager
def seeded(seed):
    """Torch's own generator, begun at a seed and left as it was; for one thread at a time.

    Parameters
    ----------
    seed : int or None
        None leaves it to what runs inside.
    """
    with _GENERATOR, torch.random.fork_rng(range(torch.cuda.device_count())):
        if seed is not None:
            torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def undrawn():
    """Torch's own generator of the CPU, left as it was; for one thread at a time.

    Not a part of :func:`seeded`, whose callbacks may wait for a thread that loads weights, and
    which asks GPUs for their state, so that CUDA would start.
    """
    with _UNDRAWN, torch.random.fork_rng(()):
        yield
