"""All kinds of groups, and what follows from the list."""

from __future__ import annotations

from ..protocol.schema import Message
from .classic.kind import CLASSIC
from .consumer.kind import CONSUMER
from .group import Group
from .kind import Kind, Operation, Replay
from .share.kind import SHARE

KINDS: dict[str, Kind] = {kind.name: kind for kind in (CLASSIC, CONSUMER, SHARE)}

OPERATIONS: dict[type[Message], Operation] = {
    request: operation for kind in KINDS.values() for request, operation in kind.operations.items()
}
REPLAYS: dict[type[Message], Replay] = {key: replay for kind in KINDS.values() for key, replay in kind.replays.items()}
#: Requests whose members are given an id when they come without.
JOINS: frozenset[type[Message]] = frozenset(request for kind in KINDS.values() for request in kind.joins)


def kind_of(group: Group) -> Kind:
    return KINDS[group.kind]
