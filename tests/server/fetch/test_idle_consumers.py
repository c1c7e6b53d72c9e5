"""A consumer's session of many partitions inspects active ones only: every change makes an idle partition active."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, ForgottenTopic
from odradek.server.fetch import fetch_session
from odradek.server.fetch.fetch import Fetch, IdleConsumer
from odradek.server.fetch.fetch_session import FetchSession
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.runtime.turns import FREED_AT_ONCE

from tests.server.harness.fetching import NOW_MS, ONE, Harness, ask, produced
from tests.server.harness.hosted import TOPIC_ID, Hosted
from tests.server.harness.scripted_authorization import ScriptedAuthorization
from tests.server.harness.virtual_time import after_ms, simulated, turns

COUNT = 4
FOLLOWER = 2
#: Looked at in one slice.
MANY = 130


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "INSPECTED_PARTITIONS", 1)


def begun(harness: Harness, *asked: FetchPartition, **options: Any) -> int:
    """Returns the id of a new session."""
    harness.fetch(*asked, session=(0, 0), max_wait_ms=0, **options)
    return harness.responses[-1].session_id


def idle_session(harness: Harness, offset: int = 0, epoch: int = 1, **options: Any) -> FetchSession:
    """Returns a session of all partitions, all of which are idle. The epoch of its next request is 2."""
    session_id = begun(harness, *(ask(one.index, offset, epoch=epoch) for one in harness.hosted), **options)
    session = harness.sessions.get(session_id)
    assert session is not None
    harness.fetch(session=(session_id, 1), max_wait_ms=0, **options)
    assert harness.data() == [] and session.active_partitions == {} and len(session.idle) == len(harness.hosted)
    return session


def append(harness: Harness, hosted: Hosted) -> None:
    hosted.append(produced(), NOW_MS)


def commit(harness: Harness, hosted: Hosted) -> None:
    """Advances the high watermark over what was written before."""
    hosted.follower_fetched(FOLLOWER, hosted.log_end_offset, 0, 5, NOW_MS)


def change_epoch(harness: Harness, hosted: Hosted) -> None:
    hosted.lead(FOLLOWER, epoch=7, partition_epoch=7)


def lose_leadership(harness: Harness, hosted: Hosted) -> None:
    hosted.follow_leader(FOLLOWER, epoch=7)


def fail(harness: Harness, hosted: Hosted) -> None:
    hosted.offline = True
    hosted.wake_all()


def delete(harness: Harness, hosted: Hosted) -> None:
    harness.partitions.drop(hosted)
    hosted.role.is_leader = False
    hosted.wake_all()


def delete_records(harness: Harness, hosted: Hosted) -> None:
    hosted.advance_log_start_offset(1)


def abort(harness: Harness, hosted: Hosted) -> None:
    hosted.end_transaction(Marker(9, 0, False, 1, 1), NOW_MS)


#: Changes of an idle partition, each with the response's part for it: its error, high watermark and log start offset.
EVENTS: list[tuple[Callable[[Harness, Hosted], None], tuple[int, int, int]]] = [
    (append, (0, 2, 0)),
    (lose_leadership, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
    (change_epoch, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
    (fail, (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)),
    (delete, (ErrorCode.UNKNOWN_TOPIC_ID, -1, -1)),
    (delete_records, (0, 1, 1)),
    (abort, (0, 2, 0)),
]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("is_waiting", [False, True])
@pytest.mark.parametrize(("event", "reported"), EVENTS, ids=[event.__name__ for event, _ in EVENTS])
def test_change_of_an_idle_partition_is_in_the_next_response(
    event: Callable[[Harness, Hosted], None],
    reported: tuple[int, int, int],
    is_waiting: bool,
    is_large: bool,
    tmp_path: Path,
) -> None:
    """`is_waiting`: it happens while a fetch waits; else between two."""

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        for one in harness.hosted:
            one.append(produced(), NOW_MS)
        session = idle_session(harness, 1)
        changed, responses = harness.hosted[2], len(harness.responses)
        if not is_waiting:
            event(harness, changed)
            assert list(session.active_partitions) == [(TOPIC_ID, 2)]
        harness.fetch(session=(session.id, 2), is_large=is_large)
        if is_waiting:
            await turns()
            event(harness, changed)
        await after_ms(600)
        assert len(harness.responses) == responses + 1
        found = [
            (one.partition_index, one.error_code, one.high_watermark, one.log_start_offset) for one in harness.data()
        ]
        assert found == [(2, *reported)]
        assert session.parked is None and len(session.idle) == COUNT - 1

    simulated(story)


@pytest.mark.parametrize("event", [append, lose_leadership, fail, delete])
def test_waiting_fetch_is_due_at_once_when_an_idle_partition_changes(
    event: Callable[[Harness, Hosted], None], tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness)
        responses = len(harness.responses)
        harness.fetch(session=(session.id, 2), max_wait_ms=5000)
        await after_ms(100)
        assert len(harness.responses) == responses
        event(harness, harness.hosted[0])
        await turns()
        assert [one.partition_index for one in harness.data()] == [0]

    simulated(story)


def test_record_counts_for_an_idle_partition_when_it_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT, followers=(FOLLOWER,))
        session = idle_session(harness, epoch=-1)
        harness.fetch(session=(session.id, 2), max_wait_ms=5000)
        hosted = harness.hosted[1]
        hosted.append(produced(), NOW_MS)
        await turns()
        assert session.active_partitions == {}
        commit(harness, hosted)
        await turns()
        assert harness.sizes() == {1: ONE}
        harness.fetch(ask(1, 1), session=(session.id, 3), max_wait_ms=5000)
        change_epoch(harness, harness.hosted[3])
        await turns()
        assert session.parked is not None and (TOPIC_ID, 3) in session.idle  # inspected, and the same as before

    simulated(story)


def test_fetch_waits_for_the_bytes_of_all_partitions_together(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness)
        responses = len(harness.responses)
        harness.fetch(session=(session.id, 2), max_wait_ms=5000, min_bytes=3 * ONE)
        for index in (0, 1):
            append(harness, harness.hosted[index])
            await turns()
            assert len(harness.responses) == responses
        append(harness, harness.hosted[0])
        await turns()
        assert harness.sizes() == {0: 2 * ONE, 1: ONE}

    simulated(story)


def test_open_transaction_is_waited_for_and_its_end_is_seen(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness, isolation=1)
        hosted = harness.hosted[1]
        hosted.append(
            produced(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True),
            NOW_MS,
            is_in_transaction=True,
        )
        harness.fetch(session=(session.id, 2), isolation=1, max_wait_ms=0)
        assert [(one.partition_index, one.last_stable_offset) for one in harness.data()] == [(1, 0)]
        harness.fetch(session=(session.id, 3), isolation=1, max_wait_ms=5000)
        assert list(session.active_partitions) == [(TOPIC_ID, 1)]  # the consumer is not at the high watermark
        hosted.end_transaction(Marker(9, 0, True, 1, 1), NOW_MS)
        await turns()
        assert [(one.partition_index, one.last_stable_offset) for one in harness.data()] == [(1, 2)]

    simulated(story)


def test_poll_without_changes_inspects_no_partition(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness)
        inspected: list[int] = []

        class InspectingFetch(Fetch):
            def _is_idle(self, hosted: Any, wanted: Any) -> bool:
                inspected.append(hosted.index)
                return False

        harness.plain_fetch = InspectingFetch
        for epoch in (2, 3):
            harness.fetch(session=(session.id, epoch), max_wait_ms=0)
            assert harness.data() == [] and inspected == []
        append(harness, harness.hosted[3])
        harness.fetch(session=(session.id, 4), max_wait_ms=0)
        assert harness.sizes() == {3: ONE} and inspected == [3]

    simulated(story)


def test_named_partition_is_inspected_and_a_forgotten_one_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness)
        append(harness, harness.hosted[0])
        harness.fetch(ask(0, 1), ask(2, 5), session=(session.id, 2), max_wait_ms=0)
        assert [(one.partition_index, one.error_code) for one in harness.data()] == [
            (0, 0),
            (2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ]
        forgotten = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[1, 3])]
        request = FetchRequest(session_id=session.id, session_epoch=3, forgotten_topics_data=forgotten)
        harness.sessions.open_at_once(request, 13, NOW_MS, harness.connection)
        assert {key[1] for key in session.partitions} == {key[1] for key in (*session.active_partitions, *session.idle)}
        assert [len(one.watchers) for one in harness.hosted] == [(TOPIC_ID, n) in session.idle for n in range(COUNT)]
        append(harness, harness.hosted[1])
        harness.fetch(session=(session.id, 4), max_wait_ms=0)
        assert 1 not in harness.sizes()

    simulated(story)


@pytest.mark.parametrize("count", [COUNT, FREED_AT_ONCE + 20])
@pytest.mark.parametrize("end", ["connection", "full fetch", "eviction"])
def test_watchers_end_with_the_session(end: str, count: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, count)
        harness.sessions._free = harness.turns.free
        session = idle_session(harness)
        assert {type(watcher) for one in harness.hosted for watcher in one.watchers} == {IdleConsumer}
        if end == "connection":
            harness.sessions.connection_lost(harness.connection)
        elif end == "full fetch":
            harness.fetch(session=(session.id, -1), max_wait_ms=0)
        else:
            harness.sessions._end(session)
        for kept in harness.turns.freed:
            while kept:  # as `Turns.free` does, in slices
                kept.popitem()
        assert [dict(one.watchers) for one in harness.hosted] == [{}] * count
        assert harness.sessions.get(session.id) is None

    simulated(story)


def test_fetch_that_waits_is_woken_when_its_session_ends(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session = idle_session(harness)
        harness.fetch(session=(session.id, 2), max_wait_ms=5000)
        harness.sessions._end(session)
        await turns()
        append(harness, harness.hosted[2])
        await turns()
        assert harness.sizes() == {2: ONE}

    simulated(story)


@pytest.mark.parametrize("is_large", [False, True])
def test_topic_that_is_denied_later_is_an_error_of_its_idle_partitions(
    is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large Fetch makes them active in steps."""
    monkeypatch.setattr(fetch_session, "_ACTIVATED_AT_ONCE", 1)

    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        harness.path.authorization = authorization = ScriptedAuthorization()
        session = idle_session(harness)
        authorization.denies.add(TOPIC_ID)
        for epoch in (2, 3):
            steps = harness.turns.steps
            harness.fetch(session=(session.id, epoch), max_wait_ms=0, is_large=is_large)
            await turns()
            assert {one.error_code for one in harness.data()} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
            assert (harness.turns.steps - steps >= COUNT) or not is_large or epoch > 2
            assert len(harness.data()) == COUNT and not session.idle
        authorization.denies.clear()
        harness.fetch(session=(session.id, 4), max_wait_ms=0, is_large=is_large)
        await turns()
        assert [(one.error_code, one.high_watermark) for one in harness.data()] == [(0, 0)] * COUNT
        harness.fetch(session=(session.id, 5), max_wait_ms=0, is_large=is_large)
        await turns()
        assert harness.data() == [] and len(session.idle) == COUNT

    simulated(story)


