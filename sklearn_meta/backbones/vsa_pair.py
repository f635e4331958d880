"""Two networks side by side: one for prototypes, one for a Gaussian process.

Shape legend as in the backbones: B tasks, N rows, M attributes, C label columns, H width of the
embedding of an attribute.
"""

import torch
from torch import nn

from ..label_columns import standardise_labels
from .vsa import VSA


class VSAPair(nn.Module):
    """Two networks of paper 000, whose embeddings of a row are concatenated.

    The first reads label columns unchanged, as :class:`VSA` does. The second reads them
    standardised, like targets of a regression, and passes on the attributes: it is made for a
    Gaussian process. The head "prototypes_gp" gives each of its parts the embedding made for it.
    Not in the paper.

    Parameters
    ----------
    first, second : dict, optional
        Keyword arguments of each :class:`VSA`. For the second, ``attributes`` is always True;
        ``associations`` defaults to True and ``own_labels`` to False.

    Raises
    ------
    ValueError, TypeError
        As in :class:`VSA`.

    Attributes
    ----------
    widths : (int, int)
        Width H of each network's embedding of an attribute.
    """

    def __init__(self, *, first=None, second=None):
        super().__init__()
        of_second = {"associations": True, "own_labels": False, **(second or {})}
        self.first = VSA(**(first or {}))
        self.second = VSA(**of_second | {"attributes": True})
        self.config = {"first": self.first.config, "second": self.second.config}
        self.widths = (self.first.n_embedding(1), self.second.n_embedding(1))

    @property
    def most_classes(self):
        """As in :class:`VSA`."""
        return self.first.most_classes

    def n_embedding(self, n_columns):
        """Length of the embedding of a row with ``n_columns`` attributes, an int."""
        return n_columns * sum(self.widths)

    def forward(self, x, labels, readable, columns, classes, memory=None):
        """Embed the rows of a batch of tasks.

        Parameters are those of :class:`VSA`.

        Returns
        -------
        z : tensor of shape (B, N, M, H + H')
            Embeddings by the first network, and by the second.
        memory : list
            What later calls need from this one: the memory of the first network, that of the
            second, and a mask (B, C) of the label columns that the second reads.
        """
        of_first, of_second, varied = memory or [None] * 3
        first, of_first = self.first(x, labels, readable, columns, classes, of_first)
        if memory is None:
            exact = torch.promote_types(labels.dtype, torch.float32)  # bfloat16 rounds class shares
            labels, _, _, varied = standardise_labels(labels.to(exact), classes)
        second, of_second = self.second(x, labels, readable, columns, varied, of_second)
        return torch.cat([first, second], dim=-1), [of_first, of_second, varied]
