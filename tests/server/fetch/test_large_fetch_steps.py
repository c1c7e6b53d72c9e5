"""A Fetch of many partitions step by step: what it finds, waits for and notes in its session, as a Fetch of few does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.server.fetch import damaged_reads, encoded_fetch, large_fetch
from odradek.server.fetch.damaged_reads import MOST_INSPECTIONS
from odradek.server.partitions import parked_fetch
from odradek.server.partitions.parked_requests import BUCKET_MS
from odradek.storage.segments.damage import SegmentSuspected

from tests.server.harness.fetching import FOLLOWER, ONE, Harness, ask, produced
from tests.server.harness.hosted import NOW_MS, TOPIC_ID, Hosted
from tests.server.harness.virtual_time import after_ms, simulated, turns

COUNT = 5


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five partitions are looked at in three steps."""
    for module in (encoded_fetch, large_fetch):
        monkeypatch.setattr(module, "LOOKED_AT_ONCE", 2)


def asked(*offsets: int) -> list[Any]:
    return [ask(index, offset) for index, offset in enumerate(offsets or (0,) * COUNT)]


def append(harness: Harness, *indexes: int) -> None:
    for index in indexes:
        harness.hosted[index].append(produced(), NOW_MS)


async def begun(harness: Harness, **options: Any) -> int:
    """Begins a session with all partitions, and returns its id."""
    harness.fetch(*asked(), session=(0, 0), max_wait_ms=0, is_large=True, **options)
    await turns()
    session_id: int = harness.responses[-1].session_id
    assert session_id > 0
    return session_id


