"""Requests to the controller when thousands of ISRs change at once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from odradek.replication.isr import IsrProposal
from odradek.server.replicas import isr_changes
from odradek.server.replicas.isr_changes import IsrChanges
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.replicas import eventually

TOPIC_ID = bytes(range(16))


class Harness:
    """A broker that leads partitions whose followers rejoin the ISR. The test sends the controller's responses."""

    def __init__(self) -> None:
        self.asked: list[tuple[AlterPartitionRequest, Callable[[Any], None]]] = []
        self.accepted: list[int] = []
        channel: Any = SimpleNamespace(send_to_controller=self._ask)
        self.changes = IsrChanges(1, lambda: 5, Clock(lambda: 0.0), Lazy(lambda: channel))

    def _ask(self, request: AlterPartitionRequest, reply: Callable[[Any], None], *, timeout_ms: int) -> None:
        self.asked.append((request, reply))

    def propose(self, index: int) -> None:
        proposal = IsrProposal((1, 2), 0, 0)
        role = SimpleNamespace(proposal=proposal, isr=(1,), local_id=1, followers={})

        def accepted(*_: object) -> None:
            role.proposal = None
            self.accepted.append(index)

        replica: Any = SimpleNamespace(
            topic_id=TOPIC_ID, index=index, name=str(index), role=role, is_removed=False, isr_accepted=accepted
        )
        self.changes.propose(replica, proposal)

    def indexes(self, number: int) -> list[int]:
        return [one.partition_index for topic in self.asked[number][0].topics for one in topic.partitions]

    def respond(self, number: int, *later: int) -> None:
        """Accepts all changes of a request except `later`, which get an error."""
        responses = [
            AlterPartitionResponsePartition(
                index, ErrorCode.UNKNOWN_SERVER_ERROR if index in later else 0, 1, 0, [1, 2], 0, 1
            )
            for index in self.indexes(number)
        ]
        self.asked[number][1](AlterPartitionResponse(topics=[AlterPartitionResponseTopic(TOPIC_ID, responses)]))


async def test_no_request_has_more_than_its_part_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "MOST_AT_ONCE", 3)
    harness = Harness()
    for index in range(8):
        harness.propose(index)
    for number in range(3):
        await eventually(lambda number=number: len(harness.asked) == number + 1)
        harness.respond(number)
    assert [harness.indexes(number) for number in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert harness.accepted == list(range(8))


async def test_failed_isr_change_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "MOST_AT_ONCE", 3)
    harness = Harness()
    for index in range(5):
        harness.propose(index)
    await eventually(lambda: len(harness.asked) == 1)
    harness.respond(0, 0, 1)
    await eventually(lambda: len(harness.asked) == 2)
    assert harness.indexes(1) == [3, 4, 0]
    harness.respond(1)
    await eventually(lambda: len(harness.asked) == 3)
    harness.respond(2)
    assert sorted(harness.accepted) == list(range(5))
