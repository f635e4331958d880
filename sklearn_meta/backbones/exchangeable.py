"""Exchangeable matrix layers: the backbone of SemiProto, MetaLP and SemiMetaGP in paper 000.

Shape legend as in the other backbones: B tasks, N rows, M attributes, C label columns,
S = M + C columns of the matrix (attributes first, then labels), D and H widths.
"""

import torch
from torch import nn
from torch.nn.functional import leaky_relu

from ..means import masked_mean
from ..sizes import check_integers
from .deep_sets import observed_cells
from .standardisation import moments_of


class ExchangeableLayer(nn.Module):
    """Linear map of each cell and the means over its row, its column and the whole matrix.

    Equivariant to permutations of rows and of columns, and the only linear map that is
    (Hartford et al., Theorem 2.1). Means run over observed cells.

    Parameters
    ----------
    width_in, width_out : int
        Widths of a cell before and after.
    """

    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = nn.Linear(4 * width_in, width_out)

    def forward(self, z, observed, readable, memory=None):
        """One layer, without a nonlinearity.

        Parameters
        ----------
        z : (B, N, S, D)
        observed : (B, N, S) bool
            Cells that count in the mean over their row.
        readable : (B, N, S) bool
            Cells that count in the means over their column and over the matrix.
        memory : tensor of shape (B, 1, S, H), optional
            Contribution of the readable rows in an earlier call.

        Returns
        -------
        z : (B, N, S, H)
        memory : tensor of shape (B, 1, S, H)
        """
        of_cell, of_row, of_column, of_matrix = self.linear.weight.chunk(4, dim=1)
        if memory is None:  # multiply the means before they are repeated: cheaper
            column = masked_mean(z, readable, 1, keepdim=True) @ of_column.T
            matrix = masked_mean(z, readable, (1, 2), keepdim=True) @ of_matrix.T
            memory = column + matrix + self.linear.bias
        row = masked_mean(z, observed, 2, keepdim=True) @ of_row.T
        return z @ of_cell.T + row + memory, memory


class Exchangeable(nn.Module):
    """Exchangeable matrix layers on the matrix of attributes and labels.

    The labels of unlabelled rows are missing cells, as in paper 000. The paper does not say how the
    layers tell an attribute from a label: here a cell has the four channels of its Eq. (5), as in
    :class:`sklearn_meta.backbones.VSA`. Nor does it say how the matrix gives a row's embedding:
    here, as in VSA, it is the concatenation of the last layer's output over the attributes, which
    keeps attributes apart; a mean over them would not.

    Parameters
    ----------
    width : int, default=32
        Width of the hidden layers; the paper's.
    n_layers : int, default=3
        Number of layers, with a leaky ReLU between any two; the paper's.
    last_width : int, default=8
        Width of the last layer's output, by default that of VSA.

    Raises
    ------
    ValueError
        If a size is out of range.

    References
    ----------
    J. Hartford et al. Deep models of interactions across sets. ICML 2018; as in section 4.2 of
    paper 000 (SemiProto, MetaLP, SemiMetaGP).
    """

    def __init__(self, *, width=32, n_layers=3, last_width=8):
        super().__init__()
        check_integers(width=width, n_layers=n_layers, last_width=last_width)
        self.config = {"width": width, "n_layers": n_layers, "last_width": last_width}
        widths = [4] + [width] * (n_layers - 1) + [last_width]
        self.layers = nn.ModuleList(map(ExchangeableLayer, widths[:-1], widths[1:]))

    def n_embedding(self, n_columns):
        """Length of the embedding of a row with ``n_columns`` attributes, an int."""
        return n_columns * self.config["last_width"]

    def forward(self, x, labels, readable, columns, classes, memory=None):
        """Embed the rows of a batch of tasks.

        Parameters are those of :class:`sklearn_meta.backbones.VSA`.

        Returns
        -------
        z : tensor of shape (B, N, M, last_width)
            Embeddings; zero at padded attributes, and at those constant over readable rows.
        memory : list
            The standardisation, then the means of each layer.
        """
        moments, *means = memory or [moments_of(x, readable)] + [None] * len(self.layers)
        values, observed = observed_cells(x, moments, columns)
        z, observed = self.input_tensor(values, observed, labels, classes)
        readable = observed & readable[..., None]
        remembered = [moments]
        for i, (layer, mean) in enumerate(zip(self.layers, means, strict=True)):
            z, mean = layer(z if i == 0 else leaky_relu(z), observed, readable, mean)
            remembered.append(mean)
        seen = columns & moments.varied
        return z[:, :, : x.shape[2]].masked_fill(~seen[:, None, :, None], 0), remembered

    def input_tensor(self, values, observed, labels, classes):
        """Tensor Z^(1) of Eq. (5), (B, N, S, 4), and which of its cells are observed, (B, N, S)."""
        known = ~labels.isnan() & classes[:, None]
        labels = labels.masked_fill(~known, 0.0).to(values.dtype)
        observed = torch.cat([observed, known], dim=2)
        is_label = torch.arange(observed.shape[2], device=values.device) >= values.shape[2]
        is_label = is_label.to(values.dtype).expand(observed.shape)
        cells = torch.cat([values, labels], dim=2)
        z = torch.stack([cells, observed.to(cells.dtype), 1 - is_label, is_label], dim=-1)
        return z.to(self.layers[0].linear.weight.dtype), observed
