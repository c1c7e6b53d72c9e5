"""The records of a topic, in the order of each partition, as the broker writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.record import Record

from ..batches import partition_count, read_batches


class TopicLog:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        #: Partition -> the next offset to read.
        self._read_to: dict[int, int] = defaultdict(int)

    def further(self) -> Iterator[tuple[BatchHeader, Record]]:
        """Yields the records since the last call, without markers."""
        for index in range(partition_count(self.bootstrap, self.topic)):
            for header, records in read_batches(self.bootstrap, self.topic, index, self._read_to[index]):
                self._read_to[index] = header.next_offset
                if not header.is_control:
                    yield from ((header, record) for record in records)
