"""Deferral of Ctrl-C while something runs that must not be interrupted."""

import signal
import threading
from contextlib import contextmanager


@contextmanager
def deferred_interrupts():
    """Defer Ctrl-C within a context; its handler runs afterwards.

    Processes forked within the context ignore Ctrl-C. In a thread other than the main one, which
    receives no signals, this does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    told = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: told.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if told:
        before(*told[0])
