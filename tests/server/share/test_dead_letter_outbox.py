"""Dead-letter records that wait for one broker: their batches, and the records that wait for the next request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from odradek.coordinator.dead_letters import (
    Content,
    Contents,
    DeadLetter,
    Origin,
)
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.record import decode_batch
from odradek.server.share import outbox as outbox_module
from odradek.server.share.outbox import Delivery, Outbox, QueuePartition

NOW = 1_000_000
ROOM = 5_000


@dataclass
class Harness:
    """Stands for peers that respond when the test calls `answer`, and for a clock that stands still."""

    asked: list[tuple[Any, Callable[[Any], None]]] = field(default_factory=list)
    reports: list[tuple[int, int | None]] = field(default_factory=list)

    def now_ms(self) -> int:
        return NOW

    def send(self, _: Any, request: Any, reply: Callable[[Any], None], **__: Any) -> None:
        self.asked.append((request, reply))

    def report(self, delivery: Delivery, error: int | None, _: str | None) -> None:
        self.reports.append((delivery.dead_letter.first, error))

    def respond(self, error: int = 0) -> list[list[bytes | None]]:
        """Responds to the oldest request. Returns the values in each of its batches."""
        request, reply = self.asked.pop(0)
        topics = [
            TopicProduceResponse(
                topic.name, topic.topic_id, [PartitionProduceResponse(p.index, error) for p in topic.partition_data]
            )
            for topic in request.topic_data
        ]
        reply(ProduceResponse(responses=topics))
        batches = [bytes(p.records) for topic in request.topic_data for p in topic.partition_data]
        assert all(read_header(batch).size == len(batch) for batch in batches), "each is one batch"
        return [[record.value for record in decode_batch(batch)] for batch in batches]


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def outbox(harness: Harness) -> Outbox:
    return Outbox(harness, harness, None, harness.report)  # type: ignore[arg-type]


def dead_letter(offset: int, size: int = 10, partition: int = 0, is_wanted: bool = True) -> Delivery:
    contents = Contents({offset: Content(None, b"%d" % offset * size)}, offset)
    origin = Origin("g", "t", 0)
    dead = DeadLetter(offset, offset, 1, is_rejected=True)
    made = Delivery(origin, dead, None, lambda: is_wanted, lambda: None, offset, contents)  # type: ignore[arg-type]
    made.destination = QueuePartition("dlq.t", b"q" * 16, partition, ROOM)
    return made


async def test_records_added_together_or_during_a_write_share_a_batch(harness: Harness, outbox: Outbox) -> None:
    for offset in (1, 2):
        outbox.add(dead_letter(offset))
    outbox.add(dead_letter(3, partition=1))
    await asyncio.sleep(0)
    for offset in (4, 5):
        outbox.add(dead_letter(offset))
    await asyncio.sleep(0)
    assert len(harness.asked) == 1, "one request at a time"
    assert harness.respond() == [[b"1" * 10, b"2" * 10], [b"3" * 10]]
    assert harness.reports == [(1, 0), (2, 0), (3, 0)]
    assert harness.respond() == [[b"4" * 10, b"5" * 10]]
    outbox.add(dead_letter(6))
    await asyncio.sleep(0)
    assert harness.respond() == [[b"6" * 10]]


async def test_a_batch_is_no_larger_than_its_topic_allows(harness: Harness, outbox: Outbox) -> None:
    for offset in range(1, 6):
        outbox.add(dead_letter(offset, 2_000))
    outbox.add(dead_letter(7, 9_000, partition=1))
    await asyncio.sleep(0)
    sizes = []
    while harness.asked:
        sizes.append([len(batch) for batch in harness.respond()])
    assert sizes == [[2, 1], [2], [1]]
    assert [offset for offset, _ in harness.reports] == [1, 2, 7, 3, 4, 5]


async def test_a_request_has_its_limit_whatever_the_number_of_partitions(
    harness: Harness, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MOST_REQUEST_BYTES", 4_000)
    for partition in range(6):
        outbox.add(dead_letter(partition, 1_500, partition=partition))
    await asyncio.sleep(0)
    counts = []
    while harness.asked:
        counts.append(len(harness.respond()))
    assert counts == [3, 3]


async def test_each_dead_letter_record_gets_its_error_or_timeout(harness: Harness, outbox: Outbox) -> None:
    outbox.add(dead_letter(1))
    await asyncio.sleep(0)
    harness.respond(error=6)
    outbox.add(dead_letter(2))
    await asyncio.sleep(0)
    _, reply = harness.asked.pop()
    reply(None)
    assert harness.reports == [(1, 6), (2, None)]


async def test_unwanted_dead_letter_records_are_not_sent(harness: Harness, outbox: Outbox) -> None:
    outbox.add(dead_letter(1, is_wanted=False))
    await asyncio.sleep(0)
    assert harness.asked == [] and harness.reports == []
