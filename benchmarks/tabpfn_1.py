"""TabPFN 1 (Hollmann et al., 2023), adapted to current names in PyTorch and scikit-learn.

Of the package's releases on PyPI, only `tabpfn==0.1` contains the weights, and `tabpfn==0.1.11` is
the last that reads them. benchmarks/README.md says how to put the two together.
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

#: Number of orders of columns and classes to average over, as its authors did.
N_ORDERS = 32

#: File of the weights in the package; if it is missing, the package tries to download it.
WEIGHTS = "models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt"


def classifier():
    """Return the classifier with its weights.

    Returns
    -------
    TabPFNClassifier
        If there are more than 100 columns, it draws 100.

    Raises
    ------
    FileNotFoundError
        If the weights are not in the package's folder. Nothing is downloaded.
    """
    weights = Path(importlib.util.find_spec("tabpfn").origin).parent / WEIGHTS
    if not weights.is_file():
        raise FileNotFoundError(f"no {WEIGHTS} in {weights.parents[1]}")
    # The weights are a pickle; loading it trusts whoever installed them.
    with mock.patch.dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1"):
        make = _interface().TabPFNClassifier
        return make(N_ensemble_configurations=N_ORDERS, subsample_features=True)


@cache
def _interface():
    """Import the package's module, and give it the names of its time in other packages."""
    torch.nn.modules.transformer.Optional = typing.Optional
    from tabpfn.scripts import transformer_prediction_interface

    transformer_prediction_interface.checkpoint = partial(checkpoint, use_reentrant=False)
    transformer_prediction_interface.check_array = _renamed(check_array)
    transformer_prediction_interface.check_X_y = _renamed(check_X_y)
    return transformer_prediction_interface


def _renamed(check):
    """Return a check of scikit-learn that takes the argument's name of before version 1.6."""
    return lambda *args, force_all_finite: check(*args, ensure_all_finite=force_all_finite)
