"""Deep sets: each row embedded by itself from the set of its attributes.

The backbone of Proto and MetaGP in paper 000, and a part of its MAML and HML.

Shape legend as in the other backbones: B tasks, N rows, M attributes, C label columns, H width.
"""

from torch import nn

from ..labelled import labelled_places
from ..means import masked_mean
from ..sizes import check_integers
from .standardisation import moments_of, standardise


def feed_forward(width_in, width):
    """Three layers of ``width`` units, as in all networks of paper 000.

    Weights have He initialisation. With torch's default, a sixth of its variance, differences
    between rows vanish after a few such networks, and learning takes long to begin.
    """
    linear = [nn.Linear(width_in, width), nn.Linear(width, width), nn.Linear(width, width)]
    for layer in linear:
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    return nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2])


def observed_cells(x, moments, columns):
    """Standardised attributes, and which cells can be read.

    Parameters
    ----------
    x : tensor of shape (B, N, M)
        NaN marks missing cells and padding.
    moments : Moments
    columns : bool tensor of shape (B, M)

    Returns
    -------
    values : tensor of shape (B, N, M)
        Zero where a cell cannot be read.
    observed : bool tensor of shape (B, N, M)
        False at missing cells, padding, and attributes that are constant over readable rows.
    """
    observed = ~x.isnan() & (columns & moments.varied)[:, None]
    return standardise(x, moments).masked_fill(~observed, 0.0), observed


def labelled_rows(values, observed, labels, classes):
    """The labelled rows of each task, padded to their largest number L.

    There are far fewer of them, so what reads only them runs on a fraction of the rows.

    Parameters
    ----------
    values, observed : tensors of shape (B, N, M)
        See :func:`observed_cells`.
    labels : tensor of shape (B, N, C)
        NaN where there is none.
    classes : bool tensor of shape (B, C)

    Returns
    -------
    x, observed : tensors of shape (B, L, M)
        Attributes; none is observed in a padded row.
    y, known : tensors of shape (B, L, C)
        Labels, zero where not known.
    """
    known = ~labels.isnan() & classes[:, None]
    labels = labels.masked_fill(~known, 0.0).to(values.dtype)
    labelled = known.any(2)
    places, _ = labelled_places(labelled)
    observed = observed & labelled[..., None]
    return tuple(
        cells.gather(1, places[..., None].expand(-1, -1, cells.shape[2]))
        for cells in (values, observed, labels, known)
    )


class DeepSet(nn.Module):
    """Embedding of a set: ``rho(mean(phi(element)))``.

    Parameters
    ----------
    width_in : int
        Width D of an element.
    width : int
        Width H of the embedding and of the hidden layers of phi and rho.

    References
    ----------
    M. Zaheer et al. Deep sets. NeurIPS 2017.
    """

    def __init__(self, width_in, width):
        super().__init__()
        self.phi = feed_forward(width_in, width)
        self.rho = feed_forward(width, width)

    def forward(self, elements, observed):
        """Sets (..., K, D) to (..., H); ``observed`` (..., K) marks elements that exist."""
        elements = elements.to(self.phi[0].weight.dtype)
        return self.rho(masked_mean(self.phi(elements), observed, observed.ndim - 1))


class DeepSets(nn.Module):
    """Deep sets over the attributes of a row.

    A row is embedded from its own observed cells. Other rows affect it only through the
    standardisation, and labels not at all. The elements of the set have no names, so it is lost
    which attribute has which value; for exactly that reason it is the heterogeneous baseline of
    paper 000.

    Parameters
    ----------
    width : int, default=32
        Width of the embedding and of the hidden layers; the paper's hidden width.

    Raises
    ------
    ValueError
        If ``width`` is out of range.

    References
    ----------
    M. Zaheer et al. Deep sets. NeurIPS 2017; as in section 4.2 of paper 000 (Proto, MetaGP).
    """

    def __init__(self, *, width=32):
        super().__init__()
        check_integers(width=width)
        self.config = {"width": width}
        self.network = DeepSet(1, width)

    def n_embedding(self, n_columns):
        """Length of the embedding of a row, whatever the number of attributes; an int."""
        return self.config["width"]

    def forward(self, x, labels, readable, columns, classes, memory=None):
        """Embed the rows of a batch of tasks.

        Parameters are those of :class:`sklearn_meta.backbones.VSA`; ``labels`` and ``classes``
        are not used.

        Returns
        -------
        z : tensor of shape (B, N, 1, width)
        memory : list
            The standardisation.
        """
        (moments,) = memory or [moments_of(x, readable)]
        values, observed = observed_cells(x, moments, columns)
        return self.network(values[..., None], observed)[:, :, None], [moments]
