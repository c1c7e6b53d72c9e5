"""Record batches as Arrow: bytes of a file or a Fetch response in, `pyarrow.RecordBatch` out.

A chunk is bytes that begin with a batch, and the rows of its headers (`kernel.walk_headers`). Control batches and aborted
ones are left out. The CRCs are checked, and some megabytes are decompressed side by side and decoded by one call of the
compiled loop. Only the columns of the request are built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..protocol.checksum import crc32c
from ..protocol.records.batch import COMPRESSION_MASK, HEADER_BYTES, LOG_APPEND_TIME_FLAG
from ..protocol.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress, unpack
from ..protocol.records.errors import CorruptBatch, TooLargeDecompressed
from . import layout
from .arrow_buffers import RecordBuffers, constant_text, numbers
from .batch_selection import Bounds
from .layout import Numbers
from .record_schema import schema_of

#: Smallest record: a length, attributes, two deltas, two lengths and the count of headers.
_LEAST_RECORD_BYTES = 7
#: Payload of one RecordBatch, more or less. Larger ones leave the caches of a core.
_DECODED_BYTES = 4 << 20
#: isal decompresses gzip into at most this many bytes (protocol/records/codecs.py).
_GZIP_ROOM_BYTES = 2 << 20
_PLAIN = int(Compression.NONE)


class BatchFault(Exception):
    """A batch that cannot be read: the number of its row, and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


