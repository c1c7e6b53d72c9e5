"""The metadata quorum: its replicas with their lag, and the active controller.

The active controller is the leader of the quorum. The controller id of Metadata and DescribeCluster is not: a broker of a
KRaft cluster names any broker that runs there, and clients send it the requests that brokers forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class QuorumMember(NamedTuple):
    """A replica of the metadata log, as DescribeQuorum has it: -1 for what the leader does not know."""

    node: int
    log_end_offset: int
    caught_up_ms: int
    directory: str = ""
    is_voter: bool = True


@dataclass(frozen=True, slots=True)
class QuorumReplicaLag:
    """`lag`: the offsets that it lacks. `ms_behind`: how long before the newest replica it has caught up."""

    node: int
    role: str
    directory: str
    end_offset: int
    lag: int | None
    ms_behind: int | None


def quorum_replicas(leader: int, high_watermark: int, members: Sequence[QuorumMember]) -> list[QuorumReplicaLag]:
    """The replicas in the order of `members`."""
    end = next((one.log_end_offset for one in members if one.is_voter and one.node == leader), high_watermark)
    newest = max((one.caught_up_ms for one in members), default=-1)
    return [
        QuorumReplicaLag(
            one.node,
            _role(one, leader),
            one.directory,
            one.log_end_offset,
            lag_behind(end, one.log_end_offset),
            newest - one.caught_up_ms if one.caught_up_ms >= 0 else None,
        )
        for one in members
    ]


def _role(member: QuorumMember, leader: int) -> str:
    if member.node == leader:
        return "leader"
    return "voter" if member.is_voter else "observer"


def lag_behind(end: int, log_end_offset: int) -> int | None:
    """The offsets that a replica lacks; None where its end is not known."""
    return max(0, end - log_end_offset) if log_end_offset >= 0 else None


def active_controller(leader: int | None, described: int, brokers: Iterable[int]) -> int | None:
    """The node of the active controller. `leader`: of the quorum, None in a cluster without one (ZooKeeper), whose brokers
    name the controller themselves: `described`. Returns None where there is none at the moment.
    """
    if leader is not None:
        return leader if leader >= 0 else None
    return described if described in set(brokers) else None
