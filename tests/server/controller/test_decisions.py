"""Requests at the active controller with scripted parts: what is appended, when the reply comes, and what a failure does."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from odradek.metadata.image import AclImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord, TopicRecord
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.schema import Message
from odradek.replication.controller.maintenance import WriteNoOpRequest
from odradek.replication.controller.result import ControllerResult
from odradek.server.access.authorization.requirements import Checked
from odradek.server.access.authorization.sessions import AuthorizationSession
from odradek.server.access.authorization.usual_requirements import OF_NODES, on_cluster
from odradek.server.access.quotas.mutation_quota import MutationQuota
from odradek.server.access.quotas.sensors import BucketSensor
from odradek.server.access.subsystem import AccessSubsystem
from odradek.server.controller import active_controller
from odradek.server.controller.active_controller import ActiveController, decision_requirements
from odradek.server.controller.controller_request import Asked
from odradek.server.controller.log_room import LogRoom
from odradek.server.controller.metadata_batches import BatchTooLarge
from odradek.server.network.api_endpoint import SMALL_RESERVE, ApiEndpoint, Place
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.images import image_with
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_authorization import NotedAuthorization
from tests.server.harness.noted_commits import NotedCommits, publishing_of
from tests.server.harness.quorum_membership import membership_of
from tests.server.harness.raft_engine import raft_of
from tests.server.harness.scripted_engine import ScriptedEngine
from tests.server.harness.virtual_time import simulated, turns

EPOCH = 4
RECORD = TopicRecord("a", bytes(16))
REQUEST = CreateTopicsRequest([CreatableTopic("a", 1, 1)], 1000)
IMAGE = image_with(FeatureLevelRecord(name="metadata.version", feature_level=30))
CLIENT: Any = {"principal": "User:alice", "client_host": "/10.0.0.9", "client_id": "app"}


class Machine:
    """A controller's state machine whose decision the test sets."""

    def __init__(self) -> None:
        self.image = IMAGE
        self.next_offset = 0
        self.result = ControllerResult([RECORD], CreateTopicsResponse())
        self.handled: list[tuple[Any, int, Any, Any]] = []
        self.loaded: list[tuple[int, int]] = []
        self.failure: Exception | None = None
        self.replayed: list[Any] = []

    def handle(self, request: Any, version: int, quota: Any, caller: Any) -> ControllerResult:
        if self.failure is not None:
            raise self.failure
        self.handled.append((request, version, quota, caller))
        return self.result

    def load(self, image: Any, offset: int, kraft_version: int) -> None:
        self.loaded.append((offset, kraft_version))
        self.next_offset = offset

    def replay(self, records: Any, epoch: int, now_ms: int) -> None:
        self.replayed += records
        self.next_offset += len(records)

    def learn(self, image: Any) -> Any:
        yield


class Authorizer(NotedAuthorization):
    """Allows ALTER on the cluster, and further operations, to the principals in `allowed`."""

    def __init__(self, *allowed: str, also: tuple[Operation, ...] = ()) -> None:
        super().__init__(
            *(
                AclImage(
                    ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW
                )
                for principal in allowed
                for operation in (Operation.ALTER, *also)
            )
        )

    def session_of(self, principal: str, client_host: str, api: str = "") -> AuthorizationSession:
        assert (client_host, api) == ("/10.0.0.9", "CreateTopics")
        return super().session_of(principal, client_host, api)


class NotedRoom(LogRoom):
    """The room on a disk that is never full. `reserves`: the bytes that were to stay free."""

    def __init__(self) -> None:
        super().__init__("/", RepeatedLines())
        self.reserves: list[int] = []

    def admitted(self, asked: Asked, result: ControllerResult, reserve: int) -> ControllerResult:
        self.reserves.append(reserve)
        return result


class Log:
    def __init__(self, harness: Harness) -> None:
        self.encoded = harness._encoded
        self.append_batches = harness._append
        self._harness = harness

    @property
    def end_offset(self) -> int:
        return self._harness.end_offset


