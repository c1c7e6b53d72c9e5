"""Dead letters: what goes into a topic of its own when a share group has given a record up (KIP-1191). Pure.

    refusal(group_id, queue)          why nothing can be written there, or None
    pack(origin, letter, first, ...)  the records of the next batch

A dead letter is a stretch of offsets with the same fate. Each of its records becomes one in the queue's topic, which says
in its headers where it comes from and why it is there; key and value come along where the group says so, the record's own
headers never. The names of the headers and the words are Kafka's: people search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.records.batch import HEADER_BYTES
from ...protocol.records.record import Header, Record, encoded_size

#: How often it is tried to write a dead letter, and to create the topic; the wait between two tries doubles.
MOST_TRIES = 5
FIRST_BACKOFF_MS = 1_000
MOST_BACKOFF_MS = 30_000
#: The wait is up to this much longer or shorter.
JITTER = 0.2

#: Topics of Kafka's own.
_INTERNAL = "__"


class DeadLetter(NamedTuple):
    """`is_rejected`: a member said that the record is of no use; else it was delivered as often as it may be."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool

    @property
    def cause(self) -> str:
        return "Offset rejected by client." if self.is_rejected else "Offset delivery count exceeded the threshold."


class Queue(NamedTuple):
    """What is configured of a group's queue, and what there is. `topic` is empty where the group has none."""

    topic: str
    prefix: str
    is_there: bool
    #: The topic says that it may be used so.
    is_enabled: bool
    #: A topic that is not there is created.
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
    """Records by their offsets, as far as `last`: what is missing below cannot be had, what is above was not looked for."""

    records: Mapping[int, Content]
    last: int


class Packed(NamedTuple):
    """`size`: of the batch, with its header."""

    records: list[Record]
    size: int
    next_offset: int


def refusal(group_id: str, queue: Queue) -> str | None:
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
    """The partition of the queue's topic for what comes from `partition`."""
    return partition % partitions


def backoff_ms(tries: int, chance: float) -> int:
    """After so many tries that failed. `chance`: from 0 to 1."""
    return min(MOST_BACKOFF_MS, int(FIRST_BACKOFF_MS * 2**tries * (1 - JITTER + 2 * JITTER * chance)))


def pack(
    origin: Origin, letter: DeadLetter, first: int, contents: Contents, now_ms: int, max_message_bytes: int
) -> Packed:
    """From `first` on, as many as one batch may take, but one at the least: the topic's own limit decides on that."""
    records: list[Record] = []
    size = HEADER_BYTES
    for offset in range(first, max(first, min(letter.last, contents.last)) + 1):
        key, value = contents.records.get(offset, _NOTHING)
        record = Record(len(records), now_ms, key, value, _headers(origin, letter, offset))
        record_bytes = encoded_size(record, base_timestamp=now_ms)
        if records and size + record_bytes > max_message_bytes:
            break
        records.append(record)
        size += record_bytes
        if size > max_message_bytes:
            break
    return Packed(records, size, first + len(records))


_NOTHING = Content(None, None)


def _headers(origin: Origin, letter: DeadLetter, offset: int) -> list[Header]:
    return [
        ("__dlq.errors.topic", origin.topic.encode()),
        ("__dlq.errors.partition", b"%d" % origin.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", origin.group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % letter.delivery_count),
        ("__dlq.errors.message", letter.cause.encode()),
    ]
