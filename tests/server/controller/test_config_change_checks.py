"""A broker's checks of changed configurations: who may change which resource, and what of a request is rejected here."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.acls import Operation
from odradek.metadata.acls import ResourceType as AclResourceType
from odradek.metadata.configs import ConfigResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.config_changes import (
    RejectedResource,
    broker_id_of,
    change_configs,
    check_broker_values,
    check_is_this_broker,
    is_for_controller,
    reject_nulls,
)
from odradek.server.controller.config_decisions import authorized_changes, config_error, configs_to_alter

from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.noted_driver import NotedDriver

BROKER, TOPIC, GROUP = ConfigResourceType.BROKER, ConfigResourceType.TOPIC, ConfigResourceType.GROUP
OWN, SECOND, MAP = "PLAINTEXT://:9092", "SECOND://:9095", "listener.security.protocol.map"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT"
METRICS, UNKNOWN = ConfigResourceType.CLIENT_METRICS, 99


class Session:
    """The client's decisions: it may do what is listed, and they are noted."""

    def __init__(self, *allowed: Any) -> None:
        self.allowed = allowed
        self.questions: list[Any] = []

    def _decide(self, question: Any) -> bool:
        self.questions.append(question)
        return question in self.allowed

    def allows_on_cluster(self, operation: Operation) -> bool:
        return self._decide((operation, "cluster"))

    def allows(self, operation: Operation, kind: AclResourceType, name: str) -> bool:
        return self._decide((operation, kind, name))


def resource(kind: int, name: str, *keys: str) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(key, 0, "1") for key in keys])


