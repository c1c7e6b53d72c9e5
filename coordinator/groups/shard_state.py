"""The state of a shard: its groups, their committed offsets and timers.

`write` records a decision and replays it at once. Durable state is set in no other way, so a shard that replays its log
reaches the same state: the durable part of classic groups, all of consumer groups, and the committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ...metadata.image import EMPTY_IMAGE, MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from ...protocol.schema import Message
from ..groups_config import GroupsConfig
from ..record_framing import encoded_size
from ..result import GroupRequest, Record, Reply
from ..timers import Timers
from .committed_offsets import OffsetStore
from .group import Group
from .group_counters import GroupCounters
from .group_records import offset_record
from .kept_listing import KeptListing

if TYPE_CHECKING:
    from ...metadata.delta import Part
    from .kind import Kind, Replay

AGroup = TypeVar("AGroup", bound=Group)


class ShardState:
    """`make_simple_group`: makes the group that a committed offset without a group stands for."""

    def __init__(
        self,
        config: GroupsConfig,
        kinds: Mapping[str, Kind[ShardState]],
        replays: Mapping[type[Message], Replay[ShardState]],
        make_simple_group: Callable[[ShardState, str], Group],
    ) -> None:
        self.config = config
        self._make_simple_group = make_simple_group
        self._kinds = kinds
        self._replays = replays
        self.groups: dict[str, Group] = {}
        #: The entries of groups that ListGroups has listed.
        self.listings: dict[str, KeptListing] = {}
        #: The last group of which a record said that it is no more: a record behind that may say what became of it.
        self.last_removed: Group | None = None
        #: The parts of the metadata whose changes concern the groups.
        self.interest: set[Part] = set()
        #: Topics and the groups' own configurations, as last published.
        self.image: MetadataImage = EMPTY_IMAGE
        self.offsets = OffsetStore()
        self.counters = GroupCounters()
        self.timers = Timers()
        #: Members without a recent heartbeat, as last written (silence.py): group and member id -> last heartbeat.
        self.silent: dict[tuple[str, str], int] = {}
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        #: The offset that the next record will have in the log; this shard is its partition's only writer.
        self.next_offset = 0

    def reply(self, message: GroupRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    def is_too_large(self, data: bytes) -> bool:
        """Returns True if no record of the topic can hold it."""
        return len(data) > self.config.max_record_bytes

    def can_store(self, value: Message, *ids: str, version: int = 0) -> bool:
        """Returns whether a record of the topic can hold the value; `ids` are those in its key. To be asked before a change,
        where a client decides how large the record is: no limit holds for the coordinator's own batches.
        """
        size = encoded_size(value, version) + sum(len(one.encode()) for one in ids)
        return size <= self.config.max_record_bytes

    # Groups.

    def find(self, kind: type[AGroup], group_id: str) -> AGroup | None:
        """The group, if it is of this kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None

    def every(self, kind: type[AGroup]) -> list[AGroup]:
        return [group for group in self.groups.values() if isinstance(group, kind)]

    def kind_of(self, group: Group) -> Kind[ShardState]:
        return self._kinds[group.kind]

    def put(self, group: Group) -> None:
        """In the place of the group of another kind that had its id. For what replays."""
        self._take_out(group.group_id)
        self.groups[group.group_id] = group
        if self._kinds[group.kind].metadata_changed is not None:
            self.interest.add("topics")

    def remove(self, group_id: str) -> None:
        """Removes a group. Called by replay functions only."""
        self.last_removed = self._take_out(group_id)

    def _take_out(self, group_id: str) -> Group | None:
        group = self.groups.pop(group_id, None)
        self.listings.pop(group_id, None)
        if group is not None:
            group.cancel_timers()
        return group

    def may_replace(self, group_id: str) -> bool:
        """Returns whether the id is free for a group of another kind: no group has it, or an empty group."""
        group = self.groups.get(group_id)
        if group is None:
            return True
        kind = self.kind_of(group)
        return kind.replaceable_when_empty and kind.validate_deletion(group) is ErrorCode.NONE

    def replace(self, group_id: str) -> bool:
        """Deletes the empty group that has the id; its offsets stay. False when it may not be."""
        group = self.groups.get(group_id)
        if group is None:
            return True
        if not self.may_replace(group_id):
            return False
        self.kind_of(group).delete(self, group)
        return True

    def respond_as_other_kind(self, message: GroupRequest, group_id: str, now_ms: int) -> bool:
        """Has a group of another kind answer a request of the classic protocol; False when there is none that does."""
        group = self.groups.get(group_id)
        if group is None or self.may_replace(group_id):
            return False
        response = self.kind_of(group).classic_requests.get(type(message.request))
        if response is None:
            return False
        response(self, group, message, now_ms)
        return True

    # Changes.

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
            if value is not None and key.group not in self.groups:
                self._make_simple_group(self, key.group)
            self.offsets.replay(key, value, self.next_offset, producer_id)
        else:
            self._replays[type(key)](self, key, value)
        self.next_offset += 1

    def write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record, record.producer_id)