def test_partitions_are_looked_at_in_steps_and_answered_together(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        append(harness, 0, 3, 4)
        harness.fetch(*asked(), is_large=True)
        assert (harness.responses, harness.calls.held > 0) == ([], True)
        await turns()
        assert harness.sizes() == {0: ONE, 1: 0, 2: 0, 3: ONE, 4: ONE}
        assert len(harness.responses[0].responses) == 1, "the steps of a topic become one"
        assert harness.turns.steps >= 4
        assert len(harness.turns.freed) == 1
        assert harness.calls.exempted == 0

    simulated(story)


@pytest.mark.parametrize(("max_bytes", "with_data"), [(1, [0]), (ONE, [0]), (2 * ONE, [0, 1]), (4 * ONE, [0, 1, 2, 3])])
def test_limit_holds_over_all_steps_and_the_first_batch_is_whole(
    max_bytes: int, with_data: list[int], tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        append(harness, *range(COUNT))
        harness.fetch(*asked(), max_bytes=max_bytes, is_large=True)
        await turns()
        assert [index for index, size in harness.sizes().items() if size] == with_data

    simulated(story)


def test_fetch_waits_for_its_least_bytes_in_all_steps(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        append(harness, 0)
        harness.fetch(*asked(), min_bytes=3 * ONE, is_large=True)
        await turns()
        append(harness, 4)
        await turns()
        assert harness.responses == []
        append(harness, 2)
        await turns()
        assert harness.sizes() == {0: ONE, 1: 0, 2: ONE, 3: 0, 4: ONE}
        await after_ms(2000)
        assert len(harness.responses) == 1, "it waits no longer"

    simulated(story)


def test_record_that_comes_between_two_steps_is_not_missed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.fetch(*asked(), is_large=True)
        append(harness, 0)  # its step is over
        await turns()
        assert harness.sizes()[0] == ONE

    simulated(story)


def commit(hosted: Hosted) -> None:
    """The records were written before they were looked at, and cannot be read before."""
    hosted.follower_fetched(FOLLOWER, 1, 0, 5, NOW_MS)


def go_offline(hosted: Hosted) -> None:
    hosted.offline = True
    hosted.wake_all()


@pytest.mark.parametrize(("change", "found"), [(commit, (0, ONE)), (go_offline, (ErrorCode.KAFKA_STORAGE_ERROR, 0))])
def test_change_between_two_steps_is_not_missed(
    change: Callable[[Hosted], None], found: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log end of the partition stays as it was."""
    looked = list[int]()
    original = large_fetch.LargeFetch._read_partition

    async def story() -> None:
        harness = Harness(tmp_path, COUNT, followers=(FOLLOWER,))
        append(harness, 0)

        def look_at(self: large_fetch.LargeFetch, hosted: Any, *others: Any) -> Any:
            if COUNT - 1 not in looked and hosted.index == COUNT - 1:
                change(harness.hosted[0])
            looked.append(hosted.index)
            return original(self, hosted, *others)

        monkeypatch.setattr(large_fetch.LargeFetch, "_read_partition", look_at)
        harness.fetch(*asked(), max_wait_ms=60_000, is_large=True)
        await turns()
        assert looked == list(range(COUNT)) * 2
        (first, *_) = harness.data()
        assert (first.error_code, len(first.records or b"")) == found

    simulated(story)


def test_bytes_between_two_steps_count_for_the_least_bytes(tmp_path: Path) -> None:
    """Too few of them begin no other attempt."""

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.fetch(*asked(), min_bytes=2 * ONE, max_wait_ms=5000, is_large=True)
        append(harness, 0)  # its step is over
        await turns()
        steps = harness.turns.steps
        assert harness.responses == []
        await after_ms(100)
        assert harness.turns.steps == steps
        append(harness, 0)
        await turns()
        assert harness.sizes()[0] == 2 * ONE

    simulated(story)


@pytest.mark.parametrize(("wait_ms", "count"), [(0, 1), (500, 0)])
def test_fetch_ends_at_its_deadline_with_what_there_is(wait_ms: int, count: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        append(harness, 1)
        harness.fetch(*asked(), min_bytes=10 * ONE, max_wait_ms=wait_ms, is_large=True)
        await turns()
        assert len(harness.responses) == count
        await after_ms(wait_ms + 2 * BUCKET_MS)
        assert len(harness.responses) == 1
        assert harness.sizes()[1] == ONE

    simulated(story)


def test_deadline_amid_the_steps_begins_no_second_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_attempts: list[large_fetch.LargeFetch] = []
    original = large_fetch.LargeFetch._begin

    def begin(self: large_fetch.LargeFetch) -> None:
        begun_attempts.append(self)
        original(self)

    monkeypatch.setattr(large_fetch.LargeFetch, "_begin", begin)

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.fetch(*asked(), min_bytes=10 * ONE, is_large=True)
        begun_attempts[0].expired()
        await turns()
        assert len(harness.responses) == 1, "the attempt in progress answers with what there is"
        harness.fetch(*asked(), min_bytes=10 * ONE, is_large=True)
        await turns()
        assert len(begun_attempts) == 2 and len(harness.responses) == 1
        append(harness, 3)
        begun_attempts[1].expired()
        await turns()
        assert len(harness.responses) == 2 and harness.sizes()[3] == ONE
        assert len(begun_attempts) == 3

    simulated(story)


def test_error_of_a_partition_is_due_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.hosted[3].offline = True
        harness.fetch(*asked(), is_large=True)
        await turns()
        errors = {one.partition_index: one.error_code for one in harness.data()}
        assert errors == {0: 0, 1: 0, 2: 0, 3: ErrorCode.KAFKA_STORAGE_ERROR, 4: 0}

    simulated(story)


@pytest.mark.parametrize("when", ["while it waits", "while it looks"])
def test_connection_that_has_ended_gets_nothing(when: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.fetch(*asked(), is_large=True)
        if when == "while it waits":
            await turns()
        harness.connection.closed = True
        append(harness, 2)
        await turns()
        await after_ms(1000)
        assert harness.responses == []
        assert all(not hosted.watchers for hosted in harness.hosted)

    simulated(story)


# ---- sessions


def test_session_begins_with_the_first_response_and_has_what_changed_then(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session_id = await begun(harness)
        assert len(harness.data()) == COUNT
        session = harness.sessions.get(session_id)
        assert session is not None and len(session.partitions) == COUNT
        assert harness.turns.freed == [], "the session keeps its partitions"
        harness.fetch(session=(session_id, 1), is_large=True)
        await turns()
        append(harness, 3)
        await turns()
        assert harness.sizes() == {3: ONE}
        assert harness.responses[-1].session_id == session_id

    simulated(story)


def test_request_that_another_has_overtaken_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session_id = await begun(harness)
        harness.fetch(session=(session_id, 1), max_wait_ms=100, is_large=True)
        harness.fetch(session=(session_id, 2), max_wait_ms=0, is_large=True)
        await after_ms(200)
        errors = sorted(one.error_code for one in harness.responses[1:])
        assert errors == [0, ErrorCode.INVALID_FETCH_SESSION_EPOCH]

    simulated(story)


def test_follower_is_exempt_from_quotas_and_its_offsets_are_noted_once(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT, followers=(FOLLOWER,))
        append(harness, 0, 4)
        session_id = await begun(harness, replica=FOLLOWER)
        assert harness.calls.exempted == 1
        assert harness.sizes() == {0: ONE, 1: 0, 2: 0, 3: 0, 4: ONE}
        harness.fetch(ask(0, 1), ask(4, 1), session=(session_id, 1), replica=FOLLOWER, max_wait_ms=0, is_large=True)
        await turns()
        assert [hosted.high_watermark for hosted in harness.hosted] == [1, 0, 0, 0, 1]
        assert {one.partition_index for one in harness.data()} == {0, 4}, "their high watermarks are new"

    simulated(story)


# ---- the disk


def make_cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cold: set[int]) -> None:
    """Has the records to send of these partitions lie outside of the page cache."""

    def in_page_cache(records: Any) -> bool:
        file = os.fstat(records.fd).st_ino
        return all(path.stat().st_ino != file for index in cold for path in tmp_path.glob(f"*-{index}/*.log"))

    monkeypatch.setattr(damaged_reads, "in_page_cache", in_page_cache)


@pytest.mark.parametrize("is_new", [True, False])
def test_session_notes_nothing_before_all_records_can_be_sent(
    is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first partitions of a response that must wait for the disk are sent with it: their changes are still new."""
    cold = {4}
    make_cold(monkeypatch, tmp_path, cold)

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session_id = 0 if is_new else await begun(harness)
        append(harness, 4)
        append(harness, 0)
        offsets = asked(1, 0, 0, 0, 0)
        harness.fetch(*offsets, session=(session_id, 0 if is_new else 1), is_large=True)
        await turns()
        assert len(harness.responses) == (0 if is_new else 1)
        [(work, then)] = harness.disk
        cold.clear()
        then(work())
        await turns()
        found = {one.partition_index: (one.high_watermark, len(one.records or b"")) for one in harness.data()}
        assert (found[0], found[4]) == ((1, 0), (1, ONE))
        assert set(found) == (set(range(COUNT)) if is_new else {0, 4})
        assert harness.responses[-1].session_id > 0

    simulated(story)


def test_bytes_that_leave_the_page_cache_again_and_again_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cold(monkeypatch, tmp_path, {2})

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        append(harness, 2)
        harness.fetch(*asked(), is_large=True)
        await turns()
        for _ in range(parked_fetch.MOST_WARMINGS):
            assert harness.responses == []
            work, then = harness.disk[-1]
            then(work())
            await turns()
        assert harness.sizes()[2] == ONE
        assert len(harness.disk) == parked_fetch.MOST_WARMINGS

    simulated(story)


# ---- damage


def suspect(harness: Harness, times: int) -> None:
    """Has the first reads of the last partition meet a suspected segment."""
    left = [SegmentSuspected(0, "suspect")] * times

    def reading(*_: Any) -> None:
        if left:
            raise left.pop()

    harness.hosted[COUNT - 1].log.before["read"] = reading


def test_suspected_segment_is_inspected_before_the_response(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        suspect(harness, 1)
        append(harness, 0, COUNT - 1)
        harness.fetch(*asked(), is_large=True)
        await turns()
        assert harness.connection.dispatcher.failures == []
        assert (harness.responses, harness.scrubber.calls) == ([], [("inspect", COUNT - 1, 0)])
        harness.scrubber.inspecting.pop()()
        await turns()
        assert harness.sizes() == {0: ONE, 1: 0, 2: 0, 3: 0, 4: ONE}

    simulated(story)


def test_fetch_that_began_with_an_inspection_still_ends_at_its_deadline(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        suspect(harness, 1)
        append(harness, COUNT - 1)
        harness.fetch(*asked(), min_bytes=10 * ONE, is_large=True)
        await turns()
        harness.scrubber.inspecting.pop()()
        await turns()
        assert harness.responses == []
        await after_ms(500 + 2 * BUCKET_MS)
        assert harness.sizes()[COUNT - 1] == ONE

    simulated(story)


def test_segment_that_stays_suspected_is_an_error_after_some_inspections(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        suspect(harness, 1000)
        append(harness, COUNT - 1)
        harness.fetch(*asked(), is_large=True)
        await turns()
        for _ in range(MOST_INSPECTIONS):
            assert harness.responses == []
            harness.scrubber.inspecting.pop()()
            await turns()
        errors = {one.partition_index: one.error_code for one in harness.data()}
        assert errors[COUNT - 1] == ErrorCode.CORRUPT_MESSAGE
        assert harness.scrubber.calls[-1] == ("met", COUNT - 1)

    simulated(story)


@pytest.mark.parametrize("is_session_left", [True, False])
def test_response_without_a_session_frees_its_partitions(is_session_left: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        if is_session_left:
            session_id = await begun(harness)
            append(harness, 1)
            harness.fetch(session=(session_id, 1), is_large=True)
        else:
            append(harness, 1)
            harness.fetch(*asked(), is_large=True)
        await turns()
        freed = harness.turns.freed
        assert [set(one) for one in freed] == (
            [] if is_session_left else [{(TOPIC_ID, index) for index in range(COUNT)}]
        )

    simulated(story)
