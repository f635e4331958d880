"""Few-Shot Transformer: attention over a whole few-shot task at once (paper 003).

Shape legend: B episodes, Q queries of each, L labelled positions, S = L + 1 positions of a
sequence (the query is the last), I inputs, D width.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from ..sizes import check_heads, check_integers


class Variant(NamedTuple):
    """A variant of attention (section 4.4).

    Parameters
    ----------
    reads : {"feature", "sequence"}
        Whether a projection reads one position at a time, or all positions of a sequence, stacked.
    is_linear : bool
        Whether projections are linear, or networks of one hidden layer.
    weights : {"vector", "weight"}
        Whether attention weights are scaled dot products of query and key vectors, or the output
        of a network.
    """

    reads: str
    is_linear: bool
    weights: str


#: The paper's ablations. A2 and A4 are impossible: attention weights from one position alone.
VARIANTS = {
    "A1": Variant("feature", True, "vector"),
    "A3": Variant("feature", False, "vector"),
    "A5": Variant("sequence", True, "vector"),
    "A6": Variant("sequence", True, "weight"),
    "A7": Variant("sequence", False, "vector"),
    "A8": Variant("sequence", False, "weight"),
}


class FewShotTransformer(nn.Module):
    """Encoder of a sequence of labelled rows and one query, by deep attention (Eq. 3.1-3.4).

    In the paper the encoder does not read labels: they meet the features in the decoder, a head. A
    sequence-wise variant reads positions in their order, so it is not invariant to the order of the
    labelled rows; "A1" and "A3" are.

    Parameters
    ----------
    n_inputs : int
        Length I of the vector of a row.
    n_ways, n_shots : int
        Classes of an episode and labelled rows of each: L = n_ways * n_shots.
    attention : {"A1", "A3", "A5", "A6", "A7", "A8"}, default="A8"
        Which of the paper's ablations: "A8" is the Few-Shot Transformer, "A1" the Transformer,
        see ``VARIANTS``.
    width : int, default=64
        D, ``d_model``.
    n_latent : int, default=256
        Hidden units of each network, ``d_latent``.
    n_layers : int, default=1
    n_heads : int, default=1
        Heads of the variants with query and key vectors.
    dropout : float, default=0.0
        Dropout of each operation's output.
    reads_labels : bool, default=False
        Whether a learned vector of its class is added to each labelled row, so that features may
        depend on which rows belong together. Not in the paper.

    Raises
    ------
    ValueError
        If attention is unknown, a size is out of range, or heads do not divide the width.

    Notes
    -----
    Three equations of the paper are read differently than written. Eq. (3.1) has a product in
    place of the last sum. Eq. (3.2) has the shape |S| x N; N is read as the length of a vector, as
    in its Fig. 2.4. Eq. (3.5) exchanges the names p_G1 and p_G2: the one with |S|^2 outputs belongs
    to the attention weights, G^2. Read so, counts of parameters are those of the paper;
    normalisations and embedding add to them.

    References
    ----------
    O. König. Few-Shot Transformers. Master's thesis, Leiden University, 2021.
    """

    def __init__(
        self,
        n_inputs,
        n_ways,
        n_shots,
        *,
        attention="A8",
        width=64,
        n_latent=256,
        n_layers=1,
        n_heads=1,
        dropout=0.0,
        reads_labels=False,
    ):
        super().__init__()
        if attention not in VARIANTS:
            raise ValueError(f"attention must be one of {list(VARIANTS)}, got {attention!r}.")
        check_heads(width, n_heads)
        check_integers(n_latent=n_latent)
        check_integers(0, n_layers=n_layers)
        self.config = {
            "attention": attention,
            "width": width,
            "n_latent": n_latent,
            "n_layers": n_layers,
            "n_heads": n_heads,
            "dropout": dropout,
            "reads_labels": reads_labels,
        }
        sizes = (n_ways * n_shots + 1, width, n_latent)
        self.embedding = nn.Linear(n_inputs, width)  # section 3.1
        self.classes = nn.Embedding(n_ways, width) if reads_labels else None
        self.layers = nn.ModuleList(
            Layer(make_attention(VARIANTS[attention], *sizes, n_heads), *sizes[1:], dropout)
            for _ in range(n_layers)
        )

    def forward(self, support, labels, query):
        """Features of each query's sequence.

        Parameters
        ----------
        support : tensor of shape (B, L, I)
        labels : int tensor of shape (B, L)
            Not read unless ``reads_labels``.
        query : tensor of shape (B, Q, I)

        Returns
        -------
        tensor of shape (B, Q, S, D)
        """
        known = self.embedding(support)
        if self.classes is not None:
            known = known + self.classes(labels)
        x = sequences(known, self.embedding(query))
        for layer in self.layers:
            x = layer(x)
        return x.unflatten(0, query.shape[:2])


def sequences(support, query):
    """Each query after the labelled rows of its episode: (B * Q, S, D)."""
    known = support[:, None].expand(-1, query.shape[1], -1, -1)
    return torch.cat([known, query[:, :, None]], 2).flatten(0, 1)


class Layer(nn.Module):
    """Attention, then a network of each position; each with residual and norm (section 3.2)."""

    def __init__(self, attention, width, n_latent, dropout):
        super().__init__()
        self.attention = attention
        self.feed_forward = network(width, n_latent, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        """(B, S, D) to (B, S, D)."""
        x = self.norms[0](x + self.dropout(self.attention(x)))
        return self.norms[1](x + self.dropout(self.feed_forward(x)))


def make_attention(variant, n_positions, width, n_latent, n_heads):
    """Attention module of a variant."""
    if variant.weights == "weight":
        return DeepAttention(variant, n_positions, width, n_latent)
    return VectorAttention(variant, n_positions, width, n_latent, n_heads)


class DeepAttention(nn.Module):
    """A(X) = SoftMax(G^2(X)) G^1(X): a network outputs the weights, Eq. (3.4)."""

    def __init__(self, variant, n_positions, width, n_latent):
        super().__init__()
        self.values = Projection(variant, n_positions, width, n_latent)  # G^1, Eq. (3.2)
        self.weights = network(n_positions * width, n_latent, n_positions**2)  # G^2, Eq. (3.3)

    def forward(self, x):
        """(B, S, D) to (B, S, D)."""
        weights = self.weights(x.flatten(1)).unflatten(1, (x.shape[1], x.shape[1]))
        return weights.softmax(-1) @ self.values(x)


class VectorAttention(nn.Module):
    """Scaled dot-product attention, Eq. (2.5), of projected queries, keys and values."""

    def __init__(self, variant, n_positions, width, n_latent, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.projections = nn.ModuleList(
            Projection(variant, n_positions, width, n_latent) for _ in range(3)
        )

    def forward(self, x):
        """(B, S, D) to (B, S, D)."""
        vectors = (
            projection(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2)
            for projection in self.projections
        )
        return F.scaled_dot_product_attention(*vectors).transpose(1, 2).flatten(2)


class Projection(nn.Module):
    """Projection (B, S, D) to (B, S, D), of each position alone or of all positions stacked."""

    def __init__(self, variant, n_positions, width, n_latent):
        super().__init__()
        self.is_stacked = variant.reads == "sequence"
        size = n_positions * width if self.is_stacked else width
        self.project = nn.Linear(size, size) if variant.is_linear else network(size, n_latent, size)

    def forward(self, x):
        """(B, S, D) to (B, S, D)."""
        if self.is_stacked:
            return self.project(x.flatten(1)).view_as(x)
        return self.project(x)


def network(n_inputs, n_latent, n_outputs):
    """G of Eq. (3.1): max(0, x W_1 + b_1) W_2 + b_2."""
    relu = nn.ReLU(inplace=True)
    return nn.Sequential(nn.Linear(n_inputs, n_latent), relu, nn.Linear(n_latent, n_outputs))
