"""Progress bars that stop, instead of the work, if stderr cannot be written."""

import sys
from contextlib import suppress

from tqdm.auto import tqdm


class ProgressBar(tqdm):
    """A bar of tqdm on stderr; without stderr, or where it breaks, the work continues without it.

    Parameters are those of :class:`tqdm.tqdm`.
    """

    def __init__(self, *args, disable=False, **settings):
        try:
            super().__init__(*args, disable=disable or sys.stderr is None, **settings)
        except OSError:  # stderr could not be flushed
            super().__init__(*args, disable=True, **settings)

    def display(self, *args, **settings):
        """Draw the bar.

        tqdm holds a lock meanwhile that all bars share, and an error would leave it taken: other
        threads, and processes forked later, would wait for it forever.
        """
        try:
            return super().display(*args, **settings)
        except OSError:  # a closed pipe, or a full disk
            self.disable = True

    def close(self):
        """Draw the bar for the last time."""
        with suppress(OSError):
            super().close()
