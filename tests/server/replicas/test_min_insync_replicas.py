"""Produce with acks=all, when the ISR shrinks below `min.insync.replicas` after the write.

As in Apache Kafka since KIP-966, nothing is committed while too few replicas are in sync: a waiting Produce waits on, and
at last returns REQUEST_TIMED_OUT. NOT_ENOUGH_REPLICAS_AFTER_APPEND is only for a batch that enough replicas have committed,
if some of them have left the ISR before its response.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from odradek.storage.log.flushing import PendingFlush

from tests.server.harness.replicas import DEADLINE_S, TOPIC, Replicas, eventually

pytestmark = pytest.mark.usefixtures("sockets")

QUICK = {"replica.fetch.wait.max.ms": "100"}
SOON_MS = 300


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yields an event. No flush of the topic starts before it is set."""
    ready, run = threading.Event(), PendingFlush.run

    def wait(flush: PendingFlush) -> None:
        if f"{TOPIC}-0" in flush._directory.path:
            assert ready.wait(DEADLINE_S), "nobody set it"
        run(flush)

    monkeypatch.setattr(PendingFlush, "run", wait)
    yield ready
    ready.set()


def only(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


def min_insync(replicas: Replicas, count: int) -> None:
    replicas.publish(ConfigRecord(TOPIC_RESOURCE, TOPIC, "min.insync.replicas", str(count)))


async def test_waiting_produce_times_out_when_isr_shrinks_below_minimum(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2, min_insync_replicas="2")
        replicas.server(2).replicas.replication().close()
        waiting = asyncio.create_task(replicas.send(1, acks=-1, timeout_ms=SOON_MS))
        await eventually(lambda: replicas.hosted(1).log_end_offset == 1)
        replicas.change(isr=[1])
        reported = only(await waiting)
        assert (reported.error_code, reported.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert replicas.hosted(1).high_watermark == 0, "one replica is too few to commit it"
        assert only(await replicas.send(1, acks=-1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert only(await replicas.send(1, acks=1)).error_code == 0


async def test_waiting_produce_waits_for_raised_min_insync_replicas(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2, min_insync_replicas="1")
        replicas.server(2).replicas.replication().close()
        waiting = asyncio.create_task(replicas.send(1, acks=-1))
        await eventually(lambda: replicas.hosted(1).log_end_offset == 1)
        min_insync(replicas, 2)
        replicas.change(isr=[1])
        assert replicas.produce(1, b"v", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
        assert not waiting.done() and replicas.hosted(1).high_watermark == 0
        replicas.follow_again(2)
        reported = only(await waiting)
        assert (reported.error_code, reported.base_offset) == (0, 0)
        assert replicas.hosted(1).role.isr == (1, 2)


@pytest.mark.parametrize("acks", [-1, 1])
async def test_isr_shrunk_before_flush_returns_not_enough_replicas_after_append(
    tmp_path: Path, disk: threading.Event, acks: int
) -> None:
    async with Replicas(tmp_path, 2, **QUICK) as replicas:
        replicas.create(1, 2, min_insync_replicas="2", flush_messages="1")
        waiting = asyncio.create_task(replicas.send(1, acks=acks))
        await eventually(lambda: replicas.hosted(1).high_watermark == 1, "followers do not wait for the leader's disk")
        await replicas.stop_following(2)
        replicas.change(isr=[1])
        assert not waiting.done()
        disk.set()
        reported = only(await waiting)
        wanted = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if acks == -1 else ErrorCode.NONE
        assert (reported.error_code, reported.base_offset) == (wanted, 0)


async def test_committed_produce_succeeds_when_minimum_is_raised_before_flush(
    tmp_path: Path, disk: threading.Event
) -> None:
    """The effective minimum of a topic is never above its number of replicas."""
    async with Replicas(tmp_path, 3, **QUICK) as replicas:
        replicas.create(1, 2, min_insync_replicas="1", flush_messages="1")
        waiting = asyncio.create_task(replicas.send(1, acks=-1))
        await eventually(lambda: replicas.hosted(1).high_watermark == 1)
        min_insync(replicas, 3)
        disk.set()
        reported = only(await waiting)
        assert (reported.error_code, reported.base_offset) == (0, 0)
