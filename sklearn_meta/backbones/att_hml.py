"""AttHML: HML with transformer encoders in place of its deep sets.

Shape legend as in the other backbones; K is the number of elements of a set, R of heads.
"""

from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from ..means import masked_mean
from ..sizes import check_heads, check_integers
from .hml import HML


class EncoderLayer(nn.Module):
    """Pre-norm transformer encoder layer over the elements of a set.

    Parameters
    ----------
    width : int
        Width H of an element and of the feed-forward network.
    n_heads : int
        Number R of heads, each of width H / R.
    """

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self, z, readable):
        """Sets (..., K, H) to the same shape; ``readable`` (..., K) marks elements to read."""
        qkv = self.project(self.attention_norm(z)).flatten(0, -3)  # (sets, K, 3 H)
        q, k, v = qkv.unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mask = readable.flatten(0, -2)[:, None, None]  # (sets, 1, 1, K)
        o = scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (sets, R, K, H / R)
        z = z + self.merge(o.transpose(1, 2).flatten(-2)).view(z.shape)
        return z + self.feed_forward(z)


class SetEncoder(nn.Module):
    """Embedding of a set: a linear map, encoder layers, a norm, the mean over the elements.

    Parameters
    ----------
    width_in, width : int
        Widths of an element, and of everything after.
    n_layers, n_heads : int
        Encoder layers and the heads of each.
    """

    def __init__(self, width_in, width, n_layers, n_heads):
        super().__init__()
        self.embed = nn.Linear(width_in, width)
        self.layers = nn.ModuleList(EncoderLayer(width, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(width)
        self.merge = nn.Linear(width, width)

    def forward(self, elements, observed):
        """Sets (..., K, D) to (..., H); ``observed`` (..., K) marks elements that exist."""
        # An empty set reads every element, to avoid a softmax over nothing; none is in the mean.
        readable = observed | ~observed.any(-1, keepdim=True)
        z = self.embed(elements.to(self.embed.weight.dtype))
        for layer in self.layers:
            z = layer(z, readable)
        return self.merge(masked_mean(self.norm(z), observed, observed.ndim - 1))


class AttHML(HML):
    """HML with attention across the example-attribute pairs of a set.

    Paper 000 says that in AttHML "transformers were used for embedding instead of feed-forward
    neural networks in HML", that it "performs attentions across elements of example-attribute
    pairs", three encoder layers, four heads, 32 hidden units, and no more. Our reading keeps the
    steps of :class:`HML`. But it embeds every set of pairs, ``{(x_nm, v_m)}`` of a row,
    ``{(x_nm, r_n)}`` of an attribute and so on, by a transformer over its elements (pre-norm, no
    dropout) and a mean, instead of networks of each element and a mean. Attention over all pairs of
    a task at once was not built: a pair does not know its row and column, and the cost grows with
    the square of the number of cells. One encoder layer per set, in each of the three iterations,
    is our reading of the paper's three; ``n_layers=3`` puts three in each set.

    Parameters
    ----------
    width : int, default=32
        Width of descriptions, embeddings, attention and its feed-forward networks; the paper's.
    n_iterations : int, default=3
        As in :class:`HML`.
    n_layers : int, default=1
        Encoder layers of each set.
    n_heads : int, default=4
        The paper's; divides ``width``.

    Raises
    ------
    ValueError
        If a size is out of range, or ``n_heads`` does not divide ``width``.
    """

    def __init__(self, *, width=32, n_iterations=3, n_layers=1, n_heads=4):
        nn.Module.__init__(self)
        check_heads(width, n_heads)
        check_integers(0, n_iterations=n_iterations, n_layers=n_layers)
        self.config = {
            "width": width,
            "n_iterations": n_iterations,
            "n_layers": n_layers,
            "n_heads": n_heads,
        }
        self._build(n_iterations)

    def _set_network(self, width_in):
        """See :class:`HML`."""
        config = self.config
        return SetEncoder(width_in, config["width"], config["n_layers"], config["n_heads"])
