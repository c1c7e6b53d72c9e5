"""Partitions in a data directory, as a scan sees them: segments, their ends, transactions. Nothing is written or locked.

A broker may use the directory meanwhile. It replaces whole files (compaction), removes them (retention, DeleteRecords) or
cuts them (a follower's truncation), so a name that was listed may be gone or stand for other bytes a moment later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..protocol.records.batch import CONTROL_FLAG, HEADER_BYTES, TRANSACTIONAL_FLAG, check_crc, read_header
from ..protocol.records.control import ControlType, decode_control
from ..protocol.records.errors import BatchError, OldFormatInLog
from ..protocol.records.record import decode_batch
from ..storage.files.checkpoints import LOG_START_OFFSETS, inspect_offsets
from ..storage.files.failures import LogDirectoryFailure
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id
from ..storage.files.segment_files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, base_offset_of
from ..storage.log.epochs import UNDEFINED_EPOCH, LeaderEpochs
from ..storage.repair.aborted_check import open_at
from ..storage.segments.aborted import plausible_aborted
from ..storage.segments.index import CorruptIndex, OffsetIndex, TimeIndex
from ..tiers.segment_metadata import METADATA_TOPIC
from . import kernel, layout
from .batches import Aborted
from .errors import InvalidScan
from .layout import Numbers

if TYPE_CHECKING:
    pass


#: `orders-0`; not `orders-0.<id>-delete`, `-future` or `-stray`.
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
#: The directory of one partition may also be one that was kept: records that were cut off.
_KEPT = re.compile(_PARTITION.pattern + r"\.[0-9a-f]{32}-stray")
_OTHER = re.compile(r".*\.[0-9a-f]{32}-(delete|future|stray)")
#: Beginning of the names of a broker's snapshots of the metadata of tiered storage.
TIER_SNAPSHOT = "odradek-remote-log-metadata-"
#: Bytes that a walk over headers reads: few where batches are large, as their records are passed over.
_LEAST_READ, _MOST_READ = 4 << 10, 1 << 20
_ROWS = 8192
#: A batch of more bytes on the average is passed over, not read.
_LARGE_BATCH = 16 << 10


class Segment(NamedTuple):
    """A segment's file. `next_base`: where the next segment begins, None for the last one."""

    path: str
    base_offset: int
    size: int
    next_base: int | None


def partitions_of(path: str) -> tuple[str, dict[int, list[str]]]:
    """The topic that `path` names, and the directories of its partitions; several of one partition are copies.

    `path` is DATA_DIRECTORY/TOPIC, or the directory of one partition. Raises InvalidScan.
    """
    path = os.path.abspath(path)
    parent, name = os.path.split(path)
    if os.path.isdir(path) and _has_segments(path):
        found = _KEPT.fullmatch(name) or _PARTITION.fullmatch(name)
        if found is None:
            raise InvalidScan(f"{path} is not named TOPIC-PARTITION")
        return found["topic"], {int(found["partition"]): [path]}
    partitions: dict[int, list[str]] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.scandir(parent):
            found = _PARTITION.fullmatch(entry.name)
            if found and found["topic"] == name and not _OTHER.fullmatch(entry.name) and entry.is_dir():
                partitions.setdefault(int(found["partition"]), []).append(entry.path)
    if not partitions:
        raise InvalidScan(f"{parent} has no partition of a topic {name}: name DATA_DIRECTORY/TOPIC")
    return name, dict(sorted(partitions.items()))


def topics_of(data_directory: str) -> list[str]:
    """The topics with partitions in a data directory."""
    found = set()
    for entry in os.scandir(data_directory):
        match = _PARTITION.fullmatch(entry.name)
        if match and not _OTHER.fullmatch(entry.name) and entry.is_dir():
            found.add(match["topic"])
    return sorted(found)


def has_tier_metadata(data_directory: str) -> bool:
    """Returns whether a broker with tiered storage has used the directory."""
    with suppress(OSError):
        names = os.listdir(data_directory)
        return any(name.startswith((f"{METADATA_TOPIC}-", TIER_SNAPSHOT)) for name in names)
    return False


def _has_segments(path: str) -> bool:
    return any(name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None for name in os.listdir(path))


