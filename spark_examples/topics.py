"""Topics beside Spark: creates a topic, and reads a compacted one as a table."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_S = 30


def ensure_topic(bootstrap: str, name: str, partitions: int, config: dict[str, str] | None = None) -> bool:
    """Creates the topic unless it exists. Returns whether it was missing."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=config or {})
    try:
        admin.create_topics([topic])[name].result(_TIMEOUT_S)
    except KafkaException as rejected:
        if rejected.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def ensure_table(bootstrap: str, name: str) -> bool:
    """Creates a topic for the last value of each key. Returns whether it was missing."""
    return ensure_topic(bootstrap, name, 1, {"cleanup.policy": "compact"})


def partition_counts(bootstrap: str) -> dict[str, int]:
    """Returns every topic with its number of partitions."""
    known = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=_TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in known.items()}


def read_topic(bootstrap: str, name: str) -> Iterator[Message]:
    """Yields every record from the first to the end, in offset order within each partition."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "spark-examples-reader",  # librdkafka requires one; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    unread = set(range(partition_counts(bootstrap)[name]))
    reader.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in unread])
    try:
        while unread:
            for message in reader.consume(5_000, timeout=1):
                error = message.error()
                if error is None and message.partition() in unread:
                    yield message
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif error is not None:
                    raise KafkaException(error)
    finally:
        reader.close()


def last_per_key(bootstrap: str, name: str) -> dict[bytes, bytes]:
    """Returns a compacted topic as a table: the last value of each key."""
    return {message.key(): message.value() for message in read_topic(bootstrap, name)}
