"""Record batches as Arrow: bytes of a file or a Fetch response in, `pyarrow.RecordBatch` out.

A chunk is bytes that begin with a batch, and the rows of its headers (`kernel.walk_headers`). Control batches and aborted
ones are left out. The CRCs are checked, and some megabytes are decompressed side by side and decoded by one call of the
compiled loop. Only the columns of the request are built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..protocol.checksum import crc32c
from ..protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from ..protocol.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress, unpack
from ..protocol.records.errors import CorruptBatch, TooLargeDecompressed
from . import kernel, layout
from .layout import Numbers

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
#: Columns of a scan, with Kafka's names. A `timestamp` of -1 (none) is null; `timestamp_type` is 0 for CreateTime and 1
#: for LogAppendTime.
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)
#: Smallest record: a length, attributes, two deltas, two lengths and the count of headers.
_LEAST_RECORD_BYTES = 7
#: Payload of one RecordBatch, more or less. Larger ones leave the caches of a core.
_DECODED_BYTES = 4 << 20
#: isal decompresses gzip into at most this many bytes (protocol/records/codecs.py).
_GZIP_ROOM_BYTES = 2 << 20
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_PLAIN = int(Compression.NONE)


class Bounds(NamedTuple):
    """Records with these offsets and timestamps in ms. All bounds are inclusive: there is a timestamp of 2^63-1."""

    first_offset: int = 0
    last_offset: int = _INT64_MAX
    first_timestamp: int = _INT64_MIN
    last_timestamp: int = _INT64_MAX

    @property
    def has_times(self) -> bool:
        return self.first_timestamp != _INT64_MIN or self.last_timestamp != _INT64_MAX


class Aborted(NamedTuple):
    """An aborted transaction: the batches of `producer_id` from `first_offset` up to its marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


class BatchFault(Exception):
    """A batch that cannot be read: the number of its row, and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns, in this order."""
    return pa.schema([SCHEMA.field(name) for name in columns])


