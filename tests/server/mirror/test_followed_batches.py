"""Responses of a source with damaged batches: nothing is left out, cut or written by an offset that was not checked."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import PartitionData
from odradek.replication.mirror.partition import MirroredLog, MirrorState
from odradek.server.mirror import local_batches
from odradek.server.mirror.followed import MirroredPartition
from odradek.server.mirror.local_batches import batch_at, last_batch

from tests.server.harness.hosted import NOW_MS, PLAIN, Hosted, batch, joined

#: The position of the last offset's delta, which the CRC covers; the base offset is at 0, and is not covered.
LAST_DELTA_AT = 23


def with_base_offset(data: bytearray, offset: int) -> bytearray:
    struct.pack_into(">q", data, 0, offset)
    return data


def with_last_delta(data: bytearray, delta: int) -> bytearray:
    struct.pack_into(">i", data, LAST_DELTA_AT, delta)
    return data


def response(*batches: bytes | bytearray, end: int = 100) -> PartitionData:
    records = joined(*batches)
    return PartitionData(high_watermark=end, last_stable_offset=end, log_start_offset=0, records=memoryview(records))


def mirrored(path: Path, *batches: bytearray, cuts: bool = False) -> MirroredPartition:
    """A partition with these batches, which has compared none with its source yet."""
    hosted = Hosted(path, rules=replace(PLAIN, mirror="dr"))
    hosted.lead()
    for one in batches:
        hosted.append_own(one, NOW_MS)
    end = hosted.log_end_offset
    log = MirroredLog(end, batch_at(hosted, end - 1), cuts=cuts)
    return MirroredPartition(hosted, (hosted.topic_id, 0), "orders", 1, 1, log)


def taken(partition: MirroredPartition, data: PartitionData) -> int:
    partition.wanted(1 << 20)
    return partition.take(data, NOW_MS)


@pytest.mark.parametrize(
    "first",
    [with_last_delta(batch(3), -1), with_base_offset(batch(3), -3), with_base_offset(batch(1, offset=1), 1 << 40)],
    ids=["delta", "base offset", "great base offset"],
)
def test_damaged_batch_is_not_left_out(tmp_path: Path, first: bytearray) -> None:
    partition = mirrored(tmp_path)
    code = taken(partition, response(first, batch(2, offset=3)))
    assert code == ErrorCode.CORRUPT_MESSAGE and partition.damage is not None
    assert partition.hosted.log_end_offset == 0, "the second batch is not written behind a gap"


@pytest.mark.parametrize("offset", [1, 90], ids=["before", "behind"])
def test_batches_before_those_out_of_order_are_written(tmp_path: Path, offset: int) -> None:
    """One of two batches has a wrong offset, and it may be either."""
    partition = mirrored(tmp_path)
    batches = [batch(3), batch(2, offset=3), batch(2, offset=5), batch(1, offset=7)]
    wrong = with_base_offset(bytearray(batches[2]), offset)
    code = taken(partition, response(*batches[:2], wrong, batches[3]))
    assert code == ErrorCode.CORRUPT_MESSAGE and partition.hosted.log_end_offset == (3 if offset == 1 else 5)
    assert partition.damage is not None and "on belongs" in str(partition.damage)
    rest = batches[1:] if offset == 1 else batches[2:]
    assert taken(partition, response(*rest)) == 0
    assert partition.hosted.log_end_offset == 8


@pytest.mark.parametrize(
    "compared",
    [batch(3, value=b"w")[:-1] + b"x", with_base_offset(batch(3), 90), with_base_offset(batch(3), -5)],
    ids=["CRC", "behind", "before"],
)
def test_damaged_batch_decides_no_comparison(tmp_path: Path, compared: bytearray) -> None:
    partition = mirrored(tmp_path, batch(3), cuts=True)
    code = taken(partition, response(compared, batch(2, offset=3)))
    assert code == ErrorCode.CORRUPT_MESSAGE
    assert partition.log.state not in (MirrorState.SEARCHING, MirrorState.CUTTING)
    assert partition.hosted.log_end_offset == 3


def test_compared_batch_is_left_out_and_the_next_ones_are_written(tmp_path: Path) -> None:
    partition = mirrored(tmp_path, batch(3))
    assert taken(partition, response(batch(3), batch(2, offset=3))) == 0
    assert (partition.hosted.log_end_offset, partition.log.state) == (5, MirrorState.FOLLOWING)


def not_cached(*arguments: Any) -> bytes:
    raise BlockingIOError


def test_search_waits_for_a_thread_where_the_log_is_not_in_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_batches, "pread_nowait", not_cached)

    async def story() -> None:
        partition = mirrored(tmp_path, *(batch(1, offset=number) for number in range(8)), cuts=True)
        assert await last_batch(partition.hosted) == partition.log.last
        changed = asyncio.Event()
        partition.changed = lambda one: changed.set()
        assert taken(partition, response(batch(1, offset=7, value=b"other"))) == 0
        while partition.log.state is MirrorState.SEARCHING:
            assert partition.is_waiting, "nothing is fetched while a thread reads"
            await asyncio.wait_for(changed.wait(), 10)
            changed.clear()
            offset = partition.log.fetch_offset
            if offset is not None:
                ours = offset < 5
                assert taken(partition, response(batch(1, offset=offset, value=b"v" if ours else b"w"))) == 0
        assert (partition.log.state, partition.log.end) == (MirrorState.CUTTING, 5)
        await partition.hosted.pools.stop()

    asyncio.run(story())


def test_failed_disk_ends_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any) -> bytes:
        raise OSError(5, "Input/output error")

    partition = mirrored(tmp_path, *(batch(1, offset=number) for number in range(8)), cuts=True)
    failures: list[Exception] = []
    partition.hosted.on_failure = failures.append
    monkeypatch.setattr(local_batches, "pread_nowait", failing)
    taken(partition, response(batch(1, offset=7, value=b"other")))
    (failure,) = failures
    assert "Input/output error" in str(failure) and partition.log.state is MirrorState.SEARCHING
