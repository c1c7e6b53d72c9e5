"""Text of a peer, as it may stand in a log line: bounded, on one line, and without control characters.

A client id or a topic's name is 32,767 bytes of the client's choice. Printed as it is, it would fill the disk, forge lines
of the log, or send control sequences to the terminal of whoever reads it.
"""

from __future__ import annotations

#: Characters of one value: a topic's name has 249 at most.
MOST_VALUE_CHARACTERS = 256
#: Characters of a whole reason, which may contain several values.
MOST_REASON_CHARACTERS = 512


def shown(text: object, most: int = MOST_VALUE_CHARACTERS) -> str:
    """The text with control characters escaped as Python does, cut to `most` characters and a mark that it was cut."""
    found = str(text)
    cut = found[:most]
    if not cut.isprintable():
        cut = "".join(_escaped(character) for character in cut)[:most]
    return cut if len(found) <= most and len(cut) <= most else f"{cut[:most]}... ({len(found)} characters)"


def shown_reason(text: object) -> str:
    """As `shown`, for words that have values of a peer in them."""
    return shown(text, MOST_REASON_CHARACTERS)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
