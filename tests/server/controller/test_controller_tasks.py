"""Tasks of a node beside its requests, in simulated time: periodic tasks, registration as a controller, ids of producers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from immutables import Map
from odradek.metadata.image import ControllerImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.controller_registration import (
    ControllerRegistrationResponse,
)
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.schema import Message
from odradek.replication.controller.delegation_tokens import RemoveExpiredTokensRequest
from odradek.replication.controller.maintenance import (
    MAX_ELECTIONS_PER_IMBALANCE,
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    MaintenanceResponse,
    WriteNoOpRequest,
)
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import producer_ids
from odradek.server.controller.controller_registrar import ControllerRegistrar
from odradek.server.controller.periodic_tasks import PeriodicTasks
from odradek.server.controller.producer_ids import ProducerIds
from odradek.server.controller.token_expiry import TokenExpiry
from odradek.server.coordinators import auto_creation
from odradek.server.coordinators.auto_creation import AutoCreation
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.own_endpoints import registration_of
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns


class Deciding:
    """A controller that decides nothing, and notes the requests."""

    def __init__(self) -> None:
        self.is_active = True
        self.is_alone = False
        self.on_leader_changed: list[Callable[[], None]] = []
        self.decided: Counter[type[Message]] = Counter()
        self.elections = 0

    def decide(self, request: Message, version: int, reply: Callable[[Any], None]) -> None:
        self.decided[type(request)] += 1
        reply(MaintenanceResponse(elections=self.elections))


def properties(**values: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in values.items()})


@pytest.mark.parametrize(
    ("changes", "is_alone", "expected"),
    [
        ({}, False, (3, 6, 120)),
        ({}, True, (3, 6, 0)),
        ({"auto_leader_rebalance_enable": "false"}, False, (0, 6, 120)),
        ({"metadata_max_idle_interval_ms": "0"}, False, (3, 6, 0)),
        ({"metadata_max_idle_interval_ms": "1"}, False, (3, 6, None)),
    ],
)
def test_each_task_runs_at_its_interval(
    changes: dict[str, str], is_alone: bool, expected: tuple[int, int, int | None]
) -> None:
    config = {
        "leader_imbalance_check_interval_seconds": "20",
        "unclean_leader_election_interval_ms": "10000",
        "metadata_max_idle_interval_ms": "500",
    }

    async def story() -> None:
        controller: Any = Deciding()
        controller.is_alone = is_alone
        tasks = PeriodicTasks(properties(**{**config, **changes}), loop_clock(), controller)
        tasks.start()
        await after_ms(60_000 + 100)
        kinds = (BalanceLeadersRequest, ElectUncleanLeadersRequest, WriteNoOpRequest)
        found = [controller.decided[kind] for kind in kinds]
        assert found[:2] == list(expected[:2])
        if expected[2] is None:
            assert found[2] > 1000
        else:
            assert expected[2] - 2 <= found[2] <= expected[2]
        assert set(controller.decided) <= set(kinds)
        tasks.stop()
        before = controller.decided.total()
        await after_ms(60_000)
        assert controller.decided.total() == before
        tasks.start()
        await after_ms(10_100)
        assert controller.decided[ElectUncleanLeadersRequest] == 7, "each runs once an interval"

    simulated(story)


@pytest.mark.parametrize(("elections", "is_continued"), [(MAX_ELECTIONS_PER_IMBALANCE, True), (999, False)])
def test_balance_goes_on_at_once_while_its_requests_are_full(elections: int, is_continued: bool) -> None:
    async def story() -> None:
        controller: Any = Deciding()
        decide = controller.decide

        def full_three_times(request: Message, version: int, reply: Callable[[Any], None]) -> None:
            controller.elections = elections if controller.decided[type(request)] < 3 else 0
            decide(request, version, reply)

        controller.decide = full_three_times
        tasks = PeriodicTasks(properties(unclean_leader_election_interval_ms="250000"), loop_clock(), controller)
        tasks.start()
        await after_ms(300_100)
        assert controller.decided[BalanceLeadersRequest] == (4 if is_continued else 1)
        assert controller.decided[ElectUncleanLeadersRequest] == 1
        tasks.stop()

    simulated(story)


def test_stopped_tasks_do_not_go_on_with_a_balance() -> None:
    async def story() -> None:
        controller: Any = Deciding()
        replies: list[Callable[[Any], None]] = []
        controller.decide = lambda request, version, reply: replies.append(reply)
        tasks = PeriodicTasks(properties(leader_imbalance_check_interval_seconds="1"), loop_clock(), controller)
        tasks.start()
        await after_ms(1100)
        count = len(replies)
        tasks.stop()
        for reply in list(replies):
            reply(MaintenanceResponse(elections=MAX_ELECTIONS_PER_IMBALANCE))
        assert len(replies) == count

    simulated(story)


def test_expired_tokens_are_removed_at_an_interval_by_the_active_controller() -> None:
    async def story() -> None:
        controller: Any = Deciding()
        expiry = TokenExpiry(properties(delegation_token_expiry_check_interval_ms="10000"), loop_clock(), controller)
        expiry.start()
        await after_ms(30_100)
        assert controller.decided == {RemoveExpiredTokensRequest: 3}
        controller.is_active = False
        await after_ms(20_000)
        assert controller.decided == {RemoveExpiredTokensRequest: 3}
        controller.is_active = True
        await after_ms(10_000)
        assert controller.decided == {RemoveExpiredTokensRequest: 4}
        expiry.stop()
        await after_ms(20_000)
        assert controller.decided == {RemoveExpiredTokensRequest: 4}

    simulated(story)


# ---- registration of a controller


class Registering:
    """Node 0 as a controller that registers itself."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.controller: Any = Deciding()
        registration = registration_of(
            properties(node_id="0", listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"),
            controller=[Endpoint("CONTROLLER", "here", 9093)],
        )
        forwarding = NotedForwarding()
        self.sent: Any = forwarding.sent
        registrar = ControllerRegistrar(
            loop_clock(), self.metadata, self.controller, Lazy(lambda: forwarding), registration
        )
        registrar.start()

    def publish(self, *, is_begun: bool = True, registered: bytes | None = None, node_id: int = 0) -> None:
        image = self.metadata.image
        features = image.features._replace(finalized=image.features.finalized.set("metadata.version", 25))
        controllers = image.cluster.controllers
        if registered is not None:
            controllers = controllers.set(node_id, ControllerImage(node_id, registered, False, Map(), Map()))
        self.metadata.image = image._replace(
            features=features if is_begun else image.features, cluster=image.cluster._replace(controllers=controllers)
        )
        for function in self.metadata.on_published:
            function(self.metadata.image)

    def leader_changed(self) -> None:
        for function in self.controller.on_leader_changed:
            function()


def test_controller_registers_each_process_once() -> None:
    async def story() -> None:
        node = Registering()
        node.publish(is_begun=False)
        node.leader_changed()
        assert node.sent == [], "a new cluster has no features before its first records"
        node.publish()
        node.publish()
        node.leader_changed()
        ((request, reply, timeout_ms),) = node.sent
        assert (request.controller_id, timeout_ms) == (0, 5000)
        assert [(one.name, one.host, one.port, one.security_protocol) for one in request.listeners] == [
            ("CONTROLLER", "here", 9093, 3)
        ]
        node.publish(registered=bytes(16))
        reply(ControllerRegistrationResponse())
        node.publish(registered=request.incarnation_id, node_id=1)
        assert len(node.sent) == 2, "the image has another process's"
        node.sent[1][1](ControllerRegistrationResponse())
        node.publish(registered=request.incarnation_id)
        node.leader_changed()
        await after_ms(1000)
        assert len(node.sent) == 2

    simulated(story)


@pytest.mark.parametrize("response", [None, ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)])
def test_failed_registration_of_a_controller_is_sent_again(response: Any) -> None:
    async def story() -> None:
        node = Registering()
        node.publish()
        for count in range(1, 4):
            assert len(node.sent) == count
            node.sent[-1][1](response)
            await after_ms(190)
            assert len(node.sent) == count
            await after_ms(20)
        assert len({request.incarnation_id for request, _, _ in node.sent}) == 1
        node.sent[-1][1](ControllerRegistrationResponse())
        await after_ms(1000)
        assert len(node.sent) == 4

    simulated(story)


