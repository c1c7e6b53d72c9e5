"""Requests to a leader and a follower of the quorum at the limits of what they take, and timeouts at their exact time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.metadata.internal_topics import CLUSTER_METADATA_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from odradek.protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse
from odradek.protocol.messages.fetch import SnapshotId as WireSnapshotId
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, VoterVersions
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.protocol.messages.voter_listeners import VoterListener as UpdatedListener
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.uuids import METADATA_TOPIC_ID
from odradek.replication.quorum import wire
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import (
    Appended,
    ElectionState,
    PeerRequest,
    PeerResponse,
    Reply,
    Resign,
    Send,
    Synced,
)
from odradek.replication.quorum.log import SnapshotId
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.roles import Follower, Leader, Resigned, Unattached
from odradek.replication.quorum.voter_changes import CAUGHT_UP_WITHIN_MS, CHANGE_TIMEOUT_MS
from odradek.replication.quorum.voters import BEFORE_THE_LOG, ReplicaKey, Voter, VoterHistory, VoterSet

from tests.replication.quorum.harness.transcript import Transcript
from tests.replication.quorum.quorum_simulator import directory, voter
from tests.replication.quorum.toy_log import ENTRIES_PER_READ, ENTRY_BYTES, ToyLog

FETCH_TIMEOUT_MS = QuorumConfig("").fetch_timeout_ms


def asked(quorum: Transcript, node: int, request: Any) -> list[Any]:
    """Returns the effects of a request."""
    quorum.replicas[node].handle(PeerRequest("token", request), quorum.now)
    return quorum.replicas[node].take()


def replies(effects: list[Any]) -> list[Any]:
    """Returns the responses to the requests of this file: other nodes' fetches wait at the leader, too."""
    return [one.response for one in effects if isinstance(one, Reply) and one.token == "token"]


def respond(quorum: Transcript, node: int, request: Any) -> Any:
    """Returns the node's response for the one partition; None while there is none."""
    found = replies(asked(quorum, node, request))
    return wire.response_of(found[0]) if found else None


def fetch(
    node: int, offset: int, *, epoch: int = 1, last_epoch: int = 1, wait_ms: int = 0, **fields: Any
) -> FetchRequest:
    request = wire.fetch_request("cluster", voter(node).key, epoch, SnapshotId(offset, last_epoch), 0)
    request.max_wait_ms = wait_ms
    for name, value in fields.items():
        setattr(request if hasattr(request, name) else request.topics[0].partitions[0], name, value)
    return request


# ---- fetches from the leader


