"""The records that a scan asks for, and the part of them that a log has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .batch_selection import Bounds
from .errors import InvalidScan, ScanError

READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
#: Bytes of a split: some seconds of one core.
SPLIT_BYTES = 512 << 20


@dataclass(slots=True)
class Request:
    """The records that a scan asks for.

    `start_offsets` and `end_offsets` are of single partitions, `all_start` and `all_end` of the others; None is the start or
    the end of the log. The ends, also that of the timestamps, are not included.
    """

    partitions: Sequence[int] | None = None
    all_start: int | None = None
    all_end: int | None = None
    start_offsets: Mapping[int, int] = field(default_factory=dict)
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    isolation_level: str = READ_UNCOMMITTED
    split_bytes: int = SPLIT_BYTES

    @property
    def committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @property
    def times(self) -> tuple[int | None, int | None]:
        """The first and the last timestamp, in the range of records."""
        first, last = self.start_timestamp, None if self.end_timestamp is None else self.end_timestamp - 1
        least, most = Bounds().first_timestamp, Bounds().last_timestamp
        if (first is not None and first > most) or (last is not None and last < least):
            return most, least  # no record
        return None if first is None else max(first, least), None if last is None else min(last, most)


def chosen_partitions(topic: str, known: Sequence[int], request: Request) -> list[int]:
    """Raises InvalidScan for partitions that a topic does not have."""
    named = {*(request.partitions or ()), *request.start_offsets, *request.end_offsets}
    missing = sorted(named - set(known))
    if missing:
        raise InvalidScan(f"{topic} has no partition {missing[0]}, but {', '.join(map(str, sorted(known)))}")
    return sorted(known if request.partitions is None else set(request.partitions))


def bounded(topic: str, partition: int, log_start: int, log_end: int, request: Request) -> tuple[int, int]:
    """The offsets of a request that the log has. Raises ScanError for a start that the log no longer has."""
    start = request.start_offsets.get(partition, log_start if request.all_start is None else request.all_start)
    end = min(request.end_offsets.get(partition, log_end if request.all_end is None else request.all_end), log_end)
    if start < log_start:
        raise ScanError(
            f"{topic}-{partition}: offset {start} is gone: the log starts at {log_start}, by retention or DeleteRecords"
        )
    return start, max(start, end)
