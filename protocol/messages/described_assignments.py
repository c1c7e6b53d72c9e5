"""Assignments in descriptions of consumer groups and share groups (KIP-848, KIP-932)."""

from __future__ import annotations

from ..schema import INT32, STRING, UUID, Message, array, struct, wire


@struct
class DescribedTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class DescribedAssignment(Message):
    topic_partitions: list[DescribedTopicPartitions] = wire(array(DescribedTopicPartitions))
