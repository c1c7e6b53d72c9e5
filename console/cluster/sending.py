"""Records that viewers send: by the form of the messages page, and back from a dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ...cli.client.connection import Connection
from ...cli.client.errors import UNREACHABLE, CommandError, status_of_code
from ...cli.records.reading import Reader
from ...cli.records.selection import Position, Selection

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from ...cli.records.consumed import ConsumedRecord, ProducedHeaders


#: Headers of dead-letter records, with where each came from.
ORIGIN = "__dlq.errors."
#: Records of one redrive.
MOST_REDRIVEN = 1000
_BATCH = 100


@dataclass(slots=True)
class Outgoing:
    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: ProducedHeaders = field(default_factory=list)


def send(connection: Connection, records: Iterable[Outgoing]) -> list[tuple[str, int, int]]:
    """Sends records and waits. Returns topic, partition and offset of each; raises CommandError for the first failure."""
    from confluent_kafka import Producer

    producer = Producer({"partitioner": "murmur2_random", "enable.idempotence": True} | connection.librdkafka())
    records = list(records)
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
        raise CommandError(f"{failed[0].str()}; {len(places)} records were written", status_of_code(failed[0].code()))
    if left:
        raise CommandError(
            f"{left} records were not acknowledged within {connection.timeout_s:g} s; they may or may not be written"
        )
    return places


def _check_leaders(producer: Producer, connection: Connection, records: list[Outgoing]) -> None:
    """Raises CommandError for a partition that was chosen and has no leader: its record would only wait."""
    for topic, partition in sorted({(one.topic, one.partition) for one in records if one.partition >= 0}):
        found = producer.list_topics(topic, timeout=connection.timeout_s).topics[topic].partitions.get(partition)
        if found is not None and found.leader < 0:
            replicas = ", ".join(map(str, found.replicas))
            raise CommandError(
                f"{topic}-{partition} has no leader, and nothing was written: start one of the brokers {replicas}",
                UNREACHABLE,
            )


def redrive(connection: Connection, queue: str, partition: int, first: int, count: int) -> int:
    """Sends dead-letter records to the topics that they came from. Returns how many; the queue keeps its records.

    A record without contents is read at its origin. Raises CommandError for one without an origin, or with a deleted one.
    """
    chosen = []
    for message in _read(connection, queue, partition, first, min(count, MOST_REDRIVEN)):
        origin = {
            name: (content or b"").decode() for name, content in message.headers() or () if name.startswith(ORIGIN)
        }
        topic = origin.get(f"{ORIGIN}topic")
        if topic is None:
            raise CommandError(
                f"{queue}-{partition}, offset {message.offset()}: the header {ORIGIN}topic, which names its "
                "origin, is missing"
            )
        key, value = message.key(), message.value()
        if key is None and value is None:
            place = (topic, int(origin[f"{ORIGIN}partition"]), int(origin[f"{ORIGIN}offset"]))
            found = _read(connection, *place, 1)
            if not found or found[0].offset() != place[2]:
                raise CommandError(f"{topic}-{place[1]}, offset {place[2]} is gone, and {queue} has no copy of it")
            key, value = found[0].key(), found[0].value()
        headers: ProducedHeaders = [
            (name, content) for name, content in message.headers() or () if not name.startswith("__dlq.")
        ]
        chosen.append(Outgoing(topic, value, key, -1, headers))
    return len(send(connection, chosen)) if chosen else 0


def _read(connection: Connection, topic: str, partition: int, first: int, count: int) -> list[ConsumedRecord]:
    reader = Reader(connection, Selection([topic], (partition,), Position(first), None))
    found: list[ConsumedRecord] = []
    try:
        reader.begin()
        for batch in reader.batches(min(count, _BATCH)):
            found += batch
            if len(found) >= count:
                break
    finally:
        reader.close()
    return found[:count]
