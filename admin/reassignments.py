"""Moves of replicas between brokers (KIP-455), and elections of leaders (KIP-460)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..protocol.election_types import PREFERRED, UNCLEAN
from ..protocol.errors import ErrorCode
from ..protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ..protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from ..protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from .errors import check
from .places import Place
from .session import Admin


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move that is under way: all replicas, those that are added and those that are removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def alter_reassignments(admin: Admin, wanted: Mapping[Place, Sequence[int] | None]) -> None:
    """Begins moves to these replicas; None cancels one, if it is under way. Raises ResponseError for the first error."""
    by_topic: dict[str, list[ReassignablePartition]] = defaultdict(list)
    for (topic, index), replicas in wanted.items():
        by_topic[topic].append(ReassignablePartition(index, None if replicas is None else list(replicas)))
    topics = [ReassignableTopic(topic, partitions) for topic, partitions in by_topic.items()]
    request = AlterPartitionReassignmentsRequest(topics=topics)

    def step() -> None:
        response = admin.ask_controller(request)
        check("reassignment", response.error_code, response.error_message)
        for topic in response.responses:
            for one in topic.partitions:
                if one.error_code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    check(f"{topic.name}-{one.partition_index}", one.error_code, one.error_message)

    admin.repeated(step, is_query=False)


def list_reassignments(admin: Admin) -> dict[Place, Reassignment]:
    response = admin.repeated(lambda: admin.ask_controller(ListPartitionReassignmentsRequest(topics=None)))
    check("reassignments", response.error_code, response.error_message)
    return {
        (topic.name, one.partition_index): Reassignment(
            list(one.replicas), list(one.adding_replicas), list(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }


def elect_leaders(admin: Admin, places: Iterable[Place], *, unclean: bool) -> None:
    """Elects preferred leaders; `unclean`: any replica, where none of the ISR is left. Raises ResponseError for the first
    partition that has no new leader.
    """
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, index in places:
        by_topic[topic].append(index)
    request = ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=[ElectLeadersTopic(topic, indexes) for topic, indexes in by_topic.items()],
    )
    response = admin.ask_controller(request)
    check("election", response.error_code)
    for result in response.replica_election_results:
        for one in result.partition_result:
            if one.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                check(f"{result.topic}-{one.partition_id}", one.error_code, one.error_message)
