"""Means over observed elements, and over the labelled rows of each class."""

import torch


def masked_mean(values, observed, dim, keepdim=False):
    """Mean of the elements of ``values`` (..., H) that are ``observed`` (...); 0 if there are none.

    ``dim`` may be one dimension or several, counted from the front.
    """
    weights = observed.to(values.dtype)[..., None]
    count = weights.sum(dim, keepdim).clamp(min=1)
    return (values * weights).sum(dim, keepdim) / count


def class_means(rows, labels):
    """Mean of the labelled rows of each class, without autocast; 0 if a class has no rows.

    Parameters
    ----------
    rows : tensor of shape (B, N, D)
    labels : tensor of shape (B, N, C)
        One-hot classes; unlabelled rows are NaN.

    Returns
    -------
    tensor of shape (B, C, D)
    """
    member = labels.nan_to_num(0).to(rows.dtype)
    weights = member / member.sum(1, keepdim=True).clamp(min=1)
    with torch.autocast(rows.device.type, enabled=False):
        return weights.transpose(1, 2) @ rows
