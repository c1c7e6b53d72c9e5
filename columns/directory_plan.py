"""The plan for a topic in a data directory, or for the directory of one partition."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from .batch_selection import Aborted
from .directory import log_start_offset, partitions_of, recorded_start, segments_of, topic_id_of
from .divided_splits import splits_of_files
from .errors import InvalidScan, ScanError
from .plan import PartitionPlan, Plan
from .request import Request, bounded, chosen_partitions
from .segment import Segment, end_of
from .split import Split
from .transactions import Transactions, transactions_of


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
        head = replace(whole.part(start, min(local_start, end)), path=None)
        before = _remote_splits(head, remote, request, transactions.aborted)
        whole = whole.part(min(local_start, end), end)
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
