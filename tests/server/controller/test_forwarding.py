"""Requests of a node to the active controller in simulated time: where they go, when they are sent again, how they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import error_response
from odradek.replication.controller.result import RequestError
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller import forwarding
from odradek.server.controller.forwarding import FORWARDING_TIMEOUT_MS, RETRY_BACKOFF_MS, Forwarding
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN = AllocateProducerIdsRequest(0, 5)
OF_A_CLIENT = CreateTopicsRequest([CreatableTopic("a", 1, 1)], 1000)
LEADER = Endpoint("C", "leader", 9093)
CLIENT: Any = {"principal": "User:carol", "client_host": "/10.0.0.9", "client_id": "app"}


class Sent(NamedTuple):
    endpoint: Endpoint | None
    request: Any
    reply: Callable[[Any], None]
    timeout_ms: int
    version: int | None
    purpose: str
    client: dict[str, Any]


class Harness:
    """A node that forwards. It has the part of the controller's driver and of the peers that forwarding uses."""

    def __init__(self) -> None:
        self.is_active = False
        self.leader_endpoint: Endpoint | None = LEADER
        self.clock = loop_clock()
        self.sent: list[Sent] = []
        self.responses: list[Any] = []
        here: Any = self
        self.forwarding = Forwarding(here, Lazy(lambda: here), self.clock)

    def decide(self, request: Message, version: int, reply: Callable[[Any], None], **client: Any) -> None:
        self.sent.append(Sent(None, request, reply, 0, version, "", client))

    def send(
        self,
        endpoint: Endpoint,
        request: Message,
        reply: Callable[[Any], None],
        *,
        timeout_ms: int,
        version: int | None = None,
        purpose: str = "",
    ) -> None:
        self.sent.append(Sent(endpoint, request, reply, timeout_ms, version, purpose, {}))

    def submit(self, request: Message, version: int, **client: Any) -> None:
        self.forwarding.submit(request, version, self.responses.append, **client)


def rejected(request: Message, version: int, error: ErrorCode) -> Message:
    return error_response(request, version, RequestError(error))


def test_request_of_this_broker_goes_as_its_own_and_one_of_a_client_in_an_envelope() -> None:
    async def story() -> None:
        harness = Harness()
        harness.submit(OWN, 0)
        harness.submit(OF_A_CLIENT, 6, **CLIENT)
        harness.submit(OF_A_CLIENT, 6)
        harness.submit(OWN, 0, **CLIENT)
        assert [type(one.request) for one in harness.sent] == [
            AllocateProducerIdsRequest,
            EnvelopeRequest,
            CreateTopicsRequest,
            AllocateProducerIdsRequest,
        ], "no client sends requests that only nodes send"
        assert [one.version for one in harness.sent] == [0, 0, 6, 0]
        assert {(one.endpoint, one.timeout_ms, one.purpose) for one in harness.sent} == {
            (LEADER, FORWARDING_TIMEOUT_MS, "forwarding")
        }

    simulated(story)


def test_active_controller_of_this_node_decides_with_the_client() -> None:
    async def story() -> None:
        harness = Harness()
        harness.is_active = True
        harness.submit(OF_A_CLIENT, 6, **CLIENT)
        (one,) = harness.sent
        assert (one.endpoint, one.request, one.version, one.client) == (None, OF_A_CLIENT, 6, CLIENT)
        response = AllocateProducerIdsResponse(error_code=3)
        one.reply(response)
        assert harness.responses == [response]

    simulated(story)


@pytest.mark.parametrize("failure", ["no response", "NOT_CONTROLLER", "not active", "no leader"])
def test_request_is_sent_again_until_its_time_is_over(failure: str) -> None:
    async def story() -> None:
        harness = Harness()
        harness.is_active = failure == "not active"
        if failure == "no leader":
            harness.leader_endpoint = None
        harness.submit(OWN, 0)
        began = harness.clock.now_ms()
        left: list[int] = []
        while not harness.responses:
            assert harness.clock.now_ms() - began <= FORWARDING_TIMEOUT_MS + 100
            if failure != "no leader":
                left.append(harness.sent[-1].timeout_ms)
                is_none = failure == "no response"
                harness.sent[-1].reply(None if is_none else rejected(OWN, 0, ErrorCode.NOT_CONTROLLER))
            await after_ms(RETRY_BACKOFF_MS - 2)
            count = len(harness.sent)
            await after_ms(4)
            assert harness.responses or failure == "no leader" or len(harness.sent) == count + 1
        assert harness.responses == [rejected(OWN, 0, ErrorCode.REQUEST_TIMED_OUT)]
        assert harness.clock.now_ms() - began >= FORWARDING_TIMEOUT_MS - 5
        if failure in ("no response", "NOT_CONTROLLER"):
            assert left == sorted(left, reverse=True) and 0 < left[-1] <= RETRY_BACKOFF_MS + 5 < left[0]

    simulated(story)