class BatchDecoder:
    """Decodes chunks of one partition. `columns`: names of SCHEMA, in the order of the result."""

    def __init__(
        self,
        topic: str,
        partition: int,
        columns: Sequence[str],
        *,
        check_crcs: bool = True,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._columns = tuple(columns)
        self._check_crcs = check_crcs
        self.schema = schema_of(self._columns)
        self._bounds = np.array(Bounds(), np.int64)
        self._wanted = (
            (layout.KEYS if "key" in columns else 0)
            | (layout.VALUES if "value" in columns else 0)
            | (layout.HEADERS if "headers" in columns else 0)
        )
        self._room = np.empty(0, np.uint8)

    def decode(
        self, data: memoryview, start: int, rows: Numbers, wanted: Numbers, bounds: Bounds
    ) -> Iterator[pa.RecordBatch]:
        """Yields the records of the batches `rows[wanted]`. `start`: the position in the file of data[0].

        CRCs of the other batches are checked, too: their headers decide that they are left out. Raises BatchFault for the
        first batch that cannot be read, after the records before it.
        """
        self._bounds[:] = bounds
        at = 0
        while at < len(rows):
            stop = self._end_of_group(rows, at)
            fault: BatchFault | None = None
            try:
                self._check(data, start, rows, at, stop)
            except BatchFault as error:
                fault, stop = error, error.row
            chosen = at + np.flatnonzero(wanted[at:stop])
            if len(chosen):
                yield from self._decoded(data, start, rows, chosen)
            if fault is not None:
                raise fault
            at = stop

    def _end_of_group(self, rows: Numbers, at: int) -> int:
        ends = rows[at:, layout.POSITION] + rows[at:, layout.SIZE]
        limit = int(rows[at, layout.POSITION]) + _DECODED_BYTES
        return at + max(1, int(np.searchsorted(ends, limit, side="right")))

    def _check(self, data: memoryview, start: int, rows: Numbers, at: int, stop: int) -> None:
        """Checks CRCs and counts. Raises BatchFault."""
        if self._check_crcs:
            positions, sizes = (rows[at:stop, layout.POSITION] - start).tolist(), rows[at:stop, layout.SIZE].tolist()
            crcs = rows[at:stop, layout.CRC].tolist()
            for number, (position, size, crc) in enumerate(zip(positions, sizes, crcs, strict=True)):
                found = crc32c(data[position + 21 : position + size])
                if found != crc:
                    raise BatchFault(at + number, f"the CRC is {found:#010x}, but the batch has {crc:#010x}")

    def _decoded(self, data: memoryview, start: int, rows: Numbers, chosen: Numbers) -> Iterator[pa.RecordBatch]:
        codecs = rows[chosen, layout.ATTRIBUTES] & COMPRESSION_MASK
        begin = 0
        while begin < len(chosen):
            # Batches of one kind side by side: plain ones are decoded where they are.
            is_plain = codecs[begin:] == _PLAIN
            changes = np.flatnonzero(is_plain != is_plain[0])
            end = begin + int(changes[0]) if len(changes) else len(chosen)
            group = chosen[begin:end]
            if is_plain[0]:
                starts = rows[group, layout.POSITION] - start + HEADER_BYTES
                stops = starts + rows[group, layout.SIZE] - HEADER_BYTES
                yield from self._records(np.frombuffer(data, np.uint8), rows, group, starts, stops)
            else:
                yield from self._compressed(data, start, rows, group)
            begin = end

    def _compressed(self, data: memoryview, start: int, rows: Numbers, group: Numbers) -> Iterator[pa.RecordBatch]:
        begin = 0
        while begin < len(group):
            starts, stops = [], []
            used, fault = 0, None
            for row in group[begin:].tolist():
                position = int(rows[row, layout.POSITION]) - start
                packed = data[position + HEADER_BYTES : position + int(rows[row, layout.SIZE])]
                codec = int(rows[row, layout.ATTRIBUTES]) & COMPRESSION_MASK
                try:
                    size = self._unpack(codec, packed, used)
                except (CorruptBatch, ValueError) as error:
                    fault = BatchFault(row, str(error))
                    break
                if size < 0:
                    break
                starts.append(used)
                used += size
                stops.append(used)
                if used >= _DECODED_BYTES:
                    break
            done = group[begin : begin + len(starts)]
            if len(done):
                yield from self._records(self._room, rows, done, np.array(starts), np.array(stops))
            if fault is not None:
                raise fault
            begin += len(done)

    def _unpack(self, codec: int, packed: memoryview, used: int) -> int:
        """Decompresses to the room behind `used` bytes. Returns the size, or -1 where the room is too small for it and is
        in use. Raises CorruptBatch.
        """
        if codec >= len(Compression):
            raise CorruptBatch(f"compression type {codec} does not exist")
        size = max(2 * _DECODED_BYTES, len(packed))
        while True:
            if len(self._room) < size and not used:
                self._room = np.empty(size, np.uint8)
            room = memoryview(self._room)[used:]  # type: ignore[arg-type]
            if codec == Compression.GZIP:
                room = room[:_GZIP_ROOM_BYTES] if size <= 2 * _DECODED_BYTES else room
            try:
                found = unpack(codec, packed, room)
                if used + len(found) > len(self._room):
                    raise TooLargeDecompressed("the room is too small")
                if isinstance(found, bytes):  # in memory of its own
                    room[: len(found)] = found
                return len(found)
            except TooLargeDecompressed:
                if used:
                    return -1
                if size >= MAX_DECOMPRESSED_BYTES:
                    raise
                size = min(4 * size, MAX_DECOMPRESSED_BYTES)
            except CorruptBatch:
                # Stricter than Java's clients (protocol/records/codecs.py): several frames, say, which other brokers let
                # pass.
                return self._unpack_leniently(codec, packed, used)

    def _unpack_leniently(self, codec: int, packed: memoryview, used: int) -> int:
        found = decompress(Compression(codec), packed)
        if used + len(found) > len(self._room):
            if used:
                return -1
            self._room = np.empty(len(found), np.uint8)
        memoryview(self._room)[used : used + len(found)] = found  # type: ignore[arg-type]
        return len(found)

    def _records(
        self, data: Numbers, rows: Numbers, group: Numbers, starts: Numbers, stops: Numbers
    ) -> Iterator[pa.RecordBatch]:
        counts = rows[group, layout.COUNT]
        too_many = np.flatnonzero(counts * _LEAST_RECORD_BYTES > stops - starts)
        fault = None
        if len(too_many):
            bad = int(too_many[0])
            has = f"{int(stops[bad] - starts[bad])} bytes"
            fault = BatchFault(int(group[bad]), f"a batch of {has} has the record count {int(counts[bad])}")
            group, starts, stops, counts = group[:bad], starts[:bad], stops[:bad], counts[:bad]
        if len(group):
            batches = np.empty((len(group), layout.BATCH_COLUMNS), np.int64)
            batches[:, layout.START], batches[:, layout.STOP] = starts, stops
            batches[:, layout.FIRST_OFFSET] = rows[group, layout.BASE_OFFSET]
            batches[:, layout.END_DELTA] = rows[group, layout.LAST_DELTA]
            batches[:, layout.FIRST_TIMESTAMP] = rows[group, layout.BASE_TIMESTAMP]
            is_appended = rows[group, layout.ATTRIBUTES] & LOG_APPEND_TIME_FLAG != 0
            batches[:, layout.IS_APPEND_TIME] = is_appended
            batches[:, layout.APPEND_TIME] = rows[group, layout.MAX_TIMESTAMP]
            batches[:, layout.RECORDS] = counts
            buffers = RecordBuffers(int(counts.sum()), int((stops - starts).sum()), self._wanted)
            faults = np.zeros(len(group), np.uint8)
            buffers.fill(data, batches, faults, self._bounds)
            bad_rows = np.flatnonzero(faults)
            if len(bad_rows):
                first = int(bad_rows[0])
                fault = BatchFault(int(group[first]), "its records do not parse")
                # Records of batches behind it are not to come before the error.
                buffers.fill(data, batches[:first], faults[:first], self._bounds)
            if buffers.rows:
                yield self._record_batch(buffers)
        if fault is not None:
            raise fault

    def _record_batch(self, buffers: RecordBuffers) -> pa.RecordBatch:
        rows = buffers.rows
        arrays = [
            constant_text(self._topic, rows)
            if name == "topic"
            else numbers(np.full(rows, self._partition, np.int32), pa.int32())
            if name == "partition"
            else buffers.array(name)
            for name in self._columns
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
