"""Positions of labelled rows, so that computations on them alone skip the other rows."""


def labelled_places(labelled):
    """Positions of the labelled rows of each task, padded to their largest number L.

    Parameters
    ----------
    labelled : bool tensor of shape (B, N)

    Returns
    -------
    places : int tensor of shape (B, L)
        In ascending order; L is at least 1.
    known : bool tensor of shape (B, L)
        False at padding, where ``places`` are positions of unlabelled rows.
    """
    count = max(int(labelled.sum(1).max()), 1)
    places = labelled.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    return places, labelled.gather(1, places)
