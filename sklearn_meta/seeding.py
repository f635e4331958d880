"""Randomness that depends on an int alone, even if several estimators are trained at a time."""

import contextlib
import math

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .locks import ForkedLock

#: Torch's generator belongs to the process: without a lock, two threads that seed it at once would
#: draw from it in turns.
_GENERATOR = ForkedLock()


@contextlib.contextmanager
def seeded(seed):
    """Seed torch's generator within a context and restore it afterwards; for one thread at a time.

    Parameters
    ----------
    seed : int or None
        If None, the generator is not seeded, only restored.
    """
    with _GENERATOR, torch.random.fork_rng(range(torch.cuda.device_count())):
        if seed is not None:
            # For devices that are not there torch would note down the whole stack, each time.
            # Apple's GPU is left out: no estimator runs there, and fork_rng would not restore it.
            there = torch.accelerator.device_count() > 0 and not torch.backends.mps.is_available()
            (torch.manual_seed if there else torch.default_generator.manual_seed)(int(seed))
        yield


class undrawn(TorchFunctionMode):
    """Context in which new modules stay uninitialised: weights from a file replace them.

    Nothing is drawn from torch's generator, which belongs to the process: a draw would change the
    random numbers of another thread that is training.

    Parameters
    ----------
    most : int, default=None
        Maximum number of elements of all tensors that are made, counted once per call. More raise a
        ValueError, so that a file cannot ask for a module of any size.
    """

    def __init__(self, most=None):
        super().__init__()
        self.left = math.inf if most is None else most

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Call ``function``, unless it draws weights."""
        kwargs = kwargs or {}
        if function in _DRAW_WEIGHTS:
            return args[0] if args else kwargs["tensor"]
        made = function(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            self.left -= made.numel()
            if self.left < 0:
                raise ValueError("it needs many times more numbers than the file holds.")
        return made


_DRAW_WEIGHTS = {
    *(nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_),
    *(torch.Tensor.uniform_, torch.Tensor.normal_),
}
