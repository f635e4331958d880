"""The learner of texts: word vectors, a sharing scheme, and an output layer for each task."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .backbones.packed import reversal
from .backbones.text_sharing import TEXT_BACKBONES
from .heads import HEADS
from .sizes import check_integers
from .wide import SharedLinear
from .wide_tagging import SharedTags

#: For each task, the class of the shared linear models that stand beside the network.
WIDE = {"text_classification": SharedLinear, "text_tagging": SharedTags}
TASKS = tuple(WIDE)

#: Factors on the learning rate of a tagger's Meta-LSTM, and of P and B of the weights it generates.
#: If all of P D(z) Q moves at the full rate of AdamW, a tagger learns more slowly than with an
#: LSTM.
GENERATING = {"backbones.*.shared.*": 0.3, "backbones.*.private.*[0-9].weight": 0.1}


class TextLearner(nn.Module):
    """Word embedding, backbone and heads for several tasks at once (paper 004).

    Parameters
    ----------
    backbone : str, default="meta_lstm"
        What the tasks share: "meta_lstm", "lstm", "hyper_lstm", "ssp_mtl", "ssp_mtl_shared_only",
        "psp_mtl" or "asp_mtl".
    head : {"softmax", "crf"}, default="softmax"
        The head "softmax" is for the task "text_classification", with one label per text; "crf" is
        for "text_tagging", with one label per word.
    task : {"text_classification", "text_tagging"}, default="text_classification"
    words : sequence of str, default=()
        The vocabulary. Word 0 stands for every other word.
    tasks : dict
        Mapping of name to list of labels, for each task.
    n_inputs : int, default=100
        Length of a word vector.
    lowercase : bool, default=True
        Whether the vocabulary is in lower case.
    spelling : (int, int), optional
        Number of spelling features, and length of the vector that is read beside each word's own,
        which is the mean of its features' vectors.
    dropout : float, default=0.5
        Dropout of word vectors and of the head's inputs.
    backbone_config : dict, optional
        Keyword arguments of the backbone.
    wide : dict, optional
        Keyword arguments of :class:`sklearn_meta.wide.SharedLinear`, or for a tagger of
        :class:`sklearn_meta.wide_tagging.SharedTags`; the network does not read it.

    Raises
    ------
    ValueError
        If an argument is unknown, or word vectors have no length.
    """

    def __init__(
        self,
        backbone="meta_lstm",
        head="softmax",
        *,
        task="text_classification",
        words=(),
        tasks=None,
        n_inputs=100,
        lowercase=True,
        spelling=None,
        dropout=0.5,
        backbone_config=None,
        wide=None,
    ):
        super().__init__()
        if task not in TASKS:
            raise ValueError(f"Unknown task {task!r}: choose from {list(TASKS)}.")
        if backbone not in TEXT_BACKBONES or head not in HEADS[task]:
            raise ValueError(
                f"A learner for {task} needs a backbone from {list(TEXT_BACKBONES)} and a head "
                f"from {list(HEADS[task])}, got {backbone!r} and {head!r}."
            )
        check_integers(n_inputs=n_inputs)
        self.names = {"backbone": backbone, "head": head}
        self.task = task
        self.words = list(words)
        self.n_inputs = n_inputs
        self.lowercase = lowercase
        self.embedding = nn.Embedding(1 + len(self.words), n_inputs)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.spelling = None
        if spelling is not None:
            self.spelling = nn.EmbeddingBag(*spelling, mode="mean")
            n_inputs += self.spelling.embedding_dim
            nn.init.normal_(self.spelling.weight, std=0.3)
        self.dropout = nn.Dropout(dropout)
        # A tagger reads in both directions.
        directions = 2 if task == "text_tagging" else 1
        config = backbone_config or {}
        self.backbones = nn.ModuleList(
            TEXT_BACKBONES[backbone](n_inputs, **config) for _ in range(directions)
        )
        self.wide = None if wide is None else WIDE[task](**wide)
        self.heads = nn.ModuleList()
        self.tasks = {}
        for name, labels in (tasks or {}).items():
            self.add_task(name, labels)
        self.float()  # whatever torch's default dtype is

    def __deepcopy__(self, memo):
        """Copy the weights, but share the vocabulary and the card, which never change."""
        for part in (self.words, vars(self).get("card")):
            memo[id(part)] = part
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

    @property
    def head(self):
        """Class of the tasks' heads, which has their ``loss``, ``score`` and ``score_name``."""
        return HEADS[self.task][self.names["head"]]

    @property
    def rate_factors(self):
        """Factors on the rate of some parameters, by pattern of their names."""
        of_generating = self.task == "text_tagging" and self.names["backbone"] == "meta_lstm"
        return GENERATING if of_generating else {}

    @property
    def config(self):
        """Keyword arguments that build this learner again."""
        return {
            **self.names,
            "task": self.task,
            "words": self.words,
            "tasks": dict(self.tasks),
            "n_inputs": self.n_inputs,
            "lowercase": self.lowercase,
            "spelling": None if self.spelling is None else list(self.spelling.weight.shape),
            "dropout": self.dropout.p,
            "backbone_config": dict(self.backbones[0].config),
            "wide": None if self.wide is None else self.wide.config,
        }

    def add_task(self, name, labels):
        """Add a task, with a private part and a head of random weights.

        Parameters
        ----------
        name : str
        labels : sequence
            Its classes, or tags, as JSON values.

        Raises
        ------
        ValueError
            If there is a task of that name already, it has no labels, or the backbone takes no
            more tasks.
        """
        if name in self.tasks:
            raise ValueError(f"There is a task {name!r} already: give another name.")
        labels = list(labels)
        if not labels:
            raise ValueError(f"Task {name!r} has no labels: give at least one.")
        for backbone in self.backbones:
            backbone.add_task()
        n_outputs = sum(backbone.n_outputs for backbone in self.backbones)
        self.heads.append(self.head(n_outputs, len(labels)))
        self.to(self.embedding.weight.dtype)
        self.tasks[name] = labels  # last, so that a refused task is not listed

    def forget_tasks(self):
        """Remove all tasks, and keep what they share."""
        self.tasks, self.heads = {}, nn.ModuleList()
        for backbone in self.backbones:
            backbone.private = nn.ModuleList()

    def shared_parameters(self):
        """Parameters that no new task changes: word vectors and the backbone's shared part."""
        modules = [self.embedding, self.spelling, *(b.shared for b in self.backbones)]
        return [p for module in modules if module is not None for p in module.parameters()]

    @contextmanager
    def knowing(self, numbers):
        """Restrict the vocabulary to some words within a context, renumbered in this order.

        A step of an optimiser takes time for every vector, even if no text has the word.

        Parameters
        ----------
        numbers : ndarray of int
            Numbers of the words; the first is 0, for words outside the vocabulary.
        """
        words, embedding = self.words, self.embedding
        weight = embedding.weight
        self.words = [words[i - 1] for i in numbers[1:]]
        self.embedding = nn.Embedding.from_pretrained(
            weight.detach()[numbers], freeze=not weight.requires_grad
        )
        try:
            yield
        finally:
            with torch.no_grad():
                weight[numbers] = self.embedding.weight.to(weight.device)
            self.words, self.embedding = words, embedding

    def vectors(self, numbers):
        """Vectors (W, size) of words, given their numbers without padding."""
        if self.spelling is None:
            return self.embedding(numbers)
        return torch.cat([self.embedding(numbers[:, 0]), self.spelling(numbers[:, 1:])], 1)

    def forward(self, words, lengths, task):
        """Compute the scores of a task's head for texts of the task.

        Parameters
        ----------
        words : int tensor of shape (B, T), or (B, T, 1 + n_features) where spelling is read
            Numbers of words, and of the features of their spelling; padding is not read.
        lengths : int tensor of shape (B,)
            Number of words of each text, 1 or more, on the CPU.
        task : int
            Position of the task in ``tasks``.

        Returns
        -------
        Told
        """
        outputs, texts, order, penalty = self.read(words, lengths, task)
        head = self.heads[task]
        if self.task == "text_classification":
            return Told(head(self.dropout(texts)), head, None, penalty)
        scores = outputs._replace(data=head(self.dropout(outputs.data)))
        padded = pad_packed_sequence(scores, batch_first=True)[0][order]
        mask = (
            torch.arange(padded.shape[1], device=padded.device) < lengths.to(padded.device)[:, None]
        )
        return Told(padded, head, mask, penalty)

    def read(self, words, lengths, task):
        """Compute the backbone's outputs for words and texts.

        Returns
        -------
        outputs : PackedSequence of (W, n_outputs)
        texts : tensor of shape (B, n_outputs)
            In the order of ``words``.
        order : int tensor of shape (B,)
            Position of each text in the packed data.
        penalty : tensor of shape ()
        """
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        x = PackedSequence(self.dropout(self.vectors(packed.data)), packed.batch_sizes)
        outputs, texts, penalty = self.backbones[0](x, task)
        if len(self.backbones) > 1:
            turned = reversal(x.batch_sizes).to(x.data.device)
            back = PackedSequence(x.data[turned], x.batch_sizes)
            others, turned_texts, more = self.backbones[1](back, task)
            outputs = torch.cat([outputs, others[turned]], 1)
            texts = torch.cat([texts, turned_texts], 1)
            penalty = penalty + more
        order = packed.unsorted_indices
        return PackedSequence(outputs, x.batch_sizes), texts[order], order, penalty


class Told(NamedTuple):
    """Outputs for a batch of texts of one task.

    Parameters
    ----------
    scores : tensor of shape (B, C) or (B, T, C)
        Scores of the labels for each text, or for each word.
    head : Module
        Head of the task; a CRF is needed to decode the tags.
    mask : bool tensor of shape (B, T) or None
        True at words, False at padding.
    penalty : tensor of shape ()
        Penalty that the backbone adds to the loss.
    """

    scores: torch.Tensor
    head: nn.Module
    mask: torch.Tensor | None
    penalty: torch.Tensor
