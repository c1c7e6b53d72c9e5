"""Errors of scans, and the offsets that a scan could not read."""

from __future__ import annotations

from typing import NamedTuple

from ..client.error_kinds import ErrorKind

#: The reason for records that the log has had.
REMOVED = "removed by retention or DeleteRecords since the scan was planned"


class Unread(NamedTuple):
    """Offsets from `first_offset` up to, and without, `next_offset` whose records a scan does not have.

    `file` and `position`: where they were looked for; a position of -1 for a file, or a broker, as a whole.
    """

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    file: str
    position: int
    reason: str

    def __str__(self) -> str:
        where = self.file if self.position < 0 else f"{self.file} at position {self.position}"
        last = self.next_offset - 1
        offsets = f"offset {last}" if last == self.first_offset else f"offsets {self.first_offset} to {last}"
        return f"{self.topic}-{self.partition}: {offsets} cannot be read: {where}: {self.reason}"


class ScanError(Exception):
    """A scan cannot be made or continued. `kind`: by what a user does about it."""

    kind = ErrorKind.FAILED


class UnreadableOffsets(ScanError):
    """Records are damaged, or gone since the scan was planned. `on_unreadable="skip"` reads the others."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(str(unread))
        self.unread = unread

    def __reduce__(self) -> tuple[type[UnreadableOffsets], tuple[Unread]]:
        return UnreadableOffsets, (self.unread,)


class SchemaRegistryUnavailable(ScanError):
    """The schema registry fails, so it is not known which values decode. A later scan may succeed."""

    kind = ErrorKind.UNREACHABLE


class RemoteStoreUnavailable(ScanError):
    """The store of remote segments does not answer, or denies a read. A later scan may succeed."""

    kind = ErrorKind.UNREACHABLE


class InvalidScan(ScanError, ValueError):
    """A source, column or option that a scan cannot have."""
