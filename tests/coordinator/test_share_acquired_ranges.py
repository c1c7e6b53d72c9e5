"""Ranges of records that were first acquired together, and their common behaviour later, as in Kafka."""

from __future__ import annotations

from typing import NamedTuple

from odradek.coordinator.acquisition import AcquireRequest, acquire
from odradek.coordinator.share_partition import (
    AckBatch,
    AckType,
    Limits,
    SharePartition,
)


class Batch(NamedTuple):
    base_offset: int
    last_offset: int


BATCHES = [Batch(0, 4), Batch(5, 9)]


class Harness:
    def __init__(self, **limits: int) -> None:
        self.partition = SharePartition(0, (), Limits(**limits))  # type: ignore[arg-type]

    def take(self, max_records: int = 500, *, is_limit: bool = False, batch_size: int = 500) -> list[tuple[int, int]]:
        wish = AcquireRequest(max_records, batch_size, is_limit)
        return [(one.first, one.last) for one in acquire(self.partition, "m", wish, 0, BATCHES, 1_000)]

    def say(self, kind: AckType, first: int, last: int, member: str = "m") -> str | None:
        """Acknowledges a range. Returns the error message, if any. The persister accepts all writes."""
        self.partition.acknowledge(1, member, [AckBatch(first, last, [kind])], 1_000)
        output = self.partition.take()
        for write in output.writes:
            self.partition.written(write.id, None)
        (reply,) = [*output.replies, *self.partition.take().replies]
        return None if reply.validation_error is None else reply.validation_error.message


def test_released_range_is_acquired_together_again() -> None:
    harness = Harness()
    assert harness.take() == [(0, 9)]
    harness.say(AckType.RELEASE, 0, 9)
    assert harness.take(3) == [(0, 9)]


def test_strict_limit_applies_to_released_records() -> None:
    harness = Harness()
    assert harness.take(7, is_limit=True) == [(0, 6)]
    harness.say(AckType.RELEASE, 0, 6)
    assert harness.take(3, is_limit=True) == [(0, 2)]


def test_batch_size_divides_what_is_acquired_where_batches_end() -> None:
    assert Harness().take(batch_size=5) == [(0, 4), (5, 9)]
    assert Harness().take(batch_size=3) == [(0, 4), (5, 9)], "no batch is cut"
    assert Harness().take(batch_size=10) == [(0, 9)]


def test_batch_size_does_not_divide_under_a_strict_limit() -> None:
    assert Harness().take(8, is_limit=True, batch_size=5) == [(0, 7)]


def test_failing_records_are_acquired_in_smaller_parts() -> None:
    harness = Harness(delivery_count=5)
    harness.take()
    for first in (0, 0):
        harness.say(AckType.RELEASE, first, 9)
        assert harness.take() == [(0, 9)]
    harness.say(AckType.RELEASE, 1, 9)
    assert harness.take() == [(1, 5)], "half of ten records, although nine are left"
    harness.say(AckType.RELEASE, 1, 5)
    assert harness.take() == [(1, 1)], "one record: it is the last delivery"
    assert harness.take() == [(2, 2)]


def test_error_message_names_offset_after_range_is_cut() -> None:
    harness = Harness()
    harness.take()
    assert harness.say(AckType.ACCEPT, 0, 9, "other") == "Member is not the owner of batch record"
    assert harness.say(AckType.ACCEPT, 2, 2) is None
    assert harness.say(AckType.ACCEPT, 0, 9, "other") == "Member is not the owner of offset"
    assert harness.say(AckType.ACCEPT, 2, 9) == "The offset cannot be acknowledged. The offset is not acquired."


def test_error_message_names_batch_while_range_is_uncut() -> None:
    harness = Harness()
    harness.take()
    assert harness.say(AckType.RELEASE, 0, 9) is None
    assert (
        harness.say(AckType.ACCEPT, 3, 4) == "The batch cannot be acknowledged. The batch is not in the acquired state."
    )
