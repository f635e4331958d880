"""Checks of cards and weights, which may come from strangers."""

#: Sizes up to this are always accepted.
ROOM = 10**6


def check_sizes(config, n_bytes):
    """Refuse sizes above the number of bytes of the file: building them would fill the memory.

    Parameters
    ----------
    config : dict
        Configuration on the card; nested dicts are checked, too.
    n_bytes : int
        Size of the file of weights.

    Raises
    ------
    ValueError
    """
    for name, value in config.items():
        if isinstance(value, dict):
            check_sizes(value, n_bytes)
        elif isinstance(value, int) and value > max(n_bytes, ROOM):
            raise ValueError(f"{name}={value} is more than the number of bytes in the file.")


def check_numbers(learner, state):
    """Refuse tensors of another kind than the learner's, and tensors with NaN or +inf.

    -inf is accepted: as a score, it forbids one tag after another.

    Parameters
    ----------
    learner : Module
    state : dict of str to tensor
        Tensors to load into it; missing names are not an error here.

    Raises
    ------
    ValueError
    """
    for name, own in learner.state_dict().items():
        given = state.get(name, own)
        kinds = [(t.is_floating_point(), t.is_complex()) for t in (own, given)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{name} holds {given.dtype} instead of {own.dtype}.")
        cast = given.to(own.dtype)
        if given is not own and (cast.isnan() | cast.isposinf()).any():
            raise ValueError(f"{name} holds numbers that are not finite.")


def no_json(constant):
    """Refuse NaN and infinities in a card: Python reads them, but they are not JSON."""
    raise ValueError(f"{constant} is not JSON")


def tables_seen(learner):
    """Return the names of the tables that the learner was meta-trained on, according to its card.

    Parameters
    ----------
    learner : Learner

    Returns
    -------
    set of str
        Empty if the card has no list of names.
    """
    told = (getattr(learner, "card", None) or {}).get("datasets")
    return {name for name in told if isinstance(name, str)} if isinstance(told, list) else set()
