"""Checks of requests to the persister. Each is a small function with its error code; they run in order.

Validation of share state requests: each check with its error code and message, in Kafka's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from .rejection import Rejection
from .share_state import PersisterState, ShareKey, ShareState
from .state_batches import StateBatch

NO_EPOCH = -1


class Asked(NamedTuple):
    """A request for one share partition. `leader_epoch` and `state_epoch` are NO_EPOCH if the request has none."""

    key: ShareKey
    known: ShareState | None
    leader_epoch: int = NO_EPOCH
    state_epoch: int = NO_EPOCH
    batches: tuple[StateBatch, ...] = ()


Check = Callable[[PersisterState, Asked], Rejection | None]


def partition_is_not_negative(state: PersisterState, asked: Asked) -> Rejection | None:
    if asked.key.partition < 0:
        return Rejection(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    return None


def leader_epoch_is_not_negative(state: PersisterState, asked: Asked) -> Rejection | None:
    if asked.leader_epoch < 0:
        return Rejection(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
    return None


def state_epoch_is_not_negative(state: PersisterState, asked: Asked) -> Rejection | None:
    if asked.state_epoch < 0:
        return Rejection(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
    return None


def is_initialized_for_read(state: PersisterState, asked: Asked) -> Rejection | None:
    return _is_initialized(asked, "Read")


def is_initialized_for_write(state: PersisterState, asked: Asked) -> Rejection | None:
    return _is_initialized(asked, "Write")


def _is_initialized(asked: Asked, what: str) -> Rejection | None:
    if asked.known is None:
        words = f"{what} operation on uninitialized share partition not allowed."
        return Rejection(ErrorCode.INVALID_REQUEST, words)
    return None


def leader_epoch_is_current(state: PersisterState, asked: Asked) -> Rejection | None:
    if asked.known is not None and asked.known.fencing_leader_epoch > asked.leader_epoch:
        words = "The leader epoch in the request is older than the epoch on the broker."
        return Rejection(ErrorCode.FENCED_LEADER_EPOCH, words)
    return None


def state_epoch_is_current(state: PersisterState, asked: Asked) -> Rejection | None:
    if asked.known is not None and asked.known.state_epoch > asked.state_epoch:
        words = "The coordinator rejected the request because the state epoch did not match."
        return Rejection(ErrorCode.FENCED_STATE_EPOCH, words)
    return None


def partition_exists(state: PersisterState, asked: Asked) -> Rejection | None:
    topic = state.image.topic_by_id(asked.key.topic_id)
    if topic is None or asked.key.partition >= len(topic.partitions):
        return Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return None


def batches_are_ranges(state: PersisterState, asked: Asked) -> Rejection | None:
    if any(batch.first < 0 or batch.last < batch.first for batch in asked.batches):
        return Rejection(ErrorCode.INVALID_REQUEST, "The offsets of a state batch are not a range.")
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


def validate(checks: tuple[Check, ...], state: PersisterState, asked: Asked) -> Rejection | None:
    for check in checks:
        validation_error = check(state, asked)
        if validation_error is not None:
            return validation_error
    return None
