"""A small log as a look at its folder finds it: its only segment, and the other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..files.clean_replicas import CleanReplica


class SmallLog(NamedTuple):
    """The only segment of a log. `epochs`: each leader epoch above all before it in the segment, with its start offset."""

    size: int
    modified_ns: int
    end_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    epochs: list[tuple[int, int]]


class SeenReplica(NamedTuple):
    """A replica that was looked at among many.

    `is_noted`: its files are as in the note of an earlier start or stop. `log`: what was read of its only segment, of a
    log that was written to since then. `is_whole`: the note has it already, since there is no older one.
    """

    noted: CleanReplica
    is_noted: bool
    log: SmallLog | None = None
    is_whole: bool = False
