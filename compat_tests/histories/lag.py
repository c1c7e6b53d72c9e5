"""The realtime lag of polls: how long a record was certain to be in the log before a poll that did not return it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from .index import Index
from .operation import ASSIGN, OK, POLL, RECORD_KINDS, RECORDER, SEEK, SUBSCRIBE, TXN, Operation


@dataclass(frozen=True)
class Lag:
    nanoseconds: int
    key: str
    process: int
    at_ns: int

    def __str__(self) -> str:
        return f"{self.nanoseconds / 1e9:.3f} s, process {self.process}, key {self.key}, at {self.at_ns / 1e9:.3f} s"


class _Certain:
    """The time from which a log had an offset, or a later one."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._offsets: list[int] = []
        self._since: list[int] = []

    def add(self, offset: int, at_ns: int) -> None:
        self._known[offset] = min(at_ns, self._known.get(offset, at_ns))

    def finish(self) -> None:
        self._offsets = sorted(self._known)
        earliest = float("inf")
        for offset in reversed(self._offsets):
            earliest = min(earliest, self._known[offset])
            self._since.append(int(earliest))
        self._since.reverse()

    def since(self, offset: int) -> int | None:
        at = bisect_left(self._offsets, offset)
        return self._since[at] if at < len(self._offsets) else None


def worst_lag(index: Index) -> Lag | None:
    certain: dict[str, _Certain] = defaultdict(_Certain)
    for operation in index.history:
        if operation.type == OK:
            for key, (offset, _) in [*operation.sends, *operation.polls]:
                if offset is not None:
                    certain[key].add(offset, operation.completed)
    for one in certain.values():
        one.finish()
    lags = [
        lag
        for process, operations in index.by_process.items()
        if process != RECORDER
        for lag in _of_process(operations, certain)
    ]
    return max(lags, key=lambda lag: lag.nanoseconds, default=None)


def _of_process(operations: list[Operation], certain: Mapping[str, _Certain]) -> list[Lag]:
    found: list[Lag] = []
    next_offset: dict[str, int] = {}
    for operation in operations:
        if operation.type != OK:
            continue
        if operation.f == SUBSCRIBE:
            next_offset = {}
        elif operation.f in (ASSIGN, SEEK):
            moved = {key: offset for key, offset in operation.value.items() if offset is not None}
            next_offset = moved if operation.f == ASSIGN else {**next_offset, **moved}
        elif operation.f in RECORD_KINDS:
            for key in operation.rebalanced:
                next_offset.pop(key, None)
            for key, (offset, _) in operation.polls:
                next_offset[key] = max(next_offset.get(key, 0), (-1 if offset is None else offset) + 1)
            if operation.f in (POLL, TXN):
                found += _lags(operation, next_offset, certain)
    return found


def _lags(operation: Operation, next_offset: Mapping[str, int], certain: Mapping[str, _Certain]) -> list[Lag]:
    found = []
    for key, offset in next_offset.items():
        since = certain[key].since(offset) if key in certain else None
        lag = 0 if since is None else max(0, operation.invoked - since)
        found.append(Lag(lag, key, operation.process, operation.invoked))
    return found
