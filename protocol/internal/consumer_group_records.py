"""Records of `__consumer_offsets` for KIP-848 consumer groups.

The framing is that of consumer_offsets.py. A consumer group is many small records: its epoch (3), members (5), target
assignment (6 for its epoch, 7 for each member), current assignment and revocations of each member (8), resolved regular
expressions (16). Type 4, the metadata of subscribed topics, is read for compatibility with 4.0 and no longer written. A
member that uses the classic protocol has its protocols in a tagged field.
"""

from __future__ import annotations

from ..schema import BYTES, INT8, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@message("0", key=8)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class OwnedTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))
    assignment_epochs: list[int] | None = wire(array(INT32), nullable="0+", tag=0)


@message("0", flexible="0+", key=8)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: list[OwnedTopicPartitions] = wire(array(OwnedTopicPartitions))
    partitions_pending_revocation: list[OwnedTopicPartitions] = wire(array(OwnedTopicPartitions))


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
class TargetTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=7)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TargetTopicPartitions] = wire(array(TargetTopicPartitions))


@message("0", key=6)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=6)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)
