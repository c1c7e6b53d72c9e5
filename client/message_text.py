"""Texts of messages to a user: on one line, without control characters, and not too long."""

from __future__ import annotations

#: Longer messages are cut: a value of a megabyte on a command line is no help in its error.
MOST_MESSAGE_CHARACTERS = 800
#: Limit of a value that a message repeats.
MOST_SHOWN_CHARACTERS = 80


def shown(text: str) -> str:
    """A text between quotes in a message: one line, and not too long."""
    return repr(text if len(text) <= MOST_SHOWN_CHARACTERS else f"{text[:MOST_SHOWN_CHARACTERS]}...")


def one_line(message: object) -> str:
    """The message without line breaks and control characters, cut in its middle to a length that a person reads."""
    text = " ".join(str(message).split())
    if len(text) > MOST_MESSAGE_CHARACTERS:
        half = MOST_MESSAGE_CHARACTERS // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
