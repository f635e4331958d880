"""Real processes of tests, forked from one that has imported the package: that takes seconds."""

import multiprocessing

import torch
from joblib import parallel_config
from joblib.parallel import MultiprocessingBackend

CONTEXT = multiprocessing.get_context("forkserver")
#: The first has all of it, but is found from the project's folder alone.
CONTEXT.set_forkserver_preload(["tests.preloaded", "sklearn_meta.training", "torch._dynamo"])


def started(function, *arguments, daemon=True):
    """A process, running, that calls a function of a module, with arguments that can be pickled."""
    process = CONTEXT.Process(target=_alone, args=(function, *arguments), daemon=daemon)
    process.start()
    return process


class _Forked(MultiprocessingBackend):
    def configure(self, *args, **settings):
        return super().configure(*args, **settings | {"context": CONTEXT})


def joblib_forks():
    """A context in which joblib's processes are such ones, too: its usual ones import it all."""
    return parallel_config(_Forked())


def ended(process):
    """The exit status of a process, when it has ended: minus the signal that killed it.

    One that runs for three minutes is ended with an error, such as one of two that waits for the
    other.
    """
    process.join(180)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{process.name} was still running after three minutes")
    return process.exitcode


def _alone(function, *arguments):
    torch.set_num_threads(1)
    function(*arguments)
