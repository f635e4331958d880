"""Schemes by which tasks of texts share weights: the Meta-LSTM and its baselines (paper 004).

A scheme has a private part for each task and, unless nothing is shared, a part for all tasks. A
call reads packed texts of one task. Shape legend: W words of all texts together, B texts, d inputs,
h width.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..sizes import check_integers
from .meta_lstm import BasicLSTM, MetaLSTM, compose
from .packed import last_words, recur

#: Maximum padded positions per word; if there are more, torch's LSTM reads texts packed.
MOST_PADDING = 2


class Sharing(nn.Module):
    """Base class of the schemes.

    Parameters
    ----------
    n_inputs : int
        Length d of the vector of a word.
    width : int, default=100
        Hidden units h of each LSTM.
    pooling : {"last", "max"}, default="last"
        Features of a text: the output at its last word, or each unit's maximum over its words.

    Raises
    ------
    ValueError
        If ``pooling`` is unknown, or a size is out of range.

    Attributes
    ----------
    n_outputs : int
        Number of features of a word, and of a text.
    shared : Module or None
    private : ModuleList
        One for each task, in the order in which they were added.
    """

    def __init__(self, n_inputs, *, width=100, pooling="last"):
        super().__init__()
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {list(POOLINGS)}, got {pooling!r}.")
        check_integers(n_inputs=n_inputs, width=width)
        self.n_inputs = n_inputs
        self.width = self.n_outputs = width
        self.config = {"width": width, "pooling": pooling}
        self.shared = None
        self.private = nn.ModuleList()

    def add_task(self):
        """Add a task, with a private part of random weights."""
        self.private.append(self._new_private())

    def forward(self, x, task):
        """Features of the words and the texts of a task.

        Parameters
        ----------
        x : PackedSequence of vectors (W, d)
        task : int

        Returns
        -------
        outputs : tensor of shape (W, n_outputs)
            Packed as ``x``.
        texts : tensor of shape (B, n_outputs)
            In the order of the packed data.
        penalty : tensor of shape ()
            Added to the loss; 0 except for ASP-MTL.
        """
        outputs = self._outputs(x, task)
        texts = POOLINGS[self.config["pooling"]](outputs, x.batch_sizes)
        return outputs, texts, self._penalty(texts, task)

    def _outputs(self, x, task):
        raise NotImplementedError

    def _penalty(self, texts, task):
        return texts.new_zeros(())

    def _new_private(self):
        raise NotImplementedError


class NotShared(Sharing):
    """LSTM of Eq. (2)-(4), one for each task."""

    def _outputs(self, x, task):
        return run_lstm(self.private[task], x)

    def _new_private(self):
        return nn.LSTM(self.n_inputs, self.width)


class HyperLSTM(nn.Module):
    """LSTM whose sums a smaller LSTM scales (D. Ha, A. Dai, Q. Le, 2016), without normalisation.

    The smaller one outputs a vector each for inputs, states and biases, which the gates share.

    Parameters
    ----------
    n_inputs, width, meta_width, rank : int
        d, h, width of the smaller LSTM, and length of each vector that it outputs.
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
            nn.init.constant_(scale.bias, start)  # start as a plain LSTM

    def forward(self, x):
        """Outputs (W, h) of packed texts."""
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
    n_inputs : int
    width, meta_width, rank : int, default=100, 40 and 40
        See :class:`HyperLSTM`.
    pooling : {"last", "max"}, default="last"
    """

    def __init__(self, n_inputs, *, width=100, meta_width=40, rank=40, pooling="last"):
        super().__init__(n_inputs, width=width, pooling=pooling)
        check_integers(meta_width=meta_width, rank=rank)
        self.config |= {"meta_width": meta_width, "rank": rank}

    def _outputs(self, x, task):
        return self.private[task](x)

    def _new_private(self):
        sizes = (self.config[name] for name in ("width", "meta_width", "rank"))
        return HyperLSTM(self.n_inputs, *sizes)


class SharedMeta(Sharing):
    """A shared Meta-LSTM that generates each task's Basic-LSTM, Eq. (21)-(22).

    Parameters
    ----------
    n_inputs : int
        d.
    width, meta_width, rank : int, default=100, 40 and 40
        h, m and z; the defaults are those of table 2.
    pooling : {"last", "max"}, default="last"
    forget_bias : float, default=2.0
        See :class:`~sklearn_meta.backbones.meta_lstm.BasicLSTM`.
    """

    def __init__(
        self, n_inputs, *, width=100, meta_width=40, rank=40, pooling="last", forget_bias=2.0
    ):
        super().__init__(n_inputs, width=width, pooling=pooling)
        check_integers(meta_width=meta_width, rank=rank)
        self.config |= {"meta_width": meta_width, "rank": rank, "forget_bias": forget_bias}
        self.shared = MetaLSTM(n_inputs, width, meta_width, rank)

    def _outputs(self, x, task):
        return compose(self.shared, self.private[task], x)

    def _new_private(self):
        sizes = (self.config[name] for name in ("width", "rank", "forget_bias"))
        return BasicLSTM(self.n_inputs, *sizes)


class Stacked(Sharing):
    """SSP-MTL: the private LSTM reads the words and the shared one's outputs, Eq. (6)-(7)."""

    def __init__(self, n_inputs, *, width=100, pooling="last"):
        super().__init__(n_inputs, width=width, pooling=pooling)
        self.shared = nn.LSTM(n_inputs, width)

    def _outputs(self, x, task):
        read = self._read_by_private(x.data, run_lstm(self.shared, x))
        return run_lstm(self.private[task], x._replace(data=read))

    def _read_by_private(self, words, said):
        return torch.cat([words, said], 1)

    def _new_private(self):
        return nn.LSTM(self.n_inputs + self.width, self.width)


