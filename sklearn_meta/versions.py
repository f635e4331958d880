"""Pickles of other versions of the package, of which scikit-learn warns for its own alone."""

from sklearn.base import BaseEstimator

from . import __version__
from .user_warnings import warn

_KEY = "_sklearn_meta_version"


class VersionedEstimator(BaseEstimator):
    """Base class of estimators whose pickles name the version of the package."""

    def __getstate__(self):
        return {**super().__getstate__(), _KEY: __version__}

    def __setstate__(self, state):
        """Warn if another version of the package made the pickle."""
        state = dict(state)
        version = state.pop(_KEY, __version__)
        if version != __version__:
            warn(
                f"This {type(self).__name__} was pickled with sklearn_meta {version} and is loaded "
                f"with {__version__}: it may fail, or answer otherwise. Fit it again, or install "
                "that version."
            )
        super().__setstate__(state)
