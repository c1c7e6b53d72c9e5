"""Limits and eviction of fetch sessions."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.server.fetch.fetch_context import ABSENT_PARTITIONS, FetchContext
from odradek.server.fetch.fetch_sessions import EVICTION_MS, FetchSessions
from odradek.server.fetch.fetched_partition import PartitionKey
from odradek.server.runtime.sliced_work import run_to_completion

VERSION = 12


def request(partitions: int = 1, session_id: int = 0, epoch: int = 0, topic: str = "t") -> FetchRequest:
    asked = [FetchPartition(index, -1, 0, -1, -1, 100) for index in range(partitions)]
    topics = [FetchTopic(topic, partitions=asked)] if partitions else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def begun(sessions: FetchSessions, now_ms: int = 0, partitions: int = 1, *, is_follower: bool = False) -> int:
    context = run_to_completion(sessions.open(request(partitions), VERSION, now_ms))
    assert isinstance(context, FetchContext)
    return sessions.begin(context, now_ms, is_follower=is_follower)


def opened(sessions: FetchSessions, asked: FetchRequest, now_ms: int = 0) -> FetchContext:
    context = run_to_completion(sessions.open(asked, VERSION, now_ms))
    assert isinstance(context, FetchContext), context
    return context


def test_epochs_go_up_one_by_one_and_around() -> None:
    sessions = FetchSessions(10)
    session = begun(sessions)
    for epoch in (1, 2, 3):
        opened(sessions, request(0, session, epoch))
    assert run_to_completion(sessions.open(request(0, session, 3), VERSION, 0)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    next(iter(sessions)).epoch = (1 << 31) - 1
    opened(sessions, request(0, session, (1 << 31) - 1))
    assert next(iter(sessions)).epoch == 1


def test_a_session_ends_when_nothing_is_left_in_it() -> None:
    from odradek.protocol.messages.fetch import ForgottenTopic

    sessions = FetchSessions(10)
    session = begun(sessions)
    forgetting = FetchRequest(
        session_id=session, session_epoch=1, forgotten_topics_data=[ForgottenTopic("t", partitions=[0])]
    )
    assert opened(sessions, forgetting).session is None
    assert len(sessions) == 0


def test_a_full_fetch_ends_the_session_that_it_names() -> None:
    sessions = FetchSessions(10)
    session = begun(sessions)
    context = opened(sessions, request(1, session, 0))
    assert context.opens_session
    assert len(sessions) == 0
    assert not opened(sessions, request(1, 0, -1)).opens_session


def test_without_room_there_is_no_session() -> None:
    sessions = FetchSessions(2)
    assert all(begun(sessions) for _ in range(2))
    assert begun(sessions) == 0
    assert begun(sessions, partitions=100) == 0, "not even for a larger one, before the others had their time"


def test_a_session_that_is_not_used_makes_room() -> None:
    sessions = FetchSessions(2)
    stale, used = begun(sessions), begun(sessions)
    opened(sessions, request(0, used, 1), EVICTION_MS + 1)
    assert begun(sessions, EVICTION_MS + 1)
    assert (
        run_to_completion(sessions.open(request(0, stale, 1), VERSION, EVICTION_MS + 1))
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert sessions.evictions == 1


def test_a_smaller_session_that_had_its_time_makes_room_for_a_larger_one() -> None:
    sessions = FetchSessions(2)
    small, large = begun(sessions, partitions=1), begun(sessions, partitions=50)
    late = EVICTION_MS + 1
    for session in (small, large):
        opened(sessions, request(0, session, 1), late)
    assert begun(sessions, late, partitions=0) == 0
    assert begun(sessions, late, partitions=10)
    assert {len(session.partitions) for session in sessions} == {50, 10}


def test_a_follower_may_push_out_any_consumer() -> None:
    sessions = FetchSessions(1)
    assert begun(sessions, partitions=50)
    assert begun(sessions, 1, is_follower=True)
    assert begun(sessions, 2) == 0
    assert [session.is_follower for session in sessions] == [True]


def test_partitions_are_counted_over_all_sessions() -> None:
    sessions = FetchSessions(5)
    for partitions in (1, 2, 3):
        begun(sessions, partitions=partitions)
    assert sessions.partition_count == 6


class Peer:
    """The part of a connection that fetch sessions use."""

    closed = False


def test_session_ends_with_the_connection_that_used_it_last() -> None:
    sessions, first, second = FetchSessions(10), Peer(), Peer()
    context = run_to_completion(sessions.open(request(3), VERSION, 0, first))  # type: ignore[arg-type]
    assert isinstance(context, FetchContext)
    session = sessions.begin(context, 0, is_follower=False, connection=first)  # type: ignore[arg-type]
    other = sessions.begin(context, 0, is_follower=False, connection=first)  # type: ignore[arg-type]
    run_to_completion(sessions.open(request(0, session, 1), VERSION, 0, second))  # type: ignore[arg-type]
    sessions.connection_lost(first)  # type: ignore[arg-type]
    assert [kept.id for kept in sessions] == [session] != [other]
    sessions.connection_lost(second)  # type: ignore[arg-type]
    sessions.connection_lost(second)  # type: ignore[arg-type]
    assert (len(sessions), sessions.partition_count, sessions._by_connection) == (0, 0, {})


def test_closed_connection_begins_no_session() -> None:
    sessions, peer = FetchSessions(10), Peer()
    peer.closed = True
    context = opened(sessions, request(3))
    assert sessions.begin(context, 0, is_follower=False, connection=peer) == 0  # type: ignore[arg-type]


def test_partitions_of_all_sessions_are_limited() -> None:
    sessions = FetchSessions(10, partition_limit=100)
    assert begun(sessions, partitions=101) == 0
    first, second = begun(sessions, partitions=60), begun(sessions, partitions=40)
    assert first and second
    assert begun(sessions, now_ms=EVICTION_MS, partitions=1) == 0, "sessions at work were pushed out"
    opened(sessions, request(0, second, 1), now_ms=EVICTION_MS)
    assert begun(sessions, now_ms=EVICTION_MS + 1, partitions=60)
    assert sessions.partition_count == 100
    assert first not in [session.id for session in sessions]


def test_session_that_grows_over_the_limit_ends() -> None:
    sessions = FetchSessions(10, partition_limit=100)
    session = begun(sessions, partitions=60)
    assert (
        run_to_completion(sessions.open(request(101, session, 1), VERSION, 0)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert (len(sessions), sessions.partition_count, sessions.evictions) == (0, 0, 1)


def test_session_at_the_limit_that_does_not_grow_stays() -> None:
    sessions = FetchSessions(10, partition_limit=100)
    first, second = begun(sessions, partitions=60), begun(sessions, partitions=40)
    for epoch in (1, 2):
        assert opened(sessions, request(0, first, epoch)).session is not None
    assert opened(sessions, request(40, second, 1)).session is not None, "it names what it has"
    grown = run_to_completion(sessions.open(request(41, second, 2), VERSION, 0))
    assert grown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count, sessions.evictions) == (1, 60, 1)
    assert opened(sessions, request(61, first, 3)).session is not None
    assert sessions.partition_count == 61


def hosts_the_first(count: int) -> FetchSessions:
    """Returns the sessions of a broker that hosts the first `count` partitions of every topic."""

    def is_hosted(key: PartitionKey, uses_topic_ids: bool) -> bool:
        return key[1] < count

    return FetchSessions(10, is_hosted=is_hosted)


def test_no_session_is_begun_for_more_absent_partitions_than_hosted_ones() -> None:
    assert begun(hosts_the_first(0), partitions=ABSENT_PARTITIONS)
    assert not begun(hosts_the_first(0), partitions=ABSENT_PARTITIONS + 1)
    assert begun(hosts_the_first(50), partitions=100)
    sessions = hosts_the_first(49)
    assert not begun(sessions, partitions=100)
    context = sessions.open_at_once(request(100), VERSION, 0)
    assert isinstance(context, FetchContext)
    assert context.absent == 51
    assert not sessions.begin(context, 0, is_follower=False)
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_session_to_which_absent_partitions_are_added_ends() -> None:
    sessions = hosts_the_first(5)
    session = begun(sessions, partitions=5)
    opened(sessions, request(5 + ABSENT_PARTITIONS, session, 1))
    more = sessions.open(request(6 + ABSENT_PARTITIONS, session, 2), VERSION, 0)
    assert run_to_completion(more) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partition_count) == (0, 0)
