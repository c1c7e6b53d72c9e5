"""Dead-letter records of a share partition: which records go there, their content, and retries.

Dead-letter records are the copies of archived records in the dead letter queue of a share group (KIP-1191). Pure.

    validation_error(group_id, queue) the reason why the queue cannot be written, or None
    pack(origin, letter, first, ...)  the records of the next batch

A dead letter is a range of offsets that were given up for the same reason. Each of its records becomes one record
in the queue's topic, whose headers give the origin and the reason. Key and value are copied if the group's
configuration enables it; the record's own headers are never copied. Header names and messages are Kafka's: people
search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..protocol.records.batch import HEADER_BYTES
from ..protocol.records.record import Header, Record, encoded_size

#: Attempts to write a dead-letter record, and to create the topic. The backoff doubles with each attempt.
MOST_TRIES = 5
FIRST_BACKOFF_MS = 1_000
MOST_BACKOFF_MS = 30_000
#: The backoff varies by up to this fraction in both directions.
JITTER = 0.2
#: Prefix of Kafka's internal topics.
_INTERNAL = "__"


class DeadLetter(NamedTuple):
    """A range of given-up records. `is_rejected`: a member rejected them; else the delivery count limit was reached."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool

    @property
    def cause(self) -> str:
        return "Offset rejected by client." if self.is_rejected else "Offset delivery count exceeded the threshold."


class Queue(NamedTuple):
    """Configuration and state of a group's dead letter queue. `topic` is empty if the group has no queue."""

    topic: str
    prefix: str
    is_there: bool
    #: The topic's configuration permits its use as a dead letter queue.
    is_enabled: bool
    #: A missing topic is created.
    is_created: bool


class Origin(NamedTuple):
    """The share partition that dead letters come from."""

    group_id: str
    topic: str
    partition: int


class Content(NamedTuple):
    key: bytes | None
    value: bytes | None


class Contents(NamedTuple):
    """Records by offset, up to `last`. Offsets missing below `last` cannot be read; those above were not read yet."""

    records: Mapping[int, Content]
    last: int


class Packed(NamedTuple):
    """The records of one batch. `size`: the batch's size with its header."""

    records: list[Record]
    size: int
    next_offset: int


def validation_error(group_id: str, queue: Queue) -> str | None:
    topic = queue.topic
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if topic.startswith(_INTERNAL):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
    if queue.is_there and not queue.is_enabled:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
    if not queue.is_there and not queue.is_created:
        words = "DLQ topic does not exist and auto create is disabled on cluster for share group"
        return f"{words}: {group_id}, topic: {topic}."
    if not topic.startswith(queue.prefix):
        return (
            f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
            f"topic: {topic}, prefix: {queue.prefix}."
        )
    return None


def destination(partition: int, partitions: int) -> int:
    """Returns the partition of the queue's topic for records from `partition`."""
    return partition % partitions


def backoff_ms(tries: int, rng: float) -> int:
    """Returns the backoff after `tries` failed attempts. `rng`: from 0 to 1."""
    return min(MOST_BACKOFF_MS, int(FIRST_BACKOFF_MS * 2**tries * (1 - JITTER + 2 * JITTER * rng)))


def pack(
    origin: Origin, dead_letter: DeadLetter, first: int, contents: Contents, now_ms: int, max_message_bytes: int
) -> Packed:
    """Packs records from `first` on into one batch of at most `max_message_bytes`.

    The batch has at least one record, even a larger one: the topic's own limit decides on that record.
    """
    records: list[Record] = []
    size = HEADER_BYTES
    for offset in range(first, max(first, min(dead_letter.last, contents.last)) + 1):
        key, value = contents.records.get(offset, _NOTHING)
        record = Record(len(records), now_ms, key, value, _headers(origin, dead_letter, offset))
        record_bytes = encoded_size(record, base_timestamp=now_ms)
        if records and size + record_bytes > max_message_bytes:
            break
        records.append(record)
        size += record_bytes
        if size > max_message_bytes:
            break
    return Packed(records, size, first + len(records))


_NOTHING = Content(None, None)


def _headers(origin: Origin, dead_letter: DeadLetter, offset: int) -> list[Header]:
    return [
        ("__dlq.errors.topic", origin.topic.encode()),
        ("__dlq.errors.partition", b"%d" % origin.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", origin.group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % dead_letter.delivery_count),
        ("__dlq.errors.message", dead_letter.cause.encode()),
    ]
