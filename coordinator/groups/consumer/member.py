"""One member of a consumer group, as replayed from the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ....protocol.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopicPartitions,
)
from ....protocol.uuids import uuid_to_text
from ..member_epochs import JOIN_EPOCH

#: Metadata of a member before its first heartbeat.
EMPTY_METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None
)
#: Topic id -> partitions.
Partitions = Mapping[bytes, frozenset[int]]
#: Topic id -> partition -> the member epoch at which the partition was assigned to the member (KIP-1251).
Owned = Mapping[bytes, Mapping[int, int]]


class ConsumerMemberState(IntEnum):
    """The state of a member, described in reconciliation.py. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


def generated_member_id(member_uuid: str) -> str:
    """Returns the id for a member without one, in Kafka's text form of UUIDs."""
    return uuid_to_text(bytes.fromhex(member_uuid.replace("-", "")))


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    #: Contains no topic without partitions.
    assigned: Owned = field(default_factory=dict)
    #: The partitions that the member must revoke before it can advance to the next epoch.
    revoking: Owned = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        """Returns whether the member uses the classic protocol, in a group in migration."""
        return self.metadata.classic_member_metadata is not None

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    def held(self) -> Iterable[tuple[bytes, int]]:
        """Yields every partition that cannot be assigned to another member."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for index in partitions:
                    yield topic_id, index


def held_partitions(member: ConsumerMember) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in member.held():
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


def current_assignment(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_as_record(member.assigned),
        partitions_pending_revocation=_as_record(member.revoking),
    )


def _as_record(owned: Owned) -> list[OwnedTopicPartitions]:
    return [
        OwnedTopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in owned.items()
    ]


def owned_from_record(topics: Iterable[OwnedTopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Returns owned partitions from a record. Before Kafka 4.3 it has no partition epochs: the member's applies."""
    return {
        topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs or [member_epoch] * len(topic.partitions)))
        for topic in topics
    }


def state_from_record(number: int) -> ConsumerMemberState:
    return ConsumerMemberState(number) if number in (0, 1, 2) else ConsumerMemberState.UNKNOWN


def as_partitions(topics: Iterable[Any]) -> dict[bytes, frozenset[int]]:
    """Returns partitions by topic id, from any structures with both fields. Omits topics without partitions."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}
