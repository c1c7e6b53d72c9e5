"""Record batches of the topics of a task, one after another for each partition, from rows of Arrow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..admin.places import Place
from ..protocol.buffer import Buffer
from ..protocol.records import batch as layout
from ..protocol.records.compression import Compression, compress
from ..protocol.records.record import decode_batch, encode_batch
from . import rows as loops
from .columns import InvalidRows, Rows
from .rows import Numbers

#: Bytes of all payloads of a task that are not whole yet. With many partitions each has less than its size, and with very
#: many the oldest one is sealed before a further one is begun.
MOST_OPEN_BYTES, LEAST_PAYLOAD_BYTES = 32 << 20, 16 << 10
#: The type of partitions for which numpy sorts by digits, in a quarter of the time.
_SORTED_FAST = np.int16
_MOST_SORTED_FAST = 1 << 15


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of a transaction, and how its batches are made. `payload_bytes`: of a batch, uncompressed."""

    id: int
    epoch: int
    compression: Compression = Compression.NONE
    level: int | None = None
    payload_bytes: int = 512 << 10
    partitioner: int = loops.JAVA


class Batch(NamedTuple):
    """A batch as Produce takes it. Its content is sent from the memory in which it was encoded."""

    topic: str
    partition: int
    records: int
    content: Buffer

    def halves(self) -> tuple[Batch, Batch]:
        """The same records, at least two, as two batches with the sequences of this one."""
        header = layout.read_header(self.content)
        records = decode_batch(self.content, header=header)
        middle = len(records) // 2
        for index, record in enumerate(records[middle:]):
            record.offset = index  # brokers take batches that begin at 0
        sequence = (header.base_sequence + middle) & layout.MAX_SEQUENCE
        parts = ((records[:middle], header.base_sequence), (records[middle:], sequence))
        first, second = (
            encode_batch(
                part,
                compression=header.compression,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=base,
                transactional=True,
            )
            for part, base in parts
        )
        rest = self.records - middle
        return self._replace(records=middle, content=first), self._replace(records=rest, content=second)


