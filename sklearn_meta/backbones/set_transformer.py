"""The Set Transformer of paper 001 (section 3): attention that reads a set and pools it.

Shape legend: B sets, N elements, M elements of the set that is read, W width (the paper's d),
R heads, k seeds, m inducing points. A ``mask`` (B, M) is True at elements that may be read and
False at padding; None means no padding.
"""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from ..sizes import check_heads, check_integers
from .set_pooling import DotProductPool, PoolAndRow, RowWise, max_pool, mean_pool, sum_pool

NORMS = ("post", "pre", "none")


class MAB(nn.Module):
    """Multihead attention block, Eq. (2)-(6): a set X reads a set Y.

    Attention is the paper's: no biases, and logits divided by sqrt(W), W the width of all heads
    together (Vaswani et al. divide by the width of one head).

    Parameters
    ----------
    width : int
        Width W of X, of Y and of the result.
    n_heads : int
        Number R of heads; divides ``width``.
    norm : {"post", "pre", "none"}, default="post"
        Place of the layer norms. "post" is after each sum, as in Eq. (5) and (6), with rFF one FC
        layer with ReLU (appendix B). "pre" is before attention and before rFF, on the residual
        branches, which is said to train more steadily. "none" has no norms, which keeps the scale
        of numbers. Except for "post", rFF has a second, linear layer: a ReLU adds only positive
        numbers, so an unnormalised sum would drift.

    Raises
    ------
    ValueError
        If there is no such ``norm``, a size is out of range, or ``n_heads`` does not divide
        ``width``.

    References
    ----------
    Set Transformer (paper 001), Eq. (2)-(6). R. Xiong et al. On layer normalization in the
    Transformer architecture. ICML 2020, for "pre".
    """

    def __init__(self, width, n_heads, *, norm="post"):
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"Unknown norm {norm!r}: choose from {list(NORMS)}.")
        check_heads(width, n_heads)
        self.n_heads = n_heads
        self.norm = norm
        self.query = nn.Linear(width, width, bias=False)  # W^Q of all heads
        self.key_value = nn.Linear(width, 2 * width, bias=False)  # W^K and W^V
        self.merge = nn.Linear(width, width, bias=False)  # W^O
        layer_norm = nn.Identity if norm == "none" else nn.LayerNorm
        self.norm_attention = layer_norm(width)
        self.norm_feed_forward = layer_norm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        if norm != "post":
            self.feed_forward.append(nn.Linear(width, width))

    def forward(self, x, y, mask=None):
        """Run the block.

        Parameters
        ----------
        x : tensor of shape (B, N, W)
        y : tensor of shape (B, M, W)
            Must be finite at padding, too.
        mask : bool tensor of shape (B, M), optional
            Elements of ``y`` that may be read. If there are none, attention returns zeros.

        Returns
        -------
        tensor of shape (B, N, W)
        """
        if self.norm == "post":
            h = self.norm_attention(x + self.attend(x, y, mask))  # Eq. (6)
            return self.norm_feed_forward(h + self.feed_forward(h))  # Eq. (5)
        q = self.norm_attention(x)
        h = x + self.attend(q, q if y is x else self.norm_attention(y), mask)
        return h + self.feed_forward(self.norm_feed_forward(h))

    def attend(self, x, y, mask=None):
        """``Multihead(X, Y, Y)`` of Eq. (2)-(4), (B, N, W)."""
        B, N, W = x.shape
        q = self.query(x).view(B, N, self.n_heads, -1).transpose(1, 2)  # (B, R, N, W / R)
        kv = self.key_value(y).view(B, y.shape[1], 2, self.n_heads, -1)
        k, v = kv.permute(2, 0, 3, 1, 4).unbind(0)  # (B, R, M, W / R) each
        if mask is None:
            o = scaled_dot_product_attention(q, k, v, scale=W**-0.5)
        else:
            empty = ~mask.any(1)[:, None, None, None]
            # Empty sets read all elements and the result is zeroed: some kernels would give NaN.
            readable = mask[:, None, None] | empty  # (B, 1, 1, M)
            o = scaled_dot_product_attention(q, k, v, attn_mask=readable, scale=W**-0.5)
            o = o.masked_fill(empty, 0.0)
        return self.merge(o.transpose(1, 2).reshape(B, N, W))  # Eq. (3)


class SAB(MAB):
    """Set attention block, Eq. (7): a set reads itself, at a cost of O(N^2).

    Parameters
    ----------
    width, n_heads, norm
        As in :class:`MAB`.
    """

    def forward(self, x, mask=None):
        """(B, N, W) to the same shape, equivariant to permutations of the elements."""
        return super().forward(x, x, mask)


