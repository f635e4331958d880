"""A lock of the threads of a process that leaves its forked children free."""

import os
import threading


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
