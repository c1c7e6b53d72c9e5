"""Requests to the controller when thousands of ISRs change at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from odradek.server.replicas import isr_changes
from odradek.server.replicas.isr_changes import IsrChanges
from odradek.server.runtime.lazy import Lazy

from tests.server.harness.hosted import NOW_MS, TOPIC_ID, Hosted
from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.replicas import eventually
from tests.server.harness.set_clock import SetClock

OWN, SECOND = 1, 2


class AcceptingReplica(Hosted):
    """Notes the changes of its ISR that the controller accepts."""

    accepted: list[int]

    def isr_accepted(self, *change: Any) -> None:
        super().isr_accepted(*change)
        self.accepted.append(self.index)


class Harness:
    """A broker that leads partitions whose followers rejoin the ISR. The test sends the controller's responses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.accepted: list[int] = []
        forwarding = NotedForwarding()
        self.asked: list[Any] = forwarding.sent
        self.changes = IsrChanges(OWN, lambda: 5, SetClock(), Lazy(lambda: forwarding))

    def propose(self, index: int) -> None:
        replica = AcceptingReplica(self.path, OWN, index=index)
        replica.accepted = self.accepted
        replica.on_proposal = self.changes.propose
        replica.lead(SECOND, isr=(OWN,))
        replica.follower_fetched(SECOND, 0, 0, 7, NOW_MS)
        assert replica.role.proposal is not None

    def indexes(self, number: int) -> list[int]:
        return [one.partition_index for topic in self.asked[number].request.topics for one in topic.partitions]

    def respond(self, number: int, *later: int) -> None:
        """Accepts all changes of a request except `later`, which get an error."""
        responses = [
            AlterPartitionResponsePartition(
                index, ErrorCode.UNKNOWN_SERVER_ERROR if index in later else 0, OWN, 1, [OWN, SECOND], 0, 1
            )
            for index in self.indexes(number)
        ]
        self.asked[number].reply(AlterPartitionResponse(topics=[AlterPartitionResponseTopic(TOPIC_ID, responses)]))


async def test_no_request_has_more_than_its_part_and_the_rest_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_changes, "MOST_AT_ONCE", 3)
    harness = Harness(tmp_path)
    for index in range(8):
        harness.propose(index)
    for number in range(3):
        await eventually(lambda number=number: len(harness.asked) == number + 1)
        harness.respond(number)
    assert [harness.indexes(number) for number in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert harness.accepted == list(range(8))


async def test_failed_isr_change_does_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr_changes, "MOST_AT_ONCE", 3)
    harness = Harness(tmp_path)
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
