"""A single voter that led without the state machine continues its epoch when other nodes join."""

from __future__ import annotations

import random
from typing import Any

from odradek.replication.quorum import wire
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import (
    Appended,
    ElectionState,
    Flush,
    PeerRequest,
    Reply,
    Synced,
)
from odradek.replication.quorum.log import SnapshotId
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet

from tests.replication.quorum.toy_log import ToyLog

LOCAL, OTHER = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)


def resumed(log: ToyLog) -> QuorumReplica:
    history = VoterHistory(VoterSet.of([Voter(LOCAL)]), 1)
    state = ElectionState(leader_id=1, leader_epoch=4)
    return QuorumReplica(LOCAL, QuorumConfig("c"), log, history, Remembered(state, leads_from=2), random.Random(1), 0)


def grown(entries: int) -> ToyLog:
    log = ToyLog()
    for number in range(entries):
        log.append(4 if number >= 2 else 3, number)
    return log


def fetched(replica: QuorumReplica, offset: int, epoch: int) -> Any:
    request = wire.fetch_request("c", OTHER, 4, SnapshotId(offset, epoch), 0)
    replica.handle(PeerRequest("t", request), 10)
    (reply,) = [effect.response for effect in replica.take() if isinstance(effect, Reply)]
    return wire.response_of(reply)


def test_resumed_epoch_continues_and_commits_what_is_synced() -> None:
    log = grown(5)
    replica = resumed(log)
    assert replica.is_leader and replica.epoch == 4 and replica.take() == []
    assert replica.high_watermark == 0, "until the driver reports Synced"
    replica.handle(Synced(5), 1)
    assert replica.high_watermark == 5
    response = fetched(replica, 0, 0)
    assert (response.high_watermark, response.current_leader.leader_id, len(response.records)) == (5, 1, 4)


def test_appended_records_commit_with_own_flush() -> None:
    log = grown(5)
    replica = resumed(log)
    replica.handle(Synced(5), 1)
    log.append(4, "more")
    replica.handle(Appended(4, 6), 2)
    assert replica.take() == [Flush(6)] and replica.high_watermark == 5
    replica.handle(Synced(6), 3)
    assert replica.high_watermark == 6


def test_resumed_leader_needs_no_election() -> None:
    replica = resumed(grown(5))
    replica.handle(Synced(5), 1)
    replica.expire(1_000_000)
    assert replica.is_leader and replica.take() == []
