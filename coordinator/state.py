"""What a shard knows, and the one way to change it: `write` records a decision and replays it at once.

Nothing of what must survive is set in any other way, so that a shard that replays its log comes to the same
(`ClassicGroup.durable`, and the committed offsets).
"""

from __future__ import annotations

from ..metadata.image import EMPTY_IMAGE, GROUP_RESOURCE, MetadataImage
from ..protocol.internal.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..protocol.internal.consumer_group_records import ConsumerGroupMetadataKey
from ..protocol.schema import Message
from .classic.group import ClassicGroup, State
from .consumer.group import ConsumerGroup
from .offset_store import OffsetStore
from .records import CONSUMER_KEYS, group_record, offset_record
from .result import GroupRequest, GroupsConfig, Record, Reply
from .timers import Timers


class ShardState:
    def __init__(self, config: GroupsConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        #: Topics and the groups' own configurations, as last published.
        self.image: MetadataImage = EMPTY_IMAGE
        self.offsets = OffsetStore()
        self.timers = Timers()
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        #: The offset that the next record will have in the log; this shard is its partition's only writer.
        self.next_offset = 0

    def reply(self, message: GroupRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    def create_group(self, group_id: str, now: int) -> ClassicGroup:
        group = self._group(group_id)
        group.state_timestamp_ms = now
        return group

    # Consumer groups.

    def may_become_consumer_group(self, group_id: str) -> bool:
        """A classic group without members may; one with members would have to be migrated, which is not done."""
        group = self.groups.get(group_id)
        return group is None or (group.state is State.EMPTY and not group.pending_joins)

    def replace_classic_group(self, group_id: str) -> None:
        if group_id in self.groups:
            self.delete_group(group_id)

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        own = self._own(group_id, "consumer.session.timeout.ms")
        return self.config.consumer_session_timeout_ms if own is None else int(own)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        own = self._own(group_id, "consumer.heartbeat.interval.ms")
        return self.config.consumer_heartbeat_interval_ms if own is None else int(own)

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        own = self._own(group_id, "consumer.assignment.interval.ms")
        return self.config.consumer_assignment_interval_ms if own is None else int(own)

    def _own(self, group_id: str, key: str) -> str | None:
        return self.image.config(GROUP_RESOURCE, group_id).get(key)

    # Changes.

    def write_group(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        self.write(group_record(group.group_id, group.as_record(assignments)))

    def write_empty_group(self, group: ClassicGroup) -> None:
        """That there is a group, before anything is known of it."""
        empty = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms)
        self.write(group_record(group.group_id, empty))

    def delete_group(self, group_id: str) -> None:
        self.write(group_record(group_id, None))

    def write_offset(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """`value` None deletes the committed offset."""
        self.write(offset_record(group_id, topic, partition, value))

    def write_transactional_offset(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, producer: tuple[int, int]
    ) -> None:
        """`producer`: id and epoch of the one whose transaction it is of."""
        self.write(offset_record(group_id, topic, partition, value, *producer))

    def replay(self, record: Record, producer_id: int = -1) -> None:
        """`producer_id` is not -1 for a record of a transaction, which counts once the transaction is committed."""
        key, value, *_ = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups and key.group not in self.consumer_groups:
                self._group(key.group)
            self.offsets.replay(key, value, self.next_offset, producer_id)
        elif isinstance(key, CONSUMER_KEYS):
            self._replay_consumer_group(key.group_id, key, value)
        else:
            assert isinstance(key, GroupMetadataKey)
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_group(key.group, value)
        self.next_offset += 1

    def _replay_consumer_group(self, group_id: str, key: Message, value: Message | None) -> None:
        group = self.consumer_groups.get(group_id)
        if group is None:
            if value is None:
                return
            # Only offsets made a classic group of it, or it was one before.
            before = self.groups.pop(group_id, None)
            if before is not None:
                before.cancel_timers()
            group = self.consumer_groups[group_id] = ConsumerGroup(group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            group.cancel_all_timers()
            del self.consumer_groups[group_id]
        else:
            group.replay(key, value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.consumer_groups.pop(group_id, None)
            self._group(group_id).durable = value
            return
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.cancel_timers()

    def write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record, record.producer_id)

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.timers, self.replies)
        return group