class ISAB(nn.Module):
    """Induced set attention block, Eq. (8) and (9): a set reads itself through m points, O(N m).

    Parameters
    ----------
    width, n_heads
        As in :class:`MAB`.
    n_inducing : int
        Number m of inducing points, which are learned.
    norm : {"post", "pre", "none"}, default="post"
    """

    def __init__(self, width, n_heads, n_inducing, *, norm="post"):
        super().__init__()
        check_integers(n_inducing=n_inducing)
        self.inducing = learned_vectors(n_inducing, width)  # I
        self.read = MAB(width, n_heads, norm=norm)
        self.answer = MAB(width, n_heads, norm=norm)

    def forward(self, x, mask=None):
        """(B, N, W) to the same shape, equivariant to permutations of the elements."""
        h = self.read(self.inducing.expand(len(x), -1, -1), x, mask)  # Eq. (9)
        return self.answer(x, h)  # Eq. (8)


class PMA(nn.Module):
    """Pooling by multihead attention, Eq. (13): k seeds read a set.

    Parameters
    ----------
    width, n_heads
        As in :class:`MAB`.
    n_seeds : int
        Number k of seed vectors, which are learned.
    norm : {"post", "pre", "none"}, default="post"
    feed_forward : bool, default=True
        The rFF of Eq. (13). The paper's experiments leave it out (appendix B), because a block
        with a feed-forward layer comes before.
    """

    def __init__(self, width, n_heads, n_seeds, *, norm="post", feed_forward=True):
        super().__init__()
        check_integers(n_seeds=n_seeds)
        self.seeds = learned_vectors(n_seeds, width)  # S
        layers = [nn.Linear(width, width), nn.ReLU()] if feed_forward else []
        self.feed_forward = nn.Sequential(*layers)
        self.read = MAB(width, n_heads, norm=norm)

    def forward(self, z, mask=None):
        """(B, N, W) to (B, k, W), invariant to permutations of the elements."""
        return self.read(self.seeds.expand(len(z), -1, -1), self.feed_forward(z), mask)


