"""Recurrences over sequences of different length, without padding.

Sequences come as :class:`torch.nn.utils.rnn.PackedSequence`: the first words of all sequences, then
all second words, and so on, so that no step computes anything for a sequence that has ended.
Shape legend: W words of all sequences together, B sequences.
"""

import torch


def recur(step, inputs, batch_sizes, state):
    """Run a recurrence over packed data.

    Parameters
    ----------
    step : callable
        Takes the inputs of one position, a tuple of tensors (b, ...), and the state of the
        sequences that have not ended; returns the next state.
    inputs : tuple of tensors of shape (W, ...)
        Inputs of the steps, which do not depend on the state: computed for all words at once.
    batch_sizes : int tensor of shape (T,)
        Number of sequences with a word at each position, in descending order.
    state : tuple of tensors of shape (B, ...)
        State before the first word.

    Returns
    -------
    tensor of shape (W, ...)
        First part of the state after each word.
    """
    outputs = []
    sizes = batch_sizes.tolist()
    for at, n in zip(zip(*(x.split(sizes) for x in inputs)), sizes):
        if n < len(state[0]):
            state = tuple(part[:n] for part in state)
        state = step(at, state)
        outputs.append(state[0])
    return torch.cat(outputs)


def reversal(batch_sizes):
    """Indices that reverse each sequence of packed data.

    Parameters
    ----------
    batch_sizes : int tensor of shape (T,)

    Returns
    -------
    int tensor of shape (W,)
        ``data[reversal(batch_sizes)]`` has the same packing; the reversal is its own inverse.
    """
    starts, lengths = _starts_and_lengths(batch_sizes)
    position = torch.arange(len(batch_sizes)).repeat_interleave(batch_sizes)
    sequence = torch.arange(int(batch_sizes.sum())) - starts.repeat_interleave(batch_sizes)
    return starts[lengths[sequence] - 1 - position] + sequence


def last_words(batch_sizes):
    """Index of the last word of each sequence in packed data.

    Parameters
    ----------
    batch_sizes : int tensor of shape (T,)

    Returns
    -------
    int tensor of shape (B,)
    """
    starts, lengths = _starts_and_lengths(batch_sizes)
    return starts[lengths - 1] + torch.arange(len(lengths))


def words_before(batch_sizes):
    """Index of the word before each word in packed data; -1 for first words.

    Parameters
    ----------
    batch_sizes : int tensor of shape (T,)

    Returns
    -------
    int tensor of shape (W,)
    """
    nothing = torch.full((int(batch_sizes[0]),), -1)
    step_before = batch_sizes[:-1].repeat_interleave(batch_sizes[1:])
    return torch.cat([nothing, torch.arange(len(nothing), int(batch_sizes.sum())) - step_before])


def _starts_and_lengths(batch_sizes):
    """Index of the first word at each position, (T,), and length of each sequence, (B,)."""
    lengths = (batch_sizes[:, None] > torch.arange(int(batch_sizes[0]))).sum(0)
    return batch_sizes.cumsum(0) - batch_sizes, lengths
