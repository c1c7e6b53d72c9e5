"""The reference client of the tests: librdkafka in this process fills topics and reads what tools left there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from .running import DEADLINE_S

_REQUEST_S = 30
_POLL_S = 0.2


@dataclass(frozen=True)
class Record:
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> str:
    """Creates a topic, waits until the metadata has it, and returns its name. `_` stands for `.` in configs."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(_REQUEST_S)
    await_topic(bootstrap, topic, partitions)
    return topic


def await_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Waits until the metadata has a topic with so many partitions; 0 means that the topic is absent."""
    until = time.monotonic() + DEADLINE_S
    while len(partitions_of(bootstrap, topic)) != partitions:
        assert time.monotonic() < until, f"{topic} does not have {partitions} partitions"
        time.sleep(_POLL_S)


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_REQUEST_S).topics)


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """Returns the partitions of a topic; none when it is absent."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Lists all topics: a request for one by name creates it where auto.create.topics.enable is on.
    found = admin.list_topics(timeout=_REQUEST_S).topics.get(topic)
    return sorted(found.partitions) if found is not None and found.error is None else []


def produce(bootstrap: str, topic: str, values: Iterable[str], keys: Iterable[str] | None = None) -> None:
    """Writes values in order; without keys, to all partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
    failed: list[object] = []
    rows = zip(values, keys) if keys is not None else ((value, None) for value in values)
    for value, key in rows:
        producer.produce(topic, value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert not failed, failed[:3]


def records(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Record]:
    """Returns every record of a topic up to its current end, by partition and offset."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reference", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": isolation, "enable.partition.eof": True})
    try:
        waiting = set(partitions_of(bootstrap, topic))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in waiting])
        found: list[Record] = []
        until = time.monotonic() + DEADLINE_S
        while waiting:
            assert time.monotonic() < until, f"{topic}: partitions {sorted(waiting)} have no end"
            for message in consumer.consume(10_000, timeout=0.2):
                if message.error() is None:
                    found.append(_record(message))
                elif message.error().name() == "_PARTITION_EOF":
                    waiting.discard(message.partition())
                else:
                    raise AssertionError(f"{topic}: {message.error()}")
        return sorted(found, key=lambda one: (one.partition, one.offset))
    finally:
        consumer.close()


def values(bootstrap: str, topic: str) -> list[str]:
    """Returns the values of all committed records."""
    return [one.value or "" for one in records(bootstrap, topic)]


def await_records(bootstrap: str, topic: str, count: int, deadline_s: float = DEADLINE_S) -> list[Record]:
    """Waits until a topic has at least so many committed records, and returns all."""
    until = time.monotonic() + deadline_s
    while len(found := records(bootstrap, topic)) < count:
        assert time.monotonic() < until, f"{topic} has {len(found)} records of {count}"
        time.sleep(_POLL_S)
    return found


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Returns the committed offsets of a group, by topic and partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=_REQUEST_S)
    found = futures[group].result(_REQUEST_S).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def await_committed(
    bootstrap: str, group: str, total: int, deadline_s: float = DEADLINE_S
) -> dict[tuple[str, int], int]:
    """Waits until the committed offsets of a group add up to at least `total`."""
    until = time.monotonic() + deadline_s
    while sum((found := committed(bootstrap, group)).values()) < total:
        assert time.monotonic() < until, f"{group} has committed {found}, not {total} in all"
        time.sleep(_POLL_S)
    return found


def _record(message: Message) -> Record:
    key, value = message.key(), message.value()
    return Record(
        message.partition(),
        message.offset(),
        key.decode() if key is not None else None,
        value.decode() if value is not None else None,
        tuple(message.headers() or ()),
        message.timestamp()[1],
    )