def learned_vectors(n_vectors, width):
    """Parameter of shape (n_vectors, width) with Glorot initialisation."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_vectors, width)))


#: Names of the encoder layers, which differ in how elements read each other.
ENCODERS = ("sab", "isab", "rff", "rffp_mean", "rffp_max")
#: Names of the poolings, which turn the encoded elements into one vector, or k.
POOLINGS = ("pma", "mean", "sum", "max", "dotprod")


class SetTransformer(nn.Module):
    """Set Transformer and the paper's baselines: every encoder with every decoder (section 4).

    A linear layer takes the elements to ``width``; ``n_layers`` encoder layers follow, Eq. (10)
    and (11); the decoder pools, Eq. (12), and gives ``n_outputs`` numbers. Invariant to
    permutations of the elements, and to padding.

    Parameters
    ----------
    n_inputs : int
        Numbers per element.
    n_outputs : int
    encoder : {"isab", "sab", "rff", "rffp_mean", "rffp_max"}, default="isab"
        Layers of the encoder: induced or full attention; each element by itself (Zaheer et al.);
        or with the mean or the maximum over all elements, Eq. (4) of Zaheer et al.
    pooling : {"pma", "mean", "sum", "max", "dotprod"}, default="pma"
        Attention of seeds, or another pooling followed by a hidden layer.
    width : int, default=64
    n_heads : int, default=4
    n_layers : int, default=2
        Encoder layers after the embedding. For "rff" and its variants, three layers are as deep as
        most of the paper's (Tables 7, 9, 10 and 16).
    n_inducing : int, default=16
        Inducing points of each "isab" layer.
    n_seeds : int, default=1
        Seeds of "pma"; each has its own outputs.
    n_decoder_layers : int, optional
        Self-attention blocks over the seeds after "pma". If None, as in the paper: one if there are
        several seeds, none if there is one.
    norm : {"post", "pre", "none"}, default="post"
        See :class:`MAB`; "pre" ends encoder and decoder with a layer norm.
    dropout : float, default=0.0
        Dropout of the decoder, as in Table 16: before and after "pma", or around the hidden layer.

    Attributes
    ----------
    config : dict
        Keyword arguments that build the same architecture.

    Raises
    ------
    ValueError
        If the encoder, pooling or norm is unknown, or a size is out of range; or as in
        :class:`MAB`, if there is attention.

    References
    ----------
    Set Transformer (paper 001), section 3 and appendix B.
    """

    def __init__(
        self,
        n_inputs,
        n_outputs,
        *,
        encoder="isab",
        pooling="pma",
        width=64,
        n_heads=4,
        n_layers=2,
        n_inducing=16,
        n_seeds=1,
        n_decoder_layers=None,
        norm="post",
        dropout=0.0,
    ):
        super().__init__()
        self.config = {
            "n_inputs": n_inputs,
            "n_outputs": n_outputs,
            "encoder": encoder,
            "pooling": pooling,
            "width": width,
            "n_heads": n_heads,
            "n_layers": n_layers,
            "n_inducing": n_inducing,
            "n_seeds": n_seeds,
            "n_decoder_layers": n_decoder_layers,
            "norm": norm,
            "dropout": dropout,
        }
        if encoder not in ENCODERS:
            raise ValueError(f"Unknown encoder {encoder!r}: choose from {list(ENCODERS)}.")
        if pooling not in POOLINGS:
            raise ValueError(f"Unknown pooling {pooling!r}: choose from {list(POOLINGS)}.")
        if norm not in NORMS:  # even if there is no block to check it
            raise ValueError(f"Unknown norm {norm!r}: choose from {list(NORMS)}.")
        check_integers(n_inputs=n_inputs, n_outputs=n_outputs, width=width, n_seeds=n_seeds)
        if n_decoder_layers is None:
            n_decoder_layers = int(n_seeds > 1)
        check_integers(0, n_layers=n_layers, n_decoder_layers=n_decoder_layers)
        layer = {
            "sab": lambda: SAB(width, n_heads, norm=norm),
            "isab": lambda: ISAB(width, n_heads, n_inducing, norm=norm),
            "rff": lambda: RowWise(width),
            "rffp_mean": lambda: PoolAndRow(width, mean_pool),
            "rffp_max": lambda: PoolAndRow(width, max_pool),
        }[encoder]

        def last_norm(after_attention):
            return nn.LayerNorm(width) if after_attention and norm == "pre" else nn.Identity()

        self.embed = nn.Linear(n_inputs, width)
        self.layers = nn.ModuleList(layer() for _ in range(n_layers))
        self.norm_encoder = last_norm(encoder in ("sab", "isab"))
        self.dropout = nn.Dropout(dropout)
        if pooling == "pma":
            self.pool = PMA(width, n_heads, n_seeds, norm=norm, feed_forward=False)
            self.decoder = nn.Sequential(
                *(SAB(width, n_heads, norm=norm) for _ in range(n_decoder_layers)),
                last_norm(True),
            )
        else:
            simple = {"mean": mean_pool, "sum": sum_pool, "max": max_pool}
            self.pool = simple.get(pooling) or DotProductPool(width)
            self.decoder = nn.Sequential(self.dropout, nn.Linear(width, width), nn.ReLU())
        self.output = nn.Linear(width, n_outputs)

    def encode(self, x, mask=None):
        """The encoder alone, Eq. (10) or (11).

        Parameters
        ----------
        x : tensor of shape (B, N, n_inputs)
            Values at padding are ignored, NaN included.
        mask : bool tensor of shape (B, N), optional
            True where there is an element. A set may have none.

        Returns
        -------
        tensor of shape (B, N, width)
            Equivariant to permutations of the elements; zeros at padding.
        """
        padding = None if mask is None else ~mask[..., None]
        if padding is not None:
            x = x.masked_fill(padding, 0.0)
        z = self.embed(x)
        for layer in self.layers:
            z = layer(z, mask)
        z = self.norm_encoder(z)
        return z if padding is None else z.masked_fill(padding, 0.0)

    def decode(self, z, mask=None):
        """The decoder alone, Eq. (12).

        Parameters
        ----------
        z : tensor of shape (B, N, width)
            Result of :meth:`encode`.
        mask : bool tensor of shape (B, N), optional

        Returns
        -------
        tensor of shape (B, n_outputs), or (B, n_seeds, n_outputs) for several seeds
        """
        if self.config["pooling"] != "pma":
            return self.output(self.dropout(self.decoder(self.pool(z, mask))))
        z = self.decoder(self.pool(self.dropout(z), mask))
        z = self.output(self.dropout(z))
        return z[:, 0] if self.config["n_seeds"] == 1 else z

    def forward(self, x, mask=None):
        """Outputs of each set: parameters as in :meth:`encode`, result as in :meth:`decode`."""
        return self.decode(self.encode(x, mask), mask)
