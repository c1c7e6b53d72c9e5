"""Reading one split: offsets of one partition as RecordBatches, from its files; `SplitReader` is what all readers share.

A reader of files opens the segment that has the next offset, and keeps it open to its end: a broker that removes or replaces
the file meanwhile changes nothing in what is read. At the end of a file the directory is listed again, and the offset alone
decides what comes next, so that a compaction in between neither repeats nor loses a record. Batches must follow each other
by their offsets, and have the right CRC. Offsets that cannot be read raise UnreadableOffsets or, with `skip`, are in
`unread`; there is no third way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..protocol.records.batch import CONTROL_FLAG, HEADER_BYTES, TRANSACTIONAL_FLAG
from ..protocol.records.control import ControlType
from ..protocol.uuids import uuid_to_text
from ..storage.files.checkpoints import CLEANER_OFFSETS, inspect_offsets
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.segments.damage import Damage, DamagedRange
from ..storage.segments.resync import next_whole_batch
from ..tiers.segment_metadata import SegmentRange
from . import kernel, layout
from .batches import Aborted, BatchDecoder, BatchFault, Bounds, count_rows, data_rows
from .directory import (
    Segment,
    check_format,
    marker_of,
    position_of_offset,
    segments_of,
    topic_id_of,
)
from .errors import Unread, UnreadableOffsets
from .layout import Numbers

#: Bytes read at once. A larger batch has a read of its own size.
_CHUNK_BYTES = 8 << 20
#: A segment that vanished between the listing and the opening: the directory is listed again, this often.
_MOST_LISTINGS = 20
_FAR = 1 << 62
#: First bytes of a walk over headers; with small batches the reads grow.
_LEAST_READ = 4 << 10
#: Records of batches that are larger on the average are passed over.
_LARGE_BATCH = 16 << 10
_MAGIC_AT = 16


class RemotePart(NamedTuple):
    """Segments of tiered storage, and the class and the keys of their store. The keys may hold passwords."""

    class_name: str
    keys: dict[str, str]
    ranges: tuple[SegmentRange, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets of one partition that one reader reads: plain data, to be pickled and sent to other processes.

    `first_offset` up to, and without, `next_offset`. `path`: the partition's directory; None reads through the brokers in
    `client`. `base_offset` and `position`: where the first batch is, as far as the plan has seen. `size`: bytes to read,
    estimated. `aborted`: transactions that read_committed leaves out; None reads uncommitted records.
    """

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    path: str | None = None
    topic_id: bytes | None = None
    base_offset: int = 0
    position: int = 0
    size: int = 0
    aborted: tuple[Aborted, ...] | None = None
    #: Bounds of the records' own timestamps, in ms and inclusive; None is no bound.
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    client: dict[str, str] | None = field(default=None, repr=False)
    #: The segments of a remote store that have the offsets; None for a split of files or brokers.
    remote: RemotePart | None = field(default=None, repr=False)

    @property
    def bounds(self) -> Bounds:
        none = Bounds()
        return Bounds(
            self.first_offset,
            self.next_offset - 1,
            none.first_timestamp if self.first_timestamp is None else self.first_timestamp,
            none.last_timestamp if self.last_timestamp is None else self.last_timestamp,
        )


@dataclass(slots=True)
class ReadOptions:
    """`columns`: names of SCHEMA, in the order of the result. `skip`: unreadable offsets do not raise."""

    columns: Sequence[str]
    skip: bool = False
    check_crcs: bool = True


class Faulty(NamedTuple):
    """A batch that cannot be read."""

    file: str
    position: int
    reason: str


def end_of_faulty(row: Numbers, rows: Numbers, behind: int | None) -> int:
    """The offset after a batch that cannot be read. `rows`: those behind it, and `behind` is the base offset after them.

    Its own header may be wrong, and the next batch is the one that has a right CRC, or is reported, too.
    """
    own = int(row[layout.BASE_OFFSET] + row[layout.LAST_DELTA]) + 1
    return max(own, int(rows[0, layout.BASE_OFFSET]) if len(rows) else behind or 0)


