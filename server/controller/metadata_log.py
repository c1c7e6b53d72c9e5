"""`__cluster_metadata-0` on the disk: the log of the quorum and its snapshots.

Appended records are in the page cache only. They count once a flush has written them to the disk, as raft.py
and lone_voter.py have it do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.delta import MetadataDelta
from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...metadata.transactions import MetadataTransactions
from ...protocol.codec import MalformedMessage
from ...protocol.records.control import ControlRecord, encode_control_batch
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message
from ...protocol.uuids import METADATA_TOPIC_ID
from ...replication.quorum.log import SnapshotId as RaftEnd
from ...storage.files.modes import restrict, restrict_files
from ...storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id, write_topic_id
from ...storage.files.writes import sync_directory
from ...storage.log.config import UNLIMITED, LogConfig
from ...storage.log.ends import PROVEN, UNPROVEN, Claim
from ...storage.log.flushing import PendingFlush
from ...storage.log.log import Log
from ..runtime.sliced_work import Steps
from .flushed_end import FLUSHED_END, FlushedEnd
from .metadata_batches import MAX_BATCH_BYTES, decode_batches, encode_in_batches, encode_records
from .metadata_snapshots import (
    SnapshotId,
    delete_partial_snapshots,
    last_contained_timestamp_ms,
    read_snapshot,
    sound_snapshots,
)
from .quorum_voters import QuorumVoters

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.thread_pools import ThreadPool

log = logging.getLogger("odradek.quorum")
DIRECTORY_NAME = f"{CLUSTER_METADATA_TOPIC}-0"
#: The name of the flush in logs, metrics and health.
FLUSH_TASK = "metadata log flush"
#: After an unexpected failure; clients wait for the flush.
FLUSH_RETRY_S = 1.0
_READ_BYTES = 1 << 20
#: Records that one step of a load replays: 0.1 ms.
_RECORDS_A_STEP = 16


class MetadataLost(OSError):
    """The log and its snapshots do not contain the whole metadata; starting would lose the cluster's state."""


class Loaded(NamedTuple):
    """Everything loaded from the disk. `delta` leads from the empty image to the loaded state."""

    delta: MetadataDelta
    transactions: MetadataTransactions
    last_epoch: int
    last_append_timestamp_ms: int


