"""Transactions of a partition that no broker serves to a scan: which are aborted, and which are open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, check_crc, read_header
from ..protocol.records.control import ControlType, decode_control
from ..protocol.records.errors import BatchError, OldFormatInLog
from ..protocol.records.record import decode_batch
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.repair.aborted_check import open_at
from ..storage.segments.aborted import plausible_aborted
from . import layout
from .batch_selection import Aborted
from .layout import Numbers
from .segment import Segment, position_of_offset, read_batch, walk


class Transactions(NamedTuple):
    """`aborted`: those with records in the log. `first_open`: the first offset of the earliest open one, None without."""

    aborted: tuple[Aborted, ...]
    first_open: int | None


def transactions_of(path: str, segments: Sequence[Segment]) -> Transactions:
    """Aborted transactions, and the last stable offset, of a partition that no broker serves to this scan.

    Closed segments have an index of aborted transactions. Behind the newest producer snapshot batches are followed by
    their headers, since the broker may have had no time to write the index.
    """
    directory = PartitionDirectory(path)
    start, opened = _newest_snapshot(directory, segments)
    aborted: list[Aborted] = []
    for segment in segments:
        if segment.next_base is not None and segment.next_base <= start:
            aborted += _indexed(directory, segment)
    followed = _Followed(opened)
    for segment in segments:
        if segment.next_base is None or segment.next_base > start:
            followed.follow(segment, start)
    # A transaction that ended behind the snapshot has its entry here, wherever it began.
    return Transactions(tuple(aborted + followed.aborted), min(followed.opened.values(), default=None))


def _newest_snapshot(directory: PartitionDirectory, segments: Sequence[Segment]) -> tuple[int, dict[int, int]]:
    """The newest good snapshot at the start of a segment: the offset, and the transactions open there."""
    for segment in reversed(segments):
        with suppress(OSError):
            opened = open_at(directory, segment.base_offset)
            if opened is not None:
                return segment.base_offset, opened
    return (segments[0].base_offset if segments else 0), {}


def _indexed(directory: PartitionDirectory, segment: Segment) -> list[Aborted]:
    assert segment.next_base is not None
    entries = plausible_aborted(directory, segment.base_offset, segment.next_base)
    if entries is None:  # damaged
        followed = _Followed(open_at(directory, segment.base_offset) or {})
        followed.follow(segment, segment.base_offset)
        return followed.aborted
    return [Aborted(one.producer_id, one.first_offset, one.last_offset) for one in entries]


class _Followed:
    """Transactions along the headers of batches. `opened`: producer id -> first offset."""

    def __init__(self, opened: dict[int, int]) -> None:
        self.opened = dict(opened)
        self.aborted: list[Aborted] = []

    def follow(self, segment: Segment, start: int) -> None:
        position, least = position_of_offset(segment, start) if start > segment.base_offset else (0, None)
        with suppress(OldFormatInLog):  # there were no transactions
            for rows in walk(segment, position, least):
                flags = rows[:, layout.ATTRIBUTES]
                chosen = (rows[:, layout.PRODUCER_ID] >= 0) & (flags & TRANSACTIONAL_FLAG != 0)
                chosen &= rows[:, layout.BASE_OFFSET] + rows[:, layout.LAST_DELTA] >= start
                for row in rows[chosen]:
                    self._take(segment, row)

    def _take(self, segment: Segment, row: Numbers) -> None:
        producer_id, offset = int(row[layout.PRODUCER_ID]), int(row[layout.BASE_OFFSET])
        if not row[layout.ATTRIBUTES] & CONTROL_FLAG:
            self.opened.setdefault(producer_id, offset)
            return
        kind = marker_of(read_batch(segment.path, row))
        if kind is None:
            return
        first = self.opened.pop(producer_id, None)
        if kind is ControlType.ABORT and first is not None:
            self.aborted.append(Aborted(producer_id, first, offset))


def marker_of(batch: bytes | memoryview) -> ControlType | None:
    """COMMIT or ABORT; None of another control batch, of an emptied one, and of one that is damaged."""
    with suppress(BatchError):
        check_crc(batch, 0, read_header(batch))
        records = decode_batch(batch, 0)
        marker = decode_control(records[0].key, records[0].value) if records else None
        if marker is not None and marker.type in (ControlType.ABORT, ControlType.COMMIT):
            return marker.type
    return None
