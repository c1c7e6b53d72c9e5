"""librdkafka as the reference client: the records that a reader of an isolation level gets, during faults and after them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, TopicPartition

from .copier import CLIENT
from .reference_log import Records

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_DEADLINE_S = 60

#: partition -> offset -> value
Seen = dict[int, Records]


def _reader(bootstrap: str, topic: str, partitions: int, isolation: str) -> Consumer:
    reader = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "reference",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return reader


def read_all(bootstrap: str, topic: str, partitions: int, isolation: str) -> Seen:
    """Reads each partition from its first record up to its end."""
    seen: Seen = {index: {} for index in range(partitions)}
    reader, ended = _reader(bootstrap, topic, partitions, isolation), set()
    give_up = time.monotonic() + _DEADLINE_S
    while len(ended) < partitions:
        assert time.monotonic() < give_up, f"{topic} has no end within {_DEADLINE_S} s: {ended} of {partitions} ended"
        for message in reader.consume(1_000, 0.2):
            error = message.error()
            if error is None:
                seen[message.partition()][message.offset()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    reader.close()
    return seen


class Follower:
    """A read_committed reader that follows a topic through every fault."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.seen: Seen = {index: {} for index in range(partitions)}
        #: Violations: an offset twice or out of order, an error that is not temporary.
        self.complaints: list[str] = []
        self._reader = _reader(bootstrap, topic, partitions, READ_COMMITTED)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def count(self) -> int:
        return sum(len(records) for records in self.seen.values())

    def wait_for(self, holds: Callable[[], bool], deadline_s: float) -> bool:
        give_up = time.monotonic() + deadline_s
        while not holds() and time.monotonic() < give_up:
            time.sleep(0.1)
        return holds()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(_DEADLINE_S)
        self._reader.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            for message in self._reader.consume(1_000, 0.2):
                error = message.error()
                if error is None:
                    self._take(message.partition(), message.offset(), message.value())
                elif error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.complaints.append(str(error))

    def _take(self, partition: int, offset: int, value: bytes) -> None:
        records = self.seen[partition]
        if records and offset <= next(reversed(records)):
            self.complaints.append(f"offset {offset} of partition {partition} after {next(reversed(records))}")
        records[offset] = value
