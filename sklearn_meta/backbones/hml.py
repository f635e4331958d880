"""HML: attributes, labels and rows described in turn by deep sets over the labelled rows.

Shape legend as in the other backbones: B tasks, N rows, L labelled rows, M attributes, C label
columns, H width.
"""

import torch
from torch import nn
from torch.nn.functional import layer_norm

from ..sizes import check_integers
from .deep_sets import DeepSet, labelled_rows, observed_cells
from .standardisation import moments_of


class HML(nn.Module):
    """Heterogeneous meta-learning of Iwata and Kumagai (2020), as paper 000 describes it.

    It describes each attribute of the task from the labelled rows alone, and embeds every row with
    these descriptions:

    1. attribute m and label column c are described by the sets of their values,
       ``v_m = f({x_nm})`` and ``u_c = g({y_nc})``;
    2. ``n_iterations`` times a labelled row is described by its cells,
       ``r_n = p({(x_nm, v_m)}) + q({(y_nc, u_c)})``, and then the columns by theirs,
       ``v_m = f'({(x_nm, r_n)})`` and ``u_c = g'({(y_nc, r_n)})``;
    3. a row, labelled or not, is embedded from its attributes, ``z_n = h({(x_nm, v_m)})``.

    Each function is a :class:`DeepSet` of its own, and every iteration has others. Paper 000
    specifies deep sets, three iterations, three-layered networks and labelled rows. It does not say
    whether iterations share weights, nor how some forty successive layers are kept trainable. Here
    iterations do not share weights, each description v, u and r is normalised (layer norm without
    parameters), and a value weighs as much as the description beside it. On Circle-Spiral HML stays
    at chance without the norms, and learns more slowly without the weighting.

    Parameters
    ----------
    width : int, default=32
        Width of descriptions, embeddings and hidden layers; the paper's hidden width.
    n_iterations : int, default=3
        The paper's.

    Raises
    ------
    ValueError
        If a size is out of range.

    References
    ----------
    T. Iwata, A. Kumagai. Meta-learning from tasks with heterogeneous attribute spaces. NeurIPS
    2020; as in section 4.2 of paper 000 (HML).
    """

    def __init__(self, *, width=32, n_iterations=3):
        super().__init__()
        check_integers(width=width)
        check_integers(0, n_iterations=n_iterations)
        self.config = {"width": width, "n_iterations": n_iterations}
        self._build(n_iterations)

    def _build(self, n_iterations):
        width = self.config["width"]
        self.first_attributes = self._set_network(1)
        self.first_labels = self._set_network(1)
        pair = 1 + width
        # Nothing would read a description of the label columns in the last iteration.
        names = ["row_attributes", "row_labels", "attributes", "labels"]
        self.iterations = nn.ModuleList(
            nn.ModuleDict({name: self._set_network(pair) for name in names[: 4 - (i == 0)]})
            for i in reversed(range(n_iterations))
        )
        self.rows = self._set_network(pair)

    def _set_network(self, width_in):
        """A module from sets (..., K, width_in), with a mask (..., K), to (..., width)."""
        return DeepSet(width_in, self.config["width"])

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
            The standardisation and the descriptions of the attributes, (B, 1, M, width).
        """
        moments, v = memory or [moments_of(x, readable), None]
        values, observed = observed_cells(x, moments, columns)
        if v is None:
            v = self.describe(values, observed, labels, classes)
        return self.rows(pairs(values, v), observed)[:, :, None], [moments, v]

    def describe(self, values, observed, labels, classes):
        """Descriptions of the attributes, (B, 1, M, H), from the cells of labelled rows."""
        x, observed, y, known = labelled_rows(values, observed, labels, classes)
        v = normalised(self.first_attributes(x.mT[..., None], observed.mT))  # (B, 1, M, H)
        u = normalised(self.first_labels(y.mT[..., None], known.mT))  # (B, 1, C, H)
        for network in self.iterations:
            r = network["row_attributes"](pairs(x, v), observed)
            r = normalised(r + network["row_labels"](pairs(y, u), known))  # (B, 1, L, H)
            v = normalised(network["attributes"](pairs(x.mT, r), observed.mT))
            if "labels" in network:
                u = normalised(network["labels"](pairs(y.mT, r), known.mT))
        return v


def normalised(descriptions):
    """Layer norm of (B, J, H), and a dimension for the other mode: (B, 1, J, H)."""
    return layer_norm(descriptions, descriptions.shape[-1:])[:, None]


def pairs(values, descriptions):
    """Each value beside its column's description: (B, I, J) and (B, 1, J, H) to (B, I, J, 1+H).

    Values are scaled so that at first one weighs as much as the H numbers beside it.
    """
    H = descriptions.shape[3]
    descriptions = descriptions.expand(-1, values.shape[1], -1, -1)
    values = H**0.5 * values[..., None].to(descriptions.dtype)
    return torch.cat([values, descriptions], dim=-1)
