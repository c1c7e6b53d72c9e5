"""Metadata (key 3): brokers, and topics with their partitions, leaders and replicas.

A null list of topics asks for all (an empty one too in version 0), an empty list for none. A topic that does not
exist is created when both the broker's `auto.create.topics.enable` and the request allow it, and answers
LEADER_NOT_AVAILABLE until it has leaders. By topic id nothing is ever created. A partition whose listener is missing
on its leader answers LISTENER_NOT_FOUND (LEADER_NOT_AVAILABLE before version 6). Version 0 leaves out replicas whose broker is
away, and adds REPLICA_NOT_AVAILABLE.

Versions 0-13, flexible from 9. Additions by version:
- 1: racks, controller, internal topics; null asks for all
- 2: cluster id (KIP-78)
- 4: auto-creation can be declined (KIP-204)
- 5: offline replicas (KIP-112)
- 7: leader epochs (KIP-320)
- 8: authorized operations, when asked for (KIP-430)
- 10: topic ids in the response (KIP-516)
- 11: cluster operations moved to DescribeCluster (KIP-700)
- 12: topics may be asked for by id alone
- 13: an error for the whole response (KIP-1102)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class MetadataRequestTopic(Message):
    topic_id: bytes = wire(UUID, "10+")
    name: str | None = wire(STRING, nullable="10+")


@message("0-13", flexible="9+", key=3)
class MetadataRequest(Request["MetadataResponse"]):
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
