"""Turn class codes into the label matrix Y of Eq. (5), which backbones and heads take."""

import math

import torch


def label_matrix(y, n_classes, dtype=torch.float64):
    """Return one-hot rows (B, N, n_classes) of codes (B, N), with NaN where the code is -1."""
    y = torch.as_tensor(y)
    one_hot = (y[..., None] == torch.arange(n_classes)).to(dtype)
    return one_hot.masked_fill((y < 0)[..., None], math.nan)
