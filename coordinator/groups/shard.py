"""The coordinator of the groups that one partition of `__consumer_offsets` holds. Uses no disk, clock or random
source.

    shard = GroupShard(config, kinds)
    shard.replay(record) ...          the log, from its start; `end_of_transaction` for its markers
    shard.loaded(now_ms)              and from then on
    shard.handle(message, now_ms)     a GroupRequest, TopicsDeleted or MetadataChanged
    shard.take()                      -> Output: records to append, then replies to give when those are committed
    shard.deadline(), expire(now_ms)  when to wake it up, and its waking

`now_ms` counts from 1970, as the records' timestamps are. A shard whose records cannot be appended, or
whose leadership ends, is dropped whole and loaded again from the log: it has gone ahead of it.
"""

from __future__ import annotations

from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeleteGroupsRequest
from ...protocol.messages.describe_groups import DescribeGroupsRequest
from ...protocol.messages.list_groups import ListGroupsRequest
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_delete import OffsetDeleteRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequest
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.schema import Message
from ..groups_config import GroupsConfig
from ..result import GroupRequest, MetadataChanged, Output, Record, TopicsDeleted
from ..timers import Timer
from . import offsets, silence
from .admin import delete_groups, describe, list_groups
from .classic.lookup import find_or_make
from .kind import Operation
from .kinds import Kinds
from .offset_removal import delete_offsets_of_topics, expire_offsets
from .shard_state import ShardState
from .transactional_offsets import commit_transactional
from .validation import validate

#: The operations of groups of all kinds; those of a single kind are in its <kind>/kind.py.
OPERATIONS: dict[type[Message], Operation[ShardState]] = {
    OffsetCommitRequest: offsets.commit,
    OffsetFetchRequest: offsets.fetch,
    TxnOffsetCommitRequest: commit_transactional,
    OffsetDeleteRequest: offsets.delete,
    DescribeGroupsRequest: describe,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}


def group_error_response(kinds: Kinds, request: Message, version: int, error: ErrorCode) -> Message:
    """Returns the response to a request that failed as a whole: the schema's, or that of its kind of group."""
    own = None if type(request) in OPERATIONS else kinds.error_response(type(request))
    return error_response_to(request, version, error) if own is None else own(request, version, error)


class GroupShard:
    """`kinds`: those that groups of the shard may have."""

    def __init__(self, config: GroupsConfig, kinds: Kinds, next_offset: int = 0) -> None:
        self._kinds = kinds
        self.state = ShardState(config, kinds.by_name, kinds.replays, find_or_make)
        self.state.next_offset = next_offset
        self._retention_timer = Timer(("retention",))
        self._silence = silence.SilenceCheck()

    def handle(self, message: GroupRequest | TopicsDeleted | MetadataChanged, now_ms: int) -> None:
        if type(message) is GroupRequest:
            request = message.request
            error = validate(self.state.config, request, message.version)
            if error is ErrorCode.NONE:
                operation = OPERATIONS.get(type(request)) or self._kinds.operation(type(request))
                operation(self.state, message, now_ms)
                self._silence.plan(self.state, now_ms)
            else:
                self.state.reply(message, group_error_response(self._kinds, request, message.version, error))
        elif type(message) is MetadataChanged:
            self._metadata_changed(message)
        else:
            assert isinstance(message, TopicsDeleted)
            delete_offsets_of_topics(self.state, message.topics)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now_ms: int) -> None:
        while (timer := self.state.timers.due(now_ms)) is not None:
            self._expired(timer, now_ms)

    def take(self) -> Output:
        """Returns the decisions since the last call. The caller appends the records before it sends any reply."""
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

    def loaded(self, now_ms: int) -> None:
        self._plan_retention(now_ms)
        for group in list(self.state.groups.values()):
            self.state.kind_of(group).restore(self.state, group, now_ms)
        silence.shorten_sessions(self.state, now_ms)
        self._silence.plan(self.state, now_ms)

    def hand_over(self, now_ms: int) -> None:
        """Writes what the next coordinator is to know, before a planned stop moves the partition."""
        silence.hand_over(self.state, now_ms)

    def _metadata_changed(self, message: MetadataChanged) -> None:
        self.state.image = message.image
        for group in list(self.state.groups.values()) if message.topics else ():
            changed = self.state.kind_of(group).metadata_changed
            if changed is not None:
                changed(self.state, group, message.topics)

    def _plan_retention(self, now_ms: int) -> None:
        self.state.timers.set(self._retention_timer, now_ms + self.state.config.offsets_retention_check_interval_ms)

    def _expired(self, timer: Timer, now_ms: int) -> None:
        if timer is self._retention_timer:
            expire_offsets(self.state, now_ms)
            self._plan_retention(now_ms)
        elif timer is self._silence.timer:
            self._silence.expired(self.state, now_ms)
        else:
            self._kinds.by_name[timer.event[0].partition(" ")[0]].expired(self.state, timer.event, now_ms)
