"""Label columns as a regression reads them: standardised by the labelled rows.

Shape legend as in the backbones: B tasks, N rows, C label columns (classes or targets).
"""

from typing import NamedTuple

import torch


class LabelColumns(NamedTuple):
    """Standardised label columns of a batch of tasks.

    Parameters
    ----------
    labels : tensor of shape (B, N, C)
        Mean 0 and variance 1 over the labelled rows of a task. Unlabelled rows are NaN, and columns
        that do not vary are zero.
    mean, scale : tensors of shape (B, 1, C)
        Mean and standard deviation of the original labels. For the indicator of a class these are
        its share p of the labelled rows, and the square root of p (1 - p).
    varied : bool tensor of shape (B, C)
        Columns in which labelled rows have more than one value.
    """

    labels: torch.Tensor
    mean: torch.Tensor
    scale: torch.Tensor
    varied: torch.Tensor


def standardise_labels(labels, classes):
    """Standardise the label columns ``classes`` (B, C) of ``labels`` (B, N, C).

    Returns
    -------
    LabelColumns
    """
    known = ~labels.isnan() & classes[:, None]
    count = known.sum(1, keepdim=True).clamp(min=1)
    mean = labels.masked_fill(~known, 0).sum(1, keepdim=True) / count
    deviation = (labels - mean).masked_fill(~known, 0)
    scale = (deviation.square().sum(1, keepdim=True) / count).sqrt()
    # If all labels are equal, their mean may differ from them by rounding.
    rounding = torch.finfo(labels.dtype).eps * (1 + mean.abs()) * 4
    varied = scale > rounding
    scale = scale.masked_fill(~varied, 1)
    unlabelled = labels.isnan().all(-1, keepdim=True)
    standard = (deviation / scale).masked_fill(~varied, 0).masked_fill(unlabelled, torch.nan)
    return LabelColumns(standard, mean, scale, varied[:, 0])
