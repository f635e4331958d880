"""Text of files and cards, made safe for a terminal."""


def in_one_line(text):
    """Return text as one line of printable characters, whatever a stranger has written.

    Parameters
    ----------
    text : object
        Names may contain characters that clear a screen; error messages may have several lines.

    Returns
    -------
    str
        White space becomes single spaces. Other characters that move the cursor, or change colours
        or the direction of writing, are escaped as by Python's ``repr``.
    """
    line = " ".join(str(text).split())
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)
