"""Class codes as the label matrix Y of Eq. (5) that backbones and heads take."""

import math

import torch


def label_matrix(y, n_classes, dtype=torch.float64):
    """One-hot rows of codes (B, N), NaN where the code is -1: (B, N, n_classes)."""
    y = torch.as_tensor(y)
    one_hot = (y[..., None] == torch.arange(n_classes)).to(dtype)
    return one_hot.masked_fill((y < 0)[..., None], math.nan)
