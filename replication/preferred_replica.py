"""The replica that a consumer reads from (KIP-392).

A consumer should read from a follower in its own rack (KIP-392).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .replica_role import ReplicaRole


class CaughtUpFollower(NamedTuple):
    """A follower that has the fetch offset. The greatest of several is preferred."""

    log_end_offset: int
    last_caught_up_ms: int
    broker_id: int


def candidates(role: ReplicaRole, fetch_offset: int) -> Iterable[CaughtUpFollower]:
    """Yields the followers in the ISR that have the offset, according to the leader's fetch state."""
    for broker_id in role.isr:
        follower = role.followers.get(broker_id)
        if follower is not None and follower.log_start_offset <= fetch_offset <= follower.end_offset:
            yield CaughtUpFollower(follower.end_offset, follower.last_caught_up_ms, broker_id)


def nearest(
    followers: Iterable[CaughtUpFollower], client_rack: str, leader_rack: str | None, racks: dict[int, str | None]
) -> int:
    """Returns the choice of RackAwareReplicaSelector, -1 for the leader. `racks` lists the reachable brokers."""
    if not client_rack or client_rack == leader_rack:
        return -1
    in_rack = [candidate for candidate in followers if racks.get(candidate.broker_id) == client_rack]
    return max(in_rack).broker_id if in_rack else -1
