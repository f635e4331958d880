"""Meta-LSTM: an LSTM whose weights another one generates at every word (paper 004).

Shape legend: W words of all texts together, B texts, d inputs, h width of the basic LSTM, m width
and z outputs of the meta LSTM.
"""

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .packed import words_before

#: Initial bias of the steady units, and the value that their hidden state soon reaches.
STEADY, STEADY_LEVEL = 2.0, 0.82


class MetaLSTM(nn.Module):
    """The generating network, Eq. (15)-(18), which tasks share. ``compose`` runs it.

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        d, h, m and z: 4m(d + h + m + 1) + mz parameters.
    """

    def __init__(self, n_inputs, width, meta_width, rank):
        super().__init__()
        self.from_input = nn.Linear(n_inputs, 4 * meta_width)
        self.from_state = nn.Linear(meta_width + width, 4 * meta_width, bias=False)
        self.to_z = nn.Linear(meta_width, rank, bias=False)  # Eq. (18)
        self._begin_near_one()

    @torch.no_grad()
    def _begin_near_one(self):
        """Make z come near 1 within a few words, so generated weights start as those of an LSTM.

        States near zero would make z near zero, and there would be no weights. Therefore half of
        the units start almost constant, and their part of z is 1.
        """
        m = self.to_z.in_features
        n_steady = m // 2
        if not n_steady:
            return
        for layer in (self.from_input, self.from_state):
            layer.weight.unflatten(0, (4, m))[:, :n_steady] *= 0.1
        bias = self.from_input.bias.unflatten(0, (4, m))
        bias[:3, :n_steady] = STEADY  # candidate, output gate, input gate
        bias[3, :n_steady] = 0.0
        bias[3, n_steady:] = 1.0  # forget gate: remember a little longer
        weight = nn.init.normal_(self.to_z.weight, std=0.5 * n_steady**-0.5)
        steady = weight[:, :n_steady]
        steady += (1 / STEADY_LEVEL - steady.sum(1, keepdim=True)) / n_steady


class BasicLSTM(nn.Module):
    """The network of one task, Eq. (10)-(14), whose weights are P D(z) Q and biases B z.

    ``compose`` runs it.

    Parameters
    ----------
    n_inputs, width, rank : int
        d, h and z: 8hz + 4z(d + h) parameters.
    forget_bias : float, default=2.0
        Initial bias of the forget gate: with 2 a word is kept for some eight words, with 0 for two.

    Notes
    -----
    The paper counts 8hz + 4dz, for Q of shape z x d. But Eq. (10) multiplies W(z) by words and
    states, so Q has shape z x (d + h): with the Meta-LSTM there are 50,080 parameters where the
    paper has 42,080.
    """

    def __init__(self, n_inputs, width, rank, forget_bias=2.0):
        super().__init__()
        self.rank = rank
        self.from_input = nn.Linear(n_inputs, 4 * rank, bias=False)  # part of Q for words
        self.from_state = nn.Linear(width, 4 * rank, bias=False)  # part of Q for states
        # P, with B below it, for the gates c, o, i, f.
        self.weight = nn.Parameter(torch.empty(4, 2 * rank, width))
        with torch.no_grad():  # for z = 1 an ordinary LSTM
            for layer in (self.from_input, self.from_state):
                nn.init.normal_(layer.weight, std=0.6 * layer.in_features**-0.5)
            nn.init.normal_(self.weight[:, :rank], std=rank**-0.5)
            nn.init.normal_(self.weight[:, rank:], std=0.02)
            self.weight[3, rank:] += forget_bias / rank

    def matrices(self, z):
        """W(z) of Eq. (13): (..., 4, h, d + h)."""
        P = self.weight[:, : self.rank].transpose(1, 2)  # (4, h, z)
        Q = torch.cat([self.from_input.weight, self.from_state.weight], 1).unflatten(0, (4, -1))
        return (P * z[..., None, None, :]) @ Q


