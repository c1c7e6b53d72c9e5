"""Replicas and leaders of partitions: moves between brokers, elections, and the ISR."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, message, struct, wire

# AlterPartitionReassignments (key 45): moves partitions to other replicas, or calls that off by null.
#
# New replicas are added, caught up, and then the old ones taken out (KIP-455). Each partition answers for itself;
# NO_REASSIGNMENT_IN_PROGRESS when there is nothing to call off.
#
# Versions 0-1, all flexible. Additions by version:
# - 1: a change of the replication factor can be forbidden (KIP-860)


@struct
class ReassignablePartition(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] | None = wire(array(INT32), nullable="0+", default=None)


@struct
class ReassignableTopic(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartition] = wire(array(ReassignablePartition))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = wire(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@struct
class ReassignableTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


@message("0-1", flexible="0+", key=45)
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, "1+", default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    responses: list[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))


# ListPartitionReassignments (key 46): the reassignments that go on.
#
# For each partition all replicas, those being added and those being removed (KIP-455). Null asks for all.
#
# Version 0, flexible.


@struct
class ListPartitionReassignmentsTopics(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=46)
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = wire(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = wire(
        array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] = wire(array(INT32))
    adding_replicas: list[int] = wire(array(INT32))
    removing_replicas: list[int] = wire(array(INT32))


@struct
class OngoingTopicReassignment(Message):
    name: str = wire(STRING)
    partitions: list[OngoingPartitionReassignment] = wire(array(OngoingPartitionReassignment))


@message("0", flexible="0+", key=46)
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    topics: list[OngoingTopicReassignment] = wire(array(OngoingTopicReassignment))


# ElectLeaders (key 43): has leaders elected.
#
# Type 0 gives leadership back to the preferred replica (ELECTION_NOT_NEEDED if it leads), type 1 elects any live
# replica where no in-sync one is left, at the loss of records. Null asks for all partitions (KIP-460).
#
# Versions 0-2, flexible from 2. Additions by version:
# - 1: election types, an error for the whole response (KIP-460)


@struct
class TopicPartitions(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("0-2", flexible="2+", key=43)
class ElectLeadersRequest(Message):
    election_type: int = wire(INT8, "1+")
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable="0+")
    timeout_ms: int = wire(INT32, default=60000)


@struct
class PartitionResult(Message):
    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@struct
class ReplicaElectionResult(Message):
    topic: str = wire(STRING)
    partition_result: list[PartitionResult] = wire(array(PartitionResult))


@message("0-2", flexible="2+", key=43)
class ElectLeadersResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "1+")
    replica_election_results: list[ReplicaElectionResult] = wire(array(ReplicaElectionResult))


# AlterPartition (key 56): a partition's leader asks the controller for a new ISR.
#
# From brokers only, several partitions at once. The controller checks leader epoch and partition epoch
# (INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH) and that no replica in the set is fenced or shutting down
# (INELIGIBLE_REPLICA); the leader counts the larger set for the high watermark meanwhile (KIP-497).
#
# Versions 2-3, all flexible. Additions by version:
# - 2: topics by id; INELIGIBLE_REPLICA, NEW_LEADER_ELECTED (KIP-841)
# - 3: broker epochs with the replicas, so that one that restarted is not taken for its previous incarnation (KIP-903)


@struct
class BrokerState(Message):
    broker_id: int = wire(INT32, "3+")
    broker_epoch: int = wire(INT64, "3+", default=-1)


@struct
class PartitionDataRequest(Message):
    partition_index: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    new_isr: list[int] = wire(array(INT32), "0-2")
    new_isr_with_epochs: list[BrokerState] = wire(array(BrokerState), "3+")
    leader_recovery_state: int = wire(INT8, "1+")
    partition_epoch: int = wire(INT32)


@struct
class TopicDataRequest(Message):
    topic_id: bytes = wire(UUID, "2+")
    partitions: list[PartitionDataRequest] = wire(array(PartitionDataRequest))


@message("2-3", flexible="0+", key=56)
class AlterPartitionRequest(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    topics: list[TopicDataRequest] = wire(array(TopicDataRequest))


@struct
class PartitionDataResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    isr: list[int] = wire(array(INT32))
    leader_recovery_state: int = wire(INT8, "1+")
    partition_epoch: int = wire(INT32)


@struct
class TopicDataResponse(Message):
    topic_id: bytes = wire(UUID, "2+")
    partitions: list[PartitionDataResponse] = wire(array(PartitionDataResponse))


@message("2-3", flexible="0+", key=56)
class AlterPartitionResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    topics: list[TopicDataResponse] = wire(array(TopicDataResponse))
