"""Deletions of remote parts: which broker resumes an interrupted one, and what it writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.server.remote import deletion
from odradek.server.remote.deletion import Deletions
from odradek.server.remote.metadata_log import PublishFailed
from odradek.tiers.metadata_topic import Deletion
from odradek.tiers.segment_metadata import (
    DELETE_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from odradek.tiers.store import RemoteStorageError

from tests.server.harness.images import broker_record, image_with, topic_records
from tests.server.harness.remote_work import ScriptedWork, followed_with

MARKED, STARTED, FINISHED = RemotePartitionDeleteState
PARTITION = TopicIdPartition(b"t" * 16, "orders", 0)
OWN, OTHER = 1, 2


class Events:
    """The metadata topic: events that were published, and deletions that have not ended."""

    def __init__(self, state: RemotePartitionDeleteState | None, segments: list[Any]) -> None:
        self.published: list[RemotePartitionDeleteState] = []
        #: State and ids of the segments of each batch of events.
        self.batches: list[tuple[RemoteLogSegmentState, list[bytes]]] = []
        self.unfollowed: list[TopicIdPartition] = []
        self.found: list[tuple[TopicIdPartition, Deletion, bool]] = []
        self.kept: list[tuple[bytes, set[TopicIdPartition]]] = []
        self._followed = followed_with(segments)
        self._followed.delete_state = state

    def follow(self, partition: TopicIdPartition) -> None: ...

    def unfollow(self, partition: TopicIdPartition) -> None:
        self.unfollowed.append(partition)

    def deletions(self) -> list[tuple[TopicIdPartition, Deletion, bool]]:
        return self.found

    def stored(self) -> list[tuple[bytes, set[TopicIdPartition]]]:
        return self.kept

    async def ready(self, partition: TopicIdPartition) -> Any:
        return self._followed

    async def publish(self, event: Any) -> None:
        self.published.append(event.state)

    async def publish_all(self, events: list[Any]) -> None:
        if events:
            self.batches.append((events[0].state, [one.segment_id for one in events]))


class Work(ScriptedWork):
    """The parts of a broker's tiered storage that a deletion uses. The deleted topic is in no image."""

    def __init__(self, state: RemotePartitionDeleteState | None = None, segments: list[Any] | None = None) -> None:
        super().__init__(Events(state, segments or []), Store(), node_id=str(OWN))
        self.publish()

    def publish(self, *, topic: bool = False, is_fenced: bool = False) -> None:
        """Publishes the image: with the other broker, and with the topic if it is there."""
        records = topic_records(PARTITION.topic, (OWN,), topic_id=PARTITION.topic_id) if topic else []
        self.metadata.image = image_with(broker_record(OTHER, fenced=is_fenced), *records)


async def ended(deletions: Deletions) -> None:
    await asyncio.gather(*deletions._tasks.values())
    await asyncio.sleep(0)


