"""`__cluster_metadata-0` on the disk: the log of the quorum and its snapshots.

- `decode_batches`, `encode_records`: records of the metadata log as batches.
- `list_snapshots`, `read_snapshot`, `write_snapshot_file`: the snapshots, as files in the log's directory.
- `FlushedEnd`: the end of the log at its last flush, in a file beside the log.
- `QuorumLog`: the log. Appended records are in the page cache only. They count once a flush has written them to the
  disk, see driver.py.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ...metadata.records import MetadataTransactions, decode_record, encode_record, image_records
from ...protocol.checksum import crc32c
from ...protocol.codec import MalformedMessage
from ...protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, iter_headers, read_header
from ...protocol.records.control import (
    ControlRecord,
    ControlType,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersVoter,
    decode_control,
    encode_control_batch,
)
from ...protocol.records.errors import BatchError, CorruptBatch
from ...protocol.records.record import Record, decode_batch, encode_batch
from ...protocol.schema import Message
from ...replication.quorum.log import SnapshotId as RaftEnd
from ...storage.files.identity import CorruptPartitionMetadata, read_topic_id, write_topic_id
from ...storage.files.open_files import (
    naming,
    open_fd,
    open_for_reading,
    restrict,
    restrict_files,
    set_aside,
    sync_directory,
    write_fully,
)
from ...storage.log.config import UNLIMITED, LogConfig
from ...storage.log.loading import PROVEN, UNPROVEN, Claim
from ...storage.log.log import Log, PendingFlush
from ..runtime.sliced_work import Steps

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig


# ---- batches
#
# Encodes and decodes metadata records and KRaft's control records in record batches.


#: The maximum size of a batch, as in Kafka; a reader reads a whole batch at once.
MAX_BATCH_BYTES = 8 << 20
#: The name of the flush in logs, metrics and health.
FLUSH_TASK = "metadata log flush"
#: After an unexpected failure; clients wait for the flush.
FLUSH_RETRY_S = 1.0
#: The number of records per batch when they need not be committed together.
RECORDS_PER_BATCH = 1024
#: The size of a record without key and headers, besides its value, at most.
_RECORD_BYTES = 32


@dataclass(slots=True)
class QuorumVoters:
    """The content of the control records in a log or a snapshot: the KRaft version and the voters."""

    kraft_version: int = 0
    voters: list[VotersVoter] = field(default_factory=list)
    #: The timestamp of the last record that a snapshot contains, from its header.
    last_contained_timestamp_ms: int = -1

    def learn(self, record: Message) -> None:
        if isinstance(record, KRaftVersionRecord):
            self.kraft_version = record.kraft_version
        elif isinstance(record, VotersRecord):
            self.voters = record.voters
        elif isinstance(record, SnapshotHeaderRecord):
            self.last_contained_timestamp_ms = record.last_contained_log_timestamp


class MetadataBatch(NamedTuple):
    header: BatchHeader
    #: Metadata records; empty for a control batch.
    records: Sequence[Message]


def decode_batches(data: bytes, quorum: QuorumVoters) -> Iterator[MetadataBatch]:
    """Decodes every batch of `data`. The content of control batches goes to `quorum`.

    Raises CorruptBatch, InvalidBatch, MalformedMessage.
    """
    for header, records in _decode_batches(data, quorum):
        yield MetadataBatch(header, [decode_record(record.value or b"") for record in records])


def decode_one_by_one(data: bytes, quorum: QuorumVoters) -> Iterator[Message]:
    """Decodes the metadata records of every batch lazily. Otherwise as `decode_batches`."""
    for _, records in _decode_batches(data, quorum):
        for record in records:
            yield decode_record(record.value or b"")


def _decode_batches(data: bytes, quorum: QuorumVoters) -> Iterator[tuple[BatchHeader, Sequence[Record]]]:
    """Yields each batch header with its records; control batches yield no records."""
    end = 0
    for position, header in iter_headers(data):
        check_crc(data, position, header)
        records = decode_batch(data, position, header)
        if header.is_control:
            for record in records:
                control = decode_control(record.key, record.value)
                if control is not None:
                    quorum.learn(control.message)
        yield header, () if header.is_control else records
        end = position + header.size
    if end != len(data):
        raise CorruptBatch(f"{len(data) - end} bytes after the last whole batch")


class BatchTooLarge(Exception):
    """Records that must be committed together do not fit in a batch of the metadata log."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The request needs a record batch of {size} bytes in the metadata log; the limit is {MAX_BATCH_BYTES} bytes."
        )


