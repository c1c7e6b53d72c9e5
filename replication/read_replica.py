"""Which replica a consumer had better read from (KIP-392): one in its own rack, as the leader is asked by its fetches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .partition import Partition


class Candidate(NamedTuple):
    """A follower that has what is asked for; the greatest of several is the best."""

    log_end_offset: int
    last_caught_up_ms: int
    broker_id: int


def candidates(partition: Partition, fetch_offset: int) -> Iterable[Candidate]:
    """The followers in sync that have the offset, as far as their leader knows."""
    for broker_id in partition.isr:
        follower = partition.followers.get(broker_id)
        if follower is not None and follower.log_start_offset <= fetch_offset <= follower.end_offset:
            yield Candidate(follower.end_offset, follower.last_caught_up_ms, broker_id)


def nearest(found: Iterable[Candidate], client_rack: str, leader_rack: str | None, racks: dict[int, str | None]) -> int:
    """RackAwareReplicaSelector's choice; -1 for the leader. `racks` has the brokers that can be reached."""
    if not client_rack or client_rack == leader_rack:
        return -1
    in_rack = [candidate for candidate in found if racks.get(candidate.broker_id) == client_rack]
    return max(in_rack).broker_id if in_rack else -1
