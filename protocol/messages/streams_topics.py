"""Internal topics of a topology, in StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071)."""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, Message, array, struct, wire
from .key_values import KeyValue


@struct
class StreamsTopic(Message):
    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: list[KeyValue] = wire(array(KeyValue))
