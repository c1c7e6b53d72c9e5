"""Records of classic groups and of committed offsets, in the versions that Kafka 4.4 writes.

GroupMetadataValue 3, OffsetCommitValue 4, or 1 when the client asked for a retention time of its own.
"""

from __future__ import annotations

from ...protocol.internal.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..result import Record

#: The last version without tagged fields, which Apache Kafka writes: older brokers do not read the later one (KIP-915).
GROUP_METADATA_VERSION = GroupMetadataValue.flexible_versions()[0] - 1
OFFSET_COMMIT_VERSION = OffsetCommitValue.newest_version()
#: The version that has an expiry of its own.
OFFSET_COMMIT_EXPIRING_VERSION = OffsetCommitValue.versions_with("expire_timestamp")[0]


def group_record(group_id: str, value: GroupMetadataValue | None) -> Record:
    return Record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    value: OffsetCommitValue | None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> Record:
    expires = value is not None and value.expire_timestamp != -1
    version = OFFSET_COMMIT_EXPIRING_VERSION if expires else OFFSET_COMMIT_VERSION
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, value, version, producer_id, producer_epoch)
