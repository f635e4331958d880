"""What tasks of texts share: the Meta-LSTM and its rivals (paper 004).

Every scheme has a part that all tasks share and a private part for each; a call reads packed texts
of one task. Shape legend: W words of all texts together, B texts, d inputs, h width.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .meta_lstm import BasicLSTM, MetaLSTM, compose
from .packed import last_words, recur

#: Places of padded texts for each word, above which torch's LSTM reads them packed.
MOST_PADDING = 2


class Sharing(nn.Module):
    """Base class of the schemes.

    Parameters
    ----------
    n_inputs : int
        Length d of the vector of a word.
    width : int, default=100
        Hidden units h of each LSTM.

    Attributes
    ----------
    n_outputs : int
        Length of what is said of a word, and of a text.
    shared : Module or None
    private : ModuleList
        One for each task, in the order in which they were added.
    """

    def __init__(self, n_inputs, *, width=100):
        super().__init__()
        self.n_inputs = n_inputs
        self.width = self.n_outputs = width
        self.config = {"width": width}
        self.shared = None
        self.private = nn.ModuleList()

    def add_task(self):
        """Give one more task a private part of random weights."""
        self.private.append(self._new_private())

    def forward(self, x, task):
        """What is said of the words and the texts of a task.

        Parameters
        ----------
        x : PackedSequence of vectors (W, d)
        task : int

        Returns
        -------
        outputs : tensor of shape (W, n_outputs)
            Packed as ``x``.
        last : tensor of shape (B, n_outputs)
            Of the texts, in their order in the packed data.
        penalty : tensor of shape ()
            To be added to the loss; 0 but for ASP-MTL.
        """
        raise NotImplementedError

    def _new_private(self):
        raise NotImplementedError


class NotShared(Sharing):
    """LSTM of Eq. (2)-(4), one for each task."""

    def forward(self, x, task):
        """As of :class:`Sharing`."""
        return *run_lstm(self.private[task], x), x.data.new_zeros(())

    def _new_private(self):
        return nn.LSTM(self.n_inputs, self.width)


class HyperLSTM(nn.Module):
    """LSTM whose sums a smaller one scales (D. Ha, A. Dai, Q. Le, 2016), without normalisation.

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        d, h, width of the smaller LSTM, and length of each of the vectors that it says.
    """

    def __init__(self, n_inputs, width, meta_width, rank):
        super().__init__()
        self.width, self.meta_width = width, meta_width
        self.from_input = nn.Linear(n_inputs, 4 * width, bias=False)
        self.from_state = nn.Linear(width, 4 * width, bias=False)
        self.meta_from_input = nn.Linear(n_inputs, 4 * meta_width)
        self.meta_from_state = nn.Linear(meta_width + width, 4 * meta_width, bias=False)
        self.says = nn.Linear(meta_width, 3 * rank)
        self.scales = nn.ModuleList(nn.Linear(rank, 4 * width) for _ in range(3))
        for scale, start in zip(self.scales, (1.0, 1.0, 0.0)):
            nn.init.constant_(scale.bias, start)  # it begins as a plain LSTM

    def forward(self, x):
        """Outputs (W, h) and the last of each text (B, h) of packed texts."""
        sizes, n = x.batch_sizes, int(x.batch_sizes[0])
        state, meta_state = (x.data.new_zeros(n, size) for size in (self.width, self.meta_width))
        given = self.from_input(x.data), self.meta_from_input(x.data)
        return recur(self._step, given, sizes, (state, state, meta_state, meta_state))

    def _step(self, at, state):
        hidden, cell, meta_hidden, meta_cell = state
        gates = at[1] + self.meta_from_state(torch.cat([meta_hidden, hidden], 1))
        meta_hidden, meta_cell = lstm(gates, meta_cell)
        by_input, by_state, bias = (
            scale(z) for scale, z in zip(self.scales, self.says(meta_hidden).chunk(3, 1))
        )
        gates = by_input * at[0] + by_state * self.from_state(hidden) + bias
        return *lstm(gates, cell), meta_hidden, meta_cell


class NotSharedHyper(Sharing):
    """A HyperLSTM for each task.

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        See :class:`HyperLSTM`; 100, 40 and 40 by default.
    """

    def __init__(self, n_inputs, *, width=100, meta_width=40, rank=40):
        super().__init__(n_inputs, width=width)
        self.config |= {"meta_width": meta_width, "rank": rank}

    def forward(self, x, task):
        """As of :class:`Sharing`."""
        return *self.private[task](x), x.data.new_zeros(())

    def _new_private(self):
        return HyperLSTM(self.n_inputs, **self.config)


class SharedMeta(Sharing):
    """A shared Meta-LSTM that generates each task's Basic-LSTM, Eq. (21)-(22).

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        d, h, m and z; 100, 40 and 40 by default, those of table 2.
    """

    def __init__(self, n_inputs, *, width=100, meta_width=40, rank=40):
        super().__init__(n_inputs, width=width)
        self.config |= {"meta_width": meta_width, "rank": rank}
        self.shared = MetaLSTM(n_inputs, width, meta_width, rank)

    def forward(self, x, task):
        """As of :class:`Sharing`."""
        return *compose(self.shared, self.private[task], x), x.data.new_zeros(())

    def _new_private(self):
        return BasicLSTM(self.n_inputs, self.width, self.config["rank"])


class Stacked(Sharing):
    """SSP-MTL: the private LSTM reads the words and what the shared one says, Eq. (6)-(7)."""

    def __init__(self, n_inputs, *, width=100):
        super().__init__(n_inputs, width=width)
        self.shared = nn.LSTM(n_inputs, width)

    def forward(self, x, task):
        """As of :class:`Sharing`."""
        said = run_lstm(self.shared, x)[0]
        both = x._replace(data=torch.cat([x.data, said], 1))
        return *run_lstm(self.private[task], both), x.data.new_zeros(())

    def _new_private(self):
        return nn.LSTM(self.n_inputs + self.width, self.width)


class Parallel(Sharing):
    """PSP-MTL: a shared and a private LSTM read the words, and both are heard."""

    def __init__(self, n_inputs, *, width=100):
        super().__init__(n_inputs, width=width)
        self.n_outputs = 2 * width
        self.shared = nn.LSTM(n_inputs, width)

    def forward(self, x, task):
        """As of :class:`Sharing`."""
        shared, private = run_lstm(self.shared, x), run_lstm(self.private[task], x)
        said = (torch.cat(pair, 1) for pair in zip(shared, private))
        return *said, self._penalty(shared[1], private[1], task)

    def _penalty(self, shared, private, task):
        return shared.new_zeros(())

    def _new_private(self):
        return nn.LSTM(self.n_inputs, self.width)


class Adversarial(Parallel):
    """ASP-MTL (P. Liu, X. Qiu, X. Huang, 2017): shared features must not tell the task.

    A discriminator guesses the task from the shared features of a text, which learn to mislead it,
    and shared and private features are pushed to be orthogonal.

    Parameters
    ----------
    n_inputs, width : int
    adversarial, orthogonal : float, default=0.05 and 0.01
        Weights of both losses.
    most_tasks : int, default=64
        Outputs of the discriminator.
    """

    def __init__(self, n_inputs, *, width=100, adversarial=0.05, orthogonal=0.01, most_tasks=64):
        super().__init__(n_inputs, width=width)
        self.config |= {
            "adversarial": adversarial,
            "orthogonal": orthogonal,
            "most_tasks": most_tasks,
        }
        self.discriminator = nn.Linear(width, most_tasks)

    def add_task(self):
        """As of :class:`Sharing`.

        Raises
        ------
        ValueError
            If there are ``most_tasks`` already.
        """
        if len(self.private) == self.config["most_tasks"]:
            raise ValueError(
                f"The discriminator tells {len(self.private)} tasks: take fewer, or a larger "
                "most_tasks."
            )
        super().add_task()

    def _penalty(self, shared, private, task):
        if not self.training:
            return shared.new_zeros(())
        guess = self.discriminator(ReversedGradient.apply(shared))[:, : len(self.private)]
        right = torch.full((len(shared),), task, device=shared.device)
        adversarial = nn.functional.cross_entropy(guess, right)
        orthogonal = (shared.T @ private).square().sum() / len(shared) ** 2
        return self.config["adversarial"] * adversarial + self.config["orthogonal"] * orthogonal


class ReversedGradient(torch.autograd.Function):
    """The identity, whose gradient has the other sign."""

    @staticmethod
    def forward(ctx, x):
        """The same."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        """The negative."""
        return -gradient


def lstm(gates, cell):
    """Eq. (2)-(4): hidden state and cell from the sums (B, 4h) of g, o, i and f."""
    new, show, write, keep = gates.chunk(4, 1)
    cell = new.tanh() * write.sigmoid() + cell * keep.sigmoid()
    return show.sigmoid() * cell.tanh(), cell


def run_lstm(network, x):
    """Outputs (W, h) and the last of each text (B, h) of torch's LSTM on packed texts."""
    x = PackedSequence(x.data, x.batch_sizes)
    n_places = len(x.batch_sizes) * int(x.batch_sizes[0])
    if x.data.is_cuda or n_places > MOST_PADDING * len(x.data):
        outputs, (last, _) = network(x)
        return outputs.data, last[0]
    # On a processor torch is several times faster on padded texts of like length; what follows a
    # text's end changes nothing before it.
    padded, lengths = pad_packed_sequence(x)
    outputs = pack_padded_sequence(network(padded)[0], lengths).data
    return outputs, outputs[last_words(x.batch_sizes)]


#: Schemes by the name that ``backbone=`` and the weight cards use.
TEXT_BACKBONES = {
    "meta_lstm": SharedMeta,
    "lstm": NotShared,
    "hyper_lstm": NotSharedHyper,
    "ssp_mtl": Stacked,
    "psp_mtl": Parallel,
    "asp_mtl": Adversarial,
}
