"""The share coordinator: the persister of the share partitions in one partition of `__share_group_state`.

Uses no disk and no clock.

    shard = PersisterShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now)                 the end of the log; requests follow
    shard.handle(message, now)        a GroupRequest for one share partition, or MetadataChanged
    shard.take()                      -> Output: records to append, and replies to send once they are committed
    shard.deadline(), expire(now)     the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.

Only write methods of `PersisterState` change the state: each records a change and replays it at once. For each share
partition the log has snapshots, and between them updates that are combined with the state before. Both are replayed in
order, at least from the last snapshot on.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Union

from ..metadata.image import EMPTY_IMAGE, MetadataImage
from ..protocol.codec import MalformedMessage
from ..protocol.error_responses import error_response_to
from ..protocol.errors import ErrorCode
from ..protocol.internal.share_group_records import (
    ShareSnapshotKey,
    ShareSnapshotStateBatch,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateStateBatch,
    ShareUpdateValue,
)
from ..protocol.messages.share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
    DeleteStatePartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    InitializeStatePartition,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateData,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateResult,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryResult,
    StateBatchData,
    StateResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStatePartition,
)
from ..protocol.records.batch import iter_headers
from ..protocol.records.record import decode_batch
from ..protocol.schema import Message
from ..protocol.varint import Buffer
from .result import (
    GroupRequest,
    Output,
    Record,
    Reply,
    Timer,
    Timers,
    UnknownRecord,
    decode_key,
    decode_value,
    encode_framed,
    number_of,
    prefix,
)

# Combination of state batches that were written one after the other, into one list without overlaps.
#
# Where two batches overlap, the one with the higher delivery count wins, then the one with the higher state. So the
# result does not depend on their order.


UNINITIALIZED_OFFSET = -1


class StateBatch(NamedTuple):
    first: int
    last: int
    state: int
    delivery_count: int


def combine(batches: Iterable[StateBatch], start_offset: int = UNINITIALIZED_OFFSET) -> tuple[StateBatch, ...]:
    """Returns batches in offset order, without offsets below `start_offset`. Joins equal neighbours."""
    begins: dict[int, list[StateBatch]] = {}
    ends: dict[int, list[StateBatch]] = {}
    for batch in batches:
        if batch.last >= start_offset:
            begins.setdefault(max(batch.first, start_offset), []).append(batch)
            ends.setdefault(batch.last + 1, []).append(batch)
    combined: list[StateBatch] = []
    open_batches: list[StateBatch] = []
    places = sorted(begins.keys() | ends.keys())
    for place, next_place in itertools.pairwise(places):
        for ended in ends.get(place, ()):
            open_batches.remove(ended)
        open_batches += begins.get(place, ())
        if open_batches:
            _add(combined, place, next_place - 1, max(open_batches, key=_rank))
    return tuple(combined)


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.state


def _add(combined: list[StateBatch], first: int, last: int, batch: StateBatch) -> None:
    before = combined[-1] if combined else None
    if before is not None and before.last + 1 == first and _rank(before) == _rank(batch):
        combined[-1] = before._replace(last=last)
    else:
        combined.append(StateBatch(first, last, batch.state, batch.delivery_count))


class ShareKey(NamedTuple):
    """One share partition."""

    group_id: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class PersisterConfig:
    """The broker configuration that a shard uses; Kafka's keys, units last."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class ShareState:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp_ms: int
    write_timestamp_ms: int
    #: The highest leader epoch seen so far. It fences requests with a lower one.
    fencing_leader_epoch: int = 0
    #: Updates since the last snapshot that reset the count.
    update_count: int = 0


