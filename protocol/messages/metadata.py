"""The cluster as clients see it: its brokers and topics, its controller, and coordinators."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, UUID, Message, array, message, struct, wire

# Metadata (key 3): brokers, and topics with their partitions, leaders and replicas.
#
# A null list of topics asks for all (an empty one too in version 0), an empty list for none. A topic that does not
# exist is created when both the broker's `auto.create.topics.enable` and the request allow it, and answers
# LEADER_NOT_AVAILABLE until it has leaders. By topic id nothing is ever created. A partition whose listener is missing
# on its leader answers LISTENER_NOT_FOUND.
#
# Versions 0-13, flexible from 9. Additions by version:
# - 1: racks, controller, internal topics; null asks for all
# - 2: cluster id (KIP-78)
# - 4: auto-creation can be declined (KIP-204)
# - 5: offline replicas (KIP-112)
# - 7: leader epochs (KIP-320)
# - 8: authorized operations, when asked for (KIP-430)
# - 10: topic ids in the response (KIP-516)
# - 11: cluster operations moved to DescribeCluster (KIP-700)
# - 12: topics may be asked for by id alone
# - 13: an error for the whole response (KIP-1102)


@struct
class MetadataRequestTopic(Message):
    topic_id: bytes = wire(UUID, "10+")
    name: str | None = wire(STRING, nullable="10+")


@message("0-13", flexible="9+", key=3)
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = wire(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = wire(BOOL, "4+", default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, "8-10")
    include_topic_authorized_operations: bool = wire(BOOL, "8+")


@struct
class MetadataResponseBroker(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, "1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition(Message):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, "7+", default=-1)
    replica_nodes: list[int] = wire(array(INT32))
    isr_nodes: list[int] = wire(array(INT32))
    offline_replicas: list[int] = wire(array(INT32), "5+")


@struct
class MetadataResponseTopic(Message):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable="12+")
    topic_id: bytes = wire(UUID, "10+")
    is_internal: bool = wire(BOOL, "1+")
    partitions: list[MetadataResponsePartition] = wire(array(MetadataResponsePartition))
    topic_authorized_operations: int = wire(INT32, "8+", default=-2147483648)


@message("0-13", flexible="9+", key=3)
class MetadataResponse(Message):
    throttle_time_ms: int = wire(INT32, "3+")
    brokers: list[MetadataResponseBroker] = wire(array(MetadataResponseBroker))
    cluster_id: str | None = wire(STRING, "2+", nullable="2+", default=None)
    controller_id: int = wire(INT32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = wire(array(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(INT32, "8-10", default=-2147483648)
    error_code: int = wire(INT16, "13+")


# DescribeCluster (key 60): the cluster's id, controller and nodes.
#
# A broker tells of brokers (the controller shown is one of them, as clients expect), a controller of controllers
# (MISMATCHED_ENDPOINT_TYPE when asked for the other).
#
# Versions 0-2, all flexible. Additions by version:
# - 1: endpoint type (KIP-919)
# - 2: fenced brokers, when asked for (KIP-1073)


@message("0-2", flexible="0+", key=60)
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, "1+", default=1)
    include_fenced_brokers: bool = wire(BOOL, "2+")


@struct
class DescribeClusterBroker(Message):
    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable="0+", default=None)
    is_fenced: bool = wire(BOOL, "2+")


@message("0-2", flexible="0+", key=60)
class DescribeClusterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    endpoint_type: int = wire(INT8, "1+", default=1)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = wire(array(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(INT32, default=-2147483648)


# FindCoordinator (key 10): the broker that coordinates a group, a transactional id or a share partition.
#
# The key's hash chooses a partition of the internal topic; its leader is the coordinator. The topic is created on first
# use, and COORDINATOR_NOT_AVAILABLE is answered until it has a leader. Key type 0 is a group, 1 a transactional id, 2 a
# share partition written as "group:topic id:partition".
#
# Versions 0-6, flexible from 3. Additions by version:
# - 1: key type; the error in words
# - 4: several keys at once (KIP-699)
# - 5: may answer TRANSACTION_ABORTABLE (KIP-890)
# - 6: share partitions (KIP-932)


@message("0-6", flexible="3+", key=10)
class FindCoordinatorRequest(Message):
    key: str = wire(STRING, "0-3")
    key_type: int = wire(INT8, "1+")
    coordinator_keys: list[str] = wire(array(STRING), "4+")


@struct
class Coordinator(Message):
    key: str = wire(STRING, "4+")
    node_id: int = wire(INT32, "4+")
    host: str = wire(STRING, "4+")
    port: int = wire(INT32, "4+")
    error_code: int = wire(INT16, "4+")
    error_message: str | None = wire(ERROR_TEXT, "4+", nullable="4+")


@message("0-6", flexible="3+", key=10)
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16, "0-3")
    error_message: str | None = wire(ERROR_TEXT, "1-3", nullable="1-3")
    node_id: int = wire(INT32, "0-3")
    host: str = wire(STRING, "0-3")
    port: int = wire(INT32, "0-3")
    coordinators: list[Coordinator] = wire(array(Coordinator), "4+")
