"""Prototypes and a Gaussian process on the classes: the mean of their log-probabilities."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from ..label_columns import standardise_labels
from ..means import masked_mean
from ..sizes import check_positive
from .base import ClassificationHead
from .gaussian_process import AttributeGaussianProcess
from .prototypes import Prototypes

#: A regression may predict negative shares of classes. Softplus makes them positive, bending within
#: about 1 / SHARPNESS around zero, and LEAST_SHARE is added. Both are in units of 1 / the number of
#: classes, the share of a class about which nothing is known.
SHARPNESS, LEAST_SHARE = 10.0, 0.01


class PrototypesGP(ClassificationHead):
    """Prototypes combined with a Gaussian process regression on the classes.

    Prototypes (Eq. 9 of paper 000) need few labels, but reduce many labels of a class to a single
    point. A Gaussian process (Eq. 11) on the classes' standardised indicators, which is
    least-squares classification (section 6.5 of Rasmussen and Williams), keeps learning. The result
    is a weighted mean of their log-probabilities. The weight of the process is the mean over
    classes of n / (n + h), where n is the number of labelled rows of a class and h is learned while
    meta-training. (The default weights are two networks joined without training, so h has its
    initial value.) Not in the paper.

    Parameters
    ----------
    temperature : {"learned", "fixed"}, default="learned"
        As in :class:`Prototypes`.
    n_kernels, length_scale, noise, jitter
        As in :class:`AttributeGaussianProcess`.
    even_at : float, default=10.0
        Initial h: the number of labelled rows per class at which both have the same weight.

    Raises
    ------
    ValueError
        As in the two heads; or if ``even_at`` is not positive.

    Attributes
    ----------
    prototypes : Prototypes
    process : AttributeGaussianProcess
    log_even_at : Parameter of shape ()
        Logarithm of h.
    widths : (int, int) or None
        Numbers of channels of an attribute's embedding that each reads; a learner takes them from
        its backbone. If None, both read all.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams. Gaussian processes for machine learning. 2006.
    """

    def __init__(
        self,
        *,
        temperature="learned",
        n_kernels=8,
        length_scale=8.0,
        noise=0.1,
        jitter=1e-4,
        even_at=10.0,
    ):
        super().__init__()
        check_positive(even_at=even_at)
        self.prototypes = Prototypes(temperature=temperature)
        self.process = AttributeGaussianProcess(
            n_kernels=n_kernels, length_scale=length_scale, noise=noise, jitter=jitter
        )
        self.log_even_at = nn.Parameter(torch.tensor(math.log(even_at)))
        self.config = self.prototypes.config | self.process.config | {"even_at": even_at}
        self.widths = None

    def adapt(self, z, labels, classes, readable):
        """States of both, the standardisation of the indicators, and the weight of the process.

        Returns
        -------
        of_prototypes, of_process : tuples of tensors
        mean, scale : tensors of shape (B, 1, C)
            See :class:`sklearn_meta.label_columns.LabelColumns`.
        weight : tensor of shape (B, 1, 1)
        """
        first, second = self._readings(z)
        dtype = self.log_even_at.dtype
        columns = standardise_labels(labels.to(dtype), classes)
        of_process = self.process.adapt_mean(second, columns.labels, columns.varied)
        of_prototypes = self.prototypes.adapt(first, labels, classes, readable)
        n = (labels == 1).sum(1).to(dtype)  # (B, C)
        weight = (n / (n + self.log_even_at.exp()))[..., None]
        weight = masked_mean(weight, of_prototypes[1], 1, keepdim=True)
        return of_prototypes, of_process, columns.mean, columns.scale, weight

    def forward(self, z, state):
        """Weighted mean of both log-probabilities: (B, N, M, H) to (B, N, C)."""
        of_prototypes, of_process, mean, scale, weight = state
        first, second = self._readings(z)
        known = of_prototypes[1][:, None]
        logits = self.prototypes(first, of_prototypes)
        shares = self.process.mean(second, of_process) * scale + mean
        n_classes = known.sum(-1, keepdim=True).clamp(min=1)
        bent = F.softplus(shares * n_classes * SHARPNESS) / SHARPNESS + LEAST_SHARE
        of_shares = bent.log()  # normalising removes the factor n_classes
        mean_of_both = torch.lerp(*(_normalised(one, known) for one in (logits, of_shares)), weight)
        return mean_of_both.masked_fill(~known, -math.inf)

    def _readings(self, z):
        """Parts of the embeddings (B, N, M, H) that each of the two reads.

        Classes in groups have several embeddings side by side. Each of these has the attributes;
        those of the first are read.
        """
        if self.widths is None:
            return z, z
        readings = z.unflatten(-1, (-1, sum(self.widths)))
        first, second = readings.split(self.widths, dim=-1)
        attributes = second[..., 0, -1:]
        return first.flatten(-2), torch.cat([second[..., :-1].flatten(-2), attributes], dim=-1)


def _normalised(logits, known):
    """Log-probabilities over the known classes; finite even if no class is known."""
    return logits.masked_fill(~known, torch.finfo(logits.dtype).min / 4).log_softmax(-1)
