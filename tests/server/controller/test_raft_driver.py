"""The driver of a quorum's replica in simulated time: the order of its effects, its timer, its flushes and its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.codec import MalformedMessage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import fetch
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.schema import Message
from odradek.replication.quorum.effects import (
    Appended,
    ElectionState,
    Flush,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    RaiseKRaftVersion,
    Reply,
    Resign,
    Send,
    Synced,
    WriteState,
)
from odradek.replication.quorum.invariants import BrokenInvariant
from odradek.replication.quorum.roles import Follower, Leader, Resigned, Unattached
from odradek.replication.quorum.voters import Address, ReplicaKey, Voter, VoterSet
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import raft as raft_module
from odradek.server.controller.joining import monotonic_clock
from odradek.server.controller.known_leader import KnownLeader
from odradek.server.controller.known_leader import QuorumLeader as NotedLeader
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog
from odradek.server.controller.quorum_requests import QuorumEndpoints, QuorumSender, bootstrap_endpoints, static_voters
from odradek.server.controller.raft import QuorumRaft, reject_token
from odradek.server.runtime.lazy import Lazy
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.quorum_state import read_quorum_state

from tests.server.harness.nodes import node_of
from tests.server.harness.noted_peers import NotedPeers
from tests.server.harness.quorum_membership import membership_of
from tests.server.harness.raft_engine import raft_of
from tests.server.harness.scripted_engine import ScriptedEngine
from tests.server.harness.scripted_replica import ScriptedReplica
from tests.server.harness.scripted_replicated_log import ScriptedReplicatedLog
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

LEADER = Endpoint("C", "leader", 9093)
KEY = ReplicaKey(0)
TIMEOUT_MS = 700
NOTHING: Any = object()


class Token:
    """A request of another node."""

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.failed = 0

    def reply(self, response: Any) -> None:
        self.replies.append(response)

    def fail(self) -> None:
        self.failed += 1


class NotedEndpoints(QuorumEndpoints):
    """`learned`: the responses, and the requests with their epochs, that endpoints were learnt from. `added`: the requests
    that got the endpoints of this node.
    """

    def __init__(self, voters: VoterSet) -> None:
        super().__init__(0, "cluster", lambda: voters, (), {})
        self.learned: list[Any] = []
        self.added: list[Any] = []

    def find(self, node_id: int) -> Endpoint | None:
        return LEADER if node_id == 2 else None

    def learn(self, response: Message) -> None:
        self.learned.append(response)

    def learn_leader(self, request: Message, epoch: int) -> None:
        self.learned.append((request, epoch))

    def add_listener_endpoints(self, request: Message) -> None:
        self.added.append(request)


class NotedSender(QuorumSender):
    """`send`: takes the requests."""

    def __init__(self, endpoints: QuorumEndpoints, send: Callable[[Send, Callable[[Send, Any], None]], None]) -> None:
        super().__init__(Lazy(NotedPeers), endpoints, TIMEOUT_MS)
        self.send = send  # type: ignore[method-assign]


class Harness:
    """A driver of node 0 whose replica is scripted."""

    def __init__(self, path: Path) -> None:
        path.mkdir()  # the copy of the state is beside it
        self.order: list[str] = []
        self.sent: list[tuple[Send, Callable[[Send, Any], None]]] = []
        self.failures: list[Exception] = []
        self.changes = 0
        voters = VoterSet.of(Voter(ReplicaKey(one), (Address("C", f"h{one}", 1),)) for one in (0, 2, 3))
        self.clock = loop_clock()
        self.replica = ScriptedReplica(voters, self.clock.now_ms)
        self.replicated = ScriptedReplicatedLog(path)
        self.flush_failure: list[Exception] = []
        self.holding: asyncio.Event | None = None
        self.endpoints = NotedEndpoints(voters)
        self.sender = NotedSender(self.endpoints, self._send)
        node = node_of(clock=self.clock, metadata_log=self)
        replicated: Any = self.replicated
        replica: Any = self.replica
        self.raft = QuorumRaft(
            node, replicated, replica, self.sender, self.clock.now_ms, self._changed, self.failures.append
        )

    def _changed(self) -> None:
        self.changes += 1

    def _send(self, send: Send, answered: Callable[[Send, Any], None]) -> None:
        self.order.append(f"send {send.correlation}")
        self.sent.append((send, answered))

    async def run(self, work: Callable[[], Any]) -> None:
        if self.flush_failure:
            raise self.flush_failure.pop(0)
        if self.holding is not None:
            await self.holding.wait()
        work()


def raises(failure: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise failure

    return fail


def send(number: int, sync_to: int = 0, request: Any = NOTHING) -> Send:
    return Send(2, number, request, sync_to)


# ---- effects


def test_state_is_on_the_disk_before_a_later_effect_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        written = raft_module.write_quorum_state

        def write(*what: Any) -> None:
            harness.order.append(f"state {what[1].leader_epoch}")
            written(*what)

        monkeypatch.setattr(raft_module, "write_quorum_state", write)
        states = [WriteState(ElectionState(voted_id=2, leader_epoch=epoch)) for epoch in (4, 5, 6, 7)]
        harness.replica.next.append([send(1), states[0], states[1], send(2), states[2], send(3), states[3]])
        harness.raft.resign()
        assert harness.order == ["send 1", "state 5", "send 2", "state 6", "send 3", "state 7"]
        found = read_quorum_state(tmp_path / "log")
        assert found is not None and (found.voted_id, found.leader_epoch) == (2, 7)

    simulated(story)


def test_effects_wait_for_the_log_that_they_depend_on(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        token = Token()
        harness.replicated.end_offset = 5
        harness.replica.next.append([send(1, 5), Flush(9), send(2), Reply(token, NOTHING, 5), send(3, 6)])
        harness.raft.appended()
        assert harness.replica.inputs == [Appended(3, 5)] and harness.order == ["send 2"] and token.replies == []
        await turns()
        assert (harness.replicated.quorum_log.flushes, harness.replica.inputs[1:]) == ([5], [Synced(5)])
        assert harness.order == ["send 2", "send 1"] and token.replies == [NOTHING]
        harness.replicated.end_offset = 6
        harness.replica.next.append([Flush(9)])
        harness.raft.appended()
        await turns()
        assert harness.order[2:] == ["send 3"] and harness.replicated.synced_offset == 6

    simulated(story)


def test_appends_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.holding = asyncio.Event()
        harness.replicated.end_offset = 2
        harness.replica.next += [[Flush(9)], [Flush(9)], [Flush(9)]]
        harness.raft.appended()
        await turns()
        for end in (3, 4):
            harness.replicated.end_offset = end
            harness.raft.appended()
        assert harness.replicated.quorum_log.flushes == []
        harness.holding.set()
        await turns()
        assert harness.replicated.synced_offset == 4
        assert [one for one in harness.replica.inputs if isinstance(one, Synced)] == [Synced(2), Synced(4)]
        assert harness.raft._flushing is None

    simulated(story)


def test_flush_does_not_vouch_for_records_that_took_the_place_of_truncated_ones(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.holding = asyncio.Event()
        harness.replicated.end_offset = 5
        harness.replica.next.append([Flush(9)])
        harness.raft.appended()
        await turns()
        harness.replicated.lowest_end = 3
        harness.holding.set()
        await turns()
        assert [one for one in harness.replica.inputs if isinstance(one, Synced)] == [Synced(3), Synced(5)]

    simulated(story)


@pytest.mark.parametrize("is_disk", [True, False])
def test_failed_flush_halts_or_is_repeated(is_disk: bool, tmp_path: Path) -> None:
    failure = LogDirectoryFailure("/d", "flushing", OSError(5, "broken")) if is_disk else RuntimeError("a bug")

    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.flush_failure = [failure]
        harness.replicated.end_offset = 5
        harness.replica.next.append([Flush(9), send(1, 5)])
        harness.raft.appended()
        await turns()
        assert harness.order == [] and harness.replicated.synced_offset == 0
        assert harness.failures == ([failure] if is_disk else [])
        await after_ms(120_000)
        assert harness.order == ([] if is_disk else ["send 1"])

    simulated(story)


def test_leaders_response_is_learned_and_handed_on(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.replica.next.append([send(1)])
        harness.raft.resign()
        sent, answered = harness.sent[0]
        data = PartitionData(0, 0, 7)
        response = FetchResponse(responses=[FetchableTopicResponse("__cluster_metadata", bytes(16), [data])])
        assert (harness.raft.leader_high_watermark, harness.raft.last_fetched_ms) == (-1, -1)
        answered(sent, response)
        assert harness.replica.inputs[-1] == PeerResponse(2, 1, response) and harness.endpoints.learned == [response]
        assert (harness.raft.leader_high_watermark, harness.raft.last_fetched_ms) == (7, harness.clock.now_ms())
        answered(sent, None)
        assert harness.replica.inputs[-1] == PeerResponse(2, 1, None) and len(harness.endpoints.learned) == 1
        data.error_code, data.high_watermark = ErrorCode.FENCED_LEADER_EPOCH, 9
        answered(sent, response)
        assert harness.raft.leader_high_watermark == 7
        answered(sent, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        assert harness.raft.leader_high_watermark == 7
        answered(sent, VoteResponse())
        assert harness.raft.leader_high_watermark == 7 and len(harness.endpoints.learned) == 4

        class Newer(list[Any]):
            def pop(self, *_: Any) -> Any:
                harness.replica.epoch = 4
                return []

        harness.replica.next = Newer([0])
        harness.raft.resign()
        assert harness.raft.leader_high_watermark == -1, "that of a new epoch is not known"

    simulated(story)


# ---- inputs


def test_inputs_reach_the_replica(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        token, request = Token(), BeginQuorumEpochRequest()
        harness.raft.request(token, request)
        harness.raft.raise_kraft_version(1)
        harness.raft.resign()
        assert harness.replica.inputs == [PeerRequest(token, request), RaiseKRaftVersion(1), Resign()]
        assert harness.endpoints.learned == [(request, 3)] and harness.changes == 3
        found = harness.raft.voters_at(5)
        assert found.kraft_version == 1 and [one.voter_id for one in found.voters] == [0, 2, 3]
        reject_token(token)
        assert token.failed == 1

    simulated(story)


def test_effects_that_an_effect_causes_follow_those_before_them(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        carry_out = harness.sender.send

        def sending(effect: Send, answered: Callable[[Send, Any], None]) -> None:
            carry_out(effect, answered)
            if effect.correlation == 1:
                harness.raft.resign()

        harness.sender.send = sending
        harness.replica.next = [[send(1), send(2)], [send(3)]]
        harness.raft.resign()
        assert harness.order == ["send 1", "send 2", "send 3"]
        assert harness.changes == 1

    simulated(story)


def test_timer_is_that_of_the_replica(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        began = harness.clock.now_ms()
        harness.replica.due = began + 300
        harness.raft.begin()
        await after_ms(100)
        harness.replica.due = began + 200
        harness.raft.resign()
        await after_ms(99)
        assert harness.replica.expired == []
        await after_ms(5)
        assert len(harness.replica.expired) == 1 and harness.replica.expired[0] >= began + 200
        await after_ms(1000)
        assert len(harness.replica.expired) == 1
        harness.replica.due = harness.clock.now_ms() + 100
        harness.raft.resign()
        harness.raft.close()
        await after_ms(1000)
        assert len(harness.replica.expired) == 1
        harness.raft.resign()
        assert len(harness.replica.inputs) == 2, "a closed replica takes no input"

    simulated(story)


@pytest.mark.parametrize(
    ("failure", "is_logged"),
    [(CorruptBatch("rot"), False), (MalformedMessage("cut"), False), (RuntimeError("a bug"), True)],
)
def test_input_that_fails_ends_alone_and_its_effects_are_carried_out(
    failure: Exception, is_logged: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        token = Token()
        harness.replica.due = harness.clock.now_ms()
        harness.replica.next.append(failure)
        harness.replica.effects = [send(1)]
        harness.raft.request(token, BeginQuorumEpochRequest())
        assert (token.failed, token.replies, harness.order, harness.failures) == (1, [], ["send 1"], [])
        assert harness.changes == 1
        await after_ms(90)
        assert bool(harness.replica.expired) == (not is_logged), "a timer after a bug waits a little"
        await after_ms(20)
        assert len(harness.replica.expired) == 1

    simulated(story)
    assert ("a bug: PeerRequest failed in the quorum" in caplog.text) == is_logged


def test_broken_invariant_halts(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        failure = BrokenInvariant("two leaders")
        harness.replica.next.append(failure)
        harness.replica.effects = [send(1)]
        harness.raft.resign()
        assert harness.failures == [failure] and harness.order == [], "it does nothing more"
        harness.raft.resign()
        assert len(harness.replica.inputs) == 1

    simulated(story)


@pytest.mark.parametrize("fails", ["handling the flush", "sending the first"])
def test_held_effects_stay_when_the_node_halts(fails: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness, token = Harness(tmp_path / "log"), Token()
        failure = BrokenInvariant("two leaders")
        harness.replicated.end_offset = 5
        first = [send(1, 5)] if fails == "sending the first" else []
        harness.replica.next += [[*first, Flush(9), send(2, 5), Reply(token, NOTHING, 5)], []]
        if first:
            harness.sender.send = lambda *_: harness.raft._guard("a send", raises(failure))  # type: ignore[method-assign]
        else:
            harness.replica.next[-1] = failure
        harness.raft.appended()
        await turns()
        assert harness.failures == [failure]
        assert (harness.order, token.replies) == ([], []), "another node would count on a state that contradicts itself"

    simulated(story)


@pytest.mark.parametrize("is_disk", [True, False])
def test_effect_that_fails_halts_or_is_left(is_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        failure = OSError(5, "broken") if is_disk else RuntimeError("a bug")

        def write(*_: Any) -> None:
            raise failure

        monkeypatch.setattr(raft_module, "write_quorum_state", write)
        harness.replica.due = harness.clock.now_ms() + 1
        harness.replica.next.append([WriteState(ElectionState()), send(1)])
        harness.raft.resign()
        assert harness.order == []
        assert [type(one) for one in harness.failures] == ([LogDirectoryFailure] if is_disk else [])
        await after_ms(90)
        assert harness.replica.expired == []
        await after_ms(20)
        assert len(harness.replica.expired) == int(not is_disk)

    simulated(story)


# ---- the leader's process


@pytest.mark.parametrize(
    ("role", "endpoint", "is_gone", "is_told"),
    [
        (Follower(3, 2), LEADER, True, True),
        (Follower(3, 2), LEADER, False, False),
        (Follower(3, 2), Endpoint("C", "other", 9093), True, False),
        (Unattached(3, None), LEADER, True, False),
    ],
)
def test_end_of_the_leaders_process_is_reported_to_its_follower_at_once(
    role: Any, endpoint: Endpoint, is_gone: bool, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(addresses: Any) -> bool:
        assert addresses == [("leader", 9093)]
        return is_gone

    monkeypatch.setattr(raft_module, "is_gone", gone)

    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.replica.role = role
        harness.sender.on_connection_lost(endpoint)
        await turns()
        assert harness.replica.inputs == ([LeaderGone(2)] if is_told else [])
        harness.raft.close()
        harness.sender.on_connection_lost(endpoint)
        await turns()
        assert len(harness.replica.inputs) == int(is_told)

    simulated(story)


@pytest.mark.parametrize(
    ("role", "known", "high_watermark", "is_caught_up"),
    [
        (Leader(3, KEY, 0, 0, has_committed=True), -1, 0, True),
        (Leader(3, KEY, 0, 0), 5, 9, False),
        (Follower(3, 2), -1, 9, False),
        (Follower(3, 2), 0, 0, True),
        (Follower(3, 2), 5, 5, True),
        (Follower(3, 2), 6, 5, False),
        (Unattached(3, None), 5, 5, False),
    ],
)
def test_node_is_caught_up_with_what_is_known_to_be_committed(
    role: Any, known: int, high_watermark: int, is_caught_up: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.replica.role, harness.replica.high_watermark = role, high_watermark
        harness.raft.leader_high_watermark = known
        assert harness.raft.is_caught_up == is_caught_up

    simulated(story)


# ---- stopping


@pytest.mark.parametrize("acknowledged", [True, False])
def test_leader_waits_until_the_others_know_that_it_resigns(acknowledged: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.replica.role = Leader(3, KEY, 0, 0)
        resigned = Resigned(3, KEY, 0, (), {2, 3})

        class Resigning(list[Any]):
            def pop(self, *_: Any) -> Any:
                harness.replica.role = resigned
                return []

        harness.replica.next = Resigning([0])
        leaving = asyncio.ensure_future(harness.raft.leave())
        await after_ms(300)
        assert harness.replica.inputs == [Resign()] and not leaving.done()
        resigned.unacknowledged.discard(2)
        harness.replica.next = []
        harness.raft.appended()
        await turns()
        assert not leaving.done()
        if acknowledged:
            resigned.unacknowledged.clear()
            harness.raft.appended()
            await turns()
            assert leaving.done()
        else:
            await after_ms(680)
            assert not leaving.done()
            await after_ms(40)
            assert leaving.done()

    simulated(story)


@pytest.mark.parametrize("alone", [True, False])
def test_follower_and_only_voter_do_not_resign(alone: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.replica.role = Leader(3, KEY, 0, 0) if alone else Follower(3, 2)
        if alone:
            harness.replica.voter_set = VoterSet.of([Voter(KEY)])
        await harness.raft.leave()
        assert harness.replica.inputs == []

    simulated(story)


def test_end_waits_for_the_flush_that_runs(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path / "log")
        harness.holding = asyncio.Event()
        harness.replicated.end_offset = 5
        harness.replica.next.append([Flush(9), send(1, 5)])
        harness.raft.appended()
        await turns()
        ending = asyncio.ensure_future(harness.raft.leave())
        await turns()
        assert not ending.done()
        harness.holding.set()
        await turns()
        assert ending.done() and harness.order == []

    simulated(story)


# ---- endpoints and senders


def test_voters_and_bootstrap_servers_are_read_from_the_configuration() -> None:
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "0",
            "listeners": "PLAINTEXT://:0,CONTROLLER://:0",
            "controller.listener.names": "controller",
            "controller.quorum.voters": "0@a:1,2@[::1]:3",
            "controller.quorum.bootstrap.servers": "x:1,[::2]:7",
        }
    )
    found = static_voters(config).voters
    assert {key: tuple(voter.addresses[0]) for key, voter in found.items()} == {
        0: ("CONTROLLER", "a", 1),
        2: ("CONTROLLER", "::1", 3),
    }
    assert bootstrap_endpoints(config) == {-2: Endpoint("CONTROLLER", "x", 1), -3: Endpoint("CONTROLLER", "::2", 7)}


def test_fetches_have_a_connection_of_their_own_whose_end_is_reported_once() -> None:
    async def story() -> None:
        peers = NotedPeers()
        sent = peers.sent
        endpoints = NotedEndpoints(VoterSet.of(()))
        sender = QuorumSender(Lazy(lambda: peers), endpoints, TIMEOUT_MS)
        lost: list[Endpoint] = []
        sender.on_connection_lost = lost.append
        responses: list[tuple[int, Any]] = []
        requests = [
            fetch.FetchRequest(),
            VoteRequest(),
            FetchSnapshotRequest(),
            fetch.FetchRequest(),
        ]
        for number, request in enumerate(requests):
            sender.send(
                send(number, request=request), lambda sent, response: responses.append((sent.correlation, response))
            )
        assert [one.purpose for one in sent] == ["quorum-fetch", "quorum", "quorum-fetch", "quorum-fetch"]
        assert {(one.endpoint, one.timeout_ms) for one in sent} == {
            (LEADER, TIMEOUT_MS)
        } and endpoints.added == requests
        ((endpoint, ended, purpose),) = peers.watched
        assert (endpoint, purpose) == (LEADER, "quorum-fetch")
        ended()
        assert lost == [LEADER]
        sent[1].reply("response")  # type: ignore[arg-type]
        assert responses == [(1, "response")]
        other = Send(9, 5, requests[1], 0, Address("C", "new", 5))
        sender.send(other, lambda sent, response: responses.append((sent.correlation, response)))
        assert sent[-1].endpoint == Endpoint("C", "new", 5)
        sender.send(other._replace(address=None), lambda sent, response: responses.append((sent.correlation, response)))
        assert len(responses) == 1
        await turns()
        assert responses[1:] == [(5, None)] and len(sent) == 5

    simulated(story)


# ---- membership


def test_change_of_the_leader_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    known = KnownLeader(lambda: 5)
    reported: list[NotedLeader] = []
    known.on_changed.append(lambda: reported.append(known.leader))
    changes = [NotedLeader(-1, 1), NotedLeader(0, 2), NotedLeader(0, 2), NotedLeader(0, 2, True), NotedLeader(-1, 3)]
    for leader in changes:
        known.note(leader)
    assert reported == [changes[0], changes[1], changes[3], changes[4]]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the quorum has no known leader in epoch 1",
        "node 0 leads the quorum in epoch 2",
        "this node is the active controller in epoch 2",
        "the quorum has no known leader in epoch 3",
    ]


class ClosingLog(QuorumLog):
    """`closings`: how often it was closed."""

    closings = 0

    def close(self, now_ms: int) -> None:
        super().close(now_ms)
        self.closings += 1


def test_membership_is_that_of_its_engine(tmp_path: Path) -> None:
    async def story() -> None:
        clock = loop_clock()
        member = membership_of(node_of(clock=clock))
        with pytest.raises(AssertionError):
            _ = member.log
        assert (member.epoch, member.leads, member.is_caught_up) == (0, False, True)
        path = tmp_path / DIRECTORY_NAME
        path.mkdir()
        quorum_log = ClosingLog(path, BrokerConfig({"log.dirs": str(tmp_path)}), clock.now_ms())
        quorum_log.quorum.kraft_version = 1
        member.opened(quorum_log)
        assert member.kraft_version == 1 and member.voters_at(3) is quorum_log.quorum
        member.appended()
        await member.until_idle()
        await member.leave()
        member.halt()
        engine = ScriptedEngine(epoch=7)
        member.engine = engine
        assert (member.epoch, member.leads, member.is_caught_up, member.kraft_version) == (7, False, False, 0)
        assert member.voters_at(3) is engine.voters and engine.asked_at == [3]
        engine.leads = True
        assert member.leads
        member.appended()
        member.halt()
        assert engine.calls == ["appended", "halt"]
        member.raft = raft_of()
        assert member.joined() is member.raft
        member.close()
        assert quorum_log.closings == 1

    simulated(story)


def test_monotonic_clock_goes_on_when_the_time_of_day_is_set() -> None:
    async def story() -> None:
        clock = loop_clock()
        now_ms = monotonic_clock(clock)
        began = clock.now_ms()
        assert abs(now_ms() - began) <= 1
        clock._seconds = lambda: 0.0
        await after_ms(500)
        assert 500 <= now_ms() - began <= 505

    simulated(story)