@pytest.mark.parametrize(
    ("offset", "last_epoch", "epoch", "error"),
    [
        (0, 0, 1, ErrorCode.NONE),
        (-1, 0, 1, ErrorCode.INVALID_REQUEST),
        (0, -1, 1, ErrorCode.INVALID_REQUEST),
        (0, 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_fetch_is_checked_by_epoch_and_position(
    quorum: Transcript, offset: int, last_epoch: int, epoch: int, error: ErrorCode
) -> None:
    found = respond(quorum, 1, fetch(2, offset, epoch=epoch, last_epoch=last_epoch))
    assert found.error_code == error and found.current_leader.leader_id == 1 and found.current_leader.leader_epoch == 1


def test_fetch_from_a_follower_names_the_leader(quorum: Transcript) -> None:
    found = respond(quorum, 2, fetch(3, 0))
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


@pytest.mark.parametrize(
    ("max_bytes", "entries"), [(-1, 1), (0, 1), (ENTRY_BYTES, 1), (2 * ENTRY_BYTES, 2), (1 << 30, ENTRIES_PER_READ)]
)
def test_fetch_has_at_most_the_bytes_that_the_follower_takes(quorum: Transcript, max_bytes: int, entries: int) -> None:
    for _ in range(8):
        quorum.append(1)
    assert len(respond(quorum, 1, fetch(2, 0, max_bytes=max_bytes)).records) == entries


def test_fetch_without_new_records_waits_until_it_is_over(quorum: Transcript) -> None:
    leader = quorum.replicas[1]
    end, known = quorum.logs[1].end_offset, leader.high_watermark
    assert respond(quorum, 1, fetch(2, end, high_watermark=known, wait_ms=500)) is None
    assert leader.deadline() <= quorum.now + 500
    quorum.now += 499
    leader.expire(quorum.now)
    assert not replies(leader.take())
    quorum.now += 1
    leader.expire(quorum.now)
    (reply,) = replies(leader.take())
    found = wire.response_of(reply)
    assert (found.error_code, found.records, found.high_watermark) == (0, None, known)
    assert respond(quorum, 1, fetch(2, end, high_watermark=known, wait_ms=0)) is not None
    assert respond(quorum, 1, fetch(2, end, high_watermark=known - 1, wait_ms=500)) is not None, "a commit is news, too"


@pytest.mark.parametrize("event", ["append", "resign"])
def test_waiting_fetch_is_answered_by_a_new_record_and_by_the_end_of_the_epoch(quorum: Transcript, event: str) -> None:
    leader, log = quorum.replicas[1], quorum.logs[1]
    assert respond(quorum, 1, fetch(2, log.end_offset, high_watermark=leader.high_watermark, wait_ms=500)) is None
    if event == "append":
        log.append(1, "record")
    leader.handle(Appended(1, log.end_offset) if event == "append" else Resign(), quorum.now)
    (reply,) = replies(leader.take())
    found = wire.response_of(reply)
    if event == "append":
        assert (found.error_code, len(found.records)) == (0, 1)
    else:
        assert (found.error_code, found.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    leader.expire(quorum.now + 1000)
    assert not replies(leader.take()), "it is answered once"


def test_damaged_records_are_replaced_by_a_newer_snapshot_or_an_error(
    quorum: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        quorum.append(1)
    quorum.deliver()

    def damaged(offset: int, max_bytes: int) -> Any:
        raise CorruptBatch("damaged")

    log = quorum.logs[1]
    monkeypatch.setattr(log, "read", damaged)
    assert respond(quorum, 1, fetch(2, 1)).error_code == ErrorCode.CORRUPT_MESSAGE
    log.take_snapshot(3, False)
    found = respond(quorum, 1, fetch(2, 2))
    assert (found.error_code, found.snapshot_id.end_offset, found.snapshot_id.epoch) == (0, 3, 1)
    assert respond(quorum, 1, fetch(2, 3)).error_code == ErrorCode.CORRUPT_MESSAGE, "it has nothing that is missing"


def take_snapshot(quorum: Transcript, *, is_log_trimmed: bool) -> None:
    """Appends six records, which all voters get, and takes a snapshot of the leader's first four."""
    for _ in range(6):
        quorum.append(1)
    quorum.deliver()
    quorum.logs[1].take_snapshot(4, is_log_trimmed)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "is_snapshot"),
    [(0, 0, True), (3, 1, True), (4, 1, False), (4, 0, True), (4, 2, True), (5, 1, False), (5, 0, True)],
)
def test_follower_behind_the_start_of_the_log_gets_the_snapshot(
    quorum: Transcript, offset: int, last_epoch: int, is_snapshot: bool
) -> None:
    take_snapshot(quorum, is_log_trimmed=True)
    found = respond(quorum, 1, fetch(2, offset, last_epoch=last_epoch))
    assert (found.snapshot_id.end_offset, found.snapshot_id.epoch) == ((4, 1) if is_snapshot else (-1, -1))
    assert bool(found.records) == (not is_snapshot) and found.log_start_offset == 4


def snapshot(position: int, *, end: int = 4, epoch: int = 1, max_bytes: int = 1 << 20) -> FetchSnapshotRequest:
    return wire.snapshot_request("cluster", voter(2).key, epoch, SnapshotId(end, 1), position, max_bytes)


@pytest.mark.parametrize(
    ("request_", "error", "entries"),
    [
        (snapshot(0), ErrorCode.NONE, 4),
        (snapshot(3), ErrorCode.NONE, 1),
        (snapshot(4), ErrorCode.POSITION_OUT_OF_RANGE, 0),
        (snapshot(-1), ErrorCode.POSITION_OUT_OF_RANGE, 0),
        (snapshot(0, end=3), ErrorCode.SNAPSHOT_NOT_FOUND, 0),
        (snapshot(0, epoch=0), ErrorCode.FENCED_LEADER_EPOCH, 0),
        (snapshot(0, max_bytes=2 * ENTRY_BYTES), ErrorCode.NONE, 2),
        (snapshot(0, max_bytes=-1), ErrorCode.NONE, 0),
    ],
)
def test_snapshot_is_read_from_a_position_in_it(
    quorum: Transcript, request_: FetchSnapshotRequest, error: ErrorCode, entries: int
) -> None:
    take_snapshot(quorum, is_log_trimmed=False)
    found = respond(quorum, 1, request_)
    assert (found.error_code, len(found.unaligned_records)) == (error, entries)
    asked_position = request_.topics[0].partitions[0].position
    assert found.position == asked_position and found.size == (0 if error else 4)


# ---- check-quorum


def test_leader_that_no_majority_fetches_from_resigns_in_time(quorum: Transcript) -> None:
    """The followers give up first: their timeout is shorter."""
    leader, timeout_ms = quorum.replicas[1], FETCH_TIMEOUT_MS * 3 // 2
    role: Any = leader.role
    respond(quorum, 1, fetch(2, quorum.logs[1].end_offset))
    assert role.check_quorum_deadline == quorum.now + timeout_ms
    quorum.now += timeout_ms - 1
    respond(quorum, 1, fetch(9, quorum.logs[1].end_offset))
    leader.expire(quorum.now)
    assert isinstance(leader.role, Leader)
    quorum.now += 1
    leader.expire(quorum.now)
    assert isinstance(leader.role, Resigned), "an observer does not count"


def test_fetch_of_a_snapshot_is_a_sign_of_life(quorum: Transcript) -> None:
    leader = quorum.replicas[1]
    quorum.logs[1].take_snapshot(3, False)
    quorum.now += 1000
    respond(quorum, 1, snapshot(0, end=3))
    role: Any = leader.role
    assert role.check_quorum_deadline == quorum.now + FETCH_TIMEOUT_MS * 3 // 2
    quorum.now += 1000
    respond(quorum, 1, snapshot(9, end=3))
    assert role.check_quorum_deadline == quorum.now - 1000 + FETCH_TIMEOUT_MS * 3 // 2, "an invalid one is none"


def test_only_voter_never_resigns_for_want_of_a_majority() -> None:
    quorum = Transcript()
    quorum.voters(1)
    quorum.late(1)
    quorum.now += 10 * FETCH_TIMEOUT_MS
    for _ in range(3):
        quorum.late(1)
    assert isinstance(quorum.replicas[1].role, Leader)


def test_successor_is_the_voter_with_the_longest_log(quorum: Transcript) -> None:
    for _ in range(3):
        quorum.append(1)
    respond(quorum, 1, fetch(3, quorum.logs[1].end_offset))
    quorum.resign(1)
    role = quorum.replicas[1].role
    assert isinstance(role, Resigned)
    assert [key.id for key in role.preferred] == [3, 2] and role.unacknowledged == {2, 3}


# ---- a follower's fetches


def fetched(quorum: Transcript, response: FetchResponse | None) -> list[Any]:
    """Gives node 2 the response to its fetch in flight. Returns what it sends then."""
    number = quorum.replicas[2]._core._in_flight[1].correlation
    quorum.replicas[2].handle(PeerResponse(1, number, response), quorum.now)
    return [one.request for one in quorum.replicas[2].take() if isinstance(one, Send)]


def test_follower_stands_when_its_leader_has_been_silent_for_the_fetch_timeout(quorum: Transcript) -> None:
    follower = quorum.replicas[2]
    quorum.append(1)
    quorum.now += 700
    fetched(quorum, wire.fetch_response(1, 1, high_watermark=3))
    role: Any = follower.role
    assert role.fetch_deadline == quorum.now + FETCH_TIMEOUT_MS
    quorum.now += FETCH_TIMEOUT_MS - 1
    follower.expire(quorum.now)
    assert isinstance(follower.role, Follower)
    quorum.now += 1
    follower.expire(quorum.now)
    assert type(follower.role).__name__ == "Prospective"


@pytest.mark.parametrize(
    ("end_offset", "epoch", "is_snapshot"), [(0, 0, True), (4, 1, True), (-1, 1, False), (4, -1, False)]
)
def test_follower_fetches_the_snapshot_that_the_leader_names(
    quorum: Transcript, end_offset: int, epoch: int, is_snapshot: bool
) -> None:
    quorum.append(1)
    named = WireSnapshotId(end_offset=end_offset, epoch=epoch)
    (request,) = fetched(quorum, wire.fetch_response(1, 1, high_watermark=3, snapshot_id=named))
    assert isinstance(request, FetchSnapshotRequest) == is_snapshot
    if is_snapshot:
        part = request.topics[0].partitions[0]
        assert (part.snapshot_id.end_offset, part.snapshot_id.epoch, part.position) == (end_offset, epoch, 0)


@pytest.mark.parametrize(
    ("changes", "is_taken"), [({}, True), ({"end": 7}, False), ({"epoch": 2}, False), ({"position": 1}, False)]
)
def test_piece_of_another_snapshot_or_position_is_not_written(
    quorum: Transcript, changes: dict[str, int], is_taken: bool
) -> None:
    quorum.append(1)
    named = WireSnapshotId(end_offset=6, epoch=1)
    fetched(quorum, wire.fetch_response(1, 1, high_watermark=3, snapshot_id=named))
    sent = SnapshotId(changes.get("end", 6), changes.get("epoch", 1))
    entries = quorum.logs[1].entries[:2]
    fields = {"size": 6, "position": changes.get("position", 0), "unaligned_records": entries}
    (request,) = fetched(quorum, wire.snapshot_response(1, 1, sent, **fields))  # type: ignore[arg-type]
    assert len(quorum.logs[2].partial) == (2 if is_taken else 0)
    assert request.topics[0].partitions[0].position == (2 if is_taken else 0)


def test_follower_keeps_what_both_logs_share(quorum: Transcript) -> None:
    quorum.append(1)
    log = quorum.logs[2]
    log.entries += [log.entries[-1]] * 2
    end = quorum.logs[2].end_offset - 2
    fetched(
        quorum,
        wire.fetch_response(1, 1, high_watermark=end, diverging_epoch=EpochEndOffset(epoch=1, end_offset=end + 1)),
    )
    assert log.end_offset == end + 1


# ---- changes of the voters


def add(quorum: Transcript, *, timeout_ms: int = 30_000) -> Send:
    listeners = [VoterListener("CONTROLLER", "c4", 9093)]
    request = AddRaftVoterRequest("cluster", timeout_ms, 4, directory(4), listeners)
    (found,) = (one for one in asked(quorum, 1, request) if isinstance(one, Send) and one.node == 4)
    return found


def described(quorum: Transcript, sent: Send, low: int, high: int, *, node: int = 4) -> list[int]:
    """Gives the leader the versions of the new voter. Returns the error codes of its responses."""
    feature = SupportedFeatureKey("kraft.version", low, high)
    other = SupportedFeatureKey("metadata.version", 9, 9)
    response = ApiVersionsResponse(supported_features=[other, feature])
    quorum.replicas[1].handle(PeerResponse(node, sent.correlation, response), quorum.now)
    return [one.error_code for one in replies(quorum.replicas[1].take())]


@pytest.mark.parametrize(
    ("low", "high", "is_taken"), [(0, 1, True), (1, 1, True), (0, 2, True), (0, 0, False), (2, 3, False)]
)
def test_new_voter_supports_the_version_of_the_quorum(quorum: Transcript, low: int, high: int, is_taken: bool) -> None:
    respond(quorum, 1, fetch(4, quorum.logs[1].end_offset))
    errors = described(quorum, add(quorum), low, high)
    assert errors == ([] if is_taken else [ErrorCode.INVALID_REQUEST])
    assert (4 in quorum.replicas[1].voter_set.voters) == is_taken
    if is_taken:
        made = quorum.replicas[1].voter_set.voters[4]
        assert (made.min_kraft_version, made.max_kraft_version, made.addresses[0].host) == (low, high, "c4")


@pytest.mark.parametrize(
    ("age_ms", "is_taken"), [(0, True), (CAUGHT_UP_WITHIN_MS, True), (CAUGHT_UP_WITHIN_MS + 1, False), (None, False)]
)
def test_new_voter_was_caught_up_within_the_last_hour(quorum: Transcript, age_ms: int | None, is_taken: bool) -> None:
    if age_ms is not None:
        respond(quorum, 1, fetch(4, quorum.logs[1].end_offset))
        quorum.now += age_ms
    errors = described(quorum, add(quorum), 0, 1)
    assert errors == ([] if is_taken else [ErrorCode.REQUEST_TIMED_OUT])


def test_new_voter_that_keeps_pace_one_fetch_behind_is_caught_up(quorum: Transcript) -> None:
    """Under a steady load no fetch is at the end of the log."""
    quorum.now += CAUGHT_UP_WITHIN_MS * 2
    for _ in range(3):
        end = quorum.logs[1].end_offset
        quorum.append(1)
        quorum.now += 10
        respond(quorum, 1, fetch(4, end))
    assert described(quorum, add(quorum), 0, 1) == []


@pytest.mark.parametrize("timeout_ms", [10, 1000])
def test_addition_without_a_response_ends_with_its_own_timeout(quorum: Transcript, timeout_ms: int) -> None:
    add(quorum, timeout_ms=timeout_ms)
    leader = quorum.replicas[1]
    assert leader.deadline() <= quorum.now + timeout_ms
    quorum.now += timeout_ms - 1
    leader.expire(quorum.now)
    assert not replies(leader.take())
    quorum.now += 1
    leader.expire(quorum.now)
    (reply,) = replies(leader.take())
    assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert add(quorum), "the next change may come"


def remove(quorum: Transcript, node: int, of: int | None = None) -> list[Any]:
    request = RemoveRaftVoterRequest("cluster", node, directory(node if of is None else of))
    return [one.error_code for one in replies(asked(quorum, 1, request))]


def test_removal_is_answered_when_it_is_committed_or_too_late(quorum: Transcript) -> None:
    assert remove(quorum, 9) == [ErrorCode.VOTER_NOT_FOUND]
    assert remove(quorum, 3, of=2) == [ErrorCode.VOTER_NOT_FOUND]
    assert remove(quorum, 3) == []
    leader = quorum.replicas[1]
    assert leader.voter_set.ids == (1, 2)
    quorum.now += CHANGE_TIMEOUT_MS - 1
    role: Any = leader.role
    role.check_quorum_deadline = quorum.now + 10_000
    leader.expire(quorum.now)
    assert not replies(leader.take())
    quorum.now += 1
    leader.expire(quorum.now)
    (reply,) = replies(leader.take())
    assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_removal_is_answered_once_it_is_committed(quorum: Transcript) -> None:
    assert remove(quorum, 3) == []
    end = quorum.logs[1].end_offset
    quorum.replicas[1].handle(Synced(end), quorum.now)
    found = replies(asked(quorum, 1, fetch(2, end)))
    assert [one.error_code for one in found if isinstance(one, RemoveRaftVoterResponse)] == [0]


def test_last_voter_is_not_removed() -> None:
    quorum = Transcript()
    quorum.voters(1)
    quorum.late(1)
    assert remove(quorum, 1) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("low", "high", "name", "of", "epoch", "error"),
    [
        (0, 1, "CONTROLLER", 2, 1, ErrorCode.NONE),
        (1, 1, "CONTROLLER", 2, 1, ErrorCode.NONE),
        (0, 0, "CONTROLLER", 2, 1, ErrorCode.INVALID_REQUEST),
        (2, 2, "CONTROLLER", 2, 1, ErrorCode.INVALID_REQUEST),
        (0, 1, "OTHER", 2, 1, ErrorCode.INVALID_REQUEST),
        (0, 1, "CONTROLLER", 3, 1, ErrorCode.VOTER_NOT_FOUND),
        (0, 1, "CONTROLLER", 2, 0, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_update_of_a_voter_is_checked_and_answered_at_once(
    quorum: Transcript, low: int, high: int, name: str, of: int, epoch: int, error: ErrorCode
) -> None:
    request = UpdateRaftVoterRequest(
        "cluster", epoch, 2, directory(of), [UpdatedListener(name, "new", 9)], VoterVersions(low, high)
    )
    (found,) = replies(asked(quorum, 1, request))
    assert found.error_code == error and found.current_leader.leader_id == 1
    kept = quorum.replicas[1].voter_set.voters[2]
    assert (kept.addresses[0].host == "new") == (error is ErrorCode.NONE)


# ---- histories of voters, and partitions of requests


def test_voters_at_the_first_offset_belong_to_the_log() -> None:
    one, two = (VoterSet.of(Voter(ReplicaKey(id, bytes([id]) * 16)) for id in ids) for ids in ((1,), (1, 2)))
    history = VoterHistory(one)
    history.add(0, two)
    history.set_kraft_version(0, 1)
    assert history.at(0) == (one, 0) and history.at(-1) == (one, 0) and history.at(1) == (two, 1)
    assert (history.current, history.previous, history.current_offset) == (two, one, 0)
    history.forget()
    assert (history.current, history.previous, history.current_offset) == (one, one, BEFORE_THE_LOG)
    assert history.kraft_version == 0


@pytest.mark.parametrize(
    ("topic", "index", "is_metadata"),
    [(CLUSTER_METADATA_TOPIC, 0, True), (CLUSTER_METADATA_TOPIC, 1, False), ("other", 0, False)],
)
def test_only_the_first_partition_of_the_metadata_topic_is_the_quorums(
    topic: str, index: int, is_metadata: bool
) -> None:
    named = fetch(2, 0)
    named.topics[0].topic, named.topics[0].topic_id = topic, bytes(16)
    named.topics[0].partitions[0].partition = index
    by_id = fetch(2, 0)
    by_id.topics[0].topic = ""
    by_id.topics[0].topic_id = METADATA_TOPIC_ID if topic == CLUSTER_METADATA_TOPIC else bytes(16)
    by_id.topics[0].partitions[0].partition = index
    vote = wire.vote_request("cluster", voter(2).key, voter(3).key, 2, SnapshotId(3, 1), pre_vote=False)
    vote.topics[0].topic_name = topic
    vote.topics[0].partitions[0].partition_index = index
    part = snapshot(0)
    part.topics[0].name = topic
    part.topics[0].partitions[0].partition = index
    for request in (named, by_id, vote, part):
        found = wire.partition_of(request)
        assert found is (request.topics[0].partitions[0] if is_metadata else None)
    vote.topics[0].partitions.append(vote.topics[0].partitions[0])
    assert wire.partition_of(vote) is None


# ---- observers


def test_observer_asks_again_after_the_backoff_of_each_node() -> None:
    config = QuorumConfig("cluster", bootstrap=(-2,))
    history, remembered = VoterHistory(VoterSet.of(()), 1), Remembered(ElectionState())
    observer = QuorumReplica(voter(9).key, config, ToyLog(), history, remembered, random.Random(1), 0)
    observer.expire(0)
    (first,) = (one for one in observer.take() if isinstance(one, Send))
    assert isinstance(observer.role, Unattached) and observer.deadline() == config.request_timeout_ms
    observer.expire(config.request_timeout_ms - 1)
    assert observer.take() == []
    observer.handle(PeerResponse(-2, first.correlation, None), 100)
    assert observer.deadline() == 100 + config.retry_backoff_ms
    observer.expire(100 + config.retry_backoff_ms)
    assert [one.node for one in observer.take() if isinstance(one, Send)] == [-2]


# ---- what a leader and a follower know of each other


def begun(quorum: Transcript, now: int) -> list[int]:
    """Returns the voters to which the leader sends BeginQuorumEpoch."""
    leader = quorum.replicas[1]
    leader.expire(now)
    sent = [one for one in leader.take() if isinstance(one, Send)]
    for one in sent:
        leader.handle(PeerResponse(one.node, one.correlation, wire.begin_response(ErrorCode.NONE, 1, 1)), now)
    leader.take()
    return [one.node for one in sent]


def test_voter_that_does_not_fetch_is_reminded_of_its_leader(quorum: Transcript) -> None:
    start, half = quorum.now, FETCH_TIMEOUT_MS // 2
    for node in (2, 3):
        respond(quorum, 1, fetch(node, quorum.logs[1].end_offset))
    assert begun(quorum, start + half - 1) == []
    quorum.now = start + half - 1
    respond(quorum, 1, fetch(2, quorum.logs[1].end_offset))
    assert begun(quorum, start + half) == [3], "a fetch is a sign of life"
    assert begun(quorum, start + 2 * half - 2) == []
    assert begun(quorum, start + 2 * half - 1) == [2]


@pytest.mark.parametrize(
    ("ends", "caught_up"),
    [
        ([(3, 0)], 0),
        ([(2, 0), (3, 5)], 0),
        ([(2, 0), (4, 5)], 5),
        ([(3, 0), (4, 5)], 5),
        ([(0, 0)], -1),
        ([(0, 0), (2, 5)], -1),
    ],
)
def test_replica_is_caught_up_when_it_had_what_the_leader_had_at_its_last_fetch(
    quorum: Transcript, ends: list[tuple[int, int]], caught_up: int
) -> None:
    """Pairs of what a new observer has, and when: the leader has three records, then four. -1: it never was."""
    leader, start = quorum.replicas[1], quorum.now
    assert quorum.logs[1].end_offset == 3
    for number, (offset, later_ms) in enumerate(ends):
        quorum.now = start + later_ms
        if number:
            quorum.append(1)
        respond(quorum, 1, fetch(9, offset))
    role: Any = leader.role
    progress = role.progress[voter(9).key]
    assert progress.last_caught_up_ms == (start + caught_up if caught_up >= 0 else -1)
    assert (progress.end_offset, progress.last_fetch_ms) == (ends[-1][0], quorum.now)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_feature": VoterVersions(1, 1)}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_feature": VoterVersions(0, 0)}, ErrorCode.NONE),
        ({"voter_id": 9}, ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_static_voter_describes_itself_completely(fields: dict[str, Any], error: ErrorCode) -> None:
    quorum = Transcript()
    quorum.voters(1, 2, 3)
    for node in (1, 2, 3):
        quorum.replicas[node]._core.voters = VoterHistory(
            VoterSet.of(Voter(ReplicaKey(one)) for one in (1, 2, 3)), kraft_version=0
        )
    quorum.late(1)
    quorum.deliver()
    plain = {
        "cluster_id": "cluster", "current_leader_epoch": 1, "voter_id": 2, "voter_directory_id": directory(2),
        "listeners": [UpdatedListener("CONTROLLER", "c2", 9093)], "kraft_version_feature": VoterVersions(0, 1),
    }  # fmt: skip
    (found,) = replies(asked(quorum, 1, UpdateRaftVoterRequest(**(plain | fields))))
    role: Any = quorum.replicas[1].role
    assert found.error_code == error and (2 in role.described) == (error is ErrorCode.NONE)
