"""Warnings that point at the user's line that called the package."""

import sys
import warnings

#: Packages and modules that may stand between the user's line and the warning.
_BETWEEN = {__name__.partition(".")[0], "joblib", "sklearn", "skorch", "torch"}
_BETWEEN |= {"_collections_abc", "collections", "contextlib", "copy", "functools", "pickle"}


def warn(message):
    """Warn at the innermost line outside this package and the libraries that may have called it.

    How many frames lie between differs from call to call, so no fixed ``stacklevel`` would do. In a
    thread, where no line of the user may be on the stack, the outermost frame is used.

    Parameters
    ----------
    message : str
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
