"""Training a network on sets: the network, its losses, padded batches, and skorch's loop."""

import math

import numpy as np
import torch
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping, GradientNormClipping, LRScheduler
from skorch.helper import predefined_split
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import LambdaLR

from ..optimizers import import_compiler, rate_at
from ..user_warnings import warn

#: Sets of up to this size may share a group, however small: padding them costs little.
FEW_ELEMENTS = 64
#: Maximum number of warm-up steps of the learning rate; a tenth of all steps if that is fewer.
MOST_WARMUP = 100


class SetNetwork(nn.Module):
    """A network for the elements, then one for the set.

    Parameters
    ----------
    embedding : Module or None
        Maps elements (n, ...) to (n, W). It sees no padding, which batch norm would count.
    transformer : SetTransformer
    """

    def __init__(self, embedding, transformer):
        super().__init__()
        self.embedding = embedding
        self.transformer = transformer

    def forward(self, x, mask):
        """Output (B, n_outputs) for a batch of sets that :func:`pad` made.

        The transformer reads sets of similar size together. A batch holds sets of all sizes, so
        that no gradient comes from small or from large sets alone.
        """
        x = x.to(self.transformer.embed.weight.dtype)
        if self.embedding is not None:
            z = self.embedding(x[mask])
            x = z.new_zeros(*mask.shape, z.shape[1])
            x[mask] = z
        sizes = mask.sum(1)
        groups = groups_of_like_size(sizes.tolist())
        outputs = []
        for group in groups:
            n = sizes[group].max()
            outputs.append(self.transformer(x[group, :n], mask[group, :n]))
        order = torch.tensor(sum(groups, []), device=x.device).argsort()
        return torch.cat(outputs)[order]


def groups_of_like_size(sizes):
    """Group sets by size: at most ``FEW_ELEMENTS``, or twice the smallest of the group.

    Parameters
    ----------
    sizes : list of int

    Returns
    -------
    list of lists of int
        Positions of the sets of each group.
    """
    groups, bound = [], 0
    for i in sorted(range(len(sizes)), key=sizes.__getitem__):
        if sizes[i] > bound:
            groups.append([])
            bound = max(2 * sizes[i], FEW_ELEMENTS)
        groups[-1].append(i)
    return groups


def poisson_rate(output, unit):
    """Rate of a Poisson distribution: ``unit * softplus(output)``, above zero.

    Parameters
    ----------
    output : tensor of shape (B, n_targets)
        Output of the network.
    unit : float or tensor of shape (n_targets,)
        Unit of the counts, so that outputs of order 1 can express any rate; 1 in paper 001.

    Returns
    -------
    tensor of the shape of ``output``
    """
    return unit * (nn.functional.softplus(output) + 1e-6)  # avoids log(0)


class PoissonLoss(nn.Module):
    """Negative log likelihood of counts: ``-(x log(rate) - rate - log(x!))``.

    Appendix B.2 of paper 001.

    Parameters
    ----------
    unit : float or tensor of shape (n_targets,)
        See :func:`poisson_rate`.
    """

    def __init__(self, unit):
        super().__init__()
        self.register_buffer("unit", torch.as_tensor(unit, dtype=torch.get_default_dtype()))

    def forward(self, output, count):
        """Mean loss over sets and targets of outputs and counts, both (B, n_targets).

        It is computed in float64: for a count of millions the terms cancel to a few units, which
        is the rounding error of float32.
        """
        rate, count = poisson_rate(output, self.unit).double(), count.double()
        return (rate - count * rate.log() + torch.lgamma(count + 1)).mean()


def pad(sets):
    """Pad sets to one batch, the inputs of :class:`SetNetwork`.

    Parameters
    ----------
    sets : sequence of tensors of shape (n_i, ...)

    Returns
    -------
    dict
        ``x`` (B, N, ...), where padding is last and 0, and ``mask`` (B, N), False at padding.
    """
    sizes = torch.tensor([len(elements) for elements in sets])
    mask = torch.arange(sizes.max()) < sizes[:, None]
    return {"x": pad_sequence(list(sets), batch_first=True), "mask": mask}


def collate(pairs):
    """Combine pairs (set, target) to one batch, a pair (inputs, targets)."""
    sets, targets = zip(*pairs)
    return pad(sets), torch.stack(targets)


def train(
    module,
    criterion,
    data,
    validation_data,
    *,
    max_epochs,
    batch_size,
    learning_rate,
    weight_decay,
    patience,
    device,
    verbose,
):
    """Train a network on sets by AdamW, with a warm-up and a cosine decay of the learning rate.

    Parameters
    ----------
    module : SetNetwork
        Trained in place.
    criterion : Module
        Loss of the outputs and targets of a batch.
    data, validation_data : Dataset of pairs of tensors (set, target)
        With the latter, training stops after ``patience`` epochs without a lower validation loss,
        and the weights with the lowest loss are kept.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        As in :class:`sklearn_meta.sets.SetTransformerRegressor`.
    device : str
    verbose : bool or int
        Whether to print a line per epoch.

    Returns
    -------
    history : skorch.history.History

    Raises
    ------
    ValueError
        If the loss became NaN or infinite.
    """
    n_steps = max_epochs * math.ceil(len(data) / batch_size)
    n_warmup = min(MOST_WARMUP, math.ceil(n_steps / 10))
    callbacks = [
        GradientNormClipping(1.0),
        LRScheduler(
            LambdaLR,
            lr_lambda=lambda step: rate_at(step, n_steps, n_warmup),
            step_every="batch",
        ),
    ]
    stop = EarlyStopping(patience=patience, threshold=0, load_best=True)
    if validation_data is not None:
        callbacks.append(stop)
    net = NeuralNet(
        module,
        criterion=criterion,
        optimizer=torch.optim.AdamW,
        optimizer__fused=True,  # with small matrices, launches cost as much as the work
        optimizer__weight_decay=weight_decay,
        lr=learning_rate,
        max_epochs=max_epochs,
        batch_size=batch_size,
        iterator_train__shuffle=True,
        iterator_train__collate_fn=collate,
        iterator_valid__collate_fn=collate,
        train_split=validation_data and predefined_split(validation_data),
        callbacks=callbacks,
        device=device,
        verbose=int(verbose),
    )
    import_compiler()
    net.fit(data)  # returns normally after a KeyboardInterrupt
    module.eval()
    losses = [epoch["train_loss"] for epoch in net.history if "train_loss" in epoch]
    if not losses:
        raise KeyboardInterrupt("Training was ended before its first epoch was complete.")
    if len(losses) < max_epochs and not (validation_data and stop.misses_ == patience):
        warn(f"Training was interrupted after {len(losses)} of {max_epochs} epochs.")
    # The history has no loss after the very last step: compute one, in case that step diverged.
    losses.append(float(net.validation_step(next(iter(net.get_iterator(data))))["loss"]))
    if diverged := [loss for loss in losses if not np.isfinite(loss)]:
        raise ValueError(
            f"Training diverged: the loss became {diverged[0]}. Lower learning_rate, or have the "
            "embedding scale its input."
        )
    for epoch in net.history:
        del epoch["batches"]  # unused, and large in every pickle
    return net.history
