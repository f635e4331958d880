"""MAML: deep sets whose weights take a few gradient steps on the labelled rows of the task.

Shape legend as in the other backbones: B tasks, N rows, M attributes, C label columns, H width.
Tensors of functions that vmap runs over tasks are those of one task, without B.
"""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from ..sizes import check_integers
from .deep_sets import DeepSet, labelled_rows, observed_cells
from .standardisation import moments_of


class MAML(nn.Module):
    """Model-agnostic meta-learning on deep sets.

    From the weights of a deep set over the attributes of a row, ``n_steps`` gradient steps are
    taken on the labelled rows, and rows are embedded with the resulting weights. Meta-training
    differentiates through the steps (second order). The inner loss needs predictions for any number
    of labels, for which paper 000 names no output layer; here they are computed in closed form,
    like a head's:

    - classification: cross-entropy of the labelled rows under their own class means, Eq. (9);
    - regression: squared error of each labelled row under ridge regression on the others
      (leave-one-out, since a ridge regression on few rows fits these whatever the embedding).

    Parameters
    ----------
    width : int, default=32
        Width of the embedding and of the hidden layers; the paper's hidden width.
    n_steps : int, default=5
        The paper's.
    inner_rate : float, default=1e-3
        Learning rate of the steps; the paper's. Weights change little with it, but longer steps
        were no better on Circle-Spiral, and meta-training diverged at 0.1.
    inner : {"classification", "regression"}, default="classification"
        Kind of the labels, which selects the inner loss.

    Raises
    ------
    ValueError
        If there is no such ``inner``, or a size is out of range.

    References
    ----------
    C. Finn, P. Abbeel, S. Levine. Model-agnostic meta-learning for fast adaptation of deep
    networks. ICML 2017; as in section 4.2 of paper 000 (MAML).
    """

    def __init__(self, *, width=32, n_steps=5, inner_rate=1e-3, inner="classification"):
        super().__init__()
        if inner not in INNER_LOSSES:
            raise ValueError(f"inner must be one of {sorted(INNER_LOSSES)}, got {inner!r}.")
        check_integers(width=width)
        check_integers(0, n_steps=n_steps)
        self.config = {
            "width": width,
            "n_steps": n_steps,
            "inner_rate": inner_rate,
            "inner": inner,
        }
        self.network = DeepSet(1, width)

    def n_embedding(self, n_columns):
        """Length of the embedding of a row, whatever the number of attributes; an int."""
        return self.config["width"]

    def forward(self, x, labels, readable, columns, classes, memory=None):
        """Embed the rows of a batch of tasks.

        Parameters are those of :class:`sklearn_meta.backbones.VSA`. Readable rows without a label
        affect only the standardisation.

        Returns
        -------
        z : tensor of shape (B, N, 1, width)
        memory : list
            The standardisation, and the adapted weights: a dict of tensors with a leading B.
        """
        moments, weights = memory or [moments_of(x, readable), None]
        values, observed = observed_cells(x, moments, columns)
        values = values.to(self.network.phi[0].weight.dtype)
        if weights is None:
            weights = self.adapt(*labelled_rows(values, observed, labels, classes))
        return vmap(self._embed)(weights, values, observed)[:, :, None], [moments, weights]

    def _embed(self, weights, values, observed):
        return functional_call(self.network, weights, (values[..., None], observed))

    def adapt(self, values, observed, y, known):
        """Weights after the steps: a dict of tensors (B, ...).

        Parameters
        ----------
        values, observed, y, known : tensors
            See :func:`labelled_rows`.
        """
        if torch.is_inference_mode_enabled():  # where torch before 2.12 takes wrong steps
            with torch.inference_mode(False), torch.no_grad():
                return self.adapt(*(part.clone() for part in (values, observed, y, known)))
        inner_loss, rate = INNER_LOSSES[self.config["inner"]], self.config["inner_rate"]

        def loss(weights, values, observed, y, known):
            z = self._embed(weights, values, observed)
            with torch.autocast(z.device.type, enabled=False):  # inverses need full precision
                return inner_loss(z.to(y.dtype), y, known)

        def adapted(*task):
            # Clones, since parameters that were copied in inference mode cannot be differentiated.
            weights = {name: w.clone() for name, w in self.network.named_parameters()}
            for _ in range(self.config["n_steps"]):
                slopes = grad(loss)(weights, *task)
                weights = {name: w - rate * slopes[name] for name, w in weights.items()}
            return weights

        return vmap(adapted)(values, observed, y, known)


def prototype_loss(z, y, known):
    """Cross-entropy of labelled rows under the class means of Eq. (9), a scalar.

    Parameters
    ----------
    z : tensor of shape (L, H)
    y : tensor of shape (L, C)
        One-hot classes; zero where not known.
    known : bool tensor of shape (L, C)
    """
    count = y.sum(0)
    prototypes = (y.T @ z) / count.clamp(min=1)[:, None]
    distances = (z[:, None] - prototypes).square().sum(-1)  # (L, C)
    log_p = (-distances).masked_fill(count == 0, -1e9).log_softmax(-1)
    return -(y * log_p).sum() / y.sum().clamp(min=1)


def ridge_loss(z, y, known, penalty=1.0):
    """Mean squared leave-one-out error of ridge regression on labelled rows, a scalar.

    With the inverse A of the regularised Gram matrix, the error of row n left out is
    ``(A y)_n / A_nn``. The constant is one of the features.

    Parameters
    ----------
    z : tensor of shape (L, H)
    y : tensor of shape (L, C)
        Targets; zero where not known.
    known : bool tensor of shape (L, C)
    penalty : float, default=1.0
    """
    labelled = known.any(1)
    gram = (z @ z.T + 1) * (labelled[:, None] & labelled)  # zero for other rows
    A = torch.linalg.inv(gram + penalty * torch.eye(len(z), dtype=z.dtype, device=z.device))
    errors = (A @ y) / A.diagonal()[:, None]
    return (errors.square() * known).sum() / known.sum().clamp(min=1)


#: Inner losses by the name that ``inner=`` uses.
INNER_LOSSES = {"classification": prototype_loss, "regression": ridge_loss}
