"""Where labelled rows are, so that what concerns them alone runs on a fraction of the rows."""


def labelled_places(labelled):
    """Places of the labelled rows of each task, padded to their largest number L.

    Parameters
    ----------
    labelled : bool tensor of shape (B, N)

    Returns
    -------
    places : int tensor of shape (B, L)
        In order; L is 1 at least.
    known : bool tensor of shape (B, L)
        False where a task has fewer: these places are of rows without a label.
    """
    count = max(int(labelled.sum(1).max()), 1)
    places = labelled.int().argsort(dim=1, descending=True, stable=True)[:, :count]
    return places, labelled.gather(1, places)
