"""Real processes for tests, forked from one that has imported the package, which takes seconds."""

import multiprocessing

import torch
from joblib import parallel_config
from joblib.parallel import MultiprocessingBackend

CONTEXT = multiprocessing.get_context("forkserver")
#: tests.preloaded imports all of it, but is found from the project's folder alone. From other
#: folders the other two are preloaded.
CONTEXT.set_forkserver_preload(["tests.preloaded", "sklearn_meta.training", "torch._dynamo"])


def started(function, *arguments, daemon=True):
    """Start a process that calls a function of a module; the arguments must be picklable."""
    process = CONTEXT.Process(target=_alone, args=(function, *arguments), daemon=daemon)
    process.start()
    return process


class _Forked(MultiprocessingBackend):
    def configure(self, *args, **settings):
        return super().configure(*args, **settings | {"context": CONTEXT})


def joblib_forks():
    """A context in which joblib forks such processes; its usual ones import the package anew."""
    return parallel_config(_Forked())


def ended(process):
    """Wait for a process and return its exit status: minus the signal's number if it was killed.

    A process that still runs after three minutes (because two wait for each other, say) is killed,
    with an error.
    """
    process.join(180)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{process.name} was still running after three minutes")
    return process.exitcode


def _alone(function, *arguments):
    torch.set_num_threads(1)
    function(*arguments)
