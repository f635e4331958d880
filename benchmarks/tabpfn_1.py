"""TabPFN 1 (Hollmann et al., 2023), which asks PyTorch and scikit-learn for names they had before.

Of the package's releases on PyPI only `tabpfn==0.1` holds the weights; `tabpfn==0.1.11` is the last
that reads them. benchmarks/README.md says how the two are put together.
"""

import importlib.util
import os
import typing
from functools import cache, partial
from pathlib import Path
from unittest import mock

import torch.nn.modules.transformer
from sklearn.utils.validation import check_array, check_X_y
from torch.utils.checkpoint import checkpoint

#: Orders of columns and classes of which the mean is taken, as many as its authors took.
N_ORDERS = 32

#: Where the package looks for its weights, and asks the network if there are none.
WEIGHTS = "models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt"


def classifier():
    """The classifier, with its weights.

    Returns
    -------
    TabPFNClassifier
        Of more than 100 columns it draws 100.

    Raises
    ------
    FileNotFoundError
        If the weights are not in the package's folder. Nothing is downloaded.
    """
    weights = Path(importlib.util.find_spec("tabpfn").origin).parent / WEIGHTS
    if not weights.is_file():
        raise FileNotFoundError(f"no {WEIGHTS} in {weights.parents[1]}")
    # The weights are a pickle, read as one on the word of whoever has put them there.
    with mock.patch.dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1"):
        make = _interface().TabPFNClassifier
        return make(N_ensemble_configurations=N_ORDERS, subsample_features=True)


@cache
def _interface():
    """The package's module, told the names that others had when it was written."""
    torch.nn.modules.transformer.Optional = typing.Optional
    from tabpfn.scripts import transformer_prediction_interface

    transformer_prediction_interface.checkpoint = partial(checkpoint, use_reentrant=False)
    transformer_prediction_interface.check_array = _renamed(check_array)
    transformer_prediction_interface.check_X_y = _renamed(check_X_y)
    return transformer_prediction_interface


def _renamed(check):
    """A check of scikit-learn by the name that its argument had before 1.6."""
    return lambda *args, force_all_finite: check(*args, ensure_all_finite=force_all_finite)