def compose(meta, basic, x):
    """Run both networks over packed texts, Eq. (19)-(22).

    Parameters
    ----------
    meta : MetaLSTM
    basic : BasicLSTM
    x : PackedSequence of vectors (W, d)

    Returns
    -------
    tensor of shape (W, h)
        h of every word, packed as ``x``.
    """
    return _composition(meta, basic, x)[0]


def generated(meta, basic, x):
    """z of every word of packed texts, (W, z), the input of Eq. (13); without gradient."""
    return _composition(meta, basic, x)[1]


def _composition(meta, basic, x):
    with torch.autocast(x.data.device.type, enabled=False):  # sums over time: full precision
        words = x.data.to(meta.from_input.weight.dtype)
        return Composition.apply(
            *(meta.from_input(words), basic.from_input(words)),
            *(meta.from_state.weight, meta.to_z.weight, basic.from_state.weight, basic.weight),
            x.batch_sizes,
        )


class Composition(torch.autograd.Function):
    """Both networks over packed texts: the recurrence of Eq. (10)-(20) with its gradient.

    The gradient is written by hand: a word takes some sixty small operations, and autograd's
    bookkeeping would take most of the time. What does not depend on the next word is computed for
    all words at once, as are the gradients of the weights. Only the hidden state has a gradient;
    z has none.
    """

    @staticmethod
    def forward(ctx, given, read_given, from_state, to_z, read_state, weight, batch_sizes):
        """h (W, h) and z (W, z) of every word.

        Parameters
        ----------
        given, read_given : tensors of shape (W, 4m) and (W, 4z)
            ``from_input`` of all words, by the Meta-LSTM and by the Basic-LSTM.
        from_state, to_z : tensors of shape (4m, m + h) and (z, m)
            Weights of the Meta-LSTM.
        read_state, weight : tensors of shape (4z, h) and (4, 2z, h)
            Weights of the Basic-LSTM.
        batch_sizes : int tensor of shape (T,)
        """
        n_words, m, h = len(given), to_z.shape[1], weight.shape[2]
        states, cells = (given.new_empty(n_words, m + h) for _ in range(2))  # of both networks
        meta_gates, z = given.clone(), given.new_empty(n_words, len(to_z))
        read, gates = read_given.clone(), given.new_empty(n_words, 4, h)
        state = cell = given.new_zeros(int(batch_sizes[0]), m + h)
        start = 0
        for n in batch_sizes.tolist():
            at, state, cell = slice(start, start + n), state[:n], cell[:n]
            meta_gates[at].addmm_(state, from_state.T)  # Eq. (15)
            _advance(meta_gates[at], cell[:, :m], cells[at, :m], states[at, :m])
            torch.mm(states[at, :m], to_z.T, out=z[at])  # Eq. (18)
            read[at].addmm_(state[:, m:], read_state.T)  # Q [x; h]
            both = _both(read[at], z[at])
            torch.bmm(both, weight, out=gates[at].transpose(0, 1))  # Eq. (10), (13), (14)
            _advance(gates[at].flatten(1), cell[:, m:], cells[at, m:], states[at, m:])
            start, state, cell = start + n, states[at], cells[at]
        weights = from_state, to_z, read_state, weight, batch_sizes
        ctx.save_for_backward(*weights, states, cells, meta_gates, gates, z, read)
        ctx.mark_non_differentiable(z)
        return states[:, m:].clone(), z

    @staticmethod
    @once_differentiable
    def backward(ctx, d_outputs, _):
        """Gradients of the arguments of ``forward``, given those of h."""
        from_state, to_z, read_state, weight, batch_sizes, *kept = ctx.saved_tensors
        states, cells, meta_gates, gates, z, read = kept
        m, rank = to_z.shape[1], len(to_z)
        before = words_before(batch_sizes).to(states.device)
        state_before, cell_before = (
            torch.cat([part.new_zeros(1, part.shape[1]), part])[before + 1]
            for part in (states, cells)
        )
        meta_slopes = _slopes(meta_gates.unflatten(1, (4, m)), cells[:, :m], cell_before[:, :m])
        slopes = _slopes(gates, cells[:, m:], cell_before[:, m:])
        d_meta_gates = torch.empty_like(meta_gates)
        d_gates, d_read, d_z = (torch.empty_like(part) for part in (gates, read, z))
        d_state, d_meta_cell, d_cell = (
            states.new_zeros(int(batch_sizes[0]), size)
            for size in (states.shape[1], m, gates.shape[2])
        )
        end = len(states)
        for n in reversed(batch_sizes.tolist()):
            at = slice(end - n, end)
            d_hidden = d_state[:n, m:] + d_outputs[at]
            _retreat(d_hidden, d_cell[:n], *(part[at] for part in slopes), out=d_gates[at])
            d_both = torch.bmm(d_gates[at].transpose(0, 1), weight.mT)  # (4, n, 2z)
            d_scaled = d_both[..., :rank].transpose(0, 1)  # gradient of z * Q [x; h]
            d_read_now = d_read[at].unflatten(1, (4, rank))
            torch.mul(d_scaled, z[at, None], out=d_read_now)
            scaled = d_scaled * read[at].unflatten(1, (4, rank))
            torch.add(scaled.sum(1), d_both[..., rank:].sum(0), out=d_z[at])
            d_meta_hidden = torch.addmm(d_state[:n, :m], d_z[at], to_z)
            _retreat(
                d_meta_hidden,
                d_meta_cell[:n],
                *(part[at] for part in meta_slopes),
                out=d_meta_gates[at].unflatten(1, (4, m)),
            )
            torch.mm(d_meta_gates[at], from_state, out=d_state[:n])
            d_state[:n, m:].addmm_(d_read[at], read_state)
            end -= n
        both = _both(read, z)
        return (
            d_meta_gates,
            d_read,
            d_meta_gates.T @ state_before,
            d_z.T @ states[:, :m],
            d_read.T @ state_before[:, m:],
            both.mT @ d_gates.transpose(0, 1),
            None,
        )


