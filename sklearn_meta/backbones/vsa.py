"""Variable-feature self-attention: the backbone of paper 000 (Iwata and Kumagai, section 3).

Shape legend: B tasks, N rows, M attributes, C label columns (classes, or targets of a regression),
S = M + C slices of the second mode (attributes first, then labels), D width of the third mode,
R heads, H width of a head.
"""

import torch
from torch import nn
from torch.nn.functional import linear

from ..sizes import check_integers
from .association import associations_of, first_guess
from .held_out import add_copies, copies_of, take_copies
from .standardisation import moments_of, standardise

#: Slices of an attention layer's three projections: queries, keys, values.
QUERIES, VALUES = slice(0, 1), slice(2, 3)
QUERIES_KEYS, KEYS_VALUES = slice(0, 2), slice(1, 3)


class MVSA(nn.Module):
    """Multi-head variable-feature self-attention, Eq. (1)-(4).

    Attention runs over the first mode of a tensor whose second mode may have any size: the
    second mode is folded into the head width, so Eq. (2) and (3) are one matrix product each.
    With ``along=2`` the modes are swapped, as in Eq. (8), where queries, keys, values and the
    result are copied anyway.

    Parameters
    ----------
    width_in, width_out : int
        Width D of the third mode of the input and H of the output.
    n_heads : int
        Number R of independent VSA layers.
    head_width : int
        Width H_K = H_V of each of them.
    """

    def __init__(self, width_in, width_out, n_heads, head_width):
        super().__init__()
        self.n_heads = n_heads
        self.head_width = head_width
        self.project = nn.Linear(width_in, 3 * n_heads * head_width, bias=False)  # W^Q, W^K, W^V
        self.merge = nn.Linear(n_heads * head_width, width_out, bias=False)  # W^O

    def queries_keys_values(self, z, along=1, wanted=slice(None)):
        """Queries, keys and values of Eq. (1), (B, R, D1, D2 * H) each: the second mode is folded.

        ``wanted`` selects some of the three.
        """
        weight = self.project.weight.unflatten(0, (3, -1))[wanted].flatten(0, 1)
        qkv = linear(z, weight).unflatten(-1, (-1, self.n_heads, self.head_width))
        qkv = qkv.permute(3, 0, 4, along, 3 - along, 5).flatten(-2)
        return qkv.unbind(0)  # indexing would zero-fill three gradients

    def weights(self, q, k, readable, voting):
        """Attention weights of Eq. (2).

        Parameters
        ----------
        q, k : (B, R, D1, D2 * H), (B, R, D1', D2 * H)
        readable : (B, D1') or (B, D1, D1') bool
            Slices of the first mode that may be read: by all slices, or by each separately. The
            others get weight zero.
        voting : (B, D2) bool
            Slices of the second mode that count in the sum of Eq. (2) and in its scale.

        Returns
        -------
        (B, R, D1, D1')
        """
        count = voting.sum(1).clamp(min=1).to(q.dtype)
        scale = 1 / torch.sqrt(count * self.head_width)  # 1 / sqrt(D2 H_K)
        # Scaling and masking q costs D1 D2 H; scaling the logits would cost D1 D1'.
        gate = voting.to(q.dtype) * scale[:, None]  # (B, D2)
        q = q * gate.repeat_interleave(self.head_width, dim=1)[:, None, None, :]
        logits = q @ k.transpose(-1, -2)
        # The lowest number, not -inf: if no slice is readable, a softmax over -inf is NaN.
        lowest = torch.finfo(logits.dtype).min
        readable = readable if readable.dim() == 3 else readable[:, None]
        return logits.masked_fill_(~readable[:, None], lowest).softmax(-1).to(q.dtype)

    def aggregate(self, weights, v, along=1):
        """Eq. (3) and (4): (B, R, D1, D1') and (B, R, D1', D2 * H) to the shape of z."""
        o = (weights @ v).unflatten(-1, (-1, self.head_width))  # (B, R, D1, D2, H)
        return self.merge(o.permute(0, 1 + along, 4 - along, 1, 4).flatten(-2))