class Batches(NamedTuple):
    """Batches to decode: `rows[wanted]` of `data`, which begins at the position `data_at` of `file`.

    None: the bytes are of a response, and have no position in a file.
    """

    file: str
    data: memoryview
    data_at: int | None
    rows: Numbers
    wanted: Numbers
    bounds: Bounds


class SplitReader:
    """A reader of a split, wherever its batches come from: how far the split is read, and which offsets cannot be.

    `next_offset`: all records of the split below it were yielded, or are in `unread`.
    """

    def __init__(self, split: Split, options: ReadOptions) -> None:
        self.split = split
        self.next_offset = split.first_offset
        self.unread: list[Unread] = []
        self._options = options
        self._aborts = AbortCheck(split)
        #: The last batch that was read, if its CRC is wrong, and so maybe its number of offsets.
        self._faulty: Faulty | None = None

    def _new_decoder(self, columns: Sequence[str]) -> BatchDecoder:
        split = self.split
        return BatchDecoder(split.topic, split.partition, columns, check_crcs=self._options.check_crcs)

    def _advance(self, next_offset: int) -> None:
        self.next_offset = max(self.next_offset, min(next_offset, self.split.next_offset))

    def _decoded(self, decoder: BatchDecoder, batches: Batches, behind: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the records of batches, and reports the offsets of those that cannot be read.

        `behind`: the base offset of the batch behind these; None where it is not read yet (`_end_faulty`).
        """
        file, data, data_at, rows, wanted, bounds = batches
        while len(rows):
            try:
                yield from decoder.decode(data, data_at or 0, rows, wanted, bounds)
                return
            except BatchFault as fault:
                row = rows[fault.row]
                rows, wanted = rows[fault.row + 1 :], wanted[fault.row + 1 :]
                position = -1 if data_at is None else int(row[layout.POSITION])
                self._advance(min(int(row[layout.BASE_OFFSET]), bounds.last_offset + 1))
                self._unreadable(end_of_faulty(row, rows, behind), file, position, fault.reason)
                if not len(rows) and behind is None:
                    self._faulty = Faulty(file, position, fault.reason)

    def _counted(
        self,
        rows: Numbers,
        wanted: Numbers,
        bounds: Bounds,
        decoded: Callable[[Numbers, Numbers, int | None], Iterator[pa.RecordBatch]],
    ) -> int:
        """The number of records, by the headers of their batches. `decoded` has those of one batch, whose CRC it checks; its
        arguments are the row, whether it is wanted, and the base offset of the batch behind it.

        A header counts where its number of records is that of its offsets: no CRC of a header alone shows a wrong number.
        Every other batch is read: one that reaches over a bound, that compaction has thinned out, a control batch.
        """
        base, last = rows[:, layout.BASE_OFFSET], rows[:, layout.BASE_OFFSET] + rows[:, layout.LAST_DELTA]
        inside = (base >= bounds.first_offset) & (last <= bounds.last_offset)
        inside &= (rows[:, layout.ATTRIBUTES] & CONTROL_FLAG == 0) & (rows[:, layout.COUNT] == last - base + 1)
        inside &= not bounds.has_times
        found = count_rows(rows, wanted & inside)
        is_reached = (last >= bounds.first_offset) & (base <= bounds.last_offset)
        for row in np.flatnonzero(is_reached & ~inside):
            behind = int(base[row + 1]) if row + 1 < len(rows) else None
            found += sum(batch.num_rows for batch in decoded(rows[row : row + 1], wanted[row : row + 1], behind))
        return found

    def _end_faulty(self, next_offset: int) -> None:
        """Reports the offsets between a batch with a wrong CRC and the next one."""
        faulty, self._faulty = self._faulty, None
        if faulty is not None:
            self._unreadable(next_offset, *faulty)

    def _unreadable(self, next_offset: int, file: str, position: int, reason: str) -> None:
        """Reports the offsets from the reader's own up to before another one, within the split."""
        split, end = self.split, min(next_offset, self.split.next_offset)
        if self.next_offset < end:
            found = Unread(split.topic, split.partition, self.next_offset, end, file, position, reason)
            if not self._options.skip:
                raise UnreadableOffsets(found)
            self.unread.append(found)
            self._aborts.forget()
            self.next_offset = end


class FileReader(SplitReader):
    """Yields the records of a split from the partition's directory."""

    def __init__(self, split: Split, options: ReadOptions, *, stops_when_gone: bool = False) -> None:
        """`stops_when_gone`: ends before the split's end, and reports nothing, where the files are no longer there."""
        super().__init__(split, options)
        assert split.path is not None
        self._stops_when_gone = stops_when_gone
        self._path = split.path
        self._bounds = split.bounds
        self._damage: list[DamagedRange] | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        decoder = self._new_decoder(self._options.columns)
        for file, rows, wanted in self._chunks(whole=True):
            yield from self._decoded(decoder, self._batches(file, rows, wanted))

    def count(self) -> int:
        """The number of records, by the headers of their batches alone. Batches that reach over a bound are decoded."""
        decoder = self._new_decoder(())
        chunks = self._chunks(whole=False)
        return sum(
            self._counted(rows, wanted, self._bounds, partial(self._one, decoder, file))
            for file, rows, wanted in chunks
        )

    def _one(
        self, decoder: BatchDecoder, file: _File, row: Numbers, wanted: Numbers, behind: int | None
    ) -> Iterator[pa.RecordBatch]:
        file.load(row[0])
        return self._decoded(decoder, self._batches(file, row, wanted), behind)

    def _batches(self, file: _File, rows: Numbers, wanted: Numbers) -> Batches:
        return Batches(file.segment.path, file.data, file.data_at, rows, wanted, self._bounds)

    # ---- segments

    def _chunks(self, *, whole: bool) -> Iterator[tuple[_File, Numbers, Numbers]]:
        file: _File | None = None
        try:
            while self.next_offset < self.split.next_offset:
                file = self._open_next(file)
                if file is None:
                    return
                # A segment that took the place of another may begin with records that were read from that one.
                self._bounds = self._bounds._replace(first_offset=self.next_offset)
                yield from self._file_chunks(file, whole=whole)
        finally:
            if file is not None:
                file.close()

    def _open_next(self, before: _File | None) -> _File | None:
        """The segment with the next offset; None where the log ends before the split does."""
        for _ in range(_MOST_LISTINGS):
            segments = self._listed()
            if segments is None:
                return None
            holding = [one for one in segments if one.base_offset <= self.next_offset]
            if not holding:
                self._lost(segments[0].base_offset, "removed by retention or DeleteRecords since the scan was planned")
                if self._stops_when_gone:
                    return None
                continue
            segment = holding[-1]
            if before is not None and before.is_same(segment):
                if segment.next_base is None:
                    self._lost(self.split.next_offset, f"{segment.path} ends before: it was truncated")
                    return None
                self._check_end(before, segment.next_base)
                self._advance(segment.next_base)
                if self.next_offset >= self.split.next_offset:
                    return None
                continue
            if before is not None:
                before.close()
                before = None
            try:
                return _File(segment, self.next_offset, self.split)
            except FileNotFoundError:
                continue
        self._lost(self.split.next_offset, "its files vanish again and again")
        return None

    def _listed(self) -> list[Segment] | None:
        """The segments that are there. Returns None, or raises, where it is not the directory of this topic any more."""
        try:
            segments = segments_of(self._path)
        except OSError as error:
            self._lost(self.split.next_offset, error.strerror or str(error))
            return None
        expected = self.split.topic_id
        found = topic_id_of(self._path) if expected is not None else None
        if found is not None and found != expected:
            self._lost(self.split.next_offset, f"the directory is of another topic, with the id {uuid_to_text(found)}")
            return None
        if not segments:
            self._lost(self.split.next_offset, "there is no segment")
            return None
        return segments

    def _check_end(self, file: _File, next_base: int) -> None:
        """Reports a file that has become shorter, which looks whole when it was cut between two batches.

        Batches without a gap before them are those of a log that was never compacted, and so is what follows them.
        """
        self._end_faulty(next_base)
        if self._damage is None:
            self._damage = list(Damage.load(PartitionDirectory(self._path)))
        for one in self._damage:
            if one.size == 0 and one.first_offset < next_base and one.next_offset > self.next_offset:
                self._unreadable(min(one.next_offset, next_base), file.segment.path, one.position, one.reason)
        if self.next_offset < next_base and (
            file.position > file.size or (file.is_dense and self._is_never_compacted())
        ):
            self._unreadable(next_base, file.segment.path, file.size, "the file ends early")

    def _is_never_compacted(self) -> bool:
        directory, _ = os.path.split(self._path)
        if not os.path.exists(f"{directory}/{CLEANER_OFFSETS}"):
            return False
        cleaned = inspect_offsets(directory, CLEANER_OFFSETS).offsets
        return (self.split.topic, self.split.partition) not in cleaned

    def _lost(self, next_offset: int, reason: str) -> None:
        if not self._stops_when_gone:
            self._unreadable(next_offset, self._path, -1, reason)

    # ---- batches

    def _file_chunks(self, file: _File, *, whole: bool) -> Iterator[tuple[_File, Numbers, Numbers]]:
        """Yields the headers of batches, in the file's order, and which of them have records of the split.

        `whole`: the batches are in `file.data`.
        """
        split = self.split
        while self.next_offset < split.next_offset:
            rows = file.read() if whole else file.read_headers()
            if len(rows):
                self._end_faulty(int(rows[0, layout.BASE_OFFSET]))
                aborted = split.aborted
                if aborted is not None:
                    aborted += self._aborts.added(file.segment.path, file.batch, rows)
                yield file, rows, data_rows(rows, self._bounds, aborted)
                last = rows[-1]
                self._advance(int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1)
            elif file.is_at_end() or not self._pass_damage(file):
                return

    def _pass_damage(self, file: _File) -> bool:
        """Goes to the next whole batch behind bytes that are none; False at the torn tail of the log."""
        found = file.resync(self.next_offset)
        segment = file.segment
        if found is None:
            if segment.next_base is None and self.next_offset >= self.split.next_offset:
                return False
            end = segment.next_base if segment.next_base is not None else self.split.next_offset
            self._unreadable(end, segment.path, file.position, file.reason)
            file.position = file.size
            return segment.next_base is not None
        position, offset = found
        self._unreadable(offset, segment.path, file.position, file.reason)
        file.position = position
        file.expected = offset
        return True


class _File:
    """An open segment. `data` are bytes from `data_at` on; `position` is where the next chunk begins."""

    def __init__(self, segment: Segment, offset: int, split: Split) -> None:
        self.segment = segment
        self._fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        if offset <= segment.base_offset:
            self.position, self.expected = 0, segment.base_offset
        elif segment.base_offset == split.base_offset and offset == split.first_offset and self._is_batch(split):
            self.position, self.expected = split.position, split.first_offset if split.position else segment.base_offset
        else:
            self.position, self.expected = position_of_offset(segment, offset)
        self.limit = segment.next_base if segment.next_base is not None else _FAR
        self.data: memoryview = memoryview(b"")
        self.data_at = 0
        self.leader_epoch = -1
        self.reason = ""
        self.is_dense = True
        self._buffer = bytearray(0)
        self._read_bytes = _LEAST_READ
        self._rows = np.empty((4096, layout.HEADER_COLUMNS), np.int64)

    def _is_batch(self, split: Split) -> bool:
        """Returns whether the file still has a batch with the split's first offset at the split's position."""
        head = np.frombuffer(os.pread(self._fd, HEADER_BYTES, split.position), np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(head, 0, len(head), split.position, 0, False, row)
        return bool(count) and int(row[0, layout.BASE_OFFSET]) == split.first_offset

    def is_same(self, segment: Segment) -> bool:
        if segment.base_offset != self.segment.base_offset:
            return False
        try:
            status = os.stat(segment.path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_at_end(self) -> bool:
        return self.position >= self.size

    def read(self) -> Numbers:
        """Rows of the whole batches of the next chunk; none at the end, and where something else than a batch is."""
        rows, self.reason = self._walked(_CHUNK_BYTES)
        return self._advance(rows)

    def read_headers(self) -> Numbers:
        """Rows of the next batches, as `read` has them. Records of large batches are passed over."""
        self._fill(self._read_bytes)
        rows, end, result = self._walk(whole=False)
        while len(rows) and int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE]) > self.size:
            rows = rows[:-1]
        if not len(rows):
            return self.read()
        is_large = end / len(rows) >= _LARGE_BATCH
        self._read_bytes = _LEAST_READ if is_large else min(_CHUNK_BYTES, 4 * self._read_bytes)
        self.reason = _REASONS[result]
        return self._advance(rows)

    def load(self, row: Numbers) -> None:
        """Reads one batch to `data`."""
        position = self.position
        self.position = int(row[layout.POSITION])
        self._fill(int(row[layout.SIZE]))
        self.position = position

    def _advance(self, rows: Numbers) -> Numbers:
        if not len(rows):
            return rows
        bases, deltas = rows[:, layout.BASE_OFFSET], rows[:, layout.LAST_DELTA]
        if self.is_dense:
            follows = bool((bases[1:] == (bases + deltas + 1)[:-1]).all()) and int(bases[0]) == self.expected
            self.is_dense = follows and bool((rows[:, layout.COUNT] == deltas + 1).all())
        last = rows[-1]
        self.position = int(last[layout.POSITION] + last[layout.SIZE])
        self.expected = int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1
        self.leader_epoch = int(last[layout.LEADER_EPOCH])
        return rows

    def _walked(self, wanted: int) -> tuple[Numbers, str]:
        self._fill(wanted)
        rows, _, result = self._walk(whole=True)
        if not len(rows) and result == layout.END_OF_BUFFER:
            return self._grown()
        if not len(rows) and self.data_at == 0 and len(self.data) > _MAGIC_AT:
            check_format(self.segment.path, self.data)
        return rows, _REASONS[result]

    def _walk(self, *, whole: bool) -> tuple[Numbers, int, int]:
        data = np.frombuffer(self.data, np.uint8)
        count, end, result = kernel.walk_headers(data, 0, len(data), self.data_at, self.expected, whole, self._rows)
        rows = self._rows[:count]
        behind = np.flatnonzero(rows[:, layout.BASE_OFFSET] + rows[:, layout.LAST_DELTA] >= self.limit)
        if len(behind):
            rows, result = rows[: int(behind[0])], layout.OUT_OF_ORDER
        return self._without_misplaced(rows), end, result

    def _grown(self) -> tuple[Numbers, str]:
        """Reads a batch that is larger than a chunk. No rows where the file has not all of it."""
        data = self.data
        if len(data) >= HEADER_BYTES:
            size = int.from_bytes(self.data[8:12]) + 12
            if size <= self.size - self.position:
                if size > len(data):
                    return self._walked(size)
                return self._rows[:0], "no batch begins here"
            return self._rows[
                :0
            ], f"a batch of {size} bytes is cut short: the file has {self.size - self.position} of them"
        return self._rows[:0], f"{len(data)} bytes are too few for a batch"

    def _without_misplaced(self, rows: Numbers) -> Numbers:
        """Leaves out a last batch whose base offset, which no CRC covers, is contradicted by the batch behind it."""
        if not len(rows):
            return rows
        before = int(rows[-2, layout.BASE_OFFSET] + rows[-2, layout.LAST_DELTA]) + 1 if len(rows) > 1 else self.expected
        base = int(rows[-1, layout.BASE_OFFSET])
        if base == before:
            return rows
        following = int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE])
        head = np.frombuffer(os.pread(self._fd, HEADER_BYTES, following), np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(head, 0, len(head), following, before, False, row)
        contradicted = count and int(row[0, layout.BASE_OFFSET]) <= base + int(rows[-1, layout.LAST_DELTA])
        return rows[:-1] if contradicted else rows

    def _fill(self, wanted: int) -> None:
        # A new file was perhaps appended to since it was opened, and may have been cut.
        self.size = os.fstat(self._fd).st_size
        wanted = max(0, min(wanted, self.size - self.position))
        if len(self._buffer) < wanted:
            self._buffer = bytearray(wanted)
        view = memoryview(self._buffer)
        found = os.preadv(self._fd, [view[:wanted]], self.position) if wanted else 0
        while 0 < found < wanted:
            more = os.preadv(self._fd, [view[found:wanted]], self.position + found)
            if not more:
                break
            found += more
        self.data, self.data_at = view[:found], self.position

    def batch(self, row: Numbers) -> bytes:
        """The bytes of one batch, of this file and not of another that has its name now."""
        return os.pread(self._fd, int(row[layout.SIZE]), int(row[layout.POSITION]))

    def resync(self, next_offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the next whole batch behind `position`, where none begins."""
        # Linux opens this file by its descriptor, also when it was removed or replaced.
        path = f"/proc/self/fd/{self._fd}" if os.path.isdir("/proc/self/fd") else self.segment.path
        found = next_whole_batch(path, self.size, self.position, next_offset, self.limit, self.leader_epoch)
        return (found[0], found[1].base_offset) if found is not None else None


_REASONS = {
    layout.END_OF_BUFFER: "no whole batch is left",
    layout.ROWS_FULL: "",
    layout.NO_BATCH: "no batch begins here",
    layout.OUT_OF_ORDER: "a batch has offsets that do not follow those before it",
}


class AbortCheck:
    """Compares markers of aborted transactions that are read with those that the plan has.

    The index of aborted transactions may be lost, and then looks like that of a segment without any.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._known = {(one.producer_id, one.last_offset) for one in split.aborted or ()}
        #: Producer id -> the first offset that was read of its open transaction.
        self._begun: dict[int, int] = {}

    def forget(self) -> None:
        """Forgets open transactions: their markers may be among offsets that cannot be read."""
        self._begun.clear()

    def added(self, path: str, batch: Callable[[Numbers], bytes], rows: Numbers) -> tuple[Aborted, ...]:
        """Aborted transactions that end in these batches and that the plan lacks. `batch` returns the bytes of a row.

        Raises UnreadableOffsets where records of one were yielded before.
        """
        aborted: list[Aborted] = []
        first_row = int(rows[0, layout.BASE_OFFSET])
        chosen = (rows[:, layout.PRODUCER_ID] >= 0) & (rows[:, layout.ATTRIBUTES] & TRANSACTIONAL_FLAG != 0)
        for row in rows[chosen]:
            producer_id, offset = int(row[layout.PRODUCER_ID]), int(row[layout.BASE_OFFSET])
            if not row[layout.ATTRIBUTES] & CONTROL_FLAG:
                self._begun.setdefault(producer_id, offset)
                continue
            first = self._begun.pop(producer_id, None)
            # The plan leaves out those that end before the split. Reading may begin at earlier batches than the split does.
            if first is None or offset < self._split.first_offset or (producer_id, offset) in self._known:
                continue
            if marker_of(batch(row)) is not ControlType.ABORT:
                continue
            if max(first, self._split.first_offset) < first_row:
                reason = (
                    f"the index of aborted transactions lacks the one that this marker ends: offsets from {first} on"
                )
                position, split = int(row[layout.POSITION]), self._split
                raise UnreadableOffsets(
                    Unread(
                        split.topic, split.partition, first, offset + 1, path, position, f"{reason} are not committed"
                    )
                )
            aborted.append(Aborted(producer_id, first, offset))
        return tuple(aborted)
