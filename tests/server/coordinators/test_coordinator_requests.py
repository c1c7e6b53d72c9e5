"""Requests around coordinators: to their shards, to coordinators on other brokers, for their topics and for markers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import RemoveTopicRecord
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse, StreamsStatus
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.coordinators import coordinator_driver, streams_topics, topic_creation
from odradek.server.coordinators.coordinator_driver import HAND_OVER_S, CoordinatorDriver
from odradek.server.coordinators.group_driver import GroupDriver, _changed_topics
from odradek.server.coordinators.streams_topics import StreamsTopics
from odradek.server.coordinators.topic_creation import TopicCreation
from odradek.server.coordinators.transaction_markers import MOST_MARKERS, TransactionMarkers, of_distinct_producers
from odradek.server.coordinators.transaction_verification import Membership, TransactionVerification
from odradek.server.partitions.append_result import AppendResult
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.runtime.log_lines import RepeatedLines

from tests.replication.controller_transcript import Transcript
from tests.server.harness.nodes import node_of
from tests.server.harness.scripted_network import ELSEWHERE, Network
from tests.server.harness.shard_driver import Somebody
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

CLIENT = Somebody()


# ---- shards


class Shard:
    """A shard of a coordinator that notes its calls."""

    def __init__(self, partition: Any) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.calls: list[Any] = []
        self.background: Any = None

    def submit(self, request: Message, version: int, client: Any, reply: Callable[[Any], None]) -> None:
        self.calls.append(("submit", version, client))
        reply(HeartbeatResponse(self.partition.index, 0))

    def load(self) -> None:
        self.calls.append("load")

    def resign(self) -> None:
        self.calls.append("resign")

    def clock_moved(self) -> None:
        self.calls.append("clock")


class Coordinator(CoordinatorDriver):
    topic = "a"
    partitions_key = "offsets.topic.num.partitions"
    replication_key = "offsets.topic.replication.factor"

    def __init__(self, partitions: Any, creation: Any = None) -> None:
        config = BrokerConfig({"offsets.topic.num.partitions": "3", "offsets.topic.replication.factor": "2"})
        super().__init__(config, loop_clock(), partitions, creation)
        self.made: list[Shard] = []
        self.awaits = False
        self.gone: dict[str, bytes] = {}

    def _awaits_imports(self) -> bool:
        return self.awaits

    def _topic_configs(self) -> dict[str, str]:
        return {"cleanup.policy": "compact"}

    def _new_shard(self, partition: Any) -> Shard:
        self.made.append(Shard(partition))
        return self.made[-1]

    def _not_here(self, request: Message, version: int) -> Message:
        return HeartbeatResponse(-1, ErrorCode.NOT_COORDINATOR)

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        self.gone |= deleted


@dataclass
class Replica:
    """A partition of this broker, as coordinators look at it."""

    index: int
    is_leader: bool
    offline: bool
    leader_epoch: int


class Partitions(dict[tuple[str, int], Any]):
    """The partitions of topic `a` on this broker."""

    background = object()

    def add(self, index: int, *, is_leader: bool = True, offline: bool = False, epoch: int = 1) -> Any:
        self["a", index] = Replica(index, is_leader, offline, epoch)
        return self["a", index]


def image_of(count: int) -> MetadataImage:
    transcript = Transcript()
    transcript.run(
        f"> broker 1\n> CreateTopics topics=\"[{{'name':'a','num_partitions':{count},'replication_factor':1}}]\"\n"
    )
    return transcript.controller.image


def test_shards_follow_the_leadership_of_their_partitions() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.add(0)
        partitions.add(1, is_leader=False)
        partitions.add(2, offline=True)
        driver = Coordinator(partitions)
        image = image_of(4)
        driver.take_up(image)
        (first,) = driver.made
        assert first.calls == ["load"] and first.background is Partitions.background
        driver.take_up(image)
        assert len(driver.made) == 1
        partitions.add(1)
        partitions.add(2)
        driver.take_up(image)
        assert [shard.partition.index for shard in driver.made] == [0, 1, 2]
        partitions["a", 0].leader_epoch = 2
        partitions["a", 1].is_leader = False
        partitions.add(2)
        driver.take_up(image)
        assert [shard.calls for shard in driver.made] == [["load", "resign"]] * 3 + [["load"]] * 2
        assert [shard.partition.index for shard in driver.shards()] == [0, 2], "another epoch, or another replica"
        driver.clock_moved()
        assert [shard.calls[-1] for shard in driver.shards()] == ["clock", "clock"]
        driver.take_up(image_of(1))
        assert [shard.partition.index for shard in driver.shards()] == [0]
        driver.stop()
        assert driver.shards() == [] and driver.made[3].calls[-1] == "resign"

    simulated(story)


def test_shards_wait_for_their_imports_but_old_ones_go() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.add(0)
        driver = Coordinator(partitions)
        driver.awaits = True
        driver.take_up(image_of(2))
        assert driver.made == []
        driver.awaits = False
        driver.take_up(image_of(2))
        driver.awaits = True
        partitions["a", 0].is_leader = False
        driver.take_up(image_of(2))
        assert driver.shards() == []

    simulated(story)


def test_request_goes_to_the_shard_of_its_key() -> None:
    async def story() -> None:
        partitions = Partitions()
        driver = Coordinator(partitions)
        keys = {driver.partition_for(str(number)): str(number) for number in range(40)}
        assert set(keys) == {0, 1, 2}
        responses: list[Any] = []
        driver.submit_to_all(HeartbeatRequest(), 4, CLIENT, responses.append)
        assert responses == [[]]
        partitions.add(1)
        partitions.add(2)
        driver.take_up(image_of(3))
        for index in (0, 1, 2):
            driver.submit(keys[index], HeartbeatRequest(), 4, CLIENT, responses.append)
        assert [(one.throttle_time_ms, one.error_code) for one in responses[1:]] == [
            (-1, ErrorCode.NOT_COORDINATOR),
            (1, 0),
            (2, 0),
        ]
        driver.submit_to_all(HeartbeatRequest(), 4, CLIENT, responses.append)
        assert [one.throttle_time_ms for one in responses[4]] == [1, 2]
        assert driver.made[0].calls[1:] == [("submit", 4, CLIENT)] * 2
        assert sorted(map(sorted, driver.by_partition(["a", "b", "c", "d", "a"]))) == sorted(
            sorted(name for name in "aabcd" if driver.partition_for(name) == index)
            for index in {driver.partition_for(name) for name in "abcd"}
        )

    simulated(story)


def test_number_of_partitions_follows_the_topic() -> None:
    async def story() -> None:
        driver = Coordinator(Partitions())
        before = [driver.partition_for(str(number)) for number in range(40)]
        assert max(before) == 2
        delta = MetadataDelta(image_of(7))
        driver.apply(delta, image_of(7))
        assert [driver.partition_for(str(number)) for number in range(40)] == before, "no topic has changed"
        transcript = Transcript()
        transcript.run("> broker 1\n")
        delta = MetadataDelta(transcript.controller.image)
        for record in transcript.controller.handle(CreateTopicsRequest([CreatableTopic("a", 7, 1)], 1000), 7).records:
            delta.replay(record)
        driver.apply(delta, image_of(7))
        assert max(driver.partition_for(str(number)) for number in range(40)) == 6
        assert _changed_topics(delta) == {"a"} and driver.gone == {}

    simulated(story)


def test_deleted_topics_are_reported_with_their_ids() -> None:
    async def story() -> None:
        driver = Coordinator(Partitions())
        transcript = Transcript()
        transcript.run(
            "> broker 1\n> CreateTopics topics=\"[{'name':'b','num_partitions':1,'replication_factor':1}]\"\n"
        )
        before = transcript.controller.image
        topic = before.topic("b")
        assert topic is not None
        delta = MetadataDelta(before)
        delta.replay(RemoveTopicRecord(topic.id))
        driver.apply(delta, delta.apply(before.offset + 1, 1, 0))
        assert driver.gone == {"b": topic.id} and _changed_topics(delta) == {"b"}
        assert _changed_topics(MetadataDelta(before)) == frozenset()

    simulated(story)


def test_topic_of_a_coordinator_is_created_as_it_is_configured() -> None:
    async def story() -> None:
        creation = Creating()
        driver = Coordinator(Partitions(), lambda: creation)
        done: list[int] = []
        driver.ensure_topic(lambda: done.append(1))
        ((topic, then),) = creation.asked
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("a", 3, 2)
        assert [(one.name, one.value) for one in topic.configs] == [("cleanup.policy", "compact")]
        then()
        assert done == [1]

    simulated(story)


class HandedOver:
    """A shard of groups whose handover the test completes."""

    def __init__(self, waiting: list[Callable[[int], None]]) -> None:
        self.hand_over = waiting.append


def group_driver() -> GroupDriver:
    node = node_of(clock=loop_clock())
    partitions: Any = Partitions()
    return GroupDriver(node.config, node.clock, partitions, Creating, node.metadata, node.late_imports)


@pytest.mark.parametrize("is_slow", [False, True])
def test_groups_are_handed_over_within_a_limited_time(is_slow: bool) -> None:
    async def story() -> None:
        waiting: list[Callable[[int], None]] = []
        driver = group_driver()
        driver._shards = {index: HandedOver(waiting) for index in (0, 4)}  # type: ignore[misc]
        clock = loop_clock()
        began = clock.now_ms()
        task = asyncio.ensure_future(driver.hand_over())
        await turns()
        waiting[0](0)
        await turns()
        assert not task.done()
        if not is_slow:
            waiting[1](ErrorCode.NOT_COORDINATOR)
        await task
        passed_ms = clock.now_ms() - began
        assert (HAND_OVER_S * 1000 <= passed_ms < HAND_OVER_S * 1000 + 20) if is_slow else passed_ms < 20
        await group_driver().hand_over()

    simulated(story)


def test_cache_of_partitions_is_emptied_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_driver, "REMEMBERED_GROUPS", 2)

    async def story() -> None:
        driver = Coordinator(Partitions())
        for name in ("a", "b", "c"):
            driver.partition_for(name)
        assert list(driver._partition_of) == ["c"]
        driver.partition_for("x" * (coordinator_driver.MAX_REMEMBERED_CHARS + 1))
        assert list(driver._partition_of) == ["c"]
        driver.partition_for("x" * coordinator_driver.MAX_REMEMBERED_CHARS)
        assert len(driver._partition_of) == 2

    simulated(story)


# ---- internal topics


class Creating:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.done: list[str] = []

    def create(self, *asked: Any) -> None:
        self.asked.append(asked)

    def respond(self, number: int, error: int = 0, message: str | None = None) -> None:
        request, then = self.asked[number][:2]
        then(
            CreateTopicsResponse(
                topics=[CreatableTopicResult(one.name, bytes(16), error, message, 0) for one in request.topics]
            )
        )


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(0, False), (ErrorCode.TOPIC_ALREADY_EXISTS, False), (ErrorCode.INVALID_REPLICATION_FACTOR, True)],
)
def test_creations_of_one_topic_share_one_request(
    error: int, is_logged: bool, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Creating()
    creation = TopicCreation(str(tmp_path), RepeatedLines(), calls.create)
    for name in ("first", "second"):
        creation.create(CreatableTopic("a", 1, 1), lambda name=name: calls.done.append(name))  # type: ignore[misc]
    assert len(calls.asked) == 1 and calls.done == []
    assert (calls.asked[0][0].timeout_ms, [one.name for one in calls.asked[0][0].topics]) == (30_000, ["a"])
    calls.respond(0, error, "no")
    assert calls.done == ["first", "second"]
    assert ("a cannot be created: INVALID_REPLICATION_FACTOR (no)" in caplog.text) == is_logged
    creation.create(CreatableTopic("a", 1, 1), lambda: calls.done.append("third"))
    assert len(calls.asked) == 2


def test_topic_is_not_requested_when_there_is_no_room_for_its_metadata(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def check_room(path: str) -> None:
        raise OSError(28, "No space left on device", path)

    async def story() -> None:
        monkeypatch.setattr(topic_creation, "check_room", check_room)
        calls = Creating()
        creation = TopicCreation("/d", RepeatedLines(), calls.create)
        for _ in range(2):
            creation.create(CreatableTopic("a", 1, 1), lambda: calls.done.append("done"))
        assert calls.asked == [] and calls.done == ["done", "done"]

    simulated(story)
    assert "a cannot be created" in caplog.text


def status(response: StreamsGroupHeartbeatResponse) -> list[tuple[int, str]]:
    return [(one.status_code, one.status_detail) for one in response.status or ()]


def test_internal_topics_of_streams_are_each_created_once_at_a_time() -> None:
    calls = Creating()
    topics = StreamsTopics(calls.create)
    topics.create([CreatableTopic("a"), CreatableTopic("b")], ("User:alice", "/h"))
    topics.create([CreatableTopic("a")])
    topics.create([])
    topics.create([CreatableTopic("b"), CreatableTopic("c")])
    assert [[one.name for one in request.topics] for request, *_ in calls.asked] == [["a", "b"], ["c"]]
    assert [client for *_, client in calls.asked] == [("User:alice", "/h"), None]
    calls.respond(0, ErrorCode.POLICY_VIOLATION, "too many")
    calls.respond(1, ErrorCode.TOPIC_ALREADY_EXISTS)
    response = StreamsGroupHeartbeatResponse(status=[StreamsStatus(3, "missing"), StreamsStatus(1, "other")])
    topics.tell_errors(response, [CreatableTopic("a"), CreatableTopic("c")])
    assert status(response) == [(3, "missing; Creation failed: a (too many)."), (1, "other")]
    topics.create([CreatableTopic("a")])
    calls.respond(2)
    response = StreamsGroupHeartbeatResponse(status=[StreamsStatus(3, "missing")])
    topics.tell_errors(response, [CreatableTopic("a")])
    topics.tell_errors(StreamsGroupHeartbeatResponse(status=None), [CreatableTopic("b")])
    assert status(response) == [(3, "missing")]


def test_errors_of_streams_topics_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_topics, "REMEMBERED_ERRORS", 5)
    calls = Creating()
    topics = StreamsTopics(calls.create)
    made = [CreatableTopic(name) for name in "abcde"]
    topics.create(made)
    calls.respond(0, ErrorCode.POLICY_VIOLATION)
    response = StreamsGroupHeartbeatResponse(status=[StreamsStatus(3, "missing")])
    topics.tell_errors(response, made)
    shown = ", ".join(f"{name} (POLICY_VIOLATION)" for name in "abc")
    assert status(response) == [(3, f"missing; Creation failed: {shown} and 2 more.")]
    response = StreamsGroupHeartbeatResponse(status=[StreamsStatus(3, "")])
    topics.tell_errors(response, made[:3])
    assert status(response) == [(3, f"; Creation failed: {shown}.")]
    topics.create([CreatableTopic("f")])
    calls.respond(1, ErrorCode.POLICY_VIOLATION)
    assert list(topics._errors) == ["f"]


WORDS = "Unauthorized to CREATE on topics a, b."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [(3, WORDS)]),
        ([StreamsStatus(1, "other")], [(1, "other"), (3, WORDS)]),
        ([StreamsStatus(1, "other"), StreamsStatus(3, "missing")], [(1, "other"), (3, f"missing; {WORDS}")]),
    ],
)
def test_topics_that_a_member_may_not_create_are_in_its_status(
    given: list[StreamsStatus] | None, expected: list[tuple[int, str]]
) -> None:
    response = StreamsGroupHeartbeatResponse(status=given)
    StreamsTopics(Creating().create).tell_unauthorized(response, ["a", "b"])
    assert status(response) == expected


# ---- verification of transactions


ASKED = Membership("id", 7, 1, (("t", 0), ("t", 2), ("u", 0)), adds=True)


def verified(*errors: int, error: int = 0) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnTopicResult(name, [AddPartitionsToTxnPartitionResult(index, errors[number])])
        for number, (name, index) in enumerate(ASKED.partitions[: len(errors)])
    ]
    return AddPartitionsToTxnResponse(0, error, [AddPartitionsToTxnResult("id", results)])


class Transactions:
    """The coordinator of transactions, whose requests go into `requests`."""

    topic = "__transaction_state"

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests

    def partition_for(self, key: str) -> int:
        return 5

    def submit(self, *request: Any) -> None:
        self._requests.append(request)


class Verifying:
    def __init__(self, *leads: int) -> None:
        self.network = Network(*leads)
        self.here: list[tuple[str, Any, int, Any, Callable[[Any], None]]] = []
        config = BrokerConfig(
            {"add.partitions.to.txn.retry.backoff.ms": "20", "add.partitions.to.txn.retry.backoff.max.ms": "100"}
        )
        transactions: Any = Transactions(self.here)
        leaders: Any = self.network
        self.verification = TransactionVerification(config, loop_clock(), transactions, leaders, self.network.peers)
        self.responses: list[dict[Any, int]] = []
        self.retries = 0

    def verify(self, asked: Membership) -> None:
        def retried() -> None:
            self.retries += 1

        self.verification.verify(CLIENT, asked, self.responses.append, retried)


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("is_here", [True, False])
def test_verification_goes_to_the_coordinator_wherever_it_is(adds: bool, is_here: bool) -> None:
    async def story() -> None:
        harness = Verifying(*([5] if is_here else []))
        harness.verify(ASKED._replace(adds=adds))
        if is_here:
            ((key, request, version, client, reply),) = harness.here
            assert (key, version, client) == ("id", 5, CLIENT)
        else:
            ((endpoint, request, reply, timeout_ms, purpose),) = harness.network.sent
            assert (endpoint, timeout_ms, purpose) == (ELSEWHERE, 10_000, "transaction-membership")
        assert isinstance(request, AddPartitionsToTxnRequest)
        (one,) = request.transactions
        assert (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only) == ("id", 7, 1, not adds)
        assert [(topic.name, topic.partitions) for topic in one.topics] == [("t", [0, 2]), ("u", [0])]
        reply(verified(0, ErrorCode.TRANSACTION_ABORTABLE))
        assert harness.responses == [{("t", 0): 0, ("t", 2): ErrorCode.TRANSACTION_ABORTABLE, ("u", 0): 0}]

    simulated(story)


@pytest.mark.parametrize(
    ("response", "error"),
    [(None, ErrorCode.NETWORK_EXCEPTION), (verified(0, 0, 0, error=15), ErrorCode.COORDINATOR_NOT_AVAILABLE)],
)
def test_failed_verification_is_the_error_of_all_partitions(response: Any, error: ErrorCode) -> None:
    async def story() -> None:
        harness = Verifying()
        harness.verify(ASKED)
        harness.network.sent[0].reply(response)
        assert harness.responses == [dict.fromkeys(ASKED.partitions, error)]

    simulated(story)


@pytest.mark.parametrize(("adds", "tries"), [(True, 6), (False, 1)])
def test_partitions_are_added_again_while_the_last_transaction_ends(adds: bool, tries: int) -> None:
    busy = ErrorCode.CONCURRENT_TRANSACTIONS

    async def story() -> None:
        harness = Verifying()
        harness.verify(ASKED._replace(adds=adds))
        for count in range(1, tries + 1):
            assert len(harness.network.sent) == count and harness.responses == []
            harness.network.sent[-1].reply(verified(0, busy, 0))
            await after_ms(18)
            assert len(harness.network.sent) == count
            await after_ms(2)
        assert len(harness.network.sent) == tries and harness.retries == tries - 1
        assert harness.responses == [{("t", 0): 0, ("t", 2): busy, ("u", 0): 0}]

    simulated(story)


# ---- markers


class Transacted:
    """A partition whose records below offset 100 are committed."""

    name = "t-0"

    def __init__(self, end: Callable[[list[Marker], int], list[AppendResult]]) -> None:
        self.end_transactions = end

    def when_committed(self, offset: int, done: Callable[[int], None]) -> None:
        done(0 if offset < 100 else ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Writing:
    """Partition 0 of topic t is led here, 1 by another broker, and 2 is nowhere."""

    def __init__(self) -> None:
        self.network = Network(0, 2)
        self.written: list[list[Marker]] = []
        self.groups: list[tuple[int, Marker]] = []
        self.results: list[int] = []
        self.hosted = Transacted(self._end)
        self.error = 0
        self.offset = 5
        partitions: Any = {("t", 0): self.hosted, ("__consumer_offsets", 0): self.hosted}
        groups: Any = self
        leaders: Any = self.network
        self.markers = TransactionMarkers(partitions, loop_clock(), groups, leaders, self.network.peers)

    def end_transaction(self, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        self.groups.append((index, marker))

    def _end(self, markers: list[Marker], now_ms: int) -> list[AppendResult]:
        self.written.append(list(markers))
        if self.error < 0:
            raise RuntimeError("a bug")
        return [AppendResult(self.error, end_offset=self.offset) for _ in markers]

    def send(self, index: int, producer_id: int = 7, topic: str = "t", *, committed: bool = True) -> None:
        self.markers.send(topic, index, Marker(producer_id, 3, committed, 4, 2), self.results.append)


def test_markers_of_a_turn_are_written_together() -> None:
    async def story() -> None:
        harness = Writing()
        order: list[str] = []
        harness.markers.when_written(lambda: order.append("at once"))
        assert order == ["at once"]
        for producer_id in (7, 8, 7, 9):
            harness.send(0, producer_id)
        harness.markers.when_written(lambda: order.append(f"{len(harness.written)} writes"))
        harness.markers.when_written(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        harness.markers.when_written(lambda: order.append("last"))
        assert harness.written == [] and harness.results == []
        await turns()
        assert [[one.producer_id for one in part] for part in harness.written] == [[7, 8], [7, 9]]
        assert harness.results == [0] * 4 and order == ["at once", "2 writes", "last"]
        harness.offset = 100
        harness.send(0)
        await turns()
        assert harness.results[4:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it is written, and not committed"

    simulated(story)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS), (-1, ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_markers_that_cannot_be_written_have_an_error_each(error: int, expected: ErrorCode) -> None:
    async def story() -> None:
        harness = Writing()
        harness.error = error
        harness.send(0, 7)
        harness.markers.send("t", 0, Marker(8, 3, True, 4, 2), lambda error: 1 / 0)  # type: ignore[arg-type, return-value]
        harness.send(0, 9)
        await turns()
        assert harness.results == [expected, expected]

    simulated(story)


def test_markers_go_to_the_leader_of_the_partition() -> None:
    async def story() -> None:
        harness = Writing()
        harness.send(1, committed=False)
        (sent,) = harness.network.sent
        assert (sent.endpoint, sent.timeout_ms, sent.purpose) == (ELSEWHERE, 30_000, "transaction-markers")
        assert isinstance(sent.request, WriteTxnMarkersRequest)
        (marker,) = sent.request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, False)
        assert (marker.coordinator_epoch, marker.transaction_version) == (4, 2)
        assert [(one.name, one.partition_indexes) for one in marker.topics] == [("t", [1])]
        sent.reply(None)
        result = WritableTxnMarkerPartitionResult(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        sent.reply(WriteTxnMarkersResponse([WritableTxnMarkerResult(7, [WritableTxnMarkerTopicResult("t", [result])])]))
        assert harness.results == [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        harness.send(2)
        assert harness.results[2:] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        harness.send(0, topic="__consumer_offsets")
        assert harness.groups == [(0, Marker(7, 3, True, 4, 2))]
        await turns()
        assert harness.written == []

    simulated(story)


@pytest.mark.parametrize(
    ("producers", "parts"),
    [
        ([], []),
        ([1, 2, 3], [[1, 2, 3]]),
        ([1, 1, 2, 1], [[1], [1, 2], [1]]),
        (list(range(MOST_MARKERS)), [list(range(MOST_MARKERS))]),
        (list(range(MOST_MARKERS + 1)), [list(range(MOST_MARKERS)), [MOST_MARKERS]]),
    ],
)
def test_one_write_has_one_marker_of_each_producer(producers: list[int], parts: list[list[int]]) -> None:
    asked: Any = [(Marker(one, 0, True, 0, 2), print) for one in producers]
    assert [[one.producer_id for one, _ in part] for part in of_distinct_producers(asked)] == parts
