"""Records of `__consumer_offsets` for share groups (KIP-932).

The framing is that of consumer_offsets.py: group epoch (11), members (10), target assignment (12 and 13), current
assignment of each member (14), and the topics whose state is initializing, initialized or being deleted (15).
"""

from __future__ import annotations

from ..schema import INT8, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@message("0", key=14)
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class ShareMemberTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=14)
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: list[ShareMemberTopicPartitions] = wire(array(ShareMemberTopicPartitions))


@message("0", key=10)
class ShareGroupMemberMetadataKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=10)
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = wire(STRING, nullable="0+")
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))


@message("0", key=11)
class ShareGroupMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=11)
class ShareGroupMetadataValue(Message):
    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)


@message("0", key=15)
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@struct
class TopicPartitionsInfo(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class TopicInfo(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)


@message("0", flexible="0+", key=15)
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: list[TopicPartitionsInfo] = wire(array(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = wire(array(TopicPartitionsInfo))
    deleting_topics: list[TopicInfo] = wire(array(TopicInfo))


@message("0", key=13)
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


@struct
class ShareTargetTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


@message("0", flexible="0+", key=13)
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[ShareTargetTopicPartitions] = wire(array(ShareTargetTopicPartitions))


@message("0", key=12)
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = wire(STRING, "0")


@message("0", flexible="0+", key=12)
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)
