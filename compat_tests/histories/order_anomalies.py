"""Anomalies of order: a process that reads or sends backwards, or passes over records, between operations and within one."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from .case import Case
from .index import Index, Order
from .operation import ASSIGN, FAIL, OK, REBALANCE, RECORD_KINDS, SEEK, SUBSCRIBE, Operation, Pair

SKIP, NONMONOTONIC = "skip", "nonmonotonic"


def order_cases(index: Index) -> Iterator[Case]:
    for operations in index.by_process.values():
        yield from _polls(index, operations)
        yield from _sends(index, operations)
    for operation in index.history:
        if operation.f in RECORD_KINDS:
            yield from _within(index, operation, _by_key(operation.polls), "poll")
            yield from _within(index, operation, _by_key(operation.sends), "send")


@dataclass
class _Positions:
    """Where the process reads on: after a value of an operation, or at an offset."""

    after: dict[str, tuple[str, Operation]] = field(default_factory=dict)
    at: dict[str, tuple[int, Operation]] = field(default_factory=dict)
    is_subscribed: bool = False

    def move(self, operation: Operation, to: Mapping[str, int | None]) -> None:
        for key, offset in to.items():
            self.forget([key])
            if offset is not None:
                self.at[key] = offset, operation

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.after.pop(key, None)
            self.at.pop(key, None)


def _polls(index: Index, operations: Iterable[Operation]) -> Iterator[Case]:
    """Yields polls that do not begin where the process's last one ended. A group may move keys: under subscribe it is
    allowed.
    """
    positions = _Positions()
    for operation in operations:
        if operation.f in (ASSIGN, SUBSCRIBE) and operation.type != FAIL:
            positions = _Positions(is_subscribed=operation.f == SUBSCRIBE)
            if operation.f == ASSIGN:
                positions.move(operation, operation.value)
        elif operation.f == SEEK and operation.type != FAIL:
            positions.move(operation, operation.value)
        elif operation.f == REBALANCE:
            positions.forget(operation.value)
        elif operation.f in RECORD_KINDS:
            positions.forget(operation.rebalanced)
            for key, pairs in _by_key(operation.polls).items():
                yield from _first_read(index, operation, key, pairs[0], positions)
                # The offsets of a transaction that did not commit are not consumed: its reader begins at them again.
                if operation.type == OK:
                    positions.forget([key])
                    positions.after[key] = pairs[-1][1], operation


def _first_read(index: Index, operation: Operation, key: str, first: Pair, positions: _Positions) -> Iterator[Case]:
    order = index.orders.get(key)
    if order is None or first[1] not in order.index_of:
        return
    here = order.index_of[first[1]]
    before: Operation
    if key in positions.after:
        value, before = positions.after[key]
        if value not in order.index_of:
            return
        wanted = order.index_of[value] + 1
    elif key in positions.at:
        offset, before = positions.at[key]
        wanted = bisect_left(order.offsets, offset)
    else:
        return
    if here != wanted:
        name = SKIP if here > wanted else NONMONOTONIC
        text = f"{key} is read on at {first[1]}, offset {first[0]}{_passed(order, wanted, here)}"
        named = "poll-skip" if name == SKIP else "nonmonotonic-poll"
        yield Case(named, text, [before, operation], is_allowed=positions.is_subscribed)


def _sends(index: Index, operations: Iterable[Operation]) -> Iterator[Case]:
    """Yields sends of a process whose values are in another order in the log."""
    last: dict[str, tuple[str, Operation]] = {}
    for operation in operations:
        if operation.f not in RECORD_KINDS or operation.type == FAIL:
            continue
        for key, pairs in _by_key(operation.sends).items():
            order = index.orders.get(key)
            known = [pair[1] for pair in pairs if order is not None and pair[1] in order.index_of]
            if order is None or not known:
                continue
            if key in last:
                value, before = last[key]
                if order.index_of[known[0]] <= order.index_of[value]:
                    text = f"{key} has {known[0]} before {value}, which the process sent earlier"
                    yield Case("nonmonotonic-send", text, [before, operation])
            last[key] = known[-1], operation


def _within(index: Index, operation: Operation, by_key: Mapping[str, list[Pair]], kind: str) -> Iterator[Case]:
    """Yields pairs of reads or sends of one operation that skip values or go back. Transactions interleave, so skips of
    sends are allowed.
    """
    for key, pairs in by_key.items():
        order = index.orders.get(key)
        if order is None or (kind == "poll" and key in operation.rebalanced):
            continue
        for (_, former), (_, latter) in pairwise(pairs):
            if former not in order.index_of or latter not in order.index_of:
                continue
            wanted, here = order.index_of[former] + 1, order.index_of[latter]
            if here == wanted:
                continue
            name = f"int-{kind}-skip" if here > wanted else f"int-nonmonotonic-{kind}"
            text = f"{key} has {former}, then {latter}{_passed(order, wanted, here)}"
            yield Case(name, text, [operation], is_allowed=name == "int-send-skip")


def _passed(order: Order, wanted: int, here: int) -> str:
    skipped = order.values[wanted:here]
    return f", without {skipped[:8]}" if skipped else ""


def _by_key(records: Iterable[tuple[str, Pair]]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for key, pair in records:
        found[key].append(pair)
    return found
