"""Randomness that an int decides, whichever of this package's estimators are trained at a time."""

import contextlib
import os
import threading

import torch

#: Torch's generator belongs to the process: two threads that seeded it at once would draw by turns.
_GENERATOR = threading.RLock()


def _begin_anew():
    """A forked child has no thread that would give the lock back."""
    global _GENERATOR
    _GENERATOR = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_begin_anew)


@contextlib.contextmanager
def seeded(seed=None):
    """Torch's own generator, begun at a seed and left as it was; for one thread at a time.

    Parameters
    ----------
    seed : int, default=None
        None leaves it to what runs inside.
    """
    with _GENERATOR, torch.random.fork_rng(range(torch.cuda.device_count())):
        if seed is not None:
            torch.manual_seed(seed)
        yield
