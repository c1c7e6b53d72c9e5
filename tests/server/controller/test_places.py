"""Requests that the active controller decides: which node forwards them, and which one answers for itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.server.controller.request_places import to_controller, to_quorum_leader
from odradek.server.network.listener_kind import BROKER, CONTROLLER


class Services:
    """A node that notes where it sends requests."""

    def __init__(self, *, is_alone: bool = False, is_active: bool = False, endpoint: str | None = None) -> None:
        self.sent: list[str] = []
        driver = SimpleNamespace(
            is_alone=is_alone,
            is_active=is_active,
            leader_endpoint=endpoint,
            decide=lambda *request, **client: self.sent.append("decided here"),
            submit=lambda *request, **client: self.sent.append("forwarded"),
            quorum_request=lambda call, request: self.sent.append("answered here"),
        )
        self.controller: Any = SimpleNamespace(driver=driver)
        self.network = SimpleNamespace(peers=self._peers)
        self.response: Any = None

    def _peers(self) -> Any:
        def send(endpoint: str, request: Any, answered: Any, **options: Any) -> None:
            self.sent.append(f"sent to {endpoint}")
            answered(self.response)

        return SimpleNamespace(send=send)


def call(listener_kind: Any, request: Any = None) -> Any:
    replies: list[Any] = []
    api = SimpleNamespace(response=DescribeQuorumResponse)
    return SimpleNamespace(
        listener_kind=listener_kind,
        request=request or CreateTopicsRequest(),
        version=0,
        api=api,
        principal="User:a",
        client_host="/h",
        client_id="c",
        is_token_authenticated=False,
        reply=replies.append,
        reply_forwarded=replies.append,
        replies=replies,
    )


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
    assert to_controller(services, call(listener_kind)) is None  # type: ignore[arg-type]
    assert services.sent == [expected]


@pytest.mark.parametrize(
    ("listener_kind", "is_active", "endpoint", "expected"),
    [
        (BROKER, False, "leader:1", "sent to leader:1"),
        (BROKER, True, "leader:1", "answered here"),
        (CONTROLLER, False, "leader:1", "answered here"),
    ],
)
def test_broker_asks_the_leader_of_the_quorum(
    listener_kind: Any, is_active: bool, endpoint: str, expected: str
) -> None:
    services = Services(is_active=is_active, endpoint=endpoint)
    services.response = DescribeQuorumResponse()
    asked = call(listener_kind, DescribeQuorumRequest())
    assert to_quorum_leader(services, asked) is None  # type: ignore[arg-type]
    assert services.sent == [expected]
    assert asked.replies == ([services.response] if expected.startswith("sent") else [])


@pytest.mark.parametrize("endpoint", [None, "leader:1"])
def test_broker_without_a_response_of_the_leader_returns_an_error(endpoint: str | None) -> None:
    services = Services(endpoint=endpoint)
    asked = call(BROKER, DescribeQuorumRequest())
    to_quorum_leader(services, asked)  # type: ignore[arg-type]
    assert [reply.error_code for reply in asked.replies] == [ErrorCode.NOT_CONTROLLER]
