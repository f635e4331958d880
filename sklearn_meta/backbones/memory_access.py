"""How a controller reads from and writes to an external memory (paper 002).

Shape legend: B sequences, N slots, W their size, R read heads, H width of the controller.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

#: Minimum norm in a cosine similarity, since that of an empty slot would be 0 / 0. It is also added
#: to addressing weights before they are sharpened.
EPSILON = 1e-6


class Memory(NamedTuple):
    """State of an external memory between two steps.

    Parameters
    ----------
    slots : tensor of shape (B, N, W)
        The memory M of Eq. (2).
    read_weights, write_weights : tensor of shape (B, R, N)
        Weights of the last step. The write weights of an NTM are (B, 1, N).
    usage : tensor of shape (B, N)
        Usage weights of Eq. (5); no gradient flows through them.
    reads : tensor of shape (B, R, W)
        What was read in the last step.
    """

    slots: torch.Tensor
    read_weights: torch.Tensor
    write_weights: torch.Tensor
    usage: torch.Tensor
    reads: torch.Tensor


def similarity(keys, slots, epsilon: float = EPSILON):
    """Cosine similarity of Eq. (2): (B, R, W) and (B, N, W) to (B, R, N)."""
    lengths = torch.linalg.vector_norm(slots, dim=2).clamp(min=epsilon)
    keys = F.normalize(keys, dim=2, eps=epsilon)
    return torch.bmm(keys, slots.transpose(1, 2)) / lengths.unsqueeze(1)


def lrua_step(
    slots: torch.Tensor,
    read_weights: torch.Tensor,
    usage: torch.Tensor,
    keys: torch.Tensor,
    gate: torch.Tensor,
    strength: torch.Tensor,
    decay: float,
    shared: bool,
):
    """One step of least recently used access, all heads and sequences at once: Eq. (2)-(8).

    The least used slot is emptied. Each head writes there or to the slots that it read last, and
    then reads. Eq. (6) marks as many least used slots as there are heads. If the heads share one
    slot instead, what they write is bound together, and memory lasts R times longer. Among equally
    used slots the first is taken.

    Parameters
    ----------
    slots, read_weights, usage : tensors
        Memory of the previous step: see :class:`Memory`.
    keys : tensor of shape (B, R, W)
        k of Eq. (2) and (8).
    gate : tensor of shape (B, R, 1)
        sigma(alpha) of Eq. (7).
    strength : tensor of shape (B, R, 1)
        Factor of the similarities in the softmax of Eq. (3); 1 in the paper.
    decay : float
        gamma of Eq. (5).
    shared : bool
        Whether all heads share the least used slot, or each has one of the R least used.

    Returns
    -------
    slots, read_weights, write_weights, usage, reads : tensors
    """
    # argmin and a stable sort, not topk, which would not define which of equal slots are taken.
    n_heads = keys.shape[1]
    if shared:
        least = usage.argmin(dim=1, keepdim=True).expand(-1, n_heads).unsqueeze(2)
    else:
        least = usage.argsort(dim=1, stable=True)[:, :n_heads].unsqueeze(2)
    least_used = torch.zeros_like(read_weights).scatter_(2, least, 1.0)  # (6)
    write_weights = torch.lerp(least_used, read_weights, gate)  # (7)
    kept = slots * (1 - least_used.amax(1)).unsqueeze(2)
    slots = kept.baddbmm_(write_weights.transpose(1, 2), keys)  # (8)
    read_weights = (strength * similarity(keys, slots)).softmax(2)  # (2), (3)
    reads = torch.bmm(read_weights, slots)  # (4)
    usage = decay * usage + (read_weights + write_weights).detach().sum(1)  # (5)
    return slots, read_weights, write_weights, usage, reads


class LeastRecentlyUsed(nn.Module):
    """Least recently used access (LRUA) of section 3.2.

    Parameters
    ----------
    width : int
        Width H of the controller.
    n_slots, slot_size, n_reads : int
    usage_decay : float
        gamma of Eq. (5).
    strength : float or None
        A fixed read strength. If None, the controller chooses one at each step.
    shared : bool
        Whether heads share the least used slot.
    """

    def __init__(self, width, n_slots, slot_size, n_reads, usage_decay, strength, shared):
        super().__init__()
        self.shape = n_slots, slot_size, n_reads
        self.usage_decay = usage_decay
        self.strength = strength
        self.shared = shared
        self.keys = nn.Linear(width, n_reads * slot_size)
        self.gates = nn.Linear(width, n_reads * (2 if strength is None else 1))

    def empty(self, n, like):
        """Memory of ``n`` sequences before their first step, with ``like``'s dtype and device."""
        n_slots, slot_size, n_reads = self.shape
        weights = like.new_zeros(n, n_reads, n_slots)
        return Memory(
            like.new_zeros(n, n_slots, slot_size),
            weights,
            weights,
            like.new_zeros(n, n_slots),
            like.new_zeros(n, n_reads, slot_size),
        )

    def forward(self, hidden, cell, memory):
        """Memory after a step, from the controller's hidden and cell state, (B, H) each."""
        _, slot_size, n_reads = self.shape
        keys = self.keys(cell).tanh().unflatten(1, (n_reads, slot_size))
        gates = self.gates(hidden).unflatten(1, (n_reads, -1))
        if self.strength is None:
            strength = _strength(gates[..., 1:])
        else:
            strength = gates.new_full((1, 1, 1), self.strength)
        gate = gates[..., :1].sigmoid()
        before = memory.slots, memory.read_weights, memory.usage
        return Memory(*lrua_step(*before, keys, gate, strength, self.usage_decay, self.shared))


