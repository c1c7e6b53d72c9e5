"""A kind of groups: its operations, records and rules. The shard, the offsets and the tools use them, and name no kind.

A new kind is a folder with a module `kind` that makes a `Kind`, and a row in all_kinds.py. The state of a shard, which has
groups of kinds, is a parameter of the type: it stands above this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequestGroup
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.schema import Message
from ..result import GroupRequest
from ..timers import Event
from .committed_offsets import CommittedOffset
from .session import Session

StateT = TypeVar("StateT")
Operation = Callable[[StateT, GroupRequest, int], None]
#: Replays one record of a kind: the state, the record's key, its value.
Replay = Callable[[StateT, Any, Any], None]
#: Makes the response to a request that failed as a whole: the request, its version, the error.
ErrorResponse = Callable[[Any, int, ErrorCode], Message]
#: Classes of a record's key and value.
RecordType = tuple[type[Message], type[Message]]


@dataclass(frozen=True)
class OffsetRules(Generic[StateT]):
    """The rules for the offsets of a group. `group` is always of the kind."""

    #: (state, group, request, version, now_ms) -> of the whole request
    validate_commit: Callable[[StateT, Any, OffsetCommitRequest, int, int], ErrorCode]
    #: (group, request) -> of the whole request
    validate_transactional_commit: Callable[[Any, TxnOffsetCommitRequest], ErrorCode]
    #: (group) -> may offsets of topics without subscribers be deleted?
    validate_delete: Callable[[Any], ErrorCode]
    #: (state, group, topic, committed, now_ms) -> has its retention passed?
    is_expired: Callable[[StateT, Any, str, CommittedOffset, int], bool]
    #: (group, request, topic id, partition) -> error of one partition; None if `validate_commit` is enough.
    validate_partition: Callable[[Any, OffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: The same within a transaction, where one partition that is refused refuses the whole request.
    validate_transactional_partition: Callable[[Any, TxnOffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: (group, request) -> error of the whole group; None if there is nothing to check.
    validate_fetch: Callable[[Any, OffsetFetchRequestGroup], ErrorCode] | None = None


@dataclass(frozen=True)
class Kind(Generic[StateT]):
    #: The name of the kind and of its groups' class, and the first word of their timers' events.
    name: str
    operations: Mapping[type[Message], Operation[StateT]]
    #: Key of a record -> what replays it.
    replays: Mapping[type[Message], Replay[StateT]]
    #: The number that a key begins with -> key and value.
    record_types: Mapping[int, RecordType]
    #: Request -> its response with one error, where that is not the one of the schema.
    error_responses: Mapping[type[Message], ErrorResponse]
    offsets: OffsetRules[StateT]
    #: (state, group, now_ms): after the log was loaded.
    restore: Callable[[StateT, Any, int], None]
    #: (state, group): the sessions of its members, without those of which a request waits.
    sessions: Callable[[StateT, Any], Iterable[Session]]
    #: (state, event, now_ms): a timer whose event begins with the kind's name and a space.
    expired: Callable[[StateT, Event, int], None]
    #: (state, group): writes the records that delete an empty group, without its offsets.
    delete: Callable[[StateT, Any], None]
    #: (group): why it may not be deleted; NONE when it is empty.
    validate_deletion: Callable[[Any], ErrorCode]
    #: (state, group, names of topics that came, went or have other partitions): `state.image` is the new one.
    metadata_changed: Callable[[StateT, Any, frozenset[str]], None] | None = None
    #: Whether an empty group goes when its last offset does.
    expires: bool = True
    #: Whether an empty group makes room for one of another kind that begins under its id.
    replaceable_when_empty: bool = True
    #: Handlers of classic requests to a group of the kind that has members: (state, group, message, now_ms).
    classic_requests: Mapping[type[Message], Callable[[StateT, Any, GroupRequest, int], None]] = field(
        default_factory=dict
    )
    #: Requests whose members are given an id when they come without.
    joins: tuple[type[Message], ...] = field(default=())