class Block(nn.Module):
    """Residual block of Eq. (6): ``z W^R + FF(LN(MVSA(z)))``.

    Parameters
    ----------
    mode : {"examples", "attributes"}
        Mode along which attention runs: Eq. (7) or Eq. (8).
    width_in, width_out, hidden : int
        Widths of the input, of the output, and of attention and the feed-forward network.
    n_heads, head_width : int
        As in :class:`MVSA`.
    residual, layer_norm : bool
        Switches of the paper's ablation (Table 2: w/oRes, w/oLN).
    """

    def __init__(
        self, mode, width_in, width_out, hidden, n_heads, head_width, residual, layer_norm
    ):
        super().__init__()
        self.mode = mode
        self.attention = MVSA(width_in, hidden, n_heads, head_width)
        self.norm = nn.LayerNorm(hidden) if layer_norm else nn.Identity()
        self.feed_forward = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width_out),
        )
        self.residual = nn.Linear(width_in, width_out, bias=False) if residual else None

    def forward(self, z, rows, columns, memory=None, copies=None, n_asked=None):
        """Run the block.

        Parameters
        ----------
        z : (B, N, S, D), or (B, N + L, S, D) with copies
        rows : (B, N) bool
            Rows that example-wise attention may read and that count in the weights of
            attribute-wise attention.
        columns : (B, S) bool
            Slices of the second mode that are not padding.
        memory : tuple or None
            This block's memory of an earlier pass over the context. The rows of ``z`` then read
            only the context, not each other.
        copies : Copies or None
            Copies of labelled rows, which follow the rows in ``z``; no row reads them.
        n_asked : int or None
            For the last block: number of slices of the second mode that make the embedding. An
            attribute-wise block returns only these, and copies in place of their rows.

        Returns
        -------
        z : (B, N, S, D')
        memory : tuple
        """
        if self.mode == "examples":  # Eq. (7)
            (q,) = self.attention.queries_keys_values(z, wanted=QUERIES)
            if memory is None:
                read = z[:, : rows.shape[1]]  # no copies
                memory = (*self.attention.queries_keys_values(read, wanted=KEYS_VALUES), rows)
            k, v, rows = memory
            readable = rows if copies is None else rows[:, None] & ~copies.hidden
            o = self.attention.aggregate(self.attention.weights(q, k, readable, columns), v)
        else:  # Eq. (8)
            if memory is None:
                voting = z[:, : rows.shape[1]]  # no copies
                q, k = self.attention.queries_keys_values(voting, along=2, wanted=QUERIES_KEYS)
                memory = (self.attention.weights(q[:, :, :n_asked], k, columns, rows),)
            if n_asked is not None and copies is not None:
                z = take_copies(z, copies)
            (v,) = self.attention.queries_keys_values(z, along=2, wanted=VALUES)
            o = self.attention.aggregate(memory[0], v, along=2)
        # Eq. (6). Flattened to two dimensions: with more, linear layers return views, and autograd
        # copies the gradient of a view changed in place three times.
        out = self.feed_forward(self.norm(o).flatten(0, 2)).unflatten(0, o.shape[:3])
        if self.residual is not None:
            out = self.residual(z[:, :, : out.shape[2]]).add_(out)
        return out, memory