def encode_records(
    records: Sequence[Message], base_offset: int, epoch: int, timestamp_ms: int, metadata_version: int
) -> bytes:
    """Encodes the records as one batch. Raises BatchTooLarge."""
    values = [encode_record(record, metadata_version) for record in records]
    batch = _encoded(values, base_offset, epoch, timestamp_ms)
    if len(batch) > MAX_BATCH_BYTES:
        raise BatchTooLarge(len(batch))
    return batch


def encode_in_batches(
    records: Iterable[Message], base_offset: int, epoch: int, timestamp_ms: int, metadata_version: int
) -> Iterator[bytes]:
    """Yields batches with the records, which need not be committed together. A batch has RECORDS_PER_BATCH records at
    most, and MAX_BATCH_BYTES unless a record alone is larger.
    """
    values: list[bytes] = []
    size = HEADER_BYTES
    for record in records:
        value = encode_record(record, metadata_version)
        if values and (len(values) >= RECORDS_PER_BATCH or size + len(value) + _RECORD_BYTES > MAX_BATCH_BYTES):
            yield _encoded(values, base_offset, epoch, timestamp_ms)
            base_offset += len(values)
            values, size = [], HEADER_BYTES
        values.append(value)
        size += len(value) + _RECORD_BYTES
    if values:
        yield _encoded(values, base_offset, epoch, timestamp_ms)


