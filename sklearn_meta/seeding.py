"""Randomness that an int decides, whatever else draws from torch at the time."""

import contextlib
import threading

import torch

#: Torch's generator belongs to the process: two threads that seeded it at once would draw by turns.
_GENERATOR = threading.RLock()


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
