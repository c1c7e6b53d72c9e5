"""The parts of a kind of groups. The shard, the offsets and the tools use them, and know no kind by name.

A new kind is a folder with a `kind.py` that makes one of these, and a row in kinds.py. The state that operations
take is a `ShardState`; it is not named here because state.py imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequestGroup, TxnOffsetCommitRequest
from ....protocol.schema import Message
from ...common.result import GroupRequest
from ...common.timers import Event, Timer
from .offsets import CommittedOffset

if TYPE_CHECKING:
    pass


#: A ShardState.
State = Any
Operation = Callable[[State, GroupRequest, int], None]
#: Replays one record of a kind: the state, the record's key, its value.
Replay = Callable[[State, Any, Any], None]
#: Makes the response to a request that failed as a whole: the request, its version, the error.
ErrorResponse = Callable[[Any, int, ErrorCode], Message]
#: Classes of a record's key and value.
RecordType = tuple[type[Message], type[Message]]


class Session(NamedTuple):
    """The session of a member: its timer, and its length."""

    member_id: str
    timer: Timer
    timeout_ms: int


@dataclass(frozen=True)
class OffsetRules:
    """The rules for the offsets of a group. `group` is always of the kind; now is in milliseconds."""

    #: (state, group, request, version, now) -> of the whole request
    validate_commit: Callable[[State, Any, OffsetCommitRequest, int, int], ErrorCode]
    #: (group, request) -> of the whole request
    validate_transactional_commit: Callable[[Any, TxnOffsetCommitRequest], ErrorCode]
    #: (group) -> may offsets of topics without subscribers be deleted?
    validate_delete: Callable[[Any], ErrorCode]
    #: (state, group, topic, committed, now) -> has its retention passed?
    is_expired: Callable[[State, Any, str, CommittedOffset, int], bool]
    #: (group, request, topic id, partition) -> error of one partition; None if `validate_commit` is enough.
    validate_partition: Callable[[Any, OffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: The same within a transaction, where one partition that is refused refuses the whole request.
    validate_transactional_partition: Callable[[Any, TxnOffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: (group, request) -> error of the whole group; None if there is nothing to check.
    validate_fetch: Callable[[Any, OffsetFetchRequestGroup], ErrorCode] | None = None


@dataclass(frozen=True)
class Kind:
    #: The name of the kind and of its groups' class, and the first word of their timers' events.
    name: str
    operations: Mapping[type[Message], Operation]
    #: Key of a record -> what replays it.
    replays: Mapping[type[Message], Replay]
    #: The number that a key begins with -> key and value.
    record_types: Mapping[int, RecordType]
    #: Request -> its response with one error, where that is not the one of the schema.
    error_responses: Mapping[type[Message], ErrorResponse]
    offsets: OffsetRules
    #: (state, group, now): after the log was loaded.
    restore: Callable[[State, Any, int], None]
    #: (state, group): the sessions of its members, without those of which a request waits.
    sessions: Callable[[State, Any], Iterable[Session]]
    #: (state, event, now): a timer whose event begins with the kind's name and a space.
    expired: Callable[[State, Event, int], None]
    #: (state, group): writes the records that delete an empty group, without its offsets.
    delete: Callable[[State, Any], None]
    #: (group): why it may not be deleted; NONE when it is empty.
    validate_deletion: Callable[[Any], ErrorCode]
    #: (state, group, names of topics that came, went or have other partitions): `state.image` is the new one.
    metadata_changed: Callable[[State, Any, frozenset[str]], None] | None = None
    #: Whether an empty group goes when its last offset does.
    expires: bool = True
    #: Whether an empty group makes room for one of another kind that begins under its id.
    replaceable_when_empty: bool = True
    #: Handlers of classic requests to a group of the kind that has members: (state, group, message, now).
    classic_requests: Mapping[type[Message], Callable[[State, Any, GroupRequest, int], None]] = field(
        default_factory=dict
    )
    #: Requests whose members are given an id when they come without.
    joins: tuple[type[Message], ...] = field(default=())
