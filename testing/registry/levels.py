"""Compatibility levels: in which direction, and with how many earlier versions, a new schema is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schemas import Parsed

DEFAULT_LEVEL = "BACKWARD"
LEVELS = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip


def why_incompatible(level: str, new: Parsed, earlier: list[Parsed]) -> list[str]:
    """Returns what is wrong with a new schema after `earlier` ones, the oldest first; nothing where the level allows it."""
    if level == "NONE" or not earlier:
        return []
    found: list[str] = []
    for one in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
        if type(one) is not type(new):
            return ["the types of the schemas differ"]
        if level.startswith(("BACKWARD", "FULL")):
            found += new.cannot_read(one)
        if level.startswith(("FORWARD", "FULL")):
            found += one.cannot_read(new)
        if found:
            break
    return found
