"""The result of an append, and a batch whose result is not known yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .batch_validation import CheckedBatch


class QueuedAppend:
    """A batch in the queue. `then` must be set in the turn in which the batch was queued."""

    __slots__ = ("found", "is_in_transaction", "now_ms", "required_acks", "size", "then")

    def __init__(self, size: int, now_ms: int, required_acks: int, *, is_in_transaction: bool) -> None:
        self.size = size
        self.now_ms = now_ms
        self.required_acks = required_acks
        self.is_in_transaction = is_in_transaction
        #: The thread's result, once it is done.
        self.found: CheckedBatch | BaseException | None = None
        self.then: Callable[[AppendResult], object] = _forget


class AppendResult(NamedTuple):
    """The result of an append. `error` is a Kafka error code; offsets and time are -1 where they are not known."""

    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    #: The offset after the batch, for `when_committed`.
    end_offset: int = -1
    #: (index of the record, reason) where single records were rejected, and the error message for all of them.
    record_errors: list[tuple[int, str]] | tuple[()] = ()
    error_message: str | None = None
    #: True if `flush.messages` requires a flush before the producer gets its response (`want_flushed`).
    must_flush: bool = False
    #: Set if a thread opens the batch first and it is written later; nothing else is known yet.
    queued: QueuedAppend | None = None


def _forget(_: AppendResult) -> None:
    """Ignores the result."""
