"""The plan of a scan: which offsets of which partitions, cut into splits that may be read side by side.

A plan is made once, from a data directory. Its splits are plain data: any process that has the files reads them. What is
appended afterwards belongs to the next plan, so `ends` of one are the `starts` of the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .batch_selection import Aborted, Bounds
from .directory import log_start_offset, partitions_of, recorded_start, segments_of, topic_id_of
from .errors import InvalidScan, ScanError
from .segment import Segment, end_of, indexed_position, offset_index, position_of_offset
from .split import Split
from .transactions import Transactions, transactions_of

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


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Offsets of one partition, from `start` up to, and without, `end`. The log has `log_start` to `log_end`, which is
    the last stable offset with read_committed.
    """

    topic: str
    partition: int
    start: int
    end: int
    log_start: int
    log_end: int
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    topic: str
    partitions: tuple[PartitionPlan, ...]

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for one in self.partitions for split in one.splits)

    @property
    def starts(self) -> dict[int, int]:
        """Partition -> the first offset."""
        return {one.partition: one.start for one in self.partitions}

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset after the last one: what the next plan starts with."""
        return {one.partition: one.end for one in self.partitions}


class RemoteHead(NamedTuple):
    """The part of a partition before its first local segment, which a remote store has, from `start` on."""

    start: int
    #: Splits of a range of it; the arguments are the range, the bytes of a split, and the aborted transactions that end on
    #: the disk. None where the store is not named.
    splits: Callable[[Split, int, Sequence[Aborted]], tuple[Split, ...]] | None


#: Finds the remote part of a partition, from its directory, topic, number, segments and end; None without one.
FindRemote = Callable[[str, str, int, Sequence[Segment], int], RemoteHead | None]


def plan_directory(path: str, request: Request, find_remote: FindRemote) -> Plan:
    """The plan for a topic in a data directory (DATA_DIRECTORY/TOPIC), or for the directory of one partition.

    Raises InvalidScan, OSError, OldFormatInLog, RemoteStoreUnavailable, ScanError.
    """
    topic, found = partitions_of(path)
    copies = [paths for paths in found.values() if len(paths) > 1]
    if copies:
        raise InvalidScan(f"{' and '.join(copies[0])} are of one partition")
    chosen = chosen_partitions(topic, list(found), request)
    return Plan(topic, tuple(_partition(topic, one, found[one][0], request, find_remote) for one in chosen))


def chosen_partitions(topic: str, known: Sequence[int], request: Request) -> list[int]:
    """Raises InvalidScan for partitions that a topic does not have."""
    named = {*(request.partitions or ()), *request.start_offsets, *request.end_offsets}
    missing = sorted(named - set(known))
    if missing:
        raise InvalidScan(f"{topic} has no partition {missing[0]}, but {', '.join(map(str, sorted(known)))}")
    return sorted(known if request.partitions is None else set(request.partitions))


def _partition(topic: str, partition: int, path: str, request: Request, find_remote: FindRemote) -> PartitionPlan:
    segments = segments_of(path)
    log_start = log_start_offset(path, segments)
    remote = find_remote(path, topic, partition, segments, end_of(segments[-1])[0]) if segments else None
    if remote is not None and remote.start < segments[0].base_offset:
        log_start = max(remote.start, recorded_start(path) or 0)
    log_end = max(log_start, end_of(segments[-1])[0]) if segments else log_start
    transactions = Transactions((), None)
    if request.committed:
        transactions = transactions_of(path, segments)
        if transactions.first_open is not None:
            log_end = max(log_start, min(log_end, transactions.first_open))
    start, end = bounded(topic, partition, log_start, log_end, request)
    whole = Split(
        topic,
        partition,
        start,
        end,
        os.path.abspath(path),
        topic_id_of(path),
        aborted=transactions.aborted if request.committed else None,
        first_timestamp=request.times[0],
        last_timestamp=request.times[1],
    )
    local_start = segments[0].base_offset if segments else start
    before: tuple[Split, ...] = ()
    if remote is not None and start < min(local_start, end):
        head = replace(whole, path=None, next_offset=min(local_start, end))
        before = _remote_splits(head, remote, request, transactions.aborted)
        whole = replace(whole, first_offset=min(local_start, end))
    splits = (*before, *splits_of_files(whole, segments, request.split_bytes))
    return PartitionPlan(topic, partition, start, end, log_start, log_end, splits)


def _remote_splits(head: Split, remote: RemoteHead, request: Request, aborted: Sequence[Aborted]) -> tuple[Split, ...]:
    where = f"{head.topic}-{head.partition}: offsets {head.first_offset} to {head.next_offset - 1}"
    if remote.splits is None:
        raise InvalidScan(
            f"{where} are in a remote store: name it in `client` (remote.log.storage.manager.class.name and the keys of the "
            "store), or begin behind them with start_offsets"
        )
    found = remote.splits(head, request.split_bytes, aborted)
    if not found or found[-1].next_offset < head.next_offset:
        raise ScanError(
            f"{where}: the metadata in the data directory does not have all of their segments: read a cluster"
        )
    return found


def bounded(topic: str, partition: int, log_start: int, log_end: int, request: Request) -> tuple[int, int]:
    """The offsets of a request that the log has. Raises ScanError for a start that the log no longer has."""
    start = request.start_offsets.get(partition, log_start if request.all_start is None else request.all_start)
    end = min(request.end_offsets.get(partition, log_end if request.all_end is None else request.all_end), log_end)
    if start < log_start:
        raise ScanError(
            f"{topic}-{partition}: offset {start} is gone: the log starts at {log_start}, by retention or DeleteRecords"
        )
    return start, max(start, end)


def splits_of_files(whole: Split, segments: Sequence[Segment], split_bytes: int) -> tuple[Split, ...]:
    """Cuts a split at indexed batches into some of about `split_bytes`, which may span segments."""
    if whole.first_offset >= whole.next_offset:
        return ()
    cuts: list[tuple[int, int, int]] = []  # first offset, base offset of the segment, position
    sizes: list[int] = []
    filled = 0
    for segment in segments:
        is_before = segment.next_base is not None and segment.next_base <= whole.first_offset
        if is_before or segment.base_offset >= whole.next_offset:
            continue
        position, offset = _beginning(segment, whole)
        stop = position_of_offset(segment, whole.next_offset)[0] if segment.next_base is None else segment.size
        if not cuts:
            cuts.append((whole.first_offset, segment.base_offset, position if offset == whole.first_offset else 0))
            sizes.append(0)
        elif filled >= split_bytes and segment.base_offset > cuts[-1][0]:
            cuts.append((segment.base_offset, segment.base_offset, 0))
            sizes.append(0)
            filled = 0
        index = offset_index(segment) if stop - position + filled > split_bytes else None
        while index is not None and filled + stop - position > split_bytes:
            at, offset = indexed_position(segment, position + max(split_bytes - filled, 1), index)
            if at <= position or not cuts[-1][0] < offset < whole.next_offset:
                break
            sizes[-1] += at - position
            cuts.append((offset, segment.base_offset, at))
            sizes.append(0)
            position, filled = at, 0
        sizes[-1] += max(segment.size - position, 0) if segment.next_base is not None else max(stop - position, 0)
        filled += segment.size - position
    ends = [offset for offset, _, _ in cuts[1:]] + [whole.next_offset]
    return tuple(
        replace(
            whole, first_offset=offset, next_offset=end, base_offset=base, position=position, size=size,
            aborted=overlapping(whole.aborted, offset, end),
        )
        for (offset, base, position), end, size in zip(cuts, ends, sizes, strict=True)
    )  # fmt: skip


def _beginning(segment: Segment, whole: Split) -> tuple[int, int]:
    if whole.first_offset <= segment.base_offset:
        return 0, segment.base_offset
    return position_of_offset(segment, whole.first_offset)


def overlapping(aborted: Sequence[Aborted] | None, first: int, end: int) -> tuple[Aborted, ...] | None:
    """Aborted transactions with batches from `first` up to `end`, or with their marker there."""
    if aborted is None:
        return None
    return tuple(one for one in aborted if one.last_offset >= first and one.first_offset < end)


def sized(plan: PartitionPlan, log_bytes: int, split_bytes: int) -> list[Split]:
    """The splits of a partition, each of about `split_bytes` at most. Those without a size have one by that of the log."""
    per_offset = log_bytes / max(plan.log_end - plan.log_start, 1)
    made: list[Split] = []
    for split in plan.splits:
        size = split.size or int(per_offset * (split.next_offset - split.first_offset))
        made += divided(replace(split, size=size), -(-size // split_bytes))
    return made


def divided(split: Split, parts: int) -> list[Split]:
    """Cuts a split at offsets into parts of equal numbers of offsets."""
    count = split.next_offset - split.first_offset
    parts = max(1, min(parts, count))
    if parts == 1:
        return [split]
    bounds = [split.first_offset + count * number // parts for number in range(parts + 1)]
    # The position is that of the first batch: the others find theirs in the index.
    hints = [(split.base_offset, split.position)] + [(-1, 0)] * (parts - 1)
    return [
        replace(
            split, first_offset=first, next_offset=after, size=split.size // parts, base_offset=base, position=position
        )
        for first, after, (base, position) in zip(bounds, bounds[1:], hints, strict=False)
    ]