class StackedSharedOnly(Stacked):
    """SSP-MTL whose private LSTM reads only the shared one's outputs, not the words.

    Eq. (7) has both, but the text beside it describes this variant. So does Table 3, whose 1,411K
    parameters are this variant's: with output layers, 200 inputs and one bias per gate (torch has
    two) it has 1,410,032, where Eq. (7) has 2,690,032.
    """

    def _read_by_private(self, words, said):
        return said

    def _new_private(self):
        return nn.LSTM(self.width, self.width)


class Parallel(Sharing):
    """PSP-MTL: a shared and a private LSTM read the words; their outputs are concatenated."""

    def __init__(self, n_inputs, *, width=100, pooling="last"):
        super().__init__(n_inputs, width=width, pooling=pooling)
        self.n_outputs = 2 * width
        self.shared = nn.LSTM(n_inputs, width)

    def _outputs(self, x, task):
        return torch.cat([run_lstm(self.shared, x), run_lstm(self.private[task], x)], 1)

    def _new_private(self):
        return nn.LSTM(self.n_inputs, self.width)


class Adversarial(Parallel):
    """ASP-MTL (P. Liu, X. Qiu, X. Huang, 2017): shared features must not reveal the task.

    A discriminator guesses the task from the shared features of a text, which learn to mislead it.
    Shared and private features are pushed to be orthogonal.

    Parameters
    ----------
    n_inputs : int
    width : int, default=100
    pooling : {"last", "max"}, default="last"
    adversarial, orthogonal : float, default=0.05 and 0.01
        Weights of these two losses.
    most_tasks : int, default=64
        Maximum number of tasks: the outputs of the discriminator.
    """

    def __init__(
        self,
        n_inputs,
        *,
        width=100,
        pooling="last",
        adversarial=0.05,
        orthogonal=0.01,
        most_tasks=64,
    ):
        super().__init__(n_inputs, width=width, pooling=pooling)
        check_integers(most_tasks=most_tasks)
        self.config |= {
            "adversarial": adversarial,
            "orthogonal": orthogonal,
            "most_tasks": most_tasks,
        }
        self.discriminator = nn.Linear(width, most_tasks)

    def add_task(self):
        """As in :class:`Sharing`.

        Raises
        ------
        ValueError
            If there are ``most_tasks`` already.
        """
        if len(self.private) == self.config["most_tasks"]:
            raise ValueError(
                f"The discriminator handles at most {len(self.private)} tasks: use fewer, or a "
                "larger most_tasks."
            )
        super().add_task()

    def _penalty(self, texts, task):
        if not self.training:
            return super()._penalty(texts, task)
        shared, private = texts.chunk(2, 1)
        guess = self.discriminator(ReversedGradient.apply(shared))[:, : len(self.private)]
        right = torch.full((len(shared),), task, device=shared.device)
        adversarial = nn.functional.cross_entropy(guess, right)
        orthogonal = (shared.T @ private).square().sum() / len(shared) ** 2
        return self.config["adversarial"] * adversarial + self.config["orthogonal"] * orthogonal


class ReversedGradient(torch.autograd.Function):
    """The identity, with the sign of its gradient reversed."""

    @staticmethod
    def forward(ctx, x):
        """Return ``x``."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        """Return the negative gradient."""
        return -gradient


def lstm(gates, cell):
    """Eq. (2)-(4): hidden state and cell from the sums (B, 4h) of g, o, i and f."""
    new, show, write, keep = gates.chunk(4, 1)
    cell = new.tanh() * write.sigmoid() + cell * keep.sigmoid()
    return show.sigmoid() * cell.tanh(), cell


def run_lstm(network, x):
    """Outputs (W, h) of torch's LSTM on packed texts."""
    x = PackedSequence(x.data, x.batch_sizes)
    n_places = len(x.batch_sizes) * int(x.batch_sizes[0])
    if x.data.is_cuda or n_places > MOST_PADDING * len(x.data):
        return network(x)[0].data
    # On a CPU torch is several times faster on padded texts of similar length. Padding follows the
    # words, so it does not affect them.
    padded, lengths = pad_packed_sequence(x)
    return pack_padded_sequence(network(padded)[0], lengths).data


def last(outputs, batch_sizes):
    """Output at the last word of each text, (B, n), from packed outputs (W, n)."""
    return outputs[last_words(batch_sizes).to(outputs.device)]


def highest(outputs, batch_sizes):
    """Maximum of each unit over the words of each text, (B, n), from packed outputs (W, n)."""
    packed = PackedSequence(outputs, batch_sizes)
    return pad_packed_sequence(packed, padding_value=-torch.inf)[0].max(0).values


#: Poolings of a text's outputs, by the name that ``pooling=`` uses.
POOLINGS = {"last": last, "max": highest}

#: Schemes by the name that ``backbone=`` and the weight cards use.
TEXT_BACKBONES = {
    "meta_lstm": SharedMeta,
    "lstm": NotShared,
    "hyper_lstm": NotSharedHyper,
    "ssp_mtl": Stacked,
    "ssp_mtl_shared_only": StackedSharedOnly,
    "psp_mtl": Parallel,
    "asp_mtl": Adversarial,
}
