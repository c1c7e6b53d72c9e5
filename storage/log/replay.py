"""Bringing the producers' state, and the index of aborted transactions, past the batches of a log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ...protocol.records.control import ControlType, decode_control
from ...protocol.records.end_markers import plain_marker
from ...protocol.records.errors import BatchError, OldFormatInLog
from ...protocol.records.record import decode_batch
from ..files.segment_files import SNAPSHOT_SUFFIX
from ..files.writes import read_if_exists, unlink_if_exists
from ..segments.aborted import AbortedTransaction
from ..segments.batches import batches_of
from ..segments.resync import next_whole_batch
from ..segments.snapshots import CorruptSnapshot, decode_snapshot

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.partition_directory import PartitionDirectory
    from ..segments.damage import Damage
    from ..segments.segment import Segment
    from .config import LogConfig
    from .producers import EndedTransaction, Producers


class OpeningLog(Protocol):
    """The parts of an opening log that a replay uses."""

    directory: PartitionDirectory
    config: LogConfig
    now_ms: int
    segments: list[Segment]
    snapshots: list[int]
    producers: Producers
    damage: Damage


def follow_batch(producers: Producers, header: BatchHeader, batch: memoryview | bytes) -> EndedTransaction | None:
    """Brings the producers' state past a batch that has a producer id; `batch` is opened only if it is a marker."""
    if not header.is_control:
        producers.update(header)
        return None
    plain = plain_marker(header, batch)
    if plain is not None:
        return producers.end_transaction(header, header.base_timestamp, plain.coordinator_epoch, aborted=plain.aborted)
    records = decode_batch(batch, 0)
    marker = decode_control(records[0].key, records[0].value) if records else None
    if marker is None or marker.type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    coordinator_epoch: int = marker.message.coordinator_epoch  # type: ignore[attr-defined]
    aborted = marker.type is ControlType.ABORT
    return producers.end_transaction(header, records[0].timestamp, coordinator_epoch, aborted=aborted)


def aborted_entry(producers: Producers, ended: EndedTransaction) -> AbortedTransaction:
    stable = producers.stable_after(ended)
    return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)


def restore_producers(opening: OpeningLog, end: int) -> list[int]:
    """Brings the producers' state to `end`: the newest good snapshot not behind it, and the batches from there.

    The offsets of the snapshots that are left.
    """
    directory, snapshots = opening.directory, list(opening.snapshots)
    expiration_ms = opening.config.producer_id_expiration_ms
    start = opening.segments[0].base_offset if opening.segments else end
    opening.producers.clear(start)
    for offset in sorted((o for o in snapshots if o <= end), reverse=True):
        try:
            entries = decode_snapshot(read_if_exists(directory.file(offset, SNAPSHOT_SUFFIX)) or b"")
        except CorruptSnapshot:
            unlink_if_exists(directory.file(offset, SNAPSHOT_SUFFIX))
            snapshots.remove(offset)
            continue
        opening.producers.load(entries, offset, opening.now_ms, expiration_ms)
        start = offset
        break
    _follow_from(opening, start, end)
    opening.producers.end_offset = end
    return snapshots


def _follow_from(opening: OpeningLog, start: int, end: int) -> None:
    for segment in opening.segments:
        if segment.next_offset <= start or segment.base_offset >= end:
            continue
        # There were no producer ids before format 2.
        with suppress(OldFormatInLog):
            for header, batch in whole_batches(segment, opening.damage, start):
                if header.base_offset >= end:
                    return
                if header.producer_id >= 0:
                    with suppress(BatchError):  # a marker without contents ends no transaction
                        follow_batch(opening.producers, header, batch)


def whole_batches(segment: Segment, damage: Damage, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """(header, bytes) of the whole batches of a segment that end behind `offset`, those behind damaged ranges too. A range
    may not be known yet.
    """
    holes = damage.in_file(os.path.basename(segment.path))
    position = segment.offset_index.floor(offset) if offset > segment.base_offset else 0
    # A segment whose end is being looked for has none yet.
    limit = segment.next_offset if segment.next_offset > segment.base_offset else 1 << 62
    next_offset, epoch = segment.base_offset, -1
    while position < segment.size:
        for at, header, batch in batches_of(segment.path, segment.size, position):
            position, next_offset, epoch = at + header.size, header.next_offset, header.leader_epoch
            if header.last_offset >= offset:
                yield header, batch
        if position >= segment.size:
            return
        hole = next((one for one in holes if one.position <= position < one.position + one.size), None)
        if hole is not None:
            position = hole.position + hole.size
            continue
        following = next_whole_batch(segment.path, segment.size, position, next_offset, limit, epoch)
        if following is None:
            return
        position = following[0]