class TuringMachine(nn.Module):
    """Content- and location-based access of the Neural Turing Machine: the baseline of LRUA.

    There are R read heads and one write head. Each addresses slots by content, interpolates with
    its weights of the previous step, shifts the weights and sharpens them.

    Parameters
    ----------
    width, n_slots, slot_size, n_reads : int
        As in :class:`LeastRecentlyUsed`.

    References
    ----------
    A. Graves, G. Wayne, I. Danihelka. Neural Turing Machines. arXiv:1410.5401, 2014, section 3.
    """

    def __init__(self, width, n_slots, slot_size, n_reads):
        super().__init__()
        self.shape = n_slots, slot_size, n_reads
        # Each read head, and the write head, has a key, strength, interpolation, three shifts and
        # sharpness.
        self.heads = nn.Linear(width, (n_reads + 1) * (slot_size + 6))
        self.erase_and_add = nn.Linear(width, 2 * slot_size)
        start = nn.init.normal_(torch.empty(n_slots, slot_size), std=0.1)
        self.start = nn.Parameter(start)  # random: content cannot address equal slots

    def empty(self, n, like):
        """As in :class:`LeastRecentlyUsed`; heads start at the first slot."""
        n_slots, slot_size, n_reads = self.shape
        weights = like.new_zeros(n, n_reads + 1, n_slots)
        weights[..., 0] = 1
        return Memory(
            self.start.to(like).expand(n, -1, -1),
            weights[:, :n_reads],
            weights[:, n_reads:],
            like.new_zeros(n, n_slots),
            like.new_zeros(n, n_reads, slot_size),
        )

    def forward(self, hidden, cell, memory):
        """Memory after a step, from the controller's hidden and cell state, (B, H) each."""
        _, slot_size, n_reads = self.shape
        asked = self.heads(hidden).unflatten(1, (n_reads + 1, slot_size + 6))
        readers, writer = asked[:, :n_reads], asked[:, n_reads:]
        write_weights = self._address(writer, memory.write_weights, memory.slots)
        erase, add = self.erase_and_add(hidden).unflatten(1, (2, slot_size)).unbind(1)
        share = write_weights.transpose(1, 2)  # (B, N, 1)
        slots = memory.slots * (1 - share * erase.sigmoid()[:, None]) + share * add.tanh()[:, None]
        read_weights = self._address(readers, memory.read_weights, slots)
        return Memory(
            slots, read_weights, write_weights, memory.usage, torch.bmm(read_weights, slots)
        )

    def _address(self, asked, before, slots):
        """Addressing weights of some heads: by content, interpolated, shifted and sharpened."""
        key, strength, mix, shift, sharpness = asked.split([self.shape[1], 1, 1, 3, 1], dim=2)
        by_content = (_strength(strength) * similarity(key.tanh(), slots)).softmax(2)
        weights = torch.lerp(before, by_content, mix.sigmoid())
        shift = shift.softmax(2)
        weights = (
            shift[..., :1] * weights.roll(1, 2)
            + shift[..., 1:2] * weights
            + shift[..., 2:] * weights.roll(-1, 2)
        )
        weights = (weights + EPSILON) ** (1 + F.softplus(sharpness))
        return weights / weights.sum(2, keepdim=True)


def _strength(x):
    """Map ``x`` to a strength well above 1: over many slots a plain softmax is never sharp."""
    return 1 + 5 * F.softplus(x)
