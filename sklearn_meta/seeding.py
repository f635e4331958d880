"""Randomness that an int decides, whichever of this package's estimators are trained at a time."""

import contextlib
import math

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .locks import ForkedLock

#: Torch's generator belongs to the process: two threads that seeded it at once would draw by turns.
_GENERATOR = ForkedLock()


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
            # For devices that are not there torch would note down the whole stack, each time.
            there = torch.accelerator.device_count() > 0
            (torch.manual_seed if there else torch.default_generator.manual_seed)(int(seed))
        yield


class undrawn(TorchFunctionMode):
    """Context in which modules that are built keep what memory holds: a file replaces it.

    Nothing is drawn from torch's generator then, which belongs to the process: another thread
    that is training at the time would go on from other draws.

    Parameters
    ----------
    most : int, default=None
        Numbers that may be made, the same ones several times: where a module without end is asked
        for, a ValueError ends it.
    """

    def __init__(self, most=None):
        super().__init__()
        self.left = math.inf if most is None else most

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """As it is called, but for what draws weights."""
        kwargs = kwargs or {}
        if function in _DRAW_WEIGHTS:
            return args[0] if args else kwargs["tensor"]
        made = function(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            self.left -= made.numel()
            if self.left < 0:
                raise ValueError("it has many times the numbers that the file holds.")
        return made


_DRAW_WEIGHTS = {
    *(nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_),
    *(torch.Tensor.uniform_, torch.Tensor.normal_),
}
