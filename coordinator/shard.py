"""The coordinator of the groups that one partition of `__consumer_offsets` holds. Knows no disk, no clock, no chance.

    shard = GroupShard(config)
    shard.replay(record) ...          the log, from its start; `end_of_transaction` for its markers
    shard.loaded(now)                 and from then on
    shard.handle(message, now)        a GroupRequest, TopicsDeleted or MetadataChanged
    shard.take()                      -> Output: records to append, then replies to give when those are committed
    shard.deadline(), expire(now)     when to wake it up, and its waking

`now` is in milliseconds since 1970, as the records' timestamps are. A shard whose records cannot be appended, or whose
leadership ends, is dropped whole and loaded again from the log: it has gone ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..metadata.image import MetadataImage
from ..protocol.errors import ErrorCode
from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ..protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ..protocol.messages.delete_groups import DeleteGroupsRequest
from ..protocol.messages.describe_groups import DescribeGroupsRequest
from ..protocol.messages.heartbeat import HeartbeatRequest
from ..protocol.messages.join_group import JoinGroupRequest
from ..protocol.messages.leave_group import LeaveGroupRequest
from ..protocol.messages.list_groups import ListGroupsRequest
from ..protocol.messages.offset_commit import OffsetCommitRequest
from ..protocol.messages.offset_delete import OffsetDeleteRequest
from ..protocol.messages.offset_fetch import OffsetFetchRequest
from ..protocol.messages.sync_group import SyncGroupRequest
from ..protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..protocol.schema import Message
from . import admin, offsets, transactional_offsets
from .checks import refuse
from .classic import join, leave, rebalance, sync
from .consumer import describe as consumer_describe
from .consumer import heartbeat as consumer_heartbeat
from .consumer import targets as consumer_targets
from .refusals import refused
from .result import GroupRequest, GroupsConfig, Output, Record
from .retention import delete_offsets_of_topics, expire_offsets
from .state import ShardState
from .timers import Timer


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics that are no more, name -> id: what was committed for them goes."""

    topics: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """What consumer groups are assigned by. `topics`: that came, went or have other partitions than before."""

    image: MetadataImage
    topics: frozenset[str] = frozenset()


Operation = Callable[[ShardState, GroupRequest, int], None]

OPERATIONS: dict[type[Message], Operation] = {
    JoinGroupRequest: join.join,
    SyncGroupRequest: sync.sync,
    HeartbeatRequest: sync.heartbeat,
    LeaveGroupRequest: leave.leave,
    OffsetCommitRequest: offsets.commit,
    OffsetFetchRequest: offsets.fetch,
    TxnOffsetCommitRequest: transactional_offsets.commit,
    OffsetDeleteRequest: offsets.delete,
    DescribeGroupsRequest: admin.describe,
    ListGroupsRequest: admin.list_groups,
    DeleteGroupsRequest: admin.delete_groups,
    ConsumerGroupHeartbeatRequest: consumer_heartbeat.heartbeat,
    ConsumerGroupDescribeRequest: consumer_describe.describe,
}


class GroupShard:
    def __init__(self, config: GroupsConfig, next_offset: int = 0) -> None:
        self.state = ShardState(config)
        self.state.next_offset = next_offset
        self._retention_timer = Timer(("retention",))

    def handle(self, message: GroupRequest | TopicsDeleted | MetadataChanged, now: int) -> None:
        if type(message) is GroupRequest:
            request = message.request
            error = refuse(self.state.config, request, message.version)
            if error is ErrorCode.NONE:
                OPERATIONS[type(request)](self.state, message, now)
            else:
                self.state.reply(message, refused(request, error))
        elif type(message) is MetadataChanged:
            self._metadata_changed(message)
        else:
            assert isinstance(message, TopicsDeleted)
            delete_offsets_of_topics(self.state, message.topics)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        while (timer := self.state.timers.due(now)) is not None:
            self._expired(timer, now)

    def take(self) -> Output:
        """What was decided since the last call. The caller appends the records before it gives any of the replies."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        # The lists stay: the groups hold the one of replies.
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record, producer_id: int = -1) -> None:
        self.state.replay(record, producer_id)

    def end_of_transaction(self, producer_id: int, committed: bool) -> None:
        self.state.offsets.replay_end_of_transaction(producer_id, committed)

    def loaded(self, now: int) -> None:
        state = self.state
        self._plan_retention(now)
        for group in state.groups.values():
            group.restore(now)
            if len(group.members) > state.config.max_group_size:
                rebalance.prepare(state, group, now, "it was loaded with more members than group.max.size")

        for consumer_group in state.consumer_groups.values():
            consumer_targets.restore(state, consumer_group, now)

    def _metadata_changed(self, message: MetadataChanged) -> None:
        self.state.image = message.image
        for group in self.state.consumer_groups.values() if message.topics else ():
            if group.regexes or not message.topics.isdisjoint(group.subscribed_topics()):
                group.is_outdated = True

    def _plan_retention(self, now: int) -> None:
        self.state.timers.set(self._retention_timer, now + self.state.config.offsets_retention_check_interval_ms)

    def _expired(self, timer: Timer, now: int) -> None:
        kind = timer.event[0]
        if kind == "retention":
            expire_offsets(self.state, now)
            self._plan_retention(now)
            return
        if kind.startswith("consumer "):
            consumer_targets.expired(self.state, timer.event, now)
            return
        group = self.state.groups.get(timer.event[1])
        assert group is not None, "a deleted group takes its timers along"
        if kind == "session":
            rebalance.session_expired(self.state, group, timer.event[2], now)
        elif kind == "join":
            rebalance.join_timer_expired(self.state, group, now)
        else:
            rebalance.sync_timer_expired(self.state, group, now)
