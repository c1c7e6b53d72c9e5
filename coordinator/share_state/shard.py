"""The persister of the share partitions in one partition of `__share_group_state`. Uses no disk and no clock.

    shard = PersisterShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now)                 the end of the log; requests follow
    shard.handle(message, now)        a GroupRequest for one share partition, or MetadataChanged
    shard.take()                      -> Output: records to append, and replies to send once they are committed
    shard.deadline(), expire(now)     the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.

- `READ`, `WRITE`, `INITIALIZE`, `SUMMARY`, `DELETE`: the checks of each request.
- `respond`, `error_response`: the responses.
- `handle`: the operations Initialize, Read, Write, Delete and ReadSummary ShareGroupState.
- `PersisterShard`: the shard; `PersisterLoader` loads it from its log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Union

from ...metadata.image import MetadataImage
from ...protocol.codec import MalformedMessage
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_state import (
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
from ...protocol.records.batch import iter_headers
from ...protocol.records.record import decode_batch
from ...protocol.schema import Message
from ...protocol.varint import Buffer
from ..common.result import GroupRequest, Output, Record, Timer, UnknownRecord
from .state import (
    UNINITIALIZED_OFFSET,
    PersisterConfig,
    PersisterState,
    ShareKey,
    ShareState,
    StateBatch,
    combine,
    decode_record,
    update_record,
)

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
ShareStateResponse = Union[
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateResponse,
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