# ---- ids of producers


class Ids:
    def __init__(self) -> None:
        self.asked: list[tuple[AllocateProducerIdsRequest, int, Callable[[Any], None]]] = []
        self.taken: list[tuple[int, int]] = []
        self.floor = 0
        self.ids = ProducerIds(0, lambda: 7, lambda *asked, **client: self.asked.append(asked), lambda: self.floor)

    def take(self) -> None:
        self.ids.take(lambda error, id_: self.taken.append((error, id_)))

    def respond(self, start: int, count: int, error: int = 0) -> None:
        self.asked[-1][2](AllocateProducerIdsResponse(0, error, start, count))


def test_each_id_of_a_block_is_given_once() -> None:
    node = Ids()
    for _ in range(3):
        node.take()
    assert node.taken == [] and len(node.asked) == 1
    assert node.asked[0][:2] == (AllocateProducerIdsRequest(0, 7), 0)
    node.respond(0, 2)
    assert node.taken == [(0, 0), (0, 1)] and len(node.asked) == 2
    node.respond(1000, 3)
    for _ in range(2):
        node.take()
    assert node.taken == [(0, id_) for id_ in (0, 1, 1000, 1001, 1002)]
    assert len(node.asked) == 2
    node.take()
    assert len(node.asked) == 3


