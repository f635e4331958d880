"""Attention between the components of a mixture, with the blocks of paper 001."""

from torch import nn

from ..sizes import check_heads, check_integers
from .set_transformer import SAB


class MixtureTransformer(nn.Module):
    """Transformer over the components of a mixture, which advises each of them, in rounds.

    The components form a set, and each is described by statistics of its points. In each round,
    self-attention blocks over the components (Eq. 7 of paper 001) read these descriptions together
    with the memory of the previous round.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Numbers that describe a component, and numbers of advice.
    width : int, default=32
    n_heads : int, default=4
    n_layers : int, default=2
        Blocks per round.
    n_rounds : int, default=4

    Raises
    ------
    ValueError
        If a size is out of range, or ``n_heads`` does not divide ``width``.
    """

    def __init__(self, n_inputs, n_outputs, *, width=32, n_heads=4, n_layers=2, n_rounds=4):
        super().__init__()
        check_heads(width, n_heads)
        check_integers(n_rounds=n_rounds)
        check_integers(0, n_layers=n_layers)
        self.config = {
            "width": width,
            "n_heads": n_heads,
            "n_layers": n_layers,
            "n_rounds": n_rounds,
        }
        self.rounds = nn.ModuleList(
            Round(n_inputs, n_outputs, width, n_heads, n_layers) for _ in range(n_rounds)
        )


class Round(nn.Module):
    """One round: (B, K, n_inputs) and a memory (B, K, W) to advice (B, K, n_outputs) and memory."""

    def __init__(self, n_inputs, n_outputs, width, n_heads, n_layers):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(SAB(width, n_heads, norm="pre") for _ in range(n_layers))
        self.advise = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, n_outputs))
        # Start with zero advice: the penalty is then the same for all components.
        nn.init.zeros_(self.advise[1].weight)
        nn.init.zeros_(self.advise[1].bias)

    def forward(self, features, present, memory=None):
        """``present`` (B, K) is False at components that are padding."""
        h = self.embed(features)
        if memory is not None:
            h = h + memory
        for block in self.blocks:
            h = block(h, present)
        return self.advise(h), h
