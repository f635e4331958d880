"""Memory-augmented networks, which read one row at a time and remember (paper 002).

Shape legend: B sequences, T rows of each, I inputs, H width of the controller, O outputs.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from ..sizes import check_integers
from .memory_access import LeastRecentlyUsed, Memory, TuringMachine


class State(NamedTuple):
    """What a network remembers of the rows it has read.

    Parameters
    ----------
    hidden, cell : tensor of shape (B, H)
        State of the controller. A feed-forward controller has none: both are its last output.
    memory : Memory or None
        The external memory, if there is one.
    """

    hidden: torch.Tensor
    cell: torch.Tensor
    memory: Memory | None


class MANN(nn.Module):
    """Controller with an external memory, or without one.

    Parameters
    ----------
    n_inputs : int
        Length I of the vector of a step: the row, and the label of the row before.
    n_outputs : int
        Length O of the output, which a head reads as logits or as a distribution's parameters.
    controller : {"lstm", "feedforward"}, default="lstm"
        An LSTM, Eq. (9)-(15), or one hidden layer, whose only memory is the external one.
    access : {"lrua", "ntm", None}, default="lrua"
        How memory is read and written: least recently used access, or that of the Neural Turing
        Machine; None is a plain LSTM or feed-forward network.
    width : int, default=200
        Hidden units of the controller.
    n_slots, slot_size, n_reads : int, default=128, 40 and 4
        Slots of the memory, their size, and read heads.
    usage_decay : float, default=0.99
        gamma of Eq. (5) and (20).
    strength : float, default=None
        Factor of the similarities in Eq. (3), which is 1 in the paper. If None, the controller
        chooses it, as in the Neural Turing Machine.
    shared_slot : bool, default=True
        Whether the read heads of "lrua" share the least used slot, or use the ``n_reads`` least
        used ones, one each.

    Raises
    ------
    ValueError
        If controller or access is unknown, a size is out of range, or there are fewer slots than
        read heads.

    References
    ----------
    A. Santoro, S. Bartunov, M. Botvinick, D. Wierstra, T. Lillicrap. One-shot Learning with
    Memory-Augmented Neural Networks. ICML 2016, and its supplement.
    """

    def __init__(
        self,
        n_inputs,
        n_outputs,
        *,
        controller="lstm",
        access="lrua",
        width=200,
        n_slots=128,
        slot_size=40,
        n_reads=4,
        usage_decay=0.99,
        strength=None,
        shared_slot=True,
    ):
        super().__init__()
        if controller not in ("lstm", "feedforward"):
            raise ValueError(f"controller must be 'lstm' or 'feedforward', got {controller!r}.")
        if access not in ("lrua", "ntm", None):
            raise ValueError(f"access must be 'lrua', 'ntm' or None, got {access!r}.")
        check_integers(width=width)
        if access:
            check_integers(n_slots=n_slots, slot_size=slot_size, n_reads=n_reads)
        if access and n_reads > n_slots:
            raise ValueError(f"n_slots must be at least n_reads={n_reads}, got n_slots={n_slots}.")
        self.config = {
            "controller": controller,
            "access": access,
            "width": width,
            "n_slots": n_slots,
            "slot_size": slot_size,
            "n_reads": n_reads,
            "usage_decay": usage_decay,
            "strength": strength,
            "shared_slot": shared_slot,
        }
        self.width = width
        self.is_recurrent = controller == "lstm"
        n_units = 4 * width if self.is_recurrent else width
        n_read = n_reads * slot_size if access else 0
        n_before = n_read + (width if self.is_recurrent else 0)
        self.from_input = nn.Linear(n_inputs, n_units)
        self.from_before = nn.Linear(n_before, n_units, bias=False) if n_before else None
        self.access = None
        if access == "lrua":
            self.access = LeastRecentlyUsed(
                width, n_slots, slot_size, n_reads, usage_decay, strength, shared_slot
            )
        elif access == "ntm":
            self.access = TuringMachine(width, n_slots, slot_size, n_reads)
        self.output = nn.Linear(width + n_read, n_outputs)

    def empty(self, n):
        """State of ``n`` sequences before their first row."""
        like = self.from_input.bias
        zeros = like.new_zeros(n, self.width)
        return State(zeros, zeros, self.access and self.access.empty(n, like))

    def forward(self, inputs, state=None):
        """Outputs of each step, and the state after the last.

        Parameters
        ----------
        inputs : tensor of shape (B, T, I)
        state : State, default=None
            State to continue from; None starts anew.

        Returns
        -------
        outputs : tensor of shape (B, T, O)
        state : State
        """
        state = self.empty(len(inputs)) if state is None else state
        dtype = self.from_input.weight.dtype
        said = []  # o of Eq. (16): the controller's hidden state and what was read
        for given in self.from_input(inputs.to(dtype)).to(dtype).unbind(1):
            state = self._step(given, state)
            said.append(torch.cat([state.hidden, *self._reads(state)], 1))
        with torch.autocast(inputs.device.type, enabled=False):  # densities need full precision
            return self.output(torch.stack(said, 1)), state

    def _step(self, given, state):
        if self.is_recurrent:
            hidden, cell = self._lstm(given + self._before(state, state.hidden), state.cell)
        else:
            hidden = cell = (given + self._before(state)).tanh()
        if self.access is None:
            return State(hidden, cell, None)
        with torch.autocast(given.device.type, enabled=False):  # sums over time: full precision
            return State(hidden, cell, self.access(hidden, cell, state.memory))

    @staticmethod
    def _reads(state):
        """Tuple of what was read from the external memory, (B, R * W); empty without a memory."""
        return () if state.memory is None else (state.memory.reads.flatten(1),)

    def _before(self, state, *hidden):
        """Contribution of the previous step: what was read (section 3.1) and, for an LSTM, h."""
        if self.from_before is None:
            return 0
        weight = self.from_before.weight
        return F.linear(torch.cat([*hidden, *self._reads(state)], 1), weight).to(weight.dtype)

    def _lstm(self, gates, cell):
        """Hidden state and cell of Eq. (9)-(15), given the sums of Eq. (9)."""
        forget, write, show, new = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + write.sigmoid() * new.tanh()  # (10), (11), (13), (14)
        return show.sigmoid() * cell.tanh(), cell  # (12), (15)
