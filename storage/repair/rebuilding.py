"""A segment that is written anew beside a damaged one: sound bytes of the old file, and batches of another replica."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...protocol.records.control import ControlType
from ...protocol.records.errors import CorruptBatch
from ..compaction.cleaning import marker_type
from ..files.descriptors import open_fd
from ..files.modes import restrict
from ..files.segment_files import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TXN_INDEX_SUFFIX
from ..files.writes import unlink_if_exists, write_fully
from ..segments.aborted import AbortedTransaction, append_aborted
from ..segments.batches import scan, write_indexes

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.partition_directory import PartitionDirectory
    from ..segments.damage import DamagedRange
    from ..segments.segment import Segment

_COPY_BYTES = 1 << 20


class RebuiltSegment:
    """`copy_up_to` and `add` in the order of the offsets, then `finish`: the files end in `.cleaned`, to be swapped in.

    Its methods wait for the disk, and may be called by any thread. OSErrors are the caller's.
    """

    def __init__(self, directory: PartitionDirectory, base_offset: int, source: Segment | None) -> None:
        self._directory = directory
        self._base_offset = base_offset
        self._source = source.file() if source is not None and source.size else None
        self._source_size = source.size if source is not None else 0
        self._path = directory.file(base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        self._fd = -1
        self._copied = 0
        #: (producer id, offset) of the markers of aborted transactions in what was added.
        self._aborts: list[tuple[int, int]] = []
        #: The log is compacted.
        self.may_have_gaps = False
        self.size = 0
        self.added_bytes = 0

    def _begin(self) -> None:
        if self._fd < 0:
            self.discard()
            self._fd = open_fd(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def copy_up_to(self, damaged: DamagedRange) -> None:
        """Copies the batches before a damaged range of the source, which continues behind the range."""
        self._begin()
        self._copy(damaged.position)
        self._copied = damaged.position + damaged.size

    def _copy(self, end: int) -> None:
        while self._source is not None and self._copied < end:
            data = os.pread(self._source.fd, min(_COPY_BYTES, end - self._copied), self._copied)
            if not data:
                raise CorruptBatch(f"the file of offset {self._base_offset} ends before {end}")
            write_fully(self._fd, data, self.size)
            self.size += len(data)
            self._copied += len(data)

    def add(self, batches: bytes, headers: Sequence[BatchHeader]) -> None:
        assert sum(header.size for header in headers) == len(batches), "whole batches"
        write_fully(self._fd, batches, self.size)
        self.size += len(batches)
        self.added_bytes += len(batches)
        position = 0
        for header in headers:
            if (
                header.is_control
                and marker_type(header, batches[position : position + header.size]) is ControlType.ABORT
            ):
                self._aborts.append((header.producer_id, header.base_offset))
            position += header.size

    def finish(self, index_interval: int, next_offset: int, aborted: Iterable[tuple[int, int]]) -> None:
        """Copies the rest, verifies all of it up to `next_offset`, and syncs it with its indexes.

        `aborted`: (producer id, first offset) of the transactions that the replica names. Raises CorruptBatch.
        """
        self._copy(self._source_size)
        directory, base = self._directory, self._base_offset
        found = scan(self._path, base, self.size, index_interval)
        is_end = found.next_offset == next_offset or (self.may_have_gaps and found.next_offset <= next_offset)
        if found.size != self.size or found.holes or not is_end:
            raise CorruptBatch(
                f"the fetched records do not fit: the segment of offset {base} is valid up to {found.next_offset}, "
                "but should "
                f"end at {next_offset}"
            )
        write_indexes(directory, base, found, CLEANED_SUFFIX)
        self._write_aborted(aborted)
        os.fsync(self._fd)
        old = directory.file(base, LOG_SUFFIX)
        if os.path.exists(old):
            times = os.stat(old)
            os.utime(self._path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self._close()

    def _write_aborted(self, aborted: Iterable[tuple[int, int]]) -> None:
        """The old index, but for a segment that is all of the replica's, or whose index is gone.

        The last stable offset of an entry only ends a search early: with 0 it never ends early.
        """
        directory, base = self._directory, self._base_offset
        old = directory.file(base, TXN_INDEX_SUFFIX)
        if os.path.exists(old) and not self.may_have_gaps:
            copied = directory.file(base, TXN_INDEX_SUFFIX + CLEANED_SUFFIX)
            shutil.copyfile(old, copied)
            restrict(copied)
            return
        for producer_id, offset in self._aborts:
            first = max((begun for who, begun in aborted if who == producer_id and begun <= offset), default=None)
            if first is not None:
                append_aborted(directory, base, AbortedTransaction(producer_id, first, offset, 0), CLEANED_SUFFIX)

    def discard(self) -> None:
        """Removes what was written."""
        self._close()
        for kind in SEGMENT_SUFFIXES:
            unlink_if_exists(self._directory.file(self._base_offset, kind + CLEANED_SUFFIX))

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
