"""Records of `__consumer_offsets`: committed offsets, classic groups and KIP-848 consumer groups; and the consumer protocol.

A record's key is its record type (the key of these tables, as an int16) and a key message of version 0. Its value is
the version, as an int16, and a value message; a null value is a tombstone. Types 0 and 1 are a committed offset, 2 a
group with its members and their assignments. Offsets are written in version 3 unless another is needed (1 if the
client set a retention time): 1 has `expire_timestamp`, 3 the leader epoch (KIP-320), 4 the topic id. Groups: 1
rebalance timeout, 2 the time of the state, 3 static members (KIP-345), 4 flexible, so that older brokers skip unknown
fields (KIP-915).

A consumer group is many small records: its epoch (3), members (5), target assignment (6 for its epoch, 7 for each
member), current assignment and revocations of each member (8), resolved regular expressions (16). Type 4, the metadata
of subscribed topics, is read for compatibility with 4.0 and no longer written. A member that uses the classic protocol
has its protocols in a tagged field.
"""

from __future__ import annotations

from ..schema import BYTES, INT8, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@message("0", key=0)
class LegacyOffsetCommitKey(Message):
    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message("0", key=0)
class LegacyOffsetCommitValue(Message):
    offset: int = wire(INT64, "0")
    metadata: str = wire(STRING, "0")
    commit_timestamp: int = wire(INT64, "0")


@message("0", key=1)
class OffsetCommitKey(Message):
    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message("0-4", flexible="4+", key=1)
class OffsetCommitValue(Message):
    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, "3+", default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, "1", default=-1)
    topic_id: bytes = wire(UUID, "4+", tag=0)


@message("0", key=2)
class GroupMetadataKey(Message):
    group: str = wire(STRING, "0")


@struct
class MemberMetadata(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, "1+", default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@message("0-4", flexible="4+", key=2)
class GroupMetadataValue(Message):
    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable="0+")
    leader: str | None = wire(STRING, nullable="0+")
    current_state_timestamp: int = wire(INT64, "2+", default=-1)
    members: list[MemberMetadata] = wire(array(MemberMetadata))


# The consumer protocol: subscription and assignment of classic consumers, embedded in JoinGroup and SyncGroup.
#
# They are opaque bytes in the protocol. The broker reads them to find the topics of a group, and to convert groups
# between protocols (KIP-848). The version precedes them as an int16. Subscription: 1 owned partitions (KIP-429), 2 the
# generation that owned them (KIP-792), 3 the rack (KIP-881); a newer version is read as the newest known one. The
# assignment has the same versions.


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


@message("0", key=8)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))
    assignment_epochs: list[int] | None = wire(array(INT32), nullable="0+", tag=0)


@message("0", flexible="0+", key=8)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: list[TopicPartitions] = wire(array(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = wire(array(TopicPartitions))


@message("0", key=5)
class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class ClassicProtocol(Message):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@struct
class ClassicMemberMetadata(Message):
    session_timeout_ms: int = wire(INT32)
    supported_protocols: list[ClassicProtocol] = wire(array(ClassicProtocol))


@message("0", flexible="0+", key=5)
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = wire(STRING, nullable="0+")
    rack_id: str | None = wire(STRING, nullable="0+")
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable="0+")
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    server_assignor: str | None = wire(STRING, nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = wire(ClassicMemberMetadata, nullable="0+", tag=0)


@message("0", key=3)
class ConsumerGroupMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=3)
class ConsumerGroupMetadataValue(Message):
    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0)


@message("0", key=4)
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@struct
class PartitionMetadata(Message):
    partition: int = wire(INT32)
    racks: list[str] = wire(array(STRING))


@struct
class TopicMetadata(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: list[PartitionMetadata] = wire(array(PartitionMetadata))


@message("0", flexible="0+", key=4)
class ConsumerGroupPartitionMetadataValue(Message):
    topics: list[TopicMetadata] = wire(array(TopicMetadata))


@message("0", key=16)
class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = wire(STRING, "0")
    regular_expression: str = wire(STRING, "0")


@message("0", flexible="0+", key=16)
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = wire(array(STRING))
    version: int = wire(INT64)
    timestamp: int = wire(INT64)


@message("0", key=7)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class TopicPartition(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=7)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TopicPartition] = wire(array(TopicPartition))


@message("0", key=6)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=6)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)
