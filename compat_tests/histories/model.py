"""A correct Kafka in memory, whose clients make histories without anomalies; tests of the checker change them.

Each step of an operation takes effect at one moment between its invocation and its completion. A reader of committed
records stops before the first record of an open transaction. Some operations have an unknown outcome, whether they took
effect or not; their process ends and another one goes on.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from random import Random

from .operation import ASSIGN, FAIL, INFO, OK, POLL, SEND, SETTINGS, TXN, Content, Operation

_MOST_POLLED = 5
_UNKNOWN_SHARE, _ABORTED_SHARE, _TRANSACTION_SHARE = 0.05, 0.25, 0.4


@dataclass
class _Entry:
    """A place of a log. A value of None is a marker."""

    value: str | None
    is_open: bool = False
    is_aborted: bool = False


@dataclass
class ModelKafka:
    logs: dict[str, list[_Entry]] = field(default_factory=lambda: defaultdict(list))

    def append(self, key: str, value: str | None, *, is_open: bool = False) -> int:
        self.logs[key].append(_Entry(value, is_open))
        return len(self.logs[key]) - 1

    def end(self, entries: list[tuple[str, int]], *, commits: bool) -> None:
        for key in {key for key, _ in entries}:
            self.append(key, None)
        for key, offset in entries:
            self.logs[key][offset].is_open, self.logs[key][offset].is_aborted = False, not commits

    def read(self, key: str, offset: int, most: int) -> tuple[list[tuple[int, str]], int]:
        """Returns committed records, and the offset after them."""
        found: list[tuple[int, str]] = []
        while offset < len(self.logs[key]) and len(found) < most and not self.logs[key][offset].is_open:
            entry = self.logs[key][offset]
            if entry.value is not None and not entry.is_aborted:
                found.append((offset, entry.value))
            offset += 1
        return found, offset


class ModelClients:
    """Clients that send, poll and transact, each on its own; `history` has what they did."""

    def __init__(self, rng: Random, clients: int = 4, keys: int = 2) -> None:
        self.rng = rng
        self.kafka = ModelKafka()
        self.keys = [f"model/{number}" for number in range(keys)]
        self.history: list[Operation] = []
        self._processes = itertools.count(1)
        self._values = itertools.count()
        self._clients = clients

    def run(self, operations: int) -> list[Operation]:
        turns = [(self.rng.randint(1, 9), number, self._client(operations)) for number in range(self._clients)]
        heapq.heapify(turns)
        now = 0
        while turns:
            now, number, client = heapq.heappop(turns)
            self.now = now
            if next(client, None) is not None:
                heapq.heappush(turns, (now + self.rng.randint(1, 9), number, client))
        self._drain(now + 100)
        return sorted(self.history, key=lambda operation: operation.invoked)

    def _client(self, operations: int) -> Iterator[bool]:
        """Yields before each effect; the caller moves the time."""
        process, positions = next(self._processes), dict.fromkeys(self.keys, 0)
        yield from self._assign(process, positions)
        for _ in range(operations):
            transacts = self.rng.random() < _TRANSACTION_SHARE
            before, invoked = dict(positions), self.now
            outcome, micro = yield from (self._transact if transacts else self._simple)(positions)
            f = TXN if transacts else str(micro[0][0]) if micro else POLL
            self.history.append(Operation(process, f, outcome, invoked, self.now, micro))
            yield True
            if outcome != OK:
                positions.update(before)
            if outcome == INFO:
                process = next(self._processes)
                yield from self._assign(process, positions)

    def _assign(self, process: int, positions: dict[str, int]) -> Iterator[bool]:
        self.history.append(Operation(process, ASSIGN, OK, self.now, self.now, dict(positions)))
        yield True

    def _simple(self, positions: dict[str, int]) -> Generator[bool, None, tuple[str, list[Content]]]:
        yield True
        is_unknown = self.rng.random() < _UNKNOWN_SHARE
        if self.rng.random() < 0.5:
            micro = [self._poll(positions)]
        elif is_unknown and self.rng.random() < 0.5:
            micro = [["send", self.rng.choice(self.keys), [None, self._value()]]]
        else:
            micro = [self._send(self.rng.choice(self.keys)) for _ in range(self.rng.randint(1, 3))]
        yield True
        if is_unknown and micro[0][0] == SEND:
            return INFO, [["send", key, [None, value]] for _, key, (_, value) in micro]
        return OK, micro

    def _transact(self, positions: dict[str, int]) -> Generator[bool, None, tuple[str, list[Content]]]:
        entries: list[tuple[str, int]] = []
        micro: list[Content] = []
        for _ in range(self.rng.randint(1, 4)):
            yield True
            polls = self.rng.random() < 0.4
            micro.append(self._poll(positions) if polls else self._send(self.rng.choice(self.keys), entries))
        yield True
        commits = self.rng.random() > _ABORTED_SHARE
        self.kafka.end(entries, commits=commits)
        yield True
        is_unknown = self.rng.random() < _UNKNOWN_SHARE
        return INFO if is_unknown else OK if commits else FAIL, micro

    def _value(self) -> str:
        return f"v{next(self._values)}"

    def _send(self, key: str, entries: list[tuple[str, int]] | None = None) -> Content:
        """Sends a value, within a transaction if there are `entries` of one."""
        value = self._value()
        offset = self.kafka.append(key, value, is_open=entries is not None)
        if entries is not None:
            entries.append((key, offset))
        return ["send", key, [offset, value]]

    def _poll(self, positions: dict[str, int]) -> Content:
        found = {}
        for key in self.keys:
            records, positions[key] = self.kafka.read(key, positions[key], self.rng.randint(0, _MOST_POLLED))
            if records:
                found[key] = [list(record) for record in records]
        return ["poll", found]

    def _drain(self, now: int) -> None:
        process = next(self._processes)
        self.history.append(Operation(process, ASSIGN, OK, now, now, dict.fromkeys(self.keys, 0)))
        for at, key in enumerate(self.keys, 1):
            records, _ = self.kafka.read(key, 0, len(self.kafka.logs[key]))
            value = [["poll", {key: [list(record) for record in records]}]]
            self.history.append(Operation(process, POLL, OK, now + at, now + at, value))
        self.history.append(Operation(0, SETTINGS, OK, 0, 0, drained=True))
