"""Reads of a remote store: bounded, shared, and kept for the next request when their reader has gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
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
from odradek.server.remote.read_budget import BUFFER_BYTES
from odradek.server.remote.reader import RemoteReader
from odradek.server.remote.remote_counters import RemoteCounters
from odradek.server.remote.remote_quota import UNLIMITED, RemoteQuota
from odradek.server.runtime.thread_pools import ThreadPool
from odradek.tiers.reading import RemoteRead
from odradek.tiers.store import DamagedRemoteObject, RemoteStorageError

MOST_PENDING = 2
SETTINGS = {"remote.log.reader.max.pending.tasks": MOST_PENDING, BUFFER_BYTES: 64 << 20}


class Work(SimpleNamespace):
    """The parts of a broker's tiered storage that a reader uses."""

    def __init__(self) -> None:
        super().__init__(
            counters=RemoteCounters(), fetch_quota=RemoteQuota(UNLIMITED, 11, 1), clock=SimpleNamespace(now_ms=lambda: 0),
            config=SimpleNamespace(get=SETTINGS.__getitem__), readers=ThreadPool("remote-test", 2), store=None,
            indexes=None,
        )  # fmt: skip


class Remote(SimpleNamespace):
    """A remote log with records 0 to 99 in one segment."""

    def __init__(self, index: int = 0) -> None:
        local = SimpleNamespace(
            log_start_offset=0, local_log_start_offset=100, epochs=SimpleNamespace(entries=lambda: [(0, 0)]),
            config=SimpleNamespace(max_message_bytes=1 << 20),
        )  # fmt: skip
        hosted = SimpleNamespace(
            topic="t",
            topic_id=b"1" * 16,
            index=index,
            name=f"t-{index}",
            log=local,
            open_log=lambda: local,
            log_start_offset=0,
        )
        cache = SimpleNamespace(segment_for=lambda epoch, offset: f"segment of {offset}")
        super().__init__(hosted=hosted, cache=cache, partition=None, has_start=True)


Read = Callable[..., RemoteRead]


@pytest.fixture
def store_reads(monkeypatch: pytest.MonkeyPatch) -> list[Read]:
    """Holds the function that stands for a read of the store; a test replaces it."""
    found: list[Read] = [lambda *_: RemoteRead(memoryview(b"batch"), 10)]
    monkeypatch.setattr(reader_module, "read_segment", lambda *arguments, up_to_offset: found[0](*arguments))
    monkeypatch.setattr(reader_module, "common_end", lambda segment, epochs, offset: offset + 1)
    return found


async def taken(reader: RemoteReader, remote: Any, offset: int = 0) -> RemoteRecords:
    future: asyncio.Future[RemoteRecords] = asyncio.get_running_loop().create_future()
    reader.read(remote, offset, 1000, isolated=False, done=future.set_result)
    return await asyncio.wait_for(future, 30)


async def test_read_returns_whole_batches(store_reads: list[Read]) -> None:
    work = Work()
    found = await taken(RemoteReader(work), Remote())
    assert (found.error, bytes(found.data), found.next_offset) == (0, b"batch", 10)
    assert work.counters.topic("t").fetch_bytes == 5


async def test_read_whose_reader_has_gone_serves_the_next_request(store_reads: list[Read]) -> None:
    may_end, calls = threading.Event(), []

    def held(*arguments: Any) -> RemoteRead:
        calls.append(arguments)
        may_end.wait(30)
        return RemoteRead(memoryview(b"batch"), 10)

    store_reads[0] = held
    reader, remote = RemoteReader(Work()), Remote()
    withdraw = reader.read(remote, 0, 1000, isolated=False, done=lambda _: pytest.fail("it was withdrawn"))
    withdraw()
    may_end.set()
    await reader.done()
    finished = reader.take_finished(remote.hosted, 0, 1000, isolated=False)
    assert finished is not None and bytes(finished.data) == b"batch" and len(calls) == 1
    assert reader.take_finished(remote.hosted, 0, 1000, isolated=False) is None


async def test_reads_beyond_the_limit_fail_at_once_and_others_go_on(store_reads: list[Read]) -> None:
    may_end = threading.Event()

    def held(*_: Any) -> RemoteRead:
        may_end.wait(30)
        return RemoteRead(memoryview(b"batch"), 10)

    store_reads[0] = held
    reader = RemoteReader(Work())
    reads = [asyncio.ensure_future(taken(reader, Remote(index))) for index in range(MOST_PENDING + 1)]
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
    store_reads: list[Read], failure: Exception, error: ErrorCode
) -> None:
    def fails(*_: Any) -> RemoteRead:
        raise failure

    store_reads[0] = fails
    work = Work()
    assert (await taken(RemoteReader(work), Remote())).error == error
    assert work.counters.topic("t").fetch_errors == 1


async def test_read_of_a_partition_whose_events_are_not_read_is_retriable(store_reads: list[Read]) -> None:
    remote = Remote()
    remote.cache = None
    assert (await taken(RemoteReader(Work()), remote)).error == ErrorCode.REPLICA_NOT_AVAILABLE


async def test_segment_without_a_batch_behind_the_offset_leads_to_the_next(store_reads: list[Read]) -> None:
    def read(store: Any, indexes: Any, segment: str, offset: int, size: int) -> RemoteRead:
        return RemoteRead(memoryview(b""), 60) if offset < 60 else RemoteRead(memoryview(b"batch"), 70)

    store_reads[0] = read
    found = await taken(RemoteReader(Work()), Remote(), 50)
    assert (bytes(found.data), found.next_offset) == (b"batch", 70)
    store_reads[0] = lambda *_: RemoteRead(memoryview(b""), 100)
    found = await taken(RemoteReader(Work()), Remote(), 50)
    assert (len(found.data), found.next_offset, found.error) == (0, 100, 0)


def test_batches_of_the_store_are_sent_from_memory_and_are_readable_at_once() -> None:
    wanted = FetchedPartition(("orders", 0), FetchPartition(0))
    hosted: Any = object()
    found = FetchResult(wanted, hosted, rejected(0, 0, None), RemoteSlice(b"batches"))
    check_readable(found)
    assert piece_of(found, may_wait=False) == b"batches"
