"""Partitions by topic id that members of consumer groups and share groups own, and their assignments (KIP-848, KIP-932)."""

from __future__ import annotations

from ..schema import INT32, UUID, Message, array, struct, wire


@struct
class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@struct
class Assignment(Message):
    topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))
