"""Where benchmarks write by default."""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def place_of(output, name, quick=False):
    """What was asked for, or the place of the committed results; quick runs never write there.

    Parameters
    ----------
    output : path or None
        Of the command line.
    name : str
        Of a file or folder of results.
    quick : bool, default=False
        Whether nothing is learned or measured that should be kept.

    Returns
    -------
    pathlib.Path
        Of a quick run the name ends in ``_quick``, before its suffix; git ignores such names.
    """
    if output is not None:
        return Path(output)
    place = RESULTS / name
    return place.with_stem(f"{place.stem}_quick") if quick else place
