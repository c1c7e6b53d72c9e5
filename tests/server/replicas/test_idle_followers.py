"""A follower's session inspects active partitions only, and its fetcher names no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.internal.cluster_metadata import PartitionChangeRecord, PartitionRecord, TopicRecord
from odradek.protocol.messages.fetch import FetchPartition
from odradek.replication.isr import IsrProposal
from odradek.server.fetch.fetch_session import FetchSession
from odradek.server.fetch.fetched_partition import FetchedPartition
from odradek.server.fetch.follower_fetch import FollowerFetch, IdleFollower
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.replicas.followed_partition import FollowedPartition

from tests.server.harness.data_path import batch_of
from tests.server.harness.hosted import NOW_MS, Hosted, Watching, batch
from tests.server.harness.replicas import TOPIC, TOPIC_ID, Replicas, eventually

pytestmark = pytest.mark.usefixtures("sockets")

MANY = 40
KEY = (TOPIC_ID, 0)


def create_many(replicas: Replicas) -> None:
    """Creates partitions with broker 1 as their leader and broker 2 as their follower."""
    replicas.publish(
        TopicRecord(TOPIC, TOPIC_ID),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * 2,
            )
            for index in range(MANY)
        ),
    )


def hosted(replicas: Replicas, number: int, index: int) -> HostedPartition:
    found = replicas.server(number).partitions.hosted.get((TOPIC, index))
    assert found is not None
    return found


def produce(replicas: Replicas, index: int, value: bytes) -> None:
    server = replicas.server(1)
    assert not hosted(replicas, 1, index).append(batch_of(value), server.node.clock.now_ms()).error


def sessions(replicas: Replicas) -> list[FetchSession]:
    return [session for session in replicas.server(1).fetch.sessions if session.is_follower]


def is_idle(replicas: Replicas) -> bool:
    found = sessions(replicas)
    return sum(len(one.partitions) for one in found) == MANY and not any(one.active_partitions for one in found)


async def idle(replicas: Replicas) -> FetchSession:
    """Returns the session of broker 2, once all its partitions are idle."""
    await eventually(lambda: is_idle(replicas), "all partitions come to rest")
    return max(sessions(replicas), key=lambda one: len(one.partitions))


class Calls:
    """Counts the calls of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.count, original = 0, getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return original(*arguments)

        monkeypatch.setattr(owner, name, counted)


async def test_a_round_that_finds_nothing_looks_at_no_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Replicas(tmp_path, 2, each={2: {"replica.fetch.wait.max.ms": "20"}}) as replicas:
        create_many(replicas)
        session = await idle(replicas)
        asked = Calls(monkeypatch, FollowedPartition, "wanted")
        looked = Calls(monkeypatch, FollowerFetch, "_is_idle")
        epoch = session.epoch
        await eventually(lambda: session.epoch >= epoch + 5, "the follower goes on asking")
        assert (asked.count, looked.count) == (0, 0)


async def test_write_inspects_only_its_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        await idle(replicas)
        looked = Calls(monkeypatch, FollowerFetch, "_is_idle")
        produce(replicas, 7, b"one")
        await eventually(lambda: hosted(replicas, 2, 7).high_watermark == 1, "it is committed, and known to be")
        await idle(replicas)
        assert 0 < looked.count < MANY


