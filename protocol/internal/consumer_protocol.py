"""The consumer protocol: subscription and assignment of classic consumers, embedded in JoinGroup and SyncGroup.

They are opaque bytes in the protocol. The broker reads them to find the topics of a group, and to convert groups
between protocols (KIP-848). The version precedes them as an int16. Subscription: 1 owned partitions (KIP-429), 2 the
generation that owned them (KIP-792), 3 the rack (KIP-881); a newer version is read as the newest known one. The
assignment has the same versions.
"""

from __future__ import annotations

from ..schema import BYTES, INT32, STRING, Message, array, message, struct, wire


@struct
class ConsumerProtocolSubscriptionTopicPartition(Message):
    topic: str = wire(STRING, "1+")
    partitions: list[int] = wire(array(INT32), "1+")


@message("0-3")
class ConsumerProtocolSubscription(Message):
    topics: list[str] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = wire(
        array(ConsumerProtocolSubscriptionTopicPartition), "1+"
    )
    generation_id: int = wire(INT32, "2+", default=-1)
    rack_id: str | None = wire(STRING, "3+", nullable="3+", default=None)


@struct
class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@message("0-3")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = wire(
        array(ConsumerProtocolAssignmentTopicPartition)
    )
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
