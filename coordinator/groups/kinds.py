"""The kinds of groups that a coordinator has, and the tables that follow from the list."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.internal.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from ...protocol.schema import Message
from ..record_framing import prefix
from . import silence
from .kind import ErrorResponse, Kind, Operation, RecordType, Replay
from .shard_state import ShardState
from .silence import SilentMembersKey

_COMMITTED_OFFSET: dict[int, RecordType] = {1: (OffsetCommitKey, OffsetCommitValue)}


class Kinds:
    """The requests, records and groups of each kind.

    `more` returns further kinds. It is called once, for the first request or record that belongs to none of `kinds`. All
    shards of a broker share one `Kinds`: a kind that one of them has met is there for all.
    """

    def __init__(
        self, kinds: Iterable[Kind[ShardState]], more: Callable[[], Iterable[Kind[ShardState]]] = tuple
    ) -> None:
        self.by_name: dict[str, Kind[ShardState]] = {}
        self.replays: dict[type[Message], Replay[ShardState]] = {}
        #: The number that a key begins with -> key and value.
        self.record_types: dict[int, RecordType] = dict(_COMMITTED_OFFSET)
        #: Class of a key -> what its bytes begin with.
        self.prefixes: dict[type[Message], bytes] = {OffsetCommitKey: prefix(1)}
        #: Requests whose members get an id from the coordinator when they come without.
        self.joins: frozenset[type[Message]] = frozenset()
        self._operations: dict[type[Message], Operation[ShardState]] = {}
        self._error_responses: dict[type[Message], ErrorResponse] = {}
        self._more = more
        self._are_all_there = False
        for kind in kinds:
            self._add(kind)
        self.replays[SilentMembersKey] = silence.replay
        self.record_types.update(silence.RECORD_TYPES)
        self.prefixes.update({key: prefix(number) for number, (key, _) in silence.RECORD_TYPES.items()})

    def _add(self, kind: Kind[ShardState]) -> None:
        self.by_name[kind.name] = kind
        self.replays.update(kind.replays)
        self.record_types.update(kind.record_types)
        self.prefixes.update({key: prefix(number) for number, (key, _) in kind.record_types.items()})
        self.joins |= frozenset(kind.joins)
        self._operations.update(kind.operations)
        self._error_responses.update(kind.error_responses)

    def operation(self, request: type[Message]) -> Operation[ShardState]:
        if request not in self._operations:
            self.load_all()
        return self._operations[request]

    def error_response(self, request: type[Message]) -> ErrorResponse | None:
        """Returns what makes the error response to a request, where that is not the one of the schema."""
        if request not in self._operations:
            self.load_all()
        return self._error_responses.get(request)

    def record_type(self, number: int) -> RecordType | None:
        if number not in self.record_types:
            self.load_all()
        return self.record_types.get(number)

    def load_all(self) -> None:
        if self._are_all_there:
            return
        self._are_all_there = True
        for kind in self._more():
            self._add(kind)
