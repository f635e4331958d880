"""A lock and threads that do not block forked child processes."""

import os
import threading
from concurrent.futures import Future


class ForkedLock:
    """Reentrant lock, used as a context, that is free in a forked child.

    The child does not have the thread that would release it.
    """

    def __init__(self):
        self._begin_anew()
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self):
        self._lock = threading.RLock()

    def __enter__(self):
        self._lock.acquire()
        return self

    def __exit__(self, *error):
        self._lock.release()


def in_own_thread(function, *arguments):
    """Call a function in a thread of its own; return what it returns, or raise what it raises.

    torch's helper threads belong to the thread that called torch, and a forked child of that thread
    would wait for them forever: servers load weights and then fork. An executor would not do: it
    refuses work once the main thread has ended, even if other threads go on. If no thread can be
    started, the function runs in the caller's.

    Parameters
    ----------
    function : callable
    *arguments
    """
    told = Future()

    def run():
        try:
            told.set_result(function(*arguments))
        except BaseException as error:
            told.set_exception(error)

    try:
        threading.Thread(target=run).start()
    except RuntimeError:  # no new threads: Python 3.12 is exiting, or a limit of the system
        return function(*arguments)
    return told.result()
