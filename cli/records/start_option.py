"""The position that a reading begins at, by the options of `consume`."""

from __future__ import annotations

from ...admin.positions import BEGINNING, END, STORED, Position, parse_position
from ...client.user_errors import Misused


def default_start(group: str | None, *, from_beginning: bool, text: str | None) -> Position:
    """The position of `--from-beginning` and `-o`; without both the group's, or the end."""
    if from_beginning and text is not None:
        raise Misused("--from-beginning and -o exclude each other")
    if from_beginning:
        return Position(BEGINNING)
    if text is not None:
        return parse_position(text)
    return Position(STORED if group is not None else END)
