"""What a shard knows, and the one way to change it: `write` records a decision and replays it at once.

Nothing of what must survive is set in any other way, so that a shard that replays its log comes to the same
(`ClassicGroup.durable`, and the committed offsets).
"""

from __future__ import annotations

from ..protocol.internal.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..protocol.schema import Message
from .classic.group import ClassicGroup
from .offset_store import OffsetStore
from .records import group_record, offset_record
from .result import GroupRequest, GroupsConfig, Record, Reply
from .timers import Timers


class ShardState:
    def __init__(self, config: GroupsConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
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

    def write_group(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        self._write(group_record(group.group_id, group.as_record(assignments)))

    def write_empty_group(self, group: ClassicGroup) -> None:
        """That there is a group, before anything is known of it."""
        empty = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp_ms)
        self._write(group_record(group.group_id, empty))

    def delete_group(self, group_id: str) -> None:
        self._write(group_record(group_id, None))

    def write_offset(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """`value` None deletes the committed offset."""
        self._write(offset_record(group_id, topic, partition, value))

    def write_transactional_offset(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, producer: tuple[int, int]
    ) -> None:
        """`producer`: id and epoch of the one whose transaction it is of."""
        self._write(offset_record(group_id, topic, partition, value, *producer))

    def replay(self, record: Record, producer_id: int = -1) -> None:
        """`producer_id` is not -1 for a record of a transaction, which counts once the transaction is committed."""
        key, value, *_ = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self._group(key.group)
            self.offsets.replay(key, value, self.next_offset, producer_id)
        else:
            assert isinstance(key, GroupMetadataKey)
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_group(key.group, value)
        self.next_offset += 1

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self._group(group_id).durable = value
            return
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.cancel_timers()

    def _write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record, record.producer_id)

    def _group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.timers, self.replies)
        return group
