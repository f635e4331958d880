"""Meta-LSTM: an LSTM whose weights another one generates at every word (paper 004).

Shape legend: W words of all texts together, B texts, d inputs, h width of the basic LSTM, m width
and z outputs of the meta LSTM.
"""

import torch
from torch import nn

from .packed import recur


class MetaLSTM(nn.Module):
    """The network that generates, Eq. (15)-(18); tasks share it.

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        d, h, m and z: 4m(d + h + m + 1) + mz parameters.
    """

    def __init__(self, n_inputs, width, meta_width, rank):
        super().__init__()
        self.meta_width = meta_width
        self.from_input = nn.Linear(n_inputs, 4 * meta_width)
        self.from_state = nn.Linear(meta_width + width, 4 * meta_width, bias=False)
        self.to_z = nn.Linear(meta_width, rank, bias=False)  # Eq. (18)
        # States begin small, and weights that are products with z would hardly learn.
        nn.init.normal_(self.to_z.weight, std=2 * meta_width**-0.5)

    def forward(self, given, meta_hidden, meta_cell, hidden):
        """One word: z (B, z), and the state.

        Parameters
        ----------
        given : tensor of shape (B, 4m)
            ``from_input`` of the word.
        meta_hidden, meta_cell : tensor of shape (B, m)
        hidden : tensor of shape (B, h)
            Of the basic LSTM.
        """
        gates = given + self.from_state(torch.cat([meta_hidden, hidden], 1))  # Eq. (15)
        meta_hidden, meta_cell = lstm(by_gate(gates), meta_cell)
        return self.to_z(meta_hidden), meta_hidden, meta_cell


class BasicLSTM(nn.Module):
    """The network of one task, Eq. (10)-(14), whose weights are P D(z) Q and biases B z.

    Parameters
    ----------
    n_inputs, width, rank : int
        d, h and z: 8hz + 4z(d + h) parameters.

    Notes
    -----
    The paper counts 8hz + 4dz, with Q of z x d; but Eq. (10) multiplies W(z) with words and states,
    which takes Q of z x (d + h): 50,080 parameters with the Meta-LSTM where the paper has 42,080.
    """

    def __init__(self, n_inputs, width, rank):
        super().__init__()
        self.rank = rank
        self.width = width
        self.from_input = nn.Linear(n_inputs, 4 * rank, bias=False)  # Q, its part for words
        self.from_state = nn.Linear(width, 4 * rank, bias=False)  # Q, its part for states
        # P, and B below it: gates c, o, i, f.
        self.weight = nn.Parameter(torch.randn(4, 2 * rank, width) * rank**-0.5)

    def forward(self, given, z, hidden, cell):
        """One word: the state.

        Parameters
        ----------
        given : tensor of shape (B, 4z)
            ``from_input`` of the word.
        z : tensor of shape (B, z)
        hidden, cell : tensor of shape (B, h)
        """
        read = (given + self.from_state(hidden)).unflatten(1, (4, -1)) * z[:, None]  # D(z) Q [x; h]
        both = torch.cat([read, z[:, None].expand_as(read)], 2).transpose(0, 1)  # (4, B, 2z)
        return lstm(torch.bmm(both, self.weight), cell)  # Eq. (10)

    def matrices(self, z):
        """W(z) of Eq. (13): (..., 4, h, d + h)."""
        P = self.weight[:, : self.rank].transpose(1, 2)  # (4, h, z)
        Q = torch.cat([self.from_input.weight, self.from_state.weight], 1).unflatten(0, (4, -1))
        return (P * z[..., None, None, :]) @ Q


def by_gate(sums):
    """Sums (B, 4h) of a word, gate by gate: (4, B, h)."""
    return sums.unflatten(1, (4, -1)).transpose(0, 1)


def lstm(gates, cell):
    """Eq. (10)-(12): hidden state and cell from the sums (4, B, h) of g, o, i and f."""
    new = gates[0].tanh()
    show, write, keep = gates[1:].sigmoid()
    cell = new * write + cell * keep
    return show * cell.tanh(), cell


def compose(meta, basic, x):
    """Read packed texts by both networks, Eq. (19)-(22).

    Parameters
    ----------
    meta : MetaLSTM
    basic : BasicLSTM
    x : PackedSequence of vectors (W, d)

    Returns
    -------
    outputs : tensor of shape (W, h)
        h of every word, packed alike.
    last : tensor of shape (B, h)
        That of the last word of each text, in the order of the packed texts.
    """

    def step(at, state):
        hidden, cell, *meta_state = state
        z, *meta_state = meta(at[0], *meta_state, hidden)
        return *basic(at[1], z, hidden, cell), *meta_state

    return recur(step, _inputs(meta, basic, x), x.batch_sizes, _empty(meta, basic, x))


def generated(meta, basic, x):
    """z of every word of packed texts, (W, z): what the weights of Eq. (13) are made of."""

    def step(at, state):
        _, hidden, cell, *meta_state = state
        z, *meta_state = meta(at[0], *meta_state, hidden)
        return z, *basic(at[1], z, hidden, cell), *meta_state

    empty = _empty(meta, basic, x)
    nothing = empty[0].new_zeros(len(empty[0]), basic.rank)
    return recur(step, _inputs(meta, basic, x), x.batch_sizes, (nothing, *empty))[0]


def _inputs(meta, basic, x):
    return meta.from_input(x.data), basic.from_input(x.data)


def _empty(meta, basic, x):
    n = int(x.batch_sizes[0])
    state, meta_state = (x.data.new_zeros(n, size) for size in (basic.width, meta.meta_width))
    return state, state, meta_state, meta_state
