"""Locks and threads of a process that leave its forked children free."""

import os
import threading
from concurrent.futures import Future


class ForkedLock:
    """A lock that a thread may take several times, as a context; a forked child finds it free.

    The child has no thread that would give it back.
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
    """What a function returns, or raises, that is called in a thread that ends with it.

    The threads that help torch belong to the one that has called it, and a forked child of that one
    waits for them without end: servers load weights, and fork. No executor: none takes work once
    the main thread has ended, though others go on. Where no thread can begin, the caller's is used.

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
    except RuntimeError:  # no more threads: at exit of Python 3.12, or by a limit of the system
        return function(*arguments)
    return told.result()
