"""Ends of records of local partitions: from the page cache, or by one thread that no scrape waits for twice."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from odradek.admin.markers import Gap
from odradek.server.observability.local_records_ends import LocalRecordsEnds, RecordsEnds
from odradek.server.partitions.transaction_marker import Marker
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.log.log import Log
from odradek.storage.segments import slices

from tests.server.harness.fetching import produced
from tests.server.harness.held_reads import HeldReads
from tests.server.harness.hosted import NOW_MS, TOPIC, Hosted
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.virtual_time import simulated

PLACE = TOPIC, 0
FAILURE = OSError(5, "injected")


def partitions_of(tmp_path: Path, markers: int) -> NotedPartitions:
    """A partition that has a record, and markers behind it."""
    hosted = Hosted(tmp_path / "t-0")
    hosted.lead()
    hosted.append(produced(), NOW_MS)
    for _ in range(markers):
        hosted.end_transaction(Marker(9, 0, False, 1, 1), NOW_MS)
    return NotedPartitions([hosted])


def not_cached(*_: Any) -> bytes:
    raise BlockingIOError(errno.EAGAIN, "not in the page cache")


@pytest.mark.parametrize(("offset", "end"), [(0, 1), (1, 1)])
@pytest.mark.parametrize("is_cached", [True, False])
def test_markers_behind_the_last_record_are_no_records(
    offset: int, end: int, is_cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        disk = HeldReads()
        partitions, ends = partitions_of(tmp_path, markers=2), LocalRecordsEnds(disk)
        if not is_cached:
            monkeypatch.setattr(slices, "pread_nowait", not_cached)
        found, cold = await ends.cached(partitions, {PLACE: Gap(offset, 3)})
        assert (found == {PLACE: end}) == is_cached and bool(cold) != is_cached
        ends.read(cold, found.update)
        for function, done in disk.reads:
            done(function())
        assert found == {PLACE: end} and len(disk.reads) == (not is_cached)

    simulated(story)


def test_slow_disk_has_one_thread_of_all_scrapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        disk, found = HeldReads(), list[RecordsEnds]()
        partitions, ends = partitions_of(tmp_path, markers=1), LocalRecordsEnds(disk)
        monkeypatch.setattr(slices, "pread_nowait", not_cached)
        for _ in range(3):
            _, cold = await ends.cached(partitions, {PLACE: Gap(1, 2)})
            ends.read(cold, found.append)
        assert found == [{}, {}] and len(disk.reads) == 1
        ((function, done),) = disk.reads
        done(function())
        assert found == [{}, {}, {PLACE: 1}]
        ends.read(cold, found.append)
        assert len(disk.reads) == 2, "the next scrape reads again"

    simulated(story)


@pytest.mark.parametrize(
    "failure", [LogDirectoryFailure("/data", "reading", OSError(5, "injected")), OSError(5, "injected")]
)
def test_partition_that_cannot_be_read_has_no_end(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        partitions = partitions_of(tmp_path, markers=1)

        def fail(*_: Any, **__: Any) -> None:
            raise failure

        monkeypatch.setattr(Log, "read", fail)
        found, cold = await LocalRecordsEnds(HeldReads()).cached(
            partitions, {PLACE: Gap(1, 2), ("absent", 0): Gap(1, 2)}
        )
        assert not found and not cold

    simulated(story)
