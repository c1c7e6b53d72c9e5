"""The log of a quorum replica: `__cluster_metadata` on the disk, as the state machine uses it.

Presents the metadata log and its snapshots to a replica of the quorum: `replication/quorum/log.py` on a disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.records.batch import BatchHeader, check_crc, iter_headers
from ...protocol.records.control import ControlRecord, decode_control
from ...protocol.records.errors import BatchError, InvalidBatch
from ...protocol.records.record import decode_batch
from ...replication.quorum.log import ControlAt, EpochEnd, SnapshotId
from ...storage.files.descriptors import open_fd, open_for_reading
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.writes import sync_directory, write_fully
from .metadata_log import QuorumLog
from .metadata_snapshots import READ_ONLY, control_batches, partial_path
from .metadata_snapshots import SnapshotId as SnapshotFile

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer

damage_log = logging.getLogger("odradek.damage")
_READ_BYTES = 1 << 20
#: The time since an event that has not happened.
NEVER_MS = 1 << 62
#: The minimum time between two log lines about damage, since many followers repeat their requests.
_QUIET_MS = 60_000
#: A fetched snapshot is synced in parts of this size. One sync at the end would block the event loop for all of it.
_SYNC_BYTES = 4 << 20


class ReplicatedQuorumLog:
    """The metadata log as the quorum's replica has it. `adopted` is called with each snapshot that has replaced the log."""

    def __init__(
        self,
        quorum_log: QuorumLog,
        now_ms: Callable[[], int],
        adopted: Callable[[SnapshotFile], None] = lambda snapshot: None,
    ) -> None:
        self.quorum_log = quorum_log
        self._adopted = adopted
        self._log = quorum_log.log
        self._now_ms = now_ms
        #: The time of the last log line about damage.
        self._said_ms = -_QUIET_MS
        #: The smallest end offset since a flush began. The flush does not cover the current records above it.
        self.lowest_end = self._log.log_end_offset
        #: Everything below this offset is durable on the disk.
        self.synced_offset = 0

    # Start and end.

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        latest = self._log.epochs.latest
        newest = self.latest_snapshot
        return max(latest, newest.epoch if newest is not None else 0, 0)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return SnapshotId(*self.quorum_log.snapshots[0]) if self.quorum_log.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return SnapshotId(*self.quorum_log.snapshots[-1]) if self.quorum_log.snapshots else None

    def end_offset_for(self, epoch: int) -> EpochEnd:
        entries = self._log.epochs.entries()
        known = [number for number, (started, _) in enumerate(entries) if started <= epoch]
        if known:
            last = known[-1]
            end = entries[last + 1][1] if last + 1 < len(entries) else self.end_offset
            return EpochEnd(entries[last][0], end)
        oldest = self.earliest_snapshot
        if oldest is not None and oldest.epoch <= epoch and oldest.end_offset == self.start_offset:
            return EpochEnd(oldest.epoch, self.start_offset)
        return EpochEnd(epoch, self.start_offset)

    # Records.

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Reads batches. Raises BatchError where the log is damaged, and logs the damage at most once in a while."""
        try:
            found = self._log.read(offset, max_bytes).bytes()
            for position, header in iter_headers(found):
                check_crc(found, position, header)
            return found
        except BatchError as damage:
            now_ms = self._now_ms()
            if now_ms - self._said_ms >= _QUIET_MS:
                self._said_ms = now_ms
                damage_log.error(
                    "%s: the metadata log is damaged at offset %d or above, and other nodes get a snapshot instead: %s",
                    self._log.path, offset, damage,
                )  # fmt: skip
            newest = self.latest_snapshot
            if newest is None or newest.end_offset <= offset:
                self.quorum_log.on_uncovered_damage()
            raise

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> None:
        self.quorum_log.append_control(records, epoch, now_ms)

    def append_fetched(self, records: Buffer, epoch: int) -> Sequence[ControlAt]:
        """Appends fetched batches. A batch truncated at the end of the response is fetched again. Raises BatchError and
        appends nothing where the batches cannot be read, do not continue at the end of the log, or are of a later epoch
        than the leader's: no CRC covers it (KAFKA-18723).
        """
        data, end, offset = bytes(records), 0, self.end_offset
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            if header.base_offset != offset or header.next_offset <= offset:
                raise InvalidBatch(f"a batch of offsets {header.base_offset} to {header.next_offset - 1} at {offset}")
            if header.leader_epoch > epoch:
                raise InvalidBatch(f"the batch at offset {offset} has epoch {header.leader_epoch}, the leader {epoch}")
            end, offset = position + header.size, header.next_offset
        if not end:
            return ()
        controls = list(_controls(data[:end]))  # first: an unreadable record must not enter the log
        self.quorum_log.append_batches(data[:end], self._now_ms())
        return controls

    def truncate(self, end_offset: int) -> None:
        self.quorum_log.truncate(end_offset, self._now_ms())
        self.lowest_end = min(self.lowest_end, end_offset)
        self.synced_offset = min(self.synced_offset, end_offset)

    def controls(self, offset: int) -> Iterator[ControlAt]:
        """Yields the control records from `offset` on."""
        while offset < self.end_offset:
            found = self._log.read(offset, _READ_BYTES)
            yield from _controls(found.bytes())
            offset = found.next_offset

    # Snapshots.

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        try:
            with open_for_reading(self._path(snapshot)) as file:
                size = os.fstat(file.fileno()).st_size
                if not 0 <= position < size:
                    return size, b""
                file.seek(position)
                return size, file.read(max_bytes)
        except FileNotFoundError:
            return None

    def write_snapshot(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        try:
            return self._write_part(snapshot, position, data)
        except OSError as error:
            raise self._failed("writing a snapshot", error) from error

    def _write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if position == 0 else 0)
        fd = open_fd(partial_path(self._path(snapshot)), flags, 0o600)
        try:
            write_fully(fd, bytes(data), position)
            end = position + len(data)
            if position // _SYNC_BYTES < end // _SYNC_BYTES:
                os.fdatasync(fd)
        finally:
            os.close(fd)
        return end

    def adopt_snapshot(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        try:
            return self._adopt(snapshot)
        except OSError as error:
            raise self._failed("adopting a snapshot", error) from error

    def _failed(self, doing: str, error: OSError) -> LogDirectoryFailure:
        return LogDirectoryFailure(str(self.quorum_log.directory.parent), doing, error)

    def _adopt(self, snapshot: SnapshotId) -> Sequence[ControlAt]:
        path = self._path(snapshot)
        partial = partial_path(path)
        controls = [ControlAt(snapshot.end_offset - 1, control.record) for control in self._controls_of(partial)]
        fd = open_fd(partial, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(fd, READ_ONLY)
            os.fsync(fd)
        finally:
            os.close(fd)
        partial.replace(path)
        sync_directory(str(path.parent))
        self.quorum_log.replaced_by(SnapshotFile(*snapshot), self._now_ms())
        self.lowest_end, self.synced_offset = 0, snapshot.end_offset
        self._adopted(SnapshotFile(*snapshot))
        return controls

    def snapshot_controls(self) -> Sequence[ControlAt]:
        """Returns the control records of the newest snapshot, at the last offset that it contains."""
        newest = self.latest_snapshot
        if newest is None:
            return ()
        return [ControlAt(newest.end_offset - 1, control.record) for control in self._controls_of(self._path(newest))]

    def _controls_of(self, path: Path) -> Iterator[ControlAt]:
        for batch in control_batches(path):
            yield from _controls(batch)

    def _path(self, snapshot: SnapshotId) -> Path:
        return self.quorum_log.directory / SnapshotFile(*snapshot).file_name


def _controls(data: bytes) -> Iterator[ControlAt]:
    for position, header in iter_headers(data):
        if header.is_control:
            yield from _controls_in(data, position, header)


def _controls_in(data: bytes, position: int, header: BatchHeader) -> Iterator[ControlAt]:
    for record in decode_batch(data, position, header):
        control = decode_control(record.key, record.value)
        if control is not None:
            yield ControlAt(record.offset, control)
