"""Tracks the content of a replica's log from its files as it grows, and keeps it beyond the life of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.records.batch import iter_headers

if TYPE_CHECKING:
    from ....storage.log.log import Log

_READ_BYTES = 1 << 20


class Digest(NamedTuple):
    """The digest of one batch. The CRC covers its records, which a leader leaves unchanged."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    crc: int


class LogShadow:
    """The tracked log. `digests`: the batches from `start_offset` on."""

    def __init__(self) -> None:
        self.digests: list[Digest] = []
        self.start_offset = 0
        self.end_offset = 0
        #: The number of digests known to be committed.
        self.verified = 0
        #: For each digest, the owner of the file descriptor and the position at which the batch ends in its file.
        self._places: list[tuple[object, int, int]] = []
        self._log: Log | None = None

    def follow(self, log: Log) -> int:
        """Reads what is new. Returns how many digests are unchanged."""
        if log is not self._log:
            self._log = log
            self._clear(log.log_start_offset)
        if log.log_start_offset > self.end_offset:
            self._clear(log.log_start_offset)
        self._cut(log.log_end_offset)
        self._forget(log.log_start_offset)
        kept = len(self.digests)
        while self.end_offset < log.log_end_offset:
            self._read(log)
        return kept

    def _clear(self, offset: int) -> None:
        self.digests, self._places, self.verified = [], [], 0
        self.start_offset = self.end_offset = offset

    def _cut(self, end_offset: int) -> None:
        while self.digests and self.digests[-1].end_offset > end_offset:
            self.digests.pop()
            self._places.pop()
        self.verified = min(self.verified, len(self.digests))
        self.end_offset = min(self.end_offset, end_offset)

    def _forget(self, start_offset: int) -> None:
        gone = 0
        while gone < len(self.digests) and self.digests[gone].end_offset <= start_offset:
            gone += 1
        if gone:
            del self.digests[:gone], self._places[:gone]
            self.verified = max(0, self.verified - gone)
        self.start_offset = start_offset

    def _read(self, log: Log) -> None:
        found = log.read(self.end_offset, _READ_BYTES)
        assert found.file is not None and found.size, f"{log} has nothing at {self.end_offset}"
        for position, header in iter_headers(found.bytes()):
            self.digests.append(Digest(header.base_offset, header.next_offset, header.leader_epoch, header.crc))
            self._places.append((found.file, found.fd, found.position + position + header.size))
        self.end_offset = found.next_offset

    def is_synced(self, end_offset: int, synced_bytes: Callable[[int], int]) -> bool:
        """Returns whether the batch that ends at this offset is synced, and so all before it."""
        for digest, (_, fd, end) in zip(reversed(self.digests), reversed(self._places), strict=True):
            if digest.end_offset <= end_offset:
                return digest.end_offset == end_offset and synced_bytes(fd) >= end
        return end_offset <= self.start_offset

    def lose(self, synced_bytes: Callable[[int], int]) -> None:
        """Removes everything that was not synced, after a power loss."""
        kept = 0
        while kept < len(self._places) and synced_bytes(self._places[kept][1]) >= self._places[kept][2]:
            kept += 1
        self._cut(self.digests[kept - 1].end_offset if kept else self.start_offset)

    def digest_ending_at(self, end_offset: int) -> Digest | None:
        for digest in reversed(self.digests):
            if digest.end_offset <= end_offset:
                return digest if digest.end_offset == end_offset else None
        return None
