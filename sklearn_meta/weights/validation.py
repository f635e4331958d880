"""What a card and a file of weights may hold: both may come from strangers."""

#: A size that any architecture may have.
ROOM = 10**6


def check_sizes(config, n_bytes):
    """Refuse sizes that no weights of so many bytes have: layers may be counted in lists.

    Parameters
    ----------
    config : dict
        Of a card, with those that it holds.
    n_bytes : int
        Of the file of weights.

    Raises
    ------
    ValueError
    """
    for name, value in config.items():
        if isinstance(value, dict):
            check_sizes(value, n_bytes)
        elif isinstance(value, int) and value > max(n_bytes, ROOM):
            raise ValueError(f"{name}={value} is more than the file has bytes.")


def check_numbers(learner, state):
    """Refuse tensors that are no finite numbers of the kind that a learner has.

    But that -inf is one: a score of it forbids two tags one after the other.

    Parameters
    ----------
    learner : Module
    state : dict of str to tensor
        What it is to be given; a name that is missing is none of this function's matters.

    Raises
    ------
    ValueError
    """
    for name, own in learner.state_dict().items():
        given = state.get(name, own)
        kinds = [(t.is_floating_point(), t.is_complex()) for t in (own, given)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{name} holds {given.dtype} in place of {own.dtype}.")
        cast = given.to(own.dtype)
        if given is not own and (cast.isnan() | cast.isposinf()).any():
            raise ValueError(f"{name} holds numbers that are not finite.")


def no_json(constant):
    """Refuse NaN and infinities of a card, which Python reads and no other program does."""
    raise ValueError(f"{constant} is no json")


def tables_seen(learner):
    """Names of the tables that a learner was meta-trained on, as far as its card says.

    Parameters
    ----------
    learner : Learner

    Returns
    -------
    set of str
        What is no list of names tells of none.
    """
    told = (getattr(learner, "card", None) or {}).get("datasets")
    return {name for name in told if isinstance(name, str)} if isinstance(told, list) else set()
