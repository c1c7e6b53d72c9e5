"""Reads of a remote store: bounded, shared, and kept for the next request when their reader has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition
from odradek.server.fetch.damaged_reads import check_readable, piece_of
from odradek.server.fetch.fetch_response import FetchResult, rejected
from odradek.server.fetch.fetched_partition import FetchedPartition
from odradek.server.partitions.remote_port import RemoteRecords
from odradek.server.partitions.remote_reads import RemoteSlice
from odradek.server.remote import reader as reader_module
from odradek.server.remote.reader import RemoteReader
from odradek.server.remote.remote_log import RemoteLog
from odradek.tiers.metadata_topic import Followed
from odradek.tiers.reading import RemoteRead
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from odradek.tiers.store import DamagedRemoteObject, RemoteStorageError

from tests.server.harness.hosted import NOW_MS, Hosted, batch
from tests.server.harness.remote_work import ScriptedWork, followed_with

MOST_PENDING = 2
LOCAL_START = 100


class Events:
    """The metadata topic: the partitions whose events are read."""

    def __init__(self) -> None:
        self.partitions: dict[TopicIdPartition, Followed] = {}

    def followed(self, partition: TopicIdPartition) -> Followed | None:
        return self.partitions.get(partition)


class Reading:
    """A broker with remote logs, and the part that reads them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = Events()
        pending = {"remote_log_reader_max_pending_tasks": str(MOST_PENDING), "remote_log_reader_threads": "2"}
        self.work = ScriptedWork(self.events, None, **pending)
        self.reader = RemoteReader(self.work)

    def remote(self, index: int = 0) -> RemoteLog:
        """Returns a remote log with records 0 to 99 in one segment."""
        hosted = Hosted(self.path, topic="t", index=index, remote_storage=True, max_message_bytes=1 << 20)
        for log_batch in (batch(LOCAL_START, epoch=0), batch(offset=LOCAL_START, epoch=0)):
            hosted.log.append(log_batch, None, NOW_MS)
            hosted.log.roll(NOW_MS)
        hosted.log.remove_first(1, NOW_MS)
        assert (hosted.log.log_start_offset, hosted.log.local_log_start_offset) == (0, LOCAL_START)
        remote = RemoteLog(hosted, self.work)
        remote.has_start = True
        epochs = ((0, 0),)
        segment = RemoteLogSegmentMetadata(
            remote.partition, b"s" * 16, 0, LOCAL_START - 1, NOW_MS, 1, NOW_MS, 1, epochs
        )
        followed = self.events.partitions[remote.partition] = followed_with([segment])
        copied = RemoteLogSegmentMetadataUpdate(remote.partition, segment.segment_id, 1, NOW_MS, COPY_SEGMENT_FINISHED)
        followed.cache.apply(copied)
        return remote


Read = Callable[..., RemoteRead]


@pytest.fixture
def store_reads(monkeypatch: pytest.MonkeyPatch) -> list[Read]:
    """Holds the function that stands for a read of the store; a test replaces it."""
    found: list[Read] = [lambda *_: RemoteRead(memoryview(b"batch"), 10)]
    monkeypatch.setattr(reader_module, "read_segment", lambda *arguments, up_to_offset: found[0](*arguments))
    return found


async def taken(reader: RemoteReader, remote: RemoteLog, offset: int = 0) -> RemoteRecords:
    future: asyncio.Future[RemoteRecords] = asyncio.get_running_loop().create_future()
    reader.read(remote, offset, 1000, isolated=False, done=future.set_result)
    return await asyncio.wait_for(future, 30)


async def test_read_returns_whole_batches(store_reads: list[Read], tmp_path: Path) -> None:
    reading = Reading(tmp_path)
    found = await taken(reading.reader, reading.remote())
    assert (found.error, bytes(found.data), found.next_offset) == (0, b"batch", 10)
    assert reading.work.counters.topic("t").fetch_bytes == 5


async def test_read_whose_reader_has_gone_serves_the_next_request(store_reads: list[Read], tmp_path: Path) -> None:
    may_end, calls = threading.Event(), []

    def held(*arguments: Any) -> RemoteRead:
        calls.append(arguments)
        may_end.wait(30)
        return RemoteRead(memoryview(b"batch"), 10)

    store_reads[0] = held
    reading = Reading(tmp_path)
    reader, remote = reading.reader, reading.remote()
    withdraw = reader.read(remote, 0, 1000, isolated=False, done=lambda _: pytest.fail("it was withdrawn"))
    withdraw()
    may_end.set()
    await reader.done()
    finished = reader.take_finished(remote.hosted, 0, 1000, isolated=False)
    assert finished is not None and bytes(finished.data) == b"batch" and len(calls) == 1
    assert reader.take_finished(remote.hosted, 0, 1000, isolated=False) is None


async def test_reads_beyond_the_limit_fail_at_once_and_others_go_on(store_reads: list[Read], tmp_path: Path) -> None:
    may_end = threading.Event()

    def held(*_: Any) -> RemoteRead:
        may_end.wait(30)
        return RemoteRead(memoryview(b"batch"), 10)

    store_reads[0] = held
    reading = Reading(tmp_path)
    reads = [asyncio.ensure_future(taken(reading.reader, reading.remote(index))) for index in range(MOST_PENDING + 1)]
    assert (await reads[-1]).error == ErrorCode.REPLICA_NOT_AVAILABLE
    may_end.set()
    assert [one.error for one in await asyncio.gather(*reads[:-1])] == [0] * MOST_PENDING


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (RemoteStorageError("it failed"), ErrorCode.REPLICA_NOT_AVAILABLE),
        (DamagedRemoteObject("object", 0, "damaged"), ErrorCode.CORRUPT_MESSAGE),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_failing_read_is_answered_with_an_error(
    store_reads: list[Read], failure: Exception, error: ErrorCode, tmp_path: Path
) -> None:
    def fails(*_: Any) -> RemoteRead:
        raise failure

    store_reads[0] = fails
    reading = Reading(tmp_path)
    assert (await taken(reading.reader, reading.remote())).error == error
    assert reading.work.counters.topic("t").fetch_errors == 1


async def test_read_of_a_partition_whose_events_are_not_read_is_retriable(
    store_reads: list[Read], tmp_path: Path
) -> None:
    reading = Reading(tmp_path)
    remote = reading.remote()
    reading.events.partitions.clear()
    assert (await taken(reading.reader, remote)).error == ErrorCode.REPLICA_NOT_AVAILABLE


async def test_segment_without_a_batch_behind_the_offset_leads_to_the_next(
    store_reads: list[Read], tmp_path: Path
) -> None:
    def read(store: Any, indexes: Any, segment: Any, offset: int, size: int) -> RemoteRead:
        return RemoteRead(memoryview(b""), 60) if offset < 60 else RemoteRead(memoryview(b"batch"), 70)

    store_reads[0] = read
    reading = Reading(tmp_path)
    remote = reading.remote()
    found = await taken(reading.reader, remote, 50)
    assert (bytes(found.data), found.next_offset) == (b"batch", 70)
    store_reads[0] = lambda *_: RemoteRead(memoryview(b""), 100)
    found = await taken(reading.reader, remote, 50)
    assert (len(found.data), found.next_offset, found.error) == (0, 100, 0)


def test_batches_of_the_store_are_sent_from_memory_and_are_readable_at_once() -> None:
    wanted = FetchedPartition(("orders", 0), FetchPartition(0))
    hosted: Any = object()
    found = FetchResult(wanted, hosted, rejected(0, 0, None), RemoteSlice(b"batches"))
    check_readable(found)
    assert piece_of(found, may_wait=False) == b"batches"
