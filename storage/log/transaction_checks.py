"""Checks of a leader before it writes for a transaction: is it open here, and may this marker end it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.feature_levels import TRANSACTIONS_BUMP_EPOCHS
from ...protocol.offsets import NO_OFFSET

if TYPE_CHECKING:
    from .producers import Producers

MAX_PRODUCER_EPOCH = 32_767


def is_in_transaction(producers: Producers, producer_id: int, epoch: int) -> bool:
    """Returns whether the producer has an open transaction here: what it writes is of that."""
    producer = producers.by_id.get(producer_id)
    return producer is not None and producer.transaction_first_offset != NO_OFFSET and producer.epoch == epoch


def check_marker(
    producers: Producers, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
) -> ErrorCode:
    """Returns whether a marker may be written. A coordinator may repeat a marker when it got no response to it."""
    producer = producers.by_id.get(producer_id)
    if producer is None:
        return ErrorCode.NONE
    is_open = producer.transaction_first_offset != NO_OFFSET
    is_repeated = epoch == producer.epoch and (not is_open or epoch == MAX_PRODUCER_EPOCH)
    if transaction_version >= TRANSACTIONS_BUMP_EPOCHS:
        is_stale = epoch <= producer.epoch and not is_repeated
    else:
        is_stale = epoch < producer.epoch
    if is_stale:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if coordinator_epoch < producer.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return ErrorCode.NONE
