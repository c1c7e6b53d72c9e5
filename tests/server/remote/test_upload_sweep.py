"""Open uploads of a store: which ones a leader aborts, and a store that does not let them be listed."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import pytest
from odradek.server.remote.upload_sweep import INTERVAL_S, UploadSweep
from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from odradek.tiers.store import OpenUpload, RemoteStorageError

from tests.server.harness.virtual_time import simulated

PARTITION = TopicIdPartition(b"t" * 16, "orders", 0)
KEY = (PARTITION.topic_id, PARTITION.partition)
SEGMENT = RemoteLogSegmentMetadata(PARTITION, bytes(16), 0, 9, 0, 1, 0, 100, ((0, 0),))


class Remote(NamedTuple):
    leads: bool
    cache: RemoteLogMetadataCache | None


class Store:
    """A store with one open upload. `failures`: the calls that fail first."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls = 0
        self.aborted: list[OpenUpload] = []

    def open_uploads(self, partition: TopicIdPartition | None = None) -> list[OpenUpload]:
        assert partition in (None, PARTITION)
        self.calls += 1
        if self.calls <= self.failures:
            raise RemoteStorageError("the store is ill")
        return [OpenUpload("orders.log", "id", PARTITION, SEGMENT.segment_id)]

    def abort_uploads(self, uploads: list[OpenUpload]) -> None:
        self.aborted += uploads


class Threads:
    async def run(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def sweep_of(store: Store) -> UploadSweep:
    threads: Any = Threads()
    return UploadSweep(store, threads)


def cache_with(state: RemoteLogSegmentState | None) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache()
    if state is not None:
        cache.apply(SEGMENT)
    if state is COPY_SEGMENT_FINISHED:
        cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, SEGMENT.segment_id, 1, 0, state))
    return cache


@pytest.mark.parametrize(
    ("leads", "state", "is_aborted"),
    [
        (True, None, True),
        (True, COPY_SEGMENT_STARTED, False),
        (True, COPY_SEGMENT_FINISHED, True),
        (False, None, False),
    ],
)
def test_upload_is_aborted_at_the_second_look_unless_its_copy_is_under_way(
    leads: bool, state: RemoteLogSegmentState | None, is_aborted: bool
) -> None:
    async def story() -> None:
        store = Store()
        sweep, logs = sweep_of(store), {KEY: Remote(leads, cache_with(state))}
        await sweep.look(logs, 0)
        assert not store.aborted
        await sweep.look(logs, INTERVAL_S)
        assert len(store.aborted) == is_aborted

    simulated(story)


def test_deletion_of_a_partition_waits_some_times_for_a_store_that_cannot_list_uploads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        store = Store(failures=5)
        sweep = sweep_of(store)
        for _ in range(4):
            with pytest.raises(RemoteStorageError):
                await sweep.abort_all(PARTITION)
        assert not caplog.messages
        await sweep.abort_all(PARTITION)
        assert "are left" in caplog.messages[0] and not store.aborted
        await sweep.abort_all(PARTITION)
        assert len(store.aborted) == 1

    with caplog.at_level(logging.WARNING):
        simulated(story)