def _encoded(values: Sequence[bytes], base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    made = [Record(base_offset + delta, timestamp_ms, None, value) for delta, value in enumerate(values)]
    return encode_batch(made, leader_epoch=epoch)


# ---- snapshots
#
# A snapshot is the file `<end offset>-<epoch>.checkpoint` (KIP-630). It replaces all records below its end offset;
# its epoch is that of the last such record. It begins with a control batch (header, KRaft version, voters), continues
# with the records of an image, and ends with another control batch (footer). A file is written as `.part`, is renamed
# when it is complete, and never changes again.

log = logging.getLogger("odradek.quorum")

SUFFIX = ".checkpoint"
_PART_SUFFIX = ".checkpoint.part"
_DELETED_SUFFIX = ".checkpoint.deleted"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
#: Snapshots are never written again; their permissions show it.
READ_ONLY = 0o400


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class LoadedSnapshot(NamedTuple):
    """A loaded snapshot. `delta` leads from the empty image to the snapshot's content."""

    delta: MetadataDelta
    quorum: QuorumVoters


def list_snapshots(directory: Path) -> list[SnapshotId]:
    """Lists the snapshots in the directory, oldest first."""
    found = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


class SoundSnapshots(NamedTuple):
    """The snapshots of a directory. `sound`: oldest first; the newest has been read completely. `damaged`: newer ones
    that are incomplete, with the reason.
    """

    sound: list[SnapshotId]
    damaged: list[tuple[Path, str]]

    def rename_damaged(self) -> None:
        """Renames the damaged snapshots. To be called when the node continues without them."""
        for path, reason in self.damaged:
            if not path.exists():
                continue  # a directory, which opening the log has already renamed
            log.error("%s: damaged (%s); renamed to %s", path, reason, Path(set_aside(str(path))).name)


def sound_snapshots(directory: Path) -> SoundSnapshots:
    sound = list_snapshots(directory) if directory.is_dir() else []
    damaged: list[tuple[Path, str]] = []
    while sound:
        path = directory / sound[-1].file_name
        try:
            check_snapshot(path)
            break
        except (BatchError, MalformedMessage, IsADirectoryError) as error:
            damaged.append((path, str(error)))
            sound.pop()
    return SoundSnapshots(sound, damaged)


def check_snapshot(path: Path) -> None:
    """Reads the snapshot completely. Raises BatchError, MalformedMessage, and OSError where the disk fails."""
    footers = 0
    for batch in iter_batches(path):
        header = read_header(batch)
        check_crc(batch, 0, header)
        if header.is_control:
            types = (decode_control(record.key, record.value) for record in decode_batch(batch, 0, header))
            footers += sum(one is not None and one.type is ControlType.SNAPSHOT_FOOTER for one in types)
    if footers != 1:
        raise CorruptBatch("it does not end with a footer")


def delete_partial_snapshots(directory: Path) -> None:
    """Deletes incomplete snapshots that a crash left behind while they were being written or removed."""
    for path in directory.iterdir():
        if path.name.endswith((_PART_SUFFIX, _DELETED_SUFFIX)):
            path.unlink()


def read_snapshot(path: Path) -> Steps[LoadedSnapshot]:
    """Loads a snapshot, one step per record. Raises OSError, and CorruptBatch, InvalidBatch or MalformedMessage for a
    damaged file.
    """
    loaded = LoadedSnapshot(MetadataDelta(), QuorumVoters())
    for batch in iter_batches(path):
        for record in decode_one_by_one(batch, loaded.quorum):
            loaded.delta.replay(record)
            yield
        # Apply in parts: otherwise the image of a large cluster would be created in one long step at the end.
        loaded.delta.topics.apply()
    return loaded


def iter_batches(path: Path) -> Iterator[bytes]:
    """Yields the batches of a snapshot file one at a time; the last one may be truncated. Raises as `read_snapshot`."""
    with open_for_reading(path) as file:
        left = os.fstat(file.fileno()).st_size
        while head := file.read(HEADER_BYTES):
            left -= len(head)
            size = min(read_header(head).size - len(head), left)
            left -= size
            yield head + file.read(size)


def control_batches(path: Path) -> Iterator[bytes]:
    """Yields the control batches of a snapshot file. The other batches are skipped unread."""
    with open_for_reading(path) as file:
        while head := file.read(HEADER_BYTES):
            header = read_header(head)
            if header.is_control:
                yield head + file.read(header.size - len(head))
            else:
                file.seek(header.size - len(head), os.SEEK_CUR)


def last_contained_timestamp_ms(path: Path) -> int:
    """Returns the timestamp of the last record that a snapshot contains. Reads only the head of the file."""
    quorum = QuorumVoters()
    for _ in decode_batches(next(iter_batches(path), b""), quorum):
        pass
    return quorum.last_contained_timestamp_ms


def read_records(path: Path) -> list[Message]:
    """Returns the metadata records of a snapshot file in file order, for `bootstrap.checkpoint`."""
    return [record for batch in decode_batches(path.read_bytes(), QuorumVoters()) for record in batch.records]


def encode_snapshot(
    records: Iterable[Message], metadata_version: int, epoch: int, quorum: QuorumVoters, now_ms: int
) -> Iterator[bytes]:
    """Yields the batches of a snapshot. `quorum.last_contained_timestamp_ms` goes into its header."""
    head = _head(quorum)
    yield encode_control_batch(head, base_offset=0, timestamp=now_ms, leader_epoch=epoch)
    offset = len(head)
    for batch in encode_in_batches(records, offset, epoch, now_ms, metadata_version):
        yield batch
        offset = read_header(batch).next_offset
    foot = [ControlRecord(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    yield encode_control_batch(foot, base_offset=offset, timestamp=now_ms, leader_epoch=epoch)


def _head(quorum: QuorumVoters) -> list[ControlRecord]:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=quorum.last_contained_timestamp_ms)
    return [ControlRecord(ControlType.SNAPSHOT_HEADER, header), *quorum_records(quorum)]


def quorum_records(quorum: QuorumVoters) -> Sequence[ControlRecord]:
    """Returns the control records for the quorum; none in KRaft version 0, where the configuration names the voters."""
    if quorum.kraft_version == 0:
        return ()
    version = KRaftVersionRecord(version=0, kraft_version=quorum.kraft_version)
    voters = VotersRecord(version=0, voters=quorum.voters)
    return (ControlRecord(ControlType.KRAFT_VERSION, version), ControlRecord(ControlType.KRAFT_VOTERS, voters))


def write_image_snapshot(directory: Path, image: MetadataImage, quorum: QuorumVoters, now_ms: int) -> SnapshotId:
    """Writes the snapshot of everything up to the image's offset. Blocks until it is on the disk; may be called from
    any thread. Raises OSError.
    """
    snapshot = SnapshotId(image.offset + 1, image.epoch)
    said = QuorumVoters(quorum.kraft_version, quorum.voters, image.last_append_timestamp_ms)
    batches = encode_snapshot(image_records(image), image.features.metadata_version, image.epoch, said, now_ms)
    write_snapshot_file(directory / snapshot.file_name, batches)
    return snapshot


def write_snapshot_file(path: Path, batches: Iterable[bytes]) -> None:
    partial = partial_path(path)
    partial.unlink(missing_ok=True)
    fd = open_fd(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        position = 0
        with naming(str(path)):
            for batch in batches:
                write_fully(fd, batch, position)
                position += len(batch)
            os.fchmod(fd, READ_ONLY)
            os.fsync(fd)
    except BaseException:
        partial.unlink(missing_ok=True)  # the next attempt has another name
        raise
    finally:
        os.close(fd)
    partial.replace(path)
    sync_directory(str(path.parent))


def partial_path(path: Path) -> Path:
    """Returns the path of a snapshot while it is incomplete."""
    return path.with_name(path.name.removesuffix(SUFFIX) + _PART_SUFFIX)


# ---- the end at the last flush
#
# Records the end of the metadata log at its last flush, in `odradek-metadata-end` beside the log's directory.
#
# A voter has acknowledged everything up to that end to other nodes or clients. A log that ends earlier has lost
# records, even if it has no damage; the file distinguishes that from a torn tail. It is written after each flush and
# not synced: the older content that a power loss may leave only claims less. It is synced before the log is truncated
# because its leader has other records.
#
# The bytes: end offset (int64), epoch of the last record (int32), CRC-32C of both (uint32).


FLUSHED_END = "odradek-metadata-end"
_END = struct.Struct(">qi")
_CRC = struct.Struct(">I")
NOWHERE = RaftEnd(0, 0)


class FlushedEnd:
    """`recorded`: the offset in the file. Raises OSError."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / FLUSHED_END)
        self.is_damaged = False
        #: Whether the file has an offset, and is as it was written.
        self.is_known = False
        self.recorded = self._read()

    def _read(self) -> RaftEnd:
        try:
            content = Path(self._path).read_bytes()
        except FileNotFoundError:
            return NOWHERE
        except IsADirectoryError:
            set_aside(self._path)
            content = b""
        self.is_damaged = len(content) != _END.size + _CRC.size or content[_END.size :] != _CRC.pack(
            crc32c(content[: _END.size])
        )
        self.is_known = not self.is_damaged
        return RaftEnd(*_END.unpack_from(content)) if self.is_known else NOWHERE

    def reaches(self, end: RaftEnd) -> bool:
        """Returns whether a log that ends at `end` has everything that was flushed."""
        return (end.epoch, end.end_offset) >= (self.recorded.epoch, self.recorded.end_offset)

    def flushed(self, end: RaftEnd) -> None:
        """Records that everything below `end` is on the disk. The old end stays while the log has less than was flushed."""
        if end != self.recorded and self.reaches(end):
            self._write(end, sync=False)

    def truncating(self, before: RaftEnd, end: RaftEnd) -> None:
        """The log, which ends at `before`, is about to be cut."""
        if self.reaches(before) and end.end_offset < self.recorded.end_offset:
            self._write(end, sync=True)

    def reset(self, end: RaftEnd) -> None:
        """Sets the end by an operator's decision: the records above it are given up."""
        self._write(end, sync=True)

    def _write(self, end: RaftEnd, *, sync: bool) -> None:
        fields = _END.pack(*end)
        fd = open_fd(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_fully(fd, fields + _CRC.pack(crc32c(fields)), 0)
            os.ftruncate(fd, _END.size + _CRC.size)  # a damaged file may be longer
            if sync:
                os.fdatasync(fd)
        finally:
            os.close(fd)
        self.recorded, self.is_known = end, True


# ---- the log

TOPIC = "__cluster_metadata"
#: The topic id that all clusters share (KIP-516).
TOPIC_ID = bytes(15) + b"\x01"
DIRECTORY_NAME = f"{TOPIC}-0"
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
            TOPIC,
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
        if topic_id != TOPIC_ID:
            write_topic_id(str(self.directory), TOPIC_ID)

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

    # ---- appending

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

    # ---- snapshots

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
        limit: int = self._config.get("metadata.max.retention.bytes")
        return limit >= 0 and self.log.size + sum(map(self._size, self.snapshots)) > limit

    def _size(self, snapshot: SnapshotId) -> int:
        return (self.directory / snapshot.file_name).stat().st_size

    def _too_old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        limit: int = self._config.get("metadata.max.retention.ms")
        return limit >= 0 and now_ms - last_contained_timestamp_ms(self.directory / snapshot.file_name) > limit


def _log_config(config: BrokerConfig) -> LogConfig:
    """Segments are deleted after snapshots only, never by retention."""
    return LogConfig(
        segment_bytes=config.get("internal.metadata.log.segment.bytes") or config.get("metadata.log.segment.bytes"),
        segment_ms=config.get("metadata.log.segment.ms"),
        retention_ms=UNLIMITED,
        retention_bytes=UNLIMITED,
        max_message_bytes=MAX_BATCH_BYTES,
    )
