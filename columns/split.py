"""A split: offsets of one partition that one reader reads, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..tiers.segment_metadata import SegmentRange
from .batch_selection import Aborted, Bounds


class RemotePart(NamedTuple):
    """Segments of tiered storage, and the class and the keys of their store. The keys may hold passwords."""

    class_name: str
    keys: dict[str, str]
    ranges: tuple[SegmentRange, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets of one partition that one reader reads: plain data, to be pickled and sent to other processes.

    `first_offset` up to, and without, `next_offset`. `path`: the partition's directory; None reads through the brokers in
    `client`. `base_offset` and `position`: where the first batch is, as far as the plan has seen. `size`: bytes to read,
    estimated. `aborted`: transactions that read_committed leaves out; None reads uncommitted records.
    """

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    path: str | None = None
    topic_id: bytes | None = None
    base_offset: int = 0
    position: int = 0
    size: int = 0
    aborted: tuple[Aborted, ...] | None = None
    #: Bounds of the records' own timestamps, in ms and inclusive; None is no bound.
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    client: dict[str, str] | None = field(default=None, repr=False)
    #: The segments of a remote store that have the offsets; None for a split of files or brokers.
    remote: RemotePart | None = field(default=None, repr=False)

    @property
    def is_read_committed(self) -> bool:
        """Whether the isolation level is read_committed: there are transactions to leave out, or it is known that there are
        none.
        """
        return self.aborted is not None

    def part(self, first_offset: int, next_offset: int) -> Split:
        """The offsets from `first_offset` up to, and without, `next_offset`. A part that begins later has no known first
        batch: its reader finds it by the index.
        """
        if first_offset == self.first_offset:
            return replace(self, next_offset=next_offset)
        return replace(self, first_offset=first_offset, next_offset=next_offset, base_offset=-1, position=0)

    @property
    def bounds(self) -> Bounds:
        none = Bounds()
        return Bounds(
            self.first_offset,
            self.next_offset - 1,
            none.first_timestamp if self.first_timestamp is None else self.first_timestamp,
            none.last_timestamp if self.last_timestamp is None else self.last_timestamp,
        )