class Harness:
    """A node that leads, with an active controller. Its log takes everything; nothing is published by itself."""

    def __init__(self, authorizer: Authorizer | None = None, endpoint: Any = None) -> None:
        self.machine = Machine()
        self.end_offset = 0
        self.appended_batches: list[Any] = []
        self.failed: list[Exception] = []
        self.append_failure: Exception | None = None
        self.raised: list[int] = []
        self.activations = 0
        log: Any = Log(self)
        self.engine = ScriptedEngine(leads=True, epoch=EPOCH, kraft_version=1, is_caught_up=True)
        raft = raft_of()
        raft.raise_kraft_version = self.raised.append  # type: ignore[method-assign]
        member = membership_of(engine=self.engine, quorum_log=log, raft=raft)
        self.commits = NotedCommits(IMAGE, offset=0)
        self.images = publishing_of(self.commits, end_offset=0)
        node = node_of({"node.id": "0"}, clock=Clock(lambda: 0.077))
        access = AccessSubsystem(node)
        access.authorizer = authorizer
        self.active = ActiveController(
            node, access, member, self.images, lambda request: endpoint,
            activated=self._activated, failed=self.failed.append,
        )  # fmt: skip
        self.active._room = self.room = NotedRoom()
        self.active.begin(self.machine, EPOCH)  # type: ignore[arg-type]
        self.responses: list[Any] = []

    def _encoded(self, records: Any, epoch: int, now_ms: int, version: int, atomic: bool) -> Any:
        if isinstance(self.append_failure, BatchTooLarge):
            raise self.append_failure
        return (len(records), epoch, now_ms, version, atomic)

    def _append(self, batches: Any, now_ms: int) -> None:
        if self.append_failure is not None:
            raise self.append_failure
        self.appended_batches.append(batches)
        self.end_offset += batches[0]

    def _activated(self) -> None:
        self.activations += 1

    def decide(self, request: Message = REQUEST, **client: Any) -> None:
        self.active.decide(request, 7, self.responses.append, **client)

    def publish(self, end_offset: int) -> None:
        self.images.end_offset = end_offset
        self.active.published(end_offset)


def error(response: Any) -> int:
    return int(response.topics[0].error_code)


def test_decision_is_appended_and_its_reply_follows_its_publication() -> None:
    harness = Harness()
    harness.decide()
    assert harness.appended_batches == [(1, EPOCH, 77, 30, True)] and harness.machine.replayed == [RECORD]
    (noted,) = harness.commits.decisions
    assert (noted.base_offset, noted.end_offset, noted.records, noted.epoch) == (0, 1, [RECORD], EPOCH)
    assert harness.engine.calls == ["appended"] and harness.responses == []
    request, version, quota, caller = harness.machine.handled[0]
    assert (request, version, quota, caller.principal, caller.now_ms) == (REQUEST, 7, None, "User:ANONYMOUS", 77)
    harness.machine.result = ControllerResult([], CreateTopicsResponse())
    harness.decide()
    assert len(harness.appended_batches) == 1 and harness.responses == [], "a read waits for what it could see"
    harness.publish(1)
    assert len(harness.responses) == 2
    harness.decide()
    assert len(harness.responses) == 3, "everything is published"


def test_records_that_the_quorum_appended_itself_count() -> None:
    harness = Harness()
    harness.end_offset = 3
    harness.decide()
    assert harness.machine.loaded == [(3, 1)] and harness.machine.next_offset == harness.end_offset == 4
    harness.decide()
    assert harness.machine.loaded == [(3, 1)]


def test_raised_kraft_version_is_a_record_of_the_quorum() -> None:
    harness = Harness()
    harness.machine.result = ControllerResult([], CreateTopicsResponse(), kraft_version=1)
    harness.decide()
    assert harness.raised == [1] and harness.machine.loaded == [(0, 1)]