def test_failed_allocation_fails_those_that_wait_and_the_next_one_asks_again(caplog: pytest.LogCaptureFixture) -> None:
    node = Ids()
    node.take()
    node.take()
    node.respond(-1, 0, ErrorCode.STALE_BROKER_EPOCH)
    assert node.taken == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)] * 2
    assert "STALE_BROKER_EPOCH" in caplog.text and len(node.asked) == 1
    node.take()
    node.respond(5, 1)
    assert node.taken[-1] == (0, 5) and len(node.asked) == 2


def test_requests_for_ids_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "MAX_WAITING", 2)
    node = Ids()
    for _ in range(3):
        node.take()
    assert node.taken == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)]
    node.respond(5, 10)
    assert node.taken[1:] == [(0, 5), (0, 6)]


def test_block_below_the_floor_is_left() -> None:
    node = Ids()
    node.take()
    node.respond(0, 10)
    node.floor = 1500
    node.take()
    node.respond(10, 10)  # of a controller that has not seen the floor yet
    assert node.taken == [(0, 0)] and len(node.asked) == 3
    node.respond(1500, 10)
    assert node.taken == [(0, 0), (0, 1500)]


# ---- topics that are created by their first use


class Creating:
    def __init__(self) -> None:
        self.asked: list[tuple[CreateTopicsRequest, int, Callable[[Any], None], dict[str, Any]]] = []
        self.internal: list[str] = []
        self.creation = AutoCreation(self._submit, self.internal.append, RepeatedLines())

    def _submit(self, request: Any, version: int, reply: Callable[[Any], None], **client: Any) -> None:
        self.asked.append((request, version, reply, client))

    def names(self, number: int) -> list[str]:
        return [topic.name for topic in self.asked[number][0].topics]

    def respond(self, error: int = 0, message: str | None = None) -> None:
        request, _, reply, _ = self.asked[-1]
        reply(
            CreateTopicsResponse(
                topics=[CreatableTopicResult(one.name, bytes(16), error, message, 0) for one in request.topics]
            )
        )


def test_topics_of_one_client_are_created_by_one_request_and_each_once() -> None:
    async def story() -> None:
        node = Creating()
        alice: Any = {"principal": "User:alice"}
        for name in ("a", "b", "a", "__consumer_offsets"):
            node.creation.create(name, **alice)
        node.creation.create("c", principal="User:bob")
        assert node.internal == ["__consumer_offsets"] and node.asked == []
        await turns()
        assert len(node.asked) == 1 and node.names(0) == ["a", "b"]
        topic = node.asked[0][0].topics[0]
        assert (node.asked[0][1], topic.num_partitions, topic.replication_factor) == (7, -1, -1)
        assert node.asked[0][3] == alice
        node.creation.create("a", **alice)
        await turns()
        assert len(node.asked) == 1
        node.respond()
        await turns()
        assert node.names(1) == ["c"] and node.asked[1][3] == {"principal": "User:bob"}
        node.respond()
        await turns()
        assert len(node.asked) == 2
        node.creation.create("a", **alice)
        await turns()
        assert node.names(2) == ["a"], "it may have been deleted"

    simulated(story)


def test_requests_for_topics_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_creation, "MAX_AT_ONCE", 2)
    monkeypatch.setattr(auto_creation, "MAX_WANTED", 5)

    async def story() -> None:
        node = Creating()
        for number in range(7):
            node.creation.create(str(number))
        for _ in range(3):
            await turns()
            node.respond()
        await turns()
        assert [node.names(number) for number in range(len(node.asked))] == [["0", "1"], ["2", "3"], ["4"]]

    simulated(story)


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(ErrorCode.NONE, False), (ErrorCode.TOPIC_ALREADY_EXISTS, False), (ErrorCode.POLICY_VIOLATION, True)],
)
def test_topic_that_cannot_be_created_is_logged(
    error: ErrorCode, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        node = Creating()
        node.creation.create("a")
        await turns()
        node.respond(error, "too many")

    simulated(story)
    assert ("could not create topic a: too many" in caplog.text) == is_logged