class PersisterState:
    def __init__(self, config: PersisterConfig) -> None:
        self.config = config
        self.partitions: dict[ShareKey, ShareState] = {}
        #: The topics of the last published metadata.
        self.image: MetadataImage = EMPTY_IMAGE
        self.timers = Timers()
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        #: The offset of the next record in the log. This shard is its partition's only writer.
        self.next_offset = 0
        #: The offset of each share partition's last snapshot. Records below all of them are redundant.
        self.snapshot_offsets: dict[ShareKey, int] = {}
        #: The offset of the newest snapshot or tombstone, of all share partitions including deleted ones.
        self.newest_snapshot_offset = -1

    def reply(self, message: GroupRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    # Changes.

    def write_snapshot(self, key: ShareKey, state: ShareState) -> None:
        value = ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp_ms,
            write_timestamp=state.write_timestamp_ms,
            state_batches=[ShareSnapshotStateBatch(*batch) for batch in state.batches],
        )
        self._write(Record(ShareSnapshotKey(*key), value))

    def write_update(self, key: ShareKey, update: ShareUpdateValue) -> None:
        self._write(Record(ShareUpdateKey(*key), update))

    def write_tombstone(self, key: ShareKey) -> None:
        self._write(Record(ShareSnapshotKey(*key), None))

    def _write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record)

    # Replay.

    def replay(self, record: Record) -> None:
        key, value, *_ = record
        assert isinstance(key, (ShareSnapshotKey, ShareUpdateKey))
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        if isinstance(key, ShareSnapshotKey):
            self.newest_snapshot_offset = self.next_offset
        if isinstance(value, ShareSnapshotValue):
            self._replay_snapshot(share_key, value)
        elif isinstance(value, ShareUpdateValue):
            self._replay_update(share_key, value)
        else:
            assert value is None
            self.partitions.pop(share_key, None)
            self.snapshot_offsets.pop(share_key, None)
        self.next_offset += 1

    def _replay_snapshot(self, key: ShareKey, value: ShareSnapshotValue) -> None:
        before = self.partitions.get(key)
        count = 0 if before is None else before.update_count
        self.snapshot_offsets.pop(key, None)
        self.snapshot_offsets[key] = self.next_offset
        self.partitions[key] = ShareState(
            value.snapshot_epoch,
            value.state_epoch if before is None else max(before.state_epoch, value.state_epoch),
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            tuple(_batch(b) for b in value.state_batches),
            value.create_timestamp,
            value.write_timestamp,
            value.leader_epoch if before is None else max(before.fencing_leader_epoch, value.leader_epoch),
            0 if count >= self.config.updates_per_snapshot else count,
        )

    def _replay_update(self, key: ShareKey, value: ShareUpdateValue) -> None:
        before = self.partitions.get(key)
        batches = tuple(_batch(b) for b in value.state_batches)
        if before is None:
            # The snapshot is missing. Kafka also uses the update alone.
            before = ShareState(value.snapshot_epoch, 0, value.leader_epoch, value.start_offset, 0, (), 0, 0)
        leader_epoch = before.leader_epoch if value.leader_epoch == -1 else value.leader_epoch
        start_offset = before.start_offset if value.start_offset == -1 else value.start_offset
        self.partitions[key] = replace(
            before,
            leader_epoch=leader_epoch,
            fencing_leader_epoch=max(before.fencing_leader_epoch, leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=combine((*before.batches, *batches), start_offset),
            update_count=before.update_count + 1,
        )


def _batch(batch: ShareSnapshotStateBatch | ShareUpdateStateBatch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def update_record(
    state: ShareState, leader_epoch: int, start_offset: int, complete_count: int, batches: tuple[StateBatch, ...]
) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        state_batches=[ShareUpdateStateBatch(*batch) for batch in batches],
    )


# Encoding and decoding of `__share_group_state` records, framed as those of `__consumer_offsets`.


_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
_PREFIXES = {key: prefix(kind) for kind, (key, _) in _KINDS.items()}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    return encode_framed(_PREFIXES[type(record.key)], record)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Decodes a record. Raises UnknownRecord for an unknown type and MalformedMessage for malformed bytes."""
    kind = number_of(key)
    if kind not in _KINDS:
        raise UnknownRecord(f"a record of kind {kind}")
    key_class, value_class = _KINDS[kind]
    return decode_value(decode_key(key_class, key), value_class, value)


# ---- checks
#
# Validation of share state requests: each check with its error code and message, in Kafka's order.


NO_EPOCH = -1


class ValidationError(NamedTuple):
    error: ErrorCode
    message: str


class Asked(NamedTuple):
    """A request for one share partition. `leader_epoch` and `state_epoch` are NO_EPOCH if the request has none."""

    key: ShareKey
    known: ShareState | None
    leader_epoch: int = NO_EPOCH
    state_epoch: int = NO_EPOCH
    batches: tuple[StateBatch, ...] = ()


Check = Callable[[PersisterState, Asked], ValidationError | None]


def partition_is_not_negative(state: PersisterState, asked: Asked) -> ValidationError | None:
    if asked.key.partition < 0:
        return ValidationError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    return None


def leader_epoch_is_not_negative(state: PersisterState, asked: Asked) -> ValidationError | None:
    if asked.leader_epoch < 0:
        return ValidationError(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
    return None


def state_epoch_is_not_negative(state: PersisterState, asked: Asked) -> ValidationError | None:
    if asked.state_epoch < 0:
        return ValidationError(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
    return None


def is_initialized_for_read(state: PersisterState, asked: Asked) -> ValidationError | None:
    return _is_initialized(asked, "Read")


def is_initialized_for_write(state: PersisterState, asked: Asked) -> ValidationError | None:
    return _is_initialized(asked, "Write")


def _is_initialized(asked: Asked, what: str) -> ValidationError | None:
    if asked.known is None:
        words = f"{what} operation on uninitialized share partition not allowed."
        return ValidationError(ErrorCode.INVALID_REQUEST, words)
    return None


def leader_epoch_is_current(state: PersisterState, asked: Asked) -> ValidationError | None:
    if asked.known is not None and asked.known.fencing_leader_epoch > asked.leader_epoch:
        words = "The leader epoch in the request is older than the epoch on the broker."
        return ValidationError(ErrorCode.FENCED_LEADER_EPOCH, words)
    return None


def state_epoch_is_current(state: PersisterState, asked: Asked) -> ValidationError | None:
    if asked.known is not None and asked.known.state_epoch > asked.state_epoch:
        words = "The coordinator rejected the request because the state epoch did not match."
        return ValidationError(ErrorCode.FENCED_STATE_EPOCH, words)
    return None


def partition_exists(state: PersisterState, asked: Asked) -> ValidationError | None:
    topic = state.image.topic_by_id(asked.key.topic_id)
    if topic is None or asked.key.partition >= len(topic.partitions):
        return ValidationError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return None


def batches_are_ranges(state: PersisterState, asked: Asked) -> ValidationError | None:
    if any(batch.first < 0 or batch.last < batch.first for batch in asked.batches):
        return ValidationError(ErrorCode.INVALID_REQUEST, "The offsets of a state batch are not a range.")
    return None


READ: tuple[Check, ...] = (
    partition_is_not_negative,
    leader_epoch_is_not_negative,
    is_initialized_for_read,
    leader_epoch_is_current,
    partition_exists,
)
WRITE: tuple[Check, ...] = (
    partition_is_not_negative,
    leader_epoch_is_not_negative,
    state_epoch_is_not_negative,
    is_initialized_for_write,
    leader_epoch_is_current,
    state_epoch_is_current,
    partition_exists,
    batches_are_ranges,
)
INITIALIZE: tuple[Check, ...] = (
    partition_is_not_negative,
    state_epoch_is_not_negative,
    state_epoch_is_current,
    partition_exists,
)
SUMMARY: tuple[Check, ...] = (partition_is_not_negative, partition_exists)
DELETE: tuple[Check, ...] = SUMMARY


def validate(checks: tuple[Check, ...], state: PersisterState, asked: Asked) -> ValidationError | None:
    for check in checks:
        validation_error = check(state, asked)
        if validation_error is not None:
            return validation_error
    return None


# ---- responses
#
# The responses of the persister's requests, which all have the same form: topics and their partitions.


#: A structure of the messages of one API. Its fields depend on the API.
Structure = Callable[..., Any]
ShareStateRequest = Union[
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
]


class Form(NamedTuple):
    topic: Structure
    partition: Structure
    response: Structure
    result: Structure
    partition_result: Structure


FORMS: dict[type[Message], Form] = {
    InitializeShareGroupStateRequest: Form(
        InitializeStateData,
        InitializeStatePartition,
        InitializeShareGroupStateResponse,
        StateResult,
        PartitionResult,
    ),
    ReadShareGroupStateRequest: Form(
        ReadStateData,
        ReadStatePartition,
        ReadShareGroupStateResponse,
        ReadStateResult,
        ReadStatePartitionResult,
    ),
    WriteShareGroupStateRequest: Form(
        WriteStateData,
        WriteStatePartition,
        WriteShareGroupStateResponse,
        StateResult,
        PartitionResult,
    ),
    ReadShareGroupStateSummaryRequest: Form(
        ReadStateData,
        ReadStatePartition,
        ReadShareGroupStateSummaryResponse,
        ReadStateSummaryResult,
        ReadStateSummaryPartitionResult,
    ),
    DeleteShareGroupStateRequest: Form(
        DeleteStateData,
        DeleteStatePartition,
        DeleteShareGroupStateResponse,
        StateResult,
        PartitionResult,
    ),
}


def only_partition(request: ShareStateRequest) -> tuple[bytes, Any]:
    """Returns the topic id and the partition data of a request for one partition."""
    (topic,) = request.topics
    (partition,) = topic.partitions
    return topic.topic_id, partition


def respond(request: Message, topic_id: bytes, index: int, response: Message | ValidationError) -> Message:
    form = FORMS[type(request)]
    if isinstance(response, ValidationError):
        response = form.partition_result(partition=index, error_code=response.error, error_message=response.message)
    made: Message = form.response(results=[form.result(topic_id=topic_id, partitions=[response])])
    return made


def error_response(request: Message, version: int, error: ErrorCode) -> Message:
    """Returns the error response to a request that no shard of this broker can handle."""
    return error_response_to(request, version, error, MESSAGES.get(error, error.name))


# ---- operations
#
# A request here is for one share partition. The caller splits requests for several, since each may be in another
# shard.

MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
}


Operation = Callable[[PersisterState, ShareKey, Any, int], Message | ValidationError]


def handle(state: PersisterState, message: GroupRequest, now: int) -> None:
    request: Any = message.request
    topic_id, partition = only_partition(request)
    key = ShareKey(request.group_id, topic_id, partition.partition)
    response = OPERATIONS[type(request)](state, key, partition, now)
    state.reply(message, respond(request, topic_id, partition.partition, response))


def _initialize(
    state: PersisterState, key: ShareKey, partition: InitializeStatePartition, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = validate(INITIALIZE, state, Asked(key, known, state_epoch=partition.state_epoch))
    if validation_error is not None:
        return validation_error
    snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
    complete_count = -1 if partition.start_offset == UNINITIALIZED_OFFSET else 0
    state.write_snapshot(
        key,
        ShareState(snapshot_epoch, partition.state_epoch, 0, partition.start_offset, complete_count, (), now, now),
    )
    return PartitionResult(partition=key.partition)


def _read(state: PersisterState, key: ShareKey, partition: ReadStatePartition, now: int) -> Message | ValidationError:
    """Reads the state and writes the reader's leader epoch, which fences earlier leaders from now on."""
    known = state.partitions.get(key)
    validation_error = validate(READ, state, Asked(key, known, leader_epoch=partition.leader_epoch))
    if validation_error is not None:
        return validation_error
    assert known is not None
    if partition.leader_epoch != known.fencing_leader_epoch:
        _write_change(
            state, key, known, now, partition.leader_epoch, known.start_offset, known.delivery_complete_count, ()
        )
    return ReadStatePartitionResult(
        partition=key.partition,
        state_epoch=known.state_epoch,
        start_offset=known.start_offset,
        state_batches=[StateBatchData(*batch) for batch in known.batches],
    )


def _write(state: PersisterState, key: ShareKey, partition: WriteStatePartition, now: int) -> Message | ValidationError:
    known = state.partitions.get(key)
    batches = tuple(
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in partition.state_batches
    )
    asked = Asked(key, known, partition.leader_epoch, partition.state_epoch, batches)
    validation_error = validate(WRITE, state, asked)
    if validation_error is not None:
        return validation_error
    assert known is not None
    _write_change(state, key, known, now, NO_EPOCH, partition.start_offset, partition.delivery_complete_count, batches)
    return PartitionResult(partition=key.partition)


def _write_change(
    state: PersisterState,
    key: ShareKey,
    known: ShareState,
    now: int,
    leader_epoch: int,
    start_offset: int,
    complete_count: int,
    batches: tuple[StateBatch, ...],
) -> None:
    """Writes an update, or a snapshot after enough updates.

    The start offset never moves back: a lower one in a request is outdated, and the known one is kept.
    """
    leader_epoch = known.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch
    if start_offset == known.start_offset:
        complete_count = max(complete_count, known.delivery_complete_count)
    elif start_offset < known.start_offset:
        start_offset, complete_count = known.start_offset, known.delivery_complete_count
    if known.update_count < state.config.updates_per_snapshot:
        update = update_record(known, leader_epoch, start_offset, complete_count, combine(batches, start_offset))
        state.write_update(key, update)
        return
    state.write_snapshot(
        key,
        replace(
            known,
            snapshot_epoch=known.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            batches=combine((*known.batches, *batches), start_offset),
            create_timestamp_ms=now,
            write_timestamp_ms=now,
        ),
    )


def _summary(
    state: PersisterState, key: ShareKey, partition: ReadStatePartition, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = validate(SUMMARY, state, Asked(key, known))
    if validation_error is not None:
        return validation_error
    if known is None:
        return ReadStateSummaryPartitionResult(
            partition=key.partition,
            start_offset=UNINITIALIZED_OFFSET,
            delivery_complete_count=-1,
        )
    return ReadStateSummaryPartitionResult(
        partition=key.partition,
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start_offset,
        delivery_complete_count=known.delivery_complete_count,
    )


def _delete(
    state: PersisterState, key: ShareKey, partition: DeleteStatePartition, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = validate(DELETE, state, Asked(key, known))
    if validation_error is not None:
        return validation_error
    if known is not None:
        state.write_tombstone(key)
    return PartitionResult(partition=key.partition)


OPERATIONS: dict[type[Message], Operation] = {
    InitializeShareGroupStateRequest: _initialize,
    ReadShareGroupStateRequest: _read,
    WriteShareGroupStateRequest: _write,
    ReadShareGroupStateSummaryRequest: _summary,
    DeleteShareGroupStateRequest: _delete,
}


# ---- the shard


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The published metadata. `deleted`: ids of deleted topics, whose state is deleted."""

    image: MetadataImage
    deleted: frozenset[bytes] = frozenset()


class Redundant(NamedTuple):
    """The log below `below` is redundant once the high watermark has reached `committed`.

    Until then a failover could lose a snapshot or a tombstone, and the records that it replaces would be needed. This
    value must not be used after the shard is dropped.
    """

    below: int
    committed: int


class PersisterShard:
    def __init__(self, config: PersisterConfig) -> None:
        self.state = PersisterState(config)
        self._cold = Timer(("cold",))

    def handle(self, message: GroupRequest | TopicsChanged, now: int) -> None:
        if isinstance(message, TopicsChanged):
            self._topics_changed(message)
        else:
            handle(self.state, message, now)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        while self.state.timers.due(now) is not None:
            self._snapshot_cold(now)
            self._plan(now)

    def take(self) -> Output:
        """Returns the output since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record) -> None:
        self.state.replay(record)

    def loaded(self, now: int) -> None:
        self._plan(now)

    def redundant(self) -> Redundant | None:
        """Returns the part of the log that later snapshots replace; None if there are no snapshots."""
        below = min(self.state.snapshot_offsets.values(), default=None)
        return None if below is None else Redundant(below, self.state.newest_snapshot_offset + 1)

    def _topics_changed(self, message: TopicsChanged) -> None:
        self.state.image = message.image
        for key in [key for key in self.state.partitions if key.topic_id in message.deleted]:
            self.state.write_tombstone(key)

    def _plan(self, now: int) -> None:
        self.state.timers.set(self._cold, now + self.state.config.cold_snapshot_interval_ms)

    def _snapshot_cold(self, now: int) -> None:
        """Writes new snapshots of states that have not been written for long, so that the log below can be deleted."""
        state = self.state
        states = state.partitions
        if all(known.create_timestamp_ms != known.write_timestamp_ms for known in states.values()):
            return
        oldest = now - state.config.cold_snapshot_interval_ms
        for key, known in list(states.items()):
            if known.write_timestamp_ms <= oldest:
                state.write_snapshot(
                    key, replace(known, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now)
                )


# Loading of a persister shard from its log. Every record is replayed in order, since updates build on earlier
# records.
#
# The interface is that of the group loader: `feed` takes some batches at a time, `replay_some` replays some records.


log = logging.getLogger(__name__)


# ---- loading


class PersisterLoader:
    def __init__(self, config: PersisterConfig, name: str) -> None:
        self.shard = PersisterShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        self._fed: deque[tuple[int, bytes, bytes | None]] = deque()

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            if not header.is_control:
                for record in decode_batch(batches, position, header):
                    if record.key is not None:
                        self._fed.append((record.offset, record.key, record.value))

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        for _ in range(min(count, len(self._fed))):
            offset, key, value = self._fed.popleft()
            try:
                record = decode_record(key, value)
            except (UnknownRecord, MalformedMessage) as error:
                log.warning("%s: a record is skipped: %s", self.name, error)
                continue
            self.shard.state.next_offset = offset
            self.shard.replay(record)
        return bool(self._fed)

    def loaded(self, log_end_offset: int, now: int) -> PersisterShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        self.shard.state.next_offset = log_end_offset
        self.shard.loaded(now)
        return self.shard