class QuorumLog:
    """The metadata log. `quorum` holds the voters that the log contains; `snapshots` lists those on the disk, oldest
    first.
    """

    def __init__(self, directory: Path, config: BrokerConfig, now_ms: int, *, gives_up: bool = False) -> None:
        """Opens the log. Raises LogDirectoryFailure, and DamagedLog where records are missing. With `gives_up` missing
        records are accepted.
        """
        self.directory = directory
        self._config = config
        if directory.is_dir():
            restrict(directory)
            restrict_files(directory)  # the snapshots, too
            delete_partial_snapshots(directory)
        self.snapshots = sound_snapshots(directory).sound
        #: Called when other nodes need a snapshot because the log has damage that no snapshot covers.
        self.on_uncovered_damage: Callable[[], None] = lambda: None
        self.flushed_end = FlushedEnd(directory.parent)
        newest = self.snapshots[-1].end_offset if self.snapshots else 0
        self.log = Log.open(
            directory,
            CLUSTER_METADATA_TOPIC,
            0,
            _log_config(config),
            now_ms=now_ms,
            claims=() if gives_up else self._claims(),
            must_be_whole_from=None if gives_up else newest,
        )
        for note in self.log.opening_notes:
            log.warning(note)
        if self.flushed_end.is_damaged:
            log.warning("%s: damaged; rewritten", directory.parent / FLUSHED_END)
        self._check_topic_id()
        #: The end of the log before its disk lost the tail, until the log is complete again; None when it is complete.
        self.acknowledged = None if self.flushed_end.reaches(self.end) else self.flushed_end.recorded
        if self.acknowledged is not None:
            self.flushed_end.sync()
        self.quorum = QuorumVoters()
        #: Bytes of records since the last snapshot.
        self.bytes_since_snapshot = 0

    def _claims(self) -> list[Claim]:
        """Returns the evidence for the log's end offset: the flushed end and the newest snapshot."""
        recorded = self.flushed_end.recorded
        claims = [Claim(recorded.end_offset, PROVEN, f"{self.directory.parent}/{FLUSHED_END}")]
        if self.snapshots:
            claims.append(Claim(self.snapshots[-1].end_offset, UNPROVEN, self.snapshots[-1].file_name))
        return claims

    def _check_topic_id(self) -> None:
        try:
            topic_id = read_topic_id(str(self.directory))
        except CorruptPartitionMetadata as error:
            log.warning("%s: %s; rewritten", self.directory, error)
            topic_id = None
        if topic_id != METADATA_TOPIC_ID:
            write_topic_id(str(self.directory), METADATA_TOPIC_ID)

    @property
    def end(self) -> RaftEnd:
        """The end of the log and the epoch of its last record."""
        newest = self.snapshots[-1].epoch if self.snapshots else 0
        return RaftEnd(self.end_offset, max(self.log.epochs.latest, newest, 0))

    def truncate(self, end_offset: int, now_ms: int) -> None:
        """Truncates records that the quorum's leader does not have."""
        epoch = max(self.log.epochs.epoch_for_offset(end_offset - 1), 0)
        self.flushed_end.truncating(self.end, RaftEnd(end_offset, epoch))
        self.log.truncate_to(end_offset, now_ms)

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    def load_snapshot(self, now_ms: int) -> Steps[Loaded]:
        """Loads the newest snapshot. Records after it are not known to be committed. Raises as `load`."""
        try:
            return (yield from self._load_snapshot(now_ms))
        except (BatchError, MalformedMessage, AssertionError, KeyError) as damage:
            raise MetadataLost(f"{self.directory}: the metadata is damaged: {damage!r}") from damage

    def load(self, now_ms: int) -> Steps[Loaded]:
        """Loads the newest snapshot and the log. Raises MetadataLost, and OSError where the disk fails."""
        try:
            return (yield from self._load(now_ms))
        except (BatchError, MalformedMessage, AssertionError, KeyError) as damage:
            raise MetadataLost(f"{self.directory}: the metadata is damaged: {damage!r}") from damage

    def _load(self, now_ms: int) -> Steps[Loaded]:
        loaded = yield from self._load_snapshot(now_ms)
        return (yield from self._load_log(self.snapshots[-1].end_offset if self.snapshots else 0, loaded))

    def _load_snapshot(self, now_ms: int) -> Steps[Loaded]:
        newest = self.snapshots[-1] if self.snapshots else SnapshotId(0, 0)
        delta, epoch, timestamp_ms = MetadataDelta(), newest.epoch, -1
        if self.snapshots:
            delta, self.quorum = yield from read_snapshot(self.directory / newest.file_name)
            timestamp_ms = self.quorum.last_contained_timestamp_ms
        if newest.end_offset > self.end_offset:
            sync_directory(str(self.directory))  # the snapshot's rename, by a process that was killed after it
            self.log.truncate_fully_and_start_at(newest.end_offset, now_ms)
        if newest.end_offset < self.log.log_start_offset:
            raise MetadataLost(
                f"{self.directory}: the log starts at offset {self.log.log_start_offset}, and the last snapshot ends at "
                f"{newest.end_offset}"
            )
        return Loaded(delta, MetadataTransactions(), epoch, timestamp_ms)

    def _load_log(self, offset: int, loaded: Loaded) -> Steps[Loaded]:
        start = offset
        while offset < self.end_offset:
            found = self.log.read(offset, _READ_BYTES)
            for header, records in decode_batches(found.bytes(), self.quorum):
                for number, record in enumerate(records[max(0, start - header.base_offset) :]):
                    for effective in loaded.transactions.take(record):
                        loaded.delta.replay(effective)
                    if not number % _RECORDS_A_STEP:
                        yield
                loaded = loaded._replace(last_epoch=header.leader_epoch, last_append_timestamp_ms=header.max_timestamp)
                self.bytes_since_snapshot += header.size
            offset = found.next_offset
            loaded.delta.topics.apply()
        return loaded

    # Appending.

    def append(self, records: Sequence[Message], epoch: int, now_ms: int, metadata_version: int, atomic: bool) -> None:
        """Appends the records of one decision. Raises LogDirectoryFailure, BatchTooLarge."""
        self.append_batches(self.encoded(records, epoch, now_ms, metadata_version, atomic), now_ms)

    def encoded(
        self, records: Sequence[Message], epoch: int, now_ms: int, metadata_version: int, atomic: bool
    ) -> bytes:
        """Encodes the records as batches that start at the end of the log: one, if they are atomic. Raises
        BatchTooLarge.
        """
        offset = self.end_offset
        if atomic:
            return encode_records(records, offset, epoch, now_ms, metadata_version)
        return b"".join(encode_in_batches(records, offset, epoch, now_ms, metadata_version))

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None:
        batch = encode_control_batch(records, base_offset=self.end_offset, timestamp=now_ms, leader_epoch=epoch)
        self.append_batches(batch, now_ms)

    def append_batches(self, batches: bytes, now_ms: int) -> None:
        """Appends whole batches that carry their offsets, as a leader has written them."""
        self.log.append(batches, None, now_ms)
        self.bytes_since_snapshot += len(batches)

    def prepare_flush(self) -> PendingFlush | None:
        """See Log.prepare_flush."""
        return self.log.prepare_flush()

    def flushed(self, flush: PendingFlush, now_ms: int) -> None:
        self.log.flushed(flush, now_ms)
        self._note_flushed(flush.up_to_offset)

    def _note_flushed(self, up_to_offset: int) -> None:
        if up_to_offset == self.end_offset == self.log.recovery_point:
            self.flushed_end.flushed(self.end)
        elif self.log.recovery_point > self.log.log_start_offset:
            last = self.log.recovery_point - 1
            epoch = max(self.log.epochs.epoch_for_offset(last), 0)
            self.flushed_end.flushed(RaftEnd(last + 1, epoch))

    def flush(self, now_ms: int) -> None:
        self.log.flush(now_ms)
        self._note_flushed(self.log.recovery_point)

    def close(self, now_ms: int) -> None:
        self.log.close(now_ms)
        self._note_flushed(self.log.recovery_point)

    # Snapshots.

    def add_snapshot(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Adds a written snapshot. Deletes the snapshots that retention no longer keeps, and the log below the oldest
        remaining one.
        """
        self.snapshots.append(snapshot)
        self._clean(now_ms)

    def replaced_by(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Replaces the log with a snapshot fetched from the leader. The log then starts and ends at the snapshot's end
        offset.
        """
        self.flushed_end.truncating(self.end, RaftEnd(*snapshot))
        self.log.truncate_fully_and_start_at(snapshot.end_offset, now_ms)
        for old in self.snapshots:
            if old != snapshot:
                (self.directory / old.file_name).unlink(missing_ok=True)
        self.snapshots = [snapshot]
        self.bytes_since_snapshot = 0

    def _clean(self, now_ms: int) -> None:
        """Applies metadata.max.retention.bytes and .ms as Kafka does: the newest snapshot always stays."""
        before = self.log.log_start_offset
        while len(self.snapshots) > 1 and (self._too_large() or self._too_old(self.snapshots[0], now_ms)):
            (self.directory / self.snapshots.pop(0).file_name).unlink(missing_ok=True)
            self.log.advance_log_start_offset(self.snapshots[0].end_offset)
        if self.log.log_start_offset == before:
            return
        obsolete = sum(segment.next_offset <= self.log.log_start_offset for segment in self.log.segments[:-1])
        self.log.remove_first(obsolete, now_ms)
        self.log.delete_scheduled(now_ms + self.log.config.file_delete_delay_ms)
        sync_directory(str(self.directory))
        log.info(
            "metadata log: now starts at offset %d, with %d snapshots", self.log.log_start_offset, len(self.snapshots)
        )

    def _too_large(self) -> bool:
        limit = self._config.get("metadata.max.retention.bytes")
        return limit >= 0 and self.log.size + sum(map(self._size, self.snapshots)) > limit

    def _size(self, snapshot: SnapshotId) -> int:
        return (self.directory / snapshot.file_name).stat().st_size

    def _too_old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        limit = self._config.get("metadata.max.retention.ms")
        return limit >= 0 and now_ms - last_contained_timestamp_ms(self.directory / snapshot.file_name) > limit


async def flush_on(quorum_log: QuorumLog, threads: ThreadPool, end_offset: int, now_ms: Callable[[], int]) -> None:
    """Flushes everything below the offset on a thread, in parts where there are many segments. Raises
    LogDirectoryFailure.
    """
    while (flush := quorum_log.prepare_flush()) is not None:
        await threads.run(flush.run)
        quorum_log.flushed(flush, now_ms())
        if flush.up_to_offset >= end_offset:
            return
    quorum_log.flush(now_ms())  # nothing is left for the disk: records the end


def _log_config(config: BrokerConfig) -> LogConfig:
    """Segments are deleted after snapshots only, never by retention."""
    return LogConfig(
        segment_bytes=config.get("internal.metadata.log.segment.bytes") or config.get("metadata.log.segment.bytes"),
        segment_ms=config.get("metadata.log.segment.ms"),
        retention_ms=UNLIMITED,
        retention_bytes=UNLIMITED,
        max_message_bytes=MAX_BATCH_BYTES,
    )
