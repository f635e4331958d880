"""Folders for results: checks that they can be written, and a lock between processes."""

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

#: Name of the file that ``meta_fit`` keeps in ``checkpoint_dir``.
CHECKPOINT = "checkpoint.safetensors"


def expanded(path):
    """Path with ``~`` replaced by the user's folder, if there is one."""
    return Path(os.path.expanduser(path))


def checkpoint_file(folder):
    """Path of a run's checkpoint; raise a ValueError if ``folder`` is not a valid path."""
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(f"checkpoint_dir must be the path of a folder, or None, got {folder!r}.")
    if folder == "":  # such as an unset variable; it would mean the current folder
        raise ValueError("checkpoint_dir is empty: name a folder, or leave it None.")
    return expanded(folder) / CHECKPOINT


def check_writable(path, name, make=False):
    """Raise, before any work is done, if a file for its results cannot be written.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    name : str
        Name of the parameter for the error, such as "checkpoint_dir".
    make : bool, default=False
        Whether to create the folder if it does not exist.

    Raises
    ------
    OSError
        If the path exists and is not a file, or its folder cannot be created or written.
    """
    try:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except FileExistsError as error:
        raise OSError(
            f"{name}: {path.parent} is not a folder. Move it, or choose another place."
        ) from error
    except OSError as error:
        raise OSError(
            f"{name}: {path.parent} cannot be written ({error}). Choose another folder, or make "
            "this one writable."
        ) from error
    if path.exists() and not path.is_file():
        raise OSError(f"{name}: {path} is not a file. Move it, or choose another place.")


@contextmanager
def locked(folder):
    """Lock a folder against other processes that call this, within a context.

    The system releases the lock of a process that dies, and no file is left in the folder. On
    systems without such locks, such as some network disks, this does nothing.

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
            with suppress(OSError):  # unlock: a child forked meanwhile holds the descriptor, too
                fcntl.flock(place, fcntl.LOCK_UN)
            os.close(place)