def segment(number: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(PARTITION, number.to_bytes(16), number, number, 0, OWN, 0, 100, ((0, number),))


class Store:
    """Notes the deletions of segments, and fails at those of `failures`, once."""

    def __init__(self, failures: dict[bytes, Exception] | None = None) -> None:
        self.deleted: list[bytes] = []
        self._failures = failures or {}

    def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
        failure = self._failures.pop(segment.segment_id, None)
        if failure is not None:
            raise failure
        self.deleted.append(segment.segment_id)


async def test_deletion_of_a_topic_is_marked_before_and_finished_after_the_objects() -> None:
    count = 2 * deletion.SEGMENTS_AT_A_TIME + 1
    work, done = Work(segments=[segment(number) for number in range(1, count + 1)]), list[Any]()
    work.store = Store()
    deletions = Deletions(work)
    deletions.begin(PARTITION, is_marked=True, done=lambda: done.append("end"))
    assert PARTITION in deletions
    await ended(deletions)
    assert work.events.published == [MARKED, STARTED, FINISHED] and PARTITION not in deletions
    assert sorted(work.store.deleted) == [number.to_bytes(16) for number in range(1, count + 1)] and done == ["end"]
    states = [(state, len(ids)) for state, ids in work.events.batches]
    each = deletion.SEGMENTS_AT_A_TIME
    expected = [
        (begun, size) for size in (each, each, 1) for begun in (DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED)
    ]
    assert states == expected, "events of many segments are one batch"


@pytest.mark.parametrize(
    "failure", [RemoteStorageError("the store fails"), PublishFailed("no event"), TypeError("a bug")]
)
async def test_failed_deletion_is_tried_again_and_a_bug_is_noted(failure: Exception) -> None:
    work = Work(segments=[segment(1), segment(2), segment(3)])
    work.store = Store({segment(2).segment_id: failure})
    deletions = Deletions(work)
    deletions.begin(PARTITION, is_marked=True)
    await ended(deletions)
    assert work.events.published[-1] is FINISHED
    assert (DELETE_SEGMENT_FINISHED, [segment(1).segment_id, segment(3).segment_id]) in work.events.batches
    assert work.events.batches[-1][0] is DELETE_SEGMENT_FINISHED and segment(2).segment_id in work.events.batches[-1][1]
    assert work.counters.topic("orders").delete_errors == 1
    assert work.background.failures[deletion.TASK] == isinstance(failure, TypeError) and not work.background.failing


class BulkStore(Store):
    """Deletes many at once, and fails as a whole at those of `failures`."""

    def __init__(self, failures: dict[bytes, Exception] | None = None) -> None:
        super().__init__(failures)
        self.calls: list[int] = []

    def delete_log_segments(self, segments: list[RemoteLogSegmentMetadata]) -> None:
        self.calls.append(len(segments))
        for one in segments:
            if one.segment_id in self._failures:
                raise self._failures[one.segment_id]
        self.deleted += [one.segment_id for one in segments]


async def test_store_that_deletes_many_segments_at_once_is_called_once_for_each_batch() -> None:
    count = deletion.SEGMENTS_AT_A_TIME + 1
    work = Work(segments=[segment(number) for number in range(1, count + 1)])
    work.store = store = BulkStore()
    deletions = Deletions(work)
    deletions.begin(PARTITION, is_marked=True)
    await ended(deletions)
    assert store.calls == [deletion.SEGMENTS_AT_A_TIME, 1] and len(store.deleted) == count
    assert work.events.published[-1] is FINISHED


async def test_segments_are_deleted_one_by_one_where_the_call_for_many_fails() -> None:
    work = Work(segments=[segment(1), segment(2), segment(3)])
    work.store = BulkStore({segment(2).segment_id: RemoteStorageError("the store fails")})
    deletions = Deletions(work)
    deletions.begin(PARTITION, is_marked=True)
    await ended(deletions)
    assert (DELETE_SEGMENT_FINISHED, [segment(1).segment_id, segment(3).segment_id]) in work.events.batches
    assert work.events.published[-1] is FINISHED and work.counters.topic("orders").delete_errors == 1


@pytest.mark.parametrize(
    ("owner", "leads", "is_fenced", "resumes"),
    [
        (OWN, False, False, True),
        (OTHER, True, True, True),
        (OTHER, True, False, False),
        (OTHER, False, True, False),
        (9, True, False, True),
    ],
)
async def test_owner_resumes_and_the_leader_of_the_metadata_partition_for_one_that_has_gone(
    owner: int, leads: bool, is_fenced: bool, resumes: bool
) -> None:
    work = Work(STARTED)
    work.publish(is_fenced=is_fenced)
    work.events.found = [(PARTITION, Deletion(owner, STARTED, 5), leads)]
    deletions = Deletions(work)
    deletions.resume()
    assert (PARTITION in deletions) == resumes
    await ended(deletions)
    assert work.events.published == ([STARTED, FINISHED] if resumes else [])
    assert work.events.unfollowed == ([PARTITION] if resumes else [])


async def test_deletion_of_a_living_broker_is_taken_over_after_a_time_without_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, deletions = Work(STARTED), None
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    deletions = Deletions(work)
    for offset in (5, 6):
        work.events.found = [(PARTITION, Deletion(OTHER, STARTED, offset), True)]
        deletions.resume()
        now[0] += deletion.TAKE_OVER_S - 1
        deletions.resume()
        assert PARTITION not in deletions
    now[0] += 1
    deletions.resume()
    assert PARTITION in deletions
    await ended(deletions)


async def test_marked_topic_that_is_still_there_is_not_touched() -> None:
    work = Work(MARKED)
    work.publish(topic=True)
    work.events.found = [(PARTITION, Deletion(OWN, MARKED, 5), True)]
    deletions = Deletions(work)
    deletions.resume()
    assert PARTITION not in deletions


class Sweeps:
    """Deletions whose clock a test moves."""

    def __init__(self, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deletions = Deletions(work)
        self.now = 100.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    def after(self, seconds: float) -> bool:
        """Sweeps after some time. Returns whether the partition is being deleted."""
        self.now += seconds
        self.deletions.delete_abandoned()
        return PARTITION in self.deletions


async def test_segments_of_a_topic_that_is_gone_are_deleted_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    work.events.kept = [(PARTITION.topic_id, {PARTITION})]
    sweeps = Sweeps(work, monkeypatch)
    assert not sweeps.after(0) and not sweeps.after(deletion.ABANDONED_S - 1)
    assert sweeps.after(deletion.SWEEP_S)
    await ended(sweeps.deletions)
    assert work.events.published == [MARKED, STARTED, FINISHED] and work.events.unfollowed == [PARTITION]


@pytest.mark.parametrize("why", ["in the image", "begun by a broker", "image is old"])
async def test_segments_of_a_topic_that_may_be_there_are_not_deleted(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    work = Work()
    work.events.kept = [(PARTITION.topic_id, {PARTITION})]
    sweeps = Sweeps(work, monkeypatch)
    assert not sweeps.after(0)
    if why == "in the image":
        work.publish(topic=True)
    elif why == "begun by a broker":
        work.events.found = [(PARTITION, Deletion(OTHER, MARKED, 5), True)]
    else:
        work.is_current = False
    assert not sweeps.after(2 * deletion.ABANDONED_S)
    work.is_current, work.events.found = True, []
    work.publish()
    assert not sweeps.after(deletion.SWEEP_S), "the time begins anew"
    assert sweeps.after(deletion.ABANDONED_S)
    await ended(sweeps.deletions)
