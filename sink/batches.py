"""Record batches of one topic, one after another for each partition, from rows of Arrow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..protocol.records import batch as layout
from ..protocol.records.compression import Compression, compress
from . import rows as loops
from .columns import InvalidRows, Rows
from .rows import Numbers

#: Bytes of all payloads that are not whole yet: with many partitions each has less than its size.
MOST_OPEN_BYTES, LEAST_PAYLOAD_BYTES = 32 << 20, 16 << 10
#: Sequences of a producer start again at 0 after this one (KIP-98).
_MOST_SEQUENCE = 0x7FFFFFFF


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
    """A batch as Produce takes it."""

    topic: str
    partition: int
    records: int
    content: bytes


class TopicBatches:
    """Batches of a topic. A payload is open until it is full, or `finish` is called."""

    def __init__(self, topic: str, partitions: int, producer: Producer) -> None:
        self.topic = topic
        self._count = partitions
        self._producer = producer
        self._open: dict[int, _Payload] = {}
        self._sequences: dict[int, int] = {}
        self._payload_bytes = max(LEAST_PAYLOAD_BYTES, min(producer.payload_bytes, MOST_OPEN_BYTES // partitions))

    def add(self, rows: Rows, now_ms: int, chosen: Numbers | None = None) -> Iterator[Batch]:
        """Takes rows, all or those of `chosen` (numbers of rows). Yields batches that are full. Raises InvalidRows."""
        numbers = np.arange(rows.count, dtype=np.int32) if chosen is None else chosen
        if not len(numbers):
            return
        partitions = self._partitions(rows)[numbers]
        order = np.argsort(partitions, kind="stable")
        sorted_partitions, sorted_rows = partitions[order], np.ascontiguousarray(numbers[order], dtype=np.int32)
        ends = np.flatnonzero(np.diff(sorted_partitions)) + 1
        for part in np.split(sorted_rows, ends):
            yield from self._append(int(partitions[np.searchsorted(numbers, part[0])]), rows, part, now_ms)

    def finish(self) -> Iterator[Batch]:
        """Yields the batches that are open."""
        for partition in sorted(self._open):
            yield self._sealed(partition)

    def _append(self, partition: int, rows: Rows, part: Numbers, now_ms: int) -> Iterator[Batch]:
        at = 0
        while at < len(part):
            payload = self._open.get(partition)
            if payload is None:
                base = now_ms if rows.columns[0] is None else int(rows.columns[0][part[at]])
                payload = self._open[partition] = _Payload(self._payload_bytes, base)
            count, needed = payload.append(rows, part, at)
            at += count
            if not needed:
                continue
            if payload.records:
                yield self._sealed(partition)
            else:
                payload.grow(needed)

    def _sealed(self, partition: int) -> Batch:
        payload = self._open.pop(partition)
        producer, sequence = self._producer, self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + payload.records) & _MOST_SEQUENCE
        content = compress(producer.compression, memoryview(payload.out)[: payload.size], producer.level)
        fields = (
            0, layout.HEADER_BYTES - layout.LOG_OVERHEAD + len(content), layout.NO_LEADER_EPOCH, layout.MAGIC, 0,
            producer.compression | layout.TRANSACTIONAL_FLAG, payload.records - 1, payload.base_timestamp,
            payload.max_timestamp, producer.id, producer.epoch, sequence, payload.records,
        )  # fmt: skip
        return Batch(self.topic, partition, payload.records, layout.sealed(fields, content))

    def _partitions(self, rows: Rows) -> Numbers:
        """The partition of each row: that of its column, else by its key, else one for all rows without a key."""
        found = np.empty(rows.count, dtype=np.int32)
        loops.partitions_of_keys(found, rows.keys, self._count, self._producer.partitioner)
        if rows.partitions is not None:
            found = np.where(rows.partitions < 0, found, rows.partitions)
        found[found == loops.NO_PARTITION] = random.randrange(self._count)
        if rows.count and int(found.max()) >= self._count:
            raise InvalidRows(
                f"a row has the partition {int(found.max())}, and the topic {self.topic} has {self._count}, from 0 on"
            )
        return found


class _Payload:
    """Records of a batch that is not whole yet."""

    def __init__(self, room: int, base_timestamp: int) -> None:
        self.out = bytearray(room)
        self.size = self.records = 0
        self.base_timestamp = base_timestamp
        self.max_timestamp = base_timestamp

    def append(self, rows: Rows, part: Numbers, first: int) -> tuple[int, int]:
        """Returns how many rows of the part were appended, and the bytes that the next one needs: 0 after the last."""
        count, self.size, needed, newest = loops.encode_rows(
            self.out, self.size, self.records, part, first, self.base_timestamp, rows.columns
        )
        if count:
            self.max_timestamp = newest if not self.records else max(self.max_timestamp, newest)
        self.records += count
        return count, needed

    def grow(self, room: int) -> None:
        """For a record that is larger than a payload."""
        self.out = bytearray(room)
