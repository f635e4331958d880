"""Checks of sizes and scales, made before networks are built."""

import math
from numbers import Integral, Real


def check_integers(least=1, /, **sizes):
    """Refuse values that are not integers, or less than ``least``.

    Parameters
    ----------
    least : int, default=1
    **sizes : object
        Values by name; error messages use the names.

    Raises
    ------
    ValueError
        For the first value that is refused.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral) or size < least:
            raise ValueError(f"{name} must be an integer of {least} or more, got {size!r}.")


def check_ranges(least=1, /, **ranges):
    """Refuse what is not a pair of integers, low <= high; parameters as in `check_integers`."""
    for name, bounds in ranges.items():
        pair = tuple(bounds) if isinstance(bounds, tuple | list) else ()
        integers = len(pair) == 2 and all(isinstance(bound, Integral) for bound in pair)
        if not integers or not least <= pair[0] <= pair[1]:
            raise ValueError(
                f"{name} must be a pair of integers (low, high), {least} <= low <= high, got "
                f"{bounds!r}."
            )


def check_heads(width, n_heads):
    """Refuse a width that heads cannot share evenly; parameters as in :func:`check_integers`."""
    check_integers(width=width, n_heads=n_heads)
    if width % n_heads:
        raise ValueError(
            f"n_heads must divide width, got width={width} and n_heads={n_heads}: choose a width "
            "that is a multiple of n_heads."
        )


def check_positive(**numbers):
    """Refuse what is not a finite number above zero; parameters as in :func:`check_integers`."""
    for name, number in numbers.items():
        if not isinstance(number, Real) or not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive number, got {number!r}.")


def check_limits(**limits):
    """Refuse what is not a number from 1 to infinity; parameters as in :func:`check_integers`."""
    for name, limit in limits.items():
        if not isinstance(limit, Real) or not limit >= 1:
            raise ValueError(f"{name} must be a number of 1 or more, got {limit!r}.")


def check_shares(**shares):
    """Refuse what is not a number from 0 to 1; parameters as in :func:`check_integers`."""
    for name, share in shares.items():
        if not isinstance(share, Real) or not 0 <= share <= 1:
            raise ValueError(f"{name} must be a number from 0 to 1, got {share!r}.")
