"""Selection of the replica that consumers read from."""

from __future__ import annotations

from odradek.replication.preferred_replica import CaughtUpFollower, candidates, nearest
from odradek.replication.replica_role import ReplicaRole

from tests.replication.harness.partition import ME, NOW, OTHER, THIRD, leader_of

RACKS = {ME: "a", OTHER: "b", THIRD: "b"}


def leader() -> ReplicaRole:
    partition = leader_of(ME, OTHER, THIRD)
    partition.follower_fetched(OTHER, 10, NOW, log_start_offset=0)
    partition.follower_fetched(THIRD, 8, NOW, log_start_offset=2)
    return partition


def test_only_in_sync_followers_with_offset_are_candidates() -> None:
    assert {one.broker_id for one in candidates(leader(), 5)} == {OTHER, THIRD}
    assert {one.broker_id for one in candidates(leader(), 9)} == {OTHER}
    assert {one.broker_id for one in candidates(leader(), 1)} == {OTHER}
    partition = leader()
    partition.isr = (ME, THIRD)
    assert {one.broker_id for one in candidates(partition, 5)} == {THIRD}


def test_most_advanced_follower_in_client_rack_is_selected() -> None:
    found = [CaughtUpFollower(8, 1, THIRD), CaughtUpFollower(10, 1, OTHER)]
    assert nearest(found, "b", "a", RACKS) == OTHER
    assert nearest([CaughtUpFollower(10, 1, OTHER), CaughtUpFollower(10, 2, THIRD)], "b", "a", RACKS) == THIRD


def test_leader_is_selected_if_no_follower_is_nearer() -> None:
    found = [CaughtUpFollower(10, 1, OTHER)]
    assert nearest(found, "a", "a", RACKS) == -1
    assert nearest(found, "c", "a", RACKS) == -1
    assert nearest(found, "", "a", RACKS) == -1
    assert nearest(found, "b", "a", {OTHER: None}) == -1
