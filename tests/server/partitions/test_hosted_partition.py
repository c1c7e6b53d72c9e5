"""A replica without a broker: what it writes, commits, refuses and tells those who wait, in each role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.acks import ALL_IN_SYNC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import iter_headers, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.append_rules import AppendRules
from odradek.server.partitions.batch_validation import Rejected, RejectedUnseen
from odradek.server.partitions.hosted_partition import TAKEOVER_MS
from odradek.server.partitions.replica_flush import ReplicaFlush
from odradek.server.partitions.transaction_marker import Marker
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.hosted import NOW_MS, PLAIN, Hosted, Watching, batch
from tests.server.harness.scripted_log import ScriptedLog
from tests.server.harness.virtual_time import simulated, turns

OWN, SECOND, THIRD = 0, 2, 3
LAG_MS = 30_000
NOTHING = AppendResult(0)


def rules(**changes: Any) -> AppendRules:
    values = {
        "compression": None,
        "level": None,
        "log_append_time": False,
        "timestamp_before_max_ms": 1 << 62,
        "timestamp_after_max_ms": 1 << 62,
        "compact": False,
        "min_insync_replicas": 1,
        "max_message_bytes": 1_048_588,
        "max_decompressed_bytes": 1 << 30,
        "segment_bytes": 1 << 30,
    }
    return AppendRules(**{**values, **changes})


def produced(count: int = 1, **options: Any) -> bytearray:
    """Returns a batch as a producer sends it."""
    return bytearray(encode_batch([Record(number, NOW_MS, b"k", b"v") for number in range(count)], **options))


def failing(hosted: Hosted, name: str) -> LogDirectoryFailure:
    """Lets the disk fail in one operation of the log."""
    assert isinstance(hosted.log, ScriptedLog)
    failure = LogDirectoryFailure("/d", name, OSError(5, "broken"))
    hosted.log.fail(name, failure)
    return failure


def append(hosted: Hosted, count: int = 1, **options: Any) -> AppendResult:
    return hosted.append(produced(count), NOW_MS, **options)


# ---- appends


def test_leader_without_followers_commits_what_it_writes(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(epoch=5)
    watching, at_end = Watching(), Watching()
    hosted.watchers[watching] = hosted.end_watchers[at_end] = None
    first = append(hosted, 2)
    second = append(hosted, 3)
    assert (first.error, first.base_offset, first.end_offset, first.log_start_offset) == (0, 0, 2, 0)
    assert (second.base_offset, second.end_offset, second.log_append_time_ms, second.must_flush) == (2, 5, -1, False)
    assert hosted.offsets() == (0, 5, 5)
    data = hosted.log.read(0, 1 << 20).bytes()
    assert [(one.base_offset, one.leader_epoch) for _, one in iter_headers(data)] == [(0, 5), (2, 5)]
    sizes = [len(produced(2)), len(produced(3))]
    assert watching.sizes == at_end.sizes == sizes
    counters = hosted.counters
    assert (counters.bytes_in, counters.messages_in, counters.produces) == (sum(sizes), 5, 2)


def test_batch_of_a_leader_with_followers_is_committed_when_they_have_it(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND, THIRD)
    watching, at_end = Watching(), Watching()
    hosted.watchers[watching] = hosted.end_watchers[at_end] = None
    append(hosted, 4)
    assert (hosted.offsets(), watching.sizes, len(at_end.sizes)) == ((0, 0, 4), [], 1)
    hosted.follower_fetched(SECOND, 4, 0, 1, NOW_MS)
    assert hosted.high_watermark == 0
    hosted.follower_fetched(THIRD, 3, 0, 1, NOW_MS)
    assert (hosted.high_watermark, watching.sizes) == (3, [3])
    hosted.follower_fetched(THIRD, 4, 0, 1, NOW_MS)
    assert (hosted.high_watermark, watching.sizes) == (4, [3, 1])


@pytest.mark.parametrize(
    ("role", "acks", "error"),
    [
        ("leader", 1, 0),
        ("leader", ALL_IN_SYNC, ErrorCode.NOT_ENOUGH_REPLICAS),
        ("follower", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("offline", 1, ErrorCode.KAFKA_STORAGE_ERROR),
        ("offline follower", ALL_IN_SYNC, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_append_needs_a_leader_that_is_online_and_for_acks_all_enough_replicas(
    role: str, acks: int, error: int, tmp_path: Path
) -> None:
    hosted = Hosted(tmp_path, rules=rules(min_insync_replicas=2))
    if "follower" in role:
        hosted.follow_leader(SECOND)
    else:
        hosted.lead(SECOND, isr=(OWN,))
    if "offline" in role:
        hosted.offline = True
        hosted.refresh_append_state()
    result = append(hosted, required_acks=acks)
    assert result.error == error
    assert hosted.log_end_offset == int(not error)
    assert result.log_start_offset == (-1 if error and error != ErrorCode.NOT_ENOUGH_REPLICAS else 0)


def test_log_append_time_is_returned(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, rules=rules(log_append_time=True))
    hosted.lead()
    assert append(hosted).log_append_time_ms == NOW_MS
    assert hosted.append(produced(), NOW_MS + 7).log_append_time_ms == NOW_MS + 7


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("is_in_transaction", [True, False])
def test_transactional_batch_needs_a_transaction(codec: Compression, is_in_transaction: bool, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead()

    def send(sequence: int, epoch: int = 0, *, confirmed: bool = False) -> AppendResult:
        data = produced(
            compression=codec, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        return hosted.append(data, NOW_MS, is_in_transaction=confirmed)

    first = send(0, confirmed=is_in_transaction)
    assert first.error == (0 if is_in_transaction else ErrorCode.INVALID_TXN_STATE)
    assert first.log_start_offset == 0
    if is_in_transaction:
        assert hosted.is_in_transaction(7, 0) and not hosted.is_in_transaction(7, 1)
        assert send(1).error == 0, "the transaction is open here"
        assert send(0, 1).error == ErrorCode.INVALID_TXN_STATE, "another epoch is another transaction"
        assert hosted.end_transaction(Marker(7, 0, True, 1, 1), NOW_MS).error == 0
        duplicate = send(1)
        assert (duplicate.error, duplicate.base_offset, duplicate.end_offset) == (0, 1, 2)
        assert send(2).error == ErrorCode.INVALID_TXN_STATE
        assert hosted.end_transaction(Marker(7, 1, True, 1, 1), NOW_MS).error == 0
        assert send(3).error == ErrorCode.INVALID_PRODUCER_EPOCH


def test_duplicate_is_answered_with_its_first_offsets(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead()

    def send(count: int, sequence: int) -> AppendResult:
        return hosted.append(produced(count, producer_id=7, producer_epoch=0, base_sequence=sequence), NOW_MS)

    send(2, 0)
    send(3, 2)
    again = send(2, 0)
    assert (again.error, again.base_offset, again.end_offset, again.log_append_time_ms) == (0, 0, 2, NOW_MS)
    assert (hosted.counters.failed_produces, hosted.counters.invalid_sequence) == (0, 0)
    gap = send(1, 9)
    assert (gap.error, gap.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert (hosted.counters.failed_produces, hosted.counters.invalid_sequence) == (1, 1)
    assert hosted.log_end_offset == 5


@pytest.mark.parametrize(
    ("epoch", "after_ms", "error"),
    [
        (1, TAKEOVER_MS - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, TAKEOVER_MS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_gap_after_a_takeover_may_be_on_its_way_to_the_former_leader(
    epoch: int, after_ms: int, error: ErrorCode, tmp_path: Path
) -> None:
    hosted = Hosted(tmp_path)
    hosted.log.append(
        encode_batch([Record(0, NOW_MS, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0), None, NOW_MS
    )
    hosted.role.appended(1, NOW_MS)
    hosted.lead(epoch=epoch)
    result = hosted.append(produced(producer_id=7, producer_epoch=0, base_sequence=5), NOW_MS + after_ms)
    assert result.error == error
    is_final = error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (result.log_start_offset, hosted.counters.invalid_sequence) == ((0, 1) if is_final else (-1, 0))
    assert hosted.counters.failed_produces == 1


@pytest.mark.parametrize(
    ("rejected", "start", "counted"),
    [
        (Rejected(ErrorCode.MESSAGE_TOO_LARGE), -1, (1, 70, 0)),
        (Rejected(ErrorCode.RECORD_LIST_TOO_LARGE), -1, (1, 0, 0)),
        (Rejected(ErrorCode.CORRUPT_MESSAGE), -1, (1, 0, 1)),
        (Rejected(ErrorCode.INVALID_TIMESTAMP), 0, (1, 0, 0)),
        (RejectedUnseen(ErrorCode.INVALID_RECORD), -1, (1, 0, 0)),
    ],
)
def test_rejection_is_counted_by_its_reason(
    rejected: Rejected, start: int, counted: tuple[int, int, int], tmp_path: Path
) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead()
    result = hosted.rejected(rejected, 70)
    assert (result.error, result.log_start_offset) == (rejected.error, start)
    counters = hosted.counters
    assert (counters.failed_produces, counters.bytes_rejected, counters.invalid_crc) == counted


@pytest.mark.parametrize("own", [True, False])
def test_append_to_a_failing_disk_takes_the_directory_offline(own: bool, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, log_class=ScriptedLog)
    hosted.lead()
    failure = failing(hosted, "append")
    result = hosted.append_own(produced(), NOW_MS) if own else append(hosted)
    assert (result.error, hosted.failures) == (ErrorCode.KAFKA_STORAGE_ERROR, [failure])
    assert hosted.high_watermark == 0 and hosted.counters.produces == 0


@pytest.mark.parametrize("is_writable", [True, False])
def test_own_batches_get_offsets_and_epoch_and_count_as_no_produce(is_writable: bool, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(epoch=6)
    append(hosted, 3)
    watching, at_end = Watching(), Watching()
    hosted.watchers[watching] = hosted.end_watchers[at_end] = None
    both = produced(2) + produced(4)
    result = hosted.append_own(both if is_writable else bytes(both), NOW_MS)
    assert (result.error, result.base_offset, result.end_offset, result.log_append_time_ms) == (0, 3, 9, -1)
    headers = [one for _, one in iter_headers(hosted.log.read(3, 1 << 20).bytes())]
    assert [(one.base_offset, one.leader_epoch) for one in headers] == [(3, 6), (5, 6)]
    assert hosted.offsets() == (0, 9, 9) and watching.sizes == at_end.sizes == [len(both)]
    assert hosted.counters.produces == 1
    hosted.lead(SECOND, epoch=7)
    watching.sizes.clear()
    hosted.append_own(produced(), NOW_MS)
    assert watching.sizes == [], "its follower does not have it"


@pytest.mark.parametrize(
    ("offline", "leads", "error"),
    [
        (True, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (True, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_own_batches_need_a_leader_that_is_online(offline: bool, leads: bool, error: ErrorCode, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    _ = hosted.lead() if leads else hosted.follow_leader(SECOND)
    hosted.offline = offline
    assert hosted.append_own(produced(), NOW_MS).error == error
    assert hosted.log_end_offset == 0


# ---- markers


def test_markers_have_a_result_each_and_wake_readers_of_committed_records(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(epoch=3)
    for producer_id in (7, 8):
        data = produced(producer_id=producer_id, producer_epoch=2, base_sequence=0, transactional=True)
        assert hosted.append(data, NOW_MS, is_in_transaction=True).error == 0
    watching = Watching()
    hosted.watchers[watching] = None
    markers = [Marker(7, 2, True, 1, 1), Marker(8, 1, True, 1, 1), Marker(9, 0, False, 1, 1)]
    results = hosted.end_transactions(markers, NOW_MS)
    assert [one.error for one in results] == [0, ErrorCode.INVALID_PRODUCER_EPOCH, 0]
    assert [(one.base_offset, one.end_offset) for one in (results[0], results[2])] == [(2, 3), (3, 4)]
    assert {(one.log_append_time_ms, one.log_start_offset) for one in (results[0], results[2])} == {(-1, 0)}
    assert watching.changes == 1
    assert hosted.last_stable_offset == 1, "that of producer 8 is open"
    data = hosted.log.read(2, 1 << 20).bytes()
    found = [
        (one.producer_id, one.producer_epoch, one.is_control, one.is_transactional) for _, one in iter_headers(data)
    ]
    assert found == [(7, 2, True, True), (9, 0, True, True)]


def test_markers_that_are_all_refused_write_nothing(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead()
    data = produced(producer_id=7, producer_epoch=2, base_sequence=0, transactional=True)
    hosted.append(data, NOW_MS, is_in_transaction=True)
    watching = Watching()
    hosted.watchers[watching] = None
    (result,) = hosted.end_transactions([Marker(7, 1, True, 1, 1)], NOW_MS)
    assert (result.error, watching.changes, hosted.log_end_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, 0, 1)


@pytest.mark.parametrize(
    ("state", "error"),
    [("too few", ErrorCode.NOT_ENOUGH_REPLICAS), ("offline", ErrorCode.KAFKA_STORAGE_ERROR)],
)
def test_markers_need_what_batches_with_acks_all_need(state: str, error: ErrorCode, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, rules=rules(min_insync_replicas=2))
    hosted.lead(SECOND, isr=(OWN,) if state == "too few" else None)
    hosted.offline = state == "offline"
    watching = Watching()
    hosted.watchers[watching] = None
    results = hosted.end_transactions([Marker(7, 1, True, 1, 1), Marker(8, 1, True, 1, 1)], NOW_MS)
    assert [one.error for one in results] == [error, error]
    assert (hosted.log_end_offset, watching.changes) == (0, 0)


# ---- waiting for commitment and deletion


def test_callbacks_are_called_in_the_order_of_their_offsets_as_these_are_committed(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    append(hosted, 9)
    called: list[tuple[int, int]] = []

    def wait(offset: int) -> None:
        hosted.when_committed(offset, lambda error: called.append((offset, error)))

    for offset in (0, 5, 3, 9, 3, 7):
        wait(offset)
    assert called == [(0, 0)]
    hosted.follower_fetched(SECOND, 3, 0, 1, NOW_MS)
    assert called[1:] == [(3, 0), (3, 0)]
    hosted.follower_fetched(SECOND, 8, 0, 1, NOW_MS)
    assert called[3:] == [(5, 0), (7, 0)]
    hosted.lead(SECOND, epoch=2, partition_epoch=1)
    assert len(called) == 5, "written records stay in a new epoch of the same leader"
    hosted.follow_leader(SECOND, epoch=3)
    assert called[5:] == [(9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    wait(9)
    assert called[6:] == [(9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    wait(8)
    assert called[7:] == [(8, 0)]


@pytest.mark.parametrize("was_leader", [True, False])
def test_callbacks_of_a_replica_that_goes_offline_fail(was_leader: bool, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    append(hosted, 2)
    called: list[int] = []
    hosted.when_committed(2, called.append)
    hosted.when_deleted(2, called.append)
    hosted.offline = True
    if was_leader:
        hosted.wake_all()
    else:
        hosted.follow_leader(SECOND, epoch=2)
    assert called == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    hosted.when_committed(2, called.append)
    assert called == [ErrorCode.KAFKA_STORAGE_ERROR] * 3


def test_deletion_waits_for_each_live_replica(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    append(hosted, 6)
    hosted.role.may_join = lambda replica, epoch: True
    hosted.follower_fetched(SECOND, 6, 0, 1, NOW_MS)
    assert hosted.high_watermark == 6
    called: list[tuple[int, int]] = []
    hosted.advance_log_start_offset(4)
    watching = Watching()
    hosted.watchers[watching] = None
    for offset in (4, 2, 0):
        hosted.when_deleted(offset, lambda error, offset=offset: called.append((offset, error)))  # type: ignore[misc]
    assert called == [(0, 0)] and hosted.low_watermark == 0
    hosted.follower_fetched(SECOND, 6, 3, 1, NOW_MS)
    assert called == [(0, 0), (2, 0)]
    hosted.follower_fetched(SECOND, 6, 4, 1, NOW_MS)
    assert called == [(0, 0), (2, 0), (4, 0)]
    assert watching.changes == 0
    hosted.advance_log_start_offset(4)
    assert watching.changes == 0
    hosted.advance_log_start_offset(5)
    assert watching.changes == 1


# ---- roles


def test_new_leader_begins_its_epoch_at_its_end_and_wakes_waiting_requests(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.follow_leader(SECOND)
    hosted.log.append(batch(3), None, NOW_MS)
    hosted.role.appended(3, NOW_MS)
    hosted.follow(2, 0)
    watching, at_end = Watching(), Watching()
    hosted.watchers[watching] = hosted.end_watchers[at_end] = None
    assert hosted.lead(epoch=5, partition_epoch=5, now_ms=NOW_MS + 9)
    assert hosted.log.epochs.entries()[-1] == (5, 3)
    assert (hosted.takeover_ms, hosted.log.producers.takeover_offset) == (NOW_MS + 9, 3)
    assert (watching.changes, at_end.changes, hosted.high_watermark, watching.sizes) == (1, 1, 3, [1])
    assert not hosted.lead(epoch=5, partition_epoch=6)
    assert (watching.changes, hosted.takeover_ms) == (1, NOW_MS + 9)
    assert hosted.follow_leader(SECOND, epoch=6)
    assert hosted.log.producers.takeover_offset is None and hosted.log.epochs.entries()[-1] == (5, 3)


def test_offline_leader_begins_no_epoch(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.offline = True
    hosted.lead(epoch=5)
    assert hosted.log.epochs.entries() == []


def test_follower_that_left_the_isr_is_looked_at_again(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND, THIRD)
    at_end = Watching()
    hosted.end_watchers[at_end] = None
    for number, (isr, changes) in enumerate([((0, 2), 1), ((0, 2, 3), 1), ((0, 2, 3), 1), ((0, 3), 2)], 1):
        hosted.lead(SECOND, THIRD, isr=isr, partition_epoch=number)
        assert at_end.changes == changes


def test_isr_that_shrinks_commits_what_the_rest_has(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    append(hosted, 4)
    watching = Watching()
    hosted.watchers[watching] = None
    hosted.lead(SECOND, isr=(OWN,), partition_epoch=1, now_ms=NOW_MS + LAG_MS - 1)
    assert (hosted.high_watermark, watching.sizes) == (0, []), "its follower may be about to join again"
    hosted.lead(SECOND, isr=(OWN,), partition_epoch=2, now_ms=NOW_MS + LAG_MS + 1)
    assert (hosted.high_watermark, watching.sizes) == (4, [4])


def test_isr_changes_are_proposed_and_accepted(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, rules=rules(min_insync_replicas=2))
    hosted.lead(SECOND)
    append(hosted, 4)
    at_end, watching = Watching(), Watching()
    hosted.end_watchers[at_end] = hosted.watchers[watching] = None
    hosted.shrink_isr(NOW_MS + LAG_MS)
    assert hosted.proposals == [], "it has its whole time"
    hosted.shrink_isr(NOW_MS + LAG_MS + 1)
    (shrinking,) = hosted.proposals
    assert shrinking.isr == (OWN,)
    hosted.isr_accepted(shrinking, (OWN,), 1, 1, NOW_MS)
    assert (at_end.changes, hosted.role.isr, hosted.high_watermark) == (1, (OWN,), 0)
    assert append(hosted, required_acks=ALL_IN_SYNC).error == ErrorCode.NOT_ENOUGH_REPLICAS
    hosted.follower_fetched(SECOND, 4, 0, 1, NOW_MS)
    joining = hosted.proposals[1]
    assert set(joining.isr) == {OWN, SECOND}
    hosted.isr_accepted(joining, (OWN, SECOND), 1, 2, NOW_MS)
    assert (hosted.high_watermark, watching.sizes, at_end.changes) == (4, [4], 1)
    assert append(hosted, required_acks=ALL_IN_SYNC).error == 0


def test_fetch_of_a_member_of_the_isr_proposes_nothing(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    hosted.follower_fetched(SECOND, 0, 0, 1, NOW_MS)
    assert hosted.proposals == []


@pytest.mark.parametrize(
    ("replica", "epoch", "error"),
    [
        (OWN, -1, 0),
        (SECOND, 5, 0),
        (THIRD, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (THIRD, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_fetch_of_a_broker_without_a_replica_is_an_error(replica: int, epoch: int, error: int, tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(SECOND)
    assert hosted.error_for_follower(replica, epoch) == error


@pytest.mark.parametrize(
    ("offline", "leads", "leader_only", "epoch", "error"),
    [
        (True, True, True, 1, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, True, True, 1, 0),
        (False, True, True, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (False, True, True, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (False, False, True, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (False, False, False, 1, 0),
    ],
)
def test_request_needs_the_epoch_and_the_role(
    offline: bool, leads: bool, leader_only: bool, epoch: int, error: int, tmp_path: Path
) -> None:
    hosted = Hosted(tmp_path)
    _ = hosted.lead(SECOND) if leads else hosted.follow_leader(SECOND)
    hosted.offline = offline
    assert hosted.error_for_epoch(epoch, leader_only=leader_only) == error


# ---- followers


def test_follower_takes_the_leaders_ends_as_far_as_its_log_reaches(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.follow_leader(SECOND)
    hosted.log.append(batch(6), None, NOW_MS)
    hosted.role.appended(6, NOW_MS)
    watching = Watching()
    hosted.watchers[watching] = None
    hosted.follow(4, 0)
    assert (hosted.offsets(), watching.sizes, watching.changes) == ((0, 4, 6), [4], 0)
    hosted.follow(4, 0)
    assert watching.sizes == [4]
    hosted.follow(9, 5)
    assert (hosted.offsets(), watching.sizes, watching.changes) == ((5, 6, 6), [4, 2], 1)
    hosted.follow(9, 5)
    assert watching.changes == 1
    hosted.log.truncate_to(6, NOW_MS)
    hosted.truncated()
    assert watching.changes == 2


def test_readers_of_damaged_records_are_woken(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead()
    watching, at_end = Watching(), Watching()
    hosted.watchers[watching] = hosted.end_watchers[at_end] = None
    hosted.wake_readers()
    assert (watching.changes, at_end.changes) == (1, 1)


# ---- large batches and those that a thread opens


def test_batches_behind_one_that_a_thread_opens_wait_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, rules=rules(compression=Compression.ZSTD))
        hosted.lead()
        results: list[AppendResult] = []
        data = produced(3, compression=Compression.GZIP)
        for records, acks in ((bytearray(data), 1), (produced(2), 1), (None, 1), (bytearray(data), ALL_IN_SYNC)):
            queued = hosted._enqueue(records, NOW_MS, acks, 13, False).queued
            assert queued is not None
            queued.then = results.append  # type: ignore[method-assign]
        assert hosted.queue is not None
        follow_on = hosted.append(produced(), NOW_MS)
        assert follow_on.queued is not None
        follow_on.queued.then = results.append  # type: ignore[method-assign]
        async with asyncio.timeout(30):
            while hosted.queue is not None:  # noqa: ASYNC110 - threads of the simulation end in turns of the loop
                await asyncio.sleep(0.001)
        assert [bool(one.error) for one in results] == [False, False, True, False, False]
        assert [one.base_offset for one in results if not one.error] == [0, 3, 5, 8]

    simulated(story)


# ---- flushes


class Disk:
    """A pool of threads of which the test decides when the work ends."""

    def __init__(self) -> None:
        self.started: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.disk = self

    def start(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.started.append((work, done))
        return done

    async def end(self, failure: Exception | None = None) -> None:
        work, done = self.started[-1]
        if failure is None:
            work()
            done.set_result(None)
        else:
            done.set_exception(failure)
        await turns()


def flushing(path: Path) -> tuple[Hosted, Disk, list[tuple[str, int]]]:
    disk: Any = Disk()
    hosted = Hosted(path, pools=disk, log_class=ScriptedLog)
    hosted.lead()
    return hosted, disk, []


def want(hosted: Hosted, offset: int, name: str, reported: list[tuple[str, int]]) -> None:
    hosted.want_flushed(offset, NOW_MS, lambda error: reported.append((name, error)))


def test_requests_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, disk, reported = flushing(tmp_path)
        append(hosted, 2)
        want(hosted, 2, "a", reported)
        append(hosted, 3)
        want(hosted, 5, "b", reported)
        append(hosted, 1)
        want(hosted, 4, "c", reported)
        assert len(disk.started) == 1 and reported == []
        await disk.end()
        assert reported == [("a", 0)] and hosted.log.recovery_point == 2
        assert len(disk.started) == 2 and isinstance(hosted.flush, ReplicaFlush)
        await disk.end()
        assert reported == [("a", 0), ("b", 0), ("c", 0)]
        assert hosted.log.recovery_point == 5 and hosted.flush is None
        want(hosted, 5, "d", reported)
        assert reported[-1] == ("d", 0) and hosted.flush is None and len(disk.started) == 2

    simulated(story)


@pytest.mark.parametrize(
    ("state", "error"),
    [("offline", ErrorCode.KAFKA_STORAGE_ERROR), ("removed", ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_flush_of_a_replica_that_is_gone_fails(state: str, error: ErrorCode, tmp_path: Path) -> None:
    async def story() -> None:
        hosted, disk, reported = flushing(tmp_path)
        append(hosted, 2)
        hosted.offline, hosted.is_removed = state == "offline", state == "removed"
        want(hosted, 2, "a", reported)
        assert reported == [("a", error)] and disk.started == [] and hosted.flush is None

    simulated(story)


@pytest.mark.parametrize("state", ["online", "removed", "another log"])
def test_failed_flush_takes_the_directory_offline_unless_its_files_may_be_gone(state: str, tmp_path: Path) -> None:
    failure = LogDirectoryFailure("/d", "flushing", OSError(5, "broken"))

    async def story() -> None:
        hosted, disk, reported = flushing(tmp_path)
        append(hosted, 2)
        want(hosted, 2, "a", reported)
        if state == "removed":
            hosted.is_removed = True
        elif state == "another log":
            other = Hosted(tmp_path / "other")
            other.lead()
            hosted.log = other.log

        def failed(error: Exception) -> None:
            hosted.failures.append(error)
            hosted.offline = True

        hosted.on_failure = failed
        await disk.end(failure)
        if state == "online":
            assert hosted.failures == [failure] and reported == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]
        elif state == "removed":
            assert hosted.failures == [] and reported == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        else:
            await disk.end()
            assert hosted.failures == [] and reported == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert hosted.flush is None

    simulated(story)


def test_flush_that_fails_by_a_bug_fails_its_callbacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        hosted, disk, reported = flushing(tmp_path)
        append(hosted, 2)
        want(hosted, 2, "a", reported)
        await disk.end(RuntimeError("oops"))
        assert reported == [("a", ErrorCode.KAFKA_STORAGE_ERROR)] and hosted.failures == []
        assert hosted.flush is None

    simulated(story)
    assert "a bug: orders-0 could not be flushed" in caplog.text


def test_flush_that_cannot_begin_takes_the_directory_offline(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, _, reported = flushing(tmp_path)
        append(hosted, 2)
        failure = failing(hosted, "prepare_flush")
        want(hosted, 2, "a", reported)
        assert (hosted.failures, reported) == ([failure], [("a", ErrorCode.KAFKA_STORAGE_ERROR)])

    simulated(story)


def test_records_that_were_cut_off_during_a_flush_are_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, disk, reported = flushing(tmp_path)
        append(hosted, 2)
        append(hosted, 3)
        want(hosted, 2, "a", reported)
        want(hosted, 5, "b", reported)
        hosted.follow_leader(SECOND, epoch=2)
        hosted.log.truncate_to(2, NOW_MS)
        hosted.truncated()
        await disk.end()
        assert reported == [("b", ErrorCode.NOT_LEADER_OR_FOLLOWER)], "another flush makes sure of the others"
        await disk.end()
        assert reported == [("b", ErrorCode.NOT_LEADER_OR_FOLLOWER), ("a", 0)]

    simulated(story)


@pytest.mark.parametrize(("followers", "waits"), [((), True), ((SECOND,), False)])
def test_flush_messages_holds_the_high_watermark_of_a_leader_without_followers(
    followers: tuple[int, ...], waits: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        disk: Any = Disk()
        hosted = Hosted(tmp_path, pools=disk, flush_messages=3)
        hosted.lead(*followers)
        watching = Watching()
        hosted.watchers[watching] = None
        assert not append(hosted, 2).must_flush
        assert append(hosted, 1).must_flush
        assert hosted.high_watermark == (2 if waits else 0)
        assert len(disk.started) == int(waits)
        if waits:
            append(hosted, 1)
            assert hosted.high_watermark == 2, "in its turn"
            await disk.end()
            assert hosted.high_watermark == 3
            await disk.end()
            assert hosted.high_watermark == 4
            assert len(watching.sizes) == 3

    simulated(story)


def test_header_of_a_batch_is_the_producers_but_for_offset_and_epoch(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path)
    hosted.lead(epoch=4)
    append(hosted, 3)
    sent = produced(2, producer_id=9, producer_epoch=1, base_sequence=0)
    hosted.append(bytearray(sent), NOW_MS)
    written = hosted.log.read(3, 1 << 20).bytes()
    assert read_header(written) == read_header(sent)._replace(base_offset=3, leader_epoch=4)
    assert [(one.offset, one.value) for one in decode_batch(written, 0, read_header(written))] == [(3, b"v"), (4, b"v")]
    assert hosted.rules is PLAIN


@pytest.mark.parametrize("leads", [True, False])
def test_epochs_that_no_leader_has_had_are_forgotten(
    leads: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The header of a batch names its epoch, and no CRC covers it."""

    async def story() -> None:
        hosted = Hosted(tmp_path, OWN)
        log = hosted.open_log()
        for offset, epoch in ((0, 1), (1, 17), (2, 1)):
            log.append(
                encode_batch([Record(offset, NOW_MS, None, b"v")], base_offset=offset, leader_epoch=epoch), None, NOW_MS
            )
        assert log.epochs.entries() == [(1, 0), (17, 1)]
        if leads:
            hosted.lead(SECOND, epoch=2)
        else:
            hosted.follow_leader(SECOND, epoch=2)
        assert log.epochs.entries() == ([(1, 0), (2, 3)] if leads else [(1, 0)])
        assert "leader epochs above 2" in caplog.text

    simulated(story)
