"""The metadata quorum: its leader, voters and observers (KIP-595, KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ..protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
    QuorumReplicaState,
)
from ..protocol.uuids import ZERO_UUID
from .errors import check
from .session import Admin

_TOPIC, _PARTITION = "__cluster_metadata", 0


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """Times in ms; -1 where the leader does not have them. `replica_directory_id`: since Apache Kafka 3.9."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    replica_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: list[QuorumReplica]
    observers: list[QuorumReplica]


def describe_quorum(admin: Admin) -> QuorumDescription:
    """Raises NotSupported from brokers without a quorum of their own (ZooKeeper)."""
    partitions = [DescribeQuorumPartitionRequest(partition_index=_PARTITION)]
    request = DescribeQuorumRequest(topics=[DescribeQuorumTopicRequest(_TOPIC, partitions)])

    def step() -> QuorumDescription:
        found = admin.ask(request)
        check("quorum", found.error_code, found.error_message)
        (partition,) = found.topics[0].partitions
        check("quorum", partition.error_code, partition.error_message)
        return QuorumDescription(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            [_replica(one) for one in partition.current_voters],
            [_replica(one) for one in partition.observers],
        )

    return admin.repeated(step)


def _replica(replica: QuorumReplicaState) -> QuorumReplica:
    directory = replica.replica_directory_id
    return QuorumReplica(
        replica.replica_id,
        replica.log_end_offset,
        replica.last_fetch_timestamp,
        replica.last_caught_up_timestamp,
        UUID(bytes=directory) if directory != ZERO_UUID else None,
    )
