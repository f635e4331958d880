"""Warn of pickles made by another version, as scikit-learn does for its own estimators alone."""

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
                f"with {__version__}. It may fail or give other answers: fit it again, or install "
                f"sklearn_meta {version}."
            )
        super().__setstate__(state)
