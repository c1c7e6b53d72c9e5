"""The interface of groups of any kind, and the records of classic groups and committed offsets."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import ClassVar, Protocol

from ....protocol.internal.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...common import record_frames
from ...common.result import Record

# The interface of groups of any kind, for code that is independent of the kind: offsets, tools, retention.


class Group(Protocol):
    """A group. A group id has one kind at a time; the operations of a kind are in its `Kind` (kind.py)."""

    #: The name in ListGroups, and the prefix of timer events: "classic", "consumer".
    kind: ClassVar[str]
    group_id: str

    @property
    def state(self) -> Enum:
        """Returns the state. Its value is the name in tools."""

    @property
    def protocol_type(self) -> str | None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def input_topics(self) -> Collection[str]:
        """Returns the topics that the members read, as far as they are known."""

    def cancel_timers(self) -> None:
        """Cancels all timers: the group is deleted, or replaced by one of another kind."""


# Records of classic groups and of committed offsets, in the versions that Kafka 4.4 writes.
#
# GroupMetadataValue 3, OffsetCommitValue 4, or 1 when the client asked for a retention time of its own.


GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
#: The version that has an expiry of its own.
OFFSET_COMMIT_EXPIRING_VERSION = 1


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


def encoded_size(value: GroupMetadataValue) -> int:
    return record_frames.encoded_size(value, GROUP_METADATA_VERSION)
