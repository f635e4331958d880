"""Files and folders that benchmarks write to by default."""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def place_of(output, name, quick=False):
    """Return the given output, or the place of the committed results.

    Quick runs never write to the committed results.

    Parameters
    ----------
    output : path or None
        Output given on the command line.
    name : str
        Name of a file or folder of results.
    quick : bool, default=False
        Whether the run is quick: it learns or measures nothing that should be kept.

    Returns
    -------
    pathlib.Path
        For a quick run the name ends in ``_quick``, before its suffix; git ignores such names.
    """
    if output is not None:
        return Path(output)
    place = RESULTS / name
    return place.with_stem(f"{place.stem}_quick") if quick else place
