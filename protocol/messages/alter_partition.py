"""AlterPartition (key 56): a partition's leader asks the controller for a new ISR.

From brokers only, several partitions at once. The controller checks leader epoch and partition epoch
(INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH) and that no replica in the set is fenced or shutting down
(INELIGIBLE_REPLICA); the leader counts the larger set for the high watermark meanwhile (KIP-497).

Versions 2-3, all flexible. Additions by version:
- 2: topics by id; INELIGIBLE_REPLICA, NEW_LEADER_ELECTED (KIP-841)
- 3: broker epochs with the replicas, so that one that restarted is not taken for its previous incarnation (KIP-903)
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, INT64, UUID, Message, Request, array, message, struct, wire


@struct
class BrokerState(Message):
    broker_id: int = wire(INT32, "3+")
    broker_epoch: int = wire(INT64, "3+", default=-1)


@struct
class AlterPartitionRequestPartition(Message):
    partition_index: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    new_isr: list[int] = wire(array(INT32), "0-2")
    new_isr_with_epochs: list[BrokerState] = wire(array(BrokerState), "3+")
    leader_recovery_state: int = wire(INT8, "1+")
    partition_epoch: int = wire(INT32)


@struct
class AlterPartitionRequestTopic(Message):
    topic_id: bytes = wire(UUID, "2+")
    partitions: list[AlterPartitionRequestPartition] = wire(array(AlterPartitionRequestPartition))


@message("2-3", flexible="0+", key=56)
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    topics: list[AlterPartitionRequestTopic] = wire(array(AlterPartitionRequestTopic))


@struct
class AlterPartitionResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    isr: list[int] = wire(array(INT32))
    leader_recovery_state: int = wire(INT8, "1+")
    partition_epoch: int = wire(INT32)


@struct
class AlterPartitionResponseTopic(Message):
    topic_id: bytes = wire(UUID, "2+")
    partitions: list[AlterPartitionResponsePartition] = wire(array(AlterPartitionResponsePartition))


@message("2-3", flexible="0+", key=56)
class AlterPartitionResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    topics: list[AlterPartitionResponseTopic] = wire(array(AlterPartitionResponseTopic))
