"""Requests that the active controller decides: which node forwards them, and which one answers for itself."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.request_places import to_controller, to_quorum_leader
from odradek.server.network.listener_kind import BROKER, CONTROLLER, ListenerKind

from tests.server.harness.handler_services import HandlerServices
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.noted_driver import NotedDriver

LEADER = Endpoint("C", "leader", 1)
#: How the driver takes a request, and what that means.
WAYS = {"decide": "decided here", "submit": "forwarded", "quorum_request": "answered here"}


class Services(HandlerServices):
    """A node that notes where it sends requests."""

    def __init__(self, *, is_alone: bool = False, is_active: bool = False, endpoint: Endpoint | None = None) -> None:
        self.driver = NotedDriver(is_alone=is_alone, is_active=is_active, leader_endpoint=endpoint)
        super().__init__(driver=self.driver)

    def sent(self) -> list[str]:
        peers = self.network.peers().sent
        return [WAYS[asked.way] for asked in self.driver.asked] + [f"sent to {sent.endpoint.host}" for sent in peers]


def calls_on(listener_kind: ListenerKind) -> NotedCalls:
    connection = NotedConnection()
    connection.listener.kind = listener_kind
    return NotedCalls(connection)


@pytest.mark.parametrize(
    ("listener_kind", "is_alone", "expected"),
    [
        (BROKER, False, "forwarded"),
        (BROKER, True, "forwarded"),
        # Clients of a controller find the active one themselves, unless there is only one.
        (CONTROLLER, False, "decided here"),
        (CONTROLLER, True, "forwarded"),
    ],
)
def test_broker_forwards_what_a_controller_decides_for_its_own_clients(
    listener_kind: Any, is_alone: bool, expected: str
) -> None:
    services = Services(is_alone=is_alone)
    call = calls_on(listener_kind).call(CreateTopicsRequest(), 7)
    assert to_controller(services, call) is None  # type: ignore[arg-type]
    assert services.sent() == [expected]


@pytest.mark.parametrize(
    ("listener_kind", "is_active", "endpoint", "expected"),
    [
        (BROKER, False, LEADER, "sent to leader"),
        (BROKER, True, LEADER, "answered here"),
        (CONTROLLER, False, LEADER, "answered here"),
    ],
)
def test_broker_asks_the_leader_of_the_quorum(
    listener_kind: Any, is_active: bool, endpoint: Endpoint, expected: str
) -> None:
    services = Services(is_active=is_active, endpoint=endpoint)
    calls, response = calls_on(listener_kind), DescribeQuorumResponse()
    assert to_quorum_leader(services, calls.call(DescribeQuorumRequest(), 0)) is None  # type: ignore[arg-type]
    assert services.sent() == [expected]
    for sent in services.network.peers().sent:
        sent.reply(response)
    assert calls.responses == ([response] if expected.startswith("sent") else [])


@pytest.mark.parametrize("endpoint", [None, LEADER])
def test_broker_without_a_response_of_the_leader_returns_an_error(endpoint: Endpoint | None) -> None:
    services = Services(endpoint=endpoint)
    calls = calls_on(BROKER)
    to_quorum_leader(services, calls.call(DescribeQuorumRequest(), 0))  # type: ignore[arg-type]
    for sent in services.network.peers().sent:
        sent.reply(None)  # type: ignore[arg-type]
    assert len(services.sent()) == (endpoint is not None)
    assert [response.error_code for response in calls.responses] == [ErrorCode.NOT_CONTROLLER]
