"""Points, centres and covariance ellipses of a fitted mixture (Fig. 3 of paper 001)."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from .drawing import axes_of, check_matplotlib_support, colours

#: Radii of the ellipses in standard deviations, and the styles of their lines.
RADII = {1: "solid", 2: "dashed"}


class MixtureDisplay:
    """Plot of a Gaussian mixture over two columns: its points, centres and ellipses.

    As in Fig. 3 of paper 001, each point has the colour of its most likely component; a cross marks
    the centre of the component, and ellipses the points at one (solid) and two (dashed) standard
    deviations from it. If there are more than two columns, these are marginals of the mixture.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
    labels : ndarray of shape (n_samples,), int
        Component of each point.
    weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, 2)
    covariances : ndarray of shape (n_components, 2, 2)
    names : pair of str, default=("", "")
        Names of the two columns.

    Attributes
    ----------
    ellipses_ : list of lists of matplotlib Ellipse
        Per component, the ellipses at one and at two standard deviations; none for components whose
        weight is below 1e-6.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    References
    ----------
    Set Transformer (paper 001), Figure 3.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.mixture import GaussianMixture
    >>> from sklearn_meta.inspection import MixtureDisplay
    >>> X, y = make_blobs(200, centers=3, random_state=0)
    >>> mixture = GaussianMixture(3, random_state=0).fit(X)
    >>> display = MixtureDisplay.from_estimator(mixture, X)
    >>> display.covariances.shape
    (3, 2, 2)
    """

    def __init__(self, *, points, labels, weights, means, covariances, names=("", "")):
        self.points = points
        self.labels = labels
        self.weights = weights
        self.means = means
        self.covariances = covariances
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, X, *, features=(0, 1), ax=None):
        """Create and draw a display of a fitted mixture.

        Parameters
        ----------
        estimator : AmortizedGMM, GaussianMixture or BayesianGaussianMixture
            Fitted mixture, with any covariance type.
        X : array-like or DataFrame of shape (n_samples, n_features)
            Points to show.
        features : pair of int or str, default=(0, 1)
            The two columns to show, by index or name.
        ax : matplotlib Axes, default=None
            Axes to plot on; a new figure if None.

        Returns
        -------
        display : MixtureDisplay

        Raises
        ------
        TypeError
            If the estimator is not a Gaussian mixture.
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `features` are not two different columns, ``predict`` refuses `X`, or `ax` is not one
            axes.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if not all(hasattr(estimator, name) for name in ("means_", "covariances_", "weights_")):
            raise TypeError(
                f"The estimator must be a Gaussian mixture, got {estimator!r}. For a pipeline, "
                "pass its last step, and X transformed by the steps before it."
            )
        labels = estimator.predict(X)
        names = getattr(estimator, "feature_names_in_", None)
        chosen = _columns(features, estimator.n_features_in_, names)
        return cls(
            points=check_array(X)[:, chosen],
            labels=labels,
            weights=estimator.weights_,
            means=estimator.means_[:, chosen],
            covariances=_matrices(estimator)[:, chosen][:, :, chosen],
            names=("", "") if names is None else tuple(names[chosen]),
        ).plot(ax=ax)

    def plot(self, ax=None):
        """Draw points, centres and ellipses.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; a new figure if None.

        Returns
        -------
        display : MixtureDisplay

        Raises
        ------
        ValueError
            If `ax` is not one axes.
        """
        (ax,), self.figure_ = axes_of(ax, 1, self)
        self.ax_ = ax
        from matplotlib.patches import Ellipse

        palette = colours(len(self.means))
        ax.scatter(*self.points.T, c=palette[self.labels], s=8, linewidths=0, alpha=0.4)
        self.ellipses_ = []
        for weight, mean, covariance, colour in zip(
            self.weights, self.means, self.covariances, palette
        ):
            self.ellipses_.append([])
            if weight < 1e-6:
                continue
            variances, axes = np.linalg.eigh(covariance)
            angle = np.degrees(np.arctan2(*axes[::-1, 0]))
            for radius, style in RADII.items():
                width, height = 2 * radius * np.sqrt(variances)
                ellipse = Ellipse(mean, width, height, angle=angle, fill=False)
                ellipse.set(edgecolor=colour, linestyle=style, linewidth=1.5)
                self.ellipses_[-1].append(ax.add_patch(ellipse))
            ax.plot(*mean, marker="X", color=colour, markeredgecolor="black", markersize=9)
        ax.autoscale_view()
        ax.set_xlabel(self.names[0], parse_math=False)
        ax.set_ylabel(self.names[1], parse_math=False)
        return self


def _columns(features, n_features, names):
    """Return the positions of two columns, given by position or name."""
    known = [] if names is None else list(names)
    try:
        chosen = [known.index(f) if isinstance(f, str) else range(n_features)[f] for f in features]
    except (IndexError, TypeError, ValueError):
        chosen = []
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise ValueError(
            f"features must be two different columns of the {n_features} that the mixture was "
            f"fitted on, by position or name, got {features!r}."
        )
    return chosen


def _matrices(estimator):
    """Return covariances (n_components, n_features, n_features) for any covariance type."""
    n_components, n_features = estimator.means_.shape
    covariances, identity = estimator.covariances_, np.eye(n_features)
    if covariances.ndim == 1:  # spherical
        return covariances[:, None, None] * identity
    if covariances.ndim == 2 and estimator.covariance_type != "tied":  # diag
        return covariances[:, None] * identity
    return np.broadcast_to(covariances, (n_components, n_features, n_features))