def test_request_follows_the_controller() -> None:
    async def story() -> None:
        harness = Harness()
        harness.leader_endpoint = None
        harness.submit(OWN, 0)
        await after_ms(3 * RETRY_BACKOFF_MS)
        assert harness.sent == []
        harness.leader_endpoint = LEADER
        await after_ms(RETRY_BACKOFF_MS + 1)
        assert harness.sent[-1].endpoint == LEADER
        harness.sent[-1].reply(rejected(OWN, 0, ErrorCode.NOT_CONTROLLER))
        harness.is_active = True
        await after_ms(RETRY_BACKOFF_MS + 1)
        assert harness.sent[-1].endpoint is None
        response = AllocateProducerIdsResponse()
        harness.sent[-1].reply(response)
        assert harness.responses == [response]

    simulated(story)


@pytest.mark.parametrize(
    ("error", "is_final"), [(ErrorCode.NOT_CONTROLLER, False), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True)]
)
def test_envelope_that_another_node_refuses_is_sent_again_if_that_is_not_the_controller(
    error: ErrorCode, is_final: bool
) -> None:
    async def story() -> None:
        harness = Harness()
        harness.submit(OF_A_CLIENT, 7, **CLIENT)
        harness.sent[0].reply(EnvelopeResponse(None, error))
        await after_ms(RETRY_BACKOFF_MS + 1)
        assert len(harness.sent) == (1 if is_final else 2)
        assert harness.responses == ([rejected(OF_A_CLIENT, 7, ErrorCode.UNKNOWN_SERVER_ERROR)] if is_final else [])

    simulated(story)


def test_requests_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_WAITING", 2)
    timed_out = rejected(OWN, 0, ErrorCode.REQUEST_TIMED_OUT)

    async def story() -> None:
        harness = Harness()
        for _ in range(3):
            harness.submit(OWN, 0)
        assert len(harness.sent) == 2 and harness.responses == [timed_out]
        done = AllocateProducerIdsResponse()
        for one in harness.sent:
            one.reply(done)
        for _ in range(3):
            harness.submit(OWN, 0)
        assert len(harness.sent) == 4 and harness.responses == [timed_out, done, done, timed_out]

    simulated(story)


def test_closed_forwarding_fails_new_requests_and_those_that_would_be_sent_again() -> None:
    timed_out = rejected(OWN, 0, ErrorCode.REQUEST_TIMED_OUT)

    async def story() -> None:
        harness = Harness()
        harness.submit(OWN, 0)
        harness.forwarding.close()
        assert harness.responses == []
        harness.submit(OWN, 0)
        assert harness.responses == [timed_out]
        harness.sent[0].reply(None)
        await after_ms(RETRY_BACKOFF_MS + 1)
        assert len(harness.sent) == 1 and harness.responses == [timed_out, timed_out]

    simulated(story)


# ---- requests that are sent once


@pytest.mark.parametrize(("version", "sent"), [(None, 0), (0, 0)])
def test_request_to_the_controller_is_sent_once(version: int | None, sent: int) -> None:
    async def story() -> None:
        harness = Harness()
        responses: list[Any] = []
        harness.forwarding.send_to_controller(OWN, responses.append, timeout_ms=70, version=version)
        assert harness.sent[0][:2] == (LEADER, OWN)
        assert harness.sent[0][3:6] == (70, version, "controller")
        harness.sent[0].reply(None)
        await after_ms(1000)
        assert (len(harness.sent), responses) == (1, [None])
        harness.is_active = True
        harness.forwarding.send_to_controller(OWN, responses.append, timeout_ms=70, version=version, purpose="p")
        assert (harness.sent[1].endpoint, harness.sent[1].version) == (None, sent)
        harness.is_active, harness.leader_endpoint = False, None
        harness.forwarding.send_to_controller(OWN, responses.append, timeout_ms=70, version=version, purpose="p")
        assert len(responses) == 1, "the caller's own step ends first"
        await turns()
        assert (len(harness.sent), responses) == (2, [None, None])

    simulated(story)


def test_request_without_a_version_goes_in_the_newest_stable_one() -> None:
    async def story() -> None:
        harness = Harness()
        harness.is_active = True
        harness.forwarding.send_to_controller(UpdateFeaturesRequest(), harness.responses.append, timeout_ms=70)
        assert harness.sent[0].version == 2

    simulated(story)
