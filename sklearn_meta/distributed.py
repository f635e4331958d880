"""One process, or several that share the work of each step.

Under ``torchrun`` or ``accelerate launch`` every process runs the same program; accelerate sets
up their communication. Both classes have the same methods, so the engine does not ask which.
"""

import atexit
import os
import time
from contextlib import nullcontext


def is_first_process():
    """Whether this process, of several that torchrun may have started, is the one that writes."""
    # A single process always writes, whatever rank a scheduler has given it.
    return _is_alone() or _number("RANK", 0) == 0


def _is_alone():
    return _number("WORLD_SIZE", 1) == 1


def _number(name, default):
    """Integer value of an environment variable; the default if it is empty or not set."""
    return int(os.environ.get(name) or default)


def processes(device):
    """The processes of this run.

    Parameters
    ----------
    device : str
        "cpu", or a GPU; each of several processes uses the GPU of its local rank.

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
    """A single process, which does all the work."""

    rank, count = 0, 1

    def __init__(self, device):
        self.device = device

    def prepare(self, module):
        """The module to call in training."""
        return module

    def gradients(self, module, complete):
        """Context of a backward pass; ``complete`` says whether it is the last one of a step."""
        return nullcontext()

    def mean(self, tensor):
        """Mean of a tensor over the processes."""
        return tensor

    def share_buffers(self, module):
        """Give all processes the same buffers."""

    def gather(self, items):
        """The items of all processes in one list."""
        return items


class ManyProcesses:
    """Several processes, which share the groups of tasks of a step and average gradients."""

    def __init__(self, device):
        try:
            from accelerate import Accelerator
        except ImportError as error:
            raise ImportError(
                "meta_fit in several processes needs accelerate: "
                'pip install "sklearn_meta[distributed]".'
            ) from error
        self._accelerator = Accelerator(cpu=str(device) == "cpu")
        atexit.register(_leave)
        place = self._accelerator.device
        self.device = "cpu" if place.type == "cpu" else str(place)  # not "cpu:0"
        self.rank = self._accelerator.process_index
        self.count = self._accelerator.num_processes

    def prepare(self, module):
        """Wrap the module so that its gradients are averaged over the processes."""
        return self._accelerator.prepare(module)

    def gradients(self, module, complete):
        """Context of a backward pass; processes exchange gradients only in the last of a step."""
        return nullcontext() if complete else self._accelerator.no_sync(module)

    def mean(self, tensor):
        """Mean of a tensor over the processes, the same to the bit in each."""
        return self._accelerator.reduce(tensor, reduction="mean")

    def share_buffers(self, module):
        """Give all processes the buffers of the first, as torch does before a forward pass.

        Otherwise each would have the batch norm statistics of the groups that it has read.
        """
        from accelerate.utils import broadcast

        for buffer in module.buffers():
            broadcast(buffer)

    def gather(self, items):
        """The items of all processes in one list, the same in each."""
        from accelerate.utils import gather_object

        return gather_object(items)


def _leave():
    """Leave the process group at exit, and wait for the threads of the communication.

    Such a thread may still hold the tensors of the last exchange. If it frees them while the
    interpreter is ending, it cannot acquire the interpreter's lock and aborts the process, although
    its work is done. Nothing tells when the tensors are freed, so this sleeps without the lock.
    """
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        time.sleep(0.3)  # seconds
