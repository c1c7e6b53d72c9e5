"""DescribeCluster (key 60): the cluster's id, controller and nodes.

A broker tells of brokers (the controller shown is one of them, as clients expect), a controller of controllers
(MISMATCHED_ENDPOINT_TYPE when asked for the other).

Versions 0-2, all flexible. Additions by version:
- 1: endpoint type (KIP-919)
- 2: fenced brokers, when asked for (KIP-1073)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-2", flexible="0+", key=60)
class DescribeClusterRequest(Request["DescribeClusterResponse"]):
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
