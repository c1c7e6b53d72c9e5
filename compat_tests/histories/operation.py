"""An operation of a client, and files of operations: one JSON object a line, in any order.

| field | content |
|---|---|
| `process` | a number; one process has one operation at a time. After an unknown outcome another process goes on |
| `f` | the kind of operation, see below |
| `type` | `ok`: it took effect. `fail`: it did not, and never will. `info`: unknown, it may still take effect |
| `invoked`, `completed` | nanoseconds of one clock |
| `value` | what it did, see below |
| `client` | the library, for people |

A key names a partition, such as `orders/0`; a topic that is created again has another key. Each value is sent once. A send's
unknown offset is null. Process 0 is the recorder. Micro-operations are `["send", key, [offset, value]]` and
`["poll", {key: [[offset, value], ...]}]`.

| `f` | `value` |
|---|---|
| `send`, `poll`, `txn` | micro-operations in order |
| `assign` | `{key: offset}`: where reading begins; null: unknown |
| `subscribe` | a list of topics; the group decides which keys |
| `seek` | `{key: offset}` |
| `rebalance` | a list of keys that the process got or lost |
| `commit` | `{key: offset}`, with `group`, and with `generation` where the client has it |
| `join` | null; the member got an assignment of `generation` in `group` |
| `read`, `write` | the value of `register`. A read's null: nothing was written |
| `rise` | the value of `register`, which is above each one before |
| `delete` | a list of keys that are deleted: their values need not be seen any more |
| `crash` | null; the client ended without a word |
| `fault` | text; leaders may have changed between `invoked` and `completed` |
| `share-poll` | `[[key, offset, value, delivery count], ...]`, with `group` |
| `share-acknowledge` | `[[key, offset, "accept" | "release" | "reject"], ...]`, with `group` |
| `settings` | `{"delivery_limit": n, "lock_ns": n}` of `group` |

`isolation` is `read_committed` by default. `rebalanced`: keys that moved during the operation. `drained`: true in a
`settings` line if all records were read to the end, so that nothing may be unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

OK, FAIL, INFO = "ok", "fail", "info"
OUTCOMES = (OK, FAIL, INFO)
SEND, POLL, TXN = "send", "poll", "txn"
ASSIGN, SUBSCRIBE, SEEK, REBALANCE = "assign", "subscribe", "seek", "rebalance"
COMMIT, JOIN = "commit", "join"
READ, WRITE, RISE = "read", "write", "rise"
CRASH, FAULT, SETTINGS, DELETE = "crash", "fault", "settings", "delete"
SHARE_POLL, SHARE_ACKNOWLEDGE = "share-poll", "share-acknowledge"
KINDS = (SEND, POLL, TXN, ASSIGN, SUBSCRIBE, SEEK, REBALANCE, COMMIT, JOIN, READ, WRITE, RISE, CRASH, FAULT, SETTINGS,
         DELETE, SHARE_POLL, SHARE_ACKNOWLEDGE)  # fmt: skip
#: The kinds whose value is a list of micro-operations.
RECORD_KINDS = (SEND, POLL, TXN)
READ_COMMITTED = "read_committed"
#: The error of a transaction that its client has aborted.
ABORTED = "aborted"
#: The process of the recorder itself, which reads everything at the end: its lag is of no interest.
RECORDER = 0

#: An offset and a value; the offset of a send may be unknown.
Pair: TypeAlias = tuple[int | None, str]
#: The value of an operation, as JSON.
Content: TypeAlias = Any


class MalformedHistory(ValueError):
    """Raised for a line that is no operation; the text has the line's number."""


@dataclass(frozen=True, eq=False)
class Operation:
    process: int
    f: str
    type: str
    invoked: int
    completed: int
    value: Content = None
    client: str = ""
    isolation: str = READ_COMMITTED
    rebalanced: tuple[str, ...] = ()
    register: str = ""
    group: str = ""
    generation: int = -1
    drained: bool = False
    #: The error of an operation that is not `ok`.
    error: str = ""

    @property
    def sends(self) -> list[tuple[str, Pair]]:
        """Returns the key, offset and value of each send, in order."""
        if self.f not in RECORD_KINDS:
            return []
        return [(key, (offset, value)) for name, key, (offset, value) in _micro(self.value, SEND)]

    @property
    def polls(self) -> list[tuple[str, Pair]]:
        """Returns the key, offset and value of each record that was read, in order for each key."""
        if self.f not in RECORD_KINDS:
            return []
        return [
            (key, (offset, value))
            for _, batches in _micro(self.value, POLL)
            for key, pairs in batches.items()
            for offset, value in pairs
        ]

    @property
    def is_committed_read(self) -> bool:
        return self.isolation == READ_COMMITTED

    def to_line(self) -> str:
        """Returns the operation as a line, without fields that have their default."""
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        kept = {name: value for name, value in shown.items() if name in _ALWAYS or value != _DEFAULTS.get(name)}
        return json.dumps(kept, separators=(",", ":")) + "\n"

    def __str__(self) -> str:
        at = f"{self.invoked / 1e9:.3f} to {self.completed / 1e9:.3f} s"
        content = json.dumps(self.value)
        return f"process {self.process} {self.f} {self.type} {at} {content if len(content) < 400 else content[:400] + '...'}"


_DEFAULTS = {one.name: one.default for one in fields(Operation)}
_ALWAYS = ("process", "f", "type", "invoked", "completed")


def _micro(value: Content, name: str) -> list[Content]:
    return [micro for micro in value or () if micro[0] == name]


def write(path: Path, operations: Iterable[Operation]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(operation.to_line() for operation in operations)


def read(path: Path) -> list[Operation]:
    """Returns the operations in the order of their invocations. Leaves out a last line that a kill cut short."""
    with path.open(encoding="utf-8") as file:
        return sorted(parse(file), key=lambda operation: operation.invoked)


def parse(lines: Iterable[str]) -> Iterator[Operation]:
    for number, line in enumerate(lines, 1):
        if line.strip() and line.endswith("\n"):
            try:
                yield _operation(json.loads(line))
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise MalformedHistory(f"line {number}: {error}") from None


def _operation(content: Mapping[str, Content]) -> Operation:
    made = Operation(**{**content, "rebalanced": tuple(content.get("rebalanced", ()))})
    if made.f not in KINDS:
        raise ValueError(f"{made.f} is no kind of operation")
    if made.type not in OUTCOMES:
        raise ValueError(f"{made.type} is no outcome")
    if made.completed < made.invoked:
        raise ValueError("it completed before it was invoked")
    for key, (offset, value) in [*made.sends, *made.polls]:
        if not isinstance(key, str) or not isinstance(value, str) or not (offset is None or isinstance(offset, int)):
            raise ValueError(f"{key!r}, {offset!r}, {value!r} is no key, offset and value")
    return made
