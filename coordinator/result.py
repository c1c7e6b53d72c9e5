"""The input and output of a coordinator shard: requests, replies, records and timers.

- `Record`, `Reply`, `Output`: the output. A request has a token of the caller. The output has records, and replies
  with their tokens: at once, later, or after a timer. The caller appends the records of an `Output` first. It sends
  the replies only AFTER the high watermark has passed the last record appended so far. This includes replies to
  reads, so no reply shows state that could still be lost.
- `GroupRequest`, `TopicsDeleted`, `MetadataChanged`: the input; `GroupsConfig` is the configuration.
- `encode_framed`, `decode_key`, `decode_value`: the framing of records in the coordinators' topics.
- `Timer`, `Timers`: deadlines as data, which the caller reads and whose passing is an input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from ..metadata.image import MetadataImage
from ..protocol.codec import decode, encode
from ..protocol.schema import Message
from ..protocol.varint import Buffer

# ---- input and output


class Record(NamedTuple):
    """One record of `__consumer_offsets`: typed key and value; a value of None is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0
    #: The producer of a transactional record, which takes effect once the transaction is committed.
    producer_id: int = -1
    producer_epoch: int = -1


class Reply(NamedTuple):
    token: object
    response: Message


class Output(NamedTuple):
    records: list[Record]
    replies: list[Reply]


@dataclass(slots=True)
class GroupRequest:
    """A request to the shard that owns its group.

    `token`: returned with the reply, once. `request`: in the form of its newest version. `version`: the version that
    the client sent. `member_uuid`: a random UUID for a member id that may have to be generated. `describable` returns
    those of some topics that the client may describe; without it, it may describe all.
    """

    token: object
    request: Message
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    member_uuid: str = ""
    describable: Callable[[Collection[str]], Set[str]] | None = None


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Deleted topics, name -> id. Their committed offsets are deleted."""

    topics: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """New metadata for assignments. `topics`: the names of created, deleted and repartitioned topics."""

    image: MetadataImage
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsGroupsConfig:
    """The settings of streams groups without their own configuration (KIP-1071)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    max_size: int = 2_147_483_647


Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """The broker configuration that the shard uses; Kafka's keys, units last."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_group_size: int = 2_147_483_647
    #: The time limit of a JoinGroup of a member that never got a response; a constant in Kafka too.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    #: The minimum and maximum of a group's own value.
    consumer_session_timeout_bounds_ms: Bounds = (45_000, 60_000)
    consumer_heartbeat_interval_bounds_ms: Bounds = (5_000, 15_000)
    consumer_assignment_interval_bounds_ms: Bounds = (0, 15_000)
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    #: The permitted protocol changes of groups with members: bidirectional, upgrade, downgrade, disabled.
    consumer_migration_policy: str = "bidirectional"
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    #: The time after which an initialize request to the persister is repeated.
    share_initialize_retry_interval_ms: int = 30_000
    streams: StreamsGroupsConfig = StreamsGroupsConfig()
    #: The maximum size of a group's record (max.message.bytes of the topic).
    max_record_bytes: int = 1_048_588


_NUMBER = struct.Struct(">h")
_KEY_VERSION = 0


# ---- framing of records
#
# A key is two bytes with the record type, followed by its message, always in version 0. A value is two bytes with its
# version, followed by its message. A tombstone has no value.


class UnknownRecord(Exception):
    """The key has a record type that this shard does not keep, or the value has a version unknown to Kafka 4.4."""


def number_of(buf: Buffer) -> int:
    """Returns the record type of a key, or the version of a value."""
    if len(buf) < _NUMBER.size:
        raise UnknownRecord("a record without a kind")
    number: int = _NUMBER.unpack_from(buf)[0]
    return number


def prefix(number: int) -> bytes:
    return _NUMBER.pack(number)


def encode_framed(key_prefix: bytes, record: Record) -> tuple[bytes, bytes | None]:
    key, value, version, *_ = record
    key_bytes = key_prefix + encode(key, _KEY_VERSION)
    return key_bytes, None if value is None else _NUMBER.pack(version) + encode(value, version)


def decode_key(key_class: type[Message], key: Buffer) -> Message:
    """Decodes a key. Raises MalformedMessage, as `decode_value` does."""
    return decode(key_class, _KEY_VERSION, key, _NUMBER.size)[0]


def decode_value(key: Message, value_class: type[Message], value: Buffer | None) -> Record:
    """Returns the record with a decoded key. Raises UnknownRecord and MalformedMessage."""
    if value is None:
        return Record(key, None)
    version = number_of(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"{value_class.__name__} of version {version}")
    return Record(key, decode(value_class, version, value, _NUMBER.size)[0], version)


def encoded_size(value: Message, version: int) -> int:
    return _NUMBER.size + len(encode(value, version))


# ---- timers
#
# They are cheap to move. A heartbeat only moves its member's deadline. A timer with a later deadline stays at its place in
# the queue, and is queued again when that place is due. So 10,000 members cost 10,000 queue operations per session
# timeout, not per heartbeat. `next_deadline` may therefore be too early, never too late.

#: The deadline of a timer that is not set.
NEVER = 1 << 62

Event = tuple[str, ...]


class Timer:
    """A timer. `event` identifies it; `deadline_ms` is its deadline; `queued_ms` is its first place in the queue."""

    __slots__ = ("deadline_ms", "event", "queued_ms")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.deadline_ms = NEVER
        self.queued_ms = NEVER

    @property
    def is_set(self) -> bool:
        return self.deadline_ms != NEVER

    def cancel(self) -> None:
        self.deadline_ms = NEVER


class Timers:
    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.queued_ms:
            self._enqueue(timer)

    def next_deadline(self) -> int | None:
        queue = self._queue
        while queue:
            queued_ms, _, timer = queue[0]
            if timer.deadline_ms != NEVER and timer.queued_ms == queued_ms:  # it is live
                return queued_ms
            self._drop_first()
        return None

    def due(self, now: int) -> Timer | None:
        """Removes and returns one timer that is due: the earliest, and among equals the first in the queue."""
        queue = self._queue
        while queue and queue[0][0] <= now:
            entry = queue[0]
            live = self._is_live(entry)
            self._drop_first()
            timer = entry[2]
            if not live:
                continue
            if timer.deadline_ms <= now:
                timer.deadline_ms = NEVER
                return timer
            self._enqueue(timer)
        return None

    @staticmethod
    def _is_live(entry: tuple[int, int, Timer]) -> bool:
        """Returns False for an obsolete entry: its timer was cancelled, or is also queued earlier."""
        timer = entry[2]
        return timer.deadline_ms != NEVER and timer.queued_ms == entry[0]

    def _drop_first(self) -> None:
        queued_ms, _, timer = heappop(self._queue)
        if timer.queued_ms == queued_ms:
            timer.queued_ms = NEVER

    def _enqueue(self, timer: Timer) -> None:
        self._sequence += 1
        timer.queued_ms = timer.deadline_ms
        heappush(self._queue, (timer.deadline_ms, self._sequence, timer))
