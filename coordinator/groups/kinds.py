"""All kinds of groups, and what follows from the list.

Many brokers never meet a group of the kinds in `LAZY_KINDS`: these are imported with the first request or record that is of
none of the others. Their kind.py then calls `add`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from ...protocol.schema import Message
from . import error_responses as refusals
from . import records
from .base.group import Group
from .base.kind import Kind, Operation, Replay
from .classic.kind import CLASSIC
from .consumer.kind import CONSUMER

#: Folders whose kind.py adds a kind.
LAZY_KINDS = ("share", "streams")

KINDS: dict[str, Kind] = {kind.name: kind for kind in (CLASSIC, CONSUMER)}

OPERATIONS: dict[type[Message], Operation] = {
    request: operation for kind in KINDS.values() for request, operation in kind.operations.items()
}
REPLAYS: dict[type[Message], Replay] = {key: replay for kind in KINDS.values() for key, replay in kind.replays.items()}
#: Requests whose members are given an id when they come without.
JOINS: frozenset[type[Message]] = frozenset(request for kind in KINDS.values() for request in kind.joins)


def kind_of(group: Group) -> Kind:
    return KINDS[group.kind]


def add(
    kind: Kind,
    record_types: Mapping[int, records.RecordType],
    refused: Mapping[type[Message], refusals.Refused],
) -> None:
    """A kind of `LAZY_KINDS`, whose members bring their own ids."""
    assert not kind.joins
    KINDS[kind.name] = kind
    OPERATIONS.update(kind.operations)
    REPLAYS.update(kind.replays)
    records.add_types(record_types)
    refusals.add(refused)


def load_lazy_kinds() -> None:
    for name in LAZY_KINDS:
        import_module(f".{name}.kind", __package__)


def operation(request: type[Message]) -> Operation:
    if request not in OPERATIONS:
        load_lazy_kinds()
    return OPERATIONS[request]
