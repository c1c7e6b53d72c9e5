"""Records that viewers send, by the form of the messages page or from a dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind, kind_of_code
from ...client.user_errors import UserError
from ...client.wording import counted
from .topic_names import check_topic_name

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from ...records.consumed import ConsumedRecord, ProducedHeaders


@dataclass(slots=True)
class Outgoing:
    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: ProducedHeaders = field(default_factory=list)


def send(connection: Connection, records: Iterable[Outgoing]) -> list[tuple[str, int, int]]:
    """Sends records and waits. Returns topic, partition and offset of each; raises UserError for the first failure."""
    from confluent_kafka import Producer

    records = list(records)
    for one in records:
        check_topic_name(one.topic)
    producer = Producer({"partitioner": "murmur2_random", "enable.idempotence": True} | connection.librdkafka())
    _check_leaders(producer, connection, records)
    places: list[tuple[str, int, int]] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            record = cast("ConsumedRecord", message)
            places.append((record.topic(), record.partition(), record.offset()))

    for one in records:
        producer.produce(
            one.topic, one.value, one.key, one.partition, headers=one.headers or None, on_delivery=delivered
        )
        producer.poll(0)
    left = producer.flush(connection.timeout_s)
    if failed:
        raise UserError(f"{failed[0].str()}; written: {counted(len(places), 'record')}", kind_of_code(failed[0].code()))
    if left:
        raise UserError(
            f"not acknowledged: {counted(left, 'record')} within {connection.timeout_s:g} s; they may or may not be written"
        )
    return places


def _check_leaders(producer: Producer, connection: Connection, records: list[Outgoing]) -> None:
    """Raises UserError for a partition that was chosen and has no leader: its record would only wait."""
    for topic, partition in sorted({(one.topic, one.partition) for one in records if one.partition >= 0}):
        found = producer.list_topics(topic, timeout=connection.timeout_s).topics[topic].partitions.get(partition)
        if found is not None and found.leader < 0:
            replicas = ", ".join(map(str, found.replicas))
            raise UserError(
                f"{topic}-{partition} has no leader, and nothing was written: start one of the brokers {replicas}",
                ErrorKind.UNREACHABLE,
            )
