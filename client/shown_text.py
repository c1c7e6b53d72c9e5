"""Makes a peer's text safe for a log line: bounded, on one line, and without control characters.

A client id or a topic name is up to 32,767 bytes of the client's choice. Printed unchanged, it could fill the disk,
forge log lines, or send control sequences to a reader's terminal.
"""

from __future__ import annotations

#: The maximum characters of one value; a topic name has 249 at most.
MOST_VALUE_CHARACTERS = 256
#: The maximum characters of a whole reason, which may contain several values.
MOST_REASON_CHARACTERS = 512


def shown(text: object, most: int = MOST_VALUE_CHARACTERS) -> str:
    """Returns the text with control characters escaped as Python does, truncated to `most` characters with a mark."""
    found = str(text)
    cut = found[:most]
    if not cut.isprintable():
        cut = "".join(_escaped(character) for character in cut)[:most]
    return cut if len(found) <= most and len(cut) <= most else f"{cut[:most]}... ({len(found)} characters)"


def shown_reason(text: object) -> str:
    """Works as `shown`, for messages that contain values of a peer."""
    return shown(text, MOST_REASON_CHARACTERS)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
