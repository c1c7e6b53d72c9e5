"""The persister's operations: Initialize, Read, Write, Delete and ReadSummary ShareGroupState.

A request here is for one share partition. The caller splits requests for several, since each may be in another shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from ...protocol.schema import Message
from ..common.result import GroupRequest
from . import checks
from .checks import NO_EPOCH, Asked, ValidationError
from .combining import UNINITIALIZED_OFFSET, StateBatch, combine
from .error_responses import only_partition, respond
from .state import PersisterState, ShareKey, ShareState, update_record

Operation = Callable[[PersisterState, ShareKey, Any, int], Message | ValidationError]


def handle(state: PersisterState, message: GroupRequest, now: int) -> None:
    request: Any = message.request
    topic_id, partition = only_partition(request)
    key = ShareKey(request.group_id, topic_id, partition.partition)
    answer = OPERATIONS[type(request)](state, key, partition, now)
    state.reply(message, respond(request, topic_id, partition.partition, answer))


def _initialize(
    state: PersisterState, key: ShareKey, partition: initialize_share_group_state.PartitionData, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = checks.validate(checks.INITIALIZE, state, Asked(key, known, state_epoch=partition.state_epoch))
    if validation_error is not None:
        return validation_error
    snapshot_epoch = 0 if known is None else known.snapshot_epoch + 1
    complete_count = -1 if partition.start_offset == UNINITIALIZED_OFFSET else 0
    state.write_snapshot(
        key,
        ShareState(snapshot_epoch, partition.state_epoch, 0, partition.start_offset, complete_count, (), now, now),
    )
    return initialize_share_group_state.PartitionResult(partition=key.partition)


def _read(
    state: PersisterState, key: ShareKey, partition: read_share_group_state.PartitionData, now: int
) -> Message | ValidationError:
    """Reads the state and writes the reader's leader epoch, which fences earlier leaders from now on."""
    known = state.partitions.get(key)
    validation_error = checks.validate(checks.READ, state, Asked(key, known, leader_epoch=partition.leader_epoch))
    if validation_error is not None:
        return validation_error
    assert known is not None
    if partition.leader_epoch != known.fencing_leader_epoch:
        _write_change(
            state, key, known, now, partition.leader_epoch, known.start_offset, known.delivery_complete_count, ()
        )
    return read_share_group_state.PartitionResult(
        partition=key.partition,
        state_epoch=known.state_epoch,
        start_offset=known.start_offset,
        state_batches=[read_share_group_state.StateBatch(*batch) for batch in known.batches],
    )


def _write(
    state: PersisterState, key: ShareKey, partition: write_share_group_state.PartitionData, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    batches = tuple(
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in partition.state_batches
    )
    asked = Asked(key, known, partition.leader_epoch, partition.state_epoch, batches)
    validation_error = checks.validate(checks.WRITE, state, asked)
    if validation_error is not None:
        return validation_error
    assert known is not None
    _write_change(state, key, known, now, NO_EPOCH, partition.start_offset, partition.delivery_complete_count, batches)
    return write_share_group_state.PartitionResult(partition=key.partition)


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
    state: PersisterState, key: ShareKey, partition: read_share_group_state_summary.PartitionData, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = checks.validate(checks.SUMMARY, state, Asked(key, known))
    if validation_error is not None:
        return validation_error
    if known is None:
        return read_share_group_state_summary.PartitionResult(
            partition=key.partition,
            start_offset=UNINITIALIZED_OFFSET,
            delivery_complete_count=-1,
        )
    return read_share_group_state_summary.PartitionResult(
        partition=key.partition,
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start_offset,
        delivery_complete_count=known.delivery_complete_count,
    )


def _delete(
    state: PersisterState, key: ShareKey, partition: delete_share_group_state.PartitionData, now: int
) -> Message | ValidationError:
    known = state.partitions.get(key)
    validation_error = checks.validate(checks.DELETE, state, Asked(key, known))
    if validation_error is not None:
        return validation_error
    if known is not None:
        state.write_tombstone(key)
    return delete_share_group_state.PartitionResult(partition=key.partition)


OPERATIONS: dict[type[Message], Operation] = {
    initialize_share_group_state.InitializeShareGroupStateRequest: _initialize,
    read_share_group_state.ReadShareGroupStateRequest: _read,
    write_share_group_state.WriteShareGroupStateRequest: _write,
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest: _summary,
    delete_share_group_state.DeleteShareGroupStateRequest: _delete,
}
