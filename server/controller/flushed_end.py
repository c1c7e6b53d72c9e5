"""The end of the metadata log at its last flush, recorded in `odradek-metadata-end` beside the log's directory.

A voter has acknowledged everything up to that end to other nodes or clients. A log that ends earlier has lost
records, even if it has no damage; the file distinguishes that from a torn tail. It is written after each flush and
not synced: the older content that a power loss may leave only claims less. It is synced before the log is truncated
because its leader has other records, and when the log is opened without records that it had: the log does not show
any more that they were acknowledged.

The bytes: end offset (int64), epoch of the last record (int32), CRC-32C of both (uint32).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from ...protocol.checksum import crc32c
from ...replication.quorum.log import SnapshotId as RaftEnd
from ...storage.files.descriptors import open_fd
from ...storage.files.failures import LogDirectoryFailure
from ...storage.files.writes import set_aside, sync_directory, sync_if_exists, write_fully

FLUSHED_END = "odradek-metadata-end"
_END = struct.Struct(">qi")
_CRC = struct.Struct(">I")
NOWHERE = RaftEnd(0, 0)


class FlushedEnd:
    """`recorded`: the offset in the file. Raises OSError; `flushed` and `truncating`, of a node that runs,
    LogDirectoryFailure.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
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
            self._write_or_fail(end, sync=False)

    def truncating(self, before: RaftEnd, end: RaftEnd) -> None:
        """The log, which ends at `before`, is about to be cut."""
        if self.reaches(before) and end.end_offset < self.recorded.end_offset:
            self._write_or_fail(end, sync=True)

    def _write_or_fail(self, end: RaftEnd, *, sync: bool) -> None:
        try:
            self._write(end, sync=sync)
        except OSError as error:
            raise LogDirectoryFailure(self._directory, f"writing {self._path}", error) from error

    def sync(self) -> None:
        """Makes the recorded end survive a power loss."""
        sync_if_exists(self._path)
        sync_directory(str(Path(self._path).parent))

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
