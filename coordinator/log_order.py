"""The order of a log as one loading meets it: batches follow each other, and records ascend within their batch.

Brokers write no other log, and a log is verified after an unclean stop only, so a file may have any. A batch out of order is
damage, which another replica may heal. A record out of order is skipped, as one that cannot be used is: its batch has the
right CRC on every replica.
"""

from __future__ import annotations

from ..protocol.buffer import Buffer
from ..protocol.records.batch import BatchHeader
from ..protocol.records.errors import CorruptBatch
from ..protocol.records.record import Record, decode_batch
from .skipped_records import SkippedRecords


class LogOrder:
    def __init__(self, skipped: SkippedRecords) -> None:
        self._skipped = skipped
        self._next_offset = 0

    def follow(self, header: BatchHeader) -> None:
        """Takes note of the next batch. Raises CorruptBatch for one that does not follow the last one."""
        if not self._next_offset <= header.base_offset < header.next_offset:
            raise CorruptBatch(
                f"a batch of the offsets from {header.base_offset} to {header.last_offset} is out of order: "
                f"the next offset of the log is {self._next_offset}"
            )
        self._next_offset = header.next_offset

    def records(self, batches: Buffer, position: int, header: BatchHeader) -> list[Record]:
        """Returns the records of a batch whose offsets ascend within the batch's. Raises as `decode_batch` does."""
        records = decode_batch(batches, position, header)
        least, last = header.base_offset, header.last_offset
        for record in records:
            if not least <= record.offset <= last:
                return self._without_misplaced(records, header)
            least = record.offset + 1
        return records

    def _without_misplaced(self, records: list[Record], header: BatchHeader) -> list[Record]:
        ascending: list[Record] = []
        least = header.base_offset
        for record in records:
            if least <= record.offset <= header.last_offset:
                ascending.append(record)
                least = record.offset + 1
            else:
                self._skipped.misplaced(record.offset, header.base_offset)
        return ascending