class VSA(nn.Module):
    """Embedding model of paper 000 (section 3.3, Eq. 5-8).

    Every row of a task is embedded from all rows that may be read. The embedding of a row is
    the concatenation of the last block's output over the attributes, so its length is
    ``M * last_width``. Equivariant to permutations of labelled rows, of unlabelled rows, of
    attributes and of classes (Appendix A).

    Parameters
    ----------
    width : int, default=32
        Width H^(b) of the hidden representation and of the feed-forward networks.
    n_layers : int, default=3
        Number of pairs of an example-wise (Eq. 7) and an attribute-wise (Eq. 8) block; each of the
        paper's "three layers of MVSAs" is read as a pair.
    n_heads : int, default=4
        Heads R of each attention layer.
    head_width : int, default=8
        Width H_K = H_V of a head. The paper's is 32; 8 costs a quarter.
    last_width : int, default=8
        Width H^(B) of the last block's output; the paper's is 1. Attention and layer norm of the
        last block keep the full width (a layer norm over width 1 is constant), its feed-forward
        network narrows it.
    example_attention, attribute_attention : bool, default=True
        Ablations AttributeAttn and ExampleAttn of Table 2: leave out the blocks of one kind.
    observed_indicator, kind_indicator : bool, default=True
        Ablations w/oObsInd and w/oAttLabInd: leave out channel 2, or channels 3 and 4, of Eq. (5).
    residual, layer_norm : bool, default=True
        Ablations w/oRes and w/oLN.
    attributes : bool, default=False
        Whether the embedding has the standardised attribute as a last channel, divided by the
        square root of the number of attributes. Not in the paper; the heads "gp_attributes" and
        "gp_warped" read it.
    associations : bool, default=False
        Whether the input has three more channels with what the labelled rows say about each
        attribute (:mod:`sklearn_meta.backbones.association`). With ``attributes``, a small network
        of these figures weights the attributes of the last channel. Not in the paper.
    own_labels : bool, default=True
        Whether the embedding of a labelled row reads the row's own label, as in the paper. If
        not, it reads the labels of the others alone, as the embeddings of all other rows do
        (:mod:`sklearn_meta.backbones.held_out`), at the cost of one more row for each.

    Raises
    ------
    ValueError
        If both kinds of attention are left out, or a size is out of range.

    References
    ----------
    T. Iwata, A. Kumagai. Meta-learning of semi-supervised learning from tasks with heterogeneous
    attribute spaces. 2023.
    """

    #: Maximum number of label columns of classes; more classes are read in groups (see
    #: ``class_groups``). By default tasks from tables have no more, and attention is quadratic in
    #: their number.
    most_classes = 10

    def __init__(
        self,
        *,
        width=32,
        n_layers=3,
        n_heads=4,
        head_width=8,
        last_width=8,
        example_attention=True,
        attribute_attention=True,
        observed_indicator=True,
        kind_indicator=True,
        residual=True,
        layer_norm=True,
        attributes=False,
        associations=False,
        own_labels=True,
    ):
        super().__init__()
        modes = ["examples"] * example_attention + ["attributes"] * attribute_attention
        if not modes:
            raise ValueError("example_attention and attribute_attention cannot both be False.")
        check_integers(width=width, n_layers=n_layers, n_heads=n_heads)
        check_integers(head_width=head_width, last_width=last_width)
        self.config = {
            "width": width,
            "n_layers": n_layers,
            "n_heads": n_heads,
            "head_width": head_width,
            "last_width": last_width,
            "example_attention": example_attention,
            "attribute_attention": attribute_attention,
            "observed_indicator": observed_indicator,
            "kind_indicator": kind_indicator,
            "residual": residual,
            "layer_norm": layer_norm,
            "attributes": attributes,
            "associations": associations,
            "own_labels": own_labels,
        }
        modes = modes * n_layers
        channels = 1 + observed_indicator + 2 * kind_indicator + 3 * associations
        widths_in = [channels] + [width] * (len(modes) - 1)
        widths_out = [width] * (len(modes) - 1) + [last_width]
        self.blocks = nn.ModuleList(
            Block(mode, w_in, w_out, width, n_heads, head_width, residual, layer_norm)
            for mode, w_in, w_out in zip(modes, widths_in, widths_out, strict=True)
        )
        if attributes and associations:
            self.gate = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1, bias=False))
            nn.init.zeros_(self.gate[-1].weight)  # training starts with equal weights

    def n_embedding(self, n_columns):
        """Length of the embedding of a row with ``n_columns`` attributes, an int."""
        return n_columns * (self.config["last_width"] + self.config["attributes"])

    def forward(self, x, labels, readable, columns, classes, memory=None):
        """Embed the rows of a batch of tasks.

        Parameters
        ----------
        x : float tensor of shape (B, N, M)
            Attributes; NaN marks a missing cell and padding.
        labels : float tensor of shape (B, N, C)
            Y of Eq. (5): one-hot classes or standardised targets of labelled rows; NaN throughout
            all other rows.
        readable : bool tensor of shape (B, N)
            Rows that every row may read: all of them in transductive mode, the context in
            inductive mode, never padding. Ignored when ``memory`` is given.
        columns : bool tensor of shape (B, M)
            Attributes that are not padding.
        classes : bool tensor of shape (B, C)
            Label columns that are not padding.
        memory : list, optional
            Second result of an earlier call on the context alone: the rows of ``x`` then read
            that context and nothing else, at a cost linear in N.

        Returns
        -------
        z : tensor of shape (B, N, M, last_width), or one more with ``attributes``
            Embeddings; zero at padded attributes, and at those constant over readable rows.
        memory : list
            What later calls need from this one: standardisation and associations, then one tuple
            per block.
        """
        known, *blocks = memory or [None] * (1 + len(self.blocks))
        moments, associations = known or (moments_of(x, readable), None)
        x = standardise(x, moments)
        columns = columns & moments.varied  # a constant or unseen attribute has no information
        if self.config["associations"] and known is None:
            usable = x.masked_fill(~columns[:, None], torch.nan)
            with torch.autocast(x.device.type, enabled=False):
                associations = associations_of(usable, labels.to(x.dtype), readable)
        z, copies = self.input_tensor(x, labels, associations), None
        if not self.config["own_labels"] and memory is None:
            copies = copies_of(labels)
            z = add_copies(z, copies, self.label_channels(x.shape[2], z))
        slices = torch.cat([columns, classes], dim=1)
        remembered = [(moments, associations)]
        for block, block_memory in zip(self.blocks, blocks, strict=True):
            n_asked = x.shape[2] if block is self.blocks[-1] else None
            z, block_memory = block(z, readable, slices, block_memory, copies, n_asked)
            remembered.append(block_memory)
        z = z[:, :, : x.shape[2]]  # only the attributes make the embedding
        if z.shape[1] > x.shape[1]:  # the last block was example-wise
            z = take_copies(z, copies)
        if self.config["attributes"]:
            weights = self.attribute_weights(columns, associations).to(x.dtype)
            z = torch.cat([z.to(x.dtype), (x.nan_to_num(0.0) * weights)[..., None]], dim=-1)
        return z.masked_fill(~columns[:, None, :, None], 0), remembered

    def attribute_weights(self, columns, associations):
        """Weights of the attributes in the last channel, (B, 1, M).

        Their squares add up to one, or to zero if no attribute can be read.
        """
        weights = columns.to(self.blocks[0].attention.project.weight.dtype)
        if associations is not None:
            told = self.gate(associations.strengths.to(weights.dtype))[..., 0].to(weights.dtype)
            told = told.masked_fill(~columns, torch.finfo(told.dtype).min)
            weights = weights * (told - told.amax(1, keepdim=True)).exp()
        return (weights / weights.norm(dim=1, keepdim=True).clamp(min=1e-6))[:, None]

    def input_tensor(self, x, labels, associations=None):
        """Tensor Z^(1) of Eq. (5): value, observed?, attribute?, label?; (B, N, S, channels).

        Associations add three channels: for an attribute its strengths; for a label its first
        guess, zero, and the third strength, which is the same for all attributes.
        """
        cells = torch.cat([x, labels.to(x.dtype)], dim=2)
        channels = [cells.nan_to_num(0.0)]
        if self.config["observed_indicator"]:
            channels.append((~cells.isnan()).to(x.dtype))
        if self.config["kind_indicator"]:
            is_label = torch.arange(cells.shape[2], device=x.device) >= x.shape[2]
            is_label = is_label.to(x.dtype).expand(cells.shape)
            channels += [1 - is_label, is_label]
        z = torch.stack(channels, dim=-1)
        if associations is not None:
            with torch.autocast(x.device.type, enabled=False):
                guess = first_guess(x, labels.to(x.dtype), associations)
            of_attributes = associations.strengths[:, None].expand(-1, x.shape[1], -1, -1)
            known = of_attributes[:, :, :1, 2].expand_as(guess)
            of_labels = torch.stack([guess, torch.zeros_like(guess), known], dim=-1)
            z = torch.cat([z, torch.cat([of_attributes, of_labels], dim=2)], dim=-1)
        return z.to(self.blocks[0].attention.project.weight.dtype)

    def label_channels(self, n_columns, z):
        """Mask (S, channels) of what reveals labels in the input ``z``: value and observed?."""
        channels = torch.zeros(z.shape[2:], dtype=torch.bool, device=z.device)
        channels[n_columns:, : 1 + self.config["observed_indicator"]] = True
        return channels
