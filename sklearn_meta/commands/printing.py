"""What files and cards say, as a terminal may show it."""


def in_one_line(text):
    """Text in one line of signs that can be seen, whatever a stranger has written.

    Parameters
    ----------
    text : object
        Names may hold signs that clear a screen, and messages of errors several lines.

    Returns
    -------
    str
        White space is single spaces; other signs that move a cursor or change colours or the
        direction of writing are escaped, as Python's ``repr`` has them.
    """
    line = " ".join(str(text).split())
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)
