"""ConsumerGroupHeartbeat (key 68): a member of a KIP-848 group: join, subscribe, own, leave, all in one.

Epoch 0 joins, -1 leaves, -2 leaves for a while (static). Only what changed is sent, both ways; the assignment comes
when the member has to act on it, and its new epoch when it has given back what it must. FENCED_MEMBER_EPOCH makes it
start anew.

Versions 0-1, all flexible. Additions by version:
- 1: a regular expression for topics, evaluated by the broker; the member draws its own id (KIP-1082)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, STRING, Message, Request, array, message, wire
from .assignments import Assignment, TopicPartitions


@message("0-1", flexible="0+", key=68)
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: list[str] | None = wire(array(STRING), nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = wire(STRING, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable="0+", default=None)


@message("0-1", flexible="0+", key=68)
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable="0+", default=None)
