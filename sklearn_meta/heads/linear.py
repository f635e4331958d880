"""Linear models on embeddings, solved in closed form (Bertinetto et al. 2018)."""

import math

import torch
from torch import nn

from ..means import masked_mean
from ..sizes import check_positive
from .base import ClassificationHead, known_classes, labelled_rows
from .gaussian_process import GaussianProcess


class LinearClassifier(ClassificationHead):
    """Ridge regression on one-hot labels, whose outputs are logits up to a learned factor.

    The dual form is solved, so the embedding may be longer than the number of labelled rows.
    Embeddings and labels are centred at the mean of the labelled rows.

    Parameters
    ----------
    penalty : float, default=1.0
        Initial value of the learned penalty, relative to the mean squared distance of the context's
        rows from the mean of the labelled ones. (Relative to the labelled rows alone it would be
        almost zero if they lie close together.)
    scale : float, default=4.0
        Initial value of the learned factor of the logits.

    Raises
    ------
    ValueError
        If either is not positive.
    """

    rate_factor = 30.0  # for logarithms, as in kernels

    def __init__(self, *, penalty=1.0, scale=4.0):
        super().__init__()
        check_positive(penalty=penalty, scale=scale)
        self.config = {"penalty": penalty, "scale": scale}
        self.log_penalty = nn.Parameter(torch.tensor(math.log(penalty)))
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))

    def adapt(self, z, labels, classes, readable):
        """Coefficients of ridge regression.

        Returns
        -------
        coef : tensor of shape (B, D, C)
        origin : tensor of shape (B, 1, D)
            Mean embedding of the labelled rows.
        intercept : tensor of shape (B, 1, C)
        known : bool tensor of shape (B, C)
        """
        dtype = self.log_scale.dtype
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(dtype)
            rows = labelled_rows(z, labels.to(dtype), classes)
            padding = ~rows.known[..., None]
            origin = masked_mean(rows.z, rows.known, 1, keepdim=True)
            intercept = masked_mean(rows.labels, rows.known, 1, keepdim=True)
            squares = (z.flatten(2) - origin).square().sum(-1).masked_fill(~readable, 0)
            power = squares.sum(1, keepdim=True) / readable.sum(1, keepdim=True).clamp(min=1)
            ridge = self.log_penalty.exp() * power + torch.finfo(dtype).eps
            labelled = (rows.z - origin).masked_fill(padding, 0)
            gram = labelled @ labelled.transpose(1, 2)
            system = gram + torch.diag_embed(ridge.expand(-1, gram.shape[1]))
            targets = (rows.labels - intercept).masked_fill(padding, 0)
            coef = labelled.transpose(1, 2) @ torch.linalg.solve(system, targets)
        return coef, origin, intercept, known_classes(labels, classes)

    def forward(self, z, state):
        """Logits: (B, N, M, H) and the result of ``adapt`` to (B, N, C)."""
        coef, origin, intercept, known = state
        with torch.autocast(z.device.type, enabled=False):
            scores = (z.flatten(2).to(coef.dtype) - origin) @ coef + intercept
        return (scores * self.log_scale.exp()).masked_fill(~known[:, None], -math.inf)


class LinearRegressor(GaussianProcess):
    """Bayesian linear regression: a Gaussian process with a linear kernel and an intercept.

    Parameters are those of :class:`GaussianProcess`; a length scale divides the embeddings.
    """

    def compare(self, a, b, known=None):
        """Inner products of rows (B, I, M, H) and (B, J, M, H), (B, I, J)."""
        return (a.flatten(2) @ b.flatten(2).transpose(1, 2),)

    def kernel_of(self, compared, sets=slice(None)):
        """Linear kernels of rows that were compared: (B, K, I, J)."""
        (products,) = compared
        product = products[:, None] * (-2 * self.log_length_scale[sets]).exp()[:, None, None]
        return (1 + product) * self.log_amplitude[sets].exp()[:, None, None]

    def prior_variance(self, z):
        """Kernels of rows (B, I, M, H) with themselves: (B, K, I)."""
        product = z.square().sum((-1, -2))[:, None] * (-2 * self.log_length_scale).exp()[:, None]
        return (1 + product) * self.log_amplitude.exp()[:, None]
