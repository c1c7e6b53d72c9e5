"""A log of small segments whose closed ones are copied to a store, with a metadata topic in memory."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path

from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.tiers.cache import Applied, RemoteLogMetadataCache
from odradek.tiers.events import decode_event, encode_event
from odradek.tiers.leader_tasks import CopyPlan, LeaderLog, copy_segment, plan_copies
from odradek.tiers.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from odradek.tiers.store import RemoteStore

PARTITION = TopicIdPartition(b"topic-id-of-logs", "orders", 0)
CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=200, retention_ms=-1, file_delete_delay_ms=0)
BROKER = 1
NOW_MS = 1_700_000_000_000
_EPOCH_OFFSETS = 40
_PRODUCER = 77


def value_at(offset: int) -> bytes:
    return b"%d:" % offset + random.Random(offset).randbytes(offset % 60)


def timestamp_at(offset: int) -> int:
    return NOW_MS + offset * 10


class TieredLog:
    """`events` are the values of the records of the metadata topic. A new object over them and the folder is a restart."""

    def __init__(self, path: Path, store: RemoteStore, events: list[bytes] | None = None) -> None:
        self.store = store
        store.create()
        self.events = [] if events is None else events
        self.log = Log.open(path, PARTITION.topic, PARTITION.partition, CONFIG, now_ms=NOW_MS)
        self.cache = RemoteLogMetadataCache()
        self._open_batches = 0
        self._ids = random.Random(len(self.events))
        for value in self.events:
            self._read(value)

    # ---- the log

    def fill(self, offsets: int) -> None:
        """Appends records to at least `offsets`. An epoch has 40 offsets. Every second group of 32 offsets is of
        transactions, of two batches each; half of them are aborted.
        """
        log = self.log
        while (at := log.log_end_offset) < offsets or self._open_batches:
            records = [Record(one, timestamp_at(one), b"k%d" % one, value_at(one)) for one in range(at, at + 3)]
            epoch, open_batches = at // _EPOCH_OFFSETS, self._open_batches
            if open_batches == 2:
                batch = encode_end_transaction(
                    at % 2 == 0, base_offset=at, timestamp=timestamp_at(at), producer_id=_PRODUCER, producer_epoch=0,
                    coordinator_epoch=0, leader_epoch=epoch,
                )  # fmt: skip
                self._open_batches = 0
            elif open_batches or at // 32 % 2:
                batch = encode_batch(
                    records, leader_epoch=epoch, producer_id=_PRODUCER, producer_epoch=0, base_sequence=at,
                    transactional=True,
                )  # fmt: skip
                self._open_batches += 1
            else:
                batch = encode_batch(records, leader_epoch=epoch)
            log.append(batch, None, NOW_MS)

    def local_bytes(self) -> bytes:
        """Returns all closed segments, one after the other."""
        return b"".join(Path(one.path).read_bytes()[: one.size] for one in self.log.segments[:-1])

    # ---- metadata

    def publish(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Applied:
        self.events.append(encode_event(event))
        return self._read(self.events[-1])

    def _read(self, value: bytes) -> Applied:
        event = decode_event(value)
        assert not isinstance(event, RemotePartitionDeleteMetadata)
        return self.cache.apply(event)

    # ---- copies

    def plans(
        self, *, broker_id: int | None = None, up_to: int | None = None, copying: Collection[bytes] = (),
        now_ms: int = NOW_MS,
    ) -> list[CopyPlan]:  # fmt: skip
        """`up_to`: the last stable offset, by default that of a log whose records are all committed."""
        source = LeaderLog(PARTITION, self.log, self.cache, BROKER if broker_id is None else broker_id, copying)
        stable = self.log.last_stable_offset(self.log.log_end_offset) if up_to is None else up_to
        return plan_copies(source, stable, now_ms, self._new_id)

    def copy_all(self) -> list[RemoteLogSegmentMetadata]:
        return [self.copy(plan) for plan in self.plans()]

    def copy(self, plan: CopyPlan, *, leads: bool = True, now_ms: int = NOW_MS) -> RemoteLogSegmentMetadata:
        return copy_segment(plan, self.store, self.publish, lambda: now_ms, lambda: leads)

    def _new_id(self) -> bytes:
        return self._ids.randbytes(16)


def records_in(data: bytes) -> Iterator[Record]:
    for position, header in iter_headers(data):
        if not header.is_control:
            yield from decode_batch(data, position)
