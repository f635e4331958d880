"""Means over those rows that are there, and over those of each class."""

import torch


def masked_mean(values, observed, dim, keepdim=False):
    """Mean over those elements of ``values`` (..., H) that are ``observed`` (...); 0 of none.

    ``dim``, counted from the front, may be one dimension or several.
    """
    weights = observed.to(values.dtype)[..., None]
    count = weights.sum(dim, keepdim).clamp(min=1)
    return (values * weights).sum(dim, keepdim) / count


def class_means(rows, labels):
    """Mean of the labelled rows of each class, in full precision; 0 of none.

    Parameters
    ----------
    rows : tensor of shape (B, N, D)
    labels : tensor of shape (B, N, C)
        One-hot classes; NaN throughout rows without a label.

    Returns
    -------
    tensor of shape (B, C, D)
    """
    member = labels.nan_to_num(0).to(rows.dtype)
    weights = member / member.sum(1, keepdim=True).clamp(min=1)
    with torch.autocast(rows.device.type, enabled=False):
        return weights.transpose(1, 2) @ rows
