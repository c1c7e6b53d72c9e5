"""Topics beside Spark: creates a topic, and reads a compacted one as a table; and the start and end of a job in a topic, as
options of Spark's Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

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


# The start and end of a job, from offsets or from times.
#
# A start is inclusive, an end is exclusive. Spark resolves offsets, and times that have a record, when it plans the job. It
# looks up the first and the last record as it begins to read each partition, unless `minPartitions` is set.

#: Offsets of one topic by partition; every partition must be listed.
Offsets = dict[str, int]


def between_offsets(topic: str, start: Offsets | None = None, end: Offsets | None = None) -> dict[str, str]:
    """Returns the options for a range of offsets. None is the first remaining record, and the last record."""
    return {
        "startingOffsets": json.dumps({topic: start}) if start else "earliest",
        "endingOffsets": json.dumps({topic: end}) if end else "latest",
    }


def from_time(start: datetime) -> dict[str, str]:
    """Returns the options for a start. A partition without later records is read from its end; Spark's default fails."""
    return {"startingTimestamp": _ms(start), "startingOffsetsByTimestampStrategy": "latest"}


def between_times(start: datetime | None = None, end: datetime | None = None) -> dict[str, str]:
    """Returns the options for a range of timestamps. Partitions without a record from `end` on are read to their end."""
    first = from_time(start) if start else {"startingOffsets": "earliest"}
    return {**first, "endingTimestamp": _ms(end)} if end else {**first, "endingOffsets": "latest"}


def parse_time(text: str) -> datetime:
    """Parses `2025-03-03T08:00:00Z`, or another ISO 8601 time; without a zone it is UTC."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_offsets(text: str) -> Offsets:
    """Parses `{"0": 100, "1": 90}`, Spark's format."""
    return {str(partition): int(offset) for partition, offset in json.loads(text).items()}


def _ms(time: datetime) -> str:
    return str(int(time.timestamp() * 1000))