def segments_of(path: str) -> list[Segment]:
    """The segments of a partition's directory, in order. Raises FileNotFoundError.

    Where a compaction was interrupted between two renames, the file that it has completed (`.swap`) stands for the segment.
    """
    names = os.listdir(path)
    bases = _bases(names, LOG_SUFFIX)
    swapped = _bases(names, LOG_SUFFIX + SWAP_SUFFIX) - bases
    if swapped:
        unfinished = min(_bases(names, LOG_SUFFIX + CLEANED_SUFFIX), default=1 << 63)
        swapped = {base for base in swapped if base < unfinished}
    found: list[tuple[int, str, int]] = []
    for base in sorted(bases | swapped):
        file = f"{path}/{base:020d}{LOG_SUFFIX}{SWAP_SUFFIX if base in swapped else ''}"
        with suppress(FileNotFoundError):  # removed since the listing
            found.append((base, file, os.stat(file).st_size))
    following = [*(base for base, _, _ in found[1:]), None]
    return [Segment(file, base, size, after) for (base, file, size), after in zip(found, following)]


def _bases(names: Sequence[str], suffix: str) -> set[int]:
    return {base for name in names if name.endswith(suffix) and (base := base_offset_of(name)) is not None
            and len(name) == 20 + len(suffix)}  # fmt: skip


def log_start_offset(path: str, segments: Sequence[Segment]) -> int:
    """The first offset that readers may have: of the first segment, or where DeleteRecords has set it."""
    first = segments[0].base_offset if segments else 0
    return max(first, recorded_start(path) or 0)


def recorded_start(path: str) -> int | None:
    """The log start offset that a broker has written, up to a minute ago."""
    directory, name = os.path.split(path)
    topic, _, partition = name.rpartition("-")
    if _KEPT.fullmatch(name):
        return None
    with suppress(LogDirectoryFailure):
        return inspect_offsets(directory, LOG_START_OFFSETS).offsets.get((topic, int(partition)))
    return None


def topic_id_of(path: str) -> bytes | None:
    with suppress(OSError, CorruptPartitionMetadata):
        return read_topic_id(path)
    return None


def leader_epochs(path: str, segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """The leader epochs of a log, each with its start offset: those of the file, and of the batches since it was written.

    A broker writes the file when it flushes the log: of a running or killed one, only batches may have the last epochs.
    """
    epochs = LeaderEpochs.load(PartitionDirectory(path))
    following = [_first_epoch(one) for one in segments[1:]]
    for segment, next_epoch in zip(segments, [*following, None]):
        with suppress(FileNotFoundError, OldFormatInLog):
            if (next_epoch if next_epoch is not None else _last_epoch(segment)) > epochs.latest:
                for rows in walk(segment):
                    found, places = np.unique(rows[:, layout.LEADER_EPOCH], return_index=True)
                    for epoch, place in zip(found, places, strict=True):
                        if epoch > epochs.latest:
                            epochs.assign(int(epoch), int(rows[place][layout.BASE_OFFSET]))
    return epochs.entries()


def _first_epoch(segment: Segment) -> int | None:
    """The leader epoch of the first batch; None without one."""
    with suppress(FileNotFoundError, OldFormatInLog):
        for rows in walk(segment):
            return int(rows[0][layout.LEADER_EPOCH])
    return None


def _last_epoch(segment: Segment) -> int:
    position, least = indexed_position(segment, segment.size)
    last = UNDEFINED_EPOCH
    for rows in walk(segment, position, least if position else None):
        last = int(rows[-1][layout.LEADER_EPOCH])
    return last


def walk(segment: Segment, position: int = 0, least_offset: int | None = None) -> Iterator[Numbers]:
    """Yields rows of headers (kernel.py) from the batch at `position` on, until the end or something else than a batch.

    Records of large batches are not read. Raises OSError, OldFormatInLog.
    """
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from walk_file(fd, segment, position, least_offset)
    finally:
        os.close(fd)


def walk_file(fd: int, segment: Segment, position: int = 0, least_offset: int | None = None) -> Iterator[Numbers]:
    """Walks as `walk` does, over an open file."""
    expected = segment.base_offset if least_offset is None else least_offset
    size = os.fstat(fd).st_size
    rows = np.empty((_ROWS, layout.HEADER_COLUMNS), np.int64)
    wanted = _LEAST_READ
    while size - position >= HEADER_BYTES:
        data = np.frombuffer(os.pread(fd, min(wanted, size - position), position), np.uint8)
        count, end, result = kernel.walk_headers(data, 0, len(data), position, expected, False, rows)
        if not count:
            if position == 0 and len(data) > 16 and data[16] < 2:
                check_format(segment.path, data)
            return
        found = rows[:count]
        last = found[-1]
        is_cut = int(last[layout.POSITION] + last[layout.SIZE]) > size
        if is_cut:
            found = found[:-1]
        if len(found):
            yield found.copy()
        if is_cut or result in (layout.NO_BATCH, layout.OUT_OF_ORDER):
            return
        expected = int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1
        wanted = _LEAST_READ if end / count >= _LARGE_BATCH else min(_MOST_READ, 4 * wanted)
        position += end


def check_format(path: str, data: Numbers) -> None:
    """Raises OldFormatInLog for bytes that begin with a message of format 0 or 1."""
    if int.from_bytes(bytes(data[8:12])) >= 14 and data[16] in (0, 1):
        raise OldFormatInLog(path, int(data[16]))


def end_of(segment: Segment) -> tuple[int, int]:
    """(offset after the last whole batch, its end in the file) of a segment, from its last index entry on.

    The last batch counts when its CRC is right: a broker may be writing it.
    """
    position, least = indexed_position(segment, segment.size)
    offset, end = (segment.base_offset if position == 0 else least), position
    previous: tuple[int, int] | None = None
    last: Numbers | None = None
    for rows in walk(segment, position, least if position else None):
        for row in rows[-2:] if len(rows) > 1 else rows[-1:]:
            previous, (offset, end) = (offset, end), _end_of_row(row)
        last = rows[-1]
    if last is not None and not _is_whole(segment, last):
        assert previous is not None
        return previous
    return offset, end


def _end_of_row(row: Numbers) -> tuple[int, int]:
    offset = int(row[layout.BASE_OFFSET] + row[layout.LAST_DELTA]) + 1
    return offset, int(row[layout.POSITION] + row[layout.SIZE])


def _is_whole(segment: Segment, row: Numbers) -> bool:
    try:
        batch = read_batch(segment.path, row)
        check_crc(batch, 0, read_header(batch))
    except BatchError:
        return False
    return True


def read_batch(path: str, row: Numbers) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, int(row[layout.SIZE]), int(row[layout.POSITION]))
    finally:
        os.close(fd)


