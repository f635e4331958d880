"""Folders that results are written to: whether they can be, and by one process at a time."""

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

#: The file that meta_fit keeps in its ``checkpoint_dir``.
CHECKPOINT = "checkpoint.safetensors"


def expanded(path):
    """A path in which ``~`` is the user's folder; where there is none, it stays as it is."""
    return Path(os.path.expanduser(path))


def checkpoint_file(folder):
    """Where a run keeps its checkpoint, a path; a ValueError if a folder cannot be called so."""
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(f"checkpoint_dir must be the path of a folder, or None, got {folder!r}.")
    if folder == "":  # of a variable that is not set; it would be the current one
        raise ValueError("checkpoint_dir is empty: name a folder, or leave it None.")
    return expanded(folder) / CHECKPOINT


def check_writable(path, name, make=False):
    """Refuse a file that cannot be written, before the work of which it shall tell.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    name : str
        What it is called in the error, such as "checkpoint_dir".
    make : bool, default=False
        Whether to make its folder if need be.

    Raises
    ------
    OSError
        If there is something else in its place, or its folder cannot be made or written.
    """
    try:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(
            f"{name}: {path.parent} cannot be written ({error}). Give another, or make it a "
            "folder that you may write to."
        ) from error
    if path.exists() and not path.is_file():
        raise OSError(f"{name}: {path} is no file. Move it, or give another place.")


@contextmanager
def locked(folder):
    """Write to a folder while no other process that asks does.

    The system forgets the lock of a process that dies, and nothing is left in the folder. Where
    there are no such locks, as on some network disks, this does nothing.

    Parameters
    ----------
    folder : pathlib.Path
    """
    place = None
    if fcntl is not None:
        with suppress(OSError):
            place = os.open(folder, os.O_RDONLY)
            fcntl.flock(place, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if place is not None:
            with suppress(OSError):  # a child that was forked meanwhile holds it, too
                fcntl.flock(place, fcntl.LOCK_UN)
            os.close(place)
