"""The repair of `__remote_log_metadata` in a running cluster.

A record that is no event is in the log of its partition for good, since the topic is not compacted. The repair writes the
state of the partition anew, behind it, and deletes what is before. Nodes that read on know that state already, and change
nothing; nodes that start read the new records only. An event that a node writes meanwhile is written once more behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..admin.connection import Connection
from ..admin.topic_changes import delete_records
from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library_at
from ..client.user_errors import UserError
from ..tiers.events import DamagedMetadata, decode_event, encode_event
from ..tiers.metadata_topic import Followed, MetadataPartition
from ..tiers.segment_metadata import (
    COPY_SEGMENT_STARTED,
    DELETE_PARTITION_FINISHED,
    METADATA_TOPIC,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from .tier_metadata import RemoteMetadata, read_range

#: Brokers let nodes write to the topic, by their client ids (`odradek.remote.log.metadata.client.ids`).
_CLIENT_ID = "__remote_log_metadata_client_repair"
#: Events of nodes between the state that was read and its copy are copied, too: so often, and then the command gives up.
_MOST_ROUNDS = 10


def repair_metadata(connection: Connection, metadata: RemoteMetadata) -> None:
    """Writes the partitions with damaged records anew, and deletes what they had before. Raises UserError."""
    metadata.read()
    with connection.admin() as admin:
        for number in metadata.damaged_partitions():
            end = metadata.next_offset(number)
            written = _write(connection, number, list(_state(metadata.partition(number))))
            _copy_later_events(connection, number, end, written)
            delete_records(admin, {(METADATA_TOPIC, number): end})


def _state(state: MetadataPartition) -> Iterator[bytes]:
    """Returns the events that lead to the state of a metadata partition."""
    for partition, followed in state.followed.items():
        yield from _events_of(partition, followed)


def _events_of(partition: TopicIdPartition, followed: Followed) -> Iterator[bytes]:
    for segment in followed.cache.segments():  # in the order of their last events
        yield encode_event(segment._replace(state=COPY_SEGMENT_STARTED, custom_metadata=None))
        if segment.state is not COPY_SEGMENT_STARTED:
            yield encode_event(
                RemoteLogSegmentMetadataUpdate(
                    partition, segment.segment_id, segment.broker_id, segment.event_timestamp_ms, segment.state,
                    segment.custom_metadata,
                )
            )  # fmt: skip
    last = followed.delete_state
    if last is not None and last is not DELETE_PARTITION_FINISHED:
        for state in RemotePartitionDeleteState:
            if state <= last:
                yield encode_event(RemotePartitionDeleteMetadata(partition, -1, int(time.time() * 1000), state))


def _copy_later_events(connection: Connection, number: int, end: int, written: set[int]) -> None:
    """Writes again what nodes have written to a metadata partition from `end` on, among the records of `written`."""
    for _ in range(_MOST_ROUNDS):
        last = max(written, default=end - 1)
        found = read_range(connection, number, end, last + 1)
        others = [value for offset, value in found if offset not in written and _is_event(value)]
        if not others:
            return
        end, written = last + 1, _write(connection, number, others)
    raise UserError(f"{METADATA_TOPIC}-{number}: nodes write too often now; try again")


def _is_event(value: bytes) -> bool:
    try:
        decode_event(value)
    except DamagedMetadata:
        return False
    return True


def _write(connection: Connection, number: int, values: list[bytes]) -> set[int]:
    """Writes records to a metadata partition. Returns their offsets. Raises UserError."""
    from confluent_kafka import KafkaException, Producer

    settings = {"client.id": _CLIENT_ID, "acks": "all", "enable.idempotence": True}
    offsets: set[int] = set()
    failures: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)
        else:
            offsets.add(message.offset())  # type: ignore[attr-defined]

    producer = Producer({**connection.librdkafka(), **settings})
    try:
        for value in values:
            while True:
                try:
                    producer.produce(METADATA_TOPIC, value, partition=number, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(connection.timeout_s)
    except KafkaException as error:
        raise from_library_at(error, connection.bootstrap) or error from None
    if left or failures:
        raise UserError(
            f"{METADATA_TOPIC}-{number}: {failures[0] if failures else 'no response'}", ErrorKind.UNREACHABLE
        )
    return offsets