def offset_index(segment: Segment) -> OffsetIndex | None:
    """The index of a segment; None where it is missing, or was preallocated and has no end yet."""
    directory = PartitionDirectory(os.path.dirname(segment.path))
    suffix = SWAP_SUFFIX if segment.path.endswith(SWAP_SUFFIX) else ""
    with suppress(CorruptIndex, OSError):
        return OffsetIndex(directory, segment.base_offset, suffix)
    return None


def indexed_position(segment: Segment, position: int, index: OffsetIndex | None = None) -> tuple[int, int]:
    """(position, base offset) of the last indexed batch that is not above `position`; those of the start without an index.

    An index that points to no batch counts as missing.
    """
    index = index if index is not None else offset_index(segment)
    at = index.floor_of_position(position) if index is not None else 0
    return _checked(segment, at)


def latest_timestamp(segment: Segment) -> int | None:
    """The largest timestamp of a closed segment, by its time index; None where the index does not have it for sure.

    A broker writes the last entry when it closes a segment. The headers behind the last indexed batch are compared with it:
    an index that was cut is not believed.
    """
    if segment.next_base is None:
        return None
    directory = PartitionDirectory(os.path.dirname(segment.path))
    suffix = SWAP_SUFFIX if segment.path.endswith(SWAP_SUFFIX) else ""
    with suppress(CorruptIndex, OSError, OldFormatInLog):
        index = TimeIndex(directory, segment.base_offset, suffix)
        if not len(index) or not segment.base_offset <= index.last_offset < segment.next_base:
            return None
        position, least = indexed_position(segment, segment.size)
        for rows in walk(segment, position, least if position else None):
            if int(rows[:, layout.MAX_TIMESTAMP].max()) > index.last_timestamp:
                return None
        return index.last_timestamp
    return None


def position_of_offset(segment: Segment, offset: int) -> tuple[int, int]:
    """(position, base offset) of an indexed batch that starts at or before `offset`."""
    index = offset_index(segment)
    at, base = _checked(segment, index.floor(offset) if index is not None else 0)
    return (at, base) if base <= offset else (0, segment.base_offset)


def _checked(segment: Segment, at: int) -> tuple[int, int]:
    if not 0 < at < segment.size:
        return 0, segment.base_offset
    with suppress(OSError, BatchError):
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = read_header(os.pread(fd, HEADER_BYTES, at))
        finally:
            os.close(fd)
        is_inside = at + header.size <= segment.size and header.base_offset >= segment.base_offset
        if is_inside and (segment.next_base is None or header.next_offset <= segment.next_base):
            return at, header.base_offset
    return 0, segment.base_offset


# ---- transactions


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
