"""Reads the original records of dead-letter records again, from the log where they still exist. Runs on a thread."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...coordinator.dead_letters import Content, Contents
from ...protocol.records.batch import iter_headers
from ...protocol.records.errors import CorruptBatch
from ...protocol.records.record import decode_batch
from ...storage.log.log import OffsetOutOfRange

if TYPE_CHECKING:
    from ...protocol.records.record import Record
    from ...storage.log.log import Log

log = logging.getLogger("odradek.groups")

#: As in Kafka: most dead-letter records are for one record.
MOST_READ_BYTES = 1 << 20


def read_contents(log: Log, first: int, last: int, high_watermark: int, max_bytes: int) -> Contents:
    """Reads keys and values from `first` to `last`, or as many as fit in `max_bytes` (of the queue's own batches)
    together.

    A transaction marker has both, as in Kafka. Records that are too large when decompressed, or deleted by now, are
    left out. Raises OSError and BatchError.
    """
    return _contents(_records(log, first, last, high_watermark, max_bytes), last, max_bytes)


def contents_in(data: memoryview | bytes, first: int, last: int, max_bytes: int) -> Contents:
    """Returns the same of batches that the remote store returned. Raises BatchError."""
    return _contents(_records_in(data, first, last, max_bytes), last, max_bytes)


def _contents(records: Iterable[Record], last: int, max_bytes: int) -> Contents:
    found: dict[int, Content] = {}
    size = 0
    for record in records:
        record_bytes = len(record.key or b"") + len(record.value or b"")
        if record_bytes > max_bytes:
            continue
        size += record_bytes
        if size > max_bytes:
            return Contents(found, record.offset - 1)
        found[record.offset] = Content(record.key, record.value)
    return Contents(found, last)


def _records(log: Log, first: int, last: int, high_watermark: int, max_bytes: int) -> Iterator[Record]:
    while first <= last:
        try:
            read = log.read(first, MOST_READ_BYTES, high_watermark)
        except OffsetOutOfRange:
            return
        data = read.bytes()
        if not data:
            return
        yield from _records_in(data, first, last, max_bytes)
        first = max(first + 1, read.next_offset)


def _records_in(data: memoryview | bytes, first: int, last: int, max_bytes: int) -> Iterator[Record]:
    for position, header in iter_headers(data):
        if header.base_offset <= last:
            try:
                records = decode_batch(data, position, header, max_bytes)
            except CorruptBatch:
                continue
            yield from (record for record in records if first <= record.offset <= last)
