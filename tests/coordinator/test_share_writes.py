"""Writes of a share partition, and the states of its records when the persister accepts or rejects them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from odradek.coordinator.acquisition import AcquireRequest, acquire
from odradek.coordinator.dead_letters import DeadLetter
from odradek.coordinator.rejection import Rejection
from odradek.coordinator.share_partition import (
    AckBatch,
    AckType,
    Limits,
    SharePartition,
    SharePartitionOutput,
)
from odradek.coordinator.share_runs import RecordState
from odradek.coordinator.state_batches import StateBatch
from odradek.protocol.errors import ErrorCode

NOW, LOCK_MS = 1000, 500
FAILED = Rejection(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no")
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState


class Batch(NamedTuple):
    base_offset: int
    last_offset: int


class Harness:
    """A share partition of which member `m` has acquired the records 0 to 9. `states` shows them in order."""

    def __init__(self, *, acquires: bool = True, **limits: object) -> None:
        plain = {"record_lock_duration_ms": LOCK_MS}
        self.partition = SharePartition(0, (), Limits(**(plain | limits)))  # type: ignore[arg-type]
        if acquires:
            self.acquire()

    def acquire(self, member: str = "m", now: int = NOW) -> list[tuple[int, int]]:
        found = acquire(self.partition, member, AcquireRequest(500, 500, False), 0, [Batch(0, 9)], now)
        return [(one.first, one.last) for one in found]

    def acknowledge(
        self, first: int, last: int, *types: int, member: str = "m", now: int = NOW
    ) -> SharePartitionOutput:
        self.partition.acknowledge("token", member, [AckBatch(first, last, list(types))], now)
        return self.partition.take()

    def end(self, output: SharePartitionOutput, error: Rejection | None = None) -> SharePartitionOutput:
        """Ends all writes. Returns what follows."""
        for write in output.writes:
            self.partition.written(write.id, error)
        return self.partition.take()

    @property
    def states(self) -> list[tuple[int, int, RecordState, int]]:
        return [(run.first, run.last, run.state, run.delivery_count) for run in self.partition.runs]


# ---- acknowledgements


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (AckType.GAP, ARCHIVED),
        (AckType.ACCEPT, ACKNOWLEDGED),
        (AckType.RELEASE, AVAILABLE),
        (AckType.REJECT, ARCHIVED),
    ],
)
def test_acknowledgement_takes_effect_once_it_is_written(kind: AckType, state: RecordState) -> None:
    harness = Harness()
    output = harness.acknowledge(3, 5, kind)
    (write,) = output.writes
    assert write.batches == (StateBatch(3, 5, int(state), 1),) and write.start_offset == 0
    assert output.replies == [] and harness.acquire("n") == [], "until then nothing is available"
    again = harness.acknowledge(3, 5, AckType.ACCEPT).replies
    assert [one.validation_error is not None and one.validation_error.error for one in again] == [
        ErrorCode.INVALID_RECORD_STATE
    ]
    after = harness.end(output)
    assert [(one.token, one.validation_error) for one in after.replies] == [("token", None)]
    assert harness.states == [(0, 2, ACQUIRED, 1), (3, 5, state, 1), (6, 9, ACQUIRED, 1)]
    assert harness.acquire("n") == ([(3, 5)] if state is AVAILABLE else [])


@pytest.mark.parametrize("kind", [AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.GAP])
def test_acknowledgement_that_is_not_written_leaves_the_records_with_their_member(kind: AckType) -> None:
    harness = Harness(has_dead_letters=True)
    after = harness.end(harness.acknowledge(0, 9, kind), FAILED)
    assert [one.validation_error for one in after.replies] == [FAILED] and after.dead_letter_records == []
    assert harness.states == [(0, 9, ACQUIRED, 1)]
    assert harness.partition.deadline() == NOW + LOCK_MS, "their locks still expire"
    harness.partition.expire(NOW + LOCK_MS)
    assert harness.states == [(0, 9, AVAILABLE, 1)]


def test_rejected_records_are_dead_letters_once_that_is_written() -> None:
    harness = Harness(has_dead_letters=True)
    output = harness.acknowledge(2, 3, AckType.REJECT)
    assert output.writes[0].batches == (StateBatch(2, 3, int(ARCHIVING), 1),) and output.dead_letter_records == []
    assert harness.end(output).dead_letter_records == [DeadLetter(2, 3, 1, is_rejected=True)]
    harness.partition.dead_letter_written(DeadLetter(2, 3, 1, is_rejected=True))
    (write,) = harness.partition.take().writes
    assert write.batches == (StateBatch(2, 3, int(ARCHIVED), 1),)
    assert harness.states[1] == (2, 3, ARCHIVED, 1)


@pytest.mark.parametrize("error", [None, FAILED])
def test_records_whose_last_lock_expired_are_dead_letters_whether_it_is_written_or_not(
    error: Rejection | None,
) -> None:
    harness = Harness(has_dead_letters=True, delivery_count=2)
    harness.end(harness.acknowledge(0, 9, AckType.RELEASE))
    harness.acquire(now=NOW)
    harness.partition.expire(NOW + LOCK_MS)
    after = harness.end(harness.partition.take(), error)
    assert after.dead_letter_records == [DeadLetter(0, 9, 2, is_rejected=False)]
    assert all(state is ARCHIVING for _, _, state, _ in harness.states)


def test_invalid_batch_undoes_the_ones_before_it() -> None:
    harness = Harness()
    batches = [AckBatch(0, 1, [AckType.ACCEPT]), AckBatch(5, 10, [AckType.ACCEPT])]
    harness.partition.acknowledge("token", "m", batches, NOW)
    output = harness.partition.take()
    assert output.writes == [] and harness.partition.in_flight_count == 10
    (reply,) = output.replies
    assert reply.validation_error is not None and reply.validation_error.error is ErrorCode.INVALID_REQUEST
    assert all(state is ACQUIRED for _, _, state, _ in harness.states)


@pytest.mark.parametrize(
    ("first", "last", "types", "error"),
    [
        (0, 9, [5], ErrorCode.INVALID_REQUEST),
        (0, 9, [-1], ErrorCode.INVALID_REQUEST),
        (0, 1, [1, 7], ErrorCode.INVALID_REQUEST),
        (10, 12, [1], ErrorCode.INVALID_REQUEST),
        (9, 10, [1], ErrorCode.INVALID_REQUEST),
        (9, 9, [1], None),
        (0, 9, [4], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_acknowledgement_is_of_acquired_records_and_of_a_known_type(
    first: int, last: int, types: list[int], error: ErrorCode | None
) -> None:
    harness = Harness(is_renew_enabled=False)
    output = harness.acknowledge(first, last, *types)
    replies = [*output.replies, *harness.end(output).replies]
    assert [one.validation_error and one.validation_error.error for one in replies] == [error]


def test_acknowledgement_of_each_record_cuts_its_range_and_changes_runs_of_one_type() -> None:
    harness = Harness()
    output = harness.acknowledge(2, 5, AckType.ACCEPT, AckType.ACCEPT, AckType.RELEASE, AckType.GAP)
    assert output.writes[0].batches == (
        StateBatch(2, 3, int(ACKNOWLEDGED), 1), StateBatch(4, 4, int(AVAILABLE), 1), StateBatch(5, 5, int(ARCHIVED), 1),
    )  # fmt: skip
    harness.end(output)
    assert all(not run.is_whole for run in harness.partition.runs)


def test_range_that_is_acknowledged_record_by_record_is_cut_though_no_run_is_split() -> None:
    harness = Harness()
    harness.acknowledge(0, 9, *[AckType.ACCEPT] * 10)
    (reply,) = harness.acknowledge(0, 9, AckType.ACCEPT).replies
    words = "The offset cannot be acknowledged. The offset is not acquired."
    assert reply.validation_error == Rejection(ErrorCode.INVALID_RECORD_STATE, words)


def test_renewed_lock_expires_later() -> None:
    harness = Harness(is_renew_enabled=True)
    output = harness.acknowledge(0, 4, AckType.RENEW, now=NOW + 300)
    assert output.writes == [] and [one.validation_error for one in output.replies] == [None]
    harness.partition.expire(NOW + LOCK_MS - 1)
    assert all(state is ACQUIRED for _, _, state, _ in harness.states)
    harness.partition.expire(NOW + LOCK_MS)
    assert harness.states == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)] and harness.partition.lock_timeouts == 5
    assert harness.partition.deadline() == NOW + 300 + LOCK_MS
    harness.partition.expire(NOW + 300 + LOCK_MS)
    assert harness.partition.lock_timeouts == 10 and harness.partition.deadline() is None


def test_acknowledgement_below_the_start_is_ignored() -> None:
    harness = Harness()
    harness.end(harness.acknowledge(0, 4, AckType.ACCEPT))
    assert harness.partition.start_offset == 5
    for last, start in ((4, 5), (5, 6)):
        output = harness.acknowledge(0, last, AckType.ACCEPT)
        replies = [*output.replies, *harness.end(output).replies]
        assert [one.validation_error for one in replies] == [None] and harness.partition.start_offset == start


# ---- ends of members, records and locks


def test_member_that_leaves_releases_what_it_has() -> None:
    harness = Harness()
    harness.end(harness.acknowledge(0, 4, AckType.RELEASE))
    assert harness.acquire("n") == [(0, 4)]
    harness.partition.release("m")
    (write,) = harness.partition.take().writes
    assert write.batches == (StateBatch(5, 9, int(AVAILABLE), 1),)
    harness.partition.written(write.id, None)
    assert harness.states == [(0, 4, ACQUIRED, 2), (5, 9, AVAILABLE, 1)]
    harness.partition.release("other")
    assert harness.partition.take() == SharePartitionOutput([], [], [])


def test_start_moves_past_final_records_in_order() -> None:
    harness = Harness()
    later = harness.acknowledge(5, 6, AckType.ACCEPT)
    harness.end(later)
    partition = harness.partition
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count) == (0, 10, 2)
    assert (partition.in_flight_count, partition.next_fetch_offset()) == (8, 10)
    harness.end(harness.acknowledge(0, 4, AckType.ACCEPT))
    assert (partition.start_offset, partition.delivery_complete_count, partition.in_flight_count) == (7, 0, 3)


@pytest.mark.parametrize(("locks", "may"), [(10, False), (11, True)])
def test_new_records_need_a_lock_and_returned_ones_do_not(locks: int, may: bool) -> None:
    harness = Harness(record_locks=locks)
    assert harness.partition.can_acquire() == may
    assert harness.partition.acquirable() == (0, 10, locks - 10)
    harness.end(harness.acknowledge(9, 9, AckType.RELEASE))
    assert harness.partition.can_acquire() and harness.partition.acquirable() == (1, 10, locks - 10)


def test_aborted_records_are_archived_if_their_member_still_has_them() -> None:
    harness = Harness()
    harness.acknowledge(4, 5, AckType.ACCEPT)
    harness.partition.archive_acquired("m", 3, 6)
    harness.partition.archive_acquired("n", 8, 9)
    harness.partition.archive(0, 9)
    assert [(first, last, state) for first, last, state, _ in harness.states if state is ARCHIVED] == [
        (3, 3, ARCHIVED), (6, 6, ARCHIVED),
    ]  # fmt: skip
    available = Harness()
    available.partition.expire(NOW + LOCK_MS)
    available.partition.archive(8, 9)
    assert available.states == [(0, 7, AVAILABLE, 1), (8, 9, ARCHIVED, 1)]


def test_requests_that_wait_for_a_write_are_returned_when_the_partition_moves() -> None:
    harness = Harness()
    harness.acknowledge(0, 0, AckType.ACCEPT)
    harness.partition.expire(NOW + LOCK_MS)
    assert harness.partition.abandon() == ["token"] and harness.partition.abandon() == []


@pytest.mark.parametrize(("count", "is_rejected"), [(1, True), (4, True), (5, False), (6, False)])
def test_dead_letters_of_a_loaded_state_are_sent_again(count: int, is_rejected: bool) -> None:
    batches = [StateBatch(3, 4, int(ARCHIVING), count), StateBatch(0, 1, int(ACKNOWLEDGED), 1)]
    partition = SharePartition(0, batches, Limits(delivery_count=5))
    assert partition.take().dead_letter_records == [DeadLetter(3, 4, count, is_rejected)]
    assert [(run.first, run.last, run.state) for run in partition.runs] == [(2, 2, AVAILABLE), (3, 4, ARCHIVING)]
    assert partition.start_offset == 2


def test_overlapping_loaded_states_count_once() -> None:
    batches = [
        StateBatch(0, 4, int(AVAILABLE), 1),
        StateBatch(2, 6, int(ARCHIVED), 2),
        StateBatch(1, 3, int(ARCHIVED), 1),
    ]
    partition = SharePartition(0, batches)
    assert [(run.first, run.last, run.state, run.delivery_count) for run in partition.runs] == [
        (0, 4, AVAILABLE, 1), (5, 6, ARCHIVED, 2),
    ]  # fmt: skip
