"""SNAIL: temporal convolutions and causal attention over a few-shot task, a baseline of paper 003.

Only a query itself reads it, so the labelled rows, which precede all queries of an episode, are
read once. Blocks take L labelled rows and then Q queries, each of them at the position after the
last labelled row.

Shape legend: B episodes, L labelled rows and Q queries of each, S = L + 1 positions of a query's
sequence, I inputs, C channels.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ..sizes import check_integers
from .few_shot_transformer import sequences


class SNAIL(nn.Module):
    """Simple neural attentive meta-learner.

    It reads labelled rows and their labels in sequence, then the query without a label; every
    position reads those before it. So it depends on the order of the rows.

    Parameters
    ----------
    n_inputs : int
        Length I of the vector of a row.
    n_ways, n_shots : int
        Classes of an episode and labelled rows of each.
    width : int, default=64
        Keys of the three attentions have 1, 4 and 8 times this size, values half of it, and
        convolutions twice as many filters; 2 or more, 64 is the original.

    Raises
    ------
    ValueError
        If ``width`` is out of range.

    References
    ----------
    N. Mishra, M. Rohaninejad, X. Chen, P. Abbeel. A Simple Neural Attentive Meta-Learner. ICLR
    2018; figure 4.2 of paper 003.
    """

    def __init__(self, n_inputs, n_ways, n_shots, *, width=64):
        super().__init__()
        check_integers(2, width=width)
        self.config = {"width": width}
        self.n_ways = n_ways
        self.embedding = nn.Linear(n_inputs, width)
        n_positions = n_ways * n_shots + 1
        blocks, n_channels = [], width + n_ways
        for scale in (1, 4, 8):
            if scale > 1:
                blocks.append(TemporalConvolutions(n_channels, n_positions, 2 * width))
                n_channels += blocks[-1].n_added
            blocks.append(CausalAttention(n_channels, scale * width, scale * width // 2))
            n_channels += scale * width // 2
        self.blocks = nn.ModuleList(blocks)
        self.output = nn.Linear(n_channels, n_ways)

    def forward(self, support, labels, query):
        """Outputs at each position of each query's sequence.

        Parameters
        ----------
        support : tensor of shape (B, L, I)
        labels : int tensor of shape (B, L)
            Classes, below ``n_ways``.
        query : tensor of shape (B, Q, I)

        Returns
        -------
        tensor of shape (B, Q, S, n_ways)
            Those at the last position are the logits of the query.
        """
        known, asked = self.embedding(support), self.embedding(query)
        known = torch.cat([known, F.one_hot(labels, self.n_ways).to(known.dtype)], 2)
        x = torch.cat([known, F.pad(asked, (0, self.n_ways))], 1)
        n_known = support.shape[1]
        place = torch.arange(x.shape[1], device=x.device).clamp(max=n_known)
        for block in self.blocks:
            x = block(x, place, n_known)
        said = self.output(x)
        return sequences(said[:, :n_known], said[:, n_known:]).unflatten(0, query.shape[:2])


class TemporalConvolutions(nn.Module):
    """Gated convolutions whose dilation doubles until the first position is in reach."""

    def __init__(self, n_channels, n_positions, n_filters):
        super().__init__()
        n_layers = max(math.ceil(math.log2(n_positions)), 1)
        self.n_added = n_layers * n_filters
        self.layers = nn.ModuleList(
            nn.Conv1d(n_channels + i * n_filters, 2 * n_filters, 2, dilation=2**i)
            for i in range(n_layers)
        )

    def forward(self, x, place, n_known):
        """(B, L + Q, C), at positions ``place`` (L + Q,), to (B, L + Q, C + n_added)."""
        for convolution in self.layers:
            of_earlier, of_own = convolution.weight.unbind(2)
            earlier = F.pad(x[:, :n_known], (0, 0, convolution.dilation[0], 0))  # causal
            earlier = F.linear(earlier[:, : n_known + 1], of_earlier)
            sums = F.linear(x, of_own, convolution.bias) + earlier[:, place]
            values, gates = sums.chunk(2, 2)
            x = torch.cat([x, values.tanh() * gates.sigmoid()], 2)
        return x


class CausalAttention(nn.Module):
    """Each position reads itself and those before it."""

    def __init__(self, n_channels, n_keys, n_values):
        super().__init__()
        self.sizes = (n_keys, n_keys, n_values)
        self.project = nn.Linear(n_channels, sum(self.sizes))

    def forward(self, x, place, n_known):
        """(B, L + Q, C), at positions ``place`` (L + Q,), to (B, L + Q, C + n_values)."""
        queries, keys, values = self.project(x).split(self.sizes, 2)
        queries = queries / math.sqrt(self.sizes[0])
        ahead = torch.arange(n_known, device=x.device) >= place[:, None]  # (L + Q, L)
        scores = (queries @ keys[:, :n_known].mT).masked_fill(ahead, -math.inf)
        own = (queries * keys).sum(2, keepdim=True)
        shares = torch.cat([scores, own], 2).softmax(2)
        read = shares[..., :-1] @ values[:, :n_known] + shares[..., -1:] * values
        return torch.cat([x, read], 2)
