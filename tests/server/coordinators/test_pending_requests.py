"""Requests without a response yet: each gets exactly one, in the order of their arrival, also when a reply fails."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.schema import Message
from odradek.server.coordinators.open_requests import OpenRequests, Pending

VERSION = 4


def error_response(request: Message, version: int, error: ErrorCode) -> Message:
    assert isinstance(request, HeartbeatRequest)
    assert version == VERSION
    return HeartbeatResponse(error_code=error)


class Requests:
    def __init__(self) -> None:
        self.answered: list[tuple[str, int]] = []
        self.open = OpenRequests(error_response)

    def add(self, name: str, failures: int = 0) -> Pending:
        left = [RuntimeError("the connection is a bug")] * failures

        def reply(response: Any) -> None:
            if left:
                raise left.pop()
            self.answered.append((name, response.error_code))

        pending = Pending(HeartbeatRequest(group_id=name), VERSION, reply)
        self.open.add(pending)
        return pending


def test_request_has_one_response_whatever_comes_later() -> None:
    requests = Requests()
    first, second = requests.add("first"), requests.add("second")
    requests.open.respond(first, HeartbeatResponse())
    requests.open.respond(first, HeartbeatResponse(error_code=1))
    requests.open.reject(first, ErrorCode.NOT_COORDINATOR)
    assert requests.answered == [("first", 0)]
    requests.open.reject(second, ErrorCode.NOT_COORDINATOR)
    requests.open.respond(second, HeartbeatResponse())
    requests.open.reject_all(ErrorCode.NOT_COORDINATOR)
    assert requests.answered == [("first", 0), ("second", ErrorCode.NOT_COORDINATOR)]


def test_all_open_requests_are_rejected_in_their_order_and_later_ones_are_not() -> None:
    requests = Requests()
    for name in ("a", "b", "c"):
        requests.add(name)
    requests.open.reject_all(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    later = requests.add("later")
    assert requests.answered == [(name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) for name in ("a", "b", "c")]
    requests.open.respond(later, HeartbeatResponse())
    assert requests.answered[-1] == ("later", 0)


@pytest.mark.parametrize(
    ("failures", "answered"), [(1, [("broken", ErrorCode.UNKNOWN_SERVER_ERROR), ("next", 0)]), (2, [("next", 0)])]
)
def test_reply_that_fails_becomes_an_error_and_does_not_stop_the_others(
    failures: int, answered: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    requests = Requests()
    broken, following = requests.add("broken", failures), requests.add("next")
    requests.open.respond(broken, HeartbeatResponse())
    requests.open.respond(following, HeartbeatResponse())
    assert requests.answered == answered
    assert "a bug: HeartbeatRequest could not be answered" in caplog.text
