"""One process, or several that share each step's work between them.

Under ``torchrun`` or ``accelerate launch`` every process runs the same program; accelerate sets
up their communication. Both classes have the same methods, so the engine does not ask which.
"""

import atexit
import os
import time
from contextlib import nullcontext


def is_first_process():
    """Whether this process is the one, of several that torchrun may have started, that writes."""
    # One that is alone does, whatever rank a scheduler has given it.
    return _is_alone() or _number("RANK", 0) == 0


def _is_alone():
    return _number("WORLD_SIZE", 1) == 1


def _number(name, default):
    """A variable of the environment; where it is empty, nothing is said."""
    return int(os.environ.get(name) or default)


def processes(device):
    """The processes of this run.

    Parameters
    ----------
    device : str
        "cpu", or a GPU; of several processes, each takes the GPU of its local rank.

    Returns
    -------
    OneProcess or ManyProcesses

    Raises
    ------
    ImportError
        If there are several processes and accelerate is not installed.
    """
    return OneProcess(device) if _is_alone() else ManyProcesses(device)


class OneProcess:
    """All the work is done here."""

    rank, count = 0, 1

    def __init__(self, device):
        self.device = device

    def prepare(self, module):
        """The module to call in training."""
        return module

    def gradients(self, module, complete):
        """Context of a backward pass; ``complete`` after it, gradients are those of the step."""
        return nullcontext()

    def mean(self, tensor):
        """Mean of a tensor over the processes."""
        return tensor

    def share_buffers(self, module):
        """Let all processes have the same buffers."""

    def gather(self, items):
        """The items of all processes in one list."""
        return items


class ManyProcesses:
    """A step's groups of tasks are dealt to the processes, and gradients are averaged."""

    def __init__(self, device):
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise ImportError(
                "meta_fit in several processes needs accelerate: "
                "pip install 'sklearn_meta[distributed]'."
            ) from error
        self._accelerator = Accelerator(cpu=str(device) == "cpu")
        atexit.register(_leave)
        place = self._accelerator.device
        self.device = "cpu" if place.type == "cpu" else str(place)  # not "cpu:0"
        self.rank = self._accelerator.process_index
        self.count = self._accelerator.num_processes

    def prepare(self, module):
        """The module wrapped so that its gradients are averaged over the processes."""
        return self._accelerator.prepare(module)

    def gradients(self, module, complete):
        """Context of a backward pass; processes talk in the one that completes the gradients."""
        return nullcontext() if complete else self._accelerator.no_sync(module)

    def mean(self, tensor):
        """Mean of a tensor over the processes, the same to the bit in each."""
        return self._accelerator.reduce(tensor, reduction="mean")

    def share_buffers(self, module):
        """Let all processes have the buffers of the first, as torch does before a forward pass.

        Means and variances of batch norm are those of the groups that a process has seen.
        """
        from accelerate.utils import broadcast

        for buffer in module.buffers():
            broadcast(buffer)

    def gather(self, items):
        """The items of all processes in one list, the same in each."""
        from accelerate.utils import gather_object

        return gather_object(items)


def _leave():
    """Part from the other processes at exit, and wait for the threads that served them.

    Such a thread may still hold the tensors of the last exchange. If it frees them once the
    interpreter is ending, it cannot have the lock that this takes and aborts the process, whose
    work is done. Nothing tells when they are freed, so the lock is left to it for a while.
    """
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(0.3)  # seconds
