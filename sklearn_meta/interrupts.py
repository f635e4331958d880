"""Ctrl-C that waits until something is done that must not be left in the middle."""

import signal
import threading
from contextlib import contextmanager


@contextmanager
def deferred_interrupts():
    """Heed Ctrl-C afterwards, whatever it does: end the program, or training.

    Processes that begin meanwhile heed none. In a thread, which has no signals, nothing changes.
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