def test_change_between_two_slices_of_a_large_fetch_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition was looked at, and set aside, before its record came."""

    async def story() -> None:
        harness = Harness(tmp_path, MANY)
        session_id = begun(harness, *(ask(one.index) for one in harness.hosted))
        session = harness.sessions.get(session_id)
        assert session is not None

        def looking() -> Iterator[None]:
            original = Fetch._is_idle

            def is_idle(self: Any, hosted: Any, wanted: Any) -> bool:
                if hosted.index == MANY - 1 and not harness.hosted[0].log_end_offset:
                    assert (TOPIC_ID, 0) in session.idle
                    append(harness, harness.hosted[0])
                return original(self, hosted, wanted)

            monkeypatch.setattr(Fetch, "_is_idle", is_idle)
            yield

        next(looking())
        harness.fetch(session=(session_id, 1), is_large=True, max_wait_ms=5000)
        await after_ms(50)
        assert harness.sizes() == {0: ONE}

    simulated(story)


def test_session_that_grows_sets_idle_partitions_aside(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(tmp_path, COUNT)
        session_id = begun(harness, ask(0))
        session = harness.sessions.get(session_id)
        assert session is not None and not session.sets_idle_aside
        harness.fetch(*(ask(one.index) for one in harness.hosted), session=(session_id, 1), max_wait_ms=0)
        assert session.sets_idle_aside and len(session.active_partitions) + len(session.idle) == COUNT
        harness.fetch(session=(session_id, 2), max_wait_ms=0)
        assert len(session.idle) == COUNT

    simulated(story)