@pytest.mark.parametrize("failure", ["disk", "too large", "bug", "bug in the decision"])
def test_decision_that_cannot_be_appended_is_an_error(failure: str, caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    disk = LogDirectoryFailure("/d", "x", OSError(5, "broken"))
    if failure == "bug in the decision":
        harness.machine.failure = RuntimeError("oops")
    else:
        harness.append_failure = {"disk": disk, "too large": BatchTooLarge(99), "bug": RuntimeError("oops")}[failure]
    harness.decide()
    expected = {"disk": ErrorCode.NOT_CONTROLLER, "too large": ErrorCode.POLICY_VIOLATION}
    assert [error(one) for one in harness.responses] == [expected.get(failure, ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert harness.failed == ([disk] if failure == "disk" else [])
    assert ("a bug: the controller failed in CreateTopicsRequest" in caplog.text) == failure.startswith("bug")
    if failure == "too large":
        assert harness.machine.replayed == [] and "99 bytes" in harness.responses[0].topics[0].error_message


@pytest.mark.parametrize(
    ("endpoint", "request_", "reserve"),
    [
        (ApiEndpoint(authorization=(), log_reserve=5), REQUEST, 5),
        (None, REQUEST, 0),
        (None, WriteNoOpRequest(), SMALL_RESERVE),
    ],
)
def test_room_that_must_stay_is_that_of_the_endpoint(endpoint: Any, request_: Any, reserve: int) -> None:
    harness = Harness(endpoint=endpoint)
    harness.decide(request_)
    assert harness.room.reserves == [reserve]


@pytest.mark.parametrize(
    ("version", "principal", "is_strict"),
    [(7, "User:alice", True), (6, "User:alice", True), (5, "User:alice", False), (7, None, None)],
)
def test_client_that_changes_too_much_is_throttled(
    version: int, principal: str | None, is_strict: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []

    def mutation_quota(quotas: Any, principal: str, client_id: str, now_ms: int, *, is_strict: bool) -> Any:
        made.append((principal, client_id, now_ms, is_strict))
        quota = MutationQuota(BucketSensor(1, 1), now_ms, is_strict=is_strict)
        quota.throttle_ms = 0 if version == 5 else 30
        return quota

    monkeypatch.setattr(active_controller, "mutation_quota", mutation_quota)
    harness = Harness(endpoint=ApiEndpoint(authorization=(), strict_mutations_since=6))
    client = {} if principal is None else {**CLIENT, "principal": principal}
    harness.active.decide(REQUEST, version, harness.responses.append, **client)
    harness.publish(1)
    assert made == ([] if is_strict is None else [("User:alice", "app", 77, is_strict)])
    assert harness.responses[0].throttle_time_ms == (30 if is_strict else 0)
    assert (harness.machine.handled[0][2] is None) == (principal is None)


# ---- authorization


def endpoint_of(*, is_controller: bool = True, is_of_nodes: bool = False) -> ApiEndpoint[Any, Any]:
    requirements = (on_cluster(Operation.ALTER), *((OF_NODES,) if is_of_nodes else ()))
    return ApiEndpoint(authorization=requirements, place=Place("a node", is_controller=is_controller))


def test_requirements_of_a_decision_are_those_of_its_endpoint() -> None:
    endpoint = endpoint_of()
    assert decision_requirements(endpoint) is endpoint.authorization
    assert decision_requirements(None) == () == decision_requirements(endpoint_of(is_controller=False))


@pytest.mark.parametrize(
    ("allowed", "client", "endpoint", "is_decided"),
    [
        (["User:alice"], CLIENT, endpoint_of(), True),
        ([], CLIENT, endpoint_of(), False),
        ([], {}, endpoint_of(), True),
        (["User:alice"], CLIENT, None, False),
        (["User:alice"], CLIENT, endpoint_of(is_controller=False), False),
    ],
)
def test_client_needs_what_the_endpoint_requires_and_this_node_nothing(
    allowed: list[str], client: Any, endpoint: Any, is_decided: bool
) -> None:
    authorizer = Authorizer(*allowed)
    harness = Harness(authorizer, endpoint)
    harness.decide(**client)
    assert bool(harness.machine.handled) == is_decided
    if not is_decided:
        assert [error(one) for one in harness.responses] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert authorizer.changes == ([("User:alice", "/10.0.0.9", REQUEST)] if is_decided and client else [])


@pytest.mark.parametrize(
    ("has_records", "is_of_nodes", "is_noted"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_change_by_a_client_is_written_to_the_audit_log(has_records: bool, is_of_nodes: bool, is_noted: bool) -> None:
    authorizer = Authorizer("User:alice", also=(Operation.CLUSTER_ACTION,))
    harness = Harness(authorizer, endpoint_of(is_of_nodes=is_of_nodes))
    if not has_records:
        harness.machine.result = ControllerResult([], CreateTopicsResponse())
    harness.decide(**CLIENT)
    assert bool(authorizer.changes) == is_noted


# ---- leadership


@pytest.mark.parametrize(
    ("leads", "epoch", "stays"), [(True, EPOCH, True), (False, EPOCH, False), (True, EPOCH + 1, False)]
)
def test_controller_resigns_when_another_leads_or_it_was_elected_again(leads: bool, epoch: int, stays: bool) -> None:
    harness = Harness()
    harness.decide()
    harness.engine.leads, harness.engine.epoch = leads, epoch
    harness.active.resign_unless_leader()
    assert harness.active.is_active == stays and harness.commits.forgotten == int(not stays)
    assert [error(one) for one in harness.responses] == ([] if stays else [ErrorCode.NOT_CONTROLLER])
    harness.publish(1)
    assert len(harness.responses) == 1
    if not stays:
        harness.active.resign_unless_leader()
        assert harness.commits.forgotten == 1
        with pytest.raises(AssertionError):
            _ = harness.active.controller
        harness.decide()
        assert error(harness.responses[-1]) == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("leads", "caught_up", "committed", "begins"),
    [(True, True, 0, True), (False, True, 0, False), (True, False, 0, False), (True, True, -1, False)],
)
def test_controller_begins_when_it_has_committed_everything_before_it(
    leads: bool, caught_up: bool, committed: int, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_controller, "activation", lambda *_, transaction_open: [RECORD])

    async def story() -> None:
        harness = Harness()
        harness.active.resign()
        machine: Any = Machine()
        monkeypatch.setattr(ActiveController, "new", lambda self: machine)
        harness.engine.leads, harness.engine.is_caught_up, harness.engine.epoch = leads, caught_up, EPOCH + 2
        harness.commits.offset = committed
        harness.active.activate_if_leader()
        await turns()
        assert harness.active.is_active == begins
        if begins:
            assert harness.active.controller is machine and harness.active.epoch == EPOCH + 2
            assert machine.loaded == [(0, 1)] and machine.replayed == [RECORD]  # type: ignore[attr-defined]
            assert harness.activations == 1 and harness.appended_batches[-1][1:] == (EPOCH + 2, 77, 30, True)
            harness.active.activate_if_leader()
            await turns()
            assert machine.replayed == [RECORD], "it is active"  # type: ignore[attr-defined]
        harness.active.stop()
        assert not harness.active.is_active

    simulated(story)


def test_controller_that_loses_its_leadership_while_it_learns_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness()
        harness.active.resign()
        machine: Any = Machine()

        def learn(image: Any) -> Any:
            harness.engine.leads = False
            yield

        machine.learn = learn
        monkeypatch.setattr(ActiveController, "new", lambda self: machine)
        harness.active.activate_if_leader()
        await turns()
        assert not harness.active.is_active and machine.loaded == []

    simulated(story)


def failing_steps(image: Any) -> Any:
    yield
    raise RuntimeError("oops")


def test_controller_that_cannot_begin_halts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        harness = Harness()
        harness.active.resign()
        machine: Any = Machine()
        machine.learn = failing_steps
        monkeypatch.setattr(ActiveController, "new", lambda self: machine)
        harness.active.activate_if_leader()
        await turns()
        assert len(harness.failed) == 1 and not harness.active.is_active

    simulated(story)


def test_response_to_a_part_of_a_request_becomes_that_to_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that loses leadership answers for the whole request, so that it is sent again."""
    finished: list[Any] = []

    harness = Harness(Authorizer("User:alice"), endpoint_of())

    def checked(requirements: Any, session: Any, asked: Any, on: Any) -> Any:
        part = CreateTopicsRequest([CreatableTopic("part", 1, 1)], 1000)
        return Checked(part, lambda response: finished.append(response) or "finished")

    monkeypatch.setattr(active_controller, "check", checked)
    harness.decide(**CLIENT)
    harness.decide(**CLIENT)
    assert [one[0].topics[0].name for one in harness.machine.handled] == ["part", "part"]
    harness.publish(1)
    assert harness.responses == ["finished"] and len(finished) == 1
    harness.active.resign()
    assert error(harness.responses[1]) == ErrorCode.NOT_CONTROLLER and harness.responses[1].topics[0].name == "a"


def test_error_of_a_request_without_items_is_its_own() -> None:
    harness = Harness()
    harness.active.resign()
    harness.active.decide(UnregisterBrokerRequest(3), 0, harness.responses.append)
    assert isinstance(harness.responses[0], UnregisterBrokerResponse)
    assert harness.responses[0].error_code == ErrorCode.NOT_CONTROLLER
