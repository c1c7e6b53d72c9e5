"""Large requests in an Envelope (KIP-590): the controller blocks its loop no longer than the budget."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.server.controller.envelopes import encoded_principal
from odradek.server.runtime.turn_budget import TURN_BUDGET_S

from tests.hostile.cost_probe import MeasuredBroker, frame_of

pytestmark = pytest.mark.usefixtures("sockets")


def created(count: int) -> CreateTopicsRequest:
    topics = [CreatableTopic(f"new-{number}", num_partitions=1, replication_factor=1) for number in range(count)]
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=True)


def enveloped(request: Any, version: int) -> bytes:
    return frame_of(EnvelopeRequest(frame_of(request, version)[4:], encoded_principal(None), bytes(4)), 0)


def test_envelope_around_very_many_new_topics_is_answered_within_the_budget() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    with MeasuredBroker(**{"listeners": listeners, "controller.listener.names": "CONTROLLER"}) as broker:
        broker.address = broker.broker.server.network.listeners[1].endpoint.address
        broker.reconnect()
        frame = enveloped(created(8000), 7)
        assert broker.exchange(frame) > 1_000_000
        broker.settle()
        assert any(broker.longest_turn_s(frame) < TURN_BUDGET_S for _ in range(10))