def _both(read, z):
    """Factors of P and B in Eq. (13)-(14), z * Q [x; h] and z, side by side: (4, n, 2z)."""
    read = read.unflatten(1, (4, -1)) * z[:, None]  # D(z) Q [x; h]
    return torch.cat([read, z[:, None].expand_as(read)], 2).transpose(0, 1)


def _advance(gates, before, cell, hidden):
    """One step of Eq. (10)-(12), or of (15)-(17) for the Meta-LSTM.

    It turns the sums (n, 4h) in ``gates`` into gates, in place, and writes ``cell`` and ``hidden``.
    """
    width = cell.shape[1]
    gates[:, :width].tanh_()
    gates[:, width:].sigmoid_()
    new, show, write, keep = gates.split(width, 1)
    torch.mul(new, write, out=cell).addcmul_(before, keep)
    torch.mul(show, cell.tanh(), out=hidden)


def _slopes(gates, cells, before):
    """Derivatives of the steps with gates (W, 4, h) and cells (W, h).

    They are those of the hidden state by the cell, (W, h); of the cell by the sums, or of the
    hidden state for the output gate's sum, (W, 4, h); and of the cell by the cell before, (W, h).
    """
    new, show, write, keep = gates.unbind(1)
    told = cells.tanh()
    to_sums = torch.stack(
        [
            write * (1 - new.square()),
            told * show * (1 - show),
            new * write * (1 - write),
            before * keep * (1 - keep),
        ],
        1,
    )
    return show * (1 - told.square()), to_sums, keep


def _retreat(d_hidden, d_cell, to_cell, to_sums, keep, out):
    """Write the gradients of the sums to ``out``, and that of the cell before to ``d_cell``."""
    d_cell.addcmul_(d_hidden, to_cell)
    torch.mul(to_sums, d_cell[:, None], out=out)
    torch.mul(to_sums[:, 1], d_hidden, out=out[:, 1])
    d_cell.mul_(keep)
