"""What a kind of groups brings along. The shard, the offsets and the tools go by it, and know no kind by name.

A new kind is a folder with a `kind.py` that makes one of these, a row in kinds.py, and its record types in records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.offset_commit import OffsetCommitRequest
from ....protocol.messages.offset_fetch import OffsetFetchRequestGroup
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ....protocol.schema import Message
from ...common.result import GroupRequest
from ...common.timers import Event

if TYPE_CHECKING:
    from .offset_store import CommittedOffset
    from .state import ShardState

Operation = Callable[["ShardState", GroupRequest, int], None]
#: What replays one record of a kind: the state, the record's key, its value.
Replay = Callable[["ShardState", Any, Any], None]


@dataclass(frozen=True)
class OffsetRules:
    """Who may do what with the offsets of a group. `group` is always one of the kind; now is in milliseconds."""

    #: (state, group, request, version, now) -> of the whole request
    refuse_commit: Callable[[ShardState, Any, OffsetCommitRequest, int, int], ErrorCode]
    #: (group, request) -> of the whole request
    refuse_transactional_commit: Callable[[Any, TxnOffsetCommitRequest], ErrorCode]
    #: (group) -> may offsets of topics that nobody subscribes to be deleted?
    refuse_delete: Callable[[Any], ErrorCode]
    #: (state, group, topic, committed, now) -> has its retention passed?
    is_expired: Callable[[ShardState, Any, str, CommittedOffset, int], bool]
    #: (group, request, topic id, partition) -> of one partition; None where the whole request says it all.
    refuse_partition: Callable[[Any, OffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: The same within a transaction, where one partition that is refused refuses the whole request.
    refuse_transactional_partition: Callable[[Any, TxnOffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: (group, what is asked) -> of the whole group; None where everybody may see.
    refuse_fetch: Callable[[Any, OffsetFetchRequestGroup], ErrorCode] | None = None


@dataclass(frozen=True)
class Kind:
    #: Of the groups' class too, and the first word of their timers' events.
    name: str
    operations: Mapping[type[Message], Operation]
    #: Key of a record -> what replays it.
    replays: Mapping[type[Message], Replay]
    offsets: OffsetRules
    #: (state, group, now): after the log was loaded.
    restore: Callable[[ShardState, Any, int], None]
    #: (state, event, now): a timer whose event begins with the kind's name and a space.
    expired: Callable[[ShardState, Event, int], None]
    #: (state, group): writes the records that delete an empty group, without its offsets.
    delete: Callable[[ShardState, Any], None]
    #: (group): why it may not be deleted; NONE when it is empty.
    refuse_deletion: Callable[[Any], ErrorCode]
    #: (state, group, names of topics that came, went or have other partitions): `state.image` is the new one.
    metadata_changed: Callable[[ShardState, Any, frozenset[str]], None] | None = None
    #: Whether an empty group goes when its last offset does.
    expires: bool = True
    #: Whether an empty group makes room for one of another kind that begins under its id.
    replaceable_when_empty: bool = True
    #: What requests of the classic protocol do to a group of the kind that has members: (state, group, message, now).
    classic_requests: Mapping[type[Message], Callable[[ShardState, Any, GroupRequest, int], None]] = field(
        default_factory=dict
    )
    #: Requests whose members are given an id when they come without.
    joins: tuple[type[Message], ...] = field(default=())