class Batches:
    """Batches of all topics. A payload is open until it is full, until others need its memory, or until `finish`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        #: Partitions of the topics that rows were added for.
        self._counts: dict[str, int] = {}
        #: The oldest one first.
        self._open: dict[Place, _Payload] = {}
        self._open_bytes = 0
        self._sequences: dict[Place, int] = {}

    @property
    def open_bytes(self) -> int:
        """Memory of the payloads that are open."""
        return self._open_bytes

    def add(
        self, topic: str, partitions: int, rows: Rows, now_ms: int, chosen: Numbers | None = None
    ) -> Iterator[Batch]:
        """Takes rows for a topic of so many partitions: all, or those of `chosen` (numbers of rows, ascending).

        Yields batches that are full. Raises InvalidRows.
        """
        numbers = np.arange(rows.count, dtype=np.int32) if chosen is None else chosen
        if not len(numbers):
            return
        self._counts[topic] = partitions
        found = self._partitions(topic, rows, numbers)
        order = np.argsort(found.astype(_SORTED_FAST) if partitions <= _MOST_SORTED_FAST else found, kind="stable")
        sorted_partitions, sorted_rows = found[order], np.ascontiguousarray(numbers[order], dtype=np.int32)
        starts = np.flatnonzero(np.diff(sorted_partitions, prepend=-1))
        for partition, part in zip(sorted_partitions[starts], np.split(sorted_rows, starts[1:]), strict=True):
            yield from self._append((topic, int(partition)), rows, part, now_ms)

    def finish(self) -> Iterator[Batch]:
        """Yields the batches that are open."""
        for place in sorted(self._open):
            yield self._sealed(place)

    def _append(self, place: Place, rows: Rows, part: Numbers, now_ms: int) -> Iterator[Batch]:
        at = needed = 0
        while at < len(part):
            payload = self._open.get(place)
            if payload is None:
                room = max(needed, self._room())
                yield from self._released(room)
                base = now_ms if rows.columns[0] is None else int(rows.columns[0][part[at]])
                payload = self._open[place] = _Payload(room, base)
                self._open_bytes += room
            count, needed = payload.append(rows, part, at)
            at += count
            if not needed:
                continue
            if payload.records:
                yield self._sealed(place)
            else:  # a record that is larger than a payload
                self._close(place)

    def _room(self) -> int:
        """Bytes of a new payload."""
        share = MOST_OPEN_BYTES // sum(self._counts.values())
        return max(LEAST_PAYLOAD_BYTES, min(self._producer.payload_bytes, share))

    def _released(self, room: int) -> Iterator[Batch]:
        """Yields the oldest batches, until so many bytes may be open besides the others."""
        while self._open and self._open_bytes + room > MOST_OPEN_BYTES:
            yield self._sealed(next(iter(self._open)))

    def _close(self, place: Place) -> _Payload:
        payload = self._open.pop(place)
        self._open_bytes -= len(payload.out)
        return payload

    def _sealed(self, place: Place) -> Batch:
        payload = self._close(place)
        producer, sequence = self._producer, self._sequences.get(place, 0)
        self._sequences[place] = (sequence + payload.records) & layout.MAX_SEQUENCE
        content = compress(producer.compression, payload.content, producer.level)
        fields = (
            0, layout.HEADER_BYTES - layout.LOG_OVERHEAD + len(content), layout.NO_LEADER_EPOCH, layout.MAGIC, 0,
            producer.compression | layout.TRANSACTIONAL_FLAG, payload.records - 1, payload.base_timestamp,
            payload.max_timestamp, producer.id, producer.epoch, sequence, payload.records,
        )  # fmt: skip
        whole = layout.sealed(fields, content) if producer.compression else payload.sealed(fields)
        return Batch(*place, payload.records, whole)

    def _partitions(self, topic: str, rows: Rows, numbers: Numbers) -> Numbers:
        """The partition of each of the rows: that of its column, else by its key, else one for all without a key."""
        count = self._counts[topic]
        by_key = np.empty(rows.count, dtype=np.int32)
        loops.partitions_of_keys(by_key, rows.keys, count, self._producer.partitioner)
        found = by_key[numbers]
        if rows.partitions is not None:
            given = rows.partitions[numbers]
            found = np.where(given == loops.NO_PARTITION, found, given)
        found[found == loops.NO_PARTITION] = random.randrange(count)
        if (largest := int(found.max())) >= count:
            raise InvalidRows(f"a row has the partition {largest}, and the topic {topic} has {count}, from 0 on")
        return found


class _Payload:
    """Records of a batch that is not whole yet, after the room of its header."""

    def __init__(self, room: int, base_timestamp: int) -> None:
        # Of a new bytearray each page is written twice, first with zeros.
        self._whole = np.empty(layout.HEADER_BYTES + room, dtype=np.uint8).data.cast("B")
        self.out = self._whole[layout.HEADER_BYTES :]
        self.size = self.records = 0
        self.base_timestamp = base_timestamp
        self.max_timestamp = base_timestamp

    @property
    def content(self) -> memoryview:
        return self.out[: self.size]

    def sealed(self, header: tuple[int, ...]) -> Buffer:
        """The batch with this header, without a copy where most of the memory is in use: a batch that waits keeps all."""
        size = layout.HEADER_BYTES + self.size
        layout.write_header(self._whole, 0, header)
        layout.seal(self._whole, 0, size)
        whole = self._whole[:size]
        return whole if 2 * size > len(self._whole) else bytes(whole)

    def append(self, rows: Rows, part: Numbers, first: int) -> tuple[int, int]:
        """Returns how many rows of the part were appended, and the bytes that the next one needs: 0 after the last."""
        count, self.size, needed, newest = loops.encode_rows(
            self.out, self.size, self.records, part, first, self.base_timestamp, rows.columns
        )
        if count:
            self.max_timestamp = newest if not self.records else max(self.max_timestamp, newest)
        self.records += count
        return count, needed
