"""The metadata of tiered storage of a running cluster, read from `__remote_log_metadata`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library_at
from ..client.groupless import GROUPLESS, of_partitions
from ..client.user_errors import UserError
from ..tiers.cache import RemoteLogMetadataCache
from ..tiers.events import DamagedMetadata, decode_event
from ..tiers.metadata_topic import MetadataPartition
from ..tiers.segment_metadata import METADATA_TOPIC, TopicIdPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

#: Records of one call of the consumer.
_AT_ONCE = 500
_POLL_S = 0.5


class RemoteMetadata:
    """All events so far, as caches by partition. `read` continues where the last one ended."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._partitions: dict[int, MetadataPartition] = {}
        self._next_offsets: dict[int, int] = {}

    def read(self) -> None:
        """Reads the topic up to its present end; a cluster without the topic has no events. Raises UserError."""
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer({**self._connection.librdkafka(), **GROUPLESS, "enable.partition.eof": False})
        try:
            self._read(consumer)
        except KafkaException as error:
            raise from_library_at(error, self._connection.bootstrap) or error from None
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        timeout_s = self._connection.timeout_s
        topic = consumer.list_topics(METADATA_TOPIC, timeout=timeout_s).topics[METADATA_TOPIC]
        ends: dict[int, int] = {}
        for number in topic.partitions:
            start, end = consumer.get_watermark_offsets(TopicPartition(METADATA_TOPIC, number), timeout=timeout_s)
            ends[number] = end
            self._next_offsets[number] = max(start, self._next_offsets.get(number, 0))
        unread = {number for number, end in ends.items() if self._next_offsets[number] < end}
        consumer.assign([TopicPartition(METADATA_TOPIC, number, self._next_offsets[number]) for number in unread])
        deadline = time.monotonic() + timeout_s
        while unread:
            for message in of_partitions(consumer.consume(_AT_ONCE, _POLL_S)):
                error, number, offset = message.error(), message.partition(), message.offset()
                if error is not None or number is None or offset is None:
                    raise UserError(f"{METADATA_TOPIC}: {error}", ErrorKind.UNREACHABLE)
                self._consume(number, offset, message.value(), ends[number])
                self._next_offsets[number] = offset + 1
                deadline = time.monotonic() + timeout_s
            # The last offsets of a partition may be control records, which no consumer gets.
            for one in consumer.position([TopicPartition(METADATA_TOPIC, number) for number in unread]):
                if one.offset >= ends[one.partition]:
                    unread.discard(one.partition)
            if unread and time.monotonic() > deadline:
                raise UserError(f"{METADATA_TOPIC}: no record came for {timeout_s:g} s", ErrorKind.UNREACHABLE)

    def _consume(self, number: int, offset: int, value: bytes | None, end: int) -> None:
        state = self._partitions.setdefault(number, MetadataPartition(number))
        try:
            partition = decode_event(value or b"").partition
        except DamagedMetadata:
            pass  # counted by `consume`
        else:
            state.follow(partition, end)
        state.consume(offset, value)

    def caches(self) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
        return {
            partition: followed.cache
            for state in self._partitions.values()
            for partition, followed in state.followed.items()
        }

    def damaged_partitions(self) -> list[int]:
        return [number for number, state in sorted(self._partitions.items()) if state.damaged]

    def partition(self, number: int) -> MetadataPartition:
        return self._partitions[number]

    def next_offset(self, number: int) -> int:
        """Returns the offset up to which a metadata partition was read."""
        return self._next_offsets[number]

    def damaged(self) -> list[str]:
        """Returns a line for each record that cannot be read."""
        return [
            f"{METADATA_TOPIC}-{state.number}: the record at offset {one.offset} cannot be read: {one.reason}"
            for state in self._partitions.values()
            for one in state.damaged
        ]


def read_range(connection: Connection, number: int, first: int, end: int) -> list[tuple[int, bytes]]:
    """Returns offset and value of the records from `first` up to before `end`. Raises UserError."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**connection.librdkafka(), **GROUPLESS, "auto.offset.reset": "error"})
    found: list[tuple[int, bytes]] = []
    try:
        consumer.assign([TopicPartition(METADATA_TOPIC, number, first)])
        deadline = time.monotonic() + connection.timeout_s
        while not found or found[-1][0] < end - 1:
            if first >= end:
                break
            for message in of_partitions(consumer.consume(_AT_ONCE, _POLL_S)):
                if message.error() is not None:
                    raise UserError(f"{METADATA_TOPIC}-{number}: {message.error()}", ErrorKind.UNREACHABLE)
                found.append((message.offset() or 0, message.value() or b""))
            if time.monotonic() > deadline:
                raise UserError(f"{METADATA_TOPIC}-{number}: no record came", ErrorKind.UNREACHABLE)
    except KafkaException as error:
        raise from_library_at(error, connection.bootstrap) or error from None
    finally:
        consumer.close()
    return [one for one in found if one[0] < end]