async def test_every_partition_that_is_written_to_is_followed_again_and_again(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        for number in range(3):
            await idle(replicas)
            for index in range(MANY):
                produce(replicas, index, b"%d" % number)
        await eventually(lambda: all(hosted(replicas, 2, index).high_watermark == 3 for index in range(MANY)))
        await idle(replicas)


async def test_settled_follower_counts_as_caught_up_until_write(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2, each={2: {"replica.fetch.wait.max.ms": "20"}}) as replicas:
        create_many(replicas)
        session = await idle(replicas)
        follower = hosted(replicas, 1, 7).role.followers[2]
        follower.last_caught_up_ms = follower.last_fetch_ms = 0
        produce(replicas, 7, b"one")
        assert follower.last_caught_up_ms == follower.last_fetch_ms == session.last_used_ms


async def test_settled_follower_removed_from_isr_rejoins(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        await idle(replicas)
        replicas.change(isr=[1])
        await eventually(lambda: replicas.partition(1).isr == (1, 2), "its fetches have it proposed")


async def test_removed_follower_rejoins_when_response_precedes_metadata(
    tmp_path: Path,
) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        await idle(replicas)
        leader = hosted(replicas, 1, 0)
        role, now_ms = leader.role, replicas.server(1).node.clock.now_ms()
        proposal = role.proposal = IsrProposal((1,), role.leader_epoch, role.partition_epoch)
        leader.isr_accepted(proposal, (1,), role.leader_epoch, role.partition_epoch + 1, now_ms)
        replicas.change(isr=[1])
        await eventually(lambda: replicas.partition(1).isr == (1, 2), "its fetches have it proposed")


async def test_new_epoch_of_the_same_leader_is_sent_by_the_follower_and_becomes_idle(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        await idle(replicas)
        replicas.change(leader=1)
        await eventually(
            lambda: any(
                one.current_leader_epoch == 1 for session in sessions(replicas) for one in session.partitions.values()
            )
        )
        await idle(replicas)
        produce(replicas, 0, b"one")
        await eventually(lambda: hosted(replicas, 2, 0).high_watermark == 1)


async def test_a_session_that_begins_where_another_rests_takes_its_place(tmp_path: Path) -> None:
    """A broker that was killed and comes back never uses its old session again."""
    async with Replicas(tmp_path, 2) as replicas:
        create_many(replicas)
        before = await idle(replicas)
        for fetcher in replicas.server(2).replicas.replication()._fetchers.values():
            fetcher._end_session()
        produce(replicas, 7, b"one")
        await eventually(lambda: len(sessions(replicas)) == 2 or before not in sessions(replicas))
        now = next(one for one in sessions(replicas) if one is not before)
        await eventually(lambda: not now.active_partitions)
        assert all(len(hosted(replicas, 1, index).end_watchers) == 1 for index in range(MANY))
        produce(replicas, 7, b"two")
        await eventually(lambda: hosted(replicas, 2, 7).high_watermark == 2)


def leader_of(path: Path, *, count: int) -> Hosted:
    """Returns node 1's partition with so many records of epoch 0. It leads in epoch 1; nodes 0 and 2 have five records."""
    leader = Hosted(path, 1)
    leader.log.append(batch(count, epoch=0), None, NOW_MS)
    leader.role.appended(count, NOW_MS)
    leader.lead(0, 2)
    for follower in (0, 2):
        leader.follower_fetched(follower, 5, 0, 7, NOW_MS)
    assert (leader.high_watermark, leader.log_end_offset) == (5, count)
    return leader


def fetched(fetch_offset: int = 5, **changes: int) -> FetchedPartition:
    """Returns a partition of a fetch whose fetcher has the current state of `leader_of`; `changes`: what it has instead."""
    partition = FetchedPartition(KEY, FetchPartition(0, 1, fetch_offset))
    partition.sent_high_watermark, partition.sent_log_start_offset = 5, 0
    for name, value in changes.items():
        setattr(partition, name, value)
    return partition


@pytest.mark.parametrize(
    ("replica", "fetch_offset", "is_idle"),
    [
        # Consumers wait for the high watermark, 5; followers for the end of the log, 8. Node 0 is a follower like any other.
        (-1, 5, True),
        (-1, 8, False),
        (0, 5, False),
        (0, 8, True),
        (2, 5, False),
        (2, 8, True),
        (3, 8, False),  # no replica
    ],
)
def test_partition_is_idle_at_the_end_of_what_its_fetcher_reads(
    replica: int, fetch_offset: int, is_idle: bool, tmp_path: Path
) -> None:
    leader = leader_of(tmp_path, count=8)
    fetch = object.__new__(FollowerFetch)
    fetch._replica_id = replica
    assert fetch._is_idle(leader, fetched(fetch_offset=fetch_offset)) == is_idle


@pytest.mark.parametrize("replica", [-1, 0])
@pytest.mark.parametrize(
    ("changes", "is_idle"),
    [
        ({}, True),
        ({"sent_high_watermark": 4}, False),
        ({"sent_log_start_offset": 1}, False),
        ({"is_leader": False}, False),
        ({"offline": True}, False),
        ({"last_fetched_epoch": 1}, True),
        ({"last_fetched_epoch": 0}, False),
        ({"current_leader_epoch": -1}, True),
        ({"current_leader_epoch": 0}, False),
        ({"current_leader_epoch": 2}, False),
        ({"followers": {2: None}}, None),
    ],
)
def test_partition_is_idle_only_if_its_fetcher_has_the_current_state(
    replica: int, changes: dict[str, Any], is_idle: bool | None, tmp_path: Path
) -> None:
    """Without node 0 among the followers, its fetch is an error, while consumers may be idle."""
    leader = leader_of(tmp_path, count=5)
    sent = dict(changes)
    leader.offline = sent.pop("offline", False)
    for name in ("is_leader", "followers"):
        if name in sent:
            setattr(leader.role, name, sent.pop(name))
    fetch = object.__new__(FollowerFetch)
    fetch._replica_id = replica
    assert fetch._is_idle(leader, fetched(fetch_offset=5, **sent)) == (replica < 0 if is_idle is None else is_idle)


def test_idle_partition_wakes_the_other_sessions_of_its_own_broker_only(tmp_path: Path) -> None:
    shared = leader_of(tmp_path, count=5)
    sessions = {name: _session() for name in ("of 0", "of 0 again", "of 2")}
    shared.end_watchers[Watching()] = None
    for number, (name, replica) in enumerate((("of 0", 0), ("of 2", 2), ("of 0 again", 0))):
        session = sessions[name]
        session.last_used_ms = NOW_MS + number + 1
        IdleFollower(session, session.partitions[KEY], shared, replica).deactivate()
    active = {name: KEY in session.active_partitions for name, session in sessions.items()}
    assert active == {"of 0": True, "of 0 again": False, "of 2": False}
    kept_up = {replica: state.last_caught_up_ms for replica, state in shared.role.followers.items()}
    assert kept_up == {0: NOW_MS + 1, 2: NOW_MS} and len(shared.end_watchers) == 3


def _session() -> FetchSession:
    session = FetchSession(1, {KEY: fetched()}, 0, uses_topic_ids=True, is_follower=True)
    assert KEY in session.active_partitions
    return session


async def test_error_that_a_leader_returns_for_many_partitions_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Replicas(
        tmp_path, 2, **{"replica.fetch.wait.max.ms": "50", "replica.fetch.backoff.ms": "20"}
    ) as replicas:
        create_many(replicas)
        newer = [PartitionChangeRecord(index, TOPIC_ID, leader=1) for index in range(MANY)]
        replicas.publish_to(2, *newer)
        followers = [hosted(replicas, 2, index) for index in range(MANY)]

        def failures() -> int:
            followed = [one for each in followers for one in each.end_watchers if isinstance(one, FollowedPartition)]
            return min((one.failures for one in followed), default=0)

        await eventually(lambda: failures() > 10, "the leader has returned errors for each of them")
        returned = [line for line in caplog.messages if "broker 1 returned UNKNOWN_LEADER_EPOCH" in line]
        assert len(returned) == 1
