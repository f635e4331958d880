"""A linear-chain conditional random field: the output layer of the taggers of paper 004.

Shape legend: B sentences, T words (of the longest, at least one), C tags.
"""

import torch
from torch import nn

from ..sizes import check_integers


class LinearChainCRF(nn.Module):
    """Linear-chain conditional random field: each tag of a sentence depends on the one before.

    The log-probability of tags ``y`` is, up to the log partition, ``start[y_1] + end[y_T]`` plus
    the score of each word's tag plus ``transitions[y_t, y_t+1]`` of each pair of neighbours.
    Parameters start at zero, where words are independent: a softmax over the scores of each.

    A mask distinguishes words (True) from padding, which comes after them. Padding is never read;
    NaN in it is harmless. A sentence without words has one tagging, the empty one, with score 0.
    Computation is in single precision at least, and in double precision if scores or parameters
    are. A score or parameter of ``-inf`` forbids a tag or transition; each sentence must have an
    allowed tagging.

    Parameters
    ----------
    n_tags : int

    Attributes
    ----------
    transitions : parameter of shape (C, C)
        Scores of passing from the row's tag to the column's.
    start, end : parameters of shape (C,)

    Raises
    ------
    ValueError
        If ``n_tags`` is less than 1.

    References
    ----------
    Lafferty, McCallum and Pereira, "Conditional random fields", ICML 2001.
    Huang, Xu and Yu, "Bidirectional LSTM-CRF models for sequence tagging", 2015.
    """

    def __init__(self, n_tags):
        super().__init__()
        check_integers(n_tags=n_tags)
        self.n_tags = n_tags
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))

    def log_partition(self, scores, mask):
        """Log of the sum, over all taggings of a sentence, of their exponentiated scores.

        Parameters
        ----------
        scores : tensor of shape (B, T, C)
        mask : bool tensor of shape (B, T)

        Returns
        -------
        tensor of shape (B,)

        Raises
        ------
        ValueError
            If scores or mask have a wrong shape or type, or words come after padding.
        """
        scores, peaks = self._prepare(scores, mask)
        return self._log_partition(scores, mask) + peaks.sum(1)

    def log_likelihood(self, scores, tags, mask):
        """Log-probabilities of whole sentences' tags.

        Parameters
        ----------
        scores : tensor of shape (B, T, C)
        tags : int tensor of shape (B, T)
            Values in padding are ignored.
        mask : bool tensor of shape (B, T)

        Returns
        -------
        tensor of shape (B,)

        Raises
        ------
        ValueError
            As in :meth:`log_partition`; or if tags differ from the mask in shape, are not
            integers, or are out of range at a word.
        """
        # Without the peaks, which cancel, the numbers subtracted below stay small, hence exact.
        scores, _ = self._prepare(scores, mask)
        if tags.shape != mask.shape:
            raise ValueError(f"tags have shape {tuple(tags.shape)}, mask {tuple(mask.shape)}")
        if tags.is_floating_point() or tags.dtype == torch.bool:
            raise ValueError(f"tags must be integers, got {tags.dtype}")
        tags = tags.long().masked_fill(~mask, 0)
        if ((tags < 0) | (tags >= self.n_tags)).any():
            raise ValueError(f"tags of words must lie in 0 to {self.n_tags - 1}")
        start, transitions, end = self._promoted(scores.dtype)
        words = scores.gather(2, tags[..., None])[..., 0]  # 0 in padding, as all scores there
        pairs = transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0)
        last = tags.gather(1, (mask.sum(1, keepdim=True) - 1).clamp(min=0))[:, 0]
        ends = (start[tags[:, 0]] + end[last]).masked_fill(~mask[:, 0], 0)
        return words.sum(1) + pairs.sum(1) + ends - self._log_partition(scores, mask)

    def marginals(self, scores, mask):
        """Probability of each tag of each word, by the forward-backward algorithm.

        Parameters
        ----------
        scores : tensor of shape (B, T, C)
        mask : bool tensor of shape (B, T)

        Returns
        -------
        tensor of shape (B, T, C)
            Differentiable; zero in padding.

        Raises
        ------
        ValueError
            As in :meth:`log_partition`.
        """
        scores, _ = self._prepare(scores, mask)
        start, transitions, _ = self._promoted(scores.dtype)
        message = start + scores[:, 0]
        behind = [message]
        for t in range(1, scores.shape[1]):
            message = message - _peak(message)[:, None]
            message = _logsumexp(message[:, :, None] + transitions, 1) + scores[:, t]
            behind.append(message)
        ahead, _ = self._messages(scores, mask, _logsumexp)
        together = torch.stack(behind, 1) + torch.stack(ahead, 1)
        return together.softmax(2).masked_fill(~mask[..., None], 0)

    @torch.no_grad()
    def decode(self, scores, mask):
        """The best tagging of each sentence, by the Viterbi algorithm.

        Messages run from the last word to the first, so that tags are then chosen from the first
        word on. Among taggings of equal score, the first in lexicographic order is chosen.

        Parameters
        ----------
        scores : tensor of shape (B, T, C)
        mask : bool tensor of shape (B, T)

        Returns
        -------
        int tensor of shape (B, T)
            -1 in padding.

        Raises
        ------
        ValueError
            As in :meth:`log_partition`.
        """
        scores, _ = self._prepare(scores, mask)
        pointers = []

        def best(paths, dim):
            values, following = paths.max(dim)  # the first of equal ones
            pointers.append(following)
            return values

        ahead, _ = self._messages(scores, mask, best)
        start, _, _ = self._promoted(scores.dtype)
        tags = [(start + scores[:, 0] + ahead[0]).argmax(1, keepdim=True)]
        for following in reversed(pointers):
            tags.append(following.gather(1, tags[-1]))
        return torch.cat(tags, 1).masked_fill(~mask, -1)

    def _prepare(self, scores, mask):
        """Checked scores (B, T, C) less each word's maximum, and that, (B, T); 0 in padding."""
        if scores.ndim != 3 or scores.shape[1] == 0 or scores.shape[2] != self.n_tags:
            expected = f"(sentences, words, {self.n_tags}), with at least one word"
            raise ValueError(f"scores must be {expected}, got {tuple(scores.shape)}")
        if not scores.is_floating_point():
            raise ValueError(f"scores must be floating-point, got {scores.dtype}")
        if mask.shape != scores.shape[:2] or mask.dtype != torch.bool:
            got = f"{mask.dtype} and {tuple(mask.shape)}"
            raise ValueError(f"mask must be bool of shape {tuple(scores.shape[:2])}, got {got}")
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise ValueError("mask must have the words of a sentence before its padding")
        dtype = torch.promote_types(scores.dtype, self.transitions.dtype)
        scores = scores.to(torch.promote_types(dtype, torch.float32))
        scores = scores.masked_fill(~mask[..., None], 0)
        peaks = _peak(scores)
        return scores - peaks[..., None], peaks

    def _promoted(self, dtype):
        return (p.to(dtype) for p in (self.start, self.transitions, self.end))

    def _log_partition(self, scores, mask):
        ahead, peaks = self._messages(scores, mask, _logsumexp)
        start, _, _ = self._promoted(scores.dtype)
        total = _logsumexp(start + scores[:, 0] + ahead[0], 1) + peaks
        return total.masked_fill(~mask[:, 0], 0)

    def _messages(self, scores, mask, reduce):
        """Backward messages by each word's tag, T of (B, C), and the sum taken off the first."""
        _, transitions, end = self._promoted(scores.dtype)
        message = end.expand(len(scores), -1)
        total = scores.new_zeros(len(scores))
        messages = [message]
        for t in range(scores.shape[1] - 1, 0, -1):
            message = reduce(transitions + (scores[:, t] + message)[:, None], 2)
            peak = _peak(message).masked_fill(~mask[:, t], 0)  # else sums grow and lose digits
            message = torch.where(mask[:, t, None], message - peak[:, None], end)
            total = total + peak
            messages.append(message)
        return messages[::-1], total


def _peak(values):
    """Maximum along the last axis, as a constant: it cancels, or is added again."""
    return values.detach().amax(-1)


def _logsumexp(values, dim):
    """torch.logsumexp, but if all values are -inf, the gradient is zero and not NaN."""
    return values.clamp(min=torch.finfo(values.dtype).min).logsumexp(dim)
