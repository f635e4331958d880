"""What counts as a missing value: one word for all, and no torch is needed to ask."""


def is_missing_value(value):
    """Whether a cell or a label is None, NaN, NaT or pandas' NA; text never is."""
    if isinstance(value, str):
        return False
    # Text first: pandas' NA refuses to say whether it equals itself.
    if value is None or str(value) == "<NA>":
        return True
    try:
        return bool(value != value)
    except ValueError:  # an array in a cell
        return False
