"""Tasks with more classes than a network was trained for: their classes are read in groups.

Shape legend as in the backbones: B tasks, N rows, M attributes, C classes,
H embedding width of an attribute.
"""

import torch
from torch.nn import functional as F

from .backbones.standardisation import moments_of, standardise
from .heads.base import known_classes
from .means import class_means, masked_mean

#: Number of different ways in which classes are grouped.
N_GROUPINGS = 2


def embed(backbone, x, labels, readable, columns, classes, memory):
    """Embed the rows of classification tasks with more classes than a backbone can tell apart.

    The backbone reads ``backbone.most_classes`` groups in place of the classes, once for each of
    ``N_GROUPINGS`` groupings, and the embeddings are concatenated. The head still tells single
    classes apart, by the distances in all of them: the logits of Eq. 9 of paper 000 add up. This is
    not in the paper, whose tasks have few classes.

    Parameters
    ----------
    backbone : torch.nn.Module
    x, labels, readable, columns, classes, memory
        As a backbone takes them.

    Returns
    -------
    z : tensor of shape (B, N, M, N_GROUPINGS * H)
        If a task of the batch has few classes, the backbone reads them as they are, and all but
        the first H values are zero.
    memory : list
    """
    if memory is None:
        task = x, labels, readable, columns, classes
        memory = [(members, None) for members in group_classes(*task, backbone.most_classes)]
    few = (classes.sum(1) <= backbone.most_classes)[:, None, None, None]
    embeddings, remembered = [], []
    for members, of_backbone in memory:
        groups = members.any(1)
        z, of_backbone = backbone(x, labels @ members, readable, columns, groups, of_backbone)
        embeddings.append(z.masked_fill(few, 0) if embeddings else z)
        remembered.append((members, of_backbone))
    return torch.cat(embeddings, -1), remembered


@torch.no_grad()
def group_classes(x, labels, readable, columns, classes, n_groups):
    """Group classes along the first principal axes of their means.

    The classes of a group are neighbours, like the parts of a single class. The order of classes,
    rows and attributes does not matter, unless scores or lengths of axes are equal. If there is
    only one axis, both groupings are along it.

    Parameters
    ----------
    x, labels, readable, columns, classes
        As a backbone takes them.
    n_groups : int

    Returns
    -------
    list of N_GROUPINGS tensors of shape (B, C, n_groups)
        One where a class is in a group, otherwise zero. In tasks with at most ``n_groups`` classes
        each has a group of its own.
    """
    moments = moments_of(x, readable)
    x = standardise(x, moments).masked_fill(~(columns & moments.varied)[:, None], 0).nan_to_num(0)
    known = known_classes(labels, classes)
    n_known = known.sum(1, keepdim=True)
    means = class_means(x, labels)
    means = means - masked_mean(means, known, 1, keepdim=True)
    means = means.masked_fill(~known[..., None], 0)
    axes, lengths, _ = torch.linalg.svd(means, full_matrices=False)
    scores = axes * lengths[:, None]  # (B, C, axes)
    scores = scores * torch.where(scores.pow(3).sum(1, keepdim=True) < 0, -1, 1)  # fixes the sign
    rounding = torch.finfo(x.dtype).eps * max(means.shape[1:])
    n_axes = (lengths > rounding * lengths[:, :1]).sum(1).clamp(min=1)
    few = classes.sum(1, keepdim=True) <= n_groups
    groupings = []
    for i in range(N_GROUPINGS):
        axis = (i % n_axes)[:, None, None].expand(-1, scores.shape[1], 1)
        score = scores.gather(2, axis)[..., 0].masked_fill(~known, torch.inf)
        rank = score.argsort(dim=1, stable=True).argsort(1)
        # Divide by the middle of each class's rank, so that the axis's direction does not matter.
        group = (2 * rank + 1) * n_groups // (2 * n_known.clamp(min=1))
        group = torch.where(few, rank, group).clamp(max=n_groups - 1)
        members = F.one_hot(group, n_groups) * classes[..., None]
        groupings.append(members.to(labels.dtype))
    return groupings
