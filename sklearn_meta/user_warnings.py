"""Warnings that point at the line of whoever called the package."""

import sys
import warnings

#: Modules between the user's line and what is warned of.
_BETWEEN = {__name__.partition(".")[0], "joblib", "sklearn", "skorch", "torch"}
_BETWEEN |= {"_collections_abc", "collections", "contextlib", "copy", "functools", "pickle"}


def warn(message):
    """Warn, as of the innermost line that is neither this package's nor of one that called it.

    Which of these stand between differs from call to call, so that no ``stacklevel`` would do. In
    a thread, where no line of the user may be left, it is the outermost.

    Parameters
    ----------
    message : str
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
