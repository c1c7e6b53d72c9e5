"""Operations of the persister: initialize, read, write, summarize and delete the state of a share partition (KIP-932).

A request here is for one share partition. The caller splits requests for several, since each may be in another
shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStatePartition
from ..protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStatePartition
from ..protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStatePartitionResult
from ..protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartitionResult,
)
from ..protocol.messages.share_state_batches import StateBatchData
from ..protocol.messages.share_state_reads import ReadStatePartition
from ..protocol.messages.share_state_results import StatePartitionResult
from ..protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteStatePartition
from ..protocol.schema import Message
from .rejection import Rejection
from .result import GroupRequest
from .share_state import PersisterState, ShareKey, ShareState, update_record
from .share_state_checks import DELETE, INITIALIZE, NO_EPOCH, READ, SUMMARY, WRITE, Asked, validate
from .share_state_responses import only_partition, respond
from .state_batches import UNINITIALIZED_OFFSET, StateBatch, combine

Operation = Callable[[PersisterState, ShareKey, Any, int], Message | Rejection]


def handle(state: PersisterState, message: GroupRequest, now_ms: int) -> None:
    request: Any = message.request
    topic_id, partition = only_partition(request)
    key = ShareKey(request.group_id, topic_id, partition.partition)
    response = OPERATIONS[type(request)](state, key, partition, now_ms)
    state.reply(message, respond(request, topic_id, partition.partition, response))


def _initialize(
    state: PersisterState, key: ShareKey, partition: InitializeStatePartition, now_ms: int
) -> Message | Rejection:
    known = state.partitions.get(key)
    validation_error = validate(INITIALIZE, state, Asked(key, known, state_epoch=partition.state_epoch))
    if validation_error is not None:
        return validation_error
    snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
    complete_count = -1 if partition.start_offset == UNINITIALIZED_OFFSET else 0
    state.write_snapshot(
        key,
        ShareState(
            snapshot_epoch, partition.state_epoch, 0, partition.start_offset, complete_count, (), now_ms, now_ms
        ),
    )
    return StatePartitionResult(partition=key.partition)


def _read(state: PersisterState, key: ShareKey, partition: ReadStatePartition, now_ms: int) -> Message | Rejection:
    """Reads the state and writes the reader's leader epoch, which fences earlier leaders from now on."""
    known = state.partitions.get(key)
    validation_error = validate(READ, state, Asked(key, known, leader_epoch=partition.leader_epoch))
    if validation_error is not None:
        return validation_error
    assert known is not None
    if partition.leader_epoch != known.fencing_leader_epoch:
        _write_change(
            state, key, known, now_ms, partition.leader_epoch, known.start_offset, known.delivery_complete_count, ()
        )
    return ReadStatePartitionResult(
        partition=key.partition,
        state_epoch=known.state_epoch,
        start_offset=known.start_offset,
        state_batches=[StateBatchData(*batch) for batch in known.batches],
    )


def _write(state: PersisterState, key: ShareKey, partition: WriteStatePartition, now_ms: int) -> Message | Rejection:
    known = state.partitions.get(key)
    batches = tuple(
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in partition.state_batches
    )
    asked = Asked(key, known, partition.leader_epoch, partition.state_epoch, batches)
    validation_error = validate(WRITE, state, asked)
    if validation_error is not None:
        return validation_error
    assert known is not None
    _write_change(
        state, key, known, now_ms, NO_EPOCH, partition.start_offset, partition.delivery_complete_count, batches
    )
    return StatePartitionResult(partition=key.partition)


def _write_change(
    state: PersisterState,
    key: ShareKey,
    known: ShareState,
    now_ms: int,
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
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        ),
    )


def _summary(state: PersisterState, key: ShareKey, partition: ReadStatePartition, now_ms: int) -> Message | Rejection:
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


def _delete(state: PersisterState, key: ShareKey, partition: DeleteStatePartition, now_ms: int) -> Message | Rejection:
    known = state.partitions.get(key)
    validation_error = validate(DELETE, state, Asked(key, known))
    if validation_error is not None:
        return validation_error
    if known is not None:
        state.write_tombstone(key)
    return StatePartitionResult(partition=key.partition)


OPERATIONS: dict[type[Message], Operation] = {
    InitializeShareGroupStateRequest: _initialize,
    ReadShareGroupStateRequest: _read,
    WriteShareGroupStateRequest: _write,
    ReadShareGroupStateSummaryRequest: _summary,
    DeleteShareGroupStateRequest: _delete,
}