def data_rows(rows: Numbers, bounds: Bounds, aborted: Sequence[Aborted] | None) -> Numbers:
    """Returns which of the batches have records of a scan. `aborted`: of read_committed; None reads uncommitted ones."""
    attributes, base = rows[:, layout.ATTRIBUTES], rows[:, layout.BASE_OFFSET]
    last = base + rows[:, layout.LAST_DELTA]
    wanted = (attributes & CONTROL_FLAG == 0) & (rows[:, layout.COUNT] > 0)
    wanted &= (last >= bounds.first_offset) & (base <= bounds.last_offset)
    if bounds.first_timestamp != _INT64_MIN:
        wanted &= rows[:, layout.MAX_TIMESTAMP] >= bounds.first_timestamp
    if aborted and len(rows):
        lowest, highest = int(base[0]), int(last[-1])
        transactional = attributes & TRANSACTIONAL_FLAG != 0
        for one in aborted:
            if one.first_offset <= highest and one.last_offset >= lowest:
                inside = (base >= one.first_offset) & (base <= one.last_offset)
                wanted &= ~(transactional & inside & (rows[:, layout.PRODUCER_ID] == one.producer_id))
    return wanted


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

    # ---- decompression

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

    # ---- records

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
            buffers = _Buffers(int(counts.sum()), int((stops - starts).sum()), self._wanted)
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

    def _record_batch(self, buffers: _Buffers) -> pa.RecordBatch:
        rows = buffers.rows
        arrays = [
            _constant(self._topic, rows)
            if name == "topic"
            else numbers(np.full(rows, self._partition, np.int32), pa.int32())
            if name == "partition"
            else buffers.array(name)
            for name in self._columns
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def numbers(values: Numbers, kind: pa.DataType, nulls: Numbers | None = None) -> pa.Array:
    """An array over the memory of numbers. pa.array() imports pandas, which takes half a second and more."""
    bits = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def scalar(number: int, kind: pa.DataType) -> pa.Scalar:
    """A number as Arrow's functions take it: one of Python, and pa.scalar(), import pandas, too."""
    return numbers(np.array([number], np.int64), pa.int64()).cast(kind)[0]


def _constant(text: str, rows: int) -> pa.Array:
    encoded = text.encode()
    ends = np.arange(0, (rows + 1) * len(encoded), len(encoded), dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(encoded * rows))


class _Buffers:
    """Buffers of Arrow columns for at most `capacity` rows from at most `payload_bytes`."""

    def __init__(self, capacity: int, payload_bytes: int, wanted: int) -> None:
        self._wanted = wanted
        self._offsets, self._timestamps = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        self._types = np.empty(capacity, np.int32)
        self._key_bytes = _bytes(payload_bytes if wanted & layout.KEYS else 0)
        self._value_bytes = _bytes(payload_bytes if wanted & layout.VALUES else 0)
        with_keys, with_values = (capacity if wanted & bit else 0 for bit in (layout.KEYS, layout.VALUES))
        self._key_ends, self._key_validity = _ends(with_keys), _bits(with_keys)
        self._value_ends, self._value_validity = _ends(with_values), _bits(with_values)
        # A header takes at least two bytes.
        has_headers = bool(wanted & layout.HEADERS)
        pairs = payload_bytes // 2 if has_headers else 0
        self._header_ends = _ends(capacity if has_headers else 0)
        self._pair_ends = np.empty((pairs + 1, 2), np.int32)
        self._pair_ends[0] = 0
        self._pair_validity = _bits(pairs)
        self._pair_keys = _bytes(payload_bytes if has_headers else 0)
        self._pair_values = _bytes(payload_bytes if has_headers else 0)
        self._totals = np.zeros(layout.TOTALS, np.int64)

    @property
    def rows(self) -> int:
        return int(self._totals[layout.ROWS])

    def fill(self, data: Numbers, batches: Numbers, faults: Numbers, bounds: Numbers) -> None:
        kernel.decode_records(
            data, batches, faults, bounds, self._wanted, self._offsets, self._timestamps, self._types,
            self._key_ends, self._key_validity, _writable(self._key_bytes),
            self._value_ends, self._value_validity, _writable(self._value_bytes),
            self._header_ends, self._pair_ends, self._pair_validity,
            _writable(self._pair_keys), _writable(self._pair_values), self._totals,
        )  # fmt: skip

    def array(self, name: str) -> pa.Array:
        rows, totals = self.rows, self._totals
        if name == "offset":
            return numbers(self._offsets[:rows], pa.int64())
        if name == "timestamp":
            stamps = self._timestamps[:rows]
            missing = stamps == NO_TIMESTAMP
            return numbers(stamps, pa.timestamp("ms", tz="UTC"), missing if missing.any() else None)
        if name == "timestamp_type":
            return numbers(self._types[:rows], pa.int32())
        if name == "key":
            size, nulls = int(totals[layout.KEY_BYTES]), int(totals[layout.NULL_KEYS])
            return _binary(self._key_ends[: rows + 1], self._key_bytes, size, self._key_validity, nulls)
        if name == "value":
            size, nulls = int(totals[layout.VALUE_BYTES]), int(totals[layout.NULL_VALUES])
            return _binary(self._value_ends[: rows + 1], self._value_bytes, size, self._value_validity, nulls)
        return self._headers()

    def _headers(self) -> pa.Array:
        totals, rows = self._totals, self.rows
        pairs = int(totals[layout.HEADER_ROWS])
        key_ends, value_ends = (np.ascontiguousarray(self._pair_ends[: pairs + 1, one]) for one in (0, 1))
        keys = _binary(key_ends, self._pair_keys, int(totals[layout.HEADER_KEY_BYTES]), None, 0)
        values = _binary(value_ends, self._pair_values, int(totals[layout.HEADER_VALUE_BYTES]), self._pair_validity, -1)
        fields = [HEADERS_TYPE.value_type.field(0), HEADERS_TYPE.value_type.field(1)]
        structs = pa.StructArray.from_arrays([_texts(keys), values], fields=fields)
        ends = pa.py_buffer(self._header_ends[: rows + 1])
        return pa.ListArray.from_buffers(HEADERS_TYPE, rows, [None, ends], 0, 0, [structs])


def _texts(keys: pa.Array) -> pa.Array:
    """Header keys as text. Java's clients decode bytes that are not UTF-8 with replacements, and so does this."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _bytes(size: int) -> pa.Buffer:
    # Arrow's pool keeps pages that the system would hand out zeroed again for each buffer of this size.
    return pa.allocate_buffer(size, resizable=True)


def _writable(buffer: pa.Buffer) -> Numbers:
    return np.frombuffer(buffer, np.uint8) if buffer.size else np.empty(0, np.uint8)


def _ends(rows: int) -> Numbers:
    made = np.empty(rows + 1, np.int32)
    made[0] = 0
    return made


def _bits(rows: int) -> Numbers:
    return np.empty((rows + 7) // 8, np.uint8)


def _binary(ends: Numbers, data: pa.Buffer, size: int, validity: Numbers | None, nulls: int) -> pa.Array:
    bits = pa.py_buffer(validity) if validity is not None and nulls else None
    if size < data.size:
        data.resize(size, shrink_to_fit=True)
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, [bits, pa.py_buffer(ends), data], nulls)


def count_rows(rows: Numbers, wanted: Numbers) -> int:
    return int(rows[wanted, layout.COUNT].sum())
