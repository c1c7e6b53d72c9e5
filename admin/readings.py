"""Responses of the administrator as the values that `odradek.admin` counts and compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from .errors import NotSupported, ResponseError
from .log_directories import describe_log_dirs
from .metadata_quorum import describe_quorum
from .quorum import QuorumMember, active_controller
from .replicas import PartitionState
from .sizes import ReplicaSize, bytes_by_partition

if TYPE_CHECKING:
    from .log_directories import BrokerDirectories
    from .metadata_quorum import QuorumDescription
    from .nodes import ClusterDescription
    from .session import Admin
    from .topics import Partition, Topic


def partition_states(topics: Iterable[Topic]) -> Iterator[PartitionState]:
    for topic in topics:
        for one in topic.partitions:
            yield partition_state(one)


def partition_state(partition: Partition) -> PartitionState:
    return PartitionState(partition.leader_id, partition.replica_nodes, partition.isr_nodes)


def replicas_in(brokers: Iterable[BrokerDirectories]) -> Iterator[ReplicaSize]:
    """The replicas of all log directories that are online."""
    for broker in brokers:
        for directory in broker.log_dirs:
            for topic in directory.topics:
                for one in topic.partitions:
                    place = (topic.name, one.partition_index)
                    yield ReplicaSize(place, broker.broker, one.partition_size, one.is_future_key)


def replica_sizes(admin: Admin, topics: Mapping[str, Sequence[int]] | None = None) -> dict[tuple[str, int], int]:
    """Bytes of the largest replica by (topic, partition), of all log directories that are online."""
    return bytes_by_partition(replicas_in(describe_log_dirs(admin, topics)))


def quorum_members(partition: QuorumDescription) -> list[QuorumMember]:
    """Voters, then observers."""
    return [
        QuorumMember(
            one.replica_id,
            one.log_end_offset,
            one.last_caught_up_timestamp,
            str(one.replica_directory_id or ""),
            is_voter,
        )
        for replicas, is_voter in ((partition.current_voters, True), (partition.observers, False))
        for one in replicas
    ]


def controller_of(admin: Admin, cluster: ClusterDescription) -> int | None:
    """The node of the active controller; None where there is none, and where this user may not know it."""
    try:
        leader = describe_quorum(admin).leader_id
    except NotSupported:
        return active_controller(None, cluster.controller_id, [one.broker_id for one in cluster.brokers])
    except ResponseError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None
    return active_controller(leader, cluster.controller_id, ())