@pytest.mark.parametrize(
    ("kind", "question", "error"),
    [
        (BROKER, (Operation.DESCRIBE_CONFIGS, "cluster"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (METRICS, (Operation.DESCRIBE_CONFIGS, "cluster"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (TOPIC, (Operation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "n"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (GROUP, (Operation.DESCRIBE_CONFIGS, AclResourceType.GROUP, "n"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (UNKNOWN, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_resource_of_each_type_has_its_own_right(kind: int, question: Any, error: ErrorCode) -> None:
    denied: Any = Session()
    assert config_error(denied, Operation.DESCRIBE_CONFIGS, kind, "n") == error
    assert denied.questions == ([] if question is None else [question])
    allowed: Any = Session(question)
    expected = error if question is None else None
    assert config_error(allowed, Operation.DESCRIBE_CONFIGS, kind, "n") == expected


def test_changes_that_the_client_may_not_make_are_taken_out_and_have_their_errors() -> None:
    session: Any = Session((Operation.ALTER_CONFIGS, AclResourceType.TOPIC, "mine"))
    request = IncrementalAlterConfigsRequest(
        resources=[
            resource(TOPIC, "mine", "retention.ms"),
            resource(TOPIC, "other", "retention.ms"),
            resource(UNKNOWN, "x"),
            resource(TOPIC, "twice"),
            resource(TOPIC, "twice"),
        ],
        validate_only=True,
    )
    kept, complete = authorized_changes(session, request, AlterConfigsResourceResponse)
    assert isinstance(kept, IncrementalAlterConfigsRequest)
    assert [one.resource_name for one in kept.resources] == ["mine", "twice", "twice"]
    assert kept.validate_only
    assert len(request.resources) == 5, "the request is as it was"
    response = complete(
        IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(0, None, TOPIC, "mine")])
    )
    assert isinstance(response, IncrementalAlterConfigsResponse)
    found = {one.resource_name: (one.error_code, one.error_message) for one in response.responses}
    assert found["mine"] == (0, None)
    assert found["other"][0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED and found["other"][1]
    assert found["x"] == (ErrorCode.INVALID_REQUEST, f"Unexpected resource type {ConfigResourceType.named(UNKNOWN)}.")


def test_records_of_a_request_are_counted_over_its_resources() -> None:
    request = IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "a", "x", "y"), resource(TOPIC, "b", "z")])
    assert configs_to_alter(request) == 3
    assert configs_to_alter(IncrementalAlterConfigsRequest()) == 0


@pytest.mark.parametrize(
    ("kind", "expected"), [(TOPIC, True), (METRICS, True), (GROUP, True), (BROKER, False), (UNKNOWN, None)]
)
def test_resources_other_than_brokers_are_the_controllers(kind: int, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(RejectedResource, match="Unknown resource type 99") as rejected:
            is_for_controller(kind)
        assert rejected.value.error == ErrorCode.INVALID_REQUEST
    else:
        assert is_for_controller(kind) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", None),
        ("7", None),
        ("8", "Unexpected broker id, expected 7, but received 8"),
        ("x", "Node id must be an integer"),
    ],
)
def test_broker_takes_changes_for_itself_and_for_all(name: str, words: str | None) -> None:
    if words is None:
        check_is_this_broker(7, name)
        return
    with pytest.raises(RejectedResource, match=words):
        check_is_this_broker(7, name)


def test_id_of_a_broker_is_a_number_and_the_error_says_what_it_is_of() -> None:
    assert broker_id_of("12") == 12
    with pytest.raises(RejectedResource, match="Logger id must be an integer, but it is: one") as rejected:
        broker_id_of("one", "Logger")
    assert (rejected.value.error, str(rejected.value)) == (ErrorCode.INVALID_REQUEST, rejected.value.message)


def test_keys_that_need_a_value_are_named_together() -> None:
    reject_nulls([])
    with pytest.raises(RejectedResource, match="Null value not supported for : a, b"):
        reject_nulls(["a", "b"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"background.threads": "12"}, None),
        ({"background.threads": "x"}, "background.threads"),
        ({"listeners": f"{OWN},{SECOND},THIRD://:9096", MAP: f"{PROTOCOLS},THIRD:PLAINTEXT"}, None),
        ({"listeners": OWN, MAP: PROTOCOLS}, "must be a subset of listeners 'PLAINTEXT'"),
    ],
)
def test_broker_checks_that_it_can_have_the_values(values: dict[str, str], words: str | None) -> None:
    config = BrokerConfig({"listeners": f"{OWN},{SECOND}", MAP: PROTOCOLS})
    if words is None:
        check_broker_values(config, "1", values)
        return
    with pytest.raises(RejectedResource, match=words) as rejected:
        check_broker_values(config, "1", values)
    assert rejected.value.error == ErrorCode.INVALID_REQUEST


# ---- the response to a request of which a part goes to the controller


class Changing:
    """A broker with a controller that the test plays."""

    def __init__(self) -> None:
        self.driver = NotedDriver()
        self.services = HandlerServices(driver=self.driver)
        connection = NotedConnection()
        connection.principal, connection.client_host = "User:a", "/h"
        connection.is_token_authenticated = True
        self.calls = NotedCalls(connection)
        self.replies = self.calls.responses

    def change(self, request: IncrementalAlterConfigsRequest, check: Any) -> Any:
        call: Any = self.calls.call(request, 1, "c")
        services: Any = self.services
        return change_configs(services, call, check, AlterConfigsResourceResponse, IncrementalAlterConfigsResponse)

    @property
    def submitted(self) -> list[tuple[Any, int, Any, dict[str, Any]]]:
        assert {asked.way for asked in self.driver.asked} <= {"submit"}
        return [asked[1:] for asked in self.driver.asked]


def results(response: Any) -> list[tuple[str, int, str | None]]:
    return [(one.resource_name, one.error_code, one.error_message) for one in response.responses]


def by_name(services: Any, call: Any, one: AlterConfigsResource) -> bool:
    if one.resource_name.startswith("bad"):
        raise RejectedResource(ErrorCode.INVALID_CONFIG, f"{one.resource_name} is bad")
    return one.resource_name.startswith("own")


def test_request_that_is_done_here_does_not_reach_the_controller() -> None:
    harness = Changing()
    request = IncrementalAlterConfigsRequest(
        resources=[resource(BROKER, "own"), resource(BROKER, "bad"), resource(BROKER, "own-twice", "k", "k")]
    )
    assert results(harness.change(request, by_name)) == [
        ("own", 0, None),
        ("bad", ErrorCode.INVALID_CONFIG, "bad is bad"),
        ("own-twice", ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
    ]
    assert harness.submitted == harness.replies == []


def test_results_are_joined_in_the_order_of_the_request() -> None:
    harness = Changing()
    request = IncrementalAlterConfigsRequest(
        resources=[resource(TOPIC, name) for name in ("t1", "own", "same", "t2", "same", "lost")], validate_only=True
    )
    assert harness.change(request, by_name) is None
    [(sent, version, reply, client)] = harness.submitted
    assert [one.resource_name for one in sent.resources] == ["t1", "t2", "lost"]
    assert (sent.validate_only, version) == (True, 1)
    assert client == {"principal": "User:a", "client_host": "/h", "client_id": "c", "is_token_authenticated": True}
    decided = [AlterConfigsResourceResponse(0, None, TOPIC, "t2"), AlterConfigsResourceResponse(40, "no", TOPIC, "t1")]
    reply(IncrementalAlterConfigsResponse(throttle_time_ms=5, responses=decided))
    [response] = harness.replies
    assert response.throttle_time_ms == 5
    twice = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert results(response) == [
        ("t1", 40, "no"), ("own", 0, None), ("same", *twice), ("t2", 0, None), ("same", *twice),
        ("lost", ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ]  # fmt: skip
